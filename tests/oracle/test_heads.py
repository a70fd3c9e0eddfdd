"""finetune and joint-sgd of the built command against the same training in NumPy, in double precision and with the same shuffles."""
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE, BUILD = Path(os.environ["L3A_SOURCE"]), Path(os.environ["L3A_BUILD"])
EPOCHS, BATCH, RATES, SEED, STEP = 6, 32, (0.05, 0.02), 7, 2
MASK = (1 << 64) - 1

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)


def random_bits(seed, index):
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class Stream:
    def __init__(self, seed):
        self.seed, self.next = seed, 0

    def shuffle(self, count):
        order = list(range(count))
        for i in range(count, 1, -1):
            j = random_bits(self.seed, self.next) % i
            self.next += 1
            order[i - 1], order[j] = order[j], order[i - 1]
        return order


def one_cycle(step, steps, highest):
    top, end, first = 0.2 * steps - 1, steps - 1, highest / 25
    if step <= top:
        return highest + (first - highest) * (1 + np.cos(np.pi * step / top)) / 2
    last = first / 1e4
    return last + (highest - last) * (1 + np.cos(np.pi * (step - top) / (end - top))) / 2


def loss_slope(loss, scores, targets):
    p = 1 / (1 + np.exp(-scores))
    if loss == "bce":
        return p - targets
    q = np.maximum(p - 0.05, 0)
    negative = p * (1 - p) * (q ** 4 / (1 - q) - 4 * q ** 3 * np.log(1 - q))
    return np.where(targets == 1, p - 1, negative)


class Head:
    def __init__(self, width, loss):
        self.loss, self.weights = loss, np.zeros((0, width + 1))
        self.stream = Stream(random_bits(SEED, 1))

    def learn(self, features, labels):
        """labels of the new classes; those of old ones are 0 to the loss."""
        inputs, old, new = features.shape[1] + 1, len(self.weights), labels.shape[1]
        bound = 1 / np.sqrt(inputs - 1)
        fresh = [(2 * (random_bits(random_bits(SEED, 0), i) >> 40) / 2 ** 24 - 1) * bound for i in range(old * inputs, (old + new) * inputs)]
        self.weights = np.vstack([self.weights, np.array(fresh).reshape(new, inputs)])
        z = np.hstack([features, np.ones((len(features), 1))])
        y = np.hstack([np.zeros((len(features), old)), labels == 1])
        m, v, t = np.zeros_like(self.weights), np.zeros_like(self.weights), 0
        steps = EPOCHS * -(-len(z) // BATCH)
        for _ in range(EPOCHS):
            order = self.stream.shuffle(len(z))
            for first in range(0, len(z), BATCH):
                rows = order[first:first + BATCH]
                slope = loss_slope(self.loss, z[rows] @ self.weights.T, y[rows]).T @ z[rows] / len(rows)
                rate = one_cycle(t, steps, RATES[old > 0])
                t += 1
                m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope ** 2
                self.weights -= rate * (m / (1 - 0.9 ** t)) / (np.sqrt(v / (1 - 0.999 ** t)) + 1e-8)

    def mean_ap(self, features, labels):
        keep = labels.max(axis=1) == 1
        scores, labels = np.hstack([features, np.ones((len(features), 1))])[keep] @ self.weights.T, labels[keep]
        values = []
        for s, y in zip(scores.T, labels.T):
            hits = y[np.argsort(-s, kind="stable")] == 1
            values.append((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())
        return 100 * np.mean(values)


def tables(folder):
    """Features and labels of both splits, classes in lexicographic order."""
    order = np.argsort((folder / "names.txt").read_text().split("\n")[:-1])
    return [(np.load(folder / f"{part}.npy").astype(float), np.load(folder / f"{part}_labels.npy")[:, order]) for part in ("train", "test")]


def expected(loss, train, test):
    classes = train[1].shape[1]
    head, values = Head(train[0].shape[1], loss), []
    for first in range(0, classes, STEP):
        own = train[1][:, first:first + STEP]
        rows = own.max(axis=1) == 1
        head.learn(train[0][rows], own[rows])
        values.append(head.mean_ap(test[0], test[1][:, :first + STEP]))
    joint = Head(train[0].shape[1], loss)
    joint.learn(*(part[train[1].max(axis=1) == 1] for part in train))
    return values + [joint.mean_ap(*test)]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, SOURCE / "tests/cli/make_features.py", folder], check=True)
        train, test = tables(folder)
        for loss in "asl", "bce":
            subprocess.run([BUILD / "l3a", "run", "--train", folder / "train.safetensors", "--test", folder / "test.safetensors",
                            "--protocol", f"B0-C{STEP}", "--method", "finetune,joint-sgd", "--loss", loss, "--epochs", str(EPOCHS),
                            "--batch", str(BATCH), "--first-rate", str(RATES[0]), "--rate", str(RATES[1]), "--seed", str(SEED),
                            "--dim", "8", "-o", folder / loss], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found = [float(row["mAP"]) for row in csv.DictReader(open(folder / loss / "metrics.csv"))]
            wanted = expected(loss, train, test)
            print(loss, "mAP", *(f"{value:.3f}" for value in found), "NumPy", *(f"{value:.3f}" for value in wanted))
            assert len(found) == len(wanted) and np.abs(np.subtract(found, wanted)).max() < 0.1


main()
