#!/usr/bin/python3
"""Batches of pictures for training against Pillow, byte for byte: the part is resize(box=…), mirrored by transpose() and filled. The order of a
pass and what happens to each picture are drawn here a second time, from the rules at the head of src/image/augment.c."""
import glob
import math
import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from support import check, finish, skip, splitmix

try:
    import numpy
    from PIL import Image, ImageEnhance, ImageOps
except ImportError as error:
    skip(f"{error}; apt-get install python3-pil python3-numpy")

SOURCE = Path(os.environ["L3A_SOURCE"])
SHARED = Path(os.environ.get("L3A_SHARED", SOURCE.parent / "shared"))
PROGRAM = Path(os.environ["L3A_BUILD"]) / "tests/training_batches"
BATCH, FILTERS = 7, (Image.BILINEAR, Image.BICUBIC)
ORDER, CHANGES = 0, 1  # streams of a run
PART, FLIP, CUTOUT, RANDOM = 0, 1, 2, 3  # streams of a picture


class Stream:
    def __init__(self, seed, kind):
        self.seed, self.next = splitmix(seed, kind), 0

    def bits(self):
        self.next += 1
        return splitmix(self.seed, self.next - 1)

    def uniform(self):
        return (self.bits() >> 40) / 2**24

    def below(self, count):
        return self.bits() % count


def half_up(value):
    return math.floor(value + 0.5)


