"""`fused_check.py PART`, for test_fused.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from golden import Golden, read_golden, relative_error

from rollcall_torch import kernels
from rollcall_torch.group import Group
from rollcall_torch.head import LOGIT_OUTPUTS, TargetOutputs


def gate() -> None:
    """Values and gradients against float64, where sizes are no multiple of a block."""
    torch.manual_seed(1)
    for shape in ((3, 7), (5, 1000), (2, kernels.BLOCK)):
        given = [3 * torch.randn(shape, dtype=torch.float64) for _ in range(3)]
        exact = [one.clone().requires_grad_() for one in given[:2]]
        expected = torch.nn.functional.silu(exact[0]) * exact[1]
        expected.backward(given[2])
        found = [one.float().requires_grad_() for one in given[:2]]
        out = kernels.Gate.apply(*found)
        out.backward(given[2].float())
        close(out, expected)
        for one, other in zip(found, exact):
            close(one.grad, other.grad)


def rotation() -> None:
    """Against transformers' own formula in float64, with heads and sizes that are no powers of two, and another cos per half."""
    from transformers.models.qwen2.modeling_qwen2 import apply_rotary_pos_emb

    torch.manual_seed(3)
    for tokens, heads, size in ((5, 3, 12), (4, 12, 128)):
        x, cos, sin, by = (torch.randn(1, one, tokens, size, dtype=torch.float64) for one in (heads, 1, 1, heads))
        exact = x.clone().requires_grad_()
        expected, _ = apply_rotary_pos_emb(exact, exact, cos[:, 0], sin[:, 0])
        expected.backward(by)
        found = x.float().requires_grad_()
        out = kernels.Rotation.apply(found[0].transpose(0, 1), cos[0, 0].float(), sin[0, 0].float()).transpose(0, 1)
        out.backward(by[0].float())
        close(out, expected[0])
        close(found.grad, exact.grad)


def head() -> None:
    """Outputs and gradients against autograd in float64; the vocabulary spans several blocks and does not fill the last."""
    torch.manual_seed(2)
    rows, hidden, vocabulary, temperature = 5, 8, 2 * kernels.BLOCK + 137, 0.7
    states = torch.randn(rows, hidden, dtype=torch.float64)
    weight = 2 * torch.randn(vocabulary, hidden, dtype=torch.float64)
    ids = torch.tensor([0, vocabulary - 1, kernels.BLOCK, kernels.BLOCK - 1, 11])
    given = [torch.randn(rows, dtype=torch.float64) for _ in LOGIT_OUTPUTS]
    for spread, keep in ((False, False), (False, True), (True, False), (True, True)):
        by = given if spread else given[:1]
        exact = [states.clone().requires_grad_(), weight.clone().requires_grad_()]
        logp = torch.log_softmax(exact[0] @ exact[1].t() / temperature, -1)
        p = logp.exp()
        expected = [logp.gather(1, ids.unsqueeze(1)).squeeze(1), -(p * logp).sum(-1), p.square().sum(-1)][: len(by)]
        torch.autograd.backward(expected, by)
        found = [states.float().requires_grad_(), weight.float().requires_grad_()]
        outputs = TargetOutputs.apply(*found, ids, temperature, spread, True, keep)[: len(by)]
        torch.autograd.backward(outputs, [one.float() for one in by])
        for one, other in zip(outputs, expected):
            close(one, other)
        for one, other in zip(found, exact):
            close(one.grad, other.grad)


