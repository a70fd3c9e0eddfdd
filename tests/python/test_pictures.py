"""Runs from pictures: the same bits as the command's, folders that either can resume, and one cache for both."""
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support

support.need("numpy")

import l3a

WORK = Path(tempfile.mkdtemp())
BACKBONE = support.SOURCE / "models/demo_backbone.safetensors"
SPLITS = {"split": "train", "test_split": "test"}
GIVEN = {"data": f"list:{WORK}/split.csv", "backbone": BACKBONE, **SPLITS, "protocol": "B0-C1", "side": 32, "dim": 64, "threads": 1,
         "progress": False}


def setUpModule():
    os.environ["L3A_CACHE"] = str(WORK / "cache")
    subprocess.run([sys.executable, support.SOURCE / "tests/cli/make_pictures.py", WORK], check=True)
    rows = (WORK / "list.csv").read_text().splitlines()
    (WORK / "split.csv").write_text("\n".join([rows[0] + ",split", *(f"{row},{'test' if k % 3 else 'train'}"
                                                                    for k, row in enumerate(rows[1:]))]) + "\n")


def tearDownModule():
    shutil.rmtree(WORK)


def command(*arguments):
    subprocess.run([support.COMMAND, "run", "--data", GIVEN["data"], "--split", "train", "--test-split", "test", "--backbone", BACKBONE,
                    "--protocol", "B0-C1", "--size", "32", "--dim", "64", "--threads", "1", "--quiet", *arguments], check=True,
                   stdout=subprocess.DEVNULL)


def rows_of(folder):
    """A table without the seconds."""
    with open(Path(folder) / "metrics.csv", newline="") as file:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def files():
    return sorted(path.name for path in (WORK / "cache").iterdir())


class Run(unittest.TestCase):
    def test_is_that_of_the_command(self):
        command("-o", WORK / "command")
        before = files()
        made = l3a.run(**GIVEN, out=WORK / "python")
        self.assertTrue(made.finished)
        self.assertEqual(rows_of(WORK / "command"), rows_of(WORK / "python"))
        self.assertEqual((WORK / "command/model.safetensors").read_bytes(), (WORK / "python/model.safetensors").read_bytes())
        self.assertEqual(before, files())  # what the one has extracted, the other has used

    def test_is_resumed_by_the_command(self):
        l3a.run(**GIVEN, out=WORK / "begun", seeds=[1, 2])
        shutil.copytree(WORK / "begun", WORK / "cut")
        for name in "checksums.csv", "model.safetensors":
            (WORK / "cut" / name).unlink()
        for name in "metrics.csv", "per_class.csv":
            lines = (WORK / "cut" / name).read_text().splitlines()
            (WORK / "cut" / name).write_text(lines[0] + "\n")
        subprocess.run([support.COMMAND, "run", "--resume", "--quiet", "-o", WORK / "cut"], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(rows_of(WORK / "begun"), rows_of(WORK / "cut"))

    def test_adapts_as_the_command_does(self):
        try:
            made = l3a.run(**GIVEN, adapt="norms", adapt_epochs=2, out=WORK / "adapted")
        except l3a.Error as error:
            if "cannot train networks" in error.text:
                self.skipTest(error.text)
            raise
        command("--adapt", "norms", "--adapt-epochs", "2", "-o", WORK / "adapted-command")
        for name in "adapted.safetensors", "model.safetensors":
            self.assertEqual((WORK / "adapted" / name).read_bytes(), (WORK / "adapted-command" / name).read_bytes())
        self.assertEqual(*(json.loads((WORK / name / "run.json").read_text())["run"] for name in ("adapted", "adapted-command")))
        self.assertTrue(made.finished)
        again = l3a.run(**GIVEN, adapt="norms", adapt_epochs=2, out=WORK / "adapted", resume=True)
        self.assertTrue(again.finished)

    def test_keeps_its_features_where_it_is_told(self):
        l3a.run(**GIVEN, cache=False, out=WORK / "own")
        self.assertEqual(len(list((WORK / "own/features").iterdir())), 2)
        l3a.run(**GIVEN, cache=WORK / "elsewhere", half=True, views=5)
        self.assertEqual(len(list((WORK / "elsewhere").iterdir())), 2)

    def test_sweeps(self):
        made = l3a.sweep(**GIVEN, gamma=[1, 1000], out=WORK / "sweep")
        self.assertEqual(len(made.runs), 2)

    def test_says_what_is_wrong(self):
        features = WORK / "cache/none.safetensors"
        for arguments, text in (({"train": features}, "exclude each other"), ({"backbone": None}, "needs a network"),
                                ({"data": None}, "backbone needs data"), ({"adapt": "some"}, "adapt is 'some'"),
                                ({"data": None, "backbone": None, "split": None, "test_split": None, "side": 1}, "split needs data"),
                                ({"test_split": None}, "does not say which pictures to measure on"),
                                ({"adapt": "norms", "class_order": "shuffle:1,shuffle:2"}, "one for each of the class orders"),
                                ({"cache_size": 0}, "cache_size is 0")):
            with self.assertRaises(l3a.Error) as caught:
                l3a.run(**{**GIVEN, **arguments})
            self.assertIn(text, str(caught.exception))
        with self.assertRaises(l3a.Error) as caught:
            l3a.run()
        self.assertIn("nothing to learn from", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
