/* KRT (knowledge restore and transfer, Dong et al. 2023): the network of krt_network.c, trained on the sum of two losses, for h
 * classes so far of which m are new, with the network before the phase (') beside it:
 *
 *   Σ ASL(s, y)   +   λ √(h/m) · mean over the step's rows of 1 − cos(e, e'),
 *
 * e being the embeddings of all earlier phases, one behind the other.
 *
 * y are the labels of the phase. They say nothing of old classes: such a label becomes 1 if σ(s') is above a threshold ("dynamic
 * pseudo-label"). Before a phase is trained, the threshold moves from where it was, at first 0.8, by 0.005 at a time, until the
 * mean number of old classes above it in a picture is within 0.1 of what is usual: 2.9 of COCO's 80 classes and 1.4 of VOC's 20,
 * times the part of the classes that are old. The pictures are changed as in training. Where 100 steps do not get there, the
 * published program ends; here, the threshold that came nearest is used.
 *
 * krt-r keeps exemplars of each class, chosen by herding on the pooled features of the backbone. They join the pictures of a phase,
 * with the labels of their own phase. In the published program they also get those of all phases between theirs and this one,
 * although no annotator has given them; the setting krt-leak does that. */
#include "method/krt_network.h"

#include "data/features.h"

#include <math.h>
#include <string.h>

enum { START = 160, STEPS = 200, TRIES = 100, STREAM_THRESHOLD = 10 };
static const double WITHIN = 0.1;

static double probability(float score) {
    return 1 / (1 + exp(-(double)score));
}

/* ---- The threshold ---- */

/* The pictures that a phase is trained on: its own, and behind them those of the memory. */
struct shown {
    const struct rows *rows;
    size_t count;
    size_t *pictures, *numbers; /* of a block */
    float *planes, *outputs[NETWORK_OUTPUTS];
    struct picture_feed feed;
};

static void shown_close(struct head *head, struct shown *shown) {
    release(head->context, shown->pictures);
    release(head->context, shown->numbers);
    release(head->context, shown->planes);
    for (size_t i = 0; i < NETWORK_OUTPUTS; i++) {
        release(head->context, shown->outputs[i]);
    }
    picture_feed_close(&shown->feed);
}

static l3a_status shown_open(struct head *head, const struct rows *rows, struct shown *shown) {
    const struct head_network *network = head->network;
    const l3a_loader_options *loader = &network->source->loader;
    l3a_status status = L3A_OK;
    *shown = (struct shown){.rows = rows, .count = rows->count + head->memory.count};
    picture_feed_open(head->context, &network->source->train, loader, &network->tuning.augmentation, &shown->feed);
    TRY(allocate(head->context, head->batch, sizeof *shown->pictures, &shown->pictures));
    TRY(allocate(head->context, head->batch, sizeof *shown->numbers, &shown->numbers));
    TRY(allocate(head->context, head->batch, 3 * loader->width * loader->height * sizeof *shown->planes, &shown->planes));
    for (size_t i = 0; i < trained_network_outputs(&network->net); i++) {
        const struct shape shape = network->net.old_shapes[i];
        TRY(allocate(head->context, head->batch, shape.channels * shape.height * shape.width * sizeof(float), &shown->outputs[i]));
    }
done:
    return status;
}

/* Probabilities of old classes, [pictures x old classes]. */
static l3a_status look_back(struct head *head, struct shown *shown, float *probabilities) {
    struct head_network *network = head->network;
    const size_t own = shown->rows->count, old = head->old;
    const uint64_t seed = random_bits(random_bits(head->seed, STREAM_THRESHOLD), network->phase);
    l3a_status status = L3A_OK;
    for (size_t first = 0; first < shown->count; first += head->batch) {
        const size_t left = shown->count - first, count = left < head->batch ? left : head->batch;
        TRY(report_progress(head->context, "threshold", first, shown->count));
        for (size_t i = 0; i < count; i++) {
            const size_t at = first + i;
            shown->pictures[i] = at < own ? shown->rows->pictures[at] : head->memory.pictures[at - own];
            shown->numbers[i] = at;
        }
        TRY(picture_feed_begin(&shown->feed, shown->pictures, shown->numbers, count, seed));
        TRY(picture_feed_take(&shown->feed, shown->planes, NULL));
        TRY(trained_network_run_old(&network->net, shown->planes, count, shown->outputs));
        for (size_t i = 0; i < count * old; i++) {
            probabilities[first * old + i] = (float)probability(shown->outputs[KRT_SCORES][i]);
        }
    }
    TRY(report_progress(head->context, "threshold", shown->count, shown->count));
done:
    return status;
}

