"""The tables and the chart of docs/results.md, from the pieces that tools/make-results has measured and the numbers printed in the paper."""
import html
import re
import statistics

TABLES = {"coco": ("train.safetensors", "val.safetensors"), "voc": ("voc-trainval.safetensors", "voc-test.safetensors")}
SETTINGS = [("coco", "B0-C10"), ("coco", "B40-C10"), ("voc", "B0-C4"), ("voc", "B10-C2")]
NAMES = {"coco": "COCO 2014", "voc": "VOC 2007"}
ORDER = ["l3a", "l3a+", "l3a-no-pl", "l3a-no-wac", "acil", "air", "dsal", "gkeal", "slda", "joint", "joint-masked", "joint-sgd", "finetune", "lwf",
         "ewc", "oewc", "rwalk", "er", "der++", "icarl", "bic", "prs", "ocdm"]
COLUMNS = [("avg_mAP", "avg mAP"), ("last_mAP", "last mAP"), ("CF1", "CF1"), ("OF1", "OF1"), ("forgetting", "forgetting"),
           ("base_mAP", "base mAP"), ("new_mAP", "new mAP")]
AXES = {"gamma": "gamma", "threshold": "eta", "weighting": "weights", "buffer": "dim", "memory": "memory"}
ABLATION = [("finetune", "Baseline"), ("l3a-no-wac", "(1) w/o WAC"), ("l3a-no-pl", "(2) w/o PL"), ("l3a", "L3A"), ("acil", None)]
SOURCE = {"coco": "ViT-Tiny/16 features (192 numbers per picture) of pictures squashed to 256×256 and then 224×224; learned from the 82,081 labelled pictures "
                  "of train2014, measured on 35,185 of the 40,137 of val2014",
          "voc": "ViT-Tiny/16 features (192 numbers per picture) of pictures shrunk to 224 on their longer side and then squashed to 224×224; learned from "
                 "the 5,011 pictures of trainval, measured on the 4,952 of test"}


class Row:
    """A method with its settings, for all seeds."""

    def __init__(self, method, value):
        self.method, self.value, self.points = method, value, {}

    def phases(self):
        return max(len(point["phases"]) for point in self.points.values())

    def spread(self, column):
        """Mean and standard deviation over seeds; None if the column does not apply or was not recorded."""
        values = [point[column]["mean"] for point in self.points.values() if point.get(column)]
        if not values or (self.phases() == 1 and column in ("avg_mAP", "forgetting")):
            return None
        return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None

    def curve(self):
        """mAP after each phase, averaged over seeds: (classes, mAP)."""
        lists = [point["phases"] for point in self.points.values()]
        return [(parts[0]["last"], statistics.mean(part["mAP"] for part in parts)) for parts in zip(*lists)]


class Results:
    def __init__(self, pieces, published):
        self.pieces, self.tables = pieces, {}
        for piece in pieces:
            rows = self.tables.setdefault((piece["table"], piece["data"], piece["protocol"]), {})
            axis = AXES.get(piece["table"])
            for point in piece["points"]:
                value = point.get(axis) or option(piece["command"], axis) if axis else None
                row = rows.setdefault((point["method"], value), Row(point["method"], value))
                row.points[piece["seed"]] = point
        text = re.sub(r"/\*.*?\*/", "", published, flags=re.S)
        self.published = [[field.strip().strip('"') for field in inside.split(", ")]
                          for inside in re.findall(r"^PUBLISHED\((.*)\)$", text, flags=re.M)]
        self.settings = [[field.strip().strip('"') for field in inside.split(", ")]
                         for inside in re.findall(r"^PUBLISHED_SETTING\((.*)\)$", text, flags=re.M)]

    def rows(self, table, data, protocol):
        def place(row):
            number = float(row.value) if re.fullmatch(r"[\d.]+", row.value or "") else 1e9
            return (ORDER.index(row.method) if row.method in ORDER else len(ORDER), number if table != "weighting" else 0)
        return sorted(self.tables.get((table, data, protocol), {}).values(), key=place)

    def row(self, table, data, protocol, method):
        return next((row for row in self.rows(table, data, protocol) if row.method == method), None)

    def paper_setting(self, axis, value, data, protocol):
        """The paper's average and last mAP, or two dashes."""
        for _, d, p, own, name, average, last in self.settings:
            if (d.lower(), p, own, name) == (data, protocol, axis, value):
                return [average, last]
        return ["–", "–"]


