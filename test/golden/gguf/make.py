"""Makes the files beside it: quantized blocks with the numbers that PyPI's `gguf` reads in them, and a tiny Llama as a
GGUF file with the weights and ids that `transformers` reads from it.

    python make.py    (needs gguf, numpy, torch, transformers, safetensors)
"""

import json
from pathlib import Path

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, TokenType
from gguf.quants import dequantize, quantize
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = Path(__file__).parent
random = np.random.default_rng(1)


def blocks() -> None:
    writer = GGUFWriter(HERE / "blocks.gguf", "blocks")
    for name in ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]:
        kind = GGMLQuantizationType[name]
        values = random.normal(0, 0.1, (2, 512)).astype(np.float32)
        if name.endswith("_K"):  # the package reads these but does not write them: any bytes, with finite scales
            elements, size = GGML_QUANT_SIZES[kind]
            stored = random.integers(0, 256, (2, 512 // elements, size), dtype=np.uint8)
            scale = np.frombuffer(np.array([0.01, -0.02], np.float16).tobytes(), np.uint8)
            if name == "Q6_K":
                stored[..., -2:] = scale[:2]
            else:
                stored[..., :4] = scale
            stored = stored.reshape(2, -1)
        else:
            stored = quantize(values, kind)
        writer.add_tensor(name, stored, raw_dtype=kind)
        writer.add_tensor(f"{name}.expected", np.ascontiguousarray(dequantize(stored, kind), np.float32))
    finish(writer)


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def byte_letters() -> list[str]:
    """GPT-2's printable letter of each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = {}, 0
    for byte in range(256):
        letters[byte] = chr(byte) if byte in plain else chr(256 + extra)
        extra += byte not in plain
    return [letters[byte] for byte in range(256)]


def llama() -> None:
    hidden, heads, kv_heads, wide = 64, 4, 2, 96
    merges = ["Ġ t", "h e", "Ġt he", "1 2", "i n"]
    tokens = ["<|im_start|>", "<|im_end|>", *byte_letters(), *(merge.replace(" ", "") for merge in merges)]
    path = HERE / "llama.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(wide)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_freq_base(5000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL] * 2 + [TokenType.NORMAL] * (len(tokens) - 2))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")
    shapes = {
        "token_embd": (len(tokens), hidden),
        "blk.0.attn_q": (hidden, hidden),
        "blk.0.attn_k": (hidden // 2, hidden),
        "blk.0.attn_v": (hidden // 2, hidden),
        "blk.0.attn_output": (hidden, hidden),
        "blk.0.ffn_gate": (wide, hidden),
        "blk.0.ffn_up": (wide, hidden),
        "blk.0.ffn_down": (hidden, wide),
    }
    for name, shape in shapes.items():
        stored = quantize(random.normal(0, 0.1, shape).astype(np.float32), GGMLQuantizationType.Q4_1)
        writer.add_tensor(f"{name}.weight", stored, raw_dtype=GGMLQuantizationType.Q4_1)
    for name in ["blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"]:
        writer.add_tensor(f"{name}.weight", random.normal(1, 0.1, hidden).astype(np.float32))
    finish(writer)

    model = AutoModelForCausalLM.from_pretrained(HERE, gguf_file=path.name, dtype=torch.float32)
    weights = {name: value.contiguous() for name, value in model.state_dict().items() if name != "lm_head.weight"}
    save_file(weights, HERE / "llama.safetensors")
    tokenizer = AutoTokenizer.from_pretrained(HERE, gguf_file=path.name)
    text = "<|im_start|>the thin lines<|im_end|>\n  é"
    expected = {"text": text, "ids": tokenizer(text, add_special_tokens=False)["input_ids"]}
    (HERE / "llama.json").write_text(json.dumps(expected, ensure_ascii=False) + "\n")


def gemma() -> None:
    """A tiny Gemma 3 of two layers with a SentencePiece tokenizer: scores instead of merges, bytes for what it does not know."""
    random = np.random.default_rng(2)
    hidden, heads, kv_heads, head, wide = 64, 4, 2, 32, 96
    pieces = ["▁", "t", "h", "e", "i", "n", "s", "l", "1", "2", "he", "▁t", "▁the", "in", "the", "▁l", "ine", "12"]
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    types = [TokenType.CONTROL] * 3 + [TokenType.UNKNOWN] + [TokenType.BYTE] * 256 + [TokenType.NORMAL] * len(pieces)
    path = HERE / "gemma.gguf"
    writer = GGUFWriter(path, "gemma3")
    writer.add_block_count(2)
    writer.add_context_length(128)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(wide)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_freq_base(1e6)
    writer.add_sliding_window(16)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 260 + [-float(i) for i in range(len(pieces))])
    writer.add_token_types(types)
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(3)
    writer.add_pad_token_id(0)
    writer.add_add_space_prefix(False)
    shapes = {"token_embd": (len(tokens), hidden)}
    norms = {"output_norm": hidden}
    for layer in range(2):
        at = f"blk.{layer}"
        shapes |= {
            f"{at}.attn_q": (heads * head, hidden),
            f"{at}.attn_k": (kv_heads * head, hidden),
            f"{at}.attn_v": (kv_heads * head, hidden),
            f"{at}.attn_output": (hidden, heads * head),
            f"{at}.ffn_gate": (wide, hidden),
            f"{at}.ffn_up": (wide, hidden),
            f"{at}.ffn_down": (hidden, wide),
        }
        norms |= {f"{at}.{name}": hidden for name in ["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"]}
        norms |= {f"{at}.{name}": head for name in ["attn_q_norm", "attn_k_norm"]}
    for name, shape in shapes.items():
        stored = quantize(random.normal(0, 0.1, shape).astype(np.float32), GGMLQuantizationType.Q8_0)
        writer.add_tensor(f"{name}.weight", stored, raw_dtype=GGMLQuantizationType.Q8_0)
    for name, size in norms.items():  # eighths: 1 can be taken from them exactly
        writer.add_tensor(f"{name}.weight", (1 + random.integers(-4, 5, size) / 8).astype(np.float32))
    finish(writer)

    model = AutoModelForCausalLM.from_pretrained(HERE, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager")
    for layer in model.model.layers:  # as llama.cpp does; transformers takes 256, which the file does not say
        layer.self_attn.scaling = head**-0.5
    ids = [2, *(random.integers(4, len(tokens), 39).tolist())]
    with torch.no_grad():
        scores = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)
    logprobs = [float(scores[at, ids[at + 1]]) for at in range(len(ids) - 1)]
    (HERE / "gemma.json").write_text(json.dumps({"ids": ids, "logprobs": logprobs}) + "\n")


blocks()
llama()
gemma()
