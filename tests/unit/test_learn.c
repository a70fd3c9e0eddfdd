/* Learning, through the public interface, against a second implementation of SPEC §3: slow, literal, in long double. */
#include "support.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 12, DIM = 40, CLASSES = 9, STEP = 3, PHASES = 3, ROWS = 400 };

static const char *const class_names[CLASSES] = {"ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis"};

/* ---- Data: every class leaves its mark on the features, so that scores can pass a threshold ---- */

typedef struct batch {
    size_t rows, first, classes; /* classes [first, first + classes) */
    float features[ROWS * WIDTH];
    int8_t labels[ROWS * CLASSES];
} batch;

static void make_world(batch *world) {
    float marks[CLASSES * WIDTH];
    int8_t unused[CLASSES];
    random_table(77, CLASSES, WIDTH, 1, 2, marks, unused);
    random_table(5, ROWS, WIDTH, CLASSES, 6, world->features, world->labels);
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        world->features[i] *= 0.3F;
        for (size_t k = 0; k < CLASSES; k++) {
            world->features[i] += world->labels[i / WIDTH * CLASSES + k] == 1 ? marks[k * WIDTH + i % WIDTH] : 0;
        }
    }
    world->rows = ROWS;
    world->first = 0;
    world->classes = CLASSES;
}

/* The rows with a class of the phase, and its labels only. */
static void make_phase(size_t phase, batch *out) {
    static batch world;
    make_world(&world);
    out->rows = 0;
    out->first = phase * STEP;
    out->classes = STEP;
    for (size_t i = 0; i < ROWS; i++) {
        const int8_t *own = world.labels + i * CLASSES + out->first;
        if (own[0] == 1 || own[1] == 1 || own[2] == 1) {
            memcpy(out->features + out->rows * WIDTH, world.features + i * WIDTH, WIDTH * sizeof(float));
            memcpy(out->labels + out->rows * STEP, own, STEP);
            out->rows++;
        }
    }
}

static void keep_rows(batch *b, size_t rows) {
    b->rows = rows < b->rows ? rows : b->rows;
}

/* Row i goes to i · 7 + 3, round the end; rows and 7 have no common factor. */
static void permute(batch *b) {
    batch *from = malloc(sizeof *from);
    b->rows -= b->rows % 7 == 0;
    *from = *b;
    for (size_t i = 0; i < b->rows; i++) {
        const size_t to = (i * 7 + 3) % b->rows;
        memcpy(b->features + to * WIDTH, from->features + i * WIDTH, WIDTH * sizeof(float));
        memcpy(b->labels + to * STEP, from->labels + i * STEP, STEP);
    }
    free(from);
}

/* ---- Learning with the library ---- */

static l3a_options exact_options(void) {
    l3a_options options;
    options_default(&options);
    options.model.dim = DIM;
    options.model.gamma = 2;
    options.model.eta = 0.6;
    options.model.tau = 1.4;
    options.model.precision = L3A_PRECISION_DOUBLE;
    options.model.solver = L3A_SOLVER_SUMS;
    options.model.block = 64;
    return options;
}

static l3a_model *make_model(l3a_context *context, const l3a_options *options) {
    l3a_model *model = NULL;
    assert_ok(context, l3a_model_create(context, WIDTH, options, &model));
    return model;
}

static void learn_in_parts(l3a_context *context, l3a_model *model, const batch *b, size_t part) {
    assert_ok(context, l3a_phase_begin(model, class_names + b->first, b->classes));
    assert_ok(context, l3a_phase_count(model, b->labels, b->rows));
    if (options_of(model).model.pseudo == L3A_PSEUDO_DYNAMIC) {
        assert_ok(context, l3a_phase_survey(model, b->features, b->rows));
    }
    for (size_t first = 0; first < b->rows; first += part) {
        const size_t rows = b->rows - first < part ? b->rows - first : part;
        assert_ok(context, l3a_phase_learn(model, b->features + first * WIDTH, b->labels + first * b->classes, rows));
    }
    assert_ok(context, l3a_phase_end(model));
}

static void learn_phases(l3a_context *context, l3a_model *model, size_t first, size_t last) {
    batch *b = malloc(sizeof *b);
    for (size_t phase = first; phase < last; phase++) {
        make_phase(phase, b);
        learn_in_parts(context, model, b, ROWS);
    }
    free(b);
}

static l3a_model *learned_model(l3a_context *context, const l3a_options *options, size_t phases) {
    l3a_model *model = make_model(context, options);
    learn_phases(context, model, 0, phases);
    return model;
}

static double *copy_matrix(l3a_context *context, const l3a_model *model) {
    const size_t d = (size_t)options_of(model).model.dim;
    double *matrix = malloc(d * d * sizeof *matrix);
    assert_ok(context, l3a_model_matrix(model, 0, d, matrix));
    return matrix;
}

static size_t weight_count(const l3a_model *model) {
    return (size_t)options_of(model).model.dim * l3a_model_class_count(model);
}

static double largest_gap(const double *actual, const double *expected, size_t count) {
    double gap = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        gap = fmax(gap, fabs(actual[i] - expected[i]));
        size = fmax(size, fabs(expected[i]));
        gap = isnan(actual[i]) ? INFINITY : gap;
    }
    assert_true(size > 0);
    return gap / size;
}

#define assert_close(actual, expected, count, tolerance) assert_close_at(actual, expected, count, tolerance, __FILE__, __LINE__)
static void assert_close_at(const double *actual, const double *expected, size_t count, double tolerance, const char *file,
                            int line) {
    const double gap = largest_gap(actual, expected, count);
    if (!(gap <= tolerance)) {
        print_error("%s:%d: relative gap %.2e, allowed %.2e\n", file, line, gap, tolerance);
    }
    _assert_true(gap <= tolerance, "relative gap within the tolerance", file, line);
}

static void assert_same_sums(l3a_context *context, const l3a_model *left, const l3a_model *right, double tolerance) {
    double *a = copy_matrix(context, left), *b = copy_matrix(context, right);
    assert_int_equal(l3a_model_is_inverse(left), l3a_model_is_inverse(right));
    assert_int_equal(weight_count(left), weight_count(right));
    assert_close(a, b, (size_t)options_of(left).model.dim * options_of(left).model.dim, tolerance);
    assert_close(l3a_model_cross(left), l3a_model_cross(right), weight_count(left), tolerance);
    free(a);
    free(b);
}

