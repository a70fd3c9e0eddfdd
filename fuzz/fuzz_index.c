/* Indexes that somebody has changed: whatever the database and the features say, all calls that read them end, with an answer or
 * with an error. An input that begins with "SQL" changes rows; any other one is a list of bytes to change, six bytes each: the
 * file, an offset, and the new value. The folders of the index are not searched: they could be anywhere. */
#include "fuzz.h"

#include "format/safetensors.h"
#include "library/library.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WIDTH = 64, CLASSES = 2, IMAGES = 8, PICTURES = 40, MOST_SQL = 4096, STEPS = 200000 };

static char folder[64], index_path[128], slots_path[128], backbone_path[128], model_path[128];
static l3a_context *context;
static l3a_tagger *tagger;
static struct file {
    char *bytes;
    size_t count;
} files[2];

static int no_sync(int file) {
    (void)file;
    return 0;
}

static void remove_all(void) {
    char command[128];
    l3a_tagger_free(tagger);
    l3a_context_free(context);
    free(files[0].bytes);
    free(files[1].bytes);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    must(system(command) == 0);
}

static l3a_status fill_tensor(void *argument, uint64_t offset, void *bytes, size_t count) {
    (void)argument;
    for (size_t i = 0; i + sizeof(float) <= count; i += sizeof(float)) {
        const float value = (float)((offset + i) * 2654435761u % 1000) / 2000 - 0.2F;
        memcpy((char *)bytes + i, &value, sizeof value);
    }
    return L3A_OK;
}

static void make_backbone(void) {
    static const struct {
        const char *name;
        size_t rank;
        uint64_t shape[4];
    } tensors[] = {{"cls_token", 3, {1, 1, 64}},
                   {"pos_embed", 3, {1, 10, 64}},
                   {"patch_embed.proj.weight", 4, {64, 3, 4, 4}},
                   {"patch_embed.proj.bias", 1, {64}},
                   {"blocks.0.norm1.weight", 1, {64}},
                   {"blocks.0.norm1.bias", 1, {64}},
                   {"blocks.0.attn.qkv.weight", 2, {192, 64}},
                   {"blocks.0.attn.qkv.bias", 1, {192}},
                   {"blocks.0.attn.proj.weight", 2, {64, 64}},
                   {"blocks.0.attn.proj.bias", 1, {64}},
                   {"blocks.0.norm2.weight", 1, {64}},
                   {"blocks.0.norm2.bias", 1, {64}},
                   {"blocks.0.mlp.fc1.weight", 2, {128, 64}},
                   {"blocks.0.mlp.fc1.bias", 1, {128}},
                   {"blocks.0.mlp.fc2.weight", 2, {64, 128}},
                   {"blocks.0.mlp.fc2.bias", 1, {64}},
                   {"norm.weight", 1, {64}},
                   {"norm.bias", 1, {64}},
                   {"head.weight", 2, {1000, 64}},
                   {"head.bias", 1, {1000}}};
    enum { COUNT = sizeof tensors / sizeof tensors[0] };
    tensor_source sources[COUNT];
    char *names[] = {"l3a.mean", "l3a.std"}, *numbers[] = {"0.5", "0.5"};
    const text_list keys = {.items = names, .count = 2}, values = {.items = numbers, .count = 2};
    for (size_t i = 0; i < COUNT; i++) {
        sources[i] = (tensor_source){.name = tensors[i].name, .type = TENSOR_F32, .rank = tensors[i].rank, .fill = fill_tensor};
        memcpy(sources[i].shape, tensors[i].shape, sizeof tensors[i].shape);
    }
    must(safetensors_write(context, backbone_path, &keys, &values, sources, COUNT) == L3A_OK);
}

