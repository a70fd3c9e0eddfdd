#include "base/plugin.h"

#include "base/memory.h"
#include "base/threads.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_LIMIT = 4096, NAME_LIMIT = 16, MOST_DEVICES = 1000 };

/* A statically linked program could only load what was built for the very C library that it contains. */
#ifdef L3A_STATIC
enum { CAN_LOAD = 0 };
#else
enum { CAN_LOAD = 1 };
#endif

static void copy_bytes(const l3a_context *context, void *to, const void *from, size_t bytes) {
    parallel_copy(context->threads, to, from, bytes);
}

const struct plugin_host plugin_host = {fail, allocate, release, copy_bytes, parallel_for, threads_use, matrix_multiply};

/* "cuda:1" is a kind and a number. */
struct device_name {
    char kind[NAME_LIMIT];
    int number;
};

static bool is_processor(const char *name) {
    return !name || !strcmp(name, "cpu");
}

/* Also "auto:1", which a process that is not the first on its machine gets (cluster.c). */
static bool is_automatic(const char *name) {
    const char *number = name && !strncmp(name, "auto", 4) ? name + 4 : NULL;
    return number && (!number[0] || (number[0] == ':' && number[1] && !number[1 + strspn(number + 1, "0123456789")]));
}

static l3a_status read_name(l3a_context *context, const char *text, struct device_name *name) {
    l3a_status status = L3A_OK;
    const size_t length = strcspn(text, ":");
    char *end = NULL;
    *name = (struct device_name){.number = 0};
    FAIL_IF(length != 4 || memcmp(text, "cuda", 4) != 0, context, L3A_ERROR_OPTION, "use auto, cpu, cuda or cuda:N",
            "device: there is no '%.40s'", text);
    memcpy(name->kind, text, length);
    if (text[length]) {
        const long number = strtol(text + length + 1, &end, 10);
        FAIL_IF(text[length + 1] < '0' || text[length + 1] > '9' || *end || number > MOST_DEVICES, context, L3A_ERROR_OPTION,
                "use cuda for the first device, or cuda:1 for the second", "device: '%.40s' has no number of a device", text);
        name->number = (int)number;
    }
done:
    return status;
}

/* The folder of the file that this function is in, the library or a program that contains it. */
static bool own_folder(char *folder, size_t capacity) {
    Dl_info info;
    char *path = dladdr((const void *)&plugin_host, &info) && info.dli_fname ? realpath(info.dli_fname, NULL) : NULL;
    char *slash = path ? strrchr(path, '/') : NULL;
    const bool fits = slash && (size_t)(slash - path) < capacity;
    if (fits) {
        snprintf(folder, capacity, "%.*s", (int)(slash - path), path);
    }
    free(path);
    return fits;
}

/* Where plug-ins are, below the folder of the library; "" if they are beside it. */
#ifndef L3A_PLUGIN_FOLDER
#define L3A_PLUGIN_FOLDER ""
#endif

static l3a_status find_plugin(l3a_context *context, const char *kind, char *path, size_t capacity) {
    l3a_status status = L3A_OK;
    char folder[PATH_LIMIT];
    const char *given = secure_getenv("L3A_PLUGIN_PATH");
    FAIL_IF(!CAN_LOAD, context, L3A_ERROR_NOT_FOUND,
            "use the shared build of l3a for GPUs, clusters, and figures in PDF and PNG; L3A_ALONE=1 tells processes that mpirun "
            "started to work alone",
            "plug-in %s: this is the static build, which has no plug-ins", kind);
    FAIL_IF(given && given[0] != '/', context, L3A_ERROR_OPTION, "set it to the full path of the folder that has the plug-ins",
            "L3A_PLUGIN_PATH: '%.200s' is not an absolute path", given);
    FAIL_IF(!given && !own_folder(folder, sizeof folder), context, L3A_ERROR_NOT_FOUND,
            "set L3A_PLUGIN_PATH to the folder that has the plug-ins", "plug-in %s: the library's own folder is unknown", kind);
    const int length = snprintf(path, capacity, "%s%s/libl3a-%s.so", given ? given : folder, given ? "" : L3A_PLUGIN_FOLDER, kind);
    FAIL_IF(length < 0 || (size_t)length >= capacity, context, L3A_ERROR_OPTION, NULL, "plug-in %s: the path is too long", kind);
done:
    return status;
}

