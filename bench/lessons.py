#!/usr/bin/python3
"""Whether a lesson takes longer after thousands of others: one picture after the other is taught to a server, then lessons are undone.

    L3A_BUILD=build bench/lessons.py [LESSONS] [TAGS]

Prints the median of the first and of the last hundred lessons, and of undoing the last hundred and a hundred at the beginning. Times are those
that a client sees: looking at the picture, teaching, and writing to the disk. Needs nothing but the build: the pictures are drawn here."""
import base64
import http.client
import json
import os
import random
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("L3A_BUILD", SOURCE / "build"))
SPAN, SIDE = 100, 32


def picture(choose, tag):
    """A PNG of a colour that goes with the tag, and noise."""
    base = [(tag * step) % 200 for step in (37, 91, 151)]
    rows = b"".join(b"\0" + bytes((base[i % 3] + choose.randrange(56)) for i in range(3 * SIDE)) for _ in range(SIDE))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def start(model):
    server = subprocess.Popen([BUILD / "l3a", "serve", model, "--backbone", SOURCE / "models/demo_backbone.safetensors", "--listen", "127.0.0.1:0"],
                              stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if "listening at" in line:
            return server, int(line.rsplit(":", 1)[1].strip().rstrip("/"))
    raise RuntimeError("the server did not start")


def ask(connection, path, body):
    """Seconds that a request takes."""
    body, began = json.dumps(body), time.perf_counter()
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    return time.perf_counter() - began


def state(what, first, last):
    first, last = statistics.median(first), statistics.median(last)
    print(f"{what}: {1e3 * first:.1f} ms and {1e3 * last:.1f} ms, {last / first:.2f} times as long")


def main():
    count, tags = int(sys.argv[1]) if len(sys.argv) > 1 else 2000, int(sys.argv[2]) if len(sys.argv) > 2 else 20
    choose, lessons, undone = random.Random(1), [], {}
    with tempfile.TemporaryDirectory() as folder:
        server, port = start(Path(folder) / "bench.l3a")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

        def undo():
            return [ask(connection, "/v1/undo", {}) for _ in range(SPAN)]

        def teach(n):
            image = base64.b64encode(picture(choose, n % tags)).decode()
            return ask(connection, "/v1/teach", {"pictures": [{"image": image, "name": f"{n}.png", "tags": [f"tag {n % tags}"]}]})

        for n in range(count):
            lessons.append(teach(n))
            if n == 3 * SPAN:
                undone["first"] = undo()
                for again in range(SPAN):
                    teach(count + again)
        undone["last"] = undo()
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        server.stderr.close()
    state(f"lessons 1 to {SPAN}, and {count - SPAN + 1} to {count}, of one picture each, {tags} tags: median", lessons[:SPAN], lessons[-SPAN:])
    state(f"the same for {2 * SPAN + 1} to {3 * SPAN}", lessons[2 * SPAN:3 * SPAN], lessons[-SPAN:])
    state(f"undoing {SPAN} lessons, after {3 * SPAN} and after {count}", undone["first"], undone["last"])


if __name__ == "__main__":
    main()
