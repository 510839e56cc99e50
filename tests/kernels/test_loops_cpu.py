"""Generated elementwise loops: every layout against NumPy, serial against parallel, in place, and what they refuse."""

import itertools
import tracemalloc

import numpy
import pytest

from dynograd.arrays import buffers
from dynograd.kernels.build import kernel_cache, threads
from dynograd.kernels.elementwise import loops_cpu
from dynograd.kernels.elementwise.loops_cpu import Loop
from dynograd.kernels.formula.formulas import parse

BLEND = Loop("blend", ("x", "y", "z"), ("value",), (parse("x + value * y * z"),))
EXPONENTIAL = Loop("curve", ("x",), (), (parse("x * exp(-x * x)"),))


def blend(x, y, z, value):
    return x + value * y * z


def arrays_of(shapes, dtype="float32"):
    generator = numpy.random.default_rng(3)
    return [generator.standard_normal(shape).astype(dtype) for shape in shapes]


SHAPES = [
    [(100, 200), (200,), (100, 1)],
    [(100, 20), (20,), ()],
    [(500, 3), (3,), (500, 3)],
    [(500, 3), (500, 1), (3,)],
    [(5, 6, 7, 80), (6, 1, 80), (7, 1)],
    [(4, 5, 600), (1, 5, 600), (4, 1, 600)],
    [(4, 5, 600), (5, 1), (4, 1, 1)],
    [(2, 3, 4, 5, 6), (2, 1, 4, 1, 6), (3, 1, 1, 6)],
    [(), (100,), (1,)],
    [(), (), ()],
    [(1,), (1, 1), ()],
    [(0, 5), (5,), (1, 5)],
    [(3, 0), (3, 1), ()],
    [(100, 1), (1, 90), (1,)],
    [(9000,), (9000,), (9000,)],
    [(3, 9000), (9000,), (3, 9000)],
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_broadcast(shapes, dtype):
    orders = list(itertools.permutations(arrays_of(shapes, dtype)))
    for operands in orders if dtype == "float32" else orders[:1]:
        (result,) = BLEND(operands, (0.5,))
        expected = blend(*operands, 0.5)
        assert result.dtype == numpy.dtype(dtype) and result.shape == expected.shape
        numpy.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: numpy.ascontiguousarray(a.T).T,
    "every other column": lambda a: numpy.repeat(a, 2, 1)[:, ::2],
    "every other row": lambda a: numpy.repeat(a, 2, 0)[::2],
    "a part of wider rows": lambda a: numpy.concatenate([a, a, a], 1)[:, a.shape[1] : 2 * a.shape[1]],
    "backwards": lambda a: numpy.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "repeated rows": lambda a: numpy.broadcast_to(a[:1], a.shape),
    "repeated columns": lambda a: numpy.broadcast_to(a[:, :1], a.shape),
    "repeated number": lambda a: numpy.broadcast_to(a[0, 0], a.shape),
    "not to be written": lambda a: numpy.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "a field of records": lambda a: _field(a),
}


def _field(a):
    records = numpy.zeros(a.shape, [("tag", "i1"), ("value", a.dtype)])
    records["value"] = a
    return records["value"]


@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
def test_layouts(first, second):
    x, y, z = arrays_of([(70, 90)] * 3)
    operands = LAYOUTS[first](x), LAYOUTS[second](y), z
    (result,) = BLEND(operands, (0.5,))
    numpy.testing.assert_allclose(result, blend(*operands, 0.5), rtol=1e-5, atol=1e-6)


def test_results_lie_as_the_operands_do():
    x, y = (a.T for a in arrays_of([(300, 400)] * 2))
    (result,) = BLEND((x, y, x), (1.0,))
    assert result.strides == x.strides
    assert buffers.is_leased(BLEND(arrays_of([(300, 400)] * 3), (1.0,))[0])


def test_layouts_of_other_dtypes_are_not_mixed_up():
    x = numpy.arange(8000, dtype="float32")[::2]
    (result,) = EXPONENTIAL((x,))
    y = numpy.linspace(0, 2, 4000)
    assert y.strides == x.strides
    numpy.testing.assert_allclose(EXPONENTIAL((y,))[0], y * numpy.exp(-y * y), rtol=1e-12)
    assert result.dtype == numpy.float32


