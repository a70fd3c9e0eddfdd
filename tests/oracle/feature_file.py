"""What the tests that go from pictures to numbers share: safetensors files, small PNG pictures and a small network, all written here by
other code than the library's."""
import json
import struct
import zlib
from pathlib import Path

import numpy as np

TYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "I8": np.int8, "U8": np.uint8, "I64": np.int64}


def load(path):
    """Tensors and metadata."""
    data = Path(path).read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, about in header.items():
        start, end = about["data_offsets"]
        tensors[name] = np.frombuffer(data[8 + size + start:8 + size + end], TYPES[about["dtype"]]).reshape(about["shape"])
    return tensors, metadata


def save(path, tensors, metadata):
    names = {np.dtype(kind): name for name, kind in TYPES.items()}
    header, at = {"__metadata__": {k: v for k, v in metadata.items() if not k.startswith("xxh3.")}}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": names[array.dtype], "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


def ids(tensors):
    return tensors["ids"].tobytes().decode().split("\n")


def write_png(path, pixels):
    """An RGB picture [height, width, 3]."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels.astype(np.uint8))
    Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                           chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def write_small_vit(path, seed=1):
    """A ViT of one block for pictures of 32 x 32 pixels, with random weights: quick, and 64 numbers a picture."""
    rng = np.random.default_rng(seed)
    shapes = {"patch_embed.proj.weight": (64, 3, 16, 16), "patch_embed.proj.bias": (64,), "cls_token": (1, 1, 64), "pos_embed": (1, 5, 64),
              "blocks.0.attn.qkv.weight": (192, 64), "blocks.0.attn.qkv.bias": (192,), "blocks.0.attn.proj.weight": (64, 64),
              "blocks.0.attn.proj.bias": (64,), "blocks.0.mlp.fc1.weight": (64, 64), "blocks.0.mlp.fc1.bias": (64,),
              "blocks.0.mlp.fc2.weight": (64, 64), "blocks.0.mlp.fc2.bias": (64,)}
    tensors = {name: (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32) for name, shape in shapes.items()}
    for name in "blocks.0.norm1", "blocks.0.norm2", "norm":
        tensors[name + ".weight"], tensors[name + ".bias"] = np.ones(64, np.float32), np.zeros(64, np.float32)
    save(path, tensors, {"l3a.mean": "0.5", "l3a.std": "0.5"})
