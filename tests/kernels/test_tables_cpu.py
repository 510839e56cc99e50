"""Kernels over lists of arrays against NumPy array by array; the objects that compiled code reads."""

import numpy as np
import pytest

from dynograd.kernels.build import threads
from dynograd.kernels.optim import optimizers_cpu
from dynograd.kernels.small import object_fields, tables_cpu, tables_numba

SHAPES = [(3,), (0,), (), (1024,), (1025,), (70, 300), (0, 4), (2, 5, 3), (200_000,)]


def arrays_of(kind, shapes=SHAPES):
    random = np.random.default_rng(3)
    return [np.asarray(random.normal(size=shape), kind) for shape in shapes]


LISTS = {
    "float32": lambda: arrays_of(np.float32),
    "float64": lambda: arrays_of(np.float64),
    "one": lambda: arrays_of(np.float32, [(5000,)]),
    "few and small": lambda: arrays_of(np.float32, [(3,), (2, 2)]),
    "empty": lambda: arrays_of(np.float32, [(0,)] * 6),
    "mixed": lambda: arrays_of(np.float32) + arrays_of(np.float16) + arrays_of(np.float64),
    "strided": lambda: [np.ones((300, 40), np.float32).T, np.ones(900, np.float32)[::2], *arrays_of(np.float32)],
    "backwards": lambda: [np.arange(5000.0, dtype=np.float32)[::-1], *arrays_of(np.float32)],
    "half first": lambda: [np.ones(7, np.float16), *arrays_of(np.float32)],
    "complex": lambda: [np.full(300, 1 + 2j, np.complex64), *arrays_of(np.float32)],
    "another descriptor": lambda: [np.ones(500, np.dtype(np.float32, metadata={"a": 1})), *arrays_of(np.float32)],
}


@pytest.fixture(params=[1, 2, "python"])
def way(request, monkeypatch):
    if request.param == "python":
        monkeypatch.setattr(tables_cpu, "FIELDS", None)
    else:
        monkeypatch.setattr(threads, "_threads", request.param)


@pytest.mark.parametrize("name", LISTS)
def test_sum_of_squares(name, way):
    listed = LISTS[name]()
    expected = sum(float((np.abs(x.astype(np.complex128)) ** 2).sum()) for x in listed)
    np.testing.assert_allclose(tables_cpu.sum_of_squares(listed), expected, rtol=1e-6)


@pytest.mark.parametrize("name", LISTS)
def test_scale_bound_and_fill(name, way):
    for function, formula, arguments in [
        (tables_cpu.scale, lambda x: x * x.dtype.type(0.3), (0.3,)),
        (tables_cpu.bound, lambda x: np.clip(x, x.dtype.type(-0.5), x.dtype.type(0.25)), (-0.5, 0.25)),
        (tables_cpu.fill, np.zeros_like, (0.0,)),
    ]:
        listed = LISTS[name]()
        reference = [formula(x) for x in listed]
        function(listed, *arguments)
        for result, expected in zip(listed, reference, strict=True):
            np.testing.assert_array_equal(result, expected)


def test_nan_is_not_bounded_and_infinity_is(way):
    listed = [np.array([np.nan, np.inf, -np.inf, -0.0] * 100, np.float32)]
    tables_cpu.bound(listed, -1.0, 2.0)
    np.testing.assert_array_equal(listed[0][:4], [np.nan, 2, -1, 0])


def test_the_sum_has_the_same_bits_for_any_number_of_threads(monkeypatch):
    listed = arrays_of(np.float32) * 3
    sums = []
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "_threads", count)
        sums.append(tables_cpu.sum_of_squares(listed))
    assert sums[0] == sums[1] == sums[2]


def test_arrays_that_share_memory_are_scaled_one_after_the_other(monkeypatch):
    monkeypatch.setattr(threads, "_threads", 2)
    x = np.ones(200_000, np.float32)
    tables_cpu.scale([x, x[1000:], x], 2.0)
    assert x[:1000].tolist() == [4] * 1000 and (x[1000:] == 8).all()


def test_read_only_arrays_are_refused():
    listed = arrays_of(np.float32)
    listed[3].flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        tables_cpu.scale(listed, 2.0)
    assert tables_cpu.sum_of_squares(listed) > 0


def test_fields_are_found_on_cpython():
    assert object_fields.FIELDS is not None


def test_other_layouts_of_objects_are_noticed(monkeypatch):
    for position in range(len(object_fields._OFFSETS)):
        offsets = list(object_fields._OFFSETS)
        offsets[position] += 8 if position != 0 else -8
        monkeypatch.setattr(object_fields, "_OFFSETS", tuple(offsets))
        if position == len(offsets) - 1:
            monkeypatch.setattr(object_fields, "_items_of", lambda listed: [])
        assert object_fields._looked_up() is None or position == 5, position
    monkeypatch.undo()
    monkeypatch.setattr(object_fields.sys.implementation, "name", "other")
    assert object_fields._looked_up() is None


