/* CSC (Du et al., "Confidence self-calibration for multi-label class-incremental learning", ECCV 2024). A graph network over the
 * classes, on the last feature map of the backbone, computes the scores (csc_network.h). It is trained with the backbone; a phase
 * adds its classes to it.
 *
 * With c the binary cross-entropy, its mean over the classes and the images of a step, p = σ(s), and s' the scores of old classes
 * before the phase, the loss is c(s, y) in the first phase, and then
 *   ½ c(s, y) over new classes + ½ c(s, σ(s')) over old classes + λ · mean over images of Σ over all classes of p ln(p + 10⁻⁵).
 * The last term is −λ times an entropy: it takes confidence from scores that are too sure. Its gradient by s is
 *   λ p (1 − p) (ln(p + 10⁻⁵) + p / (p + 10⁻⁵)).
 *
 * csc-r also shows images of a memory, chosen by herding on the pooled features. A label of theirs that their phase gave takes the
 * place of σ(s'); new classes count as absent in them, as labels that are not given do everywhere.
 *
 * The authors' program makes its optimiser once. In a phase it replaces C, A, R, W and their biases by larger ones, which the
 * optimiser does not know, so they never change after the first phase; R's and W's biases are drawn anew for all classes. Batch
 * norms keep their statistics after the first phase, and images are not shuffled. csc-form code does the same, except that Adam's
 * moments start anew in each phase, and that the factors of the backbone's batch norms stay as they are, too. */
#include "method/csc_network.h"
#include "method/head.h"
#include "net/network.h"

#include <math.h>
#include <string.h>

enum { STREAM_GRAPH = 11 };

struct csc {
    struct head head;
    bool as_code;
    struct csc_network net, before; /* before the phase */
    float *old_scores;              /* [capacity x old] */
};

/* ---- Scores ---- */

static struct csc_map map_of(const struct head *head, size_t images, const float *planes) {
    const struct shape shape = trained_network_shape(&head->network->net, 1);
    const size_t prefix = trained_network_prefix(&head->network->net);
    return (struct csc_map){images, prefix, shape.height * shape.width - prefix, planes};
}

/* In the code's form, batch norms are no longer trained after the first phase. */
static bool is_fixed(const struct csc *csc) {
    return csc->as_code && csc->head.old;
}

static l3a_status score(struct head *head, float *const *outputs, size_t rows, bool step, float *scores) {
    struct csc *csc = (struct csc *)head;
    const struct csc_map map = map_of(head, rows, outputs[1]);
    return csc_network_score(&csc->net, &map, step && !is_fixed(csc), scores);
}

/* ---- Loss ---- */

/* Adds scale · the cross-entropy of score s and target y. */
static void add_cross_entropy(float s, double y, double scale, double *loss, double *gradient) {
    const double x = (double)s;
    *loss += scale * ((x > 0 ? x : 0) + log1p(exp(-fabs(x))) - y * x);
    *gradient += scale * (1 / (1 + exp(-x)) - y);
}

static void add_entropy(float s, double scale, double *loss, double *gradient) {
    const double small = 1e-5, p = 1 / (1 + exp(-(double)s));
    *loss += scale * p * log(p + small);
    *gradient += scale * p * (1 - p) * (log(p + small) + p / (p + small));
}

static l3a_status loss(struct head *head, struct batch *batch, double *sum) {
    struct csc *csc = (struct csc *)head;
    const size_t old = head->old, classes = head->classes, added = classes - old;
    const double share = 1 / (double)batch->rows, part = old ? 0.5 : 1;
    l3a_status status = L3A_OK;
    if (old) {
        const struct csc_map map = map_of(head, batch->rows, head->network->old_outputs[1]);
        TRY(csc_network_score(&csc->before, &map, false, csc->old_scores));
    }
    for (size_t i = 0; i < batch->rows; i++) {
        for (size_t k = 0; k < classes; k++) {
            const size_t at = i * classes + k;
            double target = (double)batch->targets[at], gradient = 0;
            if (k < old && target < 1) {
                target = 1 / (1 + exp(-(double)csc->old_scores[i * old + k]));
            }
            add_cross_entropy(batch->scores[at], target, share * part / (double)(k < old ? old : added), sum, &gradient);
            if (old) {
                add_entropy(batch->scores[at], share * head->tuning.lambda, sum, &gradient);
            }
            batch->gradient[at] = (float)gradient;
        }
    }
done:
    return status;
}

