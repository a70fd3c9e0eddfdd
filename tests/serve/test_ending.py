"""SIGTERM under load: whatever request the server has read gets its whole answer, lessons as well, and no connection of such a request is
reset. Others are refused. What was read is what the log has; each client has an address of its own, so that the log tells them apart."""
import collections
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import server as serving
from server import Server

CLIENTS, TEACHERS = 40, 3


class Client(threading.Thread):
    """Asks again and again, on one connection as long as it lasts, until there is no server. `answers` are those that came whole."""

    def __init__(self, server, number, ask):
        super().__init__()
        self.address, self.target = f"127.0.1.{number + 1}", ("127.0.0.1", server.port)
        self.make, self.answers, self.torn, self.refused = ask, [], [], False
        self.start()

    def run(self):
        while not self.refused:
            try:
                connection = socket.create_connection(self.target, timeout=120, source_address=(self.address, 0))
            except ConnectionError:
                self.refused = True
                return
            with connection:
                self.use(connection)

    def use(self, connection):
        """Until the connection ends."""
        while True:
            whole = b""
            try:
                connection.sendall(self.make(len(self.answers)))
                while b"\r\n\r\n" not in whole:
                    if not (got := connection.recv(65536)):
                        break
                    whole += got
                if not whole:
                    return
                head, _, body = whole.partition(b"\r\n\r\n")
                fields = {line.split(b":")[0].lower(): line.split(b":", 1)[1].strip() for line in head.split(b"\r\n")[1:]}
                while len(body) < int(fields[b"content-length"]):
                    got = connection.recv(65536)
                    assert got, "the connection ended in the middle of an answer"
                    body += got
            except (ConnectionError, AssertionError, KeyError) as error:
                if whole:
                    self.torn.append((error, whole))
                return
            self.answers.append((int(head.split()[1]), body))
            if fields.get(b"connection", b"").lower() == b"close":
                return


def request(method, path, body=b"", kind=b"application/json"):
    return b"%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (method, path, kind, len(body), body)


def under_load(scratch, model, folder):
    log = scratch / "log"
    pictures = [(folder / f"{colour}{i}.jpg").read_bytes() for colour in ("red", "green", "blue") for i in range(6)]

    def tag(number):
        def make(turn):
            picture = pictures[(number + turn) % len(pictures)]
            return request(b"POST", b"/v1/tag", picture, b"image/jpeg") if turn % 3 else request(b"GET", b"/v1/classes")
        return make

    def teach(number):
        def make(turn):
            picture = {"path": f"{('blue', 'grey', 'green')[number]}{turn % 6}.jpg", "tags": [f"tag {number} {turn}"]}
            return request(b"POST", b"/v1/teach", json.dumps({"pictures": [picture], "instead": True}).encode())
        return make

    with Server(model, "--library", folder, "--log", "json", "--log-file", log) as server:
        before = len(server.good("GET", "/v1/history")["lessons"])
        clients = [Client(server, i, tag(i)) for i in range(CLIENTS)]
        teachers = [Client(server, CLIENTS + i, teach(i)) for i in range(TEACHERS)]
        while not all(len(client.answers) > 2 for client in clients) or not all(teacher.answers for teacher in teachers):
            time.sleep(0.01)
        while "\nl3a_teacher_waiting 0\n" in server.good("GET", "/metrics").decode():  # a lesson is being learned, and another waits
            pass
        code = server.stop()
        assert code == 0, server.said
        for client in (*clients, *teachers):
            client.join()
    read = collections.defaultdict(list)
    for line in map(json.loads, log.read_text().splitlines()):
        if line["event"] == "request" and line["client"].startswith("127.0.1."):
            read[line["client"]].append(line)
    for client in (*clients, *teachers):
        assert client.refused and not client.torn, client.torn
        taken = [line["status"] for line in read[client.address] if line["complete"]]
        lost = [line for line in read[client.address] if not line["complete"]]  # it came when nothing could be said any more
        assert taken == [status for status, _ in client.answers], (taken, [status for status, _ in client.answers])
        assert all(line["status"] in (0, 503) for line in lost) and len(lost) <= 1, lost
        assert set(taken) <= {200, 503} and 200 in taken, set(taken)
    taught = sum(status == 200 and json.loads(body)["taught"] == 1 for teacher in teachers for status, body in teacher.answers)
    with Server(model) as server:
        assert len(server.good("GET", "/v1/history")["lessons"]) == before + taught
        assert server.stop() == 0


def half_a_head(model):
    """A request whose head has begun to come when the signal comes is answered; a connection that rests is ended without an answer."""
    with Server(model) as server:
        at = "127.0.0.1", server.port
        with socket.create_connection(at, timeout=60) as begun, socket.create_connection(at, timeout=60) as resting:
            begun.sendall(b"GET /v2/health/live HTTP/1.1\r\nHo")
            while "\nl3a_connections 3\n" not in server.good("GET", "/metrics").decode():
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            while "ending" not in server.process.stderr.readline():
                pass
            try:  # the system may still make a connection or two, but soon there is nobody
                while True:
                    socket.create_connection(("127.0.0.1", server.port), timeout=60).close()
            except ConnectionError:
                pass
            begun.sendall(b"st: localhost\r\n\r\n")
            answer = b""
            while got := begun.recv(65536):
                answer += got
            assert answer.startswith(b"HTTP/1.1 200") and b"connection: close" in answer.lower(), answer
            assert resting.recv(10) == b""
        assert server.stop() == 0


def not_accepted_yet(model):
    """Requests on connections that the system has made before the signal, and the server has not seen: they are answered, if only with 503,
    and not reset."""
    with Server(model) as server:
        server.process.send_signal(signal.SIGSTOP)
        waiting = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(100)]
        for connection in waiting:
            connection.sendall(b"GET /v1/classes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGCONT)
        for connection in waiting:
            with connection:
                answer = b""
                while got := connection.recv(65536):
                    answer += got
                assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503")) and answer.endswith(b"}\n"), answer
        assert server.stop() == 0


def main(scratch, folder):
    model = scratch / "colours.l3a"
    serving.teach_model(model, folder, "--dim", "64")
    half_a_head(model)
    not_accepted_yet(model)
    under_load(scratch, model, folder)
    print("what was read was answered")


if __name__ == "__main__":
    serving.play(main)
