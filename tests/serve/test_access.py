"""Who may do what: tokens with roles, for every route; tokens that are read again; and a server below a path of its own."""
import base64
import http.client
import http.server
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import server as serving
from server import SOURCE, Server

ROLES = ("read", "teach", "admin")
TOKENS = {role: f"{role}-token-of-many-letters" for role in ROLES}
# What each route needs; "open" is for everybody. A new route has to be added here.
NEEDS = {
    ("GET", "/"): "open", ("GET", "/page/"): "open", ("GET", "/openapi.json"): "open",
    ("POST", "/v1/tag"): "read", ("POST", "/v1/score"): "read", ("GET", "/v1/status"): "read", ("GET", "/v1/classes"): "read",
    ("GET", "/v1/history"): "read", ("GET", "/v1/quality"): "read", ("GET", "/v1/library"): "read", ("GET", "/v1/library/picture"): "read",
    ("GET", "/v1/library/thumbnail"): "read", ("GET", "/v1/library/state"): "read", ("GET", "/v1/library/folders"): "read",
    ("GET", "/v1/library/problems"): "read", ("GET", "/v1/find"): "read", ("GET", "/v1/duplicates"): "read", ("GET", "/v1/words"): "read",
    ("GET", "/v1/lesson"): "read", ("GET", "/v1/export"): "read", ("POST", "/v1/xmp"): "read", ("GET", "/metrics"): "read",
    ("POST", "/v1/teach"): "teach", ("POST", "/v1/undo"): "teach", ("POST", "/v1/rename"): "teach",
    ("GET", "/v1/model"): "admin", ("PUT", "/v1/model"): "admin", ("GET", "/v1/backup"): "admin",
    ("GET", "/v2/health/live"): "open", ("GET", "/v2/health/ready"): "open", ("GET", "/health"): "open",
    ("GET", "/v2"): "read", ("GET", "/v2/models/"): "read", ("POST", "/v2/models/"): "read",
    ("GET", "/versions"): "read", ("POST", "/webhook"): "read", ("POST", "/setup"): "read", ("POST", "/predict"): "read",
}
MORE = {("GET", "/page/"): "page.js", ("GET", "/v2/models/"): "colours", ("POST", "/v2/models/"): "colours/infer"}  # of a path that goes on
BODY = {"/v1/undo": {"id": "none"}}  # otherwise it would be done


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def roles(scratch, model, folder):
    """Every route with every role: 401 without a token, 403 with one that allows too little, and otherwise neither."""
    listed = re.findall(r'\{\.method = "(\w+)",\s*\.path = "([^"]+)",([^}]*)', (SOURCE / "src/serve/status.c").read_text())
    assert {(method, path) for method, path, _ in listed} == set(NEEDS), "the table above does not have the routes of the server"
    assert all(".role = ROLE_" in rest for _, _, rest in listed)
    tokens = scratch / "tokens"
    tokens.write_text("# who may do what\n\n" + "".join(f"{role} {token} {role}er\n" for role, token in TOKENS.items()))
    tokens.chmod(0o600)
    single = scratch / "single"
    single.write_text("one-token-for-everything\n")
    single.chmod(0o600)
    with Server(model, "--library", folder, "--tokens", tokens, "--token-file", single) as server:
        before = server.good("GET", "/v1/classes", None, bearer(TOKENS["read"]))
        for (method, path), needed in NEEDS.items():
            body = None if method == "GET" else b"not a model" if method == "PUT" else BODY.get(path, {})
            for token, role in [(None, None), ("not-a-token-of-this-server", None), *((TOKENS[role], role) for role in ROLES),
                                ("one-token-for-everything", "admin")]:
                status, answer = server.ask(method, path + MORE.get((method, path), ""), body, bearer(token) if token else {})
                allowed = needed == "open" or role and ROLES.index(role) >= ROLES.index(needed)
                assert (status not in (401, 403)) if allowed else status == (403 if role else 401), (method, path, role, status, answer)
                if status == 403:
                    assert "this token may read" in answer["error"] and needed in answer["hint"], answer
                assert (server.headers.get("www-authenticate") == "Bearer") == (status == 401)
        for role in ROLES:
            assert server.good("GET", "/v1/status", None, bearer(TOKENS[role]))["role"] == role
            pair = base64.b64encode(f"anybody:{TOKENS[role]}".encode()).decode()
            assert server.good("GET", "/v1/status", None, {"Authorization": f"Basic {pair}"})["role"] == role
        assert server.good("GET", "/v1/classes", None, bearer(TOKENS["read"]))["classes"] == before["classes"]
        reloading(server, tokens)
        assert server.stop() == 0


def reloading(server, tokens):
    """SIGHUP reads the tokens again. A file that makes no sense changes nothing, and the log says so without repeating it."""
    def reload(text):
        tokens.write_text(text)
        server.process.send_signal(signal.SIGHUP)

    def status(token):
        return server.ask("GET", "/v1/status", None, bearer(token))[0]

    reload("teach a-new-token-of-24-letters\n")
    while status("a-new-token-of-24-letters") != 200:
        time.sleep(0.01)
    assert status(TOKENS["admin"]) == 401 and status("one-token-for-everything") == 200
    reload("admin another-secret-of-letters\nroot a-third-secret-of-letters\n")
    while "the tokens stay as they were" not in (line := server.process.stderr.readline()):
        assert line
    assert "line 2: the line must begin with a role" in line and "secret" not in line, line
    assert status("a-new-token-of-24-letters") == 200 and status("another-secret-of-letters") == 401


