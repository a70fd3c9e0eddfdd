/* Training as a whole: small networks of two families against a naive loop in double precision, which draws nothing and shares no
 * code with the trainer but the order of the pictures; what is looked at of the data; what is kept; and what goes wrong. */
#include "support.h"

#include "base/random.h"
#include "base/stream.h"
#include "data/dataset.h"
#include "fixture.h"
#include "small_networks.h"
#include "small_training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PICTURES = 7, CLASSES = 3, MOST = 1 << 17 };

static const char *const labels[PICTURES] = {"a", "b", "ab", "c", "", "ac", "bc"};

/* ---- The naive loop ---- */

struct naive {
    struct reading reading;
    struct checkpoint *checkpoint;
    const struct train_settings *settings;
    void *state;
    size_t width, steps, made;
    double *w[4], *m, *v; /* by parameter: see parameter_at() */
    double *head, *head_m, *head_v;
    float *planes;
};

static void naive_update(const struct naive *naive, double g, double rate, double decay, double *w, double *m, double *v) {
    const struct train_settings *s = naive->settings;
    const double pi = acos(-1), t = (double)naive->made, n = (double)naive->steps, turn = 0.2 * n - 1, first = rate / 25;
    double momentum = 0.9, at = rate;
    if (s->schedule == SCHEDULE_ONE_CYCLE) {
        const double up = t <= turn ? (1 - cos(pi * t / turn)) / 2 : 1;
        const double down = t <= turn ? 0 : (1 - cos(pi * (t - fmax(turn, 0)) / (n - 1 - fmax(turn, 0)))) / 2;
        at = t <= turn ? first + (rate - first) * up : rate + (first / 1e4 - rate) * down;
        momentum = t <= turn ? 0.95 - 0.1 * up : 0.85 + 0.1 * down;
    } else if (s->schedule == SCHEDULE_COSINE) {
        at = rate * (1 + cos(pi * t / n)) / 2;
    }
    if (s->optimiser == OPTIMISER_SGD) {
        *m = momentum * *m + g + decay * *w;
        *w -= at * *m;
        return;
    }
    g += s->optimiser == OPTIMISER_ADAM ? decay * *w : 0;
    *w -= s->optimiser == OPTIMISER_ADAMW ? at * decay * *w : 0;
    *m = momentum * *m + (1 - momentum) * g;
    *v = 0.999 * *v + 0.001 * g * g;
    *w -= at * *m / (1 - pow(momentum, t + 1)) / (sqrt(*v / (1 - pow(0.999, t + 1))) + 1e-8);
}

/* Whether the naive loop trains a parameter: by its name in the file alone. */
static bool naive_trains(const struct naive *naive, const struct parameter *parameter) {
    const char *name = parameter->name;
    const size_t length = strlen(name);
    const bool bias = length > 5 && strcmp(name + length - 5, ".bias") == 0;
    return naive->settings->trained == TRAIN_ALL || bias || strstr(name, "norm") || strstr(name, "bn") ||
           strstr(name, "downsample.1");
}

static double naive_loss(l3a_loss loss, double s, int label, double *slope) {
    const double p = 1 / (1 + exp(-s)), q = fmax(p - 0.05, 0);
    if (label == 1 || loss == L3A_LOSS_BINARY) {
        *slope = p - label;
        return label ? -log(p) : -log(1 - p);
    }
    *slope = q > 0 ? pow(q, 4) * p * (1 - p) / (1 - q) : 0;
    return -pow(q, 4) * log(1 - q);
}

