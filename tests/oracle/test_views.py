#!/usr/bin/env python3
"""Images with several rows, against NumPy (SPEC section 7): phases with pseudo-labels, class weights and thresholds, the choice of gamma,
merging and forgetting, scores, metrics, and tables of which only some views are used. test_teach.py has lessons with views."""
import csv
import ctypes
import json
import math
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
import feature_file
from support import check, combine, expand, finish, l3a, read_csv

WIDTH, DIM, CLASSES = 6, 30, 6
NAMES = [f"class{k}" for k in range(CLASSES)]
random = np.random.default_rng(15)


def make(count, views):
    """Crops that show one class of their image each, so that the best crop matters."""
    y = (random.random((count, CLASSES)) < 0.3).astype(np.int8)
    y[y.sum(1) == 0, 0] = 1
    centres = np.random.default_rng(3).normal(size=(CLASSES, WIDTH))
    x = random.normal(size=(count, 1 + views, WIDTH))
    for i in range(count):
        x[i, 0] += y[i] @ centres / y[i].sum()
        for v in range(1, 1 + views):
            x[i, v] += 2 * centres[random.choice(np.flatnonzero(y[i]))]
    return x.astype(np.float32), y


def save(path, x, y, kind=np.float32):
    feature_file.save(path, {"features": x.astype(kind), "labels": y}, {"classes": "\n".join(NAMES), "views": str(x.shape[1] - 1)})
    return path


LABEL_SCORES = {"whole": lambda s: s[:, 0], "mean": lambda s: (s[:, 0] + s[:, 1:].mean(1)) / 2, "combined": combine}


def row_weights(w, x):
    return w[:, None] * np.array([1] + [1 / (x.shape[1] - 1)] * (x.shape[1] - 1))


def dynamic(scores, target):
    """KRT's rule: eta moves from 0.8 in steps of 0.005 until the mean number of labels is within 0.1 of the target."""
    made = lambda step: (scores > math.log(step / (200 - step))).sum() / len(scores)
    at = best = 160
    for _ in range(101):
        if abs(made(at) - target) < abs(made(best) - target):
            best = at
        if abs(made(at) - target) <= 0.1 or (made(at) > target and at == 199) or (made(at) <= target and at == 1):
            break
        at += 1 if made(at) > target else -1
    return best / 200


class Reference:
    """A model without parts, that learns phase after phase."""

    def __init__(self, gamma, weights="sqrt", pseudo="fixed", eta=0.7, tau=2.9, rule="mean"):
        self.gamma, self.weights, self.pseudo, self.eta, self.tau, self.rule = gamma, weights, pseudo, eta, tau, rule
        self.a, self.c, self.w = np.zeros((DIM, DIM)), np.zeros((DIM, 0)), np.zeros((DIM, 0))
        self.f, self.label_weight, self.phases = np.zeros(0), np.zeros(0), []

    def learn(self, x, y, first, last):
        """A phase; or, if its classes are known, a lesson in which other classes are not judged."""
        rows = (y[:, first:last] == 1).any(1)
        x, own = x[rows], y[rows, first:last] == 1
        big, known = expand(x, DIM), len(self.f)
        new = max(0, last - known)
        labels, eta = np.zeros((len(x), known + new), bool), 0
        if known and self.pseudo != "off":
            scores = LABEL_SCORES[self.rule](big @ self.w)
            eta = self.eta if self.pseudo == "fixed" else dynamic(scores, self.tau * first / last)
            labels[:, :known] = scores > math.log(eta / (1 - eta))
        labels[:, first:last] = own
        self.f = np.concatenate([self.f, np.zeros(new)])
        self.f[first:last] += own.sum(0)
        v = np.ones(known + new) if self.weights == "none" else self.f ** -0.5 * len(self.f) / (self.f ** -0.5).sum()
        w = (labels @ v) / labels.sum(1)
        share = row_weights(w, x)
        self.c = np.hstack([self.c, np.zeros((DIM, new))])
        self.label_weight = np.concatenate([self.label_weight, np.zeros(new)]) + w @ labels
        for view in range(x.shape[1]):
            self.a += (big[:, view].T * share[:, view]) @ big[:, view]
            self.c += (big[:, view].T * share[:, view]) @ labels
        self.w = np.linalg.solve(self.a + self.gamma * np.eye(DIM), self.c)
        if new:
            self.phases.append((labels[:, :first].sum(), eta))


