"""L3A: teach a multi-label classifier new classes, phase after phase, in closed form.

- :class:`Tagger` tags pictures, and learns new tags from pictures.
- :class:`Library` remembers the pictures below some folders, and finds them by what they show.
- :class:`L3AClassifier` and :class:`JointRidge` learn from features, as scikit-learn estimators.
- :func:`run` and :func:`sweep` compare methods over the phases of a protocol; :func:`load_run` and :func:`load_sweep` load
  what they, or the command, have written.
- :func:`extract` makes a feature file with a PyTorch network.
- :func:`train` trains a backbone on pictures with labels.

What fails raises :class:`Error`, with the library's text and hint."""
import importlib
from typing import TYPE_CHECKING, Any, List

from ._declarations import Status
from ._error import Error, L3AWarning

if TYPE_CHECKING:
    from ._estimator import JointRidge as JointRidge
    from ._estimator import L3AClassifier as L3AClassifier
    from ._experiment import run as run
    from ._experiment import sweep as sweep
    from ._extract import extract as extract
    from ._index import Library as Library
    from ._run import Run as Run
    from ._run import Sweep as Sweep
    from ._run import load_run as load_run
    from ._run import load_sweep as load_sweep
    from ._tagger import Tag as Tag
    from ._tagger import Tagger as Tagger
    from ._train import train as train

# Names that are looked up when they are first used, and the module of each: so importing the package loads little.
_WHERE = {
    "Tagger": "_tagger",
    "Tag": "_tagger",
    "Library": "_index",
    "L3AClassifier": "_estimator",
    "JointRidge": "_estimator",
    "run": "_experiment",
    "sweep": "_experiment",
    "load_run": "_run",
    "load_sweep": "_run",
    "Run": "_run",
    "Sweep": "_run",
    "extract": "_extract",
    "train": "_train",
}

__all__ = ["Error", "L3AWarning", "Status", *sorted(_WHERE)]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from ._library import version
        return version()
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> List[str]:
    return sorted({*globals(), *_WHERE, "__version__"})
