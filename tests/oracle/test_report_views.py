"""The crop that spoke for a class: the column of samples.csv against NumPy, and the boxes of the report as a text. test_report_page.py
looks at them in a browser."""
import csv
import os
import re
import shutil
import sys
import tempfile

import numpy as np

from feature_file import load
from report_runs import NAMES, crop_boxes, make_run, make_tables, make_view_tables, on_page, run
from support import random_layer
from test_report import Page

OLD = ["id", "class", "true", "predicted", "score"]


def samples(folder):
    with open(os.path.join(folder, "samples.csv"), newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def number(row):
    return int(re.search(r"\d{4}", row[0])[0])


def check_column(folder, features):
    """Against the scores of single rows, which NumPy computes from the coefficients that the run left."""
    tensors, metadata = load(os.path.join(folder, "model.safetensors"))
    layer = random_layer(features.shape[2], int(metadata["dim"]), int(metadata["seed"]))
    hidden = np.maximum(features.astype(float) @ layer, 0)
    if metadata["skip-features"] == "on":
        hidden = np.concatenate([hidden, features], 2)
    scores = hidden @ tensors["weights"]
    names = metadata["classes"].split("\n")
    header, *rows = samples(folder)
    assert header == OLD + ["view"] and len({row[0] for row in rows}) == 18, header
    for row in rows:
        own = scores[number(row), :, names.index(row[1])]
        assert abs((own[0] + 2 * own[1:].max()) / 3 - float(row[4])) < 2e-3, (row, own)
        assert own[1:].max() - own[int(row[5])] < 1e-5, (row, own)  # ties may go either way
    return len({row[5] for row in rows})


def check_planted(folder, crops):
    """Of a learner whose scores nobody computes here: most crops found are those that show the class (by chance, one in `views`)."""
    present = [row for row in samples(folder)[1:] if row[2] == "1"]
    right = np.mean([int(row[5]) == crops[number(row), NAMES.index(row[1])] for row in present])
    assert len(present) > 20 and right > 0.5, (folder, right)


def boxes(page):
    """Of each picture, of each class: words, and the box as shares of the picture."""
    found = {}
    for title, caption in re.findall(r'<figure title="([^"]*)">.*?<figcaption class="tags">(.*?)</figcaption>', page.source, re.S):
        for attributes, name, inside in re.findall(r'<span class="tag \w+"([^>]*)>(.*?) <small>[\d.-]+</small>(.*?)</span>', caption, re.S):
            words = re.search(r'title="([^"]*)"', attributes)
            assert bool(words) == bool(inside) == ("tabindex" in attributes), (attributes, inside)
            if words:
                width, height, *box = (float(n) for n in re.search(
                    r'viewBox="0 0 (\d+) (\d+)"><svg x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', inside).groups())
                assert f'aria-label="{words[1]}"' in inside and 'role="img"' in inside
                found[title, name] = words[1], np.array(box) / [width, height, width, height], 0.006 / min(width, height)
    return found


def escaped(text):
    for mark, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(mark, entity)
    return text


def check_page(folder, views):
    page = Page(os.path.join(folder, "report.html"))
    found, shown = boxes(page), 0
    places = {(0, 0): "top left", (1, 0): "top centre", (2, 0): "top right", (0, 1): "centre left", (1, 1): "centre", (2, 1): "centre right",
              (0, 2): "bottom left", (1, 2): "bottom centre", (2, 2): "bottom right"}
    for row in samples(folder)[1:]:
        key = escaped(row[0]), escaped(on_page(row[1]))
        if key in found:  # of the wrong classes, only the first few are shown
            left, top, side = crop_boxes(views)[int(row[5]) - 1]
            words, box, off = found[key]
            place = places[tuple(round(2 * at / (1 - side)) for at in (left, top))]
            assert words == f"Seen best here: {place}, {100 * side:.0f} % of each side", (words, left, top)
            assert np.abs(box - [left, top, side, side]).max() < off, (key, box)
            shown += 1
        else:
            assert row[2] == "0", row
    assert shown == len(found) > 18, (shown, len(found))
    assert page.source.count("The box on a picture shows where its first class was seen best") == 1 and ".box rect" in page.source


def check_no_trace(page):
    for trace in ("boxes", 'class="box"', ".box", "The box", "crop that", "tabindex"):
        assert trace not in page.source, trace
    assert '<div class="strip">' in page.source


def check_bad_views(folder, work):
    """A view that does not exist has no box; the class is still there. So does a table of before 0.4."""
    good = samples(folder)
    bad = os.path.join(work, "bad")
    shutil.copytree(folder, bad)
    os.remove(os.path.join(bad, "checksums.csv"))
    names = sum(len(re.findall('class="tag ', part)) for part in Page(os.path.join(folder, "report.html")).source.split("<figure")[1:])

    def page_of(rows):
        with open(os.path.join(bad, "samples.csv"), "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        run("report", bad)
        page = Page(os.path.join(bad, "report.html"))
        assert sum(len(re.findall('class="tag ', part)) for part in page.source.split("<figure")[1:]) == names
        return page

    assert len(boxes(page_of(good))) == len(boxes(Page(os.path.join(folder, "report.html"))))
    for view in ("", "0", "15", "-1", "x", "1.5", "+3", " 3", "1e3", "4294967297", "18446744073709551617", "9" * 400, "\"><script>"):
        page = page_of([good[0]] + [row[:5] + [view] for row in good[1:]])
        assert not boxes(page), view
    one = boxes(page_of(good[:1] + [row[:5] + (["7"] if i == 0 else ["77"]) for i, row in enumerate(good[1:])]))
    assert len(one) == 1, one
    assert len(boxes(page_of([good[0], good[1]] + [row[:5] for row in good[2:]]))) == 1
    check_no_trace(page_of([row[:5] for row in good]))


def main():
    with tempfile.TemporaryDirectory() as work:
        tables = {}
        for views in (14, 9, 5, 3):
            os.mkdir(os.path.join(work, str(views)))
            tables[views] = make_view_tables(os.path.join(work, str(views)), views)
        for views, method in (14, "l3a"), (14, "l3a+"), (9, "l3a"), (5, "l3a+"), (3, "l3a"), (14, "finetune"), (14, "dsal"):
            features, crops = tables[views]
            folder = make_run(os.path.join(work, str(views)), method, "--protocol", "B0-C4", "--method", method)
            if method.startswith("l3a"):
                assert check_column(folder, features) > views / 2
            check_planted(folder, crops)
            if views == 3:  # crops of a table that was made elsewhere: nobody knows where they are
                assert not boxes(Page(os.path.join(folder, "report.html")))
            else:
                check_page(folder, views)
        for learned, scored in (1, 14), (5, 9), (14, 1):
            folder = make_run(os.path.join(work, "14"), f"{learned}-{scored}", "--protocol", "B0-C4", "--views", str(learned), "--score-views", str(scored))
            if scored == 1:
                assert samples(folder)[0] == OLD
                check_no_trace(Page(os.path.join(folder, "report.html")))
            else:
                features = tables[14][0]
                check_column(folder, features if scored == 14 else features[:, [0, *range(6, 15)]])
                check_page(folder, scored)
        check_bad_views(os.path.join(work, "14", "l3a"), work)
        plain = os.path.join(work, "plain")
        os.mkdir(plain)
        make_tables(plain)
        folder = make_run(plain, "run", "--protocol", "B0-C4")
        assert samples(folder)[0] == OLD
        check_no_trace(Page(os.path.join(folder, "report.html")))
        print("the boxes are where the highest score was")


if __name__ == "__main__":
    sys.exit(main())
