"""Networks of every family at a small size, with all the variants that a checkpoint can have, against PyTorch forwards written here.

The forwards are in double precision and, to know what single precision costs, in float32: the features and the other outputs of both
back ends may differ from the double ones by the larger of 1e-5 and twice what PyTorch's own float32 differs (relative L2). What a
forward does is what the papers and timm's documentation say of the network. Skips with 77 where torch is missing."""
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
import feature_file
from support import skip

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    skip("torch is not installed")

BUILD = Path(os.environ["L3A_BUILD"])
PICTURES = 9  # a whole batch and one alone, which take different ways through the library


class Tensors(dict):
    """Made as they are asked for by the forward: a name, a shape, and numbers that depend on the name."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed

    def make(self, name, *shape):
        rng = np.random.default_rng([self.seed, *name.encode()])
        values = rng.standard_normal(shape)
        if name.endswith("running_var") or name.endswith("gamma") or (len(shape) == 1 and name.endswith("weight")):
            values = 0.5 + rng.random(shape)
        elif len(shape) > 1 and name.endswith("weight"):
            values = values / math.sqrt(np.prod(shape[1:]))
        else:
            values = 0.3 * values
        self[name] = values.astype(np.float32)


class Forward:
    """A network over named tensors in one precision."""

    def __init__(self, tensors, kind):
        self.w = {name: torch.from_numpy(values).to(kind) for name, values in tensors.items()}
        self.outputs = {}

    def linear(self, x, name):
        return F.linear(x, self.w[name + ".weight"], self.w.get(name + ".bias"))

    def conv(self, x, name, stride=1, padding=0, groups=1):
        return F.conv2d(x, self.w[name + ".weight"], self.w.get(name + ".bias"), stride, padding, groups=groups)

    def layer_norm(self, x, name, epsilon):
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"], epsilon)

    def pixel_norm(self, x, name, epsilon):
        return self.layer_norm(x.permute(0, 2, 3, 1), name, epsilon).permute(0, 3, 1, 2)

    def batch_norm(self, x, name, epsilon):
        parts = [self.w[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        return F.batch_norm(x, *parts, training=False, eps=epsilon)


ACTIVATIONS = {"gelu": F.gelu, "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
               "tanh_gelu": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))}


def add_linear(tensors, name, out, into, bias=True):
    tensors.make(name + ".weight", out, into)
    if bias:
        tensors.make(name + ".bias", out)


def add_norm(tensors, name, width):
    tensors.make(name + ".weight", width)
    tensors.make(name + ".bias", width)


# ---- Vision transformers ----

class ViT:
    """Settings are the facts of the variant; `settings` of a case are those of the program."""

    def __init__(self, width=64, heads=4, depth=2, patch=4, across=3, hidden=96, classes=1, between=None, count=0, positions="all", scaled=False,
                 before=False, after=False, maps=False, projection=0, head_bias=False, qkv_bias=True, epsilon=1e-6, activation="gelu"):
        self.__dict__.update(locals())
        self.side = patch * across

    def tensors(self, seed):
        w, width = Tensors(seed), self.width
        w.make("patch_embed.proj.weight", width, 3, self.patch, self.patch)
        if not self.before:
            w.make("patch_embed.proj.bias", width)
        own = self.across**2
        if self.classes:
            w.make("cls_token", 1, 1, width)
        if self.between:
            w.make(self.between, 1, self.count, width)
        w.make("pos_embed", 1, own + {"none": 0, "class": self.classes, "all": self.classes + self.count}[self.positions], width)
        if self.before:
            add_norm(w, "norm_pre", width)
        for i in range(self.depth):
            block = f"blocks.{i}."
            add_norm(w, block + "norm1", width)
            add_linear(w, block + "attn.qkv", 3 * width, width, self.qkv_bias)
            add_linear(w, block + "attn.proj", width, width)
            add_norm(w, block + "norm2", width)
            add_linear(w, block + "mlp.fc1", self.hidden, width)
            add_linear(w, block + "mlp.fc2", width, self.hidden)
            if self.scaled:
                w.make(block + "ls1.gamma", width)
                w.make(block + "ls2.gamma", width)
        add_norm(w, "fc_norm" if self.after else "norm", width)
        if self.maps:
            w.make("attn_pool.latent", 1, 1, width)
            add_linear(w, "attn_pool.q", width, width)
            add_linear(w, "attn_pool.kv", 2 * width, width)
            add_linear(w, "attn_pool.proj", width, width)
            add_norm(w, "attn_pool.norm", width)
            add_linear(w, "attn_pool.mlp.fc1", 2 * width, width)
            add_linear(w, "attn_pool.mlp.fc2", width, 2 * width)
        if self.scaled and self.patch == 14:
            w.make("mask_token", 1, width)
        add_linear(w, "head", self.projection or 10, width, self.head_bias or not self.projection)
        return w

    def attend(self, q, k, v):
        def divide(x):
            return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

        q, k, v = divide(q), divide(k), divide(v)
        shares = (q @ k.transpose(-2, -1) / math.sqrt(self.width / self.heads)).softmax(-1)
        return (shares @ v).transpose(1, 2).flatten(2)

    def mlp(self, net, x, prefix, norm):
        y = ACTIVATIONS[self.activation](net.linear(net.layer_norm(x, norm, self.epsilon), prefix + "mlp.fc1"))
        return net.linear(y, prefix + "mlp.fc2")

    def forward(self, net, pictures, pool, layer=0):
        w, n = net.w, len(pictures)
        x = net.conv(pictures, "patch_embed.proj", self.patch).flatten(2).transpose(1, 2)
        front = [w[name].expand(n, -1, -1) for name in ("cls_token", self.between) if name in w]
        if self.positions == "none":
            x = torch.cat([*front, x + w["pos_embed"]], 1)
        elif self.positions == "class":
            x = torch.cat([*front[:self.classes], x], 1) + w["pos_embed"]
            x = torch.cat([x[:, :self.classes], *front[self.classes:], x[:, self.classes:]], 1)
        else:
            x = torch.cat([*front, x], 1) + w["pos_embed"]
        if self.before:
            x = net.layer_norm(x, "norm_pre", self.epsilon)
        for i in range(layer or self.depth):
            block = f"blocks.{i}."
            q, k, v = net.linear(net.layer_norm(x, block + "norm1", self.epsilon), block + "attn.qkv").chunk(3, -1)
            y = net.linear(self.attend(q, k, v), block + "attn.proj")
            x = x + (w[block + "ls1.gamma"] * y if self.scaled else y)
            y = self.mlp(net, x, block, block + "norm2")
            x = x + (w[block + "ls2.gamma"] * y if self.scaled else y)
        if not self.after:
            x = net.layer_norm(x, "norm", self.epsilon)
        net.outputs["tokens"] = x.transpose(1, 2)[..., None]
        x = self.pool(net, x, pool)
        return net.layer_norm(x, "fc_norm", self.epsilon) if self.after else x

    def pool(self, net, x, pool):
        own = x[:, self.classes + self.count:]
        if pool == "cls":
            return x[:, 0]
        if pool == "mean":
            return own.mean(1)
        if pool == "max":
            return own.amax(1)
        if pool == "cls+mean":
            return torch.cat([x[:, 0], own.mean(1)], -1)
        if pool == "projection":
            return net.linear(x[:, 0], "head")
        query = net.linear(net.w["attn_pool.latent"].expand(len(x), -1, -1), "attn_pool.q")
        y = net.linear(self.attend(query, *net.linear(x, "attn_pool.kv").chunk(2, -1)), "attn_pool.proj")
        return (y + self.mlp(net, y, "attn_pool.", "attn_pool.norm"))[:, 0]


DINO = {"scaled": True, "patch": 14, "across": 2}
CLIP = {"before": True, "epsilon": 1e-5}
SIGLIP = {"classes": 0, "maps": True, "activation": "tanh_gelu"}

# name, network, default pool, other pools, settings that the tensors do not show
TRANSFORMERS = [
    ("vit", ViT(), "cls", ["mean", "cls+mean", "max"], {}),
    ("vit, heads of 80", ViT(width=160, heads=2), "cls", ["cls+mean"], {}),
    ("vit, one head of 24", ViT(width=24, heads=1), "mean", [], {"pool": "mean"}),
    ("vit, layer 1", ViT(depth=3), "cls", ["mean"], {"layer": 1}),
    ("vit, no bias of queries", ViT(qkv_bias=False), "cls", [], {}),
    ("vit, epsilon and tanh", ViT(epsilon=0.01, activation="tanh_gelu"), "cls", [], {"epsilon": 0.01, "activation": "tanh_gelu"}),
    ("vit, 197 tokens", ViT(across=14), "cls", ["max"], {}),
    ("mae, fine-tuned", ViT(after=True), "mean", ["cls", "max"], {}),
    ("deit, distilled", ViT(between="dist_token", count=1), "cls", ["mean", "max"], {}),
    ("deit 3", ViT(scaled=True, positions="none"), "cls", ["mean"], {}),
    ("dinov2", ViT(**DINO), "cls", ["mean", "cls+mean"], {}),
    ("dinov2, layer 2", ViT(**DINO, depth=3), "cls", ["mean"], {"layer": 2}),
    ("dinov2, registers", ViT(**DINO, between="reg_token", count=4, positions="none"), "cls", ["mean", "cls+mean", "max"], {}),
    ("dinov2, registers without positions", ViT(**DINO, between="reg_token", count=4, positions="class"), "cls", ["mean"], {}),
    ("dinov2, registers with positions", ViT(**DINO, between="reg_token", count=4), "cls", ["mean"], {}),
    ("registers and no class token", ViT(classes=0, between="reg_token", count=3, positions="none", after=True), "mean", ["max"], {}),
    ("clip, quick", ViT(**CLIP, activation="quick_gelu", projection=48), "cls", ["projection", "mean"], {"activation": "quick_gelu"}),
    ("clip", ViT(**CLIP, projection=32, head_bias=True, width=160, heads=2), "cls", ["projection"], {"activation": "gelu"}),
    ("siglip", ViT(**SIGLIP), "map", ["mean", "max"], {"activation": "tanh_gelu"}),
    ("siglip, heads of 72", ViT(**SIGLIP, width=144, heads=2, across=5), "map", [], {"activation": "tanh_gelu"}),
    ("siglip, no pool", ViT(classes=0), "mean", ["max"], {"activation": "gelu"}),
]


# ---- Residual networks ----

def add_batch_norm(tensors, name, width):
    for part in ("weight", "bias", "running_mean", "running_var"):
        tensors.make(f"{name}.{part}", width)


class ResNet:
    def __init__(self, width=16, inner=16, out=64, groups=1, blocks=(2, 1, 1, 1), side=64, biased=False, stride_first=False, epsilon=1e-5):
        self.__dict__.update(locals())
        self.bottleneck = out != inner

    def add_conv(self, tensors, name, norm, out, into, kernel, groups=1):
        tensors.make(name + ".weight", out, into // groups, kernel, kernel)
        if self.biased:
            tensors.make(name + ".bias", out)
        add_batch_norm(tensors, norm, out)

    def tensors(self, seed):
        w, before = Tensors(seed), self.width
        self.add_conv(w, "conv1", "bn1", before, 3, 7)
        for stage, count in enumerate(self.blocks):
            inner, out = self.inner << stage, self.out << stage
            for i in range(count):
                block = f"layer{stage + 1}.{i}."
                if self.bottleneck:
                    self.add_conv(w, block + "conv1", block + "bn1", inner, before, 1)
                    self.add_conv(w, block + "conv2", block + "bn2", inner, inner, 3, self.groups)
                    self.add_conv(w, block + "conv3", block + "bn3", out, inner, 1)
                else:
                    self.add_conv(w, block + "conv1", block + "bn1", out, before, 3)
                    self.add_conv(w, block + "conv2", block + "bn2", out, out, 3)
                if not i and (stage or self.bottleneck):
                    self.add_conv(w, block + "downsample.0", block + "downsample.1", out, before, 1)
                before = out
        add_linear(w, "fc", 10, before)
        return w

    def forward(self, net, x, pool):
        def unit(x, block, number, stride=1, groups=1):
            padding = net.w[f"{block}conv{number}.weight"].shape[-1] // 2
            return net.batch_norm(net.conv(x, f"{block}conv{number}", stride, padding, groups), f"{block}bn{number}", self.epsilon)

        x = F.max_pool2d(F.relu(unit(x, "", 1, 2)), 3, 2, 1)
        for stage, count in enumerate(self.blocks):
            for i in range(count):
                block, stride = f"layer{stage + 1}.{i}.", 2 if stage and not i else 1
                if self.bottleneck:
                    early, late = (stride, 1) if self.stride_first else (1, stride)
                    y = F.relu(unit(x, block, 1, early))
                    y = unit(F.relu(unit(y, block, 2, late, self.groups)), block, 3)
                else:
                    y = unit(F.relu(unit(x, block, 1, stride)), block, 2)
                if f"{block}downsample.0.weight" in net.w:
                    x = net.batch_norm(net.conv(x, block + "downsample.0", stride), block + "downsample.1", self.epsilon)
                x = F.relu(x + y)
            net.outputs[f"stage{stage + 1}"] = x
        return x.mean((2, 3))


class ConvNeXt:
    def __init__(self, widths=(16, 24, 40, 48), blocks=(1, 2, 1, 1), side=64, biased=True, scaled=True, epsilon=1e-6, activation="gelu"):
        self.__dict__.update(locals())

    def add_conv(self, tensors, name, out, into, kernel):
        tensors.make(name + ".weight", out, into, kernel, kernel)
        if self.biased:
            tensors.make(name + ".bias", out)

    def tensors(self, seed):
        w, before = Tensors(seed), self.widths[0]
        self.add_conv(w, "stem.0", before, 3, 4)
        add_norm(w, "stem.1", before)
        for stage, (width, count) in enumerate(zip(self.widths, self.blocks)):
            if stage:
                add_norm(w, f"stages.{stage}.downsample.0", before)
                self.add_conv(w, f"stages.{stage}.downsample.1", width, before, 2)
            for i in range(count):
                block = f"stages.{stage}.blocks.{i}."
                self.add_conv(w, block + "conv_dw", width, 1, 7)
                add_norm(w, block + "norm", width)
                add_linear(w, block + "mlp.fc1", 4 * width, width)
                add_linear(w, block + "mlp.fc2", width, 4 * width)
                if self.scaled:
                    w.make(block + "gamma", width)
            before = width
        add_norm(w, "head.norm", before)
        add_linear(w, "head.fc", 10, before)
        return w

    def forward(self, net, x, pool):
        x = net.pixel_norm(net.conv(x, "stem.0", 4), "stem.1", self.epsilon)
        for stage, count in enumerate(self.blocks):
            if stage:
                x = net.conv(net.pixel_norm(x, f"stages.{stage}.downsample.0", self.epsilon), f"stages.{stage}.downsample.1", 2)
            for i in range(count):
                block = f"stages.{stage}.blocks.{i}."
                y = net.conv(x, block + "conv_dw", 1, 3, x.shape[1]).permute(0, 2, 3, 1)
                y = net.linear(net.layer_norm(y, block + "norm", self.epsilon), block + "mlp.fc1")
                y = net.linear(ACTIVATIONS[self.activation](y), block + "mlp.fc2").permute(0, 3, 1, 2)
                x = x + (net.w[block + "gamma"][:, None, None] * y if self.scaled else y)
            net.outputs[f"stage{stage + 1}"] = x
        return net.layer_norm(x.mean((2, 3)), "head.norm", self.epsilon)


CONVOLUTIONS = [
    ("resnet, two convolutions", ResNet(out=16), {}),
    ("resnet, three convolutions", ResNet(), {}),
    ("resnet, odd side", ResNet(side=75), {}),
    ("resnet, wide", ResNet(inner=32), {}),
    ("resnext", ResNet(inner=32, groups=8), {}),
    ("resnet, as keras has it", ResNet(biased=True, stride_first=True, epsilon=1.001e-5), {"stride_first": 1, "epsilon": 1.001e-5}),
    ("resnet, stride first and a large epsilon", ResNet(stride_first=True, epsilon=0.1), {"stride_first": 1, "epsilon": 0.1}),
    ("convnext", ConvNeXt(), {}),
    ("convnext, odd side", ConvNeXt(side=75), {}),
    ("convnext, without biases and factors", ConvNeXt(biased=False, scaled=False), {}),
    ("convnext, tanh", ConvNeXt(activation="tanh_gelu", epsilon=1e-5), {"activation": "tanh_gelu", "epsilon": 1e-5}),
]


def read_outputs(data):
    """What tests/oracle/network_outputs.c writes: its first line, and (back end, output, numbers)."""
    line, data = data.split(b"\n", 1)
    found = []
    while data:
        head, data = data.split(b"\n", 1)
        *name, pictures, channels, height, width = head.decode().split(" ")
        shape = [int(size) for size in (pictures, channels, height, width)]
        size = 4 * int(np.prod(shape))
        found.append((name[0], " ".join(name[1:]), np.frombuffer(data[:size], "<f4").reshape(shape)))
        data = data[size:]
    return line.decode(), found


def distance(found, expected):
    return np.linalg.norm(found.astype(np.float64).ravel() - expected.ravel()) / np.linalg.norm(expected)


def compare(folder, title, network, pool, settings):
    tensors = network.tensors(7)
    rng = np.random.default_rng(11)
    pictures = rng.standard_normal((PICTURES, 3, network.side, network.side)).astype(np.float32)
    feature_file.save(folder / "network.safetensors", tensors, {})
    pictures.tofile(folder / "pictures")
    done = subprocess.run([BUILD / "tests" / "network_outputs", folder / "network.safetensors", folder / "pictures",
                           *(f"{name}={value}" for name, value in settings.items())], capture_output=True)
    assert done.returncode == 0, (title, done.stderr.decode())
    expected = []
    for kind in (torch.float64, torch.float32):
        net = Forward(tensors, kind)
        options = {"layer": settings["layer"]} if "layer" in settings else {}
        with torch.no_grad():
            net.outputs["features"] = network.forward(net, torch.from_numpy(pictures).to(kind), pool, **options)[..., None, None]
        net.outputs["only features"] = net.outputs["features"]
        expected.append({name: values.numpy() for name, values in net.outputs.items()})
    line, found = read_outputs(done.stdout)
    back_ends = {back_end for back_end, _, _ in found}
    worst = 0
    for back_end in back_ends:
        assert {name for other, name, _ in found if other == back_end} == set(expected[0]), (title, back_end)
    for back_end, name, values in found:
        exact, single = expected[0][name], expected[1][name]
        assert values.shape == exact.shape, (title, name, values.shape, exact.shape)
        for i in range(PICTURES):
            error, allowed = distance(values[i], exact[i]), max(1e-5, 2 * distance(single[i], exact[i]))
            assert error <= allowed, (title, back_end, name, i, error, allowed)
            worst = max(worst, error)
    print(f"{title}, {pool}: {', '.join(sorted(back_ends))}: {worst:.1e}; torch's float32: "
          f"{distance(expected[1]['features'], expected[0]['features']):.1e}; {line}")


def main():
    if len(sys.argv) > 1:  # those whose titles contain it
        TRANSFORMERS[:] = [case for case in TRANSFORMERS if sys.argv[1] in case[0]]
        CONVOLUTIONS[:] = [case for case in CONVOLUTIONS if sys.argv[1] in case[0]]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for title, network, pool, others, settings in TRANSFORMERS:
            settings = {"heads": network.heads, **settings}
            compare(folder, title, network, pool, settings)
            for other in others:
                compare(folder, title, network, other, {**settings, "pool": other})
        for title, network, settings in CONVOLUTIONS:
            compare(folder, title, network, "average", {"side": network.side, **settings})
    return 0


if __name__ == "__main__":
    sys.exit(main())
