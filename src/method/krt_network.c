/* P are the pixels of the backbone's last map, or the picture's tokens of a vision transformer after its last norm, mapped to
 * `width` numbers, with learned positions. With the class token c that all phases share, and a token tᵢ of phase i, N = norm(tᵢ, c,
 * P),   q = Wq N_c,   (K, V) = Wkv N, o = c + Wp attention(q, K, V) + bp,   eᵢ = o + W₂ gelu(W₁ norm(o)), scores of the classes of
 * phase i = Fᵢ norm(eᵢ) + fᵢ, where each phase has a norm and a map Fᵢ of its own. Only tᵢ differs from phase to phase, so keys and
 * values of c and P are computed once, and one layer maps the tokens of all phases. The block's dropout is 0 in the published
 * program.
 *
 * In a phase, all of this is trained but the tokens and the heads of earlier phases.
 *
 * New values: the class token, the tokens of phases and the positions are normal with deviation 0.02; the maps of the block and the
 * head of the first phase with 0.01; the map of the pixels with √(2/width). Biases of the block are 0, norms 1 and 0; what remains,
 * as PyTorch's linear layers have it, uniform in ±1/√(inputs). */
#include "method/krt_network.h"

#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEADS = 8, EXPANSION = 4, NAME = 64 };
enum { STREAM_VALUES = 9 };
static const double EPSILON = 1e-5;
static const char prefix[] = "krt.";

/* ---- The description ---- */

static void name_of_head(char name[NAME], size_t phase, const char *part) {
    snprintf(name, NAME, "heads.%zu.%s", phase, part);
}

/* The classes of a phase, from 0: those of its bias if it has been kept, or else all that are left. */
static size_t classes_of(const struct head *head, size_t phase, size_t left) {
    char part[NAME], name[NAME + sizeof prefix];
    name_of_head(part, phase, "fc.bias");
    snprintf(name, sizeof name, "%s%s", prefix, part);
    const struct kept_value *kept = trained_network_find(&head->network->net, name);
    return kept && kept->count <= left ? kept->count : left;
}

static size_t phases_of(const struct head *head) {
    size_t phases = 0;
    for (size_t left = head->classes; left; phases++) {
        left -= classes_of(head, phases, left);
    }
    return phases;
}

static size_t width_of(const struct krt *krt) {
    return krt->width ? krt->width : learns_coco(&krt->head) ? 384 : 768;
}

/* The last map as tokens: the pixels of a network of convolutions, the picture's tokens of a vision transformer. */
static value last_tokens(struct network *net) {
    const value tokens = network_find_output(net, "tokens"), map = network_find_output(net, "stage4");
    size_t front = 0;
    for (size_t i = 0; tokens && i < net->layer_count; i++) {
        front = net->layers[i].kind == LAYER_TOKENS ? net->layers[i].prefix : front;
    }
    const struct shape shape = net->shapes[tokens ? tokens : map];
    return slice(net, tokens ? tokens : map, front, shape.height * shape.width - front, 1);
}

/* The tokens of all phases, one below the other. */
static value phase_tokens(struct network *net, size_t phases, size_t width) {
    value tokens = NOTHING;
    for (size_t i = 0; i < phases; i++) {
        char name[NAME];
        snprintf(name, sizeof name, "task_tokens.%zu", i);
        const value token = learned(net, name, 1, width);
        tokens = tokens ? stack(net, tokens, token) : token;
    }
    return tokens;
}

/* o of all phases, one below the other. all: the tokens of phases, c, and those of the picture. */
static value attend(struct network *net, value all, size_t phases, size_t width) {
    const value normed = layer_norm(net, all, "norm1", EPSILON);
    const size_t rest = net->status == L3A_OK ? net->shapes[all].height - phases : 0;
    const value query =
        linear(net, slice(net, normed, phases, 1, 1), &(struct linear){.name = "attn.q", .out = width, .unbiased = true});
    const value keys = linear(net, normed, &(struct linear){.name = "attn.kv", .out = 2 * width, .unbiased = true});
    const value shared = slice(net, keys, phases, rest, 1), token = slice(net, all, phases, 1, 1);
    value mixed = NOTHING, repeated = NOTHING;
    for (size_t i = 0; i < phases; i++) {
        const value own = attention(net, join(net, query, slice(net, keys, i, 1, 1)), shared, HEADS);
        mixed = mixed ? stack(net, mixed, own) : own;
        repeated = repeated ? stack(net, repeated, token) : token;
    }
    return linear(net, mixed, &(struct linear){.name = "attn.proj", .out = width, .add = repeated});
}

