/* Opening an index, and what is wrong with one. */
#include "library/library.h"

#include "base/sized.h"
#include "base/views.h"
#include "extract/intake.h"
#include "net/backbone.h"
#include "net/classifier.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The features file ---- */

static l3a_status slots_path(l3a_library *library, int64_t generation, char **path) {
    text_builder text = {.context = library->context};
    text_builder_print(&text, "%s.features-%" PRId64, library->database.path, generation);
    *path = text.text;
    return text.status;
}

/* Pictures whose features are lost wait to be looked at again; their scores go with them. */
static l3a_status forget_features(l3a_library *library) {
    struct database *database = &library->database;
    int64_t change, scored;
    l3a_status status = L3A_OK;
    TRY(library_next_change(library, &change));
    TRY(database_run(database, "UPDATE picture SET state = 0, slot = NULL, change = ?1 WHERE state = 1", &change, 1));
    TRY(database_execute(database, "DELETE FROM feature; DELETE FROM block; DELETE FROM score"));
    TRY(meta_step(database, "scored", &scored));
done:
    return status;
}

/* Makes the features file of the generation after `generation`. In a transaction. */
static l3a_status begin_anew(l3a_library *library, int64_t generation) {
    struct database *database = &library->database;
    const struct l3a_tagger *tagger = library->tagger;
    const size_t width = l3a_backbone_describe(tagger->backbone)->width, rows = view_rows(tagger->loading.views);
    char *path = NULL;
    struct slots made = {.file = -1};
    l3a_status status = L3A_OK;
    const int64_t next = generation < INT32_MAX ? generation + 1 : 1; /* a damaged index may have any number */
    TRY(slots_path(library, next, &path));
    TRY(slots_create(library->context, path, width, rows, library->recipe, &made));
    TRY(forget_features(library));
    TRY(meta_set_number(database, "generation", next));
    TRY(meta_set_text(database, "features", made.id));
    TRY(meta_set_text(database, "recipe", library->recipe));
    slots_close(&library->slots);
    library->slots = made;
    library->generation = next;
    made = (struct slots){.file = -1};
done:
    slots_close(&made);
    release(library->context, path);
    return status;
}

/* Gives up the features of this generation, unless another process has done so. Others may still read them; the name of their file
 * is not used again. */
static l3a_status renew_slots(l3a_library *library, int64_t generation) {
    int64_t current;
    char *old = NULL;
    l3a_status status = L3A_OK;
    TRY(slots_path(library, generation, &old));
    TRY(database_begin(&library->database));
    status = meta_number(&library->database, "generation", 0, &current);
    if (status == L3A_OK && current == generation) {
        status = begin_anew(library, generation);
    }
    TRY(database_end(&library->database, status));
    if (current == generation) {
        library->context->files->remove(old);
    }
done:
    release(library->context, old);
    return status;
}

/* Whether the open file is the one that the database means, as the tagger would make it, with all the records that it should have.
 */
static l3a_status check_slots(l3a_library *library, const char *id, bool *good) {
    const struct l3a_tagger *tagger = library->tagger;
    const struct slots *slots = &library->slots;
    uint64_t count;
    int64_t last;
    l3a_status status = L3A_OK;
    /* In this order: another process adds records, and then their rows. */
    TRY(database_number(&library->database, "SELECT max(slot) FROM feature", NULL, 0, -1, &last));
    TRY(slots_count(slots, &count));
    *good = strcmp(id, slots->id) == 0 && last < (int64_t)count && strcmp(slots->recipe, library->recipe) == 0 &&
            slots->width == l3a_backbone_describe(tagger->backbone)->width && slots->rows == view_rows(tagger->loading.views);
done:
    return status;
}

/* *good: the file is open, or there is none yet. */
static l3a_status try_slots(l3a_library *library, bool *good) {
    int64_t generation;
    char *id = NULL, *path = NULL;
    l3a_status status = L3A_OK;
    *good = true;
    TRY(meta_number(&library->database, "generation", 0, &generation));
    if (generation == library->generation && library->slots.file >= 0) {
        return L3A_OK;
    }
    slots_close(&library->slots);
    library->generation = generation;
    TRY(meta_text(&library->database, "features", &id));
    if (!id) {
        return L3A_OK;
    }
    TRY(slots_path(library, generation, &path));
    status = slots_open(library->context, path, &library->slots);
    if (status == L3A_OK) {
        TRY(check_slots(library, id, good));
    } else if (status == L3A_ERROR_NOT_FOUND || status == L3A_ERROR_CHECKSUM) {
        *good = false;
        status = L3A_OK;
    }
done:
    if (status != L3A_OK || !*good) {
        slots_close(&library->slots);
    }
    release(library->context, id);
    release(library->context, path);
    return status;
}

