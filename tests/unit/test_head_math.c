/* What heads are trained with: losses, penalties and distillation against finite differences, Adam and the rate against plain
 * formulas, what a memory keeps against naive choices. */
#include "support.h"

#include "base/vector_math.h"
#include "method/fisher.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static l3a_context *context;

static double near_uniform(uint64_t seed, uint64_t index, double low, double high) {
    return low + (high - low) * l3a_uniform(seed, index);
}

/* ---- Functions of one number ---- */

static void exp_and_log_are_those_of_libm(void **state) {
    (void)state;
    for (int i = -8000; i <= 8000; i++) {
        const float x = (float)i * 0.01F;
        assert_near((double)exponential(x) / exp((double)x), 1, 4e-7);
    }
    for (int i = 1; i <= 20000; i++) {
        const float x = (float)i * 1e-4F;
        assert_near((double)logarithm(x), log((double)x), 2e-7 * (1 + fabs(log((double)x))));
    }
}

static double naive_sigmoid(double s) {
    return 1 / (1 + exp(-s));
}

static double naive_loss(l3a_loss loss, double s, double y) {
    const double p = naive_sigmoid(s);
    if (loss == L3A_LOSS_BINARY) {
        return -y * log(p) - (1 - y) * log(1 - p);
    }
    const double q = fmax(p - 0.05, 0);
    return y > 0.5 ? -log(p) : -pow(q, 4) * log(1 - q);
}

static void gradients_of_losses_are_those_of_finite_differences(void **state) {
    (void)state;
    enum { ROWS = 3, CLASSES = 37 };
    const double h = 1e-5;
    for (l3a_loss loss = L3A_LOSS_ASYMMETRIC; loss <= L3A_LOSS_BINARY; loss++) {
        float scores[ROWS * CLASSES], targets[ROWS * CLASSES], gradient[ROWS * CLASSES];
        const float scale[ROWS] = {1, 0.25F, 0};
        for (size_t i = 0; i < ROWS * CLASSES; i++) {
            scores[i] = (float)near_uniform(1, i, -12, 12);
            targets[i] = i % 3 == 0;
        }
        loss_gradient(loss, ROWS, CLASSES, scores, targets, scale, gradient);
        for (size_t i = 0; i < ROWS * CLASSES; i++) {
            const double s = (double)scores[i], y = (double)targets[i];
            const double slope = (naive_loss(loss, s + h, y) - naive_loss(loss, s - h, y)) / (2 * h);
            assert_near((double)gradient[i], (double)scale[i / CLASSES] * slope, 2e-5);
        }
    }
}

static void easy_negatives_count_nothing(void **state) {
    (void)state;
    const float scores[2] = {-3, -2.9F}, targets[2] = {0, 0}, scale[1] = {1}; /* p = 0.047 and 0.052 */
    float gradient[2];
    loss_gradient(L3A_LOSS_ASYMMETRIC, 1, 2, scores, targets, scale, gradient);
    assert_true(gradient[0] == 0);
    assert_true(gradient[1] > 0);
}

static void gradient_of_distillation_is_that_of_finite_differences(void **state) {
    (void)state;
    enum { ROWS = 4, CLASSES = 5, OLD = 3 };
    const double h = 1e-5;
    float scores[ROWS * CLASSES], old[ROWS * OLD], gradient[ROWS * CLASSES];
    for (size_t i = 0; i < ROWS * CLASSES; i++) {
        scores[i] = (float)near_uniform(2, i, -5, 5);
        gradient[i] = (float)i;
    }
    for (size_t i = 0; i < ROWS * OLD; i++) {
        old[i] = (float)near_uniform(3, i, -5, 5);
    }
    distil_gradient(ROWS, CLASSES, OLD, scores, old, 0.5F, gradient);
    for (size_t i = 0; i < ROWS * CLASSES; i++) {
        const size_t k = i % CLASSES;
        double slope = 0;
        if (k < OLD) {
            const double y = naive_sigmoid((double)old[i / CLASSES * OLD + k]), s = (double)scores[i];
            slope = (naive_loss(L3A_LOSS_BINARY, s + h, y) - naive_loss(L3A_LOSS_BINARY, s - h, y)) / (2 * h);
        }
        assert_near((double)gradient[i], (double)i + 0.5 * slope, 1e-5);
    }
}

/* ---- The optimiser ---- */

