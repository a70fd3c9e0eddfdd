#!/usr/bin/env python3
"""Differences between methods against SciPy, on made-up tables: t intervals, paired t tests, tests that flip signs, Holm's correction; the
bootstrap written a second time, with the same random rule; and what is bold in each table because of it."""
import csv
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
try:
    import numpy as np
    from scipy import stats
except ImportError:
    print("skipped: numpy or scipy is not installed")
    sys.exit(77)
from support import check, finish, l3a, splitmix

METRICS = ["avg_mAP", "last_mAP", "CF1", "OF1", "forgetting"]
HEADER = ("method,seed,phase,first,last,train_images,test_images,pseudo_labels,mAP,CP,CR,CF1,OP,OR,OF1,seconds,base_mAP,new_mAP")


def make_run(folder, values, orders, seeds, missing=()):
    """The folder of a run with these numbers: values[method] is [orders, seeds, 2 phases, (mAP, CF1, OF1)]; a method whose name begins with
    joint has only the second phase. `missing` lists trials (method, order, seed) that were not run."""
    folder.mkdir()
    several = len(orders) > 1
    names = ["cat", "dog"]
    record = {"protocol": "B0-C1", "methods": list(values), "seeds": seeds, "classes": names, "theta": 0.5, "thresholds": "fixed",
              "head-theta": 0.8, "prescribed": {"l3a+": {"thresholds": "per-class"}, "joint+": {"thresholds": "per-class"}}}
    if several:
        record.update(class_orders=orders, classes_by_order=[names] * len(orders))
    (folder / "run.json").write_text(json.dumps({"run": record}))
    metrics, classes = [HEADER + ",class_order" * several], ["method,seed,phase,class,AP" + ",class_order" * several]
    for method, numbers in values.items():
        for i, order in enumerate(orders):
            for j, seed in enumerate(seeds):
                if (method, order, seed) in missing:
                    continue
                joint = method.startswith("joint")
                for phase in (2,) if joint else (1, 2):
                    m, c, o = numbers[i, j, phase - 1]
                    end = f",{order}" * several
                    shown = 1 if joint else phase
                    metrics.append(f"{method},{seed},{shown},{0 if joint else phase - 1},{phase},9,9,0,{m!r},1,1,{c!r},1,1,{o!r},0.1,1,1{end}")
                    classes += [f"{method},{seed},{shown},{name},{m!r}{end}" for name in names[:phase]]
    (folder / "metrics.csv").write_text("\n".join(metrics) + "\n")
    (folder / "per_class.csv").write_text("\n".join(classes) + "\n")


def table_of(folder):
    done = l3a("report", folder, "--format", "csv")
    return {(row["method"], row["metric"]): row for row in csv.DictReader(io.StringIO(done.stdout))}


def trial_values(numbers, metric, joint):
    """A number per order and seed; None if the metric has no meaning."""
    flat = numbers.reshape(-1, 2, 3)
    if metric in ("avg_mAP", "forgetting"):
        return None if joint else flat[:, :, 0].mean(1) if metric == "avg_mAP" else flat[:, 0, 0] - flat[:, 1, 0]
    return flat[:, 1, ["last_mAP", "CF1", "OF1"].index(metric)]


def uniform(count):
    """The project's random rule with the seed 2025: splitmix64, the upper 24 bits."""
    with np.errstate(over="ignore"):
        z = np.uint64(2025) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return ((z ^ z >> np.uint64(31)) >> np.uint64(40)).astype(float) / 2**24


def bootstrap(differences):
    """9999 samples with replacement; draw j of sample b is number b n + j of the stream that the seed 2025 starts."""
    n = len(differences)
    means = np.sort(differences[np.floor(uniform(9999 * n) * n).astype(int).reshape(9999, n)].mean(1))
    return means[249], means[9749]


def flipped(differences):
    """The share of ways to choose signs that reach as far."""
    n = len(differences)
    if n <= 16:
        if n <= 12:
            return stats.permutation_test((differences,), np.sum, permutation_type="samples", n_resamples=np.inf).pvalue if n else 1
        signs = 1 - 2 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
    else:
        signs = np.vstack([np.ones((1, n)), np.where(uniform(65535 * n).reshape(-1, n) < 0.5, 1, -1)])
    sums = np.abs(signs @ differences)
    return (sums >= abs(differences.sum()) * (1 - 1e-9)).mean()


def holm(ps):
    """Each p times the number of those that are not smaller, in order, never falling."""
    order, adjusted, floor = np.argsort(ps, kind="stable"), np.empty(len(ps)), 0.0
    for rank, i in enumerate(order):
        floor = max(floor, min(1, ps[i] * (len(ps) - rank)))
        adjusted[i] = floor
    return adjusted


def close(ours, theirs, what, tolerance=1e-10):
    check(abs(float(ours) - theirs) <= tolerance * max(1, abs(theirs)), f"{what}: {ours} instead of {theirs!r}")


