/* Who may ask. A browser can reach a server on loopback for any page that it shows, so requests are checked for where they come
 * from: Host against DNS rebinding, Origin and Sec-Fetch-Site against other sites, X-L3A against forms. */
#ifndef L3A_SERVE_GUARD_H
#define L3A_SERVE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The headers of a request that matter here; NULL: it does not have them. */
struct asked {
    const char *host, *origin, *fetch_site, *fetch_mode, *fetch_dest, *mark, *authorization, *content_type;
};

struct guard {
    const char *const *names; /* that this server may be called by, besides addresses and localhost */
    size_t name_count;
    const uint8_t *token; /* the SHA-256 of the token; NULL: none is needed */
};

/* What is wrong with a request; NULL: nothing. open: it needs no token. changes: it changes something. page: another site may lead
 * to it by a link. */
struct objection {
    unsigned status;
    const char *error, *hint;
};
bool guard_allows(const struct guard *guard, const struct asked *asked, bool open, bool changes, bool page,
                  struct objection *objection);

/* Whether the Host header names an address, localhost, or one of the names. */
bool host_is_own(const struct guard *guard, const char *host);
/* Whether an Origin header is that of the server which the Host header names. */
bool origin_is_own(const char *origin, const char *host);
/* Whether an Authorization header has the token, as Bearer TOKEN, or as the password of Basic for programs that know nothing else;
 * the time it takes does not depend on the token. */
bool token_is_right(const char *authorization, const uint8_t token[32]);

#endif
