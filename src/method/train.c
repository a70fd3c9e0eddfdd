/* Trains a head on a phase.
 *
 * There are `epochs` passes over the phase's images in random order, `batch` at a time. The loss of an image is the sum over all
 * classes seen. Adam starts anew, with a one-cycle rate. A label that the phase does not give, that of an old class, counts as 0
 * in the loss, as in the comparisons this follows; this is why a head that is merely trained further forgets.
 *
 * With views, an image that enters a step does so as one of its rows: as the whole picture with probability ½, else as one of its
 * crops, all equally likely. The expected gradient is that of all its rows with weights ½ and ½/views, which are the rows and the
 * proportions that closed forms learn from (learn/view_rows.h), and a step costs no more than without views. Without views nothing
 * is drawn.
 *
 * Replay adds to each batch as many rows from the memory, drawn without replacement. For methods published as training on the
 * union of phase and memory, the memory's rows are shuffled among the phase's instead.
 *
 * Distillation adds, for old classes, the binary cross-entropy against the probabilities of the head as it was before the phase.
 * If it replaces the labels (lwf, icarl), its minimum is the old head itself: on frozen features the rows of W of old classes do
 * not change at all, whatever λ. Both sides of the difference are computed by the same product, so that it is exactly 0 there:
 * Adam would turn a rounding error of 10⁻⁸ into a step. */
#include "method/head.h"

#include <string.h>

struct workspace {
    struct batch batch;
    struct adam adam;
    float *gradient; /* with respect to the coefficients */
    size_t *order;   /* of the phase's rows and, numbered after them, the memory's rows that join them */
    size_t *joined;  /* slots of the joining rows */
    size_t joined_count;
};

static void workspace_free(struct head *head, struct workspace *work) {
    const struct batch *batch = &work->batch;
    void *const arrays[] = {head->layer.matrix ? batch->stored : NULL,
                            batch->features,
                            batch->targets,
                            batch->scale,
                            batch->slots,
                            batch->views,
                            batch->scores,
                            batch->old,
                            batch->gradient,
                            work->gradient,
                            work->adam.mean,
                            work->adam.square,
                            work->order,
                            work->joined};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        release(head->context, arrays[i]);
    }
    if (head->network) {
        head_network_drop_room(head);
    }
}

static l3a_status batch_create(struct head *head, struct batch *batch) {
    l3a_context *context = head->context;
    l3a_status status = L3A_OK;
    const size_t capacity = head->batch * (1 + head->rules->replays), pairs = head->classes * sizeof(float);
    if (head->network) {
        TRY(head_network_make_room(head, capacity));
    }
    TRY(allocate(context, capacity, head->inputs * sizeof(float), &batch->features));
    batch->stored = batch->features;
    if (head->layer.matrix) {
        batch->stored = NULL;
        TRY(allocate(context, capacity, head->stored * sizeof(float), &batch->stored));
    }
    TRY(allocate(context, capacity, pairs, &batch->targets));
    TRY(allocate(context, capacity, pairs, &batch->scores));
    TRY(allocate(context, capacity, pairs, &batch->gradient));
    TRY(allocate(context, capacity, sizeof(float), &batch->scale));
    TRY(allocate(context, capacity, sizeof *batch->slots, &batch->slots));
    TRY(allocate(context, capacity, sizeof *batch->views, &batch->views));
    if (head->rules->distils != DISTIL_NONE) {
        TRY(allocate(context, capacity, head->old * sizeof(float), &batch->old));
    }
done:
    return status;
}

static l3a_status workspace_create(struct head *head, const struct rows *rows, struct workspace *work) {
    l3a_context *context = head->context;
    l3a_status status = L3A_OK;
    const struct memory *memory = &head->memory;
    const size_t column = head->classes * sizeof(float);
    TRY(batch_create(head, &work->batch));
    TRY(allocate_zeroed(context, head->inputs, column, &work->adam.mean));
    TRY(allocate_zeroed(context, head->inputs, column, &work->adam.square));
    TRY(allocate(context, head->inputs, column, &work->gradient));
    TRY(allocate(context, memory->count, sizeof *work->joined, &work->joined));
    for (size_t i = 0; head->rules->joins && i < memory->count; i++) {
        if (!memory_holds_out(memory, i)) {
            work->joined[work->joined_count++] = i;
        }
    }
    TRY(allocate(context, rows->count + work->joined_count, sizeof *work->order, &work->order));
done:
    return status;
}

