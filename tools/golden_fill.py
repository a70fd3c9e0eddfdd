"""Numbers that follow from names, so that golden networks need no stored weights. ../shared/README.md has the rule."""
import numpy as np

TOKENS = ("cls_token", "dist_token", "reg_token", "pos_embed", "attn_pool.latent")


def uniform(name, count):
    """The numbers of splitmix64, started at the FNV-1a of the name, in [0, 1)."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 2**24


def fill(name, shape):
    """One-dimensional tensors: variances, weights of norms and LayerScale's gamma 0.5 + u, all others 0.2 (u - 0.5). Learned tokens and
    positions 0.2 (u - 0.5). The rest, kernels: (2u - 1) sqrt(3 / fan_in)."""
    u = uniform(name, int(np.prod(shape)))
    if name.endswith("running_var") or (len(shape) == 1 and name.endswith(("weight", "gamma"))):
        values = 0.5 + u
    elif len(shape) == 1 or name in TOKENS:
        values = 0.2 * (u - 0.5)
    else:
        values = (2 * u - 1) * np.sqrt(3 / np.prod(shape[1:]))
    return values.reshape(shape).astype(np.float32)


def fill_all(shapes, about, fill_one=map):
    """Tensors by name. about: `zeros` are tensors of zeros, and `negated` those whose even channels are negated after filling."""
    weights = dict(zip(shapes, fill_one(lambda item: fill(*item), shapes.items())))
    for name in about.get("zeros", []):
        weights[name][:] = 0
    for name in about.get("negated", []):
        weights[name][::2] *= -1
    return weights


def input_picture(side):
    """[1, 3, side, side], in float64."""
    return (np.floor(256 * uniform("input image", 3 * side * side)) / 255).reshape(1, 3, side, side)


def picture_of(height, width):
    """Bytes [height][width][RGB]."""
    return np.floor(256 * uniform(f"picture {height}x{width}", height * width * 3)).astype(np.uint8).reshape(height, width, 3)
