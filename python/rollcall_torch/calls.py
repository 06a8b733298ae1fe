"""The protocol's calls. Every rank executes each of them, in the order rank 0 received them."""

import gc
from dataclasses import replace
from typing import Any, Callable

import torch

from . import __version__
from .adam import AdamOptions
from .errors import ConfigError, TrainerError
from .frames import PROTOCOL, Frame
from .group import Group
from .model import ModelOptions
from .rows import rows_from
from .trainer import Trainer

Stop = Callable[[], bool]


class Calls:
    """The models of a worker group, by name: policy, reference and critic are three."""

    def __init__(self, group: Group, notice: Callable[[str], None], most_tokens: int | None = None):
        self.group, self.notice = group, notice
        # Set when a group is started again after it ran out of memory.
        self.most_tokens = most_tokens
        self.trainers: dict[str, Trainer] = {}
        # Models that are another one with its adapter off.
        self.views: dict[str, str] = {}
        # The last model with a pass; others rest.
        self.computing: str | None = None
        # Somebody else's memory may have come or gone.
        self.memory_changed = False

    def execute(self, frame: Frame, stop: Stop) -> Frame:
        """The reply, without its id."""
        call, params = frame.header.get("call"), frame.header.get("params", {})
        method = getattr(self, f"call_{call}", None) if isinstance(call, str) else None
        if method is None:
            raise TrainerError(f"call {call!r} is unknown")
        reply = method(params, frame, stop)
        return reply if isinstance(reply, Frame) else Frame({"reply": reply})

    def call_open(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        name, base = params.get("model"), params.get("base")
        if not isinstance(name, str) or name in self.trainers or name in self.views:
            raise TrainerError(f"model {name!r} cannot be opened: a name that is not open yet is needed")
        if base is not None:
            if base not in self.trainers or not self.trainers[base].options.lora:
                raise ConfigError(f"base {base!r} is not an open model with an adapter")
            self.views[name] = base
            trainer = self.trainers[base]
            can = [what for what in trainer.can if what not in ("value", "lora")]
        else:
            options = ModelOptions.parse(params.get("options", {}))
            if self.most_tokens is not None:
                options = replace(options, tokens=min(options.tokens or self.most_tokens, self.most_tokens))
            self.rest_all()
            trainer = self.trainers[name] = Trainer(options, self.group, self.notice)
            self.choose_tokens()
            can = trainer.can
        return {
            "can": can,
            "tokens": trainer.tokens * self.group.size,
            "parameters": trainer.parameters,
            "trained": 0 if base else trainer.trained,
            "contextTokens": trainer.config.max_position_embeddings,
            "attention": trainer.way,
        }

    def call_score(self, params: dict[str, Any], frame: Frame, stop: Stop) -> Frame:
        name = params.get("model")
        trainer = self.for_pass(self.views.get(name, name))
        rows = rows_from(frame.arrays)
        outputs = trainer.score(rows, params.get("temperature"), params.get("outputs"), stop, adapter=name not in self.views)
        return Frame({"reply": {"tokens": trainer.tokens * self.group.size}}, outputs)

    def call_forward(self, params: dict[str, Any], frame: Frame, stop: Stop) -> Frame:
        trainer = self.for_pass(params.get("model"))
        rows = rows_from(frame.arrays)
        number, outputs = trainer.forward(rows, params.get("temperature"), params.get("outputs"), stop)
        return Frame({"reply": {"pass": number, "tokens": trainer.tokens * self.group.size}}, outputs)

    def call_backward(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        self.for_pass(params.get("model")).backward(params.get("pass"), frame.arrays)
        return {}

    def call_discard(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        self.trainer(params.get("model")).discard(params.get("pass"))
        return {}

    def call_optimStep(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        norm, skipped = self.trainer(params.get("model")).optim_step(AdamOptions.parse(params.get("adam", {})))
        # JSON has no word for what is not finite.
        return {"gradNorm": norm if not skipped else str(norm), "skipped": skipped}

    def call_publish(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        self.trainer(params.get("model")).publish(text(params, "directory"), bool(params.get("adapter")))
        return {}

    def call_push(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        servers, version = params.get("servers"), params.get("version")
        if not isinstance(servers, list) or not servers or type(version) is not int:
            raise TrainerError(
                f"push: servers are {servers!r} and version is {version!r}; addresses and a number are needed"
            )
        self.trainer(params.get("model")).push(servers, params.get("by", "memory"), version)
        return {}

    def call_save(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        self.trainer(params.get("model")).save(text(params, "directory"))
        return {}

    def call_startSave(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        self.trainer(params.get("model")).start_save(text(params, "directory"))
        return {}

    def call_saved(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        return {"written": self.trainer(params.get("model")).saved()}

    def call_load(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        self.trainer(params.get("model")).load(text(params, "directory"))
        return {}

    def call_memory(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        """The most bytes of its device that rank 0 ever held."""
        on_cuda = self.group.device.type == "cuda"
        return {"peakBytes": torch.cuda.max_memory_allocated() if on_cuda else 0}

    def call_close(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        name = params.get("model")
        if self.views.pop(name, None) is None:
            self.trainer(name)
            del self.trainers[name]
            gc.collect()  # layers that are computed again refer to themselves
            self.choose_tokens()
        return {}

    def call_rest(self, params: dict[str, Any], frame: Frame, stop: Stop) -> dict[str, Any]:
        """Gives memory back that only passes need. The next pass of any model chooses anew by what is free then."""
        self.rest_all()
        gc.collect()
        if self.group.device.type == "cuda":
            torch.cuda.empty_cache()
        self.memory_changed = True
        return {}

    def for_pass(self, name: Any) -> Trainer:
        """The model, while the others rest: passes of one model run at a time, beside the state of all."""
        trainer = self.trainer(name)
        if self.computing != name:
            for other, resting in self.trainers.items():
                if other != name:
                    resting.rest()
            self.computing = name
        if self.memory_changed:
            self.choose_tokens()
        return trainer

    def rest_all(self) -> None:
        for trainer in self.trainers.values():
            trainer.rest()
        self.computing = None

    def choose_tokens(self) -> None:
        """For every model by what is free now."""
        self.memory_changed = False
        self.rest_all()
        to_come = sum(trainer.state_to_come for trainer in self.trainers.values())
        for trainer in self.trainers.values():
            trainer.choose_tokens(to_come)

    def trainer(self, name: Any) -> Trainer:
        trainer = self.trainers.get(name)
        if trainer is None:
            raise TrainerError(f"model {name!r} is not open")
        return trainer


def text(params: dict[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise TrainerError(f"{name} is {value!r}; a text is needed")
    return value


def welcome(group: Group) -> dict[str, Any]:
    """What the worker says to `hello`."""
    import transformers

    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "ranks": group.size,
        "device": torch.cuda.get_device_name() if group.device.type == "cuda" else "cpu",
    }
