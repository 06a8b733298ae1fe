"""The parts of rollcall_ray that need no cluster; `npm run prove ray` runs the whole."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from rollcall_ray.forward import Forwarder


def echo_server(answer: bytes) -> tuple[str, int]:
    """Answers every connection with the same bytes, and then whatever it is sent."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            peer, _ = listening.accept()
            threading.Thread(target=talk, args=(peer,), daemon=True).start()

    def talk(peer: socket.socket) -> None:
        peer.sendall(answer)
        while data := peer.recv(1 << 16):
            peer.sendall(data)
        peer.close()

    threading.Thread(target=serve, daemon=True).start()
    return listening.getsockname()[:2]


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def read_exactly(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := peer.recv(count - len(data))):
        data += more
    return data


def test_an_address_leads_to_where_its_process_is_now():
    forwarder = Forwarder()
    port = forwarder.open()
    with dial(port) as peer, pytest.raises(ConnectionError):  # nowhere yet
        if not peer.recv(1):
            raise ConnectionError
    forwarder.lead(port, echo_server(b"one"))
    old = dial(port)
    assert read_exactly(old, 3) == b"one"
    big = os.urandom(5 << 20)
    threading.Thread(target=old.sendall, args=(big,), daemon=True).start()
    assert read_exactly(old, len(big)) == big
    forwarder.lead(port, echo_server(b"two"))
    with dial(port) as new:
        assert read_exactly(new, 3) == b"two"
    with pytest.raises(ConnectionError):  # cut, although the old process still runs
        if not old.recv(1):
            raise ConnectionError


def test_a_guard_ends_the_process_and_its_children_when_its_place_is_gone():
    shell = "sleep 1000 & echo $!; wait"
    guard = subprocess.Popen(
        [sys.executable, "-m", "rollcall_ray.guard", "2", "bash", "-c", shell],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=os.path.join(os.path.dirname(__file__), ".."),
    )
    grandchild = int(guard.stdout.readline())
    guard.stdin.close()  # as it is when the place is killed
    guard.wait(10)
    deadline = time.monotonic() + 5
    while alive(grandchild) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(grandchild)


def test_a_guard_tells_by_which_signal_its_process_ended():
    words = [sys.executable, "-m", "rollcall_ray.guard", "2", "bash", "-c", "kill -9 $$"]
    guard = subprocess.Popen(words, stdin=subprocess.PIPE, cwd=os.path.join(os.path.dirname(__file__), ".."))
    assert guard.wait(20) == 128 + signal.SIGKILL


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
