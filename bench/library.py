#!/usr/bin/python3
"""What people wait for in a library that remembers: start, pages of results, lessons, and what an index takes, with many made-up pictures.

    bench/library.py [--pictures N] [--rounds N] [--backbone FILE] [--photos FOLDER] [--keep FOLDER] [--only PART,…]
        --pictures  of the index [1000000]; a tenth of them is measured before, to see how things grow
        --backbone  a checkpoint with features 192 wide [../shared/backbones/vit_tiny_patch16_224.safetensors]
        --photos    real pictures, of which 20,000 hard links are made, for the time of a scan [../shared/data/voc2007-small]
        --keep      makes the index in this folder, or measures the one that is there; otherwise in a new one, which is removed
        --only      of: width (the two smaller indexes below), scan, server, index
        L3A_BUILD   the build folder, with bench_library (make bench, or cmake -DL3A_BENCH=ON)

Features are made up: 2,000 directions with as much noise. The model has dim 2,048 and 20 tags, and was taught 4,000 such pictures. The files are in the
page cache when the program starts, except where it says "cold". Programs wait passively for each other (OMP_WAIT_POLICY). A page is 60 pictures, with path, date and state; the first time of an order that needs
names includes reading them. The server has the 20,000 links, to 400 pictures, and a model with one tag; it is started twice, and then new pictures
are put into the folder. Private memory is Private_Clean + Private_Dirty of /proc/self/smaps_rollup. Other widths and views are measured with a tenth
of the pictures; times ten is then an estimate. A missed target is printed; it is not an error."""
import argparse
import json
import math
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from measured import conditions, report, spread

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.path.join(HERE, "..", "..", "shared")
PROGRAM = os.path.join(os.path.abspath(os.environ.get("L3A_BUILD", os.path.join(HERE, "..", "build"))), "bench_library")
COMMAND = "bench/library.py"
SCANNED, THREADS, DIM, TAGS = 20000, 2, 2048, 20
CONTENTS, ARRIVING = 400, 5
PAGES = {"page-date": "a page by date", "page-tag": "a page of a tag, most sure first", "page-expression": "a page of and, or, not, date and folder",
         "page-not": "a page of not a tag, by date", "page-unsure": "a page of what is in doubt", "page-name": "a page by name",
         "page-part-of-name": "a page of names with a part"}


def run(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join([PROGRAM, *map(str, words)])}\n{done.stderr[-3000:]}")
    return {line.split()[0]: [float(value) for value in line.split()[1:]] for line in done.stdout.splitlines() if line}


def write_wide_backbone(path, width, blocks=12, hidden=64):
    """A ViT for pictures of 12 x 12, of zeros: only the width of its features matters here."""
    shapes = {"cls_token": [1, 1, width], "pos_embed": [1, 10, width], "patch_embed.proj.weight": [width, 3, 4, 4], "patch_embed.proj.bias": [width]}
    for i in range(blocks):
        shapes |= {f"blocks.{i}.norm1.weight": [width], f"blocks.{i}.norm1.bias": [width], f"blocks.{i}.attn.qkv.weight": [3 * width, width],
                   f"blocks.{i}.attn.qkv.bias": [3 * width], f"blocks.{i}.attn.proj.weight": [width, width], f"blocks.{i}.attn.proj.bias": [width],
                   f"blocks.{i}.norm2.weight": [width], f"blocks.{i}.norm2.bias": [width], f"blocks.{i}.mlp.fc1.weight": [hidden, width],
                   f"blocks.{i}.mlp.fc1.bias": [hidden], f"blocks.{i}.mlp.fc2.weight": [width, hidden], f"blocks.{i}.mlp.fc2.bias": [width]}
    shapes |= {"norm.weight": [width], "norm.bias": [width]}
    head, offset = {}, 0
    for name, shape in shapes.items():
        count = 4 * math.prod(shape)
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + count]}
        offset += count
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)


def forget_cache(folder):
    """Asks the system to drop what it has cached of the files."""
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Index:
    def __init__(self, folder, backbone, views=0):
        self.folder, self.backbone, self.views = folder, backbone, views
        self.model, self.other = os.path.join(folder, "model.l3a"), os.path.join(folder, "other.l3a")
        os.makedirs(folder, exist_ok=True)
        for path, seed in ((self.model, 1), (self.other, 2)):
            if not os.path.exists(path):
                run("model", backbone, path, seed, DIM, TAGS)

    def fill(self, count):
        run("fill", self.backbone, self.model, count, self.views)

    def measure(self, rounds):
        return run("measure", self.backbone, self.model, self.other, self.views, THREADS, rounds)

    def disk(self):
        return sum(os.path.getsize(os.path.join(self.folder, name)) for name in os.listdir(self.folder) if name.startswith("model.l3a.library"))


