/* Drawn data sets: scenes in the folder layout of VOC 2007, with one annotation per picture and one list per class.
 *
 * Picture i is made from number i of the seed's stream, so any number of threads can draw the pictures. They are drawn and
 * compressed in batches, and then written in order. The lists are written last: a folder without them is not a data set. */
#include "base/file.h"
#include "base/memory.h"
#include "base/sized.h"
#include "base/threads.h"
#include "common/closest.h"
#include "common/jpeg_write.h"
#include "draw/scene.h"
#include "image/picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 32, QUALITY = 88, PICTURES = 1000000, ID = 16 };

struct picture {
    struct scene scene;
    uint8_t pixels[SCENE_BYTES], file[2 * SCENE_BYTES];
    size_t length;
};

struct drawing {
    l3a_context *context;
    l3a_draw_options options;
    size_t always, count, first; /* index of a class, or THINGS; number of pictures; first picture of the batch */
    char *root, *annotations, *pictures, *lists;
    struct picture *batch;
    uint8_t *shown; /* [count x THINGS] */
};

const char *l3a_draw_class(size_t index) {
    return index < THINGS ? things[index].name : NULL;
}

static l3a_status check_options(struct drawing *drawing) {
    l3a_draw_options *options = &drawing->options;
    const char *names[THINGS];
    l3a_status status = L3A_OK;
    options->seed = options->seed ? options->seed : 1;
    if (!options->training && !options->test) {
        options->training = 2400;
        options->test = 1200;
    }
    FAIL_IF(options->training > PICTURES || options->test > PICTURES, drawing->context, L3A_ERROR_OPTION, NULL,
            "a split can have at most %d pictures", PICTURES);
    drawing->count = options->training + options->test;
    drawing->always = THINGS;
    for (size_t i = 0; i < THINGS; i++) {
        names[i] = things[i].name;
        drawing->always = options->always && strcmp(options->always, names[i]) == 0 ? i : drawing->always;
    }
    const char *close = options->always ? closest_name(options->always, names, THINGS) : NULL;
    FAIL_IF(options->always && drawing->always == THINGS, drawing->context, L3A_ERROR_CLASS, NULL,
            "'%s' is not one of the %d classes that can be drawn%s%s%s", options->always, THINGS, close ? "; did you mean '" : "",
            close ? close : "", close ? "'?" : "");
done:
    return status;
}

static l3a_status make_folders(struct drawing *drawing, const char *folder) {
    l3a_context *context = drawing->context;
    l3a_status status = L3A_OK;
    bool exists;
    TRY(file_exists(context, folder, &exists));
    FAIL_IF(exists, context, L3A_ERROR_EXISTS, "choose a new folder", "%s: already exists", folder);
    TRY(join_path(context, folder, "VOC2007", &drawing->root));
    TRY(join_path(context, drawing->root, "Annotations", &drawing->annotations));
    TRY(join_path(context, drawing->root, "JPEGImages", &drawing->pictures));
    TRY(make_folder(context, folder));
    TRY(make_folder(context, drawing->root));
    TRY(make_folder(context, drawing->annotations));
    TRY(make_folder(context, drawing->pictures));
done:
    return status;
}

static void draw_part(void *argument, size_t first, size_t last) {
    const struct drawing *drawing = argument;
    for (size_t i = first; i < last; i++) {
        struct picture *picture = &drawing->batch[i];
        const uint64_t seed = random_bits(drawing->options.seed, drawing->first + i);
        scene_plan(things, THINGS, drawing->always, seed, &picture->scene);
        scene_draw(things, &picture->scene, picture->pixels);
        picture->length = jpeg_encode(picture->pixels, SCENE_SIDE, SCENE_SIDE, QUALITY, picture->file, sizeof picture->file);
    }
}

/* In the form of VOC: pixels count from 1, and the box includes its last pixel. */
static void describe_thing(text_builder *text, const struct thing *thing) {
    const struct box *box = &thing->box;
    const bool cut = box->left == 0 || box->top == 0 || box->right == SCENE_SIDE || box->bottom == SCENE_SIDE;
    text_builder_print(text,
                       "\t<object>\n\t\t<name>%s</name>\n\t\t<pose>Unspecified</pose>\n\t\t<truncated>%d</truncated>\n"
                       "\t\t<difficult>0</difficult>\n\t\t<bndbox>\n\t\t\t<xmin>%d</xmin>\n\t\t\t<ymin>%d</ymin>\n"
                       "\t\t\t<xmax>%d</xmax>\n\t\t\t<ymax>%d</ymax>\n\t\t</bndbox>\n\t</object>\n",
                       things[thing->recipe].name, cut, box->left + 1, box->top + 1, box->right, box->bottom);
}

static l3a_status write_in(l3a_context *context, const char *folder, const char *name, const void *bytes, size_t length) {
    l3a_status status = L3A_OK;
    char *path = NULL;
    TRY(join_path(context, folder, name, &path));
    TRY(write_new(context, path, bytes, length));
done:
    release(context, path);
    return status;
}

