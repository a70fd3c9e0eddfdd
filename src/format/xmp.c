/* A file is parsed once for the places that matter, edited there, and the result is parsed again to see that it says what was asked
 * for.
 *
 *     <x:xmpmeta xmlns:x="adobe:ns:meta/">                                        may be missing
 *      <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">          level 1
 *       <rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/">      2, any number of them
 *        <dc:subject>                                                                   3
 *         <rdf:Bag>                                                                     4, or rdf:Seq, rdf:Alt
 *          <rdf:li>cat</rdf:li>                                                         5
 *
 * Prefixes are whatever the file declares. A level is only looked for directly inside the one above it, so a dc:subject inside
 * another property does not count. */
#include "format/xmp.h"

#include "common/utf8.h"

#include <expat.h>

#include <string.h>
#include <strings.h>

#define RDF "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
#define DC "http://purl.org/dc/elements/1.1/"

enum { RDF_LEVEL, DESCRIPTION_LEVEL, SUBJECT_LEVEL, LIST_LEVEL, ITEM_LEVEL, LEVELS, PREFIX = 64 };

/* Where an element is in the file. */
struct place {
    bool found, empty; /* empty: <a/> */
    size_t start;      /* of the start tag */
    size_t inside;     /* after the start tag */
    size_t close;      /* of the end tag; `inside` if empty */
    size_t end;        /* after the end tag */
};

struct scan {
    l3a_context *context;
    const char *name, *bytes;
    size_t count;
    XML_Parser parser;
    l3a_status status;
    size_t depth, rdf_depth;
    int level;                  /* number of levels that are open */
    struct place first[LEVELS]; /* the first element of each level; a list is that of the first subject */
    struct place item;          /* the one that is open */
    struct place *items;        /* one for each keyword */
    size_t item_capacity;
    text_list keywords;
    text_builder text;        /* of the open item */
    text_list prefixes, uris; /* the namespaces in scope, innermost last */
    bool has_prefix;          /* at the first description, dc has … */
    char prefix[PREFIX];      /* … this prefix, with its colon */
};

/* ---- Finding the places ---- */

static void stop(struct scan *scan, l3a_status status, const char *what, const char *hint) {
    if (scan->status == L3A_OK) {
        scan->status = fail(scan->context, status, hint, "%s: line %llu, column %llu: %s", scan->name,
                            (unsigned long long)XML_GetCurrentLineNumber(scan->parser),
                            (unsigned long long)XML_GetCurrentColumnNumber(scan->parser) + 1, what);
    }
    XML_StopParser(scan->parser, XML_FALSE);
}

static const char damaged[] = "the file was left as it is: repair it, or move it away so that a new one is made";
static const char other_form[] = "the file was left as it is: let the program that made it write its keywords as a list";

static void keep(struct scan *scan, l3a_status status) {
    if (status != L3A_OK && scan->status == L3A_OK) {
        scan->status = status;
        XML_StopParser(scan->parser, XML_FALSE);
    }
}

static bool is_level(int level, const char *name) {
    switch (level) {
    case RDF_LEVEL: return strcmp(name, RDF " RDF") == 0;
    case DESCRIPTION_LEVEL: return strcmp(name, RDF " Description") == 0;
    case SUBJECT_LEVEL: return strcmp(name, DC " subject") == 0;
    case LIST_LEVEL: return strcmp(name, RDF " Bag") == 0 || strcmp(name, RDF " Seq") == 0 || strcmp(name, RDF " Alt") == 0;
    default: return true;
    }
}

/* The innermost prefix of dc that no other namespace has taken over. */
static void find_prefix(struct scan *scan) {
    for (size_t i = scan->uris.count; i-- > 0 && !scan->has_prefix;) {
        const char *prefix = scan->prefixes.items[i];
        const size_t length = strlen(prefix);
        bool taken = length + 2 > PREFIX;
        for (size_t j = i + 1; j < scan->uris.count; j++) {
            taken = taken || strcmp(scan->prefixes.items[j], prefix) == 0;
        }
        if (!taken && strcmp(scan->uris.items[i], DC) == 0) {
            scan->has_prefix = true;
            memcpy(scan->prefix, prefix, length + 1);
            memcpy(scan->prefix + length, length ? ":" : "", length ? 2 : 1);
        }
    }
}

