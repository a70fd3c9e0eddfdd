#!/usr/bin/python3
"""When pictures were taken: dates that Pillow, heif-enc and exiftool wrote into every format, in both orders of bytes, against Python's calendar."""
import calendar
import datetime
import os
import random
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from support import check, finish, skip

try:
    from PIL import Image
except ImportError as error:
    skip(f"{error}; apt-get install python3-pil")

PROGRAM = Path(os.environ["L3A_BUILD"]) / "tests/taken"
PLAIN = ["jpg", "png", "webp"]
HEIF = ["heic", "avif"] * bool(shutil.which("heif-enc"))
EXIFTOOL = shutil.which("exiftool")
CHANGED, DIRECTORY, TAKEN, DIGITIZED, ZONE = 0x0132, 0x8769, 0x9003, 0x9004, 0x9011
picture = Image.new("RGB", (40, 30), (200, 40, 40))


def taken(*paths):
    lines = subprocess.run([PROGRAM, *paths], check=True, capture_output=True, text=True).stdout.split()
    return [None if line == "none" else int(line) for line in lines]


def seconds(text):
    return None if text is None else calendar.timegm(datetime.datetime.strptime(text, "%Y:%m:%d %H:%M:%S").timetuple())


def expect_all(expected):
    """Of (path, date, what it is)."""
    for found, (path, text, what) in zip(taken(*(path for path, _, _ in expected)), expected, strict=True):
        check(found == seconds(text), f"{what}, {path.name}: {found} instead of {seconds(text)} ({text})")


def expect(path, text, what):
    expect_all([(path, text, what)])


def exif_of(order="<", changed=None, taken=None, digitized=None, zone=None):
    exif = Image.Exif()
    exif.endian = order
    exif[0x010F] = "A maker"
    if changed is not None:
        exif[CHANGED] = changed
    inner = {tag: value for tag, value in ((TAKEN, taken), (DIGITIZED, digitized), (ZONE, zone)) if value is not None}
    if inner:
        exif._ifds[DIRECTORY] = inner
        exif[DIRECTORY] = inner
    return exif


def order_of(exif):
    return exif.tobytes()[6:8]


