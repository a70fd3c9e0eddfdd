/* What training is made of, each part by itself: losses, rates, steps, which parameters are trained, which pictures and labels are
 * looked at, and what recipes and options say. */
#include "support.h"

#include "fixture.h"
#include "net/backbone.h"
#include "net/cpu/train_optimiser.h"
#include "small_networks.h"
#include "train/examples.h"
#include "train/linear_head.h"
#include "train/selection.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double uniform_in(uint64_t seed, uint64_t index, double low, double high) {
    return low + (high - low) * l3a_uniform(seed, index);
}

/* ---- Losses ---- */

/* The loss of a score whose focusing factor is that of another one. */
static double naive_loss(l3a_loss loss, double s, double at, int label) {
    const double p = 1 / (1 + exp(-s)), fixed = 1 / (1 + exp(-at));
    if (label == 1 || loss == L3A_LOSS_BINARY) {
        return label == 1 ? -log(p) : -log(1 - p);
    }
    return -pow(fmax(fixed - 0.05, 0), 4) * log(1 - fmax(p - 0.05, 0));
}

static void losses_are_sums_and_have_their_gradients(void **state) {
    (void)state;
    enum { ROWS = 7, CLASSES = 31, COUNT = ROWS * CLASSES };
    const double h = 1e-6;
    for (l3a_loss loss = L3A_LOSS_ASYMMETRIC; loss <= L3A_LOSS_BINARY; loss++) {
        float scores[COUNT], gradient[COUNT];
        int8_t labels[COUNT];
        double sum = 0;
        for (size_t i = 0; i < COUNT; i++) {
            scores[i] = (float)uniform_in(1, i, -9, 9);
            labels[i] = (int8_t)((int)(i % 3) - 1);
        }
        const double found = loss_of_labels(loss, ROWS, CLASSES, scores, labels, gradient);
        for (size_t i = 0; i < COUNT; i++) {
            const double s = (double)scores[i];
            if (labels[i] < 0) {
                assert_true(gradient[i] == 0);
                continue;
            }
            sum += naive_loss(loss, s, s, labels[i]);
            assert_near((double)gradient[i],
                        (naive_loss(loss, s + h, s, labels[i]) - naive_loss(loss, s - h, s, labels[i])) / (2 * h), 1e-6);
        }
        assert_near(found, sum, 1e-6 * sum);
    }
}

static void a_score_that_is_no_number_is_a_loss_that_is_none(void **state) {
    (void)state;
    for (l3a_loss loss = L3A_LOSS_ASYMMETRIC; loss <= L3A_LOSS_BINARY; loss++) {
        for (int8_t label = -1; label <= 1; label++) {
            const float scores[2] = {0, NAN};
            const int8_t labels[2] = {0, label};
            float gradient[2];
            assert_true(isfinite(loss_of_labels(loss, 1, 2, scores, labels, gradient)) == (label < 0));
        }
    }
    const float large[4] = {1e30F, -1e30F, 1e30F, -1e30F};
    const int8_t labels[4] = {1, 0, 1, 0};
    float gradient[4];
    assert_true(loss_of_labels(L3A_LOSS_BINARY, 1, 4, large, labels, gradient) == 0);
}

/* ---- Rates and steps ---- */

static void rates_follow_their_schedule(void **state) {
    (void)state;
    const double pi = acos(-1), highest = 0.4;
    for (size_t step = 0; step < 50; step++) {
        const double t = (double)step, first = highest / 25;
        const double up = (1 - cos(pi * t / 9)) / 2, down = (1 - cos(pi * (t - 9) / 40)) / 2;
        const double cycle = t <= 9 ? first + (highest - first) * up : highest + (first / 1e4 - highest) * down;
        assert_near(schedule_rate(SCHEDULE_ONE_CYCLE, step, 50, highest), cycle, 1e-12);
        assert_near(schedule_momentum(SCHEDULE_ONE_CYCLE, step, 50), t <= 9 ? 0.95 - 0.1 * up : 0.85 + 0.1 * down, 1e-12);
        assert_near(schedule_rate(SCHEDULE_COSINE, step, 50, highest), highest * (1 + cos(pi * t / 50)) / 2, 1e-12);
        assert_true(schedule_rate(SCHEDULE_CONSTANT, step, 50, highest) == highest);
        assert_true(schedule_momentum(SCHEDULE_COSINE, step, 50) == 0.9 && schedule_momentum(SCHEDULE_CONSTANT, step, 50) == 0.9);
    }
}

