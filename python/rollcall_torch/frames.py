"""Frames of the protocol (docs/torch-protocol.md): a JSON header and raw little-endian arrays. Nothing is pickled.

    magic "RCT1" | u32 bytes of the header | u64 bytes of the body | header | body

The header's `arrays` lists what the body holds, in order; each array begins at a multiple of 8 bytes.
"""

import json
import struct
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

from .errors import ProtocolError

PROTOCOL = 1
MAGIC = b"RCT1"
PREFIX = struct.Struct("<4sIQ")
MOST_HEADER_BYTES = 1 << 20
MOST_BODY_BYTES = 1 << 31
TYPES = {"i32": np.dtype("<i4"), "u8": np.dtype("u1"), "f32": np.dtype("<f4")}
NAMES = {dtype: name for name, dtype in TYPES.items()}


@dataclass(frozen=True)
class Frame:
    header: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


def encode(frame: Frame) -> bytes:
    described, parts, at = [], [], 0
    for name, array in frame.arrays.items():
        data = np.ascontiguousarray(array)
        type_name = NAMES.get(data.dtype)
        if type_name is None:
            raise ProtocolError(f"array {name} is {data.dtype}; {', '.join(TYPES)} can be sent")
        described.append({"name": name, "type": type_name, "shape": list(data.shape)})
        padding = -data.nbytes % 8
        parts.append(data.tobytes() + bytes(padding))
        at += data.nbytes + padding
    header = json.dumps({**frame.header, "arrays": described}, separators=(",", ":"), ensure_ascii=False).encode()
    check_sizes(len(header), at)
    return b"".join([PREFIX.pack(MAGIC, len(header), at), header, *parts])


def read_frame(read: Callable[[int], bytes]) -> Frame:
    """`read(n)` returns exactly n bytes. Sizes are checked before anything is read for them."""
    magic, header_bytes, body_bytes = PREFIX.unpack(read(PREFIX.size))
    if magic != MAGIC:
        raise ProtocolError(f"a frame begins with {magic!r}; {MAGIC!r} is needed")
    check_sizes(header_bytes, body_bytes)
    return decode(read(header_bytes), read(body_bytes))


def decode(header_json: bytes, body: bytes) -> Frame:
    try:
        header = json.loads(header_json)
    except ValueError as error:
        raise ProtocolError(f"a header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise ProtocolError("a header must be a JSON object")
    arrays: dict[str, np.ndarray] = {}
    at = 0
    for entry in header.pop("arrays", []):
        name, dtype, shape = parse_entry(entry)
        count = int(np.prod(shape, dtype=np.int64)) if shape else 1
        end = at + count * dtype.itemsize
        if end > len(body):
            raise ProtocolError(f"array {name} ends at byte {end} of a body of {len(body)}")
        arrays[name] = np.frombuffer(body, dtype, count, at).reshape(shape)
        at = end + -end % 8
    if at != len(body):
        raise ProtocolError(f"a body of {len(body)} bytes has arrays of {at}")
    return Frame(header, arrays)


def parse_entry(entry: Any) -> tuple[str, np.dtype, list[int]]:
    if not isinstance(entry, dict):
        raise ProtocolError(f"an entry of arrays is {entry!r}; an object is needed")
    name, type_name, shape = entry.get("name"), entry.get("type"), entry.get("shape")
    if not isinstance(name, str) or type_name not in TYPES:
        raise ProtocolError(f"an array is named {name!r} of type {type_name!r}; types are {', '.join(TYPES)}")
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size <= MOST_BODY_BYTES for size in shape):
        raise ProtocolError(f"array {name} has shape {shape!r}; a list of sizes is needed")
    return name, TYPES[type_name], shape


def check_sizes(header_bytes: int, body_bytes: int) -> None:
    if header_bytes > MOST_HEADER_BYTES:
        raise ProtocolError(f"a header of {header_bytes} bytes; {MOST_HEADER_BYTES} is the most")
    if body_bytes > MOST_BODY_BYTES:
        raise ProtocolError(f"a body of {body_bytes} bytes; {MOST_BODY_BYTES} is the most")
