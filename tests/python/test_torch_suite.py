"""The suite on a GPU against torch: each epilogue as one kernel, beside its own function on float64 tensors."""
import numpy as np
import pytest
from test_suite import FILES, imported

import postlude as post

M, N, K = 256, 512, 128


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_on_the_gpu(torch, path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device; ./dev gpu runs this on a GPU machine")
    generator = torch.Generator("cuda").manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=generator, device="cuda")

    for epilogue in imported(path).values():
        kind = torch.float8_e4m3fn if path.stem == "fp8_rowwise" else torch.bfloat16
        a, weight = normal(M, K).to(kind), (normal(N, K) / K).to(kind)  # B as a Linear has it: outputs x inputs
        plan = post.plan(a, weight.T, epilogue=epilogue)
        arrays = {}
        for name, axes, dtype, output in plan.slots:
            if output or name in "AB":
                continue
            shape = plan.shape_of(name, M, N, K)
            if dtype == post.i64:
                arrays[name] = torch.randint(0, N, shape, generator=generator, device="cuda")
            elif axes == 0:
                arrays[name] = torch.full((), 0.5, device="cuda")
            else:
                arrays[name] = normal(*shape).to(torch.float32 if dtype == post.f32 else torch.bfloat16)
        result = post.matmul(a, weight.T, epilogue=epilogue, **arrays)
        wide = {name: value.double() if value.is_floating_point() else value for name, value in arrays.items()}
        reference = epilogue(a.double() @ weight.double().T, **wide)
        pairs = list(zip(result, reference)) if isinstance(result, tuple) else [(result, reference)]
        for ours, wanted in pairs:
            assert ours.is_cuda and tuple(ours.shape) == tuple(wanted.shape)
            if ours.dtype == torch.int64:
                assert (ours == wanted).float().mean() > 0.97
            else:
                rtol = 0.07 if ours.dtype == torch.float8_e4m3fn else 2e-2  # 3 bits of fraction
                np.testing.assert_allclose(ours.double().cpu(), wanted.double().cpu(), rtol=rtol, atol=2e-2)
