/* cuDNN is looked for when it is needed, and whatever is wrong with it is a sentence: where it is missing, is of another version,
 * or lacks a function. Each is tried in a process of its own, because a library that is loaded stays. */
#include "support.h"

#ifdef L3A_CUDNN
#include "cuda/net/cudnn.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FOUND = 3, MISSING = 4, OTHER = 5, SKIPPED = 6 };

/* What is found once a library is loaded; NULL: none is. */
static int find_with(const char *name, const char *wanted) {
    char text[256] = "", path[4096];
    snprintf(path, sizeof path, "%s/%s/libcudnn.so.%d", getenv("L3A_TEST_PLUGINS"), name ? name : "", CUDNN_MAJOR);
    if (name && !dlopen(path, RTLD_NOW)) {
        fprintf(stderr, "%s\n", dlerror());
        return OTHER;
    }
    const struct cudnn_functions *found = cudnn_find(text, sizeof text);
    if (found) {
        return !name ? SKIPPED : found->version() / 10000 == CUDNN_MAJOR && cudnn_find(text, sizeof text) == found ? FOUND : OTHER;
    }
    if (!strstr(text, wanted)) {
        fprintf(stderr, "'%s' is not in '%s'\n", wanted, text);
    }
    return strstr(text, wanted) ? MISSING : OTHER;
}

static void check_with(const char *name, const char *wanted, int expected) {
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        _exit(find_with(name, wanted));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) {
        print_message("skipped: a machine without cuDNN (this one has it)\n");
        return;
    }
    assert_int_equal(WEXITSTATUS(status), expected);
}

static void what_is_wrong_is_said(void **state) {
    (void)state;
    check_with(NULL, "cuDNN 9 is missing: libcudnn.so.9: ", MISSING);
    check_with("cudnn", "", FOUND);
    check_with("cudnn_old", "libcudnn.so.9 is of version 8907, not of cuDNN 9", MISSING);
    check_with("cudnn_new", "libcudnn.so.9 is of version 100100, not of cuDNN 9", MISSING);
    check_with("cudnn_lacks", "libcudnn.so.9 has no cudnnBackendExecute()", MISSING);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_wrong_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    print_message("skipped: this build has no plug-in for CUDA, because the CUDA toolkit is not installed or L3A_CUDA is off\n");
    return 77;
}
#endif