def learn(model, path, settings, first, last):
    given = [] if first else [v for k, w in settings.items() for v in (f"--{k}", w)]
    l3a("learn", model, "--features", path, "--classes", ",".join(NAMES[first:last]), "--quiet", *given)


def close(one, other, what, limit=1e-9):
    off = np.abs(one - other).max() / (np.abs(other).max() or 1) if one.shape == other.shape else np.inf
    check(off < limit, f"{what} is off by {off:.1e}")


def precision(scores, labels):
    order = np.argsort(-scores, kind="stable")
    hit = labels[order] == 1
    return float((np.cumsum(hit)[hit] / (np.flatnonzero(hit) + 1)).mean())


def phases(folder):
    """Pseudo-labels, counts, class weights, sums, thresholds, scores and metrics after every phase."""
    test_x, test_y = make(90, 4)
    test = save(folder / "test", test_x, test_y)
    for name, weights, pseudo, solver, limit, rule in (
            ("plain", "sqrt", "fixed", "sums", 1e-9, None), ("without weights", "none", "fixed", "sums", 1e-9, None),
            ("dynamic", "sqrt", "dynamic", "sums", 1e-9, None), ("without pseudo-labels", "sqrt", "off", "sums", 1e-9, None),
            ("recursive", "sqrt", "fixed", "recursive", 1e-8, None), ("whole", "sqrt", "fixed", "sums", 1e-9, "whole"),
            ("dynamic whole", "none", "dynamic", "sums", 1e-9, "whole"), ("combined", "sqrt", "fixed", "sums", 1e-9, "combined"),
            ("dynamic combined", "sqrt", "dynamic", "sums", 1e-9, "combined"), ("recursive combined", "sqrt", "fixed", "recursive", 1e-8, "combined")):
        x, y = make(150, 4)
        path, model = save(folder / "train", x, y), folder / f"{name}.model"
        settings = {"dim": DIM, "gamma": 3, "precision": "double", "weights": weights, "pseudo": pseudo, "eta": 0.6, "solver": solver, "block": 64,
                    "thresholds": "per-class", **({"pseudo-from": rule} if rule else {})}
        reference = Reference(3, weights, pseudo, 0.6, rule=rule or "mean")
        for first in range(0, CLASSES, 2):
            learn(model, path, settings, first, first + 2)
            reference.learn(x, y, first, first + 2)
            tensors, about = feature_file.load(model)
            close(tensors["weights"], reference.w, f"{name}: W after {first + 2} classes", limit)
            close(tensors["cross"], reference.c, f"{name}: C after {first + 2} classes", limit)
            close(tensors["label_weight"], reference.label_weight, f"{name}: the weights of labels", limit)
            check((tensors["counts"] == reference.f).all(), f"{name}: counts are those of images")
            check(about["views"] == "4" and about["pseudo-from"] == (rule or "mean"), f"{name}: the file says so")
            check(about["version"] == ("6" if pseudo == "off" or rule == "combined" else "7"), f"{name}: version {about['version']}")
        told = [line.split() for line in about["phases"].split("\n")]
        check([(int(p[4]), round(float(p[5]), 9)) for p in told] == [(int(n), e) for n, e in reference.phases], f"{name}: pseudo-labels {told} {reference.phases}")
        check(pseudo == "off" or sum(n for n, _ in reference.phases) > 20, f"{name}: there are pseudo-labels")
        scores = combine(expand(test_x, DIM) @ reference.w)
        measured = json.loads(l3a("eval", model, "--features", test, "--format", "json").stdout)
        expected = 100 * np.mean([precision(scores[:, k], test_y[:, k]) for k in range(CLASSES)])
        check(abs(measured["mAP"] - expected) < 1e-4, f"{name}: mAP {measured['mAP']} instead of {expected}")
        level = (1 + 0.1 * math.log(4)) / 2 * 2 / 3
        threshold = level * (reference.c * reference.w).sum(0) / reference.label_weight
        hit, real = scores > threshold, test_y == 1
        f1 = 2 * (hit & real).sum(0) / (hit.sum(0) + real.sum(0))
        check(abs(measured["CF1"] - 100 * f1.mean()) < 1e-4, f"{name}: CF1 {measured['CF1']} instead of {100 * f1.mean()}")
        rows = csv.DictReader(l3a("predict", model, "--features", test, "--top", CLASSES, "--format", "csv").stdout.splitlines())
        told = {(int(row["id"].split()[-1]), row["class"]): float(row["score"]) for row in rows}
        off = max(abs(told[i, NAMES[k]] - scores[i, k]) for i in range(len(scores)) for k in range(CLASSES))
        check(len(told) == scores.size and off < 1e-4, f"{name}: predicted scores are off by {off:.1e}")


