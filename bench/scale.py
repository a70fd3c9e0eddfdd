#!/usr/bin/python3
"""How learning grows with processes: measured with mpirun on this machine, and a model with the measured constants that goes on from there.

    bench/scale.py --train FILE --test FILE [--dims D,…] [--ranks R,…] [--rounds N] [--bandwidth GBPS] [--memory]
        --train, --test  feature files; COCO's are meant, with --protocol B0-C10
        --ranks          processes of one thread each [1, 2, 4, … up to the processors of this machine]
        --bandwidth      GB/s between machines, for the tables of clusters that are not here [10]
        --memory         also measures the memory, and prints the efficiency that it allows
        L3A_BUILD        the build folder, with the plug-in libl3a-mpi.so

For each dim: `l3a run --method l3a` in one process with as many threads as there are processors, and by mpirun in R processes of one thread, in turns;
seconds of each stage are in timings.csv. Then the model (docs/scale.md):

    sums      rows · (2 k d + d² + 2 d K) / (R · F)          F: operations per second of a process of one thread
    sharing   2 · 8 (d (d + 1)/2 + d K) / B                   B: bytes per second through a process; nothing for R = 1
    solving   (d³/3 + 2 d² K) / S                             S: operations per second of the process that solves

What the memory allows: a block of b rows moves d²/2 · (28 + 8 ⌈b/384⌉) bytes of the triangle and of the products that are added to it, and
b d (28 + 2 (d/1024 + 1)) of expanded rows. --memory measures how fast R processes at once add two arrays that no cache holds, and prints the efficiency
that is left if this is how fast a process gets its bytes, and nothing else is in its way. It starts no run if --train is missing.

The constants of the model come from the smallest dim with one and two processes. It then predicts every other run, and the largest error is printed; the
target is 15 %. A missed target is printed; it is not an error."""
import argparse
import csv
import math
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from measured import conditions, report, spread

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("L3A_BUILD", os.path.join(HERE, "..", "build")))
COMMAND = "bench/scale.py --train FILE --test FILE"


def learn(options, dim, ranks, threads, folder):
    """Seconds of all, and of each stage of process 0."""
    shutil.rmtree(folder, ignore_errors=True)
    words = [os.path.join(BUILD, "l3a"), "run", "--train", options.train, "--test", options.test, "--protocol", options.protocol, "--dim", dim, "--threads",
             threads, "--quiet", "-o", folder]
    if ranks:
        words = ["mpirun", "-n", ranks, "--oversubscribe", "--bind-to", "none", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), *words]
    start = time.perf_counter()
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    stages = {"all": seconds}
    with open(os.path.join(folder, "timings.csv"), encoding="utf-8") as file:
        for row in csv.DictReader(file):
            stages[row["stage"]] = stages.get(row["stage"], 0) + float(row["seconds"])
    with open(os.path.join(folder, "metrics.csv"), encoding="utf-8") as file:
        last = list(csv.DictReader(file))
    stages["phases"] = len(last)
    stages["mAP"] = float(last[-1]["mAP"])
    return stages


def middle(rounds):
    return {name: statistics.median(one.get(name, 0) for one in rounds) for name in {name for one in rounds for name in one}}


def sums_of(stages):
    return stages.get("expand", 0) + stages.get("learn", 0)


class Model:
    """The rows, width and classes are those of the data; the rest is measured."""

    def __init__(self, rows, width, classes, phases):
        self.rows, self.width, self.classes, self.phases = rows, width, classes, phases
        self.speed = self.solver = self.bandwidth = 0.0

    def row_operations(self, dim):
        return 2 * self.width * dim + dim * dim + 2 * dim * self.classes

    def shared_bytes(self, dim):
        return 8 * (dim * (dim + 1) / 2 + dim * self.classes) * self.phases

    def solve_operations(self, dim):
        return (dim ** 3 / 3 + 2 * dim * dim * self.classes) * self.phases

    def fit(self, dim, one, two):
        self.speed = self.rows * self.row_operations(dim) / sums_of(one)
        self.solver = self.solve_operations(dim) / one["solve"]
        self.bandwidth = 2 * self.shared_bytes(dim) / two["share"] if two and two.get("share") else float("inf")

    def seconds(self, dim, ranks):
        sums = self.rows * self.row_operations(dim) / (ranks * self.speed)
        share = 2 * self.shared_bytes(dim) / self.bandwidth if ranks > 1 else 0
        return sums + share + self.solve_operations(dim) / self.solver


