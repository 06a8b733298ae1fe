"""The same shapes in PyTorch, for `npm run bench engine -- --against torch`.

Reads one JSON request a line: {"do": "train" | "generate", "dtype": "float32" | "bfloat16", "shape": {…}, …}; answers one JSON
line. Eager, SDPA attention (no padding, no materialised mask), fused AdamW, KV cache of the final length; all that torch does well
on a CPU. In bfloat16 training keeps float32 weights under autocast, and generation holds everything in bfloat16.
"""
import json, sys, time
import torch, torch.nn.functional as F


class Model(torch.nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        d, q, kv, m = s["hidden"], s["heads"] * s["headSize"], s["kvHeads"] * s["headSize"], s["intermediate"]
        matrix = lambda o, i: torch.nn.Parameter(torch.randn(o, i) * i ** -0.5)
        self.embed = matrix(s["vocabulary"], d)
        self.final = torch.nn.Parameter(torch.ones(d))
        self.layers = torch.nn.ModuleList()
        for _ in range(s["layers"]):
            layer = torch.nn.Module()
            layer.n1, layer.n2 = torch.nn.Parameter(torch.ones(d)), torch.nn.Parameter(torch.ones(d))
            layer.qkv, layer.o = matrix(q + 2 * kv, d), matrix(d, q)
            layer.gate_up, layer.down = matrix(2 * m, d), matrix(d, m)
            self.layers.append(layer)
        frequency = s["ropeBase"] ** (-torch.arange(0, s["headSize"] // 2) / (s["headSize"] // 2))
        angles = torch.arange(4096)[:, None] * frequency[None]
        self.cos, self.sin = angles.cos(), angles.sin()

    def rotate(self, x, at):
        a, b = x.chunk(2, -1)
        cos, sin = self.cos[at : at + x.shape[2]], self.sin[at : at + x.shape[2]]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, ids, cache=None, at=0):
        s = self.s
        b, t = ids.shape
        h, k_, e = s["heads"], s["kvHeads"], s["headSize"]
        x = F.embedding(ids, self.embed)
        for index, layer in enumerate(self.layers):
            y = F.linear(F.rms_norm(x, (s["hidden"],), layer.n1, 1e-6), layer.qkv)
            q, k, v = (z.view(b, t, -1, e).transpose(1, 2) for z in y.split([h * e, k_ * e, k_ * e], -1))
            q, k = self.rotate(q, at), self.rotate(k, at)
            if cache is not None:
                keys, values = cache[index]
                keys[:, :, at : at + t], values[:, :, at : at + t] = k, v
                k, v = keys[:, :, : at + t], values[:, :, : at + t]
            y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1, enable_gqa=h != k_)
            x = x + F.linear(y.transpose(1, 2).reshape(b, t, h * e), layer.o)
            gate, up = F.linear(F.rms_norm(x, (s["hidden"],), layer.n2, 1e-6), layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        return F.linear(F.rms_norm(x, (s["hidden"],), self.final, 1e-6), self.embed)


def train(state, request):
    rows, length = request["rows"], request["length"]
    if state.get("shape") != request["shape"]:
        state["model"] = Model(request["shape"])
        state["optimizer"] = torch.optim.AdamW(state["model"].parameters(), lr=1e-4, fused=True)
        state["shape"] = request["shape"]
    model, optimizer = state["model"], state["optimizer"]
    ids = torch.randint(0, request["shape"]["vocabulary"], (rows, length + 1))
    start = time.perf_counter()
    for _ in range(request["steps"]):
        with torch.autocast("cpu", torch.bfloat16, enabled=request["dtype"] == "bfloat16"):
            logits = model(ids[:, :-1])
        logits = logits.float()
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), ids[:, 1:].reshape(-1), reduction="sum")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return {"tokensPerSecond": request["steps"] * rows * length / (time.perf_counter() - start)}


@torch.inference_mode()
def generate(state, request):
    dtype = getattr(torch, request["dtype"])
    if state.get("shape") != request["shape"]:
        state["model"], state["shape"] = Model(request["shape"]).to(dtype), request["shape"]
        state["model"].cos, state["model"].sin = state["model"].cos.to(dtype), state["model"].sin.to(dtype)
    model, s, b, new = state["model"], request["shape"], request["requests"], request["tokens"]
    prompt = torch.randint(0, s["vocabulary"], (b, request["promptTokens"]))
    total = request["promptTokens"] + new
    cache = [tuple(torch.empty(b, s["kvHeads"], total, s["headSize"], dtype=dtype) for _ in range(2)) for _ in range(s["layers"])]
    start = time.perf_counter()
    ids, at = prompt, 0
    for _ in range(new):
        logits = model(ids, cache, at)[:, -1]
        at += ids.shape[1]
        logp = F.log_softmax(logits.float(), -1)
        ids = torch.multinomial(logp.exp(), 1)
        logp.gather(1, ids)
    return {"tokensPerSecond": b * new / (time.perf_counter() - start)}


states = {}
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "about":
        answer = {"torch": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability(), "mkl": torch.backends.mkl.is_available(),
                  "mkldnn": torch.backends.mkldnn.is_available(), "threads": torch.get_num_threads()}
    else:
        torch.set_num_threads(request["threads"])
        state = states.setdefault((request["do"], request["dtype"], json.dumps(request["shape"])), {})
        answer = {"train": train, "generate": generate}[request["do"]](state, request)
    print(json.dumps(answer), flush=True)
