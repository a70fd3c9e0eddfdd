"""l3a.extract(): features of networks of PyTorch in files that every command takes. The networks are small, and have the interfaces
of timm's and torchvision's."""
import csv
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import support

sys.path.insert(0, str(support.SOURCE / "tests/oracle"))

support.need("numpy", "torch")
import feature_file
import numpy
import torch

import l3a
from l3a import _extract

WORK = Path(tempfile.mkdtemp())
NAMES = ["cat", "dog", "horse", "sheep"]
torch.set_num_threads(1)


def tearDownModule():
    shutil.rmtree(WORK)


class LikeTimm(torch.nn.Module):
    """What timm's models have: forward_features, forward_head with pre_logits, and a configuration."""

    def __init__(self, num_classes=10):
        super().__init__()
        torch.manual_seed(3)
        self.stem = torch.nn.Conv2d(3, 12, 4, stride=4)
        self.norm = torch.nn.BatchNorm2d(12)
        self.drop = torch.nn.Dropout(0.5)
        self.fc = torch.nn.Linear(12, num_classes) if num_classes else torch.nn.Identity()
        self.pretrained_cfg = {"architecture": "like_timm_s"}

    def forward_features(self, pictures):
        return torch.relu(self.norm(self.stem(pictures)))

    def forward_head(self, features, pre_logits=False):
        pooled = self.drop(features.mean((2, 3)))
        return pooled if pre_logits else self.fc(pooled)

    def forward(self, pictures):
        return self.forward_head(self.forward_features(pictures))


