/* Results and reports with the methods of this library. */
#include "method/method.h"
#include "report/report.h"

#include <string.h>

static const struct method_table methods = {l3a_method_at, method_threshold};

l3a_status l3a_results_load(l3a_context *context, const char *folder, l3a_results **results) {
    l3a_status status = L3A_OK;
    NEED(context, context, folder, results);
    TRY(report_results(context, folder, &methods, results));
done:
    return status;
}

l3a_status l3a_report_write(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                            const char *path) {
    l3a_status status = L3A_OK;
    NEED(context, context, folders, path);
    TRY(need_items(context, __func__, "folders", folders, count));
    TRY(report_write(context, folders, count, options, &methods, path));
done:
    return status;
}

l3a_status l3a_report_figures(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                              const char *format, const char *folder) {
    l3a_status status = L3A_OK;
    NEED(context, context, folders, format, folder);
    TRY(need_items(context, __func__, "folders", folders, count));
    TRY(report_figures(context, folders, count, options, &methods, format, folder));
done:
    return status;
}

l3a_status l3a_report_table(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                            const char *format, char *text, size_t capacity, size_t *length) {
    l3a_status status = L3A_OK;
    text_builder table = {.context = context};
    NEED(context, context, folders, format, length);
    TRY(need_items(context, __func__, "folders", folders, count));
    FAIL_IF(capacity && !text, context, L3A_ERROR_ARGUMENT, NULL, "%s: text is NULL", __func__);
    TRY(report_table(context, folders, count, options, &methods, format, &table));
    *length = table.length;
    if (capacity) {
        const size_t kept = table.length < capacity ? table.length : capacity - 1;
        memcpy(text, table.text, kept);
        text[kept] = '\0';
    }
done:
    text_builder_free(&table);
    return status;
}
