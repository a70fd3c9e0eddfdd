#!/usr/bin/env python3
"""Processes that mpirun starts together: they end with the model and the metrics of one process, and only process 0 writes and speaks.

L3A_MPI_SIZES=1,2,3,4,7 tries more numbers of processes, L3A_MPI_KILLS=50 kills a process at more moments."""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np

sys.dont_write_bytecode = True
from feature_file import save
from support import COMMAND, check, finish, skip

if not shutil.which("mpirun") or not (COMMAND.parent / "libl3a-mpi.so").exists():
    skip("mpirun or the plug-in libl3a-mpi.so is missing")
from processes import ENVIRONMENT, command, folder, l3a, rng, same_models, same_tables, table

SIZES = [int(size) for size in os.environ.get("L3A_MPI_SIZES", "2,3").split(",")]
KILLS = int(os.environ.get("L3A_MPI_KILLS", "2"))


def files(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*"))


def runs_are_those_of_one_process():
    train, test = table("train", 311), table("test", 97)
    few, views, views_test = table("few", 9), table("views", 80, 5), table("views-test", 40, 5)
    shape = ["--precision", "double", "--dim", 40, "--protocol", "B0-C2"]
    cases = {
        "all methods": [train, test, "--method", "l3a,l3a+,l3a-no-wac,joint,joint-masked,acil,dsal,gkeal,slda,finetune", "--epochs", 2],
        "l3a+": [train, test, "--method", "l3a+", "--keep-phases", 2],
        "masked": [train, test, "--method", "joint-masked", "--gamma", "auto"],
        "dynamic": [train, test, "--pseudo", "dynamic", "--tau", 1.4, "--gamma", "auto", "--block", 16],
        "thresholds": [train, test, "--thresholds", "per-class", "--eta", 0.51],
        "views": [views, views_test],
        "few rows": [few, few, "--protocol", "B0-C1", "--solver", "sums"],
    }
    for name, (learned, scored, *settings) in cases.items():
        arguments = [*shape, *settings]
        if "--protocol" in settings:
            arguments = [*shape[:-2], *settings]
        for size in 0, *(SIZES if name != "few rows" else [4 if max(SIZES) < 7 else 7]):
            if name not in ("all methods", "few rows") and size and size != SIZES[len(name) % len(SIZES)] and len(SIZES) == 2:
                continue  # one size each is enough; the first case has them all
            out = folder / f"{name} {size}"
            done = l3a(size, "run", "--train", learned, "--test", scored, *arguments, "-o", out)
            if size:
                what = f"{name}, {size} processes"
                same_models(folder / f"{name} 0/model.safetensors", out / "model.safetensors", what)
                same_tables(folder / f"{name} 0/metrics.csv", out / "metrics.csv", what)
                same_tables(folder / f"{name} 0/per_class.csv", out / "per_class.csv", what)
                check(files(out) == files(folder / f"{name} 0"), f"{what}: {files(out)}")
                check(done.stderr.count("phase 1 of") == expected.stderr.count("phase 1 of"), f"{what}: more than process 0 speaks")
                check(done.stdout.count("mAP after each phase") == 1, f"{what}: the results are not printed once: {done.stdout}")
                check(json.loads((out / "run.json").read_text())["run"].get("processes") == (size if size > 1 else None), f"{what}: run.json")
            else:
                expected = done
    return train, test


def sweeps_are_those_of_one_process(train, test):
    grid = ["--gamma", "1,auto", "--eta", "0.51,0.7", "--method", "l3a,l3a-no-pl", "--precision", "double", "--dim", 30, "--protocol", "B2-C2"]
    for size in 0, SIZES[-1]:
        l3a(size, "sweep", "--train", train, "--test", test, *grid, "-o", folder / f"sweep {size}")
    same_tables(folder / "sweep 0/sweep.csv", folder / f"sweep {SIZES[-1]}/sweep.csv", "sweep")
    check(files(folder / "sweep 0") == files(folder / f"sweep {SIZES[-1]}"), "the files of a sweep")
    again = l3a(SIZES[-1], "sweep", "--resume", "-o", folder / f"sweep {SIZES[-1]}")
    check("phase 1 of" not in again.stderr, f"a sweep that is done has nothing to resume: {again.stderr}")


def learns_and_evaluates(train, test):
    for size in 0, 2:
        path = folder / f"model {size}"
        for classes in "c0,c1,c2", "c3,c4":
            done = l3a(size, "learn", path, "--features", train, "--classes", classes, "--dim", 30, "--precision", "double")
        check(done.stdout.count("phase 2: 2 new classes") == 1, f"learn: {done.stdout}")
    same_models(folder / "model 0", folder / "model 2", "learn")
    learns_more_and_from_npy(table("more", 60))
    alone, together = (json.loads(l3a(size, "eval", folder / "model 0", "--features", test, "--format", "json").stdout) for size in (0, 3))
    check(alone == together, f"eval: {alone} and {together}")
    check(not list(folder.glob(".*l3a-*")), f"locks or temporary files are left: {list(folder.glob('.*'))}")


def learns_more_and_from_npy(more):
    labels = np.zeros((300, 3), np.int8)
    labels[np.arange(300), np.arange(300) // 100] = 1  # sorted, so that a process learns rows whose labels another one holds
    np.save(folder / "rows.npy", rng.normal(size=(300, 5)).astype(np.float32) + labels @ np.eye(3, 5, dtype=np.float32))
    np.save(folder / "labels.npy", np.asfortranarray(labels.astype(np.float64)))
    shape = ["--dim", 30, "--precision", "double", "--pseudo", "off"]
    for size in 0, 3:
        tables = ["--features", folder / "rows.npy", "--labels", folder / "labels.npy"]
        l3a(size, "learn", folder / f"npy {size}", *tables, "--classes", "class 1,class 2", *shape)
        for rows in folder / "train", more:
            l3a(size, "learn", folder / f"more {size}", "--features", rows, "--classes", "c0,c1", *shape)
    same_models(folder / "npy 0", folder / "npy 3", "labels in Fortran order")
    same_models(folder / "more 0", folder / "more 3", "more images of classes that are known")


def no_process_reads_all_features():
    wide, rows = 256, 20000
    labels = np.zeros((rows, 2), np.int8)
    labels[np.arange(rows), np.arange(rows) % 2] = 1
    save(folder / "made", {"features": rng.normal(size=(rows, wide)).astype(np.float32), "labels": labels},
         {"format": "l3a.features", "version": "1", "classes": "c0\nc1"})
    l3a(0, "merge", folder / "made", "-o", folder / "large")  # with checksums
    learn = f"'{COMMAND}' learn '{folder}/of large' --features '{folder}/large' --classes c0,c1 --dim 20 --quiet --threads 1"
    done = subprocess.run(["mpirun", "-n", "2", "sh", "-c", learn + "; grep rchar /proc/$$/io"], capture_output=True, text=True, env=ENVIRONMENT)
    read = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("rchar")]  # the shell and what it waited for
    check(done.returncode == 0 and len(read) == 2, f"what processes read: {done}")
    check(all(4 * rows * wide // 2 <= count < 4 * rows * wide * 3 // 4 for count in read), f"half of the features each, of {4 * rows * wide}: {read}")


def many_processes_on_a_machine_are_told_of_threads(train, test):
    words = "2 processes on this machine: each holds sums of 512.00 MiB"
    for size, dim, solver, times in (2, 8192, "auto", 1), (2, 8191, "auto", 0), (0, 8192, "auto", 0), (2, 8192, "scalapack", 0):
        done = l3a(size, "run", "--train", train, "--test", test, "--dim", dim, "--solver", solver, "--dry-run", code=None)
        check((done.stdout + done.stderr).count(words) == times, f"{size} processes, dim {dim}, {solver}: {done.stdout} {done.stderr}")


def one_process_is_alone(train, test):
    l3a(1, "run", "--train", train, "--test", test, "--dim", 20, "-o", folder / "single")
    check("processes" not in json.loads((folder / "single/run.json").read_text())["run"], "one process under mpirun is alone")


def failures_end_all_processes(train, test):
    bad = table("bad", 90, bad=85)
    done = l3a(3, "run", "--train", bad, "--test", test, "--protocol", "B0-C6", "--dim", 20, "-o", folder / "failed", code=2)
    check("process 2 of 3" in done.stderr and done.stderr.count("row 85") == 1, f"the process that failed says why: {done.stderr}")
    done = l3a(3, "learn", folder / "never", "--features", folder / "missing", "--classes", "c0", code=2)
    check(done.stderr.count("l3a learn:") == 1 and "process" not in done.stderr.split("-----")[0], f"one message for all: {done.stderr}")
    check(not (folder / "never").exists(), "a model of a run that failed")
    done = l3a(2, "info", train, code=2)
    check(done.stderr.count("works in one process, but 2 were started together") == 1, f"a command for one process: {done.stderr}")
    recursive = ["--dim", 20, "--solver", "recursive"]
    done = l3a(2, "run", "--train", train, "--test", test, *recursive, "-o", folder / "recursive run", code=2)
    check(done.stderr.count("learns in one process, but 2 learn together") == 1, f"the recursion in a run: {done.stderr}")
    check(not (folder / "recursive run").exists(), "a folder of a run that was refused")
    l3a(0, "learn", folder / "recursive", "--features", train, "--classes", "c0", *recursive)
    l3a(2, "eval", folder / "recursive", "--features", test)
    done = l3a(2, "learn", folder / "recursive", "--features", train, "--classes", "c1", code=2)
    check(done.stderr.count("learns in one process, but 2 learn together") == 1, f"the recursion of a model: {done.stderr}")
    again = l3a(2, "run", "--train", train, "--test", test, "--dim", 20, "-o", folder / "all methods 0", code=2)
    check(again.stderr.count("already holds a run") == 1, f"a folder that is taken: {again.stderr}")


def a_missing_plugin_is_explained(train):
    (folder / "empty").mkdir()
    nowhere = dict(ENVIRONMENT, L3A_PLUGIN_PATH=str(folder / "empty"))
    done = l3a(2, "eval", folder / "model 0", "--features", train, code=2, environment=nowhere)
    check(done.stderr.count("cannot load the plug-in") == 1 and "L3A_ALONE" in done.stderr, f"without the plug-in: {done.stderr}")
    done = l3a(2, "eval", folder / "model 0", "--features", train, "--format", "csv", environment=dict(nowhere, L3A_ALONE="1"))
    check(done.stdout.count("class,images,AP") == 2, f"processes that have nothing to do with each other: {done.stdout}")
    slurm = dict(nowhere, SLURM_STEP_NUM_TASKS="2", SLURM_PROCID="0")
    for more, notes in ({}, 1), ({"PMIX_RANK": "0", "PMIX_NAMESPACE": "job"}, 0), ({"SLURM_PROCID": "1"}, 0):
        done = l3a(0, "eval", folder / "model 0", "--features", train, code=2, environment={**slurm, **more})
        check(done.stderr.count("use srun --mpi=pmix") == notes, f"srun without PMIx, {more}: {done.stderr}")


def children(process):
    return [int(pid) for pid in subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True).stdout.split()]


def a_killed_run_resumes(train, test):
    arguments = ["run", "--train", train, "--test", test, "--protocol", "B0-C1", "--dim", 500, "--precision", "double", "--method", "l3a,dsal,er",
                 "--epochs", 2]
    start = time.monotonic()
    l3a(2, *arguments, "-o", folder / "whole")
    length, draw = time.monotonic() - start, random.Random(3)
    for number in range(KILLS):
        out = folder / f"killed {number}"
        process = subprocess.Popen(command(2, [*arguments, "-o", out]), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT)
        time.sleep(draw.uniform(0.2, 0.95) * length)
        pids = children(process)
        for pid in draw.sample(pids, min(1, len(pids))):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            check(False, "the other processes go on after one was killed")
            process.kill()
        if not (out / "run.json").exists():
            l3a(2, *arguments, "-o", out)
        else:
            l3a(2, *arguments, "--resume", "-o", out)
        for name in "model.safetensors", "per_class.csv":
            check((out / name).read_bytes() == (folder / "whole" / name).read_bytes(), f"resumed after kill {number}: {name} differs")
        same_tables(folder / "whole/metrics.csv", out / "metrics.csv", f"resumed after kill {number}")
        check(not [file for file in files(out) if "l3a-tmp" in file or "l3a-lock" in file], f"left over: {files(out)}")


def other_numbers_of_processes_do_not_resume():
    for size, out, words in (3, "whole", "needs 2 processes to continue with the same bits, but 3 were started"), (
            0, "whole", "needs 2 processes to continue with the same bits, but 1 was started"), (
            2, "single", "needs 1 process to continue with the same bits, but 2 were started"):
        done = l3a(size, "run", "--resume", "-o", folder / out, code=2)
        check(done.stderr.count(words) == 1 and "start as many processes as before" in done.stderr, f"{out}, {size}: {done.stderr}")


def the_example_learns_together():
    example = COMMAND.parent / "examples/mpi"
    if not example.exists():
        print("skipped: the example with MPI was not built")
        return
    printed = [subprocess.run([*(["mpirun", "-n", str(n)]), example], capture_output=True, text=True, env=ENVIRONMENT, timeout=60) for n in (1, 3)]
    check(all(done.returncode == 0 for done in printed), f"the example: {printed}")
    check(printed[0].stdout == printed[1].stdout and "mAP" in printed[0].stdout, f"the example, alone and with 3 processes: {printed}")


try:
    tables = runs_are_those_of_one_process()
    sweeps_are_those_of_one_process(*tables)
    learns_and_evaluates(*tables)
    no_process_reads_all_features()
    many_processes_on_a_machine_are_told_of_threads(*tables)
    one_process_is_alone(*tables)
    failures_end_all_processes(*tables)
    a_missing_plugin_is_explained(tables[0])
    a_killed_run_resumes(*tables)
    other_numbers_of_processes_do_not_resume()
    the_example_learns_together()
finally:
    shutil.rmtree(folder)
sys.exit(finish())
