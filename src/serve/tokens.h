/* The tokens that requests may come with, and what each one allows. */
#ifndef L3A_SERVE_TOKENS_H
#define L3A_SERVE_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a route needs and a token allows; each allows what those before it do. A route must say which: 0 is none of them. */
enum role { ROLE_MISSING, ROLE_OPEN /* needs no token */, ROLE_READ, ROLE_TEACH, ROLE_ADMIN };
extern const char *const role_names[]; /* "read", … */

enum { TOKEN_NAME = 32 };

struct token {
    uint8_t hash[32]; /* the SHA-256 */
    enum role role;
    char name[TOKEN_NAME]; /* for the log; "": it has none */
};

struct tokens {
    struct token *items;
    size_t count;
};

/* Where tokens are. single: a file whose first line is one, which allows everything. several: a file with lines of a role, a token
 * and perhaps a name; empty lines and those that begin with # do not count. NULL: there is no such file. */
struct token_files {
    const char *single, *several;
};

enum { TOKEN_PROBLEM = 512 };
/* Reads them. Explains in `problem` and returns false if they cannot be used. exposed: a file that others on this machine can read;
 * NULL: there is none. */
bool tokens_read(const struct token_files *files, struct tokens *tokens, char problem[TOKEN_PROBLEM], const char **exposed);
void tokens_free(struct tokens *tokens);

/* The token that an Authorization header has, as Bearer TOKEN, or as the password of Basic for programs that know nothing else.
 * NULL: none of these. The time it takes does not depend on the tokens. */
const struct token *tokens_find(const struct tokens *tokens, const char *authorization);

#endif
