"""Networks as people download them, against numbers that timm, transformers and torchvision have made (tests/golden).

features   of every network, on every back end, under timm's names. The relative L2 error to timm's float64 is at most the larger of 1e-5 and
           twice that of PyTorch's float32. Giants have fewer blocks than published.
layers     of one network of each kind: tokens or stages, as timm has them.
namings    the same tensors under the names of other libraries, with the configuration beside them: the same features, to the last bit, and
           nothing of the image tower is skipped.
positions  resized, against timm, DINOv2's authors and transformers.
pixels     after resizing and cutting as the configuration beside the checkpoint says: the same bytes as timm's and transformers' on Pillow.

test_networks.py [WORD] is about the networks whose names contain the word. L3A_GOLDEN_NETWORKS names another file of networks, such as
that of tools/make_goldens.py --full."""
import base64
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
SOURCE = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.append(str(SOURCE / "tools"))
import feature_file
import network_namings
from golden_fill import fill_all, input_picture, picture_of, uniform
from support import check, finish

PROGRAM = Path(os.environ["L3A_BUILD"]) / "tests" / "network_outputs"
GOLDEN = SOURCE / "tests" / "golden"
LEAST_TOLERANCE = 1e-5
POSITION_TOLERANCE = 5e-6  # of numbers from 0 to 1: theirs are computed in float32, and so are their coordinates up to 37, to 2e-6
STATISTICS_TOLERANCE = 1e-5
ACTIVATIONS = {"gelu": "gelu", "quick_gelu": "quick_gelu", "gelu_tanh": "tanh_gelu"}


def read(path):
    with gzip.open(path) as file:
        return json.load(file)


def numbers(text, kind="<f4"):
    return np.frombuffer(base64.b64decode(text), kind)


def distance(found, expected):
    return np.linalg.norm(found.astype(np.float64).ravel() - expected.ravel()) / np.linalg.norm(expected)


# ---- Running ----

def write_network(folder, tensors, config=None, config_name="config.json"):
    feature_file.save(folder / "network.safetensors", tensors, {})
    (folder / config_name).unlink(missing_ok=True)
    if config:
        (folder / config_name).write_text(json.dumps(config))


def run(folder, settings, *, pictures="pictures"):
    """What the recipe has become, and {(back end, output): numbers [channels][height][width]} of the one picture."""
    done = subprocess.run([PROGRAM, folder / "network.safetensors", folder / pictures, *(f"{name}={value}" for name, value in settings.items())],
                          capture_output=True)
    if done.returncode:
        check(False, f"{settings}: {done.stderr.decode()}")
        return {}, {}
    line, data = done.stdout.split(b"\n", 1)
    recipe = dict(part.split(" ", 1) if " " in part else (part, "") for part in line.decode().split(" | "))
    outputs = {}
    while data:
        head, data = data.split(b"\n", 1)
        back_end, *name, _, channels, height, width = head.decode().split(" ")
        shape = int(channels), int(height), int(width)
        size = 4 * int(np.prod(shape))
        outputs[back_end, " ".join(name)] = np.frombuffer(data[:size], "<f4").reshape(shape)
        data = data[size:]
    return recipe, outputs


# ---- Features ----

def settings_of(facts):
    """What the file and its names do not show, as a user would give it."""
    settings = {"side": facts["side"]}
    if "heads" in facts:
        settings.update(heads=facts["heads"], activation=ACTIVATIONS[facts["activation"]])
    if "epsilon" in facts:
        settings["epsilon"] = facts["epsilon"]
    if facts.get("stride") == "first":
        settings["stride_first"] = 1
    if facts.get("positions", {}).get("offset"):
        settings["offset"] = 1
    return settings


def pool_settings(pool):
    """"layer 6 cls" is the class token after six blocks."""
    if not pool.startswith("layer"):
        return {"pool": pool}
    _, layer, name = pool.split(" ")
    return {"layer": layer, "pool": name}


def is_ours(facts):
    """Not timm's and transformers' way to resize the positions of DINOv2 without registers, which is not that of its training."""
    positions = facts.get("positions")
    own_offset = facts.get("patch") == 14 and facts.get("prefix") == 1
    return not positions or (positions["offset"] > 0 if own_offset else positions["antialias"] or positions["offset"] > 0)


