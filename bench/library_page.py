#!/usr/bin/python3
"""From nothing to three useful tags on 2,000 photographs, on the page of `l3a serve --library` in a browser: by words that the network knows
and "more like these", against scrolling through all pictures by name.

  L3A_SOURCE=. L3A_BUILD=build bench/library_page.py --voc VOC2007 --backbone FILE [--pictures 2000] [--wanted 8] [--answers 12]

A scripted person knows what VOC 2007 says of each picture, and looks only at tiles that are on the screen (1280 x 800). Each way ends with
the wanted number of examples of each tag. With words: `word:TAG` in the search box, then Y, X or an arrow key for each tile in turn; after 24
tiles without enough of them, L on the last one that was right, and on. By scrolling: all pictures by name, Page Down, a click on the circle
of each example, then the tag is typed. An action is a key or a click. Looked at: tiles that the person had to go through. Seconds are those
of the script, which answers at once, without the time that the server needs to look at the library at first.
After both ways, "corrected": `unsure:TAG` in the search box, and an answer to each of the first 12 tiles, for each tag.
Precision and recall are those of the tags on pictures of which nothing was said; "sure" is what a tag lists before one asks for the rest."""
import argparse
import os
import shutil
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "serve"))
from browser import Page  # noqa: E402
from server import Server  # noqa: E402

TAGS = ("dog", "bicycle", "bus")
PATIENCE = 24  # tiles of a list

TILE = "[...document.querySelectorAll('.cell')].find(cell => cell.getAttribute('aria-posinset') === '{}')"
ON_SCREEN = """[...document.querySelectorAll('.cell')].filter(cell => { const box = cell.getBoundingClientRect(), middle = (box.top + box.bottom) / 2;
    return middle > document.querySelector('header').getBoundingClientRect().bottom && middle < innerHeight; }).map(cell => [cell.getAttribute('aria-posinset'), cell.title, cell.getAttribute('aria-selected')])"""


class Person:
    def __init__(self, page, truth):
        self.page, self.truth, self.actions, self.looked = page, truth, 0, 0

    def key(self, key, **held):
        self.page.key(key, **held)
        self.actions += 1

    def write(self, text):
        self.page.write(text)
        self.actions += len(text)

    def click(self, selector):
        self.page.click(selector)
        self.actions += 1

    def shows(self, name, tag):
        return Path(name).stem in self.truth[tag]

    def judge(self, tag, wanted, most):
        """Goes through the list that is on the screen. Returns how many examples were accepted."""
        page, right, last = self.page, 0, 0
        for place in range(1, most + 1):
            name, accepted = page.until(f"(cell => cell && cell.title && [cell.title, cell.matches('.accepted, .rejected')])({TILE.format(place)})")
            self.looked += 1
            known = not page.evaluate("document.querySelector('#grid').matches('.unknown')")
            yes = self.shows(name, tag)
            if accepted or not yes and not known:
                self.key("ArrowRight")
                continue
            self.key("y" if yes else "x")
            right, last = right + yes, place if yes else last
            if right == wanted:
                break
        return right, last

    def by_word(self, tag, wanted):
        page = self.page
        page.evaluate("document.querySelector('#grid').focus()")
        self.key("/")
        self.write(f"word:{tag}")
        self.key("Enter")
        page.until(f"document.querySelector('#filter-title').textContent === 'word:{tag}' && document.activeElement.id === 'grid'")
        right, last = self.judge(tag, wanted, PATIENCE)
        for _ in range(5):
            if right >= wanted or not last:
                break
            for _ in range(PATIENCE - last + 1):  # back to it
                self.key("ArrowLeft")
            name = page.evaluate("document.querySelector('.cell.active').title")
            page.told(tag)
            self.key("l")
            page.until(f"document.querySelector('#filter-title').textContent === 'Like {Path(name).name}'")
            more, last = self.judge(tag, wanted - right, PATIENCE)
            right += more
        self.wait()
        return right

    def correct(self, tag, answers):
        """Y or X for what the tagger is least sure of."""
        page = self.page
        page.evaluate("document.querySelector('#grid').focus()")
        self.key("/")
        self.write(f"unsure:{tag}")
        self.key("Enter")
        page.until(f"document.querySelector('#filter-title').textContent === 'unsure:{tag}' && (document.activeElement.id === 'grid' || document.querySelector('#empty').checkVisibility())")
        if not page.evaluate("document.querySelector('.cell')?.checkVisibility() ?? false"):
            return
        self.judge(tag, answers + 1, min(answers, int(page.evaluate("document.querySelector('.cell').getAttribute('aria-setsize')"))))
        self.wait()

    def wait(self):
        """Until what was said is a lesson, and all is scored."""
        self.page.until("/taught|suggested/.test(document.querySelector('footer .line').textContent) && document.querySelector('#progress').hidden", 60)

    def by_scrolling(self, tag, wanted):
        page, right, seen = self.page, 0, set()
        page.evaluate("document.querySelector('#grid').focus()")
        self.key("Home")
        while right < wanted:
            page.until(f"(all => all.length && all.every(([, title]) => title))({ON_SCREEN})")
            for place, name, _ in page.evaluate(ON_SCREEN):
                if place in seen or right == wanted:
                    continue
                seen.add(place)
                self.looked += 1
                if self.shows(name, tag):
                    self.click(f".cell[aria-posinset='{place}'] .check")
                    page.evaluate("document.querySelector('#grid').focus({preventScroll: true})")
                    right += 1
            if right < wanted:
                before = page.evaluate("scrollY")
                page.evaluate("scrollBy(0, innerHeight - 220)")  # Page Down, which moves by less than the window
                page.drawn()
                self.actions += 1
                if page.evaluate("scrollY") == before:
                    break
        self.click("#selection-add input")
        self.write(tag)
        self.key("Enter")
        self.key("Enter")
        page.told(f"{tag}: ", "taught")
        self.wait()
        return right


