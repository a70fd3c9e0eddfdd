"""The examples in docstrings do what they say, and mypy and flake8 find nothing."""
import contextlib
import doctest
import importlib
import io
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

import support

support.need("numpy", "PIL", "sklearn")
import numpy

import l3a

CHECKED = ["python", "setup.py", "tests/python", "tools/make_python.py", "tools/bundle_library.py", "bench/python.py"]


def picture(channel):
    made = numpy.full((64, 64, 3), 40, dtype=numpy.uint8)
    made[..., channel] = 220
    return made


class Examples(unittest.TestCase):
    def test_docstrings(self):
        names = {"backbone": str(support.SOURCE / "models/demo_backbone.safetensors"), "red": picture(0), "green": picture(1),
                 "blue": picture(2)}
        before, tried = os.getcwd(), 0
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.chdir(folder)
            try:
                for module in pkgutil.iter_modules(l3a.__path__):
                    found = doctest.testmod(importlib.import_module(f"l3a.{module.name}"), extraglobs=dict(names))
                    self.assertEqual(found.failed, 0, module.name)
                    tried += found.attempted
            finally:
                os.chdir(before)
        self.assertGreater(tried, 15)

    def test_every_public_name_has_a_docstring(self):
        for name in l3a.__all__:
            try:
                self.assertTrue(getattr(l3a, name).__doc__, name)
            except ModuleNotFoundError as missing:
                print(f"skipped: {missing}")

    def test_names(self):
        self.assertIn("Tagger", dir(l3a))
        with self.assertRaisesRegex(AttributeError, "has no attribute 'Taggers'"):
            l3a.Taggers


class Pages(unittest.TestCase):
    """Pages about Python: their blocks, in order, with a backbone and photos to use, and what they print."""

    def make_photos(self, folder):
        from PIL import Image
        os.symlink(support.SOURCE / "models/demo_backbone.safetensors", f"{folder}/backbone.safetensors")
        for channel, name in enumerate(("cat", "dog")):
            os.makedirs(f"{folder}/photos/{name}")
            for i in range(4):
                Image.fromarray(picture(channel) + numpy.uint8(i)).save(f"{folder}/photos/{name}/{i}.jpg")
        Image.fromarray(picture(2)).save(f"{folder}/new.jpg")
        os.makedirs(f"{folder}/library")
        for i in range(12):
            Image.fromarray(picture(i % 3) + numpy.uint8(10 + i)).save(f"{folder}/library/{i}.jpg")

    def test_python(self):
        self.work_as_written("docs/python.md", 5)

    def test_your_own_method(self):
        self.work_as_written("docs/your-own-method.md", 0)

    def work_as_written(self, page, more_than):
        text = (support.SOURCE / page).read_text()
        blocks = re.findall(r"^```python\n(.*?)^```(?:\n+prints\n+```\n(.*?)^```)?", text, re.M | re.S)
        self.assertGreater(len(blocks), more_than)
        before, names = os.getcwd(), {}
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.make_photos(folder)
            os.chdir(folder)
            try:
                for code, expected in blocks:
                    said = io.StringIO()
                    with contextlib.redirect_stdout(said):
                        exec(compile(code, page, "exec"), names)
                    if expected:
                        self.assertEqual(said.getvalue(), expected)
            finally:
                os.chdir(before)


class Linters(unittest.TestCase):
    def run_if_there(self, program, *arguments):
        if not support.has(program):
            return
        said = subprocess.run([sys.executable, "-m", program, *arguments], cwd=support.SOURCE, capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)

    def test_types(self):
        with tempfile.TemporaryDirectory() as cache:
            self.run_if_there("mypy", "--cache-dir", cache)

    def test_style(self):
        self.run_if_there("flake8", *[path for path in CHECKED if (support.SOURCE / path).exists()])


unittest.main()
