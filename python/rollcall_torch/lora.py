"""Low-rank adapters: y = W x + alpha / rank · B A x with W frozen. Files are in PEFT's layout."""

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator

import torch
from torch import nn

from .errors import ConfigError
from .four_bits import FourBitLinear

PEFT_PREFIX = "base_model.model."
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class LoraOptions:
    rank: int
    alpha: float
    targets: tuple[str, ...] = TARGETS
    seed: int = 0

    @staticmethod
    def parse(given: dict[str, Any]) -> "LoraOptions":
        rank, alpha = given.get("rank"), given.get("alpha")
        if type(rank) is not int or rank < 1:
            raise ConfigError(f"lora rank is {rank!r}; a positive integer is needed")
        if not isinstance(alpha, (int, float)) or not alpha > 0:
            raise ConfigError(f"lora alpha is {alpha!r}; a positive number is needed")
        return LoraOptions(rank, float(alpha), tuple(given.get("targets") or TARGETS), int(given.get("seed") or 0))


class LoraLinear(nn.Linear):
    """A linear layer under its old name, with `lora_A` and `lora_B` below it."""

    def __init__(self, base: nn.Linear, options: LoraOptions):
        nn.Module.__init__(self)
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = base.weight, base.bias
        self.lora_A = nn.Linear(base.in_features, options.rank, bias=False)
        self.lora_B = nn.Linear(options.rank, base.out_features, bias=False)
        self.scale = options.alpha / options.rank
        self.active = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return y + self.scale * self.lora_B(self.lora_A(x)) if self.active else y


class FourBitLoraLinear(LoraLinear, FourBitLinear):
    """The same on a weight in four bits."""


def add_adapters(model: nn.Module, options: LoraOptions) -> None:
    """Freezes the model and puts adapters on its target layers."""
    model.requires_grad_(False)
    found = set()
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in options.targets and isinstance(child, nn.Linear):
                kind = FourBitLoraLinear if isinstance(child, FourBitLinear) else LoraLinear
                setattr(module, name, kind(child, options))
                found.add(name)
    missing = [target for target in options.targets if target not in found]
    if missing:
        raise ConfigError(f"lora targets {', '.join(missing)} name no linear layer of this model")


def first_factor(name: str, shape: torch.Size, seed: int) -> torch.Tensor:
    """Uniform in ±1/√in as PEFT's default, from the seed and the name: the same on any number of ranks."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    return (2 * torch.rand(shape, generator=generator) - 1) / shape[1] ** 0.5


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """The model as it was before training: a reference that costs no memory."""
    layers = [module for module in model.modules() if isinstance(module, LoraLinear)]
    for layer in layers:
        layer.active = False
    try:
        yield
    finally:
        for layer in layers:
            layer.active = True


def peft_config(options: LoraOptions, base_model: str) -> dict[str, Any]:
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_model,
        "r": options.rank,
        "lora_alpha": options.alpha,
        "lora_dropout": 0,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "inference_mode": True,
        "target_modules": list(options.targets),
    }


def check_peft_config(given: dict[str, Any], options: LoraOptions, where: str) -> None:
    """An adapter is loaded into one of the same shape; what is not plain LoRA is refused by field."""
    if given.get("peft_type") != "LORA":
        raise ConfigError(f"{where}: peft_type {given.get('peft_type')!r} is not implemented; LORA is")
    for name in (
        "use_dora",
        "use_rslora",
        "fan_in_fan_out",
        "modules_to_save",
        "layers_to_transform",
        "rank_pattern",
        "alpha_pattern",
    ):
        if given.get(name):
            raise ConfigError(f"{where}: {name} {given[name]!r} is not implemented")
    if given.get("bias", "none") != "none":
        raise ConfigError(f"{where}: bias {given['bias']!r} is not implemented")
    has = (given.get("r"), given.get("lora_alpha"), sorted(given.get("target_modules") or []))
    needs = (options.rank, options.alpha, sorted(options.targets))
    if has != needs:
        raise ConfigError(f"{where}: its adapter has rank, alpha, targets {has}; the trainer was opened with {needs}")
