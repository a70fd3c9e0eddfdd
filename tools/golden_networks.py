"""The networks of tools/make_goldens.py.

model, arguments   of timm.create_model; num_classes is 0 unless it is given
side               of the picture; 224 unless it is given
namings            files in which the same tensors have other names
trace              the output of every module is kept
the rest           see make_goldens.py"""

VIT = ["transformers ViTForImageClassification", "transformers ViTModel", "torchvision vit", "torchvision vit, version 1"]
CLIP = ["openai CLIP", "open_clip", "open_clip, module", "transformers CLIPVisionModelWithProjection", "transformers CLIPModel"]
SIGLIP = ["open_clip, timm", "transformers SiglipVisionModel", "transformers SiglipModel"]
CONVNEXT = ["meta ConvNeXt", "torchvision convnext", "transformers ConvNextForImageClassification", "transformers ConvNextModel"]
RESNET = ["torchvision resnet", "resnet in a training", "transformers ResNetForImageClassification"]
DINOV2 = ["meta dinov2", "transformers Dinov2Model", "transformers Dinov2ForImageClassification"]
DINOV2_REGISTERS = ["meta dinov2, registers", "transformers Dinov2WithRegistersModel"]

TIMM = {"source": "timm", "antialias": True, "offset": 0}
DINO_OFFSET = {"source": "facebookresearch", "antialias": False, "offset": 0.1}
BY_SIZE = {"source": "transformers Dinov2Model", "antialias": False, "offset": 0}


def clip(model, width, **more):
    arguments = {"num_classes": width, **more.pop("arguments", {})}
    return {"model": model, "arguments": arguments, "zeros": ["head.bias"], "projection": True, "namings": CLIP, **more}


def network(model, depth=None, **more):
    arguments = {**({"depth": depth} if depth else {}), **more.pop("arguments", {})}
    return {"model": model, "arguments": arguments, **more}


TANH = {"act_layer": "gelu_tanh"}

