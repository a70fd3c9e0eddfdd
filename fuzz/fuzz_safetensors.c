/* safetensors files: as any file, as a table of features, as a model. Each input is tried as it is and with the checksum of
 * its header made right, which no mutation would hit. */
#include "fuzz.h"

#include <xxhash.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void list_file(l3a_context *context, size_t count) {
    l3a_file *file = NULL;
    l3a_tensor_info info;
    const char *key, *value;
    if (l3a_file_open(context, "any.safetensors", &file) != L3A_OK) {
        return;
    }
    size_t record = 0;
    do {
        l3a_file_record(file, record++, &key, &value);
        must(!key == !value);
    } while (key);
    uint64_t bytes = 0;
    for (size_t i = 0; l3a_file_tensor(file, i, &info); i++) {
        must(info.name && info.type && info.rank <= 8 && info.bytes <= count);
        bytes += info.bytes;
    }
    must(bytes <= count);
    l3a_file_free(file);
}

static void open_table(l3a_context *context) {
    l3a_features *features = NULL;
    if (l3a_features_open(context, "features.safetensors", &features) == L3A_OK) {
        read_table(features);
    }
    l3a_features_free(features);
}

static void load_model(l3a_context *context) {
    l3a_model *model = NULL;
    if (l3a_model_load(context, "model.safetensors", &model) == L3A_OK) {
        must(l3a_options_check(context, l3a_model_options(model)) == L3A_OK);
    }
    l3a_model_free(model);
}

static void read_as_all(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    list_file(context, count);
    open_table(context);
    load_model(context);
    l3a_context_free(context);
}

/* False when the header has no checksum. */
static bool repair_header(uint8_t *bytes, size_t count) {
    static const char key[] = "\"xxh3.header\":\"";
    uint64_t length = 0;
    if (count < 8) {
        return false;
    }
    for (size_t i = 8; i-- > 0;) {
        length = length << 8 | bytes[i];
    }
    char *header = (char *)bytes + 8, *sum = length <= count - 8 ? memmem(header, (size_t)length, key, sizeof key - 1) : NULL;
    if (!sum || (size_t)(header + length - sum) < sizeof key - 1 + 16) {
        return false;
    }
    sum += sizeof key - 1;
    char digits[17];
    memset(sum, '0', 16);
    snprintf(digits, sizeof digits, "%016" PRIx64, (uint64_t)XXH3_64bits(header, (size_t)length));
    memcpy(sum, digits, 16);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    read_as_all(bytes, count);
    uint8_t *repaired = malloc(count + 1);
    must(repaired != NULL);
    if (count) {
        memcpy(repaired, bytes, count);
    }
    if (repair_header(repaired, count)) {
        read_as_all(repaired, count);
    }
    free(repaired);
    return 0;
}
