/* Tags are one block of memory that needs nothing else: a head, a tag for each class, and the names. */
#include "tag/tags.h"

#include "base/views.h"
#include "learn/model.h"

#include <stdlib.h>
#include <string.h>

struct tag {
    const char *name;
    size_t class;
    float score;
    double threshold;
    size_t view;
};

struct l3a_tags {
    void (*release)(void *user, void *memory);
    void *memory_user;
    size_t count, views;
    struct tag tags[];
};

static int compare(const void *left, const void *right) {
    const struct tag *a = left, *b = right;
    return a->score > b->score ? -1 : a->score < b->score ? 1 : a->class < b->class ? -1 : 1;
}

l3a_status tags_create(l3a_context *context, const text_list *classes, const struct picture_scores *picture,
                       const double *thresholds, l3a_tags **tags) {
    const size_t count = classes->count;
    size_t length = 0;
    l3a_tags *made = NULL;
    l3a_status status = L3A_OK;
    for (size_t k = 0; k < count; k++) {
        length += strlen(classes->items[k]) + 1;
    }
    TRY(allocate(context, sizeof *made + count * sizeof made->tags[0] + length, 1, &made));
    made->release = context->options.release;
    made->memory_user = context->options.memory_user;
    made->count = count;
    made->views = picture->views;
    char *names = (char *)&made->tags[count];
    for (size_t k = 0; k < count; k++) {
        const size_t bytes = strlen(classes->items[k]) + 1;
        made->tags[k] = (struct tag){.name = memcpy(names, classes->items[k], bytes),
                                     .class = k,
                                     .score = picture->scores[k],
                                     .threshold = thresholds[k],
                                     .view = picture->crops ? picture->crops[k] : 0};
        names += bytes;
    }
    qsort(made->tags, count, sizeof made->tags[0], compare);
    *tags = made;
done:
    return status;
}

l3a_status l3a_tags_create(const l3a_model *model, const float *scores, const double *thresholds, l3a_tags **tags) {
    REQUIRE(model, model, scores, thresholds, tags);
    const struct picture_scores picture = {.scores = scores, .views = 1};
    return tags_create(model->context, &model->classes, &picture, thresholds, tags);
}

size_t l3a_tags_count(const l3a_tags *tags) {
    return tags ? tags->count : 0;
}

static const struct tag *tag_at(const l3a_tags *tags, size_t index) {
    static const struct tag none = {0};
    return index < l3a_tags_count(tags) ? &tags->tags[index] : &none;
}

const char *l3a_tags_name(const l3a_tags *tags, size_t index) {
    return tag_at(tags, index)->name;
}

size_t l3a_tags_class(const l3a_tags *tags, size_t index) {
    return tag_at(tags, index)->class;
}

float l3a_tags_score(const l3a_tags *tags, size_t index) {
    return tag_at(tags, index)->score;
}

double l3a_tags_threshold(const l3a_tags *tags, size_t index) {
    return tag_at(tags, index)->threshold;
}

int l3a_tags_predicted(const l3a_tags *tags, size_t index) {
    const struct tag *tag = tag_at(tags, index);
    return (double)tag->score > tag->threshold;
}

size_t l3a_tags_view(const l3a_tags *tags, size_t index) {
    return tag_at(tags, index)->view;
}

int l3a_tags_box(const l3a_tags *tags, size_t index, double box[4]) {
    const size_t view = l3a_tags_view(tags, index);
    return view && l3a_view_box(tags->views, view, box);
}

void l3a_tags_free(l3a_tags *tags) {
    if (tags) {
        tags->release(tags->memory_user, tags);
    }
}