def strip(path, key):
    """Takes an entry out of the metadata of a model, as if it had been written before there was one."""
    xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    xxh3.argtypes, xxh3.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_uint64
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    del header["__metadata__"][key]
    header["__metadata__"]["xxh3.header"] = "0" * 16
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    text = text.replace(b'"xxh3.header":"' + b"0" * 16, b'"xxh3.header":"%016x' % xxh3(text, len(text)))
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])


def rules(folder):
    """The rule for pseudo-labels: in lessons, of models and runs that older versions began, and as a setting that can be changed."""
    x, y = make(150, 4)
    path = save(folder / "train", x, y)
    more_images = make(60, 4)
    more = save(folder / "more", *more_images)
    settings, made = {"dim": DIM, "gamma": 3, "precision": "double", "eta": 0.6}, {}
    for rule in LABEL_SCORES:
        model, reference = folder / f"lesson {rule}.model", Reference(3, eta=0.6, rule=rule)
        for first in 0, 2:
            learn(model, path, {**settings, "pseudo-from": rule}, first, first + 2)
            reference.learn(x, y, first, first + 2)
        l3a("learn", model, "--features", more, "--classes", ",".join(NAMES[:2]), "--quiet")  # known classes: a lesson
        reference.learn(*more_images, 0, 2)
        made[rule] = reference.w
        close(feature_file.load(model)[0]["weights"], reference.w, f"{rule}: W after a lesson")
    check(all(np.abs(made["whole"] - made[rule]).max() > 1e-3 for rule in ("mean", "combined")), "the rules differ")

    old, reference = folder / "old.model", Reference(3, eta=0.6, rule="combined")
    learn(old, path, {**settings, "pseudo-from": "combined"}, 0, 2)
    strip(old, "pseudo-from")  # as 0.8 wrote it
    check(feature_file.load(old)[1]["version"] == "6", "a version that 0.8 reads")
    newer = folder / "newer.model"
    newer.write_bytes(old.read_bytes())
    for first in 0, 2:
        reference.learn(x, y, first, first + 2)
    learn(old, path, {}, 2, 4)
    tensors, about = feature_file.load(old)
    close(tensors["weights"], reference.w, "a model of 0.8 keeps its rule")
    check((about["version"], about["pseudo-from"]) == ("6", "combined"), f"and stays what 0.8 reads: {about}")
    l3a("learn", newer, "--features", path, "--classes", ",".join(NAMES[2:4]), "--pseudo-from", "whole", "--quiet")
    tensors, about = feature_file.load(newer)
    check(about["version"] == "7" and np.abs(tensors["weights"] - reference.w).max() > 1e-3, "unless it is told another one")

    test = save(folder / "test", *make(80, 4))
    shared = ["run", "--train", path, "--test", test, "--protocol", "B0-C2", "--dim", DIM, "--precision", "double", "--eta", 0.6, "--seed", "1,2", "--quiet"]
    told = {}
    for name, given in (("default", []), ("combined", ["--pseudo-from", "combined"])):
        l3a(*shared, *given, "-o", folder / f"run {name}")
        told[name] = numbers(folder / f"run {name}")
    record = (folder / "run default" / "run.json").read_text()
    check('"pseudo-from": "mean"' in record and "pseudo-from" not in (folder / "run combined" / "run.json").read_text().split('"given"')[0].split('"run"')[1],
          "the record has a rule that is not the old one")
    (folder / "began").mkdir()
    lines = [line for line in record.split("\n") if '"pseudo-from"' not in line]
    (folder / "began" / "run.json").write_text("\n".join(lines))  # of a run that 0.8 began
    l3a("run", "--resume", "--quiet", "-o", folder / "began")
    check(numbers(folder / "began") == told["combined"] != told["default"], "a run of 0.8 keeps its rule")
    warned = l3a("learn", folder / "one.model", "--features", path, "--classes", "class0", "--views", 1, "--dim", DIM, "--pseudo-from", "mean").stderr
    check("--pseudo-from has no effect" in warned, f"without views it has none: {warned}")


