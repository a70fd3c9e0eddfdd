/* What was said about pictures, copied from the history of the model: by checksum and class. Pictures that were judged have other
 * scores than the model gives them (columns.h), so their blocks are scored again. */
#include "library/library.h"

#include <stdlib.h>
#include <string.h>

/* The blocks that have a picture are scored again. */
static l3a_status outdate(struct database *database, uint64_t checksum) {
    const int64_t key = (int64_t)checksum;
    return database_run(database, "DELETE FROM block WHERE id IN (SELECT slot / 4096 FROM feature WHERE checksum = ?1)", &key, 1);
}

_Static_assert(SCORE_BLOCK == 4096, "as the statement above has it");

/* Forgets what was said about a picture. */
static l3a_status unsay(struct database *database, uint64_t checksum) {
    const int64_t key = (int64_t)checksum;
    return database_run(database, "DELETE FROM said WHERE checksum = ?1", &key, 1);
}

static l3a_status say(struct database *database, uint64_t checksum, const char *class, int8_t label) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    TRY(database_prepare(database, "INSERT OR REPLACE INTO said (checksum, class, shown) VALUES (?1, ?2, ?3)", &statement));
    sqlite3_bind_int64(statement, 1, (int64_t)checksum);
    sqlite3_bind_text(statement, 2, class, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 3, label);
    TRY(database_step(database, statement, &row));
done:
    return status;
}

/* Whether this is what the index has already, so that nothing need be scored again. */
static l3a_status is_known(struct database *database, const l3a_said *said, const char *const *classes, size_t class_count,
                           bool *known) {
    sqlite3_stmt *statement = NULL;
    size_t judged = 0, found = 0;
    bool row;
    l3a_status status = L3A_OK;
    *known = true;
    for (size_t k = 0; said->labels && k < class_count; k++) {
        judged += said->labels[k] >= 0;
    }
    TRY(database_prepare(database, "SELECT class, shown FROM said WHERE checksum = ?1", &statement));
    sqlite3_bind_int64(statement, 1, (int64_t)said->checksum);
    TRY(database_step(database, statement, &row));
    for (; row && *known; found++) {
        const char *class = (const char *)sqlite3_column_text(statement, 0);
        size_t k = 0;
        while (class && k < class_count && strcmp(classes[k], class) != 0) {
            k++;
        }
        *known = class && found < judged && k < class_count && said->labels[k] == (sqlite3_column_int64(statement, 1) > 0);
        TRY(database_step(database, statement, &row));
    }
    *known = *known && found == judged;
done:
    sqlite3_reset(statement);
    return status;
}

static l3a_status say_all(struct database *database, const l3a_said *said, const char *const *classes, size_t class_count) {
    bool known;
    l3a_status status = L3A_OK;
    TRY(is_known(database, said, classes, class_count, &known));
    if (known) {
        return L3A_OK;
    }
    TRY(unsay(database, said->checksum));
    for (size_t k = 0; said->labels && k < class_count; k++) {
        if (said->labels[k] >= 0) {
            TRY(say(database, said->checksum, classes[k], said->labels[k]));
        }
    }
    TRY(outdate(database, said->checksum));
done:
    return status;
}

/* ---- Everything ---- */

