/* What methods with prompts share: the directions that they begin with, the choice of groups of tokens, and networks that have no
 * place for prompts. */
#include "naive_network.h"
#include "small_networks.h"
#include "support.h"

#include "method/prompts.h"
#include "net/pick.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 12, BEFORE = 3, ROWS = 11 };

static double product(const float *left, const float *right) {
    double sum = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        sum += (double)left[i] * (double)right[i];
    }
    return sum;
}

static void directions_are_orthogonal_as_long_as_there_are_dimensions(void **unused) {
    l3a_context *context = make_context(1);
    const struct head head = {.context = context, .seed = 3};
    float rows[(BEFORE + ROWS) * COLUMNS], again[ROWS * COLUMNS], *made = rows + BEFORE * COLUMNS;
    (void)unused;
    for (size_t i = 0; i < BEFORE * COLUMNS; i++) { /* the third is a sum of the others, so these span two dimensions */
        rows[i] = i < 2 * COLUMNS ? (float)sin((double)(i * i)) : rows[i - COLUMNS] + 2 * rows[i - 2 * COLUMNS];
    }
    assert_ok(context, prompts_orthogonal(&head, "a name", rows, BEFORE, ROWS, COLUMNS, made));
    for (size_t i = 0; i < ROWS; i++) {
        assert_true(fabs(product(made + i * COLUMNS, made + i * COLUMNS) - 1) < 1e-6);
        for (size_t j = 0; j < BEFORE + i && i < COLUMNS - 2; j++) {
            assert_true(fabs(product(made + i * COLUMNS, rows + j * COLUMNS)) < 1e-6);
        }
    }
    assert_ok(context, prompts_orthogonal(&head, "a name", rows, BEFORE, ROWS, COLUMNS, again));
    assert_memory_equal(again, made, sizeof again);
    assert_ok(context, prompts_orthogonal(&head, "another", rows, BEFORE, ROWS, COLUMNS, again));
    assert_memory_not_equal(again, made, sizeof again);
    l3a_context_free(context);
}

static void pictures_pick_apart_or_together(void **unused) {
    const float scores[] = {0, 3, 1, 2, /* 1, 3 */ 5, 4, 1, 0, /* 0, 1 */ 1, 1, 1, 0 /* 0, 1: of equal ones the first */};
    size_t picked[2];
    (void)unused;
    pick_highest(scores, 4, 2, picked);
    assert_int_equal(picked[0], 1);
    assert_int_equal(picked[1], 3);
    pick_highest(scores + 8, 4, 2, picked);
    assert_int_equal(picked[0], 0);
    assert_int_equal(picked[1], 1);
    pick_together(scores, 3, 4, 2, picked);
    assert_int_equal(picked[0], 1);
    assert_int_equal(picked[1], 0);
}

static void a_network_that_is_no_transformer_is_refused(void **unused) {
    static struct memory_tensors tensors;
    l3a_context *context = make_context(1);
    const struct head head = {.context = context};
    const struct backbone_recipe recipe = {.side = 32};
    struct parameters parameters;
    struct network net;
    struct vit vit;
    (void)unused;
    make_small_resnet(&tensors);
    const struct parameter_source source = tensors_source(&tensors, read_small);
    assert_ok(context, parameters_open(context, &source, &parameters));
    network_start(context, &parameters, 32, &net);
    assert_false(prompts_start(&net, &head, "l2p", &resnet_family, &recipe, &vit));
    assert_int_equal(net.status, L3A_ERROR_MISMATCH);
    assert_non_null(strstr(l3a_error_text(context), "'l2p' learns prompts for a vision transformer, and this network is a resnet"));
    network_free(&net);
    parameters_close(&parameters);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(directions_are_orthogonal_as_long_as_there_are_dimensions),
                                       cmocka_unit_test(pictures_pick_apart_or_together),
                                       cmocka_unit_test(a_network_that_is_no_transformer_is_refused)};
    return cmocka_run_group_tests_name("prompts", tests, NULL, NULL);
}
