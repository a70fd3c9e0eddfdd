#!/usr/bin/env python3
"""Solver scalapack: processes that hold the sums of a model together end with the model of one process.

L3A_MPI_SIZES=1,2,3,4,7 tries more numbers of processes."""
import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
from feature_file import load, save
from support import COMMAND, check, finish

plugin = COMMAND.parent / "libl3a-mpi.so"
if not shutil.which("mpirun") or not plugin.exists() or b"pdpotrf_" not in plugin.read_bytes():
    print("skipped: mpirun, the plug-in libl3a-mpi.so or ScaLAPACK is missing")
    sys.exit(77)
SIZES = [int(size) for size in os.environ.get("L3A_MPI_SIZES", "2,3,4").split(",")]
WIDTH, CLASSES = 8, 6
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_WAIT_POLICY="passive", ASAN_OPTIONS="detect_leaks=0",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none", L3A_PLUGIN_PATH=str(COMMAND.parent))
folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(5)
centres = 1.5 * rng.normal(size=(CLASSES, WIDTH))


def table(name, rows, bad=None):
    labels = np.zeros((rows, CLASSES), np.int8)
    for i in range(rows):
        labels[i, rng.choice(CLASSES, rng.integers(1, 4), replace=False)] = 1
    features = labels @ centres + rng.normal(size=(rows, WIDTH))
    if bad is not None:
        features[bad] = np.nan
    metadata = {"format": "l3a.features", "version": "1", "classes": "\n".join(f"c{k}" for k in range(CLASSES))}
    names = "\n".join(f"{name}{i}" for i in range(rows)).encode()
    save(folder / name, {"features": features.astype(np.float32), "labels": labels, "ids": np.frombuffer(names, np.uint8)}, metadata)
    return folder / name


def l3a(processes, *arguments, code=0):
    """Runs the command, alone if `processes` is 0."""
    start = ["mpirun", "-n", str(processes)] if processes else []
    done = subprocess.run([*start, str(COMMAND), *map(str, arguments), "--threads", "1"], capture_output=True, text=True, env=ENVIRONMENT,
                          timeout=120)
    check(done.returncode == code, f"{processes} x {arguments}: exit {done.returncode}, not {code}: {done.stdout} {done.stderr}")
    return done


def solver(processes):
    return ["--solver", "scalapack" if processes else "sums"]


def same_models(one, other, what):
    (mine, about), (theirs, others) = load(one), load(other)
    check(mine.keys() == theirs.keys(), f"{what}: {list(mine)} and {list(theirs)}")
    for key in mine.keys() & theirs.keys():
        size = max(1, np.abs(mine[key].astype(float)).max(initial=0))
        gap = np.abs(mine[key].astype(float) - theirs[key].astype(float)).max(initial=0) if mine[key].shape == theirs[key].shape else np.inf
        check(gap <= 1e-9 * size, f"{what}: {key} differs by {gap}")
    changed = {key for key in about.keys() | others.keys() if about.get(key) != others.get(key) and not key.startswith("xxh3")}
    check(all(key.endswith("solver") for key in changed), f"{what}: {changed} differ")


def same_tables(one, other, what):
    rows, others = (list(csv.DictReader(open(path))) for path in (one, other))
    check(len(rows) == len(others) and rows, f"{what}: {len(rows)} and {len(others)} rows")
    for mine, theirs in zip(rows, others):
        for key in mine.keys() - {"seconds", "solver"}:
            try:
                good = abs(float(mine[key]) - float(theirs[key])) <= 1e-9 * max(1, abs(float(mine[key])))
            except ValueError:
                good = mine[key] == theirs[key]
            check(good, f"{what}: {key} is {mine[key]}, and {theirs[key]}")


def runs_are_those_of_one_process(train, test):
    few = table("few", 9)
    cases = {
        "several blocks of tiles": [train, "--protocol", "B0-C2", "--dim", 700],
        "blocks of rows": [train, "--protocol", "B0-C3", "--dim", 50, "--block", 16, "--pseudo", "dynamic", "--gamma", "auto"],
        "few rows": [few, "--protocol", "B0-C1", "--dim", 20],
    }
    for name, (learned, *settings) in cases.items():
        for size in 0, *SIZES:
            l3a(size, "run", "--train", learned, "--test", test, "--precision", "double", *settings, *solver(size), "-o", folder / f"{name} {size}")
        for size in SIZES:
            for file in "metrics.csv", "per_class.csv":
                same_tables(folder / f"{name} 0" / file, folder / f"{name} {size}" / file, f"{name}, {size} processes")
            same_models(folder / f"{name} 0/model.safetensors", folder / f"{name} {size}/model.safetensors", f"{name}, {size} processes")


def models_are_loaded_and_saved(train, test):
    """A model that is learned in two commands, and then in one process."""
    for size in 0, *SIZES:
        for classes in "c0,c1,c2", "c3,c4":
            l3a(size, "learn", folder / f"model {size}", "--features", train, "--classes", classes,
                *(["--dim", 300, "--precision", "double", *solver(size)] if classes[1] == "0" else []))
        if size:
            same_models(folder / "model 0", folder / f"model {size}", f"learn, {size} processes")
    l3a(0, "learn", folder / f"model {SIZES[0]}", "--features", train, "--classes", "c5")
    l3a(0, "learn", folder / "model 0", "--features", train, "--classes", "c5")
    same_models(folder / "model 0", folder / f"model {SIZES[0]}", "a phase in one process")
    l3a(0, "eval", folder / f"model {SIZES[-1]}", "--features", test)
    l3a(2, "eval", folder / f"model {SIZES[-1]}", "--features", test)


def points_of_a_sweep_learn_in_turn(train, test):
    for size in 0, SIZES[0]:
        l3a(size, "sweep", "--train", train, "--test", test, "--gamma", "1,10", "--eta", "0.51,0.7", "--dim", 30, "--precision", "double",
            "--protocol", "B2-C2", *solver(size), "-o", folder / f"sweep {size}")
    same_tables(folder / "sweep 0/sweep.csv", folder / f"sweep {SIZES[0]}/sweep.csv", "sweep")


def refusals_are_clear(train, test):
    done = l3a(0, "learn", folder / "never", "--features", train, "--classes", "c0", "--solver", "scalapack", code=2)
    check("mpirun" in done.stderr and "solver sums" in done.stderr, f"alone: {done.stderr}")
    done = l3a(2, "run", "--train", train, "--test", test, "--method", "l3a+", "--solver", "scalapack", "-o", folder / "plus", code=2)
    check(done.stderr.count("cannot be kept apart") == 1, f"l3a+: {done.stderr}")
    bad = table("bad", 90, bad=85)
    done = l3a(3, "run", "--train", bad, "--test", test, "--protocol", "B0-C6", "--dim", 20, "--solver", "scalapack", "-o", folder / "bad-run", code=2)
    check("process 2 of 3" in done.stderr and done.stderr.count("row 85") == 1, f"the process that failed says why: {done.stderr}")
    check(not (folder / "never").exists(), "a model that was refused")


try:
    tables = table("train", 311), table("test", 97)
    runs_are_those_of_one_process(*tables)
    models_are_loaded_and_saved(*tables)
    points_of_a_sweep_learn_in_turn(*tables)
    refusals_are_clear(*tables)
finally:
    shutil.rmtree(folder)
sys.exit(finish())
