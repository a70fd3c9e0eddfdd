#!/usr/bin/python3
"""Which 20 pictures of a library should be judged next? The tables of docs/teaching.md, "What to judge next".

  bench/judging.py --voc TRAINVAL --coco TRAIN [--voc-test TEST] [--coco-test VAL] [--tables LIST] [--draws 10] [--dim 2048]

TRAINVAL, TRAIN, TEST and VAL are feature files (`l3a extract`). The tables constants, sizes and bursts are about choices, and use training pictures
alone. The tables ways and nested measure what was chosen: with --voc-test and --coco-test, on pictures that had no part in it.

A *case* is a draw of K tags and n taught pictures of each. The library has up to 6,000 other pictures at their natural shares, and bursts: a tenth of the
pictures have 3 to 8 near copies. 2,000 pictures of the library are the model's unlabelled pictures. A *way* chooses 20 pictures of the library. They are
judged for all K tags and taught. AP and F1 are means over the tags, on up to 4,000 pictures that are in neither.

A near copy is the picture's features with noise. The noise has the covariance S^(1/2), where S is that of the data, and a size that differs from
burst to burst: the cosine between two copies is 0.88 to 0.98 (5 to 95 %), with a median of 0.95. Copies made from the JPEG files of both data sets,
with crops of 0.85 to 1 of each side, turned by up to 2 degrees, and up to 12 % brighter or darker, have 0.86 to 0.98, with a median of 0.94. With crops
of 0.95 to 1, up to 1 degree and 5 %, they have 0.90 to 0.99, with a median of 0.96."""
import argparse
import sys

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from teaching_study import Data, Mixed, average_precision, beta_rule, expand, gain, gamma_rule, header, library_thresholds, line, one, rates

ASKED, CASES = 20, [(classes, count) for classes in (1, 3, 5) for count in (5, 10, 20)]


# ---- libraries with bursts ------------------------------------------------------------------------------------------------------------

def burst_noise(data):
    """A matrix that turns white noise into the noise of near copies, as long as the centred features."""
    if not hasattr(data, "noise"):
        values, vectors = np.linalg.eigh(np.cov(data.z.T))
        shape = vectors * np.maximum(values, 0) ** 0.25
        data.noise = (shape * np.sqrt(values.sum() / (shape ** 2).sum())).T
    return data.noise


def add_bursts(rng, data, z, share, size):
    """Features with those of near copies, and for each row the row that it is a copy of."""
    first = np.flatnonzero(rng.random(len(z)) < share)
    parent = np.repeat(first, rng.integers(3, 9, len(first)))
    each = size * np.exp(0.25 * rng.normal(size=len(z)))[parent]
    copies = z[parent] + each[:, None] * (rng.normal(size=(len(parent), z.shape[1])) @ burst_noise(data))
    return np.vstack([z, copies]), np.concatenate([np.arange(len(z)), parent])