def write(folder, kind, **dates):
    """A picture with these dates. heif-enc takes those of a JPEG file."""
    path = folder / f"picture.{kind}"
    exif = exif_of(**dates)
    assert order_of(exif) == (b"MM" if dates.get("order") == ">" else b"II"), "Pillow wrote another order of bytes"
    if kind in HEIF:
        given = folder / "given.jpg"
        picture.save(given, exif=exif.tobytes())
        subprocess.run(["heif-enc", given, "-o", path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        picture.save(path, exif=exif.tobytes())
    return path


def all_formats(folder):
    for kind in PLAIN + HEIF:
        for order in "<>":
            all_three = {"taken": "2024:05:01 12:34:56", "digitized": "2024:05:02 00:00:00", "changed": "2024:05:03 00:00:00"}
            for dates, expected in ((all_three, "2024:05:01 12:34:56"),
                                    ({"digitized": "1999:12:31 23:59:59", "changed": "2024:05:03 00:00:00"}, "1999:12:31 23:59:59"),
                                    ({"changed": "2000:02:29 01:02:03"}, "2000:02:29 01:02:03"),
                                    ({"taken": "0000:00:00 00:00:00", "changed": "2001:01:01 00:00:00"}, "2001:01:01 00:00:00"),
                                    ({"taken": "2024:05:01 12:34:56", "zone": "+09:00"}, "2024:05:01 12:34:56"),
                                    ({}, None))[:: 2 if kind in HEIF else 1]:
                expect(write(folder, kind, order=order, **dates), expected, f"{order} {dates}")


def calendar_dates(folder):
    """Days of four centuries; leap years and their exceptions come from Python."""
    chance, expected = random.Random(1), []
    days = [datetime.date(year, month, day) for year in (1600, 1900, 1969, 1970, 2000, 2023, 2024, 2100) for month in (1, 2, 3, 12) for day in (1, 28)]
    days += [datetime.date(2000, 2, 29), datetime.date(2024, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]
    days += [datetime.date.fromordinal(chance.randrange(1, 3650000)) for _ in range(100)]
    for day in days:
        text = f"{day.year:04d}:{day.month:02d}:{day.day:02d} {chance.randrange(24):02d}:{chance.randrange(60):02d}:{chance.randrange(60):02d}"
        expected.append((folder / f"day{len(expected)}.jpg", text, "a day"))
        picture.save(expected[-1][0], exif=exif_of(taken=text).tobytes())
    expect_all(expected)


def no_dates(folder):
    for text in ("2023:02:29 00:00:00", "1900:02:29 00:00:00", "2024:13:01 00:00:00", "2024:00:01 00:00:00", "2024:04:31 00:00:00", "2024:04:00 00:00:00",
                 "2024:04:01 24:00:00", "2024:04:01 00:60:00", "2024:04:01 00:00:60", "0000:00:00 00:00:00", "    :  :     :  :  ", " " * 19, "", "2024:04:01",
                 "2024:04:01 00:00", "2024:4:1 0:00:00   ", "-024:04:01 00:00:00", "2024:04:01_00:00:00", "yesterday, at noon!"):
        for kind in PLAIN:
            expect(write(folder, kind, taken=text), None, f"'{text}'")
    for text in ("2024-04-01 00:00:00", "2024/04/01 00:00:00", "2024:04:01T00:00:00", "2024:04:01 00:00:00.25", "2024:04:01 00:00:00+02:00"):
        expect(write(folder, "jpg", taken=text), "2024:04:01 00:00:00", f"'{text}'")


def by_exiftool(folder):
    """Files that exiftool edited have other orders of entries, chunks and items, and another item in HEIC files."""
    def edit(path, *changes):
        subprocess.run(["exiftool", "-q", "-m", "-overwrite_original", *changes, path], check=True)

    picture.save(folder / "plain.png")
    for kind in PLAIN + HEIF:
        for order in ("Intel", "Motorola") if kind == "jpg" else ("Motorola",):  # exiftool takes a third of a second for each change
            path = folder / f"edited.{kind}"
            if kind in HEIF:
                subprocess.run(["heif-enc", folder / "plain.png", "-o", path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            else:
                picture.save(path)
            edit(path, f"-ExifByteOrder={order}", "-Make=Someone", "-XMP:Subject=dog", "-EXIF:ModifyDate=2011:01:01 01:01:01")
            expect(path, "2011:01:01 01:01:01", f"exiftool, {order}, changed")
            edit(path, "-EXIF:CreateDate=2010:01:01 01:01:01", "-EXIF:DateTimeOriginal=2009:06:07 08:09:10", "-OffsetTimeOriginal=-11:00",
                 "-SubSecTimeOriginal=99")
            expect(path, "2009:06:07 08:09:10", f"exiftool, {order}, taken")
            edit(path, "-EXIF:DateTimeOriginal=")
            expect(path, "2010:01:01 01:01:01", f"exiftool, {order}, digitized")
            edit(path, "-all=")
            expect(path, None, f"exiftool, {order}, everything removed")


def damaged(folder):
    """Dates of a file that is cut short or has a changed byte are another date or none; the program must not fail."""
    chance, paths, starts = random.Random(2), [], []
    for kind in PLAIN + HEIF:
        data = write(folder, kind, taken="2024:05:01 12:34:56", changed="2020:01:01 00:00:00").read_bytes()
        for number in range(300):
            other = bytearray(data)
            other[chance.randrange(len(data))] = chance.randrange(256)
            if number % 3 == 0:
                del other[chance.randrange(len(data)):]
            paths.append(folder / f"damaged{len(paths)}")
            paths[-1].write_bytes(other)
        starts.append(data)
    found = taken(*paths)
    check(len(found) == len(paths), "the program read all damaged files")
    check(seconds("2024:05:01 12:34:56") in found and None in found, "some damage does not matter, and some does")


def bits_and_pieces(folder):
    """What is legal and rarely written: fill bytes before a marker, XMP before the EXIF data, EXIF data after the pixels."""
    exif = exif_of(taken="2024:05:01 12:34:56").tobytes()
    picture.save(folder / "plain.jpg")
    plain = (folder / "plain.jpg").read_bytes()

    def segment(content, fill=b""):
        return fill + b"\xff\xe1" + struct.pack(">H", 2 + len(content)) + content

    for name, between in (("fill", segment(exif, b"\xff\xff\xff")), ("XMP first", segment(b"http://ns.adobe.com/xap/1.0/\0<x/>") + segment(exif)),
                          ("empty first", segment(b"") + segment(b"Exif\0\0") + segment(exif))):
        path = folder / "odd.jpg"
        path.write_bytes(plain[:2] + between + plain[2:])
        expect(path, "2024:05:01 12:34:56", name)
    path.write_bytes(plain[:2] + plain[2:-2] + segment(exif) + plain[-2:])
    expect(path, None, "EXIF data within the pixels")
    picture.save(folder / "late.png", exif=exif)
    data = (folder / "late.png").read_bytes()
    at = data.index(b"eXIf") - 4
    size = 12 + struct.unpack(">I", data[at:at + 4])[0]
    late = data[:at] + data[at + size:-12] + data[at:at + size] + data[-12:]
    (folder / "late.png").write_bytes(late)
    expect(folder / "late.png", "2024:05:01 12:34:56", "EXIF data after the pixels")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        all_formats(folder)
        calendar_dates(folder)
        no_dates(folder)
        bits_and_pieces(folder)
        damaged(folder)
        if EXIFTOOL:
            by_exiftool(folder)
        else:
            print("skipped: exiftool is missing; apt-get install libimage-exiftool-perl")
        if not HEIF:
            print("skipped: heif-enc is missing; apt-get install libheif-examples")
    return finish()


raise SystemExit(main())
