/* Packed models: files that hold what scoring needs, and nothing else. No sum over images is in them, so they cannot learn.
 *
 * safetensors with tensors
 *
 *   weights     [d, K]   W, each column divided by its scale; F16 or I8
 *   scale       [K]      F64
 *   thresholds  [K]      F64
 *   backbone.NAME        the tensors of the backbone's checkpoint, if it is packed too; F32 or F16
 *
 * and metadata: format, version, width, classes (one per line), the settings that define the rows (dim, seed, precision,
 * skip-features and, from version 2 on, views), and `record.KEY` for how features are made. A model without views is packed as
 * version 1.
 *
 * Rounding. In float16 the scale of a column is a power of two that puts its largest coefficient between 2^14 and 2^15, so that
 * coefficients up to 2^28 times smaller keep 11 bits. The score of a row x changes by at most Σ |x_i| (2^-11 |w_i| + scale 2^-25).
 * In int8 the scale is the largest coefficient divided by 127, and a score changes by at most scale/2 Σ |x_i|. */
#ifndef L3A_FILE_PACKED_H
#define L3A_FILE_PACKED_H

#include "format/safetensors.h"
#include "learn/scorer.h"

extern const char packed_backbone_prefix[]; /* "backbone." */

/* What goes into a packed file besides the model. */
struct packing {
    l3a_pack_type type;
    const text_list *record_keys, *record_values;
    const char *backbone; /* path of the checkpoint; NULL: none */
    bool half;            /* its tensors as float16 */
};

/* Writes the file atomically. The model may have been loaded only to score. */
l3a_status packed_write(const l3a_model *model, const struct packing *packing, const char *path);
/* Whether the file is a packed model, of whatever version. */
bool packed_recognise(const safetensors *file);
l3a_status packed_load(const safetensors *file, const struct scorer *before, struct scorer **scorer);

#endif
