/* What the readers of configurations share: where they are, what is still to be found, and the checks of values. Private to
 * config*.c. */
#ifndef L3A_CONFIG_READ_H
#define L3A_CONFIG_READ_H

#include "common/json_tree.h"
#include "net/config.h"

enum { CONFIG_LARGEST_SIDE = 4096, CONFIG_LARGEST_WIDTH = 65536, CONFIG_MOST_HEADS = 1024 };

/* What a configuration may say. */
enum config_field {
    CONFIG_OTHER, /* what no option replaces */
    CONFIG_SIDE,
    CONFIG_MEAN,
    CONFIG_HEADS,
    CONFIG_ACTIVATION,
    CONFIG_EPSILON,
    CONFIG_STRIDE,
    CONFIG_FRAME,
    CONFIG_FILTER
};

/* A configuration that is being read, and what was found in this one and those before. */
struct config_reader {
    l3a_context *context;
    const struct checkpoint *checkpoint;
    struct backbone_recipe *recipe;
    struct recipe_sources *sources;
    struct config_geometry *geometry;
    const char *source; /* such as "config.json" */
    const char *path;   /* for messages */
    enum config_field field;
};

/* Whether a field is neither known nor found in a configuration before. Messages from here on name the option that does without
 * it. */
bool config_wants(struct config_reader *reader, enum config_field field);
/* "PATH: KEY …", and what to do. */
__attribute__((format(printf, 4, 5))) l3a_status config_fail(const struct config_reader *reader, l3a_status status, const char *key,
                                                             const char *format, ...);
/* A text from a configuration as a message can show it. */
enum { CONFIG_SHOWN = 64 };
const char *config_show(const char *text, char shown[CONFIG_SHOWN]);

/* Set the field that is wanted. `key` is where it was found, for messages. */
l3a_status config_set_heads(struct config_reader *reader, const char *key, size_t heads, size_t width); /* width 0: unknown */
l3a_status config_set_activation(struct config_reader *reader, const char *key, const char *name);
l3a_status config_set_epsilon(struct config_reader *reader, const char *key, double epsilon);
l3a_status config_set_crop(struct config_reader *reader, const char *key, enum config_frame frame, double crop);
/* Pixels from 0 to 1 are multiplied by `scale` before the mean is subtracted. */
l3a_status config_set_mean(struct config_reader *reader, const char *key, const double mean[3], const double deviation[3],
                           double scale);
void config_set_side(struct config_reader *reader, size_t side);
void config_set_stride(struct config_reader *reader, bool first);
void config_set_family(struct config_reader *reader, const char *name); /* NULL: not known */
void config_set_filter(struct config_reader *reader, const char *name);
/* What the geometry has that cannot be done. */
void config_cannot(struct config_reader *reader, const char *what, const char *given);

/* The value of a key; NULL if it is null or missing. */
const struct json_value *config_get(const struct json_value *object, const char *key);
/* These leave what they would set if the value is missing, and fail if it is of another kind or out of range. */
l3a_status config_object(const struct config_reader *reader, const struct json_value *object, const char *key,
                         const struct json_value **given);
l3a_status config_text(const struct config_reader *reader, const struct json_value *object, const char *key, const char **text);
l3a_status config_truth(const struct config_reader *reader, const struct json_value *object, const char *key, bool *truth);
l3a_status config_number(const struct config_reader *reader, const struct json_value *object, const char *key, double *number);
/* A whole number from 1 to `most`. */
l3a_status config_count(const struct config_reader *reader, const struct json_value *object, const char *key, size_t most,
                        size_t *count);
/* The side of a square: one number, or an array of `entries`, of which the last two are equal; a third before them is 3. */
l3a_status config_square(const struct config_reader *reader, const struct json_value *object, const char *key, size_t entries,
                         size_t *side);
/* Three numbers, or one that counts for three. */
l3a_status config_three(const struct config_reader *reader, const struct json_value *object, const char *key, double three[3],
                        bool *found);
/* A mean and a deviation under these two keys, both or none. */
l3a_status config_mean(struct config_reader *reader, const struct json_value *object, const char *mean_key,
                       const char *deviation_key, double scale);
/* Whether a tensor has this dimension; the second fails if none has: the configuration is that of another checkpoint. */
bool config_has_width(const struct config_reader *reader, size_t width);
l3a_status config_check_width(const struct config_reader *reader, const char *key, size_t width);

/* Each reads one form, whose outermost value is an object. */
l3a_status config_read_timm(struct config_reader *reader, const struct json_value *root);
l3a_status config_read_open_clip(struct config_reader *reader, const struct json_value *root);
l3a_status config_read_transformers(struct config_reader *reader, const struct json_value *root);
l3a_status config_read_preprocessor(struct config_reader *reader, const struct json_value *root);

#endif
