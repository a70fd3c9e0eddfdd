#include "fixture.h"

#include "support.h"

#include <string.h>

l3a_context *context;
char *folder;

int open_fixture(void **state) {
    (void)state;
    context = make_context(1);
    folder = make_temporary_folder();
    return 0;
}

int close_fixture(void **state) {
    (void)state;
    l3a_context_free(context);
    remove_folder(folder);
    return 0;
}

void put(const char *name, const char *text) {
    put_file(folder, name, text, strlen(text));
}
