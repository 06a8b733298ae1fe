"""From states to numbers per target: log-prob, entropy and Σπ², and back.

Logits exist for a chunk of targets at a time; the backward computes them again, so no [targets × vocabulary] matrix is
kept unless `keep` asks for one. With l = logits / T, p = softmax(l), H = −Σ p log p and S = Σ p²:

    ∂ log p_y / ∂l = 1_y − p      ∂H / ∂l = −p (log p + H)      ∂S / ∂l = 2 p (p − S)

What `keep` keeps is D = (1_y − p) / T, in the precision of the weights. With g = dL / d log p_y of each target, dL by the
states is g · (D W) and dL by the weight Dᵀ (g · states): g scales the small side, and D is never written again.
"""

from functools import partial
from typing import Any

import torch

LOGIT_OUTPUTS = ("logprob", "entropy", "sumSquares")
# On an H200 an update at 1 << 30 takes 4 % less time and 8 GB more than at 1 << 27: every chunk adds to the head's whole gradient.
CHUNK_LOGITS = {"cuda": 1 << 28, "cpu": 1 << 22}


class TargetOutputs(torch.autograd.Function):
    """logprob, entropy and Σπ² [targets] of states [targets, hidden] under a head [vocabulary, hidden]. Entropy and Σπ²
    are zeros where `spread` is false: they cost further passes over the logits. `fused` takes one pass for all (kernels.py);
    only it can `keep`: the other ways overwrite the logits. A gradient by entropy or Σπ² computes them again all the same."""

    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        ids: torch.Tensor,
        temperature: float,
        spread: bool,
        fused: bool = False,
        keep: bool = False,
    ):
        count = len(ids)
        results = [torch.zeros(count, device=states.device) for _ in range(4)]
        compute = outputs_of if spread else logprobs_of
        if fused:
            compute = partial(fused_head().fused_outputs, spread=spread)
        logsumexp, logprob, entropy, squares = results
        kept = torch.empty(count, weight.shape[0], dtype=weight.dtype, device=weight.device) if keep else None
        for rows in chunks(count, weight):
            logits = logits_of(states[rows], weight)
            for result, part in zip(results, compute(logits, ids[rows], temperature)):
                result[rows] = part
            if kept is not None:
                ones = torch.ones_like(logprob[rows])
                given = (logsumexp[rows], entropy[rows], squares[rows], ones, ones, ones)
                fused_head().fused_gradients(logits, ids[rows], temperature, *given, spread=False, out=kept[rows])
        ctx.save_for_backward(states, weight, ids, logsumexp, entropy, squares, kept)
        ctx.temperature, ctx.fused = temperature, fused
        ctx.set_materialize_grads(False)
        return logprob, entropy, squares

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None):
        states, weight, ids, logsumexp, entropy, squares, kept = ctx.saved_tensors
        spread = gradients[1] is not None or gradients[2] is not None
        by_logprob, by_entropy, by_squares = (
            torch.zeros_like(entropy) if gradient is None else gradient for gradient in gradients
        )
        if kept is not None and not spread:
            return *by_kept(ctx, kept, states, weight, by_logprob), *[None] * 5
        by_states = torch.empty_like(states) if ctx.needs_input_grad[0] else None
        by_weight = torch.zeros(weight.shape, device=weight.device) if ctx.needs_input_grad[1] else None
        for rows in chunks(len(ids), weight):
            logits = logits_of(states[rows], weight)
            given = (entropy[rows], squares[rows], by_logprob[rows], by_entropy[rows], by_squares[rows])
            by_logits = gradient_by_logits(ctx, logits, ids[rows], logsumexp[rows], given, spread, weight.dtype)
            if by_states is not None:
                by_states[rows] = by_logits @ weight
            if by_weight is not None:
                by_weight += by_logits.t() @ states[rows]
        return by_states, None if by_weight is None else by_weight.to(weight.dtype), *[None] * 5


def by_kept(ctx: Any, kept: torch.Tensor, states: torch.Tensor, weight: torch.Tensor, by_logprob: torch.Tensor):
    each = by_logprob.unsqueeze(1)
    by_states = (kept @ weight * each).to(states.dtype) if ctx.needs_input_grad[0] else None
    by_weight = kept.t() @ (states * each).to(states.dtype) if ctx.needs_input_grad[1] else None
    return by_states, by_weight


