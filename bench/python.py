#!/usr/bin/python3
"""Measures what Python adds to the library: in partial_fit, and in decision_function of one row.

    bench/python.py [--rows N] [--width N] [--dim N] [--classes N] [--rounds N] [--quick]
        L3A_BUILD           the build folder

  partial_fit         seconds of one phase outside the library: the whole call, less the time in the library's functions, plus that in
                      the callbacks that they make
  decision_function   of one row, in turns with l3a_model_score called straight from ctypes with everything prepared

A missed target is printed; it is not an error."""
import argparse
import os
import statistics
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = os.path.abspath(os.environ.get("L3A_BUILD", HERE.parent / "build"))
os.environ["L3A_LIBRARY"] = os.path.join(BUILD, "libl3a.so")
sys.path.insert(0, str(HERE.parent / "python"))

import numpy  # noqa: E402

import l3a  # noqa: E402
from l3a._library import Context, library  # noqa: E402
from measured import report  # noqa: E402


class Clock:
    """Adds up the seconds in a function."""

    def __init__(self, function):
        self.function, self.seconds, self.calls = function, 0.0, 0

    def __call__(self, *arguments):
        start = time.perf_counter()
        try:
            return self.function(*arguments)
        finally:
            self.seconds += time.perf_counter() - start
            self.calls += 1


def measure_learning(settings, command):
    """The model, and the seconds that its phase spent in Python."""
    draw = numpy.random.default_rng(1)
    X = draw.random((settings.rows, settings.width), dtype=numpy.float32)
    Y = (draw.random((settings.rows, settings.classes)) < 0.05).astype(numpy.int8)
    Y[numpy.arange(settings.rows), draw.integers(0, settings.classes, settings.rows)] = 1
    names = [f"class {k}" for k in range(settings.classes)]
    model = l3a.L3AClassifier(dim=settings.dim, privacy_limit=0)
    inside, events, call, take = Clock(None), Clock(None), Context.call_function, Context._take_event

    def timed_call(self, function, *arguments):
        inside.function = function
        call(self, inside, *arguments)

    def timed_event(self, event):
        events.function = take.__get__(self)
        return events(event)
    Context.call_function, Context._take_event = timed_call, timed_event
    start = time.perf_counter()
    model.partial_fit(X, Y, classes=names)
    whole = time.perf_counter() - start
    Context.call_function, Context._take_event = call, take
    outside = whole - inside.seconds + events.seconds
    print(f"partial_fit of {settings.rows} x {settings.width} at dim {settings.dim}: {whole:.2f} s, in the library {inside.seconds:.2f} s, "
          f"{events.calls} callbacks {1000 * events.seconds:.1f} ms")
    report("partial_fit outside the library", "at most 50 ms", f"{1000 * outside:.1f} ms", outside <= 0.05, command)
    return model, X


def measure_scoring(model, X, rounds, command):
    """Medians of single calls, taken in turns so that what else the machine does meets both."""
    row, out = numpy.ascontiguousarray(X[:1]), numpy.empty((1, len(model.classes_)), dtype=numpy.float32)
    score, handle, at, to = library.l3a_model_score, model._model.handle, row.ctypes.data, out.ctypes.data
    ways = {"C": lambda: score(handle, at, 1, to), "Python": lambda: model.decision_function(row)}
    seconds = {name: [] for name in ways}
    for i in range(rounds):
        for name in sorted(ways, reverse=i % 2 == 1):
            start = time.perf_counter()
            ways[name]()
            seconds[name].append(time.perf_counter() - start)
    assert (model.decision_function(row) == out).all()
    c, python = statistics.median(seconds["C"]), statistics.median(seconds["Python"])
    report("decision_function of one row", "at most 1.1 of C, plus 50 µs", f"C {1e6 * c:.0f} µs, Python {1e6 * python:.0f} µs: "
           f"{python / c:.3f}, {1e6 * (python - c):+.0f} µs", python <= 1.1 * c + 50e-6, command)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=25000)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--dim", type=int, default=8192)
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, and dim 1024")
    settings = parser.parse_args()
    if settings.quick:
        settings.rows, settings.dim = settings.rows // 10, 1024
    warnings.simplefilter("ignore")
    command = "bench/python.py" + " --quick" * settings.quick
    model, X = measure_learning(settings, command)
    measure_scoring(model, X, settings.rounds, command)
    small = l3a.L3AClassifier(dim=64, privacy_limit=0, threads=1).fit(X[:500, :64], numpy.arange(500) % 2)
    small._single = False  # the scores of both classes, as the library gives them
    measure_scoring(small, numpy.ascontiguousarray(X[:1, :64]), settings.rounds, command)


if __name__ == "__main__":
    main()
