#!/usr/bin/python3
"""Makes the corpora of models, packed models, histories, feature files, run folders, text lists and tar files, and the objects of TorchScript
among the pickles: make_corpus.py BUILD CORPUS

Small files that the command in BUILD writes, and the same without checksums, so that a mutation reaches what is behind them."""
import io, json, os, pathlib, struct, subprocess, sys, tarfile, tempfile
import numpy as np

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "oracle"))
import torchscript

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
    crops = np.arange(4 * 15 * 2, dtype="f4").reshape(4, 15, 2) / 7
    for name, rows, views in (("good_views", crops, "14"), ("good_few_views", crops[:, :4], "3"), ("bad_views", crops, "9"), ("bad_two_views", crops[:, :2], "1")):
        keep("features", name, safetensors([("features", "F16", rows.astype("f2")), ("labels", "I8", labels)], {**records, "views": views}))
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


def small_backbone():
    """A ViT for pictures of 8 x 8, one block deep, as narrow as its heads allow."""
    shapes = {"cls_token": [1, 1, 64], "pos_embed": [1, 5, 64], "patch_embed.proj.weight": [64, 3, 4, 4], "patch_embed.proj.bias": [64],
              "blocks.0.norm1.weight": [64], "blocks.0.norm1.bias": [64], "blocks.0.attn.qkv.weight": [192, 64], "blocks.0.attn.qkv.bias": [192],
              "blocks.0.attn.proj.weight": [64, 64], "blocks.0.attn.proj.bias": [64], "blocks.0.norm2.weight": [64], "blocks.0.norm2.bias": [64],
              "blocks.0.mlp.fc1.weight": [8, 64], "blocks.0.mlp.fc1.bias": [8], "blocks.0.mlp.fc2.weight": [64, 8], "blocks.0.mlp.fc2.bias": [64],
              "norm.weight": [64], "norm.bias": [64]}
    return safetensors([(name, "F32", np.zeros(shape, "f4") + 0.5) for name, shape in shapes.items()], {})


def packed_files():
    rng = np.random.default_rng(2)
    labels = (rng.random((12, 2)) < 0.5).astype("i1")
    labels[:2] = 1
    pathlib.Path("wide").write_bytes(safetensors([("features", "F32", rng.normal(size=(12, 64)).astype("f4")), ("labels", "I8", labels)], {"classes": "cat\ndog"}))
    pathlib.Path("vit").write_bytes(small_backbone())
    l3a("learn", "wide_model", "--features", "wide", "--classes", "cat,dog", "--dim", "4", "--gamma", "1", "--thresholds", "per-class")
    for name, arguments in {"half": [], "int8": ["--type", "int8"], "whole": ["--with-backbone", "--backbone", "vit", "--backbone-type", "float16"]}.items():
        l3a("pack", "wide_model", "-o", name, *arguments)
        keep("packed", f"good_{name}", read(name))
        keep("packed", f"bad_{name}_bare", without_sums(read(name)))
    for name, change in {"dim": {"dim": "65536"}, "width": {"width": "4294967296"}, "classes": {"classes": "cat\ncat"}, "version": {"version": "2"},
                         "wide": {"width": "2147483647", "skip-features": "off"}, "side": {"record.preprocess": "rgb 4096x4096 bilinear mean 0.5 std 0.5"}}.items():
        keep("packed", f"bad_{name}", without_sums(read("whole" if name == "side" else "half"), **change, **{"xxh3.header": "0" * 16}))
    keep("packed", "good_model", read("wide_model"))
    keep("packed", "bad_sum", read("half")[:-3] + b"\0\0\1")


def committed(whole):
    """The records as changes that were committed, and an undo of the last; the target repairs the checksums."""
    made, at, sequence = whole[:12] + b"2" + whole[13:16], 16, 0
    while at < len(whole):
        mark, description, features, *sums = struct.unpack("<8s5Q", whole[at:at + 48])
        text = whole[at + 48:at + 48 + description]
        sequence += 1
        made += struct.pack("<8s5Q", b"l3a-comm", description + 8, features, *sums) + text + struct.pack("<Q", sequence) + whole[at + 48 + description:][:features]
        at += 48 + description + features
        last = struct.unpack("<Q", text[:8])[0]
    undo = struct.pack("<13Q", last + 1, last, sequence, 0, 5, 0, 0, 0, 0, 0, 0, 0, sequence + 1)
    return made + struct.pack("<8s5Q", b"l3a-comm", len(undo), 0, 0, 0, 0) + undo


