/* What is in the folders of a library: the names, sizes and times of its files, compared with the rows of the index.
 *
 * A file is as it was if its size and time are, whatever the clock says: times are only compared for being equal. Where that says
 * nothing, because a file was looked at right after it was written, its content is compared. A root that is missing or empty, as a
 * disk that is not mounted leaves it, changes nothing, and neither does a folder that cannot be listed. Symbolic links are followed
 * as long as they stay below their root, and a folder is searched once.
 *
 * A folder is first read and then compared, so that a slow disk does not keep others from writing to the index, and a scan that
 * finds nothing new writes nothing. Both lists are sorted by name, so they are compared in one go. */
#include "library/scan.h"

#include "base/picture_kind.h"
#include "base/sized.h"
#include "common/utf8.h"
#include "data/pictures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { OFTEN = 256, FEW_GONE = 1000 };

/* ---- What is in a folder ---- */

/* A link must stay below the root. */
static bool stays(const struct scan *scan, const char *path) {
    char text[4096], link;
    const file_operations *files = scan->context->files;
    const size_t length = strlen(scan->root_path);
    if (files->read_link(path, &link, sizeof link) < 0) {
        return true;
    }
    return files->resolve(path, text, sizeof text) == 0 && strncmp(text, scan->root_path, length) == 0 &&
           (text[length] == '/' || !text[length] || strcmp(scan->root_path, "/") == 0);
}

/* Whether a file or a link of this name is listed, and why it is not read. */
static bool is_listed(const char *path, const char **refusal) {
    const bool picture = named_like_a_picture(path);
    *refusal = other_media(path, NULL, 0);
    if (!*refusal && picture && !is_utf8(path)) {
        *refusal = "the name is not UTF-8; rename it";
    }
    return *refusal || picture;
}

/* What a name in a folder stands for: a file that is listed, a folder to search, or nothing. */
static l3a_status look_at_name(struct scan *scan, const char *path, const char *name) {
    file_description about;
    struct found found = {.name = name};
    bool first, listed = is_listed(path, &found.refusal);
    l3a_status status = L3A_OK;
    if (scan->context->files->describe(path, &about)) {
        const bool nothing = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
        scan->gone = scan->gone || nothing;
        found.size = UNKNOWN;
        listed = listed && !nothing;
        TRY(nothing ? L3A_OK : text_list_add(scan->context, &scan->broken, path, strlen(path)));
    } else if (!stays(scan, path)) {
        listed = false;
    } else if (S_ISDIR(about.mode)) {
        listed = false;
        TRY(visited_add(scan->context, &scan->visited, about.device, about.inode, &first));
        TRY(first ? text_list_add(scan->context, &scan->folders, path, strlen(path)) : L3A_OK);
    } else {
        listed = listed && S_ISREG(about.mode);
        found.size = (int64_t)about.size;
        found.modified = about.modified;
    }
    if (listed) {
        TRY(grow_array(scan->context, &scan->files, &scan->file_capacity, scan->file_count + 1, sizeof *scan->files));
        scan->files[scan->file_count++] = found;
    }
done:
    return status;
}

static l3a_status path_of(const struct scan *scan, const char *folder, const char *name, char **path) {
    return join_path(scan->context, strcmp(folder, "/") == 0 ? "" : folder, name, path);
}

static l3a_status read_folder(struct scan *scan, const char *folder, const text_list *names) {
    char *path = NULL;
    l3a_status status = L3A_OK;
    scan->file_count = 0;
    scan->gone = false;
    for (size_t i = 0; i < names->count; i++) {
        if (!is_hidden(names->items[i])) {
            TRY(path_of(scan, folder, names->items[i], &path));
            TRY(look_at_name(scan, path, names->items[i]));
            release(scan->context, path);
            path = NULL;
        }
        if (i % OFTEN == 0) {
            TRY(report_progress(scan->context, "find", scan->report.pictures + scan->file_count, 0));
            TRY(scan_pause(scan));
        }
    }
done:
    release(scan->context, path);
    return status;
}

