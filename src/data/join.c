/* Joining feature files.
 *
 * Shards of an extraction are runs of its rows, so one after another they are the file that one process would have written: its
 * records are theirs without those of the shard, `bad` lists the bad pictures of all, and `members` is there if one of them has
 * it. Other files are joined by the same rule, in the order given; a record stays if all files have it with the same value.
 *
 * First every file is opened, verified and compared with the others, one at a time. Then the tensors are written one after
 * another, from one file at a time, so that neither memory nor open files grow with their number. */
#include "base/text_index.h"
#include "data/features.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES, LABELS, IDS, MEMBERS, TENSORS };
static const char changed_hint[] = "wait until nobody writes it";
static const char *const tensor_names[TENSORS] = {"features", "labels", "ids", "members"};

/* A file to be joined. */
struct piece {
    const char *path;
    size_t rows, width, views;
    uint64_t size;          /* of the file */
    uint64_t id_bytes;      /* of its ids in the result, with a line break behind them if others follow */
    uint64_t shard, shards; /* 0: not a shard */
    text_list keys, values; /* its metadata */
    text_list classes;
    text_list ids; /* unless it is a shard */
    bool has[TENSORS];
    struct tensor tensors[TENSORS];
};

struct join {
    l3a_context *context;
    struct piece *pieces;
    size_t count;
    uint64_t rows;
};

/* A tensor of the result, as it is written: the piece with the next byte, and where that piece begins. */
struct source {
    const struct join *join;
    size_t tensor, piece;
    uint64_t start;
    bool open;
    input_file input; /* for features */
    char *held;       /* for the others: what the piece has of the tensor */
};

static const char *record_of(const struct piece *piece, const char *key) {
    const size_t index = text_list_find(&piece->keys, key);
    return index < piece->keys.count ? piece->values.items[index] : NULL;
}

static void piece_free(l3a_context *context, struct piece *piece) {
    text_list_clear(context, &piece->keys);
    text_list_clear(context, &piece->values);
    text_list_clear(context, &piece->classes);
    text_list_clear(context, &piece->ids);
}

/* Whether the tensors are those of the table, which was opened before. */
static bool is_same(const safetensors *file, const l3a_features *features) {
    const struct tensor *values = safetensors_find(file, tensor_names[FEATURES]);
    bool same = file->input.size == features->input.size && values && values->type == features->features.type &&
                values->offset == features->features.offset && values->bytes == features->features.bytes;
    for (size_t i = LABELS; i < TENSORS; i++) {
        const struct tensor *tensor = safetensors_find(file, tensor_names[i]);
        same = same && (!tensor || i == IDS ||
                        (tensor->rank == 2 && tensor->shape[0] == features->rows && tensor->shape[1] == features->classes.count));
    }
    return same;
}

/* Opens, verifies and closes a file. */
static l3a_status inspect(l3a_context *context, const char *path, struct piece *piece) {
    l3a_status status = L3A_OK;
    l3a_features *features = NULL;
    safetensors file = {0};
    TRY(features_open(context, path, true, &features));
    TRY(safetensors_open(context, path, &file));
    FAIL_IF(!is_same(&file, features), context, L3A_ERROR_IO, changed_hint, "%s has changed while it was joined", path);
    *piece = (struct piece){.path = path,
                            .rows = features->rows,
                            .width = features->width,
                            .views = features->stored,
                            .size = features->input.size,
                            .keys = file.keys,
                            .values = file.values,
                            .classes = features->classes};
    file.keys = file.values = features->classes = (text_list){0};
    for (size_t i = 0; i < TENSORS; i++) {
        const struct tensor *tensor = safetensors_find(&file, tensor_names[i]);
        piece->has[i] = tensor != NULL;
        piece->tensors[i] = tensor ? *tensor : (struct tensor){0};
        piece->tensors[i].name = NULL;
    }
    const char *shard = record_of(piece, shard_record);
    FAIL_IF(shard && (!shard_parse(shard, &piece->shard, &piece->shards) || !record_of(piece, extraction_record)), context,
            L3A_ERROR_FORMAT, "extract the shard again", "%s: what the file says about its shard is not valid", path);
    if (!shard) {
        TRY(features_hold_all(features));
        piece->ids = features->ids;
        features->ids = (text_list){0};
    }
done:
    safetensors_close(&file);
    l3a_features_free(features);
    return status;
}