/* The formulas of back_end.h in double precision. */
static void naive_step(const struct network_step *step, double rate, double decay, double g, double *w, double *m, double *v) {
    const double t = (double)step->number;
    g *= step->scale;
    if (step->optimiser == OPTIMISER_SGD) {
        *m = step->momentum * *m + g + decay * *w;
        *w -= rate * *m;
        return;
    }
    if (step->optimiser == OPTIMISER_ADAM) {
        g += decay * *w;
    } else {
        *w -= rate * decay * *w;
    }
    *m = step->momentum * *m + (1 - step->momentum) * g;
    *v = step->square * *v + (1 - step->square) * g * g;
    *w -= rate * (*m / (1 - pow(step->momentum, t))) / (sqrt(*v / (1 - pow(step->square, t))) + step->epsilon);
}

static void steps_are_those_of_back_ends(void **state) {
    (void)state;
    enum { COUNT = 23, STEPS = 40 };
    const struct parameter_use use = {.trained = true, .rate = 0.5F, .decay = 0.125F};
    for (enum optimiser optimiser = OPTIMISER_SGD; optimiser <= OPTIMISER_ADAMW; optimiser++) {
        float values[COUNT], moment[COUNT] = {0}, square[COUNT] = {0}, gradient[COUNT];
        double w[COUNT], m[COUNT] = {0}, v[COUNT] = {0};
        for (size_t i = 0; i < COUNT; i++) {
            values[i] = (float)uniform_in(2, i, -1, 1);
            w[i] = (double)values[i];
        }
        for (uint64_t number = 1; number <= STEPS; number++) {
            const struct network_step step = {.optimiser = optimiser,
                                              .rate = 0.01 * (double)(number % 7 + 1),
                                              .momentum = 0.8 + 0.01 * (double)(number % 10),
                                              .square = 0.999,
                                              .epsilon = 1e-8,
                                              .scale = number % 2 ? 1 : 0.25,
                                              .number = number};
            for (size_t i = 0; i < COUNT; i++) {
                gradient[i] = (float)(uniform_in(number + 10, i, -1, 1) * pow(10, (double)(i % 5) - 3));
                naive_step(&step, step.rate * 0.5, 0.125, (double)gradient[i], &w[i], &m[i], &v[i]);
            }
            optimiser_step(&step, &use, COUNT, gradient, moment, optimiser == OPTIMISER_SGD ? NULL : square, values);
        }
        for (size_t i = 0; i < COUNT; i++) {
            assert_near((double)values[i], w[i], 2e-6);
            assert_near((double)moment[i], m[i], 1e-6);
        }
    }
}

static void a_head_has_the_gradients_of_its_scores(void **state) {
    (void)state;
    enum { ROWS = 5, WIDTH = 9, CLASSES = 4 };
    float features[ROWS * WIDTH], shares[ROWS * CLASSES], scores[ROWS * CLASSES], by_features[ROWS * WIDTH];
    struct linear_head head;
    double square = 0;
    assert_ok(context, linear_head_make(context, CLASSES, WIDTH, 3, &head));
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        features[i] = (float)uniform_in(4, i, -1, 1);
    }
    for (size_t i = 0; i < ROWS * CLASSES; i++) {
        shares[i] = (float)uniform_in(5, i, -1, 1);
    }
    for (size_t k = 0; k < CLASSES; k++) {
        assert_true(head.values[CLASSES * WIDTH + k] == 0);
        head.values[CLASSES * WIDTH + k] = (float)k;
    }
    linear_head_score(context, &head, head.values, features, ROWS, scores);
    linear_head_backward(context, &head, features, shares, ROWS, by_features);
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t k = 0; k < CLASSES; k++) {
            double sum = (double)k;
            for (size_t j = 0; j < WIDTH; j++) {
                sum += (double)head.values[k * WIDTH + j] * (double)features[i * WIDTH + j];
            }
            assert_near((double)scores[i * CLASSES + k], sum, 1e-6);
        }
        for (size_t j = 0; j < WIDTH; j++) {
            double sum = 0;
            for (size_t k = 0; k < CLASSES; k++) {
                sum += (double)shares[i * CLASSES + k] * (double)head.values[k * WIDTH + j];
            }
            assert_near((double)by_features[i * WIDTH + j], sum, 1e-6);
        }
    }
    for (size_t k = 0; k < CLASSES; k++) {
        for (size_t j = 0; j <= WIDTH; j++) { /* the last is b */
            double sum = 0;
            for (size_t i = 0; i < ROWS; i++) {
                sum += (double)shares[i * CLASSES + k] * (j < WIDTH ? (double)features[i * WIDTH + j] : 1);
            }
            assert_near((double)head.gradient[j < WIDTH ? k * WIDTH + j : CLASSES * WIDTH + k], sum, 1e-6);
            square += sum * sum;
        }
    }
    assert_near(linear_head_square(&head), square, 1e-5);
    linear_head_free(context, &head);
}

