"""The package's way to call the library: errors, warnings, events, Ctrl-C, threads, and objects that are freed at odd times."""
import gc
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import support

import l3a
from l3a._library import Context, listed


class Errors(unittest.TestCase):
    def test_have_text_hint_and_status(self):
        context = Context(threads=1)
        with self.assertRaises(l3a.Error) as caught:
            context.make("l3a_model_free", "l3a_model_load", b"/there/is/nothing")
        error = caught.exception
        self.assertIsInstance(error, FileNotFoundError)
        self.assertEqual(error.status, l3a.Status.ERROR_NOT_FOUND)
        self.assertIn("/there/is/nothing", str(error))
        self.assertTrue(error.hint and error.hint in str(error))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), str(again), again.status), (type(error), str(error), error.status))

    def test_every_status_has_an_exception(self):
        for status in l3a.Status:
            self.assertIsInstance(l3a._error.make_error(status, "text"), l3a.Error)

    def test_a_full_disk_is_an_os_error_with_its_own_status(self):
        lines = ["import resource, signal, sys, l3a", "from l3a._library import Context", "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)",
                 "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))",
                 "try:",
                 "    Context(threads=1).call('l3a_file_write', sys.argv[1].encode(), bytes(4096), 4096)",
                 "except OSError as error:",
                 "    print(type(error).__name__, error.status.name)"]
        with tempfile.TemporaryDirectory() as folder:
            said = subprocess.run([sys.executable, "-c", "\n".join(lines), os.path.join(folder, "out")], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(support.SOURCE / "python")})
            self.assertEqual((said.stdout, os.listdir(folder)), ("FileError ERROR_FULL\n", []), said.stderr)

    def test_a_wrong_setting_is_a_value_error_with_a_suggestion(self):
        context = Context(threads=1)
        options = context.make("l3a_options_free", "l3a_options_create")
        with self.assertRaisesRegex(ValueError, "gamma"):
            context.call("l3a_options_set", options.handle, b"gama", b"1")

    def test_a_device_that_is_not_there_says_why(self):
        with self.assertRaisesRegex(l3a.Error, "elsewhere"):
            Context(device="elsewhere")

    def test_a_library_that_is_not_there_says_what_to_do(self):
        said = subprocess.run([sys.executable, "-c", "import l3a; l3a.__version__"], capture_output=True, text=True,
                              env={**os.environ, "L3A_LIBRARY": "/nothing.so", "PYTHONPATH": str(support.SOURCE / "python")})
        self.assertEqual(said.returncode, 1)
        self.assertIn("set L3A_LIBRARY", said.stderr)


class Waiting(unittest.TestCase):
    """How often OpenMP's threads look for work before they sleep, as libgomp itself says it."""

    def load(self, before="", **variables):
        """The number of times, and what the program prints: how often its child has the variable."""
        program = f"""
import os, subprocess
{before}
import l3a
l3a.__version__
print("child", subprocess.check_output(["env"], text=True).count("OMP_WAIT_POLICY"))
"""
        kept = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                              env={**kept, "PYTHONPATH": str(support.SOURCE / "python"), "OMP_DISPLAY_ENV": "verbose", **variables})
        return re.findall(r"GOMP_SPINCOUNT = '(\w+)'", done.stderr), done.stdout

    def test_threads_sleep_and_children_do_not_inherit_it(self):
        self.assertEqual(self.load(), (["0"], "child 0\n"))

    def test_what_the_user_says_stays(self):
        counts, said = self.load(OMP_WAIT_POLICY="active")
        self.assertTrue(counts[0] == "INFINITY" or int(counts[0]) > 1000000, counts)
        self.assertEqual(said, "child 1\n")
        self.assertEqual(self.load(GOMP_SPINCOUNT="100"), (["100"], "child 0\n"))

    def test_a_runtime_that_is_there_is_left_alone(self):
        before = """
import ctypes
ctypes.CDLL("libgomp.so.1")
set_before = os.putenv
def putenv(name, value):
    print("set", name)
    set_before(name, value)
os.putenv = putenv
"""
        counts, said = self.load(before)
        self.assertNotEqual(counts, ["0"])
        self.assertEqual(said, "child 0\n")


