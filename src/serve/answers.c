/* Pictures of the index in answers; its folders; and the files that cannot be read. */
#include "serve/finder.h"
#include "serve/path.h"
#include "serve/tagging.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- A sheet of pictures ---- */

static void fill_leaf(struct librarian *librarian, struct handle *handle, uint64_t id, float *features, struct leaf *leaf) {
    leaf->about = (l3a_library_picture){.size = sizeof leaf->about, .id = id};
    if (l3a_library_picture_at(handle->library, id, &leaf->about) != L3A_OK) {
        leaf->about = (l3a_library_picture){.id = id};
        return;
    }
    const char *relative = librarian_relative(librarian, leaf->about.path);
    if (relative && library_reaches(librarian, relative)) {
        leaf->path = copy_string(relative);
        leaf->problem = leaf->about.problem[0] ? copy_string(leaf->about.problem) : NULL;
    }
    if (leaf->path && features && leaf->about.state == L3A_PICTURE_DONE &&
        l3a_library_features(handle->library, id, features) == L3A_OK) {
        leaf->features = features;
    }
}

bool sheet_fill(struct librarian *librarian, struct handle *handle, const l3a_found *found, uint64_t first, uint64_t count,
                bool features, struct sheet *sheet) {
    const uint64_t total = l3a_found_count(found), left = first < total ? total - first : 0;
    sheet->total = total;
    sheet->count = (size_t)(count < left ? count : left);
    sheet->width = features ? librarian->server->pipeline.width : 0;
    sheet->leaves = calloc(sheet->count + 1, sizeof *sheet->leaves);
    sheet->features = malloc((sheet->count * sheet->width + 1) * sizeof *sheet->features);
    for (size_t i = 0; sheet->leaves && sheet->features && i < sheet->count; i++) {
        struct leaf *leaf = &sheet->leaves[i];
        fill_leaf(librarian, handle, l3a_found_id(found, (size_t)first + i), features ? sheet->features + i * sheet->width : NULL,
                  leaf);
        leaf->rank = l3a_found_rank(found, (size_t)first + i);
        leaf->group = isfinite(leaf->rank) && leaf->rank > 0 ? (size_t)leaf->rank : 0;
    }
    return sheet->leaves && sheet->features;
}

void sheet_free(struct sheet *sheet) {
    for (size_t i = 0; sheet->leaves && i < sheet->count; i++) {
        free(sheet->leaves[i].path);
        free(sheet->leaves[i].problem);
    }
    free(sheet->leaves);
    free(sheet->features);
}

/* ---- A picture ---- */

static void write_time(struct text *text, int64_t taken) {
    struct tm parts;
    char when[40];
    const time_t seconds = (time_t)taken;
    if (taken == INT64_MIN || !gmtime_r(&seconds, &parts) || !strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &parts)) {
        text_print(text, "null");
    } else {
        text_json(text, when);
    }
}

static const char *state_name(l3a_library_state state) {
    switch (state) {
    case L3A_PICTURE_DONE: return "done";
    case L3A_PICTURE_FAILED: return "failed";
    case L3A_PICTURE_OTHER: return "other";
    default: return "waiting";
    }
}

/* What the index says of a picture, as the beginning of an object. */
static void write_about(struct text *text, const struct leaf *leaf) {
    char key[KEY_TEXT];
    text_print(text, "{\"id\": %llu", (unsigned long long)leaf->about.id);
    if (!leaf->path) { /* it has gone since it was found */
        text_print(text, ", \"state\": \"gone\"");
        return;
    }
    text_print(text, ", \"path\": ");
    text_json(text, leaf->path);
    text_print(text, ", \"bytes\": %llu, \"taken\": ", (unsigned long long)leaf->about.bytes);
    write_time(text, leaf->about.taken);
    text_print(text, ", \"state\": \"%s\", \"copies\": %llu", state_name(leaf->about.state),
               (unsigned long long)leaf->about.copies);
    if (leaf->about.checksum) {
        shelf_key(leaf->about.checksum, key);
        text_print(text, ", \"key\": \"%s\"", key);
    }
    if (leaf->problem) {
        text_print(text, ", \"error\": ");
        text_json(text, leaf->problem);
    }
}

