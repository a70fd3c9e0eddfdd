#!/usr/bin/env python3
"""Training on an NVIDIA GPU, in turns with timm's networks in PyTorch: seconds of a step, and memory.

    bench/gpu_training.py [--rounds N] [--networks NAME,…] [--batch N] [--numbers bf16|float32] [--no-compile]
    bench/gpu_training.py --alone CHECKPOINT [--device DEVICE] [--batch N] …
        L3A_BUILD     the build folder, with the plug-in and bench_device_training (cmake -DL3A_BENCH=ON)
        --no-compile  without torch.compile, which takes up to some minutes for each network
        --alone       a checkpoint without PyTorch: the time of a step and of its parts; with --device cpu, on the processor

A step is forward, a linear head of 80 classes, the asymmetric loss with a constant focusing factor, backward, and AdamW on all parameters. Pictures
come from the processor's memory, which is pinned for PyTorch. PyTorch computes in bfloat16 by autocast (or in float32 without TF32), in
channels-last layout, with its fused AdamW: as it is, compiled, and with deterministic algorithms. This program is always deterministic. Its memory
is what it plans for the device, that of PyTorch the most that its allocator had in use; neither counts what CUDA takes by itself. A missed target is
printed; it is not an error. Needs PyTorch, timm and safetensors, except with --alone."""
import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

from measured import report, spread

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # which deterministic algorithms want
BUILD = Path(os.environ.get("L3A_BUILD", Path(__file__).resolve().parents[1] / "build"))
# The batches of networks, and the least times eager PyTorch's and torch.compile's rates.
NETWORKS = {"tresnet_m": 256, "resnet50": 256, "vit_base_patch16_224": 128, "vit_tiny_patch16_224": 256}
TARGETS = {"eager": 1.0, "compiled": 0.9}
CLASSES, STEPS = 80, 5
GIB = 2 ** 30


class Own:
    """This library, in a process of its own."""

    def __init__(self, checkpoint, device, numbers, batch, memory=0):
        self.process = subprocess.Popen([BUILD / "bench_device_training", checkpoint, device, numbers, str(batch), str(memory)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench_device_training ended with {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class PyTorch:
    """A network of timm's with a head, which is trained on one batch again and again."""

    def __init__(self, name, batch, numbers, compiled, deterministic):
        import timm
        import torch
        from gpu_networks import fill
        self.torch, self.deterministic = torch, deterministic
        self.numbers = numbers
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        model = timm.create_model(name, num_classes=0)
        fill(model)
        self.model = torch.nn.Sequential(model, torch.nn.Linear(model.num_features, CLASSES)).cuda().train().to(memory_format=torch.channels_last)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-6, fused=True)
        self.pictures = (torch.rand(batch, 3, 224, 224) * 2 - 1).pin_memory()
        labels = torch.zeros(batch * CLASSES)
        labels[::30] = 1
        self.labels = labels.reshape(batch, CLASSES).cuda()
        self.compute = torch.compile(self.forward) if compiled else self.forward
        self.seconds(2)
        self.memory = torch.cuda.max_memory_allocated() - before

    def loss(self, scores):
        torch = self.torch
        p = torch.sigmoid(scores.float())
        q = (p - 0.05).clamp(min=0)
        positive, negative = torch.log(p.clamp(min=1e-8)), torch.log((1 - q).clamp(min=1e-8))
        return -(self.labels * positive + (1 - self.labels) * (q ** 4).detach() * negative).sum()

    def forward(self, pictures):
        with self.torch.autocast("cuda", self.torch.bfloat16, enabled=self.numbers == "bf16"):
            scores = self.model(pictures)
        return self.loss(scores)

    def step(self):
        pictures = self.pictures.cuda(non_blocking=True).to(memory_format=self.torch.channels_last)
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.compute(pictures)
        loss.backward()
        self.optimiser.step()
        return loss

    def seconds(self, steps):
        """Of a step."""
        torch = self.torch
        torch.use_deterministic_algorithms(self.deterministic, warn_only=True)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = self.deterministic, not self.deterministic
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.step()
        begin.record()
        for _ in range(steps):
            self.step().item()  # as a training that looks at its loss
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1000 / steps


def measure(name, options):
    import torch
    from gpu_networks import make
    batch = options.batch or NETWORKS[name]
    command = f"bench/gpu_training.py --networks {name}"
    variants = {"eager": (False, False), "deterministic": (False, True)}
    if not options.no_compile:
        variants["compiled"] = (True, False)
    with tempfile.TemporaryDirectory() as folder:
        make(name, Path(folder))
        own = Own(Path(folder) / "model.safetensors", options.device, options.numbers, batch)
        rivals = {title: PyTorch(name, batch, options.numbers, *how) for title, how in variants.items()}
        own.ask("steps", 2)
        rounds = [{"l3a": own.ask("steps", STEPS)["seconds"], **{title: rival.seconds(STEPS) for title, rival in rivals.items()}}
                  for _ in range(options.rounds)]
        parts, plan = own.ask("parts", STEPS), own.ask("plan")
        own.close()
    print(f"{name}: parts of a step in ms: " + ", ".join(f"{part} {1000 * seconds:.1f}" for part, seconds in parts.items()))
    print(f"{name}: memory in GiB: l3a {plan['memory'] / GIB:.2f}" + "".join(f", {title} {rival.memory / GIB:.2f}" for title, rival in rivals.items()))
    for title in rounds[0]:
        report(f"{name}, {options.numbers}, batch {batch}, pictures per second, {title}", "", spread([batch / one[title] for one in rounds], "{:,.0f}"),
               True, command)
    for title, rival in rivals.items():
        ratios = [one[title] / one["l3a"] for one in rounds]
        target = TARGETS.get(title)
        report(f"{name}: times PyTorch {title}", f">= {target}" if target else "", spread(ratios), not target or sorted(ratios)[len(ratios) // 2] >= target,
               command)
        report(f"{name}: memory, times PyTorch {title}", "<= 1", f"{plan['memory'] / rival.memory:.2f}", plan["memory"] <= rival.memory, command)
    rivals.clear()
    torch.cuda.empty_cache()


def measure_alone(options):
    batch = options.batch or 16
    own = Own(options.alone, options.device, options.numbers, batch)
    own.ask("steps", 1)
    steps, parts, plan = [own.ask("steps", 1) for _ in range(options.rounds)], own.ask("parts", 1), own.ask("plan")
    own.close()
    print(f"batch {batch}, {options.numbers}, on {options.device}: {spread([step['seconds'] for step in steps], '{:.3f}')} s; loss {steps[-1]['loss']:.4g}, "
          f"memory {plan['memory'] / GIB:.2f} GiB" + (", computed twice" if plan["recomputes"] else ""))
    print("parts in ms: " + ", ".join(f"{part} {1000 * seconds:.1f}" for part, seconds in parts.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--batch", type=int)
    parser.add_argument("--numbers", choices=("bf16", "float32"), default="bf16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--alone", metavar="CHECKPOINT")
    options = parser.parse_args()
    if options.alone:
        return measure_alone(options)
    import timm
    import torch
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, "timm", timm.__version__, flush=True)
    for name in options.networks.split(","):
        measure(name, options)
    return None


if __name__ == "__main__":
    main()
