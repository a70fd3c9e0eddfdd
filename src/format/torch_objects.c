/* An archive of TorchScript holds the objects of a module: each has its parameters and the modules in it as attributes, and so the
 * names of the state dict are the paths to the tensors. A file may hold any graph of objects, so each is visited once: one that
 * leads to itself is refused, and so is one with tensors that has two names. Thus the work and the memory are limited by the size
 * of the file. An object that is shared and has no tensors, such as an activation, is common, and does no harm. */
#include "format/torch_objects.h"

#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

enum { DEPTH_LIMIT = 64, NAME_LIMIT = 512, COUNT_LIMIT = 100000 };

static const char save_hint[] = "save the weights in PyTorch with torch.save(model.state_dict(), FILE)";

/* What is known of the dict of an object's attributes. Two objects can have the same dict. */
enum seen { UNSEEN, OPEN, WITHOUT_TENSORS, WITH_TENSORS };

struct step {
    uint32_t dict, link; /* link: the next attribute */
    size_t length;       /* of the name of the object, with a dot behind it */
    size_t before;       /* how many tensors there were before it */
};

struct walk {
    const struct pickle *pickle;
    l3a_context *context;
    torch_visit visit;
    void *user;
    unsigned char *seen; /* by the index of a dict */
    struct step steps[DEPTH_LIMIT];
    size_t depth, tensors;
    char name[NAME_LIMIT + 1]; /* of the current attribute */
};

static const char *path_of(const struct walk *walk) {
    return walk->pickle->bytes.input->path;
}

/* Writes the name of an attribute behind that of its object. */
static l3a_status set_name(struct walk *walk, const struct pickle_value *key, size_t *length) {
    const size_t before = walk->steps[walk->depth - 1].length, own = key->as.text.length;
    const char *text = pickle_text(walk->pickle, key);
    l3a_status status = L3A_OK;
    FAIL_IF(own >= NAME_LIMIT - before || memchr(text, '\0', own), walk->context, L3A_ERROR_FORMAT, save_hint,
            "%s: byte %" PRIu64
            ": the name of an attribute contains a zero byte, or is longer than %d bytes with those of the objects "
            "around it",
            path_of(walk), walk->pickle->bytes.start + key->as.text.at, NAME_LIMIT - 1);
    memcpy(walk->name + before, text, own);
    *length = before + own;
done:
    return status;
}

/* length: of the object's name, which is in walk->name. */
static l3a_status enter(struct walk *walk, uint32_t object, size_t length) {
    const uint32_t dict = pickle_at(walk->pickle, object)->as.index;
    const unsigned char seen = walk->seen[dict];
    l3a_status status = L3A_OK;
    if (!dict || seen == WITHOUT_TENSORS) {
        return L3A_OK;
    }
    FAIL_IF(seen == OPEN, walk->context, L3A_ERROR_FORMAT, save_hint, "%s: object '%.*s' is inside itself", path_of(walk),
            (int)length, walk->name);
    FAIL_IF(seen == WITH_TENSORS, walk->context, L3A_ERROR_FORMAT, save_hint,
            "%s: object '%.*s' has a second name; objects with tensors must have one", path_of(walk), (int)length, walk->name);
    FAIL_IF(walk->depth == DEPTH_LIMIT, walk->context, L3A_ERROR_FORMAT, save_hint, "%s: its objects are nested more than %d deep",
            path_of(walk), DEPTH_LIMIT);
    if (walk->depth) {
        walk->name[length++] = '.';
    }
    walk->steps[walk->depth++] = (struct step){dict, pickle_at(walk->pickle, dict)->as.items.first, length, walk->tensors};
    walk->seen[dict] = OPEN;
done:
    return status;
}

static void leave(struct walk *walk) {
    const struct step *step = &walk->steps[--walk->depth];
    walk->seen[step->dict] = walk->tensors > step->before ? WITH_TENSORS : WITHOUT_TENSORS;
}

static l3a_status take_attribute(struct walk *walk, const struct pickle_value *key, uint32_t value) {
    const struct pickle_value *given = pickle_at(walk->pickle, value);
    size_t length = 0;
    l3a_status status = L3A_OK;
    if (key->kind != PICKLE_TEXT || (given->kind != PICKLE_TENSOR && given->kind != PICKLE_OBJECT)) {
        return L3A_OK;
    }
    TRY(set_name(walk, key, &length));
    if (given->kind == PICKLE_OBJECT) {
        return enter(walk, value, length);
    }
    FAIL_IF(walk->tensors == COUNT_LIMIT, walk->context, L3A_ERROR_FORMAT, save_hint, "%s: more than %d tensors", path_of(walk),
            COUNT_LIMIT);
    walk->tensors++;
    TRY(walk->visit(walk->user, walk->name, length, &walk->pickle->tensors.items[given->as.index]));
done:
    return status;
}

l3a_status torch_objects(const struct pickle *pickle, uint32_t object, torch_visit visit, void *user) {
    struct walk walk = {.pickle = pickle, .context = pickle->bytes.input->context, .visit = visit, .user = user};
    l3a_status status = L3A_OK;
    TRY(allocate_zeroed(walk.context, pickle->values.count, sizeof *walk.seen, &walk.seen));
    TRY(enter(&walk, object, 0));
    while (walk.depth) {
        struct step *step = &walk.steps[walk.depth - 1];
        if (!step->link) {
            leave(&walk);
            continue;
        }
        const struct pickle_link *key = &pickle->links.items[step->link], *item = &pickle->links.items[key->next];
        step->link = item->next;
        TRY(take_attribute(&walk, pickle_at(pickle, key->value), item->value));
    }
done:
    release(walk.context, walk.seen);
    return status;
}
