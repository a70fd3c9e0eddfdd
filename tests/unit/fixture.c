#include "fixture.h"

#include "support.h"

#include <stdio.h>
#include <string.h>

l3a_context *context;
char *folder;
char warnings[4096];

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

static int keep_warning(const l3a_event *event, void *user) {
    (void)user;
    if (event->kind == L3A_EVENT_WARNING) {
        snprintf(warnings + strlen(warnings), sizeof warnings - strlen(warnings), "%s\n", event->text);
    }
    return 0;
}

void keep_warnings(void) {
    context->options.on_event = keep_warning;
    warnings[0] = '\0';
}

void put(const char *name, const char *text) {
    put_file(folder, name, text, strlen(text));
}
