"""podnet, krt and krt-r against NumPy, as test_trained_heads.py does it: scores, and every number of network and head, after each phase.

The formulas are those of docs/methods-trained-krt.md, written as plainly as they can be: the network of krt computes each phase's embedding by
itself, from [class token, phase token, tokens of the picture]. New values follow the document's rule.

No method may see labels of other phases: where a picture belongs to several phases, it is split into copies that each have the labels of one
phase, and the same bytes must come out. With krt-leak, they must not.

Tolerance: that of test_trained_heads.py, and three times as much for values of krt. What its tokens are held by is the difference of numbers
that are nearly the same, and they are float32."""
import csv
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
import heads
import trained
from autograd import Value, attention, join, layer_norm, linear, vit, vit_block
from support import check, finish, splitmix
from trained import HEADS, SEED, WIDTH, Trained

STEP, TOKEN, TOKEN_HEADS = 2, 64, 8
SETTINGS = {"epochs": 2, "batch": 8, "first-rate": 0.01, "rate": 0.008, "backbone-rate": 0.004, "memory": 3, "memory-per": "class",
            "loss": "asl", "decay": 0.01}


def cosine(a, b):
    """Of rows."""
    return (a * b).sum(-1) / ((a ** 2).sum(-1) * (b ** 2).sum(-1)).sqrt()


class Compared(Trained, heads.ICaRL):
    """What both have in common."""
    distils = None
    weight = 1

    def old_values(self):
        return {name: Value(array) for name, array in self.before_parameters.items()}

    def share(self, batch):
        """λ √(h/m), divided by the rows."""
        return self.set.get("lambda", self.weight) * np.sqrt(len(self.weights) / (len(self.weights) - self.old)) / len(batch)


def draw_coloured(rng, labels, looks):
    """Pictures that differ as a whole, by a colour of their own and one of each class: so do the scores of a network that has hardly been
    trained."""
    noise = rng.normal(size=(len(labels), trained.SIDE, trained.SIDE, 3)) * 10
    colours = rng.uniform(-80, 80, (len(labels), 3)) + labels @ looks[:, 0, 0]
    return np.clip(128 + noise + colours[:, None, None], 0, 255).astype(np.uint8)


# ---- PODNet ----

class PODNet(Compared):
    def stages(self, values, pixels):
        """Maps [pictures, height, width, channels] after each block, and features."""
        found = []

        def block(*arguments):
            found.append(vit_block(*arguments))
            return found[-1]

        tokens = vit(values, pixels, HEADS, block=block)
        side = trained.SIDE // trained.PATCH
        return [x[:, 1:].reshape(len(pixels), side, side, WIDTH) for x in found], tokens[:, 0]

    def extra_loss(self, values, weights, batch):
        if not self.old:
            return 0
        pixels = np.array([row.pixels for row in batch])
        stages, features = self.stages(values, pixels)
        before, old_features = self.stages(self.old_values(), pixels)
        total = 180 * (1 - cosine(features, old_features)).sum()
        for now, then in zip(stages, before):
            for i in range(len(batch)):
                apart = pooled(now[i]) - pooled(then[i])
                if np.linalg.norm(apart.array) > 1e-6:
                    total = total + 5 / len(stages) * (apart ** 2).sum().sqrt()
        return self.share(batch) * total


def pooled(x):
    """Of a map [height, width, channels]."""
    energy = x ** 2
    u = join([energy.sum(1).reshape(-1), energy.sum(0).reshape(-1)], 0)
    return u / (u ** 2).sum().sqrt()


# ---- KRT ----

def normal(stream, deviation, shape):
    count = int(np.prod(shape))
    u = heads.uniforms(stream, 0, 2 * count).reshape(count, 2)
    return (deviation * np.sqrt(-2 * np.log(1 - u[:, 0])) * np.cos(2 * np.pi * u[:, 1])).reshape(shape)


def uniform(stream, bound, shape):
    return ((2 * heads.uniforms(stream, 0, int(np.prod(shape))) - 1) * bound).reshape(shape)


def stream_of(name):
    stream = splitmix(SEED, 9)
    for letter in name.encode():
        stream = splitmix(stream, letter)
    return stream


