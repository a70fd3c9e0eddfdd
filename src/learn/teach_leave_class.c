/* What a model that was never taught a class makes of the images that show it. They stand for what nobody has told it about yet.
 *
 * The images G that show class j leave together, and the class with them; γ and λ stay. With their rows X, the weights Ω in the
 * system of class l, its labels y, and as in teach_leave_out.c,
 *
 *   H = Ω^½ X M_l⁻¹ Xᵀ Ω^½     s = Ω^½ X w_l     t = Ω^½ y     w_l without G = w_l + M_l⁻¹ Xᵀ Ω^½ ((I - H)⁻¹ (s - H t) - t)
 *
 * since M_l loses Xᵀ Ω X, and c_l loses Xᵀ Ω y. Each system is factored once; a row costs 2 d² operations in it, and a class with n
 * rows n² d and n³/3 more. The thresholds are those that the model without G would have.
 *
 * If one class would be left, nothing is: a model with a single class has seen nothing else, and tags far more than others do
 * (docs/teaching.md). Only classes with at most SCORE_ROWS rows are left out, so that H is no larger than a block of rows; and, in
 * an order that depends on the seed, only as many as the limits below allow. */
#include "base/random.h"
#include "learn/model_columns.h"
#include "learn/teach_leave_out.h"

#include <math.h>
#include <string.h>

/* The rows of all classes that are left out, and the numbers of their coefficients: 128 MiB. */
enum { MOST_ROWS = 4096, MOST_NUMBERS = 1 << 24 };

struct absence {
    size_t class;
    size_t *images; /* those that show it */
    size_t count;
    bool known;           /* whether there is a model without them */
    double *coefficients; /* its W [d x classes], without the lift */
};

struct absences {
    struct taught_rows rows;
    struct absence *items;
    size_t count;
    double *root;           /* Ω^½ of a class's rows */
    double *h;              /* their H, then the factor of I - H */
    double *scores;         /* [rows x classes] */
    double *rest, *targets; /* [classes x rows] */
    double *change;         /* of W [classes x d] */
    double *shares, *times; /* of each tag, summed over the classes that were left out, and how many they were */
};

static void absences_free(struct absences *absences) {
    l3a_context *context = absences->rows.model->context;
    for (size_t a = 0; absences->items && a < absences->count; a++) {
        release(context, absences->items[a].images);
        release(context, absences->items[a].coefficients);
    }
    void *const owned[] = {absences->items, absences->root,    absences->h,      absences->scores,
                           absences->rest,  absences->targets, absences->change, absences->times};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        release(context, owned[i]);
    }
    taught_rows_close(&absences->rows);
}

/* The images of the table that show a class; images: NULL if only their number is wanted. */
static size_t list_showing(const struct taught_rows *rows, size_t class, size_t *images) {
    size_t count = 0;
    for (size_t i = 0; i < rows->features->rows; i++) {
        if (taught_label(rows, i, class) == 1) {
            if (images) {
                images[count] = i;
            }
            count++;
        }
    }
    return count;
}

static void shuffle(uint64_t seed, size_t *items, size_t count) {
    for (size_t i = count; i-- > 1;) {
        const size_t other = (size_t)(random_bits(seed, i) % (i + 1)), item = items[i];
        items[i] = items[other];
        items[other] = item;
    }
}

/* W of the model, without the lift. */
static void copy_plain(const l3a_model *model, double *plain) {
    const size_t classes = model->classes.count;
    const double lift = model_lift(model);
    for (size_t i = 0; i < model_dim(model); i++) {
        double sum = 0;
        for (size_t k = 0; k < classes; k++) {
            sum += model->coefficients[i * classes + k];
        }
        for (size_t k = 0; k < classes; k++) {
            plain[i * classes + k] = model->coefficients[i * classes + k] - lift / (1 + lift * (double)classes) * sum;
        }
    }
}

