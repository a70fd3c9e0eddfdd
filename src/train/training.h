/* The training of a network with a linear head: what belongs together while it lasts. training.c opens it, epochs.c trains,
 * training_state.c keeps it in a file so that it can be resumed, and train.c is the public call. */
#ifndef L3A_TRAINING_H
#define L3A_TRAINING_H

#include "net/backbone.h"
#include "train/batches.h"
#include "train/examples.h"
#include "train/linear_head.h"
#include "train/selection.h"

/* What an epoch came to. */
struct epoch_result {
    double loss, mean_ap, seconds;
};

/* How far the training is. */
struct training_position {
    uint64_t steps;  /* made */
    uint64_t epochs; /* done: validated, and their results known */
    uint64_t best;   /* epoch, from 1, whose values are kept; 0: none */
    double sum;      /* of the losses of this epoch's pictures so far … */
    double seconds;  /* … and what it has taken */
};

struct training {
    l3a_context *context;
    struct train_settings settings;
    l3a_backbone_options backbone;
    l3a_picture_options picture;
    struct checkpoint *checkpoint;
    char sha256[65]; /* of it */
    struct reading reading;
    l3a_backbone_info info;
    const struct network_back_end *back_end;
    struct network_plan plan;
    enum number_type numbers;
    void *state; /* of the back end */
    struct selection selection;
    text_list classes;
    struct examples train, held;
    struct batches *batches, *validation;
    struct linear_head head;
    size_t steps; /* of an epoch */
    struct training_position position;
    struct epoch_result *results;  /* of the epochs that are done */
    uint64_t resumed;              /* epochs that earlier calls have done */
    float *best, *best_head;       /* values of the changed parameters, if there are any, and of the head, after the best epoch;
                                      NULL: the last epoch is written */
    float *features, *by_features; /* [batch x width] */
    float *scores, *by_scores;     /* [batch x classes] */
    int8_t *labels;                /* [batch x classes] */
    float *held_scores;            /* [held x classes] */
    int8_t *held_labels;           /* [held x classes] */
    char *command;                 /* of the first call; NULL: none */
    const char *path;              /* of the state */
    double save_seconds, saved;    /* when the state was written last */
    l3a_train_epoch_callback *on_epoch;
    void *epoch_user;
    uint64_t shown;          /* pictures in the steps of this call … */
    double stepping, waited; /* … and the seconds that they took, and that steps waited for them */
};

/* Reads the checkpoint, chooses pictures and parameters, and plans. Close it even if this fails. */
l3a_status training_open(l3a_context *context, const struct network_back_end *back_end, const char *checkpoint,
                         const l3a_dataset *train, const l3a_dataset *validation, const l3a_train_options *options,
                         struct training *training);
/* Opens what training takes besides. */
l3a_status training_start(struct training *training);
void training_close(struct training *training);
/* Trains to the end, from where it is. When it is cancelled, the state is written. */
l3a_status training_run(struct training *training);
/* The values that are written at the end: those of the best epoch, or as they are. */
l3a_status training_value(void *training, size_t layer, enum parameter_kind kind, float *values);
const float *training_head(const struct training *training);
/* What the checkpoint records of the training. */
l3a_status training_record(const struct training *training, text_list *keys, text_list *values);

/* Writes the state to its path. */
l3a_status training_state_write(struct training *training);
/* How many threads the training in a state has. */
l3a_status training_state_threads(l3a_context *context, const char *path, int *threads);
/* Goes on from the state at the path, if that is one of the same training. */
l3a_status training_state_read(struct training *training);

/* l3a_train_prepare() and l3a_train() with a back end of the caller's choice. */
l3a_status train_prepare(l3a_context *context, const struct network_back_end *back_end, const char *checkpoint,
                         const l3a_dataset *train, const l3a_dataset *validation, const l3a_train_options *options,
                         l3a_train_plan *plan);
l3a_status train_with(l3a_context *context, const struct network_back_end *back_end, const char *checkpoint,
                      const l3a_dataset *train, const l3a_dataset *validation, const l3a_train_options *options, const char *path,
                      l3a_train_report *report);

#endif
