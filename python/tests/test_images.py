"""A Qwen2.5-VL on one rank, against numbers that transformers computed in float64 (test/golden/engine/make-vision.py)."""

import base64
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from golden import GOLDEN, Golden, read_golden, relative_error
from PIL import Image as Pillow
from safetensors.numpy import load_file
from transformers import Qwen2VLImageProcessor

from rollcall_torch.adam import AdamOptions
from rollcall_torch.errors import ConfigError, TrainerError
from rollcall_torch.experts import as_stored
from rollcall_torch.group import Group
from rollcall_torch.model import ModelOptions, reshard
from rollcall_torch.rows import Image, Picture, Row
from rollcall_torch.trainer import Trainer
from rollcall_torch.weights import full, named_parameters

PATH = GOLDEN / "qwen2_5_vl"


def go_on() -> bool:
    return False


def seen() -> Golden:
    """The golden with its rows as they arrive: a place for each token of an image."""
    golden = read_golden("qwen2_5_vl")
    told = json.loads((PATH / "golden.json").read_text())
    processor = Qwen2VLImageProcessor.from_pretrained(PATH)
    images = []
    for text, grid in zip(told["images"], told["grids"]):
        picture = Pillow.open(io.BytesIO(base64.b64decode(text)))
        out = processor(images=[picture], return_tensors="np")
        assert out["image_grid_thw"][0].tolist() == grid
        images.append(Image(out["pixel_values"].astype(np.float32), np.array(grid)))
    rows = []
    for row, places in zip(told["rows"], told["positions"]):
        shown = {placed["at"]: images[placed["image"]] for placed in row["images"]}
        ids, targets, pictures = [], [], []
        for at, (token, target) in enumerate(zip(row["ids"], row["targets"])):
            count = int(shown[at].grid.prod()) // 4 if at in shown else 1
            if at in shown:
                pictures.append(Picture(len(ids), len(ids) + count, shown[at]))
            ids += [token] * count
            targets += [target] * count
        three = np.array(places).T if pictures else None
        rows.append(Row(np.array(ids, np.int32), np.array(targets, np.uint8), places=three, pictures=tuple(pictures)))
    return replace(golden, rows=rows)


def stored(trainer: Trainer, of) -> dict[str, np.ndarray]:
    pairs = ((name, of(p)) for name, p in named_parameters(trainer.scorer))
    return {
        file: tensor.numpy()
        for name, value in pairs
        if value is not None
        for file, tensor in as_stored(name, full(value), "qwen2_5_vl")
    }


@pytest.mark.parametrize("how", [{}, {"recompute": 0.0}, {"tokens": 20}])
def test_outputs_gradients_and_a_step_of_a_model_that_sees_agree_with_float64(how: dict, group: Group, tmp_path: Path):
    golden = seen()
    trainer = Trainer(ModelOptions.parse({"path": golden.path, **how}), group, print)
    assert "images" in trainer.can
    number, outputs = trainer.forward(golden.rows, golden.temperature, list(golden.outputs), go_on)
    for output, expected in golden.outputs.items():
        assert relative_error(outputs[output], expected) < 2e-5, output
    trainer.backward(number, golden.gradients)
    reshard(trainer.scorer)
    found = stored(trainer, lambda p: p.grad)
    for parameter, expected in golden.gradient.items():
        assert relative_error(found[parameter], expected) < 2e-4, parameter
    norm, skipped = trainer.optim_step(AdamOptions.parse(golden.adam))
    assert abs(norm / golden.grad_norm - 1) < 1e-5 and not skipped
    after = stored(trainer, lambda p: p)
    for parameter, expected in golden.after.items():
        assert relative_error(after[parameter], expected) < 1e-4, parameter
    trainer.save(str(tmp_path))
    saved = load_file(tmp_path / "model.safetensors")
    assert set(saved) == set(load_file(PATH / "model.safetensors"))
    assert all(np.array_equal(saved[name], after[name]) for name in saved)
    assert (tmp_path / "preprocessor_config.json").exists()


def test_a_shared_prompt_with_an_image_is_computed_once_and_other_images_share_nothing(group: Group):
    golden = seen()
    trainer = Trainer(ModelOptions.parse({"path": golden.path}), group, print)
    row = golden.rows[0]
    length = row.pictures[0].end + 1
    other = replace(row, ids=np.where(np.arange(len(row.ids)) < length, row.ids, (row.ids + 1) % 33).astype(np.int32))
    apart = trainer.score([row, other], 1.0, ["logprob"], go_on)["logprob"]
    shared = trainer.score([row, replace(other, prefix_row=0, prefix_length=length)], 1.0, ["logprob"], go_on)["logprob"]
    assert relative_error(shared, apart) < 1e-5
    image = row.pictures[0].image
    changed = replace(row.pictures[0], image=Image(image.pixels[::-1].copy(), image.grid))
    unlike = replace(row, pictures=(changed,))
    found = trainer.score([unlike], 1.0, ["logprob"], go_on)["logprob"]
    assert np.abs(found - apart[: len(found)]).max() > 1e-3
    with pytest.raises(TrainerError, match="show other images"):
        trainer.score([row, replace(unlike, prefix_row=0, prefix_length=length)], 1.0, ["logprob"], go_on)


def test_what_is_not_implemented_is_refused(group: Group):
    golden = seen()
    with pytest.raises(ConfigError, match="lora is not implemented for a model that sees"):
        Trainer(ModelOptions.parse({"path": golden.path, "lora": {"rank": 2, "alpha": 2, "targets": ["q_proj"]}}), group, print)
    blind = Trainer(ModelOptions.parse({"path": read_golden("qwen2").path}), group, print)
    with pytest.raises(TrainerError, match="has no encoder"):
        blind.score(golden.rows[:1], 1.0, ["logprob"], go_on)
