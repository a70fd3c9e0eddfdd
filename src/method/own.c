/* The learner behind a method of the program's own: its callbacks (l3a_method in l3a_experiment.h). */
#include "base/threshold.h"
#include "data/features.h"
#include "method/method.h"

#include <math.h>
#include <string.h>

struct own {
    l3a_context *context;
    const l3a_method *method;
    l3a_options settings;
    void *learner;
    size_t classes;     /* learned so far */
    double *thresholds; /* of these */
};

static l3a_status callback_failed(const struct own *own, const char *what) {
    char why[512] = "";
    if (own->method->explain) {
        own->method->explain(own->method->user, why, sizeof why);
        why[sizeof why - 1] = '\0';
    }
    return fail(own->context, L3A_ERROR_METHOD, NULL, why[0] ? "%s: %s" : "%s failed", what, why);
}

static void free_own(void *state) {
    struct own *own = state;
    if (own->learner && own->method->free) {
        own->method->free(own->learner);
    }
    release(own->context, own->thresholds);
    release(own->context, own);
}

static l3a_status create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,
                         void **state) {
    l3a_status status = L3A_OK;
    struct own *own = NULL;
    TRY(allocate_zeroed(context, 1, sizeof *own, &own));
    own->context = context;
    own->method = method->own;
    own->settings = *settings;
    if (own->method->create(own->method->user, settings->model.seed, width, &own->learner)) {
        own->learner = NULL; /* there is none to free */
        status = callback_failed(own, "create");
        goto done;
    }
    *state = own;
    own = NULL;
done:
    if (own) {
        free_own(own);
    }
    return status;
}

/* A phase on its way to the callbacks. */
struct teaching {
    struct own *own;
    const struct lesson *lesson;
    size_t *images; /* rows of the table */
    l3a_method_phase phase;
};

static l3a_status begin_teaching(struct own *own, const struct lesson *lesson, struct teaching *teaching) {
    const l3a_features *train = lesson->train;
    const bool at_once = own->method->at_once != 0;
    size_t count = 0, t = 0;
    const l3a_status status = lesson_rows(lesson, &teaching->images, &count);
    while (!at_once && lesson->bounds[t] < lesson->first) {
        t++;
    }
    teaching->own = own;
    teaching->lesson = lesson;
    teaching->phase = (l3a_method_phase){.size = sizeof teaching->phase,
                                         .classes = lesson->names,
                                         .first = lesson->first,
                                         .last = lesson->last,
                                         .phase = t + 1,
                                         .phases = at_once ? 1 : lesson->phases,
                                         .images = count,
                                         .rows = view_rows(train->views),
                                         .width = train->width};
    return status;
}

static l3a_status take_block(void *argument, const float *features, const int8_t *labels, size_t images) {
    const struct teaching *teaching = argument;
    const struct own *own = teaching->own;
    return own->method->learn_block(own->learner, &teaching->phase, features, labels, images) ? callback_failed(own, "learn_block")
                                                                                              : L3A_OK;
}

/* Reads the features of all images of a phase. */
static l3a_status read_features(const struct teaching *teaching, float *features) {
    enum { AT_ONCE = 4096 };
    l3a_features *train = teaching->lesson->train;
    const size_t count = (size_t)teaching->phase.images;
    l3a_status status = L3A_OK;
    for (size_t first = 0; first < count; first += AT_ONCE) {
        const size_t n = count - first < AT_ONCE ? count - first : AT_ONCE;
        TRY(report_progress(train->context, "learn", first, count));
        TRY(l3a_features_read(train, teaching->images + first, 0, n, features + first * features_row(train)));
    }
    TRY(report_progress(train->context, "learn", count, count));
done:
    return status;
}

static l3a_status learn_at_once(const struct teaching *teaching) {
    const struct own *own = teaching->own;
    const struct lesson *lesson = teaching->lesson;
    l3a_context *context = own->context;
    l3a_status status = L3A_OK;
    const size_t count = (size_t)teaching->phase.images, classes = lesson->last - lesson->first;
    float *features = NULL, *borrowed = NULL;
    int8_t *labels = NULL;
    if (!own->method->room) {
        TRY(allocate(context, count, features_row(lesson->train) * sizeof *features, &features));
    } else if (own->method->room(own->learner, &teaching->phase, &borrowed) || !borrowed) {
        status = callback_failed(own, "room");
        goto done;
    }
    TRY(allocate(context, count, classes, &labels));
    TRY(read_features(teaching, features ? features : borrowed));
    TRY(features_gather_labels(lesson->train, teaching->images, count, lesson->columns + lesson->first, classes, labels));
    if (own->method->learn(own->learner, &teaching->phase, features ? features : borrowed, labels, count)) {
        status = callback_failed(own, "learn");
    }
done:
    release(context, features);
    release(context, labels);
    return status;
}

