"""One rank in this process, against numbers that transformers computed in float64."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from golden import GOLDEN, LORA, NAMES, Golden, read_golden, relative_error

from rollcall_torch.adam import AdamOptions
from rollcall_torch.errors import Abandoned, ConfigError, TrainerError
from rollcall_torch.group import Group
from rollcall_torch.model import ModelOptions, reshard
from rollcall_torch.rows import Row
from rollcall_torch.trainer import Trainer
from rollcall_torch.weights import full, named_parameters


def go_on() -> bool:
    return False


def opened(golden: Golden, name: str, group: Group, **more) -> Trainer:
    options = {"path": golden.path, "value_head": "value" in golden.outputs, **more}
    if name == "llama-lora":
        options["lora"] = LORA
    trainer = Trainer(ModelOptions.parse(options), group, print)
    if name == "llama-lora":
        trainer.load(f"{golden.path}/adapter")
    return trainer


def gradients_of(trainer: Trainer) -> dict[str, np.ndarray]:
    reshard(trainer.scorer)
    return {name: full(p.grad).numpy() for name, p in named_parameters(trainer.scorer) if p.grad is not None}


def step(trainer: Trainer, golden: Golden, adam: AdamOptions | None = None) -> tuple[float, bool]:
    number, _ = trainer.forward(golden.rows, golden.temperature, list(golden.outputs), go_on)
    trainer.backward(number, golden.gradients)
    return trainer.optim_step(adam or AdamOptions.parse(golden.adam))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", [{}, {"recompute": 0.0}, {"tokens": 20}])
def test_outputs_gradients_and_a_clipped_step_agree_with_float64(name: str, how: dict, group: Group):
    golden = read_golden(name)
    trainer = opened(golden, name, group, **how)
    number, outputs = trainer.forward(golden.rows, golden.temperature, list(golden.outputs), go_on)
    scored = trainer.score(golden.rows, golden.temperature, list(golden.outputs), go_on)
    for output, expected in golden.outputs.items():
        assert relative_error(outputs[output], expected) < 1e-5, output
        assert np.array_equal(outputs[output], scored[output])
    trainer.backward(number, golden.gradients)
    found = gradients_of(trainer)
    for parameter, expected in golden.gradient.items():
        assert relative_error(found.get(parameter, np.zeros_like(expected)), expected) < 1e-4, parameter
    norm, skipped = trainer.optim_step(AdamOptions.parse(golden.adam))
    assert abs(norm / golden.grad_norm - 1) < 1e-5 and not skipped
    after = {parameter: full(value).numpy() for parameter, value in named_parameters(trainer.scorer)}
    for parameter, expected in golden.after.items():
        assert relative_error(after[parameter], expected) < 1e-4, parameter


def test_a_gradient_that_is_not_finite_is_cleared_and_not_applied(group: Group):
    golden = read_golden("qwen2")
    trainer = opened(golden, "qwen2", group)
    before = trainer.score(golden.rows, 1.0, ["logprob"], go_on)["logprob"]
    number, _ = trainer.forward(golden.rows, 1.0, ["logprob"], go_on)
    trainer.backward(number, {"logprob": np.full_like(golden.gradients["logprob"], np.nan)})
    norm, skipped = trainer.optim_step(AdamOptions.parse(golden.adam))
    assert np.isnan(norm) and skipped
    assert np.array_equal(trainer.score(golden.rows, 1.0, ["logprob"], go_on)["logprob"], before)
    norm, skipped = step(trainer, golden)
    assert abs(norm / golden.grad_norm - 1) < 1e-5 and not skipped
    assert trainer.adam.steps == 1


def test_a_shared_prompt_computed_once_changes_no_output_and_no_gradient(group: Group):
    golden = read_golden("qwen3")
    random = np.random.default_rng(1)
    prompt = random.integers(0, 37, 30)
    rows = []
    for attempt in range(5):
        ids = np.concatenate([prompt, random.integers(0, 37, 3 + 4 * attempt)]).astype(np.int32)
        targets = np.where(np.arange(len(ids)) < 30 - 2 * (attempt == 0), 0, 1).astype(np.uint8)
        rows.append(Row(ids, targets))
    shared = [rows[0], *(replace(row, prefix_row=0, prefix_length=30) for row in rows[1:])]
    count = sum(int(row.targets.sum()) for row in rows)
    gradients = {"logprob": random.normal(size=count).astype(np.float32)}
    found = []
    for given, tokens in ((rows, None), (shared, None), (shared, 45)):
        trainer = opened(golden, "qwen3", group, tokens=tokens)
        number, outputs = trainer.forward(given, 0.9, ["logprob"], go_on)
        trainer.backward(number, gradients)
        found.append((outputs["logprob"], gradients_of(trainer)))
    for outputs, by_parameter in found[1:]:
        assert relative_error(outputs, found[0][0]) < 1e-5
        for name, gradient in found[0][1].items():
            assert relative_error(by_parameter[name], gradient) < 1e-4, name


@pytest.mark.parametrize("name", ["qwen2", "llama-lora"])
@pytest.mark.parametrize("recompute", [0.0, 1.0])
def test_gradients_of_bf16_passes_are_added_in_f32_whatever_is_called_between(name: str, recompute: float, group: Group):
    golden = read_golden(name)
    trainer = opened(golden, name, group, precision="bfloat16", recompute=recompute)

    def gradients_after(temperatures: tuple[float, ...]) -> dict[str, np.ndarray]:
        for temperature in temperatures:
            number, outputs = trainer.forward(golden.rows, temperature, ["logprob"], go_on)
            assert np.array_equal(trainer.score(golden.rows, temperature, ["logprob"], go_on)["logprob"], outputs["logprob"])
            trainer.backward(number, {"logprob": golden.gradients["logprob"]})
        found = gradients_of(trainer)
        trainer.adam.clear()
        return found

    first, second, both = (gradients_after(temperatures) for temperatures in ((0.9,), (1.3,), (0.9, 1.3)))
    assert any(value.any() for value in first.values())
    for parameter, sum_of_both in both.items():
        assert sum_of_both.dtype == np.float32
        assert np.array_equal(sum_of_both, first[parameter] + second[parameter]), parameter
        rounded = torch.from_numpy(first[parameter]).bfloat16().float().numpy()
        assert np.array_equal(first[parameter], rounded), parameter


def test_bf16_steps_move_f32_weights_by_less_than_bf16_can_tell(group: Group):
    golden = read_golden("qwen2")
    trainer = opened(golden, "qwen2", group, precision="bfloat16")
    before = {name: full(p).clone() for name, p in named_parameters(trainer.scorer)}
    small = AdamOptions.parse({**golden.adam, "learningRate": 1e-6, "weightDecay": 0})
    for _ in range(3):
        step(trainer, golden, small)
    for name, parameter in named_parameters(trainer.scorer):
        moved = (full(parameter) - before[name]).abs().max()
        assert parameter.dtype == torch.float32 and 0 < moved < 1e-5, name
    number, outputs = trainer.forward(golden.rows, golden.temperature, ["logprob"], go_on)
    trainer.discard(number)
    assert relative_error(outputs["logprob"], golden.outputs["logprob"]) < 2e-2


def test_out_of_memory_makes_smaller_micro_batches_and_is_told_once(group: Group, monkeypatch):
    golden = read_golden("llama")
    told: list[str] = []
    trainer = opened(golden, "llama", group, tokens=2048)
    trainer.notice = told.append
    layer = trainer.scorer.causal.base_model.layers[1].mlp
    forward = layer.forward

    def forward_within_memory(x: torch.Tensor) -> torch.Tensor:
        if trainer.tokens > 1024:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(x)

    monkeypatch.setattr(layer, "forward", forward_within_memory)
    scored = trainer.score(golden.rows, golden.temperature, ["logprob"], go_on)
    assert relative_error(scored["logprob"], golden.outputs["logprob"]) < 1e-5
    trainer.score(golden.rows, golden.temperature, ["logprob"], go_on)
    assert told == ["out of memory: from now on 1024 tokens are computed at once"]


def test_what_cannot_be_done_is_refused_in_words(group: Group):
    golden = read_golden("llama")
    reference = opened(golden, "llama", group, trainable=False)
    number, _ = reference.forward(golden.rows, 1.0, ["logprob"], go_on)
    with pytest.raises(TrainerError, match="trainable: false"):
        reference.backward(number, {})
    with pytest.raises(TrainerError, match="trainable: false"):
        reference.optim_step(AdamOptions.parse(golden.adam))
    with pytest.raises(TrainerError, match="temperature is 0"):
        reference.score(golden.rows, 0, ["logprob"], go_on)
    with pytest.raises(TrainerError, match="without valueHead"):
        reference.score(golden.rows, 1.0, ["value"], go_on)
    with pytest.raises(TrainerError, match=r"ids\[1\] is 37; the vocabulary has 37 ids"):
        reference.score([Row(np.array([1, 37], np.int32), np.array([0, 1], np.uint8))], 1.0, ["logprob"], go_on)
    with pytest.raises(Abandoned):
        reference.score(golden.rows, 1.0, ["logprob"], lambda: True)
    with pytest.raises(ConfigError, match="no model configuration"):
        Trainer(ModelOptions.parse({"path": str(GOLDEN / "nowhere")}), group, print)
    with pytest.raises(ConfigError, match="colour is unknown"):
        ModelOptions.parse({"path": golden.path, "colour": "red"})


def test_files_that_hold_quantised_weights_are_refused_in_words(group: Group, tmp_path):
    config = json.loads((Path(read_golden("llama").path) / "config.json").read_text())
    quantised = {**config, "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}
    (tmp_path / "config.json").write_text(json.dumps(quantised))
    with pytest.raises(ConfigError, match="hold quantised are not implemented.*base_bits: 4"):
        Trainer(ModelOptions(path=str(tmp_path)), group, print)
