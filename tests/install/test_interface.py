"""Calls every function of the header with NULL for each pointer in turn, and with sized structs of wrong sizes.

The list of functions comes from the header, so a new function is tested as soon as it is declared. Each call has a process of its
own, so a crash is a failure like any other."""
import ctypes
import os
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
    ("l3a_context_create", "options"), ("l3a_option_needs", "options"), ("l3a_model_create", "options"),
    ("l3a_model_plan", "options"), ("l3a_features_open_npy", "labels_path"), ("l3a_features_open_npy", "names_path"),
    ("l3a_features_read", "rows"), ("l3a_model_evaluate", "average_precision"), ("l3a_measure", "average_precision"),
    ("l3a_report_write", "options"), ("l3a_picture_read", "options"), ("l3a_picture_decode", "options"),
    ("l3a_loader_create", "options"), ("l3a_dataset_open", "split"), ("l3a_dataset_open_with", "split"),
    ("l3a_dataset_open_with", "options"), ("l3a_draw_dataset", "options"), ("l3a_backbone_open", "options"),
    ("l3a_extract", "options"), ("l3a_extract", "report"),
}
# Structs that only the library makes; they may grow at their end.
HANDED_OUT = {"l3a_event", "l3a_option_info", "l3a_phase_info", "l3a_result", "l3a_class_tally", "l3a_method_info",
              "l3a_preset", "l3a_backbone_info"}
# Not checked yet.
LATER = ("l3a_model_", "l3a_phase_", "l3a_run", "l3a_sweep_", "l3a_extract", "l3a_backbone_sign", "l3a_axis")
LARGE = 4096  # more than any struct of the interface has

text = (SOURCE / "include/l3a/l3a.h").read_text()
functions, sized = header.functions(text), header.sized(text)
library = ctypes.CDLL(str(BUILD / "libl3a.so"))
for declared, name, parameters in functions:
    function = getattr(library, name)
    function.restype = {"l3a_status": ctypes.c_int, "int": ctypes.c_int, "void": None, "double": ctypes.c_double,
                        "size_t": ctypes.c_size_t, "uint64_t": ctypes.c_uint64}.get(declared, ctypes.c_void_p)
    function.argtypes = [ctypes.c_void_p if "*" in kind else
                         {"double": ctypes.c_double, "size_t": ctypes.c_size_t, "uint64_t": ctypes.c_uint64}.get(kind, ctypes.c_int)
                         for kind, _ in parameters]
kept = []  # what the library must not lose while it is in use


def memory(size, content=b""):
    kept.append(ctypes.create_string_buffer(content, size))
    return ctypes.addressof(kept[-1])


def error(context):
    return ctypes.string_at(library.l3a_error_text(context)).decode() + "; " + ctypes.string_at(library.l3a_error_hint(context)).decode()


class Objects:
    """One object of each kind, to pass where NULL is not."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}
        values = memory(4 * 12, struct.pack("12f", *range(12)))
        labels = memory(12, bytes([1, 0, 0, 1] * 3))
        names = memory(16, struct.pack("2P", memory(8, b"one"), memory(8, b"two")))
        self.make("context", library.l3a_context_create, None)
        self.context = self.made["context"]
        self.make("options", library.l3a_options_create, self.context)
        self.call(library.l3a_options_set_integer, self.context, self.made["options"], b"dim", 4)
        self.make("features", library.l3a_features_wrap, self.context, values, labels, 6, 2, names, 2)
        self.make("model", library.l3a_model_create, self.context, 2, self.made["options"])
        self.call(library.l3a_model_learn, self.made["model"], self.made["features"], names, 2)
        table = os.path.join(folder, "table.safetensors").encode()
        self.call(library.l3a_features_save, self.made["features"], table)
        self.make("file", library.l3a_file_open, self.context, table)
        (Path(folder) / "list.csv").write_text("path,labels\na.jpg,one\n")
        self.make("dataset", library.l3a_dataset_open, self.context, f"list:{folder}/list.csv".encode(), None)
        self.make("backbone", library.l3a_backbone_open, self.context, str(SOURCE / "models/demo_backbone.safetensors").encode(), None)
        self.make("loader", library.l3a_loader_create, self.context, None, 0, None)
        self.make("lock", library.l3a_lock_take, self.context, os.path.join(folder, "locked").encode(), 0)
        subprocess.run([BUILD / "l3a", "run", "--train", table, "--test", table, "--protocol", "B0-C1", "--dim", "4", "--quiet", "-o",
                        f"{folder}/run"], check=True, stdout=subprocess.DEVNULL)
        self.make("results", library.l3a_results_load, self.context, f"{folder}/run".encode())

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
        plain = kind.replace("const ", "").replace("*const", "*")
        if plain == "char *":
            return memory(64, os.path.join(self.folder, "name").encode()[:63])
        if plain.count("*") == 2 and "char" in plain:
            return memory(64, struct.pack("2P", memory(8, b"one"), memory(8, b"two")))
        name = plain.split()[0]
        if plain.count("*") == 1 and name.startswith("l3a_") and name not in header.structs(text):
            return self.made.get(name[len("l3a_"):])
        return memory(LARGE, struct.pack("N", LARGE) if name in sized else b"")


def outcome(function, arguments, context):
    """What the call returns, with the text of the error; or a signal. It runs in another process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(20)
        result = function(*arguments)
        os.write(writing, repr((result, error(context))).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return eval(said) if os.WIFEXITED(status) else (f"killed by signal {os.WTERMSIG(status)}", "")


def expected(declared, name):
    if declared == "l3a_status":
        return ARGUMENT
    return {"void": None, "double": 0.0}.get(declared, None if "*" in declared else 0)


def check_null(objects, declared, name, parameters):
    failures = []
    for i, (kind, own) in enumerate(parameters if not name.startswith(LATER) else []):
        if "*" not in kind or (name, own) in MAY_BE_NULL or name in ("l3a_error_text", "l3a_error_hint"):
            continue
        arguments = [None if j == i else objects.value(k) for j, (k, _) in enumerate(parameters)]
        if any(a is None and j != i for j, a in enumerate(arguments)):
            continue  # no object of that kind
        got, said = outcome(getattr(library, name), arguments, objects.context)
        if got != expected(declared, name):
            failures.append(f"{name}: {own} is NULL: {got} instead of {expected(declared, name)}")
        elif declared == "l3a_status" and kind != "l3a_context *" and own not in said and "NULL" not in said and kind.count("*") == 1 \
                and objects.context in arguments:
            failures.append(f"{name}: {own} is NULL: the text is '{said}'")
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
                continue
            got, said = outcome(getattr(library, name), arguments, objects.context)
            with_text = name != "l3a_context_create"  # which has no context yet
            if got != ARGUMENT or (with_text and words not in said):
                failures.append(f"{name}: {own} of size {struct.unpack('N', content[:8])[0]}: {got}, '{said}'")
    return failures


def check_structs():
    return [f"{name}: neither begins with its size nor is only handed out" for name in header.structs(text)
            if name not in sized and name not in HANDED_OUT and not name.startswith(LATER)]


def main():
    failures = check_structs()
    with tempfile.TemporaryDirectory() as folder:
        objects = Objects(folder)
        for declared, name, parameters in functions:
            failures += check_null(objects, declared, name, parameters) + check_sizes(objects, declared, name, parameters)
    for failure in failures:
        print(failure)
    print(f"{len(functions)} functions, {len(sized)} sized structs, {len(failures)} failures")
    sys.exit(bool(failures))


main()
