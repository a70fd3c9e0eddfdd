/* The picture of a row of a data set, for programs that look at it themselves. */
#include "base/memory.h"
#include "base/sized.h"
#include "data/dataset.h"
#include "image/picture.h"

l3a_status l3a_dataset_picture(const l3a_dataset *dataset, size_t row, const l3a_picture_options *options, l3a_picture *picture) {
    REQUIRE(dataset, dataset, picture);
    l3a_context *context = dataset->context;
    l3a_status status = L3A_OK;
    l3a_picture_options own;
    TRY(picture_options_read(context, options, &own));
    TRY(CHECK_SIZED(context, picture));
    FAIL_IF(row >= dataset->ids.count, context, L3A_ERROR_ARGUMENT, NULL, "the data set has %zu rows, and no row %zu",
            dataset->ids.count, row);
    const struct picture_source source = dataset_source(dataset, row);
    TRY(picture_read_source(context, &source, &own, picture));
done:
    return status;
}