/* Keywords that are not a list of texts cannot be added to. */
static void check_attributes(struct scan *scan, const char **attributes) {
    for (; *attributes; attributes += 2) {
        if (scan->level == DESCRIPTION_LEVEL && strcmp(*attributes, DC " subject") == 0) {
            stop(scan, L3A_ERROR_FORMAT, "dc:subject is an attribute instead of a list", other_form);
        }
        if (scan->level == SUBJECT_LEVEL && strncmp(*attributes, RDF " ", sizeof RDF) == 0) {
            stop(scan, L3A_ERROR_FORMAT, "dc:subject is not a list", other_form);
        }
    }
}

static void XMLCALL on_start(void *user, const XML_Char *name, const XML_Char **attributes) {
    struct scan *scan = user;
    const size_t depth = scan->depth++, start = (size_t)XML_GetCurrentByteIndex(scan->parser),
                 inside = start + (size_t)XML_GetCurrentByteCount(scan->parser);
    const bool passed = scan->level == RDF_LEVEL && scan->first[RDF_LEVEL].found;
    if (passed || scan->level == LEVELS || (scan->level && depth != scan->rdf_depth + (size_t)scan->level)) {
        return;
    }
    if (!is_level(scan->level, name)) {
        if (scan->level == LIST_LEVEL) {
            stop(scan, L3A_ERROR_FORMAT, "dc:subject is not a list", other_form);
        }
        return;
    }
    check_attributes(scan, attributes);
    const struct place place = {true, scan->bytes[inside - 2] == '/', start, inside, inside, inside};
    if (scan->level == RDF_LEVEL) {
        scan->rdf_depth = depth;
    }
    if (scan->level == DESCRIPTION_LEVEL && !scan->first[DESCRIPTION_LEVEL].found) {
        find_prefix(scan);
    }
    if (scan->level == ITEM_LEVEL) {
        scan->item = place;
        scan->text.length = 0;
    } else if (!scan->first[scan->level].found && (scan->level != LIST_LEVEL || !scan->first[SUBJECT_LEVEL].end)) {
        scan->first[scan->level] = place;
        scan->first[scan->level].end = 0; /* open */
    }
    scan->level++;
}

static void XMLCALL on_text(void *user, const XML_Char *text, int count) {
    struct scan *scan = user;
    if (scan->level == ITEM_LEVEL + 1 && scan->depth == scan->rdf_depth + LEVELS) {
        text_builder_append(&scan->text, text, (size_t)count);
        keep(scan, scan->text.status);
    }
    for (int i = 0; i < count && scan->level == SUBJECT_LEVEL + 1; i++) {
        if (!strchr(" \t\r\n", text[i])) {
            stop(scan, L3A_ERROR_FORMAT, "dc:subject is a text instead of a list", other_form);
            return;
        }
    }
}

static void add_item(struct scan *scan) {
    l3a_status status = L3A_OK;
    TRY(grow_array(scan->context, &scan->items, &scan->item_capacity, scan->keywords.count + 1, sizeof *scan->items));
    scan->items[scan->keywords.count] = scan->item;
    TRY(text_list_add(scan->context, &scan->keywords, scan->text.length ? scan->text.text : "", scan->text.length));
done:
    keep(scan, status);
}

static void XMLCALL on_end(void *user, const XML_Char *name) {
    struct scan *scan = user;
    (void)name;
    if (scan->status != L3A_OK) {
        return; /* after a stop, expat still ends an empty element */
    }
    scan->depth--;
    if (!scan->level || scan->depth != scan->rdf_depth + (size_t)scan->level - 1) {
        return;
    }
    struct place *place = --scan->level == ITEM_LEVEL ? &scan->item : &scan->first[scan->level];
    if (scan->level == ITEM_LEVEL || (place->found && !place->end)) {
        const size_t close = (size_t)XML_GetCurrentByteIndex(scan->parser);
        place->close = place->empty ? place->inside : close;
        place->end = place->empty ? place->inside : close + (size_t)XML_GetCurrentByteCount(scan->parser);
    }
    if (scan->level == ITEM_LEVEL) {
        add_item(scan);
    }
}

