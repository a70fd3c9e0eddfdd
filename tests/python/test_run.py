"""Runs and sweeps from Python: the same bits as the command's, folders that either can resume, and what is made of them."""
import contextlib
import csv
import importlib
import importlib.util
import io
import json
import os
import pickle
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import support

support.need("numpy")
import numpy

import l3a
from l3a import _plot, _table
from l3a._library import EventKind

if os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"  # every phase is synced to the disk, which takes longer than everything else
WORK = Path(tempfile.mkdtemp())
TRAIN, TEST = str(WORK / "train.safetensors"), str(WORK / "test.safetensors")
GIVEN = {"dim": 64, "threads": 1, "progress": False}


def setUpModule():
    subprocess.run([sys.executable, support.SOURCE / "tests/cli/make_features.py", "--rows", "500", "--test-rows", "160", "--width", "12",
                    "--classes", "8", "--ids", "--odd-names", WORK], check=True)
    command("run", "--method", "l3a,l3a+,joint", "--seed", "1,2", "-o", WORK / "run")
    command("sweep", "--method", "l3a,joint", "--seed", "1,2", "--gamma", "1,10,1000", "-o", WORK / "sweep")


def tearDownModule():
    shutil.rmtree(WORK)


def command(name, *arguments, dim=64):
    """What the command prints."""
    return said(name, "--train", TRAIN, "--test", TEST, "--protocol", "B0-C2", "--dim", dim, "--threads", 1, "--quiet", *arguments)


