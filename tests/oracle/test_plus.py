#!/usr/bin/env python3
"""l3a+ against NumPy: every group of classes solved afresh from all rows seen, with weights on the rows in place of sums of phases;
gamma by leaving every row out in turn; thresholds from the scores of the training rows themselves; the lift by adding scores, not
weights. Then what becomes of it in its limits, what folding phases means, and how much of one image two model files give away. And joint+,
which is the same choices with all classes and labels at once."""
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small matrices: threads would only wait for each other

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)
import feature_file
from support import COMMAND, check, finish, random_layer

DIM, WIDTH, CLASSES, SEED = 64, 8, 9, 5
PHASES = [(0, 3), (3, 6), (6, 9)]


def close(ours, theirs, tolerance, what):
    scale = np.abs(theirs).max()
    worst = np.abs(np.asarray(ours) - theirs).max() / scale
    check(worst <= tolerance, f"{what}: differs by {worst:.1e} of the largest, {tolerance:.0e} allowed")


def lifted(scores, lift):
    """Each score, and a share of the sum of all."""
    return scores + lift * scores.sum(1, keepdims=True)


def share(lift, phases):
    """One phase lacks no label; the share grows with the number of phases towards the setting."""
    return lift * (phases - 1) / (phases + 8)


def make_rows(rng, count):
    """Features near the sum of their classes' directions, and one to three classes each."""
    directions = np.random.default_rng(99).standard_normal((CLASSES, WIDTH))
    labels = np.zeros((count, CLASSES), np.int8)
    for row in labels:
        row[rng.choice(CLASSES, rng.integers(1, 4), replace=False)] = 1
    return (labels @ directions + 0.9 * rng.standard_normal((count, WIDTH))).astype(np.float32), labels


class Oracle:
    def __init__(self, x, labels, skip=True, dim=DIM):
        layer = random_layer(WIDTH, dim, SEED)
        self.expand = lambda z: np.hstack([np.maximum(z @ layer, 0), z] if skip else [np.maximum(z @ layer, 0)])
        self.x, self.labels = self.expand(x.astype(float)), labels == 1

    def rows(self, phase):
        low, high = phase
        return np.flatnonzero(self.labels[:, low:high].any(1))

    def weights(self, phase, kind="sqrt"):
        """Of a phase's rows, when it is learned: counts of the classes seen by then."""
        low, high = phase
        counts = self.labels[:, :high].sum(0)
        v = counts ** -0.5 if kind == "sqrt" else np.ones(high)
        v = v * high / v.sum() if kind == "sqrt" else v
        labels = self.labels[self.rows(phase), low:high]
        return (labels * v[low:high]).sum(1) / labels.sum(1)

    def solve(self, phases, alpha, gamma, groups=None, kind="sqrt"):
        """For each group of phases, weighted least squares on the rows of all phases, those outside the group counting alpha."""
        columns = []
        for group in groups or [[phase] for phase in phases]:
            low, high = group[0][0], group[-1][1]
            x = np.vstack([self.x[self.rows(phase)] for phase in phases])
            omega = np.hstack([self.weights(phase, kind) * (1 if phase in group else alpha) for phase in phases])
            y = np.vstack([self.labels[self.rows(phase), low:high] * [phase[0] <= k < phase[1] for k in range(low, high)]
                           for phase in phases]).astype(float)
            weighted = x.T * omega
            columns.append(np.linalg.solve(weighted @ x + gamma * np.eye(x.shape[1]), weighted @ y))
        return np.hstack(columns)

    def thresholds(self, phases, weights, lift):
        """On each class's own rows, two thirds of its mean score, and the mean of what is added to it."""
        out = []
        for low, high in phases:
            rows, omega = self.rows((low, high)), self.weights((low, high))
            scores, own = self.x[rows] @ weights, self.labels[rows, low:high]
            seen = 2 / 3 * scores[:, low:high] + lift * scores.sum(1, keepdims=True)
            out.append((omega[:, None] * own * seen).sum(0) / (omega[:, None] * own).sum(0))
        return np.hstack(out)

    def left_out(self, phase, gamma):
        """The error on every row of a phase, learned without it."""
        rows, omega = self.rows(phase), self.weights(phase)
        x = self.x[rows] * np.sqrt(omega)[:, None]
        y = self.labels[rows, phase[0]:phase[1]] * np.sqrt(omega)[:, None]
        error = 0.0
        for i in range(len(rows)):
            rest = np.arange(len(rows)) != i
            w = np.linalg.solve(x[rest].T @ x[rest] + gamma * np.eye(x.shape[1]), x[rest].T @ y[rest])
            error += ((y[i] - x[i] @ w) ** 2).sum()
        return error


