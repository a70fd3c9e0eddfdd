"""Calls every function of the header with NULL for each pointer in turn, and with sized structs of wrong sizes.

The list of functions comes from the header, so a new function is tested as soon as it is declared. Each call has a process of its
own, so a crash is a failure like any other."""
import ctypes
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import header

SOURCE, BUILD = Path(os.environ["L3A_SOURCE"]), Path(os.environ["L3A_BUILD"])
ARGUMENT = 1  # L3A_ERROR_ARGUMENT
if "address" in os.environ.get("L3A_SANITIZE", "") or "thread" in os.environ.get("L3A_SANITIZE", ""):
    print("skipped: a library built with sanitizers cannot be loaded into Python")
    sys.exit(77)

# Where NULL means something: the comment in the header says what.
MAY_BE_NULL = {
    ("l3a_tagger_set_unlabelled", "pictures"), ("l3a_tagger_set_unlabelled", "features"), ("l3a_tagger_set_unlabelled", "options"),
    ("l3a_model_set_unlabelled", "features"), ("l3a_model_set_unlabelled", "options"),
    ("l3a_history_foresee_in", "precision"), ("l3a_history_foresee_in", "recall"),
    ("l3a_context_create", "options"), ("l3a_option_needs", "options"), ("l3a_model_create", "options"),
    ("l3a_model_plan", "options"), ("l3a_features_open_npy", "labels_path"), ("l3a_features_open_npy", "names_path"),
    ("l3a_features_read", "rows"), ("l3a_model_evaluate", "average_precision"), ("l3a_model_evaluate", "options"),
    ("l3a_measure", "average_precision"), ("l3a_state_put", "shape"), ("l3a_state_put", "data"), ("l3a_state_get", "shape"), ("l3a_results_significance", "metric"),
    ("l3a_features_save", "options"),
    ("l3a_report_write", "options"), ("l3a_report_figures", "options"), ("l3a_report_table", "options"), ("l3a_picture_read", "options"), ("l3a_picture_decode", "options"),
    ("l3a_loader_create", "options"), ("l3a_dataset_open", "split"),
    ("l3a_dataset_open", "options"), ("l3a_draw_dataset", "options"), ("l3a_backbone_open", "options"),
    ("l3a_extract", "options"), ("l3a_extract", "report"), ("l3a_tagger_open", "options"), ("l3a_reader_tag_files", "user"),
    ("l3a_tagger_teach", "options"), ("l3a_tagger_teach", "report"), ("l3a_tagger_undo", "report"), ("l3a_history_undo", "report"),
    ("l3a_sidecar_write", "options"), ("l3a_sidecar_write", "changed"), ("l3a_history_foresee", "confusions"),
    ("l3a_pack_write", "options"), ("l3a_pack_write", "report"), ("l3a_device_describe", "device"), ("l3a_reader_score", "user"), ("l3a_history_pictures", "user"), ("l3a_history_find", "user"), ("l3a_history_repair", "report"),
    ("l3a_reader_tag_pictures", "user"), ("l3a_dataset_picture", "options"), ("l3a_dataset_archive", "offset"),
    ("l3a_dataset_archive", "bytes"),
    ("l3a_tagger_revert", "report"), ("l3a_history_revert", "report"), ("l3a_history_lesson", "user"), ("l3a_library_open", "options"),
    ("l3a_library_scan", "report"), ("l3a_library_look", "options"), ("l3a_library_look", "report"), ("l3a_library_retry", "count"),
    ("l3a_library_judged", "user"), ("l3a_library_score", "scored"), ("l3a_library_find", "options"), ("l3a_library_folders", "user"),
    ("l3a_watch_next", "lost"), ("l3a_extract_cached", "options"), ("l3a_extract_cached", "cache"), ("l3a_extract_cached", "report"),
    ("l3a_train_prepare", "validation"), ("l3a_train_prepare", "options"), ("l3a_train", "validation"), ("l3a_train", "options"),
    ("l3a_train", "report"), ("l3a_adapt_prepare", "options"), ("l3a_adapt", "options"), ("l3a_adapt", "report"),
}
# They return "" for NULL.
TEXTS = ("l3a_error_text", "l3a_error_hint", "l3a_reader_error_text", "l3a_reader_error_hint", "l3a_context_device")
# Their text would belong to another thread.
WITHOUT_TEXT = ("l3a_reader_create",)
LARGE = 4096  # more than any struct of the interface has

