"""The page of 'l3a serve --demo' in a browser: a new thing is taught, suggestions appear, some are corrected by keyboard alone, one lesson is
taken back, and all is still there after a reload and a restart. Every view is checked for contrast, names and fit, light, dark and on a
phone. Without Chromium the test is skipped, or fails if L3A_BROWSER=required, as in CI."""
import contextlib
import csv
import http.server
import io
import json
import os
import shutil
import signal
import tempfile
import threading
import time
import xml.etree.ElementTree
import zipfile
from pathlib import Path

from browser import Page, counts, inspect, need_browser, wait_lessons
from server import Server

UMBRELLA = 2  # every second picture shows one


def has_umbrella(name):
    return int(name[:3]) % UMBRELLA == 0


def open_demo(page, server):
    page.visit(server.address)
    page.until("document.querySelectorAll('.cell img[src]').length >= 12")
    page.settled()


def teach_by_mouse(page):
    """Five pictures are selected by the circle in their corner, and named."""
    names = page.evaluate("[...document.querySelectorAll('.cell')].map(cell => cell.title)")
    assert names[:4] == ["001.jpg", "002.jpg", "003.jpg", "004.jpg"], names
    for name in [name for name in names if has_umbrella(name)][:5]:
        page.click(f".cell[title='{name}'] .check")
    assert page.evaluate("document.querySelector('#selection-count').textContent") == "5 pictures selected"
    inspect(page, "selection")
    page.click("#selection-add input")
    page.write("umb")
    assert page.until("document.querySelector('#selection-add li').textContent") == "new tag umb"
    page.write("rella")
    page.click("#selection-add li")
    page.click("#selection-teach")
    line = page.told("umbrella: 5 pictures taught", "more suggested")
    suggested = int(line.split(" taught, ")[1].split()[0])
    assert suggested >= 3, line
    page.until(f"[...document.querySelectorAll('#filters button')].some(one => one.textContent === 'umbrella{5 + suggested}')")
    return suggested


def check_suggestions(page, suggested):
    """Nearly all suggested pictures do show one; the others of the page are untouched. What is not sure is shown when it is asked for."""
    page.evaluate("[...document.querySelectorAll('#filters button')].find(one => one.textContent.startsWith('umbrella')).click()")
    hidden = page.evaluate("(button => button.hidden ? 0 : Number(/Show ([0-9]+) that it is not sure of/.exec(button.textContent)[1]))(document.querySelector('#show-unsure'))")
    page.until(f"document.querySelectorAll('.cell').length === {5 + suggested - hidden}")
    inspect(page, "a tag, the sure ones")
    if hidden:
        page.click("#show-unsure")
    names = page.until(f"(cells => cells.length === {5 + suggested} && cells.map(cell => cell.title))([...document.querySelectorAll('.cell')])")
    right = sum(map(has_umbrella, names))
    assert right >= 0.8 * len(names), names
    inspect(page, "a tag")
    page.click("#filters button")


def review_by_keyboard(page, server):
    """From the top of the page, with nothing but keys: three pictures are corrected, then the last lesson is taken back."""
    page.evaluate("document.activeElement.blur(); document.querySelector('#review').close()")
    before = len(server.good("GET", "/v1/history")["lessons"])
    page.tab_to("#start-review")
    page.key("Enter")
    page.until("document.querySelector('#review').open")
    inspect(page, "review")
    saved = {}
    for number in range(3):
        page.until("document.querySelectorAll('#review-tags li').length > 1")
        time.sleep(0.45)  # ticks have to stand still before Enter takes them
        name = page.evaluate("document.querySelector('#review-title').textContent")
        ticks = page.evaluate("[...document.querySelectorAll('#review-tags input')].map(one => [one.value, one.checked])")
        if dict(ticks).get("umbrella", False) != has_umbrella(name):
            index = [tag for tag, _ in ticks].index("umbrella") if "umbrella" in dict(ticks) else -1
            if 0 <= index < 9:
                page.key(str(index + 1))
            else:
                page.key("t")
                page.until("document.activeElement.matches('#review-add input')")
                page.write("umbr")
                page.key("Enter")
        saved[name] = page.evaluate("[...document.querySelectorAll('#review-tags input:checked')].map(one => one.value)")
        assert ("umbrella" in saved[name]) == has_umbrella(name)
        page.key("Enter")
        page.until(f"document.querySelector('#review-title').textContent !== '{name}'")
        page.until("document.querySelector('#review .line').textContent")
    page.until("!document.querySelector('#review .undo').hidden")
    wait_lessons(server, before + 3)
    assert [lesson["pictures"] for lesson in server.good("GET", "/v1/history")["lessons"]][:3] == [1, 1, 1]
    page.key("Escape") if page.evaluate("document.activeElement.matches('input')") else None
    page.evaluate("document.querySelector('#review-title').focus()")
    page.key("u")
    page.told("Undone: lesson")
    wait_lessons(server, before + 2)
    last = list(saved)[-1]
    del saved[last]
    page.key("Escape")
    page.until("!document.querySelector('#review').open")
    page.until("[...document.querySelectorAll('#filters button')].some(one => one.textContent === 'Taught by you7')")
    return saved


