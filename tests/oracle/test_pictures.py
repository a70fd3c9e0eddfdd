#!/usr/bin/python3
"""Pictures against Pillow, byte for byte: every format, real pictures, hundreds of sizes, all EXIF orientations, views, and the
centres that published checkpoints want.

The library is called as a program would, through libl3a.so. The resizing part runs twice: with the library as it is built,
which takes the vector loops on a processor that has them, and with a copy built here without them, which also lacks libwebp and
libheif. HEIC and AVIF pictures, which Pillow does not read, are in test_heif.py."""
import ctypes
import glob
import io
import math
import os
import random
import struct
import subprocess
import tempfile
import warnings
import zlib

from library import Library, Refused, sized, texts
from support import skip


source = os.environ.get("L3A_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
shared = os.environ.get("L3A_SHARED", os.path.join(source, "..", "shared"))
try:
    import numpy
    from PIL import Image, ImageOps
except ImportError as error:
    skip(f"{error}; apt-get install python3-pil python3-numpy")

photographs = sorted(glob.glob(os.path.join(shared, "data/voc2007-small/VOCdevkit/VOC2007/JPEGImages/*.jpg")))
FILTERS = {0: Image.BILINEAR, 1: Image.BICUBIC}


def plain_library(folder):
    path = os.path.join(folder, "libplain.so")
    code = [file for part in ("common", "base", "image") for file in sorted(glob.glob(f"{source}/src/{part}/*.c"))]
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "openblas", "libxxhash", "libjpeg", "libpng"],
                           capture_output=True, text=True, check=True).stdout.split()
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-DL3A_EXPERIMENTAL", "-DL3A_PLAIN_KERNELS", "-O2", "-fPIC", "-shared",
                    "-w", f"-I{source}/include", f"-I{source}/src", "-o", path, *code, *flags, "-lgomp", "-lpthread", "-lm"],
                   check=True)
    return Library(path)


def same(what, found, expected):
    expected = numpy.asarray(expected)
    assert found.shape == expected.shape, f"{what}: {found.shape}, Pillow {expected.shape}"
    if not numpy.array_equal(found, expected):
        where = numpy.argwhere(found != expected)
        y, x, c = where[0]
        raise AssertionError(f"{what}: {len(where)} of {found.size} bytes differ, first at row {y}, column {x}, channel {c}: "
                             f"{found[y, x, c]}, Pillow {expected[y, x, c]}")


