"""Methods of one's own: objects of Python that run beside the methods of the library."""
import ctypes
import json
import sys
from copy import deepcopy
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy

from ._declarations import (Number, Status, l3a_method, l3a_method_create, l3a_method_explain, l3a_method_free, l3a_method_learn,
                            l3a_method_load, l3a_method_phase, l3a_method_room, l3a_method_save, l3a_method_score,
                            l3a_method_thresholds)
from ._error import make_error
from ._library import Context, decode, encode, library, sized

_TYPES = {"float32": Number.FLOAT32, "float64": Number.FLOAT64, "int8": Number.INT8, "uint8": Number.UINT8, "int64": Number.INT64}
_NAMES = {number: name for name, number in _TYPES.items()}


def _array(address: int, shape: Tuple[int, ...], kind: Any) -> Any:
    """The library's memory as an array, for as long as the library keeps it."""
    count = int(numpy.prod(shape, dtype=numpy.int64))
    if not count:
        return numpy.empty(shape, kind)
    return numpy.frombuffer((ctypes.c_char * (count * numpy.dtype(kind).itemsize)).from_address(address), kind).reshape(shape)


def _kept(address: int, shape: Tuple[int, ...], kind: Any) -> Any:
    """A copy of the library's memory, which nobody can change."""
    made = _array(address, shape, kind).copy()
    made.flags.writeable = False
    return made


class _Learner:
    """A copy of the method, for one seed and class order."""

    def __init__(self, method: Any, width: int) -> None:
        self.method, self.width, self.classes = method, width, 0
        self.row: Tuple[int, ...] = (width,)  # the shape of an image's features
        self.room: Any = None
        self.block: Any = None
        self.saved: List[Any] = []  # alive until the library has written them

    def lend(self, address: int, images: int) -> Any:
        """Features of the library's, copied to memory that is used again unless the method has kept what it got before."""
        if self.block is None or self.block.shape[1:] != self.row or len(self.block) < images or sys.getrefcount(self.block) > 2:
            self.block = numpy.empty((images, *self.row), numpy.float32)
        lent = self.block[:images]
        lent[...] = _array(address, lent.shape, numpy.float32)
        lent.flags.writeable = False
        return lent


