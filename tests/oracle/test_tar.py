#!/usr/bin/env python3
"""Tar files against Python's tarfile: archives of all formats, with long and foreign names, of more than 8 GiB, by Python and by tar,
and with changed bytes. Where the library finds pictures, tarfile finds the same members in the same places; and labels are those of a
second reader of WebDataset's layout."""
import ctypes
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from library import Library, Refused
from support import check, finish

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
PICTURES, LABELS = ("jpg", "jpeg", "png", "webp", "heic"), ("json", "cls", "txt")
WORDS = ("dog", "hot dog", "Käse", "猫", "7", "cat", "Vögel & Co", "a'b")
library = Library(threads=1)


def read_library(name):
    """[(id, archive, offset, bytes, labels)] of a data set."""
    made = ctypes.c_void_p()
    library.dataset_open(name.encode(), None, None, ctypes.byref(made))
    classes = [library.dataset_class(made, k).decode() for k in range(library.dataset_class_count(made))]
    assert classes == sorted(classes, key=str.encode)
    labels = ctypes.string_at(library.dataset_labels(made), library.dataset_rows(made) * len(classes))
    rows, offset, size = [], ctypes.c_uint64(), ctypes.c_uint64()
    for i in range(library.dataset_rows(made)):
        archive = library.dataset_archive(made, i, ctypes.byref(offset), ctypes.byref(size)).decode()
        shown = {name for name, label in zip(classes, labels[i * len(classes):]) if label == 1}
        rows.append((library.dataset_id(made, i).decode(), archive, offset.value, size.value, shown))
    library.dataset_free(made)
    return rows


def labels_of(contents, key):
    """Of a sample, by the first of .json, .cls and .txt that has any."""
    if f"{key}.json" in contents:
        value = json.loads(contents[f"{key}.json"])
        value = next((value[field] for field in ("labels", "label", "tags", "tag", "classes", "class", "cls") if field in value), []) \
            if isinstance(value, dict) else value
        found = {str(one).strip() for one in (value if isinstance(value, list) else [value])}
        if found:
            return found
    for ending in "cls", "txt":
        found = {line.strip() for line in contents.get(f"{key}.{ending}", b"").decode().splitlines()} - {""}
        if found:
            return found
    return set()


def read_python(path):
    """The same with tarfile."""
    with tarfile.open(path, "r:") as archive:
        files = [member for member in archive.getmembers() if member.isreg()]
        contents = {member.name: archive.extractfile(member).read() for member in files if member.name.rsplit(".", 1)[-1] in LABELS}
    rows = []
    for member in files:
        folder, _, last = member.name.rpartition("/")
        key, dot, ending = last.partition(".")
        name = member.name[2:] if member.name.startswith("./") else member.name
        if dot and ending in PICTURES and not any(part.startswith(".") for part in name.split("/")):
            rows.append((name, str(path), member.offset_data, member.size, labels_of(contents, f"{folder}/{key}" if folder else key)))
    return rows


def random_name(rng, form, number):
    parts = [rng.choice(("a", "some folder", "höher", "写真", "x" * 40)) for _ in range(rng.randrange(6))]
    last = f"{number}-" + "n" * rng.choice((0, 3, 60)) + rng.choice(("", "é", "ß"))
    if form == "gnu" and rng.random() < 0.1:
        parts.append("y" * 200)
    if form == "pax" and rng.random() < 0.1:
        parts.append("長" * 80)
    name = "/".join(parts + [last])
    return name if form != "ustar" or len(name.encode()) < 140 else f"{number}"


def random_samples(rng, form, count):
    """[(name, bytes)]: pictures that are none, with labels, in any order."""
    members = []
    for i in range(count):
        name = random_name(rng, form, i)
        members.append((f"{name}.{rng.choice(PICTURES)}", rng.randbytes(rng.choice((0, 1, 511, 512, 513, 5000)))))
        words = rng.sample(WORDS, rng.randrange(1, 4))
        for ending in rng.sample(LABELS, rng.randrange(1, 4)):
            field = rng.choice(("labels", "tags", "classes", "label"))
            numbers = [int(word) if word.isdigit() else word for word in words]
            text = {"json": json.dumps(rng.choice(({field: numbers, "caption": "x"}, {field: words[0]}, {"caption": "x"}, words))),
                    "cls": words[-1] + rng.choice(("", "\n")), "txt": rng.choice(("\n", "\r\n")).join(words)}[ending]
            members.append((f"{name}.{ending}", text.encode()))
    if rng.random() < 0.5:
        rng.shuffle(members)
    return members


