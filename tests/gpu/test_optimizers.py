"""Optimizer steps, norms and gradient clipping over tables of addresses, against the CPU's kernels."""

import numpy
import pytest

from dynograd.arrays import cuda_arrays
from dynograd.kernels.optim import gradients_cuda, optimizers_cpu, optimizers_cuda
from dynograd.kernels.small import tables_cuda

BFLOAT16 = cuda_arrays.dtypes.bfloat16.numpy
KINDS = {"float32": 2e-6, "float64": 1e-13, "float16": 2e-3, "bfloat16": 1.6e-2}
SHAPES = [(3,), (40, 50), (), (0, 4), (17, 3, 2), (5000,)]


def dtype_of(kind):
    return BFLOAT16 if kind == "bfloat16" else numpy.dtype(kind)


def numbers(kind, seed, shapes=SHAPES, low=-1.0):
    draw = numpy.random.default_rng(seed)
    return [draw.uniform(low, 1, shape).astype(dtype_of(kind)) for shape in shapes]


def zeros(kind):
    return [numpy.zeros(shape, dtype_of(kind)) for shape in SHAPES]


def up(arrays):
    return [cuda_arrays.from_numpy(array, 0) for array in arrays]


def down(arrays):
    return [array.numpy() for array in arrays]


def same(results, wanted, kind):
    for element, other in zip(results, wanted, strict=True):
        tolerance = KINDS[kind]
        numpy.testing.assert_allclose(element.astype(float), other.astype(float), rtol=tolerance, atol=tolerance)


