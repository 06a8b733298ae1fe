"""A Hugging Face causal model that answers with numbers per target. Several ranks shard it (FSDP2)."""

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from . import attention
from .copies import Copies
from .errors import ConfigError
from .four_bits import hold_in_four_bits
from .fused import check_fused, fuse
from .group import Group
from .head import LOGIT_OUTPUTS, TargetOutputs, compile_head
from .lora import LoraOptions, add_adapters
from .rows import Packing

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class ModelOptions:
    """How a model is opened. `path` is a folder in the Hugging Face layout."""

    path: str
    # False: only scored (a reference). No gradient, no optimizer, weights kept in the precision of computing.
    trainable: bool = True
    lora: LoraOptions | None = None
    # 4: the linear layers that adapters leave frozen are held in four bits.
    base_bits: int | None = None
    value_head: bool = False
    # Precision of computing; trained weights, their gradient and Adam's moments are f32. Default bf16 on CUDA.
    precision: str | None = None
    # Share of the layers whose activations are computed again in the backward instead of kept.
    recompute: float = 1.0
    # Parameters, gradients and optimizer state in the memory of the host; costs transfers in every pass.
    offload: bool = False
    compile: bool = False
    # Norms, gates and the head's passes by kernels of their own (fused.py, kernels.py).
    fused: bool = False
    attention: str | None = None
    # What weight decay acts on: `all` parameters, or `matrices`.
    decay: str = "all"
    # Tokens a rank computes at once; None is chosen by memory.
    tokens: int | None = None

    @property
    def keeps_head(self) -> bool:
        """Whether the head's gradient by its logits is kept from the forward: where nothing else is computed again."""
        return self.trainable and self.fused and self.recompute == 0

    @staticmethod
    def parse(given: dict[str, Any]) -> "ModelOptions":
        known = ModelOptions.__dataclass_fields__
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ConfigError(f"open: {', '.join(unknown)} is unknown; options are {', '.join(known)}")
        lora = given.get("lora")
        options = ModelOptions(**{**given, "lora": LoraOptions.parse(lora) if lora else None})
        if options.lora and not options.trainable:
            raise ConfigError("lora and trainable: false exclude each other")
        if options.base_bits is not None:
            options.check_base_bits()
        if not 0 <= options.recompute <= 1:
            raise ConfigError(f"recompute is {options.recompute}; a share of the layers from 0 to 1 is needed")
        if options.precision not in (None, *PRECISIONS):
            raise ConfigError(f"precision is {options.precision!r}; {', '.join(PRECISIONS)} are known")
        if options.decay not in ("all", "matrices"):
            raise ConfigError(f"decay is {options.decay!r}; all or matrices is needed")
        return options

    def check_base_bits(self) -> None:
        if self.base_bits != 4:
            raise ConfigError(f"base_bits is {self.base_bits!r}; 4 is implemented")
        if not self.lora:
            raise ConfigError("base_bits: 4 needs lora: weights in four bits are not trained")
        for name in ("offload", "compile"):
            if getattr(self, name):
                raise ConfigError(f"base_bits: 4 is not implemented with {name}; leave one of them out")


class Scorer(nn.Module):
    """The causal model and an optional value head. Its forward is one micro-batch."""

    def __init__(self, causal: nn.Module, options: ModelOptions):
        super().__init__()
        self.causal = causal
        self.fused, self.keeps_head = options.fused, options.keeps_head
        # Of one rank, which shards nothing.
        self.copies: Copies | None = None
        if options.value_head:
            self.value_head = nn.Linear(causal.config.get_text_config().hidden_size, 1)

    def forward(self, batch: "Batch", temperature: float, outputs: list[str]) -> dict[str, torch.Tensor]:
        unshard(self)
        seen = {"input_ids": batch.ids} if batch.sight is None else {"inputs_embeds": self.embed(batch.ids, batch.sight)}
        hidden = decoder(self.causal)(
            **seen, position_ids=batch.positions, use_cache=False, rows=batch.rows
        ).last_hidden_state
        states = hidden[0].index_select(0, batch.target_states)
        results: dict[str, torch.Tensor] = {}
        if any(name in LOGIT_OUTPUTS for name in outputs):
            head = self.causal.get_output_embeddings().weight
            spread = "entropy" in outputs or "sumSquares" in outputs
            keep = self.keeps_head and torch.is_grad_enabled()
            parts = TargetOutputs.apply(states, head, batch.target_ids, temperature, spread, self.fused, keep)
            results.update(zip(LOGIT_OUTPUTS, parts))
        if "value" in outputs:
            weight, bias = self.value_head.weight.float(), self.value_head.bias.float()
            results["value"] = (states.float() * weight).sum(-1) + bias
        return {name: results[name] for name in outputs}

    def embed(self, ids: torch.Tensor, sight: "Sight") -> torch.Tensor:
        """Embeddings of the tokens, and states of the encoder where images stand."""
        visual = self.causal.base_model.visual
        states = visual(sight.pixels.to(visual.dtype), grid_thw=sight.grids).pooler_output
        embedded = decoder(self.causal).embed_tokens(ids)[0]
        shown = states.index_select(0, sight.source).to(embedded.dtype)
        # Without images here, others may have some: every rank takes part in the exchange of the encoder's gradient.
        return (embedded.index_copy(0, sight.at, shown) + 0 * states.sum()).unsqueeze(0)


