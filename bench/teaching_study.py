#!/usr/bin/python3
"""The tables of docs/teaching.md: how the defaults of `l3a teach` were chosen, on training images only.

  bench/teaching_study.py --voc TRAINVAL --coco TRAIN --tables gamma,thresholds,width,parts,expect,limits,single,benchmark
                          [--test TEST] [--draws 5] [--dim 2048] [--large]

TRAINVAL, TRAIN and TEST are feature files (`l3a extract`). --test is used by the table `benchmark` alone: its pictures are tagged instead of those of
TRAINVAL that were not taught. --large adds the large cases of COCO, which take minutes each.

A *case* is a draw of K classes with n taught pictures each, labels complete for the K classes. It is measured on pictures that were not taught, half
of which show none of the K classes. x is a row of the random layer and the features, A = Σ x xᵀ, C = Σ x yᵀ, m = tr(A)/N, W = (A + γI)⁻¹C."""
import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "oracle"))
import feature_file  # noqa: E402

NAMED = ["bus", "cat", "horse", "sofa", "aeroplane"]
STEPS = np.round(np.arange(-1.5, 1.6, 0.25), 2)  # log10 of γ/m


# ---- the rules that were chosen -------------------------------------------------------------------------------------------------------

def gamma_rule(m, images, classes):
    """γ from the sums: a multiple of the mean x·x, rounded to quarter decades."""
    r = (1 + 8 / classes) * images / (images + 15)
    return 10 ** (np.round(4 * np.log10(r * m)) / 4)


def threshold_rule(mean, count):
    """The threshold of a class from the mean score of its own taught pictures, and how many they are."""
    return 0.76 * mean * count / (count + 1)


# ---- data -----------------------------------------------------------------------------------------------------------------------------

class Data:
    def __init__(self, path):
        tensors, metadata = feature_file.load(path)
        self.z, self.y = tensors["features"].astype(float), (tensors["labels"] == 1).astype(float)
        self.names, self.layers = metadata["classes"].split("\n"), {}

    def rows(self, index, dim):
        """x of some rows. All of them are kept if they are few."""
        if len(self.z) > 20000:
            return expand(self.z[index], dim)
        if dim not in self.layers:
            self.layers[dim] = expand(self.z, dim)
        return self.layers[dim][index]


def splitmix(seed, count):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(float) / (1 << 24)


def expand(z, dim, seed=2025):
    layer = (2 * splitmix(seed, z.shape[1] * dim).reshape(z.shape[1], dim) - 1) / np.sqrt(z.shape[1])
    return np.hstack([np.maximum(z @ layer, 0), z])


class Case:
    """Taught, known (not taught, show one of the classes) and background rows of a draw."""

    def __init__(self, data, kind, classes, count, seed, held=None, cap=3000, spare=0):
        rng = np.random.default_rng(seed)
        self.rng, self.data, labels = rng, data, data.y
        self.classes = [data.names.index(c) for c in NAMED] if kind == "named" else sorted(rng.choice(len(data.names), classes, replace=False))
        free = np.ones(len(labels), bool) if held is None else ~held
        self.spare = rng.choice(np.flatnonzero(free), spare, replace=False)  # pictures nobody labelled
        free[self.spare] = False
        self.taught = self.draw(free, count)
        self.y = labels[self.taught][:, self.classes]
        left = (free if held is None else held).copy()
        left[self.taught] = False
        self.measured(data, left, cap)

    def draw(self, free, count):
        """count pictures for each class (or a count per class); a picture drawn for one class is not drawn again."""
        taken, out = ~free, []
        counts = dict(zip(self.classes, np.broadcast_to(count, len(self.classes))))
        for c in self.rng.permutation(self.classes):
            found = np.flatnonzero((self.data.y[:, c] > 0) & ~taken)
            found = self.rng.choice(found, min(counts[c], len(found)), replace=False)
            taken[found] = True
            out.append(found)
        return np.concatenate(out)

    def measured(self, data, left, cap=3000):
        shown = data.y[:, self.classes].sum(1) > 0
        known, none = np.flatnonzero(left & shown), np.flatnonzero(left & ~shown)
        size = min(len(known), cap, len(none) if len(none) > 100 else cap)
        self.known, self.none = self.rng.choice(known, size, replace=False), self.rng.choice(none, min(size, len(none)), replace=False)
        self.rest = np.concatenate([self.known, self.none])
        self.rest_y, self.measured_on = data.y[self.rest][:, self.classes], data


