/* The folder of a run: results that load can be summarised and compared, those from elsewhere join or leave everything as it was,
 * and a report is complete and has no control characters. */
#include "fuzz.h"

#include "base/file.h"
#include "base/memory.h"

#include <string.h>

static void check_rows(l3a_context *context, const l3a_results *results) {
    l3a_summary summary = {.size = sizeof summary};
    for (size_t i = 0; i < l3a_results_count(results); i++) {
        const l3a_result *row = l3a_results_at(results, i);
        must(row->method && row->phase && row->first < row->last && row->last <= l3a_results_class_count(results));
        must(l3a_results_average_precision(results, i) != NULL);
        const size_t order = l3a_results_order_of(results, i);
        must(order < l3a_results_order_count(results) && l3a_results_order(results, order));
        for (size_t k = 0; k < row->last; k++) {
            must(l3a_results_class_in(results, order, k) != NULL);
        }
        l3a_results_summary(context, results, row->method, &summary);
    }
}

/* Every method is compared by every metric. */
static void check_differences(l3a_context *context, const l3a_results *results) {
    static const char *const metrics[] = {"avg_mAP", "last_mAP", "CF1", "OF1", "forgetting"};
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        l3a_significance *found = NULL;
        must(l3a_results_significance(context, &results, 1, metrics[i], SIZE_MAX, &found) == L3A_OK);
        for (size_t j = 0; j < l3a_significance_count(found); j++) {
            const l3a_difference *own = l3a_significance_at(found, j);
            must(own->method && (own->pairs >= 5 || own->significant < 0) && (!own->pairs || own->reference));
            must(!(own->p < 0) && !(own->p > 1) && !(own->adjusted_p < own->p) && !(own->adjusted_p > 1));
        }
        l3a_significance_free(found);
    }
}

/* What cannot join leaves the results alone. */
static void check_join(l3a_context *context, l3a_results *results) {
    const size_t before = l3a_results_count(results);
    const l3a_status status = l3a_results_join(results, "run/elsewhere.csv");
    must(status == L3A_OK ? l3a_results_count(results) > before : l3a_results_count(results) == before);
    check_rows(context, results);
    check_differences(context, results);
}

/* The sentence and the tables, if the results have them, are cut to their room. */
static void check_texts(l3a_context *context, const l3a_results *results, const char *const *folders) {
    static const char *const formats[] = {"latex", "markdown"};
    char text[64];
    size_t length;
    must(l3a_results_verdict(context, results, text, sizeof text) == L3A_OK && strlen(text) < sizeof text);
    for (size_t i = 0; i < 2; i++) {
        if (l3a_report_table(context, folders, 1, NULL, formats[i], text, sizeof text, &length) == L3A_OK) {
            must(strlen(text) == sizeof text - 1 && length > strlen(text));
        }
    }
}

static void check_page(l3a_context *context) {
    static const char end[] = "</html>\n";
    char *page = NULL;
    size_t length;
    must(read_whole(context, "page.html", UINT32_MAX, &page, &length) == L3A_OK);
    must(length >= sizeof end && memcmp(page + length - (sizeof end - 1), end, sizeof end - 1) == 0);
    for (size_t i = 0; i < length; i++) {
        must((unsigned char)page[i] >= 0x20 || page[i] == '\n' || page[i] == '\t');
    }
    release(context, page);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over_folder(bytes, count);
    const char *const folders[1] = {"run"};
    l3a_results *results = NULL;
    if (l3a_results_load(context, folders[0], &results) == L3A_OK) {
        check_rows(context, results);
        check_texts(context, results, folders);
        check_join(context, results);
    }
    l3a_results_free(results);
    if (l3a_report_write(context, folders, 1, NULL, "page.html") == L3A_OK) {
        check_page(context);
    }
    l3a_context_free(context);
    return 0;
}
