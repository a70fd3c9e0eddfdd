"""A tagger: a model with its backbone, from a picture to its tags, and from pictures to new tags."""
import contextlib
import ctypes
import datetime
import hashlib
import os
import struct
import threading
import weakref
import zlib
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ._array import as_array, feature_rows, problem
from ._declarations import (Status, l3a_history_entry, l3a_judgement, l3a_lesson_options, l3a_picture_options, l3a_repair_report,
                            l3a_tagger_options, l3a_tags_callback, l3a_teach_report, l3a_unlabelled_info, l3a_unlabelled_options)
from ._error import Error, make_error
from ._library import Context, Handle, Interrupt, decode, encode, library, path_bytes, setting_text, sized, text_array
from ._network import Channels, network_options

ARCHIVE_STEP = 1024  # pictures of an archive that are tagged before their tags are handed over
PIXEL_LIMIT = 64000000  # the library's; see l3a_picture_options in the header
Picture = Any  # a path, the bytes of a file, a Pillow image, or an array [height, width, 3] of uint8


class Tag(NamedTuple):
    """A class and its score for a picture: the higher, the likelier; it is not a probability. ``predicted`` says whether the score
    is above the class's threshold. ``box`` is where in the picture the class was seen best, as shares of its sides (left, top,
    right, bottom), if the tagger looks at views."""
    name: str
    score: float
    threshold: float
    predicted: bool
    box: Optional[Tuple[float, float, float, float]]


class Tags(List[Tag]):
    """The tags of a picture, the highest score first. ``all`` has every class of the model, also those that are not predicted."""
    all: List[Tag]

    def __init__(self, every: Iterable[Tag] = ()) -> None:
        self.all = list(every)
        super().__init__(tag for tag in self.all if tag.predicted)

    @property
    def names(self) -> List[str]:
        """The names alone."""
        return [tag.name for tag in self]

    def __repr__(self) -> str:
        return "[" + ", ".join(f"{tag.name} {tag.score:.3f}" for tag in self) + "]"

    def __reduce__(self) -> Tuple[Any, ...]:
        return Tags, (self.all,)


class Lesson(NamedTuple):
    """What a call of ``teach`` or ``undo`` did."""
    images: int
    new_classes: int
    gamma: float
    exact: bool
    skipped: List[Tuple[str, str]]
    repeated: List[str]


class Entry(NamedTuple):
    """A lesson in the history."""
    number: int
    time: datetime.datetime
    kind: str
    pictures: int
    taken_back: int
    classes: Dict[str, int]
    new_classes: int
    old_name: Optional[str]
    new_name: Optional[str]
    can_undo: bool


class Expectation(NamedTuple):
    """What to expect of a tag, in percent; None if too few pictures were taught to tell."""
    precision: Optional[float]
    recall: Optional[float]
    shown: int
    judged: int


class LibraryExpectation(NamedTuple):
    """What to expect of a tag in the library, in percent (None if too few pictures were taught to tell), and how many of the pictures that
    were looked at get the tag."""
    precision: Optional[float]
    recall: Optional[float]
    tagged: int


class Unlabelled(NamedTuple):
    """The unlabelled pictures of a model: how many act, how many these were drawn from, and the weight of each, where that of a picture
    that was taught is 1."""
    images: int
    drawn_from: int
    weight: float


def _check_pixels(width: int, height: int) -> None:
    """Refuses a picture that the library would refuse, before anything of it is copied."""
    if width * height > PIXEL_LIMIT:
        raise problem(f"a picture of {width} x {height} pixels is too large; the limit is {PIXEL_LIMIT} in all", "shrink the picture")


class Repair(NamedTuple):
    """What :meth:`Tagger.repair` did: the damaged bytes of the history, the changes that only the history had and that are in the
    model now, and the lessons that are lost. Warnings name these, and where a copy of the damaged history is."""
    bytes: int
    applied: int
    lost: int


