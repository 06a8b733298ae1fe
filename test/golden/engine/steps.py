"""Outputs after several optimizer steps, by PyTorch and transformers in float64: `python steps.py DIR... --steps 5`.

Each DIR is a folder that make.py wrote. Every step takes the golden's rows, gradients and Adam options. Prints one line
of JSON per folder: the gradient norms of the steps, and the outputs at the targets after the last one, row by row.
"""
import argparse, json, os
import torch, transformers
from safetensors.torch import load_file


def tensors(path):
    return {name: value.double() for name, value in load_file(path).items()} if os.path.exists(path) else {}


def take_steps(folder, count):
    golden = json.load(open(f"{folder}/golden.json"))
    config = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager")
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float64)
    files = [name for name in os.listdir(folder) if name.startswith("model") and name.endswith(".safetensors")]
    left = model.load_state_dict({k: v for name in files for k, v in tensors(f"{folder}/{name}").items()}, strict=False)
    assert not left.unexpected_keys and all(name == "lm_head.weight" for name in left.missing_keys), left
    base = dict(model.named_parameters())
    value_head = tensors(f"{folder}/trainer/value_head.safetensors")
    adapter = {k.replace("base_model.model.", ""): v for k, v in tensors(f"{folder}/adapter/adapter_model.safetensors").items()}
    if adapter:
        options = json.load(open(f"{folder}/adapter/adapter_config.json"))
        scale = options["lora_alpha"] / options["r"]
    for value in [*value_head.values(), *adapter.values()]: value.requires_grad_()

    def adapted():
        changed = dict(base)
        for name in adapter:
            module = name.removesuffix(".lora_A.weight")
            if name != module: changed[f"{module}.weight"] = base[f"{module}.weight"] + scale * adapter[f"{module}.lora_B.weight"] @ adapter[name]
        return changed

    def outputs_of(row):
        ids = torch.tensor([row["ids"]])
        result = torch.func.functional_call(model, adapted(), (), {"input_ids": ids, "output_hidden_states": True})
        logp = torch.log_softmax(result.logits[0, :-1] / golden["temperature"], -1)
        out = {"logprob": logp.gather(1, ids[0, 1:, None])[:, 0], "entropy": -(logp.exp() * logp).sum(-1), "sumSquares": (2 * logp).exp().sum(-1)}
        if value_head: out["value"] = (result.hidden_states[-1][0, :-1] @ value_head["value_head.weight"].T + value_head["value_head.bias"])[:, 0]
        return out

    trained = list(adapter.values()) or [*model.parameters(), *value_head.values()]
    optimizer = torch.optim.AdamW(trained, **golden["adam"])
    norms = []
    for _ in range(count):
        optimizer.zero_grad(set_to_none=False)
        for row, gradients in zip(golden["rows"], golden["gradients"]):
            sum((v * torch.tensor(gradients[k][1:])).sum() for k, v in outputs_of(row).items()).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(trained, golden["clip_norm"])))
        optimizer.step()
    # make.py's own first step; the files hold its adapter and value head rounded to float32
    assert abs(norms[0] / golden["grad_norm"] - 1) < 1e-6, (norms[0], golden["grad_norm"])
    after = []
    with torch.no_grad():
        for row in golden["rows"]:
            at = torch.tensor(row["targets"][1:], dtype=torch.bool)
            after.append({k: v[at].tolist() for k, v in outputs_of(row).items()})
    return {"norms": norms, "after": after}


p = argparse.ArgumentParser()
p.add_argument("folders", nargs="+"); p.add_argument("--steps", type=int, default=5)
a = p.parse_args()
torch.set_default_dtype(torch.float64)
for folder in a.folders: print(json.dumps(take_steps(folder, a.steps)))
