/* Checkpoints in all three forms, made here byte by byte: their values, files cut to every length, every flipped bit, every failed
 * allocation, and how little is read. If it is called with files, it prints what they hold; tests/oracle/test_checkpoints.py
 * compares that with torch's own numbers. */
#include "support.h"

#include "base/file.h"
#include "format/checkpoint.h"
#include "format/safetensors.h"
#include "memory_file.h"
#include "memory_probe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Bytes under construction ---- */

struct bytes {
    char *at;
    size_t count, room;
};

static void put(struct bytes *bytes, const void *from, size_t count) {
    if (bytes->room - bytes->count < count) {
        bytes->room = 2 * bytes->room + count;
        bytes->at = realloc(bytes->at, bytes->room);
        assert_non_null(bytes->at);
    }
    if (count) {
        memcpy(bytes->at + bytes->count, from, count);
    }
    bytes->count += count;
}

static void put_number(struct bytes *bytes, size_t size, uint64_t number) {
    for (size_t i = 0; i < size; i++) {
        put(bytes, &(char){(char)(i < 8 ? number >> 8 * i : 0)}, 1);
    }
}

#define PUT(bytes, text) put(bytes, text, sizeof(text) - 1)

/* ---- Zip ---- */

static uint32_t slow_crc(const char *bytes, size_t count) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < 8 * count; i++) {
        const uint32_t bit = (crc ^ (uint32_t)(unsigned char)bytes[i / 8] >> i % 8) & 1;
        crc = crc >> 1 ^ (bit ? UINT32_C(0xEDB88320) : 0);
    }
    return ~crc;
}

struct archive {
    struct bytes file, directory;
    unsigned entries;
    unsigned method, flags; /* of the following entries */
    bool wide;              /* 64-bit numbers, whether needed or not */
};

static void zip_add(struct archive *archive, const char *name, const char *bytes, size_t count) {
    struct bytes *file = &archive->file, *directory = &archive->directory;
    const uint32_t crc = slow_crc(bytes, count);
    const size_t header = file->count;
    PUT(file, "PK\3\4\0\0");
    put_number(file, 2, archive->flags);
    put_number(file, 2, archive->method);
    put_number(file, 4, 0);
    put_number(file, 12, 0);
    put_number(file, 2, strlen(name));
    put_number(file, 2, 5);
    put(file, name, strlen(name));
    PUT(file, "FB\1\0Z");
    put(file, bytes, count);
    PUT(directory, "PK\1\2\0\0\0\0");
    put_number(directory, 2, archive->flags);
    put_number(directory, 2, archive->method);
    put_number(directory, 4, 0);
    put_number(directory, 4, crc);
    put_number(directory, 4, archive->wide ? UINT32_MAX : count);
    put_number(directory, 4, archive->wide ? UINT32_MAX : count);
    put_number(directory, 2, strlen(name));
    put_number(directory, 2, archive->wide ? 28 : 0);
    put_number(directory, 10, 0);
    put_number(directory, 4, archive->wide ? UINT32_MAX : header);
    put(directory, name, strlen(name));
    if (archive->wide) {
        put_number(directory, 2, 1);
        put_number(directory, 2, 24);
        put_number(directory, 8, count);
        put_number(directory, 8, count);
        put_number(directory, 8, header);
    }
    archive->entries++;
}

static struct bytes zip_finish(struct archive *archive) {
    struct bytes *file = &archive->file;
    const size_t at = file->count, size = archive->directory.count, end64 = at + size;
    put(file, archive->directory.at, size);
    if (archive->wide) {
        PUT(file, "PK\6\6");
        put_number(file, 8, 44);
        put_number(file, 12, 0);
        put_number(file, 8, archive->entries);
        put_number(file, 8, archive->entries);
        put_number(file, 8, size);
        put_number(file, 8, at);
        PUT(file, "PK\6\7\0\0\0\0");
        put_number(file, 8, end64);
        put_number(file, 4, 1);
    }
    PUT(file, "PK\5\6\0\0\0\0");
    put_number(file, 2, archive->wide ? UINT16_MAX : archive->entries);
    put_number(file, 2, archive->wide ? UINT16_MAX : archive->entries);
    put_number(file, 4, archive->wide ? UINT32_MAX : size);
    put_number(file, 4, archive->wide ? UINT32_MAX : at);
    put_number(file, 2, 0);
    free(archive->directory.at);
    const struct bytes made = *file;
    memset(archive, 0, sizeof *archive);
    return made;
}