static void adam_is_the_published_algorithm(void **state) {
    (void)state;
    enum { COUNT = 21, STEPS = 60 };
    float mean[COUNT] = {0}, square[COUNT] = {0}, coefficients[COUNT] = {0}, gradient[COUNT];
    double m[COUNT] = {0}, v[COUNT] = {0}, w[COUNT] = {0};
    struct adam adam = {.mean = mean, .square = square};
    for (size_t step = 1; step <= STEPS; step++) {
        const double rate = 0.01 * (double)step;
        for (size_t i = 0; i < COUNT; i++) {
            const double g = near_uniform(step, i, -1, 1) * pow(10, (double)(i % 5) - 4);
            gradient[i] = (float)g;
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            w[i] -= rate * (m[i] / (1 - pow(0.9, (double)step))) / (sqrt(v[i] / (1 - pow(0.999, (double)step))) + 1e-8);
        }
        adam_step(&adam, COUNT, rate, gradient, coefficients);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_near((double)coefficients[i], w[i], 1e-4);
    }
}

static void the_rate_goes_up_for_a_fifth_and_down_again(void **state) {
    (void)state;
    const double highest = 0.5, pi = acos(-1);
    for (size_t step = 0; step < 100; step++) {
        const double t = (double)step, up = highest / 25, down = up / 1e4;
        const double expected = t <= 19 ? up + (highest - up) * (1 - cos(pi * t / 19)) / 2
                                        : down + (highest - down) * (1 + cos(pi * (t - 19) / 80)) / 2;
        assert_near(one_cycle(step, 100, highest), expected, 1e-12);
    }
    for (size_t steps = 1; steps < 12; steps++) {
        for (size_t step = 0; step < steps; step++) {
            const double rate = one_cycle(step, steps, highest);
            assert_true(rate > 0 && rate <= highest);
        }
    }
}

/* ---- A head made by hand, to try its rules on ---- */

enum { WIDTH = 6, INPUTS = WIDTH + 1, CLASSES = 5, OLD = 3, NEW = 2, ROWS = 60 };

struct table {
    float features[ROWS * INPUTS];
    int8_t labels[ROWS * CLASSES];
};

static void fill_table(uint64_t seed, size_t rows, struct table *table) {
    for (size_t i = 0; i < rows * INPUTS; i++) {
        table->features[i] = i % INPUTS == WIDTH ? 1 : (float)near_uniform(seed, i, -1, 1);
    }
    for (size_t i = 0; i < rows * CLASSES; i++) {
        table->labels[i] = l3a_uniform(seed + 1, i) < 0.4;
    }
}

static struct head *make_head(const char *method, const struct learner *learner, double lambda) {
    l3a_options options;
    void *made = NULL;
    options_default(&options);
    options.method.lambda = lambda;
    assert_non_null(method_find(method));
    assert_ptr_equal(method_find(method)->learner, learner);
    assert_ok(context, learner->create(context, method_find(method), &options, WIDTH, &made));
    ((struct head *)made)->total_classes = CLASSES;
    return made;
}

/* The head comes to know so many classes more, with coefficients of its own. */
static void widen(struct head *head, size_t classes, struct rows *rows) {
    head->old = head->classes;
    head->classes += classes;
    assert_ok(context, head_widen(head, &head->coefficients));
    for (size_t i = head->old * INPUTS; i < head->classes * INPUTS; i++) {
        head->coefficients[i] = (float)near_uniform(99, i, -1, 1);
    }
    if (head->memory.count) {
        assert_ok(context, memory_resize(context, &head->memory, head->memory.capacity, head->classes));
    }
    if (head->rules->prepare) {
        assert_ok(context, head->rules->prepare(head, rows));
    }
}

static double dot(const float *coefficients, const float *features) {
    double sum = 0;
    for (size_t j = 0; j < INPUTS; j++) {
        sum += (double)coefficients[j] * (double)features[j];
    }
    return sum;
}

static void fisher_is_the_curvature_of_the_likelihood(void **state) {
    (void)state;
    static struct table table;
    struct rows rows = {.count = ROWS, .inputs = INPUTS, .classes = CLASSES, .features = table.features, .labels = table.labels};
    struct head *head = make_head("finetune", &finetune_learner, 0);
    float *fisher = NULL;
    const double h = 1e-3;
    fill_table(11, ROWS, &table);
    widen(head, CLASSES, &rows);
    assert_ok(context, fisher_diagonal(head, &rows, &fisher));
    for (size_t i = 0; i < CLASSES * INPUTS; i++) {
        double curve = 0; /* of −log p(y) by the weight; any label gives the same */
        for (size_t row = 0; row < ROWS; row++) {
            const float *z = table.features + row * INPUTS;
            const double s = dot(head->coefficients + i / INPUTS * INPUTS, z), d = h * (double)z[i % INPUTS];
            curve += (naive_loss(L3A_LOSS_BINARY, s + d, 1) + naive_loss(L3A_LOSS_BINARY, s - d, 1) -
                      2 * naive_loss(L3A_LOSS_BINARY, s, 1)) /
                     (h * h * ROWS);
        }
        assert_near((double)fisher[i], curve, 1e-5);
    }
    release(context, fisher);
    head_free(head);
}