def _when(seconds: int) -> datetime.datetime:
    """The clock may have been far off, beyond what Python can tell."""
    try:
        return datetime.datetime.fromtimestamp(seconds)
    except (OverflowError, ValueError, OSError):
        return datetime.datetime.max if seconds > 0 else datetime.datetime.min


def png_bytes(pixels: Any) -> bytes:
    """The pixels as a PNG file, so that they take the way of every other picture. Nothing is lost."""
    found = as_array(pixels)
    kinds = {(2, 0): 0, (3, 1): 0, (3, 3): 2, (3, 4): 6}
    kind = kinds.get((found.ndim, found.shape[2] if found.ndim == 3 else 0))
    if kind is None or found.dtype != "uint8" or not found.size:
        raise problem(f"an array of shape {found.shape} and type {found.dtype} is not a picture",
                      "pictures are uint8, [height, width] or [height, width, 3]")
    height, width = found.shape[:2]
    _check_pixels(width, height)
    rows = found.reshape(height, -1)
    lines = bytearray((rows.shape[1] + 1) * height)
    view = as_array(memoryview(lines)).reshape(height, -1)
    view[:, 1:] = rows

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 1)) + chunk(b"IEND", b"")


def _is_path(picture: Picture) -> bool:
    return isinstance(picture, (str, os.PathLike))


def _content(picture: Picture) -> Tuple[str, bytes]:
    """The name and the bytes of a picture that is not a path."""
    if isinstance(picture, (bytes, bytearray, memoryview)):
        content = bytes(picture)
    elif hasattr(picture, "convert") and hasattr(picture, "mode"):  # Pillow
        _check_pixels(*picture.size)
        content = png_bytes(picture.convert("RGB"))
    else:
        content = png_bytes(picture)
    return f"picture {hashlib.sha256(content).hexdigest()[:12]}", content


def _is_many(pictures: Any) -> bool:
    return isinstance(pictures, (list, tuple)) or (isinstance(pictures, Iterable) and not _is_path(pictures) and not hasattr(
        pictures, "shape") and not hasattr(pictures, "convert") and not isinstance(pictures, (bytes, bytearray, memoryview)))


def _tags_of(handle: int) -> Tags:
    found, box = [], (ctypes.c_double * 4)()
    for i in range(library.l3a_tags_count(handle)):
        where = tuple(box) if library.l3a_tags_box(handle, i, box) else None
        found.append(Tag(decode(library.l3a_tags_name(handle, i)), library.l3a_tags_score(handle, i),
                         library.l3a_tags_threshold(handle, i), bool(library.l3a_tags_predicted(handle, i)),
                         where))  # type: ignore[arg-type]
    return Tags(found)


