/* What stands in for a device in tests of the plug-in's networks: kernels that run on the processor (emulate_cuda.h) and the
 * products of cuBLASLt (fake_cublas_lt.c), compared with plain loops. */
#include "support.h"

#ifdef L3A_EMULATED

#include "emulated_kernels.h"
#include "fake_cuda.h"
#include "small_floats.h"

#include <cublasLt.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern struct fake_cuda l3a_fake_cuda;

static struct fake_cuda *const fake = &l3a_fake_cuda;

/* Memory as the plug-in has it. */
static void *device_memory(size_t bytes) {
    void *memory = NULL;
    assert_int_equal(cudaMallocFromPoolAsync(&memory, bytes, NULL, NULL), cudaSuccess);
    return memory;
}

static int reset(void **state) {
    (void)state;
    *fake = (struct fake_cuda){0};
    return 0;
}

static int check_nothing_is_left(void **state) {
    (void)state;
    assert_int_equal(fake->objects, 0);
    assert_int_equal(fake->misuses, 0);
    return 0;
}

static uint32_t next_random(uint32_t *seed) {
    return *seed = *seed * 1664525 + 1013904223;
}

/* Small multiples of 1/8, which all types have, and whose sums are exact. */
static float small_number(uint32_t *seed) {
    return (float)((int)(next_random(seed) >> 27) - 16) / 8;
}

static uint16_t bits_of(int brain, float number) {
    return brain ? bfloat_of(number) : half_of(number);
}

/* ---- Numbers of 16 bits ---- */

/* Every float16 is itself again; between two neighbours, the nearer one, or in the middle the even one. */
static void halves_round(void **state) {
    (void)state;
    assert_true(number_of_half(0x3C00) == 1 && number_of_half(0xC000) == -2 && number_of_half(0x0001) == 0x1p-24F);
    assert_true(number_of_half(0x7BFF) == 65504 && number_of_half(0xFC00) == -INFINITY && isnan(number_of_half(0x7E00)));
    for (unsigned half = 0; half < 0x7C00; half++) {
        const uint16_t low = (uint16_t)half, high = (uint16_t)(half + 1), even = half % 2 ? high : low;
        const float a = number_of_half(low), b = half == 0x7BFF ? 65536 : number_of_half(high), middle = a + (b - a) / 2;
        assert_int_equal(half_of(a), low);
        assert_int_equal(half_of(-a), low | 0x8000);
        assert_int_equal(half_of(middle), even);
        assert_int_equal(half_of(nextafterf(middle, 0)), low);
        assert_int_equal(half_of(nextafterf(middle, INFINITY)), high);
    }
    assert_int_equal(half_of(INFINITY), 0x7C00);
    assert_int_equal(half_of(1e9F), 0x7C00);
    assert_true(isnan(number_of_half(half_of(NAN))) && isnan(number_of_bfloat(bfloat_of(NAN))));
    assert_int_equal(bfloat_of(-1.5F), 0xBFC0);
    assert_int_equal(bfloat_of(1 + 0x1p-8F), 0x3F80);
    assert_int_equal(bfloat_of(1 + 0x3p-8F), 0x3F82);
    assert_true(number_of_bfloat(0x3FC0) == 1.5F);
}

/* ---- Kernels ---- */

static void threads_run_once(void **state) {
    enum { COUNT = 1000, TIMES = 3 };
    (void)state;
    float *numbers = device_memory(COUNT * sizeof *numbers);
    for (int i = 0; i < TIMES; i++) {
        assert_int_equal(run_count(NULL, 8, 128, COUNT, numbers), cudaSuccess);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(numbers[i] == (float)(TIMES * (i % 128)));
    }
    cudaFreeAsync(numbers, NULL);
}

