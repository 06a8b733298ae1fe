"""LoRA training of a model folder by PyTorch with peft, for `npm run bench engine -- --against peft`.

Reads one JSON request a line, {"do": "train", "model": DIR, "rank": 16, "rows": 8, "length": 256, "steps": 2, "dtype": …}, answers one.
"""
import json, sys, time
import torch, transformers, peft

states = {}


def load(request):
    model = transformers.AutoModelForCausalLM.from_pretrained(request["model"], dtype=getattr(torch, request["dtype"]))
    how = peft.LoraConfig(r=request["rank"], lora_alpha=request["rank"], target_modules="all-linear")
    model = peft.get_peft_model(model, how)
    trained = [p for p in model.parameters() if p.requires_grad]
    return model, trained, torch.optim.AdamW(trained, lr=1e-4, fused=True)


def train(request):
    if request["dtype"] not in states:
        states[request["dtype"]] = load(request)
    model, trained, optimizer = states[request["dtype"]]
    rows, length = request["rows"], request["length"]
    ids = torch.randint(0, model.config.vocab_size, (rows, length + 1))
    start = time.perf_counter()
    for _ in range(request["steps"]):
        logits = model(ids[:, :-1], use_cache=False).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1), reduction="sum")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return {"tokensPerSecond": request["steps"] * rows * length / (time.perf_counter() - start)}


for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "about":
        answer = {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    else:
        torch.set_num_threads(request["threads"])
        answer = train(request)
    print(json.dumps(answer), flush=True)
