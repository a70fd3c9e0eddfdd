"""Charts with matplotlib: the paper's figure of a run, and a measure against a setting of a sweep.

Colours, markers and dashes are those of the report, in its order: Okabe and Ito's colours, which people with any kind of colour
vision can tell apart, and a marker for each series, so that the chart can be read without colours too."""
import math
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._error import make_error
from ._declarations import Status
from ._need import need

if TYPE_CHECKING:
    from ._run import Run, Sweep

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#000000")
DASHES: Sequence[Any] = ("-", (0, (4.5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "*")
SIZES = (6, 5.5, 7, 5.5, 7, 7, 9)
SOFT, RULE = "#5b626d", "#dfe1e4"

#: Measures of a phase, as metrics.csv has them: what the axis says, and the paper's number for it.
MEASURES: Dict[str, Tuple[str, Optional[str]]] = {
    "mAP": ("mAP (%)", "last_mAP"), "CF1": ("CF1 (%)", "CF1"), "OF1": ("OF1 (%)", "OF1"), "CP": ("CP (%)", None),
    "CR": ("CR (%)", None), "OP": ("OP (%)", None), "OR": ("OR (%)", None), "base_mAP": ("base mAP (%)", None),
    "new_mAP": ("new mAP (%)", None)}


def style_of(series: int) -> Dict[str, Any]:
    """How a series is drawn."""
    later = series + series // len(COLOURS)  # so that combinations repeat as late as possible
    return {"color": COLOURS[series % len(COLOURS)], "linestyle": DASHES[later % len(DASHES)],
            "marker": MARKERS[later % len(MARKERS)], "markersize": SIZES[later % len(MARKERS)], "linewidth": 1.8,
            "markeredgecolor": "white", "markeredgewidth": 0.8}


def check_measure(measure: str, allowed: Iterable[str]) -> None:
    if measure not in allowed:
        raise make_error(Status.ERROR_ARGUMENT, f"there is no measure {measure!r}", "use one of " + ", ".join(allowed))


def spread(values: Sequence[float]) -> Tuple[float, float]:
    """Mean and standard deviation, of the sample."""
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)) if len(values) > 1 else 0.0


PER_LINE = 4  # entries in a line of the legend


def legend_lines(series: int) -> int:
    return math.ceil(series / PER_LINE) if series > 1 else 0