static void blocks_sum(void **state) {
    enum { ROWS = 3, WIDTH = 1234 };
    static const unsigned shapes[][2] = {{32, 1}, {32, 32}, {96, 1}, {8, 8}};
    uint32_t seed = 1;
    (void)state;
    uint16_t *x = device_memory(ROWS * WIDTH * sizeof *x);
    float *sums = device_memory(ROWS * sizeof *sums);
    for (int brain = 0; brain < 2; brain++) {
        float wanted[ROWS] = {0};
        for (size_t i = 0; i < ROWS * WIDTH; i++) {
            const float number = small_number(&seed);
            x[i] = bits_of(brain, number);
            wanted[i / WIDTH] += number;
        }
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            memset(sums, 0, ROWS * sizeof *sums);
            assert_int_equal(run_sum(NULL, brain, ROWS, WIDTH, shapes[i][0], shapes[i][1], x, sums), cudaSuccess);
            assert_memory_equal(sums, wanted, sizeof wanted);
        }
    }
    cudaFreeAsync(x, NULL);
    cudaFreeAsync(sums, NULL);
}

static void tiles_are_transposed(void **state) {
    enum { ROWS = 45, COLUMNS = 70 };
    (void)state;
    float *from = device_memory(ROWS * COLUMNS * sizeof *from), *to = device_memory(ROWS * COLUMNS * sizeof *to);
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        from[i] = (float)i;
    }
    assert_int_equal(run_transpose(NULL, ROWS, COLUMNS, from, to), cudaSuccess);
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        assert_true(to[i % COLUMNS * ROWS + i / COLUMNS] == (float)i);
    }
    cudaFreeAsync(from, NULL);
    cudaFreeAsync(to, NULL);
}

static void tiles_are_multiplied(void **state) {
    enum { M = 32, N = 48, K = 32 };
    uint32_t seed = 2;
    (void)state;
    uint16_t *a = device_memory(M * K * sizeof *a), *b = device_memory(N * K * sizeof *b),
             *b_across = device_memory(N * K * sizeof *b);
    float *d = device_memory(M * N * sizeof *d), a_numbers[M * K], b_numbers[N * K];
    for (int brain = 1; brain >= 0; brain--) {
        for (size_t i = 0; i < M * K; i++) {
            a[i] = bits_of(brain, a_numbers[i] = small_number(&seed));
        }
        for (size_t i = 0; i < N * K; i++) {
            b[i] = b_across[i % K * N + i / K] = bits_of(brain, b_numbers[i] = small_number(&seed));
        }
        float wanted[M * N] = {0};
        for (size_t i = 0; i < M * N; i++) {
            for (size_t k = 0; k < K; k++) {
                wanted[i] += 2 * a_numbers[i / N * K + k] * b_numbers[i % N * K + k];
            }
        }
        assert_int_equal(run_tiles(NULL, brain, M, N, K, a, b, d), cudaSuccess);
        assert_memory_equal(d, wanted, sizeof wanted);
    }
    float before[M * N];
    memcpy(before, d, sizeof before);
    assert_int_equal(run_more_tiles(NULL, M, N, K, a, b_across, d), cudaSuccess);
    for (size_t i = 0; i < M * N; i++) {
        assert_true(d[i] == before[i] * 1.5F);
    }
    cudaFreeAsync(a, NULL);
    cudaFreeAsync(b, NULL);
    cudaFreeAsync(b_across, NULL);
    cudaFreeAsync(d, NULL);
}

/* More than 48 KiB of shared memory must be asked for. */
static void shared_memory_is_dynamic(void **state) {
    enum { SMALL = 1000, LARGE = 13 << 10, TOO_LARGE = 60 << 10 };
    static const unsigned counts[] = {1, SMALL, LARGE};
    (void)state;
    float *numbers = device_memory(TOO_LARGE * sizeof *numbers);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (unsigned i = 0; i < counts[c]; i++) {
            numbers[i] = (float)i;
        }
        const size_t calls = fake->calls;
        assert_int_equal(run_reverse(NULL, 256, counts[c], numbers), cudaSuccess);
        assert_int_equal(fake->calls - calls, counts[c] == LARGE ? 2 : 1);
        for (unsigned i = 0; i < counts[c]; i++) {
            assert_true(numbers[i] == (float)(counts[c] - 1 - i));
        }
    }
    assert_int_equal(run_reverse(NULL, 256, TOO_LARGE, numbers), cudaErrorInvalidValue);
    assert_int_equal(run_reverse(NULL, 1025, SMALL, numbers), cudaErrorInvalidConfiguration);
    assert_int_equal(run_reverse(NULL, 0, SMALL, numbers), cudaErrorInvalidConfiguration);
    assert_true(numbers[0] == LARGE - 1);
    cudaFreeAsync(numbers, NULL);
}

