"""Kernels that are given arrays by identity: what they do, and what they leave alone."""

import numpy as np
import pytest

import dynograd
from dynograd.interpreter.tensor_fields import tensor_fields
from dynograd.kernels.index import lookups_cpu
from dynograd.kernels.layout import joins_cpu, rearrangements_cpu
from dynograd.kernels.small import few_cpu, object_fields
from dynograd.kernels.small.few_cpu import entries

if object_fields.FIELDS is None:
    pytest.skip("objects are not what compiled code expects", allow_module_level=True)

LETTERS = "?bBhHiIlLqQefdFD"


@pytest.fixture(autouse=True)
def many_calls(monkeypatch):
    entries.clear()
    monkeypatch.setattr(few_cpu, "_calls", few_cpu.SMALL_CALLS)


def run(name, *arguments):
    return entries[name](
        *[id(argument) if isinstance(argument, (np.ndarray, list, tuple)) else argument for argument in arguments]
    )


def of(letter, *shape):
    return (np.arange(1, 1 + np.prod(shape, dtype=int)) % 100).reshape(shape).astype(letter)


@pytest.mark.parametrize("letter", LETTERS)
def test_zeros_and_triangles_of_every_dtype(letter):
    x, kept = of(letter, 4, 6), of(letter, 4, 6)
    assert run("writes.keep_triangle", x, x, 1, 1) and (x == np.tril(kept, 1)).all()
    out = of(letter, 4, 6)
    assert run("writes.keep_triangle", kept, out, -2, 0) and (out == np.triu(kept, -2)).all()
    assert run("writes.zero", x) and not x.any()


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_joins_of_every_dtype(letter, dim):
    for shape in ((2, 3, 4), (1, 1, 1), (2, 0, 4), (2, 3, 1)):
        element, two = of(letter, *shape), np.zeros(shape, letter)
        longer = of(letter, *[size + (place == dim) for place, size in enumerate(shape)])
        for listed in ([element, two], [element, longer, element], [longer, element]):
            expected = np.concatenate(listed, dim)
            created = joins_cpu.joined_few(listed, 0, dim, listed[0])
            if expected.size or created is not None:  # what has no elements may be left to NumPy
                assert created.shape == expected.shape and (created == expected).all()
        assert (joins_cpu.stacked_few([element, two], 0, dim, element) == np.stack([element, two], dim)).all()


def test_joins_of_what_does_not_fit_together():
    x = np.ones((2, 3), "f")
    for listed in (
        [x, x.astype("d")],
        [x, x[:, :2].copy()],
        [x, x[0]],
        [x, np.asfortranarray(x)],
        [x, x.astype(">f4")],
        [x, np.ones((2, 3), np.dtype([("a", "f4")]))],
    ):
        assert joins_cpu.joined_few(listed, 0, 0, x) is None
        assert joins_cpu.stacked_few(listed, 0, 0, x) is None
    for dim in (-1, 2, 1 << 40):
        assert not run("joins.join", [x], 0, dim, 0, np.ones((2, 3), "f"))
        assert not run("joins.length", [x], 0, dim)
    assert not run("joins.join", [], 0, 0, 0, np.ones((2, 3), "f")) and not run("joins.length", [], 0, 0)
    assert not run("joins.join", [x], 0, 0, 0, np.ones((3, 3), "f"))  # the list has been exchanged meanwhile
    assert not run("joins.join", [x, x], 0, 0, 0, x.copy())


def test_lists_of_tensors_that_are_read():
    fields = tensor_fields()
    x = dynograd.ones(2, 3)
    out = np.empty((4, 3), "f")
    assert fields and run("joins.join", [x, x], fields, 0, 0, out) and (out == 1).all()
    assert run("joins.join", (x, x), fields, 0, 0, out)
    unset = object.__new__(dynograd.Tensor)
    unset._requires_grad = False
    for other in (1.0, None, x.numpy(), dynograd.nn.Parameter(x), x.clone().requires_grad_(), x.to("meta"), unset):
        assert not run("joins.join", [x, other], fields, 0, 0, out)
        assert not run("joins.join", [other, x], fields, 0, 0, out)