/* λ/2 Σ over phases of decay · F (w − w*)², as it is written. */
static double naive_penalty(const double *w, double lambda, size_t phases, float *const fisher[], float *const anchor[],
                            const size_t *known, const double *decay, bool last_anchor) {
    double sum = 0;
    for (size_t t = 0; t < phases; t++) {
        for (size_t i = 0; i < known[t] * INPUTS; i++) {
            const double apart = w[i] - (double)anchor[last_anchor ? phases - 1 : t][i];
            sum += lambda / 2 * decay[t] * (double)fisher[t][i] * apart * apart;
        }
    }
    return sum;
}

static void penalty_of_ewc(const char *name, const struct learner *learner, bool online) {
    static struct table tables[2];
    const double lambda = 3.5, h = 1e-4, decay[2] = {online ? 0.95 : 1, 1};
    const size_t known[2] = {OLD, CLASSES};
    float *fisher[2] = {0}, *anchor[2] = {0}, gradient[CLASSES * INPUTS] = {0};
    double w[CLASSES * INPUTS];
    struct head *head = make_head(name, learner, lambda);
    for (size_t t = 0; t < 2; t++) {
        fill_table(20 + 2 * t, ROWS, &tables[t]);
        struct rows rows = {
            .count = ROWS, .inputs = INPUTS, .classes = t ? NEW : OLD, .features = tables[t].features, .labels = tables[t].labels};
        widen(head, rows.classes, &rows);
        for (size_t i = 0; i < head->classes * INPUTS; i++) {
            head->coefficients[i] += (float)near_uniform(30 + t, i, -0.3, 0.3);
        }
        assert_ok(context, fisher_diagonal(head, &rows, &fisher[t]));
        assert_ok(context, allocate(context, CLASSES * INPUTS, sizeof(float), &anchor[t]));
        memcpy(anchor[t], head->coefficients, head->classes * INPUTS * sizeof(float));
        assert_ok(context, head->rules->finish(head, &rows));
    }
    head->old = head->classes;
    for (size_t i = 0; i < CLASSES * INPUTS; i++) {
        head->coefficients[i] += (float)near_uniform(40, i, -1, 1);
        w[i] = (double)head->coefficients[i];
    }
    head->rules->coefficient_terms(head, gradient);
    for (size_t i = 0; i < CLASSES * INPUTS; i++) {
        const double at = w[i];
        w[i] = at + h;
        const double up = naive_penalty(w, lambda, 2, fisher, anchor, known, decay, online);
        w[i] = at - h;
        const double down = naive_penalty(w, lambda, 2, fisher, anchor, known, decay, online);
        w[i] = at;
        assert_near((double)gradient[i], (up - down) / (2 * h), 1e-5);
    }
    for (size_t t = 0; t < 2; t++) {
        release(context, fisher[t]);
        release(context, anchor[t]);
    }
    head_free(head);
}

static void gradient_of_the_penalty_is_that_of_finite_differences(void **state) {
    (void)state;
    penalty_of_ewc("ewc", &ewc_learner, false);
    penalty_of_ewc("oewc", &oewc_learner, true);
}

static double largest(const double *values, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, values[i]);
    }
    return most;
}

static void the_walk_is_weighed_by_fisher_and_path(void **state) {
    (void)state;
    enum { COUNT = OLD * INPUTS, STEPS = 30 };
    static struct table table;
    struct rows rows = {.count = ROWS, .inputs = INPUTS, .classes = OLD, .features = table.features, .labels = table.labels};
    const double lambda = 2;
    double fisher[COUNT] = {0}, path[COUNT] = {0};
    float gradient[COUNT], anchor[COUNT];
    struct head *head = make_head("rwalk", &rwalk_learner, lambda);
    fill_table(50, ROWS, &table);
    widen(head, OLD, &rows);
    for (size_t step = 0; step < STEPS; step++) {
        double moves[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            gradient[i] = (float)near_uniform(60 + step, i, -1, 1);
            moves[i] = (double)(float)near_uniform(160 + step, i, -0.1, 0.1);
        }
        head->rules->coefficient_terms(head, gradient); /* nothing is held in the first phase */
        for (size_t i = 0; i < COUNT; i++) {
            const double g = near_uniform(60 + step, i, -1, 1), before = (double)head->coefficients[i];
            assert_near((double)gradient[i], g, 1e-6);
            head->coefficients[i] += (float)moves[i];
            const double moved = (double)head->coefficients[i] - before;
            fisher[i] = 0.9 * fisher[i] + 0.1 * g * g;
            path[i] += fmax(0, -g * moved) / (0.5 * fisher[i] * moved * moved + 1e-8);
        }
        head->rules->stepped(head, &rows, NULL, NULL);
    }
    assert_ok(context, head->rules->finish(head, &rows));
    memcpy(anchor, head->coefficients, sizeof anchor);
    memset(gradient, 0, sizeof gradient);
    head->old = head->classes;
    head->rules->coefficient_terms(head, gradient);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(gradient[i] == 0);
        head->coefficients[i] += 0.25F;
    }
    head->rules->coefficient_terms(head, gradient);
    for (size_t i = 0; i < COUNT; i++) {
        const double importance = fisher[i] / largest(fisher, COUNT) + path[i] / largest(path, COUNT);
        assert_near((double)gradient[i], lambda * importance * (double)(head->coefficients[i] - anchor[i]), 2e-4);
    }
    head_free(head);
}

