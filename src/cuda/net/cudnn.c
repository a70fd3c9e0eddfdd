/* Finds cuDNN. It stays loaded until the process ends, as the plug-in does. */
#include "cuda/net/cudnn.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(number) #number
#define LIBRARY_OF(major) "libcudnn.so." TEXT_OF(major)

static const char library_name[] = LIBRARY_OF(CUDNN_MAJOR);

const struct cudnn_functions *cudnn_find(char *text, size_t capacity) {
    static struct cudnn_functions functions;
    static const struct {
        const char *name;
        void *place;
    } wanted[] = {{"cudnnGetVersion", &functions.version},
                  {"cudnnCreate", &functions.create},
                  {"cudnnDestroy", &functions.destroy},
                  {"cudnnSetStream", &functions.set_stream},
                  {"cudnnGetErrorString", &functions.text},
                  {"cudnnBackendCreateDescriptor", &functions.make},
                  {"cudnnBackendDestroyDescriptor", &functions.drop},
                  {"cudnnBackendFinalize", &functions.finish},
                  {"cudnnBackendSetAttribute", &functions.set},
                  {"cudnnBackendGetAttribute", &functions.get},
                  {"cudnnBackendExecute", &functions.execute}};
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        snprintf(text, capacity, "cuDNN %d is missing: %s", CUDNN_MAJOR, dlerror());
        return NULL;
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = dlsym(library, wanted[i].name);
        if (!found) {
            snprintf(text, capacity, "%s has no %s()", library_name, wanted[i].name);
            return NULL;
        }
        memcpy(wanted[i].place, &found, sizeof found); /* threads write the same */
    }
    if (functions.version() / 10000 != CUDNN_MAJOR) {
        snprintf(text, capacity, "%s is of version %zu, not of cuDNN %d", library_name, functions.version(), CUDNN_MAJOR);
        return NULL;
    }
    return &functions;
}
