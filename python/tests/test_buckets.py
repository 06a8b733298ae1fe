import threading

import pytest
import torch

from rollcall_torch.buckets import BucketReader, fill_buckets
from rollcall_torch.weight_group import WeightGroup, listen, reach


@pytest.mark.parametrize("bucket_bytes", [1024, 4096, 1 << 20])
def test_tensors_come_out_of_buckets_as_they_went_in(bucket_bytes: int):
    """Also those larger than a bucket, which go in pieces; a bucket is written over as soon as the next is asked for."""
    generator = torch.Generator().manual_seed(1)
    shapes = [(40, 24), (24,), (3, 5), (100, 16), (1, 30), (7,)]
    tensors = [(f"t{at}", torch.randn(shape, generator=generator).to(torch.bfloat16)) for at, shape in enumerate(shapes)]
    buffer = torch.empty(bucket_bytes, dtype=torch.uint8)
    reader = BucketReader()
    found = {}
    buckets = 0
    for entries in fill_buckets(tensors, buffer):
        buckets += 1
        found.update({name: tensor.clone() for name, tensor in reader.read(buffer, entries)})
    assert list(found) == [name for name, _ in tensors]
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors)
    assert not reader.parts
    assert (buckets > 1) == (bucket_bytes < 1 << 20)


def test_a_process_group_carries_a_version_whole():
    """Two members in one process, gloo, in several buckets."""
    generator = torch.Generator().manual_seed(2)
    tensors = [(f"t{at}", torch.randn(shape, generator=generator)) for at, shape in enumerate([(30, 8), (5,), (64, 16)])]
    store, host = listen("http://127.0.0.1:1")
    cpu = torch.device("cpu")
    found: dict[str, torch.Tensor] = {}

    def receive() -> None:
        member = WeightGroup(reach(host, store.port), 1, 2, cpu)
        for _ in range(2):
            found.clear()
            found.update({name: tensor.clone() for name, tensor in member.receive()})

    other = threading.Thread(target=receive)
    other.start()
    sender = WeightGroup(store, 0, 2, cpu)
    buffer = torch.empty(1024, dtype=torch.uint8)
    for version in range(2):
        for entries in fill_buckets([(name, tensor + version) for name, tensor in tensors], buffer):
            sender.send(entries, buffer)
        sender.end()
    other.join(60)
    assert found.keys() == dict(tensors).keys()
    assert all(torch.equal(found[name], tensor + 1) for name, tensor in tensors)