static int by_shard(const void *left, const void *right) {
    const struct piece *one = left, *other = right;
    return (one->shard > other->shard) - (one->shard < other->shard);
}

static bool same_text(const char *one, const char *other) {
    return one && other ? strcmp(one, other) == 0 : one == other;
}

/* Says in what two shards of different extractions differ. */
static l3a_status fail_extraction(l3a_context *context, const struct piece *one, const struct piece *other) {
    static const char *const names[] = {"backbone", "sha256", "preprocess", "pool",     "network",
                                        "engine",   "data",   "split",      "difficult"};
    const char *hint = "join the shards of one extraction; extract the others again";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *mine = record_of(one, names[i]), *theirs = record_of(other, names[i]);
        if (!same_text(mine, theirs)) {
            return fail(context, L3A_ERROR_MISMATCH, hint,
                        "%s and %s are shards of different extractions: %s is '%s' in one and '%s' in the other", one->path,
                        other->path, names[i], mine ? mine : "", theirs ? theirs : "");
        }
    }
    return fail(context, L3A_ERROR_MISMATCH, hint,
                "%s and %s are shards of different extractions: the pictures of the data set or their labels have changed",
                one->path, other->path);
}

/* Checks that what is copied byte by byte is of the same form. */
static l3a_status compare_form(l3a_context *context, const struct piece *one, const struct piece *other) {
    l3a_status status = L3A_OK;
    const char *same = "join files that were made in the same way";
    FAIL_IF(one->width != other->width, context, L3A_ERROR_MISMATCH, same, "%s has features %zu wide, but %s has %zu", one->path,
            one->width, other->path, other->width);
    FAIL_IF(one->views != other->views, context, L3A_ERROR_MISMATCH, same,
            "the images of %s have %zu view%s, but those of %s have %zu", one->path, one->views, one->views == 1 ? "" : "s",
            other->path, other->views);
    FAIL_IF(one->tensors[FEATURES].type != other->tensors[FEATURES].type, context, L3A_ERROR_MISMATCH, same,
            "the features are %s in %s, but %s in %s", tensor_type_name(one->tensors[FEATURES].type), one->path,
            tensor_type_name(other->tensors[FEATURES].type), other->path);
    for (size_t i = LABELS; i <= IDS; i++) {
        const bool mine = one->has[i];
        FAIL_IF(mine != other->has[i], context, L3A_ERROR_MISMATCH, same, "%s has %s, but %s has none", (mine ? one : other)->path,
                tensor_names[i], (mine ? other : one)->path);
    }
    bool classes = one->classes.count == other->classes.count;
    for (size_t i = 0; classes && i < one->classes.count; i++) {
        classes = strcmp(one->classes.items[i], other->classes.items[i]) == 0;
    }
    FAIL_IF(!classes, context, L3A_ERROR_CLASS, same, "%s and %s do not have the same classes in the same order", one->path,
            other->path);
done:
    return status;
}

/* Checks that the features were made in the same way, as far as both files say. */
static l3a_status compare_provenance(l3a_context *context, const struct piece *one, const struct piece *other) {
    const char *mine[PROVENANCE], *theirs[PROVENANCE];
    l3a_status status = L3A_OK;
    for (size_t i = 0; i < PROVENANCE; i++) {
        mine[i] = record_of(one, provenance[i]);
        theirs[i] = record_of(other, provenance[i]);
    }
    const size_t i = provenance_conflict(mine, theirs);
    FAIL_IF(i < PROVENANCE, context, L3A_ERROR_MISMATCH, "join files that were made in the same way",
            "%s is '%s' in %s and '%s' in %s", provenance[i], provenance_text(mine[i]), one->path, provenance_text(theirs[i]),
            other->path);
done:
    return status;
}

