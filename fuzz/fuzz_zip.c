/* Checkpoints as whole files: archives, their directories, and the legacy form. Entries are read before they are verified: the
 * fuzzer cannot guess a checksum, which would keep it from all the code behind the check. */
#include "fuzz.h"

#include "base/file.h"
#include "format/checkpoint.h"
#include "format/zip.h"

#include <stdlib.h>

enum { ELEMENTS_LIMIT = 1 << 20 };

static void read_entries(l3a_context *context, size_t count) {
    input_file input;
    struct zip zip;
    must(input_open(context, "weights.pth", &input) == L3A_OK);
    if (zip_open(&input, &zip) == L3A_OK) {
        for (size_t i = 0; i < zip.count; i++) {
            uint64_t offset;
            if (zip_place(&zip, &zip.entries[i], &offset) == L3A_OK) {
                must(offset <= count && zip.entries[i].size <= count - offset);
            }
            must(zip_find(&zip, zip.entries[i].name, zip.entries[i].name_length) == &zip.entries[i]);
        }
        zip_close(&zip);
    }
    input_close(&input);
}

static void read_tensors(struct checkpoint *checkpoint) {
    for (size_t i = 0; i < checkpoint_count(checkpoint); i++) {
        const struct checkpoint_tensor *tensor = checkpoint_at(checkpoint, i);
        must(checkpoint_find(checkpoint, tensor->name) == tensor);
        if (tensor->elements <= ELEMENTS_LIMIT) {
            float *values = malloc((tensor->elements + 1) * sizeof *values);
            must(values != NULL);
            (void)checkpoint_read(checkpoint, tensor, values);
            free(values);
        }
    }
    (void)checkpoint_verify(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    struct checkpoint *checkpoint = NULL;
    read_entries(context, count);
    if (checkpoint_open(context, "weights.pth", &checkpoint) == L3A_OK) {
        read_tensors(checkpoint);
    }
    checkpoint_free(checkpoint);
    l3a_context_free(context);
    return 0;
}
