#!/usr/bin/env python3
"""Folders of folders and lists against a second reader in Python: VOC pictures copied into folders named by class, with spaces,
umlauts, copies and files that are no pictures; and lists of many shapes, read with Python's csv module."""
import csv
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections import Counter
from itertools import combinations
from pathlib import Path

sys.dont_write_bytecode = True
import feature_file
from support import COMMAND, check, finish, l3a

SHARED = Path(os.environ.get("L3A_SHARED", "../shared"))
VOC = SHARED / "data" / "voc2007-small" / "VOCdevkit" / "VOC2007"
GERMAN = {"cat": "Katze", "sofa": "schönes Sofa", "bird": "Vögel & Co", "tvmonitor": "TV, groß", "bottle": "Flasche;leer"}
LISTS = int(os.environ.get("L3A_LISTS", "150"))


def data(name, *options, code=0):
    done = l3a("data", name, "--format", "json", "--quiet", *options, code=code)
    return json.loads(done.stdout)


# ---- Folders ----

def read_folders(root, split=None):
    """{id of the first file of a picture: its classes}, and the classes. A picture is its SHA-256."""
    base = root / split if split else root
    first, classes = {}, {}
    tops = sorted((p for p in base.iterdir() if p.is_dir() and not p.name.startswith(".") and p.name != "@eaDir"), key=lambda p: os.fsencode(p.name))
    files = []
    for top in tops:
        inside = [Path(where) / name for where, folders, names in os.walk(top) for name in names
                  if not any(part.startswith(".") or part == "@eaDir" for part in (Path(where) / name).relative_to(top).parts)]
        files += [(path, top.name) for path in sorted(inside, key=lambda p: os.fsencode(str(p)))]
    files += [(path, None) for path in sorted(base.iterdir(), key=lambda p: os.fsencode(p.name)) if path.is_file() and not path.name.startswith(".")]
    for path, name in files:
        content = path.read_bytes()
        if content[:3] != b"\xff\xd8\xff" and content[:8] != b"\x89PNG\r\n\x1a\n":
            continue
        key = hashlib.sha256(content).digest()
        first.setdefault(key, path.relative_to(root).as_posix())
        classes.setdefault(key, set()).update({name} - {None})
    return {first[key]: classes[key] for key in first}, sorted({top.name for top in tops}, key=str.encode)


def compare_data(about, rows, classes):
    name = about["dataset"]
    counts = Counter(label for labels in rows.values() for label in labels)
    pairs = Counter(pair for labels in rows.values() for pair in combinations(sorted(labels, key=str.encode), 2))
    check([c["name"] for c in about["classes"]] == classes, f"{name}: the classes")
    check([c["pictures"] for c in about["classes"]] == [counts[c] for c in classes], f"{name}: pictures of each class")
    check(about["pictures"] == len(rows) and about["without_labels"] == sum(not labels for labels in rows.values()), f"{name}: totals")
    check(about["labels"] == sum(map(len, rows.values())) and about["missing"]["count"] == 0, f"{name}: labels")
    check([p["pictures"] for p in about["pairs"]] == [count for _, count in pairs.most_common(5)], f"{name}: pairs")


def compare_rows(path, rows, classes):
    """Row by row, in the feature file that is extracted from the folders."""
    tensors, metadata = feature_file.load(path)
    check(metadata["classes"].split("\n") == classes, f"{path}: the classes")
    read = {id: {c for c, label in zip(classes, labels) if label == 1} for id, labels in zip(feature_file.ids(tensors), tensors["labels"])}
    check(read == rows, f"{path}: {len(read)} rows, {len(rows)} expected")


def voc_pictures(split, count):
    for name in (VOC / "ImageSets/Main" / f"{split}.txt").read_text().split()[:count]:
        tree = xml.etree.ElementTree.parse(VOC / "Annotations" / f"{name}.xml")
        yield VOC / "JPEGImages" / f"{name}.jpg", sorted({o.findtext("name") for o in tree.getroot().findall("object")})


