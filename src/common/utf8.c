#include "common/utf8.h"

size_t utf8_decode(const char *text, uint32_t *code) {
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text, lead = bytes[0];
    const size_t length = lead < 0x80 ? 1 : lead < 0xC0 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF8 ? 4 : 0;
    *code = length > 1 ? lead & (0xFFU >> (length + 1)) : lead;
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xC0) != 0x80) {
            return 0;
        }
        *code = *code << 6 | (bytes[i] & 0x3F);
    }
    const bool outside = *code < lowest[length] || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000);
    return outside ? 0 : length;
}

size_t utf8_encode(uint32_t code, char *text) {
    const size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; code >>= 6) {
        text[i] = (char)(0x80 | (code & 0x3F));
    }
    text[0] = (char)(length == 1 ? code : code | (0xF00U >> length & 0xFF));
    return length;
}

bool is_utf8(const char *text) {
    uint32_t code;
    for (size_t length; *text; text += length) {
        length = utf8_decode(text, &code);
        if (!length) {
            return false;
        }
    }
    return true;
}

uint32_t utf8_find_hidden(const char *text) {
    static const struct {
        uint32_t first, last;
    } hidden[] = {{0x01, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},     {0x61C, 0x61C},   {0x180E, 0x180E}, {0x200B, 0x200B},
                  {0x200E, 0x200F}, {0x2028, 0x202E}, {0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}};
    uint32_t code;
    for (size_t length; *text; text += length) {
        length = utf8_decode(text, &code);
        for (size_t i = 0; length && i < sizeof hidden / sizeof *hidden; i++) {
            if (code >= hidden[i].first && code <= hidden[i].last) {
                return code;
            }
        }
        length += !length; /* a byte that is not UTF-8 */
    }
    return 0;
}
