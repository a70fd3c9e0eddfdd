/* The folder of a grid. Its points' tables are written when their team has finished a seed: a grid that was killed resumes with the
 * teams and seeds that have not finished. */
#include "base/file.h"
#include "run/experiment.h"
#include "run/record.h"

#include <string.h>

/* sweep.csv is only checked here; it is written again from the points' tables. */
static l3a_status read_tables(l3a_experiment *grid) {
    l3a_context *context = grid->context;
    const char *folder = grid->options.folder;
    l3a_status status = L3A_OK;
    char *path = NULL, *text = NULL;
    size_t length, unrecorded = 0;
    TRY(tables_open(context, folder, &grid->tables));
    TRY(tables_read(context, &grid->tables, folder, "sweep.csv", &path, &text, &length));
    for (size_t i = 0; i < grid->point_count; i++) {
        l3a_results *results = grid->points[i].results;
        TRY(remove_leftovers(context, grid->points[i].folder));
        TRY(results_read(results, grid->points[i].folder));
        unrecorded += l3a_results_count(results) && !results->tables.recorded;
    }
    if (unrecorded) {
        report_warning(context, "%s: %zu of %zu points have no checksums.csv, so their tables are used without a check", folder,
                       unrecorded, grid->point_count);
    }
done:
    release(context, text);
    release(context, path);
    return status;
}

/* Makes the folder of each point look like that of a run, for reports and for l3a_results_load(). */
static l3a_status write_record(const l3a_experiment *grid, const struct point *point) {
    l3a_context *context = grid->context;
    l3a_status status = L3A_OK;
    l3a_experiment_options options = grid->options;
    text_builder identity = {.context = context};
    char *path = NULL;
    if (!leads(context)) {
        return L3A_OK;
    }
    options.methods = &point->method->info.name;
    options.method_count = 1;
    options.settings = &point->settings;
    options.axis_count = 0;
    TRY(make_folder(context, point->folder));
    TRY(join_path(context, point->folder, run_layout.record, &path));
    TRY(record_identity(grid, &options, &identity));
    TRY(record_write(context, path, &options, &identity));
done:
    text_builder_free(&identity);
    release(context, path);
    return status;
}

static l3a_status open_grid(l3a_experiment *grid, bool resumed) {
    l3a_status status = L3A_OK;
    char *points = NULL;
    if (resumed) {
        TRY(read_tables(grid));
    }
    TRY(join_path(grid->context, grid->options.folder, "points", &points));
    TRY(make_folder(grid->context, points));
    for (size_t i = 0; i < grid->point_count; i++) {
        TRY(write_record(grid, &grid->points[i]));
    }
done:
    release(grid->context, points);
    return status;
}

/* All phases are done if all points have them. Otherwise drops the phases that they have. */
static l3a_status resume(const l3a_experiment *grid, struct job *job, size_t *done_phases) {
    bool done = true;
    for (size_t i = 0; i < job->team->count; i++) {
        const struct point *point = team_point(grid, job->team, i);
        const struct trial trial = trial_of(grid, job, point->method);
        done = done && results_rows_of(point->results, &trial) == job->phases;
    }
    for (size_t i = 0; !done && i < job->team->count; i++) {
        const struct point *point = team_point(grid, job->team, i);
        const struct trial trial = trial_of(grid, job, point->method);
        results_cut(point->results, &trial, 0);
    }
    *done_phases = done ? job->phases : 0;
    return L3A_OK;
}

/* Appends the lines of a point's metrics.csv, with its values as their first columns; the header only if there is none yet. */
static l3a_status add_lines(const l3a_experiment *grid, const struct point *point, text_builder *table) {
    l3a_context *context = grid->context;
    l3a_status status = L3A_OK;
    char *path = NULL, *text = NULL;
    size_t length;
    TRY(join_path(context, point->folder, "metrics.csv", &path));
    TRY(read_whole(context, path, 1 << 30, &text, &length));
    for (const char *line = text, *end; *line; line = end) {
        const bool header = line == text;
        end = line + strcspn(line, "\n");
        end += *end == '\n';
        if (header && table->length) {
            continue;
        }
        for (size_t j = 0; j < grid->options.axis_count; j++) {
            text_builder_print(table, "%s,", header ? grid->options.axes[j].name : point->values.items[j]);
        }
        text_builder_append(table, line, (size_t)(end - line));
    }
done:
    release(context, path);
    release(context, text);
    return status;
}

/* sweep.csv: the metrics of all points in one table. */
static l3a_status write_table(l3a_experiment *grid) {
    l3a_status status = L3A_OK;
    text_builder table = {.context = grid->context};
    if (!leads(grid->context)) {
        return L3A_OK;
    }
    for (size_t i = 0; i < grid->point_count; i++) {
        if (l3a_results_count(grid->points[i].results)) {
            TRY(add_lines(grid, &grid->points[i], &table));
        }
    }
    const struct table_text written = {"sweep.csv", &table};
    TRY(tables_write(grid->context, &grid->tables, grid->options.folder, &written, 1));
done:
    text_builder_free(&table);
    return status;
}

static l3a_status write_team(l3a_experiment *grid, const struct job *job) {
    l3a_status status = L3A_OK;
    if (!grid->options.folder || !leads(grid->context)) {
        return L3A_OK;
    }
    for (size_t i = 0; i < job->team->count; i++) {
        const struct point *point = team_point(grid, job->team, i);
        TRY(results_write(point->results, point->folder));
    }
    TRY(write_table(grid));
done:
    return status;
}

const struct layout grid_layout = {.kind = "sweep",
                                   .record = "sweep.json",
                                   .obstacle = "run.json",
                                   .complaint = "%s: this folder holds a run",
                                   .consumers = "no point of this sweep",
                                   .open = open_grid,
                                   .resume = resume,
                                   .keep_job = write_team,
                                   .leave_job = write_team,
                                   .finish = write_table};
