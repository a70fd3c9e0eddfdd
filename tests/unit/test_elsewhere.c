/* Results computed elsewhere: files that join, and what is said about those that do not. */
#include "support.h"

#include "measure/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static l3a_context *context;
static l3a_results *results;
static char *folder, *path;

static void add(const char *method, uint64_t seed, size_t phase, size_t first, size_t last) {
    double precision[4] = {50, 50, 50, 50};
    const l3a_result row = {.method = method, .seed = seed, .phase = phase, .first = first, .last = last, .metrics.mean_ap = 50};
    const struct class_details details = {.average_precision = precision};
    assert_ok(context, results_add(results, &row, &details));
}

/* A run of four classes in two phases, and joint learning. */
static int set_up(void **state) {
    (void)state;
    static const char *const classes[] = {"a", "b", "c", "d"};
    context = make_context(1);
    folder = make_temporary_folder();
    path = path_in(folder, "results.csv");
    assert_ok(context, results_create(context, &results));
    for (size_t k = 0; k < 4; k++) {
        assert_ok(context, text_list_add(context, &results->classes, classes[k], 1));
    }
    add("l3a", 1, 1, 0, 2), add("l3a", 1, 2, 2, 4), add("joint", 1, 1, 0, 4);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(path);
    remove_folder(folder);
    l3a_results_free(results);
    l3a_context_free(context);
    return 0;
}

static l3a_status join(const char *text) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
    return l3a_results_join(results, path);
}

static void rows_join_in_any_order(void **state) {
    (void)state;
    assert_ok(context, join("method,seed,phase,map,class_f1,overall_f1\nmine,1,2,61.5,40,41.25\nmine,1,1,70,,\nmine,9,1,71,50,"
                            "51\nmine,9,2,62,52,53\n"));
    assert_int_equal(l3a_results_count(results), 7);
    assert_string_equal(l3a_results_source(results, "mine"), "results.csv");
    assert_string_equal(l3a_results_source(results, "l3a"), "");
    assert_string_equal(l3a_results_source(results, "nobody"), "");
    assert_string_equal(results_threshold(results, "mine"), "not stated");
    const l3a_result *row = l3a_results_at(results, 4); /* seed 1, phase 2 */
    assert_true(row->phase == 2 && row->first == 2 && row->last == 4 && row->metrics.mean_ap == 61.5 &&
                row->metrics.class_f1 == 40 && row->metrics.overall_f1 == 41.25);
    assert_true(isnan(l3a_results_average_precision(results, 4)[0]) && isnan(row->base_map));
    assert_true(isnan(l3a_results_at(results, 3)->metrics.class_f1));
    l3a_summary summary = {.size = sizeof summary};
    assert_ok(context, l3a_results_summary(context, results, "mine", &summary));
    assert_true(summary.seeds == 2 && fabs(summary.average_map[0] - (65.75 + 66.5) / 2) < 1e-12 && summary.last_map[0] == 61.75 &&
                isnan(summary.forgetting[0]) && summary.last_class_f1[0] == 46);
}

static void spreadsheets_and_bounds_are_understood(void **state) {
    (void)state;
    assert_ok(context, join("\xEF\xBB\xBFphase;map;method;seed;classes;threshold\r\n1;90;their bound;1;4;σ > 0.5\r\n"));
    assert_int_equal(l3a_results_at(results, 3)->last, 4);
    assert_string_equal(results_threshold(results, "their bound"), "σ > 0.5");
    assert_ok(context, join("phase\tmap\tmethod\tseed\n1\t80\t\"a, b\"\t1\n2\t70\t\"a, b\"\t1"));
    assert_string_equal(l3a_results_at(results, 4)->method, "a, b");
}

static void orders_are_those_of_the_run(void **state) {
    (void)state;
    static const char *const names[] = {"shuffle:1", "shuffle:2"};
    const size_t positions[] = {0, 1, 2, 3, 3, 2, 1, 0};
    assert_int_equal(join("method,seed,phase,map,order\nm,1,1,50,shuffle:1\n"), L3A_ERROR_DATA);
    assert_non_null(strstr(l3a_error_text(context), "only one class order"));
    assert_ok(context, results_set_orders(results, names, 2, positions));
    assert_int_equal(join("method,seed,phase,map,order\nm,1,1,50,shuffle:3\n"), L3A_ERROR_DATA);
    assert_non_null(strstr(l3a_error_text(context), "no class order 'shuffle:3'"));
    assert_int_equal(join("method,seed,phase,map\nm,1,1,50\n"), L3A_ERROR_DATA);
    assert_ok(context, join("method,seed,phase,map,order\nm,1,1,50,shuffle:2\nm,1,2,40,shuffle:2\n"));
    assert_int_equal(l3a_results_order_of(results, 3), 1);
}

