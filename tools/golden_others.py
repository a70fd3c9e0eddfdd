"""Runs the same weights in the other libraries that are here, transformers and torchvision, for tools/make_goldens.py."""
import json
import os
import tempfile

import torch


def shape_of(made, name):
    return dict(map(tuple, made["tensors"]))[name]


def count_of(made, start):
    """How many numbers follow `start` in the names."""
    return len({name[len(start):].split(".")[0] for name, _ in made["tensors"] if name.startswith(start)})


def vit_config(kind, made, **more):
    facts = made["facts"]
    width = shape_of(made, "patch_embed.proj.weight")[0]
    native = facts["patch"] * int(round((shape_of(made, "pos_embed")[1] - (0 if facts["positions_of_patches_only"] else facts["prefix"])) ** 0.5))
    activation = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "quick_gelu": "quick_gelu"}[facts["activation"]]
    return {"model_type": kind, "hidden_size": width, "num_hidden_layers": count_of(made, "blocks."), "num_attention_heads": facts["heads"],
            "layer_norm_eps": facts["epsilon"], "hidden_act": activation, "image_size": native, "patch_size": facts["patch"], "num_channels": 3,
            "intermediate_size": shape_of(made, "blocks.0.mlp.fc1.weight")[0], **more}


def convnext_config(made):
    stages = [[shape for name, shape in made["tensors"] if name.startswith(f"stages.{stage}.blocks.") and name.endswith("gamma")] for stage in range(4)]
    return {"model_type": "convnext", "depths": [len(stage) for stage in stages], "hidden_sizes": [stage[0][0] for stage in stages],
            "num_stages": 4, "patch_size": 4, "hidden_act": "gelu", "layer_norm_eps": 1e-6, "image_size": made["facts"]["side"]}


def resnet_config(made, about):
    names = dict((name, shape) for name, shape in made["tensors"])
    bottleneck = "layer1.0.conv3.weight" in names
    last = [names[f"layer{stage}.0.conv{3 if bottleneck else 2}.weight"][0] for stage in range(1, 5)]
    return {"model_type": "resnet", "depths": [count_of(made, f"layer{stage}.") for stage in range(1, 5)], "hidden_sizes": last,
            "layer_type": "bottleneck" if bottleneck else "basic", "embedding_size": 64, "hidden_act": "relu",
            "downsample_in_first_stage": False, "downsample_in_bottleneck": about.get("stride") == "first"}


def config_of(kind, made, about):
    """config.json as such a file has it."""
    if kind.startswith("ConvNext"):
        config = convnext_config(made)
    elif kind.startswith("ResNet"):
        config = resnet_config(made, about)
    elif kind.startswith("Dinov2"):
        config = vit_config("dinov2_with_registers" if "Registers" in kind else "dinov2", made, mlp_ratio=4, qkv_bias=True)
        if "Registers" in kind:
            config["num_register_tokens"] = made["facts"]["prefix"] - 1
    elif kind.startswith(("CLIP", "Siglip")):
        model_type = "clip" if kind.startswith("CLIP") else "siglip"
        config = vit_config(model_type + "_vision_model", made)
        if kind.startswith("CLIP"):
            config["projection_dim"] = made["arguments"]["num_classes"]
        if kind.endswith(("CLIPModel", "SiglipModel")):
            config = {"model_type": model_type, "vision_config": config, "projection_dim": config.get("projection_dim", 0)}
            return {**config, "architectures": [kind]}
    else:
        config = vit_config("vit_mae" if kind.startswith("ViTMAE") else "deit" if kind.startswith("DeiT") else "vit", made, qkv_bias=True)
    return {**config, "architectures": [kind]}


