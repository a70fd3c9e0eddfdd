#!/usr/bin/env python3
"""bench/run.py with programs that print given numbers: rivals take turns, each number is stated as median, least and largest, the conditions
are printed and kept, and the page gets all of it. Nothing is timed."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(os.environ.get("L3A_SOURCE", Path(__file__).resolve().parents[2]))

# The n-th call takes the n-th line of numbers, and notes that it was called.
STUB = """#!/bin/bash
cd "$(dirname "$0")"
case "$(basename "$0") $*" in
bench_learn*--better-kernels) echo Haswell ;;
l3a*doctor) echo "processor    a stub" ;;
python*"-c import torch") ;;
bench_learn*) echo "l3a $OPENBLAS_CORETYPE" >>calls; n=$(grep -c '^l3a' calls); sed -n "${n}p" ours ;;
python*released.py*) echo "released $OPENBLAS_CORETYPE" >>calls; n=$(grep -c '^released' calls); sed -n "${n}p" theirs ;;
*) exit 1 ;;
esac
"""


def bench(build, *arguments, code=0):
    environment = {**os.environ, "L3A_BUILD": str(build), "L3A_PYTHON": str(build / "python"), "OMP_WAIT_POLICY": "passive"}
    environment.pop("OPENBLAS_CORETYPE", None)
    done = subprocess.run(["/usr/bin/python3", SOURCE / "bench" / "run.py", *map(str, arguments)], env=environment, capture_output=True, text=True)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def make_programs(build):
    build.mkdir()
    for name in ("bench_learn", "l3a", "python"):
        (build / name).write_text(STUB)
        (build / name).chmod(0o755)
    ours = [{"rows": 25046, "threads": 2, "kernels": "Haswell", "ratio": ratio, "library": {"rows_per_second": rate, "solve": 10}}
            for ratio, rate in ((1.05, 1000), (1.30, 1200), (1.10, 1100))]
    theirs = [{"torch": "9.9", "threads": 2, "matrices": "OpenBLAS stub", "rows_per_second": rate, "inverse_seconds": 90} for rate in (50, 50, 44)]
    (build / "ours").write_text("\n".join(map(json.dumps, ours)) + "\n")
    (build / "theirs").write_text("\n".join(map(json.dumps, theirs)) + "\n")


def main():
    with tempfile.TemporaryDirectory() as folder:
        build, page = Path(folder) / "build", Path(folder) / "performance.md"
        make_programs(build)
        shutil.copy(SOURCE / "docs" / "performance.md", page)
        assert "measure first" in bench(build, "--page", page, code=1)
        assert "there is no part 'bar'" in bench(build, "--only", "bar", code=2)
        said = bench(build, "--only", "released,bare")
        assert (build / "calls").read_text() == "l3a Haswell\nreleased Haswell\n" * 3, "in turns, on the same kernels"
        # 1000/50, 1200/50, 1100/44; rates; (25046/50 + 90)/(25046/1000 + 10) and so on; given ratios
        phases = [(25046 / b + 90) / (25046 / a + 10) for a, b in ((1000, 50), (1200, 50), (1100, 44))]
        wanted = ["24.0 (20.0 to 25.0 over 3 rounds): met", "1,100 (1,000 to 1,200 over 3 rounds)", "50.0 (44.0 to 50.0 over 3 rounds)",
                  "{1:.1f} ({0:.1f} to {2:.1f} over 3 rounds)".format(*sorted(phases)), "target at most 1.15, measured 1.10 (1.05 to 1.30 over 3 rounds): met"]
        for text in wanted + ["processor: ", "cores: ", "OMP_WAIT_POLICY: passive", "OPENBLAS_CORETYPE): Haswell", "load average before", "after", "a stub"]:
            assert text in said, (text, said)
        kept = json.loads((build / "bench.json").read_text())
        assert len(kept["rows"]) == 5 and kept["conditions"]["PyTorch"] == "9.9, 2 threads, OpenBLAS stub" and len(kept["conditions"]["load average after"]) == 3
        bench(build, "--page", page)
        text = page.read_text()
        for part in ("24.0 (20.0 to 25.0 over 3 rounds)", "`bench/run.py --only released`", "| PyTorch | 9.9, 2 threads", "| load average before |"):
            assert part in text, (part, text)
        assert "Not measured yet" not in text and text.count("measured: begin") == text.count("measured: end") == 1
        bench(build, "--page", page)
        assert page.read_text() == text, "written twice, the same"
    print("in turns, with spread and conditions, and into the page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
