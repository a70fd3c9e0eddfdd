#include "train/settings.h"

#include "common/closest.h"
#include "common/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const optimiser_names[] = {
    [OPTIMISER_SGD] = "sgd", [OPTIMISER_ADAM] = "adam", [OPTIMISER_ADAMW] = "adamw", NULL};
static const char *const schedule_names[] = {
    [SCHEDULE_ONE_CYCLE] = "one-cycle", [SCHEDULE_COSINE] = "cosine", [SCHEDULE_CONSTANT] = "constant", NULL};
static const char *const loss_names[] = {[L3A_LOSS_ASYMMETRIC] = "asl", [L3A_LOSS_BINARY] = "bce", NULL};
static const char *const trained_names[] = {
    [TRAIN_ALL] = "all", [TRAIN_NORMS] = "norms", [TRAIN_LAST] = "last:N", [TRAIN_HEAD] = "head", NULL};

/* The first is used by default. What a table leaves at 0 is 0. */
static const struct {
    l3a_train_recipe info;
    struct train_settings settings;
} recipes[] = {
    {{"norms",
      "norms and all biases, 10 epochs with crops and flips: for a pretrained network and at least some hundreds of pictures"},
     {.trained = TRAIN_NORMS,
      .trained_text = "norms",
      .epochs = 10,
      .batch = 64,
      .rate = 1e-3,
      .head_rate = 1e-2,
      .optimiser = OPTIMISER_ADAMW,
      .decay = 0.01,
      .augmentation = {.least = 0.5, .most = 1, .ratio = 4.0 / 3, .flip = true},
      .share = 0.1}},
    {{"released", "what the paper's program does: one epoch of everything, without augmentation"},
     {.trained = TRAIN_ALL,
      .trained_text = "all",
      .epochs = 1,
      .batch = 64,
      .rate = 4e-5,
      .head_rate = 4e-5,
      .optimiser = OPTIMISER_ADAM,
      .decay = 1e-4}},
};

enum { RECIPES = sizeof recipes / sizeof *recipes };

const l3a_train_recipe *l3a_train_recipe_at(size_t index) {
    return index < RECIPES ? &recipes[index].info : NULL;
}

/* ---- What the options say ---- */

static l3a_status fail_choice(l3a_context *context, const char *name, const char *given, const char *const *choices) {
    char hint[256], all[160];
    size_t count = 0, length = 0;
    for (; choices[count]; count++) {
        length += (size_t)snprintf(all + length, sizeof all - length, "%s%s", count ? ", " : "use ", choices[count]);
    }
    return fail(context, L3A_ERROR_OPTION, suggest_closest(hint, sizeof hint, given, choices, count, all),
                "training has no %s '%.100s'", name, given);
}

/* Sets *index to that of the given among the choices; NULL: it stays. */
static l3a_status choose(l3a_context *context, const char *name, const char *given, const char *const *choices, size_t *index) {
    for (size_t i = 0; given && choices[i]; i++) {
        if (strcmp(choices[i], given) == 0) {
            *index = i;
            return L3A_OK;
        }
    }
    return given ? fail_choice(context, name, given, choices) : L3A_OK;
}

/* Sets a number of which 0 means that it stays, and one below 0 means 0. */
static l3a_status set_number(l3a_context *context, const char *name, double given, double most, double *number) {
    if (!(given <= most)) {
        char text[NUMBER_TEXT];
        return fail(context, L3A_ERROR_OPTION, NULL, "the %s of a training must be a number of at most %s", name,
                    number_format(most, text));
    }
    *number = given > 0 ? given : given < 0 ? 0 : *number;
    return L3A_OK;
}

static l3a_status set_trained(l3a_context *context, const char *given, struct train_settings *settings) {
    static const char last[] = "last:";
    const size_t prefix = sizeof last - 1;
    l3a_status status = L3A_OK;
    uint64_t blocks;
    if (given && strncmp(given, last, prefix) == 0) {
        FAIL_IF(!integer_parse(given + prefix, strlen(given + prefix), &blocks) || blocks < 1 || blocks > 1000000, context,
                L3A_ERROR_OPTION, "give the number of blocks, as in last:2", "training: '%.100s' names no number of blocks", given);
        settings->trained = TRAIN_LAST;
        settings->blocks = (size_t)blocks;
        snprintf(settings->trained_text, sizeof settings->trained_text, "%s%zu", last, settings->blocks);
    } else if (given) {
        size_t index = TRAIN_ALL;
        TRY(choose(context, "part of a network called", given, trained_names, &index));
        settings->trained = (enum trained_part)index;
        snprintf(settings->trained_text, sizeof settings->trained_text, "%s", trained_names[index]);
    }
done:
    return status;
}

