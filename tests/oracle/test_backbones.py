"""Backbones against numbers made elsewhere.

golden    embeddings of timm's models (float64) under weights that are filled in from the tensors' names; relative error at most 1e-4.
          All of them with L3A_ALL=1, otherwise one or two of each family.
heads     vision transformers with the heads that their authors gave them, against a NumPy forward written here, and what the program does
          with networks whose heads it cannot know.
layers    every layer of one network of each family against a PyTorch forward written here; skipped where torch is missing.
pictures  a real ViT-Tiny on real pictures, read by the library's loader, against PyTorch: cosine at least 0.99999 for each.

Skips with 77 where the shared data are missing."""
import ctypes
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import feature_file
from golden_fill import fill_all, input_picture, uniform
from library import BUILD, Library, Refused, sized, texts

SHARED = os.environ.get("L3A_SHARED", "")
QUICK = ["vit_tiny_patch16_224", "resnet18", "resnet50", "tresnet_m", "tresnet_m_abn"]

# Width, depth and heads as published: embed_dim, depth and num_heads of the functions of these names in timm/models/vision_transformer.py
# (huggingface/pytorch-image-models). Table 1 of Dosovitskiy et al., 2021, has the same base, large and huge, table 1 of Touvron et al., 2021,
# the same tiny and small, and Zhai et al., 2022, the same giant and gigantic. Files of tensors do not tell the heads.
PUBLISHED = {
    "vit_tiny_patch16": (192, 12, 3),
    "vit_small_patch16": (384, 12, 6),
    "vit_base_patch16": (768, 12, 12),
    "vit_large_patch16": (1024, 24, 16),
    "vit_medium_patch16": (512, 12, 8),
    "vit_huge_patch14": (1280, 32, 16),
    "vit_giant_patch14": (1408, 40, 16),
    "vit_gigantic_patch14": (1664, 48, 16),
}
KNOWN = ["vit_tiny_patch16", "vit_small_patch16", "vit_base_patch16", "vit_large_patch16"]  # to the program; it must refuse the others
MOCO_SMALL = (384, 12, 12)  # vit_small in vits.py of facebookresearch/moco-v3: timm's small, with twice as many heads


class Backbones(Library):
    def open(self, path, **settings):
        backbone = ctypes.c_void_p()
        self.backbone_open(path.encode(), ctypes.byref(sized("l3a_backbone_options", **settings)), ctypes.byref(backbone))
        return backbone

    def info(self, backbone):
        return self.backbone_describe(backbone).contents

    def run(self, backbone, pictures):
        pictures = np.ascontiguousarray(pictures, np.float32)
        features = np.empty((len(pictures), self.info(backbone).width), np.float32)
        self.check(self.backbone_run(backbone, pictures.ctypes.data, len(pictures), features.ctypes.data))
        return features

    def close(self, backbone):
        self.backbone_free(backbone)

    def load(self, paths, info):
        loader, index, names = ctypes.c_void_p(), ctypes.c_size_t(), texts(paths)  # which the loader keeps
        options = sized("l3a_loader_options", width=info.size, height=info.size, mean=info.mean, deviation=info.deviation, filter=info.filter)
        self.loader_create(names, len(paths), ctypes.byref(options), ctypes.byref(loader))
        pictures = np.empty((len(paths), 3, info.size, info.size), np.float32)
        for picture in pictures:
            self.check(self.loader_next(loader, ctypes.byref(index), picture.ctypes.data))
        self.loader_free(loader)
        return pictures


def filled(model, tensors):
    return fill_all(tensors, {"negated": ["body.conv1.1.weight"]} if model == "tresnet_m_abn" else {})


def write_safetensors(path, weights):
    feature_file.save(path, {name: np.ascontiguousarray(values, np.float32) for name, values in weights.items()},
                      {"l3a.mean": "0.5", "l3a.std": "0.5"} if "cls_token" in weights else {})


