/* XMP: the keywords are merged into whatever other programs have written, and every other byte stays. The expected files were
 * written by hand. */
#include "support.h"

#include "base/file.h"
#include "format/xmp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RDF "xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\""
#define DC "xmlns:dc=\"http://purl.org/dc/elements/1.1/\""
#define AROUND(description) "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF " RDF ">" description "</rdf:RDF></x:xmpmeta>"

enum { MOST = 4 };

struct example {
    const char *what, *before;
    const char *add[MOST + 1], *remove[MOST + 1];
    const char *after; /* NULL: nothing changes */
};

static const struct example examples[] = {
    {"keywords that are there stay, others come after them",
     AROUND("<rdf:Description rdf:about=\"\" " DC "><dc:subject><rdf:Bag><rdf:li>dog</rdf:li></rdf:Bag></dc:subject>"
            "</rdf:Description>"),
     {"cat", "dog"},
     {NULL},
     AROUND("<rdf:Description rdf:about=\"\" " DC "><dc:subject><rdf:Bag><rdf:li>dog</rdf:li><rdf:li>cat</rdf:li></rdf:Bag>"
            "</dc:subject></rdf:Description>")},
    {"nothing to add",
     AROUND("<rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>dog</rdf:li></rdf:Bag></dc:subject></rdf:Description>"),
     {"dog", "dog"},
     {NULL},
     NULL},
    {"no keyword and no dc:subject", AROUND("<rdf:Description/>"), {NULL}, {"dog"}, NULL},
    {"lines and their indentation, a byte order mark, a packet with padding",
     "\xEF\xBB\xBF<?xpacket begin='\xEF\xBB\xBF' id='W5M0MpCehiHzreSzNTczkc9d'?>\n<rdf:RDF " RDF ">\n"
     "  <rdf:Description " DC "\n    dc:format=\"image/jpeg\">\n   <dc:subject>\n    <rdf:Bag>\n     <rdf:li>dog</rdf:li>\n"
     "    </rdf:Bag>\n   </dc:subject>\n  </rdf:Description>\n</rdf:RDF>\n     \n     \n<?xpacket end='w'?>",
     {"cat", "cow"},
     {NULL},
     "\xEF\xBB\xBF<?xpacket begin='\xEF\xBB\xBF' id='W5M0MpCehiHzreSzNTczkc9d'?>\n<rdf:RDF " RDF ">\n"
     "  <rdf:Description " DC "\n    dc:format=\"image/jpeg\">\n   <dc:subject>\n    <rdf:Bag>\n     <rdf:li>dog</rdf:li>\n"
     "     <rdf:li>cat</rdf:li>\n     <rdf:li>cow</rdf:li>\n"
     "    </rdf:Bag>\n   </dc:subject>\n  </rdf:Description>\n</rdf:RDF>\n     \n     \n<?xpacket end='w'?>"},
    {"lines that end in CR LF",
     "<rdf:RDF " RDF ">\r\n <rdf:Description " DC "/>\r\n</rdf:RDF>\r\n",
     {"cat"},
     {NULL},
     "<rdf:RDF " RDF ">\r\n <rdf:Description " DC ">\r\n  <dc:subject>\r\n   <rdf:Bag>\r\n    <rdf:li>cat</rdf:li>\r\n"
     "   </rdf:Bag>\r\n  </dc:subject>\r\n </rdf:Description>\r\n</rdf:RDF>\r\n"},
    {"an RDF without a description",
     "<rdf:RDF " RDF "></rdf:RDF>",
     {"cat"},
     {NULL},
     "<rdf:RDF " RDF "><rdf:Description rdf:about=\"\"><dc:subject " DC "><rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag></dc:subject>"
     "</rdf:Description></rdf:RDF>"},
    {"an empty RDF in the default namespace",
     "<RDF xmlns=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"/>",
     {"cat"},
     {NULL},
     "<RDF xmlns=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"><rdf:Description " RDF " rdf:about=\"\"><dc:subject " DC ">"
     "<rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag></dc:subject></rdf:Description></RDF>"},
    {"dc is not declared",
     AROUND("<rdf:Description rdf:about=''><a:b xmlns:a='c'/></rdf:Description>"),
     {"cat"},
     {NULL},
     AROUND("<rdf:Description rdf:about=''><a:b xmlns:a='c'/><dc:subject " DC "><rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag>"
            "</dc:subject></rdf:Description>")},
    {"dc has another prefix, and its own is taken",
     AROUND("<rdf:Description xmlns:dc='other' xmlns:x='http://purl.org/dc/elements/1.1/'></rdf:Description>"),
     {"cat"},
     {NULL},
     AROUND("<rdf:Description xmlns:dc='other' xmlns:x='http://purl.org/dc/elements/1.1/'><x:subject><rdf:Bag><rdf:li>cat"
            "</rdf:li></rdf:Bag></x:subject></rdf:Description>")},
    {"the prefix of dc is taken over by the description",
     "<rdf:RDF " RDF " " DC "><rdf:Description xmlns:dc='other'></rdf:Description></rdf:RDF>",
     {"cat"},
     {NULL},
     "<rdf:RDF " RDF " " DC "><rdf:Description xmlns:dc='other'><dc:subject " DC "><rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag>"
     "</dc:subject></rdf:Description></rdf:RDF>"},
    {"rdf has another prefix",
     "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#'><r:Description " DC "><dc:subject/></r:Description></r:RDF>",
     {"cat"},
     {NULL},
     "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#'><r:Description " DC "><dc:subject><r:Bag><r:li>cat</r:li>"
     "</r:Bag></dc:subject></r:Description></r:RDF>"},
    {"an empty dc:subject with a space",
     AROUND("<rdf:Description " DC "><dc:subject /></rdf:Description>"),
     {"cat"},
     {NULL},
     AROUND("<rdf:Description " DC "><dc:subject ><rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag></dc:subject></rdf:Description>")},
    {"a dc:subject with nothing but space",
     AROUND("<rdf:Description " DC "><dc:subject>  </dc:subject></rdf:Description>"),
     {"cat"},
     {NULL},
     AROUND("<rdf:Description " DC "><dc:subject>  <rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag></dc:subject></rdf:Description>")},
    {"an empty list",
     AROUND("<rdf:Description " DC "><dc:subject><rdf:Bag/></dc:subject></rdf:Description>"),
     {"cat"},
     {NULL},
     AROUND("<rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag></dc:subject></rdf:Description>")},
    {"a list of another kind, an item with a language, comments",
     AROUND("<rdf:Description " DC "><dc:subject><rdf:Seq><!-- > --><rdf:li xml:lang='en'>dog</rdf:li><!-- < --></rdf:Seq>"
            "</dc:subject></rdf:Description>"),
     {"cat", "dog"},
     {NULL},
     AROUND("<rdf:Description " DC "><dc:subject><rdf:Seq><!-- > --><rdf:li xml:lang='en'>dog</rdf:li><!-- < --><rdf:li>cat"
            "</rdf:li></rdf:Seq></dc:subject></rdf:Description>")},
    {"keywords in two descriptions",
     AROUND("<rdf:Description/><rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>dog</rdf:li></rdf:Bag></dc:subject>"
            "</rdf:Description><rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>cow</rdf:li></rdf:Bag></dc:subject>"
            "</rdf:Description>"),
     {"cat", "dog", "cow"},
     {NULL},
     AROUND("<rdf:Description/><rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>dog</rdf:li><rdf:li>cat</rdf:li></rdf:Bag>"
            "</dc:subject></rdf:Description><rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>cow</rdf:li></rdf:Bag>"
            "</dc:subject></rdf:Description>")},
    {"a dc:subject inside another property does not count",
     AROUND("<rdf:Description " DC "><a:b xmlns:a='c'><rdf:Description><dc:subject><rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag>"
            "</dc:subject></rdf:Description></a:b></rdf:Description>"),
     {"cat"},
     {NULL},
     AROUND("<rdf:Description " DC "><a:b xmlns:a='c'><rdf:Description><dc:subject><rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag>"
            "</dc:subject></rdf:Description></a:b><dc:subject><rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag></dc:subject>"
            "</rdf:Description>")},
    {"special characters, there and new",
     AROUND("<rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>a&amp;b</rdf:li><rdf:li><![CDATA[<c>]]></rdf:li></rdf:Bag>"
            "</dc:subject></rdf:Description>"),
     {"a&b", "<c>", "d<e>&\"'", "f\n\tg\r"},
     {NULL},
     AROUND("<rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>a&amp;b</rdf:li><rdf:li><![CDATA[<c>]]></rdf:li>"
            "<rdf:li>d&lt;e&gt;&amp;\"'</rdf:li><rdf:li>f&#10;&#9;g&#13;</rdf:li></rdf:Bag></dc:subject></rdf:Description>")},
    {"elements inside an item are none of our business",
     AROUND("<rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>dog<a><b/></a></rdf:li></rdf:Bag></dc:subject>"
            "</rdf:Description>"),
     {"cat", "dog"},
     {NULL},
     AROUND("<rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>dog<a><b/></a></rdf:li><rdf:li>cat</rdf:li></rdf:Bag>"
            "</dc:subject></rdf:Description>")},
    {"keywords go with the lines they are on",
     "<rdf:RDF " RDF ">\n <rdf:Description " DC
     ">\n  <dc:subject>\n   <rdf:Bag>\n    <rdf:li>dog</rdf:li>\n    <rdf:li>cat</rdf:li>\n"
     "    <rdf:li>cow</rdf:li>\n   </rdf:Bag>\n  </dc:subject>\n </rdf:Description>\n</rdf:RDF>\n",
     {"cat"},
     {"dog", "cat", "cow"},
     "<rdf:RDF " RDF ">\n <rdf:Description " DC ">\n  <dc:subject>\n   <rdf:Bag>\n    <rdf:li>cat</rdf:li>\n"
     "   </rdf:Bag>\n  </dc:subject>\n </rdf:Description>\n</rdf:RDF>\n"},
    {"one goes for another, and from every list",
     AROUND("<rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>dog</rdf:li></rdf:Bag></dc:subject></rdf:Description>"
            "<rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>dog</rdf:li> <rdf:li>mine</rdf:li></rdf:Bag></dc:subject>"
            "</rdf:Description>"),
     {"cat"},
     {"dog"},
     AROUND("<rdf:Description " DC "><dc:subject><rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag></dc:subject></rdf:Description>"
            "<rdf:Description " DC "><dc:subject><rdf:Bag> <rdf:li>mine</rdf:li></rdf:Bag></dc:subject></rdf:Description>")},
};

