"""What the page of 'l3a serve --demo' says of doubt, and how tags are accepted and rejected, in a browser: nothing near its threshold is
ticked beforehand, tiles are judged by mouse, keys and selections in few lessons, numbers add up, files that are not read are named, and
the history shows and undoes any lesson where the server can. Without Chromium the test is skipped, as test_page is."""
import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from browser import Page, counts, inspect, need_browser, wait_lessons
from server import Server

MARGIN = 0.3 / 7  # 'uncertain' is 1 / (1 + 10 distance), and 0.7 counts as not sure
GROUPS = ("Taught by you", "Tagged", "Untagged", "Not seen yet", "Cannot be read")


def open_page(page, server):
    page.visit(server.address)
    page.until("document.querySelectorAll('.cell img[src]').length >= 12")
    page.settled()


def tell(server, name):
    """Every tag of a picture, from the server: name -> (score, threshold)."""
    told = server.good("POST", "/v1/tag", {"pictures": [{"path": name}], "all": True}, headers={"X-L3A": "1"})["pictures"][0]
    return {one["tag"]: (one["score"], one["threshold"]) for one in told["tags"]}, told["uncertain"]


def is_near(about):
    return abs(about[0] - about[1]) <= MARGIN


def check_review(page, server):
    """Ticks, words and order of the review against the scores of the server, picture by picture."""
    page.evaluate("document.querySelector('.cell').click()")
    seen = {"above": 0, "below": 0, "sure": 0}
    for number in range(1, 31):
        name = f"{number:03}.jpg"
        page.until(f"document.querySelector('#review-title').textContent === '{name}'")
        told, _ = tell(server, name)
        above = [tag for tag, about in told.items() if is_near(about) and about[0] >= about[1]]
        near = [tag for tag, about in told.items() if is_near(about)]
        sure = [tag for tag, about in told.items() if about[0] > about[1] and not is_near(about)]
        page.until(f"(all => all.length >= {len(sure) + min(len(near), 4)})([...document.querySelectorAll('#review-tags input')])")
        rows = page.until("(rows => rows.some(row => row[2] === 'unlikely') && rows)([...document.querySelectorAll('#review-tags li')].map(row => "
                          "[row.querySelector('input').value, row.querySelector('input').checked, row.querySelector('.believed').textContent]))")
        assert sorted(tag for tag, ticked, _ in rows if ticked) == sorted(sure), (name, rows, told)
        for tag, _, words in rows:
            assert (words == "not sure") == is_near(told[tag]), (name, tag, words, told[tag])
        doubtful = [tag for tag, _, words in rows if words == "not sure"]
        assert [tag for tag, _, _ in rows[:len(doubtful)]] == doubtful and set(above) <= set(doubtful), (name, rows)
        if doubtful and seen["above"] == 0 and above:
            page.key("1")  # one key ticks it
            page.until("document.querySelector('#review-tags input').checked")
        seen["above"] += len(above)
        seen["below"] += len(doubtful) - len(above)
        seen["sure"] += len(sure)
        page.key("ArrowRight")
    assert all(seen.values()), seen
    page.evaluate("document.querySelector('#review').close()")


def check_sums(page):
    """Each picture is in one group, and the groups make all pictures."""
    told = counts(page)
    assert sum(told.get(group, 0) for group in GROUPS) == told["All pictures"] == 80, told
    texts = page.evaluate("[...document.querySelectorAll('#filters h3')].map(one => one.textContent)")
    assert texts == ["To check", "Tags"], texts
    assert page.evaluate("[...document.querySelectorAll('#filters .part')].every(one => one.getBoundingClientRect().left >= 0) && !document.querySelector('#filters').textContent.includes('None of these')")
    return told


def choose_filter(page, title):
    page.evaluate(f"[...document.querySelectorAll('#filters button')].find(one => one.children[0].textContent === {title!r}).click()")
    page.until(f"document.querySelector('#filter-title').textContent === {title!r}")


def labels(page):
    return page.evaluate("Object.fromEntries([...document.querySelectorAll('.cell')].map(cell => [cell.title, cell.getAttribute('aria-label')]))")


def shown(page):
    return page.evaluate("[...document.querySelectorAll('.cell')].map(cell => cell.title)")


