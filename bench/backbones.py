"""Pictures per second of the library's backbones and of PyTorch's (eager, channels_last), in turns, with the same number of threads.

    OPENBLAS_CORETYPE=SkylakeX L3A_BUILD=build L3A_SHARED=../shared python3 bench/backbones.py [--rounds N] [--threads N] [MODEL ...]

Each round runs the library, then PyTorch, on the same pictures. A ratio is the median of the rounds' ratios, so that other work on the
machine affects both alike. The library's floating-point rate is also given in percent of that of a matrix product (sgemm) measured in
the same round. If the VOC pictures are available, reading JPEG files is included in a second comparison: the library's loader against
Pillow."""
import argparse
import ctypes
import os
import statistics
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "oracle"))
import test_backbones as backbones  # noqa: E402
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from measured import report, spread  # noqa: E402

TARGETS = {"tresnet_m": 1.3, "resnet50": 1.1, "vit_base_patch16_224": 1.1}


def seconds(work, *arguments):
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def speed(library):
    single, double = ctypes.c_double(), ctypes.c_double()
    library.check(library.c.l3a_machine_speed(library.context, ctypes.byref(single), ctypes.byref(double)))
    return single.value


def read_with_pillow(paths, info):
    from PIL import Image
    pictures = np.empty((len(paths), 3, info.size, info.size), np.float32)
    for i, path in enumerate(paths):
        pixels = np.asarray(Image.open(path).convert("RGB").resize((info.size, info.size), Image.BILINEAR), np.float32)
        pictures[i] = ((pixels / 255 - np.array(info.mean, np.float32)) / np.array(info.deviation, np.float32)).transpose(2, 0, 1)
    return pictures


def measure(library, name, rounds, count, paths):
    import torch
    model = backbones.torch_models()[1][name]().eval()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights.safetensors")
        backbones.write_safetensors(path, {k: v.numpy() for k, v in model.state_dict().items() if v.dim()})
        backbone = library.open(path)
    info = library.info(backbone)
    model = model.to(memory_format=torch.channels_last)
    pictures = np.random.default_rng(1).random((count, 3, info.size, info.size), np.float32)

    def rival(inputs):
        with torch.no_grad():
            for part in torch.from_numpy(inputs).split(16):
                model(part.contiguous(memory_format=torch.channels_last))

    rows = []
    library.run(backbone, pictures[:9])
    rival(pictures[:16])
    for _ in range(rounds):
        ours, theirs = seconds(library.run, backbone, pictures), seconds(rival, pictures)
        row = [count / ours, theirs / ours, info.flops * count / ours / speed(library)]
        if paths:
            ours = seconds(lambda: library.run(backbone, library.load(paths, info)))
            theirs = seconds(lambda: rival(read_with_pillow(paths, info)))
            row += [len(paths) / ours, theirs / ours]
        rows.append(row)
    columns = list(zip(*rows))
    middle = [statistics.median(column) for column in columns]
    target, command = TARGETS.get(name), "bench/run.py --only backbones"
    report(f"{name} at {info.size}×{info.size}, random parameters, pictures per second: times PyTorch {torch.__version__} eager, channels_last",
           f"at least {target}" if target else "", spread(columns[1]), not target or middle[1] >= target, command)
    report(f"{name}: pictures per second", "", spread(columns[0], "{:.1f}"), True, command)
    print(f"  {100 * middle[2]:.0f} % of sgemm's rate" +
          (f"; including reading JPEG files {middle[3]:.1f} pictures/s, {middle[4]:.2f} times PyTorch with Pillow" if paths else ""), flush=True)
    library.close(backbone)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["tresnet_m", "resnet50", "vit_base_patch16_224", "vit_tiny_patch16_224"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: torch is missing")
        return 77
    torch.set_num_threads(arguments.threads)
    library = backbones.Backbones(threads=arguments.threads)
    folder = os.path.join(backbones.SHARED, "data", "voc2007-small", "VOCdevkit", "VOC2007", "JPEGImages")
    paths = [os.path.join(folder, n) for n in sorted(os.listdir(folder))[:arguments.count]] if os.path.isdir(folder) else []
    print(f"PyTorch {torch.__version__}, {arguments.threads} threads, {arguments.rounds} rounds of {arguments.count} pictures")
    for name in arguments.models:
        measure(library, name, arguments.rounds, arguments.count, paths)
    return 0


if __name__ == "__main__":
    sys.exit(main())
