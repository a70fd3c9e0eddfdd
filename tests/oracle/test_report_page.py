"""Reports in a browser, at the widths of a phone, a tablet and a desk, and on paper: nothing is fetched, nothing complains, no text lies on
another, is cut off or leaves its card. Without Chromium the test is skipped, or fails if L3A_BROWSER=required, as in CI."""
import os
import sys
import tempfile

import chromium

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
    const scroll = parent.closest('.scroll'), card = parent.closest('.tile,.card,.warning,header,footer').getBoundingClientRect();
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


def check(browser, path, width, sections, dark=False, media=""):
    browser.open(path, width, dark, media)
    for opened in (False, True):
        if opened:
            browser.evaluate(OPEN)
        seen = browser.evaluate(CHECK)
        where = f"{os.path.basename(path)} at {width}{', dark' if dark else ''}{', ' + media if media else ''}{', opened' if opened else ''}"
        assert not seen["wrong"], where + ":\n  " + "\n  ".join(seen["wrong"])
        assert seen["sections"] == sections and not seen["script"] and not seen["broken"] and seen["texts"] > 100, (where, seen)
    requests = [url for url in browser.requests() if not url.startswith("data:")]
    assert len(requests) == 1 and requests[0].startswith("file://"), requests
    assert not browser.complaints(), (where, browser.complaints())
    return seen["ground"]


def main():
    if os.environ.get("L3A_SANITIZE"):
        print("skipped: the page is the same with sanitizers")
        return 77
    if not chromium.find():
        required = os.environ.get("L3A_BROWSER") == "required"
        print(f"{'FAILED' if required else 'skipped'}: Chromium is not installed; 'tools/install-packages browser' installs it")
        return 1 if required else 77
    from report_runs import NAMES, make_run, make_tables, run
    with tempfile.TemporaryDirectory() as work, chromium.Chromium() as browser:
        make_tables(work)
        odd = make_run(work, "odd", "--protocol", "B0-C4", "--method", "l3a,acil,joint", "--seed", "1,2")
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
            check(browser, os.path.join(many, "report.html"), width, [s for s in published if s != "pictures"])
            check(browser, both, width, published)
        assert len(grounds) == 2, grounds
        check(browser, os.path.join(odd, "report.html"), 760, whole, media="print")
        browser.print(os.path.join(work, "page.pdf"))
        assert os.path.getsize(os.path.join(work, "page.pdf")) > 20000
        print(f"three pages at three widths, {len(methods)} methods at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
