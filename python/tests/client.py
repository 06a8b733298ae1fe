"""A worker group in separate processes, and a client for it."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from rollcall_torch.frames import Frame, encode, read_frame
from rollcall_torch.rows import Row

TOKEN = "test-token"
PACKAGE = Path(__file__).resolve().parents[1]


class WorkerError(Exception):
    def __init__(self, kind: str, message: str, **_: int):
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Worker:
    def __init__(self, ranks: int = 1, token: str = TOKEN, arguments: tuple[str, ...] = ()):
        self.directory = tempfile.TemporaryDirectory()
        announce = Path(self.directory.name) / "address.json"
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m", "rollcall_torch"]
        command = [sys.executable, *(launch if ranks > 1 else ["-m", "rollcall_torch"])]
        self.process = subprocess.Popen(
            [*command, "--device", "cpu", "--threads", "1", "--announce", str(announce), *arguments],
            env={**os.environ, "PYTHONPATH": str(PACKAGE), "ROLLCALL_TORCH_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        while not announce.exists():
            assert self.process.poll() is None, "the worker ended before it listened"
            time.sleep(0.05)
        address = json.loads(announce.read_text())
        self.peer = socket.create_connection((address["host"], address["port"]))
        self.stream = self.peer.makefile("rb")
        self.notices: list[str] = []
        self.count = 0
        try:
            self.welcome = self.call("hello", protocol=1, token=token).header["reply"]
        except WorkerError:
            self.process.kill()
            raise

    def call(self, call: str, arrays: dict[str, np.ndarray] | None = None, **params) -> Frame:
        self.count += 1
        self.peer.sendall(encode(Frame({"id": self.count, "call": call, "params": params}, arrays or {})))
        return self.reply()

    def reply(self) -> Frame:
        while True:
            frame = read_frame(self.read)
            if "notice" in frame.header:
                self.notices.append(frame.header["notice"])
                continue
            if "error" in frame.header:
                raise WorkerError(**frame.header["error"])
            return frame

    def read(self, count: int) -> bytes:
        data = self.stream.read(count)
        if len(data) != count:
            raise EOFError("the worker is gone")
        return data

    def score(self, rows: list[Row], temperature: float, outputs: list[str], model: str = "policy") -> dict[str, np.ndarray]:
        return self.call("score", as_arrays(rows), model=model, temperature=temperature, outputs=outputs).arrays

    def step(self, golden, model: str = "policy") -> dict:
        found = self.call(
            "forward", as_arrays(golden.rows), model=model, temperature=golden.temperature, outputs=list(golden.outputs)
        )
        self.call("backward", golden.gradients, model=model, **{"pass": found.header["reply"]["pass"]})
        return self.call("optimStep", model=model, adam=golden.adam).header["reply"]

    def ranks(self) -> list[int]:
        """Process ids, rank 0 first."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(child) for child in children] or [self.process.pid]

    def close(self) -> int:
        self.stream.close()
        self.peer.close()
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            self.directory.cleanup()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def as_arrays(rows: list[Row]) -> dict[str, np.ndarray]:
    return {
        "ids": np.concatenate([row.ids for row in rows]).astype(np.int32),
        "targets": np.concatenate([row.targets for row in rows]).astype(np.uint8),
        "lengths": np.array([len(row.ids) for row in rows], np.int32),
        "prefixes": np.array([[row.prefix_row, row.prefix_length] for row in rows], np.int32),
    }
