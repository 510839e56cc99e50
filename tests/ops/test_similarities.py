"""Cosine, distance, and vectors of length 1."""

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate


def np_cosine(x1, x2, dim=1, eps=1e-8):
    x1, x2 = numpy.broadcast_arrays(x1, x2)
    lengths = [numpy.maximum(numpy.sqrt((x**2).sum(dim)), eps) for x in (x1, x2)]
    return (x1 * x2).sum(dim) / lengths[0] / lengths[1]


def np_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    return (numpy.abs(x1 - x2 + eps) ** p).sum(-1, keepdims=keepdim) ** (1 / p)


def np_normalize(input, p=2.0, dim=1, eps=1e-12):
    return input / numpy.maximum((numpy.abs(input) ** p).sum(dim, keepdims=True) ** (1 / p), eps)


x = dynograd.zeros(2, 3)
ROWS = [
    Row(
        "nn.functional.cosine_similarity",
        np_cosine,
        shapes=[(3, 4), (3, 4)],
        empty=False,
        errors=[
            error(lambda op: op(x, dynograd.zeros(2, 4)), RuntimeError, "cosine_similarity", "(2, 3)", "(2, 4)"),
            error(lambda op: op(x, x, dim=2), IndexError, "cosine_similarity", "[-2, 1]", "2"),
            error(lambda op: op(x.long(), x.int()), RuntimeError, "floating point", "int64"),
        ],
    ),
    Row("nn.functional.cosine_similarity", np_cosine, shapes=[(2, 3, 4), (4,)], kwargs={"dim": -1}, id="broadcast", ones=False),
    Row("nn.functional.cosine_similarity", np_cosine, shapes=[(2, 3), (1, 3)], kwargs={"dim": 0}, id="rows", ones=False),
    Row(
        "nn.functional.pairwise_distance",
        np_distance,
        shapes=[(3, 4), (3, 4)],
        errors=[error(lambda op: op(x, dynograd.zeros(2, 4)), RuntimeError, "pairwise_distance", "(2, 3)", "(2, 4)")],
    ),
    Row("nn.functional.pairwise_distance", np_distance, shapes=[(3, 4), (4,)], kwargs={"p": 3, "keepdim": True}, id="cubes", ones=False),
    Row("nn.functional.pairwise_distance", np_distance, shapes=[(4,), (4,)], kwargs={"p": 1}, id="vectors", avoid=[0.0]),
    Row(
        "nn.functional.normalize",
        np_normalize,
        shapes=[(3, 4)],
        errors=[
            error(lambda op: op(x, dim=2), IndexError, "normalize", "2"),
        ],
    ),
    Row("nn.functional.normalize", np_normalize, shapes=[(3, 4)], kwargs={"p": 1, "dim": 0}, avoid=[0.0], id="sums"),
    Row("nn.functional.normalize", np_normalize, shapes=[(2, 3, 4)], kwargs={"p": 3, "dim": (0, -1)}, id="dims", avoid=[0.0], gradient_tolerance=(1e-3, 1e-5)),
]  # fmt: skip
test_rows = generate(ROWS)


def test_zero_vectors_have_finite_gradients():
    x = dynograd.zeros(2, 3, requires_grad=True)
    F.normalize(x).sum().backward()
    assert numpy.isfinite(x.grad.numpy()).all()
    x.grad = None
    y = F.cosine_similarity(x, dynograd.ones(2, 3))
    y.sum().backward()
    assert y.tolist() == [0.0, 0.0]
    assert numpy.isfinite(x.grad.numpy()).all()


def test_normalized_vectors_have_length_one():
    y = F.normalize(dynograd.randn(5, 7), dim=-1)
    numpy.testing.assert_allclose(numpy.linalg.norm(y.numpy(), axis=-1), 1, rtol=1e-6)


def test_cosine_of_numbers():
    assert F.cosine_similarity(dynograd.tensor(2.0), dynograd.tensor(-3.0), dim=0).item() == -1


def test_cosine_similarity_of_integers_and_floats():
    x, y = dynograd.tensor([[3, 4]]), dynograd.tensor([[4.0, 3.0]])
    for result in (F.cosine_similarity(x, y), F.cosine_similarity(y, x)):
        numpy.testing.assert_allclose(result.numpy(), [0.96], rtol=1e-6)
    with pytest.raises(TypeError, match="cosine_similarity: expected common dtype to be floating point, yet .*int64"):
        F.cosine_similarity(x, x.int())