def check_kept(page, saved, taught):
    page.settled()
    assert counts(page)["Taught by you"] == taught and counts(page)["All pictures"] == 80, counts(page)
    page.evaluate("[...document.querySelectorAll('#filters button')].find(one => one.textContent.startsWith('Taught by you')).click()")
    labels = page.until(f"(cells => cells.length === {taught} && Object.fromEntries(cells.map(cell => [cell.title, cell.getAttribute('aria-label')])))"
                        "([...document.querySelectorAll('.cell')])")
    for name in saved:
        label = labels[name]
        tags = label.removeprefix(f"{name}: ").removesuffix(", taught by you")
        assert label == f"{name}: {tags}, taught by you" and sorted(tags.split(", ")) == sorted(saved[name] or ["none of your tags"]), (label, saved)
    page.click("#filters button")


def check_views(page, work):
    """Each view in both colours, at the width of a desk, a phone, and a desk at 200 %."""
    views = ["#pictures", "#quality", "#history"]
    for width, height, dark, phone in ((1280, 800, False, False), (1280, 800, True, False), (390, 844, False, True), (390, 844, True, True), (640, 400, False, False)):
        page.look(width, height, dark, phone)
        where = f"{width}{' dark' if dark else ''}"
        for view in views:
            page.evaluate(f"location.hash = '{view}'")
            page.until({"#quality": "!!document.querySelector('#quality table')", "#history": "!!document.querySelector('#history ol')",
                        "#pictures": "document.querySelectorAll('.cell').length > 3"}[view])
            inspect(page, f"{view} {where}")
            page.picture(os.path.join(work, f"{view[1:]}-{where.replace(' ', '-')}.png"))
        page.evaluate("document.querySelector('#export-open').click()")
        inspect(page, f"export {where}")
        page.evaluate("document.querySelector('#export').close(); location.hash = '#pictures'")
        page.until("document.querySelectorAll('.cell').length > 3")
        page.evaluate("document.querySelectorAll('.cell')[2].click()")
        page.until("document.querySelectorAll('#review-tags li').length > 1 && !!document.querySelector('#review-picture').src")
        inspect(page, f"review {where}")
        page.picture(os.path.join(work, f"review-{where.replace(' ', '-')}.png"))
        page.evaluate("document.querySelector('#review').close()")
    page.look()


def check_quality(page, server):
    page.evaluate("location.hash = '#quality'")
    page.until("!!document.querySelector('#quality table')")
    rows = page.evaluate("[...document.querySelectorAll('#quality tbody tr')].map(row => [...row.children].map(cell => cell.textContent))")
    told = {one["name"]: one for one in server.good("GET", "/v1/quality")["classes"]}
    assert sorted(row[0] for row in rows) == sorted(told) and len(rows) == 19, rows
    for name, pictures, right, found in rows:
        one = told[name]
        assert pictures == str(one["pictures"]), (name, pictures, one)
        for text, value in ((right, one["precision"]), (found, one["recall"])):
            assert text == (f"{round(100 * value)}\u00a0%" if value is not None and one["pictures"] >= 5 else text), (name, text, value)
    page.evaluate("location.hash = '#pictures'")


# The answer of a server that has looked at enough of a library.
LIBRARY = """window.wholeFetch = window.fetch;
    window.fetch = async (url, options) => {
        if (!String(url).endsWith('/v1/quality')) return wholeFetch(url, options);
        const told = await (await wholeFetch(url, options)).json();
        const classes = told.classes.map((one, i) => ({...one, tagged: 431 * i % 1234, precision: i ? one.precision : null}));
        return new Response(JSON.stringify({...told, classes, background: null, library: {pictures: 1234, unlabelled: 1200}}));
    }"""


