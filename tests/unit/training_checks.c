/* Training, on every back end that trains, against the naive one: values, statistics of batch norms, and gradients of every kind of
 * layer and of whole networks, with all or some of the parameters trained, in batches of several sizes, with and without
 * recomputation; the steps of the optimisers against their formulas; and the same bytes again. */
#include "training_checks.h"

#include "base/plugin.h"
#include "layer_cases.h"
#include "memory_probe.h"
#include "net/backbone.h"
#include "small_networks.h"
#include "training_pair.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = PAIR_PICTURES, LAYERS = 256 };

const char *training_device;

/* A device has one number of threads. */
static int most_threads(void) {
    return training_device ? 1 : 2;
}

static l3a_context *open_context(int threads) {
    const l3a_context_options options = {.size = sizeof options, .threads = threads, .device = training_device};
    l3a_context *context = NULL;
    assert_int_equal(l3a_context_create(&options, &context), L3A_OK);
    return context;
}

/* Those of the processor, or that of the device alone. */
static const struct network_back_end *back_end_at(const l3a_context *context, size_t index) {
    const struct network_back_end *device = network_back_end_of_device(context);
    return !device ? network_back_end_at(index) : index ? NULL : device;
}

/* ---- What is trained ---- */

enum subset { EVERYTHING, NORMS, LAST, BIASES, SUBSETS };

static bool is_trained(const struct network *net, enum subset subset, size_t layer, size_t kind) {
    const enum net_layer_kind what = net->layers[layer].kind;
    const bool norm = what == LAYER_BATCH_NORM || what == LAYER_NORM || what == LAYER_SCALE;
    return subset == EVERYTHING || (subset == NORMS && norm) || (subset == LAST && layer + 2 > net->layer_count - layer) ||
           (subset == BIASES && (kind == BIAS || kind == SECOND_BIAS));
}

/* Returns how many parameters are trained. */
static size_t choose(const struct network *net, enum subset subset, struct parameter_use (*uses)[PARAMETER_KINDS]) {
    size_t count = 0;
    assert_true(net->layer_count <= LAYERS);
    for (size_t i = 0; i < net->layer_count; i++) {
        for (size_t kind = 0; kind < PARAMETER_KINDS; kind++) {
            uses[i][kind] = (struct parameter_use){
                .trained = is_trained(net, subset, i, kind), .rate = i % 2 ? 1 : 0.5F, .decay = kind == FACTORS ? 0.01F : 0};
            count += uses[i][kind].trained && kind < MEAN && net->layers[i].parameters[kind].values;
        }
    }
    return count;
}

typedef void network_check(l3a_context *context, const char *name, struct network *net, const struct network_back_end *back_end,
                           double tolerance);

static void for_back_ends(l3a_context *context, const char *name, struct network *net, double tolerance, network_check *check) {
    const struct network_back_end *back_end;
    for (size_t i = 0; (back_end = back_end_at(context, i)); i++) {
        if (back_end->available() && back_end->forward) {
            check(context, name, net, back_end, tolerance);
        }
    }
}

static void check_subsets(l3a_context *context, const char *name, struct network *net, const struct network_back_end *back_end,
                          double tolerance) {
    struct parameter_use uses[LAYERS][PARAMETER_KINDS];
    /* Threads share the work of each in the same way, and so do numbers. One job of CI looks at all of them. */
    const bool quick = l3a_context_threads(context) > 1 || training_numbers != NUMBER_FLOAT32 || getenv("L3A_QUICK");
    const enum subset end = quick ? NORMS : SUBSETS;
    for (enum subset subset = EVERYTHING; subset < end; subset++) {
        struct pair pair = {.context = context,
                            .name = name,
                            .net = net,
                            .back_end = back_end,
                            .use = {.training = true,
                                    .numbers = training_numbers,
                                    .pictures = COUNT,
                                    .parameters = (const struct parameter_use(*)[PARAMETER_KINDS])uses}};
        if (choose(net, subset, uses)) {
            pair_open(&pair);
            check_pass(&pair, COUNT, tolerance);
            check_pass(&pair, COUNT - 2, tolerance);
            assert_ok(context, naive_back_end.run(pair.naive, pair.pictures, COUNT, pair.expected));
            assert_ok(context, back_end->run(pair.state, pair.pictures, COUNT, pair.found));
            compare_outputs(&pair, COUNT, tolerance);
            check_pass(&pair, COUNT, tolerance);
            pair_close(&pair);
        }
    }
}