def kept() -> None:
    """What the head keeps in bf16 gives a gradient as near to float64 as computing its logits again, which rounds them to bf16
    too. Chunks are smaller than the targets, a frozen head gets no gradient, and entropy may be asked for without its gradient."""
    from rollcall_torch.head import CHUNK_LOGITS

    torch.manual_seed(3)
    rows, hidden, vocabulary, temperature = 100, 32, kernels.BLOCK + 33, 0.8
    CHUNK_LOGITS["cpu"] = 32 * vocabulary
    states, weight = torch.randn(rows, hidden).bfloat16(), torch.randn(vocabulary, hidden).bfloat16()
    ids, by = torch.randint(0, vocabulary, (rows,)), torch.randn(rows)
    exact = [one.double().requires_grad_() for one in (states, weight)]
    logp = torch.log_softmax(exact[0] @ exact[1].t() / temperature, -1)
    logp.gather(1, ids.unsqueeze(1)).squeeze(1).backward(by.double())
    errors = []
    for keep in (False, True):
        found = [states.clone().requires_grad_(), weight.clone().requires_grad_()]
        TargetOutputs.apply(*found, ids, temperature, True, True, keep)[0].backward(by)
        errors.append([float((one.grad - other.grad).norm() / other.grad.norm()) for one, other in zip(found, exact)])
        frozen = states.clone().requires_grad_()
        TargetOutputs.apply(frozen, weight, ids, temperature, False, True, keep)[0].backward(by)
        assert torch.equal(frozen.grad, found[0].grad)
    for again, once in zip(*errors):
        assert once < 1.2 * again < 1e-2, errors


def model() -> None:
    """A whole model with every fused part against the golden numbers, which transformers computed in float64."""
    from test_trainer import go_on, gradients_of, opened

    from rollcall_torch.fused import fuse

    group = Group("cpu")
    for name in ("llama", "qwen2", "qwen3"):
        golden = read_golden(name)
        trainer = opened(golden, name, group, fused=True)
        layers = trainer.config.num_hidden_layers
        assert fuse(trainer.scorer.causal) >= 4 * layers + 1, name
        number, outputs = trainer.forward(golden.rows, golden.temperature, list(golden.outputs), go_on)
        for output, expected in golden.outputs.items():
            assert relative_error(outputs[output], expected) < 1e-5, output
        trainer.backward(number, golden.gradients)
        found = gradients_of(trainer)
        for parameter, expected in golden.gradient.items():
            assert relative_error(found.get(parameter, np.zeros_like(expected)), expected) < 1e-4, parameter
        compare_recomputing(golden, name, group)
    group.close()


def compare_recomputing(golden: Golden, name: str, group: Group) -> None:
    """With nothing computed again the head keeps its part of the gradient: by log-probs it is the same."""
    from test_trainer import go_on, gradients_of, opened

    found = []
    for recompute in (1.0, 0.0):
        trainer = opened(golden, name, group, fused=True, recompute=recompute)
        assert trainer.options.keeps_head == (recompute == 0)
        number, _ = trainer.forward(golden.rows, golden.temperature, ["logprob", "entropy"], go_on)
        trainer.backward(number, {"logprob": golden.gradients["logprob"]})
        found.append(gradients_of(trainer))
    for parameter, again in found[0].items():
        assert relative_error(found[1][parameter], again) < 1e-5, parameter


def compiles() -> None:
    """To machine code for Hopper, in the types that training uses: the interpreter takes more than the compiler does."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile as compile_kernel

    bf16, f32, ids = "*bf16", "*fp32", "*i64"
    kinds = {
        kernels.gate_forward: [bf16] * 3 + ["i32"],
        kernels.gate_backward: [bf16] * 5 + ["i32"],
        kernels.rotate_heads: [bf16] * 4 + ["i32"] * 2,
        kernels.row_outputs: [f32, ids, *[f32] * 4, "i32", "fp32"],
        kernels.row_gradients: [f32, ids, bf16, *[f32] * 6, "i32", "fp32"],
    }
    for kernel, types in kinds.items():
        for spread in (True, False):
            sizes = {"BLOCK": kernels.BLOCK, "SPREAD": spread, "BACK": spread, "HEADS": 16, "HALF": 64}
            constants = {name: size for name, size in sizes.items() if name in kernel.arg_names}
            plain = [name for name in kernel.arg_names if name not in constants]
            signature = {**dict(zip(plain, types, strict=True)), **{name: "constexpr" for name in constants}}
            at = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
            source = ASTSource(fn=kernel, signature=signature, constexprs=at)
            options = {"num_warps": kernels.WARPS}
            compiled = compile_kernel(source, target=GPUTarget("cuda", 90, 32), options=options)
            assert compiled.asm["cubin"], kernel


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    error = relative_error(found.detach().numpy(), expected.detach().numpy())
    assert error < 1e-5, error


{"gate": gate, "rotation": rotation, "head": head, "kept": kept, "model": model, "compiles": compiles}[sys.argv[1]]()
