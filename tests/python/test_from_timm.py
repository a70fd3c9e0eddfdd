"""docs/from-timm.md, run as it stands, on drawn pictures. If timm is missing, a small network stands in for its own."""
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import support

support.need("numpy", "torch", "PIL")
import numpy
import torch

from l3a._declarations import l3a_draw_options
from l3a._library import Context, decode, library, path_bytes, sized

torch.set_num_threads(1)
NAMES = ["cat", "dog", "horse", "sheep"]


class Network(torch.nn.Module):
    """Colours and edges in the whole picture and in its quarters, by a convolution that was not trained."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.conv = torch.nn.Conv2d(3, 48, 9, stride=4)
        self.num_features = 48 * 5

    def forward_features(self, pictures):
        return torch.relu(self.conv(pictures))

    def forward_head(self, features, pre_logits=False):
        return torch.cat([torch.nn.functional.adaptive_max_pool2d(features, size).flatten(1) for size in (1, 2)], 1)

    def forward(self, pictures):
        return self.forward_head(self.forward_features(pictures))


def stand_in():
    """A module with the functions of timm that the page calls."""
    timm = types.ModuleType("timm")

    def create_model(name, pretrained=False, num_classes=1000):
        assert pretrained and num_classes == 0, "the page uses a trained network without its classifier"
        return Network()

    def create_transform(input_size, mean, std, **_):
        def transform(picture):
            array = numpy.asarray(picture.resize(input_size[1:][::-1]), dtype="float32") / 255
            return torch.from_numpy((array - numpy.array(mean, "float32")) / numpy.array(std, "float32")).permute(2, 0, 1)
        return transform

    timm.create_model = create_model
    timm.data = types.SimpleNamespace(create_transform=create_transform, resolve_model_data_config=lambda model: {
        "input_size": (3, 96, 96), "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)})
    return timm


def draw(folder, training=240, test=90):
    """train.csv and test.csv with drawn pictures; four classes of theirs stand for those of the page."""
    context = Context(threads=1)
    context.call("l3a_draw_dataset", ctypes.byref(sized(l3a_draw_options, training=training, test=test)), path_bytes(folder / "drawn"))
    for name, split in (("train", b"trainval"), ("test", b"test")):
        dataset = context.make("l3a_dataset_free", "l3a_dataset_open", b"voc:" + path_bytes(folder / "drawn"), split, None)
        count, rows = library.l3a_dataset_class_count(dataset.handle), library.l3a_dataset_rows(dataset.handle)
        pointer = ctypes.cast(library.l3a_dataset_labels(dataset.handle), ctypes.POINTER(ctypes.c_int8))
        labels = numpy.ctypeslib.as_array(pointer, (rows, count))
        if name == "train":
            chosen = numpy.argsort(-labels.sum(0))[:4]  # the most frequent
        lines = ["path,labels"]
        for row in range(rows):
            shown = [NAMES[k] for k in range(4) if labels[row, chosen[k]] == 1]
            if shown:
                lines.append(f"{decode(library.l3a_dataset_path(dataset.handle, row))},{';'.join(shown)}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def blocks(kind):
    page = (support.SOURCE / "docs/from-timm.md").read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```$", page, flags=re.M | re.S)


def main():
    try:
        import timm
        timm.create_model("resnet18", pretrained=True)
    except Exception:  # it is missing, or cannot get the parameters
        print("timm is missing, or has no parameters: a network of this test stands in for it")
        sys.modules["timm"] = stand_in()
    first, second = blocks("python")
    written = [line for line in first.splitlines() if line.strip()]
    assert len(written) <= 15, f"{len(written)} lines"
    folder = Path(tempfile.mkdtemp())
    try:
        draw(folder)
        os.chdir(folder)
        space = {"__name__": "page"}
        exec(compile(first, "docs/from-timm.md", "exec"), space)
        check(space["tagger"], folder)
        command = blocks("sh")[0]
        said = subprocess.run(["bash", "-e", "-c", command], check=True, capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{support.BUILD}:{os.environ['PATH']}"}).stdout
        assert ".jpg" in said and "sheep" in said, said
        try:
            import matplotlib
            matplotlib.use("agg")
        except ImportError:
            print("skipped: the Python module matplotlib is missing, so the chart of the page is not drawn")
            second = re.sub(r"^run\.plot.*\n", "", second, flags=re.M)
        exec(compile(second, "docs/from-timm.md", "exec"), {"__name__": "page"})
        assert "l3a+" in Path("table.tex").read_text()
        assert not matplotlib_there() or Path("phases.png").stat().st_size > 5000
    finally:
        os.chdir("/")
        shutil.rmtree(folder)


def matplotlib_there():
    return "matplotlib" in sys.modules


def check(tagger, folder):
    """It learned all four classes, in two phases, and knows more than how frequent they are."""
    assert tagger.classes_.tolist() == NAMES, tagger.classes_
    assert [phase.classes for phase in tagger.phases_] == [NAMES[:2], NAMES[2:]]
    rows = [line.split(",")[1].split(";") for line in (folder / "test.csv").read_text().splitlines()[1:]]
    chance = 100 * sum(map(len, rows)) / len(rows) / 4
    found = tagger.evaluate("test.safetensors").mean_ap
    print(f"mAP {found:.1f}, of pictures in any order {chance:.1f}")
    assert found > chance + 10, (found, chance)


main()
