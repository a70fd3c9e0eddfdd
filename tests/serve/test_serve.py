"""Every path of the server, with the values that `l3a tag`, `l3a teach` and other programs give for the same pictures."""
import hashlib
import io
import json
import math
import os
import re
import signal
import struct
import sys
import tarfile
import time
import xml.etree.ElementTree
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import jsonschema
from PIL import Image

import server as serving
from server import BACKBONE, SOURCE, Server, encode, run


def scores(answer):
    """{name: {tag: score}}"""
    return {p["name"]: {t["tag"]: t["score"] for t in p["tags"]} for p in answer["pictures"]}


def command_scores(model, paths):
    listed = json.loads(run("tag", model, *paths, "--format", "json", "--top", "100").stdout)
    return {Path(row["path"]).name: {tag["tag"]: tag["score"] for tag in row["tags"]} for row in listed}


def same(ours, theirs, most=6e-5):
    """The command prints 4 digits. Features depend on the batch in their last bits, and what is learned from them a little more."""
    assert ours.keys() == theirs.keys(), (ours.keys(), theirs.keys())
    for name in ours:
        assert ours[name].keys() == theirs[name].keys(), name
        for tag in ours[name]:
            assert abs(ours[name][tag] - theirs[name][tag]) < most, (name, tag, ours[name][tag], theirs[name][tag])


def tag_equals_the_command(server, model, folder):
    paths = sorted(folder.glob("*.jpg"))
    expected = command_scores(model, paths)
    sent = {"pictures": [{"image": encode(path), "name": path.name} for path in paths], "all": True}
    answer = server.good("POST", "/v1/tag", sent)
    same(scores(answer), expected)
    assert [p["name"] for p in answer["pictures"]] == [path.name for path in paths]
    same(scores(server.good("POST", "/v1/tag", {"pictures": [{"path": path.name} for path in paths], "all": True})), expected)
    for path in paths[:3]:  # one at a time
        one = server.good("POST", f"/v1/tag?all=1&name={path.name}", path.read_bytes(), {"Content-Type": "image/jpeg"})
        same(scores(one), {path.name: expected[path.name]})
    keys = [p["key"] for p in answer["pictures"]]
    assert keys == [hashlib.sha256(path.read_bytes()).hexdigest()[:32] for path in paths]
    again = server.good("POST", "/v1/score", {"keys": keys + ["0" * 32], "all": True})
    assert again["missing"] == ["0" * 32]
    assert [p["tags"] for p in again["pictures"]] == [p["tags"] for p in answer["pictures"]]
    for p in answer["pictures"]:
        assert [t["score"] for t in p["tags"]] == sorted((t["score"] for t in p["tags"]), reverse=True)
        assert all(t["predicted"] == (t["score"] > t["threshold"]) for t in p["tags"])
        doubt = min(abs(t["score"] - t["threshold"]) for t in p["tags"])
        assert abs(p["uncertain"] - 1 / (1 + 10 * doubt)) < 1e-3
    return dict(zip([path.name for path in paths], keys))


def some_cannot_be_read(server, folder):
    answer = server.good("POST", "/v1/tag", {"pictures": [{"image": "bm90IGEgcGljdHVyZQ=="}, {"path": "red0.jpg"}, {"path": "none.jpg"},
                                                          {"image": "@@@"}]})
    assert ["error" in p for p in answer["pictures"]] == [True, False, True, True], answer
    status, answer = server.ask("POST", "/v1/tag", b"GIF89a", {"Content-Type": "image/gif"})
    assert status == 422 and "error" in answer and "hint" in answer, (status, answer)


