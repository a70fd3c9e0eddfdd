"""What the options about a network and its pictures are called, which several functions have."""
from typing import Any, Iterable, List, Mapping, Optional, Union

from ._array import problem
from ._declarations import Activation, Filter, NetworkPrecision, Pool, l3a_backbone_options
from ._library import sized

Channels = Union[float, Iterable[float]]  # one number, or one for each of red, green and blue
Choices = Mapping[Optional[str], int]
_POOLS: Choices = {None: Pool.DEFAULT, "cls": Pool.CLS, "mean": Pool.MEAN, "cls+mean": Pool.CLS_MEAN, "max": Pool.MAX,
                   "map": Pool.MAP, "projection": Pool.PROJECTION}
_FILTERS: Choices = {None: Filter.BILINEAR, "bilinear": Filter.BILINEAR, "bicubic": Filter.BICUBIC}
_ACTIVATIONS: Choices = {None: Activation.DEFAULT, "gelu": Activation.GELU, "quick_gelu": Activation.QUICK_GELU,
                         "tanh_gelu": Activation.TANH_GELU}
_PRECISIONS: Choices = {None: NetworkPrecision.USUAL, "float32": NetworkPrecision.FLOAT32, "bf16": NetworkPrecision.BF16,
                        "float16": NetworkPrecision.FLOAT16}
_WAYS: Choices = {"squash": 0, "checkpoint": 1}


def choice(name: str, values: Choices, value: Optional[str]) -> int:
    if value not in values:
        known = [repr(known) for known in values if known is not None]
        raise problem(f"{name} is {value!r}", f"use {', '.join(known[:-1])} or {known[-1]}")
    return int(values[value])


def _channels(name: str, value: Channels) -> List[float]:
    numbers = [float(number) for number in value] if isinstance(value, Iterable) else [float(value)] * 3
    if len(numbers) != 3:
        raise problem(f"{name} has {len(numbers)} numbers", "give one, or one for each of red, green and blue")
    return numbers


def network_options(pool: Optional[str], side: int, mean: Optional[Channels], std: Optional[Channels], filter: Optional[str],
                    preprocess: str, heads: int, activation: Optional[str], layer: int, backbone_precision: Optional[str]) -> Any:
    """The options of the library, from those of :meth:`l3a.Tagger.create`."""
    network = sized(l3a_backbone_options, pool=choice("pool", _POOLS, pool), side=side, heads=heads, layer=layer,
                    filter=choice("filter", _FILTERS, filter), activation=choice("activation", _ACTIVATIONS, activation),
                    precision=choice("backbone_precision", _PRECISIONS, backbone_precision),
                    published=choice("preprocess", _WAYS, preprocess))
    if preprocess == "checkpoint" and filter is not None:
        raise problem("preprocess='checkpoint' takes the filter from the checkpoint's configuration", "leave out filter")
    if (mean is None) != (std is None):
        raise problem("mean and std must be given together", "give both, each as one number or three")
    if mean is not None and std is not None:
        network.mean[:], network.deviation[:] = _channels("mean", mean), _channels("std", std)
        if min(network.deviation) <= 0:
            raise problem(f"std is {std!r}", "a standard deviation is positive")
    return network
