"""The report of a run as a text: well formed, self-contained, hostile names harmless, every number that of the run's tables, and what the
tables say about classes that of NumPy."""
import csv
import os
import shutil
import sys
import tempfile
from html.parser import HTMLParser

import numpy as np

from report_runs import NAMES, make_run, make_tables, on_page, run
from support import read_csv

VOID = {"meta", "link", "img", "br", "input"}
SECTIONS = ["headline", "phases", "classes", "forgetting", "pseudo-labels", "weights", "curves", "pictures", "costs", "record"]


class Page(HTMLParser):
    """Checks as it reads: tags close in order, nothing runs, nothing is fetched. Keeps sections, tables and texts."""

    def __init__(self, path):
        super().__init__()
        self.stack, self.sections, self.tables, self.texts, self.ids, self.images = [], {}, [], [], [], 0
        with open(path, encoding="utf-8") as file:
            self.source = file.read()
        self.feed(self.source)
        self.close()
        assert not self.stack, f"left open: {self.stack}"
        assert len(self.ids) == len(set(self.ids)), "an id stands twice"

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        assert tag not in ("script", "iframe", "object", "embed", "base", "form"), tag
        for name, value in attributes.items():
            assert not name.startswith("on") and name != "srcset", name
            if name in ("src", "href"):
                assert value.startswith(("data:", "#")), value
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "section":
            self.sections[attributes["id"]] = {"charts": 0, "tables": 0, "text": ""}
        self.images += tag == "img"
        if tag == "svg" and attributes.get("role") == "img":
            self.sections[list(self.sections)[-1]]["charts"] += 1
        if tag == "table":
            self.tables.append((list(self.sections)[-1], []))
            self.sections[list(self.sections)[-1]]["tables"] += 1
        if tag == "tr":
            self.tables[-1][1].append([])
        if tag in ("th", "td"):
            self.tables[-1][1][-1].append("")
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.stack.pop()

    def handle_endtag(self, tag):
        assert self.stack and self.stack[-1] == tag, f"</{tag}> where {self.stack[-3:]} is open"
        self.stack.pop()

    def handle_data(self, data):
        if "style" in self.stack:
            assert "url(" not in data and "@import" not in data
            return
        self.texts.append(data)
        if self.sections:
            self.sections[list(self.sections)[-1]]["text"] += data
        if self.stack and self.stack[-1] in ("th", "td"):
            self.tables[-1][1][-1][-1] += data

    def section_tables(self, name):
        return [rows for section, rows in self.tables if section == name]


def by_series(rows):
    """Rows by method, then by the class count after the phase, over seeds."""
    table = {}
    for row in rows:
        table.setdefault(row["method"], {}).setdefault(int(row["last"]), []).append(row)
    return table


def check_phase_tables(page, folder):
    series = by_series(read_csv(f"{folder}/metrics.csv"))
    tables = page.section_tables("phases")
    for column, rows in zip(("mAP", "CF1", "OF1", "base_mAP", "new_mAP"), tables, strict=True):
        ends = [int(cell) for cell in rows[0][1:]]
        assert ends == [4, 8, 12] and [row[0] for row in rows[1:]] == list(series), rows
        for row in rows[1:]:
            for end, cell in zip(ends, row[1:]):
                values = [float(r[column]) for r in series[row[0]].get(end, [])]
                expected = f"{np.mean(values):.2f}" if values else ""
                assert cell == expected, (column, row[0], end, cell, expected)


def check_summary(page, folder):
    series = by_series(read_csv(f"{folder}/metrics.csv"))
    joint = np.mean([float(r["mAP"]) for r in series["joint"][12]])
    for row in page.section_tables("headline")[0][1:]:
        method = next(m for m in series if row[0] == m)
        phases = series[method]
        last = phases[max(phases)]
        average = np.mean([float(r["mAP"]) for rows in phases.values() for r in rows])
        expected = [str(len(last)), f"{average:.2f}"] + [f"{np.mean([float(r[c]) for r in last]):.2f}" for c in ("mAP", "CF1", "OF1")]
        assert row[1:6] == expected, (row, expected)
        if method != "joint":
            assert row[7] == f"{joint - np.mean([float(r['mAP']) for r in last]):.2f}", row


