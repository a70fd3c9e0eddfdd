#include "train/training_source.h"

#include "base/machine.h"
#include "base/memory.h"
#include "net/backbone.h"
#include "net/recipe.h"

const struct network_back_end *training_back_end(const l3a_context *context) {
    const struct network_back_end *device = network_back_end_of_device(context);
    if (device && device->forward) {
        return device;
    }
    for (size_t i = 0; network_back_end_at(i); i++) {
        const struct network_back_end *at = network_back_end_at(i);
        if (at->available() && at->forward) {
            return at;
        }
    }
    return NULL;
}

uint64_t training_memory(const l3a_context *context, const struct network_back_end *back_end) {
    if (back_end == network_back_end_of_device(context)) {
        return context->options.device_memory_limit;
    }
    return context->options.memory_limit ? context->options.memory_limit : machine_memory_available();
}

/* The network as it is in the checkpoint. */
static l3a_status look_at_network(l3a_context *context, struct training_source *source) {
    struct parameter_source tensors;
    struct reading reading = {0};
    l3a_status status = L3A_OK;
    parameter_source_checkpoint(source->checkpoint, &tensors);
    status = backbone_read(context, &tensors, &source->backbone, &reading);
    if (status != L3A_OK) {
        fail_in(context, status, "%s", checkpoint_path(source->checkpoint));
        goto done;
    }
    recipe_describe(reading.family, &reading.recipe, &source->info);
    source->info.flops = network_flops(&reading.network);
    source->info.width = reading.network.shapes[reading.network.outputs[0].value].channels;
    loader_options_for(&source->info, &source->picture, 1, &source->loader);
done:
    network_free(&reading.network);
    return status;
}

l3a_status training_source_open(l3a_context *context, const char *checkpoint, const l3a_backbone_options *backbone,
                                const l3a_picture_options *picture, l3a_features *train, const l3a_dataset *train_pictures,
                                l3a_features *test, const l3a_dataset *test_pictures, struct training_source *source) {
    l3a_status status = L3A_OK;
    *source = (struct training_source){.backbone = *backbone, .picture = *picture};
    source->backbone.precision = L3A_NETWORK_FLOAT32; /* of features, about which training says nothing */
    source->back_end = training_back_end(context);
    FAIL_IF(!source->back_end, context, L3A_ERROR_STATE, "install oneDNN's development files and build l3a again",
            "this build cannot train networks");
    source->memory = training_memory(context, source->back_end);
    source->memory -= source->memory / 4; /* for the network before a phase, pictures and moments of a method's own */
    TRY(checkpoint_open(context, checkpoint, &source->checkpoint));
    TRY(look_at_network(context, source));
    TRY(checkpoint_sha256(source->checkpoint, source->info.sha256));
    TRY(picture_rows_open(train, train_pictures, &source->train));
    TRY(picture_rows_open(test, test_pictures, &source->test));
done:
    return status;
}

void training_source_close(struct training_source *source) {
    picture_rows_close(&source->train);
    picture_rows_close(&source->test);
    checkpoint_free(source->checkpoint);
    *source = (struct training_source){.checkpoint = NULL};
}
