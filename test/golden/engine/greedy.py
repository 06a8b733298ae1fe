"""Greedy continuations of the models in this folder by transformers in float64: writes greedy.json beside each.

    python test/golden/engine/greedy.py llama qwen2 qwen3        # torch and transformers
"""
import json
import os
import sys

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPT = [3, 14, 15, 9, 26, 5, 30]
TOKENS = 24

for name in sys.argv[1:]:
    folder = os.path.join(HERE, name)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float64, attn_implementation="eager")
    ids = list(PROMPT)
    margins = []
    with torch.no_grad():
        for _ in range(TOKENS):
            logits = model(torch.tensor([ids])).logits[0, -1]
            first, second = torch.topk(logits, 2).values.tolist()
            margins.append(first - second)
            ids.append(int(logits.argmax()))
    with open(os.path.join(folder, "greedy.json"), "w") as file:
        json.dump({
            "made by": f"torch {torch.__version__}, transformers {transformers.__version__}, float64: greedy.py",
            "prompt": PROMPT, "ids": ids[len(PROMPT):], "smallestMargin": min(margins),
        }, file)
    print(name, ids[len(PROMPT):], min(margins))
