"""Makes a tiny random Qwen2.5-VL with transformers: `python make-model.py OUT TOKENIZER [--seed 5]`.

TOKENIZER is a folder with a tokenizer and its chat template; a mark for videos is added, which vLLM asks for. Heads are 32 wide:
vLLM's attention on a CPU knows no narrower ones. Images are two frames deep, as in the published models.
"""
import argparse
import torch
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("tokenizer")
parser.add_argument("--seed", type=int, default=5)
given = parser.parse_args()
torch.manual_seed(given.seed)

tokenizer = transformers.AutoTokenizer.from_pretrained(given.tokenizer)
tokenizer.add_special_tokens({"additional_special_tokens": ["<|video_pad|>"]})
ids = {name: tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in ["vision_start", "vision_end", "image_pad", "video_pad", "im_end"]}
text = dict(
    vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, intermediate_size=96,
    max_position_embeddings=2048, rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=None, eos_token_id=ids["im_end"],
    rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [4, 6, 6]},
)
vision = dict(
    depth=3, hidden_size=32, num_heads=2, intermediate_size=56, patch_size=4, spatial_merge_size=2, temporal_patch_size=2,
    window_size=16, fullatt_block_indexes=[1], out_hidden_size=64, in_channels=3, hidden_act="silu",
)
config = transformers.Qwen2_5_VLConfig(
    text_config=text, vision_config=vision, tie_word_embeddings=False, image_token_id=ids["image_pad"], video_token_id=ids["video_pad"],
    vision_start_token_id=ids["vision_start"], vision_end_token_id=ids["vision_end"], eos_token_id=ids["im_end"],
)
model = transformers.Qwen2_5_VLForConditionalGeneration(config).float()
with torch.no_grad():
    for name, value in model.named_parameters():
        if name.endswith("bias"):
            value.normal_(0, 0.3)
        elif "norm" in name or "ln_q" in name:
            value.normal_(1, 0.2)
        else:
            value.normal_(0, value[0].numel() ** -0.5)
model.save_pretrained(given.out)
tokenizer.save_pretrained(given.out)
transformers.Qwen2VLImageProcessor(
    patch_size=4, merge_size=2, temporal_patch_size=2, min_pixels=64, max_pixels=4096
).save_pretrained(given.out)
