"""Optimizers and clipping on CUDA parameters, beside the same on the CPU."""

import io

import numpy
import pytest

import dynograd
from dynograd import optim

KINDS = {
    "sgd": lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1),
    "adam": lambda ps: optim.Adam(ps, lr=0.01, weight_decay=0.1),
    "adamw": lambda ps: optim.AdamW(ps, lr=0.01),
    "amsgrad": lambda ps: optim.Adam(ps, lr=0.01, amsgrad=True),
    "adamw fused": lambda ps: optim.AdamW(ps, lr=0.01, fused=True),
    "adamw capturable": lambda ps: optim.AdamW(ps, lr=0.01, capturable=True),
}
SHAPES = [(4, 6), (6,), (), (3, 2, 2)]


def values(draw, shape, dtype):
    real = dynograd.tensor(draw.uniform(-1, 1, shape))
    return (real + 1j * draw.uniform(-1, 1) if dtype.is_complex else real).to(dtype)


def parameters(device, dtype=dynograd.float32):
    draw = numpy.random.default_rng(0)
    created = [values(draw, shape, dtype) for shape in SHAPES]
    return [element.to(device).requires_grad_() for element in created]


def with_gradients(ps, step, scale=1.0):
    draw = numpy.random.default_rng(step + 1)
    for p in ps:
        g = values(draw, tuple(p.shape), p.dtype) * scale
        p.grad = g.to(p.device)


def same(ours, wanted, tolerance=2e-6):
    for element, other in zip(ours, wanted, strict=True):
        numbers = [tensor.detach().cpu() for tensor in (element, other)]
        numbers = [(tensor if tensor.is_complex() else tensor.float()).numpy() for tensor in numbers]
        numpy.testing.assert_allclose(*numbers, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.bfloat16, dynograd.float64, dynograd.complex64], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_the_cpu(kind, dtype):
    ours, expected = parameters("cuda", dtype), parameters("cpu", dtype)
    here, there = KINDS[kind](ours), KINDS[kind](expected)
    for step in range(4):
        for ps, optimizer in ((ours, here), (expected, there)):
            with_gradients(ps, step)
            if step == 2:
                ps[1].grad = None
            optimizer.step()
    same(ours, expected, 2e-6 if dtype is not dynograd.bfloat16 else 2e-2)
    if kind != "sgd":
        states = [here.state[p]["step"] for p in ours]
        assert [float(state) for state in states] == [4, 3, 4, 4]
        assert states[0].device.type == ("cuda" if kind.endswith(("fused", "capturable")) else "cpu")
        assert here.state[ours[0]]["exp_avg"].device.type == "cuda"


def test_all_parameters_take_one_launch(monkeypatch):
    from dynograd.kernels.optim import optimizers_cuda

    calls = []
    run = optimizers_cuda.adam_table_step
    monkeypatch.setitem(
        dynograd.kernels._found,
        ("optimizers", "adam_table_step", dynograd.arrays.CudaArray),
        lambda *given, **more: calls.append(1) or run(*given, **more),
    )
    ps = parameters("cuda")
    optimizer = optim.AdamW(ps)
    for step in range(3):
        with_gradients(ps, step)
        optimizer.step()
    assert len(calls) == 3


@pytest.mark.parametrize("kind", ["sgd", "adamw", "adamw fused"])
def test_states_are_saved_and_loaded_across_devices(kind):
    ours, expected = parameters("cuda"), parameters("cpu")
    here, there = KINDS[kind](ours), KINDS[kind](expected)
    with_gradients(expected, 0)
    there.step()
    file = io.BytesIO()
    dynograd.save(there.state_dict(), file)
    file.seek(0)
    here.load_state_dict(dynograd.load(file))
    for p, q in zip(ours, expected, strict=True):
        p.data.copy_(q.data)
    for ps, optimizer in ((ours, here), (expected, there)):
        with_gradients(ps, 1)
        optimizer.step()
    same(ours, expected)


def test_zero_grad_fills():
    ps = parameters("cuda")
    with_gradients(ps, 0)
    optim.SGD(ps, lr=0.1).zero_grad(set_to_none=False)
    assert all([not p.grad.cpu().numpy().any() for p in ps])


@pytest.mark.parametrize("most", [0.5, 100.0])
@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.complex64], ids=str)
def test_clipping_norms(dtype, norm_type, most):
    ours, references = parameters("cuda", dtype), parameters("cpu", dtype)
    for ps in (ours, references):
        with_gradients(ps, 0)
    result = dynograd.nn.utils.clip_grad_norm_(ours, most, norm_type)
    expected = dynograd.nn.utils.clip_grad_norm_(references, most, norm_type)
    assert result.device.type == "cuda"
    assert result.dtype is dynograd.float32
    assert abs(float(result) - float(expected)) < 1e-5
    same([p.grad for p in ours], [p.grad for p in references])
    dynograd.nn.utils.clip_grads_with_norm_(ours, 0.25, result)
    dynograd.nn.utils.clip_grads_with_norm_(references, 0.25, expected)
    same([p.grad for p in ours], [p.grad for p in references])


def test_clipping_that_looks_at_the_norm():
    ps = parameters("cuda")
    with_gradients(ps, 0, float("inf"))
    with pytest.raises(RuntimeError, match="is non-finite"):
        dynograd.nn.utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)


def test_clipping_values():
    ours, expected = parameters("cuda"), parameters("cpu")
    for ps in (ours, expected):
        with_gradients(ps, 0)
        dynograd.nn.utils.clip_grad_value_(ps, 0.3)
    same([p.grad for p in ours], [p.grad for p in expected])
