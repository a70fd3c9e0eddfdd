#!/usr/bin/python3
"""Three tags in a mixed library, as a new user would teach them: dog, bicycle and umbrella from eight pictures each, one tag after another, and
2,000 photos to be tagged, 1,000 of VOC 2007 test and 1,000 of COCO val2014. Precision and recall without and with `--unlabelled`.

    bench/mixed_library.py [--draws N] [--shared FOLDER]
        --draws N        draws of the pictures [10]
        --shared FOLDER  has data/voc2007-small, data/coco2014-small and backbones/vit_tiny_patch16_224.safetensors [$L3A_SHARED, or ../shared]
        L3A_BUILD        the build folder

Dogs and bicycles are taught from VOC trainval, umbrellas, which VOC does not have, from COCO train2014. A picture of VOC that shows an umbrella counts as
wrong, because nobody has labelled it."""
import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("L3A_BUILD", HERE.parent / "build")).resolve()
TAGS = {"dog": "voc", "bicycle": "voc", "umbrella": "coco"}


class Pictures:
    """The pictures of both data sets, by name, and which of them show a tag."""

    def __init__(self, shared):
        self.voc, self.coco = shared / "data/voc2007-small/VOCdevkit/VOC2007", shared / "data/coco2014-small"
        self.lists = {split: json.loads((self.coco / f"annotations/instances_{split}2014.json").read_text()) for split in ("train", "val")}

    def voc_pictures(self, split, tag=None):
        lines = (self.voc / f"ImageSets/Main/{tag + '_' if tag else ''}{split}.txt").read_text().splitlines()
        return sorted(self.voc / f"JPEGImages/{line.split()[0]}.jpg" for line in lines if not tag or line.split()[1] == "1")

    def coco_pictures(self, split, tag=None):
        found = self.lists[split]
        names, number = {i["id"]: i["file_name"] for i in found["images"]}, {c["name"]: c["id"] for c in found["categories"]}.get(tag)
        shown = {a["image_id"] for a in found["annotations"] if a["category_id"] == number} if tag else names
        return sorted(self.coco / f"{split}2014" / names[i] for i in shown)


def l3a(*arguments):
    return subprocess.run([BUILD / "l3a", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def measure(pictures, backbone, seed, with_library):
    """{tag: (precision, recall)}"""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as work:
        library, model, truth = Path(work) / "library", Path(work) / "photos.l3a", {}
        library.mkdir()
        shown = draw.sample(pictures.voc_pictures("test"), 1000) + draw.sample(pictures.coco_pictures("val"), 1000)
        for path in shown:
            (library / path.name).symlink_to(path)
        for tag, source in TAGS.items():
            both = pictures.coco_pictures("val", tag) + (pictures.voc_pictures("test", tag) if source == "voc" else [])
            truth[tag] = {path.name for path in both} & {path.name for path in shown}
            taught = pictures.voc_pictures("trainval", tag) if source == "voc" else pictures.coco_pictures("train", tag)
            unlabelled = ["--unlabelled", library] if with_library and tag == "dog" else []
            l3a("teach", model, *draw.sample(taught, 8), "--tags", tag, "--backbone", backbone, *unlabelled)
        rows = json.loads(l3a("tag", model, library, "--json"))
    given = {tag: {os.path.basename(row["path"]) for row in rows if tag in [t["tag"] for t in row["tags"]]} for tag in TAGS}
    return {tag: (100 * len(given[tag] & truth[tag]) / max(1, len(given[tag])), 100 * len(given[tag] & truth[tag]) / len(truth[tag])) for tag in TAGS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("L3A_SHARED", HERE.parent.parent / "shared")))
    given = parser.parse_args()
    pictures, backbone = Pictures(given.shared), given.shared / "backbones/vit_tiny_patch16_224.safetensors"
    print("| P / R, and F1 of both: mean (range of F1) over the draws | " + " | ".join(TAGS) + " |\n|---|" + "---:|" * len(TAGS))
    for name, with_library in (("without a library", False), ("with the library", True)):
        found = [measure(pictures, backbone, seed, with_library) for seed in range(given.draws)]
        cells = []
        for tag in TAGS:
            precision, recall = (statistics.mean(one[tag][i] for one in found) for i in (0, 1))
            scores = [2 * p * r / max(1e-9, p + r) for p, r in (one[tag] for one in found)]
            cells.append(f"{precision:.0f} / {recall:.0f}, {statistics.mean(scores):.0f} ({min(scores):.0f} to {max(scores):.0f})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