def later(values):
    """Without the first, which is reported by itself."""
    return values[1:] or values


def mib(values):
    return [value / 2**20 for value in values]


def report_index(measured, count, disk, command):
    label = f"{count:,} pictures: "

    def tell(what, values, target, limit, form="{:.3f} s"):
        met = not target or statistics.median(values) <= limit
        report(label + what, target, spread(values, form), met, command)

    start = [sum(measured[name][0] for name in ("start-model", "start-index"))]
    tell("start: model, index, counts and first page", start, "≤ 2 s", 2)
    tell("private memory after the start", mib(measured["memory-start"]), "≤ 600 MiB", 600, "{:.0f} MiB")
    tell("private memory after all pages and counts", mib(measured["memory-pages"]), "≤ 600 MiB", 600, "{:.0f} MiB")
    tell("private memory after lessons", mib(measured["memory-lessons"]), "≤ 600 MiB", 600, "{:.0f} MiB")
    for name, what in PAGES.items():
        tell(what, later(measured[name]), "≤ 0.1 s", 0.1)
    tell("the first page by name, with reading their order", measured["page-name"][:1], "", 0)
    tell("the first search in names, with reading them", measured["page-part-of-name"][:1], "", 0)
    tell("all pictures by date", later(measured["page-all"]), "", 0)
    tell("a page of what to judge next", later(measured["page-novel"]), "", 0)
    tell("like this one", later(measured["like-1"]), "≤ 0.15 s", 0.15)
    tell("like these eight", later(measured["like-8"]), "≤ 0.15 s", 0.15)
    if "word" in measured:
        tell("the word dog (118 classes)", later(measured["word"]), "", 0)
    tell("state with the counts of 20 tags, unchanged", later(measured["state"]), "", 0)
    tell("scores of 60 pictures on the page after a lesson", measured["lesson-page"], "≤ 0.5 s", 0.5)
    tell("scores of all pictures after a lesson", measured["lesson-all"], "≤ 15 s", 15)
    tell("the same: seconds of both processors together", measured["lesson-processor"], "", 0)
    tell("size on disk", mib([disk]), "", 0, "{:.0f} MiB")


def measure_index(options, folder):
    index = Index(folder, options.backbone)
    command = f"{COMMAND} --only index"
    marker = os.path.join(folder, "filled")
    kept = int(open(marker).read()) if os.path.exists(marker) else 0
    results = []
    for count in (options.pictures // 10, options.pictures):
        if kept <= count:
            index.fill(count)
            with open(marker, "w") as file:
                file.write(str(count))
            index.measure(0)  # so that all files are in the page cache
            results.append((index.measure(options.rounds), index.disk()))
            report_index(results[-1][0], count, results[-1][1], command)
    forget_cache(folder)
    cold = index.measure(0)
    report(f"{options.pictures:,} pictures, cold: start", "", spread([cold["start-model"][0] + cold["start-index"][0]], "{:.2f} s"), True, command)
    report(f"{options.pictures:,} pictures, cold: the first like this one", "", spread(cold["like-1"][:1], "{:.2f} s"), True, command)
    if len(results) == 2:
        (small, small_disk), (large, large_disk) = results
        for what, pair in {"size on disk": (small_disk, large_disk), "scores after a lesson": [min(m["lesson-all"]) for m in (small, large)],
                           "like this one": [min(later(m["like-1"])) for m in (small, large)],
                           "start of the index": [m["start-index"][0] for m in (small, large)]}.items():
            report(f"ten times the pictures: {what}", "≤ 12 times", f"{pair[1] / pair[0]:.1f} times", pair[1] <= 12 * pair[0], command)


def measure_width(options, folder):
    command, count = f"{COMMAND} --only width", options.pictures // 10
    wide = os.path.join(folder, "wide.safetensors")
    write_wide_backbone(wide, 768)
    for label, backbone, views in (("width 768", wide, 0), ("width 192, 14 views", options.backbone, 14)):
        index = Index(os.path.join(folder, label.replace(" ", "-").replace(",", "")), backbone, views)
        index.fill(count)
        measured = index.measure(1)
        for what, values, form in (("like this one", later(measured["like-1"]), "{:.3f} s"), ("scores after a lesson", measured["lesson-all"], "{:.2f} s"),
                                   ("the same: seconds of both processors together", measured["lesson-processor"], "{:.2f} s"),
                                   ("private memory", mib(measured["memory-lessons"]), "{:.0f} MiB"), ("size on disk", mib([index.disk()]), "{:.0f} MiB")):
            report(f"{label}, {count:,} pictures: {what}", "", spread(values, form), True, command)
        scaled = {"like this one": f"{10 * min(later(measured['like-1'])):.2f} s", "scores after a lesson": f"{10 * min(measured['lesson-all']):.0f} s",
                  "size on disk": f"{10 * index.disk() / 2**30:.1f} GiB"}
        print(f"  ten times that: {', '.join(f'{what} {value}' for what, value in scaled.items())}")
        shutil.rmtree(index.folder)


def find_pictures(source):
    names = []
    for parent, folders, files in os.walk(source):
        folders.sort()
        names += [os.path.join(parent, name) for name in sorted(files) if name.lower().endswith((".jpg", ".jpeg", ".png"))]
    return names


def link_pictures(names, folder):
    for i in range(SCANNED if names else 0):
        parent = os.path.join(folder, f"{i // 200:03d}")
        os.makedirs(parent, exist_ok=True)
        path = os.path.join(parent, f"{i:05d}.jpg")
        try:
            os.link(names[i % len(names)], path)
        except OSError:  # another file system: one copy, and links to that
            first = os.path.join(folder, f"{i % len(names) // 200:03d}", f"{i % len(names):05d}.jpg")
            (shutil.copyfile if i < len(names) else os.link)(names[i] if i < len(names) else first, path)
    return len(names)


def measure_scan(options, folder):
    photos = os.path.join(folder, "photos")
    real = link_pictures(find_pictures(options.photos), photos)
    if not real:
        print(f"skipped: no pictures in {options.photos}")
        return
    index = Index(os.path.join(folder, "scanned"), options.backbone)
    scans = run("grow", index.backbone, index.model, photos)["scan"]
    command = f"{COMMAND} --only scan"
    report(f"scan of {SCANNED:,} files ({real:,} pictures with links), new", "", spread(scans[:1], "{:.2f} s"), True, command)
    report(f"scan of {SCANNED:,} files, nothing new", "", spread(scans[1:], "{:.2f} s"), True, command)


def settle(server, pictures):
    """Waits until so many pictures were found, looked at and scored."""
    while True:
        state = server.good("GET", "/v1/library/state")
        if state["pictures"] == pictures and state["to_look"] == state["waiting"] == 0 and state["scored"] == state["done"]:
            return
        time.sleep(0.01)


def looked(server):
    lines = server.good("GET", "/metrics").decode().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("l3a_library_looked_total ")))


