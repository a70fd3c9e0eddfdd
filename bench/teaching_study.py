#!/usr/bin/python3
"""The tables of docs/teaching.md: how the defaults of `l3a teach` were chosen, on training images only.

  bench/teaching_study.py --voc TRAINVAL --coco TRAIN [--test TEST] [--tables LIST] [--draws 5] [--dim 2048] [--large]

TRAINVAL, TRAIN and TEST are feature files (`l3a extract`). The tables are gamma, thresholds, width, negatives, parts, unlabelled, expect, background,
single, limits and benchmark. --test is used by `benchmark` and `expect` alone: its pictures are tagged instead of those of TRAINVAL that were not taught. --large adds
the cases of COCO with more than 1,000 taught pictures, one draw each, which take minutes.

A *case* is a draw of K classes with n taught pictures each, labels complete for the K classes. It is measured on pictures that were not taught, half
of which show none of the K classes (the *background*). x is a row of the random layer and the features, A = Σ x xᵀ, C = Σ x yᵀ, m = tr(A)/N,
W = (A + γI)⁻¹C."""
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


def threshold_rule(mean, count, images, fall=0.3, ease=50):
    """The threshold of a class from the mean score of its own taught pictures, how many they are, and how many pictures were taught in all. The more
    of them show none of the classes, the lower other pictures score, and the lower the threshold may be."""
    none = max(0, images - count.sum())
    return (0.76 - fall * none / (images + ease)) * mean * count / (count + 1)


def guesses(left_out, thresholds, y, tagged):
    """The share of background pictures that get each tag, guessed in three ways. From how close others come: the mean of the share of the pictures of
    other classes above 3/4 T, and of a quarter, spread evenly over the classes. From the classes that were left out (`tagged`). The mean of both."""
    some = y.sum(1, keepdims=True) > 0
    near = ((some - y) * (left_out > 0.75 * thresholds)).sum(0) / np.maximum(some.sum() - y.sum(0), 1)
    near = (near + 0.25 / y.shape[1]) / 2
    tagged = np.where(np.isnan(tagged), near, tagged)
    return near, tagged, (near + tagged) / 2


def expectation(left_out, thresholds, y, background, guess):
    """What `teach` prints: recall and precision of each class, if this share of the pictures is background. Of the taught pictures it knows what they
    would score in a model without them. A picture of the class is found above T (n-1)/n, since without it the class has only n-1 pictures. A
    picture of another class is a false alarm above T. If background was taught, the guess of what happens to it counts as 20 such pictures."""
    n, some = y.sum(0), y.sum(1, keepdims=True) > 0
    found, alarms = (y * (left_out > thresholds * (n - 1) / n)).sum(0), ((some - y) * (left_out > thresholds)).sum(0)
    guess = (20 * guess + (~some * (left_out > thresholds)).sum(0)) / (20 + (~some).sum())
    return found / n, found / np.maximum(found + alarms + guess * some.sum() * background / (1 - background), 1e-9)


