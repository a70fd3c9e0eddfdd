"""How a network is read that its tensors do not tell: which source counts, what is certain without one, and what is an error.

What is expected of each configuration is what timm, transformers and OpenCLIP do with it, by their documentation. The numbers that come
of it are compared in test_networks.py."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
SOURCE = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))
sys.path.append(str(SOURCE / "tools"))
import feature_file
from library import Refused
from network_namings import NAMINGS, parse, renamed
from support import check, finish, l3a, refuse
from test_backbones import Backbones, small_vit

IMAGENET, CLIP = "mean 0.485,0.456,0.406 std 0.229,0.224,0.225", "mean 0.4814546"
HALF = {"mean": (0.5,) * 3, "deviation": (0.5,) * 3}
GELU, QUICK_GELU, TANH_GELU = 1, 2, 3  # of enum l3a_activation


# ---- Networks ----

def vit(width=64, depth=1, **more):
    """A plain one: timm's, DeiT's, DINO's and MAE's cannot be told apart. 64 wide, its heads are known."""
    return small_vit(1, width, depth, **more)


def clip(**more):
    """With the norm in front that only CLIP has, and its projection."""
    tensors = vit(**more)
    return {**tensors, "norm_pre.weight": tensors["norm.weight"], "norm_pre.bias": tensors["norm.bias"],
            "head.weight": np.ones((32, tensors["norm.weight"].size), np.float32)}


def siglip(pooled=True, width=64):
    """Without a class token and, if it is whole, with attention pooling."""
    tensors = vit(width)
    del tensors["cls_token"]
    tensors["pos_embed"] = tensors["pos_embed"][:, 1:]
    shapes = {"latent": (1, 1, width), "mlp.fc1.weight": (64, width), "mlp.fc1.bias": (64,), "mlp.fc2.weight": (width, 64), "mlp.fc2.bias": (width,),
              "norm.weight": (width,), "norm.bias": (width,)}
    for name, size in ("q", width), ("kv", 2 * width), ("proj", width):
        shapes.update({f"{name}.weight": (size, width), f"{name}.bias": (size,)})
    return {**tensors, **{f"attn_pool.{name}": np.ones(shape, np.float32) for name, shape in shapes.items() if pooled}}


def named(tensors, naming):
    return renamed(tensors, parse(NAMINGS[naming]))


def resnet(layers=(2, 2, 2, 2), width=64):
    """A ResNet-18's tensors, all of them one."""
    shapes, into = {"conv1.weight": (64, 3, 7, 7)}, 64
    norms = {"bn1": 64}
    for stage, count in enumerate(layers, 1):
        out = width << (stage - 1)
        for block in range(count):
            name = f"layer{stage}.{block}"
            shapes.update({f"{name}.conv1.weight": (out, into, 3, 3), f"{name}.conv2.weight": (out, out, 3, 3)})
            norms.update({f"{name}.bn1": out, f"{name}.bn2": out})
            if into != out:
                shapes[f"{name}.downsample.0.weight"] = (out, into, 1, 1)
                norms[f"{name}.downsample.1"] = out
            into = out
    for name, size in norms.items():
        shapes.update({f"{name}.{part}": (size,) for part in ("weight", "bias", "running_mean", "running_var")})
    return {name: np.ones(shape, np.float16) for name, shape in shapes.items()}


# ---- Reading ----

