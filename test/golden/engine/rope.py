"""Frequencies of scaled rotary positions by transformers: writes rope.json beside it.

    python test/golden/engine/rope.py        # torch and transformers
"""
import json, os

import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

CASES = [
    {"rope_type": "linear", "factor": 2.5},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
    {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
    {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 0.7, "beta_fast": 24},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 2048, "attention_factor": 1.3, "truncate": False},
]
golden = []
for case in CASES:
    shape = dict(hidden_size=512, num_attention_heads=4, head_dim=128, max_position_embeddings=131072)
    config = transformers.LlamaConfig(**shape, rope_parameters={"rope_theta": 500000.0, **case})
    frequencies, attention = ROPE_INIT_FUNCTIONS[case["rope_type"]](config, "cpu")
    golden.append({"given": case, "frequencies": frequencies.tolist(), "attention": attention})
here = os.path.dirname(os.path.abspath(__file__))
json.dump({"made_with": f"transformers {transformers.__version__}", "cases": golden}, open(f"{here}/rope.json", "w"), separators=(",", ":"))
