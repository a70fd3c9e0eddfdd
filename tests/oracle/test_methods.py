#!/usr/bin/env python3
"""Every closed-form method against NumPy: each phase solved afresh from all rows seen, by other formulas than the program's.

On made-up features, with and without views, and on a slice of the shared COCO features where they are; in double precision. Then the
limits in which one method becomes another.

With views, an image is several rows of every solution: the whole picture with weight 1, and each of c crops with weight 1/c. It is scored
by the whole picture and the best crop, 1 : 2."""
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SHARED = Path(os.environ.get("L3A_SHARED", "../shared"))
QUICK = bool(os.environ.get("L3A_SANITIZE") or os.environ.get("L3A_QUICK"))
TRAIN, TEST = (SHARED / "data" / "coco2014-vit-tiny" / f"{split}.safetensors" for split in ("train", "val"))

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)
from support import COMMAND, check, finish, random_bits, random_layer, read_csv

GAMMA, SEED, THETA, ETA = 30.0, 7, 0.525, 0.55
RATIO, WIDTH, SHRINKAGE = 0.8, 0.6, 0.01
OPTIONS = {"gamma": GAMMA, "seed": SEED, "theta": THETA, "eta": ETA, "ratio": RATIO, "kernel-width": WIDTH, "shrinkage": SHRINKAGE,
           "precision": "double", "block": 97}


class Data:
    """Training and test images in a folder, as .npy files: [images, width], or [images, views, width]."""

    def __init__(self, folder, train, labels, test, test_labels):
        self.folder, self.train, self.test = Path(folder), train.astype(np.float32), test.astype(np.float32)
        self.labels, self.test_labels = labels.astype(np.int8), test_labels.astype(np.int8)
        self.folder.mkdir()
        for name, values in ("x", self.train), ("y", self.labels), ("xt", self.test), ("yt", self.test_labels):
            np.save(self.folder / f"{name}.npy", values)
        (self.folder / "names.txt").write_text("".join(f"class{k:03d}\n" for k in range(labels.shape[1])))
        self.views = 1 if self.train.ndim == 2 else self.train.shape[1]
        self.width = self.train.shape[-1]
        self.row_weights = np.array([1.0] + [1 / (self.views - 1) for _ in range(self.views - 1)])

    def rows_of(self, images):
        """The rows of these training images, one after another."""
        return self.train[images].reshape(-1, self.width)

    def per_row(self, values):
        """What is said of each image, said of each of its rows."""
        return np.repeat(values, self.views, 0)

    def weigh(self, omega):
        """The weights of the rows of images with these weights."""
        return (np.asarray(omega)[:, None] * self.row_weights).ravel()

    def combine(self, scores):
        """The scores of images, from those of their rows."""
        scores = scores.reshape(-1, self.views, scores.shape[1])
        return (scores[:, 0] + 2 * scores[:, 1:].max(1)) / 3 if self.views > 1 else scores[:, 0]

    def label_scores(self, scores):
        """The scores that give images pseudo-labels."""
        scores = scores.reshape(-1, self.views, scores.shape[1])
        return (scores[:, 0] + scores[:, 1:].mean(1)) / 2 if self.views > 1 else scores[:, 0]

    def test_scores(self, score):
        return self.combine(score(self.test.reshape(-1, self.width)))

    def start(self, out, methods, protocol, dim, **settings):
        settings = {**OPTIONS, **{name.replace("_", "-"): value for name, value in settings.items()}}
        options = [f"--{name}={value}" for name, value in settings.items()]
        f = self.folder
        return subprocess.run([COMMAND, "run", "--train", f / "x.npy", "--train-labels", f / "y.npy", "--test", f / "xt.npy",
                               "--test-labels", f / "yt.npy", "--names", f / "names.txt", "--protocol", protocol, "--dim", str(dim),
                               "--method", ",".join(methods), "--quiet", "-o", f"{out}/run", *options], capture_output=True, text=True)

    def run(self, methods, protocol, dim, **settings):
        """The rows of metrics.csv of each method."""
        out = tempfile.mkdtemp(dir=self.folder)
        done = self.start(out, methods, protocol, dim, **settings)
        if done.returncode:
            sys.exit(f"FAILED: l3a run ended with {done.returncode}: {done.stderr}")
        rows = read_csv(f"{out}/run/metrics.csv")
        return {m: [[float(row[key]) for key in ("mAP", "CF1", "OF1")] + [int(row["train_images"]), int(row["pseudo_labels"])]
                    for row in rows if row["method"] == m] for m in methods}