/* A step on these pictures; returns the sum of their losses. */
static double naive_step(struct naive *naive, const float *planes, const int8_t *shown, size_t count) {
    const size_t width = naive->width;
    float *features = calloc(count, width * sizeof *features), *by_features = calloc(count, width * sizeof *by_features);
    double *gradient = calloc(CLASSES, (width + 1) * sizeof *gradient), loss = 0, square = 0;
    assert_ok(context, naive_back_end.forward(naive->state, planes, count, &features));
    double *slopes = calloc(count, CLASSES * sizeof *slopes);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < CLASSES; k++) {
            double s = naive->head[CLASSES * width + k];
            for (size_t j = 0; j < width; j++) {
                s += naive->head[k * width + j] * (double)features[i * width + j];
            }
            loss += naive_loss(naive->settings->loss, s, shown[i * CLASSES + k], &slopes[i * CLASSES + k]);
        }
        for (size_t j = 0; j < width; j++) {
            double sum = 0;
            for (size_t k = 0; k < CLASSES; k++) {
                sum += slopes[i * CLASSES + k] * naive->head[k * width + j];
                gradient[k * width + j] += slopes[i * CLASSES + k] * (double)features[i * width + j];
            }
            by_features[i * width + j] = (float)sum;
        }
        for (size_t k = 0; k < CLASSES; k++) {
            gradient[CLASSES * width + k] += slopes[i * CLASSES + k];
        }
    }
    assert_ok(context, naive_back_end.backward(naive->state, (const float *const[]){by_features}));
    static float values[MOST], gradients[MOST];
    const struct network *network = &naive->reading.network;
    for (int pass = 0; pass < 2; pass++) { /* first the norm of all gradients, then the steps */
        const double clip = naive->settings->clip, norm = sqrt(square);
        const double scale = pass && clip > 0 && norm > clip ? clip / norm : 1;
        size_t at = 0;
        for (size_t i = 0; i < network->layer_count; i++) {
            for (enum parameter_kind kind = FACTORS; kind < MEAN; kind++) {
                const struct parameter *parameter = &network->layers[i].parameters[kind];
                if (!parameter->values || !naive_trains(naive, parameter)) {
                    continue;
                }
                assert_ok(context, naive_back_end.read(naive->state, i, kind, PARAMETER_GRADIENT, gradients));
                for (size_t j = 0; j < parameter->count; j++, at++) {
                    square += pass ? 0 : (double)gradients[j] * (double)gradients[j];
                    if (pass) {
                        naive_update(naive, scale * (double)gradients[j], naive->settings->rate,
                                     parameter->rank > 1 ? naive->settings->decay : 0, &naive->w[0][at], &naive->m[at],
                                     &naive->v[at]);
                    }
                    values[j] = (float)naive->w[0][at];
                }
                assert_ok(context, naive_back_end.write(naive->state, i, kind, PARAMETER_VALUE, values));
            }
        }
        for (size_t j = 0; j < CLASSES * (width + 1); j++) {
            square += pass ? 0 : gradient[j] * gradient[j];
            if (pass) {
                naive_update(naive, scale * gradient[j], naive->settings->head_rate,
                             j < CLASSES * width ? naive->settings->decay : 0, &naive->head[j], &naive->head_m[j],
                             &naive->head_v[j]);
            }
        }
    }
    naive->made++;
    free(features);
    free(by_features);
    free(gradient);
    free(slopes);
    return loss;
}

static void naive_open(struct naive *naive, const char *path, const l3a_backbone_options *options,
                       const struct train_settings *settings, const float *head) {
    struct parameter_source source;
    const struct network_use use = {.training = true, .pictures = PICTURES};
    size_t at = 0;
    *naive = (struct naive){.settings = settings};
    assert_ok(context, checkpoint_open(context, path, &naive->checkpoint));
    parameter_source_checkpoint(naive->checkpoint, &source);
    assert_ok(context, backbone_read(context, &source, options, &naive->reading));
    struct network *network = &naive->reading.network;
    network->output_count = 1;
    naive->width = network->shapes[network->outputs[0].value].channels;
    naive->w[0] = calloc(1 << 20, sizeof(double));
    naive->m = calloc(1 << 20, sizeof(double));
    naive->v = calloc(1 << 20, sizeof(double));
    for (size_t i = 0; i < network->layer_count; i++) {
        for (enum parameter_kind kind = FACTORS; kind < MEAN; kind++) {
            const struct parameter *parameter = &network->layers[i].parameters[kind];
            for (size_t j = 0; parameter->values && naive_trains(naive, parameter) && j < parameter->count; j++, at++) {
                assert_true(at < 1 << 20);
                naive->w[0][at] = (double)parameter->values[j];
            }
        }
    }
    const size_t numbers = CLASSES * (naive->width + 1);
    naive->head = calloc(3, numbers * sizeof(double));
    naive->head_m = naive->head + numbers;
    naive->head_v = naive->head + 2 * numbers;
    for (size_t i = 0; i < numbers; i++) {
        naive->head[i] = (double)head[i];
    }
    assert_ok(context, naive_back_end.open(network, &use, &naive->state));
}

static void naive_close(struct naive *naive) {
    naive_back_end.close(naive->state);
    network_free(&naive->reading.network);
    checkpoint_free(naive->checkpoint);
    free(naive->w[0]);
    free(naive->m);
    free(naive->v);
    free(naive->head);
}

