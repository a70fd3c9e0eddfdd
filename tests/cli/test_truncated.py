"""An annotations file that another process cuts short while it is read: an error with exit code 2, not a signal."""
import os
import signal
import subprocess
import sys
import tempfile
import time

L3A = os.path.join(os.environ["L3A_BUILD"], "l3a")
SPACES = 128 << 20  # long enough to be met in the middle
TRIES = 50


def is_read(process, path):
    """Whether the process has the file open, or mapped, now."""
    folder = f"/proc/{process.pid}/fd"
    try:
        with open(f"/proc/{process.pid}/maps") as maps:
            return path in maps.read() or any(os.path.realpath(os.path.join(folder, name)) == path for name in os.listdir(folder))
    except OSError:
        return False


def cut_while_read(folder, path):
    """The exit code and stderr, where the file was cut while it was read; None where it had been read to its end before."""
    with open(path, "w") as file:
        file.write('{"images": [')
        for _ in range(SPACES >> 20):
            file.write(" " * (1 << 20))
        file.write("]}")
    process = subprocess.Popen([L3A, "data", f"coco:{folder}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    while process.poll() is None and not is_read(process, path):
        time.sleep(0.0005)
    process.send_signal(signal.SIGSTOP)
    met = process.poll() is None and is_read(process, path)
    if met:
        os.truncate(path, 5000)
    process.send_signal(signal.SIGCONT)
    text = process.communicate()[1].decode()
    return (process.returncode, text) if met and ("ends at byte" in text or process.returncode < 0) else None


with tempfile.TemporaryDirectory() as folder:
    os.mkdir(os.path.join(folder, "annotations"))
    path = os.path.realpath(os.path.join(folder, "annotations", "instances_train2014.json"))
    for _ in range(TRIES):
        met = cut_while_read(folder, path)
        if met:
            break
    else:
        sys.exit(f"FAILED: in {TRIES} tries the file was not cut while it was read")
code, text = met
if code != 2 or "ends at byte" not in text or "too early" not in text:
    sys.exit(f"FAILED: exit {code}: {text}")
print("1 passed, 0 failed")
