"""What was answered with 200 is there, whatever happens: kill -9 at random moments under mixed load, a full disk, a history that cannot
be written, that was cut short, damaged at its end by a power cut, or has a flipped bit; commands beside the server. L3A_SERVE_KILLS: how many kills; L3A_SERVE_SEED: another course of events."""
import http.client
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "oracle")]
import feature_file
import numpy

import server as serving
from server import Server, encode, run

KILLS = int(os.environ.get("L3A_SERVE_KILLS", 2 if "L3A_QUICK" in os.environ else 4))
SEED = int(os.environ.get("L3A_SERVE_SEED", 1))


def tensors(path):
    """The tensors of a model file that hold double precision."""
    return {name: tensor for name, tensor in feature_file.load(path)[0].items() if tensor.dtype == numpy.float64}


def lessons_of(model):
    return json.loads(run("history", model, "--format", "json").stdout)["lessons"]


def sums(path):
    """The tensors; of a root R, which may be turned, R'R."""
    return {name: tensor.T @ tensor if name.startswith("root") else tensor for name, tensor in tensors(path).items()}


def same_model(left, right):
    """Equal to 1e-9 of the largest number of each tensor."""
    a, b = sums(left), sums(right)
    assert a.keys() == b.keys() and any(name.startswith(("root", "gram")) for name in a), (a.keys(), b.keys())
    for name in a:
        assert a[name].shape == b[name].shape, name
        apart, largest = numpy.abs(a[name] - b[name]).max(initial=0), numpy.abs(b[name]).max(initial=0)
        assert apart <= 1e-9 * largest, (name, apart, largest)


class Client:
    """Teaches and undoes, and remembers what was answered. A request without an answer may or may not have been learned."""

    def __init__(self, keys, chance):
        self.lessons, self.unsure = [], None
        self.log = []  # all that was done: the picture of a lesson, or None for an undo
        self.keys, self.chance, self.next = keys, chance, 0

    def step(self, server):
        undo = len(self.lessons) > 2 and self.chance.random() < 0.25
        picture = None if undo else self.next % len(self.keys)
        self.next += not undo
        self.unsure = ("undo", None) if undo else ("teach", picture)
        self.ask(server, picture)
        self.done(picture)

    def ask(self, server, picture):
        if picture is None:
            server.good("POST", "/v1/undo")
        else:
            name, body = self.keys[picture]
            answer = server.good("POST", "/v1/teach", {"pictures": [{"image": body, "name": name, "tags": [name.split(".")[0].rstrip("0123456789")], "not": []}]})
            assert answer["taught"] == 1, answer

    def done(self, picture):
        self.log.append(picture)
        self.lessons = self.lessons[:-1] if picture is None else self.lessons + [picture]
        self.unsure = None

    def settle(self, present):
        """After a restart: what was not answered is there or not, but nothing else is."""
        names = [self.keys[picture][0] for picture in self.lessons]
        if self.unsure and present != names:
            self.done(self.unsure[1])
            names = [self.keys[picture][0] for picture in self.lessons]
        assert present == names, f"{present} instead of {names}"
        self.unsure = None


def tag_for_ever(port, body, stop, failures):
    """Another client, which only tags."""
    while not stop.is_set():
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("POST", "/v1/tag", body, {"Content-Type": "image/jpeg"})
            if connection.getresponse().status not in (200, 429):
                failures.append("a picture was not tagged")
            connection.close()
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)


