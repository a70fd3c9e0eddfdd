/* Settings kept in a struct and described by a table: set from text or number, read back, checked against their ranges.
 *
 * The struct has one field for each line of its table: a uint64_t for an integer, a double for a number, an enum for a choice. It
 * also has a uint64_t in which bit i says that the setting in line i was given by name. */
#ifndef L3A_SETTINGS_H
#define L3A_SETTINGS_H

#include "base/context.h"

struct setting {
    l3a_option_info info;
    size_t offset; /* of the field */
};

struct setting_table {
    const struct setting *settings;
    size_t count;
    size_t given; /* offset of the bits */
};

/* Lines of a table. */
#define SETTING_INTEGER(group, type, field, name, low, high, fallback, help)                                                       \
    { {name, L3A_OPTION_INTEGER, low, high, 0, 0, NULL, fallback, help, group, NULL}, offsetof(type, field) }
#define SETTING_NUMBER(group, type, field, name, low, high, low_open, high_open, fallback, help)                                   \
    { {name, L3A_OPTION_NUMBER, low, high, low_open, high_open, NULL, fallback, help, group, NULL}, offsetof(type, field) }
#define SETTING_CHOICE(group, type, field, name, choices, fallback, help)                                                          \
    { {name, L3A_OPTION_CHOICE, 0, 0, 0, 0, choices, fallback, help, group, NULL}, offsetof(type, field) }

/* The largest integer of a range. Every whole number up to it is a double, so ranges can be stored as doubles. */
#define LARGEST_INTEGER 9007199254740992.0

/* In the functions below, `values` is the struct that the table describes. */

/* NULL if the table has no such name. */
const struct setting *setting_find(const struct setting_table *table, const char *name);
/* Gives every setting its default; none counts as given. */
void settings_default(const struct setting_table *table, void *values);
/* Sets one setting, which then counts as given. A value that is not allowed changes nothing. */
l3a_status setting_set(l3a_context *context, const struct setting_table *table, void *values, const struct setting *setting,
                       const char *value);
l3a_status setting_set_number(l3a_context *context, const struct setting_table *table, void *values, const struct setting *setting,
                              double value);
/* Writes the value as text, cut to capacity, and returns the full length. */
size_t setting_get(const void *values, const struct setting *setting, char *text, size_t capacity);
/* The value of an integer or a number; 0 for a choice. */
double setting_number(const void *values, const struct setting *setting);
bool setting_is_given(const struct setting_table *table, const void *values, const struct setting *setting);
/* Checks every setting against its range. */
l3a_status settings_check(l3a_context *context, const struct setting_table *table, const void *values);
/* The error about a name that none of the tables has: "there is" or "a model has" "no setting …", with the closest name. */
l3a_status fail_unknown_setting(l3a_context *context, const struct setting_table *const *tables, size_t count, const char *who,
                                const char *name);

#endif
