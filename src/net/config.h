/* What stands beside a checkpoint, or in its metadata, and says what its tensors cannot: how many attention heads there are, which
 * GELU, which mean and deviation. Publishers write it in one of these files:
 *
 *   preprocessor_config.json   transformers: how pictures become numbers
 *   config.json                timm (also pictures) or transformers (the network)
 *   open_clip_config.json      open_clip (both)
 *
 * and a .safetensors file may have l3a.mean, l3a.std, l3a.epsilon, l3a.stride, l3a.heads, l3a.activation, l3a.side, l3a.crop and
 * l3a.filter in its metadata. They are read in this order, and the first that says something wins: where preprocessor_config.json
 * and config.json differ in a mean or a side, the former is what the publisher's own pipeline used.
 *
 * A file that training has made (write.h) has its whole recipe in l3a.preprocess, l3a.pool and l3a.network. Then that is all that
 * is read: what stands beside such a file is most likely the configuration of the one that it came from.
 *
 * Keys that are not known are ignored. A file that cannot be parsed, or that contradicts itself or the tensors, is an error:
 * features of a network that was misread look like any others. The files are looked for beside the path as it was given; symbolic
 * links are not followed, because a cache of downloads is a folder of links. */
#ifndef L3A_CONFIG_H
#define L3A_CONFIG_H

#include "format/checkpoint.h"
#include "net/network.h"

/* Where each field of a recipe comes from: "config.json", …, "metadata"; NULL: not from a configuration. They are constants. */
struct recipe_sources {
    const char *side, *mean, *heads, *activation, *epsilon, *stride; /* mean: and deviation */
    const char *frame, *filter;
    const char *family, *of_family; /* of which family a configuration is, and which one */
    bool recorded;                  /* the whole recipe is in the metadata: what it does not say is as usual */
};

/* What becomes of a picture that is not a square. */
enum config_frame {
    FRAME_UNKNOWN,
    FRAME_SQUASH, /* it becomes one */
    FRAME_CENTRE, /* its longer side is cut */
    FRAME_BORDER  /* its shorter side is filled up */
};

/* How the publisher's pipeline makes a picture fit: only used where the caller wants exactly that. */
struct config_geometry {
    enum config_frame frame;
    double crop; /* the picture's shorter side (squashed: both; border: the longer) becomes ⌊side / crop⌋ pixels, of which `side` in
                    the centre remain; 1: all of them. 0: not known */
    bool down; /* a half of a pixel is rounded down, as transformers does */
    bool has_filter;
    l3a_filter filter;
    char unsupported[96]; /* what cannot be done, such as "config.json: interpolation lanczos"; empty: nothing */
};

/* Fills the fields of a recipe that are 0, as far as a configuration says; those that are known are not even looked at, so that an
 * option helps where a configuration is wrong. mean and deviation are known if any of their numbers is not 0. filter and crop are
 * left alone: *geometry has what is said about them, unless the whole recipe is recorded. */
l3a_status config_apply(l3a_context *context, const struct checkpoint *checkpoint, struct backbone_recipe *recipe,
                        struct recipe_sources *sources, struct config_geometry *geometry);
/* For a caller that wants the publisher's geometry: fails if it is not known, or cannot be done. */
l3a_status config_check_geometry(l3a_context *context, const struct checkpoint *checkpoint, const struct config_geometry *geometry);
/* That geometry, once it has been checked, as a crop and its rules (l3a_crop_rule); the filter is the caller's. */
void config_take_crop(const struct config_geometry *geometry, struct backbone_recipe *recipe);

#endif
