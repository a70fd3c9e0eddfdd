/* Data sets: labels, members and paths of small hand-made folders, and the messages about broken ones. The expected values were
 * counted by hand from the texts below. */
#include "support.h"

#include "base/file.h"
#include "common/utf8.h"
#include "data/dataset.h"
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int set_up(void **state) {
    open_fixture(state);
    keep_warnings();
    return 0;
}

/* Writes a file below the folder, with the folders it needs. */
static void put_bytes(const char *name, const void *bytes, size_t count) {
    put_file(folder, name, bytes, count);
}

/* "voc:FOLDER" and so on, in static memory. */
static const char *named(const char *kind, const char *below) {
    static char name[600];
    snprintf(name, sizeof name, "%s:%s%s%s", kind, folder, below[0] ? "/" : "", below);
    return name;
}

static l3a_dataset *open_set(const char *name, const char *split) {
    l3a_dataset *dataset = NULL;
    assert_ok(context, l3a_dataset_open(context, name, split, NULL, &dataset));
    return dataset;
}

#define assert_refused(name, split, expected, contains)                                                                            \
    do {                                                                                                                           \
        l3a_dataset *refused = NULL;                                                                                               \
        assert_fails(context, l3a_dataset_open(context, name, split, NULL, &refused), expected, contains);                         \
        assert_null(refused);                                                                                                      \
    } while (0)

static void assert_classes(const l3a_dataset *dataset, const char *expected) {
    char names[512] = "";
    for (size_t i = 0; l3a_dataset_class(dataset, i); i++) {
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? "," : "", l3a_dataset_class(dataset, i));
    }
    assert_string_equal(names, expected);
}

/* Rows separated by blanks: 1 present, 0 absent, - unknown. */
static void assert_marks(const l3a_dataset *dataset, const int8_t *marks, const char *expected) {
    char text[512] = "";
    size_t length = 0;
    const size_t rows = l3a_dataset_rows(dataset), classes = l3a_dataset_class_count(dataset);
    for (size_t i = 0; i < rows * classes; i++) {
        if (i && i % classes == 0) {
            text[length++] = ' ';
        }
        text[length++] = marks[i] == 1 ? '1' : marks[i] == 0 ? '0' : '-';
    }
    assert_string_equal(text, expected);
}

static void assert_row(const l3a_dataset *dataset, size_t row, const char *id, const char *below) {
    char *path = path_in(folder, below);
    assert_string_equal(l3a_dataset_id(dataset, row), id);
    assert_string_equal(l3a_dataset_path(dataset, row), path);
    free(path);
}

/* ---- VOC ---- */

#define OBJECT(name, difficult)                                                                                                    \
    "<object><name>" name "</name><difficult>" difficult "</difficult><bndbox><xmin>1</xmin></bndbox></object>"
#define ANNOTATION(objects) "<?xml version=\"1.0\"?>\n<annotation>\n<folder>VOC2007</folder>" objects "\n</annotation>\n"

/* a: cat, and a difficult dog; b: a difficult cat and a dog with parts; c: only a difficult dog; d is in another split. */
static void make_voc(void) {
    put("VOC2007/ImageSets/Main/train.txt", "a\nb\r\nc  \n\n");
    put("VOC2007/ImageSets/Main/test.txt", "d\n");
    put("VOC2007/ImageSets/Main/cat_train.txt", "a  1\nb  0\nc -1\n");
    put("VOC2007/ImageSets/Main/dog_train.txt", "a  0\nb  1\nc  0\n");
    put("VOC2007/ImageSets/Main/cat_test.txt", "d  1\n");
    put("VOC2007/ImageSets/Main/dog_test.txt", "d -1\n");
    put("VOC2007/Annotations/a.xml", ANNOTATION(OBJECT("cat", "0") OBJECT("dog", "1")));
    put("VOC2007/Annotations/b.xml",
        ANNOTATION(OBJECT("cat", "1") "<object><name>\n dog </name><part><name>head</name></part></object>"));
    put("VOC2007/Annotations/c.xml", ANNOTATION(OBJECT("dog", "1")));
    put("VOC2007/Annotations/d.xml", ANNOTATION(OBJECT("cat", "0")));
}

static void voc_objects_that_are_not_difficult_are_labels(void **state) {
    (void)state;
    make_voc();
    l3a_dataset *dataset = open_set(named("voc", ""), "train");
    assert_classes(dataset, "cat,dog");
    assert_int_equal(l3a_dataset_rows(dataset), 3);
    assert_marks(dataset, l3a_dataset_labels(dataset), "10 01 00");
    assert_marks(dataset, l3a_dataset_members(dataset), "10 01 00");
    assert_row(dataset, 2, "c", "VOC2007/JPEGImages/c.jpg");
    assert_int_equal(l3a_dataset_disagreements(dataset), 0);
    assert_string_equal(warnings, "");
    assert_null(l3a_dataset_class(dataset, 2));
    assert_null(l3a_dataset_id(dataset, 3));
    l3a_dataset_free(dataset);
}