class KRT(Compared):
    weight, joins = 80, False
    steps = 160  # of the threshold
    pseudo_labels = 0

    def trains(self, name):
        parts = name.split(".")
        return not name.startswith("krt.") or parts[1] not in ("task_tokens", "heads") or int(parts[2]) == self.phase

    def make(self, name, draw, scale, *shape):
        made = np.full(shape, float(scale)) if draw is None else draw(stream_of("krt." + name), scale, shape)
        self.parameters["krt." + name] = self.made["krt." + name] = made

    def begin(self, rows):
        tokens, new = (trained.SIDE // trained.PATCH) ** 2, len(self.weights) - self.old
        self.made, t = {}, self.phase
        if not t:
            self.make("proj.weight", normal, np.sqrt(2 / TOKEN), TOKEN, WIDTH)
            self.make("proj.bias", uniform, 1 / np.sqrt(WIDTH), TOKEN)
            self.make("cls_token", normal, 0.02, 1, 1, TOKEN)
            self.make("pos_embed", normal, 0.02, 1, tokens, TOKEN)
            for norm in "norm1", "norm2":
                self.make(f"{norm}.weight", None, 1, TOKEN)
                self.make(f"{norm}.bias", None, 0, TOKEN)
            for name, out, inner in ("attn.q", 1, 1), ("attn.kv", 2, 1), ("attn.proj", 1, 1), ("mlp.fc1", 4, 1), ("mlp.fc2", 1, 4):
                self.make(f"{name}.weight", normal, 0.01, out * TOKEN, inner * TOKEN)
                if name not in ("attn.q", "attn.kv"):
                    self.make(f"{name}.bias", None, 0, out * TOKEN)
        self.make(f"task_tokens.{t}", normal, 0.02, 1, 1, TOKEN)
        self.make(f"heads.{t}.norm.weight", None, 1, TOKEN)
        self.make(f"heads.{t}.norm.bias", None, 0, TOKEN)
        self.make(f"heads.{t}.fc.weight", uniform if t else normal, 1 / np.sqrt(TOKEN) if t else 0.01, new, TOKEN)
        self.make(f"heads.{t}.fc.bias", uniform, 1 / np.sqrt(TOKEN), new)
        if t:
            self.choose_threshold(rows)

    def embed(self, values, pixels):
        """Embeddings of all phases [pictures, width], scores, and pooled features."""
        p = {name[4:]: value for name, value in values.items() if name.startswith("krt.")}
        tokens = vit({name: value for name, value in values.items() if not name.startswith("krt.")}, pixels, HEADS)
        zeros = np.zeros((len(pixels), 1, TOKEN))
        c, picture = p["cls_token"] + zeros, linear(tokens[:, 1:], p["proj.weight"], p["proj.bias"]) + p["pos_embed"]
        embeddings, scores = [], []
        for t in range(sum(name.startswith("task_tokens") for name in p)):
            x = layer_norm(join([c, p[f"task_tokens.{t}"] + zeros, picture], 1), p["norm1.weight"], p["norm1.bias"], 1e-5)
            keys = linear(x, p["attn.kv.weight"])
            mixed = attention(linear(x[:, :1], p["attn.q.weight"]), keys[..., :TOKEN], keys[..., TOKEN:], TOKEN_HEADS)
            o = c + linear(mixed, p["attn.proj.weight"], p["attn.proj.bias"])
            inner = linear(layer_norm(o, p["norm2.weight"], p["norm2.bias"], 1e-5), p["mlp.fc1.weight"], p["mlp.fc1.bias"]).gelu()
            e = (o + linear(inner, p["mlp.fc2.weight"], p["mlp.fc2.bias"]))[:, 0]
            head = layer_norm(e, p[f"heads.{t}.norm.weight"], p[f"heads.{t}.norm.bias"], 1e-5)
            embeddings.append(e)
            scores.append(linear(head, p[f"heads.{t}.fc.weight"], p[f"heads.{t}.fc.bias"]))
        return embeddings, join(scores, 1), tokens[:, 0]

    def features_of(self, parameters, pixels):
        return vit({name: value for name, value in parameters.items() if not name.startswith("krt.")}, pixels, HEADS)[:, 0]

    def scores_of(self, parameters, weights, pixels):
        return self.embed(parameters, pixels)[1]

    def old_probabilities(self, pixels):
        return heads.sigmoid(self.embed(self.old_values(), pixels)[1].array)

    def choose_threshold(self, rows):
        p = self.old_probabilities(np.array([row.pixels for row in rows + (self.memory if self.joins else [])]))
        tried = {}
        for _ in range(101):
            mean = (p > self.steps * 0.005).sum(1).mean()
            tried[self.steps] = abs(mean - 1.4 * self.old / 20)
            if tried[self.steps] <= 0.1:
                break
            self.steps += 1 if mean > 1.4 * self.old / 20 else -1
        self.steps = min(tried, key=tried.get)

    def loss(self, values, weights, batch):
        pixels = np.array([row.pixels for row in batch])
        targets = np.array([row.targets(len(self.weights)) for row in batch])
        embeddings, scores, _ = self.embed(values, pixels)
        total = (weights * 0).sum()
        if self.old:
            given = targets[:, :self.old].copy()
            targets[:, :self.old] = np.maximum(given, self.old_probabilities(pixels) > self.steps * 0.005)
            self.pseudo_labels += int((targets[:, :self.old] - given).sum())
            before = join(self.embed(self.old_values(), pixels)[0], 1)
            total = total + self.share(batch) * (1 - cosine(join(embeddings[:-1], 1), before)).sum()
        return total + self.row_loss(scores, targets)

    def finish(self, rows):
        pass


class KRTR(KRT):
    joins = True

    def finish(self, rows):
        heads.ICaRL.finish(self, rows)


# ---- Labels of other phases ----

def split_pictures(folder, into, step):
    """Each picture of a copy has the labels of one phase alone; a picture of several phases is there several times, in its place."""
    with open(folder / "pictures.csv", newline="", encoding="utf-8") as file:
        title, *rows = csv.reader(file)
    with open(into / "pictures.csv", "w", newline="", encoding="utf-8") as file:
        writer, copies = csv.writer(file), 0
        writer.writerow(title)
        for path, labels, kind in rows:
            phases = {}
            for label in labels.split(";") if labels and kind == "train" else []:
                phases.setdefault(int(label.removeprefix("class")) // step, []).append(label)
            for phase, own in sorted(phases.items()) or [(0, labels.split(";"))]:
                name = f"{kind}-{phase}-{path}"
                shutil.copy(folder / path, into / name)
                writer.writerow([name, ";".join(own), kind])
                copies += 1
    shutil.copy(folder / "network.safetensors", into)
    return copies - len(rows)


def check_labels(folder, step, settings):
    with tempfile.TemporaryDirectory() as name:
        apart = Path(name)
        check(split_pictures(folder, apart, step) > 10, "hardly any picture belongs to several phases")
        for method, leak in ("podnet", None), ("krt", None), ("krt-r", "off"), ("krt-r", "on"):
            own = {**trained.program_settings(settings), **({"krt-width": TOKEN} if leak is None else {"krt-width": TOKEN, "krt-leak": leak})}
            whole, split = (trained.Found(where, method, step, own).bytes for where in (folder, apart))
            check((whole == split) == (leak != "on"), f"{method}, krt-leak {leak}: labels of other phases {'do not ' * (leak == 'on')}count")


def main():
    depth = trained.DEPTH
    with tempfile.TemporaryDirectory() as name:
        folder, trained.DEPTH = Path(name), 4
        parameters, data = trained.write_all(folder)
        learner = PODNet(SETTINGS, data[0][1].shape[1], parameters)
        trained.compare(folder, "podnet", learner, data, STEP, SETTINGS)
        trained.check_reload(folder, "podnet", STEP, SETTINGS)
        check_labels(folder, STEP, SETTINGS)
    with tempfile.TemporaryDirectory() as name:
        folder, trained.DEPTH, trained.draw_pictures = Path(name), depth, draw_coloured
        parameters, data = trained.write_all(folder)
        settings = {**SETTINGS, "backbone-rate": 0.008, "epochs": 3}
        for method, kind in ("krt", KRT), ("krt-r", KRTR):
            learner, own = kind(settings, data[0][1].shape[1], parameters), {**settings, "krt-width": TOKEN}
            trained.compare(folder, method, learner, data, STEP, own, values_within=3e-4)
            check(learner.steps != 160 and learner.pseudo_labels, f"{method}: the threshold and the pseudo-labels have done nothing")
            trained.check_reload(folder, method, STEP, own)
    sys.exit(finish())


main()
