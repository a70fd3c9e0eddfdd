#!/usr/bin/python3
"""Measures the time and memory for reading COCO's annotations, compared with Python's json and cJSON, in one run.

The real file cannot be redistributed, so a similar one is generated from a seed: 82,783 images and about 605,000 annotations with the
same keys in the same order, outlines as polygons, and run lengths for crowds, 300 MB in total.

  coco_annotations.py                          generates the file, measures all three, prints the results and targets
  coco_annotations.py --generate FILE          only generates the file (--images N for a smaller one)
"""
import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
IMAGES = 82783
TARGET_SECONDS, TARGET_BYTES = 2.0, 100e6
CATEGORIES = """1 person person;2 vehicle bicycle;3 vehicle car;4 vehicle motorcycle;5 vehicle airplane;6 vehicle bus;7 vehicle train;
8 vehicle truck;9 vehicle boat;10 outdoor traffic light;11 outdoor fire hydrant;13 outdoor stop sign;14 outdoor parking meter;
15 outdoor bench;16 animal bird;17 animal cat;18 animal dog;19 animal horse;20 animal sheep;21 animal cow;22 animal elephant;
23 animal bear;24 animal zebra;25 animal giraffe;27 accessory backpack;28 accessory umbrella;31 accessory handbag;32 accessory tie;
33 accessory suitcase;34 sports frisbee;35 sports skis;36 sports snowboard;37 sports sports ball;38 sports kite;39 sports baseball bat;
40 sports baseball glove;41 sports skateboard;42 sports surfboard;43 sports tennis racket;44 kitchen bottle;46 kitchen wine glass;
47 kitchen cup;48 kitchen fork;49 kitchen knife;50 kitchen spoon;51 kitchen bowl;52 food banana;53 food apple;54 food sandwich;
55 food orange;56 food broccoli;57 food carrot;58 food hot dog;59 food pizza;60 food donut;61 food cake;62 furniture chair;
63 furniture couch;64 furniture potted plant;65 furniture bed;67 furniture dining table;70 furniture toilet;72 electronic tv;
73 electronic laptop;74 electronic mouse;75 electronic remote;76 electronic keyboard;77 electronic cell phone;78 appliance microwave;
79 appliance oven;80 appliance toaster;81 appliance sink;82 appliance refrigerator;84 indoor book;85 indoor clock;86 indoor vase;
87 indoor scissors;88 indoor teddy bear;89 indoor hair drier;90 indoor toothbrush"""


def categories():
    for entry in CATEGORIES.replace("\n", "").split(";"):
        number, group, name = entry.split(" ", 2)
        yield {"supercategory": group, "id": int(number), "name": name}


def polygon_texts(random_numbers, count):
    """Outlines as text. Each annotation uses one of them: generating a new one for each would take minutes and make no difference."""
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(1 if random_numbers.random() < 0.9 else random_numbers.randint(2, 4)):
            corners = min(400, max(3, int(random_numbers.lognormvariate(2.7, 0.75))))
            x, y = random_numbers.uniform(20, 600), random_numbers.uniform(20, 440)
            numbers = []
            for _ in range(corners):
                x = min(639.99, max(0, x + random_numbers.gauss(0, 12)))
                y = min(479.99, max(0, y + random_numbers.gauss(0, 12)))
                numbers += [repr(round(x, 2)), repr(round(y, 2))]
            parts.append("[" + ",".join(numbers) + "]")
        texts.append("[" + ",".join(parts) + "]")
    return texts


def crowd_text(random_numbers):
    counts = [str(random_numbers.randint(0, 400)) for _ in range(random_numbers.randint(20, 900))]
    return '{"counts": [' + ",".join(counts) + '],"size": [480,640]}'


def image_text(number, split):
    name = f"COCO_{split}_{number:012d}.jpg"
    return (f'{{"license": {number % 8 + 1},"file_name": "{name}","coco_url": "http://images.cocodataset.org/{split}/{name}",'
            f'"height": {480 - number % 60},"width": 640,"date_captured": "2013-11-{number % 30 + 1:02d} 17:02:52",'
            f'"flickr_url": "http://farm{number % 9 + 1}.staticflickr.com/{number % 8000}/{number * 7919 % 10**10:010d}_{number * 31:08x}_z.jpg",'
            f'"id": {number}}}')


def annotation_text(random_numbers, outline, crowd, image, category, number):
    box = [round(random_numbers.uniform(0, 400), 2) for _ in range(4)]
    area = random_numbers.uniform(20, 60000)
    return (f'{{"segmentation": {outline},"area": {area!r},"iscrowd": {crowd},"image_id": {image},'
            f'"bbox": [{box[0]},{box[1]},{box[2]},{box[3]}],"category_id": {category},"id": {number}}}')