static void assert_identical(l3a_context *context, const l3a_model *left, const l3a_model *right) {
    const size_t d = (size_t)options_of(left).model.dim;
    double *a = copy_matrix(context, left), *b = copy_matrix(context, right);
    assert_int_equal(weight_count(left), weight_count(right));
    assert_memory_equal(l3a_model_coefficients(left), l3a_model_coefficients(right), weight_count(left) * sizeof(double));
    assert_memory_equal(l3a_model_cross(left), l3a_model_cross(right), weight_count(left) * sizeof(double));
    assert_memory_equal(a, b, d * d * sizeof(double));
    free(a);
    free(b);
}

/* ---- The second implementation ---- */

typedef struct naive {
    l3a_options options;
    size_t classes;
    long double layer[WIDTH][DIM];
    long double gram[DIM][DIM], cross[DIM][CLASSES], coefficients[DIM][CLASSES];
    uint64_t counts[CLASSES];
    l3a_phase_info info;
} naive;

static void naive_layer(naive *n) {
    uint64_t walk = n->options.model.seed;
    for (size_t i = 0; i < WIDTH; i++) {
        for (size_t j = 0; j < DIM; j++) {
            uint64_t z = walk += UINT64_C(0x9E3779B97F4A7C15);
            z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
            z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
            z ^= z >> 31;
            const double u = (double)(z >> 40) / 16777216.0;
            n->layer[i][j] = (long double)(float)((2 * u - 1) / sqrt(WIDTH));
        }
    }
}

static naive *make_naive(const l3a_options *options) {
    naive *n = calloc(1, sizeof *n);
    n->options = *options;
    naive_layer(n);
    return n;
}

static void naive_expand(const naive *n, const float *features, long double *x) {
    for (size_t j = 0; j < DIM; j++) {
        x[j] = 0;
        for (size_t i = 0; i < WIDTH; i++) {
            x[j] += (long double)features[i] * n->layer[i][j];
        }
        x[j] = x[j] > 0 ? x[j] : 0;
    }
}

static long double naive_score(const naive *n, const long double *x, size_t k) {
    long double s = 0;
    for (size_t j = 0; j < DIM; j++) {
        s += x[j] * n->coefficients[j][k];
    }
    return s;
}

static uint64_t naive_pseudo_labels(const naive *n, const long double *x, double eta, int *labels) {
    uint64_t made = 0;
    for (size_t k = 0; k < n->classes; k++) {
        labels[k] = 1 / (1 + expl(-naive_score(n, x, k))) > (long double)eta;
        made += (uint64_t)labels[k];
    }
    return made;
}

static double naive_mean(const naive *n, const batch *b, double eta) {
    uint64_t made = 0;
    for (size_t i = 0; i < b->rows; i++) {
        long double x[DIM];
        int labels[CLASSES];
        naive_expand(n, b->features + i * WIDTH, x);
        made += naive_pseudo_labels(n, x, eta, labels);
    }
    return (double)made / (double)b->rows;
}

static double naive_threshold(const naive *n, const batch *b) {
    const uint64_t total = n->options.model.total_classes ? n->options.model.total_classes : n->classes + b->classes;
    const double target = n->options.model.tau * (double)n->classes / (double)total;
    int at = 160, best = 160;
    double best_gap = INFINITY;
    for (int steps = 0; steps <= 100; steps++) {
        const double gap = naive_mean(n, b, at / 200.0) - target;
        best = fabs(gap) < best_gap ? at : best;
        best_gap = fmin(best_gap, fabs(gap));
        const int next = gap > 0 ? at + 1 : at - 1;
        if (fabs(gap) <= 0.1 || next >= 200) {
            break;
        }
        at = next;
    }
    return best / 200.0;
}

static long double naive_raw_weight(l3a_weighting weighting, uint64_t count) {
    const long double f = (long double)count;
    if (weighting == L3A_WEIGHTS_NONE) {
        return 1;
    }
    if (!count) {
        return 0;
    }
    return weighting == L3A_WEIGHTS_SQRT ? powl(f, -0.5L) : weighting == L3A_WEIGHTS_INV ? 1 / f : 1 / (logl(f) + 1);
}

static void naive_class_weights(const naive *n, size_t classes, long double *v) {
    long double sum = 0;
    for (size_t k = 0; k < classes; k++) {
        v[k] = naive_raw_weight(n->options.model.weights, n->counts[k]);
        sum += v[k];
    }
    for (size_t k = 0; k < classes && n->options.model.scaling == L3A_SCALING_NORMALISED; k++) {
        v[k] *= (long double)classes / sum;
    }
}

/* Gaussian elimination, each time with the largest pivot of the column. */
static void eliminate(size_t columns, long double a[DIM][DIM], long double b[DIM][CLASSES]) {
    for (size_t p = 0; p < DIM; p++) {
        size_t largest = p;
        for (size_t i = p + 1; i < DIM; i++) {
            largest = fabsl(a[i][p]) > fabsl(a[largest][p]) ? i : largest;
        }
        for (size_t j = 0; j < DIM; j++) {
            const long double swapped = a[p][j];
            a[p][j] = a[largest][j];
            a[largest][j] = swapped;
        }
        for (size_t k = 0; k < columns; k++) {
            const long double swapped = b[p][k];
            b[p][k] = b[largest][k];
            b[largest][k] = swapped;
        }
        for (size_t i = 0; i < DIM; i++) {
            const long double factor = i == p ? 0 : a[i][p] / a[p][p];
            for (size_t j = p; j < DIM; j++) {
                a[i][j] -= factor * a[p][j];
            }
            for (size_t k = 0; k < columns; k++) {
                b[i][k] -= factor * b[p][k];
            }
        }
    }
    for (size_t i = 0; i < DIM; i++) {
        for (size_t k = 0; k < columns; k++) {
            b[i][k] /= a[i][i];
        }
    }
}

static void naive_solve(naive *n) {
    static long double system[DIM][DIM];
    memcpy(system, n->gram, sizeof system);
    memcpy(n->coefficients, n->cross, sizeof n->coefficients);
    for (size_t i = 0; i < DIM; i++) {
        system[i][i] += (long double)n->options.model.gamma;
    }
    eliminate(n->classes, system, n->coefficients);
}

