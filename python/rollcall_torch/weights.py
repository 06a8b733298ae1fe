"""Weights between files in the Hugging Face layout and sharded parameters, by their Hugging Face names."""

import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.distributed.tensor import DTensor

from .errors import ConfigError
from .experts import as_stored, expert_place, in_model
from .four_bits import FourBitWeight
from .group import Group
from .lora import LoraLinear
from .model import Scorer

Weight = nn.Parameter | FourBitWeight
VALUE_HEAD = "value_head."
MOST_FILE_BYTES = 5 << 30
# What a model folder carries along besides weights.
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
    "chat_template.jinja", "generation_config.json", "preprocessor_config.json",
)  # fmt: skip


def named_parameters(scorer: Scorer) -> Iterator[tuple[str, nn.Parameter]]:
    """Every parameter once: a tied head is its embedding."""
    for name, parameter in scorer.named_parameters():
        yield name.removeprefix("causal."), parameter


def is_adapter(name: str) -> bool:
    return ".lora_A." in name or ".lora_B." in name


def model_weights(scorer: Scorer) -> dict[str, Weight]:
    """What a model's own files hold: neither adapter nor value head."""
    parameters = {
        name: parameter
        for name, parameter in named_parameters(scorer)
        if not is_adapter(name) and not name.startswith(VALUE_HEAD)
    }
    return parameters | four_bit_weights(scorer)


def four_bit_weights(scorer: Scorer) -> dict[str, FourBitWeight]:
    modules = scorer.named_modules()
    return {name.removeprefix("causal."): module for name, module in modules if isinstance(module, FourBitWeight)}


def whole(weight: Weight, dtype: torch.dtype) -> torch.Tensor:
    """Ranks exchange it in the narrower precision."""
    if isinstance(weight, FourBitWeight):
        return weight.dense(dtype)
    return full(weight.to(dtype) if dtype.itemsize < weight.element_size() else weight).to(dtype)


def full(tensor: torch.Tensor) -> torch.Tensor:
    """The whole of a sharded tensor. Every rank must call it."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def local(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def copy_rows(parameter: torch.Tensor, read: Callable[[int, int], torch.Tensor]) -> None:
    """Fills this rank's shard: `read(from, to)` gives those rows of the whole."""
    begin, end = own_rows(parameter)
    if end > begin:
        local(parameter).copy_(read(begin, end))