/* ---- Comparisons ---- */

struct trial {
    const char *name;
    void (*make)(struct memory_tensors *tensors);
    size_t side;
    l3a_train_options options;
    double tolerance;
};

/* The order in which an epoch shows the pictures. */
static void order_of(const l3a_dataset *dataset, const struct train_settings *settings, size_t epoch, size_t *order) {
    size_t rows[PICTURES], done = 0;
    struct batches *batches = NULL;
    struct picture_batch batch;
    const l3a_loader_options loader = {.size = sizeof loader, .width = 8, .height = 8};
    const struct batches_options options = {
        .loader = &loader, .seed = random_bits(settings->seed, 2), .batch = settings->batch, .shuffled = true};
    for (size_t i = 0; i < PICTURES; i++) {
        rows[i] = i;
    }
    assert_ok(context, batches_open(context, dataset, rows, PICTURES, &options, &batches));
    assert_ok(context, batches_begin(batches, epoch, 0));
    for (assert_ok(context, batches_next(batches, &batch)); batch.count; assert_ok(context, batches_next(batches, &batch))) {
        memcpy(order + done, batch.rows, batch.count * sizeof *order);
        done += batch.count;
    }
    assert_int_equal(done, PICTURES);
    batches_free(batches);
}

/* All pictures as the network sees them, by the library's own loader. */
static float *load_all(const l3a_dataset *dataset, const l3a_backbone_info *info) {
    const size_t size = 3 * info->size * info->size;
    float *planes = malloc(PICTURES * size * sizeof *planes);
    const char *paths[PICTURES];
    l3a_loader *loader = NULL;
    l3a_loader_options options = {.size = sizeof options, .width = info->size, .height = info->size, .filter = info->filter};
    memcpy(options.mean, info->mean, sizeof options.mean);
    memcpy(options.deviation, info->deviation, sizeof options.deviation);
    for (size_t i = 0; i < PICTURES; i++) {
        paths[i] = l3a_dataset_path(dataset, i);
    }
    assert_ok(context, l3a_loader_create(context, paths, PICTURES, &options, &loader));
    for (size_t i = 0; i < PICTURES; i++) {
        size_t index;
        assert_ok(context, l3a_loader_next(loader, &index, planes + i * size));
    }
    l3a_loader_free(loader);
    return planes;
}

static double told[16];

static void keep_loss(const l3a_train_epoch *epoch, void *user) {
    (void)user;
    told[epoch->epoch - 1] = epoch->loss;
    assert_true(isnan(epoch->mean_ap) && !epoch->resumed && epoch->seconds >= 0);
}

static void compare_tensor(const char *trial, const char *path, const char *name, const double *expected, size_t count,
                           double tolerance) {
    size_t found;
    float *numbers = read_tensor(context, path, name, &found);
    assert_non_null(numbers);
    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++) {
        if (!(fabs((double)numbers[i] - expected[i]) <= tolerance * (1 + fabs(expected[i])))) {
            print_error("%s: %s[%zu] is %.9g instead of %.9g\n", trial, name, i, (double)numbers[i], expected[i]);
            fail();
        }
    }
    free(numbers);
}

/* The checkpoint has what the naive loop came to: what was trained, what followed the pictures, and what stayed. */
static void compare_checkpoint(const struct trial *trial, const struct naive *naive, const char *path) {
    static float values[MOST];
    static double expected[MOST];
    const struct network *network = &naive->reading.network;
    size_t changed = 0;
    for (size_t i = 0; i < network->layer_count; i++) {
        for (enum parameter_kind kind = FACTORS; kind < PARAMETER_KINDS; kind++) {
            const struct parameter *parameter = &network->layers[i].parameters[kind];
            if (parameter->values) {
                assert_ok(context, naive_back_end.read(naive->state, i, kind, PARAMETER_VALUE, values));
                for (size_t j = 0; j < parameter->count; j++) {
                    expected[j] = (double)values[j];
                    changed += values[j] != parameter->values[j];
                }
                compare_tensor(trial->name, path, parameter->name, expected, parameter->count, trial->tolerance);
            }
        }
    }
    assert_true(changed > 500);
}

