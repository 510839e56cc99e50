"""Other ways to say `permute`, and the transposing properties of Tensor."""

import numpy
import pytest

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

ALL = FLOATS + INTEGERS + BOOL + COMPLEX
zeros = dynograd.zeros


def moved(name, reference, **options):
    """A row of an op that only moves elements: every dtype, unchanged."""
    return Row(name, reference, dtypes=ALL, result="same", **options)


ROWS = [
    moved(
        "t",
        lambda x: x.T,
        shapes=[(2, 3)],
        errors=[error(lambda op: op(zeros(1, 2, 3)), RuntimeError, "t() expects a tensor with <= 2 dimensions", "3D")],
    ),
    moved("t", lambda x: x, shapes=[(3,)], id="vector"),
    moved("swapaxes", numpy.swapaxes, args=lambda rng: [rng.normal(size=(2, 3, 4)), 0, 2]),
    moved("swapdims", numpy.swapaxes, args=lambda rng: [rng.normal(size=(2, 3, 4)), -1, 1]),
    moved(
        "movedim",
        numpy.moveaxis,
        args=lambda rng: [rng.normal(size=(2, 3, 4, 5)), (0, -1), (2, 0)],
        errors=[
            error(lambda op: op(zeros(2, 3), (0, 1), (1,)), RuntimeError, "movedim", "same number of dims"),
            error(lambda op: op(zeros(2, 3), (0, 0), (0, 1)), RuntimeError, "repeated dim in `source`", "[0, 0]"),
            error(lambda op: op(zeros(2, 3), 0, 2), IndexError, "movedim", "2"),
        ],
    ),
    moved("movedim", numpy.moveaxis, args=lambda rng: [rng.normal(size=(2, 3, 4)), 0, -1], id="one"),
    moved("moveaxis", numpy.moveaxis, args=lambda rng: [rng.normal(size=(2, 3, 4)), 2, 0]),
    moved(
        "adjoint",
        lambda x: x.swapaxes(-1, -2).conj(),
        shapes=[(2, 3, 4)],
        errors=[error(lambda op: op(zeros(3)), RuntimeError, "only supported on matrices", "1-D")],
    ),
]
test_rows = generate(ROWS)


def test_transposing_properties():
    x = dynograd.arange(6.0).view(2, 3)
    assert x.T.tolist() == x.mT.tolist() == x.H.tolist() == x.mH.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert zeros(2, 3, 4).mT.shape == (2, 4, 3)
    assert dynograd.tensor([[1 + 2j]]).H.tolist() == [[1 - 2j]]
    with pytest.raises(RuntimeError, match=r"tensor.mT is only supported on matrices or batches of matrices. Got 1-D"):
        _ = zeros(3).mT
    with pytest.raises(RuntimeError, match=r"tensor.H is only supported on matrices"):
        _ = zeros(2, 3, 4).H


def test_reversing_the_dims_of_a_batch_by_its_property_warns():
    with pytest.warns(UserWarning, match="use x.mT for batches"):
        assert zeros(2, 3, 4).T.shape == (4, 3, 2)


@pytest.mark.parametrize("name", ["mT", "H", "mH", "adjoint"])
def test_a_tensor_without_dims_stays_as_it_is(name):
    x = dynograd.tensor(1 + 2j)
    with pytest.warns(UserWarning, match="deprecated on 0-D tensors"):
        transposed = x.adjoint() if name == "adjoint" else getattr(x, name)
    assert transposed.item() == (1 + 2j if name == "mT" else 1 - 2j)
