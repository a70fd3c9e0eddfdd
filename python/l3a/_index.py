"""A library that remembers: the pictures below some folders are looked at once, and found by what they show."""
import contextlib
import ctypes
import datetime
import os
import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy

from ._array import problem
from ._declarations import (LibraryState, Status, l3a_find_options, l3a_judged_callback, l3a_library_info, l3a_library_options,
                            l3a_library_picture, l3a_look_options, l3a_look_report, l3a_scan_report)
from ._error import Error, make_error
from ._found import Folder, Found, Indexed, LibraryInfo, LibraryPicture, LibraryTable, TagCount, Unread
from ._library import Context, Event, Handle, decode, encode, library, path_bytes, sized
from ._progress import Progress, Stages
from ._tagger import Tagger, Tags, _content, _is_many, _is_path, _reader_error

STEP = 256  # pictures whose tags are computed at a time
UNKNOWN = -1 << 63  # of l3a_library_picture.taken
STATES = {state.value: state.name.lower() for state in LibraryState}
EPOCH = datetime.datetime(1970, 1, 1)


def _date_key(key: str, value: Any) -> str:
    """A date of an expression."""
    text = value.strftime("%Y-%m-%d") if isinstance(value, datetime.date) else str(value)
    return f' {key}:"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def _seconds(value: int) -> Optional[datetime.datetime]:
    """A time by the camera's clock, which has no zone."""
    try:
        return None if value == UNKNOWN else EPOCH + datetime.timedelta(seconds=value)
    except OverflowError:
        return None


def _modified(nanoseconds: int) -> Optional[datetime.datetime]:
    try:
        return datetime.datetime.fromtimestamp(nanoseconds / 1e9) if nanoseconds else None
    except (OverflowError, ValueError, OSError):
        return None


def _with_said(tags: Tags, labels: Dict[str, bool]) -> Tags:
    """What was said stands above what is predicted."""
    return Tags(tag._replace(predicted=labels.get(tag.name, tag.predicted)) for tag in tags.all) if labels else tags


