#!/usr/bin/env python3
"""Models added together and taken back, against the model that one place with all images, or without the forgotten ones, learns."""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import feature_file
from support import COMMAND, answer, check, finish, random_layer, refuse

WIDTH, DIM = 12, 40
PLAIN = ["--dim", DIM, "--gamma", 3, "--precision", "double", "--pseudo", "off", "--weights", "none", "--privacy-limit", 0]
APART = [*PLAIN, "--alpha", 0.3, "--lift", 0.05]
random = np.random.default_rng(7)
def must(*arguments):
    code, text = answer(*arguments)
    check(code == 0, f"{arguments}: {text}")
    return text


def tensors(path):
    return feature_file.load(path)[0]


def same(left, right, what, tolerance=1e-9):
    one, other = tensors(left), tensors(right)
    check(one.keys() == other.keys(), f"{what}: other tensors: {sorted(one)} and {sorted(other)}")
    for name in one.keys() & other.keys():
        scale = np.abs(other[name]).max() or 1
        off = np.abs(one[name] - other[name]).max() / scale if one[name].shape == other[name].shape else np.inf
        check(off < tolerance, f"{what}: {name} is off by {off:.1e}")


class Data:
    """Rows with two classes a phase; each row belongs to one phase or to both."""

    def __init__(self, folder, rows):
        self.folder, self.x = folder, random.normal(size=(rows, WIDTH)).astype(np.float32)
        self.y = (random.random((rows, 4)) < 0.4).astype(np.int8)
        self.y[self.y.sum(1) == 0, 0] = 1
        (folder / "names").write_text("a\nb\nc\nd\n")

    def options(self, name, rows):
        np.save(self.folder / f"{name}.npy", self.x[rows])
        np.save(self.folder / f"{name}-y.npy", self.y[rows])
        return ["--features", self.folder / f"{name}.npy", "--labels", self.folder / f"{name}-y.npy", "--names", self.folder / "names"]

    def learn(self, name, rows, settings, phases=("a,b", "c,d")):
        model = self.folder / f"{name}.model"
        model.unlink(missing_ok=True)
        for i, classes in enumerate(phases):
            must("learn", model, *self.options(name, rows), "--classes", classes, *(settings if i == 0 else []))
        return model


def merges(data, settings, what):
    rows = np.arange(len(data.x))
    whole = data.learn("whole", rows, settings)
    for k in (2, 5):
        shards = np.array_split(random.permutation(rows), k)
        parts = [data.learn(f"shard{i}", shard, settings) for i, shard in enumerate(shards)]
        merged = data.folder / "merged.model"
        text = must("merge", *parts, "-o", merged)
        check("equals one that learned from all" in text, f"{what}: says that it is exact: {text}")
        same(merged, whole, f"{what}: {k} shards")
    one = data.learn("first", rows, settings, ["a,b"])
    two = data.learn("second", rows, settings, ["c,d"])
    union = data.folder / "union.model"
    must("merge", one, two, "-o", union)
    same(union, whole, f"{what}: different classes")


def forgets(data, settings, what, apart):
    rows = np.arange(len(data.x))
    whole, rest = data.learn("whole", rows, settings), data.folder / "rest.model"
    kept = random.random(len(rows)) < 0.7
    text = must("forget", whole, *data.options("gone", ~kept), "-o", rest)
    check("equals one that never learned" in text and "not quite" not in text, f"{what}: says that it is exact: {text}")
    same(rest, data.learn("kept", kept, settings), f"{what}: images")
    if not apart:
        refuse("summed together with those of other phases", "forget", whole, "--phase", 1, "-o", rest)
        text = must("forget", whole, "--classes", "c,d", "-o", rest)
        check("not quite" in text, f"{what}: says that images of a class remain")
        return
    for phase, classes in ((1, "c,d"), (2, "a,b")):
        must("forget", whole, "--phase", phase, "-o", rest)
        same(rest, data.learn("other", rows, settings, [classes]), f"{what}: phase {phase}")
    must("forget", whole, "--classes", "d,c", "-o", rest)
    same(rest, data.learn("other", rows, settings, ["a,b"]), f"{what}: all classes of a phase")