static void warps_exchange_numbers(void **state) {
    enum { WARP = 32 };
    (void)state;
    int *got = device_memory(4 * WARP * sizeof *got);
    assert_int_equal(run_shuffles(NULL, got), cudaSuccess);
    for (int i = 0; i < WARP; i++) {
        assert_int_equal(got[i], i ^ 5);
        assert_int_equal(got[WARP + i], i % 8 < 5 ? i + 3 : i);
        assert_int_equal(got[2 * WARP + i], i % 8 < 2 ? i : i - 2);
        assert_int_equal(got[3 * WARP + i], 7);
    }
    cudaFreeAsync(got, NULL);
}

static void functions_are_computed(void **state) {
    enum { COUNT = 1600 };
    (void)state;
    uint16_t *x = device_memory(COUNT * sizeof *x), *got = device_memory(4 * COUNT * sizeof *got);
    for (size_t i = 0; i < COUNT; i++) {
        x[i] = half_of((float)i / 200 - 4);
    }
    assert_int_equal(run_functions(NULL, COUNT, x, got), cudaSuccess);
    for (size_t i = 0; i < COUNT; i++) {
        const double number = number_of_half(x[i]);
        const double wanted[] = {erf(number), tanh(number), exp(number), 1 / sqrt(fmax(fabs(number), 1e-3))};
        for (size_t k = 0; k < 4; k++) {
            assert_true(fabs(number_of_half(got[k * COUNT + i]) - wanted[k]) <= fabs(wanted[k]) * 0x1.01p-11 + 0x1p-24);
        }
    }
    cudaFreeAsync(x, NULL);
    cudaFreeAsync(got, NULL);
}

static void launches_fail(void **state) {
    (void)state;
    float *number = device_memory(sizeof *number);
    *number = 1;
    fake->failing = fake->calls + 1;
    fake->failure = LAUNCH_FAILURE;
    assert_int_equal(run_reverse(NULL, 32, 1, number), cudaErrorLaunchFailure);
    assert_string_equal(fake->failed, "reverse");
    fake->failing = fake->calls + 1;
    fake->failed = NULL;
    assert_int_equal(run_reverse(NULL, 32, 13 << 10, number), cudaErrorLaunchFailure);
    assert_string_equal(fake->failed, "cudaFuncSetAttribute");
    assert_true(*number == 1);
    cudaFreeAsync(number, NULL);
}

/* ---- What no device would forgive ---- */

static void misuse_ends_the_program(void **state) {
    static const char *const messages[MISUSES] = {
        [MISSED_BARRIER] = "of 32, 1 have returned, 31 are at __syncthreads() in line ",
        [OTHER_BARRIER] = "threads wait in line ",
        [MISSED_SHUFFLE] = "of 32, 16 have returned, 16 are at a shuffle in line ",
        [PARTIAL_MASK] = "an operation of a part of a warp, which is not emulated",
        [ABSENT_LANE] = "a shuffle reads a lane that the block does not have",
        [CROOKED_TILE] = "a tile at an address that is not a multiple of 32",
    };
    (void)state;
#ifdef __SANITIZE_THREAD__
    print_message("skipped: the thread sanitizer loses sight of a kernel's threads in a child process, where misuse would end\n");
    return;
#endif
    float *numbers = device_memory(1024);
    for (enum misuse misuse = 0; misuse < MISUSES; misuse++) {
        int ends[2], code = 0;
        char text[400] = "";
        size_t length = 0;
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        if (!child) {
            dup2(ends[1], STDERR_FILENO);
            run_misuse(NULL, misuse, numbers);
            _exit(0);
        }
        close(ends[1]);
        for (ssize_t got = 1; got > 0 && length < sizeof text - 1; length += (size_t)(got > 0 ? got : 0)) {
            got = read(ends[0], text + length, sizeof text - 1 - length);
        }
        close(ends[0]);
        assert_int_equal(waitpid(child, &code, 0), child);
        if (!WIFSIGNALED(code) || !strstr(text, messages[misuse])) {
            print_error("misuse %d: %s\n", (int)misuse, text);
        }
        assert_true(WIFSIGNALED(code) && strncmp(text, "kernel misuse_threads, block (0, 0, 0): ", 40) == 0);
        assert_non_null(strstr(text, messages[misuse]));
    }
    cudaFreeAsync(numbers, NULL);
}

