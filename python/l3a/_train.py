"""Training: a backbone, changed by pictures with labels, as a new checkpoint."""
import contextlib
import ctypes
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._array import problem
from ._declarations import (l3a_dataset_options, l3a_picture_options, l3a_train_epoch, l3a_train_epoch_callback, l3a_train_options,
                            l3a_train_page, l3a_train_plan, l3a_train_report)
from ._library import Context, Event, Handle, decode, encode, path_bytes, sized, text_array
from ._network import Channels, Choices, choice, network_options
from ._progress import Progress, Stages

_DIFFICULT: Choices = {"absent": 0, "ignore": 1}
_KEEP: Choices = {"best": 0, "last": 1}


class Epoch(NamedTuple):
    """An epoch that is done. ``loss`` is its mean over the pictures as they were shown, and ``mean_ap`` that of the validation
    pictures afterwards, in percent, or None if there are none. ``best`` says that no epoch before had a higher one, and
    ``resumed`` that an earlier call has done it."""
    epoch: int
    epochs: int
    loss: float
    mean_ap: Optional[float]
    seconds: float
    best: bool
    resumed: bool


class Plan(NamedTuple):
    """What a training does. ``memory`` is in bytes, at the peak; ``recomputes`` says that there is no memory to keep all values, so
    some are computed twice. ``trained`` of the network's ``parameters`` are trained, besides those of the head. ``held`` pictures
    are for validation, and ``shown`` counts all that go through the network."""
    settings: str
    memory: int
    recomputes: bool
    parameters: int
    trained: int
    pictures: int
    held: int
    classes: int
    steps: int
    shown: int


class Training(NamedTuple):
    """What :func:`train` did. ``kept`` is the epoch that was written, counted from 1, and ``mean_ap`` its mAP in percent, or None
    without validation pictures. ``speed`` is in pictures a second, in the steps, and ``waited`` the seconds in which they waited for
    pictures. After a dry run, there are no epochs."""
    path: str
    plan: Plan
    epochs: List[Epoch]
    kept: int
    mean_ap: Optional[float]
    steps: int
    seconds: float
    speed: float
    waited: float
    recomputed: bool


