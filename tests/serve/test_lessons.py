"""Lessons over HTTP: what the server says about them after every kind of change, how many tags they may bring, and a lesson that would
take longer than the server may take to end."""
import http.client
import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import server as serving
from server import BACKBONE, Server


def metric(server, name):
    found = re.search(rf"^{name} (\S+)$", server.good("GET", "/metrics", raw=True).decode(), re.MULTILINE)
    return float(found.group(1))


def account(server, keys):
    """What the server says was taught."""
    pictures = server.good("POST", "/v1/score", {"keys": keys})["pictures"]
    return server.good("GET", "/v1/history"), [picture["taught"] for picture in pictures]


def follows_every_change(scratch, folder):
    """The account of lessons is kept up to date; after SIGHUP, it is made anew from the files, and must be the same."""
    model = scratch / "account.l3a"
    with Server(model, "--backbone", BACKBONE, "--library", folder) as server:
        paths = [f"{colour}{i}.jpg" for colour in serving.COLOURS for i in range(6)]
        keys = []
        steps = [
            ("/v1/teach", {"pictures": [{"path": path, "tags": [path[:-5]]} for path in paths[:14]]}),
            ("/v1/teach", {"pictures": [{"path": "blue3.jpg", "tags": ["blue"], "only": True}]}),
            ("/v1/teach", {"pictures": [{"path": "red0.jpg", "tags": ["blue", "odd"]}, {"path": "red1.jpg", "tags": ["red", "odd"]}], "instead": True}),
            ("/v1/teach", {"pictures": [{"path": "grey0.jpg", "tags": [], "not": ["red"]}]}),
            ("/v1/rename", {"from": "odd", "to": "even"}),
            ("/v1/teach", {"pictures": [{"path": "red0.jpg", "tags": ["even"]}], "instead": True}),
            ("/v1/undo", {}),
            ("/v1/undo", {}),
            ("/v1/undo", {}),
            ("/v1/undo", {}),
            ("/v1/rename", {"from": "blue", "to": "red"}),
            ("/v1/undo", {}),
            ("/v1/undo", {}),
            ("/v1/teach", {"pictures": [{"path": "grey1.jpg", "tags": ["grey"]}]}),
        ]
        for number, (path, body) in enumerate(steps):
            answer = server.good("POST", path, body)
            if not keys:
                tagged = server.good("POST", "/v1/tag", {"pictures": [{"path": path} for path in paths]})
                keys = [picture["key"] for picture in tagged["pictures"]]
            before = account(server, keys)
            server.process.send_signal(signal.SIGHUP)
            while server.good("GET", "/v1/classes")["edition"] == answer["edition"]:
                time.sleep(0.01)
            assert account(server, keys) == before, (number, path, before, account(server, keys))
        history, taught = before
        assert [lesson["kind"] for lesson in history["lessons"]] == ["teach", "teach"]
        assert taught[0] == {"tags": ["red"], "not": [], "only": False} and taught[paths.index("blue3.jpg")] is None, taught
        assert server.stop() == 0


def tags_are_limited(scratch, folder):
    """A lesson brings 1,000 new tags at most, and a model has 10,000."""
    model = scratch / "limits.l3a"
    serving.run("teach", model, folder / "red0.jpg", "--tags", "red", "--backbone", BACKBONE, "--dim", "16")
    with Server(model, "--library", folder) as server:
        def teach(path, tags):
            return server.ask("POST", "/v1/teach", {"pictures": [{"path": path, "tags": tags}], "instead": True})

        status, answer = teach("blue0.jpg", [f"tag {i}" for i in range(20000)])
        assert status == 422 and "20000 new tags; 1000 is the most" in answer["error"] and answer["hint"], (status, answer)
        paths = [f"{colour}{i}.jpg" for colour in ("blue", "green", "grey") for i in range(6)]
        for n in range(9):
            status, answer = teach(paths[n], [f"tag {1000 * n + i}" for i in range(1000)])
            assert status == 200 and len(answer["new_classes"]) == 1000, (n, status, answer)
        status, answer = teach("red5.jpg", [f"more {i}" for i in range(1000)])
        assert status == 422 and "would have 10001 tags" in answer["error"] and "10000 is the most" in answer["error"], (status, answer)
        status, answer = teach("red5.jpg", [f"more {i}" for i in range(999)])
        assert status == 200 and len(answer["classes"]) == 10000, status
        assert teach("red4.jpg", ["tag 7"])[0] == 200
        assert len(server.good("GET", "/v1/classes")["classes"]) == 10000
        assert server.stop() == 0


def an_end_cancels_a_lesson(scratch, folder):
    """A lesson that would take long, and two signals: the server ends, says that nothing was learned, and that is so."""
    model = scratch / "cancel.l3a"
    serving.run("teach", model, *(folder / f"red{i}.jpg" for i in range(4)), "--tags", "red", "--backbone", BACKBONE, "--dim", "4096")
    with Server(model, "--library", folder, "--no-index") as server:
        assert server.ask("POST", "/v1/teach", {"pictures": [{"path": "green0.jpg", "tags": ["green"]}]})[0] == 200
        history = server.good("GET", "/v1/history")
        pictures = [f"{colour}{i}.jpg" for colour in ("blue", "green", "grey") for i in range(1, 6)]
        lesson = {"pictures": [{"path": path, "only": True, "tags": [f"{path} {i}" for i in range(60)]} for path in pictures]}
        looked, answers = metric(server, "l3a_pictures_total"), []

        def teach():
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
            connection.request("POST", "/v1/teach", json.dumps(lesson), {"Content-Type": "application/json"})
            response = connection.getresponse()
            answers.append((response.status, json.loads(response.read())))

        thread = threading.Thread(target=teach)
        thread.start()
        while metric(server, "l3a_pictures_total") < looked + len(pictures) or metric(server, "l3a_teacher_waiting"):
            time.sleep(0.02)
        time.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert server.stop() == 0
        thread.join()
        (status, answer), = answers
        assert status == 503 and "shutting down; nothing was changed" in answer["error"] and answer["hint"], (status, answer)
    with Server(model, "--library", folder, "--no-index") as server:
        assert server.good("GET", "/v1/history") == history
        assert {one["name"] for one in server.good("GET", "/v1/classes")["classes"]} == {"red", "green"}
        assert server.ask("POST", "/v1/teach", {"pictures": [{"path": "blue0.jpg", "tags": ["blue"]}]})[0] == 200
        assert server.stop() == 0


def main(scratch, folder):
    follows_every_change(scratch, folder)
    tags_are_limited(scratch, folder)
    an_end_cancels_a_lesson(scratch, folder)
    print("what is said about lessons, their limits, and their end")


if __name__ == "__main__":
    serving.play(main)
