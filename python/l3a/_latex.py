"""Tables for LaTeX, with the package booktabs, in the notation of ``l3a sweep --format latex``."""
from typing import TYPE_CHECKING, Any, Dict, List, Sequence

if TYPE_CHECKING:
    from ._run import Run, Sweep

COLUMNS = {"avg_mAP": "avg mAP", "last_mAP": "last mAP", "CF1": "CF1", "OF1": "OF1", "forgetting": "forgetting"}
_ESCAPES = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
            "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def escape(text: str) -> str:
    r"""A text as LaTeX shows it.

    >>> print(escape("a_b & 5%"))
    a\_b \& 5\%
    """
    return "".join(_ESCAPES.get(character, character) for character in text)


def cell(row: Dict[str, Any], name: str, plus_minus: str) -> str:
    """A mean as the command prints it, with its deviation if there are several seeds; "-" if it has no meaning."""
    if row[name] != row[name] or (name == "forgetting" and row["phases"] == 1):
        return "-"
    mean = f"{row[name]:.2f}"
    return mean + (f"{plus_minus}{row[name + '_deviation']:.2f}" if row["seeds"] > 1 else "")


def places(rows: Sequence[Dict[str, Any]], name: str) -> List[int]:
    """1 for the best of a column, 2 for the second best, 0 for the others; numbers that are equal as printed share a place. Rows
    that learned all classes at once are an upper bound, not competitors."""
    most = max((row["phases"] for row in rows), default=0)
    sign = -1 if name == "forgetting" else 1
    values = [sign * round(row[name], 2) if row["phases"] == most and row[name] == row[name] else None for row in rows]
    ranked = sorted({value for value in values if value is not None}, reverse=True)[:2]
    return [ranked.index(value) + 1 if len(rows) > 1 and value in ranked else 0 for value in values]


def _table(before: Sequence[str], rows: Sequence[Dict[str, Any]]) -> str:
    place = {name: places(rows, name) for name in COLUMNS}
    opening, closing = ("", r"\textbf{", r"\underline{"), ("", "}", "}")
    lines = [r"\begin{tabular}{" + "l" * len(before) + "r" * len(COLUMNS) + "}", r"\toprule",
             " & ".join([escape(name) for name in before] + list(COLUMNS.values())) + r" \\", r"\midrule"]
    for i, row in enumerate(rows):
        cells = [escape(str(row[name])) for name in before]
        for name in COLUMNS:
            text = cell(row, name, r" $\pm$ ")
            mark = place[name][i] if text != "-" else 0
            cells.append(opening[mark] + text + closing[mark])
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def run_table(run: "Run") -> str:
    return _table(["method"], run._summary)


def sweep_table(sweep: "Sweep") -> str:
    """The method is a column only if there are several, or nothing varies."""
    return _table((["method"] if len(sweep.methods) > 1 or not sweep.axes else []) + list(sweep.axes), sweep.summary_rows())
