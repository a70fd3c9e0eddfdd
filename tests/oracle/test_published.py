#!/usr/bin/env python3
"""src/report/published.inc against the paper's tables, number by number, and the report's section 'As published' against both: shown for the
paper's four settings, with the paper's numbers, and for no other run. Without the paper's text the second part alone is checked."""
import os
import re
import sys
import tempfile

from report_runs import make_run, make_tables
from test_report import Page

SOURCE = os.environ.get("L3A_SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))
PAPER = os.path.join(os.environ.get("L3A_SHARED", os.path.join(SOURCE, "..", "shared")), "paper.txt")
LABELS = ["COCOresult", "backboneresult", "VOCresult", "ablation", "ablation_gamma", "ablation_buffer", "threshold_coco", "wac_weighting"]
PROTOCOLS = {1: ["B0-C10", "B40-C10"], 2: ["B0-C10", "B40-C10"], 3: ["B0-C4", "B10-C2"]}
WEIGHTS = {"1/sqrtf(k)": "sqrt", "1/f(k)": "inv", "1/(log(f(k))+1)": "log"}


def compiled():
    """The rows of published.inc: of Tables 1 to 3, and of the others."""
    with open(os.path.join(SOURCE, "src", "report", "published.inc"), encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    rows = {"PUBLISHED": [], "PUBLISHED_SETTING": []}
    for kind, inside in re.findall(r"^(\w+)\((.*)\)$", text, flags=re.M):
        rows[kind].append([field.strip().strip('"') for field in inside.split(", ")])
    return rows["PUBLISHED"], rows["PUBLISHED_SETTING"]


def plain(cell):
    """A cell's text without commands of TeX."""
    cell = re.sub(r"\\(cite|SetRow|SetCell)(\[[^]]*\])?\{[^}]*\}", "", cell)
    cell = re.sub(r"\\SetCell\[[^]]*\]", "", cell)
    cell = re.sub(r"\\(textbf|textit|U|B|sqrt|log)\b|\\B(?=\d)", lambda m: m.group(1) if m.group(1) in ("sqrt", "log") else "", cell)
    return re.sub(r"[\s{}$\\^]", "", cell)


def table_rows(text, label):
    """The cells of the rows below a table's heading: those that have a number."""
    body = text.split("\\label{tab:" + label + "}")[1].split("\\end{tblr}")[0].split("\\midrule", 1)[1]
    rows = [[plain(cell) for cell in re.sub(r"\\(midrule|bottomrule)", "", row).split("&")] for row in body.split("\\\\")]
    return [row for row in rows if len(row) > 3]


def number(text):
    return None if text in ("-", "NONE") else float(text)


def printed():
    """What the paper prints, as rows like those of published.inc, in any order."""
    with open(PAPER, encoding="utf-8") as file:
        text = file.read()
    main, settings = [], []
    for table, label in enumerate(LABELS, 1):
        memory = backbone = ""
        for row in table_rows(text, label):
            values = [number(cell) for cell in row[-8 if table == 1 else -4:]]
            for protocol, own in zip(PROTOCOLS.get(table, PROTOCOLS[1]), (values[:len(values) // 2], values[len(values) // 2:])):
                if table == 1:
                    memory = row[2] or memory
                    average, class_f1, overall_f1, last = own
                    main.append((table, "COCO", protocol, row[0], memory, average, last, class_f1, overall_f1))
                elif table == 2:
                    main.append((table, "COCO", protocol, row[0], row[1] or backbone, *own, None, None))
                elif table == 3:
                    memory = row[1] or memory
                    main.append((table, "VOC", protocol, row[0], memory, *own, None, None))
                else:
                    name = WEIGHTS.get(row[0], row[0])
                    settings.append((table, "COCO", protocol, name.lower() if name == "Dynamic" else name, *own))
            backbone = row[1] or backbone if table == 2 else backbone
    return main, settings


def compare_with_paper(main, settings):
    ours = [(int(r[0]), r[1], r[2], r[3], r[5] if r[0] == "2" else r[4], *map(number, r[6:])) for r in main]
    theirs, their_settings = printed()
    assert len(theirs) == 88 and len(their_settings) == 54, (len(theirs), len(their_settings))
    assert sorted(ours, key=repr) == sorted(theirs, key=repr), set(ours) ^ set(theirs)
    ours = [(int(r[0]), r[1], r[2], r[4].replace(" ", ""), float(r[5]), float(r[6])) for r in settings]
    assert sorted(ours) == sorted(their_settings), set(ours) ^ set(their_settings)
    numbers = sum(value is not None for row in theirs for value in row[5:]) + 2 * len(their_settings)
    print(f"{numbers} numbers of {len(LABELS)} tables are those of the paper")


def check_page(path, main, data, protocol):
    """The tinted rows of the page, and that ours are in a group of their own above them."""
    page = Page(path)
    rows = page.section_tables("paper")[0]
    split = next(i for i, row in enumerate(rows) if row[0].startswith("As printed in the paper"))
    shown = rows[split + 1:]
    wanted = [[r[3], r[4] or "–"] + ["–" if v == "NONE" else f"{float(v):.1f}" for v in r[6:]] for r in main
              if (r[1], r[2]) == (data, protocol) and (r[0], r[3]) != ("2", "L3A")]  # which repeats Table 1
    assert shown == wanted, (shown, wanted)
    assert [row[0] for row in rows[1:split]] == ["Measured here", "l3a", "joint"], rows[:split]
    assert "not measured with this program" in page.sections["paper"]["text"]


def main():
    main_rows, settings = compiled()
    with tempfile.TemporaryDirectory() as work:
        for data, witness, classes, protocols in (("COCO", "toothbrush", 80, ("B0-C10", "B40-C10")), ("VOC", "pottedplant", 20, ("B0-C4", "B10-C2"))):
            folder = os.path.join(work, data)
            os.mkdir(folder)
            make_tables(folder, [f"class {k:02d}" for k in range(classes - 1)] + [witness], rows=(600, 200), pictures=False)
            for protocol in protocols:
                run = make_run(folder, protocol, "--protocol", protocol, "--method", "l3a,joint")
                check_page(os.path.join(run, "report.html"), main_rows, data, protocol)
            other = Page(os.path.join(make_run(folder, "other", "--protocol", "B0-C5", "--method", "l3a"), "report.html"))
            assert "paper" not in other.sections, "another protocol"
        stranger = os.path.join(work, "stranger")
        os.mkdir(stranger)
        make_tables(stranger, [f"class {k:02d}" for k in range(20)], rows=(600, 200), pictures=False)
        page = Page(os.path.join(make_run(stranger, "run", "--protocol", "B0-C4", "--method", "l3a"), "report.html"))
        assert "paper" not in page.sections, "another data set"
    print("the page shows them for the paper's four settings, and for no other run")
    if not os.path.exists(PAPER):
        print(f"skipped: the numbers themselves, because {PAPER} is not there")
        return 77
    compare_with_paper(main_rows, settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