def check_order(page, server):
    """The surest first; what is not sure is hidden until it is asked for, and then marked with a question mark. Returns the tag."""
    told = {name: tell(server, name)[0] for name in (f"{i:03}.jpg" for i in range(1, 81))}
    tag = max(told["001.jpg"], key=lambda tag: min(7, sum(one[tag][0] > one[tag][1] and not is_near(one[tag]) for one in told.values())) + any(one[tag][0] > one[tag][1] and is_near(one[tag]) for one in told.values()))
    choose_filter(page, tag)
    scores = {name: one[tag] for name, one in told.items()}
    given = [name for name, about in scores.items() if about[0] > about[1]]
    sure = sorted((name for name in given if not is_near(scores[name])), key=lambda name: -scores[name][0])
    assert sure and len(sure) < len(given), (tag, sure, given)
    assert page.until(f"document.querySelectorAll('.cell').length === {len(sure)}") and shown(page) == sure, (shown(page), sure)
    assert page.evaluate("document.querySelector('#show-unsure').textContent") == f"Show {len(given) - len(sure)} that it is not sure of"
    assert not page.evaluate("[...document.querySelectorAll('.chip')].some(one => one.textContent === TAG + '?')".replace("TAG", json.dumps(tag)))
    page.click("#show-unsure")
    page.until(f"document.querySelectorAll('.cell').length === {len(given)}")
    asked = page.evaluate("[...document.querySelectorAll('.cell')].filter(cell => [...cell.querySelectorAll('.chip')].some(one => one.textContent === TAG + '?')).map(cell => cell.title)".replace("TAG", json.dumps(tag)))
    assert sorted(asked) == sorted(set(given) - set(sure)), (asked, sure, given)
    return tag


def taught(server):
    """What the server has been told of each picture that was taught last."""
    return server.good("GET", "/v1/history")["lessons"]


def tile(name, part=""):
    return f".cell[title='{name}'] {part}".strip()


def check_verdicts(page, server, tag):
    """Three tiles by mouse, two by keys, and a selection: three lessons, and what was rejected stays in its place until the list is opened anew."""
    before = len(taught(server))
    names = shown(page)
    page.click(tile(names[0], ".verdict.yes"))
    page.click(tile(names[1], ".verdict.no"))
    page.click(tile(names[2], ".verdict.yes"))
    page.until(f"document.querySelector({tile(names[1])!r}).matches('.rejected') && document.querySelector({tile(names[0])!r}).matches('.accepted')")
    inspect(page, "verdicts")
    page.told(f"{tag}: 2 pictures accepted, 1 picture rejected;", "more suggested")
    wait_lessons(server, before + 1)
    assert shown(page)[:3] == names[:3]
    told = server.good("POST", "/v1/tag", {"pictures": [{"path": name} for name in names[:3]]}, headers={"X-L3A": "1"})["pictures"]
    assert [(one["taught"]["tags"], one["taught"]["not"], one["taught"]["only"]) for one in told] == [([tag], [], True), ([], [tag], True), ([tag], [], True)], told
    # By keys: the active tile, then the next one; the same mark again takes back what was not sent.
    page.evaluate("document.querySelector('#grid').focus()")
    page.key("Home")
    page.keys("ArrowRight", "ArrowRight", "ArrowRight", "x", "y")
    page.until(f"document.querySelector({tile(names[3])!r}).matches('.rejected') && document.querySelector({tile(names[4])!r}).matches('.accepted')")
    page.click(tile(names[4], ".verdict.yes"))
    page.until(f"!document.querySelector({tile(names[4])!r}).matches('.accepted')")
    page.told(f"{tag}: 1 picture rejected;")
    wait_lessons(server, before + 2)
    assert taught(server)[0]["pictures"] == 1, taught(server)[0]
    # A selection at once.
    page.evaluate("document.querySelector('#grid').focus()")
    page.key("Home")
    page.keys("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", " ", "ArrowRight", " ")
    page.until("document.querySelector('#selection-count').textContent === '2 pictures selected'")
    inspect(page, "verdicts for a selection")
    page.key("y")
    page.told(f"{tag}: 2 pictures accepted;")
    wait_lessons(server, before + 3)
    assert page.evaluate("document.querySelector('#selection').hidden")
    # Opened anew, what was rejected is gone.
    choose_filter(page, "All pictures")
    choose_filter(page, tag)
    page.until(f"!document.querySelector({tile(names[1])!r}) && !document.querySelector({tile(names[3])!r})")
    assert set(shown(page)[:4]) == {names[0], names[2], names[4], names[5]}  # what was said is the surest
    # Undone before it was sent: there is no lesson.
    page.click(tile(names[0], ".verdict.no"))
    page.click("footer .undo")
    page.told("Taken back.")
    page.until(f"document.querySelector({tile(names[0])!r}).matches('.accepted')")
    wait_lessons(server, before + 3)
    choose_filter(page, "All pictures")
    check_sums(page)


