"""A trainer's folder: the model in the Hugging Face layout (or its adapter in PEFT's), and below it, in `trainer/`, the
value head and the optimizer's state: servers load every `*.safetensors` of a folder as weights of the model. The state is
sharded (torch.distributed.checkpoint) and can be read on any number of ranks."""

import json
import shutil
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

from .adam import Adam
from .errors import ConfigError
from .group import Group
from .lora import PEFT_PREFIX, LoraLinear, check_peft_config, first_factor, peft_config
from .model import ModelOptions, Scorer, compute_precision
from .saving import Saving
from .weights import (
    TOKENIZER_FILES,
    VALUE_HEAD,
    FolderWriter,
    copy_rows,
    full,
    is_adapter,
    merged,
    model_weights,
    named_parameters,
    read_into,
    weight_files,
)

OPTIMIZER = "trainer/optimizer"
EMBEDDED_OPTIMIZER = "trainer/optimizer.safetensors"
VALUE_HEAD_FILE = "trainer/value_head.safetensors"
ADAPTER_FILE = "adapter_model.safetensors"


def save(directory: str, scorer: Scorer, adam: Adam | None, options: ModelOptions, group: Group) -> None:
    files = FolderWriter(directory, group)
    collect(files, scorer, options)
    files.commit()
    if adam:
        save_optimizer(Path(directory), adam, group)


def start_save(directory: str, scorer: Scorer, adam: Adam | None, options: ModelOptions, group: Group) -> Saving:
    """Copies the state to host memory and writes it in a thread. Weights are named last, so a folder with a model is
    whole. Exchanges of the thread have a group of their own: those of the main thread go on."""
    files = FolderWriter(directory, group, later=True)
    collect(files, scorer, options)
    partial = empty_partial(Path(directory), group)
    staged = dcp.async_save(adam.state(), storage_writer=writer(partial), process_group=group.saves) if adam else None

    def write() -> None:
        if staged is not None:
            staged.result()
            group.wait_for_saves()
            if group.rank == 0:
                name_optimizer(partial)
        files.finish()
        if files.error:
            raise ConfigError(f"{directory}: cannot be written ({files.error})")

    return Saving(write)


def collect(files: FolderWriter, scorer: Scorer, options: ModelOptions) -> None:
    """Everything but the optimizer's state."""
    if options.lora:
        write_adapter(files, scorer, options)
    else:
        write_config(files, options.path, torch.float32)
        files.model(merged(scorer, torch.float32))
    write_value_head(files, scorer, options)
    files.copy(options.path, TOKENIZER_FILES)


def publish(directory: str, adapter: bool, scorer: Scorer, options: ModelOptions, group: Group) -> None:
    """Weights alone, in the precision of computing, or the adapter alone: what servers load."""
    if adapter and not options.lora:
        raise ConfigError("an adapter was asked for, but the trainer was opened without lora")
    files = FolderWriter(directory, group)
    if adapter:
        write_adapter(files, scorer, options)
    else:
        precision = compute_precision(options, group)
        write_config(files, options.path, precision)
        files.model(merged(scorer, precision))
    files.copy(options.path, TOKENIZER_FILES)
    files.commit()


def load(directory: str, scorer: Scorer, adam: Adam | None, options: ModelOptions) -> None:
    """What `save` wrote. A folder without optimizer state is a plain model: moments begin at zero, and so does a value
    head that it does not have."""
    folder = Path(directory)
    if options.lora:
        config = folder / "adapter_config.json"
        if not config.exists():
            raise ConfigError(f"{config}: no such file")
        check_peft_config(json.loads(config.read_text()), options.lora, str(config))
        adapter = {name: p for name, p in named_parameters(scorer) if is_adapter(name)}
        read_into(adapter, [str(folder / ADAPTER_FILE)], directory, PEFT_PREFIX)
    else:
        read_into(model_weights(scorer), weight_files(directory), directory)
    has_optimizer = (folder / OPTIMIZER / ".metadata").exists()
    read_value_head(directory, scorer, options, needed=has_optimizer)
    if adam is None:
        return
    adam.forget()
    if has_optimizer:
        state = adam.state()
        try:
            dcp.load(state, checkpoint_id=str(folder / OPTIMIZER))
        except CheckpointException as error:
            raise ConfigError(f"{folder / OPTIMIZER}: cannot be read ({error})") from error
        adam.steps = int(state["steps"])
    elif (folder / EMBEDDED_OPTIMIZER).exists():
        raise ConfigError(f"{directory}: its optimizer state was written by the embedded trainer; resume it there")