static void each_case(int threads, network_check *check) {
    static struct memory_tensors tensors;
    l3a_context *context = open_context(threads);
    for (size_t i = 0; i < layer_case_count; i++) {
        struct parameters parameters;
        struct network net;
        layer_case_open(context, &layer_cases[i], &tensors, &parameters, &net);
        const bool refused = layer_case_is_for_prompts(&layer_cases[i]) && network_back_end_of_device(context);
        if (net.layer_count && !refused) {
            for_back_ends(context, layer_cases[i].name, &net, 2e-5, check);
        }
        network_free(&net);
        parameters_close(&parameters);
    }
    l3a_context_free(context);
}

static void make_narrow_resnet(struct memory_tensors *tensors) {
    make_small_resnet_of(tensors, 4);
}

static const struct {
    const char *name;
    void (*make)(struct memory_tensors *tensors);
    size_t side;
    double tolerance;
} networks[] = {{"vit", make_small_vit, 12, 1e-4},
                {"resnet", make_narrow_resnet, 64, 1e-3},
                {"tresnet", make_small_tresnet, 64, 1e-3},
                {"convnext", make_small_convnext, 64, 1e-4}};

static void read_network(l3a_context *context, size_t which, struct reading *reading) {
    static struct memory_tensors tensors;
    const l3a_backbone_options options = {.size = sizeof options, .side = networks[which].side};
    networks[which].make(&tensors);
    struct parameter_source source = tensors_source(&tensors, read_small);
    source.recorded = true; /* mean and deviation make no difference here */
    assert_ok(context, backbone_read(context, &source, &options, reading));
}

static void each_network(int threads, network_check *check) {
    l3a_context *context = open_context(threads);
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct reading reading;
        read_network(context, i, &reading);
        for_back_ends(context, networks[i].name, &reading.network, networks[i].tolerance, check);
        network_free(&reading.network);
    }
    l3a_context_free(context);
}

static void layers_train_as_the_naive_ones(void **unused) {
    (void)unused;
    for (int threads = 1; threads <= most_threads(); threads++) {
        each_case(threads, check_subsets);
    }
}

static void networks_train_as_the_naive_ones(void **unused) {
    (void)unused;
    for (int threads = 1; threads <= most_threads(); threads++) {
        each_network(threads, check_subsets);
    }
}

/* ---- The same bytes ---- */

/* All numbers that a back end has after some steps: values, gradients and moments, and the outputs. */
struct numbers {
    float *all;
    size_t count;
};

static void take(struct numbers *numbers, const float *values, size_t count) {
    numbers->all = realloc(numbers->all, (numbers->count + count) * sizeof(float));
    assert_non_null(numbers->all);
    memcpy(numbers->all + numbers->count, values, count * sizeof(float));
    numbers->count += count;
}

static const struct network_step adamw = {
    .optimiser = OPTIMISER_ADAMW, .rate = 1e-3, .momentum = 0.9, .square = 0.999, .epsilon = 1e-8, .scale = 1};

