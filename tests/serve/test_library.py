"""The library that remembers: the server indexes its folder by itself, finds, teaches and scores from the index, and loses nothing when it
is killed, its index is damaged, its folder vanishes, or another process uses the same index."""
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.parse
import xml.etree.ElementTree
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import jsonschema

import server as serving
from server import BACKBONE, Server, encode, run

PATIENCE = 60  # seconds; with sanitizers, everything takes long
VIT = Path(os.environ.get("L3A_SHARED", "../shared")) / "backbones/vit_tiny_patch16_224.safetensors"


def make_old(folder):
    """What was changed just now is looked at once more a little later."""
    for path in folder.rglob("*.*"):
        os.utime(path, (1.7e9, 1.7e9))


def find(server, where="", **more):
    query = urllib.parse.urlencode({"where": where, "count": 1000, **more})
    return server.good("GET", f"/v1/find?{query}")


def paths(answer):
    return [p.get("path") for p in answer["pictures"]]


def metrics(server):
    text = server.good("GET", "/metrics").decode()
    return {name: float(value) for name, value in re.findall(r"^(l3a_library_\S+) (\S+)$", text, re.M)}


def wait(server, holds, what):
    """Until the state of the library is as wanted."""
    until = time.monotonic() + PATIENCE
    while True:
        state = server.good("GET", "/v1/library/state")
        if state["index"] and state["ready"]:
            parts = [state[name] for name in ("said", "tagged", "untagged", "waiting", "failed")]
            assert sum(parts) == state["pictures"], state
            if holds(state):
                return state
        assert time.monotonic() < until, (what, state, server.said)
        time.sleep(0.05)


def settled(server, pictures, failed=0):
    return wait(server, lambda s: s["pictures"] == pictures and s["to_look"] == 0 and s["waiting"] == 0 and s["failed"] == failed and
                s["scored"] == s["done"] == pictures - failed, pictures)


def indexes_by_itself(server, library):
    """Pictures, folders, files that cannot be read, and no look at any picture that was asked for."""
    state = settled(server, 27, failed=2)
    assert state["other"] == 2 and state["trouble"] is None and state["seconds_left"] is None
    assert metrics(server)["l3a_library_looked_total"] in (24, 25), metrics(server)  # one is a copy
    everything = find(server)
    assert everything["total"] == 27 and len(everything["pictures"]) == 27
    by_path = {p["path"]: p for p in everything["pictures"]}
    assert set(by_path) == {str(path.relative_to(library)) for path in library.rglob("[!.]*.jpg")}
    assert by_path["red0.jpg"]["copies"] == 1 and by_path["trips/2024/copy.jpg"]["copies"] == 1 and by_path["red1.jpg"]["copies"] == 0
    assert by_path["broken.jpg"]["state"] == "failed" and "tags" not in by_path["broken.jpg"]
    folders = server.good("GET", "/v1/library/folders")["folders"]
    assert folders == [{"path": "trips", "pictures": 2, "folders": 1}], folders
    assert server.good("GET", "/v1/library/folders?folder=trips")["folders"] == [{"path": "trips/2024", "pictures": 2, "folders": 0}]
    problems = server.good("GET", "/v1/library/problems")
    assert [(p["path"], p["state"]) for p in problems["problems"]] == \
        [("broken.jpg", "failed"), ("film.mp4", "other"), ("raw.cr2", "other"), ("text.jpg", "failed")], problems
    assert all(p["error"] for p in problems["problems"])
    assert paths(find(server, 'folder:"trips/2024"', sort="name")) == ["trips/2024/copy.jpg", "trips/2024/new year.jpg"]
    part = find(server, sort="name", first=3, count=4)
    assert paths(part) == sorted(by_path)[3:7] and part["total"] == 27 and part["first"] == 3
    assert paths(find(server, first=27)) == paths(find(server, first=10**15)) == paths(find(server, count=0)) == []
    pairs = server.good("GET", "/v1/duplicates")
    assert any({p["path"] for p in group} >= {"red0.jpg", "trips/2024/copy.jpg"} for group in pairs["groups"]) and pairs["total"] == len(pairs["groups"])
    assert "Labrador retriever" in server.good("GET", "/v1/words?text=labrador")["words"]
    assert len(server.good("GET", "/v1/words")["words"]) == 1000 and server.good("GET", "/v1/words?text=xyzzy")["words"] == []
    status, refused = server.ask("GET", "/v1/find?word=dog")
    assert status == 422 and "classifier" in refused["error"] + refused["hint"], refused  # the demo's network has none
    assert not state["words"] and state["words_problem"]
    return by_path