static void voc_only_difficult_objects_are_unknown_where_asked_for(void **state) {
    (void)state;
    l3a_dataset_options options = {.size = sizeof options};
    l3a_dataset *dataset = NULL;
    make_voc();
    options.ignore_difficult = 1;
    assert_ok(context, l3a_dataset_open(context, named("voc", ""), "train", &options, &dataset));
    assert_marks(dataset, l3a_dataset_labels(dataset), "1- -1 0-");
    assert_marks(dataset, l3a_dataset_members(dataset), "10 01 00");
    l3a_dataset_free(dataset);
}

static void voc_is_found_from_the_year_and_from_above_the_devkit(void **state) {
    (void)state;
    make_voc();
    l3a_dataset *dataset = open_set(named("voc", "VOC2007"), "test");
    assert_row(dataset, 0, "d", "VOC2007/JPEGImages/d.jpg");
    l3a_dataset_free(dataset);
    put("above/VOCdevkit/VOC2012/ImageSets/Main/val.txt", "x\n");
    put("above/VOCdevkit/VOC2012/Annotations/x.xml", ANNOTATION(OBJECT("cow", "0")));
    dataset = open_set(named("voc", "above"), "val");
    assert_row(dataset, 0, "x", "above/VOCdevkit/VOC2012/JPEGImages/x.jpg");
    assert_classes(dataset, "cow");
    l3a_dataset_free(dataset);
}

static void voc_classes_come_from_all_annotations_where_no_list_names_them(void **state) {
    (void)state;
    put("VOC2007/ImageSets/Main/train.txt", "a\n");
    put("VOC2007/ImageSets/Main/small_train.txt", "a\n");
    put("VOC2007/Annotations/a.xml", ANNOTATION(OBJECT("cat", "0")));
    put("VOC2007/Annotations/b.xml", ANNOTATION(OBJECT("bird", "0")));
    char splits[64];
    l3a_dataset *dataset = open_set(named("voc", ""), "train");
    assert_classes(dataset, "bird,cat");
    assert_marks(dataset, l3a_dataset_labels(dataset), "01");
    l3a_dataset_free(dataset);
    assert_ok(context, l3a_dataset_splits(context, named("voc", ""), splits, sizeof splits));
    assert_string_equal(splits, "small_train train");
    assert_ok(context, l3a_dataset_splits(context, named("voc", ""), splits, 8));
    assert_string_equal(splits, "small_t");
}

static void voc_lists_that_differ_from_the_annotations_are_counted(void **state) {
    (void)state;
    make_voc();
    put("VOC2007/ImageSets/Main/cat_train.txt", "a -1\nb  0\nc -1\nz 1\n");
    l3a_dataset *dataset = open_set(named("voc", ""), "train");
    assert_int_equal(l3a_dataset_disagreements(dataset), 2);
    assert_non_null(strstr(warnings, "2 picture-class pairs differ"));
    assert_non_null(strstr(warnings, "cat_train.txt lists a as 'absent', the annotations as 'present'"));
    assert_marks(dataset, l3a_dataset_labels(dataset), "10 01 00");
    l3a_dataset_free(dataset);
}

static void voc_folders_and_splits_that_are_not_there_are_named(void **state) {
    (void)state;
    assert_refused(named("voc", "nowhere"), "train", L3A_ERROR_NOT_FOUND, "nowhere: cannot list this folder");
    put("readme", "");
    assert_refused(named("voc", ""), "train", L3A_ERROR_NOT_FOUND,
                   "no VOC2007 or other year with ImageSets/Main in this folder; it holds readme");
    make_voc();
    assert_refused(named("voc", ""), "val", L3A_ERROR_NOT_FOUND, "no split 'val'; the splits are: test train");
    assert_refused(named("voc", ""), NULL, L3A_ERROR_OPTION, "no split was chosen; the splits are: test train");
    put("VOC2012/ImageSets/Main/train.txt", "a\n");
    assert_refused(named("voc", ""), "train", L3A_ERROR_OPTION, "more than one year");
    assert_refused("vic:x", "train", L3A_ERROR_OPTION, "voc:FOLDER, coco:FOLDER, list:FILE.csv, folders:FOLDER");
    assert_refused("voc:", "train", L3A_ERROR_OPTION, "does not name a data set");
}

