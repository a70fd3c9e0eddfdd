/* The bytes of features: every kind of layer (layer_cases.h) and three small networks, as fuse.c leaves them, give the numbers that
 * they gave in 0.14.0, to the last bit. What a processor, a compiler and a matrix library do to the last bits must not count. So
 * this program has the executor of its own (src/net/cpu, compiled into it without fused multiplications), with the kernels for any
 * processor, and with products by the loop below. The kernels for AVX2 and AVX-512, oneDNN and OpenBLAS round differently from one
 * machine to the next; test_net_layers.c compares these with the naive back end, up to their rounding.
 *
 * If the numbers change on purpose, the features of earlier versions do, too. Then run it with an argument, which prints the table.
 */
#include "support.h"

#include "base/matrix.h"
#include "layer_cases.h"
#include "net/backbone.h"
#include "net/cpu/cpu.h"
#include "net/fuse.h"
#include "small_networks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { COUNT = 10 }; /* more pictures than are computed at a time */

static const struct {
    const char *name;
    uint64_t digest;
} expected[] = {
    {"3 x 3", UINT64_C(0x0f0a04056deeaa09)},
    {"3 x 3, stride 2", UINT64_C(0x0f2eab133eefdf1f)},
    {"3 x 3 and a sum", UINT64_C(0x764a9dbd8aa79e9b)},
    {"1 x 1", UINT64_C(0x031cae067b7060cb)},
    {"1 x 1, stride 2", UINT64_C(0xafec54f8ed70680f)},
    {"7 x 7, stride 2", UINT64_C(0xd735eb3ea8f61866)},
    {"2 x 2, stride 2", UINT64_C(0x0a1c7d3582c81b6d)},
    {"odd channels", UINT64_C(0x57f079e69407b8e0)},
    {"odd channels and a sum", UINT64_C(0x0e7d6a8877b6cae8)},
    {"groups", UINT64_C(0xa587397386c48cfb)},
    {"a group a channel", UINT64_C(0x79c6724139d8f293)},
    {"a group a channel, 7 x 7", UINT64_C(0x1836027e7423446c)},
    {"batch norm", UINT64_C(0x4a548e6fc058c0d0)},
    {"batch norm and leaky relu", UINT64_C(0xc908651812b9f478)},
    {"batch norm by magnitude", UINT64_C(0xe3bbfd37274371a8)},
    {"batch norm of a pool", UINT64_C(0xe152154d4b27b8fa)},
    {"max pool", UINT64_C(0xa7471c70a91e9487)},
    {"max pool, odd", UINT64_C(0x213980df48c47a47)},
    {"average pool", UINT64_C(0xc503eb953d352e2f)},
    {"average pool, odd", UINT64_C(0x982f6094bdaac118)},
    {"blur", UINT64_C(0xe35750fff92073d6)},
    {"blur, odd", UINT64_C(0x25cc84a34be0025e)},
    {"squeeze and excite", UINT64_C(0xc59a1740cefe5e95)},
    {"squeeze and excite and a sum", UINT64_C(0xb519b8b02a357b20)},
    {"global mean", UINT64_C(0xd9c4323309182058)},
    {"space to depth", UINT64_C(0x9f441556777e2f2e)},
    {"linear", UINT64_C(0x9f3b8a2d72420a09)},
    {"linear of pixels", UINT64_C(0x2f9bb5e6315e823a)},
    {"linear, gelu", UINT64_C(0x4d7a240bad00b51c)},
    {"linear, quick gelu", UINT64_C(0x9d12d721bb6df2ab)},
    {"linear, gelu by tanh", UINT64_C(0x7e3361a70d574689)},
    {"linear and a sum", UINT64_C(0xdb4d80702b252cde)},
    {"linear, scaled, and a sum", UINT64_C(0x72fd66b3ea356807)},
    {"a sum with what is mapped", UINT64_C(0x97ac2772f0ffcbc1)},
    {"a sum with the pixels that are mapped", UINT64_C(0xba19fcad9650ce40)},
    {"tokens", UINT64_C(0x8d0fdb630d6af54e)},
    {"tokens without a class", UINT64_C(0xa00f12a7a453b4de)},
    {"tokens, positions of squares", UINT64_C(0xc1ba0be9c32b4885)},
    {"tokens with registers", UINT64_C(0x7b492228f04dcc20)},
    {"tokens, positions of all", UINT64_C(0x973d475b7c5ec56c)},
    {"layer norm", UINT64_C(0xd99cf037ad78618d)},
    {"layer norm of pixels", UINT64_C(0xdd5e6315488517e6)},
    {"layer norm of odd channels", UINT64_C(0xa8809aaa66792352)},
    {"attention", UINT64_C(0xb9775988ce227d99)},
    {"attention, many tokens", UINT64_C(0xc6293f16b5d88490)},
    {"attention, one head", UINT64_C(0x2f6671620d94d670)},
    {"attention, keys beside", UINT64_C(0xb37f32cf319dd36c)},
    {"attention, only keys beside", UINT64_C(0xd5b1205a1984bc08)},
    {"attention, keys are values", UINT64_C(0x8c7f0d467fa1c9c1)},
    {"attention, the keys of a value are values", UINT64_C(0xd7e1880e670a5f74)},
    {"first token", UINT64_C(0xfbf6cafb083648f7)},
    {"token mean", UINT64_C(0x51f138076534b86e)},
    {"token max", UINT64_C(0xab59760663627885)},
    {"joined", UINT64_C(0x0fde754869ff9fd4)},
    {"stacked", UINT64_C(0x07c57b75f6c3daad)},
    {"stacked on itself", UINT64_C(0x18f650a5913b5389)},
    {"some tokens", UINT64_C(0xd4ad1905ef0833a7)},
    {"pixels as tokens", UINT64_C(0x83d6120234ec7094)},
    {"split", UINT64_C(0xaf3b147e7990ae78)},
    {"unit tokens", UINT64_C(0x336c9a183b2b774f)},
    {"cosines", UINT64_C(0xdeb979f743075083)},
    {"cosines, masked", UINT64_C(0xc54eaaaa08a5b023)},
    {"picked", UINT64_C(0x346a00464eda7553)},
    {"a ViT", UINT64_C(0xbd3f4819d22d71ce)},
    {"a ResNet", UINT64_C(0x58f9dcc177efd16d)},
    {"a TResNet", UINT64_C(0x2f423f866653fdcb)},
};

