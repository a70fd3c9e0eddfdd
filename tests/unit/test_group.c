/* Models that learn together, against each of them learning alone: the same labels, coefficients and scores. */
#include "support.h"

#include "data/features.h"
#include "learn/model_group.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTH = 10, DIM = 33, CLASSES = 6, OWN = 2, MOST = 90, MEMBERS = 10, TESTS = 25 };

static const char *const names[CLASSES] = {"ant", "bee", "cat", "dog", "eel", "fox"};

struct world {
    float features[MOST * WIDTH], tests[TESTS * WIDTH];
    int8_t labels[MOST * CLASSES], unused[TESTS * CLASSES];
};

/* Classes leave marks, so that scores of old classes pass the thresholds and members disagree. */
static void make_world(struct world *world, size_t rows) {
    float marks[CLASSES * WIDTH];
    int8_t none[CLASSES];
    random_table(4, CLASSES, WIDTH, 1, 2, marks, none);
    random_table(5, rows, WIDTH, CLASSES, 4, world->features, world->labels);
    random_table(6, TESTS, WIDTH, CLASSES, 4, world->tests, world->unused);
    for (size_t i = 0; i < rows; i++) {
        world->labels[i * CLASSES + i % CLASSES] = 1;
        for (size_t j = 0; j < WIDTH; j++) {
            world->features[i * WIDTH + j] *= 0.2F;
            for (size_t k = 0; k < CLASSES; k++) {
                world->features[i * WIDTH + j] += world->labels[i * CLASSES + k] == 1 ? marks[k * WIDTH + j] : 0;
            }
        }
    }
}

static void make_members(l3a_precision precision, uint64_t block, struct model_options *members) {
    static const double etas[MEMBERS] = {0.55, 0.6, 0.7, 0.7, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7};
    static const double gammas[MEMBERS] = {0.5, 0.5, 0.5, 5, 5, 0.5, 2, 2, 2, 0};
    for (size_t v = 0; v < MEMBERS; v++) {
        model_options_default(&members[v]);
        members[v].dim = DIM;
        members[v].block = block;
        members[v].precision = precision;
        members[v].solver = L3A_SOLVER_SUMS;
        members[v].eta = etas[v];
        members[v].gamma = gammas[v];
    }
    members[4].weights = L3A_WEIGHTS_NONE;
    members[4].pseudo = L3A_PSEUDO_OFF;
    /* l3a+: three that share their sums, one that folds, and one that chooses gamma */
    for (size_t v = 5; v < MEMBERS; v++) {
        members[v].pseudo = L3A_PSEUDO_OFF;
        members[v].alpha = v == 7 ? 0.1 : 0.3;
        members[v].lift = 0.1;
        members[v].thresholds = L3A_THRESHOLDS_PER_CLASS;
        members[v].keep_phases = v == 8 ? 1 : 0;
    }
}

/* All phases by the group, and by a model for each member. */
static void compare(size_t rows, l3a_precision precision, uint64_t block, bool expect_corrections) {
    static struct world world;
    l3a_context *context = make_context(2);
    struct model_options members[MEMBERS];
    l3a_features *table = NULL;
    struct group *group = NULL;
    l3a_model *models[MEMBERS] = {0};
    uint64_t corrected = 0;
    make_world(&world, rows);
    make_members(precision, block, members);
    assert_ok(context, l3a_features_wrap(context, world.features, world.labels, rows, 1, WIDTH, names, CLASSES, &table));
    assert_true(group_accepts(&members[0], &members[4]));
    assert_ok(context, group_create(context, members, MEMBERS, WIDTH, &group));
    for (size_t v = 0; v < MEMBERS; v++) {
        assert_ok(context, model_create(context, WIDTH, &members[v], &models[v]));
    }
    for (size_t first = 0; first < CLASSES; first += OWN) {
        const size_t columns[OWN] = {first, first + 1}, seen = first + OWN;
        struct group_outcome outcomes[MEMBERS];
        float scores[MEMBERS][TESTS * CLASSES], alone[TESTS * CLASSES], *all[MEMBERS];
        assert_ok(context, group_learn(group, table, columns, names + first, OWN, outcomes));
        for (size_t v = 0; v < MEMBERS; v++) {
            all[v] = scores[v];
        }
        assert_ok(context, group_score(group, world.tests, TESTS, all));
        for (size_t v = 0; v < MEMBERS; v++) {
            assert_ok(context, l3a_model_learn(models[v], table, names + first, OWN));
            const l3a_phase_info *info = l3a_model_phase(models[v], first / OWN);
            assert_int_equal(outcomes[v].pseudo_labels, info->pseudo_labels);
            assert_int_equal(outcomes[v].images, info->images + info->skipped);
            corrected += outcomes[v].corrected;
            assert_ok(context, l3a_model_score(models[v], world.tests, TESTS, alone));
            for (size_t i = 0; i < TESTS * seen; i++) {
                assert_true(fabsf(scores[v][i] - alone[i]) <= (precision == L3A_PRECISION_DOUBLE ? 1e-6F : 2e-3F));
            }
            double thresholds[CLASSES], others[CLASSES];
            l3a_model_thresholds(group_model(group, v), thresholds);
            l3a_model_thresholds(models[v], others);
            for (size_t k = 0; k < seen; k++) {
                assert_true(fabs(thresholds[k] - others[k]) <= (precision == L3A_PRECISION_DOUBLE ? 1e-6 : 2e-3));
            }
            assert_true(group_model(group, v)->options.gamma == models[v]->options.gamma);
        }
    }
    assert_true(!expect_corrections || corrected > 0);
    for (size_t v = 0; v < MEMBERS; v++) {
        l3a_model_free(models[v]);
    }
    group_free(group);
    l3a_features_free(table);
    l3a_context_free(context);
}

