#!/usr/bin/env python3
"""Learning on an NVIDIA GPU, against bare cuBLAS, the released program's arithmetic on the same GPU, and this library on the processor.

    bench/gpu.py --train FILE --test FILE [--only PART,…] [--rounds N] [--python PROGRAM]
        --train, --test     feature files of MS-COCO 2014 (`l3a extract`), for the parts coco and views
        --python            the Python that has PyTorch [this one]
        L3A_BUILD           the build folder, with the plug-in and bench_gpu (cmake -DL3A_BENCH=ON)

  phase  width 2048, dim 8192, 80 classes: rows per second of a phase through the public interface and of its sums alone, in turns with the
         bare calls and with the loop of bench/released.py on the GPU
  coco   `l3a run` of B0-C10 with l3a and l3a+, learned and evaluated: seconds from start to report, on the GPU in turns with the
         processor; the largest difference of a phase's mAP from the processor's in double precision; of A and C from the processor's in mixed
         precision; whether two runs give the same bytes
  views  the same with every image as 15 rows, which are copies of one, at dim 16384: seconds, and the most memory in use

A missed target is printed; it is not an error."""
import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

from measured import conditions, report, spread

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("L3A_BUILD", os.path.join(HERE, "..", "build")))
COMMAND = "bench/gpu.py --only {}"


def run(arguments, **how):
    done = subprocess.run([str(word) for word in arguments], capture_output=True, text=True, **how)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def last_json(arguments):
    return json.loads(run(arguments).stdout.splitlines()[-1])


def phase(options):
    own, theirs = [], []
    sizes = [os.path.join(BUILD, "bench_gpu"), 2048, 8192, 80, 25]
    last_json([*sizes, 1])  # a virtual machine that has just started is slow to give memory to its first programs
    for _ in range(options.rounds):
        own.append(last_json([*sizes, 2]))
        if options.python:
            theirs.append(last_json([options.python, os.path.join(HERE, "released.py"), "--device", "cuda", "--rows", 1280, "--json"]))
    command = COMMAND.format("phase")
    middle = {name: [round_[name][1] for round_ in own] for name in ("phase", "sums", "bare", "phase_ratio", "sums_ratio")}
    for name, what in ("phase", "a phase"), ("sums", "its sums alone"), ("bare", "bare cuBLAS"):
        report(f"width 2048, dim 8192, 80 classes, rows per second, {what}", "", spread(middle[name], "{:,.0f}"), True, command)
    ratio = statistics.median(middle["phase_ratio"])
    report("a phase: times the bare calls", "at most 1.2", spread(middle["phase_ratio"]), ratio <= 1.2, command)
    report("its sums alone: times the bare calls", "at most 1.2", spread(middle["sums_ratio"]), statistics.median(middle["sums_ratio"]) <= 1.2, command)
    report("relative error of expanded rows, and of cuBLAS in float32", "", f"{own[0]['error']:.1e} and {own[0]['float32_error']:.1e}", True, command)
    if theirs:
        gain = [mine / other["rows_per_second"] for mine, other in zip(middle["phase"], theirs)]
        report(f"the released program's loop, PyTorch {theirs[0]['torch']}, rows per second", "",
               spread([other["rows_per_second"] for other in theirs], "{:,.0f}"), True, command)
        report("a phase: times the released program's rows per second", "at least 800", spread(gain, "{:,.0f}"), statistics.median(gain) >= 800, command)
    else:
        print("skipped: the released program's loop (no PyTorch)")


class Memory:
    """The most memory that the GPU has in use meanwhile, in GiB, by what nvidia-smi says."""

    def __enter__(self):
        self.most, self.before, self.going = 0.0, self.used(), True
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    @staticmethod
    def used():
        done = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"], capture_output=True, text=True)
        return float(done.stdout or 0) / 1024

    def watch(self):
        while self.going:
            self.most = max(self.most, self.used() - self.before)
            time.sleep(0.1)

    def __exit__(self, *_):
        self.going = False
        self.thread.join()


def learn(options, folder, *arguments):
    """Seconds of a run, and the most memory of the process in GiB."""
    shutil.rmtree(folder, ignore_errors=True)
    words = [os.path.join(BUILD, "l3a"), "run", "--test", options.test, "--protocol", "B0-C10", "-o", folder, "--quiet", *arguments]
    start = time.perf_counter()
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"{' '.join(map(str, words))}\n{said}")
    return seconds, usage.ru_maxrss / 2**20


def read_metrics(folder):
    with open(os.path.join(folder, "metrics.csv"), encoding="utf-8") as file:
        return [float(row["mAP"]) for row in csv.DictReader(file)]


