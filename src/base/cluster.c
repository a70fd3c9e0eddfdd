/* Processes that were started together. What launchers leave in the environment says whether there are several; the plug-in for MPI
 * then brings them together. */
#include "base/machine.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "base/sized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double patience = 2; /* seconds that a process that failed waits for the others */

struct l3a_cluster {
    l3a_context *context;
    const struct cluster_plugin *plugin; /* NULL: this process is alone */
    void *held;                          /* the plug-in's */
    struct cluster_place place;
    l3a_event_callback *on_event; /* of the context that joined */
    void *event_user;
    char device[32];
};

/* A number in the environment; `missing` if there is none. */
static size_t number_in(const char *name, size_t missing) {
    const char *text = getenv(name);
    char *end = NULL;
    const unsigned long long number = text ? strtoull(text, &end, 10) : 0;
    return text && end != text && !*end ? (size_t)number : missing;
}

size_t l3a_cluster_started(size_t *process) {
    static const char *const launchers[][2] = {
        {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"}, {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
    size_t processes = 0;
    if (!process) {
        return 0;
    }
    *process = 0;
    if (number_in("L3A_ALONE", 0)) {
        return 1;
    }
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0] && !processes; i++) {
        processes = number_in(launchers[i][1], SIZE_MAX) < SIZE_MAX ? number_in(launchers[i][0], 0) : 0;
        *process = processes ? number_in(launchers[i][1], 0) : 0;
    }
    if (!processes && number_in("PMIX_RANK", SIZE_MAX) < SIZE_MAX && getenv("PMIX_NAMESPACE")) {
        *process = number_in("PMIX_RANK", 0);
        return 0;
    }
    return processes ? processes : 1;
}

l3a_status l3a_cluster_open(l3a_context *context, l3a_cluster **cluster) {
    l3a_status status = L3A_OK;
    l3a_cluster *made = NULL;
    size_t process;
    NEED(context, context, cluster);
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->place = (struct cluster_place){.processes = 1, .locals = 1};
    if (l3a_cluster_started(&process) != 1) {
        TRY(cluster_load(context, &made->plugin));
        TRY(made->plugin->open(context, &plugin_host, &made->place, &made->held));
    }
    *cluster = made;
    made = NULL;
done:
    release(context, made);
    return status;
}

size_t l3a_cluster_locals(const l3a_cluster *cluster) {
    return cluster ? cluster->place.locals : 0;
}

void l3a_cluster_free(l3a_cluster *cluster) {
    if (cluster) {
        if (cluster->plugin) {
            cluster->plugin->close(cluster->context, cluster->held);
        }
        release(cluster->context, cluster);
    }
}

static bool idle(void *user) {
    const l3a_cluster *cluster = user;
    const l3a_event event = {.kind = L3A_EVENT_PROGRESS, .stage = "share", .text = ""};
    return cluster->on_event && cluster->on_event(&event, cluster->event_user);
}

static int sum(void *values, size_t count, l3a_sum_type type, void *user) {
    l3a_cluster *cluster = user;
    return cluster->plugin->sum(cluster->held, values, count, type, idle, cluster);
}

/* The cluster that a context has joined, or NULL. */
static const l3a_cluster *cluster_of(const l3a_context *context) {
    return context->options.sum == sum ? context->options.sum_user : NULL;
}

bool cluster_can_share(const l3a_context *context) {
    const l3a_cluster *cluster = cluster_of(context);
    return cluster && cluster->plugin->share;
}

l3a_status cluster_share(l3a_context *context) {
    const l3a_cluster *cluster = cluster_of(context);
    l3a_status status = L3A_OK;
    FAIL_IF(!cluster, context, L3A_ERROR_OPTION, "start several processes with mpirun, or use solver sums",
            "solver scalapack needs several processes that mpirun or srun started together");
    FAIL_IF(!cluster->plugin->share, context, L3A_ERROR_OPTION,
            "build the plug-in libl3a-mpi.so where ScaLAPACK is installed, or use solver sums",
            "solver scalapack: the plug-in for MPI was built without ScaLAPACK");
    if (!context->shared) {
        TRY(cluster->plugin->share(context, &plugin_host, cluster->held));
        context->sharing = cluster->plugin;
    }
done:
    return status;
}

void cluster_unshare(l3a_context *context) {
    if (context->sharing) {
        context->sharing->unshare(context);
        context->sharing = NULL;
    }
}

/* Gives each process on a machine a device of its own, as long as there are enough. */
static void choose_device(l3a_cluster *cluster, l3a_context_options *options) {
    char text[256];
    size_t count = 0;
    const bool automatic = options->device && strcmp(options->device, "auto") == 0;
    if (!options->device || (!automatic && strcmp(options->device, "cuda") != 0)) {
        return;
    }
    for (bool there = true; there && count <= cluster->place.local; count += there) {
        snprintf(cluster->device, sizeof cluster->device, "cuda:%zu", count);
        there = l3a_device_describe(cluster->context, cluster->device, text, sizeof text) == L3A_OK;
    }
    if (count) {
        snprintf(cluster->device, sizeof cluster->device, "%s:%zu", automatic ? "auto" : "cuda", cluster->place.local % count);
        options->device = cluster->device;
    }
}

/* The processors of all processes on this machine, as far as this process may run on them. */
static uint64_t lead_threads(const struct cluster_place *place, int threads) {
    const uint64_t all = (uint64_t)threads * place->locals, allowed = (uint64_t)machine_processors();
    return all < allowed ? all : allowed > (uint64_t)threads ? allowed : (uint64_t)threads;
}

l3a_status l3a_cluster_join(l3a_cluster *cluster, l3a_context_options *options) {
    REQUIRE(cluster, cluster, options);
    const struct cluster_place *place = &cluster->place;
    l3a_context_options own;
    l3a_status status = L3A_OK;
    TRY(READ_SIZED(cluster->context, options, own));
    if (cluster->plugin && place->processes > 1) {
        cluster->on_event = own.on_event;
        cluster->event_user = own.event_user;
        own.sum = sum;
        own.sum_user = cluster;
        own.process = place->process;
        own.processes = place->processes;
        own.divide = 1;
        own.threads = own.threads ? own.threads : place->processors;
        own.lead_threads = own.lead_threads ? own.lead_threads : lead_threads(place, own.threads);
        own.memory_limit = own.memory_limit ? own.memory_limit : machine_memory_available() / place->locals;
        choose_device(cluster, &own);
    }
    own.size = options->size;
    TRY(WRITE_SIZED(cluster->context, options, own));
done:
    return status;
}

int l3a_cluster_end(l3a_cluster *cluster, int failed) {
    if (!cluster) {
        return 0;
    }
    return cluster->plugin ? cluster->plugin->end(cluster->held, failed != 0, failed ? patience : 1e300) : failed ? 0 : 1;
}

void l3a_cluster_abort(l3a_cluster *cluster, int code) {
    if (cluster && cluster->plugin && cluster->place.processes > 1) {
        cluster->plugin->abort(cluster->held, code);
    }
}
