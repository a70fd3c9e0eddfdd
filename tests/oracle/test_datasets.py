#!/usr/bin/env python3
"""l3a data against counts made with Python's own parsers: the real VOC 2007, and a generated COCO file of a few megabytes.

L3A_COCO_IMAGES=82783 makes the COCO file as large as the real one.
"""
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections import Counter
from itertools import combinations
from pathlib import Path
from support import COMMAND, check, finish

SHARED = Path(os.environ.get("L3A_SHARED", "../shared"))
SOURCE = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))
DEVKIT = SHARED / "data" / "voc2007-small" / "VOCdevkit"
COCO_IMAGES = int(os.environ.get("L3A_COCO_IMAGES", "700"))
VOC_TRAIN, VOC_TEST = [985, 1409, 1091, 2322, 805], [892, 2235, 3186, 4497, 4952]  # B0-C4


def data(dataset, *options, code=0):
    done = subprocess.run([COMMAND, "data", dataset, "--format", "json", "--quiet", *options], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL)
    check(done.returncode == code, f"{dataset} {options}: exit {done.returncode} instead of {code}")
    return json.loads(done.stdout)


def phases(classes, base, step):
    bounds = [0, base or step]
    while bounds[-1] < len(classes):
        bounds.append(min(bounds[-1] + step, len(classes)))
    return [classes[first:last] for first, last in zip(bounds, bounds[1:])]


def count_phases(classes, base, step, train_members, test_labels):
    """Pictures of each phase, and pictures with any class so far; both arguments are lists of sets of class names."""
    train, test, seen = [], [], set()
    for names in phases(classes, base, step):
        seen |= set(names)
        train.append(sum(bool(members & set(names)) for members in train_members))
        test.append(sum(bool(labels & seen) for labels in test_labels))
    return train, test


def compare(about, classes, train_labels, train_members, test_labels, base, step):
    name = f"{about['dataset'].split(':')[0]} {about['protocol']}"
    check([c["name"] for c in about["classes"]] == classes, f"{name}: the classes")
    for key, rows in (("pictures", train_labels), ("members", train_members)):
        counts = Counter(label for row in rows for label in row)
        check([c[key] for c in about["classes"]] == [counts[c] for c in classes], f"{name}: {key} of each class")
    train, test = count_phases(classes, base, step, train_members, test_labels)
    check([p["train_images"] for p in about["phases"]] == train, f"{name}: pictures to learn, {train} expected")
    check([p["test_images"] for p in about["phases"]] == test, f"{name}: pictures to measure, {test} expected")
    check(about["pictures"] == len(train_labels) and about["labels"] == sum(map(len, train_labels)), f"{name}: totals")
    check(about["without_labels"] == sum(not row for row in train_labels), f"{name}: pictures without labels")
    pairs = Counter(pair for row in train_labels for pair in combinations(sorted(row), 2))
    check(all(pairs[tuple(p["classes"])] == p["pictures"] for p in about["pairs"]), f"{name}: pairs")
    check([p["pictures"] for p in about["pairs"]] == [count for _, count in pairs.most_common(5)], f"{name}: the strongest pairs")
    return train, test


def voc_objects(split):
    """For each picture, its classes, and those of which all objects are difficult."""
    rows = []
    for line in (DEVKIT / "VOC2007/ImageSets/Main" / f"{split}.txt").read_text().split():
        tree = xml.etree.ElementTree.parse(DEVKIT / "VOC2007/Annotations" / f"{line}.xml")
        objects = [(o.findtext("name"), o.findtext("difficult", "0").strip() == "1") for o in tree.getroot().findall("object")]
        present = {name for name, difficult in objects if not difficult}
        rows.append((present, {name for name, difficult in objects if difficult} - present))
    return rows


def test_voc():
    train, test = voc_objects("trainval"), voc_objects("test")
    labels, test_labels = [row[0] for row in train], [row[0] for row in test]
    classes = sorted(set().union(*labels))
    check(len(classes) == 20, "20 classes")
    about = data(f"voc:{DEVKIT}", "--protocol", "B0-C4")
    counted = compare(about, classes, labels, labels, test_labels, 0, 4)
    check(counted == (VOC_TRAIN, VOC_TEST), "the published counts of B0-C4")
    check(about["disagreements"] == 0 and about["files"] == 9963 and about["missing"]["count"] == 0, "voc: a sound set")
    compare(data(f"voc:{DEVKIT}", "--protocol", "B10-C2"), classes, labels, labels, test_labels, 10, 2)
    ignored = data(f"voc:{DEVKIT}", "--difficult", "ignore", "--protocol", "B0-C4")
    compare(ignored, classes, labels, labels, test_labels, 0, 4)
    check(ignored["unknown_labels"] == sum(len(row[1]) for row in train), "pairs with only difficult objects")


def coco_rows(path):
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    names = {c["id"]: c["name"] for c in content["categories"]}
    labels, members = ({image["id"]: set() for image in content["images"]} for _ in range(2))
    for annotation in content["annotations"]:
        members[annotation["image_id"]].add(names[annotation["category_id"]])
        if not annotation["iscrowd"]:
            labels[annotation["image_id"]].add(names[annotation["category_id"]])
    return sorted(names.values()), list(labels.values()), list(members.values())


def test_coco(folder):
    generator = SOURCE / "bench" / "coco_annotations.py"
    annotations = Path(folder) / "annotations"
    annotations.mkdir()
    files = []
    for split, images, seed in (("train2014", COCO_IMAGES, 1), ("val2014", COCO_IMAGES // 2, 2)):
        files.append(annotations / f"instances_{split}.json")
        subprocess.run([sys.executable, generator, "--generate", files[-1], "--images", str(images), "--seed", str(seed), "--split", split],
                       check=True)
    classes, labels, members = coco_rows(files[0])
    test_labels = coco_rows(files[1])[1]
    check(classes.index("person") == 49 and len(classes) == 80, "person is number 49 of 80")
    check(any(not row for row in members), "a picture without annotations")
    check(any(more > less for more, less in zip(members, labels)), "a picture that only crowds make a member")
    for protocol, base, step in (("B0-C10", 0, 10), ("B40-C10", 40, 10)):
        about = data(f"coco:{folder}", "--protocol", protocol, code=2)
        compare(about, classes, labels, members, test_labels, base, step)
        check(about["missing"]["count"] == COCO_IMAGES + COCO_IMAGES // 2, "coco: every picture is missing")


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_coco(folder)
    if DEVKIT.is_dir():
        test_voc()
    if finish():
        return 1
    if not DEVKIT.is_dir():
        print(f"skipped: there is no VOC 2007 at {DEVKIT}; the rest passed")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
