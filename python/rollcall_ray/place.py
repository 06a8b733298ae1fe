"""A place of the plan: a Ray actor that holds the resources of one bundle and supervises the processes there."""

import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from typing import Any

import ray

from . import folders
from .forward import Forwarder
from .processes import Process

MISSING = "missing:"


class Place:
    def __init__(self, rollcall: str | None):
        """`rollcall` is the folder of the package: where the working directory has no node_modules, its are used."""
        self.processes: dict[str, Process] = {}
        self.taker = folders.Taker()
        if rollcall and not os.path.lexists("node_modules"):
            parent = os.path.dirname(rollcall)
            os.symlink(parent if os.path.basename(parent) == "node_modules" else f"{rollcall}/node_modules", "node_modules")

    def describe(self, programs: dict[str, list[str]], paths: list[str]) -> dict[str, Any]:
        """The node, what its programs say, and which of the paths it sees."""
        return {
            "node": ray.util.get_node_ip_address(),
            "host": socket.gethostname(),
            "gpus": [str(gpu) for gpu in ray.get_gpu_ids()],
            "programs": {name: say(words) for name, words in programs.items()},
            "paths": {path: os.path.exists(path) for path in paths},
        }

    def write_mark(self, directory: str, mark: str) -> str | None:
        """What went wrong, if it did."""
        try:
            os.makedirs(directory, exist_ok=True)
            with open(os.path.join(directory, mark), "w"):
                return None
        except OSError as error:
            return str(error)

    def sees(self, path: str) -> bool:
        try:
            return os.path.basename(path) in os.listdir(os.path.dirname(path))  # NFS remembers less of lists
        except OSError:
            return False

    def remove(self, path: str) -> None:
        os.unlink(path)

    def free_port(self) -> int:
        with socket.socket() as probe:
            probe.bind(("", 0))
            return probe.getsockname()[1]

    def start(self, name: str, words: list[str], environment: dict[str, str]) -> bool:
        self.processes[name] = Process(words, environment)
        return True

    def poll(self) -> dict[str, tuple[int | None, list[str]]]:
        """Of every process its exit code, where it has ended, and what it has printed since the last poll."""
        codes = {name: process.code() for name, process in self.processes.items()}
        told = {name: (code, self.processes[name].take_lines()) for name, code in codes.items()}
        for name, code in codes.items():
            if code is not None:
                del self.processes[name]
        return told

    def stop(self, name: str) -> None:
        process = self.processes.pop(name, None)
        if process:
            process.stop()

    # For the control plane: fixed addresses, and folders brought to servers.

    def open_addresses(self, count: int) -> list[int]:
        self.forwarder = Forwarder()
        self.takers, self.source = {}, None
        return [self.forwarder.open() for _ in range(count)]

    def open_bringing(self) -> int:
        """`POST {"server": ADDRESS, "path": FOLDER}` answers when the server's node has the folder."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(self.bring))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_address[1]

    def lead(self, targets: dict[int, tuple[str, int] | None], takers: dict[int, Any], source: Any) -> None:
        """By the port that stands for it here: where each process is, and the place of each server; and the place that
        has the weights."""
        self.takers, self.source = takers, source
        for port, target in targets.items():
            self.forwarder.lead(port, target)

    def bring(self, server: str, path: str) -> None:
        taker = self.takers.get(int(server.rpartition(":")[2]))
        if taker is None:
            raise FileNotFoundError(f"{server} has no place now")
        ray.get(taker.take.remote(path, self.source))
        folders.forget_old(path)

    def take(self, path: str, source: Any) -> None:
        self.taker.take(path, source)

    def describe_folder(self, path: str) -> list[tuple[str, int, int]]:
        return folders.describe_folder(path)

    def read_part(self, path: str, at: int) -> bytes:
        return folders.read_part(path, at)


def say(words: list[str]) -> str:
    """What a program prints first, or why it does not run."""
    words = [word.replace("@PYTHON@", sys.executable) for word in words]
    if not shutil.which(words[0]):
        return f"{MISSING} {words[0]}"
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode == 0:
        return (done.stdout.strip().splitlines() or [""])[0]
    return f"{MISSING} {(done.stderr.strip().splitlines() or ['it says nothing'])[-1]} ({words[0]})"


def handler(bring: Any) -> type[http.server.BaseHTTPRequestHandler]:
    class Bringing(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            try:
                bring(asked["server"], asked["path"])
                self.answer(200, {})
            except Exception as error:  # noqa: BLE001 whatever it is, the control plane is told
                self.answer(500, {"error": str(error)})

        def answer(self, status: int, value: dict[str, str]) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Bringing