def kind_of(method):
    """Above which threshold it predicts: fitted, the setting of trained heads, or that of the others."""
    return "fitted" if method.endswith("+") else "head" if method == "finetune" else "fixed"


def expected_reference(values, metric, method):
    """The best method that learns in phases and can be compared with this one."""
    joint = {m: m.startswith("joint") for m in values}
    rivals = [m for m in values if not joint[m] and (metric not in ("CF1", "OF1") or kind_of(m) == kind_of(method))]
    if metric in ("avg_mAP", "forgetting") and joint[method]:
        return None
    sign = -1 if metric == "forgetting" else 1
    return max(rivals, key=lambda m: sign * round(trial_values(values[m], metric, False).mean(), 2), default=None)


def check_table(folder, values, pairs):
    table = table_of(folder)
    check(set(table) == {(method, metric) for method in values for metric in METRICS}, f"{folder.name}: the rows")
    for metric in METRICS:
        compared = {}
        for method, numbers in values.items():
            row, own = table[method, metric], trial_values(numbers, metric, method.startswith("joint"))
            reference = expected_reference(values, metric, method)
            if own is None:
                check((row["mean"], row["reference"]) == ("", ""), f"{method} has no {metric}")
                continue
            close(row["mean"], own.mean(), f"{method} {metric}: the mean")
            check(row["reference"] == (reference or ""), f"{method} {metric}: compared with {row['reference']} instead of {reference}")
            if reference in (None, method):
                check(row["pairs"] == "0" and row["p"] == "", f"{method} {metric}: compared with itself")
                continue
            differences = own - trial_values(values[reference], metric, False)
            compared[method] = check_row(row, own, differences, f"{folder.name}: {method} {metric}")
        adjusted = holm(list(compared.values()))
        for method, p in zip(compared, adjusted):
            close(table[method, metric]["adjusted_p"], p, f"{method} {metric}: Holm")
            told = "" if pairs < 5 else "yes" if p < 0.05 else "no"
            check(table[method, metric]["significant"] == told, f"{method} {metric}: significant")
    return table


def check_row(row, own, differences, what):
    """Returns the p value that was expected."""
    n, mean = len(differences), differences.mean()
    check(int(row["pairs"]) == n, f"{what}: {row['pairs']} pairs instead of {n}")
    close(row["difference"], mean, f"{what}: the difference")
    if n >= 10:
        low, high = bootstrap(differences)
        p = flipped(differences)
    else:
        low, high = stats.t.interval(0.95, n - 1, mean, stats.sem(differences))
        tested = stats.ttest_rel(own, own - differences)
        p = tested.pvalue
        for end in ("low", "high"):  # SciPy's quantiles have nine digits, its tails more
            close(2 * stats.t.sf(abs(float(row[end]) - mean) / stats.sem(differences), n - 1), 0.05, f"{what}: the tail beyond {end}")
    close(row["low"], low, f"{what}: low", 1e-8 if n < 10 else 1e-10)
    close(row["high"], high, f"{what}: high", 1e-8 if n < 10 else 1e-10)
    close(row["p"], p, f"{what}: p")
    return p


def check_bold(folder, values, table, pairs):
    """In every table, bold is what is best or may be as good, and nothing below five pairs."""
    phased = [m for m in values if not m.startswith("joint")]
    wanted = {}
    for metric in METRICS:
        for method in phased:
            row = table[method, metric]
            rivals = [m for m in phased if m != row["reference"] and table[m, metric]["reference"] == row["reference"]]
            wanted[method, metric] = pairs >= 5 and bool(rivals) and (row["reference"] == method or row["significant"] == "no")
    lines = [line for line in l3a("report", folder, "--format", "markdown").stdout.splitlines() if line.startswith("| ")]
    for method in values:
        cells = [cell.strip() for cell in next(line for line in lines if line.startswith(f"| {method} ")).split("|")[2:6]]
        bold = [cell.startswith("**") for cell in cells]
        check(bold == [wanted.get((method, metric), False) for metric in METRICS[:4]], f"{folder.name}: {method} in Markdown: {cells}")
    latex = l3a("report", folder, "--format", "latex").stdout
    check(latex.count("\\textbf{") == sum(wanted[m, k] for m in phased for k in METRICS[:4]), f"{folder.name}: what is bold in LaTeX")
    check(("Nothing is bold" in latex) == (pairs < 5), f"{folder.name}: LaTeX says why")
    l3a("report", folder, "-o", folder / "page.html")
    page = (folder / "page.html").read_text()
    summary = page[page.index('<table class="summary">'):]
    summary = summary[:summary.index("</table>")]
    check(summary.count('class="best"') == sum(wanted.values()), f"{folder.name}: what is bold on the page")
    check(("Nothing is bold" in page) == (pairs < 5) and ("cannot tell" in page) == (pairs < 5), f"{folder.name}: the page says why")
    shown = re.findall(r'<td>(-?[\d.]+)<br><small>(-?[\d.]+) to (-?[\d.]+)<br>', page)
    expected = [tuple(f"{float(table[m, k][c]) + 0:.2f}" for c in ("difference", "low", "high"))
                for m in values for k in METRICS[:4] if table[m, k]["low"]]
    check(shown == expected, f"{folder.name}: the differences on the page: {shown} instead of {expected}")


