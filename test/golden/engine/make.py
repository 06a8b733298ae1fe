"""Goldens for the embedded engine, by PyTorch and transformers in float64.

    python make.py OUT --family llama --seed 1 [--shards] [--precision bfloat16] [--value-head] [--lora] [--random-shape] [--rope yarn]
    Families: llama, qwen2, qwen3, mistral, gemma2, gemma3_text, phi3. The last four have windows shorter than their rows.

Writes a model folder (saved by transformers), golden.json (rows, output gradients, outputs, loss) and the gradient of
every parameter and its value after one clipped AdamW step, as float32 safetensors. With --lora, an adapter by PEFT.
"""
import argparse, copy, json, os, random
import numpy as np, torch, transformers
from safetensors.torch import save_file

p = argparse.ArgumentParser()
p.add_argument("out"); p.add_argument("--family", default="llama"); p.add_argument("--seed", type=int, default=1)
p.add_argument("--shards", action="store_true"); p.add_argument("--precision", default="float32")
p.add_argument("--value-head", action="store_true"); p.add_argument("--lora", action="store_true")
p.add_argument("--random-shape", action="store_true"); p.add_argument("--rope", default="default")
a = p.parse_args()
rng = random.Random(a.seed); torch.manual_seed(a.seed); torch.set_default_dtype(torch.float64)

shape = dict(vocab_size=37, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=40, max_position_embeddings=96, rms_norm_eps=1e-5)
head, lengths = 8, [17, 23, 9]
if a.random_shape:
    kv = rng.choice([1, 2, 3]); head = rng.choice([4, 8, 10, 16, 32])
    shape = dict(vocab_size=rng.randint(20, 400), hidden_size=8 * rng.randint(1, 12), num_hidden_layers=rng.randint(1, 4),
                 num_attention_heads=kv * rng.choice([1, 2, 4]), num_key_value_heads=kv, intermediate_size=rng.randint(8, 150),
                 max_position_embeddings=256, rms_norm_eps=rng.choice([1e-5, 1e-6]))
    lengths = [rng.randint(2, 150) for _ in range(rng.randint(1, 6))]
