"""The page of a server that remembers its library, in a browser, with the real server: some 300 photographs of VOC 2007 and the network
that knows words, or drawn pictures where these are missing. All pictures at once, folders, searches, tags by ✓ and ✗, more like these, what
to judge next, history, problems, and a second start; then the demonstration. Without Chromium the test is skipped, as test_page is."""
import contextlib
import os
import shutil
import signal
import tempfile
import time
import urllib.parse
from pathlib import Path

import server as serving
from browser import Page, counts, inspect, need_browser, wait_lessons
from server import Server

SHARED = Path(os.environ["L3A_SHARED"])
VOC = SHARED / "data/voc2007-small/VOCdevkit/VOC2007"
VIT = SHARED / "backbones/vit_tiny_patch16_224.safetensors"
GROUPS = ("Taught by you", "Tagged", "Untagged", "Not seen yet", "Cannot be read")
FOLDERS = ("2023", "2023/summer", "2024/new year", ".")
PICTURES = 300
SCREENS = ((1280, 800, False, False), (1280, 800, True, False), (390, 844, False, True), (390, 844, True, True))


def photographs(folder):
    """Copies photographs, a third of them dogs or cats. Returns the names by tag."""
    shown = {tag: {line.split()[0] for line in (VOC / f"ImageSets/Main/{tag}_trainval.txt").read_text().splitlines() if line.split()[1] == "1"}
             for tag in ("dog", "cat")}
    names = sorted(path.stem for path in (VOC / "JPEGImages").glob("*.jpg"))
    chosen = []
    for tag in shown:
        chosen += [name for name in names if name in shown[tag] and name not in chosen][:50]
    chosen += [name for name in names if name not in chosen and not any(name in all_ for all_ in shown.values())][:PICTURES - len(chosen)]
    for i, name in enumerate(sorted(chosen)):
        shutil.copy(VOC / f"JPEGImages/{name}.jpg", folder / FOLDERS[i % len(FOLDERS)] / f"{name}.jpg")
    return {tag: {f"{name}.jpg" for name in chosen if name in all_} for tag, all_ in shown.items()}