static void mistakes_are_named_and_leave_the_results(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
        l3a_status status;
    } cases[] = {
        {"", "the file is empty", L3A_ERROR_FORMAT},
        {"method,seed,phase,map\n", "no rows below", L3A_ERROR_DATA},
        {"method,seed,phase\nm,1,1\n", "column 'map' is missing", L3A_ERROR_FORMAT},
        {"m,1,1,50\n", "no column 'm'", L3A_ERROR_FORMAT},
        {"method,seed,phase,mAP\nm,1,1,50\n", "no column 'mAP'", L3A_ERROR_FORMAT},
        {"method,seed,phase,map,map\nm,1,1,50,50\n", "'map' is listed twice", L3A_ERROR_FORMAT},
        {"method,seed,phase,map\nm,x,1,50\n", "line 2: seed must be a whole number, but is 'x'", L3A_ERROR_FORMAT},
        {"method,seed,phase,map\nm,1,1.5,50\n", "phase must be a whole number", L3A_ERROR_FORMAT},
        {"method,seed,phase,map\nm,1,0,50\n", "no phase 0: the run has 2", L3A_ERROR_DATA},
        {"method,seed,phase,map\nm,1,3,50\n", "no phase 3: the run has 2", L3A_ERROR_DATA},
        {"method,seed,phase,map\nm,1,1,100.5\n", "map must be between 0 and 100, but is '100.5'", L3A_ERROR_DATA},
        {"method,seed,phase,map\nm,1,1,-1\n", "between 0 and 100", L3A_ERROR_DATA},
        {"method,seed,phase,map\nm,1,1,nan\n", "between 0 and 100", L3A_ERROR_FORMAT},
        {"method,seed,phase,map\nm,1,1,\n", "map must be between 0 and 100, but is ''", L3A_ERROR_FORMAT},
        {"method,seed,phase,map\nm,1,1,\"50,5\"\n", "between 0 and 100", L3A_ERROR_FORMAT},
        {"method,seed,phase,map,class_f1\nm,1,1,50,101\n", "class_f1 must be between 0 and 100", L3A_ERROR_DATA},
        {"method,seed,phase,map\nm,1,1,0.5\nm,1,2,0.6\n", "no mAP is above 1", L3A_ERROR_DATA},
        {"method,seed,phase,map\nl3a,2,1,50\n", "results of a method 'l3a' already", L3A_ERROR_EXISTS},
        {"method,seed,phase,map\n,1,1,50\n", "the name of a method", L3A_ERROR_FORMAT},
        {"method,seed,phase,map\n\"a\nb\",1,1,50\n", "the name of a method", L3A_ERROR_FORMAT},
        {"method,seed,phase,map\nm,1,1,50\nm,1,1,51\n", "line 3: phase 1 of 'm' with seed 1 is listed twice", L3A_ERROR_DATA},
        {"method,seed,phase,map\nm,1,1,50\n", "phase 2 of 'm' with seed 1 is missing", L3A_ERROR_DATA},
        {"method,seed,phase,map\nm,1,2,50\n", "phase 1 of 'm' with seed 1 is missing", L3A_ERROR_DATA},
        {"method,seed,phase,map,classes\nm,1,1,50,4\nm,1,2,50,4\n", "has all classes after phase 1, but also a phase 2",
         L3A_ERROR_DATA},
        {"method,seed,phase,map,classes\nm,1,1,50,3\n", "3 classes after phase 1, but the run has 2 then", L3A_ERROR_MISMATCH},
        {"method,seed,phase,map,threshold\nm,1,1,50,a\nm,1,2,50,b\n", "threshold 'b' here, and 'a' before", L3A_ERROR_DATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(join(cases[i].text), cases[i].status);
        if (!strstr(l3a_error_text(context), cases[i].says)) {
            fail_msg("'%s' instead of '%s'", l3a_error_text(context), cases[i].says);
        }
        assert_non_null(strstr(l3a_error_text(context), "results.csv"));
        assert_true(l3a_error_hint(context)[0]);
        assert_int_equal(l3a_results_count(results), 3);
        assert_int_equal(results->methods.count, 2);
    }
    assert_int_equal(l3a_results_join(results, "/nowhere/results.csv"), L3A_ERROR_NOT_FOUND);
    assert_ok(context, join("method,seed,phase,map\nm,1,1,50\nm,1,2,40\n")); /* and a good file still joins */
}

static void a_run_without_results_has_no_phases(void **state) {
    (void)state;
    results_forget_methods(results, 0);
    assert_int_equal(join("method,seed,phase,map\nm,1,1,50\n"), L3A_ERROR_STATE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(rows_join_in_any_order),
        TEST(spreadsheets_and_bounds_are_understood),
        TEST(orders_are_those_of_the_run),
        TEST(mistakes_are_named_and_leave_the_results),
        TEST(a_run_without_results_has_no_phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
