"""l3a.train(): what it returns, that its network is the command's, callbacks, interruptions, and what it refuses."""
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support

support.need("numpy", "PIL")
import l3a

BACKBONE = support.SOURCE / "models/demo_backbone.safetensors"
OPTIONS = dict(epochs=3, batch=20, side=32, validation_share=0.3, threads=2, progress=False)
WORDS = ["--epochs", "3", "--batch", "20", "--size", "32", "--validation-share", "0.3", "--threads", "2"]
HERE = Path(tempfile.mkdtemp())


def setUpModule():
    os.chdir(HERE)
    subprocess.run([sys.executable, support.SOURCE / "tests/cli/make_pictures.py", "."], check=True)
    try:
        l3a.train(BACKBONE, "list:list.csv", "probe.safetensors", epochs=1, side=32, progress=False)
    except l3a.Error as error:
        if "cannot train networks" not in str(error):
            raise
        print("skipped: this build cannot train networks (it has no oneDNN)")
        raise unittest.SkipTest("no oneDNN") from None


def tearDownModule():
    os.chdir("/")
    shutil.rmtree(HERE)


def train(output, **more):
    return l3a.train(BACKBONE, "list:list.csv", output, **{**OPTIONS, **more})


def tensors(path):
    return support.tensors(path)[0]