def option(command, name):
    words = command.split()
    return words[words.index("--" + name) + 1] if "--" + name in words else None


def places(rows):
    """{(row, column): 1 or 2} for the best and second best of the rows that learn phase by phase; numbers are compared as printed."""
    out = {}
    rivals = [i for i, row in enumerate(rows) if row.phases() == max(r.phases() for r in rows)]
    for column, _ in COLUMNS:
        values = {i: round(rows[i].spread(column)[0], 2) for i in rivals if rows[i].spread(column)}
        ranked = sorted(set(values.values()), reverse=column != "forgetting")[:2]
        if len(rivals) > 1:
            out.update({(i, column): ranked.index(value) + 1 for i, value in values.items() if value in ranked})
    return out


def cell(spread, place):
    if spread is None:
        return "–"
    text = f"{spread[0]:.2f}" + (f" ± {spread[1]:.2f}" if spread[1] is not None else "")
    return {1: f"**{text}**", 2: f"<u>{text}</u>"}.get(place, text)


def render(rows, labels, headings, paper=None):
    """Markdown: a row's labels, our numbers, and then the paper's, if there are any."""
    seeds = max(len(row.points) for row in rows)
    columns = [c for c in COLUMNS if any(row.spread(c[0]) for row in rows)]
    titles = headings + [title for _, title in columns] + (["paper: avg mAP", "paper: last mAP"] if paper else [])
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(headings) + "---:|" * (len(titles) - len(headings))]
    best = places(rows)
    for i, row in enumerate(rows):
        own = list(labels(row))
        own[0] += f" ({len(row.points)} of {seeds} seeds)" if len(row.points) < seeds else ""
        cells = own + [cell(row.spread(column), best.get((i, column))) for column, _ in columns]
        lines.append("| " + " | ".join(cells + (paper(row) if paper else [])) + " |")
    return "\n".join(lines)


def table(results, name, data, protocol):
    rows = results.rows(name, data, protocol)
    if not rows:
        return f"*not measured: {name}, {NAMES[data]} {protocol}*"
    axis = AXES.get(name)
    if name == "memory":
        return render(rows, lambda row: [row.method, row.value], ["method", "images per class"])
    if axis:
        paper = (lambda row: results.paper_setting(axis, row.value, data, protocol)) if data == "coco" else None
        return render(rows, lambda row: [row.value], [axis], paper)
    return render(rows, lambda row: [row.method], ["method"])


def ablation(results, name, data, protocol):
    rows, names = [], {}
    for method, paper in ABLATION:
        row = results.row(name, data, protocol, method) or results.row("methods", data, protocol, method)
        if row:
            rows.append(row)
            names[method] = paper
    if not rows:
        return f"*not measured: ablation, {NAMES[data]} {protocol}*"
    paper = (lambda row: results.paper_setting("parts", names[row.method], data, protocol)) if data == "coco" else None
    return render(rows, lambda row: [row.method, names[row.method] or "–"], ["method", "the paper's name"], paper)


def published(results, data, protocol):
    """The paper's rows for a setting."""
    lines = ["| paper's table | method | memory | backbone | avg mAP | last mAP | last CF1 | last OF1 |", "|---|---|---|---|---:|---:|---:|---:|"]
    for number, d, p, method, memory, backbone, *values in results.published:
        if (d.lower(), p) == (data, protocol):
            shown = [number, method, memory or "–", "TResNet-M or ViT-B/16" if backbone == "EITHER" else backbone]
            lines.append("| " + " | ".join(shown + ["–" if v == "NONE" else v for v in values]) + " |")
    return "\n".join(lines)


def caption(results, name, data):
    """One sentence that says how the numbers of a table were measured."""
    commands = [piece["command"] for piece in results.pieces if piece["table"] == name and piece["data"] == data]
    dims = sorted({option(command, "dim") for command in commands} - {None}, key=int)
    seeds = {piece["seed"] for piece in results.pieces if piece["table"] == name and piece["data"] == data}
    width = f"; d = {dims[0]}" if len(dims) == 1 else ""
    return f"{SOURCE[data]}{width}; {'mean ± standard deviation over ' + str(len(seeds)) + ' seeds' if len(seeds) > 1 else 'one seed'}."


def differences(results, name, column, left, right):
    """The difference between two methods in each of the four settings."""
    found = []
    for data, protocol in SETTINGS:
        rows = [results.row(name, data, protocol, method) for method in (left, right)]
        if all(rows) and all(row.spread(column) for row in rows):
            found.append(rows[0].spread(column)[0] - rows[1].spread(column)[0])
    return found


