/* Who may ask. A browser can reach a server on loopback for any page that it shows, so requests are checked for where they come
 * from: Host against DNS rebinding, Origin and Sec-Fetch-Site against other sites, X-L3A against forms. */
#ifndef L3A_SERVE_GUARD_H
#define L3A_SERVE_GUARD_H

#include "serve/tokens.h"

#include <stdbool.h>
#include <stddef.h>

/* The headers of a request that matter here; NULL: it does not have them. */
struct asked {
    const char *host, *origin, *fetch_site, *fetch_mode, *fetch_dest, *mark, *authorization, *content_type;
};

struct guard {
    const char *const *names; /* that this server may be called by, besides addresses and localhost */
    size_t name_count;
    const struct tokens *tokens; /* none: no request needs one */
};

/* What a request needs to be let in. changes: it changes something, so that a browser must prove that the page itself is asking.
 * page: another site may lead to it by a link. */
struct needs {
    enum role role;
    bool changes, page;
};

/* What is known of who asks: what the token allows, and its name. */
struct bearer {
    enum role role;
    char name[TOKEN_NAME];
};

/* What is wrong with a request. */
struct objection {
    unsigned status;
    const char *error, *hint;
};
bool guard_allows(const struct guard *guard, const struct asked *asked, const struct needs *needs, struct bearer *bearer,
                  struct objection *objection);

/* Whether the Host header names an address, localhost, or one of the names. */
bool host_is_own(const struct guard *guard, const char *host);
/* Whether an Origin header is that of the server which the Host header names. */
bool origin_is_own(const char *origin, const char *host);

#endif
