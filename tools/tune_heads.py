#!/usr/bin/env python3
"""Chooses the settings of heads trained by gradient descent (the tuning that each file in src/method passes to HEAD_LEARNER), from training data only.

A fifth of the training rows is held out as a validation set; test rows are not used. First the rate of the first phase is chosen, for
joint-sgd by its mAP and for the others by the mAP of the first phase; then, for each method, the rate of later phases and lambda, by the
last mAP. The best values, those with the highest mean over the data sets, are printed first.

    tools/tune_heads.py --l3a build/l3a --out tune.csv voc:B0-C4:voc-trainval.safetensors coco:B0-C10:train.safetensors:20000

A data set is NAME:PROTOCOL:FILE[:ROWS]; with ROWS, only that many random rows of the file are used, to save time. Each line of the CSV
is one run with one seed.
"""
import argparse
import csv
import itertools
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

RATES = [1e-3, 3e-3, 1e-2]
GRID = {"finetune": [0], "er": [0], "prs": [0], "ocdm": [0],
        "lwf": [1], "icarl": [1], "bic": [1, 3, 10, 30, 100],  # lambda has no effect on lwf and icarl
        "ewc": [10, 100, 1000, 10000], "oewc": [10, 100, 1000, 10000], "rwalk": [10, 100, 1000, 10000], "der++": [1, 10, 30, 100]}
FIRST_RATES = [1e-3, 3e-3, 1e-2, 3e-2]
TYPES = {"F32": np.float32, "F16": np.float16, "I8": np.int8}


def load(path):
    data = Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])

    def tensor(name):
        entry = header[name]
        first, last = entry["data_offsets"]
        return np.frombuffer(data[8 + size + first:8 + size + last], TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensor("features").astype(np.float32), tensor("labels"), header["__metadata__"]["classes"]


def save(path, features, labels, classes):
    parts = [features.astype("<f4").tobytes(), labels.astype(np.int8).tobytes()]
    header = {"__metadata__": {"classes": classes},
              "features": {"dtype": "F32", "shape": list(features.shape), "data_offsets": [0, len(parts[0])]},
              "labels": {"dtype": "I8", "shape": list(labels.shape), "data_offsets": [len(parts[0]), len(parts[0]) + len(parts[1])]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def split(folder, name, path, rows):
    features, labels, classes = load(path)
    order = np.random.default_rng(2025).permutation(len(features))[:rows]
    held = len(order) // 5
    for part, chosen in ("validation", order[:held]), ("training", order[held:]):
        save(folder / f"{name}-{part}.safetensors", features[np.sort(chosen)], labels[np.sort(chosen)], classes)


class Tuner:
    def __init__(self, arguments, folder):
        self.arguments, self.folder, self.runs = arguments, folder, 0
        self.log = csv.writer(open(arguments.out, "w", newline="", buffering=1))
        self.log.writerow(["data", "method", "seed", "loss", "epochs", "first-rate", "rate", "lambda", "first", "average", "last"])

    def run(self, data, method, **settings):
        """mAP after the first phase, averaged over phases, and after the last phase; each averaged over seeds."""
        self.runs += 1
        out = self.folder / f"run{self.runs}"
        name, protocol = data
        settings = {"loss": self.arguments.loss, **settings}
        options = [text for key, value in settings.items() for text in (f"--{key}", str(value))]
        subprocess.run([self.arguments.l3a, "run", "--train", self.folder / f"{name}-training.safetensors", "--test",
                        self.folder / f"{name}-validation.safetensors", "--protocol", protocol, "--method", method, "--dim",
                        self.arguments.dim, "--head-input", self.arguments.head_input,
                        "--seed", self.arguments.seeds, "--threads", "1", "-o", out, *options],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        results, rows = [], list(csv.DictReader(open(out / "metrics.csv")))
        for seed in self.arguments.seeds.split(","):
            values = [float(row["mAP"]) for row in rows if row["seed"] == seed]
            results.append((values[0], float(np.mean(values)), values[-1]))
            self.log.writerow([name, method, seed, *(settings.get(key, "") for key in ("loss", "epochs", "first-rate", "rate", "lambda")),
                               *(f"{value:.4f}" for value in results[-1])])
        return np.mean(results, axis=0)

    def best(self, scores, what):
        """Returns the settings with the highest mean over data sets, and prints them with the runners-up."""
        ranked = sorted(scores.items(), key=lambda item: -np.mean(item[1]))
        for settings, values in ranked[:4]:
            print(f"  {what}: {settings} -> {' '.join(f'{value:.2f}' for value in values)}", flush=True)
        return ranked[0][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--l3a", default="build/l3a")
    parser.add_argument("--out", default="tune.csv")
    parser.add_argument("--loss", default="asl")
    parser.add_argument("--epochs", default="20")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--head-input", default="features")
    parser.add_argument("--dim", default="64", help="width of the random layer, for --head-input layer")
    parser.add_argument("--methods", default=",".join(GRID))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tuner, data = Tuner(arguments, Path(folder)), []
        for text in arguments.data:
            name, protocol, path, *rows = text.split(":")
            split(Path(folder), name, path, int(rows[0]) if rows else None)
            data.append((name, protocol))
        for what, method, phase in ("all at once", "joint-sgd", 2), ("first phase", "finetune", 0):
            scores = {}
            for rate in FIRST_RATES:
                settings = {"epochs": arguments.epochs, "first-rate": rate}
                scores[rate] = [tuner.run(one, method, **settings)[phase] for one in data]
            first_rate = tuner.best(scores, f"{what}: first-rate")
        for method in arguments.methods.split(","):
            scores = {}
            for rate, weight in itertools.product(RATES, GRID[method]):
                settings = {"epochs": arguments.epochs, "first-rate": first_rate, "rate": rate, "lambda": weight}
                scores[rate, weight] = [tuner.run(one, method, **settings)[2] for one in data]
            tuner.best(scores, f"{method}: rate, lambda")


if __name__ == "__main__":
    sys.exit(main())
