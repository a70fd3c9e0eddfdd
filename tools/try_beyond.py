#!/usr/bin/python3
"""Ideas that were tried for l3a+ and rejected (docs/beyond.md), on the features that bench/beyond.py measures. Needs PyTorch; with a GPU it
takes a minute. None of this is part of the program.

  tools/try_beyond.py --coco TRAIN VAL --voc TRAIN TEST

Prints one row per attempt: last mAP on test images for COCO B0-C10 and VOC B0-C4, with the random layer of seed 2025."""
import argparse
import json
import struct

import numpy as np
import torch

REAL, DEVICE = torch.float64, "cuda" if torch.cuda.is_available() else "cpu"
TYPES = {"F16": np.float16, "F32": np.float32, "I8": np.int8, "U8": np.uint8}
PHASES = {"coco": [(k, k + 10) for k in range(0, 80, 10)], "voc": [(k, k + 4) for k in range(0, 20, 4)]}
TURNS = {"coco": [(0, 40)] + [(k, k + 10) for k in range(40, 80, 10)]}


def load(path):
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    header.pop("__metadata__", None)
    found = {n: np.frombuffer(data[t["data_offsets"][0]:t["data_offsets"][1]], TYPES[t["dtype"]]).reshape(t["shape"])
             for n, t in header.items()}
    labels = torch.tensor(found["labels"] == 1, device=DEVICE)
    return torch.tensor(found["features"].astype(np.float32), device=DEVICE)[labels.any(1)], labels[labels.any(1)]


def layer(k, d, seed=2025):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, k * d + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    b = (2 * (z >> np.uint64(40)).astype(float) / 2**24 - 1) / np.sqrt(k)
    return torch.tensor(b.reshape(k, d).astype(np.float32), device=DEVICE)


def precisions(scores, truth):
    hits = torch.gather(truth, 0, torch.argsort(-scores, dim=0, stable=True)).to(REAL)
    rank = torch.arange(1, len(scores) + 1, device=DEVICE, dtype=REAL)[:, None]
    return (torch.cumsum(hits, 0) / rank * hits).sum(0) / hits.sum(0).clamp(min=1) * 100


def solve(a, gamma, c):
    a = a.clone()
    a.diagonal().add_(gamma)
    return torch.cholesky_solve(c, torch.linalg.cholesky(a))


class Data:
    """The rows of a data set after a layer, and the sums of its phases."""

    def __init__(self, name, tables, d, phases=None, expand=None):
        (z, self.y), (zt, self.yt) = tables[name]
        self.d, self.phases = d, phases or PHASES[name]
        b = layer(z.shape[1], d)
        expand = expand or (lambda t: torch.cat([torch.relu(t @ b), t], 1))
        self.x, self.xt = expand(z).to(REAL), expand(zt).to(REAL)
        self.v = self.y.sum(0).to(REAL) ** -0.5
        self.rows = [self.y[:, a:b].any(1).nonzero()[:, 0] for a, b in self.phases]

    def omega(self, j, weights="mean"):
        low, high = self.phases[j]
        y, scale = self.y[self.rows[j], low:high].to(REAL), (high if weights != "late" else len(self.v))
        scale = scale / self.v[:int(scale)].sum()
        if weights == "none":
            return torch.ones(len(y), device=DEVICE, dtype=REAL)
        return ((y * self.v[low:high]).max(1).values if weights == "max" else y @ self.v[low:high] / y.sum(1)) * scale

    def sums(self, weights="mean", columns=None, discount=None):
        a, c = [], []
        for j, (low, high) in enumerate(self.phases):
            x, omega = self.x[self.rows[j]][:, :columns], self.omega(j, weights)
            omega = omega * (discount[j] if discount else 1)
            a.append((x * omega[:, None]).T @ x)
            c.append((x * omega[:, None]).T @ self.y[self.rows[j], low:high].to(REAL))
        return a, c

    def plus(self, a, c, alpha, gamma, others=None):
        others = others or a
        total = sum(others)
        return [solve(a[j] + alpha * (total - others[j]), gamma, c[j]) for j in range(len(a))]

    def scores(self, w):
        w = torch.cat(w, 1) if isinstance(w, list) else w
        return self.xt[:, :w.shape[0]] @ w

    def judge(self, w):
        return precisions(self.scores(w), self.yt).mean().item()

    def joint(self, gamma, columns=None):
        y = self.y.to(REAL)
        omega = y @ (self.v * len(self.v) / self.v.sum()) / y.sum(1)
        x = self.x[:, :columns]
        return solve((x * omega[:, None]).T @ x, gamma, (x * omega[:, None]).T @ y)


