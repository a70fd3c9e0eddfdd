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

/* Chooses and places the things that a scene shows, none of them twice. always: the index of a thing that it must show, or `count`.
 */
void scene_plan(const struct recipe *recipes, size_t count, size_t always, uint64_t seed, struct scene *scene);
/* Draws a scene into `pixels` (SCENE_BYTES), and sets the boxes of its things. */
void scene_draw(const struct recipe *recipes, struct scene *scene, uint8_t *pixels);

#endif
