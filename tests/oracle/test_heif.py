#!/usr/bin/python3
"""HEIC and AVIF pictures, made by heif-enc, against heif-convert, byte for byte: both convert colours with libheif. A picture of
tiles, as phones write it, is put together here, and turned and mirrored by NumPy."""
import glob
import os
import shutil
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path

from library import Library, Refused
from support import skip


source = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))
shared = Path(os.environ.get("L3A_SHARED", source.parent / "shared"))
if not shutil.which("heif-enc") or not shutil.which("heif-convert"):
    skip("heif-enc and heif-convert are missing; apt-get install libheif-examples")
try:
    import numpy
    from PIL import Image
except ImportError as error:
    skip(f"{error}; apt-get install python3-pil python3-numpy")

photographs = sorted(glob.glob(str(shared / "data/voc2007-small/VOCdevkit/VOC2007/JPEGImages/*.jpg")))
library = Library()
formats = [library.picture_format_at(i) for i in range(5)]
if b"heic" not in formats:
    skip("this build does not read HEIC pictures")
KINDS = ["heic"] + ["avif"] * (b"avif" in formats)


def read(path, orient=0, limit=0):
    return library.read_picture(path, orient=orient, pixel_limit=limit)


def refusal(path, **settings):
    try:
        read(path, **settings)
    except Refused as refused:
        return refused.args
    raise AssertionError(f"{path} was read")