static l3a_status set_augmentation(l3a_context *context, const l3a_train_options *options, struct augmentation *augmentation) {
    l3a_status status = L3A_OK;
    if (options->least_area < 0) {
        FAIL_IF(options->most_area > 0, context, L3A_ERROR_OPTION, "leave the largest area out",
                "training: crops have a largest area, and there are none");
        augmentation->least = augmentation->most = augmentation->ratio = 0;
    } else if (options->least_area > 0 || options->most_area > 0) {
        augmentation->most = augmentation->most > 0 ? augmentation->most : 1;
        TRY(set_number(context, "largest area of crops", options->most_area, 1, &augmentation->most));
        TRY(set_number(context, "smallest area of crops", options->least_area, 1, &augmentation->least));
        augmentation->ratio = 4.0 / 3;
    }
    augmentation->flip = options->flip > 0 || (augmentation->flip && options->flip == 0);
    TRY(set_number(context, "cutout", options->cutout, 1, &augmentation->cutout));
    TRY(augmentation_check(context, augmentation));
done:
    return status;
}

static l3a_status set_sizes(l3a_context *context, const l3a_train_options *options, struct train_settings *settings) {
    enum { MOST_EPOCHS = 1000000, MOST_BATCH = 65536 };
    l3a_status status = L3A_OK;
    FAIL_IF(options->epochs > MOST_EPOCHS || options->batch > MOST_BATCH, context, L3A_ERROR_OPTION, NULL,
            "training has at most %d epochs, and %d pictures in a batch", MOST_EPOCHS, MOST_BATCH);
    settings->epochs = options->epochs ? options->epochs : settings->epochs;
    settings->batch = options->batch ? options->batch : settings->batch;
    settings->last = options->keep_last != 0;
    settings->seed = options->seed;
done:
    return status;
}

static l3a_status set_numbers(l3a_context *context, const l3a_train_options *options, struct train_settings *settings) {
    l3a_status status = L3A_OK;
    FAIL_IF(options->rate < 0 || options->head_rate < 0 || options->momentum < 0 || options->momentum >= 1, context,
            L3A_ERROR_OPTION, NULL, "training: a rate is above 0, and a momentum from 0 to below 1");
    TRY(set_number(context, "rate", options->rate, 1e6, &settings->rate));
    TRY(set_number(context, "rate of the head", options->head_rate, 1e6, &settings->head_rate));
    TRY(set_number(context, "momentum", options->momentum, 1, &settings->momentum));
    TRY(set_number(context, "decay", options->decay, 1e6, &settings->decay));
    TRY(set_number(context, "clip", options->clip, 1e30, &settings->clip));
    TRY(set_number(context, "validation share", options->validation_share, 0.9, &settings->share));
done:
    return status;
}

static l3a_status set_choices(l3a_context *context, const l3a_train_options *options, struct train_settings *settings) {
    size_t optimiser = settings->optimiser, schedule = settings->schedule, loss = settings->loss;
    l3a_status status = L3A_OK;
    TRY(choose(context, "optimiser", options->optimiser, optimiser_names, &optimiser));
    TRY(choose(context, "schedule", options->schedule, schedule_names, &schedule));
    TRY(choose(context, "loss", options->loss, loss_names, &loss));
    settings->optimiser = (enum optimiser)optimiser;
    settings->schedule = (enum schedule)schedule;
    settings->loss = (l3a_loss)loss;
done:
    return status;
}

