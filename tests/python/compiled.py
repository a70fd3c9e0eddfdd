"""What the C compiler makes of include/l3a/: the type of every function that the library exports, and every struct, enum and callback, from
the debugging information of a small program. Nothing here reads the text of a header."""
import os
import re
import subprocess
import tempfile
from pathlib import Path


class Item:
    """An entry of the debugging information, such as a type."""

    def __init__(self, tag):
        self.tag, self.values, self.parts, self.items = tag, {}, [], {}

    @property
    def name(self):
        return self.values.get("name")

    @property
    def type(self):
        """The type of a variable, member or parameter, what a pointer points to, what a function returns; None is void."""
        return plain(self.exact_type)

    @property
    def exact_type(self):
        """The same with its other names and qualifiers."""
        return self.items[int(re.search(r"<0x(\w+)>", self.values["type"])[1], 16)] if "type" in self.values else None

    def number(self, name):
        return int(self.values[name].split()[0], 0)

    def parts_of(self, tag):
        return [part for part in self.parts if part.tag == tag]


def plain(item):
    """A type without its other names and qualifiers."""
    while item is not None and item.tag in ("typedef", "const_type", "volatile_type", "restrict_type"):
        item = item.exact_type
    return item


def read_items(text):
    """The outermost entries of the one file that readelf prints, without what is inside them."""
    items, open_items, top = {}, [], []
    for line in text.splitlines():
        entry = re.match(r" <(\w+)><(\w+)>: Abbrev Number: \d+ \(DW_TAG_(\w+)\)", line)
        value = re.match(r"    <\w+>\s+DW_AT_(\w+)\s*: (?:\(.*?\): )?(.*)", line)
        if entry:
            item = Item(entry[3])
            items[int(entry[2], 16)], item.items = item, items
            depth = int(entry[1])
            (open_items[depth - 1].parts if depth > 1 else top).append(item)
            open_items[depth:] = [item]
        elif value and open_items:
            open_items[-1].values[value[1]] = value[2].strip()
    return top


class Interface:
    """functions and callbacks: {name: type}, structs: {name: type}, enums: {name: [(member, value)]}, and the version."""

    def __init__(self, source, library):
        listed = subprocess.run(["nm", "-D", "-P", "--defined-only", library], check=True, capture_output=True, text=True).stdout
        names = sorted(line.split()[0].split("@")[0] for line in listed.splitlines())
        headers = sorted(Path(source, "include/l3a").glob("*.h"))
        program = "#define L3A_EXPERIMENTAL\n" + "".join(f"#include <l3a/{path.name}>\n" for path in headers)
        program += "enum probe { probe_version = L3A_VERSION_NUMBER };\n"
        program += "".join(f"__typeof__(&{name}) function_{name};\n" for name in names)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "probe.c").write_text(program)
            options = [f"-I{source}/include", "-gdwarf-4", "-fno-eliminate-unused-debug-types"]
            subprocess.run([os.environ.get("CC", "cc"), *options, "-c", "probe.c"], cwd=folder, check=True)
            show = ["readelf", "--debug-dump=info", "probe.o"]
            shown = subprocess.run(show, cwd=folder, check=True, capture_output=True, text=True).stdout
        items = [item for item in read_items(shown) if item.name]
        types = [item for item in items if item.name.startswith("l3a_")]
        self.functions = {item.name[len("function_"):]: item.type.type for item in items
                          if item.tag == "variable" and item.name.startswith("function_")}
        self.structs = {item.name: item for item in types if item.tag == "structure_type" and "declaration" not in item.values}
        self.callbacks = {item.name: item.type for item in types
                          if item.tag == "typedef" and item.type is not None and item.type.tag == "subroutine_type"}
        self.enums = {item.name: [(part.name, part.number("const_value")) for part in item.parts_of("enumerator")]
                      for item in types if item.tag == "enumeration_type"}
        (probe,) = [item for item in items if item.name == "probe"]
        self.version = probe.parts[0].number("const_value")
