"""Names of the top level that are no ops: shapes that broadcast, in-place functions, leading singular vectors."""

import inspect

import numpy
import pytest

import dynograd as dg
from dynograd.tensor.top_level import inplace_functions


def test_broadcast_shapes():
    assert dg.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    with pytest.raises(
        RuntimeError, match=r"length 4 at -2! Mismatching argument at index 1 had \(4, 3\).*broadcastable to \[2, 3\]"
    ):
        dg.broadcast_shapes((2, 3), (4, 3))
    assert dg.broadcast_shapes(4, (1, 1), (0, 4)) == (0, 4)
    assert dg.broadcast_shapes() == ()
    with pytest.raises(RuntimeError, match=r"broadcast_shapes.*length 3 at -1.*\(3,\).*\[2\]"):
        dg.broadcast_shapes((2,), (3,))
    with pytest.raises(RuntimeError, match="-1"):
        dg.broadcast_shapes((2, -1))


@pytest.mark.parametrize("name", sorted(inplace_functions()))
def test_in_place_functions_are_the_methods(name):
    function, method = getattr(dg, name), getattr(dg.Tensor, name)
    assert function is method or function.__wrapped__ is method
    assert next(iter(inspect.signature(function).parameters)) == "input"


def test_in_place_functions_write():
    x = dg.tensor([-1.0, 2.0])
    assert dg.relu_(x) is x
    assert x.tolist() == [0.0, 2.0]
    assert dg.zero_(x).tolist() == x.tolist() == [0.0, 0.0]


def test_polygamma_of_a_tensor():
    x = dg.tensor([1.0, 2.0], requires_grad=True)
    numpy.testing.assert_allclose(x.polygamma(1).tolist(), dg.polygamma(1, x).tolist())
    y = x * 1
    assert y.polygamma_(1) is y
    y.sum().backward()
    numpy.testing.assert_allclose(x.grad.tolist(), dg.polygamma(2, x).tolist(), rtol=1e-6)


@pytest.mark.parametrize("shape", [(9, 6), (6, 9), (2, 7, 5)])
def test_low_rank_factors_rebuild_matrices_of_low_rank(shape):
    dg.manual_seed(0)
    matrix = dg.randn(*shape[:-1], 2, dtype=dg.float64) @ dg.randn(*shape[:-2], 2, shape[-1], dtype=dg.float64)
    left, values, right = dg.svd_lowrank(matrix, q=3)
    numpy.testing.assert_allclose((left * values[..., None, :] @ right.mT).numpy(), matrix.numpy(), atol=1e-10)
    numpy.testing.assert_allclose(values.numpy(), numpy.linalg.svd(matrix.numpy())[1][..., :3], atol=1e-10)
    left, values, right = dg.pca_lowrank(matrix, q=3)
    centred = matrix.numpy() - matrix.numpy().mean(-2, keepdims=True)
    numpy.testing.assert_allclose((left * values[..., None, :] @ right.mT).numpy(), centred, atol=1e-10)


def test_low_rank_errors():
    with pytest.raises(RuntimeError, match=r"q\(=4\).*min\(m, n\)=3"):
        dg.pca_lowrank(dg.ones(3, 5), q=4)
    with pytest.raises(RuntimeError, match=r"niter\(=-1\)"):
        dg.pca_lowrank(dg.ones(3, 5), niter=-1)
    with pytest.raises(TypeError, match=r"int64.*float\(\)"):
        dg.pca_lowrank(dg.ones(3, 5, dtype=dg.int64))


def test_embedding_bag_refuses_words_for_modes():
    with pytest.raises(ValueError, match=r"mode has to be 0 \(sum\), 1 \(mean\) or 2 \(max\), got 'sum'"):
        dg.embedding_bag(dg.ones(2, 2), dg.tensor([0]), dg.tensor([0]), False, "sum")
