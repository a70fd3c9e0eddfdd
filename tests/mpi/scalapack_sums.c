/* Sums that several processes hold together, against those of the processor's back end and of loops that are written out. Every
 * process makes the rows of all of them, and keeps its own. Started by test_scalapack.sh with different numbers of processes.
 *
 *   scalapack_sums                           all checks
 *   scalapack_sums DIM ROWS single|double    seconds and memory of each process, and how far a solution is off. ROWS: of each
 *   scalapack_sums DIM ROWS … alone          the same, and process 0 compares it with the processor's back end, by itself */
#include "algebra/scalapack/scalapack.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { COLUMNS = 5, MOST_ROWS = 64, CALLS = 3 };

static int process, processes;

#define CHECK(condition, ...)                                                                                                      \
    do {                                                                                                                           \
        if (!(condition)) {                                                                                                        \
            fprintf(stderr, "process %d of %d, line %d: %s: ", process, processes, __LINE__, #condition);                          \
            fprintf(stderr, __VA_ARGS__);                                                                                          \
            fprintf(stderr, "\n");                                                                                                 \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                                          \
        }                                                                                                                          \
    } while (0)
#define OK(call) CHECK((call) == L3A_OK, "%s", l3a_error_text(context))

static l3a_context *context;

static void *make(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    CHECK(memory, "out of memory");
    return memory;
}

static double number(uint64_t seed, uint64_t i) {
    return 2 * random_uniform(seed, i) - 1;
}

/* What a process adds in a call: some have no rows at all, and calls differ in their rows. The last call subtracts those of the
 * first. */
static size_t rows_of(int owner, int call) {
    return owner % 3 == 1 ? 0 : owner == 0 && call == 1 ? 1 : (size_t)(owner * 17 + call % (CALLS - 1) * 11 + 7) % MOST_ROWS;
}

/* Processes do not make the same number of calls. */
static int calls_of(int owner) {
    return owner % 2 ? CALLS - 1 : CALLS;
}

static double sign_of(int call) {
    return call == CALLS - 1 ? -1 : 1;
}

struct rows {
    float *features;
    double *weight, *targets;
    size_t count;
};

static struct rows make_rows(size_t dim, int owner, int call, bool some) {
    struct rows rows = {.count = rows_of(owner, call)};
    const uint64_t seed = (uint64_t)(1000 * owner + 10 * (call % (CALLS - 1)) + 1);
    rows.features = make(rows.count * dim, sizeof *rows.features);
    rows.weight = make(rows.count, sizeof *rows.weight);
    rows.targets = make(rows.count * COLUMNS, sizeof *rows.targets);
    for (size_t i = 0; i < rows.count * dim; i++) {
        rows.features[i] = (float)number(seed, i);
    }
    for (size_t i = 0; i < rows.count; i++) {
        rows.weight[i] = i % 5 == 2 || !some ? 0 : 1.5 + number(seed + 1, i);
    }
    for (size_t i = 0; i < rows.count * COLUMNS; i++) {
        rows.targets[i] = number(seed + 2, i);
    }
    return rows;
}

static void free_rows(struct rows *rows) {
    free(rows->features);
    free(rows->weight);
    free(rows->targets);
}

struct world {
    size_t dim;
    real type;
    struct layer layer;
    struct block block;
    struct sums shared, alone;
    double tolerance;
};

static void open_world(struct world *w, size_t dim, real type) {
    const struct layer_shape shape = {.kind = LAYER_NONE, .type = type, .width = dim, .dim = dim};
    *w = (struct world){.dim = dim, .type = type, .tolerance = type == REAL_SINGLE ? 1e-6 : 1e-9};
    OK(layer_create(context, &shape, &w->layer));
    w->block = (struct block){.context = context, .layer = &w->layer, .capacity = MOST_ROWS, .columns = COLUMNS, .reused = true};
    OK(block_create(&w->block));
    OK(sums_create_shared(context, dim, &w->shared));
    OK(sums_create(context, dim, &w->alone));
}

static void close_world(struct world *w) {
    sums_free(&w->shared);
    sums_free(&w->alone);
    block_free(&w->block);
    layer_free(&w->layer);
}

static void add_rows(struct world *w, struct sums *sums, int owner, int call) {
    struct rows rows = make_rows(w->dim, owner, call, true);
    OK(block_expand(&w->block, rows.features, rows.count));
    OK(sums_add(sums, &w->block, sign_of(call), rows.weight, call == 1 ? NULL : rows.targets));
    if (call == 1) {
        OK(sums_add_cross(sums, &w->block, rows.targets));
    }
    free_rows(&rows);
}

static void add_all(struct world *w) {
    OK(sums_begin(&w->shared, COLUMNS));
    OK(sums_begin(&w->alone, COLUMNS));
    for (int call = 0; call < calls_of(process); call++) {
        add_rows(w, &w->shared, process, call);
    }
    for (int owner = 0; owner < processes; owner++) {
        for (int call = 0; call < calls_of(owner); call++) {
            add_rows(w, &w->alone, owner, call);
        }
    }
}

/* Both agree, relative to the largest number. */
static void compare(const struct world *w, const char *what, const double *found, const double *wanted, size_t count) {
    double largest = 0, off = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(wanted[i]));
        off = fmax(off, fabs(found[i] - wanted[i]));
        off = isfinite(found[i]) ? off : INFINITY;
    }
    CHECK(off <= w->tolerance * largest, "%s of dim %zu is off by %g of %g", what, w->dim, off, largest);
}

