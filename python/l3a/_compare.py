"""Differences between methods, and summaries that print what matters."""
import ctypes
import importlib
from typing import Any, Dict, List, Optional, Sequence

from ._declarations import Status
from ._error import make_error
from ._library import Context, Handle, decode, encode, library
from ._table import Table, columns_of

WIDTH = 100  # columns of a terminal that a summary takes
FIELDS = ["method", "reference", "pairs", "difference", "low", "high", "p", "adjusted_p", "significant", "interval", "test"]
_SHOWN = {"avg_mAP": "avg mAP", "last_mAP": "last mAP", "CF1": "CF1", "OF1": "OF1", "forgetting": "forget"}


def compare(context: Context, results: Sequence[Handle], metric: Optional[str] = None,
            reference: Optional[int] = None) -> List[Dict[str, Any]]:
    """How each method of the results differs from the reference or, if there is none, from the best; in their order."""
    handles = (ctypes.c_void_p * len(results))(*(each.handle for each in results))
    every = 2 ** (8 * ctypes.sizeof(ctypes.c_size_t)) - 1
    made = context.make("l3a_significance_free", "l3a_results_significance", handles, len(results), encode(metric) if metric else None,
                        every if reference is None else reference, kept=list(results))
    rows = []
    for i in range(library.l3a_significance_count(made.handle)):
        found = library.l3a_significance_at(made.handle, i).contents
        row = {name: getattr(found, name) for name in FIELDS}
        row.update({name: decode(row[name]) if row[name] else "" for name in ("method", "reference", "interval", "test")})
        row["significant"] = None if found.significant < 0 else bool(found.significant)
        row["index"] = found.reference_index if found.reference_index < every else None
        rows.append(row)
    return rows


def find_method(rows: Sequence[Dict[str, Any]], method: str) -> int:
    """The number of a method's row in a summary."""
    for i, row in enumerate(rows):
        if row["method"] == method:
            return i
    known = ", ".join(row["method"] for row in rows)
    raise make_error(Status.ERROR_ARGUMENT, f"there are no results of method '{method}'", f"use one of {known}")


def _number(row: Dict[str, Any], name: str, spread: bool) -> str:
    if row[name] != row[name] or (row["phases"] == 1 and name in ("forgetting", "avg_mAP")):
        return "-"
    return f"{row[name]:.2f}" + (f"±{row[name + '_deviation']:.2f}" if spread and row["seeds"] > 1 else "")


def _difference(found: Dict[str, Any], index: int) -> str:
    if found["index"] == index:
        return "best"
    if found["pairs"] < 2:
        return "-"
    return f"{found['difference']:.2f} ({found['low']:.2f} to {found['high']:.2f})" + (" *" if found["significant"] else "")


def _cut(text: str, width: int) -> str:
    return text if columns_of(text) <= width else text[:width - 1] + "…"


def brief(before: Sequence[str], rows: Sequence[Dict[str, Any]], found: Sequence[Dict[str, Any]],
          sources: Optional[Dict[str, str]] = None) -> "Brief":
    """A summary to read, in at most 100 columns: without deviations, and then with shorter names, if it would be wider. ``sources``
    has the file of each method that is from elsewhere."""
    sources = sources or {}
    compared = any(each["pairs"] > 1 for each in found)
    for spread, width in ((True, WIDTH), (False, WIDTH), (False, 24), (False, 12), (False, 8)):
        shown = []
        for i, row in enumerate(rows):
            own = {_cut(name, width): _cut(str(row[name]), width) for name in before}
            own["method"] = _cut(row["method"], width) + (" †" if row["method"] in sources else "")
            own.update((title, _number(row, name, spread)) for name, title in _SHOWN.items())
            if compared:
                own["last mAP from best"] = _difference(found[i], i)
            shown.append(own)
        table = Brief(list(shown[0]) if shown else [], shown, found, sources)
        if table.width() <= WIDTH:
            break
    return table


class Brief(Table):
    """The table with lines that say what it shows."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Dict[str, Any]], found: Sequence[Dict[str, Any]],
                 sources: Dict[str, str]) -> None:
        super().__init__(columns, rows)
        self._found, self._sources = found, sources

    def _are_numbers(self) -> List[bool]:
        return [name in _SHOWN.values() for name in self.columns]

    def width(self) -> int:
        return max(map(columns_of, super().__repr__().splitlines()), default=0)

    def notes(self) -> List[str]:
        pairs, lines = max((each["pairs"] for each in self._found), default=0), []
        if pairs > 1:
            lines.append(f"last mAP from best: the mean over {pairs} pairs, and its 95 % {'t' if pairs < 10 else 'bootstrap'} interval"
                         + ("; *: significant (5 %, Holm)" if pairs >= 5 else ""))
        if 0 < pairs < 5:
            runs = "One run of each" if pairs == 1 else f"{pairs} paired runs"
            lines.append(f"{runs} cannot tell whether a difference is chance: it takes five.")
        return lines + [f"† from {name}" for name in sorted(set(self._sources.values()))]

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), *self.notes()])


def brief_differences(before: Sequence[str], rows: Sequence[Dict[str, Any]]) -> Table:
    """Differences to read."""
    names = [*before, "method", "reference", "pairs", "difference", "95 % interval", "p", "Holm", "significant"]
    shown = []
    for row in rows:
        known = row["pairs"] > 1
        texts = [f"{row['difference']:.2f}" if row["pairs"] else "-", f"{row['low']:.2f} to {row['high']:.2f}" if known else "-",
                 *(f"{row[name]:.2g}" if known else "-" for name in ("p", "adjusted_p")),
                 {True: "yes", False: "no", None: "cannot tell"}[row["significant"]]]
        values = [*(str(row[name]) for name in before), row["method"], row["reference"] or "-", str(row["pairs"]), *texts]
        shown.append(dict(zip(names, values)))
    return Table(names, shown)


class Summary(Table):
    """A table without pandas: all columns by name, printed briefly."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Dict[str, Any]], shown: Table) -> None:
        super().__init__(columns, rows)
        self.brief = shown

    def __repr__(self) -> str:
        return repr(self.brief)

    def _repr_html_(self) -> str:
        return self.brief._repr_html_()


def make_summary(columns: Sequence[str], rows: Sequence[Dict[str, Any]], shown: Table) -> Any:
    """A DataFrame that prints briefly as long as it has the columns and rows that it was made with, or a :class:`Summary`."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        return Summary(columns, rows, shown)

    class SummaryFrame(pandas.DataFrame):  # type: ignore
        """What is taken from it is a plain DataFrame."""
        _metadata = ["brief"]

        def _is_whole(self) -> bool:
            return list(self.columns) == list(columns) and len(self) == len(rows) and getattr(self, "brief", None) is not None

        def __repr__(self) -> str:
            return repr(self.brief) if self._is_whole() else str(super().__repr__())

        def _repr_html_(self) -> Any:
            return self.brief._repr_html_() if self._is_whole() else super()._repr_html_()

        def __reduce__(self) -> Any:
            return pandas.DataFrame, (pandas.DataFrame(self),)

    frame = SummaryFrame(list(rows), columns=list(columns))
    frame.brief = shown
    return frame