class Tagger:
    """Tags pictures, and learns new tags from pictures.

    A picture is a path, the bytes of a file, a Pillow image, or an array of uint8 [height, width, 3]. Any number of threads
    may tag at the same time; teaching, undoing and saving take turns. Nothing is written before ``save``.

    >>> import l3a
    >>> tagger = l3a.Tagger.create("pets.l3a", backbone=backbone, threads=1)
    >>> lesson = tagger.teach([red, green, blue], [["red"], ["green"], ["blue"]])
    >>> lesson.images, lesson.new_classes
    (3, 3)
    >>> tagger.tag(red).all[0].name
    'red'
    >>> tagger.save()
    >>> with l3a.Tagger.open("pets.l3a", threads=1) as tagger:
    ...     tagger.classes
    ['red', 'green', 'blue']
    """

    def __init__(self, context: Context, handle: Handle, path: Any, saved: bool) -> None:
        """Use Tagger.open or Tagger.create."""
        self.path = os.fspath(path)
        self._context: Context = context
        self._tagger: Optional[Handle] = handle
        self._lock: Optional[Handle] = None
        self._saved = saved
        self._changed = False
        self._idle: List[int] = []  # readers that nobody uses
        self._busy = 0
        self._gate = threading.Condition()
        self._libraries: "weakref.WeakSet[Any]" = weakref.WeakSet()  # which the tagger must outlive

    # ---- Opening and closing
    @classmethod
    def open(cls, path: Any, backbone: Any = None, *, views: int = 0, batch: int = 0, threads: int = 0,
             device: Optional[str] = None) -> "Tagger":
        """Opens a model, or a packed model. The backbone is the one that the model remembers, unless it is given."""
        context = Context(threads=threads, device=device)
        options = sized(l3a_tagger_options, batch=batch, views=views)
        if backbone is not None:
            options.backbone = path_bytes(backbone)
        return cls(context, context.make("l3a_tagger_free", "l3a_tagger_open", path_bytes(path), ctypes.byref(options)), path, True)

    @classmethod
    def create(cls, path: Any, backbone: Any, *, pool: Optional[str] = None, side: int = 0, mean: Optional[Channels] = None,
               std: Optional[Channels] = None, filter: Optional[str] = None, preprocess: str = "squash", heads: int = 0,
               activation: Optional[str] = None, layer: int = 0, backbone_precision: Optional[str] = None, orient: bool = True,
               batch: int = 0, threads: int = 0, device: Optional[str] = None, **settings: Union[int, float, str]) -> "Tagger":
        """Makes a model without tags, to be taught. ``backbone`` is the checkpoint of a network: .safetensors, .pth or .pt, an index
        of several files, or a folder. What its tensors do not show comes from the configuration beside it, unless it is given
        here; ``l3a help teach`` explains each: its options have these names, except ``--size`` for ``side``.
        ``backbone_precision`` is "float32", "bf16" or "float16"; if it is None, "float16" where the device computes networks, and
        "float32" on the processor.
        ``settings`` are those of a model, such as ``dim=4096`` or ``views=5``; the defaults suit teaching. Pictures are turned
        upright as their EXIF data says, unless ``orient`` is false."""
        context = Context(threads=threads, device=device)
        made = context.make("l3a_options_free", "l3a_options_create")
        for name, value in settings.items():
            context.call("l3a_options_set", made.handle, encode(name.replace("_", "-")), encode(setting_text(value)))
        context.call("l3a_lesson_settings", made.handle)
        network = network_options(pool, side, mean, std, filter, preprocess, heads, activation, layer, backbone_precision)
        picture = sized(l3a_picture_options, orient=int(orient))
        options = sized(l3a_tagger_options, backbone=path_bytes(backbone), batch=batch)
        options.backbone_options, options.picture_options = ctypes.addressof(network), ctypes.addressof(picture)
        lock = context.make("l3a_lock_free", "l3a_lock_take", path_bytes(path), 1)
        handle = context.make("l3a_tagger_free", "l3a_tagger_create", path_bytes(path), made.handle, ctypes.byref(options))
        tagger = cls(context, handle, path, False)
        tagger._lock = lock
        return tagger

    @staticmethod
    def repair(path: Any) -> Repair:
        """Repairs the damaged history of a model: what can be read is kept, and a copy of the damaged file stays beside it. If the
        history is not damaged, nothing is done."""
        context = Context()
        report = sized(l3a_repair_report)
        lock = context.make("l3a_lock_free", "l3a_lock_take", path_bytes(path), 1)
        try:
            context.call("l3a_history_repair", path_bytes(path), ctypes.byref(report))
        finally:
            lock.free()
        return Repair(report.bytes, report.applied, report.lost)

    def close(self) -> None:
        """Frees everything, once no thread is tagging any more, and closes its libraries. What was not saved is lost."""
        for opened in list(self._libraries):
            opened.close()
        with self._gate:
            tagger, self._tagger = self._tagger, None
            while self._busy:
                self._gate.wait()
            while self._idle:
                library.l3a_reader_free(self._idle.pop())
        if tagger is not None:
            tagger.free()
        if self._lock is not None:
            self._lock.free()
            self._lock = None

    def __enter__(self) -> "Tagger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_tagger", None) is not None:
            self.close()

    def __reduce__(self) -> Tuple[Any, ...]:
        raise TypeError("a Tagger cannot be copied or pickled; open the model again with Tagger.open(tagger.path)")

    def _open(self) -> Handle:
        if self._tagger is None:
            raise make_error(Status.ERROR_STATE, f"{self.path}: the tagger is closed")
        return self._tagger

    def __repr__(self) -> str:
        if self._tagger is None:
            return f"<l3a.Tagger {self.path}, closed>"
        names = self.classes
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        changed = ", not saved" if self._changed or not self._saved else ""
        return f"<l3a.Tagger {self.path}: {len(names)} {'tag' if len(names) == 1 else 'tags'}{': ' * bool(names)}{shown}{changed}>"

    # ---- Tagging
    @contextlib.contextmanager
    def _reader(self) -> Iterator[int]:
        """A reader for this thread alone."""
        self._context.check_threads()
        with self._gate:
            tagger = self._open()
            self._busy += 1
            reader = self._idle.pop() if self._idle else 0
        try:
            if not reader:
                made = ctypes.c_void_p()
                status = library.l3a_reader_create(tagger.handle, ctypes.byref(made))
                if status:
                    raise make_error(status, f"{self.path}: the tagger cannot be used")
                reader = made.value or 0
            yield reader
        finally:
            with self._gate:
                if reader:
                    self._idle.append(reader)
                self._busy -= 1
                self._gate.notify_all()

    def tag(self, pictures: Union[Picture, Iterable[Picture]], errors: str = "raise") -> Any:
        """The tags of a picture, or a list with those of each. If pictures cannot be read, ``errors="return"`` puts the
        :class:`l3a.Error` of each in its place, and tags the others."""
        if errors not in ("raise", "return"):
            raise problem(f"errors is {errors!r}", 'use "raise" or "return"')
        many = _is_many(pictures)
        listed = list(pictures) if many else [pictures]
        with self._reader() as reader:
            if len(listed) > 1 and all(_is_path(picture) for picture in listed):
                found = self._tag_files(reader, listed)
            else:
                found = [self._tag_one(reader, picture) for picture in listed]
        for one in found:
            if errors == "raise" and isinstance(one, Error):
                raise one
        return found if many else found[0]

    def _tag_one(self, reader: int, picture: Picture) -> Union[Tags, Error]:
        made = ctypes.c_void_p()
        with Interrupt() as interrupt:
            if _is_path(picture):
                status = library.l3a_reader_tag_file(reader, path_bytes(picture), ctypes.byref(made))
            else:
                name, content = _content(picture)
                status = library.l3a_reader_tag_bytes(reader, encode(name), content, len(content), ctypes.byref(made))
        try:
            interrupt.check()
            return _reader_error(reader, status) if status else _tags_of(made.value or 0)
        finally:
            library.l3a_tags_free(made.value)

    def _tag_files(self, reader: int, paths: Sequence[Any]) -> List[Union[Tags, Error]]:
        names = text_array(path_bytes(path) for path in paths)
        return self._tag_many(reader, library.l3a_reader_tag_files, names, len(paths))

    def _tag_many(self, reader: int, function: Any, *arguments: Any) -> List[Union[Tags, Error]]:
        """Calls a function of the library that passes the tags of each picture to a callback."""
        found: List[Union[Tags, Error]] = []
        raised: List[BaseException] = []
        with Interrupt() as interrupt:
            def take(index: int, status: int, tags: int, user: Any) -> int:
                try:
                    found.append(_reader_error(reader, status) if status else _tags_of(tags))
                except BaseException as error:
                    raised.append(error)
                return bool(raised) or interrupt.came
            status = function(reader, *arguments, l3a_tags_callback(take), None)
        interrupt.check()
        if raised:
            raise raised[0]
        if status:
            raise _reader_error(reader, status)
        return found

    def tag_archive(self, archive: Any) -> Iterator[Tuple[str, Union[Tags, Error]]]:
        """The pictures in a tar file, which is not unpacked, one after another: ``ARCHIVE/MEMBER`` and the tags, or the
        :class:`l3a.Error` of a picture that cannot be read. Several archives are written as in the command: ``"a.tar,b.tar"``,
        ``"shard-*.tar"`` or ``"shard-{0000..0099}.tar"``. Of one that is damaged, only the error comes, at the end."""
        name = path_bytes(archive)
        text = name if name.startswith(b"tar:") else b"tar:" + name
        with self._context.lock:
            self._open()
            pictures = self._context.make("l3a_pictures_free", "l3a_pictures_find", text_array([text]), 1)
        count = library.l3a_pictures_count(pictures.handle)
        for first in range(0, count, ARCHIVE_STEP):
            step = min(ARCHIVE_STEP, count - first)
            with self._reader() as reader:
                found = self._tag_many(reader, library.l3a_reader_tag_pictures, pictures.handle, first, step)
            for i, tags in enumerate(found):
                yield decode(library.l3a_pictures_path(pictures.handle, first + i)), tags
        for path, reason in _skipped(pictures):
            yield path, make_error(Status.ERROR_FORMAT, f"{path}: {reason}")

    # ---- Teaching
    @contextlib.contextmanager
    def _change(self) -> Iterator[Handle]:
        """Only one process may change a model at a time: takes its lock, and what others have saved since. The lock is kept as long
        as there is something to save."""
        with self._context.lock:
            tagger = self._open()
            if self._lock is None:
                self._lock = self._context.make("l3a_lock_free", "l3a_lock_take", path_bytes(self.path), 1)
                self._context.call("l3a_tagger_reload", tagger.handle)
            try:
                yield tagger
            finally:
                self._unlock()

    @contextlib.contextmanager
    def _lock_if_free(self) -> Iterator[str]:
        """Has the model's lock, and what others have saved, if nobody else has the lock; yields why not. With something to save, the
        tagger has it already. In any case, readers see the newest model."""
        held = ""
        with self._context.lock:
            tagger = self._open()
            try:
                if self._lock is None:
                    try:
                        self._lock = self._context.make("l3a_lock_free", "l3a_lock_take", path_bytes(self.path), 0)
                    except Error as error:
                        if error.status not in (Status.ERROR_IO, Status.ERROR_STATE):
                            raise
                        held = error.text
                    self._context.call("l3a_tagger_reload", tagger.handle)
                yield held
            finally:
                self._unlock()

    def _alter(self, name: str, *arguments: Any) -> None:
        """Calls a function that changes the model. If it is interrupted, the change may be complete all the same."""
        try:
            self._context.call(name, *arguments)
        except Error:
            raise
        except BaseException:
            self._changed = True
            raise

    def _unlock(self) -> None:
        if self._lock is not None and self._saved and not self._changed:
            self._lock.free()
            self._lock = None

    def teach(self, pictures: Union[Picture, Iterable[Picture], Mapping[str, Any]], tags: Any = (), *, absent: Any = (), judged: Any = (),
              only: bool = False, instead: bool = False, strict: bool = True, history: bool = True) -> Lesson:
        """Learns what pictures show.

        ``tags`` are those of all the pictures, or a list with the tags of each; instead, ``pictures`` can be a dict that has the
        pictures of each tag. Tags have to be complete, because a picture is also learned as not showing the others. ``absent`` are
        tags that it does not show; without ``tags``, only those are judged. ``judged`` limits the tags for which it is learned, and
        ``only`` limits them to ``tags`` and ``absent``.

        A picture that was taught before in the same way is left out; with other tags it is an error, unless ``instead`` is true: it
        is then taken back first. A picture that cannot be read is an error, and nothing is learned; if ``strict`` is false, it is
        left out. Without ``history``, the lesson cannot be undone."""
        if isinstance(pictures, Mapping):
            if tags:
                raise problem("tags are given twice", "leave them out if the pictures are listed by tag")
            pictures, tags = _by_picture(pictures)
        listed = list(pictures) if _is_many(pictures) else [pictures]
        given = _for_each(tags, len(listed))
        others = {"absent": _for_each(absent, len(listed)), "judged": _for_each(judged, len(listed))}
        with self._change() as tagger:
            lesson = self._context.make("l3a_lesson_free", "l3a_lesson_create")
            for i, picture in enumerate(listed):
                judgement = _judgement(given[i], others["absent"][i], others["judged"][i], only)
                self._add(lesson, picture, judgement)
            options = sized(l3a_lesson_options, strict=int(strict), no_history=int(not history), instead=int(instead))
            report = sized(l3a_teach_report)
            self._alter("l3a_tagger_teach", tagger.handle, lesson.handle, ctypes.byref(options), ctypes.byref(report))
            self._changed = self._changed or report.images > 0
            return _lesson_of(report, lesson)

    def _add(self, lesson: Handle, picture: Picture, judgement: Any) -> None:
        if _is_path(picture):
            self._context.call("l3a_lesson_add", lesson.handle, path_bytes(picture), ctypes.byref(judgement))
        else:
            name, content = _content(picture)
            self._context.call("l3a_lesson_add_bytes", lesson.handle, encode(getattr(picture, "filename", "") or name), content,
                               len(content), ctypes.byref(judgement))

    def undo(self) -> Lesson:
        """Takes the last lesson back."""
        with self._change() as tagger:
            report = sized(l3a_teach_report)
            self._alter("l3a_tagger_undo", tagger.handle, ctypes.byref(report))
            self._changed = True
            return _lesson_of(report, None)

    def set_unlabelled(self, pictures: Any, most: int = 0) -> Unlabelled:
        """Says which pictures are to be tagged, so that tags suit them: a folder, a list of paths, a feature file, or an array of features
        [images, width]. A sample of them acts, 4,000 unless ``most`` says otherwise: they show what is common, and a tag then needs more
        than that. Nobody has to judge them. They take the place of those from before; None: there are none any more. A picture that
        is taught leaves them. A picture that cannot be read is left out, with a warning."""
        with self._change() as tagger:
            options = sized(l3a_unlabelled_options, most=most)
            found, table = self._unlabelled_source(pictures)
            self._alter("l3a_tagger_set_unlabelled", tagger.handle, found and found.handle, table and table.handle,
                        ctypes.byref(options))
            self._changed = True
            return self.unlabelled

    def _unlabelled_source(self, pictures: Any) -> Tuple[Optional[Handle], Optional[Handle]]:
        """Pictures, or a table of features."""
        if pictures is None:
            return None, None
        if _is_path(pictures) and self._holds_features(pictures):
            return None, self._context.make("l3a_features_free", "l3a_features_open", path_bytes(pictures))
        if _is_path(pictures) or _is_many(pictures):
            paths = [path_bytes(path) for path in ([pictures] if _is_path(pictures) else pictures)]
            return self._context.make("l3a_pictures_free", "l3a_pictures_find", text_array(paths), len(paths)), None
        rows = feature_rows(pictures, (2, 3))
        views = rows.shape[1] - 1 if rows.ndim == 3 else 1
        return None, self._context.make("l3a_features_free", "l3a_features_wrap", rows.ctypes.data, None, len(rows), views,
                                        rows.shape[-1], None, 0, kept=rows)

    def _holds_features(self, path: Any) -> bool:
        kind = ctypes.c_char_p()
        status = library.l3a_file_recognise(self._context.handle, path_bytes(path), ctypes.byref(kind))
        return status == Status.OK and kind.value == b"features"

    def rename(self, old: str, new: str) -> bool:
        """Renames a tag. If the new name is known too, the two become one. Returns whether the model is the one that would have
        been taught with the new name."""
        with self._change() as tagger:
            exact = ctypes.c_int()
            self._alter("l3a_tagger_rename", tagger.handle, encode(old), encode(new), ctypes.byref(exact))
            self._changed = True
            return bool(exact.value)

    def save(self) -> None:
        """Writes the model and its history. Whatever happens, the file is complete: the new model, or what it was before."""
        with self._context.lock:
            self._context.call("l3a_tagger_save", self._open().handle)
            self._changed, self._saved = False, True
            self._unlock()

    def reload(self) -> None:
        """Loads the model again from its file. What was not saved is lost."""
        with self._context.lock:
            self._context.call("l3a_tagger_reload", self._open().handle)
            self._changed = False
            self._unlock()

    # ---- What it knows
    @property
    def classes(self) -> List[str]:
        """The tags, in the order in which they were taught."""
        with self._context.lock:
            tagger = self._open()
            model = library.l3a_tagger_model(tagger.handle)
            if model:
                return [decode(library.l3a_model_class(model, k)) for k in range(library.l3a_model_class_count(model))]
            return self._packed_classes()

    @property
    def unlabelled(self) -> Unlabelled:
        """The unlabelled pictures that act; see :meth:`set_unlabelled`."""
        info = sized(l3a_unlabelled_info)
        with self._context.lock:
            model = library.l3a_tagger_model(self._open().handle)
            if model:
                self._context.call("l3a_model_unlabelled", model, ctypes.byref(info))
        return Unlabelled(info.images, info.drawn_from, info.weight)

    def _packed_classes(self) -> List[str]:
        file = self._context.make("l3a_file_free", "l3a_file_open", path_bytes(self.path))
        key, value, index = ctypes.c_char_p(), ctypes.c_char_p(), 0
        while True:
            library.l3a_file_record(file.handle, index, ctypes.byref(key), ctypes.byref(value))
            if key.value is None:
                return []
            if key.value == b"classes":
                return decode(value.value).split("\n")
            index += 1

    def _history(self) -> Any:
        found = ctypes.c_void_p()
        self._context.call("l3a_tagger_history", self._open().handle, ctypes.byref(found))
        return found

    def _history_if_any(self) -> Any:
        """None for a packed model."""
        try:
            return self._history()
        except Error as error:
            if error.status != Status.ERROR_STATE or library.l3a_tagger_model(self._open().handle):
                raise
            return None

    def history(self) -> List[Entry]:
        """The lessons, the oldest first."""
        with self._context.lock:
            history = self._history()
            return [self._entry(history, i) for i in range(library.l3a_history_count(history))]

    def _entry(self, history: Any, index: int) -> Entry:
        found = sized(l3a_history_entry)
        self._context.call("l3a_history_entry_at", history, index, ctypes.byref(found))
        classes, count = {}, ctypes.c_size_t()
        for k in range(found.classes):
            name = library.l3a_history_class(history, index, k, ctypes.byref(count))
            classes[decode(name)] = count.value
        return Entry(found.number, _when(found.seconds), decode(found.kind), found.pictures, found.taken_back, classes, found.new_classes,
                     decode(found.old_name) or None, decode(found.new_name) or None, bool(found.can_undo))

    def expect(self, background: float = 0.5) -> Dict[str, Expectation]:
        """What to expect of each tag if this share of the pictures to be tagged shows none of the tags: how many of the tags given
        will be right (precision), and how much of what is shown will be tagged (recall). It is estimated from the pictures in the
        history. Precision depends on the share most of all."""
        with self._context.lock:
            names, history = self.classes, self._history()
            precision, recall = (ctypes.c_double * len(names))(), (ctypes.c_double * len(names))()
            shown, judged = (ctypes.c_uint64 * len(names))(), (ctypes.c_uint64 * len(names))()
            self._context.call("l3a_history_foresee", history, (ctypes.c_double * 1)(background), 1, precision, recall, shown, judged,
                               None)

            return {name: Expectation(_known(precision[k]), _known(recall[k]), shown[k], judged[k]) for k, name in enumerate(names)}

    def expect_in_library(self) -> Dict[str, LibraryExpectation]:
        """What to expect of each tag among the pictures that :meth:`set_unlabelled` was given since the tagger was opened."""
        with self._context.lock:
            names, history = self.classes, self._history()
            table = library.l3a_tagger_library(self._open().handle)
            if not table:
                raise make_error(Status.ERROR_STATE, f"{self.path}: there are no unlabelled pictures at hand", "call set_unlabelled first")
            precision, recall = (ctypes.c_double * len(names))(), (ctypes.c_double * len(names))()
            tagged = (ctypes.c_uint64 * len(names))()
            self._context.call("l3a_history_foresee_in", history, table, precision, recall, tagged)
            return {name: LibraryExpectation(_known(precision[k]), _known(recall[k]), tagged[k]) for k, name in enumerate(names)}


