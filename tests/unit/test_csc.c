/* The graph network of CSC against the published formulas in double precision, one number at a time and in the published order, and
 * its gradients against differences of these. */
#include "support.h"

#include "layer_cases.h"
#include "method/csc_network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 3, CLASSES = 4, CHANNELS = 6, WIDTH = 5, PREFIX = 1, POSITIONS = 4, MOST = 8 };
enum { MAP = IMAGES * CHANNELS * (PREFIX + POSITIONS) };

/* A copy of the numbers that the formulas depend on. */
struct naive {
    const struct csc_network *net;
    double *values, map[MAP];
    bool batch;
};

static double leaky(double x) {
    return x > 0 ? x : 0.2 * x;
}

static const double *of(const struct naive *naive, enum csc_part part) {
    return naive->values + csc_network_part(naive->net, part).first;
}

static double at(const struct naive *naive, size_t image, size_t channel, size_t position) {
    return naive->map[(image * CHANNELS + channel) * (PREFIX + POSITIONS) + PREFIX + position];
}

/* The highest score of a class, and its node: a convolution of the map, averaged with the attention of the class. */
static double first_score(const struct naive *naive, size_t image, size_t k, double *node) {
    double map[POSITIONS], most = -INFINITY, sum = 0;
    for (size_t p = 0; p < POSITIONS; p++) {
        map[p] = 0;
        for (size_t c = 0; c < CHANNELS; c++) {
            map[p] += of(naive, CSC_CLASSIFY)[k * CHANNELS + c] * at(naive, image, c, p);
        }
        most = fmax(most, map[p]);
    }
    for (size_t p = 0; p < POSITIONS; p++) {
        sum += exp(map[p]);
    }
    for (size_t j = 0; j < WIDTH; j++) {
        node[j] = 0;
        for (size_t p = 0; p < POSITIONS; p++) {
            double transformed = of(naive, CSC_TRANSFORM_BIAS)[j];
            for (size_t c = 0; c < CHANNELS; c++) {
                transformed += of(naive, CSC_TRANSFORM)[j * CHANNELS + c] * at(naive, image, c, p);
            }
            node[j] += transformed * exp(map[p]) / sum;
        }
    }
    return most;
}

static void affine(const struct naive *naive, enum csc_part weight, const double *from, double *to) {
    for (size_t j = 0; j < WIDTH; j++) {
        to[j] = of(naive, (enum csc_part)(weight + 1))[j];
        for (size_t n = 0; n < WIDTH; n++) {
            to[j] += of(naive, weight)[j * WIDTH + n] * from[n];
        }
    }
}

typedef double nodes[CLASSES][WIDTH];

static void relate(const struct naive *naive, const nodes v, nodes x) {
    for (size_t k = 0; k < CLASSES; k++) {
        double related[WIDTH], general[WIDTH];
        for (size_t j = 0; j < WIDTH; j++) {
            related[j] = 0;
            for (size_t other = 0; other < CLASSES; other++) {
                related[j] += of(naive, CSC_RELATE)[k * CLASSES + other] * v[other][j];
            }
            related[j] = leaky(related[j]);
        }
        affine(naive, CSC_GENERAL, related, general);
        for (size_t j = 0; j < WIDTH; j++) {
            x[k][j] = v[k][j] + leaky(general[j]);
        }
    }
}

static void look_at_whole(const struct naive *naive, const nodes *x, double whole[IMAGES][WIDTH]) {
    for (size_t i = 0; i < IMAGES; i++) {
        double middle[WIDTH] = {0};
        for (size_t k = 0; k < CLASSES; k++) {
            for (size_t j = 0; j < WIDTH; j++) {
                middle[j] += x[i][k][j] / CLASSES;
            }
        }
        affine(naive, CSC_MIDDLE, middle, whole[i]);
    }
    for (size_t j = 0; j < WIDTH; j++) {
        double mean = 0, variance = 0;
        for (size_t i = 0; i < IMAGES; i++) {
            mean += whole[i][j] / IMAGES;
        }
        for (size_t i = 0; i < IMAGES; i++) {
            variance += (whole[i][j] - mean) * (whole[i][j] - mean) / IMAGES;
        }
        mean = naive->batch ? mean : of(naive, CSC_MEAN)[j];
        variance = naive->batch ? variance : of(naive, CSC_VARIANCE)[j];
        for (size_t i = 0; i < IMAGES; i++) {
            whole[i][j] =
                leaky(of(naive, CSC_NORM)[j] * (whole[i][j] - mean) / sqrt(variance + 1e-5) + of(naive, CSC_NORM_BIAS)[j]);
        }
    }
}

