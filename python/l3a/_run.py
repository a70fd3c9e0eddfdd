"""Runs and sweeps: what is in their folders, as tables, charts and LaTeX."""
import ctypes
import html
import json
import re
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ._compare import FIELDS, brief, brief_differences, compare, find_method, make_summary
from ._declarations import Status, l3a_report_options, l3a_summary
from ._error import make_error
from ._library import Context, Handle, decode, encode, library, listed, path_bytes, sized, text_array
from ._table import Table, make_table, read_csv

#: Measures of a summary: their names here, and in l3a_summary.
SUMMARY = {"avg_mAP": "average_map", "last_mAP": "last_map", "CF1": "last_class_f1", "OF1": "last_overall_f1",
           "forgetting": "forgetting", "base_mAP": "base_map", "new_mAP": "new_map"}
_PUBLISHED = {"avg_mAP": "average_map", "last_mAP": "last_map", "CF1": "last_class_f1", "OF1": "last_overall_f1"}


class _Folder:
    """What the folders of runs and sweeps have in common."""
    _record_name = ""
    _kind = ""

    def __init__(self, folder: Any, kept: Any = None, failures: Optional[Dict[str, BaseException]] = None) -> None:
        self.folder = Path(folder)
        self._joined: List[Path] = []  # files with results from elsewhere
        self._kept = kept  # a temporary folder lives as long as this object
        #: Methods of one's own that have failed, and why; each name is there once, with what the method raised.
        self.failures: Dict[str, BaseException] = failures or {}
        path = self.folder / self._record_name
        if not path.is_file():
            other = next((kind for kind in ("run", "sweep") if (self.folder / f"{kind}.json").is_file()), "")
            raise make_error(Status.ERROR_NOT_FOUND, f"{self.folder}: not the folder of a {self._kind} (there is no "
                             f"{self._record_name} in it)", f"use l3a.load_{other}" if other else f"give the folder of a {self._kind}")
        try:
            self.record: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
            record = self.record["run"]
            self.protocol: str = record["protocol"]
            self.methods: List[str] = list(record["methods"])
            self.seeds: List[int] = list(record["seeds"])
            self.classes: List[str] = list(record["classes"])
            #: What the class orders are called, if there are several.
            self.class_orders: List[str] = list(record.get("class_orders", []))
        except (ValueError, KeyError, TypeError) as problem:
            raise make_error(Status.ERROR_FORMAT, f"{path}: not a record of a {self._kind}: {problem}",
                             f"put the file back as it was, or start the {self._kind} again in a new folder") from problem
        names = [decode(option.name) for option in listed("l3a_option_at")]
        #: The settings that all methods share. What a method prescribes is in ``record["run"]["prescribed"]``.
        self.settings: Dict[str, Any] = {name: record[name] for name in names if name in record}

    def __getstate__(self) -> Dict[str, Any]:
        """A copy refers to the same folder. If that is temporary, it goes with the original."""
        return {**self.__dict__, "_kept": None}

    def _repeats(self) -> str:
        return _count(self.seeds, "seed") + (f", {_count(self.class_orders, 'class order')}" if self.class_orders else "")

    @property
    def command(self) -> str:
        """The command that makes this folder, or "" if no command can."""
        return str(self.record.get("command", ""))

    def report(self) -> str:
        """The report, as HTML: the one in the folder if it is up to date, otherwise a new one, which is not saved."""
        page = self.folder / "report.html"
        tables = [self.folder / name for name in ("metrics.csv", "sweep.csv")]
        times = [table.stat().st_mtime_ns for table in tables if table.is_file()]
        if not self._joined and page.is_file() and page.stat().st_mtime_ns >= max(times, default=0):
            return page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "report.html"
            options, files = self._options()
            Context(threads=1).call("l3a_report_write", text_array([path_bytes(self.folder)]), 1, ctypes.byref(options),
                                    path_bytes(made))
            del files
            return made.read_text(encoding="utf-8")

    def _options(self) -> Tuple[l3a_report_options, Any]:
        """The options of a report, and what must live as long as they do."""
        files = text_array([path_bytes(path) for path in self._joined])
        options = sized(l3a_report_options)
        setattr(options, "with", ctypes.cast(files, ctypes.c_void_p))
        options.with_count = len(self._joined)
        return options, files

    def to_latex(self) -> str:
        """The results for LaTeX, with the package booktabs, as ``l3a run --format latex`` prints them: the columns of the paper's
        tables, in bold what is best or may be as good, and the paper's own rows if it has any. A sweep has a row for each point. All
        phases must be finished."""
        return self._table("latex")

    def to_markdown(self) -> str:
        """The same in Markdown."""
        return self._table("markdown")

    def _table(self, format: str) -> str:
        context, length = Context(threads=1), ctypes.c_size_t()
        options, files = self._options()
        arguments = (text_array([path_bytes(self.folder)]), 1, ctypes.byref(options), format.encode())
        context.call("l3a_report_table", *arguments, None, 0, ctypes.byref(length))
        text = ctypes.create_string_buffer(length.value + 1)
        context.call("l3a_report_table", *arguments, text, len(text), ctypes.byref(length))
        del files
        return decode(text.value)

    def _repr_html_(self) -> str:
        return in_frame(charts_only(self.report()))


