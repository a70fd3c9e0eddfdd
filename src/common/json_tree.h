/* A JSON text as a tree, for programs that take requests. Values belong to the tree that was read. */
#ifndef L3A_JSON_TREE_H
#define L3A_JSON_TREE_H

#include "common/json.h"

struct json_tree;
struct json_value;

/* What is wrong with a text. */
struct json_problem {
    const char *hint;
    char text[512];
};

/* Reads a whole text, whose strings must be UTF-8. Messages use name, and give line and column. More than `limit` values are
 * L3A_ERROR_MEMORY; a value takes 40 bytes besides its text. text may be NULL if length is 0. *problem is set on failure. */
l3a_status json_tree_read(const char *name, const char *text, size_t length, size_t limit, struct json_tree **tree,
                          struct json_problem *problem);
void json_tree_free(struct json_tree *tree);
/* The outermost value. */
const struct json_value *json_tree_root(const struct json_tree *tree);

/* All of these take NULL for a value that is not there; its kind is JSON_NULL. */
json_kind json_value_kind(const struct json_value *value);
/* The first value in an array or object, and the one after a value in the same array or object; NULL if there is none. */
const struct json_value *json_value_first(const struct json_value *value);
const struct json_value *json_value_next(const struct json_value *value);
/* The value of a key; NULL if the object does not have it, or the value is not an object. Of equal keys, the first. */
const struct json_value *json_value_get(const struct json_value *value, const char *key);
/* The key of a value in an object; NULL elsewhere. */
const char *json_value_key(const struct json_value *value);
/* The text of a string, which contains no zero byte, and its length (NULL: not wanted); NULL for other kinds. */
const char *json_value_text(const struct json_value *value, size_t *length);
/* A number, or 1 for true; 0 for other kinds. */
double json_value_number(const struct json_value *value);

#endif
