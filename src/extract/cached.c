/* Extraction through a cache of feature files.
 *
 * The name of a file in the cache is a key: a checksum of everything that the bytes of the feature file depend on, which are
 *
 *   the data set: its full name, split and classes, and of each picture the id, the labels, and its file;
 *   the network: the checksum of its checkpoint, how it is recorded, and the numbers it is computed in;
 *   what computes it: the version, the back end, the number of threads, and the processor's instructions or the device;
 *   the options.
 *
 * So a file in the cache never has to be replaced by another one: it is there, or it is not. A picture's file is known by its
 * number, size and times, which takes a second for a hundred thousand pictures. One of the times is that of the last change of
 * anything about the file, which no program can set, so it also tells when a file was replaced by one of the same size and date.
 *
 * The lock of a key is held while its file is extracted. Whoever wants the same file waits and then reads it or, if the other
 * process has ended before it was done, goes on with what that has left. */
#include "base/file.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/sized.h"
#include "data/dataset.h"
#include "extract/cache.h"
#include "extract/extract.h"
#include "extract/intake.h"
#include "image/picture.h"
#include "net/backbone.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const uint64_t USUAL_LIMIT = (uint64_t)20 << 30;

/* What is asked for. */
struct wish {
    l3a_context *context;
    l3a_backbone *backbone;
    l3a_dataset *dataset;
    l3a_extract_options options;
    l3a_picture_options picture;
    char *name;         /* of the data set, in full */
    const char *folder; /* of the cache */
    char *path;         /* of the feature file in it */
    uint64_t limit;
    bool look_only;
};

/* ---- The key ---- */

static void add_text(XXH3_state_t *key, const char *text) {
    XXH3_128bits_update(key, text ? text : "", text ? strlen(text) + 1 : 1);
}

static void add_numbers(XXH3_state_t *key, const uint64_t *numbers, size_t count) {
    XXH3_128bits_update(key, numbers, count * sizeof *numbers);
}

/* The network, what computes it, and the options. */
static l3a_status add_computation(const struct wish *wish, XXH3_state_t *key) {
    l3a_status status = L3A_OK;
    l3a_machine machine = {.size = sizeof machine};
    struct backbone_record record;
    char engine[ENGINE_TEXT];
    const l3a_backbone_info *info = l3a_backbone_describe(wish->backbone);
    const uint64_t numbers[] = {info->computed,          (uint64_t)wish->context->threads,
                                wish->options.half != 0, wish->options.strict != 0,
                                wish->options.views,     wish->picture.pixel_limit};
    TRY(l3a_machine_query(wish->context, &machine));
    backbone_record(info, wish->picture.orient, &record);
    print_engine(wish->backbone, l3a_dataset_rows(wish->dataset) * view_rows(wish->options.views), engine);
    for (size_t i = 0; i < PROVENANCE; i++) {
        add_text(key, record.values[i]);
    }
    add_text(key, l3a_version());
    add_text(key, wish->backbone->back_end->name);
    add_text(key, engine);
    add_text(key, machine.instructions);
    add_text(key, strcmp(wish->backbone->back_end->name, "blas") == 0 ? machine.blas : "");
    add_numbers(key, numbers, sizeof numbers / sizeof *numbers);
done:
    return status;
}

/* A file that cannot be looked at cannot be read either, for now. */
static void add_file(l3a_context *context, const char *path, XXH3_state_t *key) {
    file_description about = {0};
    if (context->files->describe(path, &about)) {
        about = (file_description){0};
    }
    add_numbers(key, (const uint64_t[]){about.inode, about.size, (uint64_t)about.modified, (uint64_t)about.changed}, 4);
}

static l3a_status add_dataset(const struct wish *wish, XXH3_state_t *key) {
    enum { STEP = 1024 };
    const l3a_dataset *dataset = wish->dataset;
    const size_t rows = l3a_dataset_rows(dataset), classes = l3a_dataset_class_count(dataset);
    const char *archive = NULL;
    l3a_status status = L3A_OK;
    add_text(key, wish->name);
    add_text(key, dataset->split);
    add_numbers(key, (const uint64_t[]){rows, classes, dataset->ignores_difficult}, 3);
    for (size_t i = 0; i < classes; i++) {
        add_text(key, l3a_dataset_class(dataset, i));
    }
    XXH3_128bits_update(key, l3a_dataset_labels(dataset), rows * classes);
    XXH3_128bits_update(key, l3a_dataset_members(dataset), rows * classes);
    for (size_t i = 0; i < rows; i++) {
        const struct picture_source source = dataset_source(dataset, i);
        if (i % STEP == 0) {
            TRY(report_progress(wish->context, "check", i, rows));
        }
        add_text(key, l3a_dataset_id(dataset, i));
        if (!source.span.archive) {
            add_file(wish->context, source.name, key);
            continue;
        }
        add_numbers(key, (const uint64_t[]){source.span.offset, source.span.size}, 2);
        if (source.span.archive != archive) {
            archive = source.span.archive;
            add_file(wish->context, archive, key);
        }
    }
done:
    return status;
}

