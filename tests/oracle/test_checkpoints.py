#!/usr/bin/python3
"""Checkpoints against the numbers that torch wrote, and against files made here by Python's own pickle and zipfile.

torch is not needed (torch_file.py).
The library's side is the program of the unit tests, which prints what a file holds."""
import argparse
import collections
import datetime
import hashlib
import json
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True
from torch_file import Storage, Tensor, write_legacy, write_zip


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


source = os.environ.get("L3A_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
build = os.environ.get("L3A_BUILD", os.path.join(source, "build"))
shared = os.environ.get("L3A_SHARED", os.path.join(source, "..", "shared"))
reader = os.path.join(build, "tests", "test_checkpoint")
command = os.path.join(build, "l3a")
if not os.path.exists(reader):
    skip(f"{reader} is not built")

# ---- What the library reads ----

def read(paths):
    """{path: {"form", "sha256", "tensors": {name: (type, shape, text of values)}} or {"error", "text", "hint"}}"""
    output = subprocess.run([reader, *paths], stdout=subprocess.PIPE, check=True, text=True).stdout
    found, now = {}, None
    for line in output.splitlines():
        what, *fields = line.split("\t")
        if what == "path":
            now = found[fields[0]] = {"tensors": {}}
        elif what == "file":
            now["form"], now["sha256"] = fields
        elif what == "error":
            now["error"], now["text"], now["hint"] = fields
        else:
            name, kind, shape, values = fields
            now["tensors"][name] = kind, tuple(int(size) for size in shape.split(",") if size), values
    return found


def numbers(text):
    return [float.fromhex(value) for value in text.split(",") if value]


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


TYPES = {"Half": "F16", "BFloat16": "BF16", "Float": "F32", "Double": "F64", "Char": "I8", "Byte": "U8", "Bool": "U8", "Int": "I32",
         "Long": "I64", "Untyped": "U8"}


def check(found, expected, what):
    assert "error" not in found, f"{what}: {found['text']}"
    assert list(found["tensors"]) == list(expected), f"{what}: {list(found['tensors'])}, expected {list(expected)}"
    for name, tensor in expected.items():
        kind, shape, values = found["tensors"][name]
        assert kind == TYPES[tensor.storage.kind], f"{what}: {name}: {kind}"
        assert shape == tensor.shape, f"{what}: {name}: {shape}"
        assert numbers(values) == [single(value) for value in tensor.values()], f"{what}: {name}: {values}"


# ---- The cases ----

def golden():
    folder = os.path.join(shared, "golden", "pth")
    if not os.path.exists(os.path.join(folder, "expected.json")):
        return False
    with open(os.path.join(folder, "expected.json")) as file:
        files = json.load(file)["files"]
    kinds = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "bool": "U8"}
    found = read([os.path.join(folder, name) for name in files])
    for name, about in files.items():
        path = os.path.join(folder, name)
        assert "error" not in found[path], found[path]
        assert found[path]["form"] == ("torch legacy" if "legacy" in name else "torch zip")
        assert found[path]["sha256"] == hashlib.sha256(open(path, "rb").read()).hexdigest()
        assert list(found[path]["tensors"]) == list(about["tensors"])
        for tensor, expected in about["tensors"].items():
            kind, shape, values = found[path]["tensors"][tensor]
            assert kind == kinds[expected["dtype"]] and list(shape) == expected["shape"], (name, tensor, kind, shape)
            assert numbers(values) == [single(value) for value in expected["values"]], (name, tensor)
    print(f"{len(files)} files of torch: every value is right")
    return True


def backbone():
    path = os.path.join(shared, "backbones", "vit_tiny_patch16_224.safetensors")
    if not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        content = file.read()
    length = struct.unpack("<Q", content[:8])[0]
    header = {name: about for name, about in json.loads(content[8:8 + length]).items() if name != "__metadata__"}
    found = read([path])[path]
    assert found["form"] == "safetensors" and found["sha256"] == hashlib.sha256(content).hexdigest()
    assert set(found["tensors"]) == set(header)
    for name, about in header.items():
        kind, shape, values = found["tensors"][name]
        assert kind == about["dtype"] and list(shape) == about["shape"], name
        first, last = about["data_offsets"]
        assert values.count(",") + 1 == (last - first) // 4, name
        if len(shape) == 1:
            assert numbers(values) == list(struct.unpack(f"<{(last - first) // 4}f", content[8 + length + first:8 + length + last])), name
    print(f"the ViT-Tiny: {len(header)} tensors")
    return True


