#!/usr/bin/python3
"""Makes the files of one version of l3a, with its own command, and writes what that version says of them.

    tests/versions/make.py BUILD NAME [--few]

BUILD is the build folder of that version, and NAME the folder to make beside this program. --few leaves out what an earlier version has written in
the same way already. Everything is small. `expected.json` has the scores, measures and lessons that the version itself printed, also after it went on with a copy of a file:
learned another phase, taught another picture, undid a lesson. test_versions.py compares today's program with them."""
import ctypes
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from inputs import write_inputs

HERE = Path(__file__).resolve().parent
BUILD, NAME, FEW = Path(sys.argv[1]).resolve(), sys.argv[2], "--few" in sys.argv
SETTINGS = ["--dim", "16", "--gamma", "1"]
SHOWN = [f"../inputs/pictures/{i}.png" for i in range(40, 48)]
expected = {"models": {}, "taggers": {}, "packed": {}, "features": {}, "runs": {}}


def l3a(*arguments, code=0):
    done = subprocess.run([BUILD / "l3a", *map(str, arguments)], capture_output=True, text=True, env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    if done.returncode != code:
        sys.exit(f"make.py: {NAME}: l3a {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def has(command, *options):
    """Whether this version has a command, and the command these options."""
    said = subprocess.run([BUILD / "l3a", "help", command], capture_output=True, text=True)
    return said.returncode == 0 and all(f"--{option}" in said.stdout for option in options)


def scores(model, features):
    """{id: {class: score}}. While 0.1.0 was made, these were probabilities."""
    rows = json.loads(l3a("predict", model, "--features", features, "--top", 99, "--format", "json"))
    expected["probabilities"] = "probability" in rows[0]["tags"][0]
    return {row["id"]: {tag["class"]: tag.get("score", tag.get("probability")) for tag in row["tags"]} for row in rows[::3]}


def measures(model, features):
    return json.loads(l3a("eval", model, "--features", features, "--format", "json"))


def found(model):
    """{picture: {tag: score}} of a library"""
    rows = json.loads(l3a("find", model, "--format", "json"))
    return {os.path.basename(row["path"]): {tag["tag"]: tag["score"] for tag in row["tags"]} for row in rows}


def tags(model):
    """{picture: {tag: score}}"""
    rows = json.loads(l3a("tag", model, *SHOWN, "--top", 99, "--json"))
    return {os.path.basename(row["path"]): {tag["tag"]: tag["score"] for tag in row["tags"]} for row in rows}


def copy_of(path):
    """A copy to go on with, with its history."""
    shutil.copy(path, "copy")
    if os.path.exists(f"{path}.history"):
        shutil.copy(f"{path}.history", "copy.history")
    return "copy"


# ---- Feature files ----

def make_features():
    extract = ["extract", "--backbone", "../inputs/resnet.safetensors", "--data", "list:../inputs/list.csv", "--size", "32", "--quiet"]
    l3a(*extract, "--split", "train", "-o", "train.features")
    l3a(*extract, "--split", "test", "-o", "test.features")
    made = {"train.features": [40, 1], "test.features": [20, 1]}
    if has("extract", "float16") and not FEW:
        l3a(*extract, "--split", "test", "--float16", "-o", "half.features")
        made["half.features"] = [20, 1]
    if has("extract", "views") and not FEW:
        l3a(*extract, "--split", "train", "--views", 5, "-o", "views-train.features")
        l3a(*extract, "--split", "test", "--views", 5, "--float32", "-o", "views-test.features")
        made.update({"views-train.features": [40, 6], "views-test.features": [20, 6]})
    if has("extract", "shard"):
        for i in 1, 2:
            l3a(*extract, "--split", "train", "--shard", f"{i}/2", "-o", f"shard-{i}.features")
    expected["features"] = made


# ---- Models ----

def learn(model, features, settings, test="test.features"):
    quiet = ["--privacy-limit", "0"] if has("learn", "privacy-limit") else []
    l3a("learn", model, "--features", features, "--classes", "blue,green,red", *SETTINGS, *quiet, *settings)
    l3a("learn", model, "--features", features, "--classes", "dark,striped")
    describe(model, features, test)


def describe(model, features, test):
    """What the version says of a model, and of a copy that has learned another phase."""
    about = {"test": test, "predict": scores(model, test), "eval": measures(model, test)}
    copy = copy_of(model)
    l3a("learn", copy, "--features", features, "--classes", "bright")
    about["learn"] = {"features": features, "classes": "bright", "predict": scores(copy, test)}
    os.remove(copy)
    expected["models"][model] = about


def make_models():
    learn("l3a.model", "train.features", [])
    if not FEW:
        learn("recursive.model", "train.features", ["--weights", "inv", "--precision", "double", "--solver", "recursive"])
        learn("dynamic.model", "train.features", ["--pseudo", "dynamic", "--tau", "1.5", "--total-classes", "6", "--weights", "log", "--store", "float32"])
    if has("learn", "alpha"):
        parts = ["--alpha", "0.3", "--pseudo", "off", "--skip-features", "on", "--thresholds", "per-class"]
        learn("plus.model", "train.features", parts + (["--lift", "0.1"] if has("learn", "lift") else []))
    if has("learn", "alpha") and not FEW:
        learn("folded.model", "train.features", ["--alpha", "0.5", "--keep-phases", "1", "--thresholds", "global", "--weights", "none", "--pseudo", "off"])
    if NAME == "0.2.0":
        make_judged()
    if has("forget") and not FEW:
        shutil.copy("plus.model", "forgotten.model")
        l3a("forget", "forgotten.model", "--classes", "green")
        describe("forgotten.model", "train.features", "test.features")
    if has("learn", "views") and not FEW:
        learn("views.model", "views-train.features", [], "views-test.features")
        learn("views-plus.model", "views-train.features", ["--alpha", "0.3", "--pseudo", "off", "--thresholds", "per-class"], "views-test.features")


def metadata(path, **changes):
    """The metadata of a file, which is written again if something is to change."""
    content = Path(path).read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    if changes:
        header["__metadata__"].update(changes)
        header["__metadata__"]["xxh3.header"] = 16 * "0"
        text = json.dumps(header, separators=(",", ":")).encode()
        checksum = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
        checksum.restype, checksum.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
        text = text.replace(16 * b"0", b"%016x" % checksum(text, len(text)))
        Path(path).write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length:])
    return header["__metadata__"]


