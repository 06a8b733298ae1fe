"""A model's norms, gates and rotary positions by kernels that read their inputs once, where transformers writes them in many passes. The
head's passes are in kernels.py too. Only layers whose formula is known are replaced."""

import sys
import types
from typing import Any

import torch
from torch import nn
from torch.nn.functional import rms_norm

from .errors import ConfigError

# weight · x / √(mean x² + ε), named by transformers. Others differ: Gemma's weight is one less than its factor.
PLAIN_NORMS = {"LlamaRMSNorm", "MistralRMSNorm", "MixtralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm", "Qwen3MoeRMSNorm"}
GATED = {"LlamaMLP", "MistralMLP", "Qwen2MLP", "Qwen3MLP"}
# They call the `apply_rotary_pos_emb` of their own file, which rotates whole heads, half against half.
ROTATED = {"LlamaAttention", "MistralAttention", "Qwen2Attention", "Qwen3Attention"}


def check_fused(device: torch.device) -> None:
    try:
        from .kernels import can_run
    except ImportError as error:
        raise ConfigError(f"fused needs Triton, which this Python has not ({error})") from error
    if not can_run(device):
        raise ConfigError(f"fused kernels run on a GPU; this trainer is on {device.type}")


def fuse(model: nn.Module) -> int:
    """Replaces forwards in place, and says how many."""
    count = 0
    for module in model.modules():
        name = type(module).__name__
        if name in PLAIN_NORMS:
            module.forward = types.MethodType(norm, module)
        elif name in GATED and is_silu(module.act_fn):
            module.forward = types.MethodType(gated, module)
        elif name in ROTATED:
            fuse_rotation(sys.modules[type(module).__module__])
        else:
            continue
        count += 1
    return count


def fuse_rotation(file: Any) -> None:
    """For every model of that file in this process: where the kernel cannot run, the function is the one that was there."""
    plain = file.apply_rotary_pos_emb
    if getattr(plain, "fused", False):
        return

    def rotated(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1) -> Any:
        from .kernels import Rotation, can_run

        if not can_run(q.device) or q.shape[0] != 1 or unsqueeze_dim != 1 or cos.shape[-1] != q.shape[-1]:
            return plain(q, k, cos, sin, unsqueeze_dim)
        return tuple(Rotation.apply(x[0].transpose(0, 1), cos[0], sin[0]).transpose(0, 1).unsqueeze(0) for x in (q, k))

    rotated.fused = True  # type: ignore[attr-defined]
    file.apply_rotary_pos_emb = rotated


def is_silu(activation: Any) -> bool:
    return isinstance(activation, nn.SiLU) or type(activation).__name__ == "SiLUActivation"


def norm(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    """Rounds once, at the end: transformers rounds to bf16 before the weight and after it."""
    return rms_norm(hidden_states, (hidden_states.shape[-1],), self.weight, self.variance_epsilon)


def gated(self: Any, x: torch.Tensor) -> torch.Tensor:
    from .kernels import Gate

    return self.down_proj(Gate.apply(self.gate_proj(x), self.up_proj(x)))