static double relation(const struct naive *naive, const nodes x, const double *whole, size_t j, size_t k) {
    double sum = of(naive, CSC_ADAPT_BIAS)[j];
    for (size_t n = 0; n < WIDTH; n++) {
        sum += of(naive, CSC_ADAPT)[j * 2 * WIDTH + n] * whole[n] + of(naive, CSC_ADAPT)[j * 2 * WIDTH + WIDTH + n] * x[k][n];
    }
    return 1 / (1 + exp(-sum));
}

static void naive_score(const struct naive *naive, double scores[IMAGES * CLASSES]) {
    nodes v[IMAGES], x[IMAGES];
    double whole[IMAGES][WIDTH];
    for (size_t i = 0; i < IMAGES; i++) {
        for (size_t k = 0; k < CLASSES; k++) {
            scores[i * CLASSES + k] = first_score(naive, i, k, v[i][k]) / 2;
        }
        relate(naive, v[i], x[i]);
    }
    look_at_whole(naive, x, whole);
    for (size_t i = 0; i < IMAGES * CLASSES; i++) {
        const size_t image = i / CLASSES, k = i % CLASSES;
        double mixed[WIDTH] = {0}, own[WIDTH];
        for (size_t j = 0; j < WIDTH; j++) {
            for (size_t other = 0; other < CLASSES; other++) {
                mixed[j] += x[image][other][j] * relation(naive, x[image], whole[image], other, k);
            }
            mixed[j] = leaky(mixed[j]);
        }
        affine(naive, CSC_SPECIFIC, mixed, own);
        scores[i] += of(naive, CSC_LAST_BIAS)[k] / 2;
        for (size_t j = 0; j < WIDTH; j++) {
            scores[i] += of(naive, CSC_LAST)[k * WIDTH + j] * (v[image][k][j] + leaky(own[j])) / 2;
        }
    }
}

static double naive_loss(const struct naive *naive) {
    double scores[IMAGES * CLASSES], sum = 0;
    naive_score(naive, scores);
    for (size_t i = 0; i < IMAGES * CLASSES; i++) {
        sum += (double)layer_case_number("shares", i) * scores[i];
    }
    return sum;
}

/* Everything that one comparison needs. */
struct bench {
    l3a_context *context;
    struct csc_network net;
    struct csc_map map;
    float planes[MAP];
    struct naive naive;
};

static void bench_open(struct bench *bench, bool batch) {
    memset(bench, 0, sizeof *bench);
    bench->context = make_context(2);
    assert_ok(bench->context, csc_network_make(bench->context, CLASSES, CHANNELS, WIDTH, 7, &bench->net));
    const size_t count = bench->net.all;
    bench->naive = (struct naive){.net = &bench->net, .values = malloc(count * sizeof(double)), .batch = batch};
    assert_non_null(bench->naive.values);
    for (size_t i = 0; i < count; i++) {
        bench->net.values[i] += 0.5F * layer_case_number("values", i); /* a norm's variance stays positive */
        bench->naive.values[i] = (double)bench->net.values[i];
    }
    for (size_t i = 0; i < MAP; i++) {
        bench->planes[i] = layer_case_number("map", i);
        bench->naive.map[i] = (double)bench->planes[i];
    }
    bench->map = (struct csc_map){IMAGES, PREFIX, POSITIONS, bench->planes};
}

static void bench_close(struct bench *bench) {
    csc_network_free(&bench->net);
    free(bench->naive.values);
    l3a_context_free(bench->context);
}

static void compare_gradient(struct bench *bench, const char *name, double *number, float found, double largest) {
    const double step = 1e-5, before = *number;
    *number = before + step;
    const double above = naive_loss(&bench->naive);
    *number = before - step;
    const double expected = (above - naive_loss(&bench->naive)) / (2 * step);
    *number = before;
    if (!(fabs((double)found - expected) <= 1e-5 * largest + 1e-6)) {
        print_error("%s, %s: %g, expected %g\n", bench->naive.batch ? "batch" : "fixed", name, (double)found, expected);
        fail();
    }
}

static double largest_of(const float *numbers, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)numbers[i]));
    }
    return largest;
}