def left_out_classes(gram, y, gamma):
    """Of the pictures of a class that show no other, the share that a model which was never taught it tags with each other class: the mean over the
    classes that are left out. gram is x xᵀ of the taught pictures."""
    out = np.full((y.shape[1], y.shape[1]), np.nan)
    for j in range(y.shape[1]):
        gone, others = y[:, j] > 0, np.arange(y.shape[1]) != j
        alone = gone & (y.sum(1) == 1)
        if alone.any() and y.shape[1] > 2:  # with one class left, far more would be tagged
            inner, rest = gram[np.ix_(~gone, ~gone)], y[~gone][:, others]
            dual, n = np.linalg.solve(inner + gamma * np.eye(len(inner)), rest), rest.sum(0)
            tagged = (gram[np.ix_(alone, ~gone)] @ dual > threshold_rule(means(inner @ dual, rest), n, len(rest))).mean(0)
            out[j, others] = np.where(n > 0, tagged, np.nan)
    known = (~np.isnan(out)).sum(0)
    return np.where(known, np.nansum(out, 0) / np.maximum(known, 1), np.nan)


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
        self.taught, self.lesson = self.draw(free, count)
        self.y = labels[self.taught][:, self.classes]
        left = (free if held is None else held).copy()
        self.held = np.flatnonzero(held) if held is not None else np.zeros(0, int)
        left[self.taught] = False
        self.measured(data, left, cap)

    def draw(self, free, count):
        """count pictures for each class (or a count per class), class after class in random order; a picture drawn for one class is not drawn again.
        Also the order: lesson[i] is the number of classes that were drawn before that of picture i, rank[k] that of class k."""
        taken, out, lesson = ~free, [], []
        counts, self.rank = np.broadcast_to(count, len(self.classes)), self.rng.permutation(len(self.classes))
        for at, k in enumerate(np.argsort(self.rank)):
            found = np.flatnonzero((self.data.y[:, self.classes[k]] > 0) & ~taken)
            found = self.rng.choice(found, min(counts[k], len(found)), replace=False)
            taken[found] = True
            out.append(found)
            lesson.append(np.full(len(found), at))
        return np.concatenate(out), np.concatenate(lesson)

    def measured(self, data, left, cap=3000):
        shown = data.y[:, self.classes].sum(1) > 0
        known, none = np.flatnonzero(left & shown), np.flatnonzero(left & ~shown)
        size = min(len(known), cap, len(none) if len(none) > 100 else cap)
        self.known, self.none = self.rng.choice(known, size, replace=False), self.rng.choice(none, min(size, len(none)), replace=False)
        self.rest = np.concatenate([self.known, self.none])
        self.rest_y, self.measured_on = data.y[self.rest][:, self.classes], data


# ---- the solution ---------------------------------------------------------------------------------------------------------------------

class Ridge:
    """(A + γI)⁻¹C for any γ, from the eigenvalues of A, or of x xᵀ where that is smaller."""

    def __init__(self, x, y, other):
        self.m, self.y, dual = (x ** 2).sum() / len(x), y, len(x) < x.shape[1]
        values, vectors = np.linalg.eigh(x @ x.T if dual else x.T @ x)
        keep = values > 1e-10 * values[-1]
        self.values, vectors = values[keep], vectors[:, keep]
        roots = np.sqrt(self.values)
        self.x, self.other = (vectors * roots, other @ x.T @ vectors / roots) if dual else (x @ vectors, other @ vectors)  # in the basis of the eigenvectors

    def solve(self, gamma):
        """Scores of the taught rows, of the others, and of the taught rows when left out; the mean leverage."""
        solution = self.x.T @ self.y / (self.values + gamma)[:, None]
        own, h = self.x @ solution, self.x ** 2 @ (1 / (self.values + gamma))
        return own, self.other @ solution, (own - h[:, None] * self.y) / (1 - h[:, None]), h.mean()


def parts_scores(x, y, judged, gamma, alpha, other, weights):
    """The system of part.h for few rows, in the dual. judged [rows x classes] is boolean."""
    gram, cross, dual, patterns = x @ x.T, other @ x.T, np.zeros(y.shape), judged.T
    for pattern in np.unique(patterns, axis=0):
        same = (patterns == pattern).all(1)
        root = np.sqrt(weights * np.where(pattern, 1, alpha))
        target = np.sqrt(weights)[:, None] * y[:, same] * pattern[:, None]
        dual[:, same] = root[:, None] * np.linalg.solve(root[:, None] * gram * root + gamma * np.eye(len(x)), target)
    return cross @ dual, gram @ dual


def teach(x, y, other, judged=None, alpha=0.3, lift=0.0, weights=None, gamma=gamma_rule, rule=threshold_rule):
    """Scores of other rows and thresholds. lift is λ of part.h, already for the number of parts."""
    judged, weights = np.ones(y.shape, bool) if judged is None else judged, np.ones(len(x)) if weights is None else weights
    y = y * judged
    scores, own = parts_scores(x, y, judged, gamma((weights[:, None] * x ** 2).sum() / len(x), *y.shape), alpha, other, weights)
    y = y * weights[:, None]
    thresholds = rule(means(own, y), (y > 0).sum(0), len(x)) + lift * means(np.repeat(own.sum(1)[:, None], y.shape[1], 1), y)
    return scores + lift * scores.sum(1, keepdims=True), thresholds