/* Whether the root is what it was when its search began: nothing else has been mounted there, or gone. */
static bool root_stays(const struct scan *scan) {
    file_description now;
    return !scan->context->files->describe(scan->root_path, &now) && now.device == scan->about.device &&
           now.inode == scan->about.inode;
}

/* ---- Comparing ---- */

/* The row of a folder; it gets one if it has files, or a problem. *folder 0: it has none. */
static l3a_status enter_folder(struct scan *scan, const char *path, const char *problem, int64_t *folder) {
    struct database *database = &scan->library->database;
    sqlite3_stmt *statement = NULL;
    bool row, same = false;
    l3a_status status = L3A_OK;
    TRY(database_prepare(database, "SELECT id, root = ?2 AND problem IS ?3 FROM folder WHERE path = ?1", &statement));
    sqlite3_bind_text(statement, 1, path, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, scan->root);
    if (problem) {
        sqlite3_bind_text(statement, 3, problem, -1, SQLITE_STATIC);
    }
    TRY(database_step(database, statement, &row));
    *folder = row ? sqlite3_column_int64(statement, 0) : 0;
    same = row ? sqlite3_column_int64(statement, 1) != 0 : !scan->file_count && !problem;
    sqlite3_reset(statement);
    if (!same) {
        TRY(scan_begin_writing(scan));
        TRY(database_prepare(database,
                             "INSERT INTO folder (path, root, problem) VALUES (?1, ?2, ?3) "
                             "ON CONFLICT (path) DO UPDATE SET root = ?2, problem = ?3",
                             &statement));
        sqlite3_bind_text(statement, 1, path, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 2, scan->root);
        if (problem) {
            sqlite3_bind_text(statement, 3, problem, -1, SQLITE_STATIC);
        }
        TRY(database_step(database, statement, &row));
        *folder = *folder ? *folder : sqlite3_last_insert_rowid(database->handle);
    }
    if (*folder) {
        TRY(grow_array(scan->context, &scan->met, &scan->met_capacity, scan->met_count + 1, sizeof *scan->met));
        scan->met[scan->met_count++] = *folder;
    }
done:
    return status;
}

/* A folder that cannot be listed stays as it was, with all that is below it. */
static l3a_status note_problem(struct scan *scan, const char *path) {
    char problem[sizeof scan->context->error_text];
    int64_t folder;
    l3a_status status = L3A_OK;
    memcpy(problem, scan->context->error_text, sizeof problem);
    report_warning(scan->context, "%s", problem);
    scan->report.unreadable++;
    TRY(text_list_add(scan->context, &scan->broken, path, strlen(path)));
    TRY(enter_folder(scan, path, problem, &folder));
done:
    return status;
}

/* A file that the index has at this place. */
static l3a_status compare_same(struct scan *scan, const struct row *row, size_t file) {
    const struct found *found = &scan->files[file];
    l3a_status status = L3A_OK;
    if (found->size == UNKNOWN) {
        return L3A_OK;
    }
    if (row->size != found->size || row->modified != found->modified) {
        TRY(scan_change_row(scan, row->id, found));
        scan->report.changed++;
    } else if (!row->sure && row->state == PICTURE_FAILED && !row->checksum) { /* it could not be read; perhaps it can be now */
        TRY(scan_change_row(scan, row->id, found));
    } else if (!row->sure && (row->state == PICTURE_FAILED || row->state == PICTURE_DONE)) {
        TRY(grow_array(scan->context, &scan->doubts, &scan->doubt_capacity, scan->doubt_count + 1, sizeof *scan->doubts));
        scan->doubts[scan->doubt_count++] = (struct doubt){row->id, row->checksum, file};
    }
done:
    return status;
}

static l3a_status compare_files(struct scan *scan, int64_t folder, struct row *row) {
    l3a_status status = L3A_OK;
    TRY(scan_next_row(scan, row));
    for (size_t i = 0; i < scan->file_count; i++) {
        const struct found *found = &scan->files[i];
        while (row->name && strcmp(row->name, found->name) < 0) {
            TRY(scan_drop_row(scan, row->id));
            TRY(scan_next_row(scan, row));
        }
        if (row->name && strcmp(row->name, found->name) == 0) {
            TRY(compare_same(scan, row, i));
            TRY(scan_next_row(scan, row));
        } else if (found->size != UNKNOWN) {
            TRY(scan_add_row(scan, folder, found));
        }
    }
    while (row->name) {
        TRY(scan_drop_row(scan, row->id));
        TRY(scan_next_row(scan, row));
    }
done:
    return status;
}

