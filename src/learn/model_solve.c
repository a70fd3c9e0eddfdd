/* Solving: γ and W from the sums of a model. */
#include "learn/model.h"

#include <math.h>
#include <string.h>

double model_images(const l3a_model *model) {
    double images = 0;
    for (size_t i = 0; i < model->evidence->part_count; i++) {
        images += (double)model->evidence->parts[i].images;
    }
    return images;
}

/* γ as a function of the sums (the setting `gamma-from` sums), which depends neither on the order of the images nor on their
 * division into lessons: with N images, K classes and m = tr(S)/N, the mean of ω‖x‖²,
 *
 *   γ = m (1 + 8/K) N/(N + 15), rounded to a quarter of a decade
 *
 * The fewer classes are known, the more pictures show none of them, and the more caution is needed. The constants were chosen on
 * training images (docs/teaching.md). Unlabelled images have no say in it. Rounding keeps γ, and with it
 * the factor, from changing at every lesson. */
static l3a_status choose_gamma_from_sums(l3a_model *model, size_t classes) {
    const struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    const double images = model_images(model);
    double trace = 0;
    if (model->options.gamma_from != L3A_GAMMA_FROM_SUMS || (model->options.gamma > 0 && !model_record(model, "gamma"))) {
        return L3A_OK;
    }
    TRY(sums_trace(&evidence->ridge.sums, &trace));
    trace -= evidence->acting * evidence->unlabelled.trace; /* that of S */
    const double gamma = trace / images * (1 + 8 / (double)classes) * images / (images + 15);
    FAIL_IF(!(isfinite(gamma) && gamma > 0), model->context, L3A_ERROR_NUMERIC, "give a number for gamma, or scale the features",
            "no gamma can be chosen from these features");
    TRY(model_set_record(model, "gamma", "sums"));
    model->options.gamma = pow(10, round(4 * log10(gamma)) / 4);
done:
    return status;
}

l3a_status model_sum_parts(l3a_model *model, size_t classes, const uint64_t *counts) {
    struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    evidence->ridge.gamma = model->options.gamma;
    const double acting =
        evidence->part_count && has_unlabelled(model) ? unlabelled_weight(model, classes, counts) / model->options.alpha : 0;
    if (evidence->part_count && !evidence->summed) {
        TRY(parts_sum(&evidence->ridge.sums, evidence->parts, evidence->part_count));
        evidence->summed = true;
        evidence->acting = 0;
    }
    if (evidence->summed && acting != evidence->acting) {
        evidence_changed(evidence); /* every M */
        TRY(sums_add_scatter(&evidence->ridge.sums, acting - evidence->acting, &evidence->unlabelled.sums));
        evidence->summed = true;
        evidence->acting = acting;
    }
    evidence->ridge.beside.scatter = acting > 0 ? &evidence->unlabelled.sums : NULL;
    evidence->ridge.beside.times = acting;
done:
    return status;
}

static l3a_status solve(const l3a_model *model, size_t columns, const double *cross, double *coefficients) {
    struct evidence *evidence = model->evidence;
    return evidence->part_count
               ? parts_solve(&evidence->ridge, evidence->parts, evidence->part_count, model->options.alpha, model->options.lift,
                             columns, cross, coefficients, evidence->end.kept ? &evidence->end : NULL)
               : ridge_solve(&evidence->ridge, columns, cross, coefficients);
}

/* Process 0 solves for all, and can use the processors of those that wait. */
static l3a_status solve_for_all(const l3a_model *model, size_t columns, const double *cross, double *coefficients) {
    l3a_context *context = model->context;
    l3a_status status = L3A_OK;
    const size_t numbers = model_dim(model) * columns;
    const int threads = context->threads;
    if (leads(context)) {
        context->threads = context->options.lead_threads ? (int)context->options.lead_threads : threads;
        status = solve(model, columns, cross, coefficients);
        context->threads = threads;
    } else {
        memset(coefficients, 0, numbers * sizeof *coefficients);
    }
    TRY(follow_lead(context, status, NULL));
    TRY(sum_numbers(context, coefficients, numbers));
done:
    return status;
}

l3a_status model_solve(l3a_model *model, size_t classes, const struct model_columns *columns) {
    struct evidence *evidence = model->evidence;
    l3a_status status = L3A_OK;
    TRY(model_sum_parts(model, classes, columns->counts));
    if (!classes) {
        goto done; /* everything was taken back */
    }
    TRY(choose_gamma_from_sums(model, classes));
    evidence->ridge.gamma = model->options.gamma;
    if (divides_rows(model->context) && !evidence->ridge.sums.algebra->shared) {
        TRY(solve_for_all(model, classes, columns->cross, columns->coefficients));
    } else {
        TRY(solve(model, classes, columns->cross, columns->coefficients));
    }
done:
    return status;
}

l3a_status model_settle(l3a_model *model, bool solve) {
    l3a_status status = L3A_OK;
    if (solve) {
        TRY(report_progress(model->context, "solve", 0, 1));
        const struct model_columns columns = model_columns_of(model);
        TRY(model_solve(model, model->classes.count, &columns));
    }
    TRY(report_progress(model->context, "solve", 1, 1));
    model_changed(model);
    model->state = MODEL_READY;
done:
    return status;
}