/* Two batches, the second incomplete, with a run in between. */
static struct numbers trained(l3a_context *context, const struct network *net, const struct network_back_end *back_end,
                              const struct network_use *use) {
    struct numbers made = {0};
    float *pictures = made_up_numbers("picture", COUNT * shape_size(net->shapes[PICTURE])), *outputs[NETWORK_OUTPUTS],
          *shares[NETWORK_OUTPUTS];
    void *state = NULL;
    for (size_t i = 0; i < net->output_count; i++) {
        outputs[i] = made_up_numbers("", COUNT * output_size(net, i));
        shares[i] = made_up_numbers("shares", COUNT * output_size(net, i));
    }
    assert_ok(context, back_end->open(net, use, &state));
    for (uint64_t number = 1; number <= 2; number++) {
        struct network_step step = adamw;
        step.number = number;
        assert_ok(context, back_end->run(state, pictures, COUNT, outputs));
        assert_ok(context, back_end->forward(state, pictures, COUNT + 1 - number, outputs));
        assert_ok(context, back_end->backward(state, (const float *const *)shares));
        assert_ok(context, back_end->step(state, &step));
        for (size_t i = 0; i < net->output_count; i++) {
            take(&made, outputs[i], (COUNT + 1 - number) * output_size(net, i));
        }
    }
    for (size_t i = 0; i < net->layer_count * PARAMETER_KINDS; i++) {
        const struct parameter *parameter = &net->layers[i / PARAMETER_KINDS].parameters[i % PARAMETER_KINDS];
        const enum parameter_kind kind = (enum parameter_kind)(i % PARAMETER_KINDS);
        const bool trains = parameter_use_of(net, use, i / PARAMETER_KINDS, kind).trained;
        for (enum parameter_part part = PARAMETER_VALUE; parameter->values && part <= (trains ? PARAMETER_SQUARE : PARAMETER_VALUE);
             part++) {
            float *values = made_up_numbers("", parameter->count);
            assert_ok(context, back_end->read(state, i / PARAMETER_KINDS, kind, part, values));
            take(&made, values, parameter->count);
            free(values);
        }
    }
    back_end->close(state);
    for (size_t i = 0; i < net->output_count; i++) {
        free(outputs[i]);
        free(shares[i]);
    }
    free(pictures);
    return made;
}

static void assert_same(const char *name, const struct numbers *one, const struct numbers *other) {
    assert_int_equal(one->count, other->count);
    for (size_t i = 0; i < one->count; i++) {
        if (memcmp(&one->all[i], &other->all[i], sizeof(float)) != 0) {
            print_error("%s: number %zu of %zu is %.9g and %.9g\n", name, i, one->count, (double)one->all[i],
                        (double)other->all[i]);
            fail();
        }
    }
}

static void check_again(l3a_context *context, const char *name, struct network *net, const struct network_back_end *back_end,
                        double tolerance) {
    const struct network_use use = {.training = true, .numbers = training_numbers, .pictures = COUNT};
    const struct numbers first = trained(context, net, back_end, &use);
    (void)tolerance;
    for (int i = 0; i < 3; i++) {
        const struct numbers again = trained(context, net, back_end, &use);
        assert_same(name, &first, &again);
        free(again.all);
    }
    free(first.all);
}

static void training_repeats_its_bytes(void **unused) {
    (void)unused;
    for (int threads = 1; threads <= most_threads(); threads++) {
        each_network(threads, check_again);
    }
}

/* With less and less memory, until there is not enough. */
static void check_memory(l3a_context *context, const char *name, struct network *net, const struct network_back_end *back_end,
                         double tolerance) {
    struct network_use use = {.training = true, .numbers = training_numbers, .pictures = COUNT};
    struct network_plan plan, less;
    void *state = NULL;
    size_t recomputed = 0;
    const struct numbers first = trained(context, net, back_end, &use);
    (void)tolerance;
    assert_ok(context, back_end->plan(net, &use, &plan));
    assert_false(plan.recomputes);
    for (use.memory = plan.bytes; back_end->plan(net, &use, &less) == L3A_OK; use.memory = less.bytes - 1) {
        assert_true(less.bytes <= use.memory);
        assert_true(less.recomputes == (use.memory < plan.bytes));
        const struct numbers found = trained(context, net, back_end, &use);
        assert_same(name, &first, &found);
        free(found.all);
        recomputed += less.recomputes;
    }
    assert_true(recomputed > 0);
    assert_fails(context, back_end->plan(net, &use, &less), L3A_ERROR_MEMORY, "training takes at least");
    assert_fails(context, back_end->open(net, &use, &state), L3A_ERROR_MEMORY, "training takes at least");
    free(first.all);
}

