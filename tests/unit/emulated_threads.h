/* The threads of a kernel on the processor: what emulate_cuda.h needs of emulated_threads.c. */
#ifndef L3A_EMULATED_THREADS_H
#define L3A_EMULATED_THREADS_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EMULATED_WARP = 32 };
enum emulated_place { AT_BARRIER, IN_SYNCWARP, IN_SHUFFLE, IN_PRODUCT };

/* The thread that runs, its block, and the launch. */
extern uint3 emulated_thread, emulated_block;
extern dim3 emulated_threads, emulated_grid;
extern void *emulated_shared;
unsigned emulated_lane(void);

/* Whether a launch succeeds, asked before it computes. The program that has the emulation defines it. */
cudaError_t emulated_answer(const char *kernel);
/* Runs body(argument) for each thread of each block. Launches of several threads of the program wait for each other. */
cudaError_t emulate_launch(const char *kernel, dim3 grid, dim3 threads, size_t shared_bytes, void (*body)(const void *),
                           const void *argument);
/* Waits for all threads of the block. The line is that of the kernel's file. */
void emulate_barrier(int line);
/* Waits for all lanes of the warp. The last one that comes does the work: all[i] is what lane i has given. work may be NULL. */
typedef void emulated_work(void *const *all, unsigned lanes);
void emulate_meeting(enum emulated_place place, int line, void *given, emulated_work *work);
/* Ends the program with a message. */
__attribute__((noreturn)) void emulated_misuse(const char *what, int line);

#ifdef __cplusplus
}
#endif

#endif