static void voc_annotations_that_are_broken_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        l3a_status status;
        const char *says;
    } cases[] = {
        {"<annotation>\n<object><name>cat</name>", L3A_ERROR_TRUNCATED, "a.xml: line 2, column 25: the text ends before"},
        {"<annotation><object><na", L3A_ERROR_TRUNCATED, "a.xml: line 1, column 21: unclosed token"},
        {"", L3A_ERROR_TRUNCATED, "a.xml: line 1, column 1: no element found"},
        {"<annotation></object>", L3A_ERROR_FORMAT, "mismatched tag"},
        {"{\"images\": []}", L3A_ERROR_FORMAT, "a.xml: line 1, column 1: not well-formed"},
        {"<html></html>", L3A_ERROR_FORMAT, "the root element is 'html' instead of 'annotation'"},
        {ANNOTATION("<object><pose>left</pose></object>"), L3A_ERROR_DATA, "an object without a name"},
        {ANNOTATION(OBJECT("catt", "0")), L3A_ERROR_CLASS, "a.xml: 'catt' is not one of the 2 classes; did you mean 'cat'?"},
        {"<!DOCTYPE a [<!ENTITY x \"cat\">]><annotation><object><name>&x;</name></object></annotation>", L3A_ERROR_FORMAT,
         "a document type is not allowed"},
        {"<!DOCTYPE annotation SYSTEM \"file:///etc/passwd\"><annotation/>", L3A_ERROR_FORMAT, "a document type is not allowed"},
        {"<annotation>&x;</annotation>", L3A_ERROR_FORMAT, "undefined entity"},
    };
    make_voc();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put("VOC2007/Annotations/a.xml", cases[i].text);
        assert_refused(named("voc", ""), "train", cases[i].status, cases[i].says);
    }
}

static void voc_annotations_have_limits(void **state) {
    (void)state;
    enum { LARGE = (4 << 20) + 1 };
    char *large = malloc(LARGE);
    memset(large, ' ', LARGE);
    make_voc();
    put_bytes("VOC2007/Annotations/a.xml", large, LARGE);
    assert_refused(named("voc", ""), "train", L3A_ERROR_FORMAT, "4194305 bytes; at most 4194304 are expected");
    size_t length = 0;
    for (int i = 0; i < 33; i++) {
        memcpy(large + length, "<annotation>", 12);
        length += 12;
    }
    put_bytes("VOC2007/Annotations/a.xml", large, length);
    assert_refused(named("voc", ""), "train", L3A_ERROR_FORMAT, "more than 32 levels deep");
    large[0] = '<';
    memset(large + 1, 'n', 2000);
    large[2001] = '>';
    put_bytes("VOC2007/Annotations/a.xml", large, 2002);
    assert_refused(named("voc", ""), "train", L3A_ERROR_FORMAT, "the names of elements are too long");
    free(large);
}

static void voc_ids_are_checked(void **state) {
    (void)state;
    make_voc();
    put("VOC2007/ImageSets/Main/train.txt", "a\nb\na\n");
    assert_refused(named("voc", ""), "train", L3A_ERROR_DATA, "picture 'a' is listed twice");
    put("VOC2007/ImageSets/Main/train.txt", "a\n../../secret\n");
    assert_refused(named("voc", ""), "train", L3A_ERROR_FORMAT, "train.txt: line 2: '../../secret' is not the id of a picture");
    put("VOC2007/ImageSets/Main/train.txt", "a\nlost\n");
    assert_refused(named("voc", ""), "train", L3A_ERROR_NOT_FOUND, "Annotations/lost.xml: cannot open");
    put("VOC2007/ImageSets/Main/train.txt", "\n");
    assert_refused(named("voc", ""), "train", L3A_ERROR_DATA, "no pictures");
}

/* ---- COCO ---- */

#define COCO_FILE "annotations/instances_train2014.json"

/* 7: a cat and a crowd of cats; 3: only a crowd of dogs; 12: nothing; 9000000000: a dog, twice, and an ox. */
static const char coco_images[] =
    "\"images\": [{\"id\": 7, \"file_name\": \"seven.jpg\", \"height\": 2}, {\"file_name\": \"three.jpg\", \"id\": 3},"
    "{\"id\": 12, \"file_name\": \"b\\u00e4r \\\"12\\\".jpg\"}, {\"id\": 9000000000, \"file_name\": \"x/big.jpg\"}]";