class Case:
    """What is taught, the library, and what is measured. Rows of the random layer are float32, as there are many."""

    def __init__(self, data, classes, count, seed, other=None, library=6000, measured=4000, share=0.1, size=0.26, nested=False):
        self.rng = rng = np.random.default_rng([seed, classes, count])
        source, halves = other or data, getattr(data, "halves", None)
        labels = data.y if halves is None or seed % 3 == 2 else data.y & (halves == seed % 3)[:, None]  # as in teaching_study.py
        often, enough = source.y.mean(0), labels.sum(0) >= count + 20
        self.classes = np.sort(rng.choice(np.flatnonzero((often > 0.005) & enough), classes, replace=False))
        free, taught, order = np.ones(len(data.y), bool), [], rng.permutation(classes)
        for k in self.classes[order]:
            found = rng.choice(np.flatnonzero(labels[:, k] & free), count, replace=False)
            free[found] = False
            taught.append(found)
        taught = np.concatenate(taught)
        rest = rng.permutation(np.arange(len(source.y)) if other else np.flatnonzero(free))
        library = min(library, len(rest) * 6 // 10)
        shown, unseen = rest[:library], rest[library:library + measured]
        self.z, self.parent = add_bursts(rng, source, source.z[shown], share, size)
        self.y, self.zt, self.yt = source.y[shown][self.parent][:, self.classes], data.z[taught], data.y[taught][:, self.classes]
        self.judged = np.ones_like(self.yt)
        if nested:  # the tags were taught one after another: a picture was judged for those known by then
            self.judged = np.argsort(order)[None] <= np.repeat(np.arange(classes), count)[:, None]
        self.x, self.xt, self.xv = (expand(z, data.dim).astype(np.float32) for z in (self.z, self.zt, source.z[unseen]))
        self.yv, self.sample = source.y[unseen][:, self.classes], rng.choice(len(self.z), min(2000, len(self.z)), replace=False)
        self.sampled = np.isin(np.arange(len(self.z)), self.sample)
        self.all, self.factors = self.x[self.sample].T @ self.x[self.sample], {}


class Model:
    """The model after the case's lessons and the judged rows of its library. M = B + xᵀ D x with B = β N/|U| A_U + γI, so w = B⁻¹ xᵀ t with
    (1 + D x B⁻¹ xᵀ) t = y. Pictures of U that are judged leave it: rows with a negative weight."""

    def __init__(self, case, rows=()):
        rows = np.asarray(rows, int)
        x, y = np.vstack([case.xt, case.x[rows]]), np.vstack([case.yt, case.y[rows]])
        judged = np.vstack([case.judged, np.ones((len(rows), y.shape[1]), bool)])
        y = y & judged
        (self.images, self.classes), self.n = y.shape, y.sum(0)
        gamma, weight = gamma_rule((x.astype(float) ** 2).sum() / len(x), *y.shape), beta_rule(y) * len(y)
        left = rows[case.sampled[rows]]
        key = round(float(np.log(weight)), 6), round(float(np.log(gamma)), 6)
        if key not in case.factors:
            base = case.all * np.float32(weight / len(case.sample)) + np.float32(gamma) * np.eye(case.x.shape[1], dtype=np.float32)
            case.factors[key] = cho_factor(base, overwrite_a=True, check_finite=False)
        every = np.vstack([x, case.x[left]])
        solved = cho_solve(case.factors[key], every.T, check_finite=False).astype(float)
        gram, own, target = every @ solved, [], np.vstack([y, np.zeros((len(left), self.classes))])
        for k in range(self.classes):
            d = np.concatenate([np.where(judged[:, k], 1, 0.3), np.full(len(left), -weight / len(case.sample))])
            own.append(np.linalg.solve(np.eye(len(every)) + d[:, None] * gram, target[:, k]))
        w = (solved @ np.array(own).T).astype(np.float32)
        self.mu = ((x @ w) * y).sum(0) / self.n
        self.library, self.scores = case.x @ w, case.xv @ w
        self.mean = self.library[np.setdiff1d(case.sample, left)].mean(0)
        self.thresholds = library_thresholds(self)


# ---- ways to choose ---------------------------------------------------------------------------------------------------------------------

def closeness(model):
    """What the page orders by in 0.12: 1 at a threshold, less away from all of them."""
    return 1 / (1 + 10 * np.abs(model.library - model.thresholds).min(1))


def first(value, count):
    return np.argsort(-value, kind="stable")[:count]


def at_random(case, model):
    return case.rng.choice(len(case.z), ASKED, replace=False)


def uncertain(case, model):
    return first(closeness(model), ASKED)


def centred(case):
    """Features of the library and of the taught pictures, less the library's mean, with a mean square of 1."""
    mean = case.z[case.sample].mean(0)
    scale = np.sqrt(((case.z[case.sample] - mean) ** 2).sum(1).mean())
    return (case.z - mean) / scale, (case.zt - mean) / scale


def leverages(z, taught, ridge):
    """zᵀM⁻¹z for all pairs, M = ridge I + the sum over the taught pictures."""
    return z @ np.linalg.solve(ridge * np.eye(z.shape[1]) + taught.T @ taught, z.T)


def greedy(k, value):
    """One after another, the row for which value(k) is largest; k is then updated as if it had been taught."""
    chosen = []
    for _ in range(ASKED):
        worth = value(k)
        worth[chosen] = -1
        chosen.append(int(np.argmax(worth)))
        row = k[chosen[-1]].copy()
        k -= np.outer(row, row) / (1 + row[chosen[-1]])
    return chosen


def uncertain_novel(case, model, candidates=1000, ridge=0.1):
    """The issue's proposal: closeness times leverage, h/(1 + h)."""
    close, (z, taught) = closeness(model), centred(case)
    rows = first(close, candidates)
    return rows[greedy(leverages(z[rows], taught, ridge), lambda k: close[rows] * np.diag(k) / (1 + np.diag(k)))]


def uncertain_apart(case, model, candidates=1000):
    """Closeness times 1 less the cosine to the nearest picture that is already chosen."""
    close, (z, _) = closeness(model), centred(case)
    rows, chosen = first(close, candidates), []
    z, near = z[rows] / np.linalg.norm(z[rows], axis=1, keepdims=True), np.zeros(len(rows))
    for _ in range(ASKED):
        chosen.append(int(np.argmax(close[rows] * (1 - near))))
        near = np.maximum(near, z @ z[chosen[-1]])
        near[chosen[-1]] = 1
    return rows[chosen]


def doubtful_rows(case, model, middle, half, candidates, few):
    """Rows that have a score from a little below to well above a threshold; a sample of them if there are many, and the nearest if there are few."""
    height = (model.library - model.thresholds) / (model.thresholds - model.mean)
    off = np.abs(height - middle).min(1)
    rows = np.flatnonzero(off < half)
    return case.rng.permutation(rows)[:candidates] if len(rows) >= few else first(-off, few)


def informative(case, model, middle=0.15, half=0.3, candidates=1000, few=200, ridge=1.0):
    """The rule: of the doubtful pictures, the one that says most about all of them."""
    rows, (z, taught) = doubtful_rows(case, model, middle, half, candidates, few), centred(case)
    return rows[greedy(leverages(z[rows], taught, ridge), lambda k: (k * k).sum(1) / (1 + np.diag(k)))]


def doubtful(case, model):
    return case.rng.choice(doubtful_rows(case, model, 0.15, 0.3, 1000, 200), ASKED, replace=False)


def doubtful_novel(case, model):
    rows, (z, taught) = doubtful_rows(case, model, 0.15, 0.3, 1000, 200), centred(case)
    return rows[greedy(leverages(z[rows], taught, 1.0), lambda k: np.diag(k).copy())]


WAYS = {"at random": at_random, "uncertainty": uncertain, "uncertainty × leverage": uncertain_novel, "uncertainty, far apart": uncertain_apart,
        "doubtful, at random": doubtful, "doubtful, by leverage": doubtful_novel, "rule": informative}


# ---- measuring --------------------------------------------------------------------------------------------------------------------------

def quality(scores, y, thresholds):
    return [average_precision(scores, y).mean(), rates(scores, y, thresholds)[2].mean()]


def compare(case, ways):
    """Before, and for each way: AP and F1 on unseen pictures, AP and F1 on those of the library that no way asked, how many different pictures the
    way asks, and how many of them show a tag."""
    before = Model(case)
    asked = {name: way(case, before) for name, way in ways.items()}
    rest = np.setdiff1d(np.arange(len(case.z)), np.concatenate(list(asked.values())))

    def measured(model):
        return quality(model.scores, case.yv, model.thresholds) + quality(model.library[rest], case.y[rest], model.thresholds)
    return [measured(before), *([*measured(Model(case, rows)), len(set(case.parent[rows])), case.y[rows].any(1).sum()] for rows in asked.values())]


def gather(sets, draws, begin, ways, cases=tuple(CASES), **options):
    """For each data set and number of tags, the results of its draws."""
    for name, (data, test) in sets.items():
        for classes in dict.fromkeys(c for c, _ in cases):
            found = [compare(Case(data, classes, count, begin + draw, other=test, **options), ways)
                     for c, count in cases if c == classes for draw in range(draws)]
            yield name, classes, [np.array([f[0] for f in found])] + [np.array([f[at + 1] for f in found]) for at in range(len(ways))]


def both(new, old, column=0):
    return ", ".join(gain(new[:, i], old[:, i]) for i in (column, column + 1))


def ways_lines(ways, results):
    """A line for each data set and way: what it gains, and how much more that is than uncertainty gains."""
    header("way", ["gain: AP, F1", "more than uncertainty: AP, F1", "in the library, gain: AP, F1", "more than uncertainty: AP, F1", "different pictures",
                   "that show a tag"])
    for name in dict.fromkeys(name for name, _, _ in results):
        before, *after = (np.vstack([parts[i] for other, _, parts in results if other == name]) for i in range(len(ways) + 1))
        old = after[list(ways).index("uncertainty")]
        for way, rows in zip(ways, after):
            more = ["", ""] if rows is old else [both(rows, old), both(rows, old, 2)]
            line(f"{name}, {way}", [both(rows, before), more[0], both(rows, before, 2), more[1], one(rows[:, 4]), one(rows[:, 5])])


def table(sets, draws, begin, ways, **options):
    ways_lines(ways, list(gather(sets, draws, begin, ways, **options)))


def constants_table(sets, draws, begin=1000):
    """The rule with other constants."""
    def changed(**constants):
        return lambda case, model: informative(case, model, **constants)
    others = {"middle 0": {"middle": 0}, "middle 0.3": {"middle": 0.3}, "half 0.15": {"half": 0.15}, "half 0.45": {"half": 0.45},
              "300 candidates": {"candidates": 300}, "2,000 candidates": {"candidates": 2000}, "at least 50": {"few": 50}, "at least 500": {"few": 500},
              "λ = 0.1": {"ridge": 0.1}, "λ = 0.3": {"ridge": 0.3}, "λ = 3": {"ridge": 3}, "λ = 10": {"ridge": 10}}
    ways = {"uncertainty": uncertain, "rule": informative, **{name: changed(**constants) for name, constants in others.items()}}
    table(sets, draws, begin, ways)


def sizes_table(sets, draws, begin=2000):
    """The rule by the size of the library, without its bursts: up to 1,000, 2,000, 6,000 and 30,000 pictures of COCO. 3 and 5 tags."""
    for size in (1000, 2000, 6000, 30000) if "COCO" in sets else ():
        print(f"\nUp to {size:,} pictures:\n")
        table({"COCO": sets["COCO"]}, draws, begin, {name: WAYS[name] for name in ("uncertainty", "doubtful, at random", "rule")}, cases=CASES[3:], library=size)


def bursts_table(sets, draws, begin=3000):
    """More bursts, with copies that are closer: 0.3 of the pictures have them, at a cosine of 0.985. 3 and 5 tags."""
    table(sets, draws, begin, WAYS, cases=CASES[3:], share=0.3, size=0.14)


def ways_table(sets, draws, begin=0):
    """What 20 answers gain, means over 1, 3 and 5 tags of 5, 10 and 20 pictures: on pictures that are not in the library, and on those of the library
    that no way asked. Then uncertainty and the rule by case, on pictures that are not in the library."""
    results = list(gather(sets, draws, begin, WAYS))
    ways_lines(WAYS, results)
    print()
    header("tags × pictures", ["AP, F1 before", "gain by uncertainty: AP, F1", "gain by the rule", "difference"])
    places = [0] + [list(WAYS).index(name) + 1 for name in ("uncertainty", "rule")]
    for name, classes, parts in results:
        for i, count in enumerate((5, 10, 20)):
            before, old, new = (parts[at][i * draws:(i + 1) * draws] for at in places)
            line(f"{name}, {classes} × {count}", [f"{one(before[:, 0])}, {one(before[:, 1])}", both(old, before), both(new, before), both(new, old)])


FEW = {name: WAYS[name] for name in ("at random", "uncertainty", "rule")}


def nested_table(sets, draws, begin=0):
    """The same if the tags were taught one after another, so that earlier pictures were never judged for later tags: 3 and 5 tags."""
    table(sets, draws, begin, FEW, cases=CASES[3:], nested=True)


TABLES = {"constants": constants_table, "sizes": sizes_table, "bursts": bursts_table, "ways": ways_table, "nested": nested_table}
MEASURED = ("ways", "nested")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("voc", "coco", "voc-test", "coco-test"):
        parser.add_argument("--" + name)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--dim", type=int, default=2048)
    given = parser.parse_args()
    sets = {}
    for name, train, test in (("VOC", given.voc, given.voc_test), ("COCO", given.coco, given.coco_test)):
        if train:
            sets[name] = Data(train, given.dim), Data(test, given.dim) if test else None
    if len(sets) == 2:  # half of each
        (voc, test), (coco, other_test) = sets.values()
        sets["mixed"] = Mixed(voc, coco), Mixed(test, other_test) if test and other_test else None
    for name in given.tables.split(","):
        if name in MEASURED or not given.voc_test and not given.coco_test:
            print(f"\n### {name}\n{TABLES[name].__doc__}\n")
            TABLES[name](sets, given.draws)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