def teaching(server, library, ids):
    """A lesson by ids and by paths reads no file, and all pictures are scored again after it."""
    before = metrics(server)["l3a_library_features_total"]
    lesson = server.good("POST", "/v1/teach", {"pictures": [
        *({"id": ids[f"red{i}.jpg"]["id"], "tags": ["red"], "not": ["green"]} for i in range(4)),
        *({"path": f"green{i}.jpg", "tags": ["green"], "not": ["red"]} for i in range(4)), {"id": 10**9, "name": "nothing", "tags": ["red"]}]})
    assert lesson["taught"] == 8 and lesson["failed"] == [{"name": "nothing", "error": "the library has no such picture any more"}], lesson
    assert metrics(server)["l3a_library_features_total"] == before + 8
    state = wait(server, lambda s: s["scored"] == s["done"] and s["said"] == 9 and s["edition"] == lesson["edition"], "scored")
    assert state["tags"]["red"]["said"] == 5  # with the copy
    red = find(server, "red")
    assert {"red4.jpg", "red5.jpg"} <= set(paths(red)) and set(paths(red)[:5]) == {"red0.jpg", "red1.jpg", "red2.jpg", "red3.jpg", "trips/2024/copy.jpg"}
    assert len([p for p in red["pictures"] if p["rank"] is None]) == 5  # it was said
    assert state["tags"]["red"]["suggested"] == red["total"] - 5
    for p in red["pictures"]:
        tag = next(t for t in p["tags"] if t["tag"] == "red")
        assert (p["taught"] is None) == (p["rank"] is not None)
        assert p["rank"] is None or abs(p["rank"] - tag["score"]) < 2e-3, p  # stored in half precision
    assert find(server, "not red and not green and is:done")["total"] + find(server, "red or green")["total"] == 25
    unsure = {p["path"] for p in find(server, "unsure:red")["pictures"]}
    for p in find(server, "is:done", all=1)["pictures"]:
        tag = next(t for t in p["tags"] if t["tag"] == "red")
        close = abs(tag["score"] - tag["threshold"])
        assert p["taught"] or abs(close - 0.3 / 7) < 2e-3 or (close < 0.3 / 7) == (p["path"] in unsure), p
    like = find(server, like=f"{ids['blue0.jpg']['id']},{ids['blue1.jpg']['id']}")
    assert paths(like)[0].startswith("blue") and like["pictures"][0]["rank"] > 0.9
    # What the server says of a picture is the same by its id, its path, its key, and its bytes.
    name = "blue3.jpg"
    sent = server.good("POST", "/v1/tag", {"pictures": [{"id": ids[name]["id"]}, {"path": name}, {"key": ids[name]["key"]},
                                                        {"image": encode(library / name)}], "all": True})["pictures"]
    assert sent[0]["name"] == name and sent[0]["id"] == sent[1]["id"] == ids[name]["id"] and sent[0]["tags"] == sent[1]["tags"] == sent[2]["tags"]
    for a, b in zip(sent[0]["tags"], sent[3]["tags"]):
        assert a["tag"] == b["tag"] and abs(a["score"] - b["score"]) < 2e-3
    assert server.good("GET", f"/v1/library/picture?id={ids[name]['id']}") == (library / name).read_bytes()
    assert server.good("GET", f"/v1/library/thumbnail?id={ids[name]['id']}&size=32")[:2] == b"\xff\xd8"
    rows = server.good("GET", "/v1/export?format=json")
    assert [row["path"] for row in rows] == sorted(path for path, p in ids.items() if p["state"] == "done")
    assert {row["path"] for row in rows if "red" in [t["tag"] for t in row["tags"]]} >= {"red0.jpg", "red5.jpg"}
    listed = server.good("GET", "/v1/export?format=csv").decode().splitlines()
    assert len(listed) == 26 and listed[0] == "path,labels,scores"
    return lesson