def _known(value: float) -> Optional[float]:
    return value if value == value else None


def _skipped(pictures: Handle) -> Iterator[Tuple[str, str]]:
    """What was found and is no picture, and why."""
    index = 0
    while (path := library.l3a_pictures_skipped(pictures.handle, index)) is not None:
        yield decode(path), decode(library.l3a_pictures_reason(pictures.handle, index))
        index += 1


def _reader_error(reader: int, status: int) -> Error:
    return make_error(status, decode(library.l3a_reader_error_text(reader)), decode(library.l3a_reader_error_hint(reader)))


def _for_each(tags: Any, count: int) -> List[List[str]]:
    """The tags of each picture."""
    listed = [tags] if isinstance(tags, str) else list(tags)
    if all(isinstance(tag, str) for tag in listed):
        return [listed] * count
    if len(listed) != count:
        raise problem(f"{len(listed)} lists of tags are given for {count} pictures")
    return [[one] if isinstance(one, str) else list(one) for one in listed]


def _by_picture(pictures: Mapping[str, Any]) -> Tuple[List[Picture], List[List[str]]]:
    """Each picture once, with its tags, from the pictures of each tag."""
    listed: List[Picture] = []
    tags: List[List[str]] = []
    places: Dict[Any, int] = {}
    for tag, shown in pictures.items():
        for picture in shown if _is_many(shown) else [shown]:
            place = places.setdefault(os.fspath(picture) if _is_path(picture) else id(picture), len(listed))
            if place == len(listed):
                listed.append(picture)
                tags.append([])
            tags[place].append(tag)
    return listed, tags


def _judgement(tags: List[str], absent: List[str], judged: List[str], only: bool) -> Any:
    made = sized(l3a_judgement, only=int(only))
    made.kept = []
    for field, names in (("tags", tags), ("absent", absent), ("judged", judged)):
        texts = text_array(encode(name) for name in names)
        made.kept.append(texts)  # as long as the struct
        setattr(made, field, ctypes.addressof(texts) if names else None)
        setattr(made, {"tags": "tag_count"}.get(field, f"{field}_count"), len(names))
    return made


def _lesson_of(report: Any, lesson: Optional[Handle]) -> Lesson:
    skipped, repeated = [], []
    for i in range(library.l3a_lesson_count(lesson.handle) if lesson is not None else 0):
        assert lesson is not None
        outcome, name = library.l3a_lesson_outcome(lesson.handle, i), decode(library.l3a_lesson_path(lesson.handle, i))
        if outcome == Status.ERROR_EXISTS:
            repeated.append(name)
        elif outcome != Status.OK:
            skipped.append((name, decode(library.l3a_lesson_problem(lesson.handle, i))))
    return Lesson(report.images, report.new_classes, report.gamma, bool(report.exact), skipped, repeated)
