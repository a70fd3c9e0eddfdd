"""The server on a device: it says what it says on the processor, of many pictures and of one, and while it learns; and a device that is lost is an
answer, not the end. The device is the processor in disguise (tests/unit/plugin_fake.c)."""
import sys
import threading
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import server as serving
from server import Server

FAKE = {"LD_LIBRARY_PATH": str(serving.BUILD / "tests" / "driver"), "L3A_PLUGIN_PATH": str(serving.BUILD / "tests" / "fake")}


def ask(server, names):
    return server.ask("POST", "/v1/tag", {"pictures": [{"path": name} for name in names], "all": True})


def scores(server, names):
    status, answer = ask(server, names)
    assert status == 200, answer
    return [{tag["tag"]: tag["score"] for tag in picture["tags"]} for picture in answer["pictures"]]


def same(ours, theirs):
    """Features depend on the batch in their last bits."""
    assert [one.keys() for one in ours] == [one.keys() for one in theirs], (ours, theirs)
    assert all(abs(one[tag] - other[tag]) < 6e-5 for one, other in zip(ours, theirs) for tag in one), (ours, theirs)


class Beside:
    """Another connection to a server."""

    def __init__(self, server):
        self.port, self.connection = server.port, None


def learns_while_it_looks(server, names):
    blue = {"pictures": [{"path": f"blue{i}.jpg", "tags": ["blue"]} for i in range(4)]}
    taught = []
    lesson = threading.Thread(target=lambda: taught.append(Server.ask(Beside(server), "POST", "/v1/teach", blue)))
    lesson.start()
    found = [scores(server, names) for _ in range(4)]
    lesson.join()
    assert taught[0][0] == 200, taught
    found.append(scores(server, names))
    assert all(len(one) in (2, 3) for answer in found for one in answer) and all(len(one) == 3 for one in found[-1]), found


def test(scratch, folder):
    names = sorted(path.name for path in folder.glob("*.jpg"))
    model, log = scratch / "model.l3a", scratch / "log"
    serving.teach_model(model, folder, "--dim", "128")
    options = [model, "--library", folder, "--cache", "0"]
    with Server(*options) as server:
        expected = scores(server, names)
        assert server.stop() == 0
    with Server(*options, "--device", "cuda", environment={**FAKE, "FAKE_LOG": str(log), "FAKE_LOST": "60"}) as server:
        answers = [ask(server, names)]
        while answers[-1][0] == 200 and len(answers) < 100:
            answers.append(ask(server, names[:1]))
        same([{tag["tag"]: tag["score"] for tag in picture["tags"]} for picture in answers[0][1]["pictures"]], expected)
        assert answers[-1][0] == 500 and "the device failed" in str(answers[-1][1]), answers[-1]
        assert server.ask("GET", "/metrics")[0] == 200
        server.stop()
    assert log.exists()
    for batch in 1, 64:
        with Server(*options, "--device", "cuda", "--batch", batch, environment={**FAKE, "FAKE_BATCH": "64"}) as server:
            same(scores(server, names), expected)
            same([scores(server, [name])[0] for name in names[:3]], expected[:3])
            if batch == 64:
                learns_while_it_looks(server, names)
            assert server.stop() == 0
    print("the same tags on a device, in batches and alone")


if __name__ == "__main__":
    serving.play(test)
