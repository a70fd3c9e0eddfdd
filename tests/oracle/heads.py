"""Heads trained on frozen features, in NumPy and double precision: what test_heads.py compares the program with. The formulas are those of
docs/methods-gradient.md and the papers named there, written as plainly as they can be (penalties as a sum over phases, choices by trying
each); what is random follows the rule that the document states."""
import math

import numpy as np

from support import check, splitmix

SEED, WIDTH = 7, 7

# ---- What is random ----

def uniforms(seed, first, count):
    return np.array([(splitmix(seed, i) >> 40) / 2 ** 24 for i in range(first, first + count)])


class Stream:
    def __init__(self, seed):
        self.seed, self.next = seed, -1

    def bits(self):
        self.next += 1
        return splitmix(self.seed, self.next)

    def below(self, count):
        return self.bits() % count

    def uniform(self):
        return (self.bits() >> 40) / 2 ** 24

    def shuffle(self, count):
        order = list(range(count))
        for i in reversed(range(1, count)):
            j = self.below(i + 1)
            order[i], order[j] = order[j], order[i]
        return order

    def view(self, crops):
        """Half of the time the whole picture, else one of the crops; without crops, nothing is drawn."""
        drawn = self.below(2 * crops) if crops else 0
        return 0 if drawn < crops or not crops else drawn - crops + 1

    def draw(self, items, count):
        items = list(items)
        for i in range(min(count, len(items))):
            j = i + self.below(len(items) - i)
            items[i], items[j] = items[j], items[i]
        return items[:count]


# ---- What all heads share ----

def sigmoid(s):
    return 1 / (1 + np.exp(-s))


def loss_slope(loss, scores, targets):
    p = sigmoid(scores)
    if loss == "bce":
        return p - targets
    q = np.maximum(p - 0.05, 0)
    negative = p * (1 - p) * (q ** 4 / (1 - q) - 4 * q ** 3 * np.log(1 - q))
    return np.where(targets == 1, p - 1, negative)


def one_cycle(step, steps, highest):
    top, end, first = 0.2 * steps - 1, steps - 1, highest / 25
    if step <= top:
        return highest + (first - highest) * (1 + np.cos(np.pi * step / top)) / 2
    last = first / 1e4
    return last + (highest - last) * (1 + np.cos(np.pi * (step - top) / (end - top))) / 2


class Kept:
    """One image of a memory: the features of its views, and the labels it was given, by class."""

    def __init__(self, views, labels, first):
        self.views, self.first, self.labels = views, first, labels
        self.features = views[0]

    def targets(self, classes):
        y = np.zeros(classes)
        y[self.first:self.first + len(self.labels)] = self.labels
        return y

    def classes(self):
        return [self.first + k for k in np.flatnonzero(self.labels)]


