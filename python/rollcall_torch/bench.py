"""Speed and memory of updates on this machine: `python -m rollcall_torch.bench --model DIR --tokens 16384 [--fused]`.

Groups of attempts with a shared prompt are made from random ids. `--shape 1.5B` takes random weights instead of a model's.
`--lora-rank 32` trains adapters alone, `--base-bits 4` beside it holds what is frozen in four bits.
`--profile` adds a table of the time by kind of kernel. The last line is JSON. Utilisation counts
6 · trained parameters · computed tokens, and 4 of frozen ones, which need no gradient, over the time of forward, backward
and step; recomputation is not counted.
"""

import argparse
import atexit
import gc
import json
import shutil
import tempfile
import time

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from .adam import AdamOptions
from .dealing import computed_tokens
from .group import Group
from .head import CHUNK_LOGITS
from .memory_table import SHAPES, config_of
from .model import ModelOptions
from .profile import profiled, table
from .rows import Row
from .trainer import Trainer

ADAM = AdamOptions(1e-6, 0.9, 0.999, 1e-8, 0.0, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a folder in the Hugging Face layout")
    parser.add_argument("--shape", choices=SHAPES, help="random weights of Qwen2.5's shape, where there is no model")
    parser.add_argument("--tokens", type=int, default=16384, help="computed in one micro-batch")
    parser.add_argument("--batches", type=int, default=4, help="micro-batches of one step")
    parser.add_argument("--steps", type=int, default=3, help="timed steps, after one that is not")
    parser.add_argument("--prompt", type=int, default=470)
    parser.add_argument("--reply", type=int, default=200)
    parser.add_argument("--attempts", type=int, default=8)
    parser.add_argument("--recompute", type=float, default=1.0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--lora-rank", type=int, help="adapters of this rank on every linear layer of the decoder")
    parser.add_argument("--base-bits", type=int, choices=(4,), help="of what adapters leave frozen")
    parser.add_argument("--profile", action="store_true", help="one more step, and where its time went")
    parser.add_argument("--attention")
    parser.add_argument("--chunk", type=int, help="logits that exist at once, as a power of two")
    parser.add_argument("--peak-teraflops", type=float, default=989, help="of the device in the precision of computing")
    options = parser.parse_args()
    if (options.model is None) == (options.shape is None):
        parser.error("one of --model and --shape is needed")
    if options.chunk:
        CHUNK_LOGITS.update({device: 1 << options.chunk for device in CHUNK_LOGITS})
    group = Group("cuda" if torch.cuda.is_available() else "cpu")
    folder = options.model or random_model(options.shape, group.device)
    given = {
        "path": folder,
        "recompute": options.recompute,
        "compile": options.compile,
        "fused": options.fused,
        "attention": options.attention,
        "lora": {"rank": options.lora_rank, "alpha": options.lora_rank} if options.lora_rank else None,
        "base_bits": options.base_bits,
    }
    trainer = Trainer(ModelOptions.parse({**given, "tokens": 2 * options.tokens}), group, print)
    random = np.random.default_rng(1)
    batches = [make_rows(random, options, trainer.config.vocab_size) for _ in range(options.batches)]
    computed = sum(computed_tokens(rows, list(range(len(rows)))) for rows in batches)
    seconds: list[dict[str, float]] = []
    said: list[float] = []
    for _ in range(options.steps + 1):
        seconds.append(take_step(trainer, batches, said))
        print(json.dumps(seconds[-1]), flush=True)
    if options.profile:
        print(table(profiled(lambda: take_step(trainer, batches, []), group.device)), flush=True)
    multiplied = 6 * trainer.trained + 4 * (trainer.parameters - trainer.trained)
    timed = seconds[1:]
    whole = float(np.median([sum(parts.values()) for parts in timed]))
    on_cuda = group.device.type == "cuda"
    print(
        json.dumps(
            {
                "device": torch.cuda.get_device_name() if on_cuda else "cpu",
                "attention": trainer.way,
                "fused": options.fused,
                "chunk": options.chunk,
                # Of the first step: what is computed another way must say the same.
                "logprob": said[0],
                "gradientNorm": said[len(batches)],
                "compile": options.compile,
                "recompute": options.recompute,
                "loraRank": options.lora_rank,
                "baseBits": options.base_bits,
                "parameters": trainer.parameters,
                "trained": trainer.trained,
                "tokensPerMicroBatch": computed // len(batches),
                "secondsPerStep": round(whole, 4),
                "tokensPerSecond": round(computed / whole),
                "utilisation": round(multiplied * computed / whole / (1e12 * options.peak_teraflops), 4),
                "peakGB": round(torch.cuda.max_memory_allocated() / 1e9, 2) if on_cuda else None,
                "parts": {name: round(float(np.median([parts[name] for parts in timed])), 4) for name in timed[0]},
            }
        )
    )
    group.close()


def random_model(shape: str, device: torch.device) -> str:
    """A folder with a model of that shape: every size is a real one's, no weight is."""
    folder = tempfile.mkdtemp(prefix="rollcall-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    torch.manual_seed(1)
    with torch.device(device):
        AutoModelForCausalLM.from_config(config_of(shape), dtype=torch.bfloat16).save_pretrained(folder)
    gc.collect()
    if device.type == "cuda":  # the peak is the trainer's
        torch.cuda.reset_peak_memory_stats()
    return folder


def make_rows(random: np.random.Generator, options: argparse.Namespace, vocabulary: int) -> list[Row]:
    """Whole groups, as many as the tokens allow."""
    rows: list[Row] = []
    per_group = options.prompt + options.attempts * options.reply
    for _ in range(max(1, options.tokens // per_group)):
        prompt = random.integers(0, vocabulary, options.prompt)
        first = len(rows)
        for attempt in range(options.attempts):
            ids = np.concatenate([prompt, random.integers(0, vocabulary, options.reply)]).astype(np.int32)
            targets = (np.arange(len(ids)) >= options.prompt).astype(np.uint8)
            shared = {} if attempt == 0 else {"prefix_row": first, "prefix_length": options.prompt}
            rows.append(Row(ids, targets, **shared))
    return rows


def take_step(trainer: Trainer, batches: list[list[Row]], said: list[float]) -> dict[str, float]:
    """Seconds by part. `said` gets the mean log-prob of every micro-batch and, last, the norm of the step's gradient."""
    parts = {"forward": 0.0, "backward": 0.0, "step": 0.0}

    def timed(name: str, act):
        begin = time.perf_counter()
        result = act()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        parts[name] += time.perf_counter() - begin
        return result

    for rows in batches:
        number, outputs = timed("forward", lambda: trainer.forward(rows, 1.0, ["logprob"], lambda: False))
        said.append(float(outputs["logprob"].mean()))
        gradients = {"logprob": np.full(len(outputs["logprob"]), -1e-3, np.float32)}
        timed("backward", lambda: trainer.backward(number, gradients))
    said.append(timed("step", lambda: trainer.optim_step(ADAM))[0])
    return parts


if __name__ == "__main__":
    main()