static void read_half(const struct world *w, const struct sums *sums, enum half half, double *values) {
    for (size_t first = 0, count; first < w->dim; first += count) {
        count = w->dim - first < 100 ? w->dim - first : 100;
        OK(sums_read(sums, half, first, count, values + triangle_numbers(0, first)));
    }
}

static void compare_halves(const struct world *w, enum half half) {
    const size_t numbers = (size_t)triangle_numbers(0, w->dim);
    double *found = make(numbers, sizeof *found), *wanted = make(numbers, sizeof *wanted);
    read_half(w, &w->shared, half, found);
    read_half(w, &w->alone, half, wanted);
    compare(w, half == KEPT ? "the first half" : "the second half", found, wanted, numbers);
    free(found);
    free(wanted);
}

/* A and C by loops over the rows. */
static void compare_with_loops(const struct world *w, const double *cross) {
    const size_t d = w->dim, numbers = (size_t)triangle_numbers(0, d);
    double *found = make(numbers, sizeof *found), *gram = make(numbers, sizeof *gram), *wanted = make(d * COLUMNS, sizeof *wanted);
    for (int owner = 0; owner < processes; owner++) {
        for (int call = 0; call < calls_of(owner); call++) {
            struct rows rows = make_rows(d, owner, call, true);
            for (size_t n = 0; n < rows.count; n++) {
                const float *x = rows.features + n * d;
                const double weight = sign_of(call) * rows.weight[n];
                for (size_t i = 0, at = 0; i < d; i++) {
                    for (size_t j = 0; j <= i; j++, at++) {
                        gram[at] += weight * (double)x[i] * (double)x[j];
                    }
                    for (size_t k = 0; k < COLUMNS; k++) {
                        wanted[i * COLUMNS + k] += (call == 1 ? 1 : weight) * (double)x[i] * rows.targets[n * COLUMNS + k];
                    }
                }
            }
            free_rows(&rows);
        }
    }
    read_half(w, &w->shared, ADDED, found);
    compare(w, "A", found, gram, numbers);
    compare(w, "C", cross, wanted, d * COLUMNS);
    free(found);
    free(gram);
    free(wanted);
}

