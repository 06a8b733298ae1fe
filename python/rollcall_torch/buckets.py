"""Weights in buckets of GPU memory that another process opens (CUDA IPC): none of them touches the disk or the host.

Used by both sides: the trainer fills and shares a bucket, an inference server's worker opens it (vllm_extension.py).
"""

import base64
from typing import Any, Iterable, Iterator

import torch

ALIGNMENT = 256
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float16": torch.float16}
Entry = dict[str, Any]


def fill_buckets(tensors: Iterable[tuple[str, torch.Tensor]], buffer: torch.Tensor) -> Iterator[list[Entry]]:
    """Copies tensors into a flat u8 buffer. Each time it is full (and at the end) yields what lies where; the buffer is
    filled again when the caller continues. A tensor that is larger than the buffer goes in pieces of whole rows."""
    entries: list[Entry] = []
    at = 0
    for name, tensor in tensors:
        for first_row, piece in pieces(tensor, len(buffer)):
            if at + piece.nbytes > len(buffer):
                yield entries
                entries, at = [], 0
            place = buffer[at : at + piece.nbytes].view(piece.dtype).view(piece.shape)
            place.copy_(piece)
            dtype = str(piece.dtype).removeprefix("torch.")
            entries.append(
                {
                    "name": name,
                    "dtype": dtype,
                    "shape": list(tensor.shape),
                    "rows": [first_row, first_row + len(piece)],
                    "at": at,
                    "bytes": piece.nbytes,
                }
            )
            at += -(-piece.nbytes // ALIGNMENT) * ALIGNMENT
    if entries:
        yield entries


def pieces(tensor: torch.Tensor, most_bytes: int) -> Iterator[tuple[int, torch.Tensor]]:
    rows = tensor.shape[0]
    per_piece = max(1, min(rows, most_bytes // max(1, tensor.nbytes // rows)))
    for first in range(0, rows, per_piece):
        yield first, tensor[first : first + per_piece]


class BucketReader:
    """The tensors of a version, from its buckets in order."""

    def __init__(self) -> None:
        self.parts: dict[str, torch.Tensor] = {}

    def read(self, buffer: torch.Tensor, entries: list[Entry]) -> list[tuple[str, torch.Tensor]]:
        """What is whole with this bucket. Views of the buffer where a tensor came in one piece."""
        whole = []
        for entry in entries:
            begin, end = entry["rows"]
            shape, dtype = entry["shape"], DTYPES[entry["dtype"]]
            part_shape = [end - begin, *shape[1:]]
            size = torch.Size(part_shape).numel() * dtype.itemsize
            part = buffer[entry["at"] : entry["at"] + size].view(dtype).view(part_shape)
            if end - begin == shape[0]:
                whole.append((entry["name"], part))
                continue
            together = self.parts.setdefault(entry["name"], torch.empty(shape, dtype=dtype, device=buffer.device))
            together[begin:end] = part
            if end == shape[0]:
                whole.append((entry["name"], self.parts.pop(entry["name"])))
        return whole


def share(buffer: torch.Tensor) -> list[Any]:
    """A handle that another process on the same GPU opens once, in JSON's types."""
    device, *rest = buffer.untyped_storage()._share_cuda_()
    return [base64.b64encode(part).decode() if isinstance(part, bytes) else part for part in rest]


def open_shared(handle: list[Any], device: torch.device) -> torch.Tensor:
    block, size, offset, counter, counter_offset, event, event_sync = handle
    storage = torch.UntypedStorage._new_shared_cuda(
        device.index, base64.b64decode(block), size, offset, base64.b64decode(counter), counter_offset,
        base64.b64decode(event), event_sync,
    )  # fmt: skip
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage)


def gpu_name(device: torch.device) -> str:
    """The same in every process, whatever CUDA_VISIBLE_DEVICES says."""
    return str(torch.cuda.get_device_properties(device).uuid)
