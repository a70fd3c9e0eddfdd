/* The settings of a training: what the options say, and for the rest what the recipe says. */
#ifndef L3A_TRAIN_SETTINGS_H
#define L3A_TRAIN_SETTINGS_H

#include "base/memory.h"
#include "image/augment.h"
#include "net/back_end.h"
#include "train/loss.h"
#include "train/optimiser.h"

enum trained_part { TRAIN_ALL, TRAIN_NORMS, TRAIN_LAST, TRAIN_HEAD };

enum { TRAINED_TEXT = 32 };

struct train_settings {
    const char *recipe;
    enum trained_part trained;
    size_t blocks; /* of TRAIN_LAST */
    char trained_text[TRAINED_TEXT];
    size_t epochs, batch;
    double rate, head_rate;
    enum schedule schedule;
    enum optimiser optimiser;
    double momentum; /* 0: that of the schedule */
    double decay;
    double clip; /* 0: none */
    l3a_loss loss;
    struct augmentation augmentation;
    double share; /* of the training pictures that validate */
    bool last;    /* is written, not the best epoch */
    uint64_t seed;
};

/* dataset: its name, such as "voc:VOCdevkit", which one recipe looks at. */
l3a_status settings_complete(l3a_context *context, const l3a_train_options *options, const char *dataset,
                             struct train_settings *settings);
/* Adds all of them as texts, exactly. */
l3a_status settings_record(l3a_context *context, const struct train_settings *settings, text_list *keys, text_list *values);
/* "norms, 10 epochs of 64 pictures, adamw 0.001, …" */
void settings_describe(const struct train_settings *settings, char *text, size_t capacity);

#endif
