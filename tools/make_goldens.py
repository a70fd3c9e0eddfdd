#!/usr/bin/env python3
"""Golden embeddings of networks, made with timm and transformers: tools/make_goldens.py FOLDER [--full]

Needs PyTorch 2, timm 1.0, transformers 5, torchvision and Pillow; no weights are downloaded. It writes three files of gzipped JSON to FOLDER:

networks.json.gz       the networks, some with fewer blocks than published; with --full also networks-full.json.gz, as published
    versions           of the libraries
    namings            title -> rules, as network_namings.py says
    networks           each with
        model, arguments   of timm.create_model
        tensors            [[timm's name, shape]] in timm's order. Every value follows from the name: see golden_fill.py
        zeros, negated     tensors of zeros, and those whose even channels are negated after filling
        facts              side of the picture, patch, heads, epsilon, activation, and what else the tensors do not show
        pools              cls, mean, max, map, projection -> {width, values: the float64 result as base64 of float32 (its rounding is
                           6e-8), norm: of the float64 result, float32_error: relative L2 error of the same network in float32 on this CPU}
        layers             [[module, shape, mean, root mean square, first four values]] of some networks, in float64
        namings            [{naming, config, checked: "transformers 5.17.0" or null, distance: relative L2 distance of its float64 result
                           from timm's, per pool}]: files in which the same tensors have other names
positions.json.gz      learned positions at other sizes: {from, to, prefix, antialias, offset, source, channels, values}
preprocessing.json.gz  pixels: {config, files, source, picture: [height, width], size, pixels: base64 of bytes [height][width][channel] after
                       resizing and cropping, mean, std}; the picture is bytes floor(256 u) of the name "picture HxW"

The picture of a network is bytes floor(256 u) of the name "input image" over 255, [3, side, side], without mean and deviation."""
import argparse
import base64
import concurrent.futures
import gzip
import importlib
import json
import os
import sys

import numpy as np
import torch

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import network_namings
from golden_fill import fill_all, input_picture, uniform
from golden_networks import FULL, NETWORKS
from golden_others import check_naming

try:
    import timm
except ImportError:  # a copy of its sources will do
    sys.path.append(os.environ["TIMM_SOURCES"])
    import timm


def text_of(values):
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def distance(found, expected):
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def weights_of(model, about):
    """The filled tensors of a timm model, by name."""
    shapes = {name: list(value.shape) for name, value in model.state_dict().items() if not name.endswith("num_batches_tracked")}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return fill_all(shapes, about, pool.map)


def change(model, about):
    """What timm's own arguments cannot say."""
    if about.get("keras"):  # the stride in the first convolution, biases in all, and another epsilon
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Conv2d) and module.bias is None:
                module.bias = torch.nn.Parameter(torch.zeros(module.out_channels))
            if isinstance(module, torch.nn.BatchNorm2d):
                module.eps = 1.001e-5
    if about.get("stride") == "first":
        for name, module in model.named_modules():
            if type(module).__name__ == "Bottleneck":
                module.conv1.stride, module.conv2.stride = module.conv2.stride, module.conv1.stride


def load(model, weights, about):
    state = {name: torch.from_numpy(values.copy()) for name, values in weights.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all(name.endswith("num_batches_tracked") for name in missing), (missing, unexpected)
    model.double().eval()
    if about.get("magnitude"):  # the in-place activated norm
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, torch.nn.BatchNorm2d):
                    module.weight.copy_(module.weight.abs() + 1e-5)


