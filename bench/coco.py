#!/usr/bin/python3
"""The whole COCO experiment, B0-C10, as a user runs it: seconds, and the peak memory of the command."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def data_folder():
    shared = os.environ.get("L3A_SHARED", os.path.join(HERE, "..", "..", "shared"))
    return os.path.normpath(os.path.join(shared, "data", "coco2014-vit-tiny"))


def build_folder():
    return os.environ.get("L3A_BUILD", os.path.join(HERE, "..", "build"))


def measure(dim, folder):
    """The command's exit status, seconds, and peak resident memory in GiB."""
    data = data_folder()
    command = [os.path.join(build_folder(), "l3a"), "run", "--train", os.path.join(data, "train.safetensors"), "--test",
               os.path.join(data, "val.safetensors"), "--protocol", "B0-C10", "--dim", str(dim), "-o", folder]
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, time.perf_counter() - start, usage.ru_maxrss / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=8192)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args()
    if not os.path.isdir(data_folder()):
        print(f"coco.py: skipped, there is no {data_folder()}; set L3A_SHARED to the folder that contains data/", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            status, seconds, peak = measure(options.dim, os.path.join(folder, "run"))
            finished = os.path.exists(os.path.join(folder, "run", "metrics.csv"))
        except OSError as error:
            sys.exit(f"coco.py: {error}; build the command first, or set L3A_BUILD to the build folder")
    if status or not finished:
        sys.exit(f"coco.py: l3a run ended with status {status}, {'with' if finished else 'without'} results")
    if options.json:
        print(json.dumps({"dim": options.dim, "seconds": seconds, "peak_gib": peak}))
    else:
        print(f"COCO B0-C10, dim {options.dim}: {seconds:.1f} s, peak memory {peak:.2f} GiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
