"""The ranks of one worker group. Rank 0 talks to the client; all ranks execute every call together."""

import json
import os
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from .frames import PREFIX, Frame, decode, encode


class Group:
    """Calls travel between ranks in the protocol's own frames, so nothing is pickled here either."""

    def __init__(self, device: str, seconds_per_exchange: float = 600):
        self.rank = int(os.environ.get("RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.device = torch.device("cpu")
        if device == "cuda":
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(self.device)
        for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "0"), ("RANK", "0"), ("WORLD_SIZE", "1")):
            os.environ.setdefault(name, value)
        # A rank that hangs ends the group: the others' exchanges fail after this time.
        self.limit = timedelta(seconds=seconds_per_exchange)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo",
            store=dist.HashStore() if self.size == 1 else None,
            rank=self.rank,
            world_size=self.size,
            timeout=self.limit,
        )
        # Waiting for the next call may take as long as the client samples.
        self.calls = dist.new_group(backend="gloo", timeout=timedelta(days=30))
        # For a checkpoint that is written in a thread.
        self.saves = dist.new_group(backend="gloo", timeout=self.limit)

    def share(self, frame: Frame | None) -> Frame:
        """Rank 0's frame, on every rank."""
        if self.size == 1:
            assert frame is not None
            return frame
        size = torch.zeros(1, dtype=torch.int64)
        data = torch.zeros(0, dtype=torch.uint8)
        if self.rank == 0:
            assert frame is not None
            data = torch.from_numpy(np.frombuffer(encode(frame), np.uint8).copy())
            size[0] = len(data)
        self.tell(size)
        if self.rank != 0:
            data = torch.zeros(int(size), dtype=torch.uint8)
        self.tell(data)
        if self.rank == 0:
            return frame
        content = data.numpy().tobytes()
        _, header_bytes, _ = PREFIX.unpack_from(content)
        split = PREFIX.size + header_bytes
        return decode(content[PREFIX.size : split], content[split:])

    def tell(self, tensor: torch.Tensor) -> None:
        """Rank 0's content, on every rank. The others may wait long for it; rank 0 need not wait for one that hangs."""
        work = dist.broadcast(tensor, 0, group=self.calls, async_op=True)
        if self.rank == 0:
            work.wait(self.limit)
        else:
            work.wait()

    def agree(self, value: bool) -> bool:
        """Rank 0's answer, on every rank."""
        if self.size == 1:
            return value
        flag = torch.tensor([value], dtype=torch.uint8)
        dist.broadcast(flag, 0)
        return bool(flag[0])

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The sum over ranks, on every rank."""
        if self.size == 1:
            return values
        tensor = torch.from_numpy(values)
        dist.all_reduce(tensor)
        return tensor.numpy()

    def collect(self, value: dict[str, Any]) -> list[dict[str, Any]]:
        """Every rank's value, on every rank."""
        if self.size == 1:
            return [value]
        own = np.frombuffer(json.dumps(value).encode(), np.uint8)
        sizes = np.zeros(self.size, np.int64)
        sizes[self.rank] = len(own)
        sizes = self.sum(sizes)
        ends = np.cumsum(sizes)
        joined = np.zeros(int(ends[-1]), np.uint8)
        joined[ends[self.rank] - len(own) : ends[self.rank]] = own
        joined = self.sum(joined)
        return [json.loads(joined[end - size : end].tobytes()) for size, end in zip(sizes, ends)]

    def least(self, value: int) -> int:
        tensor = torch.tensor([value], dtype=torch.int64)
        if self.size > 1:
            dist.all_reduce(tensor, dist.ReduceOp.MIN)
        return int(tensor)

    def wait_for_all(self) -> None:
        self.sum(np.zeros(1, np.float32))

    def wait_for_saves(self) -> None:
        """Like `wait_for_all`, for the thread that writes a checkpoint."""
        if self.size > 1:
            dist.barrier(group=self.saves)

    def close(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()