static value score_phases(const struct head *head, struct network *net, value tokens) {
    value scores = NOTHING;
    for (size_t left = head->classes, phase = 0; left; phase++) {
        char norm[NAME], map[NAME];
        const size_t classes = classes_of(head, phase, left);
        name_of_head(norm, phase, "norm");
        name_of_head(map, phase, "fc");
        const value normed = layer_norm(net, slice(net, tokens, phase, 1, 1), norm, EPSILON);
        const value own = linear(net, normed, &(struct linear){.name = map, .out = classes});
        scores = scores ? join(net, scores, own) : own;
        left -= classes;
    }
    return scores;
}

value krt_describe(void *owner, struct network *net, const struct family *family, const struct backbone_recipe *recipe) {
    const struct krt *krt = owner;
    const size_t width = width_of(krt), phases = phases_of(&krt->head);
    const value pooled = family->describe(net, recipe);
    if (net->status != L3A_OK) {
        return NOTHING;
    }
    network_prefix(net, "%s", prefix);
    const value pixels = last_tokens(net);
    const value tokens = linear(net, pixels, &(struct linear){.name = "proj", .out = width});
    const size_t count = net->status == L3A_OK ? net->shapes[tokens].height : 0;
    const value placed = add_tokens(
        net, tokens,
        &(struct tokens){.class_token = "cls_token", .positions = "pos_embed", .position_count = count, .across = root_of(count)});
    const value mixed = attend(net, stack(net, phase_tokens(net, phases, width), placed), phases, width);
    const value inner = linear(net, layer_norm(net, mixed, "norm2", EPSILON),
                               &(struct linear){.name = "mlp.fc1", .out = EXPANSION * width, .activation = GELU});
    const value embedded = linear(net, inner, &(struct linear){.name = "mlp.fc2", .out = width, .add = mixed});
    net->output_count = 0; /* those of the backbone are not looked at */
    network_output(net, "embedded", embedded);
    network_output(net, "pooled", pooled);
    return score_phases(&krt->head, net, embedded);
}

/* ---- New values ---- */

/* A stream for each name. */
static uint64_t stream_of(const struct head *head, const char *name) {
    uint64_t stream = random_bits(head->seed, STREAM_VALUES);
    for (; *name; name++) {
        stream = random_bits(stream, (uint64_t)(unsigned char)*name);
    }
    return stream;
}

/* Box and Muller 1958. */
static void draw_normal(uint64_t stream, double deviation, size_t count, float *values) {
    for (size_t i = 0; i < count; i++) {
        const double length = sqrt(-2 * log(1 - random_uniform(stream, 2 * i)));
        values[i] = (float)(deviation * length * cos(2 * acos(-1) * random_uniform(stream, 2 * i + 1)));
    }
}

static void draw_uniform(uint64_t stream, double bound, size_t count, float *values) {
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)((2 * random_uniform(stream, i) - 1) * bound);
    }
}

static bool ends_with(const char *name, const char *end) {
    const size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

/* The weights of a map are made before its bias. */
static size_t inputs_of_map(const struct head *head) {
    const struct kept_value *weight = trained_network_find(&head->network->net, "krt.proj.weight");
    return weight ? (size_t)weight->shape[1] : 1;
}

l3a_status krt_make(void *owner, const char *name, size_t rank, const uint64_t *shape, float *values) {
    const struct head *head = owner;
    const uint64_t stream = stream_of(head, name);
    const bool weight = ends_with(name, ".weight"), of_head = strstr(name, ".heads."), of_norm = strstr(name, "norm");
    size_t count = 1;
    for (size_t i = 0; i < rank; i++) {
        count *= (size_t)shape[i];
    }
    if (of_norm) {
        for (size_t i = 0; i < count; i++) {
            values[i] = weight;
        }
    } else if (rank == 3) {
        draw_normal(stream, 0.02, count, values);
    } else if (strcmp(name, "krt.proj.weight") == 0) {
        draw_normal(stream, sqrt(2 / (double)shape[0]), count, values);
    } else if (weight && (!of_head || strstr(name, ".heads.0."))) {
        draw_normal(stream, 0.01, count, values);
    } else if (of_head || strcmp(name, "krt.proj.bias") == 0) {
        draw_uniform(stream, 1 / sqrt((double)(of_head ? width_of(owner) : inputs_of_map(head))), count, values);
    } else {
        memset(values, 0, count * sizeof *values);
    }
    return L3A_OK;
}

/* ---- What is trained ---- */

bool krt_trains(void *owner, const char *name, bool selected) {
    const struct head *head = owner;
    size_t phase = head->network->phase;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) {
        return selected;
    }
    if (sscanf(name, "krt.task_tokens.%zu", &phase) == 1 || sscanf(name, "krt.heads.%zu", &phase) == 1) {
        return phase == head->network->phase;
    }
    return true;
}
