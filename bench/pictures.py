#!/usr/bin/python3
"""Measures the reading of pictures on one core: resizing compared with Pillow; and everything from a file to planes of floats, compared
with Pillow and with libjpeg-turbo alone, which decodes the same bytes from memory.

The rivals take turns in every round. The processor time of the process is compared, including its threads, so that other programs
disturb the result as little as possible. Each line has its target and the median of the rounds' ratios, with the smallest and the
largest; below it is the ratio of the fastest rounds, which is the better estimate on a machine that is not idle.

    bench/pictures.py [--pictures N] [--rounds N]        L3A_BUILD: the build folder; L3A_SHARED: the folder that contains data/
"""
import argparse
import ctypes
import glob
import os
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("L3A_BUILD", os.path.join(HERE, "..", "build"))
SHARED = os.environ.get("L3A_SHARED", os.path.join(HERE, "..", "..", "shared"))
SIZE = 224

sys.path.insert(0, HERE)
from measured import report as state, spread  # noqa: E402

os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
try:
    import numpy
    from PIL import Image
except ImportError as error:
    sys.exit(f"{error}; apt-get install python3-pil python3-numpy")


class Picture(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("pixels", ctypes.c_void_p)]

    def __init__(self, *values):
        super().__init__(ctypes.sizeof(self), *values)


class Library:
    def __init__(self):
        self.c = ctypes.CDLL(os.path.join(BUILD, "libl3a.so"))
        self.c.l3a_error_text.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        self.check(self.c.l3a_context_create(None, ctypes.byref(self.context)))

    def check(self, status):
        if status:
            sys.exit(f"status {status}: {self.c.l3a_error_text(self.context).decode()}")

    def resize_all(self, pictures, filter):
        resized, size = Picture(), ctypes.c_size_t(SIZE)
        for picture in pictures:
            self.check(self.c.l3a_picture_resize(self.context, ctypes.byref(picture), size, size, filter, ctypes.byref(resized)))
            self.c.l3a_picture_free(self.context, ctypes.byref(resized))

    def load_all(self, paths):
        loader, index = ctypes.c_void_p(), ctypes.c_size_t()
        array = (ctypes.c_char_p * len(paths))(*[path.encode() for path in paths])
        planes = numpy.empty((3, SIZE, SIZE), numpy.float32)
        out = planes.ctypes.data_as(ctypes.c_void_p)
        self.check(self.c.l3a_loader_create(self.context, array, ctypes.c_size_t(len(paths)), None, ctypes.byref(loader)))
        for _ in paths:
            self.check(self.c.l3a_loader_next(loader, ctypes.byref(index), out))
        self.c.l3a_loader_free(loader)


class Turbo:
    def __init__(self):
        self.c = ctypes.CDLL("libturbojpeg.so.0")
        self.c.tjInitDecompress.restype = ctypes.c_void_p
        self.handle = ctypes.c_void_p(self.c.tjInitDecompress())

    def decode_all(self, files, room):
        for data in files:
            if self.c.tjDecompress2(self.handle, data, ctypes.c_ulong(len(data)), room, 0, 0, 0, 0, 0):
                sys.exit("TurboJPEG cannot read a picture")


def pillow_resize_all(images, method):
    for image in images:
        image.resize((SIZE, SIZE), method)


def pillow_load_all(paths):
    for path in paths:
        image = Image.open(path).convert("RGB").resize((SIZE, SIZE), Image.BILINEAR)
        numpy.ascontiguousarray((numpy.asarray(image, numpy.float32) / 255).transpose(2, 0, 1))


def alternate(rounds, *rivals):
    """The processor seconds of each rival, as a list over rounds; the first round is a warm-up."""
    seconds = [[] for _ in rivals]
    for number in range(rounds + 1):
        for rival, measured in zip(rivals, seconds):
            start = time.process_time()
            rival()
            if number:
                measured.append(time.process_time() - start)
    return seconds


def report(what, above, below, target, at_least):
    ratio = statistics.median(above) / statistics.median(below)
    state(what, f"{'at least' if at_least else 'at most'} {target:g}", spread(a / b for a, b in zip(above, below)),
          ratio >= target if at_least else ratio <= target, "bench/run.py --only pictures")
    print(f"  ratio of the fastest rounds: {min(above) / min(below):.2f}")


def enlarged(paths, folder):
    """The same pictures with 500 pixels on the longer side, as in the data sets."""
    made = []
    for number, path in enumerate(paths):
        image = Image.open(path)
        scale = 500 / max(image.size)
        made.append(os.path.join(folder, f"{number}.jpg"))
        image.resize([round(scale * side) for side in image.size], Image.BICUBIC).save(made[-1], quality=90)
    return made


def measure(what, paths, rounds, library, turbo):
    images = [Image.open(path).convert("RGB") for path in paths]
    arrays = [numpy.asarray(image) for image in images]
    pictures = [Picture(array.shape[1], array.shape[0], array.ctypes.data) for array in arrays]
    files = [open(path, "rb").read() for path in paths]
    room = ctypes.create_string_buffer(max(array.size for array in arrays))
    for filter, method, name in ((0, Image.BILINEAR, "bilinear"), (1, Image.BICUBIC, "bicubic")):
        slow, fast = alternate(rounds, lambda: pillow_resize_all(images, method), lambda: library.resize_all(pictures, filter))
        report(f"{what}: Pillow's resize / ours, {name}", slow, fast, 3, True)
    slow, whole, bare = alternate(rounds, lambda: pillow_load_all(paths), lambda: library.load_all(paths),
                                  lambda: turbo.decode_all(files, room))
    report(f"{what}: file to floats, ours / bare tjDecompress", whole, bare, 1.25, False)
    report(f"{what}: file to floats, Pillow / ours", slow, whole, 1, True)
    print(f"  bare decoding {1e6 * statistics.median(bare) / len(paths):.0f} us per picture, ours "
          f"{1e6 * statistics.median(whole) / len(paths):.0f}, Pillow {1e6 * statistics.median(slow) / len(paths):.0f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    paths = sorted(glob.glob(os.path.join(SHARED, "data/voc2007-small/VOCdevkit/VOC2007/JPEGImages/*.jpg")))
    paths = paths[:: max(1, len(paths) // chosen.pictures)][: chosen.pictures]
    if not paths:
        sys.exit(f"no pictures below {SHARED}/data/voc2007-small")
    print(f"{len(paths)} pictures to {SIZE}x{SIZE}, one core; load average {os.getloadavg()[0]:.2f}")
    library, turbo = Library(), Turbo()
    measure("longer side 224", paths, chosen.rounds, library, turbo)
    with tempfile.TemporaryDirectory() as folder:
        measure("longer side 500", enlarged(paths, folder), chosen.rounds, library, turbo)


main()
