#!/usr/bin/python3
"""Every kind of network: width, parameters, file, operations and pictures per second, as in docs/backbones.md.

    L3A_BUILD=build bench/networks.py [--threads N] [NETWORK ...] >table.md
    L3A_BUILD=build bench/networks.py --turns 9 [--other SOURCE] [--threads N] [NETWORK ...]

The second form measures in turns: bf16 beside float32 and, with --other, float32 beside that of another version, whose source with its
build/ is in SOURCE. A ratio is the median of the rounds' ratios.

The networks have the published sizes and made-up parameters, which makes no difference to the time. Their tensors are those of
tests/golden/networks.json.gz, with as many blocks as published. In the first form, rates are what `l3a doctor --backbone` prints, so
nothing is decoded, and each network is measured once, on whatever else the machine does. A large network needs as much disk and memory as
its file."""
import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from measured import report, spread  # noqa: E402

SOURCE = Path(__file__).resolve().parents[1]
IN_TURNS = {"ViT-Ti/16": None, "ViT-B/16": 1.5, "ResNet-50": 1.5, "TResNet-M": 1.5}  # and how much faster bf16 should be
PICTURES = 16

# name here, network in the golden numbers, blocks as published, options besides
NETWORKS = [
    ("ViT-Ti/16, DeiT-Ti", "vit_tiny_patch16_224", 12, []),
    ("ViT-S/16, DeiT-S, DINO-S/16", "vit_small_patch16_224", 12, []),
    ("DINO-S/8", "vit_small_patch8_224", 12, []),
    ("ViT-B/32", "vit_base_patch32_224", 12, []),
    ("ViT-B/16, DeiT-B, DINO-B/16, MAE-B", "vit_base_patch16_224", 12, []),
    ("ViT-L/16, MAE-L", "vit_large_patch16_224", 24, []),
    ("ViT-H/14, MAE-H", "vit_huge_patch14_224", 32, ["--heads", "16"]),
    ("DINOv2-S/14 at 224", "vit_small_patch14_dinov2", 12, ["--size", "224"]),
    ("DINOv2-B/14 at 224", "vit_base_patch14_dinov2", 12, ["--size", "224"]),
    ("DINOv2-B/14 with registers at 224", "vit_base_patch14_reg4_dinov2", 12, ["--size", "224"]),
    ("DINOv2-L/14 at 224", "vit_large_patch14_dinov2", 24, ["--size", "224"]),
    ("CLIP ViT-B/32", "vit_base_patch32_clip_quickgelu_224", 12, ["--activation", "quick_gelu"]),
    ("CLIP ViT-B/16", "vit_base_patch16_clip_quickgelu_224", 12, ["--activation", "quick_gelu"]),
    ("CLIP ViT-L/14", "vit_large_patch14_clip_quickgelu_224", 24, ["--activation", "quick_gelu"]),
    ("CLIP ViT-L/14 at 336", "vit_large_patch14_clip_quickgelu_336", 24, ["--activation", "quick_gelu"]),
    ("OpenCLIP ViT-H/14", "vit_huge_patch14_clip_224", 32, ["--activation", "gelu", "--heads", "16"]),
    ("SigLIP-B/16", "vit_base_patch16_siglip_224", 12, ["--activation", "tanh_gelu"]),
    ("SigLIP-L/16 at 256", "vit_large_patch16_siglip_256", 24, ["--activation", "tanh_gelu"]),
    ("ConvNeXt-T", "convnext_tiny", (3, 3, 9, 3), []),
    ("ConvNeXt-S", "convnext_small", (3, 3, 27, 3), []),
    ("ConvNeXt-B", "convnext_base", (3, 3, 27, 3), []),
    ("ConvNeXt-L", "convnext_large", (3, 3, 27, 3), []),
    ("ResNet-18", "resnet18", (2, 2, 2, 2), []),
    ("ResNet-34", "resnet34", (3, 4, 6, 3), []),
    ("ResNet-50", "resnet50", (3, 4, 6, 3), []),
    ("ResNet-101", "resnet101", (3, 4, 23, 3), []),
    ("ResNet-152", "resnet152", (3, 8, 36, 3), []),
    ("ResNeXt-50 32x4d", "resnext50_32x4d", (3, 4, 6, 3), []),
    ("Wide ResNet-50-2", "wide_resnet50_2", (3, 4, 6, 3), []),
    ("TResNet-M", "tresnet_m", (3, 4, 11, 3), []),
    ("TResNet-L", "tresnet_l", (4, 5, 18, 3), []),
    ("TResNet-XL", "tresnet_xl", (4, 5, 24, 3), []),
]
BLOCK = re.compile(r"(blocks\.|stages\.(\d)\.blocks\.|(?:body\.)?layer(\d)\.)(\d+)\.(.+)")


def later(tensors):
    """The tensors of a block that is not its stage's first, from those of the first one: no shortcut, and input as wide as output."""
    shapes = {rest: shape for rest, shape in tensors.items() if not rest.startswith("downsample")}
    last = max((rest for rest in shapes if re.fullmatch(r"conv\d(\.conv)?(\.\d)?\.weight", rest) and len(shapes[rest]) == 4), default=None)
    first = next((rest for rest in shapes if re.fullmatch(r"conv1(\.conv)?(\.\d)?\.weight", rest)), None)
    if last and first:
        shapes[first] = [shapes[first][0], shapes[last][0], *shapes[first][2:]]
    return shapes


