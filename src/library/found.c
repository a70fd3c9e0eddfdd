#include "library/found.h"

l3a_status found_create(l3a_context *context, size_t count, l3a_found **found) {
    l3a_found *made = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    made->context = context;
    made->count = count;
    TRY(allocate(context, count, sizeof *made->ids, &made->ids));
    TRY(allocate(context, count, sizeof *made->ranks, &made->ranks));
    *found = made;
    made = NULL;
done:
    l3a_found_free(made);
    return status;
}

void l3a_found_free(l3a_found *found) {
    if (found) {
        release(found->context, found->ids);
        release(found->context, found->ranks);
        release(found->context, found);
    }
}

size_t l3a_found_count(const l3a_found *found) {
    return found ? found->count : 0;
}

uint64_t l3a_found_id(const l3a_found *found, size_t index) {
    return found && index < found->count ? found->ids[index] : 0;
}

double l3a_found_rank(const l3a_found *found, size_t index) {
    return found && index < found->count ? (double)found->ranks[index] : 0;
}
