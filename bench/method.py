#!/usr/bin/python3
"""Measures what a method of one's own in Python costs besides its arithmetic: ridge regression on a random layer, as callbacks in Python
and in C. Compared are the seconds of a run less those in the method's own code. The two alternate.

    bench/method.py [--train FILE] [--test FILE] [--dim N] [--protocol P] [--rounds N]
        L3A_BUILD           the build folder
        L3A_SHARED          the folder that contains data/coco2014-vit-tiny

A missed target is printed; it is not an error."""
import argparse
import ctypes
import os
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
BUILD = os.path.abspath(os.environ.get("L3A_BUILD", HERE.parent / "build"))
SHARED = Path(os.environ.get("L3A_SHARED", HERE.parent.parent / "shared")) / "data/coco2014-vit-tiny"
os.environ["L3A_LIBRARY"] = os.path.join(BUILD, "libl3a.so")
sys.path.insert(0, str(HERE.parent / "python"))

import numpy  # noqa: E402

from l3a._declarations import l3a_method  # noqa: E402
from l3a._experiment import _Request  # noqa: E402
from measured import report, spread  # noqa: E402

TARGET = 1.05


class Ridge:
    """acil: ridge regression on ReLU(x B). `inside` is the time in its own code."""
    name = "ridge"
    inside = 0.0

    def __init__(self, dim):
        self.dim, self.A, self.C, self.W = dim, None, None, None

    def expand(self, features):
        return numpy.maximum(features @ self.B, 0)

    def learn(self, features, labels, classes):
        start = time.perf_counter()
        if self.A is None:
            self.B = numpy.random.default_rng(1).normal(size=(features.shape[1], self.dim)).astype("float32")
            self.A, self.C = 100 * numpy.eye(self.dim), numpy.zeros((self.dim, 0))
        sums = numpy.zeros((self.dim, labels.shape[1]))
        for first in range(0, len(features), 4096):
            X, Y = self.expand(features[first:first + 4096]), (labels[first:first + 4096] == 1).astype("float32")
            self.A += X.T @ X
            sums += X.T @ Y
        self.C = numpy.hstack([self.C, sums])
        self.W = numpy.linalg.solve(self.A, self.C).astype("float32")
        Ridge.inside += time.perf_counter() - start

    def scores(self, features):
        start = time.perf_counter()
        made = self.expand(features) @ self.W
        Ridge.inside += time.perf_counter() - start
        return made


def seconds(settings, method, own=None):
    """Of a run. own: in place of the method, callbacks."""
    request = _Request("run", settings.train, settings.test, settings.protocol, method, 2025, None, False, "lexicographic", None, None, 0, 0,
                       None, False)
    if own is not None:
        request.methods, request.own = ["ridge"], [SimpleNamespace(table=own, name="ridge", failure=None)]
    start = time.perf_counter()
    request.execute()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", default=str(SHARED / "train.safetensors"))
    parser.add_argument("--test", default=str(SHARED / "val.safetensors"))
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--protocol", default="B0-C10")
    parser.add_argument("--rounds", type=int, default=5)
    settings = parser.parse_args()
    library = ctypes.CDLL(os.path.join(BUILD, "libbench_ridge_method.so"))
    library.ridge_method.restype, library.ridge_method.argtypes = ctypes.POINTER(l3a_method), [ctypes.c_size_t]
    library.ridge_seconds.restype = ctypes.c_double
    ratios = []
    for _ in range(settings.rounds):
        table = library.ridge_method(settings.dim).contents
        compiled = seconds(settings, "l3a", table) - library.ridge_seconds()
        Ridge.inside = 0.0
        python = seconds(settings, Ridge(settings.dim)) - Ridge.inside
        ratios.append(python / compiled)
        print(f"outside the method: Python {python:.3f} s, C {compiled:.3f} s, ratio {python / compiled:.3f}; "
              f"inside: {Ridge.inside:.2f} s, {library.ridge_seconds():.2f} s", flush=True)
    report(f"a method in Python, outside its own code, times the same in C (COCO, d {settings.dim})", f"at most {TARGET}",
           spread(ratios, "{:.3f}"), statistics.median(ratios) <= TARGET, "bench/method.py")


if __name__ == "__main__":
    main()