static void make_model(void) {
    static const char *const names[CLASSES] = {"ant", "bee"};
    float values[IMAGES * WIDTH];
    int8_t labels[IMAGES * CLASSES];
    l3a_options *options = NULL;
    l3a_features *table = NULL;
    l3a_model *model = NULL;
    for (size_t i = 0; i < IMAGES * WIDTH; i++) {
        values[i] = (float)(i * 2654435761u % 1000) / 1000;
    }
    for (size_t i = 0; i < IMAGES * CLASSES; i++) {
        labels[i] = (int8_t)(i % 3 == 0);
    }
    must(l3a_options_create(context, &options) == L3A_OK && l3a_options_set(context, options, "dim", "8") == L3A_OK);
    must(l3a_features_wrap(context, values, labels, IMAGES, 1, WIDTH, names, CLASSES, &table) == L3A_OK);
    must(l3a_model_create(context, WIDTH, options, &model) == L3A_OK);
    must(l3a_model_learn(model, table, names, CLASSES) == L3A_OK);
    must(l3a_model_save(model, model_path) == L3A_OK);
    l3a_model_free(model);
    l3a_features_free(table);
    l3a_options_free(options);
}

static l3a_status open_index(l3a_library **library) {
    const l3a_library_options options = {.size = sizeof options, .index = index_path};
    *library = NULL;
    return l3a_library_open(context, tagger, &options, library);
}

static void make_index(void) {
    l3a_library *library;
    int64_t change;
    float features[WIDTH];
    const float log_sum = 7;
    must(open_index(&library) == L3A_OK && library_make_slots(library) == L3A_OK);
    struct database *database = &library->database;
    must(database_begin(database) == L3A_OK && library_next_change(library, &change) == L3A_OK);
    must(database_execute(database, "INSERT INTO root (id, path) VALUES (1, '/p');"
                                    "INSERT INTO folder (id, root, path) VALUES (1, 1, '/p/a'), (2, 1, '/p/b')") == L3A_OK);
    for (int64_t i = 0; i < PICTURES; i++) {
        const uint64_t checksum = (uint64_t)i * 1000 + 3;
        for (size_t k = 0; k < WIDTH; k++) {
            features[k] = (float)(((size_t)i / 2 * 977 + k) * 2654435761u % 1000) / 1000;
        }
        must(slots_write(&library->slots, (uint64_t)i, 1, &checksum, &log_sum, features) == L3A_OK);
        const int64_t values[] = {i, (int64_t)checksum, change, i % 2 + 1};
        must(database_run(database, "INSERT INTO feature (slot, checksum) VALUES (?1, ?2)", values, 2) == L3A_OK);
        must(database_run(database,
                          "INSERT INTO picture (folder, name, size, modified, checksum, state, slot, change) VALUES "
                          "(?4, printf('%02d.jpg', ?1), 1, 1, ?2, 1, ?1, ?3)",
                          values, 4) == L3A_OK);
    }
    must(database_end(database, L3A_OK) == L3A_OK);
    const int8_t labels[CLASSES] = {1, 0};
    const l3a_said said = {3003, labels};
    must(l3a_library_say(library, &said, 1, (const char *const[]){"ant", "bee"}, CLASSES, 0) == L3A_OK);
    must(l3a_library_score(library, 0, NULL) == L3A_OK);
    l3a_library_free(library);
}

static void keep(const char *path, struct file *file) {
    FILE *input = fopen(path, "rb");
    must(input && !fseek(input, 0, SEEK_END));
    file->count = (size_t)ftell(input);
    file->bytes = malloc(file->count);
    must(file->bytes && !fseek(input, 0, SEEK_SET) && fread(file->bytes, 1, file->count, input) == file->count);
    fclose(input);
}

static void prepare(void) {
    static file_operations quick;
    snprintf(folder, sizeof folder, "/tmp/fuzz-index-XXXXXX");
    must(mkdtemp(folder) != NULL);
    snprintf(index_path, sizeof index_path, "%s/x.library", folder);
    snprintf(slots_path, sizeof slots_path, "%s/x.library.features-1", folder);
    snprintf(backbone_path, sizeof backbone_path, "%s/backbone.safetensors", folder);
    snprintf(model_path, sizeof model_path, "%s/model", folder);
    const l3a_context_options options = {.size = sizeof options, .threads = 1};
    must(l3a_context_create(&options, &context) == L3A_OK);
    quick = posix_files;
    quick.sync = no_sync;
    context->files = &quick;
    make_backbone();
    make_model();
    const l3a_tagger_options with = {.size = sizeof with, .backbone = backbone_path};
    must(l3a_tagger_open(context, model_path, &with, &tagger) == L3A_OK);
    make_index();
    keep(index_path, &files[0]);
    keep(slots_path, &files[1]);
    atexit(remove_all);
}

