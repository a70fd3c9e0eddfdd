"""Writes what the Python package has from elsewhere, so that nothing is written twice:

- python/l3a/_declarations.py from the headers in include/l3a: their enums, structs, callbacks and functions, for ctypes.
- python/l3a/_settings.py from the library's table of settings: the parameters of the estimators, with their types and help. The
  library is that of build/, or the one that the environment variable L3A_LIBRARY names.

Run it after every change of the header or of a setting; tests/python/test_declarations.py fails until then.

    /usr/bin/python3 tools/make_python.py"""
import re
import sys
import textwrap
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests/install"))
import header  # noqa: E402

NUMBERS = {"int": "c_int", "size_t": "c_size_t", "uint64_t": "c_uint64", "int64_t": "c_int64", "double": "c_double", "float": "c_float",
           "char": "c_char", "uint8_t": "c_uint8", "int8_t": "c_int8"}
HEAD = '''"""What the headers in include/l3a declare: enums, structs, callbacks and functions. Made by tools/make_python.py; do not edit."""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int, c_int8, c_int64, c_size_t, c_uint8,
                    c_uint64, c_void_p)
from enum import IntEnum
from typing import Any, Dict, List, Tuple
'''


def camel(name):
    return "".join(part.capitalize() for part in name[len("l3a_"):].split("_"))


def enums(text):
    """{name: [(member, value)]}"""
    found = {}
    for name, body in re.findall(r"typedef enum (\w+) \{(.*?)\} \1;", header.without_comments(text), re.S):
        members, value = [], -1
        for member in re.findall(r"(\w+)(?:\s*=\s*(\d+))?\s*(?:,|$)", body.strip()):
            value = int(member[1]) if member[1] else value + 1
            members.append((member[0], value))
        found[name] = members
    return found


def callbacks(text):
    """[(name, return type, parameters)]"""
    found = re.findall(r"^typedef (\w+) (\w+)\((.*?)\);", header.without_comments(text), re.M | re.S)
    return [(name, returned, [re.sub(r"\w+$", "", " ".join(p.split())).strip() for p in listed.split(",")])
            for returned, name, listed in found]


class Types:
    """The ctypes name of a C type."""

    def __init__(self, text):
        self.enums, self.structs = enums(text), header.structs(text)
        self.callbacks = {name for name, _, _ in callbacks(text)}

    def of(self, kind, returned=False):
        plain = " ".join(kind.replace("const", " ").replace("struct ", " ").replace("*", " * ").split())
        name, stars = plain.split()[0], plain.count("*")
        if not stars:
            return "c_int" if name in self.enums else name if name in self.structs else NUMBERS[name]
        if name in self.callbacks:
            return name
        if name == "char" and stars == 1:
            return "c_char_p"
        if returned and stars == 1 and name in self.structs:
            return f"POINTER({name})"
        if returned and stars == 1 and name in NUMBERS:
            return f"POINTER({NUMBERS[name]})"
        return "c_void_p"


def fields(types, body):
    """[(name, ctypes name)] of a struct."""
    found = []
    for declaration in " ".join(body.split()).split(";"):
        declaration = declaration.strip()
        function = re.fullmatch(r"[\w *]+\(\*(\w+)\)\(.*\)", declaration)
        if function:
            found.append((function[1], "c_void_p"))
            continue
        if not declaration:
            continue
        base, listed = re.fullmatch(r"((?:const )?(?:struct )?\w+)(?: |(?=\*))(.*)", declaration).groups()
        for item in listed.split(","):
            stars, name, count = re.fullmatch(r"\s*([* const]*?)(\w+)(?:\[(\d+)\])?\s*", item).groups()
            made = types.of(f"{base} {stars}")
            found.append((name, f"{made} * {count}" if count else made))
    return found


def declarations(text):
    types = Types(text)
    number = re.search(r"#define L3A_VERSION_NUMBER (\d+)", text)[1]
    lines = [HEAD, f"VERSION_NUMBER = {number}"]
    for name, members in types.enums.items():
        shared = "L3A_" if name == "l3a_status" else members[0][0][:members[0][0].rindex("_") + 1]
        lines += ["", "", f"class {camel(name)}(IntEnum):", f'    """{name}"""']
        lines += [f"    {member[len(shared):]} = {value}" for member, value in members]
    for name, body in types.structs.items():
        if name == "l3a_event":  # the one that a callback gets
            lines += structure(types, name, body)
    lines += ["", ""]
    for name, returned, parameters in callbacks(text):
        made = [f"POINTER({p.split()[1]})" if p.startswith("const l3a_event") else
                "c_void_p" if p == "char *" else types.of(p) for p in parameters]  # ctypes would copy a text
        lines.append(f"{name} = CFUNCTYPE({', '.join(['None' if returned == 'void' else types.of(returned)] + made)})")
    for name, body in types.structs.items():
        if name != "l3a_event":
            lines += structure(types, name, body)
    lines += ["", "", "FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {"]
    for declared, name, parameters in header.functions(text):
        made = "None" if declared == "void" else types.of(declared, returned=True)
        listed = ", ".join(types.of(kind) for kind, _ in parameters)
        lines.append(f'    "{name}": ({made}, [{listed}]),')
    lines += ["}", "# Functions whose first parameter is the context.", "TAKES_CONTEXT = frozenset(["]
    lines += [f'    "{name}",' for _, name, parameters in header.functions(text)
              if parameters and parameters[0] == ("l3a_context *", "context")]
    return "\n".join(lines + ["])"]) + "\n"