def kills(scratch, folder):
    model, chance = scratch / "killed.l3a", random.Random(SEED)
    serving.teach_model(model, folder, "--precision", "double", "--dim", "512")
    for ending in ("", ".history"):
        shutil.copy(f"{model}{ending}", f"{scratch / 'plain.l3a'}{ending}")
    many = serving.pictures(scratch / "many", count=max(12, 4 * KILLS), first=10)
    client = Client([(path.name, encode(path)) for path in sorted(many.glob("*.jpg"), key=lambda p: p.stat().st_size)], chance)
    failures = []
    for kill in range(KILLS + 1):
        with Server(model) as server:
            client.settle(names_taught(model))
            stop, moment = threading.Event(), chance.randrange(4)
            other = threading.Thread(target=tag_for_ever, args=(server.port, (folder / "grey0.jpg").read_bytes(), stop, failures))
            other.start()
            try:
                for i in range(1000 if kill < KILLS else 2):
                    if kill < KILLS and i == moment:  # after some answers, in the middle of what comes next
                        threading.Timer(chance.uniform(0, 0.2), server.process.kill).start()
                    client.step(server)
            except (OSError, AssertionError, http.client.HTTPException) as error:
                assert kill < KILLS and not isinstance(error, AssertionError), error
            stop.set()
            other.join()
            if kill == KILLS:
                assert server.stop() == 0, server.said
    assert not failures, failures
    with Server(scratch / "plain.l3a") as server:  # the same, without kills
        for picture in client.log:
            client.ask(server, picture)
        assert server.stop() == 0
    assert len(lessons_of(model)) == len(client.lessons) + 2
    same_model(model, scratch / "plain.l3a")
    print(f"{KILLS} kills, {len(client.log)} changes, {len(client.lessons)} lessons left: the model is the same")


def names_taught(model):
    """The pictures of the lessons after the first two, the oldest first. The command takes no lock: if the server saves the model between the
    moments at which it reads the model and the history, the two do not fit, and it says so."""
    for attempt in range(3):
        try:
            listed = json.loads(run("history", model, "--files", "--format", "json").stdout)["lessons"]
            break
        except AssertionError:
            if attempt == 2:
                raise
            time.sleep(1)
    return [row["path"] for lesson in listed if lesson["lesson"] > 2 for row in lesson["files"]]


