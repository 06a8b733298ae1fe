"""Runs one process for a place: `python -m rollcall_ray.guard SECONDS PROGRAM WORDS…`.

The place holds the other end of standard input, which closes when the place ends, however it ends: then the process and all
of its group are killed at once, so that no GPU or port stays taken on a node that Ray believes free, and no control plane
writes beside the one that is started in its stead. SECONDS is how long it may take after SIGTERM.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading

PR_SET_PDEATHSIG = 1


def main() -> None:
    grace, words = float(sys.argv[1]), sys.argv[2:]
    try:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_parent)
    except OSError as error:
        sys.exit(f"{words[0]}: {error.strerror}")
    signal.signal(signal.SIGTERM, lambda *_: stop(child, grace))
    threading.Thread(target=watch, args=(child,), daemon=True).start()
    code = child.wait()
    send(child.pid, signal.SIGKILL)  # what it started does not outlive it
    os._exit(code if code >= 0 else 128 - code)


def watch(child: subprocess.Popen) -> None:
    while os.read(0, 4096):
        pass
    send(child.pid, signal.SIGKILL)


def stop(child: subprocess.Popen, grace: float) -> None:
    send(child.pid, signal.SIGTERM)
    timer = threading.Timer(grace, send, (child.pid, signal.SIGKILL))
    timer.daemon = True
    timer.start()


def send(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        pass  # it has ended


def die_with_parent() -> None:
    """Where the guard itself is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
