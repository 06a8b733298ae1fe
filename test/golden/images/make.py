"""What Hugging Face's processors make of pictures: `python make.py` writes golden.json beside itself.

Per family its settings and, per picture, the tokens that stand for it and a sample of the numbers its encoder reads (every
n-th, so that the file stays small), with their sum. Pictures are smooth gradients with noise, kept as PNG.
"""
import base64, io, json, math
import numpy as np, torch, transformers
from PIL import Image
from transformers import AddedToken, PreTrainedTokenizerFast
from tokenizers import Tokenizer, models, pre_tokenizers

rng = np.random.RandomState(7)
def picture(width, height):
    y, x = np.mgrid[0:height, 0:width]
    wave = np.stack([128 + 100 * np.sin(x / 7 + c) * np.cos(y / 5 - c) for c in range(3)], -1)
    return Image.fromarray(np.clip(wave + rng.normal(0, 12, wave.shape), 0, 255).astype(np.uint8))
sizes = [(60, 40), (33, 81), (56, 56), (97, 20)]
pictures = [picture(*size) for size in sizes]
def packed(image, kind, **options):
    data = io.BytesIO(); image.save(data, kind, **options); return base64.b64encode(data.getvalue()).decode()

vocabulary = ["[UNK]", "<image>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<|video_pad|>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", "\n", "\n\n"]
vocabulary += [f"<row_{i}_col_{j}>" for i in range(1, 7) for j in range(1, 7)]
def tokenizer():
    raw = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Split(pattern="(?!)", behavior="isolated")
    made = PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="[UNK]")
    made.add_tokens([AddedToken(t, special=t not in ("\n", "\n\n"), normalized=False) for t in vocabulary[1:][::-1]])
    return made

T = transformers
def qwen(patch, mean):
    one = T.Qwen2VLImageProcessor(patch_size=patch, merge_size=2, temporal_patch_size=2, min_pixels=(2 * patch) ** 2, max_pixels=64 * 64,
                                  image_mean=mean[0], image_std=mean[1])
    made = tokenizer(); made.image_token, made.video_token = "<|image_pad|>", "<|video_pad|>"
    made.image_token_id, made.video_token_id = vocabulary.index("<|image_pad|>"), vocabulary.index("<|video_pad|>")
    return one, made, "<|image_pad|>"
clip = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
half = ([0.5] * 3, [0.5] * 3)
families = {}
for name in ["qwen2.5-vl", "qwen3-vl", "smolvlm", "smolvlm-whole", "llava"]:
    whole = {}
    if name.startswith("qwen"):
        images, text, token = qwen(14 if "2.5" in name else 16, clip if "2.5" in name else half)
        processor = None
    elif name.startswith("smolvlm"):
        images = T.SmolVLMImageProcessor(size={"longest_edge": 96}, max_image_size={"longest_edge": 32}, do_image_splitting=name == "smolvlm", resample=1)
        whole, token = {"processor_class": "SmolVLMProcessor", "image_seq_len": 4}, "<image>"
        processor = T.Idefics3Processor(T.Idefics3ImageProcessor(size={"longest_edge": 96}, max_image_size={"longest_edge": 32},
                                                                 do_image_splitting=name == "smolvlm", resample=1), tokenizer(), image_seq_len=4)
    else:
        images = T.LlavaImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
        whole, token = {"processor_class": "LlavaProcessor", "patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}, "<image>"
        processor = T.LlavaProcessor(images, tokenizer(), patch_size=14, vision_feature_select_strategy="default", num_additional_image_tokens=1)
    cases = []
    for index, image in enumerate(pictures):
        made = images(images=[[image]] if name.startswith("smolvlm") else [image], return_tensors="pt")
        values = made["pixel_values"].float().flatten()
        if processor: ids = processor(images=[image], text=token, return_tensors=None)["input_ids"]
        else:
            grid = made["image_grid_thw"][0].tolist()
            ids = [vocabulary.index(token)] * (math.prod(grid) // 4)
        if ids and isinstance(ids[0], list): ids = ids[0]
        step = max(1, len(values) // 400)
        cases.append({"tokens": [vocabulary[i] for i in ids], "shape": list(made["pixel_values"].shape), "step": step,
                      "values": [round(float(v), 5) for v in values[::step]], "sum": float(values.double().sum())})
    families[name] = {"settings": json.loads(images.to_json_string()), "whole": whole, "placeholder": token, "cases": cases}

# The processor for Qwen takes the number of tokens from the grid; its own class says the same.
json.dump({"made_with": f"transformers {transformers.__version__}, torchvision, pillow", "sizes": sizes,
           "pictures": [packed(p, "PNG") for p in pictures], "jpeg": packed(pictures[0], "JPEG", quality=95, subsampling=0),
           "jpegPixels": base64.b64encode(np.array(Image.open(io.BytesIO(base64.b64decode(packed(pictures[0], "JPEG", quality=95, subsampling=0)))).convert("RGB")).tobytes()).decode(),
           "pngs": [{"what": what, "file": packed(p, "PNG", **o), "pixels": base64.b64encode(np.array(p.convert("RGB")).tobytes()).decode(), "size": p.size}
                    for what, p, o in [("palette", pictures[3].convert("P"), {}), ("grey", pictures[3].convert("L"), {}), ("bits", pictures[3].convert("1"), {}),
                                       ("alpha", pictures[3].convert("RGBA"), {}), ("grey and alpha", pictures[3].convert("LA"), {})]],
           "families": families}, open(__file__.replace("make.py", "golden.json"), "w"), separators=(",", ":"))