def known_so_far(case):
    """Judged sets if the classes are taught one after another, each picture judged for the classes known by then."""
    return case.rank <= case.lesson[:, None]


def own_alone(case):
    """Judged sets if each picture is judged for the class it was drawn for, and for no other."""
    return case.rank == case.lesson[:, None]


def square_root(y):
    """Class weights f^(-1/2), normalised to a mean of 1, and of an image the mean over its classes."""
    v = 1 / np.sqrt(np.maximum(y.sum(0), 1))
    return (y * v / v.mean()).sum(1) / y.sum(1)


# ---- measures -------------------------------------------------------------------------------------------------------------------------

def means(scores, y):
    return (scores * y).sum(0) / np.maximum(y.sum(0), 1e-9)


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


def slashed(values, digits=1):
    return " / ".join(f"{v:.{digits}f}" for v in values)


# ---- tables ---------------------------------------------------------------------------------------------------------------------------

FEW = (("VOC", "named", 5, 15), ("VOC", "random", 5, 15), ("COCO", "random", 5, 15))
MANY = (*(("VOC", "named", 5, n) for n in (2, 5, 15, 50)), *(("VOC", "random", k, n) for k in (2, 5, 20) for n in (5, 15, 50)),
        *(("COCO", "random", k, n) for k in (2, 5, 20, 80) for n in (5, 15, 50, 200, 1000)))


