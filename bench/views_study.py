#!/usr/bin/python3
"""The tables of docs/views.md: how the rules for views were chosen.

  bench/views_study.py --features FOLDER [--tables LIST] [--seeds 2025,2026] [--dim 2048] [--gamma 3000] [--large]

FOLDER holds feature files with 14 views: {voc-trainval, voc-test, coco-train2014, coco-val2014}.safetensors, as bench/views.py makes them. The tables
are thresholds, combine, gamma, width and region. --large adds d = 8192 to `width`: 5 GB and many minutes.

An image with c crops has the rows x_0 of the whole picture and x_1 … x_c of the crops; crops 1 to 5 are the large ones, 6 to 14 those of the 3 x 3
grid. x_0 weighs ω, a crop ω/c. s = (s_0 + λ max s_i)/(1 + λ), λ = 2. x is a row of the random layer and the features. A phase p has the sums
A_p = Σ ω x xᵀ and C_p = Σ ω x yᵀ. *l3a+* solves ((1 - α) A_p + α Σ A + γI) W_p = C_p, α = 0.3, and adds lift (t - 1)/(t + 8) times the sum of a row's
scores, lift = 0.1, after t phases (VOC B0-C4, COCO B0-C10). *joint* learns all classes at once. *The held-out third*: two thirds of the training table
are learned, and the other third is measured, another one for each seed. No test table is read for it."""
import argparse
import functools
from pathlib import Path

import numpy as np

from teaching_study import average_precision, feature_file, head, line, slashed, splitmix

SETS = {"VOC": ("voc-trainval", "voc-test", 4), "COCO": ("coco-train2014", "coco-val2014", 10)}
CROPS = {1: [], 5: list(range(1, 6)), 9: list(range(6, 15)), 14: list(range(1, 15))}
GROUPS = [0], CROPS[5], CROPS[9]  # the sums of these views are kept apart
WEIGHTS = {1: (1, 0, 0), 5: (1, 1 / 5, 0), 9: (1, 0, 1 / 9), 14: (1, 1 / 14, 1 / 14)}
ALPHA, LIFT, SHARE = 0.3, 0.1, 2 / 3  # a threshold is this share of the mean score of the class's own pictures


class Options(argparse.Namespace):
    __hash__ = object.__hash__  # a key of caches


# ---- data -----------------------------------------------------------------------------------------------------------------------------

@functools.lru_cache(None)
def load(folder, name):
    """Features [images, 15, width] and labels [images, classes]."""
    tensors, _ = feature_file.load(Path(folder) / f"{name}.safetensors")
    return tensors["features"].astype(np.float32), tensors["labels"] == 1


def measured(z, y):
    """The pictures that show any class."""
    return z[y.any(1)], y[y.any(1)]


def split(given, name, seed, held):
    """Learned and measured pictures: the two tables of a set, or thirds of the first one."""
    train, test, _ = SETS[name]
    z, y = load(given.features, train)
    if not held:
        return (z, y), measured(*load(given.features, test))
    out = np.random.default_rng(0).permutation(len(z)) % 3 == given.seeds.index(seed) % 3
    return (z[~out], y[~out]), measured(z[out], y[out])


@functools.lru_cache(8)
def random_layer(width, dim, seed):
    return ((2 * splitmix(seed, width * dim) - 1) / np.sqrt(width)).reshape(width, dim).astype(np.float32)


def expand(z, dim, seed, skip=True):
    x = np.maximum(z @ random_layer(z.shape[-1], dim, seed), 0)
    return np.concatenate([x, z], -1) if skip else x


# ---- learning -------------------------------------------------------------------------------------------------------------------------

def class_weights(counts):
    """f^(-1/2), normalised to a mean of 1."""
    v = 1 / np.sqrt(np.maximum(counts, 1))
    return v / v.mean()


