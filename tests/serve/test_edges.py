"""What could get between the server and its promises: names that are too long to keep, an end while lessons wait, requests that are
sent twice, formats that strangers should not send."""
import csv
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import server as serving
from server import COMMAND, Server, encode

PATIENCE = 60  # seconds; with sanitizers, everything takes long


def names(server):
    return {one["name"] for one in server.good("GET", "/v1/classes")["classes"]}


def long_names(model, folder):
    """Whatever is answered with 200 can be read again."""
    with Server(model) as server:
        for length, expected in ((8192, 200), (8193, 422), (70000, 422)):
            lesson = {"pictures": [{"image": encode(folder / "blue0.jpg"), "name": "n" * length, "tags": [f"blue{length}"]}], "instead": True}
            status, answer = server.ask("POST", "/v1/teach", lesson)
            assert status == expected, (length, status, answer)
        known = names(server)
        assert "blue8192" in known
        server.stop(signal.SIGKILL)
    with Server(model) as server:
        assert server.good("GET", "/v2/health/ready") == {"ready": True}
        assert names(server) == known
        assert server.stop() == 0


def impatient_end(model, folder):
    """Two signals, while lessons wait for the teacher: they are taught, or not, but none is half taught."""
    with Server(model, "--library", folder) as server:
        before = names(server)

        def teach(number):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            pictures = [{"path": f"{colour}{i}.jpg", "tags": [f"tag {number}"]} for colour in serving.COLOURS for i in range(6)]
            try:
                connection.request("POST", "/v1/teach", json.dumps({"pictures": pictures, "instead": True}), {"Content-Type": "application/json"})
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                pass

        threads = [threading.Thread(target=teach, args=(i,)) for i in range(30)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        assert server.stop() == 0, server.said
        for thread in threads:
            thread.join()
    with Server(model) as server:
        assert server.good("GET", "/v2/health/ready") == {"ready": True}
        assert all(name in before or name.startswith("tag ") for name in names(server)), names(server)
        assert server.stop() == 0


def undo_again(model, folder):
    """A client that has lost the answer asks again, and no other lesson is undone, even if one has the same number by then."""
    with Server(model, "--library", folder) as server:
        def teach(number):
            return server.good("POST", "/v1/teach", {"pictures": [{"path": f"grey{number}.jpg", "tags": ["grey"]}], "instead": True})

        first, second = teach(0), teach(1)
        listed = server.good("GET", "/v1/history")["lessons"]
        assert [(one["lesson"], one["id"]) for one in listed[:2]] == [(one["lesson"], one["id"]) for one in (second, first)]
        undone = server.good("POST", "/v1/undo", {"id": second["id"]})["undone"]
        assert (undone["lesson"], undone["id"]) == (second["lesson"], second["id"])
        third = teach(2)
        assert third["lesson"] == second["lesson"] and third["id"] != second["id"]
        status, answer = server.ask("POST", "/v1/undo", {"id": second["id"]})
        assert status == 409 and "there is no lesson" in answer["error"], (status, answer)
        for body in ({"lesson": third["lesson"]}, {"id": 5}, {"id": None}, b"x", b"[]"):
            status, answer = server.ask("POST", "/v1/undo", body, {"Content-Type": "application/json"})
            assert status == 400, (body, status, answer)
        assert server.good("GET", "/v1/history")["lessons"][0]["id"] == third["id"]
        server.stop(signal.SIGKILL)
    with Server(model, "--library", folder) as server:
        assert server.good("GET", "/v1/history")["lessons"][0]["id"] == third["id"], "ids stay"
        assert server.good("POST", "/v1/undo", {"id": third["id"]})["undone"]["id"] == third["id"]
        assert server.good("POST", "/v1/undo", {})["undone"]["id"] == first["id"]
        assert server.stop() == 0


def replaced_files(model, folder):
    """Files that somebody has put in the place of the model's are not written to as if they were its own."""
    history = Path(f"{model}.history")
    for number, what in enumerate(("history", "both")):
        with Server(model, "--library", folder) as server:
            server.good("POST", "/v1/teach", {"pictures": [{"path": "grey0.jpg", "tags": ["grey"]}], "instead": True})
            backup = server.good("GET", "/v1/model")
            kept = history.read_bytes()
            history.rename(f"{history}.away")
            if what == "both":
                model.unlink()
                model.write_bytes(backup)
            lesson = {"pictures": [{"path": f"grey{number + 2}.jpg", "tags": [f"grey after {what}"]}], "instead": True}
            status, answer = server.ask("POST", "/v1/teach", lesson)
            assert status == 409 and "replaced" in answer["error"], (status, answer)
            assert not history.exists()
            history.write_bytes(kept)
            server.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + PATIENCE
            while server.ask("POST", "/v1/teach", lesson)[0] != 200:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            server.stop(signal.SIGKILL)
        with Server(model) as server:
            assert server.good("GET", "/v2/health/ready") == {"ready": True}
            assert f"grey after {what}" in names(server)
            assert server.stop() == 0


def other_views(scratch, folder):
    """A model may learn other views of a picture than it scores. It learns the same from the server as from the command."""
    listed = scratch / "listed.csv"
    listed.write_text("path,labels\n" + "".join(f"{folder}/{colour}{i}.jpg,{colour}\n" for colour in ("red", "green") for i in range(4)))
    for learned, scored, by_key in ((1, 5, 200), (5, 1, 410)):
        table, model, copy = (scratch / f"{name}-{learned}" for name in ("table.safetensors", "model.l3a", "copy.l3a"))
        serving.run("extract", "--backbone", serving.BACKBONE, "--data", f"list:{listed}", "--split", "all", "-o", table, "--views", learned)
        serving.run("learn", model, "--features", table, "--classes", "red,green", "--dim", 256, "--score-views", scored)
        shutil.copy(model, copy)
        serving.run("teach", copy, folder / "blue0.jpg", folder / "blue1.jpg", "--tags", "blue", "--backbone", serving.BACKBONE)
        with Server(model, "--library", folder, "--backbone", serving.BACKBONE) as server:
            key = server.good("POST", "/v1/tag", {"pictures": [{"path": "blue0.jpg"}]})["pictures"][0]["key"]
            lesson = [{"key": key, "tags": ["blue"]}, {"image": encode(folder / "blue1.jpg"), "tags": ["blue"]}]
            status, answer = server.ask("POST", "/v1/teach", {"pictures": lesson[:1]})
            assert status == by_key, (status, answer)
            if by_key == 410:
                assert "views" in answer["error"] and "send the picture itself" in answer["hint"], answer
                answer = server.good("POST", "/v1/teach", {"pictures": lesson})
                assert answer["taught"] == 1 and len(answer["failed"]) == 1 and "views" in answer["failed"][0]["error"], answer
                server.good("POST", "/v1/undo", {"id": answer["id"]})
                lesson[0] = {"path": "blue0.jpg", "tags": ["blue"]}
            else:
                server.good("POST", "/v1/undo", {"id": answer["id"]})
            assert server.good("POST", "/v1/teach", {"pictures": lesson})["taught"] == 2
            answer = server.good("POST", "/v1/tag", {"pictures": [{"path": f"{colour}5.jpg"} for colour in serving.COLOURS], "all": True})
            ours = [{tag["tag"]: tag["score"] for tag in one["tags"]} for one in answer["pictures"]]
            words = [folder / f"{colour}5.jpg" for colour in serving.COLOURS]
            told = json.loads(serving.run("tag", copy, *words, "--format", "json", "--top", 9, "--backbone", serving.BACKBONE).stdout)
            theirs = [{tag["tag"]: tag["score"] for tag in one["tags"]} for one in told]
            assert ours[0].keys() == {"red", "green", "blue"} and [one.keys() for one in ours] == [one.keys() for one in theirs]
            assert all(abs(one[tag] - other[tag]) < 3e-4 for one, other in zip(ours, theirs) for tag in one), (ours, theirs)
            assert server.stop() == 0


def packed_and_back(model, folder, scratch):
    """A packed model in the place of the model takes no lessons; when the model is back, it does."""
    kept = scratch / "kept.l3a"
    serving.run("pack", model, "-o", scratch / "packed.l3a")

    def reload(server, readonly):
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE
        while server.good("GET", "/v1/status")["readonly"] is not readonly:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    with Server(model, "--library", folder) as server:
        lesson = {"pictures": [{"path": "grey5.jpg", "tags": ["grey"]}], "instead": True}
        for old, new in ((model, kept), (Path(f"{model}.history"), Path(f"{kept}.history")), (scratch / "packed.l3a", model)):
            old.rename(new)
        reload(server, True)
        assert server.ask("POST", "/v1/teach", lesson)[0] == 403 and server.good("POST", "/v1/tag", {"pictures": [{"path": "red0.jpg"}]})
        assert server.ask("GET", "/v1/quality")[0] == 409
        for old, new in ((kept, model), (Path(f"{kept}.history"), Path(f"{model}.history"))):
            old.rename(new)
        reload(server, False)
        assert server.good("POST", "/v1/teach", lesson)["taught"] == 1 and server.good("GET", "/v1/quality")
        assert server.stop() == 0


def uploads(model, folder, scratch):
    packed = scratch / "packed.l3a"
    serving.run("pack", model, "-o", packed, "--with-backbone")
    with Server(model, "--library", folder, "--max-body", "1") as server:
        bytes_of_model, before = server.good("GET", "/v1/model"), names(server)
        status, answer = server.ask("PUT", "/v1/model", packed.read_bytes())
        assert status in (409, 422) and "was not replaced" in answer["error"], (status, answer)
        assert server.ask("PUT", "/v1/model", b"x" * 1000)[0] in (409, 422)
        with socket.create_connection(("127.0.0.1", server.port)) as held:
            held.sendall(b"PUT /v1/model HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx")
            deadline = time.monotonic() + PATIENCE
            while not Path(f"{model}.upload").exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert server.ask("PUT", "/v1/model", b"x" * 10)[0] == 429
            assert int(server.headers["retry-after"]) > 0
        with socket.create_connection(("127.0.0.1", server.port)) as large:
            large.sendall(b"PUT /v1/model HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17000000\r\n\r\n")
            assert large.recv(100).startswith(b"HTTP/1.1 413")
        deadline = time.monotonic() + PATIENCE
        while server.ask("PUT", "/v1/model", bytes_of_model)[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert names(server) == before
        assert not list(model.parent.glob("*.upload*"))
        assert server.stop() == 0
    with Server(model, "--readonly") as server:
        assert server.ask("PUT", "/v1/model", bytes_of_model)[0] == 403
        assert server.stop() == 0
    with Server(packed, "--library", folder) as server:
        for method, path in (("GET", "/v1/quality"), ("POST", "/v1/undo"), ("PUT", "/v1/model")):
            assert server.ask(method, path, b"" if method == "PUT" else None)[0] in (403, 409), path
        for path in ("/v1/history", "/v1/classes", "/v1/model", "/v1/backup"):
            server.good("GET", path)
        assert server.stop() == 0


def formats(model, folder):
    """HEIC and AVIF only reach libheif if that was allowed."""
    pictures = sorted((serving.SOURCE / "fuzz/corpus/picture").glob("good_[ha][ev]i[cf]"))
    assert len(pictures) == 2, pictures
    for picture in pictures:
        shutil.copy(picture, folder / f"{picture.name}.heic")
    for options, allowed in ((("--library", folder), False), (("--library", folder, "--heif"), True)):
        with Server(model, *options) as server:
            for picture in pictures:
                status, answer = server.ask("POST", "/v1/tag", picture.read_bytes(), {"Content-Type": "image/jpeg"})
                refused = status == 415 and "HEIC" in answer["error"]
                assert refused != allowed, (picture, options, status, answer)
                status, answer = server.ask("GET", f"/v1/library/thumbnail?path={picture.name}.heic")
                assert (status == 404 and "HEIC" in answer["error"]) != allowed, (picture, options, status)
            assert server.stop() == 0


def formulas(model, folder):
    """What spreadsheets would compute is a text, and can be read again."""
    shutil.copy(folder / "red0.jpg", folder / "=1+2.jpg")
    with Server(model, "--library", folder) as server:
        server.good("POST", "/v1/teach", {"pictures": [{"path": "=1+2.jpg", "tags": ["=cmd"], "only": True}]})
        server.good("POST", "/v1/tag", {"pictures": [{"path": "=1+2.jpg"}]})
        deadline, rows = time.monotonic() + PATIENCE, []
        while not any("=1+2.jpg" in row[0] for row in rows):  # the server finds the new file by itself
            assert time.monotonic() < deadline, rows
            rows = list(csv.reader(server.good("GET", "/v1/export").decode().splitlines()))
        assert rows[1][0] == "./=1+2.jpg" and not any(cell[:1] in ("=", "+", "-", "@") for row in rows for cell in row[:2]), rows
        assert server.stop() == 0


def taken_port(model, scratch):
    """Said at once: before a model is loaded, and before a demonstration is drawn."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        for words in ([model], ["--demo", scratch / "never"]):
            done = subprocess.run([COMMAND, "serve", *words, "--listen", address], capture_output=True, text=True)
            assert done.returncode == 2 and f"cannot listen at {address}: Address already in use" in done.stderr, done
            assert "--listen ADDRESS:PORT" in done.stderr
    assert not (scratch / "never").exists()


def main(scratch, folder):
    model = scratch / "model.l3a"
    serving.teach_model(model, folder)
    long_names(model, folder)
    undo_again(model, folder)
    replaced_files(model, folder)
    impatient_end(model, folder)
    other_views(scratch, folder)
    packed_and_back(model, folder, scratch)
    uploads(model, folder, scratch)
    formats(model, folder)
    formulas(model, folder)
    taken_port(model, scratch)
    print("names, files, formats and ends that are out of the ordinary")


if __name__ == "__main__":
    serving.play(main)