static void a_head_begins_with_small_normal_numbers(void **state) {
    (void)state;
    enum { WIDTH = 2000, CLASSES = 20, COUNT = WIDTH * CLASSES };
    struct linear_head head;
    double sum = 0, squares = 0, fourth = 0;
    assert_ok(context, linear_head_make(context, CLASSES, WIDTH, 6, &head));
    for (size_t i = 0; i < COUNT; i++) {
        const double x = (double)head.values[i] / 0.01;
        sum += x / COUNT;
        squares += x * x / COUNT;
        fourth += x * x * x * x / COUNT;
    }
    assert_near(sum, 0, 5 / sqrt(COUNT));
    assert_near(squares, 1, 5 * sqrt(2.0 / COUNT));
    assert_near(fourth, 3, 5 * sqrt(96.0 / COUNT));
    linear_head_free(context, &head);
}

/* ---- Which parameters are trained ---- */

typedef void network_maker(struct memory_tensors *tensors);

static void read_network(network_maker *make, struct reading *reading) {
    static struct memory_tensors tensors;
    const l3a_backbone_options options = {.size = sizeof options, .mean = {0.5F, 0.5F, 0.5F}, .deviation = {0.5F, 0.5F, 0.5F}};
    make(&tensors);
    const struct parameter_source source = tensors_source(&tensors, read_small);
    assert_ok(context, backbone_read(context, &source, &options, reading));
}

/* The names of what is trained, in the order of the layers, after a space each. */
static char *names_of(network_maker *make, const char *trained, double decay) {
    static char text[1 << 16];
    const l3a_train_options options = {.size = sizeof options, .trained = trained, .decay = decay};
    struct train_settings settings;
    struct selection selection;
    struct reading reading;
    size_t length = 0, listed = 0;
    read_network(make, &reading);
    assert_ok(context, settings_complete(context, &options, "", &settings));
    assert_ok(context, selection_make(&reading.network, &settings, &selection));
    text[0] = 0;
    for (size_t i = 0; i < reading.network.layer_count; i++) {
        for (enum parameter_kind kind = FACTORS; kind < PARAMETER_KINDS; kind++) {
            const struct parameter *parameter = &reading.network.layers[i].parameters[kind];
            const struct parameter_use *use = &selection.uses[i][kind];
            const struct changed_parameter *changed = selection_find(&selection, i, kind);
            const bool moves = kind >= MEAN && selection.uses[i][FACTORS].trained;
            assert_true(!use->trained || parameter->values);
            assert_true((changed != NULL) == (use->trained || (moves && parameter->values)));
            listed += changed != NULL;
            assert_true(!changed || (changed->count == parameter->count && changed->stepped == use->trained));
            if (use->trained) {
                assert_true(use->rate == 1 && use->decay == (parameter->rank > 1 ? (float)decay : 0));
                length += (size_t)snprintf(text + length, sizeof text - length, " %s", parameter->name);
            }
        }
    }
    assert_int_equal(listed, selection.count);
    selection_free(context, &selection);
    network_free(&reading.network);
    return text;
}

