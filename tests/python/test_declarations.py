"""python/l3a/_declarations.py is what tools/make_python.py makes of the header, and the C compiler agrees with it: the place and type of
every field of a struct, the value of every member of an enum, the type of every parameter and result, and that nothing is missing."""
import ctypes
import enum
import re
import sys
import types
import unittest

import compiled
import support

sys.path.insert(0, str(support.SOURCE / "tools"))
import make_python

COMMITTED = (support.SOURCE / "python/l3a/_declarations.py").read_text()
NUMBERS = {ctypes.c_int: ("int", 4), ctypes.c_size_t: ("unsigned", 8), ctypes.c_uint64: ("unsigned", 8), ctypes.c_int64: ("int", 8),
           ctypes.c_double: ("float", 8), ctypes.c_float: ("float", 4), ctypes.c_char: ("char", 1), ctypes.c_uint8: ("unsigned", 1),
           ctypes.c_int8: ("int", 1)}
ENCODINGS = {4: "float", 5: "int", 6: "int", 7: "unsigned", 8: "unsigned"}  # DWARF 4, figure 7.11


def describe(item):
    """The kind and size of a number."""
    if item.tag == "enumeration_type":
        return "int", item.number("byte_size")
    return "char" if item.name == "char" else ENCODINGS[item.number("encoding")], item.number("byte_size")


def agrees(made, item):
    """Whether a type of ctypes is the compiler's."""
    if item is None:
        return made is None
    if item.tag == "pointer_type":
        target = item.type
        if target is not None and target.tag == "base_type" and target.name == "char":
            written = item.exact_type.tag != "const_type"  # ctypes copies what it takes for a text
            return made is ctypes.c_char_p or (written and made is ctypes.c_void_p)
        if hasattr(made, "_restype_"):
            return target is not None and target.tag == "subroutine_type" and agrees_function(made._restype_, made._argtypes_, target)
        if isinstance(made, type) and issubclass(made, ctypes._Pointer):
            return target is not None and agrees(made._type_, target)
        return made is ctypes.c_void_p
    if item.tag == "array_type":
        (bound,) = item.parts_of("subrange_type")
        count = bound.number("count") if "count" in bound.values else bound.number("upper_bound") + 1
        return isinstance(made, type) and issubclass(made, ctypes.Array) and made._length_ == count and agrees(made._type_, item.type)
    if item.tag == "structure_type":
        return isinstance(made, type) and issubclass(made, ctypes.Structure) and made.__name__ == item.name
    return made in NUMBERS and NUMBERS[made] == describe(item)


def agrees_function(result, parameters, item):
    wanted = item.parts_of("formal_parameter")
    return agrees(result, item.type) and len(parameters) == len(wanted) and all(agrees(a, b.type) for a, b in zip(parameters, wanted))


def kinds_of(declared, base):
    """The classes that the declarations derive from a base."""
    return [kind for kind in vars(declared).values() if isinstance(kind, type) and issubclass(kind, base) and kind is not base]


def compare_structs(declared, interface):
    found = {kind.__name__: kind for kind in kinds_of(declared, ctypes.Structure)}
    yield from found.keys() ^ interface.structs.keys()
    for name in found.keys() & interface.structs.keys():
        kind, item = found[name], interface.structs[name]
        fields = [(field, getattr(kind, field).offset, made) for field, made in kind._fields_]
        members = [(part.name, part.number("data_member_location"), part.type) for part in item.parts_of("member")]
        if ctypes.sizeof(kind) != item.number("byte_size") or [f[:2] for f in fields] != [m[:2] for m in members]:
            yield name
        else:
            yield from (f"{name}.{field}" for (field, _, made), (_, _, wanted) in zip(fields, members) if not agrees(made, wanted))


def compare_enums(declared, interface):
    found = {kind.__doc__: kind for kind in kinds_of(declared, enum.IntEnum)}
    yield from found.keys() ^ interface.enums.keys()
    for name in found.keys() & interface.enums.keys():
        members, wanted = list(found[name].__members__.items()), interface.enums[name]
        if len(members) != len(wanted) or not all(b[0].endswith("_" + a[0]) and a[1] == b[1] for a, b in zip(members, wanted)):
            yield name
    if declared.VERSION_NUMBER != interface.version:
        yield "VERSION_NUMBER"


