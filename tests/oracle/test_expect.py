#!/usr/bin/env python3
"""What `l3a teach` says to expect, against NumPy: every picture and every class is left out by learning the rest from scratch
(docs/teaching.md)."""
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
import feature_file
from support import check, combine, expand, finish, l3a
from test_teach import DIM, NAMES, PLAIN, SETTINGS, images, spread, steps, table

BACKBONE = Path(__file__).resolve().parent.parent.parent / "models/demo_backbone.safetensors"
random = np.random.default_rng(26)


def lift_of(y, lift):
    """λ of the model: t counts the judged sets that contain no other."""
    sets = {tuple(row != -1) for row in y}
    t = sum(not any(o != s and all(b or not a for a, b in zip(o, s)) for o in sets) for s in sets)
    return lift * (t - 1) / (t + 8)


class Model:
    """Learned from scratch from rows x [images, rows of an image, d], with the γ and the λ of the model that knew more."""

    def __init__(self, x, y, gamma, alpha, share, kind, views=1):
        w, rows, plain = spread(np.ones(len(x)), x.shape[1]), x.reshape(-1, x.shape[2]), []
        for k in range(y.shape[1]):
            label = np.repeat(y[:, k], x.shape[1])
            own = w.ravel() * np.where(label != -1, 1, alpha)  # Xᵀ (γ/ω + X Xᵀ)⁻¹ y, which is (Xᵀ ω X + γ)⁻¹ Xᵀ ω y
            plain.append(rows.T @ np.linalg.solve(np.diag(gamma / own) + rows @ rows.T, label == 1))
        self.plain, self.count = np.array(plain).reshape(-1, x.shape[2]).T, (y == 1).sum(0)
        self.lifted = self.plain + share * self.plain.sum(1, keepdims=True)
        # thresholds: over the images of a class, the mean of a part of its score and all of the lift, rows weighted as they were learned
        taught = (0.76 - 0.3 * max(0, len(x) - self.count.sum()) / (len(x) + 50)) * self.count / (self.count + 1)
        part = {"taught": taught, "per-class": np.full(len(taught), 2 / 3)}.get(kind, 0 * taught)
        means = (w[:, :, None] * x).sum(1) @ (part * self.plain + share * self.plain.sum(1, keepdims=True))
        level = (1 + 0.1 * np.log(views)) / 2 if views > 1 else 1
        found = level * ((y == 1) * means).sum(0) / np.maximum(self.count, 1)
        self.thresholds = np.where((self.count > 0) & (found > 0) & (kind != "fixed"), found, np.log(0.525 / 0.475))

    def score(self, x):
        return combine(x @ self.lifted)


def shares_of(x, y, learn, slack=0):
    """Of the pictures of each class, the share that a model without the class tags with another one; the mean over the classes left out. With
    a slack, the least and the largest it may be if scores are off by that much."""
    found = [[[], []] for _ in y.T]
    for j in range(y.shape[1]):
        gone, others = y[:, j] == 1, np.arange(y.shape[1]) != j
        if not gone.any() or y.shape[1] < 3:  # a model of one class has seen nothing else
            continue
        model = learn(x[~gone], y[~gone][:, others])
        alone = gone & ((y == 1).sum(1) == 1)
        scores = model.score(x[alone])
        for at, k in enumerate(np.flatnonzero(others)):
            judged = y[alone][:, k] == 0
            if judged.any() and model.count[at]:
                for side, sign in enumerate((1, -1)):
                    found[k][side].append((scores[judged, at] > model.thresholds[at] + sign * slack).mean())
    return np.array([[np.mean(side) if side else np.nan for side in sides] for sides in found])