@pytest.mark.parametrize("shapes", [[(400_001,)] * 3, [(3000, 130), (130,), (3000, 1)], [(300, 1300), (1300,), ()]])
def test_serial_and_parallel_give_the_same_bits(shapes):
    operands = arrays_of(shapes)
    had = threads.get_num_threads()
    try:
        threads.set_num_threads(1)
        serial = BLEND(operands, (0.5,))[0].copy(), EXPONENTIAL(operands[:1])[0].copy()
        for count in (2, 3):
            threads.set_num_threads(count)
            numpy.testing.assert_array_equal(BLEND(operands, (0.5,))[0], serial[0])
            numpy.testing.assert_array_equal(EXPONENTIAL(operands[:1])[0], serial[1])
    finally:
        threads.set_num_threads(had)


def test_an_element_does_not_depend_on_its_place():
    curve = Loop("curve2", ("x",), (), (parse("x / (1 + exp(-x)) + log1p(exp(x)) * tanh(x) / 3 + normal_cdf(x)"),))
    x = numpy.float32(0.7312)
    results = [curve((numpy.full(count, x),))[0] for count in (1, 5, 16, 33, 4099, 70_001)]
    assert len({bits for result in results for bits in result.view("u4").tolist()}) == 1


def test_an_expanded_vector_is_not_written_out():
    """Beside short rows a vector is repeated some 200 times; that may not happen to a vector that was expanded to all rows before."""
    (column, vector), rows = arrays_of([(20000, 1), (20,)]), (20000, 20)
    operands = [numpy.broadcast_to(column, rows), numpy.broadcast_to(vector, rows), numpy.array(2, numpy.float32)]
    BLEND(operands, (0.5,))  # compiled
    tracemalloc.start()
    (result,) = BLEND(operands, (0.5,))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * result.nbytes
    numpy.testing.assert_allclose(result, blend(*operands, 0.5), rtol=1e-5, atol=1e-6)


def test_several_results_in_one_pass():
    both = Loop("both", ("g", "x", "y"), (), (parse("g * y"), parse("g * x"), parse("x > y")))
    g, x, y = arrays_of([(50, 70)] * 3)
    result = both((g, x, y))
    numpy.testing.assert_array_equal(result[0], g * y)
    numpy.testing.assert_array_equal(result[1], g * x)
    assert result[2].dtype == bool and (result[2] == (x > y)).all()


def test_a_condition_among_the_operands():
    choice = Loop("choice", ("c", "x", "y"), (), (parse("c ? x : y * 2"),), frozenset({"c"}))
    x, y = arrays_of([(50, 70)] * 2)
    for c in (x > 0, (x > 0)[:, :1], numpy.array(True), (x > 0).T.copy().T):
        numpy.testing.assert_array_equal(choice((c, x, y))[0], numpy.where(c, x, y * 2))
    numpy.testing.assert_array_equal(choice((x > 0, x, numpy.float32(3.0).reshape(())))[0], numpy.where(x > 0, x, 6))


class TestInPlace:
    @pytest.mark.parametrize("layout", ["contiguous", "transposed", "every other column", "a part of wider rows"])
    @pytest.mark.parametrize("which", [0, 1, 2])
    def test_of_an_operand(self, layout, which):
        operands = [LAYOUTS[layout](a) for a in arrays_of([(70, 90)] * 3)]
        expected = blend(*operands, 0.5)
        out = operands[which]
        (result,) = BLEND(operands, (0.5,), out)
        assert result is out
        numpy.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)

    def test_of_the_same_array_thrice(self):
        (x,) = arrays_of([(9000,)])
        expected = blend(x, x, x, 2.0)
        BLEND((x, x, x), (2.0,), x)
        numpy.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-6)

    def test_shifted_against_an_operand(self):
        (x,) = arrays_of([(9001,)])
        expected = blend(x[:-1], x[1:], x[1:], 2.0)
        BLEND((x[:-1], x[1:], x[1:]), (2.0,), x[1:])
        numpy.testing.assert_allclose(x[1:], expected, rtol=1e-5, atol=1e-6)

    def test_another_array_broadcast(self):
        x, y, z = arrays_of([(70, 90), (90,), (70, 1)])
        out = numpy.empty((70, 90), "float32")
        BLEND((x, y, z), (2.0,), out)
        numpy.testing.assert_allclose(out, blend(x, y, z, 2.0), rtol=1e-5, atol=1e-6)

    def test_cannot_grow(self):
        x, y, z = arrays_of([(90,), (70, 90), (90,)])
        with pytest.raises(ValueError, match=r"blend: result of shape \(70, 90\) into an array of shape \(90,\)"):
            BLEND((x, y, z), (2.0,), x)