class Folder:
    """A checkpoint with what stands beside it."""

    def __init__(self, library, folder):
        self.library, self.folder = library, Path(folder)
        self.path = self.folder / "network.safetensors"

    def put(self, tensors, metadata=None, **files):
        """files: config, preprocessor_config and open_clip_config, without .json."""
        for path in self.folder.glob("*.json"):
            path.unlink()
        feature_file.save(self.path, tensors, metadata or {})
        for name, text in files.items():
            (self.folder / f"{name}.json").write_text(json.dumps(text))

    def read(self, **options):
        """preprocess, network, decided, heads and activation as the library tells them."""
        backbone = self.library.open(str(self.path), **options)
        info = self.library.info(backbone)
        told = {"preprocess": info.preprocess.decode(), "network": info.network.decode(), "decided": info.decided.decode(),
                "heads": info.heads, "activation": (info.activation or b"").decode(), "name": info.name.decode()}
        self.library.close(backbone)
        return told

    def expect(self, title, options=None, **wanted):
        """Each is in what is told, or equal to it if it is a number."""
        try:
            told = self.read(**(options or {}))
        except Refused as error:
            check(False, f"{title}: {error}")
            return
        for key, value in wanted.items():
            same = told[key] == value if isinstance(value, int) or not value else value in told[key]
            check(same, f"{title}: {key} is {told[key]!r}; expected {value!r}")

    def refuses(self, title, *words, **options):
        try:
            told = self.read(**options)
        except Refused as error:
            check(all(word in str(error) for word in words), f"{title}: {error} does not say {words}")
            check(str(error).count(str(self.path)) == 1, f"{title}: {error} does not name the checkpoint once")
        else:
            check(False, f"{title}: was opened: {told}")


# ---- What counts ----

def transformers_config(**more):
    return {"model_type": "vit", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_act": "gelu",
            "layer_norm_eps": 1e-12, "image_size": 32, "patch_size": 16, **more}


def preprocessor_config(mean=0.25, **more):
    return {"image_mean": [mean] * 3, "image_std": [0.125] * 3, "size": {"height": 32, "width": 32}, "resample": 2, "do_resize": True,
            "do_normalize": True, **more}


def test_precedence(folder):
    """Option, preprocessor_config.json, config.json, metadata, and then it is an error."""
    metadata = {"l3a.mean": "0.75", "l3a.std": "0.5", "l3a.heads": "4", "l3a.activation": "quick_gelu", "l3a.epsilon": "0.001"}
    config = {"architecture": "vit_small_patch16_224", "model_args": {"num_heads": 2, "act_layer": "gelu_tanh", "norm_eps": 1e-5},
              "pretrained_cfg": {"mean": [0.6] * 3, "std": [0.7] * 3, "input_size": [3, 32, 32]}}
    folder.put(vit())
    folder.refuses("a plain ViT", "mean and deviation", "--mean", "config.json")
    folder.refuses("its own preprocessing", "no configuration says how its pictures are cut", published=1, **HALF)
    folder.expect("its mean as an option", HALF, preprocess="mean 0.5 std 0.5", heads=1, activation="gelu", network="", decided="mean as given")
    folder.put(vit(), metadata)
    folder.expect("metadata", preprocess="mean 0.75 std 0.5", network="heads 4, quick_gelu, epsilon 0.001",
                  decided="mean, heads, activation, epsilon from metadata")
    folder.put(vit(), metadata, config=config)
    folder.expect("timm's config.json before metadata", preprocess="mean 0.6 std 0.7", network="heads 2, tanh_gelu, epsilon 1e-05",
                  decided="mean, heads, activation, epsilon from config.json")
    folder.put(vit(), metadata, config=transformers_config(), preprocessor_config=preprocessor_config())
    folder.expect("preprocessor_config.json before the others", preprocess="mean 0.25 std 0.125", network="heads 2, epsilon 1e-12",
                  decided="mean from preprocessor_config.json; heads, activation, epsilon from config.json")
    folder.expect("options before all", {**HALF, "heads": 8, "activation": QUICK_GELU, "epsilon": 0.5}, preprocess="mean 0.5 std 0.5",
                  network="heads 8, quick_gelu, epsilon 0.5", decided="mean, heads, activation, epsilon as given")