/* Chooses the classes to leave out: those all of whose images are in the table, and not too many. */
static l3a_status choose_absences(struct absences *absences) {
    const struct taught_rows *rows = &absences->rows;
    const l3a_model *model = rows->model;
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t classes = model->classes.count, numbers = model_dim(model) * classes, most = MOST_NUMBERS / numbers + 1;
    size_t *order = NULL, taken = 0;
    TRY(allocate(context, classes, sizeof *order, &order));
    TRY(allocate_zeroed(context, most < classes ? most : classes, sizeof *absences->items, &absences->items));
    for (size_t k = 0; k < classes; k++) {
        order[k] = k;
    }
    shuffle(model->options.seed, order, classes);
    for (size_t c = 0; c < classes && classes > 2 && absences->count < most; c++) {
        const size_t k = order[c], count = list_showing(rows, k, NULL);
        if (!count || count != model->counts[k] || count > rows->images || (taken && taken + count * rows->each > MOST_ROWS)) {
            continue;
        }
        struct absence *absence = &absences->items[absences->count++];
        *absence = (struct absence){.class = k, .count = count, .known = true};
        TRY(allocate(context, count, sizeof *absence->images, &absence->images));
        TRY(allocate(context, numbers, sizeof *absence->coefficients, &absence->coefficients));
        list_showing(rows, k, absence->images);
        copy_plain(model, absence->coefficients);
        taken += count * rows->each;
    }
done:
    release(context, order);
    return status;
}

static l3a_status prepare(struct absences *absences) {
    const struct taught_rows *rows = &absences->rows;
    const size_t classes = rows->model->classes.count;
    l3a_status status = L3A_OK;
    size_t most = 0;
    TRY(choose_absences(absences));
    for (size_t a = 0; a < absences->count; a++) {
        const size_t own = absences->items[a].count * rows->each;
        most = own > most ? own : most;
    }
    const struct array list[] = {
        {&absences->root, most, sizeof *absences->root, false},
        {&absences->h, most, most * sizeof *absences->h, false},
        {&absences->scores, most, classes * sizeof *absences->scores, false},
        {&absences->rest, classes, most * sizeof *absences->rest, false},
        {&absences->targets, classes, most * sizeof *absences->targets, false},
        {&absences->times, classes, sizeof *absences->times, true},
        {&absences->change, classes, model_dim(rows->model) * sizeof *absences->change, false},
    };
    TRY(arrays_allocate(rows->model->context, list, sizeof list / sizeof list[0]));
done:
    return status;
}

/* Ω^½ of an absent class's rows, s - H t and t of a system's classes, and the factor of I - H, if it has one. */
static bool make_rest(struct absences *absences, const struct absence *absence, const struct system *system) {
    const struct taught_rows *rows = &absences->rows;
    const int threads = rows->model->context->threads;
    const size_t d = model_dim(rows->model), classes = rows->model->classes.count, n = absence->count * rows->each;
    double *root = absences->root, *h = absences->h;
    matrix_multiply(threads, REAL_DOUBLE, false, true, n, n, d, 1, rows->solved, d, rows->exact, d, 0, h, n);
    matrix_multiply(threads, REAL_DOUBLE, false, false, n, classes, d, 1, rows->exact, d, absence->coefficients, classes, 0,
                    absences->scores, classes);
    for (size_t i = 0; i < n; i++) {
        const double weight = taught_weight(rows, absence->images[i / rows->each], rows->systems.order[system->first]);
        root[i] = sqrt(view_weight(weight, i % rows->each, rows->views));
        for (size_t c = system->first; c < system->last; c++) {
            const size_t k = rows->systems.order[c], at = (c - system->first) * n + i;
            absences->targets[at] = taught_label(rows, absence->images[i / rows->each], k) == 1 ? root[i] : 0;
            absences->rest[at] = root[i] * absences->scores[i * classes + k];
        }
    }
    for (size_t i = 0; i < n * n; i++) {
        h[i] *= root[i / n] * root[i % n];
    }
    matrix_multiply(threads, REAL_DOUBLE, false, false, system->last - system->first, n, n, -1, absences->targets, n, h, n, 1,
                    absences->rest, n);
    for (size_t i = 0; i < n * n; i++) {
        h[i] = (i / n == i % n) - h[i];
    }
    return matrix_factor(threads, REAL_DOUBLE, n, h, n);
}