static void members_are_what_they_would_be_alone(void **state) {
    (void)state;
    compare(MOST, L3A_PRECISION_DOUBLE, 4096, true);
    compare(MOST, L3A_PRECISION_MIXED, 4096, true);
}

static void blocks_of_any_size_agree(void **state) {
    (void)state;
    static const uint64_t blocks[] = {16, 17, 89, 90, 91};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        compare(MOST, L3A_PRECISION_DOUBLE, blocks[i], true);
    }
    compare(CLASSES, L3A_PRECISION_DOUBLE, 4096, false); /* a row for each class */
}

/* All values of gamma of l3a+ have one set of sums. */
static void members_that_cannot_disagree_share_their_sums(void **state) {
    (void)state;
    l3a_context *context = make_context(1);
    struct model_options members[MEMBERS];
    struct group *group = NULL;
    make_members(L3A_PRECISION_MIXED, 64, members);
    assert_ok(context, group_create(context, members, MEMBERS, WIDTH, &group));
    assert_ptr_equal(group_model(group, 5)->evidence, group_model(group, 6)->evidence);
    assert_ptr_equal(group_model(group, 6)->evidence, group_model(group, 7)->evidence);
    assert_ptr_not_equal(group_model(group, 7)->evidence, group_model(group, 8)->evidence);
    assert_ptr_not_equal(group_model(group, 0)->evidence, group_model(group, 1)->evidence);
    group_free(group);
    l3a_context_free(context);
}

static void no_row_is_refused(void **state) {
    (void)state;
    static struct world world;
    l3a_context *context = make_context(1);
    struct model_options members[MEMBERS];
    l3a_features *table = NULL;
    struct group *group = NULL;
    struct group_outcome outcomes[MEMBERS];
    const size_t columns[OWN] = {0, 1};
    make_world(&world, 9);
    for (size_t i = 0; i < 9 * CLASSES; i++) {
        world.labels[i] = i % CLASSES > 1;
    }
    make_members(L3A_PRECISION_MIXED, 64, members);
    assert_ok(context, l3a_features_wrap(context, world.features, world.labels, 9, 1, WIDTH, names, CLASSES, &table));
    assert_ok(context, group_create(context, members, MEMBERS, WIDTH, &group));
    assert_fails(context, group_learn(group, table, columns, names, OWN, outcomes), L3A_ERROR_DATA, "no image");
    group_free(group);
    group_free(NULL);
    l3a_features_free(table);
    l3a_context_free(context);
}

static void settings_that_cannot_stand_together_are_told_apart(void **state) {
    (void)state;
    struct model_options members[MEMBERS], other;
    make_members(L3A_PRECISION_MIXED, 64, members);
    other = members[0];
    other.seed++;
    assert_false(group_accepts(&members[0], &other));
    other = members[0];
    other.dim++;
    assert_false(group_accepts(&members[0], &other));
    other = members[0];
    other.precision = L3A_PRECISION_DOUBLE;
    assert_false(group_accepts(&members[0], &other));
    other = members[0];
    other.solver = L3A_SOLVER_RECURSIVE;
    assert_false(group_accepts(&members[0], &other));
    other = members[0];
    other.skip_features = L3A_SKIP_ON;
    assert_false(group_accepts(&members[0], &other));
    other = members[0];
    other.gamma = 7;
    other.eta = 0.9;
    other.weights = L3A_WEIGHTS_LOG;
    assert_true(group_accepts(&members[0], &other));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_what_they_would_be_alone),
        cmocka_unit_test(blocks_of_any_size_agree),
        cmocka_unit_test(members_that_cannot_disagree_share_their_sums),
        cmocka_unit_test(no_row_is_refused),
        cmocka_unit_test(settings_that_cannot_stand_together_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