def pillow(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Image.open(path).convert("RGB")


def test_photographs(library):
    chosen = photographs[:: max(1, len(photographs) // 300)]
    for path in chosen:
        expected = pillow(path)
        found = library.read_picture(path)
        same(path, found, expected)
        for filter, method in FILTERS.items():
            same(f"{path} resized", library.resize_picture(found, 224, 224, filter), expected.resize((224, 224), method))
    assert len(chosen) >= 200, f"only {len(chosen)} pictures"
    return f"{len(chosen)} photographs read, and resized with both filters"


def noise(width, height, seed=1):
    return Image.fromarray(numpy.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=numpy.uint8))


def scene(width, height):
    """Smooth colours with edges and some noise, so that JPEG has something to do."""
    y, x = numpy.mgrid[0:height, 0:width]
    parts = [127 + 120 * numpy.sin(x / 9 + c) * numpy.cos(y / 7 - c) for c in range(3)]
    values = numpy.stack(parts, 2) + numpy.random.default_rng(3).normal(0, 12, (height, width, 3))
    values[height // 3 : height // 2, width // 4 : width // 2] = (255, 0, 40)
    return Image.fromarray(values.clip(0, 255).astype(numpy.uint8))


def adobe_segment(transform):
    return b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00" + bytes([transform])


def find_adobe(data):
    return data.find(b"\xff\xee\x00\x0eAdobe")


def four_colour_variants(picture):
    """Pillow writes CMYK with an Adobe marker of transform 0. The same data read as YCCK (2), and without the marker."""
    stream = io.BytesIO()
    picture.convert("CMYK").save(stream, "JPEG", quality=90)
    data = stream.getvalue()
    at = find_adobe(data)
    bare = data[:at] + data[at + 16 :] if at >= 0 else data
    yield "cmyk as written", data
    yield "cmyk without adobe marker", bare
    for transform in (0, 2):
        yield f"cmyk adobe {transform}", bare[:2] + adobe_segment(transform) + bare[2:]


def jpeg_variants():
    for width, height in ((97, 61), (8, 8), (1, 1), (17, 33), (3, 200), (640, 16)):
        picture = scene(width, height)
        for sampling in (0, 1, 2):
            for progressive in (False, True):
                for quality in (30, 95):
                    stream = io.BytesIO()
                    picture.save(stream, "JPEG", quality=quality, subsampling=sampling, progressive=progressive)
                    yield f"jpeg {width}x{height} sampling {sampling} progressive {progressive} quality {quality}", stream.getvalue()
        for progressive in (False, True):
            stream = io.BytesIO()
            picture.convert("L").save(stream, "JPEG", progressive=progressive)
            yield f"grey jpeg {width}x{height} progressive {progressive}", stream.getvalue()
        for name, data in four_colour_variants(picture):
            yield f"{name} {width}x{height}", data
    stream = io.BytesIO()
    scene(97, 61).save(stream, "JPEG")
    data = stream.getvalue()
    yield "colours stored as RGB (adobe 0)", data[:2] + adobe_segment(0) + data[2:].replace(b"JFIF", b"JFXX", 1)
    yield "bytes after the end", data + b"more bytes" * 100


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def pack_row(samples, bits):
    if bits == 16:
        return struct.pack(f">{len(samples)}H", *samples)
    if bits == 8:
        return bytes(samples)
    row, per = bytearray(-(-len(samples) * bits // 8)), 8 // bits
    for i, sample in enumerate(samples):
        row[i // per] |= sample << (8 - bits - bits * (i % per))
    return bytes(row)


def png_bytes(width, height, bits, colours, interlaced, extra=b"", palette=256):
    """A PNG of random samples, written here, because Pillow cannot write most of the kinds it reads."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colours]
    generator = numpy.random.default_rng(bits + 20 * colours + width)
    samples = generator.integers(0, 1 << bits, (height, width, channels))
    if colours == 0 and bits == 16:
        samples[::2] %= 300
    raw = b""
    for x0, y0, dx, dy in ADAM7 if interlaced else ((0, 0, 1, 1),):
        part = samples[y0::dy, x0::dx]
        if part.size:
            for row in part:
                raw += b"\0" + pack_row(row.ravel().tolist(), bits)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colours, 0, 0, int(interlaced)))
    if colours == 3:
        count = min(1 << bits, palette)
        data += chunk(b"PLTE", generator.integers(0, 256, 3 * count, dtype=numpy.uint8).tobytes())
    return data + extra + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def png_variants():
    kinds = [(bits, 0) for bits in (1, 2, 4, 8, 16)] + [(bits, 3) for bits in (1, 2, 4, 8)]
    kinds += [(bits, colours) for colours in (2, 4, 6) for bits in (8, 16)]
    for bits, colours in kinds:
        for interlaced in (False, True):
            for width, height in ((37, 29), (1, 1), (5, 3), (8, 64)):
                yield f"png {width}x{height} bits {bits} colours {colours} interlaced {interlaced}", png_bytes(width, height, bits, colours, interlaced)
    yield "palette with transparency", png_bytes(20, 20, 8, 3, False, chunk(b"tRNS", bytes(range(200))))
    yield "palette with one transparent colour", png_bytes(20, 20, 4, 3, True, chunk(b"tRNS", b"\xff\x00"))
    yield "grey with a transparent value", png_bytes(20, 20, 8, 0, False, chunk(b"tRNS", b"\x00\x10"))
    yield "RGB with a transparent colour", png_bytes(20, 20, 8, 2, False, chunk(b"tRNS", b"\x00\x10\x00\x11\x00\x12"))
    yield "palette shorter than its indices", png_bytes(20, 20, 8, 3, False, palette=7)
    yield "gamma is not applied", png_bytes(20, 20, 8, 2, False, chunk(b"gAMA", struct.pack(">I", 100000)))
    for mode in ("1", "L", "P", "RGB", "RGBA", "LA"):
        stream = io.BytesIO()
        scene(51, 23).convert(mode).save(stream, "PNG")
        yield f"png by Pillow, mode {mode}", stream.getvalue()


def test_formats(library, folder):
    count = 0
    for name, data in [*jpeg_variants(), *png_variants(), *webp_variants()]:
        path = os.path.join(folder, "variant")
        with open(path, "wb") as file:
            file.write(data)
        same(name, library.read_picture(path), pillow(path))
        count += 1
    return f"{count} kinds of JPEG, PNG and WebP"


def webp_bytes(picture, **settings):
    stream = io.BytesIO()
    picture.save(stream, "WEBP", **settings)
    return stream.getvalue()


def riff(*chunks):
    body = b"WEBP" + b"".join(kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for kind, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def three(number):
    return struct.pack("<I", number)[:3]


def animation(picture, width, height, x, y):
    """An animation of two frames, of which the first covers a part of the canvas."""
    frames = []
    for settings in {"quality": 80}, {"lossless": True}:
        frame = three(x // 2) + three(y // 2) + three(picture.width - 1) + three(picture.height - 1) + three(100) + b"\0"
        chunks = webp_bytes(picture, **settings)[12:]
        frames.append((b"ANMF", frame + chunks[18 * chunks.startswith(b"VP8X") :]))
    header = struct.pack("<I", 0x12) + three(width - 1) + three(height - 1)
    return riff((b"VP8X", header), (b"ANIM", b"\x10\x20\x30\xff\0\0"), *frames)


def transparent(picture):
    picture = picture.convert("RGBA")
    y, x = numpy.mgrid[0 : picture.height, 0 : picture.width]
    picture.putalpha(Image.fromarray((x * 7 + y * 3).astype(numpy.uint8)))
    return picture


def webp_variants():
    for width, height in ((97, 61), (8, 8), (1, 1), (17, 33), (3, 200), (640, 16)):
        picture = scene(width, height)
        for shown, kind in (picture, "plain"), (transparent(picture), "transparent"), (picture.convert("L"), "grey"):
            for quality in (0, 30, 95):
                yield f"webp {width}x{height} {kind} quality {quality}", webp_bytes(shown, quality=quality, method=quality % 7)
            for exact in (False, True):
                yield f"webp {width}x{height} {kind} lossless {exact}", webp_bytes(shown, lossless=True, exact=exact)
    yield "webp lossless with a palette", webp_bytes(scene(40, 30).quantize(9).convert("RGB"), lossless=True)
    yield "webp lossless of noise", webp_bytes(noise(60, 40), lossless=True)
    frames = [transparent(scene(50, 40)), transparent(noise(50, 40)), scene(50, 40).convert("RGBA")]
    for lossless in (False, True):
        yield f"animated webp, lossless {lossless}", webp_bytes(frames[0], save_all=True, append_images=frames[1:], lossless=lossless, duration=40)
    for width, height, x, y in ((20, 10, 0, 0), (30, 30, 4, 6), (21, 11, 0, 0)):
        yield f"animated webp with a first frame at {x}, {y} of {width}x{height}", animation(scene(20, 10), width, height, x, y)
        yield f"the same, transparent", animation(transparent(scene(20, 10)), width, height, x, y)
    yield "webp with a colour profile", webp_bytes(scene(30, 20), icc_profile=b"not a profile")
    yield "webp with bytes after the end", webp_bytes(scene(30, 20)) + b"more bytes" * 10


def with_orientation(orientation, order):
    ends = "<" if order == b"II" else ">"
    tiff = order + struct.pack(ends + "HIH", 42, 8, 2) + struct.pack(ends + "HHII", 0x010F, 2, 1, 0)
    return tiff + struct.pack(ends + "HHIHH", 0x0112, 3, 1, orientation, 0) + struct.pack(ends + "I", 0)


def test_orientation(library, folder):
    count = 0
    picture = scene(45, 28)
    for orientation in range(0, 10):
        for order in (b"II", b"MM"):
            exif = with_orientation(orientation, order)
            for kind in ("JPEG", "PNG", "PNG after the pixels", "WEBP", "WEBP with a prefix"):
                path = os.path.join(folder, "turned")
                stream = io.BytesIO()
                picture.save(stream, kind[:4].strip(), **({"exif": b"Exif\0\0" * ("prefix" in kind) + exif} if "WEBP" in kind else {}))
                data = stream.getvalue()
                if "WEBP" in kind:
                    assert b"EXIF" in data
                elif kind == "JPEG":
                    data = data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 8) + b"Exif\0\0" + exif + data[2:]
                else:
                    at = data.index(b"IDAT") - 4 if kind == "PNG" else data.index(b"IEND") - 4
                    data = data[:at] + chunk(b"eXIf", exif) + data[at:]
                with open(path, "wb") as file:
                    file.write(data)
                opened = Image.open(path)
                opened.load()
                same(f"{kind} orientation {orientation}", library.read_picture(path, orient=1), ImageOps.exif_transpose(opened).convert("RGB"))
                same(f"{kind} orientation {orientation} ignored", library.read_picture(path), pillow(path))
                count += 1
    return f"{count} pictures with an orientation"


def test_damaged_orientation(library, folder):
    """EXIF data that makes no sense is ignored; Pillow's own reader gives up on some of it."""
    count = 0
    picture = scene(45, 28)
    good = with_orientation(6, b"MM")
    bad = [good[:cut] for cut in range(len(good) - 4)] + [b"XX" + good[2:], good[:4] + b"\xff\xff\xff\xf0" + good[8:],
           good.replace(struct.pack(">HHI", 0x0112, 3, 1), struct.pack(">HHI", 0x0112, 2, 1)), b"\0" * 100]
    path = os.path.join(folder, "turned")
    for kind in ("JPEG", "PNG", "WEBP"):
        picture.save(path, kind)
        expected = pillow(path)
        for exif in bad:
            picture.save(path, kind, exif=b"Exif\0\0" + exif)
            same(f"{kind} with {len(exif)} bytes of EXIF", library.read_picture(path, orient=1), expected)
            count += 1
    return f"{count} pictures with damaged EXIF data"


def sizes():
    chosen = [(1, 1, 1, 1), (1, 1, 224, 224), (1, 7, 5, 1), (2, 1, 1, 2), (3, 3, 2, 2), (1000, 1, 1, 1), (1, 1000, 1, 3),
              (1, 1, 9, 1), (1, 1, 1, 9), (2, 2, 500, 3), (500, 375, 224, 224), (375, 500, 224, 224), (224, 168, 224, 224),
              (168, 224, 224, 224), (224, 224, 224, 224), (1024, 768, 224, 224), (4000, 30, 7, 30), (30, 3000, 30, 7),
              (9000, 1, 1, 1), (1, 9000, 1, 1), (333, 333, 332, 334)]
    chooser = random.Random(7)
    while len(chosen) < 560:
        limit = chooser.choice((4, 16, 64, 300))
        chosen.append(tuple(chooser.randint(1, limit) for _ in range(4)))
    return chosen


def extremes(width, height, kind):
    """Noise, or only black and white, which drives the cubic filter over both ends."""
    values = numpy.asarray(noise(width, height, width * 7 + height))
    return values if kind else numpy.where(values < 128, 0, 255).astype(numpy.uint8)


def test_sizes(library):
    chosen = sizes()
    for number, (width, height, to_width, to_height) in enumerate(chosen):
        array = extremes(width, height, number % 3)
        for filter, method in FILTERS.items():
            same(f"{width}x{height} to {to_width}x{to_height}, filter {filter}, {library.path}",
                 library.resize_picture(array, to_width, to_height, filter),
                 Image.fromarray(array).resize((to_width, to_height), method))
    return f"{len(chosen)} sizes with both filters, {os.path.basename(library.path)}"


def test_webp_photographs(library, folder):
    chosen = photographs[:: max(1, len(photographs) // 60)]
    path = os.path.join(folder, "photograph")
    for number, photograph in enumerate(chosen):
        picture = pillow(photograph)
        kinds = [({"quality": 20 + number % 80, "method": 2}, picture), ({"quality": 75, "method": 1}, transparent(picture))]
        kinds.append(({"lossless": True, "method": 0}, picture if number % 2 else transparent(picture)))
        for settings, shown in kinds:
            shown.save(path, "WEBP", **settings)
            same(f"{photograph} as WebP, {settings}", library.read_picture(path), pillow(path))
    return f"{len(chosen)} photographs as WebP: lossy, transparent and lossless"


def test_without_libraries(library, folder):
    """The library that was built here has neither libwebp nor libheif."""
    path = os.path.join(folder, "picture")
    for words, data in (("WebP", webp_bytes(scene(20, 10))), ("HEIC", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"),
                        ("AVIF", b"\0\0\0\x18ftypavif\0\0\0\0mif1avif")):
        with open(path, "wb") as file:
            file.write(data)
        try:
            library.read_picture(path)
        except Refused as refused:
            assert refused.args[:2] == (6, f"{path}: this build cannot read {words} pictures"), refused
        else:
            raise AssertionError(f"{words} was read")
    formats = [library.picture_format_at(i) for i in range(3)]
    assert formats == [b"jpeg", b"png", None], formats
    return "WebP, HEIC and AVIF in a build without their libraries"


def test_loader(library):
    chosen = photographs[:40]
    paths = [*chosen[:5], "/no/such/picture.jpg", *chosen[5:]]
    mean, deviation = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    options = sized("l3a_loader_options", filter=1, mean=mean, deviation=deviation)
    loader, index, names = ctypes.c_void_p(), ctypes.c_size_t(), texts(paths)  # which the loader keeps
    library.loader_create(names, len(paths), ctypes.byref(options), ctypes.byref(loader))
    planes = numpy.empty((3, 224, 224), numpy.float32)
    for number, path in enumerate(paths):
        status = library.loader_next(loader, ctypes.byref(index), planes.ctypes.data)
        assert index.value == number
        if number == 5:
            assert status == 4, status
            continue
        library.check(status)
        values = numpy.asarray(pillow(path).resize((224, 224), Image.BICUBIC), numpy.float64).transpose(2, 0, 1)
        expected = (values / 255 - numpy.reshape(mean, (3, 1, 1))) / numpy.reshape(deviation, (3, 1, 1))
        worst = numpy.abs(planes - expected).max()
        assert worst < 1e-6, f"{path}: off by {worst}"
    library.check(library.loader_next(loader, ctypes.byref(index), planes.ctypes.data))
    assert index.value == len(paths)
    library.loader_free(loader)
    return f"{len(chosen)} pictures through the loader"


def view_boxes(views, width, height):
    """The boxes of src/base/views.h in whole numbers: a side of 0.6 or 0.45, rounded, and its place, rounded; halves go up."""
    def span(side, twentieths, halves):
        size = max(1, (twentieths * side + 10) // 20)
        start = (halves * (side - size) + 1) // 2
        return start, start + size

    corners = [(12, x, y) for x, y in ((0, 0), (2, 0), (0, 2), (2, 2), (1, 1))]
    grid = [(9, x, y) for y in range(3) for x in range(3)]
    for share, x, y in [(20, 0, 0)] + {1: [], 5: corners, 9: grid, 14: corners + grid}[views]:
        (left, right), (top, bottom) = span(width, share, x), span(height, share, y)
        yield left, top, right, bottom


def prepared(library, paths, **options):
    """The loader's pictures as bytes, which it delivers if the deviation is 1/255."""
    options = sized("l3a_loader_options", deviation=(1 / 255,) * 3, **options)
    loader, index, names = ctypes.c_void_p(), ctypes.c_size_t(), texts(paths)
    library.loader_create(names, len(paths), ctypes.byref(options), ctypes.byref(loader))
    planes = numpy.empty((1 if options.views <= 1 else 1 + options.views, 3, options.height, options.width), numpy.float32)
    for path in paths:
        library.check(library.loader_next(loader, ctypes.byref(index), planes.ctypes.data))
        found = numpy.rint(planes)
        assert numpy.abs(planes - found).max() < 1e-3, path
        yield path, found.transpose(0, 2, 3, 1).astype(numpy.uint8)
    library.loader_free(loader)


def test_views(library, folder, real):
    shapes = [(1, 1), (2, 7), (5, 3), (1, 40), (10, 10), (30, 1), (33, 47), (224, 224), (373, 498), (500, 375), (640, 480), (4000, 2011)]
    paths = [os.path.join(folder, f"{width}x{height}.png") for width, height in shapes]
    for path, (width, height) in zip(paths, shapes):
        noise(width, height).save(path, compress_level=1)
    paths += real
    count = 0
    for views in (1, 5, 9, 14):
        for filter, method in FILTERS.items():
            for path, found in prepared(library, paths, width=64, height=56, filter=filter, views=views):
                picture = pillow(path)
                for view, box in enumerate(view_boxes(views, *picture.size)):
                    same(f"{path}, view {view} of {views}, filter {filter}", found[view], picture.crop(box).resize((64, 56), method))
                    count += 1
                assert view + 1 == len(found), views
    return f"{count} views of {len(paths)} pictures, {os.path.basename(library.path)}"


def centre(picture, side, crop, method):
    """As timm's transforms_imagenet_eval does it with crop_mode="center": torchvision's Resize(floor(side / crop)) on a picture of
    Pillow, and then CenterCrop(side)."""
    size, (width, height) = math.floor(side / crop), picture.size
    longer = int(size * max(width, height) / min(width, height))
    picture = picture.resize((size, longer) if width <= height else (longer, size), method)
    left, top = (int(round((whole - side) / 2.0)) for whole in picture.size)
    return picture.crop((left, top, left + side, top + side))


# Beside a few chosen ones, all that leave 0 to 7 pixels on a side, which shows how a half is rounded.
SHAPES = [(1, 1), (1, 1000), (1000, 1), (2, 7), (223, 224), (224, 223), (224, 224), (256, 256), (255, 257), (500, 375), (375, 500),
          (333, 500), (640, 480), (4000, 3000), (1500, 2)] + [(224, 224 + rest) for rest in range(8)] + [(224 + rest, 224) for rest in range(8)]


def test_centres(library, folder):
    paths = [os.path.join(folder, f"centre{number}.{kind}") for number in range(len(SHAPES)) for kind in ("png", "jpg")]
    for number, (width, height) in enumerate(SHAPES):
        noise(width, height, number).save(paths[2 * number], compress_level=1)
        scene(width, height).save(paths[2 * number + 1], quality=90)
    count = 0
    for side, crop, filter in [(224, crop, filter) for crop in (0.875, 0.9, 0.95, 1.0) for filter in FILTERS] + [(64, 0.3, 1), (33, 0.875, 0), (384, 1.0, 1)]:
        for path, found in prepared(library, paths, width=side, height=side, filter=filter, crop=crop):
            same(f"{path}, side {side}, crop {crop}, filter {filter}", found[0], centre(pillow(path), side, crop, FILTERS[filter]))
            count += 1
    return f"{count} centres of {len(paths)} pictures, {os.path.basename(library.path)}"


def test_centres_of_photographs(library):
    count, chosen = 0, photographs[:: max(1, len(photographs) // 40)]
    for crop in (0.875, 0.9, 0.95, 1.0):
        for filter, method in FILTERS.items():
            for views in (1, 5) if crop == 0.9 else (1,):
                for path, found in prepared(library, chosen, width=224, height=224, filter=filter, crop=crop, views=views):
                    picture = pillow(path)
                    for view, box in enumerate(view_boxes(views, *picture.size)):
                        same(f"{path}, crop {crop}, filter {filter}, view {view} of {views}", found[view], centre(picture.crop(box), 224, crop, method))
                        count += 1
    return f"{count} centres of {len(chosen)} photographs and their views"


def main():
    library = Library()
    with tempfile.TemporaryDirectory() as folder:
        print(test_formats(library, folder))
        print(test_orientation(library, folder))
        print(test_damaged_orientation(library, folder))
        print(test_sizes(library))
        plain = plain_library(folder)
        print(test_sizes(plain))
        print(test_without_libraries(plain, folder))
        print(test_views(library, folder, []))
        print(test_views(plain, folder, []))
        print(test_centres(library, folder))
        print(test_centres(plain, folder))
        if not photographs:
            skip(f"the rest needs {shared}/data/voc2007-small")
        print(test_photographs(library))
        print(test_webp_photographs(library, folder))
        print(test_photographs(plain))
        print(test_loader(library))
        print(test_views(library, folder, photographs[::500]))
        print(test_centres_of_photographs(library))


main()