static l3a_status go_back(struct head *head, struct batch *batch) {
    static const enum csc_part replaced[] = {CSC_CLASSIFY, CSC_RELATE, CSC_ADAPT, CSC_ADAPT_BIAS, CSC_LAST, CSC_LAST_BIAS};
    struct csc *csc = (struct csc *)head;
    struct head_network *network = head->network;
    const struct csc_map map = map_of(head, batch->rows, network->outputs[1]);
    l3a_status status = L3A_OK;
    TRY(csc_network_backward(&csc->net, &map, batch->gradient, network->own.gradient, network->by_outputs[1]));
    for (size_t i = 0; is_fixed(csc) && i < sizeof replaced / sizeof *replaced; i++) {
        const struct csc_values part = csc_network_part(&csc->net, replaced[i]);
        memset(network->own.gradient + part.first, 0, part.count * sizeof *network->own.gradient);
    }
done:
    return status;
}

/* ---- Phases ---- */

/* Published with 2048 channels and nodes of 1024 numbers. */
static size_t width_of(size_t channels) {
    return (channels + 1) / 2;
}

static size_t own_numbers(const struct head *head, size_t classes) {
    const size_t channels = trained_network_shape(&head->network->net, 1).channels;
    const struct csc_network net = {.classes = classes, .channels = channels, .width = width_of(channels)};
    return csc_network_part(&net, CSC_MEAN).first;
}

static l3a_status prepare(struct head *head, struct rows *rows) {
    struct csc *csc = (struct csc *)head;
    const size_t channels = trained_network_shape(&head->network->net, 1).channels;
    const uint64_t seed = random_bits(random_bits(head->seed, STREAM_GRAPH), head->network->phase);
    l3a_status status = L3A_OK;
    (void)rows;
    head->in_order = csc->as_code;
    csc_network_free(&csc->before);
    if (head->old) {
        csc->before = csc->net;
        csc->net = (struct csc_network){.context = NULL};
        TRY(csc_network_grow(&csc->before, head->classes, seed, csc->as_code, &csc->net));
    } else {
        TRY(csc_network_make(head->context, head->classes, channels, width_of(channels), seed, &csc->net));
    }
    release(head->context, csc->old_scores);
    csc->old_scores = NULL;
    TRY(allocate(head->context, head->batch, head->old * sizeof *csc->old_scores, &csc->old_scores));
    head->network->own.count = csc->net.numbers;
    head->network->own.all = csc->net.all;
    head->network->own.values = csc->net.values;
done:
    return status;
}

/* The graph network is kept with the values of the backbone. */
static l3a_status keep(struct head *head, struct rows *rows) {
    struct csc *csc = (struct csc *)head;
    l3a_status status = L3A_OK;
    (void)rows;
    csc_network_free(&csc->before);
    for (size_t i = 0; i < CSC_PARTS; i++) {
        const struct csc_values part = csc_network_part(&csc->net, (enum csc_part)i);
        TRY(trained_network_keep(&head->network->net, part.name, part.columns ? 2 : 1, (const uint64_t[]){part.rows, part.columns},
                                 part.values));
    }
done:
    return status;
}

static l3a_status keep_with_exemplars(struct head *head, struct rows *rows) {
    l3a_status status = L3A_OK;
    TRY(keep(head, rows));
    TRY(memory_keep_herded(head, rows));
done:
    return status;
}

