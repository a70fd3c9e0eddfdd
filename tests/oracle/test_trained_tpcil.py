"""tpcil against NumPy: replay, and the correlation of the similarities of drawn exemplars with those before the phase (trained.py)."""
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
import heads
import trained
from autograd import Value
from support import check, finish

STEP = 2
SETTINGS = {"epochs": 2, "batch": 8, "first-rate": 0.01, "rate": 0.008, "backbone-rate": 0.004, "lambda": 0.2, "memory": 4, "memory-per": "class",
            "loss": "asl", "decay": 0.01}


def similarities(features):
    """Of all pairs, as one vector; features: a Value [count, width]."""
    units = features / (features ** 2).sum(1, keepdims=True).sqrt()
    return (units @ units.transpose(1, 0))[np.triu_indices(features.shape[0], 1)]


def correlation(left, right):
    left, right = left - left.mean(), right - right.mean()
    return (left * right).sum() / ((left ** 2).sum() * (right ** 2).sum()).sqrt()


class TPCIL(trained.Trained, heads.Head):
    draws = 1

    def extra_loss(self, values, weights, batch):
        drawn = np.array([row.pixels for row in batch[len(self.shown_views):]])
        if len(drawn) < 3:
            return 0
        before = {name: Value(array) for name, array in self.before_parameters.items()}
        old = similarities(self.features_of(before, drawn)).detach()
        return 100 * self.set["lambda"] * (1 - correlation(similarities(self.features_of(values, drawn)), old))

    def finish(self, rows):
        heads.ICaRL.finish(self, rows)


class Replay(TPCIL):
    """Without the term."""

    def extra_loss(self, values, weights, batch):
        return 0


def main():
    left, right = np.random.default_rng(1).normal(size=(2, 9))
    check(abs(correlation(Value(left), Value(right)).array - np.corrcoef(left, right)[0, 1]) < 1e-12, "the correlation is NumPy's")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parameters, data = trained.write_all(folder)
        (pixels, labels), _ = data
        plain, learner = (kind(SETTINGS, labels.shape[1], parameters) for kind in (Replay, TPCIL))
        for first in range(0, labels.shape[1], STEP):
            own = labels[:, first:first + STEP]
            plain.learn(pixels[own.any(1)], own[own.any(1)])
        trained.compare(folder, "tpcil", learner, data, STEP, SETTINGS, plain)
        trained.check_reload(folder, "tpcil", STEP, SETTINGS)
        trained.check_stop(folder, "tpcil", STEP, SETTINGS)
    sys.exit(finish())


main()
