"""A browser on the page of 'l3a serve'. Keys, clicks and files go through the browser as a person's would."""
import base64
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "oracle"))
import chromium  # noqa: E402
from server import available  # noqa: E402

CODES = {"Enter": 13, "Escape": 27, "Tab": 9, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


class Page(chromium.Chromium):
    def look(self, width=1280, height=800, dark=False, phone=False, still=False, scale=1):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone)
        self.ask("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                                                         {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}])

    def visit(self, address):
        answer = self.ask("Page.navigate", url=address)
        assert not answer.get("errorText"), answer
        self.until("document.body && document.body.dataset.ready === 'true'")

    def until(self, expression, seconds=30):
        """Waits until a JavaScript expression is true and the page has drawn what goes with it; returns the expression's value."""
        end, value = time.monotonic() + seconds, None
        while time.monotonic() < end:
            try:
                value = self.evaluate(expression)
                if value:
                    self.drawn()
                    return value
            except RuntimeError as error:  # between two documents
                value = error
            time.sleep(0.03)
        raise AssertionError(f"never became true: {expression}: {value}; line: {self.line()!r}; at {self.evaluate('location.href')}; open requests: {self.unanswered()}; {self.complaints()[-3:]}")

    def drawn(self):
        """The page draws in the next frame, and some of it in the one after that."""
        self.ask("Runtime.evaluate", expression="new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))", awaitPromise=True)

    def unanswered(self):
        ended = {e["params"]["requestId"] for e in self.events if e.get("method") in ("Network.loadingFinished", "Network.loadingFailed")}
        return [e["params"]["request"]["url"] for e in self.events
                if e.get("method") == "Network.requestWillBeSent" and e["params"]["requestId"] not in ended]

    def line(self):
        """The last thing that the page said."""
        return self.evaluate("[...document.querySelectorAll('.line')].map(one => one.textContent).join('')")

    def told(self, *words):
        """Waits until the line has all these words."""
        tests = " && ".join(f"line.includes({word!r})" for word in words)
        self.until(f"(line => {tests})([...document.querySelectorAll('.line')].map(one => one.textContent).join(''))")
        return self.line()

    def settled(self):
        self.until("document.querySelector('#progress').hidden")

    def choose(self, selector, paths):
        """Files for an input element, as the browser's file window would give them."""
        element = self.ask("Runtime.evaluate", expression=f"document.querySelector('{selector}')")["result"]["objectId"]
        self.ask("DOM.setFileInputFiles", files=[str(path) for path in paths], objectId=element)

    def drop(self, paths):
        """Files dropped in the middle of the window."""
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.ask("Input.dispatchDragEvent", type=kind, x=600, y=400, data=data)

    def key(self, key, shift=False, control=False):
        modifiers = 8 * shift + 2 * control
        text = "\r" if key == "Enter" else key if len(key) == 1 and not control else ""
        code = CODES.get(key, ord(key.upper()) if len(key) == 1 else 0)
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code, modifiers=modifiers)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code, modifiers=modifiers)

    def keys(self, *keys):
        for key in keys:
            self.key(key)

    def write(self, text):
        self.ask("Input.insertText", text=text)

    def drag(self, start, end, control=False, touch=False):
        """The mouse is pressed at one place of the window, moved, and released at another; or a finger does the same."""
        middle = [(a + b) / 2 for a, b in zip(start, end)]
        if touch:
            for kind, at in (("touchStart", [start]), ("touchMove", [middle]), ("touchMove", [end]), ("touchEnd", [])):
                self.ask("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y} for x, y in at])
            return
        for kind, (x, y), button in (("mouseMoved", start, "none"), ("mousePressed", start, "left"), ("mouseMoved", middle, "left"), ("mouseMoved", end, "left"),
                                     ("mouseReleased", end, "left")):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=int(button == "left" and kind != "mouseReleased"), clickCount=1, modifiers=2 * control)
            self.drawn()

    def click(self, selector, shift=False):
        """A mouse click at the middle of an element, which has to be in view and on top."""
        place = self.until(f"""(element => {{
            if (!element) return null;
            element.scrollIntoView({{block: 'nearest'}});
            const box = element.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
            const top = document.elementFromPoint(x, y);
            return top && (element.contains(top) || top.contains(element)) ? [x, y] : null;
        }})(document.querySelector({selector!r}))""")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="none" if kind == "mouseMoved" else "left", clickCount=1, modifiers=8 * shift)

    def focused(self):
        return self.evaluate("(e => e.id || e.className || e.tagName)(document.activeElement)")

    def tab_to(self, selector, most=80):
        """Presses Tab until the element has the focus."""
        for _ in range(most):
            if self.evaluate(f"document.activeElement.matches({selector!r})"):
                return
            self.key("Tab")
        raise AssertionError(f"Tab does not reach {selector}; the focus is on {self.focused()}")

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def faults(self):
        """What the console has to complain about, apart from answers that the test asked for."""
        return [one for one in self.complaints() if one.get("entry", {}).get("source") != "network"]

    def foreign(self, address):
        return [url for url in self.requests() if not url.startswith((address, "blob:" + address, "data:"))]


