/* The loops for processors with AVX512; compiled with the options that CMakeLists.txt gives this file. */
#if defined(__x86_64__) && !defined(L3A_PLAIN_KERNELS)
#define KERNELS kernels_avx512
#define KERNELS_NAME "avx512"
#include "net/kernels_body.h"
#else
typedef int nothing_here;
#endif