def read_start(scorer: Scorer, options: ModelOptions) -> None:
    """The weights a model is opened with."""
    read_into(model_weights(scorer), weight_files(options.path), options.path)
    for name, module in scorer.named_modules():
        if isinstance(module, LoraLinear):
            name = name.removeprefix("causal.")
            first, second = module.lora_A.weight, module.lora_B.weight
            start = first_factor(f"{name}.lora_A.weight", first.shape, options.lora.seed)
            copy_rows(first, lambda begin, end: start[begin:end])
            copy_rows(second, lambda begin, end: torch.zeros(end - begin, second.shape[1]))
    read_value_head(options.path, scorer, options, needed=False)


def read_value_head(directory: str, scorer: Scorer, options: ModelOptions, needed: bool) -> None:
    if not options.value_head:
        return
    head = {name: p for name, p in named_parameters(scorer) if name.startswith(VALUE_HEAD)}
    path = Path(directory) / VALUE_HEAD_FILE
    if path.exists() or needed:
        if not path.exists():
            raise ConfigError(f"{path}: no such file")
        read_into(head, [str(path)], directory)
        return
    for parameter in head.values():
        copy_rows(parameter, lambda begin, end: torch.zeros(end - begin, *parameter.shape[1:]))


def write_adapter(files: FolderWriter, scorer: Scorer, options: ModelOptions) -> None:
    tensors = {
        f"{PEFT_PREFIX}{name}": full(p).float().to("cpu", copy=True)
        for name, p in named_parameters(scorer)
        if is_adapter(name)
    }
    files.json("adapter_config.json", peft_config(options.lora, options.path))
    files.tensors(ADAPTER_FILE, tensors)


def write_value_head(files: FolderWriter, scorer: Scorer, options: ModelOptions) -> None:
    if not options.value_head:
        return
    head = {
        name: full(p).float().to("cpu", copy=True) for name, p in named_parameters(scorer) if name.startswith(VALUE_HEAD)
    }
    files.tensors(VALUE_HEAD_FILE, head)


def write_config(files: FolderWriter, model: str, dtype: torch.dtype) -> None:
    """The model's own configuration, with the precision its weights now have."""
    config = json.loads((Path(model) / "config.json").read_text())
    key = "dtype" if "dtype" in config else "torch_dtype"
    files.json("config.json", {**config, key: str(dtype).removeprefix("torch.")})


def save_optimizer(directory: Path, adam: Adam, group: Group) -> None:
    partial = empty_partial(directory, group)
    try:
        dcp.save(adam.state(), storage_writer=writer(partial))
    except CheckpointException as error:  # no Exception: nothing else would tell it to the caller
        raise ConfigError(f"{directory}: the optimizer's state cannot be written ({error})") from error
    group.wait_for_all()
    if group.rank == 0:
        name_optimizer(partial)
    group.wait_for_all()


def writer(directory: Path) -> dcp.FileSystemWriter:
    """With several threads: one writes about a gigabyte a second, and the state has eight bytes a parameter."""
    return dcp.FileSystemWriter(str(directory), thread_count=4)


def empty_partial(directory: Path, group: Group) -> Path:
    """Where the state is written before it is renamed, so that a folder never has half of one."""
    final = directory / OPTIMIZER
    partial = final.with_name(f".{final.name}.partial")
    if group.rank == 0:
        shutil.rmtree(partial, ignore_errors=True)
    group.wait_for_all()
    return partial


def name_optimizer(partial: Path) -> None:
    final = partial.with_name(Path(OPTIMIZER).name)
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