l3a_status library_open_slots(l3a_library *library) {
    bool good;
    l3a_status status = L3A_OK;
    TRY(try_slots(library, &good));
    while (!good) {
        report_warning(library->context, "%s: the features of its pictures are missing or damaged; they are looked at again",
                       library->database.path);
        TRY(renew_slots(library, library->generation));
        TRY(try_slots(library, &good));
    }
done:
    return status;
}

l3a_status library_make_slots(l3a_library *library) {
    l3a_status status = L3A_OK;
    TRY(library_open_slots(library));
    while (library->slots.file < 0) {
        TRY(renew_slots(library, library->generation));
        TRY(library_open_slots(library));
    }
done:
    return status;
}

l3a_status library_same_slots(l3a_library *library, bool *same) {
    int64_t generation;
    l3a_status status = L3A_OK;
    TRY(meta_number(&library->database, "generation", 0, &generation));
    *same = library->slots.file >= 0 && generation == library->generation;
done:
    return status;
}

l3a_status library_suspect(l3a_library *library, l3a_status status) {
    if (status == L3A_ERROR_CHECKSUM) {
        slots_close(&library->slots);
    }
    return status;
}

/* The place of a damaged record is not used again: its block may have been scored. The checksum that takes its place is nobody's.
 */
static l3a_status drop_record(l3a_library *library, int64_t slot, int64_t *change, size_t *dropped) {
    struct database *database = &library->database;
    l3a_status status = L3A_OK;
    int64_t used;
    TRY(database_number(database, "SELECT 1 FROM feature WHERE slot = ?1 AND checksum <> -1 - slot", &slot, 1, 0, &used));
    if (!used) {
        return L3A_OK;
    }
    if (!(*dropped)++) {
        TRY(library_next_change(library, change));
    }
    const int64_t values[] = {slot, *change};
    TRY(database_run(database,
                     "UPDATE picture SET state = 0, slot = NULL, change = ?2 WHERE slot = ?1 AND state = 1 AND "
                     "checksum = (SELECT checksum FROM feature WHERE slot = ?1)",
                     values, 2));
    TRY(database_run(database, "UPDATE OR IGNORE feature SET checksum = -1 - slot WHERE slot = ?1", values, 1));
done:
    return status;
}

l3a_status library_drop_records(l3a_library *library, const bool *damaged, uint64_t first, size_t count) {
    size_t dropped = 0;
    int64_t change = 0;
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < count; i++) {
        if (damaged[i]) {
            TRY(drop_record(library, (int64_t)(first + i), &change, &dropped));
        }
    }
    if (dropped) {
        report_warning(library->context, "%s: %zu of its records are damaged; their pictures are looked at again",
                       library->slots.path, dropped);
    }
done:
    return status;
}

/* ---- Opening ---- */

l3a_status library_next_change(l3a_library *library, int64_t *change) {
    return meta_step(&library->database, "change", change);
}

l3a_status library_fork(const l3a_library *library, l3a_context **context) {
    return context_fork(library->tagger->context, library->context->threads, true, context);
}

static l3a_status make_recipe(l3a_library *library) {
    const struct l3a_tagger *tagger = library->tagger;
    struct backbone_record record;
    text_builder text = {.context = library->context};
    backbone_record(l3a_backbone_describe(tagger->backbone), tagger->picture.orient, &record);
    for (size_t i = 0; i < sizeof record.values / sizeof record.values[0]; i++) {
        if (record.values[i]) {
            text_builder_print(&text, "%s; ", record.values[i]);
        }
    }
    text_builder_print(&text, "views %zu", (size_t)tagger->loading.views); /* views_of_recipe() */
    library->recipe = text.text;
    return text.status;
}

/* Moves a damaged index out of the way, so that a new one can be made; unless another process has just done that. */
static l3a_status set_aside(l3a_context *context, const char *path, const file_description *damaged) {
    text_builder aside = {.context = context};
    file_description now;
    l3a_status status = L3A_OK;
    bool exists = true;
    for (int i = 1; exists; i++) {
        aside.length = 0;
        text_builder_print(&aside, "%s.damaged-%d", path, i);
        TRY(aside.status);
        TRY(file_exists(context, aside.text, &exists));
    }
    if (context->files->describe(path, &now) || now.device != damaged->device || now.inode != damaged->inode) {
        goto done;
    }
    if (context->files->rename(path, aside.text)) {
        TRY(fail_system(context, path, "rename", errno));
    }
    TRY(sync_folder_of(context, path));
    report_warning(context, "%s: the index is damaged, and was moved to %s", path, aside.text);
done:
    text_builder_free(&aside);
    return status;
}

