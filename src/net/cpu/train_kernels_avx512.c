/* The loops of training for processors with AVX-512. CMakeLists.txt sets the compiler options of this file. */
#if defined(__x86_64__) && !defined(L3A_PLAIN_KERNELS)
#define KERNELS train_kernels_avx512
#define KERNELS_NAME "avx512"
#include "net/cpu/train_kernels_body.h"
#else
typedef int nothing_here;
#endif
