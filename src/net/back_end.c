/* The table of back ends, and the choice between them. */
#include "net/back_end.h"
#include "base/plugin.h"
#include "net/cpu/cpu.h"

static const struct network_back_end *const back_ends[] = {
    &onednn_back_end,
    &blas_back_end,
};

const struct network_back_end *network_back_end_at(size_t index) {
    return index < sizeof back_ends / sizeof *back_ends ? back_ends[index] : NULL;
}

const struct network_back_end *network_back_end_best(void) {
    size_t i = 0;
    while (!back_ends[i]->available()) {
        i++;
    }
    return back_ends[i];
}

const struct network_back_end *network_back_end_of_device(const l3a_context *context) {
    const struct network_back_end *back_end = context->plugin ? context->plugin->network : NULL;
    return back_end && back_end->available() ? back_end : NULL;
}

const struct network_back_end *network_back_end_of(const l3a_context *context) {
    const struct network_back_end *back_end = network_back_end_of_device(context);
    return back_end ? back_end : network_back_end_best();
}

bool network_back_end_supports(const struct network_back_end *back_end, const struct network_use *use) {
    return back_end->supports ? back_end->supports(use) : use->numbers == NUMBER_FLOAT32;
}
