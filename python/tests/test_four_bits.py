"""A base in four bits against the published quantiles, bitsandbytes, and dense layers of the same values."""

import numpy as np
import pytest
import torch
from client import Worker
from golden import LORA, Golden, read_golden, relative_error
from safetensors.numpy import load_file

from rollcall_torch.adam import AdamOptions
from rollcall_torch.errors import ConfigError
from rollcall_torch.four_bits import BLOCK, CHUNK, NF4, FourBitLinear, dequantise, quantise
from rollcall_torch.group import Group
from rollcall_torch.memory_table import LORA as LORA_32
from rollcall_torch.memory_table import need_of
from rollcall_torch.model import ModelOptions
from rollcall_torch.trainer import Trainer
from rollcall_torch.weights import four_bit_weights, merged


def go_on() -> bool:
    return False


def there_and_back(weight: torch.Tensor) -> torch.Tensor:
    return dequantise(*quantise(weight), weight.shape, torch.float32)


def linear(rows: int, columns: int) -> FourBitLinear:
    base = torch.nn.Linear(columns, rows).requires_grad_(False)
    layer = FourBitLinear(base)
    layer.weight.fill(base.weight)
    return layer


def test_the_values_are_the_quantiles_that_the_paper_describes():
    # Eight negative and nine positive ones with a common zero, from this share of the distribution (bitsandbytes'
    # create_normal_map): the mean of the shares at which a code of 15 and one of 16 values would end.
    end = 0.5 * ((1 - 1 / 30) + (1 - 1 / 32))
    quantile = torch.special.ndtri
    positive = quantile(torch.linspace(end, 0.5, 9, dtype=torch.float64)[:-1])
    negative = -quantile(torch.linspace(end, 0.5, 8, dtype=torch.float64)[:-1])
    values = torch.cat([positive, torch.zeros(1), negative]).sort().values
    assert torch.allclose(values / values.max(), torch.tensor(NF4, dtype=torch.float64), atol=2e-7)


@pytest.mark.parametrize("shape", [(64, 64), (3, 576), (5, 7), (1, 1)])
def test_each_weight_becomes_the_nearest_value_of_its_block(shape: tuple[int, int]):
    torch.manual_seed(1)
    weight = torch.randn(shape)
    found = there_and_back(weight).reshape(-1)
    for at, block in enumerate(weight.reshape(-1).split(BLOCK)):
        choices = torch.tensor(NF4) * block.abs().max()
        nearest = choices[(block.unsqueeze(1) - choices).abs().argmin(1)]
        assert torch.equal(found[at * BLOCK : at * BLOCK + len(block)], nearest)


def test_a_block_of_zeros_stays_zero_and_values_of_four_bits_stay_as_they_are():
    assert not there_and_back(torch.zeros(2, 64)).any()
    torch.manual_seed(2)
    once = there_and_back(torch.randn(48, 80))
    assert torch.equal(there_and_back(once), once)


