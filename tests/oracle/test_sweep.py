#!/usr/bin/env python3
"""Points that learn together against separate runs of each, which is another program: the sums of a group are those of its chain,
those of a run are a model's own."""
import subprocess
import sys
import tempfile
from pathlib import Path
from support import COMMAND, check, finish, read_csv

MAKE_FEATURES = Path(__file__).parent.parent / "cli" / "make_features.py"
METRICS = ["mAP", "CP", "CR", "CF1", "OP", "OR", "OF1"]
# In mixed precision a float32 product of another shape rounds otherwise, so that a score at the threshold may get another pseudo-label:
# that is one of a few thousand labels, and moved metrics by less than 0.02.
LIMITS = {"double": 1e-9, "mixed": 0.05}


def rows_of(command, path):
    subprocess.run([COMMAND, *map(str, command)], check=True, stdout=subprocess.DEVNULL)
    return read_csv(path)


def differences(left, right):
    """The largest in a metric, and in the number of pseudo-labels."""
    pairs = list(zip(left, right))
    return (max(abs(float(a[m]) - float(b[m])) for a, b in pairs for m in METRICS),
            max(abs(int(a["pseudo_labels"]) - int(b["pseudo_labels"])) for a, b in pairs))


def compare(folder, name, precision, methods, axes, *fixed):
    """A sweep over axes against a run for each of its points."""
    settings = [*fixed, "--precision", precision]
    tables = ["--train", folder / "train.safetensors", "--test", folder / "test.safetensors", "--quiet"]
    sweep = rows_of(["sweep", *tables, "--method", ",".join(methods), *settings, *(word for axis, values in axes.items() for word in
                     (f"--{axis}", ",".join(values))), "-o", folder / f"sweep-{name}"], folder / f"sweep-{name}" / "sweep.csv")
    points = {}
    for row in sweep:
        points.setdefault((row["method"], *(row[axis] for axis in axes)), []).append(row)
    for number, (point, rows) in enumerate(points.items()):
        where = folder / f"run-{name}-{number}"
        given = []
        for axis, value in zip(axes, point[1:]):
            given += ["--pseudo", "dynamic"] if value == "dynamic" else [] if value == "-" else [f"--{axis}", value]
        alone = rows_of(["run", *tables, "--method", point[0], *settings, *given, "-o", where], where / "metrics.csv")
        check(len(alone) == len(rows), f"{name}, {point}: {len(rows)} phases instead of {len(alone)}")
        metric, labels = differences(rows, alone)
        check(metric <= LIMITS[precision], f"{name}, {point}: metrics differ by {metric}")
        check(labels <= (0 if precision == "double" else 3), f"{name}, {point}: {labels} pseudo-labels differ")
        check(all(a["train_images"] == b["train_images"] and a["test_images"] == b["test_images"] for a, b in zip(rows, alone)),
              f"{name}, {point}: other images")
    return points


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        subprocess.run([sys.executable, MAKE_FEATURES, folder, "--rows", "3000", "--test-rows", "600", "--classes", "9"], check=True)
        for precision in LIMITS:
            points = compare(folder, f"gamma-{precision}", precision, ["l3a"], {"gamma": ["0.1", "1", "10", "100", "1000"]},
                             "--protocol", "B0-C3", "--dim", "96", "--eta", "0.6")
            labels = [rows[-1]["pseudo_labels"] for rows in points.values()]
            check(len(set(labels)) >= 4, f"pseudo-labels depend on gamma: {labels}")
        points = compare(folder, "grid", "double", ["l3a", "l3a-no-pl", "acil", "joint"],
                         {"gamma": ["1", "100"], "eta": ["0.6", "0.7", "dynamic"], "weights": ["sqrt", "inv"]},
                         "--protocol", "B0-C3", "--dim", "48", "--block", "700", "--tau", "2")
        kinds = [sum(point[0] == method for point in points) for method in ("l3a", "l3a-no-pl", "acil", "joint")]
        check(kinds == [12, 4, 2, 4], f"points of each method, those that would be the same left out: {kinds}")
        compare(folder, "literal", "double", ["l3a"], {"scaling": ["normalised", "literal"], "gamma": ["1", "10"]}, "--protocol",
                "B3-C2", "--dim", "32")
    return finish()


if __name__ == "__main__":
    sys.exit(main())
