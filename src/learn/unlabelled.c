#include "learn/unlabelled.h"

#include "base/random.h"
#include "base/sized.h"
#include "data/features.h"
#include "learn/model_change.h"
#include "learn/model_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void unlabelled_free(l3a_context *context, struct unlabelled *unlabelled) {
    scatter_free(&unlabelled->sums);
    release(context, unlabelled->total);
    release(context, unlabelled->sample);
    *unlabelled = (struct unlabelled){0};
}

/* ---- Members ---- */

static int compare_sampled(const void *left, const void *right) {
    const struct sampled *one = left, *other = right;
    return one->checksum != other->checksum ? (one->checksum > other->checksum) - (one->checksum < other->checksum)
                                            : (int)one->judged - (int)other->judged;
}

static void sort_sample(struct unlabelled *unlabelled) {
    if (unlabelled->sample_count) {
        qsort(unlabelled->sample, unlabelled->sample_count, sizeof *unlabelled->sample, compare_sampled);
    }
}

/* The first member whose checksum is not smaller. */
static size_t find_sampled(const struct unlabelled *unlabelled, uint64_t checksum) {
    size_t low = 0, high = unlabelled->sample_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (unlabelled->sample[middle].checksum < checksum) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* How many pictures of the sample with this checksum would change if they were judged, or were no longer. */
static size_t count_sampled(const struct unlabelled *unlabelled, uint64_t checksum, bool judged) {
    size_t count = 0;
    for (size_t i = find_sampled(unlabelled, checksum); i < unlabelled->sample_count && unlabelled->sample[i].checksum == checksum;
         i++) {
        count += unlabelled->sample[i].judged != judged;
    }
    return count;
}

static void set_sampled(struct unlabelled *unlabelled, uint64_t checksum, bool judged) {
    for (size_t i = find_sampled(unlabelled, checksum); i < unlabelled->sample_count && unlabelled->sample[i].checksum == checksum;
         i++) {
        unlabelled->sample[i].judged = judged;
    }
}

/* ---- Making, copying, merging ---- */

static l3a_status begin(l3a_context *context, size_t dim, real type, size_t sample, struct unlabelled *made) {
    l3a_status status = L3A_OK;
    *made = (struct unlabelled){0};
    TRY(scatter_create(context, dim, type, &made->sums));
    TRY(allocate_zeroed(context, dim, sizeof *made->total, &made->total));
    TRY(allocate(context, sample, sizeof *made->sample, &made->sample));
done:
    return status;
}

/* Adds to made, which has room for the sample. */
static l3a_status add(struct unlabelled *made, const struct unlabelled *from) {
    l3a_status status = L3A_OK;
    TRY(scatter_add(&made->sums, &from->sums));
    for (size_t i = 0; i < made->sums.dim; i++) {
        made->total[i] += from->total[i];
    }
    made->trace += from->trace;
    made->images += from->images;
    made->drawn_from += from->drawn_from;
    if (from->sample_count) {
        memcpy(made->sample + made->sample_count, from->sample, from->sample_count * sizeof *made->sample);
        made->sample_count += from->sample_count;
    }
done:
    return status;
}

l3a_status unlabelled_copy(l3a_context *context, const struct unlabelled *from, struct unlabelled *to) {
    l3a_status status = L3A_OK;
    *to = (struct unlabelled){0};
    if (from->total) {
        TRY(begin(context, from->sums.dim, from->sums.type, from->sample_count, to));
        TRY(add(to, from));
    }
done:
    if (status != L3A_OK) {
        unlabelled_free(context, to);
    }
    return status;
}

/* Gives the model other unlabelled images; a change keeps those from before. */
static void adopt(l3a_model *model, struct unlabelled *made) {
    struct evidence *evidence = model->evidence;
    struct unlabelled before = evidence->unlabelled;
    evidence->unlabelled = *made;
    *made = (struct unlabelled){0};
    if (model->change && !model->change->has_unlabelled) {
        model->change->unlabelled = before;
        model->change->has_unlabelled = true;
    } else {
        unlabelled_free(model->context, &before);
    }
    evidence_changed(evidence);
}

l3a_status unlabelled_merge(l3a_model *model, const struct unlabelled *from) {
    const struct unlabelled *own = &model->evidence->unlabelled;
    struct unlabelled made = {0};
    l3a_status status = L3A_OK;
    if (!from->total) {
        return L3A_OK;
    }
    TRY(begin(model->context, from->sums.dim, from->sums.type, own->sample_count + from->sample_count, &made));
    TRY(own->total ? add(&made, own) : L3A_OK);
    TRY(add(&made, from));
    sort_sample(&made);
    adopt(model, &made);
done:
    unlabelled_free(model->context, &made);
    return status;
}

/* ---- Rows ---- */

enum { UNLABELLED_ROWS = 1024 };

/* A block of whole pictures. */
struct wholes {
    float *read;       /* [images x numbers of an image of the table] */
    float *features;   /* [images x k] */
    void *expanded;    /* [images x d] */
    double *weight;    /* [images] */
    double *ones;      /* [images] */
    struct block rows; /* x */
};

static l3a_status wholes_create(l3a_model *model, size_t images, size_t numbers, struct wholes *wholes) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const real type = options_real(&model->options);
    const struct array list[] = {
        {&wholes->read, images, numbers * sizeof *wholes->read, false},
        {&wholes->features, images, model->width * sizeof *wholes->features, false},
        {&wholes->expanded, images, model_dim(model) * real_size(type), false},
        {&wholes->weight, images, sizeof *wholes->weight, false},
        {&wholes->ones, images, sizeof *wholes->ones, false},
    };
    TRY(model_ready(model));
    TRY(arrays_allocate(context, list, sizeof list / sizeof list[0]));
    wholes->rows = (struct block){.context = context, .layer = &model->layer, .capacity = images, .columns = 1, .reused = true};
    TRY(block_create(&wholes->rows));
    for (size_t i = 0; i < images; i++) {
        wholes->ones[i] = 1;
    }
done:
    return status;
}

