"""Requests that are not meant well: other sites, other names, paths out of the library, wrong tokens, too much of everything, and
random bytes. L3A_SERVE_REQUESTS: how many random requests."""
import base64
import concurrent.futures
import http.client
import json
import os
import random
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
from server import COMMAND, Server, encode

REQUESTS = int(os.environ.get("L3A_SERVE_REQUESTS", 1500))


def other_sites(server):
    """What a page of another site can make a browser send."""
    own = f"127.0.0.1:{server.port}"
    teach = {"pictures": [{"path": "red0.jpg", "tags": ["evil"]}]}
    edition = server.good("GET", "/v1/classes")["edition"]
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": f"http://{own}.evil.example"}, {"Origin": "http://localhost"},
                    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": f"http://127.0.0.1:{server.port + 1}"}):
        for method, path, body in (("GET", "/v1/classes", None), ("POST", "/v1/teach", teach), ("POST", "/v1/undo", None), ("GET", "/v1/model", None)):
            status, answer = server.ask(method, path, body, {**headers, "X-L3A": "1"})
            assert status == 403 and "another site" in answer["error"], (headers, path, status)
        assert "access-control-allow-origin" not in server.headers
    for headers in ({"Origin": f"http://{own}"}, {"Sec-Fetch-Site": "same-origin"}):
        assert server.ask("POST", "/v1/undo", None, headers)[0] == 403, "a browser needs the mark"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert server.ask("POST", "/v1/teach", json.dumps(teach), {"Content-Type": kind})[0] == 415
    assert server.ask("OPTIONS", "/v1/teach", None, {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"})[0] in (403, 405)
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert server.ask("GET", "/", None, link)[0] == 200, "a link may lead to the page"
    assert server.ask("GET", "/", None, {**link, "Sec-Fetch-Dest": "iframe"})[0] == 403
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::1", "", "localhost.evil.example", "a b", "127.0.0.1:80x"):
        status, answer = server.ask("GET", "/v1/status", None, {"Host": host})
        assert status in (400, 421), (host, status, answer)
    for host in ("localhost", f"localhost:{server.port}", "[::1]:80", "127.0.0.1", "tags.example"):
        assert server.ask("GET", "/v1/status", None, {"Host": host})[0] == 200, host
    assert server.good("POST", "/v1/score", {"keys": ["x"]}, {"Origin": f"http://{own}", "X-L3A": "1", "Sec-Fetch-Site": "same-origin"})
    assert server.good("GET", "/v1/classes")["edition"] == edition


def paths_out_of_the_library(server, folder):
    (folder.parent / "secret.jpg").write_bytes((folder / "red0.jpg").read_bytes())
    (folder / "out.jpg").symlink_to(folder.parent / "secret.jpg")
    (folder / "up").symlink_to("..")
    (folder / "in.jpg").symlink_to("red0.jpg")
    (folder / ".hidden.jpg").write_bytes((folder / "red0.jpg").read_bytes())
    os.mkfifo(folder / "pipe.jpg")
    bad = ["../secret.jpg", "up/secret.jpg", "out.jpg", "/etc/passwd", "a/../../secret.jpg", "..", ".", "./red0.jpg", "red0.jpg/", "//red0.jpg",
           "red0.jpg/..", "..%2fsecret.jpg", "%2e%2e/secret.jpg", "up//secret.jpg", ".hidden.jpg", "pipe.jpg", "more", "\\..\\secret.jpg", "red0.jpg\0.png",
           "\0", "a" * 5000, "proc/self/root/etc/passwd", "..\\secret.jpg", "ünï/../../secret.jpg"]
    for path in bad:
        for where in ("/v1/library/picture", "/v1/library/thumbnail"):
            for quoted in {urllib.parse.quote(path, safe=""), urllib.parse.quote(path)}:
                status, answer = server.ask("GET", f"{where}?path={quoted}")
                assert status in (400, 404, 414), (path, status, str(answer)[:80])
        if "\0" not in path:
            answer = server.good("POST", "/v1/tag", {"pictures": [{"path": path}]})
            assert "error" in answer["pictures"][0], path
        assert server.ask("GET", f"/v1/library?folder={urllib.parse.quote(path, safe='')}")[0] in (200 if path == "more" else 404, 400, 414), path
    assert server.good("GET", "/v1/library/picture?path=in.jpg") == (folder / "red0.jpg").read_bytes()
    (folder / "more/up.jpg").symlink_to("../red0.jpg")
    (folder / "more/out.jpg").symlink_to("../../secret.jpg")
    (folder / "more/loop.jpg").symlink_to("loop.jpg")
    (folder / "more/self").symlink_to(".")
    listed = server.good("GET", "/v1/library")
    assert {p["path"]: p["bytes"] for p in listed["pictures"]} == {p.name: p.stat().st_size for p in folder.glob("[!.]*.jpg") if p.name not in ("out.jpg", "pipe.jpg")}
    assert listed["folders"] == ["more"]
    listed = server.good("GET", "/v1/library?folder=more")
    assert [(p["path"], p["bytes"]) for p in listed["pictures"]] == [("more/up.jpg", (folder / "red0.jpg").stat().st_size)] and listed["folders"] == ["more/self"]
    assert server.ask("GET", "/v1/library/picture?path=red0.jpg%00.png")[0] == 404


def tokens(scratch, model):
    token = scratch / "token"
    token.write_text("a-token-of-24-characters\n")
    token.chmod(0o600)
    refused = subprocess.run([COMMAND, "serve", model, "--listen", "0.0.0.0:0"], capture_output=True, text=True)
    assert refused.returncode == 2 and "--token-file" in refused.stderr, refused
    with Server(model, "--token-file", token) as server:
        right = {"Authorization": "Bearer a-token-of-24-characters"}
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "a-token-of-24-characters"}, {"Authorization": "Basic eDp5"}, {"Authorization": "Basic"},
                        {"Authorization": "Basic " + base64.b64encode(b"a-token-of-24-characters").decode()}, {"Authorization": "Basic =:="},
                        {"Authorization": "Bearer a-token-of-24-character"}, {"Authorization": "Bearer "}):
            for path in ("/v1/status", "/v1/model", "/metrics", "/none"):
                assert server.ask("GET", path, None, headers)[0] == 401, (headers, path)
            assert server.headers["www-authenticate"] == "Bearer"
            assert server.ask("POST", "/v1/undo", None, headers)[0] == 401
        for path in ("/", "/page/page.js", "/v2/health/live", "/v2/health/ready"):
            assert server.ask("GET", path)[0] == 200, path
        for pair in ("label:a-token-of-24-characters", ":a-token-of-24-characters"):  # for programs that know only this
            assert server.ask("GET", "/v1/status", None, {"Authorization": "basic " + base64.b64encode(pair.encode()).decode()})[0] == 200
        assert server.good("GET", "/v1/status", None, right)["token"] is True
        assert server.stop() == 0