/* ---- Tags ---- */

struct tagging {
    struct request *request;
    struct sheet *sheet;
    size_t *places; /* of the pictures that have features */
    struct text *tags;
    bool all;
};

static int write_tags(size_t index, l3a_status status, const l3a_tags *tags, void *user) {
    const struct tagging *tagging = user;
    struct text *text = &tagging->tags[tagging->places[index]];
    (void)status;
    text_print(text, ", \"tags\": ");
    tags_write(text, tags, tagging->all);
    text_print(text, ", \"uncertain\": ");
    text_number(text, tags_uncertainty(tags), 4);
    return 0;
}

/* Computes the tags of the sheet, from its features. */
static bool tag_sheet(struct worker *worker, const struct tagging *tagging) {
    const struct sheet *sheet = tagging->sheet;
    size_t good = 0;
    for (size_t i = 0; i < sheet->count; i++) {
        const struct leaf *leaf = &sheet->leaves[i];
        if (leaf->features) {
            memmove(sheet->features + good * sheet->width, leaf->features, sheet->width * sizeof *sheet->features);
            tagging->places[good++] = i;
        }
    }
    const l3a_status status = good ? l3a_reader_score(worker->reader, sheet->features, good, write_tags, (void *)tagging) : L3A_OK;
    for (size_t i = 0; status == L3A_ERROR_STATE && i < good; i++) { /* the model has learned no class yet */
        write_tags(i, L3A_OK, NULL, (void *)tagging);
    }
    if (status != L3A_OK && status != L3A_ERROR_STATE) {
        refuse(tagging->request, status_of(status), l3a_reader_error_hint(worker->reader), "%s",
               l3a_reader_error_text(worker->reader));
        return false;
    }
    return true;
}

static void write_leaf(const struct tagging *tagging, size_t index) {
    struct text *answer = &tagging->request->answer.text;
    const struct leaf *leaf = &tagging->sheet->leaves[index];
    const struct text *tags = &tagging->tags[index];
    write_about(answer, leaf);
    text_print(answer, ", \"rank\": ");
    text_number(answer, leaf->rank, 6);
    if (tags->length) {
        text_add(answer, tags->bytes, tags->length);
        text_print(answer, ", \"taught\": ");
        ledger_write_taught(&tagging->request->server->ledger, leaf->about.checksum, answer);
    }
    answer->failed = answer->failed || tags->failed;
    text_print(answer, "}");
}

bool sheet_write(struct request *request, struct worker *worker, struct sheet *sheet, bool groups) {
    bool bad = false;
    const char *all = query(request, "all", &bad);
    struct tagging tagging = {.request = request, .sheet = sheet, .all = all && strcmp(all, "1") == 0};
    struct text *answer = &request->answer.text;
    tagging.places = calloc(sheet->count + 1, sizeof *tagging.places);
    tagging.tags = calloc(sheet->count + 1, sizeof *tagging.tags);
    bool good = tagging.places && tagging.tags;
    if (!good) {
        refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE, "try again in a moment", "not enough memory");
    }
    good = good && tag_sheet(worker, &tagging);
    for (size_t i = 0; good && i < sheet->count; i++) {
        const bool begins = groups && (!i || sheet->leaves[i].group != sheet->leaves[i - 1].group);
        text_print(answer, "%s", begins && i ? "],\n  [" : begins ? "[" : i ? ",\n  " : "\n  ");
        write_leaf(&tagging, i);
    }
    text_print(answer, "%s", good && groups && sheet->count ? "]" : "");
    for (size_t i = 0; tagging.tags && i < sheet->count; i++) {
        text_free(&tagging.tags[i]);
    }
    free(tagging.tags);
    free(tagging.places);
    return good;
}

/* ---- GET /v1/library/folders ---- */

struct folder_list {
    struct librarian *librarian;
    struct text *text;
    size_t count;
};

