"""Clipping of gradients against NumPy."""

import math

import numpy as np
import pytest

import dynograd
from dynograd import nn

SHAPES = [(3,), (), (0,), (4, 5), (40, 30)]


def parameters_with_gradients(dtype=dynograd.float64, shapes=SHAPES, scale=1.0):
    random = np.random.default_rng(0)
    values = [random.normal(size=shape) * scale for shape in shapes]
    created = []
    for value in values:
        p = nn.Parameter(dynograd.zeros(value.shape, dtype=dtype))
        p.grad = dynograd.tensor(value).to(dtype)
        created.append(p)
    return created, values


def norm_of(values, p):
    flat = np.concatenate([value.reshape(-1) for value in values])
    return np.abs(flat).max() if p == math.inf else (np.abs(flat) ** p).sum() ** (1 / p)


def numpy_of(tensor):
    return tensor.to(dynograd.float64).numpy()


@pytest.mark.parametrize(
    "dtype, tolerance", [(dynograd.float64, 1e-12), (dynograd.float32, 1e-5), (dynograd.float16, 1e-2)], ids=str
)
@pytest.mark.parametrize("norm_type", [2.0, 1, 3.5, math.inf, "inf"])
@pytest.mark.parametrize("max_norm", [0.5, 1e4])
def test_clip_grad_norm(max_norm, norm_type, dtype, tolerance):
    shapes = [shape for shape in SHAPES if norm_type not in (math.inf, "inf") or 0 not in shape]
    parameters, values = parameters_with_gradients(dtype, shapes)
    unused = nn.Parameter(dynograd.zeros(2))
    norm = norm_of(values, float(norm_type))
    result = nn.utils.clip_grad_norm_([*parameters, unused], max_norm, norm_type)
    assert result.dtype == dtype and result.shape == () and not result.requires_grad
    np.testing.assert_allclose(numpy_of(result), norm, rtol=tolerance)
    for p, value in zip(parameters, values):
        np.testing.assert_allclose(
            numpy_of(p.grad), value * min(1, max_norm / (norm + 1e-6)), rtol=tolerance, atol=tolerance
        )
    assert unused.grad is None


def test_the_parts():
    parameters, values = parameters_with_gradients()
    norm = nn.utils.get_total_norm([p.grad for p in parameters])
    np.testing.assert_allclose(norm.item(), norm_of(values, 2), rtol=1e-12)
    nn.utils.clip_grads_with_norm_(parameters, 0.5, norm)
    np.testing.assert_allclose(nn.utils.get_total_norm([p.grad for p in parameters]).item(), 0.5, rtol=1e-6)


def test_one_tensor_a_generator_and_nothing():
    (p,), (value,) = parameters_with_gradients(shapes=[(3,)])
    np.testing.assert_allclose(nn.utils.clip_grad_norm_(p, 0.5).item(), norm_of([value], 2))
    np.testing.assert_allclose(np.linalg.norm(p.grad.numpy()), 0.5, rtol=1e-5)
    nn.utils.clip_grad_norm_((q for q in [p]), 0.25)
    np.testing.assert_allclose(np.linalg.norm(p.grad.numpy()), 0.25, rtol=1e-5)
    assert nn.utils.clip_grad_norm_([], 1.0).item() == 0
    with pytest.warns(UserWarning, match="empty generator"):
        nn.utils.clip_grad_norm_((q for q in []), 1.0)
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        nn.utils.clip_grad_norm([p], 1.0)


def test_mixed_dtypes_give_the_wider_norm():
    (a,), _ = parameters_with_gradients(dynograd.float32, [(3,)])
    (b,), _ = parameters_with_gradients(dynograd.float64, [(3,)])
    assert nn.utils.clip_grad_norm_([a, b], 0.1).dtype == dynograd.float64
    assert a.grad.dtype == dynograd.float32


def test_complex_gradients():
    p = nn.Parameter(dynograd.zeros(1, dtype=dynograd.complex128))
    p.grad = dynograd.tensor([3 + 4j], dtype=dynograd.complex128)
    assert nn.utils.clip_grad_norm_([p], 1.0).item() == 5
    np.testing.assert_allclose(p.grad.numpy(), (3 + 4j) / (5 + 1e-6))


def test_large_half_gradients_are_clipped_though_their_norm_overflows():
    (p,), _ = parameters_with_gradients(dynograd.float16, [(500,)], scale=1e4)
    assert math.isinf(nn.utils.clip_grad_norm_([p], 1.0).item())
    np.testing.assert_allclose(np.linalg.norm(numpy_of(p.grad)), 1, rtol=1e-2)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_nonfinite_norms(bad):
    parameters, _ = parameters_with_gradients(shapes=[(2,), (3,)])
    parameters[0].grad[0] = bad
    with pytest.raises(
        RuntimeError,
        match=r"total norm of order 2\.0 .* is non-finite .*error_if_nonfinite=False.*gradient of parameter \d, of shape",
    ):
        nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert not math.isfinite(nn.utils.clip_grad_norm_(parameters, 1.0).item())
    rest = parameters[1].grad.numpy()
    assert np.isnan(rest).all() if math.isnan(bad) else (rest == 0).all()


def test_clip_grad_value():
    parameters, values = parameters_with_gradients()
    nn.utils.clip_grad_value_([*parameters, nn.Parameter(dynograd.zeros(2))], 0.5)
    for p, value in zip(parameters, values):
        np.testing.assert_array_equal(p.grad.numpy(), np.clip(value, -0.5, 0.5))
    (p,), (value,) = parameters_with_gradients(dynograd.bfloat16, [(9,)])
    p.grad[0] = math.nan
    nn.utils.clip_grad_value_(p, 0.25)
    assert math.isnan(p.grad[0].item()) and abs(numpy_of(p.grad)[1:]).max() == 0.25


@pytest.mark.parametrize("clip", [nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_])
def test_clipping_counts_as_a_write(clip):
    w = dynograd.tensor([3.0, 4.0], requires_grad=True)
    (w * w * w).sum().backward(create_graph=True)
    loss = (w.grad * w.grad).sum()
    clip([w], 0.5)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*test_clip_grad\.py"):
        loss.backward()
