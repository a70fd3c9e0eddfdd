"""Reports in a browser, at the widths of a phone, a tablet and a desk, and on paper: nothing is fetched, nothing complains, no text lies on
another, is cut off or leaves its card. Lines differ, and can be switched off; the contents stay in sight; long heat maps fold. Boxes lie on the crops that spoke, and can be seen. Without Chromium the test is skipped, or fails if L3A_BROWSER=required, as in CI."""
import csv
import os
import re
import subprocess
import sys
import tempfile

import chromium
import numpy as np
from PIL import Image

# The rectangles of all text that shows, and what is wrong with them. Tables may scroll sideways; all else has to fit.
CHECK = """(() => {
  const wrong = [], boxes = [];
  if (document.scrollingElement.scrollWidth > innerWidth) wrong.push('the page is wider than the window: ' + document.scrollingElement.scrollWidth);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest('title,desc,style') || !parent.checkVisibility()) continue;
    range.selectNodeContents(node);
    const rectangles = parent.closest('svg') ? [parent.getBoundingClientRect()] : [...range.getClientRects()];
    const scroll = parent.closest('.scroll'), card = parent.closest('.tile,.card,.warning,header,nav,footer').getBoundingClientRect();
    const edge = scroll ? scroll.getBoundingClientRect() : {left: -1e9, right: 1e9};
    for (const full of rectangles) {
      const r = {left: Math.max(full.left, edge.left), right: Math.min(full.right, edge.right), top: full.top, bottom: full.bottom, height: full.height};
      if (r.right - r.left < 1 || r.height < 1) continue;
      const text = node.data.trim().slice(0, 40);
      if (!scroll && (r.left < card.left - 1 || r.right > card.right + 1 || r.top < card.top - 1 || r.bottom > card.bottom + 1))
        wrong.push('out of its card: ' + text);
      if (scroll && scroll.scrollWidth <= scroll.clientWidth && r.right > card.right + 1) wrong.push('cut off: ' + text);
      const inset = Math.min(4, r.height / 4);
      boxes.push({left: r.left + 1, right: r.right - 1, top: r.top + inset, bottom: r.bottom - inset, text, node});
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  for (let i = 0; i < boxes.length; i++)
    for (let j = i + 1; j < boxes.length && boxes[j].top < boxes[i].bottom; j++)
      if (boxes[i].left < boxes[j].right && boxes[j].left < boxes[i].right && boxes[i].node !== boxes[j].node)
        wrong.push('on one another: ' + boxes[i].text + ' / ' + boxes[j].text);
  return {wrong: wrong.slice(0, 12), texts: boxes.length, sections: [...document.querySelectorAll('section')].map(s => s.id),
          ground: getComputedStyle(document.body).backgroundColor, script: document.scripts.length,
          broken: [...document.images].filter(i => !i.naturalWidth).length};
})()"""
OPEN = "document.querySelectorAll('details').forEach(d => d.open = true)"


def check(browser, path, width, sections, dark=False, media="", texts=100):
    browser.open(path, width, dark, media)
    for opened in (False, True):
        if opened:
            browser.evaluate(OPEN)
        seen = browser.evaluate(CHECK)
        where = f"{os.path.basename(path)} at {width}{', dark' if dark else ''}{', ' + media if media else ''}{', opened' if opened else ''}"
        assert not seen["wrong"], where + ":\n  " + "\n  ".join(seen["wrong"])
        assert seen["sections"] == sections and not seen["script"] and not seen["broken"] and seen["texts"] > texts, (where, seen)
    requests = [url for url in browser.requests() if not url.startswith("data:")]
    assert len(requests) == 1 and requests[0].startswith("file://"), requests
    assert not browser.complaints(), (where, browser.complaints())
    return seen["ground"]


