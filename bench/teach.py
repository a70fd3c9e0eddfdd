#!/usr/bin/python3
"""Measures `l3a teach` and `l3a tag` as a person uses them, on the pictures of PASCAL VOC 2007 with ViT-Tiny/16.

    bench/teach.py [--only PART,…] [--classes named,random] [--draws N] [--pictures N] [--rounds N] [--quick]
        --voc FOLDER        the VOCdevkit [$L3A_VOC, or data/voc2007-small/VOCdevkit in $L3A_SHARED]
        --backbone FILE     the checkpoint [$L3A_BACKBONE, or backbones/vit_tiny_patch16_224.safetensors in $L3A_SHARED]
        --features FILE     the test pictures' features, made by `l3a extract --orient`, if they are there already; with --views, they need views
        --views N           quality: tag with 5, 9 or 14 crops of each picture; the lessons stay those of whole pictures [1]
        L3A_BUILD           the build folder

  hobbyist  300 pictures in folders with spaces and umlauts: seconds from nothing to five taught tags and a CSV file of tags for the rest.
  quality   Five classes, 15 pictures each from trainval, in one lesson. Pictures of the test split are tagged; half of them show none of the classes.
            Precision and recall are means over the classes. Then: the same pictures taught in five lessons, a class each; the first 20 wrong tags on
            one half of the tagged pictures corrected, or 20 random pictures of it taught, measured on the other half; and what teach said to expect.
            A class is shown if one of its objects is not difficult; pictures with only difficult objects of a class do not count for it.
            To save time, the test pictures go through the backbone once (`l3a extract --orient`) and each model tags the features (`l3a predict`); in
            each draw, some pictures are also tagged with `l3a tag`, and the tags must be the same.
  speed     `l3a tag` and `l3a extract` of the same pictures, in turns; and the seconds to the first tag of a new process.

A missed target is printed; it is not an error. Wall time depends on what else the machine does; processor time hardly does."""
import argparse
import csv
import glob
import io
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict, namedtuple

from measured import conditions, load, report, spread

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("L3A_BUILD", os.path.join(HERE, "..", "build")))
SHARED = os.path.abspath(os.environ.get("L3A_SHARED", os.path.join(HERE, "..", "..", "shared")))
NAMED = ["bus", "cat", "horse", "sofa", "aeroplane"]
TAGS = {"bus": "Bus", "cat": "Kätzchen", "horse": "Pferd", "sofa": "Sofa", "aeroplane": "Flugzeug über München"}
TAUGHT = 15  # pictures of each class
CHECKED = 40  # pictures of each draw that l3a tag sees too
TARGETS = {"named": (80, 75), "random": (76, 70)}
WALL, PROCESSOR = 0, 1

Run = namedtuple("Run", "output seconds")


