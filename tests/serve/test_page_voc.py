"""Photos on the page of 'l3a serve', with a model that knows nothing yet: 40 pictures of VOC 2007 are dropped, two classes are taught from
eight pictures each, three pictures are corrected, one lesson is taken back, the page is loaded again, and the server is restarted. All is
still there, and the page says the same as 'l3a tag'. Skipped without Chromium or the pictures."""
import contextlib
import csv
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path

from browser import Page, counts, inspect, need_browser, wait_lessons
from server import Server

SHARED = Path(os.environ["L3A_SHARED"])
VOC = SHARED / "data/voc2007-small/VOCdevkit/VOC2007"
BACKBONE = SHARED / "backbones/vit_tiny_patch16_224.safetensors"
TAUGHT = ("aeroplane", "cat")
WANTED = {"aeroplane": 14, "cat": 14, "bicycle": 4, "sofa": 4, "train": 4}
EIGHT = 8


def gather(folder):
    """40 pictures that show one class each; the names say which."""
    left = dict(WANTED)
    for path in sorted((VOC / "Annotations").glob("*.xml")):
        shown = {one.findtext("name") for one in xml.etree.ElementTree.parse(path).getroot().iter("object")}
        if len(shown) == 1 and left.get(*shown, 0):
            name = shown.pop()
            left[name] -= 1
            shutil.copyfile(VOC / "JPEGImages" / f"{path.stem}.jpg", folder / f"{name}-{path.stem}.jpg")
        if not any(left.values()):
            break
    return sorted(folder.iterdir())


def truth(name):
    return [tag for tag in TAUGHT if name.startswith(tag)]


def teach(page, tag):
    """Eight pictures by mouse, then the word."""
    page.evaluate("scrollTo(0, 0)")
    names = page.evaluate("[...document.querySelectorAll('.cell')].map(cell => cell.title)")
    for name in [name for name in names if name.startswith(tag)][:EIGHT]:
        page.click(f".cell[title='{name}'] .check")
    assert page.evaluate("document.querySelector('#selection-count').textContent") == "8 pictures selected", names
    page.click("#selection-add input")
    page.write(tag)
    page.keys("Enter", "Enter")
    return page.told(f"{tag}: 8 pictures taught", "more suggested")


def listed(page):
    """What the page says of every picture: name -> label. The window is high enough for all of them."""
    return page.evaluate("Object.fromEntries([...document.querySelectorAll('.cell')].map(cell => [cell.title, cell.getAttribute('aria-label').slice(cell.title.length + 2)]))")


def tags_of(label):
    words = [word for word in label.split(", ") if word not in ("taught by you", "not sure", "none of your tags", "untagged")]
    return sorted(words)


def correct(page, server):
    """Three pictures in review, least sure first; what is wrong is changed by its number, or typed."""
    saved = {}
    page.click("#start-review")
    for _ in range(3):
        page.until("document.querySelectorAll('#review-tags li').length === 2")
        time.sleep(0.45)
        name = page.evaluate("document.querySelector('#review-title').textContent")
        for index, (tag, on) in enumerate(page.evaluate("[...document.querySelectorAll('#review-tags input')].map(one => [one.value, one.checked])")):
            if on != (tag in truth(name)):
                page.key(str(index + 1))
        page.key("Enter")
        page.until(f"document.querySelector('#review-title').textContent !== '{name}'")
        saved[name] = truth(name)
    wait_lessons(server, 5)
    page.until("!document.querySelector('#review .undo').hidden")
    page.key("Escape")
    page.until("!document.querySelector('#review').open")
    return saved


def check_all(page, server, before, taught):
    """After a reload or a restart: every picture, every tag."""
    page.until("document.querySelectorAll('.cell img[src]').length === 40")
    page.settled()
    page.until(f"document.querySelectorAll('.cell').length === 40 && [...document.querySelectorAll('#filters button')].some(one => one.textContent === 'Taught by you{taught}')")
    assert listed(page) == before
    lessons = server.good("GET", "/v1/history")["lessons"]
    assert [lesson["pictures"] for lesson in lessons] == [1, 1, EIGHT, EIGHT], lessons


def check_command(model, folder, labels):
    """The page's suggestions are those of 'l3a tag' with the saved model."""
    command = os.path.join(os.environ["L3A_BUILD"], "l3a")
    text = subprocess.run([command, "tag", model, folder, "--csv", "--quiet"], check=True, capture_output=True, text=True).stdout
    told = {os.path.basename(row["path"]): [tag for tag in row["labels"].split(";") if tag] for row in csv.DictReader(io.StringIO(text))}
    for name, label in labels.items():
        if "taught by you" not in label:
            assert sorted(told[name]) == tags_of(label), (name, told[name], label)


def story(page, work, stack):
    folder, model = work / "photos", work / "pets.l3a"
    folder.mkdir()
    paths = gather(folder)
    assert len(paths) == 40
    server = stack.enter_context(Server(model, "--backbone", BACKBONE))
    page.look(1280, 2600)
    page.visit(server.address)
    inspect(page, "first visit")
    page.drop(paths)
    page.told("40 pictures added")
    page.until("document.querySelectorAll('.cell img[src]').length === 40")
    page.settled()
    assert counts(page) == {"All pictures": 40, "Taught by you": 0, "Tagged": 0, "Untagged": 40, "Not sure": 0}
    for tag in TAUGHT:
        line = teach(page, tag)
    labels = listed(page)
    new = {name: tags_of(label) for name, label in labels.items() if "taught by you" not in label}
    right = sum(tags == truth(name) for name, tags in new.items() if tags)
    assert len(new) == 24 and right >= 6 and right >= 0.8 * sum(map(bool, new.values())), new
    assert f"{sum('cat' in tags for tags in new.values())} more suggested" in line, (line, new)
    saved = correct(page, server)
    page.until("[...document.querySelectorAll('#filters button')].some(one => one.textContent === 'Taught by you19')")
    page.evaluate("location.hash = '#history'")
    page.click("#history li > button[aria-label^='Undo']")
    page.told("Undone: lesson 5, 1 picture")
    page.evaluate("location.hash = '#pictures'")
    page.until("document.querySelectorAll('.cell').length === 40")
    before = listed(page)
    kept = {name: tags for name, tags in list(saved.items())[:2]}
    assert all(tags_of(before[name]) == sorted(tags) and "taught by you" in before[name] for name, tags in kept.items()), (before, kept)
    page.visit(server.address)
    check_all(page, server, before, 18)
    sent = [url for url in page.requests() if "/v1/tag" in url]
    server.stop(signal.SIGKILL)
    server = stack.enter_context(server.again())
    page.until("!document.querySelector('.notice')")
    check_all(page, server, before, 18)
    page.visit(server.address)
    check_all(page, server, before, 18)
    assert len([url for url in page.requests() if "/v1/tag" in url]) - len(sent) <= 40  # once after the restart, and not for the reload
    assert not page.foreign(server.address) and not page.faults(), (page.foreign(server.address), page.faults())
    server.stop()
    check_command(model, folder, before)


def main():
    need_browser()
    if not VOC.is_dir() or not BACKBONE.exists():
        print("skipped: the pictures of VOC 2007 or the backbone are missing")
        sys.exit(77)
    work = Path(tempfile.mkdtemp())
    try:
        with Page(deadline=240) as page, contextlib.ExitStack() as stack:
            story(page, work, stack)
    finally:
        shutil.rmtree(work)


main()