def numbers(folder):
    return [(row["seed"], row["phase"], row["pseudo_labels"], row["mAP"], row["CF1"]) for row in read_csv(folder / "metrics.csv")]


def scored(folder):
    """Images that are scored with other views than they are learned with: more, fewer, or none."""
    x, y = make(150, 14)
    test_x, test_y = make(90, 14)
    test = save(folder / "test", test_x, test_y)
    chosen_rows = {1: [0], 5: range(6), 9: [0, *range(6, 15)], 14: range(15)}
    for learned, given in ((1, 14), (5, 14), (14, 5), (9, 1)):
        rows, model = list(chosen_rows[learned]), folder / f"scored {learned} {given}.model"
        own = x[:, rows] if learned > 1 else np.stack([x[:, 0], x[:, 0]], 1)  # the reference needs a crop: twice the picture at half the weight
        reference = Reference(3 if learned > 1 else 6, "none", "off")
        reference.learn(own, y, 0, CLASSES)
        l3a("learn", model, "--features", save(folder / "train", x, y), "--views", learned, "--score-views", given, "--classes", ",".join(NAMES),
            "--dim", DIM, "--gamma", 3, "--precision", "double", "--weights", "none", "--pseudo", "off", "--thresholds", "per-class", "--quiet")
        close(feature_file.load(model)[0]["weights"], reference.w, f"learned with {learned} views: W")
        scores = expand(test_x[:, list(chosen_rows[given])], DIM) @ reference.w
        scores = combine(scores) if given > 1 else scores[:, 0]
        measured = json.loads(l3a("eval", model, "--features", test, "--views", given, "--format", "json").stdout)
        expected = 100 * np.mean([precision(scores[:, k], test_y[:, k]) for k in range(CLASSES)])
        check(abs(measured["mAP"] - expected) < 1e-4, f"{learned} and {given} views: mAP {measured['mAP']} instead of {expected}")
        mean = (reference.c * reference.w).sum(0) / reference.label_weight / 2
        hit, real = scores > (1 + 0.05 * math.log(learned * given)) * 2 / 3 * mean, test_y == 1
        f1 = 2 * (hit & real).sum(0) / (hit.sum(0) + real.sum(0))
        check(abs(measured["CF1"] - 100 * f1.mean()) < 1e-4, f"{learned} and {given} views: CF1 {measured['CF1']} instead of {100 * f1.mean()}")
        own = folder / "own test"
        feature_file.save(own, {"features": np.ascontiguousarray(test_x[:, rows] if learned > 1 else test_x[:, 0]), "labels": test_y},
                          {"classes": "\n".join(NAMES)})
        words = l3a("eval", model, "--features", own, code=2).stderr
        check("the model takes" in words, f"the views that were learned are not those that are scored: {words}")
        plain = json.loads(l3a("eval", model, "--features", own, "--views", learned, "--format", "json").stdout)
        check(plain["mAP"] != measured["mAP"], "unless they are asked for")
        l3a("learn", model, "--features", folder / "train", "--views", learned, "--score-views", 0, "--classes", "class0,class1", "--quiet")
        l3a("eval", model, "--features", own)
    shared = ["run", "--train", folder / "train", "--test", test, "--protocol", "B0-C2", "--dim", DIM, "--quiet"]
    check("score-views" in l3a(*shared[:2], save(folder / "few", x[:, :6], y), *shared[3:], "-o", folder / "no", code=2).stderr, "two tables")
    methods = "l3a,l3a+,joint,joint-masked,slda,gkeal,dsal,finetune,er"
    l3a(*shared, "--views", 1, "--score-views", 14, "--method", methods, "--epochs", 2, "-o", folder / "run")
    l3a("run", "--resume", "--quiet", "-o", folder / "run")
    check('"score-views": 14' in (folder / "run" / "run.json").read_text(), "the record says so")
    check(len({row["method"] for row in read_csv(folder / "run" / "metrics.csv")}) == 9, "all methods ran")
    check("cannot be an axis" in l3a("sweep", *shared[1:], "--score-views", "5,14", "-o", folder / "no", code=2).stderr, "no axis")