def described(server, lesson):
    """Answers are as openapi.json says, and docs/serving.md explains the metrics."""
    paths = server.good("GET", "/openapi.json")
    for path, more in (("/v1/status", ""), ("/v1/library/state", ""), ("/v1/find", "?where=red&all=1"), ("/v1/find", "?where=is:failed"), ("/v1/duplicates", ""),
                       ("/v1/library/folders", ""), ("/v1/library/problems", ""), ("/v1/lesson", f"?id={lesson['id']}"), ("/v1/history", "")):
        schema = paths["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator({**schema, "components": paths["components"]}).validate(server.good("GET", path + more))
    documented = (serving.SOURCE / "docs/serving.md").read_text()
    for name in re.findall(r"^# TYPE (l3a_library\w+)", server.good("GET", "/metrics").decode(), re.M):
        assert f"`{name}`" in documented, name


def history(server, lesson, ids):
    """The pictures of a lesson, and any lesson can be undone."""
    told = server.good("GET", f"/v1/lesson?id={lesson['id']}")
    assert {(p["name"], tuple(p["tags"]), p["only"], p["held"]) for p in told["pictures"]} == \
        {(f"{c}{i}.jpg", (c,), False, True) for c in ("red", "green") for i in range(4)}, told
    assert all(p["id"] == ids[p["path"]]["id"] and p["key"] == ids[p["path"]]["key"] for p in told["pictures"])
    second = server.good("POST", "/v1/teach", {"pictures": [{"id": ids[f"blue{i}.jpg"]["id"], "tags": ["blue"]} for i in range(3)]})
    third = server.good("POST", "/v1/teach", {"pictures": [{"path": "grey0.jpg", "tags": [], "not": ["blue"], "only": True}]})
    entries = {entry["id"]: entry for entry in server.good("GET", "/v1/history")["lessons"]}
    assert all(entry["can_undo"] for entry in entries.values()) and entries[second["id"]]["held"] == 3
    undone = server.good("POST", "/v1/undo", {"id": second["id"]})
    assert undone["undone"]["id"] == second["id"] and undone["undone"]["pictures"] == 3
    assert [c["name"] for c in undone["classes"]] == ["red", "green"], undone  # nothing shows blue any more
    wait(server, lambda s: s["edition"] == undone["edition"] and s["scored"] == s["done"] and s["said"] == 9 and "blue" not in s["tags"], "undone")
    entries = {entry["id"]: entry for entry in server.good("GET", "/v1/history")["lessons"]}
    assert entries[second["id"]]["held"] == 0 and not entries[second["id"]]["can_undo"] and not entries[third["id"]]["can_undo"]
    assert server.ask("POST", "/v1/undo", {"id": second["id"]})[0] == 409 and server.ask("GET", "/v1/lesson?id=none")[0] == 404
    assert server.ask("POST", "/v1/undo", {"id": "0" * 16})[0] == 409 and server.ask("GET", "/v1/lesson")[0] == 400
    assert server.good("GET", f"/v1/lesson?id={second['id']}")["pictures"][0]["held"] is False
    back = server.good("POST", "/v1/undo")  # which was the undoing
    assert [c["name"] for c in back["classes"]] == ["red", "green", "blue"]
    renamed = server.good("POST", "/v1/rename", {"from": "blue", "to": "azure"})
    state = wait(server, lambda s: s["edition"] == renamed["edition"] and s["scored"] == s["done"] and s["tags"].get("azure", {}).get("said") == 3, "renamed")
    assert "blue" not in state["tags"] and find(server, "azure")["total"] == state["tags"]["azure"]["suggested"] + 3
    server.good("POST", "/v1/undo")
    server.good("POST", "/v1/undo")
    wait(server, lambda s: s["tags"].get("blue", {}).get("said") == 3 and s["said"] == 12, "as before")


def changes_outside(server, library):
    """A new picture, one that is replaced, one that moves, one that goes; and a folder that vanishes and comes back."""
    looked = metrics(server)["l3a_library_looked_total"]
    serving.draw(library / "trips/new.jpg", "red", 3333)
    began = time.monotonic()
    settled(server, 28, failed=2)
    seconds = time.monotonic() - began
    assert find(server, "red and name:new")["total"] == 1
    (library / "trips/new.jpg").rename(library / "trips/moved.jpg")
    wait(server, lambda s: s["pictures"] == 28 and s["to_look"] == 0 and find(server, "name:moved")["total"] == 1, "moved")
    assert metrics(server)["l3a_library_looked_total"] == looked + 1
    before = server.good("POST", "/v1/tag", {"pictures": [{"path": "trips/moved.jpg"}], "all": True})["pictures"][0]
    serving.draw(library / "trips/moved.jpg", "green", 3334)  # at once, without waiting for the index
    after = server.good("POST", "/v1/tag", {"pictures": [{"path": "trips/moved.jpg"}], "all": True})["pictures"][0]
    assert after["key"] != before["key"] and after["tags"] != before["tags"], "a file that has changed was taken from the index"
    wait(server, lambda s: metrics(server)["l3a_library_looked_total"] == looked + 2 and s["scored"] == s["done"], "changed")
    (library / "trips/moved.jpg").unlink()
    settled(server, 27, failed=2)
    library.rename(library.parent / "away")
    state = wait(server, lambda s: s["trouble"], "away")
    assert state["pictures"] == 27, state
    assert find(server, "red", count=1)["pictures"][0]["path"] and server.ask("GET", "/v1/library/picture?path=red0.jpg")[0] in (200, 404)
    (library.parent / "away").rename(library)
    wait(server, lambda s: not s["trouble"] and s["pictures"] == 27, "back")
    assert metrics(server)["l3a_library_looked_total"] == looked + 2
    return seconds


def hostile(server):
    """Whatever is asked: an answer that says what is wrong, and no other harm."""
    deep = "(" * 5000 + "red" + ")" * 5000
    for where in ("red and (", "red)", '"red', "none", "is:what", "since:yesterday", deep, "not " * 5000 + "red", "word:", "folder:",
                  "' OR 1=1 --", "red'; DROP TABLE picture; --", "\ud800".encode("utf-8", "surrogatepass").decode("latin1"), "tag:\u0000x"):
        status, answer = server.ask("GET", "/v1/find?" + urllib.parse.urlencode({"where": where}))
        assert status in (400, 414, 422) and answer["error"], (where[:50], status, answer)
    for query in ("count=1001", "count=-1", "count=1e3", "count=99999999999999999999999", "first=x", "first=-1", "like=1,x", "like=", "like=0;1",
                  "like=" + ",".join(["1"] * 101), "where=%00", "sort=%00"):
        status, answer = server.ask("GET", f"/v1/find?{query}")
        assert status == 400 and answer["error"], (query, status, answer)
    for query in ("like=999999", "like=0", "sort=what", "sort=score", "word=dog&like=1", "where=%ff%fe", "word=%ff"):
        status, answer = server.ask("GET", f"/v1/find?{query}")
        assert status == 422 and answer["error"], (query, status, answer)
    assert find(server, "name:%'--")["total"] == find(server, 'folder:"../.."')["total"] == find(server, "folder:/etc")["total"] == 0
    for folder in ("..", "/etc", "trips/..", "a//b", ".hidden"):
        assert server.ask("GET", "/v1/library/folders?folder=" + urllib.parse.quote(folder))[0] == 404, folder
    assert server.good("GET", "/v1/library/folders?folder=none") == {"folders": []}
    for query in ("id=0", "id=x", "id=999999999999999999999", "id=1%00", "id=", "path=../model.l3a", ""):
        for route in ("picture", "thumbnail"):
            assert server.ask("GET", f"/v1/library/{route}?{query}")[0] == 404, query
    for wrong in (0, -1, 1.5, "1", True, None, 1e300, [1], 2**60):
        status, answer = server.ask("POST", "/v1/tag", {"pictures": [{"id": wrong}]})
        assert status == 400 or "error" in answer["pictures"][0], (wrong, status, answer)
    assert server.ask("POST", "/v1/tag", {"pictures": [{"id": 1, "path": "red0.jpg"}]})[0] == 400
    assert find(server)["total"] == 27


def together(server, model, ids):
    """Searches from many connections, lessons, and the command on the same index, all at once."""
    def search(i):
        own = Peer(server)
        for where in ("red", "red or green", "is:untagged", f"name:{i}", "not red"):
            status, answer = own.ask("GET", "/v1/find?" + urllib.parse.urlencode({"where": where, "count": 5}))
            assert status == 200, answer
        return True

    def command(_):
        done = run("find", model, "--tag", "red", "--format", "json")
        return len(json.loads(done.stdout)) >= 6

    def lesson(i):
        own = Peer(server)
        status, answer = own.ask("POST", "/v1/teach", {"pictures": [{"id": ids[f"grey{1 + i % 4}.jpg"]["id"], "tags": [], "not": ["red", "green"]}], "instead": i >= 4})
        assert status == 200, answer
        return True

    server.good("GET", "/v1/backup", raw=True)  # saves the model, so that the command finds its tags
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        assert all(pool.map(lambda job: job[0](job[1]), [(search, i) for i in range(8)] + [(command, 0), (command, 1)] + [(lesson, i) for i in range(4)]))
    wait(server, lambda s: s["scored"] == s["done"] and s["said"] == 16, "after all")


class Peer(Server):
    """Another connection to a server."""

    def __init__(self, server):
        self.port, self.connection = server.port, None


def second_start(model, library):
    """Nothing is looked at again, nor scored."""
    with Server(model, "--library", library) as server:
        settled(server, 27, failed=2)
        assert find(server, "red")["total"] >= 7 and find(server, "is:said")["total"] == 16
        numbers = metrics(server)
        assert numbers["l3a_library_looked_total"] == numbers["l3a_library_failed_total"] == numbers["l3a_library_scored_total"] == 0, numbers
        assert server.stop() == 0


def killed(scratch, model, library):
    """kill -9 while pictures are looked at and lessons are taught: what was answered is there, and what was looked at, too."""
    serving.pictures(library / "many", 60, 100)
    make_old(library)
    taught, looked = [], 0
    for attempt in range(3):
        with Server(model, "--library", library) as server:
            wait(server, lambda s: s["to_look"] < 267 - 60 * attempt or s["to_look"] == 0, "some")
            name = f"many/blue{100 + attempt}.jpg"
            assert server.good("POST", "/v1/teach", {"pictures": [{"path": name, "tags": ["blue"], "not": []}]})["taught"] == 1
            taught.append(name)
            looked += metrics(server)["l3a_library_looked_total"]
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
    with Server(model, "--library", library) as server:
        settled(server, 267, failed=2)
        looked += metrics(server)["l3a_library_looked_total"]
        assert looked <= 240 + 3 * 64 * os.cpu_count(), looked  # a batch at most was lost with each kill
        assert set(taught) <= set(paths(find(server, "blue and is:said")))
        assert server.stop() == 0
    shutil.rmtree(library / "many")


def damaged(model, library):
    """An index that was damaged, and one that was lost, is made again, from the features if they are there; and no lesson is lost."""
    index = Path(f"{model}.library")
    for harm in (lambda: index.write_bytes(b"not an index at all " * 300), index.unlink,
                 lambda: [path.unlink() for path in model.parent.glob(f"{index.name}.features-*")]):
        lost = harm.__code__.co_names and "glob" in harm.__code__.co_names if hasattr(harm, "__code__") else False
        harm()
        with Server(model, "--library", library) as server:
            settled(server, 27, failed=2)
            wait(server, lambda s: s["said"] >= 16, "said")
            assert (metrics(server)["l3a_library_looked_total"] == 0) != bool(lost), metrics(server)
            assert server.stop() == 0
    assert list(model.parent.glob(f"{index.name}.damaged-*"))


def damaged_meanwhile(model, library):
    """An index that is damaged, or removed, while the server has it open: it is made again, and no lesson is lost."""
    index = Path(f"{model}.library")
    with Server(model, "--library", library) as server:
        settled(server, 27, failed=2)
        for harm in ("damage", "remove"):
            if harm == "damage":
                with open(index, "r+b") as file:
                    file.seek(4096)
                    file.write(os.urandom(index.stat().st_size - 8192))
            else:
                index.unlink()
            found = find(server, "red")["total"] if harm == "remove" else None
            lesson = server.good("POST", "/v1/teach", {"pictures": [{"path": f"blue{4 if harm == 'damage' else 5}.jpg", "tags": ["blue"]}]})
            assert lesson["taught"] == 1
            wait(server, lambda s: index.exists() and not s["trouble"] and s["edition"] == lesson["edition"] and s["pictures"] == 27 and
                 s["scored"] == s["done"] == 25 and index_has(index, 27), harm)
            assert find(server, "blue and is:said")["total"] >= 1 and (found is None or find(server, "red")["total"] > 0)
        assert metrics(server)["l3a_library_looked_total"] == 0
        server.good("POST", "/v1/undo")
        server.good("POST", "/v1/undo")
        wait(server, lambda s: s["scored"] == s["done"] == 25, "undone")
        assert server.stop() == 0


def damaged_at_rest(model, library):
    """Who searches meets the damage, while there is nothing else to do."""
    index = Path(f"{model}.library")
    with Server(model, "--library", library) as server:
        settled(server, 27, failed=2)
        wait(server, lambda s: s["said"] >= 16, "said")
        before = find(server, "red")["total"]
        time.sleep(1)  # the indexer rests
        with open(index, "r+b") as file:
            file.write(os.urandom(8192))
        until = time.monotonic() + PATIENCE
        while True:
            status, answer = server.ask("GET", "/v1/find?where=red")
            if status == 200 and answer["total"] == before and index_has(index, 27):
                break
            assert time.monotonic() < until, (status, answer, before)
            time.sleep(0.1)
        assert metrics(server)["l3a_library_looked_total"] == 0
        assert server.stop() == 0


def index_has(index, pictures):
    with contextlib.closing(sqlite3.connect(f"file:{index}?mode=ro", uri=True)) as database:
        try:
            return database.execute("SELECT count(*) FROM picture WHERE state IN (1, 2)").fetchone()[0] == pictures
        except sqlite3.Error:  # it is being made
            return False


def only_this_folder(scratch, model, library):
    """The index may have other folders, and this folder be a part of one: nothing of them is shown, not even through a link."""
    other = serving.pictures(scratch / "other", 2)
    run("index", model, other)
    with Server(model, "--library", library) as server:
        settled(server, 27, failed=2)
        ids = [p["id"] for p in find(server)["pictures"]]
        assert len(ids) == 27
        ids += [p["id"] for p in server.good("GET", "/v1/library/problems")["problems"]]
        for where in ('folder:"other"', f'folder:"{other}"', "is:said or is:done) or (is:done"):
            status, answer = server.ask("GET", "/v1/find?" + urllib.parse.urlencode({"where": where}))
            assert status == 422 or answer["total"] == 0, (where, answer)
        for strange in set(range(1, max(ids) + 40)) - set(ids):
            told = server.good("POST", "/v1/tag", {"pictures": [{"id": strange}]})["pictures"][0]
            assert "error" in told and "path" not in told, told
            assert server.ask("GET", f"/v1/library/thumbnail?id={strange}")[0] == 404
            assert server.ask("GET", f"/v1/find?like={strange}")[0] == 422
        assert server.stop() == 0
    whole = scratch / "whole.library"
    (library / "trips" / "out.jpg").symlink_to(library / "red1.jpg")  # within the library, but not below trips
    subprocess.run([serving.COMMAND, "index", model, library, "--index", whole], capture_output=True)  # two pictures cannot be read
    with Server(model, "--library", library / "trips", "--index", whole) as server:
        wait(server, lambda s: s["pictures"] in (2, 3) and s["to_look"] == 0, "part")
        assert {p for p in paths(find(server)) if p} == {"2024/copy.jpg", "2024/new year.jpg"}, find(server)
        assert server.good("GET", "/v1/library/folders")["folders"] == [{"path": "2024", "pictures": 2, "folders": 0}]
        assert not any("red1" in json.dumps(p) for p in find(server)["pictures"])
        assert server.stop() == 0
    (library / "trips" / "out.jpg").unlink()


def without(scratch, model, library):
    """Where there can be no index, the server says so, and works as it did before there were any."""
    for wrong in (("--write-xmp",), ("--index", scratch / "x"), ("--library", library, "--no-index", "--write-xmp")):
        done = subprocess.run([serving.COMMAND, "serve", model, "--listen", "127.0.0.1:0", *wrong], capture_output=True, text=True)
        assert done.returncode == 2 and "needs the index" in done.stderr, (wrong, done)
    with Server(model, "--library", library, "--no-index") as server:
        assert server.good("GET", "/v1/library/state") == {"index": False, "why": "it was started without"}
        assert server.ask("GET", "/v1/find")[0] == 404 and server.good("GET", "/v1/status")["index"] is False
        assert server.good("GET", "/v1/library")["total"] == 25 and server.ask("POST", "/v1/tag", {"pictures": [{"id": 1}]})[0] == 400
        assert server.stop() == 0
    with Server(model, "--library", library, "--index", scratch / "none/index") as server:
        status = server.good("GET", "/v1/status")
        assert status["index"] is False and "none/index" in status["index_problem"], status
        assert server.good("POST", "/v1/tag", {"pictures": [{"path": "red0.jpg"}]})["pictures"][0]["tags"]
        assert any("is not remembered" in line for line in server.said), server.said
        assert server.stop() == 0
    other, index = scratch / "zebras.l3a", scratch / "shared.index"  # tags and scores are those of one model
    shutil.copy(model, other)
    with Server(model, "--library", library, "--index", index) as server, Server(other, "--library", library, "--index", index) as second:
        status = second.good("GET", "/v1/status")
        assert status["index"] is False and "those of another model, 'model.l3a'" in status["index_problem"], status
        assert any("name another index with --index" in line for line in second.said), second.said
        assert second.ask("GET", "/v1/find")[0] == 404 and server.good("GET", "/v1/status")["index"] is True
        done = subprocess.run([serving.COMMAND, "find", other, "--index", index], capture_output=True, text=True)
        assert done.returncode == 2 and "those of another model, 'model.l3a'" in done.stderr, done
    packed = scratch / "packed.l3a"
    run("pack", model, "-o", packed)
    with Server(packed, "--library", library, "--readonly", "--backbone", BACKBONE) as server:
        settled(server, 27, failed=2)
        assert find(server, "red")["total"] >= 6 and find(server, "red")["pictures"][0]["taught"] is None
        assert server.stop() == 0
    with Server(scratch / "empty.l3a", "--library", library, "--backbone", BACKBONE) as server:  # no class yet
        settled(server, 27, failed=2)
        assert find(server, "is:done")["total"] == 25 and find(server)["pictures"][0].get("tags", []) == []
        assert len(server.good("GET", "/v1/export?format=json")) == 25
        assert server.stop() == 0


def views(scratch, model, library):
    """The server looks at the views that the index has."""
    index = scratch / "views.index"
    subprocess.run([serving.COMMAND, "index", model, library, "--index", index, "--views", "5"], capture_output=True)  # two pictures cannot be read
    looked = find_in(index, "SELECT count(*) FROM feature")
    with Server(model, "--library", library, "--index", index) as server:
        wait(server, lambda state: state["to_look"] == 0 and state["scored"] == state["done"], "the state of an index with views")
        assert metrics(server)["l3a_library_looked_total"] == 0
        assert len(find(server, "is:done", like=find(server, "is:done")["pictures"][0]["id"])["pictures"]) >= looked
        assert server.stop() == 0
    assert find_in(index, "SELECT value FROM meta WHERE key = 'recipe'").endswith("views 5")


def find_in(index, question):
    with contextlib.closing(sqlite3.connect(index)) as database:
        return database.execute(question).fetchone()[0]


def sidecars(scratch, model, library):
    """Tags beside the pictures, only where that is wanted."""
    def written():
        return {path.name.removesuffix(".xmp"): {e.text for e in xml.etree.ElementTree.parse(path).iter("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li")}
                for path in library.rglob("*.xmp")}

    assert not written()
    with Server(model, "--library", library, "--write-xmp") as server:
        settled(server, 27, failed=2)
        sure = {Path(p["path"]).name: {t["tag"] for t in p["tags"] if t["predicted"] and t["score"] >= 1.25 * t["threshold"]}
                for p in find(server, "is:tagged and not is:said")["pictures"]}
        wait(server, lambda s: all(written().get(name, set()) == tags for name, tags in sure.items()) and {"red1.jpg", "green2.jpg"} <= set(written()), "sidecars")
        found = written()
        assert found["red1.jpg"] == {"red"} and found["green2.jpg"] == {"green"} and "broken.jpg" not in found, found
        wait(server, lambda s: metrics(server)["l3a_library_sidecars_total"] == len(found), "counted")
        server.good("POST", "/v1/teach", {"pictures": [{"path": "red1.jpg", "tags": ["blue"], "not": ["red"]}], "instead": True})
        wait(server, lambda s: written()["red1.jpg"] == {"blue"}, "changed")
        server.good("POST", "/v1/undo")
        assert server.stop() == 0
    for path in library.rglob("*.xmp"):
        path.unlink()


def words(scratch, library):
    if not VIT.exists():
        print("skipped: words, because", VIT.name, "is missing")
        return
    with Server(scratch / "words.l3a", "--library", library, "--backbone", VIT) as server:
        state = settled(server, 27, failed=2)
        assert state["words"] and "words_problem" not in state
        found = find(server, word="dog")
        ranks = [p["rank"] for p in found["pictures"]]
        assert found["total"] == 25 and ranks == sorted(ranks, reverse=True) and 0 <= ranks[-1] <= ranks[0] <= 1
        assert paths(find(server, "word:dog")) == paths(found)
        status, answer = server.ask("GET", "/v1/find?word=xyzzy")
        assert status == 422 and "xyzzy" in answer["error"] and answer["hint"]
        assert server.stop() == 0


def main(scratch, folder):
    library = scratch / "library"
    shutil.copytree(folder, library)
    (library / "trips/2024").mkdir(parents=True)
    shutil.copy(library / "red0.jpg", library / "trips/2024/copy.jpg")
    shutil.copy(library / "grey5.jpg", library / "trips/2024/new year.jpg")
    (library / "grey5.jpg").unlink()
    (library / "text.jpg").write_text("this is a text")
    (library / "broken.jpg").write_bytes((library / "red5.jpg").read_bytes()[:300])
    (library / "film.mp4").write_bytes(b"\0" * 100)
    (library / "raw.cr2").write_bytes(b"\0" * 100)
    (library / ".hidden.jpg").write_bytes(b"")
    make_old(library)
    model = scratch / "model.l3a"
    with Server(model, "--library", library, "--backbone", BACKBONE) as server:
        ids = indexes_by_itself(server, library)
        lesson = teaching(server, library, ids)
        described(server, lesson)
        history(server, lesson, ids)
        seconds = changes_outside(server, library)
        hostile(server)
        together(server, model, ids)
        assert server.stop() == 0
    second_start(model, library)
    killed(scratch, model, library)
    damaged(model, library)
    damaged_meanwhile(model, library)
    damaged_at_rest(model, library)
    only_this_folder(scratch, model, library)
    without(scratch, model, library)
    views(scratch, model, library)
    sidecars(scratch, model, library)
    words(scratch, library)
    print(f"a library is remembered; a new picture had its tags after {seconds:.1f} s")


if __name__ == "__main__":
    serving.play(main)
