#include "support.h"

#include "fake_device.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fake_device_reset(struct fake_cuda *fake) {
    *fake = (struct fake_cuda){.driver = 13000, .devices = 1, .major = 9};
}

static struct fake_cuda *load(const char *folder) {
    char *fakes = path_in(folder, "fake_cuda"), *path = path_in(fakes, "libl3a-cuda.so");
    char *driver = path_in(folder, "driver/libcuda.so.1");
    struct fake_cuda *fake = NULL;
    if (access(path, R_OK) == 0) {
        assert_non_null(dlopen(driver, RTLD_NOW)); /* which the library looks for first */
        assert_int_equal(setenv("L3A_PLUGIN_PATH", fakes, 1), 0);
        void *plugin = dlopen(path, RTLD_NOW);
        assert_non_null(plugin);
        *(void **)&fake = dlsym(plugin, "l3a_fake_cuda");
        assert_non_null(fake);
        fake_device_reset(fake);
    }
    free(driver);
    free(path);
    free(fakes);
    return fake;
}

bool fake_device_load(struct fake_cuda **fake) {
    const char *device = getenv("L3A_TEST_DEVICE"), *plugins = getenv("L3A_TEST_PLUGINS");
    const bool real = device && !strcmp(device, "cuda");
    *fake = real ? NULL : load(plugins ? plugins : ".");
    if (!real && !*fake) {
        print_message(
            "skipped: this build has no plug-in for CUDA, because the CUDA toolkit is not installed or L3A_CUDA is off\n");
    }
    return real || *fake;
}
