"""Triton kernels for what lies between matrix products: each reads its inputs once. `TRITON_INTERPRET=1` runs them on a CPU,
which is how the tests hold them against float64."""

import os

import torch
import triton
import triton.language as tl

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
BLOCK = 4096
WARPS = 8


def can_run(device: torch.device) -> bool:
    return device.type == "cuda" or INTERPRETED


@triton.jit
def gate_forward(gate_at, up_at, out_at, count, BLOCK: tl.constexpr):
    """out = gate · sigmoid(gate) · up."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    gate = tl.load(gate_at + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_at + at, mask=inside, other=0.0).to(tl.float32)
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_at + at, out.to(out_at.dtype.element_ty), mask=inside)


@triton.jit
def gate_backward(gate_at, up_at, by_out_at, by_gate_at, by_up_at, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    gate = tl.load(gate_at + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(up_at + at, mask=inside, other=0.0).to(tl.float32)
    by_out = tl.load(by_out_at + at, mask=inside, other=0.0).to(tl.float32)
    share = tl.sigmoid(gate)
    by_gate = by_out * up * share * (1 + gate * (1 - share))
    by_up = by_out * gate * share
    tl.store(by_gate_at + at, by_gate.to(by_gate_at.dtype.element_ty), mask=inside)
    tl.store(by_up_at + at, by_up.to(by_up_at.dtype.element_ty), mask=inside)


class Gate(torch.autograd.Function):
    """silu(gate) · up, keeping its two inputs alone."""

    @staticmethod
    def forward(ctx, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        gate, up = gate.contiguous(), up.contiguous()
        ctx.save_for_backward(gate, up)
        out = torch.empty_like(gate)
        gate_forward[(triton.cdiv(gate.numel(), BLOCK),)](gate, up, out, gate.numel(), BLOCK=BLOCK, num_warps=WARPS)
        return out

    @staticmethod
    def backward(ctx, by_out: torch.Tensor):
        gate, up = ctx.saved_tensors
        by_gate, by_up = torch.empty_like(gate), torch.empty_like(up)
        grid = (triton.cdiv(gate.numel(), BLOCK),)
        gate_backward[grid](
            gate, up, by_out.contiguous(), by_gate, by_up, gate.numel(), BLOCK=BLOCK, num_warps=WARPS
        )
        return by_gate, by_up


@triton.jit
def rotate_heads(
    in_at, cos_at, sin_at, out_at, heads, half, BACK: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr
):
    """One token: (a, b) of each head become (a cos − b sin, b cos + a sin). `BACK`: the gradient by them."""
    token = tl.program_id(0).to(tl.int64)
    head, at = tl.arange(0, HEADS)[:, None], tl.arange(0, HALF)[None, :]
    inside = (head < heads) & (at < half)
    low = token * heads * 2 * half + head * 2 * half + at
    a = tl.load(in_at + low, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(in_at + low + half, mask=inside, other=0.0).to(tl.float32)
    angle = token * 2 * half + at
    cos_a = tl.load(cos_at + angle, mask=at < half, other=0.0).to(tl.float32)
    cos_b = tl.load(cos_at + angle + half, mask=at < half, other=0.0).to(tl.float32)
    sin_a = tl.load(sin_at + angle, mask=at < half, other=0.0).to(tl.float32)
    sin_b = tl.load(sin_at + angle + half, mask=at < half, other=0.0).to(tl.float32)
    if BACK:
        out_a = a * cos_a + b * sin_b
        out_b = b * cos_b - a * sin_a
    else:
        out_a = a * cos_a - b * sin_a
        out_b = b * cos_b + a * sin_b
    tl.store(out_at + low, out_a.to(out_at.dtype.element_ty), mask=inside)
    tl.store(out_at + low + half, out_b.to(out_at.dtype.element_ty), mask=inside)


class Rotation(torch.autograd.Function):
    """Rotary positions of x [tokens, heads, size] by cos and sin [tokens, size]; nothing of x is kept."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        cos, sin = cos.contiguous(), sin.contiguous()
        ctx.save_for_backward(cos, sin)
        return rotate(x, cos, sin, back=False)

    @staticmethod
    def backward(ctx, by_out: torch.Tensor):
        return rotate(by_out, *ctx.saved_tensors, back=True), None, None


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, back: bool) -> torch.Tensor:
    x = x.contiguous()
    tokens, heads, size = x.shape
    out = torch.empty_like(x)
    if tokens:
        padded = {"HEADS": triton.next_power_of_2(heads), "HALF": triton.next_power_of_2(size // 2)}
        rotate_heads[(tokens,)](x, cos, sin, out, heads, size // 2, BACK=back, **padded, num_warps=4)
    return out


@triton.jit
def row_outputs(
    logits_at, ids_at, logsumexp_at, logprob_at, entropy_at, squares_at, vocabulary, temperature,
    SPREAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row of logits: with m their greatest so far, the sums of e^(l−m), and for the spread of (l−m) e^(l−m) and
    e^(2(l−m)). When m grows by d the sums shrink by e^(−d), and the second one gains −d of the first."""
    row = tl.program_id(0).to(tl.int64)
    greatest = -float("inf")
    total = 0.0
    weighted = 0.0
    squared = 0.0
    for start in range(0, vocabulary, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < vocabulary
        scaled = tl.load(logits_at + row * vocabulary + at, mask=inside, other=-float("inf")) / temperature
        now = tl.maximum(greatest, tl.max(scaled, 0))
        less = tl.where(greatest == -float("inf"), 0.0, greatest - now)
        shrink = tl.exp(less)
        above = tl.where(inside, scaled - now, 0.0)
        part = tl.where(inside, tl.exp(above), 0.0)
        if SPREAD:
            weighted = shrink * (weighted + less * total) + tl.sum(part * above, 0)
            squared = shrink * shrink * squared + tl.sum(part * part, 0)
        total = shrink * total + tl.sum(part, 0)
        greatest = now
    logsumexp = greatest + tl.log(total)
    said = tl.load(logits_at + row * vocabulary + tl.load(ids_at + row)) / temperature
    tl.store(logsumexp_at + row, logsumexp)
    tl.store(logprob_at + row, said - logsumexp)
    if SPREAD:
        tl.store(entropy_at + row, tl.log(total) - weighted / total)
        tl.store(squares_at + row, squared / (total * total))


@triton.jit
def row_gradients(
    logits_at, ids_at, out_at, logsumexp_at, entropy_at, squares_at, by_logprob_at, by_entropy_at, by_squares_at,
    vocabulary, temperature, SPREAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of one row of dL/dlogits, by the formulas of head.py, in the precision of `out`."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < vocabulary
    scaled = tl.load(logits_at + row * vocabulary + at, mask=inside, other=-float("inf")) / temperature
    logp = tl.where(inside, scaled - tl.load(logsumexp_at + row), 0.0)
    p = tl.exp(logp)
    by_logprob = tl.load(by_logprob_at + row)
    factor = tl.zeros([BLOCK], tl.float32) + by_logprob
    if SPREAD:
        factor += (logp + tl.load(entropy_at + row)) * tl.load(by_entropy_at + row)
        factor -= 2 * (p - tl.load(squares_at + row)) * tl.load(by_squares_at + row)
    hit = tl.where(at == tl.load(ids_at + row), by_logprob, 0.0)
    out = (hit - p * factor) / temperature
    tl.store(out_at + row * vocabulary + at, out.to(out_at.dtype.element_ty), mask=inside)


def fused_outputs(logits: torch.Tensor, ids: torch.Tensor, temperature: float, spread: bool) -> list[torch.Tensor]:
    """log Σ e^l, log-prob, entropy and Σπ² of each row; the last two only where `spread`."""
    results = [torch.empty(len(ids), device=logits.device) for _ in range(4 if spread else 2)]
    row_outputs[(len(ids),)](
        logits, ids, *results, *results[: 0 if spread else 2], logits.shape[1], float(temperature),
        SPREAD=spread, BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    return results


def fused_gradients(
    logits: torch.Tensor,
    ids: torch.Tensor,
    temperature: float,
    logsumexp: torch.Tensor,
    entropy: torch.Tensor,
    squares: torch.Tensor,
    by_logprob: torch.Tensor,
    by_entropy: torch.Tensor,
    by_squares: torch.Tensor,
    spread: bool,
    out: torch.Tensor,
) -> torch.Tensor:
    """dL/dlogits into `out`, the term 1_y included."""
    row_gradients[(len(ids), triton.cdiv(logits.shape[1], BLOCK))](
        logits, ids, out, logsumexp, entropy, squares, by_logprob, by_entropy, by_squares,
        logits.shape[1], float(temperature), SPREAD=spread, BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip
    return out