static size_t count_of(const char *const *texts) {
    size_t count = 0;
    while (texts[count]) {
        count++;
    }
    return count;
}

static void merging_changes_the_keywords_and_nothing_else(void **state) {
    l3a_context *context = make_context(1);
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        const struct example *example = &examples[i];
        const struct keywords keywords = {example->add, count_of(example->add), example->remove, count_of(example->remove)};
        text_builder made, again;
        bool changed;
        print_message("%s\n", example->what);
        assert_ok(context, xmp_merge(context, "a.xmp", example->before, strlen(example->before), &keywords, &made, &changed));
        assert_int_equal(changed, example->after != NULL);
        if (changed) {
            assert_string_equal(made.text, example->after);
            assert_ok(context, xmp_merge(context, "a.xmp", made.text, made.length, &keywords, &again, &changed));
            assert_false(changed);
            text_builder_free(&again);
        }
        text_builder_free(&made);
    }
    l3a_context_free(context);
}

static void a_new_file_has_the_keywords(void **state) {
    l3a_context *context = make_context(1);
    const char *const add[] = {"cat", "Käse & Brot"};
    const struct keywords keywords = {add, 2, NULL, 0};
    text_builder made;
    text_list read = {0};
    bool changed;
    (void)state;
    assert_ok(context, xmp_merge(context, "a.xmp", NULL, 0, &keywords, &made, &changed));
    assert_true(changed);
    assert_ok(context, xmp_read(context, "a.xmp", made.text, made.length, &read));
    assert_int_equal(read.count, 2);
    assert_string_equal(read.items[0], "cat");
    assert_string_equal(read.items[1], "Käse & Brot");
    text_list_clear(context, &read);
    text_builder_free(&made);
    l3a_context_free(context);
}