/* ---- The object: five tensors in four storages under `state_dict`, and beside them values that cannot be read ---- */

static void put_text(struct bytes *pickle, const char *text) {
    PUT(pickle, "X");
    put_number(pickle, 4, strlen(text));
    put(pickle, text, strlen(text));
}

static void put_tuple(struct bytes *pickle, size_t count, const unsigned *numbers) {
    PUT(pickle, "(");
    for (size_t i = 0; i < count; i++) {
        PUT(pickle, "M");
        put_number(pickle, 2, numbers[i]);
    }
    PUT(pickle, "t");
}

struct view {
    const char *name, *class, *key;
    unsigned elements, first;
    size_t rank;
    unsigned shape[3], stride[3];
};

static void put_tensor(struct bytes *pickle, const struct view *view) {
    put_text(pickle, view->name);
    PUT(pickle, "ctorch._utils\n_rebuild_tensor_v2\n((");
    put_text(pickle, "storage");
    PUT(pickle, "ctorch\n");
    put(pickle, view->class, strlen(view->class));
    PUT(pickle, "\n");
    put_text(pickle, view->key);
    put_text(pickle, "cpu");
    PUT(pickle, "M");
    put_number(pickle, 2, view->elements);
    PUT(pickle, "tQM");
    put_number(pickle, 2, view->first);
    put_tuple(pickle, view->rank, view->shape);
    put_tuple(pickle, view->rank, view->stride);
    PUT(pickle, "\x89"
                "ccollections\nOrderedDict\n)RtR");
}

static const struct view views[] = {
    {"module.a.weight", "FloatStorage", "0", 6, 0, 2, {2, 3}, {3, 1}},
    {"a.turned", "FloatStorage", "0", 6, 0, 2, {3, 2}, {1, 3}},
    {"a.column", "FloatStorage", "0", 6, 1, 1, {2}, {3}},
    {"half", "HalfStorage", "1", 1, 0, 0, {0}, {0}},
    {"tracked", "LongStorage", "2", 1, 0, 0, {0}, {0}},
    {"empty", "FloatStorage", "3", 0, 0, 2, {0, 4}, {4, 1}},
};
enum { VIEWS = sizeof views / sizeof views[0] };

static const float stored[6] = {0.5f, 1, 1.5f, 2, 2.5f, 3};
static const struct {
    const char *name, *type;
    size_t count;
    float values[6];
} expected[VIEWS] = {
    {"a.weight", "F32", 6, {0.5f, 1, 1.5f, 2, 2.5f, 3}},
    {"a.turned", "F32", 6, {0.5f, 2, 1, 2.5f, 1.5f, 3}},
    {"a.column", "F32", 2, {1, 2.5f}},
    {"half", "F16", 1, {1.5f}},
    {"tracked", "I64", 1, {7}},
    {"empty", "F32", 0, {0}},
};
static const struct {
    const char *key, *bytes;
    size_t count, elements;
} storages[4] = {{"0", (const char *)stored, 24, 6}, {"1", "\0\x3e", 2, 1}, {"2", "\7\0\0\0\0\0\0\0", 8, 1}, {"3", "", 0, 0}};

static struct bytes make_object(const struct view *list, size_t count) {
    struct bytes pickle = {0};
    PUT(&pickle, "\x80\2}(");
    put_text(&pickle, "args");
    PUT(&pickle, "cargparse\nNamespace\n)\x81}(");
    put_text(&pickle, "lr");
    PUT(&pickle, "G?\xf0\0\0\0\0\0\0ub");
    put_text(&pickle, "state_dict");
    PUT(&pickle, "ccollections\nOrderedDict\n)R(");
    for (size_t i = 0; i < count; i++) {
        put_tensor(&pickle, &list[i]);
    }
    PUT(&pickle, "u}");
    put_text(&pickle, "_metadata");
    PUT(&pickle, "}sbu.");
    return pickle;
}