/* Takes the images of a class out of the coefficients of a system's classes. */
static l3a_status leave_class(struct absences *absences, struct absence *absence, const struct system *system) {
    struct taught_rows *rows = &absences->rows;
    const int threads = rows->model->context->threads;
    const size_t d = model_dim(rows->model), classes = rows->model->classes.count, n = absence->count * rows->each;
    const size_t own = system->last - system->first;
    l3a_status status = L3A_OK;
    TRY(taught_read(rows, absence->images, 0, absence->count));
    TRY(taught_solve(rows, absence->count));
    absence->known = absence->known && make_rest(absences, absence, system);
    if (!absence->known) {
        goto done; /* these are not the images that were taught */
    }
    matrix_solve_rows(threads, REAL_DOUBLE, n, own, absences->h, n, absences->rest, n);
    for (size_t i = 0; i < own * n; i++) {
        absences->rest[i] = absences->root[i % n] * (absences->rest[i] - absences->targets[i]);
    }
    matrix_multiply(threads, REAL_DOUBLE, false, false, own, d, n, 1, absences->rest, n, rows->solved, d, 0, absences->change, d);
    for (size_t c = 0; c < own; c++) {
        const size_t k = rows->systems.order[system->first + c];
        for (size_t i = 0; i < d; i++) {
            absence->coefficients[i * classes + k] += absences->change[c * d + i];
        }
    }
done:
    return status;
}

/* The columns of the model without a class, whose own are 0, with the lift. The rows of its images have been read. */
static void make_columns(const struct absences *absences, const struct absence *absence, const struct model_columns *columns) {
    const struct taught_rows *rows = &absences->rows;
    const l3a_model *model = rows->model;
    const size_t d = model_dim(model), classes = model->classes.count, n = absence->count * rows->each;
    const double lift = model_lift(model);
    memcpy(columns->coefficients, absence->coefficients, d * classes * sizeof *columns->coefficients);
    memcpy(columns->cross, model->evidence->cross, d * classes * sizeof *columns->cross);
    memcpy(columns->counts, model->counts, classes * sizeof *columns->counts);
    memcpy(columns->label_weight, model->label_weight, classes * sizeof *columns->label_weight);
    for (size_t i = 0; i < n; i++) {
        const size_t image = absence->images[i / rows->each], view = i % rows->each;
        for (size_t k = 0; k < classes; k++) {
            const bool shown = taught_label(rows, image, k) == 1;
            columns->counts[k] -= shown && !view;
            columns->label_weight[k] -= shown && !view ? rows->weight[image] : 0;
            absences->scores[i * classes + k] = shown ? view_weight(rows->weight[image], view, rows->views) : 0;
        }
    }
    matrix_multiply(model->context->threads, REAL_DOUBLE, true, false, d, classes, n, -1, rows->exact, d, absences->scores, classes,
                    1, columns->cross, classes);
    for (size_t i = 0; i < d; i++) {
        double *own = columns->coefficients + i * classes, sum = 0;
        own[absence->class] = 0;
        for (size_t k = 0; k < classes; k++) {
            sum += own[k];
        }
        for (size_t k = 0; k < classes; k++) {
            own[k] += k == absence->class ? 0 : lift * sum;
        }
    }
}

/* Whether an image shows nothing that the model knows but one class. */
static bool shows_one(const struct taught_rows *rows, size_t image) {
    size_t shows = 0;
    for (size_t k = 0; k < rows->model->classes.count; k++) {
        shows += taught_label(rows, image, k) == 1;
    }
    return shows == 1;
}