static void stored_scores_pull_by_their_squared_distance(void **state) {
    (void)state;
    static struct table table;
    struct rows rows = {.count = ROWS, .inputs = INPUTS, .classes = OLD, .features = table.features, .labels = table.labels};
    struct head *head = make_head("der++", &derpp_learner, 0.5);
    enum { REPLAYED = 8, FRESH = 2, STORED = 20 };
    float scores[STORED * CLASSES], stored[STORED * OLD], gradient[STORED * CLASSES];
    size_t slots[STORED], views[STORED];
    struct batch batch = {.fresh = STORED,
                          .last = STORED,
                          .rows = STORED,
                          .slots = slots,
                          .views = views,
                          .scores = stored,
                          .gradient = gradient,
                          .last_pass = true};
    fill_table(70, ROWS, &table);
    widen(head, OLD, &rows);
    for (size_t i = 0; i < STORED; i++) {
        slots[i] = i;
        views[i] = i % 4;
    }
    for (size_t i = 0; i < STORED * OLD; i++) {
        stored[i] = (float)near_uniform(72, i, -2, 2);
    }
    head->rules->stepped(head, &rows, slots, &batch); /* the reservoir has room, so that row i is in slot i */
    assert_int_equal(head->memory.count, STORED);
    for (size_t i = 0; i < STORED; i++) {
        assert_int_equal(head->rules->kept_view(head, i), i % 4);
    }
    rows.classes = NEW;
    widen(head, NEW, &rows);
    batch = (struct batch){
        .fresh = FRESH, .last = FRESH, .rows = FRESH + REPLAYED, .slots = slots, .scores = scores, .gradient = gradient};
    for (size_t i = 0; i < batch.rows; i++) {
        slots[i] = (i * 7) % STORED;
    }
    for (size_t i = 0; i < batch.rows * CLASSES; i++) {
        scores[i] = (float)near_uniform(71, i, -2, 2);
        gradient[i] = 5;
    }
    head->rules->score_terms(head, &batch);
    for (size_t i = 0; i < batch.rows; i++) {
        for (size_t k = 0; k < CLASSES; k++) {
            const double s = (double)scores[i * CLASSES + k], h = 1e-4;
            double expected = i < FRESH ? 5 : 0;
            if (i >= FRESH && k < OLD) {
                const double wanted = (double)stored[slots[i] * OLD + k];
                const double up = 0.5 * pow(s + h - wanted, 2) / REPLAYED, down = 0.5 * pow(s - h - wanted, 2) / REPLAYED;
                expected = (up - down) / (2 * h);
            }
            assert_near((double)gradient[i * CLASSES + k], expected, 1e-5);
        }
    }
    head_free(head);
}

/* Of one held image: the softmax cross-entropy over all classes, with the coefficients before the correction. */
static double image_correction_loss(const float *before, const float *features, const int8_t *labels, size_t first, size_t classes,
                                    double alpha, double beta) {
    double sum = 0, wanted = 0, present = 0;
    for (size_t k = 0; k < CLASSES; k++) {
        const double s = dot(before + k * INPUTS, features), u = k < OLD ? s : alpha * s + beta;
        sum += exp(u);
        if (k >= first && k < first + classes && labels[k - first] == 1) {
            wanted += u;
            present++;
        }
    }
    return present > 0 ? log(sum) - wanted / present : 0;
}

/* What bias correction makes least. */
static double correction_loss(const struct head *head, const float *before, const struct rows *held, const size_t *kept,
                              size_t kept_count, double alpha, double beta) {
    double loss = 0.5 * ((alpha - 1) * (alpha - 1) + beta * beta);
    for (size_t i = 0; i < held->count; i++) {
        loss += image_correction_loss(before, held->features + i * INPUTS, held->labels + i * NEW, OLD, NEW, alpha, beta);
    }
    for (size_t i = 0; i < kept_count; i++) {
        loss += image_correction_loss(before, head->memory.features + kept[i] * INPUTS, head->memory.labels + kept[i] * CLASSES, 0,
                                      OLD, alpha, beta);
    }
    return loss;
}

