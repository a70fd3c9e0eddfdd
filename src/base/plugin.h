/* Devices that a plug-in brings. The base library needs none of their libraries: it looks for libl3a-NAME.so when a context asks
 * for the device NAME, next to itself or in the folder L3A_PLUGIN_PATH, never in the current folder.
 *
 * A plug-in shares the private structs of the library, so both must come from the same version. It exports one function,
 * l3a_plugin_NAME(version), which returns NULL for a version other than its own. It uses nothing of the library but the functions
 * in struct plugin_host, and files that are compiled into both. */
#ifndef L3A_PLUGIN_H
#define L3A_PLUGIN_H

#include "base/context.h"
#include "base/matrix.h"
#include "base/threads.h"

/* How often struct algebra, struct network_back_end, a struct that they name or one of this file has changed since the version. */
enum { PLUGIN_CHANGES = 0, PLUGIN_VERSION = L3A_VERSION_NUMBER * 100 + PLUGIN_CHANGES };

struct plugin_host {
    __attribute__((format(printf, 4, 5)))
    l3a_status (*fail)(l3a_context *context, l3a_status status, const char *hint, const char *format, ...);
    l3a_status (*allocate)(l3a_context *context, size_t count, size_t size, void *memory);
    void (*release)(l3a_context *context, void *memory);
    void (*copy)(const l3a_context *context, void *to, const void *from, size_t bytes); /* memcpy() on all threads of the context */
    void (*loop)(int threads, size_t count, size_t grain, loop_body *body, void *argument); /* base/threads.h */
    int (*use_threads)(int threads);
    void (*multiply)(int threads, real type, bool transpose_a, bool transpose_b, size_t m, size_t n, size_t inner, double scale,
                     const void *a, size_t a_stride, const void *b, size_t b_stride, double keep, void *c,
                     size_t c_stride); /* base/matrix.h */
};

struct l3a_plugin {
    const struct algebra *algebra;
    const struct network_back_end *network; /* NULL: it has none */
    /* Opens a device, by its number from 0, for the objects of a context. Nothing is left behind if it fails. */
    l3a_status (*open)(l3a_context *context, const struct plugin_host *host, int number, void **device);
    void (*close)(l3a_context *context, void *device);
    /* What the device is: "NVIDIA H200, 139.8 GiB, …". */
    l3a_status (*describe)(l3a_context *context, const struct plugin_host *host, int number, char *text, size_t capacity);
    /* Bytes of the device's memory that the context can still take, within its options' device_memory_limit. */
    l3a_status (*memory)(l3a_context *context, uint64_t *available);
};

/* What every plug-in exports; it returns a struct l3a_plugin, cluster_plugin or figure_plugin. */
typedef const void *plugin_entry(uint32_t version);

/* Where a process is among those that were started together. */
struct cluster_place {
    size_t process, processes;
    size_t local, locals; /* the same among those on its machine */
    int processors;       /* that it can use without disturbing them */
};

/* Called again and again while a process waits for others. Waiting ends if it returns true. */
typedef bool cluster_idle(void *user);

/* The plug-in libl3a-mpi.so, whose entry returns this: how processes find each other and sum. Functions that return int return 0 on
 * success. */
struct cluster_plugin {
    l3a_status (*open)(l3a_context *context, const struct plugin_host *host, struct cluster_place *place, void **cluster);
    int (*sum)(void *cluster, void *values, size_t count, l3a_sum_type type, cluster_idle *idle, void *user);
    /* The lowest number of a process that failed; the number of processes if none did; -1 if the seconds have passed before all
     * were here. */
    int (*end)(void *cluster, bool failed, double seconds);
    void (*abort)(void *cluster, int code);
    void (*close)(l3a_context *context, void *cluster);
    /* Gives a context sums that the processes hold together, its shared_algebra. NULL: the plug-in has none. */
    l3a_status (*share)(l3a_context *context, const struct plugin_host *host, void *cluster);
    void (*unshare)(l3a_context *context);
};

/* Loads the plug-in. */
l3a_status cluster_load(l3a_context *context, const struct cluster_plugin **plugin);
extern const struct plugin_host plugin_host;

enum figure_format { FIGURE_SVG, FIGURE_PDF, FIGURE_PNG };

/* The plug-in libl3a-figure.so: drawings in SVG as a page of PDF or as pixels. */
struct figure_plugin {
    /* The caller releases *bytes. */
    l3a_status (*convert)(l3a_context *context, const struct plugin_host *host, enum figure_format format, const char *title,
                          const char *svg, size_t svg_length, char **bytes, size_t *length);
};

l3a_status figure_load(l3a_context *context, const struct figure_plugin **plugin);
/* Whether the processes that the context works with can hold sums together. */
bool cluster_can_share(const l3a_context *context);
/* Gives the context a shared_algebra, if it has none yet. Every process calls this. */
l3a_status cluster_share(l3a_context *context);
/* Accepts a context without one. */
void cluster_unshare(l3a_context *context);

/* Gives the context the back end of its options.device. If this fails, the context's text says why the device cannot be used. With
 * "auto" it does not fail for want of a device: a note says what is used. */
l3a_status device_open(l3a_context *context);
/* Accepts a context without a device. */
void device_close(l3a_context *context);
/* For a context that is still choosing: takes the processor instead, and says why in a note. */
__attribute__((format(printf, 2, 3))) void device_leave(l3a_context *context, const char *format, ...);
/* Bytes of the device's memory that the context can still take; without a device, UINT64_MAX. */
l3a_status device_memory(l3a_context *context, uint64_t *available);

#endif