static void train_and_compare(const struct trial *trial) {
    char *network = write_small_network(context, folder, "from.safetensors", trial->make),
         *path = path_in(folder, "to.safetensors");
    char *name = write_small_set(folder, "list.csv", labels, PICTURES);
    l3a_dataset *dataset = open_small_set(context, name);
    l3a_train_options options = trial->options;
    l3a_backbone_options backbone = {.size = sizeof backbone, .side = trial->side};
    struct training training;
    struct naive naive;
    l3a_train_report report;
    int8_t shown[PICTURES * CLASSES];
    size_t order[PICTURES];
    options.size = sizeof options;
    options.backbone = &backbone;
    options.least_area = options.flip = -1;
    options.validation_share = -1;
    options.on_epoch = keep_loss;
    assert_ok(context, train_with(context, &naive_back_end, network, dataset, NULL, &options, path, &report));

    assert_ok(context, training_open(context, &naive_back_end, network, dataset, NULL, &options, &training)); /* for its head */
    assert_ok(context, training_start(&training));
    naive_open(&naive, network, &backbone, &training.settings, training.head.values);
    const struct train_settings *settings = &training.settings;
    const size_t batch = settings->batch, size = 3 * trial->side * trial->side;
    float *all = load_all(dataset, &training.info), *planes = malloc(PICTURES * size * sizeof *planes);
    naive.steps = settings->epochs * ((PICTURES + batch - 1) / batch);
    for (size_t epoch = 0; epoch < settings->epochs; epoch++) {
        double loss = 0;
        order_of(dataset, settings, epoch, order);
        for (size_t first = 0; first < PICTURES; first += batch) {
            const size_t count = PICTURES - first < batch ? PICTURES - first : batch;
            for (size_t i = 0; i < count; i++) {
                memcpy(planes + i * size, all + order[first + i] * size, size * sizeof *planes);
                for (size_t k = 0; k < CLASSES; k++) {
                    shown[i * CLASSES + k] = strchr(labels[order[first + i]], "abc"[k]) != NULL;
                }
            }
            loss += naive_step(&naive, planes, shown, count);
        }
        assert_near(told[epoch], loss / PICTURES, 1e-4 * loss / PICTURES);
    }
    compare_checkpoint(trial, &naive, path);
    assert_int_equal(report.steps, naive.steps);
    assert_int_equal(report.epochs, settings->epochs);
    assert_true(report.kept == settings->epochs && report.resumed == 0 && report.loss == told[settings->epochs - 1]);
    assert_true(report.speed > 0 && report.seconds >= report.waited);
    naive_close(&naive);
    training_close(&training);
    l3a_dataset_free(dataset);
    free(all);
    free(planes);
    free(network);
    free(path);
    free(name);
}

static void small_resnet(struct memory_tensors *tensors) {
    make_small_resnet_of(tensors, 4);
}

static void small_vit(struct memory_tensors *tensors) {
    make_small_vit_of(tensors, 1);
}

static void training_is_what_a_naive_loop_does(void **state) {
    (void)state;
    const struct trial trials[] = {
        {"vit, all, sgd",
         small_vit,
         12,
         {.trained = "all",
          .optimiser = "sgd",
          .schedule = "constant",
          .rate = 1e-3,
          .head_rate = 1e-2,
          .epochs = 2,
          .batch = 3,
          .decay = 0.1,
          .loss = "bce"},
         1e-5},
        {"vit, all, adam, clipped",
         small_vit,
         12,
         {.trained = "all",
          .optimiser = "adam",
          .schedule = "one-cycle",
          .rate = 1e-3,
          .head_rate = 1e-2,
          .epochs = 4,
          .batch = 4,
          .decay = 0.01,
          .clip = 0.5},
         1e-4},
        {"vit, norms, adamw",
         small_vit,
         12,
         {.trained = "norms",
          .optimiser = "adamw",
          .schedule = "cosine",
          .rate = 1e-3,
          .head_rate = 1e-2,
          .epochs = 3,
          .batch = 2,
          .decay = 0.3,
          .seed = 5},
         1e-4},
        {"resnet, all, sgd",
         small_resnet,
         32,
         {.trained = "all",
          .optimiser = "sgd",
          .schedule = "cosine",
          .rate = 1e-4,
          .head_rate = 1e-3,
          .epochs = 2,
          .batch = 4,
          .decay = 0.1},
         1e-4},
        {"resnet, norms, adamw",
         small_resnet,
         32,
         {.trained = "norms",
          .optimiser = "adamw",
          .schedule = "one-cycle",
          .rate = 1e-3,
          .head_rate = 1e-2,
          .epochs = 2,
          .batch = 4,
          .clip = 1},
         1e-4},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        train_and_compare(&trials[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_is_what_a_naive_loop_does),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
