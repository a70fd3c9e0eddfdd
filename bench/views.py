#!/usr/bin/python3
"""What views gain and cost, on PASCAL VOC 2007 and a part of MS-COCO 2014 with ViT-Tiny/16.

    bench/views.py [--only PART,…] [--seeds N,…] [--dim N] [--protocol P] [--pairs] [--quick]
        --features FOLDER   where the feature files with 14 views are, or are made: an hour on two cores [build/views]
        --backbone FILE     the checkpoint [$L3A_BACKBONE, or backbones/vit_tiny_patch16_224.safetensors in $L3A_SHARED]
        L3A_BUILD, L3A_SHARED  the build folder, and the folder with data/voc2007-small and data/coco2014-small

  accuracy  `l3a run` with l3a, l3a+ and joint at d = 2048, gamma auto and thresholds per-class: VOC B0-C4, COCO B0-C10; learned and scored with 1, 5,
            9 and 14 views, and learned with 1 and 5 and scored with 14. The mean over seeds of the last mAP, CF1 and OF1, the seconds of all phases, and
            what the features take on the disk.
  labels    `l3a run` with l3a, 14 views, thresholds per-class and each rule for pseudo-labels (`--pseudo-from`), the combined score also with a raised
            threshold: VOC B0-C4 and B10-C2, COCO B0-C10 and B40-C10. mAP and CF1, last and average over phases; pseudo-labels made, and how many are
            right. Raised thresholds, and from --dim 4096 on also the rules, are points of one `l3a sweep`, which shares their sums but does not say how
            many labels are right
  pairs     the last mAP of l3a+ for all pairs of views in learning and scoring (--pairs)
  extract   `l3a extract` of the same 64 pictures with 1, 5, 9 and 14 views, in turns; and how far the features of these pictures in FOLDER, which may
            have been made elsewhere, are from those with 14 views

The pictures of data/voc2007-small were shrunk to 224 pixels; data/coco2014-small has 3,000 training and 2,000 test pictures of COCO, squashed to
256 x 256. A missed target is printed; it is not an error."""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from measured import conditions, load, report, spread

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "oracle"))
import feature_file  # noqa: E402

BUILD = os.path.abspath(os.environ.get("L3A_BUILD", os.path.join(HERE, "..", "build")))
SHARED = os.path.abspath(os.environ.get("L3A_SHARED", os.path.join(HERE, "..", "..", "shared")))
SETS = {"VOC": ("voc:{}/data/voc2007-small/VOCdevkit", "trainval", "test", "B0-C4"),
        "COCO": ("coco:{}/data/coco2014-small", "train2014", "val2014", "B0-C10")}
METHODS = ["l3a+", "l3a", "joint"]
TARGETS = {"VOC": (88.3, 1), "COCO": (66.8, 2)}  # last mAP of l3a+ with 14 views, and what CF1 gains