/* Without NVIDIA's driver, its libraries are not worth loading. */
static l3a_status check_driver(l3a_context *context, const char *kind) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!driver) {
        return fail(context, L3A_ERROR_DEVICE, "install NVIDIA's driver, or use the processor",
                    "device %s: there is no NVIDIA driver: %s", kind, dlerror());
    }
    dlclose(driver);
    return L3A_OK;
}

/* The plug-in stays loaded until the process ends: the libraries that it brings do not survive being unloaded. user: who needs it,
 * for messages. */
static l3a_status load_plugin(l3a_context *context, const char *kind, const char *user, const char *hint, const void **plugin) {
    l3a_status status = L3A_OK;
    char path[PATH_LIMIT + 32], symbol[NAME_LIMIT + 16];
    plugin_entry *entry = NULL;
    void *library = NULL, *found = NULL;
    TRY(find_plugin(context, kind, path, sizeof path));
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    FAIL_IF(!library, context, L3A_ERROR_NOT_FOUND, hint, "%s: cannot load the plug-in: %s", user, dlerror());
    snprintf(symbol, sizeof symbol, "l3a_plugin_%s", kind);
    found = dlsym(library, symbol);
    FAIL_IF(!found, context, L3A_ERROR_FORMAT, "build the plug-in again", "%s: not a plug-in of this library: it has no %s()", path,
            symbol);
    memcpy(&entry, &found, sizeof entry);
    *plugin = entry(PLUGIN_VERSION);
    FAIL_IF(!*plugin, context, L3A_ERROR_VERSION, "build and install the library and its plug-ins together",
            "%s: the plug-in of another version; the library is version " L3A_VERSION, path);
done:
    if (library) {
        dlclose(library);
    }
    return status;
}

static l3a_status load_device(l3a_context *context, const char *kind, const struct l3a_plugin **plugin) {
    l3a_status status = L3A_OK;
    char path[PATH_LIMIT + 32], user[NAME_LIMIT + 16];
    const void *found = NULL;
    snprintf(user, sizeof user, "device %s", kind);
    TRY(find_plugin(context, kind, path, sizeof path));
    if (!access(path, R_OK)) { /* a missing driver says more than what the loader would */
        TRY(check_driver(context, kind));
    }
    TRY(load_plugin(
        context, kind, user,
        "install l3a-backend-cuda, build the plug-in with 'make cuda', or set L3A_PLUGIN_PATH to the folder that has it", &found));
    *plugin = found;
done:
    return status;
}

l3a_status cluster_load(l3a_context *context, const struct cluster_plugin **plugin) {
    const void *found = NULL;
    const l3a_status status =
        load_plugin(context, "mpi", "several processes were started together, and they need MPI",
                    "install l3a-backend-mpi, build the plug-in where Open MPI is installed, set L3A_PLUGIN_PATH to the folder "
                    "that has it, or set L3A_ALONE=1 if the processes have nothing to do with each other",
                    &found);
    *plugin = found;
    return status;
}

l3a_status figure_load(l3a_context *context, const struct figure_plugin **plugin) {
    const void *found = NULL;
    const l3a_status status =
        load_plugin(context, "figure", "figures in PDF and PNG",
                    "make figures in SVG, which need no plug-in; or install l3a-figures, or install librsvg2-dev and build the "
                    "plug-in, or set L3A_PLUGIN_PATH to the folder that has it",
                    &found);
    *plugin = found;
    return status;
}