def encode(picture, path, *settings):
    given = path.with_suffix(".png")
    picture.save(given)
    subprocess.run(["heif-enc", *settings, given, "-o", path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def converted(path):
    made = path.with_suffix(".out.png")
    subprocess.run(["heif-convert", path, made], check=True, stdout=subprocess.DEVNULL)
    return numpy.asarray(Image.open(made).convert("RGB"))


def same(what, found, expected):
    assert found.shape == expected.shape, f"{what}: {found.shape}, heif-convert {expected.shape}"
    different = int((found != expected).sum())
    assert not different, f"{what}: {different} of {found.size} bytes differ, by up to {abs(found.astype(int) - expected).max()}"


def close(what, found, expected, limit):
    expected = numpy.asarray(expected, dtype=int)
    assert found.shape == expected.shape, f"{what}: {found.shape}, expected {expected.shape}"
    difference = abs(found - expected).mean()
    assert difference < limit, f"{what}: off by {difference:.1f} on average"


def scene(width, height):
    y, x = numpy.mgrid[0:height, 0:width]
    values = numpy.stack([127 + 120 * numpy.sin(x / 9 + i) * numpy.cos(y / 7 - i) for i in range(3)], 2)
    values[: height // 3, : width // 2] = (255, 0, 40)
    return Image.fromarray(values.clip(0, 255).astype(numpy.uint8))


def transparent(picture):
    picture = picture.convert("RGBA")
    picture.putalpha(Image.fromarray(numpy.tile(numpy.arange(picture.width) % 256, (picture.height, 1)).astype(numpy.uint8)))
    return picture


def test_kinds(folder):
    count = 0
    lossless = ("-L", "-p", "chroma=444", "--matrix_coefficients=0")
    for kind in KINDS:
        for width, height in ((97, 61), (64, 64), (200, 33)):
            picture = scene(width, height)
            for name, given, settings in (("plain", picture, ()), ("rough", picture, ("-q", "10")), ("full colour", picture, ("-p", "chroma=444")),
                                          ("lossless", picture, lossless), ("grey", picture.convert("L"), ()),
                                          ("transparent", transparent(picture), ()), ("thumbnail", picture, ("-t", "32")),
                                          ("limited range", picture, ("--full_range_flag=0",)),
                                          ("BT.709", picture, ("--matrix_coefficients=1",))):
                path = folder / f"picture.{kind}"
                encode(given, path, *settings)
                found = read(path)
                same(f"{kind} {name} {width}x{height}", found, converted(path))
                close(f"{kind} {name} {width}x{height}", found, given.convert("RGB"), 1 if name == "lossless" else 20)
                assert library.picture_format(path.read_bytes()[:64], 64) == kind.encode()
                count += 1
    return f"{count} pictures with heif-convert's pixels"


def test_deep(folder):
    """heif-convert writes 10 and 12 bits to 16; their upper 8 are what the library asks libheif for. (heif-enc 1.15 makes no such AVIF.)"""
    values = numpy.asarray(scene(90, 70)).astype(numpy.uint16) * 257
    given, path = folder / "deep.png", folder / "deep.heic"
    given.write_bytes(png16(values))
    for bits in (10, 12):
        subprocess.run(["heif-enc", "-b", str(bits), given, "-o", path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = read(path)
        same(f"{bits} bits", found, converted(path))
        close(f"{bits} bits", found, values >> 8, 20)
    return "pictures of 10 and 12 bits"


def png16(values):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_photographs(folder):
    chosen = photographs[:: max(1, len(photographs) // 12)]
    for number, photograph in enumerate(chosen):
        for kind in KINDS[: 1 + (number % 4 == 0)]:
            path = folder / f"photograph.{kind}"
            subprocess.run(["heif-enc", "-q", str(30 + 5 * (number % 12)), *(["-p", "speed=9"] if kind == "avif" else []), photograph, "-o", path],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            same(f"{photograph} as {kind}", read(path), converted(path))
    return f"{len(chosen)} photographs"


# ---- Boxes -------------------------------------------------------------------------------------------------------------
def box(kind, *parts):
    data = b"".join(parts)
    return struct.pack(">I", 8 + len(data)) + kind + data


def full(kind, *parts, version=0, flags=0):
    return box(kind, struct.pack(">I", version << 24 | flags), *parts)


def boxes(data):
    at = 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at : at + size]
        at += size


def coded(path):
    """The coded picture of a file that heif-enc wrote, and its hvcC box."""
    data = path.read_bytes()
    top = dict(boxes(data))
    configuration = data[data.index(b"hvcC") - 4 :]
    return top[b"mdat"][8:], configuration[: struct.unpack_from(">I", configuration)[0]]


def grid(tiles, columns, width, height, side, extra=()):
    """A picture of tiles, as phones write it. Item 1 is the grid; tile i is item i + 2. extra: properties of the grid."""
    rows, count = len(tiles) // columns, len(tiles)
    content = struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, width, height)
    items = [content] + [tile for tile, _ in tiles]
    properties = [full(b"ispe", struct.pack(">II", width, height)), full(b"ispe", struct.pack(">II", side, side)), tiles[0][1],
                  full(b"pixi", b"\3\x08\x08\x08"), *extra]
    used = [struct.pack(">HB", 1, 2 + len(extra)) + bytes([1, 4] + [0x85 + i for i in range(len(extra))])]
    used += [struct.pack(">HB", i + 2, 3) + bytes([2, 0x83, 4]) for i in range(count)]
    infos = [full(b"infe", struct.pack(">HH4s", i + 1, 0, b"grid" if i == 0 else b"hvc1"), b"\0", version=2, flags=i > 0)
             for i in range(count + 1)]
    references = full(b"iref", box(b"dimg", struct.pack(f">HH{count}H", 1, count, *range(2, count + 2))))

    def meta(start):
        places, at = b"", start
        for i, item in enumerate(items):
            places += struct.pack(">HHHII", i + 1, 0, 1, at, len(item))
            at += len(item)
        return full(b"meta", full(b"hdlr", struct.pack(">I4s12x", 0, b"pict"), b"\0"), full(b"pitm", struct.pack(">H", 1)),
                    full(b"iloc", struct.pack(">HH", 0x4400, len(items)), places), full(b"iinf", struct.pack(">H", len(infos)), *infos), references,
                    box(b"iprp", box(b"ipco", *properties), full(b"ipma", struct.pack(">I", len(used)), *used)))

    head = box(b"ftyp", b"heic", struct.pack(">I", 0), b"mif1heic")
    start = len(head) + len(meta(0)) + 8
    return head + meta(start) + box(b"mdat", *items)


def test_tiles(folder):
    side, columns, rows = 64, 3, 2
    width, height = 170, 100
    picture = scene(side * columns, side * rows)
    tiles, parts = [], []
    for i in range(columns * rows):
        x, y = side * (i % columns), side * (i // columns)
        path = folder / f"tile{i}.heic"
        encode(picture.crop((x, y, x + side, y + side)), path)
        tiles.append(coded(path))
        parts.append(converted(path))
    whole = numpy.concatenate([numpy.concatenate(parts[columns * row : columns * (row + 1)], 1) for row in range(rows)])[:height, :width]
    path = folder / "grid.heic"
    path.write_bytes(grid(tiles, columns, width, height, side))
    same("grid", read(path), whole)
    same("grid by heif-convert", converted(path), whole)
    for turns in range(4):  # counter-clockwise, and then top and bottom (0) or left and right (1) are exchanged
        turned = numpy.rot90(whole, turns)
        for mirror, expected in ((None, turned), (0, turned[::-1]), (1, turned[:, ::-1])):
            extra = [box(b"irot", bytes([turns]))] + ([] if mirror is None else [box(b"imir", bytes([mirror]))])
            path.write_bytes(grid(tiles, columns, width, height, side, extra))
            for orient in (0, 1):
                same(f"grid turned {turns} times, mirrored {mirror}, orient {orient}", read(path, orient), expected)
    return "pictures of tiles, turned and mirrored"


def test_orientation(folder):
    """heif-enc keeps the EXIF data of a JPEG file. Its orientation is not applied, as the standard says."""
    picture = scene(96, 64)
    given, path = folder / "turned.jpg", folder / "turned.heic"
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        picture.save(given, exif=exif, quality=95)
        subprocess.run(["heif-enc", given, "-o", path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert b"Exif" in path.read_bytes()
        expected = converted(path)
        for orient in (0, 1):
            same(f"orientation {orientation}, orient {orient}", read(path, orient), expected)
    return "8 orientations in EXIF data"


def test_refused(folder):
    path, cut = folder / "whole.heic", folder / "cut.heic"
    encode(scene(300, 200), path)
    data = path.read_bytes()
    for size in [*range(32, len(data), max(1, len(data) // 97)), len(data) - 1]:
        cut.write_bytes(data[:size])
        status, text, _ = refusal(cut)
        assert status == 7 and text == f"{cut}: the HEIC file ends at byte {size}, in the middle of the picture", (size, status, text)
    status, text, hint = refusal(path, limit=300 * 200 - 1)
    assert status == 10 and "claims to have 300 x 200 pixels; the limit is 59999" in text and "pixel_limit" in hint, text
    size = full(b"ispe", struct.pack(">II", 300, 200))
    cut.write_bytes(data.replace(size, full(b"ispe", struct.pack(">II", 30000, 20000))))
    status, text, _ = refusal(cut)
    assert status == 10 and "30000 x 20000" in text, text
    cut.write_bytes(data.replace(size, full(b"ispe", struct.pack(">II", 2000000000, 2000000000))))
    status, text, _ = refusal(cut)
    assert status == 10 and "too large for libheif: " in text and "2000000000" in text and "\n" not in text, text
    cut.write_bytes(data.replace(b"pitm", b"free"))
    status, text, _ = refusal(cut)
    assert status == 6 and text.startswith(f"{cut}: the HEIC file cannot be read: ") and len(text) > 50, text
    cut.write_bytes(data.replace(b"hvc1", b"avc1"))
    status, text, _ = refusal(cut)
    assert status == 6, text
    return "damaged and oversized files"


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(test_kinds(folder))
        print(test_deep(folder))
        print(test_tiles(folder))
        print(test_orientation(folder))
        print(test_refused(folder))
        print(test_photographs(folder) if photographs else f"skipped: photographs need {shared}/data/voc2007-small")


main()