/* "2, 3 and 5": the numbers of the shards that are missing, the first few of them. Returns how many there are. */
static uint64_t list_missing(const struct join *join, char *text, size_t capacity) {
    enum { SHOWN = 8 };
    const uint64_t shards = join->pieces[0].shards, missing = shards - join->count;
    uint64_t found = 0;
    size_t length = 0, piece = 0;
    for (uint64_t i = 1; i <= shards && found < missing && found < SHOWN; i++) {
        if (piece < join->count && join->pieces[piece].shard == i) {
            piece++;
            continue;
        }
        const char *between = !found ? "" : found + 1 == missing ? " and " : ", ";
        length += (size_t)snprintf(text + length, capacity - length, "%s%" PRIu64, between, i);
        found++;
    }
    snprintf(text + length, capacity - length, "%s", missing > SHOWN ? ", …" : "");
    return missing;
}

/* Checks that the sorted pieces are all the shards of one extraction. */
static l3a_status check_shards(const struct join *join) {
    l3a_context *context = join->context;
    l3a_status status = L3A_OK;
    const struct piece *first = &join->pieces[0];
    char missing[128];
    for (size_t i = 1; i < join->count; i++) {
        const struct piece *piece = &join->pieces[i];
        FAIL_IF(piece->shards != first->shards, context, L3A_ERROR_MISMATCH, "join the shards of one extraction",
                "%s is one of %" PRIu64 " shards, but %s is one of %" PRIu64, first->path, first->shards, piece->path,
                piece->shards);
        if (!same_text(record_of(first, extraction_record), record_of(piece, extraction_record))) {
            return fail_extraction(context, first, piece);
        }
        FAIL_IF(piece->shard == piece[-1].shard, context, L3A_ERROR_MISMATCH, "give every shard once",
                "%s and %s are both shard %" PRIu64 " of %" PRIu64, piece[-1].path, piece->path, piece->shard, piece->shards);
    }
    const uint64_t count = first->shards > join->count ? list_missing(join, missing, sizeof missing) : 0;
    FAIL_IF(count, context, L3A_ERROR_MISMATCH, "extract what is missing, and give all shards",
            "shard%s %s of %" PRIu64 " %s missing", count == 1 ? "" : "s", missing, first->shards, count == 1 ? "is" : "are");
done:
    return status;
}

/* Checks that no id is in two files. An empty id says nothing. */
static l3a_status check_ids(const struct join *join) {
    l3a_context *context = join->context;
    l3a_status status = L3A_OK;
    char **ids = NULL;
    size_t count = 0;
    text_index index = {0};
    TRY(allocate(context, (size_t)join->rows, sizeof *ids, &ids));
    for (size_t i = 0; i < join->count; i++) {
        for (size_t row = 0; row < join->pieces[i].ids.count; row++) {
            ids[count++] = join->pieces[i].ids.items[row];
        }
    }
    TRY(text_index_make(context, ids, count, &index));
    for (size_t i = 0, first = 0; i < join->count; first += join->pieces[i++].ids.count) {
        for (size_t row = 0; row < join->pieces[i].ids.count; row++) {
            const char *id = join->pieces[i].ids.items[row];
            FAIL_IF(id[0] && text_index_find(&index, id) < first, context, L3A_ERROR_DATA, "leave it out of one of them",
                    "image '%s' is in two files, the second of them %s: it would count twice", id, join->pieces[i].path);
        }
    }
done:
    text_index_free(context, &index);
    release(context, ids);
    return status;
}

static l3a_status compare(struct join *join) {
    l3a_status status = L3A_OK;
    struct piece *pieces = join->pieces;
    for (size_t i = 1; i < join->count; i++) {
        const bool first = pieces[0].shards;
        FAIL_IF(first != (pieces[i].shards > 0), join->context, L3A_ERROR_MISMATCH, "join either shards or files that are none",
                "%s is a shard of an extraction, but %s is not", pieces[first ? 0 : i].path, pieces[first ? i : 0].path);
    }
    if (pieces[0].shards) {
        qsort(pieces, join->count, sizeof *pieces, by_shard);
        TRY(check_shards(join));
    }
    for (size_t i = 0; i < join->count; i++) {
        TRY(compare_form(join->context, &pieces[0], &pieces[i]));
        for (size_t j = 0; j < i && !pieces[0].shards; j++) {
            TRY(compare_provenance(join->context, &pieces[j], &pieces[i]));
        }
        join->rows += pieces[i].rows;
    }
    FAIL_IF(!join->rows, join->context, L3A_ERROR_DATA, "check that these are the right files", "none of the files has a row");
    if (!pieces[0].shards) {
        TRY(check_ids(join));
    }
done:
    return status;
}