def compare_features(title, network, pool, outputs, output="only features"):
    expected = network["pools"][pool]
    exact = numbers(expected["values"]).astype(np.float64)
    allowed = max(LEAST_TOLERANCE, 2 * expected["float32_error"])
    found = {back_end: values for (back_end, name), values in outputs.items() if name == output}
    errors = {back_end: distance(values, exact) for back_end, values in found.items()}
    for back_end, error in errors.items():
        check(found[back_end].size == expected["width"] and error <= allowed, f"{title}, {pool}, {back_end}: {error:.1e}; {allowed:.1e} is allowed")
    check(errors, f"{title}, {pool}: no features")
    return max(errors.values(), default=0)


def compare_layers(title, network, outputs):
    """Means, root mean squares and the first numbers of tokens, or of the stages of a network of convolutions."""
    layers = {name: (shape, *rest) for name, shape, *rest in network["layers"]}
    compared = 0
    for (back_end, name), values in outputs.items():
        if name == "tokens":
            of, values = "norm", values[..., 0].T
        elif name.startswith("stage"):
            number = int(name[len("stage"):])
            blocks = [layer for layer in layers for start in (f"layer{number}.", f"body.layer{number}.", f"stages.{number - 1}.blocks.")
                      if layer.startswith(start) and layer[len(start):].isdigit()]
            if not blocks:  # of a vision transformer, whose layers have other tokens as well
                continue
            of = max(blocks, key=lambda layer: int(layer.rsplit(".", 1)[1]))
        else:
            continue
        shape, mean, square, first = layers[of]
        exact = values.astype(np.float64)
        found = [exact.mean(), np.sqrt((exact**2).mean()), *exact.ravel()[:4]]
        good = list(values.shape) == shape and np.abs(np.array(found) - [mean, square, *first]).max() <= STATISTICS_TOLERANCE * max(1, square)
        check(good, f"{title}, {back_end}, {name}: {found}; timm's {of} has {[mean, square, *first]}")
        compared += 1
    check(compared, f"{title}: no layer was compared")


def compare_naming(folder, title, network, naming, rules, weights, base):
    """base: the pool, and the features of the fastest back end under timm's names; without them, the golden features count."""
    pool, features = base
    settings = settings_of(network["facts"])
    if naming["config"]:
        for name in ("heads", "activation", "epsilon", "stride_first"):
            settings.pop(name, None)
    others = network_namings.renamed(weights, rules)
    for name in network_namings.besides(rules):
        others[name] = np.zeros(2, np.float32)
    write_network(folder, others, naming["config"])
    recipe, outputs = run(folder, {**settings, **pool_settings(pool), "outputs": "features", "back_end": "best"})
    title = f"{title} as {naming['naming']}"
    if not outputs:
        return
    if features is None:
        compare_features(title, network, pool, outputs)
    else:
        check(next(iter(outputs.values())).tobytes() == features.tobytes(), f"{title}: other features than under timm's names")
    if naming["config"]:
        facts = network["facts"]
        found = {name: recipe[name] for name in ("heads", "epsilon", "activation")}
        check("heads" not in facts or (found["heads"] == str(facts["heads"]) and float(found["epsilon"]) == facts["epsilon"] and
                                       found["activation"] == ACTIVATIONS[facts["activation"]]), f"{title}: {found} from its configuration, {facts}")
    known = {other.removeprefix("module.") for name, other, _ in rules if name == "-"}
    tower = [name for name in recipe["skipped"].split(", ") if name and not any(other.startswith(name.split(" (")[0]) for other in known)]
    check(all(is_head(name) for name in tower), f"{title}: skipped {recipe['skipped']}")


def is_head(name):
    return any(part in name for part in ("head", "classifier", "fc", "heads", "proj", "text_model", "transformer"))