static const char coco_annotations[] =
    "\"annotations\": [{\"segmentation\": [[1.5,2,3.25,-4]], \"iscrowd\": 0, \"image_id\": 7, \"category_id\": 17, \"id\": 1},\n"
    "{\"segmentation\": {\"counts\": [1, 2, 3], \"size\": [2, 3]}, \"iscrowd\": 1, \"image_id\": 7, \"category_id\": 17},\n"
    "{\"iscrowd\": 1, \"image_id\": 3, \"category_id\": 18}, {\"image_id\": 9000000000, \"category_id\": 18},\n"
    "{\"category_id\": 18, \"image_id\": 9000000000, \"iscrowd\": 0}, {\"image_id\": 9000000000, \"category_id\": 1}]";
static const char coco_categories[] = "\"categories\": [{\"id\": 18, \"name\": \"dog\"}, {\"id\": 1, \"name\": \"\\u725b "
                                      "\\\"ox\\\"\"}, {\"name\": \"cat\", \"id\": 17}]";

static void put_coco(const char *first, const char *second, const char *third) {
    char text[4096];
    snprintf(text, sizeof text, "{\"info\": {\"year\": 2014}, %s,\n%s,\n%s}\n", first, second, third);
    put(COCO_FILE, text);
}

static void check_coco(void) {
    l3a_dataset *dataset = open_set(named("coco", ""), "train2014");
    assert_classes(dataset, "cat,dog,\xE7\x89\x9B \"ox\"");
    assert_marks(dataset, l3a_dataset_labels(dataset), "100 000 000 011");
    assert_marks(dataset, l3a_dataset_members(dataset), "100 010 000 011");
    assert_row(dataset, 0, "000000000007", "train2014/seven.jpg");
    assert_row(dataset, 2, "000000000012", "train2014/b\xC3\xA4r \"12\".jpg");
    assert_row(dataset, 3, "009000000000", "train2014/x/big.jpg");
    l3a_dataset_free(dataset);
}

static void coco_crowds_give_no_label_but_make_a_member(void **state) {
    (void)state;
    put_coco(coco_images, coco_annotations, coco_categories);
    check_coco();
}

static void coco_parts_may_come_in_any_order(void **state) {
    (void)state;
    put_coco(coco_annotations, coco_categories, coco_images);
    check_coco();
    put_coco(coco_categories, coco_annotations, coco_images);
    check_coco();
}

/* As if another process had cut the file after it was opened. */
static ssize_t read_one_hundred_bytes(int file, void *bytes, size_t count, off_t offset) {
    const size_t there = offset < 100 ? 100 - (size_t)offset : 0;
    return posix_files.read(file, bytes, count < there ? count : there, offset);
}

static void coco_files_that_shrink_while_they_are_read_are_refused(void **state) {
    (void)state;
    file_operations shrinking = *context->files;
    shrinking.read = read_one_hundred_bytes;
    put_coco(coco_images, coco_annotations, coco_categories);
    context->files = &shrinking;
    assert_refused(named("coco", ""), "train2014", L3A_ERROR_TRUNCATED, "ends at byte 100,");
    context->files = &posix_files;
}

static void coco_pictures_are_found_in_the_usual_folders(void **state) {
    (void)state;
    static const char *const places[] = {"images/train", "images/train2014", "train", "train2014"};
    put_coco(coco_images, coco_annotations, coco_categories);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/here", places[i]);
        put(name, "");
        snprintf(name, sizeof name, "%s/seven.jpg", places[i]);
        l3a_dataset *dataset = open_set(named("coco", ""), "train2014");
        assert_row(dataset, 0, "000000000007", name);
        l3a_dataset_free(dataset);
    }
}

static void coco_splits_are_the_instances_files(void **state) {
    (void)state;
    char splits[64];
    assert_refused(named("coco", "nowhere"), "train2014", L3A_ERROR_NOT_FOUND, "nowhere: cannot list");
    put("train2014/x", "");
    assert_refused(named("coco", ""), "train2014", L3A_ERROR_NOT_FOUND,
                   "no annotations/instances_SPLIT.json in this folder; it holds train2014");
    put("annotations/captions_val2014.json", "{}");
    assert_refused(named("coco", ""), "train2014", L3A_ERROR_NOT_FOUND, "it holds captions_val2014.json");
    put_coco(coco_images, coco_annotations, coco_categories);
    put("annotations/instances_val2014.json", "{}");
    assert_ok(context, l3a_dataset_splits(context, named("coco", ""), splits, sizeof splits));
    assert_string_equal(splits, "train2014 val2014");
    assert_refused(named("coco", ""), "test2014", L3A_ERROR_NOT_FOUND, "no split 'test2014'; the splits are: train2014 val2014");
}

