#!/usr/bin/env bash
# Makes a virtual environment with SGLang 0.5.23 for a machine without GPU: `sglang-cpu.sh FOLDER` (x86-64, Python 3.11,
# glibc 2.34 or newer; about 2 minutes with pip's cache).
set -euo pipefail
VENV=$1
SITE=$VENV/lib/python3.11/site-packages

setup() {
  python3.11 -m venv "$VENV"
  "$VENV/bin/pip" install -q --no-deps sglang==0.5.23
  # What SGLang declares, less everything that is for GPUs only; torch 2.13 has wheels for CPU use on PyPI.
  sed -n 's/^Requires-Dist: //p' "$SITE"/sglang-0.5.23.dist-info/METADATA | grep -v 'extra ==' | sed 's/;.*//' |
    grep -viE '^(torch|torchaudio|torchcodec|torchvision|cuda-python|flash-attn|flashinfer|humming|nvidia|nvshmem4py|quack|sgl-|sglang-kernel|tilelang|deepseek-recipe|tml-renderers|smg-grpc|av|decord2|torch_memory_saver|modelscope|py-spy)' \
    > "$VENV/requirements.txt"
  "$VENV/bin/pip" install -q torch==2.13.0 torchvision==0.28.0 -r "$VENV/requirements.txt"
  "$VENV/bin/pip" install -q --no-deps torchaudio==2.11.0 torch_memory_saver
  stub
  patch_lora
  patch_seeds
}

# The wheel sglang-kernel is CUDA only. Names exist; only what a plain decoder needs on a CPU does something.
stub() {
  mkdir -p "$SITE/sgl_kernel"
  cat > "$SITE/sgl_kernel/__init__.py" <<'P'
import numpy as np
import torch

__version__ = "0.4.10"


def assign_req_to_token_pool_cpu(req_pool_indices, req_to_token, start_offset, end_offset, out_cache_loc, *rest):
    at = 0
    for row, start, end in zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist()):
        req_to_token[row, start:end] = out_cache_loc[at : at + end - start].to(req_to_token.dtype)
        at += end - start


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args, **kwargs):
        raise NotImplementedError(f"sgl_kernel stub: {name}")

    return missing


# The hash of `sampling_seed` (--enable-deterministic-inference), as in sglang/kernels/ops/sampling/murmur_hash.py.
_library = torch.library.Library("sgl_kernel", "FRAGMENT")
_library.define("murmur_hash32_cpu(Tensor seed, Tensor positions, Tensor cols) -> Tensor")


def _murmur(seed, positions, cols):
    u = np.uint64
    mask = u(0xFFFFFFFF)

    def mix(h, k):
        k = (k * u(0xCC9E2D51)) & mask
        k = ((k << u(15)) | (k >> u(17))) & mask
        h = h ^ ((k * u(0x1B873593)) & mask)
        h = ((h << u(13)) | (h >> u(19))) & mask
        return (h * u(5) + u(0xE6546B64)) & mask

    s = seed.view(torch.int64).numpy().view(np.uint64)[:, None]
    p = positions.to(torch.int64).numpy().view(np.uint64)[:, None] & mask
    c = cols.to(torch.int64).numpy().view(np.uint64)[None, :] & mask
    h = mix(mix(mix(mix(np.zeros_like(s), s & mask), s >> u(32)), p), c) ^ u(16)
    h = ((h ^ (h >> u(16))) * u(0x85EBCA6B)) & mask
    h = ((h ^ (h >> u(13))) * u(0xC2B2AE35)) & mask
    return torch.from_numpy((h ^ (h >> u(16))).astype(np.uint32))


_library.impl("murmur_hash32_cpu", _murmur, "CPU")
P
}

# Pinned memory needs CUDA.
patch_lora() {
  grep -rl 'pin_memory=True' "$SITE/sglang/srt/lora" --include='*.py' |
    xargs sed -i 's/pin_memory=True/pin_memory=torch.cuda.is_available()/'
  grep -rl '\.pin_memory()' "$SITE/sglang/srt/lora" --include='*.py' | xargs sed -i 's/\.pin_memory()//'
}

# --enable-deterministic-inference (without which sampling_seed is ignored) with torch_native, and no Triton kernels.
patch_seeds() {
  sed -i '/^DETERMINISTIC_ATTENTION_BACKEND_CHOICES = \[/a\    "torch_native",' "$SITE/sglang/srt/arg_groups/choices.py"
  sed -i 's/^            enable_batch_invariant_mode()/            (torch.cuda.is_available() and enable_batch_invariant_mode())/' \
    "$SITE/sglang/srt/model_executor/model_runner.py"
}

setup
