#!/usr/bin/env python3
"""A model file opened with struct and json alone: its layout, the equation it solves, and the scores it gives."""
import csv
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from support import COMMAND, check, finish, random_layer

SOURCE = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))
TYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I8": np.int8, "U8": np.uint8}
DIM, GAMMA, SEED = 160, 7.5, 31


def l3a(*arguments):
    return subprocess.run([COMMAND, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def read(path):
    """Metadata, tensors, and whether the tensors follow one another to the end of the file."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata, tensors, at = header.pop("__metadata__"), {}, 0
    contiguous = True
    for name, about in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = about["data_offsets"]
        contiguous = contiguous and first == at
        at = last
        tensors[name] = np.frombuffer(data[8 + length + first:8 + length + last], TYPES[about["dtype"]]).reshape(about["shape"])
    return metadata, tensors, contiguous and 8 + length + at == len(data), length


def symmetric(triangle):
    full = np.zeros((DIM, DIM))
    full[np.tril_indices(DIM)] = triangle
    return full + np.tril(full, -1).T


def check_layout(metadata, tensors, contiguous, length, classes, images):
    check((8 + length) % 8 == 0, "the tensors begin at a multiple of 8")
    check(contiguous, "the tensors lie one after another, to the end of the file")
    expected = {"format": "l3a-model", "version": "3", "width": "24", "dim": str(DIM), "gamma": str(GAMMA), "seed": str(SEED),
                "classes": "\n".join(classes), "record.backbone": "made up"}
    for key, value in expected.items():
        check(metadata.get(key) == value, f"metadata {key}: {metadata.get(key)!r} instead of {value!r}")
    for name in [*tensors, "header"]:
        check(len(metadata.get(f"xxh3.{name}", "")) == 16, f"a checksum of {name}")
    shapes = {"cross": (DIM, len(classes)), "weights": (DIM, len(classes)), "counts": (len(classes),)}
    for name, shape in shapes.items():
        check(tensors[name].shape == shape, f"the shape of {name}: {tensors[name].shape}")
    check(tensors["counts"].tolist() == images, f"counts {tensors['counts'].tolist()} instead of {images}")
    phases = [line.split() for line in metadata["phases"].split("\n")]
    check([p[:2] for p in phases] == [["0", "2"], ["2", "5"]], f"phases {phases}")


def check_solution(name, tensors, limit):
    weights, cross = tensors["weights"], tensors["cross"]
    if "inverse" in tensors:
        off = np.abs(symmetric(tensors["inverse"]) @ cross - weights).max()
    else:
        off = np.abs((symmetric(tensors["gram"]) + GAMMA * np.eye(DIM)) @ weights - cross).max()
        check((np.linalg.eigvalsh(symmetric(tensors["gram"])) > -1e-3).all(), f"{name}: A is positive semi-definite")
    check(off <= limit, f"{name}: the equation is off by {off:.2g}")
    print(f"{name}: the equation is off by {off:.2g}")


def check_scores(name, model, test, tensors, classes):
    features = read(test)[1]["features"].astype(np.float64)
    scores = np.maximum(features @ random_layer(features.shape[1], DIM, SEED), 0) @ tensors["weights"]
    table = csv.DictReader(io.StringIO(l3a("predict", model, "--features", test, "--top", len(classes), "--format", "csv")))
    got = np.full(scores.shape, np.nan)
    for row in table:
        got[int(row["id"]), classes.index(row["class"])] = float(row["score"])
    off = np.abs(got - scores).max()
    check(off <= 1e-3, f"{name}: scores are off by {off}")
    print(f"{name}: scores are off by {off:.2g}")


def check_model(name, folder, limit, *options):
    train, test, model = folder / "train.safetensors", folder / "test.safetensors", folder / name
    for classes in "class00,class01", "class04,class02,class03":
        l3a("learn", model, "--features", train, "--classes", classes, "--dim", DIM, "--gamma", GAMMA, "--seed", SEED, *options)
    classes = ["class00", "class01", "class04", "class02", "class03"]
    metadata, tensors, contiguous, length = read(model)
    data = read(train)
    order = data[0]["classes"].split("\n")
    images = [int((data[1]["labels"][:, order.index(c)] == 1).sum()) for c in classes]
    check_layout(metadata, tensors, contiguous, length, classes, images)
    triangle = tensors.get("gram", tensors.get("inverse"))
    check(triangle.shape == (DIM * (DIM + 1) // 2,), f"{name}: the triangle has {triangle.shape}")
    check(triangle.dtype == (np.float32 if "float32" in options else np.float64), f"{name}: the triangle is {triangle.dtype}")
    check(("inverse" in tensors) == ("recursive" in options), f"{name}: gram or inverse")
    check_solution(name, tensors, limit)
    check_scores(name, model, test, tensors, classes)


with tempfile.TemporaryDirectory() as made:
    subprocess.run([sys.executable, SOURCE / "tests" / "cli" / "make_features.py", made], check=True)
    check_model("mixed", Path(made), 1e-8)
    check_model("double", Path(made), 1e-8, "--precision", "double")
    check_model("float32", Path(made), 1e-2, "--store", "float32")
    check_model("recursive", Path(made), 1e-8, "--precision", "double", "--solver", "recursive")
sys.exit(finish())