def test_lists_of_views_are_read_where_their_base_was_not_written():
    fields, out = tensor_fields(), np.empty((4, 3), "f")
    base, written, hooked = dynograd.ones(4, 3), dynograd.ones(4, 3), dynograd.ones(4, 3)[:2]
    assert run("joins.join", [base[:2], base[:2].view(2, 3)], fields, 0, 0, out)
    late = written[:2]
    written.mul_(dynograd.ones(1, requires_grad=True))
    hooked.meta()
    for other in (late, hooked, dynograd.nn.Parameter(base, requires_grad=False)[:2]):
        assert not run("joins.join", [base[:2], other], fields, 0, 0, out)


REFUSED = [
    ("turned", lambda: np.zeros((6, 4), "f").T),
    ("cut", lambda: np.zeros((4, 9), "f")[:, :6]),
    ("swapped", lambda: np.zeros((4, 6), ">f4")),
    ("large", lambda: np.zeros((400, 600), "f")),
    ("records", lambda: np.zeros((4, 6), np.dtype([("a", "f4")]))),
]


@pytest.mark.parametrize(("name", "make"), REFUSED)
def test_arrays_that_are_left_alone(name, make):
    x = make()
    x.flags.writeable = True
    mask, index = np.ones(x.shape, bool), np.zeros(x.shape, np.int64)
    calls = [
        ("writes.zero", x),
        ("writes.fill", x, 1.0),
        ("writes.fill_few_where", x, mask, 1.0),
        ("writes.write_few_where", x, mask, np.ones_like(x)),
        ("writes.write_few", x, index, np.ones_like(x), 0, 0),
        ("writes.write_few_slices", x, index[:, 0].copy(), np.ones_like(x), 0, 0),
        ("writes.keep_triangle", x, x, 0, 1),
    ]
    before = x.tobytes()
    for call in calls:
        assert not run(*call)
    assert x.tobytes() == before
    fixed = np.ones((4, 6), "f")
    fixed.flags.writeable = False
    assert not run("writes.zero", fixed) and not run("writes.fill", fixed, 2.0) and fixed.all()


@pytest.mark.parametrize("letter", ["f", "d", "l"])
@pytest.mark.parametrize("shape", [(7,), (4, 6), (1, 5), (5, 1)])
def test_scattered_elements(letter, shape):
    random = np.random.default_rng(0)
    for dim in range(len(shape)):
        index = random.integers(0, shape[dim], shape)
        src = of(letter, *shape)
        places = list(np.indices(shape))
        places[dim] = index
        for how, combine in ((1, np.add), (2, np.multiply), (3, np.maximum), (4, np.minimum)):
            x, expected = of(letter, *shape) * 2, of(letter, *shape) * 2
            combine.at(expected, tuple(places), src)
            assert run("writes.write_few", x, index, src, dim, how) and x.tolist() == expected.tolist()
        x, expected = np.zeros(shape, letter), np.zeros(shape, letter)
        for place in np.ndindex(shape):  # of several the last one stays
            expected[tuple(index[place] if axis == dim else at for axis, at in enumerate(place))] = src[place]
        assert run("writes.write_few", x, index, src, dim, 0) and x.tolist() == expected.tolist()
        before = x.tobytes()
        for bad in (-1, shape[dim]):
            wrong = index.copy()
            wrong.flat[-1] = bad
            assert not run("writes.write_few", x, wrong, src, dim, 0)
        assert not run("writes.write_few", x, index, src.astype("e"), dim, 0)
        assert not run("writes.write_few", x, index, src, len(shape), 0)
        assert not run("writes.write_few", x, index, src, -1, 0)
        assert not run("writes.write_few", x, index.astype("i"), src, dim, 0)
        assert not run("writes.write_few", x, index[..., None].copy(), src, dim, 0)
        assert x.tobytes() == before
    grown = np.zeros([size + 1 for size in shape], np.int64)
    if len(shape) == 2:
        assert not run("writes.write_few", x, grown, np.zeros(grown.shape, letter), 0, 0)
        assert not run("writes.write_few", x, grown, np.zeros(grown.shape, letter), 1, 0)


