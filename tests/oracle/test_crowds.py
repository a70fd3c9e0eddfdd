#!/usr/bin/env python3
"""Images that belong to a phase through a crowd alone, from COCO's annotations to the numbers of every method.

Pictures and annotations are made here; which images a phase has is read from the JSON by Python, and l3a's numbers are NumPy's."""
import json
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)
import feature_file
from support import check, counts, finish, l3a, random_layer, read_csv

CLASSES = ["ant", "bee", "cat", "dog", "eel", "fox"]  # lexicographic; ids in the file are in another order
IDS = {name: 10 + (7 * k) % 13 for k, name in enumerate(CLASSES)}
PHASES = [(0, 2), (2, 4), (4, 6)]
DIM, GAMMA, ETA, SEED, THETA = 48, 0.5, 0.66, 7, 0.525
SETTINGS = ["--dim", str(DIM), "--gamma", str(GAMMA), "--eta", str(ETA), "--theta", str(THETA), "--precision", "double", "--quiet"]


def draw(rng, shown):
    """A quadrant in the colour of each class, the others dark."""
    colours = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [0, 255, 255], [255, 0, 255]])
    pixels = rng.integers(0, 60, (32, 32, 3))
    for quadrant, k in zip(rng.permutation(4), shown):
        row, column = 16 * (quadrant // 2), 16 * (quadrant % 2)
        pixels[row:row + 16, column:column + 16] = 0.8 * colours[k] + rng.integers(0, 50, (16, 16, 3))
    return pixels


def make_split(folder, split, images, rng):
    """Some images have a class and a crowd of another, some only crowds, some nothing."""
    (folder / split).mkdir(parents=True)
    content = {"images": [], "annotations": [], "categories": [{"id": IDS[name], "name": name} for name in CLASSES[::-1]]}
    for number in range(images):
        shown = rng.permutation(6)[:rng.integers(0, 4)]
        crowds = len(shown) and rng.random() < 0.35
        content["images"].append({"id": 3 * number + 5, "file_name": f"{split}_{number}.png"})
        feature_file.write_png(folder / split / f"{split}_{number}.png", draw(rng, shown))
        for place, k in enumerate(shown):
            crowd = int(crowds and (place == 0 or rng.random() < 0.3))
            for _ in range(rng.integers(1, 3)):
                content["annotations"].append({"image_id": 3 * number + 5, "category_id": IDS[CLASSES[k]], "iscrowd": crowd})
    (folder / "annotations").mkdir(exist_ok=True)
    (folder / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))


def read_split(folder, split, names):
    """Labels and members of the images with these ids, by Python."""
    content = json.loads((folder / "annotations" / f"instances_{split}.json").read_text())
    category = {c["id"]: CLASSES.index(c["name"]) for c in content["categories"]}
    row = {name: i for i, name in enumerate(names)}
    labels, members = (np.zeros((len(names), 6), np.int8) for _ in range(2))
    for annotation in content["annotations"]:
        at = row["%012d" % annotation["image_id"]], category[annotation["category_id"]]
        members[at] = 1
        labels[at] |= not annotation["iscrowd"]
    check(sorted(int(name) for name in names) == sorted(image["id"] for image in content["images"]), f"{split}: the rows are the images")
    return labels, members


def mean_ap(scores, labels):
    seen = (labels == 1).any(1)
    found = []
    for k in range(labels.shape[1]):
        hits = labels[seen][np.argsort(-scores[seen][:, k], kind="stable"), k] == 1
        ranks = np.flatnonzero(hits) + 1
        found.append(np.mean(np.arange(1, len(ranks) + 1) / ranks) if len(ranks) else 0)
    return 100 * np.mean(found), int(seen.sum())


def reference(train, test, phases, pseudo, weigh):
    """SPEC §3: images by membership, true labels of the phase, pseudo-labels of earlier classes, weight the mean of v over both."""
    (z, labels, members), (zt, test_labels) = train, test
    layer = random_layer(z.shape[1], DIM, SEED)
    x, xt = (np.maximum(a.astype(float) @ layer, 0) for a in (z, zt))
    gram, cross, counts, w, out = GAMMA * np.eye(DIM), np.zeros((DIM, 0)), np.zeros(0), None, []
    for low, high in phases:
        rows = np.flatnonzero((members[:, low:high] == 1).any(1))
        y = np.zeros((len(rows), high))
        y[:, low:] = labels[rows, low:high] == 1
        unlabelled = ~y.any(1)
        if pseudo and low:
            y[:, :low] = x[rows] @ w > np.log(ETA / (1 - ETA))
        counts = np.append(counts, y[:, low:].sum(0))
        v = np.divide(1, np.sqrt(counts), out=np.zeros(high), where=counts > 0) if weigh else np.ones(high)
        v *= high / v.sum()
        omega = y @ v / np.maximum(y.sum(1), 1)
        cross = np.hstack([cross, np.zeros((DIM, high - low))]) + (x[rows] * omega[:, None]).T @ y
        gram = gram + (x[rows] * omega[:, None]).T @ x[rows]
        w = np.linalg.solve(gram, cross)
        ap, measured = mean_ap(xt @ w, test_labels[:, :high])
        out.append({"train_images": len(rows), "test_images": measured, "pseudo_labels": int(y[:, :low].sum()), "mAP": ap,
                    "unlabelled": int(unlabelled.sum()), "saved": int((unlabelled & (omega > 0)).sum())})
    return out