static void less_memory_gives_the_same_bytes(void **unused) {
    (void)unused;
    each_network(most_threads(), check_memory);
}

/* ---- Steps ---- */

/* One number, in double precision. */
struct trained_number {
    double w, m, v;
};

static void step_number(const struct network_step *step, double rate, double decay, double gradient, struct trained_number *x) {
    const double r = step->rate * rate, t = (double)step->number;
    double g = gradient * step->scale;
    switch (step->optimiser) {
    case OPTIMISER_SGD:
        g += decay * x->w;
        x->m = step->momentum * x->m + g;
        x->w -= r * x->m;
        return;
    case OPTIMISER_ADAM: g += decay * x->w; break;
    default: x->w -= r * decay * x->w;
    }
    x->m = step->momentum * x->m + (1 - step->momentum) * g;
    x->v = step->square * x->v + (1 - step->square) * g * g;
    const double mean = x->m / (1 - pow(step->momentum, t)), square = x->v / (1 - pow(step->square, t));
    x->w -= r * mean / (sqrt(square) + step->epsilon);
}

static void check_parts(l3a_context *context, const struct network_back_end *back_end, void *state, size_t layer,
                        const struct trained_number *expected, size_t count, double tolerance, bool square) {
    float *values = made_up_numbers("", count), *moments = made_up_numbers("", count), *squares = made_up_numbers("", count);
    assert_ok(context, back_end->read(state, layer, FACTORS, PARAMETER_VALUE, values));
    assert_ok(context, back_end->read(state, layer, FACTORS, PARAMETER_MOMENT, moments));
    assert_ok(context, back_end->read(state, layer, FACTORS, PARAMETER_SQUARE, squares));
    for (size_t i = 0; i < count; i++) {
        assert_near((double)values[i], expected[i].w, tolerance * (1 + fabs(expected[i].w)));
        assert_near((double)moments[i], expected[i].m, tolerance * (1 + fabs(expected[i].m)));
        if (square) {
            assert_near((double)squares[i], expected[i].v, tolerance * (1 + fabs(expected[i].v)));
        }
    }
    free(values);
    free(moments);
    free(squares);
}

/* Steps of a parameter with given gradients. */
static void check_optimiser(l3a_context *context, const struct network *net, const struct network_back_end *back_end,
                            enum optimiser optimiser) {
    struct parameter_use uses[LAYERS][PARAMETER_KINDS];
    choose(net, EVERYTHING, uses);
    const struct network_use use = {.training = true,
                                    .numbers = training_numbers,
                                    .pictures = COUNT,
                                    .parameters = (const struct parameter_use(*)[PARAMETER_KINDS])uses};
    const size_t layer = 1, count = net->layers[layer].parameters[FACTORS].count;
    struct trained_number *expected = calloc(count, sizeof *expected);
    float *gradients = made_up_numbers("gradient", count);
    void *state = NULL;
    assert_non_null(expected);
    assert_ok(context, back_end->open(net, &use, &state));
    for (size_t i = 0; i < count; i++) {
        expected[i].w = (double)net->layers[layer].parameters[FACTORS].values[i];
    }
    for (uint64_t number = 1; number <= 10; number++) {
        const struct network_step step = {
            .optimiser = optimiser, .rate = 0.01, .momentum = 0.9, .square = 0.99, .epsilon = 1e-6, .scale = 0.5, .number = number};
        assert_ok(context, back_end->write(state, layer, FACTORS, PARAMETER_GRADIENT, gradients));
        assert_ok(context, back_end->step(state, &step));
        for (size_t i = 0; i < count; i++) {
            step_number(&step, (double)uses[layer][FACTORS].rate, (double)uses[layer][FACTORS].decay, (double)gradients[i],
                        &expected[i]);
            gradients[i] = -0.7F * gradients[i] + 0.01F;
        }
    }
    check_parts(context, back_end, state, layer, expected, count, 2e-6, optimiser != OPTIMISER_SGD);
    back_end->close(state);
    free(expected);
    free(gradients);
}