def published(listed, counts):
    """name -> shape, with as many blocks as published."""
    tensors, blocks = {}, {}
    for name, shape in listed:
        match = BLOCK.match(name)
        if not match:
            tensors[name] = shape
            continue
        head, stage, index, rest = match[1], int(match[2] or match[3] or 0) - (match[3] is not None), int(match[4]), match[5]
        blocks.setdefault((head, stage), {}).setdefault(index, {})[rest] = shape
    for (head, stage), of in blocks.items():
        for i in range(counts if isinstance(counts, int) else counts[stage]):
            shapes = of[0] if i == 0 or isinstance(counts, int) or head.startswith("stages") else of.get(1) or later(of[0])
            tensors.update({f"{head}{i}.{rest}": shape for rest, shape in shapes.items()})
    return tensors


def write(path, tensors):
    """As float16, which is quicker to write."""
    header, at = {}, 0
    for name, shape in tensors.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    rng = np.random.default_rng(1)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in tensors.items():
            positive = len(shape) == 1 and name.endswith(("weight", "running_var"))
            scale = 0.02 / (3 if len(shape) > 1 else 1)
            file.write((positive + scale * rng.standard_normal(int(np.prod(shape)), np.float32)).astype(np.float16).tobytes())


def measure(path, threads, options):
    command = [str(Path(os.environ["L3A_BUILD"]) / "l3a"), "doctor", "--backbone", path, "--threads", str(threads), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    width = int(re.search(r"features (\d+) wide", done.stdout)[1])
    size = re.search(r"(\d+) x \d+,", done.stdout)[1]
    return width, size, dict(re.findall(r"(\w+): ([\d.]+) pictures/s", done.stdout))


# ---- In turns ----

def answer_turns(path, precision, threads):
    """A process of one version: computes the pictures for each line that comes in, and answers with the seconds that took."""
    sys.path.insert(0, str(Path(os.environ["L3A_SOURCE"]) / "tests" / "oracle"))
    import test_backbones as backbones
    before = not hasattr(backbones, "Backbones")  # as in 0.8
    library = backbones.Library(str(Path(os.environ["L3A_BUILD"]) / "libl3a.so"), threads=threads) if before else backbones.Backbones(threads=threads)
    settings = {"precision": 1} if precision == "bf16" else {}
    backbone = library.open(path, mean=(0.5, 0.5, 0.5), deviation=(0.5, 0.5, 0.5), **settings)
    size = library.info(backbone).size
    pictures = np.random.default_rng(1).random((PICTURES, 3, size, size), np.float32)
    library.run(backbone, pictures)
    for _ in sys.stdin:
        start = time.perf_counter()
        library.run(backbone, pictures)
        print(time.perf_counter() - start, flush=True)


class Rival:
    def __init__(self, source, build, path, precision, threads):
        environment = {**os.environ, "L3A_SOURCE": str(source), "L3A_BUILD": str(build)}
        self.process = subprocess.Popen([sys.executable, __file__, "--answer", path, precision, "--threads", str(threads)], env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return PICTURES / float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def take_turns(title, path, rounds, other, threads):
    build = Path(os.environ["L3A_BUILD"]).resolve()
    rivals = {"float32": Rival(SOURCE, build, path, "float32", threads), "bf16": Rival(SOURCE, build, path, "bf16", threads)}
    if other:
        rivals["other"] = Rival(other, other / "build", path, "float32", threads)
    rates = {name: [] for name in rivals}
    for i in range(rounds + 1):  # the first is for warming up
        for name, rival in rivals.items():
            rate = rival.turn()
            rates[name] += [rate] if i else []
    for rival in rivals.values():
        rival.end()
    command = f"bench/networks.py --turns {rounds}{' --other SOURCE' if other else ''} {title}"
    ratios, target = [a / b for a, b in zip(rates["bf16"], rates["float32"])], IN_TURNS.get(title)
    report(f"{title}: pictures per second in bf16, times float32", f"at least {target}" if target else "", spread(ratios),
           not target or float(np.median(ratios)) >= target, command)
    for name in ("float32", "bf16"):
        report(f"{title}: pictures per second, {name}", "", spread(rates[name], "{:.1f}"), True, command)
    if other:
        ratios = [a / b for a, b in zip(rates["float32"], rates["other"])]
        report(f"{title}: pictures per second in float32, times those of {other.name}", "at least 0.97", spread(ratios), float(np.median(ratios)) >= 0.97, command)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, help="measure in so many rounds")
    parser.add_argument("--other", type=Path, help="the source of another version, with its build/")
    parser.add_argument("--answer", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("networks", nargs="*", help="their names, or the first of them [all]")
    arguments = parser.parse_args()
    if arguments.answer:
        return answer_turns(*arguments.answer, arguments.threads)
    if arguments.turns and not arguments.networks:
        arguments.networks = list(IN_TURNS)
    golden = json.loads(gzip.open(SOURCE / "tests/golden/networks.json.gz").read())["networks"]
    if not arguments.turns:
        print("| network | side | width | million parameters | MB | pictures/s, float32 | bf16 |\n|---|---|---|---|---|---|---|", flush=True)
    for title, model, counts, options in NETWORKS:
        if arguments.networks and not any(title.startswith(word + ",") or title == word for word in arguments.networks):
            continue
        listed = next(network for network in golden if network["model"] == model and network["facts"].get("stride") != "first" and
                      not any(network["facts"].get(fact) for fact in ("magnitude", "keras")))
        tensors = published(listed["tensors"], counts)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "network.safetensors")
            write(path, tensors)
            if arguments.turns:
                take_turns(title.split(",")[0], path, arguments.turns, arguments.other and arguments.other.resolve(), arguments.threads)
                continue
            width, size, rates = measure(path, arguments.threads, options)
        numbers = sum(int(np.prod(shape)) for shape in tensors.values())
        print(f"| {title} | {size} | {width} | {numbers / 1e6:.1f} | {4 * numbers / 1e6:.0f} | {rates['float32']} | {rates.get('bf16', '–')} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
