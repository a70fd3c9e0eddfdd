#!/usr/bin/env python3
"""Pictures on an NVIDIA GPU: how fast extraction is beside its parts, what float16 does to the results, and how long it takes from
pictures to a report.

    bench/gpu_pictures.py [--voc FOLDER] [--backbone FILE] [--only PART,…] [--rounds N] [--device cuda]
        --voc               a VOCdevkit with VOC2007, or a part of it that bench/carry.py made
        --pictures, --loops how many pictures, and how often an extraction reads them: what a start takes, such as cuDNN's plans, must not
                            count, so the rate is that of the pictures after the first loop
        --side N            pictures are enlarged first, so that the longer side has N pixels, as those of VOC have 500. Needs Pillow
        --old PROGRAM       the command of an older version, for the part report
        L3A_BUILD           the build folder, with bench_load (cmake -DL3A_BENCH=ON)

  rates   `l3a extract`, pictures per second, beside decoding and resizing alone (bench_load) and the network alone on the device (`l3a doctor
          --backbone`)
  views   the same with 14 views, one loop after a quarter of one
  map     VOC 2007 B0-C4 from features in float32 and in shorter numbers: the last mAP
  report  VOC 2007 B0-C4 from JPEG files to the report: seconds, beside --old on the processor. --repeat N has each picture N times, under
          other names, where only a part of VOC is there

It also runs with --device cpu, which shows that it works. A missed target is printed; it is not an error."""
import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measured import conditions, report, spread

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("L3A_BUILD", HERE.parent / "build")).resolve()
SHARED = Path(os.environ.get("L3A_SHARED", HERE.parents[1] / "shared")).resolve()
SPLITS = ("trainval", "test")
VIEWS, DISTINCT = 14, 400
COMMAND = "bench/gpu_pictures.py --only {}"


def run(*words):
    """What a program prints, and its seconds."""
    start = time.perf_counter()
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout, seconds


def enlarge(paths, side, folder):
    """The same pictures with `side` pixels on the longer side; of the first DISTINCT ones."""
    from PIL import Image
    made = []
    for number, path in enumerate(paths[:DISTINCT]):
        image = Image.open(path)
        scale = side / max(image.size)
        made.append(folder / f"{number}.jpg")
        image.resize([round(scale * length) for length in image.size], Image.BICUBIC).save(made[-1], quality=90)
    return made


