"""Files of every version since 0.1 (tests/versions): today's program loads them, scores as the version that wrote them did, goes on as it went on,
undoes, resumes and reports. What is expected was printed by those versions themselves."""
import csv, json, math, os, re, shutil, struct, subprocess, sys, tempfile
from pathlib import Path
from terminal import L3A, check, environment, finish

HERE = Path(__file__).resolve().parent.parent / "versions"
sys.path.insert(0, str(HERE))
from inputs import write_inputs  # noqa: E402

work = Path(tempfile.mkdtemp())
write_inputs(work / "inputs")
SHOWN = [f"../inputs/pictures/{i}.png" for i in range(40, 48)]
PRINTED = 1.5e-4   # scores are printed with four digits
ROUNDED = 2e-4     # learned in another order of the same operations
NETWORK = 1e-3     # pictures that went through the network on another machine, or a search that went on from elsewhere


def l3a(*arguments, code=0):
    done = subprocess.run([L3A, *map(str, arguments)], capture_output=True, text=True, env=environment())
    check(f"{where}: l3a {' '.join(map(str, arguments))}: exit code {done.returncode}", done.returncode == code, done.stderr)
    return done.stdout


def read(text):
    try:
        return json.loads(text)
    except ValueError:
        return []


def scores(model, features):
    rows = read(l3a("predict", model, "--features", features, "--top", 99, "--format", "json"))
    return {row["id"]: {tag["class"]: tag["score"] for tag in row["tags"]} for row in rows}


def tags(model):
    rows = read(l3a("tag", model, *SHOWN, "--top", 99, "--json"))
    return {os.path.basename(row["path"]): {tag["tag"]: tag["score"] for tag in row["tags"]} for row in rows}


def near(what, found, known, tolerance):
    """The same rows with the same classes and scores. While 0.1.0 was made, it printed probabilities, with other numbers for fitted thresholds."""
    fitted = what.split(".")[0] in ("plus", "folded", "forgotten")

    def value(score):
        return 1 / (1 + math.exp(5 - 12 * score if fitted else -score)) if expected["probabilities"] else score
    gap = max((abs(value(found[row][name]) - score) for row, named in known.items() for name, score in named.items()
               if name in found.get(row, {})), default=math.inf)
    same = all(set(found.get(row, {})) == set(named) for row, named in known.items())
    check(f"{where}: {what}: largest difference {gap:.2g}", same and gap <= tolerance * (3 if fitted and expected["probabilities"] else 1), (list(found.items())[:1], list(known.items())[:1]))


def copy_of(model):
    shutil.copy(model, "copy")
    if os.path.exists(f"{model}.history"):
        shutil.copy(f"{model}.history", "copy.history")
    return "copy"


def file_version(path):
    content = Path(path).read_bytes()
    return json.loads(content[8:8 + struct.unpack("<Q", content[:8])[0]])["__metadata__"]["version"]


def check_features(listed):
    for name, (rows, views) in listed.items():
        said = l3a("info", name)
        shape = f"[{rows}, 16]" if views == 1 else f"[{rows}, {views}, 16]"
        check(f"{where}: {name} has {shape}", shape in said and "checksum verified" in said, said)
    if os.path.exists("shard-1.features"):
        l3a("merge", "shard-1.features", "shard-2.features", "-o", "joined.features")
        check(f"{where}: shards join to what was extracted at once", Path("joined.features").read_bytes() == Path("train.features").read_bytes())


def check_models(listed):
    for model, about in listed.items():
        near(model, scores(model, about["test"]), about["predict"], PRINTED)
        measured = read(l3a("eval", model, "--features", about["test"], "--format", "json"))
        for name in "mAP", "CF1", "OF1":
            check(f"{where}: {model}: {name}", abs(measured[name] - about["eval"][name]) < 1e-4, (measured, about["eval"]))
        l3a("learn", copy_of(model), "--features", about["learn"]["features"], "--classes", about["learn"]["classes"])
        near(f"{model}, one phase later", scores("copy", about["test"]), about["learn"]["predict"], NETWORK if model.startswith("folded") else ROUNDED)


def check_taggers(listed):
    for model, about in listed.items():
        near(model, tags(model), about["tags"], NETWORK)
        check(f"{where}: {model}: lessons", l3a("history", model).count("\n") == about["lessons"])
        l3a("teach", copy_of(model), "--quiet", "--instead", "--tags", "dark", *[f"../inputs/pictures/{i:02}.png" for i in (2, 12, 17)])
        near(f"{model}, one lesson later", tags("copy"), about["taught"], NETWORK)
        l3a("undo", "copy")
        near(f"{model}, one lesson later, and back", tags("copy"), about["tags"], NETWORK)
        l3a("undo", "copy")
        near(f"{model}, one lesson before", tags("copy"), about["undone"], NETWORK)
        os.remove("copy.history")


def check_committed(listed):
    """Changes that are in the history only: reading the model alone ignores them, and the next change saves them."""
    for model, about in listed.items():
        check(f"{where}: {model}: lessons, also those that are not in the model", l3a("history", model).count("\n") == about["lessons"])
        copy_of(model)
        l3a("teach", "copy", "--quiet", "--tags", "red", "../inputs/pictures/15.png")
        l3a("undo", "copy")
        near(f"{model}, saved", tags("copy"), about["tags"], NETWORK)
        os.remove("copy.history")


def check_indexes(listed):
    for model, about in listed.items():
        rows = read(l3a("find", model, "--format", "json"))
        near(f"{model}, found", {os.path.basename(row["path"]): {tag["tag"]: tag["score"] for tag in row["tags"]} for row in rows}, about, PRINTED)


