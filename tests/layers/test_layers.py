#!/usr/bin/env python3
"""The layers of src/: a folder uses only the folders that the table allows, in its #include lines and in the symbols of its objects (so that the
public header is no way round the table), and uses each of them. The command uses nothing but the public interface. CONTRIBUTING.md shows the
same table."""
import json
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("L3A_BUILD", SOURCE / "build"))

# What each folder may use, besides itself. A folder is listed after those it uses.
LAYERS = {
    "common": "",
    "base": "common",
    "format": "common base",
    "image": "base",
    "algebra": "common base",
    "data": "common base format",
    "draw": "common base image",
    "measure": "common base format algebra data",
    "net": "common base format",
    "learn": "common base format algebra data measure",
    "train": "common base format image data measure net",
    "method": "common base format algebra data net learn train",
    "extract": "base format image data net",
    "tag": "common base image data net learn extract",
    "library": "common base format image data net learn extract tag",
    "report": "common base format image data measure",
    "run": "common base format data measure learn train method report",
    "cuda": "base algebra net",
    "mpi": "base algebra",
    "figure": "base",
    "serve": "common",
    "cli": "common serve",
}
PLUGINS = ("mpi/", "figure/", "cuda/", "algebra/scalapack/", "serve/")  # are built only where their libraries are
COMMANDS = ("serve", "cli")  # of the library, they use include/l3a/ and nothing else, unless the table says so

# NOT YET: files that still break the table, and the folders they use. To be emptied.
NOT_YET = {
}


class Tree:
    """The sources below root/src, and the objects that compile_commands.json in the build folder says are made from them."""

    def __init__(self, root, build):
        self.source = Path(root).resolve() / "src"
        headers = "".join(path.read_text() for path in sorted((self.source.parent / "include/l3a").glob("*.h")))
        self.public = {name for declared in re.findall(r"L3A_PUBLIC[^;]*", headers) for name in re.findall(r"\b(\w+)\(", declared)}
        self.files = {path.relative_to(self.source).as_posix(): path for path in sorted(self.source.rglob("*/*")) if path.is_file()}
        self.objects = {}
        for entry in json.loads((Path(build) / "compile_commands.json").read_text()):
            path, words = Path(entry["file"]).resolve(), shlex.split(entry["command"])
            made = Path(entry["directory"]) / words[words.index("-o") + 1]
            if self.source in path.parents and made.exists():
                self.objects.setdefault(path.relative_to(self.source).as_posix(), made)

    def includes(self, name):
        return re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', self.files[name].read_text(), re.MULTILINE)

    def symbols(self):
        """Which file defines a symbol, and the symbols that each file leaves undefined."""
        defined, needed = {}, {}
        names = {str(path): name for name, path in self.objects.items()}
        listed = subprocess.run(["nm", "-A", "-P", *names], check=True, capture_output=True, text=True).stdout  # PATH: SYMBOL KIND …
        for line in listed.splitlines():
            path, rest = line.split(": ", 1)
            name, (symbol, kind) = names[path], rest.split()[:2]
            if kind in "Uw":
                needed.setdefault(name, []).append(symbol)
            elif kind.isupper():
                defined[symbol] = name
        return defined, needed


def folder_of(name):
    return name.split("/")[0]