/* The same tensors in objects of TorchScript: the names are divided at the dots. */
static struct bytes make_script_object(void) {
    static const struct {
        const char *name;
        size_t first, count, skip; /* skip: what the tensors' names lose */
    } objects[] = {{"module", 0, 0, 0}, {"a", 0, 1, 9}, {"a", 1, 2, 2}};
    struct bytes pickle = {0};
    PUT(&pickle, "\x80\2c__torch__\nNet\n)\x81}(");
    for (size_t i = 0; i < 3; i++) {
        put_text(&pickle, objects[i].name);
        PUT(&pickle, "c__torch__.torch.nn.modules\nPart\n)\x81}(");
        for (size_t k = 0; k < objects[i].count; k++) {
            struct view inner = views[objects[i].first + k];
            inner.name += objects[i].skip;
            put_tensor(&pickle, &inner);
        }
        put_text(&pickle, "training");
        PUT(&pickle, "\x89");
        put(&pickle, "ubub", i == 0 ? 0 : i == 1 ? 4 : 2);
    }
    for (size_t i = 3; i < VIEWS; i++) {
        put_tensor(&pickle, &views[i]);
    }
    PUT(&pickle, "ub.");
    return pickle;
}

/* Frees the pickle. */
static struct bytes make_zip_around(struct archive *archive, struct bytes pickle) {
    zip_add(archive, "any name/data.pkl", pickle.at, pickle.count);
    zip_add(archive, "any name/byteorder", "little", 6);
    for (size_t i = 0; i < 4; i++) {
        char name[40];
        snprintf(name, sizeof name, "any name/data/%s", storages[i].key);
        zip_add(archive, name, storages[i].bytes, storages[i].count);
    }
    zip_add(archive, "any name/version", "3\n", 2);
    free(pickle.at);
    return zip_finish(archive);
}

static struct bytes make_zip_of(struct archive *archive, const struct view *list, size_t count) {
    return make_zip_around(archive, make_object(list, count));
}

static struct bytes make_script(void) {
    struct archive archive = {.wide = true};
    return make_zip_around(&archive, make_script_object());
}

static struct bytes make_zip(bool wide) {
    struct archive archive = {.wide = wide};
    return make_zip_of(&archive, views, VIEWS);
}

static struct bytes make_legacy(void) {
    struct bytes file = {0}, object = make_object(views, VIEWS);
    PUT(&file, "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3.\x80\2}(");
    put_text(&file, "little_endian");
    PUT(&file, "\x88u.");
    put(&file, object.at, object.count);
    PUT(&file, "\x80\2](");
    for (size_t i = 4; i-- > 0;) {
        put_text(&file, storages[i].key);
    }
    PUT(&file, "e.");
    for (size_t i = 4; i-- > 0;) {
        put_number(&file, 8, storages[i].elements);
        put(&file, storages[i].bytes, storages[i].count);
    }
    free(object.at);
    return file;
}

static struct bytes make_safetensors(void) {
    struct bytes file = {0};
    static const char header[] = "{\"module.a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                                 "\"half\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[24,26]}}";
    put_number(&file, 8, sizeof header - 1);
    put(&file, header, sizeof header - 1);
    put(&file, stored, sizeof stored);
    PUT(&file, "\0\x3e");
    return file;
}

/* The numbers as they are stored are those that were read as float. */
static l3a_status read_stored(struct checkpoint *checkpoint, const struct checkpoint_tensor *tensor, const float *values) {
    const tensor_type type = tensor_type_find(tensor->type, strlen(tensor->type));
    float *same = malloc((tensor->elements + 1) * sizeof *same);
    char *bytes = malloc((tensor->elements + 1) * tensor_type_size(type));
    const l3a_status status = checkpoint_read_bytes(checkpoint, tensor, bytes);
    if (status == L3A_OK) {
        tensor_to_float(type, bytes, same, tensor->elements);
        assert_memory_equal(same, values, tensor->elements * sizeof *same);
    }
    free(bytes);
    free(same);
    return status;
}