def read_model(folder):
    """The tensors of the model that a run left."""
    path = os.path.join(folder, "model.safetensors")
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    types = {"F64": "<f8", "F32": "<f4"}
    return {name: np.memmap(path, types[entry["dtype"]], "r", 8 + length + entry["data_offsets"][0],
                            (entry["data_offsets"][1] - entry["data_offsets"][0]) // int(types[entry["dtype"]][2]))
            for name, entry in header.items() if name != "__metadata__" and entry["dtype"] in types}


def distance(one, other):
    wide = other.astype("f8")
    return float(np.linalg.norm(one.astype("f8") - wide) / np.linalg.norm(wide))


def same_files(one, other, names):
    return all(open(os.path.join(one, name), "rb").read() == open(os.path.join(other, name), "rb").read() for name in names)


def coco(options, work):
    command = COMMAND.format("coco") + " --train FILE --test FILE"
    fixed = ["--train", options.train, "--dim", options.dim]
    place = {name: os.path.join(work, name) for name in ("gpu", "again", "mixed", "double")}
    for method, target in ("l3a", 2), ("l3a+", 2.5):
        own, other = [], []
        for i in range(options.rounds):
            own.append(learn(options, place["again" if i else "gpu"], *fixed, "--method", method, "--device", "cuda")[0])
        if options.rounds < 2:
            own.append(learn(options, place["again"], *fixed, "--method", method, "--device", "cuda")[0])
        other.append(learn(options, place["mixed"], *fixed, "--method", method)[0])
        learn(options, place["double"], *fixed, "--method", method, "--precision", "double")
        report(f"COCO B0-C10 with {method}, {options.about}, dim {options.dim}: seconds from start to report", f"at most {target}", spread(own),
               statistics.median(own) <= target, command)
        report("the same on this machine's processor", "", spread(other, "{:.1f}"), True, command)
        gaps = [abs(a - b) for a, b in zip(read_metrics(place["gpu"]), read_metrics(place["double"]))]
        report("largest difference of a phase's mAP from the processor's in double precision", "at most 0.01", f"{max(gaps):.1e}", max(gaps) <= 0.01, command)
        ours, theirs = read_model(place["gpu"]), read_model(place["mixed"])
        sums = max(distance(ours[name], theirs[name]) for name in ours if name.startswith("gram"))
        cross = distance(ours["cross"], theirs["cross"])
        report("relative difference of A and C from the processor's in mixed precision", "at most 1e-6", f"{sums:.1e} and {cross:.1e}",
               max(sums, cross) <= 1e-6, command)
        same = same_files(place["gpu"], place["again"], ["model.safetensors"])
        report("two runs give the same bytes in the model file", "yes", "yes" if same else "no", same, command)


def repeat_rows(source, path, copies):
    """A feature file in which every row is `copies` views of an image."""
    with open(source, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        blob = file.read()
    start, end = header["features"]["data_offsets"]
    rows, width = header["features"]["shape"]
    types = {"F32": "<f4", "F16": "<f2"}
    features = np.frombuffer(blob[start:end], types[header["features"]["dtype"]]).astype("<f2").reshape(rows, 1, width)
    parts, made, at = [np.repeat(features, copies, 1).tobytes()], {}, 0
    for name, entry in header.items():
        if name not in ("__metadata__", "features"):
            parts.append(blob[slice(*entry["data_offsets"])])
    names = ["features"] + [name for name in header if name not in ("__metadata__", "features")]
    for name, part in zip(names, parts):
        made[name] = {**header[name], "data_offsets": [at, at + len(part)]}
        at += len(part)
    made["features"].update(dtype="F16", shape=[rows, copies, width])
    kept = {key: value for key, value in header["__metadata__"].items() if not key.startswith("checksum")}
    text = json.dumps({"__metadata__": {**kept, "views": str(copies - 1)}, **made}).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for part in parts:
            file.write(part)
    return rows


def views(options, work):
    command = COMMAND.format("views") + " --train FILE --test FILE"
    table, folder = os.path.join(work, "views.safetensors"), os.path.join(work, "views")
    images = repeat_rows(options.train, table, 15)
    for method in "l3a", "l3a+":
        with Memory() as memory:
            seconds, resident = learn(options, folder, "--train", table, "--dim", 16384, "--views", 14, "--score-views", 1, "--method", method, "--device", "cuda")
        with open(os.path.join(folder, "timings.csv"), encoding="utf-8") as file:
            stages = {}
            for row in csv.DictReader(file):
                stages[row["stage"]] = stages.get(row["stage"], 0) + float(row["seconds"])
        report(f"COCO B0-C10 with {method}, {images:,} images of 15 rows, which are copies of one, dim 16384: seconds", "", f"{seconds:.1f} (" +
               ", ".join(f"{name} {stages[name]:.1f}" for name in sorted(stages) if stages[name] >= 0.05) + ")", True, command)
        report("memory of the GPU and of the process, GiB", "", f"{memory.most:.1f} and {resident:.1f}", True, command)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train")
    parser.add_argument("--test")
    parser.add_argument("--about", default="features of ViT-Tiny/16, 192 wide", help="what made the features")
    parser.add_argument("--only", default="phase,coco,views")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dim", type=int, default=8192, help="of the part coco; a small one is for a try")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    if subprocess.run([options.python, "-c", "import torch"], capture_output=True).returncode:
        options.python = None
    chosen = options.only.split(",")
    if {"coco", "views"} & set(chosen) and not (options.train and options.test):
        sys.exit("gpu.py: --train and --test are needed for coco and views; or use --only phase")
    for name, value in conditions(os.environ).items():
        print(f"{name}: {value}")
    print(run([os.path.join(BUILD, "l3a"), "doctor"]).stdout)
    with tempfile.TemporaryDirectory() as work:
        for name, part in ("phase", lambda: phase(options)), ("coco", lambda: coco(options, work)), ("views", lambda: views(options, work)):
            if name in chosen:
                part()


if __name__ == "__main__":
    main()
