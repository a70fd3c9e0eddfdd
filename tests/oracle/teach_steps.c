/* Teaches, takes back, leaves out, renames, forgets and merges, step by step, for test_teach.py, test_unlabelled.py and
 * test_expect.py to compare with NumPy.
 *
 *   teach_steps WIDTH setting=value … -- STEP …
 *
 * A step is  +FILE  to teach a feature file,  -FILE  to take it back,  =FILE  to save the model,  @FILE  to load it,  &FILE  to
 * merge a model,  ~OLD:NEW  to rename a class,  ^A,B  to forget classes,  ?FEATURES:FILE  to write the scores without each row as
 * float32,  !FEATURES:FILE  to write the scores as they are, or  %FEATURES:FILE  to write the shares without each class as float64.
 * *FEATURES:N  makes a table the unlabelled images, whose row i has the checksum N + i, and  *  removes them;  >FEATURES:N  and
 * <FEATURES:N  teach and take back images with such checksums, which then leave the unlabelled ones or return.
 * $FILE  writes the thresholds as float64. After each step that can say so, a line tells whether it was exact. */
#include "learn/model_change.h"
#include "learn/teach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static l3a_context *context;
static l3a_model *model;

static l3a_status teach(const char *path, int add) {
    l3a_features *features = NULL;
    l3a_teach_report report = {.size = sizeof report};
    l3a_status status = l3a_features_open(context, path, &features);
    if (status == L3A_OK) {
        status = add ? l3a_model_teach(model, features, &report) : l3a_model_unteach(model, features, &report);
    }
    if (status == L3A_OK) {
        printf("%d %zu %zu %.17g\n", report.exact, report.new_classes, report.parts, report.gamma);
    }
    l3a_features_free(features);
    return status;
}

/* Opens "FEATURES:N", and makes its checksums. */
static l3a_status open_numbered(char *text, l3a_features **features, uint64_t **checksums) {
    char *number = strchr(text, ':');
    *number++ = 0;
    const l3a_status status = l3a_features_open(context, text, features);
    const size_t rows = l3a_features_rows(*features);
    *checksums = calloc(rows + 1, sizeof **checksums);
    for (size_t i = 0; *checksums && i < rows; i++) {
        (*checksums)[i] = strtoull(number, NULL, 10) + i;
    }
    return *checksums ? status : L3A_ERROR_MEMORY;
}

static l3a_status set_unlabelled(char *text) {
    l3a_features *features = NULL;
    uint64_t *checksums = NULL;
    l3a_unlabelled_info info = {.size = sizeof info};
    l3a_status status = text[0] ? open_numbered(text, &features, &checksums) : L3A_OK;
    const l3a_unlabelled_options options = {.size = sizeof options, .checksums = checksums};
    if (status == L3A_OK) {
        status = l3a_model_set_unlabelled(model, features, &options);
    }
    if (status == L3A_OK && l3a_model_unlabelled(model, &info) == L3A_OK) {
        printf("%llu %llu %.17g\n", (unsigned long long)info.images, (unsigned long long)info.drawn_from, info.weight);
    }
    free(checksums);
    l3a_features_free(features);
    return status;
}

static l3a_status judge(char *text, bool back) {
    l3a_features *features = NULL;
    uint64_t *checksums = NULL;
    l3a_teach_report report = {.size = sizeof report};
    struct change change = {0};
    l3a_status status = open_numbered(text, &features, &checksums);
    const size_t rows = l3a_features_rows(features);
    float *values = malloc(rows * model_image(model) * sizeof *values + 1);
    if (status == L3A_OK) {
        status = values ? l3a_features_read(features, NULL, 0, rows, values) : L3A_ERROR_MEMORY;
    }
    if (status == L3A_OK) {
        status = change_begin(model, &change);
    }
    if (status == L3A_OK) {
        status = model_judge(model, checksums, values, rows, !back);
        if (status == L3A_OK) {
            status = model_teach_all(model, features, back ? -1 : 1, &report);
        }
        status = change_end(&change, status);
    }
    free(values);
    free(checksums);
    l3a_features_free(features);
    return status;
}

static l3a_status merge(const char *path) {
    l3a_model *other = NULL;
    int exact = 0;
    l3a_status status = l3a_model_load(context, path, &other);
    if (status == L3A_OK) {
        status = l3a_model_merge(model, other, &exact);
        printf("%d\n", exact);
    }
    l3a_model_free(other);
    return status;
}

static l3a_status rename_class(char *names) {
    char *to = strchr(names, ':');
    int exact = 0;
    *to++ = 0;
    const l3a_status status = l3a_model_rename(model, names, to, &exact);
    printf("%d\n", exact);
    return status;
}

