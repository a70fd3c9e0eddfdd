/* Learning on a CUDA device, against the bare calls of cuBLAS and cuSOLVER that any such program needs: the product with the random
 * layer in float32, the rank update and the cross product in float64, and the factor, with the same sizes and everything in the
 * device's memory already. They take turns with
 *
 *   phase   a phase through the public interface, from features in the processor's memory, with pseudo-labels for the old half of
 *           the classes, weights, and the solution
 *   sums    its sums alone, through the library's algebra
 *
 * Also how long the steps at the end of a phase take, and the error of expanded rows. The last line is JSON.
 * Usage: bench_gpu [width [dim [classes [blocks [rounds]]]]] */
#include "algebra/algebra.h"
#include "base/random.h"

#include <l3a/l3a.h>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, MOST_ROUNDS = 100 };

struct bench {
    size_t width, dim, classes, block, blocks;
    l3a_context *context;
    struct layer layer;
    struct block rows;
    struct sums sums;
    float *features;
    double *weight, *targets, *coefficients, *cross;
    int8_t *labels;       /* [blocks x block x classes / 2] */
    double solve_seconds; /* of the last phase */
};

/* What the bare calls work on. */
struct bare {
    cublasHandle_t blas;
    cusolverDnHandle_t solver;
    float *z, *layer, *x;
    double *wide, *y, *a, *cross, *work;
    int *info, work_size;
};

static void check(const struct bench *bench, l3a_status status) {
    if (status != L3A_OK) {
        fprintf(stderr, "bench_gpu: %s\n", l3a_error_text(bench->context));
        exit(1);
    }
}

static void check_cuda(cudaError_t code) {
    if (code != cudaSuccess) {
        fprintf(stderr, "bench_gpu: CUDA: %s\n", cudaGetErrorString(code));
        exit(1);
    }
}

static void check_blas(cublasStatus_t code) {
    if (code != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "bench_gpu: cuBLAS: %s\n", cublasGetStatusString(code));
        exit(1);
    }
}

static void *room_for(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) {
        fprintf(stderr, "bench_gpu: out of memory\n");
        exit(1);
    }
    return memory;
}

static int keep_solve_time(const l3a_event *event, void *user) {
    struct bench *bench = user;
    if (event->kind == L3A_EVENT_TIMING && strcmp(event->stage, "solve") == 0) {
        bench->solve_seconds = event->seconds;
    }
    return 0;
}

static void open_bench(struct bench *b) {
    l3a_context_options options = {.size = sizeof options, .on_event = keep_solve_time, .event_user = b};
    options.device = "cuda";
    const struct layer_shape shape = {.kind = LAYER_RELU, .type = REAL_SINGLE, .width = b->width, .dim = b->dim, .seed = 1};
    if (l3a_context_create(&options, &b->context) != L3A_OK) {
        char text[200];
        l3a_context_create(NULL, &b->context);
        check(b, l3a_device_describe(b->context, "cuda", text, sizeof text));
    }
    check(b, layer_create(b->context, &shape, &b->layer));
    b->rows = (struct block){.context = b->context, .layer = &b->layer, .capacity = b->block, .columns = b->classes};
    check(b, block_create(&b->rows));
    check(b, sums_create(b->context, b->dim, &b->sums));
    const size_t rows = b->block * b->blocks, half = b->classes / 2;
    b->features = room_for(rows * b->width, sizeof *b->features);
    b->labels = room_for(rows * half, sizeof *b->labels);
    b->weight = room_for(b->block, sizeof *b->weight);
    b->targets = room_for(b->block * b->classes, sizeof *b->targets);
    b->coefficients = room_for(b->dim * b->classes, sizeof *b->coefficients);
    b->cross = room_for(b->dim * b->classes, sizeof *b->cross);
    for (size_t i = 0; i < rows * b->width; i++) {
        b->features[i] = (float)random_uniform(2, i);
    }
    for (size_t i = 0; i < rows * half; i++) { /* the first class is always there, so it becomes a pseudo-label */
        b->labels[i] = i % half == 0 || i % half == i / half % half || random_uniform(7, i) < 0.05;
    }
    for (size_t i = 0; i < b->block * b->classes; i++) {
        b->targets[i] = random_uniform(3, i) < 0.04;
        b->weight[i / b->classes] = 0.5 + random_uniform(4, i / b->classes);
    }
}

/* Waits for the device. */
static void wait_for(struct bench *b) {
    double number;
    check(b, sums_read(&b->sums, KEPT, 0, 1, &number));
}