static void bias_correction_is_the_best_scale_and_shift(void **state) {
    (void)state;
    static struct table tables[2], held_table;
    const double h = 1e-3;
    float before[CLASSES * INPUTS];
    struct head *head = make_head("bic", &bic_learner, 0);
    head->tuning.memory = 10;
    fill_table(80, ROWS, &tables[0]);
    fill_table(82, ROWS, &tables[1]);
    struct rows first = {
        .count = ROWS, .inputs = INPUTS, .classes = OLD, .features = tables[0].features, .labels = tables[0].labels};
    struct rows second = {
        .count = ROWS, .inputs = INPUTS, .classes = NEW, .features = tables[1].features, .labels = tables[1].labels};
    widen(head, OLD, &first);
    assert_int_equal(first.count, ROWS);
    assert_ok(context, head->rules->finish(head, &first));
    const size_t kept[] = {0, 10, 20}, kept_count = (head->memory.count + 9) / 10, wanted = (kept_count * NEW + OLD - 1) / OLD;
    assert_in_range(head->memory.count, 11, 30); /* 10 of each class, shared ones once */
    memcpy(&held_table, &tables[1], sizeof held_table);
    widen(head, NEW, &second);
    assert_int_equal(second.count, ROWS - wanted);
    struct rows held = {.count = 0, .inputs = INPUTS, .classes = NEW, .features = held_table.features, .labels = held_table.labels};
    for (size_t i = 0; i < ROWS; i++) { /* those that are in the phase no more */
        bool there = false;
        for (size_t j = 0; j < second.count; j++) {
            there = there || memcmp(held_table.features + i * INPUTS, second.features + j * INPUTS, INPUTS * sizeof(float)) == 0;
        }
        if (!there) {
            memmove(held.features + held.count * INPUTS, held_table.features + i * INPUTS, INPUTS * sizeof(float));
            memmove(held.labels + held.count * NEW, held_table.labels + i * NEW, NEW);
            held.count++;
        }
    }
    assert_int_equal(held.count, wanted);
    memcpy(before, head->coefficients, sizeof before);
    assert_ok(context, head->rules->finish(head, &second));
    assert_memory_equal(before, head->coefficients, OLD * INPUTS * sizeof(float));
    const double alpha = (double)(head->coefficients[OLD * INPUTS] / before[OLD * INPUTS]);
    const double beta = (double)head->coefficients[OLD * INPUTS + WIDTH] - alpha * (double)before[OLD * INPUTS + WIDTH];
    for (size_t i = OLD * INPUTS; i < CLASSES * INPUTS; i++) {
        assert_near((double)head->coefficients[i], alpha * (double)before[i] + (i % INPUTS == WIDTH ? beta : 0), 1e-5);
    }
    const double least = correction_loss(head, before, &held, kept, kept_count, alpha, beta);
    for (int i = 0; i < 8; i++) {
        assert_true(correction_loss(head, before, &held, kept, kept_count, alpha + h * cos(i), beta + h * sin(i)) > least);
    }
    head_free(head);
}

/* ---- What memories keep ---- */

enum { STREAM = 600, KINDS = 8, SLOTS_KEPT = 60 };

/* The first kind is on most images, the last on few; a row's first feature is its number. */
static void make_stream(float *features, int8_t *labels) {
    for (size_t i = 0; i < STREAM; i++) {
        for (size_t j = 0; j < INPUTS; j++) {
            features[i * INPUTS + j] = j == 0 ? (float)i : j == WIDTH ? 1 : (float)near_uniform(90, i * INPUTS + j, -1, 1);
        }
        for (size_t k = 0; k < KINDS; k++) {
            labels[i * KINDS + k] = l3a_uniform(91, i * KINDS + k) < 0.6 * pow(0.55, (double)k);
        }
        labels[i * KINDS] |= labels[i * KINDS + i % KINDS] == 0 && i % KINDS == 0;
    }
}

static double divergence(const size_t *kept) {
    double sum = 0, found = 0;
    for (size_t k = 0; k < KINDS; k++) {
        sum += (double)kept[k];
    }
    for (size_t k = 0; k < KINDS; k++) {
        const double share = (double)kept[k] / sum;
        found += share > 0 ? share * log(share * KINDS) : 0;
    }
    return found;
}

static void count_kinds(const int8_t *labels, const size_t *slots, size_t rows, size_t *kept) {
    memset(kept, 0, KINDS * sizeof *kept);
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < KINDS; k++) {
            kept[k] += labels[slots[i] * KINDS + k] == 1;
        }
    }
}

