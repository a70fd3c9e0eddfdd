#!/usr/bin/env python3
"""Reliability tables of several methods: can a fixed formula turn a score into a probability? It cannot (docs/method.md).

Each method learns the phases of a protocol with `l3a run`; its scores for the test images are computed here from the model file. Three
ways to turn a score s into a probability p are compared: sigma(s); one formula 1 / (1 + exp(a - b s)) for all methods and data; and the
same formula with a and b fitted for each method to the scores of the training images and all their labels, which needs labels that
learning in phases does not have. A table has one row per tenth of p: the number of pairs of image and class, the mean of p, and the
share of pairs in which the image shows the class. The expected calibration error is the mean distance between the last two, in
percentage points, over all pairs and over those with p of at least 0.1.

    bench/calibration.py build/l3a train.safetensors test.safetensors --protocol B0-C10
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I8": np.int8, "U8": np.uint8}
FIXED = 5.5, 12.0  # a and b for all


def read(path):
    """Metadata and tensors of a safetensors file."""
    data = np.memmap(path, np.uint8, "r")
    length = int(data[:8].view("<u8")[0])
    header = json.loads(bytes(data[8:8 + length]))
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, about in header.items():
        first, last = (8 + length + at for at in about["data_offsets"])
        tensors[name] = np.frombuffer(data[first:last], TYPES[about["dtype"]]).reshape(about["shape"])
    return metadata, tensors


def layer(seed, width, dim):
    """B: entry i is the (i+1)-th output of splitmix64."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, width * dim + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        z = z ^ z >> np.uint64(31)
    uniform = (z >> np.uint64(40)).astype(np.float64) / 2**24
    return ((2 * uniform - 1) / np.sqrt(width)).astype(np.float32).reshape(width, dim)


def scores(model, features, block=4096):
    metadata, tensors = model
    weights, width, dim = tensors["weights"].astype(np.float32), int(metadata["width"]), int(metadata["dim"])
    expand = layer(int(metadata["seed"]), width, dim)
    out = []
    for first in range(0, len(features), block):
        z = features[first:first + block].astype(np.float32)
        x = np.maximum(z @ expand, 0)
        out.append((np.hstack([x, z]) if len(weights) > dim else x) @ weights)
    return np.vstack(out)


def labels(model, table):
    """The labels, with columns in the model's order of classes."""
    names = table[0]["classes"].split("\n")
    return table[1]["labels"][:, [names.index(name) for name in model[0]["classes"].split("\n")]]


def sigmoid(t):
    return 1 / (1 + np.exp(np.clip(-t, -60, 60)))


def fit(s, y, steps=100):
    """a and b of maximum likelihood, by Newton's method; a step that does not improve the likelihood is shortened."""
    s, y = s.ravel().astype(np.float64), y.ravel() == 1
    x = np.stack([-np.ones(s.size), s])

    def loss(parameters):
        t = parameters @ x
        return np.logaddexp(0, np.where(y, -t, t)).sum()
    parameters = np.array([-np.log(y.mean() / (1 - y.mean())), 0])
    best = loss(parameters)
    for _ in range(steps):
        p = sigmoid(parameters @ x)
        step, size = np.linalg.solve((x * (p * (1 - p))) @ x.T, x @ (y - p)), 1.0
        while loss(parameters + size * step) > best and size > 1e-6:
            size /= 2
        parameters = parameters + size * step
        best = loss(parameters)
        if np.abs(size * step).max() < 1e-4:
            break
    return parameters


def reliability(p, y):
    """Rows of (pairs, mean p, share), and the two errors in points."""
    p, y = p.ravel(), y.ravel() == 1
    bins = np.minimum((p * 10).astype(int), 9)
    rows = [((bins == i).sum(), p[bins == i].mean() if (bins == i).any() else 0, y[bins == i].mean() if (bins == i).any() else 0) for i in range(10)]

    def error(chosen):
        pairs = sum(row[0] for row in chosen)
        return 100 * sum(n * abs(mean - share) for n, mean, share in chosen) / pairs if pairs else float("nan")
    return rows, error(rows), error(rows[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", type=Path)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--protocol", default="B0-C10")
    parser.add_argument("--dim", default="2048")
    parser.add_argument("--methods", default="l3a,l3a-no-pl,acil,l3a+,joint")
    parser.add_argument("--tables", action="store_true", help="print a row for each tenth, not only the errors")
    parser.add_argument("options", nargs="*", help="more options for l3a run, after --")
    settings = parser.parse_args()
    train, test = read(settings.train), read(settings.test)
    print(f"{'method':<12}{'':<22}{'a':>7}{'b':>7}{'error':>8}{'p>=0.1':>8}   points; {settings.protocol}, dim {settings.dim}")
    for method in settings.methods.split(","):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([settings.command, "run", "--train", settings.train, "--test", settings.test, "--protocol", settings.protocol,
                            "--dim", settings.dim, "--method", method, "--quiet", "-o", f"{folder}/run", *settings.options], check=True,
                           stdout=subprocess.DEVNULL)
            model = read(Path(folder) / "run" / "model.safetensors")
            s, y = scores(model, test[1]["features"]), labels(model, test)
            own = fit(scores(model, train[1]["features"]), labels(model, train))
        for what, (a, b) in ("sigma(s)", (0, 1)), ("one formula for all", FIXED), ("fitted to all labels", own):
            known = y >= 0
            rows, error, shown = reliability(sigmoid(b * s - a)[known], y[known])
            print(f"{method:<12}{what:<22}{a:7.2f}{b:7.2f}{error:8.2f}{shown:8.2f}", flush=True)
            for i, (pairs, mean, share) in enumerate(rows if settings.tables else []):
                print(f"    {i / 10:.1f} to {(i + 1) / 10:.1f} {pairs:>10} pairs   mean p {mean:.3f}   shown {share:.3f}")


if __name__ == "__main__":
    main()