class Events(unittest.TestCase):
    def learn(self, context, rows=400, dim=256):
        """One phase of one class from these rows, on a small model."""
        import ctypes
        options = context.make("l3a_options_free", "l3a_options_create")
        for name, value in ((b"dim", dim), (b"block", 16)):
            context.call("l3a_options_set_integer", options.handle, name, value)
        model = context.make("l3a_model_free", "l3a_model_create", 8, options.handle)
        values = (ctypes.c_float * (rows * 8))(*(float(i % 13) for i in range(rows * 8)))
        labels = (ctypes.c_int8 * rows)(*([1] * rows))
        names = (ctypes.c_char_p * 1)(b"one")
        table = context.make("l3a_features_free", "l3a_features_wrap", values, labels, rows, 1, 8, names, 1, kept=(values, labels))
        context.call("l3a_model_learn", model.handle, table.handle, names, 1)
        return model

    def test_warnings_are_python_warnings_at_the_caller(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.learn(Context(threads=1), rows=20)
        self.assertTrue(any(issubclass(w.category, l3a.L3AWarning) and w.filename == __file__ for w in seen), seen)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(l3a.L3AWarning):
                self.learn(Context(threads=1), rows=20)

    def test_what_a_callback_raises_cancels_and_is_raised(self):
        events = []

        def stop(event):
            events.append(event)
            raise RuntimeError("enough")
        with self.assertRaisesRegex(RuntimeError, "enough"):
            self.learn(Context(threads=1, on_event=stop))
        self.assertTrue(events)

    def test_a_true_result_cancels(self):
        with self.assertRaises(l3a.Error) as caught:
            self.learn(Context(threads=1, on_event=lambda event: event.stage == "learn"))
        self.assertEqual(caught.exception.status, l3a.Status.ERROR_CANCELLED)

    def test_ctrl_c_is_a_keyboard_interrupt(self):
        sent = []

        def press(event):
            if not sent:
                sent.append(os.kill(os.getpid(), signal.SIGINT))
        context = Context(threads=1, on_event=press)
        with self.assertRaises(KeyboardInterrupt):
            self.learn(context)
        self.assertTrue(sent)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.learn(context)  # and the context goes on working

    def test_what_a_handler_raises_cancels_and_is_raised(self):
        """Handlers of the program's own: for Ctrl-C, and for SIGTERM, as servers have them."""
        class Stop(Exception):
            pass

        def stop(number, frame):
            raise Stop(number)
        for number in (signal.SIGINT, signal.SIGTERM):
            old, sent = signal.signal(number, stop), []

            def send(event):
                if not sent:
                    sent.append(os.kill(os.getpid(), number))
            try:
                with self.assertRaisesRegex(Stop, str(int(number))):
                    self.learn(Context(threads=1, on_event=send))
                self.assertIs(signal.getsignal(number), stop)
            finally:
                signal.signal(number, old)

    def test_a_handler_that_raises_nothing_does_not_cancel(self):
        calls, sent = [], []

        def note(number, frame):
            calls.append(number)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # the next one ends the program

        def press(event):
            if not sent:
                sent.append(os.kill(os.getpid(), signal.SIGINT))
        old = signal.signal(signal.SIGINT, note)
        try:
            self.learn(Context(threads=1, on_event=press))
            self.assertEqual(calls, [signal.SIGINT])
            self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        finally:
            signal.signal(signal.SIGINT, old)

    def test_ctrl_c_from_outside(self):
        """As a person presses it, while the library computes; what was learned before is still there."""
        program = """
import numpy, warnings, l3a
warnings.simplefilter("ignore")
X = numpy.random.default_rng(1).random((30000, 64), dtype=numpy.float32)
Y = (X[:, :2] > 0.5).astype(numpy.int8)
model = l3a.L3AClassifier(dim=1500, threads=1, block=8)
model.partial_fit(X[:100], Y[:100, :1], classes=["one"])
print("ready", flush=True)
try:
    model.partial_fit(X, Y[:, 1:], classes=["two"])
except KeyboardInterrupt:
    print(model.classes_.tolist(), model.scores(X[:5]).shape)
"""
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "PYTHONPATH": str(support.SOURCE / "python")})
        self.assertEqual(child.stdout.readline(), "ready\n")
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        said, errors = child.communicate(timeout=60)
        self.assertEqual((said, errors), ("['one'] (5, 1)\n", ""))

    def test_a_handler_of_the_program_stops_a_call_from_outside(self):
        """The handler runs when the library next calls Python, and what it raises there must not be lost."""
        program = """
import numpy, signal, warnings, l3a
warnings.simplefilter("ignore")
def stop(number, frame):
    raise SystemExit(7)
signal.signal(signal.SIGTERM, stop)
X = numpy.random.default_rng(1).random((200000, 64), dtype=numpy.float32)
Y = (X[:, :1] > 0.5).astype(numpy.int8)
model = l3a.L3AClassifier(dim=1500, threads=1, block=8)
model.partial_fit(X[:100], Y[:100], classes=["one"])
print("ready", flush=True)
model.partial_fit(X, Y, classes=["two"])
"""
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "PYTHONPATH": str(support.SOURCE / "python")})
        self.assertEqual(child.stdout.readline(), "ready\n")
        time.sleep(0.5)
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.communicate(timeout=60), ("", ""))
        self.assertEqual(child.returncode, 7)

    def test_a_fork_does_not_wait_for_threads_that_are_gone(self):
        """Without the check, the child waits for ever. With one thread on either side, there is nothing to wait for."""
        program = """
import os, sys, warnings, numpy, l3a
warnings.simplefilter("ignore")
X = numpy.random.default_rng(1).random((200, 8), dtype=numpy.float32)
Y = (X[:, :2] > 0.5).astype(numpy.int8)
model = l3a.L3AClassifier(dim=256, threads=int(sys.argv[1])).fit(X, Y)
if os.fork() == 0:
    try:
        l3a.L3AClassifier(dim=256, threads=int(sys.argv[2])).fit(X, Y)
        print("learned", flush=True)
    except l3a.Error as error:
        print(error.status.name, flush=True)
    os._exit(0)
os.wait()
"""
        for threads, expected in ((("2", "2"), "ERROR_STATE\n"), (("2", "1"), "learned\n"), (("1", "2"), "learned\n")):
            with self.subTest(threads):
                said = subprocess.run([sys.executable, "-c", program, *threads], capture_output=True, text=True, timeout=60,
                                      env={**os.environ, "PYTHONPATH": str(support.SOURCE / "python")})
                self.assertEqual((said.stdout, said.stderr), (expected, ""))

    def test_threads_take_turns(self):
        context, failures = Context(threads=1, on_warning=lambda text: None), []

        def work():
            try:
                self.learn(context, rows=100, dim=32)
            except BaseException as error:
                failures.append(error)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_objects_can_be_dropped_during_a_call(self):
        held = []

        def drop(event):
            held.clear()
            gc.collect()
        context = Context(threads=1, on_event=drop)
        held.append(context.make("l3a_model_free", "l3a_model_create", 8, None))
        self.learn(context)
        self.assertFalse(context._garbage)


class Tables(unittest.TestCase):
    def test_are_those_of_the_command(self):
        said = subprocess.run([support.COMMAND, "run", "--help"], capture_output=True, text=True, check=True).stdout
        settings = listed("l3a_option_at")
        for setting in settings:
            self.assertIn(f"--{setting.name.decode()} ", said)
        self.assertGreater(len(settings), 30)


unittest.main()
