/* Tags pictures: prints the classes that the model sees in each, with their scores.
 *
 *   cc tag.c $(pkg-config --cflags --libs l3a) -o tag
 *   ./tag model.safetensors vit_tiny.safetensors photo.jpg … */
#include <l3a/l3a.h>

#include <stdio.h>

static void print_tags(const char *path, const l3a_tags *tags) {
    printf("%s:", path);
    for (size_t i = 0; i < l3a_tags_count(tags); i++) {
        if (l3a_tags_predicted(tags, i)) {
            printf(" %s %.3f", l3a_tags_name(tags, i), (double)l3a_tags_score(tags, i));
        }
    }
    printf("\n");
}

/* Returns the number of pictures that could not be read. */
static int tag_pictures(l3a_reader *reader, int count, char **paths) {
    int bad = 0;
    for (int i = 0; i < count; i++) {
        l3a_tags *tags = NULL;
        if (l3a_reader_tag_file(reader, paths[i], &tags) == L3A_OK) {
            print_tags(paths[i], tags);
        } else {
            fprintf(stderr, "error: %s\nhint: %s\n", l3a_reader_error_text(reader), l3a_reader_error_hint(reader));
            bad++;
        }
        l3a_tags_free(tags);
    }
    return bad;
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: tag MODEL BACKBONE PICTURE…\n");
        return 2;
    }
    l3a_context *context = NULL;
    l3a_tagger *tagger = NULL;
    l3a_reader *reader = NULL;
    l3a_tagger_options options = {.size = sizeof options};
    options.backbone = arguments[2];
    l3a_status status = l3a_context_create(NULL, &context);
    if (status == L3A_OK) {
        status = l3a_tagger_open(context, arguments[1], &options, &tagger);
    }
    if (status == L3A_OK) {
        status = l3a_reader_create(tagger, &reader);
    }
    if (status != L3A_OK) {
        fprintf(stderr, "%s: %s\nhint: %s\n", l3a_status_name(status), l3a_error_text(context), l3a_error_hint(context));
    }
    const int bad = reader ? tag_pictures(reader, count - 3, arguments + 3) : 1;
    l3a_reader_free(reader);
    l3a_tagger_free(tagger);
    l3a_context_free(context);
    return bad ? 1 : 0;
}