/* Solutions with both factors; right sides more and fewer than the columns of the grid. */
static void compare_solutions(struct world *w) {
    static const size_t counts[] = {1, 2, COLUMNS, 40};
    double traces[2];
    bool definite[2];
    OK(sums_factor(&w->shared, REAL_DOUBLE, 0.5, NULL, 0, 0, 500, &traces[0], &definite[0]));
    OK(sums_factor(&w->alone, REAL_DOUBLE, 0.5, NULL, 0, 0, 500, &traces[1], &definite[1]));
    CHECK(definite[0] && definite[1], "dim %zu", w->dim);
    compare(w, "the trace of M", traces, traces + 1, 1);
    for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
        const size_t numbers = counts[n] * w->dim;
        double *found = make(numbers, sizeof *found), *wanted = make(numbers, sizeof *wanted);
        for (size_t i = 0; i < numbers; i++) {
            found[i] = wanted[i] = number(77, i);
        }
        OK(sums_solve(&w->shared, REAL_DOUBLE, counts[n], found));
        OK(sums_solve(&w->alone, REAL_DOUBLE, counts[n], wanted));
        compare(w, "the solution", found, wanted, numbers);
        free(found);
        free(wanted);
    }
    OK(sums_factor(&w->shared, REAL_DOUBLE, 1, NULL, 0, 0, -1e6, &traces[0], &definite[0]));
    CHECK(!definite[0], "dim %zu", w->dim);
}

static void check_sums(size_t dim, real type) {
    struct world w;
    double traces[2], *cross = make(dim * COLUMNS, sizeof *cross), *wanted = make(dim * COLUMNS, sizeof *wanted);
    open_world(&w, dim, type);
    add_all(&w);
    OK(sums_cross(&w.shared, 1, cross));
    OK(sums_cross(&w.alone, 1, wanted));
    compare(&w, "C", cross, wanted, dim * COLUMNS);
    compare_halves(&w, ADDED);
    if (dim <= 300) {
        compare_with_loops(&w, cross);
    }
    OK(sums_keep(&w.shared, 2));
    OK(sums_keep(&w.alone, 2));
    add_all(&w); /* what is kept stays as it is */
    OK(sums_cross(&w.shared, -1, cross));
    OK(sums_cross(&w.alone, -1, wanted));
    compare_halves(&w, KEPT);
    OK(sums_keep(&w.shared, 1));
    OK(sums_keep(&w.alone, 1));
    OK(sums_trace(&w.shared, &traces[0]));
    OK(sums_trace(&w.alone, &traces[1]));
    compare(&w, "the trace", traces, traces + 1, 1);
    compare_solutions(&w);
    compare_halves(&w, KEPT);
    close_world(&w);
    free(cross);
    free(wanted);
}

static void check_copies(size_t dim) {
    struct world w;
    const size_t numbers = (size_t)triangle_numbers(0, dim);
    double *values = make(numbers, sizeof *values), *found = make(numbers, sizeof *found);
    open_world(&w, dim, REAL_DOUBLE);
    for (size_t i = 0; i < numbers; i++) {
        values[i] = number(5, i);
    }
    for (size_t i = 0; i < dim; i++) {
        OK(sums_write(&w.shared, KEPT, i, 1, values + triangle_numbers(0, i)));
    }
    read_half(&w, &w.shared, KEPT, found);
    CHECK(memcmp(values, found, numbers * sizeof *values) == 0, "dim %zu", dim);
    OK(sums_copy(&w.shared, ADDED));
    memset(found, 0, numbers * sizeof *found);
    OK(sums_write(&w.shared, KEPT, 0, dim, found));
    read_half(&w, &w.shared, ADDED, found);
    CHECK(memcmp(values, found, numbers * sizeof *values) == 0, "dim %zu", dim);
    close_world(&w);
    free(values);
    free(found);
}