def train(backbone: Any, data: str, output: Any, *, split: Optional[str] = None, validation: Optional[str] = None,
          validation_split: Optional[str] = None, validation_share: Optional[float] = None, recipe: Optional[str] = None,
          trained: Optional[str] = None, classes: Optional[Sequence[str]] = None, epochs: int = 0, batch: int = 0,
          rate: float = 0, head_rate: float = 0, schedule: Optional[str] = None, optimiser: Optional[str] = None,
          momentum: float = 0, decay: Optional[float] = None, clip: Optional[float] = None, loss: Optional[str] = None,
          crop: Union[None, bool, Tuple[float, float]] = None, flip: Optional[bool] = None, cutout: Optional[float] = None,
          keep: str = "best", difficult: str = "absent", seed: int = 0, memory: int = 0, save_seconds: Optional[float] = None,
          resume: bool = False, dry_run: bool = False, report: Any = None, on_epoch: Optional[Callable[[Epoch], Any]] = None,
          pool: Optional[str] = None, side: int = 0, mean: Optional[Channels] = None, std: Optional[Channels] = None,
          filter: Optional[str] = None, preprocess: str = "squash", heads: int = 0, activation: Optional[str] = None,
          layer: int = 0, backbone_precision: Optional[str] = None, orient: bool = False, threads: int = 0,
          device: Optional[str] = None, progress: Progress = True) -> Training:
    """Trains a backbone on the pictures of a data set, with a linear head on its features, and writes it as a checkpoint.

    The bytes are those of ``l3a train`` with the same options, but for the command, which only that records; either can resume what
    the other began. docs/training.md explains the options. What is not given is as the recipe says.

    backbone : a checkpoint: .safetensors, .pth or .pt
    data : "voc:FOLDER", "coco:FOLDER", "list:FILE.csv", "folders:FOLDER" or "tar:FILE.tar"
    output : path of the checkpoint, a .safetensors file
    split : of the data set: "trainval", "train2014", …
    validation, validation_split : the data set to measure on after each epoch (None: the same), and its split
    validation_share : without them, hold back so much of the pictures to measure on
    recipe : "norms" or "released"
    trained : what is trained besides the head: "all", "norms", "last:2" or "head"
    classes : learn only these, from their pictures; None: all
    epochs, batch : how often each picture is shown, and the pictures in a step
    rate, head_rate : the highest rate of the steps, and that of the head
    schedule : "one-cycle", "cosine" or "constant"
    optimiser : "adam", "adamw" or "sgd"; with momentum, decay, and clip, the largest norm of a gradient
    loss : "asl" or "bce"
    crop : cut out at random so much of the area, as in (0.5, 1); False: nothing
    flip, cutout : mirror every other picture; paint over a square with so much of a picture's side
    keep : "best" writes the epoch with the highest mAP, "last" the last one
    difficult : VOC: "absent" or "ignore"
    seed : of all that is drawn
    memory : bytes that training may take
    save_seconds : how often to save what is needed to resume; 0: after each epoch only
    resume : go on with an interrupted training
    dry_run : only plan; nothing is written
    report : path of a page with the learning curve, written after each epoch
    on_epoch : called with each :class:`Epoch`; if it returns something true, the training is cancelled, and can be resumed
    pool … orient : as in :meth:`l3a.Tagger.create`
    threads, device : processors, and device to use
    progress : True: bars, if tqdm is installed; False: none; or a function that gets each event, and cancels if it returns
        something true

    Ctrl-C cancels. What was done is in a file beside the output, and ``resume=True`` goes on and gives the same bytes.

    >>> import l3a
    >>> from l3a._tagger import png_bytes
    >>> for name, picture in {"red": red, "green": green, "blue": blue}.items():
    ...     os.makedirs(f"sorted/{name}", exist_ok=True)
    ...     _ = open(f"sorted/{name}/1.png", "wb").write(png_bytes(picture))
    >>> made = l3a.train(backbone, "folders:sorted", "tuned.safetensors", epochs=2, side=32, progress=False)
    >>> len(made.epochs), made.plan.classes, made.plan.pictures, made.steps, made.mean_ap
    (2, 3, 3, 2, None)
    >>> tagger = l3a.Tagger.create("colours.safetensors", "tuned.safetensors")
    """
    network = network_options(pool, side, mean, std, filter, preprocess, heads, activation, layer, backbone_precision)
    call = _Call(backbone, output, network, orient, threads, device, progress, on_epoch, report)
    call.set_texts(recipe=recipe, trained=trained, schedule=schedule, optimiser=optimiser, loss=loss)
    call.set_numbers(decay=decay, clip=clip, cutout=cutout, validation_share=validation_share, save_seconds=save_seconds)
    call.set_crop(crop)
    call.set_classes(classes)
    options = call.options
    options.epochs, options.batch, options.rate, options.head_rate, options.momentum = epochs, batch, rate, head_rate, momentum
    options.flip = 0 if flip is None else 1 if flip else -1
    options.keep_last, options.seed, options.memory, options.resume = choice("keep", _KEEP, keep), seed, memory, int(resume)
    reading = sized(l3a_dataset_options, ignore_difficult=choice("difficult", _DIFFICULT, difficult))
    call.pictures = call.open(data, split, reading)
    if validation is not None or validation_split is not None:
        call.validation = call.open(data if validation is None else validation, validation_split, reading)
    return call.plan() if dry_run else call.train()


