/* Forwarding a failure. A function that can fail keeps its l3a_status in a variable called `status`; TRY jumps to the label `done`
 * on failure, where the function releases what it acquired. */
#ifndef L3A_TRY_H
#define L3A_TRY_H

#include "l3a/l3a.h"

#define TRY(call)                                                                                                                  \
    do {                                                                                                                           \
        status = (call);                                                                                                           \
        if (status != L3A_OK) {                                                                                                    \
            goto done;                                                                                                             \
        }                                                                                                                          \
    } while (0)

#endif