/* No process adds a row of any weight. */
static void check_no_rows(size_t dim) {
    struct world w;
    double *cross = make(dim, COLUMNS * sizeof *cross), trace;
    open_world(&w, dim, REAL_SINGLE);
    OK(sums_begin(&w.shared, COLUMNS));
    struct rows rows = make_rows(dim, process, 0, false);
    OK(block_expand(&w.block, rows.features, rows.count));
    OK(sums_add(&w.shared, &w.block, 1, rows.weight, rows.targets));
    OK(sums_cross(&w.shared, 1, cross));
    OK(sums_keep(&w.shared, 1));
    OK(sums_trace(&w.shared, &trace));
    CHECK(trace == 0 && cross[0] == 0, "%g", trace);
    free_rows(&rows);
    free(cross);
    close_world(&w);
}

static void check_refusals(void) {
    struct world w;
    const struct scatter *none = NULL;
    double number_of = 0;
    bool flag;
    open_world(&w, 7, REAL_DOUBLE);
    struct rows rows = make_rows(7, 0, 0, true);
    OK(block_expand(&w.block, rows.features, rows.count));
    CHECK(sums_update(&w.shared, &w.block, rows.weight, rows.targets, &number_of, &number_of, &flag) == L3A_ERROR_OPTION, "update");
    CHECK(strstr(l3a_error_text(context), "scalapack") && l3a_error_hint(context)[0], "%s", l3a_error_text(context));
    CHECK(sums_invert(&w.shared, 0, &flag) == L3A_ERROR_OPTION, "invert");
    CHECK(sums_join(&w.shared, &w.alone) == L3A_ERROR_OPTION, "join");
    CHECK(sums_total(&w.shared, &none, 1) == L3A_ERROR_OPTION, "total");
    CHECK(sums_add_scatter(&w.shared, 1, none) == L3A_ERROR_OPTION, "scatter");
    CHECK(sums_multiply(&w.shared, 1, NULL, 0, 0, rows.weight, 0, &number_of) == L3A_ERROR_OPTION, "multiply");
    CHECK(sums_factor(&w.shared, REAL_SINGLE, 1, NULL, 0, 0, 1, &number_of, &flag) == L3A_ERROR_OPTION, "single");
    CHECK(sums_factor(&w.shared, REAL_DOUBLE, 1, &none, 1, 1, 1, &number_of, &flag) == L3A_ERROR_OPTION, "scatters");
    if (processes < 4) {
        struct sums large = {0};
        CHECK(sums_create_shared(context, 1 << 17, &large) == L3A_ERROR_OPTION, "too large for ScaLAPACK's int");
        CHECK(strstr(l3a_error_hint(context), "more processes"), "%s", l3a_error_hint(context));
    }
    free_rows(&rows);
    close_world(&w);
}

/* Memory of which the last process gets none from some allocation on. */
static size_t allocations, allowed;
static uint64_t bytes_now;

static void *limited(void *user, size_t bytes) {
    (void)user;
    size_t *memory = allocations++ < allowed ? malloc(bytes + sizeof(uint64_t)) : NULL;
    if (memory) {
        *memory = bytes;
        bytes_now += bytes;
    }
    return memory ? memory + 1 : NULL;
}

static void unlimited(void *user, void *memory) {
    (void)user;
    if (memory) {
        bytes_now -= ((uint64_t *)memory)[-1];
        free((uint64_t *)memory - 1);
    }
}

