#!/usr/bin/python3
"""A step of training on the processor (forward, backward, and a step of SGD) beside PyTorch's, in turns.

    L3A_BUILD=build bench/training.py [--threads N] [--batch N] [--rounds N] [NETWORK ...]

PyTorch runs in both of its layouts, and the ratio is that to the faster one of each round. The networks are those of
tests/oracle/test_training.py, with made-up parameters. Needs torch."""
import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
import torch  # noqa: E402
from measured import load, report, spread  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "oracle"))  # its library.py, not the one here
from test_training import command, make_model, write_inputs  # noqa: E402

TARGETS = {"resnet50": 1.0, "vit_tiny_patch16_224": 1.2}


class PyTorch:
    def __init__(self, name, batch, shares, layout):
        self.model = make_model(name, 0).train().to(memory_format=layout)
        self.pictures, self.shares = torch.from_numpy(batch).to(memory_format=layout), torch.from_numpy(shares)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9)

    def step(self):
        start = time.monotonic()
        self.optimiser.zero_grad()
        (self.model(self.pictures) * self.shares).sum().backward()
        self.optimiser.step()
        return time.monotonic() - start


class Program:
    def __init__(self, folder, pictures, threads):
        self.process = subprocess.Popen(command(folder, pictures, threads, "time", 0), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_WAIT_POLICY": "passive"})

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(name, options):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        batch, shares = write_inputs(folder, make_model(name, 0), options.batch, 224)
        rivals = [PyTorch(name, batch, shares, layout) for layout in (torch.contiguous_format, torch.channels_last)]
        own = Program(folder, options.batch, options.threads)
        for runner in (own, *rivals):
            runner.step()
        rounds = [[runner.step() for runner in (own, *rivals)] for _ in range(options.rounds)]
        own.close()
    ratios = [min(others) / mine for mine, *others in rounds]
    for title, seconds in zip(("l3a", "PyTorch", "PyTorch, channels last"), zip(*rounds)):
        print(f"{name}, batch {options.batch}, {options.threads} threads, {title}: {spread(seconds)} s")
    target = TARGETS.get(name, 1.0)
    report(f"training {name}, batch {options.batch}, against PyTorch {torch.__version__}", f">= {target}", spread(ratios),
           sorted(ratios)[len(ratios) // 2] >= target, f"bench/training.py {name}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", default=list(TARGETS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"load {load()}")
    for name in options.networks:
        measure(name, options)
    print(f"load {load()}")


if __name__ == "__main__":
    main()