def measure(options, work, dims, ranks, processors):
    found = {}
    for dim in dims:
        for _ in range(options.rounds):
            for count in [0, *ranks]:
                found.setdefault((dim, count), []).append(learn(options, dim, count, processors if count == 0 else 1, os.path.join(work, "run")))
    return found


def compare(options, found, dims, ranks, processors):
    for dim in dims:
        alone = [one["all"] for one in found[dim, 0]]
        for count in ranks:
            runs = found[dim, count]
            ratio = [run["all"] / one for run, one in zip(runs, alone)]
            target = "at most 1.10" if count == processors and count > 1 else ""
            report(f"{options.protocol}, dim {dim}: {count} processes of one thread, times one process of {processors} threads", target, spread(ratio),
                   statistics.median(ratio) <= 1.1, COMMAND)
            if count > 1 and (dim, 1) in found:
                gain = [sums_of(one) / (count * sums_of(run)) for one, run in zip(found[dim, 1], runs)]
                report(f"the same: efficiency of the sums", "at least 0.85", spread(gain), statistics.median(gain) >= 0.85, COMMAND)
                share = middle(runs)
                print(f"  seconds: sums {sums_of(share):.2f}, sharing {share.get('share', 0):.2f}, solving {share['solve']:.2f}, evaluating {share['evaluate']:.2f}, "
                      f"saving {share.get('save', 0):.2f}, all {share['all']:.2f}; mAP {share['mAP']:.4f}")


def check_model(found, model, dims, ranks):
    smallest = dims[0]
    model.fit(smallest, middle(found[smallest, 1]), middle(found[smallest, 2]) if (smallest, 2) in found else None)
    print(f"constants: {model.speed / 1e9:.1f} GFLOP/s for the sums of a process, {model.solver / 1e9:.1f} for solving, {model.bandwidth / 1e9:.2f} GB/s for sharing")
    errors = []
    for dim in dims:
        for count in ranks:
            run = middle(found[dim, count])
            real, guess = sums_of(run) + run.get("share", 0) + run["solve"], model.seconds(dim, count)
            errors.append(abs(guess / real - 1))
            print(f"  dim {dim}, {count} processes: learned in {real:.2f} s, the model says {guess:.2f} ({100 * (guess / real - 1):+.0f} %)")
    report("the model: largest error of the seconds of learning", "at most 15 %", f"{100 * max(errors):.0f} %", max(errors) <= 0.15, COMMAND)


def extend(options, model):
    """Clusters that are not here: one process per machine, and its network."""
    local = model.bandwidth
    model.bandwidth = options.bandwidth * 1e9
    print(f"\nby the model, with {options.bandwidth:g} GB/s between processes of one such processor core each; one phase:")
    print("| images | dim | processes | sums | sharing | solving by one | memory of a process |\n|---|---|---|---|---|---|---|")
    phases, rows = model.phases, model.rows
    model.phases = 1
    for images, dim in (10**6, 8192), (10**9, 8192), (10**9, 32768), (10**9, 131072):
        for count in 1, 10, 100, 1000:
            model.rows = images
            sums = images * model.row_operations(dim) / (count * model.speed)
            share = 2 * model.shared_bytes(dim) / model.bandwidth if count > 1 else 0
            solve = model.solve_operations(dim) / model.solver
            print(f"| {images:.0e} | {dim} | {count} | {duration(sums)} | {duration(share)} | {duration(solve)} | {8 * dim * dim / 2**30:.1f} GiB |")
    model.bandwidth, model.phases, model.rows = local, phases, rows


