/* Pickles: first alone, where every value must refer only to things that exist; then as the object of a checkpoint in the legacy
 * form, with two storages appended. */
#include "fuzz.h"

#include "base/file.h"
#include "format/checkpoint.h"
#include "format/pickle.h"

#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_LIMIT = 1 << 16 };

static const char before[] = "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3.\x80\2}.";
static const char behind[] = "\x80\2](U\1"
                             "0U\1"
                             "1e."
                             "\4\0\0\0\0\0\0\0"
                             "aaaabbbbccccdddd"
                             "\2\0\0\0\0\0\0\0"
                             "eeeeffff";

static void check_value(const struct pickle *pickle, const struct pickle_value *value) {
    switch (value->kind) {
    case PICKLE_TEXT:
        must(value->as.text.at <= pickle->bytes.loaded && value->as.text.length <= pickle->bytes.loaded - value->as.text.at);
        break;
    case PICKLE_STORAGE: must(value->as.index < pickle->storages.count); break;
    case PICKLE_TENSOR: must(value->as.index < pickle->tensors.count); break;
    case PICKLE_DICT: must(value->as.items.count % 2 == 0); break;
    case PICKLE_OBJECT:
        must(value->as.index < pickle->values.count);
        must(!value->as.index || pickle_at(pickle, value->as.index)->kind == PICKLE_DICT);
        break;
    default: break;
    }
    if (value->kind >= PICKLE_LIST && value->kind <= PICKLE_SET) {
        uint32_t count = 0;
        for (uint32_t link = value->as.items.first; link; link = pickle->links.items[link].next) {
            must(link < pickle->links.count && pickle->links.items[link].value < pickle->values.count);
            count++;
        }
        must(count == value->as.items.count);
    }
}

static void read_alone(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    input_file input;
    struct pickle pickle;
    must(input_open(context, "data.pkl", &input) == L3A_OK);
    if (pickle_read(&input, 0, count, &pickle) == L3A_OK) {
        must(pickle.bytes.at <= count && pickle.root < pickle.values.count);
        for (size_t i = 0; i < pickle.values.count; i++) {
            check_value(&pickle, &pickle.values.items[i]);
        }
        for (size_t i = 0; i < pickle.tensors.count; i++) {
            must(pickle.tensors.items[i].storage < pickle.storages.count && pickle.tensors.items[i].rank <= TENSOR_RANK);
        }
        pickle_free(&pickle);
    }
    input_close(&input);
    l3a_context_free(context);
}

static void read_as_checkpoint(const uint8_t *bytes, size_t count) {
    const size_t head = sizeof before - 1, tail = sizeof behind - 1;
    uint8_t *file = malloc(head + count + tail);
    struct checkpoint *checkpoint = NULL;
    must(file != NULL);
    memcpy(file, before, head);
    memcpy(file + head, bytes, count);
    memcpy(file + head + count, behind, tail);
    l3a_context *context = context_over(file, head + count + tail);
    if (checkpoint_open(context, "weights.pth", &checkpoint) == L3A_OK) {
        for (size_t i = 0; i < checkpoint_count(checkpoint); i++) {
            const struct checkpoint_tensor *tensor = checkpoint_at(checkpoint, i);
            float values[ELEMENTS_LIMIT];
            if (tensor->elements <= ELEMENTS_LIMIT) {
                (void)checkpoint_read(checkpoint, tensor, values);
            }
        }
    }
    checkpoint_free(checkpoint);
    l3a_context_free(context);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    if (count) {
        read_alone(bytes, count);
        read_as_checkpoint(bytes, count);
    }
    return 0;
}