static l3a_status write_annotation(const struct drawing *drawing, const struct scene *scene, size_t number) {
    text_builder text = {.context = drawing->context};
    char name[ID];
    l3a_status status = L3A_OK;
    text_builder_print(&text,
                       "<annotation>\n\t<folder>VOC2007</folder>\n\t<filename>%06zu.jpg</filename>\n\t<source>\n"
                       "\t\t<database>drawn by l3a from seed %" PRIu64 "</database>\n\t</source>\n"
                       "\t<size>\n\t\t<width>%d</width>\n\t\t<height>%d</height>\n\t\t<depth>3</depth>\n\t</size>\n"
                       "\t<segmented>0</segmented>\n",
                       number, drawing->options.seed, SCENE_SIDE, SCENE_SIDE);
    for (size_t i = 0; i < scene->count; i++) {
        describe_thing(&text, &scene->things[i]);
    }
    text_builder_print(&text, "</annotation>\n");
    TRY(text.status);
    snprintf(name, sizeof name, "%06zu.xml", number);
    TRY(write_in(drawing->context, drawing->annotations, name, text.text, text.length));
done:
    text_builder_free(&text);
    return status;
}

static l3a_status write_batch(const struct drawing *drawing, size_t count) {
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < count; i++) {
        const struct picture *picture = &drawing->batch[i];
        const size_t index = drawing->first + i;
        char name[ID];
        snprintf(name, sizeof name, "%06zu.jpg", index + 1);
        FAIL_IF(!picture->length, drawing->context, L3A_ERROR_MEMORY, NULL, "not enough memory to compress the picture %s", name);
        TRY(write_in(drawing->context, drawing->pictures, name, picture->file, picture->length));
        TRY(write_annotation(drawing, &picture->scene, index + 1));
        for (size_t j = 0; j < picture->scene.count; j++) {
            drawing->shown[index * THINGS + picture->scene.things[j].recipe] = 1;
        }
    }
done:
    return status;
}

static l3a_status draw_pictures(struct drawing *drawing) {
    l3a_context *context = drawing->context;
    l3a_status status = L3A_OK;
    for (; drawing->first < drawing->count; drawing->first += BATCH) {
        const size_t left = drawing->count - drawing->first, count = left < BATCH ? left : BATCH;
        TRY(report_progress(context, "draw", drawing->first, drawing->count));
        parallel_for(context->threads, count, 1, draw_part, drawing);
        TRY(write_batch(drawing, count));
    }
    TRY(report_progress(context, "draw", drawing->count, drawing->count));
done:
    return status;
}

/* Writes the ids of a split, if it has any; with class < THINGS, also a flag that says whether a picture shows the class. */
static l3a_status write_list(const struct drawing *drawing, size_t first, size_t last, const char *split, size_t class) {
    text_builder text = {.context = drawing->context};
    char name[64];
    l3a_status status = L3A_OK;
    for (size_t i = first; i < last; i++) {
        text_builder_print(&text, "%06zu", i + 1);
        if (class < THINGS) {
            text_builder_print(&text, " %2d", drawing->shown[i * THINGS + class] ? 1 : -1);
        }
        text_builder_append(&text, "\n", 1);
    }
    TRY(text.status);
    snprintf(name, sizeof name, "%s%s%s.txt", class < THINGS ? things[class].name : "", class < THINGS ? "_" : "", split);
    if (text.length) {
        TRY(write_in(drawing->context, drawing->lists, name, text.text, text.length));
    }
done:
    text_builder_free(&text);
    return status;
}

/* Writes the lists of classes before those of splits. A class that is drawn only on request has lists only if it was requested. */
static l3a_status write_lists(struct drawing *drawing) {
    l3a_context *context = drawing->context;
    l3a_status status = L3A_OK;
    char *folder = NULL;
    const size_t training = drawing->options.training;
    TRY(join_path(context, drawing->root, "ImageSets", &folder));
    TRY(make_folder(context, folder));
    TRY(join_path(context, folder, "Main", &drawing->lists));
    TRY(make_folder(context, drawing->lists));
    for (size_t class = 0; class <= THINGS; class ++) {
        if (class == THINGS || things[class].frequency > 0 || class == drawing->always) {
            TRY(write_list(drawing, 0, training, "trainval", class));
            TRY(write_list(drawing, training, drawing->count, "test", class));
        }
    }
done:
    release(context, folder);
    return status;
}

l3a_status l3a_draw_dataset(l3a_context *context, const l3a_draw_options *options, const char *folder) {
    struct drawing drawing = {.context = context};
    l3a_status status = L3A_OK;
    if (!context) {
        return L3A_ERROR_ARGUMENT;
    }
    NEED(context, folder);
    FAIL_IF(!folder[0], context, L3A_ERROR_ARGUMENT, NULL, "there is no folder to draw to");
    TRY(READ_SIZED(context, options, drawing.options));
    TRY(check_options(&drawing));
    TRY(allocate(context, BATCH, sizeof *drawing.batch, &drawing.batch));
    TRY(allocate_zeroed(context, drawing.count, THINGS, &drawing.shown));
    TRY(make_folders(&drawing, folder));
    TRY(draw_pictures(&drawing));
    TRY(write_lists(&drawing));
done:
    release(context, drawing.root);
    release(context, drawing.annotations);
    release(context, drawing.pictures);
    release(context, drawing.lists);
    release(context, drawing.batch);
    release(context, drawing.shown);
    return status;
}
