/* Learned positions of a vision transformer for pictures of another size than it was trained with. */
#ifndef L3A_POSITIONS_H
#define L3A_POSITIONS_H

#include "base/context.h"

enum positions_method {
    POSITIONS_ANTIALIASED, /* timm, and DINOv2 with registers */
    POSITIONS_OFFSET       /* DINO and DINOv2 without registers, by their authors */
};

/* Positions are rows of numbers [side · side][channels]. from and to must not overlap. */
l3a_status positions_resize(l3a_context *context, const float *from, size_t channels, size_t old_side, size_t new_side,
                            enum positions_method method, float *to);

#endif