static void check(bool batch) {
    struct bench bench;
    float scores[IMAGES * CLASSES], shares[IMAGES * CLASSES], by_map[MAP] = {0};
    double expected[IMAGES * CLASSES];
    bench_open(&bench, batch);
    float *by_values = malloc(bench.net.numbers * sizeof *by_values);
    assert_ok(bench.context, csc_network_score(&bench.net, &bench.map, batch, scores));
    naive_score(&bench.naive, expected);
    for (size_t i = 0; i < IMAGES * CLASSES; i++) {
        shares[i] = layer_case_number("shares", i);
        assert_near((double)scores[i], expected[i], 2e-6 * (1 + fabs(expected[i])));
    }
    assert_ok(bench.context, csc_network_backward(&bench.net, &bench.map, shares, by_values, by_map));
    for (size_t part = 0; part < CSC_MEAN; part++) {
        const struct csc_values values = csc_network_part(&bench.net, (enum csc_part)part);
        const double largest = largest_of(by_values + values.first, values.count);
        for (size_t i = values.first; i < values.first + values.count; i++) {
            compare_gradient(&bench, values.name, &bench.naive.values[i], by_values[i], largest);
        }
    }
    for (size_t i = 0; i < MAP; i++) {
        compare_gradient(&bench, "map", &bench.naive.map[i], by_map[i], largest_of(by_map, MAP));
        assert_true(i % (PREFIX + POSITIONS) >= PREFIX || by_map[i] == 0);
    }
    free(by_values);
    bench_close(&bench);
}

static void scores_and_gradients_are_those_of_the_formulas(void **unused) {
    (void)unused;
    check(true);
    check(false);
}

/* As PyTorch: a tenth of the way, and the variance of the batch has one picture less in its denominator. */
static void the_norm_follows_the_pictures_of_steps_alone(void **unused) {
    struct bench bench;
    float scores[IMAGES * CLASSES];
    (void)unused;
    bench_open(&bench, true);
    const struct csc_values mean = csc_network_part(&bench.net, CSC_MEAN), variance = csc_network_part(&bench.net, CSC_VARIANCE);
    assert_ok(bench.context, csc_network_score(&bench.net, &bench.map, false, scores));
    assert_true((double)mean.values[0] == bench.naive.values[mean.first]);
    assert_ok(bench.context, csc_network_score(&bench.net, &bench.map, true, scores));
    for (size_t j = 0; j < WIDTH; j++) {
        const double scale = (double)bench.net.room.deviation[j], batch = 1 / (scale * scale) - 1e-5;
        const double expected = 0.9 * bench.naive.values[variance.first + j] + 0.1 * batch * IMAGES / (IMAGES - 1);
        assert_near((double)variance.values[j], expected, 1e-5);
        assert_true((double)mean.values[j] != bench.naive.values[mean.first + j]);
    }
    const float kept = variance.values[0];
    bench.map.images = 1;
    assert_ok(bench.context, csc_network_score(&bench.net, &bench.map, true, scores));
    assert_true(variance.values[0] == kept && isfinite(scores[0]));
    bench_close(&bench);
}

static void growing_keeps_what_belongs_to_old_classes(void **unused) {
    struct bench bench;
    (void)unused;
    bench_open(&bench, true);
    for (size_t turn = 0; turn < 2; turn++) {
        struct csc_network grown = {0};
        assert_ok(bench.context, csc_network_grow(&bench.net, MOST, 8, turn == 1, &grown));
        for (size_t i = 0; i < CSC_PARTS; i++) {
            const struct csc_values from = csc_network_part(&bench.net, (enum csc_part)i);
            const struct csc_values to = csc_network_part(&grown, (enum csc_part)i);
            const bool same = turn == 0 || (i != CSC_ADAPT_BIAS && i != CSC_LAST_BIAS);
            const size_t columns = from.columns ? from.columns : 1, stride = to.columns ? to.columns : 1;
            for (size_t j = 0; j < from.count; j++) {
                assert_true((to.values[j / columns * stride + j % columns] == from.values[j]) == same);
            }
        }
        const struct csc_values bias = csc_network_part(&grown, CSC_LAST_BIAS);
        assert_true(bias.count == MOST && bias.values[MOST - 1] != 0);
        csc_network_free(&grown);
    }
    bench_close(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_and_gradients_are_those_of_the_formulas),
        cmocka_unit_test(the_norm_follows_the_pictures_of_steps_alone),
        cmocka_unit_test(growing_keeps_what_belongs_to_old_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