def run(folder, train, test, methods, *options):
    done = l3a("run", "--train", train, "--test", test, "--protocol", "B0-C2", "--method", ",".join(methods), "--seed", SEED, "-o", folder,
               "--epochs", 3, *SETTINGS, *options)
    rows = read_csv(folder / "metrics.csv")
    return {method: [row for row in rows if row["method"] == method] for method in methods}, done


def compare(method, found, expected):
    for got, wanted in zip(found, expected, strict=True):
        counts = all(int(got[key]) == wanted[key] for key in ("train_images", "test_images", "pseudo_labels"))
        check(counts and abs(float(got["mAP"]) - wanted["mAP"]) < 1e-3, f"{method}, phase {got['phase']}: {got} instead of {wanted}")


def all_methods():
    listed = l3a("run", "--list-methods").stdout.split("not available here")[0].splitlines()
    known = ("l3a l3a+ l3a-no-pl l3a-no-wac joint joint+ joint-masked acil air dsal gkeal slda finetune joint-sgd lwf ewc oewc rwalk er der++ icarl bic "
             "prs ocdm").split()
    return [name for name in known if any(line.split()[:1] == [name] for line in listed)]


def test_methods(folder, files, tables):
    """Every method has the images that Python counts; one that gives no pseudo-labels learns what it would without the crowds."""
    train, test = tables
    expected = {"l3a": reference(train, test, PHASES, True, True), "l3a-no-wac": reference(train, test, PHASES, True, False),
                "l3a-no-pl": reference(train, test, PHASES, False, True), "acil": reference(train, test, PHASES, False, False),
                "joint": reference(train, test, [(0, 6)], False, True)}
    check(all(row["unlabelled"] > 1 for row in expected["l3a"]), "every phase has images that are there through a crowd alone")
    check(sum(row["saved"] for row in expected["l3a"]) > 2, "some of them get a weight from pseudo-labels")
    check(expected["l3a"][-1]["saved"] < expected["l3a"][-1]["unlabelled"], "and some do not")
    methods = all_methods()
    check(len(methods) > 20, f"the methods that run: {methods}")
    found, done = run(folder / "crowds", *files, methods)
    for method, wanted in expected.items():
        compare(method, found[method], wanted)
    images = [row["train_images"] for row in expected["l3a"]]
    for method in methods:
        wanted = [expected["joint"][0]["train_images"]] if method in ("joint", "joint+", "joint-sgd") else [sum(images)] if method == "joint-masked" else images
        check([int(row["train_images"]) for row in found[method]] == wanted, f"{method} has other images: {found[method]}, {wanted} expected")
    tensors, metadata = feature_file.load(files[0])
    feature_file.save(folder / "without.safetensors", {name: t for name, t in tensors.items() if name != "members"}, metadata)
    silent = [method for method in methods if method not in ("l3a", "l3a-no-wac")]
    without, _ = run(folder / "without", folder / "without.safetensors", files[1], silent)
    for method in silent:
        same = all(a["mAP"] == b["mAP"] and a["OF1"] == b["OF1"] for a, b in zip(found[method], without[method], strict=True))
        check(same, f"{method} learns from images without a label")
    return expected


def test_commands(folder, files, expected):
    """data, run's plan, sweep, learn and forget agree about them."""
    counts = [row["train_images"] for row in expected["l3a"]]
    about = json.loads(l3a("data", f"coco:{folder / 'coco'}", "--protocol", "B0-C2", "--format", "json", "--quiet").stdout)
    check([p["train_images"] for p in about["phases"]] == counts, "data counts the images that run learns")
    plan = l3a("run", "--train", files[0], "--test", files[1], "--protocol", "B0-C2", "--dry-run", *SETTINGS).stdout
    for t, row in enumerate(expected["l3a"]):
        wanted = f"{row['train_images']} training images ({row['unlabelled']} with only a crowd, which gives no label)"
        check(f"phase {t + 1}:" in plan and wanted in plan, f"the plan lacks '{wanted}': {plan}")
    spoken = l3a("run", "--train", files[0], "--test", files[1], "--protocol", "B0-C2", "--seed", SEED, "-o", folder / "spoken",
                 *SETTINGS[:-1]).stderr
    for row in expected["l3a"]:
        wanted = f"{row['train_images']} images ({row['unlabelled'] - row['saved']} without a label, weight 0)"
        check(wanted in spoken, f"the run does not say '{wanted}': {spoken}")
    l3a("sweep", "--train", files[0], "--test", files[1], "--protocol", "B0-C2", "--seed", SEED, "--dim", DIM, "--precision", "double", "--theta", THETA,
        "--gamma", f"{GAMMA},{2 * GAMMA}", "--eta", ETA, "--quiet", "-o", folder / "sweep")
    compare("sweep", [row for row in read_csv(folder / "sweep" / "sweep.csv") if float(row["gamma"]) == GAMMA], expected["l3a"])
    model, first = folder / "model.safetensors", expected["l3a"][0]
    said = l3a("learn", model, "--features", files[0], "--classes", "ant,bee", "--dim", DIM, "--gamma", GAMMA).stdout
    check(f"{first['train_images'] - first['unlabelled']} of " in said and f"{first['unlabelled']} of those show only a crowd of the new classes" in said,
          f"learn: {said}")
    check(f"phase 1, {first['train_images'] - first['unlabelled']} images" in l3a("info", model).stdout, "info counts the images with a weight")
    second = expected["l3a"][1]  # pseudo-labels may give the images of a crowd a weight, so all images of the phase are learned
    planned = l3a("learn", model, "--features", files[0], "--classes", "cat,dog", "--eta", ETA).stderr
    check(f"plan: phase 2, 2 new classes, {second['train_images']} images to learn" in planned, f"learn: {planned}")


