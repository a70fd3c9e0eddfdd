#!/usr/bin/env python3
"""What to cite: CITATION.cff has what the format requires, the BibTeX that the command prints agrees with it, and both with the paper."""
import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

SOURCE = Path(os.environ["L3A_SOURCE"])
COMMAND = Path(os.environ["L3A_BUILD"]) / "l3a"
PAPER = Path(os.environ.get("L3A_SHARED", SOURCE.parent / "shared")) / "paper.txt"
failed = 0


def check(good, what):
    global failed
    if not good:
        failed += 1
        print("FAILED:", what)


def entries(text):
    """The entries of a BibTeX file: kind, key and fields, with braces counted."""
    found = []
    for kind, key, body in re.findall(r"@(\w+)\{(\S+),\n(.*?)\n\}\n", text, re.S):
        fields = {}
        for line in body.split("\n"):
            name, value = re.fullmatch(r"  (\w+) *= \{(.*)\},?", line).groups()
            check(value.count("{") == value.count("}"), f"braces of {name}")
            fields[name] = value.replace("{", "").replace("}", "")
        found.append((kind, key, fields))
    check(len(found) == text.count("@"), "every entry is understood")
    return found


def main():
    cff = yaml.safe_load((SOURCE / "CITATION.cff").read_text())
    for key in ("cff-version", "message", "title", "authors"):  # these four are required
        check(cff.get(key), f"CITATION.cff lacks {key}")
    check(cff["cff-version"] == "1.2.0" and cff["type"] == "software" and cff["license"] == "Apache-2.0", "version of the format, type, licence")
    check(all(set(author) <= {"name", "family-names", "given-names"} for author in cff["authors"]), "authors")
    paper = cff["references"][0]
    for key in ("type", "title", "authors", "year", "conference"):
        check(paper.get(key), f"the reference lacks {key}")
    names = [f"{author['given-names']} {author['family-names']}" for author in paper["authors"]]
    printed = subprocess.run([COMMAND, "--citation"], check=True, capture_output=True, text=True).stdout
    (kind, _, cited), (_, _, program) = entries(printed)
    check(kind == "inproceedings" and cited["title"] == paper["title"] and cited["year"] == str(paper["year"]), "BibTeX of the paper")
    check([" ".join(reversed(author.split(", "))) for author in cited["author"].split(" and ")] == names, "its authors")
    version = re.search(r'#define L3A_VERSION "([^"]+)"', (SOURCE / "include/l3a/l3a.h").read_text()).group(1)
    check(program["title"] == cff["title"] and version in program["note"] and program["author"] == cff["authors"][0]["name"], "BibTeX of the program")
    if PAPER.exists():
        text = PAPER.read_text()
        check(re.findall(r"\\icmlauthor\{([^}]*)\}", text) == names, "the paper's authors")
        title = re.search(r"\\icmltitle\{(.*?)\}", text, re.S).group(1)
        check(" ".join(title.replace("\\\\", " ").split()) == paper["title"], "the paper's title")
    else:
        print(f"skipped: the paper's own title and authors ({PAPER} is missing)")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
