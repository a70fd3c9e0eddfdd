#!/usr/bin/env python3
"""Writes src/net/words.inc: the words of ImageNet's 1,000 classes, and of what WordNet has above them.

    tools/make_words.py DICT [LIST]

DICT is WordNet 3.0's folder of database files; Debian's package wordnet-base has it at /usr/share/wordnet. LIST has the classes of
ILSVRC-2012, a WordNet id such as n02099712 at the start of each line. Without LIST, they are those of the present words.inc, so that the file
can be made again. A classifier's rows are in the order of these ids; an id is the place of a synset in data.noun.

A synset is a set of words that mean the same. The file has the 1,000 classes, and after them every synset above one of them, each after all
that is below it, so that one pass down the table finds what is above or below a synset. What is above nearly everything is left out."""
import re
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "src/net/words.inc"
CLASSES = 1000
# Too general to look for: these synsets, and what is only above them. By WordNet's first word for each.
GENERAL = {"n00001740": "entity", "n00001930": "physical entity", "n00002137": "abstraction", "n00002684": "object", "n00003553": "whole",
           "n00007347": "causal agent", "n00020827": "matter", "n00021939": "artifact", "n00024264": "attribute", "n00031921": "relation",
           "n13809207": "part", "n09385911": "part", "n00027167": "location"}
HEAD = """\
/* The words of ImageNet's 1,000 classes (ILSVRC-2012, in the order of a classifier's rows, which is that of their WordNet ids), and
 * after them the synsets above them. tools/make_words.py wrote this file; do not edit it.
 *
 * The words, and what is above what, are a selection from WordNet 3.0, whose licence follows. It must appear on all copies, so the
 * library has it as a text. */
"""


def licence(folder):
    """The notice that the database files begin with: lines "  NUMBER text"."""
    with open(folder / "data.noun", encoding="ascii") as file:
        lines = [re.sub(r"^  \d+ ?", "", line.rstrip()) for line in file if line.startswith("  ")]
    return [line.rstrip() for line in lines]


def read_synsets(folder):
    """id -> (words, ids of the synsets right above)."""
    synsets = {}
    with open(folder / "data.noun", encoding="ascii") as file:
        for line in file:
            if line.startswith("  "):
                continue
            fields = line.split(" | ")[0].split()
            count = int(fields[3], 16)
            words = [word.replace("_", " ") for word in fields[4:4 + 2 * count:2]]
            pointers = fields[5 + 2 * count:]
            above = [f"n{pointers[i + 1]}" for i in range(0, len(pointers) - 3, 4) if pointers[i] in ("@", "@i") and pointers[i + 2] == "n"]
            synsets[f"n{fields[0]}"] = words, above
    return synsets


def read_classes(path):
    if path == TARGET:
        found = [f"n{int(number):08}" for number in re.findall(r"^    \{(\d+),", path.read_text(), re.MULTILINE)][:CLASSES]
    else:
        found = re.findall(r"^(n\d{8})\b", path.read_text(), re.MULTILINE)
    if len(found) != CLASSES or len(set(found)) != CLASSES:
        sys.exit(f"{path}: {len(found)} ids of classes; expected {CLASSES}")
    return sorted(found)


def order_above(synsets, classes):
    """The synsets above the classes, each after all that is below it."""
    heights = {}

    def lift(synset, height):
        if synset in GENERAL or heights.get(synset, -1) >= height:
            return
        heights[synset] = height
        for above in synsets[synset][1]:
            lift(above, height + 1)

    for synset in classes:
        lift(synset, 0)
    if any(heights[synset] for synset in classes):
        sys.exit("a class is above another one")
    return sorted((synset for synset in heights if heights[synset]), key=lambda synset: (heights[synset], synset))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    synsets = read_synsets(folder)
    for synset, word in GENERAL.items():
        assert synsets[synset][0][0] == word, (synset, synsets[synset][0])
    classes = read_classes(Path(sys.argv[2]) if len(sys.argv) == 3 else TARGET)
    table = classes + order_above(synsets, classes)
    index = {synset: i for i, synset in enumerate(table)}
    notice = licence(folder)
    quoted = [f'    "{line}\\n"' for line in (line.replace('"', '\\"') for line in notice)]
    rows = []
    for synset in table:
        words, above = synsets[synset]
        text = "\\0".join(words)
        if not text.isascii() or '"' in text or re.search(r"\\0\d", text):
            sys.exit(f"{synset}: words that C would write otherwise: {words}")
        above = sorted(index[parent] for parent in above if parent in index)
        rows.append(f'    {{{int(synset[1:])}, "{text}\\0", {{{", ".join(map(str, above)) or 0}}}}},')
    most = max(sum(parent in index for parent in synsets[synset][1]) for synset in table)
    text = HEAD + "static const char licence[] =\n" + "\n".join(quoted) + ";\n\n"
    text += f"enum {{ SYNSETS = {len(table)}, MOST_ABOVE = {most} }};\n\n"
    text += "/* The number of the WordNet id, the words, and the synsets right above by their places in this table; 0: none. */\n"
    text += "static const struct synset {\n    uint32_t id;\n    const char *words; /* each ends with a zero byte, and the last with two */\n"
    text += "    uint16_t above[MOST_ABOVE];\n} synsets[SYNSETS] = {\n" + "\n".join(rows) + "\n};\n"
    TARGET.write_text(text)
    print(f"{TARGET.name}: {len(table)} synsets, {len(text.encode())} bytes")


main()