/* The records of the result: those that all files have in common, and the bad pictures of all. */
static l3a_status join_records(const struct join *join, text_list *keys, text_list *values) {
    l3a_context *context = join->context;
    l3a_status status = L3A_OK;
    const struct piece *first = &join->pieces[0];
    text_builder bad = {.context = context};
    for (size_t i = 0; i < join->count; i++) {
        const char *more = record_of(&join->pieces[i], bad_record);
        text_builder_print(&bad, "%s%s", more && more[0] && bad.length ? "\n" : "", more ? more : "");
    }
    TRY(bad.status);
    for (size_t k = 0; k < first->keys.count; k++) {
        const char *key = first->keys.items[k], *value = first->values.items[k];
        bool stays = strncmp(key, "xxh3.", 5) != 0;
        stays = stays && !(first->shards && (strcmp(key, shard_record) == 0 || strcmp(key, extraction_record) == 0 ||
                                             strcmp(key, batches_record) == 0 || strcmp(key, engine_record) == 0));
        if (strcmp(key, bad_record) == 0) {
            value = bad.length ? bad.text : "";
        } else {
            for (size_t i = 1; stays && i < join->count; i++) {
                stays = same_text(value, record_of(&join->pieces[i], key));
            }
        }
        if (stays) {
            TRY(text_record_set(context, keys, values, key, value));
        }
    }
    if (bad.length) {
        TRY(text_record_set(context, keys, values, bad_record, bad.text));
    }
done:
    text_builder_free(&bad);
    return status;
}

/* Whether the ids of a piece need a line break behind them. */
static l3a_status ends_openly(l3a_context *context, const struct piece *piece, bool *open) {
    l3a_status status = L3A_OK;
    const struct tensor *ids = &piece->tensors[IDS];
    input_file input = {.file = -1};
    char last = '\n';
    if (piece->has[IDS] && ids->bytes) {
        TRY(input_open(context, piece->path, &input));
        TRY(input_read(&input, ids->offset + ids->bytes - 1, &last, 1));
    }
    *open = last != '\n';
done:
    input_close(&input);
    return status;
}

/* Bytes that a piece contributes to a tensor. */
static uint64_t piece_bytes(const struct piece *piece, size_t tensor) {
    return tensor == FEATURES ? piece->tensors[FEATURES].bytes
           : tensor == IDS    ? piece->id_bytes
                              : (uint64_t)piece->rows * piece->classes.count;
}

/* The ids of all pieces but the last one with rows end with a line break. */
static l3a_status break_lines(struct join *join) {
    l3a_status status = L3A_OK;
    bool followed = false;
    for (size_t i = join->count; i-- > 0;) {
        bool open = false;
        TRY(followed ? ends_openly(join->context, &join->pieces[i], &open) : L3A_OK);
        join->pieces[i].id_bytes = join->pieces[i].tensors[IDS].bytes + open;
        followed = followed || join->pieces[i].rows;
    }
done:
    return status;
}

static void close_piece(struct source *source) {
    input_close(&source->input);
    release(source->join->context, source->held);
    source->held = NULL;
    source->open = false;
}

/* Reads what a piece has of labels, ids or members. Without members, a row belongs to the classes it is labelled with. */
static l3a_status hold(struct source *source, const struct piece *piece) {
    l3a_context *context = source->join->context;
    l3a_status status = L3A_OK;
    const bool derived = source->tensor == MEMBERS && !piece->has[MEMBERS];
    const struct tensor *tensor = &piece->tensors[derived ? LABELS : source->tensor];
    const size_t bytes = (size_t)piece_bytes(piece, source->tensor);
    TRY(allocate(context, bytes, 1, &source->held));
    if (source->tensor == IDS) {
        source->held[bytes - 1] = '\n';
        TRY(input_read(&source->input, tensor->offset, source->held, (size_t)tensor->bytes));
        goto done;
    }
    int8_t *labels = (int8_t *)source->held;
    TRY(tensor_read_labels(&source->input, tensor, 0, (size_t)tensor->shape[0], labels));
    for (size_t i = 0; derived && i < bytes; i++) {
        labels[i] = labels[i] == 1;
    }
done:
    return status;
}