def state():
    base = Storage("Float", [0.25 * i - 3 for i in range(24)])
    return collections.OrderedDict([
        ("body.conv1.0.weight", Tensor(base, (2, 3, 4), parameter=True)),
        ("turned", Tensor(base, (4, 6), (1, 4))),
        ("slice", Tensor(base, (2, 3), (8, 2), first=5)),
        ("repeated", Tensor(base, (3, 2), (0, 1), first=3)),
        ("half", Tensor(Storage("Half", [1.5, -0.0625, 2.0 ** -24, 65504]), (2, 2))),
        ("brain", Tensor(Storage("BFloat16", [1.0, -2.5, 0.0078125]), (3,))),
        ("double", Tensor(Storage("Double", [0.1, 1e-50]), (2,))),
        ("scalar", Tensor(Storage("Float", [2.5]), ())),
        ("empty", Tensor(Storage("Float", []), (0, 7))),
        ("long", Tensor(Storage("Long", [1 << 40]), ())),
        ("int", Tensor(Storage("Int", [-3, 4]), (2, 1))),
        ("char", Tensor(Storage("Char", [-128, 127]), (2,))),
        ("byte", Tensor(Storage("Byte", [0, 255]), (2,))),
        ("bool", Tensor(Storage("Bool", [True, False]), (2,))),
        ("bytes", Tensor(Storage("Untyped", [1, 2, 3]), (3,))),
    ])


def wrappings():
    """name: (object, expected tensors)"""
    weights = state()
    beside = {"epoch": 17, "args": argparse.Namespace(lr=1e-4, layers=[3, 4]), "when": datetime.datetime(2024, 5, 6), "set": {1, 2},
              "best": Tensor(Storage("Float", [81.8]), ()), "long": 1 << 100, "bytes": b"x" * 300, "text": "é" * 200, "none": None,
              "default": collections.defaultdict(list, a=[1]), "frozen": frozenset([1]), "complex": 1 + 2j}
    circle = {"state_dict": weights}
    circle["self"] = circle
    parallel = collections.OrderedDict((f"module.{name}", tensor) for name, tensor in weights.items())
    many = {f"layer.{i}.weight": Tensor(Storage("Float", [i]), (1,)) for i in range(3000)}
    other = collections.OrderedDict((name, Tensor(Storage("Float", [-9]), (1,))) for name in weights)
    wrapped = lambda prefix: collections.OrderedDict((prefix + name, tensor) for name, tensor in weights.items())
    headed = collections.OrderedDict(wrapped("module.backbone."), **{"module.head.weight": Tensor(Storage("Float", [1]), (1,))})
    both = collections.OrderedDict([*wrapped("model.").items(), *other.items()])
    with_others = collections.OrderedDict(weights, note="a text", short=Tensor(Storage("Short", [1]), (1,)))
    return {
        "top": (weights, weights),
        "plain dict": (dict(weights), weights),
        "model": ({**beside, "model": weights}, weights),
        "state_dict": ({**beside, "model": "vit", "state_dict": weights}, weights),
        "model_state": ({"model_state": weights, **beside}, weights),
        "nested": ({"model": {"epoch": 1, "state_dict": weights}}, weights),
        "parallel": ({"state_dict": parallel}, weights),
        "teacher": ({**beside, "student": other, "teacher": weights}, weights),
        "teacher with a head": ({"teacher": headed, "student": other}, {**weights, "head.weight": headed["module.head.weight"]}),
        "student": ({"student": weights, "optimizer": {"state": {}}}, weights),
        "plain before its running mean": ({"state_dict_ema": other, "ema": other, "model_ema": other, "state_dict": weights}, weights),
        "running mean": ({"optimizer": {"state": {}}, "model_ema": weights}, weights),
        "running mean inside": ({"ema": {"model": weights}}, weights),
        "last running mean": ({**beside, "state_dict_ema": weights}, weights),
        "compiled": (wrapped("_orig_mod."), weights),
        "compiled and parallel": (wrapped("module._orig_mod.module."), weights),
        "lightning": ({"state_dict": wrapped("model.backbone."), "pytorch-lightning_version": "2.1"}, weights),
        "with and without a prefix": (both, both),
        "circle": (circle, weights),
        "many": (many, many),
        "with others": (with_others, weights),
    }


