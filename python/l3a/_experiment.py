"""Runs and sweeps: every method and seed through every phase of a protocol, by the library."""
import ctypes
import itertools
import logging
import os
import shlex
import shutil
import tempfile
import weakref
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._declarations import EventKind, Status, l3a_axis, l3a_experiment_options, l3a_workload
from ._error import Error, make_error
from ._library import Context, Event, Handle, decode, encode, library, listed, path_bytes, setting_text, sized, text_array
from ._pictures import OPTIONS, Pictures
from ._progress import Bar, Progress
from ._run import Run, Sweep

Names = Union[str, Sequence[str]]
Methods = Union[str, Sequence[Any], Any]  # names, and objects that are methods
log = logging.getLogger("l3a")


def run(train: Any = None, test: Any = None, protocol: str = "B0-C10", methods: Methods = "l3a",
        seeds: Union[int, Sequence[int]] = 2025, *, data: Optional[str] = None, backbone: Any = None,
        out: Any = None, resume: bool = False, class_order: Names = "lexicographic", classes: Optional[Sequence[Any]] = None,
        pictures: Optional[str] = None, threads: int = 0, memory_limit: int = 0, device: Optional[str] = None,
        progress: Progress = True, **settings: Any) -> Run:
    """Learns the classes of a training set phase by phase, for every method and seed, and measures on a test set after each phase.

    The numbers are those of ``l3a run`` to the last bit, and either can resume what the other began.

    train, test : path, (features, labels), or (path of features, path of labels)
        A feature file (safetensors), an .npz file with the arrays features, labels and classes, two arrays, or two .npy files.
        Features are rows of float32 and are then used where they are; other types are converted. Labels are a matrix with a
        column per class (1 present, 0 absent, -1 unknown), a data frame with the classes as its columns, sets of classes, or one
        class per row.
    protocol : "B<b>-C<c>"
        b classes in the first phase (c if b is 0), then c per phase.
    methods : names of methods, as a list or with commas between them; "all": every method that runs on frozen features. An object
        with ``learn(features, labels, classes)`` and ``scores(features)`` is a method of your own: see docs/your-own-method.md
    seeds : seeds of the random layer; with several, means and standard deviations are reported
    out : folder for the results; None: a temporary one, which is removed with the run that is returned
    resume : continue what is in the folder; otherwise results in it are an error
    class_order : "lexicographic", "shuffle:SEED", or a file with one name per line; several, as a list or with commas between
        them, are all learned, and means and standard deviations cover them too
    classes : names of the columns of labels that have none; otherwise "class 0", "class 1", …
    pictures : data set with the test pictures, for the report, if the test features do not record it
    threads, memory_limit, device : processors, bytes and device to use; the defaults are all processors, the memory that is
        free, and "cpu"
    progress : True: a bar, if tqdm is installed; False: none; or a function that gets each event, and cancels if it returns
        something true
    settings : the settings of methods by name: ``dim=2048, skip_features="on"``; ``lambda_`` is lambda
    data, backbone : instead of train and test: a data set of pictures, such as "voc:VOCdevkit", and the path of a checkpoint.
        Features are extracted to a cache, unless they are there, with as many views as the settings views and score_views say.
        These options belong to them: ``split``, ``test_data`` and ``test_split``, which are usual for VOC and COCO; ``difficult``,
        ``orient``, ``strict`` and ``half``; those of :meth:`l3a.Tagger.create` about the network, from ``pool`` to
        ``backbone_precision``; ``cache`` (a folder; False: that of the results) and ``cache_size`` in GiB; and ``adapt``, which is
        "none", "released", "norms" or "all", with ``adapt_seed``, ``adapt_epochs`` and ``adapt_rate``: train the backbone on the
        first phase before it is frozen. ``l3a help run`` explains each. With the setting ``train_backbone="all"`` or "norms",
        methods that can do so train the backbone in every phase.

    Ctrl-C stops at once; the finished phases, but for at most ten seconds of work, are in the folder, and ``resume=True``
    continues with the same result.

    >>> import numpy, l3a
    >>> random = numpy.random.default_rng(0)
    >>> labels = random.random((600, 6)) < 0.3
    >>> labels[:, 0] |= ~labels.any(axis=1)
    >>> features = (labels @ random.normal(size=(6, 16)) + random.normal(size=(600, 16))).astype("float32")
    >>> made = l3a.run((features[:400], labels[:400]), (features[400:], labels[400:]), "B0-C2", ["l3a", "joint"], dim=64,
    ...                threads=1, progress=False)
    >>> made.methods, made.finished, len(made.metrics)
    (['l3a', 'joint'], True, 4)
    """
    request = _Request("run", train, test, protocol, methods, seeds, out, resume, class_order, classes, pictures, threads,
                       memory_limit, device, progress, _source(train, test, data, backbone, settings))
    request.set(settings)
    folder = request.execute()
    return Run(folder, request.kept, request.failures)


