#!/usr/bin/env python3
"""Trains the backbone of `l3a demo`, models/demo_backbone.safetensors: a narrow residual network with bottlenecks, on drawn scenes of
256 things, none of which is a class of the demo (tools/draw_training.c). Each scene shows one to five of them; the loss is the binary
cross entropy, summed over things. The network is saved up to the mean of its last layer: 512 features.

    cc -O2 -ffp-contract=off -Isrc tools/draw_training.c src/draw/{raster,recipe,scene,things}.c -lm -o draw_training
    python3 tools/train_demo_backbone.py --tool ./draw_training --out models

Needs PyTorch; with a GPU it takes minutes. Writes demo_backbone.safetensors (convolutions as float16, the rest as float32) and
demo_backbone.json, which records how it was made and how well it does on unseen scenes."""
import argparse
import hashlib
import json
import math
import os
import struct
import subprocess
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SIDE, THINGS, WIDTH, BLOCKS, INPUT = 160, 256, 16, (2, 2, 2, 1), 224
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride, shortcut):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = None
        if shortcut:
            self.downsample = nn.Sequential(nn.Conv2d(before, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + (self.downsample(x) if self.downsample else x))


class Network(nn.Module):
    """Has the tensor names of torchvision's ResNets."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False), nn.BatchNorm2d(WIDTH)
        before = WIDTH
        for stage, blocks in enumerate(BLOCKS):
            width, parts = WIDTH << stage, []
            for i in range(blocks):
                parts.append(Bottleneck(before, width, 2 if stage and not i else 1, not i))
                before = 4 * width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*parts))
        self.head = nn.Linear(before, THINGS)

    def features(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in range(len(BLOCKS)):
            x = getattr(self, f"layer{stage + 1}")(x)
        return x.mean((2, 3))

    def forward(self, x):
        return self.head(F.dropout(self.features(x), 0.1, self.training))


def draw(tool, folder, first, count, seed):
    """Scenes first … first + count - 1 of a seed, drawn by one process per processor."""
    parts = min(os.cpu_count(), count)
    bounds = [first + count * i // parts for i in range(parts + 1)]
    stems = [os.path.join(folder, f"{seed}-{first}-{i}") for i in range(parts)]
    running = [subprocess.Popen([tool, stem, str(a), str(b - a), str(seed)]) for stem, a, b in zip(stems, bounds, bounds[1:])]
    if any([process.wait() for process in running]):
        raise SystemExit("drawing failed")
    pictures = torch.empty((count, SIDE, SIDE, 3), dtype=torch.uint8)
    labels = torch.empty((count, THINGS), dtype=torch.uint8)
    for stem, a, b in zip(stems, bounds, bounds[1:]):
        for name, into in (("pictures", pictures), ("labels", labels)):
            path = f"{stem}.{name}"
            into[a - first:b - first] = torch.from_numpy(np.fromfile(path, np.uint8)).view(b - a, *into.shape[1:])
            os.remove(path)
    return pictures, labels


def prepare(pictures, training):
    """Turns bytes into the network's input. In training, pictures are mirrored, lit differently, shifted, and given the soft colours of a JPEG file."""
    x = pictures.permute(0, 3, 1, 2).float().div(255)
    if training:
        count, device = len(x), x.device
        flip = torch.rand(count, 1, 1, 1, device=device) < 0.5
        x = torch.where(flip, x.flip(3), x)
        light = x.mean(1, keepdim=True)
        soft = F.interpolate(F.avg_pool2d(x - light, 2), scale_factor=2, mode="bilinear", align_corners=False)
        x = torch.where(torch.rand(count, 1, 1, 1, device=device) < 0.5, light + soft, x)
        x = (x - 0.5) * (0.85 + 0.3 * torch.rand(count, 1, 1, 1, device=device)) + 0.5
        x = x + 0.1 * torch.rand(count, 3, 1, 1, device=device) - 0.05
        shift = torch.randint(-12, 13, (2,)).tolist()
        x = torch.roll(x, shift, (2, 3)).clamp(0, 1)
    x = F.interpolate(x, INPUT, mode="bilinear", align_corners=False)
    mean, deviation = (torch.tensor(v, device=x.device).view(1, 3, 1, 1) for v in (MEAN, DEVIATION))
    return ((x - mean) / deviation).contiguous(memory_format=torch.channels_last)


def average_precision(scores, labels):
    """Average precision in percent, averaged over things."""
    order = scores.argsort(0, descending=True)
    hits = labels.gather(0, order).double()
    precision = hits.cumsum(0) / torch.arange(1, len(hits) + 1, device=hits.device).view(-1, 1)
    return float(100 * ((precision * hits).sum(0) / hits.sum(0).clamp(min=1))[hits.sum(0) > 0].mean())


@torch.no_grad()
def measure(network, pictures, labels, device):
    network.eval()
    scores = torch.cat([network(prepare(part.to(device), False)).float() for part in pictures.split(500)])
    return average_precision(scores, labels.to(device))


def train(network, pictures, labels, options, device):
    groups = [{"params": [p for p in network.parameters() if p.ndim > 1], "weight_decay": 0.03},
              {"params": [p for p in network.parameters() if p.ndim <= 1], "weight_decay": 0}]
    optimiser = torch.optim.AdamW(groups, lr=options.rate)
    steps = options.epochs * (len(pictures) // options.batch)
    warm = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda i: (i + 1) / warm if i < warm else 0.5 * (1 + math.cos(math.pi * (i - warm) / max(1, steps - warm))))
    started, total = time.time(), torch.zeros((), device=device)
    network.train()
    for epoch in range(options.epochs):
        order = torch.randperm(len(pictures)).to(pictures.device)
        for rows in order.split(options.batch):
            if len(rows) < options.batch:
                break
            x, y = prepare(pictures[rows].to(device), True), labels[rows].to(device).float()
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                scores = network(x)
            loss = F.binary_cross_entropy_with_logits(scores.float(), y, reduction="sum") / len(rows)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.detach()
        print(f"epoch {epoch + 1}: loss {float(total) / (len(pictures) // options.batch):.4f}, {time.time() - started:.0f} s", flush=True)
        total.zero_()
    return time.time() - started


def rounded(network):
    """The tensors as they are saved, rounded; the network is set to the rounded values."""
    tensors = {}
    for name, value in network.state_dict().items():
        if name.startswith("head.") or name.endswith("num_batches_tracked"):
            continue
        tensors[name] = value.cpu().half() if value.ndim == 4 else value.cpu().float()
        value.copy_(tensors[name])
    return tensors


def save(tensors, records, path):
    """safetensors: the length of the header, the header, the tensors."""
    header, offset = {"__metadata__": records}, 0
    for name, value in tensors.items():
        size = value.numel() * value.element_size()
        header[name] = {"dtype": "F16" if value.dtype == torch.float16 else "F32", "shape": list(value.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            file.write(value.contiguous().numpy().tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default="./draw_training")
    parser.add_argument("--out", default="models")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pictures", type=int, default=300000)
    parser.add_argument("--held-out", type=int, default=10000)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rate", type=float, default=0.004)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory() as folder:
        started = time.time()
        pictures, labels = draw(options.tool, folder, 0, options.pictures, options.seed)
        unseen, unseen_labels = draw(options.tool, folder, options.pictures, options.held_out, options.seed)
        print(f"{options.pictures} + {options.held_out} scenes drawn in {time.time() - started:.0f} s", flush=True)
    if device.type == "cuda":
        pictures, labels = pictures.to(device), labels.to(device)
    network = Network().to(device).to(memory_format=torch.channels_last)
    seconds = train(network, pictures, labels, options, device)
    tensors = rounded(network)
    accuracy = measure(network, unseen, unseen_labels, device)
    parameters = sum(value.numel() for value in tensors.values())
    records = {"trained_by": "tools/train_demo_backbone.py", "seed": str(options.seed), "held_out_map": f"{accuracy:.2f}"}
    os.makedirs(options.out, exist_ok=True)
    path = os.path.join(options.out, "demo_backbone.safetensors")
    save(tensors, records, path)
    made = open(path, "rb").read()
    about = {"family": "resnet, bottlenecks", "width": WIDTH, "blocks": list(BLOCKS), "features": 4 * WIDTH << (len(BLOCKS) - 1),
             "parameters": parameters, "bytes": len(made), "sha256": hashlib.sha256(made).hexdigest(), "things": THINGS,
             "pictures": options.pictures, "epochs": options.epochs, "batch": options.batch, "rate": options.rate,
             "seed": options.seed, "held_out_pictures": options.held_out, "held_out_map": round(accuracy, 2),
             "seconds": round(seconds), "torch": torch.__version__,
             "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu"}
    with open(os.path.join(options.out, "demo_backbone.json"), "w") as file:
        json.dump(about, file, indent=2)
        file.write("\n")
    print(json.dumps(about, indent=2))


if __name__ == "__main__":
    main()