def image_annotations(random_numbers, known, weights):
    """(category, crowd) pairs of one image: about one image in a hundred has none, the others show a few classes with several objects each."""
    if random_numbers.random() < 0.0085:
        return []
    chosen = random_numbers.choices(known, weights, k=random_numbers.choice((1, 1, 2, 2, 3, 4, 5)))
    pairs = [(random_numbers.choice(chosen), 0) for _ in range(max(1, int(random_numbers.expovariate(1 / 7.7))))]
    if random_numbers.random() < 0.09:
        pairs.append((chosen[0], 1))
    return pairs[-1:] if random_numbers.random() < 0.002 else pairs


def generate(path, images=IMAGES, seed=2014, split="train2014"):
    random_numbers = random.Random(seed)
    outlines = polygon_texts(random_numbers, 4096)
    known = [category["id"] for category in categories()]
    weights = [45 if number == 1 else 9 / (1 + index % 17) for index, number in enumerate(known)]
    numbers = random_numbers.sample(range(1, 7 * images + 10), images)
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"info": {"description": "This is 1.0 version of the 2014 MS COCO dataset.","year": 2014},"images": [')
        for index, number in enumerate(numbers):
            file.write(("," if index else "") + image_text(number, split))
        file.write('],"licenses": [{"url": "http://creativecommons.org/licenses/by/2.0/","id": 4,"name": "Attribution License"}],')
        file.write('"annotations": [')
        written = 0
        for image in numbers:
            for category, crowd in image_annotations(random_numbers, known, weights):
                outline = crowd_text(random_numbers) if crowd else random_numbers.choice(outlines)
                file.write(("," if written else "") + annotation_text(random_numbers, outline, crowd, image, category, written + 1))
                written += 1
        file.write('],"categories": ' + json.dumps(list(categories())) + "}")


def count_with_python(path):
    """What a user would otherwise write: json.load, then sets."""
    start = time.perf_counter()
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    labels = {(a["image_id"], a["category_id"]) for a in content["annotations"] if not a["iscrowd"]}
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "heap": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "pictures": len(content["images"]),
            "labels": len(labels)}


def build_reader(folder):
    build = os.environ.get("L3A_BUILD", os.path.join(HERE, "..", "build"))
    program = os.path.join(folder, "coco_read")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-I", os.path.join(HERE, "..", "include"), os.path.join(HERE, "coco_read.c"), "-o",
                    program, "-L", build, f"-Wl,-rpath,{os.path.abspath(build)}", "-ll3a", "-lcjson"], check=True)
    return program


def measure(command):
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def compare(images, rounds):
    from measured import report, spread
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "annotations"))
        path = os.path.join(folder, "annotations", "instances_train2014.json")
        generate(path, images)
        print(f"annotations: {os.path.getsize(path) / 1e6:.0f} MB, {images} images; load average before the start {os.getloadavg()[0]:.2f}")
        reader = build_reader(folder)
        programs = {"l3a": [reader, "l3a", folder, "train2014"], "cJSON": [reader, "cjson", path],
                    "Python's json": [sys.executable, os.path.abspath(__file__), "--count", path]}
        results = {name: [] for name in programs}
        for _ in range(rounds):
            for name, command in programs.items():
                results[name].append(measure(command))
        size = os.path.getsize(path) / 1e6
    ours = results["l3a"][0]
    for name, own in results.items():
        seconds, heaps = [r["seconds"] for r in own], [r["heap"] / 1e6 for r in own]
        limits = (TARGET_SECONDS, TARGET_BYTES / 1e6) if name == "l3a" else None
        report(f"COCO annotations, a generated file of {size:.0f} MB, {name}: seconds", f"under {limits[0]:.0f}" if limits else "", spread(seconds),
               not limits or statistics.median(seconds) < limits[0], "bench/run.py --only annotations")
        report(f"the same, {name}: MB of heap", f"under {limits[1]:.0f}" if limits else "", spread(heaps, "{:.0f}"), not limits or max(heaps) < limits[1],
               "bench/run.py --only annotations")
        if any((r["pictures"], r["labels"]) != (ours["pictures"], ours["labels"]) for r in own):
            print(f"{name}: DIFFERENT LABELS")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--generate", metavar="FILE")
    parser.add_argument("--count", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--seed", type=int, default=2014)
    parser.add_argument("--split", default="train2014")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.generate:
        generate(arguments.generate, arguments.images, arguments.seed, arguments.split)
    elif arguments.count:
        print(json.dumps(count_with_python(arguments.count)))
    else:
        compare(arguments.images, arguments.rounds)


if __name__ == "__main__":
    main()
