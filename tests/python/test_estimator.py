"""The estimators: the same numbers as the command's to the last bit, every form of features and labels, and scikit-learn's own rules."""
import copy
import csv
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

import support

support.need("numpy", "sklearn", "scipy", "joblib")
import joblib
import numpy
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import l3a

warnings.simplefilter("ignore", l3a.L3AWarning)
SMALL = {"dim": 64, "gamma": 10, "threads": 1}


def run(*arguments, **more):
    return subprocess.run([str(a) for a in arguments], check=True, text=True, capture_output=True, **more).stdout


class WithFeatures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.held.name)
        run("/usr/bin/python3", support.SOURCE / "tests/cli/make_features.py", cls.folder, "--odd-names")
        cls.names = (cls.folder / "names.txt").read_text().splitlines()
        cls.order = sorted(cls.names)
        columns = [cls.names.index(name) for name in cls.order]
        cls.X, cls.Y = numpy.load(cls.folder / "train.npy"), numpy.load(cls.folder / "train_labels.npy")[:, columns]
        cls.X_test, cls.Y_test = numpy.load(cls.folder / "test.npy"), numpy.load(cls.folder / "test_labels.npy")[:, columns]

    @classmethod
    def tearDownClass(cls):
        cls.held.cleanup()

    def learned(self, **settings):
        return l3a.L3AClassifier(**{**SMALL, **settings}).fit(self.X, self.Y, classes=self.order)


class AsTheCommand(WithFeatures):
    def command(self, method, protocol, *more):
        folder = self.folder / f"run-{method}-{protocol}"
        if not folder.exists():
            run(support.COMMAND, "run", "--train", self.folder / "train.safetensors", "--test", self.folder / "test.safetensors",
                "--protocol", protocol, "--method", method, "--dim", 64, "--threads", 1, "--quiet", "-o", folder, *more)
        with open(folder / "metrics.csv") as file:
            return folder / "model.safetensors", list(csv.DictReader(file))

    def check_phase(self, model, row):
        found = model.evaluate(self.X_test, self.Y_test, classes=self.order)
        for column, field in (("mAP", "mean_ap"), ("CP", "class_precision"), ("CR", "class_recall"), ("CF1", "class_f1"),
                              ("OP", "overall_precision"), ("OR", "overall_recall"), ("OF1", "overall_f1")):
            self.assertEqual(float(row[column]), getattr(found, field), column)
        self.assertEqual(int(row["pseudo_labels"]), model.phases_[-1].pseudo_labels)

    def test_phases_are_those_of_run(self):
        for method, settings in (("l3a", {"gamma": 10}), ("l3a+", {}), ("acil", {"gamma": 10})):
            with self.subTest(method):
                given = [f"--{name}={value}" for name, value in settings.items()]
                path, rows = self.command(method, "B0-C2", *given)
                model = l3a.L3AClassifier(method, dim=64, threads=1, **settings)
                for t, row in enumerate(rows):
                    columns = slice(2 * t, 2 * t + 2)
                    model.partial_fit(self.X, self.Y[:, columns], classes=self.order[columns])
                    self.check_phase(model, row)
                model.save(self.folder / "python.safetensors")
                (ours, ours_said), (theirs, theirs_said) = support.tensors(self.folder / "python.safetensors"), support.tensors(path)
                self.assertEqual(set(ours), set(theirs))
                self.assertEqual([name for name in ours if ours[name] != theirs[name]], [])
                for name in ("classes", "phases", "parts", "gamma", "alpha", "record.method"):
                    self.assertEqual(ours_said.get(name), theirs_said.get(name), name)

    def test_joint_is_that_of_run(self):
        path, rows = self.command("joint", "B0-C2", "--gamma=10")
        model = l3a.JointRidge(**SMALL).fit(self.X, self.Y, classes=self.order)
        self.check_phase(model, rows[-1])
        model.save(self.folder / "python.safetensors")
        self.assertTrue(support.tensors(self.folder / "python.safetensors")[0] == support.tensors(path)[0])
        self.assertEqual(support.tensors(self.folder / "python.safetensors")[1]["record.method"], "joint")
        self.assertFalse(hasattr(model, "partial_fit"))

    def test_models_of_the_command_can_be_loaded(self):
        path, _ = self.command("l3a", "B0-C2", "--gamma=10")
        model = l3a.L3AClassifier.load(path, threads=1)
        self.assertEqual(model.classes_.tolist(), self.order)
        self.assertEqual((model.dim, model.gamma), (64, 10))
        said = run(support.COMMAND, "predict", path, "--features", self.folder / "test.safetensors", "--top", 6, "--format", "csv",
                   "--threads", 1)
        scores = model.decision_function(self.X_test)
        for row in csv.DictReader(said.splitlines()):
            self.assertEqual(row["score"], "%.4f" % scores[int(row["id"]), self.order.index(row["class"])])

    def test_a_feature_file_is_read_as_the_command_reads_it(self):
        arrays, files = l3a.L3AClassifier(**SMALL), l3a.L3AClassifier(**SMALL)
        for first in (0, 2, 4):
            names = self.order[first:first + 2]
            arrays.partial_fit(self.X, self.Y[:, first:first + 2], classes=names)
            files.partial_fit(self.folder / "train.safetensors", classes=names)
        self.assertTrue((arrays.scores(self.X_test) == files.scores(self.folder / "test.safetensors")).all())
        self.assertEqual(arrays.evaluate(self.X_test, self.Y_test), files.evaluate(self.folder / "test.safetensors"))