l3a_status l3a_plugin_check(l3a_context *context, const char *name) {
    l3a_status status = L3A_OK;
    const void *found;
    char user[NAME_LIMIT + 16];
    NEED(context, context, name);
    const bool mpi = !strcmp(name, "mpi");
    FAIL_IF(!mpi && strcmp(name, "figure") != 0, context, L3A_ERROR_OPTION,
            "use mpi or figure; l3a_device_describe() knows about devices", "there is no plug-in '%.40s'", name);
    snprintf(user, sizeof user, "plug-in %s", name);
    TRY(load_plugin(context, name, user,
                    mpi ? "install l3a-backend-mpi, build the plug-in where libopenmpi-dev is installed, or set L3A_PLUGIN_PATH to "
                          "the folder that has it"
                        : "install l3a-figures, build the plug-in where librsvg2-dev is installed, or set L3A_PLUGIN_PATH to the "
                          "folder that has it",
                    &found));
done:
    return status;
}

static l3a_status open_named(l3a_context *context, const char *text) {
    l3a_status status = L3A_OK;
    struct device_name name;
    const struct l3a_plugin *plugin;
    TRY(read_name(context, text, &name));
    TRY(load_device(context, name.kind, &plugin));
    TRY(plugin->open(context, &plugin_host, name.number, &context->device));
    context->plugin = plugin;
    context->algebra = plugin->algebra;
    snprintf(context->device_name, sizeof context->device_name, "%s:%d", name.kind, name.number);
done:
    return status;
}

static l3a_status describe(l3a_context *context, const char *device, char *text, size_t capacity) {
    l3a_status status = L3A_OK;
    struct device_name name;
    const struct l3a_plugin *plugin;
    TRY(read_name(context, device, &name));
    TRY(load_device(context, name.kind, &plugin));
    TRY(plugin->describe(context, &plugin_host, name.number, text, capacity));
done:
    return status;
}

static void open_automatic(l3a_context *context, const char *number) {
    char device[32], text[256] = "";
    snprintf(device, sizeof device, "cuda%s", number);
    context->choosing = open_named(context, device) == L3A_OK;
    if (!context->choosing) {
        report_note(context, "no GPU is used: %s", context->error_text);
        context->error_text[0] = context->error_hint[0] = 0;
    } else if (describe(context, context->device_name, text, sizeof text) == L3A_OK) {
        report_note(context, "using %s: %s", context->device_name, text);
    }
}

l3a_status device_open(l3a_context *context) {
    const char *name = context->options.device;
    l3a_status status = L3A_OK;
    strcpy(context->device_name, "cpu");
    context->options.device = context->device_name;
    if (is_automatic(name)) {
        open_automatic(context, name + strlen("auto"));
    } else if (!is_processor(name)) {
        status = open_named(context, name);
    }
    return status;
}

void device_close(l3a_context *context) {
    if (context->plugin) {
        context->plugin->close(context, context->device);
    }
    context->plugin = NULL;
    context->device = NULL;
    context->algebra = NULL;
    context->choosing = false;
    strcpy(context->device_name, "cpu");
}

void device_leave(l3a_context *context, const char *format, ...) {
    char text[sizeof context->error_text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    device_close(context);
    report_note(context, "no GPU is used: %s", text);
}

l3a_status device_memory(l3a_context *context, uint64_t *available) {
    *available = UINT64_MAX;
    return context->plugin ? context->plugin->memory(context, available) : L3A_OK;
}

l3a_status l3a_device_describe(l3a_context *context, const char *device, char *text, size_t capacity) {
    l3a_status status = L3A_OK;
    NEED(context, context, text);
    if (is_processor(device) || (is_automatic(device) && describe(context, "cuda", text, capacity) != L3A_OK)) {
        snprintf(text, capacity, "the processor, %d threads", context->threads);
    } else if (!is_automatic(device)) {
        TRY(describe(context, device, text, capacity));
    }
done:
    return status;
}
