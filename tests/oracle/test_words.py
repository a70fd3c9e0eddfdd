"""Words and classifiers against other sources.

names       the 1,000 classes against two lists of other origin, which are known here by their SHA-256: the ids and names that Keras gives
            (imagenet_class_index.json, "n02099712 Labrador_retriever" for each class in its order), and the names of PyTorch's hub
            (imagenet_classes.txt of pytorch/hub). Both give the first word of each class.
hypernyms   numbers of classes below a word, counted by hand in the lists of ILSVRC-2012: 118 breeds of dogs, 59 birds.
scores      logits and log sums of a made-up classifier, and of a real one, against NumPy in double precision.
pictures    a real ViT-Tiny on pictures of VOC 2007: how many of those that a word ranks first show it.

The real checkpoint and the pictures are in ../shared; without them, that part is skipped."""
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
import feature_file
from support import check, finish, l3a

PROGRAM = Path(os.environ["L3A_BUILD"]) / "tests" / "word_classes"
SHARED = Path(os.environ.get("L3A_SHARED", "../shared"))
BACKBONE = SHARED / "backbones" / "vit_tiny_patch16_224.safetensors"
VOC = SHARED / "data" / "voc2007-small" / "VOCdevkit" / "VOC2007"
KERAS = "069abdf959ced31a64132cd2402353359a166b81bbbbbad69b57df7511587da9"
HUB = "1f386e0d1cb6e28b9c2dac651c3dea6801e98ad1b41a14ce6bb1a093d72069f5"
TOLERANCE = 2e-5  # a sum of 192 products in float32, relative to the largest logit


def ask(*arguments, rows=None):
    given = None if rows is None else np.ascontiguousarray(rows, np.float32).tobytes()
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=given, capture_output=True, check=False)
    check(done.returncode == 0, f"{arguments}: {done.stderr.decode()}")
    return done.stdout


def find(text):
    """How a word fits, and its classes."""
    fit, *classes = map(int, ask("find", text).split())
    return fit, classes


def scores(checkpoint, pool, rows, classes):
    found = np.frombuffer(ask("scores", checkpoint, pool, rows.shape[1], *classes, rows=rows), np.float32).astype(float)
    return found[:len(rows)], found[len(rows):].reshape(len(rows), len(classes))


def test_names():
    listed = [line.split(";") for line in ask("list").decode().splitlines()]
    check(len(listed) == 1000, f"{len(listed)} classes")
    keras = "\n".join(f"{number} {words[0].replace(' ', '_')}" for number, *words in listed)
    check(hashlib.sha256(keras.encode()).hexdigest() == KERAS, "the ids and names are not those of Keras")
    hub = "\n".join(words[0] for _, *words in listed)
    check(hashlib.sha256(hub.encode()).hexdigest() == HUB, "the names are not those of PyTorch's hub")


def test_hypernyms():
    for word, count in ("dog", 118), ("bird", 59), ("Labrador retriever", 1):
        fit, classes = find(word)
        check((fit, len(classes)) == (1, count), f"{word}: {len(classes)} classes instead of {count}")
    check(find("dog")[1] == list(range(151, 269)), "dogs have the rows 151 to 268")
    check(find("qwertz") == (0, []), "qwertz is no word")
    check(ask("closest", "retreiver") == b"did you mean 'retriever'?\n", "a hint")


def compare(checkpoint, pool, rows, classes, what):
    tensors, _ = feature_file.load(checkpoint)
    weight, bias = (tensors[f"head.{name}"].astype(float) for name in ("weight", "bias"))
    logits = rows[:, :weight.shape[1]].astype(np.float32).astype(float) @ weight.T + bias
    largest = logits.max(1)
    sums = largest + np.log(np.exp(logits - largest[:, None]).sum(1))
    got_sums, got_logits = scores(checkpoint, pool, rows, classes)
    scale = np.abs(logits).max()
    error = max(np.abs(got_sums - sums).max(), np.abs(got_logits - logits[:, classes]).max()) / scale
    check(error <= TOLERANCE, f"{what}: scores differ by {error:.1e} of the largest")


def test_scores(folder):
    rng = np.random.default_rng(7)
    path = folder / "made.safetensors"
    feature_file.save(path, {"head.weight": rng.normal(size=(1000, 24)).astype(np.float32),
                             "head.bias": rng.normal(size=1000).astype(np.float32)}, {})
    for count in 1, 255, 256, 257, 600:
        compare(path, "cls", rng.normal(size=(count, 24)), [999, 0, 7], f"{count} rows")
    compare(path, "cls+mean", rng.normal(size=(50, 48)), [5], "class token and mean")
    compare(path, "cls", 100 * rng.normal(size=(50, 24)), [5], "large logits")


def test_pictures(folder):
    """Twenty pictures of each class and 150 others: hardly anything else may be among the first fifteen of a word."""
    words = ["dog", "cat", "bicycle", "bus", "sheep"]
    lines = [(VOC / "ImageSets" / "Main" / f"{word}_test.txt").read_text().split() for word in words]
    names = lines[0][::2]
    shown = np.array([[value == "1" for value in line[1::2]] for line in lines]).T
    chosen = sorted({i for k in range(len(words)) for i in np.flatnonzero(shown[:, k])[:20]} | set(np.flatnonzero(~shown.any(1))[:150]))
    table = [f"{VOC / 'JPEGImages' / names[i]}.jpg,{';'.join(w for w, s in zip(words, shown[i]) if s)}" for i in chosen]
    (folder / "list.csv").write_text("path,labels\n" + "\n".join(table) + "\n")
    features = folder / "features.safetensors"
    l3a("extract", "--backbone", BACKBONE, "--data", f"list:{folder / 'list.csv'}", "--split", "all", "-o", features, "--quiet")
    tensors, metadata = feature_file.load(features)
    check(len(tensors["features"]) == len(chosen), "each picture has features")
    compare(BACKBONE, metadata["pool"], tensors["features"], list(range(0, 1000, 37)), "real features")
    for word in words:
        classes = find(word)[1]
        sums, logits = scores(BACKBONE, metadata["pool"], tensors["features"], classes)
        chance = np.exp(logits - sums[:, None]).sum(1)
        check(chance.max() < 1 + 1e-5, f"{word}: a probability of {chance.max()}")
        found = shown[chosen, words.index(word)][np.argsort(-chance)[:15]].mean()
        check(found >= 0.8, f"{word}: only {found:.2f} of the pictures that it ranks first show it")


def main():
    test_names()
    test_hypernyms()
    with tempfile.TemporaryDirectory() as name:
        test_scores(Path(name))
        missing = [path for path in (BACKBONE, VOC) if not path.exists()]
        if missing:
            print(f"skipped: pictures: {missing[0]} is not there")
        else:
            test_pictures(Path(name))
    return finish()


sys.exit(main())
