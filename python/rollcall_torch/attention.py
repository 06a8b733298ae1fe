"""Causal attention over packed rows: each row sees itself and its prefix, and nothing else.

Ways, chosen by `choose`: `flash` (the flash-attn package), `varlen` (PyTorch's own kernel, bf16 and fp16 on
CUDA), `grouped` (the same, its keys and values never repeated for their query heads, only where it is asked for) and `rows` (scaled dot product attention row by row, any device and precision).
"""

import importlib.util
import inspect
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .errors import ConfigError
from .rows import Packing

NAME = "rollcall_packed"
WAYS = ("flash", "varlen", "grouped", "rows")


@dataclass(frozen=True)
class PackedRows:
    """Where rows lie in a run of tokens, in the forms the kernels take."""

    way: str
    # Per row: its own tokens [start, end) and its prefix [start, end).
    spans: tuple[tuple[int, int, int, int], ...]
    # Prefix sums of the rows' own tokens, and of all they see.
    cu_own: torch.Tensor
    cu_seen: torch.Tensor
    most_own: int
    most_seen: int
    # Keys and values row by row, prefixes repeated; None where no row has a prefix.
    seen: torch.Tensor | None


def packed_rows(packing: Packing, way: str, device: torch.device) -> PackedRows:
    seen_length = packing.row_length + packing.prefix_length
    spans = np.stack(
        [
            packing.row_start,
            packing.row_start + packing.row_length,
            packing.prefix_start,
            packing.prefix_start + packing.prefix_length,
        ],
        axis=1,
    )
    seen = None
    if packing.prefix_length.any():
        parts = [np.concatenate([np.arange(c, d), np.arange(a, b)]) for a, b, c, d in spans]
        seen = torch.from_numpy(np.concatenate(parts)).to(device, non_blocking=True)
    return PackedRows(
        way=way,
        spans=tuple(map(tuple, spans.tolist())),
        cu_own=prefix_sums(packing.row_length, device),
        cu_seen=prefix_sums(seen_length, device),
        most_own=int(packing.row_length.max()),
        most_seen=int(seen_length.max()),
        seen=seen,
    )


def prefix_sums(lengths: np.ndarray, device: torch.device) -> torch.Tensor:
    sums = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return torch.from_numpy(sums).to(device, non_blocking=True)


def choose(device: torch.device, dtype: torch.dtype, asked: str | None = None) -> str:
    """The fastest way this device and precision have, or the one asked for."""
    can = {"rows"}
    if device.type == "cuda" and dtype in (torch.bfloat16, torch.float16):
        if torch.cuda.get_device_capability(device) >= (8, 0) and importlib.util.find_spec("torch.nn.attention.varlen"):
            can |= {"varlen", "grouped"}
        if importlib.util.find_spec("flash_attn"):
            can.add("flash")
    if asked is None:
        return next(way for way in WAYS if way in can)
    if asked not in can:
        raise ConfigError(f"attention {asked} cannot run on {device.type} in {dtype}; {', '.join(sorted(can))} can")
    return asked


@torch.compiler.disable  # a layer is compiled before and after it: the kernels are compiled already
def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    scaling: float,
    rows: PackedRows,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """The form in which transformers calls attention: [1, heads, tokens, size] in, [1, tokens, heads, size] out."""
    if softcap is not None or s_aux is not None:
        raise ConfigError("attention with a soft cap or sinks is not implemented")
    query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    if rows.seen is not None:
        key, value = key.index_select(0, rows.seen), value.index_select(0, rows.seen)
    kernel = {"flash": with_flash, "varlen": with_varlen, "grouped": with_varlen, "rows": row_by_row}[rows.way]
    return kernel(query, key, value, rows, scaling, sliding_window).unsqueeze(0), None


def with_flash(query, key, value, rows: PackedRows, scaling: float, window: int | None) -> torch.Tensor:
    from flash_attn import flash_attn_varlen_func

    return flash_attn_varlen_func(
        query, key, value, rows.cu_own, rows.cu_seen, rows.most_own, rows.most_seen,
        softmax_scale=scaling, causal=True, window_size=(-1, -1) if window is None else (window - 1, 0),
    )  # fmt: skip


def with_varlen(query, key, value, rows: PackedRows, scaling: float, window: int | None) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn

    grouped = query.shape[1] // key.shape[1]
    more = {}
    if takes_grouped_heads():
        more["enable_gqa"] = grouped > 1
    elif grouped > 1 and rows.way != "grouped":  # torch 2.11 promises only as many key heads as query heads
        key, value = key.repeat_interleave(grouped, 1), value.repeat_interleave(grouped, 1)
    return varlen_attn(
        query.contiguous(), key.contiguous(), value.contiguous(), rows.cu_own, rows.cu_seen, rows.most_own,
        rows.most_seen, scale=scaling, window_size=(-1 if window is None else window - 1, 0), **more,
    )  # fmt: skip


@cache
def takes_grouped_heads() -> bool:
    from torch.nn.attention.varlen import varlen_attn

    return "enable_gqa" in inspect.signature(varlen_attn).parameters


def row_by_row(query, key, value, rows: PackedRows, scaling: float, window: int | None) -> torch.Tensor:
    outputs, at = [], 0
    for start, end, prefix_start, prefix_end in rows.spans:
        own, seen = end - start, end - start + prefix_end - prefix_start
        plain = own == seen and (window is None or seen <= window)
        output = scaled_dot_product_attention(
            query[start:end].transpose(0, 1).unsqueeze(0),
            key[at : at + seen].transpose(0, 1).unsqueeze(0),
            value[at : at + seen].transpose(0, 1).unsqueeze(0),
            attn_mask=None if plain else causal_mask(own, seen, window, query.device),
            is_causal=plain,
            scale=scaling,
            enable_gqa=query.shape[1] != key.shape[1],
        )
        outputs.append(output[0].transpose(0, 1))
        at += seen
    return torch.cat(outputs)


def causal_mask(own: int, seen: int, window: int | None, device: torch.device) -> torch.Tensor:
    """The last `own` of `seen` tokens each see themselves and those before."""
    distance = torch.arange(seen - own, seen, device=device).unsqueeze(1) - torch.arange(seen, device=device)
    return (distance >= 0) & (distance < (seen if window is None else window))


ALL_ATTENTION_FUNCTIONS.register(NAME, attend)
