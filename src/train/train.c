#include "base/context.h"

static const l3a_train_recipe recipes[] = {
    {"norms", "norms and all biases, 10 epochs with crops and flips: for a pretrained network and some thousand pictures"},
    {"released", "what the paper's program does: one epoch of everything, without augmentation"},
};

const l3a_train_recipe *l3a_train_recipe_at(size_t index) {
    return index < sizeof recipes / sizeof *recipes ? &recipes[index] : NULL;
}

l3a_status l3a_train_prepare(l3a_context *context, const char *checkpoint, const l3a_dataset *train, const l3a_dataset *validation,
                             const l3a_train_options *options, l3a_train_plan *plan) {
    (void)validation, (void)options;
    REQUIRE((&(struct { l3a_context *context; }){context}), context, checkpoint, train, plan);
    return fail(context, L3A_ERROR_STATE, NULL, "training is not there yet");
}

l3a_status l3a_train(l3a_context *context, const char *checkpoint, const l3a_dataset *train, const l3a_dataset *validation,
                     const l3a_train_options *options, const char *path, l3a_train_report *report) {
    (void)validation, (void)options, (void)report;
    REQUIRE((&(struct { l3a_context *context; }){context}), context, checkpoint, train, path);
    return fail(context, L3A_ERROR_STATE, NULL, "training is not there yet");
}
