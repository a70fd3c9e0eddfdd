#!/usr/bin/env python3
"""Feature files joined, against NumPy's concatenation; and models learned from shards and merged, against ridge regression in NumPy
and against the model of one place."""
import sys
import tempfile
from pathlib import Path

import numpy as np
import feature_file
from support import answer, check, finish, random_layer, refuse

WIDTH, DIM, NAMES = 10, 32, ["a", "b", "c", "d"]
random = np.random.default_rng(17)


def must(*arguments, quiet=True):
    code, text = answer(*arguments, quiet=quiet)
    check(code == 0, f"{arguments}: exit {code}: {text}")
    return text


class Table:
    def __init__(self, rows, views=0, kind=np.float32):
        shape = (rows, 1 + views, WIDTH) if views else (rows, WIDTH)
        self.x = random.normal(size=shape).astype(kind)
        self.y = (random.random((rows, 4)) < 0.4).astype(np.int8)
        self.y[self.y.sum(1) == 0, 0] = 1
        self.ids = [f"picture {random.integers(1 << 60)}" for _ in range(rows)]

    def save(self, path, rows=slice(None), labels=np.int8, with_ids=True, members=None, names=NAMES, **records):
        tensors = {"features": self.x[rows]}
        if labels is not None:
            tensors["labels"] = self.y[rows].astype(labels)
        if with_ids:
            tensors["ids"] = np.frombuffer("\n".join(self.ids[rows]).encode(), np.uint8)
        if members is not None:
            tensors["members"] = members[rows]
        feature_file.save(path, tensors, {"classes": "\n".join(names), **records})
        return path


def joins(folder):
    """Files that are no shards: rows in the order given."""
    for views, kind in (0, np.float32), (5, np.float16), (0, np.float64):
        table = Table(50, views, kind)
        members = (table.y == 1).astype(np.int8)
        members[3, :] = 1
        cuts = [slice(0, 7), slice(7, 8), slice(8, 50)]
        files = [table.save(folder / f"{i}.st", cut, labels=(np.int8, np.float32, np.int64)[i], members=members if i == 0 else None,
                            data="list:x", split=f"s{i}", bad=("", "p\nq", "r")[i]) for i, cut in enumerate(cuts)]
        text = must("merge", *files, "-o", folder / "joined.st")
        check("3 feature files, 50 rows" in text, text)
        tensors, said = feature_file.load(folder / "joined.st")
        check(np.array_equal(tensors["features"], table.x) and tensors["features"].dtype == kind, "features of all files")
        check(np.array_equal(tensors["labels"], table.y) and tensors["labels"].dtype == np.int8, "labels of all files")
        check(feature_file.ids(tensors) == table.ids, "ids of all files")
        check(np.array_equal(tensors["members"], members), "members are the labels where a file has none")
        check(said["classes"] == "a\nb\nc\nd" and said["bad"] == "p\nq\nr", f"records: {said}")
        check(said["data"] == "list:x" and "split" not in said, "a record stays if it is the same everywhere")
        must("merge", files[2], files[0], "-o", folder / "turned.st")
        tensors = feature_file.load(folder / "turned.st")[0]
        check(np.array_equal(tensors["features"], np.concatenate([table.x[cuts[2]], table.x[cuts[0]]])), "in the order given")
    bare = [table.save(folder / f"{i}.st", cut, labels=None, with_ids=False) for i, cut in enumerate(cuts)]
    must("merge", *bare, "-o", folder / "joined.st")
    tensors = feature_file.load(folder / "joined.st")[0]
    check(list(tensors) == ["features"] and np.array_equal(tensors["features"], table.x), "features alone")
    large = Table(30000)  # several megabytes, which are copied in pieces
    files = [large.save(folder / f"{i}.st", slice(i * 7000, min((i + 1) * 7000, 30000))) for i in range(5)]
    must("merge", *files, "-o", folder / "joined.st")
    tensors = feature_file.load(folder / "joined.st")[0]
    check(np.array_equal(tensors["features"], large.x) and feature_file.ids(tensors) == large.ids
          and np.array_equal(tensors["labels"], large.y), "large files")


