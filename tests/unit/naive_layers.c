/* Most layers are sums of terms,
 *     output[o] = Σ source[i] · factor,
 * where the source is an input, or 1, and the factor is a constant, or a parameter. Each of these kinds lists its terms once;
 * forward adds them up, and backward adds
 *     d source[i] += factor · d output[o],     d factor += source[i] · d output[o].
 * The other kinds are the maxima, activation, batch norm, layer norm, attention, squeeze and excite, unit tokens, and cosines. */
#include "naive_layers.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum source { INPUT, SECOND, ONE };

struct term {
    size_t output, at; /* which number of the output and of the source */
    enum source source;
    int kind;      /* of the parameter that is the factor; -1: it is a constant */
    size_t factor; /* which number of the parameter */
    double constant;
};

struct pass {
    struct naive_layer *layer;
    const double *input, *second, *out_gradient;
    double *output, *in_gradient, *second_gradient; /* NULL if not wanted */
};

static size_t place(struct shape shape, size_t c, size_t y, size_t x) {
    return (c * shape.height + y) * shape.width + x;
}

static void visit(const struct pass *pass, const struct term *term) {
    struct naive_layer *layer = pass->layer;
    const double factor = term->kind < 0 ? term->constant : layer->parameters[term->kind][term->factor];
    const double source = term->source == ONE ? 1 : (term->source == INPUT ? pass->input : pass->second)[term->at];
    if (pass->output) {
        pass->output[term->output] += source * factor;
        return;
    }
    double *gradient = term->source == INPUT ? pass->in_gradient : term->source == SECOND ? pass->second_gradient : NULL;
    if (gradient) {
        gradient[term->at] += factor * pass->out_gradient[term->output];
    }
    if (term->kind >= 0) {
        layer->gradients[term->kind][term->factor] += source * pass->out_gradient[term->output];
    }
}

static void copy_term(const struct pass *pass, size_t output, enum source source, size_t at, double constant) {
    visit(pass, &(struct term){.output = output, .source = source, .at = at, .kind = -1, .constant = constant});
}

static void parameter_term(const struct pass *pass, size_t output, enum source source, size_t at, enum parameter_kind kind,
                           size_t factor) {
    if (pass->layer->parameters[kind]) {
        visit(pass, &(struct term){.output = output, .source = source, .at = at, .kind = (int)kind, .factor = factor});
    }
}

/* ---- Kinds that are sums of terms: those of one number of the output ---- */

static void convolution_terms(const struct pass *pass, size_t c, size_t y, size_t x) {
    const struct net_layer *what = &pass->layer->what;
    const size_t inputs = what->from.channels / what->groups, outputs = what->to.channels / what->groups;
    const size_t output = place(what->to, c, y, x);
    for (size_t i = 0; i < inputs; i++) {
        for (size_t dy = 0; dy < what->kernel; dy++) {
            for (size_t dx = 0; dx < what->kernel; dx++) {
                const size_t row = y * what->stride + dy - what->padding, column = x * what->stride + dx - what->padding;
                if (row < what->from.height && column < what->from.width) { /* below zero, sizes wrap around */
                    parameter_term(pass, output, INPUT, place(what->from, c / outputs * inputs + i, row, column), FACTORS,
                                   ((c * inputs + i) * what->kernel + dy) * what->kernel + dx);
                }
            }
        }
    }
    parameter_term(pass, output, ONE, 0, BIAS, c);
}

static void linear_terms(const struct pass *pass, size_t c, size_t y, size_t x) {
    const struct net_layer *what = &pass->layer->what;
    for (size_t i = 0; i < what->from.channels; i++) {
        parameter_term(pass, place(what->to, c, y, x), INPUT, place(what->from, i, y, x), FACTORS, c * what->from.channels + i);
    }
    parameter_term(pass, place(what->to, c, y, x), ONE, 0, BIAS, c);
}

static void average_pool_terms(const struct pass *pass, size_t c, size_t y, size_t x) {
    const struct net_layer *what = &pass->layer->what;
    const size_t rows = 2 * y + 1 < what->from.height ? 2 : 1, columns = 2 * x + 1 < what->from.width ? 2 : 1;
    for (size_t i = 0; i < rows * columns; i++) {
        copy_term(pass, place(what->to, c, y, x), INPUT, place(what->from, c, 2 * y + i / columns, 2 * x + i % columns),
                  1 / (double)(rows * columns));
    }
}

static size_t mirrored(long at, size_t size) {
    const size_t place = (size_t)labs(at);
    return place < size ? place : 2 * size - 2 - place;
}

