"""Stretching to a common shape."""

import numpy

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

EVERY = FLOATS + INTEGERS + BOOL + COMPLEX


def np_expand(input, *sizes):
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple) else sizes
    lead = len(sizes) - input.ndim
    return numpy.broadcast_to(
        input, [input.shape[place - lead] if size == -1 else size for place, size in enumerate(sizes)]
    )


def given(shape, *sizes):
    return lambda rng: [numpy.asarray(rng.normal(size=shape)), *sizes]


ROWS = [
    *[
        Row(
            "expand",
            np_expand,
            args=given(shape, *sizes),
            id=f"{shape}-{sizes}",
            dtypes=EVERY if shape else FLOATS,
            result=lambda name: name,
        )
        for shape, sizes in [
            ((2, 1), (2, 3)),
            ((2, 1), ((4, 2, 3),)),
            ((2, 1), (-1, 3)),
            ((3,), (2, -1)),
            ((), (2, 2)),
            ((), ((),)),
            ((2, 3), (2, 3)),
        ]
    ],
    Row("expand", np_expand, args=given((1, 3), 0, 3), id="to-nothing", second=False),
    Row(
        "expand",
        np_expand,
        args=given((1,), 2),
        id="errors",
        errors=[
            error(
                lambda op: op(dynograd.zeros(2, 3), 2, 4),
                RuntimeError,
                "expand",
                "expanded size of the tensor (4)",
                "existing size",
                "(2, 3)",
            ),
            error(lambda op: op(dynograd.zeros(2, 3), 3), RuntimeError, "expand", "(2, 3)", "(3,)"),
            error(lambda op: op(dynograd.zeros(3), -1, 3), RuntimeError, "expand", "-1"),
            error(lambda op: op(dynograd.zeros(3), "a"), TypeError, "expand", "'a'"),
        ],
    ),
    Row(
        "expand_as",
        lambda x, y: numpy.broadcast_to(x, y.shape),
        shapes=[(2, 1), (4, 2, 3)],
        grad=(True, False),
        ones=False,
    ),
    Row("broadcast_to", lambda x, size: numpy.broadcast_to(x, size), args=given((2, 1), (3, 2, 2))),
    Row("broadcast_tensors", lambda *xs: numpy.broadcast_arrays(*xs), shapes=[(2, 1), (3,), ()], covers=["to_copy"]),
    Row(
        "broadcast_tensors",
        lambda xs: numpy.broadcast_arrays(*xs),
        shapes=[[(2, 1), (1, 3)]],
        id="list",
        errors=[
            error(
                lambda op: op(dynograd.zeros(2), dynograd.zeros(3)),
                RuntimeError,
                "broadcast_tensors",
                "(2,)",
                "(3,)",
                "non-singleton",
            )
        ],
    ),
]
test_rows = generate(ROWS)


def test_expand_shares_memory():
    x = dynograd.zeros(2, 1)
    y = x.expand(2, 3)
    x[0, 0] = 5
    assert y.tolist() == [[5, 5, 5], [0, 0, 0]]
    assert y.stride() == (1, 0)


def test_gradients_of_broadcast_operands_are_summed():
    x = dynograd.ones(3, 1, requires_grad=True)
    y = dynograd.ones(2, 1, 4, requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.tolist() == [[8.0]] * 3
    assert y.grad.tolist() == [[[3.0] * 4]] * 2


def test_broadcast_to_takes_sizes_one_by_one():
    x = dynograd.arange(3)
    for _ in range(2):
        created = [x.broadcast_to(2, 3), x.broadcast_to((2, 3)), x.broadcast_to(size=(2, 3)), x.broadcast_to([2, 3])]
        assert all([element.tolist() == [[0, 1, 2], [0, 1, 2]] for element in created])