def add_arrays(barrier, bytes_per_second):
    import numpy as np
    sums, rows = np.zeros(1 << 24), np.ones(1 << 24)
    fastest = math.inf
    for _ in range(5):
        barrier.wait()
        start = time.perf_counter()
        np.add(sums, rows, out=sums)
        fastest = min(fastest, time.perf_counter() - start)
    with bytes_per_second.get_lock():
        bytes_per_second.value += 3 * sums.nbytes / fastest


def memory_speed(ranks):
    """Bytes per second of as many processes at once, all together."""
    barrier, total = multiprocessing.Barrier(ranks), multiprocessing.Value("d", 0)
    processes = [multiprocessing.Process(target=add_arrays, args=(barrier, total)) for _ in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return total.value


def block_bytes(rows, dim):
    return dim * dim / 2 * (28 + 8 * math.ceil(rows / 384)) + rows * dim * (28 + 2 * (dim / 1024 + 1))


def allowed(rows, width, classes, dim, ranks, speed, memory):
    """The efficiency of the sums of a phase; speed: operations per second of one process alone; memory: bytes per second by number of processes."""
    def traffic(count):
        own = rows / count
        blocks = math.ceil(own / 4096)
        return blocks * block_bytes(own / blocks, dim) / (memory[count] / count)
    alone = rows * (2 * width * dim + dim * dim + 2 * dim * classes) / speed
    return alone / (alone - traffic(1) + ranks * traffic(ranks))


def show_roof(dims, ranks, speed, rows=16000, width=192, classes=80):
    memory = {count: memory_speed(count) for count in sorted({1, *ranks})}
    print("memory, GB/s by processes at once: " + ", ".join(f"{count}: {memory[count] / 1e9:.1f}" for count in memory))
    print(f"with it, and {speed / 1e9:.1f} GFLOP/s of a process by itself, phases of {rows} rows allow this efficiency of the sums:")
    for dim in dims:
        print(f"  dim {dim}: " + ", ".join(f"{count}: {allowed(rows, width, classes, dim, count, speed, memory):.2f}" for count in ranks))


def duration(seconds):
    for unit, size in ("days", 86400), ("h", 3600), ("min", 60):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def shape_of(path):
    import json
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return header["features"]["shape"], header["labels"]["shape"] if "labels" in header else None


def rows_of(options, dim):
    """The training rows of all phases, by the plan."""
    words = [os.path.join(BUILD, "l3a"), "run", "--train", options.train, "--test", options.test, "--protocol", options.protocol, "--dim", str(dim), "--dry-run"]
    text = subprocess.run(words, capture_output=True, text=True, check=True)
    text = text.stdout + text.stderr
    return int(text.split(" training rows in each")[0].split()[-1]), int(text.split(" classes in ")[0].split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train")
    parser.add_argument("--test")
    parser.add_argument("--protocol", default="B0-C10")
    parser.add_argument("--dims", default="2048,4096")
    parser.add_argument("--ranks", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bandwidth", type=float, default=10)
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    if not options.memory and not (options.train and options.test):
        parser.error("give --train and --test, or --memory")
    processors = len(os.sched_getaffinity(0))
    dims = sorted(int(word) for word in options.dims.split(","))
    ranks = [int(word) for word in options.ranks.split(",")] if options.ranks else [1 << i for i in range(processors.bit_length()) if 1 << i <= processors]
    for name, value in conditions(os.environ).items():
        print(f"{name}: {value}")
    if not options.train:
        show_roof(dims, ranks, 90e9)
        return
    with tempfile.TemporaryDirectory() as work:
        found = measure(options, work, dims, ranks, processors)
    compare(options, found, dims, ranks, processors)
    if 1 in ranks:
        rows, classes = rows_of(options, dims[0])
        model = Model(rows, shape_of(options.train)[0][-1], classes / 2, int(found[dims[0], 1][0]["phases"]))
        check_model(found, model, dims, ranks)
        extend(options, model)
        if options.memory:
            show_roof(dims, ranks, model.speed, rows / model.phases, model.width, classes)


if __name__ == "__main__":
    main()