static void naive_add_row(naive *n, const long double *x, const int *labels, const long double *v, size_t all) {
    long double sum = 0, present = 0;
    for (size_t k = 0; k < all; k++) {
        sum += labels[k] ? v[k] : 0;
        present += labels[k];
    }
    const long double weight = present > 0 ? sum / present : 0;
    n->info.images += weight > 0;
    n->info.skipped += !(weight > 0);
    for (size_t i = 0; i < DIM; i++) {
        for (size_t j = 0; j < DIM; j++) {
            n->gram[i][j] += weight * x[i] * x[j];
        }
        for (size_t k = 0; k < all; k++) {
            n->cross[i][k] += weight * x[i] * labels[k];
        }
    }
}

static void naive_phase(naive *n, const batch *b) {
    const size_t old = n->classes, all = old + b->classes;
    long double v[CLASSES];
    n->info = (l3a_phase_info){.first = old, .last = all};
    if (old && n->options.model.pseudo != L3A_PSEUDO_OFF) {
        n->info.eta = n->options.model.pseudo == L3A_PSEUDO_DYNAMIC ? naive_threshold(n, b) : n->options.model.eta;
    }
    for (size_t i = 0; i < b->rows * b->classes; i++) {
        n->counts[old + i % b->classes] += b->labels[i] == 1;
    }
    naive_class_weights(n, all, v);
    for (size_t i = 0; i < b->rows; i++) {
        long double x[DIM];
        int labels[CLASSES] = {0};
        naive_expand(n, b->features + i * WIDTH, x);
        n->info.pseudo_labels += n->info.eta > 0 ? naive_pseudo_labels(n, x, n->info.eta, labels) : 0;
        for (size_t k = 0; k < b->classes; k++) {
            labels[old + k] = b->labels[i * b->classes + k] == 1;
        }
        naive_add_row(n, x, labels, v, all);
    }
    n->classes = all;
    naive_solve(n);
}

static double *naive_columns(const naive *n, long double columns[DIM][CLASSES]) {
    double *out = malloc(DIM * n->classes * sizeof *out);
    for (size_t i = 0; i < DIM * n->classes; i++) {
        out[i] = (double)columns[i / n->classes][i % n->classes];
    }
    return out;
}

static void assert_as_naive(l3a_context *context, const l3a_model *model, naive *n, double tolerance) {
    double *coefficients = naive_columns(n, n->coefficients), *cross = naive_columns(n, n->cross),
           *gram = malloc(DIM * DIM * sizeof *gram);
    double *matrix = copy_matrix(context, model);
    for (size_t i = 0; i < DIM * DIM; i++) {
        gram[i] = (double)n->gram[i / DIM][i % DIM];
    }
    const l3a_phase_info *info = l3a_model_phase(model, l3a_model_phase_count(model) - 1);
    assert_int_equal(info->pseudo_labels, n->info.pseudo_labels);
    assert_int_equal(info->images, n->info.images);
    assert_int_equal(info->skipped, n->info.skipped);
    assert_int_equal(info->first, n->info.first);
    assert_int_equal(info->last, n->info.last);
    assert_true(fabs(info->eta - n->info.eta) < 1e-12);
    for (size_t k = 0; k < n->classes; k++) {
        assert_int_equal(l3a_model_class_images(model, k), n->counts[k]);
    }
    assert_close(l3a_model_coefficients(model), coefficients, DIM * n->classes, tolerance);
    assert_close(l3a_model_cross(model), cross, DIM * n->classes, tolerance);
    if (!l3a_model_is_inverse(model)) {
        assert_close(matrix, gram, DIM * DIM, tolerance);
    }
    free(coefficients);
    free(cross);
    free(gram);
    free(matrix);
}

static void compare_with_naive(const l3a_options *options) {
    l3a_context *context = make_context(1);
    l3a_model *model = make_model(context, options);
    naive *n = make_naive(options);
    batch *b = malloc(sizeof *b);
    for (size_t phase = 0; phase < PHASES; phase++) {
        make_phase(phase, b);
        learn_in_parts(context, model, b, 50);
        naive_phase(n, b);
        assert_as_naive(context, model, n, 1e-8);
        assert_true(phase == 0 || options->model.pseudo == L3A_PSEUDO_OFF || n->info.pseudo_labels > 10);
    }
    free(b);
    free(n);
    l3a_model_free(model);
    l3a_context_free(context);
}

/* ---- Tests ---- */

static void method_equals_the_naive_one_in_every_weighting(void **state) {
    (void)state;
    for (int weights = L3A_WEIGHTS_SQRT; weights <= L3A_WEIGHTS_NONE; weights++) {
        for (int scaling = L3A_SCALING_NORMALISED; scaling <= L3A_SCALING_LITERAL; scaling++) {
            l3a_options options = exact_options();
            options.model.weights = (l3a_weighting)weights;
            options.model.scaling = (l3a_scaling)scaling;
            options.model.gamma = scaling == L3A_SCALING_LITERAL ? 0.05 : 2;
            compare_with_naive(&options);
        }
    }
}

static void method_equals_the_naive_one_in_every_solver(void **state) {
    (void)state;
    for (int solver = L3A_SOLVER_AUTO; solver <= L3A_SOLVER_RECURSIVE; solver++) {
        l3a_options options = exact_options();
        options.model.solver = (l3a_solver)solver;
        compare_with_naive(&options);
    }
}

static void method_without_pseudo_labels_equals_the_naive_one(void **state) {
    (void)state;
    l3a_options options = exact_options();
    options.model.pseudo = L3A_PSEUDO_OFF;
    compare_with_naive(&options);
}

static void dynamic_threshold_equals_the_naive_walk(void **state) {
    (void)state;
    static const double taus[] = {0.7, 1.4, 2.9};
    for (size_t i = 0; i < 3; i++) {
        l3a_options options = exact_options();
        options.model.pseudo = L3A_PSEUDO_DYNAMIC;
        options.model.tau = taus[i];
        options.model.total_classes = i == 1 ? 0 : CLASSES;
        compare_with_naive(&options);
    }
}

static void recursion_equals_sums_over_phases_with_pseudo_labels(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_options options = exact_options();
    l3a_model *sums = learned_model(context, &options, PHASES);
    options.model.solver = L3A_SOLVER_RECURSIVE;
    l3a_model *recursive = learned_model(context, &options, PHASES);
    assert_true(l3a_model_is_inverse(recursive) && !l3a_model_is_inverse(sums));
    for (size_t i = 1; i < PHASES; i++) {
        assert_true(l3a_model_phase(sums, i)->pseudo_labels > 10);
        assert_int_equal(l3a_model_phase(recursive, i)->pseudo_labels, l3a_model_phase(sums, i)->pseudo_labels);
        assert_int_equal(l3a_model_phase(recursive, i)->recursive, 1);
        assert_int_equal(l3a_model_phase(sums, i)->recursive, 0);
    }
    assert_close(l3a_model_coefficients(recursive), l3a_model_coefficients(sums), weight_count(sums), 1e-8);
    assert_close(l3a_model_cross(recursive), l3a_model_cross(sums), weight_count(sums), 1e-10);
    l3a_model_free(sums);
    l3a_model_free(recursive);
    l3a_context_free(context);
}

