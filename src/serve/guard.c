#include "serve/guard.h"

#include <arpa/inet.h>
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

/* Whether the token of the request allows what is asked for; without tokens, everything is allowed. */
static bool token_allows(const struct guard *guard, const struct asked *asked, enum role needs, struct bearer *bearer,
                         struct objection *objection) {
    const bool any = guard->tokens && guard->tokens->count;
    const struct token *token = any && needs != ROLE_OPEN ? tokens_find(guard->tokens, asked->authorization) : NULL;
    *bearer = (struct bearer){.role = any ? ROLE_OPEN : ROLE_ADMIN};
    if (token) {
        bearer->role = token->role;
        memcpy(bearer->name, token->name, sizeof bearer->name);
    }
    if (needs != ROLE_OPEN && bearer->role == ROLE_OPEN) {
        *objection = (struct objection){401, "the token is missing or wrong", "send the header 'Authorization: Bearer TOKEN'"};
    } else if (needs == ROLE_MISSING || needs > bearer->role) {
        *objection = (struct objection){
            403,
            bearer->role == ROLE_READ ? "this token may read, and nothing else" : "this token may read and teach, and nothing else",
            needs == ROLE_TEACH ? "use a token with the role teach or admin" : "use a token with the role admin"};
    } else {
        return true;
    }
    return false;
}

bool guard_allows(const struct guard *guard, const struct asked *asked, const struct needs *needs, struct bearer *bearer,
                  struct objection *objection) {
    const bool browser = asked->origin || asked->fetch_site;
    *bearer = (struct bearer){.role = ROLE_OPEN};
    if (!host_is_own(guard, asked->host)) {
        *objection =
            (struct objection){421, "the Host header does not name this server", "use its address, or start it with --host NAME"};
    } else if (is_foreign(asked, needs->page)) {
        *objection = (struct objection){403, "the request comes from another site", "use the page of this server"};
    } else if (!token_allows(guard, asked, needs->role, bearer, objection)) {
        return false;
    } else if (needs->changes && browser && (!asked->mark || strcmp(asked->mark, "1") != 0)) {
        *objection = (struct objection){403, "a browser sent this without the header 'X-L3A: 1'", "use the page of this server"};
    } else if (needs->changes && is_form(asked->content_type)) {
        *objection = (struct objection){415, "forms are not accepted", "send JSON as application/json, or a picture as image/jpeg"};
    } else {
        return true;
    }
    return false;
}