text = header.read(SOURCE)
functions, sized = header.functions(text), header.sized(text)
library = ctypes.CDLL(str(BUILD / "libl3a.so"))
for declared, name, parameters in functions:
    function = getattr(library, name)
    function.restype = {"l3a_status": ctypes.c_int, "int": ctypes.c_int, "void": None, "double": ctypes.c_double, "float": ctypes.c_float,
                        "size_t": ctypes.c_size_t, "uint64_t": ctypes.c_uint64}.get(declared, ctypes.c_void_p)
    function.argtypes = [ctypes.c_void_p if "*" in kind else
                         {"double": ctypes.c_double, "size_t": ctypes.c_size_t, "uint64_t": ctypes.c_uint64}.get(kind, ctypes.c_int)
                         for kind, _ in parameters]
kept = []  # what the library must not lose while it is in use


def memory(size, content=b""):
    kept.append(ctypes.create_string_buffer(content, size))
    return ctypes.addressof(kept[-1])


def error(owner, of="l3a"):
    return "; ".join(ctypes.string_at(getattr(library, f"{of}_error_{part}")(owner)).decode() for part in ("text", "hint"))


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def stop(index, status, tags, user):
    return 1


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
def stop_taught(path, checksum, labels, complete, user):
    return 1


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
def stop_any(*arguments):
    return 1


