/* Lessons: pictures, and what people say about them. */
#include "tag/lesson.h"

#include "base/sized.h"
#include "common/utf8.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <math.h>
#include <string.h>

enum { LONGEST_NAME = 255, LONGEST_PATH = 8192 /* far less than a text of the journal can have */ };

l3a_status l3a_lesson_create(l3a_context *context, l3a_lesson **lesson) {
    l3a_lesson *made = NULL;
    l3a_status status = L3A_OK;
    NEED(context, context, lesson);
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    *lesson = made;
done:
    return status;
}

static void picture_free(l3a_context *context, struct lesson_picture *picture) {
    release(context, picture->path);
    release(context, picture->bytes);
    release(context, picture->features);
    release(context, picture->marks);
    release(context, picture->problem);
}

void l3a_lesson_free(l3a_lesson *lesson) {
    if (lesson) {
        for (size_t i = 0; i < lesson->count; i++) {
            picture_free(lesson->context, &lesson->pictures[i]);
        }
        text_list_clear(lesson->context, &lesson->classes);
        release(lesson->context, lesson->found);
        release(lesson->context, lesson->chains);
        release(lesson->context, lesson->pictures);
        release(lesson->context, lesson);
    }
}

/* ---- Names ---- */

/* The character as a lower-case letter: Latin, Greek and Cyrillic. */
static uint32_t lower(uint32_t code) {
    const bool ascii = code >= 'A' && code <= 'Z', latin = code >= 0xC0 && code <= 0xDE && code != 0xD7;
    const bool greek = code >= 0x391 && code <= 0x3A9, cyrillic = code >= 0x410 && code <= 0x42F;
    if ((code >= 0x100 && code <= 0x137) || (code >= 0x14A && code <= 0x177)) { /* pairs of an upper- and a lower-case letter */
        return code | 1;
    }
    if ((code >= 0x139 && code <= 0x148) || (code >= 0x179 && code <= 0x17E)) {
        return code + (code & 1);
    }
    return ascii || latin || greek || cyrillic ? code + 0x20 : code >= 0x400 && code <= 0x40F ? code + 0x50 : code;
}

/* Moves past the next character that counts, and returns it; 0 at the end. */
static uint32_t next_letter(const char **text) {
    uint32_t code = 0;
    for (size_t length; **text; *text += length) {
        length = utf8_decode(*text, &code);
        if (!length) {
            return 0;
        }
        if (code != ' ' && code != '-' && code != '_' && code != 0xA0 && code != 0x200C && code != 0x200D) {
            *text += length;
            return lower(code);
        }
    }
    return 0;
}

bool names_look_alike(const char *left, const char *right) {
    for (;;) {
        const uint32_t a = next_letter(&left), b = next_letter(&right);
        if (a != b) {
            return false;
        }
        if (!a) {
            return true;
        }
    }
}

static bool has_control(const char *text) {
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7F) {
            return true;
        }
    }
    return false;
}

l3a_status check_class_name(l3a_context *context, const char *name) {
    l3a_status status = L3A_OK;
    FAIL_IF(!name[0], context, L3A_ERROR_CLASS, NULL, "the name of a class is empty");
    FAIL_IF(strlen(name) > LONGEST_NAME, context, L3A_ERROR_CLASS, "use a shorter name",
            "the name of a class has %zu bytes; %d is the most: '%.40s…'", strlen(name), LONGEST_NAME, name);
    FAIL_IF(!is_utf8(name), context, L3A_ERROR_CLASS, "use UTF-8", "the name of a class is not UTF-8");
    FAIL_IF(has_control(name), context, L3A_ERROR_CLASS, "use one line of plain text",
            "the name of a class contains a line break or a control character: '%s'", name);
    FAIL_IF(strchr(name, ';'), context, L3A_ERROR_CLASS,
            "in CSV files, ';' separates the classes of a picture: give two classes as two names, or use another character",
            "the name of a class contains ';': '%s'", name);
done:
    return status;
}

l3a_status check_new_name(l3a_context *context, const char *name) {
    const uint32_t code = utf8_find_hidden(name);
    return !code ? L3A_OK
                 : fail(context, L3A_ERROR_CLASS, "type the name again instead of pasting it",
                        "the name of a new class contains U+%04X, a character that cannot be seen: '%s'", (unsigned)code, name);
}

static size_t *chain_of(const l3a_lesson *lesson, const char *name) {
    return &lesson->chains[XXH3_64bits(name, strlen(name)) & (lesson->chain_count - 1)];
}

static void link_class(const l3a_lesson *lesson, size_t class) {
    size_t *chain = chain_of(lesson, lesson->classes.items[class]);
    lesson->found[class].next = *chain;
    *chain = class + 1;
}

