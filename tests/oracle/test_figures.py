"""The charts of a report as figures of their own: well-formed SVG that needs nothing else, whose points, bars and cells lie where the run's
tables say; PDF as poppler reads it and PNG as Pillow does; and what is said if a figure cannot be made."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

import numpy as np
from PIL import Image

from report_runs import NAMES, make_run, make_tables, on_page, run
from support import read_csv

SVG = "{http://www.w3.org/2000/svg}"
PHASES = {"map-by-phase": "mAP", "cf1-by-phase": "CF1", "of1-by-phase": "OF1", "base-map-by-phase": "base_mAP", "new-map-by-phase": "new_mAP"}
OTHERS = ["ap-by-class", "forgetting-l3a", "forgetting-acil", "pseudo-label-precision", "pseudo-label-recall", "weight-by-count", "seconds-by-stage",
          "precision-recall-best-class", "precision-recall-median-class", "precision-recall-worst-class", "precision-recall-rarest-class"]


def of_class(figure, name, tag="*"):
    return [node for node in figure.iter(SVG + tag if tag != "*" else None) if name in node.get("class", "").split()]


def place(node):
    return [float(n) for n in re.match(r"translate\((\S+) (\S+)\)", node.get("transform")).groups()]


def title(node):
    return node.find(SVG + "title").text


def load(path):
    """A figure that brings everything along, and draws nothing outside itself."""
    root = xml.parse(path).getroot()
    assert root.tag == SVG + "svg" and root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}", path
    ground = root.find(SVG + "rect")
    assert ground.get("fill") == "#fff" and (ground.get("width"), ground.get("height")) == (root.get("width"), root.get("height"))
    for node in root.iter():
        assert node.tag in (SVG + t for t in "svg title style rect g path text line defs linearGradient stop".split()), node.tag
        for name, value in node.attrib.items():
            assert not name.startswith("on") and "href" not in name and "%" not in value and ("url(" not in value or value == "url(#l3a-scale)"), (name, value)
    style = root.find(SVG + "style").text
    assert "var(" not in style and "url(" not in style and "@" not in style and title(root)
    return root


def scale_of(figure, axis):
    """From pixels to the numbers at the ticks."""
    texts = [t for t in figure.iter(SVG + "text") if t.text and re.fullmatch(r"[\d.]+", t.text)]
    if axis == "y":
        found = [(float(t.get("y")) - 4, float(t.text)) for t in texts if t.get("class") == "end"]
    else:
        found = [(float(t.get("x")), float(t.text)) for t in texts if t.get("class") == "middle"]
    pixels, values = np.array(sorted(found)).T
    slope = (values[-1] - values[0]) / (pixels[-1] - pixels[0])
    assert np.allclose(values[0] + (pixels - pixels[0]) * slope, values, atol=0.2 * abs(slope)), found
    return lambda pixel: values[0] + (pixel - pixels[0]) * slope


def check_phases(figure, column, folder):
    """Markers and lines, read back from their places."""
    to_x, to_y = scale_of(figure, "x"), scale_of(figure, "y")
    seen = {}
    for mark in (m for m in of_class(figure, "mark") if m.find(SVG + "title") is not None):
        method, classes = re.match(r"(.*), (\d+) classes: ", title(mark)).groups()
        x, y = place(mark)
        assert abs(to_x(x) - int(classes)) < 0.05, (title(mark), to_x(x))
        seen[method, int(classes)] = to_y(y), (x, y)
    rows = {}
    for row in read_csv(f"{folder}/metrics.csv"):
        rows.setdefault((row["method"], int(row["last"])), []).append(float(row[column]))
    assert set(rows) == set(seen), (rows, seen)
    for key, values in rows.items():
        assert abs(np.mean(values) - seen[key][0]) < 0.1, (key, np.mean(values), seen[key])
    for i, method in enumerate(("l3a", "acil")):
        lines = [line for line in of_class(figure, f"l{i}", "path") if "line" in line.get("class").split()]
        points = np.array(re.findall(r"[ML](\S+) ([^ML]+)", lines[0].get("d")), float)
        assert len(lines) == 1 and np.allclose(points, [seen[method, end][1] for end in (4, 8, 12)], atol=0.01)
    assert [t.text for t in of_class(figure, "name", "text")] == ["l3a", "acil", "joint"]


def check_bars(figure, folder):
    rows = [r for r in read_csv(f"{folder}/per_class.csv") if r["method"] == "l3a" and r["phase"] == "3"]
    expected = sorted((np.mean([float(r["AP"]) for r in rows if r["class"] == name]) for name in NAMES), reverse=True)
    widths = [float(bar.get("width")) for bar in of_class(figure, "bar")]
    rails = [float(rail.get("width")) for rail in of_class(figure, "rail")]
    assert np.allclose(100 * np.array(widths) / rails, expected, atol=0.05), (widths, expected)
    assert len(of_class(figure, "second")) == len(NAMES)


def check_cells(figure, folder, method):
    """Losses and gains, from the table of classes."""
    order = [on_page(title(t)) for t in figure.iter(SVG + "text") if t.find(SVG + "title") is not None]
    limit = float(re.search(r"−(\d+) points", "".join(figure.itertext())).group(1))
    table = {}
    for row in (r for r in read_csv(f"{folder}/per_class.csv") if r["method"] == method):
        table.setdefault((on_page(row["class"]), int(row["phase"])), []).append(float(row["AP"]))
    expected = {}
    for k, name in enumerate(order):
        start = np.mean(table[name, 1 + k // 4])
        for phase in range(1 + k // 4, 4):
            change = np.mean(table[name, phase]) - start
            if abs(change) / limit > 0.006:
                expected[k, phase] = np.sign(change) * min(1, abs(change) / limit)
    found = {}
    cells = of_class(figure, "loss", "rect") + of_class(figure, "gain", "rect")
    for cell in cells:
        where = (int(float(cell.get("y")) // 16), 1 + round(float(cell.get("x")) / float(cell.get("width"))))
        found[where] = float(cell.get("fill-opacity")) * (-1 if cell.get("class") == "loss" else 1)
    assert len(order) == len(NAMES) and set(expected) <= set(found) and len(found) - len(expected) <= 2, (expected, found)
    assert all(abs(found[at] - value) < 0.011 for at, value in expected.items()), (expected, found)


def tool(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check_pdf(path, figure):
    """The size in points, what it says, and that no word leaves the page."""
    information = tool("pdfinfo", path)
    size = [float(figure.get(side)) * 72 / 96 for side in ("width", "height")]
    found = [float(n) for n in re.search(r"Page size:\s+(\S+) x (\S+)", information).groups()]
    assert np.allclose(size, found, atol=0.02) and re.search(r"Pages:\s+1\n", information) and "l3a" in information and "Date" not in information, information
    assert re.search(r"Title:\s+(.*)", information).group(1) == title(figure), information
    boxes = np.array(re.findall(r'xMin="(\S+)" yMin="(\S+)" xMax="(\S+)" yMax="(\S+)"', tool("pdftotext", "-bbox", path, "-")), float)
    assert len(boxes) > 5 and boxes.min() > -0.1 and (boxes[:, 2:] < np.array(size) + 0.1).all(), (path, size, boxes)
    assert all(" yes " in line for line in tool("pdffonts", path).splitlines()[2:]), "a font is not embedded"


def check_png(path, figure):
    with Image.open(path) as picture:
        assert picture.size == tuple(int(float(figure.get(side)) * 300 / 96 + 0.5) for side in ("width", "height")), picture.size
        assert picture.mode == "RGB" and np.allclose(picture.info["dpi"], 300, atol=0.1), picture.info
        pixels = np.asarray(picture)
    assert (pixels[[0, 0, -1, -1], [0, -1, 0, -1]] == 255).all() and 0.001 < (pixels < 128).any(2).mean() < 0.9
    assert "map" not in os.path.basename(path) or (pixels == [0x00, 0x72, 0xB2]).all(2).sum() > 500, "no blue line"


def check_converted(work, folder, figures):
    if not os.path.exists(os.path.join(os.environ["L3A_BUILD"], "libl3a-figure.so")):
        print("skipped: PDF and PNG, because librsvg2-dev is not installed")
        return
    for kind, check in (("pdf", check_pdf), ("png", check_png)):
        if kind == "pdf" and not shutil.which("pdftotext"):
            print("skipped: PDF, because poppler-utils is not installed")
            continue
        made, again = os.path.join(work, kind), os.path.join(work, kind + " again")
        assert run("report", folder, "--format", kind, "-o", made) == made + "\n"
        assert sorted(os.listdir(made)) == sorted(f"{name}.{kind}" for name in figures)
        for name, figure in figures.items():
            check(os.path.join(made, f"{name}.{kind}"), figure)
        run("report", folder, "--format", kind, "-o", again)
        for name in os.listdir(made):
            assert open(os.path.join(made, name), "rb").read() == open(os.path.join(again, name), "rb").read(), name


def check_many(work):
    """A heat map of many classes comes with a short one, of the means of phases."""
    many = os.path.join(work, "many")
    os.mkdir(many)
    make_tables(many, [f"class {k:02d}" for k in range(40)], rows=(400, 200), pictures=False)
    folder = make_run(many, "run", "--protocol", "B0-C10")
    run("report", folder, "--format", "svg")
    made = os.path.join(folder, "figures")
    short, whole = (load(os.path.join(made, f"forgetting{kind}-l3a.svg")) for kind in ("-by-phase", ""))
    assert [t.text for t in of_class(short, "name") if t.find(SVG + "title") is not None] == ["classes 1–10", "classes 11–20", "classes 21–30", "classes 31–40"]
    assert len(of_class(whole, "cell", "rect")) == 40 and len(of_class(short, "cell", "rect")) == 4
    rows = read_csv(f"{folder}/per_class.csv")
    mean = [np.mean([float(r["AP"]) for r in rows if r["phase"] == phase and int(r["class"][-2:]) < 10]) for phase in ("1", "4")]
    limit = float(re.search(r"−(\d+) points", "".join(short.itertext())).group(1))
    cell = [c for c in of_class(short, "loss", "rect") + of_class(short, "gain", "rect") if c.get("y") == "1"][-1]
    assert abs(float(cell.get("fill-opacity")) - abs(mean[1] - mean[0]) / limit) < 0.011, (mean, limit, cell.attrib)


def check_errors(work, folder):
    made = os.path.join(work, "none")
    assert "not one of html|svg|pdf|png" in run("report", folder, "--format", "gif", code=2)
    assert "--title is for the page" in run("report", folder, "--format", "svg", "--title", "A title", code=2)
    assert "-o FOLDER" in run("report", folder, folder, "--format", "svg", code=2)
    assert "not the folder of a run" in run("report", work, "--format", "svg", "-o", made, code=2)
    environment = dict(os.environ, L3A_PLUGIN_PATH=work)
    done = subprocess.run([os.path.join(os.environ["L3A_BUILD"], "l3a"), "report", folder, "--format", "pdf", "-o", made], capture_output=True, text=True,
                          env=environment)
    assert done.returncode == 2 and "cannot load the plug-in" in done.stderr and "librsvg2-dev" in done.stderr, done
    assert not os.path.exists(made), "a folder without figures"
    assert "nowhere" in run("report", folder, "--format", "svg", "-o", os.path.join(work, "nowhere", "figures"), code=2)
    there = os.path.join(work, "there")
    open(there, "w").write("a file")
    assert there in run("report", folder, "--format", "svg", "-o", there, code=2) and open(there).read() == "a file"
    os.makedirs(os.path.join(made, "map-by-phase.svg"))
    assert "map-by-phase.svg" in run("report", folder, "--format", "svg", "-o", made, code=2)
    assert "/sys/figures" in run("report", folder, "--format", "svg", "-o", "/sys/figures", code=2)  # not even root may write there
    empty = os.path.join(work, "empty")
    shutil.copytree(folder, empty)
    for name in ("checksums.csv", "timings.csv", "samples.csv"):
        os.remove(os.path.join(empty, name))
    lines = open(os.path.join(folder, "metrics.csv")).readlines()
    open(os.path.join(empty, "metrics.csv"), "w").writelines(lines[:1])
    assert "nothing to draw yet" in run("report", empty, "--format", "svg", code=2)


def main():
    with tempfile.TemporaryDirectory() as work:
        kept = os.path.join(work, "kept")  # by fontconfig, what it knows about fonts, until the process ends
        open(kept, "w").write("leak:libfontconfig\n")
        os.environ["LSAN_OPTIONS"] = f"suppressions={kept}:print_suppressions=0"
        make_tables(work, pictures=False)
        folder = make_run(work, "run", "--protocol", "B0-C4", "--method", "l3a,acil,joint", "--seed", "1,2")
        made = os.path.join(folder, "figures")
        assert run("report", folder, "--format", "svg") == made + "\n"
        figures = {name[:-4]: load(os.path.join(made, name)) for name in sorted(os.listdir(made))}
        assert set(figures) == {*PHASES, *OTHERS} or set(figures) == {*PHASES, *OTHERS[:-1]}, set(figures)  # the rarest may be one of the others
        for name, column in PHASES.items():
            check_phases(figures[name], column, folder)
        assert len({(f.get("width"), f.get("height")) for name, f in figures.items() if name in PHASES}) == 1, "sizes differ"
        check_bars(figures["ap-by-class"], folder)
        for method in ("l3a", "acil"):
            check_cells(figures[f"forgetting-{method}"], folder, method)
        check_converted(work, folder, figures)
        check_many(work)
        check_errors(work, folder)
        other = make_run(work, "../other <b>& 犬".replace("../", ""), "--protocol", "B0-C4", "--method", "acil")
        both = os.path.join(work, "both")
        run("report", folder, other, "--format", "svg", "-o", both)
        assert {"forgetting-run-l3a.svg", "forgetting-other-b.svg"} <= set(os.listdir(both)), os.listdir(both)
        print(f"{len(figures)} figures say what the tables say")


if __name__ == "__main__":
    sys.exit(main())