def expectation(x, y, learn, backgrounds):
    """Precision [backgrounds, classes] and recall in per cent, NaN where too little is known."""
    model, classes, shares = learn(x, y), y.shape[1], shares_of(x, y, learn)[:, 0]
    scores = np.array([learn(np.delete(x, i, 0), np.delete(y, i, 0)).score(x[i:i + 1])[0] for i in range(len(x))])
    shows = (y == 1).any(1)
    precision, recall = np.full((len(backgrounds), classes), np.nan), np.full(classes, np.nan)
    for k in range(classes):
        own, other, none, s, t = y[:, k] == 1, (y[:, k] == 0) & shows, (y[:, k] == 0) & ~shows, scores[:, k], model.thresholds[k]
        n = own.sum()
        if n < 2 or not (other | none).any():
            continue
        found = (s[own] > t * (n - 1) / n).sum()
        recall[k] = 100 * found / n
        guess = ((s[other] > 0.75 * t).sum() / max(other.sum(), 1) + 0.25 / classes) / 2
        guess = guess if np.isnan(shares[k]) else (guess + shares[k]) / 2
        g = (20 * guess + (s[none] > t).sum()) / (20 + none.sum())
        alarms = ((s[other] > t).mean() if other.any() else g) * (shows.sum() - n)
        if found or (s[other | none] > t).any():
            precision[:, k] = [100 * found / (found + alarms + g * shows.sum() * b / (1 - b)) for b in backgrounds]
    return precision, recall


def classes_left_out(folder):
    """l3a_model_leave_out_classes, over random judged sets, weights of views, thresholds and lifts."""
    for name, settings in SETTINGS.items():
        for kind in ("taught", "per-class", "fixed") if name in ("apart", "views") else ("taught",) if settings.get("alpha", 1) < 1 else ("per-class",):
            settings = {**settings, "thresholds": kind, **({"theta": 0.525} if kind == "fixed" else {})}
            x, y = images(40, settings=settings)
            y[8:16] = -1  # pictures of one class each, so that some show nothing else
            y[8:16, :4] = np.repeat(np.eye(4, dtype=np.int8), 2, 0)
            where = table(folder / "all", x, y)
            steps(settings, f"+{where}", f"={folder / 'model'}", f"%{where}:{folder / 'shares'}")
            about = feature_file.load(folder / "model")[1]
            order = [NAMES.index(c) for c in about["classes"].split("\n")]
            share = lift_of(y, settings.get("lift", 0) if settings.get("alpha", 1) < 1 or settings.get("keep-phases") else 0)

            def learn(x, y):
                return Model(x, y, settings["gamma"], settings.get("alpha", 1), share, kind, settings.get("views", 1))
            ours, slack = np.fromfile(folder / "shares"), 1e-9 if settings["precision"] == "double" else 5e-3
            theirs = shares_of(expand(x, DIM, settings.get("skip-features") == "on"), y[:, order], learn, slack)
            check((np.isnan(ours) == np.isnan(theirs[:, 0])).all(), f"{name}, {kind}: for which classes it is known: {ours} {theirs}")
            good = np.isnan(ours) | (ours >= theirs[:, 0] - 1e-9) & (ours <= theirs[:, 1] + 1e-9)
            check(good.all() and np.isfinite(ours).any(), f"{name}, {kind}: {ours} is not between {theirs.tolist()}")


def incomplete(folder):
    """A class of which the table has not all images is not left out; and images that were never taught are no reason to fail."""
    settings = {**PLAIN, "alpha": 0.3, "thresholds": "taught"}
    x, y = images(30, classes=3, kind=1)
    y[:9], y[9:12] = np.repeat(np.eye(3, dtype=np.int8), 3, 0), 0
    whole, less = table(folder / "whole", x, y, NAMES[:3]), table(folder / "less", x[2:], y[2:], NAMES[:3])
    steps(settings, f"+{whole}", f"%{less}:{folder / 'shares'}", f"%{whole}:{folder / 'all'}", f"={folder / 'model'}")
    order, wide = [NAMES.index(c) for c in feature_file.load(folder / "model")[1]["classes"].split("\n")], expand(x, DIM, False)

    def learn(x, y):
        return Model(x, y, 3, 0.3, 0, "taught")

    def expected(left_out):
        shares = []
        for j in left_out:
            gone, others = y[:, j] == 1, [k for k in order if k != j]
            model, alone = learn(wide[~gone], y[~gone][:, others]), gone & ((y == 1).sum(1) == 1)
            shares.append({k: (model.score(wide[alone])[:, at] > model.thresholds[at]).mean() for at, k in enumerate(others)})
        return [np.mean([s[k] for s in shares if k in s]) for k in order]
    check(np.allclose(np.fromfile(folder / "shares"), expected([k for k in order if not (y[:2, k] == 1).any()])), "classes all of whose images are known")
    check(np.allclose(np.fromfile(folder / "all"), expected(order)), "all classes")
    other = table(folder / "other", 100 * x, y, NAMES[:3])
    steps(settings, f"+{whole}", f"%{other}:{folder / 'shares'}")
    steps(settings, f"+{table(folder / 'one', x[:3], y[:3, :1], NAMES[:1])}", f"%{folder / 'one'}:{folder / 'shares'}")
    check(np.isnan(np.fromfile(folder / "shares")).all(), "one class: there is nothing to leave out")
    steps(settings, f"+{table(folder / 'two', x, y[:, :2], NAMES[:2])}", f"%{folder / 'two'}:{folder / 'shares'}")
    check(np.isnan(np.fromfile(folder / "shares")).all(), "two classes: one would be left")