def chosen(folder):
    """Gamma auto is what it is without crops."""
    x, y = make(300, 3)
    models = [folder / f"auto {views}.model" for views in (3, 1)]
    save(folder / "train", x, y)
    for model, views in zip(models, (3, 1)):
        l3a("learn", model, "--features", folder / "train", "--views", views, "--classes", "class0,class1", "--dim", DIM, "--gamma", "auto", "--quiet")
    one, other = (float(feature_file.load(model)[1]["gamma"]) for model in models)
    check(one == other > 0, f"gamma {one} with views, {other} without")


def taking_back(folder):
    """Images and phases that are forgotten, and models that are merged, equal models that learned the rest or the union."""
    x, y = make(120, 3)
    path, plain = save(folder / "train", x, y), {"dim": DIM, "gamma": 2, "precision": "double", "weights": "none", "pseudo": "off", "privacy-limit": 0}
    half = save(folder / "half", x[:60], y[:60]), save(folder / "other", x[60:], y[60:])
    for name, settings in (("one sum", plain), ("apart", {**plain, "alpha": 0.3, "lift": 0.1})):
        models = {key: folder / f"{name} {key}.model" for key in ("all", "one", "two", "back", "merged")}
        for key, rows in (("all", path), ("one", half[0]), ("two", half[1])):
            for first in range(0, CLASSES, 3):
                learn(models[key], rows, settings, first, first + 3)
        l3a("forget", models["all"], "--features", half[1], "-o", models["back"], "--quiet")
        l3a("merge", models["one"], models["two"], "-o", models["merged"], "--quiet")
        for left, right in (("back", "one"), ("merged", "all")):
            one, other = feature_file.load(models[left])[0], feature_file.load(models[right])[0]
            check(one.keys() == other.keys(), f"{name}: {left}: {sorted(one)} {sorted(other)}")
            for key in other:
                close(one[key], other[key], f"{name}: {left} {key}")
    l3a("forget", models["all"], "--phase", 2, "-o", models["back"], "--quiet")
    learn(models["merged"].with_suffix(".first"), path, settings, 0, 3)
    close(feature_file.load(models["back"])[0]["weights"], feature_file.load(models["merged"].with_suffix(".first"))[0]["weights"], "a phase forgotten")


