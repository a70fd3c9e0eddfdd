"""Names, ids, records and paths that would take over a terminal: every command shows them as visible text, on a terminal and
elsewhere. JSON stays JSON; CSV keeps every byte where it does not go to a terminal."""
import csv, json, os, re, struct, subprocess, sys, tempfile
import numpy as np
from terminal import L3A, check, environment, finish, run_on_terminal

OWN_STYLES = re.compile(rb"\x1b\[(?:0|1|2|4|1;31)m")
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
work = tempfile.TemporaryDirectory()
os.chdir(work.name)

# A title, a colour, bells and backspaces, the second set of controls, turned writing, something that looks like our own bold.
CLASSES = ["cat\x1b]0;owned\x07", "dog\x1b[31mred", "eel\u202egnp.exe", "fox\u009b2J\x7f\x08", "gnu\u2066\u200f\u0085", "hen\x1b[1mbold"]
RAW = b"raw\xff\xc3("  # no UTF-8
CODES = {"f4": "F32", "i1": "I8", "u1": "U8"}


def save(path, tensors, metadata):
    """A safetensors file; names and metadata may have any bytes but zero."""
    def quoted(text):
        text = text if isinstance(text, bytes) else text.encode()
        return b'"' + re.sub(rb'[\x00-\x1f"\\]', lambda c: b"\\u%04x" % c[0][0], text) + b'"'
    parts, data = [b'"__metadata__":{' + b",".join(quoted(k) + b":" + quoted(v) for k, v in metadata.items()) + b"}"], b""
    for name, array in tensors.items():
        shape = ",".join(map(str, array.shape)).encode()
        parts.append(quoted(name) + b':{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}' % (
            CODES[array.dtype.str[1:]].encode(), shape, len(data), len(data) + array.nbytes))
        data += array.tobytes()
    header = b"{" + b",".join(parts) + b"}"
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)


def features(path, names, seed, rows=60, width=8):
    rng = np.random.default_rng(seed)
    labels = (rng.random((rows, len(names))) < 0.3).astype("i1")
    labels[np.arange(rows), rng.integers(0, len(names), rows)] = 1
    centres = np.random.default_rng(9).normal(size=(len(names), width))
    values = (labels @ centres + 0.3 * rng.normal(size=(rows, width))).astype("f4")
    ids = [f"id {i}\x1b[2J\u202e.jpg".encode() for i in range(rows - 1)] + [RAW]
    save(path, {"features": values, "labels": labels, "ids": np.frombuffer(b"\n".join(ids), "u1")},
         {"classes": "\n".join(names), "backbone": "net\x1b]2;x\x07\u202e", "preprocess": b"p" + RAW, "\x1bkey": "\x9b1m"})
    return ids


def elsewhere(arguments):
    done = subprocess.run([L3A, *arguments], capture_output=True, env=environment())
    return done.returncode, done.stdout, done.stderr


def is_visible(said):
    try:
        return not OBEYED.search(said.decode())
    except UnicodeDecodeError:
        return False


def shows(what, code, *arguments, expect=(), prepare=None):
    """Run on a terminal and elsewhere: the exit code, visible text only, and `expect` in it. Returns what went elsewhere to stdout."""
    if prepare:
        prepare()
    got, said = run_on_terminal(arguments)
    shown = OWN_STYLES.sub(b"", said).replace(b"\r", b"")
    check(f"{what}: exit code on a terminal", got == code, (got, said[-500:]))
    check(f"{what}: visible on a terminal", is_visible(shown), said)
    if prepare:
        prepare()
    got, out, err = elsewhere(arguments)
    check(f"{what}: exit code elsewhere", got == code, (got, err[-500:]))
    check(f"{what}: visible errors elsewhere", is_visible(err), err)
    faithful = arguments[-1] == "csv" or "csv" in arguments
    check(f"{what}: visible elsewhere", faithful or is_visible(out), out)
    for text in expect:
        check(f"{what}: '{text}' on a terminal", text.encode() in shown, said)
        check(f"{what}: '{text}' elsewhere", faithful or text.encode() in out + err, out + err)
    return out


def fresh(*names):
    """Copies to work on: learn, forget and merge change or make files."""
    def copy():
        for name in names:
            subprocess.run(["cp", f"kept-{name}", name], check=True)
    return copy