static l3a_status forget_classes(char *names) {
    const char *classes[16];
    size_t count = 0;
    int exact = 0;
    for (char *name = strtok(names, ","); name && count < 16; name = strtok(NULL, ",")) {
        classes[count++] = name;
    }
    const l3a_status status = l3a_model_forget_classes(model, classes, count, &exact);
    printf("%d\n", exact);
    return status;
}

static l3a_status score(l3a_features *features, float *scores) {
    const size_t rows = l3a_features_rows(features);
    float *values = malloc(rows * l3a_view_rows(l3a_features_views(features)) * l3a_features_width(features) * sizeof *values);
    l3a_status status = values ? l3a_features_read(features, NULL, 0, rows, values) : L3A_ERROR_MEMORY;
    if (status == L3A_OK) {
        status = l3a_model_score(model, values, rows, scores);
    }
    free(values);
    return status;
}

static l3a_status write_scores(char *paths, int without) {
    char *to = strchr(paths, ':');
    l3a_features *features = NULL;
    *to++ = 0;
    l3a_status status = l3a_features_open(context, paths, &features);
    const size_t count = l3a_features_rows(features) * l3a_model_class_count(model);
    float *scores = malloc(count * sizeof *scores + 1);
    FILE *file = fopen(to, "wb");
    if (status == L3A_OK && scores && file) {
        status = without ? l3a_model_leave_out(model, features, scores) : score(features, scores);
        fwrite(scores, sizeof *scores, count, file);
    }
    if (file) {
        fclose(file);
    }
    free(scores);
    l3a_features_free(features);
    return status;
}

static l3a_status write_shares(char *paths) {
    char *to = strchr(paths, ':');
    l3a_features *features = NULL;
    *to++ = 0;
    l3a_status status = l3a_features_open(context, paths, &features);
    const size_t count = l3a_model_class_count(model);
    double *shares = calloc(count + 1, sizeof *shares);
    FILE *file = fopen(to, "wb");
    if (status == L3A_OK && shares && file) {
        status = l3a_model_leave_out_classes(model, features, shares);
        fwrite(shares, sizeof *shares, count, file);
    }
    if (file) {
        fclose(file);
    }
    free(shares);
    l3a_features_free(features);
    return status;
}

static l3a_status write_thresholds(const char *path) {
    double *thresholds = calloc(l3a_model_class_count(model) + 1, sizeof *thresholds);
    FILE *file = fopen(path, "wb");
    if (thresholds && file) {
        l3a_model_thresholds(model, thresholds);
        fwrite(thresholds, sizeof *thresholds, l3a_model_class_count(model), file);
    }
    free(thresholds);
    return file && fclose(file) == 0 ? L3A_OK : L3A_ERROR_IO;
}

static l3a_status step(char *text) {
    switch (text[0]) {
    case '+': return teach(text + 1, 1);
    case '-': return teach(text + 1, 0);
    case '=': return l3a_model_save(model, text + 1);
    case '@':
        l3a_model_free(model);
        model = NULL;
        return l3a_model_load(context, text + 1, &model);
    case '&': return merge(text + 1);
    case '~': return rename_class(text + 1);
    case '^': return forget_classes(text + 1);
    case '?': return write_scores(text + 1, 1);
    case '%': return write_shares(text + 1);
    case '!': return write_scores(text + 1, 0);
    case '$': return write_thresholds(text + 1);
    case '*': return set_unlabelled(text + 1);
    case '>': return judge(text + 1, false);
    case '<': return judge(text + 1, true);
    default: return L3A_ERROR_ARGUMENT;
    }
}

int main(int count, char **arguments) {
    l3a_options *options = NULL;
    const l3a_context_options where = {.size = sizeof where, .device = getenv("L3A_TEST_DEVICE")};
    l3a_status status = l3a_context_create(&where, &context);
    int i = 2;
    if (status == L3A_OK) {
        status = l3a_options_create(context, &options);
    }
    for (; status == L3A_OK && i < count && strcmp(arguments[i], "--") != 0; i++) {
        char *value = strchr(arguments[i], '=');
        *value++ = 0;
        status = l3a_options_set(context, options, arguments[i], value);
    }
    if (status == L3A_OK) {
        status = l3a_model_create(context, (size_t)strtoul(arguments[1], NULL, 10), options, &model);
    }
    for (i++; status == L3A_OK && i < count; i++) {
        status = step(arguments[i]);
    }
    if (status != L3A_OK) {
        fprintf(stderr, "%s: %s\n", l3a_status_name(status), l3a_error_text(context));
    }
    l3a_model_free(model);
    l3a_options_free(options);
    l3a_context_free(context);
    return status != L3A_OK;
}
