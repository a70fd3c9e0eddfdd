/* Teaches a model pictures that show something; makes the model if there is none.
 *
 *   cc teach.c $(pkg-config --cflags --libs l3a) -o teach
 *   ./teach pets.l3a vit_tiny.safetensors cat cat1.jpg cat2.jpg …
 *
 * 'l3a tag pets.l3a' and tag.c use the model, and 'l3a undo pets.l3a' takes the lesson back. */
#include <l3a/l3a.h>

#include <stdio.h>

/* The model with its backbone, or a new one with the settings that suit teaching. */
static l3a_status open_tagger(l3a_context *context, const char *model, const char *backbone, l3a_tagger **tagger) {
    l3a_tagger_options options = {.size = sizeof options};
    l3a_options *settings = NULL;
    options.backbone = backbone;
    l3a_status status = l3a_options_create(context, &settings);
    if (status == L3A_OK) {
        status = l3a_lesson_settings(context, settings);
    }
    if (status == L3A_OK) {
        status = l3a_tagger_create(context, model, settings, &options, tagger);
    }
    if (status == L3A_ERROR_EXISTS) {
        status = l3a_tagger_open(context, model, &options, tagger);
    }
    l3a_options_free(settings);
    return status;
}

/* Every picture shows the tag, and none of the other tags that the model knows. */
static l3a_status fill_lesson(l3a_lesson *lesson, const char *tag, int count, char **paths) {
    l3a_status status = L3A_OK;
    l3a_judgement judgement = {.size = sizeof judgement, .tags = &tag, .tag_count = 1};
    for (int i = 0; status == L3A_OK && i < count; i++) {
        status = l3a_lesson_add(lesson, paths[i], &judgement);
    }
    return status;
}

/* Returns the number of pictures that could not be read. Those that the model was taught before are listed, too. */
static int list_problems(const l3a_lesson *lesson) {
    int bad = 0;
    for (size_t i = 0; i < l3a_lesson_count(lesson); i++) {
        const l3a_status outcome = l3a_lesson_outcome(lesson, i);
        if (outcome != L3A_OK) {
            fprintf(stderr, "left out: %s\n", l3a_lesson_problem(lesson, i));
        }
        bad += outcome != L3A_OK && outcome != L3A_ERROR_EXISTS;
    }
    return bad;
}

int main(int count, char **arguments) {
    if (count < 5) {
        fprintf(stderr, "usage: teach MODEL BACKBONE TAG PICTURE…\n");
        return 2;
    }
    l3a_context *context = NULL;
    l3a_lock *lock = NULL;
    l3a_tagger *tagger = NULL;
    l3a_lesson *lesson = NULL;
    l3a_teach_report report = {.size = sizeof report};
    l3a_status status = l3a_context_create(NULL, &context);
    if (status == L3A_OK) { /* no other process changes the model between loading and saving */
        status = l3a_lock_take(context, arguments[1], 1, &lock);
    }
    if (status == L3A_OK) {
        status = open_tagger(context, arguments[1], arguments[2], &tagger);
    }
    if (status == L3A_OK) {
        status = l3a_lesson_create(context, &lesson);
    }
    if (status == L3A_OK) {
        status = fill_lesson(lesson, arguments[3], count - 4, arguments + 4);
    }
    if (status == L3A_OK) {
        status = l3a_tagger_teach(tagger, lesson, NULL, &report);
    }
    if (status == L3A_OK) {
        status = l3a_tagger_save(tagger);
    }
    if (status == L3A_OK) {
        printf("%s: taught %llu, new tags: %zu\n", arguments[1], (unsigned long long)report.images, report.new_classes);
    } else {
        fprintf(stderr, "%s: %s\nhint: %s\n", l3a_status_name(status), l3a_error_text(context), l3a_error_hint(context));
    }
    const int bad = status == L3A_OK ? list_problems(lesson) : 1;
    l3a_lesson_free(lesson);
    l3a_tagger_free(tagger);
    l3a_lock_free(lock);
    l3a_context_free(context);
    return bad ? 1 : 0;
}
