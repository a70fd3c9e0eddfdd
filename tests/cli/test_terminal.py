"""The command on a terminal: a bar that fits, moves and goes away; colours only where they are wanted; columns that stand in line
whatever the names are. The terminal is a pseudo-terminal, and what it would show is worked out here."""
import json, os, re, signal, struct, subprocess, sys, tempfile, time, unicodedata
import numpy as np
from terminal import L3A, check, environment, finish, run_on_terminal

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
work = tempfile.TemporaryDirectory()
os.chdir(work.name)


def on_terminal(*arguments, **how):
    return run_on_terminal(arguments, **how)[1].decode()


def width(text):
    """Columns of a text, by Python's own tables."""
    return sum(0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def screen(said):
    """The lines a terminal shows at the end."""
    lines, row, column = [""], 0, 0
    for c in ESCAPE.sub("", said).replace("\0", ""):
        if c == "\r":
            column = 0
        elif c == "\n":
            lines.append("")
            row, column = row + 1, 0
        else:
            lines[row] = lines[row][:column].ljust(column) + c + lines[row][column + 1:]
            column += 1
    return [line.rstrip() for line in lines]


def bars(said):
    return [part for part in re.split(r"[\r\n\0]", said) if part.startswith("learn  ")]


def write_table(path, features, labels, classes, ids):
    blobs = {"features": features.astype("<f4"), "labels": labels.astype("i1"), "ids": np.frombuffer("\n".join(ids).encode(), "u1")}
    types, header, at = {"features": "F32", "labels": "I8", "ids": "U8"}, {"__metadata__": {"classes": "\n".join(classes)}}, 0
    for name, blob in blobs.items():
        header[name] = {"dtype": types[name], "shape": list(blob.shape), "data_offsets": [at, at + blob.nbytes]}
        at += blob.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blob.tobytes() for blob in blobs.values()))


random = np.random.default_rng(5)
rows = 4000
np.save("x.npy", random.normal(size=(rows, 64)).astype("f4"))
np.save("y.npy", (random.random((rows, 2)) < 0.6).astype("i1"))
table = ["--features", "x.npy", "--labels", "y.npy", "--classes", "class 0,class 1", "--dim", "2048", "--block", "64", "--threads", "1"]

# A log: a line every few seconds. The process is stopped for longer than that, while the rest goes on.
log, patient = open("log", "w+"), not os.environ.get("L3A_QUICK")
logged = subprocess.Popen([L3A, "run", "--train", "x.npy", "--train-labels", "y.npy", "--test", "x.npy", "--test-labels", "y.npy",
                           "--protocol", "B0-C2", "--dim", "2048", "--block", "64", "-o", "run"],
                          stdout=subprocess.DEVNULL, stderr=log, env=environment())
while "about" not in open("log").read() and logged.poll() is None:
    time.sleep(0.01)
if patient:
    logged.send_signal(signal.SIGSTOP)
stopped = time.monotonic()

said = on_terminal("learn", "m1", *table)
lines = screen(said)
check("a bar with stage, count, rate and time left", any(re.fullmatch(r"learn  \[=+ +\]  \d+/\d+  [\d.]+ rows/s  \d+ s left *", b) for b in bars(said)), said)
check("it moves", len({b.count("=") for b in bars(said)}) > 1, said)
check("it fits 80 columns", 60 < max(map(len, bars(said))) < 80, said)
check("it goes away", [line.split()[0] for line in lines if line][:2] == ["plan:", "phase"] and not any("rows/s" in line for line in lines), lines)
said = on_terminal("learn", "m2", *table, columns=40, NO_COLOR="1")
check("it fits 40 columns", 20 < max(map(len, bars(said))) < 40, said)
check("and still says what is left", any("left" in b for b in bars(said)), said)
check("NO_COLOR: a bar without an escape", bars(said) and "\x1b" not in said, said)
check("it goes away there, too", not any("learn  " in line for line in screen(said)), said)
said = on_terminal("learn", "m3", *["4096" if word == "2048" else word for word in table], columns=80, then=40)
check("it follows the terminal", all(len(b) < 40 for b in bars(said.split("\0")[1])) and bars(said.split("\0")[1]), said)
said = on_terminal("learn", "m4", *table, TERM="dumb")
check("a dumb terminal gets lines", "\x1b" not in said and not bars(said) and "phase 1:" in said, said)