static l3a_status resume(struct head *head, const l3a_state *from) {
    struct csc *csc = (struct csc *)head;
    const struct kept_value *transform = trained_network_find(&head->network->net, "csc.transform.weight");
    l3a_status status = L3A_OK;
    if (!transform || transform->rank != 2 || !transform->shape[0] || !transform->shape[1]) {
        return state_fail(from, "the graph network of its classes is missing");
    }
    TRY(csc_network_make(head->context, head->classes, (size_t)transform->shape[1], (size_t)transform->shape[0], 0, &csc->net));
    for (size_t i = 0; i < CSC_PARTS; i++) {
        const struct csc_values part = csc_network_part(&csc->net, (enum csc_part)i);
        const struct kept_value *kept = trained_network_find(&head->network->net, part.name);
        if (!kept || kept->count != part.count) {
            status = state_fail(from, "a value of the graph network of its classes is missing");
            goto done;
        }
        memcpy(part.values, kept->values, part.count * sizeof *part.values);
    }
done:
    return status;
}

static void release_all(struct head *head) {
    struct csc *csc = (struct csc *)head;
    csc_network_free(&csc->net);
    csc_network_free(&csc->before);
    release(head->context, csc->old_scores);
}

/* ---- Methods ---- */

/* Whether a step must leave a parameter of the backbone: in the code's form, the batch norms' factors in later phases. */
static bool trains(void *owner, const char *name, bool selected) {
    const struct csc *csc = owner;
    const struct network *network = &csc->head.network->net.reading.network;
    for (size_t i = 0; is_fixed(csc) && i < network->layer_count; i++) {
        const struct net_layer *layer = &network->layers[i];
        for (size_t kind = 0; layer->kind == LAYER_BATCH_NORM && kind < PARAMETER_KINDS; kind++) {
            const char *known = layer->parameters[kind].name;
            selected = selected && !(known && strcmp(known, name) == 0);
        }
    }
    return selected;
}

static const struct trained_tuning published = {.epochs = 20,
                                                .batch = 64,
                                                .backbone_rate = 4e-5,
                                                .later = 1,
                                                .first_rate = 4e-5,
                                                .rate = 4e-5,
                                                .schedule = SCHEDULE_CONSTANT,
                                                .optimiser = OPTIMISER_ADAM,
                                                .lambda = 0.04,
                                                .augmentation = {.cutout = 0.5, .rand_augment = true}};

static const struct head_network_rules network_rules = {.plan = {.trains = trains, .outputs = {OUTPUT_MAP}},
                                                        .compares = true,
                                                        .score = score,
                                                        .loss = loss,
                                                        .output_terms = go_back,
                                                        .own_numbers = own_numbers};

static const struct head_rules rules = {.size = sizeof(struct csc),
                                        .prepare = prepare,
                                        .finish = keep,
                                        .release = release_all,
                                        .resume = resume,
                                        .trained = &published,
                                        .network = &network_rules};

static const struct head_rules replay_rules = {.size = sizeof(struct csc),
                                               .joins = true,
                                               .prepare = prepare,
                                               .looks = true,
                                               .finish = keep_with_exemplars,
                                               .release = release_all,
                                               .resume = resume,
                                               .trained = &published,
                                               .network = &network_rules};

static l3a_status create_with(l3a_context *context, const struct head_rules *own, const l3a_options *settings, size_t width,
                              void **state) {
    static const struct tuning tuning = {20, 4e-5, 4e-5, 0.04, 20, true};
    l3a_status status = L3A_OK;
    TRY(head_create(context, own, &tuning, settings, width, state));
    ((struct csc *)*state)->as_code = settings->method.csc_form == L3A_CSC_FORM_CODE;
done:
    return status;
}

static l3a_status create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                         void **state) {
    (void)method;
    return create_with(context, &rules, settings, width, state);
}

static l3a_status create_replaying(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                                   void **state) {
    (void)method;
    return create_with(context, &replay_rules, settings, width, state);
}

#define SETTINGS "|epochs|batch|first-rate|rate|lambda|head-theta|train-backbone|csc-form|"

const struct learner csc_learner = {
    .create = create, HEAD_LEARNER_FUNCTIONS, .settings = SETTINGS, .trained_settings = "|backbone-rate|"};
const struct learner csc_r_learner = {.create = create_replaying,
                                      HEAD_LEARNER_FUNCTIONS,
                                      .settings = SETTINGS "memory|memory-per|",
                                      .trained_settings = "|backbone-rate|"};