def test_golden(library, golden, folder):
    names = list(golden) if os.environ.get("L3A_ALL") == "1" else QUICK[:2] if os.environ.get("L3A_QUICK") else QUICK
    worst = 0
    for name in names:
        path = os.path.join(folder, name + ".safetensors")
        write_safetensors(path, filled(name, golden[name]["tensors"]))
        backbone = library.open(path)
        os.remove(path)
        expected = np.array(golden[name]["embedding"])
        info = library.info(backbone)
        # nine pictures: a whole batch and one alone, which take different ways through the library
        features = library.run(backbone, np.repeat(input_picture(224), 9, axis=0))
        errors = np.linalg.norm(features - expected, axis=1) / np.linalg.norm(expected)
        print(f"golden {name}: {info.name.decode()}, {info.engine.decode()}, {info.flops / 2e9:.2f} GMAC, "
              f"{info.parameters / 1e6:.1f} M, relative error {errors[0]:.2e} in a batch, {errors[-1]:.2e} alone")
        worst = max(worst, errors.max())
        library.close(backbone)
    assert worst <= 1e-4, worst


def small_vit(seed, width, depth, patch=16, across=2):
    """Tensors of a vision transformer for pictures of `across` x `across` patches. Its inner layers are narrow, to be quick."""
    rng = np.random.default_rng(seed)
    hidden = 64
    shapes = {"cls_token": (1, 1, width), "pos_embed": (1, across**2 + 1, width), "norm.weight": (width,), "norm.bias": (width,),
              "patch_embed.proj.weight": (width, 3, patch, patch), "patch_embed.proj.bias": (width,)}
    for i in range(depth):
        for name, shape in {"norm1.weight": (width,), "norm1.bias": (width,), "attn.qkv.weight": (3 * width, width), "attn.qkv.bias": (3 * width,),
                            "attn.proj.weight": (width, width), "attn.proj.bias": (width,), "norm2.weight": (width,), "norm2.bias": (width,),
                            "mlp.fc1.weight": (hidden, width), "mlp.fc1.bias": (hidden,), "mlp.fc2.weight": (width, hidden),
                            "mlp.fc2.bias": (width,)}.items():
            shapes[f"blocks.{i}.{name}"] = shape
    return {name: rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(np.prod(shape[1:]))) for name, shape in shapes.items()}


def vit_features(weights, heads, picture):
    """The class token of a vision transformer with that many heads, in double precision."""
    w = {name: values.astype(np.float64) for name, values in weights.items()}
    width, _, patch, _ = w["patch_embed.proj.weight"].shape
    across, depth = picture.shape[1] // patch, sum(name.endswith("norm1.weight") for name in w)

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * w[name + ".weight"] + w[name + ".bias"]

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    patches = picture.reshape(3, across, patch, across, patch).transpose(1, 3, 0, 2, 4).reshape(across**2, -1)
    tokens = patches @ w["patch_embed.proj.weight"].reshape(width, -1).T + w["patch_embed.proj.bias"]
    x = np.concatenate([w["cls_token"][0], tokens]) + w["pos_embed"][0]
    for i in range(depth):
        block = f"blocks.{i}."
        queries, keys, values = linear(norm(x, block + "norm1"), block + "attn.qkv").reshape(len(x), 3, heads, -1).transpose(1, 2, 0, 3)
        alike = np.exp(queries @ keys.transpose(0, 2, 1) / np.sqrt(width / heads))
        mixed = (alike / alike.sum(-1, keepdims=True) @ values).transpose(1, 0, 2).reshape(len(x), width)
        x = x + linear(mixed, block + "attn.proj")
        inner = linear(norm(x, block + "norm2"), block + "mlp.fc1")
        x = x + linear(inner * (1 + np.vectorize(math.erf)(inner / math.sqrt(2))) / 2, block + "mlp.fc2")
    return norm(x, "norm")[0]


