#!/usr/bin/env python3
"""What rounding does to a solution: for each solver, precision and gamma, the scores agree with NumPy's in float64, or the command warns,
or it refuses. None is silently wrong. NumPy solves with a singular value decomposition of the rows, which needs no sums at all."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import feature_file
from support import COMMAND, check, finish, random_layer

WIDTH, DIM, CLASSES, PHASES, SEED = 24, 256, 6, 3, 7
SILENT = 0.02  # largest error of the scores, as a share of their size, that needs no warning
MEANINGLESS = 0.5  # and that must be refused


def save(path, features, labels):
    feature_file.save(path, {"features": features.astype(np.float32), "labels": labels.astype(np.int8)},
                      {"classes": "\n".join(f"class{k}" for k in range(CLASSES))})


def weights_of(path):
    return feature_file.load(path)[0]["weights"]


def expand(features):
    """x in float64, from B in float32."""
    return np.maximum(features.astype(np.float32).astype(np.float64) @ random_layer(WIDTH, DIM, SEED), 0)


def solve(features, labels, gamma):
    """W after all phases, every image once for each phase it has a class of, without pseudo-labels."""
    x, rows, targets, own = expand(features), [], [], CLASSES // PHASES
    for phase in range(PHASES):
        first, last = phase * own, (phase + 1) * own
        counts = labels[:, :last].sum(0)
        v = 1 / np.sqrt(counts)
        v = v * last / v.sum()
        chosen = labels[:, first:last].sum(1) > 0
        y = labels[chosen, first:last]
        root = np.sqrt((y * v[first:last]).sum(1) / y.sum(1))[:, None]
        rows.append(root * x[chosen])
        target = np.zeros((chosen.sum(), CLASSES))
        target[:, first:last] = root * y
        targets.append(target)
    u, s, vt = np.linalg.svd(np.vstack(rows), full_matrices=False)
    return vt.T @ ((s / (s * s + gamma))[:, None] * (u.T @ np.vstack(targets)))


def run(folder, method, *options):
    """Whether the command succeeded, whether it warned, and what it said."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    done = subprocess.run([COMMAND, "run", "--train", folder / "train.safetensors", "--test", folder / "test.safetensors", "--protocol",
                           f"B0-C{CLASSES // PHASES}", "--dim", str(DIM), "--seed", str(SEED), "--method", method, "-o",
                           folder / "run", *map(str, options)], capture_output=True, text=True)
    return done.returncode, "inexact" in done.stderr, done.stderr


def make(rows, seed):
    rng = np.random.default_rng(seed)
    labels = rng.random((rows, CLASSES)) < 0.35
    labels[np.arange(rows), rng.integers(0, CLASSES, rows)] = True
    marks = np.random.default_rng(1).normal(size=(CLASSES, WIDTH))
    return (labels @ marks + rng.normal(size=(rows, WIDTH))).astype(np.float32), labels.astype(np.int8)


def compare(folder, rows, seen):
    """Adds to seen what each setting did."""
    features, labels = make(rows, rows)
    test, test_labels = make(300, 5)
    save(folder / "train.safetensors", features, labels)
    save(folder / "test.safetensors", test, test_labels)
    x = expand(test)
    for gamma in 1e-12, 1e-10, 1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 1:
        expected = x @ solve(features, labels, gamma)
        for solver in "sums", "recursive":
            for precision in "mixed", "double":
                where = f"{rows} images, gamma {gamma:g}, {solver}, {precision}"
                code, warned, text = run(folder, "l3a-no-pl", "--gamma", gamma, "--solver", solver, "--precision", precision)
                if code:
                    check("gamma" in text and "larger gamma" in text, f"{where}: refused with {text}")
                    seen.append(("refused", solver, precision, gamma))
                    continue
                scores = x @ weights_of(folder / "run" / "model.safetensors")
                off = np.linalg.norm(scores - expected) / np.linalg.norm(expected)
                check(off <= (MEANINGLESS if warned else SILENT), f"{where}: off by {off:.2g}, {'warned' if warned else 'silent'}")
                seen.append(("warned" if warned else "silent", solver, precision, gamma))


def compare_outlier(folder):
    """One feature of 1e12 among ordinary ones is named, and the model stays as it was."""
    features, labels = make(500, 3)
    save(folder / "test.safetensors", features, labels)
    features[317, 5] = 1e12
    save(folder / "train.safetensors", features, labels)
    for precision in "mixed", "double":
        for solver in "sums", "recursive":
            code, _, text = run(folder, "l3a-no-pl", "--gamma", 1000, "--precision", precision, "--solver", solver)
            check(code == 2 and "row 317, column 5" in text and "1e+12" in text, f"an outlier, {solver}, {precision}: {code}, {text}")


def main():
    seen = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rows in 40, 400:
            compare(folder, rows, seen)
        compare_outlier(folder)
    for solver in "sums", "recursive":
        for precision in "mixed", "double":
            count = {what: sum(s[:3] == (what, solver, precision) for s in seen) for what in ("silent", "warned", "refused")}
            print(f"{solver}, {precision}:", ", ".join(f"{n} {what}" for what, n in count.items()))
            check(all(s[0] == "silent" for s in seen if s[1:3] == (solver, precision) and s[3] >= 1), f"{solver}, {precision}: no gamma from 1 on is refused")
    sys.exit(finish())


main()
