"""Methods whose rules are those of frozen heads, with the network trained below them, against NumPy: scores, and every number of network and
head, after each phase. The training is done again in double precision with formulas in trained.py, by a few steps of SGD on a small ViT;
Adam has tests of its own.

With L3A_ALL=1, every method is also saved, stopped and resumed; otherwise those that keep the most.

Tolerance: what training has moved a parameter by agrees to 1e-4, and so do scores. A wrong formula or draw shows as 1e-2 and more."""
import os
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import trained
from support import finish

STEP = 2
SETTINGS = {"epochs": 2, "batch": 8, "first-rate": 0.01, "rate": 0.008, "backbone-rate": 0.004, "lambda": 0.2, "memory": 3, "memory-per": "class",
            "loss": "asl", "decay": 0.01}
LAMBDAS = {"ewc": 300, "oewc": 300, "rwalk": 10}  # penalties of so few steps are small


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters, data = trained.write_all(folder)
        plain = None
        for method, kind in trained.METHODS.items():
            settings = {**SETTINGS, "lambda": LAMBDAS.get(method, SETTINGS["lambda"])}
            learner = kind(settings, data[0][1].shape[1], parameters)
            trained.compare(folder, method, learner, data, 0 if method == "joint-sgd" else STEP, settings, plain)
            plain = plain or learner
        for method in "finetune", "icarl":
            settings = {**SETTINGS, "loss": "bce"}
            trained.compare(folder, method, trained.METHODS[method](settings, data[0][1].shape[1], parameters), data, STEP, settings)
        for method in trained.METHODS if os.environ.get("L3A_ALL") else ("rwalk", "der++", "bic", "prs"):
            trained.check_reload(folder, method, STEP, SETTINGS)
            trained.check_stop(folder, method, STEP, SETTINGS)
        trained.check_stop(folder, "icarl", STEP, {**SETTINGS, "tuning:adam": 1})
    sys.exit(finish())


main()
