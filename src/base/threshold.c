#include "base/threshold.h"

#include <math.h>

double logit(double probability) {
    return log(probability / (1 - probability));
}

void same_thresholds(double theta, size_t classes, double *thresholds) {
    for (size_t k = 0; k < classes; k++) {
        thresholds[k] = logit(theta);
    }
}
