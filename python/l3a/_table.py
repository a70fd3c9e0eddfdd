"""Tables of results: pandas' if pandas is installed, otherwise plain ones that can be read and printed."""
import csv
import html
import importlib
import re
import unicodedata
from pathlib import Path
from typing import Any, Container, Dict, Iterator, List, Sequence, Union

# Columns that are texts even if all of their values look like numbers.
TEXTS = ("method", "class", "stage", "class_order", "id")
LIMIT = 60  # rows that a plain table prints


class Table:
    """A table without pandas: a sequence of rows, which are dicts, with its columns by name.

    >>> table = Table(["method", "mAP"], [{"method": "l3a", "mAP": 61.69}, {"method": "joint", "mAP": 62.73}])
    >>> table["mAP"]
    [61.69, 62.73]
    >>> table[0]
    {'method': 'l3a', 'mAP': 61.69}
    >>> print(table)
    method    mAP
    l3a     61.69
    joint   62.73
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[Dict[str, Any]]) -> None:
        self.columns, self._rows = list(columns), list(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return iter(self._rows)

    def __getitem__(self, key: Union[str, int]) -> Any:
        """A column by its name, as a list, or a row by its number, as a dict."""
        if isinstance(key, str):
            if key not in self.columns:
                raise KeyError(key)
            return [row[key] for row in self._rows]
        return self._rows[key]

    def _texts(self) -> List[List[str]]:
        return [self.columns] + [[show(row[name]) for name in self.columns] for row in self._rows[:LIMIT]]

    def _are_numbers(self) -> List[bool]:
        return [bool(self._rows) and not isinstance(self._rows[0][name], (str, tuple)) for name in self.columns]

    def __repr__(self) -> str:
        texts, right = self._texts(), self._are_numbers()
        widths = [max(columns_of(row[j]) for row in texts) for j in range(len(self.columns))]
        lines = []
        for row in texts:
            cells = [" " * (width - columns_of(text)) + text if number else text + " " * (width - columns_of(text))
                     for text, width, number in zip(row, widths, right)]
            lines.append("  ".join(cells).rstrip())
        if len(self) > LIMIT:
            lines.append(f"… {len(self) - LIMIT} more rows")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head, *body = self._texts()
        lines = ["<table><thead><tr>", *(f"<th>{html.escape(name)}</th>" for name in head), "</tr></thead><tbody>"]
        for row in body:
            lines += ["<tr>", *(f"<td>{html.escape(text)}</td>" for text in row), "</tr>"]
        return "".join(lines) + "</tbody></table>"


def columns_of(text: str) -> int:
    """The columns that a text takes on a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def show(value: Any) -> str:
    """A value as a table prints it."""
    if isinstance(value, float):
        return "" if value != value else f"{value:.2f}" if abs(value) >= 0.01 or value == 0 else f"{value:.3g}"
    if isinstance(value, tuple):
        return f"{len(value)} numbers" if value else ""
    return str(value)


def make_table(columns: Sequence[str], rows: Sequence[Dict[str, Any]]) -> Any:
    """A DataFrame if pandas is installed, otherwise a :class:`Table`."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        return Table(columns, rows)
    return pandas.DataFrame(list(rows), columns=list(columns))


def _convert(name: str, texts: List[str], plain: Container[str]) -> List[Any]:
    """Integers if all are, otherwise numbers if all are, otherwise texts; an empty number is NaN."""
    if name == "curve":
        return [tuple(float(number) for number in text.split()) for text in texts]
    if name in TEXTS or name in plain:
        return list(texts)
    for kind in (int, float):
        try:
            return [kind(text) if text or kind is int else float("nan") for text in texts]
        except ValueError:
            pass
    return list(texts)


#: The blank that is written before a text which a spreadsheet would take for a formula.
_FORMULA = re.compile(r"\A ( *[=+\-@\t\r\n])")


def read_csv(path: Path, plain: Container[str] = ()) -> Table:
    """A table of the folder of a run; without rows if there is no such file. The columns in ``plain`` stay texts."""
    if not path.is_file():
        return Table([], [])
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        lines = [[_FORMULA.sub(r"\1", field) for field in line] for line in csv.reader(file)]
    names, body = lines[0], [line for line in lines[1:] if line]
    values = {name: _convert(name, [line[j] if j < len(line) else "" for line in body], plain) for j, name in enumerate(names)}
    return Table(names, [{name: values[name][i] for name in names} for i in range(len(body))])
