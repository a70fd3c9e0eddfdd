/* What strangers send to the server, besides pictures: names of hosts and origins, tokens, paths, base64, JSON. The input is a list
 * of texts, separated by line feeds. */
#include "fuzz.h"

#include "common/json_tree.h"
#include "common/sha256.h"
#include "serve/guard.h"
#include "serve/head.h"
#include "serve/path.h"
#include "serve/text.h"

#include <stdlib.h>
#include <string.h>

enum { LINES = 8 };

/* An allowed path has no part that leads up, and stays below a folder when it is put behind its name. */
static void check_path(const char *path) {
    if (library_path_allowed(path)) {
        must(path[0] != '/' && !strstr(path, "//") && strncmp(path, "../", 3) != 0 && !strstr(path, "/../"));
        const size_t length = strlen(path);
        must(length < 2 || strcmp(path + length - 2, "..") != 0 || (length > 2 && path[length - 3] != '/'));
    }
}

/* Only addresses, localhost and own names are accepted. */
static void check_guard(const char *host, const char *origin, const char *authorization, const char *type) {
    static const char *const names[] = {"tags.example", NULL, ""};
    struct token token = {.role = ROLE_TEACH};
    sha256_of("secret", 6, token.hash);
    const struct tokens tokens = {&token, 1};
    const struct guard guard = {names, 3, &tokens};
    const struct needs needs = {.role = ROLE_TEACH, .changes = true};
    struct bearer bearer;
    const struct asked asked = {.host = host, .origin = origin, .authorization = authorization, .content_type = type, .mark = "1"};
    struct objection objection = {0};
    const bool own = host_is_own(&guard, host);
    if (own && strspn(host, "0123456789.:[]abcdefABCDEF") != strlen(host)) {
        must(strncasecmp(host, "localhost", 9) == 0 || strncasecmp(host, "tags.example", 12) == 0);
    }
    if (guard_allows(&guard, &asked, &needs, &bearer, &objection)) {
        const bool given =
            strstr(authorization, "secret") || strncasecmp(authorization, "Basic ", 6) == 0; /* by name, or encoded */
        must(own && given && (!origin || strcasestr(origin, host)));
    } else {
        must(objection.status >= 400 && objection.error && objection.hint);
    }
}

/* What is decoded has at most three bytes for four letters. */
static void check_base64(const char *text) {
    size_t count = 0;
    uint8_t *bytes = base64_decode(text, strlen(text), &count);
    must(!bytes || count <= 3 * (strlen(text) / 4 + 1));
    free(bytes);
}

/* Whatever the text is, it is JSON when it is written, and the same when it is read again if it is UTF-8. */
static void check_json(const char *text, const uint8_t *whole, size_t count) {
    struct text written = {0};
    struct json_problem problem;
    struct json_tree *json = NULL;
    text_json(&written, text);
    must(!written.failed && json_tree_read("written", written.bytes, written.length, 1, &json, &problem) == L3A_OK);
    must(strstr(written.bytes, "\xEF\xBF\xBD") || strcmp(json_value_text(json_tree_root(json), NULL), text) == 0);
    json_tree_free(json);
    text_free(&written);
    json = NULL;
    if (json_tree_read("request", (const char *)whole, count, 1000, &json, &problem) == L3A_OK) {
        size_t values = 0;
        for (const struct json_value *value = json_value_first(json_tree_root(json)); value; value = json_value_next(value)) {
            must(!json_value_key(value) || json_value_get(json_tree_root(json), json_value_key(value)));
            must(++values <= 1000);
        }
        json_tree_free(json);
    }
}

/* The lines as headers, "name:value", as libmicrohttpd leaves them: with zero bytes for the colon and the end. A head that is
 * accepted has no header twice that says how long the body is or whom it is for, no two lengths, and no byte that ends a line. */
static void check_head(const char *const lines[LINES], size_t count) {
    char *copy = calloc(count + 2 * LINES + 1, 2);
    struct head head = {.next = copy};
    size_t hosts = 0, lengths = 0, codings = 0;
    bool clean = true;
    must(copy != NULL);
    char *at = copy;
    for (size_t i = 0; i < LINES; i++) {
        const size_t name = strcspn(lines[i], ":"), value = strlen(lines[i]) - name - (lines[i][name] == ':');
        memcpy(at, lines[i], name);
        memcpy(at + name + 1, lines[i] + name + (lines[i][name] == ':'), value);
        hosts += strcasecmp(at, "host") == 0;
        lengths += strcasecmp(at, "content-length") == 0;
        codings += strcasecmp(at, "transfer-encoding") == 0;
        clean = clean && name && !strpbrk(at, " \t\r") && !strchr(at + name + 1, '\r');
        const size_t blank = strspn(at + name + 1, " \t");
        head_add(&head, at, name, at + name + 1 + blank, value - blank);
        at += name + 1 + value + 2;
    }
    const char *problem = head_problem(&head, at + 2);
    must(problem || (clean && hosts < 2 && lengths + codings < 2));
    must(head_problem(&head, at + 1)); /* something is missing */
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    const char *lines[LINES];
    size_t found = 0;
    char *copy = malloc(count + 1);
    must(copy != NULL);
    memcpy(copy, bytes, count);
    copy[count] = '\0';
    char *at = copy;
    for (; found < LINES; found++) {
        lines[found] = at;
        char *end = strchr(at, '\n');
        if (end) {
            *end = '\0';
        }
        at = end ? end + 1 : at + strlen(at);
    }
    check_guard(lines[0], lines[1][0] ? lines[1] : NULL, lines[2], lines[3]);
    check_path(lines[4]);
    check_base64(lines[5]);
    check_json(lines[6], bytes, count);
    check_head(lines, count);
    free(copy);
    return 0;
}