def lift(w, share, own=0.0):
    total = sum(part.sum(1, keepdim=True) for part in w)
    return [part + share * total + own * part.sum(1, keepdim=True) for part in w]


def row(what, found):
    print(f"| {what} | " + " | ".join(", ".join(f"{v:.2f}" for v in cell) for cell in found) + " |", flush=True)


def each(sets, what, attempt):
    row(what, [attempt(data) for data in sets])


def try_weights(sets):
    print("\nd = 2048, gamma 1000, no skip features, no lift")
    alphas = 0.05, 0.1, 0.2, 0.3, 0.5
    each(sets, "alpha 1; without weights", lambda s: [s.judge(s.plus(*s.sums(w, s.d), 1, 1000)) for w in ("mean", "none")])
    for weights in "mean", "none":
        each(sets, f"alpha {alphas}, weights {weights}", lambda s, w=weights: [s.judge(s.plus(*s.sums(w, s.d), a, 1000)) for a in alphas])
    each(sets, "weights scaled when solving, alpha 0.2, 0.3", lambda s: [s.judge(s.plus(*s.sums("late", s.d), a, 1000)) for a in (0.2, 0.3)])
    print("\nd = 2048, skip features, no lift")
    each(sets, "gamma 100, 1000, 3000, 10000, alpha 0.4", lambda s: [s.judge(s.plus(*s.sums(), 0.4, g)) for g in (100, 1000, 3000, 10000)])

    def constant(s):
        before = s.judge(s.plus(*s.sums(), 0.3, 1000))
        x, xt = s.x, s.xt
        s.x, s.xt = (torch.cat([t, torch.ones(len(t), 1, device=DEVICE, dtype=REAL)], 1) for t in (x, xt))
        after = s.judge(s.plus(*s.sums(), 0.3, 1000))
        s.x, s.xt = x, xt
        return before, after
    each(sets, "alpha 0.3, gamma 1000; a constant beside the features", constant)


def try_others(sets):
    print("\nd = 4096, gamma 3000, no lift")
    kept = {s: s.sums() for s in sets}
    each(sets, "alpha 0.2; 0.3", lambda s: [s.judge(s.plus(*kept[s], a, 3000)) for a in (0.2, 0.3)])
    each(sets, "best alpha of each class, chosen on test images", lambda s: [torch.stack(
        [precisions(s.scores(s.plus(*kept[s], a, 3000)), s.yt) for a in (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1)]).max(0).values.mean().item()])

    def mean(s, alphas):
        w = [torch.cat(s.plus(*kept[s], a, 3000), 1) for a in alphas]
        return s.judge(sum(w))
    each(sets, "mean weights of alpha 0.1 and 0.5; 0.2 and 1", lambda s: [mean(s, (0.1, 0.5)), mean(s, (0.2, 1))])

    def target(s, value):
        (a, c), alpha = kept[s], 0.3
        mu = [(s.x[r] * s.omega(j)[:, None]).sum(0) for j, r in enumerate(s.rows)]
        c = [part + value * alpha * (sum(mu) - mu[j])[:, None] for j, part in enumerate(c)]
        return s.judge(s.plus(a, c, alpha, 3000))
    each(sets, "target of other phases' images -0.05; 0.05", lambda s: [target(s, -0.05), target(s, 0.05)])

    def means(s):
        a, c = kept[s]
        mu = [(s.x[r] * s.omega(j)[:, None]).sum(0) for j, r in enumerate(s.rows)]
        outer = [torch.outer(m, m) / s.omega(j).sum() for j, m in enumerate(mu)]
        return s.judge(s.plus(a, c, 1, 3000, [0.2 * a[j] + 0.8 * outer[j] for j in range(len(a))]))
    each(sets, "mean of other phases' images with weight 1, the rest with 0.2", lambda s: [means(s)])
    each(sets, "weight of an image: the largest of its classes' weights", lambda s: [s.judge(s.plus(*s.sums("max"), 0.3, 3000))])

    def scaled(s, factor):
        x, xt = s.x, s.xt
        s.x, s.xt = x.clone(), xt.clone()
        s.x[:, s.d:] *= factor
        s.xt[:, s.d:] *= factor
        found = s.judge(s.plus(*s.sums(), 0.2, 3000))
        s.x, s.xt = x, xt
        return found
    each(sets, "skip features times 2, 4, 8, alpha 0.2", lambda s: [scaled(s, f) for f in (2, 4, 8)])


