/* Chooses the pixel loops for this processor. */
#include "image/resize.h"

#if defined(__x86_64__) && !defined(L3A_PLAIN_KERNELS)

static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vnni");
}

size_t picture_kernels_usable(const kernel_table *tables[KERNEL_TABLES]) {
    size_t count = 0;
    tables[count++] = &plain_kernels;
    if (__builtin_cpu_supports("avx2")) {
        tables[count++] = &avx2_kernels;
        if (has_avx512()) {
            tables[count++] = &avx512_kernels;
        }
    }
    return count;
}

#else

size_t picture_kernels_usable(const kernel_table *tables[KERNEL_TABLES]) {
    tables[0] = &plain_kernels;
    return 1;
}

#endif

const kernel_table *picture_kernels(void) {
    const kernel_table *tables[KERNEL_TABLES];
    return tables[picture_kernels_usable(tables) - 1];
}