static void XMLCALL on_namespace(void *user, const XML_Char *prefix, const XML_Char *uri) {
    struct scan *scan = user;
    l3a_status status = L3A_OK;
    prefix = prefix ? prefix : "";
    uri = uri ? uri : "";
    TRY(text_list_add(scan->context, &scan->prefixes, prefix, strlen(prefix)));
    TRY(text_list_add(scan->context, &scan->uris, uri, strlen(uri)));
done:
    keep(scan, status);
}

/* All namespaces of an element end together, so it does not matter which of them goes first. */
static void XMLCALL on_namespace_end(void *user, const XML_Char *prefix) {
    struct scan *scan = user;
    (void)prefix;
    if (scan->status == L3A_OK) {
        release(scan->context, scan->prefixes.items[--scan->prefixes.count]);
        release(scan->context, scan->uris.items[--scan->uris.count]);
    }
}

static void XMLCALL on_document_type(void *user, const XML_Char *name, const XML_Char *system, const XML_Char *public_id,
                                     int internal) {
    (void)name;
    (void)system;
    (void)public_id;
    (void)internal;
    stop(user, L3A_ERROR_FORMAT, "a document type is not allowed here", damaged);
}

static void XMLCALL on_declaration(void *user, const XML_Char *version, const XML_Char *encoding, int standalone) {
    (void)version;
    (void)standalone;
    if (encoding && strcasecmp(encoding, "utf-8") != 0 && strcasecmp(encoding, "us-ascii") != 0) {
        stop(user, L3A_ERROR_FORMAT, "the text is not in UTF-8", "the file was left as it is: convert it to UTF-8");
    }
}

static l3a_status scan_parse(struct scan *scan) {
    XML_SetUserData(scan->parser, scan);
    XML_SetElementHandler(scan->parser, on_start, on_end);
    XML_SetCharacterDataHandler(scan->parser, on_text);
    XML_SetNamespaceDeclHandler(scan->parser, on_namespace, on_namespace_end);
    XML_SetStartDoctypeDeclHandler(scan->parser, on_document_type);
    XML_SetXmlDeclHandler(scan->parser, on_declaration);
    if (XML_Parse(scan->parser, scan->bytes, (int)scan->count, XML_TRUE) != XML_STATUS_OK && scan->status == L3A_OK) {
        const enum XML_Error error = XML_GetErrorCode(scan->parser);
        stop(scan, error == XML_ERROR_NO_MEMORY ? L3A_ERROR_MEMORY : L3A_ERROR_FORMAT, XML_ErrorString(error), damaged);
    }
    return scan->status;
}

static void scan_free(struct scan *scan) {
    if (scan->parser) {
        XML_ParserFree(scan->parser);
    }
    release(scan->context, scan->items);
    text_list_clear(scan->context, &scan->keywords);
    text_list_clear(scan->context, &scan->prefixes);
    text_list_clear(scan->context, &scan->uris);
    text_builder_free(&scan->text);
}

/* The caller frees the scan, after failures as well. */
static l3a_status scan_file(l3a_context *context, const char *name, const char *bytes, size_t count, struct scan *scan) {
    l3a_status status = L3A_OK;
    *scan = (struct scan){.context = context, .name = name, .bytes = bytes, .count = count, .text = {.context = context}};
    FAIL_IF(count > XMP_BYTES, context, L3A_ERROR_FORMAT, damaged, "%s: %zu bytes are too many for a sidecar", name, count);
    FAIL_IF(memchr(bytes, '\0', count) || (count > 1 && (memcmp(bytes, "\xFE\xFF", 2) == 0 || memcmp(bytes, "\xFF\xFE", 2) == 0)),
            context, L3A_ERROR_FORMAT, "the file was left as it is: convert it to UTF-8", "%s: the text is not in UTF-8", name);
    scan->parser = XML_ParserCreateNS("UTF-8", ' ');
    FAIL_IF(!scan->parser, context, L3A_ERROR_MEMORY, NULL, "%s: out of memory", name);
    TRY(scan_parse(scan));
    FAIL_IF(!scan->first[RDF_LEVEL].found, context, L3A_ERROR_FORMAT, damaged, "%s: is not XMP: there is no rdf:RDF in it", name);
done:
    return status;
}