def try_seen(sets):
    print("\nd = 4096, gamma 3000, no lift: images of other phases, weighted by whether they were seen before; the best alpha of 0.2, 0.3, 0.4, 0.5, 0.7")

    def discounted(s, kind):
        (a, c), seen, w = s.sums(), [], None
        for j, (low, _) in enumerate(s.phases):
            rows = s.rows[j]
            u = torch.ones(len(rows), device=DEVICE, dtype=REAL)
            if low and kind == "true":
                u = 1 / (1 + sum(s.y[rows, p:q].any(1).to(REAL) for p, q in s.phases[:j]))
            elif low:
                absent = torch.log1p(-torch.sigmoid(8 * (s.x[rows] @ w) - 5).clamp(max=0.999))
                u = torch.exp(absent.sum(1)) if kind == "unseen" else 1 / (1 + sum(1 - torch.exp(absent[:, p:q].sum(1)) for p, q in s.phases[:j]))
            x = s.x[rows]
            seen.append((x * (s.omega(j) * u)[:, None]).T @ x)
            w = torch.cat([solve(a[i] + 0.4 * (sum(seen) - seen[i]), 3000, c[i]) for i in range(j + 1)], 1)
        return max(s.judge(s.plus(a, c, alpha, 3000, seen)) for alpha in (0.2, 0.3, 0.4, 0.5, 0.7))
    for kind, what in ("unseen", "times the probability that no old class is present"), ("count", "divided by the likely number of phases"), ("true", "divided by the true number"):
        each(sets, what, lambda s, k=kind: [discounted(s, k)])

    def once(s):
        a, c = s.sums()
        plain = s.sums("none")[0]
        total = s.x.T @ s.x
        return s.judge([solve(a[j] + 0.5 * (total - plain[j]), 3000, c[j]) for j in range(len(a))])
    each(sets, "every image once among those of other phases, weight 1, alpha 0.5", lambda s: [once(s)])


def try_lift(sets, turns):
    print(f"\nlift, gamma 3000, alpha 0.3, lambda_t = 0, 0.03; d = {sets[0].d}")
    kept = {s: s.plus(*s.sums(), 0.3, 3000) for s in sets}
    each(sets, "of all classes, 0 and 0.03", lambda s: [s.judge(lift(kept[s], t)) for t in (0, 0.03)])
    each(sets, "of the classes of other phases only, 0.03", lambda s: [s.judge(lift(kept[s], 0.03, -0.03))])
    each(sets, "of all, and 0.03 more of the own phase's", lambda s: [s.judge(lift(kept[s], 0.03, 0.03))])

    def powered(s, give, take):
        w, f = torch.cat(kept[s], 1), s.y.sum(0).to(REAL)
        give, take = f**give / (f**give).mean(), f**take / (f**take).mean()
        return s.judge(w + 0.03 * (w @ give)[:, None] * take)
    each(sets, "classes give by f^-1/2, f^1/2; take by f^-1/2, f^1/2",
         lambda s: [powered(s, -0.5, 0), powered(s, 0.5, 0), powered(s, 0, -0.5), powered(s, 0, 0.5)])
    each(sets, "joint without; with 0.01, 0.02, 0.04", lambda s: [s.judge(lift([s.joint(1000, s.d)], t)) for t in (0, 0.01, 0.02, 0.04)])
    w = turns.plus(*turns.sums(), 0.3, 3000)
    row("COCO B40-C10: none; all 0.03; 0.03 more of the own phase's", [[turns.judge(lift(w, 0)), turns.judge(lift(w, 0.03)), turns.judge(lift(w, 0.03, 0.03))]])


def try_number_of_phases(tables):
    print("\nlambda_t by the number of phases: COCO, a fifth of the training images held out, d = 2048, alpha 0.3, gamma 5000")
    z, y = tables["coco"][0]
    held = (torch.rand(len(z), generator=torch.Generator().manual_seed(5)) < 0.2).to(DEVICE)
    split = {"coco": ((z[~held], y[~held]), (z[held], y[held]))}
    shares = 0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1
    print("| phases | formula | " + " | ".join(map(str, shares)) + " |")
    for step in 40, 20, 10, 5, 2:
        s = Data("coco", split, 2048, [(k, k + step) for k in range(0, 80, step)])
        w, t = s.plus(*s.sums(), 0.3, 5000), 80 // step
        print(f"| {t} | {0.1 * (t - 1) / (t + 8):.3f} | " + " | ".join(f"{s.judge(lift(w, share)):.2f}" for share in shares) + " |", flush=True)
        del s, w