def refusals(folder):
    table, other, out = Table(9), Table(9), folder / "no.st"
    one = table.save(folder / "one.st", backbone="x", sha256="1")
    saved = lambda **options: other.save(folder / "other.st", **options)
    refuse("do not have the same classes", "merge", one, saved(names=["a", "b", "d", "c"]), "-o", out)
    refuse("one.st has ids, but", "merge", one, saved(with_ids=False), "-o", out)
    refuse("one.st has labels, but", "merge", one, saved(labels=None), "-o", out)
    refuse("sha256 is '1' in", "merge", one, saved(sha256="2"), "-o", out)
    twice = folder / "twice.st"
    table.save(twice, slice(4, 5))
    refuse(f"image '{table.ids[4]}' is in two files", "merge", one, twice, "-o", out)
    other.x = other.x.astype(np.float16)
    refuse("the features are F32 in", "merge", one, saved(), "-o", out)
    other.x = random.normal(size=(9, WIDTH + 1)).astype(np.float32)
    refuse(f"one.st has features {WIDTH} wide", "merge", one, saved(), "-o", out)
    other.x = random.normal(size=(9, 6, WIDTH)).astype(np.float32)
    refuse("the images of", "merge", one, saved(), "-o", out)
    for shard in "4/3", "0/3", "x", "1/", "1/3/3", "-1/3", "":
        refuse("what the file says about its shard is not valid", "merge", table.save(folder / "s.st", shard=shard, extraction="1"), "-o", out)
    refuse("what the file says about its shard is not valid", "merge", table.save(folder / "s.st", shard="1/1"), "-o", out)
    for width in (0, 3):  # a shard that says it is the same as the others, but is not
        first = table.save(folder / "s.st", shard="1/2", extraction="1")
        other.x = np.zeros((9, WIDTH + width), np.float32)
        second = other.save(folder / "other.st", shard="2/2", extraction="1", names=NAMES if width else ["d", "c", "b", "a"])
        refuse("features 10 wide" if width else "the same classes", "merge", second, first, "-o", out)
    check(not out.exists(), "nothing was written")


EXACT = {
    "one sum": ["--gamma", 3, "--pseudo", "off", "--weights", "none"],
    "parts": ["--gamma", 3, "--pseudo", "off", "--weights", "none", "--alpha", 0.3, "--lift", 0.05],
    "gamma from the sums": ["--method", "l3a+", "--weights", "none", "--gamma-from", "sums"],
}
CLOSE = {
    "weights": ["--gamma", 3, "--pseudo", "off", "--weights", "sqrt"],
    "literal weights": ["--gamma", 3, "--pseudo", "off", "--weights", "inv", "--scaling", "literal"],
    "pseudo-labels": ["--gamma", 3, "--weights", "none", "--eta", 0.6],
    "dynamic pseudo-labels": ["--gamma", 3, "--weights", "none", "--pseudo", "dynamic", "--tau", 1.5],
    "gamma of the images": ["--gamma", "auto", "--pseudo", "off", "--weights", "none"],
}
ALWAYS = ["--dim", DIM, "--precision", "double", "--privacy-limit", 0]


def distance(left, right):
    one, other = feature_file.load(left)[0], feature_file.load(right)[0]
    if one.keys() != other.keys():
        return np.inf
    return max(np.abs(one[name] - other[name]).max() / (np.abs(other[name]).max() or 1) for name in one)


def learn(model, features, settings, phases=("a,b", "c,d")):
    model.unlink(missing_ok=True)
    for i, classes in enumerate(phases):
        must("learn", model, "--features", features, "--classes", classes, *(settings if i == 0 else []))
    return model


def shards_of(folder, table, count):
    """Shards as extraction records them."""
    cuts = np.linspace(0, len(table.x), count + 1).astype(int)
    return [table.save(folder / f"shard{i + 1}.st", slice(cuts[i], cuts[i + 1]), shard=f"{i + 1}/{count}", extraction="00112233445566ff")
            for i in range(count)]


def models(folder):
    table = Table(300)
    whole = table.save(folder / "whole.st")
    for count in (2, 5):
        shards = shards_of(folder, table, count)
        must("merge", *shards[::-1], "-o", folder / "joined.st")
        check(np.array_equal(feature_file.load(folder / "joined.st")[0]["features"], table.x), "shards in any order")
        for exact, settings in *((True, s) for s in EXACT.items()), *((False, s) for s in CLOSE.items()):
            name, settings = settings[0], [*settings[1], *ALWAYS]
            parts = [learn(folder / f"part{i}.model", shard, settings) for i, shard in enumerate(shards)]
            text = must("merge", *parts, "-o", folder / "merged.model", quiet=False)
            check(("equals one that learned from all" in text) == exact, f"{name}: what merge says: {text}")
            check("not in the model" not in text, f"{name}: no shard is missing: {text}")
            off = distance(folder / "merged.model", learn(folder / "whole.model", whole, settings))
            check(off < 1e-9 if exact else off > 1e-6, f"{name}, {count} shards: off by {off:.1e}")
            if not exact and name != "gamma of the images" and "pseudo-labels" in name:  # the first phase alone is exact
                parts = [learn(folder / f"part{i}.model", shard, settings, ["a,b"]) for i, shard in enumerate(shards)]
                text = must("merge", *parts, "-o", folder / "merged.model")
                off = distance(folder / "merged.model", learn(folder / "whole.model", whole, settings, ["a,b"]))
                check(off < 1e-9 and "equals" in text, f"{name}, one phase: off by {off:.1e}: {text}")


