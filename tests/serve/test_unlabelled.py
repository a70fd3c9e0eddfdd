"""The pictures of a library that were looked at are the unlabelled ones of its model: when there are enough of them, renewed when there are
many more, less those that are taught; and what the server then expects is about this library."""
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import server as serving
from server import Server, run

ENOUGH = 200


def acting(model):
    """How many act, and of how many, as `l3a info` says."""
    told = json.loads(run("info", model, "--format", "json").stdout).get("unlabelled", {})
    return told.get("images", 0), told.get("drawn_from", 0)


def saved(server, model):
    server.good("GET", "/v1/model")
    return acting(model)


def look(server, names):
    """Has the pictures tagged. Returns what each of them got, and how many got each tag."""
    answers = [one for i in range(0, len(names), 100) for one in server.good("POST", "/v1/tag", {"pictures": [{"path": name} for name in names[i:i + 100]]})["pictures"]]
    given = {one["name"]: sorted(tag["tag"] for tag in one["tags"] if tag["predicted"]) for one in answers}
    return given, Counter(tag for tags in given.values() for tag in tags)


def teach(server, names, **more):
    """Each picture is called by its colour, and shows nothing else."""
    return server.good("POST", "/v1/teach", {"pictures": [{"path": name, "tags": [name.rstrip("0123456789.jpg")], "only": True} for name in names], **more})


def as_before(server):
    answer = server.good("GET", "/v1/quality")
    assert answer["background"] == 0.5 and "library" not in answer and not any("tagged" in one for one in answer["classes"]), answer
    return answer


def about_the_library(server, pictures, unlabelled):
    answer = server.good("GET", "/v1/quality")
    assert answer["background"] is None and answer["library"] == {"pictures": pictures, "unlabelled": unlabelled}, answer
    return answer


def enough_of_them(server, model, names):
    """With one picture too few, all is as without a library. With one more, the next lesson uses them."""
    look(server, names[:ENOUGH - 1])
    teach(server, ["red4.jpg", "green4.jpg"])
    as_before(server)
    assert saved(server, model) == (0, 0)
    look(server, names[ENOUGH - 1:ENOUGH])
    as_before(server)
    teach(server, [f"blue{i}.jpg" for i in range(5)])  # 15 of the 200 are taught then
    answer = about_the_library(server, ENOUGH, ENOUGH - 15)
    assert saved(server, model) == (ENOUGH - 15, ENOUGH)
    tagged = {one["name"]: one["tagged"] for one in answer["classes"]}
    given = look(server, names[:ENOUGH])[1]
    assert tagged == {name: given[name] for name in ("red", "green", "blue")} and all(tagged.values()), (tagged, given)
    assert all(0 <= one[what] <= 1 for one in answer["classes"] for what in ("precision", "recall")), answer


def less_what_is_taught(server, model, elsewhere):
    """A picture of the library that is taught no longer acts, and does again when that is undone."""
    before = server.good("GET", "/v1/classes")["classes"]
    teach(server, ["red7.jpg"])
    about_the_library(server, ENOUGH, ENOUGH - 16)
    assert saved(server, model) == (ENOUGH - 16, ENOUGH)
    server.good("POST", "/v1/undo")
    about_the_library(server, ENOUGH, ENOUGH - 15)
    assert saved(server, model) == (ENOUGH - 15, ENOUGH)
    after = server.good("GET", "/v1/classes")["classes"]
    assert [one["pictures"] for one in before] == [one["pictures"] for one in after]
    assert all(abs(one["threshold"] - other["threshold"]) < 1e-4 for one, other in zip(before, after)), (before, after)
    other = server.good("POST", "/v1/teach", {"pictures": [{"image": serving.encode(elsewhere), "tags": ["blue"]}]})
    assert other["taught"] == 1 and saved(server, model) == (ENOUGH - 15, ENOUGH)  # it is not in the library
    server.good("POST", "/v1/undo")


