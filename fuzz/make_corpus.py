#!/usr/bin/python3
"""Makes the corpora of models, feature files, run folders and text lists: make_corpus.py BUILD CORPUS

Small files that the command in BUILD writes, and the same without checksums, so that a mutation reaches what is behind them."""
import json, os, pathlib, struct, subprocess, sys, tempfile
import numpy as np

L3A, corpus = os.path.abspath(os.path.join(sys.argv[1], "l3a")), pathlib.Path(sys.argv[2]).absolute()


def l3a(*arguments):
    subprocess.run([L3A, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def keep(target, name, data):
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def without_sums(data, **changes):
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    metadata = header["__metadata__"]
    header["__metadata__"] = {**{k: v for k, v in metadata.items() if not k.startswith("xxh3.")}, **changes}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length:]


def read(path):
    return pathlib.Path(path).read_bytes()


def make_features():
    rng = np.random.default_rng(1)
    for split, rows in ("train", 24), ("test", 12):
        labels = (rng.random((rows, 4)) < 0.4).astype("i1")
        labels[np.arange(rows), np.arange(rows) % 4] = 1
        np.save(f"{split}.npy", (labels @ rng.normal(size=(4, 4)) + 0.2 * rng.normal(size=(rows, 4))).astype("f4"))
        np.save(f"{split}_labels.npy", labels)
    pathlib.Path("names").write_text("cat\ndog\neel\nfox\n")


def safetensors(tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, kind, array in tensors:
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return struct.pack("<Q", len(text)) + text + data


def feature_files():
    values = np.arange(12, dtype="f4").reshape(4, 3) / 7
    labels = np.array([[1, 0], [0, 1], [-1, 1], [1, 1]], "i1")
    ids = np.frombuffer("a.jpg\nb c.jpg\né\nd".encode(), "u1")
    records = {"classes": "cat\nhot dog", "backbone": "net", "sha256": "00", "preprocess": "none", "pool": "mean", "data": "x", "split": "y"}
    keep("features", "good", safetensors([("features", "F32", values), ("labels", "I8", labels), ("ids", "U8", ids)], records))
    keep("features", "good_half", safetensors([("features", "F16", values.astype("f2")), ("labels", "I8", labels)], records))
    keep("features", "good_double", safetensors([("features", "F64", values.astype("f8"))], {}))
    keep("features", "bad_nan", safetensors([("features", "F32", values * np.nan), ("labels", "I8", labels)], records))
    keep("features", "bad_label", safetensors([("features", "F32", values), ("labels", "I8", labels * 2)], records))
    keep("features", "bad_ids", safetensors([("features", "F32", values), ("ids", "U8", ids[:6])], records))
    keep("features", "bad_twice", safetensors([("features", "F32", values), ("labels", "I8", labels)], {"classes": "cat\ncat"}))


def model_files():
    kinds = {"sums": [], "recursive": ["--solver", "recursive"], "float32": ["--store", "float32"], "double": ["--precision", "double"],
             "plus": ["--method", "l3a+"], "skip": ["--skip-features", "on"], "literal": ["--weights", "inv", "--scaling", "literal"]}
    for name, settings in kinds.items():
        learn = ["--features", "train.npy", "--labels", "train_labels.npy", "--names", "names"]
        try:
            l3a("learn", name, *learn, "--classes", "cat,dog", "--dim", "4", "--gamma", "1", *settings)
            l3a("learn", name, *learn, "--classes", "eel")
        except subprocess.CalledProcessError:
            print(f"no model {name}")
            continue
        keep("model", f"good_{name}", read(name))
        keep("model", f"good_{name}_bare", without_sums(read(name)))
    bare = without_sums(read("sums"))
    keep("model", "bad_sum", read("sums")[:-3] + b"\0\0\1")
    keep("model", "bad_version", without_sums(bare, version="9"))
    keep("model", "bad_dim", without_sums(bare, dim="65536"))
    keep("model", "bad_width", without_sums(bare, width="4294967296"))
    keep("model", "bad_phases", without_sums(bare, phases="0 9 1 1 1 0.5 0\n"))
    keep("model", "bad_classes", without_sums(bare, classes="cat\ncat\neel\n"))


def run_folders():
    names = ["run.json", "metrics.csv", "per_class.csv", "timings.csv"]
    tables = ["--train", "train.npy", "--train-labels", "train_labels.npy", "--test", "test.npy", "--test-labels", "test_labels.npy", "--names", "names"]
    l3a("run", *tables, "--protocol", "B0-C2", "--method", "l3a,joint", "--seed", "1,2", "--dim", "8", "--gamma", "1", "-o", "run")
    parts = {name: read(f"run/{name}") for name in names}
    join = lambda parts: b"".join(b"@@" + name.encode() + b"\n" + data for name, data in parts.items())
    keep("results", "good", join(parts))
    keep("results", "good_without_timings", join({name: parts[name] for name in names[:3]}))
    keep("results", "bad_without_classes", join({name: parts[name] for name in names[:2]}))
    keep("results", "bad_order", join({**parts, "metrics.csv": b"\n".join(sorted(parts["metrics.csv"].split(b"\n"), reverse=True))}))
    keep("results", "bad_numbers", join({**parts, "metrics.csv": parts["metrics.csv"].replace(b",1,", b",18446744073709551615,")}))
    keep("results", "bad_names", join({**parts, "metrics.csv": parts["metrics.csv"].replace(b"l3a", b"<b>\x1b\xff"),
                                       "per_class.csv": parts["per_class.csv"].replace(b"l3a", b"<b>\x1b\xff")}))


def text_lists():
    texts = {"good_names": "one\ntwo\nthree\n", "good_order": "hot dog\né\ncat\ndog\n", "good_returns": "one\r\ntwo\r\nthree",
             "good_csv": 'path,labels\n"a ""b"", c.jpg",cat;dog\n\nx,\n', "bad_twice": "cat\ncat\ndog\né\n", "bad_missing": "cat\ndog\n",
             "bad_stranger": "cat\nwolf\n", "bad_empty_line": "one\n\nthree\n", "bad_quote": 'a,"b\n', "bad_after_quote": '"a"b,c\n',
             "bad_many": "," * 70 + "\n", "good_mark": "\ufeffa,b\n",
             "good_semicolons": 'path;labels\r\n"a; b";"x\ny"\r\nc;d;e\r\n', "good_tabs": "path\tlabels\na\tb\n", "bad_after_semicolon": '"a",b;"c";d\n'}
    for name, text in texts.items():
        keep("lines", name, text.encode())
    keep("lines", "bad_zero", b"one\0\ntwo\nthree\n")
    keep("lines", "bad_utf8", b"one\xff\ntwo\nthree\n")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    make_features()
    feature_files()
    model_files()
    run_folders()
    text_lists()
