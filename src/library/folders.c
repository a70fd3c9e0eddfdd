/* The folders right below a folder, and how many pictures are in each and below it. Pictures are counted by folder in memory, and
 * the folders of the index, of which there are far fewer, give their counts to the one that is asked for. */
#include "library/found.h"

#include <string.h>

enum { MOST_FOLDERS = 1 << 26 };

struct counting {
    l3a_library *library;
    const char *folder; /* without a slash at its end */
    size_t length;
    uint64_t *counts; /* by the number of a folder */
    size_t folders;
    text_builder at; /* the folder right below that is being counted … */
    uint64_t pictures, below;
    text_builder inside; /* the last folder in it that was counted */
    l3a_folder_callback *each;
    void *user;
};

static l3a_status count_pictures(struct counting *counting) {
    l3a_library *library = counting->library;
    const struct catalogue *catalogue = &library->catalogue;
    int64_t most;
    l3a_status status = L3A_OK;
    TRY(database_number(&library->database, "SELECT max(id) FROM folder", NULL, 0, 0, &most));
    FAIL_IF(most < 0 || most >= MOST_FOLDERS, library->context, L3A_ERROR_CHECKSUM, "run 'l3a index', which makes it again",
            "%s: the index has a folder with the number %lld", library->database.path, (long long)most);
    counting->folders = (size_t)most + 1;
    TRY(allocate_zeroed(library->context, counting->folders, sizeof *counting->counts, &counting->counts));
    for (size_t i = 0; i < catalogue->count; i++) {
        if (catalogue->states[i] <= PICTURE_FAILED && catalogue->folders[i] < counting->folders) {
            counting->counts[catalogue->folders[i]]++;
        }
    }
done:
    return status;
}

static l3a_status tell(struct counting *counting) {
    l3a_context *context = counting->library->context;
    l3a_status status = L3A_OK;
    FAIL_IF(counting->pictures && counting->each(counting->at.text, counting->pictures, counting->below, counting->user), context,
            L3A_ERROR_CANCELLED, NULL, "%s: cancelled", counting->folder);
    counting->pictures = counting->below = 0;
    counting->at.length = counting->inside.length = 0;
done:
    return status;
}

/* Folders come in the order of their parts, so that what is below one follows it. */
static l3a_status take_folder(struct counting *counting, const char *path, uint64_t pictures) {
    const size_t length = counting->length;
    l3a_status status = L3A_OK;
    if (strncmp(path, counting->folder, length) != 0 || path[length] != '/' || !path[length + 1]) {
        return L3A_OK;
    }
    const size_t whole = length + 1 + strcspn(path + length + 1, "/");
    if (counting->at.length != whole || strncmp(counting->at.text, path, whole) != 0) {
        TRY(tell(counting));
        text_builder_print(&counting->at, "%.*s", (int)whole, path);
        TRY(counting->at.status);
    }
    counting->pictures += pictures;
    const size_t inner = path[whole] ? whole + 1 + strcspn(path + whole + 1, "/") : 0;
    if (inner && pictures && (counting->inside.length != inner || strncmp(counting->inside.text, path, inner) != 0)) {
        counting->inside.length = 0;
        text_builder_print(&counting->inside, "%.*s", (int)inner, path);
        TRY(counting->inside.status);
        counting->below++;
    }
done:
    return status;
}

static l3a_status take_folders(struct counting *counting) {
    struct database *database = &counting->library->database;
    sqlite3_stmt *statement = NULL;
    bool row;
    l3a_status status = L3A_OK;
    /* A slash comes before all else, so that "a/b" is not parted from "a" by "a b". */
    TRY(database_prepare(database, "SELECT id, path FROM folder ORDER BY replace(path, '/', char(1))", &statement));
    TRY(database_step(database, statement, &row));
    while (row && status == L3A_OK) {
        const int64_t id = sqlite3_column_int64(statement, 0);
        const char *path = (const char *)sqlite3_column_text(statement, 1);
        if (path && id >= 0 && (uint64_t)id < counting->folders) {
            TRY(take_folder(counting, path, counting->counts[id]));
        }
        TRY(database_step(database, statement, &row));
    }
    TRY(tell(counting));
done:
    sqlite3_reset(statement);
    return status;
}

l3a_status l3a_library_folders(l3a_library *library, const char *folder, l3a_folder_callback *each, void *user) {
    REQUIRE(library, library, folder, each);
    struct counting counting = {.library = library,
                                .folder = folder,
                                .length = strlen(folder),
                                .at = {.context = library->context},
                                .inside = {.context = library->context},
                                .each = each,
                                .user = user};
    l3a_status status = L3A_OK;
    while (counting.length && folder[counting.length - 1] == '/') {
        counting.length--;
    }
    TRY(library_refresh(library));
    TRY(count_pictures(&counting));
    TRY(take_folders(&counting));
done:
    text_builder_free(&counting.at);
    text_builder_free(&counting.inside);
    release(library->context, counting.counts);
    return status;
}
