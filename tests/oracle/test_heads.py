"""Every trained head against NumPy: scores after every phase, with the training done again in double precision.

The formulas are in heads.py. The command is compared as well, by the metrics of some methods. With views, an image has several rows of
features: the whole picture and its crops.

Tolerance: the program computes in float32, with 2^-24 = 6e-8 relative error in each operation. A few hundred steps of Adam carry that
along, so that scores agree to about 1e-5 of the largest; 1e-4 is allowed. An error in a formula, a draw or a choice shows as 1e-2 and
more, and so does what a method adds to finetune."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
import feature_file
from heads import METHODS, SEED, WIDTH
from support import check, finish, read_csv

BUILD = Path(os.environ["L3A_BUILD"])
TOLERANCE = 1e-4
CLASSES, STEP = 8, 2  # 4 phases of 2 classes
SETTINGS = {"epochs": 5, "batch": 16, "first-rate": 0.05, "rate": 0.02, "lambda": 3, "memory": 4, "memory-per": "class", "loss": "asl",
            "head-input": "features", "dim": 20, "skip-features": "off"}

# ---- The comparison ----

def draw_data(rng, directions, rows, crops=0):
    """Features [rows, 1 + crops, WIDTH]; a crop has some of the image's classes."""
    labels = rng.random((rows, CLASSES)) < 0.25
    features = labels @ directions + rng.normal(size=(rows, WIDTH))
    cropped = [(labels & (rng.random(labels.shape) < 0.6)) @ directions + rng.normal(size=(rows, WIDTH)) for _ in range(crops)]
    return np.stack([features, *cropped], 1).astype(np.float32), labels.astype(np.int8)


def save(path, features, labels):
    features = features[:, 0] if features.shape[1] == 1 else features
    views = {"views": str(features.shape[1] - 1)} if features.ndim == 3 else {}
    feature_file.save(path, {"features": features, "labels": labels}, {"classes": "\n".join(f"class{k}" for k in range(CLASSES)), **views})


def expected(method, settings, train, test):
    """Scores after each phase, of rows with a label of the phase."""
    features, labels = train
    head = METHODS[method](settings, CLASSES)
    step = CLASSES if method == "joint-sgd" else STEP
    for first in range(0, CLASSES, step):
        own = labels[:, first:first + step]
        rows = own.any(axis=1)
        head.learn(features[rows].astype(float), own[rows])
        yield head.scores(test[0].astype(float))


def found(folder, method, settings):
    done = subprocess.run([BUILD / "tests" / "head_scores", folder / "train.safetensors", folder / "test.safetensors", method,
                           "0" if method == "joint-sgd" else str(STEP), f"seed={SEED}",
                           *(f"{key}={value}" for key, value in settings.items())], stdout=subprocess.PIPE, check=True)
    return np.frombuffer(done.stdout, np.float32)


def compare(folder, method, train, test, **changes):
    settings = {**SETTINGS, **{key.replace("_", "-"): value for key, value in changes.items()}}
    got, worst, phases = found(folder, method, settings), 0, 0
    for wanted in expected(method, settings, train, test):
        own, got = got[:wanted.size].reshape(wanted.shape), got[wanted.size:]
        off = np.abs(own - wanted).max() / np.abs(wanted).max()
        worst, phases = max(worst, off), phases + 1
        check(off < TOLERANCE, f"{method} {changes}, phase {phases}: scores are {off:.2g} of the largest apart")
    check(len(got) == 0, f"{method} {changes}: {len(got)} scores too many")
    if method not in ("finetune", "joint-sgd"):  # else the comparison would say nothing of what the method adds
        plain = list(expected("finetune", settings, train, test))[-1]
        check(np.abs(wanted - plain).max() > 1e-2 * np.abs(plain).max(), f"{method} {changes} is no other than finetune")
    print(f"{method:10} {' '.join(f'{k}={v}' for k, v in changes.items()):40} {phases} phases, largest deviation {worst:.1e}", flush=True)


def mean_ap(scores, labels):
    keep = labels.any(axis=1)
    values = []
    for s, y in zip(scores[keep].T, labels[keep].T):
        hits = y[np.argsort(-s, kind="stable")] == 1
        values.append((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())
    return 100 * np.mean(values)


def compare_command(folder, train, test):
    """What the command prints comes from these scores."""
    methods = ["finetune", "joint-sgd", "er", "bic"]
    settings = {**SETTINGS, "seed": SEED}
    subprocess.run([BUILD / "l3a", "run", "--train", folder / "train.safetensors", "--test", folder / "test.safetensors", "--protocol",
                    f"B0-C{STEP}", "--method", ",".join(methods), "-o", folder / "run", "--quiet",
                    *(text for key, value in settings.items() for text in (f"--{key}", str(value)))], check=True, stdout=subprocess.DEVNULL)
    rows = read_csv(folder / "run" / "metrics.csv")
    for method in methods:
        got = [float(row["mAP"]) for row in rows if row["method"] == method]
        wanted = [mean_ap(scores, test[1][:, :scores.shape[1]]) for scores in expected(method, SETTINGS, train, test)]
        check(len(got) == len(wanted) and np.abs(np.subtract(got, wanted)).max() < 1e-2, f"run, {method}: mAP {got} instead of {wanted}")


def main():
    rng = np.random.default_rng(3)
    directions = rng.normal(size=(CLASSES, WIDTH)) * 0.6
    train, test = draw_data(rng, directions, 150), draw_data(rng, directions, 60)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(folder / "train.safetensors", *train)
        save(folder / "test.safetensors", *test)
        for method in METHODS:
            compare(folder, method, train, test)
            compare(folder, method, train, test, head_input="layer")
        for method in "er", "der++", "icarl", "bic", "prs", "ocdm":
            compare(folder, method, train, test, memory_per="run", memory=17, loss="bce")
        for method in "finetune", "ewc", "bic":
            compare(folder, method, train, test, head_input="layer", skip_features="on", loss="bce")
        compare_command(folder, train, test)
    train, test = draw_data(rng, directions, 150, crops=3), draw_data(rng, directions, 60, crops=3)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(folder / "train.safetensors", *train)
        save(folder / "test.safetensors", *test)
        print("3 crops:")
        for method in METHODS:
            compare(folder, method, train, test)
        compare(folder, "bic", train, test, head_input="layer")
        compare(folder, "ewc", train, test, head_input="layer")
        compare_command(folder, train, test)
    sys.exit(finish())


main()
