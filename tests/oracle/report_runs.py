"""Runs for the tests of reports: tables with hostile and foreign class names, rare classes, and pictures."""
import json
import os
import struct
import subprocess

import numpy as np
from PIL import Image

L3A = os.path.join(os.environ["L3A_BUILD"], "l3a")
NAMES = ["<script>alert(1)</script>", "\"><img src=x onerror=alert(2)>", "a & b; 'c' &amp; &#60;", "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWW", "人間と犬と猫と鳥と魚と馬",
         "\u202eright to left\u202c אבג", "a long name " * 12 + "ends", "{{7*7}} ${7*7} %s %n", "cat", "dog", "é", "🐈 cat face"]


def on_page(name):
    """A name as the page shows it: marks that change the direction of writing become U+FFFD."""
    return "".join("\ufffd" if c in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" else c for c in name)



def save_table(path, features, labels, ids, names, **records):
    tensors = [("features", "F32", features.astype("<f4")), ("labels", "I8", labels.astype("i1")),
               ("ids", "U8", np.frombuffer("\n".join(ids).encode(), "u1"))]
    header, offset = {"__metadata__": {"classes": "\n".join(names), **records}}, 0
    for name, kind, array in tensors:
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for *_, array in tensors))


def make_tables(folder, names=NAMES, rows=(700, 240), width=24, pictures=True):
    """train.safetensors, test.safetensors, and a list of drawn pictures that the second came from; returns the labels."""
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(len(names), width))
    chance = np.geomspace(0.03, 0.5, len(names))
    made = {}
    for split, count in zip(("train", "test"), rows):
        labels = (rng.random((count, len(names))) < chance).astype("i1")
        labels[np.arange(count), rng.integers(len(names) // 2, len(names), count)] = 1
        features = labels * rng.uniform(0.6, 1.4, labels.shape) @ centres + rng.normal(scale=0.9, size=(count, width))
        ids = [f"{split}/{i:04d} \"<i>&.jpg" for i in range(count)]
        records = {"backbone": "a <b>net</b> & more"}
        if split == "test" and pictures:
            os.makedirs(os.path.join(folder, "test"), exist_ok=True)
            lines = ["path,labels"]
            for i, name in enumerate(ids):
                if i % 2 == 0 or i < 40:
                    Image.fromarray(rng.integers(0, 255, (30, 40 + i % 30, 3), dtype="u1")).resize((64, 48)).save(os.path.join(folder, name))
                else:
                    open(os.path.join(folder, name), "w").write("not a picture")
                lines.append('"' + name.replace('"', '""') + '",x')
            with open(os.path.join(folder, "pictures.csv"), "w") as file:
                file.write("\n".join(lines) + "\n")
            records.update(data="list:" + os.path.join(folder, "pictures.csv"), split="")
        save_table(os.path.join(folder, f"{split}.safetensors"), features, labels, ids, names, **records)
        made[split] = labels
    return made


def crop_boxes(views):
    """Left, top and side of each crop, as shares of the picture (SPEC section 7)."""
    corners = [(0, 0, 0.6), (0.4, 0, 0.6), (0, 0.4, 0.6), (0.4, 0.4, 0.6), (0.2, 0.2, 0.6)]
    grid = [(left, top, 0.45) for top in (0, 0.275, 0.55) for left in (0, 0.275, 0.55)]
    return {5: corners, 9: grid, 14: corners + grid}[views]


def make_view_tables(folder, views, names=NAMES, rows=(300, 60), width=24):
    """Tables like those above, with crops: each class of an image is large in one of them. The test pictures are black or white, wide or
    high. Returns the test features, and for each test image and class the crop that has it."""
    rng = np.random.default_rng(6)
    centres = rng.normal(size=(len(names), width))
    os.makedirs(os.path.join(folder, "test"))
    for split, count in zip(("train", "test"), rows):
        labels = (rng.random((count, len(names))) < 0.15).astype("i1")
        labels[np.arange(count), rng.integers(0, len(names), count)] = 1
        crops = rng.integers(1, views + 1, labels.shape)
        features = rng.normal(scale=0.3, size=(count, views + 1, width))
        features[:, 0] += labels @ centres
        for i, k in np.argwhere(labels):
            features[i, crops[i, k]] += 2 * centres[k]
        features = features.astype("<f4")
        ids = [f"{split}/{i:04d} \"<i>&.png" for i in range(count)]
        save_table(os.path.join(folder, f"{split}.safetensors"), features, labels, ids, names, views=str(views),
                   data="list:" + os.path.join(folder, "pictures.csv"), split="")
    for i, name in enumerate(ids):
        size = [(640, 480), (300, 500), (900, 200), (7, 5), (60, 400)][i % 5]
        Image.new("RGB", size, "white" if i % 2 else "black").save(os.path.join(folder, name))
    with open(os.path.join(folder, "pictures.csv"), "w") as file:
        file.write("path,labels\n" + "".join('"' + name.replace('"', '""') + '",x\n' for name in ids))
    return features, crops


def run(*arguments, code=0):
    done = subprocess.run([L3A, *arguments], capture_output=True, text=True)
    assert done.returncode == code, f"exit {done.returncode} instead of {code}: {arguments}\n{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def make_run(folder, name, *options):
    path = os.path.join(folder, name)
    run("run", "--train", os.path.join(folder, "train.safetensors"), "--test", os.path.join(folder, "test.safetensors"), "--dim", "96",
        "--gamma", "10", "--eta", "0.55", "--threads", "1", "-o", path, "--quiet", *options)
    return path
