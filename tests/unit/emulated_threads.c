/* The threads of a kernel, each on a stack of its own when it has to wait for others. A stack takes one thread after the other
 * until one of them waits; then the next stack goes on with those that have not begun. A kernel whose threads never wait therefore
 * runs on one stack, in a plain loop. */
#include "emulated_threads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__has_feature) && !defined(__SANITIZE_ADDRESS__)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif
#if !defined(__x86_64__) || defined(L3A_EMULATE_WITH_UCONTEXT)
#define USE_UCONTEXT
#include <ucontext.h>
#endif

enum { MOST_THREADS = 1024, MOST_WARPS = MOST_THREADS / EMULATED_WARP, MOST_SHARED = 227 << 10, MOST_BLOCKS = 65535, GUARD = 4096 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STACK_BYTES = 512 << 10 };
#else
enum { STACK_BYTES = 128 << 10 };
#endif

struct fiber {
    struct fiber *next; /* in a list */
    unsigned index;     /* of its thread in the block */
    uint3 thread;
    void *stack;
    size_t bytes;
#ifdef USE_UCONTEXT
    ucontext_t context;
#else
    void *place; /* where its stack ends while it does not run */
#endif
    void *fake_stack, *watched; /* the sanitizers' */
};

struct list {
    struct fiber *first, *last;
};

/* Threads that wait for each other: of a block or of a warp. */
struct group {
    unsigned size, arrived;
    enum emulated_place place;
    int line;
    struct list waiting;
    void *given[EMULATED_WARP];
};

/* ---- The launch, the block and the thread that run ---- */

uint3 emulated_thread, emulated_block;
dim3 emulated_threads, emulated_grid;
void *emulated_shared;

static pthread_mutex_t launching = PTHREAD_MUTEX_INITIALIZER;
static const char *kernel_name;
static void (*kernel_body)(const void *);
static const void *kernel_argument;
static unsigned threads, begun, returned;
static uint3 next_thread;
static struct group block, warps[MOST_WARPS];
static struct fiber caller; /* of the launch */
static struct fiber *running = &caller, *left;
static struct list ready, unused;

static void list_append(struct list *list, struct list added) {
    if (added.first) {
        *(list->first ? &list->last->next : &list->first) = added.first;
        list->last = added.last;
    }
}

static void list_push(struct list *list, struct fiber *fiber) {
    fiber->next = NULL;
    list_append(list, (struct list){fiber, fiber});
}

static struct fiber *list_pop(struct list *list) {
    struct fiber *first = list->first;
    if (first) {
        list->first = first->next;
    }
    return first;
}

/* ---- Misuse ---- */

static void print_place(const struct group *group) {
    static const char *const places[] = {"__syncthreads()", "__syncwarp()", "a shuffle", "a product of tiles"};
    fprintf(stderr, "%s in line %d", places[group->place], group->line);
}

static void print_block(void) {
    fprintf(stderr, "kernel %s, block (%u, %u, %u): ", kernel_name, emulated_block.x, emulated_block.y, emulated_block.z);
}

void emulated_misuse(const char *what, int line) {
    print_block();
    fprintf(stderr, "thread (%u, %u, %u), line %d: %s\n", emulated_thread.x, emulated_thread.y, emulated_thread.z, line, what);
    abort();
}

__attribute__((noreturn)) static void stuck(void) {
    print_block();
    fprintf(stderr, "its threads wait for each other forever: of %u, %u have returned", threads, returned);
    for (unsigned i = 0; i <= MOST_WARPS; i++) {
        const struct group *group = i < MOST_WARPS ? &warps[i] : &block;
        if (group->arrived) {
            fprintf(stderr, ", %u are at ", group->arrived);
            print_place(group);
        }
    }
    fputc('\n', stderr);
    abort();
}

/* ---- Fibers ---- */

#ifndef USE_UCONTEXT
/* Saves what a function must keep on the old stack, and where that ends; continues with the other stack. */
void emulated_switch(void **from, void *to);
__asm__(".pushsection .text\n"
        ".type emulated_switch, @function\n"
        "emulated_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size emulated_switch, . - emulated_switch\n"
        ".popsection\n");
#endif

/* On the new stack. */
static void arrive(void) {
#ifdef __SANITIZE_ADDRESS__
    const void *stack;
    size_t bytes;
    __sanitizer_finish_switch_fiber(running->fake_stack, &stack, &bytes);
    if (left == &caller) { /* whose stack nobody else knows */
        caller.stack = (void *)(uintptr_t)stack;
        caller.bytes = bytes;
    }
#endif
}

static void go_to(struct fiber *to) {
    struct fiber *from = left = running;
    running = to;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->bytes);
#endif
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(to->watched, 0);
#endif
#ifdef USE_UCONTEXT
    swapcontext(&from->context, &to->context);
#else
    emulated_switch(&from->place, to->place);
#endif
    arrive();
}

/* The fiber that goes on if none begins a thread: one that need not wait any longer, or the caller if all have returned. */
static struct fiber *next_ready(void) {
    struct fiber *next = list_pop(&ready);
    if (!next && returned < threads) {
        stuck();
    }
    return next ? next : &caller;
}

static void advance_thread(void) {
    if (++next_thread.x == emulated_threads.x) {
        next_thread.x = 0;
        if (++next_thread.y == emulated_threads.y) {
            next_thread.y = 0;
            next_thread.z++;
        }
    }
}