def teach_equals_the_command(server, folder, keys, copy):
    """The same lessons in the same order; the rows of features are the same numbers."""
    answer = server.good("POST", "/v1/teach", {"pictures": [{"key": keys[f"blue{i}.jpg"], "name": f"blue{i}.jpg", "tags": ["blue"]} for i in range(4)]})
    assert (answer["lesson"], answer["taught"], answer["already"], answer["new_classes"], answer["failed"]) == (3, 4, 0, ["blue"], [])
    assert [(c["name"], c["pictures"]) for c in answer["classes"]] == [("red", 4), ("green", 4), ("blue", 4)]
    again = server.good("POST", "/v1/teach", {"pictures": [{"path": "blue0.jpg", "tags": ["blue"]}]})
    assert (again["taught"], again["already"], again["edition"]) == (0, 1, answer["edition"])
    status, refused = server.ask("POST", "/v1/teach", {"pictures": [{"path": "blue0.jpg", "tags": ["red"]}]})
    assert status == 409 and "lesson 3" in refused["error"], refused
    mixed = server.good("POST", "/v1/teach", {"pictures": [{"path": "grey0.jpg", "tags": [], "not": ["blue"], "only": True},
                                                           {"image": encode(folder / "blue4.jpg"), "name": "blue4.jpg", "tags": ["blue"]},
                                                           {"image": "bm9wZQ==", "name": "broken"}]})
    assert mixed["taught"] == 2 and [f["name"] for f in mixed["failed"]] == ["broken"], mixed
    instead = server.good("POST", "/v1/teach", {"instead": True, "pictures": [{"path": "blue3.jpg", "tags": ["blue", "green"]}]})
    assert instead["taught"] == 1
    tagged = server.good("POST", "/v1/tag", {"pictures": [{"path": name} for name in ("blue3.jpg", "grey0.jpg", "grey1.jpg")]})
    assert [p["taught"] for p in tagged["pictures"]] == [{"tags": ["green", "blue"], "not": [], "only": False},
                                                         {"tags": [], "not": ["blue"], "only": True}, None]
    run("teach", copy, *(folder / f"blue{i}.jpg" for i in range(4)), "--tags", "blue")
    run("teach", copy, folder / "grey0.jpg", "--not", "blue", "--only")
    run("teach", copy, folder / "blue4.jpg", "--tags", "blue")
    run("teach", copy, folder / "blue3.jpg", "--tags", "blue,green", "--instead")
    paths = sorted(folder.glob("*.jpg"))
    same(scores(server.good("POST", "/v1/tag", {"pictures": [{"path": p.name} for p in paths], "all": True})), command_scores(copy, paths), 3e-4)


def history_and_quality(server, copy):
    history = server.good("GET", "/v1/history")
    assert [lesson["lesson"] for lesson in history["lessons"]] == [5, 4, 3, 2, 1] and history["gap"] == ""
    assert history["lessons"][2]["tags"] == {"blue": 4} and history["lessons"][0]["taken_back"] == 1
    quality = server.good("GET", "/v1/quality")
    assert [c["name"] for c in quality["classes"]] == ["red", "green", "blue"]
    assert all(0 <= c["recall"] <= 1 for c in quality["classes"] if c["recall"] is not None)
    edition = server.good("GET", "/v1/classes")["edition"]
    undone = server.good("POST", "/v1/undo")
    assert undone["undone"] == {"lesson": 5, "id": history["lessons"][0]["id"], "pictures": 1} and undone["edition"] == edition + 1
    renamed = server.good("POST", "/v1/rename", {"from": "blue", "to": "azure"})
    assert [c["name"] for c in renamed["classes"]] == ["red", "green", "azure"]
    assert server.ask("POST", "/v1/rename", {"from": "none", "to": "other"})[0] in (409, 422)
    server.good("POST", "/v1/undo")
    assert [c["name"] for c in server.good("GET", "/v1/classes")["classes"]] == ["red", "green", "blue"]


def library(server, folder):
    listed = server.good("GET", "/v1/library?count=5&from=2")
    names = sorted(path.name for path in folder.glob("*.jpg"))
    assert listed["total"] == len(names) and [p["path"] for p in listed["pictures"]] == names[2:7] and listed["folders"] == ["more"]
    assert [p["path"] for p in server.good("GET", "/v1/library?folder=more")["pictures"]] == ["more/one.png"]
    assert server.good("GET", "/v1/library/picture?path=red0.jpg") == (folder / "red0.jpg").read_bytes()
    assert server.headers["content-type"] == "image/jpeg"
    small = Image.open(io.BytesIO(server.good("GET", "/v1/library/thumbnail?path=red0.jpg&size=64")))
    assert small.size == (64, 48) and small.format == "JPEG"
    exported = server.good("GET", "/v1/export?format=csv").decode().splitlines()
    assert exported[0] == "path,labels,scores" and any(line.startswith('"red0.jpg"') for line in exported)
    listed = server.good("GET", "/v1/export?format=json")
    assert {row["path"] for row in listed} >= {"red0.jpg", "blue1.jpg"}
    sidecar = server.good("POST", "/v1/xmp", {"tags": ["a & b", "ü"]})
    found = [e.text for e in xml.etree.ElementTree.fromstring(sidecar).iter("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li")]
    assert found == ["a & b", "ü"], found


