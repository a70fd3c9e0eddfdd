/* Pictures of several things over a cluttered background, from a seed. */
#ifndef L3A_SCENE_H
#define L3A_SCENE_H

#include "draw/recipe.h"

enum { SCENE_SIDE = 160, SCENE_THINGS = 5, SCENE_BYTES = 3 * SCENE_SIDE * SCENE_SIDE };

struct scene {
    uint64_t seed;
    size_t count;
    struct thing things[SCENE_THINGS];
};

/* What a scene shows, chosen from the recipes; no thing twice. always: the index of one that it shows in any case, or `count`. */
void scene_plan(const struct recipe *recipes, size_t count, size_t always, uint64_t seed, struct scene *scene);
/* pixels: SCENE_BYTES. Fills in the boxes of the things. */
void scene_draw(const struct recipe *recipes, struct scene *scene, uint8_t *pixels);

#endif
