#include "base/machine.h"

#include "base/context.h"
#include "base/matrix.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/sized.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

int machine_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

/* The number after `key` in a small file of the kernel; 0 if there is none. */
static uint64_t kernel_number(const char *path, const char *key) {
    FILE *file = fopen(path, "re");
    uint64_t value = 0;
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        unsigned long long number;
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), " %llu", &number) == 1) {
            value = number;
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return value;
}

static uint64_t at_most(uint64_t value, uint64_t limit) {
    return limit && limit < value ? limit : value;
}

uint64_t machine_memory_peak(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : 1024 * (uint64_t)usage.ru_maxrss;
}

static uint64_t memory_total(void) {
    return at_most(1024 * kernel_number("/proc/meminfo", "MemTotal:"), kernel_number("/sys/fs/cgroup/memory.max", ""));
}

uint64_t machine_memory_available(void) {
    const uint64_t limit = kernel_number("/sys/fs/cgroup/memory.max", "");
    const uint64_t used = kernel_number("/sys/fs/cgroup/memory.current", "");
    return at_most(1024 * kernel_number("/proc/meminfo", "MemAvailable:"), limit > used ? limit - used : limit);
}

static void find_processor(char *text, size_t capacity) {
    snprintf(text, capacity, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[512];
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            snprintf(text, capacity, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (file) {
        fclose(file);
    }
}

static void find_instructions(char *text, size_t capacity) {
#if defined(__x86_64__)
    snprintf(text, capacity, "x86-64%s%s%s", __builtin_cpu_supports("avx2") ? " avx2" : "",
             __builtin_cpu_supports("fma") ? " fma" : "", __builtin_cpu_supports("avx512f") ? " avx512" : "");
#else
    snprintf(text, capacity, "not x86-64");
#endif
}

static void describe(const l3a_context *context, l3a_machine *machine) {
    find_processor(machine->processor, sizeof machine->processor);
    find_instructions(machine->instructions, sizeof machine->instructions);
    const char *better = NULL;
    matrix_describe(machine->blas, sizeof machine->blas, &better);
    snprintf(machine->better_kernels, sizeof machine->better_kernels, "%s", better ? better : "");
#if defined(__clang__)
    snprintf(machine->compiler, sizeof machine->compiler, "clang %d.%d.%d", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
    snprintf(machine->compiler, sizeof machine->compiler, "gcc %d.%d.%d", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
    machine->processors = machine_processors();
    machine->threads = context->threads;
    machine->memory_total = memory_total();
    machine->memory_available = machine_memory_available();
}

l3a_status l3a_machine_query(l3a_context *context, l3a_machine *machine) {
    l3a_status status = L3A_OK;
    l3a_machine own = {.size = sizeof own};
    NEED(context, context, machine);
    describe(context, &own);
    TRY(WRITE_SIZED(context, machine, own));
done:
    return status;
}

static double product_speed(const l3a_context *context, real type, size_t n, void *memory) {
    char *const a = memory;
    double best = 0;
    for (int round = 0; round < 3; round++) {
        const double start = clock_seconds();
        matrix_multiply(context->threads, type, false, false, n, n, n, 1, a, n, a, n, 0, a + n * n * real_size(type), n);
        const double speed = 2.0 * (double)n * (double)n * (double)n / (clock_seconds() - start);
        best = speed > best ? speed : best;
    }
    return best;
}

l3a_status l3a_machine_speed(l3a_context *context, double *single_precision, double *double_precision) {
    enum { N = 1024 };
    l3a_status status = L3A_OK;
    double *memory = NULL;
    NEED(context, context, single_precision, double_precision);
    TRY(allocate(context, 2 * (size_t)N * N, sizeof *memory, &memory));
    float *const values = (float *)memory;
    for (size_t i = 0; i < (size_t)N * N; i++) {
        values[i] = (float)random_uniform(1, i);
    }
    *single_precision = product_speed(context, REAL_SINGLE, N, memory);
    for (size_t i = 0; i < (size_t)N * N; i++) {
        memory[i] = random_uniform(1, i);
    }
    *double_precision = product_speed(context, REAL_DOUBLE, N, memory);
done:
    release(context, memory);
    return status;
}
