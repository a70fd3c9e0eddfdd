#!/usr/bin/env python3
"""The command on real COCO features against the numbers of the NumPy reference, phase by phase. A single method is a run; several
are a sweep, which expands the rows once for all of them."""
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from support import COMMAND, check, finish

SHARED = Path(os.environ.get("L3A_SHARED", "../shared"))
SANITIZE = bool((os.environ.get("L3A_SANITIZE") or os.environ.get("L3A_QUICK")))
GOLDEN = SHARED / "golden" / "l3a_coco.json"
TRAIN, TEST = (SHARED / "data" / "coco2014-vit-tiny" / f"{split}.safetensors" for split in ("train", "val"))
LIMITS = {"mAP": 5e-5, "CF1": 5e-4, "OF1": 5e-4}


def learn(protocol, dim, methods, *options):
    """The rows of the table of metrics, by method."""
    command, table = ("run", "metrics.csv") if len(methods) == 1 else ("sweep", "sweep.csv")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([COMMAND, command, "--train", TRAIN, "--test", TEST, "--protocol", protocol, "--dim", str(dim), "--method",
                        ",".join(methods), "--quiet", "-o", f"{folder}/out", *options], check=True, stdout=subprocess.DEVNULL)
        with open(f"{folder}/out/{table}", newline="") as lines:
            rows = list(csv.DictReader(lines))
    return {method: [row for row in rows if row["method"] == method] for method in methods}


def compare(name, rows, expected):
    check(len(rows) == len(expected), f"{name}: {len(rows)} phases instead of {len(expected)}")
    worst = dict.fromkeys([*LIMITS, "pseudo_labels"], 0)
    for number, (row, golden) in enumerate(zip(rows, expected), 1):
        where = f"{name}, phase {number}"
        for key in "train_images", "test_images":
            check(int(row[key]) == golden[key], f"{where}: {key} {row[key]} instead of {golden[key]}")
        check([int(row["first"]), int(row["last"])] == golden["classes"], f"{where}: classes")
        for key, limit in LIMITS.items():
            off = abs(float(row[key]) - golden[key])
            worst[key] = max(worst[key], off)
            check(off <= limit, f"{where}: {key} {row[key]} instead of {golden[key]}")
        off = abs(int(row["pseudo_labels"]) - golden["pseudo_labels"])
        worst["pseudo_labels"] = max(worst["pseudo_labels"], off)
        check(off == 0, f"{where}: {row['pseudo_labels']} pseudo-labels instead of {golden['pseudo_labels']}")
    print(f"{name}: largest deviation", ", ".join(f"{key} {value:.4g}" for key, value in worst.items()), flush=True)


def compare_precisions(mixed):
    exact = learn("B40-C10", 1024, ["l3a"], "--precision", "double")["l3a"]
    offs = [abs(float(a["mAP"]) - float(b["mAP"])) for a, b in zip(mixed, exact)]
    check(len(mixed) == len(exact) and max(offs) <= 0.01, f"mixed and double differ by {max(offs)} in mAP")
    print(f"mixed against double: largest deviation mAP {max(offs):.4g}", flush=True)


def main():
    missing = [str(path) for path in (GOLDEN, TRAIN, TEST) if not path.exists()]
    if missing:
        print("skipped: not here:", ", ".join(missing))
        sys.exit(77)
    runs = json.loads(GOLDEN.read_text())["runs"]
    if SANITIZE:
        runs = [r for r in runs if (r["name"], r["settings"]["protocol"], r["settings"]["dim"]) == ("l3a", "B0-C10", 1024)]
    groups = {}
    for golden in runs:
        settings = golden["settings"]
        key = settings["protocol"], settings["dim"], settings["literal"], settings["gamma"], settings["eta"], settings["theta"], settings["seed"]
        groups.setdefault(key, {})["l3a" if golden["name"] == "l3a-literal" else golden["name"]] = golden["rows"]
    mixed = None
    for (protocol, dim, literal, gamma, eta, theta, seed), expected in groups.items():
        options = ["--scaling", "literal"] if literal else []
        options += ["--gamma", str(gamma), "--eta", str(eta), "--theta", str(theta), "--seed", str(seed)]
        rows = learn(protocol, dim, list(expected), *options)
        for method in expected:
            compare(f"{method}{' literal' if literal else ''}, {protocol}, dim {dim}", rows[method], expected[method])
        if (protocol, dim, literal) == ("B40-C10", 1024, False):
            mixed = rows["l3a"]
    if not SANITIZE:
        compare_precisions(mixed)
    sys.exit(finish())


main()
