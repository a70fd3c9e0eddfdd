"""What a notebook shows of a run and of a sweep, in a browser: the charts of the report in a frame that is as high as they are, in
light and dark, narrow and wide, and a page around it that stays as it was."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import support

support.need("numpy")
sys.path.insert(0, str(support.SOURCE / "tests/oracle"))
import chromium

import l3a

if not chromium.find():
    print("skipped: there is no Chromium to show the page in")
    sys.exit(77)

WIDTHS = (1000, 420)
# A notebook puts the output of a cell into its page after that has loaded.
PAGE = """<!DOCTYPE html><meta charset="utf-8"><style>h2{color:rgb(1,2,3)}</style><body><h2 id="before">cell</h2><div id="output"></div>
<script>document.getElementById("output").innerHTML = %s</script>"""
MEASURE = """(() => { const frame = document.querySelector("iframe"), page = frame.contentDocument, root = page.documentElement;
return {height: frame.clientHeight, content: root.scrollHeight, over: root.scrollWidth - root.clientWidth,
        around: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        charts: page.querySelectorAll("svg[role=img]").length, sections: [...page.querySelectorAll("section")].map(s => s.id),
        shown: [...page.querySelectorAll("header, nav, footer")].filter(e => e.offsetHeight).length,
        ground: getComputedStyle(page.body).backgroundColor, heading: getComputedStyle(document.getElementById("before")).color}})()"""


def look(browser, folder, thing, sections):
    path = os.path.join(folder, "notebook.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(PAGE % json.dumps(thing._repr_html_()).replace("</", "<\\/"))
    grounds = set()
    for width in WIDTHS:
        for dark in (False, True):
            browser.open(path, width, dark)
            for _ in range(50):  # the frame loads after the page
                seen = browser.evaluate(MEASURE)
                if seen["charts"] and seen["height"] != 720:
                    break
            assert seen["sections"] == sections, seen
            assert seen["charts"] >= 3 and seen["shown"] == 0, seen
            assert abs(seen["height"] - seen["content"]) <= 6, seen
            assert seen["over"] <= 0 and seen["around"] <= 0, seen
            assert seen["heading"] == "rgb(1, 2, 3)", seen
            assert not browser.complaints(), browser.complaints()
            grounds.add((dark, seen["ground"]))
    assert len(grounds) == 2 and len({ground for _, ground in grounds}) == 2, grounds


def main():
    folder = tempfile.mkdtemp()
    try:
        subprocess.run([sys.executable, support.SOURCE / "tests/cli/make_features.py", "--rows", "300", "--test-rows", "100", "--width",
                        "8", "--classes", "6", folder], check=True)
        train, test = (f"{folder}/{name}.safetensors" for name in ("train", "test"))
        given = {"dim": 32, "threads": 1, "progress": False, "privacy_limit": 0}
        run = l3a.run(train, test, "B0-C2", ["l3a", "l3a+", "joint"], [1, 2], **given)
        sweep = l3a.sweep(train, test, "B0-C2", ["l3a", "acil"], gamma=[1, 10, 100], **given)
        with chromium.Chromium() as browser:
            look(browser, folder, run, ["headline", "phases"])
            look(browser, folder, sweep, ["settings", "headline", "phases"])
    finally:
        shutil.rmtree(folder)


main()