class WithDlpack:
    """Another library's array in the processor's memory."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **more):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


class OnDevice(WithDlpack):
    """The same in a GPU's memory, which only the other library can read."""

    def __dlpack__(self, **more):
        raise RuntimeError("the memory of a GPU was read")

    def __dlpack_device__(self):
        return (2, 0)

    def cpu(self):
        return WithDlpack(self.array)


class Views(unittest.TestCase):
    def test_an_image_can_have_several_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            run("/usr/bin/python3", support.SOURCE / "tests/cli/make_features.py", folder, "--views", 5)
            run(support.COMMAND, "run", "--train", f"{folder}/train.safetensors", "--test", f"{folder}/test.safetensors", "--protocol",
                "B0-C6", "--dim", 64, "--threads", 1, "--quiet", "-o", f"{folder}/run")
            X, Y = numpy.load(f"{folder}/train.npy"), numpy.load(f"{folder}/train_labels.npy")
            names = Path(f"{folder}/names.txt").read_text().splitlines()
            model = l3a.L3AClassifier(dim=64, threads=1).fit(X, Y[:, ::-1], classes=names[::-1])
            model.save(f"{folder}/python.safetensors")
            self.assertTrue(support.tensors(f"{folder}/python.safetensors")[0] == support.tensors(f"{folder}/run/model.safetensors")[0])
            self.assertEqual(model.scores(X[:3]).shape, (3, 6))
            with self.assertRaisesRegex(ValueError, "1 rows of features, but the model takes 6"):
                model.scores(X[:3, 0])


