/* With c = aᵀb / (|a||b|), the gradient of 1 − c by a is c a/|a|² − b/(|a||b|). */
#include "method/published.h"

#include "data/dataset.h"

#include <math.h>
#include <string.h>

const struct trained_tuning published_tuning = {.epochs = 20,
                                                .batch = 64,
                                                .backbone_rate = 4e-5,
                                                .first_rate = 1e-2,
                                                .rate = 1e-2,
                                                .schedule = SCHEDULE_ONE_CYCLE,
                                                .optimiser = OPTIMISER_ADAM,
                                                .decay = 1e-4,
                                                .augmentation = {.cutout = 0.5}};

bool learns_coco(const struct head *head) {
    static const char coco[] = "coco:";
    return strncmp(head->network->source->train.dataset->name, coco, sizeof coco - 1) == 0;
}

void choose_later_rate(struct head *head) {
    struct trained_tuning *tuning = &head->network->tuning;
    if (tuning->later <= 0) {
        tuning->later = learns_coco(head) ? 2.5 : 1;
    }
}

double share_of_old(const struct head *head) {
    return sqrt((double)head->classes / (double)(head->classes - head->old));
}

void add_away_from(size_t rows, size_t columns, size_t stride, const float *now, const float *before, double weight,
                   float *gradient) {
    double product = 0, square = 0, other = 0;
    for (size_t i = 0; i < rows * columns; i++) {
        const double a = (double)now[i / columns * stride + i % columns], b = (double)before[i];
        product += a * b;
        square += a * a;
        other += b * b;
    }
    if (square <= 0 || other <= 0) {
        return;
    }
    const double of_before = weight / sqrt(square * other), of_now = of_before * product / square;
    for (size_t i = 0; i < rows * columns; i++) {
        const size_t at = i / columns * stride + i % columns;
        gradient[at] += (float)(of_now * (double)now[at] - of_before * (double)before[i]);
    }
}