def write(path, members, form, **settings):
    with tarfile.open(path, "w", format=form, **settings) as archive:
        for name, content in members:
            about = tarfile.TarInfo(name)
            about.size, about.mtime = len(content), 1700000000.5
            archive.addfile(about, io.BytesIO(content))
            if len(content) % 3 == 0:
                folder = tarfile.TarInfo(f"folder {name[:20]}")
                folder.type = tarfile.DIRTYPE
                archive.addfile(folder)


def compare(path, what):
    try:
        found = read_library(f"tar:{path}")
    except Refused as error:
        check(False, f"{what}: {error}")
        return
    expected = read_python(path)
    check(len(expected) > 0 and found == expected, f"{what}: {[pair for pair in zip(found, expected) if pair[0] != pair[1]][:2]}")


def archives_of_python(folder):
    for form, number in FORMATS.items():
        for seed in range(8):
            path = folder / f"{form}-{seed}.tar"
            settings = {"pax_headers": {"comment": "für alle"}} if form == "pax" and seed % 2 else {}
            write(path, random_samples(random.Random(f"{form} {seed}"), form, 30), number, **settings)
            compare(path, path.name)


def archives_of_tar(folder):
    """What tar itself writes, with './' before each name and padding to 10 KiB."""
    if not shutil.which("tar"):
        print("skipped: archives by tar: it is not installed")
        return
    rng, source = random.Random(1), folder / "source"
    for name, content in random_samples(rng, "gnu", 40):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(content)
    for form in "gnu", "oldgnu", "posix":
        path = folder / f"tar-{form}.tar"
        subprocess.run(["tar", f"--format={form}", "-cf", path, "-C", source, "."], check=True)
        compare(path, path.name)
    for form in "ustar", "v7":
        (folder / "plain").mkdir(exist_ok=True)
        (folder / "plain/a.jpg").write_bytes(b"picture")
        (folder / "plain/a.cls").write_text("dog")
        path = folder / f"tar-{form}.tar"
        subprocess.run(["tar", f"--format={form}", "-cf", path, "-C", folder / "plain", "."], check=True)
        compare(path, path.name)


def large_archives(folder):
    """A member of 9 GiB, which is a hole on the disk, and a sample after it."""
    for form in "gnu", "pax":
        path, about = folder / f"large-{form}.tar", tarfile.TarInfo("video.mp4")
        about.size = 9 << 30
        after = io.BytesIO()
        with tarfile.open(fileobj=after, mode="w", format=FORMATS[form]) as archive:
            for name, content in (("a.jpg", b"picture"), ("a.cls", b"dog")):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        with open(path, "wb") as file:
            file.write(about.tobuf(FORMATS[form]))
            file.seek(about.size, os.SEEK_CUR)
            file.write(after.getvalue())
        compare(path, path.name)
        path.unlink()


def changed_archives(folder):
    """Bytes of headers changed, with the sum made right: what the library takes, tarfile takes in the same way."""
    rng, path, taken = random.Random(2), folder / "changed.tar", 0
    for form, number in FORMATS.items():
        write(path, random_samples(rng, form, 4), number)
        whole = path.read_bytes()
        with tarfile.open(path) as archive:
            heads = [member.offset for member in archive.getmembers()]
        for _ in range(150):
            data, at = bytearray(whole), rng.choice(heads)
            size = rng.randrange(124, 136) if data[at + 156] == ord("0") else 156  # tarfile does not care about the size of a long name
            for _ in range(rng.randrange(1, 4)):
                data[at + rng.choice((rng.randrange(100), size, 156))] = rng.choice(b"\x00 /.0178x\xff")
            data[at + 148:at + 156] = b" " * 8
            data[at + 148:at + 156] = b"%06o\0 " % sum(data[at:at + 512])
            path.write_bytes(data)
            try:
                found = read_library(f"tar:{path}")
            except Refused:
                continue
            taken += 1
            check(found == read_python(path), f"{form}: changed at byte {at}")
    check(taken > 50, f"only {taken} changed archives were taken")


with tempfile.TemporaryDirectory() as name:
    archives_of_python(Path(name))
    archives_of_tar(Path(name))
    large_archives(Path(name))
    changed_archives(Path(name))
sys.exit(finish())
