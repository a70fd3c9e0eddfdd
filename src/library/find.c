/* Finding: an expression chooses pictures, and a rank puts them in order. */
#include "base/sized.h"
#include "format/tensor.h"
#include "library/found.h"
#include "library/near.h"
#include "library/order.h"
#include "library/where.h"
#include "library/words.h"

#include <math.h>
#include <string.h>

enum sort { SORT_NONE, SORT_SCORE, SORT_DATE, SORT_NAME, SORT_UNSURE, SORT_NOVEL, SORT_WORD, SORT_LIKE };

struct search {
    l3a_library *library;
    l3a_context *context;
    const l3a_find_options *options;
    struct where where;
    enum sort sort;
    struct direction direction; /* of the examples */
    const float *ranks;         /* [slots], for those that depend on features alone */
    float *computed;            /* these; NULL: they are a column */
    struct keyed *items;
    size_t count;
};

/* ---- The order ---- */

static l3a_status read_sort(struct search *search) {
    static const char *const names[] = {"", "score", "date", "name", "unsure", "novel"};
    const l3a_find_options *options = search->options;
    const bool word = options->word || search->where.word, like = options->like_count || options->like_rows;
    l3a_status status = L3A_OK;
    FAIL_IF(word && like, search->context, L3A_ERROR_ARGUMENT, "give one of them",
            "pictures cannot be ordered by a word and by others");
    for (enum sort sort = SORT_SCORE; options->sort && sort <= SORT_NOVEL; sort++) {
        if (strcmp(options->sort, names[sort]) == 0) {
            search->sort = sort;
        }
    }
    FAIL_IF(options->sort && !search->sort, search->context, L3A_ERROR_ARGUMENT, "use score, date, name, unsure or novel",
            "pictures cannot be ordered by '%s'", options->sort);
    FAIL_IF((word || like) && search->sort > SORT_SCORE, search->context, L3A_ERROR_ARGUMENT, "leave one of them out",
            "pictures are ordered by %s, and cannot be ordered by '%s'",
            word ? "the word" : "the pictures that they are to be like", options->sort);
    if (word || like) { /* these are orders themselves */
        search->sort = word ? SORT_WORD : SORT_LIKE;
    } else if (!search->sort) {
        search->sort = search->where.first ? SORT_SCORE : SORT_DATE;
    }
    FAIL_IF(search->sort == SORT_SCORE && !search->where.first, search->context, L3A_ERROR_ARGUMENT,
            "name a tag, or use another order", "there is no tag to order by");
done:
    return status;
}

/* What the order needs of the database. */
static l3a_status read_examples(struct search *search) {
    l3a_library *library = search->library;
    const l3a_find_options *options = search->options;
    float *features = NULL;
    l3a_status status = L3A_OK;
    TRY(direction_begin(library, &search->direction));
    TRY(allocate(search->context, library->slots.width * library->slots.rows, sizeof *features, &features));
    for (size_t i = 0; i < options->like_count; i++) {
        TRY(l3a_library_features(library, options->like[i], features));
        direction_add(library, &search->direction, features);
    }
    for (size_t i = 0; i < options->like_rows; i++) {
        direction_add(library, &search->direction, options->like_features + i * library->slots.width);
    }
done:
    release(search->context, features);
    return status;
}

static l3a_status read_order(struct search *search) {
    l3a_library *library = search->library;
    switch (search->sort) {
    case SORT_LIKE: return read_examples(search);
    case SORT_SCORE: return columns_get(&library->columns, &library->database, search->where.first, &search->ranks);
    case SORT_UNSURE: return columns_get(&library->columns, &library->database, COLUMN_DOUBT, &search->ranks);
    case SORT_NAME: return names_order(&library->names, &library->catalogue, &library->database);
    default: return L3A_OK;
    }
}

/* What it needs of the features. */
static l3a_status compare_features(struct search *search) {
    l3a_library *library = search->library;
    const size_t slots = library->catalogue.slot_count;
    l3a_status status = L3A_OK;
    if (search->sort != SORT_LIKE && search->sort != SORT_WORD) {
        return L3A_OK;
    }
    TRY(allocate(search->context, slots, sizeof *search->computed, &search->computed));
    search->ranks = search->computed;
    if (search->sort == SORT_WORD) {
        TRY(library_rank_word(library, search->options->word ? search->options->word : search->where.word, slots,
                              search->computed));
    } else if (slots) {
        TRY(direction_compare(library, &search->direction, slots, search->computed));
    }
done:
    return status;
}

