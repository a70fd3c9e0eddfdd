"""What the comparisons with NumPy share: the command, counted checks, tables, and the random layer written a second time."""
import csv
import functools
import os
import subprocess
import sys
from pathlib import Path

COMMAND = Path(os.environ.get("L3A_COMMAND") or Path(os.environ["L3A_BUILD"]) / "l3a")
counts = {"passed": 0, "failed": 0}


def skip(reason):
    """Ends the test before it has begun."""
    print("skipped:", reason)
    sys.exit(77)


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


def answer(*arguments, quiet=True):
    """Runs the command; returns its exit code and all that it says."""
    done = subprocess.run([COMMAND, *map(str, arguments), *["--quiet"] * quiet], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def refuse(words, *arguments):
    """The command refuses the arguments, with these words."""
    code, text = answer(*arguments)
    check(code == 2 and words in text, f"{arguments}: exit {code}, '{words}' in {text}")


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def splitmix(seed, index):
    """The bits of that index, from 0, in Python's own integers."""
    mask = (1 << 64) - 1
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
    return z ^ z >> 31


@functools.lru_cache
def random_bits(seed, count):
    return [splitmix(seed, index) for index in range(count)]


def random_layer(width, dim, seed):
    """B of SPEC section 2: computed in float64, rounded to float32."""
    import numpy as np
    uniform = np.array([bits >> 40 for bits in random_bits(seed, width * dim)], float) / 2**24
    return ((2 * uniform - 1) / np.sqrt(width)).astype(np.float32).astype(float).reshape(width, dim)


def expand(x, dim, skip_features=False):
    """Rows after the random layer, beside what they were if `skip_features`."""
    import numpy as np
    wide = np.maximum(x.astype(float) @ random_layer(x.shape[-1], dim, 2025), 0)
    return np.concatenate([wide, x], -1) if skip_features else wide


def combine(s):
    """Scores [images, classes] from those of rows [images, rows of an image, classes]."""
    return s[:, 0] if s.shape[1] == 1 else (s[:, 0] + 2 * s[:, 1:].max(1)) / 3
