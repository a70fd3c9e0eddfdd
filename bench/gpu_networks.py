#!/usr/bin/env python3
"""Networks on an NVIDIA GPU, in turns with timm's in PyTorch: pictures per second at batch 512, and how far the features are apart.

    bench/gpu_networks.py [--rounds N] [--networks NAME,…] [--no-compile]
        L3A_BUILD     the build folder, with the plug-in and bench_device_network (cmake -DL3A_BENCH=ON)
        --no-compile  without torch.compile, which takes up to a minute for each network

Needs PyTorch, timm and safetensors. Parameters are made up by each tensor's kind, which makes no difference to the time. A rate is that of the
network alone, with the pictures on the GPU already; `whole` includes their way there from the processor's memory. The limits are those of the
bare matrix products, attention and convolutions, measured once on an H200. A missed target is printed; it is not an error."""
import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import timm
import torch
from safetensors.torch import save_file

from measured import report, spread

BUILD = Path(os.environ.get("L3A_BUILD", Path(__file__).resolve().parents[1] / "build"))
BATCH, COMPARED = 512, 500
# name in timm, its mean if the tensors do not show it, and the bare operations' pictures per second
NETWORKS = {"tresnet_m": (None, 47700), "resnet50": (None, 52400), "vit_base_patch16_224": (0.5, 17500), "vit_tiny_patch16_224": (0.5, 135800)}
COMMAND = "bench/gpu_networks.py --networks {}"


def fill(model):
    """Numbers with which values neither grow nor vanish."""
    draw = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if not tensor.is_floating_point() or name.endswith("filt"):
                continue
            u = torch.rand(tensor.shape, generator=draw)
            if name.endswith("running_var") or (tensor.dim() == 1 and name.endswith("weight")):
                tensor.copy_(0.5 + u)
            elif tensor.dim() == 1 or name in ("cls_token", "pos_embed"):
                tensor.copy_(0.2 * (u - 0.5))
            else:
                tensor.copy_((2 * u - 1) * (3 * tensor.shape[0] / tensor.numel()) ** 0.5)


def make(name, folder):
    """The network in PyTorch, and its checkpoint."""
    model = timm.create_model(name, num_classes=0).eval()
    fill(model)
    save_file({key: value.contiguous() for key, value in model.state_dict().items() if not key.endswith("num_batches_tracked")},
              folder / "model.safetensors")
    mean = NETWORKS[name][0]
    if mean is not None:
        pretrained = {"mean": [mean] * 3, "std": [mean] * 3, "input_size": [3, 224, 224]}
        (folder / "config.json").write_text(json.dumps({"architecture": name, "num_classes": 0, "pretrained_cfg": pretrained}))
    return model


class Own:
    """The same network of this library, in a process of its own."""

    def __init__(self, folder, precision):
        self.process = subprocess.Popen([BUILD / "bench_device_network", folder / "model.safetensors", precision], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def features(self, pictures, folder):
        pictures.tofile(folder / "pictures")
        width = self.ask("compute", len(pictures), folder / "pictures", folder / "features")["width"]
        return np.fromfile(folder / "features", np.float32).reshape(len(pictures), width).astype(np.float64)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def rate_of(run, pictures):
    """Pictures per second of a function on the GPU."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.no_grad():
        run(pictures)
        begin.record()
        for _ in range(10):
            run(pictures)
        end.record()
    torch.cuda.synchronize()
    return 10 * len(pictures) / (begin.elapsed_time(end) / 1000)


def compare(name, model, folder):
    """Features of random pictures, against PyTorch's in float32."""
    pictures = (torch.rand(COMPARED, 3, 224, 224, generator=torch.Generator().manual_seed(3)) * 2 - 1).numpy()
    with torch.no_grad():
        expected = torch.cat([model(torch.from_numpy(part).cuda()) for part in np.array_split(pictures, 10)]).cpu().numpy().astype(np.float64)
    for precision, most in ("float32", 1e-4), ("float16", None), ("bf16", None):
        own = Own(folder, precision)
        found = own.features(pictures, folder)
        own.close()
        apart = np.linalg.norm(found - expected) / np.linalg.norm(expected)
        cosine = ((found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)).min()
        command = COMMAND.format(name)
        if most:
            report(f"{name} in {precision}: relative difference from PyTorch's float32", f"at most {most:g}", f"{apart:.1e}", apart <= most, command)
        else:
            report(f"{name} in {precision}: smallest cosine to float32 over {COMPARED} pictures", "0.9995", f"{cosine:.6f}", cosine >= 0.9995, command)


def measure(name, model, folder, options):
    pictures = torch.rand(BATCH, 3, 224, 224, device="cuda").half().to(memory_format=torch.channels_last)
    model = model.half().to(memory_format=torch.channels_last)
    rivals = {"eager PyTorch": model} if options.no_compile else {"torch.compile": torch.compile(model), "eager PyTorch": model}
    own = Own(folder, "float16")
    rates = {"own": [], "whole": [], **{rival: [] for rival in rivals}}
    for run in rivals.values():
        rate_of(run, pictures)
    for _ in range(options.rounds):
        rates["own"].append(own.ask("measure")["rate"])
        for rival, run in rivals.items():
            rates[rival].append(rate_of(run, pictures))
        rates["whole"].append(own.ask("whole")["rate"])
    own.close()
    command, limit = COMMAND.format(name), NETWORKS[name][1]
    for what, values in rates.items():
        report(f"{name}, float16, batch {BATCH}, pictures per second, {what}", "", spread(values, "{:,.0f}"), True, command)
    for rival in rivals:
        ratios = [one / other for one, other in zip(rates["own"], rates[rival])]
        target = "1.0" if rival == "torch.compile" else ""
        report(f"{name}: times {rival}", target, spread(ratios), sorted(ratios)[len(ratios) // 2] >= 1, command)
    report(f"{name}: share of the bare operations' {limit:,}", "", spread([value / limit for value in rates["own"]]), True, command)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "timm", timm.__version__, flush=True)
    for name in options.networks.split(","):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            model = make(name, folder).cuda()
            compare(name, model, folder)
            measure(name, model, folder, options)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
