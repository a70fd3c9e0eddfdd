"""Runs that begin with pictures: their features are extracted to a cache, unless they are there, and the backbone can be adapted to
the first phase before. What ``l3a run --data`` does, with the same names."""
import ctypes
import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ._array import problem
from ._declarations import (l3a_adapt_options, l3a_backbone_training, l3a_cache_options, l3a_dataset_options, l3a_extract_options,
                            l3a_extract_report, l3a_picture_options, l3a_train_options, l3a_train_plan)
from ._library import Context, Handle, decode, encode, path_bytes, setting_text, sized
from ._network import Choices, choice, network_options

NETWORK: Mapping[str, Any] = {"pool": None, "side": 0, "mean": None, "std": None, "filter": None, "preprocess": "squash",
                              "heads": 0, "activation": None, "layer": 0, "backbone_precision": None}
OPTIONS: Mapping[str, Any] = {"split": None, "test_data": None, "test_split": None, "difficult": "absent", "orient": False,
                              "strict": False, "half": None, "cache": None, "cache_size": 20.0, "adapt": "none", "adapt_seed": None,
                              "adapt_epochs": 0, "adapt_rate": 0.0, **NETWORK}
_DIFFICULT: Choices = {"absent": 0, "ignore": 1}
_ADAPT: Choices = {"none": 0, "released": 1, "norms": 2, "all": 3}
_NAMES = {"side": "size"}  # what the command calls them


