"""Workers in separate processes, over the protocol: one, two and four ranks are one trainer."""

import os
import signal

import numpy as np
import pytest
from client import Worker, WorkerError
from golden import LORA, NAMES, Golden, read_golden, relative_error
from safetensors.numpy import load_file


def open_policy(worker: Worker, golden: Golden, **more) -> None:
    worker.call("open", model="policy", options={"path": golden.path, "value_head": "value" in golden.outputs, **more})


def weights_of(worker: Worker, directory, golden: Golden) -> dict[str, np.ndarray]:
    worker.call("save", model="policy", directory=str(directory))
    found = load_file(directory / "model.safetensors")
    head = directory / "trainer" / "value_head.safetensors"
    return {**found, **(load_file(head) if head.exists() else {})}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "llama-lora"])
def test_two_ranks_agree_with_float64(name: str, tmp_path):
    golden = read_golden(name)
    with Worker(ranks=2) as worker:
        assert worker.welcome["ranks"] == 2
        open_policy(worker, golden)
        scored = worker.score(golden.rows, golden.temperature, list(golden.outputs))
        for output, expected in golden.outputs.items():
            assert relative_error(scored[output], expected) < 1e-5
        told = worker.step(golden)
        assert abs(told["gradNorm"] / golden.grad_norm - 1) < 1e-5
        found = weights_of(worker, tmp_path, golden)
        for parameter, expected in golden.after.items():
            assert relative_error(found[parameter], expected) < 1e-4, parameter


def test_a_checkpoint_goes_from_one_rank_to_two_to_four_to_one(tmp_path):
    golden = read_golden("qwen3")
    with Worker() as alone:
        open_policy(alone, golden)
        for _ in range(5):
            alone.step(golden)
        expected = weights_of(alone, tmp_path / "alone", golden)
    folder = None
    for number, (ranks, steps) in enumerate(((1, 1), (2, 1), (4, 2), (1, 1))):
        with Worker(ranks=ranks) as worker:
            open_policy(worker, golden)
            if folder:
                worker.call("load", model="policy", directory=str(folder))
            for _ in range(steps):
                worker.step(golden)
            folder = tmp_path / f"{number}-{ranks}-ranks"
            found = weights_of(worker, folder, golden)
    for name, value in expected.items():
        assert relative_error(found[name], value) < 1e-5, name


def test_a_resumed_rank_takes_the_very_same_next_steps(tmp_path):
    golden = read_golden("qwen3")
    with Worker() as worker:
        open_policy(worker, golden)
        worker.step(golden)
        worker.call("save", model="policy", directory=str(tmp_path / "saved"))
        for _ in range(3):
            worker.step(golden)
        straight = weights_of(worker, tmp_path / "straight", golden)
    with Worker() as worker:
        open_policy(worker, golden)
        worker.step(golden)  # something to forget
        worker.call("load", model="policy", directory=str(tmp_path / "saved"))
        for _ in range(3):
            worker.step(golden)
        resumed = weights_of(worker, tmp_path / "resumed", golden)
    for name, value in straight.items():
        assert np.array_equal(resumed[name], value), name


def test_an_adapter_on_two_ranks_has_its_reference_and_is_published_alone(tmp_path):
    golden = read_golden("llama-lora")
    with Worker(ranks=2) as worker:
        open_policy(worker, golden, lora=LORA)
        worker.call("open", model="reference", base="policy")
        worker.call("open", model="critic", options={"path": golden.path, "value_head": True})
        before = worker.score(golden.rows, 1.0, ["logprob"], "reference")
        worker.call("load", model="policy", directory=f"{golden.path}/adapter")
        scored = worker.score(golden.rows, golden.temperature, list(golden.outputs))
        for output, expected in golden.outputs.items():
            assert relative_error(scored[output], expected) < 1e-5
        worker.step(golden)
        after = worker.score(golden.rows, 1.0, ["logprob"], "reference")
        assert np.array_equal(before["logprob"], after["logprob"])
        value = worker.score(golden.rows, 1.0, ["value"], "critic")["value"]
        assert not value.any()  # a head that no file holds begins at zero
        worker.call("publish", model="policy", directory=str(tmp_path), adapter=True)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
        found = load_file(tmp_path / "adapter_model.safetensors")
        for name, expected in golden.after.items():
            assert relative_error(found[f"base_model.model.{name}"], expected) < 1e-4, name


def test_a_killed_rank_ends_the_group_and_the_client_sees_it():
    golden = read_golden("llama")
    with Worker(ranks=2) as worker:
        open_policy(worker, golden)
        os.kill(worker.ranks()[1], signal.SIGKILL)
        with pytest.raises((EOFError, OSError, WorkerError)):
            for _ in range(1000):
                worker.step(golden)
        assert worker.process.wait(60) != 0


def test_a_rank_that_hangs_ends_the_group():
    golden = read_golden("llama")
    with Worker(ranks=2, arguments=("--seconds-per-exchange", "20")) as worker:
        open_policy(worker, golden)
        worker.step(golden)
        stopped = worker.ranks()[1]
        os.kill(stopped, signal.SIGSTOP)
        with pytest.raises((EOFError, OSError, WorkerError)):
            for _ in range(3):
                worker.step(golden)
        os.kill(stopped, signal.SIGCONT)
        assert worker.process.wait(60) != 0


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_group_ends_when_its_client_goes(ranks: int):
    worker = Worker(ranks=ranks)
    open_policy(worker, read_golden("llama"))
    assert worker.close() == 0


def test_a_wrong_token_is_refused():
    with pytest.raises(WorkerError, match="token is wrong"):
        Worker(token="guess")