static size_t draw_view(struct head *head) {
    const size_t crops = head->views, drawn = crops > 1 ? stream_below(&head->random, 2 * crops) : 0;
    return drawn < crops ? 0 : drawn - crops + 1;
}

/* The features of pictures are computed later. */
static void add_view(const struct head *head, const float *images, size_t image, size_t view, struct batch *batch) {
    batch->views[batch->rows] = view;
    if (head->network) {
        return;
    }
    memcpy(batch->stored + batch->rows * head->stored, head_view(head, images, image, view), head->stored * sizeof(float));
}

static void add_fresh(struct head *head, const struct rows *rows, size_t row, struct batch *batch) {
    const int8_t *labels = rows->labels + row * rows->classes;
    float *targets = batch->targets + batch->rows * head->classes;
    add_view(head, rows->features, row, draw_view(head), batch);
    memset(targets, 0, head->old * sizeof *targets);
    for (size_t k = 0; k < rows->classes; k++) {
        targets[head->old + k] = labels[k] == 1;
    }
    batch->rows++;
}

static void add_kept(const struct head *head, size_t slot, size_t view, struct batch *batch) {
    const struct memory *memory = &head->memory;
    const int8_t *labels = memory->labels + slot * head->classes;
    add_view(head, memory->features, slot, view, batch);
    for (size_t k = 0; k < head->classes; k++) {
        batch->targets[batch->rows * head->classes + k] = labels[k];
    }
    batch->slots[batch->rows++] = slot;
}

static void set_scale(const struct head *head, struct batch *batch, size_t first) {
    for (size_t i = first; i < batch->rows; i++) {
        batch->scale[i] = head_row_share(head, batch->rows - first);
    }
}

/* Fills the batch with some of the phase's rows, and the rows of the memory that belong to the step. */
static void fill_batch(struct head *head, const struct rows *rows, const struct workspace *work, size_t first, size_t count,
                       struct batch *batch) {
    batch->rows = 0;
    batch->first = first;
    for (size_t i = first; i < first + count; i++) {
        if (work->order[i] < rows->count) {
            add_fresh(head, rows, work->order[i], batch);
        } else {
            add_kept(head, work->joined[work->order[i] - rows->count], draw_view(head), batch);
        }
    }
    batch->fresh = batch->last = batch->rows;
    set_scale(head, batch, 0);
    for (size_t i = 0; i < head->rules->replays; i++) {
        batch->last = batch->rows;
        const size_t drawn = memory_draw(&head->memory, &head->random, head->batch, batch->slots + batch->rows);
        const bool same = head->rules->kept_view && i + 1 == head->rules->replays;
        for (size_t j = 0; j < drawn; j++) {
            const size_t slot = batch->slots[batch->rows];
            add_kept(head, slot, same ? head->rules->kept_view(head, slot) : draw_view(head), batch);
        }
        set_scale(head, batch, head->rules->apart ? batch->last : 0);
    }
}

/* Scores old and new classes in separate products; see above. */
static void score_batch(const struct head *head, struct batch *batch) {
    const size_t old = head->old;
    const float *before = head->network && head->network->net.old ? head->network->old_features : batch->features;
    if (head->rules->distils == DISTIL_NONE) {
        head_multiply(head, head->coefficients, head->classes, batch->features, batch->rows, batch->scores, head->classes);
        return;
    }
    head_multiply(head, head->coefficients, old, batch->features, batch->rows, batch->scores, head->classes);
    head_multiply(head, head->old_coefficients, old, before, batch->rows, batch->old, old);
    head_multiply(head, head->coefficients + old * head->inputs, head->classes - old, batch->features, batch->rows,
                  batch->scores + old, head->classes);
}

static void add_distillation(const struct head *head, struct batch *batch) {
    const bool only = head->rules->distils == DISTIL_ONLY;
    const double share = only ? 1 : (double)head->old / (double)(head->classes - head->old);
    for (size_t i = 0; only && i < batch->rows; i++) {
        memset(batch->gradient + i * head->classes, 0, head->old * sizeof *batch->gradient);
    }
    distil_gradient(batch->rows, head->classes, head->old, batch->scores, batch->old,
                    (float)(head->tuning.lambda * share) * head_row_share(head, batch->rows), batch->gradient);
}