l3a_status settings_complete(l3a_context *context, const l3a_train_options *options, const char *dataset,
                             struct train_settings *settings) {
    const char *names[RECIPES + 1] = {NULL};
    l3a_status status = L3A_OK;
    size_t index = 0;
    for (size_t i = 0; i < RECIPES; i++) {
        names[i] = recipes[i].info.name;
    }
    TRY(choose(context, "recipe", options->recipe, names, &index));
    *settings = recipes[index].settings;
    settings->recipe = names[index];
    if (strcmp(settings->recipe, "released") == 0 && strncmp(dataset, "voc:", 4) == 0) {
        settings->decay = 1e-5; /* the paper's program has one for each of its two data sets */
    }
    TRY(set_trained(context, options->trained, settings));
    TRY(set_sizes(context, options, settings));
    TRY(set_numbers(context, options, settings));
    TRY(set_choices(context, options, settings));
    TRY(set_augmentation(context, options, &settings->augmentation));
done:
    return status;
}

/* ---- Texts ---- */

l3a_status settings_record(l3a_context *context, const struct train_settings *settings, text_list *keys, text_list *values) {
    const struct augmentation *changes = &settings->augmentation;
    const struct {
        const char *key, *text;
        double number;
    } items[] = {{"recipe", settings->recipe, 0},
                 {"trained", settings->trained_text, 0},
                 {"epochs", NULL, (double)settings->epochs},
                 {"batch", NULL, (double)settings->batch},
                 {"rate", NULL, settings->rate},
                 {"head rate", NULL, settings->head_rate},
                 {"schedule", schedule_names[settings->schedule], 0},
                 {"optimiser", optimiser_names[settings->optimiser], 0},
                 {"momentum", settings->momentum > 0 ? NULL : "as scheduled", settings->momentum},
                 {"decay", NULL, settings->decay},
                 {"clip", settings->clip > 0 ? NULL : "none", settings->clip},
                 {"loss", loss_names[settings->loss], 0},
                 {"least area", changes->most > 0 ? NULL : "none", changes->least},
                 {"most area", changes->most > 0 ? NULL : "none", changes->most},
                 {"flip", changes->flip ? "yes" : "no", 0},
                 {"cutout", NULL, changes->cutout},
                 {"validation share", NULL, settings->share},
                 {"epoch written", settings->last ? "last" : "best", 0}};
    l3a_status status = L3A_OK;
    char text[NUMBER_TEXT];
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        TRY(text_record_set(context, keys, values, items[i].key,
                            items[i].text ? items[i].text : number_format(items[i].number, text)));
    }
    snprintf(text, sizeof text, "%llu", (unsigned long long)settings->seed);
    TRY(text_record_set(context, keys, values, "seed", text));
done:
    return status;
}

/* What is trained, in words. */
static const char *describe_trained(const struct train_settings *settings, char *text, size_t capacity) {
    switch (settings->trained) {
    case TRAIN_ALL: return "everything";
    case TRAIN_NORMS: return "norms and biases";
    case TRAIN_LAST:
        snprintf(text, capacity, settings->blocks == 1 ? "the last block" : "the last %zu blocks", settings->blocks);
        return text;
    default: return "the head alone";
    }
}

void settings_describe(const struct train_settings *settings, char *text, size_t capacity) {
    const struct augmentation *changes = &settings->augmentation;
    char rate[NUMBER_TEXT], head[NUMBER_TEXT], decay[NUMBER_TEXT], least[NUMBER_TEXT], most[NUMBER_TEXT], crops[96] = "",
                                                                                                          blocks[40];
    if (changes->most > 0) {
        snprintf(crops, sizeof crops, ", crops of %s to %s of the area", number_format(changes->least, least),
                 number_format(changes->most, most));
    }
    snprintf(text, capacity, "recipe %s: %s, %zu epoch%s of batches of %zu, %s %s (head %s), decay %s, %s, %s%s%s%s",
             settings->recipe, describe_trained(settings, blocks, sizeof blocks), settings->epochs,
             settings->epochs == 1 ? "" : "s", settings->batch, optimiser_names[settings->optimiser],
             number_format(settings->rate, rate), number_format(settings->head_rate, head), number_format(settings->decay, decay),
             schedule_names[settings->schedule], loss_names[settings->loss], crops, changes->flip ? ", flips" : "",
             changes->cutout > 0 ? ", cutout" : "");
}