def draw_part(stream, least, most, ratio, width, height):
    """left, top, right, bottom"""
    for _ in range(10):
        area = (least + (most - least) * stream.uniform()) * width * height
        power = 2 * stream.uniform() - 1
        shape = ratio**power if ratio else width / height
        w, h = half_up(math.sqrt(area * shape)), half_up(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            left, top = stream.below(width - w + 1), stream.below(height - h + 1)
            return left, top, left + w, top + h
    w, h = (min(width, half_up(height * ratio)), min(height, half_up(width * ratio))) if ratio else (width, height)
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def affine(a, b, c, d, e, f):
    return lambda picture: picture.transform(picture.size, Image.AFFINE, (a, b, c, d, e, f))


def moved(side):
    return int(0.3 * 150 / 331 * side)


# Of RandAugment, in the order of src/image/rand_augment.h; those of the sign get it.
OPERATIONS = (
    lambda picture, _: picture,
    lambda picture, sign: affine(1, 0.09 * sign, 0, 0, 1, 0)(picture),
    lambda picture, sign: affine(1, 0, 0, 0.09 * sign, 1, 0)(picture),
    lambda picture, sign: affine(1, 0, sign * moved(picture.width), 0, 1, 0)(picture),
    lambda picture, sign: affine(1, 0, 0, 0, 1, sign * moved(picture.height))(picture),
    lambda picture, sign: picture.rotate(sign * 9),
    lambda picture, sign: ImageEnhance.Brightness(picture).enhance(1 + sign * 0.27),
    lambda picture, sign: ImageEnhance.Color(picture).enhance(1 + sign * 0.27),
    lambda picture, sign: ImageEnhance.Contrast(picture).enhance(1 + sign * 0.27),
    lambda picture, sign: ImageEnhance.Sharpness(picture).enhance(1 + sign * 0.27),
    lambda picture, _: ImageOps.posterize(picture, 7),
    lambda picture, _: ImageOps.solarize(picture, 178.5),
    lambda picture, _: ImageOps.autocontrast(picture),
    lambda picture, _: ImageOps.equalize(picture),
)
tried = set()


def changed_at_random(pixels, seed):
    stream, picture = Stream(seed, RANDOM), Image.fromarray(pixels)
    for _ in range(2):
        operation = stream.below(len(OPERATIONS))
        sign = -1 if stream.uniform() < 0.5 else 1
        picture = OPERATIONS[operation](picture, sign)
        tried.add((operation, sign))
    return numpy.array(picture)


def changed(picture, seed, size, filter, least, most, ratio, flip, cutout, random):
    box = draw_part(Stream(seed, PART), least, most, ratio, *picture.size) if most else None
    picture = picture.resize(size, filter, box=box)
    if flip and Stream(seed, FLIP).uniform() < 0.5:
        picture = picture.transpose(Image.FLIP_LEFT_RIGHT)
    pixels = numpy.array(picture)
    if cutout:
        stream = Stream(seed, CUTOUT)
        sides = [half_up(cutout * side) for side in size]
        x, y = (stream.below(side) - length // 2 for side, length in zip(size, sides))
        colour = [stream.below(256) for _ in range(3)]
        pixels[max(y, 0) : y + sides[1], max(x, 0) : x + sides[0]] = colour
    return changed_at_random(pixels, seed) if random else pixels


def order_of(seed, epoch, count):
    stream, order = Stream(splitmix(seed, ORDER), epoch), list(range(count))
    for i in range(count, 1, -1):
        j = stream.below(i)
        order[i - 1], order[j] = order[j], order[i - 1]
    return order


def run(folder, size, *rest):
    """Rows, paths and pixels."""
    words = [PROGRAM, f"folders:{folder}", "x".join(map(str, size)), *map(str, rest)]
    data, found, at = subprocess.run(words, check=True, capture_output=True).stdout, [], 0
    width, height = size
    while at < len(data):
        row, length = struct.unpack_from("=QQ", data, at)
        at += 16
        path = data[at : at + length].decode()
        planes = numpy.frombuffer(data, numpy.uint8, 3 * width * height, at + length).reshape(3, height, width)
        found.append((row, path, planes.transpose(1, 2, 0)))
        at += length + planes.size
    return found


def compare(folder, count, size, filter, least, most, ratio, flip, cutout, seed, epoch, threads, random=False):
    words = filter, least, most, ratio, int(flip), cutout, int(random), seed, epoch
    what = f"{folder}, {size}, filter, least, most, ratio, flip, cutout, random, seed, epoch = {words}"
    found = run(folder, size, *words, 0, threads)
    check([row for row, _, _ in found] == order_of(seed, epoch, count), f"{what}: the order")
    for row, path, pixels in found:
        with Image.open(path) as opened:
            picture = opened.convert("RGB")
        own = splitmix(splitmix(splitmix(seed, CHANGES), epoch), row)
        expected = changed(picture, own, size, FILTERS[filter], least, most, ratio, flip, cutout, random)
        check(numpy.array_equal(pixels, expected), f"{what}: {path}, {picture.size}: {(pixels != expected).sum()} bytes differ")
    again = run(folder, size, *words, 2, 3)
    same = all(a[:2] == b[:2] and numpy.array_equal(a[2], b[2]) for a, b in zip(again, found[2 * BATCH :], strict=True))
    check(same, f"{what}: from the third batch on, with three threads")


def make_pictures(folder):
    """Noise and smooth colours in all shapes."""
    os.makedirs(f"{folder}/class")
    shapes = [(1, 1), (2, 7), (5, 3), (1, 40), (30, 1), (33, 47), (64, 56), (224, 224), (373, 498), (500, 375), (640, 480), (90, 700), (2000, 60),
              (56, 64), (225, 223), (300, 300)]
    for number, (width, height) in enumerate(shapes):
        values = numpy.random.default_rng(number).integers(0, 256, (height, width, 3))
        if number % 2:
            y, x = numpy.mgrid[0:height, 0:width]
            values = values // 8 + numpy.stack([(x + c * y) % 224 for c in range(3)], 2)
        Image.fromarray(values.astype(numpy.uint8)).save(f"{folder}/class/{number:02}.png", compress_level=1)
    return len(shapes)


def copy_photographs(folder):
    photographs = sorted(glob.glob(str(SHARED / "data/voc2007-small/VOCdevkit/VOC2007/JPEGImages/*.jpg")))[::40]
    os.makedirs(f"{folder}/class")
    for path in photographs:
        shutil.copy(path, f"{folder}/class")
    return len(photographs)


def main():
    with tempfile.TemporaryDirectory() as folder:
        made = make_pictures(f"{folder}/made")
        for filter in (0, 1):
            for number, changes in enumerate((
                (0, 0, 0, False, 0), (0, 0, 0, True, 0), (0.05, 1, 4 / 3, False, 0), (0.5, 1, 0, True, 0), (0.05, 0.3, 3, True, 0.5),
                (1, 1, 1, False, 0), (1, 1, 0, False, 1), (0.2, 0.2, 1, True, 0.1),
            )):
                for size in ((64, 56), (224, 224)):
                    compare(f"{folder}/made", made, size, filter, *changes, 2**64 - 3 + number % 2, number, 1 + number % 2)
        for epoch in range(12):
            compare(f"{folder}/made", made, ((64, 56), (224, 224))[epoch % 2], 0, 0, 0, 0, False, 0.5 * (epoch > 5), 5, epoch, 2, random=True)
        check(len(tried) == 2 * len(OPERATIONS), f"{len(tried)} changes of RandAugment were tried")
        photographs = copy_photographs(f"{folder}/photographs")
        if photographs:
            compare(f"{folder}/photographs", photographs, (224, 224), 0, 0, 0, 0, False, 0.5, 1, 0, 2, random=True)
            compare(f"{folder}/photographs", photographs, (224, 224), 0, 0.05, 1, 4 / 3, True, 0, 1, 0, 2)
            compare(f"{folder}/photographs", photographs, (224, 224), 1, 0.5, 1, 0, True, 0.5, 1, 1, 2)
        else:
            print("skipped: photographs;", SHARED, "is missing")
    return finish()


if __name__ == "__main__":
    raise SystemExit(main())