def weighted(data):
    """Merging keeps the weights of each place and says so; images are taken back with the weights they had."""
    settings = [s if s != "none" else "sqrt" for s in PLAIN]
    rows = np.arange(len(data.x))
    one, two = data.learn("one", rows[::2], settings), data.learn("two", rows[1::2], settings)
    merged, whole = data.folder / "merged.model", data.learn("whole", rows, settings)
    check("keeps the weight" in must("merge", one, two, "-o", merged), "says that a merge of weighted models is not exact")
    check(np.allclose(tensors(merged)["gram"], tensors(one)["gram"] + tensors(two)["gram"], rtol=1e-12), "sums of a merge")
    check((tensors(merged)["counts"] == tensors(whole)["counts"]).all(), "counts of a merge")
    rest = data.folder / "rest.model"
    check("not quite" in must("forget", whole, *data.options("gone", rows[:20]), "-o", rest), "says that weights remain")
    counts = data.y.sum(0).astype(float)
    gone = np.zeros_like(tensors(whole)["cross"].reshape(DIM, 4))
    x = np.maximum(data.x[:20].astype(float) @ random_layer(WIDTH, DIM, 2025), 0)
    for first in (0, 2):
        v = counts[:first + 2] ** -0.5
        v = (v / v.mean())[first:]
        y = data.y[:20, first:first + 2].astype(float)
        omega = np.where(y.sum(1) > 0, (y * v).sum(1) / np.maximum(y.sum(1), 1), 0)
        gone[:, first:first + 2] = x.T @ (omega[:, None] * y)
    off = np.abs(tensors(whole)["cross"] - tensors(rest)["cross"] - gone).max()
    check(off < 1e-9, f"what weighted images leave in C is off by {off:.1e}")


def refusals(data):
    rows = np.arange(len(data.x))
    model, out = data.learn("model", rows, PLAIN), data.folder / "out.model"
    before = model.read_bytes()
    refuse("gamma is 3 in one model and 4 in the other", "merge", model,
           data.learn("other", rows, [4 if s == 3 else s for s in PLAIN]), "-o", out)
    refuse("at least two", "merge", model, "-o", out)
    refuse("did you mean", "forget", model, "--classes", "aa", "-o", out)
    refuse("no class would be left", "forget", model, "--classes", "a,b,c,d", "-o", out)
    refuse("the model has only 2", "forget", model, "--phase", 3, "-o", out)
    refuse("one of --classes", "forget", model, "-o", out)
    refuse("one of --classes", "forget", model, "--classes", "a", "--phase", 1, "-o", out)
    refuse("no image would be left", "forget", model, *data.options("all", rows), "-o", out)
    refuse("no class to forget is given", "forget", model, "--classes", "", "-o", out)
    refuse("not a whole number", "forget", model, "--phase", "1.5", "-o", out)
    refuse("are the same file", "merge", model, model, "-o", out)
    check(not out.exists() and model.read_bytes() == before, "what is refused changes nothing")
    guessed = data.learn("guessed", rows, [{"off": "fixed"}.get(s, s) for s in PLAIN] + ["--eta", 0.5001])
    refuse("pseudo-labels, which are not stored", "forget", guessed, *data.options("some", rows[:9]), "-o", out)
    guessed = data.learn("guessed", rows, [{"off": "fixed"}.get(s, s) for s in PLAIN] + ["--eta", 0.5001, "--keep-phases", 9])
    for what in (["--phase", 2], ["--classes", "c,d"]):
        refuse("pseudo-labels of older classes", "forget", guessed, *what, "-o", out)
    check("not quite" in must("forget", guessed, "--phase", 1, "-o", out), "pseudo-labels that the phase led to remain")
    code, text = answer("learn", model, *data.options("more", rows), "--classes", "a", "--weights", "inv")
    check(code == 2 and "weights: the model was created with none" in text, f"other weights for a later phase are refused: {text}")
    foreign = Data(data.folder, 120)
    refuse("some of them were never learned", "forget", data.learn("model", rows, PLAIN), *foreign.options("foreign", np.arange(120)), "-o", out)