def phases(protocol, classes):
    base, step = (int(part[1:]) for part in protocol.split("-"))
    bounds = [0, base or step]
    while bounds[-1] < classes:
        bounds.append(min(bounds[-1] + step, classes))
    return list(zip(bounds, bounds[1:]))


def measure(scores, labels, threshold):
    """mAP, CF1 and OF1 of the rows that have a label."""
    seen = (labels == 1).any(1)
    scores, truth = scores[seen], labels[seen] == 1
    precision = []
    for k in range(truth.shape[1]):
        hits = truth[np.argsort(-scores[:, k], kind="stable"), k]
        ranks = np.flatnonzero(hits) + 1
        precision.append(np.mean(np.arange(1, len(ranks) + 1) / ranks) if len(ranks) else 0)
    guess = scores > threshold
    both, either = (guess & truth).sum(0), guess.sum(0) + truth.sum(0)
    f1 = np.divide(2 * both, either, out=np.zeros(len(both)), where=either > 0)
    return [100 * np.mean(precision), 100 * f1.mean(), 100 * 2 * both.sum() / max(either.sum(), 1)]


def ridge(x, y, weights, gamma):
    weighted = x.T * weights
    return np.linalg.solve(weighted @ x + gamma * np.eye(x.shape[1]), weighted @ y)


def lessons(data, protocol):
    for low, high in phases(protocol, data.labels.shape[1]):
        yield low, high, np.flatnonzero((data.labels[:, low:high] == 1).any(1))


def row_weights(y, counts, kind):
    with np.errstate(divide="ignore"):
        v = {"none": np.ones(len(counts)), "sqrt": counts**-0.5, "inv": 1 / counts}[kind]
    v[np.isinf(v)] = 0
    v = v / v.mean()
    return (y @ v) / y.sum(1)


def analytic(data, protocol, dim, gamma=GAMMA, weights="none", pseudo=False, expand=None):
    """l3a and its variants: all rows so far, with the labels and weights they had in their phase."""
    layer = random_layer(data.width, dim, SEED)
    expand = expand or (lambda z: np.maximum(z.astype(float) @ layer, 0))
    classes = data.labels.shape[1]
    x, y, omega, counts, w, out = [], [], [], np.zeros(0), None, []
    for low, high, rows in lessons(data, protocol):
        truth = data.labels[rows, low:high] == 1
        counts = np.append(counts, truth.sum(0))
        target = np.zeros((len(rows), classes))
        target[:, low:high] = truth
        x.append(expand(data.rows_of(rows)))
        made = 0
        if pseudo and low:
            target[:, :low] = data.label_scores(x[-1] @ w) > np.log(ETA / (1 - ETA))
            made = int(target[:, :low].sum())
        y.append(data.per_row(target))
        omega.append(data.weigh(row_weights(target[:, :high], counts, weights)))
        w = ridge(np.vstack(x), np.vstack(y)[:, :high], np.concatenate(omega), gamma)
        out.append((data.test_scores(lambda z: expand(z) @ w), len(rows), made))
    return out


def joint(data, protocol, dim, weights="sqrt"):
    layer = random_layer(data.width, dim, SEED)
    y = (data.labels == 1).astype(float)
    rows = np.flatnonzero(y.any(1))
    x = np.maximum(data.rows_of(rows).astype(float) @ layer, 0)
    w = ridge(x, data.per_row(y[rows]), data.weigh(row_weights(y[rows], y[rows].sum(0), weights)), GAMMA)
    return [(data.test_scores(lambda z: np.maximum(z.astype(float) @ layer, 0) @ w), len(rows), 0)]


def joint_masked(data, protocol, dim, weights="sqrt"):
    layer = random_layer(data.width, dim, SEED)
    shown = [(rows, low, high) for low, high, rows in lessons(data, protocol)]
    x = np.vstack([np.maximum(data.rows_of(rows).astype(float) @ layer, 0) for rows, *_ in shown])
    y = np.zeros((sum(len(rows) for rows, *_ in shown), data.labels.shape[1]))
    start = 0
    for rows, low, high in shown:
        y[start:start + len(rows), low:high] = data.labels[rows, low:high] == 1
        start += len(rows)
    w = ridge(x, data.per_row(y), data.weigh(row_weights(y, y.sum(0), weights)), GAMMA)
    return [(data.test_scores(lambda z: np.maximum(z.astype(float) @ layer, 0) @ w), len(y), 0)]


