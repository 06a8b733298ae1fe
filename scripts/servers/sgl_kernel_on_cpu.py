"""Stands in for the package sgl_kernel, whose wheel has CUDA kernels alone. It does what a plain decoder on a CPU asks
for; any other kernel can be imported and says its name when it is called."""

import torch

__version__ = "0.4.10"
WORD = 0xFFFFFFFF


def assign_req_to_token_pool_cpu(requests, table, starts, ends, places, *_):
    """Writes each request's new places in the cache into its row of the table."""
    lengths = (ends - starts).tolist()
    for request, start, new in zip(requests.tolist(), starts.tolist(), places.split(lengths)):
        table[request, start : start + len(new)] = new.to(table.dtype)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*_, **__):
        raise NotImplementedError(f"the kernel {name} of sgl_kernel needs CUDA")

    return absent


def times(word, factor):
    """The product of 32-bit words modulo 2³², in halves, since int64 cannot hold it whole."""
    return (word * (factor & 0xFFFF) + ((word * (factor >> 16) & 0xFFFF) << 16)) & WORD


def rotate(word, bits):
    return (word << bits | word >> 32 - bits) & WORD


def murmur3(words):
    """MurmurHash3 (x86, 32 bits, seed 0) of the given words, elementwise."""
    state = torch.zeros((), dtype=torch.int64)
    for word in words:
        block = times(rotate(times(word, 0xCC9E2D51), 15), 0x1B873593)
        state = (times(rotate(state ^ block, 13), 5) + 0xE6546B64) & WORD
    state = state ^ 4 * len(words)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = times(state ^ state >> shift, factor)
    return state ^ state >> 16


def hash_seeds(seeds, positions, columns):
    """Random words for sampling by seed: [requests, columns] from a request's seed and position and a column."""
    seeds, positions = seeds.view(torch.int64).unsqueeze(1), positions.to(torch.int64).unsqueeze(1)
    halves = [seeds & WORD, seeds >> 32 & WORD]
    return murmur3([*halves, positions & WORD, columns.to(torch.int64).unsqueeze(0) & WORD]).to(torch.uint32)


library = torch.library.Library("sgl_kernel", "FRAGMENT")
library.define("murmur_hash32_cpu(Tensor seed, Tensor positions, Tensor cols) -> Tensor")
library.impl("murmur_hash32_cpu", hash_seeds, "CPU")