def new_positions(model, about):
    """Positions for another side than they were trained for, in float32 as all libraries do it."""
    how = about["positions"]
    if how["source"] == "timm":
        model.set_input_size((about["side"], about["side"]))
        return
    prefix = 0 if model.no_embed_class else model.num_prefix_tokens
    old = model.pos_embed.detach()
    model.set_input_size((about["side"], about["side"]))
    model.pos_embed.data = resize_positions(old, prefix, about["side"] // model.patch_embed.patch_size[0], how["antialias"], how["offset"])


def resize_positions(positions, prefix, side, antialias, offset):
    """As facebookresearch/dinov2 does: bicubic, by scale if there is an offset, otherwise by size."""
    old = int(round((positions.shape[1] - prefix) ** 0.5))
    grid = positions[:, prefix:].float().reshape(1, old, old, -1).permute(0, 3, 1, 2)
    size = {"scale_factor": (float(side + offset) / old,) * 2} if offset else {"size": (side, side)}
    grid = torch.nn.functional.interpolate(grid, mode="bicubic", antialias=antialias, **size)
    assert grid.shape[-1] == side
    return torch.cat([positions[:, :prefix], grid.permute(0, 2, 3, 1).reshape(1, side * side, -1).to(positions.dtype)], dim=1)


def pools_of(model, picture, about):
    """What a user can ask for: name -> numbers."""
    with torch.no_grad():
        x = model.forward_features(picture)
        if x.ndim == 4:
            pooled = {"mean": model.forward_head(x, pre_logits=True)}
            if about.get("max"):
                pooled["max"] = x.amax((2, 3))
        else:
            prefix = model.num_prefix_tokens
            pooled = {"mean": x[:, prefix:].mean(1), "max": x[:, prefix:].amax(1)}
            if model.has_class_token:
                pooled["cls"] = x[:, 0]
            if model.attn_pool is not None:
                pooled["map"] = model.pool(x)
            if about.get("fc_norm"):
                pooled = {"mean": model.fc_norm(pooled["mean"])}
            if about.get("projection"):
                pooled["projection"] = model.head(pooled["cls"])
            for count in about.get("layers_kept", []):
                y = model.norm(model.forward_intermediates(picture, intermediates_only=True, return_prefix_tokens=True, output_fmt="NLC",
                                                           indices=[count - 1])[0][1][:, :1])
                pooled[f"layer {count} cls"] = y[:, 0]
        return {name: values[0].double().numpy().ravel() for name, values in pooled.items()}


def traced(model, picture):
    """Every module's output: [name, shape, mean, root mean square, first four]."""
    layers = []

    def keep(name):
        def hook(_, __, output):
            if torch.is_tensor(output):
                y = output.detach().double()
                layers.append([name, list(y.shape[1:]), float(y.mean()), float((y**2).mean().sqrt()), y.flatten()[:4].tolist()])
        return hook

    hooks = [module.register_forward_hook(keep(name)) for name, module in model.named_modules()
             if name and not isinstance(module, (torch.nn.Identity, torch.nn.Dropout, torch.nn.Sequential))]
    with torch.no_grad():
        model(picture)
    for hook in hooks:
        hook.remove()
    return [[name, shape, round_to(mean), round_to(square), [round_to(v) for v in first]] for name, shape, mean, square, first in layers]


def round_to(value):
    return float(f"{value:.9g}")


def facts_of(model, about, config):
    facts = {"side": about["side"], "mean": list(config["mean"]), "std": list(config["std"]), "interpolation": config["interpolation"],
             "crop": config["crop_pct"]}
    if hasattr(model, "blocks"):
        block = model.blocks[0]
        activation = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "GeluTanh": "gelu_tanh", "QuickGELU": "quick_gelu"}
        facts.update(patch=model.patch_embed.patch_size[0], heads=block.attn.num_heads, epsilon=block.norm1.eps, prefix=model.num_prefix_tokens,
                     activation=activation.get(type(block.mlp.act).__name__, type(block.mlp.act).__name__),
                     positions_of_patches_only=model.no_embed_class)
    for key in ("stride", "magnitude", "positions", "fc_norm", "keras"):
        if key in about:
            facts[key] = about[key]
    if about.get("keras"):
        facts["epsilon"] = 1.001e-5
    return facts


def make_network(entry):
    model_name, arguments, about = entry["model"], entry.get("arguments", {}), {"side": 224, **entry}
    torch.manual_seed(0)
    model = timm.create_model(model_name, pretrained=False, **{"num_classes": 0, **arguments})
    change(model, about)
    weights = weights_of(model, about)
    load(model, weights, about)
    if about.get("positions"):
        new_positions(model, about)
    picture = torch.from_numpy(input_picture(about["side"]))
    pools = pools_of(model, picture, about)
    layers = traced(model, picture) if about.get("trace") else None
    model.float()
    single = pools_of(model, picture.float(), about)
    made = {"model": model_name, "arguments": arguments, "tensors": [[name, list(values.shape)] for name, values in weights.items()],
            "facts": facts_of(model, about, model.pretrained_cfg),
            "pools": {name: {"width": len(values), "values": text_of(values.astype("<f4")), "norm": float(np.linalg.norm(values)),
                             "float32_error": distance(single[name], values)} for name, values in pools.items()}}
    made.update({key: about[key] for key in ("zeros", "negated") if key in about})
    if layers:
        made["layers"] = layers
    made["namings"] = []
    for title in about.get("namings", []):
        rules = network_namings.parse(network_namings.NAMINGS[title])
        others = network_namings.renamed(weights, rules)
        found, config, checked = check_naming(title, others, about, made, picture)
        made["namings"].append({"naming": title, "config": config, "checked": checked,
                                "distance": {name: distance(found[name], pools[name]) for name in found}})
    worst = max((value for naming in made["namings"] for value in naming["distance"].values()), default=0)
    print(f"{model_name} {arguments} {about['side']}: {sum(v.size for v in weights.values()) / 1e6:.1f} M, float32 "
          + ", ".join(f"{name} {pool['float32_error']:.1e}" for name, pool in made["pools"].items())
          + f"; {len(made['namings'])} namings, largest distance {worst:.1e}", flush=True)
    return made


