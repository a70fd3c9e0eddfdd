#!/usr/bin/env python3
"""A function of src/ fits a screen: it has at most 60 lines, from its signature to its closing brace. The tree is formatted by clang-format, so a
function begins at the left margin and ends with the next brace there."""
import os
import re
from pathlib import Path

SOURCE = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))
LIMIT = 60


def find_functions(text):
    """The signature, the number of its first line, and the number of lines of each function."""
    functions, signature, first = [], "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line == "}":
            if "(" in signature and signature.endswith("{"):
                functions.append((signature, first, number - first + 1))
            signature = ""
        elif not signature.endswith("{"):  # outside of a body
            if re.match(r"\w", line) and not signature:
                signature, first = "", number
            if signature or first == number:
                signature = " ".join((signature, line.strip())).strip()
            if signature.endswith(";") or not line:
                signature = ""
        elif line.startswith("}") or "=" in signature and line.endswith("};"):  # the end of a table or a type
            signature = ""
    return functions


def find_long(text, limit=LIMIT):
    return [(signature, first, lines) for signature, first, lines in find_functions(text) if lines > limit]


EXAMPLE = """\
static int forward(int value);
static const int table[] = {
    1, 2};
static const int other[] = {
    3,
};
struct pair {
    int first;
};
int one(int value) {
    if (value) {
        value++;
    }
    return value;
}

// A comment (with words) {
#define MACRO(x) ((x) + 1)
__attribute__((cold)) static struct pair *two(const char *text,
                                              int value) {
    return 0;
}
"""


def check_functions_are_found():
    wanted = [("int one(int value) {", 10, 6), ("__attribute__((cold)) static struct pair *two(const char *text, int value) {", 19, 4)]
    assert find_functions(EXAMPLE) == wanted, find_functions(EXAMPLE)
    assert find_long(EXAMPLE, 5) == wanted[:1] and not find_long(EXAMPLE, 6)


def main():
    check_functions_are_found()
    found, faults = 0, []
    for path in sorted((SOURCE / "src").rglob("*.[ch]")):
        text = path.read_text()
        found += len(find_functions(text))
        faults += [f"{path.relative_to(SOURCE)}:{first}: {lines} lines: {signature}" for signature, first, lines in find_long(text)]
    assert found > 1000, f"only {found} functions found"
    assert not faults, f"\nFunctions with more than {LIMIT} lines; split them:\n" + "\n".join(faults)


if __name__ == "__main__":
    main()