def check_library_quality(page, server, work):
    """With a library, the numbers are about it."""
    page.evaluate(LIBRARY)
    for width, height, dark, phone in ((1280, 800, False, False), (1280, 800, True, False), (390, 844, False, True), (390, 844, True, True), (640, 400, False, False)):
        page.look(width, height, dark, phone)
        page.evaluate("location.hash = '#pictures'")
        page.until("!document.querySelector('#pictures').hidden")
        page.evaluate("location.hash = '#quality'")
        page.until("document.querySelector('#quality-body').textContent.includes('In this library')")
        where = f"{width}{' dark' if dark else ''}"
        inspect(page, f"library quality {where}")
        if phone:
            page.evaluate("document.querySelector('#quality table').parentElement.scrollIntoView()")
        page.picture(os.path.join(work, f"quality-library-{where.replace(' ', '-')}.png"))
    text = page.evaluate("document.querySelector('#quality-body').textContent")
    assert "from 1,234 pictures of this library" in text and "none of your tags" not in text, text
    rows = page.evaluate("[...document.querySelectorAll('#quality tbody tr')].map(row => [...row.children].map(cell => cell.textContent))")
    assert len(rows) == 19 and all(len(row) == 5 for row in rows), rows
    names = [one["name"] for one in server.good("GET", "/v1/quality")["classes"]]
    assert {row[0]: row[2] for row in rows} == {name: f"{431 * i % 1234:,}" for i, name in enumerate(names)}, rows
    page.evaluate("window.fetch = window.wholeFetch; location.hash = '#pictures'")
    page.look()


def download(page, work, selector, name):
    path = Path(work) / name
    page.evaluate(f"document.querySelector({selector!r}).click()")
    end = time.monotonic() + 20
    while not path.exists() or list(Path(work).glob("*.crdownload")):
        assert time.monotonic() < end, (name, page.evaluate("document.querySelector('#export-state').textContent"))
        time.sleep(0.05)
    data = path.read_bytes()
    path.unlink()
    return data


def check_exports(page, server, work, saved):
    """CSV, JSON and XMP say the same, and what was taught."""
    page.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=work)
    page.evaluate("document.querySelector('#export-open').click()")
    rows = list(csv.DictReader(io.StringIO(download(page, work, "[data-export=csv]", "tags.csv").decode())))
    told = {one["path"]: one for one in json.loads(download(page, work, "[data-export=json]", "tags.json"))["pictures"]}
    assert len(rows) == 80 and [row["path"] for row in rows] == list(told)
    for row in rows:
        assert row["tags"].split(";") == told[row["path"]]["tags"] or not row["tags"] and not told[row["path"]]["tags"], row
    for name, tags in saved.items():
        assert sorted(tags) == sorted(told[name]["confirmed"]) == sorted(told[name]["tags"]), (told[name], tags)
    archive = zipfile.ZipFile(io.BytesIO(download(page, work, "[data-export=xmp]", "tags-xmp.zip")))
    assert archive.testzip() is None
    assert sorted(archive.namelist()) == sorted(f"{name}.xmp" for name, one in told.items() if one["tags"])
    for name in archive.namelist():
        bag = [item.text for item in xml.etree.ElementTree.fromstring(archive.read(name)).iter("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li")]
        assert sorted(bag) == sorted(told[name[:-4]]["tags"]), (name, bag)
    model = download(page, work, "[data-download=model]", "tagger.l3a")
    assert model[8:9] == b"{" and len(model) > 10000  # safetensors
    page.evaluate("document.querySelector('#export').close()")