static l3a_status name_file(struct wish *wish) {
    l3a_status status = L3A_OK;
    XXH3_state_t key;
    char name[64];
    XXH3_128bits_reset(&key);
    TRY(add_computation(wish, &key));
    TRY(add_dataset(wish, &key));
    const XXH128_hash_t sum = XXH3_128bits_digest(&key);
    snprintf(name, sizeof name, "%016" PRIx64 "%016" PRIx64 ".safetensors", (uint64_t)sum.high64, (uint64_t)sum.low64);
    TRY(join_path(wish->context, wish->folder, name, &wish->path));
done:
    return status;
}

/* ---- The file ---- */

/* Whether a table is one of this network and data set, as far as can be seen at a glance. */
static bool is_wanted(const struct wish *wish, const l3a_features *features) {
    const l3a_backbone_info *info = l3a_backbone_describe(wish->backbone);
    const char *sha256 = l3a_features_record(features, "sha256");
    return features->rows <= l3a_dataset_rows(wish->dataset) && features->width == info->width &&
           features->stored == wish->options.views && features->classes.count == l3a_dataset_class_count(wish->dataset) &&
           features->labels.held && features->ids.count == features->rows && sha256 && strcmp(sha256, info->sha256) == 0;
}

/* Whether a picture that the table lacks, because it could not be read, can be read by now: a disk may have been away. */
static l3a_status has_healed(const struct wish *wish, const l3a_features *features, bool *healed) {
    l3a_status status = L3A_OK;
    size_t found = 0;
    *healed = false;
    for (size_t i = 0; i < l3a_dataset_rows(wish->dataset) && !*healed; i++) {
        l3a_picture picture = {.size = sizeof picture};
        if (found < features->rows && strcmp(features->ids.items[found], l3a_dataset_id(wish->dataset, i)) == 0) {
            found++;
            continue;
        }
        status = l3a_dataset_picture(wish->dataset, i, &wish->picture, &picture);
        *healed = status == L3A_OK;
        l3a_picture_free(wish->context, &picture);
        TRY(status == L3A_ERROR_MEMORY ? status : L3A_OK);
    }
done:
    return status;
}

/* Opens the feature file. *features is NULL if it is not there, damaged or out of date: it will then be replaced. */
static l3a_status find(const struct wish *wish, l3a_features **features) {
    l3a_context *context = wish->context;
    l3a_status status = L3A_OK;
    l3a_features *found = NULL;
    bool exists, healed = false;
    *features = NULL;
    TRY(file_exists(context, wish->path, &exists));
    if (!exists) {
        goto done;
    }
    const l3a_status opened = l3a_features_open(context, wish->path, &found);
    TRY(opened == L3A_ERROR_MEMORY || opened == L3A_ERROR_CANCELLED ? opened : L3A_OK);
    if (opened != L3A_OK || !is_wanted(wish, found)) {
        report_warning(context, "%s; it is extracted again", opened != L3A_OK ? context->error_text : wish->path);
        goto done;
    }
    TRY(has_healed(wish, found, &healed));
    if (!healed) {
        cache_use(found);
        *features = found;
        found = NULL;
    }
done:
    l3a_features_free(found);
    return status;
}

/* The room that the feature file will take, but for its header. */
static uint64_t expected_bytes(const struct wish *wish) {
    const uint64_t width = l3a_backbone_describe(wish->backbone)->width, number = wish->options.half ? 2 : 4;
    return l3a_dataset_rows(wish->dataset) *
           (view_rows(wish->options.views) * width * number + l3a_dataset_class_count(wish->dataset));
}

