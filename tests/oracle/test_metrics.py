"""l3a_measure and l3a_uniform of the built library, against the reference in $L3A_SHARED/reference and scikit-learn."""
import ctypes
import os
import sys
from pathlib import Path

import numpy as np

from library import Library, sized
from support import skip

SHARED = Path(os.environ.get("L3A_SHARED", Path(__file__).resolve().parents[3] / "shared"))
if not (SHARED / "reference" / "l3a_reference.py").is_file():
    skip(f"no reference/l3a_reference.py in {SHARED}")
try:
    from sklearn import metrics as sklearn_metrics
except ImportError:
    sklearn_metrics = None
sys.dont_write_bytecode = True
sys.path.insert(0, str(SHARED / "reference"))
import l3a_reference

library = Library()


def measure(scores, labels, theta):
    metrics, ap = sized("l3a_metrics"), np.zeros(scores.shape[1])
    thresholds = np.full(scores.shape[1], np.log(theta / (1 - theta)))
    library.measure(scores.ctypes.data, labels.ctypes.data, *scores.shape, thresholds.ctypes.data, ctypes.byref(metrics), ap.ctypes.data)
    return metrics, ap


def make_table(seed, rows, classes, levels):
    """With levels None no class has two equal scores. Class 0 has no positive, class 1 nothing else."""
    random = np.random.default_rng(seed)
    if levels is None:
        scores = np.stack([random.permutation(rows) for _ in range(classes)], 1) * 3.0 / rows - 1.5
    else:
        scores = random.integers(-levels, levels + 1, (rows, classes)) / levels
    labels = (random.random((rows, classes)) < 0.25).astype(np.int8)
    labels[:, 0], labels[:, 1] = 0, 1
    return np.ascontiguousarray(scores, np.float32), np.ascontiguousarray(labels)


def close(name, actual, expected, tolerance=1e-9):
    gap = np.max(np.abs(np.asarray(actual) - np.asarray(expected)))
    assert gap <= tolerance, f"{name}: {actual} instead of {expected}"


def compare_with_reference(seed, rows, classes, levels, theta):
    scores, labels = make_table(seed, rows, classes, levels)
    metrics, ap = measure(scores, labels, theta)
    expected = l3a_reference.metrics(labels, scores.astype(np.float64), theta)
    close("mAP", metrics.mean_ap, expected["mAP"])
    close("AP", ap, expected["AP"])
    close("CF1", metrics.class_f1, expected["CF1"])
    close("OF1", metrics.overall_f1, expected["OF1"])
    assert metrics.images == rows


def compare_with_sklearn(seed, rows, classes, theta):
    scores, labels = make_table(seed, rows, classes, None)
    metrics, ap = measure(scores, labels, theta)
    predicted = 1 / (1 + np.exp(-scores.astype(np.float64))) > theta
    expected = [100 * sklearn_metrics.average_precision_score(labels[:, k], scores[:, k]) for k in range(1, classes)]
    close("AP", ap, [0.0] + expected)
    for kind, names in (("macro", ("class_precision", "class_recall", "class_f1")),
                        ("micro", ("overall_precision", "overall_recall", "overall_f1"))):
        values = sklearn_metrics.precision_recall_fscore_support(labels, predicted, average=kind, zero_division=0)
        for name, value in zip(names, values):
            close(name, getattr(metrics, name), 100 * value)
        f1 = sklearn_metrics.f1_score(labels, predicted, average=kind, zero_division=0)
        close(names[2], getattr(metrics, names[2]), 100 * f1)


def compare_uniform(seed, count):
    expected = l3a_reference.splitmix_uniform(seed, count)
    assert [library.uniform(seed, i) for i in range(count)] == expected.tolist()


def cases():
    sizes = [(1, 2), (7, 3), (500, 20), (3000, 5)]
    for seed, (rows, classes) in enumerate(sizes):
        for theta in (0.525, 0.8, 0.3):
            for levels in (None, 1, 7):
                yield f"reference, {rows} x {classes}, theta {theta}, levels {levels}", lambda s=seed, r=rows, c=classes, v=levels, t=theta: (
                    compare_with_reference(s, r, c, v, t))
            if sklearn_metrics:
                yield f"scikit-learn, {rows} x {classes}, theta {theta}", lambda s=seed, r=rows, c=classes, t=theta: (
                    compare_with_sklearn(s, r, c, t))
    for seed in (0, 2025, 1234567, 2**64 - 1):
        yield f"uniform, seed {seed}", lambda s=seed: compare_uniform(s, 1000)


def main():
    passed = failed = 0
    for name, case in cases():
        try:
            case()
            passed += 1
        except AssertionError as error:
            failed += 1
            print(f"FAILED {name}: {error}")
    library.context_free(library.context)
    if not sklearn_metrics:
        print("scikit-learn is not installed: compared with the reference only")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