def dsal(data, protocol, dim):
    layer = random_layer(data.width, dim, SEED)
    relu, tanh = (lambda z: np.maximum(z.astype(float) @ layer, 0)), (lambda z: np.tanh(z.astype(float) @ layer))
    classes = data.labels.shape[1]
    x, y, omega, second, rest, out = [], [], [], [], [], []
    for low, high, rows in lessons(data, protocol):
        target = np.zeros((len(rows), classes))
        target[:, low:high] = data.labels[rows, low:high] == 1
        x.append(relu(data.rows_of(rows)))
        y.append(data.per_row(target))
        omega.append(data.weigh(np.ones(len(rows))))
        main = ridge(np.vstack(x), np.vstack(y), np.concatenate(omega), GAMMA)
        residual = np.zeros_like(y[-1])
        residual[:, low:high] = (y[-1] - x[-1] @ main)[:, low:high]
        second.append(tanh(data.rows_of(rows)))
        rest.append(residual)
        extra = ridge(np.vstack(second), np.vstack(rest), np.concatenate(omega), GAMMA)
        out.append((data.test_scores(lambda z: (relu(z) @ main + RATIO * tanh(z) @ extra)[:, :high]), len(rows), 0))
    return out


def gkeal(data, protocol, dim, width=WIDTH, gamma=GAMMA):
    low, high, rows = next(lessons(data, protocol))
    rows, wanted = list(rows), min(dim, len(rows))
    for i, bits in enumerate(random_bits(SEED, wanted)):
        j = i + bits % (len(rows) - i)
        rows[i], rows[j] = rows[j], rows[i]
    centres = data.rows_of(rows[:wanted])[::data.views].astype(float)
    between = ((centres[:, None] - centres[None]) ** 2).sum(2)
    sigma = width * np.sqrt(between.mean())

    def expand(z):
        return np.stack([np.exp(-((z.astype(float) - c) ** 2).sum(1) / (2 * sigma**2)) for c in centres], 1)

    power = (np.exp(-between / (2 * sigma**2)) ** 2).mean() / ((centres**2).sum(1).mean() / (6 * centres.shape[1]))
    return analytic(data, protocol, dim, gamma * power, expand=expand)


def slda(data, protocol, dim, shrinkage=SHRINKAGE):
    """Each class by itself: its rows, the rest, and the covariance within the two. Of n images, the prior is about n."""
    rows, marks, out = np.zeros(0, int), [], []
    for low, high, own in lessons(data, protocol):
        rows = np.append(rows, own)
        for k in range(low, high):
            marks.append((len(rows) - len(own), data.labels[own, k] == 1))
        z, omega = data.rows_of(rows).astype(float), data.weigh(np.ones(len(rows)))

        def about(chosen):
            return np.average(z[chosen], 0, omega[chosen]), np.cov(z[chosen].T, bias=True, aweights=omega[chosen])

        spread = np.trace(about(slice(None))[1]) / z.shape[1]
        scores = []
        for start, present in marks:
            shows = np.zeros(len(rows), bool)
            shows[start:start + len(present)] = present
            n, rest = shows.sum(), len(rows) - shows.sum()
            prior = np.log((n + 0.5) / (rest + 0.5))
            if not n or not rest:
                scores.append(np.full(data.test[..., 0].size, prior))
                continue
            (near, near_spread), (far, far_spread) = about(data.per_row(shows)), about(~data.per_row(shows))
            within = (near_spread * n + far_spread * rest) / len(rows)
            shrunk = (1 - shrinkage) * within + shrinkage * spread * np.eye(len(within))
            w = np.linalg.solve(shrunk, near - far)
            scores.append((data.test @ w).ravel() - w @ (near + far) / 2 + prior)
        out.append((data.combine(np.stack(scores, 1)), len(own), 0))
    return out


ORACLES = {"l3a": lambda *a: analytic(*a, weights="sqrt", pseudo=True), "l3a-no-pl": lambda *a: analytic(*a, weights="sqrt"),
           "l3a-no-wac": lambda *a: analytic(*a, pseudo=True), "joint": joint, "joint-masked": joint_masked, "acil": analytic,
           "air": lambda *a: analytic(*a, weights="inv"), "dsal": dsal, "gkeal": gkeal, "slda": slda}


