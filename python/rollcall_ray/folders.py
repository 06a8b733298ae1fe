"""Folders of weights from the trainer's node to a server's, where the two share no disk. Ray moves the bytes."""

import os
import shutil
import threading
from typing import Any

import ray

PART = 64 << 20
KEPT_VERSIONS = 2


def describe_folder(path: str) -> list[tuple[str, int, int]]:
    """Name, size and time of every file; empty where there is no such folder."""
    if not os.path.isdir(path):
        return []
    found = [(entry.name, entry.stat()) for entry in os.scandir(path) if entry.is_file()]
    return sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


def read_part(path: str, at: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(at)
        return file.read(PART)


class Taker:
    """Copies a folder under the same path. A second server of this node finds it there."""

    def __init__(self) -> None:
        self.taken: dict[str, Any] = {}
        self.lock = threading.Lock()

    def take(self, path: str, source: Any) -> None:
        """`source` is the place that has it."""
        with self.lock:
            files = ray.get(source.describe_folder.remote(path))
            if not files:
                raise FileNotFoundError(f"the trainer's node has no {path}")
            if self.taken.get(path) == files:
                return
            beside = f"{path}.partial"
            shutil.rmtree(beside, ignore_errors=True)
            os.makedirs(beside)
            for name, size, _ in files:
                with open(os.path.join(beside, name), "wb") as file:
                    for at in range(0, size, PART):
                        file.write(ray.get(source.read_part.remote(os.path.join(path, name), at)))
            shutil.rmtree(path, ignore_errors=True)
            os.rename(beside, path)
            self.taken[path] = files
            for old in list(self.taken)[:-KEPT_VERSIONS]:
                shutil.rmtree(old, ignore_errors=True)
                del self.taken[old]


def forget_old(path: str) -> None:
    """On the trainer's node, whose folders the control plane does not see: those before the last two."""
    parent, name = os.path.split(path)
    prefix, _, number = name.rpartition("-")
    if not number.isdigit():
        return
    for entry in os.scandir(parent):
        other, _, version = entry.name.rpartition("-")
        if other == prefix and version.isdigit() and int(version) <= int(number) - KEPT_VERSIONS:
            shutil.rmtree(entry.path, ignore_errors=True)
