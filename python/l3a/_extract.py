"""Features from PyTorch networks, in a feature file.

The network is called batch by batch, and the features go to a temporary file beside the result, so they need not fit into memory.
Labels and names do, with one byte per image and class. At the end the library writes the feature file in one step: a path holds
the complete new file or what it held before."""
import ctypes
import hashlib
import os
import tempfile
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ._declarations import EventKind, Status, l3a_save_options
from ._error import Error, make_error
from ._library import Context, Event, Handle, encode, path_bytes, sized, text_array
from ._need import need
from ._progress import Progress, make_bar


class Extraction(NamedTuple):
    """What :func:`extract` has written."""
    path: str
    rows: int
    width: int
    records: Dict[str, str]


def extract(model: Any, loader: Iterable[Any], path: Any, classes: Sequence[str], *, layer: Optional[str] = None,
            half: bool = False, device: Any = None, backbone: Optional[str] = None, preprocess: Optional[str] = None,
            records: Optional[Mapping[str, str]] = None, progress: Progress = True) -> Extraction:
    """Computes the features of pictures with a PyTorch network, and writes them to a feature file.

    Every command and function that takes features takes the file: run, sweep, learn, eval, predict, and the estimators.

    model : a torch.nn.Module
        The features are what the network computes before its classifier. A timm model says itself what that is
        (``forward_features`` and ``forward_head(…, pre_logits=True)``); a model without a classifier, such as one that timm made
        with ``num_classes=0``, returns them. Otherwise ``layer`` names the classifier, and its input is taken. The model is used
        in evaluation mode and without gradients, and left as it was.
    loader : batches (pictures, labels) or (pictures, labels, names)
        A DataLoader, a list, a generator. Pictures are a tensor that the model takes, prepared as it needs them; one that has a
        dimension more, [images, views, 3, height, width], has the whole picture and its crops (docs/views.md). Labels are a
        matrix with a column per class (1 present, 0 absent, -1 unknown), lists of names or numbers of classes, or one number per
        picture. Names of pictures are shown in reports.
    path : of the feature file
    classes : the name of each class
    layer : name of the module whose input is taken, as ``model.named_modules()`` has it
    half : features as float16, which halves the file
    device : where to compute; None: where the model's parameters are
    backbone, preprocess : texts that the file records. Models refuse features whose records differ from theirs, so two files are
        taken for features of the same network only if their records agree. The default is the model's name; nothing is recorded
        about the preparation of pictures unless you give it.
    records : other records, or other values for those that are made: ``sha256`` is that of the parameters, ``pool`` says where
        the features were taken
    progress : True: a bar, if tqdm is installed; False: none; or a function that gets an event for each batch, and cancels if it
        returns something true
    """
    torch = need("torch", "l3a.extract()")
    if isinstance(classes, str):
        raise make_error(Status.ERROR_ARGUMENT, "classes must be a list of names, not a text", f"give [{classes!r}] for one class")
    take, pool = find_features(torch, model, layer)
    described = {"backbone": backbone or name_of(model), "sha256": fingerprint(model), "pool": pool}
    described.update({"preprocess": preprocess} if preprocess else {})
    described.update(records or {})
    for key in described:
        if key in ("classes", "views", "bad", "shard", "extraction") or key.startswith("xxh3."):
            raise make_error(Status.ERROR_ARGUMENT, f"the record '{key}' is made by the library", "leave it out")
    where = device if device is not None else next((p.device for p in model.parameters()), torch.device("cpu"))
    intake = _Intake(path, [str(name) for name in classes], half)
    report = _Reporter(progress, loader)
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            for batch in loader:
                pictures, labels, names = _split(batch)
                features = _compute(torch, take, torch.as_tensor(pictures).to(where))
                intake.add(features.detach().to("cpu", torch.float32).numpy(), labels, names)
                report.step(intake.rows)
        intake.save(described)
        return Extraction(os.fsdecode(path), intake.rows, intake.width, described)
    finally:
        for module, training in modes:
            module.training = training
        report.close()
        intake.close()


def _split(batch: Any) -> Tuple[Any, Any, Optional[Sequence[Any]]]:
    if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
        raise make_error(Status.ERROR_DATA, "a batch must be (pictures, labels) or (pictures, labels, names)",
                         "check what the loader returns")
    return (*batch, None) if len(batch) == 2 else tuple(batch)  # type: ignore[return-value]


def _compute(torch: Any, take: Callable[[Any], Any], pictures: Any) -> Any:
    """The features [images, width] of a batch, or [images, views, width]."""
    views = pictures.shape[1] if pictures.dim() == 5 else 0
    features = take(pictures.flatten(0, 1) if views else pictures)
    if not torch.is_tensor(features) or features.dim() != 2:
        shape = tuple(features.shape) if torch.is_tensor(features) else type(features).__name__
        raise make_error(Status.ERROR_DATA, f"the network gives {shape} for a batch, not a row of numbers for each picture",
                         "name the classifier with layer, so that its input is taken")
    return features.unflatten(0, (-1, views)) if views else features


