"""What the Python tests share: the package of this tree with the library of this build, and how a test is skipped."""
import importlib.util
import json
import os
import struct
import sys
from pathlib import Path

SOURCE = Path(os.environ["L3A_SOURCE"])
BUILD = Path(os.environ["L3A_BUILD"])
COMMAND = BUILD / "l3a"
os.environ["L3A_LIBRARY"] = str(BUILD / "libl3a.so")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of NumPy; a context of l3a has its own number of threads
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "python"))

if "address" in os.environ.get("L3A_SANITIZE", "") or "thread" in os.environ.get("L3A_SANITIZE", ""):
    print("skipped: a library built with sanitizers cannot be loaded into Python")
    sys.exit(77)


def has(module):
    """Whether a module is there; if not, says that what needs it is skipped."""
    found = importlib.util.find_spec(module) is not None
    if not found:
        print(f"skipped: the Python module {module} is missing")
    return found


def need(*modules):
    """Skips the whole file if a module is missing."""
    if not all([has(module) for module in modules]):
        sys.exit(77)


def tensors(path):
    """{name: bytes} of a safetensors file, and its metadata."""
    content = Path(path).read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    listed = json.loads(content[8:8 + length])
    metadata = listed.pop("__metadata__")
    first = 8 + length
    return {name: content[first + t["data_offsets"][0]:first + t["data_offsets"][1]] for name, t in listed.items()}, metadata