/* If memory is missing on one process, all get an error, and nothing is left behind. What is allocated is what was planned. */
static void check_memory(void) {
    const l3a_context_options options = {.size = sizeof options, .threads = 1, .allocate = limited, .release = unlimited};
    const size_t dim = 300;
    struct sums sums;
    allowed = SIZE_MAX;
    OK(l3a_context_create(&options, &context));
    OK(scalapack_open(context, &plugin_host, MPI_COMM_WORLD, 32));
    const uint64_t before = bytes_now;
    l3a_status status = L3A_ERROR_MEMORY;
    for (size_t n = 0; status != L3A_OK; n++) {
        allocations = 0;
        allowed = process == processes - 1 ? n : SIZE_MAX;
        status = sums_create_shared(context, dim, &sums);
        if (status == L3A_OK) {
            status = sums_begin(&sums, COLUMNS);
            CHECK(status != L3A_OK || bytes_now - before <= scalapack_sums_bytes(PROCESSOR, context, dim, COLUMNS) + 4096,
                  "%zu bytes", (size_t)(bytes_now - before));
            CHECK(status != L3A_OK || bytes_now - before >= scalapack_sums_bytes(PROCESSOR, context, dim, COLUMNS), "%zu bytes",
                  (size_t)(bytes_now - before));
            sums_free(&sums);
        }
        CHECK(status == L3A_OK || status == L3A_ERROR_MEMORY, "%d", (int)status);
        CHECK(bytes_now == before, "%zu bytes are left", (size_t)(bytes_now - before));
        CHECK(n < 100, "no end");
    }
    allowed = SIZE_MAX;
    scalapack_close(context);
    l3a_context_free(context);
    CHECK(bytes_now == 0, "%zu bytes are left", (size_t)bytes_now);
}

static void check_all(void) {
    static const size_t dims[] = {1, 7, 300, 1100}, blocks[] = {32, 256};
    const l3a_context_options options = {.size = sizeof options, .threads = 1};
    for (size_t n = 0; n < 16; n++) {
        OK(l3a_context_create(&options, &context));
        OK(scalapack_open(context, &plugin_host, MPI_COMM_WORLD, blocks[n % 2]));
        check_sums(dims[n / 4], n / 2 % 2 ? REAL_SINGLE : REAL_DOUBLE);
        if (n % 4 < 2) {
            check_copies(dims[n / 4]);
            check_no_rows(dims[n / 4]);
            check_refusals();
        }
        scalapack_close(context);
        l3a_context_free(context);
    }
    check_memory();
}

/* ---- By hand ---- */

enum { WIDTH = 64, BLOCK_ROWS = 512, CLASSES = 80 };

static void say(const char *what, double since) {
    struct rusage usage;
    MPI_Barrier(MPI_COMM_WORLD);
    getrusage(RUSAGE_SELF, &usage);
    if (!process) {
        printf("%-10s %8.2f s, %.2f GiB at most on process 0\n", what, clock_seconds() - since,
               (double)usage.ru_maxrss / (1 << 20));
        fflush(stdout);
    }
}

static void add_random(const struct layer *layer, struct sums *sums, size_t rows, int owner) {
    struct block block = {.context = context, .layer = layer, .capacity = BLOCK_ROWS, .columns = CLASSES};
    float *features = make(BLOCK_ROWS * WIDTH, sizeof *features);
    double *weight = make(BLOCK_ROWS, sizeof *weight), *targets = make(BLOCK_ROWS * CLASSES, sizeof *targets);
    OK(block_create(&block));
    for (size_t first = 0, n; first < rows; first += n) {
        n = rows - first < BLOCK_ROWS ? rows - first : BLOCK_ROWS;
        for (size_t i = 0; i < n * WIDTH; i++) {
            features[i] = (float)number((uint64_t)owner + 1, first * WIDTH + i);
        }
        for (size_t i = 0; i < n * CLASSES; i++) {
            weight[i / CLASSES] = 1;
            targets[i] = number((uint64_t)owner + 1001, first * CLASSES + i);
        }
        OK(block_expand(&block, features, n));
        OK(sums_add(sums, &block, 1, weight, targets));
    }
    block_free(&block);
    free(features);
    free(weight);
    free(targets);
}

/* The largest number of (A + γI) w - c, relative to that of c, for the first row w of solved. */
static double residual(const struct sums *sums, double gamma, const double *solved, const double *sides) {
    const size_t d = sums->dim;
    double *strip = make(strip_numbers(d), sizeof *strip), *product = make(d, sizeof *product), off = 0, largest = 0;
    for (size_t first = 0, count; first < d; first += count) {
        count = strip_rows(d, first);
        OK(sums_read(sums, KEPT, first, count, strip));
        const double *at = strip;
        for (size_t i = first; i < first + count; i++) {
            for (size_t j = 0; j < i; j++, at++) {
                product[i] += *at * solved[j];
                product[j] += *at * solved[i];
            }
            product[i] += (*at++ + gamma) * solved[i];
        }
    }
    for (size_t i = 0; i < d; i++) {
        off = fmax(off, fabs(product[i] - sides[i]));
        largest = fmax(largest, fabs(sides[i]));
    }
    free(strip);
    free(product);
    return off / largest;
}

