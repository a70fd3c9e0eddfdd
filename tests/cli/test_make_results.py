#!/usr/bin/env python3
"""tools/make-results with small settings: it measures in pieces, does nothing twice, and its page has the numbers that `l3a run` gives and
those that the paper printed."""
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

SOURCE = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))
COMMAND = Path(os.environ["L3A_BUILD"]) / "l3a"
sys.path.insert(0, str(SOURCE / "tests" / "oracle"))
from report_runs import make_tables  # noqa: E402

SETTINGS = {"coco": ("toothbrush", 80, ("B0-C10", "B40-C10")), "voc": ("pottedplant", 20, ("B0-C4", "B10-C2"))}


def make_results(*arguments, code=0):
    done = subprocess.run(["/usr/bin/python3", SOURCE / "tools" / "make-results", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def tables_of(page, heading):
    """The tables below the first of such headings, as lists of rows."""
    part = page.split("\n### " + heading + "\n", 1)[1].split("\n### ", 1)[0]
    return [[[cell.strip(" *").replace("<u>", "").replace("</u>", "") for cell in line.strip("|").split("|")] for line in table.splitlines()]
            for table in re.findall(r"(?:^\|.*\n)+", part, flags=re.M)]


def check_numbers(work, folder, page, data, protocol):
    """The rows of l3a and joint against a run's own tables."""
    run = work / f"run-{data}-{protocol}"
    subprocess.run([COMMAND, "run", "--train", work / data / "train.safetensors", "--test", work / data / "test.safetensors", "--protocol", protocol,
                    "--method", "l3a,joint", "--seed", "2025,2026", "--dim", "32", "--quiet", "-o", run], check=True, stdout=subprocess.DEVNULL)
    with open(run / "metrics.csv", newline="") as table:
        rows = list(csv.DictReader(table))
    shown = {row[0]: row for row in tables_of(page, f"{ {'coco': 'COCO 2014', 'voc': 'VOC 2007'}[data]}, {protocol}")[0][2:]}
    for method in ("l3a", "joint"):
        last = {row["seed"]: row for row in rows if row["method"] == method}
        averages = [statistics.mean(float(r["mAP"]) for r in rows if (r["method"], r["seed"]) == (method, seed)) for seed in last]
        wanted = {2: [float(r["mAP"]) for r in last.values()], 3: [float(r["CF1"]) for r in last.values()],
                  6: [float(r["base_mAP"]) for r in last.values()], 7: [float(r["new_mAP"]) for r in last.values()]}
        if method == "l3a":
            wanted[1] = averages
        else:
            assert shown[method][1] == shown[method][5] == "–", shown[method]
        for column, values in wanted.items():
            mean, deviation = (float(part) for part in shown[method][column].split(" ± "))
            assert abs(mean - statistics.mean(values)) < 0.02 and abs(deviation - statistics.stdev(values)) < 0.02, (method, column, shown[method], values)


def check_page(work, folder):
    make_results("page", "--from", folder, "-o", work / "results.md")
    page = (work / "results.md").read_text()
    assert "{{" not in page and "](figure-3.svg)" in page
    for text in ("ViT-Tiny/16", "35,185 of the 40,137", "256×256", "| 0.55 |", "71.25 | 67.21 |", "Baseline", "48.5 | 25.6 |", "As published in the paper"):
        assert text in page, text
    printed = tables_of(page, "COCO 2014, B0-C10")[1]
    assert ["1", "CSC-R", "5/class", "TResNet-M or ViT-B/16", "79.2", "73.7", "67.3", "68.1"] in printed and len(printed) == 2 + 30, printed
    for data, protocol in (("coco", "B40-C10"), ("voc", "B0-C4")):
        check_numbers(work, folder, page, data, protocol)
    memory = page.split("## Replay memory", 1)[1].split("\n## ", 1)[0]
    assert "| er | 5 |" in memory and "| er | 20 |" in memory and "| er | 2 |" in memory, memory


def check_figure(work, folder):
    figure = xml.parse(work / "figure-3.svg").getroot()
    texts = ["".join(node.itertext()) for node in figure.iter("{http://www.w3.org/2000/svg}text")]
    assert {"COCO 2014, B0-C10", "COCO 2014, B40-C10", "VOC 2007, B0-C4", "VOC 2007, B10-C2", "l3a+", "joint"} <= set(texts), texts
    points = {"".join(node.itertext()) for node in figure.iter("{http://www.w3.org/2000/svg}title")}
    runs = [json.loads((folder / f"methods-coco-B40-C10-l3a-{seed}.json").read_text()) for seed in (2025, 2026)]
    for phases in zip(*(next(p for p in run["points"] if p["method"] == "l3a")["phases"] for run in runs)):
        assert f"l3a, {phases[0]['last']} classes: {statistics.mean(p['mAP'] for p in phases):.2f}" in points, (phases, points)


def main():
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        folder = work / "measured"
        features = []
        for data, (witness, classes, _) in SETTINGS.items():
            (work / data).mkdir()
            make_tables(work / data, [f"class {k:02d}" for k in range(classes - 1)] + [witness], rows=(700, 240), pictures=False)
            features += [f"--{data}-train", work / data / "train.safetensors", f"--{data}-test", work / data / "test.safetensors"]
        assert "there is no table 'gama'" in make_results("run", "--out", folder, "--only", "gama", code=1)
        assert "there is no" in make_results("run", "--out", folder, "--coco-train", "nowhere", "--small", code=1)
        assert "nothing has been measured" in make_results("page", "--from", folder, "-o", work / "no.md", code=1)
        late = make_results("run", "--out", folder, "--only", "gamma", "--data", "voc", "--minutes", "0.01", "--small", *features)
        assert "2 pieces are left" in late and not list(folder.glob("*.json")), late
        assert "2 pieces" in make_results("run", "--out", folder, "--only", "gamma", "--data", "voc", "--small", *features)
        part = make_results("page", "--from", folder, "-o", work / "part.md")
        assert "not measured yet: " in part and "methods, COCO 2014 B0-C10" in part, part
        make_results("run", "--out", folder, "--jobs", "2", "--small", *features)
        assert "0 pieces" in make_results("run", "--out", folder, "--small", *features), "done again"
        (folder / "gamma-voc-B0-C4-all-2025.json").unlink()
        assert "1 pieces" in make_results("run", "--out", folder, "--small", *features)
        assert not list(folder.glob("*.part"))
        check_page(work, folder)
        check_figure(work, folder)
        plan = make_results("plan", "--cores", "16")
        assert "16 cores" in plan and "methods" in plan, plan
    print("measured in pieces, once, and the page has the numbers of runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
