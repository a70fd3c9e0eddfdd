/* Looks like cuDNN, with the version and the functions that a test wants: FAKE_VERSION, and all but one if FAKE_LACKS is defined.
 */
#include <stddef.h>

#define FUNCTION(name)                                                                                                             \
    __attribute__((visibility("default"))) int name(void);                                                                         \
    int name(void) {                                                                                                               \
        return 0;                                                                                                                  \
    }

__attribute__((visibility("default"))) size_t cudnnGetVersion(void);

size_t cudnnGetVersion(void) {
    return FAKE_VERSION;
}

FUNCTION(cudnnCreate)
FUNCTION(cudnnDestroy)
FUNCTION(cudnnSetStream)
FUNCTION(cudnnGetErrorString)
FUNCTION(cudnnBackendCreateDescriptor)
FUNCTION(cudnnBackendDestroyDescriptor)
FUNCTION(cudnnBackendFinalize)
FUNCTION(cudnnBackendSetAttribute)
FUNCTION(cudnnBackendGetAttribute)
#ifndef FAKE_LACKS
FUNCTION(cudnnBackendExecute)
#endif
