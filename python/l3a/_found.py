"""What a library found: pictures, and reports about them."""
import datetime
from typing import TYPE_CHECKING, Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union, overload

from ._declarations import Status
from ._error import Error
from ._table import make_table
from ._tagger import Tags

if TYPE_CHECKING:
    from ._index import Library

COLUMNS = ("path", "id", "rank", "state", "taken", "tags", "bytes")


class Indexed(NamedTuple):
    """What :meth:`Library.index` did.

    Of the files in the folders (``pictures``, with videos and RAW files), ``added`` are new, ``changed`` are not as they were, and
    ``gone`` are not there any more. ``away`` folders are missing or empty, so their pictures stay in the index, and ``unreadable``
    ones cannot be listed. ``looked`` pictures went through the network. Of ``known`` ones, the index had the content: they have
    ``moved``, or are ``copies``. ``failed`` cannot be read, and ``waiting`` are left to look at. ``scored`` got new scores. ``held`` says
    why none did, because somebody else has the model's lock; they score then. Otherwise it is empty."""
    pictures: int
    added: int
    changed: int
    gone: int
    away: int
    unreadable: int
    looked: int
    known: int
    moved: int
    copies: int
    failed: int
    waiting: int
    scored: int
    held: str


class LibraryInfo(NamedTuple):
    """What is in an index: ``pictures`` were looked at (``done``), are ``waiting``, or have ``failed``; ``others`` are videos and RAW
    files. ``scored`` have scores of the model as it is. ``said`` were judged, the others are ``tagged`` or ``untagged``,
    and ``unsure`` are in doubt. ``change`` is another number if something has changed. ``bytes`` is the size of the index, and
    ``views`` what the tagger looks at."""
    pictures: int
    done: int
    waiting: int
    failed: int
    others: int
    scored: int
    said: int
    untagged: int
    unsure: int
    change: int
    bytes: int
    views: int
    tagged: int


class Folder(NamedTuple):
    """A folder of a library, and why it is not there; empty if it is."""
    path: str
    problem: str


class Unread(NamedTuple):
    """A file that is no picture that can be read, and why: ``state`` is "failed", or "other" for videos and RAW files."""
    path: str
    state: str
    problem: str


class TagCount(NamedTuple):
    """How many pictures were said to show a tag, and for how many more it is predicted."""
    said: int
    predicted: int


class LibraryTable(NamedTuple):
    """Pictures as :class:`l3a.L3AClassifier` takes them: ``features`` [pictures, width], or [pictures, rows, width] with views, and
    ``labels`` [pictures, classes] of what was said: 1 shown, 0 not shown, -1 not judged."""
    ids: List[int]
    paths: List[str]
    features: Any
    labels: Any
    classes: List[str]


class LibraryPicture:
    """A picture of a library, as it was when it was found.

    ``rank`` is what it was ordered by: a score, a cosine, a probability, a doubt, or None. ``state`` is "waiting", "done", "failed" or
    "other" (a video, a RAW file), and ``problem`` says why it cannot be read. ``taken`` is by the camera's clock; None: unknown.
    ``copies`` is the number of other files with the same bytes."""
    __slots__ = ("id", "path", "rank", "state", "problem", "taken", "modified", "bytes", "copies", "_tags", "_library")
    id: int
    path: str
    rank: Optional[float]
    state: str
    problem: str
    taken: Optional[datetime.datetime]
    modified: Optional[datetime.datetime]
    bytes: int
    copies: int

    def __init__(self, *values: Any, tags: Optional[Tags] = None, library: Optional["Library"] = None) -> None:
        for name, value in zip(self.__slots__, values):
            setattr(self, name, value)
        self._tags, self._library = tags, library

    @property
    def tags(self) -> Tags:
        """Its tags: those that are predicted by the model as it is now, and those that it was said to show, without those that it was
        said not to show. ``tags.all`` has every tag with its score. Without any, unless it was looked at."""
        if self._tags is None:
            self._tags = self._library._tags_of([self])[0] if self._library is not None and self.state == "done" else Tags()
        return self._tags

    def __repr__(self) -> str:
        return f"<{self.path}{'' if self.state == 'done' else ', ' + self.state}{'' if self.rank is None else f', {self.rank:.3f}'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LibraryPicture) and (self.id, self.path) == (other.id, other.path)

    def __hash__(self) -> int:
        return hash((self.id, self.path))

    def __reduce__(self) -> Tuple[Any, ...]:
        return _unpickled, (tuple(getattr(self, name) for name in self.__slots__[:-2]), self.tags)


def _unpickled(values: Tuple[Any, ...], tags: Tags) -> LibraryPicture:
    return LibraryPicture(*values, tags=tags)


class Found(Sequence[LibraryPicture]):
    """Pictures that were found, in order. ``ids`` and ``ranks`` are arrays of all of them; the pictures themselves are looked up
    when they are asked for. A loop leaves out those that have left the index meanwhile; ``found[i]`` raises an error for them."""

    def __init__(self, library: "Library", ids: Any, ranks: Any) -> None:
        self._library, self.ids, self.ranks = library, ids, ranks

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> LibraryPicture: ...

    @overload
    def __getitem__(self, index: slice) -> "Found": ...

    def __getitem__(self, index: Union[int, slice]) -> Union[LibraryPicture, "Found"]:
        if isinstance(index, slice):
            return Found(self._library, self.ids[index], self.ranks[index])
        return self._library._picture(int(self.ids[index]), float(self.ranks[index]))

    def __iter__(self) -> Iterator[LibraryPicture]:
        for index in range(len(self)):
            try:
                picture = self[index]
            except Error as error:
                if error.status != Status.ERROR_NOT_FOUND:
                    raise
            else:
                yield picture

    def __repr__(self) -> str:
        return f"<l3a found: {len(self)} {'picture' if len(self) == 1 else 'pictures'}>"

    def __reduce__(self) -> Tuple[Any, ...]:
        raise TypeError("what was found belongs to its library; pickle list(found), or found.ids")

    @property
    def paths(self) -> List[str]:
        """The paths alone."""
        return [picture.path for picture in self]

    def to_frame(self) -> Any:
        """A table with a row for each picture: a data frame if pandas is installed. ``tags`` are joined by commas."""
        pictures = list(self)
        tags = iter(self._library._tags_of([picture for picture in pictures if picture.state == "done"]))
        rows = [{**{name: getattr(picture, name) for name in COLUMNS if name != "tags"},
                 "tags": ", ".join(next(tags).names) if picture.state == "done" else ""} for picture in pictures]
        return make_table(COLUMNS, rows)