def make_judged():
    """A part that judges a class of another phase. Only 0.2 wrote such a file as version 4, and only if somebody else had made one."""
    learning = ["learn", "judged.model", "--features", "train.features"]
    l3a(*learning, "--classes", "blue,green", *SETTINGS, "--alpha", "0.3", "--pseudo", "off", "--privacy-limit", "0")
    l3a(*learning, "--classes", "dark")
    images = [line.split()[2] for line in metadata("judged.model")["phases"].splitlines()]
    metadata("judged.model", version="4", parts=f"1 {images[0]} 0-1\n1 {images[1]} 1-2")
    l3a(*learning, "--classes", "red")
    if metadata("judged.model")["version"] == "4":
        describe("judged.model", "train.features", "test.features")
    else:
        os.remove("judged.model")


# ---- Taggers ----

def pictures(*numbers):
    return [f"../inputs/pictures/{i:02}.png" for i in numbers]


def teach(model, *more, backbone="resnet"):
    teaching = ["teach", model, "--quiet"]
    l3a(*teaching, "--backbone", f"../inputs/{backbone}.safetensors", "--dim", "16", *more, "--tags", "red", *pictures(0, 3, 6, 9, 12))
    l3a(*teaching, "--tags", "green", *pictures(1, 4, 7, 10, 13))
    l3a(*teaching, "--tags", "blue", "--not", "red", *pictures(2, 5, 8, 11))
    l3a(*teaching, "--tags", "striped,green", "--instead", *pictures(1, 13))


def describe_tagger(model):
    """What the version says of a tagger, of a copy that was taught one more lesson, and of a copy whose last lesson was undone."""
    about = {"tags": tags(model), "lessons": l3a("history", model).count("\n")}
    copy = copy_of(model)
    l3a("teach", copy, "--quiet", "--tags", "dark", *pictures(2, 12, 17), "--instead")
    about["taught"] = tags(copy)
    copy = copy_of(model)
    l3a("undo", copy)
    about["undone"] = tags(copy)
    os.remove(copy)
    os.remove(copy + ".history")
    expected["taggers"][model] = about


def make_taggers():
    teach("taught.l3a")
    describe_tagger("taught.l3a")
    if has("teach", "views") and not FEW:
        teach("taught-views.l3a", "--views", "5")
        describe_tagger("taught-views.l3a")
    if has("teach", "unlabelled"):
        teach("unlabelled.l3a")
        l3a("teach", "unlabelled.l3a", "--quiet", "--unlabelled", "../inputs/pictures")
        describe_tagger("unlabelled.l3a")
    if not FEW:
        teach("renamed.l3a")
        l3a("rename", "renamed.l3a", "striped", "stripes")
        describe_tagger("renamed.l3a")
    if has("teach", "activation"):
        teach("network.l3a", "--heads", "2", "--activation", "quick_gelu", "--mean", "0.5", "--std", "0.5", backbone="vit")
        describe_tagger("network.l3a")
    made = [("packed.l3a", "taught.l3a", []), ("packed-int8.l3a", "taught.l3a", ["--type", "int8", "--with-backbone", "--backbone-type", "float16"])]
    if FEW:
        made.pop()
    if os.path.exists("taught-views.l3a"):
        made.append(("packed-views.l3a", "taught-views.l3a", ["--with-backbone", "--backbone-type", "float16"]))
    if os.path.exists("network.l3a"):
        made.append(("packed-network.l3a", "network.l3a", []))
    for packed, model, how in made:
        l3a("pack", model, "-o", packed, *how)
        expected["packed"][packed] = tags(packed)