# Every class with a box: its picture and name, the box in shares of the picture as it is shown, and how visible it is.
BOXES = """[...document.querySelectorAll('.boxes figure')].flatMap(figure => {
  const image = figure.querySelector('img'), frame = image.getBoundingClientRect();
  const scale = Math.min(frame.width / image.naturalWidth, frame.height / image.naturalHeight);
  const width = scale * image.naturalWidth, height = scale * image.naturalHeight;
  const left = frame.left + (frame.width - width) / 2, top = frame.top + (frame.height - height) / 2;
  return [...figure.querySelectorAll('.tag')].map(tag => {
    const box = tag.querySelector('.box rect'), at = box.getBBox(), matrix = box.getScreenCTM();
    const from = new DOMPoint(at.x, at.y).matrixTransform(matrix), to = new DOMPoint(at.x + at.width, at.y + at.height).matrixTransform(matrix);
    const place = tag.getBoundingClientRect(), share = [(from.x - left) / width, (from.y - top) / height, (to.x - left) / width, (to.y - top) / height];
    return {id: figure.title, name: tag.firstChild.data.trim(), share, pixels: [from.x + scrollX, from.y + scrollY, to.x + scrollX, to.y + scrollY],
            smallest: Math.min(width, height), shows: +getComputedStyle(tag.querySelector('.box')).opacity, words: tag.title,
            tag: [place.left + 6 + scrollX, place.top + place.height / 2 + scrollY]};
  });
})"""


def check_boxes(browser, folder, views):
    """At the place of the crop in samples.csv, inside the picture, one per picture, and that of another class if pointed at or focused."""
    from report_runs import crop_boxes, on_page
    with open(os.path.join(folder, "samples.csv"), newline="", encoding="utf-8") as file:
        spoke = {(row["id"], on_page(row["class"]).strip()): int(row["view"]) for row in csv.DictReader(file)}
    seen = browser.evaluate(BOXES)
    assert len(seen) > 18 and len({box["id"] for box in seen}) == 18, len(seen)
    for box in seen:
        left, top, side = crop_boxes(views)[spoke[box["id"], box["name"]] - 1]
        off = np.abs(np.array(box["share"]) - [left, top, left + side, top + side]).max()
        assert off * box["smallest"] < 0.6, (box, left, top, side)  # pixels
        assert min(box["share"]) > -1e-2 and max(box["share"]) < 1 + 1e-2 and box["words"].startswith("Seen best here: "), box
    firsts = [i for i in range(len(seen)) if i == 0 or seen[i - 1]["id"] != seen[i]["id"]]
    assert [i for i, box in enumerate(seen) if box["shows"] == 1] == firsts and {box["shows"] for box in seen} == {0, 1}
    second = next(i for i in range(1, len(seen)) if i not in firsts)
    expected = [second if i == second - 1 else i for i in firsts]
    browser.evaluate(f"document.querySelectorAll('.boxes .tag')[{second}].focus()")
    assert [i for i, box in enumerate(browser.evaluate(BOXES)) if box["shows"]] == expected, "focus"
    browser.evaluate(f"document.activeElement.blur(); scrollTo(0, {seen[second]['tag'][1] - 300})")
    shift = browser.evaluate("[scrollX, scrollY]")
    browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=seen[second]["tag"][0] - shift[0], y=seen[second]["tag"][1] - shift[1])
    assert [i for i, box in enumerate(browser.evaluate(BOXES)) if box["shows"]] == expected, "pointed at"
    browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0)
    return [seen[i] for i in firsts]


# Which series show: those with a mark or a line that can be seen in each section, and the items of its legend that are not dimmed.
SHOWN = """[...document.querySelectorAll('#phases,#curves')].map(section => [
  [...new Set([...section.querySelectorAll('.plot [class*=" l"]')].filter(e => e.checkVisibility()).map(e => +e.classList.value.match(/ l(\\d+)/)[1]))]
    .sort((a, b) => a - b),
  [...section.querySelectorAll('.legend li')].filter(e => e.checkVisibility() && getComputedStyle(e.firstChild).opacity == 1)
    .map(e => +e.className.slice(1))])"""
# Colour, dashes and marker of each line of the legend.
LOOKS = """[...document.querySelectorAll('#phases .legend li')].map(item => {
  const line = getComputedStyle(item.querySelector('path'));
  return [line.stroke, line.strokeDasharray, item.querySelector('use').getAttribute('href')];
})"""


# How people without red, green or blue cones see linear RGB (Machado and others, 2009).
VISIONS = {"all": np.eye(3), "no red": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
           "no green": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
           "no blue": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]])}


