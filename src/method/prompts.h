/* What the methods share that learn prompts for a frozen vision transformer: multi-lane, coda-prompt and l2p. Their parameters are
 * tensors beside those of the network, whose names begin with a word of the method and the number of their phase. */
#ifndef L3A_PROMPTS_H
#define L3A_PROMPTS_H

#include "method/head.h"
#include "net/vit.h"

enum { PROMPT_NAME = 96 };

/* Pictures as the published training of prompts for pictures of 224 pixels shows them: parts of 5 to 100 % of the area, 3 : 4 to
 * 4 : 3, half of them mirrored. */
#define PROMPT_AUGMENTATION                                                                                                        \
    { .least = 0.05, .most = 1, .ratio = 4.0 / 3, .flip = true }

/* Defines `name`_learner, with these rules and settings; its tuning is that of the rules. */
#define PROMPT_LEARNER(name, rules, own_settings)                                                                                  \
    static l3a_status name##_create(l3a_context *context, const struct method *method, const l3a_options *settings, size_t width,  \
                                    void **state) {                                                                                \
        static const struct tuning tuning = {0};                                                                                   \
        (void)method;                                                                                                              \
        return head_create(context, &(rules), &tuning, settings, width, state);                                                    \
    }                                                                                                                              \
    const struct learner name##_learner = {.create = name##_create, .settings = (own_settings), HEAD_LEARNER_FUNCTIONS}

/* Begins to describe a vision transformer. false: the description has failed, and says why if the network is none. */
bool prompts_start(struct network *net, const struct head *head, const char *method, const struct family *family,
                   const struct backbone_recipe *recipe, struct vit *vit);

/* What chooses prompts: the features of the network without them. */
value prompts_query(struct network *net, const struct vit *vit, value tokens);
/* Whether a name begins with the word and the number of the phase that is being learned. */
bool prompts_of_phase(const struct head *head, const char *word, const char *name);

/* Uniform numbers from `low` to `high`; they depend on the head's seed and on the name. */
void prompts_uniform(const struct head *head, const char *name, double low, double high, size_t count, float *values);
/* Rows of random directions, of length 1, orthogonal to `before` earlier rows and to one another as long as there are dimensions
 * left. */
l3a_status prompts_orthogonal(const struct head *head, const char *name, const float *earlier, size_t before, size_t rows,
                              size_t columns, float *values);

#endif
