"""Methods that train a network, in NumPy and double precision: a small ViT with a linear head (autograd.py has the derivatives), and what
methods add to it. test_trained_heads.py and its like compare the program with them.

Rules about memories and random draws are those of heads.py. What differs from frozen heads: the loss of a step is the sum over its rows,
and the whole of it is a formula here, of which autograd.py takes the derivative."""
import csv
import os
import subprocess
from pathlib import Path

import numpy as np

import feature_file
import heads
from autograd import Value, asymmetric_loss, binary_loss, vit
from support import check

BUILD = Path(os.environ["L3A_BUILD"])
SIDE, PATCH, HEADS, WIDTH, DEPTH = 32, 8, 1, 64, 1
SEED = heads.SEED


# ---- A small network, and its pictures ----

def network_parameters(rng):
    shapes = {"patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH), "patch_embed.proj.bias": (WIDTH,), "cls_token": (1, 1, WIDTH),
              "pos_embed": (1, 1 + (SIDE // PATCH) ** 2, WIDTH)}
    for i in range(DEPTH):
        shapes.update({f"blocks.{i}.norm1.weight": (WIDTH,), f"blocks.{i}.norm1.bias": (WIDTH,),
                       f"blocks.{i}.attn.qkv.weight": (3 * WIDTH, WIDTH), f"blocks.{i}.attn.qkv.bias": (3 * WIDTH,),
                       f"blocks.{i}.attn.proj.weight": (WIDTH, WIDTH), f"blocks.{i}.attn.proj.bias": (WIDTH,),
                       f"blocks.{i}.norm2.weight": (WIDTH,), f"blocks.{i}.norm2.bias": (WIDTH,),
                       f"blocks.{i}.mlp.fc1.weight": (2 * WIDTH, WIDTH), f"blocks.{i}.mlp.fc1.bias": (2 * WIDTH,),
                       f"blocks.{i}.mlp.fc2.weight": (WIDTH, 2 * WIDTH), f"blocks.{i}.mlp.fc2.bias": (WIDTH,)})
    shapes.update({"norm.weight": (WIDTH,), "norm.bias": (WIDTH,)})
    made = {}
    for name, shape in shapes.items():
        scale = 0.3 if "bias" in name or "token" in name or "pos" in name else 1 / np.sqrt(np.prod(shape[1:]) or 1)
        base = 1 if "norm" in name and name.endswith("weight") else 0
        made[name] = (base + (0.2 if base else scale) * rng.normal(size=shape)).astype(np.float32)
    return made


def write_network(path, parameters):
    feature_file.save(path, parameters, {"l3a.mean": "0.5", "l3a.std": "0.5"})


def draw_pictures(rng, labels, looks):
    """A picture shows each of its classes as a faint pattern."""
    noise = rng.normal(size=(len(labels), SIDE, SIDE, 3)) * 30
    return np.clip(128 + noise + np.tensordot(labels, looks, 1), 0, 255).astype(np.uint8)


def make_data(folder, classes, counts, seed=3):
    """Writes pictures and their list; returns pictures as the network gets them [count, 3, side, side], and labels, of both splits."""
    rng = np.random.default_rng(seed)
    looks = rng.normal(size=(classes, SIDE, SIDE, 3)) * 25
    found = []
    with open(folder / "pictures.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "labels", "split"])
        for split, count in zip(("train", "test"), counts):
            labels = rng.random((count, classes)) < 0.25
            labels[np.arange(classes), np.arange(classes)] = True  # every class is there
            pictures = draw_pictures(rng, labels.astype(float), looks)
            for i in range(count):
                feature_file.write_png(folder / f"{split}{i}.png", pictures[i])
                rows.writerow([f"{split}{i}.png", ";".join(f"class{k}" for k in np.flatnonzero(labels[i])), split])
            planes = pictures.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255)
            found.append((((planes - 0.5) / 0.5).astype(float), labels.astype(np.int8)))
    return found


# ---- What all methods share ----

def cycle(step, steps, first, top, last):
    turn, end = 0.2 * steps - 1, steps - 1

    def half(start, stop, part):
        return stop + (start - stop) * (1 + np.cos(np.pi * part)) / 2
    if turn > 0 and step <= turn:
        return half(first, top, step / turn)
    start = max(turn, 0)
    return half(top, last, (step - start) / (end - start) if end > start else 0)


class Picture(heads.Kept):
    """Of a memory, or of a phase: its number takes the place of features until the network has looked at it."""

    def __init__(self, pixels, labels, first):
        super().__init__([pixels], labels, first)
        self.pixels = pixels


class Trained:
    """finetune; in front of a class of heads.py, it makes a method that trains the network."""
    width = WIDTH

    def __init__(self, settings, total, parameters):
        super().__init__({**settings, "head-input": "features"}, total)
        self.parameters = {name: np.array(array, float) for name, array in parameters.items()}
        self.first_parameters = {name: array.copy() for name, array in self.parameters.items()}
        self.phase = -1
        self.made = {}  # what a phase has added to them, before it was trained
        self.begun = {}  # where parameters began that only some phases train

    # What a method can replace

    def trains(self, name):
        """Whether steps change a parameter of the network."""
        return True

    def features_of(self, parameters, pixels):
        """Of pictures, from parameters as Values."""
        return vit(parameters, pixels, HEADS)[:, 0]

    def scores_of(self, parameters, weights, pixels):
        x = self.features_of(parameters, pixels)
        return x @ weights[:, :-1].transpose(1, 0) + weights[:, -1]

    def begin(self, rows):
        """Before a phase is trained, when the head has its new classes."""

    def row_loss(self, scores, targets):
        loss = asymmetric_loss if self.set["loss"] == "asl" else binary_loss
        return loss(scores, targets).sum()

    def extra_loss(self, values, weights, batch):
        """What the method adds: `batch` has the pictures of the step, those of the phase before those drawn."""
        return 0

    def network_slopes(self, slopes):
        """Adds to the slopes of the network's parameters."""

    # The rest

    def look(self, rows):
        values = self.frozen()
        for row in rows:
            row.features = self.features_of(values, row.pixels[None]).array[0]
            row.views = row.features[None]

    def frozen(self):
        return {name: Value(array) for name, array in self.parameters.items()}

    def learn(self, pixels, labels):
        self.phase += 1
        self.old, new, inputs = len(self.weights), labels.shape[1], self.weights.shape[1]
        self.before = self.weights.copy()
        self.before_parameters = {name: array.copy() for name, array in self.parameters.items()}
        fresh = (2 * heads.uniforms(heads.splitmix(SEED, 0), self.old * inputs, new * inputs) - 1) / np.sqrt(inputs - 1)
        self.weights = np.vstack([self.weights, fresh.reshape(new, inputs)])
        self.start = self.weights.copy()
        rows = self.prepare([Picture(p, y, self.old) for p, y in zip(pixels, labels)])
        self.begin(rows)
        self.train(rows)
        self.look(rows + self.memory + getattr(self, "held", []))
        self.finish(rows)

    def train(self, rows):
        shown = rows + [kept for i, kept in enumerate(self.memory) if self.joins and not self.is_held(i)]
        epochs, size = self.set["epochs"], self.set["batch"]
        steps, t = epochs * -(-len(shown) // size), 0
        moments = {}
        for epoch in range(epochs):
            order = self.random.shuffle(len(shown))
            for first in range(0, len(order), size):
                self.step([shown[i] for i in order[first:first + size]], t, steps, moments, epoch + 1 == epochs)
                t += 1

    def rates(self, t, steps):
        highest = self.set["rate"] if self.old else self.set["first-rate"]
        return (cycle(t, steps, self.set["backbone-rate"] / 25, self.set["backbone-rate"], self.set["backbone-rate"] / 25e4),
                cycle(t, steps, highest / 25, highest, highest / 25e4), cycle(t, steps, 0.95, 0.85, 0.95))

    def step(self, batch, t, steps, moments, last_pass):
        values = {name: Value(array) for name, array in self.parameters.items()}
        weights = Value(self.weights)
        loss = self.loss(values, weights, batch)
        loss.backward()
        slopes = {name: value.slope for name, value in values.items() if self.trains(name)}
        self.network_slopes(slopes)
        head_slope = weights.slope + self.penalty_slope()
        rate, head_rate, momentum = self.rates(t, steps)
        start, start_network = self.weights.copy(), {name: self.parameters[name].copy() for name in slopes}
        decay = self.set["decay"]
        for name, slope in slopes.items():
            total = slope + (decay * self.parameters[name] if slope.ndim > 1 else 0)
            moments[name] = momentum * moments.get(name, 0) + total
            self.parameters[name] = self.parameters[name] - rate * moments[name]
        held = np.hstack([self.weights[:, :-1], np.zeros((len(self.weights), 1))])  # the bias does not decay
        moments["head"] = momentum * moments.get("head", 0) + head_slope + decay * held
        self.weights = self.weights - head_rate * moments["head"]
        self.network_stepped(slopes, start_network)
        self.stepped(batch, weights.slope, self.weights - start, last_pass)

    def network_stepped(self, slopes, start):
        """After a step: the slopes, with what the method has added, and the values before it."""

    def loss(self, values, weights, batch):
        self.shown_views = [0] * len(batch)
        parts = [batch] + [self.random.draw(self.memory, self.set["batch"]) for _ in range(self.draws)]
        rows = sum(parts, [])
        classes = len(self.weights)
        scores = self.scores_of(values, weights, np.array([row.pixels for row in rows]))
        self.shown_scores = scores.array[:len(batch)]
        targets = np.array([row.targets(classes) for row in rows])
        if self.distils and self.old:
            old = self.scores_of({name: Value(array) for name, array in self.before_parameters.items()}, Value(self.before),
                                 np.array([row.pixels for row in rows])).array
            soft = 1 / (1 + np.exp(-old))
            share = self.old / (classes - self.old) if self.distils == "too" else 1
            total = self.set["lambda"] * share * binary_loss(scores[:, :self.old], soft).sum()
            first = 0 if self.distils == "too" else self.old
            total = total + self.row_loss(scores[:, first:], targets[:, first:])
        else:
            total = self.row_loss(scores, targets)
        return total + self.extra_loss(values, weights, rows)

    def scores(self, pixels):
        return self.scores_of(self.frozen(), Value(self.weights), pixels).array


# ---- The methods of heads.py ----

class TrainedHead(Trained, heads.Head):
    pass


class TrainedLwF(Trained, heads.LwF):
    pass


class TrainedEWC(Trained, heads.EWC):
    """The network's numbers have parabolas of their own."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.network_phases = []

    def network_slopes(self, slopes):
        for age, (fisher, anchor) in enumerate(reversed(self.network_phases)):
            anchor = self.network_phases[-1][1] if self.last_anchor else anchor
            for name in slopes:
                slopes[name] = slopes[name] + self.set["lambda"] * self.decay ** age * fisher[name] * (self.parameters[name] - anchor[name])

    def finish(self, rows):
        super().finish(rows)
        fisher = {name: 0 for name in self.parameters}
        for row in rows:
            values = {name: Value(array) for name, array in self.parameters.items()}
            self.row_loss(self.scores_of(values, Value(self.weights), row.pixels[None]), row.targets(len(self.weights))[None]).backward()
            fisher = {name: fisher[name] + values[name].slope ** 2 / len(rows) for name in fisher}
        self.network_phases.append((fisher, {name: array.copy() for name, array in self.parameters.items()}))


class TrainedOEWC(TrainedEWC):
    decay, last_anchor = 0.95, True


class TrainedRWalk(Trained, heads.RWalk):
    def begin(self, rows):
        zero = {name: np.zeros_like(array) for name, array in self.parameters.items()}
        if not self.phase:
            self.network_fisher, self.network_score, self.network_importance = dict(zero), dict(zero), dict(zero)
        self.network_path = zero
        self.network_anchor = {name: array.copy() for name, array in self.parameters.items()}

    def network_slopes(self, slopes):
        self.network_gradient = dict(slopes)
        for name in slopes:
            held = self.network_importance[name] * (self.parameters[name] - self.network_anchor[name])
            slopes[name] = slopes[name] + self.set["lambda"] * held

    def network_stepped(self, slopes, start):
        for name, g in self.network_gradient.items():
            moved = self.parameters[name] - start[name]
            self.network_fisher[name] = 0.9 * self.network_fisher[name] + 0.1 * g ** 2
            self.network_path[name] = (self.network_path[name] +
                                       np.maximum(-g * moved, 0) / (0.5 * self.network_fisher[name] * moved ** 2 + 1e-8))

    def finish(self, rows):
        super().finish(rows)
        for name, path in self.network_path.items():
            self.network_score[name] = (self.network_score[name] + path) / 2 if self.phase else path
        most_fisher = max(array.max() for array in self.network_fisher.values())
        most_score = max(array.max() for array in self.network_score.values())
        self.network_importance = {name: self.network_fisher[name] / most_fisher + self.network_score[name] / most_score
                                   for name in self.network_path}


class TrainedER(Trained, heads.ER):
    pass


class TrainedDERpp(Trained, heads.DERpp):
    draws = 1

    def extra_loss(self, values, weights, batch):
        drawn = self.random.draw(self.memory, self.set["batch"])
        if not drawn:
            return 0
        scores = self.scores_of(values, weights, np.array([row.pixels for row in drawn]))
        total = 0
        for i, row in enumerate(drawn):
            total = total + ((scores[i, :len(row.stored)] - row.stored) ** 2).sum()
        return self.set["lambda"] * total


class TrainedICaRL(Trained, heads.ICaRL):
    pass


class TrainedBiC(Trained, heads.BiC):
    def scores(self, pixels):
        """BiC's own fit passes features, because it has looked at the pictures."""
        if pixels.ndim == 3:
            return pixels[:, 0] @ self.weights[:, :-1].T + self.weights[:, -1]
        return super().scores(pixels)


class TrainedPRS(Trained, heads.PRS):
    pass


class TrainedOCDM(Trained, heads.OCDM):
    pass


METHODS = {"finetune": TrainedHead, "joint-sgd": TrainedHead, "lwf": TrainedLwF, "ewc": TrainedEWC, "oewc": TrainedOEWC, "rwalk": TrainedRWalk, "er": TrainedER, "der++": TrainedDERpp, "icarl": TrainedICaRL,
           "bic": TrainedBiC, "prs": TrainedPRS, "ocdm": TrainedOCDM}


# ---- The comparison ----

class Found:
    """What trained_scores prints."""

    def __init__(self, folder, method, step, settings):
        done = subprocess.run([BUILD / "tests" / "trained_scores", f"list:{folder / 'pictures.csv'}", folder / "network.safetensors", method, str(step),
                               f"seed={SEED}", *(f"{key}={value}" for key, value in settings.items())], stdout=subprocess.PIPE, check=True)
        self.bytes, self.at = done.stdout, 0

    def take(self, count, kind):
        found = np.frombuffer(self.bytes, kind, count, self.at)
        self.at += found.nbytes
        return found

    def phase(self, rows, classes):
        """Scores, and arrays by name."""
        scores = self.take(rows * classes, np.float32).reshape(rows, classes)
        arrays = {}
        for _ in range(int(self.take(1, np.uint64)[0])):
            name = self.take(int(self.take(1, np.uint64)[0]), np.uint8).tobytes().decode()
            arrays[name] = self.take(int(self.take(1, np.uint64)[0]), np.float32)
        return scores, arrays


def distance(found, wanted, start):
    """How far apart two arrays are, as a part of how far training has moved the wanted one. Numbers of float32 are rounded in each step;
    what four such roundings change is not counted."""
    rounding, moved = 2 ** -22 * np.abs(wanted).max(), np.abs(wanted - start).max()
    return max(np.abs(found.reshape(wanted.shape) - wanted).max() - rounding, 0) / max(moved, 1e-3 * np.abs(wanted).max(), 1e-12)


def program_settings(settings):
    """As trained_scores takes them."""
    own = {key: value for key, value in settings.items() if key != "decay"}
    return {**own, "tuning:decay": settings["decay"], "tuning:later": 1}


def compare(folder, name, learner, data, step, settings, plain=None, scores_within=1e-4, values_within=1e-4):
    """Trains the method in NumPy, phase after phase, and compares scores and parameters with the program's. plain: finetune, after the same
    phases, from which the method must differ."""
    (pixels, labels), (test, _) = data
    found = Found(folder, name, step, program_settings(settings))
    classes, step = labels.shape[1], step or labels.shape[1]
    worst, worst_value, worst_name = 0, 0, ""
    for first in range(0, classes, step):
        own = labels[:, first:first + step]
        rows = own.any(axis=1)
        start = {**{key: array.copy() for key, array in learner.parameters.items()}, **learner.begun}
        learner.learn(pixels[rows], own[rows])
        start.update(getattr(learner, "grown", {}))  # what had other shapes before the phase
        wanted = learner.scores(test)
        scores, arrays = found.phase(len(test), wanted.shape[1])
        off = np.abs(scores - wanted).max() / np.abs(wanted).max()
        worst = max(worst, off)
        check(off < scores_within, f"{name}, classes {first} and on: scores are {off:.2g} of the largest apart")
        for key, array in arrays.items():
            value = learner.weights if key == "head" else learner.parameters[key]
            apart = distance(array, value, learner.start if key == "head" else start.get(key, learner.made.get(key, value)))
            if apart > worst_value:
                worst_value, worst_name = apart, key
            check(apart < values_within, f"{name}, classes {first} and on: {key} is {apart:.2g} of what it moved apart")
        moved = [key for key, array in learner.parameters.items() if learner.trains(key) and key not in arrays]
        check(not moved, f"{name}: {moved} are trained in NumPy alone")
    check(found.at == len(found.bytes), f"{name}: more phases than expected")
    if plain is not None:  # else the comparison would say nothing of what the method adds
        first = learner.first_parameters
        other = max(distance(learner.parameters[key], plain.parameters[key], first[key]) for key in first if learner.trains(key))
        check(other > 100 * values_within, f"{name} is no other than finetune: {other:.2g} of what it moved apart")
    print(f"{name:14} scores {worst:.1e}, values {worst_value:.1e} of what they moved ({worst_name})", flush=True)


def check_reload(folder, name, step, settings):
    """A learner that was saved after a phase and loaded ends with the same bytes."""
    whole = Found(folder, name, step, program_settings(settings)).bytes
    for phase in 1, 2:
        again = Found(folder, name, step, {**program_settings(settings), "save": phase}).bytes
        check(again == whole, f"{name}: saved and loaded after phase {phase}, other numbers come out")


def check_stop(folder, name, step, settings):
    """A learner that was stopped in the middle of a phase, and goes on there, ends with the same bytes."""
    own = {**program_settings(settings), "epochs": 4}
    whole = Found(folder, name, step, own).bytes
    for phase in 1, 2:
        check(Found(folder, name, step, {**own, "stop": phase}).bytes == whole, f"{name}: stopped in phase {phase}, other numbers come out")


def write_all(folder, classes=6, counts=(30, 8)):
    """Network and data of a comparison."""
    parameters = network_parameters(np.random.default_rng(11))
    write_network(folder / "network.safetensors", parameters)
    return parameters, make_data(folder, classes, counts)