static l3a_status open_piece(struct source *source) {
    const struct piece *piece = &source->join->pieces[source->piece];
    l3a_context *context = source->join->context;
    l3a_status status = L3A_OK;
    source->open = true;
    TRY(input_open(context, piece->path, &source->input));
    FAIL_IF(source->input.size != piece->size, context, L3A_ERROR_IO, changed_hint, "%s has changed while it was joined",
            piece->path);
    if (source->tensor != FEATURES) {
        TRY(hold(source, piece));
    }
done:
    return status;
}

/* Chunks are requested in order. */
static l3a_status fill_joined(void *argument, uint64_t offset, void *bytes, size_t count) {
    struct source *source = argument;
    const struct join *join = source->join;
    l3a_status status = L3A_OK;
    char *to = bytes;
    if (source->tensor == FEATURES) {
        TRY(report_progress(join->context, "merge", source->piece, join->count));
    }
    while (count) {
        const struct piece *piece = &join->pieces[source->piece];
        const uint64_t within = offset - source->start, left = piece_bytes(piece, source->tensor) - within;
        if (!left) {
            close_piece(source);
            source->start = offset;
            source->piece++;
            continue;
        }
        TRY(source->open ? L3A_OK : open_piece(source));
        const size_t size = left < count ? (size_t)left : count;
        if (source->tensor == FEATURES) {
            TRY(input_read(&source->input, piece->tensors[FEATURES].offset + within, to, size));
        } else {
            memcpy(to, source->held + within, size);
        }
        to += size;
        offset += size;
        count -= size;
    }
done:
    return status;
}

static l3a_status write_joined(const struct join *join, const char *path) {
    l3a_context *context = join->context;
    l3a_status status = L3A_OK;
    const struct piece *first = &join->pieces[0];
    const uint64_t rows = join->rows, classes = first->classes.count;
    struct source sources[TENSORS];
    tensor_source list[TENSORS];
    text_list keys = {0}, values = {0};
    uint64_t ids = 0;
    bool members = false;
    size_t count = 0;
    for (size_t i = 0; i < TENSORS; i++) {
        sources[i] = (struct source){.join = join, .tensor = i, .input = {.file = -1}};
    }
    TRY(join_records(join, &keys, &values));
    for (size_t i = 0; i < join->count; i++) {
        ids += piece_bytes(&join->pieces[i], IDS);
        members = members || join->pieces[i].has[MEMBERS];
    }
    list[count++] =
        features_source(rows, first->views, first->width, first->tensors[FEATURES].type, fill_joined, &sources[FEATURES]);
    if (first->has[LABELS]) {
        list[count++] = (tensor_source){"labels", TENSOR_I8, 2, {rows, classes}, fill_joined, &sources[LABELS]};
    }
    if (first->has[IDS]) {
        list[count++] = (tensor_source){"ids", TENSOR_U8, 1, {ids}, fill_joined, &sources[IDS]};
    }
    if (members) {
        list[count++] = (tensor_source){"members", TENSOR_I8, 2, {rows, classes}, fill_joined, &sources[MEMBERS]};
    }
    TRY(safetensors_write(context, path, &keys, &values, list, count));
done:
    for (size_t i = 0; i < TENSORS; i++) {
        close_piece(&sources[i]);
    }
    text_list_clear(context, &keys);
    text_list_clear(context, &values);
    return status;
}

l3a_status l3a_features_merge(l3a_context *context, const char *const *paths, size_t count, const char *path, uint64_t *rows) {
    l3a_status status = L3A_OK;
    struct join join = {.context = context};
    NEED(context, context, paths, path, rows);
    TRY(need_items(context, __func__, "paths", paths, count));
    FAIL_IF(!count, context, L3A_ERROR_ARGUMENT, "name at least one", "there are no feature files to join");
    TRY(allocate_zeroed(context, count, sizeof *join.pieces, &join.pieces));
    for (; join.count < count; join.count++) {
        TRY(report_progress(context, "check", join.count, count));
        TRY(inspect(context, paths[join.count], &join.pieces[join.count]));
    }
    TRY(compare(&join));
    TRY(break_lines(&join));
    TRY(write_joined(&join, path));
    *rows = join.rows;
done:
    for (size_t i = 0; join.pieces && i < count; i++) {
        piece_free(context, &join.pieces[i]);
    }
    release(context, join.pieces);
    return status;
}