def find_features(torch: Any, model: Any, layer: Optional[str]) -> Tuple[Callable[[Any], Any], str]:
    """A function from pictures to features, and what to record about it."""
    if layer is not None:
        modules = dict(model.named_modules())
        if layer not in modules:
            close = [name for name in modules if name and name.rpartition(".")[2] == layer.rpartition(".")[2]]
            raise make_error(Status.ERROR_ARGUMENT, f"the model has no module '{layer}'",
                             f"did you mean '{close[0]}'?" if close else "model.named_modules() lists them")
        return _input_of(torch, model, modules[layer], layer), f"input of {layer}"
    if hasattr(model, "forward_features") and hasattr(model, "forward_head"):
        return lambda pictures: model.forward_head(model.forward_features(pictures), pre_logits=True), "pre-logits"
    head = classifier_of(torch, model)
    if head is not None:
        return _input_of(torch, model, head[1], head[0]), f"input of {head[0]}"
    return model, "output"


def classifier_of(torch: Any, model: Any) -> Optional[Tuple[str, Any]]:
    """The classifier by the names that torchvision, timm and others give it, if it is a linear layer; in a sequence, the last."""
    for name in ("fc", "classifier", "head", "heads"):
        module = getattr(model, name, None)
        while isinstance(module, torch.nn.Sequential) and len(module):
            last = next(reversed(module._modules))
            name, module = f"{name}.{last}", module._modules[last]
        if isinstance(module, torch.nn.Linear):
            return name, module
    return None


def _input_of(torch: Any, model: Any, module: Any, name: str) -> Callable[[Any], Any]:
    """A function that runs the model, and returns what the module was given."""
    def take(pictures: Any) -> Any:
        seen: List[Any] = []
        hook = module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        try:
            model(pictures)
        finally:
            hook.remove()
        if not seen:
            raise make_error(Status.ERROR_DATA, f"the model does not use its module '{name}'", "name another one with layer")
        return torch.flatten(seen[-1], 1) if torch.is_tensor(seen[-1]) and seen[-1].dim() > 2 else seen[-1]
    return take


def name_of(model: Any) -> str:
    """As timm names it, or the name of its class."""
    for settings in (getattr(model, "pretrained_cfg", None), getattr(model, "default_cfg", None)):
        found = settings.get("architecture") if isinstance(settings, dict) else getattr(settings, "architecture", None)
        if found:
            return str(found)
    return type(model).__name__


def fingerprint(model: Any) -> str:
    """SHA-256 of the names and values of the parameters and buffers."""
    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        array = tensor.detach().cpu().contiguous()
        found.update(f"{name} {array.dtype} {tuple(array.shape)}\n".encode())
        found.update(_bytes_of(array))
    return found.hexdigest()


def _bytes_of(tensor: Any) -> bytes:
    torch = need("torch", "l3a.extract()")
    plain = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    return bytes(plain.numpy().tobytes())


class _Reporter:
    """Progress over the batches."""

    def __init__(self, progress: Progress, loader: Any) -> None:
        self.progress, self.done = progress, 0
        try:
            self.total = len(loader)
        except TypeError:
            self.total = 0
        self.bar = make_bar(desc="extract", unit=" batches", total=self.total or None, leave=False) if progress is True else None

    def step(self, rows: int) -> None:
        self.done += 1
        if self.bar is not None:
            self.bar.update()
        if callable(self.progress) and self.progress(Event(EventKind.PROGRESS, "extract", "", self.done, self.total, 0.0)):
            raise make_error(Status.ERROR_CANCELLED, f"the extraction was cancelled after {rows} images")

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