static l3a_model *model_learned_in_parts(l3a_context *context, const l3a_options *options, size_t part, int permuted) {
    l3a_model *model = make_model(context, options);
    batch *b = malloc(sizeof *b);
    for (size_t phase = 0; phase < 2; phase++) {
        make_phase(phase, b);
        if (permuted) {
            permute(b);
        } else {
            b->rows -= b->rows % 7 == 0;
        }
        learn_in_parts(context, model, b, part);
    }
    free(b);
    return model;
}

static void handing_rows_over_in_other_parts_changes_no_bit(void **state) {
    (void)state;
    static const size_t parts[] = {1, 7, 64, 65};
    for (int solver = L3A_SOLVER_SUMS; solver <= L3A_SOLVER_RECURSIVE; solver++) {
        l3a_context *context = make_context(1);
        l3a_options options = exact_options();
        options.model.solver = (l3a_solver)solver;
        l3a_model *whole = model_learned_in_parts(context, &options, ROWS, 0);
        for (size_t i = 0; i < 4; i++) {
            l3a_model *model = model_learned_in_parts(context, &options, parts[i], 0);
            assert_identical(context, model, whole);
            l3a_model_free(model);
        }
        l3a_model_free(whole);
        l3a_context_free(context);
    }
}

static void block_size_and_row_order_do_not_change_the_sums(void **state) {
    (void)state;
    static const uint64_t blocks[] = {1, 5, 64, 4096};
    l3a_context *context = make_context(1);
    l3a_options options = exact_options();
    l3a_model *plain = model_learned_in_parts(context, &options, ROWS, 0);
    for (size_t i = 0; i < 4; i++) {
        for (int permuted = 0; permuted <= 1; permuted++) {
            options.model.block = blocks[i];
            l3a_model *model = model_learned_in_parts(context, &options, 33, permuted);
            assert_same_sums(context, model, plain, 1e-10);
            assert_close(l3a_model_coefficients(model), l3a_model_coefficients(plain), weight_count(plain), 1e-10);
            l3a_model_free(model);
        }
    }
    l3a_model_free(plain);
    l3a_context_free(context);
}

static double *plain_ridge(const l3a_options *options, const batch *b) {
    static long double a[DIM][DIM], c[DIM][CLASSES];
    naive *n = make_naive(options);
    memset(a, 0, sizeof a);
    memset(c, 0, sizeof c);
    for (size_t r = 0; r < b->rows; r++) {
        long double x[DIM];
        naive_expand(n, b->features + r * WIDTH, x);
        for (size_t i = 0; i < DIM; i++) {
            for (size_t j = 0; j < DIM; j++) {
                a[i][j] += x[i] * x[j];
            }
            for (size_t k = 0; k < b->classes; k++) {
                c[i][k] += x[i] * b->labels[r * b->classes + k];
            }
        }
    }
    for (size_t i = 0; i < DIM; i++) {
        a[i][i] += (long double)options->model.gamma;
    }
    eliminate(b->classes, a, c);
    n->classes = b->classes;
    double *coefficients = naive_columns(n, c);
    free(n);
    return coefficients;
}

static void one_phase_without_weights_is_plain_ridge_regression(void **state) {
    (void)state;
    batch *b = malloc(sizeof *b);
    make_phase(0, b);
    for (int solver = L3A_SOLVER_SUMS; solver <= L3A_SOLVER_RECURSIVE; solver++) {
        l3a_context *context = make_context(1);
        l3a_options options = exact_options();
        options.model.weights = L3A_WEIGHTS_NONE;
        options.model.pseudo = L3A_PSEUDO_OFF;
        options.model.solver = (l3a_solver)solver;
        double *expected = plain_ridge(&options, b);
        l3a_model *model = learned_model(context, &options, 1);
        assert_close(l3a_model_coefficients(model), expected, weight_count(model), 1e-9);
        free(expected);
        l3a_model_free(model);
        l3a_context_free(context);
    }
    free(b);
}

static void mixed_precision_is_close_to_double(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    for (int solver = L3A_SOLVER_SUMS; solver <= L3A_SOLVER_RECURSIVE; solver++) {
        l3a_options options = exact_options();
        options.model.solver = (l3a_solver)solver;
        l3a_model *exact = learned_model(context, &options, PHASES);
        options.model.precision = L3A_PRECISION_MIXED;
        l3a_model *mixed = learned_model(context, &options, PHASES);
        assert_int_equal(l3a_model_phase(mixed, 2)->pseudo_labels, l3a_model_phase(exact, 2)->pseudo_labels);
        assert_same_sums(context, mixed, exact, 1e-6);
        assert_close(l3a_model_coefficients(mixed), l3a_model_coefficients(exact), weight_count(exact), 1e-4);
        assert_memory_not_equal(l3a_model_coefficients(mixed), l3a_model_coefficients(exact), weight_count(exact) * sizeof(double));
        l3a_model_free(exact);
        l3a_model_free(mixed);
    }
    l3a_context_free(context);
}

/* The panels of mixed precision: more than one, the last one short. */
static void mixed_precision_adds_every_panel_of_the_matrix(void **state) {
    (void)state;
    l3a_context *context = make_context(2);
    l3a_options options = exact_options();
    options.model.dim = 1100;
    options.model.gamma = 50;
    l3a_model *exact = learned_model(context, &options, 1);
    options.model.precision = L3A_PRECISION_MIXED;
    l3a_model *mixed = learned_model(context, &options, 1);
    assert_same_sums(context, mixed, exact, 1e-6);
    assert_close(l3a_model_coefficients(mixed), l3a_model_coefficients(exact), weight_count(exact), 1e-4);
    l3a_model_free(exact);
    l3a_model_free(mixed);
    l3a_context_free(context);
}