class OwnMethod:
    """What the library sees of a method: a table of callbacks. Nothing is raised through the library: an exception is kept, and the
    callback says that it failed."""

    def __init__(self, method: Any, context: Context) -> None:
        self.method, self.context = method, context
        self.name = method_name(method)
        self.failure: Optional[BaseException] = None
        self._learners: Dict[int, _Learner] = {}
        self._text = (encode(self.name), _parameters(method))
        blocks = hasattr(method, "learn_block")
        if blocks == hasattr(method, "learn"):
            raise make_error(Status.ERROR_ARGUMENT, f"method {self.name!r} has " + ("both learn and learn_block" if blocks else "no learn"),
                             "write one of learn(features, labels, classes) and learn_block(features, labels, classes)")
        if not hasattr(method, "scores"):
            raise make_error(Status.ERROR_ARGUMENT, f"method {self.name!r} has no scores", "write scores(features)")
        if hasattr(method, "save") != hasattr(method, "load"):
            raise make_error(Status.ERROR_ARGUMENT, f"method {self.name!r} has save or load without the other", "write both or neither")
        self.table = sized(l3a_method, name=self._text[0], parameters=self._text[1], at_once=int(bool(getattr(method, "at_once", False))),
                           create=l3a_method_create(self._guard(self._create)), score=l3a_method_score(self._guard(self._score)),
                           free=l3a_method_free(self._free), explain=l3a_method_explain(self._explain))
        if blocks:
            self.table.learn_block = l3a_method_learn(self._guard(self._learn_block))
        else:
            self.table.learn = l3a_method_learn(self._guard(self._learn))
            self.table.room = l3a_method_room(self._guard(self._room))
        if hasattr(method, "thresholds"):
            self.table.thresholds = l3a_method_thresholds(self._guard(self._thresholds))
        if hasattr(method, "save"):
            self.table.save = l3a_method_save(self._guard(self._save))
            self.table.load = l3a_method_load(self._guard(self._load))

    def _guard(self, function: Callable[..., None]) -> Callable[..., int]:
        def guarded(*arguments: Any) -> int:
            try:
                with self.context.interruptible():
                    function(*arguments)
                return 0
            except BaseException as raised:
                self.failure = raised
                return 1
        return guarded

    def _create(self, user: Any, seed: int, width: int, made: int) -> None:
        method = deepcopy(self.method)
        if hasattr(method, "begin"):
            method.begin(seed)
        learner = _Learner(method, width)
        self._learners[id(learner)] = learner
        ctypes.c_void_p.from_address(made).value = id(learner)

    def _free(self, learner: int) -> None:
        self._learners.pop(learner, None)

    def _explain(self, user: Any, text: int, capacity: int) -> None:
        said = f"{type(self.failure).__name__}: {self.failure}" if str(self.failure) else type(self.failure).__name__
        brief = encode(said)[:capacity - 1].decode(errors="ignore").encode() + b"\0"
        ctypes.memmove(text, brief, len(brief))

    def _phase(self, learner: int, address: int) -> Tuple[_Learner, Any, List[str]]:
        own, phase = self._learners[learner], ctypes.cast(address, ctypes.POINTER(l3a_method_phase)).contents
        own.row = (phase.width,) if phase.rows == 1 else (phase.rows, phase.width)
        own.classes = phase.last
        names = ctypes.cast(phase.classes, ctypes.POINTER(ctypes.c_char_p))
        return own, phase, [decode(names[k]) for k in range(phase.first, phase.last)]

    def _room(self, learner: int, phase: int, features: int) -> None:
        own, about, _ = self._phase(learner, phase)
        own.room = numpy.empty((about.images, *own.row), numpy.float32)
        ctypes.c_void_p.from_address(features).value = own.room.ctypes.data

    def _learn(self, learner: int, phase: int, features: int, labels: int, images: int) -> None:
        own, _, names = self._phase(learner, phase)
        rows, own.room = own.room, None
        rows.flags.writeable = False
        own.method.learn(rows, _kept(labels, (images, len(names)), numpy.int8), names)

    def _learn_block(self, learner: int, phase: int, features: int, labels: int, images: int) -> None:
        own, _, names = self._phase(learner, phase)
        if images:
            own.method.learn_block(own.lend(features, images), _kept(labels, (images, len(names)), numpy.int8), names)
        elif hasattr(own.method, "end_phase"):
            own.method.end_phase()

    def _score(self, learner: int, features: int, images: int, scores: int) -> None:
        own = self._learners[learner]
        made = numpy.asarray(own.method.scores(own.lend(features, images)))
        _check_shape("scores", made, (images, own.classes))
        _array(scores, made.shape, numpy.float32)[...] = made

    def _thresholds(self, learner: int, thresholds: int) -> None:
        own = self._learners[learner]
        made = numpy.asarray(own.method.thresholds(), numpy.float64)
        if made.ndim:
            _check_shape("thresholds", made, (own.classes,))
        _array(thresholds, (own.classes,), numpy.float64)[...] = made

    def _save(self, learner: int, state: int) -> None:
        own = self._learners[learner]
        own.saved = []
        for name, value in dict(own.method.save()).items():
            array = numpy.ascontiguousarray(value)
            if array.dtype.kind in "bui" and str(array.dtype) not in _TYPES:
                array = array.astype(numpy.int64)
            if str(array.dtype) not in _TYPES:
                raise TypeError(f"save: {name!r} has numbers of type {array.dtype}; give one of {', '.join(_TYPES)}")
            shape = (ctypes.c_uint64 * max(array.ndim, 1))(*numpy.shape(value))
            own.saved.append(array)
            self.context.call("l3a_state_put", state, encode(str(name)), _TYPES[str(array.dtype)], shape, numpy.ndim(value),
                              array.ctypes.data)

    def _load(self, learner: int, state: int) -> None:
        arrays: Dict[str, Any] = {}
        while True:
            found = library.l3a_state_at(state, len(arrays))
            if not found:
                break
            array = found.contents
            arrays[decode(array.name)] = _array(array.data, tuple(array.shape[:array.rank]), _NAMES[Number(array.type)]).copy()
        self._learners[learner].method.load(arrays)


def _check_shape(what: str, made: Any, wanted: Tuple[int, ...]) -> None:
    if made.shape != wanted:
        raise ValueError(f"{what} returned an array of shape {made.shape}, but {wanted} is needed")


def method_name(method: Any) -> str:
    if isinstance(method, type):
        raise make_error(Status.ERROR_ARGUMENT, f"{method.__name__} is a class, not a method", f"give an object: {method.__name__}()")
    return str(getattr(method, "name", type(method).__name__))


def _parameters(method: Any) -> Optional[bytes]:
    """All that the results of a method depend on: ``parameters``, or what scikit-learn's get_params() returns."""
    given = getattr(method, "parameters", None)
    if given is None and callable(getattr(method, "get_params", None)):
        given = method.get_params()
    if given is None:
        return None
    return encode(given if isinstance(given, str) else json.dumps(given, sort_keys=True, default=str))
