/* Packs a model, and measures what that does to scores. */
#include "base/file.h"
#include "base/sized.h"
#include "data/features.h"
#include "extract/intake.h"
#include "learn/file_model.h"
#include "learn/file_packed.h"
#include "tag/tagger.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 512 };

/* A job in progress. */
struct pack {
    l3a_context *context;
    l3a_pack_options options;
    const char *model_path, *path;
    l3a_model *model;
    struct scorer *scorer; /* of the model */
    l3a_tagger *tagger;    /* of the model, if the backbone is packed too */
    text_list keys, values;
};

static l3a_status add_record(struct pack *pack, const char *key, const char *value) {
    return text_record_set(pack->context, &pack->keys, &pack->values, key, value);
}

/* The records that describe how features are made, of the model, or of the backbone that is packed. Nothing else is copied. */
static l3a_status list_records(struct pack *pack) {
    struct backbone_record record = {0};
    l3a_status status = L3A_OK;
    if (pack->tagger) {
        backbone_record(l3a_backbone_describe(pack->tagger->backbone), pack->tagger->picture.orient, &record);
    }
    for (size_t i = 0; i < PROVENANCE; i++) {
        const char *value = pack->tagger ? record.values[i] : scorer_record(pack->scorer, provenance[i]);
        if (value) {
            TRY(add_record(pack, provenance[i], value));
        }
    }
done:
    return status;
}

/* Records where the backbone is, if that is near the packed file; a path further away would say more about the machine than other
 * people need to know. */
static l3a_status record_place(struct pack *pack) {
    l3a_context *context = pack->context;
    const char *given = pack->options.backbone;
    char *place = NULL, *record = NULL;
    l3a_status status = L3A_OK;
    TRY(given ? copy_text(context, given, strlen(given), &place) : backbone_find(context, pack->model_path, pack->scorer, &place));
    if (place) {
        TRY(backbone_beside(context, pack->path, place, &record));
    }
    if (record) {
        TRY(add_record(pack, backbone_path_record, record));
    }
done:
    release(context, place);
    release(context, record);
    return status;
}

/* Opens the tagger, which finds the backbone and checks that it is the model's. */
static l3a_status open_backbone(struct pack *pack) {
    const l3a_tagger_options options = {.size = sizeof options, .backbone = pack->options.backbone};
    return l3a_tagger_open(pack->context, pack->model_path, &options, &pack->tagger);
}

/* Refuses to replace a file that packing reads. */
static l3a_status check_output(const struct pack *pack, const char *input) {
    const file_operations *files = pack->context->files;
    file_description read, written;
    l3a_status status = L3A_OK;
    FAIL_IF(files->describe(input, &read) == 0 && files->describe(pack->path, &written) == 0 && read.device == written.device &&
                read.inode == written.inode,
            pack->context, L3A_ERROR_EXISTS, "give another path for the packed model", "%s: packing would overwrite %s", pack->path,
            input);
done:
    return status;
}

static l3a_status write_packed(struct pack *pack) {
    struct packing packing = {.type = pack->options.type,
                              .record_keys = &pack->keys,
                              .record_values = &pack->values,
                              .half = pack->options.half_backbone != 0};
    l3a_status status = L3A_OK;
    TRY(check_output(pack, pack->model_path));
    TRY(model_load_to_score(pack->context, pack->model_path, &pack->model));
    FAIL_IF(!pack->model->classes.count, pack->context, L3A_ERROR_STATE, "learn a class first", "%s: the model has no class yet",
            pack->model_path);
    TRY(scorer_create(pack->model, 0, NULL, &pack->scorer));
    if (pack->options.features) {
        TRY(scorer_accepts(pack->context, pack->scorer, pack->options.features));
    }
    if (pack->options.with_backbone) {
        TRY(open_backbone(pack));
        packing.backbone = pack->tagger->backbone_path;
        TRY(check_output(pack, packing.backbone));
    } else {
        TRY(record_place(pack));
    }
    TRY(list_records(pack));
    TRY(packed_write(pack->model, &packing, pack->path));
done:
    return status;
}

struct comparison {
    float *values, *before, *after;
};

/* Adds the differences between the scores of a block of rows. */
static l3a_status compare_block(const struct pack *pack, const struct scorer *packed, const struct comparison *space, size_t first,
                                size_t rows, l3a_pack_report *report) {
    const size_t classes = packed->classes.count;
    l3a_status status = L3A_OK;
    TRY(l3a_features_read(pack->options.features, NULL, first, rows, space->values));
    TRY(scorer_score(pack->context, pack->scorer, space->values, rows, space->before, NULL));
    TRY(scorer_score(pack->context, packed, space->values, rows, space->after, NULL));
    for (size_t i = 0; i < rows * classes; i++) {
        const double before = (double)space->before[i], after = (double)space->after[i];
        const double threshold = packed->thresholds[i % classes];
        report->largest_change = fmax(report->largest_change, fabs(after - before));
        report->changed += (before > threshold) != (after > threshold);
    }
    report->rows += rows;
done:
    return status;
}

static l3a_status compare(const struct pack *pack, l3a_pack_report *report) {
    l3a_context *context = pack->context;
    l3a_features *features = pack->options.features;
    struct scorer *packed = NULL;
    struct comparison space = {0};
    l3a_status status = L3A_OK;
    TRY(scorer_load(context, pack->path, 0, pack->scorer, &packed));
    TRY(allocate(context, BLOCK, features_row(features) * sizeof *space.values, &space.values));
    TRY(allocate(context, BLOCK, packed->classes.count * sizeof *space.before, &space.before));
    TRY(allocate(context, BLOCK, packed->classes.count * sizeof *space.after, &space.after));
    for (size_t first = 0; first < features->rows; first += BLOCK) {
        const size_t rows = features->rows - first < BLOCK ? features->rows - first : BLOCK;
        TRY(report_progress(context, "score", first, features->rows));
        TRY(compare_block(pack, packed, &space, first, rows, report));
    }
done:
    release(context, space.values);
    release(context, space.before);
    release(context, space.after);
    scorer_free(packed);
    return status;
}

static l3a_status measure(const struct pack *pack, l3a_pack_report *report) {
    input_file input = {0};
    l3a_status status = L3A_OK;
    TRY(input_open(pack->context, pack->path, &input));
    report->bytes = input.size;
    if (pack->options.features) {
        TRY(compare(pack, report));
    }
done:
    input_close(&input);
    return status;
}

static void pack_free(struct pack *pack) {
    scorer_free(pack->scorer);
    l3a_model_free(pack->model);
    l3a_tagger_free(pack->tagger);
    text_list_clear(pack->context, &pack->keys);
    text_list_clear(pack->context, &pack->values);
}

l3a_status l3a_pack_write(l3a_context *context, const char *model_path, const l3a_pack_options *options, const char *path,
                          l3a_pack_report *report) {
    struct pack pack = {.context = context, .model_path = model_path, .path = path};
    l3a_pack_report own = {.size = sizeof own};
    l3a_status status = L3A_OK;
    NEED(context, context, model_path, path);
    TRY(READ_SIZED(context, options, pack.options));
    if (report) {
        TRY(CHECK_SIZED(context, report));
    }
    FAIL_IF((unsigned)pack.options.type > L3A_PACK_INT8, context, L3A_ERROR_OPTION, NULL, "there is no type %d for coefficients",
            (int)pack.options.type);
    TRY(write_packed(&pack));
    TRY(measure(&pack, &own));
    if (report) {
        TRY(WRITE_SIZED(context, report, own));
    }
done:
    if (context) {
        pack_free(&pack);
    }
    return status;
}
