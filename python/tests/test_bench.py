"""The bench, at the size of a CPU."""

import json
import sys

import pytest
from golden import read_golden

from rollcall_torch import bench
from rollcall_torch.group import Group

SIZES = "--tokens 64 --prompt 8 --reply 4 --attempts 4 --batches 2 --steps 1"


@pytest.fixture
def measure(group: Group, monkeypatch, capsys):
    monkeypatch.setattr(bench, "Group", lambda device: group)
    monkeypatch.setattr(group, "close", lambda: None)

    def run(flags: str) -> dict:
        words = f"bench --model {read_golden('qwen3').path} {SIZES} {flags}"
        monkeypatch.setattr(sys, "argv", words.split())
        bench.main()
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return run


def test_adapters_are_measured_on_a_base_in_full_and_in_four_bits(measure):
    whole, adapted, in_four = (measure(flags) for flags in ("", "--lora-rank 2", "--lora-rank 2 --base-bits 4"))
    assert whole["trained"] == whole["parameters"]
    assert 0 < adapted["trained"] == in_four["trained"] < whole["trained"]
    assert adapted["parameters"] == in_four["parameters"] == whole["parameters"] + adapted["trained"]
    # New adapters add nothing; four bits move what is said.
    assert adapted["logprob"] == whole["logprob"] != in_four["logprob"]
    for found in (whole, adapted, in_four):
        assert found["tokensPerSecond"] > 0 and found["gradientNorm"] > 0
