"""TRL's GRPOTrainer on GSM8K, for `npm run bench trl`: the same model, tasks, batch and reward as our side.

The last line is JSON: seconds, sampled tokens and mean reward of every step.
"""
import argparse, gc, importlib, json, os, re, time, traceback, uuid

# vLLM inside of this process, which TRL's colocated mode reaches into; it reads these when it is imported.
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from datasets import Dataset, fingerprint
from transformers import TrainerCallback
import trl

# datasets names its caches by pickling what they are made of, which not every pair of dill and pyarrow can; nothing is cached here.
fingerprint.Hasher.hash = classmethod(lambda cls, value: uuid.uuid4().hex[:16])

NUMBER = r"-?\$?\d[\d,]*(?:\.\d+)?"


def answer_of(text):
    """The number in "The answer is N.", else the last number: `answerOf` of recipes/gsm8k-calculator."""
    said = re.search(rf"answer is:?\s*({NUMBER})", text, re.IGNORECASE)
    found = said.group(1) if said else next(iter(re.findall(NUMBER, text)[::-1]), None)
    return None if found is None else float(re.sub(r"[$,]", "", found))


def correct(completions, answer, **_):
    found = [answer_of(completion[-1]["content"]) for completion in completions]
    return [float(one is not None and abs(one - right) <= 1e-6 * max(1, abs(right))) for one, right in zip(found, answer)]


class Clock(TrainerCallback):
    """Wall time from the end of one step to the end of the next: sampling, update and weights."""

    def __init__(self):
        self.steps, self.began = [], time.perf_counter()

    def on_train_begin(self, *_, **__):
        self.began = time.perf_counter()

    def on_step_end(self, *_, **__):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        self.steps.append({"seconds": now - self.began})
        self.began = now

    def on_log(self, args, state, control, logs=None, **_):
        if logs and "completions/mean_length" in logs and self.steps:
            batch = args.generation_batch_size
            self.steps[-1].update(tokens=logs["completions/mean_length"] * batch, reward=logs.get("reward"))
            print(json.dumps({"step": len(self.steps), **self.steps[-1]}), flush=True)


parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
parser.add_argument("--tasks", required=True, help="JSONL with system, question and answer, in order")
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--attempts", type=int, default=8)
parser.add_argument("--batch", type=int, default=256, help="trajectories of a step")
parser.add_argument("--micro", type=int, default=32, help="trajectories computed at once in the update")
parser.add_argument("--reply", type=int, default=300, help="most tokens of a reply")
parser.add_argument("--learning-rate", type=float, default=3e-6)
parser.add_argument("--generation", choices=["vllm", "transformers"], default="vllm")
parser.add_argument("--memory-share", type=float, default=0.35, help="of the card, for vLLM")
parser.add_argument("--recompute", action="store_true", help="gradient checkpointing")
options = parser.parse_args()

tasks = [json.loads(line) for line in open(options.tasks)]
rows = [
    {
        "prompt": [{"role": "system", "content": task["system"]}, {"role": "user", "content": task["question"]}],
        "answer": float(task["answer"]),
    }
    for task in tasks
]
on_gpu = torch.cuda.is_available()
COLOCATED = {
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_gpu_memory_utilization": options.memory_share,
    "vllm_max_model_length": 2048,
}
clock = Clock()
SETTINGS = {
    "output_dir": "/tmp/trl-bench",
    "report_to": "none",
    "save_strategy": "no",
    "logging_steps": 1,
    "disable_tqdm": True,
    "max_steps": options.steps,
    "use_cpu": not on_gpu,
    "bf16": on_gpu,  # f32 weights and moments, computed in bf16, as on our side
    "model_init_kwargs": {"dtype": "float32"},
    "shuffle_dataset": False,
    "num_generations": options.attempts,
    "per_device_train_batch_size": options.micro,
    "gradient_accumulation_steps": options.batch // options.micro,
    "gradient_checkpointing": options.recompute,
    "max_completion_length": options.reply,
    "temperature": 1.0,
    "learning_rate": options.learning_rate,
    "lr_scheduler_type": "constant",
    "weight_decay": 0.0,
    "max_grad_norm": 1.0,
    "beta": 0.0,
    "epsilon": 0.2,
    "epsilon_high": 0.28,
    "seed": 1,
}


def run(vllm):
    if not vllm:  # else TRL imports a vLLM that is there, usable or not
        importlib.import_module("trl.import_utils").is_vllm_available = lambda *_, **__: False
    from trl import GRPOConfig, GRPOTrainer

    clock.steps.clear()
    GRPOTrainer(
        model=options.model,
        reward_funcs=[correct],
        train_dataset=Dataset.from_list(rows),
        callbacks=[clock],
        args=GRPOConfig(**SETTINGS, **vllm),
    ).train()


generation, problem = options.generation, None
if generation == "vllm":
    try:
        run(COLOCATED)
    except Exception as error:  # of any library below: the comparison is made all the same, and says how
        traceback.print_exc()
        generation, problem = "transformers", f"vLLM could not be colocated: {type(error).__name__}: {error}"[:500]
        print(problem, flush=True)
if generation == "transformers":
    gc.collect()
    torch.cuda.empty_cache()
    run({})
print(
    json.dumps(
        {
            "trl": trl.__version__,
            "generation": generation,
            "problem": problem,
            "device": torch.cuda.get_device_name() if on_gpu else "cpu",
            "peakGB": round(torch.cuda.max_memory_allocated() / 1e9, 1) if on_gpu else None,
            "steps": clock.steps,
        }
    )
)
