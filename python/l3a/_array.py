"""Arrays of other libraries as the library wants them: features as rows of float32, labels as int8, each in one block of memory.

An array that is float32 and C-contiguous already is used where it is. Everything else is converted once: other types, other
orders, sparse matrices, data frames. A tensor on a GPU is copied to the processor's memory, which is where the library takes rows
from, even if it learns on that GPU."""
import os
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy

from ._declarations import Status
from ._error import make_error

CPU = 1  # kDLCPU


def problem(text: str, hint: str = "") -> Exception:
    """A ValueError."""
    return make_error(Status.ERROR_DATA, text, hint)


def is_sparse(values: Any) -> bool:
    return hasattr(values, "toarray") and hasattr(values, "nnz")


def from_device(values: Any) -> Any:
    """A NumPy array that shares the memory of an object with __dlpack__, or a copy if that memory is a GPU's."""
    if getattr(values, "requires_grad", False):
        values = values.detach()
    if values.__dlpack_device__()[0] != CPU:
        for to_host in ("cpu", "get"):  # PyTorch, CuPy
            if hasattr(values, to_host):
                return as_array(getattr(values, to_host)())
        raise problem(f"{type(values).__name__}: the memory of its device cannot be read", "move it to the processor's memory first")
    try:
        return numpy.from_dlpack(values)
    except (AttributeError, BufferError, RuntimeError, TypeError):
        return numpy.asarray(values)


def as_array(values: Any) -> Any:
    """A NumPy array of whatever it is, without a copy where possible."""
    if isinstance(values, numpy.ndarray):
        return values
    if is_sparse(values):
        return values.toarray()
    if hasattr(values, "__dlpack_device__"):
        return from_device(values)
    return numpy.asarray(values)


def feature_rows(values: Any, dims: Tuple[int, ...] = (2,)) -> Any:
    """Features as C-contiguous float32. Says what is wrong in the words that scikit-learn uses."""
    if type(values) is numpy.ndarray and values.dtype == numpy.float32 and values.ndim in dims and values.flags.c_contiguous:
        found = values
    else:
        found = as_array(values.astype(numpy.float32) if is_sparse(values) else values)
        if found.dtype.kind == "c":
            raise problem("Complex data not supported")
        if found.ndim not in dims:
            raise problem(f"Expected 2D array, got {found.ndim}D array instead: features have a row for each image",
                          "Reshape your data: array.reshape(1, -1) if it is a single image")
        try:
            with numpy.errstate(over="ignore"):
                found = numpy.ascontiguousarray(found, dtype=numpy.float32)
        except (TypeError, ValueError) as error:
            if isinstance(error, TypeError):
                raise TypeError(f"features must be numbers: {error}") from None
            raise problem(f"features must be numbers: {error}") from None
    if not found.shape[0]:
        raise problem(f"Found array with 0 sample(s) (shape={found.shape}) while a minimum of 1 is required.")
    if not found.shape[-1]:
        raise problem(f"Found array with 0 feature(s) (shape={found.shape}) while a minimum of 1 is required.")
    if found.ndim == 3 and found.shape[1] < 3:
        raise problem(f"features with views have a row for the whole picture and one for each of several crops, not {found.shape[1]} "
                      f"(shape={found.shape})", "For the whole pictures alone, use array[:, 0]")
    return found


class Labels(NamedTuple):
    """[rows x classes] of 1, 0 and -1, the class of each column, and whether each row has exactly one."""
    matrix: Any
    classes: List[Any]
    single: bool


def _is_label_sets(given: Any) -> bool:
    """Whether each item is a collection of classes: a set, or a list or tuple that is not a row of zeros and ones."""
    if isinstance(given, numpy.ndarray) and given.dtype != object or hasattr(given, "columns") or is_sparse(given):
        return False
    try:
        items = list(given)
    except TypeError:
        return False
    if not items or not all(isinstance(item, (set, frozenset, list, tuple)) for item in items):
        return False
    if any(isinstance(item, (set, frozenset)) for item in items):
        return True
    if any(isinstance(part, str) for item in items for part in item):
        return True
    return len({len(item) for item in items}) > 1


def _from_sets(given: Sequence[Any], classes: Optional[Sequence[Any]]) -> Labels:
    shown = {name for item in given for name in item}
    listed = list(classes) if classes is not None else sort_classes(shown)
    column = {name: k for k, name in enumerate(listed)}
    matrix = numpy.zeros((len(given), len(listed)), dtype=numpy.int8)
    for row, item in enumerate(given):
        for name in item:
            if name in column:  # other classes are of other phases
                matrix[row, column[name]] = 1
    return Labels(matrix, listed, False)


