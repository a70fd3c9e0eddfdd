/* Tables of tensors under any names. Each line of the input is a tensor: its name, and the numbers of its shape, all between
 * spaces. A table that is recognised has each name once, and a tensor is filled to its end and not beyond, with the numbers of the
 * file's tensors that it stands for; then the network is described, or why not. */
#include "fuzz.h"

#include "base/memory.h"
#include "net/backbone.h"
#include "net/names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 256, ELEMENTS = 1 << 17 };

struct table {
    struct checkpoint_tensor tensors[TENSORS];
    char *names[TENSORS];
    size_t count, elements;
};

static const struct checkpoint_tensor *at(const void *owner, size_t index) {
    const struct table *table = owner;
    must(index < table->count);
    return &table->tensors[index];
}

/* Element i of tensor t. */
static float number(size_t t, uint64_t i) {
    return (float)(t * 7 % 256 * 64 + i % 64);
}

static l3a_status read_numbers(void *owner, const struct checkpoint_tensor *tensor, float *values) {
    const struct table *table = owner;
    for (uint64_t i = 0; i < tensor->elements; i++) {
        values[i] = number((size_t)(tensor - table->tensors), i);
    }
    return L3A_OK;
}

/* Reads "NAME A B …". A file cannot have two tensors of one name, or a shape whose elements cannot be counted. */
static void add_line(struct table *table, const char *line, size_t length) {
    struct checkpoint_tensor *tensor = &table->tensors[table->count];
    char *name = strndup(line, length), *next;
    must(name != NULL);
    char *numbers = name + strcspn(name, " ");
    bool good = name[0] != '\0' && numbers != name && table->count < TENSORS;
    if (good) {
        *tensor = (struct checkpoint_tensor){.name = name, .type = "F32", .elements = 1};
    }
    while (good && *numbers) {
        *numbers++ = '\0';
        good = tensor->rank < CHECKPOINT_RANK && *numbers >= '0' && *numbers <= '9';
        const uint64_t size = good ? strtoull(numbers, &next, 10) : 0;
        good = good && (!*next || *next == ' ') && multiply_sizes(tensor->elements, size, &tensor->elements);
        if (good) {
            tensor->shape[tensor->rank++] = size;
            numbers = next;
        }
    }
    for (size_t i = 0; good && i < table->count; i++) {
        good = strcmp(table->names[i], name) != 0;
    }
    if (good && tensor->elements < ELEMENTS && table->elements < ELEMENTS) {
        table->elements += (size_t)tensor->elements;
    } else if (good) {
        table->elements = ELEMENTS;
    }
    if (good) {
        table->names[table->count++] = name;
    } else {
        free(name);
    }
}

static void fill(struct table *table, const char *text, size_t length) {
    for (const char *const end = text + length; length && text < end;) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        add_line(table, text, (size_t)(stop - text));
        text = stop + 1;
    }
}

/* Whether all numbers are those of one tensor of the file. */
static bool is_one(const struct table *table, const float *values, uint64_t count) {
    size_t t = 0;
    while (t < table->count && (!count || values[0] - fmodf(values[0], 64) != number(t, 0))) {
        t++;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (values[i] - fmodf(values[i], 64) != number(t, 0)) {
            return false;
        }
    }
    return true;
}

static void read_one(const struct table *table, const struct parameter_source *source, const struct checkpoint_tensor *tensor) {
    uint64_t product = 1;
    for (size_t i = 0; i < tensor->rank; i++) {
        must(multiply_sizes(product, tensor->shape[i], &product));
    }
    must(tensor->rank <= CHECKPOINT_RANK && product == tensor->elements && tensor->elements <= 3 * (uint64_t)ELEMENTS);
    const size_t count = (size_t)tensor->elements;
    float *values = malloc(count ? count * sizeof *values : 1);
    must(values != NULL);
    for (size_t i = 0; i < count; i++) {
        values[i] = NAN;
    }
    must(source->read(source->owner, tensor, values) == L3A_OK);
    for (size_t i = 0; i < count; i++) {
        must(!isnan(values[i]));
    }
    must(is_one(table, values, count) ||
         (count % 3 == 0 && is_one(table, values, count / 3) && is_one(table, values + count / 3, count / 3) &&
          is_one(table, values + count / 3 * 2, count / 3)));
    free(values);
}

static void check_names(l3a_context *context, const struct table *table, struct names *names) {
    struct parameter_source source;
    struct parameters parameters = {0};
    text_builder text = {.context = context};
    names_source(names, &source);
    must(names_naming(names)[0] && strlen(names_prefix(names)) < 1 << 20);
    must(parameters_open(context, &source, &parameters) == L3A_OK);
    for (size_t i = 0; i < source.count; i++) {
        const struct checkpoint_tensor *tensor = source.at(source.owner, i);
        char other[NAME_IN_FILE];
        must(parameters_find(&parameters, tensor->name) == tensor);
        (void)source.name_in_file(source.owner, tensor->name, other);
        must(memchr(other, '\0', sizeof other) != NULL);
        parameters.used[i] = i % 2;
        if (table->elements < ELEMENTS) {
            read_one(table, &source, tensor);
        }
    }
    must(names_list_skipped(names, &parameters, &text) == L3A_OK);
    parameters_close(&parameters);
    text_builder_free(&text);
}

static void describe(l3a_context *context, const struct parameter_source *source) {
    static const l3a_backbone_options all[] = {
        {.size = sizeof(l3a_backbone_options), .mean = {0.5F, 0.5F, 0.5F}, .deviation = {0.5F, 0.5F, 0.5F}},
        {.size = sizeof(l3a_backbone_options), .heads = 2, .activation = L3A_ACTIVATION_GELU, .layer = 1, .side = 64},
        {.size = sizeof(l3a_backbone_options), .heads = 1, .activation = L3A_ACTIVATION_GELU, .pool = L3A_POOL_PROJECTION}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct reading reading;
        if (backbone_read(context, source, &all[i], &reading) == L3A_OK) {
            must(reading.network.output_count && reading.recipe.name[0]);
        } else {
            must(l3a_error_text(context)[0]);
        }
        network_free(&reading.network);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    static struct table table;
    l3a_context *context = context_over(bytes, count);
    struct names *names = NULL;
    table.count = table.elements = 0;
    fill(&table, (const char *)bytes, count);
    const struct parameter_source source = {.owner = &table, .count = table.count, .at = at, .read = read_numbers};
    if (names_open(context, &source, &names) == L3A_OK) {
        check_names(context, &table, names);
        if (table.elements < ELEMENTS) {
            describe(context, &source);
        }
    } else {
        must(l3a_error_text(context)[0]);
    }
    names_close(names);
    l3a_context_free(context);
    for (size_t i = 0; i < table.count; i++) {
        free(table.names[i]);
    }
    return 0;
}