def make_axes(what: str, ax: Optional[Any], width: float, height: float, series: int) -> Any:
    """Axes in the report's style; new ones leave room for a legend of so many series."""
    pyplot = need("matplotlib.pyplot", what, "matplotlib")
    if ax is None:
        _, ax = pyplot.subplots(figsize=(width, height + 0.19 * max(legend_lines(series) - 1, 0)), constrained_layout=True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(SOFT)
    ax.tick_params(colors=SOFT)
    ax.grid(axis="y", color=RULE, linewidth=0.8)
    ax.set_axisbelow(True)
    return ax


def place_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> List[float]:
    """Places for labels at least a gap apart, in the order of the wanted ones, which rise, and as near to them as can be.

    >>> place_labels([1, 1.1, 5], 1, 0, 10)
    [0.55, 1.55, 5.0]
    >>> place_labels([9.9, 10], 1, 0, 10)
    [9.0, 10.0]
    """
    groups: List[List[float]] = []  # [sum of the wanted places less their offsets, number of labels]
    for place in wanted:
        groups.append([float(place), 1])
        while len(groups) > 1:
            below, above = groups[-2], groups[-1]
            if _start(below, gap, low, high) + below[1] * gap <= _start(above, gap, low, high) + 1e-12:
                break
            merged = [below[0] + above[0] - above[1] * below[1] * gap, below[1] + above[1]]
            groups[-2:] = [merged]
    return [round(float(_start(group, gap, low, high) + i * gap), 9) for group in groups for i in range(int(group[1]))]


def _start(group: Sequence[float], gap: float, low: float, high: float) -> float:
    """The place of the first label of a group."""
    return max(min(group[0] / group[1], high - (group[1] - 1) * gap), low)


class Rival(NamedTuple):
    """A method with its number as the paper printed it."""
    label: str
    value: float


def rivals_of(run: "Run", column: Optional[str], chosen: Union[bool, Sequence[str]]) -> List[Rival]:
    """The paper's rows for the run's data and protocol, the lowest first; of a method with several memories, the best row."""
    best: Dict[str, Rival] = {}
    if column is None or chosen is False:
        return []
    for row in run.published_rows():
        value, method = row[column], row["method"]
        if value != value or (not isinstance(chosen, bool) and method not in chosen):
            continue
        label = f"{method}, {row['memory']}" if row["memory"] not in ("", "0") else method
        if method not in best or value > best[method].value:
            best[method] = Rival(label, value)
    return sorted(best.values(), key=lambda rival: rival.value)


def draw_rivals(ax: Any, rivals: Sequence[Rival]) -> None:
    """A strip to the right of the chart: the paper's numbers after the last phase, with their names."""
    size = 7.5
    low, high = ax.get_ylim()
    height = ax.get_position().height * ax.figure.get_size_inches()[1] * 72  # in points, before a layout shrinks it
    gap = (high - low) * 1.4 * size / max(height, 1)
    places = place_labels([rival.value for rival in rivals], gap, low, high - gap)
    across = ax.get_yaxis_transform()
    for rival, place in zip(rivals, places):
        ax.plot([1.035, 1.06, 1.075], [rival.value, place, place], color=RULE, linewidth=0.9, transform=across, clip_on=False,
                zorder=1)
        ax.plot([1.03], [rival.value], marker="o", markersize=4.5, markerfacecolor="white", markeredgecolor=SOFT, linestyle="",
                transform=across, clip_on=False, zorder=3)
        ax.text(1.08, place, f"{rival.label}  {rival.value:.1f}", fontsize=size, color=SOFT, va="center", transform=across)
    ax.text(1.02, 1.0, "as published,\nafter the last phase", fontsize=size, color=SOFT, style="italic", va="bottom",
            transform=ax.transAxes)


def plot_run(run: "Run", measure: str = "mAP", *, competitors: Union[bool, Sequence[str]] = True, ax: Optional[Any] = None,
             title: Optional[str] = None) -> Any:
    """Draws the chart of :meth:`l3a.Run.plot`."""
    check_measure(measure, MEASURES)
    heading, column = MEASURES[measure]
    rivals = rivals_of(run, column, competitors)
    ax = make_axes("run.plot()", ax, 8.6 if rivals else 7, 4.8 if rivals else 4.2, len(run.measured))
    shade = 0.16 if len(run.measured) <= len(COLOURS) else 0.05
    for number, method in enumerate(run.measured):
        points = run.phase_values(method, measure)
        if not points:
            continue
        ends, means, deviations = zip(*((end, *spread(values)) for end, values in points))
        style, single = style_of(number), len(ends) == 1
        if single:  # hollow and on top, as in the report, with a line to compare the others with
            style.update(markerfacecolor="white", markeredgecolor=style["color"], markeredgewidth=1.6)
            ax.axhline(means[0], color=style["color"], linewidth=0.9, linestyle=(0, (1, 3)), zorder=1)
        ax.plot(ends, means, label=method, zorder=11 if single else 10 - number * 0.01, **style)
        if any(deviations) and not single:
            ax.fill_between(ends, [m - d for m, d in zip(means, deviations)], [m + d for m, d in zip(means, deviations)],
                            color=COLOURS[number % len(COLOURS)], alpha=shade, linewidth=0)
    _set_ticks(ax, sorted({end for method in run.measured for end, _ in run.phase_values(method, measure)}))
    ax.set_xlabel("classes learned so far", color=SOFT)
    ax.set_ylabel(heading, color=SOFT)
    if rivals:
        low, high = ax.get_ylim()
        ax.set_ylim(min(low, rivals[0].value - 2), max(high + 1, rivals[-1].value + 2))
        draw_rivals(ax, rivals)
    _finish(ax, f"{run.protocol}, {len(run.classes)} classes" if title is None else title)
    return ax


def _set_ticks(ax: Any, ends: Sequence[int]) -> None:
    """A tick at the end of each phase, if there is room for all."""
    if ends and len(ends) <= 14:
        ax.set_xticks(ends)


def _finish(ax: Any, title: str) -> None:
    """The legend lies above the chart, where it hides nothing."""
    count = len(ax.get_legend_handles_labels()[1])
    if count > 1:
        ax.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncol=min(count, PER_LINE), frameon=False, fontsize=9,
                  handlelength=2.6, columnspacing=1.4)
        ax.set_title(title, loc="left", fontsize=11, pad=12 + 13.6 * legend_lines(count))
    else:
        ax.set_title(title, loc="left", fontsize=11)