static int compare_checksums(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Lists what the index has that is not among the given ones, which are sorted. */
static l3a_status list_others(l3a_library *library, const uint64_t *given, size_t count, uint64_t **others, size_t *other_count) {
    sqlite3_stmt *statement = NULL;
    size_t capacity = 0;
    bool row;
    l3a_status status = L3A_OK;
    TRY(database_prepare(&library->database, "SELECT DISTINCT checksum FROM said", &statement));
    TRY(database_step(&library->database, statement, &row));
    while (row) {
        const uint64_t checksum = (uint64_t)sqlite3_column_int64(statement, 0);
        if (!count || !bsearch(&checksum, given, count, sizeof *given, compare_checksums)) {
            TRY(grow_array(library->context, others, &capacity, *other_count + 1, sizeof **others));
            (*others)[(*other_count)++] = checksum;
        }
        TRY(database_step(&library->database, statement, &row));
    }
done:
    sqlite3_reset(statement);
    return status;
}

/* Forgets what is not given. */
static l3a_status forget_others(l3a_library *library, const l3a_said *said, size_t count) {
    uint64_t *given = NULL, *others = NULL;
    size_t other_count = 0;
    l3a_status status = L3A_OK;
    TRY(allocate(library->context, count, sizeof *given, &given));
    for (size_t i = 0; i < count; i++) {
        given[i] = said[i].checksum;
    }
    if (count) {
        qsort(given, count, sizeof *given, compare_checksums);
    }
    TRY(list_others(library, given, count, &others, &other_count));
    for (size_t i = 0; i < other_count; i++) {
        TRY(unsay(&library->database, others[i]));
        TRY(outdate(&library->database, others[i]));
    }
done:
    release(library->context, given);
    release(library->context, others);
    return status;
}

static l3a_status write_said(l3a_library *library, const l3a_said *said, size_t count, const char *const *classes,
                             size_t class_count, bool all) {
    l3a_status status = L3A_OK;
    if (all) {
        TRY(forget_others(library, said, count));
    }
    for (size_t i = 0; i < count; i++) {
        TRY(say_all(&library->database, &said[i], classes, class_count));
    }
done:
    return status;
}

l3a_status l3a_library_say(l3a_library *library, const l3a_said *said, size_t count, const char *const *classes, size_t class_count,
                           int all) {
    REQUIRE(library, library);
    int64_t judgements = 0; /* so that who is scoring notices */
    l3a_status status = L3A_OK;
    if (count) {
        REQUIRE(library, said);
    }
    if (class_count) {
        REQUIRE(library, classes);
    }
    TRY(need_items(library->context, __func__, "classes", classes, class_count));
    TRY(database_begin(&library->database));
    status = meta_step(&library->database, "judgements", &judgements);
    status = status == L3A_OK ? write_said(library, said, count, classes, class_count, all != 0) : status;
    TRY(database_end(&library->database, status));
done:
    return status;
}

l3a_status l3a_library_judged(l3a_library *library, uint64_t id, l3a_judged_callback *each, void *user) {
    REQUIRE(library, library, each);
    sqlite3_stmt *statement;
    bool row, stopped = false;
    l3a_status status = L3A_OK;
    TRY(database_prepare(
        &library->database,
        "SELECT s.class, s.shown FROM picture p JOIN said s ON s.checksum = p.checksum WHERE p.id = ?1 ORDER BY s.class",
        &statement));
    sqlite3_bind_int64(statement, 1, (int64_t)id);
    TRY(database_step(&library->database, statement, &row));
    while (row && !stopped) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        stopped = each(name ? name : "", sqlite3_column_int64(statement, 1) > 0, user) != 0;
        TRY(stopped ? L3A_OK : database_step(&library->database, statement, &row));
    }
    if (stopped) {
        sqlite3_reset(statement);
    }
done:
    return status;
}

/* ---- Notes ---- */

static l3a_status note_key(l3a_library *library, const char *name, char **key) {
    text_builder text = {.context = library->context};
    text_builder_print(&text, "note %s", name);
    *key = text.text;
    return text.status;
}

l3a_status l3a_library_set_note(l3a_library *library, const char *name, const char *text) {
    REQUIRE(library, library, name, text);
    char *key = NULL;
    l3a_status status = L3A_OK;
    TRY(note_key(library, name, &key));
    TRY(meta_set_text(&library->database, key, text));
done:
    release(library->context, key);
    return status;
}

l3a_status l3a_library_note(l3a_library *library, const char *name, const char **text) {
    REQUIRE(library, library, name, text);
    char *key = NULL, *note = NULL;
    l3a_status status = L3A_OK;
    TRY(note_key(library, name, &key));
    TRY(meta_text(&library->database, key, &note));
    release(library->context, library->note);
    library->note = note;
    *text = note ? note : "";
done:
    release(library->context, key);
    return status;
}

/* ---- A whole history ---- */

struct gathering {
    l3a_context *context;
    l3a_said *said;
    int8_t *labels; /* [said x classes] */
    size_t count, said_capacity, label_capacity, classes;
    l3a_status status;
};

static int gather(const char *path, uint64_t checksum, const int8_t *labels, int complete, void *user) {
    struct gathering *gathering = user;
    (void)path;
    (void)complete;
    l3a_status status = L3A_OK;
    TRY(grow_array(gathering->context, &gathering->said, &gathering->said_capacity, gathering->count + 1, sizeof *gathering->said));
    TRY(grow_array(gathering->context, &gathering->labels, &gathering->label_capacity,
                   (gathering->count + 1) * gathering->classes + 1, 1));
    gathering->said[gathering->count] = (l3a_said){checksum, NULL};
    memcpy(gathering->labels + gathering->count * gathering->classes, labels, gathering->classes);
    gathering->count++;
done:
    gathering->status = status;
    return status != L3A_OK;
}

l3a_status l3a_library_take_history(l3a_library *library, const l3a_history *history) {
    REQUIRE(library, library, history);
    const l3a_model *model = l3a_history_model(history);
    struct gathering gathering = {.context = library->context, .classes = l3a_model_class_count(model)};
    const char **classes = NULL;
    l3a_status status = L3A_OK;
    TRY(allocate(library->context, gathering.classes, sizeof *classes, &classes));
    for (size_t k = 0; k < gathering.classes; k++) {
        classes[k] = l3a_model_class(model, k);
    }
    status = l3a_history_pictures(history, gather, &gathering);
    TRY(gathering.status != L3A_OK ? gathering.status : status);
    for (size_t i = 0; i < gathering.count; i++) {
        gathering.said[i].labels = gathering.labels + i * gathering.classes;
    }
    TRY(l3a_library_say(library, gathering.said, gathering.count, classes, gathering.classes, 1));
done:
    release(library->context, classes);
    release(library->context, gathering.said);
    release(library->context, gathering.labels);
    return status;
}
