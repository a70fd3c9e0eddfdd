"""The library: where it is, its functions, and the context that every call goes through.

``Context.call`` is the one way to call a function that returns a status. It holds the context's lock, because only one thread may
use a context at a time; it raises :class:`l3a.Error` for a failure; it turns the library's warnings into Python's; and while it
waits for the library, an exception that a handler of Ctrl-C raises cancels the call, and is raised again once the library has
cleaned up.

    context = Context()
    model = context.make("l3a_model_free", "l3a_model_create", 192, None)   # what the function hands out last
    context.call("l3a_model_save", model.handle, os.fsencode(path))
"""
import ctypes
import numbers
import os
import re
import signal
import sys
import threading
import warnings
import weakref
from collections import deque
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Type, TypeVar

from ._declarations import (FUNCTIONS, TAKES_CONTEXT, VERSION_NUMBER, EventKind, Status, l3a_context_options,
                            l3a_event_callback)
from ._error import Error, L3AWarning, make_error

PACKAGE = Path(__file__).resolve().parent
Some = TypeVar("Some", bound=ctypes.Structure)


def _soname() -> str:
    major, minor = divmod(VERSION_NUMBER // 100, 100)
    return f"libl3a.so.{major}" if major else f"libl3a.so.0.{minor}"


def _candidates() -> Iterable[str]:
    """Where the library can be: as the environment says, in this package, in a build folder beside it, where the linker looks."""
    if os.environ.get("L3A_LIBRARY"):
        yield os.environ["L3A_LIBRARY"]
        return
    for path in (PACKAGE / "lib" / "libl3a.so", PACKAGE.parent.parent / "build" / "libl3a.so"):
        if path.is_file():
            yield str(path)
            return
    yield _soname()


def _has_openmp() -> bool:
    """Whether a runtime of OpenMP is in this process already: of PyTorch, scikit-learn, an OpenBLAS with OpenMP. It has read its
    variables, or will read them for others."""
    try:
        with open("/proc/self/maps", "rb") as file:
            return any(re.search(rb"/lib(gomp|i?omp5?)[-.][^/]*\Z", line.rstrip()) for line in file)
    except OSError:
        return False


def _open(path: str) -> ctypes.CDLL:
    """Loads the library so that its threads sleep while they wait, as those of the command do. Threads that spin instead slow down
    the ones that have work as soon as another program needs a processor. OpenMP reads its variables once, so they are
    given to it here, and taken back for the sake of programs that are started from this one. What the user has set stays."""
    if _has_openmp() or any(name in os.environ for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
        return ctypes.CDLL(path)
    os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        loaded = ctypes.CDLL(path)
        getattr(loaded, "omp_get_max_threads", int)()  # some runtimes read them only now
        return loaded
    finally:
        del os.environ["OMP_WAIT_POLICY"]


def _load() -> ctypes.CDLL:
    path = next(iter(_candidates()))
    try:
        loaded = _open(path)
    except OSError as problem:
        raise ImportError(f"the library of l3a cannot be loaded: {problem}; install libl3a, or set L3A_LIBRARY to the path of "
                          "libl3a.so") from problem
    loaded.l3a_version_number.restype = ctypes.c_int
    number = loaded.l3a_version_number()
    if number // 100 != VERSION_NUMBER // 100:
        raise ImportError(f"{path} is version {number}, and this package needs {VERSION_NUMBER}: install both from the same source")
    for name, (returned, parameters) in FUNCTIONS.items():
        function = getattr(loaded, name, None)
        if function is None:
            raise ImportError(f"{path} has no function {name}: install the library and this package from the same source")
        function.restype, function.argtypes = returned, parameters
    return loaded


library = _load()


def decode(text: Optional[bytes]) -> str:
    """A text of the library. Paths in it may have bytes that are not UTF-8."""
    return "" if text is None else text.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """A text for the library."""
    if "\0" in text:
        raise make_error(Status.ERROR_ARGUMENT, f"{text!r} contains a zero byte")
    return text.encode("utf-8", "surrogateescape")


def setting_text(value: Any) -> str:
    """The value of a setting, as the command line has it.

    >>> [setting_text(value) for value in (True, 64, 1e-4, 2.0, "auto", float("nan"))]
    ['on', '64', '0.0001', '2', 'auto', 'nan']
    """
    if isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b":
        return "on" if value else "off"
    if isinstance(value, float) or hasattr(value, "dtype") and not isinstance(value, (str, numbers.Integral)):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 2 ** 53 else repr(number)
    return str(value)


def path_bytes(path: Any) -> bytes:
    """A path for the library."""
    made = os.fsencode(path)
    if b"\0" in made:
        raise make_error(Status.ERROR_ARGUMENT, f"{path!r} contains a zero byte")
    return made


def text_array(texts: Iterable[bytes]) -> Any:
    """An array of texts, as functions with a count take it. Keep it as long as the library may use it."""
    listed = list(texts)
    return (ctypes.c_char_p * max(len(listed), 1))(*listed)


def sized(kind: Type[Some], **values: Any) -> Some:
    """A struct that begins with its own size, which is set, with these fields."""
    made = kind(**values)
    made.size = ctypes.sizeof(kind)
    return made


class Event(NamedTuple):
    """What the library reports while it works: see l3a_event in the header."""
    kind: EventKind
    stage: str
    text: str
    done: int
    total: int
    seconds: float


class Handle:
    """An object of the library, freed with the last reference to it. Keeps its context, and whatever it must not outlive."""
    __slots__ = ("context", "handle", "kept", "_free", "__weakref__")

    def __init__(self, context: "Context", handle: int, free: str, kept: Any = None) -> None:
        self.context, self.handle, self.kept, self._free = context, handle, kept, getattr(library, free)

    def free(self) -> None:
        """Frees the object now."""
        handle, self.handle = self.handle, 0
        if handle:
            self.context.release(self._free, handle, self.kept)

    def __del__(self) -> None:
        if getattr(self, "handle", 0):
            self.free()


class _Fork:
    """Whether this process was forked from one that had used several threads. OpenMP's threads do not survive that, and a call that
    needed them would wait for ever."""
    used = False
    happened = False

    @classmethod
    def note(cls) -> None:
        cls.happened = cls.happened or cls.used


os.register_at_fork(after_in_child=_Fork.note)


class Interrupt:
    """Holds back what a handler of Ctrl-C or of SIGTERM raises while the library works, because nothing may be raised through it.

    The handler is called at once, whoever set it. ``came`` says whether it has raised an exception; ``check`` raises that. Only the
    main thread gets signals."""
    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.raised: Optional[BaseException] = None
        self._old: Dict[int, Any] = {}

    @property
    def came(self) -> bool:
        return self.raised is not None

    def check(self) -> None:
        if self.raised is not None:
            raise self.raised

    def _take(self, number: int, frame: Any) -> None:
        try:
            self._old[number](number, frame)
        except BaseException as raised:
            self.raised = self.raised or raised

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            for number in self.SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):  # one of Python's: neither the system's default, nor ignored
                    self._old[number] = handler
                    signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            if signal.getsignal(number) == self._take:  # otherwise the handler has set another one
                signal.signal(number, handler)

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """While the library has called back to code of the caller's, which may be interrupted."""
        mine = [number for number in self._old if signal.getsignal(number) == self._take]
        for number in mine:
            signal.signal(number, self._old[number])
        try:
            yield
        finally:
            for number in mine:
                signal.signal(number, self._take)


def _warn(text: str) -> None:
    """Shows a warning at the line outside this package that called it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, L3AWarning, stacklevel=level)


class Context:
    """Threads, device and memory of the calls that go through it, and the text of the last error.

    ``on_event`` gets every :class:`Event`; a true result cancels the call in progress, and so does an exception, which is then
    raised by the call. Warnings become Python warnings, unless ``on_warning`` takes their texts."""

    def __init__(self, threads: int = 0, memory_limit: int = 0, device: Optional[str] = None,
                 on_event: Optional[Callable[[Event], Any]] = None, on_warning: Callable[[str], Any] = _warn) -> None:
        self.handle = 0
        if threads < 0 or memory_limit < 0:
            name, value = ("threads", threads) if threads < 0 else ("memory_limit", memory_limit)
            raise make_error(Status.ERROR_ARGUMENT, f"{name} is {value}", "give a number from 1 on, or 0 for the default")
        self.on_event, self.on_warning = on_event, on_warning
        self.lock = threading.RLock()
        self._busy = 0
        self._raised: Optional[BaseException] = None
        self._interrupt: Optional[Interrupt] = None
        self._garbage: Deque[Tuple[Any, int, Any]] = deque()
        itself = weakref.ref(self)  # the callback must not keep the context alive

        def on_library_event(event: Any, user: Any) -> int:
            context = itself()
            return context._take_event(event.contents) if context is not None else 0

        self._callback = l3a_event_callback(on_library_event)
        options = sized(l3a_context_options, threads=threads, memory_limit=memory_limit, on_event=self._callback)
        if device is not None:
            options.device = encode(device)
        made = ctypes.c_void_p()
        status = library.l3a_context_create(ctypes.byref(options), ctypes.byref(made))
        if status:
            raise self._why_not(status, device)
        self.handle = made.value or 0
        if self._raised is not None:
            raise self._raised
        self._several = self.threads > 1

    def _why_not(self, status: int, device: Optional[str]) -> Error:
        """There is no context to hold the text, so another one describes the device."""
        if device not in (None, "cpu"):
            try:
                Context().call("l3a_device_describe", encode(device or ""), ctypes.create_string_buffer(8), 8)
            except Error as error:
                return error
        return make_error(status, "the context could not be created")

    def __del__(self) -> None:
        if getattr(self, "handle", 0):
            self._drain()
            library.l3a_context_free(self.handle)

    def _take_event(self, event: Any) -> int:
        """1 cancels the call; nothing may be raised through the library."""
        stop = False
        try:
            kind = event.kind
            if kind == EventKind.WARNING:
                self.on_warning(decode(event.text))
            if self.on_event is not None:
                stop = bool(self.on_event(Event(EventKind(kind), decode(event.stage), decode(event.text), event.done, event.total,
                                                event.seconds)))
        except BaseException as raised:
            self._raised = self._raised or raised
        return stop or self._raised is not None or (self._interrupt is not None and self._interrupt.came)

    def check_threads(self) -> None:
        """Fails instead of waiting for threads that a fork has left behind."""
        if self._several:
            if _Fork.happened:
                raise make_error(Status.ERROR_STATE, "this process was forked from one that had used several threads of the library",
                                 "start processes by 'spawn' or 'forkserver', or use threads=1 in one of the two")
            _Fork.used = True

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function that returns a status. If its first parameter is the context, leave it out."""
        self.call_function(getattr(library, name), *((self.handle,) if name in TAKES_CONTEXT else ()), *arguments)

    def call_function(self, function: Any, *arguments: Any) -> None:
        """The same with the function, and all of its arguments."""
        self.check_threads()
        with self.lock:
            outer, self._raised = self._raised, None
            self._busy += 1
            try:
                with Interrupt() as interrupt:
                    before, self._interrupt = self._interrupt, interrupt
                    try:
                        status = function(*arguments)
                    finally:
                        self._interrupt = before
                interrupt.check()
                if self._raised is not None:
                    raise self._raised
                if status:
                    raise self.error(status)
            finally:
                self._raised = outer
                self._busy -= 1
                if self._garbage:
                    self._drain()

    def call_short(self, function: Any, *arguments: Any) -> None:
        """The same for a call that is over soon, so that nobody has to wait for Ctrl-C, and that sends no events."""
        self.check_threads()
        with self.lock:
            self._busy += 1
            status = function(*arguments)
            self._busy -= 1
            if status:
                raise self.error(status)

    def interruptible(self) -> Any:
        """In a callback: Ctrl-C raises its exception there."""
        return self._interrupt.lifted() if self._interrupt is not None else nullcontext()

    def error(self, status: int) -> Error:
        """The last failure."""
        return make_error(status, decode(library.l3a_error_text(self.handle)), decode(library.l3a_error_hint(self.handle)))

    def make(self, free: str, name: str, *arguments: Any, kept: Any = None) -> Handle:
        """Calls a function that hands out an object through its last parameter. ``kept`` lives at least as long as the object."""
        made = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(made))
        return Handle(self, made.value or 0, free, kept)

    def release(self, free: Any, handle: int, kept: Any) -> None:
        """Frees an object as soon as no call is in progress: the garbage collector may come at any time, on any thread."""
        self._garbage.append((free, handle, kept))
        self._drain()

    def _drain(self) -> None:
        if self.lock.acquire(blocking=False):
            try:
                while self._garbage and not self._busy:
                    free, handle, _ = self._garbage.popleft()
                    free(handle)
            finally:
                self.lock.release()

    @property
    def threads(self) -> int:
        return int(library.l3a_context_threads(self.handle))

    @property
    def device(self) -> str:
        """The device in use: "cpu", or "cuda:0"."""
        return decode(library.l3a_context_device(self.handle))


def version() -> str:
    """The version of the library."""
    return decode(library.l3a_version())


def listed(name: str) -> List[Any]:
    """The entries of a static table of the library: l3a_option_at, l3a_method_at, l3a_preset_at."""
    function = getattr(library, name)
    found: List[Any] = []
    while True:
        entry = function(len(found))
        if not entry:
            return found
        found.append(entry.contents)


__all__ = ["Context", "Event", "Handle", "Interrupt",
           "decode", "encode", "library", "listed", "path_bytes", "setting_text", "sized", "text_array", "version"]
