"""Starts `l3a serve` and talks to it, for the tests in this folder."""
import base64
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageDraw

SOURCE, BUILD = Path(os.environ["L3A_SOURCE"]), Path(os.environ["L3A_BUILD"])
COMMAND = BUILD / "l3a"
BACKBONE = SOURCE / "models/demo_backbone.safetensors"
COLOURS = {"red": (200, 30, 30), "green": (30, 160, 40), "blue": (40, 60, 200), "grey": (120, 120, 120)}


def available():
    """Whether this build has a server."""
    done = subprocess.run([COMMAND, "serve"], capture_output=True, text=True)
    return "has no server" not in done.stderr


def play(test):
    """Calls test(scratch, folder) with a folder to work in and one of drawn pictures."""
    if not available():
        print("skipped: this build has no server")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as made:
        test(Path(made), pictures(Path(made) / "pictures"))


def draw(path, colour, number):
    """A picture of one colour with some shapes; every number gives another one."""
    image = Image.new("RGB", (160, 120), COLOURS[colour])
    pen = ImageDraw.Draw(image)
    for i in range(4):
        x, y = (number * 37 + i * 53) % 130, (number * 61 + i * 29) % 90
        pen.rectangle([x, y, x + 12 + number % 9, y + 8 + i * 5], fill=tuple((c + 60 * i + 11 * number) % 256 for c in COLOURS[colour]))
    for bit in range(12):  # the number itself
        pen.rectangle([13 * bit, 112, 13 * bit + 11, 119], fill="white" if number >> bit & 1 else "black")
    image.save(path, quality=90)


def pictures(folder, count=6, first=0):
    """Draws pictures to FOLDER/red0.jpg and so on, all different."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for colour in COLOURS:
        for i in range(first, first + count):
            draw(folder / f"{colour}{i}.jpg", colour, i + 1000 * list(COLOURS).index(colour))
    return folder


def run(*words):
    done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done


def teach_model(model, folder, *options, colours=("red", "green")):
    """Teaches a new model the first four pictures of each colour."""
    for colour in colours:
        run("teach", model, *(folder / f"{colour}{i}.jpg" for i in range(4)), "--tags", colour, "--backbone", BACKBONE, *options)


def encode(path):
    return base64.b64encode(Path(path).read_bytes()).decode()


class Server:
    def __init__(self, model, *options, limit_file=None, environment={}, port=0):
        self.started_with = model, *options
        words = [str(COMMAND), "serve", str(model), "--listen", f"127.0.0.1:{port}", *map(str, options)]
        if limit_file is not None:  # bytes that a file can have
            words = ["bash", "-c", f'ulimit -f {limit_file // 1024}; exec "$@"', "bash", *words]
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.said = []
        for line in self.process.stderr:
            self.said.append(line)
            if "listening at" in line:
                break
        else:
            raise RuntimeError("the server did not start: " + "".join(self.said))
        self.port = int(re.search(r"http://[^/]*:([0-9]+)/", self.said[-1])[1])
        self.address = re.search(r"http://\S*/", self.said[-1])[0]
        self.connection = None

    def again(self):
        """Another one after this has ended, on the same port."""
        return Server(*self.started_with, port=self.port)

    def ask(self, method, path, body=None, headers={}, raw=False):
        """Returns the status and the answer, as JSON if it is."""
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **headers}
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            self.connection.request(method, path, body, headers)
            response = self.connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            raise
        self.headers = {key.lower(): value for key, value in response.getheaders()}
        if not raw and self.headers.get("content-type", "").startswith("application/json"):
            text = json.loads(text)
        return response.status, text

    def good(self, *arguments, **options):
        status, answer = self.ask(*arguments, **options)
        assert status == 200, (arguments[:2], status, answer)
        return answer

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.said += self.process.stderr.readlines()
        code = self.process.wait(60)
        if self.connection:
            self.connection.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
