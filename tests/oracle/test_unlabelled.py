#!/usr/bin/env python3
"""Models with unlabelled images against NumPy (SPEC section 8): one system for each class, summed image by image, with the unlabelled
ones beside; the thresholds that follow; in any order, after undoing, merging, forgetting and renaming, and the golden cases of the reference program."""
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from support import check, combine, expand, finish
import test_teach
from test_teach import DIM, NAMES, SHARED, gamma_of, images, model_of, solve, steps, table

random = np.random.default_rng(18)
PLAIN = {**test_teach.PLAIN, "thresholds": "taught"}
APART = {**PLAIN, "alpha": 0.3, "lift": 0.1, "beta": 1.5}
SETTINGS = {"apart": APART, "skip": {**PLAIN, "alpha": 0.5, "skip-features": "on", "gamma": 0.5, "beta": 3},
            "mixed": {**APART, "precision": "mixed", "gamma": 5}, "kept": {**PLAIN, "keep-phases": 1000, "lift": 0.05, "beta": 0.2},
            "views": {**APART, "views": 3}, "views, mixed": {**APART, "precision": "mixed", "gamma": 5, "views": 2},
            "gamma from the sums": {**APART, "gamma": "auto", "gamma-from": "sums"}, "beta by rule": {**APART, "beta": "auto"}}


def weight_of(y, count, unlabelled, settings):
    """What the sums of the unlabelled images are multiplied by; count: N."""
    if settings["beta"] != "auto":
        return settings["beta"] * count / unlabelled
    shown = min(count, (y == 1).sum())
    total = 8 / y.shape[1] * shown ** 2 / (shown + 2 * y.shape[1]) * 100 / (100 + count - shown)
    return 10 ** (np.round(4 * np.log10(total)) / 4) / unlabelled if shown else 0


def rows_of(x, y, skip):
    """C: sums over the images of each class, crops weighing as much as the whole picture."""
    each = x.shape[1]
    weights = np.array([1] + [1 / max(1, each - 1)] * (each - 1))
    return np.einsum("nvd,v,nk->dk", expand(x, DIM, skip), weights, (y == 1).astype(float)), weights


def solve_with(x, y, u, settings, count=None, weight=None):
    """Coefficients [d, classes] with the lift, the unlabelled images u [n, views, width] beside; count: N, if it is not len(x); weight: of the
    unlabelled images, if it is that of another model."""
    skip = settings.get("skip-features") == "on"
    gamma = gamma_of(x, y) if settings["gamma"] == "auto" else settings["gamma"]
    plain, lifted, matrices = solve(x, y, gamma, settings.get("alpha", 1), settings.get("lift", 0), np.ones(len(x)), skip)
    if not len(u):
        return lifted
    z = expand(u[:, :1], DIM, skip)[:, 0]
    weight = weight_of(y, len(x) if count is None else count, len(u), settings) if weight is None else weight
    w = np.array([np.linalg.solve(m + weight * z.T @ z, c) for m, c in zip(matrices, rows_of(x, y, skip)[0].T)]).T
    sets = {tuple(row != -1) for row in y}
    t = sum(not any(o != s and all(b or not a for a, b in zip(o, s)) for o in sets) for s in sets)
    return w + settings.get("lift", 0) * (t - 1) / (t + 8) * w.sum(1, keepdims=True)


def thresholds_of(x, y, u, w, settings):
    """Those of docs/teaching.md; NaN for a class without a positive mean score."""
    skip, views = settings.get("skip-features") == "on", settings.get("views", 1)
    m = (expand(u[:, :1], DIM, skip)[:, 0] @ w).mean(0)
    n, classes = (y == 1).sum(0), y.shape[1]
    cross, weights = rows_of(x, y, skip)
    mu = (cross * w).sum(0) / (weights.sum() * np.maximum(n, 1))
    height = 0.85 - 0.06 * np.log(classes)
    level = 1 + 0.1 * np.log(views) if views > 1 else 1
    rare = 1 / (1 + (np.maximum(m, 0) / (0.3 * np.where(mu > 0, mu, 1))) ** 6)
    return np.where(mu > 0, level * (m + height * rare * (mu - m) * n / (n + 3)), np.nan)


def compare(path, x, y, u, settings, what):
    tolerance = 1e-9 if settings["precision"] == "double" else 2e-3  # conjugate gradients stop at 5e-4 in the norm of the system
    tensors, classes, about = model_of(path)
    known = [k for k in range(y.shape[1]) if (y[:, k] != -1).any()]
    check(sorted(classes) == sorted(NAMES[k] for k in known), f"{what}: classes {classes}")
    order = [NAMES.index(name) for name in classes]
    w = solve_with(x, y[:, order], u, settings)
    off = np.abs(tensors["weights"] - w).max() / (np.abs(w).max() or 1)
    check(off < tolerance, f"{what}: W is off by {off:.1e}")
    if len(u):
        check(about["version"] == "8" and int(about["unlabelled"].split()[0]) == len(u), f"{what}: {about.get('unlabelled')}")
        steps(settings, f"@{path}", f"${path}.thresholds")
        own, found = thresholds_of(x, y[:, order], u, w, settings), np.fromfile(f"{path}.thresholds")
        off = np.nanmax(np.abs(found - own)) / np.nanmax(np.abs(own))
        check(off < 3 * max(tolerance, 1e-9), f"{what}: thresholds are off by {off:.1e}")
    else:
        check("unlabelled" not in about and "unlabelled_sum" not in tensors, f"{what}: there are none")


