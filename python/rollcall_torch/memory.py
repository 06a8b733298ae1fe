"""What one rank needs of its device's memory, and how many tokens it can compute at once with what is left.

Memory is highest in one of three moments of the backward: in the head, where a chunk of logits exists several times; in
the last layer, where the activations of one layer come on top of all that is kept; at the end, where the gradient of the
embeddings is exchanged. `python -m rollcall_torch.memory_table` shows what comes out, beside what was measured.
"""

from dataclasses import dataclass
from typing import Any

import torch

from .four_bits import BYTES_PER_WEIGHT, CHUNK_BYTES
from .group import Group
from .model import ModelOptions

FEWEST_TOKENS = 256
MOST_TOKENS = 65536
# Share of the free memory to use: the rest is for what the estimate does not know, such as fragmentation.
USED_SHARE = 0.7
# One chunk's f32 logits, and the result of an operation that does not overwrite them.
LOGITS_AT_ONCE = 2
# What is trained is in f32, and needs no copies to compute in f32.
FULL_BYTES = 4
# A layer's gradient as computed and its f32 copy that ranks exchange.
EXCHANGED_BYTES = 4


@dataclass(frozen=True)
class ParameterCounts:
    """Over all ranks."""

    trained: int
    frozen: int
    one_layer: int
    # Embeddings, head and the last norm.
    outside_layers: int
    # Weights in four bits, which are in none of the counts above, and the largest matrix of them.
    four_bits: int = 0
    largest: int = 0


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes of one rank."""

    weights: float
    # Gradient and moments of what is trained. They are allocated after the model is opened.
    state: float
    # Copies of weights in the precision of computing: with one rank those of what is trained, with its weights on the host
    # of all; else those of two layers and of what lies outside the layers. And one matrix that is made from four bits.
    gathered: float
    head: float
    # Per token: what the head keeps to its backward.
    kept_by_head: float
    exchange_of_layer: float
    exchange_at_end: float
    # Per token: what is kept of all layers until the backward, and what one layer needs while it is computed.
    kept: float
    layer: float

    def peak(self, tokens: int) -> float:
        in_head = self.head + tokens * (self.kept + self.kept_by_head)
        in_layer = self.exchange_of_layer + tokens * (self.kept + self.layer)
        return self.weights + self.state + self.gathered + max(in_head, in_layer, self.exchange_at_end)

    def tokens_within(self, room: float) -> int:
        """`room` is what the passes may take beside weights and state."""
        left = room - self.gathered
        in_head = (left - self.head) / (self.kept + self.kept_by_head)
        in_layer = (left - self.exchange_of_layer) / (self.kept + self.layer)
        return max(0, int(min(in_head, in_layer)))


def memory_need(
    config: Any, counts: ParameterCounts, options: ModelOptions, ranks: int, width: int, chunk_logits: int
) -> MemoryNeed:
    """`width`: bytes of a number in the precision of computing."""
    total = counts.trained + counts.frozen
    on_host = options.offload and torch.cuda.is_available()
    together = counts.outside_layers + 2 * counts.one_layer
    if ranks == 1:
        copied = counts.trained if width < FULL_BYTES else 0
        together = total if on_host else copied
    made = width * counts.largest + (CHUNK_BYTES if counts.four_bits else 0)
    layer = bytes_of_layer(config, width)
    whole = bytes_of_layer(config, width, options.fused)
    kept = options.recompute * width * config.hidden_size + (1 - options.recompute) * whole
    train = counts.trained > 0
    # With adapters the head is frozen: no gradient of it is computed.
    train_head = train and counts.frozen == 0
    exchanged = (width + EXCHANGED_BYTES) * counts.trained / total
    return MemoryNeed(
        weights=BYTES_PER_WEIGHT * counts.four_bits
        + (0 if on_host else (4 * counts.trained + width * counts.frozen) / ranks),
        state=0 if on_host else 12 * counts.trained / ranks,
        gathered=width * together + made,
        head=4 * (LOGITS_AT_ONCE * chunk_logits + (config.vocab_size * config.hidden_size if train_head else 0)),
        # As if every token were a target.
        kept_by_head=width * config.vocab_size if options.keeps_head else 0,
        exchange_of_layer=exchanged * counts.one_layer,
        exchange_at_end=exchanged * counts.outside_layers if train_head else 0,
        kept=config.num_hidden_layers * kept if train else width * config.hidden_size,
        # The backward holds about half as much again as the forward keeps: gradients of the widest activations. With fused
        # kernels it was not measured to be less.
        layer=1.5 * layer,
    )


def bytes_of_layer(config: Any, width: int, fused: bool = False) -> int:
    """What autograd keeps of one layer, per token."""
    hidden, heads = config.hidden_size, config.num_attention_heads
    head_size = getattr(config, "head_dim", None) or hidden // heads
    # A norm keeps its input in f32, the normalised input, and its output; a fused one its input and its output.
    norms = 2 * (2 * width if fused else 4 + 2 * width) * hidden
    # Queries, keys, values and outputs, keys and values repeated for every query head.
    attention = 4 * width * heads * head_size
    # Gate, its activation (not where they are fused), the other branch, and their product; of a mixture, those of the experts
    # that a token has.
    experts = getattr(config, "num_experts_per_tok", None) or 1
    intermediate = getattr(config, "moe_intermediate_size", None) or config.intermediate_size
    feed_forward = (3 if fused else 4) * width * experts * intermediate
    return norms + attention + feed_forward


def tokens_that_fit(need: MemoryNeed, group: Group, to_come: float) -> int:
    """The same number on every rank. The weights are there already; `to_come` is state that will be taken later."""
    free = free_bytes(group)
    tokens = need.tokens_within(USED_SHARE * (free - to_come))
    return group.least(max(FEWEST_TOKENS, min(MOST_TOKENS, tokens)))


def free_bytes(group: Group) -> int:
    """For this rank, whatever else is on its device."""
    if group.device.type != "cuda":
        return free_host_bytes() // group.size
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info(group.device)[0]


def free_host_bytes() -> int:
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 4 << 30