def full_disk(scratch, folder):
    """A limit on the size of files, just above that of the history. The model cannot be saved then, either."""
    model, history = scratch / "full.l3a", scratch / "full.l3a.history"
    serving.teach_model(model, folder)
    with Server(model, "--library", folder, limit_file=(history.stat().st_size // 1024 + 8) * 1024) as server:
        taught = 0
        for i in range(6):
            status, answer = server.ask("POST", "/v1/teach", {"pictures": [{"path": f"blue{i}.jpg", "tags": ["blue"]}]})
            if status != 200:
                break
            taught += 1
        assert status == 507 and "File too large" in answer["error"] and taught > 0, (status, answer)
        assert server.ask("GET", "/v2/health/ready")[0] == 503 and "File too large" in server.good("GET", "/v1/status")["trouble"]
        assert server.good("POST", "/v1/tag", {"pictures": [{"path": "red0.jpg"}]})["pictures"][0]["tags"]
        assert server.ask("POST", "/v1/undo")[0] in (200, 507)
        left = len(server.good("GET", "/v1/history")["lessons"])
        assert server.stop() == 0 and any("cannot be saved" in line for line in server.said), server.said
    assert len(lessons_of(model)) == left
    print(f"a full disk after {taught} lessons: refused, and nothing is lost")


def metric(server, name):
    return int(server.ask("GET", "/metrics")[1].decode().split(f"\n{name} ")[1].split()[0])


def wait_until(true, seconds=20):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.1)


def unsaved(scratch, folder):
    """A limit on the size of files that the history does not reach and the model exceeds, until somebody lifts it."""
    model = scratch / "unsaved.l3a"
    serving.teach_model(model, folder)
    with Server(model, "--library", folder) as server:
        before = server.good("GET", "/v1/model")
        assert metric(server, "l3a_ready") == 1 and metric(server, "l3a_save_failures_total") == 0
        endless = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (len(before) // 2, endless))
        server.good("POST", "/v1/teach", {"pictures": [{"path": "blue0.jpg", "tags": ["blue"]}]})
        status, answer = server.ask("GET", "/v1/model")
        assert status == 507 and "File too large" in answer["error"] and answer["hint"], (status, answer)
        status, answer = server.ask("GET", "/v2/health/ready")
        assert status == 503 and "the model cannot be saved" in answer["error"] and "File too large" in answer["error"], (status, answer)
        assert server.good("GET", "/v2/health/live")["live"]
        about = server.good("GET", "/v1/status")
        assert (about["unsaved"], about["savable"], about["ready"]) == (1, False, False) and about["trouble"] == answer["error"], about
        server.good("POST", "/v1/teach", {"pictures": [{"path": "blue1.jpg", "tags": ["blue"]}]})  # is kept, as is what comes next
        server.good("POST", "/v1/undo")
        assert metric(server, "l3a_model_unsaved_lessons") == server.good("GET", "/v1/status")["unsaved"] == 3
        assert metric(server, "l3a_save_failures_total") > 0 and metric(server, "l3a_ready") == 0
        assert server.good("POST", "/v1/tag", {"pictures": [{"path": "red0.jpg"}]})["pictures"][0]["tags"]
        assert server.ask("PUT", "/v1/model", before)[0] == 507  # it would lose the lessons
        assert model.read_bytes() == before
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (endless, endless))
        wait_until(lambda: server.ask("GET", "/v2/health/ready")[0] == 200)
        assert metric(server, "l3a_model_unsaved_lessons") == 0 and metric(server, "l3a_ready") == 1
        about = server.good("GET", "/v1/status")
        assert (about["unsaved"], about["savable"]) == (0, True) and "trouble" not in about, about
        (scratch / "sent.l3a").write_bytes(server.good("GET", "/v1/model"))
        assert server.stop() == 0
        said = [line for line in server.said if "be saved" in line]
        assert len(said) == 2 and "cannot be saved" in said[0] and "can be saved again" in said[1], server.said
    listed = json.loads(run("info", scratch / "sent.l3a", "--format", "json").stdout)
    assert "blue" in json.dumps(listed), listed
    print("a model that cannot be saved: not sent, not ready, and saved when there is room")


def unwritable(scratch, folder):
    """A history that cannot be opened for writing, until somebody repairs that."""
    model, history = scratch / "fixed.l3a", scratch / "fixed.l3a.history"
    serving.teach_model(model, folder)
    with Server(model, "--library", folder) as server:
        server.good("POST", "/v1/teach", {"pictures": [{"path": "blue0.jpg", "tags": ["blue"]}]})
        history.rename(scratch / "aside")
        history.symlink_to(scratch / "aside")  # is never followed
        status, answer = server.ask("POST", "/v1/teach", {"pictures": [{"path": "blue1.jpg", "tags": ["blue"]}]})
        assert status == 503 and "fixed.l3a.history" in answer["error"], (status, answer)
        assert server.ask("GET", "/v2/health/ready")[0] == 503
        assert server.good("POST", "/v1/tag", {"pictures": [{"path": "red0.jpg"}]})
        history.unlink()
        (scratch / "aside").rename(history)
        answer = server.good("POST", "/v1/teach", {"pictures": [{"path": "blue2.jpg", "tags": ["blue"]}]})
        assert answer["lesson"] == 4 and server.good("GET", "/v2/health/ready")["ready"]
        assert server.stop() == 0
    assert [lesson["lesson"] for lesson in lessons_of(model)][-1] in (4, 1)


def damaged(scratch, folder):
    model, history = scratch / "damaged.l3a", scratch / "damaged.l3a.history"
    serving.teach_model(model, folder)
    before = history.stat().st_size
    with Server(model, "--library", folder) as server:
        for i in range(3):
            server.good("POST", "/v1/teach", {"pictures": [{"path": f"blue{i}.jpg", "tags": ["blue"]}]})
        server.stop(signal.SIGKILL)
    good = history.read_bytes()
    middle = (before + len(good)) // 2
    for at in (before + 10, before + 300, middle):
        history.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1:])
        with Server(model, "--library", folder) as server:
            status, answer = server.ask("GET", "/v2/health/ready")
            assert status == 503 and "damaged at byte" in answer["error"], (at, status, answer)
            assert "which loses 1 of the 3 lessons" in answer["error"] and "which loses 3." in answer["error"], (at, answer)
            assert len(server.good("GET", "/v1/classes")["classes"]) == 2  # as in the model file
            assert server.good("POST", "/v1/tag", {"pictures": [{"path": "red0.jpg"}]})["pictures"][0]["tags"]
            status, answer = server.ask("POST", "/v1/teach", {"pictures": [{"path": "blue4.jpg", "tags": ["blue"]}]})
            assert status == 503 and "damaged" in answer["error"], (status, answer)
            if at == middle:  # the administrator restores the file
                history.write_bytes(good)
                server.process.send_signal(signal.SIGHUP)
                for _ in range(200):
                    if server.ask("GET", "/v2/health/ready")[0] == 200:
                        break
                    time.sleep(0.05)
                assert len(server.good("GET", "/v1/history")["lessons"]) == 5
            server.stop(signal.SIGKILL)
            assert at == middle or history.read_bytes()[:at] == good[:at], "the damaged history was changed"
    history.write_bytes(good[:middle] + bytes([good[middle] ^ 4]) + good[middle + 1:])
    for ending in ("", ".history"):
        shutil.copy(f"{model}{ending}", f"{scratch / 'repaired.l3a'}{ending}")
    done = run("history", scratch / "repaired.l3a", "--repair")
    assert "2 changes" in done.stdout and "1 lesson is lost" in done.stdout and "lost: lesson 4," in done.stderr, (done.stdout, done.stderr)
    assert (scratch / "repaired.l3a.history.damaged-1").read_bytes() == history.read_bytes()
    assert [lesson["lesson"] for lesson in lessons_of(scratch / "repaired.l3a")] == [1, 2, 3, 4]
    history.write_bytes(good[:-5])  # as a process leaves it that is killed while it writes
    with Server(model, "--library", folder) as server:
        assert len(server.good("GET", "/v1/history")["lessons"]) == 4 and server.good("GET", "/v2/health/ready")["ready"]
        server.good("POST", "/v1/teach", {"pictures": [{"path": "blue2.jpg", "tags": ["blue"]}]})
        server.stop(signal.SIGKILL)
    assert len(lessons_of(model)) == 5


