"""csc and csc-r against NumPy: the graph network of the paper's formulas on the tokens of a small ViT, both trained by a few steps of SGD
(trained.py). In the authors' form, what later phases add is not trained, norms keep their statistics, and pictures come in their order."""
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
import heads
import trained
from autograd import Value, binary_loss, join, linear, vit
from support import finish

STEP, STREAM = 2, 11
SETTINGS = {"epochs": 2, "batch": 8, "first-rate": 0.8, "rate": 0.6, "backbone-rate": 0.05, "lambda": 0.3, "memory": 3, "memory-per": "class",
            "decay": 0.01}
REPLACED = {"csc.classify.weight", "csc.relate.weight", "csc.adapt.weight", "csc.adapt.bias", "csc.last.weight", "csc.last.bias"}


def shapes(classes, channels):
    """Of the parameters in their order, and how many inputs their numbers have."""
    width = (channels + 1) // 2
    return {"csc.classify.weight": ((classes, channels), channels), "csc.transform.weight": ((width, channels), channels),
            "csc.transform.bias": ((width,), channels), "csc.relate.weight": ((classes, classes), classes),
            "csc.general.weight": ((width, width), width), "csc.general.bias": ((width,), width),
            "csc.middle.weight": ((width, width), width), "csc.middle.bias": ((width,), width),
            "csc.norm.weight": ((width,), 0), "csc.norm.bias": ((width,), 0),
            "csc.adapt.weight": ((classes, 2 * width), 2 * width), "csc.adapt.bias": ((classes,), 2 * width),
            "csc.specific.weight": ((width, width), width), "csc.specific.bias": ((width,), width),
            "csc.last.weight": ((classes, width), width), "csc.last.bias": ((classes,), width),
            "csc.norm.mean": ((width,), 0), "csc.norm.variance": ((width,), 0)}


def graph(p, maps, steps):
    """Scores from maps [pictures, channels, positions]; steps: where to put the statistics of the batch, or None for those that are kept."""
    p = {name[len("csc."):]: value for name, value in p.items() if name.startswith("csc.")}
    positions = linear(maps.transpose(0, 2, 1), p["classify.weight"]).transpose(0, 2, 1)  # [pictures, classes, positions]
    first = positions.max(2)
    transformed = linear(maps.transpose(0, 2, 1), p["transform.weight"], p["transform.bias"])
    v = positions.softmax() @ transformed
    x = v + linear((p["relate.weight"] @ v).leaky(0.2), p["general.weight"], p["general.bias"]).leaky(0.2)
    whole = linear(x.mean(1), p["middle.weight"], p["middle.bias"])
    mean, variance = p["norm.mean"], p["norm.variance"]
    if steps is not None:
        mean = whole.mean(0)
        variance = ((whole - mean) ** 2).mean(0)
        steps["csc.norm.mean"] = mean.array
        steps["csc.norm.variance"] = variance.array * len(whole.array) / (len(whole.array) - 1) if len(whole.array) > 1 else None
    whole = (p["norm.weight"] * (whole - mean) / (variance + 1e-5).sqrt() + p["norm.bias"]).leaky(0.2)
    repeated = whole.reshape(whole.shape[0], 1, whole.shape[1]) + np.zeros(x.shape)
    adapted = linear(join([repeated, x], 2), p["adapt.weight"], p["adapt.bias"]).transpose(0, 2, 1).sigmoid()  # [pictures, class, node]
    own = (x.transpose(0, 2, 1) @ adapted).leaky(0.2).transpose(0, 2, 1)
    own = linear(own, p["specific.weight"], p["specific.bias"]).leaky(0.2)
    second = ((v + own) * p["last.weight"]).sum(2) + p["last.bias"]
    return (first + second) * 0.5


class InOrder(heads.Stream):
    def shuffle(self, count):
        return list(range(count))


class CSC(trained.Trained, heads.Head):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.code = self.set.get("csc-form") == "code"
        self.random = InOrder(0) if self.code else self.random

    def trains(self, name):
        fixed = self.code and self.phase > 0 and name in REPLACED
        return not fixed and name not in ("csc.norm.mean", "csc.norm.variance")

    def begin(self, rows):
        """New numbers for all, and then the old ones where there were some."""
        seed, classes = heads.splitmix(heads.splitmix(heads.SEED, STREAM), self.phase), len(self.weights)
        for i, (name, (shape, inputs)) in enumerate(shapes(classes, trained.WIDTH).items()):
            made = np.full(shape, float(name in ("csc.norm.weight", "csc.norm.variance")))
            if inputs:
                made = ((2 * heads.uniforms(heads.splitmix(seed, i), 0, np.prod(shape)) - 1) / np.sqrt(inputs)).reshape(shape)
            before = self.parameters.get(name)
            if before is not None and not (self.code and name in ("csc.adapt.bias", "csc.last.bias")):
                made[tuple(slice(0, size) for size in before.shape)] = before
            self.parameters[name] = made
        self.grown = {name: array.copy() for name, array in self.parameters.items() if name.startswith("csc.")}
        for name in self.grown:  # of what does not move, the size counts; a batch norm takes a bias before it away again
            if name == "csc.middle.bias" or not self.trains(name):
                self.grown[name][:] = 0

    def scores_of(self, parameters, weights, pixels, steps=None):
        tokens = vit(parameters, pixels, trained.HEADS)[:, 1:]
        return graph(parameters, tokens.transpose(0, 2, 1), steps)

    def loss(self, values, weights, batch):
        self.shown_views, self.shown_scores = [], []
        pixels, old, classes = np.array([row.pixels for row in batch]), self.old, len(self.weights)
        steps = None if self.code and self.phase > 0 else {}
        scores = self.scores_of(values, weights, pixels, steps)
        for name, found in (steps or {}).items():
            if found is not None:
                self.parameters[name] = 0.9 * self.parameters[name] + 0.1 * found
        targets = np.array([row.targets(classes) for row in batch])
        total = binary_loss(scores[:, old:], targets[:, old:]).mean() + 0 * weights.sum()
        if old:
            before = {name: Value(array) for name, array in self.before_parameters.items()}
            soft = self.scores_of(before, None, pixels).sigmoid().array
            held = binary_loss(scores[:, :old], np.where(targets[:, :old] == 1, 1, soft)).mean()
            p = scores.sigmoid()
            total = 0.5 * total + 0.5 * held + self.set["lambda"] * (p * (p + 1e-5).log()).sum(1).mean()
        return total

    def rates(self, t, steps):
        return self.set["backbone-rate"], self.set["rate"] if self.old else self.set["first-rate"], 0.9

    def network_slopes(self, slopes):
        """The graph network has the rate of a head, and no decay."""
        _, head_rate, _ = self.rates(0, 0)
        for name in slopes:
            if name.startswith("csc."):
                decay = self.set["decay"] * self.parameters[name] if slopes[name].ndim > 1 else 0
                slopes[name] = slopes[name] * head_rate / self.set["backbone-rate"] - decay


class CSCReplay(CSC, heads.ICaRL):
    distils = None

    def finish(self, rows):
        heads.ICaRL.finish(self, rows)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters, data = trained.write_all(folder)
        for method, kind in ("csc", CSC), ("csc-r", CSCReplay):
            for form in "paper", "code":
                settings = {**SETTINGS, "csc-form": form}
                trained.compare(folder, method, kind(settings, data[0][1].shape[1], parameters), data, STEP, settings)
                trained.check_reload(folder, method, STEP, settings)
                trained.check_stop(folder, method, STEP, settings)
    sys.exit(finish())


main()