def structure(types, name, body):
    lines = ["", "", f"class {name}(Structure):", "    _fields_ = ["]
    lines += [f'        ("{field}", {made}),' for field, made in fields(types, body)]
    return lines + ["    ]"]


# The estimators, and what their parameters are: (class, default method, what it says, settings that it does not have).
ESTIMATORS = [
    ("L3ASettings", "l3a", "how to learn: l3a, l3a+, l3a-no-pl, l3a-no-wac, acil or air", ()),
    ("JointSettings", None, None, ("pseudo", "eta", "tau", "total-classes", "pseudo-from", "alpha", "lift", "keep-phases", "gamma-from")),
]
SETTINGS_HEAD = '''"""The parameters of the estimators, from the library's table of settings. Made by tools/make_python.py; do not edit."""
from typing import Optional, Union
'''
OTHERS = [
    ("threads", "int", "int, default all processors", "processors to use"),
    ("device", "str", 'str, default "cpu"', 'where to learn and score: "cpu", "cuda", "cuda:N", or "auto"'),
]


def number_text(value):
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:g}"


def allowed(option):
    """The values of a setting, in words."""
    word = f' or "{option.word.decode()}"' if option.word else ""
    if option.type == 2:
        return "{" + ", ".join(f'"{c}"' for c in option.choices.decode().split("|")) + "}"
    kind = "int" if option.type == 0 else "float"
    if option.high > 1e12:
        return f"{kind} {'above' if option.low_open else 'from'} {number_text(option.low)}{word}"
    if option.low_open and option.high_open:
        return f"{kind} between {number_text(option.low)} and {number_text(option.high)}{word}"
    opened = "above " if option.low_open else ""
    closed = "below " if option.high_open else ""
    return f"{kind} {opened}{number_text(option.low)} to {closed}{number_text(option.high)}{word}"


def hint_type(option):
    kind = ("int", "float", "str")[option.type]
    return f"Union[{kind}, str]" if option.word else kind


def parameter(name, kind, text):
    wrapped = textwrap.wrap(text[0].upper() + text[1:] + ".", 110)
    return [f"    {name} : {kind}"] + [f"        {line}" for line in wrapped]


def estimator(options, name, method, method_help, without):
    kept = [o for o in options if o.group == b"model" and o.name.decode() not in without]
    arguments = [("method", f'str = "{method}"')] * bool(method)
    doc = parameter("method", f'str, default "{method}"', method_help) if method else []
    rest = []
    for option in kept:
        own = option.name.decode().replace("-", "_")
        rest.append((own, f"Optional[{hint_type(option)}] = None"))
        fallback = option.fallback.decode()
        default = f'"{fallback}"' if option.type == 2 else fallback
        doc += parameter(own, f"{allowed(option)}, default {default}", option.help.decode())
    for own, kind, words, text in OTHERS:
        rest.append((own, f"Optional[{kind}] = None"))
        doc += parameter(own, words, text)
    lines = ["", "", f"class {name}:", '    PARAMETERS = """' + "\n".join(doc)[4:] + '"""', "", "    def __init__("]
    lines += ["        self,"] + [f"        {own}: {kind}," for own, kind in arguments] + ["        *,"]
    lines += [f"        {own}: {kind}," for own, kind in rest] + ["    ) -> None:"]
    return lines + [f"        self.{own} = {own}" for own, _ in arguments + rest]


def settings():
    """The text of _settings.py."""
    sys.path.insert(0, str(SOURCE / "python"))
    from l3a._library import listed
    options = listed("l3a_option_at")
    names = [o.name.decode() for o in options if o.group == b"model"]
    lines = [SETTINGS_HEAD, "# Settings of a model; a parameter has underscores instead of hyphens.", "SETTINGS = ["]
    lines += [f'    "{name}",' for name in names] + ["]"]
    for one in ESTIMATORS:
        lines += estimator(options, *one)
    return "\n".join(lines) + "\n"


def main():
    made = declarations(header.read(SOURCE))
    (SOURCE / "python/l3a/_declarations.py").write_text(made)
    (SOURCE / "python/l3a/_settings.py").write_text(settings())


if __name__ == "__main__":
    main()