def check_class_table(page, folder, labels):
    classes = read_csv(f"{folder}/per_class.csv")
    rows = page.section_tables("classes")[0]
    last = {m: [r for r in classes if r["method"] == m and r["phase"] == ("1" if m == "joint" else "3")] for m in ("l3a", "acil", "joint")}
    found = []
    shown = [on_page(name) for name in NAMES]
    for row in rows[1:]:
        k = shown.index(row[0])
        values = [f"{np.mean([float(r['AP']) for r in last[m] if r['class'] == NAMES[k]]):.2f}" for m in last]
        images = int(labels["train"][:, k].sum())
        assert row[1].split()[0] == str(images) and row[2:] == values, (row, images, values)
        found.append(float(row[2]))
    assert sorted(row[0] for row in rows[1:]) == sorted(shown) and found == sorted(found, reverse=True)
    middle = np.sort(labels["train"].sum(0))[::-1][len(NAMES) // 2]
    rare = {row[0] for row in rows[1:] if row[1].endswith("(rare)")}
    assert rare == {shown[k] for k in range(len(NAMES)) if labels["train"][:, k].sum() < middle / 2} and rare, rare


def check_pseudo_table(page, folder):
    sums = {}
    for row in read_csv(f"{folder}/per_class.csv"):
        if row["method"] == "l3a":
            add = np.array([int(row[c]) for c in ("pseudo", "right", "present")])
            sums[row["phase"]] = sums.get(row["phase"], 0) + add
    rows = page.section_tables("pseudo-labels")[0][1:]
    for row, phase in zip(rows, ("2", "3"), strict=True):
        given, right, present = (int(n) for n in sums[phase])
        assert row[2:] == [str(given), str(right), str(present), f"{100 * right / given:.2f}", f"{100 * right / present:.2f}"], (row, sums)


def scores_of(model, table, count):
    """Of every row and class, from the command's own tags."""
    text = run("predict", model, "--features", table, "--top", str(count), "--format", "csv", "--quiet")
    rows = list(csv.reader(text.splitlines()))
    order, table = [], {}
    for row, name, value in ((r[0], r[-2], r[-1]) for r in rows[1:]):
        if row not in table:
            order.append(row)
        table.setdefault(row, {})[name] = float(value)
    return [table[row] for row in order]


def check_tallies(folder, work, labels):
    """Counts and pseudo-labels of the second phase, from a model that learned the first one alone."""
    names = sorted(NAMES, key=lambda name: name.encode())
    columns = [NAMES.index(name) for name in names]
    train = labels["train"][:, columns]
    model = os.path.join(work, "first.safetensors")
    with open(os.path.join(work, "classes"), "w", encoding="utf-8") as file:
        file.write("\n".join(names[:4]) + "\n")
    run("learn", model, "--features", os.path.join(work, "train.safetensors"), "--classes", "@" + os.path.join(work, "classes"), "--dim", "96",
        "--gamma", "10", "--seed", "1", "--threads", "1", "--quiet")
    scores = scores_of(model, os.path.join(work, "train.safetensors"), 4)
    shown = train[:, 4:8].any(1)
    for row in (r for r in read_csv(f"{folder}/per_class.csv") if (r["method"], r["seed"], r["phase"]) == ("l3a", "1", "2")):
        k = names.index(row["class"])
        assert int(row["images"]) == train[:, k].sum(), row
        given = np.array([p.get(row["class"], 0) > np.log(0.55 / 0.45) for p in scores]) & shown if k < 4 else np.zeros(len(train), bool)
        assert abs(int(row["pseudo"]) - given.sum()) <= 1, (row["class"], row["pseudo"], given.sum())  # printed digits end somewhere
        assert abs(int(row["right"]) - (given & (train[:, k] == 1)).sum()) <= 1, row
        assert int(row["present"]) == (train[shown, k].sum() if k < 4 else 0), row
        weight = train[:, :8].sum(0) ** -0.5
        assert abs(float(row["weight"]) - (weight / weight.mean())[k]) < 1e-9, row


def check_curves(folder, work, labels):
    """Precision where recall reaches 0, 2 … 100 %, from the tags of the model that the run left."""
    scores = scores_of(os.path.join(folder, "model.safetensors"), os.path.join(work, "test.safetensors"), len(NAMES))
    shown = [i for i in range(len(scores)) if labels["test"][i].any()]
    for row in (r for r in read_csv(f"{folder}/per_class.csv") if (r["method"], r["seed"], r["phase"]) == ("l3a", "1", "3")):
        truth = labels["test"][shown, NAMES.index(row["class"])]
        order = np.argsort([-scores[i][row["class"]] for i in shown], kind="stable")
        hits = np.cumsum(truth[order])
        precision = 100 * hits / np.arange(1, len(hits) + 1)
        expected = [precision[np.argmax(hits >= max(1, np.ceil(j * hits[-1] / 50 - 1e-9)))] for j in range(51)]
        same = np.isclose([float(p) for p in row["curve"].split()], expected, atol=0.051)
        assert same.mean() > 0.9, (row["class"], same)  # four printed digits make ties of what differs
    assert not any(r["curve"] for r in read_csv(f"{folder}/per_class.csv") if r["phase"] == "2" or r["seed"] == "2")


def check_errors(work, folder):
    assert "not the folder of a run" in run("report", work, code=2)
    assert "there is no such folder" in run("report", os.path.join(work, "nowhere"), code=2)
    assert "name the folder of at least one run" in run("report", code=2)
    assert "-o" in run("report", folder, folder, code=2)
    assert "nowhere" in run("report", folder, "-o", os.path.join(work, "nowhere", "x.html"), code=2)
    assert "data set" in run("report", folder, "--pictures", "nothing", "-o", os.path.join(work, "x.html"), code=2)
    tables = ["--train", os.path.join(work, "train.safetensors"), "--test", os.path.join(work, "test.safetensors")]
    assert "data set" in run("run", *tables, "--protocol", "B0-C4", "--pictures", "nothing", "-o", os.path.join(work, "x"), code=2)
    assert not os.path.exists(os.path.join(work, "x")), "a run was begun"
    assert not os.path.exists(os.path.join(work, "x.html")), "a page in spite of the failure"
    damaged = os.path.join(work, "damaged")
    shutil.copytree(folder, damaged)
    for name in ("metrics.csv", "per_class.csv", "timings.csv"):
        path = os.path.join(damaged, name)
        text = open(path, encoding="utf-8").read()
        open(path, "w", encoding="utf-8").write(text.replace("\nl3a,1,1,", "\nl3a,one,1,", 1))
        assert name in run("report", damaged, code=2)
        open(path, "w", encoding="utf-8").write(text)
    open(os.path.join(damaged, "run.json"), "w").write("{")
    assert "run.json" in run("report", damaged, code=2)


def check_old_tables(work, folder):
    """A folder with nothing but AP in its table of classes, unfinished at that."""
    old = os.path.join(work, "old")
    shutil.copytree(folder, old)
    for name in ("checksums.csv", "timings.csv", "samples.csv", "report.html"):
        os.remove(os.path.join(old, name))
    with open(os.path.join(folder, "per_class.csv"), newline="", encoding="utf-8") as source, \
            open(os.path.join(old, "per_class.csv"), "w", newline="", encoding="utf-8") as target:
        csv.writer(target, lineterminator="\n").writerows(row[:5] for row in csv.reader(source))
    lines = open(os.path.join(folder, "metrics.csv")).read().splitlines(True)
    open(os.path.join(old, "metrics.csv"), "w").writelines(lines[:-1])
    run("report", old)
    page = Page(os.path.join(old, "report.html"))
    assert list(page.sections) == ["headline", "phases", "classes", "forgetting", "record"], list(page.sections)
    assert "This run is not finished" in "".join(page.texts)
    open(os.path.join(old, "metrics.csv"), "w").writelines(lines[:1])
    run("report", old)
    assert "No phase has results yet" in "".join(Page(os.path.join(old, "report.html")).texts)


def check_comparison(work, folder):
    other = make_run(work, "other <b>&", "--protocol", "B6-C3", "--method", "acil")
    path = os.path.join(work, "comparison.html")
    run("report", folder, other, "-o", path, "--title", "A <i>title</i>")
    page = Page(path)
    text = "".join(page.texts)
    assert "A <i>title</i>" in text and "other <b>&" in text and "run: l3a" in text
    assert any(row[-1] == "differs" and row[0] == "protocol" for row in page.section_tables("record")[0])
    run("report", folder, other, "-o", path + "2", "--title", "A <i>title</i>")
    assert open(path, "rb").read() == open(path + "2", "rb").read(), "the same runs give another page"


def main():
    with tempfile.TemporaryDirectory() as work:
        labels = make_tables(work)
        folder = make_run(work, "run", "--protocol", "B0-C4", "--method", "l3a,acil,joint", "--seed", "1,2")
        page = Page(os.path.join(folder, "report.html"))
        assert list(page.sections) == SECTIONS, list(page.sections)
        for name, section in page.sections.items():
            assert name in ("pictures", "record", "headline") or (section["charts"] and section["tables"]), (name, section)
        text = "".join(page.texts)
        for name in NAMES:
            assert on_page(name) in text, name
        assert 5 < page.images <= 18 and "not finished" not in text
        assert "l3a run --train" in page.sections["record"]["text"] and "a <b>net</b> & more" in text
        check_phase_tables(page, folder)
        check_summary(page, folder)
        check_class_table(page, folder, labels)
        check_pseudo_table(page, folder)
        check_tallies(folder, work, labels)
        check_curves(folder, work, labels)
        check_errors(work, folder)
        check_old_tables(work, folder)
        check_comparison(work, folder)
        print("the page says what the tables say")


if __name__ == "__main__":
    sys.exit(main())