class _Call:
    """The options of the library, and the memory that they point to."""

    def __init__(self, backbone: Any, output: Any, network: Any, orient: bool, threads: int, device: Optional[str],
                 progress: Progress, on_epoch: Optional[Callable[[Epoch], Any]], report: Any) -> None:
        self.backbone, self.path, self.page = path_bytes(backbone), path_bytes(output), report
        self.network, self.picture = network, sized(l3a_picture_options, orient=int(orient))
        for other in (self.backbone, self.path, self.path + b".training"):
            if report is not None and os.path.realpath(path_bytes(report)) == os.path.realpath(other):
                raise ValueError(f"report: {os.fsdecode(other)} is to be another file")
        self.progress, self.bars = progress, Stages({"train": "train", "validate": "validate"}) if progress is True else None
        self.on_epoch, self.epochs = on_epoch, []  # type: Optional[Callable[[Epoch], Any]], List[Epoch]
        self.raised: Optional[BaseException] = None
        self.stop = False
        self.pictures: Optional[Handle] = None
        self.validation: Optional[Handle] = None
        self.plan_struct = sized(l3a_train_plan)
        self.context = Context(threads=threads, device=device, on_event=self._on_event)
        self.callback = l3a_train_epoch_callback(self._take)
        self.options = sized(l3a_train_options, on_epoch=self.callback)
        self.options.backbone, self.options.picture = ctypes.addressof(self.network), ctypes.addressof(self.picture)

    # ---- Options ----

    def set_texts(self, **texts: Optional[str]) -> None:
        for name, text in texts.items():
            if text is not None:
                setattr(self.options, name, encode(text))

    def set_numbers(self, **values: Optional[float]) -> None:
        """Of which 0 makes sense; for the library, 0 is what the recipe says, and a number below 0 is 0."""
        for name, value in values.items():
            if value is not None:
                if not value >= 0:
                    raise problem(f"{name} is {value!r}", "give a number from 0 on, or None for what the recipe says")
                setattr(self.options, name, value or -1)

    def set_crop(self, crop: Union[None, bool, Tuple[float, float]]) -> None:
        if crop is False:
            self.options.least_area = -1
        elif isinstance(crop, (tuple, list)) and len(crop) == 2 and 0 < crop[0] <= crop[1] <= 1:
            self.options.least_area, self.options.most_area = crop
        elif crop is not None:
            raise problem(f"crop is {crop!r}", "give two shares of the area, as in (0.5, 1), or False")

    def set_classes(self, classes: Optional[Sequence[str]]) -> None:
        if isinstance(classes, str):
            raise problem("classes must be a list of names, not a text", f"give [{classes!r}] for one class")
        if classes is not None:
            names = [encode(str(name)) for name in classes]
            if not names:
                raise problem("classes is empty", "name at least one class, or leave it out for all")
            self.names = text_array(names)
            self.options.classes, self.options.class_count = ctypes.addressof(self.names), len(names)

    def open(self, data: str, split: Optional[str], reading: Any) -> Handle:
        return self.context.make("l3a_dataset_free", "l3a_dataset_open", encode(data), None if split is None else encode(split),
                                 ctypes.byref(reading))

    # ---- Calls ----

    def _arguments(self) -> Tuple[Any, ...]:
        assert self.pictures is not None
        return (self.backbone, self.pictures.handle, self.validation.handle if self.validation is not None else None,
                ctypes.byref(self.options))

    def _plan(self) -> Plan:
        self.context.call("l3a_train_prepare", *self._arguments(), ctypes.byref(self.plan_struct))
        found: Dict[str, Any] = {name: getattr(self.plan_struct, name) for name in Plan._fields}
        found.update(settings=decode(found["settings"]), recomputes=bool(found["recomputes"]))
        return Plan(**found)

    def plan(self) -> Training:
        return Training(os.fsdecode(self.path), self._plan(), [], 0, None, 0, 0.0, 0.0, 0.0, False)

    def train(self) -> Training:
        plan = self._plan()
        made = sized(l3a_train_report)
        self._write_page(None)
        try:
            self.context.call("l3a_train", *self._arguments(), self.path, ctypes.byref(made))
        finally:
            if self.bars is not None:
                self.bars.close()
            if self.raised is not None:
                raise self.raised
        self._write_page(made)
        return Training(os.fsdecode(self.path), plan, self.epochs, made.kept, _known(made.mean_ap), made.steps, made.seconds,
                        made.speed, made.waited, bool(made.recomputed))

    def _on_event(self, event: Event) -> Any:
        if self.bars is not None:
            self.bars(event)
        return self.stop or (self.progress(event) if callable(self.progress) else False)

    def _take(self, epoch: Any, user: Any) -> None:
        """Nothing may be raised through the library: the next event cancels, and the call raises it."""
        try:
            with self.context.interruptible() if self.on_epoch is not None else contextlib.nullcontext():
                self._take_epoch(ctypes.cast(epoch, ctypes.POINTER(l3a_train_epoch)).contents)
        except BaseException as raised:
            self.raised, self.stop = self.raised or raised, True

    def _take_epoch(self, found: Any) -> None:
        epoch = Epoch(found.epoch, found.epochs, found.loss, _known(found.mean_ap), found.seconds, bool(found.best),
                      bool(found.resumed))
        self.epochs.append(epoch)
        self._write_page(None)
        if self.on_epoch is not None and self.on_epoch(epoch):
            self.stop = True

    def _write_page(self, made: Any) -> None:
        if self.page is None:
            return
        columns = [(ctypes.c_double * max(len(self.epochs), 1))(*values) for values in (
            [epoch.loss for epoch in self.epochs],
            [float("nan") if epoch.mean_ap is None else epoch.mean_ap for epoch in self.epochs],
            [epoch.seconds for epoch in self.epochs])]
        page = sized(l3a_train_page, title=self.path, done=len(self.epochs))
        page.plan, page.report = ctypes.addressof(self.plan_struct), None if made is None else ctypes.addressof(made)
        page.losses, page.mean_aps, page.seconds = (ctypes.addressof(column) for column in columns)
        self.context.call("l3a_train_page_write", ctypes.byref(page), path_bytes(self.page))


def _known(value: float) -> Optional[float]:
    return value if value == value else None