static void check_steps(l3a_context *context, const char *name, struct network *net, const struct network_back_end *back_end,
                        double tolerance) {
    (void)name;
    (void)tolerance;
    for (enum optimiser optimiser = OPTIMISER_SGD; optimiser <= OPTIMISER_ADAMW; optimiser++) {
        check_optimiser(context, net, back_end, optimiser);
        check_optimiser(context, net, &naive_back_end, optimiser);
    }
}

static void steps_follow_their_formulas(void **unused) {
    l3a_context *context = open_context(2);
    struct reading reading;
    (void)unused;
    read_network(context, 0, &reading);
    for_back_ends(context, "vit", &reading.network, 0, check_steps);
    network_free(&reading.network);
    l3a_context_free(context);
}

/* ---- What goes wrong ---- */

static void check_misuse(l3a_context *context, const char *name, struct network *net, const struct network_back_end *back_end,
                         double tolerance) {
    const struct network_use use = {.training = true, .numbers = training_numbers, .pictures = 2};
    float *pictures = made_up_numbers("picture", 3 * shape_size(net->shapes[PICTURE])), *outputs[NETWORK_OUTPUTS], number;
    void *state = NULL;
    (void)name;
    (void)tolerance;
    for (size_t i = 0; i < net->output_count; i++) {
        outputs[i] = made_up_numbers("", 3 * output_size(net, i));
    }
    assert_ok(context, back_end->open(net, &use, &state));
    assert_fails(context, back_end->backward(state, (const float *const *)outputs), L3A_ERROR_STATE, "backward");
    assert_fails(context, back_end->forward(state, pictures, 3, outputs), L3A_ERROR_ARGUMENT, "3 pictures");
    assert_fails(context, back_end->read(state, net->layer_count, FACTORS, PARAMETER_VALUE, &number), L3A_ERROR_ARGUMENT,
                 "no such parameter");
    assert_ok(context, back_end->forward(state, pictures, 2, outputs));
    assert_ok(context, back_end->run(state, pictures, 2, outputs));
    assert_fails(context, back_end->backward(state, (const float *const *)outputs), L3A_ERROR_STATE, "backward");
    back_end->close(state);
    for (size_t i = 0; i < net->output_count; i++) {
        free(outputs[i]);
    }
    free(pictures);
}

static void misuse_is_told(void **unused) {
    l3a_context *context = open_context(1);
    struct reading reading;
    void *state = NULL;
    (void)unused;
    each_network(1, check_misuse);
    read_network(context, 0, &reading);
    struct network_use use = {.training = true, .numbers = training_numbers, .pictures = 2};
    const struct network_back_end *back_end;
    for (size_t i = 0; (back_end = back_end_at(context, i)); i++) {
        for (use.numbers = NUMBER_FLOAT32; back_end->available() && use.numbers <= NUMBER_FLOAT16; use.numbers++) {
            if (!back_end->forward) {
                assert_fails(context, back_end->open(&reading.network, &use, &state), L3A_ERROR_OPTION, "trained");
            } else if (!network_back_end_supports(back_end, &use)) {
                assert_fails(context, back_end->open(&reading.network, &use, &state), L3A_ERROR_OPTION, "float32");
            }
        }
    }
    network_free(&reading.network);
    l3a_context_free(context);
}