tied = rng.random() < 0.5 if a.random_shape else a.family not in ("llama", "mistral", "phi3")
theta = rng.choice([1000.0, 10000.0, 1e6])
kind = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "mistral": "Mistral", "gemma2": "Gemma2", "gemma3_text": "Gemma3", "phi3": "Phi3"}[a.family]
if a.family in ("qwen2", "phi3"):  # its head size is always hidden / heads
    head = 2 * max(1, shape["hidden_size"] // (2 * shape["num_attention_heads"]))
    shape["hidden_size"] = head * shape["num_attention_heads"]
else:
    shape["head_dim"] = head
rope = {"linear": {"factor": 3.0}, "yarn": {"factor": 4.0, "original_max_position_embeddings": 16},
        "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}
scaling = {} if a.rope == "default" else {"rope_parameters": {"rope_type": a.rope, "rope_theta": theta, **rope[a.rope]}}
window = rng.randint(1, 40) if a.random_shape else 7
own = {"mistral": {"sliding_window": window}, "phi3": {"sliding_window": window, "original_max_position_embeddings": shape["max_position_embeddings"]},
       # Caps small enough to bend most scores.
       "gemma2": {"sliding_window": window, "query_pre_attn_scalar": 12, "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.5}}.get(a.family, {})
if a.family == "gemma3_text":
    if not a.random_shape: shape["num_hidden_layers"] = 3
    types = ["full_attention" if layer % 3 == 1 else "sliding_attention" for layer in range(shape["num_hidden_layers"])]
    own = {"sliding_window": window, "query_pre_attn_scalar": 12, "layer_types": types}
    scaling = {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 1e6},
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}
config = getattr(transformers, (kind + "Text" if kind == "Gemma3" else kind) + "Config")(
    **shape, **own, **(scaling or {"rope_theta": theta}), tie_word_embeddings=tied, bos_token_id=None, eos_token_id=None, pad_token_id=None)
config._attn_implementation = "eager"
model = getattr(transformers, kind + "ForCausalLM")(config).double()
with torch.no_grad():
    for name, value in model.named_parameters():
        if name.endswith("bias"): value.normal_(0, 0.3)
        # What layers add outweighs a tied embedding, else a greedy reply repeats its last token.
        elif a.family.startswith("gemma") and "norm" in name: value.normal_(2 if "layers" in name and "post_" in name else 0, 0.2)
        elif "norm" in name: value.normal_(1, 0.2)
        else: value.normal_(0, value.shape[1] ** -0.5)
# Only parameters are rounded: a cast of the model would round its rotary frequencies too.
stored = getattr(torch, a.precision)
with torch.no_grad():
    for value in model.parameters(): value.copy_(value.to(stored))
os.makedirs(a.out, exist_ok=True)
copy.deepcopy(model).to(stored).save_pretrained(a.out, **({"max_shard_size": "12KB"} if a.shards else {}))
for extra in ["generation_config.json"]:
    if os.path.exists(f"{a.out}/{extra}"): os.remove(f"{a.out}/{extra}")
save = lambda name, tensors: save_file({k: v.detach().to(torch.float32).contiguous() for k, v in tensors.items()}, f"{a.out}/{name}")

value_head = None
if a.value_head:
    value_head = {"value_head.weight": torch.nn.Parameter(torch.randn(1, shape["hidden_size"], dtype=torch.float32).double() * 0.2),
                  "value_head.bias": torch.nn.Parameter(torch.randn(1, dtype=torch.float32).double())}
    os.makedirs(f"{a.out}/trainer", exist_ok=True)
    save("trainer/value_head.safetensors", value_head)
TARGETS = ["qkv_proj", "gate_up_proj", "down_proj"] if a.family == "phi3" else ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"]
if a.lora:
    import peft
    model = peft.get_peft_model(model, peft.LoraConfig(r=3, lora_alpha=7, target_modules=TARGETS,
                                                       task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_" in name: value.copy_(torch.randn(value.shape, dtype=torch.float32).double() * 0.3)
    model = model.double()
    copy.deepcopy(model).float().save_pretrained(f"{a.out}/adapter")
    if os.path.exists(f"{a.out}/adapter/README.md"): os.remove(f"{a.out}/adapter/README.md")

temperature = 0.7
prompt = [rng.randrange(shape["vocab_size"]) for _ in range(5)]
rows, gradients, outputs, loss = [], [], [], 0
for index, length in enumerate(lengths):
    ids = (prompt if length > 5 else []) + [rng.randrange(shape["vocab_size"]) for _ in range(length)]
    ids = ids[:length]
    targets = [0] + [int(rng.random() < 0.7) for _ in ids[1:]]
    base = model.model if a.lora else model
    result = base(input_ids=torch.tensor([ids]), output_hidden_states=True)
    hidden = result.hidden_states[-1][0, :-1]
    logp = torch.log_softmax(result.logits[0, :-1] / temperature, -1)
    out = {"logprob": logp[range(len(ids) - 1), ids[1:]], "entropy": -(logp.exp() * logp).sum(-1), "sumSquares": (2 * logp).exp().sum(-1)}
    if value_head: out["value"] = (hidden @ value_head["value_head.weight"].T + value_head["value_head.bias"])[:, 0]
    grad = {k: [0.0] + [round(rng.uniform(-1, 1), 3) * t for t in targets[1:]] for k in out}
    loss = loss + sum((v * torch.tensor(grad[k][1:])).sum() for k, v in out.items())
    rows.append({"ids": ids, "targets": targets}); gradients.append(grad)
    outputs.append({k: [0.0] + [float(x) * t for x, t in zip(v.detach(), targets[1:])] for k, v in out.items()})
loss.backward()
trained = {k: v for k, v in model.named_parameters() if v.requires_grad}
if value_head: trained.update(value_head)
grads = {k: v.grad if v.grad is not None else torch.zeros_like(v) for k, v in trained.items()}
save("gradient.safetensors", {k.replace(".default", ""): v for k, v in grads.items()})
# A large epsilon: with a tiny one the first step is the sign of the gradient, and rounding decides the smallest.
adam = dict(lr=0.01, betas=(0.9, 0.95), eps=1e-3, weight_decay=0.1)
norm = torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
torch.optim.AdamW(trained.values(), **adam).step()
save("after.safetensors", {k.replace(".default", ""): v for k, v in trained.items()})
json.dump({"made_with": f"torch {torch.__version__}, transformers {transformers.__version__}, float64", "temperature": temperature,
           "rows": rows, "gradients": gradients, "outputs": outputs, "loss": float(loss), "grad_norm": float(norm), "clip_norm": 1.0, "adam": adam},
          open(f"{a.out}/golden.json", "w"), separators=(",", ":"))