/* Fails if something in the database is damaged. */
static l3a_status check_database(struct database *database) {
    sqlite3_stmt *statement;
    bool row;
    l3a_status status = L3A_OK;
    TRY(database_prepare(database, "PRAGMA quick_check(1)", &statement));
    TRY(database_step(database, statement, &row));
    const char *said = row ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    const bool good = said && strcmp(said, "ok") == 0;
    sqlite3_reset(statement);
    FAIL_IF(!good, database->context, L3A_ERROR_CHECKSUM, NULL, "%s: this index is damaged", database->path);
done:
    return status;
}

/* Opens the database, and checks that it belongs to this program. */
static l3a_status open_database(l3a_context *context, const char *path, const l3a_library_options *options,
                                struct database *database) {
    l3a_status status = L3A_OK;
    TRY(database_open(context, path, !options->existing, database));
    status = options->check ? check_database(database) : L3A_OK;
    status = status == L3A_OK ? library_prepare_tables(database) : status;
    if (status != L3A_OK) {
        database_close(database);
    }
done:
    return status;
}

/* A file that somebody has named, and that never was a database, is not ours to move. */
static l3a_status check_ours(l3a_context *context, const char *path) {
    static const char start[] = "SQLite format 3", usual[] = ".library";
    const size_t length = strlen(path), ending = sizeof usual - 1;
    char bytes[sizeof start];
    size_t count;
    l3a_status status = L3A_OK;
    TRY(read_start(context, path, bytes, sizeof bytes, &count));
    FAIL_IF((count < sizeof start || memcmp(bytes, start, sizeof start) != 0) &&
                (length < ending || strcmp(path + length - ending, usual) != 0),
            context, L3A_ERROR_FORMAT, "name another file with --index", "%s: this is not an index", path);
done:
    return status;
}

/* Opens the database, and makes one where there is none, or one that is damaged. */
static l3a_status open_or_make(l3a_library *library, const char *path, const l3a_library_options *options) {
    l3a_context *context = library->context;
    file_description about;
    l3a_status status = L3A_OK;
    for (int i = 0; i < 3; i++) {
        const bool known = context->files->describe(path, &about) == 0;
        status = open_database(context, path, options, &library->database);
        if (status != L3A_ERROR_CHECKSUM || options->existing || !known) {
            break;
        }
        TRY(check_ours(context, path));
        TRY(set_aside(context, path, &about));
        status = L3A_ERROR_CHECKSUM;
    }
done:
    return status;
}

/* What is known of contents that an index which is gone had features for: the features file tells. */
static l3a_status recover_features(l3a_library *library) {
    l3a_context *context = library->context;
    struct database *database = &library->database;
    uint64_t count = 0;
    void *records = NULL;
    l3a_status status = L3A_OK;
    TRY(slots_count(&library->slots, &count));
    const size_t block = slots_block(&library->slots);
    TRY(allocate(context, block, library->slots.stride, &records));
    for (uint64_t first = 0; first < count; first += block) {
        const size_t n = count - first < block ? (size_t)(count - first) : block;
        TRY(slots_read(&library->slots, first, n, records));
        for (size_t i = 0; i < n; i++) {
            struct slot slot;
            if (slot_check(&library->slots, records, i, &slot)) {
                const int64_t values[] = {(int64_t)(first + i), (int64_t)slot.checksum};
                TRY(database_run(database, "INSERT OR IGNORE INTO feature (slot, checksum) VALUES (?1, ?2)", values, 2));
            }
        }
    }
    TRY(meta_set_text(database, "features", library->slots.id));
    TRY(meta_set_text(database, "recipe", library->slots.recipe));
done:
    release(context, records);
    return status;
}

/* Unless another process has done it meanwhile. */
static l3a_status take_features(l3a_library *library) {
    int64_t generation;
    l3a_status status = L3A_OK;
    TRY(meta_number(&library->database, "generation", -1, &generation));
    if (generation < 0) {
        TRY(library->slots.file >= 0 ? recover_features(library) : L3A_OK);
        TRY(meta_set_number(&library->database, "generation", library->generation));
    }
done:
    return status;
}

