/* From pictures, in files or in memory, to features, a batch at a time. Extraction, tagging and teaching share this, so all compute
 * the same features of a picture. A picture that cannot be read does not stop the others. */
#ifndef L3A_INTAKE_H
#define L3A_INTAKE_H

#include "base/views.h"
#include "image/loader.h"

/* The outcome of reading a picture. */
struct arrival {
    l3a_status status;
    uint64_t checksum; /* of its bytes; 0 if those could not be read */
    char error_text[sizeof((l3a_context *)0)->error_text];
    char error_hint[sizeof((l3a_context *)0)->error_hint];
};

struct intake {
    l3a_context *context;
    l3a_backbone *backbone;
    l3a_loader *loader;
    size_t count, good;       /* pictures in the batch, and those that could be read */
    struct arrival *arrivals; /* of the batch */
    float *planes;            /* of the good ones, those views that the network has not seen */
    float *features;          /* the caller's */
    size_t run;               /* views that the network computes at a time */
    size_t views, room, held; /* rows of an image; views for which planes has room, and those it holds */
    size_t done;              /* views of the batch that have features */
};

/* batch: the largest batch that will be loaded. The pictures must outlive the intake. */
l3a_status intake_open(l3a_context *context, l3a_backbone *backbone, const l3a_loader_options *options,
                       const struct picture_source *pictures, size_t count, size_t batch, struct intake *intake);
/* Loads the next pictures and computes the features of the good ones, one after another: [good x rows of an image x width]. There
 * is room for those of `count` pictures. A picture's features depend on the batch it is in, in their last bits. */
l3a_status intake_next(struct intake *intake, size_t count, float *features);
void intake_close(struct intake *intake);

/* What of a device changes the last bits of the features of `count` views: "cuda, batches of 256, …"; "" on the processor. */
enum { ENGINE_TEXT = 256 };
void print_engine(const l3a_backbone *backbone, size_t count, char text[ENGINE_TEXT]);

/* How the features of a network are recorded, in the order of `provenance` (features.h). */
struct backbone_record {
    char preprocess[160];
    const char *values[5]; /* the last may be NULL */
};

void backbone_record(const l3a_backbone_info *info, bool orient, struct backbone_record *record);
/* The options with which a backbone and its pictures are recorded like this, as far as that can be told; the defaults for the rest.
 * Each text may be NULL. */
void backbone_record_read(const char *preprocess, const char *pool, const char *network, l3a_backbone_options *options,
                          int *orient);

#endif