/* ---- Several threads of the program ---- */

static void *sum_often(void *argument) {
    enum { WIDTH = 512, TIMES = 50 };
    uint16_t x[WIDTH];
    float *wrong = argument;
    for (int i = 0; i < WIDTH; i++) {
        x[i] = half_of(1);
    }
    for (int i = 0; i < TIMES; i++) {
        float sum = 0;
        run_sum(NULL, 0, 1, WIDTH, 256, 1, x, &sum);
        *wrong += sum != WIDTH;
    }
    return NULL;
}

/* Contexts of several threads launch at the same time, as far as the counters of the fake allow it: it fails in none of them. */
static void threads_launch(void **state) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    float wrong[THREADS] = {0};
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, sum_often, &wrong[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(wrong[i] == 0);
    }
}

/* ---- Products ---- */

/* A product of a batch, and its matrices. */
struct product {
    cublasOperation_t a_as, b_as;
    cublasLtEpilogue_t epilogue;
    cudaDataType_t type, d_type, bias_type;
    int m, n, k, batches;
    float scale, keep;
};

/* A column-major matrix with a stride that is larger than it must be. */
struct matrix {
    cudaDataType_t type;
    size_t rows, columns, stride, batches;
    float *numbers;
    void *stored;
    cublasLtMatrixLayout_t layout;
};

static size_t matrix_index(const struct matrix *matrix, size_t batch, size_t i, size_t j) {
    return (batch * (matrix->columns + 1) + j) * matrix->stride + i;
}

static float matrix_get(const struct matrix *matrix, size_t batch, size_t i, size_t j) {
    const size_t index = matrix_index(matrix, batch, i, j);
    return matrix->type == CUDA_R_32F   ? ((float *)matrix->stored)[index]
           : matrix->type == CUDA_R_16F ? number_of_half(((uint16_t *)matrix->stored)[index])
                                        : number_of_bfloat(((uint16_t *)matrix->stored)[index]);
}

static struct matrix make_matrix(cudaDataType_t type, int rows, int columns, int batches, uint32_t *seed) {
    struct matrix made = {.type = type, .rows = (size_t)rows, .columns = (size_t)columns, .stride = (size_t)rows + 3};
    const int64_t offset = (int64_t)(made.stride * (made.columns + 1));
    const size_t count = (size_t)offset * (size_t)batches;
    made.batches = (size_t)batches;
    made.stored = device_memory(count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        const float number = small_number(seed);
        if (type == CUDA_R_32F) {
            ((float *)made.stored)[i] = number;
        } else {
            ((uint16_t *)made.stored)[i] = bits_of(type == CUDA_R_16BF, number);
        }
    }
    assert_int_equal(cublasLtMatrixLayoutCreate(&made.layout, type, made.rows, made.columns, (int64_t)made.stride), 0);
    assert_int_equal(cublasLtMatrixLayoutSetAttribute(made.layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches),
                     0);
    assert_int_equal(
        cublasLtMatrixLayoutSetAttribute(made.layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset, sizeof offset), 0);
    return made;
}

static void free_matrix(struct matrix *matrix) {
    cudaFreeAsync(matrix->stored, NULL);
    cublasLtMatrixLayoutDestroy(matrix->layout);
}