class Forms(WithFeatures):
    def test_features(self):
        expected = self.learned().scores(self.X_test)
        wide = self.X.astype(numpy.float64)
        numpy.save(self.folder / "own.npy", self.X)
        numpy.savez(self.folder / "own.npz", features=self.X, labels=self.Y, classes=self.order)
        forms = {"float64": wide, "Fortran order": numpy.asfortranarray(self.X), "every second row": numpy.repeat(self.X, 2, 0)[::2],
                 "list": wide.tolist(), "sparse": scipy.sparse.csr_matrix(self.X), "npy": self.folder / "own.npy",
                 "memory map": numpy.load(self.folder / "own.npy", mmap_mode="r")}
        if support.has("pandas"):
            import pandas
            forms["pandas"] = pandas.DataFrame(self.X, columns=[f"f{i}" for i in range(self.X.shape[1])])
        if support.has("torch"):
            import torch
            forms["torch"] = torch.from_numpy(self.X)
            forms["torch with gradients"] = torch.from_numpy(self.X).clone().requires_grad_()
        forms["dlpack"], forms["on a device"] = WithDlpack(self.X), OnDevice(self.X)
        scipy.sparse.save_npz(self.folder / "sparse.npz", scipy.sparse.csr_matrix(self.X))
        forms["sparse npz"] = self.folder / "sparse.npz"
        for name, form in forms.items():
            with self.subTest(name):
                model = l3a.L3AClassifier(**SMALL).fit(form, self.Y, classes=self.order)
                self.assertTrue((numpy.asarray(model.scores(self.X_test)) == expected).all())
                self.assertTrue((model.scores(form)[:5] == model.scores(self.X)[:5]).all())
        model = l3a.L3AClassifier(**SMALL).fit(self.folder / "own.npz")
        self.assertEqual(model.classes_.tolist(), self.order)
        self.assertTrue((model.scores(self.X_test) == expected).all())

    def test_memory_is_shared_where_it_can_be(self):
        from l3a._array import feature_rows
        self.assertIs(feature_rows(self.X), self.X)
        self.assertTrue(numpy.shares_memory(feature_rows(WithDlpack(self.X)), self.X))
        self.assertTrue(numpy.shares_memory(feature_rows(OnDevice(self.X)), self.X))
        self.assertFalse(numpy.shares_memory(feature_rows(self.X[:, ::2]), self.X))

    def test_columns_of_a_data_frame(self):
        if not support.has("pandas"):
            return
        import pandas
        labels = pandas.DataFrame(self.Y, columns=self.order)
        model, expected = l3a.L3AClassifier(**SMALL), l3a.L3AClassifier(**SMALL)
        for first in (0, 2, 4):
            names = self.order[first:first + 2]
            model.partial_fit(self.X, labels, classes=names)
            expected.partial_fit(self.X, self.Y[:, first:first + 2], classes=names)
        self.assertTrue((model.scores(self.X_test) == expected.scores(self.X_test)).all())
        with self.assertRaisesRegex(ValueError, "no column 'zebra'"):
            model.partial_fit(self.X, labels, classes=["zebra"])

    def test_batches_of_known_classes(self):
        """As other estimators are used: all classes at once, and images in batches."""
        draw = numpy.random.default_rng(0)
        y = draw.integers(0, 5, 1000)
        X = (numpy.eye(5, 20)[y] * 3 + draw.normal(size=(1000, 20))).astype(numpy.float32)
        model = l3a.L3AClassifier(method="acil", dim=128, gamma=1, threads=1, precision="double", privacy_limit=0)
        for i in range(0, 1000, 100):
            model.partial_fit(X[i:i + 100], y[i:i + 100], classes=numpy.arange(5))
        whole = l3a.L3AClassifier(method="acil", dim=128, gamma=1, threads=1, precision="double").fit(X, y)
        self.assertTrue(numpy.allclose(model.scores(X), whole.scores(X), atol=1e-5))
        self.assertGreater(model.score(X, y), 0.9)

    def test_labels(self):
        expected = self.learned().scores(self.X_test)
        sets = [{self.order[k] for k in numpy.flatnonzero(row)} for row in self.Y]
        binarizer = MultiLabelBinarizer()
        forms = {"sets": (sets, None), "lists": ([sorted(s) for s in sets], None), "tuples": ([tuple(s) for s in sets], self.order),
                 "MultiLabelBinarizer": (binarizer.fit_transform(sets), binarizer.classes_), "bool": (self.Y.astype(bool), self.order),
                 "float": (self.Y.astype(float), self.order), "sparse": (scipy.sparse.csr_matrix(self.Y), self.order),
                 "list of rows": (self.Y.tolist(), self.order)}
        if support.has("pandas"):
            import pandas
            forms["pandas"] = pandas.DataFrame(self.Y, columns=self.order), None
        for name, (form, classes) in forms.items():
            with self.subTest(name):
                model = l3a.L3AClassifier(**SMALL).fit(self.X, form, classes=classes)
                self.assertEqual(model.classes_.tolist(), self.order)
                self.assertTrue((model.scores(self.X_test) == expected).all())
                self.assertEqual(model.evaluate(self.X, form).images, len(self.X))

    def test_sets_in_a_series_or_an_iterator(self):
        sets = [{name for name, shown in zip(self.order, row) if shown} for row in self.Y]
        expected = self.learned().scores(self.X_test)
        forms = [sets, iter(sets)]
        if support.has("pandas"):
            import pandas
            forms += [pandas.Series(sets), pandas.Series([sorted(each) for each in sets], index=range(9, 9 + len(sets)))]
        for given in forms:
            model = l3a.L3AClassifier(**SMALL).fit(self.X, given, classes=self.order)
            self.assertTrue((model.scores(self.X_test) == expected).all())
        with self.assertRaisesRegex(ValueError, "not a text"):
            l3a.L3AClassifier(**SMALL).fit(self.X, sets, classes="cat")

    def test_one_class_for_each_image(self):
        names = numpy.array(["bee", "ant", "cat"])
        draw = numpy.random.default_rng(3)
        y = draw.integers(0, 3, 300)
        X = (numpy.eye(3, 8)[y] * 3 + draw.normal(size=(300, 8))).astype(numpy.float32)
        model = l3a.L3AClassifier(dim=128, gamma=1, threads=1).fit(X, names[y])
        self.assertEqual(model.classes_.tolist(), ["ant", "bee", "cat"])
        self.assertGreater(model.score(X, names[y]), 0.9)
        self.assertEqual(model.predict(X).dtype.kind, "U")
        self.assertTrue(numpy.allclose(model.predict_proba(X).sum(axis=1), 1))
        self.assertTrue((model.predict_proba(X).argmax(axis=1) == model.scores(X).argmax(axis=1)).all())
        model.save(self.folder / "single.safetensors")
        again = l3a.L3AClassifier.load(self.folder / "single.safetensors", threads=1)
        self.assertTrue((again.predict(X) == model.predict(X)).all())
        phases = l3a.L3AClassifier(dim=128, gamma=1, threads=1)
        for first in (("ant", "bee"), ("cat",)):
            phases.partial_fit(X, names[y], classes=first)
        self.assertEqual(phases.classes_.tolist(), ["ant", "bee", "cat"])
        self.assertGreater(phases.score(X, names[y]), 0.9)

    def test_predictions_are_scores_above_thresholds(self):
        model = self.learned(method="l3a+")
        scores, found = model.decision_function(self.X_test), model.predict(self.X_test)
        self.assertTrue((found == (scores.astype(float) > model.thresholds_)).all())
        self.assertTrue(numpy.allclose(model.predict_proba(self.X_test), 1 / (1 + numpy.exp(-scores.astype(float)))))
        self.assertAlmostEqual(model.score(self.X_test, self.Y_test), model.evaluate(self.X_test, self.Y_test).mean_ap / 100)

    def test_results_can_go_to_an_array_of_the_caller(self):
        model, out = self.learned(), numpy.empty((len(self.X_test), 6), dtype=numpy.float32)
        self.assertIs(model.scores(self.X_test, out=out), out)
        self.assertTrue((out == model.scores(self.X_test)).all())
        with self.assertRaisesRegex(ValueError, "float32 array of shape"):
            model.scores(self.X_test, out=numpy.empty((1, 6)))
        out.setflags(write=False)
        for bad in (out, out[:-1], out.tolist()):
            with self.assertRaisesRegex(ValueError, "out must be"):
                model.scores(self.X_test, out=bad)


