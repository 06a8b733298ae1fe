import pytest
import torch

from rollcall_torch.buckets import BucketReader, fill_buckets


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