def make_lists(options, work):
    """Lists of pictures for `l3a extract` and for bench_load: a quarter of a loop, one loop, and all loops."""
    paths = sorted((options.voc / "VOC2007" / "JPEGImages").glob("*.jpg"))
    if options.side:
        (work / "enlarged").mkdir()
        paths = enlarge(paths, options.side, work / "enlarged")
    names = []
    for number in range(options.pictures * (options.loops + 1)):
        loop, place = divmod(number, options.pictures)
        names.append(work / f"loop-{loop}" / f"{place:05}.jpg")
        names[-1].parent.mkdir(exist_ok=True)
        names[-1].symlink_to(paths[place % len(paths)])
    lists = {}
    for name, count in ("quarter", options.pictures // 4), ("one", options.pictures), ("all", len(names)):
        table, lines = work / f"{name}.csv", work / f"{name}.txt"
        table.write_text("path,labels\n" + "".join(f"{path},a\n" for path in names[:count]))
        lines.write_text("".join(f"{path}\n" for path in names[:count]))
        lists[name] = (count, table, lines)
    return lists


def on_device(options, *words):
    return [*words, "--device", options.device, *(["--backbone-precision", options.precision] if options.precision else [])]


def extract_seconds(options, work, table, *more):
    features = work / "features.safetensors"
    features.unlink(missing_ok=True)
    return run(*on_device(options, BUILD / "l3a", "extract", "--backbone", options.backbone, "--data", f"list:{table}", "--split", "all",
                          "-o", features, "--quiet", *more))[1]


def network_rate(options):
    """Pictures per second of the network alone, in the numbers of the extraction."""
    said = run(BUILD / "l3a", "doctor", "--backbone", options.backbone, "--device", options.device)[0]
    rates = {name: float(rate.replace(",", "")) for name, rate in re.findall(r"(float32|float16|bf16): ([0-9.,]+) pictures/s", said)}
    return rates[options.precision or ("float32" if options.device == "cpu" else "float16")]


def rates_of(options, work, lists, views):
    short, long = ("quarter", "one") if views else ("one", "all")
    more = ["--views", views] if views else []
    rows = 1 + views
    found = {"extract": [], "decoding": [], "network": []}
    extract_seconds(options, work, lists[short][1], *more)  # and the files are in memory
    for _ in range(options.rounds):
        found["decoding"].append(json.loads(run(BUILD / "bench_load", lists[long][2], views or 1)[0])["rate"])
        found["network"].append(network_rate(options) / rows)
        begin = extract_seconds(options, work, lists[short][1], *more)
        seconds = extract_seconds(options, work, lists[long][1], *more) - begin
        found["extract"].append((lists[long][0] - lists[short][0]) / seconds if seconds > 0 else float("inf"))
    name = options.backbone.stem + (f" with {views} views" if views else "")
    command = COMMAND.format("views" if views else "rates")
    for what, values in found.items():
        report(f"{name} on {options.device}, {options.precision or 'its usual numbers'}, pictures per second, {what}", "", spread(values, "{:,.1f}"), True, command)
    ratios = [extracted / min(decoded, computed) for extracted, decoded, computed in zip(*found.values())]
    report(f"{name}: extraction times the slower of decoding alone and network alone", "at least 0.9", spread(ratios), statistics.median(ratios) >= 0.9, command)


def ids_of(voc, split):
    return [line.split()[0] for line in (voc / "VOC2007" / "ImageSets" / "Main" / f"{split}.txt").read_text().splitlines()]


def make_voc(options, folder, repeat):
    """The data set with each picture `repeat` times, or only the first few of each split."""
    made = folder / "VOC2007"
    source = options.voc / "VOC2007"
    for part in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (made / part).mkdir(parents=True)
    for split in SPLITS:
        names = []
        for number in ids_of(options.voc, split)[: options.few]:
            for turn in range(repeat):
                names.append(f"{turn}{number}" if turn else number)
                for part, ending in ("JPEGImages", "jpg"), ("Annotations", "xml"):
                    (made / part / f"{names[-1]}.{ending}").symlink_to(source / part / f"{number}.{ending}")
        (made / "ImageSets" / "Main" / f"{split}.txt").write_text("".join(f"{name}\n" for name in names))
    return made.parent


def voc_run(program, options, voc, folder, *device, more=()):
    """From pictures to the report: seconds."""
    folder.mkdir()
    seconds = 0.0
    for split in SPLITS:
        seconds += run(program, "extract", "--backbone", options.backbone, "--data", f"voc:{voc}", "--split", split, "-o", folder / split, "--quiet", *device, *more)[1]
    return seconds + run(program, "run", "--train", folder / SPLITS[0], "--test", folder / SPLITS[1], "--protocol", "B0-C4", "--dim", options.dim, "-o", folder / "run",
                         "--quiet", *device)[1]


def last_map(folder):
    with open(folder / "run" / "metrics.csv", encoding="utf-8") as file:
        return float(list(csv.DictReader(file))[-1]["mAP"])


def mean_precision(options, work):
    voc, found = make_voc(options, work / "voc", 1), {}
    shorter = ["float16", "bf16"] if options.device != "cpu" else ["bf16"]
    for precision in ["float32", *shorter]:
        folder = work / f"map-{precision}"
        voc_run(BUILD / "l3a", options, voc, folder, "--device", options.device, more=["--backbone-precision", precision])
        found[precision] = last_map(folder)
    count = sum(len(ids_of(voc, split)) for split in SPLITS)
    for precision in shorter:
        apart = abs(found[precision] - found["float32"])
        report(f"{options.backbone.stem}, {count:,} pictures of VOC 2007, B0-C4, last mAP in float32 and {precision}", "within 0.1" if precision == "float16" else "",
               f"{found['float32']:.3f} and {found[precision]:.3f}", apart <= 0.1, COMMAND.format("map"))


def to_report(options, work):
    voc = make_voc(options, work / "repeated", options.repeat)
    own, old = [], []
    for turn in range(options.rounds):
        own.append(voc_run(BUILD / "l3a", options, voc, work / f"own-{turn}", "--device", options.device))
        if options.old:
            old.append(voc_run(options.old, options, voc, work / f"old-{turn}"))
    count = sum(len(ids_of(voc, split)) for split in SPLITS)
    what = f"{options.backbone.stem}, {count:,} pictures, VOC 2007 B0-C4, dim {options.dim}: seconds from pictures to the report"
    report(f"{what}, {options.device}", "", spread(own, "{:.1f}"), True, COMMAND.format("report"))
    if old:
        report(f"the same, {options.old_name} on the processor", "", spread(old, "{:.1f}"), True, COMMAND.format("report"))
        report("times faster", "", spread([theirs / mine for mine, theirs in zip(own, old)], "{:.1f}"), True, COMMAND.format("report"))


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voc", type=Path, default=SHARED / "data" / "voc2007-small" / "VOCdevkit")
    parser.add_argument("--backbone", type=Path, default=SHARED / "backbones" / "vit_tiny_patch16_224.safetensors")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", help="--backbone-precision of the parts rates and views")
    parser.add_argument("--only", default="rates,views,map,report")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pictures", type=int, default=4000)
    parser.add_argument("--loops", type=int, default=20)
    parser.add_argument("--side", type=int, default=0)
    parser.add_argument("--few", type=int, help="for a try: only so many pictures of each split in the parts map and report")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--dim", type=int, default=8192)
    parser.add_argument("--old")
    options = parser.parse_args()
    options.voc, options.backbone = options.voc.resolve(), options.backbone.resolve()
    options.old_name = run(options.old, "version")[0].split("\n")[0] if options.old else None
    return options


def main():
    options = read_options()
    chosen = options.only.split(",")
    for name, value in conditions(os.environ).items():
        print(f"{name}: {value}")
    print(run(BUILD / "l3a", "doctor")[0], flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        if {"rates", "views"} & set(chosen):
            lists = make_lists(options, work)
        if "rates" in chosen:
            rates_of(options, work, lists, 0)
        if "views" in chosen:
            rates_of(options, work, lists, VIEWS)
        if "map" in chosen:
            mean_precision(options, work)
        if "report" in chosen:
            to_report(options, work)


if __name__ == "__main__":
    main()
