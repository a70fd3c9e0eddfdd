#!/usr/bin/python3
"""The tables of docs/beyond.md: l3a+ compared with l3a and joint on test images, what each of its parts contributes, how its settings
were chosen on held-out training images, and how it does with few training images.

  bench/beyond.py [--coco TRAIN VAL] [--voc TRAIN TEST] [--dims 2048,4096] [--seeds 2025,1,2] [--tables main,parts,choices,small]
                  [--images 100,200,500,1000,2000,5000] [--subsets 8] [--protocol P]

TRAIN, VAL and TEST are feature files; of views, only the whole picture is used in `small`. Make those of VOC with `l3a extract`; those of COCO are in
../shared."""
import argparse
import csv
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
COMMAND = Path(os.environ.get("L3A_BUILD", HERE.parent / "build")) / "l3a"
COCO = HERE.parent.parent / "shared" / "data" / "coco2014-vit-tiny"
TYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "I64": np.int64, "I8": np.int8, "U8": np.uint8}
PROTOCOLS = {"coco": ("B0-C10", "B40-C10"), "voc": ("B0-C4", "B10-C2")}


def read(path):
    data = Path(path).read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    return metadata, {name: np.frombuffer(data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]],
                                          TYPES[t["dtype"]]).reshape(t["shape"]) for name, t in header.items()}


def write(path, classes, features, labels):
    header, at, parts = {"__metadata__": {"classes": classes}}, 0, []
    for name, kind, values in ("features", "F32", features.astype(np.float32)), ("labels", "I8", labels.astype(np.int8)):
        parts.append(values.tobytes())
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def run(train, test, protocol, methods, dim, seeds, *settings, keep=None):
    """The last row of metrics.csv for each method and seed: {method: [(mAP, CF1) of each seed]}."""
    with tempfile.TemporaryDirectory() as folder:
        out = keep or f"{folder}/run"
        done = subprocess.run([COMMAND, "run", "--train", train, "--test", test, "--protocol", protocol, "--method", ",".join(methods),
                               "--dim", str(dim), "--seed", ",".join(map(str, seeds)), "--quiet", "-o", out, *map(str, settings)],
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"beyond.py: {done.stderr}")
        last = {}
        with open(f"{out}/metrics.csv", newline="") as table:
            for row in csv.DictReader(table):
                last[row["method"], row["seed"]] = float(row["mAP"]), float(row["CF1"])
    return {m: np.array([last[m, str(s)] for s in seeds]) for m in methods}


def spread(values):
    return f"{values.mean():.2f} ± {values.std(ddof=1):.2f}" if len(values) > 1 else f"{values.mean():.2f}"