static struct head *offer_stream(const char *method, const struct learner *learner, float *features, int8_t *labels,
                                 size_t memory) {
    struct head *head = make_head(method, learner, 0);
    struct rows rows = {.count = STREAM, .inputs = INPUTS, .classes = KINDS, .features = features, .labels = labels};
    struct batch batch = {.fresh = STREAM, .last_pass = true};
    size_t order[STREAM];
    head->tuning.memory = memory;
    head->tuning.of_each_class = false;
    widen(head, KINDS, &rows);
    for (size_t i = 0; i < STREAM; i++) {
        order[i] = i;
    }
    if (head->rules->stepped) {
        head->rules->stepped(head, &rows, order, &batch);
    }
    if (head->rules->finish) {
        assert_ok(context, head->rules->finish(head, &rows));
    }
    return head;
}

static void rows_of(const struct head *head, size_t *rows) {
    for (size_t i = 0; i < head->memory.count; i++) {
        rows[i] = (size_t)head->memory.features[i * INPUTS];
    }
}

static void balanced_memories_are_better_balanced_than_a_random_one(void **state) {
    (void)state;
    static float features[STREAM * INPUTS];
    static int8_t labels[STREAM * KINDS];
    static const struct {
        const char *method;
        const struct learner *learner;
        size_t memory;
    } cases[] = {{"er", &er_learner, SLOTS_KEPT}, {"prs", &prs_learner, SLOTS_KEPT}, {"ocdm", &ocdm_learner, SLOTS_KEPT}};
    double values[3];
    make_stream(features, labels);
    for (size_t i = 0; i < 3; i++) {
        struct head *head = offer_stream(cases[i].method, cases[i].learner, features, labels, cases[i].memory);
        size_t rows[SLOTS_KEPT], kept[KINDS];
        assert_int_equal(head->memory.count, SLOTS_KEPT);
        rows_of(head, rows);
        count_kinds(labels, rows, head->memory.count, kept);
        values[i] = divergence(kept);
        for (size_t j = 0; j < head->memory.count; j++) { /* the memory's labels are those of its rows */
            assert_memory_equal(head->memory.labels + j * KINDS, labels + rows[j] * KINDS, KINDS);
        }
        head_free(head);
    }
    assert_true(values[1] < 0.5 * values[0]);
    assert_true(values[2] < 0.5 * values[0]);
}

static void ocdm_gives_up_what_a_plain_search_does(void **state) {
    (void)state;
    static float features[STREAM * INPUTS];
    static int8_t labels[STREAM * KINDS];
    make_stream(features, labels);
    struct head *head = offer_stream("ocdm", &ocdm_learner, features, labels, SLOTS_KEPT);
    struct head *other = make_head("ocdm", &ocdm_learner, 0); /* for the order of the stream */
    size_t order[STREAM], slots[SLOTS_KEPT + 1], count = 0, found[SLOTS_KEPT];
    stream_shuffle(&other->random, order, STREAM);
    for (size_t i = 0; i < STREAM; i++) {
        slots[count++] = order[i];
        if (count > SLOTS_KEPT) {
            size_t best = 0;
            double least = INFINITY;
            for (size_t out = 0; out < count; out++) {
                size_t kept[KINDS], rest[SLOTS_KEPT];
                for (size_t j = 0; j < SLOTS_KEPT; j++) {
                    rest[j] = slots[j + (j >= out)];
                }
                count_kinds(labels, rest, SLOTS_KEPT, kept);
                if (divergence(kept) < least - 1e-12) {
                    least = divergence(kept);
                    best = out;
                }
            }
            slots[best] = slots[--count];
        }
    }
    assert_int_equal(head->memory.count, SLOTS_KEPT);
    rows_of(head, found);
    size_t expected[KINDS], got[KINDS];
    count_kinds(labels, slots, SLOTS_KEPT, expected);
    count_kinds(labels, found, SLOTS_KEPT, got);
    assert_memory_equal(got, expected, sizeof got);
    head_free(head);
    head_free(other);
}

