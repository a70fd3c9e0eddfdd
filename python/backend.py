"""What pip calls to build the package: setuptools, also where pip hides the system's modules and there is no network to get them from."""
import os
import sys

try:
    import setuptools  # noqa: F401
except ImportError:
    sys.path += [path for path in ("/usr/lib/python3/dist-packages",) if os.path.isdir(path)]

from setuptools import build_meta  # noqa: E402

build_wheel = build_meta.build_wheel
build_sdist = build_meta.build_sdist


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []
