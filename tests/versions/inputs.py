"""What the files of every version are made from: pictures with labels, and two small networks. All of it follows from this program, byte for byte,
so it is made again for each test instead of being kept."""
import json
import struct
import zlib

CLASSES = ["blue", "bright", "dark", "green", "red", "striped"]
TRAIN, TEST = 40, 20


def uniform(seed, i):
    """A number from 0 to 1 (splitmix64)."""
    z = (seed * 0x9E3779B97F4A7C15 + (i + 1) * 0xBF58476D1CE4E5B9) & (2 ** 64 - 1)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = ((z ^ (z >> shift)) * factor) & (2 ** 64 - 1)
    return ((z ^ (z >> 31)) >> 40) / 2 ** 24


def write_png(path, side, pixel):
    """A picture of side x side pixels; nothing is compressed, so that the bytes are the same wherever it is written."""
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    lines = b"".join(b"\0" + b"".join(bytes(pixel(x, y)) for x in range(side)) for y in range(side))
    stored = b"\x78\x01\x01" + struct.pack("<HH", len(lines), len(lines) ^ 0xFFFF) + lines + struct.pack(">I", zlib.adler32(lines))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) + chunk(b"IDAT", stored) +
                     chunk(b"IEND", b""))


def labels_of(i):
    """A colour for each picture, and stripes, dark or bright for some."""
    chosen = [["red", "green", "blue"][i % 3]]
    if i % 4 == 1:
        chosen.append("striped")
    if i % 5 == 2:
        chosen.append("dark")
    if i % 7 == 3:
        chosen.append("bright")
    return sorted(chosen)


def write_picture(path, i):
    labels, channel = labels_of(i), i % 3
    low, high = (10, 90) if "dark" in labels else (120, 250) if "bright" in labels else (60, 190)

    def pixel(x, y):
        noise = [int(40 * uniform(1000 + i, 3 * (16 * y + x) + c)) for c in range(3)]
        dark = "striped" in labels and y // 2 % 2
        return [min(255, (high if c == channel and not dark else low) + noise[c]) for c in range(3)]
    write_png(path, 16, pixel)


def write_tensors(path, tensors):
    """A safetensors file of float32: {name: (shape, numbers)}."""
    listed, data = {}, b""
    for name, (shape, numbers) in tensors.items():
        content = struct.pack(f"<{len(numbers)}f", *numbers)
        listed[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    header = json.dumps(listed, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def fill(tensors, name, shape, low, high):
    size = 1
    for n in shape:
        size *= n
    seed = zlib.crc32(name.encode())
    tensors[name] = (shape, [low + (high - low) * uniform(seed, i) for i in range(size)])


def write_resnet(path):
    """A ResNet whose stages have 2, 4, 8 and 16 channels, so sixteen numbers for a picture."""
    tensors = {}

    def add(conv, norm, out, before, kernel):
        reach = (3 / (before * kernel * kernel)) ** 0.5
        fill(tensors, conv + ".weight", [out, before, kernel, kernel], -1.5 * reach, 1.7 * reach)
        for name, low, high in (("weight", 0.8, 1.2), ("bias", 0, 0.3), ("running_mean", -0.1, 0.1), ("running_var", 0.8, 1.2)):
            fill(tensors, f"{norm}.{name}", [out], low, high)
    add("conv1", "bn1", 2, 3, 7)
    for stage in range(4):
        width = 2 << stage
        before = max(width // 2, 2)
        add(f"layer{stage + 1}.0.conv1", f"layer{stage + 1}.0.bn1", width, before, 3)
        add(f"layer{stage + 1}.0.conv2", f"layer{stage + 1}.0.bn2", width, width, 3)
        if stage:
            add(f"layer{stage + 1}.0.downsample.0", f"layer{stage + 1}.0.downsample.1", width, before, 1)
    write_tensors(path, tensors)


def write_vit(path):
    """A ViT of width 128 and depth 1, which up to 0.8 was taken to have two heads of 64 numbers. Nobody can know."""
    tensors, width = {}, 128
    fill(tensors, "cls_token", [1, 1, width], -1, 1)
    fill(tensors, "pos_embed", [1, 5, width], -1, 1)
    fill(tensors, "patch_embed.proj.weight", [width, 3, 8, 8], -0.2, 0.2)
    for name, shape, size in (("patch_embed.proj.bias", [width], 0.1), ("blocks.0.attn.qkv.weight", [3 * width, width], 0.4),
                              ("blocks.0.attn.qkv.bias", [3 * width], 0.1), ("blocks.0.attn.proj.weight", [width, width], 0.3),
                              ("blocks.0.attn.proj.bias", [width], 0.1), ("blocks.0.mlp.fc1.weight", [8, width], 0.2),
                              ("blocks.0.mlp.fc1.bias", [8], 0.1), ("blocks.0.mlp.fc2.weight", [width, 8], 0.3),
                              ("blocks.0.mlp.fc2.bias", [width], 0.1)):
        fill(tensors, name, shape, -size, size)
    for name in "blocks.0.norm1", "blocks.0.norm2", "norm":
        fill(tensors, name + ".weight", [width], 0.8, 1.2)
        fill(tensors, name + ".bias", [width], -0.1, 0.1)
    write_tensors(path, tensors)


def write_inputs(folder):
    """folder/pictures, folder/list.csv, folder/resnet.safetensors and folder/vit.safetensors."""
    pictures = folder / "pictures"
    pictures.mkdir(parents=True)
    rows = ["path,labels,split"]
    for i in range(TRAIN + TEST):
        write_picture(pictures / f"{i:02}.png", i)
        rows.append(f"pictures/{i:02}.png,{';'.join(labels_of(i))},{'train' if i < TRAIN else 'test'}")
    (folder / "list.csv").write_text("\n".join(rows) + "\n")
    write_resnet(folder / "resnet.safetensors")
    write_vit(folder / "vit.safetensors")
