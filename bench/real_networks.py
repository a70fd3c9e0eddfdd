#!/usr/bin/python3
"""Two networks with real weights on PASCAL VOC 2007, in float32 and in bf16.

    bench/real_networks.py --resnet50 FILE [--folder FOLDER] [--seeds N,…] [--dim N] [--protocol P,…]

FILE is what tools/resnet50_from_npm writes; ViT-Tiny is backbones/vit_tiny_patch16_224.safetensors in $L3A_SHARED, and the pictures are
those of data/voc2007-small there, shrunk to 224 pixels. $L3A_BUILD is the build folder. Feature files are kept in FOLDER.

Prints `l3a run` with l3a, l3a+ and joint as a table of percents, the mean over seeds; and how far the last mAP in bf16 is from that in
float32: at most 0.1 is wanted. A missed target is printed; it is not an error."""
import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from measured import report, spread

L3A = Path(os.environ.get("L3A_BUILD", "build")) / "l3a"
SHARED = Path(os.environ.get("L3A_SHARED", "../shared"))
METHODS, MEASURES, PRECISIONS = ("l3a", "l3a+", "joint"), ("mAP", "CF1", "OF1"), ("float32", "bf16")
WANTED = 0.1


def l3a(*arguments):
    subprocess.run([L3A, *map(str, arguments), "--quiet"], check=True, stdout=subprocess.DEVNULL)


def extract(folder, name, backbone, precision):
    """The feature files of both splits."""
    files = {}
    for split in ("trainval", "test"):
        files[split] = folder / f"{name}-{precision}-{split}.safetensors"
        if not files[split].exists():
            l3a("extract", "--backbone", backbone, "--backbone-precision", precision, "--data", f"voc:{SHARED}/data/voc2007-small/VOCdevkit",
                "--split", split, "-o", files[split])
    return files


def measure(files, protocol, options):
    """{method: [{measure: last value, "average": the mean mAP of all phases}] of each seed}"""
    with tempfile.TemporaryDirectory() as folder:
        l3a("run", "--train", files["trainval"], "--test", files["test"], "--protocol", protocol, "--method", ",".join(METHODS), "--seed",
            options.seeds, "--dim", options.dim, "-o", f"{folder}/run")
        with open(f"{folder}/run/metrics.csv", newline="") as table:
            rows = list(csv.DictReader(table))
    found = {}
    for method in METHODS:
        for seed in options.seeds.split(","):
            own = [row for row in rows if row["method"] == method and row["seed"] == seed]
            last = {name: float(own[-1][name]) for name in MEASURES}
            found.setdefault(method, []).append({**last, "average": statistics.mean(float(row["mAP"]) for row in own)})
    return found


def cell(rows, name):
    values = [row[name] for row in rows]
    return f"{statistics.mean(values):.2f}" + (f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else "")


def compare(options, name, backbone):
    files = {precision: extract(options.folder, name, backbone, precision) for precision in PRECISIONS}
    for protocol in options.protocol.split(","):
        found = {precision: measure(files[precision], protocol, options) for precision in PRECISIONS}
        for method in METHODS:
            for precision in PRECISIONS:
                rows = found[precision][method]
                print(f"| {name} | {precision} | {protocol} | {method} | {cell(rows, 'average') if method != 'joint' else '–'} | " +
                      " | ".join(cell(rows, measure) for measure in MEASURES) + " |", flush=True)
            yield name, protocol, method, [abs(a["mAP"] - b["mAP"]) for a, b in zip(*(found[precision][method] for precision in PRECISIONS))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resnet50", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path("build/real-networks"))
    parser.add_argument("--seeds", default="2025,2026,2027")
    parser.add_argument("--dim", default="2048")
    parser.add_argument("--protocol", default="B0-C4,B10-C2")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print("| network | numbers | protocol | method | average mAP | last mAP | CF1 | OF1 |\n|---|---|---|---|---|---|---|---|", flush=True)
    networks = [("ViT-Tiny", SHARED / "backbones/vit_tiny_patch16_224.safetensors"), ("ResNet-50", options.resnet50)]
    differences = [difference for name, backbone in networks for difference in compare(options, name, backbone)]
    for name, protocol, method, points in differences:
        report(f"{name}, {protocol}, {method}: last mAP in bf16 from that in float32", f"at most {WANTED}", spread(points, "{:.3f}"),
               max(points) <= WANTED, "bench/real_networks.py")


if __name__ == "__main__":
    sys.exit(main())
