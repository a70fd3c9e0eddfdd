#!/usr/bin/python3
"""What rounding costs with a small gamma: the table in docs/method.md, "Rounding".

    bench/rounding.py build/l3a TRAIN.safetensors TEST.safetensors [--rows 1000] [--test-rows 5000] [--dim 1024]

Takes rows at regular intervals from two feature files, and runs `l3a` (B0-C10) in mixed and in double precision with the same gamma. Prints the largest
difference in mAP over the phases, and whether the command warned or refused.
"""
import argparse
import csv
import os
import subprocess
import sys
import tempfile

import numpy as np

from calibration import read


def read_rows(path, count):
    """Features, labels and class names of `count` rows at regular intervals."""
    metadata, tensors = read(path)
    rows = np.arange(count) * len(tensors["labels"]) // count
    return tensors["features"][rows].astype("<f4"), tensors["labels"][rows], metadata["classes"]


def run(command, folder, solver, gamma, precision, dim):
    """mAP after each phase, and what was said: '', 'warns' or 'refuses'."""
    out = os.path.join(folder, f"{solver}-{gamma}-{precision}")
    done = subprocess.run([command, "run", "--train", "x.npy", "--train-labels", "y.npy", "--test", "xt.npy", "--test-labels", "yt.npy", "--names", "names",
                           "--protocol", "B0-C10", "--dim", str(dim), "--solver", solver, "--gamma", gamma, "--precision", precision, "-o", out],
                          cwd=folder, capture_output=True, text=True)
    if done.returncode == 2 and "gamma" in done.stderr:
        return None, "refuses"
    if done.returncode:
        sys.exit(done.stderr)
    with open(os.path.join(out, "metrics.csv"), encoding="utf-8") as table:
        return np.array([float(row["mAP"]) for row in csv.DictReader(table)]), "warns" if "precision double" in done.stderr else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command")
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--test-rows", type=int, default=5000)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--gammas", default="1000,1,0.1,0.03,0.01,0.001,1e-6,1e-9,1e-10")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for end, path, count in (("", arguments.train, arguments.rows), ("t", arguments.test, arguments.test_rows)):
            features, labels, names = read_rows(path, count)
            np.save(os.path.join(folder, f"x{end}.npy"), features)
            np.save(os.path.join(folder, f"y{end}.npy"), labels)
        with open(os.path.join(folder, "names"), "w", encoding="utf-8") as file:
            file.write(names + "\n")
        print("| γ | sums, mixed | difference | recursion, mixed | difference |\n|---|---|---:|---|---:|")
        for gamma in arguments.gammas.split(","):
            cells = []
            for solver in ("sums", "recursive"):
                mixed, said = run(os.path.abspath(arguments.command), folder, solver, gamma, "mixed", arguments.dim)
                double, double_said = run(os.path.abspath(arguments.command), folder, "sums", gamma, "double", arguments.dim)
                known = mixed is not None and double is not None
                cells += [said or ("double refuses" if double is None else ""), f"{np.abs(mixed - double).max():.3f}" if known else ""]
            print(f"| {gamma} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