def renewed(server, model, names):
    """When a quarter more was looked at, before the next lesson, even if that is then refused."""
    look(server, names[ENOUGH:ENOUGH * 5 // 4 - 1])
    teach(server, ["green7.jpg"])
    assert saved(server, model) == (ENOUGH - 16, ENOUGH)
    about_the_library(server, ENOUGH * 5 // 4 - 1, ENOUGH - 16)
    look(server, names[ENOUGH * 5 // 4 - 1:ENOUGH * 5 // 4])
    edition = server.good("GET", "/v1/classes")["edition"]
    status, answer = server.ask("POST", "/v1/teach", {"pictures": [{"path": "red0.jpg", "tags": ["blue"], "only": True}]})
    assert status == 409, answer
    assert saved(server, model) == (ENOUGH * 5 // 4 - 16, ENOUGH * 5 // 4)
    told = server.good("GET", "/v1/classes")
    shown = server.good("POST", "/v1/tag?all=1", {"pictures": [{"path": "grey0.jpg"}]})
    assert told["edition"] > edition and shown["edition"] == told["edition"]
    thresholds = {tag["tag"]: tag["threshold"] for tag in shown["pictures"][0]["tags"]}
    assert all(abs(one["threshold"] - thresholds[one["name"]]) < 1e-6 for one in told["classes"]), (told, thresholds)
    about_the_library(server, ENOUGH * 5 // 4, ENOUGH * 5 // 4 - 16)


def after_a_restart(server, model, names):
    """What the model has stays, although nothing was looked at yet."""
    kept = ENOUGH * 5 // 4 - 16, ENOUGH * 5 // 4
    as_before(server)
    assert acting(model) == kept
    teach(server, ["blue9.jpg"])
    assert saved(server, model) == (kept[0] - 1, kept[1])
    look(server, names[:ENOUGH])
    about_the_library(server, ENOUGH, kept[0] - 1)  # as soon as that can be told, without a lesson
    server.good("POST", "/v1/undo")
    teach(server, ["green9.jpg"])
    assert saved(server, model) == (kept[0] - 1, kept[1])  # they were drawn from more than was looked at since
    server.good("POST", "/v1/undo")
    assert saved(server, model) == kept


def readonly(server, model, names):
    look(server, names[:ENOUGH])
    about_the_library(server, ENOUGH, ENOUGH * 5 // 4 - 16)
    assert server.stop() == 0


def not_wanted(server, model, names):
    look(server, names[:ENOUGH])
    teach(server, ["red4.jpg", "green4.jpg"])
    as_before(server)
    assert server.stop() == 0 and acting(model) == (0, 0)


def cannot_be_saved(server, model, names):
    """There is no room for a model with unlabelled pictures: lessons are taken without them, and that is said once."""
    look(server, names[:ENOUGH])
    for name in ("red5.jpg", "green5.jpg", "blue5.jpg"):
        assert teach(server, [name])["taught"] == 1
    as_before(server)
    assert server.stop() == 0 and acting(model) == (0, 0)
    assert sum("do not help" in line for line in server.said) == 1, server.said
    assert len(json.loads(run("history", model, "--format", "json").stdout)["lessons"]) == 5


def replaced(server, model, names):
    """A lesson is not taught to files that came from outside, and they are left alone."""
    look(server, names[:ENOUGH])
    before = model.read_bytes()
    for file in (model, Path(f"{model}.history")):
        Path(f"{file}.new").write_bytes(file.read_bytes())
        Path(f"{file}.new").replace(file)
    status, answer = server.ask("POST", "/v1/teach", {"pictures": [{"path": "red5.jpg", "tags": ["red"]}]})
    assert status == 409 and model.read_bytes() == before, (status, answer)


def remembered(model, library, names):
    """With an index, all pictures of the library are looked at by the server itself, and are there at once when it starts again."""
    for _ in range(2):
        with Server(model, "--library", library) as server:
            while server.good("GET", "/v1/library/state").get("done") != len(names):
                time.sleep(0.05)
            server.good("POST", "/v1/teach", {"pictures": [{"path": "red60.jpg", "tags": ["red"]}]})
            unlabelled, drawn_from = saved(server, model)
            assert drawn_from == len(names) and unlabelled < len(names), (unlabelled, drawn_from)
            about_the_library(server, len(names), unlabelled)
            assert server.stop() == 0


def learn_whole(model, folder, scratch):
    """A model that adds everything to one sum."""
    (scratch / "list.csv").write_text("path,labels\n" + "".join(f"{folder}/{colour}{i}.jpg,{colour}\n" for colour in ("red", "green") for i in range(4)))
    run("extract", "--backbone", serving.BACKBONE, "--data", f"list:{scratch}/list.csv", "-o", scratch / "features.safetensors")
    run("learn", model, "--features", scratch / "features.safetensors", "--classes", "red,green", "--dim", "256")


def main(scratch, folder):
    library = serving.pictures(scratch / "library", 63)
    names = [f"{colour}{i}.jpg" for i in range(63) for colour in serving.COLOURS]
    elsewhere = scratch / "elsewhere.jpg"
    serving.draw(elsewhere, "blue", 4000)
    model, other, full, whole = (scratch / f"{name}.l3a" for name in ("model", "other", "full", "whole"))
    serving.teach_model(model, folder, "--dim", "256")  # of pictures that are in the library as well
    for copy in (other, full):
        for ending in ("", ".history"):
            Path(f"{copy}{ending}").write_bytes(Path(f"{model}{ending}").read_bytes())
    with Server(model, "--library", library, "--no-index") as server:
        enough_of_them(server, model, names)
        less_what_is_taught(server, model, elsewhere)
        renewed(server, model, names)
        assert server.stop() == 0
    with Server(model, "--library", library, "--no-index") as server:
        after_a_restart(server, model, names)
        assert server.stop() == 0
        assert not any("do not help" in line for line in server.said), server.said
    with Server(model, "--library", library, "--no-index", "--readonly") as server:
        readonly(server, model, names)
    with Server(other, "--library", library, "--no-index", "--no-unlabelled") as server:
        not_wanted(server, other, names)
    with Server(other, "--library", library, "--no-index") as server:
        replaced(server, other, names)
    with Server(full, "--library", library, "--no-index", limit_file=full.stat().st_size + (100 << 10)) as server:
        cannot_be_saved(server, full, names)
    remembered(other, library, names)
    # A model that can have none takes lessons as ever; a packed one has nothing to learn.
    learn_whole(whole, folder, scratch)
    with Server(whole, "--library", library, "--no-index", "--backbone", serving.BACKBONE) as server:
        look(server, names[:ENOUGH])
        teach(server, ["blue0.jpg"])
        as_before(server)
        assert server.stop() == 0 and acting(whole) == (0, 0)
        assert not any("do not help" in line for line in server.said), server.said
    run("pack", model, "-o", scratch / "packed.l3a")
    with Server(scratch / "packed.l3a", "--library", library, "--no-index", "--backbone", serving.BACKBONE) as server:
        look(server, names[:ENOUGH])
        assert server.ask("POST", "/v1/teach", {"pictures": [{"path": "red0.jpg", "tags": ["red"]}]})[0] == 403
        assert server.ask("GET", "/v1/quality")[0] >= 400
        assert server.stop() == 0
    print("pictures of the library act as unlabelled ones, and are told from those that were taught")


if __name__ == "__main__":
    serving.play(main)