static void coco_files_that_contradict_themselves_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *images, *annotations, *categories;
        l3a_status status;
        const char *says;
    } cases[] = {
        {coco_images, "\"annotations\": [\n {\"image_id\": 8, \"category_id\": 17}]", coco_categories, L3A_ERROR_DATA,
         "line 3, column 2: an annotation of image 8, which is not among the images"},
        {coco_images, "\"annotations\": [\n {\"image_id\": 7, \"category_id\": 2}]", coco_categories, L3A_ERROR_CLASS,
         "line 3, column 2: an annotation of category 2, which is not among the categories"},
        {"\"images\": [{\"id\": 7, \"file_name\": \"a\"},\n{\"id\": 7, \"file_name\": \"b\"}]", coco_annotations, coco_categories,
         L3A_ERROR_DATA, "line 2, column 1: image id 7 is listed twice"},
        {coco_images, coco_annotations, "\"categories\": [{\"id\": 1, \"name\": \"a\"},\n{\"id\": 1, \"name\": \"b\"}]",
         L3A_ERROR_DATA, "category id 1 is listed twice"},
        {coco_images, coco_annotations, "\"categories\": [{\"id\": 1, \"name\": \"a\"},\n{\"id\": 2, \"name\": \"a\"}]",
         L3A_ERROR_CLASS, "class 'a' is listed twice"},
        {coco_images, coco_annotations, "\"categories\": []", L3A_ERROR_CLASS, "no classes"},
        {coco_images, coco_annotations, "\"categories\": [{\"id\": 1, \"name\": \"two\\nlines\"}]", L3A_ERROR_CLASS,
         "cannot be the name of a class"},
        {"\"images\": []", "\"annotations\": []", coco_categories, L3A_ERROR_DATA, "no pictures"},
        {"\"images\": [{\"id\": 7, \"file_name\": \"../../etc/passwd\"}]", coco_annotations, coco_categories, L3A_ERROR_DATA,
         "image 7: '../../etc/passwd' is not a valid picture path"},
        {"\"images\": [{\"id\": 7, \"file_name\": \"/etc/passwd\"}]", coco_annotations, coco_categories, L3A_ERROR_DATA,
         "is not a valid picture path"},
        {"\"images\": [{\"id\": 7}]", coco_annotations, coco_categories, L3A_ERROR_FORMAT,
         "line 1, column 37: an image without \"file_name\""},
        {"\"images\": [{\"id\": \"7\", \"file_name\": \"a\"}]", coco_annotations, coco_categories, L3A_ERROR_FORMAT,
         "line 1, column 44: a number is expected"},
        {coco_images, "\"annotations\": [{\"image_id\": 7}]", coco_categories, L3A_ERROR_FORMAT,
         "an annotation without \"category_id\""},
        {coco_images, "\"annotations\": [{\"category_id\": 17}]", coco_categories, L3A_ERROR_FORMAT,
         "an annotation without \"image_id\""},
        {coco_images, "\"annotations\": [{\"image_id\": 7, \"category_id\": 4294967296}]", coco_categories, L3A_ERROR_FORMAT,
         "a category id above"},
        {coco_images, "\"annotations\": [{\"image_id\": 7, \"category_id\": 17, \"iscrowd\": 2}]", coco_categories,
         L3A_ERROR_FORMAT, "\"iscrowd\" is neither 0 nor 1"},
        {coco_images, "\"annotations\": {}", coco_categories, L3A_ERROR_FORMAT, "'[' is expected"},
        {coco_images, "\"other\": 1", coco_categories, L3A_ERROR_FORMAT, "has no \"annotations\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_coco(cases[i].images, cases[i].annotations, cases[i].categories);
        assert_refused(named("coco", ""), "train2014", cases[i].status, cases[i].says);
    }
}

static void coco_files_cut_anywhere_are_refused(void **state) {
    (void)state;
    char text[4096];
    const int length = snprintf(text, sizeof text, "{%s,\n%s,\n%s}", coco_images, coco_annotations, coco_categories);
    for (size_t cut = 0; cut < (size_t)length; cut += 7) {
        l3a_dataset *dataset = NULL;
        put_bytes(COCO_FILE, text, cut);
        const l3a_status status = l3a_dataset_open(context, named("coco", ""), "train2014", NULL, &dataset);
        assert_true(status == L3A_ERROR_TRUNCATED || status == L3A_ERROR_FORMAT);
        assert_non_null(strstr(l3a_error_text(context), "line "));
    }
}

/* ---- Lists ---- */

