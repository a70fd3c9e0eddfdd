#!/usr/bin/env python3
"""base_mAP and new_mAP against NumPy: the classes of the first phase, and those of each phase, on the test images that show one of them.
In the tables of runs and sweeps, in JSON, and in folders of older versions, which lack them."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from support import COMMAND, check, finish, read_csv
from test_methods import OPTIONS, analytic, joint, made_up, measure, np, phases

DIM = 48
OLD = "method,seed,phase,first,last,train_images,test_images,pseudo_labels,mAP,CP,CR,CF1,OP,OR,OF1,seconds"


def expected(data, protocol):
    """(base, new) of each phase of l3a, and of joint's only one, whose new classes are the protocol's last."""
    bounds = phases(protocol, data.labels.shape[1])

    def part(scores, low, high):
        return measure(scores[:, low:high], data.test_labels[:, low:high], 0)[0]

    made = analytic(data, protocol, DIM, weights="sqrt", pseudo=True)
    rows = [(part(scores, 0, bounds[0][1]), part(scores, *bound)) for (scores, *_), bound in zip(made, bounds)]
    scores = joint(data, protocol, DIM)[0][0]
    return {"l3a": rows, "joint": [(part(scores, 0, bounds[0][1]), part(scores, *bounds[-1]))]}


def command(data, name, protocol, *more):
    f = data.folder
    options = [f"--{key}={value}" for key, value in {**OPTIONS, "dim": DIM}.items()]
    done = subprocess.run([COMMAND, name, "--train", f / "x.npy", "--train-labels", f / "y.npy", "--test", f / "xt.npy", "--test-labels",
                           f / "yt.npy", "--names", f / "names.txt", "--protocol", protocol, "--method", "l3a,joint", "--quiet", *options, *more],
                          capture_output=True, text=True)
    check(done.returncode == 0, f"l3a {name}: {done.stderr}")
    return done.stdout


def check_rows(what, rows, wanted):
    for method, pairs in wanted.items():
        own = [row for row in rows if row["method"] == method]
        check(len(own) == len(pairs), f"{what}, {method}: {len(own)} rows")
        for row, (base, new) in zip(own, pairs):
            check(abs(float(row["base_mAP"]) - base) < 1e-5, f"{what}, {method}, phase {row['phase']}: base {row['base_mAP']}, not {base}")
            check(abs(float(row["new_mAP"]) - new) < 1e-5, f"{what}, {method}, phase {row['phase']}: new {row['new_mAP']}, not {new}")


def check_protocol(data, protocol, folder):
    wanted = expected(data, protocol)
    base, new = wanted["l3a"][-1]
    check(abs(base - new) > 0.1 and abs(wanted["l3a"][0][0] - base) > 0.1, f"{protocol}: nothing to tell apart")
    shown = json.loads(command(data, "run", protocol, "-o", folder / "run", "--format", "json"))
    check_rows("metrics.csv", read_csv(folder / "run" / "metrics.csv"), wanted)
    check_rows("run, JSON", shown["rows"], wanted)
    for summary in shown["summary"]:
        check(abs(summary["base_mAP"]["mean"] - wanted[summary["method"]][-1][0]) < 1e-5, f"summary of {summary['method']}: base")
        check(abs(summary["new_mAP"]["mean"] - wanted[summary["method"]][-1][1]) < 1e-5, f"summary of {summary['method']}: new")
    points = json.loads(command(data, "sweep", protocol, "-o", folder / "sweep", "--format", "json"))["points"]
    check_rows("sweep.csv", read_csv(folder / "sweep" / "sweep.csv"), wanted)
    for point in points:
        check(abs(point["base_mAP"]["mean"] - wanted[point["method"]][-1][0]) < 1e-5, f"point {point['method']}: base")
        check(abs(point["new_mAP"]["mean"] - wanted[point["method"]][-1][1]) < 1e-5, f"point {point['method']}: new")


def check_old(folder):
    """A folder without the two columns is read."""
    path = folder / "run" / "metrics.csv"
    (folder / "run" / "checksums.csv").unlink(missing_ok=True)  # nor had older versions this
    lines = path.read_text().splitlines()
    path.write_text("".join(",".join(line.split(",")[:16]) + "\n" for line in lines))
    check(path.read_text().splitlines()[0] == OLD, "the columns of an older version")
    done = subprocess.run([COMMAND, "report", folder / "run"], capture_output=True, text=True)
    check(done.returncode == 0 and "Base mAP" not in (folder / "run" / "report.html").read_text(), f"the page of an old folder: {done.stderr}")


def main():
    with tempfile.TemporaryDirectory() as work:
        data = made_up(Path(work) / "data", np.random.default_rng(11))
        for number, protocol in enumerate(("B0-C3", "B4-C2")):
            folder = Path(work) / str(number)
            folder.mkdir()
            check_protocol(data, protocol, folder)
            check("Base mAP" in (folder / "run" / "report.html").read_text(), "the page has the charts")
        check_old(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
