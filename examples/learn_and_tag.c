/* Teaches a model half of the classes of a data set, then the other half, and tags a picture.
 *
 *   cc learn_and_tag.c $(pkg-config --cflags --libs l3a) -o learn_and_tag
 *   ./learn_and_tag list:pets.csv vit_tiny.safetensors pets.safetensors new.jpg
 *
 * The features of the pictures are kept in MODEL.features. Features from elsewhere can be learned in the same way:
 * l3a_features_wrap() makes a table of rows in memory. */
#include <l3a/l3a.h>

#include <stdio.h>
#include <stdlib.h>

static void check(const l3a_context *context, l3a_status status) {
    if (status != L3A_OK) {
        fprintf(stderr, "%s: %s\nhint: %s\n", l3a_status_name(status), l3a_error_text(context), l3a_error_hint(context));
        exit(1);
    }
}

/* Computes the features of the data set's pictures, and opens the table of them. */
static l3a_features *extract(l3a_context *context, const char *data, const char *checkpoint, const char *path) {
    l3a_dataset *dataset = NULL;
    l3a_backbone *backbone = NULL;
    l3a_features *table = NULL;
    check(context, l3a_dataset_open(context, data, NULL, NULL, &dataset));
    check(context, l3a_backbone_open(context, checkpoint, NULL, &backbone));
    check(context, l3a_extract(context, backbone, dataset, NULL, path, NULL));
    check(context, l3a_features_open(context, path, &table));
    l3a_backbone_free(backbone);
    l3a_dataset_free(dataset);
    return table;
}

/* Learns the classes of the table [first, last) in one phase. */
static void learn(l3a_context *context, l3a_model *model, l3a_features *table, size_t first, size_t last) {
    const char **names = malloc((last - first + 1) * sizeof *names);
    for (size_t i = first; names && i < last; i++) {
        names[i - first] = l3a_features_class(table, i);
    }
    check(context, names ? l3a_model_learn(model, table, names, last - first) : L3A_ERROR_MEMORY);
    free(names);
}

static void tag(l3a_context *context, const char *model, const char *checkpoint, const char *picture) {
    l3a_tagger_options options = {.size = sizeof options};
    l3a_tagger *tagger = NULL;
    l3a_reader *reader = NULL;
    l3a_tags *tags = NULL;
    options.backbone = checkpoint;
    check(context, l3a_tagger_open(context, model, &options, &tagger));
    check(context, l3a_reader_create(tagger, &reader));
    if (l3a_reader_tag_file(reader, picture, &tags) != L3A_OK) {
        fprintf(stderr, "error: %s\n", l3a_reader_error_text(reader));
        exit(1);
    }
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        printf("%s %.3f%s\n", l3a_tags_name(tags, i), (double)l3a_tags_score(tags, i), l3a_tags_predicted(tags, i) ? " *" : "");
    }
    l3a_tags_free(tags);
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "usage: learn_and_tag DATASET BACKBONE MODEL PICTURE\n");
        return 2;
    }
    char path[4096];
    l3a_context *context = NULL;
    l3a_model *model = NULL;
    l3a_options *options = NULL;
    snprintf(path, sizeof path, "%s.features", arguments[3]);
    check(NULL, l3a_context_create(NULL, &context));
    l3a_features *table = extract(context, arguments[1], arguments[2], path);
    const size_t classes = l3a_features_class_count(table);
    check(context, l3a_options_create(context, &options));
    check(context, l3a_options_set_integer(context, options, "dim", 1024));
    check(context, l3a_model_create(context, l3a_features_width(table), options, &model));
    learn(context, model, table, 0, (classes + 1) / 2);
    learn(context, model, table, (classes + 1) / 2, classes); /* the labels of the first half are not used again */
    check(context, l3a_model_save(model, arguments[3]));
    tag(context, arguments[3], arguments[2], arguments[4]);
    l3a_model_free(model);
    l3a_features_free(table);
    l3a_options_free(options);
    l3a_context_free(context);
    return 0;
}
