/* Compares the sums of a phase on a CUDA device, through the library's algebra, with the bare calls of cuBLAS that any such program
 * needs: the product with the random layer in float32, the rank update and the cross product in float64, with the same sizes and
 * everything in the device's memory already. The library's time includes copying the features, weights and targets there. Also the
 * time of what happens at the end of a phase. Usage: bench_gpu [width [dim [classes [block [blocks]]]]] */
#include "algebra/algebra.h"
#include "base/random.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

struct bench {
    size_t width, dim, classes, block, blocks;
    l3a_context *context;
    struct layer layer;
    struct block rows;
    struct sums sums;
    float *features;
    double *weight, *targets, *coefficients, *cross;
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

static void open_bench(struct bench *b) {
    const l3a_context_options options = {.size = sizeof options, .device = "cuda"};
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
    b->features = room_for(b->block * b->width, sizeof *b->features);
    b->weight = room_for(b->block, sizeof *b->weight);
    b->targets = room_for(b->block * b->classes, sizeof *b->targets);
    b->coefficients = room_for(b->dim * b->classes, sizeof *b->coefficients);
    b->cross = room_for(b->dim * b->classes, sizeof *b->cross);
    for (size_t i = 0; i < b->block * b->width; i++) {
        b->features[i] = (float)(2 * random_uniform(2, i) - 1);
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
        check(b, block_expand(&b->rows, b->features, b->block));
        check(b, sums_add(&b->sums, &b->rows, 1, b->weight, b->targets));
    }
    wait_for(b);
    return clock_seconds() - before;
}

static double measure_bare(const struct bench *b) {
    const int k = (int)b->width, d = (int)b->dim, n = (int)b->block, c = (int)b->classes;
    const float one = 1, zero = 0;
    const double wide_one = 1;
    float *z, *layer, *x;
    double *wide, *y, *a, *cross;
    cublasHandle_t blas;
    check_blas(cublasCreate(&blas));
    check_cuda(cudaMalloc((void **)&z, b->block * b->width * sizeof *z));
    check_cuda(cudaMalloc((void **)&layer, b->dim * b->width * sizeof *layer));
    check_cuda(cudaMalloc((void **)&x, b->block * b->dim * sizeof *x));
    check_cuda(cudaMalloc((void **)&wide, b->block * b->dim * sizeof *wide));
    check_cuda(cudaMalloc((void **)&y, b->block * b->classes * sizeof *y));
    check_cuda(cudaMalloc((void **)&a, b->dim * b->dim * sizeof *a));
    check_cuda(cudaMalloc((void **)&cross, b->dim * b->classes * sizeof *cross));
    double *numbers = room_for(b->block * b->dim, sizeof *numbers);
    for (size_t i = 0; i < b->block * b->dim; i++) {
        numbers[i] = random_uniform(5, i);
    }
    check_cuda(cudaMemcpy(wide, numbers, b->block * b->dim * sizeof *wide, cudaMemcpyHostToDevice));
    check_cuda(cudaMemcpy(y, b->targets, b->block * b->classes * sizeof *y, cudaMemcpyHostToDevice));
    check_cuda(cudaMemcpy(z, b->features, b->block * b->width * sizeof *z, cudaMemcpyHostToDevice));
    layer_entries(b->context->threads, &b->layer.shape, numbers);
    check_cuda(cudaMemcpy(layer, numbers, b->dim * b->width * sizeof *layer, cudaMemcpyHostToDevice));
    check_cuda(cudaMemset(a, 0, b->dim * b->dim * sizeof *a));
    check_cuda(cudaMemset(cross, 0, b->dim * b->classes * sizeof *cross));
    double before = 0;
    for (size_t i = 0; i < b->blocks + 1; i++) {
        check_blas(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, d, n, k, &one, layer, d, z, k, &zero, x, d));
        check_blas(cublasDsyrk(blas, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, d, n, &wide_one, wide, d, &wide_one, a, d));
        check_blas(cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, c, d, n, &wide_one, y, c, wide, d, &wide_one, cross, c));
        if (i == 0) { /* the first is to warm up */
            check_cuda(cudaDeviceSynchronize());
            before = clock_seconds();
        }
    }
    check_cuda(cudaDeviceSynchronize());
    const double seconds = clock_seconds() - before;
    cudaFree(z), cudaFree(layer), cudaFree(x), cudaFree(wide), cudaFree(y), cudaFree(a), cudaFree(cross);
    cublasDestroy(blas);
    free(numbers);
    return seconds;
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

int main(int count, char **arguments) {
    size_t sizes[] = {2048, 8192, 80, 4096, 25};
    for (int i = 1; i < count && i <= 5; i++) {
        sizes[i - 1] = strtoul(arguments[i], NULL, 10);
    }
    struct bench b = {.width = sizes[0], .dim = sizes[1], .classes = sizes[2], .block = sizes[3], .blocks = sizes[4]};
    open_bench(&b);
    measure_sums(&b);
    const double rows = (double)(b.blocks * b.block), bare = measure_bare(&b), own = measure_sums(&b);
    printf("width %zu, dim %zu, classes %zu, blocks of %zu: library %.0f rows/s, bare cuBLAS %.0f, ratio of times %.3f\n", b.width,
           b.dim, b.classes, b.block, rows / own, rows / bare, own / bare);
    measure_rest(&b);
    sums_free(&b.sums);
    block_free(&b.rows);
    layer_free(&b.layer);
    l3a_context_free(b.context);
    free(b.features), free(b.weight), free(b.targets), free(b.coefficients), free(b.cross);
    return 0;
}
