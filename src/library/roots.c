/* The folders of a library: adding and removing them. */
#include "library/library.h"

#include "common/utf8.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static l3a_status run_with_path(struct database *database, const char *text, const char *path) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    TRY(database_prepare(database, text, &statement));
    sqlite3_bind_text(statement, 1, path, -1, SQLITE_STATIC);
    TRY(database_step(database, statement, &row));
done:
    return status;
}

/* A folder below a root is there already, and a root above others takes their place, with their pictures. */
static l3a_status add_root(struct database *database, const char *path) {
    l3a_status status = L3A_OK;
    TRY(run_with_path(database,
                      "INSERT INTO root (path) SELECT ?1 WHERE NOT EXISTS "
                      "(SELECT 1 FROM root WHERE path = ?1 OR path = '/' OR substr(?1, 1, length(path) + 1) = path || '/')",
                      path));
    TRY(run_with_path(database,
                      "UPDATE folder SET root = (SELECT id FROM root WHERE path = ?1) WHERE root IN "
                      "(SELECT id FROM root WHERE path <> ?1 AND (?1 = '/' OR substr(path, 1, length(?1) + 1) = ?1 || '/'))",
                      path));
    TRY(run_with_path(database, "DELETE FROM root WHERE path <> ?1 AND (?1 = '/' OR substr(path, 1, length(?1) + 1) = ?1 || '/')",
                      path));
done:
    return status;
}

l3a_status l3a_library_add(l3a_library *library, const char *folder) {
    REQUIRE(library, library, folder);
    file_description about;
    char *path = NULL;
    l3a_status status = L3A_OK;
    TRY(resolve_path(library->context, folder, &path));
    if (library->context->files->describe(path, &about)) {
        TRY(fail_system(library->context, folder, "open", errno));
    }
    FAIL_IF(!S_ISDIR(about.mode), library->context, L3A_ERROR_IO, "give a folder of pictures", "%s: this is not a folder", folder);
    FAIL_IF(!is_utf8(path), library->context, L3A_ERROR_FORMAT, "rename the folder", "%s: the name is not UTF-8", path);
    TRY(database_begin(&library->database));
    TRY(database_end(&library->database, add_root(&library->database, path)));
done:
    release(library->context, path);
    return status;
}

static l3a_status find_root(l3a_library *library, const char *path, int64_t *root) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    *root = 0;
    TRY(database_prepare(&library->database, "SELECT id FROM root WHERE path = ?1", &statement));
    sqlite3_bind_text(statement, 1, path, -1, SQLITE_STATIC);
    TRY(database_step(&library->database, statement, &row));
    if (row) {
        *root = sqlite3_column_int64(statement, 0);
        sqlite3_reset(statement);
    }
done:
    return status;
}

static l3a_status remove_root(l3a_library *library, int64_t root) {
    struct database *database = &library->database;
    int64_t change;
    l3a_status status = L3A_OK;
    TRY(library_next_change(library, &change));
    const int64_t values[] = {root, change};
    TRY(database_run(
        database,
        "UPDATE picture SET state = 4, change = ?2 WHERE state <> 4 AND folder IN (SELECT id FROM folder WHERE root = ?1)", values,
        2));
    TRY(database_run(database, "DELETE FROM root WHERE id = ?1", values, 1));
done:
    return status;
}

l3a_status l3a_library_remove(l3a_library *library, const char *folder) {
    REQUIRE(library, library, folder);
    char *path = NULL;
    size_t length = strlen(folder);
    int64_t root;
    l3a_status status = resolve_path(library->context, folder, &path);
    if (status != L3A_OK && status != L3A_ERROR_MEMORY) { /* a folder that is gone has the name that it had */
        while (length > 1 && folder[length - 1] == '/') {
            length--;
        }
        status = copy_text(library->context, folder, length, &path);
    }
    TRY(status);
    TRY(find_root(library, path, &root));
    FAIL_IF(!root, library->context, L3A_ERROR_NOT_FOUND, "'l3a index MODEL --format json' lists the folders",
            "%s: this folder is not in the index", folder);
    TRY(database_begin(&library->database));
    TRY(database_end(&library->database, remove_root(library, root)));
done:
    release(library->context, path);
    return status;
}
