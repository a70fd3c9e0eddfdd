/* Every kind of layer (layer_cases.h), as fuse.c leaves it, on every back end, against the description on the naive one
 * (naive_network.h). Values go in and come out as planes, so that no back end's layout shows. Given arguments, the program instead
 * writes what every layer of a checkpoint's network makes of an input: `test_net_layers CHECKPOINT INPUT OUTPUT`, which
 * tests/oracle/test_backbones.py compares with PyTorch. */
#include "support.h"

#include "layer_cases.h"
#include "net/backbone.h"
#include "net/fuse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 10 }; /* more pictures than a back end computes at a time */

/* ---- One case on one back end ---- */

static float *output_of(l3a_context *context, const struct network_back_end *back_end, const struct network *net, size_t count,
                        const float *pictures) {
    const struct shape to = net->shapes[net->outputs[0].value];
    float *output = malloc(count * to.channels * to.height * to.width * sizeof *output);
    void *state = NULL;
    assert_non_null(output);
    assert_ok(context, back_end->open(net, &(struct network_use){.training = false}, &state));
    assert_ok(context, back_end->run(state, pictures, count, &output));
    back_end->close(state);
    return output;
}

static void compare(const struct layer_case *test, const char *back_end, const struct net_layer *layer, const float *naive,
                    const float *found) {
    const size_t size = layer->to.channels * layer->to.height * layer->to.width;
    for (size_t i = 0; i < COUNT * size; i++) {
        const double expected = (double)naive[i];
        if (!(fabs((double)found[i] - expected) <= 2e-5 * (1 + fabs(expected)))) {
            print_error("%s on %s, picture %zu, number %zu: %g, expected %g\n", test->name, back_end, i / size, i % size,
                        (double)found[i], expected);
            fail();
        }
    }
}

/* The naive back end runs the description, the others what fuse.c makes of it. */
static void run_case(l3a_context *context, const struct layer_case *test) {
    static struct memory_tensors tensors;
    const size_t picture_size = 3 * test->side * test->side;
    struct parameters parameters;
    struct network net;
    float *pictures = malloc(COUNT * picture_size * sizeof *pictures);
    for (size_t i = 0; i < COUNT * picture_size; i++) {
        pictures[i] = layer_case_number("picture", i);
    }
    layer_case_open(context, test, &tensors, &parameters, &net);
    float *naive = output_of(context, &naive_back_end, &net, COUNT, pictures);
    assert_ok(context, network_fuse(&net, 1));
    const struct net_layer *last = &net.layers[net.layer_count - 1];
    const struct network_back_end *back_end;
    for (size_t i = 0; (back_end = network_back_end_at(i)); i++) {
        if (back_end->available()) {
            float *found = output_of(context, back_end, &net, COUNT, pictures);
            compare(test, back_end->name, last, naive, found);
            free(found);
        }
    }
    network_free(&net);
    parameters_close(&parameters);
    free(naive);
    free(pictures);
}

static void layers_equal_the_naive_ones_on_every_back_end(void **unused) {
    (void)unused;
    for (int threads = 1; threads <= 2; threads++) {
        l3a_context *context = make_context(threads);
        for (size_t i = 0; i < layer_case_count; i++) {
            run_case(context, &layer_cases[i]);
        }
        l3a_context_free(context);
    }
}

/* ---- What every layer of a network makes: the output of the network that ends with it ---- */

static int dump(const char *path, const char *input, const char *output) {
    l3a_context *context = make_context(0);
    struct checkpoint *checkpoint = NULL;
    struct parameter_source source;
    struct reading reading;
    l3a_backbone_options options = {.size = sizeof options};
    size_t size = 0;
    float *pictures = (float *)(void *)read_bytes(input, &size);
    FILE *file = fopen(output, "wb");
    assert_non_null(file);
    assert_ok(context, checkpoint_open(context, path, &checkpoint));
    parameter_source_checkpoint(checkpoint, &source);
    assert_ok(context, backbone_read(context, &source, &options, &reading));
    struct network net = reading.network;
    assert_ok(context, network_fuse(&net, 1));
    for (size_t i = 0; i < net.layer_count; i++) {
        struct network part = net;
        part.layer_count = i + 1;
        part.outputs[0].value = net.layers[i].output;
        const struct shape to = net.layers[i].to;
        const uint32_t header[] = {(uint32_t)net.layers[i].kind, (uint32_t)to.channels, (uint32_t)to.height, (uint32_t)to.width};
        const size_t count = to.channels * to.height * to.width;
        float *planes = output_of(context, network_back_end_best(), &part, 1, pictures);
        assert_int_equal(fwrite(header, sizeof header, 1, file) + fwrite(planes, sizeof *planes, count, file), count + 1);
        free(planes);
    }
    assert_int_equal(fclose(file), 0);
    free(pictures);
    network_free(&net);
    checkpoint_free(checkpoint);
    l3a_context_free(context);
    return 0;
}

int main(int count, char **arguments) {
    if (count == 4) {
        return dump(arguments[1], arguments[2], arguments[3]);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_equal_the_naive_ones_on_every_back_end)};
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