static l3a_status make_room(const struct wish *wish) {
    const uint64_t bytes = expected_bytes(wish);
    l3a_status status = L3A_OK;
    TRY(cache_make_folder(wish->context, wish->folder));
    if (bytes > wish->limit) {
        report_note(wish->context, "these features take %.1f MB, more than the cache may: they are removed when others come",
                    1e-6 * (double)bytes);
    }
    TRY(cache_trim(wish->context, wish->folder, bytes < wish->limit ? wish->limit - bytes : 0));
done:
    return status;
}

static l3a_status extract_to_cache(const struct wish *wish, l3a_extract_report *report) {
    l3a_context *context = wish->context;
    char text[sizeof context->error_text];
    const l3a_status status = extract_named(context, wish->backbone, wish->dataset, wish->name, &wish->options, wish->path, report);
    if (status == L3A_ERROR_FULL) {
        memcpy(text, context->error_text, sizeof text);
        fail(context, status, "free some space, and start again to continue; or name another folder for the cache", "%s", text);
    }
    return status;
}

static l3a_status make(const struct wish *wish, l3a_features **features, l3a_extract_report *report) {
    l3a_context *context = wish->context;
    l3a_status status = L3A_OK;
    l3a_lock *lock = NULL;
    TRY(make_room(wish));
    TRY(lock_target(context, wish->path, wish->path, AWAIT_ANYONE, &lock));
    TRY(find(wish, features)); /* another process may have made it in the meantime */
    if (!*features) {
        TRY(extract_to_cache(wish, report));
        TRY(l3a_features_open(context, wish->path, features));
        cache_use(*features);
    }
done:
    l3a_lock_free(lock);
    return status;
}

static l3a_status wish_read(struct wish *wish, const l3a_extract_options *options, const l3a_cache_options *cache, char *folder,
                            size_t capacity) {
    l3a_context *context = wish->context;
    l3a_status status = L3A_OK;
    l3a_cache_options own;
    TRY(READ_SIZED(context, options, wish->options));
    TRY(READ_SIZED(context, cache, own));
    TRY(picture_options_read(context, wish->options.picture, &wish->picture));
    FAIL_IF(wish->options.shards, context, L3A_ERROR_ARGUMENT, "extract shards with l3a_extract()", "shards are not cached");
    FAIL_IF(divides_rows(context), context, L3A_ERROR_ARGUMENT, "extract the features first, and use the feature files",
            "several processes that learn together cannot extract features");
    wish->options.views = wish->options.views ? wish->options.views : 1;
    wish->limit = own.limit ? own.limit : USUAL_LIMIT;
    wish->look_only = own.look_only;
    wish->folder = own.folder;
    if (!own.folder) {
        TRY(l3a_cache_folder(context, folder, capacity));
        wish->folder = folder;
    }
    TRY(dataset_full_name(wish->dataset, &wish->name));
    TRY(name_file(wish));
done:
    return status;
}

static l3a_status extract_cached(l3a_context *context, l3a_backbone *backbone, l3a_dataset *dataset,
                                 const l3a_extract_options *options, const l3a_cache_options *cache, l3a_extract_report *report,
                                 l3a_features **features) {
    enum { FOLDER = 4096 };
    l3a_status status = L3A_OK;
    const double start = clock_seconds();
    char folder[FOLDER];
    struct wish wish = {.context = context, .backbone = backbone, .dataset = dataset};
    l3a_extract_report own = {.size = sizeof own, .cached = 1};
    l3a_features *found = NULL;
    if (report) {
        TRY(CHECK_SIZED(context, report));
    }
    TRY(wish_read(&wish, options, cache, folder, sizeof folder));
    TRY(find(&wish, &found));
    if (!found && !wish.look_only) {
        TRY(make(&wish, &found, &own));
    }
    own.rows = l3a_features_rows(found);
    own.bad = found ? l3a_dataset_rows(dataset) - found->rows : 0;
    own.cached = own.cached && found;
    own.seconds = clock_seconds() - start;
    if (report) {
        TRY(WRITE_SIZED(context, report, own));
    }
    *features = found;
    found = NULL;
done:
    l3a_features_free(found);
    release(context, wish.name);
    release(context, wish.path);
    return status;
}

l3a_status l3a_extract_cached(l3a_context *context, l3a_backbone *backbone, l3a_dataset *dataset,
                              const l3a_extract_options *options, const l3a_cache_options *cache, l3a_extract_report *report,
                              l3a_features **features) {
    l3a_status status = L3A_OK;
    NEED(context, context, backbone, dataset, features);
    TRY(extract_cached(context, backbone, dataset, options, cache, report, features));
done:
    return status;
}