static void unknown_labels_count_as_absent_in_learning(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    const l3a_options options = exact_options();
    l3a_model *absent = make_model(context, &options), *unknown = make_model(context, &options);
    batch *b = malloc(sizeof *b);
    for (size_t phase = 0; phase < 2; phase++) {
        make_phase(phase, b);
        learn_in_parts(context, absent, b, ROWS);
        for (size_t i = 0; i < b->rows * b->classes; i += 2) {
            b->labels[i] = b->labels[i] == 0 ? -1 : b->labels[i];
        }
        learn_in_parts(context, unknown, b, ROWS);
    }
    assert_identical(context, unknown, absent);
    free(b);
    l3a_model_free(absent);
    l3a_model_free(unknown);
    l3a_context_free(context);
}

typedef struct warnings {
    size_t count;
    char last[512];
} warnings;

static int keep_warning(const l3a_event *event, void *user) {
    warnings *kept = user;
    if (event->kind == L3A_EVENT_WARNING) {
        kept->count++;
        snprintf(kept->last, sizeof kept->last, "%s", event->text);
    }
    return 0;
}

static l3a_context *make_listening_context(warnings *kept) {
    l3a_context_options options = {.size = sizeof options};
    l3a_context *context = NULL;
    options.threads = 1;
    options.on_event = keep_warning;
    options.event_user = kept;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    memset(kept, 0, sizeof *kept); /* of a warning about this machine's matrix kernels */
    return context;
}

static void an_image_without_label_is_skipped_counted_and_reported(void **state) {
    (void)state;
    for (int solver = L3A_SOLVER_SUMS; solver <= L3A_SOLVER_RECURSIVE; solver++) {
        warnings kept = {0};
        l3a_context *context = make_listening_context(&kept);
        l3a_options options = exact_options();
        options.model.solver = (l3a_solver)solver;
        options.model.privacy_limit = 0;
        l3a_model *with = make_model(context, &options), *without = make_model(context, &options);
        batch *b = malloc(sizeof *b);
        make_phase(0, b);
        keep_rows(b, 60);
        learn_in_parts(context, without, b, ROWS);
        assert_int_equal(kept.count, 0);
        memset(b->features + 60 * WIDTH, 0x3f, 2 * WIDTH * sizeof(float));
        memcpy(b->labels + 60 * STEP, (const int8_t[]){0, 0, 0, -1, 0, -1}, 6);
        b->rows = 62;
        learn_in_parts(context, with, b, ROWS);
        assert_int_equal(kept.count, 1);
        assert_non_null(strstr(kept.last, "2 of 62 images"));
        assert_int_equal(l3a_model_phase(with, 0)->skipped, 2);
        assert_int_equal(l3a_model_phase(with, 0)->images, 60);
        assert_close(l3a_model_coefficients(with), l3a_model_coefficients(without), weight_count(with), 1e-12);
        assert_same_sums(context, with, without, 1e-12);
        free(b);
        l3a_model_free(with);
        l3a_model_free(without);
        l3a_context_free(context);
    }
}

static void an_image_with_only_a_pseudo_label_is_learned(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    const l3a_options options = exact_options();
    l3a_model *model = make_model(context, &options);
    naive *n = make_naive(&options);
    batch *b = malloc(sizeof *b);
    make_phase(0, b);
    learn_in_parts(context, model, b, ROWS);
    naive_phase(n, b);
    make_phase(1, b);
    memset(b->labels + STEP, 0, (b->rows - 1) * STEP);
    learn_in_parts(context, model, b, ROWS);
    naive_phase(n, b);
    assert_true(n->info.images > 10 && n->info.skipped > 10);
    assert_as_naive(context, model, n, 1e-8);
    free(b);
    free(n);
    l3a_model_free(model);
    l3a_context_free(context);
}

static void a_class_without_image_is_reported_and_scores_zero(void **state) {
    (void)state;
    warnings kept = {0};
    l3a_context *context = make_listening_context(&kept);
    const l3a_options options = exact_options();
    l3a_model *model = make_model(context, &options);
    batch *b = malloc(sizeof *b);
    make_phase(0, b);
    for (size_t i = 0; i < b->rows; i++) {
        b->labels[i * STEP] = 1;
        b->labels[i * STEP + 1] = 0;
    }
    learn_in_parts(context, model, b, ROWS);
    assert_int_equal(kept.count, 1);
    assert_non_null(strstr(kept.last, "'bee'"));
    for (size_t i = 0; i < DIM; i++) {
        assert_true(l3a_model_coefficients(model)[i * STEP + 1] == 0);
    }
    free(b);
    l3a_model_free(model);
    l3a_context_free(context);
}

static void auto_solver_recurses_on_few_rows_and_goes_back_to_sums(void **state) {
    (void)state;
    static const size_t rows[PHASES] = {8, 100, 150};
    static const int recursive[PHASES] = {1, 1, 0};
    l3a_context *context = make_context(1);
    l3a_options options = exact_options();
    options.model.dim = 128;
    l3a_model *sums = make_model(context, &options);
    options.model.solver = L3A_SOLVER_AUTO;
    l3a_model *chosen = make_model(context, &options);
    batch *b = malloc(sizeof *b);
    for (size_t phase = 0; phase < PHASES; phase++) {
        make_phase(phase, b);
        assert_true(b->rows >= rows[phase]);
        keep_rows(b, rows[phase]);
        learn_in_parts(context, sums, b, ROWS);
        learn_in_parts(context, chosen, b, ROWS);
        assert_int_equal(l3a_model_phase(chosen, phase)->recursive, recursive[phase]);
        assert_int_equal(l3a_model_is_inverse(chosen), recursive[phase]);
        assert_int_equal(l3a_model_phase(chosen, phase)->pseudo_labels, l3a_model_phase(sums, phase)->pseudo_labels);
        assert_close(l3a_model_coefficients(chosen), l3a_model_coefficients(sums), weight_count(sums), 1e-7);
    }
    assert_same_sums(context, chosen, sums, 1e-7);
    free(b);
    l3a_model_free(sums);
    l3a_model_free(chosen);
    l3a_context_free(context);
}

static void a_model_of_sums_turns_to_the_recursion_when_a_phase_is_small(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    l3a_options options = exact_options();
    options.model.dim = 128;
    l3a_model *sums = learned_model(context, &options, 1);
    options.model.solver = L3A_SOLVER_AUTO;
    l3a_model *chosen = learned_model(context, &options, 1);
    batch *b = malloc(sizeof *b);
    make_phase(1, b);
    keep_rows(b, 8);
    assert_int_equal(l3a_model_phase(chosen, 0)->recursive, 0);
    learn_in_parts(context, sums, b, ROWS);
    learn_in_parts(context, chosen, b, ROWS);
    assert_int_equal(l3a_model_phase(chosen, 1)->recursive, 1);
    assert_close(l3a_model_coefficients(chosen), l3a_model_coefficients(sums), weight_count(sums), 1e-7);
    free(b);
    l3a_model_free(sums);
    l3a_model_free(chosen);
    l3a_context_free(context);
}