# ---- the solution ---------------------------------------------------------------------------------------------------------------------

class Ridge:
    """(A + γI)⁻¹C for any γ, in the dual where there are fewer rows than columns; from eigenvalues where that is quick."""

    def __init__(self, x, y, other):
        self.m, self.x, self.y, self.other, self.dual = (x ** 2).sum() / len(x), x, y, other, len(x) < x.shape[1]
        self.gram = x @ x.T if self.dual else x.T @ x
        self.cross = y if self.dual else x.T @ y
        self.across = other @ x.T if self.dual else other
        self.values, self.vectors = np.linalg.eigh(self.gram) if len(self.gram) < 500 else (None, None)

    def inverse(self, gamma):
        if self.values is None:
            return np.linalg.inv(self.gram + gamma * np.eye(len(self.gram)))
        return self.vectors / (self.values + gamma) @ self.vectors.T

    def solve(self, gamma):
        """Scores of the taught rows, of the others, and of the taught rows when left out; the mean leverage."""
        inverse = self.inverse(gamma)
        solution = inverse @ self.cross
        if self.dual:
            own, h = self.y - gamma * solution, 1 - gamma * np.diag(inverse)
        else:
            own, h = self.x @ solution, np.concatenate([(part @ inverse * part).sum(1) for part in np.array_split(self.x, 1 + len(self.x) // 4096)])
        return own, self.across @ solution, (own - h[:, None] * self.y) / (1 - h[:, None]), h.mean()


def parts_scores(x, y, judged, gamma, alpha, other, weights=None):
    """The system of part.h for few rows, class by class in the dual. judged [rows x classes] is boolean."""
    weights, gram, cross, scores, own = np.ones(len(x)) if weights is None else weights, x @ x.T, other @ x.T, [], []
    for k in range(y.shape[1]):
        root = np.sqrt(weights * np.where(judged[:, k], 1, alpha))
        dual = root * np.linalg.solve(root[:, None] * gram * root + gamma * np.eye(len(x)), np.sqrt(weights) * y[:, k] * judged[:, k])
        scores.append(cross @ dual)
        own.append(gram @ dual)
    return np.stack(scores, 1), np.stack(own, 1)


# ---- measures -------------------------------------------------------------------------------------------------------------------------

def means(scores, y):
    return (scores * y).sum(0) / np.maximum(y.sum(0), 1)


def average_precision(scores, y):
    hits = np.take_along_axis(y, np.argsort(-scores, 0, "stable"), 0)
    ranks = np.arange(1, len(y) + 1)[:, None]
    return 100 * np.mean((hits * hits.cumsum(0) / ranks).sum(0) / np.maximum(y.sum(0), 1))


def best_f1(scores, y):
    """With the best threshold of every class on these very rows: an upper bound."""
    hits = np.take_along_axis(y, np.argsort(-scores, 0, "stable"), 0).cumsum(0)
    return 100 * np.mean((2 * hits / (np.arange(1, len(y) + 1)[:, None] + y.sum(0))).max(0))


def precision_recall(scores, thresholds, y):
    """Precision, recall and F1 in per cent, means over the classes. A class that is never tagged has precision 0."""
    tagged = scores > thresholds
    right = (tagged * y).sum(0)
    p, r = right / np.maximum(tagged.sum(0), 1), right / np.maximum(y.sum(0), 1)
    return 100 * np.array([p.mean(), r.mean(), (2 * p * r / np.maximum(p + r, 1e-9)).mean()])


def span(values, digits=1):
    values = np.asarray(values)
    return f"{values.mean():.{digits}f} ({values.min():.{digits}f} to {values.max():.{digits}f})"


def line(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def head(*cells):
    print()
    line(*cells)
    print("|---|" + "---:|" * (len(cells) - 1))


# ---- tables ---------------------------------------------------------------------------------------------------------------------------

def cases(given, which):
    """(label, cases) of each scenario."""
    draws = given.draws
    if given.voc:
        for kind, k, counts in (("named", 5, (2, 5, 15, 50)), ("random", 2, (5, 15, 50)), ("random", 5, (5, 15, 50)), ("random", 20, (5, 15, 50))):
            for n in counts:
                if which == "all" or (kind, n) in (("named", 15), ("random", 15)) and k == 5:
                    yield f"VOC, {kind} {k} × {n}", [Case(given.voc, kind, k, n, 100 + s) for s in range(draws)]
    if given.coco:
        held = np.zeros(len(given.coco.y), bool)
        held[np.random.default_rng(1).choice(len(held), 8000, replace=False)] = True
        for k, counts in (2, (5, 15, 50, 200, 1000)), (5, (5, 15, 50, 200, 1000)), (20, (5, 15, 50, 200, 1000)), (80, (5, 15, 50, 200, 10 ** 6)):
            for n in counts:
                if which == "all" and (k * n <= 1000 or given.large) or (k, n) == (5, 15):
                    yield f"COCO, {k} × {n if n < 10 ** 6 else 'all'}", [Case(given.coco, "random", k, n, 100 + s, held) for s in range(1 if n > 10 ** 5 else draws)]


def solved(case, dim):
    return Ridge(case.data.rows(case.taught, dim), case.y, case.measured_on.rows(case.rest, dim))


def table_gamma(given):
    """Loss of mAP against the best γ of the grid, by log10 of γ/m; GCV and leave-one-out error as choosers; the rule."""
    head("loss of mAP", "N", "best", *STEPS, "GCV", "leave one out", "rule", "F1 at rule", "best F1 of all γ")
    for label, drawn in cases(given, "all"):
        table = []
        for case in drawn:
            ridge, row, f1, gcv, press = solved(case, given.dim), [], [], [], []
            count = case.y.sum(0)
            chosen = gamma_rule(ridge.m, len(case.y), len(count))
            for gamma in [*ridge.m * 10 ** STEPS, chosen]:
                own, other, left_out, h = ridge.solve(gamma)
                row.append(average_precision(other, case.rest_y))
                f1.append(precision_recall(other, threshold_rule(means(own, case.y), count), case.rest_y)[2])
                gcv.append(((case.y - own) ** 2).sum() / (1 - h) ** 2)
                press.append(((case.y - left_out) ** 2).sum())
            best = max(row[:-1])
            table.append([best, *(best - np.array(row[:-1])), best - row[np.argmin(gcv[:-1])], best - row[np.argmin(press[:-1])], best - row[-1], f1[-1], max(f1)])
        line(label, len(drawn[0].taught), *(f"{v:.2f}" for v in np.mean(table, 0)))


def table_thresholds(given):
    """Precision / recall / F1 of rules, γ by rule."""
    rules = {"2/3 in": lambda own, out, h, n: own * 2 / 3,
             "0.76 of the mean of both": lambda own, out, h, n: 0.38 * (own + out),
             "the same, mean leverage": lambda own, out, h, n: 0.38 * (own + (own - h) / (1 - h)),
             **{f"{s} n/(n+1)": lambda own, out, h, n, s=s: s * own * n / (n + 1) for s in (0.72, 0.76, 0.8)}}
    head("P / R / F1", *rules, "best threshold of each class: F1", "best F1 on left-out scores: P / R / F1")
    total = []
    for label, drawn in cases(given, "all"):
        table, bound, fitted = [], [], []
        for case in drawn:
            ridge, count = solved(case, given.dim), case.y.sum(0)
            own, other, left_out, h = ridge.solve(gamma_rule(ridge.m, len(case.y), len(count)))
            table.append([precision_recall(other, rule(means(own, case.y), means(left_out, case.y), h, count), case.rest_y) for rule in rules.values()])
            bound.append(best_f1(other, case.rest_y))
            fitted.append(precision_recall(other, fit_on(left_out, case.y), case.rest_y))
        table = np.mean(table, 0)
        total.append([np.mean(bound) - np.append(table[:, 2], np.mean(fitted, 0)[2])])
        line(label, *(" / ".join(f"{v:.1f}" for v in row) for row in table), f"{np.mean(bound):.1f}", " / ".join(f"{v:.1f}" for v in np.mean(fitted, 0)))
    total = np.mean(total, 0)[0]
    line("mean loss of F1", *(f"{v:.2f}" for v in total[:-1]), "", f"{total[-1]:.2f}")


def fit_on(scores, y):
    """The threshold of each class with the best F1 on these rows."""
    order = np.argsort(-scores, 0, "stable")
    ordered, hits = np.take_along_axis(scores, order, 0), np.take_along_axis(y, order, 0).cumsum(0)
    at = (2 * hits / (np.arange(1, len(y) + 1)[:, None] + y.sum(0))).argmax(0)
    low = np.minimum(at + 1, len(y) - 1)
    columns = np.arange(y.shape[1])
    return (ordered[at, columns] + ordered[low, columns]) / 2


def table_width(given):
    """mAP and F1 by width, γ and thresholds by rule."""
    wide = [512, 1024, 2048, 4096]
    head("mAP, F1", "N", *(f"d = {d}" for d in wide))
    for label, drawn in cases(given, "all"):
        row = []
        for dim in wide:
            cell = []
            for case in drawn:
                ridge, count = solved(case, dim), case.y.sum(0)
                own, other, _, _ = ridge.solve(gamma_rule(ridge.m, len(case.y), len(count)))
                cell.append([average_precision(other, case.rest_y), precision_recall(other, threshold_rule(means(own, case.y), count), case.rest_y)[2]])
            row.append("{:.2f}, {:.1f}".format(*np.mean(cell, 0)))
        line(label, len(drawn[0].taught), *row)


def nested(case):
    """Judged sets if the classes are taught one after another, each picture judged for the classes known by then."""
    first = np.concatenate([[np.flatnonzero(row)[0]] for row in case.y])  # the lesson it is in; labels of later classes are not given then
    return np.arange(case.y.shape[1]) <= first[:, None]


def teach(x, y, other, judged=None, alpha=0.3, gamma=gamma_rule, rule=threshold_rule):
    """Scores of other rows and thresholds."""
    judged = np.ones(y.shape, bool) if judged is None else judged
    y = y * judged
    scores, own = parts_scores(x, y, judged, gamma((x ** 2).sum() / len(x), *y.shape), alpha, other)
    return scores, rule(means(own, y), y.sum(0))


def table_benchmark(given):
    """The benchmark of `teach`: 5 × 15, then corrections."""
    old = {"gamma": lambda m, n, k: 0.1 * m, "rule": lambda mean, n: mean * 2 / 3}
    measured = given.test or given.voc
    head("P, R", "rules of 0.2, at once", "at once", "one class after another", "before 20 corrections", "after", "20 at random instead")
    for kind in "named", "random":
        table = []
        for s in range(given.draws):
            case = Case(given.voc, kind, 5, 15, s)
            left = np.ones(len(measured.y), bool)
            left[case.taught] = given.test is not None
            case.measured(measured, left)
            x, y, other = given.voc.rows(case.taught, given.dim), case.y, measured.rows(case.rest, given.dim)
            row = [precision_recall(*teach(x, y, other, **old), case.rest_y)]
            row.append(precision_recall(*teach(x, y, other), case.rest_y))
            row.append(precision_recall(*teach(x, y, other, nested(case)), case.rest_y))
            row += corrected(case, x, y, other)
            table.append(np.array(row)[:, :2])
        table = np.array(table)
        line(f"{kind} five", *(f"{span(table[:, j, 0])}, {span(table[:, j, 1])}" for j in range(table.shape[1])))


def corrected(case, x, y, other):
    """Half of the pictures are looked at; 20 of their wrong tags are corrected; the other half is measured, before and after. For comparison, 20
    pictures taken at random."""
    scores, thresholds = teach(x, y, other)
    order = case.rng.permutation(len(other))
    looked, rest = order[:len(order) // 2], order[len(order) // 2:]
    wrong = [i for i in looked if ((scores[i] > thresholds) & (case.rest_y[i] == 0)).any()][:20]
    out = [precision_recall(scores[rest], thresholds, case.rest_y[rest])]
    for more in wrong, looked[:20]:
        again, thresholds = teach(np.vstack([x, other[more]]), np.vstack([y, case.rest_y[more]]), other[rest])
        out.append(precision_recall(again, thresholds, case.rest_y[rest]))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voc", type=Data)
    parser.add_argument("--coco", type=Data)
    parser.add_argument("--test", type=Data)
    parser.add_argument("--tables", default="benchmark")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args()
    for name in given.tables.split(","):
        globals()[f"table_{name}"](given)


if __name__ == "__main__":
    main()
