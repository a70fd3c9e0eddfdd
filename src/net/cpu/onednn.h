/* What the files on oneDNN share. No others use its interface. */
#ifndef L3A_NET_ONEDNN_H
#define L3A_NET_ONEDNN_H

#ifdef L3A_HAVE_ONEDNN
#include "net/cpu/train_products.h"

#include <dnnl.h>

struct onednn {
    l3a_context *context;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    size_t block; /* of channels */
};

/* In a function with `state`, `status` and `done`. */
#define CHECK(call)                                                                                                                \
    do {                                                                                                                           \
        const dnnl_status_t result = (call);                                                                                       \
        if (result != dnnl_success) {                                                                                              \
            status = onednn_refused(state, result, #call);                                                                         \
            goto done;                                                                                                             \
        }                                                                                                                          \
    } while (0)

l3a_status onednn_refused(const struct onednn *state, dnnl_status_t result, const char *call);
l3a_status onednn_open(l3a_context *context, void **opened);
void onednn_close(void *opaque);
/* The block size for a value that a kernel produces and a convolution reads. */
size_t onednn_block(const void *state, size_t channels);
/* oneDNN's description of a value; `any` leaves the layout open. */
dnnl_status_t onednn_map_form(const struct layout *layout, size_t batch, bool any, dnnl_memory_desc_t *form);
/* The factors in the layout of the checkpoint, or of a type whose layout is left open. */
l3a_status onednn_factor_form(const struct onednn *state, const struct net_layer *layer, bool any, enum number_type number,
                              dnnl_memory_desc_t *form);
/* How many groups of a convolution are computed as one. */
size_t onednn_joined_groups(const struct onednn *state, const struct net_layer *layer);
/* Where the factors of an output channel begin among those of joined groups, which have zeros between them. */
size_t onednn_spread_place(const struct net_layer *layer, size_t joined, size_t out);

extern const struct products onednn_products;
extern const struct train_products onednn_train_products;
#endif

#endif