def takes_context(function):
    """Whether the first parameter is a context that the function may change, with the text of an error."""
    parameters = function.parts_of("formal_parameter")
    target = parameters[0].type.exact_type if parameters and parameters[0].type.tag == "pointer_type" else None
    return target is not None and target.tag != "const_type" and compiled.plain(target).name == "l3a_context"


def compare_functions(declared, interface):
    callbacks = {name: kind for name, kind in vars(declared).items() if hasattr(kind, "_restype_")}
    yield from callbacks.keys() ^ interface.callbacks.keys()
    for name in callbacks.keys() & interface.callbacks.keys():
        if not agrees_function(callbacks[name]._restype_, callbacks[name]._argtypes_, interface.callbacks[name]):
            yield name
    yield from declared.FUNCTIONS.keys() ^ interface.functions.keys()
    for name in declared.FUNCTIONS.keys() & interface.functions.keys():
        if not agrees_function(*declared.FUNCTIONS[name], interface.functions[name]):
            yield name
        if (name in declared.TAKES_CONTEXT) != takes_context(interface.functions[name]):
            yield f"TAKES_CONTEXT: {name}"


def compare(text, interface):
    """The names of what the declarations in the text have wrong."""
    declared = types.ModuleType("declared")
    exec(text, vars(declared))
    return sorted([*compare_structs(declared, interface), *compare_enums(declared, interface), *compare_functions(declared, interface)])


# What to replace in the declarations, by what, and the name that must be found wrong.
MISTAKES = [
    (r'("l3a_measure": \(c_int, \[c_void_p), c_void_p', r"\1", "l3a_measure"),  # a parameter is missing
    (r'("l3a_measure": \(c_int, \[c_void_p), c_void_p', r"\1, c_size_t", "l3a_measure"),  # of the same size
    (r'("l3a_context_free": \()None', r"\1c_int", "l3a_context_free"),
    (r'("l3a_error_text": \()c_char_p', r"\1c_void_p", "l3a_error_text"),
    (r'("l3a_backbone_describe": \(POINTER\()l3a_backbone_info', r"\1l3a_option_info", "l3a_backbone_describe"),
    (r'    "l3a_measure": .*\n', "", "l3a_measure"),
    (r'    "l3a_measure",\n', "", "TAKES_CONTEXT: l3a_measure"),
    (r'(l3a_context_options\(Structure\):\n    _fields_ = \[\n        \("size", )c_size_t', r"\1c_int64", "l3a_context_options.size"),
    (r'(l3a_context_options\(Structure\):\n    _fields_ = \[\n        \("size", )c_size_t', r"\1c_int", "l3a_context_options"),
    (r'( +\("mean", c_float) \* 3\),\n( +\("deviation", c_float) \* 3\),\n', r"\2 * 3),\n\1 * 3),\n", "l3a_loader_options"),  # swapped
    (r'("deviation", c_float) \* 3', r"\1 * 2", "l3a_loader_options"),
    (r"(l3a_event_callback = CFUNCTYPE\()c_int", r"\1c_double", "l3a_event_callback"),
    (r"    ERROR_MEMORY = 3\n    ERROR_NOT_FOUND = 4\n", "    ERROR_NOT_FOUND = 3\n    ERROR_MEMORY = 4\n", "l3a_status"),
    (r"(VERSION_NUMBER = )(\d+)", r"\g<1>1\2", "VERSION_NUMBER"),
]


class Declarations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.interface = compiled.Interface(support.SOURCE, support.BUILD / "libl3a.so")

    def test_are_those_of_the_header(self):
        made = make_python.declarations(make_python.header.read(support.SOURCE))
        self.assertEqual(COMMITTED, made, "run /usr/bin/python3 tools/make_python.py")

    def test_settings_are_those_of_the_library(self):
        committed = (support.SOURCE / "python/l3a/_settings.py").read_text()
        self.assertEqual(committed, make_python.settings(), "run /usr/bin/python3 tools/make_python.py")

    def test_agree_with_the_compiler(self):
        self.assertEqual(compare(COMMITTED, self.interface), [])
        for kind, least in ("functions", 150), ("structs", 20), ("enums", 5), ("callbacks", 3):
            self.assertGreater(len(getattr(self.interface, kind)), least, kind)

    def test_mistakes_are_found(self):
        for pattern, replacement, name in MISTAKES:
            changed, count = re.subn(pattern, replacement, COMMITTED, count=1)
            self.assertEqual(count, 1, pattern)
            with self.subTest(pattern, replacement=replacement):
                self.assertIn(name, compare(changed, self.interface))


unittest.main()