static int64_t nanoseconds_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Compares a file with what was looked at. */
static l3a_status compare_content(struct scan *scan, const char *folder, const struct doubt *doubt) {
    const struct found *found = &scan->files[doubt->file];
    const int64_t before = nanoseconds_now();
    input_file input = {0};
    uint64_t checksum = 0;
    char *path = NULL;
    l3a_status status = L3A_OK;
    TRY(path_of(scan, folder, found->name, &path));
    status = input_open(scan->context, path, &input);
    status = status == L3A_OK ? input_checksum(&input, 0, input.size, &checksum) : status;
    if (status != L3A_OK) { /* another time */
        status = status == L3A_ERROR_MEMORY ? status : L3A_OK;
        goto done;
    }
    if (checksum != doubt->checksum) {
        TRY(scan_change_row(scan, doubt->id, found));
        scan->report.changed++;
    } else if (!is_recent(found->modified, before)) {
        TRY(scan_begin_writing(scan));
        TRY(database_run(&scan->library->database, "UPDATE picture SET sure = 1 WHERE id = ?1", &doubt->id, 1));
    }
done:
    input_close(&input);
    release(scan->context, path);
    return status;
}

static l3a_status compare_folder(struct scan *scan, const char *path) {
    struct row row = {0};
    int64_t folder;
    l3a_status status = L3A_OK;
    TRY(enter_folder(scan, path, NULL, &folder));
    if (!folder) {
        return L3A_OK;
    }
    TRY(database_prepare(&scan->library->database,
                         "SELECT id, name, size, modified, state, checksum, sure FROM picture WHERE folder = ?1 AND state <> 4 "
                         "ORDER BY name",
                         &row.statement));
    sqlite3_bind_int64(row.statement, 1, folder);
    scan->doubt_count = 0;
    TRY(compare_files(scan, folder, &row));
    for (size_t i = 0; i < scan->doubt_count; i++) {
        TRY(scan_pause(scan));
        TRY(compare_content(scan, path, &scan->doubts[i]));
    }
done:
    sqlite3_reset(row.statement);
    return status;
}

static l3a_status scan_folder(struct scan *scan, const char *path) {
    text_list names = {0};
    l3a_status status = L3A_OK;
    TRY(scan_pause(scan));
    status = list_folder(scan->context, path, &names);
    if (status != L3A_OK && status != L3A_ERROR_MEMORY) {
        scan->file_count = 0;
        TRY(note_problem(scan, path));
        goto done;
    }
    TRY(status);
    TRY(read_folder(scan, path, &names));
    scan->lost = scan->gone && !root_stays(scan);
    if (!scan->lost) {
        TRY(compare_folder(scan, path));
        scan->report.pictures += scan->file_count;
    }
done:
    text_list_clear(scan->context, &names);
    return status;
}

/* ---- A root ---- */