def exactness(data):
    """When the result is not quite the model without or with the others, it must not be called so."""
    rows = np.arange(len(data.x))
    out = data.folder / "out.model"

    def claims(*arguments):
        text = must(*arguments, "-o", out)
        return "not quite" not in text and "keeps the weight" not in text

    one, two = data.learn("one", rows[::2], APART), data.learn("two", rows[1::2], APART)
    check(claims("merge", one, two), "a merge that is exact")
    check(claims("forget", out, "--phase", 2), "a phase of a merged model without weights")
    auto = [s if s != 3 else "auto" for s in APART]
    whole = data.learn("whole", rows, auto)
    check(not claims("forget", whole, "--phase", 1), "gamma was chosen from the phase that goes")
    check(not claims("forget", whole, *data.options("gone", rows[:20])), "gamma was chosen from the images that go")
    check(claims("forget", whole, "--phase", 2), "gamma was not chosen from the second phase")
    check(not claims("merge", data.learn("one", rows[::2], auto), data.learn("two", rows[1::2], auto)), "each place chose a gamma")
    sqrt = [s if s != "none" else "sqrt" for s in APART]
    both = data.folder / "both.model"
    must("merge", data.learn("one", rows[::2], sqrt, ["a,b", "c,d"]), data.learn("two", rows[1::2], sqrt, ["c,d"]), "-o", both)
    check(not claims("forget", both, "--phase", 2), "the last phase of a merged model need not be the last that was learned")
    folding = [*APART, "--keep-phases", 2]
    three = data.learn("three", rows, folding, ["a", "b", "c"])
    check(not claims("forget", three, "--phase", 3), "phases that were folded would not be without the third")
    check(not claims("merge", data.learn("one", rows, folding, ["a", "b"]), data.learn("two", rows, folding, ["c", "d"])),
          "a merge folds other phases than one place would")
    lost = data.folder / "lost.model"
    must("forget", data.learn("whole", rows, APART), "--classes", "b", "-o", lost)
    refuse("the weight of its images is no longer known", "forget", lost, *data.options("gone", rows[:20]), "-o", out)
    np.save(data.folder / "ab.npy", data.y[rows[:20]][:, :2])
    (data.folder / "names-ab").write_text("a\nb\n")
    check(not claims("forget", data.learn("whole", rows, APART), "--features", data.folder / "gone.npy", "--labels",
                     data.folder / "ab.npy", "--names", data.folder / "names-ab"),
          "images were not taken out of phases that the table does not know")


def folded(data):
    """Parts of several phases: added where they judge the same classes, else kept beside each other; never a file that cannot be read."""
    rows, out = np.arange(len(data.x)), data.folder / "out.model"
    for keep, mine, theirs in ((1, "a b c", "a d c"), (2, "a b", "c a d b"), (1, "a b", "c a"), (1, "a b", "b")):
        settings = [*APART, "--keep-phases", keep]
        one, two = data.learn("one", rows[::2], settings, mine.split()), data.learn("two", rows[1::2], settings, theirs.split())
        check("not equal to it" in must("merge", one, two, "-o", one), f"{mine} and {theirs}, {keep} kept")
        must("eval", one, *data.options("all", rows))
    for keep, mine, theirs in ((2, "a b c", "b a c"), (2, "a b", "c d"), (1, "a b", "c d"), (2, "a b c", "d"), (2, "a b", "c d a")):
        settings = [*APART, "--keep-phases", keep]
        one, two = data.learn("one", rows[::2], settings, mine.split()), data.learn("two", rows[1::2], settings, theirs.split())
        must("merge", one, two, "-o", out)
        must("eval", out, *data.options("all", rows))
        check(len([name for name in tensors(out) if name.startswith("gram.")]) <= keep, f"{mine} and {theirs}: parts are folded again")
    settings = [*APART, "--keep-phases", 2]
    three = data.learn("three", rows, settings, ["a", "b", "c"])
    must("forget", three, "--classes", "a,b", "-o", out)
    same(out, data.learn("other", rows, settings, ["c"]), "a folded part of which all classes go")
    must("forget", three, "--classes", "a", "-o", out)
    must("eval", out, *data.options("all", rows))
    refuse("forget the classes of all phases that it was folded with", "forget", three, "--phase", 1, "-o", out)
    must("forget", three, *data.options("gone", rows[:30]), "-o", out)
    same(out, data.learn("other", rows[30:], settings, ["a", "b", "c"]), "images of phases that were folded")


