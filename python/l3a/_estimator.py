"""L3A as scikit-learn estimators: features in, scores and classes out.

scikit-learn itself is optional. Where it is installed, the estimators derive from its base classes."""
import ctypes
import os
import tempfile
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

import numpy

from ._array import Labels, feature_rows, from_npz, label_matrix, problem
from ._declarations import OptionType, l3a_evaluate_options, l3a_metrics
from ._error import Error
from ._library import Context, Handle, decode, encode, library, listed, path_bytes, setting_text, sized, text_array
from ._settings import SETTINGS, JointSettings, L3ASettings

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import NotFittedError
except ImportError:
    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """The estimator has not learned anything yet."""

    class BaseEstimator:  # type: ignore[no-redef]
        """What an estimator needs of scikit-learn's, where that is not installed."""

        def get_params(self, deep: bool = True) -> Dict[str, Any]:
            import inspect
            names = [name for name in inspect.signature(type(self)).parameters]
            return {name: getattr(self, name) for name in names}

        def set_params(self, **params: Any) -> Any:
            for name, value in params.items():
                if name not in self.get_params():
                    raise ValueError(f"{type(self).__name__} has no parameter {name!r}")
                setattr(self, name, value)
            return self

        def __repr__(self) -> str:
            given = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items() if v is not None)
            return f"{type(self).__name__}({given})"

    class ClassifierMixin:  # type: ignore[no-redef]
        """A classifier."""

ONE_LABEL = b"labels", b"one per image"  # what a model records if each image has one class
SHORT = 64  # rows that are scored while nobody gets impatient
Own = TypeVar("Own", bound="_Learner")


class Metrics(NamedTuple):
    """What `l3a eval` prints: percentages, means over classes (CP, CR, CF1) and over all pairs (OP, OR, OF1)."""
    mean_ap: float
    class_precision: float
    class_recall: float
    class_f1: float
    overall_precision: float
    overall_recall: float
    overall_f1: float
    images: int
    left_out: int
    average_precision: Dict[Any, float]


class Phase(NamedTuple):
    """What was learned at once."""
    classes: List[Any]
    images: int
    skipped: int
    pseudo_labels: int
    eta: float


class _Table(NamedTuple):
    """A feature table of the library with the class of each of its columns."""
    handle: Handle
    labels: Labels
    width: int


def _is_path(given: Any) -> bool:
    return isinstance(given, (str, os.PathLike))


