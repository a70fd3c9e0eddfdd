/* Pictures in requests, and their tags in answers. */
#ifndef L3A_SERVE_TAGGING_H
#define L3A_SERVE_TAGGING_H

#include "serve/server.h"

/* Makes room for the pictures of a request; false: refused. */
bool pictures_create(struct request *request, size_t count);
/* Reads a picture from {"image": base64} or {"path": …} or {"key": …}; false: refused. A key whose features are gone gives the
 * picture the problem 410. */
bool picture_read(struct request *request, const struct json_value *told, struct picture *picture, size_t number);
/* Reads the "pictures" of the request; false: refused. */
bool pictures_read(struct request *request);
/* How many values an array has; SIZE_MAX if the value is not an array. */
size_t json_count(const struct json_value *value);

/* Scores the pictures that have features, and calls `each` with their tags in order. Those with a problem are left out. Returns
 * false if the request was refused. */
typedef void each_tagged(struct picture *picture, const l3a_tags *tags, void *user);
bool pictures_score(struct request *request, struct worker *worker, each_tagged *each, void *user);
/* Adds the object of a picture to the answer. */
void picture_write(struct text *text, const struct picture *picture, const l3a_tags *tags, bool all);
/* 1: a tag is in doubt; 0: none is. */
double tags_uncertainty(const l3a_tags *tags);
void tags_write(struct text *text, const l3a_tags *tags, bool all);

#endif