def cases(given, chosen, hold=False, **extra):
    """(label, cases) of each scenario. 80 classes have at most 250 pictures each. COCO is measured on 8,000 pictures that are never taught, VOC on all
    that were not taught, or on a half that is never taught if hold is set."""
    for source, kind, k, n in chosen:
        data, large = {"VOC": given.voc, "COCO": given.coco}[source], np.sum(n) * (1 if np.ndim(n) else k) > 1000
        if data is None or large and not given.large:
            continue
        held = None
        if source == "COCO" or hold:
            held = np.zeros(len(data.y), bool)
            held[np.random.default_rng(1).choice(len(held), min(8000, len(held) // 2), replace=False)] = True
        n = np.minimum(n, 250) if k == 80 else n
        yield f"{source}, {kind} {k} × {slashed(n, 0) if np.ndim(n) else n}", [Case(data, kind, k, n, 100 + s, held, **extra) for s in range(1 if large else given.draws)]


def solved(case, dim):
    return Ridge(case.data.rows(case.taught, dim), case.y, case.measured_on.rows(case.rest, dim))


def chosen(ridge):
    """Scores of others, left-out scores and thresholds by the rules."""
    own, other, left_out, _ = ridge.solve(gamma_rule(ridge.m, *ridge.y.shape))
    return other, left_out, threshold_rule(means(own, ridge.y), ridge.y.sum(0), len(ridge.y))


def guessed(ridge, left_out, thresholds):
    return guesses(left_out, thresholds, ridge.y, left_out_classes(ridge.x @ ridge.x.T, ridge.y, gamma_rule(ridge.m, *ridge.y.shape)))


def summary(table, cells):
    """Mean and maximum over the scenarios of a data set: table is [(label, values)]."""
    for source in "VOC", "COCO":
        rows = np.array([values for label, values in table if label.startswith(source)])
        if len(rows):
            line(f"{source}: mean, max", *[""] * cells, *(f"{a:.2f}, {b:.2f}" for a, b in zip(np.nanmean(rows, 0), np.nanmax(rows, 0))))


def table_gamma(given):
    """How much mAP is lost against the best γ of a grid of quarter decades. Columns: γ = m times a power of ten; γ chosen by generalised
    cross-validation (GCV); by the leave-one-out error; by the rule. The grid reaches from 10^-1.5 to 10^1.5."""
    shown = STEPS[::2]
    head("mAP lost", "N", "best mAP", *(f"10^{v:g}" for v in shown), "GCV", "leave-one-out", "rule")
    table = []
    for label, drawn in cases(given, MANY):
        rows = []
        for case in drawn:
            ridge, found, gcv, press = solved(case, given.dim), [], [], []
            for gamma in [*ridge.m * 10 ** STEPS, gamma_rule(ridge.m, *case.y.shape)]:
                own, other, left_out, h = ridge.solve(gamma)
                found.append(average_precision(other, case.rest_y))
                gcv.append(((case.y - own) ** 2).sum() / (1 - h) ** 2)
                press.append(((case.y - left_out) ** 2).sum())
            best = max(found[:-1])
            rows.append([best, *(best - np.array(found[:-1:2])), best - found[np.argmin(gcv[:-1])], best - found[np.argmin(press[:-1])], best - found[-1]])
        row = np.mean(rows, 0)
        table.append((label, row[1:]))
        line(label, len(drawn[0].taught), *(f"{v:.2f}" for v in row))
    summary(table, 2)


def table_thresholds(given):
    """How much F1 (mean over the classes, half background) is lost against the best threshold of each class on the measured pictures themselves, γ by
    rule. μ is the mean score of the n taught pictures of a class, μ' the mean of their left-out scores. The last column chooses the threshold
    with the best F1 on left-out scores."""
    rules = {"2/3 μ": lambda own, out, n: own * 2 / 3, "0.38 (μ + μ')": lambda own, out, n: 0.38 * (own + out),
             **{f"{s} μ n/(n+1)": lambda own, out, n, s=s: s * own * n / (n + 1) for s in (0.72, 0.76, 0.8)}}
    head("F1 lost", "best F1", *rules, "fitted", "rule: P / R", "fitted: P / R")
    table = []
    for label, drawn in cases(given, MANY):
        rows = []
        for case in drawn:
            ridge, count = solved(case, given.dim), case.y.sum(0)
            own, other, left_out, _ = ridge.solve(gamma_rule(ridge.m, *case.y.shape))
            found = [precision_recall(other, rule(means(own, case.y), means(left_out, case.y), count), case.rest_y) for rule in rules.values()]
            found.append(precision_recall(other, fit_on(left_out, case.y), case.rest_y))
            best = best_f1(other, case.rest_y)
            rows.append([best, *(best - np.array(found)[:, 2]), *found[3][:2], *found[-1][:2]])
        row = np.mean(rows, 0)
        table.append((label, row[1:-4]))
        line(label, f"{row[0]:.1f}", *(f"{v:.2f}" for v in row[1:-4]), slashed(row[-4:-2]), slashed(row[-2:]))
    summary(table, 1)


def fit_on(scores, y):
    """The threshold of each class with the best F1 on these rows."""
    order = np.argsort(-scores, 0, "stable")
    ordered, hits = np.take_along_axis(scores, order, 0), np.take_along_axis(y, order, 0).cumsum(0)
    at = (2 * hits / (np.arange(1, len(y) + 1)[:, None] + y.sum(0))).argmax(0)
    low = np.minimum(at + 1, len(y) - 1)
    columns = np.arange(y.shape[1])
    return (ordered[at, columns] + ordered[low, columns]) / 2


def table_width(given):
    """mAP / F1 by the width d of the random layer, γ and thresholds by rule."""
    wide = [512, 1024, 2048, 4096]
    head("mAP / F1", "N", *(f"d = {d}" for d in wide))
    for label, drawn in cases(given, MANY):
        row = []
        for dim in wide:
            found = []
            for case in drawn:
                other, _, thresholds = chosen(solved(case, dim))
                found.append([average_precision(other, case.rest_y), precision_recall(other, thresholds, case.rest_y)[2]])
            row.append(slashed(np.mean(found, 0)))
        line(label, len(drawn[0].taught), *row)


def measured(case, scores, thresholds):
    """mAP, P, R, F1"""
    return [average_precision(scores, case.rest_y), *precision_recall(scores, thresholds, case.rest_y)]


def by_way(labels, ways, columns):
    """One row for each way to teach, one column for each scenario: columns is [(label, [[values of a way] of a draw])]."""
    columns = [(label, np.mean(rows, 0)) for label, rows in columns]
    head(labels, *(label for label, _ in columns))
    for at, way in enumerate(ways):
        line(way, *(slashed(values[at]) for _, values in columns))


def table_parts(given):
    """mAP / P / R / F1 if the classes are taught one after another. Nested: each picture is judged for the classes known by then. Own class: it is judged
    for the class it was drawn for alone. The lift is that of 0.1 with as many parts as classes. sqrt weighs classes by f^(-1/2)."""
    alphas, columns = (0.1, 0.3, 1), []
    uneven = (5, 10, 15, 25, 50)
    for label, drawn in cases(given, (*FEW, *((a, b, 5, uneven) for a, b, _, _ in FEW), ("VOC", "random", 20, 15), ("COCO", "random", 20, 15))):
        rows = []
        for case in drawn:
            x, other, k = case.data.rows(case.taught, given.dim), case.measured_on.rows(case.rest, given.dim), case.y.shape[1]
            lift, nested, own = 0.1 * (k - 1) / (k + 8), known_so_far(case), own_alone(case)
            ways = {"all at once": {}, "all at once, sqrt": {"weights": square_root(case.y)},
                    **{f"nested, α = {a}": {"judged": nested, "alpha": a} for a in alphas},
                    "nested, α = 0.3, lift": {"judged": nested, "lift": lift}, "nested, α = 0.3, sqrt": {"judged": nested, "weights": square_root(case.y * nested)},
                    **{f"own class, α = {a}": {"judged": own, "alpha": a} for a in alphas},
                    **{f"own class, α = {a}, lift": {"judged": own, "alpha": a, "lift": lift} for a in alphas[1:]}}
            rows.append([measured(case, *teach(x, case.y, other, **way)) for way in ways.values()])
        columns.append((label, rows))
    by_way("mAP / P / R / F1", ways, columns)


def table_unlabelled(given):
    """mAP / P / R / F1 if u pictures that were judged for nothing are taught too, a part with an empty judged set. They are drawn at random from all
    pictures, so some of them show the classes."""
    ways, columns = [(0, 0.3), *((u, a) for a in (0.1, 0.3, 1) for u in (75, 300, 1000))], []
    for label, drawn in cases(given, FEW, spare=1000):
        rows = []
        for case in drawn:
            other, row = case.measured_on.rows(case.rest, given.dim), []
            for u, alpha in ways:
                x, judged = case.data.rows(np.concatenate([case.taught, case.spare[:u]]), given.dim), np.ones((len(case.y) + u, case.y.shape[1]), bool)
                judged[len(case.y):] = False
                row.append(measured(case, *teach(x, np.vstack([case.y, np.zeros((u, case.y.shape[1]))]), other, judged, alpha)))
            rows.append(row)
        columns.append((label, rows))
    by_way("mAP / P / R / F1", [f"u = {u}, α = {a}" if u else "none" for u, a in ways], columns)


def shares(case, other, thresholds, background, frequencies=None):
    """Precision and recall of each class if this share of the measured pictures is background. frequencies: the classes are as frequent among the others as
    these numbers say, instead of as they are; then the pictures are weighted until they are."""
    known = np.ones(len(case.known))
    for _ in range(0 if frequencies is None else 20):
        y = case.rest_y[:len(known)]
        now = (y * known[:, None]).sum(0)
        known = known * np.exp((y * np.log(frequencies / frequencies.sum() * now.sum() / np.maximum(now, 1e-9))).sum(1) / y.sum(1))
    weight = np.concatenate([known / known.mean(), np.full(len(case.none), background / (1 - background) * len(case.known) / max(len(case.none), 1))])
    tagged = (other > thresholds) * weight[:, None]
    right = (tagged * case.rest_y).sum(0)
    return right / np.maximum((case.rest_y * weight[:, None]).sum(0), 1e-9), right / np.maximum(tagged.sum(0), 1e-9)


EXPECTED = (("VOC", "named", 5, 15), *(("VOC", "random", k, n) for k, n in ((5, 5), (5, 15), (5, 50), (2, 15))),
            *(("COCO", "random", k, n) for k, n in ((5, 5), (5, 15), (5, 50), (20, 15))))


def table_expect(given):
    """What `teach` says to expect, against what was measured: means over the classes and the draws. Recall: expected → measured; "plain" compares left-out
    scores with the thresholds as they are. Precision, at half and at 80 % background: what was measured, and how far above it the expectation is (the
    bias): plain; with the share of tagged background guessed from how close others come, from classes that are left out, and from both, which is what
    `teach` prints; and the last, if the classes were as frequent among the measured pictures as among the taught ones. In brackets, the mean distance of a
    single class."""
    ways = "plain", "from others", "from classes left out", "from both", "from both, as frequent as taught"
    head("points", "plain R", "R", *(f"{b} %: {what}" for b in (50, 80) for what in ("P", *ways)))
    table = []
    for label, drawn in cases(given, EXPECTED):
        if given.test and label.startswith("COCO"):
            continue
        rows = []
        for case in drawn:
            if given.test:
                case.measured(given.test, np.ones(len(given.test.y), bool))
            ridge = solved(case, given.dim)
            other, left_out, thresholds = chosen(ridge)
            ways, plain, n = guessed(ridge, left_out, thresholds), precision_recall(left_out, thresholds, case.y), case.y.sum(0)
            row = [plain[1], 100 * expectation(left_out, thresholds, case.y, 0, ways[2])[0].mean(), 100 * shares(case, other, thresholds, 0)[0].mean()]
            for b in 0.5, 0.8:
                truth, taught = (shares(case, other, thresholds, b, as_often)[1] for as_often in (None, n))
                found = [expectation(left_out, thresholds, case.y, b, guess)[1] for guess in ways]
                row += [100 * truth.mean(), plain[0] - 100 * truth.mean(), *(100 * (p - truth).mean() for p in found), 100 * (found[2] - taught).mean(),
                        100 * abs(found[2] - truth).mean()]
            rows.append(row)
        r = np.mean(rows, 0)
        table.append((label, np.concatenate([[r[0] - r[2], r[1] - r[2]], r[4:9], r[11:16]])))
        line(label, f"{r[0]:.1f}", f"{r[1]:.1f} → {r[2]:.1f}", *(cell for at in (3, 10) for cell in (f"{r[at]:.1f}", *(f"{v:+.1f}" for v in r[at + 1:at + 4]),
             f"{r[at + 4]:+.1f} ({r[at + 6]:.1f})", f"{r[at + 5]:+.1f}")))
    bias = np.array([values for _, values in table])
    line("least to largest bias", *(f"{a:+.1f} to {b:+.1f}" for a, b in zip(bias[:, :2].min(0), bias[:, :2].max(0))),
         *(cell for at in (2, 7) for cell in ("", *(f"{a:+.1f} to {b:+.1f}" for a, b in zip(bias[:, at:at + 5].min(0), bias[:, at:at + 5].max(0))))))


def table_background(given):
    """The same if u pictures that show none of the classes are taught too: expected → measured, means over the classes."""
    head("expected → measured", "u", "R", "P, no background", "P, 50 %", "P, 80 %", "a class: R", "a class: P, 50 %")
    for label, drawn in cases(given, (*FEW, ("VOC", "random", 1, 15)), hold=True, spare=600):
        for u in 0, 20, 75, 300:
            rows = []
            for case in drawn:
                ridge = taught_more(case, given.dim, 0, u)
                other, left_out, thresholds = chosen(ridge)
                guess = guessed(ridge, left_out, thresholds)[2]
                pairs = [(expectation(left_out, thresholds, ridge.y, b, guess), shares(case, other, thresholds, b)) for b in (0, 0.5, 0.8)]
                rows.append([[100 * v.mean() for v in (pairs[0][0][0], pairs[0][1][0])], *([100 * e[1].mean(), 100 * r[1].mean()] for e, r in pairs),
                             [100 * abs(pairs[0][0][0] - pairs[0][1][0]).mean(), 100 * abs(pairs[1][0][1] - pairs[1][1][1]).mean()]])
            r = np.mean(rows, 0)
            line(label, u, *(f"{a:.1f} → {b:.1f}" for a, b in r[:4]), *(f"{v:.1f}" for v in r[4]))


def table_single(given):
    """One class taught from n pictures, without anything else; then with 15 pictures that do not show it (`--not`), and with 100 that nobody judged. Scores
    of other pictures are given as a share of the threshold: median / 90 % / 99 %. P and R at half background, and the share of other
    pictures that are tagged."""
    head("one class", "others' scores", "AP / P / R", "others tagged", "AP / P / R with 15 not", "others tagged", "AP / P / R with 100 unjudged", "others tagged")
    for label, drawn in cases(given, [(a, "random", 1, n) for a in ("VOC", "COCO") for n in (15, 40)], spare=100):
        rows = []
        for case in drawn:
            other, row = case.measured_on.rows(case.rest, given.dim), []
            absent = np.flatnonzero((case.data.y[:, case.classes[0]] == 0))
            absent = case.rng.choice(np.setdiff1d(absent, case.rest), 15, replace=False)
            for more, known in (absent[:0], True), (absent, True), (case.spare, False):
                x, y = case.data.rows(np.concatenate([case.taught, more]), given.dim), np.vstack([case.y, np.zeros((len(more), 1))])
                judged = np.ones(y.shape, bool)
                judged[len(case.y):] = known
                scores, thresholds = teach(x, y, other, judged)
                none = scores[len(case.known):, 0] / thresholds[0]
                row += [*([] if row else np.quantile(none, [0.5, 0.9, 0.99])), *measured(case, scores, thresholds)[:3], 100 * (none > 1).mean()]
            rows.append(row)
        r = np.mean(rows, 0)
        line(label, slashed(r[:3], 2), *(cell for at in (3, 7, 11) for cell in (slashed(r[at:at + 3]), f"{r[at + 3]:.1f} %")))


def taught_more(case, dim, count, negatives):
    """Scores and thresholds with up to count pictures of each class, and negatives from the spare pictures. Count 0: those of the case."""
    free = np.ones(len(case.data.y), bool)
    free[np.concatenate([case.held, case.spare])] = False
    none = case.spare[case.data.y[case.spare][:, case.classes].sum(1) == 0][:negatives]
    taught = np.concatenate([case.draw(free, count)[0] if count else case.taught, none])
    return Ridge(case.data.rows(taught, dim), case.data.y[taught][:, case.classes], case.measured_on.rows(case.rest, dim))


def table_negatives(given):
    """mAP and F1 if u pictures that show none of the classes are taught too. F1 with thresholds (0.76 - a u/(N + b)) μ n/(n+1) for some a, b, and with the best
    threshold of each class on the measured pictures; precision and recall for a = 0 and for the rule."""
    forms = (0, 0), (0.26, 0), (0.26, 50), (0.3, 50), (0.3, 100)
    head("half background", "u", "mAP", *(f"a = {a}, b = {b}" if a else "a = 0" for a, b in forms), "best F1", "a = 0: P / R", "rule: P / R")
    total = []
    for label, drawn in cases(given, (*FEW, ("VOC", "random", 5, 50), ("VOC", "random", 1, 15), ("COCO", "random", 1, 15)), hold=True, spare=1200):
        for u in 0, 20, 75, 300, 800:
            rows = []
            for case in drawn:
                ridge = taught_more(case, given.dim, 0, u)
                own, other, _, _ = ridge.solve(gamma_rule(ridge.m, *ridge.y.shape))
                found = [precision_recall(other, threshold_rule(means(own, ridge.y), ridge.y.sum(0), len(ridge.y), *form), case.rest_y) for form in forms]
                rows.append([average_precision(other, case.rest_y), *(f[2] for f in found), best_f1(other, case.rest_y), *found[0][:2], *found[3][:2]])
            r = np.mean(rows, 0)
            total.append(r[6] - r[1:6])
            line(label, u, *(f"{v:.1f}" for v in r[:7]), slashed(r[7:9]), slashed(r[9:]))
    line("mean F1 lost", "", "", *(f"{v:.1f}" for v in np.mean(total, 0)), "", "", "")


def table_limits(given):
    """Which errors are left, at half background. Of the wrong tags: on background, on a picture that shows another of the classes. Of the pictures of a
    class that did not get its tag: those that got no tag, those that got another. Then F1: as taught; with the best threshold of each class; with up
    to 50 and up to 200 pictures a class; with up to 400 pictures taught that show none of the classes; with both."""
    head("half background", "P / R", "wrong: background", "wrong: another class", "missed: no tag", "missed: another tag", "F1", "best thresholds", "50 a class",
         "200 a class", "400 negatives", "200 and 400 negatives", "and best thresholds")
    for label, drawn in cases(given, FEW, hold=True, spare=700):
        rows = []
        for case in drawn:
            other, _, thresholds = chosen(solved(case, given.dim))
            tagged, y = other > thresholds, case.rest_y
            wrong, missed = (tagged * (1 - y)).sum(1), ((1 - tagged) * y).sum(1)
            known, any_tag = y.sum(1) > 0, tagged.any(1)
            found = precision_recall(other, thresholds, y)
            row = [*found[:2], *(100 * wrong[at].sum() / max(wrong.sum(), 1) for at in (~known, known)),
                   *(100 * missed[at].sum() / max(missed.sum(), 1) for at in (~any_tag, any_tag)), found[2], best_f1(other, y)]
            for n, negatives in (50, 0), (200, 0), (0, 400), (200, 400):
                scores, _, thresholds = chosen(taught_more(case, given.dim, n, negatives))
                row.append(precision_recall(scores, thresholds, y)[2])
            rows.append([*row, best_f1(scores, y)])
        r = np.mean(rows, 0)
        line(label, slashed(r[:2]), *(f"{v:.0f} %" for v in r[2:6]), *(f"{v:.1f}" for v in r[6:]))


def table_benchmark(given):
    """Precision, recall: mean (range) over the draws. Five classes of 15 pictures each; half of the tagged pictures are background. Then 20 wrong tags
    are corrected (see `corrected`)."""
    old = {"gamma": lambda m, n, k: 0.1 * m, "rule": lambda mean, *_: mean * 2 / 3}
    measured = given.test or given.voc
    head("P, R", "rules of 0.2, at once", "at once", "one class after another", "before 20 corrections", "after", "20 at random instead")
    for kind in "named", "random":
        table = []
        for s in range(given.draws):
            case = Case(given.voc, kind, 5, 15, s)
            left = np.ones(len(measured.y), bool)
            left[case.taught if given.test is None else []] = False
            case.measured(measured, left)
            x, y, other = given.voc.rows(case.taught, given.dim), case.y, measured.rows(case.rest, given.dim)
            row = [precision_recall(*teach(x, y, other, **old), case.rest_y)]
            row.append(precision_recall(*teach(x, y, other), case.rest_y))
            row.append(precision_recall(*teach(x, y, other, known_so_far(case)), case.rest_y))
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
    files = "".join(f" --{name} {stands}" for name, stands in (("voc", "TRAINVAL"), ("coco", "TRAIN"), ("test", "TEST")) if getattr(given, name))
    for name in given.tables.split(","):
        table = globals()[f"table_{name}"]
        print(f"\n## {name}\n\n    bench/teaching_study.py{files} --tables {name} --draws {given.draws} --dim {given.dim}{' --large' if given.large else ''}\n\n{' '.join(table.__doc__.split())}")
        table(given)


if __name__ == "__main__":
    main()