def print_main(sets, dims, seeds):
    print(f"\nafter the last phase, mean and standard deviation over seeds {', '.join(map(str, seeds))}\n")
    print("| data | protocol | dim | mAP: l3a | l3a+ | joint | CF1: l3a | l3a, same thresholds | l3a+ | joint, same thresholds |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    fitted = "--thresholds", "per-class"
    for name, (train, test) in sets.items():
        for dim in dims:
            joint = run(train, test, PROTOCOLS[name][0], ["joint"], dim, seeds, *fitted)["joint"]
            for protocol in PROTOCOLS[name]:
                found = run(train, test, protocol, ["l3a", "l3a+"], dim, seeds)
                l3a_fitted = run(train, test, protocol, ["l3a"], dim, seeds, *fitted)["l3a"]
                cells = [found["l3a"][:, 0], found["l3a+"][:, 0], joint[:, 0], found["l3a"][:, 1], l3a_fitted[:, 1], found["l3a+"][:, 1], joint[:, 1]]
                print(f"| {name} | {protocol} | {dim} | " + " | ".join(map(spread, cells)) + " |", flush=True)


VARIANTS = {"l3a+": [], "alpha 1": ["--alpha", 1], "lift 0": ["--lift", 0], "skip features off": ["--skip-features", "off"], "gamma 1000": ["--gamma", 1000],
            "thresholds fixed": ["--thresholds", "fixed"], "thresholds global": ["--thresholds", "global"], "weights none": ["--weights", "none"],
            "keep-phases 4": ["--keep-phases", 4], "keep-phases 2": ["--keep-phases", 2]}


def print_parts(sets, dim, seed):
    print(f"\nl3a+ with one part changed, last mAP and CF1, dim {dim}, seed {seed}\n")
    places = [(name, PROTOCOLS[name][0]) for name in sets]
    print("| l3a+ with | " + " | ".join(f"{name} {protocol} mAP | CF1" for name, protocol in places) + " |")
    print("|---|" + "---|---|" * len(places))
    for variant, settings in VARIANTS.items():
        cells = [run(*sets[name], protocol, ["l3a+"], dim, [seed], *settings)["l3a+"][0] for name, protocol in places]
        print(f"| {variant} | " + " | ".join(f"{m:.2f} | {c:.2f}" for m, c in cells) + " |", flush=True)


def layer(k, d, seed):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, k * d + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((2 * (z >> np.uint64(40)).astype(float) / 2**24 - 1) / np.sqrt(k)).reshape(k, d).astype(np.float32)


def judge_scores(model, features, labels, dim, seed):
    """From a model file: CF1 with thresholds at shares of the mean score, and the log-loss of two ways to turn scores into probabilities."""
    metadata, t = read(model)
    z = features.astype(np.float32)
    x = np.hstack([np.maximum(z @ layer(z.shape[1], dim, seed), 0), z])[:, :t["weights"].shape[0]]
    scores, truth = x @ t["weights"].astype(np.float32), labels == 1
    shown = truth.any(1)
    scores, truth = scores[shown], truth[shown]
    phases = len(metadata["parts"].split())
    lift = float(metadata["lift"]) * (phases - 1) / (phases + 8)
    whole = lift * t["weights"].sum(1, keepdims=True) / (1 + lift * t["weights"].shape[1])
    own_mean, lift_mean = ((t["cross"] * w).sum(0) / t["label_weight"] for w in (t["weights"] - whole, whole))
    f1 = {}
    for share in (0.4, 0.5, 0.6, 2 / 3, 0.7, 0.8):
        guess = scores > share * own_mean + lift_mean
        f1[share] = 100 * np.mean(2 * (guess & truth).sum(0) / np.maximum(guess.sum(0) + truth.sum(0), 1))
    loss = [float((np.logaddexp(0, s) - truth * s).mean()) for s in (scores, 12 * scores - 5.5)]
    return f1, loss


def print_choices(sets, dim, seed):
    """A fifth of the training images is held out; test images are not used."""
    for name, (train, _) in sets.items():
        metadata, t = read(train)
        held = np.arange(len(t["labels"])) % 5 == 4
        with tempfile.TemporaryDirectory() as folder:
            parts = [f"{folder}/{part}.safetensors" for part in ("learn", "held")]
            for path, rows in zip(parts, (~held, held)):
                write(path, metadata["classes"], t["features"][rows], t["labels"][rows])
            for protocol in PROTOCOLS[name]:
                print(f"\n{name} {protocol}, dim {dim}, seed {seed}: trained on four fifths of the training images, last mAP on the other fifth\n")
                for setting, values in ("alpha", (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1)), ("lift", (0, 0.03, 0.06, 0.08, 0.1, 0.12, 0.16)):
                    found = [run(*parts, protocol, ["l3a+"], dim, [seed], f"--{setting}", v)["l3a+"][0, 0] for v in values]
                    print(f"| {setting} | " + " | ".join(map(str, values)) + " |\n|---|" + "---|" * len(values))
                    print("| mAP | " + " | ".join(f"{mean:.2f}" for mean in found) + " |\n", flush=True)
            protocol = PROTOCOLS[name][0]
            run(*parts, protocol, ["l3a+"], dim, [seed], keep=f"{folder}/kept")
            order = read(f"{folder}/kept/model.safetensors")[0]["classes"].split("\n")
            columns = [metadata["classes"].split("\n").index(c) for c in order]
            f1, loss = judge_scores(f"{folder}/kept/model.safetensors", t["features"][held], t["labels"][held][:, columns], dim, seed)
            print("| threshold, as a share of the mean score | " + " | ".join(f"{s:.2f}" for s in f1) + " |\n|---|" + "---|" * len(f1))
            print("| CF1 | " + " | ".join(f"{v:.2f}" for v in f1.values()) + " |")
            print(f"\nlog-loss of 1/(1 + exp(-s)): {loss[0]:.3f}; of 1/(1 + exp(5.5 - 12 s)): {loss[1]:.3f}", flush=True)


def sweep(train, test, protocol, dim, seed, *settings):
    """The last mAP of each point: {(method, values of the axes): mAP}. Points share their sums, and no model is saved."""
    axes = [name[2:] for name, value in zip(settings[::2], settings[1::2]) if "," in str(value) and name != "--method"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([COMMAND, "sweep", "--train", train, "--test", test, "--protocol", protocol, "--dim", str(dim), "--seed", str(seed),
                               "--privacy-limit", "0", "--quiet", "-o", f"{folder}/out", *map(str, settings)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"beyond.py: {done.stderr}")
        with open(f"{folder}/out/sweep.csv", newline="") as table:
            return {(row["method"], *(row[axis] for axis in axes)): float(row["mAP"]) for row in csv.DictReader(table)}  # the last phase stays


SMALL = ["l3a+", "lift 0", "alpha 1", "skip-features off", "gamma 1000", "l3a, gamma auto"]


def one_small(parts, protocol, dim, seed):
    """The last mAP of l3a, and by how much l3a+ is above it, l3a+ with one part changed, and l3a with the gamma of l3a+."""
    both = sweep(*parts, protocol, dim, seed, "--method", "l3a,l3a+", "--gamma", "auto,1000", "--lift", "0,0.1")
    alpha = sweep(*parts, protocol, dim, seed, "--method", "l3a+", "--alpha", "1")
    skip = sweep(*parts, protocol, dim, seed, "--method", "l3a+", "--skip-features", "off")
    base = both["l3a", "1000", "-"]
    found = [both["l3a+", "auto", "0.1"], both["l3a+", "auto", "0"], alpha["l3a+",], skip["l3a+",], both["l3a+", "1000", "0.1"],
             both["l3a", "auto", "-"]]
    return [base, *(value - base for value in found)]


def print_small(sets, options, dim, seed):
    """Random subsets of the training images, measured on at most 2,500 test images. Differences are paired: of the same subset."""
    print(f"\nlast mAP of l3a, and what is added to it: mean and standard error over {options.subsets} random subsets, dim {dim}, seed {seed}\n")
    print("| data | training images | in the first phase | l3a | " + " | ".join(SMALL) + " |\n|---|---|---|" + "---|" * (len(SMALL) + 1))
    for name, (train, test) in sets.items():
        tables = []
        for path in train, test:
            metadata, t = read(path)
            features = t["features"][:, 0] if t["features"].ndim == 3 else t["features"]
            tables.append((metadata["classes"], features, t["labels"]))
        order = sorted(range(len(tables[0][0].split("\n"))), key=lambda k: tables[0][0].split("\n")[k].encode())
        for protocol, count in ((p, int(n)) for p in PROTOCOLS[name] for n in options.images.split(",")):
            if count > len(tables[0][1]) or options.protocol not in (None, protocol):
                continue
            base, step = (int(part[1:]) for part in protocol.split("-"))
            first, found = [], []
            for subset in range(options.subsets):
                chosen = np.random.default_rng([count, subset]).permutation(len(tables[0][1]))[:count]
                first.append((tables[0][2][chosen][:, order[:base or step]] == 1).any(1).sum())
                with tempfile.TemporaryDirectory() as folder:
                    parts = [f"{folder}/{part}.safetensors" for part in ("learn", "test")]
                    for path, rows, (classes, features, labels) in zip(parts, (chosen, slice(2500)), tables):
                        write(path, classes, features[rows], labels[rows])
                    found.append(one_small(parts, protocol, dim, seed))
            found = np.array(found)
            error = found.std(0, ddof=1) / np.sqrt(len(found))
            cells = [f"{found[:, 0].mean():.2f}", *(f"{m:+.2f} ± {e:.2f}" for m, e in zip(found.mean(0)[1:], error[1:]))]
            print(f"| {name} {protocol} | {count} | {np.mean(first):.0f} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--coco", nargs=2, metavar=("TRAIN", "VAL"), default=[str(COCO / "train.safetensors"), str(COCO / "val.safetensors")])
    parser.add_argument("--voc", nargs=2, metavar=("TRAIN", "TEST"))
    parser.add_argument("--dims", default="2048,4096")
    parser.add_argument("--seeds", default="2025,1,2")
    parser.add_argument("--tables", default="main,parts,choices")
    parser.add_argument("--images", default="100,200,500,1000,2000,5000", help="training images of the table small")
    parser.add_argument("--subsets", type=int, default=8, help="random subsets of each number of images")
    parser.add_argument("--protocol", help="only this one, in the table small")
    options = parser.parse_args()
    sets = {name: paths for name, paths in (("coco", options.coco), ("voc", options.voc)) if paths and Path(paths[0]).exists()}
    if not sets:
        sys.exit("beyond.py: there are no feature files; give them with --coco or --voc")
    dims, seeds = [int(d) for d in options.dims.split(",")], [int(s) for s in options.seeds.split(",")]
    tables = options.tables.split(",")
    if "main" in tables:
        print_main(sets, dims, seeds)
    if "parts" in tables:
        print_parts(sets, dims[0], seeds[0])
    if "choices" in tables:
        print_choices(sets, dims[0], seeds[0])
    if "small" in tables:
        print_small(sets, options, dims[0], seeds[0])


if __name__ == "__main__":
    main()