static void what_is_trained_is_chosen_by_name_and_place(void **state) {
    (void)state;
    assert_string_equal(names_of(make_small_vit, "norms", 0.5),
                        " patch_embed.proj.bias blocks.0.norm1.weight blocks.0.norm1.bias blocks.0.attn.qkv.bias "
                        "blocks.0.attn.proj.bias blocks.0.norm2.weight blocks.0.norm2.bias blocks.0.mlp.fc1.bias "
                        "blocks.0.mlp.fc2.bias blocks.1.norm1.weight blocks.1.norm1.bias blocks.1.attn.qkv.bias "
                        "blocks.1.attn.proj.bias blocks.1.norm2.weight blocks.1.norm2.bias blocks.1.mlp.fc1.bias "
                        "blocks.1.mlp.fc2.bias norm.weight norm.bias");
    assert_string_equal(names_of(make_small_vit, "last:1", 0.5),
                        " blocks.1.norm1.weight blocks.1.norm1.bias blocks.1.attn.qkv.weight blocks.1.attn.qkv.bias "
                        "blocks.1.attn.proj.weight blocks.1.attn.proj.bias blocks.1.norm2.weight blocks.1.norm2.bias "
                        "blocks.1.mlp.fc1.weight blocks.1.mlp.fc1.bias blocks.1.mlp.fc2.weight blocks.1.mlp.fc2.bias norm.weight "
                        "norm.bias");
    assert_string_equal(names_of(make_small_vit, "head", 0.5), "");
    const char *all = names_of(make_small_vit, "all", 0.5);
    assert_true(strstr(all, " cls_token") && strstr(all, " pos_embed") && strstr(all, " patch_embed.proj.weight"));
    assert_string_equal(names_of(make_small_resnet, "last:1", 0.25),
                        " layer4.0.conv1.weight layer4.0.bn1.weight layer4.0.bn1.bias layer4.0.downsample.0.weight "
                        "layer4.0.downsample.1.weight layer4.0.downsample.1.bias layer4.0.conv2.weight layer4.0.bn2.weight "
                        "layer4.0.bn2.bias");
    const char *norms = names_of(make_small_resnet, "norms", 0.25);
    assert_true(strncmp(norms, " bn1.weight bn1.bias layer1.0.bn1.weight", 40) == 0 && !strstr(norms, "conv"));
    assert_null(strstr(names_of(make_small_tresnet, "last:2", 0.25), "layer2"));
}

static void there_are_only_so_many_blocks(void **state) {
    (void)state;
    const l3a_train_options options = {.size = sizeof options, .trained = "last:3"};
    struct train_settings settings;
    struct selection selection;
    struct reading reading;
    read_network(make_small_vit, &reading);
    assert_ok(context, settings_complete(context, &options, "", &settings));
    assert_fails(context, selection_make(&reading.network, &settings, &selection), L3A_ERROR_OPTION, "the network has 2");
    assert_string_equal(l3a_error_hint(context), "use last:2 at most");
    selection_free(context, &selection);
    network_free(&reading.network);
}

/* ---- Which pictures ---- */

static l3a_dataset *open_list(const char *name, const char *text) {
    char *path = path_in(folder, name), *full = NULL;
    l3a_dataset *dataset = NULL;
    put(name, text);
    assert_true(asprintf(&full, "list:%s", path) > 0);
    assert_ok(context, l3a_dataset_open(context, full, NULL, NULL, &dataset));
    free(path);
    free(full);
    return dataset;
}

