"""Where the time of an update goes, by kind of kernel."""

import re
from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch.profiler import ProfilerActivity, profile

# The first pattern that is found in a kernel's name says its kind. On a CPU names are those of PyTorch's operations.
KINDS = (
    ("attention", r"flash|fmha|attention|varlen|scaled_dot"),
    ("matrix products", r"gemm|nvjet|cutlass|cublas|xmma|splitk|wgmma|aten::(add|b)?mm\b|mkldnn"),
    ("exchange between ranks", r"nccl|gloo|all_gather|reduce_scatter"),
    ("optimizer", r"adam|lpnorm|l2norm|FusedOptimizer|_foreach"),
    ("norms", r"rms|layer_?norm"),
    ("gates", r"gate_forward|gate_backward|silu"),
    ("head's passes", r"row_outputs|row_gradients|logsumexp|softmax|cunn"),
    ("embeddings and gathers", r"embedding|index|gather|scatter|sort|radix"),
    ("copies and casts", r"copy|memcpy|memset|cat|fill|zero_|_to_copy|chunk"),
    ("sums and other reductions", r"reduce|sum|mean|max"),
    ("other elementwise passes", r"elementwise|aten::|vectorized|triton"),
)


@dataclass(frozen=True)
class Part:
    kind: str
    seconds: float
    kernels: int
    # The names that took most, with their seconds.
    most: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Profile:
    parts: list[Part]
    # From the first kernel to the last, and how much of it no kernel ran.
    span: float
    idle: float


def profiled(act: Callable[[], object], device: torch.device) -> Profile:
    """Kernels on a GPU; on a CPU PyTorch's operations, each without those it calls."""
    on_cuda = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_cuda else [])]) as recorded:
        act()
        if on_cuda:
            torch.cuda.synchronize()
    if on_cuda:
        ran = [
            (event.name, event.time_range.start / 1e6, event.time_range.end / 1e6)
            for event in recorded.events()
            if is_kernel(event)
        ]
        times = [(name, end - start) for name, start, end in ran]
        span, busy = span_and_busy([(start, end) for _, start, end in ran])
    else:
        times = [(event.name, event.self_cpu_time_total / 1e6) for event in recorded.events()]
        times = [(name, seconds) for name, seconds in times if name.startswith("aten::")]
        span = busy = sum(seconds for _, seconds in times)
    return Profile(parts_of(times), span, span - busy)


def is_kernel(event: Any) -> bool:
    """Stretches that a program has named, as FSDP names what it does, are told as if they ran on the GPU. They are no kernels."""
    return event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation


def parts_of(times: list[tuple[str, float]]) -> list[Part]:
    by_kind: dict[str, dict[str, list[float]]] = {}
    for name, seconds in times:
        by_kind.setdefault(kind_of(name), {}).setdefault(name, []).append(seconds)
    parts = []
    for kind, by_name in by_kind.items():
        totals = sorted(((name, sum(all_of)) for name, all_of in by_name.items()), key=lambda one: -one[1])
        count = sum(len(all_of) for all_of in by_name.values())
        parts.append(Part(kind, sum(seconds for _, seconds in totals), count, tuple(totals[:3])))
    return sorted(parts, key=lambda part: -part.seconds)


def kind_of(name: str) -> str:
    return next((kind for kind, pattern in KINDS if re.search(pattern, name, re.IGNORECASE)), "rest")


def span_and_busy(ran: list[tuple[float, float]]) -> tuple[float, float]:
    """From the first start to the last end, and the part of it in which at least one ran."""
    if not ran:
        return 0.0, 0.0
    ordered = sorted(ran)
    busy, until = 0.0, ordered[0][0]
    for start, end in ordered:
        busy += max(0.0, end - max(start, until))
        until = max(until, end)
    return until - ordered[0][0], busy


def table(found: Profile) -> str:
    whole = sum(part.seconds for part in found.parts) or 1.0
    lines = ["| kind | ms | share | kernels | most of it |", "| --- | ---: | ---: | ---: | --- |"]
    for part in found.parts:
        most = "; ".join(f"{short(name)} {1000 * seconds:.1f}" for name, seconds in part.most)
        lines.append(f"| {part.kind} | {1000 * part.seconds:.1f} | {part.seconds / whole:.1%} | {part.kernels} | {most} |")
    lines.append(f"| from first to last | {1000 * found.span:.1f} | idle {found.idle / (found.span or 1):.1%} | | |")
    return "\n".join(lines)


def short(name: str) -> str:
    """Names of templates run to hundreds of characters; what tells them apart is at the front or in `…Functor`."""
    functor = re.search(r"(\w+Functor\w*|\w+_kernel_impl\w*|\w+_kernel_cuda\w*)", name)
    plain = re.sub(r"^void |at::native::|\(anonymous namespace\)::", "", name).replace("|", "/")
    return plain[:48] + (f"…{functor.group(1)}" if functor and functor.group(1) not in plain[:48] else "")