class _Learner(ClassifierMixin, BaseEstimator):
    """What both estimators share."""
    classes_: Any
    n_features_in_: int
    _model: Optional[Handle] = None
    _single: bool = True
    _scored_rows: int = 1  # of an image, with views
    _method = "l3a"
    _recorded: Optional[str] = None  # the method's name in the model, if it is not that of its settings
    # Checks of scikit-learn's check_estimator that fail, and why they must.
    _expected_failures: Dict[str, str] = {}

    # ---- Settings
    def _options(self, context: Context, views: int) -> Handle:
        """The library's settings: those that were given by name, then the method's."""
        options = context.make("l3a_options_free", "l3a_options_create")
        for name in SETTINGS:
            value = getattr(self, name.replace("-", "_"), None)
            if value is None and name == "views" and views > 1:
                value = views
            if value is not None:
                context.call("l3a_options_set", options.handle, encode(name), encode(setting_text(value)))
        context.call("l3a_method_options", encode(self._method_name()), options.handle)
        return options

    def _method_name(self) -> str:
        return str(getattr(self, "method", self._method))

    def _new_context(self) -> Context:
        threads, device = getattr(self, "threads", None), getattr(self, "device", None)
        return Context(threads=threads or 0, device=device)

    # ---- Tables
    def _open(self, context: Context, X: Any, Y: Any, classes: Optional[Sequence[Any]]) -> _Table:
        """A table of whatever was given: arrays, or the path of a feature file."""
        if _is_path(X) and not os.fspath(X).endswith((".npy", ".npz")):
            return self._open_file(context, X, Y, classes)
        if _is_path(X) and os.fspath(X).endswith(".npz"):
            X, labels, names = from_npz(X)
            Y, classes = (labels, names if classes is None else classes) if Y is None else (Y, classes)
        elif _is_path(X):
            X = numpy.load(X, mmap_mode="r")
        rows = feature_rows(X, (2, 3))
        labels = label_matrix(Y, classes)
        if len(labels.matrix) != len(rows):
            raise problem(f"Found input variables with inconsistent numbers of samples: {[len(rows), len(labels.matrix)]}")
        names = text_array(encode(_name(c)) for c in labels.classes)
        views = rows.shape[1] - 1 if rows.ndim == 3 else 1
        table = context.make("l3a_features_free", "l3a_features_wrap", rows.ctypes.data, labels.matrix.ctypes.data, len(rows),
                             views, rows.shape[-1], names, len(labels.classes), kept=(rows, labels.matrix))
        return _Table(table, labels, rows.shape[-1])

    def _open_file(self, context: Context, path: Any, Y: Any, classes: Optional[Sequence[Any]]) -> _Table:
        table = context.make("l3a_features_free", "l3a_features_open", path_bytes(path))
        count = library.l3a_features_class_count(table.handle)
        if Y is not None or not count:
            raise problem(f"{os.fspath(path)}: the labels of a feature file are in the file, " +
                          ("so Y must be None" if count else "and this one has none"))
        names = [decode(library.l3a_features_class(table.handle, k)) for k in range(count)]
        listed_names = names if classes is None else list(classes)
        return _Table(table, Labels(None, listed_names, False), library.l3a_features_width(table.handle))

    # ---- Learning
    def _learn(self, X: Any, Y: Any, classes: Optional[Sequence[Any]], again: bool) -> None:
        """Learns a phase, in a new model or in the one there is."""
        model = None if again else self._model
        context = model.context if model is not None else self._new_context()
        with context.lock:
            table = self._open(context, X, Y, classes)
            self._check_width(X, table.width, model is None)
            if model is not None and table.labels.single != self._single:
                raise problem("the first phase had " + ("one class" if self._single else "a set of classes") +
                              " for each image, so this one must too")
            if model is None:
                self._model = None  # its memory is needed
                views = library.l3a_features_views(table.handle.handle)
                options = self._options(context, views)
                model = context.make("l3a_model_free", "l3a_model_create", table.width, options.handle)
                context.call("l3a_model_set_record", model.handle, b"method", encode(self._recorded or self._method_name()))
                if table.labels.single:
                    context.call("l3a_model_set_record", model.handle, ONE_LABEL[0], ONE_LABEL[1])
                known: List[Any] = []
            else:
                known = list(self.classes_)
            names = [encode(_name(c)) for c in table.labels.classes]
            if not names:
                raise problem("The number of classes has to be at least one; got 0 classes")
            try:
                context.call("l3a_model_learn", model.handle, table.handle.handle, text_array(names), len(names))
            except BaseException:
                if model is self._model:  # Ctrl-C, or a warning that is an error, may come after the phase is learned
                    self._keep(model, known + table.labels.classes, table.labels.single)
                raise
            self._keep(model, known + table.labels.classes, table.labels.single)

    def _keep(self, model: Handle, candidates: List[Any], single: bool) -> None:
        """The model, and its classes as the caller spells them."""
        own = {_name(c): c for c in reversed(candidates)}
        count = library.l3a_model_class_count(model.handle)
        names = [decode(library.l3a_model_class(model.handle, k)) for k in range(count)]
        self.classes_ = _class_array([own.get(name, name) for name in names])
        self.n_features_in_ = library.l3a_model_width(model.handle)
        self._single = single
        self._model = model
        settings = self.settings_
        self._scored_rows = library.l3a_view_rows(int(settings["score-views"]) or int(settings["views"]))

    def _check_width(self, X: Any, width: int, reset: bool) -> None:
        check = getattr(BaseEstimator, "_check_feature_names", None)
        if check is not None and not _is_path(X):
            check(self, X, reset=reset)
        if not reset and width != self.n_features_in_:
            raise problem(f"X has {width} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input")

    def fit(self: Own, X: Any, Y: Any = None, classes: Optional[Sequence[Any]] = None) -> Own:
        """Learns everything at once, and forgets what was learned before.

        X is [images x features]: an array, sparse matrix, data frame or tensor, or the path of a feature file, an .npy or an .npz
        file. Y is one class for each image, a set of classes for each image, or a matrix of 1 (present), 0 (absent) and -1
        (unknown) with a column for each of the classes. An image that shows none of the classes is left out."""
        self._learn(X, Y, classes, again=True)
        return self

    # ---- Scoring
    def _fitted(self) -> Handle:
        if self._model is None:
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments "
                                 "before using this estimator.")
        return self._model

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None

    def _rows(self, X: Any) -> Any:
        if _is_path(X):
            return self._read(X)
        rows = feature_rows(X, (2, 3))
        if rows is not X or rows.shape[-1] != self.n_features_in_ or hasattr(self, "feature_names_in_"):
            self._check_width(X, rows.shape[-1], False)
        return rows

    def _read(self, path: Any) -> Any:
        """The features of a file."""
        name = os.fspath(path)
        if name.endswith((".npy", ".npz")):
            return feature_rows(from_npz(path)[0] if name.endswith(".npz") else numpy.load(path, mmap_mode="r"), (2, 3))
        context = self._fitted().context
        table = context.make("l3a_features_free", "l3a_features_open", path_bytes(path))
        context.call("l3a_model_accepts_to_score", self._fitted().handle, table.handle)
        views = library.l3a_features_views(table.handle)
        count, width = library.l3a_features_rows(table.handle), library.l3a_features_width(table.handle)
        each = library.l3a_view_rows(views)
        rows = numpy.empty((count, width) if each == 1 else (count, each, width), dtype=numpy.float32)
        context.call("l3a_features_read", table.handle, None, 0, count, rows.ctypes.data)
        return rows

    def scores(self, X: Any, out: Any = None) -> Any:
        """The library's scores, [images x classes] in float32: least-squares estimates of the labels, 1 present and 0 absent. They
        are written to ``out`` if it is given."""
        model = self._fitted()
        rows = self._rows(X)
        with model.context.lock:
            shape = (len(rows), library.l3a_model_class_count(model.handle))
            if out is None:
                out = numpy.empty(shape, dtype=numpy.float32)
            elif not _can_hold(out, shape):
                raise problem(f"out must be a C-contiguous float32 array of shape {shape} that can be written to")
            self._check_views(rows)
            call = model.context.call_short if len(rows) <= SHORT else model.context.call_function
            call(library.l3a_model_score, model.handle, rows.ctypes.data, len(rows), out.ctypes.data)
        return out

    def _check_views(self, rows: Any) -> None:
        each = rows.shape[1] if rows.ndim == 3 else 1
        if each != self._scored_rows:
            raise problem(f"an image has {each} rows of features, but the model takes {self._scored_rows}")

    def decision_function(self, X: Any) -> Any:
        """Scores [images x classes]: the higher, the likelier the image shows the class. As scikit-learn has it for two classes of
        which each image shows one: one number per image, positive for the second class."""
        scores = self.scores(X)
        if self._single and scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def predict(self, X: Any) -> Any:
        """The classes of each image: the one with the highest score if each image has one, otherwise a matrix of 0 and 1, with 1
        where the score is above the class's threshold."""
        scores = self.scores(X)
        if self._single:
            return self.classes_[scores.argmax(axis=1)]
        return (scores > self.thresholds_).astype(numpy.int64)

    def predict_proba(self, X: Any) -> Any:
        """Numbers between 0 and 1 in the order of the scores: sigma(score) as the paper writes it, or softmax of the scores if each
        image has one class. They are not calibrated, because scores are estimates of labels and not log-odds."""
        scores = self.scores(X).astype(numpy.float64)
        if self._single:
            shifted = numpy.exp(scores - scores.max(axis=1, keepdims=True))
            return shifted / shifted.sum(axis=1, keepdims=True)
        return 1 / (1 + numpy.exp(-scores))

    def evaluate(self, X: Any, Y: Any = None, classes: Optional[Sequence[Any]] = None, all_images: bool = False) -> Metrics:
        """The metrics of the paper on images that show at least one of the model's classes, or on all images."""
        model = self._fitted()
        context = model.context
        with context.lock:
            table = self._open(context, X, Y, self._columns(Y, classes))
            found, options = sized(l3a_metrics), sized(l3a_evaluate_options, all_images=int(all_images))
            precision = (ctypes.c_double * library.l3a_model_class_count(model.handle))()
            context.call("l3a_model_evaluate", model.handle, table.handle.handle, ctypes.byref(options), ctypes.byref(found),
                         precision)
        values = {name: getattr(found, name) for name in Metrics._fields[:-1]}
        return Metrics(average_precision=dict(zip(self.classes_.tolist(), precision)), **values)

    def _columns(self, Y: Any, classes: Optional[Sequence[Any]]) -> Optional[Sequence[Any]]:
        """The classes of the columns of Y: unless they are given, those of the model."""
        if classes is not None or Y is None or hasattr(Y, "dtypes"):
            return classes
        return list(self.classes_)

    def score(self, X: Any, Y: Any = None, sample_weight: Any = None) -> float:
        """The share of right predictions if each image has one class; otherwise the mean average precision, from 0 to 1."""
        if self._single and Y is not None:
            given = numpy.asarray(Y).ravel()
            return float(numpy.average(self.predict(X) == given, weights=sample_weight))
        if sample_weight is not None:
            raise problem("sample_weight is not used with sets of classes")
        return self.evaluate(X, Y).mean_ap / 100

    # ---- What the model holds
    @property
    def thresholds_(self) -> Any:
        """The score above which each class is predicted."""
        model = self._fitted()
        with model.context.lock:
            found = numpy.empty(library.l3a_model_class_count(model.handle), dtype=numpy.float64)
            library.l3a_model_thresholds(model.handle, found.ctypes.data)
        return found

    @property
    def phases_(self) -> List[Phase]:
        """What was learned, phase by phase."""
        model = self._fitted()
        found = []
        with model.context.lock:
            for t in range(library.l3a_model_phase_count(model.handle)):
                phase = library.l3a_model_phase(model.handle, t).contents
                found.append(Phase(self.classes_[phase.first:phase.last].tolist(), phase.images, phase.skipped, phase.pseudo_labels,
                                   phase.eta))
        return found

    @property
    def settings_(self) -> Dict[str, Union[int, float, str]]:
        """Every setting of the model, by name; with the gamma that was chosen, if it was chosen from the images."""
        model = self._fitted()
        context = model.context
        with context.lock:
            options = context.make("l3a_options_free", "l3a_options_create")
            context.call("l3a_model_options", model.handle, options.handle)
            return {name: _setting(options, name) for name in SETTINGS}

    # ---- Files
    def save(self, path: Any) -> None:
        """Writes a model file, as `l3a learn` does. The names of the classes become text."""
        model = self._fitted()
        model.context.call("l3a_model_save", model.handle, path_bytes(path))

    def __getstate__(self) -> Dict[str, Any]:
        above = getattr(super(), "__getstate__", None)
        state = dict(above() if above is not None else self.__dict__)
        state.pop("_model", None)
        if self._model is not None:
            state["_saved"] = _model_bytes(self._model)
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        state = dict(state)
        saved = state.pop("_saved", None)
        above = getattr(super(), "__setstate__", None)
        if above is not None:
            above(state)
        else:
            self.__dict__.update(state)
        if saved is not None:
            self._model = _model_from_bytes(self._new_context(), saved)

    # ---- scikit-learn's tags
    def _more_tags(self) -> Dict[str, Any]:
        return {"multilabel": True, "X_types": ["2darray", "sparse"], "preserves_dtype": [],
                "_xfail_checks": self._expected_failures}

    def __sklearn_tags__(self) -> Any:  # from scikit-learn 1.6 on
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.input_tags.sparse = True
        return tags


