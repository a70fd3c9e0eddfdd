/* Tar files: every member is inside the file, after the one before, and has a name that stays below a folder; the data set and the
 * pictures that are found in it lie where the members do. Each input is read as it is and, because no mutation would hit the sums
 * of headers, with these made right. */
#include "fuzz.h"

#include "base/file.h"
#include "common/tar.h"
#include "common/utf8.h"
#include "data/pictures.h"
#include "format/tar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes the right sum into each header, as far as the sizes lead from one to the next. */
static void repair_sums(uint8_t *bytes, size_t count) {
    for (size_t at = 0; at < count && count - at >= TAR_BLOCK;) {
        struct tar_head head;
        size_t size = 0;
        memcpy(&head, bytes + at, sizeof head);
        if (head.name[0] || head.type) {
            snprintf(head.sum, sizeof head.sum, "%06o", tar_sum(&head));
            memcpy(bytes + at, &head, sizeof head);
        }
        for (size_t i = 0; i < sizeof head.size && head.size[i] >= '0' && head.size[i] <= '7'; i++) {
            size = size << 3 | (size_t)(head.size[i] - '0');
        }
        at += TAR_BLOCK + (size < count ? (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK : 0);
    }
}

static void read_members(l3a_context *context, size_t count) {
    input_file input;
    struct tar tar = {0};
    struct tar_member member;
    uint64_t end = 0;
    bool more = true;
    must(input_open(context, "pictures.tar", &input) == L3A_OK && tar_open(&input, &tar) == L3A_OK);
    while (tar_next(&tar, &member, &more) == L3A_OK && more) {
        must(member.header >= end && member.offset == member.header + TAR_BLOCK);
        must(member.offset <= count && member.size <= count - member.offset);
        must(stays_below(member.name) && is_utf8(member.name) && !strchr(member.name, '\n'));
        end = member.offset + member.size;
        char *bytes = malloc((size_t)member.size + 1);
        must(bytes && tar_read(&tar, &member, bytes, (size_t)member.size) == L3A_OK);
        free(bytes);
    }
    tar_close(&tar);
    input_close(&input);
}

static void read_set(l3a_context *context, size_t count) {
    l3a_dataset *dataset = NULL;
    if (l3a_dataset_open(context, "tar:pictures.tar", NULL, NULL, &dataset) != L3A_OK) {
        return;
    }
    const size_t rows = l3a_dataset_rows(dataset), classes = l3a_dataset_class_count(dataset);
    must(rows > 0 && classes > 0);
    for (size_t i = 0; i < rows; i++) {
        uint64_t offset, bytes;
        must(l3a_dataset_archive(dataset, i, &offset, &bytes) && offset <= count && bytes <= count - offset);
        must(l3a_dataset_id(dataset, i)[0] != '\0');
    }
    for (size_t i = 0; i < rows * classes; i++) {
        const int8_t label = l3a_dataset_labels(dataset)[i];
        must((label == 0 || label == 1) && label == l3a_dataset_members(dataset)[i]);
    }
    l3a_dataset_free(dataset);
}

static void find_pictures(l3a_context *context, size_t count) {
    static const char *const path = "tar:pictures.tar";
    l3a_pictures *pictures = NULL;
    must(l3a_pictures_find(context, &path, 1, &pictures) == L3A_OK);
    for (size_t i = 0; i < l3a_pictures_count(pictures); i++) {
        const struct picture_source source = pictures_source(pictures, i);
        must(source.span.archive && source.span.offset <= count && source.span.size <= count - source.span.offset);
    }
    l3a_pictures_free(pictures);
}

static void run(const uint8_t *bytes, size_t count) {
    l3a_context *context = context_over(bytes, count);
    read_members(context, count);
    read_set(context, count);
    find_pictures(context, count);
    l3a_context_free(context);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    run(bytes, count);
    uint8_t *repaired = malloc(count ? count : 1);
    must(repaired != NULL);
    if (count) {
        memcpy(repaired, bytes, count);
    }
    repair_sums(repaired, count);
    if (count && memcmp(repaired, bytes, count) != 0) {
        run(repaired, count);
    }
    free(repaired);
    return 0;
}