def histories():
    pathlib.Path("eye").write_bytes(small_backbone())
    source = pathlib.Path(__file__).resolve().parents[1]
    subprocess.run(["/usr/bin/python3", source / "tests/cli/make_pictures.py", "."], check=True)
    l3a("teach", "taught.l3a", "taught/00.png", "taught/01.png", "--tags", "disc", "--backbone", "eye", "--dim", "8")
    one = read("taught.l3a.history")
    keep("history", "good_one", one)
    l3a("teach", "taught.l3a", "taught/30.png", "--tags", "stripes,lines", "--not", "disc")
    l3a("teach", "taught.l3a", "taught/00.png", "--tags", "disc,stripes", "--instead")
    l3a("rename", "taught.l3a", "disc", "circle")
    l3a("rename", "taught.l3a", "lines", "stripes")
    l3a("teach", "taught.l3a", "taught/31.png", "--tags", "stripes", "--no-undo")
    whole = read("taught.l3a.history")
    keep("history", "good_all", whole)
    keep("history", "bad_cut", whole[:-30])
    keep("history", "bad_first_line", whole[:9])
    keep("history", "bad_version", whole[:12] + b"3" + whole[13:])
    keep("history", "bad_sums_committed", committed(one))
    keep("history", "bad_sum", whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    for name, at in {"rows": 11, "classes": 10, "width": 8, "back": 9, "kind": 4}.items():  # numbers of the first description
        start = 16 + 48 + 8 * at
        keep("history", f"bad_{name}", whole[:start] + struct.pack("<Q", 1 << 40) + whole[start + 8:])


def unlabelled_files():
    """A model with unlabelled pictures, one of which was taught since. Its files are here already (histories)."""
    l3a("teach", "library.l3a", "taught/00.png", "--tags", "disc", "--backbone", "eye", "--dim", "8", "--unlabelled", "taught")
    l3a("teach", "library.l3a", "taught/30.png", "--tags", "stripes")
    whole = read("library.l3a")
    bare = without_sums(whole)
    keep("model", "good_unlabelled", whole)
    keep("model", "good_unlabelled_bare", bare)
    keep("model", "bad_unlabelled", without_sums(bare, unlabelled="18446744073709551615 1 nan"))
    keep("model", "bad_unlabelled_alpha", without_sums(bare, alpha="0"))
    keep("model", "bad_unlabelled_version", without_sums(bare, version="7"))


def run_folders():
    names = ["run.json", "metrics.csv", "per_class.csv", "timings.csv"]
    tables = ["--train", "train.npy", "--train-labels", "train_labels.npy", "--test", "test.npy", "--test-labels", "test_labels.npy", "--names", "names"]
    l3a("run", *tables, "--protocol", "B0-C2", "--method", "l3a,joint", "--seed", "1,2", "--dim", "8", "--gamma", "1", "-o", "run")
    parts = {name: read(f"run/{name}") for name in names}
    join = lambda parts: b"".join(b"@@" + name.encode() + b"\n" + data for name, data in parts.items())
    keep("results", "good", join(parts))
    elsewhere = b"method,seed,phase,map,class_f1,overall_f1,classes,threshold\n" + b"".join(
        b"mine,%d,%d,%d,%d,,%d,fixed\n" % (seed, phase, 50 + seed + phase, 40, 2 * phase) for seed in (1, 2) for phase in (1, 2))
    keep("results", "good_elsewhere", join({**parts, "elsewhere.csv": elsewhere}))
    keep("results", "bad_elsewhere", join({**parts, "elsewhere.csv": elsewhere.replace(b"mine,2,2", b"mine,2,1")}))
    keep("results", "good_without_timings", join({name: parts[name] for name in names[:3]}))
    keep("results", "bad_without_classes", join({name: parts[name] for name in names[:2]}))
    keep("results", "bad_order", join({**parts, "metrics.csv": b"\n".join(sorted(parts["metrics.csv"].split(b"\n"), reverse=True))}))
    keep("results", "bad_numbers", join({**parts, "metrics.csv": parts["metrics.csv"].replace(b",1,", b",18446744073709551615,")}))
    l3a("run", *tables, "--protocol", "B0-C2", "--class-order", "shuffle:1,lexicographic", "--dim", "8", "--gamma", "1", "-o", "orders")
    ordered = {name: read(f"orders/{name}") for name in names}
    keep("results", "good_orders", join(ordered))
    keep("results", "bad_orders", join({**ordered, "run.json": ordered["run.json"].replace(b'"classes_by_order": [[', b'"classes_by_order": [["x", ')}))
    keep("results", "bad_order_of_row", join({**ordered, "metrics.csv": ordered["metrics.csv"].replace(b",shuffle:1", b",shuffle:2", 1)}))
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


def tar_file(members, form=tarfile.USTAR_FORMAT, **settings):
    """members: (name, bytes), or (name, type of a member without bytes)."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form, **settings) as archive:
        for name, content in members:
            about = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                about.type, about.linkname = content[0], "else/where"
            else:
                about.size = len(content)
            archive.addfile(about, None if isinstance(content, tuple) else io.BytesIO(content))
    return made.getvalue()


def shortened(data):
    """Without what fills an archive up to 10 KiB: whole blocks, and two of zeros."""
    used = len(data.rstrip(b"\0"))
    return data[:-(-used // 512) * 512] + bytes(1024)


def tar_files():
    start = b"\xff\xd8\xff\xe0\0\x10JFIF"
    samples = [("set", (tarfile.DIRTYPE,)), ("set/a.jpg", start), ("set/a.json", b'{"labels": ["dog", 3]}'), ("b.cls", b"cat"), ("b.png", b"\x89PNG\r\n\x1a\n"),
               ("c.txt", b"dog\r\nhot dog\n"), ("c.webp", b"RIFF\0\0\0\0WEBPVP8 ")]
    long = [("very/long/" + "p" * 60 + "/" + "n" * 90 + ending, content) for ending, content in ((".jpg", start), (".cls", b"dog"))]
    for name, form in {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}.items():
        keep("tar", f"good_{name}", shortened(tar_file(samples, form)))
        keep("tar", f"good_{name}_long", shortened(tar_file(long, form)))
    keep("tar", "good_global", shortened(tar_file(samples[1:3], tarfile.PAX_FORMAT, pax_headers={"comment": "all of them"})))
    keep("tar", "good_unicode", shortened(tar_file([("vögel/é.jpg", start), ("vögel/é.txt", "Vögel".encode())], tarfile.PAX_FORMAT)))
    for name, kind in {"link": tarfile.SYMTYPE, "hard_link": tarfile.LNKTYPE, "pipe": tarfile.FIFOTYPE, "sparse": tarfile.GNUTYPE_SPARSE, "type": b"Z"}.items():
        keep("tar", f"bad_{name}", shortened(tar_file([samples[1], ("odd.jpg", (kind,))])))
    for name, inside in {"absolute": "/a.jpg", "up": "../a.jpg", "line": "a\nb.jpg"}.items():
        keep("tar", f"bad_{name}", shortened(tar_file([(inside, start)])))
    keep("tar", "bad_twice", shortened(tar_file([samples[1], samples[1]])))
    keep("tar", "bad_joined", shortened(tar_file(samples[1:2])) + shortened(tar_file(samples[3:4])))
    keep("tar", "bad_json", shortened(tar_file([samples[1], ("set/a.json", b'{"labels": [{}]}')])))
    keep("tar", "bad_record", shortened(tar_file(long, tarfile.PAX_FORMAT)).replace(b" path=", b"0path="))
    keep("tar", "bad_packed", b"\x1f\x8b\x08" + bytes(40))
    large = bytearray(shortened(tar_file(samples[1:3])))
    large[124:136] = b"\x80" + bytes(7) + struct.pack(">I", 11)
    keep("tar", "bad_sum", bytes(large))  # the size is right, as a binary number; the target repairs the sum


def torchscript_objects():
    for start, cases in ("good", torchscript.GOOD), ("bad", torchscript.BAD):
        for name, operations in cases.items():
            keep("pickle", f"{start}_torchscript_{name}", torchscript.whole(operations))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    make_features()
    feature_files()
    model_files()
    packed_files()
    histories()
    unlabelled_files()
    run_folders()
    text_lists()
    tar_files()
    torchscript_objects()
