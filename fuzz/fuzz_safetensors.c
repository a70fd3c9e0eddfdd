/* safetensors files as `info` reads them: tensors fit in the file, and together they are not larger than it. Feature files and
 * models have their own targets. */
#include "fuzz.h"

static void list_file(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    l3a_file *file = NULL;
    l3a_tensor_info info = {.size = sizeof info};
    const char *key, *value;
    if (l3a_file_open(context, "any.safetensors", &file) == L3A_OK) {
        size_t record = 0;
        do {
            l3a_file_record(file, record++, &key, &value);
            must(!key == !value);
        } while (key);
        uint64_t sum = 0;
        for (size_t i = 0; l3a_file_tensor(file, i, &info); i++) {
            must(info.name && info.type && info.rank <= 8 && info.bytes <= count);
            sum += info.bytes;
        }
        must(sum <= count);
    }
    l3a_file_free(file);
    l3a_context_free(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    with_repaired_header(bytes, count, list_file);
    return 0;
}