/* Of the images that show nothing else, the share that gets each other tag: adds it, and to `times` where there is one. */
static void count_tags(struct absences *absences, const struct absence *absence, const uint64_t *left, const double *thresholds) {
    const struct taught_rows *rows = &absences->rows;
    const size_t classes = rows->model->classes.count;
    double *judged = absences->rest, *tagged = absences->targets;
    memset(judged, 0, classes * sizeof *judged);
    memset(tagged, 0, classes * sizeof *tagged);
    for (size_t i = 0; i < absence->count; i++) {
        const bool alone = shows_one(rows, absence->images[i]);
        for (size_t k = 0; k < classes && alone; k++) {
            const bool counts = taught_label(rows, absence->images[i], k) == 0;
            judged[k] += counts;
            tagged[k] += counts && absences->scores[i * classes + k] > thresholds[k];
        }
    }
    for (size_t k = 0; k < classes; k++) {
        const bool tells = judged[k] > 0 && left[k];
        absences->shares[k] += tells ? tagged[k] / judged[k] : 0;
        absences->times[k] += tells;
    }
}

/* Tags the images of a class by the model without it. */
static l3a_status tag_absent(struct absences *absences, const struct absence *absence, const struct model_columns *columns,
                             double *thresholds) {
    struct taught_rows *rows = &absences->rows;
    const l3a_model *model = rows->model;
    const int threads = model->context->threads;
    const size_t d = model_dim(model), classes = model->classes.count, n = absence->count * rows->each;
    l3a_status status = L3A_OK;
    TRY(taught_read(rows, absence->images, 0, absence->count));
    make_columns(absences, absence, columns);
    columns_thresholds(model, columns, model_images(model) - (double)absence->count, classes - 1, rows->views, thresholds);
    matrix_multiply(threads, REAL_DOUBLE, false, false, n, classes, d, 1, rows->exact, d, columns->coefficients, classes, 0,
                    absences->scores, classes);
    combine_views(threads, REAL_DOUBLE, absences->scores, absence->count, rows->views, classes, absences->scores, NULL);
    count_tags(absences, absence, columns->counts, thresholds);
done:
    return status;
}

l3a_status l3a_model_leave_out_classes(l3a_model *model, l3a_features *features, double *shares) {
    REQUIRE(model, model, features, shares);
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    struct absences absences = {.rows = {.model = model, .features = features}, .shares = shares};
    struct model_columns columns = {0};
    const size_t classes = model->classes.count;
    double *thresholds = NULL;
    TRY(check_state(model, false));
    TRY(model_accepts(model, features));
    TRY(taught_rows_open(&absences.rows));
    TRY(prepare(&absences));
    TRY(model_columns_create(context, model_dim(model), classes, &columns));
    TRY(allocate(context, classes, sizeof *thresholds, &thresholds));
    memset(shares, 0, classes * sizeof *shares);
    for (size_t s = 0; s < absences.rows.systems.count && absences.count; s++) {
        TRY(taught_factor(&absences.rows, s));
        for (size_t a = 0; a < absences.count; a++) {
            TRY(report_progress(context, "leave out", a, absences.count));
            TRY(leave_class(&absences, &absences.items[a], &absences.rows.systems.items[s]));
        }
    }
    for (size_t a = 0; a < absences.count; a++) {
        const struct absence *absence = &absences.items[a];
        TRY(absence->known ? tag_absent(&absences, absence, &columns, thresholds) : L3A_OK);
    }
    for (size_t k = 0; k < classes; k++) {
        shares[k] = absences.times[k] > 0 ? shares[k] / absences.times[k] : NAN;
    }
done:
    model_columns_free(context, &columns);
    release(context, thresholds);
    absences_free(&absences);
    return status;
}