def test_shapes_that_do_not_go_together():
    with pytest.raises(ValueError, match="broadcast"):
        BLEND(arrays_of([(3,), (4,), (5,)]), (1.0,))


def test_what_has_no_scalar_code_is_refused():
    x = numpy.ones(5000, "float32")
    assert Loop("sine", ("x",), (), (parse("sin(x)"),))((x,)) is None
    assert EXPONENTIAL((numpy.ones(5000, "int64"),)) is None
    assert EXPONENTIAL((numpy.ones(5000, "complex64"),)) is None


def test_exponents_decide_the_code():
    power = Loop("power", ("x",), ("exponent",), (parse("x ** exponent"),))
    (x,) = arrays_of([(5000,)])
    for exponent in (2, 3, -1, 0, 1.0):
        numpy.testing.assert_allclose(power((x,), (exponent,))[0], x.astype("f8") ** exponent, rtol=1e-6)
    assert power((x,), (2.7,)) is None
    numpy.testing.assert_allclose(power((abs(x),), (0.5,))[0], abs(x) ** 0.5, rtol=1e-6)


def test_no_bound_is_no_bound():
    clamp = Loop("clamp", ("x",), ("min", "max"), (parse("min(max(x, min), max)"),))
    x = numpy.array([-2.0, 2.0, numpy.nan, numpy.inf, -numpy.inf] * 1000, "float32")
    numpy.testing.assert_array_equal(clamp((x,), (None, 1.0))[0], numpy.minimum(x, 1))
    numpy.testing.assert_array_equal(clamp((x,), (-1.0, None))[0], numpy.maximum(x, -1))
    assert clamp((x,), (numpy.nan, 1.0)) is None  # the op's own kernel knows


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_integers(dtype):
    whole = Loop("whole", ("x", "y"), (), (parse("x * y + 3"), parse("x < y"), parse("max(x, y)")))
    x, y = (numpy.random.default_rng(number).integers(0, 200, 5000).astype(dtype) for number in (0, 1))
    result = whole((x, y))
    numpy.testing.assert_array_equal(result[0], x * y + x.dtype.type(3))
    numpy.testing.assert_array_equal(result[1], x < y)
    numpy.testing.assert_array_equal(result[2], numpy.maximum(x, y))


def test_one_kernel_serves_all_sizes():
    EXPONENTIAL((numpy.ones(10, "float32"),))
    before = kernel_cache.statistics()["compiled"]
    for count in (1, 4096, 4097, 100_000):
        EXPONENTIAL((numpy.ones(count, "float32"),))
        EXPONENTIAL((numpy.ones((count, 2), "float32"),))
    assert kernel_cache.statistics()["compiled"] <= before + 1  # the driver of the parallel form


class TestUfunc:
    def test_layouts(self):
        created = loops_cpu.ufunc("soft_step", parse("x > 0 ? x * y : exp(x)"), ("x", "y"), "ff", "f")
        x, y = arrays_of([(70, 90)] * 2)
        for a, b in ((x, y), (x.T, y.T), (x[:, ::2], y[:, ::2]), (x, y[0]), (x, y[:, :1]), (x[0, 0], y[0, 0])):
            numpy.testing.assert_allclose(created(a, b), numpy.where(a > 0, a * b, numpy.exp(a)), rtol=1e-6)

    def test_without_the_parts_of_numba_that_it_takes(self, monkeypatch):
        from dynograd.kernels.formula import generator_numba

        monkeypatch.setattr(generator_numba, "_compiled_loop", lambda source, name: None)
        created = loops_cpu.ufunc("choice", parse("c ? x : y"), ("c", "x", "y"), "?ff", "f")
        x, y = arrays_of([(70,)] * 2)
        numpy.testing.assert_array_equal(created(x > 0, x, y), numpy.where(x > 0, x, y))

    def test_is_cached_as_kernels_are(self):
        loops_cpu.ufunc("cached_once", parse("x * 3 + 1"), ("x",), "f", "f")
        before = kernel_cache.statistics()
        loops_cpu.ufunc("cached_once", parse("x * 3 + 1"), ("x",), "f", "f")
        after = kernel_cache.statistics()
        if kernel_cache.folder() is not None:
            assert after["compiled"] == before["compiled"] and after["loaded"] == before["loaded"] + 1