static void exemplars_bring_their_mean_near_the_class_s(void **state) {
    (void)state;
    enum { WANTED = 4 };
    static struct table table;
    bool kept[ROWS] = {0};
    size_t count = 0;
    fill_table(95, ROWS, &table);
    struct rows rows = {.count = ROWS, .inputs = INPUTS, .classes = OLD, .features = table.features, .labels = table.labels};
    for (size_t k = 0; k < OLD; k++) {
        double unit[ROWS][WIDTH], mean[WIDTH] = {0}, sum[WIDTH] = {0}, members = 0;
        bool chosen[ROWS] = {0};
        for (size_t i = 0; i < ROWS; i++) {
            double square = 0;
            for (size_t j = 0; j < WIDTH; j++) {
                square += (double)table.features[i * INPUTS + j] * (double)table.features[i * INPUTS + j];
            }
            members += table.labels[i * OLD + k];
            for (size_t j = 0; j < WIDTH; j++) {
                unit[i][j] = (double)table.features[i * INPUTS + j] / sqrt(square);
                mean[j] += table.labels[i * OLD + k] ? unit[i][j] : 0;
            }
        }
        for (size_t n = 1; n <= WANTED; n++) {
            size_t best = ROWS;
            double least = INFINITY;
            for (size_t i = 0; i < ROWS; i++) {
                double apart = 0;
                for (size_t j = 0; j < WIDTH; j++) {
                    apart += pow(mean[j] / members - (sum[j] + unit[i][j]) / (double)n, 2);
                }
                if (table.labels[i * OLD + k] && !chosen[i] && apart < least) {
                    least = apart;
                    best = i;
                }
            }
            chosen[best] = kept[best] = true;
            for (size_t j = 0; j < WIDTH; j++) {
                sum[j] += unit[best][j];
            }
        }
    }
    struct head *head = make_head("icarl", &icarl_learner, 0);
    head->tuning.memory = WANTED;
    widen(head, OLD, &rows);
    assert_ok(context, head->rules->finish(head, &rows));
    for (size_t i = 0; i < ROWS; i++) {
        if (kept[i]) {
            assert_memory_equal(head->memory.features + count * INPUTS, table.features + i * INPUTS, INPUTS * sizeof(float));
            count++;
        }
    }
    assert_int_equal(head->memory.count, count);
    head_free(head);
}

static void a_draw_has_every_row_equally_often_and_none_twice(void **state) {
    (void)state;
    enum { COUNT = 23, DRAW = 9, ROUNDS = 20000 };
    struct memory memory = {.inputs = INPUTS};
    struct stream random = {.seed = 5};
    size_t times[COUNT] = {0}, slots[COUNT];
    assert_int_equal(memory_draw(&memory, &random, DRAW, slots), 0);
    assert_ok(context, memory_resize(context, &memory, COUNT + 4, 1));
    memory.count = COUNT;
    for (size_t i = 0; i < ROUNDS; i++) {
        bool drawn[COUNT] = {0};
        assert_int_equal(memory_draw(&memory, &random, DRAW, slots), DRAW);
        for (size_t j = 0; j < DRAW; j++) {
            assert_false(drawn[slots[j]]);
            drawn[slots[j]] = true;
            times[slots[j]]++;
        }
    }
    for (size_t i = 0; i < COUNT; i++) { /* within five standard deviations of a binomial count */
        const double share = (double)DRAW / COUNT;
        assert_near((double)times[i], ROUNDS * share, 5 * sqrt(ROUNDS * share * (1 - share)));
    }
    assert_int_equal(memory_draw(&memory, &random, 100, slots), COUNT);
    memory_free(context, &memory);
}

/* Every row of the stream is in the reservoir with the same probability, whenever it came. */
static void a_reservoir_is_a_fair_sample_of_the_stream(void **state) {
    (void)state;
    enum { SLOTS = 10, OFFERED = 40, ROUNDS = 4000 };
    float features[OFFERED];
    int8_t labels[OFFERED] = {0};
    size_t times[OFFERED] = {0};
    struct rows rows = {.count = OFFERED, .inputs = 1, .classes = 1, .features = features, .labels = labels};
    struct stream random = {.seed = 6};
    for (size_t i = 0; i < OFFERED; i++) {
        features[i] = (float)i;
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        struct memory memory = {.inputs = 1};
        assert_ok(context, memory_resize(context, &memory, SLOTS, 1));
        for (size_t j = 0; j < OFFERED; j++) {
            const size_t slot = memory_offer(&memory, &random, &rows, j);
            assert_true(slot == SIZE_MAX || memory.features[slot] == features[j]);
        }
        assert_int_equal(memory.count, SLOTS);
        for (size_t j = 0; j < SLOTS; j++) {
            times[(size_t)memory.features[j]]++;
        }
        memory_free(context, &memory);
    }
    for (size_t i = 0; i < OFFERED; i++) {
        const double share = (double)SLOTS / OFFERED;
        assert_near((double)times[i], ROUNDS * share, 5 * sqrt(ROUNDS * share * (1 - share)));
    }
}

static void memory_is_counted_for_each_class_or_in_all(void **state) {
    (void)state;
    struct head *head = make_head("er", &er_learner, 0);
    head->total_classes = 20;
    assert_int_equal(head_memory_slots(head), 400); /* 20 for each class is the default */
    head->tuning.memory = 2;
    assert_int_equal(head_memory_slots(head), 40);
    head->tuning.of_each_class = false;
    head->tuning.memory = 100;
    assert_int_equal(head_memory_slots(head), 100);
    assert_int_equal(head_memory_of_class(head), 5);
    head_free(head);
    head = make_head("prs", &prs_learner, 0);
    assert_int_equal(head_memory_slots(head), 1000);
    head_free(head);
}