static void blur_terms(const struct pass *pass, size_t c, size_t y, size_t x) {
    const struct net_layer *what = &pass->layer->what;
    const double taps[] = {0.25, 0.5, 0.25};
    for (long dy = -1; dy <= 1; dy++) {
        for (long dx = -1; dx <= 1; dx++) {
            copy_term(
                pass, place(what->to, c, y, x), INPUT,
                place(what->from, c, mirrored((long)y * 2 + dy, what->from.height), mirrored((long)x * 2 + dx, what->from.width)),
                taps[dy + 1] * taps[dx + 1]);
        }
    }
}

/* The mean of all pixels, or of all tokens except the first `prefix`. */
static void mean_terms(const struct pass *pass, size_t c) {
    const struct net_layer *what = &pass->layer->what;
    const size_t pixels = what->from.height * what->from.width, first = what->kind == LAYER_TOKEN_MEAN ? what->prefix : 0;
    for (size_t i = first; i < pixels; i++) {
        copy_term(pass, c, INPUT, c * pixels + i, 1 / (double)(pixels - first));
    }
}

static void space_to_depth_term(const struct pass *pass, size_t c, size_t y, size_t x) {
    const struct net_layer *what = &pass->layer->what;
    const size_t side = what->kernel, square = c / what->from.channels;
    copy_term(pass, place(what->to, c, y, x), INPUT,
              place(what->from, c % what->from.channels, y * side + square / side, x * side + square % side), 1);
}

/* Row `token` has the pixels of one square, channel by channel. */
static void patch_term(const struct pass *pass, size_t c, size_t token) {
    const struct net_layer *what = &pass->layer->what;
    const size_t side = what->kernel, across = what->from.width / side;
    copy_term(pass, place(what->to, c, token, 0), INPUT,
              place(what->from, c / (side * side), token / across * side + c / side % side, token % across * side + c % side), 1);
}

/* The class token, the registers, the tokens of the picture; positions for all, for all but the registers, or for the last alone.
 */
static void token_terms(const struct pass *pass, size_t c, size_t row) {
    const struct net_layer *what = &pass->layer->what;
    const size_t width = what->to.channels, output = place(what->to, c, row, 0), own = what->from.height;
    const size_t classes = pass->layer->parameters[FACTORS] ? 1 : 0, positions = pass->layer->counts[BIAS] / width;
    size_t position = row;
    bool has_position = true;
    if (row < classes) {
        parameter_term(pass, output, ONE, 0, FACTORS, c);
        has_position = positions > own;
    } else if (row < what->prefix) {
        parameter_term(pass, output, ONE, 0, SECOND_FACTORS, (row - classes) * width + c);
        has_position = positions == what->to.height;
    } else {
        copy_term(pass, output, INPUT, place(what->from, c, row - what->prefix, 0), 1);
        position = positions - own + row - what->prefix;
    }
    if (has_position) {
        parameter_term(pass, output, ONE, 0, BIAS, position * width + c);
    }
}

/* The place of the number that has `rank` larger ones, or equal ones before it. */
static size_t ranked(const double *numbers, size_t count, size_t rank) {
    for (size_t i = 0; i < count; i++) {
        size_t before = 0;
        for (size_t j = 0; j < count; j++) {
            before += numbers[j] > numbers[i] || (numbers[j] == numbers[i] && j < i);
        }
        if (before == rank) {
            return i;
        }
    }
    return count;
}

static void slice_term(const struct pass *pass, size_t c, size_t pixel) {
    const struct net_layer *what = &pass->layer->what;
    const size_t from = what->prefix + pixel, to = what->to.width, across = what->from.width;
    copy_term(pass, place(what->to, c, pixel / to, pixel % to), INPUT, place(what->from, c, from / across, from % across), 1);
}

/* Channels of one pixel side by side, or tokens one below the other. */
static void join_term(const struct pass *pass, size_t c, size_t y) {
    const struct net_layer *what = &pass->layer->what;
    const size_t output = place(what->to, c, y, 0);
    if (c >= what->from.channels) {
        copy_term(pass, output, SECOND, c - what->from.channels, 1);
    } else if (y >= what->from.height) {
        copy_term(pass, output, SECOND, place(pass->layer->beside, c, y - what->from.height, 0), 1);
    } else {
        copy_term(pass, output, INPUT, place(what->from, c, y, 0), 1);
    }
}

