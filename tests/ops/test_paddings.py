"""Borders around the last dims."""

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import BOOL, FLOATS, INTEGERS, Row, error, generate

NUMPY_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def np_pad(input, pad, mode="constant", value=0):
    pairs = [(0, 0)] * (input.ndim - len(pad) // 2) + list(zip(pad[0::2], pad[1::2], strict=True))[::-1]
    cut = tuple(slice(max(0, -a), size - max(0, -b)) for size, (a, b) in zip(input.shape, pairs, strict=True))
    wide = [(max(0, a), max(0, b)) for a, b in pairs]
    options = {"constant_values": value} if mode == "constant" else {}
    return numpy.pad(input[cut], wide, NUMPY_MODES[mode], **options)


x = dynograd.zeros(2, 3, 4)
ROWS = [
    Row(
        "nn.functional.pad",
        np_pad,
        shapes=[(2, 3, 4)],
        kwargs={"pad": (1, 2)},
        dtypes=FLOATS + INTEGERS + BOOL,
        result=lambda name: name,
        covers=["constant_pad_nd", "mirrored_pad", "mirrored_pad_backward"],
        errors=[
            error(lambda op: op(x, (1, 2, 3)), RuntimeError, "divisible by 2", "(1, 2, 3)"),
            error(lambda op: op(x, (1,) * 8), RuntimeError, "padding length 8", "dimension 3", "(2, 3, 4)"),
            error(lambda op: op(x, (-5, 0)), RuntimeError, "negative output size", "(2, 3, -1)"),
            error(lambda op: op(x, (4, 0), "reflect"), RuntimeError, "less than the corresponding input dimension", "(4, 0)", "dimension 2"),
            error(lambda op: op(x, (0, 5), "circular"), RuntimeError, "more than once", "(0, 5)", "dimension 2"),
            error(lambda op: op(dynograd.zeros(1, 0), (1, 1), "replicate"), RuntimeError, "not empty", "replicate", "(1, 0)"),
            error(lambda op: op(dynograd.zeros(1, 0), (1, 1), "circular"), RuntimeError, "more than once"),
            error(lambda op: op(dynograd.zeros(2), (1, 1), value=1e300), RuntimeError, "without overflow", "float32", "1e+300"),
            error(lambda op: op(x, (1, 1), "mirror"), NotImplementedError, "mirror", "'circular'"),
            error(lambda op: op(x, (1, 1), "reflect", 2.0), ValueError, "value", "2.0", "reflect"),
            error(lambda op: op(x, 3), TypeError, "sequence of ints", "3"),
        ],
    ),
    Row("nn.functional.pad", np_pad, shapes=[(2, 3, 4)], kwargs={"pad": (-1, 2, 1, 0), "value": 1.5}, id="value", ones=False),
    Row("nn.functional.pad", np_pad, shapes=[(2, 3, 4)], kwargs={"pad": (0, -2, 1, 1, 2, 0)}, id="all-dims", ones=False),
    *[
        Row("nn.functional.pad", np_pad, shapes=[shape], kwargs={"pad": pad, "mode": mode}, id=f"{mode}-{pad}", ones=False, empty=False)
        for mode in ("reflect", "replicate", "circular")
        for shape, pad in (((2, 4), (1, 3)), ((2, 3, 4), (2, 0, 1, 2)), ((2, 2, 3, 4), (0, 1, 2, 2)), ((2, 4), (-1, 2)), ((2, 4), (2, -1)))
    ],
    Row("nn.functional.pad", np_pad, shapes=[(2, 3)], kwargs={"pad": (5, 7), "mode": "replicate"}, id="far", ones=False, empty=False),
]  # fmt: skip
test_rows = generate(ROWS)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_no_border_is_no_change(mode):
    x = dynograd.arange(6.0).reshape(2, 3)
    assert F.pad(x, (0, 0), mode).tolist() == x.tolist()


def test_cutting_off_undoes_padding():
    x = dynograd.randn(2, 3)
    assert F.pad(F.pad(x, (1, 2, 3, 4)), (-1, -2, -3, -4)).tolist() == x.tolist()


def test_what_is_cut_away_leaves_an_edge_to_replicate():
    x = dynograd.tensor([[[1.0, 2.0, 3.0]]], requires_grad=True)
    assert F.pad(x, (-3, 4), mode="replicate").tolist() == [[[3.0] * 4]]
    assert F.pad(x, (5, -4), mode="replicate").tolist() == [[[1.0] * 4]]
    F.pad(x, (-3, 4), mode="replicate").sum().backward()
    assert x.grad.tolist() == [[[0.0, 0.0, 4.0]]]


def test_constant_pad_nd_takes_the_value_third():
    assert dynograd.constant_pad_nd(dynograd.tensor([[1, 2]]), (0, 1, 1, 0), 7).tolist() == [[7, 7, 7], [1, 2, 7]]
    assert dynograd.constant_pad_nd(dynograd.tensor([1, 2]), (-1, 1)).tolist() == [2, 0]
