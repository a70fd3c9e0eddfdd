/* The report with the methods of this library. */
#include "report/report.h"

l3a_status l3a_report_write(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                            const char *path) {
    l3a_status status = L3A_OK;
    NEED(context, context, folders, path);
    TRY(need_items(context, __func__, "folders", folders, count));
    TRY(report_write(context, folders, count, options, l3a_method_at, path));
done:
    return status;
}

l3a_status l3a_report_figures(l3a_context *context, const char *const *folders, size_t count, const l3a_report_options *options,
                              const char *format, const char *folder) {
    l3a_status status = L3A_OK;
    NEED(context, context, folders, format, folder);
    TRY(need_items(context, __func__, "folders", folders, count));
    TRY(report_figures(context, folders, count, options, l3a_method_at, format, folder));
done:
    return status;
}