def learn(folder, name, x, labels, *options, phases=PHASES, first="l3a+"):
    """A model learned by the command, phase after phase; its file after each."""
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", labels)
    (folder / "names.txt").write_text("".join(f"class{k}\n" for k in range(CLASSES)))
    files, path = [], folder / f"{name}.safetensors"
    for low, high in phases:
        made = [] if path.exists() else ["--method", first, "--dim", str(DIM), "--seed", str(SEED), *map(str, options)]
        done = subprocess.run([COMMAND, "learn", path, "--features", folder / "x.npy", "--labels", folder / "y.npy", "--names",
                               folder / "names.txt", "--classes", ",".join(f"class{k}" for k in range(low, high)), *made],
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"FAILED: l3a learn: {done.stderr}")
        images = int((labels[:, low:high] == 1).any(1).sum())
        check(("could reconstruct their features" in done.stderr) == (images < 64), f"a warning of a phase with {images} images")
        tensors, metadata = feature_file.load(path)
        files.append((metadata, tensors))
    return files


def predictions(folder, name, x):
    np.save(folder / "t.npy", x)
    done = subprocess.run([COMMAND, "predict", folder / f"{name}.safetensors", "--features", folder / "t.npy", "--format", "csv"],
                          capture_output=True, text=True, check=True)
    found = {(int(row["id"]), int(row["class"][5:])): float(row["score"]) for row in csv.DictReader(done.stdout.splitlines())
             if row["class"]}
    return found


def compare_weights(folder, x, labels):
    oracle = Oracle(x, labels)
    for precision, tolerance in ("double", 1e-9), ("mixed", 1e-3):
        for alpha, gamma, lift in (0.3, 20, 0), (0.05, 3, 0), (0.3, 20, 0.5):
            files = learn(folder, f"{precision}{alpha}-{lift}", x, labels, "--precision", precision, "--alpha", alpha, "--gamma", gamma,
                          "--lift", lift)
            for t, (_, tensors) in enumerate(files):
                own = oracle.solve(PHASES[:t + 1], alpha, gamma)
                close(oracle.x @ tensors["weights"], lifted(oracle.x @ own, share(lift, t + 1)), tolerance,
                      f"scores, {precision}, alpha {alpha}, gamma {gamma}, lift {lift}, phase {t + 1}")
    metadata, tensors = files[-1]
    check(metadata["parts"] == "1\n1\n1" and "gram" not in tensors, "three phases are kept apart, and no sum of them")
    close(tensors["counts"], labels.sum(0), 0, "counts")
    # a part is the sums of its phase
    x2, omega = oracle.x[oracle.rows(PHASES[1])], oracle.weights(PHASES[1])
    close(tensors["gram.2"], ((x2.T * omega) @ x2)[np.tril_indices(x2.shape[1])], 1e-5, "the second phase's sums")


def compare_limits(folder, x, labels):
    oracle = Oracle(x, labels)
    exact = "--precision", "double", "--gamma", 20, "--lift", 0
    one = learn(folder, "one", x, labels, *exact, "--alpha", 1)[-1][1]["weights"]
    close(one, oracle.solve(PHASES, 1, 20), 1e-9, "alpha 1")
    plain = learn(folder, "plain", x, labels, "--precision", "double", "--gamma", 20, first="l3a-no-pl")[-1][1]["weights"]
    close(plain, Oracle(x, labels, skip=False).solve(PHASES, 1, 20), 1e-9, "l3a without pseudo-labels")
    alone = learn(folder, "alone", x, labels, *exact, "--alpha", 0)[-1][1]["weights"]
    close(alone, oracle.solve(PHASES, 0, 20), 1e-9, "alpha 0: every phase for itself")
    metadata, tensors = learn(folder, "folded", x, labels, *exact, "--keep-phases", 2)[-1]
    close(tensors["weights"], oracle.solve(PHASES, 0.3, 20, groups=[PHASES[:2], PHASES[2:]]), 1e-9, "two phases folded into one")
    check(metadata["parts"] == "2\n1", "the folded phases are one part")
    kept = learn(folder, "kept", x, labels, "--precision", "double", "--gamma", 20, "--alpha", 1, "--keep-phases", 9, "--lift", 0.1)[-1][1]["weights"]
    close(oracle.x @ kept, lifted(oracle.x @ oracle.solve(PHASES, 1, 20), share(0.1, 3)), 1e-9, "alpha 1 and a lift")


