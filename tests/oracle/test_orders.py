#!/usr/bin/env python3
"""Several class orders: a run of all of them against a run of each; means, deviations, what is bold and the verdict against NumPy and SciPy; tables for papers
parsed again; resuming; and the page about a sweep."""
import html
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
try:
    from scipy import stats
except ImportError:
    print("skipped: scipy is not installed")
    sys.exit(77)

from report_runs import make_tables
from support import COMMAND, check, finish, l3a, read_csv

MAKE_FEATURES = Path(__file__).parent.parent / "cli" / "make_features.py"
ORDERS = ["shuffle:1", "lexicographic", "shuffle:7"]
SEEDS = ["3", "4"]
METHODS = ["l3a", "finetune", "l3a+", "joint"]
PHASED = METHODS[:3]


def without_seconds(rows):
    return [{key: value for key, value in row.items() if key not in ("seconds", "class_order")} for row in rows]


def summaries(rows, methods=METHODS):
    """For each method, one line per order and seed: average mAP, last mAP, CF1, OF1."""
    table = {}
    for method in methods:
        lines = []
        for _, trial in itertools.groupby((r for r in rows if r["method"] == method), lambda r: (r.get("class_order"), r["seed"])):
            trial = list(trial)
            last = trial[-1]
            lines.append([np.mean([float(r["mAP"]) for r in trial]), float(last["mAP"]), float(last["CF1"]), float(last["OF1"])])
        table[method] = np.array(lines)
    return table


def check_against_single_runs(folder, base, rows):
    """A run with several orders is the runs with each of them, to the last digit."""
    for order in ORDERS:
        where = folder / f"only-{order}"
        l3a("run", *base, "--class-order", order, "-o", where, "--quiet", "--format", "csv")
        alone = read_csv(where / "metrics.csv")
        check("class_order" not in alone[0], "one order needs no column")
        check(without_seconds(alone) == without_seconds([r for r in rows if r["class_order"] == order]), f"{order}: other numbers than alone")
        ours = [r for r in read_csv(folder / "orders" / "per_class.csv") if r["class_order"] == order]
        theirs = read_csv(where / "per_class.csv")
        keys = ("method", "seed", "phase", "class", "AP", "images", "weight", "pseudo", "right", "present")
        check([[r[k] for k in keys] for r in ours] == [[r[k] for k in keys] for r in theirs], f"{order}: other classes than alone")


def check_json(folder, base, rows):
    told = json.loads(l3a("run", *base, "--class-order", ",".join(ORDERS), "-o", folder / "orders", "--resume", "--quiet", "--format", "json").stdout)
    table = summaries(rows)
    for entry in told["summary"]:
        numbers = table[entry["method"]]
        check(entry["seeds"] == 2 and entry["class_orders"] == 3, f"{entry['method']}: how many seeds and orders")
        for column, key in enumerate(("avg_mAP", "last_mAP", "CF1", "OF1")):
            check(abs(entry[key]["mean"] - numbers[:, column].mean()) < 2e-6, f"{entry['method']}: mean of {key}")
            check(abs(entry[key]["deviation"] - numbers[:, column].std(ddof=1)) < 2e-6, f"{entry['method']}: deviation of {key}")
    check(list(told["class_orders"]) == ORDERS and all(sorted(names) == sorted(told["classes"]) for names in told["class_orders"].values()),
          "the classes of each order")
    check(told["class_orders"]["lexicographic"] == sorted(told["classes"]), "the classes of one order")


def adjusted(table, best, column, others):
    """The p values of paired t tests against the best, corrected by Holm."""
    ps = {m: stats.ttest_rel(table[best][:, column], table[m][:, column]).pvalue for m in others}
    order, floor = sorted(ps, key=ps.get), 0.0
    for rank, m in enumerate(order):
        floor = ps[m] = max(floor, min(1, ps[m] * (len(order) - rank)))
    return ps


def expected_verdict(table):
    """Written a second time from the words of the documentation, for six pairs."""
    best, second = sorted(PHASED, key=lambda m: -round(table[m][:, 1].mean(), 2))[:2]
    ps = adjusted(table, best, 1, [m for m in METHODS if m != best])
    clauses = []
    for number, other in enumerate((second, "joint")):
        gaps = table[best][:, 1] - table[other][:, 1]
        gaps = gaps if gaps.mean() > 0 else -gaps
        digits = 2 if gaps.mean() < 0.095 else 1
        low, high = stats.t.interval(0.95, len(gaps) - 1, gaps.mean(), stats.sem(gaps))
        above = "above" if table[best][:, 1].mean() > table[other][:, 1].mean() else "below"
        clauses.append(f"{gaps.mean():.{digits}f}{' mAP' if number == 0 else ''} {above} {other} ({'95 % interval ' if number == 0 else ''}"
                       f"{low:.{digits}f} to {high:.{digits}f}{'' if ps[other] < 0.05 else '; may be chance'})")
    return f"{best} ends {' and '.join(clauses)}."