def transformers_pools(kind, model, picture, made):
    with torch.no_grad():
        if kind.startswith(("ConvNext", "ResNet")):
            body = getattr(model, "convnext", None) or getattr(model, "resnet", None) or model
            return {"mean": body(picture).pooler_output}
        if kind.startswith("CLIP"):
            out = model(picture)
            body = getattr(model, "vision_model", model)
            hidden = body.post_layernorm(out.last_hidden_state)
            return {"cls": body(picture).pooler_output, "mean": hidden[:, 1:].mean(1), "projection": out.image_embeds}
        if kind.startswith("Siglip"):
            out = model(picture)
            return {"map": out.pooler_output, "mean": out.last_hidden_state.mean(1)}
        body = getattr(model, "vit", None) or getattr(model, "deit", None) or getattr(model, "dinov2", None) or model
        if kind.startswith("ViTMAE"):
            model.config.mask_ratio = body.config.mask_ratio = body.embeddings.config.mask_ratio = 0.0
            patches = body.embeddings.patch_embeddings.num_patches
            hidden = body(picture, noise=torch.arange(patches, dtype=picture.dtype)[None]).last_hidden_state
        else:
            hidden = body(picture).last_hidden_state
        return {"cls": hidden[:, 0], "mean": hidden[:, made["facts"]["prefix"]:].mean(1)}


def run_transformers(kind, config, others, made, picture):
    import transformers
    from safetensors.torch import save_file
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        save_file({name: torch.from_numpy(values.copy()) for name, values in others.items()}, os.path.join(folder, "model.safetensors"),
                  metadata={"format": "pt"})
        more = {} if kind.startswith(("ConvNext", "ResNet")) else {"attn_implementation": "eager"}
        model, loading = getattr(transformers, kind).from_pretrained(folder, dtype=torch.float64, output_loading_info=True, **more)
    assert not loading["unexpected_keys"], loading["unexpected_keys"]
    allowed = ("mask_token", "pooler", "classifier", "decoder", "num_batches_tracked")
    missing = [name for name in loading["missing_keys"] if not any(part in name for part in allowed)]
    assert not missing, missing
    return transformers_pools(kind, model.eval(), picture, made)


def run_torchvision(title, others, made, picture):
    from torchvision import models
    facts = made["facts"]
    state = {name: torch.from_numpy(values.copy()).double() for name, values in others.items()}
    if "vit" in title:
        width = shape_of(made, "patch_embed.proj.weight")[0]
        model = models.VisionTransformer(image_size=facts["side"], patch_size=facts["patch"], num_layers=count_of(made, "blocks."),
                                         num_heads=facts["heads"], hidden_dim=width, mlp_dim=shape_of(made, "blocks.0.mlp.fc1.weight")[0])
    elif "convnext" in title:
        from torchvision.models.convnext import CNBlockConfig
        config = convnext_config(made)
        sizes = config["hidden_sizes"] + [None]
        model = models.ConvNeXt([CNBlockConfig(sizes[i], sizes[i + 1], config["depths"][i]) for i in range(4)])
    else:
        block = models.resnet.Bottleneck if any("conv3" in name for name in others) else models.resnet.BasicBlock
        more = {"resnext50_32x4d": {"groups": 32, "width_per_group": 4}, "wide_resnet50_2": {"width_per_group": 128}}.get(made["model"], {})
        model = models.ResNet(block, [count_of(made, f"layer{stage}.") for stage in range(1, 5)], **more)
    missing, unexpected = model.double().eval().load_state_dict(state, strict=False)
    assert not unexpected and all("head" in name or "classifier.2" in name or name.startswith("fc.") or "tracked" in name for name in missing), missing
    with torch.no_grad():
        if "vit" in title:
            x = torch.cat([model.class_token, model._process_input(picture)], dim=1)
            x = model.encoder(x)
            return {"cls": x[:, 0], "mean": x[:, 1:].mean(1)}
        if "convnext" in title:
            return {"mean": model.classifier[0](model.avgpool(model.features(picture)))}
        model.fc = torch.nn.Identity()
        return {"mean": model(picture)}


def check_naming(title, others, about, made, picture):
    """Pools by the other library's own forward, its configuration, and the library's name and version; nothing where it is not here."""
    config, found, checked = None, {}, None
    library, _, kind = title.partition(" ")
    if library == "transformers":
        config = config_of(kind, made, about)
        try:
            import transformers
        except ImportError:
            return {}, config, None
        if kind in ("CLIPModel", "SiglipModel"):  # the same towers as below, with a tower for texts
            return {}, config, None
        found, checked = run_transformers(kind, config, others, made, picture), f"transformers {transformers.__version__}"
    elif library == "torchvision" and not about.get("stride"):
        import torchvision
        found, checked = run_torchvision(title, others, made, picture), f"torchvision {torchvision.__version__}"
    return {name: values[0].double().numpy().ravel() for name, values in found.items() if name in made["pools"]}, config, checked