class Objects:
    """One object of each kind, to pass where NULL is not."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}
        values = memory(4 * 12, struct.pack("12f", *range(12)))
        labels = memory(12, bytes([1, 0, 0, 1] * 3))
        names = memory(16, struct.pack("2P", memory(8, b"one"), memory(8, b"two")))
        self.make("context", library.l3a_context_create, None)
        self.context = self.made["context"]
        self.make("cluster", library.l3a_cluster_open, self.context)
        self.make("options", library.l3a_options_create, self.context)
        self.call(library.l3a_options_set_integer, self.context, self.made["options"], b"dim", 4)
        self.call(library.l3a_options_set_integer, self.context, self.made["options"], b"keep-phases", 2)  # so that a model has parts
        self.make("features", library.l3a_features_wrap, self.context, values, labels, 6, 1, 2, names, 2)
        self.make("model", library.l3a_model_create, self.context, 2, self.made["options"])
        self.call(library.l3a_model_learn, self.made["model"], self.made["features"], names, 1)
        self.call(library.l3a_model_learn, self.made["model"], self.made["features"], names + 8, 1)
        table = os.path.join(folder, "table.safetensors").encode()
        self.call(library.l3a_features_save, self.made["features"], None, table)
        self.make("file", library.l3a_file_open, self.context, table)
        (Path(folder) / "list.csv").write_text("path,labels\na.jpg,one\n")
        self.make("dataset", library.l3a_dataset_open, self.context, f"list:{folder}/list.csv".encode(), None, None)
        self.make("backbone", library.l3a_backbone_open, self.context, str(SOURCE / "models/demo_backbone.safetensors").encode(), None)
        self.make("loader", library.l3a_loader_create, self.context, None, 0, None)
        self.make("pictures", library.l3a_pictures_find, self.context, None, 0)
        self.make("output", library.l3a_output_open, self.context, os.path.join(folder, "written").encode())
        self.make("lock", library.l3a_lock_take, self.context, os.path.join(folder, "locked").encode(), 0)
        subprocess.run([BUILD / "l3a", "run", "--train", table, "--test", table, "--protocol", "B0-C1", "--dim", "4", "--quiet", "-o",
                        f"{folder}/run"], check=True, stdout=subprocess.DEVNULL)
        self.make("results", library.l3a_results_load, self.context, f"{folder}/run".encode())
        options = memory(LARGE, struct.pack("N3P", LARGE, self.made["features"], self.made["features"], memory(8, b"B0-C1")))
        self.make("experiment", library.l3a_experiment_create, self.context, options)
        self.made["state"] = memory(LARGE, struct.pack("P", self.context))  # only the library makes one; this one is empty
        self.made["tags_callback"] = ctypes.cast(stop, ctypes.c_void_p).value
        self.made["taught_callback"] = ctypes.cast(stop_taught, ctypes.c_void_p).value
        for name in "judged", "folder", "lesson":
            self.made[f"{name}_callback"] = ctypes.cast(stop_any, ctypes.c_void_p).value
        self.make_tagger()

    def make_tagger(self):
        """The model of a tagger takes the features of its backbone."""
        table, model, path = ctypes.c_void_p(), ctypes.c_void_p(), os.path.join(self.folder, "model").encode()
        name, checkpoint = memory(8, struct.pack("P", memory(8, b"one"))), memory(512, str(SOURCE / "models/demo_backbone.safetensors").encode())
        width = ctypes.c_size_t.from_address(library.l3a_backbone_describe(self.made["backbone"]) + 80).value
        values = memory(4 * 2 * width, struct.pack(f"{2 * width}f", *(i % 7 for i in range(2 * width))))
        self.call(library.l3a_features_wrap, self.context, values, memory(2, b"\1\1"), 2, 1, width, name, 1, ctypes.byref(table))
        self.call(library.l3a_model_create, self.context, width, self.made["options"], ctypes.byref(model))
        self.call(library.l3a_model_learn, model, table, name, 1)
        self.call(library.l3a_model_save, model, path)
        self.make("tagger", library.l3a_tagger_open, self.context, path, memory(LARGE, struct.pack("NP", LARGE, checkpoint)))
        self.make("reader", library.l3a_reader_create, self.made["tagger"])
        self.make("tags", library.l3a_tags_create, model, memory(4), memory(8))
        self.make("lesson", library.l3a_lesson_create, self.context)
        self.make("history", library.l3a_history_open, self.context, path)
        self.make("library", library.l3a_library_open, self.context, self.made["tagger"], None)
        self.make("found", library.l3a_library_find, self.made["library"], None)
        self.make("watch", library.l3a_watch_open, self.context, memory(8, struct.pack("P", memory(256, self.folder.encode()))), 1, ctypes.c_double(0))

    def call(self, function, *arguments):
        status = function(*arguments)
        assert status == 0, f"{function.__name__}: {status}, {error(self.context)}"

    def make(self, kind, function, *arguments):
        made = ctypes.c_void_p()
        status = function(*arguments, ctypes.byref(made))
        assert status == 0, f"{function.__name__}: {status}, {error(self.context)}"
        self.made[kind] = made.value

    def value(self, kind):
        """Something valid for a parameter of this type; None if there is nothing."""
        if "*" not in kind:
            return 1
        plain = kind.replace("const ", "").replace("*const", "*").replace("struct ", "")
        if plain == "char *":
            return memory(64, os.path.join(self.folder, "name").encode()[:63])
        if plain.count("*") == 2 and "char" in plain:
            return memory(64, struct.pack("2P", memory(8, b"one"), memory(8, b"two")))
        name = plain.split()[0]
        if plain.count("*") == 1 and name.startswith("l3a_") and name not in header.structs(text):
            return self.made.get(name[len("l3a_"):])
        return memory(LARGE, struct.pack("N", LARGE) if name in sized else b"")


def outcome(function, arguments, objects):
    """What the call returns, with the text of the error; or a signal. It runs in another process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(20)
        result = function(*arguments)
        of_reader = arguments and arguments[0] == objects.made["reader"]
        said = error(objects.made["reader"], "l3a_reader") if of_reader else error(objects.context)
        os.write(writing, repr((result, said)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return eval(said) if os.WIFEXITED(status) else (f"killed by signal {os.WTERMSIG(status)}", "")


def expected(declared, name):
    if declared == "l3a_status":
        return ARGUMENT
    return {"void": None, "double": 0.0, "float": 0.0}.get(declared, None if "*" in declared else 0)


def check_null(objects, declared, name, parameters):
    failures = []
    for i, (kind, own) in enumerate(parameters):
        if "*" not in kind or (name, own) in MAY_BE_NULL or name in TEXTS:
            continue
        arguments = [None if j == i else objects.value(k) for j, (k, _) in enumerate(parameters)]
        missing = [parameters[j][0] for j, a in enumerate(arguments) if a is None and j != i]
        if missing:
            failures.append(f"{name}: the test has no {missing[0]}")
            continue
        got, said = outcome(getattr(library, name), arguments, objects)
        if got != expected(declared, name):
            failures.append(f"{name}: {own} is NULL: {got} instead of {expected(declared, name)}")
        elif declared == "l3a_status" and i > 0 and name not in WITHOUT_TEXT and f"{own} is NULL" not in said \
                and (name, own) != ("l3a_context_create", "context"):
            failures.append(f"{name}: {own} is NULL: the text is '{said}'")
    return failures


def check_null_items(objects, declared, name, parameters):
    """A NULL among names or paths."""
    failures = []
    for i, (kind, own) in enumerate(parameters):
        if kind != "const char *const *":
            continue
        arguments = [memory(64) if j == i else objects.value(k) for j, (k, _) in enumerate(parameters)]
        got, said = outcome(getattr(library, name), arguments, objects)
        if isinstance(got, str) or (declared == "l3a_status" and not 0 < got < 17):
            failures.append(f"{name}: {own}[0] is NULL: {got}, '{said}'")
    return failures


def check_sizes(objects, declared, name, parameters):
    failures = []
    for i, (kind, own) in enumerate(parameters):
        if kind.replace("const ", "").replace(" *", "") not in sized or declared != "l3a_status":
            continue
        wrong = {"sizeof": struct.pack("N", 0), "sizeof ": struct.pack("N", 1 << 40)}
        if kind.startswith("const "):
            wrong["newer version"] = struct.pack("N", LARGE).ljust(LARGE - 1, b"\0") + b"\1"
        for words, content in wrong.items():
            arguments = [memory(LARGE, content) if j == i else objects.value(k) for j, (k, _) in enumerate(parameters)]
            if None in arguments:
                failures.append(f"{name}: the test has no {parameters[arguments.index(None)][0]}")
                continue
            got, said = outcome(getattr(library, name), arguments, objects)
            with_text = name != "l3a_context_create"  # which has no context yet
            if got != ARGUMENT or (with_text and (words not in said or own not in said)):
                failures.append(f"{name}: {own} of size {struct.unpack('N', content[:8])[0]}: {got}, '{said}'")
    return failures


def check_lists():
    """Every struct is of one of three kinds, and the lists of exceptions name nothing that is not there."""
    structs, listed = header.structs(text), header.HANDED_OUT | header.FIXED
    parameters = {(name, own) for _, name, listed_parameters in functions for _, own in listed_parameters}
    opaque = len(re.findall(r"^typedef struct (\w+) \1;", text, re.M))
    declared = len(header.without_comments(text).split("\nL3A_PUBLIC ")) - 1
    return [f"{name}: neither begins with its size nor is only handed out" for name in structs if name not in sized and name not in listed] \
        + [f"{name}: listed, but no struct without a size" for name in listed if name not in structs or name in sized] \
        + [f"{name}: has no parameter {own}" for name, own in MAY_BE_NULL - parameters] \
        + [f"{declared} functions are declared, but {len(functions)} are tested"] * (declared != len(functions)) \
        + [f"{text.count('typedef struct')} structs are declared, but {len(structs) + opaque} are known"] * (text.count("typedef struct") != len(structs) + opaque)


def main():
    failures = check_lists()
    with tempfile.TemporaryDirectory() as folder:
        objects = Objects(folder)
        for declared, name, parameters in functions:
            for check in (check_null, check_null_items, check_sizes):
                failures += check(objects, declared, name, parameters)
    for failure in failures:
        print(failure)
    print(f"{len(functions)} functions, {len(sized)} sized structs, {len(failures)} failures")
    sys.exit(bool(failures))


main()
