#!/usr/bin/env python3
"""--difficult from VOC's annotations to the metrics, against the rule of the VOC devkit written in Python: an image in which all objects
of a class are difficult counts neither for nor against the class.

On a small set made here, and on all annotations of VOC 2007 where they are, with random features."""
import json
import os
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)
import feature_file
from support import check, finish, l3a, random_layer

DEVKIT = Path(os.environ.get("L3A_SHARED", "../shared")) / "data" / "voc2007-small" / "VOCdevkit"
QUICK = bool(os.environ.get("L3A_SANITIZE") or os.environ.get("L3A_QUICK"))
DIM, SEED = 64, 7


def read_voc(devkit, names, classes):
    """1 where an object of the class is not difficult, -1 where all are, else 0."""
    labels = np.zeros((len(names), len(classes)), np.int8)
    for row, name in enumerate(names):
        tree = xml.etree.ElementTree.parse(devkit / "VOC2007/Annotations" / f"{name}.xml")
        for item in tree.getroot().findall("object"):
            at = row, classes.index(item.findtext("name"))
            if item.findtext("difficult", "0").strip() != "1":
                labels[at] = 1
            elif labels[at] == 0:
                labels[at] = -1
    return labels


def make_voc(devkit, rng, images=90):
    """Objects of three classes, half of them difficult."""
    for folder in "Annotations", "ImageSets/Main", "JPEGImages":
        (devkit / "VOC2007" / folder).mkdir(parents=True)
    for number in range(images):
        objects = "".join(f"<object><name>{rng.choice(['cat', 'dog', 'owl'])}</name><difficult>{rng.integers(2)}</difficult></object>"
                          for _ in range(rng.integers(1, 5)))
        (devkit / f"VOC2007/Annotations/{number:06d}.xml").write_text(f"<annotation>{objects}</annotation>")
    for split, rows in ("trainval", range(0, images // 2)), ("test", range(images // 2, images)):
        (devkit / f"VOC2007/ImageSets/Main/{split}.txt").write_text("".join(f"{number:06d}\n" for number in rows))


def add_pictures(devkit, splits):
    """One small picture under every name: labels do not depend on what pictures show."""
    pictures = devkit / "VOC2007" / "JPEGImages"
    feature_file.write_png(devkit / "picture.png", np.full((8, 8, 3), 100))
    for split in splits:
        for name in (devkit / f"VOC2007/ImageSets/Main/{split}.txt").read_text().split():
            os.link(devkit / "picture.png", pictures / f"{name}.jpg")


def average_precision(scores, labels):
    """The devkit's loop over images, ranked: difficult ones are passed over. The area is SPEC §4's, not the eleven points of 2007."""
    found = images = 0
    total = 0.0
    for i in np.argsort(-scores, kind="stable"):
        if labels[i] == -1:
            continue
        images += 1
        if labels[i] == 1:
            found += 1
            total += found / images
    return 100 * total / found if found else 0.0


def overall_f1(scores, labels, threshold):
    judged, predicted = labels != -1, scores > threshold
    right = (predicted & (labels == 1)).sum()
    return 100 * 2 * right / ((predicted & judged).sum() + (labels == 1).sum())


def model_scores(path, features):
    x = np.maximum(features.astype(float) @ random_layer(features.shape[1], DIM, SEED), 0)
    return (x @ feature_file.load(path)[0]["weights"]).astype(np.float32)


def extract(folder, devkit, split, difficult, name, code=0):
    """A feature file, with features made up so that classes can be told apart, but not well."""
    path = folder / f"{name}.safetensors"
    l3a("extract", "--backbone", folder / "vit.safetensors", "--data", f"voc:{devkit}", "--split", split, "--difficult", difficult, "-o", path,
        "--quiet", code=code)
    tensors, metadata = feature_file.load(path)
    rng = np.random.default_rng(len(split))
    directions = np.random.default_rng(1).normal(size=(tensors["labels"].shape[1], 24))
    features = (tensors["labels"] == 1) @ directions + 2 * rng.normal(size=(len(tensors["labels"]), 24))
    tensors["features"] = features.astype(np.float32)
    feature_file.save(path, tensors, metadata)
    return path, tensors, metadata


def test_metrics(folder, devkit, name, protocol):
    made = {}
    for split, difficult in ("trainval", "ignore"), ("test", "ignore"), ("trainval", "absent"), ("test", "absent"):
        path, tensors, metadata = made[split, difficult] = extract(folder, devkit, split, difficult, f"{name}-{split}-{difficult}")
        classes = metadata["classes"].split("\n")
        wanted = read_voc(devkit, feature_file.ids(tensors), classes)
        check((wanted == -1).any(), f"{name}, {split}: some images have difficult objects alone")
        check((tensors["labels"] == (wanted if difficult == "ignore" else wanted == 1)).all(), f"{name}, {split}, {difficult}: the labels")
        check(metadata.get("difficult") == ("ignore" if difficult == "ignore" else None), f"{name}, {split}, {difficult}: the record")
        check("members" not in tensors, f"{name}: a difficult object puts no image into a phase")
    seen = {}
    for difficult in "ignore", "absent":
        train, (test, tensors, _) = made["trainval", difficult][0], made["test", difficult]
        out = folder / f"{name}-{difficult}"
        done = l3a("run", "--train", train, "--test", test, "--protocol", protocol, "--method", "joint", "--dim", DIM, "--seed", SEED, "--precision",
                   "double", "--gamma", 100, "-o", out)
        check("difficult" not in done.stderr, f"{name}: no warning where both tables agree: {done.stderr}")
        scores = model_scores(out / "model.safetensors", tensors["features"])
        rows = (tensors["labels"] == 1).any(1)
        wanted = [average_precision(scores[rows, k], tensors["labels"][rows, k]) for k in range(len(classes))]
        about = json.loads(l3a("eval", out / "model.safetensors", "--features", test, "--format", "json").stdout)
        check(np.abs(np.array([about["AP"][c] for c in classes]) - wanted).max() < 0.01, f"{name}, {difficult}: AP {about['AP']}, {wanted} expected")
        check(abs(about["OF1"] - overall_f1(scores[rows], tensors["labels"][rows], np.log(0.525 / 0.475))) < 0.01, f"{name}, {difficult}: OF1")
        row = (out / "metrics.csv").read_text().splitlines()[1].split(",")
        check(abs(float(row[8]) - np.mean(wanted)) < 0.01, f"{name}, {difficult}: mAP {row[8]} of the run, {np.mean(wanted)} expected")
        seen[difficult] = np.array(wanted), feature_file.load(out / "model.safetensors")[0]["weights"]
        record = json.loads((out / "run.json").read_text())["run"]["test"]
        page = (out / "report.html").read_text()
        ignored = difficult == "ignore"
        check(record.get("difficult") == ("ignore" if ignored else None), f"{name}, {difficult}: run.json says {record}")
        check(("difficult objects left out of the metrics" in page) == ignored, f"{name}, {difficult}: the report says so")
        table = l3a("eval", out / "model.safetensors", "--features", test).stdout
        check(("difficult objects left out" in table) == ignored, f"{name}, {difficult}: eval says so: {table}")
        check(("difficult: ignore" in l3a("info", test).stdout) == ignored, f"{name}, {difficult}: info says so")
    check((seen["ignore"][1] == seen["absent"][1]).all(), f"{name}: an unknown label is absent in learning")
    check(np.abs(seen["ignore"][0] - seen["absent"][0]).max() > 0.1, f"{name}: and changes the metrics")
    mixed = l3a("run", "--train", made["trainval", "ignore"][0], "--test", made["test", "absent"][0], "--protocol", protocol, "--dim", DIM, "-o",
                folder / f"{name}-mixed").stderr
    check("ignores difficult objects, but" in mixed and "the metrics count them as absent" in mixed, f"{name}: a warning where tables differ: {mixed}")
    mixed = l3a("sweep", "--train", made["trainval", "absent"][0], "--test", made["test", "ignore"][0], "--protocol", protocol, "--dim", DIM, "--gamma",
                "10,100", "-o", folder / f"{name}-sweep").stderr
    check("the metrics ignore them" in mixed, f"{name}: the same in a sweep: {mixed}")


def test_resumed(folder, devkit):
    """An extraction that stopped and goes on with another --difficult ends as if it had had that from the start."""
    picture = devkit / "VOC2007/JPEGImages/000089.jpg"
    good = picture.read_bytes()
    arguments = ["extract", "--backbone", folder / "vit.safetensors", "--data", f"voc:{devkit}", "--split", "test"]
    l3a(*arguments, "--difficult", "ignore", "-o", folder / "fresh.safetensors")
    picture.unlink()
    picture.write_bytes(b"not a picture")
    l3a(*arguments, "--strict", "-o", folder / "resumed.safetensors", code=2)
    picture.unlink()
    picture.write_bytes(good)
    said = l3a(*arguments, "--difficult", "ignore", "-o", folder / "resumed.safetensors").stdout
    check("32 of them from an earlier run" in said, f"it goes on where it was: {said}")
    check((folder / "fresh.safetensors").read_bytes() == (folder / "resumed.safetensors").read_bytes(), "and gives the same bytes")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        feature_file.write_small_vit(folder / "vit.safetensors")
        small = folder / "small"
        make_voc(small, np.random.default_rng(3))
        add_pictures(small, ["trainval", "test"])
        test_metrics(folder, small, "made", "B0-C1")
        test_resumed(folder, small)
        (folder / "list.csv").write_text(f"path,labels\n{small}/picture.png,cat\n")
        done = l3a("data", f"list:{folder}/list.csv", "--difficult", "ignore")
        check("has no effect: only VOC marks objects as difficult" in done.stderr, f"a list has no difficult objects: {done.stderr}")
        if DEVKIT.is_dir() and not QUICK:
            real = folder / "real"
            (real / "VOC2007" / "JPEGImages").mkdir(parents=True)
            for part in "Annotations", "ImageSets":
                (real / "VOC2007" / part).symlink_to((DEVKIT / "VOC2007" / part).resolve())
            add_pictures(real, ["trainval", "test"])
            test_metrics(folder, real, "VOC 2007", "B0-C4")
    if finish():
        sys.exit(1)
    if QUICK or not DEVKIT.is_dir():
        print("skipped in part:", "VOC 2007 takes a minute; one job of CI does it" if QUICK else f"no VOC 2007 at {DEVKIT}")
        sys.exit(0 if QUICK else 77)


main()
