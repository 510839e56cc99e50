"""Copies of views: the values of the view, in memory of their own."""

import numpy
import pytest

import dynograd
from dynograd.ops.layout.copies import VIEWS
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

ALL = FLOATS + INTEGERS + BOOL + COMPLEX


def copied(name, reference, **options):
    options = {"shapes": [(3, 4)], "dtypes": ALL, "result": "same", "ones": False, "empty": False} | options
    return Row(f"{name}_copy", reference, **options)


ROWS = [
    copied("alias", lambda x: x),
    copied(
        "as_strided",
        lambda x, **_: x.reshape(-1)[:4].reshape(2, 2),
        kwargs={"size": (2, 2), "stride": (2, 1)},
        strided=False,
    ),
    copied("detach", lambda x: x, grad=False, jvp=False),
    copied("diagonal", lambda x, offset: numpy.diagonal(x, offset), kwargs={"offset": 1}),
    copied(
        "expand", lambda x, *_: numpy.broadcast_to(x, (2, 3, 4)), args=lambda rng: [rng.normal(size=(3, 4)), 2, 3, 4]
    ),
    copied("narrow", lambda x, **_: x[:, 1:3], kwargs={"dim": 1, "start": 1, "length": 2}),
    copied("permute", lambda x, dims: x.transpose(dims), kwargs={"dims": (1, 0)}),
    copied("select", lambda x, **_: x[:, 2], kwargs={"dim": 1, "index": 2}),
    copied(
        "slice",
        lambda x, **_: x[:, 1:-1:2],
        kwargs={"dim": 1, "start": 1, "end": -1, "step": 2},
        errors=[
            error(lambda op: op(dynograd.zeros(3), 0, 0, 2, 0), RuntimeError, "slice_copy", "step must be positive")
        ],
    ),
    copied("split", lambda x, **_: (x[:2], x[2:]), kwargs={"split_size_or_sections": 2}, result=("same", "same")),
    copied("split_with_sizes", lambda x, **_: (x[:1], x[1:]), kwargs={"split_sizes": (1, 2)}, result=("same", "same")),
    copied("squeeze", lambda x: x[0], shapes=[(1, 4)]),
    copied("t", lambda x: x.T),
    copied("transpose", lambda x, **_: x.T, kwargs={"dim0": 0, "dim1": 1}),
    copied("unbind", lambda x: tuple(x), result=("same",) * 3),
    copied(
        "unfold", lambda x, **_: numpy.stack([x[:, :2], x[:, 2:]], 1), kwargs={"dimension": 1, "size": 2, "step": 2}
    ),
    copied("unsqueeze", lambda x, **_: x[:, None], kwargs={"dim": 1}),
    copied("view", lambda x, **_: x.reshape(2, 6), kwargs={"size": (2, 6)}, strided=False),
    copied(
        "view_as_complex",
        lambda x: x[..., 0] + 1j * x[..., 1],
        shapes=[(3, 2)],
        dtypes=["float32", "float64"],
        result=lambda name: {"float32": "complex64", "float64": "complex128"}[name],
        strided=False,
        grad=False,
    ),
    copied(
        "view_as_real",
        lambda x: numpy.stack([x.real, x.imag], -1),
        dtypes=COMPLEX,
        result=lambda name: {"complex64": "float32", "complex128": "float64"}[name],
        grad=False,
    ),
]


test_rows = generate(ROWS)


@pytest.mark.parametrize("name", VIEWS)
def test_every_copy_has_its_own_memory(name):
    (row,) = [row for row in ROWS if row.name == f"{name}_copy"]
    x = dynograd.zeros(row.shapes[0], dtype=getattr(dynograd, row.dtypes[0]))
    args = () if row.args is None else (2, 3, 4)
    result = getattr(dynograd, row.name)(x, *args, **row.kwargs)
    for element in result if isinstance(result, tuple) else (result,):
        assert element.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