/* ---- All together ---- */

static l3a_status choose(struct search *search) {
    const struct catalogue *catalogue = &search->library->catalogue;
    const bool by_slot = search->sort != SORT_DATE && search->sort != SORT_NAME;
    l3a_status status = L3A_OK;
    TRY(allocate(search->context, catalogue->count, sizeof *search->items, &search->items));
    for (size_t i = 0; i < catalogue->count; i++) {
        struct keyed item = {.at = (uint32_t)i, .rank = NAN};
        const bool has_slot = catalogue->slots[i] < catalogue->slot_count;
        if (!search->where.chosen[i] || (by_slot && !has_slot)) {
            continue;
        }
        item.rank = by_slot ? search->ranks[catalogue->slots[i]] : NAN;
        item.key = by_slot                     ? key_of_float(isnan(item.rank) ? -INFINITY : item.rank)
                   : search->sort == SORT_NAME ? UINT32_MAX - search->library->names.places[i]
                                               : key_of_number(catalogue->dates[i]);
        search->items[search->count++] = item;
    }
    TRY(order_by_key(search->context, search->items, search->count));
done:
    return status;
}

static l3a_status deliver(const struct search *search, l3a_found **found) {
    const uint64_t most = search->options->most;
    const size_t count = most && most < search->count ? (size_t)most : search->count;
    l3a_status status = L3A_OK;
    TRY(found_create(search->context, count, found));
    for (size_t i = 0; i < count; i++) {
        (*found)->ids[i] = (uint64_t)search->library->catalogue.ids[search->items[i].at];
        (*found)->ranks[i] = search->items[i].rank;
    }
done:
    return status;
}

/* ---- Up to date ---- */

static l3a_status update(l3a_library *library) {
    uint64_t records = 0;
    l3a_status status = L3A_OK;
    if (library->slots.file >= 0) {
        TRY(slots_count(&library->slots, &records));
    }
    TRY(catalogue_update(&library->catalogue, &library->database, records, library->generation));
    TRY(columns_update(&library->columns, &library->database, library->catalogue.slot_count));
done:
    return status;
}

l3a_status library_begin_reading(l3a_library *library) {
    int64_t generation;
    l3a_status status = L3A_OK;
    do { /* another process may begin the features anew in between */
        TRY(library_open_slots(library));
        TRY(database_begin_reading(&library->database));
        status = meta_number(&library->database, "generation", 0, &generation);
        if (status == L3A_OK && generation == library->generation) {
            status = update(library);
            TRY(status == L3A_OK ? L3A_OK : database_end(&library->database, status));
            return L3A_OK;
        }
        TRY(database_end(&library->database, status));
    } while (true);
done:
    return status;
}

l3a_status library_refresh(l3a_library *library) {
    l3a_status status = L3A_OK;
    TRY(library_begin_reading(library));
    TRY(database_end(&library->database, L3A_OK));
done:
    return status;
}

/* ---- Finding ---- */

static l3a_status read_database(struct search *search) {
    l3a_status status = L3A_OK;
    TRY(where_evaluate(search->library, search->options->where, &search->where));
    TRY(read_sort(search));
    TRY(read_order(search));
done:
    return status;
}

l3a_status l3a_library_find(l3a_library *library, const l3a_find_options *options, l3a_found **found) {
    REQUIRE(library, library, found);
    l3a_find_options own;
    struct search search = {.library = library, .context = library->context, .options = &own};
    l3a_status status = L3A_OK;
    TRY(READ_SIZED(library->context, options, own));
    if (own.like_count) {
        NEED(library->context, own.like);
    }
    if (own.like_rows) {
        NEED(library->context, own.like_features);
    }
    TRY(library_begin_reading(library));
    TRY(database_end(&library->database, read_database(&search)));
    if (search.sort == SORT_NOVEL) {
        TRY(library_novel(library, search.where.chosen, own.most, found));
    } else {
        TRY(compare_features(&search));
        TRY(choose(&search));
        TRY(deliver(&search, found));
    }
done:
    where_free(library, &search.where);
    direction_free(library, &search.direction);
    release(library->context, search.computed);
    release(library->context, search.items);
    return library_suspect(library, status);
}
