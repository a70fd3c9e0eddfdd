#!/usr/bin/env python3
"""Teaching any images of any classes in any order, with and without views, against NumPy (SPEC sections 6 and 7): one system for each
class, summed row by row."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import feature_file
from support import check, combine, expand, finish

BUILD, SHARED = Path(os.environ["L3A_BUILD"]), Path(os.environ.get("L3A_SHARED", "none"))
WIDTH, DIM = 6, 24
PLAIN = {"dim": DIM, "gamma": 3, "precision": "double", "pseudo": "off", "weights": "none", "privacy-limit": 0}
NAMES = [f"class {letter}" for letter in "abcdefgh"]
random = np.random.default_rng(14)


def steps(settings, *what, code=0, width=WIDTH):
    command = [BUILD / "tests" / "teach_steps", width, *(f"{k}={v}" for k, v in settings.items()), "--", *what]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    check(done.returncode == code, f"{what}: {done.stderr}")
    return done.stdout.split("\n")[:-1] if not code else done.stderr


def table(path, x, y, names=NAMES):
    """Images with the columns in a random order; columns that nobody was judged for are left out half of the time."""
    columns = [k for k in range(len(names)) if (y[:, k] != -1).any() or random.random() < 0.5]
    random.shuffle(columns)
    x = x[:, 0] if x.shape[1] == 1 else x
    feature_file.save(path, {"features": np.ascontiguousarray(x, np.float32), "labels": np.ascontiguousarray(y[:, columns], np.int8)},
                      {"classes": "\n".join(names[k] for k in columns)})
    return path


def spread(w, rows):
    """The weights of rows [images, rows of an image], from those of images."""
    return w[:, None] * np.array([1] + [1 / max(1, rows - 1)] * (rows - 1))


def weigh(y, v):
    """The mean of v over the classes shown, else over those judged."""
    if v is None:
        return np.ones(len(y))
    return np.array([np.mean(v[row == 1] if (row == 1).any() else v[row != -1]) for row in y])


def solve(x, y, gamma, alpha, lift, w, skip=False, dim=DIM):
    """Coefficients [d, classes], without and with the lift, and the matrix of each class."""
    each = x.shape[1]
    x, w = expand(x, dim, skip).reshape(len(x) * each, -1), spread(w, each).ravel()
    matrices, out = [], []
    for k in range(y.shape[1]):
        label = np.repeat(y[:, k], each)
        share = w * np.where(label != -1, 1, alpha)
        matrices.append(gamma * np.eye(x.shape[1]) + (x.T * share) @ x)
        out.append(np.linalg.solve(matrices[-1], (w * (label == 1)) @ x))
    sets = {tuple(row != -1) for row in y}
    t = sum(not any(o != s and all(b or not a for a, b in zip(o, s)) for o in sets) for s in sets)
    plain = np.array(out).T
    return plain, plain + lift * (t - 1) / (t + 8) * plain.sum(1, keepdims=True), matrices


def images(count, classes=8, kind=None, settings=PLAIN):
    views = settings.get("views", 1)
    x = random.normal(size=(count, 1 + views * (views > 1), WIDTH)).astype(np.float32)
    y = (random.random((count, classes)) < 0.4).astype(np.int8)
    for row in y:
        draw = random.random() if kind is None else kind
        if draw < 0.4:
            row[random.random(classes) < 0.6] = -1
        elif draw < 0.7:
            first = 2 * random.integers(classes // 2)
            row[:first] = row[first + 2:] = -1
        if (row == -1).all():
            row[random.integers(classes)] = random.integers(2)
    return x, y


def model_of(path):
    tensors, about = feature_file.load(path)
    return tensors, about["classes"].split("\n") if about["classes"] else [], about


def compare(path, x, y, settings, what):
    tolerance = 1e-9 if settings["precision"] == "double" else 2e-3  # conjugate gradients stop at 5e-4 in the norm of the system
    tensors, classes, _ = model_of(path)
    known = [k for k in range(y.shape[1]) if (y[:, k] != -1).any()]
    check(sorted(classes) == sorted(NAMES[k] for k in known), f"{what}: classes {classes}")
    order = [NAMES.index(name) for name in classes]
    _, lifted, _ = solve(x, y[:, order], settings["gamma"], settings.get("alpha", 1), settings.get("lift", 0), np.ones(len(x)),
                         settings.get("skip-features") == "on")
    off = np.abs(tensors["weights"] - lifted).max() / (np.abs(lifted).max() or 1)
    check(off < tolerance, f"{what}: W is off by {off:.1e}")
    check((tensors["counts"] == (y[:, order] == 1).sum(0)).all(), f"{what}: counts")


SETTINGS = {"plain": PLAIN, "apart": {**PLAIN, "alpha": 0.3, "lift": 0.1}, "skip": {**PLAIN, "alpha": 0.5, "skip-features": "on", "gamma": 0.5},
            "mixed": {**PLAIN, "precision": "mixed", "alpha": 0.3, "lift": 0.1, "gamma": 5}, "recursive": {**PLAIN, "solver": "recursive"}, "kept": {**PLAIN, "keep-phases": 1000, "lift": 0.05},
            "views": {**PLAIN, "alpha": 0.3, "lift": 0.1, "views": 3}, "views in one sum": {**PLAIN, "views": 5, "skip-features": "on"},
            "views, mixed": {**PLAIN, "precision": "mixed", "alpha": 0.3, "lift": 0.1, "gamma": 5, "views": 2},
            "views, recursive": {**PLAIN, "solver": "recursive", "views": 2}}


def any_order(folder):
    """Every order and division into lessons gives the model of everything at once, and that of NumPy."""
    for name, settings in SETTINGS.items():
        for trial in range(4):
            x, y = images(int(random.integers(3, 60)), settings=settings)
            whole, parts = folder / "whole.model", folder / "parts.model"
            says = steps(settings, f"+{table(folder / 'all', x, y)}", f"={whole}")
            check(says[0].startswith("1 "), f"{name}: exact: {says}")
            compare(whole, x, y, settings, f"{name}: at once")
            order = random.permutation(len(x))
            cut = np.array_split(order, int(random.integers(2, 6)))
            lessons = [f"+{table(folder / f'lesson{i}', x[rows], y[rows])}" for i, rows in enumerate(cut) if len(rows)]
            middle = folder / "middle.model"
            steps(settings, *lessons[:1], f"={middle}", f"@{middle}", *lessons[1:], f"={parts}")
            compare(parts, x, y, settings, f"{name}: {len(lessons)} lessons")


def undo(folder):
    """What is taught and taken back leaves nothing, whatever came in between."""
    for name, settings in SETTINGS.items():
        for trial in range(4):
            x, y = images(30, settings=settings)
            y[:, 6:] = -1  # classes that only the lesson brings
            y[(y == -1).all(1), 0] = 1
            more_x, more_y = images(int(random.integers(1, 20)), settings=settings)
            base, after = folder / "base.model", folder / "after.model"
            first, lesson = table(folder / "first", x, y), table(folder / "lesson", more_x, more_y)
            third = table(folder / "third", *images(5, settings=settings))
            steps(settings, f"+{first}", f"={base}", f"+{lesson}", f"-{lesson}", f"={after}")
            compare(after, x, y, settings, f"{name}: taken back")
            (one, classes, about), (other, again, _) = model_of(base), model_of(after)
            same = {"gram" if key == "inverse" else key for key in one} == {"gram" if key == "inverse" else key for key in other}
            check(classes == again and same, f"{name}: {classes} {again} {sorted(one)} {sorted(other)}")
            steps(settings, f"+{first}", f"+{lesson}", f"+{third}", f"-{lesson}", f"-{third}", f"={after}")
            compare(after, x, y, settings, f"{name}: taken back in another order")
            steps(settings, f"+{first}", f"-{first}", f"={after}", f"@{after}", f"+{lesson}", f"={after}")
            compare(after, more_x, more_y, settings, f"{name}: from nothing again")


def merging(folder):
    """Models that were taught different things merge to the model of the union."""
    for name, settings in SETTINGS.items():
        for trial in range(4):
            (x, y), (other_x, other_y) = images(25, settings=settings), images(15, settings=settings)
            one, two, union = folder / "one.model", folder / "two.model", folder / "union.model"
            steps(settings, f"+{table(folder / 'a', x, y)}", f"={one}")
            steps(settings, f"+{table(folder / 'b', other_x, other_y)}", f"={two}")
            says = steps(settings, f"@{one}", f"&{two}", f"={union}", f"@{union}", f"={union}")
            check(says[0] == "1", f"{name}: merging is exact: {says}")
            compare(union, np.vstack([x, other_x]), np.vstack([y, other_y]), settings, f"{name}: merged")


def phases(folder):
    """Phases that are taught equal phases that are learned, with every kind of class weight."""
    command = BUILD / "l3a"
    for weights, scaling, views in (("none", "normalised", 1), ("sqrt", "normalised", 1), ("sqrt", "literal", 1), ("log", "normalised", 1),
                                    ("none", "normalised", 3), ("sqrt", "normalised", 3)):
        settings = {**PLAIN, "alpha": 0.3, "lift": 0.1, "weights": weights, "scaling": scaling, "views": views}
        x, y = images(80, kind=1, settings=settings)
        learned, taught, lessons = folder / "learned.model", folder / "taught.model", []
        learned.unlink(missing_ok=True)
        for first in range(0, 8, 2):
            rows = (y[:, first:first + 2] == 1).any(1)
            own = np.full(y[rows].shape, -1, np.int8)
            own[:, first:first + 2] = y[rows, first:first + 2]
            lessons.append(f"+{table(folder / f'phase{first}', x[rows], own)}")
            np.save(folder / "x.npy", x if views > 1 else x[:, 0]), np.save(folder / "y.npy", y)
            (folder / "names").write_text("\n".join(NAMES) + "\n")
            subprocess.run([command, "learn", learned, "--features", folder / "x.npy", "--labels", folder / "y.npy", "--names",
                            folder / "names", "--classes", ",".join(NAMES[first:first + 2]), "--quiet",
                            *(() if first else [v for k, w in settings.items() if (k, w) != ("views", 1) for v in (f"--{k}", str(w))])], check=True, capture_output=True)
        steps(settings, *lessons, f"={taught}")
        (one, classes, _), (other, again, _) = model_of(learned), model_of(taught)
        off = np.abs(other["weights"][:, [again.index(c) for c in classes]] - one["weights"]).max() / np.abs(one["weights"]).max()
        check(off < 1e-9, f"weights {weights} {scaling}: phases are off by {off:.1e}")


def left_out(folder):
    """The scores without each image are those of a model that is solved without it."""
    for name, settings in SETTINGS.items():
        x, y = images(30, settings=settings)
        where = table(folder / "all", x, y)
        steps(settings, f"+{where}", f"={folder / 'model'}", f"?{where}:{folder / 'scores'}")
        _, classes, _ = model_of(folder / "model")
        order = [NAMES.index(c) for c in classes]
        scores = np.fromfile(folder / "scores", np.float32).reshape(len(x), -1)
        skip, worst = settings.get("skip-features") == "on", 0
        sets = {tuple(row != -1) for row in y}
        for i in range(len(x)):
            rest = np.arange(len(x)) != i
            plain, _, _ = solve(x[rest], y[rest][:, order], settings["gamma"], settings.get("alpha", 1), 0, np.ones(rest.sum()), skip)
            t = sum(not any(o != s and all(b or not a for a, b in zip(o, s)) for o in sets) for s in sets)
            plain = plain + settings.get("lift", 0) * (t - 1) / (t + 8) * plain.sum(1, keepdims=True)
            worst = max(worst, np.abs(combine(expand(x[i:i + 1], DIM, skip) @ plain) - scores[i]).max())
        check(worst < (2e-6 if settings["precision"] == "double" else 2e-3), f"{name}: scores without the image are off by {worst:.1e}")


def chosen(folder):
    """Gamma from the sums, and the thresholds of taught models, by the formulas of docs/teaching.md; the order does not matter."""
    for count, classes, views in ((40, 5, 3), (3, 2, 1), (40, 1, 1), (40, 5, 1), (200, 8, 1)):
        settings = {**PLAIN, "alpha": 0.3, "gamma": "auto", "gamma-from": "sums", "thresholds": "taught", "views": views}
        x, y = images(count, kind=1, settings=settings)
        y[:, classes:] = -1
        half = table(folder / "first", x[::2], y[::2]), table(folder / "second", x[1::2], y[1::2])
        says = steps(settings, f"+{half[0]}", f"+{half[1]}", f"={folder / 'one'}")
        again = steps(settings, f"+{half[1]}", f"+{half[0]}", f"={folder / 'two'}")
        m = (spread(np.ones(count), x.shape[1])[:, :, None] * expand(x, DIM, False) ** 2).sum() / count
        level = (1 + 0.1 * np.log(views)) / 2 if views > 1 else 1
        gamma = 10 ** (round(4 * np.log10(m * (1 + 8 / classes) * count / (count + 15))) / 4)
        check(says[-1].split()[0] == "1" and abs(float(says[-1].split()[3]) / gamma - 1) < 1e-12, f"gamma of {count} images: {says} {gamma}")
        check(says[-1].split()[3] == again[-1].split()[3], "the order does not matter")
        compare(folder / "one", x, y, {**settings, "gamma": gamma}, f"{count} images with gamma from the sums")
        tensors, names, about = model_of(folder / "one")
        check(about["record.gamma"] == "sums" and abs(float(about["gamma"]) / gamma - 1) < 1e-12, "the file says so")
        done = subprocess.run([BUILD / "l3a", "info", folder / "one", "--format", "json"], capture_output=True, text=True)
        shown = {c["name"]: c["threshold"] for phase in json.loads(done.stdout)["phases"] for c in phase["classes"]}
        for k, name in enumerate(names):
            n = tensors["counts"][k]
            mean = tensors["cross"][:, k] @ tensors["weights"][:, k] / n if n else 0
            share = 0.76 - 0.3 * max(0, count - tensors["counts"].sum()) / (count + 50)
            check(not n or abs(shown[name] - level * share * n / (n + 1) * mean) < 1e-4, f"threshold of {name}")
    check("does not know how many images" in steps({**PLAIN, "gamma": "auto", "gamma-from": "sums"}, code=1), "one sum has no such gamma")
    check("needs a phase" in steps({**PLAIN, "gamma": "auto"}, f"+{half[0]}", code=1), "a lesson is no phase")


def gamma_of(x, y):
    """Gamma from the sums over these images, by the formula of docs/teaching.md."""
    m, classes = (expand(x, DIM, False) ** 2).sum() / len(x), (y != -1).any(0).sum()
    return 10 ** (round(4 * np.log10(m * (1 + 8 / classes) * len(x) / (len(x) + 15))) / 4)


def forgetting(folder):
    """Whatever makes a part or a class go, or gamma another one: W is that of the images that are left, with and without a lift."""
    after, other = folder / "after.model", folder / "other.model"
    for lift, gamma, alpha in ((0, 3, 0.3), (0.1, 3, 0.3), (0, "auto", 0.3), (0.1, "auto", 0.3), (0, 3, 1), (0, "auto", 1)):
        settings = {**PLAIN, "gamma": gamma, "gamma-from": "sums", "alpha": alpha, "lift": lift, "keep-phases": 1000}
        x, y = images(40, kind=1)
        y[30:] = -1  # judged for one class alone: "not a dog"
        y[30:36, 2], y[36:, 5] = 0, random.integers(0, 2, 4)
        y[:3, 7], y[3:30, 7] = 1, -1  # and a class of which a single part knows
        first, rest = table(folder / "first", x[:30], y[:30]), table(folder / "rest", x[30:], y[30:])

        def compare_left(x, y, what):
            left = (y != -1).any(1)
            x, y = x[left], y[left]
            compare(after, x, y, {**settings, "gamma": gamma_of(x, y) if gamma == "auto" else gamma}, f"lift {lift}, gamma {gamma}, alpha {alpha}: {what}")

        for gone in ([2], [5, 2], [0], [7, 1]):
            steps(settings, f"+{first}", f"+{rest}", "^" + ",".join(NAMES[k] for k in gone), f"={after}")
            kept = y.copy()
            kept[:, gone] = -1
            compare_left(x, kept, f"without {gone}")
        steps(settings, f"+{first}", f"+{rest}", f"-{rest}", f"={after}")
        compare_left(x[:30], y[:30], "a part taken back")
        steps(settings, f"+{rest}", f"={other}")
        steps(settings, f"+{first}", f"&{other}", f"={after}")
        compare_left(x, y, "merged")
        made = y.copy()  # class 7 is judged by images that are judged for class 6 as well: those that show both count twice, so let none
        made[:3, 6] = 0
        made[:, 6], made[:, 7] = np.where(made[:, 7] == 1, 1, made[:, 6]), -1
        given = y.copy()
        given[:3, 6] = 0
        steps(settings, f"+{table(folder / 'both', x, given)}", f"~{NAMES[7]}:{NAMES[6]}", f"={after}")
        compare_left(x, made, "two classes made one")


def renaming(folder):
    for name, settings in SETTINGS.items():
        x, y = images(30, settings=settings)
        before, after = folder / "before.model", folder / "after.model"
        steps(settings, f"+{table(folder / 'all', x, y)}", f"={before}", "~class a:Ähre", f"={after}")
        (one, classes, _), (other, again, _) = model_of(before), model_of(after)
        check([("Ähre" if c == "class a" else c) for c in classes] == again and (one["weights"] == other["weights"]).all(), f"{name}: renamed")
    # two tags for one thing, never judged together
    settings = SETTINGS["apart"]
    (x, y), (other_x, other_y) = images(30), images(20)
    y[:, 1] = -1
    other_y[:, 0] = -1
    other_y[(other_y == -1).all(1), 1] = 1
    y[(y == -1).all(1), 0] = 1
    says = steps(settings, f"+{table(folder / 'one', x, y)}", f"+{table(folder / 'two', other_x, other_y)}", "~class b:class a", f"={folder / 'm'}")
    check(says[-1] == "1", f"two tags that were never judged together become one exactly: {says}")
    other_y[:, 0], other_y[:, 1] = other_y[:, 1], -1
    compare(folder / "m", np.vstack([x, other_x]), np.vstack([y, other_y]), settings, "two tags made one")
    check(steps(settings, f"+{table(folder / 'all', *images(30, kind=1))}", "~class b:class a")[-1] == "0", "images that show both count twice")


def refusals(folder):
    x, y = images(10)
    good, nothing = table(folder / "good", x, y), np.full_like(y, -1)
    nothing[1:] = y[1:]
    nothing[1] = 0
    settings = SETTINGS["apart"]
    for words, what in (("row 0 was not judged for any class", [f"+{table(folder / 'bad', x, nothing)}"]),
                        ("taught fewer images", [f"+{good}", f"-{table(folder / 'other', *images(10, kind=1))}"]),
                        ("has no class", [f"-{good}"]), ("the model has no class 'zebra'", [f"+{good}", "~zebra:horse"]),
                        ("empty name", [f"+{good}", "~class a:"])):
        check(words in steps(settings, *what, code=1), words)
    absent = table(folder / "absent", x, np.zeros_like(y))
    check("nothing to take back" in steps(SETTINGS["plain"], f"-{absent}", code=1), "a model that knows no class")
    more = table(folder / "more", *images(10, settings={"views": 3}))
    check("the model takes whole pictures" in steps(settings, f"+{good}", f"+{more}", code=1), "views are refused without them")
    check("those of whole pictures" in steps({**settings, "views": 3}, f"+{more}", f"+{good}", code=1), "and the reverse")
    check("have 3 views, but the model takes 2" in steps({**settings, "views": 2}, f"+{more}", code=1), "and others")
    steps(settings, f"+{good}", f"={folder / 'one'}"), steps({**settings, "views": 3}, f"+{more}", f"={folder / 'two'}")
    check("views is 1 in one model and 3 in the other" in steps(settings, f"@{folder / 'one'}", f"&{folder / 'two'}", code=1), "merging")


def golden(folder):
    """The cases of the reference program."""
    path = SHARED / "golden" / "parts.json"
    if not path.exists():
        print("skipped: golden/parts.json is not there")
        return
    sys.path.insert(0, str(SHARED / "reference"))
    import parts_reference
    for case in json.loads(path.read_text())["cases"]:
        made = parts_reference.example(case["example_seed"], case["images"], case["width"], case["classes"], case["crops"], case["era"])
        x = np.array([image["rows"] for image in made], np.float32)
        y = np.array([[int(k in image["present"]) if k in image["judged"] else -1 for k in range(case["classes"])] for image in made], np.int8)
        settings = {**PLAIN, "dim": case["dim"], "seed": case["layer_seed"], "gamma": case["gamma"], "alpha": case["alpha"],
                    "lift": case["lift"], "skip-features": "on" if case["skip"] else "off", "views": case["crops"] or 1, **({"keep-phases": 99} if case["lift"] else {})}
        where = table(folder / "case", x, y)
        steps(settings, f"+{where}", f"={folder / 'case.model'}", f"!{where}:{folder / 'scores'}", width=case["width"])
        tensors, classes, _ = model_of(folder / "case.model")
        expected = np.array(case["weights"])[:, [NAMES.index(c) for c in classes]]
        off = np.abs(tensors["weights"] - expected).max() / np.abs(expected).max()
        check(off < 2e-6, f"golden case {case['example_seed']}: off by {off:.1e}")  # its features are float64, ours float32
        scores = np.fromfile(folder / "scores", np.float32).reshape(len(x), -1)[:5]
        expected = np.array(case["scores_of_first_five"])[:, [NAMES.index(c) for c in classes]]
        check(np.abs(scores - expected).max() < 2e-6, f"golden case {case['example_seed']}: scores are off by {np.abs(scores - expected).max():.1e}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in (any_order, undo, merging, phases, left_out, chosen, forgetting, renaming, refusals, golden):
            part(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