def lightness_and_hue(colour, vision):
    """CIELAB, in which distances are about those that people see."""
    share = np.array([int(n) for n in re.findall(r"\d+", colour)[:3]]) / 255
    linear = np.clip(vision @ np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4), 0, 1)
    x, y, z = np.cbrt([[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8729]] @ linear)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def check_colours(colours):
    """Eight, that differ for everybody."""
    for name, vision in VISIONS.items():
        seen = [lightness_and_hue(colour, vision) for colour in colours]
        nearest = min((np.linalg.norm(seen[i] - seen[j]), colours[i], colours[j]) for i in range(8) for j in range(i))
        assert nearest[0] > 12, (name, nearest)


def check_switches(browser, path, count):
    """A box per series, by pointer and by keyboard, for all charts at once; also on paper, where the legend loses the item."""
    browser.open(path, 1400)
    everything = list(range(count))
    looks = [tuple(look) for look in browser.evaluate(LOOKS)]
    if count >= 8:
        check_colours([look[0] for look in looks[:8]])
        browser.open(path, 1400, dark=True)
        check_colours([look[0] for look in browser.evaluate(LOOKS)][:8])
        browser.open(path, 1400)
    assert len(set(looks)) == count, "two lines look the same"
    assert len({colour for colour, _, _ in looks[:8]}) == min(8, count) and all(a[1] != b[1] for a, b in zip(looks, looks[1:])), looks
    assert all(shown[1] == everything for shown in browser.evaluate(SHOWN))
    before = browser.evaluate(SHOWN)
    browser.evaluate("document.querySelector('#curves .legend .k1 label').click()")
    browser.evaluate("document.getElementById('show0').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.ask("Input.dispatchKeyEvent", type=kind, key=" ", code="Space", windowsVirtualKeyCode=32, text=" " if kind == "keyDown" else "")
    for media in ("", "print"):
        browser.ask("Emulation.setEmulatedMedia", media=media)
        for was, now in zip(before, browser.evaluate(SHOWN), strict=True):
            assert now[0] == [i for i in was[0] if i > 1] and now[1] == everything[2:], (media, was, now)
    browser.ask("Emulation.setEmulatedMedia", media="")
    browser.evaluate("document.querySelectorAll('.legend input').forEach(box => box.checked || box.click())")
    assert browser.evaluate(SHOWN) == before


def check_contents(browser, path):
    """The list of sections stays at the top and hides no heading; a long heat map is folded, and its short form is not."""
    for width in (390, 1280):
        browser.open(path, width)
        seen = browser.evaluate("""[...document.querySelectorAll('nav a')].map(link => { link.click();
          const bar = document.querySelector('nav').getBoundingClientRect(), heading = document.querySelector(link.hash).getBoundingClientRect();
          return [bar.top, bar.height, heading.top - bar.bottom] })""")
        assert len(seen) > 8 and all(abs(top) < 1 and high < 45 and gap > -1 for top, high, gap in seen[1:]), (width, seen)
    maps = browser.evaluate("[...document.querySelectorAll('#forgetting svg[role=img]')].map(map => [map.checkVisibility(), map.querySelectorAll('.name').length])")
    assert {(True, 8), (False, 80)} == {tuple(m) for m in maps} and len(maps) == 8, maps


def check_drawn(browser, work, boxes):
    """On black and on white pictures, each side of a box stands out."""
    path = os.path.join(work, "page.png")
    browser.evaluate("scrollTo(0, 0)")
    browser.screenshot(path)
    pixels = np.asarray(Image.open(path).convert("L"), int)
    grounds = set()
    for box in (b for b in boxes if b["smallest"] > 60):
        left, top, right, bottom = (int(round(n)) for n in box["pixels"])
        inside = pixels[(top + bottom) // 2, (left + right) // 2]
        for line in (pixels[(top + bottom) // 2, left:left + 6], pixels[(top + bottom) // 2, right - 6:right],
                     pixels[top:top + 6, (left + right) // 2], pixels[bottom - 6:bottom, (left + right) // 2]):
            assert line.max() - line.min() > 100, (box, line)
        grounds.add(bool(inside > 128))
    assert grounds == {False, True}, grounds


def check_training(browser, work):
    """The page of l3a train, at its beginning and at its end."""
    from report_runs import run
    root = os.environ["L3A_SOURCE"]
    subprocess.run([sys.executable, f"{root}/tests/cli/make_pictures.py", work], check=True)
    page, listed = os.path.join(work, "training.html"), f"list:{work}/list.csv"
    words = ["train", "--backbone", f"{root}/models/demo_backbone.safetensors", "--data", listed, "--size", "64", "--batch", "24", "--report", page]
    try:
        run(*words, "--epochs", "1", "--validation-share", "0", "-o", os.path.join(work, "one.safetensors"))
    except Exception as problem:
        if "cannot train networks" not in str(problem):
            raise
        print("skipped: the page of a training (this build has no oneDNN)")
        return
    check(browser, page, 820, ["headline", "curve", "record"], texts=20)
    run(*words, "--epochs", "15", "--validation-share", "0.3", "-o", os.path.join(work, "a long name of a checkpoint that does not fit <b> on a phone.safetensors"))
    for width in (390, 820, 1400):
        for dark in (False, True):
            check(browser, page, width, ["headline", "curve", "record"], dark, texts=40)
    check(browser, page, 760, ["headline", "curve", "record"], media="print", texts=40)
    curves = browser.evaluate("document.querySelectorAll('#curve figure .line').length")
    marks = browser.evaluate("document.querySelectorAll('#curve figure .mark').length")
    assert (curves, marks) == (2, 30), (curves, marks)


def main():
    if os.environ.get("L3A_SANITIZE"):
        print("skipped: the page is the same with sanitizers")
        return 77
    if not chromium.find():
        required = os.environ.get("L3A_BROWSER") == "required"
        print(f"{'FAILED' if required else 'skipped'}: Chromium is not installed; 'tools/install-packages browser' installs it")
        return 1 if required else 77
    from report_runs import NAMES, make_run, make_tables, make_view_tables, run
    with tempfile.TemporaryDirectory() as work, chromium.Chromium(deadline=240) as browser:
        make_tables(work)
        odd = make_run(work, "odd", "--protocol", "B0-C4", "--method", "l3a,acil,joint", "--seed", "1,2")
        crops = os.path.join(work, "crops")
        os.mkdir(crops)
        make_view_tables(crops, 14)
        crops = make_run(crops, "run", "--protocol", "B0-C4")
        many = os.path.join(work, "many")
        os.mkdir(many)
        make_tables(many, [f"class number {k}" for k in range(79)] + ["toothbrush"], rows=(800, 300), pictures=False)
        listed = run("run", "--list-methods").split("not available here")[0].splitlines()[1:]
        methods = [line.split()[0] for line in listed if line and not line.startswith(" ")]
        many = make_run(many, "run", "--protocol", "B0-C10", "--method", ",".join(methods), "--epochs", "1")
        both = os.path.join(work, "both.html")
        run("report", odd, many, "-o", both, "--title", NAMES[6])
        whole = ["headline", "phases", "classes", "forgetting", "pseudo-labels", "weights", "curves", "pictures", "costs", "record"]
        published = whole[:2] + ["paper"] + whole[2:]  # what the paper has for 80 classes, one of them a toothbrush, in B0-C10
        grounds = set()
        for width in (390, 820, 1400):
            for dark in (False, True):
                grounds.add(check(browser, os.path.join(odd, "report.html"), width, whole, dark))
                check(browser, os.path.join(crops, "report.html"), width, whole, dark)
                check_drawn(browser, work, check_boxes(browser, crops, 14))
            check(browser, os.path.join(many, "report.html"), width, [s for s in published if s != "pictures"])
            check(browser, both, width, published)
        assert len(grounds) == 2, grounds
        check_switches(browser, os.path.join(odd, "report.html"), 3)
        check_switches(browser, os.path.join(many, "report.html"), len(methods))
        check_contents(browser, os.path.join(many, "report.html"))
        check(browser, os.path.join(odd, "report.html"), 760, whole, media="print")
        browser.print(os.path.join(work, "page.pdf"))
        assert os.path.getsize(os.path.join(work, "page.pdf")) > 20000
        check(browser, os.path.join(crops, "report.html"), 760, whole, media="print")
        check_boxes(browser, crops, 14)
        check_training(browser, work)
        print(f"four pages at three widths, {len(methods)} methods at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