static double measure_sums(struct bench *b) {
    check(b, sums_begin(&b->sums, b->classes));
    wait_for(b);
    const double before = clock_seconds();
    for (size_t i = 0; i < b->blocks; i++) {
        check(b, block_expand(&b->rows, b->features + i * b->block * b->width, b->block));
        check(b, sums_add(&b->sums, &b->rows, 1, b->weight, b->targets));
    }
    wait_for(b);
    return clock_seconds() - before;
}

static void *on_device(size_t count, size_t size, const void *from) {
    void *memory;
    check_cuda(cudaMalloc(&memory, count * size));
    check_cuda(from ? cudaMemcpy(memory, from, count * size, cudaMemcpyHostToDevice) : cudaMemset(memory, 0, count * size));
    return memory;
}

static void open_bare(const struct bench *b, struct bare *bare) {
    const size_t most = b->block > b->width ? b->block : b->width;
    double *numbers = room_for(most * b->dim, sizeof *numbers);
    for (size_t i = 0; i < b->block * b->dim; i++) {
        numbers[i] = random_uniform(5, i);
    }
    check_blas(cublasCreate(&bare->blas));
    if (cusolverDnCreate(&bare->solver) != CUSOLVER_STATUS_SUCCESS) {
        fprintf(stderr, "bench_gpu: cuSOLVER cannot be used\n");
        exit(1);
    }
    bare->wide = on_device(b->block * b->dim, sizeof(double), numbers);
    layer_entries(b->context->threads, &b->layer.shape, numbers);
    bare->layer = on_device(b->dim * b->width, sizeof(float), numbers);
    bare->z = on_device(b->block * b->width, sizeof(float), b->features);
    bare->x = on_device(b->block * b->dim, sizeof(float), NULL);
    bare->y = on_device(b->block * b->classes, sizeof(double), b->targets);
    bare->a = on_device(b->dim * b->dim, sizeof(double), NULL);
    bare->cross = on_device(b->dim * b->classes, sizeof(double), NULL);
    bare->info = on_device(1, sizeof(int), NULL);
    cusolverDnDpotrf_bufferSize(bare->solver, CUBLAS_FILL_MODE_LOWER, (int)b->dim, bare->a, (int)b->dim, &bare->work_size);
    bare->work = on_device((size_t)bare->work_size, sizeof(double), NULL);
    free(numbers);
}

static void close_bare(struct bare *bare) {
    void *const owned[] = {bare->z, bare->layer, bare->x, bare->wide, bare->y, bare->a, bare->cross, bare->work, bare->info};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        cudaFree(owned[i]);
    }
    cublasDestroy(bare->blas);
    cusolverDnDestroy(bare->solver);
}

/* Seconds for the blocks; *factor: for the factor after them. */
static double measure_bare(const struct bench *b, struct bare *bare, double *factor) {
    const int k = (int)b->width, d = (int)b->dim, n = (int)b->block, c = (int)b->classes;
    const float one = 1, zero = 0;
    const double wide_one = 1;
    check_cuda(cudaDeviceSynchronize());
    const double before = clock_seconds();
    for (size_t i = 0; i < b->blocks; i++) {
        check_blas(cublasSgemm(bare->blas, CUBLAS_OP_N, CUBLAS_OP_N, d, n, k, &one, bare->layer, d, bare->z, k, &zero, bare->x, d));
        check_blas(
            cublasDsyrk(bare->blas, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, d, n, &wide_one, bare->wide, d, &wide_one, bare->a, d));
        check_blas(cublasDgemm(bare->blas, CUBLAS_OP_N, CUBLAS_OP_T, c, d, n, &wide_one, bare->y, c, bare->wide, d, &wide_one,
                               bare->cross, c));
    }
    check_cuda(cudaDeviceSynchronize());
    const double between = clock_seconds();
    cusolverDnDpotrf(bare->solver, CUBLAS_FILL_MODE_LOWER, d, bare->a, d, bare->work, bare->work_size, bare->info);
    check_cuda(cudaDeviceSynchronize());
    *factor = clock_seconds() - between;
    check_cuda(cudaMemset(bare->a, 0, b->dim * b->dim * sizeof *bare->a));
    return between - before;
}

