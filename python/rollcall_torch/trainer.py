"""One model on one rank: the `Trainer` port of Rollcall (src/training/trainer.ts). It knows transformers and no RL."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Callable, TypeVar

import numpy as np
import torch

from . import attention, checkpoint
from .adam import Adam, AdamOptions
from .dealing import MicroBatch, deal
from .errors import Abandoned, ConfigError, OutOfMemory, TrainerError
from .group import Group
from .head import CHUNK_LOGITS, LOGIT_OUTPUTS
from .lora import adapters_off
from .memory import FEWEST_TOKENS, MemoryNeed, ParameterCounts, memory_need, tokens_that_fit
from .model import Batch, ModelOptions, after_failure, build, compute_precision, decoder, reshard, unshard
from .push import Push
from .rows import Row, check_rows, pack
from .saving import Saving
from .weights import four_bit_weights, merged, named_parameters

Arrays = dict[str, np.ndarray]
Result = TypeVar("Result")


@dataclass
class OpenPass:
    """A forward that has not been ended. One micro-batch keeps its activations; of several, they would not fit
    together, so each is computed again in the backward."""

    rows: list[Row]
    outputs: list[str]
    temperature: float
    batches: list[MicroBatch]
    kept: dict[str, torch.Tensor] | None


class Trainer:
    def __init__(self, options: ModelOptions, group: Group, notice: Callable[[str], None]):
        self.options, self.group, self.notice = options, group, notice
        self.scorer = build(options, group)
        checkpoint.read_start(self.scorer, options)
        self.config = self.scorer.causal.config.get_text_config()
        self.vision = getattr(self.scorer.causal.config, "vision_config", None)
        self.adam = Adam(dict(named_parameters(self.scorer)), options.decay, group) if options.trainable else None
        compute = compute_precision(options, group)
        self.way = attention.choose(group.device, compute, options.attention)
        self.trained = sum(p.numel() for p in self.scorer.parameters() if p.requires_grad)
        in_four = [weight.numel() for weight in four_bit_weights(self.scorer).values()]
        self.parameters = sum(p.numel() for p in self.scorer.parameters()) + sum(in_four)
        self.need = self.memory_need(compute.itemsize, in_four)
        # A number that was given, or that memory has once not sufficed for, is not chosen again.
        self.given_tokens = options.tokens
        self.choose_tokens(self.state_to_come)
        self.passes: dict[int, OpenPass] = {}
        self.pass_count = 0
        self.saving: Saving | None = None
        self.pushing: Push | None = None

    @property
    def can(self) -> list[str]:
        more = (["images"] if self.vision else []) + (["value"] if self.options.value_head else []) + (["lora"] if self.options.lora else [])
        return ["entropy", "sumSquares", "temperature", "prefix", *more]

    def score(
        self, rows: list[Row], temperature: float, outputs: list[str], stop: Callable[[], bool], adapter: bool = True
    ) -> Arrays:
        """Outputs at the rows' targets, row by row."""
        self.check_run(rows, temperature, outputs)
        with nullcontext() if adapter else adapters_off(self.scorer):
            return self.fitting(lambda: self.outputs_alone(rows, self.deal(rows), temperature, outputs, stop))

    def forward(
        self, rows: list[Row], temperature: float, outputs: list[str], stop: Callable[[], bool]
    ) -> tuple[int, Arrays]:
        self.check_run(rows, temperature, outputs)
        opened, results = self.fitting(lambda: self.open_pass(rows, temperature, outputs, stop))
        self.pass_count += 1
        self.passes[self.pass_count] = opened
        return self.pass_count, results

    def backward(self, number: int, gradients: Arrays) -> None:
        """Adds dL/dθ to the accumulated gradient. Gradients come in the shape of the outputs."""
        if self.adam is None:
            raise TrainerError("this trainer was opened with trainable: false")
        opened = self.end_pass(number)
        starts = target_starts(opened.rows)
        for name, values in gradients.items():
            if name not in opened.outputs:
                raise TrainerError(f"a gradient by {name} was given, but {name} was not asked for")
            if values.shape != (starts[-1],):
                raise TrainerError(f"gradients by {name} have shape {values.shape}; the pass has {starts[-1]} targets")
        if not gradients or not opened.batches:
            return
        names = list(gradients)
        try:
            for batch in opened.batches:
                results = opened.kept or self.compute(batch, opened.temperature, names)
                places = target_places(batch, starts)
                given = [self.gradient_tensor(gradients[name][places], results[name]) for name in names]
                unshard(self.scorer)  # layers are computed again, and another call may have come between
                torch.autograd.backward([results[name] for name in names], given)
        except torch.OutOfMemoryError as error:
            raise OutOfMemory(self.tokens, error) from error

    def discard(self, number: int) -> None:
        self.end_pass(number)
        reshard(self.scorer)

    def optim_step(self, options: AdamOptions) -> tuple[float, bool]:
        if self.adam is None:
            raise TrainerError("this trainer was opened with trainable: false")
        reshard(self.scorer)
        return self.adam.step(options)

    def publish(self, directory: str, adapter: bool) -> None:
        reshard(self.scorer)
        checkpoint.publish(directory, adapter, self.scorer, self.options, self.group)

    def push(self, servers: list[str], by: str, version: int) -> None:
        reshard(self.scorer)
        if self.pushing is None or (self.pushing.servers, self.pushing.by) != (servers, by):
            self.pushing = Push(servers, by, self.group)
        self.pushing.send(merged(self.scorer, compute_precision(self.options, self.group)), version)

    def save(self, directory: str) -> None:
        reshard(self.scorer)
        checkpoint.save(directory, self.scorer, self.adam, self.options, self.group)

    def start_save(self, directory: str) -> None:
        """Writes what `save` would while later calls are executed; `saved` tells when it is there."""
        if self.saving is not None:
            self.saving.wait()
        reshard(self.scorer)
        self.saving = checkpoint.start_save(directory, self.scorer, self.adam, self.options, self.group)

    def saved(self) -> bool:
        """Whether every rank has written its part. Fails as the writing did."""
        if self.saving is None:
            raise TrainerError("nothing is being saved: startSave comes first")
        if self.group.least(int(self.saving.done)) == 0:
            return False
        error, self.saving = self.saving.error, None
        if self.group.least(int(error is None)) == 0:
            raise ConfigError(f"a checkpoint could not be written: {error or 'see the other ranks'}")
        return True

    def load(self, directory: str) -> None:
        reshard(self.scorer)
        self.passes.clear()
        checkpoint.load(directory, self.scorer, self.adam, self.options)

    # How a call is computed

    def open_pass(
        self, rows: list[Row], temperature: float, outputs: list[str], stop: Callable[[], bool]
    ) -> tuple[OpenPass, Arrays]:
        batches = self.deal(rows)
        if len(batches) != 1 or self.adam is None:
            results = self.outputs_alone(rows, batches, temperature, outputs, stop)
            return OpenPass(rows, outputs, temperature, batches, None), results
        kept = self.compute(batches[0], temperature, outputs)
        return OpenPass(rows, outputs, temperature, batches, kept), self.gather(rows, outputs, [(batches[0], kept)])

    def outputs_alone(
        self,
        rows: list[Row],
        batches: list[MicroBatch],
        temperature: float,
        outputs: list[str],
        stop: Callable[[], bool],
    ) -> Arrays:
        parts = []
        try:
            for batch in batches:
                if self.group.agree(stop()):
                    raise Abandoned
                with torch.no_grad():
                    parts.append((batch, self.compute(batch, temperature, outputs)))
        finally:
            reshard(self.scorer)
        return self.gather(rows, outputs, parts)

    def compute(self, batch: MicroBatch, temperature: float, outputs: list[str]) -> dict[str, torch.Tensor]:
        return self.scorer(Batch.of(pack(batch.rows), self.way, self.group.device, self.vision), temperature, outputs)

    def gather(self, rows: list[Row], outputs: list[str], parts: list[tuple[MicroBatch, dict[str, torch.Tensor]]]) -> Arrays:
        """Every rank's outputs, at their places."""
        starts = target_starts(rows)
        whole = np.zeros((len(outputs), starts[-1]), np.float32)
        for batch, results in parts:
            if batch.indices and outputs:
                values = torch.stack([results[name].detach() for name in outputs]).cpu().numpy()
                whole[:, target_places(batch, starts)] = values
        return dict(zip(outputs, self.group.sum(whole)))

    def deal(self, rows: list[Row]) -> list[MicroBatch]:
        return deal(rows, self.group.size, self.tokens)[self.group.rank]

    def fitting(self, compute: Callable[[], Result]) -> Result:
        """Where memory does not suffice, the call is done again with smaller micro-batches, and so are all later ones.
        With several ranks the others are inside an exchange, so only a new group helps."""
        while True:
            try:
                return compute()
            except torch.OutOfMemoryError as error:
                if self.group.size > 1 or self.tokens <= FEWEST_TOKENS:
                    raise OutOfMemory(self.tokens, error) from error
            self.tokens = self.given_tokens = max(FEWEST_TOKENS, self.tokens // 2)
            after_failure(self.scorer)
            if self.group.device.type == "cuda":
                torch.cuda.empty_cache()
            self.notice(f"out of memory: from now on {self.tokens} tokens are computed at once")

    def gradient_tensor(self, values: np.ndarray, result: torch.Tensor) -> torch.Tensor:
        if len(values) == 0:  # a rank without rows
            return torch.zeros_like(result)
        return torch.from_numpy(np.ascontiguousarray(values)).to(result.device)

    def end_pass(self, number: int) -> OpenPass:
        opened = self.passes.pop(number, None)
        if opened is None:
            raise TrainerError("this pass has ended: backward or discard came before")
        return opened

    def check_run(self, rows: list[Row], temperature: Any, outputs: Any) -> None:
        if not isinstance(temperature, (int, float)) or not 0 < temperature < float("inf"):
            raise TrainerError(f"temperature is {temperature}; a positive number is needed")
        known = (*LOGIT_OUTPUTS, "value")
        if not isinstance(outputs, list) or not outputs or any(name not in known for name in outputs):
            raise TrainerError(f"outputs are {outputs}; one or more of {', '.join(known)} are needed")
        if "value" in outputs and not self.options.value_head:
            raise TrainerError("value was asked for, but this trainer was opened without valueHead")
        if self.vision is None and any(row.pictures for row in rows):
            raise TrainerError("rows show images, but this model has no encoder")
        check_rows(rows, self.config.vocab_size, self.config.max_position_embeddings)

    # Memory

    def memory_need(self, width: int, in_four: list[int]) -> MemoryNeed:
        chunk = CHUNK_LOGITS[self.group.device.type]
        in_layers = [sum(p.numel() for p in layer.parameters()) for layer in decoder(self.scorer.causal).layers]
        total = sum(p.numel() for p in self.scorer.parameters())
        counts = ParameterCounts(
            trained=self.trained,
            frozen=total - self.trained,
            one_layer=max(in_layers),
            outside_layers=total - sum(in_layers),
            four_bits=sum(in_four),
            largest=max(in_four, default=0),
        )
        return memory_need(self.config, counts, self.options, self.group.size, width, chunk)

    @property
    def state_to_come(self) -> float:
        """Bytes of gradient and moments that are not taken yet."""
        return max(0, self.need.state - self.adam.held_bytes()) if self.adam else 0

    def choose_tokens(self, to_come: float) -> None:
        """By what is free; `to_come` is what the models of the group will still take of it for their state."""
        self.tokens = self.given_tokens or tokens_that_fit(self.need, self.group, to_come)

    def rest(self) -> None:
        """Gives back what only passes need. A pass that is open keeps it."""
        reshard(self.scorer)
        if self.scorer.copies and not self.passes:
            self.scorer.copies.drop()


def target_starts(rows: list[Row]) -> np.ndarray:
    """Where each row's targets begin among all targets; the last entry is their number."""
    return np.concatenate([[0], np.cumsum([int(row.targets.sum()) for row in rows])]).astype(np.int64)


def target_places(batch: MicroBatch, starts: np.ndarray) -> np.ndarray:
    parts = [np.arange(starts[index], starts[index + 1]) for index in batch.indices]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
