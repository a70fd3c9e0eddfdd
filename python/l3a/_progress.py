"""Progress of a long call: by tqdm if it is installed, by a function of the caller's, or not at all."""
import importlib
import time
import warnings
from typing import Any, Callable, Dict, Optional, Union

from ._declarations import EventKind
from ._library import Event

#: What ``progress=`` takes: True (tqdm if it is installed), False, or a function that gets every event. If the function returns
#: something true, the call is cancelled.
Progress = Union[bool, None, Callable[[Event], Any]]


def make_bar(**arguments: Any) -> Optional[Any]:
    """A bar of tqdm, which knows notebooks; None if tqdm is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about widgets that a notebook lacks
            return importlib.import_module("tqdm.auto").tqdm(**arguments)
    except ImportError:
        return None


class Bar:
    """Counts the finished phases of an experiment, and names the stage in progress."""
    SECONDS = 0.2  # between two updates of the stage

    def __init__(self, what: str) -> None:
        self.what, self.shown = what, 0.0
        self.bar: Optional[Any] = None

    def begin(self, total: int) -> None:
        """Shows the bar; methods that learn all classes at once have fewer phases than it expects."""
        self.bar = make_bar(desc=self.what, unit=" phases", total=total, leave=False)

    def __call__(self, event: Event) -> None:
        if self.bar is None:
            return
        if event.kind == EventKind.RESULT:
            self.bar.update()
        elif event.kind == EventKind.PROGRESS and time.monotonic() - self.shown > self.SECONDS:
            self.shown = time.monotonic()
            share = f" {100 * event.done // event.total}%" if event.total > 1 else ""
            self.bar.set_postfix_str(event.stage + share)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


class Stages:
    """A bar for each stage of a call, one after another. ``names`` says what to call them."""

    def __init__(self, names: Dict[str, str]) -> None:
        self.names, self.stage = names, ""
        self.bar: Optional[Any] = None

    def __call__(self, event: Event) -> None:
        if event.kind != EventKind.PROGRESS or event.stage not in self.names:
            return
        if event.stage != self.stage:
            self.close()
            self.stage = event.stage
            self.bar = make_bar(desc=self.names[event.stage], unit=" pictures", total=event.total or None, leave=False)
        if self.bar is not None:
            self.bar.update(event.done - self.bar.n)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        self.bar, self.stage = None, ""
