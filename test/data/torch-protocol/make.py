"""Writes the fixtures of docs/torch-protocol.md byte by byte, with none of the code that they test.

    python test/data/torch-protocol/make.py

`NAME.bin` is a frame, and `NAME.json` is what it says. A `NAME.json` with `refused` is a frame that must not be read.
"""

import json
import struct
from pathlib import Path

HERE = Path(__file__).parent
FORMATS = {"i32": "<%di", "u8": "<%dB", "f32": "<%df"}


def frame(
    header: str, body: bytes, magic: bytes = b"RCT1", header_bytes=None, body_bytes=None
) -> bytes:
    text = header.encode("utf-8")
    sizes = struct.pack("<I", len(text) if header_bytes is None else header_bytes)
    sizes += struct.pack("<Q", len(body) if body_bytes is None else body_bytes)
    return magic + sizes + text + body


def body(arrays) -> bytes:
    data = b""
    for _, kind, _, values in arrays:
        data += struct.pack(FORMATS[kind] % len(values), *values)
        data += b"\0" * (-len(data) % 8)
    return data


def write(name: str, header: dict, arrays=()) -> None:
    listed = [{"name": n, "type": kind, "shape": shape} for n, kind, shape, _ in arrays]
    text = json.dumps(
        {**header, "arrays": listed}, separators=(",", ":"), ensure_ascii=False
    )
    (HERE / f"{name}.bin").write_bytes(frame(text, body(arrays)))
    said = {
        "header": header,
        "arrays": {
            n: {"type": kind, "shape": shape, "values": values}
            for n, kind, shape, values in arrays
        },
    }
    (HERE / f"{name}.json").write_text(json.dumps(said, ensure_ascii=False) + "\n")


def refuse(name: str, data: bytes, why: str) -> None:
    (HERE / f"{name}.bin").write_bytes(data)
    (HERE / f"{name}.json").write_text(json.dumps({"refused": why}) + "\n")


write("hello", {"id": 1, "call": "hello", "params": {"protocol": 1, "token": "secret"}})
write(
    "forward",
    {
        "id": 7,
        "call": "forward",
        "params": {
            "model": "policy",
            "temperature": 0.5,
            "outputs": ["logprob", "entropy"],
        },
    },
    [
        ("ids", "i32", [7], [5, 6, 7, 5, 6, 8, 2147483647]),
        ("targets", "u8", [7], [0, 1, 1, 0, 0, 1, 1]),
        ("lengths", "i32", [2], [3, 4]),
        ("prefixes", "i32", [2, 2], [-1, 0, 0, 2]),
    ],
)
write(
    "outputs",
    {"id": 7, "reply": {"pass": 3, "tokens": 4096}},
    [
        ("logprob", "f32", [3], [-0.5, -1.25, 0.0]),
        ("entropy", "f32", [3], [2.0, 0.125, 1e10]),
    ],
)
write("empty-array", {"id": 8, "reply": {}}, [("logprob", "f32", [0], [])])
write(
    "failure",
    {
        "id": 9,
        "error": {
            "kind": "TrainerError",
            "message": "temperature is 0; a positive number is needed – Σπ²",
        },
    },
)
write(
    "notice", {"notice": "out of memory: from now on 512 tokens are computed at once"}
)
refuse("wrong-magic", frame("{}", b"", magic=b"HTTP"), "begins with")
refuse(
    "large-header",
    frame("{}", b"", header_bytes=(1 << 20) + 1),
    "a header of 1048577 bytes",
)
refuse(
    "large-body",
    frame("{}", b"", body_bytes=(1 << 31) + 1),
    "a body of 2147483649 bytes",
)
refuse("no-json", frame("{nothing", b""), "not JSON")
refuse(
    "short-body",
    frame('{"arrays":[{"name":"ids","type":"i32","shape":[3]}]}', bytes(8)),
    "ends at byte 12",
)
refuse("long-body", frame('{"arrays":[]}', bytes(8)), "a body of 8 bytes")
refuse(
    "unknown-type",
    frame('{"arrays":[{"name":"ids","type":"pickle","shape":[1]}]}', bytes(8)),
    "pickle",
)
refuse(
    "negative-size",
    frame('{"arrays":[{"name":"ids","type":"i32","shape":[-1]}]}', b""),
    "shape",
)
