"""`frexp` against numpy.frexp."""

import numpy
import pytest

import dynograd
from tests.ops.harness import FLOATS, Row, error, generate

ROWS = [
    Row(
        "frexp",
        numpy.frexp,
        shapes=[(3, 4)],
        domain=(-9.0, 9.0),
        avoid=[-8, -4, -2, -1, -0.5, 0, 0.5, 1, 2, 4, 8],
        dtypes=FLOATS,
        result=("same", "int32"),
        errors=[error(lambda op: op(dynograd.tensor([1])), RuntimeError, "frexp", "int64")],
    ),
]
test_rows = generate(ROWS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_size_of_number(dtype):
    info = numpy.finfo(dtype)
    values = [
        0,
        -0.0,
        1,
        0.5,
        -8,
        info.max,
        info.tiny,
        info.smallest_subnormal,
        -info.tiny / 8,
        3e-5,
        numpy.inf,
        -numpy.inf,
        numpy.nan,
    ]
    x = numpy.array(values, dtype)
    x = numpy.concatenate(
        [x, 2.0 ** numpy.arange(info.minexp, info.maxexp, dtype=dtype), numpy.nextafter(x, numpy.array(0, dtype))]
    )
    mantissa, exponent = dynograd.frexp(dynograd.tensor(x))
    finite = numpy.isfinite(x)
    numpy.testing.assert_array_equal(mantissa.numpy(), numpy.frexp(x)[0])
    numpy.testing.assert_array_equal(exponent.numpy()[finite], numpy.frexp(x)[1][finite])
    assert not exponent.numpy()[~finite].any()
