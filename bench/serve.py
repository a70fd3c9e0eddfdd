"""How fast the server is, beside the command: pictures a second at 64 connections, the time of a single picture while somebody teaches,
and with 1,000 idle and 200 slow connections. Needs wrk, and ../shared: ViT-Tiny and the pictures of VOC 2007.

    L3A_BUILD=build /usr/bin/python3 bench/serve.py [PICTURES]
    L3A_BUILD=build /usr/bin/python3 bench/serve.py fairness [thumbnails|listings|huge]

With `fairness`, the time of a single picture alone, and beside clients that want much: 64 that fetch thumbnails, 64 that list a folder of
3,000 pictures, and one that sends requests with 100 PNGs of 64 megapixels. Blocks alone and under load alternate. The clients that make
the load are on the same machine, but run with nice 19: what they cost is not the server's."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("L3A_BUILD", SOURCE / "build"))
SHARED = Path(os.environ.get("L3A_SHARED", SOURCE.parent / "shared"))
BACKBONE, VOC = SHARED / "backbones/vit_tiny_patch16_224.safetensors", SHARED / "data/voc2007-small/VOCdevkit/VOC2007/JPEGImages"
COUNT = int(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].isdigit() else 512
BLOCKS, BLOCK = 5, 210  # single pictures, alone and under load

# Each connection sends the next picture; each is another one, and the server remembers none.
WRK = """
local bodies, at = {}, 0
for line in io.lines(os.getenv("L3A_PICTURES")) do
    local file = io.open(line, "rb")
    bodies[#bodies + 1] = file:read("*a")
    file:close()
end
request = function()
    at = at % #bodies + 1
    return wrk.format("POST", "/v1/tag", {["Content-Type"] = "image/jpeg"}, bodies[at])
end
"""


def start(model, *options):
    server = subprocess.Popen([BUILD / "l3a", "serve", model, "--listen", "127.0.0.1:0", *options], stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if "listening at" in line:
            threading.Thread(target=server.stderr.read, daemon=True).start()
            return server, int(line.rsplit(":", 1)[1].strip().rstrip("/"))
    raise RuntimeError("the server did not start")


def command_seconds(model, paths):
    began = time.perf_counter()
    subprocess.run([BUILD / "l3a", "tag", model, *paths, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def wrk(port, folder, listed, connections, seconds):
    (folder / "post.lua").write_text(WRK)
    done = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency", "-s", folder / "post.lua",
                           f"http://127.0.0.1:{port}/"], check=True, capture_output=True, text=True, env={**os.environ, "L3A_PICTURES": str(listed)})
    assert "Non-2xx" not in done.stdout, done.stdout
    return float(next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("Requests/sec")))


def times(port, pictures, stop=None):
    """Sorted times of single pictures, one after the other."""
    connection, found = http.client.HTTPConnection("127.0.0.1", port, timeout=60), []
    for picture in pictures:
        began = time.perf_counter()
        connection.request("POST", "/v1/tag", picture, {"Content-Type": "image/jpeg"})
        response = connection.getresponse()
        response.read()
        assert response.status == 200, response.status
        found.append(time.perf_counter() - began)
    return sorted(found)


def p(sorted_times, share):
    return 1e3 * sorted_times[min(len(sorted_times) - 1, int(share * len(sorted_times)))]


def teach_for_ever(port, paths, stop, counts):
    connection, number = http.client.HTTPConnection("127.0.0.1", port, timeout=60), 0
    while not stop.is_set():
        path = paths[number % len(paths)]
        body = json.dumps({"pictures": [{"path": path.name, "tags": ["taught"]}], "instead": True}) if number < len(paths) else None
        connection.request("POST", "/v1/teach" if body else "/v1/undo", body, {"Content-Type": "application/json"} if body else {})
        response = connection.getresponse()
        response.read()
        counts.append(response.status)
        number += 1


# Thumbnails, each of another picture; or listings.
ERRANDS = """
local paths, at = {}, 0
for line in io.lines(os.getenv("L3A_PATHS")) do paths[#paths + 1] = line end
request = function()
    at = at % #paths + 1
    return wrk.format("GET", paths[at])
end
"""


def load_errands(port, folder, paths):
    """64 clients that ask for these paths, until the process is ended."""
    (folder / "errands.lua").write_text(ERRANDS)
    (folder / "paths").write_text("".join(f"{path}\n" for path in paths))
    return subprocess.Popen(["nice", "-n", "19", "wrk", "-t1", "-c64", "-d600s", "--timeout", "60s", "-s", folder / "errands.lua", f"http://127.0.0.1:{port}/"],
                            stdout=subprocess.DEVNULL, start_new_session=True, env={**os.environ, "L3A_PATHS": str(folder / "paths")})


def load_huge(port, folder):
    """Requests with 100 huge PNGs, one after the other."""
    (folder / "huge.json").write_text(json.dumps({"pictures": [{"path": f"huge{i % 4}.png"} for i in range(100)]}))
    script = "while curl -s -o /dev/null -H 'Content-Type: application/json' --data-binary @huge.json http://127.0.0.1:%d/v1/tag; do :; done" % port
    return subprocess.Popen(["nice", "-n", "19", "bash", "-c", script], cwd=folder, start_new_session=True)


def counted(port, metric):
    """What the server has counted so far."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return sum(int(line.split()[-1]) for line in lines if line.rsplit(" ", 1)[0] == metric)


def beside(name, load, metric, port, bodies):
    """Prints the times of single pictures alone and beside the load, in blocks that alternate, and what the load got meanwhile."""
    alone, loaded, got, lasted = [], [], 0, 0.0
    for block in range(BLOCKS):
        chosen = [bodies[(block * BLOCK + i) % len(bodies)] for i in range(BLOCK)]
        alone += times(port, chosen)
        client = load()
        time.sleep(1)
        before, began = counted(port, metric), time.perf_counter()
        loaded += times(port, chosen)
        got, lasted = got + counted(port, metric) - before, lasted + time.perf_counter() - began
        os.killpg(client.pid, signal.SIGTERM)
        client.wait()
        time.sleep(2)  # the server notices that nobody waits for the rest
    alone, loaded = sorted(alone), sorted(loaded)
    print(f"{len(alone)} single pictures alone: p50 {p(alone, 0.5):.1f} ms, p99 {p(alone, 0.99):.1f} ms; beside {name}: p50 {p(loaded, 0.5):.1f} ms, p99 {p(loaded, 0.99):.1f} ms, "
          f"longest {1e3 * loaded[-1]:.0f} ms; ratio of p99 {p(loaded, 0.99) / p(alone, 0.99):.1f} (at most 10); in {lasted:.0f} s the others got {got - (BLOCKS * BLOCK if metric == 'l3a_pictures_total' else 0)}", flush=True)


def fairness(chosen):
    from PIL import Image
    paths = sorted(VOC.glob("*.jpg"))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        model, library = folder / "voc.l3a", folder / "library"
        library.mkdir()
        for name, taught in (("a", paths[-16:-8]), ("b", paths[-8:])):
            subprocess.run([BUILD / "l3a", "teach", model, *taught, "--tags", name, "--backbone", BACKBONE, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        for path in paths[:3000]:
            shutil.copy(path, library / path.name)
        for i in range(4) if "huge" in chosen else []:
            Image.merge("RGB", [Image.linear_gradient("L").rotate(90 * (i + c)).resize((8000, 8000)) for c in range(3)]).save(library / f"huge{i}.png", compress_level=1)
        server, port = start(model, "--cache", "0", "--library", library)
        bodies = [path.read_bytes() for path in paths[:500]]
        times(port, bodies[:10])
        thumbnails = [f"/v1/library/thumbnail?path={path.name}" for path in paths[:3000]]
        for name in chosen:
            if name == "huge":
                beside("one request of 100 PNGs of 64 megapixels", lambda: load_huge(port, folder), "l3a_pictures_total", port, bodies)
            else:
                errands = thumbnails if name == "thumbnails" else ["/v1/library?folder=&count=1000"]
                route = "GET /v1/library/thumbnail" if name == "thumbnails" else "GET /v1/library"
                beside(f"64 clients that ask for {name}", lambda: load_errands(port, folder, errands), f'l3a_requests_total{{route="{route}",status="2xx"}}', port, bodies)
        server.send_signal(signal.SIGTERM)
        server.wait()


def main():
    if sys.argv[1:2] == ["fairness"]:
        fairness(sys.argv[2:] or ["thumbnails", "listings", "huge"])
        return
    paths = sorted(VOC.glob("*.jpg"))
    pictures, others = paths[:COUNT], paths[COUNT:COUNT + 400]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        model, listed = folder / "voc.l3a", folder / "pictures"
        listed.write_text("".join(f"{path}\n" for path in pictures))
        for name, chosen in (("a", paths[-16:-8]), ("b", paths[-8:])):
            subprocess.run([BUILD / "l3a", "teach", model, *chosen, "--tags", name, "--backbone", BACKBONE, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        command_seconds(model, pictures[:32])
        command = (COUNT - 16) / (command_seconds(model, pictures) - command_seconds(model, pictures[:16]))
        server, port = start(model, "--cache", "0")
        wrk(port, folder, listed, 64, 3)
        rate = wrk(port, folder, listed, 64, max(10, int(1.5 * COUNT / command)))
        print(f"64 connections: {rate:.1f} pictures/s; l3a tag: {command:.1f} pictures/s; ratio {rate / command:.2f} (at least 0.95)")
        bodies = [path.read_bytes() for path in pictures[:150]]
        times(port, bodies[:10])
        alone = times(port, bodies)
        server.send_signal(signal.SIGTERM)
        server.wait()
        server, port = start(model, "--cache", "0", "--library", VOC)
        stop, counts = threading.Event(), []
        teacher = threading.Thread(target=teach_for_ever, args=(port, others, stop, counts))
        times(port, bodies[:10])
        teacher.start()
        taught = times(port, bodies)
        stop.set()
        teacher.join()
        print(f"a single picture: p50 {p(alone, 0.5):.1f} ms, p99 {p(alone, 0.99):.1f} ms; while {len(counts)} lessons are taught: p50 {p(taught, 0.5):.1f} ms, "
              f"p99 {p(taught, 0.99):.1f} ms; ratio of p99 {p(taught, 0.99) / p(alone, 0.99):.2f} (at most 1.5)")
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(1000)]
        resting = times(port, bodies)
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        for connection in slow:
            connection.sendall(b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        dripping = times(port, bodies)
        print(f"with 1,000 idle connections: p99 {p(resting, 0.99):.1f} ms; with 200 slow ones besides: p99 {p(dripping, 0.99):.1f} ms")
        for connection in idle + slow:
            connection.close()
        server.send_signal(signal.SIGTERM)
        server.wait()


if __name__ == "__main__":
    main()