def check_failures(page, server, demo, stack):
    """A server that is away, busy, refuses a lesson; a file that is no picture: said calmly, and gone when it is over."""
    page.visit(server.address)
    page.settled()
    server.stop(signal.SIGKILL)
    page.until("document.querySelector('.notice')?.textContent.includes('The server does not answer')")
    inspect(page, "away")
    stack.enter_context(server.again())
    page.until("!document.querySelector('.notice')")
    page.settled()
    page.evaluate("""window.wholeFetch = window.fetch;
        window.fetch = async (url, options) => String(url).endsWith('/v1/status') ? new Response(JSON.stringify({...await (await wholeFetch(url, options)).json(),
            ready: false, savable: false, unsaved: 3, trouble: 'No space left.'})) : wholeFetch(url, options)""")
    broken = os.path.join(demo, "broken.jpg")
    Path(broken).write_text("no picture")
    large = os.path.join(demo, "large.jpg")
    with open(large, "wb") as file:
        file.truncate((64 << 20) + 1)
    refused = server.good("GET", "/metrics").decode().count('route="POST /v1/tag",status="4xx"')
    page.choose("#files", [large])
    page.until("[...document.querySelectorAll('#filters button')].some(one => one.textContent === 'Cannot be read1')")
    assert server.good("GET", "/metrics").decode().count('route="POST /v1/tag",status="4xx"') == refused  # it was not sent
    page.choose("#files", [broken, os.path.join(demo, "tagger.l3a")])
    page.until("[...document.querySelectorAll('#filters button')].some(one => one.textContent === 'Cannot be read2')")
    page.told("1 other file left out: “Left out” lists it.")
    page.until("document.querySelector('.notice')?.textContent.includes('Your lessons are kept, but the model file cannot be updated. No space left.')")
    inspect(page, "unsaved")
    # Answers that are hard to get from a healthy server.
    page.evaluate("window.fetch = window.wholeFetch")
    page.evaluate("""(whole => {
        let busy = 2;
        window.fetch = (url, options) => String(url).endsWith('/v1/teach') && busy ? (busy--, Promise.resolve(new Response('{"error": "busy"}', {status: 429, headers: {'Retry-After': '1'}})))
            : String(url).endsWith('/v1/teach') ? (window.fetch = whole, Promise.resolve(new Response('{"error": "This tag cannot be learned.", "hint": "Choose another word."}', {status: 422}))) : whole(url, options);
    })(window.fetch)""")
    taught = counts(page)["Taught by you"]
    page.evaluate("document.querySelectorAll('.cell .check')[0].click(); document.querySelector('#selection-add input').focus()")
    page.write("kite")
    page.keys("Enter", "Enter")
    page.until("document.querySelector('.notice')?.textContent.includes('This tag cannot be learned. Choose another word.')")
    page.until(f"[...document.querySelectorAll('#filters button')].some(one => one.textContent === 'Taught by you{taught}')")
    page.until("document.querySelectorAll('.notice').length === 1")  # the model is saved again
    inspect(page, "refused")
    page.evaluate("[...document.querySelectorAll('.notice button')].at(-1).click()")
    assert not page.evaluate("document.querySelectorAll('.notice').length")


HOSTILE = '<img src=x onerror="window.hurt=1">&amp'


def check_hostile(page, server):
    """A tag is a text, whatever it looks like."""
    page.evaluate("document.querySelectorAll('.cell .check')[1].click(); document.querySelector('#selection-add input').focus()")
    page.write(HOSTILE)
    page.keys("Enter", "Enter")
    page.told(f"{HOSTILE}: 1 picture taught")
    assert HOSTILE in page.evaluate("document.querySelectorAll('.cell')[1].getAttribute('aria-label')")
    page.evaluate("[...document.querySelectorAll('#filters button')].find(one => one.textContent.includes('onerror=')).click()")
    page.until(f"document.querySelector('.cell .chip')?.textContent === {HOSTILE!r}")
    page.click("#filters button")
    page.until("document.querySelectorAll('.cell').length > 3")
    for view in ("#quality", "#history", "#pictures"):
        page.evaluate(f"location.hash = '{view}'")
        page.until(f"document.querySelector('{view}').textContent.includes('onerror=')")
    page.evaluate("document.querySelectorAll('.cell')[1].click()")
    page.until("document.querySelector('#review-tags').textContent.includes('onerror=')")
    page.key("Escape")
    assert not page.evaluate("window.hurt ?? document.querySelectorAll('img[src=x]').length")
    page.evaluate("document.querySelector('footer .undo').click()")
    page.told("Undone")


def check_folder(page, work):
    """A dropped folder is searched; hidden files and what is no picture are left out."""
    folder = Path(work, "photos")
    (folder / "deep" / "er").mkdir(parents=True)
    for i, name in enumerate(("a.jpg", "deep/b.jpg", "deep/er/c.JPG", "deep/.hidden.jpg")):
        shutil.copyfile(Path(work, "demo", "pictures", f"{i + 1:03}.jpg"), folder / name)
    (folder / "notes.txt").write_text("no picture")
    page.drop([folder])
    page.told("3 pictures added. 1 other file left out")
    page.settled()
    page.evaluate("document.querySelector('#grid').focus()")
    page.key("End")
    names = page.until("(names => names.length >= 3 && names)([...document.querySelectorAll('.cell')].map(cell => cell.title).filter(name => name.startsWith('photos/')))")
    assert names == ["photos/a.jpg", "photos/deep/b.jpg", "photos/deep/er/c.JPG"], names
    page.drop([folder])
    page.told("0 pictures added. 3 were here already.")