def inference(server, folder, model):
    name = model.name
    assert server.good("GET", "/v2")["name"] == "l3a" and server.good("GET", "/v2/health/live") and server.good("GET", "/v2/health/ready")["ready"]
    about = server.good("GET", f"/v2/models/{name}")
    classes = about["parameters"]["classes"]
    assert about["inputs"][0] == {"name": "image", "datatype": "BYTES", "shape": [-1]} and server.good("GET", f"/v2/models/{model.stem}/ready")["ready"]
    answer = server.good("POST", f"/v2/models/{name}/infer", {"id": "7", "inputs": [{"name": "image", "datatype": "BYTES", "shape": [2],
                                                                                    "data": [encode(folder / "red0.jpg"), encode(folder / "grey1.jpg")]}]})
    outputs = {output["name"]: output for output in answer["outputs"]}
    tagged = server.good("POST", "/v1/tag", {"pictures": [{"path": "red0.jpg"}, {"path": "grey1.jpg"}], "all": True})
    assert answer["id"] == "7" and outputs["scores"]["shape"] == [2, len(classes)]
    for i, p in enumerate(tagged["pictures"]):
        own = {t["tag"]: t for t in p["tags"]}
        for k, tag in enumerate(classes):
            assert abs(outputs["scores"]["data"][i * len(classes) + k] - own[tag]["score"]) < 1e-6
            assert outputs["predicted"]["data"][i * len(classes) + k] == own[tag]["predicted"]
        assert outputs["tags"]["data"][i] == ";".join(t["tag"] for t in p["tags"] if t["predicted"])
    width = about["inputs"][1]["shape"][1]
    zeros = {"name": "features", "datatype": "FP32", "shape": [1, width], "data": [0.0] * width}
    assert len(server.good("POST", f"/v2/models/{name}/infer", {"inputs": [zeros]})["outputs"][0]["data"]) == len(classes)
    assert server.ask("GET", "/v2/models/other")[0] == server.ask("GET", f"/v2/models/{name}/versions/2")[0] == 404
    assert server.good("GET", f"/v2/models/{name}/versions/1/ready")["ready"] and server.good("GET", f"/v2/models/{name}/versions/1") == about
    assert server.headers["content-type"] == "application/json"  # KServe's client reads errors of exactly this type
    for wrong in ({**zeros, "data": [0.0]}, {**zeros, "shape": [1, width + 1]}, {**zeros, "shape": []}, {**zeros, "parameters": {"binary_data_size": 4}},
                  {**zeros, "parameters": {"shared_memory_region": "r"}}, {**zeros, "datatype": "FP64"}):
        assert server.ask("POST", f"/v2/models/{name}/infer", {"inputs": [wrong]})[0] == 400, wrong
    assert server.ask("POST", f"/v2/models/{name}/infer", {"inputs": [zeros, zeros]})[0] == 400
    for wrong in ({"name": "none"}, {"name": "scores", "parameters": {"classification": 2}}):
        assert server.ask("POST", f"/v2/models/{name}/infer", {"inputs": [zeros], "outputs": [wrong]})[0] == 400
    binary_inference(server, folder, name, zeros, outputs)


