/* The names of pictures in memory, and their order. They are read when something is first searched or sorted by its name; a
 * picture's name and folder never change, so later only new ones are read. */
#ifndef L3A_LIBRARY_NAMES_H
#define L3A_LIBRARY_NAMES_H

#include "library/catalogue.h"

struct names {
    l3a_context *context;
    text_pool pool;   /* as the catalogue has its rows */
    int64_t purges;   /* of that catalogue */
    uint32_t *places; /* [ordered]: in the order of paths, from 1; 0: it was gone by then */
    size_t ordered;
};

/* In the transaction in which the catalogue was brought up to date: the names of all its rows. */
l3a_status names_load(struct names *names, const struct catalogue *catalogue, struct database *database);
/* And their places in the order of paths. */
l3a_status names_order(struct names *names, const struct catalogue *catalogue, struct database *database);
/* Fills the mask [rows of the catalogue] with 1 for names that have this text in them, small or capital letters alike. */
void names_search(const struct names *names, const char *text, uint8_t *mask);
void names_free(struct names *names);

#endif
