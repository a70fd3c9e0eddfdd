/* Videos, RAW files and pictures of other formats are named with the reason why they are not read, by the heads that their formats
 * prescribe and by the endings of their names; texts and what is read are not. */
#include "support.h"

#include "base/picture_kind.h"

#include <string.h>

struct example {
    const char *name, *bytes;
    size_t count;
    const char *reason; /* how it begins; NULL: none */
};

#define FILE_OF(name, bytes, reason)                                                                                               \
    { name, bytes, sizeof(bytes) - 1, reason }
/* Entries of a directory, in either order: the tag, type 2, the size and where the text is; or the DNG version 1.4. */
#define MAKE_AT_26(size) "\x0F\1\2\0" size "\0\0\0\x1A\0\0\0"
#define TIFF_BY(size, maker) "II*\0\x08\0\0\0\1\0" MAKE_AT_26(size) "\0\0\0\0" maker "\0"
#define VIDEO "a video; only pictures are read"

static const struct example examples[] = {
    FILE_OF("a.mp4",
            "\0\0\0\x14"
            "ftypisom\0\0\2\0isom",
            VIDEO),
    FILE_OF("a.jpg",
            "\0\0\0\x14"
            "ftypmp42\0\0\0\0mp42",
            VIDEO),
    FILE_OF("a.MOV",
            "\0\0\0\x14"
            "ftypqt  \0\0\0\0qt  ",
            VIDEO),
    FILE_OF("a.mov",
            "\0\0\0\x08"
            "wide\0\0\0\0mdat",
            VIDEO),
    FILE_OF("a.mov",
            "\0\0\0\x20"
            "pnot\0\0\0\0",
            VIDEO),
    FILE_OF("a.3gp",
            "\0\0\0\x14"
            "ftyp3gp4\0\0\0\0"
            "3gp4",
            VIDEO),
    FILE_OF("a.avi", "RIFF....AVI LIST", VIDEO),
    FILE_OF("a.mkv", "\x1A\x45\xDF\xA3\xA3\x42\x86\x81", VIDEO),
    FILE_OF("a.mpg", "\0\0\1\xBA\x44\0\4\0", VIDEO),
    FILE_OF("a.mpg", "\0\0\1\xB3\x16\0\xF0\xC4", VIDEO),
    FILE_OF("a.wmv", "\x30\x26\xB2\x75\x8E\x66\xCF\x11\xA6\xD9", VIDEO),
    FILE_OF("a.flv", "FLV\1\5\0\0\0\x09", VIDEO),
    FILE_OF("a.mts", "\1\2\3\4G@", VIDEO),
    FILE_OF("a.mts", "", VIDEO),
    FILE_OF("a.ogv", "OggS\0\2", VIDEO),
    FILE_OF("a.m4a",
            "\0\0\0\x14"
            "ftypM4A \0\0\0\0M4A ",
            NULL),
    FILE_OF("IMG.CR2", "II*\0\x10\0\0\0CR\2\0", "a RAW file (Canon CR2); export it as JPEG, or keep the camera's JPEG beside it"),
    FILE_OF("no ending", "II*\0\x10\0\0\0CR\2\0", "a RAW file (Canon CR2); "),
    FILE_OF("a.cr3",
            "\0\0\0\x18"
            "ftypcrx \0\0\0\1crx isom",
            "a RAW file (Canon CR3); "),
    FILE_OF("a.crw", "II\x1A\0\0\0HEAPCCDR", "a RAW file (Canon CRW); "),
    FILE_OF("a.raf", "FUJIFILMCCD-RAW 0201", "a RAW file (Fujifilm RAF); "),
    FILE_OF("a.orf", "IIRO\x08\0\0\0", "a RAW file (Olympus ORF); "),
    FILE_OF("a.orf", "IIRS\x08\0\0\0", "a RAW file (Olympus ORF); "),
    FILE_OF("a.orf", "MMOR\0\0\0\x08", "a RAW file (Olympus ORF); "),
    FILE_OF("a.rw2", "IIU\0\x18\0\0\0", "a RAW file (Panasonic RW2); "),
    FILE_OF("a.x3f", "FOVb\0\0\2\0", "a RAW file (Sigma X3F); "),
    FILE_OF("a.mrw", "\0MRM\0\1\x20\0", "a RAW file (Minolta MRW); "),
    FILE_OF("a.nef", TIFF_BY("\x12", "NIKON CORPORATION"), "a RAW file (Nikon NEF); "),
    FILE_OF("a.NEF", "MM\0*\0\0\0\x08", "a RAW file (Nikon NEF); "),
    FILE_OF("a.arw", TIFF_BY("\5", "SONY"), "a RAW file (Sony ARW); "),
    FILE_OF("a.pef", TIFF_BY("\7", "PENTAX "), "a RAW file (Pentax PEF); "),
    FILE_OF("a.srw", TIFF_BY("\x08", "SAMSUNG"), "a RAW file (Samsung SRW); "),
    FILE_OF("a.dng", TIFF_BY("\6", "Apple"), "a RAW file (DNG); "),
    FILE_OF("renamed.tif", "II*\0\x08\0\0\0\1\0\x12\xC6\1\0\4\0\0\0\1\4\0\0", "a RAW file (DNG); "),
    FILE_OF("renamed.tif", "MM\0*\0\0\0\x08\0\1\xC6\x12\0\1\0\0\0\4\1\4\0\0", "a RAW file (DNG); "),
    FILE_OF("a.tif", TIFF_BY("\x12", "NIKON CORPORATION"), "a TIFF picture; convert it to JPEG"),
    FILE_OF("DSC_0001", TIFF_BY("\x12", "NIKON CORPORATION"), "a RAW file (Nikon); "),
    FILE_OF("folder.nef/a", TIFF_BY("\6", "Adobe"), "a TIFF picture; "),
    FILE_OF("a.raw", TIFF_BY("\6", "LEICA"), "a RAW file (Leica); "),
    FILE_OF("a.raw", TIFF_BY("\6", "Adobe"), "a RAW file; export it"),
    FILE_OF("a", TIFF_BY("\xFF", "NIKON"), "a TIFF picture; "), /* the text would end past the end */
    FILE_OF("a.tiff", "II+\0\x08\0\0\0", "a TIFF picture; "),
    FILE_OF("a.nef", "\1\2\3\4", "a RAW file (Nikon NEF); "),
    FILE_OF("a.gif", "GIF89a\1\0\1\0", "a GIF picture; convert it to JPEG"),
    FILE_OF("a.bmp", "BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0", "a BMP picture; "),
    FILE_OF("a.psd", "8BPS\0\1", "a Photoshop picture; "),
    FILE_OF("a.jxl", "\xFF\x0A\xFA\x1F", "a JPEG XL picture; "),
    FILE_OF("a.jxl", "\0\0\0\x0CJXL \r\n\x87\n", "a JPEG XL picture; "),
    FILE_OF("a.jp2", "\0\0\0\x0CjP  \r\n\x87\n", "a JPEG 2000 picture; "),
    /* The content says what these are, whatever they are called. */
    FILE_OF("a.jpg", "\xFF\xD8\xFF\xE0", NULL),
    FILE_OF("a.nef", "\xFF\xD8\xFF\xE0", NULL),
    FILE_OF("a.mp4", "\x89PNG\r\n\x1a\n", NULL),
    FILE_OF("a.heic",
            "\0\0\0\x18"
            "ftypheic\0\0\0\0mif1heic",
            NULL),
    FILE_OF("a.ts", "const a = 1;", NULL),
    FILE_OF("a.mov", "<html>", NULL),
    FILE_OF("a.dng", "version https://git-lfs.github.com/spec/v1", NULL),
    FILE_OF("a.txt", "\1\2\3\4", NULL),
    FILE_OF("a.jpg", "", NULL),
    FILE_OF(".nef.d/mp4", "\1\2\3\4", NULL),
};

