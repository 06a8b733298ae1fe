"""How many tokens a rank can compute at once, from the memory that is left."""

from dataclasses import dataclass
from typing import Any

import torch

from .group import Group
from .model import ModelOptions

FEWEST_TOKENS = 256
MOST_TOKENS = 65536
# Share of the free memory to use: the rest is for what the estimate does not know, such as fragmentation.
USED_SHARE = 0.7


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes of one rank."""

    # Gradient and moments of what is trained, which are allocated later.
    state: int
    # Logits of one chunk, several times over, and the gradient of the head.
    head: int
    per_token: float


def memory_need(config: Any, trained: int, options: ModelOptions, group: Group, width: int, chunk_logits: int) -> MemoryNeed:
    """`trained` parameters over all ranks, computed with `width` bytes a number."""
    hidden, layers = config.hidden_size, config.num_hidden_layers
    heads = config.num_attention_heads
    head_size = getattr(config, "head_dim", None) or hidden // heads
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    # Activations of one layer: two norms with their f32 forms, queries, keys, values and outputs, and the feed-forward's three.
    layer = width * (4 * hidden + 3 * head_size * (heads + key_heads) + 4 * config.intermediate_size) + 4 * 4 * hidden
    kept = layers * (options.recompute * width * hidden + (1 - options.recompute) * layer)
    head = 4 * (4 * chunk_logits + config.vocab_size * hidden)
    return MemoryNeed(12 * trained // group.size, head, kept + 2 * layer + 8 * hidden)


def tokens_that_fit(need: MemoryNeed, group: Group) -> int:
    """The same number on every rank."""
    if group.device.type == "cuda":
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(group.device)
    else:
        free = free_host_bytes() // group.size
    room = USED_SHARE * (free - need.state) - need.head
    return group.least(max(FEWEST_TOKENS, min(MOST_TOKENS, int(room / need.per_token))))


def free_host_bytes() -> int:
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 4 << 30