def power_cut(scratch, folder):
    """Six lessons are answered; then the end of the history is as a power cut can leave it. Every lesson before that counts, and the next one
    is taken."""
    model, history, copy = scratch / "cut.l3a", scratch / "cut.l3a.history", scratch / "cut.l3a.history.damaged-1"
    serving.teach_model(model, folder)
    ends = []
    with Server(model, "--library", folder) as server:
        for i in range(6):
            server.good("POST", "/v1/teach", {"pictures": [{"path": f"blue{i}.jpg", "tags": ["blue"]}]})
            ends.append(history.stat().st_size)
        server.stop(signal.SIGKILL)
    good, saved = history.read_bytes(), model.read_bytes()
    for damaged, lessons in ((good[:ends[4]] + bytes(ends[5] - ends[4]), 5), (good + bytes(4096), 6), (good + os.urandom(300), 6)):
        history.write_bytes(damaged)
        model.write_bytes(saved)
        copy.unlink(missing_ok=True)
        with Server(model, "--library", folder) as server:
            assert server.good("GET", "/v2/health/ready")["ready"]
            assert any("damaged from byte" in line for line in server.said), server.said
            assert len(server.good("GET", "/v1/history")["lessons"]) == 2 + lessons
            assert {"name": "blue", "pictures": lessons}.items() <= server.good("GET", "/v1/classes")["classes"][2].items()
            server.good("POST", "/v1/teach", {"pictures": [{"path": "grey0.jpg", "tags": ["grey"]}]})
            assert copy.read_bytes() == damaged[ends[lessons - 1]:]
            server.stop(signal.SIGKILL)
        assert len(lessons_of(model)) == 3 + lessons