class Blank(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another site</title><body>")

    def log_message(self, *_):
        pass


# What a script of another site can try. Nothing may be read; an answer that cannot be looked into has the type 'opaque'.
ATTACK = """(async () => {
  const out = [], lesson = JSON.stringify({pictures: [{path: '001.jpg', tags: ['evil']}]});
  const attempt = async (path, options) => {
    try { const answer = await fetch(TARGET + path, options); out.push(answer.type === 'opaque' ? 'opaque' : 'read: ' + path); } catch { out.push('refused'); }
  };
  for (const path of ['v1/status', 'v1/history', 'v1/library/picture?path=001.jpg', 'v1/model']) {
    await attempt(path, {});
    await attempt(path, {mode: 'no-cors', credentials: 'include'});
  }
  for (const path of ['v1/teach', 'v1/undo', 'v1/rename']) {
    await attempt(path, {method: 'POST', body: lesson, headers: {'Content-Type': 'application/json', 'X-L3A': '1'}});
    await attempt(path, {method: 'POST', body: lesson, mode: 'no-cors', headers: {'Content-Type': 'text/plain'}});
  }
  const picture = new Image();
  out.push(await new Promise(done => { picture.onload = () => done('read: an image'); picture.onerror = () => done('refused'); picture.src = TARGET + 'v1/library/picture?path=001.jpg'; }));
  return out;
})()"""


def check_other_site(page, server):
    """A page from another origin can neither read nor teach."""
    before = server.good("GET", "/v1/history")
    assert not page.faults(), page.faults()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Blank) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        page.ask("Page.navigate", url=f"http://127.0.0.1:{other.server_port}/")
        page.until("document.title === 'another site'")
        out = page.ask("Runtime.evaluate", expression=ATTACK.replace("TARGET", json.dumps(server.address)), awaitPromise=True, returnByValue=True)["result"]["value"]
        other.shutdown()
    assert len(out) == 15 and set(out) <= {"refused", "opaque"}, out
    assert server.good("GET", "/v1/history") == before
    page.events.clear()  # Chromium reports what it refused
    page.visit(server.address)


def check_token(page, demo, work):
    secret = os.path.join(work, "token")
    Path(secret).write_text("open sesame 0123456789abcdef\n")
    os.chmod(secret, 0o600)
    with Server(demo, "--demo", "--no-index", "--token-file", secret, "--readonly") as server:
        page.ask("Page.navigate", url=server.address)
        page.until("document.querySelector('#token')?.open")
        inspect(page, "token")
        page.write("wrong")
        page.key("Enter")
        page.until("document.querySelector('#token').open && document.querySelector('#token-wrong').textContent")
        page.write("open sesame 0123456789abcdef")
        page.key("Enter")
        page.until("document.querySelectorAll('.cell img[src]').length > 3")
        assert page.evaluate("Object.values(localStorage).join() + document.cookie").find("sesame") < 0
        page.until("document.querySelector('.notice.plain')?.textContent.includes('learns nothing')")
        page.evaluate("document.querySelectorAll('.cell')[0].click()")
        page.until("document.querySelector('#review').open")
        assert not page.evaluate("document.querySelector('#review-save').checkVisibility()")
        inspect(page, "readonly")
        page.key("ArrowRight")
        page.until("document.querySelector('#review-title').textContent === '002.jpg'")
        page.key("Escape")