def try_layers(tables):
    print("\nanother layer: joint, d = 2048, best gamma of 300, 1000, 3000, 10000")
    k, d = 192, 2048
    b = layer(k, d)
    bias = torch.rand(d, generator=torch.Generator().manual_seed(1)).to(DEVICE) * 2 - 1
    straight = torch.cat([torch.linalg.qr(layer(k, k, 7 + i))[0] for i in range(d // k + 1)], 1)[:, :d] / np.sqrt(3)

    def whiten(name):
        z = tables[name][0][0].double()
        values, vectors = torch.linalg.eigh(torch.cov(z.T))
        return (vectors / values.sqrt()).float(), z.mean(0).float()
    layers = {"relu": lambda t, n: torch.relu(t @ b), "tanh": lambda t, n: torch.tanh(t @ b), "bias": lambda t, n: torch.relu(t @ b + bias),
              "orthogonal": lambda t, n: torch.relu(t @ straight), "square": lambda t, n: torch.relu(t @ b) ** 2,
              "whitened": lambda t, n: torch.relu((t - n[1]) @ n[0] @ b)}
    for name, expand in layers.items():
        found = []
        for data in "coco", "voc":
            s = Data(data, tables, d, expand=lambda t, n=whiten(data): expand(t, n))
            scale = (s.x ** 2).sum(1).mean() / 9400
            found.append([max(s.judge(s.joint(g * scale)) for g in (300, 1000, 3000, 10000))])
        row(name, found)


def try_thresholds(sets):
    print("\nthresholds, d = 2048, alpha 0.3, gamma 3000, no lift: CF1")

    def f1(scores, truth, thresholds):
        guess = scores > thresholds
        return (200 * (guess & truth).sum(0) / (guess.sum(0) + truth.sum(0)).clamp(min=1)).mean().item()

    def best(scores, truth):
        order = torch.argsort(-scores, dim=0)
        hits = torch.cumsum(torch.gather(truth, 0, order).to(REAL), 0)
        f = 2 * hits / (torch.arange(1, len(scores) + 1, device=DEVICE, dtype=REAL)[:, None] + truth.sum(0))
        return torch.gather(torch.gather(scores, 0, order), 0, f.argmax(0)[None])[0] - 1e-9

    def compare(s):
        a, c = s.sums()
        w, thresholds, means = s.plus(a, c, 0.3, 3000), [], []
        for j, (low, high) in enumerate(s.phases):
            x, omega, y = s.x[s.rows[j]], s.omega(j), s.y[s.rows[j], low:high]
            m = a[j] + 0.3 * (sum(a) - a[j])
            leverage = omega * (x * solve(m, 3000, x.T).T).sum(1)
            out = (x @ w[j] - leverage[:, None] * y.to(REAL)) / (1 - leverage[:, None])
            thresholds.append(best(out, y))
            means.append((omega[:, None] * y * (x @ w[j])).sum(0) / (omega[:, None] * y).sum(0))
        scores, mean = s.scores(w), torch.cat(means)
        return [f1(scores, s.yt, torch.cat(thresholds)), f1(scores, s.yt, 2 / 3 * mean), f1(scores, s.yt, best(scores, s.yt))]
    each(sets, "each class's best by leave-one-out; two thirds of the mean; each class's best on the test images", compare)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coco", nargs=2, required=True)
    parser.add_argument("--voc", nargs=2, required=True)
    options = parser.parse_args()
    tables = {name: [load(path) for path in paths] for name, paths in (("coco", options.coco), ("voc", options.voc))}
    narrow, wide = ([Data(name, tables, d) for name in ("coco", "voc")] for d in (2048, 4096))
    try_weights(narrow)
    try_others(wide)
    try_seen(wide)
    for sets in narrow, wide:
        try_lift(sets, Data("coco", tables, sets[0].d, TURNS["coco"]))
    try_thresholds(narrow)
    try_number_of_phases(tables)
    try_layers(tables)


if __name__ == "__main__":
    main()
