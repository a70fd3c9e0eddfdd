"""Prompts for a frozen network against NumPy: multi-lane, coda-prompt and l2p. Scores, prompts and heads after each phase, by a few steps of
SGD on a small ViT of two blocks; trained.py has what all such comparisons share. The formulas are those of the papers, written down a second
time, and what is random follows the rules of docs/methods-trained-prompts.md."""
import math
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
import heads
import trained
from autograd import Value, attention, binary_loss, cut_patches, join, layer_norm, linear, vit_block, vit_mlp
from support import check, finish, splitmix
from trained import HEADS, SEED, WIDTH, Trained

trained.DEPTH = DEPTH = 2
STEP = 2
SETTINGS = {"epochs": 3, "batch": 8, "loss": "bce", "decay": 0, "tuning:clip": 0}


# ---- What is random ----

def stream_of(name):
    seed = SEED
    for letter in name.encode():
        seed = splitmix(seed, letter)
    return seed


def uniform(name, low, high, shape):
    return (low + (high - low) * heads.uniforms(stream_of(name), 0, math.prod(shape))).astype(np.float32).reshape(shape).astype(float)


def directions(name, rows, columns, earlier=()):
    """Rows of normal numbers, less what the rows before them span, at length 1."""
    drawn = heads.uniforms(stream_of(name), 0, 2 * rows * columns)
    normal = (np.sqrt(-2 * np.log(1 - drawn[::2])) * np.cos(2 * np.pi * drawn[1::2])).reshape(rows, columns)
    before = np.reshape(earlier, (-1, columns))
    if len(before) + rows <= columns:
        q, r = np.linalg.qr(np.vstack([before, normal]).T)
        return (q * np.sign(np.diag(r))).T[-rows:].astype(np.float32).astype(float)
    made = np.zeros((rows, columns))
    for i in range(rows):  # more than there are dimensions
        every = np.vstack([before, made[:i]])
        made[i] = normal[i]
        if np.linalg.matrix_rank(every) < columns:
            made[i] = normal[i] - every.T @ np.linalg.lstsq(every.T, normal[i], rcond=None)[0]
        made[i] /= np.linalg.norm(made[i])
    return made.astype(np.float32).astype(float)


# ---- The network ----

def block_of(p, i):
    return {name[len(f"blocks.{i}."):]: value for name, value in p.items() if name.startswith(f"blocks.{i}.")}


def entry(p, pixels):
    """What enters the first block."""
    patch = p["patch_embed.proj.weight"]
    x = linear(Value(cut_patches(pixels, patch.shape[-1])), patch.reshape(WIDTH, -1), p["patch_embed.proj.bias"])
    return join([p["cls_token"] + np.zeros((len(pixels), 1, WIDTH)), x], 1) + p["pos_embed"]


def norm(p, name, x):
    return layer_norm(x, p[f"{name}.weight"], p[f"{name}.bias"], 1e-6)


def attend(b, queries, rows, keys, values):
    """Attention of some of the rows to all of them, and to keys and values besides."""
    qkv = linear(rows, b["attn.qkv.weight"], b["attn.qkv.bias"])
    k, v = qkv[..., WIDTH:2 * WIDTH], qkv[..., 2 * WIDTH:]
    if keys is not None:
        none = np.zeros((rows.shape[0], 1, 1))
        k, v = join([keys + none, k], 1), join([values + none, v], 1)
    return linear(attention(qkv[:, :queries, :WIDTH], k, v, HEADS), b["attn.proj.weight"], b["attn.proj.bias"])


def unit(x):
    return x / (x ** 2).sum(-1, keepdims=True).sqrt()


# ---- The methods ----

class Prompts(Trained, heads.Head):
    """The loss is the binary cross-entropy of the phase's classes, as the mean over pictures and all classes of the run."""

    def trains(self, name):
        return name.startswith(f"{self.word}.{self.phase}.")

    def begin_with(self, name, array):
        self.parameters[name] = array
        self.begun[name] = array.copy()

    def look(self, rows):
        """No method here has a memory."""

    def loss(self, values, weights, batch):
        self.shown_views = [0] * len(batch)
        scores = self.own_scores(values, weights, np.array([row.pixels for row in batch]))
        targets = np.array([row.targets(len(weights.array)) for row in batch])[:, self.old:]
        self.shown_scores = scores.array
        unused = (weights * 0).sum()  # a head that has no part in the loss has a slope of 0
        return binary_loss(scores, targets).sum() * (1 / (len(batch) * self.total)) + self.extra_loss(values, weights, batch) + unused