class _Intake:
    """Collects batches: features in a temporary .npy file, labels and names in memory. Then writes the feature file."""
    HEAD = 128  # bytes before the numbers; the header is written last, when the number of rows is known

    def __init__(self, path: Any, classes: Sequence[str], half: bool) -> None:
        import numpy
        self.numpy = numpy
        self.path, self.classes, self.half = path, list(classes), half
        self.column = {name: k for k, name in enumerate(self.classes)}
        self.rows, self.shape = 0, ()  # type: Tuple[int, Tuple[int, ...]]
        self.labels: List[Any] = []
        self.names: List[str] = []
        if not self.classes or len(self.column) < len(self.classes):
            raise make_error(Status.ERROR_CLASS, "every class needs a name of its own", "check classes")
        folder = os.path.dirname(os.path.abspath(os.fsdecode(path)))
        try:
            self.file = tempfile.NamedTemporaryFile(prefix=f".{os.path.basename(os.fsdecode(path))}.", suffix=".npy", dir=folder)
        except OSError as problem:
            raise make_error(Status.ERROR_NOT_FOUND if isinstance(problem, FileNotFoundError) else Status.ERROR_IO,
                             f"{folder}: cannot write: {problem.strerror}", "check the path") from problem
        self.file.write(b"\0" * self.HEAD)

    @property
    def width(self) -> int:
        return self.shape[-1] if self.shape else 0

    def add(self, features: Any, labels: Any, names: Optional[Sequence[Any]]) -> None:
        shape = features.shape[1:]
        if self.rows and shape != self.shape:
            raise make_error(Status.ERROR_MISMATCH, f"a batch has features of shape {shape}, those before it {self.shape}",
                             "give all pictures the same views, and the network one output")
        if names is not None and len(names) != len(features) or bool(self.rows) and bool(self.names) != (names is not None):
            raise make_error(Status.ERROR_DATA, f"a batch of {len(features)} pictures has "
                             f"{'no' if names is None else len(names)} names", "name all pictures, or none")
        self.labels.append(self._labels(labels, len(features)))
        self.names += [str(name) for name in names] if names is not None else []
        self.shape, self.rows = shape, self.rows + len(features)
        self.file.write(self.numpy.ascontiguousarray(features).tobytes())

    def _number(self, given: Any) -> int:
        """The column of a class, by its name or its number."""
        k = self.column.get(given, -1) if isinstance(given, str) else int(given)
        if not 0 <= k < len(self.classes):
            raise make_error(Status.ERROR_CLASS, f"the label {given!r} is not one of the {len(self.classes)} classes",
                             "add it to classes, or check the labels")
        return k

    def _labels(self, given: Any, count: int) -> Any:
        numpy = self.numpy
        if hasattr(given, "detach"):
            given = given.detach().cpu().numpy()
        matrix = given if isinstance(given, numpy.ndarray) and given.ndim == 2 else None
        if matrix is None:
            items = [item if isinstance(item, (list, tuple, set, frozenset, numpy.ndarray)) else [item] for item in given]
            matrix = numpy.zeros((len(items), len(self.classes)), dtype=numpy.int8)
            for row, item in enumerate(items):
                for label in item:
                    matrix[row, self._number(label.item() if hasattr(label, "item") else label)] = 1
        if matrix.shape != (count, len(self.classes)):
            raise make_error(Status.ERROR_MISMATCH, f"labels of shape {tuple(matrix.shape)} for {count} pictures and "
                             f"{len(self.classes)} classes", "give labels a row per picture and a column per class")
        if matrix.dtype.kind != "b" and not numpy.isin(matrix, (-1, 0, 1)).all():
            raise make_error(Status.ERROR_DATA, "labels must be 1 (present), 0 (absent) or -1 (unknown)", "check the labels")
        return matrix.astype(numpy.int8)

    def _finish_spool(self) -> None:
        """An .npy file needs its number of rows at the beginning."""
        head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {(self.rows, *self.shape)}, }}"
        self.file.seek(0)
        self.file.write(b"\x93NUMPY\x01\x00" + (self.HEAD - 10).to_bytes(2, "little") + head.ljust(self.HEAD - 11).encode() + b"\n")
        self.file.flush()

    def save(self, records: Mapping[str, str]) -> None:
        if not self.rows:
            raise make_error(Status.ERROR_DATA, "the loader has no pictures", "check the data set")
        self._finish_spool()
        context = Context(threads=1)
        with tempfile.TemporaryDirectory() as folder:
            labels, names = os.path.join(folder, "labels.npy"), os.path.join(folder, "names.txt")
            self.numpy.save(labels, self.numpy.concatenate(self.labels))
            with open(names, "wb") as file:
                file.writelines(encode(name) + b"\n" for name in self.classes)
            table = context.make("l3a_features_free", "l3a_features_open_npy", path_bytes(self.file.name), path_bytes(labels),
                                 path_bytes(names))
        _describe(context, table, records, self.names)
        try:
            context.call("l3a_features_save", table.handle, ctypes.byref(sized(l3a_save_options, half=int(self.half))),
                         path_bytes(self.path))
        except Error as error:  # which may name the temporary file
            raise make_error(error.status, error.text.replace(self.file.name, os.fsdecode(self.path)), error.hint) from None
        finally:
            table.free()

    def close(self) -> None:
        self.file.close()


def _describe(context: Context, table: Handle, records: Mapping[str, str], names: Sequence[str]) -> None:
    for key, value in records.items():
        context.call("l3a_features_set_record", table.handle, encode(key), encode(value))
    if names:
        context.call("l3a_features_set_ids", table.handle, text_array(encode(name) for name in names), len(names))
