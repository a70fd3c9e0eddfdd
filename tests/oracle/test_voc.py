"""From real pictures to the numbers of the reference: VOC 2007 (small pictures) through ViT-Tiny, then both protocols."""
import csv
import json
import os
import subprocess
import sys
import tempfile

SHARED = os.environ["L3A_SHARED"]
L3A = os.path.join(os.environ["L3A_BUILD"], "l3a")
GOLDEN = os.path.join(SHARED, "golden", "l3a_voc.json")
BACKBONE = os.path.join(SHARED, "backbones", "vit_tiny_patch16_224.safetensors")
DATA = os.path.join(SHARED, "data", "voc2007-small", "VOCdevkit")
TOLERANCE = 0.0021
METHODS = ["l3a", "l3a-no-pl", "l3a-no-wac", "acil", "joint"]


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def metrics(train, test, protocol, dim, folder):
    subprocess.run([L3A, "run", "--train", train, "--test", test, "--protocol", protocol, "--dim", str(dim), "--method",
                    ",".join(METHODS), "-o", folder, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "metrics.csv")) as file:
        rows = list(csv.DictReader(file))
    return {method: [row for row in rows if row["method"] == method] for method in METHODS}


def main():
    for path in (GOLDEN, BACKBONE, DATA):
        if not os.path.exists(path):
            skip(path + " is not there")
    if os.environ.get("L3A_SANITIZE") or os.environ.get("L3A_QUICK"):
        skip("ten thousand pictures take minutes; one job of CI does them")
    passed = failed = 0
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for split in ("trainval", "test"):
            files.append(os.path.join(folder, split + ".safetensors"))
            subprocess.run([L3A, "extract", "--backbone", BACKBONE, "--data", "voc:" + DATA, "--split", split, "-o", files[-1], "--quiet"],
                           check=True)
        found = {}
        for run in json.load(open(GOLDEN))["runs"]:
            protocol, dim = run["settings"]["protocol"], run["settings"]["dim"]
            if (protocol, dim) not in found:
                found[protocol, dim] = metrics(*files, protocol, dim, os.path.join(folder, f"{protocol}-{dim}"))
            rows = found[protocol, dim][run["name"]]
            for expected, got in zip(run["rows"], rows, strict=True):
                gap = abs(expected["mAP"] - float(got["mAP"]))
                same = int(got["train_images"]) == expected["train_images"] and int(got["test_images"]) == expected["test_images"]
                worst = max(worst, gap)
                passed += gap <= TOLERANCE and same
                failed += not (gap <= TOLERANCE and same)
                if gap > TOLERANCE or not same:
                    print("FAILED:", run["name"], protocol, dim, "phase", got["phase"], expected, got)
    print(f"largest deviation of mAP: {worst:.4f}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