def _can_hold(out: Any, shape: Tuple[int, int]) -> bool:
    return (isinstance(out, numpy.ndarray) and out.shape == shape and out.dtype == numpy.float32 and out.flags.c_contiguous
            and out.flags.writeable)


def _name(value: Any) -> str:
    """The name of a class in the model."""
    return str(value)


def _class_array(classes: List[Any]) -> Any:
    kinds = {type(c) for c in classes}
    made = numpy.array(classes) if len(kinds) == 1 else None
    if made is None or made.ndim != 1:
        made = numpy.empty(len(classes), dtype=object)
        made[:] = classes
    return made


def _setting(options: Handle, name: str) -> Union[int, float, str]:
    text = ctypes.create_string_buffer(64)
    library.l3a_options_get(options.handle, encode(name), text, len(text))
    kind = next(o.type for o in listed("l3a_option_at") if o.name == encode(name))
    found = decode(text.value)
    if kind == OptionType.CHOICE:
        return found
    try:
        return int(found) if kind == OptionType.INTEGER else float(found)
    except ValueError:
        return found  # a word


def _folders() -> List[Optional[str]]:
    """Where to put a model for a moment: in memory, if there is room, or else on disk."""
    return ["/dev/shm", None] if os.access("/dev/shm", os.W_OK) else [None]


