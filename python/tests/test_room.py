"""What a model may compute at once follows the memory that is free: other models of the group come, go and take state, and a
server on the same device sleeps and wakes. A device of this size is pretended; what is on it is counted in live tensors."""

import gc
import weakref

import pytest
import torch
from client import as_arrays
from golden import LORA, read_golden
from safetensors.torch import load_file

from rollcall_torch import memory
from rollcall_torch.calls import Calls
from rollcall_torch.four_bits import BYTES_PER_WEIGHT
from rollcall_torch.frames import Frame
from rollcall_torch.group import Group


def live_bytes() -> int:
    """Of what was made since `gc.freeze`."""
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor) and thing.device.type == "cpu"]
    tensors += [tensor.grad for tensor in tensors if tensor.is_leaf and tensor.grad is not None]
    return sum({tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}.values())


class Device:
    """`free` is less by what a server on it takes."""

    def __init__(self, group: Group):
        self.calls = Calls(group, print)
        self.server = 0

    @property
    def used(self) -> int:
        return live_bytes()

    def free(self, group: Group) -> int:
        return 100_000_000 - self.server - self.used

    def call(self, call: str, rows=None, **params):
        header = {"call": call, "params": params}
        return self.calls.execute(Frame(header, as_arrays(rows) if rows else {}), lambda: False).header["reply"]

    def open(self, model: str, name: str = "qwen3", **options) -> int:
        return self.call("open", model=model, options={"path": read_golden(name).path, **options})["tokens"]

    def score(self, model: str = "policy") -> int:
        rows = read_golden("qwen3").rows
        return self.call("score", rows, model=model, temperature=1.0, outputs=["logprob"])["tokens"]

    def step(self, model: str = "policy") -> None:
        self.begin(model)
        self.backward(model, 1)
        self.call("optimStep", model=model, adam=read_golden("qwen3").adam)

    def begin(self, model: str) -> None:
        rows = read_golden("qwen3").rows
        self.call("forward", rows, model=model, temperature=1.0, outputs=["logprob"])

    def backward(self, model: str, number: int) -> None:
        self.calls.trainers[model].backward(number, {"logprob": read_golden("qwen3").gradients["logprob"]})


@pytest.fixture
def device(group: Group, monkeypatch):
    gc.collect()
    gc.freeze()
    device = Device(group)
    monkeypatch.setattr(memory, "free_bytes", device.free)
    yield device
    gc.unfreeze()


def test_a_model_that_opens_takes_room_from_the_others_and_gives_it_back_when_it_closes(device: Device):
    alone = device.open("policy")
    used = device.used
    assert memory.FEWEST_TOKENS < alone < memory.MOST_TOKENS
    device.open("reference", trainable=False)
    with_reference = device.score()
    device.open("critic", value_head=True)
    with_both = device.score()
    assert with_both < with_reference < alone
    # A reference has weights alone, a critic gradients and moments too: three more of each.
    assert (with_reference - with_both) / (alone - with_reference) == pytest.approx(4, abs=0.5)
    for model in ("critic", "reference"):
        device.call("close", model=model)
    assert device.used == used
    assert device.score() == alone


def test_a_closed_model_is_gone_at_once(device: Device):
    device.open("policy")
    weights = [weakref.ref(weight) for weight in device.calls.trainers["policy"].scorer.parameters()]
    gc.disable()
    try:
        device.call("close", model="policy")
    finally:
        gc.enable()
    assert not any(weight() is not None for weight in weights)


def test_state_that_is_taken_as_foreseen_changes_nothing(device: Device):
    alone = device.open("policy")
    used = device.used
    device.step()
    assert device.used > used
    device.call("rest", model="policy")
    assert device.score() == alone


def test_a_model_that_rests_gives_back_its_copies_and_sees_what_a_server_left(device: Device):
    device.server = 20_000_000
    beside = device.open("policy", precision="bfloat16")
    used = device.used
    device.score()
    assert device.used > used
    device.server = 0  # it sleeps
    device.call("rest", model="policy")
    assert device.used == used
    assert device.score() > beside
    device.server = 20_000_000
    device.call("rest", model="policy")
    assert device.score() == beside


def test_models_rest_while_another_one_computes_and_a_pass_that_is_open_keeps_what_it_needs(device: Device):
    device.open("policy", precision="bfloat16")
    device.open("critic", precision="bfloat16", value_head=True)
    used = device.used
    device.score("policy")
    copies = device.used - used
    assert copies > 0
    device.score("critic")
    assert device.used - used < 1.1 * copies
    adam = device.calls.trainers["policy"].adam
    norms = []
    for number, between in ((1, "critic"), (2, "policy")):
        device.begin("policy")
        device.score(between)
        device.backward("policy", number)
        norms.append(adam.norm([adam.gradient(name) for name in adam.parameters]))
        adam.clear()
    assert norms[0] == norms[1] > 0


def test_tokens_that_were_given_or_did_not_fit_are_not_chosen_again(device: Device, monkeypatch):
    assert device.open("policy", tokens=2000) == 2000
    device.open("critic")
    assert device.score() == 2000
    policy = device.calls.trainers["policy"]
    layer = policy.scorer.causal.base_model.layers[0].mlp
    inner = layer.forward

    def forward_within_memory(x: torch.Tensor) -> torch.Tensor:
        if policy.tokens > 1000:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return inner(x)

    monkeypatch.setattr(layer, "forward", forward_within_memory)
    assert device.score() == 1000
    device.call("close", model="critic")
    device.call("rest", model="policy")
    assert device.score() == 1000


def test_a_base_in_four_bits_takes_less(device: Device):
    lora = {"name": "llama-lora", "lora": LORA, "precision": "bfloat16"}
    used = []
    for bits in ({}, {"base_bits": 4}):
        before = device.used
        device.open("policy", **lora, **bits)
        used.append(device.used - before)
        device.call("close", model="policy")
    in_linear_layers = sum(weight.numel() for weight in layers_of(read_golden("llama-lora").path))
    # Blocks that a matrix does not fill cost a little more.
    assert used[0] - used[1] == pytest.approx((2 - BYTES_PER_WEIGHT) * in_linear_layers, rel=0.2)


def layers_of(path: str) -> list[torch.Tensor]:
    tensors = load_file(f"{path}/model.safetensors")
    return [tensor for name, tensor in tensors.items() if ".layers." in name and tensor.dim() == 2]