def test_heads(library, folder):
    path = os.path.join(folder, "heads.safetensors")
    picture = uniform("heads", 3 * 32 * 32).reshape(3, 32, 32)

    def distance(found, expected):
        return np.linalg.norm(found - expected) / np.linalg.norm(expected)

    for name in KNOWN:
        width, depth, heads = PUBLISHED[name]
        weights = small_vit(1, width, depth)
        write_safetensors(path, weights)
        backbone = library.open(path)
        assert library.info(backbone).name.decode() == f"{name}_32"
        features = library.run(backbone, picture[None])[0]
        library.close(backbone)
        error = distance(features, vit_features(weights, heads, picture))
        print(f"heads {name}: {heads}, relative error {error:.2e}")
        assert error < 1e-5, (name, error)
        if name == "vit_small_patch16":
            # MoCo's network of this size has twice as many heads. Only its own files can be told apart, by their names (test_recipes.py);
            # under timm's it is taken for timm's, and its features are wrong. docs/backbones.md warns of it.
            assert MOCO_SMALL[:2] == (width, depth) and MOCO_SMALL[2] != heads
            error = distance(features, vit_features(weights, MOCO_SMALL[2], picture))
            assert error > 0.01, error
    for name in sorted(PUBLISHED.keys() - KNOWN):
        width, depth, heads = PUBLISHED[name]
        shapes = {"cls_token": (1, 1, width), "pos_embed": (1, 5, width), "patch_embed.proj.weight": (width, 3, 14, 14),
                  **{f"blocks.{i}.norm1.weight": (width,) for i in range(depth)}}
        write_safetensors(path, {tensor: np.zeros(shape, np.float32) for tensor, shape in shapes.items()})
        try:
            library.open(path)
        except Refused as error:
            wanted = f"width {width} and depth {depth}, and its tensors do not show how many attention heads"
            assert wanted in str(error), error
        else:
            raise AssertionError(f"{name} has {heads} heads, and was opened")