static cublasLtMatmulDesc_t describe(const struct product *product, const void *bias) {
    cublasLtMatmulDesc_t made;
    assert_int_equal(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
    const struct {
        cublasLtMatmulDescAttributes_t attribute;
        const void *value;
        size_t bytes;
    } set[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &product->a_as, sizeof product->a_as},
               {CUBLASLT_MATMUL_DESC_TRANSB, &product->b_as, sizeof product->b_as},
               {CUBLASLT_MATMUL_DESC_EPILOGUE, &product->epilogue, sizeof product->epilogue},
               {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias},
               {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &product->bias_type, sizeof product->bias_type}};
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) {
        assert_int_equal(cublasLtMatmulDescSetAttribute(made, set[i].attribute, set[i].value, set[i].bytes), 0);
    }
    return made;
}

/* One number of D, in double precision. */
static double wanted_number(const struct product *product, const struct matrix *a, const struct matrix *b, double c, double bias,
                            size_t batch, size_t i, size_t j) {
    double sum = 0;
    for (size_t p = 0; p < (size_t)product->k; p++) {
        sum += (double)(product->a_as == CUBLAS_OP_N ? matrix_get(a, batch, i, p) : matrix_get(a, batch, p, i)) *
               (product->b_as == CUBLAS_OP_N ? matrix_get(b, batch, p, j) : matrix_get(b, batch, j, p));
    }
    const int epilogue = (int)product->epilogue;
    const double x = (double)product->scale * sum + (double)product->keep * c + (epilogue & CUBLASLT_EPILOGUE_BIAS ? bias : 0);
    const double gelu = x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    return epilogue & CUBLASLT_EPILOGUE_RELU ? fmax(x, 0) : epilogue & CUBLASLT_EPILOGUE_GELU ? gelu : x;
}

static void check_product(const struct product *product, bool in_place) {
    const bool a_across = product->a_as == CUBLAS_OP_T, b_across = product->b_as == CUBLAS_OP_T;
    const int m = product->m, n = product->n, k = product->k;
    uint32_t seed = 3;
    struct matrix a = make_matrix(product->type, a_across ? k : m, a_across ? m : k, product->batches, &seed);
    struct matrix b = make_matrix(product->type, b_across ? n : k, b_across ? k : n, product->batches, &seed);
    struct matrix c = make_matrix(product->d_type, m, n, product->batches, &seed), old = c;
    struct matrix d = make_matrix(product->d_type, m, n, product->batches, &seed);
    struct matrix bias = make_matrix(product->bias_type, m, 1, 1, &seed);
    const size_t bytes = matrix_index(&c, c.batches, 0, 0) * sizeof(float);
    old.stored = memcpy(device_memory(bytes), c.stored, bytes);
    cublasLtMatmulDesc_t description = describe(product, bias.stored);
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    cublasLtHandle_t blas;
    const uint64_t most = 32 << 20;
    int results = 0;
    assert_int_equal(cublasLtCreate(&blas), 0);
    assert_int_equal(cublasLtMatmulPreferenceCreate(&preference), 0);
    assert_int_equal(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
                     0);
    assert_int_equal(
        cublasLtMatmulAlgoGetHeuristic(blas, description, a.layout, b.layout, c.layout, d.layout, preference, 1, &found, &results),
        0);
    assert_int_equal(results, 1);
    assert_int_equal(found.workspaceSize, 0);
    struct matrix *to = in_place ? &c : &d;
    assert_int_equal(cublasLtMatmul(blas, description, &product->scale, a.stored, a.layout, b.stored, b.layout, &product->keep,
                                    c.stored, c.layout, to->stored, to->layout, &found.algo, NULL, 0, NULL),
                     0);
    const double digits = product->d_type == CUDA_R_32F ? 0x1p-20 : product->d_type == CUDA_R_16F ? 0x1.01p-11 : 0x1.01p-8;
    for (size_t batch = 0; batch < to->batches; batch++) {
        for (size_t i = 0; i < to->rows * to->columns; i++) {
            const size_t row = i % to->rows, column = i / to->rows;
            const double wanted = wanted_number(product, &a, &b, matrix_get(&old, batch, row, column), matrix_get(&bias, 0, row, 0),
                                                batch, row, column);
            assert_true(fabs(matrix_get(to, batch, row, column) - wanted) <= fabs(wanted) * digits + 1e-4);
        }
    }
    struct matrix *all[] = {&a, &b, &c, &d, &bias};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free_matrix(all[i]);
    }
    cudaFreeAsync(old.stored, NULL);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(description);
    cublasLtDestroy(blas);
}

