"""The log: one line for each request, whatever becomes of it, which no client can forge and in which nothing is secret; rotation loses
none, and a log that cannot be written holds up nothing."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import server as serving
from server import Server

TOKEN = "a-token-of-24-characters"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
KEYS = ["time", "level", "event", "client", "method", "path", "status", "ms", "in", "out", "complete"]


def say(server, *pieces, read=True):
    """Sends bytes; returns the answer up to the end of the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        for piece in pieces:
            connection.sendall(piece)
        answer = b""
        while read and (got := connection.recv(65536)):
            answer += got
        return answer


def requests_of(path, count=None):
    """The requests in a log of JSON; waits until there are that many."""
    while True:
        lines = path.read_text().split("\n")
        assert count is None or len(lines) < count + 1000
        found = [one for one in map(json.loads, lines[:-1]) if one["event"] == "request"]
        if count is None or len(found) >= count:
            assert count is None or len(found) == count, found[-3:]
            return found
        time.sleep(0.01)


def every_answer(scratch, model, folder):
    log, tokens = scratch / "log.json", scratch / "tokens"
    tokens.write_text(f"admin {TOKEN} the-owner\nread another-token-of-24-letters\n")
    tokens.chmod(0o600)
    picture = (folder / "red0.jpg").read_bytes()
    expected = []

    with Server(model, "--library", folder, "--tokens", tokens, "--max-body", "1", "--log", "json", "--log-file", log) as server:
        def expect(method, path, status, size=None, answer=None, complete=True):
            expected.append((method, path))
            line = requests_of(log, len(expected))[-1]
            assert (line["method"], line["path"], line["status"], line["complete"]) == (method, path, status, complete), line
            assert size is None or line["in"] == size, (size, line)
            assert answer is None or line["out"] == answer, (answer, line)
            assert [key for key in line if key != "token"] == KEYS and line["client"] == "127.0.0.1" and line["ms"] >= 0, line
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]), line
            assert line["level"] == ("error" if status >= 500 else "warning" if status >= 400 else "info"), line
            return line

        kind = {"Content-Type": "image/jpeg", **RIGHT}
        status, answer = server.ask("POST", "/v1/tag?name=holiday.jpg&token=secret", picture, kind, raw=True)
        assert expect("POST", "/v1/tag", 200, len(picture), len(answer))["token"] == "the-owner" and status == 200
        server.ask("HEAD", "/v1/classes", None, RIGHT, raw=True)
        expect("HEAD", "/v1/classes", 200, 0, 0)
        server.connection.close()  # which is no request
        server.connection = None
        server.ask("GET", "/", None)
        assert "token" not in expect("GET", "/", 200, 0)
        server.ask("GET", "/", None, {"If-None-Match": server.headers["etag"]})
        expect("GET", "/", 304, 0, 0)
        wrong, reader = {"Authorization": "Bearer " + "w" * 30}, {"Authorization": "Bearer another-token-of-24-letters"}
        for method, path, headers, wanted in (("GET", "/v1/status", {}, 401), ("GET", "/v1/status?x", wrong, 401),
                                              ("POST", "/v1/teach", reader, 403), ("DELETE", "/v1/tag", RIGHT, 405),
                                              ("GET", "/v2/health/live", {}, 200), ("POST", "/v1/teach", RIGHT, 400),
                                              ("GET", "/v1/status", {"Host": "evil.example"}, 421)):
            assert server.ask(method, path, None, headers)[0] == wanted
            expect(method, path.split("?")[0], wanted)
        time_of_day = "2026-01-01T00:00:00.000Z info request client=10.0.0.1 method=GET path=/v1/backup status=200"
        for path in (f"/a\n{time_of_day}", '/"} \\{"', "/\x1b[31mred", "/ü\u2028x", "/%0a", "/" + "x" * 3000, "/a=b status=200", "/\x7f"):
            assert server.ask("GET", urllib.parse.quote(path, safe="/"), None, RIGHT)[0] == 404
            whole = "".join(chr(b) if 32 < b < 127 and chr(b) not in '"\\%=' else f"%{b:02X}" for b in path.encode()[:256])
            expect("GET", whole + ("..." if len(path.encode()) > 256 else ""), 404)
        head = b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: image/jpeg\r\n" % TOKEN.encode()
        assert say(server, head + b"Content-Length: 9999999\r\n\r\nx").startswith(b"HTTP/1.1 413")
        expect("POST", "/v1/tag", 413, 0)
        chunk = b"10000\r\n" + bytes(65536) + b"\r\n"
        assert say(server, head + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 17).startswith(b"HTTP/1.1 413")
        expect("POST", "/v1/tag", 413)
        assert say(server, b"GET /v1/tag HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 400")
        expect("GET", "/v1/tag", 400)
        say(server, head + b"Content-Length: 100\r\n\r\nfew", read=False)  # its client leaves
        expect("POST", "/v1/tag", 0, 3, complete=False)
        assert say(server, b"GET / HTTP/1.1\r\nX: " + b"x" * 70000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431")  # libmicrohttpd's own answer
        expect("-", "-", 400)
        say(server, b"GET /v1/sta", read=False)
        expect("-", "-", 0, complete=False)
        assert server.stop() == 0
        assert all(json.loads(line)["event"] == "note" for line in server.said), server.said  # on stderr there are no requests
    assert [(one["method"], one["path"]) for one in requests_of(log)] == expected
    text = log.read_text()
    assert not any(word in text for word in (TOKEN, "another-token", "w" * 30, "holiday", "secret", "name=")), text
    notes = [one["text"] for one in map(json.loads, text.splitlines()) if one["event"] == "note"]
    assert "listening at http://" in notes[0] and "ending" in notes[-1], notes


def rotation(scratch, model):
    log = scratch / "rotated"
    asked = [0] * 4
    with Server(model, "--log", "json", "--log-file", log) as server:
        done = threading.Event()

        def ask(number):
            client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            while not done.is_set():
                client.request("GET", f"/none/{number}/{asked[number]}")
                client.getresponse().read()
                asked[number] += 1
            client.close()

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for turn in range(5):
            log.rename(f"{log}.{turn}")
            server.process.send_signal(signal.SIGHUP)
            while not log.exists() or "/none/" not in log.read_text():
                time.sleep(0.01)
        done.set()
        for thread in threads:
            thread.join()
        assert server.stop() == 0
    paths = [one["path"] for part in [*(Path(f"{log}.{turn}") for turn in range(5)), log] for one in requests_of(part)]
    assert sorted(paths) == sorted(f"/none/{number}/{i}" for number in range(4) for i in range(asked[number])), (len(paths), asked)
    folder = scratch / "away"
    folder.mkdir()
    with Server(model, "--log", "text", "--log-file", folder / "log") as server:  # a file that cannot be opened again stays
        folder.rename(scratch / "gone")
        server.process.send_signal(signal.SIGHUP)
        while "cannot be opened again" not in (scratch / "gone/log").read_text():
            time.sleep(0.01)
        server.good("GET", "/v1/status")
        assert server.stop() == 0
    line = [line for line in (scratch / "gone/log").read_text().splitlines() if " request " in line][-1]
    fields = r"client=127\.0\.0\.1 method=GET path=/v1/status status=200 ms=[0-9.]+ in=0 out=[0-9]+ complete=true"
    assert re.fullmatch(rf"\S+Z info request {fields}", line), line


def cannot_be_written(model):
    """A full disk, a pipe without a reader, and one that nobody reads from."""
    with Server(model, "--log", "text", "--log-file", "/dev/full") as server:
        for _ in range(20):
            server.good("GET", "/v1/status")
        while not re.search(r"\nl3a_log_lines_lost_total [1-9]", server.good("GET", "/metrics").decode()):
            time.sleep(0.01)
        assert server.stop() == 0
        assert sum("the log cannot be written: No space left on device" in line for line in server.said) == 1, server.said
    with Server(model, "--log", "text") as server:
        server.process.stderr.close()
        for _ in range(20):
            server.good("GET", "/v1/status")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    with Server(model, "--log", "json") as server:
        for i in range(600):  # more than a pipe holds
            server.ask("GET", "/" + "x" * 200 + str(i))
        assert server.good("GET", "/v1/status")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        lines = server.process.stderr.read().split("\n")
        assert len(lines) > 100 and all(json.loads(line)["event"] for line in lines[:-1])


def levels(scratch, model):
    """Less important lines are left out; "listening at" is one of them, so the port is chosen here."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for level, wanted in (("error", []), ("warning", [404]), ("debug", [200, 404])):
        log = scratch / f"log.{level}"
        options = ["--listen", f"127.0.0.1:{port}", "--log", "json", "--log-level", level, "--log-file", log]
        process = subprocess.Popen([serving.COMMAND, "serve", model, *options], stderr=subprocess.PIPE)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while True:
            try:
                connection.connect()
                break
            except ConnectionRefusedError:
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.02)
        for path in ("/v1/status", "/none"):
            connection.request("GET", path)
            connection.getresponse().read()
        connection.close()
        process.send_signal(signal.SIGTERM)
        said = process.communicate()[1]
        assert process.returncode == 0 and bool(said) == (level == "debug"), said
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert [one["status"] for one in lines if one["event"] == "request"] == wanted, lines
        notes = [one["text"] for one in lines if one["event"] == "note" and one["level"] == "debug"]
        assert any("a connection of 127.0.0.1 begins" in text for text in notes) == (level == "debug")
    for options, error in ((("--log", "xml"), "is not one of text|json"), (("--log-level", "all"), "is not one of error"),
                           (("--log-file", scratch / "none/log"), "the log cannot be opened")):
        done = subprocess.run([serving.COMMAND, "serve", model, "--listen", "127.0.0.1:0", *options], capture_output=True, text=True)
        assert done.returncode == 2 and error in done.stderr, done


def main(scratch, folder):
    model = scratch / "colours.l3a"
    serving.teach_model(model, folder, "--dim", "64")
    every_answer(scratch, model, folder)
    rotation(scratch, model)
    cannot_be_written(model)
    levels(scratch, model)
    print("every request has its line, also while the log is rotated; a log that cannot be written disturbs nobody")


if __name__ == "__main__":
    serving.play(main)
