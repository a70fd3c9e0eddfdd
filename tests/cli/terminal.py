"""The command on a pseudo-terminal, and counted checks."""
import fcntl, os, pty, struct, subprocess, termios, threading

L3A = os.path.join(os.environ["L3A_BUILD"], "l3a")
END = b"\0the end\0"  # written to the terminal by the test itself, after the command's last byte
counts = {"passed": 0, "failed": 0}


def check(what, good, shown=""):
    counts["passed" if good else "failed"] += 1
    if not good:
        print(f"FAILED: {what}\n    {shown!r}")


def finish():
    """Prints the counts, and returns the exit code of the test."""
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return int(counts["failed"] > 0)


def environment(**changes):
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    return {**kept, "OMP_WAIT_POLICY": "passive", "TERM": "xterm", **changes}


def set_columns(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def run_on_terminal(arguments, columns=80, then=None, **changes):
    """The exit code, and the bytes that were written to a terminal. It gets `then` columns once a bar is there, marked by a zero byte.

    The terminal stays open until everything has been read: one that its last writer closes can lose what was not yet read."""
    ours, its = pty.openpty()
    set_columns(ours, columns)
    process = subprocess.Popen([L3A, *arguments], stdin=its, stdout=its, stderr=its, env=environment(**changes))

    def mark_the_end():
        process.wait()
        os.write(its, END)

    watcher = threading.Thread(target=mark_the_end)
    watcher.start()
    said = b""
    while not said.endswith(END):
        said += os.read(ours, 65536)
        if then and b"rows/s" in said:
            set_columns(ours, then)
            said, then = said + b"\0", None
    watcher.join()
    os.close(its)
    os.close(ours)
    return process.returncode, said[: -len(END)]