def main():
    rng = np.random.default_rng(3)
    check(list(uniform(5) * 2**24) == [splitmix(2025, i) >> 40 for i in range(5)], "the random rule in Python's own integers")
    levels = {"l3a": 60, "l3a+": 61, "acil": 60.95, "finetune": 30, "joint": 62, "joint+": 61.2}
    with tempfile.TemporaryDirectory() as base:
        base = Path(base)
        for orders, seeds, methods in ((1, 2, 6), (2, 2, 4), (1, 5, 6), (3, 3, 6), (2, 5, 6), (1, 12, 5), (1, 14, 2), (4, 5, 3)):
            names = [f"shuffle:{i}" for i in range(orders)]
            numbers = np.arange(7, 7 + seeds).tolist()
            common = rng.normal(scale=3, size=(orders, seeds, 1, 1))  # of each trial: pairs take it out
            values = {m: level + common + rng.normal(scale=0.3, size=(orders, seeds, 2, 3)) + np.array([8, 0])[:, None]
                      for m, level in list(levels.items())[:methods]}
            folder = base / f"{orders} orders, {seeds} seeds"
            make_run(folder, values, names, numbers)
            table = check_table(folder, values, orders * seeds)
            check_bold(folder, values, table, orders * seeds)
        check(l3a("report", folder, "--format", "csv").stdout == l3a("report", folder, "--format", "csv").stdout, "the same numbers again")
        check_missing(base, rng)
        check_elsewhere(base, rng)
    return finish()


def check_elsewhere(base, rng):
    """What joins from a file is compared as if the run had it, and says where it is from."""
    values = {m: 50 + k + rng.normal(scale=2, size=(2, 3, 2, 3)) for k, m in enumerate(("l3a", "acil", "mine"))}
    orders, seeds = ["shuffle:1", "shuffle:2"], [4, 5, 6]
    make_run(base / "whole", values, orders, seeds)
    make_run(base / "part", {m: values[m] for m in ("l3a", "acil")}, orders, seeds)
    lines = ["order,method,seed,phase,overall_f1,class_f1,map,threshold"]
    lines += [f"{order},mine,{seed},{phase},{f1!r},{c!r},{m!r},σ > 0.5" for i, order in enumerate(orders) for j, seed in enumerate(seeds)
              for phase, (m, c, f1) in enumerate(values["mine"][i, j].tolist(), 1)]
    (base / "mine.csv").write_bytes(("\ufeff" + "\r\n".join(lines)).encode())
    whole = table_of(base / "whole")
    joined = {(row["method"], row["metric"]): row for row in csv.DictReader(io.StringIO(
        l3a("report", base / "part", "--with", base / "mine.csv", "--format", "csv").stdout))}
    check(set(whole) == set(joined), "the same rows")
    for key, row in whole.items():
        if key[1] != "forgetting":  # the file has no AP of each class
            check({**row, "source": "mine.csv" if key[0] == "mine" else ""} == joined[key], f"joined: {joined[key]} instead of {row}")
    for format in ("latex", "markdown"):
        text = l3a("report", base / "part", "--with", base / "mine.csv", "--format", format).stdout
        check("mine.csv, not measured here" in text and ("mine †" in text or "mine $\\dagger$" in text), f"{format} says where it is from")
    l3a("report", base / "part", "--with", base / "mine.csv", "-o", base / "joined.html")
    page = (base / "joined.html").read_text()
    check("† from mine.csv" in page and page.count("mine †") > 3, "the page says where it is from")
    l3a("report", base / "part", "--with", base / "mine.csv", "--format", "svg", "-o", base / "figures")
    check("mine †" in (base / "figures" / "map-by-phase.svg").read_text(), "the chart has it")
    check("several" in l3a("report", base / "part", base / "whole", "--with", base / "mine.csv", "-o", base / "x.html", code=2).stderr, "several runs")


def check_missing(base, rng):
    """A trial that one method lacks is no pair; a run that lacks it is not finished, so two runs are compared."""
    values = {m: 50 + k + rng.normal(size=(1, 7, 2, 3)) for k, m in enumerate(("l3a", "acil"))}
    make_run(base / "first", {"l3a": values["l3a"]}, [""], list(range(7)))
    make_run(base / "second", {"acil": values["acil"][:, :6]}, [""], list(range(6)))
    rows = list(csv.DictReader(io.StringIO(l3a("report", base / "first", base / "second", "--format", "csv").stdout)))
    row = next(row for row in rows if row["run"] == "first" and row["metric"] == "last_mAP")
    check((row["method"], row["reference"]) == ("l3a", "second"), f"two runs: {row}")
    check_row(row, values["l3a"][0, :6, 1, 0], values["l3a"][0, :6, 1, 0] - values["acil"][0, :6, 1, 0], "six of seven pairs")


if __name__ == "__main__":
    sys.exit(main())