/* Opens the file in memory, and reads every tensor that is not absurdly large; *right is true if everything is as written. */
static l3a_status open_and_read(l3a_context *context, bool *right) {
    l3a_status status = L3A_OK;
    struct checkpoint *checkpoint = NULL;
    float *values = NULL;
    *right = false;
    TRY(checkpoint_open(context, "weights.pth", &checkpoint));
    *right = checkpoint_count(checkpoint) == VIEWS;
    for (size_t i = 0; i < checkpoint_count(checkpoint); i++) {
        const struct checkpoint_tensor *tensor = checkpoint_at(checkpoint, i);
        assert_true(tensor->elements <= memory_file.count);
        values = malloc((tensor->elements + 1) * sizeof *values);
        TRY(checkpoint_read(checkpoint, tensor, values));
        TRY(read_stored(checkpoint, tensor, values));
        *right = *right && strcmp(tensor->name, expected[i].name) == 0 && tensor->elements == expected[i].count &&
                 strcmp(tensor->type, expected[i].type) == 0 &&
                 memcmp(values, expected[i].values, expected[i].count * sizeof *values) == 0;
        free(values);
        values = NULL;
    }
done:
    free(values);
    checkpoint_free(checkpoint);
    return status;
}

static void expect_failure(struct bytes file, l3a_status wanted, const char *contains) {
    l3a_context *context = make_context(1);
    bool right;
    hold_file(context, file.at, file.count);
    const l3a_status status = open_and_read(context, &right);
    assert_fails(context, status, wanted, contains);
    assert_non_null(strstr(l3a_error_text(context), "weights.pth"));
    assert_true(strlen(l3a_error_hint(context)) > 0);
    l3a_context_free(context);
    free(file.at);
}

/* ---- What is right ---- */

static void expect_all(struct bytes file, const char *form) {
    l3a_context *context = make_context(1);
    struct checkpoint *checkpoint = NULL;
    bool right;
    hold_file(context, file.at, file.count);
    assert_ok(context, open_and_read(context, &right));
    assert_true(right);
    assert_ok(context, checkpoint_open(context, "weights.pth", &checkpoint));
    assert_string_equal(checkpoint_form(checkpoint), form);
    assert_string_equal(checkpoint_path(checkpoint), "weights.pth");
    const struct checkpoint_tensor *turned = checkpoint_find(checkpoint, "a.turned");
    assert_non_null(turned);
    assert_int_equal(turned->rank, 2);
    assert_int_equal(turned->shape[0], 3);
    assert_int_equal(turned->shape[1], 2);
    assert_null(checkpoint_find(checkpoint, "module.a.weight"));
    assert_null(checkpoint_at(checkpoint, VIEWS));
    const l3a_status status = checkpoint_read(checkpoint, NULL, NULL);
    assert_fails(context, status, L3A_ERROR_ARGUMENT, "weights.pth: no such tensor");
    checkpoint_free(checkpoint);
    l3a_context_free(context);
    free(file.at);
}

static void test_each_form_gives_the_values(void **state) {
    (void)state;
    expect_all(make_zip(false), "torch zip");
    expect_all(make_zip(true), "torch zip");
    expect_all(make_script(), "torchscript");
    expect_all(make_legacy(), "torch legacy");
}

