"""Mixtures of experts: a layer's experts are two fused parameters here, and two or three tensors per expert in files.

    experts.gate_up_proj [experts, 2 · intermediate, hidden]    experts.3.gate_proj.weight, experts.3.up_proj.weight
    experts.down_proj    [experts, hidden, intermediate]        experts.3.down_proj.weight

Mixtral's files call them w1, w3 and w2, below `block_sparse_moe` instead of `mlp`.
"""

import re
from dataclasses import dataclass
from typing import Iterator

import torch

STORED = re.compile(r"^(?P<experts>.+\.experts)\.(?P<expert>\d+)\.(?P<part>gate_proj|up_proj|down_proj|w1|w2|w3)\.weight$")
# Fused parameter, which half of its rows, and of how many.
PLACES = {
    "gate_proj": ("gate_up_proj", 0, 2),
    "up_proj": ("gate_up_proj", 1, 2),
    "down_proj": ("down_proj", 0, 1),
    "w1": ("gate_up_proj", 0, 2),
    "w3": ("gate_up_proj", 1, 2),
    "w2": ("down_proj", 0, 1),
}
NAMES = {
    "mixtral": {"gate_up_proj": ("w1", "w3"), "down_proj": ("w2",)},
    "": {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)},
}


@dataclass(frozen=True)
class ExpertPlace:
    """Where a stored tensor lies in a fused parameter."""

    parameter: str
    expert: int
    part: int
    parts: int

    def slice(self, expert: torch.Tensor) -> torch.Tensor:
        """This part's rows of one expert."""
        rows = expert.shape[0] // self.parts
        return expert[self.part * rows : (self.part + 1) * rows]


def expert_place(stored: str) -> ExpertPlace | None:
    found = STORED.match(stored)
    if not found:
        return None
    fused, part, parts = PLACES[found["part"]]
    return ExpertPlace(f"{in_model(found['experts'])}.{fused}", int(found["expert"]), part, parts)


def in_model(stored: str, sees: bool = False) -> str:
    """Files of a model that sees have the names from before its parts were nested."""
    if sees:
        nested = {"visual.": "model.visual.", "model.layers.": "model.language_model.layers."}
        nested |= {f"model.{part}.": f"model.language_model.{part}." for part in ("embed_tokens", "norm")}
        begin = next((begin for begin in nested if stored.startswith(begin)), "")
        return nested.get(begin, "") + stored.removeprefix(begin)
    return stored.replace(".block_sparse_moe.", ".mlp.")


def as_stored(name: str, tensor: torch.Tensor, model_type: str) -> Iterator[tuple[str, torch.Tensor]]:
    """A whole parameter of the model under the names that files and servers have for it."""
    kind = model_type if model_type in NAMES else ""
    if model_type == "qwen2_5_vl":
        name = name.replace("model.language_model.", "model.", 1).replace("model.visual.", "visual.", 1)
    base, _, last = name.rpartition(".")
    if kind == "mixtral":
        base, name = base.replace(".mlp.", ".block_sparse_moe."), name.replace(".mlp.gate.", ".block_sparse_moe.gate.")
    parts = NAMES[kind].get(last) if base.endswith(".experts") and tensor.dim() == 3 else None
    if parts is None:
        yield name, tensor
        return
    for number, expert in enumerate(tensor):
        for part, rows in zip(parts, expert.chunk(len(parts))):
            yield f"{base}.{number}.{part}.weight", rows
