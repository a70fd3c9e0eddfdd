"""The package as pip installs it, without a network: alone, beside an installed library, and with every library inside."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support

support.need("numpy", "pip", "setuptools", "wheel")
PROGRAM = """
import numpy, l3a, warnings
warnings.simplefilter("ignore")
X = numpy.eye(4, dtype=numpy.float32).repeat(20, 0)
print(l3a.__version__, l3a.L3AClassifier(dim=16, gamma=1, threads=1).fit(X, numpy.arange(80) // 20).score(X, numpy.arange(80) // 20))
"""


def run(*arguments, **more):
    said = subprocess.run([str(a) for a in arguments], text=True, capture_output=True, **more)
    assert said.returncode == 0, f"{arguments}: {said.stdout}{said.stderr}"
    return said.stdout


def version():
    text = (support.SOURCE / "include/l3a/l3a.h").read_text()
    return text.split('#define L3A_VERSION "')[1].split('"')[0]


class Package(unittest.TestCase):
    def setUp(self):
        self.held = tempfile.TemporaryDirectory()
        self.folder = Path(self.held.name)
        self.environment = {k: v for k, v in os.environ.items() if k not in ("L3A_LIBRARY", "PYTHONPATH")}

    def tearDown(self):
        self.held.cleanup()

    def test_installs_without_a_network(self):
        source = self.folder / "source"  # pip leaves files beside setup.py
        for part in ("python", "include", "tools", "docs", "setup.py", "pyproject.toml", "LICENSE"):
            original = support.SOURCE / part
            if original.is_dir():
                shutil.copytree(original, source / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy(original, source)
        run(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target", self.folder / "there", source,
            env={**self.environment, "L3A_SYSTEM_LIBRARY": "1"})
        self.assertFalse((self.folder / "there/l3a/lib").exists())
        self.assertTrue((self.folder / "there/l3a/py.typed").exists())
        said = run(sys.executable, "-c", PROGRAM, cwd=self.folder, env={
            **self.environment, "PYTHONPATH": str(self.folder / "there"), "L3A_LIBRARY": str(support.BUILD / "libl3a.so")})
        self.assertEqual(said, f"{version()} 1.0\n")

    def test_works_with_every_library_inside(self):
        if not shutil.which("patchelf"):
            print("skipped: patchelf is missing")
            return
        shutil.copytree(support.SOURCE / "python/l3a", self.folder / "l3a", ignore=shutil.ignore_patterns("__pycache__"))
        run(sys.executable, support.SOURCE / "tools/bundle_library.py", self.folder / "l3a", "--all", "--library",
            support.BUILD / "libl3a.so", env=self.environment)
        names = [path.name for path in (self.folder / "l3a/lib").iterdir()]
        self.assertIn("libl3a.so", names)
        self.assertTrue(any(name.startswith("libopenblas") for name in names), names)
        self.assertTrue(all("-l3a" in name for name in names if name != "libl3a.so"), names)
        self.assertTrue(any("openblas" in path.name for path in (self.folder / "l3a/licences").iterdir()))
        loaded = PROGRAM + "print(*{line.split()[-1] for line in open('/proc/self/maps') if 'l3a' in line and '.so' in line})"
        said = run(sys.executable, "-c", loaded, cwd=self.folder, env={**self.environment, "PYTHONPATH": str(self.folder)})
        self.assertTrue(said.startswith(f"{version()} 1.0\n"), said)
        self.assertEqual({str(Path(path).parent) for path in said.splitlines()[1].split()}, {str((self.folder / "l3a/lib").resolve())})


unittest.main()