def plot_sweep(sweep: "Sweep", measure: str = "last_mAP", *, setting: Optional[str] = None, ax: Optional[Any] = None,
               title: Optional[str] = None) -> Any:
    """Draws the chart of :meth:`l3a.Sweep.plot`."""
    check_measure(measure, ("avg_mAP", "last_mAP", "CF1", "OF1", "forgetting", "base_mAP", "new_mAP"))
    if setting is None and not sweep.axes:
        raise make_error(Status.ERROR_ARGUMENT, f"{sweep.folder}: no setting varies in this sweep", "compare its runs instead")
    setting = setting or next(iter(sweep.axes))
    check_measure(setting, sweep.axes)
    lines: Dict[str, List[Tuple[str, float, float]]] = {}
    for row in sweep.summary_rows():
        if row[setting] != "-" and row[measure] == row[measure]:
            others = [row["method"]] if len(sweep.methods) > 1 else []
            others += [f"{name} {row[name]}" for name in sweep.axes if name != setting and row[name] != "-"]
            lines.setdefault(", ".join(others) or row["method"], []).append((row[setting], row[measure],
                                                                            row[measure + "_deviation"]))
    ax = make_axes("sweep.plot()", ax, 7, 4.2, len(lines))
    place, ticks, logarithmic = _places(sweep.axes[setting])
    for number, (label, points) in enumerate(lines.items()):
        points = sorted(points, key=lambda point: place[point[0]])
        ax.errorbar([place[v] for v, _, _ in points], [mean for _, mean, _ in points],
                    yerr=[d for _, _, d in points] if any(d for _, _, d in points) else None, label=label, capsize=3,
                    elinewidth=1.2, transform=_beside(ax, 4 * (number - (len(lines) - 1) / 2)), **style_of(number))
    if logarithmic:
        ax.set_xscale("log")
        ax.minorticks_off()
    ax.set_xticks([place[value] for value in ticks])
    ax.set_xticklabels(ticks)
    ax.set_xlabel(setting, color=SOFT)
    ax.set_ylabel(measure.replace("_", " ") + (" (points)" if measure == "forgetting" else " (%)"), color=SOFT)
    _finish(ax, f"{sweep.protocol}, {len(sweep.classes)} classes" if title is None else title)
    return ax


def _beside(ax: Any, points: float) -> Any:
    """Moves a line by so many points, so that the bars of several do not hide each other."""
    moved = need("matplotlib.transforms", "sweep.plot()", "matplotlib").ScaledTranslation(points / 72, 0, ax.figure.dpi_scale_trans)
    return ax.transData + moved


def _places(values: Sequence[str]) -> Tuple[Dict[str, float], Sequence[str], bool]:
    """Where the values of a setting lie: by their size if all are numbers, on a logarithmic axis if they span a factor of 20 or
    more; otherwise side by side.

    >>> _places(["1", "10", "100"])[2]
    True
    >>> _places(["sqrt", "none"])[0]
    {'sqrt': 0.0, 'none': 1.0}
    """
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return {value: float(i) for i, value in enumerate(values)}, values, False
    wide = min(numbers) > 0 and max(numbers) >= 20 * min(numbers)
    return dict(zip(values, numbers)), values, wide