def difference_range(results, name, column, left, right):
    """'smallest to largest'"""
    found = differences(results, name, column, left, right)
    if not found:
        return f"*not measured: {left}, {right}*"
    low, high = (f"{value:.1f}" for value in (min(found), max(found)))
    return low if low == high else f"{low} to {high}"


def largest_difference(results, name, column, left, right):
    """For methods that hardly differ: 'at most largest', whichever is above the other."""
    found = differences(results, name, column, left, right)
    return f"at most {max(map(abs, found)):.2f}" if found else f"*not measured: {left}, {right}*"


def commands(results):
    """One command per kind of piece: pieces that differ only in seed or protocol share a line."""
    lines = {}
    for piece in results.pieces:
        command = re.sub(r" --seed \d+", "", piece["command"])
        command = re.sub(r"--protocol \S+", "--protocol PROTOCOL", command)
        lines.setdefault((piece["table"], piece["data"]), set()).add(command)
    text = [f"# {name}, {NAMES[data]}\n" + "\n".join(sorted(own)) for (name, data), own in sorted(lines.items())]
    return "```\n" + "\n".join(text) + "\n```"


def timings(results):
    """The seconds of each table's pieces, added up, and the machine they were measured on."""
    sums, machines = {}, set()
    for piece in results.pieces:
        key = (piece["table"], NAMES[piece["data"]], piece["protocol"])
        count, seconds = sums.get(key, (0, 0))
        sums[key] = (count + 1, seconds + piece["seconds"])
        machines.add(f"{piece['machine'].get('processor', 'unknown processor')}, {piece['threads']} threads per process")
    lines = ["| table | data set | protocol | processes | seconds, added up |", "|---|---|---|---:|---:|"]
    lines += [f"| {table} | {data} | {protocol} | {count} | {seconds:.0f} |" for (table, data, protocol), (count, seconds) in sorted(sums.items())]
    return "Measured on " + "; ".join(sorted(machines)) + ", several processes at a time.\n\n" + "\n".join(lines)


def figure_link(results):
    return ("![mAP after each phase in four settings: ViT-Tiny/16 features; COCO 2014 measured on 35,185 pictures of val2014, VOC 2007 on 4,952 pictures]"
            "(figure-3.svg)")


def fill(template, results):
    functions = {"figure_link": figure_link, "table": table, "ablation": ablation, "published": published, "caption": caption, "range": difference_range,
                 "largest": largest_difference, "commands": commands, "timings": timings}

    def replacement(match):
        name, *arguments = match.group(1).split()
        return functions[name](results, *arguments)

    return re.sub(r"\{\{([^}]*)\}\}", replacement, template)


# ---- Figure 3: mAP after each phase, in the four settings ----

SHOWN = ["l3a+", "l3a", "dsal", "acil", "der++", "icarl", "finetune", "er", "lwf", "joint"]
COLOURS = [("#0072b2", "#4ea9e6"), ("#d55e00", "#ff8b45"), ("#009e73", "#35c99d"), ("#cc79a7", "#e7a0c8"), ("#b87f00", "#f2bd44"),
           ("#56b4e9", "#a6dcff"), ("#555555", "#b9bec5")]
