/* Elastic Weight Consolidation (Kirkpatrick et al. 2017) and its online form (Schwarz et al. 2018): coefficients that mattered to
 * earlier phases are held near their values by a penalty λ/2 Σᵢ Fᵢ (wᵢ − wᵢ*)², summed over earlier phases, each with its own F
 * and w* (ewc), or with one running F and the last w* (oewc).
 *
 * F is the diagonal of the Fisher information, which a linear logistic head has in closed form: with p = σ(wₖᵀz), the expectation
 * over the label of the squared derivative of the log-likelihood with respect to coefficient j of class k is p (1 − p) zⱼ², so
 *   F[k, j] = mean over the phase's images of pₖ (1 − pₖ) zⱼ².
 *
 * With a trained network, F of its numbers is the mean of the squared gradient of the loss of an image by itself, over up to
 * VISITED images drawn from the phase, with the labels that they have.
 *
 * A sum of parabolas is a parabola, so only ΣF and ΣF w* are kept, whatever the number of phases. */
#include "method/fisher.h"

struct ewc {
    struct head head;
    float *fisher, *pull;                 /* ΣF and ΣF w*, [classes x inputs] */
    float *network_fisher, *network_pull; /* the same of the network's numbers; NULL: it is frozen */
    float *values, *slopes, *sum;         /* of these, work space */
    size_t visited;
};

enum { VISITED = 1000 };

static const float DECAY = 0.95F; /* of the running F, per phase */

static l3a_status prepare(struct head *head, struct rows *rows) {
    struct ewc *ewc = (struct ewc *)head;
    l3a_status status = L3A_OK;
    (void)rows;
    TRY(head_widen(head, &ewc->fisher));
    TRY(head_widen(head, &ewc->pull));
    if (head->network) {
        const size_t numbers = head->network->trained_numbers, known = ewc->network_fisher ? numbers : 0;
        TRY(extend_array(head->context, &ewc->network_fisher, known, numbers, sizeof(float)));
        TRY(extend_array(head->context, &ewc->network_pull, known, numbers, sizeof(float)));
        TRY(extend_array(head->context, &ewc->values, 0, numbers, sizeof(float)));
        TRY(extend_array(head->context, &ewc->slopes, 0, numbers, sizeof(float)));
    }
done:
    return status;
}

static l3a_status add_network_penalty(struct head *head) {
    struct ewc *ewc = (struct ewc *)head;
    const float lambda = (float)head->tuning.lambda;
    l3a_status status = L3A_OK;
    if (!head->old) {
        return L3A_OK;
    }
    TRY(trained_network_read(&head->network->net, PARAMETER_GRADIENT, ewc->slopes));
    TRY(trained_network_read(&head->network->net, PARAMETER_VALUE, ewc->values));
    for (size_t i = 0; i < head->network->trained_numbers; i++) {
        ewc->slopes[i] += lambda * (ewc->network_fisher[i] * ewc->values[i] - ewc->network_pull[i]);
    }
    TRY(trained_network_write(&head->network->net, PARAMETER_GRADIENT, ewc->slopes));
done:
    return status;
}

static l3a_status add_square(struct head *head) {
    struct ewc *ewc = (struct ewc *)head;
    l3a_status status = L3A_OK;
    TRY(trained_network_read(&head->network->net, PARAMETER_GRADIENT, ewc->slopes));
    for (size_t i = 0; i < head->network->trained_numbers; i++) {
        ewc->sum[i] += ewc->slopes[i] * ewc->slopes[i];
    }
    ewc->visited++;
done:
    return status;
}