static void put(const char *path, const struct file *file) {
    const int output = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(output >= 0 && write(output, file->bytes, file->count) == (ssize_t)file->count && !close(output));
}

static void remove_others(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -f %s/x.library*", folder);
    must(system(command) == 0);
}

static int too_long(void *user) {
    return ++*(int *)user > STEPS / 1000;
}

/* Statements that fail change nothing. */
static void run_sql(const uint8_t *bytes, size_t count) {
    char text[MOST_SQL + 1];
    sqlite3 *database = NULL;
    int steps = 0;
    count = count < MOST_SQL ? count : MOST_SQL;
    memcpy(text, bytes, count);
    text[count] = '\0';
    must(sqlite3_open(index_path, &database) == SQLITE_OK);
    sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(database, SQLITE_LIMIT_LENGTH, 200000);
    sqlite3_progress_handler(database, 1000, too_long, &steps);
    sqlite3_exec(database, "PRAGMA max_page_count = 300; PRAGMA synchronous = OFF", NULL, NULL, NULL);
    sqlite3_exec(database, text, NULL, NULL, NULL);
    sqlite3_close(database);
}

static void change_bytes(const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i + 6 <= count; i += 6) {
        uint32_t offset;
        memcpy(&offset, bytes + i + 1, sizeof offset);
        const int output = open(bytes[i] & 1 ? slots_path : index_path, O_WRONLY);
        const size_t length = files[bytes[i] & 1].count;
        must(output >= 0 && pwrite(output, bytes + i + 5, 1, (off_t)(offset % length)) == 1);
        must(!(bytes[i] & 128) || !ftruncate(output, (off_t)(offset % length)));
        must(!close(output));
    }
}

static void find_all(l3a_library *library) {
    static const char *const texts[] = {"ant",       "not bee or ant",     "folder:a", "name:1",
                                        "is:unsure", "is:said since:1990", "is:other"};
    static const char *const sorts[] = {NULL, "name", "novel"};
    static const uint64_t like = 2;
    for (size_t i = 0; i < 23; i++) {
        l3a_find_options options = {.size = sizeof options, .where = texts[i % 7], .sort = sorts[i / 7 % 3]};
        l3a_found *found = NULL;
        options.word = i == 21 ? "dog" : NULL;
        options.like = &like;
        options.like_count = i == 22;
        l3a_status status = l3a_library_find(library, &options, &found);
        for (size_t k = 0; status == L3A_OK && k < l3a_found_count(found); k++) {
            l3a_library_picture picture = {.size = sizeof picture};
            float features[WIDTH];
            l3a_library_picture_at(library, l3a_found_id(found, k), &picture);
            l3a_library_features(library, l3a_found_id(found, k), features);
        }
        l3a_found_free(found);
    }
}

static void use_all(l3a_library *library) {
    l3a_library_info info = {.size = sizeof info};
    float sample[4 * WIDTH];
    uint64_t checksums[4], said, predicted, id;
    size_t count;
    const char *problem;
    l3a_found *found = NULL;
    find_all(library);
    l3a_library_duplicates(library, 0, &found);
    l3a_found_free(found);
    l3a_library_describe(library, &info);
    l3a_library_count(library, "ant", &said, &predicted);
    l3a_library_sample(library, 4, sample, checksums, &count);
    l3a_library_folder(library, 0, &problem);
    l3a_library_picture_find(library, "/p/a/00.jpg", &id);
    l3a_library_picture_known(library, 3003, &id);
    l3a_library_score(library, 0, NULL);
    find_all(library);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    l3a_library *library;
    if (!context) {
        prepare();
    }
    remove_others();
    put(index_path, &files[0]);
    put(slots_path, &files[1]);
    if (count > 3 && memcmp(bytes, "SQL", 3) == 0) {
        run_sql(bytes + 3, count - 3);
    } else {
        change_bytes(bytes, count);
    }
    if (open_index(&library) == L3A_OK) {
        use_all(library);
        l3a_library_free(library);
    }
    return 0;
}
