"""Kills teach and undo at 200 random moments. After each, the model is the old or the new one, and its history agrees with it."""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE, BUILD = Path(os.environ["L3A_SOURCE"]), Path(os.environ["L3A_BUILD"])
KILLS, LESSONS = 200, 5
if os.environ.get("L3A_SANITIZE"):
    KILLS = 40  # each is slower
try:
    import PIL  # noqa: F401
except ImportError:
    print("skipped: no pictures (python3-pil is not installed)")
    sys.exit(77)
os.environ.setdefault("OPENBLAS_CORETYPE", "HASWELL")  # so that the command does not start itself again
random.seed(5)


def l3a(*arguments, check=True):
    done = subprocess.run([BUILD / "l3a", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert not check or done.returncode == 0, f"l3a {' '.join(arguments)}: {done.returncode}\n{done.stderr}"
    return done.stdout


def lesson(number):
    """Two pictures and a tag that is new."""
    return ["teach", "model.l3a", f"taught/{2 * number:02}.png", f"taught/{2 * number + 1:02}.png", "--tags", f"tag {number}", "--quiet"]


def state():
    """The number of lessons, which the model and the history must agree about."""
    history = json.loads(l3a("history", "model.l3a", "--format", "json"))
    classes = json.loads(l3a("info", "model.l3a", "--format", "json"))["metadata"]["classes"].split("\n")
    count = len(history["lessons"])
    assert history["gap"] == "", history
    assert [name for name in classes if name] == [f"tag {i}" for i in range(count)], (classes, history)
    assert all(entry["can_undo"] for entry in history["lessons"])
    return count


def kill(arguments, seconds):
    """Starts a command and kills it; whether it was still running."""
    process = subprocess.Popen([BUILD / "l3a", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def duration(arguments):
    start = time.monotonic()
    l3a(*arguments)
    return time.monotonic() - start


def main():
    model = ["--backbone", str(SOURCE / "models/demo_backbone.safetensors"), "--dim", "64"]
    longest = {"teach": duration(lesson(0) + model), "undo": duration(["undo", "model.l3a"])}
    count, killed, changed = state(), 0, 0
    assert count == 0
    for _ in range(KILLS):
        verb = "teach" if count == 0 or (count < LESSONS and random.random() < 0.6) else "undo"
        arguments = lesson(count) if verb == "teach" else ["undo", "model.l3a"]
        # Most of the time goes by before anything is written, so two thirds of the moments are near the end, wherever that is now.
        part = random.random() if random.random() < 0.3 else random.uniform(0.8, 1.1)
        ended = not kill(arguments, part * longest[verb])
        killed += not ended
        longest[verb] *= 0.97 if ended else 1.01
        now = state()
        assert now in (count, count + 1 if verb == "teach" else count - 1), (verb, count, now)
        changed += now != count
        count = now
    print(f"{killed} of {KILLS} commands were killed; {changed} had changed the model")
    assert killed > KILLS / 4 and changed > KILLS / 10
    # What is left can be undone to the beginning and taught again, and equals a model that nobody disturbed.
    while count:
        l3a("undo", "model.l3a")
        count -= 1
        assert state() == count
    for i in range(LESSONS):
        l3a(*lesson(i))
    tags = l3a("tag", "model.l3a", "mixed", "--top", "9", "--format", "csv")
    os.mkdir("other")
    for i in range(LESSONS):
        other = lesson(i)
        other[1] = "other/model.l3a"
        l3a(*other, *(model if i == 0 else []))
    assert l3a("tag", "other/model.l3a", "mixed", "--top", "9", "--format", "csv") == tags
    left = [path for path in Path(".").iterdir() if path.name.startswith(".")]
    assert not left, left


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    subprocess.run(["/usr/bin/python3", SOURCE / "tests/cli/make_pictures.py", "."], check=True)
    main()
