"""Elements in another order, or several times."""

import numpy
import pytest

import dynograd
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate
from tests.support.few_calls import few_or_many_calls  # noqa: F401

ALL = FLOATS + INTEGERS + BOOL + COMPLEX
zeros = dynograd.zeros


def moved(name, reference, **options):
    """A row of an op that only moves elements: every dtype, unchanged."""
    return Row(name, reference, dtypes=ALL, result="same", **options)


ROWS = [
    moved(
        "flip",
        numpy.flip,
        args=lambda rng: [rng.normal(size=(2, 3, 4)), (0, -1)],
        errors=[
            error(lambda op: op(zeros(2, 3), (0, 0)), RuntimeError, "flip", "a dim appears twice"),
            error(lambda op: op(zeros(2, 3), 2), IndexError, "flip", "[-2, 1]", "2"),
        ],
    ),
    moved("flip", lambda x, dim: x, args=lambda rng: [rng.normal(size=()), 0], id="scalar"),
    moved("flip", lambda x, dims: x, args=lambda rng: [rng.normal(size=(2, 3)), ()], id="none"),
    moved("flip", lambda x, *dims: numpy.flip(x, dims), args=lambda rng: [rng.normal(size=(2, 3)), 1, 0], id="several"),
    moved(
        "fliplr",
        numpy.fliplr,
        shapes=[(2, 3)],
        errors=[error(lambda op: op(zeros(2)), RuntimeError, "fliplr: Input must be >= 2-d", "(2,)")],
    ),
    moved(
        "flipud",
        numpy.flipud,
        shapes=[(2, 3)],
        errors=[error(lambda op: op(zeros(())), RuntimeError, "flipud: Input must be >= 1-d")],
    ),
    moved(
        "roll",
        lambda x, shifts, dims: numpy.roll(x, shifts, dims),
        args=lambda rng: [rng.normal(size=(3, 4)), (1, -5), (0, -1)],
        errors=[
            error(lambda op: op(zeros(2, 3), (1, 2), 0), RuntimeError, "shifts and dimensions must align", "2", "1"),
            error(lambda op: op(zeros(2, 3), (1, 2)), RuntimeError, "must align. shifts: 2, dims: 0"),
            error(lambda op: op(zeros(2, 3), 1, 2), IndexError, "roll", "2"),
            error(
                lambda op: op(zeros(), 1, 0), IndexError, "roll", "specified as 0", "no dimensions", "Leave `dims` out"
            ),
        ],
    ),
    moved("roll", numpy.roll, args=lambda rng: [rng.normal(size=(3, 4)), 5], id="flat"),
    moved("roll", numpy.roll, args=lambda rng: [rng.normal(size=(0, 4)), 1, 0], grad=False, id="nothing"),
    moved("roll", numpy.roll, args=lambda rng: [rng.normal(size=(3, 4)), 2, 1], id="one"),
    *[
        moved("rot90", numpy.rot90, args=lambda rng, k=k: [rng.normal(size=(2, 3, 4)), k, (-1, 0)], id=f"{k}")
        for k in (-1, 0, 2, 5)
    ],
    moved(
        "rot90",
        numpy.rot90,
        shapes=[(2, 3)],
        errors=[
            error(lambda op: op(zeros(2, 3), 1, (0,)), RuntimeError, "total rotation dims == 2", "dims = 1"),
            error(lambda op: op(zeros(2, 3), 1, (0, -2)), RuntimeError, "expected rotation dims to be different"),
            error(lambda op: op(zeros(2)), RuntimeError, "rot90", "(2,)"),
        ],
    ),
    moved(
        "repeat",
        lambda x, *counts: numpy.tile(x, counts),
        args=lambda rng: [rng.normal(size=(2, 3)), 2, 1, 3],
        covers=["repeat_backward"],
        errors=[
            error(lambda op: op(zeros(2, 3), 2), RuntimeError, "can not be smaller than number of dimensions", "(2,)"),
            error(lambda op: op(zeros(2), -1), RuntimeError, "repeats must not be negative", "-1"),
        ],
    ),
    moved(
        "repeat",
        lambda x, counts: numpy.tile(x, counts),
        args=lambda rng: [rng.normal(size=(2, 3)), (0, 2)],
        grad=False,
        id="none",
    ),
    Row("repeat", lambda x, *counts: numpy.tile(x, counts), args=lambda rng: [rng.normal(size=()), 2, 2], id="0-d"),
    moved("tile", lambda x, dims: numpy.tile(x, dims), args=lambda rng: [rng.normal(size=(2, 3)), (2,)]),
    moved("tile", lambda x, *dims: numpy.tile(x, dims), args=lambda rng: [rng.normal(size=(3,)), 2, 2], id="longer"),
    moved(
        "repeat_interleave",
        lambda x, repeats, dim: x.repeat(repeats, dim),
        args=lambda rng: [rng.normal(size=(2, 3)), 2, -1],
        covers=["repeat_interleave_backward"],
        errors=[
            error(
                lambda op: op(zeros(3), dynograd.tensor([1, 2]), 0),
                RuntimeError,
                "repeats.size(0) = 2",
                "input.size(0) = 3",
            ),
            error(lambda op: op(zeros(3), -1), RuntimeError, "can not be negative", "-1"),
            error(lambda op: op(zeros(2), dynograd.tensor([1, -2])), RuntimeError, "can not be negative", "-2"),
            error(lambda op: op(zeros(2), zeros(2)), RuntimeError, "0-dim or 1-dim integer tensor", "float32"),
            error(lambda op: op(zeros(2), 1, 1), IndexError, "repeat_interleave", "1"),
        ],
    ),
    moved(
        "repeat_interleave",
        lambda x, n: x.reshape(-1).repeat(n),
        args=lambda rng: [rng.normal(size=(2, 3)), 2],
        id="flat",
    ),
    moved(
        "repeat_interleave",
        lambda x, repeats, dim: x.repeat(repeats, dim),
        args=lambda rng: [rng.normal(size=(2, 3)), numpy.array([2, 0, 3]), 1],
        covers=["repeat_rows", "sum_runs"],
        id="tensor",
    ),
    moved(
        "repeat_interleave",
        lambda x, repeats, dim: x.repeat(2, dim),
        args=lambda rng: [rng.normal(size=(2, 3)), numpy.array([2]), 1],
        id="one-number",
    ),
]
ROWS += [
    Row(
        "repeat_interleave",
        lambda x, repeats, dim: x.repeat(repeats, dim),
        args=lambda rng, repeats=repeats: [rng.normal(size=(2, 3, 2)), repeats, 1],
        grad=repeats > 0,
        id=f"{repeats}-times",
    )
    for repeats in (0, 1, 20)
]
test_rows = generate(ROWS)