NETWORKS = [
    network("vit_tiny_patch16_224", namings=VIT, trace=True, layers_kept=[6, 11]),
    network("vit_small_patch16_224", 3, namings=VIT[:1]),
    network("vit_base_patch16_224", 2, namings=VIT[:1]),
    network("vit_base_patch32_224", 2, namings=VIT[2:]),
    network("vit_large_patch16_224", 2),
    network("vit_huge_patch14_224", 2, namings=VIT[1:3], layers_kept=[1]),
    # positions of 14 x 14 at 256 pixels, as timm does it
    network("vit_tiny_patch16_224", 2, side=256, positions=TIMM),
    network("vit_tiny_patch16_224", 2, side=128, positions=TIMM),
    network("deit_tiny_patch16_224", 3, namings=["meta deit", VIT[0]]),
    network("deit_tiny_distilled_patch16_224", 3, namings=["meta deit", "transformers DeiTForImageClassificationWithTeacher"], trace=True),
    network("deit_tiny_distilled_patch16_224", 2, side=160, positions=TIMM),
    network("deit3_small_patch16_224", 3, namings=["meta deit III"], trace=True),
    network("deit3_base_patch16_224", 2, namings=["meta deit III"]),
    network("vit_base_patch16_224", 3, namings=["meta mae", "transformers ViTMAEForPreTraining"]),
    network("vit_base_patch16_224", 2, arguments={"global_pool": "avg"}, fc_norm=True),  # MAE, fine-tuned: fc_norm after the mean
    network("vit_small_patch16_224", 4, namings=["meta dino", "meta dino, teacher", VIT[1]]),
    network("vit_small_patch8_224", 2, namings=["meta dino", VIT[1]]),
    network("vit_small_patch8_224", 1, side=120, positions=DINO_OFFSET, namings=["meta dino"]),
    network("vit_small_patch14_dinov2", 3, side=518, namings=DINOV2),
    network("vit_small_patch14_dinov2", 3, side=224, positions=TIMM),
    network("vit_small_patch14_dinov2", 3, side=224, positions=DINO_OFFSET, namings=DINOV2[:1], trace=True),
    network("vit_small_patch14_dinov2", 3, side=224, positions=BY_SIZE, namings=DINOV2[1:2]),
    network("vit_base_patch14_dinov2", 2, side=224, positions=DINO_OFFSET, namings=DINOV2[:1]),
    network("vit_large_patch14_dinov2", 2, side=224, positions=DINO_OFFSET, namings=DINOV2[:1]),
    network("vit_small_patch14_reg4_dinov2", 3, side=518, namings=DINOV2_REGISTERS),
    network("vit_small_patch14_reg4_dinov2", 3, side=224, positions=TIMM, namings=DINOV2_REGISTERS, trace=True),
    network("vit_base_patch14_reg4_dinov2", 2, side=224, positions=TIMM, namings=DINOV2_REGISTERS),
    network("vit_large_patch14_reg4_dinov2", 2, side=224, positions=TIMM, namings=DINOV2_REGISTERS[:1]),
    clip("vit_base_patch32_clip_quickgelu_224", 512, arguments={"depth": 3}, trace=True),
    clip("vit_base_patch32_clip_224", 512, arguments={"depth": 2}),
    clip("vit_base_patch16_clip_quickgelu_224", 512, arguments={"depth": 2}),
    clip("vit_large_patch14_clip_quickgelu_224", 768, arguments={"depth": 2}),
    clip("vit_large_patch14_clip_quickgelu_336", 768, arguments={"depth": 2}, side=336),
    clip("vit_huge_patch14_clip_224", 1024, arguments={"depth": 2}),
    network("vit_base_patch16_siglip_224", 3, arguments=TANH, namings=SIGLIP, trace=True),
    network("vit_base_patch16_siglip_224", 2, namings=SIGLIP[:1]),  # timm gives these names the exact GELU
    network("vit_large_patch16_siglip_256", 2, arguments=TANH, side=256, namings=SIGLIP),
    network("convnext_tiny", namings=CONVNEXT),
    network("convnext_small", arguments={"depths": [2, 1, 4, 1]}, namings=CONVNEXT[:1], trace=True),
    network("convnext_base", arguments={"depths": [1, 1, 2, 1]}, namings=CONVNEXT),
    network("convnext_large", arguments={"depths": [1, 1, 1, 1]}, namings=CONVNEXT[:2]),
    network("convnext_tiny", arguments={"depths": [1, 1, 1, 1]}, side=200, namings=CONVNEXT[:1]),  # 50, 25, 12, 6 pixels
    network("resnet18", namings=RESNET, trace=True, max=True),
    network("resnet34", arguments={"layers": [2, 3, 1, 2]}, namings=RESNET),
    network("resnet50", namings=RESNET),
    network("resnet101", arguments={"layers": [1, 2, 5, 1]}, namings=RESNET),
    network("resnet152", arguments={"layers": [2, 3, 4, 1]}, namings=RESNET),
    network("resnet50", arguments={"layers": [2, 2, 2, 2]}, stride="first", namings=RESNET[2:]),
    network("resnet50", arguments={"layers": [2, 2, 2, 2]}, stride="first", keras=True, trace=True),
    network("resnext50_32x4d", namings=RESNET[:2]),
    network("wide_resnet50_2", arguments={"layers": [1, 2, 2, 1]}, namings=RESNET[:2]),
    network("tresnet_m", arguments={"layers": [2, 2, 3, 2]}, max=True),
    network("tresnet_m", arguments={"layers": [2, 2, 3, 2]}, magnitude=True, negated=["body.conv1.bn.weight"], namings=["TResNet, first release"]),
    network("tresnet_l", arguments={"layers": [1, 2, 3, 1]}),
    network("tresnet_l", arguments={"layers": [1, 2, 3, 1]}, magnitude=True, negated=["body.conv1.bn.weight"], namings=["TResNet, first release"]),
    network("tresnet_xl", arguments={"layers": [2, 1, 2, 1]}, trace=True),
    network("tresnet_m", arguments={"layers": [1, 1, 1, 1]}, side=320),
]

FULL = [
    network("vit_small_patch16_224", namings=VIT[:1]),
    network("vit_base_patch16_224", namings=VIT[:1]),
    network("vit_large_patch16_224", namings=VIT[:1]),
    network("vit_huge_patch14_224", namings=VIT[1:2]),
    network("deit_base_distilled_patch16_224"),
    network("deit3_large_patch16_224"),
    network("vit_small_patch14_dinov2", side=518),
    network("vit_base_patch14_dinov2", side=224, positions=DINO_OFFSET, namings=DINOV2[:1]),
    network("vit_large_patch14_dinov2", side=518),
    network("vit_large_patch14_reg4_dinov2", side=518),
    clip("vit_base_patch32_clip_quickgelu_224", 512),
    clip("vit_base_patch16_clip_quickgelu_224", 512),
    clip("vit_large_patch14_clip_quickgelu_336", 768, side=336),
    clip("vit_huge_patch14_clip_224", 1024),
    network("vit_base_patch16_siglip_224", arguments=TANH),
    network("vit_large_patch16_siglip_256", arguments=TANH, side=256),
    network("convnext_small"),
    network("convnext_base"),
    network("convnext_large"),
    network("resnet34"),
    network("resnet101"),
    network("resnet152"),
    network("wide_resnet50_2"),
    network("tresnet_m"),
    network("tresnet_l"),
    network("tresnet_xl"),
]