static void list_labels_are_separated_by_semicolons(void **state) {
    (void)state;
    put("set.csv", "\xEF\xBB\xBFid,labels,path\r\n1,dog; cat "
                   ",a.jpg\r\n\r\n2,,sub/b.jpg\r\n3,\"d\"\"og\",\"c, d.jpg\"\n4,k\xC3\xA4se;dog;dog,/abs/e.png");
    char splits[16];
    assert_ok(context, l3a_dataset_splits(context, named("list", "set.csv"), splits, sizeof splits));
    assert_string_equal(splits, "all");
    l3a_dataset *dataset = open_set(named("list", "set.csv"), NULL);
    assert_classes(dataset, "cat,d\"og,dog,k\xC3\xA4se");
    assert_marks(dataset, l3a_dataset_labels(dataset), "1010 0000 0100 0011");
    assert_marks(dataset, l3a_dataset_members(dataset), "1010 0000 0100 0011");
    assert_row(dataset, 0, "a.jpg", "a.jpg");
    assert_row(dataset, 1, "sub/b.jpg", "sub/b.jpg");
    assert_row(dataset, 2, "c, d.jpg", "c, d.jpg");
    assert_string_equal(l3a_dataset_path(dataset, 3), "/abs/e.png");
    l3a_dataset_free(dataset);
    dataset = open_set(named("list", "set.csv"), "all");
    assert_int_equal(l3a_dataset_rows(dataset), 4);
    l3a_dataset_free(dataset);
}

static void list_splits_share_their_classes(void **state) {
    (void)state;
    put("set.csv", "path,split,label\na,train,x\nb,test,y\nc,train,\n");
    char splits[16];
    assert_ok(context, l3a_dataset_splits(context, named("list", "set.csv"), splits, sizeof splits));
    assert_string_equal(splits, "test train");
    l3a_dataset *dataset = open_set(named("list", "set.csv"), "train");
    assert_classes(dataset, "x,y");
    assert_marks(dataset, l3a_dataset_labels(dataset), "10 00");
    assert_row(dataset, 1, "c", "c");
    l3a_dataset_free(dataset);
    assert_refused(named("list", "set.csv"), "val", L3A_ERROR_NOT_FOUND, "no split 'val'; the splits are: test train");
    assert_refused(named("list", "set.csv"), NULL, L3A_ERROR_OPTION, "no split was chosen; the splits are: test train");
    assert_refused(named("list", "set.csv"), "all", L3A_ERROR_NOT_FOUND, "no split 'all'");
}

static void lists_that_are_broken_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        l3a_status status;
        const char *says;
    } cases[] = {
        {"", L3A_ERROR_FORMAT, "the file is empty"},
        {"a.jpg,cat\n", L3A_ERROR_FORMAT, "line 1: no column 'path'"},
        {"path,class\na,cat\n", L3A_ERROR_FORMAT, "line 1: no column 'labels' or 'label'"},
        {"path,labels\na\n", L3A_ERROR_FORMAT, "line 2: 1 fields, but the first line has 2"},
        {"path,labels\na,b,c\n", L3A_ERROR_FORMAT, "line 2: 3 fields"},
        {"path,labels,note\na,x,\"n\nn\"\nb\"c,d,e\n", L3A_ERROR_FORMAT, "line 4, column 2: a quote inside a field"},
        {"path,labels\n\"a\nb\",x\n", L3A_ERROR_FORMAT, "line 2: the path contains a line break"},
        {"path,labels\n\"a\"b,c\n", L3A_ERROR_FORMAT, "line 2, column 4: text after the closing quote"},
        {"path,labels\na,\"cat\n", L3A_ERROR_FORMAT, "line 2, column 3: a quoted field is not closed"},
        {"path,labels\n,cat\n", L3A_ERROR_FORMAT, "line 2: no path"},
        {"path,labels,split\na,cat,\n", L3A_ERROR_FORMAT, "line 2: '' cannot be the name of a split"},
        {"path,labels\na,c\xE4t\n", L3A_ERROR_FORMAT, "line 2: field 2 is not UTF-8"},
        {"path,labels\na,cat\na,dog\n", L3A_ERROR_DATA, "picture 'a' is listed twice"},
        {"path,labels\na,\n", L3A_ERROR_CLASS, "no classes"},
        {"path,labels\n", L3A_ERROR_CLASS, "no classes"},
        {"path,labels,note\na,x,\"n\nn\" b\n", L3A_ERROR_FORMAT, "line 3, column 3: text after the closing quote"},
        {"path,labels,note\na,\"x\ny\",\"n\n", L3A_ERROR_FORMAT, "line 3, column 4: a quoted field is not closed"},
        {"path;labels\na;b\"c\n", L3A_ERROR_FORMAT, "line 2, column 4: a quote inside a field"},
        {"path;labels\n\"a\",b\n", L3A_ERROR_FORMAT, "line 2, column 4: text after the closing quote"},
        {"path;labels;split\na;b;c;train\n", L3A_ERROR_FORMAT, "line 2: 4 fields, but the first line has 3"},
        {"path;labels\na\n", L3A_ERROR_FORMAT, "line 2: 1 fields, but the first line has 2"},
        {"path;class\na;cat\n", L3A_ERROR_FORMAT, "line 1: no column 'labels' or 'label'"},
        {"a.jpg\tcat\n", L3A_ERROR_FORMAT, "line 1: no column 'path'"},
        {"\"path;labels\na;cat\n", L3A_ERROR_FORMAT, "line 1, column 1: a quoted field is not closed"},
        {"\xFF\xFEp", L3A_ERROR_FORMAT, "the file is UTF-16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put("set.csv", cases[i].text);
        assert_refused(named("list", "set.csv"), NULL, cases[i].status, cases[i].says);
    }
    put_bytes("set.csv", "path,labels\na\0b,cat\n", 20);
    assert_refused(named("list", "set.csv"), NULL, L3A_ERROR_FORMAT, "a zero byte");
    assert_refused(named("list", "none.csv"), NULL, L3A_ERROR_NOT_FOUND, "none.csv: cannot open");
}

