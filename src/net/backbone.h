/* Opens a backbone from a table of tensors instead of a file, on a back end of the caller's choice. The public calls and the tests
 * are built on this. */
#ifndef L3A_BACKBONE_H
#define L3A_BACKBONE_H

#include "net/back_end.h"
#include "net/config.h"

struct l3a_backbone {
    l3a_context *context;
    const struct network_back_end *back_end;
    void *state; /* of the back end */
    l3a_backbone_info info;
    bool borrows; /* the network, and its packed parameters, of another backbone */
};

/* What a table of tensors turned out to be. */
struct reading {
    const struct family *family;
    struct backbone_recipe recipe;
    struct recipe_sources sources;
    struct network network; /* not fused yet; the caller frees it, also after a failure */
    char decided[sizeof((l3a_backbone_info *)0)->decided], skipped[sizeof((l3a_backbone_info *)0)->skipped];
};

/* Recognises the network in a table of tensors of any naming, with what stands beside its file, and describes it. */
l3a_status backbone_read(l3a_context *context, const struct parameter_source *source, const l3a_backbone_options *options,
                         struct reading *reading);
/* The same of a network that is changed. */
l3a_status backbone_read_changed(l3a_context *context, const struct parameter_source *source, const l3a_backbone_options *options,
                                 const struct network_changes *changes, struct reading *reading);
/* NULL options: the defaults. */
l3a_status backbone_open_from(l3a_context *context, const struct parameter_source *source, const struct network_back_end *back_end,
                              const l3a_backbone_options *options, l3a_backbone **backbone);
/* Opens a checkpoint whose SHA-256 a model has recorded. If the file has another one, *backbone is NULL, and nothing else has
 * failed. found: the SHA-256 of the file. sha256 may be NULL: any file will do. */
l3a_status backbone_open_known(l3a_context *context, const char *path, const char *sha256, const l3a_backbone_options *options,
                               char found[65], l3a_backbone **backbone);
/* Opens the network whose tensors are in a safetensors file, with the prefix before their names, among other tensors. sha256 is
 * that of the checkpoint they came from; it may be NULL. */
l3a_status backbone_open_inside(l3a_context *context, const char *path, const char *prefix, const char *sha256,
                                const l3a_backbone_options *options, l3a_backbone **backbone);
/* How many pictures to give it at a time. */
size_t backbone_batch(const l3a_backbone *backbone);
/* Makes a second backbone, for another thread, with the parameters of the first, which must outlive it. The context must have as
 * many threads as the first one's: the layout of the parameters may depend on their number. */
l3a_status backbone_share(l3a_context *context, const l3a_backbone *first, l3a_backbone **backbone);

#endif