static void products_are_computed(void **state) {
    static const cublasLtEpilogue_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                                   CUBLASLT_EPILOGUE_RELU,    CUBLASLT_EPILOGUE_RELU_BIAS,
                                                   CUBLASLT_EPILOGUE_GELU,    CUBLASLT_EPILOGUE_GELU_BIAS};
    static const cudaDataType_t types[][3] = {{CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
                                              {CUDA_R_16F, CUDA_R_16F, CUDA_R_16F},
                                              {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF},
                                              {CUDA_R_16F, CUDA_R_32F, CUDA_R_32F},
                                              {CUDA_R_16BF, CUDA_R_32F, CUDA_R_16BF}};
    (void)state;
    for (size_t e = 0; e < sizeof epilogues / sizeof epilogues[0]; e++) {
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            for (unsigned way = 0; way < 4; way++) {
                const struct product product = {way & 1 ? CUBLAS_OP_T : CUBLAS_OP_N,
                                                way & 2 ? CUBLAS_OP_T : CUBLAS_OP_N,
                                                epilogues[e],
                                                types[t][0],
                                                types[t][1],
                                                types[t][2],
                                                9,
                                                7,
                                                5,
                                                1 + (int)(way + t) % 3,
                                                0.25F,
                                                e % 2 ? 0.5F : 0};
                check_product(&product, way == 1);
            }
        }
    }
}

/* Matrices that do not fit each other, or their memory. */
static void wrong_products_are_refused(void **state) {
    const struct product product = {
        CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, 4, 4, 4, 1, 1, 0};
    const float one = 1, zero = 0;
    uint32_t seed = 4;
    (void)state;
    struct matrix a = make_matrix(CUDA_R_32F, 4, 4, 1, &seed), narrow = make_matrix(CUDA_R_32F, 4, 3, 1, &seed);
    struct matrix d = make_matrix(CUDA_R_32F, 4, 4, 1, &seed);
    cublasLtMatmulDesc_t description = describe(&product, NULL);
    cublasLtHandle_t blas;
    cublasLtMatrixLayout_t none;
    assert_int_equal(cublasLtCreate(&blas), 0);
    assert_int_equal(cublasLtMatmul(blas, description, &one, a.stored, a.layout, narrow.stored, narrow.layout, &zero, d.stored,
                                    d.layout, d.stored, d.layout, NULL, NULL, 0, NULL),
                     CUBLAS_STATUS_INVALID_VALUE);
    float *end = (float *)a.stored + 24;
    assert_int_equal(cublasLtMatmul(blas, description, &one, a.stored, a.layout, end, a.layout, &zero, d.stored, d.layout, d.stored,
                                    d.layout, NULL, NULL, 0, NULL),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &one, 1),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasLtMatrixLayoutCreate(&none, CUDA_R_8I, 4, 4, 4), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(fake->misuses, 4);
    fake->misuses = 0;
    free_matrix(&a);
    free_matrix(&narrow);
    free_matrix(&d);
    cublasLtMatmulDescDestroy(description);
    cublasLtDestroy(blas);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, reset, check_nothing_is_left)
    const struct CMUnitTest tests[] = {
        TEST(halves_round),
        TEST(threads_run_once),
        TEST(blocks_sum),
        TEST(tiles_are_transposed),
        TEST(tiles_are_multiplied),
        TEST(shared_memory_is_dynamic),
        TEST(warps_exchange_numbers),
        TEST(functions_are_computed),
        TEST(launches_fail),
        TEST(misuse_ends_the_program),
        TEST(threads_launch),
        TEST(products_are_computed),
        TEST(wrong_products_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    print_message("skipped: this build has no CUDA toolkit or no C++ compiler, so kernels cannot be emulated\n");
    return 77;
}

#endif
