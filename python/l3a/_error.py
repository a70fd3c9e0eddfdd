"""Errors and warnings: the library's text, its hint, and its status."""
from typing import Dict, Optional, Tuple, Type

from ._declarations import Status


class Error(Exception):
    """What went wrong, where and why.

    ``status`` says what kind of failure it was (:class:`l3a.Status`), ``text`` is the message, and ``hint`` says what to do about
    it, or is empty. Where Python has an exception of its own for a failure, the error is that too: a missing file is also a
    ``FileNotFoundError``, wrong arguments, settings or data are also a ``ValueError``, and so on.

    >>> import l3a
    >>> try:
    ...     l3a.Tagger.open("nothing.safetensors")
    ... except FileNotFoundError as error:
    ...     print(error.status.name)
    ERROR_NOT_FOUND
    """
    status: Status
    text: str
    hint: str

    def __init__(self, status: int, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.status, self.text, self.hint = Status(status), text, hint

    def __str__(self) -> str:
        return f"{self.text}\n{self.hint}" if self.hint else self.text

    def __reduce__(self) -> Tuple[object, ...]:
        return make_error, (int(self.status), self.text, self.hint)


class InputError(Error, ValueError):
    """Arguments, settings, files or data that do not fit."""


class NotFoundError(Error, FileNotFoundError):
    """A file or folder that is not there."""


class FileError(Error, OSError):
    """A file that could not be read or written. If there was no room for it, ``status`` is ``Status.ERROR_FULL``."""


class ExistsError(Error, FileExistsError):
    """Something that would be overwritten, or learned twice."""


class OutOfMemoryError(Error, MemoryError):
    """Not enough memory."""


class L3AWarning(UserWarning):
    """A warning of the library."""


_CLASSES: Dict[Status, Type[Error]] = {
    Status.ERROR_ARGUMENT: InputError, Status.ERROR_OPTION: InputError, Status.ERROR_FORMAT: InputError,
    Status.ERROR_TRUNCATED: InputError, Status.ERROR_CHECKSUM: InputError, Status.ERROR_VERSION: InputError,
    Status.ERROR_DATA: InputError, Status.ERROR_CLASS: InputError, Status.ERROR_MISMATCH: InputError,
    Status.ERROR_NOT_FOUND: NotFoundError, Status.ERROR_IO: FileError, Status.ERROR_FULL: FileError,
    Status.ERROR_EXISTS: ExistsError, Status.ERROR_MEMORY: OutOfMemoryError,
}


def make_error(status: int, text: str, hint: Optional[str] = None) -> Error:
    """The exception for a status."""
    return _CLASSES.get(Status(status), Error)(status, text, hint or "")
