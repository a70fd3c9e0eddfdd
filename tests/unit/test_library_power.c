/* Power loss while pictures are looked at and scored, after each operation on files and with all kinds of loss (power_loss.h).
 * After it, the index opens; what a call had answered is there; no row has the features of another content; and the rest is
 * completed. */
#include "support.h"

#include "power_loss.h"
#include "small_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PICTURES = 70, COURSES = 5 };

static struct small_library small;
static char *disk, *expected;

static l3a_library *open_index(l3a_context *context, l3a_tagger *tagger) {
    l3a_library *library = NULL;
    const l3a_library_options options = {.size = sizeof options, .index = small.index};
    assert_ok(context, l3a_library_open(context, tagger, &options, &library));
    return library;
}

static int make_inputs(void **state) {
    (void)state;
    small_library_make(&small, PICTURES);
    disk = path_in(small.folder, "disk");
    assert_int_equal(mkdir(disk, 0700), 0);
    free(small.index);
    small.index = path_in(disk, "index.library");
    return 0;
}

static int remove_inputs(void **state) {
    (void)state;
    free(expected);
    free(disk);
    small_library_remove(&small);
    return 0;
}

/* The operations after which the scan, two batches of the look, the rest, and the scores were answered. */
static size_t answered[4];

static void work(l3a_context *context, l3a_tagger *tagger) {
    const l3a_look_options some = {.size = sizeof some, .most = PICTURES / 2};
    context->files = &recorded_files;
    l3a_library *library = open_index(context, tagger);
    assert_ok(context, l3a_library_add(library, small.photos));
    assert_ok(context, l3a_library_scan(library, NULL));
    answered[0] = disk_operations();
    assert_ok(context, l3a_library_look(library, &some, NULL));
    answered[1] = disk_operations();
    assert_ok(context, l3a_library_look(library, NULL, NULL));
    answered[2] = disk_operations();
    assert_ok(context, l3a_library_score(library, 0, NULL));
    answered[3] = disk_operations();
    l3a_library_free(library);
}

static int no_sync(int file) {
    (void)file;
    return 0;
}

static void check(l3a_context *context, l3a_tagger *tagger, size_t cut, unsigned loss) {
    l3a_library_info info = {.size = sizeof info};
    l3a_look_report looked = {.size = sizeof looked};
    l3a_library *library = open_index(context, tagger);
    assert_ok(context, l3a_library_describe(library, &info));
    const size_t least = cut >= answered[2] ? PICTURES : cut >= answered[1] ? PICTURES / 2 : 0;
    if (info.done < least || (cut >= answered[0] && info.pictures != PICTURES) || (cut >= answered[3] && info.scored != PICTURES)) {
        print_error("after %zu operations, loss %u: %zu of %zu, %zu scored\n", cut, loss, (size_t)info.done, least,
                    (size_t)info.scored);
        assert_true(false);
    }
    assert_ok(context, l3a_library_add(library, small.photos));
    assert_ok(context, l3a_library_scan(library, NULL));
    assert_ok(context, l3a_library_look(library, NULL, &looked));
    assert_in_range(looked.looked, 0, PICTURES - least);
    assert_ok(context, l3a_library_score(library, 0, NULL));
    char *told = small_library_tell(context, library);
    if (strcmp(told, expected) != 0) {
        print_error("after %zu operations, loss %u\n", cut, loss);
    }
    assert_string_equal(told, expected);
    free(told);
    assert_at_rest(library);
    l3a_library_free(library);
}

static void after_each_operation(void **state) {
    l3a_context *context = make_context(1);
    l3a_tagger *tagger = small_library_tagger(&small, context, NULL, 0);
    (void)state;
    disk_begin(disk);
    work(context, tagger);
    const size_t operations = disk_operations();
    file_operations quick_files = posix_files; /* of what comes after the power has come back */
    quick_files.sync = no_sync;
    context->files = &quick_files;
    l3a_library *library = open_index(context, tagger);
    expected = small_library_tell(context, library);
    l3a_library_free(library);
    for (size_t cut = 0; cut <= operations; cut++) {
        /* All kinds for some, and two kinds in turn for the others. */
        for (unsigned loss = 0; loss < SOME + COURSES; loss++) {
            if (cut % 16 == 0 || (cut + loss) % 6 == 0) {
                disk_cut(cut, loss);
                check(context, tagger, cut, loss);
            }
        }
    }
    disk_forget();
    l3a_tagger_free(tagger);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(after_each_operation)};
    return cmocka_run_group_tests(tests, make_inputs, remove_inputs);
}