/* Makes room for one more class. */
static l3a_status make_room(l3a_lesson *lesson) {
    enum { FEWEST = 16 };
    l3a_context *context = lesson->context;
    const size_t needed = lesson->classes.count + 1;
    size_t *chains = NULL;
    l3a_status status = L3A_OK;
    TRY(grow_array(context, &lesson->found, &lesson->found_capacity, needed, sizeof *lesson->found));
    if (needed > lesson->chain_count) {
        const size_t count = lesson->chain_count ? 2 * lesson->chain_count : FEWEST;
        TRY(allocate_zeroed(context, count, sizeof *chains, &chains));
        release(context, lesson->chains);
        lesson->chains = chains;
        lesson->chain_count = count;
        for (size_t k = 0; k < lesson->classes.count; k++) {
            link_class(lesson, k);
        }
    }
done:
    return status;
}

/* The class of a name that is in order; adds it if need be. */
static l3a_status find_or_add(l3a_lesson *lesson, const char *name, size_t *class) {
    l3a_status status = L3A_OK;
    size_t at = lesson->chain_count ? *chain_of(lesson, name) : 0;
    while (at && strcmp(lesson->classes.items[at - 1], name) != 0) {
        at = lesson->found[at - 1].next;
    }
    *class = at ? at - 1 : lesson->classes.count;
    if (!at) {
        TRY(make_room(lesson));
        TRY(text_list_add(lesson->context, &lesson->classes, name, strlen(name)));
        lesson->found[*class] = (struct lesson_class){0};
        link_class(lesson, *class);
    }
done:
    return status;
}

/* Finds or adds the class of a name, without the spaces around it. */
static l3a_status find_class(l3a_lesson *lesson, const char *who, const char *given, size_t *class) {
    l3a_context *context = lesson->context;
    char *name = NULL;
    l3a_status status = L3A_OK;
    given += strspn(given, " \t");
    size_t length = strlen(given);
    while (length && (given[length - 1] == ' ' || given[length - 1] == '\t')) {
        length--;
    }
    TRY(copy_text(context, given, length, &name));
    status = check_class_name(context, name);
    if (status != L3A_OK) {
        fail_in(context, status, "%s", who);
        goto done;
    }
    TRY(find_or_add(lesson, name, class));
done:
    release(context, name);
    return status;
}

/* ---- Judgements ---- */

static l3a_status check_judgement(l3a_context *context, const char *who, const l3a_judgement *judgement) {
    static const char function[] = "l3a_judgement";
    l3a_status status = L3A_OK;
    const struct {
        const char *name;
        const char *const *texts;
        size_t count;
    } lists[] = {{"tags", judgement->tags, judgement->tag_count},
                 {"absent", judgement->absent, judgement->absent_count},
                 {"judged", judgement->judged, judgement->judged_count}};
    for (size_t i = 0; i < 3; i++) {
        FAIL_IF(lists[i].count && !lists[i].texts, context, L3A_ERROR_ARGUMENT, NULL, "%s: %s is NULL, but its count is %zu", who,
                lists[i].name, lists[i].count);
        TRY(need_items(context, function, lists[i].name, lists[i].texts, lists[i].count));
    }
    FAIL_IF(judgement->only && judgement->judged_count, context, L3A_ERROR_ARGUMENT, "use one of the two",
            "%s: 'only' and a judged set exclude each other", who);
    FAIL_IF(judgement->only && !judgement->tag_count && !judgement->absent_count, context, L3A_ERROR_ARGUMENT,
            "name a class that the picture shows, or one that it does not show", "%s: nothing is said about the picture", who);
done:
    return status;
}

/* Adds a mark, or finds the one that the class has already. A contradiction is an error. A class in judged that was marked before
 * keeps its mark. */
static l3a_status add_mark(l3a_lesson *lesson, const char *who, const char *name, int8_t label, bool keep, struct mark *marks,
                           size_t *count) {
    l3a_status status = L3A_OK;
    size_t class = 0;
    TRY(find_class(lesson, who, name, &class));
    struct lesson_class *found = &lesson->found[class];
    if (found->judgement == lesson->judgements) {
        FAIL_IF(!keep && marks[found->mark].label != label, lesson->context, L3A_ERROR_CLASS, "remove it from one of the two lists",
                "%s: '%s' is listed both as shown and as not shown", who, lesson->classes.items[class]);
        return L3A_OK;
    }
    found->judgement = lesson->judgements;
    found->mark = *count;
    marks[(*count)++] = (struct mark){class, label};
done:
    return status;
}

