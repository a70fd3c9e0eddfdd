"""Pixels after the transforms of timm and the image processors of transformers, for tools/make_goldens.py."""
import base64
import json
import os
import tempfile

import numpy as np
from PIL import Image

from golden_fill import picture_of

IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
HALF = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
CLIP = {"mean": [0.48145466, 0.4578275, 0.40821073], "std": [0.26862954, 0.26130258, 0.27577711]}
PICTURES = [(53, 37), (45, 80), (32, 32)]  # height, width


def timm_config(interpolation, crop, mode, numbers):
    return {"architecture": "vit_tiny_patch16_224", "num_classes": 0,
            "pretrained_cfg": {"input_size": [3, 32, 32], "interpolation": interpolation, "crop_pct": crop, "crop_mode": mode, **numbers}}


def processor(kind, numbers, **more):
    return {"image_processor_type": kind, "do_normalize": True, "do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255,
            "image_mean": numbers["mean"], "image_std": numbers["std"], **more}


TIMM = [timm_config("bicubic", 0.9, "center", HALF), timm_config("bilinear", 0.875, "center", IMAGENET), timm_config("bicubic", 0.95, "center", IMAGENET),
        timm_config("bicubic", 1.0, "center", CLIP), timm_config("bicubic", 0.9, "squash", HALF), timm_config("bicubic", 1.0, "squash", IMAGENET)]
TRANSFORMERS = [
    processor("ViTImageProcessor", HALF, resample=2, size={"height": 32, "width": 32}),
    processor("ViTImageProcessor", HALF, resample=3, size={"height": 32, "width": 32}),
    processor("CLIPImageProcessor", CLIP, resample=3, size={"shortest_edge": 32}, do_center_crop=True, crop_size={"height": 32, "width": 32},
              do_convert_rgb=True),
    processor("ConvNextImageProcessor", IMAGENET, resample=3, size={"shortest_edge": 32}, crop_pct=0.875),
    processor("ConvNextImageProcessor", IMAGENET, resample=2, size={"shortest_edge": 32}, crop_pct=0.95),
    processor("BitImageProcessor", IMAGENET, resample=3, size={"shortest_edge": 36}, do_center_crop=True, crop_size={"height": 32, "width": 32}),
    processor("DeiTImageProcessor", IMAGENET, resample=3, size={"height": 36, "width": 36}, do_center_crop=True, crop_size={"height": 32, "width": 32}),
    processor("SiglipImageProcessor", HALF, resample=3, size={"height": 32, "width": 32}),
]


def bytes_of(values, mean, std):
    """Back from what a network sees to pixels [height][width][channel], which must be whole numbers."""
    exact = (np.asarray(values, np.float64) * np.reshape(std, (3, 1, 1)) + np.reshape(mean, (3, 1, 1))) * 255
    pixels = np.rint(exact)
    assert abs(exact - pixels).max() < 1e-2, abs(exact - pixels).max()
    return pixels.astype(np.uint8).transpose(1, 2, 0)


def by_timm(config, picture):
    import timm
    given = {**config["pretrained_cfg"], "input_size": tuple(config["pretrained_cfg"]["input_size"])}
    transform = timm.data.create_transform(**{key: given[key] for key in ("input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std")},
                                           is_training=False)
    return bytes_of(transform(Image.fromarray(picture)).numpy(), given["mean"], given["std"]), None


def by_transformers(config, picture):
    """By the processor that works with Pillow, and how many pixels the one of torchvision has otherwise."""
    import transformers
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "preprocessor_config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        for backend in ("pil", "torchvision"):
            kind = config["image_processor_type"] + ("Pil" if backend == "pil" else "")
            if not hasattr(transformers, kind):
                print(f"transformers has no {kind}")
                continue
            values = getattr(transformers, kind).from_pretrained(folder)(images=Image.fromarray(picture), return_tensors="np")["pixel_values"][0]
            exact = bytes_of(values, config["image_mean"], config["image_std"])
            made[backend] = exact
    first = made.get("pil", made.get("torchvision"))
    other = made.get("torchvision", first)
    return first, {"backends": list(made), "different": int((first != other).sum()), "most": int(abs(first.astype(int) - other).max())}


def make_pixels():
    import timm
    import timm.data
    made, kinds = [], [(TIMM, "config.json", f"timm {timm.__version__}", by_timm)]
    try:
        import transformers
        kinds.append((TRANSFORMERS, "preprocessor_config.json", f"transformers {transformers.__version__}", by_transformers))
    except ImportError:
        pass
    for configs, file, source, make in kinds:
        for config in configs:
            for height, width in PICTURES:
                try:
                    pixels, other = make(config, picture_of(height, width))
                except Exception as error:
                    print(f"pixels: {config} {height} x {width}: {type(error).__name__}: {error}")
                    continue
                made.append({"file": file, "config": config, "source": source, "picture": [height, width], "size": list(pixels.shape[:2]),
                             "pixels": base64.b64encode(pixels.tobytes()).decode(), "torchvision": other})
            print(f"pixels: {source} {config.get('image_processor_type') or config['pretrained_cfg']}: "
                  f"{made[-1]['torchvision'] if made else 'nothing'}", flush=True)
    return made