# Text on its ground, and the edges of fields and buttons, against WCAG's ratios: 4.5 for text (3 if large), 3 for edges.
CONTRAST = """(() => {
  const canvas = new OffscreenCanvas(1, 1), context = canvas.getContext('2d', {willReadFrequently: true});
  const parse = colour => { context.clearRect(0, 0, 1, 1); context.fillStyle = colour; context.fillRect(0, 0, 1, 1); return [...context.getImageData(0, 0, 1, 1).data]; };
  const over = (top, below) => { const a = top[3] / 255; return [0, 1, 2].map(i => top[i] * a + below[i] * (1 - a)).concat(255); };
  const ground = element => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3]) layers.push(colour);
      if (colour[3] === 255) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 255]);
  };
  const light = colour => { const [r, g, b] = colour.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const root = document.querySelector('dialog[open]') ?? document.body, wrong = [];
  let checked = 0;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility({visibilityProperty: true, opacityProperty: true}) || element.closest('svg, script, :disabled, .hidden, .skip, option')) continue;
    const style = getComputedStyle(element), behind = ground(element), value = ratio(over(parse(style.color), behind), behind);
    const size = parseFloat(style.fontSize), least = size >= 24 || size >= 18.66 && style.fontWeight >= 700 ? 3 : 4.5;
    checked++;
    if (value < least) wrong.push(`${value.toFixed(2)} < ${least}: ${walker.currentNode.data.trim().slice(0, 30)} (${element.className || element.tagName})`);
  }
  for (const element of root.querySelectorAll('input[type=text], input[type=password], select, button:not(.link):not(:disabled)')) {
    if (!element.checkVisibility() || element.closest('#filters, .panel, .downloads') || element.id === 'review-close') continue;
    const style = getComputedStyle(element), outside = ground(element.parentElement);
    const value = Math.max(ratio(over(parse(style.borderTopColor), outside), outside), ratio(ground(element), outside));
    checked++;
    if (value < 3) wrong.push(`${value.toFixed(2)} < 3: edge of ${element.id || element.textContent}`);
  }
  return {wrong, checked};
})()"""

# What a screen reader needs: names of everything that can be used, unique ids, references that lead somewhere.
NAMES = """(() => {
  const root = document.querySelector('dialog[open]') ?? document.body, wrong = [];
  for (const element of root.querySelectorAll('button, a, input:not([type=file]), select, summary, [role=listbox], [role=option], dialog')) {
    if (!element.checkVisibility()) continue;
    const labelled = (element.getAttribute('aria-labelledby') ?? '').split(' ').map(id => document.getElementById(id)?.textContent ?? '').join('');
    const name = (element.getAttribute('aria-label') ?? '') || labelled || [...element.labels ?? []].map(label => label.textContent).join('') || element.textContent;
    if (!name.trim()) wrong.push('no name: ' + element.outerHTML.slice(0, 90));
  }
  for (const element of document.querySelectorAll('[aria-controls], [aria-labelledby], [aria-describedby], [aria-activedescendant]'))
    for (const name of ['aria-controls', 'aria-labelledby', 'aria-describedby', 'aria-activedescendant'])
      for (const id of (element.getAttribute(name) ?? '').split(' ').filter(Boolean))
        if (!document.getElementById(id)) wrong.push(`${name} leads nowhere: ${id}`);
  const ids = [...document.querySelectorAll('[id]')].map(element => element.id);
  for (const id of new Set(ids.filter((one, i) => ids.indexOf(one) !== i))) wrong.push('twice: ' + id);
  for (const image of document.images) if (!image.hasAttribute('alt')) wrong.push('no alt');
  return wrong;
})()"""

# Nothing sticks out of the window, and no text is cut off where it should not be.
FITS = """(() => {
  const root = document.querySelector('dialog[open]') ?? document.body, wrong = [];
  if (document.scrollingElement.scrollWidth > innerWidth) wrong.push('the page is wider than the window: ' + document.scrollingElement.scrollWidth);
  for (const element of root.querySelectorAll('button, a, input, select, p, h1, h2, h3, label, td, th')) {
    if (!element.checkVisibility() || element.closest('#filters, .hidden, .skip, .cell, .card')) continue;
    const box = element.getBoundingClientRect();
    if (box.width && (box.left < -1 || box.right > innerWidth + 1)) wrong.push(`out of the window: ${element.id || element.textContent.slice(0, 30)}`);
    if (element.matches('button, a') && element.scrollWidth > element.clientWidth + 1) wrong.push(`cut off: ${element.textContent.slice(0, 30)}`);
  }
  return wrong;
})()"""


def inspect(page, where):
    """Contrast, names and fit of what is on the screen now."""
    page.evaluate("Promise.all(document.getAnimations().map(one => one.finish()))")
    contrast = page.evaluate(CONTRAST)
    assert not contrast["wrong"] and contrast["checked"] > 3, (where, contrast)
    names, fits = page.evaluate(NAMES), page.evaluate(FITS)
    assert not names, (where, names)
    assert not fits, (where, fits)
    return contrast["checked"]


def counts(page):
    """The numbers beside the filters."""
    return page.evaluate("Object.fromEntries([...document.querySelectorAll('#kinds button, #tags button')].map(one => [one.children[0].textContent, Number(one.children[1].textContent.replace(',', ''))]))")


def wait_lessons(server, expected):
    end = time.monotonic() + 20
    while len(lessons := server.good("GET", "/v1/history")["lessons"]) != expected:
        assert time.monotonic() < end, (expected, lessons[:4])
        time.sleep(0.05)


def need_browser():
    """Ends the test where it cannot run."""
    if os.environ.get("L3A_SANITIZE"):
        print("skipped: the page in a browser is tested with the plain build")
        sys.exit(77)
    if not available():
        print("skipped: this build has no server")
        sys.exit(77)
    if not chromium.find():
        print("skipped: there is no Chromium")
        sys.exit(1 if os.environ.get("L3A_BROWSER") == "required" else 77)
