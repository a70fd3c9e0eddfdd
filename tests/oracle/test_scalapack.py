#!/usr/bin/env python3
"""Solver scalapack: processes that hold the sums of a model together end with the model of one process.

L3A_MPI_SIZES=1,2,3,4,7 tries more numbers of processes."""
import os
import shutil
import sys

sys.dont_write_bytecode = True
from support import COMMAND, check, finish, skip

plugin = COMMAND.parent / "libl3a-mpi.so"
if not shutil.which("mpirun") or not plugin.exists() or b"pdpotrf_" not in plugin.read_bytes():
    skip("mpirun, the plug-in libl3a-mpi.so or ScaLAPACK is missing")
from processes import folder, l3a, same_models, same_tables, table

SIZES = [int(size) for size in os.environ.get("L3A_MPI_SIZES", "2,3,4").split(",")]


def solver(processes):
    return ["--solver", "scalapack" if processes else "sums"]


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
                same_tables(folder / f"{name} 0" / file, folder / f"{name} {size}" / file, f"{name}, {size} processes", but=["solver"])
            same_models(folder / f"{name} 0/model.safetensors", folder / f"{name} {size}/model.safetensors", f"{name}, {size} processes", but=["solver"])


def models_are_loaded_and_saved(train, test):
    """A model that is learned in two commands, and then in one process."""
    for size in 0, *SIZES:
        for classes in "c0,c1,c2", "c3,c4":
            l3a(size, "learn", folder / f"model {size}", "--features", train, "--classes", classes,
                *(["--dim", 300, "--precision", "double", *solver(size)] if classes[1] == "0" else []))
        if size:
            same_models(folder / "model 0", folder / f"model {size}", f"learn, {size} processes", but=["solver"])
    l3a(0, "learn", folder / f"model {SIZES[0]}", "--features", train, "--classes", "c5")
    l3a(0, "learn", folder / "model 0", "--features", train, "--classes", "c5")
    same_models(folder / "model 0", folder / f"model {SIZES[0]}", "a phase in one process", but=["solver"])
    l3a(0, "eval", folder / f"model {SIZES[-1]}", "--features", test)
    l3a(2, "eval", folder / f"model {SIZES[-1]}", "--features", test)


def points_of_a_sweep_learn_in_turn(train, test):
    for size in 0, SIZES[0]:
        l3a(size, "sweep", "--train", train, "--test", test, "--gamma", "1,10", "--eta", "0.51,0.7", "--dim", 30, "--precision", "double",
            "--protocol", "B2-C2", *solver(size), "-o", folder / f"sweep {size}")
    same_tables(folder / "sweep 0/sweep.csv", folder / f"sweep {SIZES[0]}/sweep.csv", "sweep", but=["solver"])


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