def check_text(folder, base, table):
    done = l3a("run", *base, "--class-order", ",".join(ORDERS), "-o", folder / "orders", "--resume", "--quiet")
    lines = done.stdout.splitlines()
    verdict = expected_verdict(table)
    check(lines[0] == verdict, f"the verdict is '{lines[0]}' instead of '{verdict}'")
    check("± is the standard deviation over 3 class orders and 2 seeds (6 runs of each method)" in done.stdout, "what ± covers")
    row = next(line for line in lines if line.startswith("l3a+ ") and "±" in line)
    check("fitted per class" in row, "the threshold of l3a+ beside its F1")
    check("σ > " in next(line for line in lines if line.startswith("l3a ") and "±" in line), "the threshold of l3a beside its F1")
    page = (folder / "orders" / "report.html").read_text()
    check(f'<p class="verdict">{html.escape(verdict, quote=False)}</p>' in page, "the verdict on the page")
    check("3 class orders (shuffle:1, lexicographic, shuffle:7) and 2 seeds" in page, "the page says what ± covers")
    check(page.index("verdict\">") < page.index("<table"), "the verdict comes first")


def bold_methods(table):
    """For each column, the best method and those that are not significantly worse. CF1 and OF1 have a rival only at the same threshold, and
    here no two methods that learn in phases have the same."""
    bold = []
    for column in range(4):
        best = max(PHASED, key=lambda m: round(table[m][:, column].mean(), 2))
        others = [m for m in (PHASED if column == 0 else METHODS) if m != best]
        ps = adjusted(table, best, column, others)
        bold.append([m for m in PHASED if m == best or ps[m] >= 0.05] if column < 2 else [])
    return bold


def check_tables(folder, table):
    """The LaTeX and Markdown tables: their shape, their numbers, and what is bold."""
    latex = l3a("report", folder / "orders", "--format", "latex").stdout
    check(latex == l3a("report", folder / "orders", "--format", "latex").stdout, "the table is the same again")
    opened = re.findall(r"\\begin\{(\w+)\}", latex)
    closed = re.findall(r"\\end\{(\w+)\}", latex)
    check(opened == ["table", "tabular"] and closed == opened[::-1], "environments close")
    columns = len(re.search(r"\\begin\{tabular\}\{@\{\}(\w+)@\{\}\}", latex).group(1))
    body = re.search(r"\\midrule\n(.*?)\\bottomrule", latex, re.S).group(1)
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)&", line.strip()[:-2])] for line in body.strip().splitlines()]
    check(all(len(row) == columns for row in rows), f"{columns} columns in every row")
    check([row[0] for row in rows] == METHODS, "a row for each method")
    check(all(latex.count(c) == latex.count("\\" + c) for c in "#_") and latex.count("{") == latex.count("}"), "special characters are escaped")
    bold = bold_methods(table)
    for row in rows:
        for column in range(4):
            mean, deviation = table[row[0]][:, column].mean(), table[row[0]][:, column].std(ddof=1)
            cell = row[1 + column]
            if row[0] == "joint" and column == 0:
                check(cell == "--", "joint has no average")
                continue
            shown = f"\\textbf{{{mean:.2f}}}" if row[0] in bold[column] else f"{mean:.2f}"
            check(cell == f"{shown}\\,{{\\scriptsize$\\pm${deviation:.2f}}}", f"{row[0]}, column {column}: {cell}")
    markdown = l3a("report", folder / "orders", "--format", "markdown").stdout.splitlines()
    check(len({line.count("|") for line in markdown[:6]}) == 1, "the columns of Markdown")
    numbers = [re.findall(r"\d+\.\d+", line) for line in markdown[2:6]]
    check([n[:2] for n in numbers[:3]] == [re.findall(r"\d+\.\d+", row[1]) for row in rows[:3]], "Markdown has the same numbers")