def too_much(server, folder):
    for body, kind, expected in ((b"x" * (3 << 20), "image/jpeg", 413), (json.dumps({"pictures": [{}] * 2000}), "application/json", 413),
                                 (b"[" * 100000, "application/json", 400), (b"[" + b"0," * 700000 + b"0]", "application/json", (400, 413)),
                                 (b'{"pictures": 3}', "application/json", 400), (b"", "application/json", 400), (b"\xff\xfe", "application/json", 400),
                                 (b'{"pictures": [{"image": "\xff"}]}', "application/json", 400), (b'{"pictures": [{"image": "", "path": ""}]}', "application/json", 400),
                                 (b'{"pictures": []}', "application/json", 400), (b"x", "text/html", 415)):
        try:
            status, answer = server.ask("POST", "/v1/tag", body, {"Content-Type": kind})
        except (OSError, http.client.HTTPException):
            assert expected == 413
            continue
        assert status in (expected if isinstance(expected, tuple) else (expected,)), (body[:30], status, answer)
    try:
        assert server.ask("GET", "/v1/status", None, {"X-Long": "x" * 100000})[0] in (400, 431, 413)
    except (OSError, http.client.HTTPException):
        pass
    assert server.good("GET", "/v1/status")


def full_queue(server, folder):
    """More pictures at a time than may wait: some are refused, with a time, and the others are tagged."""
    statuses, retry = [], []
    pictures = sorted(folder.glob("*.jpg"))

    def ask(number):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        body = json.dumps({"pictures": [{"image": encode(pictures[(number + i) % 12]) + "A" * (4 * number)} for i in range(8)]})
        connection.request("POST", "/v1/tag", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
        retry.append(response.getheader("Retry-After"))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200, 429}, statuses
    assert all((status == 429) == (after is not None) for status, after in zip(statuses, retry))
    assert server.good("GET", "/v1/status")