def make_positions():
    """timm's, DINO's and DINOv2's own, and that of transformers for DINOv2 with and without registers."""
    made = []
    for source, old, new, prefix, antialias, offset in (
            ("timm resample_abs_pos_embed", 14, 16, 1, True, 0), ("timm resample_abs_pos_embed", 7, 9, 1, True, 0),
            ("timm resample_abs_pos_embed", 37, 16, 1, True, 0), ("timm resample_abs_pos_embed", 14, 8, 0, True, 0),
            ("timm resample_abs_pos_embed", 16, 37, 2, True, 0),
            ("facebookresearch/dinov2 without registers, facebookresearch/dino", 37, 16, 1, False, 0.1),
            ("facebookresearch/dinov2 without registers, facebookresearch/dino", 14, 16, 1, False, 0.1),
            ("facebookresearch/dinov2 without registers, facebookresearch/dino", 28, 30, 1, False, 0.1),
            ("transformers Dinov2Model", 37, 16, 1, False, 0), ("transformers Dinov2WithRegistersModel", 37, 16, 1, True, 0)):
        channels = 3
        name = f"positions {old} {prefix}"
        positions = torch.from_numpy(uniform(name, (old * old + prefix) * channels).reshape(1, -1, channels).astype(np.float32))
        resized = library_positions(source, positions, prefix, new, antialias, offset)
        made.append({"source": source, "name": name, "from": old, "to": new, "prefix": prefix, "channels": channels, "antialias": antialias,
                     "offset": offset, "values": text_of(resized.numpy().astype("<f4"))})
    return made


def library_positions(source, positions, prefix, new, antialias, offset):
    resized = resize_positions(positions, prefix, new, antialias, offset)
    if source.startswith("timm"):
        from timm.layers import resample_abs_pos_embed
        theirs = resample_abs_pos_embed(positions, new_size=[new, new], num_prefix_tokens=prefix)
    elif source.startswith("transformers"):
        try:
            import transformers
        except ImportError:
            return resized
        kind = source.split()[1][:-len("Model")]
        config = getattr(transformers, kind + "Config")(hidden_size=3, num_hidden_layers=1, num_attention_heads=1, image_size=14 * 37, patch_size=14)
        model = getattr(transformers, kind + "Model")(config)
        model.embeddings.position_embeddings.data = positions
        theirs = model.embeddings.interpolate_pos_encoding(torch.zeros(1, new * new + 1, 3), 14 * new, 14 * new).detach()
    else:
        theirs = resized
    print(f"positions {source} {positions.shape[1]} to {new}: differs from the formula here by {float((theirs - resized).abs().max()):.1e}")
    return theirs


def write(folder, name, content):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 9, mtime=0))


def versions():
    found = {}
    for name in ("torch", "torchvision", "timm", "transformers", "PIL", "numpy"):
        try:
            found[name] = importlib.import_module(name).__version__
        except ImportError:
            print(f"{name} is missing: what needs it is not checked")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="", help="networks with this text in their name")
    options = parser.parse_args()
    from golden_pixels import make_pixels
    failed = []
    for name, entries in [("networks.json.gz", NETWORKS)] + [("networks-full.json.gz", FULL)] * options.full:
        made = []
        for entry in entries:
            if options.only in entry["model"]:
                try:
                    made.append(make_network(entry))
                except Exception as error:  # the others are still wanted
                    import traceback
                    traceback.print_exc()
                    failed.append(f"{entry['model']}: {error}")
        used = {naming["naming"] for network in made for naming in network["namings"]}
        write(options.folder, name, {"versions": versions(), "networks": made,
                                     "namings": {title: network_namings.parse(network_namings.NAMINGS[title]) for title in sorted(used)}})
    for name, make in (("positions.json.gz", make_positions), ("preprocessing.json.gz", make_pixels)):
        try:
            write(options.folder, name, {"versions": versions(), "cases": make()})
        except Exception as error:
            import traceback
            traceback.print_exc()
            failed.append(f"{name}: {error}")
    print("\n".join(["failed:"] + failed) if failed else "all made")


if __name__ == "__main__":
    main()