def compare_network(folder, network, namings):
    facts, title = network["facts"], f"{network['model']} {network['arguments'] or ''}{network['facts']['side']}"
    weights = fill_all({name: tuple(shape) for name, shape in network["tensors"]}, network)
    input_picture(facts["side"]).astype("<f4").tofile(folder / "pictures")
    settings, worst = settings_of(facts), 0
    convolutions = "heads" not in facts
    pools = ["mean"] if convolutions else list(network["pools"])
    base = pools[0], None
    if is_ours(facts) and not facts.get("magnitude"):  # timm's names have no place for the magnitude
        write_network(folder, weights)
        for pool in pools:
            asked = {} if convolutions else pool_settings(pool)
            whole = pool == pools[0] and "layers" in network
            _, outputs = run(folder, {**settings, **asked, **({} if whole else {"outputs": "features"})})
            worst = max(worst, compare_features(title, network, pool, outputs))
            if whole:
                compare_layers(title, network, outputs)
            if whole and convolutions and "max" in network["pools"]:
                largest = {(back_end, name): values.max((1, 2)) for (back_end, name), values in outputs.items() if name == "stage4"}
                compare_features(title, network, "max", largest, "stage4")
            if outputs and "layer" not in asked:
                base = pool, next(iter(outputs.values()))
    if convolutions:
        base = "default", base[1]
    for naming in network["namings"]:
        if is_ours(facts):
            if base[1] is None:
                network["pools"]["default"] = network["pools"]["mean"]
            compare_naming(folder, title, network, naming, namings[naming["naming"]], weights, base)
    print(f"{title}: {worst:.1e}, {len(network['namings'])} namings", flush=True)


# ---- Positions and pixels ----

def compare_positions():
    for case in read(GOLDEN / "positions.json.gz")["cases"]:
        if case["source"] == "transformers Dinov2Model":
            continue  # it resizes them in another way than their training did
        before, after, channels, prefix = (case[name] for name in ("from", "to", "channels", "prefix"))
        positions = uniform(case["name"], (before * before + prefix) * channels).astype("<f4").reshape(-1, channels)
        done = subprocess.run([PROGRAM, "positions", *map(str, (channels, before, after)), "offset" if case["offset"] else "antialiased"],
                              input=positions[prefix:].tobytes(), capture_output=True, check=True)
        found, expected = np.frombuffer(done.stdout, "<f4"), numbers(case["values"])[prefix * channels:]
        error = np.abs(found - expected).max()
        check(error <= POSITION_TOLERANCE, f"positions {before} to {after} as {case['source']}: {error:.1e}")
        print(f"positions {before} to {after}, {case['source']}: {error:.1e}")


def compare_pixels(folder):
    """The text that feature files record must say what was done, too."""
    feature_file.write_small_vit(folder / "network.safetensors")
    tensors, _ = feature_file.load(folder / "network.safetensors")
    for case in read(GOLDEN / "preprocessing.json.gz")["cases"]:
        config = case["config"]
        write_network(folder, tensors, {**config, "architecture": "vit"} if "architecture" in config else config, case["file"])
        done = subprocess.run([PROGRAM, "pixels", folder / "network.safetensors", *map(str, case["picture"])],
                              input=picture_of(*case["picture"]).tobytes(), capture_output=True)
        (folder / case["file"]).unlink()
        title = f"pixels {case['source']}, {config}, {case['picture']}"
        if done.returncode:
            check(False, f"{title}: {done.stderr.decode()}")
            continue
        text, pixels = done.stdout.split(b"\n", 1)
        expected = base64.b64decode(case["pixels"])
        wrong = sum(a != b for a, b in zip(pixels, expected))
        check(len(pixels) == len(expected) and not wrong, f"{title}: {wrong} of {len(expected)} bytes differ")
        timm = config.get("pretrained_cfg", {})
        mean = timm.get("mean") or config["image_mean"]
        bicubic = timm.get("interpolation") == "bicubic" or config.get("resample") == 3
        words = text.decode().split()
        check(words[:3] == ["rgb", "32x32", "bicubic" if bicubic else "bilinear"], f"{title}: {text}")
        check(np.allclose([float(part) for part in words[4].split(",")], mean if len(words[4].split(",")) == 3 else mean[0], atol=1e-7), f"{title}: {text}")


def main():
    golden = read(os.environ.get("L3A_GOLDEN_NETWORKS") or GOLDEN / "networks.json.gz")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for network in golden["networks"]:
            if len(sys.argv) < 2 or sys.argv[1] in network["model"]:
                compare_network(folder, network, golden["namings"])
        if len(sys.argv) < 2:
            compare_positions()
            compare_pixels(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