class LikeTorchvision(torch.nn.Module):
    """A classifier at the end of a sequence."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.features = torch.nn.Sequential(torch.nn.Conv2d(3, 12, 4, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1))
        self.classifier = torch.nn.Sequential(torch.nn.Dropout(0.2), torch.nn.Linear(12, 10))

    def forward(self, pictures):
        return self.classifier(self.features(pictures).flatten(1))


def pictures(count=90, seed=0):
    """Pictures whose colours tell their classes, which are one or two of four."""
    rng = numpy.random.default_rng(seed)
    labels = numpy.zeros((count, 4), dtype=numpy.int8)
    labels[numpy.arange(count), rng.integers(0, 4, count)] = 1
    labels[numpy.arange(count), rng.integers(0, 4, count)] = 1
    colours = rng.normal(size=(4, 3)) if seed == 0 else numpy.random.default_rng(0).normal(size=(4, 3))
    made = (labels @ colours)[:, :, None, None] + rng.normal(scale=0.4, size=(count, 3, 16, 16))
    return torch.from_numpy(made.astype("float32")), labels


def batches(images, *others, size=16):
    for first in range(0, len(images), size):
        yield (images[first:first + size], *(other[first:first + size] for other in others))


def command(*arguments, **others):
    return subprocess.run([support.COMMAND, *map(str, arguments)], capture_output=True, text=True, **others)


def extract(model, loader, name="made.safetensors", **arguments):
    return l3a.extract(model, loader, WORK / name, NAMES, **{"progress": False, **arguments})


class Features(unittest.TestCase):
    def test_of_a_model_of_timm(self):
        images, labels = pictures()
        model = LikeTimm()
        names = [f"{i}.jpg" for i in range(len(images))]
        made = extract(model, batches(images, torch.from_numpy(labels), names))
        tensors, metadata = feature_file.load(WORK / "made.safetensors")
        model.eval()
        with torch.no_grad():
            expected = model.forward_features(images).mean((2, 3)).numpy()
        numpy.testing.assert_allclose(tensors["features"], expected, rtol=1e-5, atol=1e-6)
        numpy.testing.assert_array_equal(tensors["labels"], labels)
        self.assertEqual(tensors["ids"].tobytes().decode().split("\n"), names)
        self.assertEqual(metadata["classes"].split("\n"), NAMES)
        self.assertEqual((metadata["backbone"], metadata["pool"], len(metadata["sha256"])), ("like_timm_s", "pre-logits", 64))
        self.assertNotIn("preprocess", metadata)
        self.assertEqual((made.rows, made.width, made.path), (90, 12, str(WORK / "made.safetensors")))
        self.assertEqual(made.records["sha256"], metadata["sha256"])

    def test_of_a_model_without_a_classifier(self):
        images, labels = pictures()
        model = torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten())
        extract(model, batches(images, labels))
        tensors, metadata = feature_file.load(WORK / "made.safetensors")
        numpy.testing.assert_allclose(tensors["features"], images.reshape(90, 3, 2, 8, 2, 8).mean((3, 5)).reshape(90, 12), atol=1e-6)
        self.assertEqual((metadata["pool"], metadata["backbone"]), ("output", "Sequential"))
        self.assertNotIn("ids", tensors)

    def test_of_the_input_of_a_layer(self):
        images, labels = pictures()
        model = LikeTorchvision().eval()
        with torch.no_grad():
            expected = model.features(images).flatten(1).numpy()
        for layer in (None, "classifier", "classifier.1"):
            extract(model, batches(images, labels), layer=layer)
            tensors, metadata = feature_file.load(WORK / "made.safetensors")
            numpy.testing.assert_allclose(tensors["features"], expected, rtol=1e-5, atol=1e-6)
            self.assertEqual(metadata["pool"], f"input of {layer or 'classifier.1'}")
        self.assertEqual(sum(len(module._forward_pre_hooks) for module in model.modules()), 0)

    def test_the_model_is_left_as_it_was(self):
        images, labels = pictures()
        model = LikeTimm().train()
        model.norm.eval()  # a frozen layer in a network that is trained
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        extract(model, batches(images, labels))
        first = feature_file.load(WORK / "made.safetensors")[0]["features"]
        self.assertEqual((model.training, model.drop.training, model.norm.training), (True, True, False))
        self.assertTrue(all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items()))
        self.assertTrue(all(p.grad is None for p in model.parameters()))
        extract(model, batches(images, labels))  # without dropout, twice the same
        numpy.testing.assert_array_equal(feature_file.load(WORK / "made.safetensors")[0]["features"], first)

    def test_as_float16(self):
        images, labels = pictures()
        extract(LikeTimm(), batches(images, labels))
        single = feature_file.load(WORK / "made.safetensors")[0]["features"]
        extract(LikeTimm(), batches(images, labels), half=True)
        halves = feature_file.load(WORK / "made.safetensors")[0]["features"]
        self.assertEqual(halves.dtype, numpy.float16)
        numpy.testing.assert_array_equal(halves, single.astype(numpy.float16))

    def test_of_views(self):
        images, labels = pictures(32)
        views = torch.stack([images, *(images.roll(i, 2) * (1 + i / 10) for i in range(1, 6))], 1)
        extract(LikeTimm(), batches(views, labels), "views.safetensors")
        tensors, metadata = feature_file.load(WORK / "views.safetensors")
        self.assertEqual((tensors["features"].shape, metadata["views"]), ((32, 6, 12), "5"))
        extract(LikeTimm(), batches(views[:, 2], labels), "one.safetensors")
        one = feature_file.load(WORK / "one.safetensors")[0]["features"]
        numpy.testing.assert_allclose(tensors["features"][:, 2], one, rtol=1e-5, atol=1e-6)

    def test_all_kinds_of_labels(self):
        images, _ = pictures(8)
        rows = [[0], [1, 2], [], [3], [0, 1, 2, 3], [2], [1], [0]]
        matrix = numpy.array([[int(k in row) for k in range(4)] for row in rows], dtype=numpy.int8)
        unknown = matrix.copy()
        unknown[0, 3] = -1
        for given, expected in ((matrix, matrix), (matrix.astype(bool), matrix), (torch.from_numpy(matrix).float(), matrix), (rows, matrix),
                                ([[NAMES[k] for k in row] for row in rows], matrix), ([tuple(row) for row in rows], matrix),
                                ([set(row) for row in rows], matrix), ([torch.tensor(row, dtype=torch.long) for row in rows], matrix),
                                (torch.arange(8) % 4, numpy.eye(4, dtype=numpy.int8)[numpy.arange(8) % 4]), (unknown, unknown)):
            given = [item.numpy() if torch.is_tensor(item) else item for item in given] if isinstance(given, list) else given
            extract(LikeTimm(), [(images, given)])
            numpy.testing.assert_array_equal(feature_file.load(WORK / "made.safetensors")[0]["labels"], expected)

    def test_a_data_loader_with_workers(self):
        images, labels = pictures(40)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, torch.from_numpy(labels)), batch_size=16, num_workers=1)
        self.assertEqual(extract(LikeTimm(), loader).rows, 40)

    def test_records_say_which_network_it_was(self):
        images, labels = pictures(8)
        one = extract(LikeTimm(), [(images, labels)]).records
        self.assertEqual(extract(LikeTimm(), [(images, labels)]).records, one)
        other = LikeTimm()
        with torch.no_grad():
            other.stem.weight[0, 0, 0, 0] += 1e-3
        self.assertNotEqual(extract(other, [(images, labels)]).records["sha256"], one["sha256"])
        extract(LikeTimm().to(torch.bfloat16).float(), [(images, labels)], backbone="mine", preprocess="grey", records={"sha256": "0" * 64})
        metadata = feature_file.load(WORK / "made.safetensors")[1]
        self.assertEqual([metadata[key] for key in ("backbone", "preprocess", "sha256")], ["mine", "grey", "0" * 64])
        self.assertEqual(len(_extract.fingerprint(LikeTimm().to(torch.bfloat16))), 64)


class Used(unittest.TestCase):
    """The files work with everything that takes features."""
    @classmethod
    def setUpClass(cls):
        for name, seed in (("train", 0), ("test", 1)):
            images, labels = pictures(300, seed)
            extract(LikeTimm(), batches(images, labels, [f"{name}/{i}" for i in range(300)]), f"{name}.safetensors", half=name == "test")

    def test_by_run(self):
        made = l3a.run(WORK / "train.safetensors", WORK / "test.safetensors", "B0-C2", dim=64, gamma=1, threads=1, progress=False)
        self.assertTrue(made.finished)
        self.assertEqual(made.record["run"]["train"]["backbone"], "like_timm_s")
        self.assertGreater(made._summary[0]["last_mAP"], 55)  # a network that saw nothing would have 44

    def test_by_the_commands(self):
        model = WORK / "model.safetensors"
        for classes in ("cat,dog", "horse,sheep"):
            done = command("learn", model, "--features", WORK / "train.safetensors", "--classes", classes, "--dim", "64", "--threads", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
        done = command("eval", model, "--features", WORK / "test.safetensors", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = command("predict", model, "--features", WORK / "test.safetensors", "--format", "csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("test/0", next(csv.reader(done.stdout.splitlines()[1:])))
        done = command("info", WORK / "train.safetensors")
        self.assertIn("like_timm_s", done.stdout)
        images, labels = pictures(20)
        other = LikeTimm()
        other.stem.weight.data += 1
        extract(other, [(images, labels)], "other.safetensors")
        done = command("eval", model, "--features", WORK / "other.safetensors")
        self.assertEqual(done.returncode, 2)
        self.assertIn("sha256", done.stderr)


class Failures(unittest.TestCase):
    def fails(self, status, part, model=None, loader=None, **arguments):
        images, labels = pictures(8)
        path = WORK / "failed.safetensors"
        before = set(os.listdir(WORK))
        with self.assertRaises(l3a.Error) as caught:
            l3a.extract(model or LikeTimm(), [(images, labels)] if loader is None else loader,
                        **{"path": path, "classes": NAMES, "progress": False, **arguments})
        self.assertEqual(caught.exception.status.name, status)
        self.assertIn(part, caught.exception.text)
        self.assertTrue(caught.exception.hint or status == "ERROR_CANCELLED")
        self.assertEqual(set(os.listdir(WORK)), before)  # nothing is left behind

    def test_say_what_is_wrong_and_leave_nothing(self):
        images, labels = pictures(8)
        self.fails("ERROR_DATA", "no pictures", loader=[])
        self.fails("ERROR_DATA", "(pictures, labels)", loader=[images])
        self.fails("ERROR_DATA", "for a batch", model=torch.nn.Conv2d(3, 4, 3))
        self.fails("ERROR_ARGUMENT", "no module 'hed'", layer="hed")
        self.fails("ERROR_CLASS", "'cow'", loader=[(images, [["cow"]] * 8)])
        self.fails("ERROR_CLASS", "4", loader=[(images, torch.full((8,), 4))])
        self.fails("ERROR_MISMATCH", "labels of shape", loader=[(images, labels[:, :3])])
        self.fails("ERROR_MISMATCH", "labels of shape", loader=[(images, labels[:3])])
        self.fails("ERROR_DATA", "1 (present)", loader=[(images, labels * 2)])
        self.fails("ERROR_DATA", "names", loader=[(images, labels, ["one"])])
        self.fails("ERROR_DATA", "names", loader=[(images, labels, list("abcdefgh")), (images, labels)])
        self.fails("ERROR_DATA", "line break", loader=[(images, labels, ["a\nb"] + list("bcdefgh"))])
        self.fails("ERROR_CLASS", "name", classes=["a", "a", "b", "c"])
        self.fails("ERROR_CLASS", "name", classes=[])
        self.fails("ERROR_ARGUMENT", "list", classes="cat")
        self.fails("ERROR_ARGUMENT", "xxh3.features", records={"xxh3.features": "0"})
        self.fails("ERROR_NOT_FOUND", "nowhere", path=WORK / "nowhere/f.safetensors")
        self.fails("ERROR_CANCELLED", "8 images", progress=lambda event: event.done == 1)

    def test_numbers_that_cannot_be_learned(self):
        images, labels = pictures(8)
        broken = images.clone()
        broken[5, 1] = float("nan")
        self.fails("ERROR_DATA", "row 5", loader=[(broken, labels)])
        self.fails("ERROR_DATA", "failed.safetensors", loader=[(broken, labels)])  # not the temporary file
        self.fails("ERROR_DATA", "float16", loader=[(images * 1e7, labels)], half=True)

    def test_views_that_differ(self):
        images, labels = pictures(8)
        self.fails("ERROR_MISMATCH", "shape", loader=[(images, labels), (torch.stack([images] * 6, 1), labels)])

    def test_what_a_model_or_loader_raises_is_raised(self):
        def loader():
            yield pictures(8)
            raise RuntimeError("the disk is gone")
        (WORK / "kept.safetensors").write_text("what was there")
        with self.assertRaisesRegex(RuntimeError, "the disk is gone"):
            extract(LikeTimm(), loader(), "kept.safetensors")
        self.assertEqual((WORK / "kept.safetensors").read_text(), "what was there")
        self.assertFalse([name for name in os.listdir(WORK) if name.startswith(".")])

    def test_without_torch(self):
        model = LikeTimm()
        with mock.patch.dict(sys.modules, {"torch": None}):
            with self.assertRaisesRegex(ImportError, r"l3a.extract\(\) needs torch; install it with"):
                extract(model, [])


if __name__ == "__main__":
    unittest.main()