/* The scores of the step's rows, and the gradient of their loss. */
static l3a_status look_at_batch(struct head *head, struct batch *batch) {
    l3a_status status = L3A_OK;
    if (head->network) {
        TRY(head_network_forward(head, batch));
    } else {
        head_expand(head, batch->stored, batch->rows, batch->features);
    }
    if (head_has_coefficients(head)) {
        score_batch(head, batch);
    }
    if (head->network) {
        TRY(head_network_loss(head, batch));
    } else {
        loss_gradient(head->loss, batch->rows, head->classes, batch->scores, batch->targets, batch->scale, batch->gradient);
    }
done:
    return status;
}

static l3a_status make_step(struct head *head, struct workspace *work, size_t steps, double highest) {
    const struct head_rules *rules = head->rules;
    struct batch *batch = &work->batch;
    l3a_status status = L3A_OK;
    TRY(look_at_batch(head, batch));
    if (rules->distils != DISTIL_NONE && head->old) {
        add_distillation(head, batch);
    }
    if (rules->score_terms) {
        rules->score_terms(head, batch);
    }
    if (head_has_coefficients(head)) {
        matrix_multiply(1, REAL_SINGLE, true, false, head->classes, head->inputs, batch->rows, 1, batch->gradient, head->classes,
                        batch->features, head->inputs, 0, work->gradient, head->inputs);
        if (rules->coefficient_terms) {
            rules->coefficient_terms(head, work->gradient);
        }
    }
    if (head->network) {
        TRY(head_network_step(head, batch, work->gradient, work->adam.steps++, steps));
    } else {
        adam_step(&work->adam, head->classes * head->inputs, one_cycle(work->adam.steps, steps, highest), work->gradient,
                  head->coefficients);
    }
done:
    return status;
}

static size_t rows_of_step(const struct head *head, size_t first, size_t shown) {
    return shown - first < head->batch ? shown - first : head->batch;
}

/* Progress of a head is that of its epochs. A network takes long for each, so that of its pictures is told. */
static l3a_status report_step(const struct head *head, size_t epoch, size_t first, size_t shown) {
    return head->network ? report_progress(head->context, "train", epoch * shown + first, head->tuning.epochs * shown) : L3A_OK;
}

static void order_epoch(struct head *head, const struct workspace *work, size_t shown) {
    if (!head->in_order) {
        stream_shuffle(&head->random, work->order, shown);
        return;
    }
    for (size_t i = 0; i < shown; i++) {
        work->order[i] = i;
    }
}

static l3a_status make_epoch(struct head *head, struct rows *rows, struct workspace *work, size_t epoch, size_t shown) {
    const struct tuning *tuning = &head->tuning;
    const double highest = head->old ? tuning->rate : tuning->first_rate;
    const size_t steps = tuning->epochs * ((shown + head->batch - 1) / head->batch);
    l3a_status status = L3A_OK;
    order_epoch(head, work, shown);
    work->batch.last_pass = epoch + 1 == tuning->epochs;
    if (head->network) {
        head_network_start_epoch(head, epoch);
        TRY(head_network_read_ahead(head, rows, work->order, work->joined, rows_of_step(head, 0, shown)));
    }
    for (size_t first = 0; first < shown; first += head->batch) {
        const size_t count = rows_of_step(head, first, shown), next = first + count;
        TRY(report_step(head, epoch, first, shown));
        fill_batch(head, rows, work, first, count, &work->batch);
        if (head->network) {
            TRY(head_network_load(head, rows, work->order + first, work->joined, &work->batch));
            TRY(head_network_read_ahead(head, rows, work->order + next, work->joined, rows_of_step(head, next, shown)));
        }
        TRY(make_step(head, work, steps, highest));
        if (head->rules->stepped) {
            head->rules->stepped(head, rows, work->order + first, &work->batch);
        }
    }
done:
    return status;
}

l3a_status head_train(struct head *head, struct rows *rows) {
    l3a_status status = L3A_OK;
    struct workspace work = {0};
    const struct tuning *tuning = &head->tuning;
    TRY(workspace_create(head, rows, &work));
    const size_t shown = rows->count + work.joined_count;
    size_t epoch = 0;
    if (head->network) {
        TRY(head_progress_resume(head, rows, &epoch, &work.adam.steps));
    }
    for (; epoch < tuning->epochs; epoch++) {
        TRY(head->network ? L3A_OK : report_progress(head->context, "head", epoch, tuning->epochs));
        TRY(make_epoch(head, rows, &work, epoch, shown));
        TRY(head->network ? head_progress_keep(head, rows, epoch + 1, work.adam.steps) : L3A_OK);
    }
    TRY(report_progress(head->context, head->network ? "train" : "head", tuning->epochs, tuning->epochs));
done:
    workspace_free(head, &work);
    return status;
}
