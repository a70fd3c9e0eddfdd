#!/usr/bin/python3
"""The tables of docs/teaching.md about libraries: what unlabelled pictures do for tags that were taught from a few pictures, at the natural
shares of pictures that show a tag.

  bench/teaching_study.py --voc TRAINVAL --coco TRAIN [--voc-test TEST] [--coco-test VAL] [--tables LIST] [--draws 5] [--dim 2048]

TRAINVAL, TRAIN, TEST and VAL are feature files (`l3a extract`). The tables beta, thresholds, shares and sample are about choices, and
use training pictures alone. The tables library, nested, expected and taught measure what was chosen: with --voc-test and --coco-test, on pictures
that had no part in it.

A *case* is a draw of K tags that at least 20 more pictures show, and n taught pictures of each; labels are complete for the K tags. Of the
other pictures, some are the library (unlabelled), and up to 3,000 more are tagged and measured. x is a row of the random layer and the
features. With both data sets there is a third, *mixed*: half of its pictures are those of VOC, half are of COCO, and of three draws one teaches pictures of
VOC, one of COCO, and one of both."""
import argparse
import sys
from pathlib import Path

import numpy as np
from scipy.linalg import cho_factor, cho_solve

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "oracle"))
import feature_file  # noqa: E402

TAGS, PICTURES = (1, 3, 5, 10, 20), (1, 2, 5, 8, 15, 50)


# ---- the rules (src/learn/model_solve.c, model_score.c, unlabelled.c and src/tag/history_expect.c) ---------------------------------------

def gamma_rule(m, images, classes):
    """γ from the mean of x·x, rounded to quarter decades."""
    return 10 ** (np.round(4 * np.log10((1 + 8 / classes) * images / (images + 15) * m)) / 4)


def beta_rule(y, scale=8):
    """y: labels of the taught pictures. The more tags there are, the more of the library shows one of them; and pictures that were judged to show none
    of the tags take the library's place."""
    images, classes = y.shape
    shown = min(images, y.sum())
    return 10 ** (np.round(4 * np.log10(scale / classes * shown ** 2 / (shown + 2 * classes) * 100 / (100 + images - shown))) / 4) / images


def old_thresholds(model):
    """Of 0.8, which knows of no library."""
    none = max(0, model.images - model.n.sum())
    return (0.76 - 0.3 * none / (model.images + 50)) * model.mu * model.n / (model.n + 1)


def library_thresholds(model, top=0.85, fall=0.06, few=3, frequent=0.3):
    """Between the mean score of the library and that of the taught pictures."""
    rare = 1 / (1 + (np.maximum(model.mean, 0) / (frequent * model.mu)) ** 6)
    return model.mean + (top - fall * np.log(model.classes)) * rare * (model.mu - model.mean) * model.n / (model.n + few)


def expected(model, thresholds):
    """Precision and recall of each tag in the library, in percent; NaN where it cannot be told."""
    rows = len(model.library)
    tagged = (model.library > thresholds).sum(0)
    above = (tagged + 0.5) / (rows + 1)
    half = ((model.library > (model.library.mean(0) + thresholds) / 2).sum(0) + 0.5) / (rows + 1)
    found = (model.y & (model.left_out > thresholds * (1 - 1 / model.n))).sum(0)
    precision = 100 / (1 + np.exp(1.7 + 1.5 * np.log(above) + 2.75 * np.log(half / above)))
    return np.where(tagged > 0, precision, np.nan), 100 * found / model.n


def specified_thresholds(model, share=0.85):
    """The rule of the first trials: medians, and left-out scores of every picture."""
    middle = np.median(model.library, 0)
    bulk = 1.4826 * np.median(np.abs(model.library - middle), 0)
    left = np.array([np.median(model.left_out[model.y[:, k], k]) for k in range(model.classes)])
    return np.maximum(middle + share * (left - middle), middle + 2 * bulk)


# ---- data -----------------------------------------------------------------------------------------------------------------------------

class Data:
    def __init__(self, path, dim):
        tensors, metadata = feature_file.load(path)
        self.z, self.y = tensors["features"].astype(float), tensors["labels"] == 1
        self.names, self.dim = metadata["classes"].split("\n"), dim

    def rows(self, index):
        return expand(self.z[index], self.dim)