def test_a_matrix_of_several_chunks_is_its_parts():
    torch.manual_seed(3)
    weight = torch.randn(2 * CHUNK // 4096 + 3, 4096)
    parts = torch.cat([there_and_back(part) for part in weight.split(1000)])
    assert torch.equal(there_and_back(weight), parts)


def test_codes_scales_and_values_are_those_of_bitsandbytes():
    functional = pytest.importorskip("bitsandbytes.functional")
    torch.manual_seed(4)
    weight = torch.randn(96, 320)
    theirs, state = functional.quantize_4bit(weight, blocksize=BLOCK, quant_type="nf4")
    codes, scales = quantise(weight)
    assert torch.equal(codes, theirs.reshape(-1))
    assert torch.equal(scales, state.absmax)
    assert torch.equal(there_and_back(weight), functional.dequantize_4bit(theirs, state))


def test_a_product_and_its_gradients_are_those_of_the_dense_layer():
    torch.manual_seed(5)
    layer = linear(48, 80)
    x = torch.randn(2, 7, 80, requires_grad=True)
    given = torch.randn(2, 7, 48)
    dense = torch.nn.functional.linear(x, layer.weight.dense(torch.float32), layer.bias)
    (expected,) = torch.autograd.grad(dense, x, given)
    found = layer(x)
    assert torch.allclose(found, dense, atol=1e-5)
    (gradient,) = torch.autograd.grad(found, x, given)
    assert torch.allclose(gradient, expected, atol=1e-5)
    assert torch.autograd.gradcheck(layer.double().weight, (torch.randn(3, 80, dtype=torch.float64, requires_grad=True),))


def test_autograd_keeps_codes_and_no_matrix():
    layer = linear(256, 256)
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        layer(torch.randn(1, 256, requires_grad=True))
    assert sum(tensor.nbytes for tensor in kept) < 256 * 256


def policy(path: str, group: Group, **more) -> Trainer:
    return Trainer(ModelOptions.parse({"path": path, "lora": LORA, **more}), group, print)


def dense_copy(golden: Golden, folder, group: Group) -> str:
    """A model folder with the values that four bits have, in f32."""
    policy(golden.path, group, base_bits=4).publish(str(folder), adapter=False)
    return str(folder)


def take_step(trainer: Trainer, golden: Golden) -> tuple[dict[str, np.ndarray], float]:
    number, outputs = trainer.forward(golden.rows, golden.temperature, list(golden.outputs), go_on)
    trainer.backward(number, golden.gradients)
    return outputs, trainer.optim_step(AdamOptions.parse(golden.adam))[0]


@pytest.mark.parametrize("recompute", [0.0, 1.0])
def test_a_step_on_four_bits_is_that_on_a_dense_model_of_the_same_values(recompute: float, group: Group, tmp_path):
    golden = read_golden("llama-lora")
    found = policy(golden.path, group, base_bits=4, recompute=recompute)
    expected = policy(dense_copy(golden, tmp_path / "dense", group), group, recompute=recompute)
    assert found.parameters == expected.parameters and found.trained == expected.trained
    assert len(four_bit_weights(found.scorer)) == 7 * len(found.scorer.causal.base_model.layers)
    results = []
    for trainer in (found, expected):
        trainer.load(f"{golden.path}/adapter")
        steps = [take_step(trainer, golden) for _ in range(3)]
        results.append((steps, dict(merged(trainer.scorer, torch.float32))))
    (in_four, weights), (dense, dense_weights) = results
    for (outputs, norm), (dense_outputs, dense_norm) in zip(in_four, dense):
        assert norm == pytest.approx(dense_norm, rel=1e-5)
        for output, values in dense_outputs.items():
            assert relative_error(outputs[output], values) < 1e-5, output
    for name, values in dense_weights.items():
        assert torch.allclose(weights[name], values, atol=1e-6), name


def test_a_checkpoint_holds_the_adapter_and_is_read_back(group: Group, tmp_path):
    golden = read_golden("llama-lora")
    trainer = policy(golden.path, group, base_bits=4)
    trainer.load(f"{golden.path}/adapter")
    take_step(trainer, golden)
    trainer.save(str(tmp_path / "saved"))
    assert not (tmp_path / "saved" / "model.safetensors").exists()
    resumed = policy(golden.path, group, base_bits=4)
    resumed.load(str(tmp_path / "saved"))
    for each in (trainer, resumed):
        take_step(each, golden)
    scores = [each.score(golden.rows, 1.0, ["logprob"], go_on)["logprob"] for each in (trainer, resumed)]
    assert np.array_equal(*scores)


def test_two_ranks_hold_the_same_codes_and_take_the_same_step(group: Group, tmp_path):
    golden = read_golden("llama-lora")
    alone = policy(golden.path, group, base_bits=4)
    outputs, norm = take_step(alone, golden)
    alone.publish(str(tmp_path / "alone"), adapter=True)
    alone.publish(str(tmp_path / "alone-merged"), adapter=False)
    with Worker(ranks=2) as worker:
        worker.call("open", model="policy", options={"path": golden.path, "lora": LORA, "base_bits": 4})
        scored = worker.score(golden.rows, golden.temperature, list(golden.outputs))
        for output, values in outputs.items():
            assert relative_error(scored[output], values) < 1e-5, output
        assert worker.step(golden)["gradNorm"] == pytest.approx(norm, rel=1e-5)
        worker.call("publish", model="policy", directory=str(tmp_path / "two"), adapter=True)
        worker.call("publish", model="policy", directory=str(tmp_path / "two-merged"), adapter=False)
    for folder, name in (("", "adapter_model.safetensors"), ("-merged", "model.safetensors")):
        found, expected = (load_file(tmp_path / f"{who}{folder}" / name) for who in ("two", "alone"))
        assert found.keys() == expected.keys()
        for tensor, values in expected.items():
            assert np.allclose(found[tensor], values, atol=1e-6), tensor


def test_what_four_bits_cannot_be_combined_with_is_refused_in_words(group: Group):
    golden = read_golden("llama-lora")
    with pytest.raises(ConfigError, match="needs lora"):
        ModelOptions.parse({"path": golden.path, "base_bits": 4})
    with pytest.raises(ConfigError, match="base_bits is 8; 4 is implemented"):
        policy(golden.path, group, base_bits=8)
    for other in ("offload", "compile"):
        with pytest.raises(ConfigError, match=f"not implemented with {other}"):
            policy(golden.path, group, base_bits=4, **{other: True})


def test_the_estimate_counts_codes_once_on_every_card():
    for ranks in (1, 4):
        dense, in_four = need_of("7B", ranks, lora=LORA_32), need_of("7B", ranks, lora=LORA_32, base_bits=4)
        # 6.53 of 7.62 billion weights are in linear layers of the decoder.
        assert in_four.weights - 0.5625 * 6.53e9 == pytest.approx(dense.weights - 2 * 6.53e9 / ranks, rel=0.01)
        assert in_four.state == dense.state