class Pictures:
    """Where the tables of a run come from."""

    def __init__(self, data: str, backbone: Any, given: Dict[str, Any]) -> None:
        """Takes its own options out of those given; what stays are settings."""
        if backbone is None:
            raise problem("a run on pictures needs a network", "give the path of a checkpoint as backbone")
        self.data, self.backbone = data, backbone
        self.given = {name: given.pop(name) for name in list(given) if name in OPTIONS}
        self.options: Dict[str, Any] = {**OPTIONS, **self.given}
        self.network = network_options(*(self.options[name] for name in NETWORK))
        self.picture = sized(l3a_picture_options, orient=int(self.options["orient"]))
        self.difficult = choice("difficult", _DIFFICULT, self.options["difficult"])
        self.how = self.options["adapt"] if choice("adapt", _ADAPT, self.options["adapt"]) else None
        if not self.options["cache_size"] > 0:
            raise problem(f"cache_size is {self.options['cache_size']!r}", "give a number of GiB above 0")
        self.adapted: Optional[bytes] = None  # how the backbone was adapted
        self.training: Any = None  # what methods look at that train the backbone

    def words(self) -> List[str]:
        """The options of the command."""
        words = ["--data", self.data, "--backbone", os.fsdecode(self.backbone)]
        for name, value in self.given.items():
            option = "--" + _NAMES.get(name, name).replace("_", "-")
            if name == "half":
                words += [] if value is None else ["--float16" if value else "--float32"]
            elif name == "cache" and value is False:
                words.append("--no-cache")
            elif value is True:
                words.append(option)
            elif value is not None and value is not False:
                several = isinstance(value, (tuple, list))
                words += [option, ",".join(map(setting_text, value)) if several else setting_text(value)]
        return words

    def _open_datasets(self, context: Context) -> List[Handle]:
        names, reading = [], sized(l3a_dataset_options, ignore_difficult=self.difficult)
        for data in (self.data, self.options["test_data"] or self.data):
            usual = [ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)]
            context.call("l3a_dataset_usual_splits", encode(data), *usual, 256)
            names.append((data, *(decode(split.value) for split in usual)))
        chosen = [self.options["split"] or names[0][1], self.options["test_split"] or names[1][2]]
        if not chosen[1] and not self.options["test_data"]:
            raise problem(f"{self.data} does not say which pictures to measure on",
                          "name a split with test_split, or another data set with test_data")
        return [context.make("l3a_dataset_free", "l3a_dataset_open", encode(name[0]), encode(split) if split else None,
                             ctypes.byref(reading)) for name, split in zip(names, chosen)]

    def _adapt(self, context: Context, dataset: Handle, folder: str, protocol: str, orders: Sequence[str], seed: int,
               resume: bool) -> bytes:
        """The path of the adapted checkpoint."""
        if len(orders) > 1:
            raise problem("adapt trains on the first phase, and there is one for each of the class orders",
                          "run each class order by itself")
        seed = seed if self.options["adapt_seed"] is None else self.options["adapt_seed"]
        training = sized(l3a_train_options, seed=seed, epochs=self.options["adapt_epochs"], rate=self.options["adapt_rate"],
                         resume=1)
        network = network_options(*("float32" if name == "backbone_precision" else self.options[name] for name in NETWORK))
        training.backbone, training.picture = ctypes.addressof(network), ctypes.addressof(self.picture)
        options = sized(l3a_adapt_options, how=encode(self.how), protocol=encode(protocol), class_order=encode(orders[0]),
                        keep=int(resume))
        options.training = ctypes.addressof(training)
        plan, path = sized(l3a_train_plan), Path(folder) / "adapted.safetensors"
        given = (path_bytes(self.backbone), dataset.handle, ctypes.byref(options))
        context.call("l3a_adapt_prepare", *given, ctypes.byref(plan))
        self.adapted = plan.settings + b", seed %d" % seed
        Path(folder).mkdir(exist_ok=True)
        context.call("l3a_adapt", *given, path_bytes(path), None)
        return path_bytes(path)

    def _offer(self, checkpoint: bytes, datasets: Sequence[Handle]) -> None:
        """What methods look at that train the backbone."""
        network = network_options(*("float32" if name == "backbone_precision" else self.options[name] for name in NETWORK))
        self.training = sized(l3a_backbone_training, checkpoint=checkpoint, train=datasets[0].handle, test=datasets[1].handle)
        self.training.backbone, self.training.picture = ctypes.addressof(network), ctypes.addressof(self.picture)
        self._kept = network, datasets

    def open(self, context: Context, folder: str, views: Sequence[int], protocol: str, orders: Sequence[str], seed: int,
             resume: bool, features: bool) -> Tuple[Handle, Handle]:
        """The tables to learn from and to measure on. views: of each. features: a method looks at them, and not at the pictures."""
        datasets = self._open_datasets(context)
        checkpoint = path_bytes(self.backbone)
        if self.how is not None:
            checkpoint = self._adapt(context, datasets[0], folder, protocol, orders, seed, resume)
        self._offer(checkpoint, datasets)
        backbone = context.make("l3a_backbone_free", "l3a_backbone_open", checkpoint, ctypes.byref(self.network))
        if not features:
            blank = [context.make("l3a_features_free", "l3a_features_blank", backbone.handle, dataset.handle, 1, self.picture.orient)
                     for dataset in datasets]
            backbone.free()
            return blank[0], blank[1]
        cache = sized(l3a_cache_options, limit=int(self.options["cache_size"] * 2 ** 30))
        own = self.options["cache"]
        if own is False:
            cache.folder, cache.limit = path_bytes(os.path.join(folder, "features")), 2 ** 64 - 1
        elif own is not None:
            cache.folder = path_bytes(own)
        tables = []
        for dataset, count in zip(datasets, views):
            half = count > 1 if self.options["half"] is None else self.options["half"]
            options = sized(l3a_extract_options, half=int(half), strict=int(self.options["strict"]), views=count)
            options.picture = ctypes.addressof(self.picture)
            report = sized(l3a_extract_report)
            tables.append(context.make("l3a_features_free", "l3a_extract_cached", backbone.handle, dataset.handle,
                                       ctypes.byref(options), ctypes.byref(cache), ctypes.byref(report)))
            if report.bad:
                context.on_warning(f"{report.bad} pictures could not be read and were skipped")
        backbone.free()
        return tables[0], tables[1]


__all__ = ["OPTIONS", "Pictures"]