class Run(_Folder):
    """A run, finished or not, as :func:`l3a.run` returns it and :func:`l3a.load_run` loads it.

    ``metrics`` has a row per method, seed and phase; ``per_class`` has a row per class besides; ``timings`` has a row per stage.
    They are DataFrames if pandas is installed, otherwise plain tables (see docs/formats.md for the columns). ``settings``,
    ``protocol``, ``methods``, ``seeds`` and ``classes`` are those of the run, and ``record`` is all of its run.json."""
    _record_name, _kind = "run.json", "run"

    def __init__(self, folder: Any, kept: Any = None, failures: Optional[Dict[str, BaseException]] = None,
                 joined: Sequence[Path] = ()) -> None:
        super().__init__(folder, kept, failures)
        self._joined = list(joined)
        context = Context(threads=1)
        results = self._results(context)
        self._summary = _summaries(context, results)  # first, because it verifies the tables
        own = read_csv(self.folder / "metrics.csv")
        self._metrics = Table(own.columns, [*own, *_joined_rows(results, own.columns)])
        #: The methods that have results.
        self.measured: List[str] = [row["method"] for row in self._summary]

    @property
    def metrics(self) -> Any:
        return make_table(self._metrics.columns, list(self._metrics))

    @property
    def per_class(self) -> Any:
        table = read_csv(self.folder / "per_class.csv")
        return make_table(table.columns, list(table))

    @property
    def timings(self) -> Any:
        table = read_csv(self.folder / "timings.csv")
        return make_table(table.columns, list(table))

    @property
    def finished(self) -> bool:
        """Whether every method has learned the last phase, with every seed and class order."""
        done = {(row["method"], row["seed"], row.get("class_order")) for row in self._metrics
                if row["last"] == len(self.classes) and row["method"] in self.methods}
        return len(done) == len(self.methods) * len(self.seeds) * max(len(self.class_orders), 1)

    def phase_values(self, method: str, measure: str) -> List[Tuple[int, List[float]]]:
        """For each phase of a method, how many classes had been learned, and the measure for each seed and class order."""
        values: Dict[int, List[float]] = {}
        for row in self._metrics:
            if row["method"] == method and row.get(measure, float("nan")) == row.get(measure, float("nan")):
                values.setdefault(row["last"], []).append(row[measure])
        return sorted(values.items())

    def summary(self) -> Any:
        """A row per method: means over seeds and class orders, and standard deviations, as the command prints them. ``seeds`` is
        their number: with several class orders, that of pairs of an order and a seed. Printed, it shows what matters, in at most 100
        columns, with the difference of the last mAP from the best and its 95 % interval."""
        context = Context(threads=1)
        results = self._results(context)
        sources = {row["method"]: decode(library.l3a_results_source(results.handle, encode(row["method"]))) for row in self._summary}
        shown = brief([], self._summary, compare(context, [results]), {method: source for method, source in sources.items() if source})
        return make_summary(_summary_columns(), self._summary, shown)

    def significance(self, metric: str = "last_mAP", reference: Optional[str] = None) -> Any:
        """How each method differs from the one named ``reference`` or, without a name, from the best that learns in phases: the mean
        difference over the seeds and class orders that both have, its 95 % interval, and p, alone and adjusted by Holm for all
        methods. ``significant`` is None if fewer than five pairs cannot tell. The metric is ``avg_mAP``, ``last_mAP``, ``CF1``,
        ``OF1`` or ``forgetting``; CF1 and OF1 are compared only between methods with the same threshold. See
        docs/reading-the-report.md."""
        context = Context(threads=1)
        index = None if reference is None else find_method(self._summary, reference)
        found = compare(context, [self._results(context)], metric, index)
        rows = [row for i, row in enumerate(found) if row["index"] != i]
        return make_summary(FIELDS, rows, brief_differences([], rows))

    def join(self, path: Any) -> "Run":
        """The run with results that were computed elsewhere, from a CSV file that docs/reading-the-report.md describes: they are in its
        tables, charts and comparisons. The folder does not change."""
        return Run(self.folder, self._kept or self, self.failures, [*self._joined, Path(path)])

    def _results(self, context: Context) -> Handle:
        results = context.make("l3a_results_free", "l3a_results_load", path_bytes(self.folder))
        for path in self._joined:
            context.call("l3a_results_join", results.handle, path_bytes(path))
        return results

    def published_rows(self) -> List[Dict[str, Any]]:
        names = text_array(encode(name) for name in self.classes)
        rows: List[Dict[str, Any]] = []
        while True:
            found = library.l3a_published_at(encode(self.protocol), names, len(self.classes), len(rows))
            if not found:
                return rows
            row = found.contents
            rows.append({"table": row.table, "method": decode(row.method), "memory": decode(row.memory),
                         "backbone": decode(row.backbone), **{name: getattr(row, field) for name, field in _PUBLISHED.items()}})

    @property
    def published(self) -> Any:
        """The paper's numbers for the run's data set and protocol; no rows if it has none.

        They were not measured with this program: backbone, data and split may all differ from those of the run."""
        return make_table(["table", "method", "memory", "backbone", *_PUBLISHED], self.published_rows())

    def plot(self, measure: str = "mAP", *, competitors: Union[bool, Sequence[str]] = True, ax: Optional[Any] = None,
             title: Optional[str] = None) -> Any:
        """Draws the paper's figure with matplotlib: the measure after each phase, a line per method, bands of one standard
        deviation if there are several seeds. Beside it, if the paper has the same data set and protocol, its numbers after the
        last phase; ``competitors`` says which: True for all, False for none, or names of methods. Of a method that the paper
        has with several memories, the best is shown.

        ``measure`` is a column of ``metrics`` in percent. Returns the axes; ``ax`` gives axes to draw on."""
        from ._plot import plot_run
        return plot_run(self, measure, competitors=competitors, ax=ax, title=title)

    def verdict(self) -> str:
        """One sentence: which method ends best, how far it is above the next, and whether that is more than chance. All phases must
        be finished."""
        if not self.finished:
            raise make_error(Status.ERROR_STATE, f"{self.folder}: the run is not finished, so there is no verdict", "resume the run")
        text = ctypes.create_string_buffer(4096)
        context = Context(threads=1)
        results = self._results(context)
        context.call("l3a_results_verdict", results.handle, text, len(text))
        return decode(text.value)

    def __repr__(self) -> str:
        lines = [f"{len(self.classes)} classes, protocol {self.protocol}; {self._repeats()}; {self.folder}"
                 + ("" if self.finished else "; not finished")]
        if self._summary:
            lines.append(repr(_readable([], self._summary)))
        return "\n".join(lines)