def remove(*names):
    return lambda: subprocess.run(["rm", "-rf", *names], check=True)


def json_of(what, out):
    try:
        return json.loads(out)
    except ValueError as error:
        check(f"{what}: JSON", False, (str(error), out[:500]))
        return None


ids = features("train", CLASSES, 1)
features("test", CLASSES, 2)
names = ",".join(CLASSES[:4])
settings = ["--dim", "16", "--gamma", "1"]

# files and what they hold
save("odd", {"t\x1b[31m\u202e\nfake: line": np.zeros(2, "f4"), b"u" + RAW: np.zeros(0, "f4")}, {"k\x07": "v\x1b[2J", b"r" + RAW: RAW})
shows("info on tensors", 0, "info", "odd", expect=["t\\x1b[31m\\u202e\\x0afake: line", "k\\x07: v\\x1b[2J", "raw\\xff\\xc3("])
about = json_of("info", shows("info as JSON", 0, "info", "odd", "--format", "json"))
check("info's JSON says what is there", about and about["metadata"]["k\x07"] == "v\x1b[2J" and about["metadata"]["rraw\ufffd\ufffd("]
      and about["tensors"][0]["name"] == "t\x1b[31m\u202e\nfake: line", about)
shows("info on features", 0, "info", "train", expect=["cat\\x1b]0;owned\\x07", "eel\\u202e", "net\\x1b]2;x\\x07\\u202e"])
shows("a path", 2, "info", "no\x1b[31mfile\u202e", expect=["no\\x1b[31mfile\\u202e: cannot open"])
shows("a path that is no UTF-8", 2, "info", b"no\xff\x80file", expect=["no\\xff\\x80file"])

# models
shows("learn", 0, "learn", "model", "--features", "train", "--classes", names, *settings, prepare=remove("model"))
subprocess.run(["cp", "model", "kept-model"], check=True)
shows("learn more", 0, "learn", "model", "--features", "test", "--classes", names, expect=["cat\\x1b]0;owned\\x07"], prepare=fresh("model"))
shows("learn what is not there", 2, "learn", "model", "--features", "train", "--classes", "\x1b[31m", expect=["no class '\\x1b[31m'"])
shows("learn, with a setting that is none", 2, "learn", "model", "--features", "train", "--classes", "a", "--gamma", "\x1b[31m",
      expect=["\\x1b[31m"])
shows("info on a model", 0, "info", "model", expect=["dog\\x1b[31mred", "fox\\u009b2J\\x7f\\x08"])
about = json_of("info", shows("info on a model as JSON", 0, "info", "model", "--format", "json"))
check("its classes", about and [c["name"] for c in about["phases"][0]["classes"]] == CLASSES[:4], about)
shows("predict", 0, "predict", "model", "--features", "test", "--top", "2", expect=["id 3\\x1b[2J\\u202e.jpg", "raw\\xff\\xc3("])
tags = json_of("predict", shows("predict as JSON", 0, "predict", "model", "--features", "test", "--top", "2", "--format", "json"))
check("predict's JSON has the ids", tags and [row["id"] for row in tags] == [i.decode(errors="replace") for i in ids], tags)
out = shows("predict as CSV", 0, "predict", "model", "--features", "test", "--top", "6", "--format", "csv")
rows = list(csv.reader(out.decode("latin-1").splitlines()))[1:]
check("CSV keeps every byte where it is not shown", {r[0].encode("latin-1") for r in rows} == set(ids) and
      {r[1].encode("latin-1").decode() for r in rows} == set(CLASSES[:4]), rows[:3])