def compare_gamma(folder, x, labels):
    """Chosen by the command from sums; here by leaving out each row. The minimum is flat, so errors are compared, not gammas."""
    oracle = Oracle(x, labels)
    check(len(oracle.rows(PHASES[0])) >= 100, "rows enough to choose from")
    metadata = learn(folder, "chosen", x, labels, phases=PHASES[:1])[0][0]
    chosen, errors = float(metadata["gamma"]), {}
    level = np.log10((oracle.x[oracle.rows(PHASES[0])] ** 2).sum(1).mean())
    for power in np.arange(level - 2, level + 4.01, 0.25):
        errors[power] = oracle.left_out(PHASES[0], 10**power)
    check(oracle.left_out(PHASES[0], chosen) <= 1.01 * min(errors.values()),
          f"gamma {chosen} leaves an error of {oracle.left_out(PHASES[0], chosen):.4f}, and {min(errors.values()):.4f} is possible")
    check(metadata["record.gamma"] == "auto", "the file says that gamma was chosen")
    scaled = float(learn(folder, "scaled", 1000 * x, labels, phases=PHASES[:1])[0][0]["gamma"])
    check(0.7 < scaled / chosen / 1e6 < 1.4, f"features 1000 times as large, and gamma {scaled} in place of {chosen}")
    # where leaving out says nothing: few rows, or one class that all of them show
    all_alike = labels.copy()
    all_alike[:, :2] = 1
    for name, rows, phase, labels in (("few", 60, (0, 3), labels), ("tiny", 12, (0, 3), labels), ("one", 260, (0, 1), labels),
                                      ("alike", 260, (0, 2), all_alike)):
        few = Oracle(x[:rows], labels[:rows])
        mean = ((few.x[few.rows(phase)] ** 2).sum(1) * few.weights(phase)).mean()
        chosen = float(learn(folder, name, x[:rows], labels[:rows], phases=[phase])[0][0]["gamma"])
        check(abs(chosen / mean - 1) < 0.06, f"{name}: gamma {chosen}, and the mean is {mean:.3f}")


def compare_thresholds(folder, x, labels):
    oracle = Oracle(x, labels)
    learn(folder, "tags", x, labels, "--precision", "double", "--gamma", 20)
    fresh, _ = make_rows(np.random.default_rng(8), 40)
    weights = oracle.solve(PHASES, 0.3, 20)
    scores, thresholds = lifted(oracle.expand(fresh.astype(float)) @ weights, share(0.1, 3)), oracle.thresholds(PHASES, weights, share(0.1, 3))
    found = predictions(folder, "tags", fresh)
    expected = {(i, k) for i, k in zip(*np.nonzero(scores > thresholds))}
    check(set(found) == expected, f"tags above a threshold for each class: {len(set(found) ^ expected)} differ")
    worst = max(abs(score - scores[key]) for key, score in found.items())
    check(worst < 1e-4, f"scores differ by {worst:.1e}")