class Sweep(_Folder):
    """A sweep, finished or not, as :func:`l3a.sweep` returns it and :func:`l3a.load_sweep` loads it.

    ``axes`` has the values of each setting that varies, as texts. ``metrics`` has the rows of all points, with these settings in
    front; ``summary()`` has a row per point; ``runs`` has the run of each point."""
    _record_name, _kind = "sweep.json", "sweep"

    def __init__(self, folder: Any, kept: Any = None, failures: Optional[Dict[str, BaseException]] = None) -> None:
        super().__init__(folder, kept, failures)
        prefix = "values of "
        given = {key[len(prefix):]: list(map(str, values)) for key, values in self.record["run"].items() if key.startswith(prefix)}
        self._metrics = read_csv(self.folder / "sweep.csv")
        #: For each point: its method, its values as the folder spells them, and its folder.
        self._points: List[Tuple[str, Dict[str, str], Path]] = []
        for row in read_csv(self.folder / "sweep.csv", plain=given):
            values = {name: row[name] for name in given}
            if not any((row["method"], values) == point[:2] for point in self._points):
                label = [row["method"]] if len(self.methods) > 1 or not given else []
                label += [f"{name}={value}" for name, value in values.items()]
                self._points.append((row["method"], values, self.folder / "points" / ",".join(label)))
        self.axes: Dict[str, List[str]] = {name: [_spelled(value, [point[1][name] for point in self._points]) for value in each]
                                           for name, each in given.items()}
        self._rows: List[Dict[str, Any]] = [{**values, **summary} for _, values, path in self._points
                                            for summary in _load_summaries(path)]

    @property
    def metrics(self) -> Any:
        return make_table(self._metrics.columns, list(self._metrics))

    @property
    def runs(self) -> List[Run]:
        """The run of each point that has results, in the order of ``summary()``."""
        return [Run(path, self._kept) for _, _, path in self._points]

    def summary_rows(self) -> List[Dict[str, Any]]:
        return self._rows

    def summary(self) -> Any:
        """A row per point: the settings that vary, the method, and means and standard deviations over the seeds. Printed, it shows what
        matters, as that of a run."""
        return make_summary([*self.axes, *_summary_columns()], self._rows, brief(list(self.axes), self._rows, self._compare()))

    def significance(self, metric: str = "last_mAP", reference: Optional[int] = None) -> Any:
        """How each point differs from another one, the row number ``reference`` of the summary or, without a number, from the best; as
        :meth:`Run.significance` says. ``reference`` is the label of that point."""
        found = self._compare(metric, reference)
        rows = [{**{name: own[name] for name in self.axes}, **row, "reference": "" if row["index"] is None else self._label(row["index"])}
                for i, (own, row) in enumerate(zip(self._rows, found)) if row["index"] != i]
        return make_summary([*self.axes, *FIELDS], rows, brief_differences(list(self.axes), rows))

    def _compare(self, metric: Optional[str] = None, reference: Optional[int] = None) -> List[Dict[str, Any]]:
        context = Context(threads=1)
        results = [context.make("l3a_results_free", "l3a_results_load", path_bytes(path)) for _, _, path in self._points]
        return compare(context, results, metric, reference)

    def _label(self, index: int) -> str:
        row, named = self._rows[index], len(self.methods) > 1 or not self.axes
        return " ".join([row["method"]] * named + [f"{name}={row[name]}" for name in self.axes])

    def best(self, measure: str = "last_mAP") -> Dict[str, Any]:
        """The row of the summary with the best value: the highest, or the lowest of ``forgetting``."""
        from ._plot import check_measure
        check_measure(measure, SUMMARY)
        if not self._rows:
            raise make_error(Status.ERROR_STATE, f"{self.folder}: no point of the sweep has results yet", "resume it")
        sign = -1 if measure == "forgetting" else 1
        phased = [row for row in self._rows if row["phases"] > 1] or self._rows
        return max(phased, key=lambda row: float("-inf") if row[measure] != row[measure] else sign * row[measure])

    def plot(self, measure: str = "last_mAP", *, setting: Optional[str] = None, ax: Optional[Any] = None,
             title: Optional[str] = None) -> Any:
        """Draws a measure of the summary against a setting that varies, the first one unless ``setting`` names another, with a
        line for each combination of the others, and bars of one standard deviation. Returns the axes."""
        from ._plot import plot_sweep
        return plot_sweep(self, measure, setting=setting, ax=ax, title=title)

    def __repr__(self) -> str:
        varied = ", ".join(f"{name} {', '.join(values)}" for name, values in self.axes.items())
        lines = [f"{len(self.classes)} classes, protocol {self.protocol}; {varied or ', '.join(self.methods)}; "
                 f"{self._repeats()}; {self.folder}"]
        if self._rows:
            lines.append(repr(_readable(list(self.axes), self._rows)))
        return "\n".join(lines)


