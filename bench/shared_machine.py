#!/usr/bin/python3
"""Measures how much longer learn, extract, merge, predict and a fit in Python take while another program keeps one processor busy.

A child process spins on one of the processors. Idle and busy rounds alternate, and so do the ways to wait: the command's default,
OMP_WAIT_POLICY=active, OpenMP's own default (GOMP_SPINCOUNT=300000) and a short spin before sleeping (--spins). For each of them, the
script prints the median seconds and their range, idle and busy, and the ratio of the medians. Target: at most 2.5 for the default.
The row "python" is a program that imports l3a and fits an estimator; its "OpenMP's own" is how programs wait that set nothing.

    bench/shared_machine.py [--rounds N] [--spins N] [--quick]     L3A_BUILD: the build folder; L3A_SHARED: the folder that contains data/
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("L3A_BUILD", os.path.join(HERE, "..", "build")))
SHARED = os.path.abspath(os.environ.get("L3A_SHARED", os.path.join(HERE, "..", "..", "shared")))
BACKBONE = os.path.join(SHARED, "backbones", "vit_tiny_patch16_224.safetensors")
PICTURES = os.path.join(SHARED, "data", "voc2007-small", "VOCdevkit", "VOC2007", "JPEGImages")
TARGET = 2.5
PROGRAM = """
import sys
import numpy
import l3a
rows, width, dim = map(int, sys.argv[1:])
draw = numpy.random.default_rng(1)
X = draw.random((rows, width), dtype=numpy.float32)
Y = (draw.random((rows, 8)) < 0.3).astype(numpy.int8)
l3a.L3AClassifier(dim=dim, privacy_limit=0).partial_fit(X, Y)
"""


def policies(spins):
    return {"default": {}, "active": {"OMP_WAIT_POLICY": "active"}, "OpenMP's own": {"GOMP_SPINCOUNT": "300000"},
            f"{spins} spins": {"GOMP_SPINCOUNT": str(spins)}}


def environment(policy):
    kept = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    return {**kept, "PYTHONPATH": os.path.join(HERE, "..", "python"), "L3A_LIBRARY": os.path.join(BUILD, "libl3a.so"), **policy}


def run(arguments, policy=None, program=(os.path.join(BUILD, "l3a"),), **how):
    done = subprocess.run([*program, *map(str, arguments)], env=environment(policy or {}), text=True, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, **how)
    if done.returncode:
        sys.exit(f"shared_machine.py: l3a {arguments[0]}: {done.stderr[-500:]}")


class Busy:
    """A child that spins on one processor."""

    def __enter__(self):
        processor = max(os.sched_getaffinity(0))
        code = f"import os\nos.sched_setaffinity(0, {{{processor}}})\nwhile True: pass"
        self.child = subprocess.Popen([sys.executable, "-c", code])
        time.sleep(0.2)

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()


def make_features(path, rows, width, classes):
    subprocess.run(["/usr/bin/python3", os.path.join(HERE, "..", "tests", "cli", "make_features.py"), path, "--rows", str(rows),
                    "--test-rows", "10", "--width", str(width), "--classes", str(classes)], check=True)
    return os.path.join(path, "train.safetensors")


def prepare(work, quick):
    """The commands to measure: name, arguments, and the file to remove before each run."""
    rows, width, dim, pictures = (500, 128, 512, 20) if quick else (4000, 2048, 4096, 300)
    features = make_features(os.path.join(work, "features"), rows, width, 8)
    learn = ["learn", "--quiet", "--features", features, "--dim", dim, "--classes"]
    commands = [("learn", [*learn, "class00,class01,class02,class03", os.path.join(work, "new")], "new")]
    for name, classes in ("one", "class00,class01"), ("two", "class02,class03"):
        run([*learn, classes, os.path.join(work, name)])
    commands.append(("python", [rows, width, dim], None))
    commands.append(("merge", ["merge", "--quiet", os.path.join(work, "one"), os.path.join(work, "two"), "-o", os.path.join(work, "both")],
                     "both"))
    if not os.path.isfile(BACKBONE) or not os.path.isdir(PICTURES):
        print(f"skipped: extract and predict, because {BACKBONE} or {PICTURES} is missing")
        return commands
    chosen = [os.path.join(PICTURES, name) for name in sorted(os.listdir(PICTURES))[:pictures]]
    table = os.path.join(work, "list.csv")
    with open(table, "w", encoding="utf-8") as out:
        out.write("path,labels\n")
        out.writelines(f"{path},{'odd' if i % 2 else 'even'}\n" for i, path in enumerate(chosen))
    extracted, tagger = os.path.join(work, "extracted"), os.path.join(work, "tagger")
    extract = ["extract", "--quiet", "--backbone", BACKBONE, "--data", f"list:{table}", "-o", extracted]
    run(extract)
    run(["learn", "--quiet", tagger, "--features", extracted, "--classes", "odd,even", "--dim", 512 if quick else 2048])
    commands.append(("extract", extract, "extracted"))
    commands.append(("predict", ["predict", "--quiet", tagger, "--backbone", BACKBONE, *chosen], None))
    return commands


def seconds(work, command, policy):
    name, arguments, made = command
    if made and os.path.exists(os.path.join(work, made)):
        os.remove(os.path.join(work, made))
    program = {"program": ("/usr/bin/python3", "-c", PROGRAM)} if name == "python" else {}
    start = time.perf_counter()
    run(arguments, policy, **program)
    return time.perf_counter() - start


def spread(times):
    return f"{statistics.median(times):7.3f} s ({min(times):.3f} to {max(times):.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spins", type=int, default=1000, help="length of the short spin [1000]")
    parser.add_argument("--only", default="learn,python,merge,extract,predict", help="the commands to measure [all]")
    parser.add_argument("--quick", action="store_true", help="use small sizes and one round, to check that the script works")
    arguments = parser.parse_args()
    processors = len(os.sched_getaffinity(0))
    print(f"{processors} processors, load average {os.getloadavg()[0]:.2f}; {1 if arguments.quick else arguments.rounds} rounds")
    worst = 0
    with tempfile.TemporaryDirectory() as work:
        for command in prepare(work, arguments.quick):
            if command[0] not in arguments.only.split(","):
                continue
            times = {name: ([], []) for name in policies(arguments.spins)}
            for _ in range(1 if arguments.quick else arguments.rounds):
                for name, policy in policies(arguments.spins).items():
                    times[name][0].append(seconds(work, command, policy))
                    with Busy():
                        times[name][1].append(seconds(work, command, policy))
            for name, (idle, busy) in times.items():
                ratio = statistics.median(busy) / statistics.median(idle)
                worst = max(worst, ratio if name == "default" else 0)
                print(f"{command[0]:8} {name:13} idle {spread(idle)}  busy {spread(busy)}  ratio {ratio:.2f}", flush=True)
    print(f"with one processor busy, the default takes at most {worst:.2f} times as long (target {TARGET}: "
          f"{'met' if worst <= TARGET else 'missed'})")


if __name__ == "__main__":
    main()