static void solve(struct sums *sums, double gamma, double **solved, double **sides) {
    const size_t d = sums->dim;
    double *cross = make(d * CLASSES, sizeof *cross), trace;
    bool definite;
    *solved = make(d * CLASSES, sizeof **solved);
    *sides = make(d * CLASSES, sizeof **sides);
    OK(sums_cross(sums, 1, cross));
    OK(sums_keep(sums, 1));
    for (size_t i = 0; i < d * CLASSES; i++) {
        (*sides)[i % CLASSES * d + i / CLASSES] = (*solved)[i % CLASSES * d + i / CLASSES] = cross[i];
    }
    double start = clock_seconds();
    OK(sums_factor(sums, REAL_DOUBLE, 1, NULL, 0, 0, gamma, &trace, &definite));
    CHECK(definite, "gamma %g, trace %g", gamma, trace);
    if (sums->algebra->shared) {
        say("factor", start);
    }
    start = clock_seconds();
    OK(sums_solve(sums, REAL_DOUBLE, CLASSES, *solved));
    if (sums->algebra->shared) {
        say("solve", start);
    }
    free(cross);
}

static void measure(size_t dim, size_t rows, real type, bool alone) {
    const l3a_context_options options = {.size = sizeof options, .threads = 1};
    const struct layer_shape shape = {.kind = LAYER_RELU, .type = type, .width = WIDTH, .dim = dim, .seed = 3};
    const double gamma = 1;
    struct layer layer;
    struct sums sums, other;
    double *solved, *sides, *wanted, *unused, off = 0, largest = 0;
    OK(l3a_context_create(&options, &context));
    OK(scalapack_open(context, &plugin_host, MPI_COMM_WORLD, 0));
    OK(layer_create(context, &shape, &layer));
    double start = clock_seconds();
    OK(sums_create_shared(context, dim, &sums));
    OK(sums_begin(&sums, CLASSES));
    say("begin", start);
    start = clock_seconds();
    add_random(&layer, &sums, rows, process);
    rows_finish(&sums);
    say("rows", start);
    solve(&sums, gamma, &solved, &sides);
    start = clock_seconds();
    const double error = residual(&sums, gamma, solved, sides);
    say("read", start);
    if (!process) {
        printf("planned %.2f GiB a process; residual %.2g\n",
               (double)scalapack_sums_bytes(PROCESSOR, context, dim, CLASSES) / (1 << 30), error);
    }
    if (alone && !process) {
        OK(sums_create(context, dim, &other));
        OK(sums_begin(&other, CLASSES));
        for (int owner = 0; owner < processes; owner++) {
            add_random(&layer, &other, rows, owner);
        }
        start = clock_seconds();
        solve(&other, gamma, &wanted, &unused);
        for (size_t i = 0; i < dim * CLASSES; i++) {
            off = fmax(off, fabs(solved[i] - wanted[i]));
            largest = fmax(largest, fabs(wanted[i]));
        }
        printf("alone      %8.2f s to solve; differs by %.2g of the largest number\n", clock_seconds() - start, off / largest);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    sums_free(&sums);
    layer_free(&layer);
    scalapack_close(context);
    l3a_context_free(context);
}

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (count > 3) {
        measure(strtoul(arguments[1], NULL, 10), strtoul(arguments[2], NULL, 10),
                arguments[3][0] == 's' ? REAL_SINGLE : REAL_DOUBLE, count > 4);
    } else {
        check_all();
    }
    MPI_Finalize();
    return 0;
}