/* What the class thresholds are after a phase. */
static l3a_status ask_thresholds(struct own *own, size_t classes) {
    l3a_status status = L3A_OK;
    TRY(extend_array(own->context, &own->thresholds, 0, classes, sizeof *own->thresholds));
    own->classes = classes;
    if (!own->method->thresholds) {
        same_thresholds(own->settings.model.theta, classes, own->thresholds);
    } else if (own->method->thresholds(own->learner, own->thresholds)) {
        status = callback_failed(own, "thresholds");
    }
    for (size_t k = 0; status == L3A_OK && k < classes; k++) {
        FAIL_IF(isnan(own->thresholds[k]), own->context, L3A_ERROR_METHOD, NULL, "thresholds: that of class %zu is NaN", k);
    }
done:
    return status;
}

static l3a_status learn(void *state, const struct lesson *lesson, struct outcome *outcome) {
    struct own *own = state;
    l3a_status status = L3A_OK;
    struct teaching teaching = {0};
    TRY(begin_teaching(own, lesson, &teaching));
    outcome->images = teaching.phase.images;
    if (own->method->learn) {
        TRY(learn_at_once(&teaching));
    } else {
        TRY(lesson_read(lesson, "learn", (size_t)own->settings.model.block, take_block, &teaching, &outcome->images));
        TRY(take_block(&teaching, NULL, NULL, 0));
    }
    TRY(ask_thresholds(own, lesson->last));
done:
    release(own->context, teaching.images);
    return status;
}

static l3a_status score(void *state, const float *features, size_t images, float *scores) {
    const struct own *own = state;
    const size_t count = images * own->classes;
    l3a_status status = L3A_OK;
    if (own->method->score(own->learner, features, images, scores)) {
        return callback_failed(own, "score");
    }
    for (size_t i = 0; i < count; i++) {
        FAIL_IF(isnan(scores[i]), own->context, L3A_ERROR_METHOD, NULL, "score: a score of class %zu is NaN", i % own->classes);
    }
done:
    return status;
}

static void thresholds_of(const void *state, double *thresholds) {
    const struct own *own = state;
    memcpy(thresholds, own->thresholds, own->classes * sizeof *thresholds);
}

static l3a_status save(void *state, l3a_state *into) {
    const struct own *own = state;
    return own->method->save(own->learner, into) ? callback_failed(own, "save") : L3A_OK;
}

static l3a_status load(void *state, const l3a_state *from) {
    const struct own *own = state;
    return own->method->load(own->learner, from) ? callback_failed(own, "load") : L3A_OK;
}

/* Those that learn a phase at once or in blocks, and that can be saved or not. */
static const struct learner learners[2][2] = {
    {{create, learn, score, thresholds_of, free_own, .settings = "|theta|", .holds_images = true},
     {create, learn, score, thresholds_of, free_own, .settings = "|theta|", .holds_images = true, .save = save, .load = load}},
    {{create, learn, score, thresholds_of, free_own, .settings = "|theta|block|"},
     {create, learn, score, thresholds_of, free_own, .settings = "|theta|block|", .save = save, .load = load}},
};

static bool is_good_name(const char *name) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_.";
    enum { NAME_LIMIT = 64 };
    const size_t length = strspn(name, allowed);
    return length && length <= NAME_LIMIT && !name[length] && strcmp(name, "all") != 0;
}

l3a_status own_method(l3a_context *context, const l3a_method *given, struct method *method) {
    l3a_status status = L3A_OK;
    FAIL_IF(!given->name || !given->create || !given->score, context, L3A_ERROR_ARGUMENT, "set them all",
            "a method of the program's own needs name, create and score");
    FAIL_IF(!is_good_name(given->name), context, L3A_ERROR_ARGUMENT, "use letters, digits and +-_. up to 64 of them",
            "'%s' cannot be the name of a method", given->name);
    FAIL_IF(method_find(given->name), context, L3A_ERROR_ARGUMENT, "give it another name", "there is a method '%s' already",
            given->name);
    FAIL_IF(!given->learn == !given->learn_block, context, L3A_ERROR_ARGUMENT, "set one of the two",
            "method '%s' needs learn or learn_block, and not both", given->name);
    FAIL_IF(!given->save != !given->load, context, L3A_ERROR_ARGUMENT, "set both or neither",
            "method '%s' has save or load without the other", given->name);
    *method = (struct method){.info = {given->name, "a method of the program's own", "", "", 1},
                              .plan = given->at_once ? ALL_AT_ONCE : BY_PHASE,
                              .learner = &learners[!given->learn][given->save != NULL],
                              .own = given};
done:
    return status;
}