def said(*arguments):
    return subprocess.run([support.COMMAND, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def rows_of(path):
    """A table without what differs from run to run."""
    with open(path, newline="") as file:
        return [{name: text for name, text in row.items() if name not in ("seconds", "peak_memory")} for row in csv.DictReader(file)]


def without(*modules):
    """As if these were not installed."""
    return mock.patch.dict(sys.modules, {module: None for module in modules})


def skip_without(test, module):
    """The module; if it is missing, the test is skipped, and says so."""
    try:
        return importlib.import_module(module)
    except ImportError:
        print(f"skipped: the Python module {module} is missing, so {test} is not run")
        raise unittest.SkipTest(module)


def load(name):
    arrays = [numpy.load(WORK / f"{name}{end}.npy") for end in ("", "_labels")]
    return arrays[0], arrays[1]


class Runs(unittest.TestCase):
    def test_the_tables_are_the_commands_to_the_last_bit(self):
        made = l3a.run(TRAIN, TEST, "B0-C2", ["l3a", "l3a+", "joint"], [1, 2], out=WORK / "same", **GIVEN)
        for name in ("metrics.csv", "per_class.csv", "samples.csv"):
            self.assertEqual(rows_of(WORK / "same" / name), rows_of(WORK / "run" / name))
        ours, theirs = (json.loads((WORK / name / "run.json").read_text())["run"] for name in ("same", "run"))
        self.assertEqual(ours, theirs)
        self.assertTrue(made.finished)

    def test_the_folder_names_a_command_that_makes_it(self):
        made = l3a.run(TRAIN, TEST, "B0-C4", "l3a", 3, out=WORK / "a folder", class_order="shuffle:3", skip_features=True, **GIVEN)
        (WORK / "again").mkdir()
        line = made.command.replace("l3a run", f"{support.COMMAND} run --quiet", 1).replace(str(WORK / "a folder"), str(WORK / "again/it"))
        subprocess.run(line, shell=True, check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(rows_of(WORK / "again/it/metrics.csv"), rows_of(WORK / "a folder/metrics.csv"))

    def test_arrays_give_the_same_as_files(self):
        files = l3a.run(tuple(str(WORK / f"train{end}.npy") for end in ("", "_labels")),
                        tuple(str(WORK / f"test{end}.npy") for end in ("", "_labels")), "B0-C2", **GIVEN)
        self.assertEqual(files.classes[0], "class 0")
        expected = rows_of(files.folder / "metrics.csv")
        arrays = l3a.run(load("train"), load("test"), "B0-C2", **GIVEN)
        self.assertEqual(rows_of(arrays.folder / "metrics.csv"), expected)
        self.assertEqual((files.command, arrays.command), ("", ""))
        features, labels = load("train")
        other = l3a.run((features.astype("float64"), labels.astype(bool)), load("test"), "B0-C2", **GIVEN)
        self.assertEqual(rows_of(other.folder / "metrics.csv"), expected)
        names = (WORK / "names.txt").read_text().splitlines()
        named = l3a.run(load("train"), load("test"), "B0-C2", ["l3a", "l3a+", "joint"], [1, 2], classes=names, **GIVEN)
        self.assertEqual(rows_of(named.folder / "metrics.csv"), rows_of(WORK / "run/metrics.csv"))

    def test_sets_of_names_and_npz_files_give_the_same(self):
        names = (WORK / "names.txt").read_text().splitlines()
        pairs = [(x, [{names[k] for k in numpy.flatnonzero(row)} for row in y]) for x, y in (load("train"), load("test"))]
        made = l3a.run(*pairs, "B0-C2", ["l3a", "l3a+", "joint"], [1, 2], **GIVEN)
        self.assertEqual(rows_of(made.folder / "metrics.csv"), rows_of(WORK / "run/metrics.csv"))
        for name in ("train", "test"):
            numpy.savez(WORK / f"{name}.npz", features=load(name)[0], labels=load(name)[1], classes=names)
        made = l3a.run(WORK / "train.npz", WORK / "test.npz", "B0-C2", ["l3a", "l3a+", "joint"], [1, 2], **GIVEN)
        self.assertEqual(rows_of(made.folder / "metrics.csv"), rows_of(WORK / "run/metrics.csv"))

    def test_several_class_orders(self):
        made = l3a.run(TRAIN, TEST, "B0-C4", "l3a", [1, 2], class_order=["shuffle:1", "shuffle:2"], out=WORK / "orders", **GIVEN)
        said("run", "--train", TRAIN, "--test", TEST, "--protocol", "B0-C4", "--seed", "1,2", "--class-order", "shuffle:1,shuffle:2",
             "--dim", 64, "--threads", 1, "--quiet", "-o", WORK / "orders by command")
        self.assertEqual(rows_of(WORK / "orders/metrics.csv"), rows_of(WORK / "orders by command/metrics.csv"))
        self.assertEqual((made.class_orders, made.finished, made._summary[0]["seeds"]), (["shuffle:1", "shuffle:2"], True, 4))
        self.assertIn("2 seeds, 2 class orders", repr(made))
        self.assertEqual([len(values) for _, values in made.phase_values("l3a", "mAP")], [4, 4])

    def test_a_temporary_folder_goes_with_the_run(self):
        made = l3a.run(TRAIN, TEST, "B0-C4", **GIVEN)
        folder = made.folder
        self.assertTrue((folder / "metrics.csv").is_file())
        del made
        self.assertFalse(folder.exists())

    def test_all_methods(self):
        made = l3a.run(TRAIN, TEST, "B4-C4", "all", epochs=1, **GIVEN)
        listed = said("sweep", "--train", TRAIN, "--test", TEST, "--protocol", "B4-C4", "--method", "all", "--dry-run", "--dim", 64)
        self.assertEqual(made.methods, [line.strip() for line in listed.splitlines()[1:]])

    def test_errors_have_status_and_hint(self):
        def fails(status, part, hint, **arguments):
            with self.assertRaises(l3a.Error) as caught:
                l3a.run(**{"train": TRAIN, "test": TEST, "protocol": "B0-C2", **GIVEN, **arguments})
            self.assertEqual(caught.exception.status.name, status)
            self.assertIn(part, caught.exception.text)
            self.assertIn(hint, caught.exception.hint)

        fails("ERROR_OPTION", "gama", "gamma", gama=1)
        for seeds in (-1, [1.5], "one", [None]):
            fails("ERROR_ARGUMENT", "seeds", "whole number", seeds=seeds)
        fails("ERROR_OPTION", "dim", "l3a.sweep", dim=[1, 2])
        fails("ERROR_OPTION", "seeds", "seeds", seed=3)
        fails("ERROR_OPTION", "l4a", "did you mean", methods="l4a")
        fails("ERROR_EXISTS", "run", "resume", out=WORK / "run")
        fails("ERROR_NOT_FOUND", "nothing", "path", train="nothing")
        fails("ERROR_ARGUMENT", "resumed", "out", resume=True)
        fails("ERROR_ARGUMENT", ".npy", "pair", train=WORK / "train.npy")
        fails("ERROR_ARGUMENT", "int", "pair", train=3)
        fails("ERROR_ARGUMENT", "method", "", methods=[])
        fails("ERROR_MISMATCH", "rows of labels", "one row per image", train=(load("train")[0], load("train")[1][1:]))
        with self.assertRaisesRegex(l3a.Error, "elsewhere"):
            l3a.run(TRAIN, TEST, **{**GIVEN, "device": "elsewhere"})

    def test_nothing_is_printed_without_tqdm(self):
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed), without("tqdm", "tqdm.auto"):
            l3a.run(TRAIN, TEST, "B0-C4", dim=64, threads=1)
        self.assertEqual(printed.getvalue(), "")

    def test_progress_by_tqdm(self):
        skip_without(self, "tqdm")
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed):
            l3a.run(TRAIN, TEST, "B0-C4", dim=64, threads=1)
        self.assertIn("run:", printed.getvalue())
        self.assertIn("/2", printed.getvalue())

    def test_progress_by_a_function(self):
        events = []
        l3a.run(TRAIN, TEST, "B0-C4", dim=64, threads=1, progress=events.append)
        self.assertEqual([event.kind for event in events].count(EventKind.RESULT), 2)
        self.assertTrue(any(event.kind == EventKind.PROGRESS and event.stage == "learn" for event in events))
        with self.assertRaises(l3a.Error) as caught:
            l3a.run(TRAIN, TEST, "B0-C4", dim=64, threads=1, out=WORK / "cancelled",
                    progress=lambda event: event.kind == EventKind.RESULT)
        self.assertEqual(caught.exception.status, l3a.Status.ERROR_CANCELLED)
        self.assertEqual(len(l3a.load_run(WORK / "cancelled").metrics), 1)
        with self.assertRaises(ZeroDivisionError):
            l3a.run(TRAIN, TEST, "B0-C4", dim=64, threads=1, progress=lambda event: 1 / 0)


# After two phases it takes its time, so that a busy machine does not let it finish before the signal comes.
CHILD = """
import sys, time
import l3a
ready = False
def progress(event):
    global ready
    if event.text and "phase 2" in event.text:
        print("ready", flush=True)
        ready = True
    time.sleep(0.1 if ready else 0.6)  # so that it is worth saving what is learned before
l3a.run(sys.argv[1], sys.argv[2], "B0-C2", "l3a", [1, 2, 3, 4, 5, 6], out=sys.argv[3], threads=1, dim=300, progress=progress)
"""


class Interrupted(unittest.TestCase):
    def test_ctrl_c_leaves_a_folder_that_resumes_with_the_same_bits(self):
        environment = {**os.environ, "PYTHONPATH": str(support.SOURCE / "python")}
        child = subprocess.Popen([sys.executable, "-c", CHILD, TRAIN, TEST, WORK / "stopped"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=environment)
        self.assertEqual(child.stdout.readline(), "ready\n")
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", errors)
        self.assertEqual(child.returncode, -signal.SIGINT)
        stopped = l3a.load_run(WORK / "stopped")
        self.assertFalse(stopped.finished)
        self.assertGreaterEqual(len(stopped.metrics), 1)
        self.assertIn("not finished", repr(stopped))
        again = l3a.run(TRAIN, TEST, "B0-C2", "l3a", range(1, 7), out=WORK / "stopped", resume=True, threads=1, dim=300,
                        progress=False)
        self.assertTrue(again.finished)
        command("run", "--seed", "1,2,3,4,5,6", "-o", WORK / "whole", dim=300)
        self.assertEqual(rows_of(WORK / "stopped/metrics.csv"), rows_of(WORK / "whole/metrics.csv"))
        self.assertEqual(rows_of(WORK / "stopped/per_class.csv"), rows_of(WORK / "whole/per_class.csv"))

    def test_the_command_resumes_what_python_began(self):
        with self.assertRaises(KeyboardInterrupt):
            l3a.run(TRAIN, TEST, "B0-C2", "l3a", [1, 2], out=WORK / "began", dim=64, threads=1, progress=self.interrupt)
        began = l3a.load_run(WORK / "began")
        self.assertEqual(len(began.metrics), 1)
        for call in (began.verdict, began.to_latex):
            with self.assertRaisesRegex(l3a.Error, "not finished"):
                call()
        said("run", "--resume", "-o", WORK / "began", "--quiet")
        expected = [row for row in rows_of(WORK / "run/metrics.csv") if row["method"] == "l3a"]
        self.assertEqual(rows_of(WORK / "began/metrics.csv"), expected)

    @staticmethod
    def interrupt(event):
        if event.kind == EventKind.RESULT:
            os.kill(os.getpid(), signal.SIGINT)


class Sweeps(unittest.TestCase):
    def test_the_table_is_the_commands_to_the_last_bit(self):
        made = l3a.sweep(TRAIN, TEST, "B0-C2", "l3a,joint", [1, 2], gamma=[1, 10.0, numpy.float64(1000)], out=WORK / "grid", **GIVEN)
        self.assertEqual(rows_of(WORK / "grid/sweep.csv"), rows_of(WORK / "sweep/sweep.csv"))
        ours, theirs = (json.loads((WORK / name / "sweep.json").read_text())["run"] for name in ("grid", "sweep"))
        self.assertEqual(ours, theirs)
        self.assertEqual(made.axes, {"gamma": ["1", "10", "1000"]})

    def test_summary_and_best_are_the_commands(self):
        made = l3a.load_sweep(WORK / "sweep")
        theirs = json.loads(said("sweep", "--resume", "-o", WORK / "sweep", "--format", "json", "--quiet"))["points"]
        ours = made.summary_rows()
        self.assertEqual([(row["method"], row["gamma"]) for row in ours], [(row["method"], row["gamma"]) for row in theirs])
        for our, their in zip(ours, theirs):
            for name in ("avg_mAP", "last_mAP", "CF1", "OF1", "forgetting", "base_mAP", "new_mAP"):
                self.assertEqual((f"{our[name]:.6f}", f"{our[name + '_deviation']:.6f}"),
                                 (f"{their[name]['mean']:.6f}", f"{their[name]['deviation']:.6f}"))
        phased = [row for row in theirs if row["method"] == "l3a"]
        self.assertEqual(made.best("last_mAP")["gamma"], max(phased, key=lambda row: row["last_mAP"]["mean"])["gamma"])
        self.assertEqual(made.best("forgetting")["gamma"], min(phased, key=lambda row: row["forgetting"]["mean"])["gamma"])

    def test_a_table_to_publish(self):
        made = l3a.load_sweep(WORK / "sweep")
        for format, text in (("latex", made.to_latex()), ("markdown", made.to_markdown())):
            for row in made.summary_rows():
                label = f"{row['method']} {'&' if format == 'latex' else '|'} {row['gamma']} "
                line = next(line for line in text.splitlines() if line.strip("| ").startswith(label))
                self.assertIn(f"{row['last_mAP']:.2f}", line)

    def test_points_are_compared(self):
        """With the numbers of the report's CSV, and in a summary that fits a terminal."""
        made = l3a.load_sweep(WORK / "sweep")
        theirs = list(csv.DictReader(io.StringIO(said("report", WORK / "sweep", "--format", "csv"))))
        with without("pandas"):
            ours = made.significance("last_mAP")
            against = made.significance("last_mAP", 0)
        compared = [row for row in theirs if row["metric"] == "last_mAP" and row["pairs"] != "0"]
        self.assertEqual([(row["method"], row["gamma"], row["reference"]) for row in ours],
                         [(row["method"], row["gamma"] or "-", row["reference"]) for row in compared])
        for our, their in zip(ours, compared):
            self.assertEqual([our["difference"], our["pairs"]], [float(their["difference"]), int(their["pairs"])])
        self.assertEqual({row["reference"] for row in against}, {f"l3a gamma={made.summary_rows()[0]['gamma']}"})
        lines = str(made.summary()).splitlines()
        self.assertEqual((lines[0].split()[:2], max(map(len, lines)) <= 100), (["gamma", "method"], True))
        self.assertEqual(len(made.summary()), len(made.summary_rows()))

    def test_runs_of_points(self):
        made = l3a.load_sweep(WORK / "sweep")
        self.assertEqual(len(made.runs), len(made.summary()))
        self.assertEqual([(run.methods[0], run.settings["gamma"]) for run in made.runs][:3], [("l3a", 1), ("l3a", 10), ("l3a", 1000)])

    def test_presets(self):
        made = l3a.sweep(TRAIN, TEST, "B0-C2", preset="gamma", seeds=1, **GIVEN)
        listed = command("sweep", "--preset", "gamma", "--seed", "1", "--dry-run").splitlines()[1:]
        self.assertEqual([f"gamma={row['gamma']}" for row in made.summary_rows()], [line.strip() for line in listed])
        with self.assertRaises(l3a.Error) as caught:
            l3a.sweep(TRAIN, TEST, preset="gama", **GIVEN)
        self.assertIn("gamma", caught.exception.hint)

    def test_values_as_people_write_them(self):
        """The folder spells them in one way, so that the texts in its record differ from those in its tables."""
        made = l3a.sweep(TRAIN, TEST, "B0-C4", gamma=["1e1", "0.70", "1e16", "auto"], **GIVEN)
        self.assertEqual([float(value) for value in made.axes["gamma"][:3]], [10, 0.7, 1e16])
        self.assertEqual([row["gamma"] for row in made.summary_rows()], made.axes["gamma"])
        self.assertEqual(len(made.runs), 4)
        try:
            import matplotlib
        except ImportError:
            self.skipTest("matplotlib is not installed")
        matplotlib.use("agg")
        self.assertEqual([tick.get_text() for tick in made.plot().get_xticklabels()], made.axes["gamma"])

    def test_a_method_without_the_setting(self):
        made = l3a.sweep(TRAIN, TEST, "B0-C4", ["l3a", "joint"], eta=[0.6, 0.7], **GIVEN)
        first = [[cell.strip() for cell in line.split("|")[1:3]] for line in made.to_markdown().splitlines() if line.startswith("| ")]
        self.assertEqual(first, [["Method", "eta"], ["l3a", "0.6"], ["l3a", "0.7"], ["joint", "–"]])

    def test_a_caption_names_what_is_bold(self):
        """Rivals with five seeds; fewer cannot tell, and joint is no rival."""
        five = [1, 2, 3, 4, 5]
        for methods, seeds, bold in ((["l3a", "joint"], five, False), (["l3a", "acil"], five[:4], False), (["l3a", "acil"], five, True)):
            made = l3a.run(TRAIN, TEST, "B0-C4", methods, seeds, **GIVEN).to_markdown()
            self.assertEqual(("**" in made, "Bold: " in made), (bold, bold))

    def test_a_setting_needs_a_value(self):
        with self.assertRaisesRegex(ValueError, "gamma: the list of values is empty"):
            l3a.sweep(TRAIN, TEST, "B0-C4", gamma=[], **GIVEN)

    def test_the_best_point_is_the_one_that_the_report_names(self):
        made = l3a.load_sweep(WORK / "sweep")
        best = made.best()
        self.assertEqual(best["last_mAP"], max(row["last_mAP"] for row in made.summary_rows() if row["phases"] > 1))
        self.assertRegex(made.report(), f"Highest last mAP: [^<,]*gamma={best['gamma']},")

    def test_a_grid_of_methods_alone(self):
        made = l3a.sweep(TRAIN, TEST, "B0-C4", ["l3a", "acil"], 1, **GIVEN)
        self.assertEqual([row["method"] for row in made.summary_rows()], ["l3a", "acil"])
        with self.assertRaisesRegex(l3a.Error, "no setting varies"):
            made.plot()


class Loaded(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.run_ = l3a.load_run(WORK / "run")

    def test_describes_itself(self):
        run = self.run_
        self.assertEqual((run.protocol, run.methods, run.seeds, run.finished), ("B0-C2", ["l3a", "l3a+", "joint"], [1, 2], True))
        self.assertEqual(run.classes, sorted((WORK / "names.txt").read_text().splitlines()))
        self.assertEqual((run.settings["dim"], run.settings["weights"]), (64, "sqrt"))
        self.assertIn("--method", run.command)
        self.assertIn("8 classes, protocol B0-C2; 2 seeds", repr(run))
        self.assertEqual(repr(pickle.loads(pickle.dumps(run))), repr(run))

    def test_the_summary_is_what_the_command_prints(self):
        theirs = json.loads(said("run", "--resume", "-o", WORK / "run", "--format", "json", "--quiet"))
        for our, their in zip(self.run_._summary, theirs["summary"]):
            for name in ("avg_mAP", "last_mAP", "CF1", "OF1", "forgetting", "base_mAP", "new_mAP"):
                self.assertEqual((f"{our[name]:.6f}", f"{our[name + '_deviation']:.6f}"),
                                 (f"{their[name]['mean']:.6f}", f"{their[name]['deviation']:.6f}"))
        table = said("run", "--resume", "-o", WORK / "run", "--quiet")
        line = next(line for line in table.splitlines() if re.match(r"l3a\+ .*±", line))
        numbers = re.findall(r"\d+\.\d\d ± *\d+\.\d\d", line)
        self.assertEqual([re.sub(r"± *", "± ", n) for n in numbers], re.findall(r"\d+\.\d\d ± \d+\.\d\d", repr(self.run_).splitlines()[3]))

    def test_the_summary_is_what_the_table_says(self):
        """A second computation, from metrics.csv alone."""
        for row in self.run_._summary:
            per_seed = [[float(r["mAP"]) for r in rows_of(WORK / "run/metrics.csv") if (r["method"], r["seed"]) == (row["method"], seed)]
                        for seed in ("1", "2")]
            means = [statistics.fmean(values) for values in per_seed]
            self.assertAlmostEqual(row["avg_mAP"], statistics.fmean(means), 9)
            self.assertAlmostEqual(row["avg_mAP_deviation"], statistics.stdev(means), 9)
            self.assertAlmostEqual(row["last_mAP"], statistics.fmean(values[-1] for values in per_seed), 9)

    def test_tables_with_pandas(self):
        pandas = skip_without(self, "pandas")
        for name in ("metrics", "per_class", "timings"):
            table = getattr(self.run_, name)
            self.assertIsInstance(table, pandas.DataFrame)
            read = pandas.read_csv(WORK / "run" / f"{name}.csv", float_precision="round_trip")
            self.assertEqual(list(table.columns), list(read.columns))
            same = [column for column in table.columns if column != "curve"]
            pandas.testing.assert_frame_equal(table[same], read[same], check_exact=True)
        self.assertIsInstance(self.run_.summary(), pandas.DataFrame)
        self.assertEqual(len(self.run_.per_class["curve"].iloc[-1]), 0)
        self.assertEqual(max(map(len, self.run_.per_class["curve"])), 51)

    def test_tables_without_pandas(self):
        with without("pandas"):
            metrics, summary = self.run_.metrics, self.run_.summary()
        self.assertIsInstance(metrics, _table.Table)
        read = rows_of(WORK / "run/metrics.csv")
        self.assertEqual(metrics["mAP"], [float(row["mAP"]) for row in read])
        self.assertEqual([row["phase"] for row in metrics], [int(row["phase"]) for row in read])
        self.assertEqual((len(metrics), metrics[0]["method"]), (len(read), "l3a"))
        with self.assertRaises(KeyError):
            metrics["nothing"]
        self.assertEqual(repr(metrics).splitlines()[1].split()[:2], ["l3a", "1"])
        self.assertEqual(summary["method"], ["l3a", "l3a+", "joint"])
        self.assertIn("<td>l3a+</td>", summary._repr_html_())

    def test_names_are_kept_as_they_are(self):
        with without("pandas"):
            self.assertIn('class01, "é"', self.run_.per_class["class"])

    def test_a_folder_that_is_none(self):
        for load, name in ((l3a.load_run, "run.json"), (l3a.load_sweep, "sweep.json")):
            with self.assertRaisesRegex(FileNotFoundError, f"no {name}"):
                load(WORK)
        with self.assertRaisesRegex(FileNotFoundError, "use l3a.load_sweep"):
            l3a.load_run(WORK / "sweep")
        broken = WORK / "broken"
        broken.mkdir()
        (broken / "run.json").write_text("{}")
        with self.assertRaisesRegex(ValueError, "run.json"):
            l3a.load_run(broken)

    def test_an_edited_table_is_an_error(self):
        shutil.copytree(WORK / "run", WORK / "edited")
        path = WORK / "edited/metrics.csv"
        path.write_text(path.read_text().replace("l3a+,1,2", "l3a+,1,3", 1))
        with self.assertRaises(l3a.Error) as caught:
            l3a.load_run(WORK / "edited")
        self.assertEqual(caught.exception.status, l3a.Status.ERROR_CHECKSUM)

    def test_tables_to_publish_are_the_commands(self):
        for format, ours in (("latex", self.run_.to_latex()), ("markdown", self.run_.to_markdown())):
            self.assertEqual(ours, said("run", "--resume", "-o", WORK / "run", "--quiet", "--format", format))
            self.assertEqual(sum(line.strip("| ").startswith(("l3a", "joint")) for line in ours.splitlines()), 3)

    def test_a_printed_summary_shows_what_matters(self):
        """In at most 100 columns, whether or not pandas is there; what is taken from it is an ordinary table."""
        kinds = [self.run_.summary()]
        with without("pandas"):
            kinds.append(self.run_.summary())
        for summary in kinds:
            lines = str(summary).splitlines()
            self.assertLessEqual(max(map(len, lines)), 100)
            self.assertEqual(lines[0].split(), "method avg mAP last mAP CF1 OF1 forget last mAP from best".split())
            for line, row in zip(lines[1:], self.run_._summary):
                self.assertTrue(line.startswith(row["method"] + " ") and f"{row['last_mAP']:.2f}±{row['last_mAP_deviation']:.2f}" in line)
            self.assertIn("2 paired runs cannot tell", lines[-1])
            self.assertIn("avg_mAP_deviation", list(summary.columns))
            self.assertIn("<td>l3a+</td>", summary._repr_html_())
        if importlib.util.find_spec("pandas"):
            self.assertIn("avg_mAP_deviation", str(kinds[0].assign(extra=1)[["method", "avg_mAP_deviation", "extra"]]))
            self.assertEqual(pickle.loads(pickle.dumps(kinds[0]))["method"].tolist(), ["l3a", "l3a+", "joint"])

    def test_significance_is_what_the_command_says(self):
        theirs = json.loads(said("run", "--resume", "-o", WORK / "run", "--format", "json", "--quiet"))["significance"]
        with without("pandas"):
            ours = [{**row, "metric": metric} for metric in ("avg_mAP", "last_mAP", "CF1", "OF1", "forgetting")
                    for row in self.run_.significance(metric) if row["pairs"]]
            against = self.run_.significance("last_mAP", "joint")
        self.assertGreater(len(ours), 4)
        self.assertEqual(len(ours), len(theirs))
        for our, their in zip(ours, theirs):
            self.assertEqual([our[name] for name in ("metric", "method", "reference", "pairs", "significant")],
                             [their[name] for name in ("metric", "method", "reference", "pairs", "significant")])
            for name in ("difference", "low", "high", "p", "adjusted_p"):
                self.assertAlmostEqual(our[name], their[name], 8)
        self.assertEqual([(row["method"], row["reference"]) for row in against], [("l3a", "joint"), ("l3a+", "joint")])
        self.assertIn("cannot tell", str(against))
        for wrong in (("CF2",), ("last_mAP", "nobody")):
            with self.assertRaises(l3a.Error):
                self.run_.significance(*wrong)

    def test_results_from_elsewhere_join(self):
        """What a run says of itself under another name is level with it everywhere."""
        rows = [row for row in rows_of(WORK / "run/metrics.csv") if row["method"] == "l3a"]
        path = WORK / "elsewhere.csv"
        path.write_text("method,seed,phase,map,class_f1,overall_f1\n"
                        + "".join(f"mine,{r['seed']},{r['phase']},{r['mAP']},{r['CF1']},{r['OF1']}\n" for r in rows))
        joined = self.run_.join(path)
        self.assertEqual((joined.measured, joined.finished), (["l3a", "l3a+", "joint", "mine"], True))
        self.assertEqual(self.run_.measured, ["l3a", "l3a+", "joint"])
        own = {row["method"]: row for row in joined._summary}
        self.assertEqual([own["mine"][name] for name in ("avg_mAP", "last_mAP", "CF1", "OF1")],
                         [own["l3a"][name] for name in ("avg_mAP", "last_mAP", "CF1", "OF1")])
        self.assertEqual(joined.phase_values("mine", "mAP"), joined.phase_values("l3a", "mAP"))
        self.assertEqual(len(joined.metrics), len(self.run_.metrics) + len(rows))
        self.assertIn("mine †", str(joined.summary()))
        self.assertIn("† from elsewhere.csv", str(joined.summary()))
        with without("pandas"):
            same = next(row for row in joined.significance("last_mAP", "l3a") if row["method"] == "mine")
        self.assertEqual((same["difference"], same["low"], same["high"], same["p"]), (0, 0, 0, 1))
        self.assertTrue("mine †" in joined.report() and "mine" in joined.to_latex() and "mine" not in self.run_.report())
        self.assertIn("mine", repr(joined))
        with self.assertRaises(l3a.Error):
            joined.join(path)  # the name is taken now

    def test_the_verdict_names_the_best(self):
        last = {row["method"]: row["last_mAP"] for row in self.run_._summary}
        best = max(("l3a", "l3a+"), key=last.get)
        self.assertRegex(self.run_.verdict(), rf"^{re.escape(best)} ends {abs(last['l3a'] - last['l3a+']):.1f} mAP above")
        self.assertIn("2 paired runs cannot tell", self.run_.verdict())

    def test_the_page_shows_the_charts_of_the_report(self):
        page = self.run_._repr_html_()
        self.assertIn('sandbox="allow-same-origin"', page)
        self.assertNotIn("<section", page)  # it is escaped
        import html
        inner = html.unescape(re.search(r'srcdoc="([^"]*)"', page).group(1))
        self.assertEqual(re.findall(r'<section id="(\w+)"', inner), ["headline", "phases"])
        self.assertGreater(inner.count("<svg"), 5)
        self.assertIn("l3a+", inner)
        stale = WORK / "stale"
        shutil.copytree(WORK / "run", stale)
        (stale / "report.html").unlink()
        self.assertIn("<svg", l3a.load_run(stale).report())
        self.assertFalse((stale / "report.html").exists())
        self.assertIn("<svg", html.unescape(l3a.load_sweep(WORK / "sweep")._repr_html_()))


def unoverlapped(test, ax):
    """No text of the chart lies on another or outside the figure."""
    figure = ax.figure
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    legend = ax.get_legend()
    texts = [t for t in [*ax.texts, ax.title, ax._left_title, *ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label,
                         *(legend.get_texts() if legend else [])] if t.get_text() and t.get_visible()]
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts]
    for i, (text, box) in enumerate(boxes):
        test.assertTrue(box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1, (text, box))
        for other, theirs in boxes[:i]:
            across, down = min(box.x1, theirs.x1) - max(box.x0, theirs.x0), min(box.y1, theirs.y1) - max(box.y0, theirs.y0)
            test.assertFalse(across > 1 and down > 2, (text, other))


class Plots(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        matplotlib = skip_without(cls, "matplotlib")
        matplotlib.use("agg")
        import matplotlib.pyplot
        cls.close = matplotlib.pyplot.close

    def tearDown(self):
        type(self).close("all")

    def test_lines_are_the_means_of_the_table(self):
        ax = l3a.load_run(WORK / "run").plot()
        rows = rows_of(WORK / "run/metrics.csv")
        drawn = {line.get_label(): line for line in ax.get_lines()}
        for method in ("l3a", "l3a+", "joint"):
            ends = sorted({int(row["last"]) for row in rows if row["method"] == method})
            means = [numpy.mean([float(row["mAP"]) for row in rows if (row["method"], int(row["last"])) == (method, end)]) for end in ends]
            numpy.testing.assert_allclose(drawn[method].get_xdata(), ends)
            numpy.testing.assert_allclose(drawn[method].get_ydata(), means, rtol=1e-12)
        self.assertEqual([text.get_text() for text in ax.get_legend().get_texts()], ["l3a", "l3a+", "joint"])
        self.assertEqual(len(ax.texts), 0)  # the paper has no such data
        unoverlapped(self, ax)

    def test_colours_are_the_reports(self):
        page = (WORK / "run/report.html").read_text()
        colours = re.findall(r"--c\d+:(#\w+)", page[:page.index("prefers-color-scheme:dark")])
        self.assertGreater(len(colours), 6)
        self.assertEqual([c if len(c) == 7 else "#" + "".join(2 * d for d in c[1:]) for c in colours], list(_plot.COLOURS)[:len(colours)])
        styles = [_plot.style_of(i) for i in range(20)]
        self.assertEqual(len({(s["color"], str(s["linestyle"]), s["marker"]) for s in styles}), 20)

    def test_competitors_are_the_papers(self):
        voc = ["aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog", "horse",
               "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"]
        rng = numpy.random.default_rng(1)
        labels = rng.random((400, 20)) < 0.15
        labels[numpy.arange(400), numpy.arange(400) % 20] = True
        features = (labels @ rng.normal(size=(20, 24)) + rng.normal(size=(400, 24))).astype("float32")
        made = l3a.run((features[:250], labels[:250]), (features[250:], labels[250:]), "B0-C4", ["l3a", "joint"], classes=voc,
                       privacy_limit=0, **GIVEN)
        listed = [line for line in (support.SOURCE / "src/report/published.inc").read_text().splitlines() if '"VOC", "B0-C4"' in line]
        with without("pandas"):
            self.assertEqual(len(made.published), len(listed))
            self.assertEqual(made.published["last_mAP"], [float(line.split(", ")[7]) for line in listed])
        ax = made.plot()
        shown = " ".join(text.get_text() for text in ax.texts)
        self.assertIn("MULTI-LANE  88.8", shown)
        self.assertIn("CSC-R, 2/class  87.9", shown)
        unoverlapped(self, ax)
        few = made.plot(competitors=["L3A", "CSC"])
        self.assertEqual([text.get_text() for text in few.texts if "published" not in text.get_text()], ["CSC  85.1", "L3A  94.1"])
        self.assertEqual(len(made.plot(competitors=False).texts), 0)
        self.assertEqual(len(made.plot("CF1").texts), 0)  # which the paper does not have for this data
        with self.assertRaisesRegex(ValueError, "mAP"):
            made.plot("map")

    def test_on_axes_of_the_caller(self):
        import matplotlib.pyplot
        figure, axes = matplotlib.pyplot.subplots(1, 2)
        self.assertIs(l3a.load_run(WORK / "run").plot("CF1", ax=axes[1], title="mine"), axes[1])
        self.assertEqual((axes[1].get_title("left"), axes[0].get_lines()), ("mine", axes[0].get_lines()))
        self.assertEqual(len(axes[0].get_lines()), 0)

    def test_a_measure_against_a_setting(self):
        made = l3a.load_sweep(WORK / "sweep")
        ax = made.plot("last_mAP")
        self.assertEqual((ax.get_xscale(), ax.get_xlabel()), ("log", "gamma"))
        self.assertEqual([tick.get_text() for tick in ax.get_xticklabels()], ["1", "10", "1000"])
        expected = [row["last_mAP"] for row in made.summary_rows() if row["method"] == "l3a"]
        numpy.testing.assert_allclose(ax.get_lines()[0].get_ydata().astype(float), expected)
        unoverlapped(self, ax)
        with self.assertRaisesRegex(ValueError, "gamma"):
            made.plot(setting="eta")

    def test_without_matplotlib(self):
        run = l3a.load_run(WORK / "run")
        with without("matplotlib", "matplotlib.pyplot"):
            with self.assertRaisesRegex(ImportError, r"run.plot\(\) needs matplotlib; install it with"):
                run.plot()


if __name__ == "__main__":
    warnings.simplefilter("ignore", l3a.L3AWarning)
    unittest.main()