enum { GENERATIONS = 1000 };

/* A new database beside a features file of an older one takes over its records. check_recipe() looks at it again. */
static l3a_status adopt_features(l3a_library *library) {
    char *path = NULL;
    l3a_status status = L3A_OK;
    for (int64_t generation = 1; generation < GENERATIONS && library->slots.file < 0; generation++) {
        bool exists;
        release(library->context, path);
        path = NULL;
        TRY(slots_path(library, generation, &path));
        TRY(file_exists(library->context, path, &exists));
        if (exists) {
            status = slots_open(library->context, path, &library->slots);
            library->generation = generation; /* a number that is taken is not used again */
            TRY(status == L3A_ERROR_NOT_FOUND || status == L3A_ERROR_CHECKSUM ? L3A_OK : status);
            if (library->slots.file >= 0 && strcmp(library->slots.recipe, library->recipe) != 0) {
                slots_close(&library->slots);
            }
        }
    }
    TRY(database_begin(&library->database));
    TRY(database_end(&library->database, take_features(library)));
done:
    slots_close(&library->slots);
    release(library->context, path);
    return status;
}

static const char view_part[] = "views ";

/* The last part of a recipe says them; 0: it is damaged. */
static size_t views_of_recipe(const char *recipe) {
    const char *last = strrchr(recipe, ';');
    const char *part = last && last[1] == ' ' ? last + 2 : recipe;
    const bool said = strncmp(part, view_part, sizeof view_part - 1) == 0;
    const size_t views = said ? strtoul(part + sizeof view_part - 1, NULL, 10) : 0;
    return views_known(views) ? views : 0;
}

/* Where two recipes differ: the beginning of a part. */
static size_t differing_part(const char *left, const char *right) {
    size_t part = 0;
    for (size_t i = 0; left[i] && left[i] == right[i]; i++) {
        part = i > 0 && left[i - 1] == ';' ? i + 1 : part;
    }
    return part;
}

/* Features of another network, or made in another way, are replaced; other views only by a tagger that was asked for its own. */
static l3a_status check_recipe(l3a_library *library, bool keep) {
    char *recipe = NULL;
    int64_t generation;
    l3a_status status = L3A_OK;
    TRY(meta_text(&library->database, "recipe", &recipe));
    if (recipe && strcmp(recipe, library->recipe) != 0) {
        const size_t part = differing_part(recipe, library->recipe), views = views_of_recipe(recipe);
        FAIL_IF(!library->tagger->views && views && strncmp(recipe + part, view_part, sizeof view_part - 1) == 0, library->context,
                L3A_ERROR_MISMATCH, "ask for the views of the index; if others are asked for by name, its features are replaced",
                "%s: its features are those of %zu views, and the model's of %zu", library->database.path, views,
                (size_t)library->tagger->loading.views);
        FAIL_IF(keep, library->context, L3A_ERROR_MISMATCH, "ask for the same; 'l3a index' replaces the features of an index",
                "%s: its features were made in another way: '%s', and not '%s'", library->database.path, recipe + part,
                library->recipe + part);
        report_warning(library->context, "%s: the features are of another network, or made in another way, and are replaced",
                       library->database.path);
        TRY(meta_number(&library->database, "generation", 0, &generation));
        TRY(renew_slots(library, generation));
    }
    TRY(library_open_slots(library));
done:
    release(library->context, recipe);
    return status;
}

static l3a_status library_begin(l3a_library *library, const char *path, const l3a_library_options *options) {
    int64_t generation;
    l3a_status status = L3A_OK;
    TRY(make_recipe(library));
    TRY(open_or_make(library, path, options));
    TRY(library_check_owner(library));
    TRY(meta_number(&library->database, "generation", -1, &generation));
    if (generation < 0) {
        TRY(adopt_features(library));
    }
    TRY(check_recipe(library, options->keep != 0));
done:
    return status;
}