static void only_pictures_of_listed_classes_are_chosen(void **state) {
    (void)state;
    l3a_dataset *dataset = open_list("list.csv", "path,labels\na.jpg,cat\nb.jpg,dog;cat\nc.jpg,\nd.jpg,dog\ne.jpg,eel\n");
    const char *const pair[] = {"eel", "cat"}, *const wrong[] = {"cow"}, *const twice[] = {"cat", "cat"};
    const char *const every[] = {"cat", "dog", "eel"};
    struct examples examples;
    int8_t labels[3 * 5];
    assert_ok(context, examples_choose(context, dataset, pair, 2, true, &examples));
    assert_int_equal(examples.count, 3);
    assert_true(examples.rows[0] == 0 && examples.rows[1] == 1 && examples.rows[2] == 4);
    examples_labels(&examples, examples.rows, 3, labels);
    assert_memory_equal(labels, ((int8_t[]){0, 1, 0, 1, 1, 0}), 6);
    examples_free(context, &examples);
    assert_ok(context, examples_choose(context, dataset, every, 3, false, &examples));
    assert_int_equal(examples.count, 5);
    examples_free(context, &examples);
    assert_ok(context, examples_choose(context, dataset, every, 3, true, &examples));
    assert_int_equal(examples.count, 4);
    examples_free(context, &examples);
    assert_fails(context, examples_choose(context, dataset, wrong, 1, true, &examples), L3A_ERROR_CLASS, "no class 'cow'");
    examples_free(context, &examples);
    assert_fails(context, examples_choose(context, dataset, twice, 2, true, &examples), L3A_ERROR_CLASS, "twice");
    examples_free(context, &examples);
    l3a_dataset_free(dataset);
}

static void a_share_is_held_back_at_random(void **state) {
    (void)state;
    enum { ROWS = 200 };
    char text[ROWS * 16 + 32] = "path,labels\n";
    const char *const classes[] = {"cat"};
    size_t seen[ROWS] = {0};
    for (size_t i = 0; i < ROWS; i++) {
        snprintf(text + strlen(text), 16, "%zu.jpg,cat\n", i);
    }
    l3a_dataset *dataset = open_list("many.csv", text);
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct examples examples, held;
        size_t both = 0;
        assert_ok(context, examples_choose(context, dataset, classes, 1, false, &examples));
        assert_ok(context, examples_hold(context, 0.25, seed, &examples, &held));
        assert_int_equal(examples.count, 150);
        assert_int_equal(held.count, 50);
        for (size_t i = 0; i < 50; i++) {
            seen[held.rows[i]]++;
            assert_true(!i || held.rows[i - 1] < held.rows[i]);
            for (size_t j = 0; j < 150; j++) {
                both += examples.rows[j] == held.rows[i];
            }
        }
        assert_int_equal(both, 0);
        examples_free(context, &examples);
        examples_free(context, &held);
    }
    for (size_t i = 0; i < ROWS; i++) {
        assert_near((double)seen[i], 12.5, 5 * sqrt(50 * 0.25 * 0.75));
    }
    struct examples few, none;
    assert_ok(context, examples_choose(context, dataset, classes, 1, false, &few));
    assert_ok(context, examples_hold(context, 0.049, 1, &few, &none));
    assert_true(few.count == ROWS && none.count == 0);
    examples_free(context, &few);
    examples_free(context, &none);
    l3a_dataset_free(dataset);
}

/* ---- Settings ---- */

static void recipes_say_what_options_do_not(void **state) {
    (void)state;
    struct train_settings settings;
    char text[512];
    assert_string_equal(l3a_train_recipe_at(0)->name, "norms");
    assert_string_equal(l3a_train_recipe_at(1)->name, "released");
    assert_null(l3a_train_recipe_at(2));
    assert_ok(context, settings_complete(context, &(l3a_train_options){.recipe = NULL}, "coco:x", &settings));
    settings_describe(&settings, text, sizeof text);
    assert_string_equal(text,
                        "recipe norms: norms and biases, 10 epochs of batches of 64, adamw 0.001 (head 0.01), decay 0.01, one-cycle, "
                        "asl, crops of 0.5 to 1 of the area, flips");
    assert_true(settings.share == 0.1 && settings.clip == 0 && settings.momentum == 0 && !settings.last);
    assert_ok(context, settings_complete(context, &(l3a_train_options){.recipe = "released"}, "coco:x", &settings));
    settings_describe(&settings, text, sizeof text);
    assert_string_equal(text, 
                        "recipe released: everything, 1 epoch of batches of 64, adam 4e-05 (head 4e-05), decay 0.0001, one-cycle, asl");
    assert_true(settings.share == 0 && settings.trained == TRAIN_ALL);
    assert_ok(context, settings_complete(context, &(l3a_train_options){.recipe = "released"}, "voc:x", &settings));
    assert_true(settings.decay == 1e-5);
}

