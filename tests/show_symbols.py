"""Makes the hidden symbols of an object file visible, in place: show_symbols.py FILE.o

The objects of the library are compiled with hidden symbols. The tests reach all of them through one shared library made of
these very objects; objcopy cannot change the visibility of a symbol."""
import struct
import sys

SYMBOL_TABLE, VISIBILITY, HIDDEN, LOCAL = 2, 3, 2, 0


def main(path):
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        if data[:6] != b"\x7fELF\x02\x01":
            sys.exit(f"{path}: not an object file of a 64-bit little-endian machine")
        sections, = struct.unpack_from("<Q", data, 0x28)
        size, count = struct.unpack_from("<HH", data, 0x3A)
        if not count:  # too many for the header: the first section has the number
            count, = struct.unpack_from("<Q", data, sections + 0x20)
        for section in range(sections, sections + count * size, size):
            kind, = struct.unpack_from("<I", data, section + 4)
            first, length = struct.unpack_from("<QQ", data, section + 0x18)
            if kind == SYMBOL_TABLE:
                for symbol in range(first, first + length, 24):
                    if data[symbol + 4] >> 4 != LOCAL and data[symbol + 5] & VISIBILITY == HIDDEN:
                        data[symbol + 5] &= ~VISIBILITY
        file.seek(0)
        file.write(data)


main(sys.argv[1])