def sort_classes(classes: Any) -> List[Any]:
    try:
        return sorted(classes)
    except TypeError:
        return sorted(classes, key=str)


def _from_column(given: Any, classes: Optional[Sequence[Any]]) -> Labels:
    """One class for each row."""
    if given.dtype.kind == "f" and given.size and not numpy.isfinite(given).all():
        raise problem("Input y contains NaN or infinity")
    if given.dtype.kind == "f" and (given != numpy.floor(given)).any():
        raise problem("Unknown label type: 'continuous': classes are names or whole numbers")
    try:
        found, column = numpy.unique(given, return_inverse=True)
    except TypeError:
        raise problem("Unknown label type: a mixture of types that cannot be sorted") from None
    listed = list(classes) if classes is not None else list(found)
    matrix = numpy.zeros((len(given), len(listed)), dtype=numpy.int8)
    place = {name: k for k, name in enumerate(listed)}
    where = numpy.array([place.get(name, -1) for name in found.tolist()], dtype=numpy.intp)[column]
    known = where >= 0
    matrix[numpy.nonzero(known)[0], where[known]] = 1
    return Labels(matrix, listed, True)


def _from_matrix(given: Any, classes: Optional[Sequence[Any]]) -> Labels:
    listed = list(classes) if classes is not None else list(range(given.shape[1]))
    if len(listed) != given.shape[1]:
        raise problem(f"{len(listed)} classes are listed, but the labels have {given.shape[1]} columns")
    if given.dtype == numpy.int8 and given.flags.c_contiguous:
        return Labels(given, listed, False)
    if given.dtype.kind not in "biuf" or (given.dtype.kind != "b" and not numpy.isin(given, (-1, 0, 1)).all()):
        raise problem("labels must be 1 (present), 0 (absent) or -1 (unknown)")
    return Labels(numpy.ascontiguousarray(given, dtype=numpy.int8), listed, False)


def label_matrix(given: Any, classes: Optional[Sequence[Any]] = None) -> Labels:
    """Labels in any of the usual forms: one class per row, sets of classes, a matrix with a column for each class (also sparse, or
    a data frame whose columns are the classes)."""
    if given is None:
        raise problem("requires y to be passed, but the target y is None")
    if isinstance(classes, str):
        raise problem("classes must be a list of names, not a text", f"give [{classes!r}] for one class")
    if isinstance(given, Iterator):  # which can be read only once
        given = list(given)
    if _is_label_sets(given):
        return _from_sets(list(given), classes)
    if hasattr(given, "dtypes") and hasattr(given, "columns"):
        given, classes = _of_frame(given, classes)
    found = as_array(given)
    if found.dtype.kind == "c":
        raise problem("Complex data not supported")
    if found.ndim == 2 and found.shape[1] == 1 and (classes is None or len(classes) != 1):
        _warn_of_column()
        found = found[:, 0]
    if found.ndim == 1:
        return _from_column(found, classes)
    if found.ndim == 2:
        return _from_matrix(found, classes)
    raise problem(f"bad input shape {found.shape}: labels have a row for each image")


def _of_frame(given: Any, classes: Optional[Sequence[Any]]) -> Tuple[Any, Sequence[Any]]:
    """The columns of a data frame that are wanted, and their names."""
    if classes is None:
        return given, list(given.columns)
    missing = [name for name in classes if name not in given.columns]
    if missing:
        raise problem(f"the labels have no column {missing[0]!r}", "name columns of the data frame")
    return given[list(classes)], list(classes)


def _warn_of_column() -> None:
    import warnings
    try:
        from sklearn.exceptions import DataConversionWarning as category
    except ImportError:
        category = UserWarning
    warnings.warn("A column-vector y was passed when a 1d array was expected: it is read as one class for each row.", category,
                  stacklevel=5)


def from_npz(path: Any) -> Tuple[Any, Any, Optional[List[str]]]:
    """Features, labels and classes of an .npz file: its arrays `features` (or `X`), `labels` (or `Y`, `y`) and `classes`."""
    with numpy.load(path, allow_pickle=False) as file:
        if "indptr" in file.files:  # of scipy.sparse.save_npz
            from scipy.sparse import load_npz
            return load_npz(path), None, None

        def first(*names: str) -> Any:
            return next((file[name] for name in names if name in file.files), None)
        features, labels, classes = first("features", "X", "arr_0"), first("labels", "Y", "y", "arr_1"), first("classes")
    if features is None:
        raise problem(f"{os.fspath(path)}: no array 'features'", "name the arrays features, labels and classes")
    return features, labels, None if classes is None else [str(name) for name in classes]