def binary_inference(server, folder, name, zeros, expected):
    """The extension for binary tensors, which Triton's client uses unless told otherwise: the same numbers as in JSON."""
    def infer(head, tail, length=None, status=200):
        head = json.dumps(head).encode()
        headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head) if length is None else length)}
        found, answer = server.ask("POST", f"/v2/models/{name}/infer", head + tail, headers)
        assert found == status, (found, answer)
        return answer

    def item(data):
        return struct.pack("<I", len(data)) + data
    tail = item((folder / "red0.jpg").read_bytes()) + item((folder / "grey1.jpg").read_bytes())
    image = {"name": "image", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": len(tail)}}
    answer = infer({"inputs": [image], "parameters": {"binary_data_output": True}}, tail)
    length = int(server.headers["inference-header-content-length"])
    found, rest = {output["name"]: output for output in json.loads(answer[:length])["outputs"]}, answer[length:]
    assert server.headers["content-type"] == "application/octet-stream" and all("data" not in output for output in found.values())
    scores, predicted, tags = (found[key]["parameters"]["binary_data_size"] for key in ("scores", "predicted", "tags"))
    assert len(rest) == scores + predicted + tags and found["scores"]["shape"] == expected["scores"]["shape"]
    for one, other in zip(struct.unpack(f"<{scores // 4}f", rest[:scores]), expected["scores"]["data"], strict=True):
        assert abs(one - other) <= 1e-6 * abs(other)
    assert [byte == 1 for byte in rest[scores:scores + predicted]] == expected["predicted"]["data"]
    assert rest[scores + predicted:] == b"".join(item(text.encode()) for text in expected["tags"]["data"])
    named = infer({"inputs": [image], "outputs": [{"name": "tags"}]}, tail)  # and JSON for what is not asked for as bytes
    assert named["outputs"] == [expected["tags"]] and "inference-header-content-length" not in server.headers
    numbers = struct.pack("<2f", 0, 0) * (zeros["shape"][1] // 2)
    features = {**zeros, "parameters": {"binary_data_size": len(numbers)}}
    assert infer({"inputs": [features]}, numbers)["outputs"] == server.good("POST", f"/v2/models/{name}/infer", {"inputs": [zeros]})["outputs"]
    infer({"inputs": [features]}, numbers[:-4] + struct.pack("<f", math.nan), status=400)
    infer({"inputs": [image]}, tail, length=10**9, status=400)
    infer({"inputs": [image]}, tail[:-1], status=400)
    infer({"inputs": [{**image, "shape": [3]}]}, tail, status=400)
    for broken in (tail[:-1], tail + b"\0", struct.pack("<I", 2**32 - 1) + tail):
        infer({"inputs": [{**image, "parameters": {"binary_data_size": len(broken)}}]}, broken, status=400)
    infer({"inputs": [{**image, "shape": [1], "parameters": {"binary_data_size": 4}}]}, item(b""), status=422)
    assert server.ask("POST", f"/v2/models/{name}/infer", {"inputs": [zeros]}, {"Content-Encoding": "gzip"})[0] == 415


def label_studio(server, folder):
    """The messages that Label Studio 1.x sends to a model."""
    assert server.good("GET", "/health") == {"status": "UP", "model_class": "l3a"}
    config = '<View><Image name="img" value="$image"/><Choices name="what" toName="img" choice="multiple"><Choice value="red"/></Choices></View>'
    setup = server.good("POST", "/setup", {"project": "3.1700000000", "schema": config, "hostname": "http://localhost:8080", "access_token": "x", "extra_params": None})
    version = setup["model_version"]
    assert server.good("GET", "/versions") == {"versions": [version]}
    assert server.good("POST", "/webhook", {"action": "ANNOTATION_CREATED", "project": {"id": 3}})["status"] == "ignored"
    (folder / "with space é.jpg").write_bytes((folder / "green0.jpg").read_bytes())
    addresses = ["data:image/jpeg;base64," + encode(folder / "red0.jpg"), "/data/local-files/?d=green0.jpg", "https://example.org/x.jpg",
                 "http://localhost:8080/data/local-files/?d=with%20space%20%C3%A9.jpg", "/data/upload/more/one.png", "/data/upload/../copy.l3a",
                 "https://example.org/data/upload/%2e%2e/copy.l3a", "x/data/upload/red0.jpg"]
    tasks = [{"id": i, "data": {"text": "a", "image": address}, "annotations": [], "predictions": []} for i, address in enumerate(addresses)]
    request = {"tasks": tasks, "project": "3.1700000000", "label_config": config, "params": {"login": "", "password": "", "context": None}}
    answer = server.good("POST", "/predict", request)
    assert len(answer["results"]) == len(tasks) and all(answer["results"][i]["result"] == [] for i in (2, 5, 6, 7))
    for i, colour in ((0, "red"), (1, "green"), (3, "green"), (4, "red")):
        region = answer["results"][i]["result"][0]
        assert (region["from_name"], region["to_name"], region["type"]) == ("what", "img", "choices") and colour in region["value"]["choices"]
        assert answer["results"][i]["model_version"] == version
    (folder / "with space é.jpg").unlink()
    server.good("POST", "/v1/teach", {"pictures": [{"path": "grey5.jpg", "tags": ["red", "grey", "dull"]}]})
    assert server.good("GET", "/versions") != {"versions": [version]}
    request["tasks"] = [{"id": 1, "data": {"image": "/data/local-files/?d=grey5.jpg"}}]
    assert len(server.good("POST", "/predict", request)["results"][0]["result"][0]["value"]["choices"]) > 1
    request["label_config"] = config.replace(' choice="multiple"', "")  # then Label Studio takes one
    assert len(server.good("POST", "/predict", request)["results"][0]["result"][0]["value"]["choices"]) == 1
    server.good("POST", "/v1/undo")


def page_and_metrics(server):
    for path, kind in (("/", "text/html"), ("/page/page.css", "text/css"), ("/page/page.js", "text/javascript"), ("/page/icon.svg", "image/svg+xml")):
        server.good("GET", path)
        assert server.headers["content-type"].startswith(kind)
        assert "default-src 'none'" in server.headers["content-security-policy"] and server.headers["x-content-type-options"] == "nosniff"
        file = SOURCE / "src/serve" / ("page/index.html" if path == "/" else path[1:])
        etag = f'"{hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"'
        assert server.headers["etag"] == etag
        for known, status in ((etag, 304), (f"W/{etag}", 304), (f'"0", {etag}', 304), ('"0"', 200), (etag[:-2] + '"', 200)):
            assert server.ask("GET", path, headers={"If-None-Match": known})[0] == status, (path, known)
    assert server.ask("GET", "/page/nothing.js")[0] == server.ask("GET", "/page/../openapi.json")[0] == 404
    text = server.good("GET", "/metrics").decode()
    values = dict(re.findall(r"^([a-z0-9_]+(?:\{[^}]*\})?) ([0-9.e+-]+)$", text, re.M))
    assert len(values) == len([line for line in text.splitlines() if line and line[0] != "#"]), "a line that Prometheus cannot read"
    assert values["l3a_lessons_total"] == "4" and values["l3a_classes"] == "3" and values["l3a_undone_total"] == "3"
    documented = (SOURCE / "docs/serving.md").read_text()
    for name in re.findall(r"^# TYPE (\w+)", text, re.M):
        assert f"`{name}`" in documented, f"docs/serving.md does not explain {name}"


def openapi(server):
    """The description is valid, names every route that is there, and the answers are as it says."""
    described = server.good("GET", "/openapi.json")
    assert described["openapi"].startswith("3.1") and described["info"]["version"]
    table = re.findall(r'\.method = "(\w+)",\s*\.path = "([^"]+)"', (SOURCE / "src/serve/status.c").read_text())
    for method, path in table:
        path = {"/v2/models/": "/v2/models/{model}" if method == "GET" else "/v2/models/{model}/infer", "/page/": "/page/{file}"}.get(path, path)
        assert method.lower() in described["paths"].get(path, {}), f"openapi.json lacks {method} {path}"
    schemas = described["components"]["schemas"]

    def check(answer, method, path, status="200"):
        schema = described["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator({**schema, "components": {"schemas": schemas}}).validate(answer)

    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for path in ("/v1/status", "/v1/library/state", "/v1/words", "/v1/classes", "/v1/history", "/v1/quality", "/v1/library", "/v2", "/v2/health/live", "/v2/health/ready", "/health", "/versions"):
        check(server.good("GET", path), "get", path)
    tagged = server.good("POST", "/v1/tag", {"pictures": [{"path": "red0.jpg"}, {"path": "none"}]})
    check(tagged, "post", "/v1/tag")
    check(server.good("POST", "/v1/score", {"keys": [tagged["pictures"][0]["key"], "x"]}), "post", "/v1/score")
    check(server.good("POST", "/v1/teach", {"pictures": [{"path": "grey4.jpg", "tags": ["grey"]}]}), "post", "/v1/teach")
    check(server.good("POST", "/v1/undo"), "post", "/v1/undo")
    status, answer = server.ask("POST", "/v1/teach", {})
    assert status == 400
    jsonschema.Draft202012Validator(schemas["Error"]).validate(answer)


def model_files(server, model, folder, scratch):
    bytes_of = server.good("GET", "/v1/model")
    (scratch / "downloaded.l3a").write_bytes(bytes_of)
    paths = sorted(folder.glob("*.jpg"))
    now = scores(server.good("POST", "/v1/tag", {"pictures": [{"path": p.name} for p in paths], "all": True}))
    run("teach", scratch / "downloaded.l3a", folder / "grey5.jpg", "--tags", "grey", "--backbone", BACKBONE)
    with tarfile.open(fileobj=io.BytesIO(server.good("GET", "/v1/backup"))) as tar:
        assert tar.getnames() == [model.name, model.name + ".history"]
        (scratch / "restored").mkdir()
        tar.extractall(scratch / "restored")
    same(now, command_scores(scratch / "restored" / model.name, [*paths, "--backbone", BACKBONE]))
    assert len(json.loads(run("history", scratch / "restored" / model.name, "--format", "json").stdout)["lessons"]) >= 3
    status, answer = server.ask("PUT", "/v1/model", b"not a model", {"Content-Type": "application/octet-stream"})
    assert status in (409, 422) and "not replaced" in answer["error"], answer
    replaced = server.good("PUT", "/v1/model", (scratch / "downloaded.l3a").read_bytes(), {"Content-Type": "application/octet-stream"})
    assert [c["name"] for c in replaced["classes"]] == ["red", "green", "blue", "grey"]
    assert (model.parent / (model.name + ".old")).exists() and not list(model.parent.glob("*.upload-*"))
    taught = server.good("POST", "/v1/teach", {"pictures": [{"path": "grey4.jpg", "tags": ["grey"]}]})
    assert taught["taught"] == 1
    (scratch / "restored" / model.name).replace(model)  # as an administrator would, followed by SIGHUP
    (scratch / "restored" / (model.name + ".history")).replace(model.parent / (model.name + ".history"))
    server.process.send_signal(signal.SIGHUP)
    for _ in range(200):
        if [c["name"] for c in server.good("GET", "/v1/classes")["classes"]] == ["red", "green", "blue"]:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("SIGHUP did not load the model again")
    assert server.good("GET", "/v2/health/ready")["ready"]


def without_lessons(scratch, folder, copy):
    """A packed model, and --readonly: both tag, and neither learns."""
    packed = scratch / "packed.l3a"
    run("pack", copy, "-o", packed, "--with-backbone")
    paths = sorted(folder.glob("*.jpg"))[:6]
    for model, options in ((packed, ()), (copy, ("--readonly",))):
        with Server(model, "--library", folder, *options) as server:
            assert server.good("GET", "/v1/status")["readonly"] is True and server.good("GET", "/v2/health/ready")["ready"]
            same(scores(server.good("POST", "/v1/tag", {"pictures": [{"path": p.name} for p in paths], "all": True})), command_scores(model, paths))
            assert [c["name"] for c in server.good("GET", "/v1/classes")["classes"]] == ["red", "green", "blue"]
            for method, path, body in (("POST", "/v1/teach", {"pictures": [{"path": "red0.jpg", "tags": ["x"]}]}), ("POST", "/v1/undo", None),
                                       ("POST", "/v1/rename", {"from": "red", "to": "x"}), ("PUT", "/v1/model", b"x")):
                status, answer = server.ask(method, path, body, {} if isinstance(body, dict) else {"Content-Type": "application/octet-stream"})
                assert status == 403 and "error" in answer, (path, status, answer)
            assert server.good("GET", "/v1/history")["lessons"] is not None and server.ask("GET", "/v1/quality")[0] in (200, 403, 409)
            assert server.stop() == 0


def main(scratch, folder):
    model, copy = scratch / "colours.l3a", scratch / "copy.l3a"
    serving.teach_model(model, folder)
    for name in ("", ".history"):
        Path(f"{copy}{name}").write_bytes(Path(f"{model}{name}").read_bytes())
    (folder / "more").mkdir()
    Image.open(folder / "red1.jpg").save(folder / "more/one.png")
    with Server(model, "--library", folder, "--no-index") as server:  # what comes from an index is in half precision
        status = server.good("GET", "/v1/status")
        assert status["ready"] and status["library"] and status["classes"] == 2 and status["model"] == "colours.l3a"
        keys = tag_equals_the_command(server, model, folder)
        some_cannot_be_read(server, folder)
        teach_equals_the_command(server, folder, keys, copy)
        history_and_quality(server, copy)
        library(server, folder)
        inference(server, folder, model)
        label_studio(server, folder)
        page_and_metrics(server)
        openapi(server)
        model_files(server, model, folder, scratch)
        assert server.stop() == 0, server.said
    without_lessons(scratch, folder, copy)
    print("every path of the server answers as it should")


if __name__ == "__main__":
    serving.play(main)
