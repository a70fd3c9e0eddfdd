/* The plug-in for MPI: processes that mpirun or srun started together.
 *
 * A sum over processes is a reduction to process 0 and a broadcast, so that every process gets the same bits whatever algorithms
 * MPI chooses. Before it, processes wait for each other without keeping a processor busy: one that has more to do, such as the one
 * that solves for all, can use the processors of those that wait. */
#include "base/plugin.h"

#ifdef L3A_HAVE_SCALAPACK
#include "algebra/scalapack/scalapack.h"
#endif

#include <mpi.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGEST = 1 << 27 }; /* numbers in a call, which count in an int */

struct cluster {
    MPI_Comm sums, ends; /* an end may come while others sum */
    int process, processes;
};

/* Whether MPI did what it was asked to. */
static bool done(int code) {
    return code == MPI_SUCCESS;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Waits until a request is complete, the seconds have passed, or it is told to stop; true if it is complete. */
static bool wait_for(MPI_Request *request, double seconds, cluster_idle *idle, void *user) {
    enum { BUSY = 100, SHORTEST = 20 * 1000, LONGEST = 1000 * 1000 };
    const double end = now() + seconds;
    struct timespec pause = {0, SHORTEST};
    int complete = 0;
    for (size_t tries = 0;; tries++) {
        if (!done(MPI_Test(request, &complete, MPI_STATUS_IGNORE)) || complete || now() > end || (idle && idle(user))) {
            return complete;
        }
        if (tries < BUSY) {
            sched_yield();
        } else {
            nanosleep(&pause, NULL);
            pause.tv_nsec = pause.tv_nsec < LONGEST ? pause.tv_nsec + SHORTEST : LONGEST;
        }
    }
}

static int sum(void *held, void *values, size_t count, l3a_sum_type type, cluster_idle *idle, void *user) {
    const struct cluster *cluster = held;
    const MPI_Datatype number = type == L3A_SUM_FLOAT64 ? MPI_DOUBLE : MPI_UINT64_T;
    MPI_Request request;
    if (!done(MPI_Ibarrier(cluster->sums, &request)) || !wait_for(&request, 1e300, idle, user)) {
        return 1;
    }
    for (size_t first = 0; first < count; first += LARGEST) {
        const int n = count - first < LARGEST ? (int)(count - first) : LARGEST;
        char *at = (char *)values + first * sizeof(double);
        const void *own = cluster->process == 0 ? MPI_IN_PLACE : at;
        if (!done(MPI_Reduce(own, at, n, number, MPI_SUM, 0, cluster->sums)) || !done(MPI_Bcast(at, n, number, 0, cluster->sums))) {
            return 1;
        }
    }
    return 0;
}

static int end(void *held, bool failed, double seconds) {
    struct cluster *cluster = held;
    int own = failed ? cluster->process : cluster->processes, first = -1;
    MPI_Request request;
    const bool all =
        done(MPI_Iallreduce(&own, &first, 1, MPI_INT, MPI_MIN, cluster->ends, &request)) && wait_for(&request, seconds, NULL, NULL);
    return all ? first : -1;
}

static void abort_all(void *held, int code) {
    const struct cluster *cluster = held;
    MPI_Abort(cluster->sums, code);
}

static void close_cluster(l3a_context *context, void *held) {
    (void)context;
    free(held);
    MPI_Finalize();
}

/* The processors of this process, if it has them for itself, or else its share of those of all processes on this machine. */
static int own_processors(MPI_Comm machine, int locals) {
    cpu_set_t own, all;
    long counts[2] = {0, 0};
    if (sched_getaffinity(0, sizeof own, &own)) {
        return 1;
    }
    counts[0] = CPU_COUNT(&own);
    MPI_Allreduce(&own, &all, (int)sizeof all, MPI_BYTE, MPI_BOR, machine);
    MPI_Allreduce(&counts[0], &counts[1], 1, MPI_LONG, MPI_SUM, machine);
    const int share = CPU_COUNT(&all) / locals;
    return counts[1] <= CPU_COUNT(&all) ? (int)counts[0] : share ? share : 1;
}

static l3a_status open_cluster(l3a_context *context, const struct plugin_host *host, struct cluster_place *place, void **held) {
    struct cluster *made = calloc(1, sizeof *made);
    MPI_Comm machine;
    int level, began = 0, local, locals;
    if (!made) {
        return host->fail(context, L3A_ERROR_MEMORY, NULL, "out of memory");
    }
    MPI_Initialized(&began);
    if (began || !done(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level))) {
        free(made);
        return host->fail(context, L3A_ERROR_STATE, "join once; a program with a communicator of its own passes a sum callback",
                          "MPI %s", began ? "has already been started" : "could not be started");
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &made->sums);
    MPI_Comm_dup(MPI_COMM_WORLD, &made->ends);
    MPI_Comm_set_errhandler(made->sums, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(made->ends, MPI_ERRORS_RETURN);
    MPI_Comm_rank(made->sums, &made->process);
    MPI_Comm_size(made->sums, &made->processes);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &local);
    MPI_Comm_size(machine, &locals);
    *place = (struct cluster_place){.process = (size_t)made->process,
                                    .processes = (size_t)made->processes,
                                    .local = (size_t)local,
                                    .locals = (size_t)locals,
                                    .processors = own_processors(machine, locals)};
    MPI_Comm_free(&machine);
    *held = made;
    return L3A_OK;
}

#ifdef L3A_HAVE_SCALAPACK
static l3a_status share(l3a_context *context, const struct plugin_host *host, void *held) {
    return scalapack_open(context, host, ((const struct cluster *)held)->sums, 0);
}
#else
#define share NULL
#define scalapack_close NULL
#endif

static const struct cluster_plugin plugin = {.open = open_cluster,
                                             .sum = sum,
                                             .end = end,
                                             .abort = abort_all,
                                             .close = close_cluster,
                                             .share = share,
                                             .unshare = scalapack_close};

L3A_PUBLIC plugin_entry l3a_plugin_mpi;

const void *l3a_plugin_mpi(uint32_t version) {
    return version == PLUGIN_VERSION ? &plugin : NULL;
}