/* Takes threads, one after the other, in every block of every launch. */
static void fiber_main(void) {
    struct fiber *self = running;
    arrive();
    for (;;) {
        while (begun < threads) {
            self->index = begun++;
            self->thread = emulated_thread = next_thread;
            advance_thread();
            kernel_body(kernel_argument);
            returned++;
        }
        list_push(&unused, self);
        go_to(next_ready());
    }
}

static struct fiber *fiber_make(void) {
    struct fiber *fiber = calloc(1, sizeof *fiber);
    char *memory = mmap(NULL, GUARD + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!fiber || memory == MAP_FAILED || mprotect(memory, GUARD, PROT_NONE)) {
        perror("a stack for an emulated thread");
        abort();
    }
    fiber->stack = memory + GUARD;
    fiber->bytes = STACK_BYTES;
#ifdef USE_UCONTEXT
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = fiber->bytes;
    makecontext(&fiber->context, fiber_main, 0);
#else
    void (**top)(void) = (void (**)(void))(void *)(memory + GUARD + STACK_BYTES);
    top[-2] = fiber_main; /* where the switch returns to, with the stack as after a call; below it, six registers */
    fiber->place = top - 8;
#endif
#ifdef __SANITIZE_THREAD__
    fiber->watched = __tsan_create_fiber(0);
#endif
    return fiber;
}

static struct fiber *fiber_take(void) {
    struct fiber *fiber = list_pop(&unused);
    return fiber ? fiber : fiber_make();
}

/* ---- Waiting ---- */

static void wait_in(struct group *group, enum emulated_place place, int line, emulated_work *work) {
    if (!group->arrived) {
        group->place = place;
        group->line = line;
    } else if (group->place != place || group->line != line) {
        print_block();
        fprintf(stderr, "threads wait in line %d while others are at ", line);
        print_place(group);
        fputc('\n', stderr);
        abort();
    }
    if (++group->arrived < group->size) {
        struct fiber *self = running;
        list_push(&group->waiting, self);
        go_to(begun < threads ? fiber_take() : next_ready());
        emulated_thread = self->thread;
        return;
    }
    if (work) {
        work(group->given, group->size);
    }
    group->arrived = 0;
    list_append(&ready, group->waiting);
    group->waiting = (struct list){NULL, NULL};
}

unsigned emulated_lane(void) {
    return running->index % EMULATED_WARP;
}

void emulate_barrier(int line) {
    wait_in(&block, AT_BARRIER, line, NULL);
}

void emulate_meeting(enum emulated_place place, int line, void *given, emulated_work *work) {
    struct group *warp = &warps[running->index / EMULATED_WARP];
    warp->given[emulated_lane()] = given;
    wait_in(warp, place, line, work);
}

/* ---- Launches ---- */

static void run_block(size_t shared_bytes) {
    memset(emulated_shared, 0xFF, shared_bytes); /* NaNs of any type */
    begun = returned = 0;
    next_thread = (uint3){0, 0, 0};
    go_to(fiber_take());
}

static void run_blocks(size_t shared_bytes) {
    block.size = threads;
    for (unsigned i = 0; i * EMULATED_WARP < threads; i++) {
        const unsigned rest = threads - i * EMULATED_WARP;
        warps[i].size = rest < EMULATED_WARP ? rest : EMULATED_WARP;
    }
    for (emulated_block.z = 0; emulated_block.z < emulated_grid.z; emulated_block.z++) {
        for (emulated_block.y = 0; emulated_block.y < emulated_grid.y; emulated_block.y++) {
            for (emulated_block.x = 0; emulated_block.x < emulated_grid.x; emulated_block.x++) {
                run_block(shared_bytes);
            }
        }
    }
}

static bool is_possible(dim3 grid, dim3 wanted) {
    const uint64_t count = (uint64_t)wanted.x * wanted.y * wanted.z;
    return grid.x && grid.y && grid.z && grid.x <= INT32_MAX && grid.y <= MOST_BLOCKS && grid.z <= MOST_BLOCKS && count &&
           count <= MOST_THREADS && wanted.z <= 64;
}

static cudaError_t launch(const char *kernel, dim3 grid, dim3 wanted, size_t shared_bytes) {
    const cudaError_t code = emulated_answer(kernel);
    if (code != cudaSuccess) {
        return code;
    }
    if (!is_possible(grid, wanted)) {
        return cudaErrorInvalidConfiguration;
    }
    if (shared_bytes > MOST_SHARED) {
        return cudaErrorInvalidValue;
    }
    if (posix_memalign(&emulated_shared, 128, shared_bytes ? shared_bytes : 1)) {
        abort();
    }
    kernel_name = kernel;
    emulated_grid = grid;
    emulated_threads = wanted;
    threads = wanted.x * wanted.y * wanted.z;
#ifdef __SANITIZE_THREAD__
    caller.watched = __tsan_get_current_fiber();
#endif
    run_blocks(shared_bytes);
    free(emulated_shared);
    return cudaSuccess;
}

cudaError_t emulate_launch(const char *kernel, dim3 grid, dim3 wanted, size_t shared_bytes, void (*body)(const void *),
                           const void *argument) {
    pthread_mutex_lock(&launching);
    kernel_body = body;
    kernel_argument = argument;
    const cudaError_t code = launch(kernel, grid, wanted, shared_bytes);
    pthread_mutex_unlock(&launching);
    return code;
}
