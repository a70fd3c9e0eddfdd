"""Trained networks as they are written, read by NumPy alone: for every naming of tests/golden, a small network under the names of that
library, as network_namings.py makes them.

untouched  every tensor of the image tower is there, in the order, with the shape and the bytes of the file; classifiers and what is
           outside of the tower are not. The new file gives the same features to the last bit, without a configuration and without options.
halved     a network whose numbers training has halved has half of every number, wherever the naming puts it.
size       positions of pictures of another size are written as they were trained.
head       a new classifier has the name and the shape that the library's own networks of so many classes have, and its classes are in
           the metadata.
types      what training has not changed keeps its type; what it has changed is float32.
torch      a checkpoint of torch.save becomes a .safetensors file with the same names and numbers, counters included.

All namings with L3A_ALL=1, otherwise one for each way in which numbers are put back and each family.
test_trained.py [WORD] is about the namings that contain the word."""
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
from golden_fill import fill_all, input_picture
from support import check, finish
from test_networks import GOLDEN, PROGRAM, is_ours, read, run, settings_of, write_network
from torch_file import Storage, Tensor, write_legacy, write_zip

CLASSIFIERS = ("head.weight", "head.bias", "head_dist.weight", "head_dist.bias", "fc.weight", "fc.bias", "head.fc.weight", "head.fc.bias")
# of what files hold besides the network, what belongs to the tower
INSIDE = {"mask_token", "embeddings.mask_token", "dinov2.embeddings.mask_token", "pooler.dense.weight", "pooler.dense.bias", "vision_model.embeddings.position_ids", "decoder_pos_embed",
          "decoder_embed.weight", "decoder_blocks.0.norm1.weight", "decoder_blocks.0.attn.qkv.weight", "decoder_pred.weight"}
# what the classes of these libraries call their last linear map; OpenAI's and OpenCLIP's have none, so it is our own
HEADS = {"TResNet, first release": "head.fc", "meta ConvNeXt": "head", "meta": "head", "open_clip, timm": "visual.trunk.head",
         "open_clip, module": "module.visual.classifier", "open_clip": "visual.classifier", "openai": "visual.classifier",
         "meta dino, teacher": "teacher.module.backbone.head", "resnet in a training": "module.fc", "torchvision convnext": "classifier.2",
         "torchvision resnet": "fc", "torchvision vit": "heads.head", "transformers ResNet": "classifier.1", "transformers": "classifier"}


# queries, keys and values in tensors of their own; positions of another size; one tensor cut in two; transposed; wrapped, with counters
CHOSEN = {"transformers DeiTForImageClassificationWithTeacher", "meta dino", "torchvision vit", "meta ConvNeXt", "resnet in a training",
          "TResNet, first release", "openai CLIP", "transformers SiglipVisionModel"}


def head_of(naming):
    return HEADS[max((name for name in HEADS if naming.startswith(name)), key=len)]


def smallest_networks(golden):
    """[(network, naming)]; of some namings also one for pictures of another size."""
    def size(network):
        return sum(int(np.prod(shape)) for _, shape in network["tensors"])

    found = {}
    for network in sorted(golden["networks"], key=size):
        resized = bool(network["facts"].get("positions"))
        for naming in network["namings"] if is_ours(network["facts"]) else []:
            found.setdefault((naming["naming"], resized), (network, naming))
    return found.values()


def write(path, to, settings):
    done = subprocess.run([PROGRAM, path, "-", *(f"{name}={value}" for name, value in {**settings, "write": to}.items())], capture_output=True)
    check(not done.returncode, f"{path} {settings}: {done.stderr.decode()}")
    return feature_file.load(to) if not done.returncode else ({}, {})


def compare(title, found, expected):
    check(list(found) == list(expected), f"{title}: names {sorted(found.keys() ^ expected.keys())[:6]}, or their order")
    for name in found.keys() & expected.keys():
        one, other = found[name], expected[name]
        check(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes(),
              f"{title}: {name} {one.dtype} {one.shape}, expected {other.dtype} {other.shape}, or other numbers")


def expected_tensors(weights, rules, dropped):
    made = network_namings.renamed({name: values for name, values in weights.items() if name not in dropped}, rules)
    return {**made, **{name: np.zeros(2, np.float32) for name in network_namings.besides(rules) if name in INSIDE}}


def resize_positions(weights, facts):
    """With the library's own numbers, which test_networks.py compares with timm's."""
    positions = weights["pos_embed"][0]
    before, after = int(np.sqrt(len(positions))), facts["side"] // facts["patch"]
    front = len(positions) - before**2
    method = "offset" if facts["positions"]["offset"] else "antialiased"
    done = subprocess.run([PROGRAM, "positions", *map(str, (positions.shape[1], before, after)), method], input=positions[front:].tobytes(),
                          capture_output=True, check=True)
    made = np.frombuffer(done.stdout, np.float32).reshape(-1, positions.shape[1])
    return {**weights, "pos_embed": np.concatenate([positions[:front], made])[None]}


def in_order(tensors, names):
    return {name: tensors[name] for name in names if name in tensors}


