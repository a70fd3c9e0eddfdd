"""Methods of one's own, as objects of Python, beside those of the library: the same phases, numbers and folders."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import support

support.need("numpy")
import numpy

import l3a

if os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"
WORK = Path(tempfile.mkdtemp())
TRAIN, TEST = str(WORK / "train.safetensors"), str(WORK / "test.safetensors")
GIVEN = {"dim": 64, "threads": 1, "progress": False}


def setUpModule():
    subprocess.run([sys.executable, support.SOURCE / "tests/cli/make_features.py", "--rows", "500", "--test-rows", "160", "--width", "12",
                    "--classes", "8", WORK], check=True)


def tearDownModule():
    shutil.rmtree(WORK)


def rows_of(run, method):
    """What was measured, without names and times."""
    return [{key: value for key, value in row.items() if key not in ("method", "seconds", "peak_memory", "pseudo_labels", "stages")}
            for row in plain(run.metrics) if row["method"] == method]


def plain(table):
    return table.to_dict("records") if hasattr(table, "to_dict") else list(table)


def run(methods, **settings):
    """A run whose warnings are collected."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = l3a.run(TRAIN, TEST, "B0-C2", methods, **{**GIVEN, **settings})
    return made, [str(warning.message) for warning in caught if "dim 64 has no effect" not in str(warning.message)]


class Wrapped:
    """l3a itself, through the estimator."""
    name = "wrapped"

    def __init__(self, dim=64):
        self.dim = dim
        self.parameters = {"dim": dim}

    def begin(self, seed):
        self.model = l3a.L3AClassifier(dim=self.dim, seed=seed, threads=1, total_classes=8)

    def learn(self, features, labels, classes):
        self.model.partial_fit(features, labels, classes)

    def scores(self, features):
        return self.model.scores(features)


class Ridge:
    """Ridge regression on the features, which is all in its arrays."""
    name = "ridge"
    parameters = {"gamma": 1.0}

    def __init__(self):
        self.A, self.C, self.phases = None, None, 0

    def learn(self, features, labels, classes):
        X, Y = features.astype(float), numpy.maximum(labels, 0)
        before = numpy.zeros((X.shape[1], 0)) if self.C is None else self.C
        self.A = (numpy.eye(X.shape[1]) if self.A is None else self.A) + X.T @ X
        self.C = numpy.hstack([before, X.T @ Y])
        self.phases += 1

    def scores(self, features):
        return features @ numpy.linalg.solve(self.A, self.C)


class Saved(Ridge):
    name = "saved"

    def save(self):
        return {"A": self.A, "C": self.C, "phases": self.phases}

    def load(self, arrays):
        self.A, self.C, self.phases = arrays["A"], arrays["C"], int(arrays["phases"])


class Breaks(Saved):
    """Fails in a phase."""
    name = "saved"

    def __init__(self, phase, how):
        super().__init__()
        self.phase, self.how = phase, how

    def learn(self, features, labels, classes):
        if self.phases + 1 == self.phase:
            self.how()
        super().learn(features, labels, classes)


class Blocks:
    name = "blocks"

    def __init__(self):
        self.whole, self.parts, self.most = Ridge(), [], 0

    def learn_block(self, features, labels, classes):
        self.parts.append((features, labels, classes))
        self.most = max(self.most, len(features))

    def end_phase(self):
        assert self.most <= 100
        rows, labels, classes = zip(*self.parts)
        self.whole.learn(numpy.concatenate(rows), numpy.concatenate(labels), classes[0])
        self.parts = []

    def scores(self, features):
        return self.whole.scores(features)


def stop(error):
    raise error