/* A batch norm of one number is refused, and nothing has moved. */
static void a_batch_of_one_number_is_refused(void **unused) {
    l3a_context *context = open_context(1);
    struct reading reading;
    const struct network_back_end *back_end;
    static struct memory_tensors tensors;
    const l3a_backbone_options options = {.size = sizeof options, .side = 32};
    (void)unused;
    make_narrow_resnet(&tensors);
    struct parameter_source source = tensors_source(&tensors, read_small);
    source.recorded = true;
    assert_ok(context, backbone_read(context, &source, &options, &reading));
    for (size_t i = 0; (back_end = back_end_at(context, i)); i++) {
        if (back_end->available() && back_end->forward) {
            float *pictures = made_up_numbers("picture", 3 * 32 * 32), *outputs[NETWORK_OUTPUTS];
            void *state = NULL;
            for (size_t j = 0; j < reading.network.output_count; j++) {
                outputs[j] = made_up_numbers("", output_size(&reading.network, j));
            }
            assert_ok(context,
                      back_end->open(&reading.network,
                                     &(struct network_use){.training = true, .numbers = training_numbers, .pictures = 2}, &state));
            assert_fails(context, back_end->forward(state, pictures, 1, outputs), L3A_ERROR_OPTION, "a single number");
            back_end->close(state);
            for (size_t j = 0; j < reading.network.output_count; j++) {
                free(outputs[j]);
            }
            free(pictures);
        }
    }
    network_free(&reading.network);
    l3a_context_free(context);
}

struct scarce {
    const struct network_back_end *back_end;
    const struct network *net;
    float *pictures, *outputs[NETWORK_OUTPUTS];
};

/* With recomputation, and a second number of pictures. The network comes from another context, so it costs nothing here. */
static l3a_status train_with_little(l3a_context *context, void *argument) {
    const struct scarce *scarce = argument;
    const struct network_back_end *back_end = scarce->back_end;
    struct network_use use = {.training = true, .numbers = training_numbers, .pictures = 2};
    struct network net = *scarce->net;
    struct network_plan plan;
    void *state = NULL;
    net.context = context;
    l3a_status status = back_end->plan(&net, &use, &plan);
    use.memory = plan.bytes - 1;
    status = status == L3A_OK ? back_end->open(&net, &use, &state) : status;
    for (size_t count = 2; status == L3A_OK && count > 0; count--) {
        status = back_end->forward(state, scarce->pictures, count, scarce->outputs);
        status = status == L3A_OK ? back_end->backward(state, (const float *const *)scarce->outputs) : status;
    }
    if (state) {
        back_end->close(state);
    }
    return status;
}

static void check_allocations(l3a_context *context, const char *name, struct network *net, const struct network_back_end *back_end,
                              double tolerance) {
    struct scarce scarce = {
        .back_end = back_end, .net = net, .pictures = made_up_numbers("picture", 2 * shape_size(net->shapes[PICTURE]))};
    (void)context;
    (void)name;
    (void)tolerance;
    for (size_t i = 0; i < net->output_count; i++) {
        scarce.outputs[i] = made_up_numbers("", 2 * output_size(net, i));
    }
    assert_true(fail_each_allocation_on(training_device, train_with_little, &scarce) > 50);
    for (size_t i = 0; i < net->output_count; i++) {
        free(scarce.outputs[i]);
    }
    free(scarce.pictures);
}

static void every_allocation_may_fail(void **unused) {
    l3a_context *context = open_context(1);
    struct reading reading;
    (void)unused;
    read_network(context, 0, &reading);
    for_back_ends(context, "vit", &reading.network, 0, check_allocations);
    network_free(&reading.network);
    l3a_context_free(context);
}

const struct CMUnitTest training_checks[] = {
    cmocka_unit_test(layers_train_as_the_naive_ones),   cmocka_unit_test(networks_train_as_the_naive_ones),
    cmocka_unit_test(training_repeats_its_bytes),       cmocka_unit_test(less_memory_gives_the_same_bytes),
    cmocka_unit_test(steps_follow_their_formulas),      cmocka_unit_test(misuse_is_told),
    cmocka_unit_test(a_batch_of_one_number_is_refused), cmocka_unit_test(every_allocation_may_fail)};
const size_t training_check_count = sizeof training_checks / sizeof *training_checks;