def own_rows(parameter: torch.Tensor) -> tuple[int, int]:
    """Rows of the whole that are this rank's shard. FSDP shards rows as torch.chunk does."""
    if not isinstance(parameter, DTensor):
        return 0, parameter.shape[0]
    rank, ranks = parameter.device_mesh.get_local_rank(), parameter.device_mesh.size()
    per_rank = -(-parameter.shape[0] // ranks)
    begin = min(rank * per_rank, parameter.shape[0])
    return begin, begin + len(local(parameter))


def weight_files(directory: str) -> list[str]:
    folder = Path(directory)
    if (folder / "model.safetensors").exists():
        return [str(folder / "model.safetensors")]
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        raise ConfigError(f"{directory}: neither model.safetensors nor model.safetensors.index.json is there")
    names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    for name in names:
        if Path(name).name != name:
            raise ConfigError(f"{index}: weight_map names {name!r}; a file beside it is needed")
    return [str(folder / name) for name in names]


def read_into(parameters: dict[str, Weight], files: Iterable[str], where: str, prefix: str = "") -> None:
    """Reads each parameter's shard. A missing, mis-shaped or unknown tensor is refused."""
    left = dict(parameters)
    sees = any(".visual." in name for name in parameters)
    experts_left: dict[str, set[tuple[int, int]]] = {}
    for path in files:
        with safe_open(path, framework="pt") as file:
            for stored in file.keys():
                name = stored.removeprefix(prefix)
                if name.endswith("rotary_emb.inv_freq") or (name == "lm_head.weight" and name not in parameters):
                    continue  # computed, or tied to the embedding
                tensor = file.get_slice(stored)
                if read_expert(name, tensor, parameters, left, experts_left):
                    continue
                parameter = left.pop(in_model(name, sees), None)
                if parameter is None:
                    raise ConfigError(f"{path}: tensor {stored} is unknown to this model")
                if list(tensor.get_shape()) != list(parameter.shape):
                    raise ConfigError(
                        f"{path}: tensor {stored} has shape {tensor.get_shape()}; {list(parameter.shape)} is needed"
                    )
                if isinstance(parameter, FourBitWeight):
                    parameter.fill(tensor[:])
                else:
                    copy_rows(parameter, lambda begin, end: tensor[begin:end])
    if left:
        raise ConfigError(f"{where}: tensor {next(iter(left))} is missing from its safetensors files")


def read_expert(
    stored: str,
    tensor: Any,
    parameters: dict[str, Weight],
    left: dict[str, Weight],
    experts_left: dict[str, set[tuple[int, int]]],
) -> bool:
    """Reads one expert's matrix into its place in a fused parameter, which is done when none is left."""
    place = expert_place(stored)
    parameter = parameters.get(place.parameter) if place else None
    if place is None or parameter is None:
        return False
    needed = {(expert, part) for expert in range(parameter.shape[0]) for part in range(place.parts)}
    missing = experts_left.setdefault(place.parameter, needed)
    shape = [parameter.shape[1] // place.parts, parameter.shape[2]]
    if (place.expert, place.part) not in missing or list(tensor.get_shape()) != shape:
        raise ConfigError(f"tensor {stored} has shape {tensor.get_shape()}; {shape} of {parameter.shape[0]} experts is needed")
    begin, end = own_rows(parameter)
    if begin <= place.expert < end:
        place.slice(local(parameter)[place.expert - begin]).copy_(tensor[:])
    missing.remove((place.expert, place.part))
    if not missing:
        left.pop(place.parameter, None)
    return True


def merged(scorer: Scorer, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """Every weight of the model, whole, adapters added in. Every rank must go through all of it."""
    adapted = {
        f"{name.removeprefix('causal.')}.weight": module
        for name, module in scorer.named_modules()
        if isinstance(module, LoraLinear)
    }
    for name, weight in model_weights(scorer).items():
        layer = adapted.get(name)
        if layer is None:
            tensor = whole(weight, dtype)
        else:
            addition = layer.scale * (full(layer.lora_B.weight).float() @ full(layer.lora_A.weight).float())
            tensor = (whole(weight, torch.float32) + addition).to(dtype)
        yield from as_stored(name, tensor, scorer.causal.config.model_type)


class FolderWriter:
    """Files of one folder: all are written beside their names, then all renamed. Only rank 0 writes; the others go
    through the same tensors, because gathering needs every rank. With `later`, nothing is written until `finish`, which
    uses no exchange between ranks and may run in a thread."""

    def __init__(self, directory: str, group: Group, later: bool = False):
        self.directory, self.group, self.later = Path(directory), group, later
        self.writes = group.rank == 0
        self.names: list[str] = []
        self.waiting: list[Callable[[], object]] = []
        self.error: OSError | None = None

    def attempt(self, write: Callable[[], object]) -> None:
        """A failed write is reported after the last gathering, so that no rank waits for this one."""
        if not self.writes:
            return
        if self.later:
            self.waiting.append(write)
        elif self.error is None:
            try:
                write()
            except OSError as error:
                self.error = error

    def beside(self, name: str) -> Path:
        """Where a file of that name is written before it is renamed."""
        final = self.directory / name
        return final.with_name(f".{final.name}.partial")

    def file(self, name: str, write: Callable[[Path], object]) -> None:
        self.names.append(name)
        self.attempt(partial(write_beside, self.beside(name), write))

    def json(self, name: str, value: object) -> None:
        self.file(name, lambda path: path.write_text(json.dumps(value, indent=2) + "\n"))

    def copy(self, source: str, names: Iterable[str]) -> None:
        for name in names:
            if (Path(source) / name).exists():
                self.file(name, partial(shutil.copyfile, Path(source) / name))

    def tensors(self, name: str, tensors: dict[str, torch.Tensor]) -> None:
        self.file(name, lambda path: save_file(tensors, path, metadata={"format": "pt"}))

    def model(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """`model.safetensors`, or numbered shards with an index where one file would be large."""
        shards: list[dict[str, torch.Tensor]] = [{}]
        size = 0
        for name, tensor in tensors:
            if not self.writes:
                continue
            if shards[-1] and size + tensor.nbytes > MOST_FILE_BYTES:
                self.tensors(f"shard-{len(shards)}", shards[-1])
                shards[-1] = dict.fromkeys(shards[-1])
                shards.append({})
                size = 0
            # A copy: with one rank the whole of a tensor is the parameter, which the next step changes.
            shards[-1][name] = tensor.to("cpu", copy=True).contiguous()
            size += tensor.nbytes
        if not self.writes:
            return
        if len(shards) == 1:
            self.tensors("model.safetensors", shards[0])
            return
        self.tensors(f"shard-{len(shards)}", shards[-1])
        final = [f"model-{at + 1:05}-of-{len(shards):05}.safetensors" for at in range(len(shards))]
        for at, name in enumerate(final):
            self.attempt(partial(os.rename, self.beside(f"shard-{at + 1}"), self.beside(name)))
            self.names[self.names.index(f"shard-{at + 1}")] = name
        weight_map = {tensor: name for name, shard in zip(final, shards) for tensor in shard}
        self.json("model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})

    def commit(self) -> None:
        self.finish()
        if not self.group.agree(self.error is None):
            raise ConfigError(f"{self.directory}: cannot be written ({self.error or 'see rank 0'})")

    def finish(self) -> None:
        """Writes what waits and gives every file its name. A failure is in `error`."""
        self.later = False
        for write in self.waiting:
            self.attempt(write)
        self.waiting.clear()
        for name in self.names:
            self.attempt(partial(os.replace, self.beside(name), self.directory / name))


def write_beside(path: Path, write: Callable[[Path], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path)
