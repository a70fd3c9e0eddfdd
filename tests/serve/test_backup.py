"""Files that are downloaded: the tar of /v1/backup, as Python's tarfile reads it, and the name of the model."""
import io
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import urllib.parse
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import server as serving
from server import BUILD, Server

GIB = 1 << 30


def head(name, size, seconds=1700000000):
    return subprocess.run([BUILD / "tests/tar_heads", name, str(size), str(seconds)], capture_output=True, check=True).stdout


def heads(scratch):
    """Sparse files take the place of large ones."""
    names = ["m.l3a", "n" * 99, "n" * 100, "n" * 101, "é" * 120, "a long name " * 20, "n" * 489, "n" * 5000]
    names += ["n" * length for length in range(970 - 20, 1030)]  # where the length of the record gets another digit
    sizes = [0, 1, 511, 512, 8 * GIB - 1, 8 * GIB, 9 * GIB + 5, 1 << 42]
    wanted = [(name, 700) for name in names] + [(f"size {size}", size) for size in sizes if size < 1 << 40]
    path = scratch / "sparse.tar"
    with open(path, "wb") as tar:
        for name, size in wanted:
            tar.write(head(name, size))
            tar.seek(-(-size // 512) * 512, os.SEEK_CUR)
        tar.write(bytes(1024))
    with tarfile.open(path) as tar:
        members = tar.getmembers()
    assert [(m.name, m.size) for m in members] == wanted
    assert all(m.isfile() and m.mode == 0o640 and m.mtime == 1700000000 for m in members)
    listed = subprocess.run(["tar", "-tvf", path], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"}).stdout.splitlines()
    assert [(int(line.split()[2]), line.split(None, 5)[5]) for line in listed] == [(size, name) for name, size in wanted]
    for size, seconds, kept in ((1 << 42, 5, 5), (3, -5, 0), (3, 1 << 40, (1 << 33) - 1)):
        with tarfile.open(fileobj=io.BytesIO(head("odd", size, seconds))) as tar:
            member = tar.firstmember
            assert (member.size, member.mtime) == (size, kept)


def long_name(scratch, folder):
    model = scratch / ("the model of a long name " * 9 + ".l3a")
    serving.teach_model(model, folder)
    with Server(model, "--library", folder) as server:
        server.good("POST", "/v1/teach", {"pictures": [{"path": "blue0.jpg", "tags": ["blue"]}]})
        backup = server.good("GET", "/v1/backup")
        with tarfile.open(fileobj=io.BytesIO(backup)) as tar:
            assert tar.getnames() == [model.name, model.name + ".history"]
            for member in tar.getmembers():
                assert tar.extractfile(member).read() == (scratch / member.name).read_bytes()
        assert server.stop() == 0


def file_names(scratch, folder):
    """Programs save the model under its own name, whatever is in that."""
    for name, quoted in (("plain name.l3a", "plain name.l3a"), ('"; filename="x.exe', "_; filename=_x.exe"), ("back\\slash%41.l3a", "back_slash_41.l3a"),
                         ("zwei\nZeilen ü.l3a", "zwei_Zeilen __.l3a")):
        model = scratch / name
        serving.teach_model(model, folder, "--dim", "64", colours=("red",))
        with Server(model) as server:
            server.good("GET", "/v1/model")
            found = re.fullmatch(r"""attachment; filename="([^"\\]*)"(?:; filename\*=UTF-8''([A-Za-z0-9._~%-]*))?""", server.headers["content-disposition"])
            assert found and found[1] == quoted, server.headers["content-disposition"]
            assert (found[1] if found[2] is None else urllib.parse.unquote(found[2], errors="strict")) == name
            assert server.stop() == 0


def restored(scratch, folder):
    """A backup that is unpacked under a running server with an unsaved lesson replaces the model and its history, whether SIGHUP or a restart
    follows. The server does not save over it, and does not complain that it could not."""
    for number, reload in enumerate((True, False)):
        model, tar = scratch / f"restored{number}.l3a", scratch / f"restored{number}.tar"
        serving.teach_model(model, folder)
        with Server(model, "--library", folder) as server:
            tar.write_bytes(server.good("GET", "/v1/backup"))
            server.good("POST", "/v1/teach", {"pictures": [{"path": "blue0.jpg", "tags": ["blue"]}]})
            subprocess.run(["tar", "-xf", tar, "-C", scratch], check=True)
            if reload:
                server.process.send_signal(signal.SIGHUP)
                while len(server.good("GET", "/v1/classes")["classes"]) != 2:
                    time.sleep(0.02)
                assert server.good("GET", "/v2/health/ready")["ready"]
            assert server.stop() == 0
            assert not any("cannot be saved" in line for line in server.said), server.said
            assert any("loaded" in line if reload else "has been replaced" in line for line in server.said), server.said
        with Server(model) as server:
            assert [tag["name"] for tag in server.good("GET", "/v1/classes")["classes"]] == ["red", "green"]
            assert len(server.good("GET", "/v1/history")["lessons"]) == 2
            assert server.stop() == 0


def main(scratch, folder):
    heads(scratch)
    restored(scratch, folder)
    long_name(scratch, folder)
    file_names(scratch, folder)
    print("downloads have whole names and whole sizes")


if __name__ == "__main__":
    serving.play(main)