static void test_safetensors_give_the_values_without_the_prefix(void **state) {
    (void)state;
    struct bytes file = make_safetensors();
    l3a_context *context = make_context(1);
    struct checkpoint *checkpoint = NULL;
    float values[6];
    char sum[65];
    hold_file(context, file.at, file.count);
    assert_ok(context, checkpoint_open(context, "weights", &checkpoint));
    assert_string_equal(checkpoint_form(checkpoint), "safetensors");
    assert_ok(context, checkpoint_read(checkpoint, checkpoint_find(checkpoint, "a.weight"), values));
    assert_memory_equal(values, stored, sizeof stored);
    assert_ok(context, checkpoint_read(checkpoint, checkpoint_find(checkpoint, "half"), values));
    assert_true(values[0] == 1.5f);
    assert_ok(context, checkpoint_sha256(checkpoint, sum));
    assert_int_equal(strlen(sum), 64);
    checkpoint_free(checkpoint);
    l3a_context_free(context);
    free(file.at);
}

static void test_info_knows_checkpoints(void **state) {
    (void)state;
    struct bytes file = make_zip(true);
    l3a_context *context = make_context(1);
    l3a_file *opened = NULL;
    l3a_tensor_info info = {.size = sizeof info};
    hold_file(context, file.at, file.count);
    assert_ok(context, l3a_file_open(context, "weights.pth", &opened));
    assert_string_equal(l3a_file_kind(opened), "checkpoint");
    assert_int_equal(l3a_file_size(opened), file.count);
    assert_int_equal(l3a_file_tensor(opened, 0, &info), 1);
    assert_string_equal(info.name, "a.weight");
    assert_int_equal(info.bytes, 24);
    assert_int_equal(info.verified, 1);
    assert_int_equal(l3a_file_tensor(opened, VIEWS, &info), 0);
    l3a_file_free(opened);
    l3a_context_free(context);
    free(file.at);
}

/* ---- What is wrong ---- */

static void test_every_length_a_file_can_be_cut_to_is_an_error(void **state) {
    (void)state;
    struct bytes files[] = {make_zip(false), make_zip(true), make_script(), make_legacy()};
    l3a_context *context = make_context(1);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        for (size_t cut = 0; cut < files[i].count; cut++) {
            bool right;
            hold_file(context, files[i].at, cut);
            const l3a_status status = open_and_read(context, &right);
            assert_true(status == L3A_ERROR_FORMAT || status == L3A_ERROR_TRUNCATED);
            assert_non_null(strstr(l3a_error_text(context), "weights.pth"));
        }
        free(files[i].at);
    }
    l3a_context_free(context);
}

/* An archive has checksums, so whatever remains readable after a bit flip has the right values. The tensors of the legacy form have
 * none, so a bit flip must only do no harm. */
static void test_every_flipped_bit_is_an_error_or_does_not_matter(void **state) {
    (void)state;
    struct bytes files[] = {make_zip(false), make_zip(true), make_script(), make_legacy()};
    l3a_context *context = make_context(1);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        for (size_t bit = 0; bit < 8 * files[i].count; bit++) {
            bool right;
            files[i].at[bit / 8] ^= (char)(1 << bit % 8);
            hold_file(context, files[i].at, files[i].count);
            const l3a_status status = open_and_read(context, &right);
            assert_true(status != L3A_OK || right || i == 3);
            files[i].at[bit / 8] ^= (char)(1 << bit % 8);
        }
        free(files[i].at);
    }
    l3a_context_free(context);
}

static void test_archives_that_are_not_what_torch_writes(void **state) {
    (void)state;
    struct archive archive = {.method = 8};
    expect_failure(make_zip_of(&archive, views, VIEWS), L3A_ERROR_FORMAT, "is compressed");
    archive.flags = 1;
    expect_failure(make_zip_of(&archive, views, VIEWS), L3A_ERROR_FORMAT, "is encrypted");
    zip_add(&archive, "readme.txt", "hello", 5);
    expect_failure(zip_finish(&archive), L3A_ERROR_FORMAT, "has no data.pkl");
    expect_failure(zip_finish(&archive), L3A_ERROR_FORMAT, "has no data.pkl");
    zip_add(&archive, "a/data.pkl", "\x80\2}.", 4);
    zip_add(&archive, "a/byteorder", "big", 3);
    expect_failure(zip_finish(&archive), L3A_ERROR_FORMAT, "big-endian");
    zip_add(&archive, "a/data.pkl", "\x80\2}.", 4);
    expect_failure(zip_finish(&archive), L3A_ERROR_FORMAT, "no weights");
    zip_add(&archive, "a/data.pkl", "\x80\2}", 3);
    expect_failure(zip_finish(&archive), L3A_ERROR_TRUNCATED, "byte ");
    zip_add(&archive, "a/data.pkl", "\x80\2}.", 4);
    zip_add(&archive, "a/data.pkl", "\x80\2}.", 4);
    expect_failure(zip_finish(&archive), L3A_ERROR_FORMAT, "two entries");
}