# Colours
wrong = ["learn", "m", "--clases", "a"]
check("errors are red, hints dim", "\x1b[1;31ml3a learn:\x1b[0m" in (said := on_terminal(*wrong)) and "\x1b[2m" in said, said)
for changes in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}):
    check(f"no colour with {changes}", "\x1b" not in (said := on_terminal(*wrong, **changes)) and "unknown option" in said, said)
check("an empty NO_COLOR is none", "\x1b" in on_terminal(*wrong, NO_COLOR=""))
check("headings of the help are bold", "\x1b[1moptions:\x1b[0m" in on_terminal("help", "run"))
for columns in (40, 80):
    said = on_terminal("help", "learn", columns=columns)
    text = ESCAPE.sub("", said).split("\nexamples:")[0]
    check(f"help fits {columns} columns", max(width(line.rstrip("\r")) for line in text.split("\n")) <= columns, text)
for arguments in (wrong, ["help", "run"], ["eval", "m1", *table[:4]]):
    piped = subprocess.run([L3A, *arguments], capture_output=True, env=environment())
    check(f"no escape in a pipe: {arguments}", b"\x1b" not in piped.stdout + piped.stderr, piped.stdout + piped.stderr)

# Columns: precomposed and combined accents, wide and full-width characters, emoji, other scripts
names = ["plain", "café", "cafe\u0301", "猫", "ｆｕｌｌ", "🐈", "zażółć", "שָׁלוֹם", "z\u200bw", "ไทยที่", "강아지", "e" * 30]
labels = (random.random((60, len(names))) < 0.4).astype("i1")
labels[np.arange(len(names)), np.arange(len(names))] = 1
ids = [f"{names[i % len(names)]}/{i}.jpg" for i in range(60)]
write_table("names.safetensors", random.normal(size=(60, 8)), labels, names, ids)
open("names.txt", "w", encoding="utf-8").write("\n".join(names))


def output(*arguments):
    done = subprocess.run([L3A, *arguments], capture_output=True, env=environment(LC_ALL="C"))
    check(f"{arguments[0]} works", done.returncode == 0, done.stderr)
    return done.stdout.decode().splitlines()


def in_line(what, texts):
    check(f"{what} stands in line", len(texts) >= len(names) and len({width(t) for t in texts}) == 1, texts)


output("learn", "model", "--features", "names.safetensors", "--classes", "@names.txt", "--dim", "64")
shown = output("eval", "model", "--features", "names.safetensors")
in_line("a table of eval", [line for line in shown if line.startswith((*names, "z\\"))])  # a space without a width is shown
shown = output("predict", "model", "--features", "names.safetensors", "--top", "1")
in_line("a table of tags", [line[:line.rindex(" ", 0, line.rindex(" "))] for line in shown])
shown = output("info", "model")
check("info cuts between characters", any(line.startswith("  classes: 12: plain, café") and line.endswith("…") for line in shown), shown)
with open("list.csv", "w", encoding="utf-8") as file:
    file.write("path,labels\n" + "".join(f"{i}.png,{';'.join(n for n, l in zip(names, row) if l)}\n" for i, row in enumerate(labels)))
done = subprocess.run([L3A, "data", "list:list.csv"], capture_output=True, env=environment())
shown = [line for line in done.stdout.decode().splitlines() if "#" in line]
in_line("a table of data", [line[:line.index("#")] for line in shown])

if patient:
    time.sleep(max(0, 5.2 - (time.monotonic() - stopped)))
    logged.send_signal(signal.SIGCONT)
logged.wait()
log = open("log").read()
check("a log gets lines", not patient or re.search(r"^learn: \d+/\d+  [\d.]+ rows/s  .* left$", log, re.M), log)
check("and nothing for terminals", "\r" not in log and "\x1b" not in log, log)
sys.exit(finish())