def measure_server(options, folder):
    command, names = f"{COMMAND} --only server", find_pictures(options.photos)
    photos, model = os.path.join(folder, "photos"), os.path.join(folder, "served.l3a")
    if len(names) < CONTENTS + ARRIVING:
        print(f"skipped: fewer than {CONTENTS + ARRIVING} pictures in {options.photos}")
        return
    os.environ |= {"L3A_SOURCE": os.path.join(HERE, ".."), "L3A_BUILD": os.path.dirname(PROGRAM)}
    sys.path.insert(0, os.path.join(HERE, "..", "tests", "serve"))
    from server import Server, run as run_command
    link_pictures(names[:CONTENTS], photos)
    run_command("teach", model, *names[:8], "--tags", "x", "--backbone", options.backbone)
    for start in ("first", "second"):
        began = time.monotonic()
        with Server(model, "--library", photos) as server:
            server.good("GET", "/v1/find?count=60")
            answered = time.monotonic() - began
            settle(server, SCANNED)
            report(f"server, {SCANNED:,} files, {start} start: pictures that it looked at", "0" if start == "second" else "", spread([looked(server)], "{:.0f}"),
                   start == "first" or not looked(server), command)
            report(f"server, {SCANNED:,} files, {start} start: until the first page", "≤ 2 s", spread([answered], "{:.2f} s"), answered <= 2, command)
            waits = []
            for i, name in enumerate(names[-ARRIVING:] if start == "second" else []):
                shutil.copyfile(name, os.path.join(photos, f"{i:03d}", f"new{i}.jpg"))
                began = time.monotonic()
                settle(server, SCANNED + i + 1)
                waits.append(time.monotonic() - began)
                time.sleep(2)
            server.stop()
    report("from saving a picture to its tags", "≤ 2 s", spread(waits, "{:.2f} s"), max(waits) <= 2, command)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=1000000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backbone", default=os.path.join(SHARED, "backbones", "vit_tiny_patch16_224.safetensors"))
    parser.add_argument("--photos", default=os.path.join(SHARED, "data", "voc2007-small"))
    parser.add_argument("--keep")
    parser.add_argument("--only", default="width,scan,server,index")
    options = parser.parse_args()
    options.backbone = os.path.abspath(options.backbone)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for name, value in conditions(os.environ).items():
        print(f"{name}: {value}")
    folder = options.keep or tempfile.mkdtemp(prefix="l3a-library-")
    try:
        parts = {"scan": measure_scan, "server": measure_server, "width": measure_width, "index": measure_index}
        for name, part in parts.items():
            if name in options.only.split(","):
                own = os.path.join(folder, name)
                os.makedirs(own, exist_ok=True)
                part(options, own)
    finally:
        if not options.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
