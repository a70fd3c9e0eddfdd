#!/usr/bin/python3
"""A sweep over six values of gamma compared with one run, in turns, on COCO features.

Targets: for l3a, at most 1.3 runs plus six solutions per phase; for l3a+, whose values of gamma share all sums, at most 1.8 runs."""
import argparse
import csv
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from coco import build_folder, data_folder
from measured import report, spread

GAMMAS = {"l3a": ["0.1", "1", "10", "100", "1000", "10000"],
          # below about 100 the sums of l3a+ in float32 would need a factor for every phase
          "l3a+": ["100", "300", "1000", "3000", "10000", "30000"]}
ONE_GAMMA = "1000"
COMMAND = "bench/run.py --only sweep"


def timed(command):
    """Seconds, and what the command prints to stderr."""
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"sweep.py: {' '.join(command)}: {done.stderr[-500:]}")
    return time.perf_counter() - start, done.stderr


def rows_of(path):
    with open(path, newline="") as table:
        return list(csv.DictReader(table))


def solve_seconds(folder):
    """The seconds spent solving, over all phases of a run."""
    return sum(float(row["seconds"]) for row in rows_of(os.path.join(folder, "timings.csv")) if row["stage"] == "solve")


def measure(method, dim, rounds, folder):
    data, l3a = data_folder(), os.path.join(build_folder(), "l3a")
    common = ["--method", method, "--train", os.path.join(data, "train.safetensors"), "--test", os.path.join(data, "val.safetensors"),
              "--protocol", "B0-C10", "--dim", str(dim), "-o"]
    runs, sweeps, solves = [], [], []
    for i in range(rounds):
        run, sweep = (os.path.join(folder, f"{method}-{what}-{i}") for what in ("run", "sweep"))
        runs.append(timed([l3a, "run", "--gamma", ONE_GAMMA, *common, run])[0])
        solves.append(solve_seconds(run))
        seconds, said = timed([l3a, "sweep", "--gamma", ",".join(GAMMAS[method]), *common, sweep])
        sweeps.append(seconds)
    corrected = sum(int(rows) for rows in re.findall(r"(\d+) rows corrected", said))
    learned = sum(int(row["train_images"]) for row in rows_of(os.path.join(run, "metrics.csv")))
    return runs, solves, sweeps, corrected, learned


def report_paper(dim, rounds, folder):
    runs, solves, sweeps, corrected, learned = measure("l3a", dim, rounds, folder)
    run, solve, sweep = (statistics.median(values) for values in (runs, solves, sweeps))
    allowed = 1.3 * run + len(GAMMAS["l3a"]) * solve
    print(f"{learned:,} rows were learned; where pseudo-labels differ between neighbouring gammas, {corrected:,} rows in total were corrected, "
          f"{100 * corrected / learned:.1f} % of the products of one run")
    report(f"a sweep over six γ, COCO B0-C10, d = {dim}: seconds", f"at most 1.3 runs and six times their solutions: {allowed:.1f}",
           spread(sweeps, "{:.1f}"), sweep <= allowed, COMMAND)
    report("the same: runs with one γ", "", spread([s / r for s, r in zip(sweeps, runs)]), True, COMMAND)


def report_plus(dim, rounds, folder):
    runs, _, sweeps, corrected, _ = measure("l3a+", dim, rounds, folder)
    if corrected:
        sys.exit(f"sweep.py: l3a+ gives no pseudo-labels, but {corrected} rows were corrected")
    ratios = [sweep / run for sweep, run in zip(sweeps, runs)]
    report(f"a sweep of l3a+ over six γ, COCO B0-C10, d = {dim}: runs with one γ", "at most 1.8", spread(ratios), statistics.median(ratios) <= 1.8,
           COMMAND)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dim", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not os.path.isdir(data_folder()):
        print(f"sweep.py: skipped, there is no {data_folder()}; set L3A_SHARED to the folder that contains data/", file=sys.stderr)
        return 0
    for report_method in report_paper, report_plus:
        with tempfile.TemporaryDirectory() as folder:
            report_method(options.dim, options.rounds, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