def compare_naming(folder, network, naming, rules, pool):
    facts, title = network["facts"], f"{naming['naming']} ({network['model']}, {pool})"
    shapes = {name: tuple(shape) for name, shape in network["tensors"]}
    weights = fill_all(shapes, network)
    others = network_namings.renamed(weights, rules)
    others.update({name: np.zeros(2, np.float32) for name in network_namings.besides(rules)})
    write_network(folder, others, naming["config"])
    weights = resize_positions(weights, facts) if facts.get("positions") else weights
    input_picture(facts["side"]).astype("<f4").tofile(folder / "pictures")
    settings = {**settings_of(facts), **({} if pool == "default" else {"pool": pool})}
    dropped = [name for name in CLASSIFIERS if not (pool == "projection" and name == "head.weight")]
    alone = folder / "alone"
    alone.mkdir(exist_ok=True)

    found, metadata = write(folder / "network.safetensors", alone / "network.safetensors", settings)
    compare(f"{title}, untouched", found, in_order(expected_tensors(weights, rules, dropped), others))
    check(metadata.get("format") == "pt" and metadata.get("l3a.epochs") == "3", f"{title}: {metadata}")
    (alone / "pictures").write_bytes((folder / "pictures").read_bytes())
    quick = {"outputs": "features", "back_end": "best"}
    recipe, before = run(folder, {**settings, **quick})
    recipe_alone, after = run(alone, {"mean": "own", **quick})
    check(before and [values.tobytes() for values in before.values()] == [values.tobytes() for values in after.values()],
          f"{title}: other features")
    same = "name", "side", "heads", "epsilon", "activation", "mean", "deviation"
    check([recipe.get(name) for name in same] == [recipe_alone.get(name) for name in same], f"{title}: {recipe}, alone {recipe_alone}")

    found, metadata = write(folder / "network.safetensors", alone / "network.safetensors", {**settings, "halve": 1, "classes": 3})
    head, width = head_of(naming["naming"]), next(iter(before.values())).size if before else 0
    halved = in_order(expected_tensors({name: values / np.float32(2) for name, values in weights.items()}, rules, dropped), others)
    numbers = np.arange(3 * (width + 1), dtype=np.float32)
    halved.update({f"{head}.weight": numbers[:3 * width].reshape(3, width), f"{head}.bias": numbers[3 * width:]})
    compare(f"{title}, halved", found, halved)
    check(metadata.get("l3a.classes") == "дом\na \"cat\"\nдом", f"{title}: classes {metadata.get('l3a.classes')!r}")
    print(f"{title}: {len(found)} tensors", flush=True)


def compare_types(folder):
    feature_file.write_small_vit(folder / "network.safetensors")
    tensors, metadata = feature_file.load(folder / "network.safetensors")
    kinds = np.float16, np.float64, np.float32
    mixed = {name: values.astype(kinds[i % 3]) for i, (name, values) in enumerate(tensors.items())}
    mixed["blocks.0.norm1.num_batches_tracked"] = np.array(2**62 + 1)
    feature_file.save(folder / "network.safetensors", mixed, metadata)
    mixed = {name: values for name, values in mixed.items()}
    found, _ = write(folder / "network.safetensors", folder / "new.safetensors", {})
    inexact = [name for name, values in mixed.items() if values.dtype == np.float64 and values.size and (values != values.astype(np.float32)).any()]
    check(not inexact, f"types: {inexact}")
    compare("types, untouched", found, mixed)
    found, _ = write(folder / "network.safetensors", folder / "new.safetensors", {"halve": 1})
    # half of zero is zero
    expected = {name: (values.astype(np.float32) / np.float32(2)) if values.any() and "num" not in name else values for name, values in mixed.items()}
    compare("types, halved", found, expected)


def storage_of(values):
    kinds = {np.dtype(np.float32): "Float", np.dtype(np.float16): "Half", np.dtype(np.int64): "Long"}
    return Storage(kinds[values.dtype], [*values.ravel().tolist()])


def compare_torch(folder):
    feature_file.write_small_vit(folder / "network.safetensors")
    tensors, _ = feature_file.load(folder / "network.safetensors")
    tensors["norm.weight"] = tensors["norm.weight"].astype(np.float16)
    tensors["norm.num_batches_tracked"] = np.array(2**62 + 1)
    tensors = {f"module.{name}": values for name, values in tensors.items()}
    saved = {name: Tensor(storage_of(values), values.shape) for name, values in tensors.items()}
    columns = tensors["module.blocks.0.attn.qkv.weight"]  # stored by columns
    saved["module.blocks.0.attn.qkv.weight"] = Tensor(storage_of(columns.T), columns.shape, (1, columns.shape[0]))
    counters = Storage("Long", [7, 2**62 + 1, 9, -3])  # every other one
    tensors["module.blocks.0.norm1.num_batches_tracked"] = np.array([2**62 + 1, -3])
    saved["module.blocks.0.norm1.num_batches_tracked"] = Tensor(counters, (2,), (2,), 1)
    for save in write_zip, write_legacy:
        save(folder / "network.pth", {"state_dict": saved, "epoch": 3})
        settings = {"heads": 1}
        found, _ = write(folder / "network.pth", folder / "new.safetensors", settings)
        compare(f"{save.__name__}, untouched", found, tensors)
        found, _ = write(folder / "network.pth", folder / "new.safetensors", {**settings, "halve": 1, "classes": 2})
        halved = {name: values if "num" in name or not values.any() else values.astype(np.float32) / np.float32(2) for name, values in tensors.items()}
        numbers = np.arange(2 * 65, dtype=np.float32)
        halved.update({"module.head.weight": numbers[:128].reshape(2, 64), "module.head.bias": numbers[128:]})
        compare(f"{save.__name__}, halved", found, halved)


def main():
    golden = read(GOLDEN / "networks.json.gz")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for network, naming in smallest_networks(golden):
            title = naming["naming"]
            if sys.argv[1] in title if len(sys.argv) > 1 else title in CHOSEN or os.environ.get("L3A_ALL") == "1":
                pools = ["default"] + (["projection"] if "projection" in network["pools"] else [])
                for pool in pools:
                    compare_naming(folder, network, naming, golden["namings"][title], pool)
        if len(sys.argv) < 2 or sys.argv[1] == "types":
            (folder / "config.json").unlink(missing_ok=True)
            compare_types(folder)
            compare_torch(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