def phase_sums(z, y, omega, dim, seed):
    """A and C of each group of views, before they are divided by the number of crops, and Σ ω of each class."""
    size, root = dim + z.shape[2], np.sqrt(omega).astype(np.float32)
    gram, cross = [np.zeros((size, size), np.float32) for _ in GROUPS], [np.zeros((size, y.shape[1])) for _ in GROUPS]
    for g, views in enumerate(GROUPS):
        step = 4096 // len(views)
        for at in range(0, len(z), step):
            r = root[at:at + step, None]
            x = expand(z[at:at + step, views], dim, seed) * r[:, :, None]
            cross[g] += x.sum(1).T @ (y[at:at + step] * r)
            x = x.reshape(-1, size)
            gram[g] += x.T @ x
    return gram, cross, omega @ y


@functools.lru_cache(4)
def learned_sums(given, name, method, seed, dim, held):
    """phase_sums of every phase."""
    (z, y), _ = split(given, name, seed, held)
    step, parts, counts = SETS[name][2] if method == "l3a+" else y.shape[1], [], np.zeros(0)
    for first in range(0, y.shape[1], step):
        own = y[:, first:first + step]
        rows = own.any(1)
        own, counts = own[rows].astype(np.float32), np.append(counts, own.sum(0))
        parts.append(phase_sums(z[rows], own, own @ class_weights(counts)[first:] / own.sum(1), dim, seed))
    return parts


def mix(groups, weights):
    return sum(w * group for w, group in zip(weights, groups) if w)


def solve(parts, views, gamma, type=float):
    """W without the lift, and what the lift multiplies the sum of the scores by."""
    grams, found = [mix(gram, WEIGHTS[views]) for gram, _, _ in parts], []
    total = sum(grams[1:], grams[0])
    for gram, (_, cross, _) in zip(grams, parts):
        system = ((1 - ALPHA) * gram + ALPHA * total).astype(type)
        system[np.diag_indices(len(system))] += gamma
        found.append(np.linalg.solve(system, mix(cross, WEIGHTS[views]).astype(type)))
    return np.hstack(found), LIFT * (len(parts) - 1) / (len(parts) + 8)


def lifted(solution, share):
    return solution + share * solution.sum(1, keepdims=True)


# ---- scoring and measures -------------------------------------------------------------------------------------------------------------

def view_scores(z, solution, dim, seed, views, skip=True):
    """[images, 1 + crops, columns]"""
    solution = solution.astype(np.float32)
    return np.concatenate([expand(z[at:at + 200][:, [0, *CROPS[views]]], dim, seed, skip) @ solution for at in range(0, len(z), 200)])


def combine(scores, share=2.0):
    return scores[:, 0] if scores.shape[1] == 1 else (scores[:, 0] + share * scores[:, 1:].max(1)) / (1 + share)


def f1(scores, y, thresholds):
    """CF1 and OF1."""
    tagged = scores > thresholds
    right, both = (tagged & y).sum(0), tagged.sum(0) + y.sum(0)
    return 100 * np.array([np.mean(2 * right / np.maximum(both, 1)), 2 * right.sum() / max(both.sum(), 1)])


# ---- thresholds -----------------------------------------------------------------------------------------------------------------------

FACTORS, PARTS = np.round(np.arange(0.8, 1.81, 0.05), 2), np.round(np.arange(0.5, 1.01, 0.05), 2)


def factor(crops):
    return 1 + 0.1 * np.log(crops)


def true_means(z, y, solution, share, given, seed, views):
    """Of each class, the mean combined score of its learned pictures: its own part and the lift's. The crop is the one with the highest sum of both."""
    own = view_scores(z, solution, given.dim, seed, views)
    lift = np.repeat(share * own.sum(2, keepdims=True), own.shape[2], 2)
    best = 1 + (own + lift)[:, 1:].argmax(1)[:, None]
    combined = ((s[:, 0] + 2 * np.take_along_axis(s, best, 1)[:, 0]) / 3 for s in (own, lift))
    return [(s * y).sum(0) / y.sum(0) for s in combined]


