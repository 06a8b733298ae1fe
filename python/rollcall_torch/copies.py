"""One rank has nothing to shard: its passes see copies of the trained weights in the precision of computing, and what a
backward finds for a copy is added at once to the f32 gradient of the weight."""

from functools import partial

import torch
from torch import nn


class Copies:
    """Weights that are computed with as they are, frozen ones or all in f32, have none."""

    def __init__(self, model: nn.Module, compute: torch.dtype):
        self.compute = compute
        # Where each weight stands: a tied head is its embedding, with one copy for both.
        self.places: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}
        for module in model.modules():
            for name, weight in module.named_parameters(recurse=False):
                if weight.requires_grad and weight.dtype != compute:
                    self.places.setdefault(weight, []).append((module, name))
        # Made by the first pass and kept, so that a pass that is open goes on with them.
        self.copies: list[nn.Parameter] = []
        self.in_place = False

    def put(self) -> None:
        """Copies stand in the model, as the weights now are."""
        if self.in_place or not self.places:
            return
        if not self.copies:
            self.copies = [self.copy_of(weight) for weight in self.places]
        # `.data`: autograd would take a copy that is filled again for one whose values were changed.
        torch._foreach_copy_([copy.data for copy in self.copies], [weight.data for weight in self.places])
        self.stand(self.copies)
        self.in_place = True

    def take_away(self) -> None:
        """The weights themselves stand in the model: the optimizer, files and servers see them by its names."""
        if self.in_place:
            self.stand(list(self.places))
            self.in_place = False

    def drop(self) -> None:
        """Gives their memory back; the next pass makes new ones. None may be open."""
        self.take_away()
        self.copies = []

    def stand(self, parameters: list[nn.Parameter]) -> None:
        for parameter, places in zip(parameters, self.places.values()):
            for module, name in places:
                setattr(module, name, parameter)

    def copy_of(self, weight: nn.Parameter) -> nn.Parameter:
        copy = nn.Parameter(torch.empty_like(weight, dtype=self.compute))
        copy.register_post_accumulate_grad_hook(partial(add_gradient, weight))
        return copy


def add_gradient(weight: nn.Parameter, copy: nn.Parameter) -> None:
    if weight.grad is None:
        weight.grad = copy.grad.to(weight.dtype)
    else:
        weight.grad += copy.grad
    copy.grad = None
