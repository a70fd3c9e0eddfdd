#include "serve/guard.h"

#include "common/sha256.h"
#include "serve/text.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_HOST = 255 };

/* The host of "host:port", without brackets; false if it is not well formed. */
static bool split_host(const char *text, char host[LONGEST_HOST + 1], bool *six) {
    const char *end = strchr(text, ']'), *start = text + (text[0] == '[');
    *six = text[0] == '[';
    if (*six != (end != NULL)) {
        return false;
    }
    const char *colon = strchr(*six ? end : text, ':');
    const size_t length = (size_t)((*six ? end : colon ? colon : text + strlen(text)) - start);
    if (!length || length > LONGEST_HOST || (*six && end[1] && end[1] != ':') ||
        (colon && strspn(colon + 1, "0123456789") != strlen(colon + 1))) {
        return false;
    }
    memcpy(host, start, length);
    host[length] = '\0';
    return true;
}

bool host_is_own(const struct guard *guard, const char *host) {
    char name[LONGEST_HOST + 1];
    struct in6_addr address;
    bool six;
    if (!host || !split_host(host, name, &six)) {
        return false;
    }
    if (six) {
        return inet_pton(AF_INET6, name, &address) == 1;
    }
    bool own = inet_pton(AF_INET, name, &address) == 1 || strcasecmp(name, "localhost") == 0;
    for (size_t i = 0; i < guard->name_count && !own; i++) {
        own = guard->names[i] && guard->names[i][0] && strcasecmp(name, guard->names[i]) == 0;
    }
    return own;
}

bool origin_is_own(const char *origin, const char *host) {
    const char *rest = strncmp(origin, "http://", 7) == 0 ? origin + 7 : strncmp(origin, "https://", 8) == 0 ? origin + 8 : NULL;
    return rest && host && strcasecmp(rest, host) == 0;
}

static bool is_token(const char *text, size_t length, const uint8_t token[32]) {
    uint8_t given[32];
    unsigned difference = 0;
    sha256_of(text, length, given);
    for (size_t i = 0; i < sizeof given; i++) {
        difference |= (unsigned)(given[i] ^ token[i]);
    }
    return difference == 0;
}

bool token_is_right(const char *authorization, const uint8_t token[32]) {
    const size_t scheme = authorization ? strcspn(authorization, " ") : 0;
    if (!scheme) {
        return false;
    }
    const char *own = authorization + scheme + strspn(authorization + scheme, " ");
    size_t length = strlen(own);
    while (length && own[length - 1] == ' ') {
        length--;
    }
    if (scheme == 6 && strncasecmp(authorization, "Bearer", 6) == 0) {
        return is_token(own, length, token);
    }
    if (scheme == 5 && strncasecmp(authorization, "Basic", 5) == 0) {
        size_t count = 0;
        uint8_t *pair = base64_decode(own, length, &count);
        const uint8_t *colon = pair ? memchr(pair, ':', count) : NULL;
        const bool right = colon && is_token((const char *)colon + 1, (size_t)(pair + count - colon - 1), token);
        free(pair);
        return right;
    }
    return false;
}

/* A form, which any site can send without being asked, has one of three types. */
static bool is_form(const char *type) {
    return type && (strncasecmp(type, "text/plain", 10) == 0 || strncasecmp(type, "multipart/", 10) == 0 ||
                    strncasecmp(type, "application/x-www-form-urlencoded", 33) == 0);
}

/* Whether a browser says that another site asks. */
static bool is_foreign(const struct asked *asked, bool page) {
    if (asked->origin && !origin_is_own(asked->origin, asked->host)) {
        return true;
    }
    const bool elsewhere =
        asked->fetch_site && strcmp(asked->fetch_site, "same-origin") != 0 && strcmp(asked->fetch_site, "none") != 0;
    const bool follows_link = page && asked->fetch_mode && strcmp(asked->fetch_mode, "navigate") == 0 &&
                              (!asked->fetch_dest || strcmp(asked->fetch_dest, "document") == 0);
    return elsewhere && !follows_link;
}

bool guard_allows(const struct guard *guard, const struct asked *asked, bool open, bool changes, bool page,
                  struct objection *objection) {
    const bool browser = asked->origin || asked->fetch_site;
    if (!host_is_own(guard, asked->host)) {
        *objection =
            (struct objection){421, "the Host header does not name this server", "use its address, or start it with --host NAME"};
    } else if (is_foreign(asked, page)) {
        *objection = (struct objection){403, "the request comes from another site", "use the page of this server"};
    } else if (!open && guard->token && !token_is_right(asked->authorization, guard->token)) {
        *objection = (struct objection){401, "the token is missing or wrong", "send the header 'Authorization: Bearer TOKEN'"};
    } else if (changes && browser && (!asked->mark || strcmp(asked->mark, "1") != 0)) {
        *objection = (struct objection){403, "a browser sent this without the header 'X-L3A: 1'", "use the page of this server"};
    } else if (changes && is_form(asked->content_type)) {
        *objection = (struct objection){415, "forms are not accepted", "send JSON as application/json, or a picture as image/jpeg"};
    } else {
        return true;
    }
    return false;
}