/* Seconds of the second of two phases, each with half of the classes; the first is short. */
static double measure_phase(struct bench *b) {
    enum { EARLIER_ROWS = 512 };
    const size_t half = b->classes / 2, rows = b->block * b->blocks;
    l3a_options *options = NULL;
    l3a_model *model = NULL;
    char(*names)[24] = room_for(b->classes, sizeof *names);
    const char **classes = room_for(b->classes, sizeof *classes);
    double seconds = 0;
    for (size_t k = 0; k < b->classes; k++) {
        snprintf(names[k], sizeof names[k], "%zu", k);
        classes[k] = names[k];
    }
    check(b, l3a_options_create(b->context, &options));
    check(b, l3a_options_set_integer(b->context, options, "dim", b->dim));
    check(b, l3a_options_set_integer(b->context, options, "block", b->block));
    check(b, l3a_options_set(b->context, options, "solver", "sums"));
    check(b, l3a_model_create(b->context, b->width, options, &model));
    for (size_t phase = 0; phase < 2; phase++) {
        const size_t count = phase ? rows : EARLIER_ROWS;
        const double start = clock_seconds();
        check(b, l3a_phase_begin(model, classes + phase * half, half));
        check(b, l3a_phase_count(model, b->labels, count));
        for (size_t first = 0; first < count; first += b->block) {
            const size_t n = count - first < b->block ? count - first : b->block;
            check(b, l3a_phase_learn(model, b->features + first * b->width, b->labels + first * half, n));
        }
        check(b, l3a_phase_end(model));
        seconds = clock_seconds() - start;
    }
    l3a_model_free(model);
    l3a_options_free(options);
    free(names);
    free(classes);
    return seconds;
}

/* The error of expanded rows before the ReLU, relative to them all, in the library's way and in float32; from a few columns. */
static void measure_errors(struct bench *b, struct bare *bare, double *errors) {
    enum { ROWS = 256, COLUMNS = 64 };
    const float one = 1, zero = 0;
    double gap[2] = {0, 0}, size[2] = {0, 0};
    float *entries = room_for(b->width * b->dim, sizeof *entries), *rows[2];
    rows[0] = room_for(b->block * b->dim, sizeof **rows);
    rows[1] = room_for(b->block * b->dim, sizeof **rows);
    layer_entries(b->context->threads, &b->layer.shape, entries);
    check(b, block_expand(&b->rows, b->features, b->block));
    check(b, block_read(&b->rows, rows[0]));
    check_blas(cublasSgemm(bare->blas, CUBLAS_OP_N, CUBLAS_OP_N, (int)b->dim, (int)b->block, (int)b->width, &one, bare->layer,
                           (int)b->dim, bare->z, (int)b->width, &zero, bare->x, (int)b->dim));
    check_cuda(cudaMemcpy(rows[1], bare->x, b->block * b->dim * sizeof **rows, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < COLUMNS; j++) {
            double sum = 0;
            for (size_t c = 0; c < b->width; c++) {
                sum += (double)b->features[i * b->width + c] * (double)entries[c * b->dim + j];
            }
            for (size_t w = 0; w < 2 && sum > 0; w++) {
                const double error = (double)rows[w][i * b->dim + j] - sum;
                gap[w] += error * error;
                size[w] += sum * sum;
            }
        }
    }
    errors[0] = sqrt(gap[0] / size[0]);
    errors[1] = sqrt(gap[1] / size[1]);
    free(entries);
    free(rows[0]);
    free(rows[1]);
}

static void measure_rest(struct bench *b) {
    struct solution solution;
    double trace, times[8];
    bool good;
    double *rows = room_for(b->classes * b->dim, sizeof *rows), *y = room_for(b->classes * b->dim, sizeof *y);
    float *scores = room_for(b->block * b->classes, sizeof *scores);
    check(b, solution_create(b->context, b->dim, b->classes, REAL_SINGLE, &solution));
    for (int round = 0; round < 2; round++) { /* the first is to warm up */
        size_t n = 0;
        times[n++] = clock_seconds();
        check(b, sums_keep(&b->sums, 1));
        wait_for(b);
        times[n++] = clock_seconds();
        check(b, sums_factor(&b->sums, REAL_DOUBLE, 1, NULL, 0, 0, 100, &trace, &good));
        times[n++] = clock_seconds();
        for (size_t i = 0; i < b->classes * b->dim; i++) {
            rows[i] = random_uniform(6, i);
        }
        times[n++] = clock_seconds();
        check(b, sums_solve(&b->sums, REAL_DOUBLE, b->classes, rows));
        times[n++] = clock_seconds();
        check(b, sums_multiply(&b->sums, 1, NULL, 0, 0, rows, b->classes, y));
        times[n++] = clock_seconds();
        check(b, block_expand(&b->rows, b->features, b->block));
        check(b, block_score(&b->rows, &solution, scores));
        times[n++] = clock_seconds();
        check(b, sums_update(&b->sums, &b->rows, b->weight, b->targets, b->cross, b->coefficients, &good));
        times[n++] = clock_seconds();
    }
    printf("keep %.2f ms, factor %.2f, solve %.2f, multiply %.2f, expand and score %.2f, recursion %.2f\n",
           1e3 * (times[1] - times[0]), 1e3 * (times[2] - times[1]), 1e3 * (times[4] - times[3]), 1e3 * (times[5] - times[4]),
           1e3 * (times[6] - times[5]), 1e3 * (times[7] - times[6]));
    solution_free(&solution);
    free(rows);
    free(y);
    free(scores);
}