def against_numpy(folder):
    """W = (XᵀX + γI)⁻¹ XᵀY over all rows, although no process has seen them all."""
    table = Table(200)
    settings = [*EXACT["one sum"], *ALWAYS]
    parts = [learn(folder / f"part{i}.model", shard, settings, ["a,b,c,d"]) for i, shard in enumerate(shards_of(folder, table, 4))]
    must("merge", *parts, "-o", folder / "merged.model")
    expanded = np.maximum(table.x.astype(float) @ random_layer(WIDTH, DIM, 2025), 0)
    expected = np.linalg.solve(expanded.T @ expanded + 3 * np.eye(DIM), expanded.T @ table.y)
    weights = feature_file.load(folder / "merged.model")[0]["weights"]
    off = np.abs(weights - expected).max() / np.abs(expected).max()
    check(off < 1e-9, f"merged weights are off by {off:.1e} from NumPy's")


def holds(model):
    return feature_file.load(model)[1].get("record.holds", "").split("\n")


def repeated(folder):
    """Parts that were learned twice."""
    table = Table(120)
    shards = shards_of(folder, table, 3)
    both = "both models have learned the same images of the same classes"
    for name in "one sum", "parts":
        settings = [*EXACT[name], *ALWAYS]
        parts = [learn(folder / f"part{i}.model", shard, settings) for i, shard in enumerate(shards)]
        check(len(holds(parts[0])) == 2 and all(line.endswith(" 1/3 00112233445566ff") for line in holds(parts[0])), f"{holds(parts[0])}")
        again = learn(folder / "again.model", shards[0], settings, ("b,a", "d,c"))
        refuse(both, "merge", *parts, again, "-o", folder / "no.model")
        refuse("again.model: ", "merge", *parts, again, "-o", folder / "no.model")
        refuse("shard 1/3", "merge", *parts, again, "-o", folder / "no.model")
        other_settings = learn(folder / "again.model", shards[0], [*settings, "--block", 7])
        refuse(both, "merge", parts[0], other_settings, "-o", folder / "no.model")
        must("merge", *parts[:2], "-o", folder / "two.model")
        check(sorted(holds(folder / "two.model")) == sorted(holds(parts[0]) + holds(parts[1])), "a merged model lists the parts of both")
        refuse(both, "merge", folder / "two.model", parts[1], "-o", folder / "no.model")
        text = must("merge", *parts[:1], parts[2], "-o", folder / "no.model", quiet=False)
        check(text.count("note: shard 2 of 3 is not in the model") == 2, f"once for each phase: {text}")
        (folder / "no.model").unlink()
        text = must("merge", folder / "two.model", parts[2], "-o", folder / "three.model", quiet=False)
        check("note:" not in text and len(holds(folder / "three.model")) == 6, text)

        # taken back, a part can be merged again
        must("forget", folder / "three.model", "--features", shards[1], "-o", folder / "less.model")
        check(not any(" 2/3 " in line for line in holds(folder / "less.model")), f"forgotten: {holds(folder / 'less.model')}")
        must("merge", folder / "less.model", parts[1], "-o", folder / "back.model")
        off = distance(folder / "back.model", folder / "three.model")
        check(off < 1e-8, f"{name}: forgotten and merged again: off by {off:.1e}")

        # some of its images are not the whole part
        table.save(folder / "some.st", slice(0, 3))
        must("forget", folder / "three.model", "--features", folder / "some.st", "-o", folder / "less.model")
        check(len(holds(folder / "less.model")) == 6, "the rest of the part is still there")
        refuse(both, "merge", folder / "less.model", parts[0], "-o", folder / "no.model")

    # the same images of other classes, and a phase that goes as a whole (parts)
    left, right = (learn(folder / f"{c}.model", shards[0], settings, [c]) for c in ("a,b", "c,d"))
    must("merge", left, right, "-o", folder / "both.model")
    check(sorted(holds(folder / "both.model")) == sorted(holds(left) + holds(right)), "other classes")
    must("forget", folder / "both.model", "--phase", 1)
    check(holds(folder / "both.model") == holds(right), "a phase that was forgotten")
    must("merge", folder / "both.model", left, "-o", folder / "whole.model")
    must("learn", folder / "both.model", "--features", shards[0], "--classes", "a,b")
    check(sorted(holds(folder / "both.model")) == sorted(holds(left) + holds(right)), "and learned again")
    before = (folder / "both.model").read_bytes()
    refuse("the model has already learned these images of these classes", "learn", folder / "both.model", "--features", shards[0], "--classes", "b,a")
    check((folder / "both.model").read_bytes() == before, "a part that is learned twice changes nothing")
    must("learn", folder / "both.model", "--features", shards[1], "--classes", "a,b")
    check(len(holds(folder / "both.model")) == 3, "more images of known classes")

    # without checksums, from .npy files and with other labels
    np.save(folder / "x.npy", table.x)
    (folder / "names").write_text("\n".join(NAMES))
    made = []
    for i, rows in enumerate((slice(0, 60), slice(60, 120), slice(0, 60))):
        labels = np.zeros_like(table.y)
        labels[rows] = table.y[rows]
        np.save(folder / "y.npy", labels)
        made.append(folder / f"npy{i}.model")
        must("learn", made[-1], "--features", folder / "x.npy", "--labels", folder / "y.npy", "--names", folder / "names", "--classes", "a,b", *settings)
    must("merge", *made[:2], "-o", folder / "merged.model")
    refuse(both, "merge", made[0], made[2], "-o", folder / "no.model")
    check(not (folder / "no.model").exists(), "nothing was written")