def load_run(folder: Any) -> Run:
    """Loads the folder of a run, finished or not, that ``l3a run`` or :func:`l3a.run` has written.

    Tables that were edited are an error, as for the command: see docs/formats.md."""
    return Run(folder)


def load_sweep(folder: Any) -> Sweep:
    """Loads the folder of a sweep, finished or not, that ``l3a sweep`` or :func:`l3a.sweep` has written."""
    return Sweep(folder)


def _spelled(value: str, known: Sequence[str]) -> str:
    """A value of a setting as the points spell it.

    >>> _spelled("1e3", ["10", "1000"]), _spelled("0.70", ["auto", "0.7"]), _spelled("auto", ["10"])
    ('1000', '0.7', 'auto')
    """
    return next((other for other in known if other == value or _same_number(other, value)), value)


def _same_number(left: str, right: str) -> bool:
    try:
        return float(left) == float(right)
    except ValueError:
        return False


def _count(items: Sequence[Any], what: str) -> str:
    return f"{len(items)} {what}" + ("" if len(items) == 1 else "s")


def _summary_columns() -> List[str]:
    return ["method", "seeds", "phases"] + [name + end for name in SUMMARY for end in ("", "_deviation")]


def _load_summaries(folder: Path) -> List[Dict[str, Any]]:
    context = Context(threads=1)
    return _summaries(context, context.make("l3a_results_free", "l3a_results_load", path_bytes(folder)))