def draw(path, colours):
    """A noisy picture with a patch of each colour."""
    made = random.integers(0, 130, (64, 64, 3)).astype(np.uint8)
    for i, colour in enumerate(colours):
        left, top = random.integers(0, 34, 2)
        made[top:top + 30 - 4 * i, left:left + 30, :] = np.clip(np.array(colour) + random.integers(-60, 60, 3), 0, 255)
    Image.fromarray(made).save(path)


COLOURS = {"red": (200, 40, 40), "green": (40, 190, 60), "blue": (50, 70, 210), "pink": (210, 70, 170)}


def lessons(folder):
    """[(tags, not, options, pictures)]: one tag after another, pictures that show two, that show none, and that are not of one."""
    made, number = [], 0
    plan = [("red", "", 6), ("green", "", 5), ("blue", "", 7), ("red,blue", "", 3), ("", "red,green,blue", 4), ("pink", "", 2), ("", "green", 3), ("green,pink", "", 1)]
    for tags, absent, count in plan:
        paths = [folder / f"{number + i}.png" for i in range(count)]
        number += count
        for path in paths:
            draw(path, [COLOURS[c] for c in tags.split(",") if c] or [random.integers(0, 255, 3)])
        made.append((tags, absent, paths))
    return made


def the_command(folder):
    """The numbers that `l3a teach` prints, after every lesson."""
    model, x, y, known = folder / "model.l3a", [], [], []
    for number, (tags, absent, paths) in enumerate(lessons(folder)):
        options = ["--backbone", BACKBONE, "--dim", 64, "--precision", "double"] if not number else []
        told = json.loads(l3a("teach", model, *paths, *(["--tags", tags] if tags else ["--not", absent]), *options, "--format", "json").stdout)
        (folder / "list.csv").write_text("path,labels\n" + "".join(f"{path},a\n" for path in paths))
        l3a("extract", "--backbone", BACKBONE, "--data", f"list:{folder / 'list.csv'}", "--orient", "-o", folder / f"f{number}", "--quiet")
        shown = [c for c in tags.split(",") if c]
        known += [c for c in shown if c not in known]
        judged = known if tags else absent.split(",")
        x.append(feature_file.load(folder / f"f{number}")[0]["features"][:, None])
        y += [{c: int(c in shown) for c in judged}] * len(paths)
        if number not in (3, 5):
            compare_command(model, np.vstack(x), y, told)
    info = json.loads(l3a("info", model, "--format", "json").stdout)
    check(sum(len(phase["classes"]) for phase in info["phases"]) == 4, "four tags")


def compare_command(model, x, judged, told):
    about = feature_file.load(model)[1]
    names = about["classes"].split("\n")
    y = np.array([[row.get(name, -1) for name in names] for row in judged], np.int8)
    gamma, alpha, share = float(about["gamma"]), float(about["alpha"]), lift_of(y, float(about["lift"]))

    def learn(x, y):
        return Model(x, y, gamma, alpha, share, "taught")
    precision, recall = expectation(expand(x, int(about["dim"]), about["skip-features"] == "on"), y, learn, [told["background"]])
    check(told["background"] == 0.5 and [one["tag"] for one in told["tags"]] == names, f"half background, the tags in order: {told}")
    for k, one in enumerate(told["tags"]):
        for what, value in (("precision", precision[0, k]), ("recall", recall[k])):
            good = one[what] is None if np.isnan(value) else one[what] is not None and abs(one[what] - value) < 0.0051
            check(good, f"{len(x)} pictures, {names}: {what} of {one['tag']} is {one[what]} instead of {value:.2f}")


def main():
    with tempfile.TemporaryDirectory() as name:
        for part in (classes_left_out, incomplete, the_command):
            part(Path(name))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