def overlapping(folder):
    """Shards of the same extraction that was divided in several ways, one batch after another."""
    batches, rows = 5, 8
    table = Table(batches * rows)
    settings = [*EXACT["one sum"], *ALWAYS]
    made = {}
    for shards in 1, 2, 3, 4:
        for shard in range(1, shards + 1):
            first, last = batches * (shard - 1) // shards, batches * shard // shards
            for known in {}, {"batches": str(batches)}:
                path = folder / f"{shard} of {shards} {len(known)}"
                table.save(folder / "s.st", slice(first * rows, last * rows), shard=f"{shard}/{shards}", extraction="00112233445566ff", **known)
                made[shard, shards, len(known)] = learn(path, folder / "s.st", settings, ["a,b"]), set(range(first, last))
    check(holds(made[2, 3, 1][0])[0].endswith(" 2/3 00112233445566ff 5"), f"the batches: {holds(made[2, 3, 1][0])}")
    common = "of the same extraction have pictures in common: merging would count them twice"
    for (i, n, known), (path, own) in made.items():
        for (j, m, also), (other, others) in made.items():
            if not known or (i, n) >= (j, m) or (n == m and also):
                continue
            elif own & others:
                refuse(f"shard {i}/{n} and shard {j}/{m} {common}", "merge", path, other, "-o", folder / "no.model")
            else:
                must("merge", path, other, "-o", folder / "both.model")
    refuse(f"shard 1/2 and shard 1/4 {common}", "merge", made[1, 2, 0][0], made[1, 4, 0][0], "-o", folder / "no.model")  # of version 0.6
    must("merge", made[1, 2, 0][0], made[3, 4, 0][0], "-o", folder / "both.model")
    table.save(folder / "s.st", slice(0, rows), shard="1/4", extraction="00112233445566ff", batches="5")
    refuse("the model has already learned some of these images", "learn", made[1, 2, 1][0], "--features", folder / "s.st", "--classes", "a,b")
    table.save(folder / "s.st", slice(0, rows), shard="1/4", extraction="00112233445566fe", batches="5")
    must("learn", made[1, 2, 1][0], "--features", folder / "s.st", "--classes", "a,b")
    check(not (folder / "no.model").exists(), "nothing was written")


def idle(folder):
    """Shards that have nothing to learn do not end a job."""
    table = Table(20)
    table.y[:10] = [1, 0, 0, 0]
    shards = shards_of(folder, table, 2)
    text = must("learn", folder / "idle.model", "--features", shards[0], "--classes", "c,d")
    check("no picture of the classes" in text and not (folder / "idle.model").exists(), text)
    refuse("no class 'e'", "learn", folder / "idle.model", "--features", shards[0], "--classes", "c,e")
    table.save(folder / "plain.st", slice(0, 10))
    refuse("no image has any of the 2 classes", "learn", folder / "idle.model", "--features", folder / "plain.st", "--classes", "c,d")
    empty = table.save(folder / "empty.st", slice(0, 0), shard="1/2", extraction="00112233445566ff")
    text = must("learn", folder / "idle.model", "--features", empty, "--classes", "c,d")
    check("no picture of the classes" in text and not (folder / "idle.model").exists(), text)
    refuse("shard 1/2 has no pictures", "eval", learn(folder / "m.model", folder / "plain.st", ALWAYS, ["a"]), "--features", empty)
    refuse("no features", "learn", folder / "idle.model", "--features", table.save(folder / "nothing.st", slice(0, 0)), "--classes", "c,d")
    refuse("none of the files has a row", "merge", empty, table.save(folder / "e2.st", slice(0, 0), shard="2/2", extraction="00112233445566ff"),
           "-o", folder / "no.st")


for test in joins, refusals, models, against_numpy, repeated, overlapping, idle:
    with tempfile.TemporaryDirectory() as name:
        test(Path(name))
sys.exit(finish())
