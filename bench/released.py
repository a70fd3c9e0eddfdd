#!/usr/bin/python3
"""The arithmetic of the authors' released program, for comparison: what it computes in a phase, without its networks.

It works in batches of 64 rows. Each batch is expanded in float32; old classes get pseudo-labels from their scores; a Python loop over
samples and labels computes the sample weights; the full weighted product is computed in float64 and added in place to float32 sums. The
phase ends with an explicit float32 inverse. Two things are omitted, in its favour: the class weights, which it computes again for each
sample, and a second product with the weights.
"""
import argparse
import ctypes
import json
import math
import sys
import time

BATCH = 64
GAMMA = 1000.0
ETA = 0.7


def matrix_libraries():
    """The matrix libraries that PyTorch uses, found among the libraries that this process has loaded."""
    with open("/proc/self/maps") as maps:
        paths = sorted({line.split()[-1] for line in maps if "libopenblas" in line})
    names = []
    for path in paths:
        library = ctypes.CDLL(path)
        library.openblas_get_config.restype = ctypes.c_char_p
        names.append(library.openblas_get_config().decode())
    return "; ".join(names) or "no OpenBLAS"


def sample_weights(labels, class_weight):
    weights = torch.zeros(len(labels), dtype=torch.float64, device=labels.device)
    for i in range(len(labels)):
        total, count = 0.0, 0
        for k in range(labels.shape[1]):
            if labels[i, k] == 1:
                total += class_weight[k]
                count += 1
        weights[i] = total / count if count else 0.0
    return weights


def add_batch(features, labels, layer, old_weights, class_weight, gram, cross):
    expanded = torch.relu(features @ layer)
    labels = labels.clone()
    labels[:, :old_weights.shape[1]] = (torch.sigmoid(expanded @ old_weights) > ETA).float()
    expanded = expanded.double()
    weighted = expanded.T @ torch.diag(sample_weights(labels, class_weight))
    gram += weighted @ expanded
    cross += weighted @ labels.double()


def clock(device):
    """Seconds, when everything before is done."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def solve(gram, cross):
    return torch.inverse(gram + GAMMA * torch.eye(len(gram), device=gram.device)) @ cross


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=640)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--dim", type=int, default=8192)
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="where PyTorch computes: cpu, or cuda for a GPU")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)

    features = torch.rand(options.rows, options.width)
    labels = (torch.rand(options.rows, options.classes) < 0.05).float()
    labels[torch.arange(options.rows), torch.arange(options.rows) % options.classes] = 1
    layer = (2 * torch.rand(options.width, options.dim) - 1) / math.sqrt(options.width)
    class_weight = torch.rand(options.classes, dtype=torch.float64) + 0.5
    old_weights = 0.001 * torch.randn(options.dim, options.classes // 2)
    gram = torch.zeros(options.dim, options.dim)
    cross = torch.zeros(options.dim, options.classes)
    features, labels, layer, class_weight, old_weights, gram, cross = [
        tensor.to(options.device) for tensor in (features, labels, layer, class_weight, old_weights, gram, cross)]

    add_batch(features[:BATCH], labels[:BATCH], layer, old_weights, class_weight, gram, cross)
    start = clock(options.device)
    for first in range(0, options.rows, BATCH):
        rows = slice(first, first + BATCH)
        add_batch(features[rows], labels[rows], layer, old_weights, class_weight, gram, cross)
    accumulated = clock(options.device)
    solve(gram, cross)
    end = clock(options.device)

    result = {
        "rows": options.rows, "width": options.width, "dim": options.dim, "classes": options.classes,
        "threads": torch.get_num_threads(), "torch": torch.__version__, "device": options.device,
        "matrices": matrix_libraries() if options.device == "cpu" else torch.cuda.get_device_name(),
        "rows_per_second": options.rows / (accumulated - start), "inverse_seconds": end - accumulated,
    }
    if options.json:
        print(json.dumps(result))
    else:
        print(f"PyTorch {result['torch']}, {options.device}, {result['threads']} threads, {result['matrices']}")
        print(f"{result['rows_per_second']:.1f} rows/s, inverse {result['inverse_seconds']:.2f} s")


if __name__ == "__main__":
    try:
        import torch
    except ImportError:
        sys.exit("released.py: this Python has no PyTorch; install python3-torch, and use /usr/bin/python3")
    main()