/* For the executor of this program. */
void matrix_multiply(int threads, real type, bool transpose_a, bool transpose_b, size_t m, size_t n, size_t inner, double scale,
                     const void *a, size_t a_stride, const void *b, size_t b_stride, double keep, void *c, size_t c_stride) {
    const float *left = a, *right = b;
    (void)threads;
    assert_true(type == REAL_SINGLE && !transpose_a);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            float *to = (float *)c + i * c_stride + j, sum = 0;
            for (size_t k = 0; k < inner; k++) {
                sum += left[i * a_stride + k] * (transpose_b ? right[j * b_stride + k] : right[k * b_stride + j]);
            }
            *to = (float)scale * sum + (keep != 0 ? (float)keep * *to : 0);
        }
    }
}

static uint64_t digest_network(l3a_context *context, const struct network *net, size_t side) {
    const struct shape to = net->shapes[net->outputs[0].value];
    const size_t size = COUNT * to.channels * to.height * to.width, picture_size = 3 * side * side;
    float *output = malloc(size * sizeof *output), *pictures = malloc(COUNT * picture_size * sizeof *pictures);
    void *state = NULL;
    assert_non_null(output);
    assert_non_null(pictures);
    for (size_t i = 0; i < COUNT * picture_size; i++) {
        pictures[i] = layer_case_number("picture", i);
    }
    assert_ok(context, blas_back_end.open(net, &(struct network_use){.training = false}, &state));
    assert_ok(context, blas_back_end.run(state, pictures, COUNT, &output));
    blas_back_end.close(state);
    const uint64_t digest = XXH3_64bits(output, size * sizeof *output);
    free(pictures);
    free(output);
    return digest;
}

static uint64_t digest_layer(l3a_context *context, const struct layer_case *what) {
    static struct memory_tensors tensors;
    struct parameters parameters;
    struct network net;
    layer_case_open(context, what, &tensors, &parameters, &net);
    assert_ok(context, network_fuse(&net, 1));
    const uint64_t digest = digest_network(context, &net, what->side);
    network_free(&net);
    parameters_close(&parameters);
    return digest;
}

static const struct {
    const char *name;
    void (*make)(struct memory_tensors *tensors);
    size_t side;
} networks[] = {{"a ViT", make_small_vit, 12}, {"a ResNet", make_small_resnet, 64}, {"a TResNet", make_small_tresnet, 64}};
enum { NETWORKS = sizeof networks / sizeof *networks };

static uint64_t digest_backbone(l3a_context *context, size_t index) {
    static struct memory_tensors tensors;
    const l3a_backbone_options options = {.size = sizeof options, .side = networks[index].side};
    struct reading reading;
    networks[index].make(&tensors);
    struct parameter_source source = tensors_source(&tensors, read_small);
    source.recorded = true;
    assert_ok(context, backbone_read(context, &source, &options, &reading));
    assert_ok(context, network_fuse(&reading.network, 1));
    const uint64_t digest = digest_network(context, &reading.network, networks[index].side);
    network_free(&reading.network);
    return digest;
}

static const char *name_of(size_t index) {
    return index < layer_case_count ? layer_cases[index].name : networks[index - layer_case_count].name;
}

static uint64_t digest_of(l3a_context *context, size_t index) {
    return index < layer_case_count ? digest_layer(context, &layer_cases[index])
                                    : digest_backbone(context, index - layer_case_count);
}

static void features_are_those_of_before(void **unused) {
    size_t different = 0;
    (void)unused;
    assert_int_equal(sizeof expected / sizeof *expected, layer_case_count + NETWORKS);
    for (int threads = 1; threads <= 2; threads++) {
        l3a_context *context = make_context(threads);
        for (size_t i = 0; i < layer_case_count + NETWORKS; i++) {
            const uint64_t digest = digest_of(context, i);
            assert_string_equal(expected[i].name, name_of(i));
            if (digest != expected[i].digest) {
                print_error("%s, %d threads: %016" PRIx64 " instead of %016" PRIx64 "\n", name_of(i), threads, digest,
                            expected[i].digest);
                different++;
            }
        }
        l3a_context_free(context);
    }
    assert_int_equal(different, 0);
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(features_are_those_of_before)};
    (void)arguments;
    if (count > 1) {
        l3a_context *context = make_context(1);
        for (size_t i = 0; i < layer_case_count + NETWORKS; i++) {
            printf("    {\"%s\", UINT64_C(0x%016" PRIx64 ")},\n", name_of(i), digest_of(context, i));
        }
        l3a_context_free(context);
        return 0;
    }
    return cmocka_run_group_tests_name("feature bytes", tests, NULL, NULL);
}
