#!/usr/bin/env python3
"""From real COCO pictures to numbers: data, extract, run and report on a part of COCO 2014 that has all 80 classes.

Labels and phases are read from the annotations by Python, the numbers come from the NumPy reference on the extracted features, and the
features are compared with those that another program computed of the same pictures. L3A_COCO_PICTURES=all takes all 5,000 pictures."""
import contextlib
import csv
import importlib.util
import io
import json
import os
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)
import feature_file
from support import check, finish, l3a

SHARED = Path(os.environ.get("L3A_SHARED", "../shared"))
PICTURES, BACKBONE = SHARED / "data" / "coco2014-small", SHARED / "backbones" / "vit_tiny_patch16_224.safetensors"
REFERENCE, ELSEWHERE = SHARED / "reference" / "l3a_reference.py", SHARED / "data" / "coco2014-vit-tiny"
WHOLE = os.environ.get("L3A_COCO_PICTURES") == "all"
SPLITS = {"train2014": 900, "val2014": 600}
DIM, GAMMA = 512, 100.0
METHODS = {"l3a": {}, "l3a-no-pl": {"pseudo": False}, "l3a-no-wac": {"weights": "none"}, "acil": {"weights": "none", "pseudo": False},
           "joint": {"joint": True, "pseudo": False}}


def choose(content, wanted):
    """Pictures at even distances, and for every class the first ones until it has five."""
    shown = {}
    for annotation in content["annotations"]:
        shown.setdefault(annotation["category_id"], []).append(annotation["image_id"])
    numbers = [image["id"] for image in content["images"]]
    chosen = set(numbers[::len(numbers) // wanted + 1])
    for pictures in shown.values():
        pictures = sorted(set(pictures))
        chosen.update(pictures[:max(0, 5 - len(chosen & set(pictures)))])
    return chosen


def make_part(folder):
    """A smaller set in COCO's layout, with the real pictures behind links."""
    (folder / "annotations").mkdir(parents=True)
    for split, wanted in SPLITS.items():
        content = json.loads((PICTURES / "annotations" / f"instances_{split}.json").read_text())
        chosen = choose(content, wanted)
        content["images"] = [image for image in content["images"] if image["id"] in chosen]
        content["annotations"] = [a for a in content["annotations"] if a["image_id"] in chosen]
        (folder / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
        (folder / split).symlink_to((PICTURES / split).resolve())


def read_labels(folder, split, names, classes):
    content = json.loads((folder / "annotations" / f"instances_{split}.json").read_text())
    check([int(name) for name in names] == [image["id"] for image in content["images"]], f"{split}: the rows are the images, in order")
    row, column = {int(name): i for i, name in enumerate(names)}, {c["id"]: classes.index(c["name"]) for c in content["categories"]}
    labels = np.zeros((len(names), len(classes)), np.int8)
    check(not any(a["iscrowd"] for a in content["annotations"]), "this set has no crowds")
    for annotation in content["annotations"]:
        labels[row[annotation["image_id"]], column[annotation["category_id"]]] = 1
    return labels


def compare_features(split, tensors):
    """With those that another program computed of the same pictures, and kept as float16."""
    path = ELSEWHERE / f"{split[:-4]}.safetensors"
    if not path.exists():
        print(f"without {path}")
        return
    there, _ = feature_file.load(path)
    row = {name: i for i, name in enumerate(feature_file.ids(there))}
    pairs = [(i, row[name]) for i, name in enumerate(feature_file.ids(tensors)) if name in row]
    ours, theirs = tensors["features"][[i for i, _ in pairs]], there["features"][[j for _, j in pairs]].astype(np.float32)
    alike = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    print(f"{split}: {len(pairs)} pictures, cosine with the other program's features at least {alike.min():.6f}, in the middle {np.median(alike):.6f}", flush=True)
    check(len(pairs) > 0.9 * len(ours), f"{split}: only {len(pairs)} of {len(ours)} pictures are there")
    check(alike.min() > 0.999, f"{split}: features differ from the other program's: {alike.min()}")


def extract(folder, data, split):
    path = folder / f"{split}.safetensors"
    l3a("extract", "--backbone", BACKBONE, "--data", f"coco:{data}", "--split", split, "-o", path, "--quiet")
    tensors, metadata = feature_file.load(path)
    classes = metadata["classes"].split("\n")
    labels = read_labels(data, split, feature_file.ids(tensors), classes)
    check(classes == sorted(classes) and len(classes) == 80 and classes[49] == "person", "80 classes, person is number 49")
    check((tensors["labels"] == labels).all() and labels.any(0).all(), f"{split}: the labels, of all 80 classes")
    compare_features(split, tensors)
    return path, (tensors["features"].astype(np.float32), labels)


def compare_runs(folder, files, tables, protocol):
    spec = importlib.util.spec_from_file_location("l3a_reference", REFERENCE)
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    out = folder / protocol
    l3a("run", "--train", files[0], "--test", files[1], "--protocol", protocol, "--method", ",".join(METHODS), "--dim", DIM, "--gamma", GAMMA,
        "--precision", "double", "-o", out, "--quiet")
    with open(out / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    worst = 0.0
    for method, settings in METHODS.items():
        with contextlib.redirect_stdout(io.StringIO()):
            expected = reference.run(*tables, protocol, dim=DIM, gamma=GAMMA, **settings)["rows"]
        for wanted, got in zip(expected, [row for row in rows if row["method"] == method], strict=True):
            gap = max(abs(wanted[key] - float(got[key])) for key in ("mAP", "CF1", "OF1"))
            counts = all(wanted[key] == int(got[key]) for key in ("train_images", "test_images", "pseudo_labels"))
            worst = max(worst, gap)
            check(gap < 0.005 and counts, f"{method} {protocol}, phase {got['phase']}: {got} instead of {wanted}")
    check(sum(int(row["pseudo_labels"]) for row in rows) > 0, f"{protocol}: there are pseudo-labels")
    print(f"{protocol}: {len(rows)} rows, largest deviation of mAP, CF1, OF1 from the reference: {worst:.4f}; joint mAP {rows[-1]['mAP']}", flush=True)
    return out, [row for row in rows if row["method"] == "l3a"]


def main():
    for path in PICTURES, BACKBONE, REFERENCE:
        if not path.exists():
            print(f"skipped: {path} is not there")
            return 77
    if os.environ.get("L3A_SANITIZE") or os.environ.get("L3A_QUICK"):
        print("skipped: real pictures take a minute; one job of CI does them")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = PICTURES if WHOLE else folder / "coco"
        if not WHOLE:
            make_part(data)
        files, tables = zip(*(extract(folder, data, split) for split in SPLITS))
        for protocol in "B0-C10", "B40-C10":
            out, rows = compare_runs(folder, files, tables, protocol)
        about = json.loads(l3a("data", f"coco:{data}", "--protocol", "B40-C10", "--format", "json", "--quiet").stdout)
        check([(p["train_images"], p["test_images"]) for p in about["phases"]] == [(int(r["train_images"]), int(r["test_images"])) for r in rows],
              "data counts the images of each phase that run has")
        l3a("report", out, "-o", folder / "page.html")
        page = (folder / "page.html").read_text()
        check(all(text in page for text in ("80 classes, protocol B40-C10", "vit_tiny_patch16_224", "hair drier", "%.2f" % float(rows[-1]["mAP"]))),
              "the report shows the run")
    return finish()


sys.exit(main())
