"""Requests take turns: one that has much to do does not keep the others waiting. Nothing is timed; what counts is who is answered
first, and that nobody is refused."""
import base64
import http.client
import io
import json
import os
import sys
import threading
from pathlib import Path

from PIL import Image

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import server as serving
from server import Server, encode


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
    """A single picture does not wait for a request with hundreds of them, and is not refused because of it."""
    pictures = [(folder / f"{colour}{i}.jpg") for colour in ("red", "green", "blue", "grey") for i in range(6)]
    body = json.dumps({"pictures": [{"image": encode(pictures[i % 24]) + "AAAA" * (i + 1)} for i in range(600)]})  # all different
    order = []
    many = Asked(server, "many", order, "POST", "/v1/tag", body)
    wait_for_queue(server)
    singles = [Asked(server, f"single {i}", order, "POST", "/v1/tag", pictures[i].read_bytes() + bytes(i), "image/jpeg") for i in range(4)]
    for one in (many, *singles):
        one.join()
    assert [one.status for one in (many, *singles)] == [200] * 5, [one.status for one in (many, *singles)]
    assert order[-1] == "many", order
    assert len(json.loads(many.answer)["pictures"]) == 600


def many_besides_many(server, folder):
    """Large requests share the queue: each gets a part of it, and none of them all."""
    order, body = [], json.dumps({"pictures": [{"path": f"red{i % 6}.jpg"} for i in range(100)]})
    asked = [Asked(server, str(i), order, "POST", "/v1/tag", body) for i in range(6)]
    for one in asked:
        one.join()
    assert [one.status for one in asked] == [200] * 6
    assert all(len(json.loads(one.answer)["pictures"]) == 100 for one in asked)


def huge_pictures(server, folder):
    """Pictures of 40 megapixels are decoded one at a time, beside the others. One that is over the limit is refused as before."""
    def png(side, grey):
        made = io.BytesIO()
        Image.new("L", (side, side), grey).save(made, "PNG", compress_level=1)
        return base64.b64encode(made.getvalue()).decode()

    order = []
    huge = Asked(server, "huge", order, "POST", "/v1/tag", json.dumps({"pictures": [{"image": png(6400, 10 * i)} for i in range(4)] + [{"image": png(2200, 7)}, {"image": png(8100, 9)}]}))
    wait_for_queue(server)
    single = Asked(server, "single", order, "POST", "/v1/tag", (folder / "red1.jpg").read_bytes(), "image/jpeg")
    single.join()
    huge.join()
    assert order == ["single", "huge"] and single.status == huge.status == 200, order
    answer = json.loads(huge.answer)["pictures"]
    assert all("tags" in picture for picture in answer[:5]) and "64000000" in answer[5]["error"], answer


def errands(server, folder):
    """However many listings and thumbnails are asked for, pictures are tagged, and everybody is answered."""
    order = []
    asked = [Asked(server, "errand", order, "GET", "/v1/library" if i % 2 else f"/v1/library/thumbnail?path=red{i % 6}.jpg") for i in range(600)]
    single = Asked(server, "single", order, "POST", "/v1/tag", (folder / "red2.jpg").read_bytes(), "image/jpeg")
    for one in (single, *asked):
        one.join()
    assert single.status == 200 and {one.status for one in asked} <= {200, 429}, {one.status for one in asked}
    assert any(one.status == 200 and json.loads(one.answer)["total"] == 24 for one in asked[1::2])


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
