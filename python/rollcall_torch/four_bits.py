"""A frozen base in four bits under LoRA (QLoRA, Dettmers et al. 2023, arXiv 2305.14314): each block of 64 weights is its
largest magnitude, in f32, and 64 codes of NF4, whose 16 values are quantiles of the normal distribution.

A product makes its matrix in the precision of computing, and its backward makes it again: autograd keeps the codes alone.
Scales are not quantised in turn (QLoRA's double quantisation): that would save 0.05 of 0.56 bytes a weight. Codes and
scales are buffers, so ranks do not shard them: each holds all.
"""

from functools import cache
from typing import Any

import torch
from torch import nn

from .errors import ConfigError

NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
BLOCK = 64
# Half a byte of code, and a share of the block's scale.
BYTES_PER_WEIGHT = 1 / 2 + 4 / BLOCK
# Weights that are made at once: beside the matrix itself exist only this many values in f32, and indices for half of them.
CHUNK = 1 << 22
CHUNK_BYTES = 6 * CHUNK


@cache
def tables(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The two values of each byte, and the bounds between values."""
    values = torch.tensor(NF4, device=device)
    pairs = torch.stack([values.repeat_interleave(16), values.repeat(16)], 1)
    return pairs, (values[1:] + values[:-1]) / 2


@torch.no_grad()
def quantise(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes, two a byte with the first one above, and a scale per block. Blocks go through the matrix row by row."""
    flat = weight.reshape(-1).float()
    blocks = nn.functional.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
    scales = blocks.abs().amax(1)
    share = blocks / scales.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(1)
    codes = torch.bucketize(share.view(-1), tables(weight.device)[1], out_int32=True).to(torch.uint8).view(-1, 2)
    return codes[:, 0] << 4 | codes[:, 1], scales


@torch.no_grad()
def dequantise(codes: torch.Tensor, scales: torch.Tensor, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """The matrix, each value rounded once to `dtype`."""
    pairs, _ = tables(codes.device)
    flat = torch.empty(len(scales) * BLOCK, dtype=dtype, device=codes.device)
    for at in range(0, len(flat), CHUNK):
        values = pairs.index_select(0, codes[at // 2 : (at + CHUNK) // 2].int()).view(-1, BLOCK)
        scale = scales[at // BLOCK : (at + CHUNK) // BLOCK].unsqueeze(1)
        torch.mul(values, scale, out=flat[at : at + CHUNK].view(-1, BLOCK))
    return flat[: shape.numel()].view(shape)


class FourBitProduct(torch.autograd.Function):
    """x Wᵀ, with a gradient by x alone."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        ctx.save_for_backward(codes, scales)
        ctx.shape = shape
        return x @ dequantise(codes, scales, shape, x.dtype).t()

    @staticmethod
    def backward(ctx: Any, by_product: torch.Tensor):
        return by_product @ dequantise(*ctx.saved_tensors, ctx.shape, by_product.dtype), None, None, None


class FourBitWeight(nn.Module):
    """Stands where a linear layer has its weight."""

    def __init__(self, shape: torch.Size):
        super().__init__()
        self.shape = shape
        blocks = -(-shape.numel() // BLOCK)
        self.register_buffer("codes", torch.empty(blocks * BLOCK // 2, dtype=torch.uint8))
        self.register_buffer("scales", torch.empty(blocks))

    def numel(self) -> int:
        return self.shape.numel()

    def fill(self, weight: torch.Tensor) -> None:
        codes, scales = quantise(weight.to(self.codes.device))
        self.codes.copy_(codes)
        self.scales.copy_(scales)

    def dense(self, dtype: torch.dtype) -> torch.Tensor:
        return dequantise(self.codes, self.scales, self.shape, dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return FourBitProduct.apply(x, self.codes, self.scales, self.shape)


class FourBitLinear(nn.Linear):
    """A frozen linear layer under its old name."""

    def __init__(self, base: nn.Linear):
        nn.Module.__init__(self)
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = FourBitWeight(base.weight.shape), base.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.weight(x)
        return y if self.bias is None else y + self.bias


def hold_in_four_bits(layers: nn.Module) -> None:
    """Puts all linear layers below `layers` in four bits. What remains are vectors: biases and norms."""
    for module in list(layers.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, FourBitLinear(child))
    for name, parameter in layers.named_parameters():
        if parameter.dim() > 1:
            raise ConfigError(
                f"base_bits: 4 holds linear layers alone, and {name} {list(parameter.shape)} belongs to none (experts of a "
                "mixture do not); leave base_bits out"
            )