def check_resume(folder, base):
    """Interrupted in the second order, and killed in the third."""
    where = folder / "resumed"
    command = [COMMAND, "run", *base, "--class-order", ",".join(ORDERS), "-o", where]
    for line, sent in (("l3a, lexicographic, seed 3, phase 1", signal.SIGINT), ("l3a+, shuffle:7, seed 3, phase 2", signal.SIGKILL)):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for text in process.stderr:
            if line in text:
                process.send_signal(sent)
                break
        process.communicate()
        check(process.returncode != 0, f"stopped after {line}")
        check(l3a("report", where, "--format", "latex", code=1 if (where / "run.json").exists() else 2).stderr.count("not finished") == 1,
              "no table of an unfinished run")
        command = [COMMAND, "run", "-o", where, "--resume"]
    l3a("run", "-o", where, "--resume", "--quiet")
    for name in ("metrics.csv", "per_class.csv"):
        check(without_seconds(read_csv(where / name)) == without_seconds(read_csv(folder / "orders" / name)), f"resumed: {name}")
    check((where / "model.safetensors").read_bytes() == (folder / "orders" / "model.safetensors").read_bytes(), "resumed: the model")
    check(sorted(os.listdir(where)) == sorted(os.listdir(folder / "orders")), "resumed: the files")


def check_errors(folder, tables):
    (folder / "same.txt").write_text("\n".join(json.load(open(folder / "only-shuffle:1" / "run.json"))["run"]["classes"]) + "\n")
    for orders, says in (("shuffle:1,shuffle:1", "listed twice"), (f"shuffle:1,{folder / 'same.txt'}", "are the same"),
                         ("shuffle:1,shuffle:x", "whole number"), ("shuffle:1,none.txt", "none.txt")):
        check(says in l3a("run", *tables, "--class-order", orders, "-o", folder / "never", code=2).stderr, f"{orders}: {says}")
    plan = l3a("run", *tables, "--class-order", ",".join(ORDERS), "--seed", "1,2", "--dry-run").stdout
    check("1 method x 3 class orders (the phases above are those of the first) x 2 seeds" in plan, "the plan")
    changed = l3a("run", *tables, "--class-order", "shuffle:1,shuffle:2", "-o", folder / "orders", "--resume", code=2).stderr
    check("the run in this folder has" in changed, "resuming with other orders")


def marks(page, figure):
    """What a chart shows: (text of a mark, its horizontal place in percent, its height)."""
    part = page[page.index(f"<figcaption>{figure}"):]
    part = part[:part.index("</figure>")]
    found = re.findall(r'<use href="#m\d+" x="([\d.]+)%" y="([\d.]+)"[^>]*><title>([^<]*)</title>', part)
    return sorted((float(x), float(y), title) for x, y, title in found)


def check_sweep(folder, tables):
    orders = ["--class-order", "shuffle:1,shuffle:7", "--seed", "3,4", "--dim", "64"]
    where = folder / "sweep"
    l3a("sweep", *tables, "--gamma", "0.1,1,10,100", *orders, "-o", where, "--quiet")
    rows = read_csv(where / "sweep.csv")
    values = {}
    for gamma in ("0.1", "1", "10", "100"):
        alone = folder / f"gamma-{gamma}"
        l3a("run", *tables, "--gamma", gamma, *orders, "-o", alone, "--quiet")
        own = [{k: v for k, v in r.items() if k != "gamma"} for r in rows if r["gamma"] == gamma]
        close = zip(own, read_csv(alone / "metrics.csv"))
        check(all(a["class_order"] == b["class_order"] and a["seed"] == b["seed"] and abs(float(a["mAP"]) - float(b["mAP"])) < 0.05
                  for a, b in close), f"gamma {gamma} in the sweep and alone")
        values[gamma] = summaries(own, ["l3a"])["l3a"].mean(axis=0)
    page = (where / "report.html").read_text()
    by_last = sorted(values, key=lambda g: (-round(values[g][1], 2), -round(values[g][0], 2)))
    shown = re.findall(r'<tr><td class="text">([\d.]+)</td>', page)
    check(shown == by_last, f"best first: {shown} instead of {by_last}")
    check(f"Highest last mAP: gamma={by_last[0]}, with" in page and "<strong>gamma" not in page, "the first point is named, but four runs cannot tell")
    points = marks(page, "Last mAP")
    check([title for *_, title in points] == [f"l3a, gamma {g}: {values[g][1]:.2f}" for g in values], f"the points of the chart: {points}")
    gaps = np.diff([x for x, *_ in points])
    check(np.ptp(gaps) < 0.05, f"a logarithmic axis: {gaps}")
    heights = np.array([y for _, y, _ in points])
    numbers = np.array([values[g][1] for g in values])
    slope = np.polyfit(numbers, heights, 1)
    check(np.abs(np.polyval(slope, numbers) - heights).max() < 0.3 and slope[0] < 0, "heights are the numbers")
    rows = [line.split("|")[1:-1] for line in l3a("report", where, "--format", "markdown").stdout.splitlines() if line.startswith("| l3a")]
    check([[cell.strip(" *").split(" ")[0].rstrip("*") for cell in row[:6]] for row in rows] ==
          [["l3a", g, *(f"{v:.2f}" for v in values[g][:4])] for g in values], f"the table to publish, in the order of the grid: {rows}")
    l3a("sweep", *tables, "--eta", "0.5,0.6,0.8", "--dim", "64", "-o", folder / "even", "--quiet")
    first, second = np.diff([x for x, *_ in marks((folder / "even" / "report.html").read_text(), "Last mAP")])
    check(abs(second / first - 2) < 0.01, "an even axis for values that are not geometric")