static void two_threads_learn_what_one_learns(void **state) {
    (void)state;
    for (int solver = L3A_SOLVER_SUMS; solver <= L3A_SOLVER_RECURSIVE; solver++) {
        l3a_context *one = make_context(1), *two = make_context(2);
        l3a_options options = exact_options();
        options.model.dim = 300;
        options.model.solver = (l3a_solver)solver;
        l3a_model *left = learned_model(one, &options, PHASES), *right = learned_model(two, &options, PHASES);
        assert_same_sums(one, right, left, 1e-10);
        assert_close(l3a_model_coefficients(right), l3a_model_coefficients(left), weight_count(left), 1e-10);
        l3a_model_free(left);
        l3a_model_free(right);
        l3a_context_free(one);
        l3a_context_free(two);
    }
}

static l3a_options options_of_learner(size_t index) {
    l3a_options options = exact_options();
    options.model.dim = 200;
    options.model.seed = 10 + index;
    options.model.solver = index ? L3A_SOLVER_RECURSIVE : L3A_SOLVER_SUMS;
    return options;
}

typedef struct learner {
    size_t index;
    l3a_context *context;
    l3a_model *model;
    batch phases[PHASES];
    l3a_status status;
} learner;

static void *learn_on_thread(void *argument) {
    learner *l = argument;
    l->status = L3A_OK;
    for (size_t phase = 0; phase < PHASES && l->status == L3A_OK; phase++) {
        const batch *b = &l->phases[phase];
        l->status = l3a_phase_begin(l->model, class_names + b->first, b->classes);
        l->status = l->status ? l->status : l3a_phase_count(l->model, b->labels, b->rows);
        l->status = l->status ? l->status : l3a_phase_learn(l->model, b->features, b->labels, b->rows);
        l->status = l->status ? l->status : l3a_phase_end(l->model);
    }
    return NULL;
}

static learner *make_learner(size_t index) {
    learner *l = calloc(1, sizeof *l);
    const l3a_options options = options_of_learner(index);
    l->context = make_context(1);
    l->model = make_model(l->context, &options);
    for (size_t phase = 0; phase < PHASES; phase++) {
        make_phase(phase, &l->phases[phase]);
    }
    return l;
}

static void free_learner(learner *l) {
    l3a_model_free(l->model);
    l3a_context_free(l->context);
    free(l);
}

static void contexts_learn_side_by_side_what_they_learn_in_turn(void **state) {
    (void)state;
    learner *in_turn[2], *together[2];
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        in_turn[i] = make_learner(i);
        together[i] = make_learner(i);
        learn_on_thread(in_turn[i]);
        assert_ok(in_turn[i]->context, in_turn[i]->status);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, learn_on_thread, together[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_ok(together[i]->context, together[i]->status);
        assert_identical(together[i]->context, together[i]->model, in_turn[i]->model);
    }
    for (size_t i = 0; i < 2; i++) {
        free_learner(in_turn[i]);
        free_learner(together[i]);
    }
}

static void scores_are_the_expanded_features_times_the_coefficients(void **state) {
    (void)state;
    enum { MANY = 1100 };
    static float features[MANY * WIDTH], scores[MANY * CLASSES];
    static int8_t unused[MANY];
    random_table(8, MANY, WIDTH, 1, 2, features, unused);
    for (int precision = L3A_PRECISION_MIXED; precision <= L3A_PRECISION_DOUBLE; precision++) {
        l3a_context *context = make_context(1);
        l3a_options options = exact_options();
        options.model.precision = (l3a_precision)precision;
        l3a_model *model = learned_model(context, &options, PHASES);
        naive *n = make_naive(&options);
        for (size_t i = 0; i < DIM * CLASSES; i++) {
            n->coefficients[i / CLASSES][i % CLASSES] = (long double)l3a_model_coefficients(model)[i];
        }
        assert_ok(context, l3a_model_score(model, features, MANY, scores));
        for (size_t i = 0; i < MANY * CLASSES; i++) {
            long double x[DIM];
            naive_expand(n, features + i / CLASSES * WIDTH, x);
            const double expected = (double)naive_score(n, x, i % CLASSES);
            assert_true(fabs((double)scores[i] - expected) <= (precision == L3A_PRECISION_DOUBLE ? 1e-7 : 1e-5));
        }
        free(n);
        l3a_model_free(model);
        l3a_context_free(context);
    }
}

static void assert_same_scores(l3a_context *context, l3a_model *left, l3a_model *right) {
    static batch world;
    static float ours[ROWS * CLASSES], theirs[ROWS * CLASSES];
    make_world(&world);
    assert_int_equal(l3a_model_class_count(left), l3a_model_class_count(right));
    assert_ok(context, l3a_model_score(left, world.features, ROWS, ours));
    assert_ok(context, l3a_model_score(right, world.features, ROWS, theirs));
    assert_memory_equal(ours, theirs, ROWS * l3a_model_class_count(left) * sizeof(float));
}

static l3a_model *save_and_load(l3a_context *context, l3a_model *model) {
    char *folder = make_temporary_folder(), *path = path_in(folder, "model.l3a");
    l3a_model *loaded = NULL;
    assert_ok(context, l3a_model_save(model, path));
    assert_ok(context, l3a_model_load(context, path, &loaded));
    free(path);
    remove_folder(folder);
    return loaded;
}

static void check_going_on_after_loading(const l3a_options *options, size_t before) {
    l3a_context *context = make_context(1);
    l3a_model *model = learned_model(context, options, before), *loaded = save_and_load(context, model);
    if (before) {
        assert_same_scores(context, loaded, model);
    }
    learn_phases(context, model, before, PHASES);
    learn_phases(context, loaded, before, PHASES);
    assert_identical(context, loaded, model);
    assert_same_scores(context, loaded, model);
    assert_int_equal(l3a_model_phase_count(loaded), PHASES);
    for (size_t i = 0; i < PHASES; i++) {
        assert_memory_equal(l3a_model_phase(loaded, i), l3a_model_phase(model, i), sizeof(l3a_phase_info));
    }
    for (size_t k = 0; k < CLASSES; k++) {
        assert_string_equal(l3a_model_class(loaded, k), class_names[k]);
        assert_int_equal(l3a_model_class_images(loaded, k), l3a_model_class_images(model, k));
    }
    l3a_model_free(model);
    l3a_model_free(loaded);
    l3a_context_free(context);
}