def together(folder):
    """The points of a sweep, which learn together, are those of separate runs."""
    train, test = save(folder / "train", *make(150, 4)), save(folder / "test", *make(80, 4))
    shared = ["--train", train, "--test", test, "--protocol", "B0-C2", "--dim", DIM, "--precision", "double", "--quiet"]
    l3a("sweep", *shared, "--method", "l3a", "--gamma", "1,10", "--eta", "0.55,0.7,dynamic", "-o", folder / "sweep")
    points = read_csv(folder / "sweep" / "sweep.csv")
    check(len(points) == 18, f"{len(points)} rows of a sweep")
    l3a("sweep", *shared, "--method", "l3a", "--gamma", "1", "--eta", "0.55,dynamic", "--pseudo-from", "whole,mean,combined", "-o", folder / "by rule")
    points_by_rule = read_csv(folder / "by rule" / "sweep.csv")
    for rule in LABEL_SCORES:
        for eta in "0.55", "dynamic":
            where = folder / f"run {rule} {eta}"
            l3a("run", *shared, "--gamma", 1, "--pseudo-from", rule, *(["--pseudo", "dynamic"] if eta == "dynamic" else ["--eta", eta]), "-o", where)
            own = [p for p in points_by_rule if p["pseudo-from"] == rule and p["eta"] == eta]
            rows = numbers(where)
            same = [abs(float(a["mAP"]) - float(b[3])) < 1e-6 and a["pseudo_labels"] == b[2] for a, b in zip(own, rows)]
            check(len(own) == len(rows) == sum(same) == 3, f"pseudo-from {rule}, eta {eta}: {own} {rows}")
    for gamma in "1", "10":
        for eta in "0.55", "0.7", "dynamic":
            where = folder / f"run {gamma} {eta}"
            l3a("run", *shared, "--gamma", gamma, *(["--pseudo", "dynamic"] if eta == "dynamic" else ["--eta", eta]), "-o", where)
            rows = read_csv(where / "metrics.csv")
            own = [p for p in points if p["gamma"] == gamma and p["eta"] == eta]
            same = [abs(float(a["mAP"]) - float(b["mAP"])) < 1e-6 and a["pseudo_labels"] == b["pseudo_labels"] for a, b in zip(own, rows)]
            check(len(own) == len(rows) == sum(same), f"gamma {gamma}, eta {eta}: {own} {rows}")


def some_views(folder):
    """Of 14 views, 5 are those after the whole picture, 9 those after them; and float16 files are what their numbers are."""
    x, y = make(100, 14)
    x = x.astype(np.float16)
    whole = save(folder / "whole", x, y, np.float16)
    for views, rows in ((14, range(15)), (5, range(6)), (9, [0, *range(6, 15)]), (1, [0])):
        own = x[:, list(rows)].astype(np.float32)
        feature_file.save(folder / "own", {"features": own if views > 1 else own[:, 0], "labels": y}, {"classes": "\n".join(NAMES)})
        models = [folder / f"{kind} {views}.model" for kind in ("some", "own")]
        for model, path, given in ((models[0], whole, ["--views", views]), (models[1], folder / "own", [])):
            l3a("learn", model, "--features", path, "--classes", "class0,class1", "--dim", DIM, "--gamma", 1, "--quiet", *given)
        one, other = (feature_file.load(model)[0] for model in models)
        check(all((one[key] == other[key]).all() for key in other), f"{views} of 14 views")


def refusals(folder):
    x, y = make(20, 3)
    path = save(folder / "good", x, y)
    about = {"classes": "\n".join(NAMES)}
    for what, features, record in (("an image has 2 views", x[:, :2], {}), ("the record says 5 views, but an image has 4 rows", x, {"views": "5"}),
                                   ("4 dimensions", x[:, :, None], {}), ("no features", x[:, :0], {})):
        feature_file.save(folder / "bad", {"features": np.ascontiguousarray(features), "labels": y}, {**about, **record})
        check(what in l3a("learn", folder / "no.model", "--features", folder / "bad", "--classes", "class0", code=2).stderr, what)
    np.save(folder / "fortran.npy", np.asfortranarray(x)), np.save(folder / "y.npy", y)
    check("C order" in l3a("learn", folder / "no.model", "--features", folder / "fortran.npy", "--labels", folder / "y.npy", "--classes",
                           "class 0", code=2).stderr, "Fortran order")
    check("but the table has 3" in l3a("learn", folder / "no.model", "--features", path, "--classes", "class0", "--views", 5, code=2).stderr, "other views")
    x[7, 2, 4], y[7, 0] = np.nan, 1
    check("row 7, view 2, column 4" in l3a("learn", folder / "no.model", "--features", save(folder / "nan", x, y), "--classes", "class0", code=2).stderr,
          "a number that is none")
    check(not (folder / "no.model").exists(), "nothing was made")


def main():
    with tempfile.TemporaryDirectory() as name:
        for part in (phases, rules, scored, chosen, taking_back, together, some_views, refusals):
            part(Path(name))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