def gradient_by_logits(
    ctx: Any,
    logits: torch.Tensor,
    ids: torch.Tensor,
    logsumexp: torch.Tensor,
    given: tuple[torch.Tensor, ...],
    spread: bool,
    dtype: torch.dtype,
) -> torch.Tensor:
    """`given`: entropy, Σπ², and dL by log-prob, entropy and Σπ²."""
    if ctx.fused:
        out = torch.empty(logits.shape, dtype=dtype, device=logits.device)
        return fused_head().fused_gradients(logits, ids, ctx.temperature, logsumexp, *given, spread=spread, out=out)
    by_logprob = given[2]
    if spread:
        by_logits = gradient_of(logits, ctx.temperature, logsumexp, *given)
    else:
        by_logits = gradient_by_logprob(logits, ctx.temperature, logsumexp, by_logprob)
    hit = (by_logprob / ctx.temperature).unsqueeze(1)
    return by_logits.scatter_add_(1, ids.unsqueeze(1), hit).to(dtype)


def fused_head() -> Any:
    from . import kernels  # Triton is not on every machine

    return kernels


def logits_of(states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """In f32: rounding logits to bf16 would move log-probs by hundredths."""
    if weight.dtype == torch.float32:
        return states @ weight.t()
    if states.is_cuda:
        return torch.mm(states, weight.t(), out_dtype=torch.float32)
    return states.float() @ weight.t().float()


# The functions below overwrite the logits, which their callers do not use again: a chunk has some 10⁸ of them, and each
# pass over it that is spared counts.


def scale(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    return logits if temperature == 1 else logits.div_(temperature)


def logprobs_of(logits: torch.Tensor, ids: torch.Tensor, temperature: float):
    scaled = scale(logits, temperature)
    logsumexp = scaled.logsumexp(-1)
    return logsumexp, scaled.gather(1, ids.unsqueeze(1)).squeeze(1) - logsumexp


def outputs_of(logits: torch.Tensor, ids: torch.Tensor, temperature: float):
    scaled = scale(logits, temperature)
    logsumexp = scaled.logsumexp(-1)
    logp = scaled.sub_(logsumexp.unsqueeze(1))
    logprob = logp.gather(1, ids.unsqueeze(1)).squeeze(1)
    p = logp.exp()
    return logsumexp, logprob, -logp.mul_(p).sum(-1), p.square_().sum(-1)


def gradient_by_logprob(logits: torch.Tensor, temperature: float, logsumexp: torch.Tensor, by_logprob: torch.Tensor):
    """Without the term 1_y, which the caller adds at one place of each row."""
    p = scale(logits, temperature).sub_(logsumexp.unsqueeze(1)).exp_()
    return p.mul_((by_logprob / -temperature).unsqueeze(1))


def gradient_of(logits, temperature, logsumexp, entropy, squares, by_logprob, by_entropy, by_squares):
    """Without the term 1_y, which the caller adds at one place of each row."""
    logp = scale(logits, temperature).sub_(logsumexp.unsqueeze(1))
    p = logp.exp()
    factor = logp.add_(entropy.unsqueeze(1)).mul_(by_entropy.unsqueeze(1)).add_(by_logprob.unsqueeze(1))
    factor = factor.sub_((p - squares.unsqueeze(1)).mul_(2 * by_squares.unsqueeze(1)))
    return p.mul_(factor).div_(-temperature)


def compile_head() -> None:
    """On CUDA the passes over the logits are fused: they take longer than the product that makes them."""
    global logprobs_of, outputs_of, gradient_by_logprob, gradient_of
    logprobs_of = torch.compile(logprobs_of, dynamic=True)
    outputs_of = torch.compile(outputs_of, dynamic=True)
    gradient_by_logprob = torch.compile(gradient_by_logprob, dynamic=True)
    gradient_of = torch.compile(gradient_of, dynamic=True)


def chunks(count: int, weight: torch.Tensor) -> list[slice]:
    size = max(32, CHUNK_LOGITS.get(weight.device.type, 1 << 22) // weight.shape[0])
    return [slice(at, min(at + size, count)) for at in range(0, count, size)]
