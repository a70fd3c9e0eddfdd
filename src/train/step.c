#include "train/step.h"

#include <math.h>

void optimiser_step(const struct network_step *step, const struct parameter_use *use, size_t count, const float *gradient,
                    float *moment, float *square, float *values) {
    const bool sgd = step->optimiser == OPTIMISER_SGD, apart = step->optimiser == OPTIMISER_ADAMW;
    const double number = (double)step->number, rate = step->rate * (double)use->rate;
    const double correction = sqrt(1 - pow(step->square, number)), small = step->epsilon;
    const float scale = (float)step->scale, decay = apart ? 0 : use->decay, shrink = apart ? (float)(rate * (double)use->decay) : 0;
    const float keep = (float)step->momentum, fresh = (float)(1 - step->momentum), fresh_square = (float)(1 - step->square);
    const float length = (float)(sgd ? rate : rate / (1 - pow(step->momentum, number)));
    const float *restrict g = gradient;
    float *restrict m = moment, *restrict v = square, *restrict w = values;
    if (sgd) {
        for (size_t i = 0; i < count; i++) {
            m[i] = keep * m[i] + (scale * g[i] + decay * w[i]);
            w[i] -= length * m[i];
        }
        return;
    }
    const float back = (float)(1 / correction), tiny = (float)small;
    for (size_t i = 0; i < count; i++) {
        const float slope = scale * g[i] + decay * w[i];
        w[i] -= shrink * w[i];
        m[i] += fresh * (slope - m[i]);
        v[i] += fresh_square * (slope * slope - v[i]);
        w[i] -= length * m[i] / (sqrtf(v[i]) * back + tiny);
    }
}
