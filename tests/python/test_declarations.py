"""python/l3a/_declarations.py is what tools/make_python.py makes of the header, and the C compiler agrees with it: the size of every
struct, the place of every field, the value of every enum."""
import ctypes
import os
import subprocess
import sys
import tempfile
import unittest

import support

sys.path.insert(0, str(support.SOURCE / "tools"))
sys.path.insert(0, str(support.SOURCE / "tests/install"))
import header
import make_python

from l3a import _declarations

TEXT = header.read(support.SOURCE)


class Declarations(unittest.TestCase):
    def test_are_those_of_the_header(self):
        committed = (support.SOURCE / "python/l3a/_declarations.py").read_text()
        self.assertEqual(committed, make_python.declarations(TEXT), "run /usr/bin/python3 tools/make_python.py")

    def test_settings_are_those_of_the_library(self):
        committed = (support.SOURCE / "python/l3a/_settings.py").read_text()
        self.assertEqual(committed, make_python.settings(), "run /usr/bin/python3 tools/make_python.py")

    def test_name_everything(self):
        self.assertEqual(set(_declarations.FUNCTIONS), {name for _, name, _ in header.functions(TEXT)})
        for name in header.structs(TEXT):
            self.assertTrue(issubclass(getattr(_declarations, name), ctypes.Structure), name)

    def test_agree_with_the_compiler(self):
        expected, lines = {}, []
        for name in header.structs(TEXT):
            kind = getattr(_declarations, name)
            expected[f"sizeof {name}"] = ctypes.sizeof(kind)
            lines.append(f'printf("sizeof {name} %zu\\n", sizeof({name}));')
            for field, _ in kind._fields_:
                expected[f"{name}.{field}"] = getattr(kind, field).offset
                lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
        for name, members in make_python.enums(TEXT).items():
            for member, value in members:
                expected[member] = value
                lines.append(f'printf("{member} %zu\\n", (size_t){member});')
        program = "#define L3A_EXPERIMENTAL\n#include <l3a/l3a_experiment.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
        with tempfile.TemporaryDirectory() as folder:
            source, made = f"{folder}/sizes.c", f"{folder}/sizes"
            with open(source, "w") as file:
                file.write(program)
            subprocess.run([os.environ.get("CC", "cc"), f"-I{support.SOURCE}/include", "-o", made, source], check=True)
            said = subprocess.run([made], check=True, capture_output=True, text=True).stdout
        found = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in said.splitlines()}
        self.assertEqual(found, expected)
        self.assertGreater(len(found), 200)


unittest.main()