static void random_exemplars_are_so_many_of_each_class(void **state) {
    (void)state;
    enum { WANTED = 7 };
    static struct table table;
    struct head *head = make_head("bic", &bic_learner, 0);
    struct rows rows = {.count = ROWS, .inputs = INPUTS, .classes = OLD, .features = table.features, .labels = table.labels};
    fill_table(97, ROWS, &table);
    for (size_t i = 0; i < ROWS; i++) { /* no image shows two, and the last class is on few */
        for (size_t k = 0; k < OLD; k++) {
            table.labels[i * OLD + k] = i % OLD == k && (k + 1 < OLD || i < 4 * OLD);
        }
    }
    head->tuning.memory = WANTED;
    head->memory.inputs = INPUTS;
    widen(head, OLD, &rows);
    assert_ok(context, memory_keep_random(head, &rows));
    for (size_t k = 0; k < OLD; k++) {
        size_t count = 0;
        for (size_t i = 0; i < head->memory.count; i++) {
            count += head->memory.labels[i * OLD + k] == 1;
        }
        assert_int_equal(count, k + 1 < OLD ? WANTED : 4);
    }
    head_free(head);
}

/* Of the views that steps showed, as whole picture and as each crop. */
enum { CROPS = 3 };
static size_t shown_views[1 + CROPS];

static void count_views(struct head *head, const struct rows *rows, const size_t *shown, const struct batch *batch) {
    (void)rows;
    for (size_t i = 0; i < batch->rows; i++) {
        shown_views[batch->views[i]]++;
        /* the row is that view of that image: its first feature says which */
        assert_true(batch->stored[i * head->stored] == (float)(shown[i] * (1 + CROPS) + batch->views[i]));
    }
}

static void a_step_shows_the_whole_picture_half_of_the_time(void **state) {
    (void)state;
    static const struct head_rules rules = {.size = sizeof(struct head), .stepped = count_views};
    static const struct tuning tuning = {.epochs = 200, .first_rate = 1e-3, .rate = 1e-3};
    static float features[ROWS * (1 + CROPS) * INPUTS];
    static int8_t labels[ROWS * OLD];
    struct rows rows = {.count = ROWS, .inputs = (1 + CROPS) * INPUTS, .classes = OLD, .features = features, .labels = labels};
    l3a_options options;
    void *made = NULL;
    for (size_t i = 0; i < ROWS * (1 + CROPS); i++) {
        features[i * INPUTS] = (float)i;
        features[i * INPUTS + WIDTH] = 1;
    }
    options_default(&options);
    options.model.views = CROPS;
    assert_ok(context, head_create(context, &rules, &tuning, &options, WIDTH, &made));
    ((struct head *)made)->total_classes = CLASSES;
    assert_ok(context, head_learn_rows(made, &rows));
    const double draws = 200.0 * ROWS;
    for (size_t v = 0; v <= CROPS; v++) {
        const double share = v ? 0.5 / CROPS : 0.5;
        assert_near((double)shown_views[v] / draws, share, 4 * sqrt(share * (1 - share) / draws));
    }
    head_free(made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_and_log_are_those_of_libm),
        cmocka_unit_test(gradients_of_losses_are_those_of_finite_differences),
        cmocka_unit_test(easy_negatives_count_nothing),
        cmocka_unit_test(gradient_of_distillation_is_that_of_finite_differences),
        cmocka_unit_test(adam_is_the_published_algorithm),
        cmocka_unit_test(the_rate_goes_up_for_a_fifth_and_down_again),
        cmocka_unit_test(fisher_is_the_curvature_of_the_likelihood),
        cmocka_unit_test(gradient_of_the_penalty_is_that_of_finite_differences),
        cmocka_unit_test(the_walk_is_weighed_by_fisher_and_path),
        cmocka_unit_test(stored_scores_pull_by_their_squared_distance),
        cmocka_unit_test(bias_correction_is_the_best_scale_and_shift),
        cmocka_unit_test(balanced_memories_are_better_balanced_than_a_random_one),
        cmocka_unit_test(ocdm_gives_up_what_a_plain_search_does),
        cmocka_unit_test(exemplars_bring_their_mean_near_the_class_s),
        cmocka_unit_test(a_draw_has_every_row_equally_often_and_none_twice),
        cmocka_unit_test(a_reservoir_is_a_fair_sample_of_the_stream),
        cmocka_unit_test(memory_is_counted_for_each_class_or_in_all),
        cmocka_unit_test(random_exemplars_are_so_many_of_each_class),
        cmocka_unit_test(a_step_shows_the_whole_picture_half_of_the_time),
    };
    context = make_context(1);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    l3a_context_free(context);
    return failed;
}