def check_map(folder, tables):
    l3a("sweep", *tables, "--gamma", "1,100", "--eta", "0.5,0.6,dynamic", "--dim", "64", "-o", folder / "map", "--quiet")
    page = (folder / "map" / "report.html").read_text()
    part = page[page.index('<table class="map">'):]
    part = part[:part.index("</table>")]
    cells = [(float(h), bool(best), value) for h, best, value in re.findall(r'<td style="--h:([\d.]+)"( class="best")?>([\d.]+)', part)]
    rows = read_csv(folder / "map" / "sweep.csv")
    expected = [float([r for r in rows if r["gamma"] == g and r["eta"] == e][-1]["mAP"]) for g in ("1", "100") for e in ("0.5", "0.6", "dynamic")]
    check([value for *_, value in cells] == [f"{v:.2f}" for v in expected], f"the cells: {cells}")
    scaled = (np.array(expected) - min(expected)) / np.ptp(expected)
    check(np.abs(scaled - [h for h, *_ in cells]).max() < 0.006, "the tints")
    check(not any(best for _, best, _ in cells) and "a frame" not in page, "one run cannot tell which is best, so no cell has a frame")
    check("a page of its own" in l3a("report", folder / "map", folder / "orders", "-o", folder / "x.html", code=2).stderr, "sweep and run")


def check_quoted(folder):
    """For a data set of the paper, its rows follow, with the numbers that the paper prints (test_published.py compares those)."""
    names = ("aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person pottedplant sheep sofa train "
             "tvmonitor").split()
    os.makedirs(folder / "voc")
    make_tables(folder / "voc", names, pictures=False)
    run = ["run", "--train", folder / "voc" / "train.safetensors", "--test", folder / "voc" / "test.safetensors", "--dim", "32", "--quiet"]
    latex = l3a(*run, "--protocol", "B0-C4", "-o", folder / "quoted", "--format", "latex").stdout
    check(latex == l3a("report", folder / "quoted", "--format", "latex").stdout, "run and report print the same table")
    source = (Path(os.environ["L3A_SOURCE"]) / "src/report/published.inc").read_text()
    expected = re.findall(r'PUBLISHED\(3, "VOC", "B0-C4", "([^"]+)", "([^"]*)", [^,]+, ([^,]+), ([^,]+), NONE, NONE\)', source)
    own, quoted = latex[latex.index("OF1"):].split("not measured here")
    rows = [line.strip()[:-3].strip().split(" & ") for line in quoted.splitlines()[1:] if line.endswith("\\\\")]
    check(len(expected) > 10 and rows == [[method, memory, average.replace("NONE", "--"), last, "--", "--"] for method, memory, average, last in expected],
          "the quoted rows")
    check("l3a &  & " in own and "PASCAL VOC 2007" in latex, "the run's own row is above them, and the data set is named")
    other = l3a(*run, "--protocol", "B0-C5", "-o", folder / "unquoted", "--format", "markdown").stdout
    check("not measured here" not in other and "Memory" not in other, "nothing is quoted for another protocol")
    check("σ &gt; 0.525" in other, "one threshold is in the caption")


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        subprocess.run([sys.executable, MAKE_FEATURES, folder, "--rows", "1500", "--test-rows", "300", "--classes", "6"], check=True)
        tables = ["--train", folder / "train.safetensors", "--test", folder / "test.safetensors", "--protocol", "B0-C2"]
        base = [*tables, "--method", ",".join(METHODS), "--seed", ",".join(SEEDS), "--dim", "128"]
        l3a("run", *base, "--class-order", ",".join(ORDERS), "-o", folder / "orders", "--quiet")
        rows = read_csv(folder / "orders" / "metrics.csv")
        check([(r["method"], r["class_order"], r["seed"], r["phase"]) for r in rows] ==
              [(m, o, s, str(p)) for m in METHODS for o in ORDERS for s in SEEDS for p in range(1, 4 if m != "joint" else 2)], "the order of the rows")
        check_against_single_runs(folder, base, rows)
        check_json(folder, base, rows)
        check_text(folder, base, summaries(rows))
        check_tables(folder, summaries(rows))
        check_resume(folder, base)
        check_errors(folder, tables)
        check_sweep(folder, tables)
        check_map(folder, tables)
        check_quoted(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
