"""Archives of TorchScript, operation by operation, as torch.jit.save does not write them. Used by test_torchscript.py and fuzz/make_corpus.py."""
import struct
import zipfile


def text(words):
    data = words.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def integer(number):
    return b"K" + bytes([number])


def tensor(key, size=2):
    """A vector: the whole storage of that key."""
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + integer(size) + b"tQ"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + integer(0) + integer(size) + b"\x85" + integer(1) + b"\x85\x89ccollections\nOrderedDict\n)RtR"


def made(name="__torch__.net Part"):
    return "c{}\n{}\n".format(*name.split(" ")).encode() + b")\x81"


def state(attributes):
    return b"}(" + b"".join(text(name) + value for name, value in attributes) + b"u"


def thing(*attributes, name="__torch__.net Part"):
    """An object of a class, with its attributes."""
    return made(name) + state(attributes) + b"b"


def deep(levels, inside):
    """An object in an object in …"""
    begin, end = made() + b"}(" + text("a"), b"ub"
    return begin * levels + inside + end * levels


def shared(levels, inside):
    """Each object has the next one twice: 2 ** levels paths. The innermost is memo 0."""
    pickle = inside + b"q\0"
    for i in range(levels):
        pickle = thing(("a", pickle), ("b", b"h" + bytes([i]))) + b"q" + bytes([i + 1])
    return pickle


def whole(operations):
    return b"\x80\2" + operations + b"."


ONE, TWO = tensor("0", 4), tensor("1", 2)
GOOD = {
    "objects": thing(("weight", ONE), ("training", b"\x89"), ("hook", b"N"), ("inner", thing(("bias", TWO), name="__torch__.torch.nn.modules.linear Linear")),
                     name="__torch__ Net"),
    "others": thing(("weight", ONE), ("list", b"](" + TWO + b"e"), ("dict", state([("x", TWO)])), ("text", text("weight")), ("tuple", TWO + b"\x85"),
                    ("empty", made()), ("no state", made() + TWO + b"\x85b")),
    "foreign": thing(("weight", ONE), ("os", thing(("bias", TWO), name="os system")), ("like", thing(("bias", TWO), name="__torch__x Part")),
                     ("packed", thing(("bias", TWO), name="torch.nn.modules.linear Linear"))),
    "activation": thing(("act", thing() + b"q\1"), ("weight", ONE), ("other", thing(("bias", TWO), ("act", b"h\1")))),
    "tied": thing(("weight", ONE + b"q\1"), ("same", b"h\1"), ("bias", TWO)),
    "fan": thing(("weight", ONE), ("bias", TWO), ("fan", shared(40, thing()))),
}
BAD = {
    "itself": made() + b"q\1" + state([("weight", ONE), ("bias", TWO), ("self", b"h\1")]) + b"b",
    "circle": made() + b"q\1" + state([("a", thing(("weight", ONE), ("bias", TWO), ("up", b"h\1")))]) + b"b",
    "deep": deep(200, thing(("weight", ONE), ("bias", TWO))),
    "shared": thing(("bias", TWO), ("all", shared(40, thing(("weight", ONE))))),
    "one_state": thing(("bias", TWO), ("first", made() + state([("weight", ONE)]) + b"q\1b"), ("second", made() + b"h\1b")),
    "empty": thing(("training", b"\x89"), ("inner", thing()), ("unused", b"](" + ONE + TWO + b"e")),
    "foreign": thing(("weight", ONE), ("bias", TWO), name="os system"),
    "items": made() + b"(" + text("weight") + ONE + b"u" + text("bias") + TWO + b"s",
    "zero": thing(("we\0ight", ONE), ("bias", TWO)),
    "long": thing(("a" * 300, thing(("b" * 300, ONE), ("bias", TWO)))),
    "twice": thing(("weight", ONE), ("weight", TWO)),
    "missing": thing(("outer", thing(("weight", tensor("7", 4)), ("bias", TWO)))),
    "small": thing(("weight", tensor("0", 200)), ("bias", TWO)),
}


def write(path, operations, storages=None):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", whole(operations))
        for key, values in (storages or {"0": (1, 2, 3, 4), "1": (5, 6)}).items():
            archive.writestr(f"net/data/{key}", struct.pack(f"<{len(values)}f", *values))
        archive.writestr("net/code/__torch__.py", "import os; os.abort()\n" * 99, zipfile.ZIP_DEFLATED)
        archive.writestr("net/constants.pkl", b"\x80\2).")