static void terms_of(const struct pass *pass, size_t c, size_t y, size_t x) {
    const struct net_layer *what = &pass->layer->what;
    const size_t output = place(what->to, c, y, x);
    switch (what->kind) {
    case LAYER_CONVOLUTION: convolution_terms(pass, c, y, x); break;
    case LAYER_LINEAR: linear_terms(pass, c, y, x); break;
    case LAYER_AVERAGE_POOL: average_pool_terms(pass, c, y, x); break;
    case LAYER_BLUR: blur_terms(pass, c, y, x); break;
    case LAYER_GLOBAL_MEAN:
    case LAYER_TOKEN_MEAN: mean_terms(pass, c); break;
    case LAYER_SPACE_TO_DEPTH: space_to_depth_term(pass, c, y, x); break;
    case LAYER_PATCHES: patch_term(pass, c, y); break;
    case LAYER_TOKENS: token_terms(pass, c, y); break;
    case LAYER_FIRST_TOKEN: copy_term(pass, output, INPUT, place(what->from, c, 0, 0), 1); break;
    case LAYER_SLICE: slice_term(pass, c, y * what->to.width + x); break;
    case LAYER_LEARNED: parameter_term(pass, output, ONE, 0, FACTORS, y * what->to.channels + c); break;
    case LAYER_ADD:
        copy_term(pass, output, INPUT, output, 1);
        copy_term(pass, output, SECOND, output, 1);
        break;
    case LAYER_SCALE:
        parameter_term(pass, output, INPUT, output, FACTORS, c);
        parameter_term(pass, output, ONE, 0, BIAS, c);
        break;
    case LAYER_SPLIT: copy_term(pass, output, INPUT, y * what->to.channels + c, 1); break;
    case LAYER_PICK: {
        const size_t length = what->to.height / what->picks, group = ranked(pass->input, what->from.channels, y / length);
        parameter_term(pass, output, ONE, 0, FACTORS, (group * length + y % length) * what->to.channels + c);
        break;
    }
    default: join_term(pass, c, y); /* LAYER_JOIN */
    }
}

static void all_terms(const struct pass *pass) {
    const struct shape to = pass->layer->what.to;
    for (size_t i = 0; i < shape_size(to); i++) {
        terms_of(pass, i / (to.height * to.width), i / to.width % to.height, i % to.width);
    }
}

/* ---- Maxima and activations ---- */

/* Where the largest number under a window is. */
static size_t largest_in_window(const struct net_layer *what, const double *in, size_t output) {
    const size_t x = output % what->to.width, y = output / what->to.width % what->to.height;
    const size_t c = output / what->to.width / what->to.height;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < what->kernel * what->kernel; i++) {
        const size_t row = y * what->stride + i / what->kernel - what->padding;
        const size_t column = x * what->stride + i % what->kernel - what->padding;
        if (row < what->from.height && column < what->from.width) {
            const size_t at = place(what->from, c, row, column);
            best = best == SIZE_MAX || in[at] > in[best] ? at : best;
        }
    }
    return best;
}