def _model_bytes(model: Handle) -> bytes:
    """The bytes of the model's file."""
    failure: Optional[OSError] = None
    for place in _folders():
        try:
            with tempfile.TemporaryDirectory(prefix="l3a-", dir=place) as folder:
                path = os.path.join(folder, "model")
                model.context.call("l3a_model_save", model.handle, path_bytes(path))
                with open(path, "rb") as file:
                    return file.read()
        except OSError as error:
            failure = error
    raise failure or OSError("there is no folder for temporary files")


def _model_from_bytes(context: Context, saved: bytes) -> Handle:
    """The model of a file's bytes, from memory."""
    file = os.memfd_create("l3a-model", os.MFD_CLOEXEC)
    try:
        rest = memoryview(saved)
        while rest:
            rest = rest[os.write(file, rest):]
        return context.make("l3a_model_free", "l3a_model_load", path_bytes(f"/proc/self/fd/{file}"))
    finally:
        os.close(file)


def _parameters_of(model: Handle, wanted: Sequence[str]) -> Dict[str, Any]:
    """The settings of a model, as the parameters of an estimator."""
    context = model.context
    options = context.make("l3a_options_free", "l3a_options_create")
    context.call("l3a_model_options", model.handle, options.handle)
    return {name.replace("-", "_"): _setting(options, name) for name in SETTINGS if name.replace("-", "_") in wanted}


