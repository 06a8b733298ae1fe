"""AdamW over the shards of this rank, with torch's formula. Moments are f32."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.adamw import adamw

from .errors import TrainerError
from .group import Group
from .weights import local


@dataclass(frozen=True)
class AdamOptions:
    learningRate: float
    beta1: float
    beta2: float
    epsilon: float
    weightDecay: float
    # Global-norm clipping; 0 is off.
    clipNorm: float

    @staticmethod
    def parse(given: dict[str, Any]) -> "AdamOptions":
        def right(name: str, fits: Any) -> float:
            value = given.get(name)
            if not isinstance(value, (int, float)) or not math.isfinite(value) or not fits(value):
                raise TrainerError(f"optimStep: {name} is {value}, out of its range")
            return float(value)

        return AdamOptions(
            right("learningRate", lambda x: x >= 0),
            right("beta1", lambda x: 0 <= x < 1),
            right("beta2", lambda x: 0 <= x < 1),
            right("epsilon", lambda x: x > 0),
            right("weightDecay", lambda x: x >= 0),
            right("clipNorm", lambda x: x >= 0),
        )


class Adam:
    def __init__(self, parameters: dict[str, nn.Parameter], decay: str, group: Group):
        self.parameters = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
        self.decay = decay
        self.group = group
        self.steps = 0
        self.moments: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def step(self, options: AdamOptions) -> tuple[float, bool]:
        """Clips by global norm as torch does, steps, clears the gradient. A gradient that is not finite is cleared and
        not applied. Returns the norm and whether the step was skipped."""
        gradients = {name: self.gradient(name) for name in self.parameters}
        norm = self.norm(list(gradients.values()))
        skipped = not math.isfinite(norm)
        if not skipped:
            if options.clipNorm > 0 and options.clipNorm < norm + 1e-6:
                torch._foreach_mul_(list(gradients.values()), options.clipNorm / (norm + 1e-6))
            self.steps += 1
            self.allocate()
            decayed = [name for name, p in self.parameters.items() if self.decay == "all" or p.dim() > 1]
            rest = [name for name in self.parameters if name not in set(decayed)]
            self.apply(decayed, gradients, options, options.weightDecay)
            self.apply(rest, gradients, options, 0.0)
        self.clear()
        return norm, skipped

    def gradient(self, name: str) -> torch.Tensor:
        """What no output depended on has a gradient of zero: its moments fade and decay acts on it all the same."""
        parameter = self.parameters[name]
        return torch.zeros_like(local(parameter)) if parameter.grad is None else local(parameter.grad)

    def norm(self, gradients: list[torch.Tensor]) -> float:
        filled = [gradient for gradient in gradients if gradient.numel()]
        device = self.group.device if not filled else filled[0].device
        squares = torch.zeros((), dtype=torch.float64, device=device)
        if filled:
            squares = torch.stack(torch._foreach_norm(filled)).double().square().sum()
        if self.group.size > 1:
            dist.all_reduce(squares)
        return math.sqrt(squares.item()) if math.isfinite(squares.item()) else squares.item()

    def allocate(self) -> None:
        """On the first step: until then the memory is the forward's."""
        for name, parameter in self.parameters.items():
            if name not in self.moments:
                zeros = parameter.detach()
                self.moments[name] = (torch.zeros_like(zeros), torch.zeros_like(zeros))

    def apply(self, names: list[str], gradients: dict[str, torch.Tensor], options: AdamOptions, decay: float) -> None:
        names = [name for name in names if gradients[name].numel()]
        if not names:
            return
        device = gradients[names[0]].device
        # `adamw` adds one to each of these before it uses them.
        steps = torch.full((len(names),), float(self.steps - 1), device=device).unbind()
        adamw(
            [local(self.parameters[name]) for name in names],
            [gradients[name] for name in names],
            [local(self.moments[name][0]) for name in names],
            [local(self.moments[name][1]) for name in names],
            [],
            list(steps),
            fused=True,
            amsgrad=False,
            beta1=options.beta1,
            beta2=options.beta2,
            lr=options.learningRate,
            weight_decay=decay,
            eps=options.epsilon,
            maximize=False,
        )

    def clear(self) -> None:
        for parameter in self.parameters.values():
            parameter.grad = None

    def state(self) -> dict[str, torch.Tensor]:
        """As it is written: sharded tensors that can be read back on another number of ranks."""
        self.allocate()
        state = {"steps": torch.tensor(self.steps)}
        for name, (first, second) in self.moments.items():
            state[f"moment1.{name}"], state[f"moment2.{name}"] = first, second
        return state

    def held_bytes(self) -> int:
        """Of gradients and moments, on this rank."""
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        moments = [moment for both in self.moments.values() for moment in both]
        return sum(local(tensor).nbytes for tensor in (*gradients, *moments))

    def forget(self) -> None:
        self.steps = 0
        self.moments = {}
        self.clear()
