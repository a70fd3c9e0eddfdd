/* What methods that train the backbone of a run look at: its network, and the pictures of its tables. */
#ifndef L3A_TRAINING_SOURCE_H
#define L3A_TRAINING_SOURCE_H

#include "train/picture_rows.h"

struct checkpoint;
struct network_back_end;

struct training_source {
    struct checkpoint *checkpoint;
    l3a_backbone_options backbone;
    l3a_picture_options picture;
    l3a_backbone_info info;    /* of the network as it is in the checkpoint … */
    l3a_loader_options loader; /* … and of its pictures */
    struct picture_rows train, test;
    const struct network_back_end *back_end;
    uint64_t memory; /* bytes that a training may take; 0: as many as the back end finds */
};

/* The datasets and what `backbone` and `picture` point to must outlive the source; tables are those of a run. */
l3a_status training_source_open(l3a_context *context, const char *checkpoint, const l3a_backbone_options *backbone,
                                const l3a_picture_options *picture, l3a_features *train, const l3a_dataset *train_pictures,
                                l3a_features *test, const l3a_dataset *test_pictures, struct training_source *source);
void training_source_close(struct training_source *source);

/* A back end that trains: that of the context's device, or else of the processor; NULL if there is none. */
const struct network_back_end *training_back_end(const l3a_context *context);
/* The bytes that are allowed, or else free, where a back end trains; 0: it knows itself what is free. */
uint64_t training_memory(const l3a_context *context, const struct network_back_end *back_end);

#endif