class Results(unittest.TestCase):
    def test_same_bits_as_the_library(self):
        made, said = run(["l3a", Wrapped()], seeds=[1, 2], class_order="shuffle:1,shuffle:2")
        self.assertEqual(said, [])
        self.assertEqual(made.methods, ["l3a", "wrapped"])
        self.assertEqual(len(rows_of(made, "l3a")), 2 * 2 * 4)
        self.assertEqual(rows_of(made, "wrapped"), rows_of(made, "l3a"))
        self.assertTrue(made.finished)
        self.assertEqual(made.failures, {})
        self.assertIn("wrapped", made.report())
        self.assertIn("wrapped", made.to_markdown())
        self.assertEqual(made.command, "")
        self.assertEqual(made.record["run"]["own"], {"wrapped": '{"dim": 64}'})

    def test_blocks_and_phases_at_once_are_the_same(self):
        made, said = run([Ridge(), Blocks()], block=100)
        self.assertEqual(said, [])
        self.assertEqual(rows_of(made, "blocks"), rows_of(made, "ridge"))

    def test_what_a_method_sees(self):
        seen = []

        class Curious(Ridge):
            def __deepcopy__(self, memo):
                return Curious()

            def learn(self, features, labels, classes):
                seen.append((features, labels, classes))
                super().learn(features, labels, classes)

        features, labels = numpy.load(WORK / "train.npy"), numpy.load(WORK / "train_labels.npy")
        names = (WORK / "names.txt").read_text().split("\n")[:8]
        run(Curious())
        order = sorted(names)
        self.assertEqual(len(seen), 4)
        for t, (rows, own, classes) in enumerate(seen):  # kept, and still there
            self.assertEqual(classes, order[2 * t:2 * t + 2])
            columns = [names.index(name) for name in classes]
            members = (labels[:, columns] == 1).any(axis=1)
            numpy.testing.assert_array_equal(rows, features[members])
            numpy.testing.assert_array_equal(own, labels[members][:, columns])
            self.assertFalse(rows.flags.writeable or own.flags.writeable)

    def test_features_that_a_method_keeps(self):
        kept = []

        class Hoarder(Ridge):
            name = "hoarder"

            def scores(self, features):
                kept.append((features, features.copy()))
                return super().scores(features)

        made, _ = run([Hoarder(), Ridge()])
        self.assertEqual(rows_of(made, "hoarder"), rows_of(made, "ridge"))
        self.assertGreater(len(kept), 3)
        for features, copy in kept:
            numpy.testing.assert_array_equal(features, copy)

    def test_thresholds_and_a_bound(self):
        class Bold(Ridge):
            name = "bold"
            at_once = True

            def thresholds(self):
                return -100

        class Careful(Ridge):
            name = "careful"

            def thresholds(self):
                return numpy.full(self.C.shape[1], numpy.inf)

        made, said = run([Bold(), Careful()])
        self.assertEqual(said, [])
        bold, careful = rows_of(made, "bold"), rows_of(made, "careful")
        self.assertEqual((len(bold), len(careful)), (1, 4))
        self.assertEqual([row["CR"] if "CR" in row else 100 for row in bold], [100])
        self.assertEqual({row["CF1"] for row in careful}, {0})
        self.assertIn("its own", made.to_markdown())

    def test_the_example_in_c(self):
        class Means(Ridge):
            name = "means"

            def learn(self, features, labels, classes):
                rows = features.astype(float)
                sums, counts = (labels == 1).T @ rows, (labels == 1).sum(axis=0)
                if self.A is None:
                    self.A, self.C = (sums, counts), (rows.sum(axis=0), len(rows))
                else:
                    self.A = (numpy.vstack([self.A[0], sums]), numpy.concatenate([self.A[1], counts]))
                    self.C = (self.C[0] + rows.sum(axis=0), self.C[1] + len(rows))

            def scores(self, features):
                means, all_images = self.A[0] / self.A[1][:, None], self.C[0] / self.C[1]
                away = ((features - all_images) ** 2).sum(axis=1)[:, None]
                return away - ((features[:, None] - means) ** 2).sum(axis=2)

        done = subprocess.run([support.BUILD / "examples/method", TRAIN, TEST, "B0-C2", WORK / "example"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        made, _ = run(Means())
        said = [line for line in done.stdout.split("\n") if line.startswith("means")]
        self.assertEqual(said, [f"means  phase {row['phase']}: mAP {row['mAP']:.2f}" for row in rows_of(made, "means")])
        again = subprocess.run([support.BUILD / "examples/method", TRAIN, TEST, "B0-C2", WORK / "example"], capture_output=True, text=True)
        self.assertEqual(again.stdout, done.stdout)

    def test_in_a_sweep(self):
        made = l3a.sweep(TRAIN, TEST, "B0-C2", ["l3a", Ridge()], gamma=[1, 10], **GIVEN)
        rows = plain(made.summary())
        self.assertEqual([(row["method"], row["gamma"]) for row in rows], [("l3a", "1"), ("l3a", "10"), ("ridge", "-")])

    def test_views(self):
        folder = WORK / "views"
        folder.mkdir()
        subprocess.run([sys.executable, support.SOURCE / "tests/cli/make_features.py", "--rows", "80", "--test-rows", "40", "--width", "6",
                        "--classes", "4", "--views", "5", folder], check=True)

        class Mean(Ridge):
            def learn(self, features, labels, classes):
                assert features.shape[1:] == (6, 6)
                super().learn(features.mean(axis=1), labels, classes)

            def scores(self, features):
                return super().scores(features.mean(axis=1))

        made = l3a.run(folder / "train.safetensors", folder / "test.safetensors", "B0-C2", Mean(), threads=1, progress=False)
        self.assertEqual(len(rows_of(made, "ridge")), 2)


class Failures(unittest.TestCase):
    def fails(self, method, phase, text, seeds=1):
        """The method ends in that phase, and the other one goes on."""
        made, said = run([method, "l3a"], seeds=seeds)
        self.assertEqual(len(rows_of(made, "l3a")), 4)
        self.assertEqual(len(rows_of(made, method.name)), phase - 1)
        self.assertEqual(list(made.failures), [method.name])
        self.assertEqual(len(said), 1)
        self.assertTrue(said[0].startswith(f"method '{method.name}', seed 1, phase {phase} of 4: "), said[0])
        self.assertIn(text, said[0])
        self.assertFalse(made.finished)
        made.report()
        return made.failures[method.name]

    def test_an_exception(self):
        raised = self.fails(Breaks(3, lambda: stop(ZeroDivisionError("oh"))), 3, "learn: ZeroDivisionError: oh")
        self.assertIsInstance(raised, ZeroDivisionError)
        self.assertIsNotNone(raised.__traceback__)

    def test_the_first_failure_ends_the_method(self):
        made, said = run([Breaks(2, lambda: stop(OSError("no"))), "l3a"], seeds=[1, 2])
        self.assertEqual((len(rows_of(made, "saved")), len(rows_of(made, "l3a")), len(said)), (1, 8, 1))

    def test_ctrl_c(self):
        raised = self.fails(Breaks(2, lambda: (os.kill(os.getpid(), signal.SIGINT), sum(range(10**7)))), 2, "KeyboardInterrupt")
        self.assertIsInstance(raised, KeyboardInterrupt)

    def test_scores(self):
        for made, text in ((lambda rows, all: numpy.full((rows, all), numpy.nan), "a score of class 0 is NaN"),
                           (lambda rows, all: numpy.zeros((rows, all + 1)), "is needed"),
                           (lambda rows, all: None, "is needed"), (lambda rows, all: [["a"] * all] * rows, "ValueError")):
            class Odd(Ridge):
                name = "odd"

                def __deepcopy__(self, memo, made=made):
                    other = Odd()
                    other.made = made
                    return other

                def scores(self, features):
                    return self.made(len(features), self.C.shape[1])
            self.fails(Odd(), 1, text)

    def test_thresholds(self):
        for value, text in ((numpy.nan, "NaN"), ([0, 0, 0], "shape (3,), but (2,) is needed")):
            class Odd(Ridge):
                name = "odd"
                given = value

                def thresholds(self):
                    return self.given
            self.fails(Odd(), 1, text)

    def test_save(self):
        for saved, text in (({"a": numpy.array(["text"])}, "type <U4"), ({"a b": numpy.zeros(2)}, "a b"), (5, "TypeError")):
            class Odd(Saved):
                name = "odd"
                given = saved

                def save(self):
                    return self.given
            made, said = run([Odd(), "l3a"])
            self.assertEqual(len(rows_of(made, "l3a")), 4)
            self.assertIn(text, said[0])

    def test_several_points_of_a_sweep(self):
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            made = l3a.sweep(TRAIN, TEST, "B0-C2", ["l3a", Breaks(2, lambda: stop(OSError("no")))], theta=[0.5, 0.6], **GIVEN)
        self.assertEqual(list(made.failures), ["saved"])
        self.assertEqual([row["phases"] for row in plain(made.summary())], [4, 4, 1, 1])

    def test_all_methods(self):
        with self.assertRaises(l3a.Error) as caught:
            run(Breaks(1, lambda: stop(RuntimeError("nothing works"))))
        self.assertIn("nothing works", str(caught.exception))
        self.assertIsInstance(caught.exception.__cause__, RuntimeError)

    def test_what_is_no_method(self):
        class Empty:
            pass

        class Both(Ridge):
            def learn_block(self, features, labels, classes):
                pass

        class Half(Ridge):
            def save(self):
                return {}

        class Named(Ridge):
            name = "l3a"

        class Odd(Ridge):
            name = "my method"

        for given, text in ((Ridge, "is a class"), (Empty(), "no learn"), (Both(), "both learn"), (Half(), "without the other"),
                            (Named(), "there is a method 'l3a' already"), (Odd(), "cannot be the name"),
                            ([Ridge(), Ridge()], "ridge")):
            with self.assertRaises(l3a.Error) as caught:
                run(given)
            self.assertIn(text, str(caught.exception))


class Resuming(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=WORK)) / "run"
        self.whole = rows_of(run([Saved(), "l3a"])[0], "saved")

    def resumed(self, method, **settings):
        made, said = run([method, "l3a"], out=self.folder, resume=True, **settings)
        self.assertEqual(said, [])
        return rows_of(made, method.name)

    def test_after_each_phase(self):
        for phase in (1, 2, 3, 4):
            shutil.rmtree(self.folder, ignore_errors=True)
            run([Breaks(phase, lambda: stop(OSError("gone"))), "l3a"], out=self.folder)
            learned = []

            class Counted(Saved):
                def learn(self, features, labels, classes):
                    learned.append(classes)
                    super().learn(features, labels, classes)
            self.assertEqual(self.resumed(Counted()), self.whole)
            self.assertEqual(len(learned), 5 - phase)
            self.assertEqual([path.name for path in self.folder.glob("partial*")], [])

    def test_without_save(self):
        class Forgets(Ridge):
            def __init__(self, phase):
                super().__init__()
                self.phase = phase

            def learn(self, features, labels, classes):
                if self.phases + 1 == self.phase:
                    raise OSError("gone")
                super().learn(features, labels, classes)
        run([Forgets(3), "l3a"], out=self.folder)
        self.assertEqual(self.resumed(Forgets(0)), self.whole)

    def test_other_parameters(self):
        class Other(Saved):
            parameters = {"gamma": 2.0}
        run([Breaks(3, lambda: stop(OSError("gone"))), "l3a"], out=self.folder)
        with self.assertRaises(l3a.Error) as caught:
            run([Other(), "l3a"], out=self.folder, resume=True)
        self.assertIn("gamma", str(caught.exception))

    def test_the_command_says_why_it_cannot(self):
        run([Breaks(3, lambda: stop(OSError("gone"))), "l3a"], out=self.folder)
        done = subprocess.run([support.COMMAND, "run", "--resume", "-o", self.folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("resume it with the program that began it", done.stderr)

    def test_the_command_reports(self):
        run([Saved(), "l3a"], out=self.folder)
        done = subprocess.run([support.COMMAND, "report", self.folder, "--format", "markdown"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("saved", done.stdout)


if __name__ == "__main__":
    unittest.main()
