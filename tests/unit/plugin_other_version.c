/* A plug-in that knows no version of the library. */
#include <stddef.h>
#include <stdint.h>

__attribute__((visibility("default"))) const void *l3a_plugin_cuda(uint32_t version) {
    (void)version;
    return NULL;
}
