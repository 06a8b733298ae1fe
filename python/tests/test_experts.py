"""Mixtures of experts against transformers in float64, from files as they are published: one tensor per expert."""

from pathlib import Path

import numpy as np
import pytest
import torch
from client import Worker, WorkerError
from golden import Golden, relative_error
from rollcall_torch.rows import Row
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, MixtralConfig, Qwen3MoeConfig

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
    "num_experts_per_tok": 2,
    "tie_word_embeddings": False,
    "initializer_range": 0.2,
}
CONFIGS = {
    "mixtral": MixtralConfig(**SIZES, intermediate_size=48, num_local_experts=5, sliding_window=None),
    "qwen3_moe": Qwen3MoeConfig(
        **SIZES, intermediate_size=48, moe_intermediate_size=24, num_experts=5, head_dim=8, mlp_only_layers=[0]
    ),
}
TEMPERATURE = 0.8
ADAM = {"learningRate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weightDecay": 0.01, "clipNorm": 1.0}


@pytest.fixture(scope="module", params=CONFIGS)
def golden(request, tmp_path_factory) -> Golden:
    folder = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(5)
    AutoModelForCausalLM.from_config(CONFIGS[request.param], dtype=torch.float32).save_pretrained(folder / "model")
    random = np.random.default_rng(5)
    rows = []
    for length in (9, 14, 6):
        targets = (random.random(length) < 0.6).astype(np.uint8)
        targets[0], targets[-1] = 0, 1
        rows.append(Row(random.integers(0, SIZES["vocab_size"], length).astype(np.int32), targets))
    count = sum(int(row.targets.sum()) for row in rows)
    gradients = {name: random.normal(size=count).astype(np.float32) for name in ("logprob", "entropy")}
    outputs, norm = in_float64(folder, rows, gradients)
    after = load_file(folder / "after" / "model.safetensors")
    return Golden(str(folder / "model"), rows, TEMPERATURE, outputs, gradients, norm, ADAM, {}, after)


def in_float64(folder: Path, rows: list[Row], gradients: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], float]:
    """Outputs and gradient norm by transformers and autograd; the model after one step of torch's AdamW in `after`."""
    model = AutoModelForCausalLM.from_pretrained(
        folder / "model", dtype=torch.float64, attn_implementation="eager", experts_implementation="eager"
    ).eval()
    parts = {"logprob": [], "entropy": []}
    for row in rows:
        logits = model(torch.from_numpy(row.ids).long()[None]).logits[0] / TEMPERATURE
        logprobs = logits.log_softmax(-1)
        at = torch.from_numpy(np.flatnonzero(row.targets))
        predicted = logprobs[at - 1]
        parts["logprob"].append(predicted.gather(1, torch.from_numpy(row.ids).long()[at][:, None])[:, 0])
        parts["entropy"].append(-(predicted.exp() * predicted).sum(-1))
    outputs = {name: torch.cat(values) for name, values in parts.items()}
    sum((outputs[name] * torch.from_numpy(gradients[name]).double()).sum() for name in gradients).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), ADAM["clipNorm"])
    torch.optim.AdamW(
        model.parameters(),
        lr=ADAM["learningRate"],
        betas=(ADAM["beta1"], ADAM["beta2"]),
        eps=ADAM["epsilon"],
        weight_decay=ADAM["weightDecay"],
    ).step()
    model.save_pretrained(folder / "after")
    return {name: values.detach().numpy().astype(np.float32) for name, values in outputs.items()}, float(norm)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_mixture_of_experts_agrees_with_float64_and_is_saved_under_the_names_it_came_with(ranks, golden, tmp_path):
    with Worker(ranks=ranks) as worker:
        worker.call("open", model="policy", options={"path": golden.path})
        scored = worker.score(golden.rows, golden.temperature, list(golden.outputs))
        for output, expected in golden.outputs.items():
            assert relative_error(scored[output], expected) < 1e-5, output
        assert abs(worker.step(golden)["gradNorm"] / golden.grad_norm - 1) < 1e-5
        worker.call("save", model="policy", directory=str(tmp_path))
        found = load_file(tmp_path / "model.safetensors")
        assert found.keys() == golden.after.keys()
        for name, expected in golden.after.items():
            assert relative_error(found[name], expected.astype(np.float32)) < 1e-4, name
        worker.call("load", model="policy", directory=str(tmp_path))


def test_adapters_on_experts_are_refused_and_on_attention_trained(golden):
    with Worker() as worker:
        with pytest.raises(WorkerError, match="name no linear layer"):
            worker.call("open", model="a", options={"path": golden.path, "lora": {"rank": 2, "alpha": 4, "targets": ["w1"]}})
        worker.call(
            "open",
            model="policy",
            options={"path": golden.path, "lora": {"rank": 2, "alpha": 4, "targets": ["q_proj", "v_proj"]}},
        )
        assert worker.step(golden)["gradNorm"] > 0