l3a_status xmp_read(l3a_context *context, const char *name, const char *bytes, size_t count, text_list *keywords) {
    struct scan scan;
    const l3a_status status = scan_file(context, name, bytes, count, &scan);
    if (status == L3A_OK) {
        *keywords = scan.keywords;
        scan.keywords = (text_list){0};
    }
    scan_free(&scan);
    return status;
}

/* ---- Editing ---- */

/* Line breaks and tabs are written as numbers, because parsers may turn them into spaces. */
static void append_escaped(text_builder *made, const char *text) {
    for (; *text; text++) {
        if (*text == '&' || *text == '<' || *text == '>') {
            text_builder_print(made, "%s", *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : "&gt;");
        } else if (*text == '\t' || *text == '\n' || *text == '\r') {
            text_builder_print(made, "&#%d;", *text);
        } else {
            text_builder_append(made, text, 1);
        }
    }
}

/* The line break and the spaces before a position; nothing if something else is before it on its line. */
static size_t indent_before(const char *bytes, size_t position) {
    size_t start = position;
    while (start && (bytes[start - 1] == ' ' || bytes[start - 1] == '\t')) {
        start--;
    }
    if (!start || bytes[start - 1] != '\n') {
        return position;
    }
    return start - (start > 1 && bytes[start - 2] == '\r' ? 2 : 1);
}

/* How new elements are laid out: each on a line of its own, one space further in than the one around it, if the file has lines. */
struct writer {
    text_builder *made;
    const char *indent; /* of the element around what is written */
    size_t indent_length;
};

static void break_line(const struct writer *writer, int further) {
    if (writer->indent_length) {
        text_builder_append(writer->made, writer->indent, writer->indent_length);
        text_builder_print(writer->made, "%*s", further, "");
    }
}

static bool is_among(const char *text, const char *const *texts, size_t count) {
    size_t i = 0;
    while (i < count && strcmp(texts[i], text) != 0) {
        i++;
    }
    return i < count;
}

/* A keyword is added once, and only if it is not there. */
static bool is_new(const struct scan *scan, const struct keywords *keywords, size_t index) {
    return text_list_find(&scan->keywords, keywords->add[index]) == scan->keywords.count &&
           !is_among(keywords->add[index], keywords->add, index);
}

static bool goes(const struct keywords *keywords, const char *keyword) {
    return is_among(keyword, keywords->remove, keywords->remove_count) && !is_among(keyword, keywords->add, keywords->add_count);
}

/* rdf is the prefix of rdf, with its colon. */
static void write_items(const struct writer *writer, const struct scan *scan, const struct keywords *keywords, const char *rdf,
                        int further) {
    for (size_t i = 0; i < keywords->add_count; i++) {
        if (is_new(scan, keywords, i)) {
            break_line(writer, further);
            text_builder_print(writer->made, "<%sli>", rdf);
            append_escaped(writer->made, keywords->add[i]);
            text_builder_print(writer->made, "</%sli>", rdf);
        }
    }
}

static void write_list(const struct writer *writer, const struct scan *scan, const struct keywords *keywords, const char *rdf,
                       int further) {
    break_line(writer, further);
    text_builder_print(writer->made, "<%sBag%s>", rdf[0] ? rdf : "rdf:", rdf[0] ? "" : " xmlns:rdf=\"" RDF "\"");
    write_items(writer, scan, keywords, rdf[0] ? rdf : "rdf:", further + 1);
    break_line(writer, further);
    text_builder_print(writer->made, "</%sBag>", rdf[0] ? rdf : "rdf:");
}