SGD = {
    "plain": (0.1, 0.0, 0.0, 0.0, False, False),
    "decay": (0.1, 0.0, 0.0, 0.3, False, True),
    "momentum": (0.1, 0.9, 0.5, 0.1, False, False),
    "nesterov": (0.1, 0.9, 0.0, 0.1, True, False),
}
ADAM = {
    "adam": (0.1, 0.9, 0.99, 1e-8, 0.1, False, False),
    "adamw": (0.1, 0.9, 0.99, 1e-8, 0.1, True, True),
    "beta 0": (0.1, 0.0, 0.99, 1e-3, 0.0, False, False),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", SGD)
def test_sgd_steps(options, kind):
    argument = SGD[options]
    momentum = argument[1] != 0
    parameters, buffers = numbers(kind, 1), zeros(kind)
    ours, states = up(parameters), [up(buffers)] if momentum else []
    table = optimizers_cuda.step_table(ours, states, None, [True] * len(ours))
    for step in range(3):
        gradients = numbers(kind, 10 + step)
        for p, g, b in zip(parameters, gradients, buffers, strict=True):
            optimizers_cpu.sgd_step(p, g, b if momentum else None, *argument, first=momentum and step == 0)
        assert optimizers_cuda.sgd_table_step(table, up(gradients), *argument) == -1
    same(down(ours), parameters, kind)
    if momentum:
        same(down(states[0]), buffers, kind)


@pytest.mark.parametrize("place", ["host", "device"])
@pytest.mark.parametrize("highest", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", ADAM)
def test_adam_steps(options, kind, highest, place):
    argument = ADAM[options]
    parameters = numbers(kind, 1)
    moments = [zeros(kind) for _ in range(3 if highest else 2)]
    counters = [numpy.zeros((), numpy.float32) for _ in parameters]
    ours, states = up(parameters), [up(moment) for moment in moments]
    steps = up(counters) if place == "device" else counters
    table = optimizers_cuda.step_table(ours, states, steps, [True] * len(ours))
    taken = [0] * len(ours)
    for step in range(3):
        gradients = numbers(kind, 10 + step)
        sent = up(gradients)
        if step == 1:
            sent[1] = None  # its count falls behind
        for place_of, p in enumerate(parameters):
            if sent[place_of] is None:
                continue
            taken[place_of] += 1
            m, v, *rest = [moment[place_of] for moment in moments]
            optimizers_cpu.adam_step(
                p, gradients[place_of], m, v, rest[0] if rest else None, taken[place_of], *argument
            )
        assert optimizers_cuda.adam_table_step(table, sent, *argument) == -1
    same(down(ours), parameters, kind)
    for element, other in zip(states, moments, strict=True):
        same(down(element), other, kind)
    results = down(steps) if place == "device" else counters
    assert [float(result) for result in results] == taken


@pytest.mark.parametrize("place", ["host", "device"])
@pytest.mark.parametrize("inf", [0.0, 1.0])
def test_steps_are_skipped_where_a_gradient_was_not_finite(inf, place):
    result = cuda_arrays.from_numpy(numpy.array(inf, "float32"), 0)
    before, gradients = numbers("float32", 1), numbers("float32", 2)
    ours, states = up(before), [up(zeros("float32")) for _ in range(2)]
    steps = [numpy.zeros((), numpy.float32) for _ in before]
    steps = up(steps) if place == "device" else steps
    table = optimizers_cuda.step_table(ours, states, steps, [True] * len(ours))
    optimizers_cuda.adam_table_step(table, up(gradients), *ADAM["adam"], found_inf=result)
    assert float(steps[0]) == 1 - inf
    assert numpy.array_equal(down(ours)[1], before[1]) == bool(inf)
    ours = up(before)
    table = optimizers_cuda.step_table(ours, [up(zeros("float32"))], None, [True] * len(ours))
    optimizers_cuda.sgd_table_step(table, up(gradients), *SGD["momentum"], found_inf=result)
    assert numpy.array_equal(down(ours)[1], before[1]) == bool(inf)


def test_one_parameter_of_another_layout():
    value, g, m, v = numbers("float32", 1, [(6, 8)] * 4)
    p, first, second = up([value])[0].T, up([m * 0])[0].T, up([v * 0])[0].T
    expected, mean, square = value.T.copy(), m.T * 0, v.T * 0
    optimizers_cpu.adam_step(expected, g.T.copy(), mean, square, None, 1, *ADAM["adam"])
    optimizers_cuda.adam_step(p, up([g])[0].T, first, second, None, 1, *ADAM["adam"])
    same([p.numpy(), first.numpy()], [expected, mean], "float32")
    p, buffer, expected = up([value])[0].T, up([m])[0].T, value.T.copy()
    optimizers_cpu.sgd_step(expected, g.T.copy(), m.T.copy(), *SGD["momentum"], first=True)
    optimizers_cuda.sgd_step(p, up([g])[0].T, buffer, *SGD["momentum"], first=True)
    same([p.numpy()], [expected], "float32")


def test_gradients_that_do_not_fit():
    ours = up(numbers("float32", 1))
    table = optimizers_cuda.step_table(ours, [], None, [False] * len(ours))
    wrong = up(numbers("float32", 2))
    wrong[1] = wrong[1].T
    assert optimizers_cuda.sgd_table_step(table, wrong, *SGD["plain"]) == 1
    wrong = up(numbers("float32", 2))
    wrong[4] = wrong[4].astype("float64")
    assert optimizers_cuda.sgd_table_step(table, wrong, *SGD["plain"]) == 4


def test_parameters_that_share_memory_make_no_table():
    whole = up(numbers("float32", 1, [(8, 8)]))[0]
    assert optimizers_cuda.step_table([whole, whole[2:4]], [], None, [False, False]) is None
    assert optimizers_cuda.step_table([whole[:4], whole[4:]], [], None, [False, False]) is not None


def test_nothing_is_copied_to_the_device_while_addresses_stay():
    ours, gradients = up(numbers("float32", 1)), up(numbers("float32", 2))
    table = optimizers_cuda.step_table(ours, [], None, [False] * len(ours))
    optimizers_cuda.sgd_table_step(table, gradients, *SGD["plain"])
    rows = table.rows
    optimizers_cuda.sgd_table_step(table, gradients, *SGD["plain"])
    assert table.rows is rows
    (table,) = tables_cuda._in_tables(gradients)
    rows = table.rows
    tables_cuda.scale(gradients, 2.0)
    assert table.rows is rows
    others = up(numbers("float32", 3))
    tables_cuda.scale(others, 2.0)  # other addresses, the same sizes
    assert table.rows is not rows
    same(down(others), [2 * number for number in numbers("float32", 3)], "float32")


@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_squares(kind):
    arrays = numbers(kind, 3, [(70000,), (3, 5), ()])
    expected = sum([float((array.astype(float) ** 2).sum()) for array in arrays])
    result = tables_cuda.sum_of_squares(up(arrays))
    assert result.shape == ()
    assert abs(result.item() / expected - 1) < (1e-12 if kind == "float64" else 3e-6)
    mixed = up(arrays) + up([arrays[1].astype("float64")]) + [up([arrays[1]])[0].T]
    again = tables_cuda.sum_of_squares(mixed).item()
    assert abs(again - expected - 2 * float((arrays[1].astype(float) ** 2).sum())) < 1e-5 * expected


@pytest.mark.parametrize("kind", KINDS)
def test_scaling_bounding_and_filling(kind):
    arrays = numbers(kind, 3)
    arrays[1][0, :2] = numpy.nan, 3
    ours, view = up(arrays), up([arrays[1]])[0].T
    tables_cuda.scale([*ours, view], 0.5)
    same(
        [*down(ours), view.numpy()],
        [array * array.dtype.type(0.5) for array in arrays] + [arrays[1].T * arrays[1].dtype.type(0.5)],
        kind,
    )
    tables_cuda.bound([*ours, view], -0.25, 0.125)
    for element in [*down(ours), view.numpy()]:
        shown = element.astype(float)[~numpy.isnan(element.astype(float))]
        assert not shown.size or (shown.min() >= -0.25 and shown.max() <= 0.125)
    assert numpy.isnan(ours[1].numpy()[0, 0])
    tables_cuda.fill([*ours, view], 2.0)
    assert all([(each.astype(float) == 2).all() for each in [*down(ours), view.numpy()]])


@pytest.mark.parametrize(("factor", "kept"), [(0.5, False), (1.5, True), (numpy.nan, False)])
def test_scaling_by_a_number_on_the_device(factor, kept):
    arrays = numbers("float32", 3)
    ours = up(arrays)
    tables_cuda.scale(ours, cuda_arrays.from_numpy(numpy.array(factor, "float32"), 0))
    same(down(ours), arrays if kept else [array * numpy.float32(factor) for array in arrays], "float32")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [None, numpy.inf, numpy.nan])
def test_unscaling(kind, bad):
    arrays = numbers(kind, 3)
    if bad is not None:
        arrays[5][4000] = bad
    ours, result = up(arrays), up([numpy.zeros((), "float32")])[0]
    tables_cuda.unscale(ours, up([numpy.array(0.25, "float32")])[0], result)
    assert result.item() == (bad is not None)
    same(down(ours), [array * array.dtype.type(0.25) for array in arrays], kind)


def test_sums_of_gradients():
    element, other = numbers("float32", 3, [(30, 40)] * 2)
    target, value = up([element, other])
    numpy.testing.assert_array_equal(gradients_cuda.add(target, value).numpy(), element + other)
    gradients_cuda.add_into(target, value)
    numpy.testing.assert_array_equal(target.numpy(), element + other)
    view = up([element])[0]
    gradients_cuda.add_into(view[:, :4], view[:, 2:6])  # the two overlap
    expected = element.copy()
    expected[:, :4] = element[:, :4] + element[:, 2:6]
    numpy.testing.assert_array_equal(view.numpy(), expected)