static void what_cannot_be_merged_is_refused(void **state) {
    static const struct {
        const char *bytes;
        size_t count; /* 0: up to the zero byte */
        const char *says;
    } refused[] = {
        {"", 0, "line 1, column 1: no element found"},
        {"<a>", 0, "no element found"},
        {"<rdf:RDF " RDF "><b></rdf:RDF>", 0, "line 1, column 71: mismatched tag"},
        {"<a/>", 0, "is not XMP: there is no rdf:RDF in it"},
        {"<rdf:RDF/>", 0, "unbound prefix"},
        {"hello", 0, "syntax error"},
        {"\xFF\xFE<\0a\0/\0>\0", 10, "the text is not in UTF-8"},
        {"<\0a\0/\0>\0", 8, "the text is not in UTF-8"},
        {"\xFE\xFF", 2, "the text is not in UTF-8"},
        {"<?xml version='1.0' encoding='ISO-8859-1'?><a/>", 0, "the text is not in UTF-8"},
        {"<?xml version='1.0' encoding='UTF-16'?><a/>", 0, "the text is not in UTF-8"},
        {"<a>\xE4</a>", 0, "not well-formed"},
        {"<!DOCTYPE a [<!ENTITY b 'c'>]><a/>", 0, "a document type is not allowed"},
        {AROUND("<rdf:Description " DC " dc:subject='cow'/>"), 0, "dc:subject is an attribute instead of a list"},
        {AROUND("<rdf:Description " DC "><dc:subject>cow</dc:subject></rdf:Description>"), 0,
         "dc:subject is a text instead of a list"},
        {AROUND("<rdf:Description " DC "><dc:subject rdf:resource='cow'/></rdf:Description>"), 0, "dc:subject is not a list"},
        {AROUND("<rdf:Description " DC "><dc:subject><b/></dc:subject></rdf:Description>"), 0, "dc:subject is not a list"},
        /* the prefix of rdf means something else inside dc:subject */
        {"<rdf:RDF " RDF "><rdf:Description " DC "><dc:subject xmlns:rdf='other'/></rdf:Description></rdf:RDF>", 0,
         "dc:subject is not a list"},
    };
    l3a_context *context = make_context(1);
    const char *const add[] = {"cat"};
    const struct keywords keywords = {add, 1, NULL, 0};
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const size_t count = refused[i].count ? refused[i].count : strlen(refused[i].bytes);
        text_builder made;
        bool changed;
        assert_fails(context, xmp_merge(context, "a.xmp", refused[i].bytes, count, &keywords, &made, &changed), L3A_ERROR_FORMAT,
                     refused[i].says);
        assert_non_null(strstr(l3a_error_text(context), "a.xmp: "));
        assert_false(changed);
        text_builder_free(&made);
    }
    l3a_context_free(context);
}

