#include "serve/tokens.h"

#include "common/sha256.h"
#include "serve/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { LINE = 4096, SHORTEST = 16, MOST = 10000 };

const char *const role_names[] = {
    [ROLE_MISSING] = "", [ROLE_OPEN] = "open", [ROLE_READ] = "read", [ROLE_TEACH] = "teach", [ROLE_ADMIN] = "admin"};

/* ---- Files ---- */

static bool add_token(struct tokens *tokens, enum role role, const char *text, const char *name) {
    struct token *grown = realloc(tokens->items, (tokens->count + 1) * sizeof *grown);
    if (!grown) {
        return false;
    }
    tokens->items = grown;
    struct token *token = &tokens->items[tokens->count++];
    *token = (struct token){.role = role};
    sha256_of(text, strlen(text), token->hash);
    snprintf(token->name, sizeof token->name, "%s", name);
    return true;
}

static bool is_listed(const struct tokens *tokens, const char *text) {
    uint8_t hash[32];
    bool listed = false;
    sha256_of(text, strlen(text), hash);
    for (size_t i = 0; i < tokens->count; i++) {
        listed = listed || memcmp(tokens->items[i].hash, hash, sizeof hash) == 0;
    }
    return listed;
}

static enum role find_role(const char *word) {
    for (enum role role = ROLE_READ; role <= ROLE_ADMIN; role++) {
        if (strcmp(word, role_names[role]) == 0) {
            return role;
        }
    }
    return ROLE_MISSING;
}

/* Reads "role token [name]"; returns what is wrong with it, or NULL. What is in the line is not repeated: it may be a token. */
static const char *read_line(char *line, struct tokens *tokens) {
    char *rest = NULL;
    const char *role = strtok_r(line, " \t\r\n", &rest);
    if (!role || role[0] == '#') {
        return NULL;
    }
    const char *text = strtok_r(NULL, " \t\r\n", &rest), *name = strtok_r(NULL, " \t\r\n", &rest);
    if (!find_role(role)) {
        return "the line must begin with a role: read, teach or admin";
    }
    if (!text) {
        return "there is no token after the role";
    }
    if (strlen(text) < SHORTEST) {
        return "the token is shorter than 16 characters";
    }
    if (strtok_r(NULL, " \t\r\n", &rest)) {
        return "there is something after the role, the token and its name, which is one word";
    }
    if (name && strlen(name) >= TOKEN_NAME) {
        return "the name is longer than 31 bytes";
    }
    if (is_listed(tokens, text)) {
        return "the token is there already";
    }
    return tokens->count < MOST && add_token(tokens, find_role(role), text, name ? name : "") ? NULL : "there are too many tokens";
}

static bool read_several(FILE *file, const char *path, struct tokens *tokens, char problem[TOKEN_PROBLEM]) {
    char line[LINE];
    const char *wrong = NULL;
    size_t number = 0;
    const size_t before = tokens->count;
    while (!wrong && fgets(line, sizeof line, file)) {
        number++;
        wrong = strlen(line) + 1 == sizeof line ? "the line is too long" : read_line(line, tokens);
    }
    explicit_bzero(line, sizeof line);
    if (wrong) {
        snprintf(problem, TOKEN_PROBLEM, "%s, line %zu: %s", path, number, wrong);
    } else if (ferror(file) || tokens->count == before) {
        snprintf(problem, TOKEN_PROBLEM, "%s: there is no token in this file", path);
    }
    return !problem[0];
}

static bool read_single(FILE *file, const char *path, struct tokens *tokens, char problem[TOKEN_PROBLEM]) {
    char line[LINE];
    if (!fgets(line, sizeof line, file)) {
        snprintf(problem, TOKEN_PROBLEM, "%s: there is no token in this file", path);
        return false;
    }
    line[strcspn(line, "\r\n")] = '\0';
    if (strlen(line) < SHORTEST) {
        snprintf(problem, TOKEN_PROBLEM, "%s: the token is shorter than %d characters", path, SHORTEST);
    } else if (!add_token(tokens, ROLE_ADMIN, line, "")) {
        snprintf(problem, TOKEN_PROBLEM, "not enough memory");
    }
    explicit_bzero(line, sizeof line);
    return !problem[0];
}

static bool read_file(const char *path, bool several, struct tokens *tokens, char problem[TOKEN_PROBLEM], const char **exposed) {
    FILE *file = fopen(path, "re");
    struct stat about;
    if (!file) {
        snprintf(problem, TOKEN_PROBLEM, "%s: there is no token in this file: %s", path, strerror(errno));
        return false;
    }
    if (fstat(fileno(file), &about) == 0 && (about.st_mode & (S_IRGRP | S_IROTH))) {
        *exposed = path;
    }
    const bool good = several ? read_several(file, path, tokens, problem) : read_single(file, path, tokens, problem);
    fclose(file);
    return good;
}

bool tokens_read(const struct token_files *files, struct tokens *tokens, char problem[TOKEN_PROBLEM], const char **exposed) {
    struct tokens made = {0};
    problem[0] = '\0';
    *exposed = NULL;
    const bool good = (!files->single || read_file(files->single, false, &made, problem, exposed)) &&
                      (!files->several || read_file(files->several, true, &made, problem, exposed));
    if (good) {
        *tokens = made;
    } else {
        tokens_free(&made);
    }
    return good;
}

void tokens_free(struct tokens *tokens) {
    free(tokens->items);
    *tokens = (struct tokens){0};
}

/* ---- Requests ---- */

/* Every token is looked at, and every byte of it. */
static const struct token *find(const struct tokens *tokens, const char *text, size_t length) {
    const struct token *found = NULL;
    uint8_t given[32];
    sha256_of(text, length, given);
    for (size_t i = 0; i < tokens->count; i++) {
        unsigned difference = 0;
        for (size_t k = 0; k < sizeof given; k++) {
            difference |= (unsigned)(given[k] ^ tokens->items[i].hash[k]);
        }
        found = difference ? found : &tokens->items[i];
    }
    return found;
}

const struct token *tokens_find(const struct tokens *tokens, const char *authorization) {
    const size_t scheme = authorization ? strcspn(authorization, " ") : 0;
    if (!scheme) {
        return NULL;
    }
    const char *own = authorization + scheme + strspn(authorization + scheme, " ");
    size_t length = strlen(own);
    while (length && own[length - 1] == ' ') {
        length--;
    }
    if (scheme == 6 && strncasecmp(authorization, "Bearer", 6) == 0) {
        return find(tokens, own, length);
    }
    if (scheme == 5 && strncasecmp(authorization, "Basic", 5) == 0) {
        size_t count = 0;
        uint8_t *pair = base64_decode(own, length, &count);
        const uint8_t *colon = pair ? memchr(pair, ':', count) : NULL;
        const struct token *token = colon ? find(tokens, (const char *)colon + 1, (size_t)(pair + count - colon - 1)) : NULL;
        free(pair);
        return token;
    }
    return NULL;
}
