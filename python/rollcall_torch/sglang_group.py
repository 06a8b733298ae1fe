"""SGLang's way to take weights from a trainer: `/init_weights_update_group`, then for each version `/begin_weight_update`,
`/update_weights_from_distributed` while rank 0 broadcasts each tensor, and `/end_weight_update`."""

import json
import time
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Callable, Iterator

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _new_process_group_helper, _world

from .weight_group import SECONDS, listen

# Tensors of one request.
REQUEST_BYTES = 1 << 30
Post = Callable[[str, str, dict[str, Any]], dict[str, Any]]


class SglangGroup:
    def __init__(self, servers: list[str], device: torch.device, threads: ThreadPoolExecutor, post: Post):
        self.servers, self.device, self.threads, self.post = servers, device, threads, post
        self.name = f"rollcall-{uuid.uuid4().hex[:12]}"
        ranks = [workers_of(server) for server in servers]
        backend = "nccl" if device.type == "cuda" else "gloo"
        # SGLang's side joins by `rendezvous`, whose rank 0 holds the store; below torchrun ours would be a client as well.
        store, host = listen(servers[0])
        size = 1 + sum(ranks)
        joining = []
        for at, server in enumerate(servers):
            told = {
                "master_address": host,
                "master_port": store.port,
                "rank_offset": 1 + sum(ranks[:at]),
                "world_size": size,
                "group_name": self.name,
                "backend": backend,
            }
            joining.append(threads.submit(post, server, "/init_weights_update_group", told))
        # The names in the store are those of SGLang's init_custom_process_group.
        self.group, _ = _new_process_group_helper(
            size, 0, [], dist.Backend(backend), dist.PrefixStore(self.name, store), group_name=self.name,
            backend_options=None, timeout=timedelta(seconds=SECONDS),
        )  # fmt: skip
        _world.pg_group_ranks[self.group] = {rank: rank for rank in range(size)}
        for one in joining:
            one.result()

    def send(self, tensors: Iterator[tuple[str, torch.Tensor]], version: int) -> None:
        for server in self.servers:
            self.post(server, "/begin_weight_update", {})
        try:
            self.send_all(tensors, version)
        finally:
            for server in self.servers:
                self.post(server, "/end_weight_update", {})

    def send_all(self, tensors: Iterator[tuple[str, torch.Tensor]], version: int) -> None:
        waiting: list[tuple[str, torch.Tensor]] = []
        size = 0
        for name, tensor in tensors:
            if waiting and size + tensor.nbytes > REQUEST_BYTES:
                self.request(waiting, None)
                waiting, size = [], 0
            waiting.append((name, tensor.to(self.device, copy=True).contiguous()))
            size += tensor.nbytes
        self.request(waiting, version)

    def request(self, tensors: list[tuple[str, torch.Tensor]], version: int | None) -> None:
        """The version is named with the last tensors."""
        told = {
            "names": [name for name, _ in tensors],
            "dtypes": [str(tensor.dtype).removeprefix("torch.") for _, tensor in tensors],
            "shapes": [list(tensor.shape) for _, tensor in tensors],
            "group_name": self.name,
            "flush_cache": version is not None,
            **({} if version is None else {"weight_version": str(version)}),
        }
        asked = [self.threads.submit(self.post, server, "/update_weights_from_distributed", told) for server in self.servers]
        for _, tensor in tensors:
            work = self.group.broadcast([tensor], dist.BroadcastOptions())
            while not work.is_completed():
                for one in asked:
                    if one.done():
                        one.result()  # a server that refuses the request receives nothing
                time.sleep(0.001)
            work.wait()
        for one in asked:
            one.result()


def workers_of(server: str) -> int:
    with urllib.request.urlopen(f"{server}/server_info", timeout=SECONDS) as reply:
        return int(json.loads(reply.read()).get("tp_size", 1))