l3a_status l3a_library_open(l3a_context *context, l3a_tagger *tagger, const l3a_library_options *options, l3a_library **library) {
    l3a_library_options own;
    l3a_library *made = NULL;
    text_builder path = {.context = context}, scope = {.context = context};
    l3a_status status = L3A_OK;
    NEED(context, context, tagger, library);
    TRY(READ_SIZED(context, options, own));
    TRY(allocate_zeroed(context, 1, sizeof *made, &made));
    *made = (l3a_library){.context = context,
                          .tagger = tagger,
                          .database = {.context = context},
                          .slots = {.file = -1},
                          .catalogue = {.context = context, .change = -1},
                          .columns = {.context = context},
                          .names = {.context = context},
                          .counts = {.change = -1},
                          .path = {.context = context}};
    text_builder_print(&path, own.index ? "%s" : "%s.library", own.index ? own.index : tagger->path);
    TRY(path.status);
    if (own.folder) {
        FAIL_IF(own.folder[0] != '/', context, L3A_ERROR_ARGUMENT, "give an absolute path", "%s: this is not an absolute path",
                own.folder);
        const size_t length = strlen(own.folder);
        text_builder_print(&scope, own.folder[length - 1] == '/' ? "%s" : "%s/", own.folder);
        TRY(scope.status);
        made->catalogue.scope = made->scope = scope.text;
        scope.text = NULL;
    }
    TRY(library_begin(made, path.text, &own));
    *library = made;
    made = NULL;
done:
    text_builder_free(&path);
    text_builder_free(&scope);
    l3a_library_free(made);
    return status;
}

/* ---- The views of an index ---- */

/* The recipe that the database of an index names; NULL if there is none, or it cannot be read. */
static l3a_status recipe_of_database(l3a_context *context, const char *index, char **recipe) {
    struct database database = {.context = context};
    bool exists;
    l3a_status status = L3A_OK;
    TRY(file_exists(context, index, &exists));
    if (exists) {
        status = database_open(context, index, false, &database);
        status = status == L3A_OK ? meta_text(&database, "recipe", recipe) : status;
        database_close(&database);
        status = status == L3A_ERROR_MEMORY ? status : L3A_OK; /* whoever opens the index says what is wrong with it */
    }
done:
    return status;
}

/* That of the features of an index which is gone. */
static l3a_status recipe_of_features(l3a_context *context, const char *index, char **recipe) {
    struct slots slots = {.file = -1};
    text_builder path = {.context = context};
    l3a_status status = L3A_OK;
    for (int generation = 1; generation < GENERATIONS && !*recipe; generation++) {
        bool exists;
        path.length = 0;
        text_builder_print(&path, "%s.features-%d", index, generation);
        TRY(path.status);
        TRY(file_exists(context, path.text, &exists));
        if (exists && slots_open(context, path.text, &slots) == L3A_OK) {
            status = copy_text(context, slots.recipe, strlen(slots.recipe), recipe);
            slots_close(&slots);
            TRY(status);
        }
    }
done:
    text_builder_free(&path);
    return status;
}

l3a_status l3a_library_views(l3a_context *context, const char *index, size_t *views) {
    char *recipe = NULL;
    l3a_status status = L3A_OK;
    NEED(context, context, index, views);
    *views = 0;
    TRY(recipe_of_database(context, index, &recipe));
    TRY(recipe ? L3A_OK : recipe_of_features(context, index, &recipe));
    *views = recipe ? views_of_recipe(recipe) : 0;
done:
    release(context, recipe);
    return status;
}

/* ---- The end ---- */

/* An index in which SQLite has met damage is moved aside, so that the next one who opens it makes it again. */
static void close_database(l3a_library *library) {
    l3a_context *context = library->context;
    char *path = library->database.damaged ? library->database.path : NULL;
    file_description about;
    int moved = 1;
    if (path) {
        sqlite3_file_control(library->database.handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    }
    const bool known = path && !moved && context->files->describe(path, &about) == 0;
    if (known) {
        library->database.path = NULL;
    }
    database_close(&library->database);
    if (known) {
        char text[sizeof context->error_text], hint[sizeof context->error_hint];
        memcpy(text, context->error_text, sizeof text);
        memcpy(hint, context->error_hint, sizeof hint);
        set_aside(context, path, &about);
        memcpy(context->error_text, text, sizeof text);
        memcpy(context->error_hint, hint, sizeof hint);
        release(context, path);
    }
}

void l3a_library_free(l3a_library *library) {
    if (library) {
        l3a_context *context = library->context;
        columns_free(&library->columns);
        names_free(&library->names);
        catalogue_free(&library->catalogue);
        slots_close(&library->slots);
        close_database(library);
        if (library->classifier) {
            classifier_free(context, library->classifier);
        }
        release(context, library->wordless);
        text_builder_free(&library->path);
        release(context, library->problem);
        release(context, library->note);
        release(context, library->recipe);
        release(context, library->scope);
        release(context, library);
    }
}