def torch_models():
    """Plain PyTorch versions of the three families, under timm's names. Each keeps in `trace` what the library's layers make, in its
    order: an activation or a sum belongs to the layer before it."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Traced(nn.Module):
        trace = None

        def keep(self, x):
            if Traced.trace is not None:
                Traced.trace.append(x.detach().clone())
            return x

    class Block(Traced):  # of a transformer
        def __init__(self, width, hidden, heads):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
            self.attn = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width)})
            self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, hidden), "fc2": nn.Linear(hidden, width)})
            self.heads = heads

        def forward(self, x):
            n, tokens, width = x.shape
            y = self.keep(self.attn["qkv"](self.keep(self.norm1(x))))
            q, k, v = y.reshape(n, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
            y = ((q * (width / self.heads) ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1) @ v
            y = self.keep(y.transpose(1, 2).reshape(n, tokens, width))
            x = self.keep(x + self.attn["proj"](y))
            y = self.keep(F.gelu(self.mlp["fc1"](self.keep(self.norm2(x)))))
            return self.keep(x + self.mlp["fc2"](y))

    class ViT(Traced):
        def __init__(self, name, patch=16, side=224):
            super().__init__()
            width, depth, heads = PUBLISHED[name]
            self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
            self.pos_embed = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
            self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, width, patch, patch)})
            self.blocks = nn.ModuleList(Block(width, 4 * width, heads) for _ in range(depth))
            self.norm = nn.LayerNorm(width, eps=1e-6)

        def forward(self, x):
            x = self.keep(self.patch_embed["proj"](x).flatten(2).transpose(1, 2))
            x = self.keep(torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed)
            for block in self.blocks:
                x = block(x)
            return self.keep(self.norm(x))[:, 0]

    class Residual(Traced):  # of a ResNet
        def __init__(self, before, width, stride, bottleneck, shortcut):
            super().__init__()
            out = 4 * width if bottleneck else width
            sizes = [(before, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)] if bottleneck else [
                (before, width, 3, stride), (width, width, 3, 1)]
            for i, (a, b, kernel, step) in enumerate(sizes, 1):
                setattr(self, f"conv{i}", nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False))
                setattr(self, f"bn{i}", nn.BatchNorm2d(b))
            self.count = len(sizes)
            self.downsample = nn.Sequential(nn.Conv2d(before, out, 1, stride, bias=False), nn.BatchNorm2d(out)) if shortcut else None

        def forward(self, x):
            y = x
            for i in range(1, self.count):
                y = self.keep(F.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y)), inplace=True))
            if self.downsample is not None:
                x = self.keep(self.downsample(x))
            y = getattr(self, f"bn{self.count}")(getattr(self, f"conv{self.count}")(y))
            return self.keep(F.relu(y.add_(x), inplace=True))

    class ResNet(Traced):
        def __init__(self, blocks=(3, 4, 6, 3), bottleneck=True):
            super().__init__()
            self.conv1, self.bn1, before = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), 64
            for stage, count in enumerate(blocks):
                width, layers = 64 << stage, []
                for i in range(count):
                    layers.append(Residual(before, width, 2 if stage and not i else 1, bottleneck, not i and (stage or bottleneck)))
                    before = 4 * width if bottleneck else width
                setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))

        def forward(self, x):
            x = self.keep(F.relu(self.bn1(self.conv1(x)), inplace=True))
            x = self.keep(F.max_pool2d(x, 3, 2, 1))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.keep(x.mean((2, 3)))

    class Part(Traced):  # convolution, norm, activation and blur of a TResNet
        def __init__(self, before, out, kernel, slope=None, blurred=False):
            super().__init__()
            self.conv, self.bn, self.slope = nn.Conv2d(before, out, kernel, 1, kernel // 2, bias=False), nn.BatchNorm2d(out), slope
            taps = torch.tensor([1.0, 2.0, 1.0]) / 4
            self.register_buffer("taps", (taps[:, None] * taps).repeat(out, 1, 1, 1) if blurred else None, persistent=False)

        def forward(self, x):
            x = self.bn(self.conv(x))
            if self.slope is not None:
                x = self.keep(F.leaky_relu(x, self.slope, inplace=True))
            if self.taps is not None:
                x = self.keep(F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), self.taps, stride=2, groups=len(self.taps)))
            return x

    class Excite(Traced):
        def __init__(self, width, hidden):
            super().__init__()
            self.fc1, self.fc2 = nn.Conv2d(width, hidden, 1), nn.Conv2d(hidden, width, 1)

        def forward(self, x):
            return x * torch.sigmoid(self.fc2(F.relu(self.fc1(x.mean((2, 3), keepdim=True)), inplace=True)))

    class TBlock(Traced):
        def __init__(self, before, width, halve, bottleneck, excite):
            super().__init__()
            out = 4 * width if bottleneck else width
            if bottleneck:
                self.conv1, self.conv2 = Part(before, width, 1, 1e-3), Part(width, width, 3, 1e-3, halve)
                self.conv3 = Part(width, out, 1)
            else:
                self.conv1, self.conv2 = Part(before, width, 3, 1e-3, halve), Part(width, width, 3)
            self.se = Excite(width, max(out // (8 if bottleneck else 4), 64)) if excite else None
            self.downsample = nn.Sequential(nn.AvgPool2d(2, 2, ceil_mode=True, count_include_pad=False),
                                            Part(before, out, 1)) if halve else None
            self.bottleneck = bottleneck

        def shortcut(self, x):
            return x if self.downsample is None else self.keep(self.downsample[1](self.keep(self.downsample[0](x))))

        def forward(self, x):
            y = self.conv2(self.conv1(x))
            if not self.bottleneck:
                self.keep(y)
                x = self.shortcut(x)
                return self.keep(F.relu(self.se(y) + x, inplace=True))
            if self.se is not None:
                y = self.keep(self.se(y))
            x = self.shortcut(x)
            return self.keep(F.relu(self.conv3(y) + x, inplace=True))

    class Body(Traced):
        def __init__(self, width, blocks):
            super().__init__()
            self.conv1, before = Part(48, width, 3, 1e-2), width
            for stage, count in enumerate(blocks):
                layers = []
                for i in range(count):
                    layers.append(TBlock(before, width << stage, bool(stage) and not i, stage > 1, stage < 3))
                    before = (width << stage) * (4 if stage > 1 else 1)
                setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))

    class TResNet(Traced):
        def __init__(self, width=64, blocks=(3, 4, 11, 3)):
            super().__init__()
            self.body = Body(width, blocks)

        def forward(self, x):
            n, c, h, w = x.shape
            x = x.view(n, c, h // 4, 4, w // 4, 4).permute(0, 3, 5, 1, 2, 4).reshape(n, c * 16, h // 4, w // 4)
            if x.stride(1) != 1 and self.body.conv1.conv.weight.is_contiguous(memory_format=torch.channels_last):
                x = x.contiguous(memory_format=torch.channels_last)
            body = self.body
            x = body.layer4(body.layer3(body.layer2(body.layer1(body.conv1(self.keep(x))))))
            return self.keep(x.mean((2, 3)))

    return Traced, {"vit_tiny_patch16_224": lambda: ViT("vit_tiny_patch16"), "vit_base_patch16_224": lambda: ViT("vit_base_patch16"),
                    "resnet50": ResNet, "resnet18": lambda: ResNet((2, 2, 2, 2), False), "tresnet_m": TResNet}


def read_layers(path):
    """What tests/unit/test_net_layers.c writes: kind, channels, height, width, planes."""
    with open(path, "rb") as file:
        while header := file.read(16):
            kind, channels, height, width = struct.unpack("<4I", header)
            yield kind, np.frombuffer(file.read(4 * channels * height * width), "<f4").reshape(channels, height, width)


PATCHES, FIRST_TOKEN = 7, 12  # of enum net_layer_kind


def test_layers(golden, folder):
    import torch
    traced, models = torch_models()
    for name in ["vit_tiny_patch16_224", "resnet18", "resnet50", "tresnet_m"]:
        weights = filled(name, golden[name]["tensors"])
        paths = [os.path.join(folder, part) for part in ("weights.safetensors", "input.bin", "layers.bin")]
        write_safetensors(paths[0], weights)
        input_picture(224).astype("<f4").tofile(paths[1])
        subprocess.run([os.path.join(BUILD, "tests", "test_net_layers"), *paths], check=True)
        model = models[name]().eval()
        model.load_state_dict({k: torch.from_numpy(v) for k, v in weights.items()}, strict=False)
        model = model.double()
        traced.trace = []
        with torch.no_grad():
            model(torch.from_numpy(input_picture(224)))
        expected, worst, at = [x[0].numpy() for x in traced.trace], 0, 0
        traced.trace = None
        for kind, found in read_layers(paths[2]):
            if kind in (PATCHES, FIRST_TOKEN):
                continue
            wanted = expected[at]
            at += 1
            if kind > PATCHES:  # tokens: the library keeps only the class token where nothing else is asked for
                found = found[:, :, 0].T
                wanted = wanted[:len(found)]
            error = np.linalg.norm(found.ravel() - wanted.ravel()) / np.linalg.norm(wanted)
            assert error < 1e-5, (name, at, kind, error)
            worst = max(worst, error)
        assert at == len(expected), (name, at, len(expected))
        print(f"layers {name}: {at} layers, largest relative error {worst:.2e}")


def test_pictures(library, count=500):
    import torch
    folder = os.path.join(SHARED, "data", "voc2007-small", "VOCdevkit", "VOC2007", "JPEGImages")
    checkpoint = os.path.join(SHARED, "backbones", "vit_tiny_patch16_224.safetensors")
    names = sorted(os.listdir(folder))[:count]
    backbone = library.open(checkpoint)
    info = library.info(backbone)
    assert info.preprocess == b"rgb 224x224 bilinear mean 0.5 std 0.5", info.preprocess
    pictures = library.load([os.path.join(folder, name) for name in names], info)
    features = library.run(backbone, pictures)
    model = torch_models()[1]["vit_tiny_patch16_224"]().eval()
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in feature_file.load(checkpoint)[0].items()}, strict=False)
    with torch.no_grad():
        expected = np.concatenate([model(torch.from_numpy(part)).numpy() for part in np.split(pictures, range(50, count, 50))])
    cosine = (features * expected).sum(1) / np.linalg.norm(features, axis=1) / np.linalg.norm(expected, axis=1)
    print(f"pictures: ViT-Tiny on {count} pictures, smallest cosine {cosine.min():.8f}")
    assert cosine.min() >= 0.99999
    for pool, name in ((2, b"mean"), (3, b"cls+mean")):
        other = library.open(checkpoint, pool=pool)
        assert library.info(other).pool == name
        both = library.run(other, pictures[:9])
        if pool == 3:
            assert np.allclose(both[:, :192], features[:9], rtol=1e-4, atol=1e-5)
            assert np.allclose(both[:, 192:], mean, rtol=1e-5, atol=1e-6)
        mean = both
        library.close(other)
    library.close(backbone)


def main():
    if not os.path.isdir(SHARED):
        print("skipped: no shared data")
        return 77
    library = Backbones()
    with open(os.path.join(SHARED, "golden", "backbones.json")) as file:
        golden = json.load(file)["models"]
    with tempfile.TemporaryDirectory() as folder:
        test_golden(library, golden, folder)
        test_heads(library, folder)
        if os.environ.get("CI"):
            print("skipped: layers and pictures against torch (CI does not install it)")
            return 0
        try:
            import torch  # noqa: F401
        except ImportError:
            print("skipped: layers and pictures against torch (torch is not installed)")
            return 0
        test_layers(golden, folder)
    test_pictures(library)
    return 0


if __name__ == "__main__":
    sys.exit(main())