def check_unseen(model):
    """A tag with a character that nobody sees, which a new tag cannot have, can be taught, undone and renamed."""
    l3a("teach", copy_of(model), "--quiet", "--tags", "ca\u200bt", "../inputs/pictures/26.png")
    l3a("undo", "copy")
    l3a("rename", "copy", "ca\u200bt", "cat")
    check(f"{where}: {model}: renamed", '"cat"' in l3a("info", "copy", "--format", "json"))
    done = subprocess.run([L3A, "rename", "copy", "cat", "c\u202eat"], capture_output=True, text=True, env=environment())
    check(f"{where}: a new tag with U+202E", done.returncode == 2 and "U+202E" in done.stderr, done.stderr)
    done = subprocess.run([L3A, "teach", "copy", "--tags", "\ufeffcat", "../inputs/pictures/26.png"], capture_output=True, text=True, env=environment())
    check(f"{where}: a new tag with U+FEFF", done.returncode == 2 and "U+FEFF" in done.stderr, done.stderr)
    os.remove("copy.history")


def check_vit(model):
    """A model keeps a network whose heads nobody knows; nothing new is made with it."""
    done = subprocess.run([L3A, "teach", "new.l3a", "--backbone", "../inputs/vit.safetensors", "--tags", "red", *SHOWN], capture_output=True, text=True,
                          env=environment())
    check(f"{where}: a new model with unknown heads", done.returncode == 2 and "attention heads" in done.stderr, done.stderr)
    l3a("pack", model, "-o", "packed-vit.l3a", "--with-backbone")
    near(f"{model}, packed", tags("packed-vit.l3a"), tags(model), NETWORK)


def rows_of(path):
    with open(path, newline="") as file:
        return {(row["method"], row["seed"], row["phase"], row.get("class_order", "")): row for row in csv.DictReader(file)}


def check_runs(listed):
    """A run is reported whatever version made it. Its numbers are those of one version, so only that version resumes it."""
    version = f"l3a {json.loads(Path('run/run.json').read_text())['run']['version']}"
    for folder, arguments in listed.items():
        known = rows_of(f"{folder}/metrics.csv")
        l3a("report", folder)
        page = Path(folder, "report.html").read_text()
        shown = [row for row in known.values() if f"{float(row['mAP']):.2f}" in page]
        check(f"{where}: {folder}: the report has its numbers", "</html>" in page and (len(shown) == len(known) or folder == "orders"), len(shown))
        latex = l3a("report", folder, "--format", "markdown")
        check(f"{where}: {folder}: a table", all(f"| {row['method']}" in latex for row in known.values()), latex)
        first = next(iter(known))
        last = [float(row["mAP"]) for row in known.values() if row["method"] == first[0]][-1]
        measured = read(l3a("eval", f"{folder}/model.safetensors", "--features", "test.features", "--format", "json"))
        check(f"{where}: {folder}: its model", folder == "orders" or abs(measured["mAP"] - last) < 1e-3, (measured["mAP"], last))
        resume(folder, arguments, version, len(known))
    if os.path.exists("stopped"):
        shutil.copytree("stopped", "resumed")
        check(f"{where}: stopped before the end", 0 < len(rows_of("stopped/metrics.csv")) < len(rows_of("run/metrics.csv")))
        resume("resumed", listed["run"], version, len(rows_of("run/metrics.csv")))
        l3a("report", "stopped")
    if os.path.exists("sweep"):
        l3a("report", "sweep", "-o", "sweep.html")


def resume(folder, arguments, version, rows):
    before = Path(folder, "metrics.csv").read_bytes()
    if version == OWN:
        l3a("run", *arguments, "-o", folder, "--resume", "--quiet")
        check(f"{where}: {folder}: resumed", len(rows_of(f"{folder}/metrics.csv")) == rows)
    else:
        done = subprocess.run([L3A, "run", *arguments, "-o", folder, "--resume"], capture_output=True, text=True, env=environment())
        check(f"{where}: {folder}: not resumed", done.returncode == 2 and f"version = \"{version[4:]}\"" in done.stderr and
              Path(folder, "metrics.csv").read_bytes() == before, done.stderr)


OWN = subprocess.run([L3A, "--version"], capture_output=True, text=True).stdout.strip()
QUICK = ["0.1.0-1", "0.1.0", "0.3.0", "0.8.0"]  # those with the most that is new
present = sorted(path.name for path in HERE.iterdir() if (path / "expected.json").is_file())
versions = QUICK if os.environ.get("L3A_QUICK") else present
model_versions = set()
for where in versions:
    shutil.copytree(HERE / where, work / where)
    os.chdir(work / where)
    expected = json.loads(Path("expected.json").read_text())
    model_versions |= {file_version(path) for path in [*expected["models"], *expected["taggers"]]}
    check_features(expected["features"])
    check_models(expected["models"])
    check_taggers(expected["taggers"])
    for packed, about in expected["packed"].items():
        near(packed, tags(packed), about, NETWORK)
    check_committed(expected.get("committed", {}))
    check_runs(expected["runs"])
    check_indexes(expected.get("indexes", {}))
    if "unseen.l3a" in expected["taggers"]:
        check_unseen("unseen.l3a")
    if "vit.l3a" in expected["taggers"]:
        check_vit("vit.l3a")
check("every version of model files is there", versions == QUICK or {"1", "2", "3", "4", "5", "6"} <= model_versions, model_versions)
missing = [f"0.{i}.0" for i in range(1, int(OWN.split(".")[1])) if f"0.{i}.0" not in present]
check("every version before this one is there: see tests/versions/README.md", not missing, missing)
os.chdir("/")
shutil.rmtree(work)
sys.exit(finish())
