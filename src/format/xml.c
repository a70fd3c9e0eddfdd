#include "format/xml.h"

#include <expat.h>

#include <string.h>

enum { XML_DEPTH = 32, XML_PATH = 1024, XML_TEXT = 256, XML_BYTES = 1 << 30 };

struct reading {
    l3a_context *context;
    const char *name;
    XML_Parser parser;
    xml_element *each;
    void *user;
    l3a_status status;
    char path[XML_PATH], text[XML_TEXT];
    size_t path_length, text_length;
    size_t parents[XML_DEPTH]; /* length of the path above each open element */
    unsigned depth;
};

static void stop(struct reading *reading, l3a_status status, const char *what) {
    if (reading->status == L3A_OK) {
        reading->status =
            fail(reading->context, status, "the file is damaged or of another kind: copy or create it again",
                 "%s: line %llu, column %llu: %s", reading->name, (unsigned long long)XML_GetCurrentLineNumber(reading->parser),
                 (unsigned long long)XML_GetCurrentColumnNumber(reading->parser) + 1, what);
    }
    XML_StopParser(reading->parser, XML_FALSE);
}

static void XMLCALL on_start(void *user, const XML_Char *name, const XML_Char **attributes) {
    struct reading *reading = user;
    (void)attributes;
    const size_t length = strlen(name);
    if (reading->depth == XML_DEPTH) {
        stop(reading, L3A_ERROR_FORMAT, "nested more than 32 levels deep");
        return;
    }
    if (length + 2 > XML_PATH - reading->path_length) {
        stop(reading, L3A_ERROR_FORMAT, "the names of elements are too long");
        return;
    }
    reading->parents[reading->depth++] = reading->path_length;
    if (reading->path_length) {
        reading->path[reading->path_length++] = '/';
    }
    memcpy(reading->path + reading->path_length, name, length + 1);
    reading->path_length += length;
    reading->text_length = 0;
}

static void XMLCALL on_text(void *user, const XML_Char *text, int count) {
    struct reading *reading = user;
    const size_t room = XML_TEXT - 1 - reading->text_length, length = (size_t)count < room ? (size_t)count : room;
    memcpy(reading->text + reading->text_length, text, length);
    reading->text_length += length;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void XMLCALL on_end(void *user, const XML_Char *name) {
    struct reading *reading = user;
    (void)name;
    if (reading->status != L3A_OK) {
        return; /* after a stop, expat still ends an empty element, even one that was not entered */
    }
    char *text = reading->text;
    size_t length = reading->text_length;
    while (length && is_space(text[length - 1])) {
        length--;
    }
    text[length] = '\0';
    while (is_space(*text)) {
        text++;
    }
    const l3a_status status = reading->each(reading->path, text, reading->user);
    if (status != L3A_OK) {
        reading->status = status;
        XML_StopParser(reading->parser, XML_FALSE);
    }
    reading->path_length = reading->parents[--reading->depth];
    reading->path[reading->path_length] = '\0';
    reading->text_length = 0;
}

static void XMLCALL on_document_type(void *user, const XML_Char *name, const XML_Char *system, const XML_Char *public_id,
                                     int internal) {
    (void)name;
    (void)system;
    (void)public_id;
    (void)internal;
    stop(user, L3A_ERROR_FORMAT, "a document type is not allowed here");
}

l3a_status xml_read(l3a_context *context, const char *name, const char *bytes, size_t count, xml_element *each, void *user) {
    l3a_status status = L3A_OK;
    struct reading reading = {.context = context, .name = name, .each = each, .user = user};
    reading.parser = XML_ParserCreate(NULL);
    FAIL_IF(!reading.parser, context, L3A_ERROR_MEMORY, NULL, "%s: out of memory", name);
    FAIL_IF(count > XML_BYTES, context, L3A_ERROR_FORMAT, NULL, "%s: too large for an annotation", name);
    XML_SetUserData(reading.parser, &reading);
    XML_SetElementHandler(reading.parser, on_start, on_end);
    XML_SetCharacterDataHandler(reading.parser, on_text);
    XML_SetStartDoctypeDeclHandler(reading.parser, on_document_type);
    if (XML_Parse(reading.parser, bytes, (int)count, XML_TRUE) != XML_STATUS_OK && reading.status == L3A_OK) {
        const enum XML_Error error = XML_GetErrorCode(reading.parser);
        const bool cut = error == XML_ERROR_NO_ELEMENTS || error == XML_ERROR_UNCLOSED_TOKEN ||
                         error == XML_ERROR_UNCLOSED_CDATA_SECTION || error == XML_ERROR_PARTIAL_CHAR;
        stop(&reading,
             error == XML_ERROR_NO_MEMORY ? L3A_ERROR_MEMORY
             : cut                        ? L3A_ERROR_TRUNCATED
                                          : L3A_ERROR_FORMAT,
             error == XML_ERROR_NO_ELEMENTS && count ? "the text ends before its last element does" : XML_ErrorString(error));
    }
    status = reading.status;
done:
    if (reading.parser) {
        XML_ParserFree(reading.parser);
    }
    return status;
}
