"""The library itself, through ctypes, for tests of calls that no command makes. The types are those of the Python package, which
tests/python/test_declarations.py compares with the compiler's."""
import ctypes
import os
import sys
from pathlib import Path

from support import skip

SOURCE = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("L3A_BUILD", SOURCE / "build"))
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "python/l3a"))
import _declarations as declared

if "address" in os.environ.get("L3A_SANITIZE", "") or "thread" in os.environ.get("L3A_SANITIZE", ""):
    skip("a library with sanitizers cannot be loaded into Python")


class Refused(Exception):
    """Of a call: its status, the text of the error, and the hint."""


def sized(name, **values):
    """A struct that begins with its size."""
    kind = getattr(declared, name)
    return kind(size=ctypes.sizeof(kind), **values)


def texts(values):
    return (ctypes.c_char_p * len(values))(*(str(value).encode() for value in values))


class Library:
    """Its functions are called without "l3a_"; those whose first parameter is the context get that of this object, and fail with Refused."""

    def __init__(self, path=BUILD / "libl3a.so", **options):
        self.path, self.c = str(path), ctypes.CDLL(str(path))
        for name, (result, parameters) in declared.FUNCTIONS.items():
            if hasattr(self.c, name):
                getattr(self.c, name).restype, getattr(self.c, name).argtypes = result, parameters
        self.context = ctypes.c_void_p()
        self.check(self.c.l3a_context_create(ctypes.byref(sized("l3a_context_options", **options)), ctypes.byref(self.context)))

    def check(self, status):
        if status:
            raise Refused(status, self.c.l3a_error_text(self.context).decode(), self.c.l3a_error_hint(self.context).decode())

    def __getattr__(self, name):
        call = getattr(self.c, f"l3a_{name}")
        if f"l3a_{name}" not in declared.TAKES_CONTEXT:
            return call
        return lambda *arguments: self.check(call(self.context, *arguments))

    def read_picture(self, path, **options):
        """The pixels of a picture, [height, width, 3]."""
        picture = sized("l3a_picture")
        self.picture_read(str(path).encode(), ctypes.byref(sized("l3a_picture_options", **options)), ctypes.byref(picture))
        return self.take_picture(picture)

    def resize_picture(self, pixels, width, height, filter):
        import numpy as np
        pixels = np.ascontiguousarray(pixels)
        given, made = sized("l3a_picture", width=pixels.shape[1], height=pixels.shape[0], pixels=pixels.ctypes.data), sized("l3a_picture")
        self.picture_resize(ctypes.byref(given), width, height, filter, ctypes.byref(made))
        return self.take_picture(made)

    def take_picture(self, picture):
        """Its pixels, after which the library frees it."""
        import numpy as np
        shape = picture.height, picture.width, 3
        pixels = np.frombuffer(ctypes.string_at(picture.pixels, int(np.prod(shape))), np.uint8).reshape(shape).copy()
        self.c.l3a_picture_free(self.context, ctypes.byref(picture))
        return pixels