static void list_columns_may_be_separated_by_semicolons_or_tabs(void **state) {
    (void)state;
    static const char *const same[] = {
        "\xEF\xBB\xBFpath;labels\r\na b.jpg;cat,dog\r\nk\xC3\xA4se.jpg;\"dog\"\r\nc.jpg;\r\n",
        "path;labels\na b.jpg;\"cat;dog\"\nk\xC3\xA4se.jpg;dog\nc.jpg;\n",
        "path;labels;;\na b.jpg;cat;dog;\nk\xC3\xA4se.jpg;dog;;\nc.jpg;;;\n",
        "path;labels\na b.jpg;dog;cat\nk\xC3\xA4se.jpg;dog\nc.jpg;\n",
        "path;label;label\na b.jpg;dog;cat\nk\xC3\xA4se.jpg;dog;\nc.jpg;;\n",
        "size, bytes;path;labels\n7;a b.jpg;cat|dog\n8;k\xC3\xA4se.jpg;dog\n9;c.jpg;\n",
        "\"labels\";\"path\"\n\"cat | dog\";\"a b.jpg\"\ndog;k\xC3\xA4se.jpg\n;c.jpg\n",
        "path\tlabels\na b.jpg\tcat\tdog\nk\xC3\xA4se.jpg\tdog\nc.jpg\t\n",
        "Path\t Tags\tnote\na b.jpg\tcat;dog\tx,y\nk\xC3\xA4se.jpg\tdog\t\nc.jpg\t\t\n",
        "path,labels\na b.jpg,\"cat,dog\"\nk\xC3\xA4se.jpg,dog\nc.jpg,\n",
        "path, labels\na b.jpg,\"cat|dog\"\nk\xC3\xA4se.jpg,dog\nc.jpg,\n",
        "tag,path\n\"cat\n,dog\",a b.jpg\ndog,k\xC3\xA4se.jpg\n,c.jpg",
    };
    for (size_t i = 0; i + 1 < sizeof same / sizeof same[0]; i++) {
        put("set.csv", same[i]);
        l3a_dataset *dataset = open_set(named("list", "set.csv"), NULL);
        assert_classes(dataset, "cat,dog");
        assert_marks(dataset, l3a_dataset_labels(dataset), "11 01 00");
        assert_row(dataset, 0, "a b.jpg", "a b.jpg");
        assert_row(dataset, 1, "k\xC3\xA4se.jpg", "k\xC3\xA4se.jpg");
        l3a_dataset_free(dataset);
    }
    put("set.csv", same[sizeof same / sizeof same[0] - 1]);
    assert_refused(named("list", "set.csv"), NULL, L3A_ERROR_CLASS, "cannot be the name of a class");
}

