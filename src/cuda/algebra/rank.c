/* Images in the order of their scores. */
#include "cuda/algebra/algebra.h"
#include "cuda/algebra/sort.h"

enum { NUMBERS = 1 << 22 }; /* that are sorted at a time, if one class has no more */

static l3a_status make_room(struct device *device, size_t rows, size_t classes, float **scores, struct kernel_ranking *made,
                            size_t *bytes, void **work) {
    const size_t numbers = rows * classes;
    l3a_status status = L3A_OK;
    TRY(device_allocate(device, numbers, sizeof **scores, scores));
    made->scores = *scores;
    TRY(device_allocate(device, numbers, sizeof *made->keys, &made->keys));
    TRY(device_allocate(device, numbers, sizeof *made->sorted, &made->sorted));
    TRY(device_allocate(device, numbers, sizeof *made->images, &made->images));
    TRY(device_allocate(device, numbers, sizeof *made->order, &made->order));
    TRY(device_allocate(device, classes + 1, sizeof *made->offsets, &made->offsets));
    TRY_CUDA(device, kernel_rank(device->stream, made, rows, classes, NULL, bytes));
    TRY(device_allocate(device, *bytes, 1, work));
done:
    return status;
}

/* Some classes at a time, so that it takes little memory. The last ones may be fewer: they need no more room than the others. */
l3a_status cuda_rank(l3a_context *context, const float *scores, size_t rows, size_t classes, uint32_t *order) {
    struct device *device = device_of(context);
    const size_t fit = rows < NUMBERS ? NUMBERS / rows : 1, most = classes < fit ? classes : fit;
    struct kernel_ranking made = {.scores = NULL};
    float *given = NULL;
    void *work = NULL;
    size_t bytes = 0;
    l3a_status status = L3A_OK;
    TRY(make_room(device, rows, most, &given, &made, &bytes, &work));
    for (size_t first = 0; first < classes; first += most) {
        const size_t count = classes - first < most ? classes - first : most, numbers = count * rows;
        TRY(device_put(device, given, scores + first * rows, numbers * sizeof *scores));
        TRY_CUDA(device, kernel_rank(device->stream, &made, rows, count, work, &bytes));
        TRY(device_get(device, order + first * rows, made.order, numbers * sizeof *order));
    }
done:
    device_release(device, given);
    device_release(device, made.keys);
    device_release(device, made.sorted);
    device_release(device, made.images);
    device_release(device, made.order);
    device_release(device, made.offsets);
    device_release(device, work);
    return status;
}