def l3a(*arguments):
    done = subprocess.run([os.path.join(BUILD, "l3a"), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"l3a {' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def tables(options, name):
    """The feature files of a data set, made if need be."""
    data, train, test, _ = SETS[name]
    os.makedirs(options.features, exist_ok=True)
    paths = [os.path.join(options.features, f"{name.lower()}-{split}.safetensors") for split in (train, test)]
    for path, split in zip(paths, (train, test)):
        if not os.path.exists(path):
            print(f"{path}: is being made", flush=True)
            l3a("extract", "--backbone", options.backbone, "--data", data.format(SHARED), "--split", split, "--views", 14, "--quiet", "-o", path)
    return paths


def images(path):
    """The number of images and of numbers in a row."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return header["features"]["shape"][0], header["features"]["shape"][2]


def measure(options, name, learned, scored, methods):
    """Of each method the last mAP, CF1, OF1 and the seconds of all phases, one row for each seed."""
    train, test = tables(options, name)
    with tempfile.TemporaryDirectory() as folder:
        l3a("run", "--train", train, "--test", test, "--protocol", SETS[name][3], "--method", ",".join(methods), "--seed",
            ",".join(map(str, options.seeds)), "--dim", 256 if options.quick else 2048, "--gamma", "auto", "--thresholds", "per-class",
            "--views", learned, "--score-views", scored, "--quiet", "-o", f"{folder}/run")
        with open(f"{folder}/run/metrics.csv", newline="") as file:
            rows = list(csv.DictReader(file))
    found = {}
    for method in methods:
        for seed in options.seeds:
            own = [row for row in rows if row["method"] == method and row["seed"] == str(seed)]
            found.setdefault(method, []).append([*(float(own[-1][key]) for key in ("mAP", "CF1", "OF1")), sum(float(row["seconds"]) for row in own)])
    return found


def mean(rows, column):
    values = [row[column] for row in rows]
    return f"{statistics.mean(values):.2f}" + (f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else "")


def accuracy(options):
    for name in SETS:
        print(f"\n{name} {SETS[name][3]}, seeds {', '.join(map(str, options.seeds))}: last mAP, CF1, OF1; seconds; training features")
        print("| views learned | scored | method | mAP | CF1 | OF1 | seconds | features |\n|---|---|---|---|---|---|---|---|", flush=True)
        found = {}
        for learned, scored in ((1, 1), (5, 5), (9, 9), (14, 14), (1, 14), (5, 14)):
            found[learned, scored] = measure(options, name, learned, scored, METHODS)
            count, width = images(tables(options, name)[0])
            size = count * width * (learned + 1 if learned > 1 else 1) * 2 / 1e6
            for method, rows in found[learned, scored].items():
                print(f"| {learned} | {scored} | {method} | {mean(rows, 0)} | {mean(rows, 1)} | {mean(rows, 2)} | {statistics.mean(r[3] for r in rows):.1f} | "
                      f"{size:.1f} MB |", flush=True)
        if options.quick:
            continue
        least, gain = TARGETS[name]
        many, one = found[14, 14]["l3a+"], found[1, 1]["l3a+"]
        last = [row[0] for row in many]
        more = [a[1] - b[1] for a, b in zip(many, one)]
        command = "bench/views.py --only accuracy"
        report(f"{name}: last mAP of l3a+ with 14 views", f"at least {least}", spread(last), statistics.mean(last) >= least, command)
        report(f"{name}: CF1 of l3a+ gained by 14 views", f"at least {gain}", spread(more), statistics.mean(more) >= gain, command)


RULES = ("whole", "the whole picture"), ("mean", "the mean"), ("combined", "the combined score")
RAISED = "0.75", "0.8", "0.85"  # η, which is 0.7 otherwise
LABEL_PROTOCOLS = {"VOC": ("B0-C4", "B10-C2"), "COCO": ("B0-C10", "B40-C10")}


def label_rows(options, command, name, protocol, settings, file):
    """The rows of a table that `l3a run` or `l3a sweep` makes of l3a, and of per_class.csv."""
    train, test = tables(options, name)
    with tempfile.TemporaryDirectory() as folder:
        l3a(command, "--train", train, "--test", test, "--protocol", protocol, "--method", "l3a", "--seed", ",".join(map(str, options.seeds)), "--dim",
            256 if options.quick else options.dim, "--thresholds", "per-class", *settings, "--quiet", "-o", f"{folder}/out")
        found = []
        for path in file, "per_class.csv":
            if os.path.exists(f"{folder}/out/{path}"):
                with open(f"{folder}/out/{path}", newline="") as table:
                    found.append(list(csv.DictReader(table)))
    return found


def print_labels(options, what, rows, right=""):
    """Average and last mAP, average and last CF1, pseudo-labels made, and the share of them that are right."""
    cells, made = [], sum(int(row["pseudo_labels"]) for row in rows) / len(options.seeds)
    for key in "mAP", "CF1":
        own = [[float(row[key]) for row in rows if row["seed"] == str(seed)] for seed in options.seeds]
        cells += [mean([[statistics.mean(values), values[-1]] for values in own], column) for column in (0, 1)]
    print(f"| {' | '.join([what, *cells, f'{made:.0f}', right])} |", flush=True)


def swept_labels(options, name, protocol, rules):
    """Rules or thresholds that share their sums as points of a sweep; which labels are right is not known there."""
    settings = ["--pseudo-from", ",".join(key for key, _ in RULES)] if rules else ["--pseudo-from", "combined", "--eta", ",".join(RAISED)]
    rows, = label_rows(options, "sweep", name, protocol, settings, "sweep.csv")
    for value, what in RULES if rules else [(eta, f"the combined score, η = {eta}") for eta in RAISED]:
        print_labels(options, what, [row for row in rows if row["pseudo-from" if rules else "eta"] == value])


def labels(options):
    for name, protocol in ((name, protocol) for name in SETS for protocol in LABEL_PROTOCOLS[name]):
        if options.protocol not in (None, protocol):
            continue
        print(f"\n{name} {protocol}, d = {options.dim}, seeds {', '.join(map(str, options.seeds))}")
        print("| pseudo-labels from | mAP: average | last | CF1: average | last | made | right |\n|---|---:|---:|---:|---:|---:|---:|", flush=True)
        if options.dim >= 4096:
            swept_labels(options, name, protocol, True)
            continue
        for rule, what in RULES:
            rows, classes = label_rows(options, "run", name, protocol, ["--pseudo-from", rule], "metrics.csv")
            made, right = (sum(int(row[key]) for row in classes) for key in ("pseudo", "right"))
            print_labels(options, what, rows, f"{100 * right / made:.0f} %" if made else "–")
        swept_labels(options, name, protocol, False)
        print_labels(options, "nothing: there are none", label_rows(options, "run", name, protocol, ["--pseudo", "off"], "metrics.csv")[0], "–")


def pairs(options):
    for name in SETS:
        print(f"\n{name}: last mAP of l3a+, by views learned (rows) and scored (columns)\n| | 1 | 5 | 9 | 14 |\n|---|---|---|---|---|")
        for learned in 1, 5, 9, 14:
            cells = [mean(measure(options, name, learned, scored, ["l3a+"])["l3a+"], 0) for scored in (1, 5, 9, 14)]
            print(f"| {learned} | {' | '.join(cells)} |", flush=True)


def compare(options, path):
    """The features of a file against those of the same pictures in the COCO test table."""
    table = os.path.join(options.features, "coco-val2014.safetensors")
    if not os.path.exists(table):
        return
    (own, _), (kept, _) = feature_file.load(path), feature_file.load(table)
    row_of = {name: row for row, name in enumerate(feature_file.ids(kept))}
    rows = [row_of[os.path.splitext(name)[0].split("_")[-1]] for name in feature_file.ids(own)]
    ours, theirs = own["features"].astype(float), kept["features"][rows].astype(float)
    print(f"{len(rows)} pictures with all their views, {table}: the largest difference is {abs(ours - theirs).max():.4f}; float16 has steps of "
          f"{abs(np.spacing(own['features'])).max():.4f} at the largest feature, {abs(ours).max():.1f}")


def extract(options):
    """Of each number of views: seconds and bytes for a picture."""
    source = os.path.join(SHARED, "data", "coco2014-small", "val2014")
    seconds, sizes = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/pictures/all")
        names = sorted(os.listdir(source))[:16 if options.quick else 64]
        for picture in names:
            os.symlink(os.path.join(source, picture), f"{folder}/pictures/all/{picture}")
        for _ in range(1 if options.quick else 3):
            for views in 1, 5, 9, 14:
                start = time.perf_counter()
                l3a("extract", "--backbone", options.backbone, "--data", f"folders:{folder}/pictures", "--views", views, "--float16", "--quiet", "-o",
                    f"{folder}/{views}.safetensors")
                seconds.setdefault(views, []).append((time.perf_counter() - start) / len(names))
                sizes[views] = os.path.getsize(f"{folder}/{views}.safetensors") / len(names)
                os.replace(f"{folder}/{views}.safetensors", f"{folder}/last")
        compare(options, f"{folder}/last")
    print("\n| views | pictures/s | times the seconds of 1 view | rows of an image | bytes of a picture (float16) |\n|---|---|---|---|---|")
    for views, values in seconds.items():
        ratios = [own / one for own, one in zip(values, seconds[1])]
        print(f"| {views} | {spread([1 / value for value in values], '{:.1f}')} | {spread(ratios)} | {views + (views > 1)} | {sizes[views]:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="accuracy,extract")
    parser.add_argument("--seeds", default="2025,2026,2027")
    parser.add_argument("--dim", type=int, default=2048, help="of the layer, for the part labels")
    parser.add_argument("--protocol", help="only this one, for the part labels")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a narrow layer and few pictures: shows that it works, not what views gain")
    parser.add_argument("--features", default=os.path.join(BUILD, "views"))
    parser.add_argument("--backbone", default=os.environ.get("L3A_BACKBONE", f"{SHARED}/backbones/vit_tiny_patch16_224.safetensors"))
    options = parser.parse_args()
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    missing = [path for path in (options.backbone, f"{SHARED}/data/voc2007-small", f"{SHARED}/data/coco2014-small") if not os.path.exists(path)]
    if missing:
        print("skipped: not here:", ", ".join(missing))
        return
    print(json.dumps(conditions(os.environ)))
    parts = {"accuracy": accuracy, "labels": labels, "pairs": pairs, "extract": extract}
    for part in options.only.split(",") + ["pairs"] * options.pairs:
        parts[part](options)
    print("load average after:", *load())


if __name__ == "__main__":
    main()