def say(server, text, timeout=20):
    """Sends bytes as they are, and returns all that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout) as connection:
        connection.sendall(text)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer


def ambiguous(server):
    """What another program could understand in another way is refused, and nothing after it is taken for a request."""
    after = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = b'{"keys": ["x"]}'
    post = b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n"
    length = b"Content-Length: 15\r\n"
    assert say(server, (post % (b"Connection: close\r\n" + length)) + body).startswith(b"HTTP/1.1 200"), "a clear one is answered"
    assert say(server, (post % (b"X-Empty:\r\nX-Tab: a\tb \r\nX-More:\t c\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n")) + b"f\r\n" + body + b"\r\n0\r\n\r\n").startswith(b"HTTP/1.1 200")
    heads = {"differing lengths": length + b"Content-Length: 16\r\n", "the same length twice": length + length, "a list of lengths": b"Content-Length: 15, 15\r\n",
             "a length with a sign": b"Content-Length: +15\r\n", "a length that is none": b"Content-Length: 0xf\r\n", "an empty length": b"Content-Length:\r\n",
             "length and coding": length + b"Transfer-Encoding: chunked\r\n", "coding and length": b"Transfer-Encoding: chunked\r\n" + length,
             "space before the colon": b"Transfer-Encoding : chunked\r\n", "tab before the colon": b"Transfer-Encoding\t: chunked\r\n", "length with a space": b"Content-Length : 15\r\n",
             "another coding": b"Transfer-Encoding: gzip\r\n", "two codings": b"Transfer-Encoding: gzip, chunked\r\n", "twice chunked": 2 * b"Transfer-Encoding: chunked\r\n",
             "a folded header": b"X-A: b\r\n c\r\n" + length, "a folded header with a tab": b"X-A: b\r\n\tc\r\n" + length, "a folded length": b"Content-Length: 1\r\n 5\r\n",
             "a header folded away": b"X-A: b\r\n Content-Length: 15\r\n", "a last folded header": length + b"X-A: b\r\n c\r\n", "a fold of nothing": b"X-A: b\r\n \r\n" + length,
             "two hosts": length + b"Host: localhost\r\n", "two differing hosts": length + b"Host: evil.example\r\n",
             "two origins": length + b"X-L3A: 1\r\n" + 2 * b"Origin: http://localhost\r\n", "two tokens": length + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
             "two types": length + b"Content-Type: text/plain\r\n", "a bare CR": b"X-A: b\rc\r\n" + length, "a CR too many": b"X-A: b\r\r\n" + length, "a bare CR before a header": b"X-A: b\rX-C: d\r\n" + length,
             "a bare LF": b"X-A: b\n" + length, "a last bare LF": b"Content-Length: 15\n", "a zero byte in a value": b"X-A: b\0c\r\n" + length, "one after a value": b"X-A: b\0\r\n" + length,
             "one in a name": b"X\0-A: b\r\n" + length, "one in place of a line": b"\0\r\n" + length, "one before a line": b"\0X-A: b\r\n" + length, "one in the length": b"Content-Length: 15\0\r\n",
             "what looks like a line after MHD": b"X-A: b\0\0Y\0c\r\n" + length, "a control character": b"X-A: b\x01\r\n" + length, "one in a name as well": b"X\x01A: b\r\n" + length,
             "a space in a name": b"X A: b\r\n" + length, "an empty name": b": b\r\n" + length, "no colon": b"XA\r\n" + length}
    for name, head in heads.items():
        answer = say(server, post % head + body + after)
        assert answer.startswith(b"HTTP/1.1 400") and b" 200 OK" not in answer, (name, answer)  # libmicrohttpd writes the head of its own answers twice
        assert b"connection: close" in answer.lower(), (name, answer)
    for line in (b"GET /v1/status x HTTP/1.1", b"GET /v1/status\0 HTTP/1.1", b"GET /v1/status\0HTTP/1.1 HTTP/1.1", b"GET /v1/sta\rtus HTTP/1.1", b"GET /v1/status\tx HTTP/1.1"):
        answer = say(server, line + b"\r\nHost: localhost\r\n\r\n" + after)
        assert answer.startswith(b"HTTP/1.1 400") and b" 200 OK" not in answer, (line, answer)
    assert say(server, b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\0\r\n\r\n" + after).count(b"HTTP/1.1 ") == 1
    answer = say(server, b"POST /v1/score HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400") or answer.startswith(b"HTTP/1.0 400"), answer


def early_refusals(scratch, model):
    """A request that cannot be taken is answered and closed at once, whatever its client wants to send."""
    token = scratch / "token"
    token.write_text("a-token-of-24-characters\n")
    token.chmod(0o600)
    with Server(model, "--token-file", token, "--readonly", "--connections", "16") as server:
        right = b"Authorization: Bearer a-token-of-24-characters\r\n"
        for line, headers, length, status in ((b"POST /v1/tag", b"", 60 << 20, b"401"), (b"POST /v1/tag", b"Authorization: Bearer wrong\r\n", 10, b"401"),
                                              (b"POST /none", right, 60 << 20, b"404"), (b"POST /v1/status", right, 60 << 20, b"405"), (b"POST /v1/tag", right, 65 << 20, b"413"),
                                              (b"POST /v1/tag", right + b"Origin: http://evil.example\r\n", 60 << 20, b"403"), (b"PUT /v1/model", right, 60 << 20, b"403"),
                                              (b"POST /v1/tag", right + b"Content-Encoding: gzip\r\n", 60 << 20, b"415"), (b"POST /v1/tag", right + b"Content-Type: text/plain\r\n", 9, b"415"),
                                              (b"POST /v1/tag", b"Expect: 100-continue\r\n", 60 << 20, b"401")):
            answer = say(server, line + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"Content-Length: %d\r\n\r\nx" % length)
            assert answer.startswith(b"HTTP/1.1 " + status) and b"connection: close" in answer.lower() and b'"hint"' in answer, (line, headers, answer)
        answer = say(server, b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
        assert answer.startswith(b"HTTP/1.1 401"), answer
        try:  # a client that sends everything before it looks gets the answer, too, if it is quick
            assert server.ask("POST", "/v1/tag", b"x" * (8 << 20), {"Content-Type": "image/jpeg"})[0] == 401
        except OSError:
            assert False, "the connection was closed too early"
        idle = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(40)]  # more than there are connections
        for connection in idle:
            connection.sendall(b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\nx")
        assert server.ask("GET", "/v1/status", None, {"Authorization": "Bearer a-token-of-24-characters"})[0] == 200
        for connection in idle:
            assert connection.recv(12) == b"HTTP/1.1 401"
            connection.close()
        assert server.stop() == 0
    with Server(model, "--max-body", "1") as server:  # of unknown length
        chunk = b"10000\r\n" + bytes(65536) + b"\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nTransfer-Encoding: chunked\r\n\r\n" + 17 * chunk)
            assert connection.recv(12) == b"HTTP/1.1 413"
        assert server.stop() == 0


def begin_body(server, announced, sent=b""):
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % announced + sent)
    return connection


def slow_bodies(model, folder):
    """Bodies that hardly move are ended, the slowest first when room runs short. A slow phone is not."""
    picture = (folder / "red0.jpg").read_bytes()
    with Server(model, "--library", folder, "--max-body", "1") as server:
        photo = picture + bytes(24000)  # what follows the picture does not matter
        phone, answers = begin_body(server, len(photo)), []

        def send_slowly():
            for at in range(0, len(photo), 512):  # 2 KiB a second
                phone.sendall(photo[at:at + 512])
                time.sleep(0.25)
            answers.append(phone.recv(12))

        sender = threading.Thread(target=send_slowly)
        sender.start()
        stalled = [begin_body(server, 1 << 20, bytes((1 << 20) - 1)) for _ in range(9)]  # all the room that there is
        dripping = begin_body(server, 1 << 20)
        head = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        head.sendall(b"POST /v1/tag HTTP/1.1\r\nHost: loc")
        assert server.good("POST", "/v1/tag", picture, {"Content-Type": "image/jpeg"}), "there is always room for a small one"
        for _ in range(60):
            if server.ask("POST", "/v1/tag", picture + bytes(900000), {"Content-Type": "image/jpeg"})[0] == 200:
                break
            time.sleep(0.1)
        else:
            assert False, "no room was made"
        ended = []
        for _ in range(40):
            time.sleep(0.5)
            try:
                dripping.sendall(b"x")
            except OSError:
                break
        else:
            assert False, "a client that sends a byte now and then goes on for ever"
        for connection in (dripping, *stalled):
            try:
                ended.append(connection.recv(12))
            except OSError:
                ended.append(b"reset")
        assert set(ended) <= {b"HTTP/1.1 408", b"HTTP/1.1 429", b"HTTP/1.1 503", b"reset"}, ended
        assert {b"HTTP/1.1 429", b"HTTP/1.1 503"} & set(ended), "there was room for all of them"
        try:
            assert head.recv(12) == b""
        except OSError:
            pass
        sender.join()
        assert answers == [b"HTTP/1.1 200"], answers
        for connection in (phone, dripping, head, *stalled):
            connection.close()
        assert server.stop() == 0


def slow_connections(model, folder):
    """Clients that take all connections with bodies that hardly move make room for others."""
    picture = (folder / "red0.jpg").read_bytes()
    with Server(model, "--connections", "8") as server:
        dripping = [begin_body(server, 60 << 20, b"x") for _ in range(12)]
        assert server.good("POST", "/v1/tag", picture, {"Content-Type": "image/jpeg"})
        for connection in dripping:
            connection.close()
        assert server.stop() == 0


def mutate(chance, text):
    text = bytearray(text)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(text) + 1)
        what = chance.randrange(4)
        if what == 0 and text:
            text[min(at, len(text) - 1)] = chance.randrange(256)
        elif what == 1:
            text[at:at] = bytes(chance.choices(b"\r\n\0 {}[]\",:%/..\\9", k=chance.randrange(1, 9)))
        elif what == 2:
            del text[at:at + chance.randrange(1, 20)]
        else:
            text[at:at] = text[:at][-chance.randrange(1, 40):]
    return bytes(text)


def random_requests(server, folder):
    chance = random.Random(7)
    picture = (folder / "red0.jpg").read_bytes()[:400]
    heads = [b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n" + b'{"pictures": [{"path": "red0.jpg"}], "a":1}',
             b"GET /v1/library/picture?path=%2e%2e%2fred0.jpg HTTP/1.1\r\nHost: localhost\r\n\r\n",
             b"POST /v1/tag?all=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nContent-Length: 400\r\n\r\n" + picture,
             b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{\"keys\": [\"abc\"]\r\n1\r\n}\r\n0\r\n\r\n",
             b"POST /v2/models/x/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60\r\n\r\n" + b'{"inputs": [{"name": "image", "datatype": "BYTES", "data": ["a"]}]}',
             b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n" + b'{"tasks": [{"data": {"image": "data:image/jpeg;base64,AAAA"}}], "label_config": "<Choices name=\'a\' toName="}',
             b"POST /v1/xmp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n{\"tags\": [\"a&<b\"]}x"]
    bodies = [(head.split(b" ")[1].decode(), head.split(b"\r\n\r\n", 1)[1]) for head in heads if head.startswith(b"POST") and b"json" in head and b"chunked" not in head]
    bodies += [("/v1/score", b'{"keys": ["' + b"a" * 32 + b'"], "all": true}'), ("/v1/rename", b'{"from": "nothing", "to": "x"}'),
               ("/v1/teach", b'{"pictures": [{"image": "AAAA", "tags": ["a", "b"], "not": ["c"], "only": true}], "instead": false}'),
               ("/v2/models/colours/infer", b'{"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 512], "data": [[0, 1e5, -3], [null]]}]}')]
    for number in range(REQUESTS // 2):  # whole requests with strange bodies
        path, body = chance.choice(bodies)
        status, answer = server.ask("POST", path, mutate(chance, body), {"Content-Type": "application/json"})
        assert status in (200, 400, 404, 409, 410, 413, 422), (path, status, answer)
    for number in range(REQUESTS // 5):  # binary tensors
        tail = mutate(chance, b"\5\0\0\0abcde\3\0\0\0abc")
        head = b'{"inputs": [{"name": "image", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": %d}}]}' % len(tail)
        head = mutate(chance, head) if number % 2 else head
        status, answer = server.ask("POST", "/v2/models/colours/infer", head + tail, {"Inference-Header-Content-Length": str(len(head))})
        assert status in (400, 413, 422), (status, answer)
    for number in range(REQUESTS // 2):  # whatever comes over the line
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            try:
                connection.sendall(mutate(chance, chance.choice(heads)))
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            except (ConnectionError, TimeoutError):
                pass
        if number % 500 == 0:
            assert server.good("GET", "/v2/health/live")
    assert server.process.poll() is None
    assert server.good("GET", "/v1/status")


def slow_clients(server):
    """Clients that send a byte now and then, and clients that rest."""
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(150)]
    for i, connection in enumerate(idle[:100]):
        connection.sendall((b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nX-A" if i % 2 else
                            b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nContent-Length: 1000\r\n\r\nxx"))
    assert server.good("POST", "/v1/tag", {"pictures": [{"path": "red0.jpg"}]})
    for connection in idle:
        connection.close()


def greedy_client(model, folder):
    """One client takes all connections and lets them rest. Others are served nevertheless, and who is in the middle of something goes on."""
    with Server(model, "--library", folder, "--connections", "8") as server:
        def metric(name):
            return int(server.good("GET", "/metrics").decode().split(f"\n{name} ")[1].split()[0])

        picture = (folder / "red0.jpg").read_bytes()
        busy = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        busy.sendall(b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(picture) + picture[:9])
        while metric("l3a_connections_total") < 2:
            time.sleep(0.01)
        server.connection.close()
        server.connection = None
        resting = []
        for i in range(14):  # more than there are: the others wait until there is room
            resting.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            if i % 2:
                resting[-1].sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert all(one.recv(12) == b"HTTP/1.1 200" for one in resting[1::2])
        assert server.good("POST", "/v1/tag", {"pictures": [{"path": "red0.jpg"}]})
        assert metric("l3a_connections_dropped_total") >= 14 - 8 and metric("l3a_connections_timed_out_total") == 0
        busy.sendall(picture[9:])
        assert busy.recv(12) == b"HTTP/1.1 200"
        for one in (busy, *resting):
            one.close()
        assert server.stop() == 0


def drain(scratch, model, folder):
    """SIGTERM: what was asked is answered, and saved."""
    with Server(model, "--library", folder, "--batch", "1") as server:
        answers = []

        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            body = json.dumps({"pictures": [{"path": f"{colour}{i}.jpg"} for colour in ("red", "blue", "grey") for i in range(6)]})
            connection.request("POST", "/v1/tag", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answers.append((response.status, json.loads(response.read())))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(500):
            queued = server.good("GET", "/metrics").decode()
            if "l3a_queue_pictures 0\n" not in queued or len(answers) == 4:
                break
        server.connection.close()
        server.connection = None
        assert server.stop() == 0, server.said
        for thread in threads:
            thread.join()
        assert [status for status, _ in answers] == [200] * 4 and all(len(a["pictures"]) == 18 for _, a in answers)


def main(scratch, folder):
    model = scratch / "colours.l3a"
    serving.teach_model(model, folder)
    (folder / "more").mkdir()
    serving.teach_model(scratch / "other.l3a", folder)
    waiting = concurrent.futures.ThreadPoolExecutor(1).submit(slow_bodies, scratch / "other.l3a", folder)  # most of it is waiting
    with Server(model, "--library", folder, "--host", "tags.example", "--max-body", "2", "--queue", "20", "--cache", "0") as server:
        other_sites(server)
        paths_out_of_the_library(server, folder)
        ambiguous(server)
        too_much(server, folder)
        full_queue(server, folder)
        slow_clients(server)
        random_requests(server, folder)
        assert server.stop(signal.SIGTERM) == 0, server.said
    greedy_client(model, folder)
    early_refusals(scratch, model)
    slow_connections(model, folder)
    tokens(scratch, model)
    drain(scratch, model, folder)
    waiting.result()
    print(f"{REQUESTS} random requests, and what other sites, paths and tokens must not do")


if __name__ == "__main__":
    serving.play(main)
