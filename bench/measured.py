"""What all benchmarks share: how a measurement is reported, the conditions it was made under, and the page that shows both.

A measurement is a list of values, one per round in which all rivals take turns; it is reported as the median with the smallest and the
largest value. report() prints it and, if run.py has set L3A_BENCH_RESULTS, appends it to that file, as one line of JSON."""
import json
import os
import re
import statistics

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def spread(values, form="{:.2f}"):
    """'1.10 (1.05 to 1.14 over 3 rounds)'"""
    values = list(values)
    if len(values) == 1:
        return form.format(values[0]) + " (one round)"
    return f"{form.format(statistics.median(values))} ({form.format(min(values))} to {form.format(max(values))} over {len(values)} rounds)"


def report(what, target, measured, met, command):
    """target: a text, '' if there is none; measured: a text made with spread(); command: what to type to measure only this number."""
    verdict = "" if not target else ": met" if met else ": missed"
    print(f"{what}: {'target ' + target + ', ' if target else ''}measured {measured}{verdict}", flush=True)
    path = os.environ.get("L3A_BENCH_RESULTS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"what": what, "target": target, "measured": measured, "met": bool(met), "command": command}) + "\n")


def load():
    return [round(value, 2) for value in os.getloadavg()]


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return "unknown"


def version():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "include", "l3a", "l3a.h"), encoding="utf-8") as file:
        return re.search(r'define L3A_VERSION "(.*)"', file.read()).group(1)


def conditions(environment):
    """What a measurement depends on, besides the programs it is compared with."""
    return {"version of l3a": version(), "processor": processor(), "cores": len(os.sched_getaffinity(0)), "kernels (OPENBLAS_CORETYPE)": environment.get("OPENBLAS_CORETYPE", "not set"),
            "OMP_NUM_THREADS": environment.get("OMP_NUM_THREADS", "not set"), "OMP_WAIT_POLICY": environment.get("OMP_WAIT_POLICY", "not set"),
            "load average before": load()}


def text_of(value):
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def render(results):
    """The measured part of docs/performance.md."""
    lines = ["| condition | |", "|---|---|"] + [f"| {name} | {text_of(value)} |" for name, value in results["conditions"].items()]
    lines += ["", "| what | target | median (smallest to largest) | command |", "|---|---|---|---|"]
    for row in results["rows"]:
        missed = " **missed**" if row["target"] and not row["met"] else ""
        lines.append(f"| {row['what']} | {row['target'] or '–'} | {row['measured']}{missed} | `{row['command']}` |")
    return "\n".join(lines)


def write_page(results, path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{path}: the markers for measurements are missing: {BEGIN} … {END}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.split(BEGIN)[0] + BEGIN + "\n" + render(results) + "\n" + END + text.split(END)[1])
