"""Turns a copy of the source into that of a later version: one more field at the end of every struct that may grow, and one more
setting at the beginning of both tables.   grow.py SOURCE"""
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import header

source = Path(sys.argv[1])


def replace(path, old, new):
    text = (source / path).read_text()
    assert text.count(old) == 1, f"{path}: {text.count(old)} times {old!r}"
    (source / path).write_text(text.replace(old, new))


text = header.read(source)
grown = header.sized(text) + sorted(header.HANDED_OUT - {"l3a_result"})  # which ends with l3a_metrics, and grows with it
for name in grown:
    home = next(path for path in header.HEADERS if f"\n}} {name};" in (source / "include/l3a" / path).read_text())
    replace(f"include/l3a/{home}", f"\n}} {name};", f"\n    uint64_t grown[3];\n}} {name};")
replace("src/learn/model_options.h", "struct model_options {", "struct model_options {\n    double grown;")
replace("src/learn/model_options.c", "settings[] = {", 'settings[] = {\n    NUMBER(grown, "grown", 0, 9, 0, 0, "7", "of a later version"),')
replace("src/method/options.h", "struct method_options {", "struct method_options {\n    double grown;")
replace("src/method/options.c", "settings[] = {", 'settings[] = {\n    NUMBER(grown, "method-grown", 0, 9, 0, 0, "8", "of a later version"),')
print(f"{len(grown)} structs and 2 settings added")
