#!/usr/bin/env python3
"""What rounding does to a solution: for each solver, precision and gamma, the scores agree with NumPy's in float64, or the command warns,
or it refuses. None is silently wrong. NumPy solves with a singular value decomposition of the rows, which needs no sums at all."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

COMMAND = Path(os.environ["L3A_BUILD"]) / "l3a"
WIDTH, DIM, CLASSES, PHASES, SEED = 24, 256, 6, 3, 7
TYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64}
SILENT = 0.02  # largest error of the scores, as a share of their size, that needs no warning
MEANINGLESS = 0.5  # and that must be refused

passed = failed = 0


def check(good, what):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print("FAILED:", what)


def save(path, features, labels):
    names = "\n".join(f"class{k}" for k in range(CLASSES))
    tensors = {"features": ("F32", features.astype("<f4")), "labels": ("I8", labels.astype(np.int8))}
    header, at = {"__metadata__": {"classes": names}}, 0
    for name, (kind, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(data.shape), "data_offsets": [at, at + data.nbytes]}
        at += data.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data.tobytes() for _, data in tensors.values()))


def weights_of(path):
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    about = json.loads(data[8:8 + length])["weights"]
    first, last = (8 + length + at for at in about["data_offsets"])
    return np.frombuffer(data[first:last], TYPES[about["dtype"]]).reshape(about["shape"])


def expand(features):
    """x in float64, from B in float32."""
    with np.errstate(over="ignore"):
        z = np.uint64(SEED) + np.arange(1, WIDTH * DIM + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        z = z ^ z >> np.uint64(31)
    uniform = (z >> np.uint64(40)).astype(np.float64) / 2**24
    layer = ((2 * uniform - 1) / np.sqrt(WIDTH)).astype(np.float32).reshape(WIDTH, DIM).astype(np.float64)
    return np.maximum(features.astype(np.float32).astype(np.float64) @ layer, 0)


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
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
