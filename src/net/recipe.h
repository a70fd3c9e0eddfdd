/* Recipes (network.h): what the options say, what must be known before a network can be opened, and the texts that feature files
 * and models record. */
#ifndef L3A_RECIPE_H
#define L3A_RECIPE_H

#include "net/network.h"

/* Fails if the options are out of range. */
l3a_status recipe_start(l3a_context *context, const l3a_backbone_options *options, struct backbone_recipe *recipe);
/* Once the family has been asked: fails if mean or deviation, or a pool, cannot be known. */
l3a_status recipe_check(l3a_context *context, const struct family *family, const struct backbone_recipe *recipe);
/* Sets what of the info follows from the recipe. */
void recipe_describe(const struct family *family, const struct backbone_recipe *recipe, l3a_backbone_info *info);
/* Reads the options from the texts that describe a backbone: `preprocess`, `pool` and `network`; the last two may be NULL. *rest is
 * what follows in preprocess. Returns false, and changes nothing, if it is not such a text. */
bool recipe_parse(const char *preprocess, const char *pool, const char *network, l3a_backbone_options *options, const char **rest);
/* How to load pictures for a network. views: 0 is 1. */
void loader_options_for(const l3a_backbone_info *info, const l3a_picture_options *picture, size_t views,
                        l3a_loader_options *options);
/* The keys of these texts, and of the classes of its classifier, one per line, in the metadata of a file that training has made. */
extern const char recorded_preprocess[], recorded_pool[], recorded_network[], recorded_classes[];
/* Reads these texts into a recipe. Returns false if one of them is none, or is out of range. pool and network may be NULL. */
bool recipe_recall(l3a_context *context, const char *preprocess, const char *pool, const char *network,
                   struct backbone_recipe *recipe);
/* Sets what is not known yet of a recipe as it is in another one. */
void recipe_fill(struct backbone_recipe *recipe, const struct backbone_recipe *from);
/* "float32", "bf16", "float16" */
const char *precision_text(l3a_network_precision precision);
/* "cls", "mean", …; NULL past the last pool. */
const char *pool_text(l3a_pool pool);

#endif
