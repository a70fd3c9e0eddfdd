"""What the tests of processes that mpirun starts together share: how they start, a table, and what one process makes of it."""
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from feature_file import load, save
from support import COMMAND, check, read_csv

WIDTH, CLASSES = 8, 6
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_WAIT_POLICY="passive",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none", L3A_PLUGIN_PATH=str(COMMAND.parent))
ENVIRONMENT["ASAN_OPTIONS"] = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))  # Open MPI leaks
folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(5)
centres = 1.5 * rng.normal(size=(CLASSES, WIDTH))


def table(name, rows, views=0, bad=None):
    """A feature file whose rows show one to three classes; `bad`: a row that has a NaN."""
    labels = np.zeros((rows, CLASSES), np.int8)
    for i in range(rows):
        labels[i, rng.choice(CLASSES, rng.integers(1, 4), replace=False)] = 1
    features = labels @ centres + rng.normal(size=(rows, WIDTH))
    if views:
        crops = [labels @ centres * rng.uniform(size=(rows, 1)) + rng.normal(size=(rows, WIDTH)) for _ in range(views)]
        features = np.stack([features, *crops], axis=1)
    if bad is not None:
        features[bad] = np.nan
    metadata = {"format": "l3a.features", "version": "1", "classes": "\n".join(f"c{k}" for k in range(CLASSES))}
    if views:
        metadata["views"] = str(views)
    names = "\n".join(f"{name}{i}" for i in range(rows)).encode()
    save(folder / name, {"features": features.astype(np.float32), "labels": labels, "ids": np.frombuffer(names, np.uint8)}, metadata)
    return folder / name


def command(processes, arguments):
    start = ["mpirun", "-n", str(processes)] if processes else []
    return [*start, str(COMMAND), *map(str, arguments), "--threads", "1"]


def l3a(processes, *arguments, code=0, environment=ENVIRONMENT):
    """Runs the command, alone if `processes` is 0. code: its exit code; None: any."""
    done = subprocess.run(command(processes, arguments), capture_output=True, text=True, env=environment, timeout=120)
    check(code is None or done.returncode == code, f"{processes} x {arguments}: exit {done.returncode}, not {code}: {done.stdout} {done.stderr}")
    return done


def same_models(one, other, what, but=()):
    """Numbers to 1e-9, and the same metadata but for keys with these endings."""
    (mine, about), (theirs, others) = load(one), load(other)
    check(mine.keys() == theirs.keys(), f"{what}: {list(mine)} and {list(theirs)}")
    for key in mine.keys() & theirs.keys():
        size = max(1, np.abs(mine[key].astype(float)).max(initial=0))
        gap = np.abs(mine[key].astype(float) - theirs[key].astype(float)).max(initial=0) if mine[key].shape == theirs[key].shape else np.inf
        check(gap <= 1e-9 * size, f"{what}: {key} differs by {gap}")
    for key in about.keys() | others.keys():
        if not key.startswith("xxh3") and not key.endswith(tuple(but)):
            check(about.get(key) == others.get(key), f"{what}: {key} is {about.get(key)}, and {others.get(key)}")


def same_tables(one, other, what, but=()):
    """Numbers to 1e-9, times and these columns aside."""
    rows, others = read_csv(one), read_csv(other)
    check(len(rows) == len(others) and rows, f"{what}: {len(rows)} and {len(others)} rows")
    for mine, theirs in zip(rows, others):
        for key in mine.keys() - {"seconds", *but}:
            try:
                good = abs(float(mine[key]) - float(theirs[key])) <= 1e-9 * max(1, abs(float(mine[key])))
            except ValueError:
                good = mine[key] == theirs[key]
            check(good, f"{what}: {key} is {mine[key]}, and {theirs[key]}")
