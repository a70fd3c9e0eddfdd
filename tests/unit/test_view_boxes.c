/* The pixels of views, against the same rule in whole numbers: a crop has 12 or 9 twentieths of a side, rounded, and lies 0, 1 or 2
 * halves of the rest away from the edge, rounded; halves go up. */
#include "support.h"

#include "base/views.h"

#include <math.h>

/* Twentieths of a side, halves across, halves down. */
static const size_t crops[][3] = {{20, 0, 0}, {12, 0, 0}, {12, 2, 0}, {12, 0, 2}, {12, 2, 2}, {12, 1, 1}, {9, 0, 0}, {9, 1, 0},
                                  {9, 2, 0},  {9, 0, 1},  {9, 1, 1},  {9, 2, 1},  {9, 0, 2},  {9, 1, 2},  {9, 2, 2}};

static const size_t *crop_of(size_t views, size_t view) {
    return crops[views == 9 && view ? view + 5 : view];
}

static size_t size_of(size_t side, size_t twentieths) {
    const size_t size = (twentieths * side + 10) / 20;
    return size ? size : 1;
}

static size_t start_of(size_t side, size_t size, size_t halves) {
    return (halves * (side - size) + 1) / 2;
}

static void check_box(size_t views, size_t view, size_t width, size_t height) {
    const size_t *crop = crop_of(views, view), across = size_of(width, crop[0]), down = size_of(height, crop[0]);
    const struct view_box box = view_box(views, view, width, height);
    assert_int_equal(box.width, across);
    assert_int_equal(box.height, down);
    assert_int_equal(box.left, start_of(width, across, crop[1]));
    assert_int_equal(box.top, start_of(height, down, crop[2]));
    assert_true(box.left + box.width <= width && box.top + box.height <= height);
}

static void test_pixels(void **state) {
    (void)state;
    static const size_t known[] = {1, 5, 9, 14};
    for (size_t i = 0; i < 4; i++) {
        for (size_t view = 0; view < view_rows(known[i]); view++) {
            for (size_t side = 1; side < 3000; side++) {
                check_box(known[i], view, side, 3001 - side);
            }
            check_box(known[i], view, (1 << 24) - 1, 1);
        }
    }
}

static void test_shares(void **state) {
    (void)state;
    static const size_t known[] = {1, 5, 9, 14};
    for (size_t i = 0; i < 4; i++) {
        double box[4];
        for (size_t view = 0; view < l3a_view_rows(known[i]); view++) {
            const size_t *crop = crop_of(known[i], view), rest = 20 - crop[0];
            assert_int_equal(l3a_view_box(known[i], view, box), 1);
            assert_true(fabs(box[0] - (double)(crop[1] * rest) / 40) < 1e-12);
            assert_true(fabs(box[1] - (double)(crop[2] * rest) / 40) < 1e-12);
            assert_true(fabs(box[2] - box[0] - (double)crop[0] / 20) < 1e-12);
            assert_true(fabs(box[3] - box[1] - (double)crop[0] / 20) < 1e-12);
        }
        assert_int_equal(l3a_view_box(known[i], l3a_view_rows(known[i]), box), 0);
    }
}

static void test_unknown(void **state) {
    (void)state;
    double box[4] = {7, 7, 7, 7};
    for (size_t views = 0; views < 40; views++) {
        const bool known = views == 1 || views == 5 || views == 9 || views == 14;
        assert_int_equal(views_known(views), known);
        assert_int_equal(l3a_view_rows(views), views > 1 ? views + 1 : 1);
        assert_true(known || (l3a_view_box(views, 0, box) == 0 && box[0] == 7 && box[3] == 7));
    }
    assert_int_equal(l3a_view_box(5, 0, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pixels), cmocka_unit_test(test_shares),
                                       cmocka_unit_test(test_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