def forget_rows(folder, train):
    """Images without a label left no trace, so taking back the rest of a table leaves what its other half taught."""
    tensors, metadata = feature_file.load(train)
    rows = len(tensors["features"]) // 2
    names = feature_file.ids(tensors)
    for name, part in ("kept", slice(0, rows)), ("gone", slice(rows, None)):
        some = {key: np.ascontiguousarray(value[part]) for key, value in tensors.items() if key != "ids"}
        some["ids"] = np.frombuffer("\n".join(names[part]).encode(), np.uint8)
        feature_file.save(folder / f"{name}.safetensors", some, metadata)
    options = ["--classes", "ant,bee,cat", "--dim", DIM, "--gamma", GAMMA, "--weights", "none", "--pseudo", "off", "--precision", "double"]
    l3a("learn", folder / "whole.model", "--features", train, *options)
    l3a("forget", folder / "whole.model", "--features", folder / "gone.safetensors")
    l3a("learn", folder / "half.model", "--features", folder / "kept.safetensors", *options)
    left, right = (feature_file.load(folder / f"{name}.model")[0] for name in ("whole", "half"))
    check(np.abs(left["weights"] - right["weights"]).max() < 1e-8 and (left["counts"] == right["counts"]).all(), "forgetting half of the images")


def test_refusals(folder, files):
    tensors, metadata = feature_file.load(files[0])
    labels, members = tensors["labels"], tensors["members"]
    at = tuple(np.argwhere(labels == 1)[0])
    spoiled = {"row %d, column %d: member 0 and label 1" % at: np.where(np.arange(6) == at[1], 0, members) * np.ones(len(members), np.int8)[:, None],
               "row 0, column 0: member -1 and label": np.full_like(members, -1), "needs one row per image and one column per class": members[1:]}
    for text, bad in spoiled.items():
        feature_file.save(folder / "bad.safetensors", {**tensors, "members": bad.astype(np.int8)}, metadata)
        done = l3a("run", "--train", folder / "bad.safetensors", "--test", files[1], "--protocol", "B0-C2", "--dry-run", code=2)
        check(text in done.stderr, f"'{text}' is not in: {done.stderr}")
    nothing = np.where(np.arange(6) < 2, 0, labels).astype(np.int8)
    feature_file.save(folder / "bad.safetensors", {**tensors, "labels": nothing}, metadata)
    for command in (["run", "--train", folder / "bad.safetensors", "--test", files[1], "--protocol", "B0-C2", "--dry-run"],
                    ["learn", folder / "none.model", "--features", folder / "bad.safetensors", "--classes", "ant,bee"]):
        done = l3a(*command, code=2)
        check("has any of" in done.stderr, f"a phase of crowds alone: {done.stderr}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder, rng = Path(name), np.random.default_rng(5)
        vit, coco, files, tables = folder / "vit.safetensors", folder / "coco", [], []
        feature_file.write_small_vit(vit)
        for split, images in ("train2014", 260), ("val2014", 120):
            make_split(coco, split, images, rng)
            files.append(folder / f"{split}.safetensors")
            l3a("extract", "--backbone", vit, "--data", f"coco:{coco}", "--split", split, "-o", files[-1], "--quiet")
            tensors, _ = feature_file.load(files[-1])
            labels, members = read_split(coco, split, feature_file.ids(tensors))
            check((tensors["labels"] == labels).all(), f"{split}: the labels")
            check("members" in tensors and (tensors["members"] == members).all(), f"{split}: the members")
            tables.append((tensors["features"], labels, members))
        if counts["failed"]:
            sys.exit(finish())
        expected = test_methods(folder, files, (tables[0], tables[1][:2]))
        test_commands(folder, files, expected)
        forget_rows(folder, files[0])
        test_refusals(folder, files)
    sys.exit(finish())


main()