class MultiLane(Prompts):
    word = "lanes"

    def __init__(self, settings, total, parameters):
        super().__init__(settings, total, parameters)
        for name in ["selectors"] + [f"prompts.{i}" for i in range(DEPTH)]:
            full = f"lanes.0.{name}"
            drawn = directions(full, 20, WIDTH) if name == "selectors" else directions(full, 2, 20 * WIDTH).reshape(2, 20, WIDTH)
            self.begin_with(full, drawn[None] if name == "selectors" else np.concatenate(list(drawn), -1)[None])
        self.add_head(0)

    def add_head(self, lane):
        if STEP * lane < self.total:
            self.begin_with(f"lanes.{lane}.head.weight", directions(f"lanes.{lane}.head.weight", STEP, WIDTH))
            self.begin_with(f"lanes.{lane}.head.bias", np.zeros(STEP))

    def finish(self, rows):
        """The next lane begins as this one."""
        for name in [name for name in self.parameters if self.trains(name) and ".head." not in name]:
            self.begin_with(name.replace(f"lanes.{self.phase}.", f"lanes.{self.phase + 1}."), self.parameters[name].copy())
        self.add_head(self.phase + 1)

    def lane_scores(self, p, pixels, lane):
        x = entry(p, pixels)
        tokens = join([x[:, :1], p[f"lanes.{lane}.selectors"] + np.zeros((len(pixels), 1, 1))], 1)
        for i in range(DEPTH):
            b, prompts = block_of(p, i), p[f"lanes.{lane}.prompts.{i}"]
            n, m = norm(b, "norm1", x), norm(b, "norm1", tokens)
            found = (m[:, 1:] @ n.transpose(0, 2, 1) * (1 / math.sqrt(WIDTH))).softmax() @ n
            o = attend(b, 1, join([m[:, :1], found], 1), prompts[..., :WIDTH], prompts[..., WIDTH:])
            tokens = tokens + join([o, m[:, 1:]], 1)
            tokens = tokens + vit_mlp(b, tokens, 1e-6)
            x = vit_block(b, x, HEADS, 1e-6)
        features = unit(norm(p, "norm", tokens[:, 0]))
        return linear(features, p[f"lanes.{lane}.head.weight"], p[f"lanes.{lane}.head.bias"])

    def own_scores(self, values, weights, pixels):
        return self.lane_scores(values, pixels, self.phase)

    def scores(self, pixels):
        return np.hstack([self.lane_scores(self.frozen(), pixels, lane).array for lane in range(self.phase + 1)])

    def rates(self, t, steps):
        """Half a cosine, epoch by epoch."""
        epoch = t // (steps // self.set["epochs"])
        rate = self.set["backbone-rate"] * (1 + math.cos(math.pi * epoch / self.set["epochs"])) / 2
        return rate, rate, 0.9


def blocks(p, x, beside=None):
    """The last norm of tokens that have passed all blocks; beside: keys and values of a block, by its number."""
    for i in range(DEPTH):
        b = block_of(p, i)
        keys, values = beside(i) if beside else (None, None)
        x = x + attend(b, x.shape[1], norm(b, "norm1", x), keys, values)
        x = x + vit_mlp(b, x, 1e-6)
    return norm(p, "norm", x)


class OnFeatures(Prompts):
    """With a linear head on features."""

    def scores_with(self, p, weights, pixels, training):
        return linear(self.prompted(p, pixels, training), weights[:, :-1], weights[:, -1])

    def own_scores(self, values, weights, pixels):
        return self.scores_with(values, weights, pixels, True)[:, self.old:]

    def scores(self, pixels):
        return self.scores_with(self.frozen(), Value(self.weights), pixels, False).array