def dropped(data):
    """Classes went and their images stayed: from then on nothing is called exact, since rows of other images may be theirs."""
    rows, out, rest = np.arange(len(data.x)), data.folder / "out.model", data.folder / "rest.model"
    folding = [*APART, "--keep-phases", 2]
    for settings, phases, classes in ((PLAIN, ["a,b", "c,d"], "a,b"), (folding, ["a,b", "c", "d"], "a,b")):
        must("forget", data.learn("whole", rows, settings, phases), "--classes", classes, "-o", out)
        must("eval", out, *data.options("all", rows))
        text = must("forget", out, *data.options("gone", rows[:30]), "-o", rest)
        check("not quite" in text, f"{settings}: images of classes that went before: {text}")
    check("not quite" in must("forget", out, "--phase", 1, "-o", rest), "a part that also held images of other phases")
    must("forget", data.learn("one", rows[::2], APART), "--classes", "b", "-o", out)
    text = must("merge", out, data.learn("two", rows[1::2], APART, ["a", "c,d"]), "-o", rest)
    check("keeps the weight" in text, f"a phase that lost a class is not the phase without it: {text}")


def mixed(data):
    """Single precision, three models, some with phases that others lack."""
    rows, out = np.arange(len(data.x)), data.folder / "out.model"
    settings = [s if s != "double" else "mixed" for s in APART]
    models = [data.learn("one", rows[::2], settings), data.learn("two", rows[1::2], settings, ["c,d", "b,a"])]
    extra = Data(data.folder, 90)
    (data.folder / "names").write_text("e\nf\ng\nh\n")
    models.append(extra.learn("three", np.arange(90), settings, ["e", "f,g", "h"]))
    (data.folder / "names").write_text("a\nb\nc\nd\n")
    for i in range(3):
        must("merge", *models[i:], *models[:i], "-o", out)
        ours = tensors(out)
        check(all(np.isfinite(values).all() for values in ours.values()), "numbers of a merge")
        whole, third = tensors(data.learn("whole", rows, settings)), tensors(models[2])
        grams = sorted([ours[f"gram.{k}"].sum() for k in range(1, 6)])
        expected = sorted([whole[f"gram.{k}"].sum() for k in (1, 2)] + [third[f"gram.{k}"].sum() for k in (1, 2, 3)])
        check(np.allclose(grams, expected, rtol=1e-5), f"sums of three models: {grams} and {expected}")


def order(data):
    """The same classes in another order."""
    rows, out = np.arange(len(data.x)), data.folder / "out.model"
    one, two = data.learn("one", rows[::2], APART), data.learn("two", rows[1::2], APART, ["b,a", "d,c"])
    must("merge", one, two, "-o", out)
    same(out, data.learn("whole", rows, APART), "classes in another order")