DASHES = ["", "7 4", "2 4"]
MARKS = ["M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "M-4-4h8v8h-8z", "M0-5L5 4H-5z", "M0-6L5 0 0 6-5 0z", "M0 5L5-4H-5z"]
WIDTH, PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, GAP_X, GAP_Y = 720, 288, 230, 52, 46, 66, 112


def colour(i):
    return "joint" if SHOWN[i] == "joint" else f"s{i % 7}"


def mark_of(i):
    return "M0-7L2 -2 7 0 2 2 0 7-2 2-7 0-2-2z" if SHOWN[i] == "joint" else MARKS[i % 5]


def ticks(low, high):
    step = next(s for s in (1, 2, 5, 10, 20, 25, 50) if (high - low) / s <= 5)
    first = int(low // step) * step
    return [first + step * i for i in range(int(-(-(high - first) // step)) + 1)]


def panel(results, data, protocol, left, top):
    rows = [(i, results.row("methods", data, protocol, method)) for i, method in enumerate(SHOWN)]
    curves = [(i, row.curve()) for i, row in rows if row]
    out = [f'<text class="title" x="{left}" y="{top - 16}">{NAMES[data]}, {protocol}</text>']
    if not curves:
        return out
    values = [value for _, curve in curves for _, value in curve]
    classes = sorted({k for _, curve in curves for k, _ in curve})
    marks = ticks(min(values), max(values))
    span = max(classes[-1] - classes[0], 1)

    def at(k, value):
        x = left + 12 + (PANEL_WIDTH - 24) * (k - classes[0]) / span
        return f"{x:.1f}", f"{top + PANEL_HEIGHT * (marks[-1] - value) / (marks[-1] - marks[0]):.1f}"

    for mark in marks:
        y = at(classes[0], mark)[1]
        out.append(f'<path class="grid" d="M{left} {y}h{PANEL_WIDTH}"/><text class="end" x="{left - 8}" y="{float(y) + 6:.1f}">{mark}</text>')
    for k in classes:
        out.append(f'<text class="middle" x="{at(k, marks[0])[0]}" y="{top + PANEL_HEIGHT + 24}">{k}</text>')
    out.append(f'<text class="middle" x="{left + PANEL_WIDTH / 2}" y="{top + PANEL_HEIGHT + 49}">classes learned so far</text>')
    for i, curve in sorted(curves, key=lambda own: (SHOWN[own[0]] == "joint", -own[0])):  # the first is drawn above the others, and joint above all
        points = [at(*point) for point in curve]
        if len(points) > 1:
            out.append(f'<path class="line s{i % 7} d{i // 7}" d="M' + "L".join(f"{x} {y}" for x, y in points) + '"/>')
        for (x, y), (k, value) in zip(points, curve):
            out.append(f'<path class="mark {colour(i)}" transform="translate({x} {y})" d="{mark_of(i)}"><title>{html.escape(SHOWN[i])}, {k} classes: '
                       f'{value:.2f}</title></path>')
    return out


def figure(results):
    height = TOP + 2 * PANEL_HEIGHT + GAP_Y + 138
    out = []
    for number, (data, protocol) in enumerate(SETTINGS):
        out += panel(results, data, protocol, LEFT + number % 2 * (PANEL_WIDTH + GAP_X), TOP + number // 2 * (PANEL_HEIGHT + GAP_Y))
    for i, method in enumerate(SHOWN):
        x, y = LEFT - 30 + i % 5 * 138, TOP + 2 * PANEL_HEIGHT + GAP_Y + 84 + i // 5 * 32
        line = "" if method == "joint" else f'<path class="line s{i % 7} d{i // 7}" d="M{x} {y}h34"/>'
        out.append(f'{line}<path class="mark {colour(i)}" transform="translate({x + 17} {y})" d="{mark_of(i)}"/>'
                   f'<text class="name" x="{x + 41}" y="{y + 6}">{html.escape(method)}</text>')
    colours = ["".join(f".s{i}{{--c:{pair[dark]}}}" for i, pair in enumerate(COLOURS)) for dark in (0, 1)]
    dashes = "".join(f".d{i}{{stroke-dasharray:{dash}}}" for i, dash in enumerate(DASHES) if dash)
    style = (":root{--ground:#fff;--ink:#1b1d20;--soft:#5b626d;--rule:#dfe1e4}" + colours[0] + "@media(prefers-color-scheme:dark){:root{--ground:#0d1117;"
             "--ink:#e9eaec;--soft:#a5acb6;--rule:#31363c}" + colours[1] + "}text{font:18px system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',"
             "'DejaVu Sans',sans-serif;fill:var(--soft)}.title{font-weight:600;font-size:19px;fill:var(--ink)}.name{fill:var(--ink)}.joint{--c:var(--ink)}"
             ".middle{text-anchor:middle}.end{text-anchor:end}.grid{stroke:var(--rule)}.line{fill:none;stroke:var(--c);stroke-width:2.2;"
             "stroke-linejoin:round}.mark{fill:var(--c);stroke:var(--ground)}" + dashes)
    about = ("mAP in percent after each phase of ten methods, measured by l3a on ViT-Tiny/16 features: COCO 2014 (35,185 pictures of val2014, 256×256) "
             "with B0-C10 and B40-C10, VOC 2007 (4,952 pictures, longer side 224) with B0-C4 and B10-C2")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(about)}"><title>{html.escape(about)}</title>'
            f'<style>{style}</style><rect width="{WIDTH}" height="{height}" fill="var(--ground)"/>\n' + "\n".join(out) + "\n</svg>\n")