def check_roles(page, demo, work):
    """Below a path of its own, with a token that may only read: what would be refused is not offered. With another token, it is."""
    tokens = os.path.join(work, "tokens")
    Path(tokens).write_text("read only-for-looking-0123456789\nteach for-teaching-too-0123456789\n")
    os.chmod(tokens, 0o600)
    with Server(demo, "--demo", "--no-index", "--tokens", tokens, "--base-path", "/photos/tags") as server:
        page.events.clear()
        page.ask("Page.navigate", url=server.address[:-1])  # it leads to the page
        page.until("document.querySelector('#token')?.open")
        page.write("only-for-looking-0123456789")
        page.key("Enter")
        page.until("document.querySelectorAll('.cell img[src]').length > 3")
        assert page.evaluate("location.pathname") == "/photos/tags/"
        page.until("document.querySelector('.notice.plain')?.textContent.includes('lets you look, but not teach')")
        page.click(".cell .check")
        page.click("#export-open")
        offered = "['#start-review', '#selection', '#export-tagger', '#export [data-export]'].map(one => document.querySelector(one).checkVisibility())"
        assert page.evaluate(offered) == [False, False, False, True]
        inspect(page, "a token that may read")
        page.key("Escape")
        page.click(".notice.plain button")
        page.until("document.querySelector('#token').open")
        page.key("Escape")  # it stays as it is
        page.until("!document.querySelector('#token').open")
        page.click(".notice.plain button")
        page.until("document.querySelector('#token').open")
        page.write("for-teaching-too-0123456789")
        page.key("Enter")
        page.until("!document.querySelector('.notice.plain') && document.querySelector('#start-review').checkVisibility() && document.querySelector('#selection').checkVisibility()")
        asked = [url for url in page.requests() if url.startswith("http") and f":{server.port}/" in url]  # the page before may have asked last
        assert asked and all(url.startswith(server.address[:-1]) for url in asked), asked


def check_many(page, demo, work):
    """Ten thousand pictures: few elements, the right ones wherever the page is scrolled to."""
    many = os.path.join(work, "many")
    os.mkdir(many)
    sources = sorted(Path(demo, "pictures").iterdir())[:20]
    for i in range(10000):
        os.link(sources[i % 20], os.path.join(many, f"{i:05}.jpg"))
    model = os.path.join(demo, "tagger.l3a")
    with Server(model, "--library", many, "--no-index") as server:
        page.visit(server.address)
        assert page.evaluate("document.querySelector('#welcome').checkVisibility()")
        inspect(page, "welcome")
        page.click("#welcome-library")
        page.until("document.querySelector('#filter-count').textContent === '10,000 pictures'")
        for share in (0, 0.5, 1):
            page.evaluate(f"scrollTo(0, {share} * document.scrollingElement.scrollHeight)")
            page.until("(cells => cells.length > 5 && cells.length < 150 && [...cells].filter(cell => (box => box.bottom > 100 && box.top < innerHeight - 50)"
                       "(cell.getBoundingClientRect())).every(cell => cell.querySelector('img').src))(document.querySelectorAll('.cell'))")
            for cell in page.evaluate("[...document.querySelectorAll('.cell')].map(cell => [cell.title, cell.getAttribute('aria-posinset'), cell.getAttribute('aria-setsize')])"):
                assert cell == [f"{int(cell[1]) - 1:05}.jpg", cell[1], "10000"], cell
        page.evaluate("document.querySelector('#grid').focus()")
        page.key("End")
        page.until("document.querySelector('.cell.active')?.title === '09999.jpg'")
        order = page.evaluate("[...document.querySelectorAll('.cell')].map(cell => Number(cell.getAttribute('aria-posinset')))")
        assert order == sorted(order)
        assert page.evaluate("document.getElementsByTagName('*').length") < 2500


def main():
    need_browser()
    work = tempfile.mkdtemp()
    pictures = os.environ.get("L3A_PAGE_PICTURES", work)
    demo = os.path.join(work, "demo")
    try:
        with Page(deadline=240) as page:
            page.look()
            with contextlib.ExitStack() as stack:
                server = stack.enter_context(Server(demo, "--demo", "--no-index"))
                open_demo(page, server)
                inspect(page, "demo")
                assert "umbrella" in page.evaluate("document.querySelector('#tip').textContent")
                check_suggestions(page, teach_by_mouse(page))
                saved = review_by_keyboard(page, server)
                open_demo(page, server)
                check_kept(page, saved, 7)
                server.stop()
                server = stack.enter_context(server.again())
                open_demo(page, server)
                check_kept(page, saved, 7)
                check_quality(page, server)
                check_exports(page, server, work, saved)
                check_views(page, pictures)
                check_library_quality(page, server, pictures)
                assert not page.foreign(server.address), page.foreign(server.address)
                check_hostile(page, server)
                check_other_site(page, server)
                check_folder(page, work)
                check_failures(page, server, demo, stack)
            check_token(page, demo, work)
            check_roles(page, demo, work)
            check_many(page, demo, work)
            assert not page.faults(), page.faults()
    finally:
        shutil.rmtree(work)


main()