def test_heads_and_activation(folder):
    """Networks whose heads are not those of a known size."""
    folder.put(vit(128))
    folder.refuses("a width that is not known", "width 128 and depth 1", "attention heads", "--heads", **HALF)
    folder.expect("its heads as an option", {**HALF, "heads": 4}, heads=4, network="heads 4")
    folder.refuses("heads that do not divide", "3 heads do not divide the width of 128", **HALF, heads=3)
    folder.put(vit(128), config=transformers_config(hidden_size=128, num_attention_heads=8))
    folder.expect("num_attention_heads", HALF, heads=8)
    folder.put(vit(128), config=transformers_config(hidden_size=96))
    folder.refuses("a configuration of another width", "hidden_size", "96", **HALF)
    folder.put(vit(128), config=transformers_config(hidden_size=128, num_attention_heads=7))
    folder.refuses("heads of a configuration that do not divide", "num_attention_heads", "7", **HALF)
    folder.put(vit(384, 12))
    folder.expect("timm's small", HALF, heads=6, network="")
    folder.put({f"module.base_encoder.{name}": values for name, values in vit(384, 12).items()})
    folder.refuses("MoCo v3's small, which has 12 heads", "attention heads", **HALF)
    folder.expect("and they are given", {**HALF, "heads": 12}, heads=12)
    # timm keeps OpenAI's weights, which were trained with the quick GELU, under a name that has the exact one as well
    for title, name, about, activation in [
            ("timm's CLIP of LAION", "vit_base_patch16_clip_224", {"tag": "laion2b"}, "gelu"),
            ("timm's CLIP of OpenAI", "vit_base_patch16_clip_224", {"tag": "openai"}, "quick_gelu"),
            ("timm's MetaCLIP", "vit_base_patch16_clip_224", {"tag": "x", "notes": ["natively QuickGELU, use quickgelu model variant"]}, "quick_gelu"),
            ("timm's quickgelu network", "vit_base_patch16_clip_quickgelu_224", {}, "quick_gelu"),
            ("timm's SigLIP 2, patches of 32", "vit_base_patch32_siglip_256", {}, "tanh_gelu"),
            ("timm's SigLIP", "vit_base_patch16_siglip_224", {}, "gelu")]:
        folder.put(vit(), config={"architecture": name, "pretrained_cfg": {**about, "mean": [0.5] * 3, "std": [0.5] * 3}})
        folder.expect(title, activation=activation, decided="activation")
    folder.put(clip())
    folder.refuses("a CLIP of unknown GELU", "--activation", "quick_gelu")
    folder.expect("an option tells it", {"activation": QUICK_GELU}, activation="quick_gelu", preprocess=CLIP)
    # the same tensors have the GELU of tanh in transformers and, in most sizes, the exact one in timm
    for pooled, what in (True, "attention pooling"), (False, "no class token"):
        folder.put(siglip(pooled))
        folder.refuses(f"a SigLIP with {what}", what, "--activation", "tanh_gelu", "config.json", **HALF)
        folder.expect("an option tells it", {**HALF, "activation": TANH_GELU}, activation="tanh_gelu", network="tanh_gelu")
        for name, activation in {"vit_base_patch16_siglip_224": "gelu", "vit_base_patch32_siglip_256": "tanh_gelu"}.items():
            folder.put(siglip(pooled), config={"architecture": name, "pretrained_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}})
            folder.expect(f"timm's {name}", activation=activation, decided="activation")
    folder.put(named(siglip(), "transformers SiglipVisionModel"))
    folder.refuses("a SigLIP of transformers alone", "--activation", **HALF)
    folder.put(named(siglip(), "transformers SiglipVisionModel"), config={"model_type": "siglip_vision_model", "hidden_size": 64, "num_attention_heads": 1})
    folder.expect("and with its configuration", HALF, activation="tanh_gelu")
    for act, activation in {"quick_gelu": "quick_gelu", "gelu": "gelu", "gelu_pytorch_tanh": "tanh_gelu"}.items():
        folder.put(vit(), config={"model_type": "clip_vision_model", "hidden_size": 64, "num_attention_heads": 1, "hidden_act": act})
        folder.expect(f"transformers' hidden_act {act}", HALF, activation=activation)
    folder.put(vit(), config=transformers_config(hidden_act="silu"))
    folder.refuses("a GELU that is none", "hidden_act", "silu", **HALF)


def test_open_clip(folder):
    def config(quick=False, **tower):
        return {"model_cfg": {"embed_dim": 32, "quick_gelu": quick, "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16, **tower}},
                "preprocess_cfg": {"mean": [0.1] * 3, "std": [0.2] * 3}}

    folder.put(clip(), open_clip_config=config())
    folder.expect("OpenCLIP's own tower", activation="gelu", preprocess="mean 0.1 std 0.2", network="epsilon 1e-05",
                  decided="open_clip_config.json")
    folder.put(clip(), open_clip_config=config(quick=True, head_width=32))
    folder.expect("with the quick GELU and heads of 32", activation="quick_gelu", heads=2)
    for key, value in {"pool_type": "avg", "attentional_pool": True, "final_ln_after_pool": True, "no_ln_pre": True}.items():
        folder.put(clip(), open_clip_config=config(**{key: value}))
        folder.refuses(f"a tower with {key}", "open_clip_config.json", key)
    for key, value in {"pool_type": "tok", "attentional_pool": False}.items():
        folder.put(clip(), open_clip_config=config(**{key: value}))
        folder.expect(f"a tower with {key} {value}", activation="gelu")
    folder.put(clip(), open_clip_config=config(timm_model_name="vit_base_patch16_siglip_224"))
    folder.expect("a tower of timm's", activation="gelu", preprocess="mean 0.1 std 0.2")


def test_what_is_certain(folder):
    """Without a configuration."""
    folder.put(named(vit(), "torchvision vit"))
    folder.expect("torchvision's ViT", preprocess=IMAGENET)
    folder.put({**vit(), "dist_token": np.ones((1, 1, 64), np.float32), "pos_embed": np.ones((1, 6, 64), np.float32)})
    folder.expect("DeiT with distillation", preprocess=IMAGENET)
    folder.put(resnet())
    folder.expect("ResNet-18", name="resnet18", preprocess="224x224", network="", decided="as usual")
    folder.expect("and its mean", preprocess=IMAGENET)


def test_families(folder):
    """A configuration that another network has left behind, and timm's networks whose tensors look like those of a plain one."""
    folder.put(resnet(), config={"architecture": "vit_tiny_patch16_224", "pretrained_cfg": {}})
    folder.refuses("a ViT's configuration beside a ResNet", "config.json", "vit", "resnet")
    folder.put(vit(), config={"architecture": "convnext_tiny", "pretrained_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}})
    folder.refuses("a ConvNeXt's beside a ViT", "config.json", "convnext", "vit")
    folder.put(vit(), config={"model_type": "resnet"})
    folder.refuses("transformers' ResNet beside a ViT", "config.json", "resnet", **HALF)
    for name in "resnetaa50", "resnetblur50":
        folder.put(resnet(), config={"architecture": name, "pretrained_cfg": {}})
        folder.refuses(name, "architecture", "before its strides")
    for name in "vit_small_patch16_rope_224", "vit_pe_core_base_patch16_224":
        folder.put(vit(), config={"architecture": name, "pretrained_cfg": {}})
        folder.refuses(name, "rotary positions", **HALF)
    folder.put(vit(), config={"architecture": "vit_base_patch16_rpn_224", "pretrained_cfg": {}})
    folder.refuses("a ViT with residual post-norms", "norms behind", **HALF)
    folder.put(resnet(), config={"architecture": "resnet18", "pretrained_cfg": {"mean": [0.5] * 3, "std": [0.25] * 3}})
    folder.expect("a ResNet with its own", name="resnet18", preprocess="mean 0.5 std 0.25")


def test_what_a_family_lacks(folder):
    """An option that a network has no use for would be recorded as if it had."""
    folder.put(resnet())
    folder.refuses("a ResNet with heads", "no attention heads", heads=2)
    folder.refuses("a ResNet up to a layer", "layer 2", layer=2)
    folder.refuses("a ResNet with a GELU", "quick_gelu", activation=QUICK_GELU)
    folder.put(resnet(), config={"model_type": "resnet", "hidden_act": "gelu"})
    folder.refuses("a ResNet's configuration with a GELU", "gelu")
    folder.put(resnet(), config={"model_type": "resnet", "hidden_act": "relu", "downsample_in_bottleneck": True})
    folder.expect("a ResNet's own", heads=0, activation="", network="stride first")
    check("network: stride first" in l3a("info", folder.path).stdout, "l3a info says where the stride is")


def test_whole_models(folder):
    """Copies of the tower, and what an optimiser keeps, beside a tower without a prefix."""
    tower, other = vit(), vit(depth=2)
    for prefix in "ema.", "model_ema.module.", "ema_model.", "optimizer.state.":
        folder.put({**{prefix + name: values for name, values in other.items()}, **tower})
        folder.expect(f"beside {prefix}", HALF, name="depth 1")
        said = l3a("doctor", "--backbone", folder.path).stdout
        check("features 64 wide" in said, f"beside {prefix}: {said}")
    folder.put({**tower, "memory.queue": np.ones(3, np.float32)})
    folder.refuses("beside something unknown", "memory.queue", **HALF)


def test_hints(folder):
    """`l3a info` names the option to give."""
    folder.put(vit(128))
    check("--heads" in l3a("info", folder.path).stdout, "l3a info: unknown heads")
    folder.put(vit())
    check("--mean" in l3a("info", folder.path).stdout, "l3a info: an unknown mean")


def test_sides(folder):
    folder.put(vit(across=3), config={"architecture": "vit_x", "pretrained_cfg": {"input_size": [3, 50, 50]}})
    folder.expect("a side with a remainder, of the network's own grid", HALF, preprocess="50x50")
    folder.refuses("of another grid", "cannot take pictures of 65 x 65", "64 x 64", **HALF, side=65)
    folder.expect("another grid", {**HALF, "side": 64}, preprocess="64x64", decided="size, mean as given")
    folder.refuses("a side as an option", "at most 4096", **HALF, side=4112)
    folder.put(vit(), {"l3a.side": "4112"})
    folder.refuses("a side in the metadata", "l3a.side", **HALF)
    folder.put(resnet())
    tiny = (-1.1754944e-38, -2.1754944e-38, -3.1754944e-38)
    folder.refuses("digits that cannot be recorded", "too many digits", mean=tiny, deviation=tuple(-number for number in tiny), crop=0.12345678901234567)
    # DINOv2's offset is that of patches of 14 and pictures of 518, and of no other network with scaled blocks
    scales = {"blocks.0.ls1.gamma": np.ones(64, np.float32), "blocks.0.ls2.gamma": np.ones(64, np.float32)}
    folder.put({**vit(patch=14, across=37), **scales})
    folder.expect("DINOv2", {"side": 224}, preprocess="224x224")
    folder.put({**vit(patch=14, across=16), **scales})
    folder.expect("another network with scaled blocks", {"side": 518}, preprocess="518x518")


# ---- The command ----

def picture_folder(folder):
    """Two classes of four pictures."""
    rng = np.random.default_rng(1)
    for number in range(8):
        place = folder / "photos" / ("dark", "light")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        feature_file.write_png(place / f"{number}.png", rng.integers(0, 100, (40, 40, 3)) + 120 * (number % 2))
    return folder / "photos"


def tag_columns(text):
    """Paths and tags; scores differ, since the coefficients are rounded."""
    return [line.split(",")[:2] for line in text.splitlines()]


def test_records(folder):
    """Feature files and models record the recipe, which must agree wherever two meet; a model opens its network as recorded."""
    photos, place = picture_folder(folder.folder), folder.folder
    folder.put(clip(), {"l3a.heads": "2", "l3a.activation": "quick_gelu"})

    def extract(name, *options):
        l3a("extract", "--backbone", folder.path, "--data", f"folders:{photos}", "-o", place / name, "--quiet", *options)
        return feature_file.load(place / name)[1]

    metadata = extract("first.safetensors")
    check(metadata["network"] == "heads 2, quick_gelu, epsilon 1e-05" and metadata["pool"] == "cls" and metadata["preprocess"].startswith("rgb 32x32"),
          f"recorded: {metadata}")
    for words, *option in (("network is 'heads 2, quick_gelu, epsilon 1e-05'", "--heads", "4"), ("network is", "--activation", "gelu"), ("pool is", "--pool", "max"),
                           ("features 32 wide", "--pool", "projection"), ("preprocess is", "--size", "48"), ("preprocess is", "--mean", "0.5", "--std", "0.5")):
        extract("other.safetensors", *option)
        refuse(words, "run", "--train", place / "first.safetensors", "--test", place / "other.safetensors", "--dim", "8", "-o", place / "run")
    extract("other.safetensors")
    l3a("run", "--train", place / "first.safetensors", "--test", place / "other.safetensors", "--protocol", "B0-C1", "--dim", "8", "-o", place / "run", "--quiet")
    for shard, activation in ("1/2", "quick_gelu"), ("2/2", "gelu"):
        extract(f"{activation}.safetensors", "--shard", shard, "--activation", activation)
    refuse("network is 'heads 2, quick_gelu, epsilon 1e-05'", "merge", place / "quick_gelu.safetensors", place / "gelu.safetensors", "-o", place / "joined")
    model = place / "model.l3a"
    l3a("teach", model, f"folders:{photos}", "--backbone", folder.path, "--size", "48", "--heads", "4", "--dim", "128", "--quiet")
    shown = json.loads(l3a("info", model, "--format", "json").stdout)
    check("heads 4, quick_gelu" in json.dumps(shown) and "48x48" in json.dumps(shown), f"the model records {shown}")
    # by now a configuration says something else; the model stays as it was learned
    files = sorted(str(path) for path in photos.rglob("*.png"))
    before = l3a("predict", model, "--orient", "--backbone", folder.path, *files, "--format", "csv", "--quiet").stdout
    (place / "config.json").write_text(json.dumps({"architecture": "vit_x", "pretrained_cfg": {"mean": [0.9] * 3, "std": [0.1] * 3}}))
    check(l3a("predict", model, "--orient", "--backbone", folder.path, *files, "--format", "csv", "--quiet").stdout == before, "a configuration changes what a model tags")
    check(l3a("predict", model, "--orient", "--backbone", folder.path, *files, "--format", "csv", "--quiet", "--size", "48").stdout == before, "the recorded size, given again, changes it")
    # one file to tag with, which holds the network but not its names and configuration
    tagged = l3a("tag", model, *files, "--format", "csv", "--quiet").stdout
    l3a("pack", model, "-o", place / "packed", "--with-backbone", "--quiet")
    packed = l3a("tag", place / "packed", *files, "--format", "csv", "--quiet").stdout
    check(len(tagged.splitlines()) > 8 and tag_columns(packed) == tag_columns(tagged), "a packed model tags as the model does")
    refuse("48x48", "predict", model, "--orient", "--backbone", folder.path, *files, "--size", "32")


def test_doctor(folder):
    folder.put(vit())
    refuse("--heads needs --backbone", "doctor", "--heads", "2")
    refuse("4096", "doctor", "--backbone", folder.path, "--size", "8192")
    said = l3a("doctor", "--backbone", folder.path, "--heads", "2").stdout
    check("pictures/s" in said and "features 64 wide" in said, said)


def main():
    library = Backbones(threads=1)
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(library, place)
        for test in (test_precedence, test_heads_and_activation, test_open_clip, test_what_is_certain, test_families, test_what_a_family_lacks, test_whole_models, test_hints, test_sides, test_records, test_doctor):
            test(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