def library(settings, count):
    return images(count, kind=1, settings=settings)[0]


def any_order(folder):
    """The unlabelled images may come before, between or after lessons, and from a file."""
    for name, settings in SETTINGS.items():
        for trial in range(3):
            kind = 1 if settings["gamma"] == "auto" else None
            x, y = images(int(random.integers(6, 40)), kind=kind, settings=settings)
            u = library(settings, int(random.integers(1, 60)))
            given = f"*{table(folder / 'u', u, np.zeros((len(u), 8), np.int8))}:1000"
            lessons = [f"+{table(folder / f'lesson{i}', x[i::3], y[i::3])}" for i in range(3)]
            lessons.insert(trial, given)
            middle = folder / "middle.model"
            steps(settings, *lessons[:2], f"={middle}", f"@{middle}", *lessons[2:], f"={folder / 'm'}")
            compare(folder / "m", x, y, u, settings, f"{name}: {trial} lessons before")
            steps(settings, *lessons, "*", f"={folder / 'm'}")
            compare(folder / "m", x, y, u[:0], settings, f"{name}: removed")
            steps(settings, f"@{middle}", "*", *(step for step in lessons[2:] if step != given), f"={folder / 'm'}")
            compare(folder / "m", x, y, u[:0], settings, f"{name}: removed after loading")


