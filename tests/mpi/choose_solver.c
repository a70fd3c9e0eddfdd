/* With solver auto, processes hold the sums together if one of them has too little memory for all of them. */
#include "l3a/l3a.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 4, ROWS = 6 };

static l3a_cluster *cluster;
static size_t notes;

#define CHECK(condition, text)                                                                                                     \
    do {                                                                                                                           \
        if (!(condition)) {                                                                                                        \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, text);                                                      \
            l3a_cluster_abort(cluster, 1);                                                                                         \
            return 1;                                                                                                              \
        }                                                                                                                          \
    } while (0)

static int count_notes(const l3a_event *event, void *user) {
    (void)user;
    notes += event->kind == L3A_EVENT_NOTE;
    return 0;
}

/* The solver of a model that is created and learns, where the last process has that much memory. */
static int check_solver(const char *dim, const char *chosen, uint64_t memory, const char *wanted) {
    static const char *const classes[] = {"one", "two"};
    const float features[ROWS * WIDTH] = {1, 0, 0, 2, 0, 1, 3, 0, 1, 1};
    const int8_t labels[ROWS * 2] = {1, 0, 0, 1, 1, 1};
    l3a_context_options with = {.size = sizeof with, .threads = 1, .on_event = count_notes};
    l3a_context *context = NULL;
    l3a_options *options = NULL;
    l3a_model *model = NULL;
    char text[32] = "";
    CHECK(l3a_cluster_join(cluster, &with) == L3A_OK, "join");
    with.memory_limit = with.process + 1 == with.processes ? memory : UINT64_C(1) << 30;
    with.divide = 0; /* each process has rows of its own */
    CHECK(l3a_context_create(&with, &context) == L3A_OK, "context");
    CHECK(l3a_options_create(context, &options) == L3A_OK, l3a_error_text(context));
    CHECK(l3a_options_set(context, options, "dim", dim) == L3A_OK, l3a_error_text(context));
    CHECK(l3a_options_set(context, options, "solver", chosen) == L3A_OK, l3a_error_text(context));
    CHECK(l3a_options_set(context, options, "block", "8") == L3A_OK, l3a_error_text(context));
    notes = 0;
    CHECK(l3a_model_create(context, WIDTH, options, &model) == L3A_OK, l3a_error_text(context));
    CHECK(l3a_model_options(model, options) == L3A_OK, l3a_error_text(context));
    l3a_options_get(options, "solver", text, sizeof text);
    CHECK(strcmp(text, wanted) == 0, text);
    CHECK(notes == (strcmp(text, chosen) != 0), "one note if something was chosen");
    CHECK(l3a_phase_begin(model, classes, 2) == L3A_OK, l3a_error_text(context));
    CHECK(l3a_phase_count(model, labels, ROWS) == L3A_OK, l3a_error_text(context));
    CHECK(l3a_phase_learn(model, features, labels, ROWS) == L3A_OK, l3a_error_text(context));
    CHECK(l3a_phase_end(model) == L3A_OK, l3a_error_text(context));
    l3a_model_free(model);
    l3a_options_free(options);
    l3a_context_free(context);
    return 0;
}

int main(void) {
    l3a_context *context = NULL;
    const uint64_t mebibyte = 1 << 20;
    CHECK(l3a_context_create(NULL, &context) == L3A_OK, "context");
    CHECK(l3a_cluster_open(context, &cluster) == L3A_OK, l3a_error_text(context));
    int code = check_solver("3000", "auto", 1024 * mebibyte, "auto");
    code = code ? code : check_solver("3000", "auto", 66 * mebibyte, "scalapack");
    code = code ? code : check_solver("100", "scalapack", 1024 * mebibyte, "scalapack");
    code = code ? code : check_solver("3000", "sums", 1024 * mebibyte, "sums");
    l3a_cluster_end(cluster, code);
    l3a_cluster_free(cluster);
    l3a_context_free(context);
    return code;
}