static void expect_view_failure(struct view view, l3a_status wanted, const char *contains) {
    struct archive archive = {0};
    expect_failure(make_zip_of(&archive, &view, 1), wanted, contains);
}

static void test_tensors_that_do_not_fit_their_storage(void **state) {
    (void)state;
    expect_view_failure((struct view){"t", "FloatStorage", "0", 6, 0, 1, {7}, {1}}, L3A_ERROR_TRUNCATED,
                        "tensor 't' needs 28 bytes of its storage, which has 24");
    expect_view_failure((struct view){"t", "FloatStorage", "0", 6, 1, 2, {2, 3}, {3, 1}}, L3A_ERROR_TRUNCATED,
                        "tensor 't' needs 28");
    expect_view_failure((struct view){"t", "DoubleStorage", "0", 6, 0, 1, {6}, {1}}, L3A_ERROR_TRUNCATED, "tensor 't' needs 48");
    expect_view_failure((struct view){"t", "FloatStorage", "9", 6, 0, 1, {6}, {1}}, L3A_ERROR_FORMAT,
                        "storage '9', which is missing");
    expect_view_failure((struct view){"t", "FloatStorage", "0", 6, 0, 3, {6, 65535, 65535}, {1, 0, 0}}, L3A_ERROR_FORMAT,
                        "expands");
    expect_view_failure((struct view){"module.", "ComplexFloatStorage", "0", 3, 0, 1, {3}, {1}}, L3A_ERROR_FORMAT, "no weights");
    const struct view twice[2] = {{"t", "FloatStorage", "0", 6, 0, 1, {6}, {1}},
                                  {"module.t", "FloatStorage", "0", 6, 0, 1, {6}, {1}}};
    struct archive archive = {0};
    expect_failure(make_zip_of(&archive, twice, 2), L3A_ERROR_FORMAT, "'t' is listed twice");
}

static void test_a_number_that_is_none_names_the_tensor(void **state) {
    (void)state;
    struct archive archive = {0};
    const struct view view = {"w", "FloatStorage", "n", 2, 0, 1, {2}, {1}};
    struct bytes pickle = make_object(&view, 1);
    zip_add(&archive, "x/data.pkl", pickle.at, pickle.count);
    zip_add(&archive, "x/data/n", "\0\0\0\0\0\0\xc0\x7f", 8);
    expect_failure(zip_finish(&archive), L3A_ERROR_DATA, "tensor 'w': element 1 is nan");
    free(pickle.at);
}

static struct bytes text_file(const char *text) {
    struct bytes file = {0};
    put(&file, text, strlen(text));
    return file;
}

static void test_foreign_files(void **state) {
    (void)state;
    expect_failure(text_file(""), L3A_ERROR_FORMAT, "not a checkpoint");
    expect_failure(text_file("<!DOCTYPE html><html>"), L3A_ERROR_FORMAT, "not a checkpoint");
    expect_failure(text_file("version https://git-lfs.github.com/spec/v1\n"), L3A_ERROR_FORMAT, "not a checkpoint");
    expect_failure(text_file("\x80\2}q."), L3A_ERROR_FORMAT, "not a checkpoint");
    expect_failure(text_file("PK\3\4 and then nothing"), L3A_ERROR_TRUNCATED, "incomplete");
    l3a_context *context = make_context(1);
    struct checkpoint *checkpoint = NULL;
    const l3a_status status = checkpoint_open(context, "/no/such/file.pth", &checkpoint);
    assert_fails(context, status, L3A_ERROR_NOT_FOUND, "/no/such/file.pth");
    l3a_context_free(context);
}