def threshold_rules(given, name, seed, views):
    """{rule: {constant: (CF1, OF1)}}"""
    learned, (z, y) = split(given, name, seed, True)
    parts = learned_sums(given, name, "l3a+", seed, given.dim, True)
    solution, share = solve(parts, views, given.gamma)
    total = share * solution.sum(1, keepdims=True)
    own, lift = [], []  # of the whole picture, and of the mean crop
    for weights in (1, 0, 0), (0, *WEIGHTS[views][1:]):
        centre = np.hstack([mix(cross, weights) / weight for _, cross, weight in parts])
        own.append((centre * solution).sum(0))
        lift.append((centre * total).sum(0))
    mean = SHARE * sum(own) / 2 + sum(lift) / 2
    true, true_lift = true_means(*learned, solution, share, given, seed, views)
    s = combine(view_scores(z, lifted(solution, share), given.dim, seed, views))
    return {"φ = 1": {1: f1(s, y, mean)}, "φ = 1 + 0.1 ln c": {factor(views): f1(s, y, factor(views) * mean)},
            "best φ": {v: f1(s, y, v * mean) for v in FACTORS},
            "m₀ and m₁ apart, best κ": {v: f1(s, y, SHARE * (own[0] + 2 * v * own[1]) / 3 + (lift[0] + 2 * v * lift[1]) / 3) for v in FACTORS},
            "true mean, best share": {v: f1(s, y, v * true + true_lift) for v in PARTS}}


def table_thresholds(given):
    """CF1 / OF1 of l3a+ on the held-out third, mean over the seeds. m₀ is the mean score that a class's learned pictures have as a whole, m₁ that of
    their mean crop, both known from C and W; m̄ = (m₀ + m₁)/2. T = φ · (2/3 of m̄, and all of its lift); or 2/3 (m₀ + 2κ m₁)/3 and its lift; or a share of the
    true mean of the combined scores, and its lift, which no sum tells. A best constant is the one that loses least CF1 + OF1 on both sets together."""
    found = {(name, views): [] for name in SETS for views in (5, 9, 14)}
    for name in SETS:
        for seed in given.seeds:
            for views in 5, 9, 14:
                found[name, views].append(threshold_rules(given, name, seed, views))
    head("rule", "constant for 5 / 9 / 14", *(f"{name} {views}" for name, views in found))
    for rule in found["VOC", 5][0]:
        best, cells = {}, {}
        for views in 5, 9, 14:
            table = np.array([np.mean([list(r[rule].values()) for r in found[name, views]], 0) for name in SETS])  # [sets, constants, 2]
            at = (table.max(1, keepdims=True) - table).sum((0, 2)).argmin()
            best[views] = list(found["VOC", views][0][rule])[at]
            cells.update({(name, views): slashed(row[at], 2) for name, row in zip(SETS, table)})
        line(rule, slashed(best.values(), 2), *(cells[key] for key in found))


# ---- the other tables -----------------------------------------------------------------------------------------------------------------

def combinations(scores):
    """Ways to combine the scores of the whole picture and of the crops."""
    whole, crops = scores[:, 0], scores[:, 1:]
    top, two = crops.max(1), np.partition(crops, -2, 1)[:, -2:].mean(1)
    for share in 2, 0.5, 1, 1.5, 3, 4, 8:
        yield f"maximum, λ = {share}", (whole + share * top) / (1 + share)
    for heat in 0.02, 0.05, 0.1, 0.2, 0.4:
        e = np.exp((crops - top[:, None]) / heat)
        yield f"softmax, temperature {heat}, λ = 2", (whole + 2 * (crops * e).sum(1) / e.sum(1)) / 3
    yield "mean of the best two, λ = 2", (whole + 2 * two) / 3
    yield "mean, λ = 2", (whole + 2 * crops.mean(1)) / 3
    yield "maximum of all views", scores.max(1)


