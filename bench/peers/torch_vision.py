"""A Qwen2.5-VL in transformers, for `npm run bench engine -- --images` and `npm run prove images`.

Reads one JSON request a line and answers one JSON line. `model` is a folder; rows have ids with one placeholder an image, and
images as base64 PNG. float32, SDPA attention, fused AdamW; rows of a batch have equal lengths, so nothing is padded.
"""
import base64, io, json, resource, sys, time
import torch, transformers
from PIL import Image

opened = {}


def open_model(path):
    if path not in opened:
        opened.clear()
        kind = transformers.Qwen2_5_VLForConditionalGeneration
        model = kind.from_pretrained(path, dtype=torch.float32, attn_implementation="sdpa")
        processor = transformers.Qwen2VLImageProcessor.from_pretrained(path)
        opened[path] = model, processor, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    return opened[path]


def batch_of(model, processor, rows):
    """Rows as the model takes them, and where each row's own positions went. The processor gets all images at once."""
    merge = processor.merge_size ** 2
    files = [io.BytesIO(base64.b64decode(image["png"])) for row in rows for image in row["images"]]
    seen = processor(images=[Image.open(file).convert("RGB") for file in files], return_tensors="pt") if files else {}
    tokens = iter((seen["image_grid_thw"].prod(-1) // merge).tolist() if files else [])
    expanded, places = [], []
    for row in rows:
        at = {image["at"]: next(tokens) for image in row["images"]}
        ids, place = [], []
        for index, token in enumerate(row["ids"]):
            place.append(len(ids))
            ids += [token] * at.get(index, 1)
        expanded.append(ids)
        places.append(place)
    ids = torch.tensor(expanded)
    inputs = {"input_ids": ids, "mm_token_type_ids": (ids == model.config.image_token_id).long()}
    return inputs | dict(seen), places


@torch.no_grad()
def score(request):
    """The log-prob of each id after the first, row by row; 0 at the first."""
    model, processor, _ = open_model(request["model"])
    results = []
    for row in request["rows"]:
        inputs, (place,) = batch_of(model, processor, [row])
        logp = torch.log_softmax(model(**inputs).logits[0], -1)
        results.append([0.0] + [float(logp[place[i] - 1, row["ids"][i]]) for i in range(1, len(place))])
    return {"logprobs": results}


class Clock:
    """Work by seconds of the wall and by seconds of processors, which others on the machine change less."""

    def __init__(self):
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def rates(self, count):
        wall, processor = time.perf_counter() - self.wall, time.process_time() - self.processor
        return {"perSecond": count / wall, "perProcessorSecond": count / processor}


def train(request):
    model, processor, optimizer = open_model(request["model"])
    inputs, _ = batch_of(model, processor, request["rows"])
    ids = inputs["input_ids"]
    target = (ids[:, 1:] != model.config.image_token_id).float()
    clock = Clock()
    for _ in range(request["steps"]):
        logits = model(**inputs, use_cache=False).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        (loss * target.flatten()).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return clock.rates(request["steps"] * len(ids))


@torch.inference_mode()
def generate(request):
    """From the images' files on."""
    model, processor, _ = open_model(request["model"])
    new = request["tokens"]
    clock = Clock()
    inputs, _ = batch_of(model, processor, request["rows"])
    model.generate(**inputs, do_sample=True, temperature=1.0, top_k=0, min_new_tokens=new, max_new_tokens=new, pad_token_id=0)
    return clock.rates(len(inputs["input_ids"]) * new)


for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "about":
        answer = {"torch": torch.__version__, "transformers": transformers.__version__}
    else:
        torch.set_num_threads(request["threads"])
        answer = {"score": score, "train": train, "generate": generate}[request["do"]](request)
        answer["peakMegabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps(answer), flush=True)
