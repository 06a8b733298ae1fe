"""Checkpoints that are written in the background."""

import os
import signal
import time

import numpy as np
import pytest
from client import Worker, WorkerError
from golden import read_golden
from safetensors.numpy import load_file


def open_policy(worker: Worker, golden) -> None:
    worker.call("open", model="policy", options={"path": golden.path, "value_head": "value" in golden.outputs})


def wait_until_written(worker: Worker) -> None:
    deadline = time.monotonic() + 60
    while not worker.call("saved", model="policy").header["reply"]["written"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def never_ending(directory) -> None:
    """Opening the first file for writing waits for a reader that never comes, as a disk that hangs would."""
    directory.mkdir()
    os.mkfifo(directory / ".config.json.partial")


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_is_written_is_the_state_when_saving_began(ranks: int, tmp_path):
    golden = read_golden("qwen3")
    with Worker(ranks=ranks) as worker:
        open_policy(worker, golden)
        worker.step(golden)
        worker.call("save", model="policy", directory=str(tmp_path / "at-once"))
        worker.call("startSave", model="policy", directory=str(tmp_path / "behind"))
        for _ in range(3):
            worker.step(golden)  # while it is written
        wait_until_written(worker)
        worker.call("load", model="policy", directory=str(tmp_path / "behind"))
        worker.step(golden)
        worker.call("save", model="policy", directory=str(tmp_path / "after-behind"))
        worker.call("load", model="policy", directory=str(tmp_path / "at-once"))
        worker.step(golden)
        worker.call("save", model="policy", directory=str(tmp_path / "after-at-once"))
    for one, other in (("behind", "at-once"), ("after-behind", "after-at-once")):
        found, expected = (load_file(tmp_path / name / "model.safetensors") for name in (one, other))
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert np.array_equal(found[name], value), (one, name)


def test_steps_go_on_while_a_disk_hangs_and_a_crash_leaves_the_checkpoint_before(tmp_path):
    golden = read_golden("qwen3")
    with Worker() as worker:
        open_policy(worker, golden)
        worker.step(golden)
        worker.call("save", model="policy", directory=str(tmp_path / "before"))
        never_ending(tmp_path / "hangs")
        worker.call("startSave", model="policy", directory=str(tmp_path / "hangs"))
        worker.step(golden)
        assert not worker.call("saved", model="policy").header["reply"]["written"]
        os.kill(worker.process.pid, signal.SIGKILL)
    assert not any(path.name.endswith((".json", ".safetensors")) for path in (tmp_path / "hangs").iterdir())
    with Worker() as worker:
        open_policy(worker, golden)
        worker.call("load", model="policy", directory=str(tmp_path / "before"))
        worker.step(golden)
        with pytest.raises(WorkerError, match="model.safetensors"):
            worker.call("load", model="policy", directory=str(tmp_path / "hangs"))


def test_a_checkpoint_that_cannot_be_written_is_told(tmp_path):
    golden = read_golden("llama")
    (tmp_path / "file").write_text("")
    with Worker() as worker:
        open_policy(worker, golden)
        worker.call("startSave", model="policy", directory=str(tmp_path / "file" / "below"))
        with pytest.raises(WorkerError, match="could not be written"):
            wait_until_written(worker)
        worker.step(golden)


def test_an_optimizer_state_that_is_cut_is_told(tmp_path):
    golden = read_golden("llama")
    with Worker() as worker:
        open_policy(worker, golden)
        worker.step(golden)
        worker.call("save", model="policy", directory=str(tmp_path))
        for part in (tmp_path / "trainer" / "optimizer").glob("*.distcp"):
            part.write_bytes(part.read_bytes()[:10])
        with pytest.raises(WorkerError, match="cannot be read"):
            worker.call("load", model="policy", directory=str(tmp_path))
        worker.step(golden)
