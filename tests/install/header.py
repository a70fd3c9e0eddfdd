"""Reads the headers in include/l3a: their functions, and their structs that begin with a size."""
import re
from pathlib import Path

HEADERS = ("l3a.h", "l3a_experiment.h")  # the second includes the first

# Structs that only the library makes; they may grow at their end.
HANDED_OUT = {"l3a_event", "l3a_option_info", "l3a_phase_info", "l3a_result", "l3a_class_tally", "l3a_method_info", "l3a_preset",
              "l3a_backbone_info", "l3a_published", "l3a_state_array", "l3a_difference", "l3a_train_recipe", "l3a_train_epoch"}
# Structs of which programs pass arrays; they never change.
FIXED = {"l3a_axis", "l3a_said"}


def read(source):
    """The text of all headers of a source tree."""
    return "".join((Path(source) / "include/l3a" / name).read_text() for name in HEADERS)


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def functions(text):
    """[(return type, name, [(type, name of the parameter)])]"""
    found = []
    for declared, name, listed in re.findall(r"^L3A_PUBLIC\s+([^;]*?)(\w+)\(([^;]*?)\);", without_comments(text), re.M):
        parameters = []
        for parameter in " ".join(listed.split()).split(","):
            if parameter.strip() != "void":
                kind, own, array = re.fullmatch(r"(.*?)(\w+)(\[\d+\])?", parameter.strip()).groups()
                parameters.append((kind.strip() + " *" * bool(array), own))
        found.append((" ".join(declared.split()), name, parameters))
    return found


def structs(text):
    """{name: body} of every struct that the header defines."""
    return dict((name, body) for name, body in
                re.findall(r"typedef struct (\w+) \{(.*?)\n\} \1;", without_comments(text), re.S))


def sized(text):
    """The names of the structs that begin with their size."""
    return [name for name, body in structs(text).items() if body.split(";")[0].strip() == "size_t size"]