/* What 0.2 accepted: a comma in the header decides, and a semicolon in some labels means that commas and bars belong to names. */
static void lists_of_older_versions_mean_what_they_meant(void **state) {
    (void)state;
    put("set.csv", "a;b,path,labels,Path\n1,x.jpg,\"tench, a fish;cat|dog\",y\n2,z.jpg,\"crow, a bird\",y\n");
    l3a_dataset *dataset = open_set(named("list", "set.csv"), NULL);
    assert_classes(dataset, "cat|dog,crow, a bird,tench, a fish");
    assert_row(dataset, 0, "x.jpg", "x.jpg");
    l3a_dataset_free(dataset);
    put("set.csv", "path,labels,\na,cat|dog,x\n");
    dataset = open_set(named("list", "set.csv"), NULL);
    assert_classes(dataset, "cat|dog");
    assert_string_equal(warnings, "");
    l3a_dataset_free(dataset);
    put("set.csv", "path,labels\na,\"crow, a bird\"\n");
    dataset = open_set(named("list", "set.csv"), NULL);
    assert_classes(dataset, "a bird,crow");
    assert_non_null(strstr(warnings, "labels in quotes are separated by ','"));
    l3a_dataset_free(dataset);
    warnings[0] = '\0';
    put("set.csv", "path,labels\na,\"crow, a bird;\"\n");
    dataset = open_set(named("list", "set.csv"), NULL);
    assert_classes(dataset, "crow, a bird");
    assert_string_equal(warnings, "");
    l3a_dataset_free(dataset);
}

static void labels_that_do_not_fit_into_memory_are_refused(void **state) {
    (void)state;
    put("set.csv", "path,labels\na,x;y;z\nb,x\n");
    context->options.memory_limit = 11;
    assert_refused(named("list", "set.csv"), NULL, L3A_ERROR_MEMORY, "do not fit in memory");
    context->options.memory_limit = 12;
    l3a_dataset_free(open_set(named("list", "set.csv"), NULL));
}

/* ---- Every allocation that fails is an error, and nothing is lost ---- */

static void an_allocation_that_fails_loses_nothing(void **state) {
    (void)state;
    make_voc();
    assert_true(fail_each_opening(named("voc", ""), "train") > 10);
    put_coco(coco_images, coco_annotations, coco_categories);
    assert_true(fail_each_opening(named("coco", ""), "train2014") > 10);
    put("set.csv", "path,labels,split\na,x;y,train\nb,\"x\",test\n");
    assert_true(fail_each_opening(named("list", "set.csv"), "test") > 10);
    put("set.csv", "path;labels\na;x;y\nb;\"x\"\n");
    assert_true(fail_each_opening(named("list", "set.csv"), NULL) > 10);
}

static void only_utf8_is_taken_for_utf8(void **state) {
    (void)state;
    static const char *const good[] = {"", "a\x7F", "\xC2\x80\xDF\xBF", "\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80",
                                       "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"};
    static const char *const bad[] = {
        "\x80", "\xC1\x81", "\xC3", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE4\xB8", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xFF"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(is_utf8(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(is_utf8(bad[i]));
    }
}

static void names_that_leave_their_folder_are_known(void **state) {
    (void)state;
    assert_true(stays_below("a") && stays_below("a/b.jpg") && stays_below("..a/b..") && stays_below("a..b"));
    assert_false(stays_below("") || stays_below("/a") || stays_below("..") || stays_below("../a") || stays_below("a/../b") ||
                 stays_below("a/.."));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, close_fixture)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(voc_objects_that_are_not_difficult_are_labels),
        TEST(voc_only_difficult_objects_are_unknown_where_asked_for),
        TEST(voc_is_found_from_the_year_and_from_above_the_devkit),
        TEST(voc_classes_come_from_all_annotations_where_no_list_names_them),
        TEST(voc_lists_that_differ_from_the_annotations_are_counted),
        TEST(voc_folders_and_splits_that_are_not_there_are_named),
        TEST(voc_annotations_that_are_broken_are_refused),
        TEST(voc_annotations_have_limits),
        TEST(voc_ids_are_checked),
        TEST(coco_crowds_give_no_label_but_make_a_member),
        TEST(coco_parts_may_come_in_any_order),
        TEST(coco_files_that_shrink_while_they_are_read_are_refused),
        TEST(coco_pictures_are_found_in_the_usual_folders),
        TEST(coco_splits_are_the_instances_files),
        TEST(coco_files_that_contradict_themselves_are_refused),
        TEST(coco_files_cut_anywhere_are_refused),
        TEST(list_labels_are_separated_by_semicolons),
        TEST(list_splits_share_their_classes),
        TEST(list_columns_may_be_separated_by_semicolons_or_tabs),
        TEST(lists_of_older_versions_mean_what_they_meant),
        TEST(lists_that_are_broken_are_refused),
        TEST(labels_that_do_not_fit_into_memory_are_refused),
        TEST(an_allocation_that_fails_loses_nothing),
        TEST(only_utf8_is_taken_for_utf8),
        TEST(names_that_leave_their_folder_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
