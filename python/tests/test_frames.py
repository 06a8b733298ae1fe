"""The fixtures that the TypeScript side reads too (test/data/torch-protocol)."""

import io
import json

import numpy as np
import pytest
from golden import ROOT

from rollcall_torch.errors import ProtocolError
from rollcall_torch.frames import TYPES, Frame, encode, read_frame

FIXTURES = sorted((ROOT / "test" / "data" / "torch-protocol").glob("*.json"))


def read_exactly(data: bytes):
    stream = io.BytesIO(data)

    def read(count: int) -> bytes:
        part = stream.read(count)
        assert len(part) == count, f"{count} bytes were wanted of {len(part)}"
        return part

    return read


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_every_fixture_is_read_as_it_says_and_written_with_the_same_bytes(path):
    said = json.loads(path.read_text())
    data = path.with_suffix(".bin").read_bytes()
    if "refused" in said:
        with pytest.raises(ProtocolError, match=said["refused"]):
            read_frame(read_exactly(data))
        return
    frame = read_frame(read_exactly(data))
    assert frame.header == said["header"]
    arrays = {
        name: np.array(entry["values"], TYPES[entry["type"]]).reshape(entry["shape"])
        for name, entry in said["arrays"].items()
    }
    assert list(frame.arrays) == list(arrays)
    for name, array in arrays.items():
        assert frame.arrays[name].dtype == array.dtype and np.array_equal(frame.arrays[name], array)
    assert encode(Frame(frame.header, frame.arrays)) == data