def made(folder):
    cases, paths = wrappings(), {}
    for name, (thing, expected) in cases.items():
        for protocol in (2, 3, 4, 5):
            for form in ("zip", "wide", "legacy"):
                path = os.path.join(folder, f"{name}-{protocol}-{form}.bin")
                if form == "legacy":
                    write_legacy(path, thing, protocol)
                else:
                    write_zip(path, thing, protocol, name=f"my {name}", wide=form == "wide")
                paths[path] = expected
    found = read(list(paths))
    for path, expected in paths.items():
        check(found[path], expected, os.path.basename(path))
        assert found[path]["form"] == ("torch legacy" if "legacy" in path else "torch zip")
    print(f"{len(paths)} files made here: every value is right")


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        values = struct.pack(f"<{len(tensor.values())}f", *tensor.values())
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def shards(folder):
    """One checkpoint in three files and an index, in each form: its values, and its SHA-256 as sha256sum gives it."""
    weights = {f"module.layer.{i}.weight": Tensor(Storage("Float", [i, i + 0.5]), (2,)) for i in range(7)}
    expected = {name.removeprefix("module."): tensor for name, tensor in weights.items()}
    writers = {"safetensors": (write_safetensors, "model-{}-of-3.safetensors", "model.safetensors.index.json"),
               "torch zip": (write_zip, "pytorch_model-{}-of-3.bin", "pytorch_model.bin.index.json"),
               "torch legacy": (write_legacy, "pytorch_model-{}-of-3.bin", "pytorch_model.bin.index.json")}
    for form, (write, pattern, index_name) in writers.items():
        place = os.path.join(folder, form)
        os.mkdir(place)
        order = [3, 1, 2]  # as the index first mentions them
        owners = {name: order[i * 3 // 7] for i, name in enumerate(weights)}
        for number in order:
            write(os.path.join(place, pattern.format(number)), {name: tensor for name, tensor in weights.items() if owners[name] == number})
        index = os.path.join(place, index_name)
        with open(index, "w") as file:
            json.dump({"metadata": {"total_size": 56}, "weight_map": {name: pattern.format(owners[name]) for name in weights}}, file, indent=2)
        names = [index_name, *(pattern.format(number) for number in order)]
        lines = subprocess.run(["sha256sum", *names], cwd=place, stdout=subprocess.PIPE, check=True).stdout
        found = read([index, place])
        for path in (index, place):
            assert found[path]["form"] == form and found[path]["sha256"] == hashlib.sha256(lines).hexdigest(), found[path]
            assert sorted(found[path]["tensors"]) == sorted(expected), found[path]
            check({"tensors": {name: found[path]["tensors"][name] for name in expected}}, expected, form)
        swapped = [os.path.join(place, pattern.format(number)) for number in (1, 2)]
        os.rename(swapped[0], swapped[0] + "~")
        assert read([index])[index]["error"] == "L3A_ERROR_NOT_FOUND"
        os.rename(swapped[1], swapped[0])
        os.rename(swapped[0] + "~", swapped[1])
        assert "but the index says that it is in" in read([index])[index]["text"], read([index])
    print("checkpoints in three files, with an index, in each form")


def refused(folder):
    path = os.path.join(folder, "refused.pth")

    def expect(status, text):
        found = read([path])[path]
        assert found.get("error") == status and text in found["text"] and path in found["text"] and found["hint"], found

    write_zip(path, state(), compression=zipfile.ZIP_DEFLATED)
    expect("L3A_ERROR_FORMAT", "compressed")
    write_zip(path, {"epoch": 1})
    expect("L3A_ERROR_FORMAT", "no weights")
    write_zip(path, [1, 2, 3])
    expect("L3A_ERROR_FORMAT", "no weights")
    write_zip(path, {"w": Tensor(Storage("Float", [1, 2]), (3,))})
    expect("L3A_ERROR_TRUNCATED", "tensor 'w' needs 12 bytes")
    write_legacy(path, {"w": Tensor(Storage("Float", [1, 2]), (3,))})
    expect("L3A_ERROR_TRUNCATED", "tensor 'w' needs 12 bytes")
    write_legacy(path, {"w": Tensor(Storage("Float", [1, float("inf")]), (2,))})
    expect("L3A_ERROR_DATA", "tensor 'w': element 1 is inf")
    write_zip(path, {"w": Tensor(Storage("Double", [1e300]), (1,))})
    expect("L3A_ERROR_DATA", "tensor 'w': element 0")
    write_zip(path, {"w": Tensor(Storage("Float", [1.0] * 1000), (1000,))})
    content = bytearray(open(path, "rb").read())
    content[content.index(struct.pack("<f", 1.0) * 8)] ^= 1
    open(path, "wb").write(content)
    expect("L3A_ERROR_CHECKSUM", "tensor 'w'")
    print("broken files are refused, and say why")


class Attack:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def attacks(folder):
    victim = os.path.join(folder, "victim")
    line = f"touch '{victim}'"
    weights = {"w": Tensor(Storage("Float", [1, 2]), (2,))}
    evil = {"system": Attack(os.system, line), "exec": Attack(exec, f"open({victim!r}, 'w')"), "eval": Attack(eval, f"open({victim!r}, 'w')"),
            "popen": Attack(subprocess.Popen, ["touch", victim]), "import": Attack(__import__, "os"), "nested": Attack(Attack, os.system, line)}
    paths = []
    for name, attack in evil.items():
        for place, thing in {"value": {"model": {**weights, "evil": attack}}, "beside": {**weights, "args": [attack, (attack,)]},
                             "top": attack, "key": {"state_dict": weights, "x": {"y": attack}}}.items():
            for protocol in (2, 4):
                for write in (write_zip, write_legacy):
                    paths.append(os.path.join(folder, f"attack-{name}-{place}-{protocol}-{write.__name__}.pth"))
                    write(paths[-1], thing, protocol)
    found = read(paths)
    assert not os.path.exists(victim)
    for path in paths:
        if "-top-" in path:
            assert found[path]["error"] == "L3A_ERROR_FORMAT", found[path]
        else:
            check(found[path], weights, path)
    victims = [pickle.dumps(Attack(os.system, line), protocol) for protocol in (0, 1, 2, 5)]
    for data in victims:
        pickle.loads(data)
        assert os.path.exists(victim), "the attack itself does not work, so the test proves nothing"
        os.remove(victim)
    print(f"{len(paths)} attacks: nothing was run")


def info(folder):
    if not os.path.exists(command):
        return
    path = os.path.join(folder, "info.pth")
    write_zip(path, {"epoch": 3, "model_ema": state(), "model": state(), "optimizer": {"state": {}, "hidden\x1b": {}}, "\x1b[31m": {}})
    about = json.loads(subprocess.run([command, "info", "--format", "json", path], stdout=subprocess.PIPE, check=True, text=True).stdout)
    assert about["kind"] == "checkpoint" and about["metadata"] == {"form": "torch zip", "dict": "model", "beside": "model_ema, optimizer"}, about
    assert [tensor["name"] for tensor in about["tensors"]] == list(state())
    assert all(tensor["verified"] for tensor in about["tensors"])
    print("l3a info lists a checkpoint's tensors")


with tempfile.TemporaryDirectory() as folder:
    made(folder)
    shards(folder)
    refused(folder)
    attacks(folder)
    info(folder)
missing = [name for name, case in (("golden/pth", golden), ("backbones", backbone)) if not case()]
if missing:
    skip(f"{' and '.join(missing)} are not in {shared}; the rest passed")