def make_folders(root, split, count):
    """A picture lies in the folder of each of its classes; every seventh one lies in none."""
    for i, (path, names) in enumerate(voc_pictures(split, count)):
        for j, name in enumerate(names if i % 7 else [""]):
            folder = root / GERMAN.get(name, name) / ("", "2007", "2007/März")[(i + j) % 3 if name else 0]
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / f"Bild {i} {'äöü'[i % 3]}{j}.{('jpg', 'JPG', 'jpeg', 'dat')[i % 4]}")
    some = next(p for p in sorted(root.iterdir()) if p.is_dir())
    (some / "Thumbs.db").write_bytes(b"\0" * 100)
    (some / "notes.txt").write_text("no picture")
    for hidden in ".thumbnails", "@eaDir":
        (some / hidden).mkdir()
        shutil.copy(path, some / hidden / "small.jpg")
    (root / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")


def test_folders(folder):
    single, both = folder / "meine Bilder", folder / "splits"
    single.mkdir()
    make_folders(single, "trainval", 150)
    rows, classes = read_folders(single)
    check(any(len(labels) > 2 for labels in rows.values()) and any(not labels for labels in rows.values()), "pictures of three classes, and of none")
    compare_data(data(f"folders:{single}"), rows, classes)
    feature_file.write_small_vit(folder / "vit.safetensors")
    l3a("extract", "--backbone", folder / "vit.safetensors", "--data", f"folders:{single}", "-o", folder / "all.safetensors", "--quiet")
    compare_rows(folder / "all.safetensors", rows, classes)
    for split, count in ("train", 80), ("test", 40):
        (both / split).mkdir(parents=True)
        make_folders(both / split, "trainval" if split == "train" else "test", count)
    names = [read_folders(both, split)[1] for split in ("train", "test")]
    classes = sorted(set(names[0]) | set(names[1]), key=str.encode)
    check(names[0] != names[1], "a class that one split lacks")
    for split in "train", "test":
        rows, _ = read_folders(both, split)
        compare_data(data(f"folders:{both}", "--split", split), rows, classes)
        l3a("extract", "--backbone", folder / "vit.safetensors", "--data", f"folders:{both}", "--split", split, "-o",
            folder / f"{split}.safetensors", "--quiet")
        compare_rows(folder / f"{split}.safetensors", rows, classes)
    l3a("run", "--train", folder / "train.safetensors", "--test", folder / "test.safetensors", "--protocol", "B0-C10", "--dim", "64", "-o",
        folder / "run", "--quiet")
    check((folder / "run/report.html").read_text().count("data:image/jpeg") > 0, "the report shows the pictures")


# ---- Lists ----

def expected_labels(rows, header, separator):
    """The rule of docs/formats.md, in other words. Each row is a list of (text, quoted)."""
    column = header.index("labels")
    open_ended = separator != "," and all(name in ("", "labels") for name in header[column + 1:])
    cells = [row[column:] if open_ended else row[column:column + 1] for row in rows]
    split_at = ";"
    if not any(";" in text for row in cells for text, _ in row):
        loose = [text for row in cells for text, quoted in row if quoted or separator != ","]
        split_at = "|" if any("|" in text for text in loose) else ","
    found = []
    for row in cells:
        labels = set()
        for text, quoted in row:
            labels |= {part.strip(" \t") for part in (text.split(split_at) if split_at == ";" or quoted or separator != "," else [text])}
        found.append(labels - {""})
    return found


def random_list(rng):
    """The bytes of a list, its paths and its labels."""
    separator, inner = rng.choice(",;\t"), rng.choice(["; ", ";", "|", ",", ", "])
    names = ["cat", "hot dog", "Käse", 'so "so"', "a,b", "x|y"][:rng.choice([3, 4, 6])]
    header = rng.choice([["path", "labels"], ["labels", "path"], ["path", "note", "labels"], ["path", "labels", "note"], ["path", "labels", "", ""]])
    wide = separator != "," and header[-1] != "note" and header[-1] != "path" and rng.random() < 0.5
    rows = []
    for i in range(rng.randint(1, 12)):
        row = {"path": f"{rng.choice(['a b', 'ü', 'x,y', 'semi;colon', 'tab', 'say hi'])} {i}.jpg", "note": rng.choice(["", "two\nlines", "a;b,c"])}
        labels = rng.sample(names, rng.randint(0, 3))
        texts = [row.get(name, "") for name in header]
        texts[header.index("labels")] = inner.join(labels)
        if wide:
            texts[header.index("labels"):] = labels or [""]
        rows.append([(text, any(c in text for c in separator + '"\r\n') or rng.random() < 0.2) for text in texts])
    end, quote = rng.choice(["\n", "\r\n"]), lambda text, quoted: '"' + text.replace('"', '""') + '"' if quoted else text
    lines = [separator.join(header)] + [separator.join(quote(*field) for field in row) for row in rows]
    content = rng.choice(["", "\ufeff"]) + end.join(lines) + rng.choice(["", end])
    read = list(csv.reader(io.StringIO(content.removeprefix("\ufeff"), newline=""), delimiter=separator))
    assert read[1:] == [[text for text, _ in row] for row in rows], "the test's own writer and Python's reader"
    return content.encode(), [row[header.index("path")][0] for row in rows], expected_labels(rows, header, separator)


def test_lists(folder):
    rng = random.Random(7)
    tried = 0
    for i in range(LISTS):
        content, paths, labels = random_list(rng)
        path = folder / f"{i}.csv"
        path.write_bytes(content)
        classes = sorted(set().union(*labels), key=str.encode)
        if not classes:
            continue
        tried += 1
        done = subprocess.run([COMMAND, "data", f"list:{path}", "--format", "json", "--quiet"], capture_output=True, text=True)
        about = json.loads(done.stdout) if done.stdout else {}
        counts = Counter(label for row in labels for label in row)
        good = bool(about) and [(c["name"], c["pictures"]) for c in about["classes"]] == [(c, counts[c]) for c in classes] \
            and about["pictures"] == len(paths) and about["without_labels"] == sum(not row for row in labels) \
            and about["most_labels"] == max(map(len, labels)) \
            and [text.split(": not found")[0] for text in about["missing"]["first"]] == [f"{folder}/{p}" for p in paths[:5]]
        check(good, f"list {i}: {content!r}: {labels} expected, {done.stdout}{done.stderr}")
    check(tried > LISTS // 2, "enough lists with labels")


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_lists(Path(folder))
    if VOC.is_dir():
        with tempfile.TemporaryDirectory() as folder:
            test_folders(Path(folder))
    if finish():
        return 1
    if not VOC.is_dir():
        print(f"skipped: there is no VOC 2007 at {VOC}; the lists passed")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