static void a_loaded_model_goes_on_as_if_it_had_never_been_saved(void **state) {
    (void)state;
    for (int solver = L3A_SOLVER_SUMS; solver <= L3A_SOLVER_RECURSIVE; solver++) {
        for (int precision = L3A_PRECISION_MIXED; precision <= L3A_PRECISION_DOUBLE; precision++) {
            l3a_options options = exact_options();
            options.model.solver = (l3a_solver)solver;
            options.model.precision = (l3a_precision)precision;
            for (size_t before = 0; before <= 2; before++) {
                check_going_on_after_loading(&options, before);
            }
        }
    }
}

static void a_model_stored_in_float32_goes_on_almost_the_same(void **state) {
    (void)state;
    for (int solver = L3A_SOLVER_SUMS; solver <= L3A_SOLVER_RECURSIVE; solver++) {
        l3a_context *context = make_context(1);
        l3a_options options = exact_options();
        options.model.solver = (l3a_solver)solver;
        options.model.store = L3A_STORE_FLOAT32;
        options.model.gamma = 20;
        l3a_model *model = learned_model(context, &options, 2), *loaded = save_and_load(context, model);
        assert_same_scores(context, loaded, model);
        learn_phases(context, model, 2, PHASES);
        learn_phases(context, loaded, 2, PHASES);
        assert_close(l3a_model_coefficients(loaded), l3a_model_coefficients(model), weight_count(model), 1e-6);
        assert_same_sums(context, loaded, model, 1e-6);
        l3a_model_free(model);
        l3a_model_free(loaded);
        l3a_context_free(context);
    }
}

static l3a_features *wrap(l3a_context *context, const batch *b, const char *backbone) {
    l3a_features *features = NULL;
    assert_ok(context,
              l3a_features_wrap(context, b->features, b->labels, b->rows, 1, WIDTH, class_names + b->first, b->classes, &features));
    if (backbone) {
        assert_ok(context, l3a_features_set_record(features, "backbone", backbone));
    }
    return features;
}

static void a_table_teaches_the_rows_that_show_the_phase(void **state) {
    (void)state;
    static batch world;
    l3a_context *context = make_context(1);
    make_world(&world);
    for (int pseudo = L3A_PSEUDO_FIXED; pseudo <= L3A_PSEUDO_OFF; pseudo++) {
        l3a_options options = exact_options();
        options.model.pseudo = (l3a_pseudo)pseudo;
        l3a_model *by_hand = learned_model(context, &options, PHASES), *by_table = make_model(context, &options);
        l3a_features *table = wrap(context, &world, NULL);
        for (size_t phase = 0; phase < PHASES; phase++) {
            assert_ok(context, l3a_model_learn(by_table, table, class_names + phase * STEP, STEP));
        }
        assert_identical(context, by_table, by_hand);
        l3a_features_free(table);
        l3a_model_free(by_hand);
        l3a_model_free(by_table);
    }
    l3a_context_free(context);
}

static void classes_are_found_in_the_table_by_name(void **state) {
    (void)state;
    static batch world, mirrored;
    static const char *const mirrored_names[CLASSES] = {"ibis", "hen", "gnu", "fox", "eel", "dog", "cat", "bee", "ant"};
    l3a_context *context = make_context(1);
    const l3a_options options = exact_options();
    l3a_features *features = NULL;
    make_world(&world);
    mirrored = world;
    for (size_t i = 0; i < ROWS * CLASSES; i++) {
        mirrored.labels[i] = world.labels[i / CLASSES * CLASSES + CLASSES - 1 - i % CLASSES];
    }
    assert_ok(context,
              l3a_features_wrap(context, world.features, mirrored.labels, ROWS, 1, WIDTH, mirrored_names, CLASSES, &features));
    l3a_model *model = make_model(context, &options), *expected = learned_model(context, &options, 2);
    assert_ok(context, l3a_model_learn(model, features, class_names, STEP));
    assert_ok(context, l3a_model_learn(model, features, class_names + STEP, STEP));
    assert_identical(context, model, expected);
    l3a_features_free(features);
    l3a_model_free(model);
    l3a_model_free(expected);
    l3a_context_free(context);
}

static void evaluation_measures_the_rows_that_show_a_learned_class(void **state) {
    (void)state;
    static batch world;
    static float scores[ROWS * STEP];
    batch *b = malloc(sizeof *b);
    l3a_context *context = make_context(1);
    const l3a_options options = exact_options();
    l3a_model *model = learned_model(context, &options, 1);
    l3a_metrics expected = {.size = sizeof expected}, metrics = {.size = sizeof metrics};
    double expected_ap[STEP], ap[STEP];
    make_world(&world);
    make_phase(0, b);
    l3a_features *table = wrap(context, &world, NULL);
    assert_ok(context, l3a_model_score(model, b->features, b->rows, scores));
    double thresholds[STEP];
    for (size_t k = 0; k < STEP; k++) {
        thresholds[k] = log(options.model.theta / (1 - options.model.theta));
    }
    assert_ok(context, l3a_measure(context, scores, b->labels, b->rows, STEP, thresholds, &expected, expected_ap));
    assert_ok(context, l3a_model_evaluate(model, table, NULL, &metrics, ap));
    assert_int_equal(metrics.images, b->rows);
    assert_int_equal(metrics.left_out, ROWS - b->rows);
    metrics.left_out = 0;
    assert_memory_equal(&metrics, &expected, sizeof metrics);
    assert_memory_equal(ap, expected_ap, sizeof ap);
    free(b);
    l3a_features_free(table);
    l3a_model_free(model);
    l3a_context_free(context);
}

