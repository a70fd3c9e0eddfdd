"""Names that a spreadsheet would take for formulas: in no CSV that l3a writes does a cell begin like one, and what l3a reads back is what was meant."""
import csv, io, json, os, re, struct, subprocess, sys, tempfile
from pathlib import Path
from terminal import L3A, check, environment, finish

SOURCE = Path(os.environ["L3A_SOURCE"])
sys.path.insert(0, str(SOURCE / "tests" / "versions"))
from inputs import uniform, write_inputs  # noqa: E402

FORMULAS = ["=cmd|' /C calc'!A0", "+49", "-x", "@SUM(1)"]
work = tempfile.TemporaryDirectory()
os.chdir(work.name)
write_inputs(Path("inputs"))


def l3a(*arguments):
    done = subprocess.run([L3A, *map(str, arguments)], capture_output=True, text=True, env=environment())
    check(f"l3a {' '.join(map(str, arguments))}", done.returncode == 0, done.stderr)
    return done.stdout


def cells(what, text, numbers=()):
    """The rows of a CSV, none of whose cells is a formula; those of columns with numbers may begin with a minus."""
    rows = list(csv.reader(io.StringIO(text)))
    bad = [cell for row in rows for j, cell in enumerate(row) if cell[:1] in tuple("=+-@\t\r\n") and cell and rows[0][j] not in numbers]
    check(f"{what}: no formulas", rows and not bad, bad)
    inside = [part for row in rows for j, cell in enumerate(row) for part in cell.split(";") if part[:1] in tuple("=+@") and rows[0][j] not in numbers]
    check(f"{what}: not where semicolons separate cells either", not inside, inside)
    return rows


# tags, and back through a list
names = ["=1+2.png", "-a.png", "@b.png", " blank.png", "+c, \"d\".png", "plain.png"]
Path("photos").mkdir()
for i, name in enumerate(names):
    os.rename(f"inputs/pictures/{i:02}.png", f"photos/{name}")
os.chdir("photos")
teach = ["teach", "../model.l3a", "--quiet", "--dim", "16", "--backbone", "../inputs/resnet.safetensors"]
l3a(*teach, "--tags", ",".join([FORMULAS[0], "plain"]), "./=1+2.png", "./plain.png")
l3a("teach", "../model.l3a", "--quiet", "--tags", ",".join(FORMULAS[1:]), "./-a.png", "@b.png", " blank.png", "+c, \"d\".png")
said = l3a("tag", "../model.l3a", "./=1+2.png", "./-a.png", *names[2:], "--top", "9", "--csv")
rows = cells("tag", said, ["scores"])
Path("tags.csv").write_text(said)
l3a("teach", "../again.l3a", *teach[2:], "--list", "tags.csv")
about = json.loads(l3a("info", "../again.l3a", "--format", "json"))
check("a list teaches the same tags", set(re.findall("'name': (['\"].*?['\"])[,}]", str(about))) >= {repr(name) for name in [*FORMULAS, "plain"]}, about)
data = json.loads(l3a("data", "list:tags.csv", "--format", "json"))
check("and has the same classes", sorted(c["name"] for c in data["classes"]) == sorted([*FORMULAS, "plain"]), data)
check("and finds every picture", data["files"] == len(names) and data["missing"]["count"] == 0, data)
os.chdir("..")

# classes and ids of feature files: predictions, measures, and the tables of a run
ROWS, WIDTH, CLASSES = 60, 6, [*FORMULAS, "plain"]
labels = [[int(i % 5 == k or uniform(7, 5 * i + k) < 0.2) for k in range(5)] for i in range(ROWS)]
parts = {"features": ("F32", [ROWS, WIDTH], b"".join(struct.pack("<f", 0.3 * uniform(8 + k, i) + labels[i][k % 5]) for i in range(ROWS) for k in range(WIDTH))),
         "labels": ("I8", [ROWS, len(CLASSES)], bytes(label for row in labels for label in row))}
ids = "\n".join(f"{FORMULAS[i % 4]} {i}" for i in range(ROWS)).encode()
parts["ids"] = ("U8", [len(ids)], ids)
head, data = {"__metadata__": {"classes": "\n".join(CLASSES)}}, b""
for name, (kind, shape, content) in parts.items():
    head[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
    data += content
text = json.dumps(head).encode()
Path("table").write_bytes(struct.pack("<Q", len(text)) + text + data)
Path("classes").write_text("\n".join(CLASSES) + "\n")
l3a("learn", "m", "--features", "table", "--classes", "@classes", "--dim", "16", "--privacy-limit", "0")
rows = cells("predict", l3a("predict", "m", "--features", "table", "--top", "5", "--format", "csv"), ["score"])
check("without the blank, its names are those of the model", {row[1].removeprefix(" ") for row in rows[1:]} == {*FORMULAS, "plain"}, rows[:3])
cells("eval", l3a("eval", "m", "--features", "table", "--format", "csv"))
Path("=order").write_text("\n".join(reversed(CLASSES)) + "\n")
run = ["run", "--train", "table", "--test", "table", "--protocol", "B3-C2", "--dim", "16", "--privacy-limit", "0", "--class-order", "=order,shuffle:1"]
cells("run", l3a(*run, "-o", "run", "--format", "csv"))
for name in "metrics", "per_class", "timings", "samples":
    cells(f"{name}.csv", Path(f"run/{name}.csv").read_text(), ["score"])
l3a(*run, "-o", "run", "--resume")
l3a("report", "run")
page = Path("run/report.html").read_text()
check("the report has the names", "=cmd|" in page and " =cmd|" not in page.replace("> =cmd", ""), page.count("=cmd|"))
sys.path.insert(0, str(SOURCE / "python"))
os.environ["L3A_LIBRARY"] = str(Path(os.environ["L3A_BUILD"]) / "libl3a.so")
if not os.environ.get("L3A_SANITIZE"):
    import l3a as package  # noqa: E402
    table = package.load_run("run").per_class
    check("and so has Python", {*FORMULAS} < set(table["class"]) and "=order" in set(table["class_order"]), list(table["class"])[:5])
sys.exit(finish())