class Mixed(Data):
    """As many pictures of one data set as of another, with the classes of the first, which the other has under these or other names."""
    ALSO = {"aeroplane": "airplane", "diningtable": "dining table", "motorbike": "motorcycle", "pottedplant": "potted plant", "sofa": "couch", "tvmonitor": "tv"}

    def __init__(self, one, other):
        columns = [other.names.index(self.ALSO.get(name, name)) for name in one.names]
        chosen = np.random.default_rng(5).choice(len(other.y), len(one.y), replace=False)
        self.z, self.y = np.vstack([one.z, other.z[chosen]]), np.vstack([one.y, other.y[chosen][:, columns]])
        self.names, self.dim, self.halves = one.names, one.dim, np.arange(2 * len(one.y)) < len(one.y)


def splitmix(seed, count):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(float) / (1 << 24)


LAYERS = {}


def expand(z, dim, seed=2025):
    if (z.shape[1], dim) not in LAYERS:
        LAYERS[z.shape[1], dim] = (2 * splitmix(seed, z.shape[1] * dim).reshape(z.shape[1], dim) - 1) / np.sqrt(z.shape[1])
    return np.hstack([np.maximum(z @ LAYERS[z.shape[1], dim], 0), z])


class Case:
    """Rows that are taught, the library, and rows that are measured. other: the data that library and measured rows are from; by default that of
    the taught ones. none: so many taught pictures that show none of the tags; they are taken from the data of the library."""

    def __init__(self, data, classes, count, seed, other=None, library=2000, measured=3000, none=0):
        rng = np.random.default_rng([seed, classes, count])
        source, halves = other or data, getattr(data, "halves", None)
        labels = data.y if halves is None or seed % 3 == 2 else data.y & (halves == seed % 3)[:, None]  # of mixed data, teach one half, the other, or both
        fit = np.flatnonzero(np.minimum(labels.sum(0) - count, source.y.sum(0) - (0 if other else count)) >= 20)
        self.classes = np.sort(rng.choice(fit, min(classes, len(fit)), replace=False))
        free, taught, self.order = np.ones(len(data.y), bool), [], rng.permutation(self.classes)
        for k in self.order:
            found = rng.choice(np.flatnonzero(labels[:, k] & free), count, replace=False)
            free[found] = False
            taught.append(found)
        taught = np.concatenate(taught)
        rest = rng.permutation(np.arange(len(source.y)) if other else np.flatnonzero(free))
        shows = source.y[rest][:, self.classes].any(1)
        negative = rest[np.flatnonzero(~shows)[:none]]
        rest = rest[~np.isin(rest, negative)]
        library = min(library, max(len(rest) - 2000, len(rest) // 2))
        self.u, self.test = rest[:library], rest[library:library + measured]
        self.x = np.vstack([data.rows(taught), source.rows(negative)])
        self.y = np.vstack([data.y[taught][:, self.classes], source.y[negative][:, self.classes]])
        self.xt, self.yt = source.rows(self.test), source.y[self.test][:, self.classes]
        self.share = source.y[self.u][:, self.classes].mean(0)
        self.xu = source.rows(self.u[:4000])  # more rows only add to the sums
        self.own, self.all = self.x.T @ self.x, self.xu.T @ self.xu
        for first in range(4000, library, 4000):
            x = source.rows(self.u[first:first + 4000])
            self.all += x.T @ x

    def teach(self, x, y):
        """The same case with more taught rows."""
        made = object.__new__(Case)
        made.__dict__.update(self.__dict__)
        made.x, made.y = np.vstack([self.x, x]), np.vstack([self.y, y])
        made.own = self.own + x.T @ x
        return made


class Model:
    """W, and what the rules use."""

    def __init__(self, case, beta):
        self.y, (self.images, self.classes), d = case.y, case.y.shape, case.x.shape[1]
        self.n = case.y.sum(0)
        self.gamma = gamma_rule((case.x ** 2).sum() / len(case.x), self.images, self.classes)
        weight = beta * self.images / len(case.u)
        factor = cho_factor(case.own + weight * case.all + self.gamma * np.eye(d), overwrite_a=True, check_finite=False)
        solved = cho_solve(factor, np.hstack([case.x.T @ case.y, case.x.T]), check_finite=False)
        self.w, h = solved[:, :self.classes], np.einsum("ij,ji->i", case.x, solved[:, self.classes:])[:, None]
        own = case.x @ self.w
        self.left_out = (own - h * case.y) / (1 - h)
        self.mu = (own * case.y).sum(0) / self.n
        self.library, self.scores = case.xu @ self.w, case.xt @ self.w
        self.mean = self.library.mean(0)


class Nested(Model):
    """The same if the tags are taught one after another: each picture is judged for the tags known by then, and counts α = 0.3 for later ones."""

    def __init__(self, case, beta):
        self.y, (self.images, self.classes), d = case.y, case.y.shape, case.x.shape[1]
        lesson = np.repeat(np.arange(self.classes), self.images // self.classes)  # of each picture
        judged = np.array([list(case.order).index(k) for k in case.classes]) <= lesson[:, None]
        y = case.y & judged
        self.n, self.gamma = y.sum(0), gamma_rule((case.x ** 2).sum() / len(case.x), self.images, self.classes)
        factor = cho_factor(beta * self.images / len(case.u) * case.all + self.gamma * np.eye(d), overwrite_a=True, check_finite=False)
        solved = cho_solve(factor, case.x.T, check_finite=False)  # M = B + xᵀ D x, and w = B⁻¹ xᵀ t with (1 + D x B⁻¹ xᵀ) t = y
        gram = case.x @ solved
        dual = [np.linalg.solve(np.eye(self.images) + np.where(judged[:, [k]], 1, 0.3) * gram, y[:, k].astype(float)) for k in range(self.classes)]
        self.w = solved @ np.array(dual).T
        self.mu = (case.x @ self.w * y).sum(0) / self.n
        self.library, self.scores = case.xu @ self.w, case.xt @ self.w
        self.mean = self.library.mean(0)


# ---- measures -------------------------------------------------------------------------------------------------------------------------

def average_precision(scores, y):
    hits = np.take_along_axis(y, np.argsort(-scores, 0, "stable"), 0)
    return 100 * (hits * hits.cumsum(0) / np.arange(1, len(y) + 1)[:, None]).sum(0) / np.maximum(y.sum(0), 1)


def best_f1(scores, y):
    """With the best threshold of every tag on these very rows: an upper bound."""
    hits = np.take_along_axis(y, np.argsort(-scores, 0, "stable"), 0).cumsum(0)
    return 100 * (2 * hits / (np.arange(1, len(y) + 1)[:, None] + y.sum(0))).max(0)


def rates(scores, y, thresholds):
    """Precision (NaN if no picture gets the tag), recall and F1 of each tag, in percent."""
    given = scores > thresholds
    right, all_given = (given & y).sum(0), given.sum(0)
    with np.errstate(invalid="ignore"):
        return 100 * np.where(all_given, right / all_given, np.nan), 100 * right / np.maximum(y.sum(0), 1), 200 * right / np.maximum(all_given + y.sum(0), 1)


# ---- tables ---------------------------------------------------------------------------------------------------------------------------

def header(first, columns):
    print(f"| {first} | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * len(columns))


def line(name, cells):
    print(f"| {name} | " + " | ".join(cells) + " |")


def one(values):
    return f"{np.nanmean(values):.1f}"


def gain(new, old):
    """The mean of the differences over draws, with its standard error."""
    change = np.array(new) - np.array(old)
    return f"{change.mean():+.1f} ± {change.std(ddof=1) / np.sqrt(len(change)):.1f}"


def cases(data, tags, pictures, draws, first, **options):
    """first: the number of the first draw, so that tables do not share draws."""
    for classes in tags:
        for count in pictures:
            if classes <= len(data.names):
                yield classes, count, (Case(data, classes, count, first + draw, **options) for draw in range(draws))


def beta_table(sets, draws, first=1000):
    """AP, and F1 with the best threshold of each tag in hindsight, by the weight of the library."""
    choices = [("none", lambda y: 0), *((f"β = {b}", lambda y, b=b: b) for b in (0.5, 1, 3, 8)),
               *((f"rule with {s}", lambda y, s=s: beta_rule(y, s)) for s in (4, 8, 16))]
    header("AP / best F1", [name for name, _ in choices])
    for name, (data, _) in sets.items():
        for classes in TAGS:
            found = [[[], []] for _ in choices]
            for _, _, drawn in cases(data, [classes], (2, 8, 15, 50), draws, first):
                for case in drawn:
                    for at, (_, beta) in enumerate(choices):
                        model = Model(case, beta(case.y))
                        found[at][0].append(average_precision(model.scores, case.yt).mean())
                        found[at][1].append(best_f1(model.scores, case.yt).mean())
            line(f"{name}, {classes} tag{'s' * (classes > 1)}", [f"{one(ap)} / {one(f1)}" for ap, f1 in found])


def thresholds_table(sets, draws, first=1000):
    """F1 by the rule for thresholds, with β by rule."""
    rules = [("0.8's", old_thresholds), ("medians, 0.7", lambda m: specified_thresholds(m, 0.7)), ("medians, 0.85", specified_thresholds),
             ("the same for every n", lambda m: library_thresholds(m, top=0.7, few=0)), ("for every K", lambda m: library_thresholds(m, top=0.76, fall=0)),
             ("for rare and frequent", lambda m: library_thresholds(m, frequent=np.inf)), ("rule", library_thresholds)]
    header("F1", ["best", *(name for name, _ in rules), "rule: P / R"])
    for name, (data, _) in sets.items():
        for count in PICTURES:
            best, scores, rate = [], [[] for _ in rules], []
            for _, _, drawn in cases(data, TAGS, [count], draws, first):
                for case in drawn:
                    model = Model(case, beta_rule(case.y))
                    best.append(best_f1(model.scores, case.yt).mean())
                    for at, (_, rule) in enumerate(rules):
                        scores[at].append(rates(model.scores, case.yt, rule(model))[2].mean())
                    rate.append([np.nanmean(r) for r in rates(model.scores, case.yt, library_thresholds(model))[:2]])
            line(f"{name}, {count} picture{'s' * (count > 1)} of each tag", [one(best), *map(one, scores), " / ".join(f"{v:.1f}" for v in np.nanmean(rate, 0))])


def shares_table(sets, draws, first=1000):
    """F1 by how many pictures of the library show the tag, without and with the library; 5 to 50 pictures of each tag."""
    bounds = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 1)
    header("share of the pictures", ["tags", "AP", "with the library", "P / R / F1", "with the library", "best F1"])
    for name, (data, _) in sets.items():
        rows = []
        for _, _, drawn in cases(data, (1, 3, 10), (5, 15, 50), draws, first):
            for case in drawn:
                old, new = Model(case, 0), Model(case, beta_rule(case.y))
                rows += list(zip(case.share, average_precision(old.scores, case.yt), average_precision(new.scores, case.yt), *rates(old.scores, case.yt, old_thresholds(old)),
                                 *rates(new.scores, case.yt, library_thresholds(new)), best_f1(new.scores, case.yt)))
        rows = np.array(rows)
        for low, high in zip(bounds, bounds[1:]):
            some = rows[(rows[:, 0] >= low) & (rows[:, 0] < high)]
            if len(some) > 4:
                mean = np.nanmean(some, 0)
                line(f"{name}, {100 * low:.0f} to {100 * high:.0f} %", [str(len(some)), f"{mean[1]:.1f}", f"{mean[2]:.1f}", " / ".join(f"{v:.1f}" for v in mean[3:6]),
                                                                      " / ".join(f"{v:.1f}" for v in mean[6:9]), f"{mean[9]:.1f}"])


def sample_table(sets, draws, first=2000):
    """AP / F1 by the number of unlabelled pictures; 3 and 10 tags of 8 and 15 pictures."""
    sizes = (0, 50, 100, 200, 500, 1000, 2000, 4000, 8000, 20000)
    header("AP / F1", [f"{size:,}" for size in sizes])
    for name, (data, _) in sets.items():
        cells = []
        for size in sizes:
            found = [[], []]
            for _, _, drawn in cases(data, (3, 10), (8, 15), draws, first, library=size or 2000) if size < len(data.y) // 2 else ():
                for case in drawn:
                    model = Model(case, beta_rule(case.y) if size else 0)
                    found[0].append(average_precision(model.scores, case.yt).mean())
                    found[1].append(rates(model.scores, case.yt, library_thresholds(model) if size else old_thresholds(model))[2].mean())
            cells.append(f"{one(found[0])} / {one(found[1])}" if found[0] else "")
        line(name, cells)


def nested_table(sets, draws, first=0):
    """The same if the tags are taught one after another."""
    library_table(sets, draws, first, Nested)


def library_table(sets, draws, first=0, kind=Model):
    """What the library gains on pictures that had no part in any choice: AP, F1, P and R of 0.8 and with the library."""
    header("2,000 unlabelled, unless it says 20,000", ["AP", "with the library", "gain", "F1", "with the library", "gain", "P / R", "with the library", "best F1"])
    for name, (data, test) in sets.items():
        for size in (2000, 20000) if len((test or data).y) > 25000 else (2000,):
            whole = []
            for classes, count, drawn in cases(data, (1, 3, 5, 10), (8, 15), draws, first, other=test, library=size):
                rows = []
                for case in drawn:
                    old, new = kind(case, 0), kind(case, beta_rule(case.y))
                    rows.append([average_precision(old.scores, case.yt).mean(), average_precision(new.scores, case.yt).mean(),
                                 *(np.nanmean(r) for r in rates(old.scores, case.yt, old_thresholds(old))),
                                 *(np.nanmean(r) for r in rates(new.scores, case.yt, library_thresholds(new))), best_f1(new.scores, case.yt).mean()])
                whole += rows
                library_line(f"{name}, {classes} × {count}" + (", 20,000" if size > 2000 else ""), np.array(rows))
            library_line(f"**{name}, mean**" + (", 20,000" if size > 2000 else ""), np.array(whole))


def library_line(name, rows):
    ap, ap_now, p, r, f, p_now, r_now, f_now, best = rows.T
    line(name, [one(ap), one(ap_now), gain(ap_now, ap), one(f), one(f_now), gain(f_now, f), f"{one(p)} / {one(r)}", f"{one(p_now)} / {one(r_now)}", one(best)])


def expected_table(sets, draws, first=0):
    """What `teach` says to expect in the library, against what was measured: means over the tags and the draws, and how far a tag is off."""
    header("expected → measured", ["precision", "recall", "a tag: precision", "a tag: recall"])
    for name, (data, test) in sets.items():
        whole = []
        for classes, count, drawn in cases(data, (1, 3, 5, 10), (8, 15), draws, first, other=test):
            rows = []
            for case in drawn:
                model = Model(case, beta_rule(case.y))
                thresholds = library_thresholds(model)
                rows += list(zip(*expected(model, thresholds), *rates(model.scores, case.yt, thresholds)[:2]))
            whole += rows
            expected_line(f"{name}, {classes} × {count}", np.array(rows))
        expected_line(f"**{name}, all tags**", np.array(whole))


def expected_line(name, rows):
    rows = rows[~np.isnan(rows[:, [0, 2]]).any(1)]
    p, r, p_true, r_true = rows.T
    line(name, [f"{one(p)} → {one(p_true)}", f"{one(r)} → {one(r_true)}", one(np.abs(p - p_true)), one(np.abs(r - r_true))])


def taught_table(sets, draws, first=0):
    """AP / F1 if pictures that show none of the tags are taught too, and if 20 wrong tags are corrected: of 1,000 pictures those with a wrong tag, in random
    order. They leave the measured ones in all columns. 15 pictures of each tag."""
    header("AP / F1", ["0.8", "0.8, 75 of none", "0.8, 20 corrections", "library", "library, 75 of none", "library, 20 corrections", "library, 20 at random"])
    for name, (data, test) in sets.items():
        for classes in (1, 5, 10):
            found = [[] for _ in range(7)]
            for draw in range(draws):
                case, more = (Case(data, classes, 15, first + draw, other=test, none=none) for none in (0, 75))
                for at, library in ((0, False), (3, True)):
                    ways = [case, more, corrected(case, library, True), corrected(case, library, False)][:4 if library else 3]
                    for step, way in enumerate(ways):
                        model = Model(way, beta_rule(way.y) if library else 0)
                        rows = slice(1000, None)  # the first 1,000 may have been corrected
                        score, y = (way.xt @ model.w)[rows], way.yt[rows]
                        found[at + step].append((average_precision(score, y).mean(), rates(score, y, library_thresholds(model) if library else old_thresholds(model))[2].mean()))
            line(f"{name}, {classes} × 15", [" / ".join(f"{v:.1f}" for v in np.mean(f, 0)) for f in found])


def corrected(case, library, wrong):
    """The case with 20 more taught pictures, of the first 1,000 that are tagged: of those with a wrong tag, or of all."""
    model = Model(case, beta_rule(case.y) if library else 0)
    given = model.scores[:1000] > (library_thresholds(model) if library else old_thresholds(model))
    rows = np.flatnonzero((given & ~case.yt[:1000]).any(1)) if wrong else np.arange(1000)
    rows = rows[:20]
    return case.teach(case.xt[rows], case.yt[rows])


TABLES = {"beta": beta_table, "thresholds": thresholds_table, "shares": shares_table, "sample": sample_table, "library": library_table, "nested": nested_table, "expected": expected_table,
          "taught": taught_table}
MEASURED = ("library", "nested", "expected", "taught")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("voc", "coco", "voc-test", "coco-test"):
        parser.add_argument("--" + name)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--dim", type=int, default=2048)
    given = parser.parse_args()
    sets = {}
    for name, train, test in (("VOC", given.voc, given.voc_test), ("COCO", given.coco, given.coco_test)):
        if train:
            data = Data(train, given.dim)
            sets[name] = data, Data(test, given.dim) if test else None
    if len(sets) == 2:  # half of each
        (one, test), (other, other_test) = sets.values()
        sets["mixed"] = Mixed(one, other), Mixed(test, other_test) if test and other_test else None
    for table in given.tables.split(","):
        if table in MEASURED or not given.voc_test and not given.coco_test:
            print(f"\n### {table}\n{TABLES[table].__doc__}\n")
            TABLES[table](sets, given.draws)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
