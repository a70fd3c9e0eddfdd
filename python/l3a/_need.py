"""Modules that some functions need and the package does not."""
import importlib
from typing import Any


def need(module: str, what: str, package: str = "") -> Any:
    """Imports a module; if it is missing, says what needs it and how to install it.

    >>> need("no_such_module", "run.plot()")
    Traceback (most recent call last):
        ...
    ImportError: run.plot() needs no_such_module; install it with: python3 -m pip install no_such_module
    """
    package = package or module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        raise ImportError(f"{what} needs {package}; install it with: python3 -m pip install {package}") from problem