static void wholes_free(l3a_context *context, struct wholes *wholes) {
    release(context, wholes->read);
    release(context, wholes->features);
    release(context, wholes->expanded);
    release(context, wholes->weight);
    release(context, wholes->ones);
    block_free(&wholes->rows);
}

/* Expands the first `count` features, and adds what their rows add to the trace. */
static l3a_status expand(struct wholes *wholes, size_t count, double sign, struct unlabelled *made) {
    const size_t d = made->sums.dim;
    const real type = made->sums.type;
    l3a_status status = L3A_OK;
    TRY(block_expand(&wholes->rows, wholes->features, count));
    TRY(block_read(&wholes->rows, wholes->expanded));
    for (size_t i = 0; i < count; i++) {
        double square = 0;
        for (size_t j = 0; j < d; j++) {
            square += real_get(type, wholes->expanded, i * d + j) * real_get(type, wholes->expanded, i * d + j);
        }
        made->trace += sign * wholes->weight[i] * square;
    }
done:
    return status;
}

/* ---- A sample of a table ---- */

struct ticket {
    uint64_t bits;
    size_t number;
};

static int compare_tickets(const void *left, const void *right) {
    const struct ticket *one = left, *other = right;
    return one->bits != other->bits ? (one->bits > other->bits) - (one->bits < other->bits)
                                    : (one->number > other->number) - (one->number < other->number);
}

static int compare_numbers(const void *left, const void *right) {
    const size_t one = *(const size_t *)left, other = *(const size_t *)right;
    return (one > other) - (one < other);
}

l3a_status draw_sample(l3a_context *context, uint64_t seed, size_t of, size_t count, size_t **chosen) {
    struct ticket *tickets = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(context, of, sizeof *tickets, &tickets));
    TRY(allocate(context, count, sizeof **chosen, chosen));
    for (size_t i = 0; i < of; i++) {
        tickets[i] = (struct ticket){count < of ? random_bits(seed, i) : 0, i};
    }
    if (count < of) {
        qsort(tickets, of, sizeof *tickets, compare_tickets);
    }
    for (size_t i = 0; i < count; i++) {
        (*chosen)[i] = tickets[i].number;
    }
    if (count < of) {
        qsort(*chosen, count, sizeof **chosen, compare_numbers);
    }
done:
    release(context, tickets);
    return status;
}

/* Adds this process's rows of the sample to the second half of the model's sums, those of them that were not judged. */
static l3a_status sum_rows(l3a_model *model, const struct unlabelled_source *source, const size_t *rows, size_t count,
                           struct unlabelled *made) {
    l3a_context *context = model->context;
    l3a_features *features = source->features;
    struct sums *sums = &model->evidence->ridge.sums;
    const size_t k = model->width, image = view_rows(features->views) * k,
                 block = count < UNLABELLED_ROWS ? count : UNLABELLED_ROWS;
    struct wholes wholes = {0};
    l3a_status status = L3A_OK;
    TRY(wholes_create(model, block ? block : 1, image, &wholes));
    TRY(sums_begin(sums, 1)); /* C is b */
    for (size_t first = 0, n; first < count; first += n) {
        n = count - first < block ? count - first : block;
        TRY(report_progress(context, "unlabelled", first, count));
        TRY(l3a_features_read(features, rows + first, 0, n, wholes.read));
        for (size_t i = 0; i < n; i++) {
            memcpy(wholes.features + i * k, wholes.read + i * image, k * sizeof *wholes.features);
            wholes.weight[i] = !(source->judged && source->judged[rows[first + i]]);
            made->images += wholes.weight[i] > 0;
        }
        TRY(expand(&wholes, n, 1, made));
        TRY(sums_add(sums, &wholes.rows, 1, wholes.weight, wholes.ones));
    }
    TRY(report_progress(context, "unlabelled", count, count));
done:
    wholes_free(context, &wholes);
    return status;
}

/* The sums of all processes. */
static l3a_status share(l3a_model *model, struct unlabelled *made) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    TRY(sums_share(&model->evidence->ridge.sums, 1, made->total));
    TRY(sum_counts(context, &made->images, 1));
    TRY(divides_rows(context) ? L3A_OK : sum_counts(context, &made->drawn_from, 1));
    TRY(sum_numbers(context, &made->trace, 1));
done:
    return status;
}

static l3a_status make(l3a_model *model, const struct unlabelled_source *source, struct unlabelled *made) {
    l3a_context *context = model->context;
    const size_t all = source->features->rows, count = source->most < all ? (size_t)source->most : all;
    const size_t sample = source->checksums ? count : 0;
    size_t *rows = NULL, first, own;
    l3a_status status = L3A_OK;
    TRY(begin(context, model_dim(model), options_real(&model->options), sample, made));
    TRY(draw_sample(context, model->options.seed, all, count, &rows));
    for (size_t i = 0; i < sample; i++) {
        made->sample[i] = (struct sampled){source->checksums[rows[i]], source->judged && source->judged[rows[i]]};
    }
    made->sample_count = sample;
    made->drawn_from = source->drawn_from ? source->drawn_from : all;
    sort_sample(made);
    own_part(context, count, &first, &own);
    TRY(sum_rows(model, source, rows + first, own, made));
    TRY(share(model, made));
    TRY(scatter_add_sums(&made->sums, &model->evidence->ridge.sums, 1));
    TRY(scatter_tidy(&made->sums, made->images));
done:
    release(context, rows);
    return status;
}

static void warn_of_few(const l3a_model *model) {
    const uint64_t images = model->evidence->unlabelled.images;
    if (images && images < model->options.privacy_limit) {
        report_warning(model->context,
                       "there are only %" PRIu64
                       " unlabelled images: someone with the model could reconstruct their features, or the space they span; "
                       "give more of them together",
                       images);
    }
}

static l3a_status check_source(const l3a_model *model, const struct unlabelled_source *source) {
    l3a_context *context = model->context;
    l3a_features *features = source->features;
    l3a_status status = L3A_OK;
    FAIL_IF(!keeps_phases(&model->options), context, L3A_ERROR_MISMATCH, "create the model with alpha below 1, or with keep-phases",
            "a model that adds everything to one sum does not know how many images it holds, so unlabelled ones cannot be weighed");
    FAIL_IF(model->options.alpha == 0, context, L3A_ERROR_MISMATCH, "create the model with alpha above 0",
            "a model with alpha 0 has nothing that all classes share, so it cannot have unlabelled images");
    FAIL_IF(source->checksums && !learns_alone(context) && !divides_rows(context), context, L3A_ERROR_ARGUMENT,
            "leave the checksums out, or let the processes divide one table",
            "processes that give unlabelled images of their own cannot know the checksums of the others'");
    TRY(check_provenance(context, model->width, features->views, &model->record_keys, &model->record_values, features));
    TRY(model_check_memory(context, &model->options, model->width, model->classes.count, model->evidence->part_count + 2, model));
done:
    return status;
}

l3a_status model_set_unlabelled(l3a_model *model, const struct unlabelled_source *source) {
    struct unlabelled made = {0};
    struct change change = {0};
    l3a_status status = L3A_OK;
    TRY(check_state(model, false));
    TRY(check_own_sums(model));
    if (source->features) {
        TRY(check_source(model, source));
    }
    TRY(change_begin(model, &change));
    evidence_changed(model->evidence);
    model->evidence->ridge.sums.factored = false; /* with those from before, P is too far from M */
    if (source->features) {
        TRY(make(model, source, &made));
        TRY(model_keep_provenance(model, source->features));
    }
    adopt(model, &made);
    warn_of_few(model);
    TRY(model_own_columns(model));
    TRY(model_settle(model, model->classes.count > 0));
done:
    unlabelled_free(model->context, &made);
    return change_end(&change, status);
}

/* ---- Judging ---- */

