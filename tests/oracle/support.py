"""What the comparisons with NumPy share: the command, counted checks, and the random layer written a second time."""
import functools
import os
import subprocess
from pathlib import Path

COMMAND = Path(os.environ.get("L3A_COMMAND") or Path(os.environ["L3A_BUILD"]) / "l3a")
counts = {"passed": 0, "failed": 0}


def check(good, what):
    counts["passed" if good else "failed"] += 1
    if not good:
        print("FAILED:", what)


def finish():
    """Prints the counts, and returns the exit code of the test."""
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return int(counts["failed"] > 0)


def l3a(*arguments, code=0):
    """Runs the command and checks its exit code."""
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True)
    check(done.returncode == code, f"{arguments[0]}: exit {done.returncode} instead of {code}: {done.stderr}")
    return done


@functools.lru_cache
def random_bits(seed, count):
    """splitmix64, in Python's own integers."""
    mask, out = (1 << 64) - 1, []
    for i in range(1, count + 1):
        z = (seed + i * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        out.append(z ^ z >> 31)
    return out


def random_layer(width, dim, seed):
    """B of SPEC section 2: computed in float64, rounded to float32."""
    import numpy as np
    uniform = np.array([bits >> 40 for bits in random_bits(seed, width * dim)], float) / 2**24
    return ((2 * uniform - 1) / np.sqrt(width)).astype(np.float32).astype(float).reshape(width, dim)
