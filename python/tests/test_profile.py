from types import SimpleNamespace

import torch

from rollcall_torch.profile import is_kernel, kind_of, parts_of, profiled, span_and_busy, table


def test_time_is_split_by_kind_and_nothing_is_lost():
    weight = torch.randn(256, 256)
    found = profiled(lambda: [torch.nn.functional.silu(weight @ weight) for _ in range(20)], torch.device("cpu"))
    by_kind = {part.kind: part for part in found.parts}
    assert by_kind["matrix products"].kernels >= 20 and by_kind["gates"].kernels == 20
    assert abs(sum(part.seconds for part in found.parts) - found.span) < 1e-9
    assert "| gates |" in table(found)


def test_kernels_of_a_gpu_have_the_kind_that_their_names_say():
    kinds = {
        "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NTT": "matrix products",
        "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>": "attention",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<...>": "norms",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<..., FusedAdamMathFunctor<...>>": "optimizer",
        "row_outputs": "head's passes",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>": "other elementwise passes",
        "Memcpy DtoD (Device -> Device)": "copies and casts",
    }
    assert {name: kind_of(name) for name in kinds} == kinds


def test_idle_time_is_where_no_kernel_ran():
    assert span_and_busy([(0, 2), (1, 3), (5, 6)]) == (6, 4)
    assert [part.kind for part in parts_of([("gemm", 1.0), ("silu", 2.0), ("gemm", 3.0)])] == ["matrix products", "gates"]


def test_a_stretch_that_a_program_names_is_no_kernel():
    on_gpu, on_cpu = torch.autograd.DeviceType.CUDA, torch.autograd.DeviceType.CPU
    events = [(on_gpu, False), (on_gpu, True), (on_cpu, False)]
    found = [is_kernel(SimpleNamespace(device_type=where, is_user_annotation=named)) for where, named in events]
    assert found == [True, False, False]
