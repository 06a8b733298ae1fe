"""A process group of rank 0 and the workers of inference servers, by which weights go from memory to memory: NCCL between
GPUs, gloo between CPUs. Used by both sides: an inference server's worker joins it by vllm_extension.py.

A version is a sequence of parcels: the size of a description, the description (JSON), and its bucket. A size of 0 ends it.
"""

import json
import socket
from datetime import timedelta
from typing import Any, Iterator
from urllib.parse import urlsplit

import torch
import torch.distributed as dist

from .buckets import BucketReader, Entry

SECONDS = 300


class WeightGroup:
    """Rank 0 sends, the others receive. It is no part of the process's other groups."""

    def __init__(self, store: dist.Store, rank: int, size: int, device: torch.device):
        self.device = device
        limit = timedelta(seconds=SECONDS)
        if device.type == "cuda":
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = limit
            self.group: Any = dist.ProcessGroupNCCL(store, rank, size, options)
        else:
            self.group = dist.ProcessGroupGloo(store, rank, size, limit)

    def tell(self, tensor: torch.Tensor) -> None:
        """Rank 0's content, on every rank."""
        self.group.broadcast([tensor], dist.BroadcastOptions()).wait()

    def send(self, entries: list[Entry], bucket: torch.Tensor) -> None:
        last = entries[-1]
        used = last["at"] + last["bytes"]
        told = json.dumps({"entries": entries, "bytes": used}).encode()
        self.tell(torch.tensor([len(told)], dtype=torch.int64, device=self.device))
        self.tell(torch.frombuffer(bytearray(told), dtype=torch.uint8).to(self.device))
        self.tell(bucket[:used])

    def end(self) -> None:
        self.tell(torch.zeros(1, dtype=torch.int64, device=self.device))

    def receive(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors of one version as they arrive."""
        reader = BucketReader()
        size = torch.zeros(1, dtype=torch.int64, device=self.device)
        while True:
            self.tell(size)
            if not int(size):
                return
            told = torch.empty(int(size), dtype=torch.uint8, device=self.device)
            self.tell(told)
            parcel = json.loads(told.cpu().numpy().tobytes())
            bucket = torch.empty(parcel["bytes"], dtype=torch.uint8, device=self.device)
            self.tell(bucket)
            yield from reader.read(bucket, parcel["entries"])


def listen(server: str) -> tuple[dist.TCPStore, str]:
    """A store at a free port, and this machine's address as the server sees it."""
    host = address_towards(server)
    return dist.TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=SECONDS)), host


def address_towards(server: str) -> str:
    place = urlsplit(server)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((place.hostname, place.port or 80))  # sends nothing
        return probe.getsockname()[0]


def reach(host: str, port: int) -> dist.TCPStore:
    return dist.TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=SECONDS))