static void options_replace_what_recipes_say(void **state) {
    (void)state;
    const l3a_train_options options = {.trained = "last:12",
                                       .seed = 9,
                                       .epochs = 3,
                                       .batch = 8,
                                       .rate = 0.5,
                                       .head_rate = 2,
                                       .schedule = "cosine",
                                       .optimiser = "sgd",
                                       .momentum = 0.5,
                                       .decay = -1,
                                       .clip = 4,
                                       .loss = "bce",
                                       .least_area = -1,
                                       .flip = -1,
                                       .cutout = 0.5,
                                       .validation_share = -1,
                                       .keep_last = 1};
    struct train_settings s;
    assert_ok(context, settings_complete(context, &options, "", &s));
    assert_true(s.trained == TRAIN_LAST && s.blocks == 12 && s.seed == 9 && s.epochs == 3 && s.batch == 8);
    assert_true(s.rate == 0.5 && s.head_rate == 2 && s.schedule == SCHEDULE_COSINE && s.optimiser == OPTIMISER_SGD);
    assert_true(s.momentum == 0.5 && s.decay == 0 && s.clip == 4 && s.loss == L3A_LOSS_BINARY && s.share == 0 && s.last);
    assert_true(s.augmentation.most == 0 && !s.augmentation.flip && s.augmentation.cutout == 0.5);
    const l3a_train_options crops = {.recipe = "released", .least_area = 0.2, .flip = 1};
    assert_ok(context, settings_complete(context, &crops, "", &s));
    assert_true(s.augmentation.least == 0.2 && s.augmentation.most == 1 && s.augmentation.ratio > 1.3 && s.augmentation.flip);
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    const struct {
        l3a_train_options options;
        const char *text;
    } cases[] = {{{.recipe = "norm"}, "no recipe 'norm'"},
                 {{.trained = "everything"}, "'everything'"},
                 {{.trained = "last:"}, "no number of blocks"},
                 {{.trained = "last:0"}, "no number of blocks"},
                 {{.optimiser = "adan"}, "no optimiser 'adan'"},
                 {{.schedule = "cosin"}, "no schedule"},
                 {{.loss = "mse"}, "no loss 'mse'"},
                 {{.rate = -1}, "a rate is above 0"},
                 {{.rate = NAN}, "the rate of a training"},
                 {{.head_rate = INFINITY}, "the rate of the head"},
                 {{.momentum = 1}, "a momentum"},
                 {{.decay = NAN}, "the decay"},
                 {{.validation_share = 1}, "validation share"},
                 {{.epochs = 10000000}, "epochs"},
                 {{.batch = 1 << 20}, "in a batch"},
                 {{.least_area = 0.9, .most_area = 0.3}, ""},
                 {{.least_area = -1, .most_area = 0.3}, "there are none"},
                 {{.cutout = 2}, "cutout"}};
    struct train_settings settings;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const l3a_status found = settings_complete(context, &cases[i].options, "", &settings);
        assert_true(found == L3A_ERROR_OPTION || found == L3A_ERROR_ARGUMENT);
        assert_non_null(strstr(l3a_error_text(context), cases[i].text));
    }
    assert_fails(context, settings_complete(context, &(l3a_train_options){.optimiser = "adan"}, "", &settings), L3A_ERROR_OPTION,
                 "adan");
    assert_non_null(strstr(l3a_error_hint(context), "adam"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_sums_and_have_their_gradients),
        cmocka_unit_test(a_score_that_is_no_number_is_a_loss_that_is_none),
        cmocka_unit_test(rates_follow_their_schedule),
        cmocka_unit_test(steps_are_those_of_back_ends),
        cmocka_unit_test(a_head_has_the_gradients_of_its_scores),
        cmocka_unit_test(a_head_begins_with_small_normal_numbers),
        cmocka_unit_test(what_is_trained_is_chosen_by_name_and_place),
        cmocka_unit_test(there_are_only_so_many_blocks),
        cmocka_unit_test(only_pictures_of_listed_classes_are_chosen),
        cmocka_unit_test(a_share_is_held_back_at_random),
        cmocka_unit_test(recipes_say_what_options_do_not),
        cmocka_unit_test(options_replace_what_recipes_say),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