def judged(folder):
    """Random sequences: an image that is taught leaves the unlabelled ones, and taking it back returns it."""
    for name, settings in SETTINGS.items():
        kind = 1 if settings["gamma"] == "auto" else None
        for trial in range(4):
            x, y = images(20, kind=kind, settings=settings)
            u, labels = images(30, kind=kind, settings=settings)  # which are judged later, some of them
            what = [f"+{table(folder / 'base', x, y)}", f"*{table(folder / 'u', u, np.zeros((30, 8), np.int8))}:1000"]
            out = set()
            for turn in range(6):
                first = 5 * int(random.integers(6))
                rows = slice(first, first + 5)
                lesson = table(folder / f"some{first}", u[rows], labels[rows])
                what.append(f"{'<' if first in out else '>'}{lesson}:{1000 + first}")
                out ^= {first}
                if turn == 3:
                    what += [f"={folder / 'half'}", f"@{folder / 'half'}"]
            steps(settings, *what, f"={folder / 'm'}")
            taken = np.array([5 * (i // 5) in out for i in range(30)])
            compare(folder / "m", np.vstack([x, u[taken]]), np.vstack([y, labels[taken]]), u[~taken], settings, f"{name}: {sorted(out)} judged")


def merging(folder):
    """Both models' unlabelled images count; forgetting leaves them."""
    for name, settings in SETTINGS.items():
        kind = 1 if settings["gamma"] == "auto" else None
        (x, y), (other_x, other_y) = images(25, kind=kind, settings=settings), images(15, kind=kind, settings=settings)
        u, v = library(settings, 20), library(settings, 33)
        one, two, union = folder / "one.model", folder / "two.model", folder / "union.model"
        nothing = np.zeros((40, 8), np.int8)
        steps(settings, f"+{table(folder / 'a', x, y)}", f"*{table(folder / 'u', u, nothing[:20])}:1", f"={one}")
        steps(settings, f"+{table(folder / 'b', other_x, other_y)}", f"={two}")
        for theirs in (v[:0], v):
            if len(theirs):
                steps(settings, f"@{two}", f"*{table(folder / 'v', v, nothing[:33])}:100", f"={two}")
            says = steps(settings, f"@{one}", f"&{two}", f"={union}", f"@{union}", f"={union}")
            check(says[0] == "1", f"{name}: merging is exact: {says}")
            compare(union, np.vstack([x, other_x]), np.vstack([y, other_y]), np.vstack([u, theirs]), settings, f"{name}: merged")
        left = y.copy()
        left[:, 2] = -1
        rows = (left != -1).any(1)
        steps(settings, f"@{one}", f"^{NAMES[2]}", f"={union}")
        if settings.get("alpha", 1) < 1 or rows.all():
            compare(union, x[rows], left[rows], u, settings, f"{name}: forgotten")
        steps(settings, f"@{one}", f"~{NAMES[3]}:elk", f"={union}")
        check((model_of(union)[0]["weights"] == model_of(one)[0]["weights"]).all(), f"{name}: renamed")


def left_out(folder):
    """The scores without each image: N and the unlabelled images stay."""
    for name, settings in SETTINGS.items():
        if settings["gamma"] == "auto":
            continue
        x, y = images(25, settings=settings)
        u = library(settings, 40)
        where = table(folder / "all", x, y)
        steps(settings, f"+{where}", f"*{table(folder / 'u', u, np.zeros((40, 8), np.int8))}:1", f"={folder / 'model'}", f"?{where}:{folder / 'scores'}")
        order = [NAMES.index(c) for c in model_of(folder / "model")[1]]
        scores = np.fromfile(folder / "scores", np.float32).reshape(len(x), -1)
        sets = {tuple(row != -1) for row in y}
        t = sum(not any(o != s and all(b or not a for a, b in zip(o, s)) for o in sets) for s in sets)
        worst = 0
        for i in range(len(x)):
            rest = np.arange(len(x)) != i
            w = solve_with(x[rest], y[rest][:, order], u, {**settings, "lift": 0}, weight=weight_of(y[:, order], len(x), len(u), settings))
            w = w + settings.get("lift", 0) * (t - 1) / (t + 8) * w.sum(1, keepdims=True)
            worst = max(worst, np.abs(combine(expand(x[i:i + 1], DIM, settings.get("skip-features") == "on") @ w) - scores[i]).max())
        check(worst < (2e-6 if settings["precision"] == "double" else 2e-3), f"{name}: scores without the image are off by {worst:.1e}")


def refusals(folder):
    x, y = images(10)
    good, u = f"+{table(folder / 'good', x, y)}", f"*{table(folder / 'u', library(PLAIN, 9), np.zeros((9, 8), np.int8))}:1"
    check("does not know how many images it holds" in steps(PLAIN, good, u, code=1), "one sum")
    check("alpha 0" in steps({**PLAIN, "alpha": 0}, good, u, code=1), "alpha 0")
    wide = table(folder / "wide", np.ones((4, 1, 7)), np.zeros((4, 8), np.int8))
    check("7 wide" in steps(APART, good, f"*{wide}:1", code=1), "another width")
    says = steps(APART, good, u)
    check(says[-1].split()[:2] == ["9", "9"] and abs(float(says[-1].split()[2]) - 1.5 * 10 / 9) < 1e-12, f"{says}")


def golden(folder):
    """The cases of the reference program, with its double-precision features, and those cases with features as we have them."""
    path = SHARED / "golden" / "unlabelled.json"
    if not path.exists():
        print("skipped: golden/unlabelled.json is not there")
        return
    sys.path.insert(0, str(SHARED / "reference"))
    import parts_reference
    for case in json.loads(path.read_text())["cases"]:
        def make(seed, count):
            made = parts_reference.example(case[seed], case[count], case["width"], case["classes"], case["crops"], case["era"])
            for image in made:
                image["rows"] = np.array(image["rows"], np.float32)
            return made
        made, other = make("example_seed", "images"), make("unlabelled_seed", "unlabelled")
        x, u = np.array([i["rows"] for i in made]), np.array([i["rows"] for i in other])
        y = np.array([[int(k in i["present"]) if k in i["judged"] else -1 for k in range(case["classes"])] for i in made], np.int8)
        settings = {**PLAIN, "dim": case["dim"], "seed": case["layer_seed"], "gamma": case["gamma"], "alpha": case["alpha"], "beta": case["beta"],
                    "lift": case["lift"], "skip-features": "on" if case["skip"] else "off", "views": case["crops"] or 1}
        where, library_of = table(folder / "case", x, y), table(folder / "library", u, np.zeros((len(u), 8), np.int8))
        for order in ((f"+{where}", f"*{library_of}:1"), (f"*{library_of}:1", f"+{where}")):
            steps(settings, *order, f"={folder / 'model'}", f"!{library_of}:{folder / 'scores'}", f"?{where}:{folder / 'left'}", width=case["width"])
            tensors, classes, _ = model_of(folder / "model")
            columns = [NAMES.index(c) for c in classes]
            b = parts_reference.layer(case["width"], case["dim"], case["layer_seed"]).astype(np.float32).astype(float)  # as ours is
            ours = parts_reference.solve(made, case["classes"], b, case["gamma"], case["alpha"], case["lift"], case["skip"], None, list(u), case["beta"])
            for w, most in ((np.array(case["weights"]), 2e-6), (ours, 1e-9)):
                off = np.abs(tensors["weights"] - w[:, columns]).max() / np.abs(w).max()
                check(off < most, f"golden case {case['beta']}: off by {off:.1e}")
            scores = np.fromfile(folder / "scores", np.float32).reshape(len(u), -1)
            off = np.abs(scores - np.array(case["library_scores"])[:, columns]).max()
            check(off < 2e-6, f"golden case {case['beta']}: scores of the library are off by {off:.1e}")
            left = np.fromfile(folder / "left", np.float32).reshape(len(x), -1)
            for k, own in enumerate(case.get("left_out", [])):
                mine = left[y[:, k] == 1, columns.index(k)]
                check(np.abs(mine - own).max() < 2e-6 if len(own) else not len(mine), f"golden case {case['beta']}: left-out scores of class {k}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in (any_order, judged, merging, left_out, refusals, golden):
            part(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