out = shows("eval", 0, "eval", "model", "--features", "test", expect=["eel\\u202egnp.exe"])
lines = out.decode(errors="replace").splitlines()[5:]
check("columns are in line", len(lines) == 5 and len({len(line) for line in lines}) == 1, lines)
about = json_of("eval", shows("eval as JSON", 0, "eval", "model", "--features", "test", "--format", "json"))
check("eval's JSON has the classes", about and list(about["AP"]) == CLASSES[:4], about)
out = shows("eval as CSV", 0, "eval", "model", "--features", "test", "--format", "csv")
check("eval's CSV has the classes", [r[0] for r in csv.reader(out.decode(errors="replace").splitlines(), strict=True)][1:] == CLASSES[:4], out)
shows("learn elsewhere", 0, "learn", "second", "--features", "test", "--classes", names, *settings, prepare=remove("second"))
shows("merge", 0, "merge", "kept-model", "second", "-o", "mer\x1b[31mged", prepare=remove("mer\x1b[31mged"))
features("other", ["x\u202e", "y\x1bc"], 3)
shows("merge models of other classes", 2, "merge", "model", "no\x1bsuch", "-o", "merged", expect=["no\\x1bsuch"])
shows("forget what is not there", 2, "forget", "model", "--classes", "cat\x1b]0;owned\x08", expect=["did you mean 'cat\\x1b]0;owned\\x07'?"])
shows("forget", 0, "forget", "model", "--classes", CLASSES[0], prepare=fresh("model"))
fresh("model")()
shows("predict with features of another backbone", 2, "predict", "model", "--features", "odd", expect=["odd"])

# runs
run = ["--train", "train", "--test", "test", "--protocol", "B0-C2", *settings]
shows("run", 0, "run", *run, "-o", "ru\x1b[31mn\u202e", prepare=remove("ru\x1b[31mn\u202e"))
json_of("run", shows("run as JSON", 0, "run", *run, "-o", "r1", "--format", "json", prepare=remove("r1")))
shows("run with other classes", 2, "run", "--train", "train", "--test", "other", "-o", "r2", expect=["\\x1b]0;owned\\x07"])
with open("order\x1b[1m", "w") as file:
    file.write("cat\x1b]0;owned\x07\nwolf\u202e\n")
shows("run in an order with strangers", 2, "run", *run, "-o", "r3", "--class-order", "order\x1b[1m", expect=["order\\x1b[1m: line 2", "wolf\\u202e"])
shows("report", 0, "report", "ru\x1b[31mn\u202e", "-o", "page\x1b[31m.html")
shows("report on nothing", 2, "report", "r\u202e\x1b[31m", expect=["r\\u202e\\x1b[31m"])
page = open("page\x1b[31m.html", encoding="utf-8").read()
check("the page has text only", not OBEYED.search(page), OBEYED.findall(page))
check("with names that are marked where something is hidden", re.search("eel\ufffd+gnp.exe", page), re.findall("eel.{0,20}", page)[:5])
shows("sweep", 0, "sweep", *run[:-2], "--gamma", "1,10", "-o", "sw\x1b[31m", prepare=remove("sw\x1b[31m"))
shows("a method that is none", 2, "run", *run, "-o", "r4", "--method", "\x1b[31m\u202e", expect=["\\x1b[31m\\u202e"])
edited = open("r1/metrics.csv").read()
with open("r1/metrics.csv", "w") as file:
    file.write(edited + "\x1b]0;x\x07,1,2,3\n")
shows("a table that was edited", 2, "run", *run, "-o", "r1", "--resume")

# data sets
with open("list\x1b[31m.csv", "w") as file:
    file.write("path,labels,split\n" + "".join(f"pic{i}\x1b[2J\u202e.jpg,{name},train\n" for i, name in enumerate(["cat\u202e", "dog\u0085", "cat\u202e"])))
shows("data", 2, "data", "list:list\x1b[31m.csv", "--split", "train", expect=["cat\\u202e", "dog\\u0085", "pic0\\x1b[2J\\u202e.jpg"])
json_of("data", shows("data as JSON", 2, "data", "list:list\x1b[31m.csv", "--split", "train", "--format", "json"))
shows("data without such a split", 2, "data", "list:list\x1b[31m.csv", "--split", "a\x1b[31m", expect=["a\\x1b[31m"])
shows("a data set that is none", 2, "data", "\x1b[31m:x", expect=["\\x1b[31m:x"])
shows("extract", 2, "extract", "--backbone", "no\x1bne", "--data", "list:list\x1b[31m.csv", "--split", "train", "-o", "f", expect=["no\\x1bne"])

# words
shows("a command that is none", 2, "le\x1b[31marn", expect=["le\\x1b[31marn"])
shows("an option that is none", 2, "learn", "--fea\x1b[31mtures", expect=["--fea\\x1b[31mtures"])
shows("a choice that is none", 2, "info", "odd", "--format", "\u202ejson", expect=["\\u202ejson"])
sys.exit(finish())