def find_faults(tree, layers, not_yet):
    faults, excused, used = [], set(), set()

    def check(name, target, how):
        folder = folder_of(name)
        used.add((folder, target))
        if target == folder or target in layers.get(folder, "").split():
            return
        if target in not_yet.get(name, "").split():
            excused.add((name, target))
            return
        allowed = layers.get(folder) or ("only the public header" if folder in COMMANDS else "no other folder")
        faults.append(f"src/{name} {how}: {folder} -> {target} is not allowed ({folder} may use: {allowed})")

    folders = {folder_of(name) for name in tree.files}
    for folder in sorted(folders - layers.keys()):
        faults.append(f"src/{folder} is not in the table of layers")
    for name in tree.files:
        for included in tree.includes(name):
            if folder_of(included) in folders:
                check(name, folder_of(included), f"includes {included}")
        if name.endswith(".c") and name not in tree.objects and not name.startswith(PLUGINS):
            faults.append(f"src/{name} has no object in the build folder, so its symbols are not checked")
    defined, needed = tree.symbols()
    for name, symbols in needed.items():
        for symbol in symbols:
            if symbol not in defined:
                continue
            folder, home = folder_of(name), defined[symbol]
            if folder in COMMANDS and symbol in tree.public:
                continue
            if folder in COMMANDS and folder_of(home) not in (*COMMANDS, *layers.get(folder, "").split()):
                faults.append(f"src/{name} uses {symbol} of src/{home}, which l3a.h does not declare")
            else:
                check(name, folder_of(home), f"uses {symbol} of src/{home}")
    for folder, allowed in layers.items():
        for target in allowed.split():
            if (folder, target) not in used:
                faults.append(f"{folder} -> {target} is allowed, but nothing in src/{folder} uses src/{target}: remove it from both tables")
    for name, targets in not_yet.items():
        for target in targets.split():
            if (name, target) not in excused:
                faults.append(f"NOT_YET: src/{name} no longer uses {target}: remove it from the list")
    return faults


def check_table(layers, page):
    """Folders come after those they use, so there is no cycle, and the page shows the same table."""
    known = []
    for folder, allowed in layers.items():
        assert all(other in known for other in allowed.split()), f"{folder} uses a folder that is listed after it"
        known.append(folder)
    shown = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", page, re.MULTILINE))
    for folder, allowed in layers.items():
        wanted = ", ".join(["`l3a.h`"] * (folder in COMMANDS) + allowed.split()) or "–"
        assert shown.get(folder) == wanted, f"CONTRIBUTING.md: the row of {folder} has '{shown.get(folder)}' instead of '{wanted}'"
    assert shown.keys() == layers.keys(), f"CONTRIBUTING.md: {shown.keys() ^ layers.keys()} is in one table only"


compiled = {}  # the bytes of an object, by its source and all headers


def make_tree(folder, files):
    """Compiles a made-up tree."""
    root = Path(folder)
    files = {"include/l3a/l3a.h": "#define L3A_PUBLIC\nL3A_PUBLIC int l3a_top(int value);\nL3A_PUBLIC int l3a_low(\n    int value);\n", **files}
    commands = []
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    headers = tuple(sorted(item for item in files.items() if item[0].endswith(".h")))
    for name in files:
        if name.endswith(".c"):
            made = name.replace("/", "_") + ".o"
            command = [os.environ.get("CC", "cc"), "-I", str(root / "include"), "-I", str(root / "src"), "-o", made, "-c", str(root / name)]
            if (files[name], headers) not in compiled:
                subprocess.run(command, cwd=root, check=True)
                compiled[files[name], headers] = (root / made).read_bytes()
            (root / made).write_bytes(compiled[files[name], headers])
            commands.append({"directory": str(root), "command": shlex.join(command), "file": str(root / name)})
    (root / "compile_commands.json").write_text(json.dumps(commands))
    return Tree(root, root)