static int write_folder(const char *path, uint64_t pictures, uint64_t folders, void *user) {
    struct folder_list *list = user;
    const char *relative = librarian_relative(list->librarian, path);
    if (relative && library_reaches(list->librarian, relative)) {
        text_print(list->text, list->count++ ? ",\n  {\"path\": " : "\n  {\"path\": ");
        text_json(list->text, relative);
        text_print(list->text, ", \"pictures\": %llu, \"folders\": %llu}", (unsigned long long)pictures,
                   (unsigned long long)folders);
    }
    return 0;
}

void library_folders_start(struct request *request, struct worker *worker) {
    struct librarian *librarian = librarian_of(request);
    struct text path = {0};
    const char *folder;
    l3a_status status;
    (void)worker;
    if (!librarian || !read_parameter(request, "folder", &folder)) {
        return;
    }
    if (folder && folder[0] && !library_path_allowed(folder)) {
        refuse(request, MHD_HTTP_NOT_FOUND, "give a folder in the library, such as 2024/italy",
               "%s: this is not a path in the library", folder);
        return;
    }
    const bool below = folder && folder[0];
    text_print(&path, "%s%s%s", librarian->folder, below && librarian->folder[1] ? "/" : "", below ? folder : "");
    struct folder_list list = {librarian, &request->answer.text, 0};
    text_print(list.text, "{\"folders\": [");
    pthread_mutex_lock(&librarian->finder.lock);
    if (handle_open(librarian, &librarian->finder, &status)) {
        status = path.failed ? L3A_ERROR_MEMORY : l3a_library_folders(librarian->finder.library, path.bytes, write_folder, &list);
    }
    if (status == L3A_OK) {
        text_print(list.text, "]}\n");
        request->answer.status = MHD_HTTP_OK;
    } else {
        refuse_search(request, librarian->finder.context, status);
        handle_check(librarian, &librarian->finder, status);
    }
    pthread_mutex_unlock(&librarian->finder.lock);
    text_free(&path);
}

/* ---- GET /v1/library/problems ---- */

void library_problems_start(struct request *request, struct worker *worker) {
    enum { MOST = 10000 };
    const l3a_find_options options = {.size = sizeof options, .where = "is:failed or is:other", .sort = "name"};
    struct librarian *librarian = librarian_of(request);
    struct text *answer = &request->answer.text;
    struct sheet sheet = {0};
    l3a_found *found = NULL;
    uint64_t first, count;
    l3a_status status;
    (void)worker;
    if (!librarian || !read_range(request, MOST, MOST, &first, &count)) {
        return;
    }
    struct handle *finder = &librarian->finder;
    pthread_mutex_lock(&finder->lock);
    if (handle_open(librarian, finder, &status)) {
        status = l3a_library_find(finder->library, &options, &found);
    }
    if (status == L3A_OK && !sheet_fill(librarian, finder, found, first, count, false, &sheet)) {
        status = L3A_ERROR_MEMORY;
    }
    if (status != L3A_OK) {
        refuse_search(request, finder->context, status);
        handle_check(librarian, finder, status);
    }
    l3a_found_free(found);
    pthread_mutex_unlock(&finder->lock);
    size_t written = 0;
    if (status == L3A_OK) {
        text_print(answer, "{\"total\": %llu, \"problems\": [", (unsigned long long)sheet.total);
    }
    for (size_t i = 0; status == L3A_OK && i < sheet.count; i++) {
        const struct leaf *leaf = &sheet.leaves[i];
        if (leaf->path) {
            text_print(answer, written++ ? ",\n  {\"path\": " : "\n  {\"path\": ");
            text_json(answer, leaf->path);
            text_print(answer, ", \"id\": %llu, \"state\": \"%s\", \"error\": ", (unsigned long long)leaf->about.id,
                       state_name(leaf->about.state));
            text_json(answer, leaf->problem ? leaf->problem : "it cannot be read");
            text_print(answer, "}");
        }
    }
    if (status == L3A_OK) {
        text_print(answer, "]}\n");
        request->answer.status = MHD_HTTP_OK;
    }
    sheet_free(&sheet);
}
