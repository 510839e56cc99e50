"""All products of one tensor's elements with another's."""

import numpy

import dynograd
from tests.ops.harness import COMPLEX, FLOATS, Row, error, generate

zeros = dynograd.zeros
NUMBERS = (*FLOATS, "int64", "int32", *COMPLEX)

ROWS = [
    Row(
        "outer",
        numpy.outer,
        shapes=[(2,), (3,)],
        dtypes=NUMBERS,
        result="same",
        errors=[
            error(lambda op: op(zeros(2, 2), zeros(2)), RuntimeError, "outer: Expected 1-D argument self", "2-D"),
            error(lambda op: op(zeros(2), zeros(())), RuntimeError, "outer: Expected 1-D argument vec2", "0-D"),
        ],
    ),
    Row("ger", numpy.outer, shapes=[(2,), (3,)]),
    Row("kron", numpy.kron, shapes=[(2, 3), (3, 2)], dtypes=NUMBERS, result="same"),
    Row("kron", numpy.kron, shapes=[(2, 1, 2), (3,)], id="ranks"),
]
test_rows = generate(ROWS)