@pytest.mark.parametrize("dim", [0, 1])
def test_scattered_slices(dim):
    x, index = np.zeros((4, 6), "f"), np.array([2, 0, 2])
    src = of("f", *((3, 6) if dim == 0 else (4, 3)))
    expected = x.copy()
    np.add.at(expected, (slice(None),) * dim + (index,), src)
    assert run("writes.write_few_slices", x, index, src, dim, 1) and (x == expected).all()
    before = x.tobytes()
    assert not run("writes.write_few_slices", x, np.array([2, 0, 6]), src, dim, 1)
    assert not run("writes.write_few_slices", x, np.array([2, -1, 0]), src, dim, 1)
    assert not run("writes.write_few_slices", x, index[:2].copy(), src, dim, 1)
    assert not run("writes.write_few_slices", x, index, src, 1 - dim, 1)
    assert not run("writes.write_few_slices", x, index, src, 2, 1)
    assert x.tobytes() == before


@pytest.mark.parametrize("letter", ["?", "f", "d", "l", "i", "e", "F"])
@pytest.mark.parametrize("shape", [(), (7,), (0, 3), (4, 6), (2, 3, 4), (1, 2, 1, 3)])
def test_places_of_what_is_not_zero(letter, shape):
    random = np.random.default_rng(1)
    x = np.asarray(random.integers(-1, 2, shape) * random.integers(0, 2, shape), letter)
    if letter in "fd" and x.size > 2:
        x.flat[0], x.flat[1] = -0.0, np.nan
    expected = np.argwhere(x)
    result = lookups_cpu.nonzero_few(x, False)
    assert (result is None) == (letter in "ieF" or not shape)
    if result is not None:
        assert result.dtype == np.int64 and result.shape == expected.shape and (result == expected).all()
        columns = lookups_cpu.nonzero_few(x, True)
        assert [column.tolist() for column in columns] == [element.tolist() for element in x.nonzero()]
    for other in (
        dynograd.nonzero(dynograd.from_numpy(np.atleast_1d(x))),
        dynograd.from_numpy(np.atleast_1d(x)).argwhere(),
    ):
        assert other.tolist() == np.argwhere(np.atleast_1d(x)).tolist()
    if shape == (4, 6):
        assert lookups_cpu.nonzero_few(x.T, False) is None
        short = np.empty((max(len(expected) - 1, 0), 2), np.int64)
        assert not run("moves.rows", x, short) or letter in "ieF" or not len(expected)


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("shape", [(5,), (1,), (4, 6), (2, 3, 4), (0, 3)])
def test_flips_and_rolls(letter, shape):
    x = of(letter, *shape)
    for dim in range(len(shape)):
        result = rearrangements_cpu.flip_few(x, dim)
        assert result is None if not x.shape[dim] else result.tobytes() == np.flip(x, dim).tobytes()
        for shift in (0, 1, -1, 7, -8):
            result = rearrangements_cpu.roll_few(x, shift, dim)
            assert result is None if not x.shape[dim] else result.tobytes() == np.roll(x, shift, dim).tobytes()
    if len(shape) == 2 and x.size:
        assert rearrangements_cpu.roll_few(x.T, 1, 0) is None
        assert not run("moves.turn", x, x.copy(), 2, 0, 1) and not run("moves.turn", x, x.copy(), 0, shape[0], 1)


def test_classes_as_bits():
    x = np.array([[0, 3], [2, 0]])
    for classes in (-1, 4, 6):
        result = lookups_cpu.one_hot_few(x, classes)
        assert result.tolist() == np.eye(4 if classes == -1 else classes, dtype=int)[x].tolist()
    for wrong, classes in ((x, 3), (x, 0), (x, -2), (x - 1, -1), (x[:0], -1), (x.astype("i"), 4), (x.T, 4), (x, True)):
        assert lookups_cpu.one_hot_few(wrong, classes) is None
    assert not run("moves.one_hot", x, np.empty((2, 2, 3), np.int64))
