"""From real pictures to the numbers of the reference: VOC 2007 (small pictures) through ViT-Tiny, then both protocols.

Every twentieth picture is taken, and the reference program computes the numbers from the features that were extracted, as the command does
in double precision; test_coco.py compares features with those of another program. L3A_VOC_PICTURES=all takes all ten thousand, which
takes minutes, and compares numbers in mixed precision with those that the reference has for features of its own."""
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

SHARED = Path(os.environ["L3A_SHARED"])
GOLDEN, REFERENCE = SHARED / "golden" / "l3a_voc.json", SHARED / "reference" / "l3a_reference.py"
BACKBONE = SHARED / "backbones" / "vit_tiny_patch16_224.safetensors"
DATA = SHARED / "data" / "voc2007-small" / "VOCdevkit"
WHOLE = os.environ.get("L3A_VOC_PICTURES") == "all"
SPLITS, EVERY = ("trainval", "test"), 20
TOLERANCE = 0.0021
METHODS = ["l3a", "l3a-no-pl", "l3a-no-wac", "acil", "joint"]


def make_part(folder):
    """A VOCdevkit with every twentieth picture of each split."""
    year, real = folder / "VOC2007", DATA / "VOC2007"
    (year / "ImageSets" / "Main").mkdir(parents=True)
    for name in "JPEGImages", "Annotations":
        (year / name).symlink_to(real / name)
    for split in SPLITS:
        lines = (real / "ImageSets" / "Main" / f"{split}.txt").read_text().splitlines(keepends=True)
        (year / "ImageSets" / "Main" / f"{split}.txt").write_text("".join(lines[::EVERY]))


def extract(folder, data, split):
    """The feature file, and its features and labels."""
    path = folder / f"{split}.safetensors"
    l3a("extract", "--backbone", BACKBONE, "--data", f"voc:{data}", "--split", split, "-o", path, "--quiet")
    tensors, _ = feature_file.load(path)
    return path, (tensors["features"].astype(np.float32), tensors["labels"])


def metrics(files, protocol, dim, out):
    l3a("run", "--train", files[0], "--test", files[1], "--protocol", protocol, "--dim", dim, "--method", ",".join(METHODS),
        "--precision", "mixed" if WHOLE else "double", "-o", out, "--quiet")
    with open(out / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return {method: [row for row in rows if row["method"] == method] for method in METHODS}


def reference_rows(tables, settings):
    """What the reference says of these features."""
    spec = importlib.util.spec_from_file_location("reference", REFERENCE)
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    with contextlib.redirect_stdout(io.StringIO()):
        return reference.run(*tables, **settings)["rows"]


def main():
    for path in GOLDEN, REFERENCE, BACKBONE, DATA:
        if not path.exists():
            print(f"skipped: {path} is not there")
            return 77
    if os.environ.get("L3A_SANITIZE") or os.environ.get("L3A_QUICK"):
        print("skipped: thousands of pictures take a minute; one job of CI does them")
        return 77
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = DATA if WHOLE else folder / "VOCdevkit"
        if not WHOLE:
            make_part(data)
        files, tables = zip(*(extract(folder, data, split) for split in SPLITS))
        found = {}
        for run in json.loads(GOLDEN.read_text())["runs"]:
            protocol, dim = run["settings"]["protocol"], run["settings"]["dim"]
            if (protocol, dim) not in found:
                found[protocol, dim] = metrics(files, protocol, dim, folder / f"{protocol}-{dim}")
            expected = run["rows"] if WHOLE else reference_rows(tables, run["settings"])
            for wanted, got in zip(expected, found[protocol, dim][run["name"]], strict=True):
                gap = abs(wanted["mAP"] - float(got["mAP"]))
                same = all(int(got[key]) == wanted[key] for key in ("train_images", "test_images"))
                worst = max(worst, gap)
                check(gap <= TOLERANCE and same, f"{run['name']} {protocol} {dim}, phase {got['phase']}: {got} instead of {wanted}")
    print(f"largest deviation of mAP: {worst:.4f}")
    return finish()


sys.exit(main())