def ask(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(request, timeout=30).read())


def make_index():
    """What is found in the index of a library. Its pictures will be away, and it has their features."""
    teach("indexed.l3a")
    l3a("index", "indexed.l3a", "../inputs/pictures", "--quiet")
    expected["indexes"] = {"indexed.l3a": found("indexed.l3a")}


def make_committed():
    """Changes that are only in the history: a server that was killed. What it said of the pictures before is expected."""
    teach("committed.l3a")
    server = subprocess.Popen([BUILD / "l3a", "serve", "committed.l3a", "--listen", "127.0.0.1:0", "--library", "../inputs/pictures",
                               *(["--no-index"] if has("index") else [])], stderr=subprocess.PIPE, text=True)
    port = next(line.split("127.0.0.1:")[1].split("/")[0].split()[0] for line in server.stderr if "127.0.0.1:" in line)
    ask(port, "/v1/teach", {"pictures": [{"path": f"{i}.png", "tags": ["dark"]} for i in (17, 22, 27)]})
    ask(port, "/v1/teach", {"pictures": [{"path": f"{i}.png", "tags": ["bright"]} for i in (24, 31, 38)]})
    ask(port, "/v1/undo", {})
    ask(port, "/v1/teach", {"pictures": [{"path": "32.png", "tags": ["dark", "blue"]}]})
    answer = ask(port, "/v1/tag", {"pictures": [{"path": os.path.basename(path)} for path in SHOWN], "top": 99})
    server.kill()
    server.wait()
    found = {picture["path"] if "path" in picture else picture["name"]: {tag["tag"]: tag["score"] for tag in picture["tags"]}
             for picture in answer["pictures"]}
    expected["committed"] = {"committed.l3a": {"tags": found, "lessons": l3a("history", copy_of("committed.l3a")).count("\n")}}
    os.remove("copy")
    os.remove("copy.history")


# ---- Runs ----

def clean(folder):
    """Pages are written again by every report."""
    for page in Path(folder).rglob("report.html"):
        page.unlink()


def make_runs():
    tables = ["--train", "train.features", "--test", "test.features", "--protocol", "B0-C2", *SETTINGS]
    if has("run", "privacy-limit"):
        tables += ["--privacy-limit", "0"]
    methods = "l3a,l3a+,joint" if has("run", "alpha") else "l3a,joint"
    run = ["run", *tables, "--method", methods, "--seed", "1"]
    l3a(*run, "-o", "run", "--quiet")
    expected["runs"] = {"run": run[1:]}
    clean("run")
    if has("run", "class-order") and "shuffle:1,shuffle:2" in l3a("help", "run"):
        l3a("run", *tables, "--class-order", "shuffle:1,shuffle:2", "-o", "orders", "--quiet")
        expected["runs"]["orders"] = [*tables, "--class-order", "shuffle:1,shuffle:2"]
        clean("orders")
    if FEW:
        return
    while True:  # until it was stopped between two phases
        shutil.rmtree("stopped", ignore_errors=True)
        process = subprocess.Popen([BUILD / "l3a", *run, "-o", "stopped", "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not os.path.exists("stopped/per_class.csv"):
            time.sleep(0.0005)
        process.send_signal(signal.SIGINT)
        rows = Path("stopped/metrics.csv").read_text().count("\n") - 1 if process.wait() == 130 and os.path.exists("stopped/metrics.csv") else 0
        if 0 < rows < Path("run/metrics.csv").read_text().count("\n") - 1:
            break
    l3a("sweep", *tables[:-2] if "--privacy-limit" in tables else tables, "--method", "l3a", "--weights", "sqrt,none", "-o", "sweep", "--quiet")
    for folder in "stopped", "sweep":
        clean(folder)
    if not os.path.exists("sweep/points/weights=none/run.json"):  # while 0.1.0 was made
        shutil.rmtree("sweep")


def main():
    work = Path(tempfile.mkdtemp())
    write_inputs(work / "inputs")
    (work / NAME).mkdir()
    os.chdir(work / NAME)
    make_features()
    make_models()
    if has("teach"):
        make_taggers()
    if has("serve"):
        make_committed()
    if has("index"):
        make_index()
    if NAME == "0.8.0":  # the last that took such a name, and such a network
        teach("unseen.l3a")
        l3a("teach", "unseen.l3a", "--quiet", "--tags", "ca\u200bt", *pictures(20, 23))
        describe_tagger("unseen.l3a")
        teach("vit.l3a", backbone="vit")
        describe_tagger("vit.l3a")
    make_runs()
    expected["version"] = l3a("--version").strip()
    Path("expected.json").write_text(json.dumps(expected, sort_keys=True).replace('": {"', '":\n{"') + "\n")
    for lock in Path(".").rglob(".*.l3a-lock"):
        lock.unlink()
    shutil.rmtree(HERE / NAME, ignore_errors=True)
    shutil.copytree(work / NAME, HERE / NAME)
    shutil.rmtree(work)


main()