# A tree without a fault, and what breaks it: changed files, and the one fault that must be found.
GOOD = {
    "src/base/low.h": "int low(int value);\n",
    "src/base/low.c": '#include "base/low.h"\n#include "l3a/l3a.h"\nint low(int value) { return value; }\nint l3a_low(int value) { return value; }\n',
    "src/run/top.c": '#include "base/low.h"\n#include "l3a/l3a.h"\nint l3a_top(int value) { return low(value); }\n',
    "src/cli/cli.h": "int help(int value);\n",
    "src/cli/help.c": '#include "cli.h"\n#include "l3a/l3a.h"\nint help(int value) { return l3a_low(value); }\n',
    "src/cli/main.c": '#include "cli.h"\n#include "l3a/l3a.h"\nint main(void) { return help(l3a_top(1)); }\n',
}
BROKEN = [
    ("an include", {"src/run/top.h": "\n", "src/base/low.c": '#include "run/top.h"\n' + GOOD["src/base/low.c"]},
     "src/base/low.c includes run/top.h: base -> run is not allowed (base may use: no other folder)"),
    ("an include in a header", {"src/run/top.h": "\n", "src/base/low.h": '# include <run/top.h>\n' + GOOD["src/base/low.h"]},
     "src/base/low.h includes run/top.h: base -> run is not allowed"),
    ("a call through the public header", {"src/base/up.c": '#include "l3a/l3a.h"\nint up(void) { return l3a_top(1); }\n'},
     "src/base/up.c uses l3a_top of src/run/top.c: base -> run is not allowed"),
    ("a pointer in a table", {"src/base/up.c": '#include "l3a/l3a.h"\nint (*const table[])(int) = {l3a_top};\n'},
     "src/base/up.c uses l3a_top of src/run/top.c: base -> run is not allowed"),
    ("a folder that is not in the table", {"src/new/new.h": "\n"}, "src/new is not in the table of layers"),
    ("a private header in the command", {"src/cli/cli.h": '#include "base/low.h"\n' + GOOD["src/cli/cli.h"]},
     "src/cli/cli.h includes base/low.h: cli -> base is not allowed (cli may use: only the public header)"),
    ("a private function in the command", {"src/cli/help.c": "int low(int value);\nint help(int value) { return low(value); }\n"},
     "src/cli/help.c uses low of src/base/low.c, which l3a.h does not declare"),
]


def check_faults_are_found():
    layers = {"base": "", "run": "base", "cli": ""}
    with tempfile.TemporaryDirectory() as folder:
        faults = find_faults(make_tree(folder, GOOD), layers, {})
        assert not faults, faults
        for user, unused in ("base", "run"), ("cli", "base"):  # the command's use of the public header needs no permission
            faults = find_faults(make_tree(folder, GOOD), {**layers, user: unused}, {})
            assert faults == [f"{user} -> {unused} is allowed, but nothing in src/{user} uses src/{unused}: remove it from both tables"], faults
        faults = find_faults(make_tree(folder, GOOD), layers, {"base/low.c": "run"})
        assert faults == ["NOT_YET: src/base/low.c no longer uses run: remove it from the list"], faults
        private = {"src/base/own.c": "int own(void) { return 0; }\n",
                   "src/cli/help.c": "int own(void);\nint help(int value) { return own() + value; }\n"}
        faults = find_faults(make_tree(folder, {**GOOD, **private}), {**layers, "cli": "base"}, {})
        assert not faults, faults
    for what, changed, wanted in BROKEN:
        with tempfile.TemporaryDirectory() as folder:
            tree = make_tree(folder, {**GOOD, **changed})
            faults = find_faults(tree, layers, {})
            assert len(faults) == 1 and faults[0].startswith(wanted), (what, faults)
    with tempfile.TemporaryDirectory() as folder:
        tree = make_tree(folder, {**GOOD, **BROKEN[2][1]})
        assert not find_faults(tree, layers, {"base/up.c": "run"}), "an excused file"
        tree.objects.pop("base/up.c")
        faults = find_faults(tree, layers, {})
        assert faults == ["src/base/up.c has no object in the build folder, so its symbols are not checked"], faults


def main():
    check_faults_are_found()
    check_table(LAYERS, (SOURCE / "CONTRIBUTING.md").read_text())
    tree = Tree(SOURCE, BUILD)
    assert len(tree.objects) > 100, f"only {len(tree.objects)} objects found in {BUILD}"
    faults = find_faults(tree, LAYERS, NOT_YET)
    assert not faults, "\n" + "\n".join(faults)


if __name__ == "__main__":
    main()