static void test_objects_that_refer_to_themselves(void **state) {
    (void)state;
    struct archive archive = {0};
    static const char loop[] = "\x80\2}q\0(X\5\0\0\0modelh\0X\n\0\0\0state_dicth\0X\x0b\0\0\0model_stateh\0u.";
    zip_add(&archive, "a/data.pkl", loop, sizeof loop - 1);
    expect_failure(zip_finish(&archive), L3A_ERROR_FORMAT, "no weights");
}

static void test_a_command_in_a_state_dict_is_not_run(void **state) {
    (void)state;
    char *folder = make_temporary_folder(), *made = path_in(folder, "made"), command[256];
    const struct view view = {"w", "FloatStorage", "0", 6, 0, 1, {6}, {1}};
    struct archive archive = {0};
    struct bytes pickle = {0};
    l3a_context *context = make_context(1);
    struct checkpoint *checkpoint = NULL;
    snprintf(command, sizeof command, "touch '%s'", made);
    PUT(&pickle, "\x80\2}(");
    put_text(&pickle, "evil");
    PUT(&pickle, "cposix\nsystem\n(");
    put_text(&pickle, command);
    PUT(&pickle, "tR");
    put_tensor(&pickle, &view);
    PUT(&pickle, "u.");
    zip_add(&archive, "a/data.pkl", pickle.at, pickle.count);
    zip_add(&archive, "a/data/0", (const char *)stored, sizeof stored);
    struct bytes file = zip_finish(&archive);
    hold_file(context, file.at, file.count);
    assert_ok(context, checkpoint_open(context, "weights.pth", &checkpoint));
    assert_int_equal(checkpoint_count(checkpoint), 1);
    assert_string_equal(checkpoint_at(checkpoint, 0)->name, "w");
    assert_int_not_equal(access(made, F_OK), 0);
    checkpoint_free(checkpoint);
    l3a_context_free(context);
    free(file.at);
    free(pickle.at);
    free(made);
    remove_folder(folder);
}

/* ---- Little is read ---- */

static void test_opening_reads_no_numbers_and_reading_only_those_of_the_tensor(void **state) {
    (void)state;
    enum { LARGE = 8 << 20, SMALL = 4096 };
    const struct view list[2] = {{"large", "FloatStorage", "l", 2, 0, 1, {2}, {1}},
                                 {"small", "FloatStorage", "s", SMALL / 4, 0, 1, {SMALL / 4}, {1}}};
    struct archive archive = {0};
    struct bytes pickle = make_object(list, 2);
    char *zeros = calloc(LARGE, 1);
    float *values = malloc(SMALL);
    l3a_context *context = make_context(1);
    struct checkpoint *checkpoint = NULL;
    assert_true(zeros && values);
    zip_add(&archive, "a/data.pkl", pickle.at, pickle.count);
    zip_add(&archive, "a/data/l", zeros, LARGE);
    zip_add(&archive, "a/data/s", zeros, SMALL);
    struct bytes file = zip_finish(&archive);
    hold_file(context, file.at, file.count);
    assert_ok(context, checkpoint_open(context, "weights.pth", &checkpoint));
    assert_true(memory_file.read < 100000);
    memory_file.read = 0;
    assert_ok(context, checkpoint_read(checkpoint, checkpoint_find(checkpoint, "small"), values));
    assert_true(memory_file.read < SMALL + 100);
    assert_ok(context, checkpoint_read(checkpoint, checkpoint_find(checkpoint, "large"), values));
    memory_file.read = 0;
    assert_ok(context, checkpoint_read(checkpoint, checkpoint_find(checkpoint, "large"), values));
    assert_true(memory_file.read < 100);
    checkpoint_free(checkpoint);
    l3a_context_free(context);
    free(file.at);
    free(pickle.at);
    free(zeros);
    free(values);
}

/* ---- No memory ---- */

