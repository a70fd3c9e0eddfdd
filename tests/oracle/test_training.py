"""Training of whole networks against PyTorch's autograd: features, the gradient of every parameter, and ten steps of SGD with momentum.

The loss is Σ share · feature with shares that are made up, so it needs no head. PyTorch computes in double precision, and in float32 to
know what that costs. A gradient may differ by the larger of 1e-4 and twice what PyTorch's own float32 differs, relative to its length
(L2), and to a tenth of the longest of its layer, since some, such as that of a key's bias, are nothing but rounding. So may parameters and
the statistics of batch norms after the steps.

Where a number is within rounding of 0 before a ReLU, or of another one in a max pool, float32 may take the other side, and gradients
then differ by far more than rounding. That happens in some batches, in PyTorch as well. So each difference is the median of those of
SEEDS batches with networks of their own: an error of the arithmetic would be in all of them. L3A_TEST_DEVICE=cuda trains on a GPU. Skips with 77 where
torch is missing."""
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
except ImportError:
    skip("torch is not installed")
from test_backbones import torch_models

BUILD = Path(os.environ["L3A_BUILD"])
PICTURES, SEEDS = 2, 3
NETWORKS = {"vit_tiny_patch16_224": 224, "resnet50": 64, "tresnet_m": 64}  # and the side of the pictures
STEPS = 10


def make_model(name, seed):
    """A network of made-up parameters. The biases of its batch norms leave few numbers near 0."""
    torch.manual_seed(seed)
    model = torch_models()[1][name]()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "token" in key or "pos_embed" in key:
                parameter.normal_(0, 0.1)
            elif parameter.ndim == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
        for part in model.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.bias.copy_(torch.where(torch.rand_like(part.bias) < 0.8, 4.0, -4.0))
    return model


def write_inputs(folder, model, pictures, side, seed=0):
    """The checkpoint, the pictures and the shares."""
    rng = np.random.default_rng(seed)
    tensors = {name: values.numpy() for name, values in model.state_dict().items() if values.is_floating_point()}
    feature_file.save(folder / "network.safetensors", tensors, {})
    batch = rng.standard_normal((pictures, 3, side, side)).astype(np.float32)
    with torch.no_grad():
        width = model.eval()(torch.from_numpy(batch[:1])).shape[1]
    shares = (rng.standard_normal((pictures, width)) / width).astype(np.float32)
    batch.tofile(folder / "pictures")
    shares.tofile(folder / "shares")
    return batch, shares


def command(folder, pictures, threads, *what):
    program = BUILD / "tests" / "training_numbers"
    return [str(program if program.exists() else BUILD / program.name), folder / "network.safetensors", folder / "pictures", folder / "shares", str(pictures),
            str(threads), *map(str, what)]


def read_numbers(data):
    found = {}
    while data:
        line, data = data.split(b"\n", 1)
        title, name, count = line.decode().split(" ")
        found[title, name] = np.frombuffer(data[:4 * int(count)], "<f4")
        data = data[4 * int(count):]
    return found


def train(name, seed, kind, batch, shares, rate):
    """What read_numbers() returns, from PyTorch."""
    model = make_model(name, seed).to(kind).train()
    pictures, weights = torch.from_numpy(batch).to(kind), torch.from_numpy(shares).to(kind)
    optimiser, found = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9), {}
    for step in range(STEPS):
        optimiser.zero_grad()
        features = model(pictures)
        (features * weights).sum().backward()
        if not step:
            found["features", "features"] = features.detach().numpy().copy()
            found |= {("gradient", key): p.grad.numpy().copy() for key, p in model.named_parameters() if p.grad is not None}
        optimiser.step()
    return found | {("value", key): values.numpy() for key, values in model.state_dict().items() if values.is_floating_point()}


def length(values):
    return float(np.linalg.norm(values.astype(np.float64)))


def differences(name, seed, rate, folder):
    """{(title, name): (relative difference, that of PyTorch's float32)}"""
    batch, shares = write_inputs(folder, make_model(name, seed), PICTURES, NETWORKS[name], seed)
    done = subprocess.run(command(folder, PICTURES, 2, "numbers", STEPS, rate), capture_output=True)
    assert done.returncode == 0, (name, done.stderr.decode())
    found, differ = read_numbers(done.stdout), {}
    exact, single = train(name, seed, torch.float64, batch, shares, rate), train(name, seed, torch.float32, batch, shares, rate)
    for (title, key), values in found.items():
        expected = exact[title, key].ravel()
        layer = key.rsplit(".", 1)[0]
        size = max(length(other) for (kind, part), other in exact.items() if kind == title and part.rsplit(".", 1)[0] == layer)
        size = max(length(expected), size * 0.1)
        differ[title, key] = length(values - expected) / size, length(single[title, key].ravel() - expected) / size
    return differ


def check(name, rate):
    with tempfile.TemporaryDirectory() as folder:
        rounds = [differences(name, seed, rate, Path(folder)) for seed in range(SEEDS)]
    worst = {title: (0, 0, "") for title in ("features", "gradient", "value")}
    for title, key in rounds[0]:
        error, own = np.median([differ[title, key] for differ in rounds], axis=0)
        assert error <= max(1e-4, 2 * own), (name, title, key, [differ[title, key] for differ in rounds])
        worst[title] = max(worst[title], (error, own, key))
    for title, (error, own, key) in worst.items():
        print(f"{name}, {title}: at most {error:.1e} ({key}), where PyTorch's float32 differs by {own:.1e}")


def main():
    for name in sys.argv[1:] or NETWORKS:
        check(name, 0.001)
    return 0


if __name__ == "__main__":
    sys.exit(main())