static int compare_numbers(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static bool is_below_broken(const struct scan *scan, const char *path) {
    for (size_t i = 0; i < scan->broken.count; i++) {
        const size_t length = strlen(scan->broken.items[i]);
        if (strncmp(path, scan->broken.items[i], length) == 0 && (path[length] == '/' || !path[length])) {
            return true;
        }
    }
    return false;
}

/* Lists the folders of the root that were not met. */
static l3a_status list_unmet(struct scan *scan, int64_t **unmet, size_t *count) {
    struct database *database = &scan->library->database;
    sqlite3_stmt *statement = NULL;
    size_t capacity = 0;
    bool row;
    l3a_status status = L3A_OK;
    TRY(database_prepare(database, "SELECT id, path FROM folder WHERE root = ?1", &statement));
    sqlite3_bind_int64(statement, 1, scan->root);
    TRY(database_step(database, statement, &row));
    while (row) {
        const int64_t id = sqlite3_column_int64(statement, 0);
        const char *path = (const char *)sqlite3_column_text(statement, 1);
        const bool met = scan->met_count && bsearch(&id, scan->met, scan->met_count, sizeof id, compare_numbers);
        if (path && !met && !is_below_broken(scan, path)) {
            TRY(grow_array(scan->context, unmet, &capacity, *count + 1, sizeof **unmet));
            (*unmet)[(*count)++] = id;
        }
        TRY(database_step(database, statement, &row));
    }
done:
    sqlite3_reset(statement);
    return status;
}

/* Pictures in folders that were not met are gone. */
static l3a_status drop_folders(struct scan *scan) {
    struct database *database = &scan->library->database;
    int64_t *unmet = NULL, pictures;
    size_t count = 0;
    l3a_status status = L3A_OK;
    if (scan->met_count) {
        qsort(scan->met, scan->met_count, sizeof *scan->met, compare_numbers);
    }
    TRY(list_unmet(scan, &unmet, &count));
    for (size_t i = 0; i < count; i++) {
        TRY(database_number(database, "SELECT count(*) FROM picture WHERE state <> 4 AND folder = ?1", &unmet[i], 1, 0, &pictures));
        if (pictures) {
            TRY(scan_begin_writing(scan));
            const int64_t values[] = {unmet[i], scan->change};
            TRY(database_run(database, "UPDATE picture SET state = 4, change = ?2 WHERE state <> 4 AND folder = ?1", values, 2));
            scan->report.gone += (uint64_t)pictures;
        }
    }
done:
    release(scan->context, unmet);
    return status;
}

/* Runs a statement about the root and its problem; *row: it has one. */
static l3a_status run_with_problem(struct scan *scan, const char *text, const char *problem, bool *row) {
    sqlite3_stmt *statement = NULL;
    l3a_status status = L3A_OK;
    TRY(database_prepare(&scan->library->database, text, &statement));
    sqlite3_bind_int64(statement, 1, scan->root);
    if (problem) {
        sqlite3_bind_text(statement, 2, problem, -1, SQLITE_STATIC);
    }
    TRY(database_step(&scan->library->database, statement, row));
done:
    sqlite3_reset(statement);
    return status;
}

static l3a_status set_root_problem(struct scan *scan, const char *problem) {
    bool same;
    l3a_status status = L3A_OK;
    if (problem) {
        scan->report.away++;
        report_warning(scan->context, "%s: %s; its pictures stay in the index", scan->root_path, problem);
    }
    TRY(run_with_problem(scan, "SELECT 1 FROM root WHERE id = ?1 AND problem IS ?2", problem, &same));
    if (!same) {
        TRY(scan_begin_writing(scan));
        TRY(run_with_problem(scan, "UPDATE root SET problem = ?2 WHERE id = ?1", problem, &same));
    }
done:
    return status;
}

/* NULL: the root is there. What cannot be listed, or is empty and was not, is taken for a disk that is not there. */
static l3a_status root_problem(struct scan *scan, const char **problem) {
    text_list names = {0};
    int64_t known = 0;
    bool first;
    l3a_status status = L3A_OK;
    *problem = NULL;
    if (scan->context->files->describe(scan->root_path, &scan->about) || !S_ISDIR(scan->about.mode)) {
        *problem = "this folder is not there";
        return L3A_OK;
    }
    status = list_folder(scan->context, scan->root_path, &names);
    if (status != L3A_OK && status != L3A_ERROR_MEMORY) {
        *problem = "this folder cannot be read";
        status = L3A_OK;
        goto done;
    }
    TRY(status);
    if (!names.count) {
        TRY(database_number(
            &scan->library->database,
            "SELECT 1 FROM folder JOIN picture ON folder.id = picture.folder AND state <> 4 WHERE root = ?1 LIMIT 1", &scan->root,
            1, 0, &known));
        *problem = known ? "this folder is empty, as if a disk were not mounted" : NULL;
    }
    TRY(visited_add(scan->context, &scan->visited, scan->about.device, scan->about.inode, &first));
done:
    text_list_clear(scan->context, &names);
    return status;
}

static l3a_status scan_root(struct scan *scan) {
    const uint64_t before = scan->report.pictures;
    const char *problem;
    char *path = NULL;
    l3a_status status = L3A_OK;
    TRY(root_problem(scan, &problem));
    scan->met_count = 0;
    scan->lost = false;
    text_list_clear(scan->context, &scan->broken);
    TRY(problem ? L3A_OK : text_list_add(scan->context, &scan->folders, scan->root_path, strlen(scan->root_path)));
    while (scan->folders.count && !scan->lost) {
        release(scan->context, path);
        path = scan->folders.items[--scan->folders.count];
        TRY(scan_folder(scan, path));
    }
    if (!problem && (scan->lost || !root_stays(scan))) {
        problem = "this folder has gone away";
        text_list_clear(scan->context, &scan->folders);
    }
    TRY(set_root_problem(scan, problem));
    if (problem) {
        scan->report.pictures = before;
    } else {
        TRY(drop_folders(scan));
    }
done:
    release(scan->context, path);
    return status;
}

/* ---- All roots ---- */

static l3a_status list_roots(l3a_library *library, text_list *paths, int64_t **ids) {
    sqlite3_stmt *statement = NULL;
    bool row;
    size_t capacity = 0;
    l3a_status status = L3A_OK;
    TRY(database_prepare(&library->database, "SELECT id, path FROM root ORDER BY path", &statement));
    TRY(database_step(&library->database, statement, &row));
    while (row) {
        const char *path = (const char *)sqlite3_column_text(statement, 1);
        FAIL_IF(!path, library->context, L3A_ERROR_MEMORY, NULL, "not enough memory");
        TRY(grow_array(library->context, ids, &capacity, paths->count + 1, sizeof **ids));
        (*ids)[paths->count] = sqlite3_column_int64(statement, 0);
        TRY(text_list_add(library->context, paths, path, strlen(path)));
        TRY(database_step(&library->database, statement, &row));
    }
done:
    sqlite3_reset(statement);
    return status;
}

/* Rows of pictures that are gone are removed when there are many. The catalogues of all handles are then read anew. */
static l3a_status purge(struct scan *scan) {
    struct database *database = &scan->library->database;
    int64_t gone, purges;
    l3a_status status = L3A_OK;
    TRY(database_number(database, "SELECT count(*) FROM picture WHERE state = 4", NULL, 0, 0, &gone));
    if ((uint64_t)gone > FEW_GONE + scan->report.pictures / 4) {
        TRY(scan_begin_writing(scan));
        TRY(database_execute(database, "DELETE FROM picture WHERE state = 4"));
        TRY(meta_step(database, "purges", &purges));
    }
done:
    return status;
}

static void free_scan(struct scan *scan) {
    text_list_clear(scan->context, &scan->folders);
    text_list_clear(scan->context, &scan->broken);
    visited_free(scan->context, &scan->visited);
    release(scan->context, scan->met);
    release(scan->context, scan->files);
    release(scan->context, scan->doubts);
}

l3a_status l3a_library_scan(l3a_library *library, l3a_scan_report *report) {
    REQUIRE(library, library);
    struct scan scan = {.library = library, .context = library->context, .report = {.size = sizeof scan.report}};
    text_list paths = {0};
    int64_t *ids = NULL;
    l3a_status status = L3A_OK;
    TRY(report ? CHECK_SIZED(library->context, report) : L3A_OK);
    TRY(list_roots(library, &paths, &ids));
    for (size_t i = 0; i < paths.count; i++) {
        scan.root = ids[i];
        scan.root_path = paths.items[i];
        TRY(scan_root(&scan));
    }
    TRY(purge(&scan));
done:
    status = scan_end_writing(&scan, status);
    free_scan(&scan);
    text_list_clear(library->context, &paths);
    release(library->context, ids);
    if (status == L3A_OK && report) {
        status = WRITE_SIZED(library->context, report, scan.report);
    }
    return status;
}