static l3a_status consolidate_network(struct head *head, struct rows *rows, float keeps) {
    struct ewc *ewc = (struct ewc *)head;
    const size_t numbers = head->network->trained_numbers;
    l3a_status status = L3A_OK;
    ewc->visited = 0;
    TRY(allocate_zeroed(head->context, numbers, sizeof *ewc->sum, &ewc->sum));
    TRY(head_network_visit(head, rows, VISITED, add_square));
    TRY(trained_network_read(&head->network->net, PARAMETER_VALUE, ewc->values));
    for (size_t i = 0; i < numbers; i++) {
        const float fisher = ewc->sum[i] / (float)ewc->visited, all = keeps * ewc->network_fisher[i] + fisher;
        ewc->network_pull[i] = keeps < 1 ? all * ewc->values[i] : ewc->network_pull[i] + fisher * ewc->values[i];
        ewc->network_fisher[i] = all;
    }
done:
    release(head->context, ewc->sum);
    ewc->sum = NULL;
    return status;
}

static void add_penalty(struct head *head, float *gradient) {
    const struct ewc *ewc = (const struct ewc *)head;
    const float lambda = (float)head->tuning.lambda;
    for (size_t i = 0; i < head->old * head->inputs; i++) {
        gradient[i] += lambda * (ewc->fisher[i] * head->coefficients[i] - ewc->pull[i]);
    }
}

static l3a_status consolidate(struct head *head, struct rows *rows, bool online) {
    struct ewc *ewc = (struct ewc *)head;
    l3a_status status = L3A_OK;
    float *fisher = NULL;
    if (head->network) {
        TRY(consolidate_network(head, rows, online ? DECAY : 1));
    }
    TRY(fisher_diagonal(head, rows, &fisher));
    for (size_t i = 0; i < head->classes * head->inputs; i++) {
        const float kept = online ? DECAY * ewc->fisher[i] : ewc->fisher[i];
        ewc->fisher[i] = kept + fisher[i];
        ewc->pull[i] = online ? ewc->fisher[i] * head->coefficients[i] : ewc->pull[i] + fisher[i] * head->coefficients[i];
    }
done:
    release(head->context, fisher);
    return status;
}

static l3a_status finish(struct head *head, struct rows *rows) {
    return consolidate(head, rows, false);
}

static l3a_status finish_online(struct head *head, struct rows *rows) {
    return consolidate(head, rows, true);
}

static void release_all(struct head *head) {
    struct ewc *ewc = (struct ewc *)head;
    release(head->context, ewc->fisher);
    release(head->context, ewc->pull);
    release(head->context, ewc->network_fisher);
    release(head->context, ewc->network_pull);
    release(head->context, ewc->values);
    release(head->context, ewc->slopes);
}

static const struct head_array kept[] = {
    {"fisher", offsetof(struct ewc, fisher), L3A_NUMBER_FLOAT32, EACH_CLASS, OF_INPUTS},
    {"pull", offsetof(struct ewc, pull), L3A_NUMBER_FLOAT32, EACH_CLASS, OF_INPUTS},
    {"network.fisher", offsetof(struct ewc, network_fisher), L3A_NUMBER_FLOAT32, NETWORK_ONCE, OF_NETWORK},
    {"network.pull", offsetof(struct ewc, network_pull), L3A_NUMBER_FLOAT32, NETWORK_ONCE, OF_NETWORK}};

static const struct head_network_rules network_rules = {.network_terms = add_network_penalty};

static const struct head_rules rules = {.size = sizeof(struct ewc),
                                        .prepare = prepare,
                                        .coefficient_terms = add_penalty,
                                        .looks = true,
                                        .network = &network_rules,
                                        .finish = finish,
                                        .release = release_all,
                                        .kept = kept,
                                        .kept_count = sizeof kept / sizeof kept[0]};
static const struct head_rules online_rules = {.size = sizeof(struct ewc),
                                               .prepare = prepare,
                                               .coefficient_terms = add_penalty,
                                               .looks = true,
                                               .network = &network_rules,
                                               .finish = finish_online,
                                               .release = release_all,
                                               .kept = kept,
                                               .kept_count = sizeof kept / sizeof kept[0]};

HEAD_LEARNER(ewc, rules, 20, 1e-2, 1e-2, 1000, 0, false);
HEAD_LEARNER(oewc, online_rules, 20, 1e-2, 1e-2, 1000, 0, false);