static void tags_that_xml_cannot_hold_are_refused(void **state) {
    static const char *const bad[] = {"a\x01", "\x1B[0m", "\xEF\xBF\xBE", "a\xFF", ""};
    l3a_context *context = make_context(1);
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct keywords keywords = {&bad[i], 1, NULL, 0};
        text_builder made;
        bool changed;
        assert_fails(context, xmp_merge(context, "a.xmp", NULL, 0, &keywords, &made, &changed), L3A_ERROR_DATA,
                     "cannot be written to XMP");
        text_builder_free(&made);
    }
    l3a_context_free(context);
}

/* ---- Sidecars ---- */

static bool is_there(const char *folder, const char *name) {
    char *path = path_in(folder, name);
    const bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

static void a_sidecar_is_found_by_either_name(void **state) {
    l3a_context *context = make_context(1);
    char *folder = make_temporary_folder(), *picture = path_in(folder, "my photo.v2.jpg"),
         *adobe = path_in(folder, "my photo.v2.xmp");
    const char *const tags[] = {"cat", "dog"};
    const l3a_sidecar_options short_name = {.size = sizeof short_name, .short_name = 1};
    int changed = -1;
    (void)state;
    assert_ok(context, l3a_sidecar_write(context, picture, NULL, 0, NULL, &changed));
    assert_int_equal(changed, 0);
    assert_false(is_there(folder, "my photo.v2.jpg.xmp"));
    assert_ok(context, l3a_sidecar_write(context, picture, tags, 1, &short_name, &changed));
    assert_int_equal(changed, 1);
    assert_true(is_there(folder, "my photo.v2.xmp"));
    assert_ok(context, l3a_sidecar_write(context, picture, tags, 2, NULL, &changed)); /* finds it */
    assert_int_equal(changed, 1);
    assert_false(is_there(folder, "my photo.v2.jpg.xmp"));
    assert_int_equal(unlink(adobe), 0);
    assert_ok(context, l3a_sidecar_write(context, picture, tags, 1, NULL, NULL));
    assert_true(is_there(folder, "my photo.v2.jpg.xmp"));
    assert_ok(context, l3a_sidecar_write(context, picture, tags, 2, &short_name, &changed));
    assert_int_equal(changed, 1);
    assert_false(is_there(folder, "my photo.v2.xmp"));
    free(picture);
    free(adobe);
    remove_folder(folder);
    l3a_context_free(context);
}

static void writing_twice_writes_once_and_keeps_mode_and_link(void **state) {
    l3a_context *context = make_context(1);
    char *folder = make_temporary_folder(), *picture = path_in(folder, "a.jpg"), *sidecar = path_in(folder, "a.jpg.xmp"),
         *target = path_in(folder, "elsewhere");
    const char *const tags[] = {"cat"}, *const gone[] = {"cat", "dog"};
    const l3a_sidecar_options options = {.size = sizeof options, .remove = gone, .remove_count = 2};
    struct stat first, second;
    char *bytes;
    size_t count;
    int changed;
    (void)state;
    write_bytes(target, examples[0].before, strlen(examples[0].before));
    assert_int_equal(chmod(target, 0600), 0);
    assert_int_equal(symlink("elsewhere", sidecar), 0);
    assert_ok(context, l3a_sidecar_write(context, picture, tags, 1, NULL, NULL));
    assert_int_equal(lstat(sidecar, &first), 0);
    assert_true(S_ISLNK(first.st_mode));
    assert_int_equal(stat(sidecar, &first), 0);
    assert_int_equal(first.st_mode & 0777, 0600);
    assert_ok(context, l3a_sidecar_write(context, picture, tags, 1, NULL, &changed));
    assert_int_equal(changed, 0);
    assert_int_equal(stat(sidecar, &second), 0);
    assert_int_equal(first.st_ino, second.st_ino); /* a file that is written has a new one */
    bytes = read_bytes(target, &count);
    assert_string_equal(bytes, examples[0].after);
    free(bytes);
    assert_ok(context, l3a_sidecar_write(context, picture, tags, 1, &options, &changed));
    assert_int_equal(changed, 1);
    bytes = read_bytes(target, &count);
    assert_null(strstr(bytes, "dog"));
    assert_non_null(strstr(bytes, "cat"));
    free(bytes);
    free(picture);
    free(sidecar);
    free(target);
    remove_folder(folder);
    l3a_context_free(context);
}

static void a_damaged_sidecar_stays_as_it_is(void **state) {
    l3a_context *context = make_context(1);
    char *folder = make_temporary_folder(), *picture = path_in(folder, "a.jpg"), *sidecar = path_in(folder, "a.xmp");
    const char *const tags[] = {"cat"};
    size_t count;
    (void)state;
    write_bytes(sidecar, "<a>", 3);
    assert_fails(context, l3a_sidecar_write(context, picture, tags, 1, NULL, NULL), L3A_ERROR_FORMAT, "a.xmp: line 1");
    char *bytes = read_bytes(sidecar, &count);
    assert_int_equal(count, 3);
    free(bytes);
    assert_false(is_there(folder, "a.jpg.xmp"));
    assert_int_equal(unlink(sidecar), 0);
    assert_int_equal(mkdir(sidecar, 0700), 0);
    assert_fails(context, l3a_sidecar_write(context, picture, tags, 1, NULL, NULL), L3A_ERROR_IO, "a.xmp");
    free(picture);
    picture = path_in(folder, "nowhere/a.jpg");
    assert_fails(context, l3a_sidecar_write(context, picture, tags, 1, NULL, NULL), L3A_ERROR_NOT_FOUND, "nowhere/a.jpg.xmp");
    free(picture);
    free(sidecar);
    remove_folder(folder);
    l3a_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_changes_the_keywords_and_nothing_else),
        cmocka_unit_test(a_new_file_has_the_keywords),
        cmocka_unit_test(what_cannot_be_merged_is_refused),
        cmocka_unit_test(tags_that_xml_cannot_hold_are_refused),
        cmocka_unit_test(a_sidecar_is_found_by_either_name),
        cmocka_unit_test(writing_twice_writes_once_and_keeps_mode_and_link),
        cmocka_unit_test(a_damaged_sidecar_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