static void write_subject(const struct writer *writer, const struct scan *scan, const struct keywords *keywords, const char *rdf,
                          int further) {
    const char *dc = scan->has_prefix ? scan->prefix : "dc:";
    break_line(writer, further);
    text_builder_print(writer->made, "<%ssubject%s>", dc, scan->has_prefix ? "" : " xmlns:dc=\"" DC "\"");
    write_list(writer, scan, keywords, rdf, further + 1);
    break_line(writer, further);
    text_builder_print(writer->made, "</%ssubject>", dc);
}

static void write_description(const struct writer *writer, const struct scan *scan, const struct keywords *keywords,
                              const char *rdf) {
    const char *prefix = rdf[0] ? rdf : "rdf:"; /* an attribute needs one */
    break_line(writer, 1);
    text_builder_print(writer->made, "<%sDescription%s %sabout=\"\">", prefix, rdf[0] ? "" : " xmlns:rdf=\"" RDF "\"", prefix);
    write_subject(writer, scan, keywords, prefix, 2);
    break_line(writer, 1);
    text_builder_print(writer->made, "</%sDescription>", prefix);
}

/* The name of an element as the file spells it, and the length of its prefix with the colon. */
static size_t raw_name(const struct scan *scan, const struct place *place, size_t *prefix) {
    const char *name = scan->bytes + place->start + 1;
    const size_t length = strcspn(name, " \t\r\n/>");
    const char *colon = memchr(name, ':', length);
    *prefix = colon ? (size_t)(colon - name) + 1 : 0;
    return length;
}

/* Writes what is missing inside the innermost level that the file has. */
static void write_inside(const struct writer *writer, const struct scan *scan, const struct keywords *keywords, int level,
                         const char *rdf) {
    switch (level) {
    case RDF_LEVEL: write_description(writer, scan, keywords, rdf); break;
    case DESCRIPTION_LEVEL: write_subject(writer, scan, keywords, rdf, 1); break;
    case SUBJECT_LEVEL: write_list(writer, scan, keywords, rdf, 1); break;
    default: write_items(writer, scan, keywords, rdf, 1); break;
    }
}

/* The prefix of rdf at a level: that of the closest element that is itself of rdf. */
static l3a_status rdf_prefix(const struct scan *scan, int level, char **rdf) {
    size_t length;
    const struct place *place = &scan->first[level == SUBJECT_LEVEL ? DESCRIPTION_LEVEL : level];
    raw_name(scan, place, &length);
    return copy_text(scan->context, scan->bytes + place->start + 1, length, rdf);
}

/* Copies the file up to a position, without the items that go. */
static void copy_until(const struct scan *scan, const struct keywords *keywords, size_t *from, size_t to, text_builder *made) {
    for (size_t i = 0; i < scan->keywords.count; i++) {
        const struct place *item = &scan->items[i];
        if (item->start >= *from && item->end <= to && goes(keywords, scan->keywords.items[i])) {
            text_builder_append(made, scan->bytes + *from, indent_before(scan->bytes, item->start) - *from);
            *from = item->end;
        }
    }
    text_builder_append(made, scan->bytes + *from, to - *from);
    *from = to;
}

/* Adds the new keywords to the innermost of list, subject, description and RDF that the file has. */
static l3a_status insert(const struct scan *scan, const struct keywords *keywords, size_t *from, text_builder *made) {
    l3a_status status = L3A_OK;
    char *rdf = NULL;
    int level = LIST_LEVEL;
    size_t prefix;
    while (!scan->first[level].found) {
        level--;
    }
    const struct place *place = &scan->first[level];
    const size_t indent = indent_before(scan->bytes, place->start);
    const struct writer writer = {made, scan->bytes + indent, place->start - indent};
    TRY(rdf_prefix(scan, level, &rdf));
    if (place->empty) {
        const size_t name = raw_name(scan, place, &prefix);
        copy_until(scan, keywords, from, place->inside - 2, made);
        text_builder_append(made, ">", 1);
        write_inside(&writer, scan, keywords, level, rdf);
        break_line(&writer, 0);
        text_builder_print(made, "</%.*s>", (int)name, scan->bytes + place->start + 1);
        *from = place->inside;
    } else {
        const size_t before = indent_before(scan->bytes, place->close);
        copy_until(scan, keywords, from, before >= place->inside ? before : place->close, made);
        write_inside(&writer, scan, keywords, level, rdf);
        if (*from == place->close) {
            break_line(&writer, 0); /* the end tag had no line of its own */
        }
    }
done:
    release(scan->context, rdf);
    return status;
}

