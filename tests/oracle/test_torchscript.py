#!/usr/bin/python3
"""Archives of torch.jit.save, which OpenAI's CLIP files are: tests/golden/torchscript, made by tools/make_torchscript.py, and hostile ones
that are made here. torch is not needed. If it is there, the archives are made again, and must be read in the same way."""
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
SOURCE = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))
import torchscript
from support import answer, check, finish

TESTS = Path(os.environ["L3A_BUILD"]) / "tests"
GOLDEN = SOURCE / "tests" / "golden" / "torchscript"
SETTINGS = ["heads=2", "activation=quick_gelu", "side=8"]


def read(*paths):
    """[(form, {name: (type, shape, values)}) or (error, text, hint)]"""
    lines = subprocess.run([TESTS / "test_checkpoint", *paths], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    found = []
    for line in lines:
        what, *fields = line.split("\t")
        if what == "path":
            found.append(None)
        elif what == "file":
            found[-1] = fields[0], {}
        elif what == "error":
            found[-1] = tuple(fields)
        else:
            found[-1][1][fields[0]] = tuple(fields[1:])
    return found


def features(path, *settings):
    done = subprocess.run([TESTS / "network_outputs", path, "pictures", *SETTINGS, *settings], capture_output=True)
    check(not done.returncode, f"{path}: {done.stderr}")
    return done.stdout


def compare(folder):
    """The archives have the tensors of the state dict, and the network the same features, to the last bit."""
    (_, expected), *found = read(folder / "state.pt", folder / "traced.pt", folder / "scripted.pt")
    for (form, tensors), name in zip(found, ("traced", "scripted")):
        wanted = {key: value for key, value in expected.items() if name != "scripted" or key.startswith("visual.")}
        check(form == "torchscript" and sorted(tensors) == sorted(wanted), f"{name}: {form}, {sorted(tensors)}")
        check(all(tensors[key][1:] == wanted[key][1:] for key in wanted), f"{name}: values")
        for pool in "cls", "mean", "projection":
            outputs = features(folder / f"{name}.pt", f"pool={pool}", "mean=own")
            state = features(folder / "state.pt", f"pool={pool}", "mean=own")
            check(len(outputs) > 500 and outputs.split(b"\n", 1)[1] == state.split(b"\n", 1)[1], f"{name}: features, pool {pool}")
    block = "visual.transformer.resblocks.1."
    kinds = [found[0][1][block + part][0] for part in ("attn.in_proj_weight", "mlp.c_fc.bias", "ln_1.weight")]
    check(kinds == ["F16", "F16", "F32"], f"half precision: {kinds}")


def good():
    names = {"objects": ["weight", "inner.bias"], "others": ["weight"], "foreign": ["weight"], "activation": ["weight", "other.bias"],
             "tied": ["weight", "same", "bias"], "fan": ["weight", "bias"]}
    for case, expected in names.items():
        torchscript.write("good.pt", torchscript.GOOD[case])
        form, tensors = read("good.pt")[0]
        check(form == "torchscript" and list(tensors) == expected, f"{case}: {form}, {tensors}")
        kind, shape, values = tensors["weight"]
        check((kind, shape) == ("F32", "4") and [float.fromhex(value) for value in values.split(",") if value] == [1, 2, 3, 4], f"{case}: {tensors}")


def bad():
    says = {"itself": "object 'self' is inside itself", "circle": "object 'a.up' is inside itself", "deep": "nested more than 64 deep",
            "shared": "has a second name", "one_state": "object 'second' has a second name", "empty": "no object in it has a tensor",
            "foreign": "no dict of tensors", "items": "not a container of this kind", "zero": "contains a zero byte",
            "long": "longer than 511 bytes", "twice": "tensor 'weight' is listed twice",
            "missing": "tensor 'outer.weight' is in storage '7', which is missing", "small": "tensor 'weight' needs 800 bytes"}
    check(sorted(says) == sorted(torchscript.BAD), "a message is expected of each")
    cases = {**torchscript.BAD, "very deep": torchscript.deep(60000, torchscript.ONE), "deeper": torchscript.deep(70000, torchscript.ONE),
             "many": torchscript.made() + b"}" + b"".join(b"(" + torchscript.text(f"{i}") + (b"h\1" if i else torchscript.ONE + b"q\1") + b"u" for i in range(100001)) + b"b"}
    says = {**says, "very deep": "nested more than 64 deep", "deeper": "nested marks", "many": "more than 100000 tensors"}
    for case, operations in cases.items():
        torchscript.write("bad.pt", operations)
        error, *words = read("bad.pt")[0]
        check(error in ("L3A_ERROR_FORMAT", "L3A_ERROR_TRUNCATED") and words and says[case] in words[0] and words[1], f"{case}: {error} {words}"[:300])


def command():
    """What a person sees: which option is missing, and what is skipped."""
    text = answer("info", GOLDEN / "traced.pt", quiet=False)[1]
    check("form: torchscript" in text and "--heads" in text, text)


def made_again():
    done = subprocess.run(["/usr/bin/python3", SOURCE / "tools" / "make_torchscript.py", "."], capture_output=True, text=True)
    check(not done.returncode, done.stderr)
    compare(Path())


os.environ["OMP_NUM_THREADS"] = "1"
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    Path("pictures").write_bytes(b"".join(bytes([0, 0, 128 + i % 128, 62]) for i in range(3 * 8 * 8)))
    compare(GOLDEN)
    good()
    bad()
    command()
    if importlib.util.find_spec("torch"):
        made_again()
    else:
        print("skipped: torch is not installed, so the archives are only those that are stored")
sys.exit(finish())