def compare_all(name, data, protocol, dim, **settings):
    found = data.run(list(ORACLES), protocol, dim, **settings)
    worst = 0
    for method, oracle in ORACLES.items():
        expected = oracle(data, protocol, dim)
        check(len(found[method]) == len(expected), f"{name}, {method}: {len(found[method])} phases instead of {len(expected)}")
        for number, (got, (scores, images, made)) in enumerate(zip(found[method], expected), 1):
            wanted = measure(scores, data.test_labels[:, :scores.shape[1]], np.log(THETA / (1 - THETA)))
            off = max(abs(a - b) for a, b in zip(got, wanted))
            worst = max(worst, off)
            check(off < 1e-3 and got[3:] == [images, made], f"{name}, {method}, phase {number}: {got} instead of {wanted}, {images}, {made}")
    print(f"{name}: {len(ORACLES)} methods, largest deviation of mAP, CF1, OF1: {worst:.2g}", flush=True)


def made_up(folder, rng, rows=420, test_rows=300, width=16, classes=9):
    directions = rng.normal(size=(classes, width))

    def draw(count):
        labels = rng.random((count, classes)) < np.linspace(0.08, 0.4, classes)
        labels[np.arange(count), rng.integers(0, classes, count)] = True
        return labels @ directions * 0.5 + rng.normal(size=(count, width)), labels

    return Data(folder, *draw(rows), *draw(test_rows))


def with_crops(folder, rng, crops, rows=300, test_rows=200, width=12, classes=7):
    """A crop shows one of the image's classes, or none."""
    directions = rng.normal(size=(classes, width))

    def draw(count):
        labels = rng.random((count, classes)) < 0.25
        labels[np.arange(count), rng.integers(0, classes, count)] = True
        views = rng.normal(size=(count, 1 + crops, width))
        views[:, 0] += labels @ directions * 0.5
        for i in range(count):
            for v in range(1, 1 + crops):
                shown = rng.choice(np.append(np.flatnonzero(labels[i]), -1))
                views[i, v] += directions[shown] * 0.8 if shown >= 0 else 0
        return views, labels

    return Data(folder, *draw(rows), *draw(test_rows))


def load(path, rows):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        out = []
        for name, kind in ("features", np.float16), ("labels", np.int8):
            start, end = header[name]["data_offsets"]
            file.seek(8 + size + start)
            count = rows * header[name]["shape"][1]
            out.append(np.frombuffer(file.read(count * np.dtype(kind).itemsize), kind).reshape(rows, -1))
    return out


def same(left, right, limit):
    return len(left) == len(right) and all(abs(a - b) <= limit for x, y in zip(left, right) for a, b in zip(x, y))


def limits(folder, data, rng):
    found = data.run(["acil", "dsal"], "B0-C3", 64, ratio=0)
    check(same(found["acil"], found["dsal"], 0), f"dsal with ratio 0 is not acil: {found}")
    found = data.run(["acil", "dsal"], "B0-C3", 64)
    check(not same(found["acil"], found["dsal"], 1e-3), "dsal's second stream changes nothing")
    found = data.run(["acil", "joint-masked"], "B0-C3", 64, weights="none")
    check(same(found["acil"][-1:], [found["joint-masked"][0][:3]], 1e-9), f"joint-masked without weights is not acil's last phase: {found}")

    labels = np.zeros((400, 8), bool)  # every class on 100 images
    for step in 0, 3:
        labels[np.arange(400), (np.arange(400) + step) % 8] = True
    equal = Data(folder / "equal", labels @ rng.normal(size=(8, 12)) + rng.normal(size=(400, 12)), labels,
                 rng.normal(size=(200, 12)), rng.random((200, 8)) < 0.3)
    found = equal.run(["acil", "air"], "B2-C3", 48)
    check(same(found["acil"], found["air"], 1e-9), f"air with equal counts is not acil: {found}")


def shares_of(copies, labels, kinds, protocol):
    """After each phase, for each kind of image, the share of its copies so far that were labelled with each class."""
    hits, total, out = np.zeros((kinds, 0)), np.zeros((kinds, 1)), []
    for low, high in phases(protocol, labels.shape[1]):
        own = labels[:, low:high].any(1)
        total = total + np.bincount(copies[own], minlength=kinds)[:, None]
        hits = np.hstack([hits] + [np.bincount(copies, labels[:, k], kinds)[:, None] for k in range(low, high)])
        out.append(hits / total)
    return out