class Settings(WithFeatures):
    def test_values_of_every_type(self):
        """As Python, NumPy and a search of scikit-learn give them."""
        for given, value in ((64, 64), (64.0, 64), (numpy.int32(64), 64), (numpy.float32(64), 64), ("64", 64)):
            self.assertEqual(self.learned(dim=given).settings_["dim"], value)
        for given, value in ((True, "on"), (numpy.bool_(False), "off"), ("on", "on")):
            self.assertEqual(self.learned(skip_features=given).settings_["skip-features"], value)
        self.assertEqual(self.learned(weights=numpy.array(["log"])[0]).settings_["weights"], "log")
        self.assertEqual(self.learned(seed=numpy.int64(2 ** 53)).settings_["seed"], 2 ** 53)
        with self.assertRaisesRegex(l3a.Error, "dim: 'nan' is not allowed"):
            self.learned(dim=float("nan"))
        with self.assertRaisesRegex(l3a.Error, "threads is -1"):
            self.learned(threads=-1)

    def test_a_loaded_model_knows_its_method(self):
        for method in ("l3a", "l3a+", "acil"):
            self.learned(method=method).save(self.folder / "method.safetensors")
            self.assertEqual(l3a.L3AClassifier.load(self.folder / "method.safetensors").method, method)


class Errors(WithFeatures):
    def test_say_what_is_wrong(self):
        bad = self.X.copy()
        bad[3, 2] = numpy.nan
        model = self.learned()
        cases = {
            "X has 5 features, but L3AClassifier is expecting 24": lambda: model.predict(self.X[:, :5]),
            "row 3, column 2: the feature is not a number": lambda: model.predict(bad),
            "row 3, column 2.*not a number": lambda: self.learned().fit(bad, self.Y),
            "inconsistent numbers of samples": lambda: self.learned().fit(self.X, self.Y[:9]),
            "labels must be 1": lambda: self.learned().fit(self.X, self.Y * 2),
            "2 classes are listed, but the labels have 6": lambda: self.learned().fit(self.X, self.Y, classes=["a", "b"]),
            "listed twice": lambda: self.learned().fit(self.X, self.Y, classes=["a"] * 6),
            "already learned these images": lambda: self.learned().partial_fit(self.X, self.Y, classes=self.order),
            "gamma": lambda: self.learned(gamma=-1),
            "use one of l3a": lambda: self.learned(method="joint-sgd"),
            "Expected 2D array": lambda: model.predict(self.X[0]),
            "no array 'features'": lambda: self.npz_without_features(),
        }
        for text, call in cases.items():
            with self.subTest(text), self.assertRaisesRegex((l3a.Error, ValueError), text):
                call()
        with self.assertRaises(FileNotFoundError):
            model.predict(self.folder / "nothing.safetensors")

    def npz_without_features(self):
        numpy.savez(self.folder / "bad.npz", other=self.X)
        l3a.L3AClassifier().fit(self.folder / "bad.npz")

    def test_a_failure_leaves_the_model_as_it_was(self):
        model = self.learned()
        before = model.scores(self.X_test)
        bad = self.X.copy()
        bad[-1, 0] = numpy.inf
        with self.assertRaises(ValueError):
            model.partial_fit(bad, self.Y[:, :1], classes=["new"])
        self.assertEqual(model.classes_.tolist(), self.order)
        self.assertTrue((model.scores(self.X_test) == before).all())
        model.partial_fit(self.X, self.Y[:, :1], classes=["new"])

    def test_an_exception_after_learning_leaves_the_classes_of_the_model(self):
        """A warning comes when the phase is learned. If it is an error, scores must have room for the new classes all the same."""
        model = self.learned()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(l3a.L3AWarning):
                model.partial_fit(self.X[:20], numpy.ones((20, 3)), classes=["one", "two", "three"])
        self.assertEqual(model.scores(self.X_test).shape[1], len(model.classes_))
        self.assertEqual(len(model.thresholds_), len(model.classes_))
        self.assertEqual(len(model.phases_[-1].classes), 3)

    def test_nothing_is_learned_yet(self):
        from sklearn.exceptions import NotFittedError
        for call in (lambda m: m.predict(self.X), lambda m: m.save("x"), lambda m: m.thresholds_):
            with self.assertRaises(NotFittedError):
                call(l3a.L3AClassifier())