def measure(scores, labels, thresholds):
    """mAP, CF1 and OF1 in percent, from their definitions."""
    precision = []
    for score, truth in zip(scores.T, labels.T):
        hits = truth[np.argsort(-score, kind="stable")]
        precision.append((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())
    guess = scores > thresholds
    both, either = (guess & labels).sum(0), guess.sum(0) + labels.sum(0)
    return [100 * np.mean(precision), 100 * np.mean(2 * both / either), 100 * 2 * both.sum() / either.sum()]


def compare_joint(folder, x, labels):
    """joint+ has one phase with every label, a gamma that leaves the least error, features beside the layer, and a threshold for each class."""
    test_x, test_labels = make_rows(np.random.default_rng(12), 200)
    for name, array in (("x", x), ("y", labels), ("tx", test_x), ("ty", test_labels)):
        np.save(folder / f"{name}.npy", array)
    tables = ["--train", folder / "x.npy", "--train-labels", folder / "y.npy", "--test", folder / "tx.npy", "--test-labels", folder / "ty.npy"]
    oracle, whole = Oracle(x, labels), [(0, CLASSES)]
    least = min(oracle.left_out(whole[0], 10**power) for power in np.arange(-1, 4.01, 0.5))
    for options in ((), ("--gamma", "20")):
        out = folder / f"run{len(options)}"
        subprocess.run([COMMAND, "run", *tables, "--method", "joint+,l3a+", "--protocol", "B0-C3", "--dim", str(DIM), "--seed", str(SEED),
                        "--precision", "double", *options, "-o", out, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        gamma = float(feature_file.load(out / "model.safetensors")[1]["gamma"])
        check(gamma == 20 if options else oracle.left_out(whole[0], gamma) <= 1.01 * least, f"joint+ chose gamma {gamma}")
        weights = oracle.solve(whole, 1, gamma)
        wanted = measure(oracle.expand(test_x.astype(float)) @ weights, test_labels == 1, oracle.thresholds(whole, weights, 0))
        with open(out / "metrics.csv", newline="") as file:
            found = [row for row in csv.DictReader(file) if row["method"] == "joint+"]
        check(len(found) == 1 and found[0]["train_images"] == str(len(x)) and found[0]["last"] == str(CLASSES), "one phase, with all images")
        off = max(abs(float(found[0][key]) - number) for key, number in zip(("mAP", "CF1", "OF1"), wanted))
        check(off < 1e-6, f"joint+ has {[found[0][key] for key in ('mAP', 'CF1', 'OF1')]} instead of {wanted}")


def gram_of(tensors, gamma):
    """A of a file, from the triangle of A or of R = (A + gamma I)^-1."""
    square = np.zeros((DIM, DIM))
    square[np.tril_indices(DIM)] = tensors["gram" if "gram" in tensors else "inverse"]
    square += np.tril(square, -1).T
    return square if "gram" in tensors else np.linalg.inv(square) - gamma * np.eye(DIM)


def recover(folder, x, labels):
    """A phase of one image. The difference of two files is ω x xᵀ: its root is x up to a factor, and z follows by least squares on the
    positive part of x. From the files alone, whether they hold A or the paper's R."""
    layer = random_layer(WIDTH, DIM, SEED)
    rows = np.flatnonzero(labels[:, :6].any(1) & (labels[:, 6:] == 0).all(1))
    one = np.concatenate([rows, np.flatnonzero(labels[:, 6])[:1]])
    kept, marks = x[one], labels[one].copy()
    marks[-1] = np.arange(CLASSES) == 6
    truth = kept[-1].astype(float)
    for solver in "sums", "recursive":
        files = learn(folder, solver, kept, marks, "--gamma", 20, "--solver", solver, phases=[(0, 6), (6, 7)], first="l3a")
        before, after = (gram_of(tensors, 20) for _, tensors in files)
        values, vectors = np.linalg.eigh(after - before)
        hidden = vectors[:, -1] * np.sqrt(values[-1])
        hidden *= np.sign(hidden[np.abs(hidden).argmax()])
        active = hidden > 1e-3 * hidden.max()
        z = np.linalg.lstsq(layer[:, active].T, hidden[active], rcond=None)[0]
        likeness = z @ truth / np.linalg.norm(z) / np.linalg.norm(truth)
        check(likeness > 0.9999, f"the features of a phase of one image are recovered, {solver}: cosine {likeness:.6f}")


def main():
    x, labels = make_rows(np.random.default_rng(3), 260)
    with tempfile.TemporaryDirectory() as folder:
        for work in compare_weights, compare_limits, compare_gamma, compare_thresholds, compare_joint, recover:
            own = Path(folder) / work.__name__
            own.mkdir()
            work(own, x, labels)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