def saturation(folder, rng):
    """With more kernels, or random units, than different images, and γ near 0, a layer no longer matters: both interpolate, so gkeal and
    acil give each image the share of its copies that were labelled."""
    kinds, classes, protocol, threshold = 10, 4, "B0-C2", np.log(0.6 / 0.4)
    points = rng.normal(size=(kinds, 8)).astype(np.float32)
    copies = np.repeat(np.arange(kinds), rng.integers(30, 50, kinds))
    apart = 0
    while apart < 1e-4:  # no two images with one share, and none at the threshold
        labels = rng.random((len(copies), classes)) < rng.uniform(0.2, 0.8, (kinds, classes))[copies]
        shares = shares_of(copies, labels, kinds, protocol)
        apart = min(min(np.diff(np.sort(s, 0), axis=0).min(), np.abs(s - threshold).min()) for s in shares)
    data = Data(folder / "copies", points[copies], labels, points, rng.random((kinds, classes)) < 0.5)
    first = data.labels[:, :2].any(1)
    check(set(copies[first]) == set(range(kinds)), "every kind of image is in the first phase, where centres come from")
    found = data.run(["acil", "gkeal"], protocol, len(copies), gamma=1e-6, kernel_width=0.3, theta=0.6)
    for number, share in enumerate(shares):
        wanted = measure(share, data.test_labels[:, :share.shape[1]], threshold)
        for method in found:
            off = max(abs(a - b) for a, b in zip(found[method][number], wanted))
            check(off < 1e-6, f"{method}, phase {number + 1}, is not the share of labelled copies: {found[method][number]}, {wanted}")


def precisions(data):
    exact, mixed = (data.run(list(ORACLES), "B0-C3", 64, precision=precision) for precision in ("double", "mixed"))
    for method in ORACLES:
        off = max(abs(a[0] - b[0]) for a, b in zip(exact[method], mixed[method]))
        check(off < 0.05, f"{method}: mixed precision is {off} off in mAP")


def refusals(folder, rng):
    flat = Data(folder / "flat", np.ones((40, 6)), np.eye(4)[np.arange(40) % 4] > 0, np.ones((8, 6)), np.eye(4)[np.arange(8) % 4] > 0)
    for method, what in ("gkeal", "give no kernel width"), ("slda", "must be finite and above 0"):
        done = flat.start(tempfile.mkdtemp(dir=folder), [method], "B0-C2", 16)
        check(done.returncode == 2 and what in done.stderr, f"{method} on equal features: exit {done.returncode}, {done.stderr}")


def discriminant(data):
    """Almost without shrinkage slda is scikit-learn's discriminant analysis of each class by itself."""
    try:
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    except ImportError:
        print("skipped: slda against scikit-learn (scikit-learn is not installed)")
        return
    classes = data.labels.shape[1]
    found = data.run(["slda"], f"B0-C{classes}", 8, shrinkage=1e-10)["slda"][0]
    scores = np.stack([LinearDiscriminantAnalysis("lsqr").fit(data.train.astype(float), data.labels[:, k] == 1).decision_function(data.test)
                       for k in range(classes)], 1)
    wanted = measure(scores, data.test_labels, 0)[0]
    check(abs(found[0] - wanted) < 1e-3, f"slda is not linear discriminant analysis: mAP {found[0]} instead of {wanted}")


def upper_bound(folder):
    data = Data(folder / "bound", *load(TRAIN, 20000), *load(TEST, 8000))
    found = data.run(["l3a", "joint"], "B0-C10", 512, gamma=1000, eta=0.7, precision="mixed")
    last, bound = found["l3a"][-1][0], found["joint"][-1][0]
    check(bound >= last - 0.5, f"joint {bound} is below l3a {last}")
    print(f"COCO, 20,000 and 8,000 rows, dim 512: last mAP of l3a {last:.2f}, of joint {bound:.2f}", flush=True)


def main():
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = made_up(folder / "made", rng)
        compare_all("made up, B0-C3", data, "B0-C3", 64)
        compare_all("made up, B1-C4, first phase of fewer rows than dim", data, "B1-C4", 120)
        crops = with_crops(folder / "crops", np.random.default_rng(6), 5)
        compare_all("made up, 5 crops, B0-C3", crops, "B0-C3", 64)
        compare_all("made up, 3 crops, blocks smaller than an image", with_crops(folder / "three", np.random.default_rng(7), 3), "B1-C2", 40,
                    block=2)
        limits(folder, data, rng)
        saturation(folder, rng)
        discriminant(data)
        precisions(data)
        refusals(folder, rng)
        if TRAIN.exists() and TEST.exists():
            compare_all("COCO", Data(folder / "coco", *load(TRAIN, 800), *load(TEST, 600)), "B40-C20", 96)
            if not QUICK:
                upper_bound(folder)
        else:
            print("skipped: all methods on COCO (the shared features are missing)")
    sys.exit(finish())


if __name__ == "__main__":
    main()
