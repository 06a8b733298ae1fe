#!/usr/bin/env bash
# `sglang-cpu.sh FOLDER`: a virtual environment with SGLang 0.5.23 that runs without a GPU. Needs x86-64, glibc 2.34 or newer and
# Python 3.11; takes about two minutes once pip has the packages.
set -euo pipefail
folder=$1
mkdir -p "$(dirname "$folder")"
exec 9> "$folder.lock" # two proofs may begin at once
flock 9
[ -e "$folder/installed" ] && exit
here=$(cd "$(dirname "$0")" && pwd)
pip=("$folder/bin/pip" install -q)
packages=$folder/lib/python3.11/site-packages
python3.11 -m venv --clear "$folder"
"${pip[@]}" --no-deps sglang==0.5.23

# Of what SGLang declares, everything that has a use without CUDA. torch, torchvision and torchaudio are pinned below.
cuda_only='torch|cuda-python|flash-attn|flashinfer|humming|nvidia|nvshmem4py|quack|sgl-|sglang-kernel|tilelang'
unused='deepseek-recipe|tml-renderers|smg-grpc|av|decord2|modelscope|py-spy'
awk -F': ' '/^Requires-Dist/ && !/extra ==/ { sub(/;.*/, "", $2); print $2 }' "$packages/sglang-0.5.23.dist-info/METADATA" |
  grep -viE "^($cuda_only|$unused)" > "$folder/requirements.txt"
"${pip[@]}" torch==2.13.0 torchvision==0.28.0 -r "$folder/requirements.txt"
"${pip[@]}" --no-deps torchaudio==2.11.0 torch_memory_saver

mkdir -p "$packages/sgl_kernel"
cp "$here/sgl_kernel_on_cpu.py" "$packages/sgl_kernel/__init__.py"

# Adapters are loaded into pinned memory, which only CUDA has.
find "$packages/sglang/srt/lora" -name '*.py' -exec sed -i \
  -e 's/pin_memory=True/pin_memory=torch.cuda.is_available()/' -e 's/\.pin_memory()//' {} +
# Seeds count only with --enable-deterministic-inference, which knows no CPU attention and switches Triton kernels in.
sed -i 's/^DETERMINISTIC_ATTENTION_BACKEND_CHOICES = \[/&\n    "torch_native",/' "$packages/sglang/srt/arg_groups/choices.py"
sed -i 's/^\( *\)enable_batch_invariant_mode()/\1(torch.cuda.is_available() and enable_batch_invariant_mode())/' \
  "$packages/sglang/srt/model_executor/model_runner.py"
touch "$folder/installed"