@dataclass(frozen=True)
class Sight:
    """The images of a micro-batch on the device, and where their states go."""

    pixels: torch.Tensor
    grids: torch.Tensor
    at: torch.Tensor
    source: torch.Tensor


@dataclass(frozen=True)
class Batch:
    """A micro-batch on the device."""

    ids: torch.Tensor
    positions: torch.Tensor
    rows: attention.PackedRows
    target_states: torch.Tensor
    target_ids: torch.Tensor
    # None for a model without an encoder.
    sight: Sight | None = None

    @staticmethod
    def of(packing: Packing, way: str, device: torch.device, vision: Any = None) -> "Batch":
        def place(values: Any) -> torch.Tensor:
            return torch.from_numpy(values).to(device, non_blocking=True)

        positions = place(packing.positions).unsqueeze(0)
        if vision is not None:
            three = np.repeat(packing.positions[None], 3, 0) if packing.places is None else packing.places
            positions = place(np.ascontiguousarray(three)).unsqueeze(1)
        return Batch(
            place(packing.ids).unsqueeze(0),
            positions,
            attention.packed_rows(packing, way, device),
            place(packing.target_states),
            place(packing.target_ids),
            None if vision is None else Sight(*map(place, sight_arrays(packing, vision))),
        )


def sight_arrays(packing: Packing, vision: Any) -> tuple[np.ndarray, ...]:
    """Where nothing is shown, one token's patches of nothing."""
    if packing.images:
        pixels = np.concatenate([image.pixels for image in packing.images])
        grids = np.stack([image.grid for image in packing.images]).astype(np.int64)
        return pixels, grids, packing.image_at, packing.image_from
    side, none = vision.spatial_merge_size, np.zeros(0, np.int64)
    width = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    return np.zeros((side**2, width), np.float32), np.array([[1, side, side]], np.int64), none, none


def decoder(causal: Any) -> Any:
    """The part that reads tokens; all of it where a model does not see."""
    return getattr(causal.base_model, "language_model", causal.base_model)


def build(options: ModelOptions, group: Group) -> Scorer:
    """The model with its memory taken and sharded; its weights are read afterwards (weights.py)."""
    config = read_config(options.path)
    compute = compute_precision(options, group)
    # On a CPU experts are computed one after another; on a GPU together, which is what transformers chooses.
    experts = {"experts_implementation": "eager"} if group.device.type == "cpu" else {}
    sees = getattr(config, "vision_config", None) is not None
    if sees and options.lora:
        raise ConfigError(f"{options.path}: lora is not implemented for a model that sees; train all of it, or use the embedded trainer")
    kind = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    ways = {"text_config": attention.NAME, "vision_config": "sdpa"} if sees else attention.NAME
    with torch.device("meta"):
        causal = kind.from_config(config, dtype=torch.float32, attn_implementation=ways, **experts)
        scorer = Scorer(causal, options)
        if options.base_bits:
            hold_in_four_bits(decoder(causal).layers)
        if options.lora:
            add_adapters(causal, options.lora)
    if getattr(causal.get_output_embeddings(), "bias", None) is not None:
        raise ConfigError(f"{options.path}: an output head with a bias is not implemented")
    if options.fused:
        check_fused(group.device)
        fuse(causal)
    if not options.trainable:
        scorer.requires_grad_(False)
    scorer.eval()
    if compute != torch.float32:
        for module in scorer.modules():
            for parameter in module.parameters(recurse=False):
                if not parameter.requires_grad:
                    parameter.data = parameter.data.to(compute)
    place(scorer, causal, options, group, compute)
    return scorer


