"""Weights to inference servers from memory to memory, without files. The servers are paused meanwhile.

`memory`: vLLM workers on the trainer's own GPUs open its buckets (CUDA IPC). `group`: vLLM workers anywhere join a process
group with rank 0. `sglang`: the same with SGLang's own update group.
"""

import json
import urllib.error
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Iterator

import torch

from .buckets import fill_buckets, gpu_name, share
from .errors import ConfigError, TrainerError
from .group import Group
from .sglang_group import SglangGroup
from .weight_group import WeightGroup, listen

BUCKET_BYTES = 1 << 30
SECONDS_PER_CALL = 300
NEEDED = "it must run with VLLM_SERVER_DEV_MODE=1 and --worker-extension-cls rollcall_torch.vllm_extension.TakesWeights"
Tensors = Iterator[tuple[str, torch.Tensor]]


class Push:
    """One way to one set of servers. A process group is joined at the first version and kept."""

    def __init__(self, servers: list[str], by: str, group: Group):
        ways = {"memory": self.by_memory, "group": self.by_group, "sglang": self.by_sglang}
        if by not in ways:
            raise ConfigError(f"push by {by!r}; {', '.join(ways)} are known")
        if by == "memory" and group.device.type != "cuda":
            raise ConfigError("push by memory goes through a GPU's memory; on a CPU push by group, or leave push out")
        self.servers, self.by, self.group, self.way = servers, by, group, ways[by]
        self.joined: Any = None
        self.threads = ThreadPoolExecutor(len(servers))

    def send(self, tensors: Tensors, version: int) -> None:
        """Every rank goes through all tensors, because gathering needs every rank; rank 0 alone may fail."""
        failure = ""
        try:
            self.way(tensors, version)
        except (TrainerError, RuntimeError, OSError) as error:
            failure = str(error)
            self.joined = None
        for _ in tensors:
            pass
        if not self.group.agree(not failure):
            raise TrainerError(failure or "rank 0 could not push the weights")

    def by_memory(self, tensors: Tensors, version: int) -> None:
        buffer = torch.empty(BUCKET_BYTES, dtype=torch.uint8, device=self.group.device)
        handles = {
            gpu: handle
            for part in self.group.collect({gpu_name(self.group.device): share(buffer)})
            for gpu, handle in part.items()
        }
        told = {"first": True, "last": False, "version": version, "handles": handles}
        failure = ""
        for entries in fill_buckets(tensors, buffer):
            torch.cuda.synchronize()
            self.group.wait_for_all()
            if self.group.rank == 0 and not failure:
                failure = failure_of(self.ask_all("rollcall_take_weights", {**told, "entries": entries}))
            self.group.wait_for_all()
            told = {**told, "first": False, "handles": {}}
        if self.group.rank == 0 and not failure:
            failure = failure_of(self.ask_all("rollcall_take_weights", {**told, "last": True, "entries": []}))
        if failure:
            raise TrainerError(failure)

    def by_group(self, tensors: Tensors, version: int) -> None:
        if self.group.rank != 0:
            return
        self.joined = self.joined or self.join()
        receiving = self.ask_all("rollcall_receive_weights", {"version": version})
        buffer = torch.empty(BUCKET_BYTES, dtype=torch.uint8, device=self.group.device)
        for entries in fill_buckets(tensors, buffer):
            self.joined.send(entries, buffer)
        self.joined.end()
        if failure := failure_of(receiving):
            raise TrainerError(failure)

    def join(self) -> WeightGroup:
        counts = [len(asked.result()) for asked in self.ask_all("rollcall_weights_version", None)]
        store, host = listen(self.servers[0])
        size = 1 + sum(counts)
        joining = []
        for at, server in enumerate(self.servers):
            told = {"host": host, "port": store.port, "first": 1 + sum(counts[:at]), "size": size}
            joining.append(self.threads.submit(ask, server, "rollcall_join_group", told))
        group = WeightGroup(store, 0, size, self.group.device)
        if failure := failure_of(joining):
            raise TrainerError(failure)
        return group

    def by_sglang(self, tensors: Tensors, version: int) -> None:
        if self.group.rank != 0:
            return
        self.joined = self.joined or SglangGroup(self.servers, self.group.device, self.threads, post)
        self.joined.send(tensors, version)

    def ask_all(self, method: str, told: dict[str, Any] | None) -> list[Future[list[Any]]]:
        return [self.threads.submit(ask, server, method, told) for server in self.servers]


def ask(server: str, method: str, told: dict[str, Any] | None) -> list[Any]:
    """Every worker of a vLLM server executes a method of the extension; one result per worker."""
    body = {"method": method, "timeout": SECONDS_PER_CALL, **({} if told is None else {"args": [json.dumps(told)]})}
    try:
        return post(server, "/collective_rpc", body).get("results", [])
    except TrainerError as error:
        raise TrainerError(f"{error}; {NEEDED}") from error


def post(server: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(f"{server}{path}", json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_PER_CALL) as reply:
            return json.loads(reply.read() or b"{}")
    except urllib.error.HTTPError as error:
        raise TrainerError(f"{server}{path}: {error}: {error.read()[:300].decode(errors='replace')}") from error
    except OSError as error:
        raise TrainerError(f"{server}{path}: {error}") from error


def failure_of(asked: list[Future[Any]]) -> str:
    """What went wrong, or nothing. Waits for all."""
    return "; ".join(str(error) for one in asked if (error := one.exception()) is not None)