class CodaPrompt(OnFeatures):
    word = "prompts"

    def __init__(self, settings, total, parameters):
        super().__init__(settings, total, parameters)
        self.each = 100 // (total // STEP)
        self.add_components(0)

    def finish(self, rows):
        if STEP * (self.phase + 1) < self.total:
            self.add_components(self.phase + 1)

    def add_components(self, phase):
        for i in range(DEPTH):
            for part, columns in ("keys", WIDTH), ("masks", WIDTH), ("rows.weight", 8 * WIDTH):
                earlier = [self.parameters[f"prompts.{t}.{i}.{part}"] for t in range(phase)]
                turned = part == "rows.weight"  # a linear map, with a component in each column
                name = f"prompts.{phase}.{i}.{part}"
                made = directions(name, self.each, columns, np.vstack([array.T if turned else array for array in earlier]) if earlier else ())
                self.begin_with(name, made.T if turned else made)

    def prompted(self, p, pixels, training):
        x = entry(p, pixels)
        query = blocks(p, x)[:, :1].detach()  # [pictures, 1, width]

        def beside(i):
            rows = 0
            for phase in range(self.phase + 1):
                own = f"prompts.{phase}.{i}."
                shares = (unit(query * p[own + "masks"]) * unit(p[own + "keys"])).sum(-1)
                rows = rows + shares @ p[own + "rows.weight"].transpose(1, 0)
            rows = rows.reshape(len(pixels), 4, 2 * WIDTH)
            return rows[..., :WIDTH], rows[..., WIDTH:]
        return blocks(p, x, beside)[:, 0]

    def rates(self, t, steps):
        """A quarter of a cosine, epoch by epoch."""
        epochs = self.set["epochs"]
        share = math.cos(99 * math.pi * (t // (steps // epochs)) / (200 * (epochs - 1)))
        return share * self.set["backbone-rate"], share * self.set["rate" if self.old else "first-rate"], 0.9


class L2P(OnFeatures):
    def __init__(self, settings, total, parameters):
        super().__init__(settings, total, parameters)
        self.parameters["pool.keys"] = uniform("pool.keys", -1, 1, (10, WIDTH))
        self.parameters["pool.prompts"] = uniform("pool.prompts", -1, 1, (10, 5, WIDTH))

    def trains(self, name):
        return name.startswith("pool.")

    def matches(self, p, pixels):
        return unit(blocks(p, entry(p, pixels))[:, 0].detach()) @ unit(p["pool.keys"]).transpose(1, 0)

    def picked(self, matches, training):
        """Five groups for each picture; in training, for all."""
        best = np.argsort(-matches, axis=1, kind="stable")[:, :5]
        if not training:
            return best
        votes = np.bincount(best.ravel(), minlength=10)
        return np.tile(np.argsort(-votes, kind="stable")[:5], (len(best), 1))

    def prompted(self, p, pixels, training):
        x = entry(p, pixels)
        picked = self.picked(self.matches(p, pixels).array, training)
        prompts = p["pool.prompts"][picked].reshape(len(pixels), 25, WIDTH)
        return blocks(p, join([prompts, x], 1))[:, :25].mean(1)

    def extra_loss(self, values, weights, batch):
        matches = self.matches(values, np.array([row.pixels for row in batch]))
        taken = self.picked(matches.array, True)[0]
        return -self.set["lambda"] * matches[:, taken].sum() * (1 / len(batch))

    def rates(self, t, steps):
        return self.set["backbone-rate"], self.set["rate" if self.old else "first-rate"], 0.9


METHODS = {"multi-lane": (MultiLane, {"backbone-rate": 30}), "coda-prompt": (CodaPrompt, {"backbone-rate": 30, "first-rate": 0.3, "rate": 0.2}),
           "l2p": (L2P, {"backbone-rate": 5, "first-rate": 0.3, "rate": 0.2, "lambda": 0.1})}


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters, data = trained.write_all(folder, counts=(20, 6))
        for key in parameters:  # less of what all pictures have in common, so that they choose different prompts
            parameters[key] *= np.float32(0.1 if key in ("cls_token", "pos_embed") or key.endswith("bias") else 1)
        trained.write_network(folder / "network.safetensors", parameters)
        for method, (kind, own) in METHODS.items():
            settings = {**SETTINGS, **own}
            learner = kind(settings, data[0][1].shape[1], parameters)
            trained.compare(folder, method, learner, data, STEP, settings)
            trained.check_reload(folder, method, STEP, settings)
            trained.check_stop(folder, method, STEP, settings)
            for key, array in parameters.items():
                check(np.array_equal(learner.parameters[key], array.astype(float)), f"{method}: {key} has been trained")
    sys.exit(finish())


main()