static void expect_refusals_are_survived(struct bytes file) {
    struct memory_probe probe = {0};
    l3a_context *context = make_probed_context(&probe, 0);
    hold_file(context, file.at, file.count);
    const long before = probe.blocks;
    l3a_status status = L3A_ERROR_MEMORY;
    size_t failures = 0;
    while (status != L3A_OK) {
        bool right;
        probe_restart(&probe, ++failures, false);
        status = open_and_read(context, &right);
        assert_true(status == L3A_OK || status == L3A_ERROR_MEMORY);
        assert_int_equal(probe.blocks, before);
        if (status != L3A_OK) {
            assert_non_null(strstr(l3a_error_text(context), "out of memory"));
        }
    }
    assert_true(failures > 10);
    l3a_context_free(context);
    free(file.at);
}

static void test_any_allocation_may_fail(void **state) {
    (void)state;
    expect_refusals_are_survived(make_zip(true));
    expect_refusals_are_survived(make_script());
    expect_refusals_are_survived(make_legacy());
    expect_refusals_are_survived(make_safetensors());
}

/* ---- For the comparison with torch ---- */

/* One line per tensor: name, type, shape, values in hexadecimal, separated by tabs. */
static int print_file(l3a_context *context, const char *path) {
    l3a_status status = L3A_OK;
    struct checkpoint *checkpoint = NULL;
    float *values = NULL;
    char sum[65];
    TRY(checkpoint_open(context, path, &checkpoint));
    TRY(checkpoint_sha256(checkpoint, sum));
    printf("file\t%s\t%s\n", checkpoint_form(checkpoint), sum);
    for (size_t i = 0; i < checkpoint_count(checkpoint); i++) {
        const struct checkpoint_tensor *tensor = checkpoint_at(checkpoint, i);
        values = malloc((tensor->elements + 1) * sizeof *values);
        TRY(checkpoint_read(checkpoint, tensor, values));
        printf("tensor\t%s\t%s\t", tensor->name, tensor->type);
        for (size_t k = 0; k < tensor->rank; k++) {
            printf("%s%" PRIu64, k ? "," : "", tensor->shape[k]);
        }
        printf("\t");
        for (uint64_t k = 0; k < tensor->elements; k++) {
            printf("%s%a", k ? "," : "", (double)values[k]);
        }
        printf("\n");
        free(values);
        values = NULL;
    }
done:
    if (status != L3A_OK) {
        printf("error\t%s\t%s\t%s\n", l3a_status_name(status), l3a_error_text(context), l3a_error_hint(context));
    }
    free(values);
    checkpoint_free(checkpoint);
    return status == L3A_OK ? 0 : 1;
}

static int print_files(int count, char **paths) {
    l3a_context *context = NULL;
    if (l3a_context_create(NULL, &context) != L3A_OK) {
        return 1;
    }
    for (int i = 0; i < count; i++) {
        printf("path\t%s\n", paths[i]);
        print_file(context, paths[i]);
    }
    l3a_context_free(context);
    return 0;
}

int main(int count, char **arguments) {
    if (count > 1) {
        return print_files(count - 1, arguments + 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_form_gives_the_values),
        cmocka_unit_test(test_safetensors_give_the_values_without_the_prefix),
        cmocka_unit_test(test_info_knows_checkpoints),
        cmocka_unit_test(test_every_length_a_file_can_be_cut_to_is_an_error),
        cmocka_unit_test(test_every_flipped_bit_is_an_error_or_does_not_matter),
        cmocka_unit_test(test_archives_that_are_not_what_torch_writes),
        cmocka_unit_test(test_tensors_that_do_not_fit_their_storage),
        cmocka_unit_test(test_a_number_that_is_none_names_the_tensor),
        cmocka_unit_test(test_foreign_files),
        cmocka_unit_test(test_objects_that_refer_to_themselves),
        cmocka_unit_test(test_a_command_in_a_state_dict_is_not_run),
        cmocka_unit_test(test_opening_reads_no_numbers_and_reading_only_those_of_the_tensor),
        cmocka_unit_test(test_any_allocation_may_fail),
    };
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    release_file();
    return failures;
}