def table_of(kind, shapes=SHAPES, with_steps=True):
    parameters, means = arrays_of(kind, shapes), [np.zeros(shape, kind) for shape in shapes]
    squares, steps = [np.zeros(shape, kind) for shape in shapes], [np.zeros((), np.float32) for _ in shapes]
    states = [means, squares] if with_steps else [means]
    new = [not with_steps] * len(shapes)
    return optimizers_cpu.step_table(parameters, states, steps if with_steps else None, new), parameters, states, steps


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 2])
def test_a_table_step_equals_steps_one_by_one(kind, count, monkeypatch):
    monkeypatch.setattr(threads, "_threads", count)
    tolerance = dict(rtol=1e-5, atol=1e-6) if kind is np.float32 else dict(rtol=1e-13)
    for adam in (True, False):
        table, parameters, states, steps = table_of(kind, with_steps=adam)
        element = [(p.copy(), *(state[i].copy() for state in states)) for i, p in enumerate(parameters)]
        for number in (1, 2, 3):
            gradients = [None if i == number else g for i, g in enumerate(arrays_of(kind)[::-1][::-1])]
            if adam:
                assert optimizers_cpu.adam_table_step(table, gradients, 0.1, 0.9, 0.99, 1e-8, 0.1, True, True) == -1
            else:
                assert optimizers_cpu.sgd_table_step(table, gradients, 0.1, 0.9, 0.3, 0.1, False, False) == -1
            for (p, *kept), g, step in zip(element, gradients, steps, strict=True):
                if g is None:
                    continue
                if adam:
                    optimizers_cpu.adam_step(p, g, *kept, None, step.item(), 0.1, 0.9, 0.99, 1e-8, 0.1, True, True)
                else:
                    first = number == 1
                    optimizers_cpu.sgd_step(p, g, *kept, 0.1, 0.9, 0.3, 0.1, False, False, first)
        for result, (expected, *_) in zip(parameters, element, strict=True):
            np.testing.assert_allclose(result, expected, **tolerance)
        assert not adam or [step.item() for step in steps[:4]] == [3, 2, 2, 2]


def test_table_steps_have_the_same_bits_for_any_number_of_threads(monkeypatch):
    result = []
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "_threads", count)
        table, parameters, _, _ = table_of(np.float32)
        for _ in range(3):
            optimizers_cpu.adam_table_step(table, arrays_of(np.float32), 0.1, 0.9, 0.99, 1e-8, 0.1, True, False)
        result.append([p.tobytes() for p in parameters])
    assert result[0] == result[1] == result[2]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda p: p.astype(np.float64),
        lambda p: p[:, :-1],
        lambda p: p.reshape(-1),
        lambda p: np.asfortranarray(p),
        lambda p: p,  # shares memory with what is written
        lambda p: np.ma.masked_array(p.copy()),
        lambda p: p.copy().view(np.dtype(np.float32, metadata={"a": 1})),
    ],
)
def test_gradients_that_do_not_fit_are_found_before_anything_is_written(wrong):
    table, parameters, _, steps = table_of(np.float32)
    gradients = arrays_of(np.float32)
    gradients[5] = wrong(parameters[5])
    before = [p.copy() for p in parameters]
    assert optimizers_cpu.adam_table_step(table, gradients, 0.1, 0.9, 0.99, 1e-8, 0.1, True, False) == 5
    assert all((p == b).all() for p, b in zip(parameters, before, strict=True))
    assert all(step == 0 for step in steps)


def test_parameters_that_share_memory_get_no_table():
    p = np.zeros(100, np.float32)
    assert optimizers_cpu.step_table([p, p[50:]], [], None, [False] * 2) is None
    assert optimizers_cpu.step_table([p[:50], p[50:]], [], None, [False] * 2) is not None


def test_without_fields_there_is_no_table(monkeypatch):
    monkeypatch.setattr(optimizers_cpu, "FIELDS", None)
    assert optimizers_cpu.step_table([np.zeros(9, np.float32)], [], None, [False]) is None


@pytest.mark.parametrize("sizes", [[1], [1024], [1025], [0, 5, 0], [3000, 0, 1, 2048]])
def test_row_of(sizes):
    rows = np.zeros((len(sizes) + 1, tables_numba.COLUMNS), np.int64)
    rows[:-1, tables_numba.SIZE] = sizes
    rows[1:, tables_numba.FIRST] = np.cumsum([-(-size // 1024) for size in sizes])
    expected = [row for row, size in enumerate(sizes) for _ in range(-(-size // 1024))]
    assert [tables_numba.row_of(rows, block) for block in range(rows[-1, tables_numba.FIRST])] == expected
