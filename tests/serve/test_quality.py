"""GET /v1/quality: how good the model is, measured beside the lessons, once for each edition."""
import http.client
import json
import os
import re
import sys
import threading
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import server as serving
from server import Server, run


def metric(server, name):
    return int(re.search(rf"^{name} (\d+)$", server.good("GET", "/metrics").decode(), re.M)[1])


def quality(server):
    """Asks on a connection of its own; returns the status and the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/v1/quality")
    response = connection.getresponse()
    text = json.loads(response.read())
    connection.close()
    return response.status, text


def teach(server, number, tag):
    """Teaches a picture another tag than it has."""
    lesson = {"pictures": [{"path": f"blue{number % 6}.jpg", "tags": [tag], "only": True}], "instead": True}
    return server.good("POST", "/v1/teach", lesson)["edition"]


def same_as_the_command(server, model, folder):
    """`l3a teach` prints what it expects after a lesson; one that brings nothing new prints the same."""
    answer = server.good("GET", "/v1/quality")
    server.good("GET", "/v1/model")
    for name in ("", ".history"):
        Path(f"{model}.copy{name}").write_bytes(Path(f"{model}{name}").read_bytes())
    told = json.loads(run("teach", f"{model}.copy", folder / "red0.jpg", "--tags", "red", "--format", "json").stdout)
    ours = {one["name"]: one for one in answer["classes"]}
    theirs = {one["tag"]: one for one in told["tags"]}
    assert ours.keys() == theirs.keys(), (answer, told)
    for tag in ours:
        for what in ("precision", "recall"):
            left, right = ours[tag][what], theirs[tag][what]
            assert (left is None) == (right is None) and (left is None or abs(100 * left - right) < 0.06), (tag, what, left, right)


def once_for_each_edition(server):
    before = metric(server, "l3a_examined_total")
    assert server.good("GET", "/v1/quality") == server.good("GET", "/v1/quality")
    assert metric(server, "l3a_examined_total") == before
    edition = teach(server, 0, "azure")
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(quality(server))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(answer == (200, answers[0][1]) for answer in answers) and answers[0][1]["edition"] == edition, answers
    assert "azure" in [one["name"] for one in answers[0][1]["classes"]]
    assert metric(server, "l3a_examined_total") == before + 1


def lessons_do_not_wait(server):
    """A lesson that is taught while an edition is measured is answered before that is over. If the lesson came too late, another try."""
    for number in range(50):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(quality(server)))
        thread.start()
        latest = 0
        while thread.is_alive():
            answered = teach(server, number, f"blue {number} {latest}")
            latest = answered if thread.is_alive() else latest
            number += 1
        status, answer = answers[0]
        assert status == 200, answer
        if latest > answer["edition"]:
            return
    raise AssertionError("no lesson was taught while an edition was measured")


def ends_at_once(server):
    """What is being measured when the server ends is not finished."""
    teach(server, 3, "the last")
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(quality(server))) for _ in range(3)]
    for thread in threads:
        thread.start()
    while metric(server, "l3a_connections") < 4:
        time.sleep(0.01)
    assert server.stop() == 0, server.said
    for thread in threads:
        thread.join()
    assert all(status in (200, 503) for status, _ in answers) and len(answers) == 3, answers


def main(scratch, folder):
    model = scratch / "model.l3a"
    serving.teach_model(model, folder, colours=("red", "green", "grey"))
    with Server(model, "--library", folder) as server:
        same_as_the_command(server, model, folder)
        once_for_each_edition(server)
        lessons_do_not_wait(server)
        ends_at_once(server)
    with Server(model) as server:
        assert server.good("GET", "/v2/health/ready")["ready"] and server.good("GET", "/v1/quality")["edition"] == 1
        assert server.stop() == 0
    print("quality is measured once for each edition, and nobody waits for it")


if __name__ == "__main__":
    serving.play(main)
