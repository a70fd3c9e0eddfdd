#!/usr/bin/env python3
"""Writes small feature files into a folder, as a stranger's program would: train and test, as safetensors and as .npy.

A row's features are the sum of its classes' directions in noise. With --views N, a row is followed by N crops of it, each of which
shows one of its classes or none; the files then have [rows, 1 + N, width] numbers. The columns of the labels stand in reverse order of the
class names, so that the order of the file is not the lexicographic one. Row 17 always shows the first class.
"""
import argparse
import json
import random
import struct
from pathlib import Path

DEFECTS = ["nan", "inf", "label", "length", "width", "class", "twice", "ids"]
CODES = {"F32": ("f", "<f4"), "F16": ("e", "<f2"), "I8": ("b", "|i1")}


def directions(settings):
    rng = random.Random("directions")
    return [[rng.gauss(0, 1) for _ in range(settings.width)] for _ in range(settings.classes)]


def draw_rows(settings, count, seed, centres):
    rng = random.Random(seed)
    shown = [k for k in range(settings.classes) if k != settings.empty]
    features, labels = [], []
    for i in range(count):
        present = set(rng.sample(shown, rng.randint(1, min(3, len(shown)))))
        if i == 17:
            present.add(settings.classes - 1)
        row = [rng.gauss(0, 0.7) for _ in range(settings.width)]
        for k in sorted(present):
            strength = rng.uniform(0.6, 1.4)
            row = [value + strength * part for value, part in zip(row, centres[k])]
        features.append(row)
        labels.append([int(k in present and i >= settings.unlabelled) for k in range(settings.classes)])
    return features, labels


def add_crops(settings, split, features, labels, centres):
    """Each row becomes its views, one after another."""
    rng = random.Random(f"crops of {split}")
    images = []
    for row, given in zip(features, labels):
        present = [k for k, label in enumerate(given) if label]
        views = list(row)
        for _ in range(settings.views):
            k = rng.choice(present + [None])
            crop = [rng.gauss(0, 0.7) for _ in range(settings.width)]
            views += crop if k is None else [value + 1.2 * part for value, part in zip(crop, centres[k])]
        images.append(views)
    return images


def class_names(settings):
    names = [f"class{k:02d}" for k in range(settings.classes)]
    if settings.odd_names:
        names[1] = 'class01, "é"'
    return names[::-1]


def pack(rows, kind):
    return b"".join(struct.pack(f"<{len(row)}{CODES[kind][0]}", *row) for row in rows)


def save_safetensors(path, tensors, metadata):
    header, offset = {"__metadata__": metadata}, 0
    for name, kind, shape, data in tensors:
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for *_, data in tensors))


def save_npy(path, rows, kind, fortran=False, views=0):
    shape = (len(rows), 1 + views, len(rows[0]) // (1 + views)) if views else (len(rows), len(rows[0]))
    text = str({"descr": CODES[kind][1], "fortran_order": fortran, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    data = pack(zip(*rows), kind) if fortran else pack(rows, kind)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data)


def spoil(defect, features, labels, names):
    if defect == "nan":
        features[17][3] = float("nan")
    elif defect == "inf":
        features[17][3] = float("-inf")
    elif defect == "label":
        labels[17][2] = 2
    elif defect == "length":
        labels.pop()
    elif defect == "width":
        features[:] = [row[:-1] for row in features]
    elif defect == "class":
        names[0] = "stranger"
    elif defect == "twice":
        names[0] = names[-1]


def save_split(settings, split, features, labels, names):
    folder, kind = settings.folder, settings.type
    shape = [len(features), 1 + settings.views, settings.width] if settings.views else [len(features), len(features[0])]
    tensors = [("features", kind, shape, pack(features, kind)),
               ("labels", "I8", [len(labels), len(labels[0])], pack(labels, "I8"))]
    if settings.ids or settings.defect == "ids":
        ids = "\n".join(f"{split} {i}.jpg" for i in range(len(features) - (settings.defect == "ids"))).encode()
        tensors.append(("ids", "U8", [len(ids)], ids))
    metadata = {"classes": "\n".join(names), "backbone": "made up"}
    if settings.views:
        metadata["views"] = str(settings.views)
    save_safetensors(folder / f"{split}.safetensors", tensors, metadata)
    save_npy(folder / f"{split}.npy", features, kind, views=settings.views)
    if not settings.views:
        save_npy(folder / f"{split}_fortran.npy", features, kind, fortran=True)
    save_npy(folder / f"{split}_labels.npy", labels, "I8")
    save_npy(folder / f"{split}_labels_fortran.npy", labels, "I8", fortran=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--test-rows", type=int, default=200)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--classes", type=int, default=6)
    parser.add_argument("--type", choices=["F32", "F16"], default="F32")
    parser.add_argument("--views", type=int, default=0, help="crops of each row; 0: none")
    parser.add_argument("--ids", action="store_true", help="a name for every row")
    parser.add_argument("--odd-names", action="store_true", help="a class name with a comma, quotes and an accent")
    parser.add_argument("--unlabelled", type=int, default=0, help="rows at the beginning that show no class")
    parser.add_argument("--empty", type=int, default=-1, help="a class, by its column, that no row shows")
    parser.add_argument("--defect", choices=DEFECTS)
    parser.add_argument("--split", choices=["train", "test"], default="train", help="where the defect is")
    settings = parser.parse_args()
    settings.folder.mkdir(parents=True, exist_ok=True)
    centres = directions(settings)
    for split, count in ("train", settings.rows), ("test", settings.test_rows):
        features, labels = draw_rows(settings, count, split, centres)
        if settings.views:
            features = add_crops(settings, split, features, labels, centres)
        names = class_names(settings)
        if split == settings.split:
            spoil(settings.defect, features, labels, names)
        save_split(settings, split, features, labels, names)
    (settings.folder / "names.txt").write_text("\n".join(class_names(settings)) + "\n")


main()