/* Where a channel is largest among the tokens. */
static size_t largest_token(const struct net_layer *what, const double *in, size_t c) {
    size_t best = place(what->from, c, what->prefix, 0);
    for (size_t token = what->prefix; token < what->from.height; token++) {
        const size_t at = place(what->from, c, token, 0);
        best = in[at] > in[best] ? at : best;
    }
    return best;
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static const double tanh_scale = 0.7978845608028654; /* √(2/π) */

static double activated(const struct net_layer *what, double x) {
    switch (what->activation) {
    case RELU: return x > 0 ? x : 0;
    case LEAKY_RELU: return x > 0 ? x : (double)what->slope * x;
    case GELU: return 0.5 * x * (1 + erf(x / sqrt(2)));
    case QUICK_GELU: return x * sigmoid(1.702 * x);
    case TANH_GELU: return 0.5 * x * (1 + tanh(tanh_scale * (x + 0.044715 * x * x * x)));
    default: return x;
    }
}

static double slope_at(const struct net_layer *what, double x) {
    const double s = sigmoid(1.702 * x), t = tanh(tanh_scale * (x + 0.044715 * x * x * x));
    switch (what->activation) {
    case RELU: return x > 0 ? 1 : 0;
    case LEAKY_RELU: return x > 0 ? 1 : (double)what->slope;
    case GELU: return 0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
    case QUICK_GELU: return s + 1.702 * x * s * (1 - s);
    case TANH_GELU: return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * tanh_scale * (1 + 3 * 0.044715 * x * x);
    default: return 1;
    }
}

/* ---- Norms: y = gain · n + b with n = (x − mean) / √(variance + ε) over a set of numbers ---- */

/* The numbers of a set: `count` of them, from `first` on, each `step` after the one before, in `pictures` groups. */
struct set {
    size_t first, step, count, groups, group_step;
};

static size_t member(const struct set *set, size_t index) {
    return set->first + index / set->count * set->group_step + index % set->count * set->step;
}

static void measure(const struct set *set, const double *x, double *mean, double *variance) {
    const size_t count = set->count * set->groups;
    *mean = *variance = 0;
    for (size_t i = 0; i < count; i++) {
        *mean += x[member(set, i)] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        *variance += pow(x[member(set, i)] - *mean, 2) / (double)count;
    }
}

/* The gradient of a set that was normalised by its own mean and variance, from those of n. */
static void normalise_backward(const struct set *set, const double *x, double mean, double variance, double epsilon,
                               const double *n_gradient, double *gradient) {
    const double deviation = sqrt(variance + epsilon), count = (double)(set->count * set->groups);
    double sum = 0, product = 0;
    for (size_t i = 0; i < set->count * set->groups; i++) {
        const size_t at = member(set, i);
        sum += n_gradient[at];
        product += n_gradient[at] * (x[at] - mean) / deviation;
    }
    for (size_t i = 0; i < set->count * set->groups; i++) {
        const size_t at = member(set, i);
        const double n = (x[at] - mean) / deviation;
        gradient[at] += (n_gradient[at] - sum / count - n * product / count) / deviation;
    }
}

static double gain_of(const struct naive_layer *layer, size_t c) {
    const double factor = layer->parameters[FACTORS][c];
    return layer->what.magnitude ? fabs(factor) + layer->what.epsilon : factor;
}

/* Layer norm: the set is the channels of a token or pixel. */
static struct set channels_of(const struct net_layer *what, size_t pixel) {
    return (struct set){.first = pixel, .step = what->from.height * what->from.width, .count = what->from.channels, .groups = 1};
}

static void layer_norm_forward(const struct naive_layer *layer, const double *in, double *out) {
    const struct net_layer *what = &layer->what;
    for (size_t pixel = 0; pixel < what->from.height * what->from.width; pixel++) {
        const struct set set = channels_of(what, pixel);
        double mean, variance;
        measure(&set, in, &mean, &variance);
        for (size_t c = 0; c < set.count; c++) {
            const size_t at = member(&set, c);
            out[at] = (in[at] - mean) / sqrt(variance + what->epsilon) * gain_of(layer, c) + layer->parameters[BIAS][c];
        }
    }
}

static void layer_norm_backward(struct naive_layer *layer, const double *in, const double *out_gradient, double *in_gradient) {
    const struct net_layer *what = &layer->what;
    double *n_gradient = malloc(shape_size(what->to) * sizeof *n_gradient);
    assert(n_gradient);
    for (size_t pixel = 0; pixel < what->from.height * what->from.width; pixel++) {
        const struct set set = channels_of(what, pixel);
        double mean, variance;
        measure(&set, in, &mean, &variance);
        for (size_t c = 0; c < set.count; c++) {
            const size_t at = member(&set, c);
            layer->gradients[FACTORS][c] += out_gradient[at] * (in[at] - mean) / sqrt(variance + what->epsilon);
            layer->gradients[BIAS][c] += out_gradient[at];
            n_gradient[at] = out_gradient[at] * gain_of(layer, c);
        }
        normalise_backward(&set, in, mean, variance, what->epsilon, n_gradient, in_gradient);
    }
    free(n_gradient);
}

/* Batch norm: the set is a channel, of all pictures. */
static struct set plane_of(const struct net_layer *what, size_t pictures, size_t c) {
    const size_t pixels = what->from.height * what->from.width;
    return (struct set){.first = c * pixels, .step = 1, .count = pixels, .groups = pictures, .group_step = shape_size(what->from)};
}

/* The published way: the checkpoint's statistics move by a tenth, and the variance that is kept is the unbiased one. */
static void move_statistics(struct naive_layer *layer, size_t c, size_t count) {
    const double momentum = 0.1, unbiased = layer->batch_variance[c] * (double)count / (double)(count - 1);
    layer->parameters[MEAN][c] += momentum * (layer->batch_mean[c] - layer->parameters[MEAN][c]);
    layer->parameters[VARIANCE][c] += momentum * (unbiased - layer->parameters[VARIANCE][c]);
}

static void batch_norm_forward(struct naive_layer *layer, size_t pictures, const double *in, double *out) {
    const struct net_layer *what = &layer->what;
    for (size_t c = 0; c < what->from.channels; c++) {
        const struct set set = plane_of(what, pictures, c);
        double mean = layer->parameters[MEAN][c], variance = layer->parameters[VARIANCE][c];
        if (layer->training) {
            measure(&set, in, &mean, &variance);
        }
        layer->batch_mean[c] = mean;
        layer->batch_variance[c] = variance;
        if (layer->training) {
            move_statistics(layer, c, set.count * set.groups);
        }
        for (size_t i = 0; i < set.count * set.groups; i++) {
            const size_t at = member(&set, i);
            out[at] = (in[at] - mean) / sqrt(variance + what->epsilon) * gain_of(layer, c) + layer->parameters[BIAS][c];
        }
    }
}

static void batch_norm_backward(struct naive_layer *layer, size_t pictures, const double *in, const double *out_gradient,
                                double *in_gradient) {
    const struct net_layer *what = &layer->what;
    double *n_gradient = malloc(pictures * shape_size(what->to) * sizeof *n_gradient);
    assert(n_gradient);
    for (size_t c = 0; c < what->from.channels; c++) {
        const struct set set = plane_of(what, pictures, c);
        const double mean = layer->batch_mean[c], deviation = sqrt(layer->batch_variance[c] + what->epsilon);
        const double sign = what->magnitude && layer->parameters[FACTORS][c] < 0 ? -1 : 1;
        for (size_t i = 0; i < set.count * set.groups; i++) {
            const size_t at = member(&set, i);
            layer->gradients[FACTORS][c] += out_gradient[at] * (in[at] - mean) / deviation * sign;
            layer->gradients[BIAS][c] += out_gradient[at];
            n_gradient[at] = out_gradient[at] * gain_of(layer, c);
        }
        if (layer->training) {
            normalise_backward(&set, in, mean, layer->batch_variance[c], what->epsilon, n_gradient, in_gradient);
        }
        for (size_t i = 0; !layer->training && i < set.count * set.groups; i++) {
            in_gradient[member(&set, i)] += n_gradient[member(&set, i)] / deviation;
        }
    }
    free(n_gradient);
}

/* ---- Attention: for each head and query, Σ share_j · value_j with share = softmax(query · key_j / √width) ---- */

struct head {
    const struct naive_layer *layer;
    size_t start, width, own, beside; /* its first channel, its channels, keys of the input, keys beside */
};

static struct head head_of(const struct naive_layer *layer, size_t channel) {
    const struct net_layer *what = &layer->what;
    const size_t width = what->to.channels / what->heads;
    return (struct head){.layer = layer,
                         .start = channel / width * width,
                         .width = width,
                         .own = what->from.channels == 3 * what->to.channels ? what->from.height : 0,
                         .beside = what->second ? layer->beside.height : 0};
}

/* A number of a key (part 0) or a value (part 1): in the input if *own is set, otherwise beside. */
static size_t key_place(const struct head *head, size_t part, size_t channel, size_t key, bool *own) {
    const size_t width = head->layer->what.to.channels;
    *own = key < head->own;
    return *own ? place(head->layer->what.from, (1 + part) * width + channel, key, 0)
                : place(head->layer->beside, (head->layer->what.shared ? 0 : part) * width + channel, key - head->own, 0);
}

static double key_number(const struct head *head, const double *in, const double *second, size_t part, size_t channel, size_t key) {
    bool own;
    const size_t at = key_place(head, part, channel, key, &own);
    return own ? in[at] : second[at];
}

static void shares_of(const struct head *head, const double *in, const double *second, size_t query, double *shares) {
    const size_t keys = head->own + head->beside;
    double largest = -INFINITY, total = 0;
    for (size_t key = 0; key < keys; key++) {
        shares[key] = 0;
        for (size_t i = head->start; i < head->start + head->width; i++) {
            shares[key] += in[place(head->layer->what.from, i, query, 0)] * key_number(head, in, second, 0, i, key);
        }
        shares[key] /= sqrt((double)head->width);
        largest = fmax(largest, shares[key]);
    }
    for (size_t key = 0; key < keys; key++) {
        shares[key] = exp(shares[key] - largest);
        total += shares[key];
    }
    for (size_t key = 0; key < keys; key++) {
        shares[key] /= total;
    }
}

static void attention_forward(const struct naive_layer *layer, const double *in, const double *second, double *out) {
    const struct net_layer *what = &layer->what;
    for (size_t channel = 0; channel < what->to.channels; channel += what->to.channels / what->heads) {
        const struct head head = head_of(layer, channel);
        double *shares = malloc((head.own + head.beside) * sizeof *shares);
        assert(shares);
        for (size_t query = 0; query < what->to.height; query++) {
            shares_of(&head, in, second, query, shares);
            for (size_t i = channel; i < channel + head.width; i++) {
                double sum = 0;
                for (size_t key = 0; key < head.own + head.beside; key++) {
                    sum += shares[key] * key_number(&head, in, second, 1, i, key);
                }
                out[place(what->to, i, query, 0)] = sum;
            }
        }
        free(shares);
    }
}

/* One query of one head. */
static void query_backward(const struct head *head, size_t query, const double *shares, const struct pass *pass) {
    const struct net_layer *what = &head->layer->what;
    const size_t keys = head->own + head->beside;
    double mean = 0, *share_gradients = calloc(keys, sizeof *share_gradients);
    assert(share_gradients);
    for (size_t key = 0; key < keys; key++) {
        for (size_t i = head->start; i < head->start + head->width; i++) {
            bool own;
            const size_t at = key_place(head, 1, i, key, &own);
            const double gradient = pass->out_gradient[place(what->to, i, query, 0)];
            share_gradients[key] += gradient * (own ? pass->input : pass->second)[at];
            (own ? pass->in_gradient : pass->second_gradient)[at] += shares[key] * gradient;
        }
        mean += shares[key] * share_gradients[key];
    }
    for (size_t key = 0; key < keys; key++) {
        const double score_gradient = shares[key] * (share_gradients[key] - mean) / sqrt((double)head->width);
        for (size_t i = head->start; i < head->start + head->width; i++) {
            bool own;
            const size_t at = key_place(head, 0, i, key, &own), asked = place(what->from, i, query, 0);
            pass->in_gradient[asked] += score_gradient * (own ? pass->input : pass->second)[at];
            (own ? pass->in_gradient : pass->second_gradient)[at] += score_gradient * pass->input[asked];
        }
    }
    free(share_gradients);
}

static void attention_backward(const struct pass *pass) {
    const struct net_layer *what = &pass->layer->what;
    for (size_t channel = 0; channel < what->to.channels; channel += what->to.channels / what->heads) {
        const struct head head = head_of(pass->layer, channel);
        double *shares = malloc((head.own + head.beside) * sizeof *shares);
        assert(shares);
        for (size_t query = 0; query < what->to.height; query++) {
            shares_of(&head, pass->input, pass->second, query, shares);
            query_backward(&head, query, shares, pass);
        }
        free(shares);
    }
}

/* ---- Squeeze and excite: output = input · σ(W₂ relu(W₁ mean(input) + b₁) + b₂) ---- */

struct squeeze {
    double *means, *hidden, *scales; /* hidden: before the ReLU */
};

static double relu(double x) {
    return x > 0 ? x : 0;
}

static struct squeeze squeeze(const struct naive_layer *layer, const double *in) {
    const struct net_layer *what = &layer->what;
    const size_t channels = what->from.channels, pixels = what->from.height * what->from.width;
    struct squeeze made = {.means = calloc(channels, sizeof(double)),
                           .hidden = calloc(what->hidden, sizeof(double)),
                           .scales = calloc(channels, sizeof(double))};
    assert(made.means && made.hidden && made.scales);
    for (size_t i = 0; i < channels * pixels; i++) {
        made.means[i / pixels] += in[i] / (double)pixels;
    }
    for (size_t h = 0; h < what->hidden; h++) {
        made.hidden[h] = layer->parameters[BIAS][h];
        for (size_t c = 0; c < channels; c++) {
            made.hidden[h] += layer->parameters[FACTORS][h * channels + c] * made.means[c];
        }
    }
    for (size_t c = 0; c < channels; c++) {
        double sum = layer->parameters[SECOND_BIAS][c];
        for (size_t h = 0; h < what->hidden; h++) {
            sum += layer->parameters[SECOND_FACTORS][c * what->hidden + h] * relu(made.hidden[h]);
        }
        made.scales[c] = sigmoid(sum);
    }
    return made;
}

static void squeeze_free(struct squeeze *made) {
    free(made->means);
    free(made->hidden);
    free(made->scales);
}

static void excite_forward(const struct naive_layer *layer, const double *in, double *out) {
    const struct net_layer *what = &layer->what;
    const size_t pixels = what->from.height * what->from.width;
    struct squeeze made = squeeze(layer, in);
    for (size_t i = 0; i < what->from.channels * pixels; i++) {
        out[i] = in[i] * made.scales[i / pixels];
    }
    squeeze_free(&made);
}

static void excite_backward(const struct pass *pass) {
    struct naive_layer *layer = pass->layer;
    const struct net_layer *what = &layer->what;
    const size_t channels = what->from.channels, pixels = what->from.height * what->from.width;
    struct squeeze made = squeeze(layer, pass->input);
    double *hidden_gradient = calloc(what->hidden, sizeof *hidden_gradient);
    assert(hidden_gradient);
    for (size_t c = 0; c < channels; c++) {
        double sum = 0;
        for (size_t i = c * pixels; i < (c + 1) * pixels; i++) {
            pass->in_gradient[i] += pass->out_gradient[i] * made.scales[c];
            sum += pass->out_gradient[i] * pass->input[i];
        }
        sum *= made.scales[c] * (1 - made.scales[c]);
        layer->gradients[SECOND_BIAS][c] += sum;
        for (size_t h = 0; h < what->hidden; h++) {
            layer->gradients[SECOND_FACTORS][c * what->hidden + h] += sum * relu(made.hidden[h]);
            hidden_gradient[h] += made.hidden[h] > 0 ? sum * layer->parameters[SECOND_FACTORS][c * what->hidden + h] : 0;
        }
    }
    for (size_t h = 0; h < what->hidden; h++) {
        layer->gradients[BIAS][h] += hidden_gradient[h];
        for (size_t c = 0; c < channels; c++) {
            layer->gradients[FACTORS][h * channels + c] += hidden_gradient[h] * made.means[c];
            for (size_t i = c * pixels; i < (c + 1) * pixels; i++) {
                pass->in_gradient[i] += hidden_gradient[h] * layer->parameters[FACTORS][h * channels + c] / (double)pixels;
            }
        }
    }
    free(hidden_gradient);
    squeeze_free(&made);
}

/* ---- Unit tokens and cosines ---- */

static void unit_forward(const struct naive_layer *layer, const double *in, double *out) {
    const struct net_layer *what = &layer->what;
    for (size_t pixel = 0; pixel < what->from.height * what->from.width; pixel++) {
        const struct set set = channels_of(what, pixel);
        double square = 0;
        for (size_t c = 0; c < set.count; c++) {
            square += in[member(&set, c)] * in[member(&set, c)];
        }
        for (size_t c = 0; c < set.count; c++) {
            out[member(&set, c)] = in[member(&set, c)] / sqrt(square);
        }
    }
}

/* ∂(xᵢ / |x|) / ∂xⱼ = (δᵢⱼ − xᵢ xⱼ / |x|²) / |x| */
static void unit_backward(const struct pass *pass) {
    const struct net_layer *what = &pass->layer->what;
    for (size_t pixel = 0; pixel < what->from.height * what->from.width; pixel++) {
        const struct set set = channels_of(what, pixel);
        double square = 0;
        for (size_t c = 0; c < set.count; c++) {
            square += pass->input[member(&set, c)] * pass->input[member(&set, c)];
        }
        for (size_t i = 0; i < set.count * set.count; i++) {
            const size_t to = member(&set, i / set.count), from = member(&set, i % set.count);
            const double slope = ((to == from) - pass->input[to] * pass->input[from] / square) / sqrt(square);
            pass->in_gradient[to] += slope * pass->out_gradient[from];
        }
    }
}

struct angle {
    double product, square, key_square; /* of mask ∘ x and the key */
};

static double mask_at(const struct naive_layer *layer, size_t at) {
    return layer->parameters[SECOND_FACTORS] ? layer->parameters[SECOND_FACTORS][at] : 1;
}

static struct angle angle_with(const struct naive_layer *layer, const double *in, size_t key) {
    const size_t width = layer->what.from.channels;
    struct angle angle = {0};
    for (size_t i = 0; i < width; i++) {
        const double masked = mask_at(layer, key * width + i) * in[i], other = layer->parameters[FACTORS][key * width + i];
        angle.product += masked * other;
        angle.square += masked * masked;
        angle.key_square += other * other;
    }
    return angle;
}

static void cosines_forward(const struct naive_layer *layer, const double *in, double *out) {
    for (size_t key = 0; key < layer->what.to.channels; key++) {
        const struct angle angle = angle_with(layer, in, key);
        out[key] = angle.product / sqrt(angle.square * angle.key_square);
    }
}

/* y = p / √(s t): ∂y = ∂p / √(s t) − y ∂s / 2s − y ∂t / 2t */
static void cosines_backward(const struct pass *pass) {
    struct naive_layer *layer = pass->layer;
    const size_t width = layer->what.from.channels;
    for (size_t key = 0; key < layer->what.to.channels; key++) {
        const struct angle angle = angle_with(layer, pass->input, key);
        const double root = sqrt(angle.square * angle.key_square), y = angle.product / root, g = pass->out_gradient[key];
        for (size_t i = 0; i < width; i++) {
            const size_t at = key * width + i;
            const double mask = mask_at(layer, at), x = pass->input[i], other = layer->parameters[FACTORS][at];
            const double by_masked = g * (other / root - y * mask * x / angle.square);
            pass->in_gradient[i] += mask * by_masked;
            layer->gradients[FACTORS][at] += g * (mask * x / root - y * other / angle.key_square);
            if (layer->gradients[SECOND_FACTORS]) {
                layer->gradients[SECOND_FACTORS][at] += x * by_masked;
            }
        }
    }
}

/* ---- All kinds ---- */

static size_t largest(const struct net_layer *what, const double *in, size_t output) {
    return what->kind == LAYER_MAX_POOL ? largest_in_window(what, in, output) : largest_token(what, in, output);
}

static void forward_picture(struct naive_layer *layer, const double *in, const double *second, double *out) {
    const struct net_layer *what = &layer->what;
    const size_t size = shape_size(what->to);
    switch (what->kind) {
    case LAYER_NORM: layer_norm_forward(layer, in, out); return;
    case LAYER_ATTENTION: attention_forward(layer, in, second, out); return;
    case LAYER_SQUEEZE_EXCITE: excite_forward(layer, in, out); return;
    case LAYER_UNIT: unit_forward(layer, in, out); return;
    case LAYER_COSINES: cosines_forward(layer, in, out); return;
    case LAYER_ACTIVATION:
    case LAYER_MAX_POOL:
    case LAYER_TOKEN_MAX:
        for (size_t i = 0; i < size; i++) {
            out[i] = what->kind == LAYER_ACTIVATION ? activated(what, in[i]) : in[largest(what, in, i)];
        }
        return;
    default:
        memset(out, 0, size * sizeof *out);
        all_terms(&(struct pass){.layer = layer, .input = in, .second = second, .output = out});
    }
}

static void backward_picture(const struct pass *pass) {
    struct naive_layer *layer = pass->layer;
    const struct net_layer *what = &layer->what;
    switch (what->kind) {
    case LAYER_NORM: layer_norm_backward(layer, pass->input, pass->out_gradient, pass->in_gradient); return;
    case LAYER_ATTENTION: attention_backward(pass); return;
    case LAYER_SQUEEZE_EXCITE: excite_backward(pass); return;
    case LAYER_UNIT: unit_backward(pass); return;
    case LAYER_COSINES: cosines_backward(pass); return;
    case LAYER_ACTIVATION:
        for (size_t i = 0; i < shape_size(what->to); i++) {
            pass->in_gradient[i] += pass->out_gradient[i] * slope_at(what, pass->input[i]);
        }
        return;
    case LAYER_MAX_POOL:
    case LAYER_TOKEN_MAX:
        for (size_t i = 0; i < shape_size(what->to); i++) {
            pass->in_gradient[largest(what, pass->input, i)] += pass->out_gradient[i];
        }
        return;
    default: all_terms(pass);
    }
}

/* What fuse.c has attached to a layer: a sum, and an activation. */
static void attached(const struct net_layer *what, const double *second, double *out) {
    const bool takes = is_product(what) || what->kind == LAYER_SQUEEZE_EXCITE;
    for (size_t i = 0; takes && i < shape_size(what->to); i++) {
        out[i] = activated(what, out[i] + (second ? second[i] : 0));
    }
}

void naive_forward(struct naive_layer *layer, size_t pictures, const double *input, const double *second, double *output) {
    const size_t from = shape_size(layer->what.from), to = shape_size(layer->what.to), beside = shape_size(layer->beside);
    if (layer->what.kind == LAYER_BATCH_NORM) {
        batch_norm_forward(layer, pictures, input, output);
        return;
    }
    for (size_t i = 0; i < pictures; i++) {
        const double *added = second ? second + i * beside : NULL;
        forward_picture(layer, input ? input + i * from : NULL, added, output + i * to);
        attached(&layer->what, added, output + i * to);
    }
}

void naive_backward(struct naive_layer *layer, size_t pictures, const double *input, const double *second,
                    const double *out_gradient, double *in_gradient, double *second_gradient) {
    const size_t from = shape_size(layer->what.from), to = shape_size(layer->what.to), beside = shape_size(layer->beside);
    if (layer->what.kind == LAYER_BATCH_NORM) {
        batch_norm_backward(layer, pictures, input, out_gradient, in_gradient);
        return;
    }
    for (size_t i = 0; i < pictures; i++) {
        backward_picture(&(struct pass){.layer = layer,
                                        .input = input ? input + i * from : NULL,
                                        .second = second ? second + i * beside : NULL,
                                        .out_gradient = out_gradient + i * to,
                                        .in_gradient = in_gradient ? in_gradient + i * from : NULL,
                                        .second_gradient = second_gradient ? second_gradient + i * beside : NULL});
    }
}