static double threshold_at(uint64_t step) {
    return (double)step / STEPS;
}

/* How many old classes a picture has above the threshold, in the mean. */
static double mean_above(const float *probabilities, size_t pictures, size_t old, uint64_t step) {
    uint64_t above = 0;
    for (size_t i = 0; i < pictures * old; i++) {
        above += (double)probabilities[i] > threshold_at(step);
    }
    return (double)above / (double)pictures;
}

/* Above 1 there is nothing, and above 0 everything, so that it stays between them. */
static uint64_t find_threshold(const float *probabilities, size_t pictures, size_t old, double wanted, uint64_t step) {
    double nearest = INFINITY;
    uint64_t found = step;
    for (size_t i = 0; i <= TRIES && nearest > WITHIN; i++) {
        const double mean = mean_above(probabilities, pictures, old, step), apart = fabs(mean - wanted);
        found = apart < nearest ? step : found;
        nearest = apart < nearest ? apart : nearest;
        step += mean > wanted ? 1 : (uint64_t)-1;
    }
    return found;
}

static l3a_status choose_threshold(struct head *head, const struct rows *rows) {
    struct krt *krt = (struct krt *)head;
    const double wanted = (learns_coco(head) ? 2.9 / 80 : 1.4 / 20) * (double)head->old;
    struct shown shown = {.count = 0};
    float *probabilities = NULL;
    l3a_status status = L3A_OK;
    TRY(shown_open(head, rows, &shown));
    TRY(allocate(head->context, shown.count, head->old * sizeof *probabilities, &probabilities));
    TRY(look_back(head, &shown, probabilities));
    *krt->threshold = find_threshold(probabilities, shown.count, head->old, wanted, *krt->threshold);
done:
    shown_close(head, &shown);
    release(head->context, probabilities);
    return status;
}

/* ---- Labels of later phases ---- */

/* The first class of the phase that an exemplar was kept in: it has one of the classes of that phase, and no label of earlier ones.
 */
static size_t first_class_of(const struct lesson *lesson, const int8_t *labels, size_t classes) {
    size_t class = 0, phase = 0;
    while (class + 1 < classes && labels[class] != 1) {
        class ++;
    }
    while (lesson->bounds[phase + 1] <= class) {
        phase++;
    }
    return lesson->bounds[phase];
}

static l3a_status add_later_labels(struct head *head) {
    struct memory *memory = &head->memory;
    const struct lesson *lesson = head->lesson;
    const size_t classes = head->classes;
    size_t *rows = NULL;
    int8_t *labels = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(head->context, memory->count, sizeof *rows, &rows));
    TRY(allocate(head->context, memory->count, classes, &labels));
    for (size_t i = 0; i < memory->count; i++) {
        rows[i] = (size_t)memory->pictures[i];
    }
    TRY(features_gather_labels(lesson->train, rows, memory->count, lesson->columns, classes, labels));
    for (size_t i = 0; i < memory->count; i++) {
        int8_t *kept = memory->labels + i * classes;
        for (size_t k = first_class_of(lesson, kept, classes); k < classes; k++) {
            kept[k] = labels[i * classes + k] == 1;
        }
    }
done:
    release(head->context, rows);
    release(head->context, labels);
    return status;
}

/* ---- Training ---- */

/* λ of the published program, if the settings have none. */
static double lambda_of(const struct head *head) {
    const double coco = head->lesson->bounds[1] < 40 ? 100 : 300;
    return head->network->tuning.lambda > 0 ? head->network->tuning.lambda : learns_coco(head) ? coco : 80;
}

static l3a_status prepare(struct head *head, struct rows *rows) {
    struct krt *krt = (struct krt *)head;
    l3a_status status = L3A_OK;
    choose_later_rate(head);
    head->tuning.lambda = lambda_of(head);
    if (!krt->threshold) {
        TRY(allocate(head->context, 1, sizeof *krt->threshold, &krt->threshold));
        *krt->threshold = START;
    }
    if (head->old) {
        TRY(choose_threshold(head, rows));
    }
    if (krt->leak && head->memory.count) {
        TRY(add_later_labels(head));
    }
done:
    return status;
}

