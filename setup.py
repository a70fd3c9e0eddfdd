"""The Python package l3a: python/l3a with the library inside.

    pip install .       builds the library with CMake and installs the package; needs what tools/install-packages build lists
    make wheel          the same as a wheel for other machines, with the libraries that libl3a.so needs

L3A_SYSTEM_LIBRARY=1 leaves the library out, for packages that install libl3a beside this one. L3A_BUNDLE=1 makes the wheel of
`make wheel`. L3A_CMAKE_BUILD names the folder to build in."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

SOURCE = Path(__file__).resolve().parent
VERSION = re.search(r'#define L3A_VERSION "(.*)"', (SOURCE / "include/l3a/l3a.h").read_text())[1]
WITHOUT_LIBRARY = os.environ.get("L3A_SYSTEM_LIBRARY", "") not in ("", "0")
BUNDLE = os.environ.get("L3A_BUNDLE", "") not in ("", "0")


class BuildWithLibrary(build_py):
    """Copies the modules, and then puts the library beside them."""

    def run(self):
        shutil.rmtree(os.path.join(self.build_lib, "l3a"), ignore_errors=True)  # of another build, perhaps with the library
        super().run()
        if not WITHOUT_LIBRARY:
            command = [sys.executable, str(SOURCE / "tools/bundle_library.py"), os.path.join(self.build_lib, "l3a")]
            subprocess.run(command + ["--all"] * BUNDLE, check=True)


class WithLibrary(Distribution):
    """A package with a library in it is not for every machine."""

    def has_ext_modules(self):
        return not WITHOUT_LIBRARY


commands = {"build_py": BuildWithLibrary}
try:
    from wheel.bdist_wheel import bdist_wheel

    class WheelForEveryPython(bdist_wheel):
        """The library is for one kind of machine, but no module of Python is compiled."""

        def get_tag(self):
            return ("py3", "none", super().get_tag()[2])
    commands["bdist_wheel"] = WheelForEveryPython
except ImportError:
    pass

setup(
    name="l3a",
    version=VERSION,
    description="Teach a multi-label classifier new classes, phase after phase, in closed form",
    long_description=(SOURCE / "docs/python.md").read_text() if (SOURCE / "docs/python.md").is_file() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.8",
    install_requires=["numpy"],
    extras_require={"sklearn": ["scikit-learn"], "tables": ["pandas"], "plots": ["matplotlib"]},
    package_dir={"": "python"},
    packages=["l3a"],
    package_data={"l3a": ["py.typed"]},
    cmdclass=commands,
    distclass=WithLibrary,
    zip_safe=False,
)
