/* Model files: safetensors with tensors
 *
 *   gram or inverse [d(d+1)/2]  the lower triangle of A or R, row after row; F64, or F32 by the setting `store`
 *   gram.1, gram.2, …           instead, if there are parts: A of each; F32 in mixed precision, else F64
 *   root.1, root.2, … [n, d]    instead of gram.N, if part N has at most d/2 rows: R with RᵀR = A
 *   cross, weights  [d, K]      C and W; F64
 *   counts          [K]         images of each class; I64
 *   label_weight    [K]         Σ ω over the images labelled with each class; F64
 *   class_weight    [K]         v of each class when its phase was learned, 0 if unknown; F64
 *   gram.unlabelled or root.unlabelled, as those of a part, unlabelled_sum [d], F64, and unlabelled_pictures [n, 2], I64:
 *                               the unlabelled images, if there are any (unlabelled.h); of each picture of the sample its checksum,
 *                               and whether it was judged since
 *
 * where d is dim, plus the width of the features with skip features; and with metadata: format, version, width, classes (one per
 * line), phases (one per line: first last images skipped pseudo-labels eta recursive), parts (one per line: the number of phases
 * that gram.N sums), every setting of a model under its name, and free records as `record.KEY`.
 *
 * Version 1 had no parts and no label_weight, version 2 had no class_weight, and both had fewer settings. Version 4 can have parts
 * whose judged sets are not those of phases: there a line of `parts` goes on with the number of images and the judged classes, as
 * in "1 250 0-3,7". There every phase belongs to one part. In version 5, where images can also be taught, it need not. A model
 * whose parts are phases is written as version 3. Version 6 is version 5 with views: its model takes several rows for an image, and
 * gives pseudo-labels by the combined score. In version 7 the setting `pseudo-from` says by which. Version 8 has unlabelled images:
 * its metadata `unlabelled` has their number, that of the images that they were drawn from, and the trace of their sums. Version 9
 * may have them; its records say something of the network that older versions would not notice. */
#ifndef L3A_FILE_MODEL_H
#define L3A_FILE_MODEL_H

#include "format/tensor.h"
#include "learn/model.h"

extern const char model_format[];       /* "l3a-model" */
extern const char file_record_prefix[]; /* "record." */

enum {
    MODEL_VERSION = 9,
    MODEL_VERSION_OF_UNLABELLED = 8,
    MODEL_VERSION_OF_LABELLED = 7,
    MODEL_VERSION_OF_COMBINED_LABELS = 6,
    MODEL_VERSION_WITHOUT_VIEWS = 5,
    MODEL_VERSION_OF_JUDGED_PHASES = 4,
    MODEL_VERSION_OF_PHASES = 3
};

static inline tensor_type tensor_type_of(real type) {
    return type == REAL_SINGLE ? TENSOR_F32 : TENSOR_F64;
}

/* Reads all but the sums of a model file, and verifies only what it reads. */
l3a_status model_load_to_score(l3a_context *context, const char *path, l3a_model **model);
/* What the sums and coefficients of a model take in its file, without what is small. */
uint64_t model_file_bytes(const l3a_model *model);
/* Checks that no class name of a file is empty or listed twice. */
l3a_status check_class_names(l3a_context *context, const text_list *classes, const char *path);

#endif