def find(server, where, **more):
    query = urllib.parse.urlencode({"where": where, "count": 1000, **more})
    answer = server.good("GET", f"/v1/find?{query}")
    found = answer["pictures"]
    while len(found) < answer["total"]:
        found += server.good("GET", f"/v1/find?{query}&first={len(found)}")["pictures"]
    return {Path(one["path"]).stem for one in found}


def measure(server, tag, truth, sure):
    found, said = find(server, f"{tag} and not unsure:{tag}" if sure else tag), find(server, "is:said")
    found, shows = found - said, truth[tag] - said
    right = len(found & shows)
    return right / len(found) if found else float("nan"), right / len(shows)


def settled(server, pictures):
    while True:
        state = server.good("GET", "/v1/library/state")
        if state["ready"] and state["pictures"] == pictures and state["to_look"] == 0 and state["scored"] == state["done"]:
            return
        time.sleep(0.1)


def play(way, work, library, arguments, truth):
    model = work / f"{way}.l3a"
    with Server(model, "--library", library, "--backbone", arguments.backbone, "--index", work / "index") as server, Page(deadline=900) as page:
        started = time.monotonic()
        settled(server, arguments.pictures)
        looked = time.monotonic() - started
        page.look()
        page.visit(server.address)
        if way == "scrolling":
            page.evaluate("(order => { order.value = 'name'; order.dispatchEvent(new Event('change', {bubbles: true})); })(document.querySelector('#order'))")
        page.until("document.querySelectorAll('.cell img[src]').length >= 12")
        person, started, rows = Person(page, truth), time.monotonic(), []
        for tag in TAGS:
            before = person.actions, person.looked, time.monotonic()
            right = person.by_word(tag, arguments.wanted) if way == "words" else person.by_scrolling(tag, arguments.wanted)
            if way == "scrolling":
                page.evaluate("[...document.querySelectorAll('#filters button')][0].click(); scrollTo(0, 0)")
            rows.append([tag, right, person.actions - before[0], person.looked - before[1], time.monotonic() - before[2]])
        settled(server, arguments.pictures)
        for row in rows:
            row += [*measure(server, row[0], truth, False), *measure(server, row[0], truth, True)]
        rows.append(["all three", None, person.actions, person.looked, time.monotonic() - started])
        for tag in TAGS:
            before = person.actions, person.looked, time.monotonic()
            person.correct(tag, arguments.answers)
            rows.append([f"{tag}, corrected", None, person.actions - before[0], person.looked - before[1], time.monotonic() - before[2]])
        settled(server, arguments.pictures)
        for tag, row in zip(TAGS, rows[-len(TAGS):]):
            row += [*measure(server, tag, truth, False), *measure(server, tag, truth, True)]
        server.stop()
    return looked, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voc", type=Path, required=True)
    parser.add_argument("--backbone", type=Path, required=True)
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--wanted", type=int, default=8)
    parser.add_argument("--answers", type=int, default=12)
    arguments = parser.parse_args()
    names = (arguments.voc / "ImageSets/Main/trainval.txt").read_text().split()[:arguments.pictures]
    truth = {tag: {line.split()[0] for line in (arguments.voc / f"ImageSets/Main/{tag}_trainval.txt").read_text().splitlines() if line.split()[1] != "-1"} & set(names)
             for tag in TAGS}  # "difficult" ones show it, too
    work = Path(tempfile.mkdtemp())
    try:
        library = work / "library"
        library.mkdir()
        for name in names:
            shutil.copy(arguments.voc / f"JPEGImages/{name}.jpg", library)
            os.utime(library / f"{name}.jpg", (1.7e9, 1.7e9))
        results = {way: play(way, work, library, arguments, truth) for way in ("words", "scrolling")}
        print(f"{arguments.pictures} photographs, which the server looked at in {results['words'][0]:.0f} s")
        print("| way | tag | examples | actions | looked at | s | precision | recall | sure: precision | recall |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
        for way, (_, rows) in results.items():
            for tag, right, actions, looked, seconds, *shares in rows:
                examples = "" if right is None else f"{right} of {len(truth[tag])}"
                print(f"| {way} | {tag} | {examples} | {actions} | {looked} | {seconds:.1f} | " + " | ".join(f"{100 * one:.0f} %" for one in shares or []) + " |")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