l3a_status lesson_marks(l3a_lesson *lesson, const char *who, const l3a_judgement *judgement, struct mark **marks, size_t *count,
                        bool *complete) {
    l3a_context *context = lesson->context;
    struct mark *made = NULL;
    l3a_status status = L3A_OK;
    TRY(check_judgement(context, who, judgement));
    *count = 0;
    lesson->judgements++;
    TRY(allocate(context, judgement->tag_count + judgement->absent_count + judgement->judged_count, sizeof *made, &made));
    for (size_t i = 0; i < judgement->tag_count; i++) {
        TRY(add_mark(lesson, who, judgement->tags[i], 1, false, made, count));
    }
    for (size_t i = 0; i < judgement->absent_count; i++) {
        TRY(add_mark(lesson, who, judgement->absent[i], 0, false, made, count));
    }
    for (size_t i = 0; i < judgement->judged_count; i++) {
        TRY(add_mark(lesson, who, judgement->judged[i], 0, true, made, count));
    }
    *complete = !judgement->only && !judgement->judged_count && (judgement->tag_count || !judgement->absent_count);
    *marks = made;
    made = NULL;
done:
    release(context, made);
    return status;
}

/* ---- Pictures ---- */

/* What the picture consists of comes to belong to the lesson even if this fails. */
static l3a_status add_picture(l3a_lesson *lesson, const char *path, struct lesson_picture made, const l3a_judgement *judgement) {
    l3a_context *context = lesson->context;
    l3a_judgement own;
    l3a_status status = L3A_OK;
    made.outcome = L3A_ERROR_STATE;
    FAIL_IF(strlen(path) > LONGEST_PATH, context, L3A_ERROR_ARGUMENT, "use a shorter name",
            "the name of a picture has %zu bytes; %d is the most: '%.40s…'", strlen(path), LONGEST_PATH, path);
    TRY(READ_SIZED(context, judgement, own));
    TRY(copy_text(context, path, strlen(path), &made.path));
    TRY(lesson_marks(lesson, path, &own, &made.marks, &made.mark_count, &made.complete));
    TRY(grow_array(context, &lesson->pictures, &lesson->capacity, lesson->count + 1, sizeof made));
    lesson->pictures[lesson->count++] = made;
    made = (struct lesson_picture){0};
done:
    picture_free(context, &made);
    return status;
}

l3a_status l3a_lesson_add(l3a_lesson *lesson, const char *path, const l3a_judgement *judgement) {
    REQUIRE(lesson, lesson, path, judgement);
    return add_picture(lesson, path, (struct lesson_picture){0}, judgement);
}

l3a_status l3a_lesson_add_bytes(l3a_lesson *lesson, const char *name, const void *bytes, size_t count,
                                const l3a_judgement *judgement) {
    REQUIRE(lesson, lesson, name, judgement);
    if (count) {
        REQUIRE(lesson, bytes);
    }
    struct lesson_picture picture = {.byte_count = count};
    l3a_status status = L3A_OK;
    TRY(allocate(lesson->context, count, 1, &picture.bytes));
    memcpy(picture.bytes, count ? bytes : "", count);
    TRY(add_picture(lesson, name, picture, judgement));
done:
    return status;
}

l3a_status l3a_lesson_add_features(l3a_lesson *lesson, const char *name, uint64_t checksum, const float *features, size_t count,
                                   const l3a_judgement *judgement) {
    REQUIRE(lesson, lesson, name, features, judgement);
    struct lesson_picture picture = {.feature_count = count, .checksum = checksum};
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(!isfinite(features[i]), lesson->context, L3A_ERROR_DATA, NULL, "%s: feature %zu is not finite", name, i);
    }
    TRY(allocate(lesson->context, count, sizeof *features, &picture.features));
    memcpy(picture.features, features, count * sizeof *features);
    TRY(add_picture(lesson, name, picture, judgement));
done:
    return status;
}

size_t l3a_lesson_count(const l3a_lesson *lesson) {
    return lesson ? lesson->count : 0;
}

const char *l3a_lesson_path(const l3a_lesson *lesson, size_t index) {
    return lesson && index < lesson->count ? lesson->pictures[index].path : NULL;
}

l3a_status l3a_lesson_outcome(const l3a_lesson *lesson, size_t index) {
    return lesson && index < lesson->count ? lesson->pictures[index].outcome : L3A_ERROR_ARGUMENT;
}

const char *l3a_lesson_problem(const l3a_lesson *lesson, size_t index) {
    const char *problem = lesson && index < lesson->count ? lesson->pictures[index].problem : NULL;
    return !lesson || index >= lesson->count ? NULL : problem ? problem : "";
}

l3a_status lesson_set_outcome(l3a_lesson *lesson, size_t index, l3a_status outcome, const char *problem) {
    struct lesson_picture *picture = &lesson->pictures[index];
    l3a_status status = L3A_OK;
    release(lesson->context, picture->problem);
    picture->problem = NULL;
    picture->outcome = outcome;
    if (problem) {
        TRY(copy_text(lesson->context, problem, strlen(problem), &picture->problem));
    }
done:
    return status;
}