def table_combine(given):
    """Ways to combine the scores of an image's views: mAP of l3a+ on the held-out third, minus that of the maximum with λ = 2. Mean over the seeds."""
    columns = {}
    for name in SETS:
        for seed in given.seeds:
            _, (z, y) = split(given, name, seed, True)
            parts = learned_sums(given, name, "l3a+", seed, given.dim, True)
            for views in 5, 9, 14:
                s = view_scores(z, lifted(*solve(parts, views, given.gamma)), given.dim, seed, views)
                columns.setdefault((name, views), []).append({way: average_precision(c, y) for way, c in combinations(s)})
    head("", *(f"{name} {views}" for name, views in columns))
    means = [{way: np.mean([f[way] for f in found]) for way in found[0]} for found in columns.values()]
    for at, way in enumerate(means[0]):
        line(way, *(f"{m[way] - m['maximum, λ = 2']:+.2f}" if at else f"{m[way]:.2f}" for m in means))


@functools.lru_cache(None)
def left_out_gamma(given, name, seed, views, rows):
    """γ with the least error when all rows of an image are left out at once, for images of the first phase that have at most this many rows."""
    z, y = load(given.features, SETS[name][0])
    y = y[:, :SETS[name][2]]
    z, y = measured(z, y)
    weights, keep = class_weights(y.sum(0)), [0, *CROPS[views]]
    count = min(len(z), rows // len(keep))
    sample = np.arange(count) * len(z) // count
    z, y = z[sample][:, keep], y[sample].astype(float)
    root = np.sqrt((y @ weights / y.sum(1))[:, None] * np.append(1, np.full(len(keep) - 1, 1 / views)))[:, :, None]
    x = (expand(z, given.dim, seed) * root).reshape(count * len(keep), -1).astype(float)
    gram, target, steps, errors = x @ x.T, (y[:, None] * root).reshape(len(x), -1), np.arange(2, 5, 0.5), []
    for gamma in 10 ** steps:
        inverse = np.linalg.inv(gram + gamma * np.eye(len(x)))
        blocks = inverse.reshape(count, len(keep), count, len(keep))[np.arange(count), :, np.arange(count)]
        errors.append((np.linalg.solve(blocks, (inverse @ target).reshape(count, len(keep), -1)) ** 2).sum())
    at = min(max(int(np.argmin(errors)), 1), len(steps) - 2)
    a, b, _ = np.polyfit(steps[at - 1:at + 2], errors[at - 1:at + 2], 2)
    return 10 ** np.clip(-b / (2 * a), steps[at - 1], steps[at + 1])


def table_gamma(given):
    """Last mAP of l3a+ on the test table over γ. Then γ as the leave-one-out error of training images chooses it, and its mAP: from the rows of whole
    pictures alone, at most 2,048; and from all rows of as many images as have 4,096 rows, all rows of an image left out at once. Mean over the seeds."""
    grid = [316, 1000, 3162, 10000, 31623]
    head("views", *(f"{g:,}" for g in grid), "whole pictures choose", "mAP", "all rows choose", "mAP")
    for name in SETS:
        for views in 1, 5, 14:
            found, chosen = [], []
            for seed in given.seeds:
                _, (z, y) = split(given, name, seed, False)
                parts = learned_sums(given, name, "l3a+", seed, given.dim, False)
                chosen.append([left_out_gamma(given, name, seed, 1, 2048)])
                chosen[-1] += [left_out_gamma(given, name, seed, views, 4096)] if views > 1 else chosen[-1]
                solutions = [lifted(*solve(parts, views, g)) for g in [*grid, *chosen[-1]]]
                s = combine(view_scores(z, np.hstack(solutions), given.dim, seed, views))
                found.append([average_precision(own, y) for own in np.split(s, len(solutions), 1)])
            *maps, whole, every = np.mean(found, 0)
            shown = [", ".join(f"{c:,.0f}" for c in column) for column in zip(*chosen)]
            line(f"{name} {views}", *(f"{v:.2f}" for v in maps), shown[0], f"{whole:.2f}", shown[1], f"{every:.2f}")


def table_width(given):
    """mAP of joint on the test table by the width d of the random layer, with 1 and 14 views in learning and scoring. Mean over the seeds. d = 8192 is
    solved in float32."""
    head("d", *(f"{name} {views}" for name in SETS for views in (1, 14)))
    for dim in (1024, 2048, 4096, *[8192] * given.large):
        cells = []
        for name in SETS:
            found = []
            for seed in given.seeds:
                _, (z, y) = split(given, name, seed, False)
                parts = learned_sums(given, name, "joint", seed, dim, False)
                found.append([average_precision(combine(view_scores(z, solve(parts, views, given.gamma, float if dim < 8192 else np.float32)[0], dim, seed, views)), y)
                              for views in (1, 14)])
            cells += [f"{v:.2f}" for v in np.mean(found, 0)]
        line(dim, *cells)


def inside():
    """[5 large crops, 9 of the grid]: how much of a grid crop lies in a large one."""
    large, grid = np.array([(0, 0), (0.4, 0), (0, 0.4), (0.4, 0.4), (0.2, 0.2)])[:, None], np.array([(0.275 * (i % 3), 0.275 * (i // 3)) for i in range(9)])
    return np.prod(np.maximum(np.minimum(large + 0.6, grid + 0.45) - np.maximum(large, grid), 0), 2) / 0.45 ** 2


def grid_choices(scores, rng):
    """Which of the grid crops are looked at, [images, 9], once the whole picture and the large crops have been scored."""
    count, near = len(scores), inside()[scores[:, 1:6].max(2).argmax(1)]
    yield "no grid crops (5 views)", np.zeros((count, 9), bool)
    for least, what in (0.99, "inside"), (0.5, "at least half inside"):
        chosen = near > least
        yield f"grid crops {what} the best large crop", chosen
        yield "as many at random", rng.random((count, 9)).argsort(1) < chosen.sum(1)[:, None]
    best = scores[:, :6].max((1, 2))
    for share in 0.25, 0.5, 0.75:
        yield f"all for the {100 * share:.0f} % of the pictures that score lowest", np.repeat((best <= np.quantile(best, share))[:, None], 9, 1)
        yield "all for as many pictures at random", np.repeat((rng.permutation(count) < share * count)[:, None], 9, 1)
    yield "all (14 views)", np.ones((count, 9), bool)


def table_region(given):
    """Crops of the grid only where they promise something: l3a+ learned with 14 views, test table. The whole picture and the five large crops are always
    looked at. The best large crop is the one with the highest score of any class. mAP and rows of an image, mean over the seeds."""
    found = {}
    for name in SETS:
        for seed in given.seeds:
            _, (z, y) = split(given, name, seed, False)
            parts = learned_sums(given, name, "l3a+", seed, given.dim, False)
            s = view_scores(z, lifted(*solve(parts, 14, given.gamma)), given.dim, seed, 14)
            for at, (way, chosen) in enumerate(grid_choices(s, np.random.default_rng(seed))):
                seen = np.concatenate([s[:, :6], np.where(chosen[:, :, None], s[:, 6:], -np.inf)], 1)
                found.setdefault((at, way), {}).setdefault(name, []).append((average_precision(combine(seen), y), 6 + chosen.sum(1).mean()))
    head("grid crops", *(f"{name} {what}" for name in SETS for what in ("mAP", "rows")))
    for (_, way), sets in found.items():
        line(way, *(f"{v:.{digits}f}" for name in SETS for v, digits in zip(np.mean(sets[name], 0), (2, 1))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", required=True)
    parser.add_argument("--tables", default="thresholds,combine,gamma,width,region")
    parser.add_argument("--seeds", default=(2025, 2026), type=lambda text: tuple(map(int, text.split(","))))
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--gamma", type=float, default=3000)
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args(namespace=Options())
    for name in given.tables.split(","):
        table = globals()[f"table_{name}"]
        print(f"\n## {name}\n\n    bench/views_study.py --features FOLDER --tables {name} --seeds {','.join(map(str, given.seeds))} --dim {given.dim} "
              f"--gamma {given.gamma:g}{' --large' if given.large else ''}\n\n{' '.join(table.__doc__.split())}")
        table(given)


if __name__ == "__main__":
    main()