class ScikitLearn(WithFeatures):
    def test_check_estimator(self):
        for estimator in (l3a.L3AClassifier(dim=64, gamma=1, privacy_limit=0, threads=1),
                          l3a.JointRidge(dim=64, gamma=1, privacy_limit=0, threads=1)):
            skipped = set()
            for instance, check in check_estimator(estimator, generate_only=True):
                name = getattr(check, "func", check).__name__
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        check(instance)
                    except unittest.SkipTest as reason:
                        if "Skipping check" in str(reason):
                            skipped.add(name)
            self.assertEqual(skipped, set(estimator._expected_failures))

    def test_expected_failures_fail(self):
        from sklearn.utils import estimator_checks
        for name in l3a.L3AClassifier._expected_failures:
            with warnings.catch_warnings(), self.assertRaises(Exception):
                warnings.simplefilter("ignore")
                getattr(estimator_checks, name)("L3AClassifier", l3a.L3AClassifier(dim=64, gamma=1, threads=1))

    def test_clone_and_parameters(self):
        model = self.learned(method="l3a+", theta=0.6)
        again = clone(model)
        self.assertEqual(again.get_params(), model.get_params())
        self.assertFalse(again.__sklearn_is_fitted__())
        self.assertEqual(set(l3a.L3AClassifier().get_params()) - set(l3a.JointRidge().get_params()),
                         {"method", "pseudo", "eta", "tau", "total_classes", "pseudo_from", "alpha", "lift", "keep_phases", "gamma_from"})
        self.assertEqual(again.set_params(dim=32).dim, 32)
        self.assertIn("theta=0.6", repr(model))

    def test_a_pickle_is_the_same_model(self):
        model = self.learned(method="l3a+")
        expected = model.scores(self.X_test)
        joblib.dump(model, self.folder / "model.joblib")
        for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), joblib.load(self.folder / "model.joblib")):
            self.assertTrue((again.scores(self.X_test) == expected).all())
            self.assertEqual(again.classes_.tolist(), self.order)
            again.partial_fit(self.X, self.Y[:, :1], classes=["another"])  # and it goes on learning
        self.assertEqual(pickle.loads(pickle.dumps(l3a.L3AClassifier(dim=9))).get_params()["dim"], 9)

    def test_a_pickle_is_made_on_disk_if_memory_has_no_room(self):
        from l3a import _estimator
        model, before = self.learned(), _estimator._folders
        try:
            _estimator._folders = lambda: ["/proc/there/is/no/room", None]
            again = pickle.loads(pickle.dumps(model))
            self.assertTrue((again.scores(self.X_test) == model.scores(self.X_test)).all())
            _estimator._folders = lambda: ["/proc/there/is/no/room"]
            with self.assertRaises(OSError):
                pickle.dumps(model)
        finally:
            _estimator._folders = before

    def test_in_a_pipeline_and_a_grid_search(self):
        search = GridSearchCV(make_pipeline(StandardScaler(), l3a.L3AClassifier(dim=32, threads=1, privacy_limit=0)),
                              {"l3aclassifier__gamma": [1.0, 100.0], "l3aclassifier__method": ["l3a", "acil"]}, cv=2)
        search.fit(self.X, self.Y)
        self.assertGreater(search.best_score_, 0.9)
        self.assertEqual(search.predict(self.X_test).shape, self.Y_test.shape)
        parallel = GridSearchCV(l3a.JointRidge(dim=32, threads=1, privacy_limit=0), {"gamma": [1.0, 100.0]}, cv=2, n_jobs=2)
        parallel.fit(self.X, self.Y)
        self.assertGreater(parallel.best_score_, 0.9)

    def test_without_scikit_learn(self):
        program = """
import sys
sys.modules["sklearn"] = sys.modules["sklearn.base"] = None
import numpy, pickle, l3a
X = numpy.eye(8, dtype=numpy.float32).repeat(20, 0)
model = l3a.L3AClassifier(dim=32, gamma=1, threads=1, privacy_limit=0).fit(X, numpy.arange(160) // 20)
assert model.score(X, numpy.arange(160) // 20) == 1
assert (pickle.loads(pickle.dumps(model)).scores(X) == model.scores(X)).all()
assert "dim=32" in repr(model) and model.get_params()["gamma"] == 1 and model.set_params(gamma=2).gamma == 2
try:
    l3a.L3AClassifier().predict(X)
except (ValueError, AttributeError):
    print("works")
"""
        said = run(sys.executable, "-c", program, env={**os.environ, "PYTHONPATH": str(support.SOURCE / "python")})
        self.assertEqual(said, "works\n")

    def test_threads_take_turns(self):
        model, found = self.learned(), []
        expected = model.scores(self.X_test)
        threads = [threading.Thread(target=lambda: found.append((model.scores(self.X_test) == expected).all())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [True] * 4)


class Memory(unittest.TestCase):
    """Peaks of processes: learning and scoring must not make a copy of the features, which take 160 MB here."""
    PROGRAM = """
import resource, sys, numpy, warnings, l3a
warnings.simplefilter("ignore")
X = numpy.ones((80000, 500), dtype=numpy.float32)
X[:, :50] = numpy.random.default_rng(1).normal(size=(80000, 50))
Y = (X[:, :1] > 0).astype(numpy.int8)
if sys.argv[1] == "torch":
    import torch
    X = torch.from_numpy(X)
model = l3a.L3AClassifier(dim=8, threads=1, block=256)
model.fit(X[:500], Y[:500], classes=["one"])
model.scores(X[:500])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
model.fit(X if sys.argv[1] != "float64" else X.astype(numpy.float64), Y, classes=["one"])
scores = model.scores(X)
print(peak() - before)
"""

    def grown(self, kind):
        said = run(sys.executable, "-c", self.PROGRAM, kind, env={**os.environ, "PYTHONPATH": str(support.SOURCE / "python")})
        return int(said.splitlines()[-1])

    def test_features_are_not_copied(self):
        self.assertLess(self.grown("numpy"), 40)
        self.assertGreater(self.grown("float64"), 150)  # so the test would see a copy

    def test_tensors_are_not_copied(self):
        if support.has("torch"):
            self.assertLess(self.grown("torch"), 40)


unittest.main()
