"""Derivatives of plain NumPy formulas, in double precision: a value remembers what it was made from, and how a change of it changes that.
Only what the comparisons with trained networks need.

    w = Value(array)
    loss = ((x @ w) ** 2).sum()
    loss.backward()        # w.slope is ∂loss/∂w
"""
import math

import numpy as np

erf = np.vectorize(math.erf, otypes=[float])


def _fit(slope, shape):
    """Sums a slope over what broadcasting has repeated."""
    while slope.ndim > len(shape):
        slope = slope.sum(0)
    for axis, size in enumerate(shape):
        if size == 1 and slope.shape[axis] != 1:
            slope = slope.sum(axis, keepdims=True)
    return slope


def constant(value):
    return value if isinstance(value, Value) else Value(value)


class Value:
    __array_priority__ = 1000

    def __init__(self, array, parents=()):
        self.array = np.asarray(array, float)
        self.parents = parents  # (value, function from this slope to that value's)
        self.slope = None

    @property
    def shape(self):
        return self.array.shape

    def backward(self):
        order, seen = [], set()

        def visit(value):
            stack = [(value, False)]
            while stack:
                at, done = stack.pop()
                if done:
                    order.append(at)
                elif id(at) not in seen:
                    seen.add(id(at))
                    stack.append((at, True))
                    stack.extend((parent, False) for parent, _ in at.parents)

        visit(self)
        for value in order:
            value.slope = np.zeros_like(value.array)
        self.slope = np.ones_like(self.array)
        for value in reversed(order):
            for parent, back in value.parents:
                parent.slope = parent.slope + _fit(back(value.slope), parent.shape)

    def detach(self):
        return Value(self.array)

    def __add__(self, other):
        other = constant(other)
        return Value(self.array + other.array, ((self, lambda g: g), (other, lambda g: g)))

    def __mul__(self, other):
        other = constant(other)
        return Value(self.array * other.array, ((self, lambda g: g * other.array), (other, lambda g: g * self.array)))

    def __truediv__(self, other):
        return self * constant(other) ** -1

    def __pow__(self, power):
        return Value(self.array ** power, ((self, lambda g: g * power * self.array ** (power - 1)),))

    def __matmul__(self, other):
        other = constant(other)
        return Value(self.array @ other.array, ((self, lambda g: g @ np.swapaxes(other.array, -1, -2)),
                                                (other, lambda g: np.swapaxes(self.array, -1, -2) @ g)))

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + -constant(other)

    def __rsub__(self, other):
        return constant(other) - self

    def __rtruediv__(self, other):
        return constant(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __getitem__(self, index):
        def back(g):
            whole = np.zeros_like(self.array)
            np.add.at(whole, index, g)
            return whole
        return Value(self.array[index], ((self, back),))

    def reshape(self, *shape):
        return Value(self.array.reshape(*shape), ((self, lambda g: g.reshape(self.shape)),))

    def transpose(self, *axes):
        return Value(self.array.transpose(*axes), ((self, lambda g: g.transpose(*np.argsort(axes))),))

    def sum(self, axis=None, keepdims=False):
        def back(g):
            return np.broadcast_to(g if axis is None or keepdims else np.expand_dims(g, axis), self.shape)
        return Value(self.array.sum(axis=axis, keepdims=keepdims), ((self, back),))

    def mean(self, axis=None, keepdims=False):
        count = self.array.size if axis is None else self.shape[axis]
        return self.sum(axis, keepdims) * (1 / count)

    def max(self, axis):
        """The slope goes to the first that has the largest value."""
        first = np.expand_dims(self.array.argmax(axis), axis)

        def back(g):
            whole = np.zeros_like(self.array)
            np.put_along_axis(whole, first, np.expand_dims(g, axis), axis)
            return whole
        return Value(self.array.max(axis), ((self, back),))

    def map(self, function, slope):
        """function of each number; slope: its derivative."""
        return Value(function(self.array), ((self, lambda g: g * slope(self.array)),))

    def exp(self):
        return self.map(np.exp, np.exp)

    def log(self):
        return self.map(np.log, lambda x: 1 / x)

    def sqrt(self):
        return self ** 0.5

    def tanh(self):
        return self.map(np.tanh, lambda x: 1 - np.tanh(x) ** 2)

    def relu(self):
        return self.map(lambda x: np.maximum(x, 0), lambda x: x > 0)

    def leaky(self, share):
        return self.map(lambda x: np.where(x > 0, x, share * x), lambda x: np.where(x > 0, 1, share))

    def sigmoid(self):
        return self.map(lambda x: 1 / (1 + np.exp(-x)), lambda x: np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))) ** 2)

    def soft_plus(self):
        """log(1 + e^x)"""
        return self.map(lambda x: np.logaddexp(0, x), lambda x: 1 / (1 + np.exp(-x)))

    def gelu(self):
        return self.map(lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
                        lambda x: (1 + erf(x / math.sqrt(2))) / 2 + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))

    def softmax(self):
        """Over the last axis."""
        shifted = (self - self.array.max(-1, keepdims=True)).exp()
        return shifted / shifted.sum(-1, keepdims=True)