def _method_of(model: Handle) -> str:
    """The method that a model records, if an estimator can learn by it."""
    context, name = model.context, decode(library.l3a_model_record(model.handle, b"method"))
    try:
        context.call("l3a_method_options", encode(name), context.make("l3a_options_free", "l3a_options_create").handle)
    except Error:
        return "l3a"
    return name


class L3AClassifier(_Learner, L3ASettings):
    __doc__ = """A multi-label classifier that learns new classes phase after phase, in closed form.

    It keeps sums over images, never an image or its features, and what it learns later does not make it forget what it learned
    before. ``fit`` learns all classes at once, ``partial_fit`` learns a phase.

    Parameters
    ----------
    """ + L3ASettings.PARAMETERS + """

    Parameters that are None have the value that the method prescribes, or else the default.

    Attributes
    ----------
    classes_ : array
        The classes, in the order in which they were learned.
    thresholds_ : array
        The score above which each class is predicted.
    phases_ : list
        What was learned, phase by phase.
    settings_ : dict
        Every setting of the model.

    Examples
    --------
    >>> import numpy, l3a
    >>> draw = numpy.random.default_rng(1)
    >>> X = draw.normal(size=(300, 16)).astype("float32")
    >>> Y = (X[:, :4] > 0.5).astype("int8")
    >>> model = l3a.L3AClassifier(dim=256, gamma=10, threads=1)
    >>> model.partial_fit(X, Y[:, :2], classes=["cat", "dog"]).classes_.tolist()
    ['cat', 'dog']
    >>> model.partial_fit(X, Y[:, 2:], classes=["sheep", "cow"]).classes_.tolist()
    ['cat', 'dog', 'sheep', 'cow']
    >>> model.decision_function(X[:5]).shape
    (5, 4)
    """

    _expected_failures = {
        "check_fit_score_takes_y": "it gives partial_fit the images that fit has learned, and a model refuses to learn images twice",
    }

    def partial_fit(self, X: Any, Y: Any = None, classes: Optional[Sequence[Any]] = None) -> "L3AClassifier":
        """Learns a phase: new classes with their images. X and Y are as in ``fit``; ``classes`` are those of the phase, by default
        all that Y has. Labels of other classes in Y are not used. With classes that are known already, the images are added to
        what is known of them."""
        self._learn(X, Y, classes, again=self._model is None)
        return self

    @classmethod
    def load(cls, path: Any, threads: Optional[int] = None, device: Optional[str] = None) -> "L3AClassifier":
        """The classifier of a model file: of this class, of `l3a learn` or of `l3a run`."""
        context = Context(threads=threads or 0, device=device)
        model = context.make("l3a_model_free", "l3a_model_load", path_bytes(path))
        made = cls(_method_of(model), threads=threads, device=device, **_parameters_of(model, list(L3ASettings.__init__.__annotations__)))
        made._keep(model, [], single=library.l3a_model_record(model.handle, ONE_LABEL[0]) == ONE_LABEL[1])
        return made


class JointRidge(_Learner, JointSettings):
    __doc__ = """Ridge regression on the random layer with all classes at once: what :class:`L3AClassifier` would reach if nothing
    had to be learned later. The method `joint` of `l3a run`.

    Parameters
    ----------
    """ + JointSettings.PARAMETERS + """

    Examples
    --------
    >>> import numpy, l3a
    >>> draw = numpy.random.default_rng(1)
    >>> X = draw.normal(size=(300, 16)).astype("float32")
    >>> Y = [{name for name, value in zip(("cat", "dog"), row) if value > 0} for row in X]
    >>> model = l3a.JointRidge(dim=256, gamma=10, threads=1).fit(X, Y)
    >>> bool(model.score(X, Y) > 0.9)
    True
    """
    _method, _recorded = "l3a-no-pl", "joint"  # which learns as this one does, once
