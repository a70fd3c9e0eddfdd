#!/usr/bin/env python3
"""The comparisons with NumPy once more, with every command on a GPU: l3a and its variants, l3a+, sweeps, merging and forgetting, model files, teaching."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD, HERE = Path(os.environ["L3A_BUILD"]), Path(__file__).parent
COMPARISONS = ["test_golden", "test_plus", "test_sweep", "test_merge_forget", "test_model_file", "test_methods", "test_base_new", "test_teach",
               "test_unlabelled"]


def main():
    found = subprocess.run([BUILD / "l3a", "doctor"], capture_output=True, text=True).stdout
    if "--device cuda uses it" not in found:
        reason = [line for line in found.splitlines() if line.startswith("device")]
        print("skipped: comparisons with NumPy on a GPU:", reason[0].split(maxsplit=1)[1] if reason else "doctor says nothing of devices")
        return 77
    failed = []
    with tempfile.TemporaryDirectory() as work:
        command = Path(work) / "l3a"
        command.write_text(f'#!/bin/sh\nexec "{BUILD}/l3a" "$@" --device cuda\n', encoding="utf-8")
        command.chmod(0o755)
        for name in COMPARISONS:
            done = subprocess.run([sys.executable, HERE / f"{name}.py"], env={**os.environ, "L3A_COMMAND": str(command), "L3A_TEST_DEVICE": "cuda"}, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            print(f"{name}: exit {done.returncode}\n{done.stdout[-3000:]}")
            if done.returncode not in (0, 77):
                failed.append(name)
    print(f"{len(COMPARISONS) - len(failed)} passed, {len(failed)} failed")
    return len(failed) > 0


if __name__ == "__main__":
    sys.exit(main())