/* XML cannot hold most control characters, not even escaped. */
static l3a_status check_keywords(l3a_context *context, const struct keywords *keywords) {
    for (size_t i = 0; i < keywords->add_count; i++) {
        const char *text = keywords->add[i];
        uint32_t code = ' ';
        for (size_t length = 1; *text && length; text += length) {
            length = utf8_decode(text, &code);
            const bool fits = code >= ' ' ? code != 0xFFFE && code != 0xFFFF : code == '\t' || code == '\n' || code == '\r';
            length = fits ? length : 0;
            if (!length) {
                break;
            }
        }
        if (*text || !keywords->add[i][0]) {
            return fail(context, L3A_ERROR_DATA, "give the class another name", "the tag '%s' cannot be written to XMP: %s",
                        keywords->add[i], *text ? "it has a character that XML does not allow" : "it is empty");
        }
    }
    return L3A_OK;
}

/* Whether the keywords of a file are those wanted. */
static bool is_as_wanted(const struct scan *scan, const struct keywords *keywords) {
    bool wanted = true;
    for (size_t i = 0; i < keywords->add_count; i++) {
        wanted = wanted && text_list_find(&scan->keywords, keywords->add[i]) < scan->keywords.count;
    }
    for (size_t i = 0; i < scan->keywords.count; i++) {
        wanted = wanted && !goes(keywords, scan->keywords.items[i]);
    }
    return wanted;
}

static l3a_status edit(const struct scan *scan, const struct keywords *keywords, text_builder *made) {
    l3a_status status = L3A_OK;
    size_t from = 0, added = 0;
    for (size_t i = 0; i < keywords->add_count; i++) {
        added += is_new(scan, keywords, i);
    }
    if (added) {
        TRY(insert(scan, keywords, &from, made));
    }
    copy_until(scan, keywords, &from, scan->count, made);
    TRY(made->status);
done:
    return status;
}

/* The file that is made must read back as wanted, and keep every keyword that does not go. */
static l3a_status check_made(const struct scan *before, const struct keywords *keywords, const text_builder *made) {
    struct scan after;
    l3a_status status = L3A_OK;
    size_t expected = 0;
    TRY(scan_file(before->context, before->name, made->text, made->length, &after));
    for (size_t i = 0; i < keywords->add_count; i++) {
        expected += is_new(before, keywords, i);
    }
    for (size_t i = 0; i < before->keywords.count; i++) {
        expected += !goes(keywords, before->keywords.items[i]);
    }
    FAIL_IF(!is_as_wanted(&after, keywords) || after.keywords.count != expected, before->context, L3A_ERROR_FORMAT, other_form,
            "%s: the keywords cannot be added to XMP of this form", before->name);
done:
    scan_free(&after);
    return status;
}

static const char empty_file[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                                 "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\">\n"
                                 " <rdf:RDF xmlns:rdf=\"" RDF "\">\n"
                                 "  <rdf:Description rdf:about=\"\"\n"
                                 "    xmlns:dc=\"" DC "\">\n"
                                 "  </rdf:Description>\n"
                                 " </rdf:RDF>\n"
                                 "</x:xmpmeta>\n";

l3a_status xmp_merge(l3a_context *context, const char *name, const char *bytes, size_t count, const struct keywords *keywords,
                     text_builder *made, bool *changed) {
    struct scan scan = {0};
    l3a_status status = L3A_OK;
    *changed = false;
    *made = (text_builder){.context = context};
    TRY(check_keywords(context, keywords));
    TRY(scan_file(context, name, bytes ? bytes : empty_file, bytes ? count : strlen(empty_file), &scan));
    if (!is_as_wanted(&scan, keywords)) {
        TRY(edit(&scan, keywords, made));
        TRY(check_made(&scan, keywords, made));
        *changed = true;
    }
done:
    if (scan.context) {
        scan_free(&scan);
    }
    return status;
}