def drawings(folder):
    serving.pictures(folder / "drawn", PICTURES // 4)
    names = sorted(path.name for path in (folder / "drawn").iterdir())
    for i, name in enumerate(names):
        (folder / "drawn" / name).rename(folder / FOLDERS[i % len(FOLDERS)] / name)
    (folder / "drawn").rmdir()
    return {tag: {name for name in names if name.startswith(tag)} for tag in ("red", "green")}


def make_library(folder):
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    real = VOC.is_dir() and VIT.exists()
    truth = photographs(folder) if real else drawings(folder)
    (folder / "2023/broken <b>.jpg").write_text("no picture")
    (folder / "film.mp4").write_bytes(b"\0" * 100)
    (folder / "camera.cr2").write_bytes(b"\0" * 100)
    for path in folder.rglob("*.*"):
        os.utime(path, (1.7e9, 1.7e9))  # not just now, so that nothing is looked at twice
    return truth, real


def find(server, where="", **more):
    return server.good("GET", "/v1/find?" + urllib.parse.urlencode({"where": where, "count": 1000, **more}))


def names_of(answer):
    return [os.path.basename(one["path"]) for one in answer["pictures"]]


def shown(page):
    """The names of the tiles, in their order."""
    return page.evaluate("[...document.querySelectorAll('.cell')].map(cell => cell.title.split('/').pop())")


def choose(page, title):
    page.evaluate(f"[...document.querySelectorAll('#filters button')].find(one => one.children[0].textContent === {title!r}).click()")
    page.until(f"document.querySelector('#filter-title').textContent === {title!r} && [...document.querySelectorAll('.cell')].every(cell => !cell.matches('.absent'))")


def found(page, number):
    page.until(f"document.querySelector('#filter-count').textContent.startsWith('{number} picture')")


def search(page, text):
    """What a person types into the search box, and Enter."""
    page.click("#search-text")
    page.key("a", control=True)
    page.write(text)
    page.key("Enter")


def check_sums(page, total):
    told = counts(page)
    assert sum(told.get(group, 0) for group in GROUPS) == told["All pictures"] == total, told


def opens(page, server):
    """All pictures, while the server still looks at them; then nothing waits."""
    started = time.monotonic()
    page.visit(server.address)
    found(page, PICTURES + 1)
    first = time.monotonic() - started
    inspect(page, "while it looks")
    page.until("document.querySelectorAll('.cell img[src]').length >= 12")
    page.until("document.querySelector('#progress').hidden", 120)
    check_sums(page, PICTURES + 1)
    assert not page.evaluate("document.querySelector('#folders').checkVisibility() || document.querySelector('#open-library').checkVisibility()")
    page.evaluate("document.querySelector('#grid').focus()")
    page.key("End")
    page.until(f"document.querySelector('.cell.active')?.getAttribute('aria-posinset') === '{PICTURES + 1}'")
    page.key("Home")
    return first


def folders(page, library):
    """A tree beside the pictures."""
    rows = "[...document.querySelectorAll('#tree .folder button:not(.twist)')].map(row => [row.title, Number(row.children[1].textContent)])"
    count = {name: sum(1 for _ in (library / name).rglob("*.jpg")) for name in ("2023", "2023/summer", "2024", "2024/new year")}
    page.until(f"({rows}).length === 2")
    assert page.evaluate(rows) == [[name, count[name]] for name in ("2023", "2024")], page.evaluate(rows)
    page.click("#tree .twist[data-path='2024']")
    page.until(f"({rows}).length === 3")
    page.click("#tree button[title='2024/new year']")
    found(page, count["2024/new year"])
    assert page.evaluate("document.querySelector('#search-text').value") == 'folder:"2024/new year"'
    inspect(page, "a folder")
    search(page, "folder:summer")
    found(page, count["2023/summer"])
    choose(page, "All pictures")


def complaint(page, text, *words):
    search(page, text)
    page.until("document.querySelector('#search-note').checkVisibility()")
    page.until("document.querySelector('#search-note').checkVisibility()" + "".join(" && " + f"document.querySelector('#search-note').textContent.includes({word!r})" for word in words))
    assert not page.evaluate("document.querySelector('#grid').checkVisibility()")
    inspect(page, f"complaint about {text}")


def judge(page, truth, least):
    """Goes through the tiles on the screen: ✓ for those that show it and ✗ for others, once the tag is known. Returns how many show it."""
    right = 0
    for name in shown(page):
        isright = name in truth
        known = page.evaluate("!document.querySelector('#grid').matches('.unknown')")
        if isright and right < least:
            page.click(f".cell[title$='{name}'] .verdict.yes")
            page.until(f"document.querySelector(\".cell[title$='{name}']\").matches('.accepted')")
            right += 1
        elif known and not isright and right < least:
            page.click(f".cell[title$='{name}'] .verdict.no")
    return right


def first_tag(page, server, tag, truth, real):
    """A word that the network knows leads to the first pictures, and ✓ makes a tag of it; without words, pictures are selected and named."""
    if real:
        page.click("#search-text")
        page.write(tag)
        page.until(f"[...document.querySelectorAll('#search-list li')].some(one => one.textContent.includes('word:{tag}'))")
        inspect(page, "offers of the search box")
        page.key("ArrowUp")
        page.key("Enter")
        page.until(f"document.querySelector('#filter-title').textContent === 'word:{tag}' && document.querySelectorAll('.cell img[src]').length >= 12")
        assert shown(page)[:12] == names_of(find(server, word=tag))[:12]
        assert sum(name in truth for name in shown(page)[:12]) >= 9, shown(page)
        assert not page.evaluate("document.querySelector('.order').checkVisibility()")  # the word is the order
        inspect(page, "a word")
        assert judge(page, truth, 8) == 8
        page.told(f"{tag}: 8 pictures accepted")
    else:
        search(page, f"name:{tag}")
        found(page, PICTURES // 4)
        for name in shown(page)[:6]:
            page.click(f".cell[title$='{name}'] .check")
        page.click("#selection-add input")
        page.write(tag)
        page.keys("Enter", "Enter")
        page.told(f"{tag}: 6 pictures taught")
    page.until(f"[...document.querySelectorAll('#tags button')].some(one => one.children[0].textContent === '{tag}')")


def second_tag(page, server, tag, truth):
    """Two pictures lead to others like them, which are selected and named."""
    few = sorted(truth)[:2]
    search(page, f"name:{few[0]} or name:{few[1]}")
    found(page, 2)
    for name in few:
        page.click(f".cell[title$='{name}'] .check")
    page.until("document.querySelector('#selection-count').textContent === '2 pictures selected'")
    page.click("#selection-like")
    page.until("document.querySelector('#filter-title').textContent === 'Like these 2 pictures'")
    page.until("document.querySelectorAll('.cell img[src]').length >= 12")
    ids = [one["id"] for name in few for one in find(server, f"name:{name}")["pictures"]]
    assert set(shown(page)[:12]) >= set(names_of(find(server, like=",".join(map(str, ids))))[:10])
    inspect(page, "like these")
    for name in [name for name in shown(page) if name in truth][:6]:
        page.click(f".cell[title$='{name}'] .check")
    page.click("#selection-add input")
    page.write(tag)
    page.keys("Enter", "Enter")
    page.told(f"{tag}: ", "taught")
    page.until(f"[...document.querySelectorAll('#tags button')].some(one => one.children[0].textContent === '{tag}')")
    page.settled()


def opens_a_tag(page, server, tag):
    """Most sure first; what is not sure is hidden until it is asked for."""
    choose(page, tag)
    sure, unsure = find(server, f"{tag} and not unsure:{tag}", sort="score"), find(server, f"{tag} and unsure:{tag}")
    page.until(f"document.querySelector('.cell').getAttribute('aria-setsize') === '{sure['total']}'")
    here = shown(page)
    assert here == names_of(sure)[:len(here)], (here, names_of(sure)[:len(here)])
    if unsure["total"]:
        page.until(f"document.querySelector('#show-unsure').textContent === 'Show {unsure['total']} that it is not sure of'")
        page.click("#show-unsure")
        everything = find(server, tag, sort="score")
        page.until(f"document.querySelector('.cell').getAttribute('aria-setsize') === '{everything['total']}'")
    else:
        assert page.evaluate("document.querySelector('#show-unsure').hidden")
    inspect(page, "a tag")
    return sure["total"], unsure["total"]


def tops(page):
    """Where the first tiles are."""
    return page.evaluate("[...document.querySelectorAll('.cell')].slice(0, 3).map(cell => cell.getBoundingClientRect().top)")


def stays(page):
    """What comes and goes while tiles are clicked moves none of them."""
    page.evaluate("scrollTo(0, 0)")
    for width, height, dark, phone in SCREENS:
        page.look(width, height, dark, phone)
        page.drawn()
        before = tops(page)
        for change in ("document.querySelector('#reorder').hidden = false", "document.querySelector('#start-review').textContent = 'Review: 12,345 unsure'",
                       "document.querySelector('#filter-count').textContent = '888 taught, 888 suggested here'"):
            page.evaluate(change)
            assert page.evaluate("document.querySelector('#reorder').checkVisibility()")
            assert tops(page) == before, (width, change, before, tops(page))
        inspect(page, f"a list to be updated {width}{'-dark' if dark else ''}")
        if os.environ.get("L3A_PAGE_PICTURES"):
            page.picture(os.path.join(os.environ["L3A_PAGE_PICTURES"], f"library-update-{width}{'-dark' if dark else ''}.png"))
        page.evaluate("document.querySelector('#reorder').hidden = true")
    page.look()
    page.drawn()


def teaches(page, server, tag, truth):
    """✓ and ✗ in one lesson; what was rejected stays until the list is opened anew. No tile moves meanwhile."""
    stays(page)
    before_tops = tops(page)
    before = len(server.good("GET", "/v1/history")["lessons"])
    open_ = [one.split("/")[-1] for one in page.evaluate("[...document.querySelectorAll('.cell:not(.accepted)')].map(cell => cell.title)")]
    yes = [name for name in open_ if name in truth][:2]
    no = [name for name in open_ if name not in truth][:1] or open_[-1:]
    for name in yes:
        page.click(f".cell[title$='{name}'] .verdict.yes")
    page.click(f".cell[title$='{no[0]}'] .verdict.no")
    page.told(f"{tag}: 2 pictures accepted, 1 picture rejected;")
    wait_lessons(server, before + 1)
    page.until("document.querySelector('#reorder').checkVisibility()")
    page.evaluate("scrollTo(0, 0)")
    assert tops(page) == before_tops, (before_tops, tops(page))
    assert no[0] in shown(page)
    told = {os.path.basename(one["path"]): one["taught"] for one in find(server, "is:said")["pictures"]}
    assert all(tag in told[name]["tags"] for name in yes) and tag in told[no[0]]["not"], told
    page.until("document.querySelector('#progress').hidden")
    choose(page, "All pictures")
    choose(page, tag)
    page.until("document.querySelectorAll('.cell').length > 2")
    assert no[0] not in shown(page)
    check_sums(page, PICTURES + 1)


def searches(page, server, tag, other, real):
    for text in (f"{tag} and not {other}", f"{tag} or {other}", f"not {tag} and folder:2023", f'"{tag}" folder:"2024/new year"', "is:untagged", "is:unsure", f"({tag} or {other}) and is:said"):
        search(page, text)
        total = find(server, text)["total"]
        if total:
            found(page, total)
        else:
            page.until("document.querySelector('#empty').checkVisibility()")
    if real:
        search(page, f"word:{tag} and not {tag}")
        total = find(server, f"not {tag}", word=tag)["total"]
        found(page, total)
    search(page, f"unsure:{tag}")  # on either side of the threshold, and can be judged
    page.until("document.querySelector('#grid').matches('.judging') && document.querySelectorAll('.cell .verdict').length")
    assert shown(page)[:9] == names_of(find(server, f"unsure:{tag}", sort="score"))[:9]
    complaint(page, "dolphin", "There is no tag 'dolphin'")
    if real:
        page.until("document.querySelector('#search-note button').checkVisibility()")
        page.click("#search-note button")
        page.until("document.querySelector('#filter-title').textContent === 'word:dolphin'")
    complaint(page, f"{tag} and (", "ends too early")
    complaint(page, "is:nothing", "'is:nothing' is unknown")
    complaint(page, "word:xyzzy", *(["does not know the word 'xyzzy'"] if real else []))
    search(page, "")
    found(page, PICTURES + 1)


def judges_next(page, server):
    """What teaches most: in the order that the server gives, without what was said; the review goes on from there."""
    choose(page, "What to judge next")
    page.until("document.querySelectorAll('.cell img[src]').length >= 12")
    here = shown(page)
    assert here == names_of(find(server, sort="novel"))[:len(here)]
    page.click("#start-review")
    page.until("document.querySelector('#review').open && document.querySelectorAll('#review-tags li').length > 1")
    assert page.evaluate("document.querySelector('#review-title').textContent") == here[0]
    inspect(page, "review of what to judge next")
    page.key("Escape")
    page.until("!document.querySelector('#review').open")


def history(page, server):
    """The pictures of any lesson, and the first lesson undone, not the last."""
    lessons = server.good("GET", "/v1/history")["lessons"]
    assert len(lessons) >= 3 and all(one["can_undo"] for one in lessons), lessons
    page.evaluate("document.querySelector('#history-body').replaceChildren(); location.hash = '#history'")  # not what was there before
    page.until(f"document.querySelectorAll('.lessons > li').length === {len(lessons)}")
    last = f".lessons > li:nth-child({len(lessons)})"
    page.click(f"{last} > button")
    page.until(f"document.querySelectorAll('#history .gallery li').length === {lessons[-1]['pictures']} && [...document.querySelectorAll('#history .gallery img')].every(one => one.src)")
    names = page.evaluate("[...document.querySelectorAll('#history .gallery .name')].map(one => one.textContent)")
    told = server.good("GET", f"/v1/lesson?id={lessons[-1]['id']}")["pictures"]
    assert sorted(names) == sorted(os.path.basename(one["path"]) for one in told), (names, told)
    inspect(page, "the pictures of a lesson")
    page.click(f"{last} > button:nth-of-type(2)")
    page.told("Undone: lesson 1,")
    wait_lessons(server, len(lessons) + 1)
    left = server.good("GET", "/v1/history")["lessons"]
    assert left[0]["kind"] == "take back" and left[-1]["held"] == 0 and not left[-1]["can_undo"] and [one["held"] for one in left[1:-1]] == [one["held"] for one in lessons[:-1]], left
    page.until(f"document.querySelectorAll('.lessons > li').length === {len(left)}")
    rows = page.evaluate("[...document.querySelectorAll('.lessons > li')].map(row => [row.children[1].textContent, row.querySelector(':scope > button:last-of-type')?.textContent])")
    assert rows[0] == [f"Took back {lessons[-1]['pictures']} pictures of an earlier lesson", "Undo"] and rows[-1][0].endswith("(taken back or corrected since)") and rows[-1][1] != "Undo", rows
    inspect(page, "the history of what was taken back")
    page.evaluate("location.hash = '#pictures'")
    page.until("document.querySelector('#progress').hidden")


def problems(page):
    rows = "[...document.querySelectorAll('#problems li')].map(row => [row.children[0].textContent, row.children[1].textContent])"
    choose(page, "Cannot be read")
    told = page.until(f"(rows => rows.length && rows)({rows})")
    assert [path for path, _ in told] == ["2023/broken <b>.jpg"] and len(told[0][1]) > 15, told
    inspect(page, "cannot be read")
    choose(page, "Left out")
    told = page.until(f"(rows => rows.length === 2 && rows)({rows})")
    assert sorted(path for path, _ in told) == ["camera.cr2", "film.mp4"] and all(len(why) > 15 for _, why in told), told
    assert counts(page)["Left out"] == 2
    choose(page, "All pictures")


def looks(page, folder, tag):
    """Each view in both colours, at the width of a desk and of a phone."""
    for width, height, dark, phone in SCREENS:
        page.look(width, height, dark, phone)
        where = f"{width}{'-dark' if dark else ''}"
        for title, name in (("All pictures", "all"), (tag, "tag"), ("What to judge next", "next"), ("Nearly the same", "same"), ("Left out", "left")):
            choose(page, title)
            page.until("document.querySelector('#groups p[role=status]') === null")
            page.until("[...document.querySelectorAll('.cell')].filter(cell => cell.getBoundingClientRect().top < innerHeight).every(cell => cell.querySelector('img').src || cell.querySelector('.note').textContent)")
            inspect(page, f"{name} {where}")
            if folder:
                page.picture(os.path.join(folder, f"library-{name}-{where}.png"))
        page.evaluate("document.querySelector('#search-text').focus()")
        search(page, "dolphin")
        page.until("document.querySelector('#search-note').checkVisibility()")
        inspect(page, f"complaint {where}")
        if folder:
            page.picture(os.path.join(folder, f"library-complaint-{where}.png"))
        choose(page, "All pictures")
        page.evaluate("location.hash = '#history'")
        page.until("!!document.querySelector('.lessons > li')")
        inspect(page, f"history {where}")
        if folder:
            page.picture(os.path.join(folder, f"library-history-{where}.png"))
        page.evaluate("location.hash = '#pictures'")
    page.look()


def second_start(page, server, stack):
    """Killed and started again: the same page at once, and no picture is looked at."""
    before = counts(page)
    assert before["Taught by you"] == server.good("GET", "/v1/library/state")["said"], before
    server.stop(signal.SIGKILL)
    server = stack.enter_context(server.again())
    page.visit(server.address)
    found(page, PICTURES + 1)
    page.until("document.querySelector('#progress').hidden")
    page.until(f"[...document.querySelectorAll('#kinds button')].some(one => one.textContent === 'Taught by you{before['Taught by you']}')")
    assert counts(page) == before, (counts(page), before)
    looked = [line for line in server.good("GET", "/metrics").decode().splitlines() if line.startswith("l3a_library_looked_total ")]
    assert looked == ["l3a_library_looked_total 0"], looked
    return server


def demonstration(page, work, stack):
    """The demonstration remembers its pictures, too: the new thing is taught and found."""
    server = stack.enter_context(Server(os.path.join(work, "demo"), "--demo"))
    page.visit(server.address)
    found(page, 80)
    page.until("document.querySelector('#tip').textContent.includes('umbrella')")
    page.until("document.querySelectorAll('.cell img[src]').length >= 12")
    page.until("document.querySelector('#progress').hidden")
    names = shown(page)
    assert names[:4] == ["001.jpg", "002.jpg", "003.jpg", "004.jpg"], names
    for name in [name for name in names if int(name[:3]) % 2 == 0][:5]:
        page.click(f".cell[title='{name}'] .check")
    page.click("#selection-add input")
    page.write("umbrella")
    page.keys("Enter", "Enter")
    page.told("umbrella: 5 pictures taught", "more suggested")
    choose(page, "umbrella")
    names = page.until("(names => names.length >= 5 && names)([...document.querySelectorAll('.cell')].map(cell => cell.title))")
    assert sum(int(name[:3]) % 2 == 0 for name in names) >= 0.8 * len(names), names
    check_sums(page, 80)


def main():
    need_browser()
    work = tempfile.mkdtemp()
    try:
        library = Path(work, "library")
        truth, real = make_library(library)
        tag, other = truth
        with Page(deadline=300) as page, contextlib.ExitStack() as stack:
            page.look()
            options = ["--backbone", VIT if real else serving.BACKBONE]
            server = stack.enter_context(Server(os.path.join(work, "tags.l3a"), "--library", library, *options))
            steps = [("open", lambda: opens(page, server)), ("folders", lambda: folders(page, library)), ("first tag", lambda: first_tag(page, server, tag, truth[tag], real)),
                     ("like", lambda: second_tag(page, server, other, truth[other])), ("tag", lambda: opens_a_tag(page, server, tag)),
                     ("verdicts", lambda: teaches(page, server, tag, truth[tag])), ("search", lambda: searches(page, server, tag, other, real)),
                     ("next", lambda: judges_next(page, server)), ("problems", lambda: problems(page)), ("looks", lambda: looks(page, os.environ.get("L3A_PAGE_PICTURES"), other)),
                     ("history", lambda: history(page, server))]
            for name, step in steps:
                started = time.monotonic()
                step()
                print(f"{name}: {time.monotonic() - started:.1f} s", flush=True)
            server = second_start(page, server, stack)
            assert not page.foreign(server.address) and not page.faults(), (page.foreign(server.address), page.faults())
            server.stop()
            demonstration(page, work, stack)
            assert not page.faults(), page.faults()
    finally:
        shutil.rmtree(work)


main()
