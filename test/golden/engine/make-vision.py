"""Goldens for the embedded engine's sight, by PyTorch and transformers in float64.

    python make-vision.py qwen2_5_vl --seed 5

Writes a tiny random Qwen2.5-VL (saved by transformers) with its processor's settings, and golden.json: rows with images
(as PNG, one placeholder each), output gradients, outputs, loss; the gradient of every parameter and its value after one
clipped AdamW step as float32 safetensors.
"""
import argparse, base64, copy, io, json, os, random
import numpy as np, torch, transformers
from PIL import Image
from safetensors.torch import save_file

p = argparse.ArgumentParser()
p.add_argument("out"); p.add_argument("--seed", type=int, default=5)
a = p.parse_args()
rng = random.Random(a.seed); torch.manual_seed(a.seed); np.random.seed(a.seed); torch.set_default_dtype(torch.float64)

IMAGE, START, END = 35, 33, 34
text = dict(vocab_size=37, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=40,
            max_position_embeddings=256, rms_norm_eps=1e-5, rope_theta=1000.0, tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [2, 1, 1]},
            bos_token_id=None, eos_token_id=None, pad_token_id=None)
vision = dict(depth=3, hidden_size=16, num_heads=2, intermediate_size=28, patch_size=4, spatial_merge_size=2, temporal_patch_size=2,
              window_size=16, fullatt_block_indexes=[1], out_hidden_size=32, in_channels=3, hidden_act="silu")
config = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE, vision_start_token_id=START,
                                       vision_end_token_id=END, video_token_id=36, tie_word_embeddings=True)
config._attn_implementation = "eager"
model = transformers.Qwen2_5_VLForConditionalGeneration(config).double()
with torch.no_grad():
    for name, value in model.named_parameters():
        if name.endswith("bias"): value.normal_(0, 0.3)
        elif "norm" in name or "ln_q" in name: value.normal_(1, 0.2)
        else: value.normal_(0, value[0].numel() ** -0.5)
        value.copy_(value.float())
os.makedirs(a.out, exist_ok=True)
copy.deepcopy(model).float().save_pretrained(a.out)
if os.path.exists(f"{a.out}/generation_config.json"): os.remove(f"{a.out}/generation_config.json")
processor = transformers.Qwen2VLImageProcessor(patch_size=4, merge_size=2, temporal_patch_size=2, min_pixels=64, max_pixels=4096)
processor.save_pretrained(a.out)

images = []
for width, height in [(24, 16), (40, 24), (8, 8), (20, 33)]:
    pixels = np.random.randint(0, 256, (height, width, 3), dtype=np.uint8)
    images.append(Image.fromarray(pixels))
png = []
for image in images:
    data = io.BytesIO(); image.save(data, "PNG"); png.append(base64.b64encode(data.getvalue()).decode())
grids, pixel_values = [], []
for image in images[:3]:  # the last needs a resize, which images.json tests
    out = processor(images=[image], return_tensors="pt")
    grids.append(out["image_grid_thw"][0].tolist()); pixel_values.append(out["pixel_values"].double())

def row(parts):
    """Ids with one placeholder per image, and the ids that the model takes."""
    ids, placed = [], []
    for part in parts:
        if isinstance(part, tuple):
            ids.append(START); placed.append({"at": len(ids), "image": part[0]}); ids += [IMAGE, END]
        else: ids += [rng.randrange(33) for _ in range(part)]
    return ids, placed

temperature = 0.7
rows, gradients, outputs, positions, loss = [], [], [], [], 0
for parts in [[3, (0,), 6], [4, (1,), 5, (2,), 4], [9], [2, (2,), 1, (0,), 7]]:
    ids, placed = row(parts)
    at = {p["at"]: p["image"] for p in placed}
    expanded, own = [], []
    for i, token in enumerate(ids):
        count = grids[at[i]][1] * grids[at[i]][2] // 4 if i in at else 1
        own.append(len(expanded)); expanded += [token] * count
    targets = [0] + [int(rng.random() < 0.7 and token != IMAGE) for token in ids[1:]]
    inputs = dict(input_ids=torch.tensor([expanded]))
    if placed:
        inputs["pixel_values"] = torch.cat([pixel_values[p["image"]] for p in placed])
        inputs["image_grid_thw"] = torch.tensor([grids[p["image"]] for p in placed])
        types = (inputs["input_ids"] == IMAGE).long()
        inputs["mm_token_type_ids"] = types
        where, _ = model.model.get_rope_index(inputs["input_ids"], types, image_grid_thw=inputs["image_grid_thw"])
        positions.append(where[:, 0].long().tolist())
    else: positions.append([list(range(len(expanded)))] * 3)
    hidden = model.model(**inputs).last_hidden_state[0]
    logp = torch.log_softmax(model.lm_head(hidden) / temperature, -1)
    before = [own[i] - 1 for i in range(1, len(ids))]
    logp = logp[before]
    out = {"logprob": logp[range(len(ids) - 1), ids[1:]], "entropy": -(logp.exp() * logp).sum(-1)}
    grad = {k: [0.0] + [round(rng.uniform(-1, 1), 3) * t for t in targets[1:]] for k in out}
    loss = loss + sum((v * torch.tensor(grad[k][1:])).sum() for k, v in out.items())
    rows.append({"ids": ids, "targets": targets, "images": placed}); gradients.append(grad)
    outputs.append({k: [0.0] + [float(x) * t for x, t in zip(v.detach(), targets[1:])] for k, v in out.items()})
loss.backward()
trained = dict(model.named_parameters())
# The names of the files, which transformers keeps as they were before it nested the parts.
plain = lambda name: name.replace("model.language_model.", "model.").replace("model.visual.", "visual.")
save = lambda name, tensors: save_file({plain(k): v.detach().to(torch.float32).contiguous() for k, v in tensors.items()}, f"{a.out}/{name}")
save("gradient.safetensors", {k: v.grad if v.grad is not None else torch.zeros_like(v) for k, v in trained.items()})
with torch.no_grad():  # greedy, from the first row's beginning
    inputs = dict(input_ids=torch.tensor([[1, 2, START] + [IMAGE] * (grids[1][1] * grids[1][2] // 4) + [END, 3]]), pixel_values=pixel_values[1],
                  image_grid_thw=torch.tensor([grids[1]]))
    greedy = []
    for _ in range(12):
        inputs["mm_token_type_ids"] = (inputs["input_ids"] == IMAGE).long()
        logits = model(**inputs).logits[0, -1]
        greedy.append(int(logits.argmax())); inputs["input_ids"] = torch.cat([inputs["input_ids"], torch.tensor([[greedy[-1]]])], 1)
adam = dict(lr=0.01, betas=(0.9, 0.95), eps=1e-3, weight_decay=0.1)
norm = torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
torch.optim.AdamW(trained.values(), **adam).step()
save("after.safetensors", trained)
json.dump({"made_with": f"torch {torch.__version__}, transformers {transformers.__version__}, float64", "temperature": temperature,
           "images": png, "rows": rows, "gradients": gradients, "outputs": outputs, "positions": positions, "grids": grids,
           "greedy": {"prompt": [1, 2, START, IMAGE, END, 3], "image": 1, "ids": greedy},
           "loss": float(loss), "grad_norm": float(norm), "clip_norm": 1.0, "adam": adam},
          open(f"{a.out}/golden.json", "w"), separators=(",", ":"))