class Library:
    """The pictures below some folders, each of which is looked at once. What was found out is kept in an index beside the model.

    ``model`` is a :class:`l3a.Tagger`, or the path of its model, which is then opened with ``backbone``, ``views`` and ``device`` as
    :meth:`l3a.Tagger.open` does; without ``views``, pictures have those that the index has. ``index`` is the path of the index, if it is
    not ``MODEL.library``. If there is none yet, it is made, unless ``existing`` is true. Features of another network, or of other views
    than ``views`` says, are replaced, and their pictures looked at again; that is an error if ``keep`` is true. The model does not need
    the index, which belongs to this model: another one is refused. Any number of libraries, in any number of processes, may use the same
    one at the same time. The calls of one library take turns.

    >>> import l3a, os
    >>> from PIL import Image
    >>> os.makedirs("album")
    >>> for name, pixels in {"red": red, "green": green, "blue": blue}.items():
    ...     Image.fromarray(pixels).save(f"album/{name}.png")
    >>> tagger = l3a.Tagger.create("album.l3a", backbone=backbone, threads=1)
    >>> lesson = tagger.teach({name: f"album/{name}.png" for name in ("red", "green")})
    >>> tagger.save()
    >>> library = l3a.Library(tagger)
    >>> library.add("album")
    >>> library.index(progress=False).looked
    3
    >>> [os.path.basename(found.path) for found in library.find("red and not green")]
    ['red.png']
    >>> len(library.find(like="album/blue.png")), library.tags["red"].said
    (3, 1)
    >>> tagger.close()
    """

    def __init__(self, model: Any, backbone: Any = None, *, index: Any = None, existing: bool = False, keep: bool = False, views: int = 0,
                 threads: int = 0, device: Optional[str] = None) -> None:
        self._handle: Optional[Handle] = None
        self._own = not isinstance(model, Tagger)
        self._shape: Optional[Tuple[int, int]] = None
        if not self._own and (backbone is not None or views or device is not None):
            raise problem("a tagger has a backbone, views and a device already", "leave them out, or give the path of the model")
        self._context = Context(threads=threads)  # many readers of a thread each are faster than one that has all threads
        each = 1 if device in (None, "cpu") else threads
        views = views or self._views_of(model, index)
        #: The tagger, which can also be taught; see :meth:`index`.
        self.tagger: Tagger = Tagger.open(model, backbone, views=views, threads=each, device=device) if self._own else model
        #: The path of the index.
        self.path: str = os.fspath(index) if index is not None else os.fsdecode(self.tagger.path) + ".library"
        options = sized(l3a_library_options, existing=int(existing), keep=int(keep))
        if index is not None:
            options.index = path_bytes(index)
        try:
            with self.tagger._context.lock:
                tagger = self.tagger._open()
                self._handle = self._context.make("l3a_library_free", "l3a_library_open", tagger.handle, ctypes.byref(options), kept=tagger)
                self.tagger._libraries.add(self)
        except BaseException:
            if self._own:
                self.tagger.close()
            raise

    def _views_of(self, model: Any, index: Any) -> int:
        """The views that an index has; 0: there is none, or the model has its own."""
        kind, views = ctypes.c_char_p(), ctypes.c_size_t()
        if not self._own:
            return 0
        status = library.l3a_file_recognise(self._context.handle, path_bytes(model), ctypes.byref(kind))
        if status == Status.OK and kind.value != b"packed":
            path = path_bytes(index) if index is not None else path_bytes(model) + b".library"
            self._context.call("l3a_library_views", path, ctypes.byref(views))
        return views.value

    # ---- Opening and closing
    def close(self) -> None:
        """Frees everything, once no thread uses it any more. The index stays as it is. Closing the tagger closes its libraries."""
        with self._context.lock:
            if self._handle is None:
                return
            self._check_idle()
            self._handle.free()
            self._handle = None
        if self._own:
            self.tagger.close()

    def __enter__(self) -> "Library":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __reduce__(self) -> Tuple[Any, ...]:
        raise TypeError("a Library cannot be copied or pickled; open it again with Library(library.tagger.path)")

    def __repr__(self) -> str:
        if self._handle is None:
            return f"<l3a.Library {self.path}, closed>"
        with self._context.lock:
            if self._context._busy:
                return f"<l3a.Library {self.path}, busy>"
            info = self.info
        return f"<l3a.Library {self.path}: {info.pictures} {'picture' if info.pictures == 1 else 'pictures'}, {info.done} looked at>"

    def _check_idle(self) -> None:
        if self._context._busy:
            raise make_error(Status.ERROR_STATE, f"{self.path}: the library is at work",
                             "do this after the call, not in its progress function")

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """The library's handle, for one thread at a time."""
        with self._context.lock:
            if self._handle is None:
                raise make_error(Status.ERROR_STATE, f"{self.path}: the library is closed")
            self._check_idle()
            yield self._handle.handle

    def _call(self, name: str, *arguments: Any) -> None:
        with self._opened() as handle:
            self._context.call(name, handle, *arguments)

    # ---- Folders
    def add(self, *folders: Any) -> None:
        """Adds folders, with all below them. Their pictures come with the next :meth:`index`."""
        for folder in folders:
            self._call("l3a_library_add", path_bytes(folder))

    def remove(self, folder: Any) -> None:
        """Takes a folder that was added out of the index, with its pictures. The files stay."""
        self._call("l3a_library_remove", path_bytes(folder))

    @property
    def folders(self) -> List[Folder]:
        """The folders that were added."""
        found: List[Folder] = []
        why = ctypes.c_char_p()
        with self._opened() as handle:
            while (path := library.l3a_library_folder(handle, len(found), ctypes.byref(why))) is not None:
                found.append(Folder(decode(path), decode(why.value)))
        return found

    # ---- Indexing
    def index(self, *, most: int = 0, progress: Progress = True) -> Indexed:
        """Brings the index up to date: finds what is new, changed and gone in the folders, looks at new pictures, takes over what was
        taught, and scores all pictures with the model as it is. If nothing is new, that is fast.

        Ctrl-C stops it; what was looked at stays, and the next call goes on from there. ``most`` limits the pictures to look at in this
        call. ``progress`` is True: a bar, if tqdm is installed; False: none; or a function that gets each event, and cancels if it
        returns something true.

        Only who has the model's lock scores. The tagger has it while there is something to save; otherwise the lock is taken for that
        time, and the model is loaded again if others have saved it. If somebody else has the lock, such as a server, ``held`` of the
        report says so, and they score the pictures."""
        scan, look = sized(l3a_scan_report), sized(l3a_look_report)
        options = sized(l3a_look_options, most=_count("most", most))
        with self._opened() as handle, self._reporting(progress):
            self._context.call("l3a_library_scan", handle, ctypes.byref(scan))
            self._context.call("l3a_library_look", handle, ctypes.byref(options), ctypes.byref(look))
            scored, held = self._score(handle)
        return Indexed(scan.pictures, scan.added, scan.changed, scan.gone, scan.away, scan.unreadable, look.looked, look.known, look.moved,
                       look.copies, look.failed, look.waiting, scored, held)

    def retry(self) -> int:
        """Pictures that could not be read wait to be looked at again, by the next :meth:`index`. Returns how many."""
        count = ctypes.c_uint64()
        self._call("l3a_library_retry", ctypes.byref(count))
        return count.value

    def _score(self, handle: int) -> Tuple[int, str]:
        """How many pictures were scored, and why none could be."""
        scored = ctypes.c_uint64()
        with self.tagger._lock_if_free() as held:
            if not held:
                history = self.tagger._history_if_any()
                if history is not None:
                    self._context.call("l3a_library_take_history", handle, history)
                self._context.call("l3a_library_score", handle, 0, ctypes.byref(scored))
        return scored.value, held

    @contextlib.contextmanager
    def _reporting(self, progress: Progress) -> Iterator[None]:
        """Shows the progress of the calls inside."""
        bars = Stages({"find": "scan", "look": "look", "score": "score", "compare": "compare"}) if progress is True else None
        chosen: Optional[Callable[[Event], Any]] = bars if bars is not None else progress if callable(progress) else None
        self._context.on_event = chosen
        try:
            yield
        finally:
            self._context.on_event = None
            if bars is not None:
                bars.close()

    # ---- Finding
    def find(self, where: str = "", *, word: Optional[str] = None, like: Any = None, since: Any = None, until: Any = None,
             sort: Optional[str] = None, most: int = 0) -> Found:
        """The pictures that an expression describes: ``"dog and not (cat or horse)"``, with quotes for names with spaces, and with
        ``folder:italy``, ``name:IMG_12``, ``since:2024-01``, ``until:2024-06-30``, ``unsure:dog``, and ``is:`` with tagged, untagged,
        said, unsure, done, waiting, failed or other. A picture has a tag if somebody said so, or if it is predicted and nobody said
        otherwise.

        ``since`` and ``until`` are dates, or texts such as "2024" and "2024-06"; both are included. The order is that of ``sort``: "score"
        (of the first tag in the expression), "date" (newest first), "name", "unsure" or "novel". ``word`` puts the pictures first in which
        the network's own classifier sees that word, and ``like`` those that resemble others: ids, pictures that were found, or
        anything that :meth:`l3a.Tagger.tag` takes. Both are orders themselves. ``most`` is how many to return; 0: all."""
        options = sized(l3a_find_options, where=encode(_expression(where, since, until)), most=_count("most", most))
        options.word = None if word is None else encode(word)
        options.sort = None if sort is None else encode(sort)
        ids, rows = ([], []) if like is None else self._examples(like)
        kept = numpy.array(ids, dtype=numpy.uint64), numpy.array(rows, dtype=numpy.float32)
        options.like, options.like_count = kept[0].ctypes.data, len(ids)
        options.like_features, options.like_rows = kept[1].ctypes.data, len(rows)
        return self._found("l3a_library_find", ctypes.byref(options))

    def _found(self, name: str, *arguments: Any) -> Found:
        with self._opened() as handle:
            found = self._context.make("l3a_found_free", name, handle, *arguments)
            count = library.l3a_found_count(found.handle)
            ids = numpy.fromiter((library.l3a_found_id(found.handle, i) for i in range(count)), numpy.int64, count)
            ranks = numpy.fromiter((library.l3a_found_rank(found.handle, i) for i in range(count)), numpy.float64, count)
        return Found(self, ids, ranks)

    def duplicates(self, closeness: float = 0.97, *, progress: Progress = False) -> List[Found]:
        """Groups of pictures that show nearly the same: the cosine of their features is at least ``closeness``. Larger groups first."""
        with self._context.lock:
            self._check_idle()
            with self._reporting(progress):
                found = self._found("l3a_library_duplicates", float(closeness))
        ends = numpy.flatnonzero(numpy.diff(found.ranks, append=numpy.inf)) + 1 if len(found) else []
        firsts = [0, *ends[:-1]] if len(ends) else []
        return [Found(self, found.ids[a:b], numpy.full(b - a, numpy.nan)) for a, b in zip(firsts, ends)]

    def words(self, text: Optional[str] = None) -> List[str]:
        """What a word means to the network's own classifier: its classes that ``find(word=...)`` looks for; none if it does not know
        the word. Without ``text``, all its classes."""
        why = ctypes.c_char_p()
        with self._opened() as handle:
            self._context.call("l3a_library_words", handle, ctypes.byref(why))
            if why.value:
                raise make_error(Status.ERROR_MISMATCH, decode(why.value), "words need a checkpoint with its ImageNet classifier")
        if text is None:
            return _all_words()
        count = library.l3a_word_classes(encode(text), None, 0)
        names = (ctypes.c_char_p * max(count, 1))()
        library.l3a_word_classes(encode(text), names, count)
        return [decode(names[i]) for i in range(count)]

    # ---- What it knows
    @property
    def info(self) -> LibraryInfo:
        """Counts of the whole library."""
        info = sized(l3a_library_info)
        self._call("l3a_library_describe", ctypes.byref(info))
        return LibraryInfo(*(getattr(info, name) for name in LibraryInfo._fields))

    @property
    def tags(self) -> Dict[str, TagCount]:
        """How many pictures have each tag."""
        found, said, predicted = {}, ctypes.c_uint64(), ctypes.c_uint64()
        for name in self.tagger.classes:
            self._call("l3a_library_count", encode(name), ctypes.byref(said), ctypes.byref(predicted))
            found[name] = TagCount(said.value, predicted.value)
        return found

    @property
    def problems(self) -> List[Unread]:
        """The files that cannot be read, and videos and RAW files, each with the reason."""
        return [Unread(found.path, found.state, found.problem) for found in self.find("is:failed or is:other", sort="name")]

    def picture(self, which: Any) -> LibraryPicture:
        """A picture by its id or its path."""
        if not _is_path(which):
            return self._picture(int(which), float("nan"))
        return self._picture(self._id_of(which), float("nan"))

    def _id_of(self, path: Any) -> int:
        found, name = ctypes.c_uint64(), os.path.abspath(os.fspath(path))
        folder, last = os.path.split(name)  # the index follows the links of folders, but not those of files
        self._call("l3a_library_picture_find", path_bytes(os.path.join(os.path.realpath(folder), last)), ctypes.byref(found))
        return found.value

    def _picture(self, number: int, rank: float) -> LibraryPicture:
        about = sized(l3a_library_picture)
        with self._opened() as handle:
            self._context.call_short(library.l3a_library_picture_at, handle, _count("id", number), ctypes.byref(about))
            return LibraryPicture(number, decode(about.path), None if rank != rank else rank, STATES[about.state], decode(about.problem),
                                  _seconds(about.taken), _modified(about.modified), about.bytes, about.copies, library=self)

    # ---- Features and tags
    def _rows(self) -> Tuple[int, int]:
        """Rows of features that a picture has, and their width."""
        if self._shape is None:
            views = self.info.views
            rows = 1 if views == 1 else 1 + views
            with self.tagger._reader() as reader:
                self._shape = rows, library.l3a_reader_width(reader) // rows
        return self._shape

    def features(self, ids: Any) -> Any:
        """The features of a picture, by its id: [width], or [rows, width] with views, of which the first row is the whole picture.
        Of several: [pictures, …]. They were kept as float16."""
        many = not isinstance(ids, (int, numpy.integer, LibraryPicture))
        numbers = [_number(each) for each in (ids if many else [ids])]
        rows, width = self._rows()
        found = numpy.empty((len(numbers), width) if rows == 1 else (len(numbers), rows, width), dtype=numpy.float32)
        for i, number in enumerate(numbers):
            with self._opened() as handle:
                self._context.call_short(library.l3a_library_features, handle, _count("id", number), found[i].ctypes.data)
        return found if many else found[0]

    def _examples(self, like: Any) -> Tuple[List[int], List[Any]]:
        """Ids of the index, and features of pictures that are not in it."""
        ids: List[int] = []
        rows: List[Any] = []
        for one in like if _is_many(like) else [like]:
            if isinstance(one, (int, numpy.integer, LibraryPicture)):
                ids.append(_count("id", _number(one)))
            elif getattr(getattr(one, "dtype", None), "kind", "") == "f":
                rows.append(self._own_features(one))
            elif _is_path(one) and (number := self._known(one)):
                ids.append(number)
            else:
                rows.append(self._look_at(one))
        if not ids and not rows:
            raise problem("there is no picture to compare with", "give at least one")
        return ids, rows

    def _own_features(self, features: Any) -> Any:
        """The row of the whole picture, of features that the caller has."""
        rows, width = self._rows()
        if features.shape not in ((width,), (rows, width)):
            raise problem(f"features of shape {features.shape} do not fit; they have {width} numbers", "use those of library.features")
        return features.reshape(-1, width)[0]

    def _known(self, path: Any) -> int:
        """The id of a picture that was looked at, or 0."""
        try:
            found = self.picture(path)
        except Error as error:
            if error.status != Status.ERROR_NOT_FOUND:
                raise
            return 0
        return found.id if found.state == "done" else 0

    def _look_at(self, picture: Any) -> Any:
        """The features of a picture that is not in the index; of the whole picture alone."""
        if _is_path(picture):
            name, content = os.fsdecode(picture), _read(picture)
        else:
            name, content = _content(picture)
        width = self._rows()[1]
        with self.tagger._reader() as reader:
            inputs = numpy.empty(library.l3a_reader_inputs(reader), dtype=numpy.float32)
            features = numpy.empty(library.l3a_reader_width(reader), dtype=numpy.float32)
            checksum = ctypes.c_uint64()
            status = library.l3a_reader_prepare(reader, encode(name), content, len(content), inputs.ctypes.data, ctypes.byref(checksum))
            status = status or library.l3a_reader_compute(reader, inputs.ctypes.data, 1, features.ctypes.data)
            if status:
                raise _reader_error(reader, status)
        return features[:width]

    def _said_of(self, number: int) -> Dict[str, bool]:
        """What a picture was judged for."""
        found: Dict[str, bool] = {}

        def take(name: bytes, shown: int, user: Any) -> int:
            found[decode(name)] = bool(shown)
            return 0
        with self._opened() as handle:
            self._context.call("l3a_library_judged", handle, number, l3a_judged_callback(take), None)
        return found

    def _tags_of(self, pictures: Sequence[LibraryPicture]) -> List[Tags]:
        """The tags of pictures that were looked at. One that waits again meanwhile has none."""
        found: List[Tags] = []
        for first in range(0, len(pictures), STEP):
            found += self._tags_of_step([picture.id for picture in pictures[first:first + STEP]])
        return found

    def _tags_of_step(self, ids: Sequence[int]) -> List[Tags]:
        features: Dict[int, Any] = {}
        for number in ids:
            try:
                features[number] = self.features(number)
            except Error as error:
                if error.status not in (Status.ERROR_STATE, Status.ERROR_CHECKSUM) or self._handle is None:
                    raise
        if not features or not self.tagger.classes:
            return [Tags() for _ in ids]
        rows = numpy.ascontiguousarray(list(features.values()))
        with self.tagger._reader() as reader:
            scored = self.tagger._tag_many(reader, library.l3a_reader_score, rows.ctypes.data, len(rows))
        tags = dict(zip(features, scored))
        for number, found in tags.items():
            if isinstance(found, Tags):
                tags[number] = _with_said(found, self._said_of(number))
        return [tags.get(number, Tags()) for number in ids]  # type: ignore[misc]

    def table(self, ids: Any = None) -> LibraryTable:
        """Features and labels of pictures, for :class:`l3a.L3AClassifier` and everything else that takes arrays; without ``ids``, of all
        that were looked at. Nothing goes through the network again.

        >>> import l3a
        >>> with l3a.Library("album.l3a", threads=1) as library:
        ...     table = library.table()
        >>> table.labels.tolist(), table.classes
        ([[-1, -1], [0, 1], [1, 0]], ['red', 'green'])
        >>> model = l3a.L3AClassifier(dim=64, threads=1).fit(table.features, table.labels, table.classes)
        """
        if ids is None:
            ids = self.find("is:done", sort="name").ids
        pictures = [self._picture(_number(each), float("nan")) for each in ids]
        numbers, classes = [picture.id for picture in pictures], self.tagger.classes
        labels = numpy.full((len(numbers), len(classes)), -1, dtype=numpy.int8)
        column = {name: k for k, name in enumerate(classes)}
        for i, number in enumerate(numbers):
            for name, shown in self._said_of(number).items():
                if name in column:
                    labels[i, column[name]] = shown
        return LibraryTable(numbers, [picture.path for picture in pictures], self.features(numbers), labels, classes)


def _all_words() -> List[str]:
    found: List[str] = []
    while (name := library.l3a_word_at(len(found))) is not None:
        found.append(decode(name))
    return found


def _number(which: Any) -> int:
    """The id of a picture."""
    return which.id if isinstance(which, LibraryPicture) else int(which)


def _count(name: str, value: int) -> int:
    if not 0 <= value < 1 << 63:
        raise make_error(Status.ERROR_ARGUMENT, f"{name} is {value}", "give a number from 0 on")
    return value


def _read(path: Any) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        status = Status.ERROR_NOT_FOUND if isinstance(error, FileNotFoundError) else Status.ERROR_IO
        raise make_error(status, f"{os.fsdecode(path)}: {error.strerror}") from None


def _expression(where: str, since: Any, until: Any) -> str:
    """An expression with dates. A word may not stand in parentheses, so they are only there where they are needed."""
    dates = (_date_key("since", since) if since is not None else "") + (_date_key("until", until) if until is not None else "")
    return f"({where}){dates}" if dates and re.search(r"\bor\b", where, re.I) else where + dates
