#!/usr/bin/env python3
"""Files have little-endian numbers, which nothing converts. So the library does not compile for a machine with another order, where it would
write files that no other machine can read."""
import os
import subprocess
from pathlib import Path

SOURCE = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))
COMPILE = [os.environ.get("CC", "cc"), "-std=gnu11", "-w", "-fsyntax-only", f"-I{SOURCE}/src", f"-I{SOURCE}/include"]

for name in "src/tag/journal.c", "src/format/safetensors.c":
    as_it_is = subprocess.run([*COMPILE, SOURCE / name], capture_output=True, text=True)
    assert as_it_is.returncode == 0, as_it_is.stderr
    turned = subprocess.run([*COMPILE, "-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__", SOURCE / name], capture_output=True, text=True)
    assert turned.returncode and "little-endian" in turned.stderr, (name, turned.stderr)
