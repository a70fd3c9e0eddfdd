"""Requests take turns: one that has much to do does not keep the others waiting. Nothing is timed; what counts is who is answered
first, and that nobody is refused."""
import base64
import http.client
import io
import json
import os
import select
import socket
import sys
import threading
import time
from pathlib import Path

from PIL import Image

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import server as serving
from server import Server


class Asked(threading.Thread):
    """A request on a connection of its own; `order` gets its name when it is answered."""

    def __init__(self, server, name, order, method, path, body=None, kind="application/json"):
        super().__init__()
        self.name, self.order, self.status, self.answer = name, order, 0, None
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        self.connection.request(method, path, body, {"Content-Type": kind} if body else {})
        self.start()

    def run(self):
        response = self.connection.getresponse()
        self.answer, self.status = response.read(), response.status
        self.order.append(self.name)
        self.connection.close()


def wait_for_queue(server):
    while "\nl3a_queue_pictures 0\n" in server.good("GET", "/metrics").decode():
        pass


def single_beside_many(server, folder):
    """A single picture does not wait for a request with a hundred of them, and is not refused because of it."""
    pictures = [(folder / f"{colour}{i}.jpg") for colour in ("red", "green", "blue", "grey") for i in range(6)]
    body = json.dumps({"pictures": [{"image": base64.b64encode(pictures[i % 24].read_bytes() + bytes(i)).decode()} for i in range(100)]})
    order = []
    many = Asked(server, "many", order, "POST", "/v1/tag", body)
    wait_for_queue(server)
    singles = [Asked(server, f"single {i}", order, "POST", "/v1/tag", pictures[i].read_bytes() + bytes(i), "image/jpeg") for i in range(4)]
    for one in (many, *singles):
        one.join()
    assert [one.status for one in (many, *singles)] == [200] * 5, (order, many.answer[:200])
    assert order[-1] == "many", order
    answer = json.loads(many.answer)["pictures"]
    assert len(answer) == 100 and all("tags" in picture for picture in answer)


def many_besides_many(server, folder):
    """Large requests share the queue: each gets a part of it, and none of them all."""
    order, body = [], json.dumps({"pictures": [{"path": f"red{i % 6}.jpg"} for i in range(24)]})
    asked = [Asked(server, str(i), order, "POST", "/v1/tag", body) for i in range(6)]
    for one in asked:
        one.join()
    assert [one.status for one in asked] == [200] * 6
    assert all(len(json.loads(one.answer)["pictures"]) == 24 for one in asked)


def huge_pictures(server, folder):
    """Pictures of 40 megapixels are decoded one at a time, beside the others. One that is over the limit is refused as before."""
    def png(side, grey):
        made = io.BytesIO()
        Image.new("L", (side, side), grey).save(made, "PNG", compress_level=1)
        return base64.b64encode(made.getvalue()).decode()

    order = []
    huge = Asked(server, "huge", order, "POST", "/v1/tag", json.dumps({"pictures": [{"image": png(6400, 10 * i)} for i in range(2)] + [{"image": png(2200, 7)}, {"image": png(8100, 9)}]}))
    wait_for_queue(server)
    single = Asked(server, "single", order, "POST", "/v1/tag", (folder / "red1.jpg").read_bytes(), "image/jpeg")
    single.join()
    huge.join()
    assert order == ["single", "huge"] and single.status == huge.status == 200, order
    answer = json.loads(huge.answer)["pictures"]
    assert all("tags" in picture for picture in answer[:3]) and "64000000" in answer[3]["error"], answer


def errands(server, folder):
    """However many thumbnails are asked for, only so many wait, the others are refused, and pictures are tagged. Those whose clients have
    left are not made."""
    Image.new("RGB", (5000, 5000), "red").save(folder / "large.jpg")
    path, picture = b"GET /v1/library/thumbnail?path=large.jpg HTTP/1.1\r\nHost: localhost\r\n\r\n", (folder / "red2.jpg").read_bytes()
    asked = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(300)]
    for connection in asked:
        connection.sendall(path)
    assert server.good("POST", "/v1/tag", picture, {"Content-Type": "image/jpeg"})
    waiting, refused = set(asked), False
    while waiting and not refused:
        answered, _, _ = select.select(waiting, [], [], 60)
        assert answered, "nobody is answered"
        waiting.difference_update(answered)
        refused = any(connection.recv(12) == b"HTTP/1.1 429" for connection in answered)
    assert refused, "there is no limit"
    for connection in asked:
        connection.close()
    for _ in range(600):
        status, thumbnail = server.ask("GET", "/v1/library/thumbnail?path=red2.jpg&size=100")
        if status == 200:
            break
        time.sleep(0.1)
    assert thumbnail[:2] == b"\xff\xd8", "they are made nevertheless"


def main(scratch, folder):
    model = scratch / "colours.l3a"
    serving.teach_model(model, folder)
    with Server(model, "--library", folder, "--queue", "20", "--cache", "0", "--batch", "1", "--threads", "1") as server:
        single_beside_many(server, folder)
        many_besides_many(server, folder)
        huge_pictures(server, folder)
        errands(server, folder)
        assert server.stop() == 0, server.said
    print("requests take turns")


if __name__ == "__main__":
    serving.play(main)