def selected(page):
    return page.evaluate("[...document.querySelectorAll('.cell[aria-selected=true]')].map(cell => cell.title)")


def middle(page, name):
    return page.evaluate(f"(box => [box.left + box.width / 2, box.top + box.width / 2])(document.querySelector({tile(name)!r}).getBoundingClientRect())")


def check_selecting(page):
    """Ranges with shift, frames with the mouse, more with ctrl, and fingers that scroll instead."""
    page.evaluate("scrollTo(0, 0)")
    columns = page.evaluate("(cells => cells.filter(cell => cell.getBoundingClientRect().top === cells[0].getBoundingClientRect().top).length)([...document.querySelectorAll('.cell')])")
    names = shown(page)
    page.click(tile(names[1], ".check"))
    page.click(tile(names[4]), shift=True)
    page.until("document.querySelectorAll('.cell[aria-selected=true]').length === 4")
    page.click(tile(names[2]), shift=True)  # the range ends there instead
    page.until("document.querySelectorAll('.cell[aria-selected=true]').length === 2")
    assert selected(page) == names[1:3]
    page.drag(middle(page, names[0]), middle(page, names[columns + 1]))
    assert selected(page) == [names[0], names[1], names[columns], names[columns + 1]], selected(page)
    assert not page.evaluate("document.querySelector('#review').open || document.querySelectorAll('.band').length")
    page.drag(middle(page, names[3]), middle(page, names[4]), control=True)
    assert sorted(selected(page)) == sorted([names[0], names[1], names[columns], names[columns + 1], names[3], names[4]]), selected(page)
    page.evaluate("document.querySelector('#grid').focus()")
    page.key("Escape")
    page.look(390, 844, phone=True)
    start = middle(page, names[4])
    page.drag(start, [start[0], start[1] - 200], touch=True)
    assert not selected(page) and page.until("scrollY > 50")
    page.look()
    page.evaluate("scrollTo(0, 0)")


def check_named(page, work):
    """What was left out, and what cannot be read, by name and with the reason."""
    folder = Path(work, "mixed")
    folder.mkdir()
    shutil.copyfile(Path(work, "demo", "pictures", "001.jpg"), folder / "good.jpg")
    (folder / "trip.MP4").write_bytes(b"\0\0\0\x18ftypisom")
    (folder / "camera.CR2").write_bytes(b"II*\0")
    (folder / "notes.txt").write_text("no picture")
    (folder / "broken.jpg").write_text("no picture")
    (folder / "large <b>.jpg").write_text("")
    page.drop([folder])
    page.told("3 pictures added. 3 other files left out: “Left out” lists them.")
    page.settled()
    choose_filter(page, "Left out")
    rows = page.evaluate("[...document.querySelectorAll('#problems li')].map(row => [row.children[0].textContent, row.children[1].textContent])")
    assert rows == [["mixed/camera.CR2", "This is a camera's RAW picture, which l3a does not read. Convert it to JPEG or PNG."],
                    ["mixed/notes.txt", "This is not a picture of a kind that l3a knows."],
                    ["mixed/trip.MP4", "This is a video, not a picture. Save a frame of it as JPEG or PNG."]], rows
    inspect(page, "left out")
    choose_filter(page, "Cannot be read")
    rows = page.evaluate("[...document.querySelectorAll('#problems li')].map(row => [row.children[0].textContent, row.children[1].textContent])")
    assert [row[0] for row in rows] == ["mixed/broken.jpg", "mixed/large <b>.jpg"] and all(len(row[1]) > 15 for row in rows), rows
    assert counts(page)["Cannot be read"] == 2 and counts(page)["Left out"] == 3
    inspect(page, "cannot be read")
    told = counts(page)
    assert sum(told.get(group, 0) for group in GROUPS) == told["All pictures"] == 83, told
    choose_filter(page, "All pictures")


# A server of an earlier version: it does not tell the pictures of a lesson.
OLDER = """window.wholeFetch = window.fetch;
    window.fetch = async (url, options) => String(url).includes('/v1/lesson?id=') ? new Response('{"error": "there is nothing here"}', {status: 404}) : wholeFetch(url, options);"""

