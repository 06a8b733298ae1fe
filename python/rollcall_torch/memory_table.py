"""Memory of one card for models of Qwen2.5's shapes, by the estimate that chooses micro-batches, as Markdown:
`python -m rollcall_torch.memory_table`. The first lines stand beside what was measured."""

import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from .four_bits import FourBitWeight, hold_in_four_bits
from .lora import LoraOptions, add_adapters
from .memory import MemoryNeed, ParameterCounts, memory_need
from .model import ModelOptions

TOKENS = 16384
CHUNK_LOGITS = 1 << 28
BFLOAT16 = 2
# hidden, layers, intermediate, heads, key heads, vocabulary, whether the head is the embeddings
SHAPES = {
    "1.5B": (1536, 28, 8960, 12, 2, 151936, True),
    "3B": (2048, 36, 11008, 16, 2, 151936, True),
    "7B": (3584, 28, 18944, 28, 4, 152064, False),
    "32B": (5120, 64, 27648, 40, 8, 152064, False),
}
LORA = LoraOptions.parse({"rank": 32, "alpha": 32})
# Peaks in GB of `python -m rollcall_torch.bench --shape 1.5B --fused` on one H200, whose micro-batches have so many tokens. What is
# trained is f32, with f32 moments; computing is bf16.
MEASURED_TOKENS = 14490
MEASURED = (
    ({"recompute": 1.0}, 32.9),
    ({"recompute": 0.0}, 69.3),
    ({"recompute": 1.0, "lora": LORA}, 8.0),
    ({"recompute": 1.0, "lora": LORA, "base_bits": 4}, 6.0),
)
TRAINED = (("all weights", None, None), ("LoRA, rank 32", LORA, None), ("LoRA, rank 32, `baseBits: 4`", LORA, 4))


def config_of(shape: str) -> Qwen2Config:
    hidden, layers, intermediate, heads, key_heads, vocabulary, tied = SHAPES[shape]
    return Qwen2Config(
        hidden_size=hidden,
        num_hidden_layers=layers,
        intermediate_size=intermediate,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        vocab_size=vocabulary,
        tie_word_embeddings=tied,
    )


def need_of(
    shape: str,
    ranks: int,
    recompute: float = 1.0,
    lora: LoraOptions | None = None,
    base_bits: int | None = None,
    fused: bool = False,
) -> MemoryNeed:
    config = config_of(shape)
    with torch.device("meta"):
        causal = AutoModelForCausalLM.from_config(config)
        if base_bits:
            hold_in_four_bits(causal.base_model.layers)
        if lora:
            add_adapters(causal, lora)
    trained = sum(p.numel() for p in causal.parameters() if p.requires_grad)
    total = sum(p.numel() for p in causal.parameters())
    one_layer = sum(p.numel() for p in causal.base_model.layers[0].parameters())
    outside = total - config.num_hidden_layers * one_layer
    in_four = [module.numel() for module in causal.modules() if isinstance(module, FourBitWeight)]
    counts = ParameterCounts(trained, total - trained, one_layer, outside, sum(in_four), max(in_four, default=0))
    options = ModelOptions(path="", recompute=recompute, lora=lora, base_bits=base_bits, fused=fused)
    return memory_need(config, counts, options, ranks, BFLOAT16, CHUNK_LOGITS)


def main() -> None:
    print("| 1.5B, one card, `fused` | measured | computed |\n| --- | ---: | ---: |")
    for given, measured in MEASURED:
        computed = need_of("1.5B", 1, **given, fused=True).peak(MEASURED_TOKENS) / 1e9
        named = ", ".join(what for what in ("lora", "base_bits") if what in given) or "all weights"
        print(f"| {named}, recompute {given['recompute']:.0f} | {measured} GB | {computed:.1f} GB |")
    print("\n| model | what is trained | 1 card | 4 cards | 8 cards |\n| --- | --- | ---: | ---: | ---: |")
    for shape in ("3B", "7B", "32B"):
        for what, lora, bits in TRAINED:
            peaks = [need_of(shape, ranks, 1.0, lora, bits).peak(TOKENS) / 1e9 for ranks in (1, 4, 8)]
            print(f"| {shape} | {what} | {' | '.join(f'{peak:.0f} GB' for peak in peaks)} |")


if __name__ == "__main__":
    main()