def start(model, *options):
    """A server that does not start."""
    return subprocess.run([serving.COMMAND, "serve", model, "--listen", "127.0.0.1:0", *options], capture_output=True, text=True)


def bad_files(scratch, model):
    path = scratch / "bad"
    long = "a-token-of-24-characters"
    for text, error in (("", "there is no token"), ("# nothing\n", "there is no token"),
                        (f"read {long}\nwrite {long}2\n", "line 2: the line must begin with a role"),
                        ("read\n", "line 1: there is no token after the role"), ("read short\n", "line 1: the token is shorter"),
                        (f"read {long} a b\n", "line 1: there is something after"),
                        (f"read {long}\nadmin {long}\n", "line 2: the token is there already"),
                        (f"read {long} {'n' * 40}\n", "line 1: the name is longer"), ("x" * 5000, "line 1: the line is too long")):
        path.write_text(text)
        path.chmod(0o600)
        done = start(model, "--tokens", path)
        assert done.returncode == 2 and error in done.stderr and long not in done.stderr, (text[:60], done)
    path.write_text(f"read {long}\n")
    path.chmod(0o644)
    with Server(model, "--tokens", path) as server:
        assert any("others on this machine can read the token" in line for line in server.said), server.said


class Proxy(http.server.BaseHTTPRequestHandler):
    """What nginx does with `location /tags/ { proxy_pass http://…; }`; everything else is another site's."""
    protocol_version = "HTTP/1.1"
    port = 0

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/tags" and not self.path.startswith("/tags/"):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {key: value for key, value in self.headers.items() if key.lower() not in ("connection", "content-length")}
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        text = response.read()
        self.send_response(response.status)
        for key, value in response.getheaders():
            if key.lower() not in ("connection", "transfer-encoding", "date", "content-length"):
                self.send_header(key, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        connection.close()

    do_GET = do_POST = do_PUT = forward

    def log_message(self, *_):
        pass


def base_path(scratch, model, folder):
    """All paths are below the base path, and so is every link of the page and of the description."""
    for wrong in ("tags", "/tags/", "//tags", "/ta gs", "/../x", "/%41", "/a//b"):
        done = start(model, "--base-path", wrong)
        assert done.returncode == 2 and "--base-path" in done.stderr, (wrong, done)
    with Server(model, "--library", folder, "--base-path", "/tags") as server:
        assert server.said[-1].endswith("/tags/\n"), server.said
        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Proxy,), {"port": server.port}))
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        own, server.port = server.port, proxy.server_address[1]
        status, _ = server.ask("GET", "/tags")
        assert status == 308 and server.headers["location"] == "/tags/", (status, server.headers)
        page = server.good("GET", "/tags/").decode()
        links = re.findall(r'(?:href|src)="([^"#][^"]*)"', page)
        assert links and not any(link.startswith("/") for link in links), links
        for link in {*links, "page/server.js"}:
            text = server.good("GET", f"/tags/{link}").decode()
            assert not re.search(r"fetch\(['\"`]/|(?:href|src)=['\"]/|from ['\"]/", text), link
        assert server.good("GET", "/tags/openapi.json")["servers"] == [{"url": "/tags"}]
        for method, path in NEEDS:
            body = None if method == "GET" else b"not a model" if method == "PUT" else BODY.get(path, {})
            status, answer = server.ask(method, "/tags" + path + MORE.get((method, path), ""), body)
            missing = path in ("/v1/library/picture", "/v1/library/thumbnail")  # the picture, which the request does not name
            assert status not in (401, 403, 405) and (status != 404 or missing), (method, path, status, answer)
        assert server.ask("GET", "/tags/none")[1]["hint"].startswith("see /tags/openapi.json")
        assert server.good("POST", "/tags/v1/tag", {"pictures": [{"path": "red0.jpg"}]})["pictures"][0]["tags"]
        server.connection.close()
        server.connection, server.port = None, own
        for path in ("/", "/v1/status", "/tag", "/tagsx", "/tagsx/v1/status", "/v2/health/live", "/openapi.json"):
            assert server.ask("GET", path)[0] == 404, path
        proxy.shutdown()
        assert server.stop() == 0
    with Server(model) as server:
        assert "servers" not in server.good("GET", "/openapi.json") and server.ask("GET", "/tags/")[0] == 404
        assert server.stop() == 0


def main(scratch, folder):
    model = scratch / "colours.l3a"
    serving.teach_model(model, folder, "--dim", "64")
    roles(scratch, model, folder)
    bad_files(scratch, model)
    base_path(scratch, model, folder)
    print("each role may do what it may on every route, and all routes have a base path")


if __name__ == "__main__":
    serving.play(main)
