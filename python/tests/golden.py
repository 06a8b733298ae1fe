"""The repository's goldens: tiny models with numbers computed in float64 by test/golden/engine/make.py."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from rollcall_torch.rows import Row

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "test" / "golden" / "engine"
NAMES = ("llama", "qwen2", "qwen3", "llama-lora")
LORA = {"rank": 3, "alpha": 7, "targets": ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"]}


@dataclass(frozen=True)
class Golden:
    path: str
    rows: list[Row]
    temperature: float
    outputs: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]
    grad_norm: float
    adam: dict[str, float]
    # dL/dθ, and θ after one clipped step.
    gradient: dict[str, np.ndarray]
    after: dict[str, np.ndarray]


def read_golden(name: str) -> Golden:
    path = GOLDEN / name
    told = json.loads((path / "golden.json").read_text())
    rows = [Row(np.array(row["ids"], np.int32), np.array(row["targets"], np.uint8)) for row in told["rows"]]

    def at_targets(per_row: list[dict[str, list[float]]]) -> dict[str, np.ndarray]:
        pick = [row.targets == 1 for row in rows]
        return {
            output: np.concatenate([np.array(values[output], np.float32)[where] for values, where in zip(per_row, pick)])
            for output in per_row[0]
        }

    adam = told["adam"]
    return Golden(
        path=str(path),
        rows=rows,
        temperature=told["temperature"],
        outputs=at_targets(told["outputs"]),
        gradients=at_targets(told["gradients"]),
        grad_norm=told["grad_norm"],
        adam={
            "learningRate": adam["lr"], "beta1": adam["betas"][0], "beta2": adam["betas"][1], "epsilon": adam["eps"],
            "weightDecay": adam["weight_decay"], "clipNorm": told["clip_norm"],
        },
        gradient=plain_names(load_file(path / "gradient.safetensors")),
        after=plain_names(load_file(path / "after.safetensors")),
    )  # fmt: skip


def plain_names(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix("base_model.model."): tensor for name, tensor in tensors.items()}


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """max |a − b| / max |b|: relative to the tensor's own scale."""
    assert actual.shape == expected.shape
    return float(np.abs(actual - expected).max() / max(1e-12, np.abs(expected).max()))