def sweep(train: Any = None, test: Any = None, protocol: str = "B0-C10", methods: Optional[Methods] = None,
          seeds: Union[None, int, Sequence[int]] = None, *, data: Optional[str] = None, backbone: Any = None,
          preset: Optional[str] = None, out: Any = None, resume: bool = False, class_order: Names = "lexicographic",
          classes: Optional[Sequence[Any]] = None, threads: int = 0, memory_limit: int = 0, device: Optional[str] = None,
          progress: Progress = True, **settings: Any) -> Sweep:
    """Runs a grid of settings, methods and seeds, as ``l3a sweep`` does. Points that can share work do.

    A setting with a list of values varies: ``gamma=[1, 10, 100]``. ``preset`` is the name of a grid from the paper; methods,
    seeds and settings that are given replace the preset's. Everything else is as in :func:`l3a.run`."""
    request = _Request("sweep", train, test, protocol, methods or "l3a", 2025 if seeds is None else seeds, out, resume, class_order,
                       classes, None, threads, memory_limit, device, progress, _source(train, test, data, backbone, settings))
    if preset is not None:
        request.take_preset(preset, methods is None, seeds is None, settings)
    request.set(settings)
    folder = request.execute()
    return Sweep(folder, request.kept, request.failures)


def _source(train: Any, test: Any, data: Optional[str], backbone: Any, settings: Dict[str, Any]) -> Optional[Pictures]:
    """Takes what is about pictures out of the settings; None: the tables are given."""
    given = [*(["backbone"] if backbone is not None else []), *(name for name in settings if name in OPTIONS)]
    if data is not None and (train is not None or test is not None):
        raise make_error(Status.ERROR_ARGUMENT, "data and train or test exclude each other", "learn from pictures or from features")
    if data is None and given:
        raise make_error(Status.ERROR_ARGUMENT, f"{given[0]} needs data", "give a data set of pictures as data")
    if data is None and (train is None or test is None):
        raise make_error(Status.ERROR_ARGUMENT, "there is nothing to learn from or to measure on",
                         "give train and test, or data and backbone")
    return None if data is None else Pictures(data, backbone, settings)