def join(values, axis):
    values = [constant(value) for value in values]
    edges = np.cumsum([0] + [value.shape[axis] for value in values])

    def back_of(i):
        return lambda g: np.take(g, np.arange(edges[i], edges[i + 1]), axis)
    return Value(np.concatenate([value.array for value in values], axis), tuple((value, back_of(i)) for i, value in enumerate(values)))


# ---- Layers ----

def linear(x, weight, bias=None):
    y = x @ weight.transpose(1, 0)
    return y if bias is None else y + bias


def layer_norm(x, weight, bias, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    return centred / ((centred ** 2).mean(-1, keepdims=True) + epsilon).sqrt() * weight + bias


def heads_of(x, heads):
    """[pictures, tokens, width] becomes [pictures, heads, tokens, width of a head]."""
    pictures, tokens, width = x.shape
    return x.reshape(pictures, tokens, heads, width // heads).transpose(0, 2, 1, 3)


def attention(queries, keys, values, heads):
    """All of them [pictures, tokens, width]."""
    q, k, v = heads_of(queries, heads), heads_of(keys, heads), heads_of(values, heads)
    mixed = (q @ k.transpose(0, 1, 3, 2) * (1 / math.sqrt(q.shape[-1]))).softmax() @ v
    pictures, tokens, width = queries.shape
    return mixed.transpose(0, 2, 1, 3).reshape(pictures, tokens, width)


def cut_patches(pictures, patch):
    """Pictures [count, 3, side, side] as rows of patches [count, patches, 3 · patch²]."""
    count, channels, side, _ = pictures.shape
    across = side // patch
    cut = pictures.reshape(count, channels, across, patch, across, patch).transpose(0, 2, 4, 1, 3, 5)
    return cut.reshape(count, across * across, channels * patch * patch)


def vit(parameters, pictures, heads, epsilon=1e-6, block=None):
    """Tokens of a ViT after its last norm, [pictures, 1 + patches, width]; parameters: timm's names and values. block: what computes a
    block in place of vit_block."""
    patch = parameters["patch_embed.proj.weight"]
    width, depth = patch.shape[0], len({name.split(".")[1] for name in parameters if name.startswith("blocks.")})
    x = linear(Value(cut_patches(pictures, patch.shape[-1])), patch.reshape(width, -1), parameters["patch_embed.proj.bias"])
    first = parameters["cls_token"] + np.zeros((len(pictures), 1, width))
    x = join([first, x], 1) + parameters["pos_embed"]
    for i in range(depth):
        x = (block or vit_block)({name[len(f"blocks.{i}."):]: value for name, value in parameters.items() if name.startswith(f"blocks.{i}.")},
                                 x, heads, epsilon)
    return layer_norm(x, parameters["norm.weight"], parameters["norm.bias"], epsilon)


def vit_block(p, x, heads, epsilon):
    width = x.shape[-1]
    qkv = linear(layer_norm(x, p["norm1.weight"], p["norm1.bias"], epsilon), p["attn.qkv.weight"], p["attn.qkv.bias"])
    mixed = attention(qkv[..., :width], qkv[..., width:2 * width], qkv[..., 2 * width:], heads)
    x = x + linear(mixed, p["attn.proj.weight"], p["attn.proj.bias"])
    return x + vit_mlp(p, x, epsilon)


def vit_mlp(p, x, epsilon):
    inner = linear(layer_norm(x, p["norm2.weight"], p["norm2.bias"], epsilon), p["mlp.fc1.weight"], p["mlp.fc1.bias"])
    return linear(inner.gelu(), p["mlp.fc2.weight"], p["mlp.fc2.bias"])


# ---- Losses ----

def asymmetric_loss(scores, targets):
    """Of each score; q⁴ is a constant in the derivative."""
    p = scores.sigmoid()
    q = (p - 0.05).relu()
    return -(targets * p.log()) - (1 - targets) * (q.detach() ** 4) * (1 - q).log()


def binary_loss(scores, targets):
    """Of each score; targets may be probabilities, and have no slope."""
    return scores.soft_plus() - scores * targets