def is_sharded(options: ModelOptions, group: Group) -> bool:
    """Weights in the memory of the host are FSDP's on one rank too."""
    return group.size > 1 or (options.offload and group.device.type == "cuda")


def place(scorer: Scorer, causal: Any, options: ModelOptions, group: Group, compute: torch.dtype) -> None:
    """Takes the memory of the weights, and says which layers are compiled, computed again and sharded."""
    layers = list(decoder(causal).layers)
    shard = sharding(options, group, compute) if is_sharded(options, group) else None
    recomputed = round(options.recompute * len(layers))
    for number, layer in enumerate(layers):
        layer.to_empty(device=group.device)
        if options.compile:
            layer.forward = torch.compile(layer.forward, dynamic=True)  # the number of tokens is never the same
        if options.trainable and number < recomputed:
            layer.forward = recomputing(layer.forward)
        if shard:
            shard(layer)
    in_layers = {module for layer in layers for module in layer.modules()}
    for module in scorer.modules():
        if module not in in_layers:
            module.to_empty(device=group.device, recurse=False)
    causal.tie_weights()
    if shard:
        shard(scorer)
    else:
        scorer.copies = Copies(scorer, compute)
    with torch.no_grad():
        for module in causal.modules():  # frequencies of rotary embeddings are buffers that no file holds
            if any(True for _ in module.buffers(recurse=False)):
                causal._init_weights(module)
    if options.compile and group.device.type == "cuda":
        compile_head()


def sharding(options: ModelOptions, group: Group, compute: torch.dtype) -> Callable[[nn.Module], None]:
    policy = {
        "mesh": init_device_mesh(group.device.type, (group.size,)),
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=None if compute == torch.float32 else compute, reduce_dtype=torch.float32
        ),
        "offload_policy": CPUOffloadPolicy() if options.offload and group.device.type == "cuda" else OffloadPolicy(),
        # With one rank a gathered layer is a copy of the host's: keeping it to the backward is cheaper than copying again.
        "reshard_after_forward": group.size > 1,
    }

    def shard(module: nn.Module) -> None:
        fully_shard(module, **policy)
        if group.size > 1:
            module.set_gradient_divide_factor(1.0)  # gradients of ranks are summed, never averaged
            module.set_force_sum_reduction_for_comms(True)
        else:  # nothing to divide, which would be one more pass over the gradient; copies serve all micro-batches of a step
            module.set_reshard_after_backward(False)

    return shard


def recomputing(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps a layer's input alone and computes the layer again in the backward."""

    def run(*arguments: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*arguments, **named)
        return checkpoint(forward, *arguments, use_reentrant=False, preserve_rng_state=False, **named)

    return run


def unshard(scorer: Scorer) -> None:
    """What a pass computes with stands in the model. FSDP sees to it by itself."""
    if scorer.copies:
        scorer.copies.put()


def reshard(scorer: Scorer) -> None:
    """Frees gathered weights: the next pass must gather what the optimizer has changed."""
    if scorer.copies:
        scorer.copies.take_away()
    for module in scorer.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def after_failure(scorer: Scorer) -> None:
    """Makes a forward that broke off as if it had not been."""
    if hasattr(scorer, "reset_iter_state"):  # since torch 2.13
        scorer.reset_iter_state()
    else:
        reshard(scorer)


def compute_precision(options: ModelOptions, group: Group) -> torch.dtype:
    return PRECISIONS[options.precision or ("bfloat16" if group.device.type == "cuda" else "float32")]


def read_config(path: str) -> Any:
    try:
        config = AutoConfig.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: no model configuration could be read ({error})") from error
    if getattr(config, "quantization_config", None):
        raise ConfigError(
            f"{path}: quantization_config: weights that their files hold quantised are not implemented; open the model in bf16 or "
            "f32, with lora to train few weights, and base_bits: 4 to hold the others in four bits"
        )
    if getattr(config, "vision_config", None) is not None and config.model_type != "qwen2_5_vl":
        raise ConfigError(f"{path}: of models that see, qwen2_5_vl is implemented; this is {config.model_type}")
    for name in ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier"):
        value = getattr(config, name, None)
        if value not in (None, 1, 1.0):
            raise ConfigError(f"{path}: {name} {value} is not implemented")
    return config