def l3a(*arguments, given=None):
    """Runs the command; returns what it prints and its seconds: (wall, processor)."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output, tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        start = time.perf_counter()
        child = subprocess.Popen([os.path.join(BUILD, "l3a"), *map(str, arguments)], stdin=subprocess.PIPE, stdout=output, stderr=errors, text=True)
        child.stdin.write(given or "")
        child.stdin.close()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0), errors.seek(0)
        if child.returncode:
            sys.exit(f"teach.py: l3a {' '.join(map(str, arguments))[:300]}: exit code {child.returncode}\n{errors.read()[-1000:]}")
        return Run(output.read(), seconds)


# ---- pictures and what they show ------------------------------------------------------------------------------------------------------

class Voc:
    """shown[picture]: classes with an object that is not difficult; unclear[picture]: those with difficult objects only."""

    def __init__(self, folder):
        self.root = os.path.join(folder, "VOC2007")
        self.shown, self.unclear, self.splits = {}, {}, {}
        for split in "trainval", "test":
            with open(os.path.join(self.root, "ImageSets", "Main", split + ".txt"), encoding="utf-8") as file:
                self.splits[split] = [line.split()[0] for line in file if line.strip()]
            for picture in self.splits[split]:
                self.read(picture)
        self.classes = sorted(set().union(*self.shown.values()))

    def read(self, picture):
        with open(os.path.join(self.root, "Annotations", picture + ".xml"), encoding="utf-8") as file:
            text = file.read()
        objects = re.findall(r"<object>(.*?)</object>", text, re.S)
        named = [(re.search(r"<name>(.*?)</name>", each).group(1), "<difficult>1" in each.replace(" ", "")) for each in objects]
        self.shown[picture] = {name for name, difficult in named if not difficult}
        self.unclear[picture] = {name for name, _ in named} - self.shown[picture]

    def path(self, picture):
        return os.path.join(self.root, "JPEGImages", picture + ".jpg")

    def clear(self, split, classes):
        """Pictures for which it is certain which of the classes they show."""
        return [picture for picture in self.splits[split] if not self.unclear[picture] & set(classes)]


def lessons(voc, classes, choose):
    """The pictures to teach, one list for each class; no picture is in two of them."""
    free, found = voc.clear("trainval", classes), []
    for name in classes:
        found.append(choose.sample([picture for picture in free if name in voc.shown[picture]], TAUGHT))
        free = [picture for picture in free if picture not in found[-1]]
    return found


def to_tag(voc, classes, count, choose):
    """Two halves of test pictures; half of each shows none of the classes."""
    wanted, test = set(classes), voc.splits["test"]
    showing = [picture for picture in test if voc.shown[picture] & wanted]
    none = [picture for picture in test if not (voc.shown[picture] | voc.unclear[picture]) & wanted]
    count = min(count // 2, len(showing), len(none))
    showing, none = choose.sample(showing, count), choose.sample(none, count)
    halves = showing[: count // 2] + none[: count // 2], showing[count // 2:] + none[count // 2:]
    for half in halves:
        choose.shuffle(half)
    return halves


# ---- teaching, tagging, measuring -----------------------------------------------------------------------------------------------------

def write_list(path, voc, pictures, classes):
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "labels"])
        table.writerows([voc.path(picture), ";".join(name for name in classes if name in voc.shown[picture])] for picture in pictures)
    return path


def teach(model, *arguments):
    return json.loads(l3a("teach", model, *arguments, "--format", "json", "--quiet").output)


def tag(voc, given, model, pictures):
    """The tags of each picture."""
    run = l3a("tag", model, "-", "--views", given.views, "--csv", "--quiet", given="".join(voc.path(picture) + "\n" for picture in pictures))
    rows = list(csv.DictReader(io.StringIO(run.output)))
    if [row["path"] for row in rows] != [voc.path(picture) for picture in pictures]:
        sys.exit("teach.py: l3a tag did not list every picture in the order given")
    return {picture: set(filter(None, row["labels"].split(";"))) for picture, row in zip(pictures, rows)}


def predict(given, model, pictures):
    """The same from the features of the test pictures."""
    rows = json.loads(l3a("predict", model, "--features", given.features, "--views", given.views, "--format", "json", "--quiet").output)
    tags = {os.path.splitext(os.path.basename(row["id"]))[0]: {each["class"] for each in row["tags"]} for row in rows}
    return {picture: tags[picture] for picture in pictures}


def quality(voc, tags, classes):
    """Precision and recall in percent, means over the classes; a class that was never tagged has no precision, one never shown no recall."""
    precision, recall = [], []
    for name in classes:
        counted = [picture for picture in tags if name not in voc.unclear[picture]]
        given = [picture for picture in counted if name in tags[picture]]
        shown = [picture for picture in counted if name in voc.shown[picture]]
        right = sum(name in voc.shown[picture] for picture in given)
        precision += [100 * right / len(given)] if given else []
        recall += [100 * right / len(shown)] if shown else []
    return statistics.mean(precision), statistics.mean(recall)


def copy_model(model, to):
    shutil.copy(model, to)
    shutil.copy(model + ".history", to + ".history")
    return to


def teach_truth(voc, model, pictures, classes):
    """Says of each picture which of the classes it shows: one command for those with the same tags, as a person would correct them."""
    groups = defaultdict(list)
    for picture in pictures:
        groups[",".join(name for name in classes if name in voc.shown[picture])].append(voc.path(picture))
    for tags, paths in groups.items():
        teach(model, *paths, *(["--tags", tags] if tags else ["--not", ",".join(classes)]))


def wrong_pictures(voc, tags, classes, count):
    """The pictures with the first wrong tags, up to count tags; and how many wrong tags they have."""
    found, wrong = [], 0
    for picture in tags:
        more = 0 if voc.unclear[picture] & set(classes) else len(tags[picture] - voc.shown[picture])
        if more and wrong < count:
            found.append(picture)
            wrong += more
    return found, wrong


def measure_draw(voc, given, work, classes, choose):
    by_class, (looked, rest) = lessons(voc, classes, choose), to_tag(voc, classes, given.pictures, choose)
    table, model = os.path.join(work, "list.csv"), os.path.join(work, "model.l3a")
    said = teach(model, "--list", write_list(table, voc, sum(by_class, []), classes), "--backbone", given.backbone)
    tags = predict(given, model, looked + rest)
    other = sum(found != tags[picture] for picture, found in tag(voc, given, model, looked[:CHECKED]).items())
    if other > (given.views > 1):  # features with views are rounded to float16, and a score may be that close to its threshold
        sys.exit(f"teach.py: l3a tag and l3a predict give {other} of {CHECKED} pictures different tags")
    looked_tags, rest_tags = {p: tags[p] for p in looked}, {p: tags[p] for p in rest}
    known = {p: tags[p] for p in tags if voc.shown[p] & set(classes)}

    single, options = os.path.join(work, "single.l3a"), ["--backbone", given.backbone]
    for at, pictures in enumerate(by_class):
        teach(single, "--list", write_list(table, voc, pictures, classes[: at + 1]), *options)
        options = []

    wrong, wrong_tags = wrong_pictures(voc, looked_tags, classes, 20)
    corrected, other = copy_model(model, os.path.join(work, "corrected.l3a")), copy_model(model, os.path.join(work, "random.l3a"))
    teach_truth(voc, corrected, wrong, classes)
    certain = [picture for picture in looked if not voc.unclear[picture] & set(classes)]
    teach_truth(voc, other, choose.sample(certain, min(20, len(certain))), classes)

    expected = [statistics.mean(each[what] for each in said["tags"] if each[what] is not None) for what in ("precision", "recall")]
    return {"at once": quality(voc, tags, classes), "one class after another": quality(voc, predict(given, single, looked + rest), classes),
            "before": quality(voc, rest_tags, classes), "corrected": quality(voc, predict(given, corrected, rest), classes),
            "random": quality(voc, predict(given, other, rest), classes), "expected": expected, "known": quality(voc, known, classes),
            "wrong": (wrong_tags, len(wrong))}


def span(values):
    """Mean ± standard deviation (least to largest)."""
    values = list(values)
    return f"{statistics.mean(values):.1f}" + (f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "") + f" ({min(values):.1f} to {max(values):.1f})"


def pair(draws, name):
    """'precision 81.2 (78.0 to 84.1), recall …'"""
    return "precision {}, recall {}".format(*(span(values) for values in zip(*(draw[name] for draw in draws))))


def measure_quality(voc, given):
    with tempfile.TemporaryDirectory() as work:
        if not given.features:
            given.features, table = os.path.join(work, "test.safetensors"), os.path.join(work, "test.csv")
            write_list(table, voc, voc.splits["test"], voc.classes)
            l3a("extract", "--backbone", given.backbone, "--data", "list:" + table, "--orient", "--views", given.views, "-o", given.features,
                "--quiet")
        measure_draws(voc, given)


def measure_draws(voc, given):
    command = "bench/teach.py --only quality" + (f" --views {given.views}" if given.views > 1 else "") + (f" --draws {given.draws}" if given.draws != 5 else "")
    for kind in given.classes.split(","):
        target, draws = TARGETS[kind], []
        for seed in range(given.draws):
            choose = random.Random(f"{kind} {seed}")
            classes = NAMED if kind == "named" else choose.sample(voc.classes, 5)
            with tempfile.TemporaryDirectory() as work:
                draws.append(measure_draw(voc, given, work, classes, choose))
            print(f"  draw {seed + 1}, {', '.join(classes)}: " + "; ".join(f"{name} {a:.0f} {b:.0f}" for name, (a, b) in draws[-1].items()), flush=True)
        state_quality("the five named classes" if kind == "named" else "five random classes", draws, target, command)


def state_quality(what, draws, target, command):
    def mean(name, side):
        return statistics.mean(draw[name][side] for draw in draws)

    least = "precision at least {} and recall at least {}".format(*target)
    for name in "at once", "one class after another":
        report(f"{what}, {TAUGHT} pictures each, taught {name}: mean ± deviation (range) over {len(draws)} draw{'s' * (len(draws) > 1)}, in percent", least, pair(draws, name),
               all(mean(name, side) >= target[side] for side in (0, 1)), command)
    report(f"{what}: on the half that was not looked at, before corrections", "", pair(draws, "before"), True, command)
    report(f"{what}: after the first 20 wrong tags were corrected", "precision rises", pair(draws, "corrected"),
           mean("corrected", 0) > mean("before", 0), command)
    rises = sum(draw["corrected"][0] > draw["before"][0] for draw in draws)
    print(f"  precision rises in {rises} of {len(draws)} draws, by {span([draw['corrected'][0] - draw['before'][0] for draw in draws])}; "
          f"{span([draw['wrong'][0] for draw in draws])} wrong tags on {span([draw['wrong'][1] for draw in draws])} pictures were corrected")
    report(f"{what}: after 20 random pictures were taught instead", "", pair(draws, "random"), True, command)
    report(f"{what}: what teach says to expect", "", pair(draws, "expected"), True, command)
    report(f"{what}: measured on the pictures that show one of the classes", "", pair(draws, "known"), True, command)
    gap = [[draw["expected"][side] - draw["at once"][side] for draw in draws] for side in (0, 1)]
    report(f"{what}: how far what teach says is above what is measured, taught at once", "", f"precision {span(gap[0])}, recall {span(gap[1])}", True, command)


# ---- time -----------------------------------------------------------------------------------------------------------------------------

def measure_hobbyist(voc, given):
    """Two commands; the folders are made before the time is taken."""
    choose, command = random.Random("hobbyist"), "bench/teach.py --only hobbyist"
    by_class = lessons(voc, NAMED, choose)
    taken = set(sum(by_class, []))
    rest = choose.sample([picture for picture in voc.splits["trainval"] if picture not in taken], 300 - len(taken))
    with tempfile.TemporaryDirectory() as work:
        photos = os.path.join(work, "Fotos für später")
        model, table = os.path.join(photos, "Mein Modell.l3a"), os.path.join(photos, "Schlagwörter.csv")
        for name, pictures in [(os.path.join("Gelernt", TAGS[name]), found) for name, found in zip(NAMED, by_class)] + [
                (os.path.join("Übrige Bilder", "Straße und Gärten"), rest[::2]), (os.path.join("Übrige Bilder", "Küche (neu)"), rest[1::2])]:
            os.makedirs(os.path.join(photos, name))
            for number, picture in enumerate(pictures):
                shutil.copy(voc.path(picture), os.path.join(photos, name, f"Bild {number + 1} ä.jpg"))
        runs = [("teach", l3a("teach", model, "folders:" + os.path.join(photos, "Gelernt"), "--backbone", given.backbone)),
                ("tag", l3a("tag", model, os.path.join(photos, "Übrige Bilder"), "-o", table))]
        with open(table, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    known = {tag for row in rows for tag in row["labels"].split(";") if tag}
    if len(rows) != len(rest) or any(row["error"] for row in rows) or not known <= set(TAGS.values()):
        sys.exit(f"teach.py: {len(rows)} of {len(rest)} pictures in the table, tags {sorted(known)}")
    for name, run in runs:
        print(f"  l3a {name}: {run.seconds[WALL]:.2f} s, {run.seconds[PROCESSOR]:.2f} s of processor time")
    seconds = sum(run.seconds[WALL] for _, run in runs)
    report(f"300 pictures, folders with spaces and umlauts: from nothing to five tags of {TAUGHT} pictures and a CSV file for the rest, {len(runs)} commands, "
           "seconds", "at most 60", f"{seconds:.1f}", seconds <= 60, command)


def measure_speed(voc, given):
    choose, command = random.Random("speed"), "bench/teach.py --only speed"
    count = 100 if given.quick else 1000
    pictures, wall, processor, rate = choose.sample(voc.splits["test"], count), [], [], []
    with tempfile.TemporaryDirectory() as work:
        model, table, features = (os.path.join(work, name) for name in ("model.l3a", "list.csv", "features.safetensors"))
        teach(model, "--list", write_list(table, voc, sum(lessons(voc, NAMED, choose), []), NAMED), "--backbone", given.backbone)
        write_list(table, voc, pictures, voc.classes)
        paths = "".join(voc.path(picture) + "\n" for picture in pictures)
        for _ in range(given.rounds):
            tagged = l3a("tag", model, "-", "--csv", "--quiet", given=paths).seconds
            extracted = l3a("extract", "--backbone", given.backbone, "--data", "list:" + table, "-o", features, "--quiet").seconds
            os.remove(features)
            for old in glob.glob(features + "*"):
                os.remove(old)
            print(f"  tag {tagged[WALL]:.1f} s wall, {tagged[PROCESSOR]:.1f} s processor; extract {extracted[WALL]:.1f}, {extracted[PROCESSOR]:.1f}", flush=True)
            wall.append(tagged[WALL] / extracted[WALL])
            processor.append(tagged[PROCESSOR] / extracted[PROCESSOR])
            rate.append(count / tagged[WALL])
        first = [l3a("tag", model, voc.path(picture), "--quiet").seconds for picture in choose.sample(pictures, 5)]
    report(f"l3a tag / l3a extract of the same {count} pictures, wall time", "at most 1.1", spread(wall), statistics.median(wall) <= 1.1, command)
    report("the same, processor time", "at most 1.1", spread(processor), statistics.median(processor) <= 1.1, command)
    report("l3a tag: pictures per second", "", spread(rate, "{:.0f}"), True, command)
    middle = statistics.median(seconds[WALL] for seconds in first)
    report("first tag of a new process, seconds", "at most 0.5", spread(seconds[WALL] for seconds in first), middle <= 0.5, command)
    report("the same, processor time", "", spread(seconds[PROCESSOR] for seconds in first), True, command)


PARTS = {"hobbyist": measure_hobbyist, "quality": measure_quality, "speed": measure_speed}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="the parts to measure [all]")
    parser.add_argument("--classes", default=",".join(TARGETS), help="quality: the five named classes, five random ones, or both [both]")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--pictures", type=int, default=2000, help="the most test pictures to tag in each draw [2000]")
    parser.add_argument("--views", type=int, default=1)
    parser.add_argument("--features", help="features of the test pictures [made here]")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of tag and extract [3]")
    parser.add_argument("--voc", default=os.environ.get("L3A_VOC", os.path.join(SHARED, "data", "voc2007-small", "VOCdevkit")))
    parser.add_argument("--backbone", default=os.environ.get("L3A_BACKBONE", os.path.join(SHARED, "backbones", "vit_tiny_patch16_224.safetensors")))
    parser.add_argument("--quick", action="store_true", help="small sizes, to check that the script works")
    given = parser.parse_args()
    unknown = set(given.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"--only {','.join(sorted(unknown))}: the parts are {', '.join(PARTS)}")
    if set(given.classes.split(",")) - set(TARGETS):
        parser.error(f"--classes {given.classes}: they are {', '.join(TARGETS)}")
    given.backbone, given.voc = os.path.abspath(given.backbone), os.path.abspath(given.voc)
    for needed in os.path.join(BUILD, "l3a"), given.backbone, os.path.join(given.voc, "VOC2007"):
        if not os.path.exists(needed):
            print(f"skipped: {needed} is missing")
            return
    if given.quick:
        given.draws, given.rounds = 1, 1
    for name, value in conditions(os.environ).items():
        print(f"{name}: {value}")
    start, voc = time.perf_counter(), Voc(given.voc)
    if given.quick:
        voc.splits["test"] = voc.splits["test"][:300]
    for part in given.only.split(","):
        PARTS[part](voc, given)
    print(f"{time.perf_counter() - start:.0f} seconds; load average after: {load()}")


if __name__ == "__main__":
    main()
