/* With ν degrees of freedom, P(|T| ≥ t) = I_x(ν/2, 1/2) at x = ν/(ν + t²), where I is the regularized incomplete beta function:
 *
 *   I_x(a, b) = xᵃ (1 − x)ᵇ / (a B(a, b)) · 1/(1 + e₁/(1 + e₂/(1 + …)))
 *   e₂ₘ = m (b − m) x / ((a + 2m − 1)(a + 2m)),   e₂ₘ₊₁ = −(a + m)(a + b + m) x / ((a + 2m)(a + 2m + 1))
 *
 * The fraction converges quickly for x < (a + 1)/(a + b + 2); otherwise I_x(a, b) = 1 − I_{1−x}(b, a). It is evaluated from the
 * front, as a product of ratios of successive convergents (Lentz). 1 − x = t²/(ν + t²) is passed in, so that small t lose no
 * digits. */
#include "measure/student.h"

#include <float.h>
#include <math.h>

/* The fraction 1 + e₁/(1 + e₂/(1 + …)). */
static double beta_fraction(double a, double b, double x) {
    enum { TERMS = 100000 }; /* it takes about √a of them */
    double above = 1, below = 0, product = 1;
    for (int i = 1; i < TERMS; i++) {
        const double m = i / 2;
        const double e = i % 2 ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
                               : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        below = 1 / fmax(1 + e * below, DBL_MIN);
        above = 1 + e / above;
        product *= above * below;
        if (fabs(above * below - 1) < 1e-16) {
            break;
        }
    }
    return product;
}

/* B(ν/2, 1/2), from B(1/2, 1/2) = π or B(1, 1/2) = 2 by B(a + 1, b) = B(a, b) a/(a + b). */
static double beta_half(size_t degrees) {
    double beta = degrees % 2 ? acos(-1) : 2;
    for (double a = degrees % 2 ? 0.5 : 1; a < (double)degrees / 2; a++) {
        beta *= a / (a + 0.5);
    }
    return beta;
}

double student_tail(double t, size_t degrees) {
    const double a = (double)degrees / 2, b = 0.5, square = t * t;
    if (isnan(t)) {
        return t;
    }
    if (isinf(square)) {
        return 0;
    }
    const double x = (double)degrees / ((double)degrees + square), rest = square / ((double)degrees + square);
    const double front = pow(x, a) * sqrt(rest) / beta_half(degrees);
    return x < (a + 1) / (a + b + 2) ? front / (a * beta_fraction(a, b, x)) : 1 - front / (b * beta_fraction(b, a, rest));
}

double student_quantile(double tail, size_t degrees) {
    double low = 0, high = 1;
    while (student_tail(high, degrees) > tail) {
        high *= 2;
    }
    for (double middle = high / 2; middle > low && middle < high; middle = (low + high) / 2) {
        *(student_tail(middle, degrees) > tail ? &low : &high) = middle;
    }
    return high;
}