class Head:
    """finetune, and what the others are made from."""
    distils = None  # "only": in place of old classes' labels; "too": beside them
    joins = False   # the memory is shuffled among the phase's images
    draws = 0       # from the memory, with each batch
    apart = False   # each draw has a mean of its own
    width = WIDTH   # of the features

    def __init__(self, settings, total):
        self.set, self.total = settings, total
        self.random = Stream(splitmix(SEED, 1))
        self.weights = np.zeros((0, self.inputs(np.zeros((1, self.width))).shape[1]))
        self.memory, self.old = [], 0

    def inputs(self, features):
        x = features = np.atleast_2d(features)
        if self.set["head-input"] == "layer":
            d = self.set["dim"]
            layer = ((2 * uniforms(SEED, 0, self.width * d) - 1) / math.sqrt(self.width)).astype(np.float32).reshape(self.width, d)
            x = 2 / math.sqrt(3) * self.width / d * np.maximum(features @ layer.astype(float), 0)
            if self.set["skip-features"] == "on":
                x = np.hstack([x, features])
        return np.hstack([x, np.ones((len(x), 1))])

    def slots(self):
        return self.set["memory"] * (self.total if self.set["memory-per"] == "class" else 1)

    def of_class(self):
        return self.set["memory"] if self.set["memory-per"] == "class" else self.set["memory"] // self.total

    def learn(self, features, labels):
        self.old, new, inputs = len(self.weights), labels.shape[1], self.weights.shape[1]
        fresh = uniforms(splitmix(SEED, 0), self.old * inputs, new * inputs)
        fresh = (2 * fresh - 1) / math.sqrt(inputs - 1)
        self.before = self.weights.copy()
        self.weights = np.vstack([self.weights, fresh.reshape(new, inputs)])
        rows = self.prepare([Kept(z, y, self.old) for z, y in zip(features, labels)])
        self.train(rows)
        self.finish(rows)

    def train(self, rows):
        shown = rows + [kept for i, kept in enumerate(self.memory) if self.joins and not self.is_held(i)]
        epochs, size = self.set["epochs"], self.set["batch"]
        steps, t = epochs * -(-len(shown) // size), 0
        m, v = np.zeros_like(self.weights), np.zeros_like(self.weights)
        for epoch in range(epochs):
            order = self.random.shuffle(len(shown))
            for first in range(0, len(order), size):
                batch = [shown[i] for i in order[first:first + size]]
                slope = self.slope(batch)
                start = self.weights.copy()
                total = slope + self.penalty_slope()
                rate = one_cycle(t, steps, self.set["rate"] if self.old else self.set["first-rate"])
                t += 1
                m, v = 0.9 * m + 0.1 * total, 0.999 * v + 0.001 * total ** 2
                self.weights = start - rate * (m / (1 - 0.9 ** t)) / (np.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
                self.stepped(batch, slope, self.weights - start, epoch + 1 == epochs)

    def part_slope(self, x, slope_by_scores):
        """The gradient by the weights of a mean over images."""
        return slope_by_scores.T @ x / len(x)

    def slope(self, batch):
        classes = len(self.weights)
        parts, shown, self.shown_views = [batch], [], [self.draw_view(kept) for kept in batch]
        shown.append([kept.views[v] for kept, v in zip(batch, self.shown_views)])
        for _ in range(self.draws):
            parts.append(self.random.draw(self.memory, self.set["batch"]))
            shown.append([kept.views[self.draw_view(kept)] for kept in parts[-1]])
        first = shown[0]
        if not self.apart:
            parts, shown = [sum(parts, [])], [sum(shown, [])]
        slope = 0
        for part, rows in zip(parts, shown):
            if part:
                x = self.inputs(np.array(rows))
                s = x @ self.weights.T
                g = loss_slope(self.set["loss"], s, np.array([kept.targets(classes) for kept in part]))
                if self.distils and self.old:
                    # one product for both, so that the difference is exactly 0 where it should be: Adam makes steps of rounding errors
                    soft = sigmoid(x @ self.weights[:self.old].T) - sigmoid(x @ self.before.T)
                    share = self.old / (classes - self.old) if self.distils == "too" else 1
                    g[:, :self.old] = self.set["lambda"] * share * soft + (g[:, :self.old] if self.distils == "too" else 0)
                slope = slope + self.part_slope(x, g)
        self.shown_scores = self.inputs(np.array(first)) @ self.weights.T
        return slope

    def draw_view(self, kept):
        return self.random.view(len(kept.views) - 1)

    def is_held(self, slot):
        return False

    def prepare(self, rows):
        return rows

    def penalty_slope(self):
        return 0

    def stepped(self, batch, slope, moved, last_pass):
        pass

    def finish(self, rows):
        pass

    def scores(self, images):
        """Of images [count, views, width]: the whole picture once, the best crop twice."""
        scores = np.stack([self.inputs(views) @ self.weights.T for views in images])
        return (scores[:, 0] + 2 * scores[:, 1:].max(1)) / 3 if scores.shape[1] > 1 else scores[:, 0]


# ---- The methods ----

class LwF(Head):
    distils = "only"


class EWC(Head):
    """A parabola for each earlier phase."""
    decay, last_anchor = 1, False

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.phases = []

    def penalty_slope(self):
        slope = np.zeros_like(self.weights)
        for age, (fisher, anchor) in enumerate(reversed(self.phases)):
            anchor = self.phases[-1][1][:len(anchor)] if self.last_anchor else anchor
            slope[:len(fisher)] += self.set["lambda"] * self.decay ** age * fisher * (self.weights[:len(fisher)] - anchor)
        return slope

    def finish(self, rows):
        fisher, crops = 0, len(rows[0].views) - 1
        for v in range(1 + crops):
            x = self.inputs(np.array([row.views[v] for row in rows]))
            p = sigmoid(x @ self.weights.T)
            chance = 1 if not crops else 0.5 if v == 0 else 0.5 / crops
            fisher = fisher + chance * (p * (1 - p)).T @ x ** 2 / len(x)
        self.phases.append((fisher, self.weights.copy()))


class OEWC(EWC):
    decay, last_anchor = 0.95, True


class RWalk(Head):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.fisher = self.score = self.path = self.importance = np.zeros_like(self.weights)

    def prepare(self, rows):
        def widen(a):
            return np.vstack([a, np.zeros((len(self.weights) - len(a), a.shape[1]))])
        self.fisher, self.score, self.importance = widen(self.fisher), widen(self.score), widen(self.importance)
        self.path = np.zeros_like(self.weights)
        self.anchor = self.weights.copy()
        return rows

    def penalty_slope(self):
        held = self.importance * (self.weights - self.anchor)
        held[self.old:] = 0
        return self.set["lambda"] * held

    def stepped(self, batch, slope, moved, last_pass):
        self.fisher = 0.9 * self.fisher + 0.1 * slope ** 2
        self.path += np.maximum(-slope * moved, 0) / (0.5 * self.fisher * moved ** 2 + 1e-8)

    def finish(self, rows):
        known = np.arange(len(self.weights))[:, None] < self.old
        self.score = np.where(known, (self.score + self.path) / 2, self.path)
        self.importance = self.fisher / self.fisher.max() + self.score / self.score.max()


class ER(Head):
    """A reservoir: of n images that were offered, each is there with the same probability."""
    draws, offered = 1, 0

    def stepped(self, batch, slope, moved, last_pass):
        for i, kept in enumerate(batch if last_pass else []):
            self.offered += 1
            kept.stored, kept.stored_view = self.shown_scores[i], self.shown_views[i]
            if len(self.memory) < self.slots():
                self.memory.append(kept)
            else:
                place = self.random.below(self.offered)
                if place < self.slots():
                    self.memory[place] = kept


class DERpp(ER):
    """A draw with its labels, whose loss has a mean of its own, and another with the scores it was stored with, of the same view."""
    apart = True

    def slope(self, batch):
        slope = super().slope(batch)
        drawn = self.random.draw(self.memory, self.set["batch"])
        if drawn:
            x = self.inputs(np.array([kept.views[kept.stored_view] for kept in drawn]))
            far = x @ self.weights.T
            for row, kept in zip(far, drawn):
                row[:len(kept.stored)] -= kept.stored
                row[len(kept.stored):] = 0
            slope = slope + self.part_slope(x, 2 * self.set["lambda"] * far)
        return slope


class ICaRL(Head):
    distils, joins = "only", True

    def finish(self, rows):
        unit = np.array([row.features / np.linalg.norm(row.features) for row in rows])
        chosen = set()
        for k in range(len(rows[0].labels)):
            members, own = [i for i, row in enumerate(rows) if row.labels[k]], []
            while len(own) < min(self.of_class(), len(members)):
                mean = unit[members].mean(0)
                apart = {i: np.linalg.norm(mean - unit[own + [i]].mean(0)) for i in members if i not in own}
                own.append(min(apart, key=apart.get))
            chosen.update(own)
        self.memory += [rows[i] for i in sorted(chosen)]


class BiC(Head):
    distils, joins = "too", True

    def is_held(self, slot):
        return slot % 10 == 0

    def prepare(self, rows):
        rows, self.held = list(rows), []
        kept = sum(self.is_held(i) for i in range(len(self.memory)))
        if self.old:
            for _ in range(math.ceil(kept * len(rows[0].labels) / self.old)):
                i = int(self.random.uniform() * len(rows))
                self.held.append(rows[i])
                last = rows.pop()
                if i < len(rows):
                    rows[i] = last
        return rows

    def correction_slope(self, images, at):
        slope = np.array([at[0] - 1, at[1]])
        for kept in images:
            y = kept.targets(len(self.weights))
            s = self.scores(kept.views[None])[0]
            u = np.where(np.arange(len(s)) < self.old, s, at[0] * s + at[1])
            excess = (np.exp(u) / np.exp(u).sum() - y / y.sum())[self.old:]
            slope += [excess @ s[self.old:], excess.sum()]
        return slope

    def finish(self, rows):
        images = self.held + [kept for i, kept in enumerate(self.memory) if self.is_held(i)]
        images = [kept for kept in images if kept.labels.any()]
        at, h = np.array([1.0, 0.0]), 1e-5
        for _ in range(50):
            slope = self.correction_slope(images, at)
            curve = np.array([(self.correction_slope(images, at + e) - self.correction_slope(images, at - e)) / (2 * h)
                              for e in h * np.eye(2)])
            step = np.linalg.solve(curve, slope)
            at = at - step * 0.5 / max(0.5, np.abs(step).max())
        check(np.abs(self.correction_slope(images, at)).max() < 1e-6, "bic: NumPy's own fit has not converged")
        if at[0] > 0:
            self.weights[self.old:] *= at[0]
            self.weights[self.old:, -1] += at[1]
        chosen = set()
        for k in range(len(rows[0].labels)):
            order = self.random.shuffle(len(rows))
            chosen.update([i for i in order if rows[i].labels[k]][:self.of_class()])
        self.memory += [rows[i] for i in sorted(chosen)]


class PRS(Head):
    draws = 1

    def prepare(self, rows):
        self.seen = getattr(self, "seen", [0] * self.total)
        return rows

    def count(self, without=None):
        kept = [0] * self.total
        for i, image in enumerate(self.memory):
            for k in image.classes() if i != without else []:
                kept[k] += 1
        present = [n for n in kept if n]
        mean = sum(present) / len(present) if present else 0
        return kept, present, mean

    def enters(self, image):
        _, present, _ = self.count()
        seen = [self.seen[k] for k in image.classes()]
        weights = [math.exp(min(seen) - n) for n in seen]
        chance = sum(w * (min(1, self.slots() / len(present) / n) if n else 1) for w, n in zip(weights, seen))
        return self.random.uniform() * sum(weights) < chance

    def leaves(self):
        kept, _, mean = self.count()
        chances = [math.exp(n - max(kept)) if n else 0 for n in kept]
        left = self.random.uniform() * sum(chances)
        for k, chance in enumerate(chances):
            left -= chance
            if left < 0:
                break
        best = None
        for i, image in enumerate(self.memory):
            if k in image.classes():
                short = sum(kept[c] <= mean for c in image.classes())
                counts, present, middle = self.count(without=i)
                value = (short, sum(abs(n - middle) for n in present))
                best = min(best, (value, i)) if best else (value, i)
        return best[1]

    def finish(self, rows):
        for row in [rows[i] for i in self.random.shuffle(len(rows))]:
            if len(self.memory) < self.slots():
                self.memory.append(row)
            elif self.enters(row):
                self.memory[self.leaves()] = row
            for k in row.classes():
                self.seen[k] += 1


class OCDM(Head):
    draws = 1

    def divergence(self, without):
        """Of the labels kept from the uniform distribution, less a constant."""
        kept = [0] * len(self.weights)
        for i, image in enumerate(self.memory):
            for k in image.classes() if i != without else []:
                kept[k] += 1
        total = sum(kept)
        return sum(n / total * math.log(n / total) for n in kept if n)

    def finish(self, rows):
        for row in [rows[i] for i in self.random.shuffle(len(rows))]:
            self.memory.append(row)
            if len(self.memory) > self.slots():
                values = [self.divergence(i) for i in range(len(self.memory))]
                out = next(i for i, value in enumerate(values) if value < min(values) + 1e-12)
                last = self.memory.pop()
                if out < len(self.memory):
                    self.memory[out] = last


METHODS = {"finetune": Head, "joint-sgd": Head, "lwf": LwF, "ewc": EWC, "oewc": OEWC, "rwalk": RWalk, "er": ER, "der++": DERpp, "icarl": ICaRL,
           "bic": BiC, "prs": PRS, "ocdm": OCDM}