def beside(scratch, folder):
    """Commands that change the model are refused while the server runs, even if somebody removes its lock file."""
    model, lock = scratch / "beside.l3a", scratch / ".beside.l3a.l3a-lock"
    serving.teach_model(model, folder)
    commands = (["undo", model], ["rename", model, "red", "crimson"], ["forget", model, "--classes", "red"],
                ["teach", model, folder / "grey0.jpg", "--tags", "grey"], ["history", model, "--repair"])
    with Server(model, "--library", folder) as server:
        for i in range(2):
            server.good("POST", "/v1/teach", {"pictures": [{"path": f"blue{i}.jpg", "tags": ["blue"]}]})
            for words in commands:
                done = subprocess.run([serving.COMMAND, *map(str, words)], capture_output=True, text=True)
                holder = f"{model}: in use by another l3a process (a server, pid {server.process.pid})"
                assert done.returncode == 2 and holder in done.stderr and "stop the server first" in done.stderr, (words, done)
            assert len(lessons_of(model)) == 3 + i  # reading is allowed
            lock.unlink()  # the next lesson locks again
        server.good("POST", "/v1/teach", {"pictures": [{"path": "blue2.jpg", "tags": ["blue"]}]})
        lock.unlink()
        run("undo", model)  # nobody can prevent that now
        status, answer = server.ask("POST", "/v1/teach", {"pictures": [{"path": "blue3.jpg", "tags": ["blue"]}]})
        assert status == 409 and "has been replaced" in answer["error"], (status, answer)
        server.good("POST", "/v1/teach", {"pictures": [{"path": "blue3.jpg", "tags": ["blue"]}]})
        assert len(server.good("GET", "/v1/history")["lessons"]) == 5
        assert server.stop() == 0
    assert len(lessons_of(model)) == 5
    with Server(model, "--library", folder) as server:
        server.good("POST", "/v1/teach", {"pictures": [{"path": "grey1.jpg", "tags": ["grey"]}]})
        server.stop(signal.SIGKILL)
    run("forget", model, "--classes", "red")  # the lesson that only the history had is not lost
    assert len(lessons_of(model)) == 0  # the history of the model before is of no use any more
    with Server(model, "--library", folder) as server:
        assert [tag["name"] for tag in server.good("GET", "/v1/classes")["classes"]] == ["green", "blue", "grey"]
        server.good("POST", "/v1/teach", {"pictures": [{"path": "grey2.jpg", "tags": ["grey"]}]})
        assert server.stop() == 0
    run("rename", model, "green", "lime")
    run("undo", model)


def saved_in_time(scratch, folder):
    """What a killed process had not saved counts for the next one: the model is saved after 32 changes in all, not 30 seconds later."""
    model = scratch / "in-time.l3a"
    serving.teach_model(model, folder)
    many = sorted(serving.pictures(scratch / "in-time", count=12, first=200).glob("*.jpg"))
    for lessons, stop in (many[:20], signal.SIGKILL), (many[20:32], signal.SIGTERM):
        with Server(model) as server:
            for path in lessons:
                server.good("POST", "/v1/teach", {"pictures": [{"image": encode(path), "name": path.name, "tags": ["more"]}]})
            saves, until = 0, time.monotonic() + (10 if stop == signal.SIGTERM else 0)
            while time.monotonic() < until and not saves:
                saves = int(server.ask("GET", "/metrics")[1].decode().split("\nl3a_saves_total ")[1].split()[0])
                time.sleep(0.1)
            assert saves == (stop == signal.SIGTERM), (stop, saves)
            server.stop(stop)


def main(scratch, folder):
    saved_in_time(scratch, folder)
    damaged(scratch, folder)
    power_cut(scratch, folder)
    beside(scratch, folder)
    unwritable(scratch, folder)
    full_disk(scratch, folder)
    unsaved(scratch, folder)
    kills(scratch, folder)


if __name__ == "__main__":
    serving.play(main)