# A lesson with a picture that is not on the page.
LESSON = """window.wholeFetch = window.fetch; window.undone = [];
    window.fetch = async (url, options) => {
        if (String(url).includes('/v1/lesson?id=')) return new Response(JSON.stringify({pictures: [{path: '001.jpg', id: null, tags: ['cup'], not: []}, {path: 'elsewhere/gone.jpg', id: null, tags: [], not: ['cup'], only: true}]}));
        if (String(url).endsWith('/v1/undo')) undone.push(JSON.parse(options.body).id);
        return wholeFetch(url, options);
    }"""


def check_history(page, server):
    """A server that does not tell the pictures: nothing is offered that it cannot do. One that does: names, thumbnails, and any lesson undone."""
    page.evaluate(OLDER)
    page.evaluate("location.hash = '#history'")
    page.until("!!document.querySelector('.lessons > li')")
    buttons = "[...document.querySelectorAll('.lessons > li')].map(row => [...row.querySelectorAll(':scope > button')].map(one => one.textContent))"
    rows = page.evaluate(buttons)
    assert rows[0] == ["Undo"] and not any(rows[1:]) and len(rows) > 3, rows
    page.visit(server.address)
    page.evaluate(LESSON)
    page.evaluate("location.hash = '#history'")
    page.until("!!document.querySelector('.lessons > li')")
    lessons = taught(server)
    rows = page.evaluate(buttons)
    assert rows == [(["Show pictures"] if one["pictures"] else []) + (["Undo"] if one["can_undo"] else []) for one in lessons], rows
    page.click(".lessons > li:nth-child(2) > button")
    page.until("!!document.querySelector('.gallery img[src]')")
    texts = page.evaluate("[...document.querySelectorAll('.gallery li')].map(one => [one.querySelector('.name').textContent, [...one.children].at(-1).textContent, !!one.querySelector('img')])")
    assert texts == [["001.jpg", "cup", True], ["gone.jpg", "not cup", False]], texts
    inspect(page, "the pictures of a lesson")
    page.click(".lessons > li:nth-child(3) > button:nth-of-type(2)")
    page.until("undone.length === 1")
    assert page.evaluate("undone") == [lessons[2]["id"]]
    page.evaluate("window.fetch = window.wholeFetch; location.hash = '#pictures'")


QUALITY = """window.wholeFetch = window.fetch;
    window.fetch = async (url, options) => {
        if (!String(url).endsWith('/v1/quality')) return wholeFetch(url, options);
        const told = await (await wholeFetch(url, options)).json();
        const one = (name, precision, recall, pictures = 9) => ({name, pictures, judged: 20, precision, recall});
        return new Response(JSON.stringify({edition: told.edition, background: null, confusions: [], classes: [one('cup', 0.4, 0.3), one('kite', 0.9, 0.5), one('tree', 0.9, 0.9, 3)],
            next: ['kite', 'tree', 'cup'].map(tag => ({tag, why: 'has to be seen to'}))}));
    }"""


def check_advice(page):
    """Wrong tags are rejected before more pictures are taught."""
    page.evaluate(QUALITY)
    page.evaluate("location.hash = '#quality'")
    page.until("document.querySelectorAll('.next li').length === 3")
    rows = page.evaluate("[...document.querySelectorAll('.next li')].map(row => row.children[0].textContent.replaceAll('\\u00a0', ' '))")
    assert rows == ["cup is wrong 60 % of the time. Go through what it was suggested for, and reject (✗) the wrong ones.",
                    "kite is missed in 50 % of the pictures that show it. Teach more of them.", "tree has only 3 pictures. Teach more of them."], rows
    page.evaluate("window.fetch = window.wholeFetch; location.hash = '#pictures'")


def main():
    need_browser()
    work = tempfile.mkdtemp()
    try:
        with Page(deadline=240) as page, contextlib.ExitStack() as stack:
            page.look()
            server = stack.enter_context(Server(os.path.join(work, "demo"), "--demo", "--no-index"))
            open_page(page, server)
            check_sums(page)
            check_review(page, server)
            check_verdicts(page, server, check_order(page, server))
            check_selecting(page)
            check_named(page, work)
            check_history(page, server)
            check_advice(page)
            assert not page.foreign(server.address) and not page.faults(), (page.foreign(server.address), page.faults())
    finally:
        shutil.rmtree(work)


main()