def again(data):
    """Weighted images are taken back with the weight they were learned with, whatever was forgotten before; all images of a phase take
    its classes with them; and weights are always those of the sums."""
    rows, rest, fewer = np.arange(len(data.x)), data.folder / "rest.model", data.folder / "fewer.model"
    for settings in (PLAIN, APART):
        weighed = [s if s != "none" else "sqrt" for s in settings]
        whole = data.learn("whole", rows, weighed)
        must("forget", whole, *data.options("gone", rows[:60]), "-o", rest)
        must("forget", rest, *data.options("gone", rows[60:80]), "-o", fewer)
        must("forget", whole, *data.options("gone", rows[:80]), "-o", rest)
        same(fewer, rest, "images taken back in two goes")
        one, two = data.learn("one", rows[:70], weighed), data.learn("two", rows[70:], weighed)
        must("merge", one, two, "-o", rest)
        refuse("the weight of its images is no longer known", "forget", rest, *data.options("gone", rows[:10]), "-o", fewer)
        last = data.y[:, 2:].any(1) & ~data.y[:, :2].any(1)
        only = (data.y[:, :2].any(1) & ~data.y[:, 2:].any(1)) | last
        whole = data.learn("whole", rows[only], settings)
        text = must("forget", whole, *data.options("gone", rows[last]), "-o", rest)
        check("in 1 phase\n" in text and "not quite" not in text, f"all images of a phase: {text}")
        same(rest, data.learn("other", rows[only], settings, ["a,b"]), "all images of a phase")
    must("forget", data.learn("whole", rows, APART), "--classes", "b", "-o", rest)
    ours, parts = tensors(rest), []
    for name in ("gram.1", "gram.2"):
        square = np.zeros((DIM, DIM))
        square[np.tril_indices(DIM)] = ours[name]
        parts.append(square + np.tril(square, -1).T)
    cross = ours["cross"].reshape(DIM, 3)
    w = np.hstack([np.linalg.solve(0.7 * own + 0.3 * sum(parts) + 3 * np.eye(DIM), cross[:, columns])
                   for own, columns in zip(parts, ([0], [1, 2]))])
    w += 0.05 / 10 * w.sum(1, keepdims=True)
    off = np.abs(ours["weights"].reshape(DIM, 3) - w).max() / np.abs(w).max()
    check(off < 1e-9, f"the weights of what is left are those of its sums: off by {off:.1e}")


def privacy():
    """A phase of one image: the difference of two models gives away x and, by least squares, the features themselves."""
    with tempfile.TemporaryDirectory() as folder:
        data = Data(Path(folder), 60)
        data.y[:, 2:] = 0
        data.y[59, 2] = 1
        settings = [*PLAIN[:-2], "--solver", "sums"]
        before = data.learn("before", np.arange(60), settings, ["a,b"])
        after = data.folder / "after.model"
        after.write_bytes(before.read_bytes())
        code, text = answer("learn", after, *data.options("one", np.arange(60)), "--classes", "c")
        x = tensors(after)["cross"].reshape(DIM, 3)[:, 2]
        gram = tensors(after)["gram"] - tensors(before)["gram"]
        diagonal = np.sqrt(np.maximum(gram[np.cumsum(np.arange(1, DIM + 1)) - 1], 0))
        check(np.allclose(x, diagonal, atol=1e-6), "the column of a class with one image is that image's x, and so is the diagonal's root")
        shown = x > 0
        found = np.linalg.lstsq(random_layer(WIDTH, DIM, 2025)[:, shown].T, x[shown], rcond=None)[0]
        check(np.allclose(found, data.x[59], atol=1e-4), "the features of the one image are recovered")
        loud = subprocess.run([COMMAND, "learn", data.folder / "new.model", *data.options("few", np.arange(20)), "--classes", "a"],
                              capture_output=True, text=True)
        check("could reconstruct their features" in loud.stderr, f"a warning of a small phase: {loud.stderr}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        data = Data(Path(folder), 150)
        for settings, what, apart in ((PLAIN, "one sum", False), (APART, "phases apart", True),
                                      ([*PLAIN, "--keep-phases", 9], "phases kept", True),
                                      ([*PLAIN, "--skip-features", "on"], "skip features", False)):
            merges(data, settings, what)
            forgets(data, settings, what, apart)
        recursive = [*PLAIN, "--solver", "recursive"]
        one, two = data.learn("one", np.arange(70), recursive), data.learn("two", np.arange(70, 150), recursive)
        must("merge", one, two, "-o", data.folder / "merged.model")
        same(data.folder / "merged.model", data.learn("whole", np.arange(150), PLAIN), "models of the recursion", 1e-7)
        few = data.learn("few", np.arange(150), [*recursive, "--lift", 0.1])
        must("forget", few, "--classes", "b", "-o", data.folder / "rest.model")
        rest, whole = (tensors(path)["weights"].reshape(DIM, -1) for path in (data.folder / "rest.model", few))
        check((rest == whole[:, [0, 2, 3]]).all(), "a column goes, and others stay as they were, with a lift that is not used")
        for work in weighted, refusals, exactness, folded, dropped, order, again, mixed:
            work(data)
    privacy()
    sys.exit(finish())


main()