static void evaluation_measures_all_rows_where_asked_for(void **state) {
    (void)state;
    static batch world;
    static float scores[ROWS * STEP];
    static int8_t labels[ROWS * STEP];
    l3a_context *context = make_context(1);
    const l3a_options options = exact_options();
    const l3a_evaluate_options all = {.size = sizeof all, .all_images = 1};
    l3a_model *model = learned_model(context, &options, 1);
    l3a_metrics expected = {.size = sizeof expected}, metrics = {.size = sizeof metrics}, some = {.size = sizeof some};
    double expected_ap[STEP], ap[STEP], thresholds[STEP];
    make_world(&world);
    l3a_features *table = wrap(context, &world, NULL);
    for (size_t i = 0; i < ROWS * STEP; i++) {
        labels[i] = world.labels[i / STEP * CLASSES + i % STEP];
    }
    l3a_model_thresholds(model, thresholds);
    assert_ok(context, l3a_model_score(model, world.features, ROWS, scores));
    assert_ok(context, l3a_measure(context, scores, labels, ROWS, STEP, thresholds, &expected, expected_ap));
    assert_ok(context, l3a_model_evaluate(model, table, &all, &metrics, ap));
    assert_int_equal(metrics.images, ROWS);
    assert_memory_equal(&metrics, &expected, sizeof metrics);
    assert_memory_equal(ap, expected_ap, sizeof ap);
    assert_ok(context, l3a_model_evaluate(model, table, NULL, &some, NULL));
    assert_true(some.overall_precision > metrics.overall_precision && some.overall_recall == metrics.overall_recall);
    memset(world.labels, 0, sizeof world.labels);
    assert_fails(context, l3a_model_evaluate(model, table, &all, &metrics, NULL), L3A_ERROR_DATA,
                 "no image has any of the model's classes");
    l3a_features_free(table);
    l3a_model_free(model);
    l3a_context_free(context);
}

static void features_of_another_backbone_are_refused(void **state) {
    (void)state;
    static batch world;
    l3a_context *context = make_context(1);
    const l3a_options options = exact_options();
    l3a_metrics metrics = {.size = sizeof metrics};
    make_world(&world);
    l3a_features *ours = wrap(context, &world, "tresnet-m"), *other = wrap(context, &world, "resnet-50");
    l3a_features *unknown = wrap(context, &world, NULL);
    l3a_model *model = make_model(context, &options);
    assert_ok(context, l3a_model_accepts(model, other));
    assert_ok(context, l3a_model_learn(model, ours, class_names, STEP));
    assert_string_equal(l3a_model_record(model, "backbone"), "tresnet-m");
    assert_fails(context, l3a_model_learn(model, other, class_names + STEP, STEP), L3A_ERROR_MISMATCH, "resnet-50");
    assert_fails(context, l3a_model_evaluate(model, other, NULL, &metrics, NULL), L3A_ERROR_MISMATCH, "tresnet-m");
    l3a_model *loaded = save_and_load(context, model);
    assert_fails(context, l3a_model_learn(loaded, other, class_names + STEP, STEP), L3A_ERROR_MISMATCH, "resnet-50");
    assert_ok(context, l3a_model_accepts(model, unknown));
    assert_ok(context, l3a_model_learn(model, ours, class_names + STEP, STEP));
    assert_ok(context, l3a_model_evaluate(model, ours, NULL, &metrics, NULL));
    l3a_features_free(ours);
    l3a_features_free(other);
    l3a_features_free(unknown);
    l3a_model_free(model);
    l3a_model_free(loaded);
    l3a_context_free(context);
}

/* By learning, and by merging. */
static void a_network_is_known_by_its_checksum(void **state) {
    (void)state;
    static batch world;
    static const char *const sums[] = {"aa", "aa", "bb"};
    l3a_context *context = make_context(1);
    const l3a_options options = exact_options();
    l3a_features *tables[3];
    l3a_model *models[3];
    int exact;
    make_world(&world);
    for (size_t i = 0; i < 3; i++) {
        tables[i] = wrap(context, &world, i ? "vit, width 192" : "vit_tiny");
        assert_ok(context, l3a_features_set_record(tables[i], "sha256", sums[i]));
        models[i] = make_model(context, &options);
        assert_ok(context, l3a_model_learn(models[i], tables[i], class_names + (i == 1 ? STEP : 0), STEP));
    }
    assert_ok(context, l3a_model_accepts(models[0], tables[1]));
    assert_fails(context, l3a_model_accepts(models[1], tables[2]), L3A_ERROR_MISMATCH, "sha256 is 'bb'");
    assert_ok(context, l3a_model_merge(models[0], models[1], &exact));
    assert_fails(context, l3a_model_merge(models[1], models[2], &exact), L3A_ERROR_MISMATCH, "sha256 is 'aa'");
    for (size_t i = 0; i < 3; i++) {
        l3a_features_free(tables[i]);
        l3a_model_free(models[i]);
    }
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(method_equals_the_naive_one_in_every_weighting),
        cmocka_unit_test(method_equals_the_naive_one_in_every_solver),
        cmocka_unit_test(method_without_pseudo_labels_equals_the_naive_one),
        cmocka_unit_test(dynamic_threshold_equals_the_naive_walk),
        cmocka_unit_test(recursion_equals_sums_over_phases_with_pseudo_labels),
        cmocka_unit_test(handing_rows_over_in_other_parts_changes_no_bit),
        cmocka_unit_test(block_size_and_row_order_do_not_change_the_sums),
        cmocka_unit_test(one_phase_without_weights_is_plain_ridge_regression),
        cmocka_unit_test(mixed_precision_is_close_to_double),
        cmocka_unit_test(mixed_precision_adds_every_panel_of_the_matrix),
        cmocka_unit_test(unknown_labels_count_as_absent_in_learning),
        cmocka_unit_test(an_image_without_label_is_skipped_counted_and_reported),
        cmocka_unit_test(an_image_with_only_a_pseudo_label_is_learned),
        cmocka_unit_test(a_class_without_image_is_reported_and_scores_zero),
        cmocka_unit_test(auto_solver_recurses_on_few_rows_and_goes_back_to_sums),
        cmocka_unit_test(a_model_of_sums_turns_to_the_recursion_when_a_phase_is_small),
        cmocka_unit_test(two_threads_learn_what_one_learns),
        cmocka_unit_test(contexts_learn_side_by_side_what_they_learn_in_turn),
        cmocka_unit_test(scores_are_the_expanded_features_times_the_coefficients),
        cmocka_unit_test(a_loaded_model_goes_on_as_if_it_had_never_been_saved),
        cmocka_unit_test(a_model_stored_in_float32_goes_on_almost_the_same),
        cmocka_unit_test(a_table_teaches_the_rows_that_show_the_phase),
        cmocka_unit_test(classes_are_found_in_the_table_by_name),
        cmocka_unit_test(evaluation_measures_the_rows_that_show_a_learned_class),
        cmocka_unit_test(evaluation_measures_all_rows_where_asked_for),
        cmocka_unit_test(features_of_another_backbone_are_refused),
        cmocka_unit_test(a_network_is_known_by_its_checksum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
