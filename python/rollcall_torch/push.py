"""Weights to inference servers that share the trainer's GPUs, without files."""

import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from .buckets import fill_buckets, gpu_name, share
from .errors import ConfigError, TrainerError
from .group import Group
from .model import Scorer
from .weights import merged

BUCKET_BYTES = 1 << 30
SECONDS_PER_BUCKET = 120


def push(scorer: Scorer, precision: torch.dtype, servers: list[str], version: int, group: Group) -> None:
    """Every rank fills a bucket on its own GPU; a server's worker opens the one on its GPU. The servers are paused."""
    if group.device.type != "cuda":
        raise ConfigError("weights are pushed through GPU memory; on the CPU they go to servers by files")
    buffer = torch.empty(BUCKET_BYTES, dtype=torch.uint8, device=group.device)
    handles = {
        gpu: handle for part in group.collect({gpu_name(group.device): share(buffer)}) for gpu, handle in part.items()
    }
    first, failure = True, ""
    for entries in fill_buckets(merged(scorer, precision), buffer):
        torch.cuda.synchronize()
        group.wait_for_all()
        if group.rank == 0 and not failure:
            failure = send(
                servers, {"first": first, "last": False, "version": version, "handles": handles, "entries": entries}
            )
        group.wait_for_all()
        first = False
    if group.rank == 0 and not failure:
        failure = send(servers, {"first": False, "last": True, "version": version, "handles": {}, "entries": []})
    if not group.agree(not failure):
        raise TrainerError(failure or "rank 0 could not push the weights")


def send(servers: list[str], bucket: dict[str, Any]) -> str:
    """To all servers at once. Returns what went wrong, or nothing."""
    body = json.dumps(
        {"method": "rollcall_take_weights", "args": [json.dumps(bucket)], "timeout": SECONDS_PER_BUCKET}
    ).encode()

    def tell(server: str) -> str:
        request = urllib.request.Request(f"{server}/collective_rpc", body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_PER_BUCKET):
                return ""
        except (OSError, urllib.error.HTTPError) as error:
            return (
                f"{server} did not take the weights ({error}); it must run on the trainer's GPU with VLLM_SERVER_DEV_MODE=1 "
                "and --worker-extension-cls rollcall_torch.vllm_extension.TakesWeights"
            )

    with ThreadPoolExecutor(len(servers)) as threads:
        return "; ".join(filter(None, threads.map(tell, servers)))