def test_repeat_interleave_of_counts_gives_positions():
    assert dynograd.repeat_interleave(dynograd.tensor([1, 0, 3])).tolist() == [0, 2, 2, 2]
    assert dynograd.tensor([5, 6]).repeat_interleave([1, 2], output_size=3).tolist() == [5, 6, 6]


def test_flipped_and_rolled_tensors_own_their_memory():
    x = dynograd.arange(4.0)
    for created in (x.flip(0), x.roll(1), x.flip(()), x.roll(0), x.view(2, 2).rot90(0)):
        created.fill_(9.0)
    assert x.tolist() == [0, 1, 2, 3]


def test_flip_twice_and_roll_forth_and_back_give_the_same():
    x = dynograd.arange(24).view(2, 3, 4)
    assert x.flip(0, 2).flip(2, 0).tolist() == x.tolist()
    assert x.roll((1, 2), (0, 2)).roll((-1, -2), (0, 2)).tolist() == x.tolist()
    assert x.rot90(1, (0, 2)).rot90(-1, (0, 2)).tolist() == x.tolist()


def test_half_types_sum_repeats_in_float32():
    x = dynograd.ones(1, dtype=dynograd.float16, requires_grad=True)
    x.repeat(4096).sum().backward()
    assert x.grad.item() == 4096
    x.grad = None
    x.repeat_interleave(dynograd.tensor([4097])).sum().backward()
    assert x.grad.item() == 4096


def test_roll_wants_shifts():
    with pytest.raises(RuntimeError, match="`shifts` required"):
        dynograd.roll(dynograd.zeros(3), ())