l3a_status model_judge(l3a_model *model, const uint64_t *checksums, const float *features, size_t count, bool judged) {
    l3a_context *context = model->context;
    const struct unlabelled *own = &model->evidence->unlabelled;
    const size_t k = model->width, image = model_image(model);
    struct unlabelled made = {0};
    struct wholes wholes = {0};
    size_t found = 0;
    double moved = 0;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < count && own->total; i++) {
        found += count_sampled(own, checksums[i], judged) > 0;
    }
    if (!found) {
        return L3A_OK;
    }
    TRY(unlabelled_copy(context, own, &made));
    TRY(scatter_write(&made.sums, 0, 0,
                      NULL)); /* a triangle: without some of its rows, a root would have to be searched for anew */
    TRY(wholes_create(model, found < UNLABELLED_ROWS ? found : UNLABELLED_ROWS, 0, &wholes));
    for (size_t i = 0, n = 0; i < count; i++) {
        const size_t times = count_sampled(&made, checksums[i], judged);
        if (times) {
            memcpy(wholes.features + n * k, features + i * image, k * sizeof *features);
            wholes.weight[n++] = (double)times;
            moved += (double)times;
            set_sampled(&made, checksums[i], judged);
        }
        if (n && (n == wholes.rows.capacity || i == count - 1)) {
            TRY(expand(&wholes, n, judged ? -1 : 1, &made));
            TRY(scatter_add_rows(&made.sums, &wholes.rows, judged ? -1 : 1, wholes.weight));
            TRY(block_cross(&wholes.rows, wholes.weight, wholes.ones, 1, judged ? -1 : 1, made.total));
            n = 0;
        }
    }
    made.images = (uint64_t)((double)made.images + (judged ? -moved : moved));
    TRY(made.images ? L3A_OK : scatter_tidy(&made.sums, 0));
    adopt(model, &made);
done:
    wholes_free(context, &wholes);
    unlabelled_free(context, &made);
    return status;
}

/* ---- What they do ---- */

/* P: about the number of images that show a class. */
static double images_that_show(size_t classes, const uint64_t *counts, double images) {
    double shown = 0;
    for (size_t k = 0; k < classes; k++) {
        shown += (double)counts[k];
    }
    return fmin(shown, images);
}

double unlabelled_weight(const l3a_model *model, size_t classes, const uint64_t *counts) {
    const struct unlabelled *unlabelled = &model->evidence->unlabelled;
    const double images = model_images(model), all = (double)classes, shown = images_that_show(classes, counts, images);
    if (!unlabelled->images || !(images > 0)) {
        return 0;
    }
    const double chosen = 8 / all * shown * shown / (shown + 2 * all) * 100 / (100 + images - shown);
    const double weight = model->options.beta > 0 ? model->options.beta * images
                          : chosen > 0            ? pow(10, round(4 * log10(chosen)) / 4)
                                                  : 0;
    return weight / (double)unlabelled->images;
}

/* The mean of the scores of class k over the rows that b sums. */
static double mean_score(const l3a_model *model, const struct model_columns *columns, size_t k, const double *b, size_t stride,
                         double rows) {
    const size_t classes = model->classes.count;
    double sum = 0;
    for (size_t i = 0; i < model_dim(model); i++) {
        sum += columns->coefficients[i * classes + k] * b[i * stride];
    }
    return sum / rows;
}

double library_threshold(const l3a_model *model, const struct model_columns *columns, size_t k, size_t known) {
    const struct unlabelled *own = &model->evidence->unlabelled;
    const double each = model->options.views > 1 ? 2 : 1; /* the weight of all rows of an image whose weight is 1 */
    const double n = (double)columns->counts[k], height = fmax(0.85 - 0.06 * log((double)known), 0.3);
    const double m = mean_score(model, columns, k, own->total, 1, (double)own->images);
    const double mu = mean_score(model, columns, k, columns->cross + k, model->classes.count, each * columns->label_weight[k]);
    const double rare = 1 / (1 + pow(fmax(m, 0) / (0.3 * mu), 6));
    return each * (m + height * rare * (mu - m) * n / (n + 3));
}

/* ---- The public calls ---- */

l3a_status l3a_model_set_unlabelled(l3a_model *model, l3a_features *features, const l3a_unlabelled_options *options) {
    REQUIRE(model, model);
    l3a_unlabelled_options own;
    l3a_status status = L3A_OK;
    TRY(READ_SIZED(model->context, options, own));
    const struct unlabelled_source source = {
        .features = features, .checksums = own.checksums, .most = own.most ? own.most : UINT64_MAX, .drawn_from = own.drawn_from};
    TRY(model_set_unlabelled(model, &source));
done:
    return status;
}

l3a_status l3a_model_unlabelled(const l3a_model *model, l3a_unlabelled_info *info) {
    REQUIRE(model, model, info);
    const struct unlabelled *own = &model->evidence->unlabelled;
    const l3a_unlabelled_info made = {.images = own->images,
                                      .drawn_from = own->drawn_from,
                                      .weight = unlabelled_weight(model, model->classes.count, model->counts)};
    l3a_status status = L3A_OK;
    TRY(WRITE_SIZED(model->context, info, made));
done:
    return status;
}