static void add_pseudo_labels(struct head *head, struct batch *batch) {
    const struct krt *krt = (const struct krt *)head;
    const float *before = head->network->old_outputs[KRT_SCORES];
    for (size_t i = 0; before && i < batch->rows; i++) {
        for (size_t k = 0; k < head->old; k++) {
            if (probability(before[i * head->old + k]) > threshold_at(*krt->threshold)) {
                batch->targets[i * head->classes + k] = 1;
            }
        }
    }
}

static l3a_status hold_tokens(struct head *head, struct batch *batch) {
    const struct head_network *network = head->network;
    if (!network->net.old) {
        return L3A_OK;
    }
    const struct shape shape = trained_network_shape(&network->net, KRT_TOKENS), old = network->net.old_shapes[KRT_TOKENS];
    const double weight = head->tuning.lambda * share_of_old(head) / (double)batch->rows;
    for (size_t i = 0; i < batch->rows; i++) {
        const size_t now = i * shape.channels * shape.height, before = i * old.channels * old.height;
        add_away_from(shape.channels, old.height, shape.height, network->outputs[KRT_TOKENS] + now,
                      network->old_outputs[KRT_TOKENS] + before, weight, network->by_outputs[KRT_TOKENS] + now);
    }
    return L3A_OK;
}

static void release_all(struct head *head) {
    release(head->context, ((struct krt *)head)->threshold);
}

static l3a_status resume(struct head *head, const l3a_state *from) {
    const uint64_t step = *((const struct krt *)head)->threshold;
    return step <= STEPS ? L3A_OK : state_fail(from, "the threshold is not valid");
}

static const struct head_array kept[] = {{"threshold", offsetof(struct krt, threshold), L3A_NUMBER_INT64, NETWORK_ONCE, OF_ONE}};

static const struct head_network_rules network_rules = {
    .plan = {.changes = {.describe = krt_describe, .make = krt_make}, .trains = krt_trains, .outputs = {"embedded", "pooled"}},
    .compares = true,
    .scores = true,
    .looks = KRT_POOLED,
    .set_targets = add_pseudo_labels,
    .output_terms = hold_tokens};

static const struct head_rules rules = {.size = sizeof(struct krt),
                                        .prepare = prepare,
                                        .release = release_all,
                                        .kept = kept,
                                        .kept_count = 1,
                                        .resume = resume,
                                        .trained = &published_tuning,
                                        .network = &network_rules};
static const struct head_rules replay_rules = {.size = sizeof(struct krt),
                                               .joins = true,
                                               .prepare = prepare,
                                               .looks = true,
                                               .finish = memory_keep_herded,
                                               .release = release_all,
                                               .kept = kept,
                                               .kept_count = 1,
                                               .resume = resume,
                                               .trained = &published_tuning,
                                               .network = &network_rules};

/* ---- The learners ---- */

static l3a_status create(l3a_context *context, const struct head_rules *own, size_t memory, const l3a_options *settings,
                         size_t width, void **state) {
    const struct tuning tuning = {.memory = memory, .of_each_class = true};
    l3a_status status = L3A_OK;
    FAIL_IF(settings->method.krt_width % 8, context, L3A_ERROR_OPTION, "use a multiple of 8",
            "krt: %zu numbers in a token do not divide into 8 heads", (size_t)settings->method.krt_width);
    TRY(head_create(context, own, &tuning, settings, width, state));
    struct krt *krt = *state;
    krt->width = (size_t)settings->method.krt_width;
    krt->leak = settings->method.krt_leak == L3A_KRT_LEAK_ON;
done:
    return status;
}

static l3a_status create_plain(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                               void **state) {
    (void)method;
    return create(context, &rules, 0, settings, width, state);
}

static l3a_status create_replaying(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                                   void **state) {
    (void)method;
    return create(context, &replay_rules, 20, settings, width, state);
}

const struct learner krt_learner = {.create = create_plain,
                                    HEAD_LEARNER_FUNCTIONS,
                                    .settings = "|loss|epochs|batch|lambda|head-theta|train-backbone|",
                                    .trained_settings = "|backbone-rate|krt-width|"};
const struct learner krt_r_learner = {.create = create_replaying,
                                      HEAD_LEARNER_FUNCTIONS,
                                      .settings = "|loss|epochs|batch|lambda|memory|memory-per|head-theta|train-backbone|",
                                      .trained_settings = "|backbone-rate|krt-width|krt-leak|"};