static int compare_numbers(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ", \"name\": [smallest, median, largest]" */
static void print_spread(const char *name, double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_numbers);
    printf(", \"%s\": [%.6g, %.6g, %.6g]", name, values[0], (values[(count - 1) / 2] + values[count / 2]) / 2, values[count - 1]);
}

static void run_rounds(struct bench *b, struct bare *bare, size_t rounds) {
    const double rows = (double)(b->blocks * b->block);
    double phase[MOST_ROUNDS], sums[MOST_ROUNDS], calls[MOST_ROUNDS], phase_ratio[MOST_ROUNDS], sums_ratio[MOST_ROUNDS], errors[2];
    measure_sums(b);
    measure_bare(b, bare, errors);
    for (size_t i = 0; i < rounds; i++) {
        double factor;
        const double bare_seconds = measure_bare(b, bare, &factor), sums_seconds = measure_sums(b),
                     phase_seconds = measure_phase(b);
        phase[i] = rows / (phase_seconds - b->solve_seconds);
        sums[i] = rows / sums_seconds;
        calls[i] = rows / bare_seconds;
        phase_ratio[i] = phase_seconds / (bare_seconds + factor);
        sums_ratio[i] = sums_seconds / bare_seconds;
        printf(
            "round %zu: phase %.0f rows/s and %.1f ms to solve, sums alone %.0f rows/s, bare calls %.0f rows/s and %.1f ms for the "
            "factor; times the bare calls: phase %.3f, sums %.3f\n",
            i + 1, phase[i], 1e3 * b->solve_seconds, sums[i], calls[i], 1e3 * factor, phase_ratio[i], sums_ratio[i]);
        fflush(stdout);
    }
    measure_errors(b, bare, errors);
    printf("error of expanded rows: %.2e, of cuBLAS in float32 %.2e\n", errors[0], errors[1]);
    measure_rest(b);
    printf("{\"width\": %zu, \"dim\": %zu, \"classes\": %zu, \"rows\": %.0f, \"rounds\": %zu", b->width, b->dim, b->classes, rows,
           rounds);
    print_spread("phase", phase, rounds);
    print_spread("sums", sums, rounds);
    print_spread("bare", calls, rounds);
    print_spread("phase_ratio", phase_ratio, rounds);
    print_spread("sums_ratio", sums_ratio, rounds);
    printf(", \"error\": %.3g, \"float32_error\": %.3g}\n", errors[0], errors[1]);
}

int main(int count, char **arguments) {
    size_t sizes[] = {2048, 8192, 80, 25, 3};
    for (int i = 1; i < count && i <= 5; i++) {
        sizes[i - 1] = strtoul(arguments[i], NULL, 10);
    }
    struct bench b = {.width = sizes[0], .dim = sizes[1], .classes = sizes[2], .block = BLOCK, .blocks = sizes[3]};
    struct bare bare = {0};
    if (!b.width || !b.dim || b.classes < 2 || !b.blocks || !sizes[4] || sizes[4] > MOST_ROUNDS) {
        fprintf(stderr, "usage: bench_gpu [width [dim [classes [blocks [rounds]]]]]\n");
        return 2;
    }
    open_bench(&b);
    open_bare(&b, &bare);
    run_rounds(&b, &bare, sizes[4]);
    close_bare(&bare);
    sums_free(&b.sums);
    block_free(&b.rows);
    layer_free(&b.layer);
    l3a_context_free(b.context);
    free(b.features), free(b.weight), free(b.targets), free(b.coefficients), free(b.cross), free(b.labels);
    return 0;
}