static void assert_reason(const char *name, const char *found, const char *expected) {
    if (!expected ? found != NULL : !found || strncmp(found, expected, strlen(expected)) != 0) {
        fail_msg("%s: '%s', expected '%s'", name, found ? found : "nothing", expected ? expected : "nothing");
    }
}

static void by_content(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        const struct example *example = &examples[i];
        char *bytes = test_malloc(example->count + !example->count); /* so that a sanitizer sees a read past the end */
        memcpy(bytes, example->bytes, example->count);
        assert_reason(example->name, other_media(example->name, bytes, example->count), example->reason);
        test_free(bytes);
    }
}

static void by_name_alone(void **state) {
    (void)state;
    assert_reason("mp4", other_media("a/b.c/VID_1.Mp4", NULL, 0), VIDEO);
    assert_reason("nef", other_media("DSC_1.NEF", NULL, 0), "a RAW file (Nikon NEF); ");
    assert_reason("tif", other_media("scan.tif", NULL, 0), "a TIFF picture; convert it");
    assert_reason("gif", other_media("a/fun.GIF", NULL, 0), "a GIF picture; convert it");
    assert_reason("jxl", other_media("a.jxl", NULL, 0), "a JPEG XL picture; convert it");
    assert_reason("jpg", other_media("a.jpg", NULL, 0), NULL);
    assert_reason("", other_media("", NULL, 0), NULL);
}

/* Packets of camcorders, whose names can end in .ts like those of programs. */
static void transport_streams(void **state) {
    (void)state;
    char bytes[PICTURE_KIND_BYTES];
    for (size_t stamp = 0; stamp <= 4; stamp += 4) {
        memset(bytes, 1, sizeof bytes);
        for (size_t at = stamp; at < sizeof bytes; at += 188 + stamp) {
            bytes[at] = 'G';
        }
        assert_reason("a.ts", other_media("a.ts", bytes, sizeof bytes), VIDEO);
        assert_non_null(strstr(picture_kind_of(bytes, sizeof bytes)->refusal, "a video"));
        bytes[188 + 2 * stamp] = 1;
        assert_reason("a.ts", other_media("a.ts", bytes, sizeof bytes), NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_content),
        cmocka_unit_test(by_name_alone),
        cmocka_unit_test(transport_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