def _joined_rows(results: Handle, columns: Sequence[str]) -> List[Dict[str, Any]]:
    """The rows that are from elsewhere, in the columns of metrics.csv; what they do not have is NaN."""
    rows = []
    for i in range(library.l3a_results_count(results.handle)):
        row = library.l3a_results_at(results.handle, i).contents
        if library.l3a_results_source(results.handle, row.method):
            order = library.l3a_results_order(results.handle, library.l3a_results_order_of(results.handle, i))
            known = {"method": decode(row.method), "seed": row.seed, "phase": row.phase, "first": row.first, "last": row.last,
                     "mAP": row.metrics.mean_ap, "CF1": row.metrics.class_f1, "OF1": row.metrics.overall_f1, "class_order": decode(order)}
            rows.append({name: known.get(name, float("nan")) for name in columns})
    return rows


def _summaries(context: Context, results: Handle) -> List[Dict[str, Any]]:
    """The summaries of the methods that have results."""
    phases: Dict[str, int] = {}
    for i in range(library.l3a_results_count(results.handle)):
        row = library.l3a_results_at(results.handle, i).contents
        phases[decode(row.method)] = max(phases.get(decode(row.method), 0), row.phase)
    rows = []
    for method, count in phases.items():
        summary = sized(l3a_summary)
        context.call("l3a_results_summary", results.handle, encode(method), ctypes.byref(summary))
        row = {"method": method, "seeds": summary.seeds, "phases": count}
        for name, field in SUMMARY.items():
            row[name], row[name + "_deviation"] = getattr(summary, field)
        rows.append(row)
    return rows


def _cell(row: Dict[str, Any], name: str) -> str:
    """A mean as the command prints it, with its deviation if there are several; "-" if it has no meaning."""
    if row[name] != row[name] or (name == "forgetting" and row["phases"] == 1):
        return "-"
    return f"{row[name]:.2f}" + (f" ± {row[name + '_deviation']:.2f}" if row["seeds"] > 1 else "")


def _readable(before: List[str], rows: Sequence[Dict[str, Any]]) -> Table:
    """The summaries as a table to read: means, and ± if there are several seeds."""
    names = {"avg_mAP": "avg mAP", "last_mAP": "last mAP", "CF1": "CF1", "OF1": "OF1", "forgetting": "forgetting"}
    return Table([*before, "method", *names.values()],
                 [{**{name: row[name] for name in before}, "method": row["method"],
                   **{shown: _cell(row, name) for name, shown in names.items()}} for row in rows])


def charts_only(page: str) -> str:
    """The report without the sections that have no charts of whole runs, without its heading, and without pictures."""
    def keep(section: "re.Match[str]") -> str:
        return section.group(0) if section.group(1) in ("headline", "phases", "sweep", "settings") else ""
    page = re.sub(r'<section id="([^"]*)"[^>]*>.*?</section>\n?', keep, page, flags=re.S)
    style = "<style>header,footer,nav{display:none!important}main{padding-top:10px}body{background:var(--ground)}</style></head>"
    return page.replace("</head>", style, 1)


def in_frame(page: str) -> str:
    """A page in a frame of its own, so that its style and that of a notebook do not touch. Scripts in it do not run; where those of
    the notebook do, the frame becomes as high as the page."""
    grow = "this.style.height=(this.contentDocument.documentElement.scrollHeight+4)+'px'"
    return (f'<iframe sandbox="allow-same-origin" srcdoc="{html.escape(page)}" onload="{grow}" title="report of l3a" '
            'style="width:100%;height:720px;border:0;color-scheme:light dark"></iframe>')