class Train(unittest.TestCase):
    def test_what_it_returns(self):
        made = train("made.safetensors", report="made.html")
        self.assertEqual((made.path, made.plan.pictures, made.plan.held, made.plan.classes), ("made.safetensors", 49, 21, 2))
        self.assertEqual([epoch.epoch for epoch in made.epochs], [1, 2, 3])
        self.assertEqual((made.steps, made.plan.steps, made.plan.shown), (9, 9, 210))
        self.assertEqual(made.mean_ap, max(epoch.mean_ap for epoch in made.epochs))
        self.assertEqual(made.kept, next(epoch.epoch for epoch in made.epochs if epoch.mean_ap == made.mean_ap))
        self.assertTrue(made.epochs[0].best and not made.recomputed and made.seconds > 0 and made.speed > 0)
        self.assertTrue(all(math.isfinite(epoch.loss) and not epoch.resumed for epoch in made.epochs))
        page = Path("made.html").read_text()
        self.assertIn("Learning curve", page)
        self.assertNotIn("not finished", page)

    def test_is_the_network_of_the_command(self):
        train("own.safetensors")
        subprocess.run([support.COMMAND, "train", "--backbone", BACKBONE, "--data", "list:list.csv", "-o", "command.safetensors", "--quiet",
                        *WORDS], check=True, capture_output=True)
        self.assertEqual(tensors("own.safetensors"), tensors("command.safetensors"))

    def test_the_page_is_a_file_of_its_own(self):
        shutil.copy(BACKBONE, "own_page.safetensors")
        with self.assertRaisesRegex(ValueError, "is to be another file"):
            l3a.train("own_page.safetensors", "list:list.csv", "page.safetensors", report="./own_page.safetensors", **OPTIONS)
        self.assertEqual(Path("own_page.safetensors").read_bytes(), BACKBONE.read_bytes())

    def test_without_validation(self):
        made = train("all.safetensors", validation_share=0, epochs=1)
        self.assertEqual((made.plan.held, made.mean_ap, made.epochs[0].mean_ap, made.kept), (0, None, None, 1))

    def test_a_validation_set(self):
        made = train("apart.safetensors", validation="list:list.csv", validation_share=None, epochs=1)
        self.assertEqual((made.plan.pictures, made.plan.held), (70, 70))

    def test_a_plan_writes_nothing(self):
        before = sorted(os.listdir())
        plan = train("plan.safetensors", dry_run=True, trained="head").plan
        self.assertEqual((plan.trained, plan.parameters, plan.recomputes), (0, 599120, False))
        self.assertEqual(sorted(os.listdir()), before)

    def test_settings_are_recorded(self):
        train("set.safetensors", epochs=1, trained="last:1", loss="bce", optimiser="sgd", momentum=0.5, decay=0, clip=2, crop=False,
              flip=False, cutout=0.25, schedule="cosine", seed=7, keep="last", classes=["stripes"])
        found = support.tensors("set.safetensors")[1]
        expected = {"trained": "last:1", "loss": "bce", "optimiser": "sgd", "momentum": "0.5", "decay": "0", "clip": "2", "flip": "no",
                    "cutout": "0.25", "schedule": "cosine", "seed": "7", "epoch written": "last"}
        self.assertEqual({key: found[f"l3a.training.{key}"] for key in expected}, expected)
        self.assertEqual(found["l3a.classes"], "stripes")

    def test_a_callback_cancels_and_resume_goes_on(self):
        whole = train("whole.safetensors", trained="all")
        seen = []
        with self.assertRaises(l3a.Error) as caught:
            train("cut.safetensors", trained="all", on_epoch=lambda epoch: seen.append(epoch) or epoch.epoch == 2)
        self.assertEqual(caught.exception.status, l3a.Status.ERROR_CANCELLED)
        self.assertEqual(len(seen), 2)
        with self.assertRaises(FileExistsError):
            train("cut.safetensors", trained="all")
        with self.assertRaises(ValueError):
            train("cut.safetensors", trained="all", rate=0.5, resume=True)
        made = train("cut.safetensors", trained="all", resume=True)
        self.assertEqual([epoch.resumed for epoch in made.epochs], [True, True, False])
        self.assertEqual([epoch.loss for epoch in made.epochs], [epoch.loss for epoch in whole.epochs])
        self.assertEqual(Path("cut.safetensors").read_bytes(), Path("whole.safetensors").read_bytes())

    def test_an_exception_of_the_callback(self):
        def fail(epoch):
            raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            train("raised.safetensors", on_epoch=fail)
        self.assertTrue(os.path.exists("raised.safetensors.training") and not os.path.exists("raised.safetensors"))

    def test_ctrl_c(self):
        def interrupt(epoch):
            os.kill(os.getpid(), signal.SIGINT)
        with self.assertRaises(KeyboardInterrupt):
            train("stopped.safetensors", on_epoch=interrupt)
        self.assertEqual(train("stopped.safetensors", resume=True).steps, 9)

    def test_progress(self):
        stages = set()
        train("told.safetensors", progress=lambda event: stages.add(event.stage))
        self.assertLessEqual({"train", "validate"}, stages)

    def test_what_is_refused(self):
        for wrong, said in (({"crop": 3}, "crop is 3"), ({"crop": (0.9, 0.1)}, "crop is"), ({"classes": "stripes"}, "a list of names"),
                            ({"classes": []}, "classes is empty"), ({"decay": -1}, "decay is -1"), ({"clip": math.nan}, "clip is nan"),
                            ({"keep": "first"}, "'best' or 'last'"), ({"difficult": "drop"}, "'absent' or 'ignore'"),
                            ({"recipe": "norm"}, "did you mean 'norms'"), ({"loss": "mse"}, "mse"), ({"trained": "last:0"}, "last:0"),
                            ({"classes": ["dragon"]}, "dragon"), ({"mean": 0.5}, "given together"), ({"pool": "cls+"}, "pool")):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, said):
                train("wrong.safetensors", **wrong)
        with self.assertRaises(FileNotFoundError):
            l3a.train("nowhere.safetensors", "list:list.csv", "wrong.safetensors", progress=False)
        with self.assertRaises(FileNotFoundError):
            l3a.train(BACKBONE, "list:nowhere.csv", "wrong.safetensors", progress=False)
        with self.assertRaises(FileNotFoundError):
            train("wrong.safetensors", report="nowhere/page.html")
        self.assertFalse([name for name in os.listdir() if name.startswith("wrong")])


unittest.main()