def setting_name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _texts(given: Any) -> List[str]:
    """A list, or a text with commas."""
    return [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else [str(part) for part in given]


def _methods(given: Any) -> Tuple[List[str], List[Any]]:
    """The names of methods, and the objects among them.

    >>> _methods("l3a, joint"), _methods(iter(["l3a"]))
    ((['l3a', 'joint'], []), (['l3a'], []))
    """
    several = hasattr(given, "__iter__") and not hasattr(given, "scores")
    listed = _texts(given) if isinstance(given, str) else list(given) if several else [given]
    objects = [each for each in listed if not isinstance(each, str)]
    if not objects:
        return listed, []
    from ._method import method_name
    return [each if isinstance(each, str) else method_name(each) for each in listed], objects


def _whole_numbers(given: Any) -> List[int]:
    """Seeds: a number, a list, or a text with commas.

    >>> _whole_numbers(7), _whole_numbers("1, 2"), _whole_numbers(range(3))
    ([7], [1, 2], [0, 1, 2])
    """
    listed = _texts(given) if isinstance(given, str) else list(given) if hasattr(given, "__iter__") else [given]
    try:
        numbers = [int(seed) for seed in listed]
        whole = all(seed >= 0 and (isinstance(own, str) or seed == own) for seed, own in zip(numbers, listed))
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise make_error(Status.ERROR_ARGUMENT, f"seeds: {given!r}", "give a whole number from 0 on, or a list of them")
    return numbers


def _is_path(given: Any) -> bool:
    return isinstance(given, (str, bytes, os.PathLike))


class _Opened(NamedTuple):
    table: Handle
    words: Optional[List[str]]  # the options of the command for it; None: there are none
    classes: List[str]


def _wrap(context: Context, given: Tuple[Any, Any], classes: Optional[Sequence[Any]]) -> _Opened:
    """A table of arrays, which stay where they are."""
    from ._array import feature_rows, label_matrix
    rows = feature_rows(given[0], dims=(2, 3))
    labels = label_matrix(given[1], classes)
    if len(labels.matrix) != len(rows):
        raise make_error(Status.ERROR_MISMATCH, f"{len(rows)} rows of features and {len(labels.matrix)} rows of labels",
                         "give features and labels one row per image")
    unnamed = classes is None and labels.classes == list(range(len(labels.classes))) and not labels.single
    names = [f"class {k}" if unnamed else str(k) for k in labels.classes]
    views = rows.shape[1] - 1 if rows.ndim == 3 and rows.shape[1] > 1 else 1
    table = context.make("l3a_features_free", "l3a_features_wrap", rows.ctypes.data, labels.matrix.ctypes.data, len(rows),
                         views, rows.shape[-1], text_array(encode(name) for name in names), len(names), kept=(rows, labels.matrix))
    return _Opened(table, None, names)


def _open_npy(context: Context, given: Tuple[Any, Any], classes: Optional[Sequence[Any]], what: str) -> _Opened:
    words: Optional[List[str]] = [f"--{what}", os.fsdecode(given[0]), f"--{what}-labels", os.fsdecode(given[1])]
    names_path = None
    with tempfile.TemporaryDirectory() as folder:
        if classes is not None:
            names_path, words = os.path.join(folder, "names.txt"), None
            Path(names_path).write_bytes(b"".join(encode(str(name)) + b"\n" for name in classes))
        table = context.make("l3a_features_free", "l3a_features_open_npy", path_bytes(given[0]), path_bytes(given[1]),
                             None if names_path is None else path_bytes(names_path))
    return _Opened(table, words, _classes_of(table))


def _classes_of(table: Handle) -> List[str]:
    return [decode(library.l3a_features_class(table.handle, k)) for k in range(library.l3a_features_class_count(table.handle))]


def open_table(context: Context, given: Any, classes: Optional[Sequence[Any]] = None, what: str = "train") -> _Opened:
    """A table from whatever :func:`run` takes."""
    if _is_path(given) and os.fsdecode(given).endswith(".npz"):
        from ._array import from_npz
        rows, labels, own = from_npz(given)
        return _wrap(context, (rows, labels), own if own is not None else classes)
    if _is_path(given):
        if os.fsdecode(given).endswith(".npy"):
            raise make_error(Status.ERROR_ARGUMENT, f"{os.fsdecode(given)}: an .npy file has features or labels, but not both",
                             "give a pair of paths: (features, labels)")
        table = context.make("l3a_features_free", "l3a_features_open", path_bytes(given))
        return _Opened(table, [f"--{what}", os.fsdecode(given)], _classes_of(table))
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise make_error(Status.ERROR_ARGUMENT, f"{what}: a {type(given).__name__} is neither a path nor (features, labels)",
                         "give the path of a feature file, or a pair of arrays")
    if _is_path(given[0]) and _is_path(given[1]):
        return _open_npy(context, (given[0], given[1]), classes, what)
    return _wrap(context, (given[0], given[1]), classes)


class _Temporary:
    """A folder that is removed with this object."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="l3a-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class _Request:
    """What run and sweep ask of the library, and the memory that it points to."""

    def __init__(self, kind: str, train: Any, test: Any, protocol: str, methods: Methods, seeds: Any, out: Any, resume: bool,
                 class_order: Names, classes: Optional[Sequence[Any]], pictures: Optional[str], threads: int, memory_limit: int,
                 device: Optional[str], progress: Progress, source: Optional[Pictures] = None) -> None:
        if resume and out is None:
            raise make_error(Status.ERROR_ARGUMENT, f"a {kind} without a folder cannot be resumed", "give the folder as out")
        self.kind, self.out, self.resume, self.protocol = kind, out, resume, protocol
        self.methods, objects = _methods(methods)
        self.seeds = _whole_numbers(seeds)
        self.orders = _texts(class_order)
        self.pictures, self.device, self.threads = pictures, device, threads
        self.progress, self.bar = progress, Bar(kind) if progress is True else None
        self.axes: Dict[str, List[str]] = {}
        self.fixed: List[Tuple[str, str]] = []
        self.kept: Optional[_Temporary] = None
        self.data, self.names, self.source = (train, test), classes, source
        self.context = Context(threads=threads, memory_limit=memory_limit, device=device, on_event=self._on_event)
        self.settings = self.context.make("l3a_options_free", "l3a_options_create")
        self.own: List[Any] = []
        self.failures: Dict[str, BaseException] = {}
        if objects:
            from ._method import OwnMethod
            self.own = [OwnMethod(each, self.context) for each in objects]

    def _on_event(self, event: Event) -> Any:
        if event.kind in (EventKind.RESULT, EventKind.NOTE):
            log.info("%s", event.text)
        if self.bar is not None:
            self.bar(event)
        return self.progress(event) if callable(self.progress) else False

    def take_preset(self, name: str, methods: bool, seeds: bool, settings: Dict[str, Any]) -> None:
        presets = {decode(preset.name): preset for preset in listed("l3a_preset_at")}
        if name not in presets:
            close = get_close_matches(name, presets, 1)
            raise make_error(Status.ERROR_OPTION, f"unknown preset '{name}'",
                             f"did you mean '{close[0]}'?" if close else "use one of " + ", ".join(presets))
        preset = presets[name]
        self.methods = _texts(decode(preset.methods)) if methods else self.methods
        self.seeds = [int(seed) for seed in _texts(decode(preset.seeds))] if seeds else self.seeds
        own = decode(preset.setting)
        if own and all(setting_name(given) != own for given in settings):
            settings[own] = _texts(decode(preset.values))

    def set(self, settings: Dict[str, Any]) -> None:
        """A setting with one value is fixed; one with several, or a threshold that is "dynamic", is an axis of a sweep."""
        for given, value in settings.items():
            name = setting_name(given)
            if name == "seed":
                raise make_error(Status.ERROR_OPTION, f"a {self.kind} takes its seeds from seeds, not from the setting seed",
                                 "give seeds instead")
            several = isinstance(value, (list, tuple, range)) or hasattr(value, "tolist") and getattr(value, "ndim", 0) > 0
            values = [setting_text(each) for each in value] if several else [setting_text(value)]
            if self.kind == "sweep" and (len(values) > 1 or values == ["dynamic"]):
                self.axes[name] = values
            elif len(values) == 1:
                self.context.call("l3a_options_set", self.settings.handle, encode(name), encode(values[0]))
                self.fixed.append((name, values[0]))
            elif not values:
                raise make_error(Status.ERROR_OPTION, f"{name}: the list of values is empty", "give at least one value")
            else:
                raise make_error(Status.ERROR_OPTION, f"{name}: a run takes one value, not {len(values)}", "use l3a.sweep")
        if self.methods == ["all"]:
            self.methods = [decode(method.name) for method in listed("l3a_method_at") if method.runs == 1]

    def _views(self, *names: str) -> int:
        """The first of these settings that is given and not 0; 0 if none is."""
        return next((int(value) for name in names for own, value in self.fixed if own == name and value != "0"), 0)

    def _use_views(self, table: Handle, *names: str) -> None:
        views = self._views(*names)
        if views:
            self.context.call("l3a_features_use_views", table.handle, views)

    def _open_tables(self, folder: str) -> Tuple[_Opened, _Opened]:
        if self.source is not None:
            views = (self._views("views") or 1, self._views("score-views", "views") or 1)
            features = bool(self.axes) or not all(library.l3a_method_sees_pictures(encode(name), self.settings.handle)
                                                  for name in self.methods)
            learned, scored = self.source.open(self.context, folder, views, self.protocol, self.orders, self.seeds[0], self.resume,
                                               features)
            return _Opened(learned, self.source.words(), _classes_of(learned)), _Opened(scored, [], _classes_of(scored))
        train = open_table(self.context, self.data[0], self.names, "train")
        names = self.names if self.names is not None else _for_test(self.data[1], train)
        test = open_table(self.context, self.data[1], names, "test")
        self._use_views(train.table, "views")
        self._use_views(test.table, "score-views", "views")
        return train, test

    def _command(self, folder: str, train: _Opened, test: _Opened) -> Tuple[Optional[bytes], Optional[bytes]]:
        """The command that does the same, and where it does; nothing if some data is only in memory."""
        if self.kept is not None or self.own or train.words is None or test.words is None:
            return None, None
        words = ["l3a", self.kind, *train.words, *test.words, "--protocol", self.protocol, "--method", ",".join(self.methods)]
        words += ["--seed", ",".join(map(str, self.seeds))]
        words += ["--class-order", ",".join(self.orders)] if self.orders != ["lexicographic"] else []
        words += ["--pictures", self.pictures] if self.pictures else []
        for name, value in [*self.fixed, *((name, ",".join(values)) for name, values in self.axes.items())]:
            words += [f"--{name}", value]
        words += ["--threads", str(self.threads)] if self.threads else []
        words += ["--device", self.device] if self.device else []
        return encode(" ".join(shlex.quote(word) for word in [*words, "-o", folder])), path_bytes(os.getcwd())

    def _options(self, train: _Opened, test: _Opened, folder: str) -> Tuple[Any, Any]:
        """The library's options, and what they point to."""
        command, directory = self._command(folder, train, test)
        methods, seeds = text_array(map(encode, self.methods)), (ctypes.c_uint64 * max(len(self.seeds), 1))(*self.seeds)
        values = {name: text_array(map(encode, each)) for name, each in self.axes.items()}
        axes = (l3a_axis * max(len(self.axes), 1))(*(
            l3a_axis(encode(name), ctypes.cast(values[name], ctypes.c_void_p), len(each)) for name, each in self.axes.items()))
        options = sized(
            l3a_experiment_options, train=train.table.handle, test=test.table.handle, protocol=encode(self.protocol),
            methods=ctypes.cast(methods, ctypes.c_void_p), method_count=len(self.methods),
            seeds=ctypes.cast(seeds, ctypes.c_void_p), seed_count=len(self.seeds), settings=self.settings.handle,
            axes=ctypes.cast(axes, ctypes.c_void_p), axis_count=len(self.axes), grid=int(self.kind == "sweep"),
            folder=path_bytes(folder), resume=int(self.resume), command=command, directory=directory,
            pictures=None if self.pictures is None else encode(self.pictures))
        own = (ctypes.c_void_p * max(len(self.own), 1))(*(ctypes.addressof(each.table) for each in self.own))
        options.own_methods, options.own_method_count = ctypes.cast(own, ctypes.c_void_p), len(self.own)
        if self.source is not None:
            options.adapted, options.training = self.source.adapted, ctypes.addressof(self.source.training)
        orders = text_array(map(encode, self.orders))
        if len(self.orders) == 1:
            options.class_order = encode(self.orders[0])
        else:
            options.class_orders, options.class_order_count = ctypes.cast(orders, ctypes.c_void_p), len(self.orders)
        return options, (methods, seeds, values, axes, own, orders, train, test)

    def _note_failures(self, experiment: Handle) -> None:
        """What became of each method that has failed: what it raised, or what the library says of it."""
        for index in itertools.count():
            text = decode(library.l3a_experiment_failure(experiment.handle, index))
            if not text:
                break
            name = text.split("'")[1]
            raised = next((each.failure for each in self.own if each.name == name), None)
            self.failures[name] = raised if raised is not None else make_error(Status.ERROR_METHOD, text)

    def execute(self) -> str:
        """Runs the experiment and returns its folder."""
        if not self.methods or not self.seeds or not self.orders:
            raise make_error(Status.ERROR_ARGUMENT, f"a {self.kind} needs at least one method, one seed and one class order")
        if self.out is None:
            self.kept = _Temporary()
            folder = os.path.join(self.kept.path, self.kind)
        else:
            folder = os.fsdecode(self.out)
        train, test = self._open_tables(folder)
        options, kept = self._options(train, test, folder)
        experiment = self.context.make("l3a_experiment_free", "l3a_experiment_create", ctypes.byref(options), kept=(options, kept))
        try:
            plan = sized(l3a_workload)
            self.context.call("l3a_experiment_plan", experiment.handle, ctypes.byref(plan))
            if self.bar is not None:
                self.bar.begin(plan.points * plan.orders * plan.seeds * plan.phases)
            self.context.call("l3a_experiment_run", experiment.handle)
        except Error as error:
            if error.status in (Status.ERROR_CANCELLED, Status.ERROR_DEVICE) and self.out is not None and not error.hint:
                raise make_error(error.status, error.text, "what is finished is in the folder; resume=True continues") from error
            raised = next((each.failure for each in self.own if each.failure is not None), None)
            if error.status == Status.ERROR_METHOD and raised is not None:
                raise error from raised
            raise
        finally:
            self._note_failures(experiment)
            if self.bar is not None:
                self.bar.close()
            experiment.free()
            self.context.on_event = None  # it leads back here
        return folder


def _for_test(given: Any, train: _Opened) -> Optional[List[Any]]:
    """The classes of test labels that do not say their columns themselves: those of the training labels."""
    is_matrix = isinstance(given, (tuple, list)) and len(given) == 2 and getattr(given[1], "ndim", 1) == 2
    return None if is_matrix or _is_path(given) else list(train.classes)
