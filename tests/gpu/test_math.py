"""The formula language's functions in Triton's language, against NumPy and SciPy in float64."""

import math
import os
import subprocess
import sys

import numpy
import pytest
import scipy.special

from dynograd.arrays import cuda_arrays
from dynograd.cuda import driver
from dynograd.kernels.build.launching_cuda import triton_source
from dynograd.kernels.elementwise import elementwise_cpu

inf, nan = numpy.inf, numpy.nan
EDGES = [
    0.0,
    -0.0,
    1,
    -1,
    inf,
    -inf,
    nan,
    0.5,
    -0.5,
    2,
    -2,
    3,
    1e-40,
    -1e-40,
    1e-30,
    3e38,
    -3e38,
    89,
    88.8,
    -88,
    -104,
    7,
    2.5,
]
FLOATS = ["float32", "float64"]
WHOLE = ["int8", "uint8", "int16", "int32", "int64"]
COUNT = 3000


def run(name, *operands, result=None):
    """`math_triton.name` of the operands, by one program."""
    size = operands[0].size
    words = ", ".join(f"x{k}" for k in range(len(operands)))
    loads = ", ".join(f"tl.load(x{k} + i, mask=i < n)" for k in range(len(operands)))
    kernel = triton_source(
        f"def compute({words}, y, n, BLOCK: tl.constexpr):\n"
        f"    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        f"    tl.store(y + i, math_triton.{name}({loads}), mask=i < n)\n",
        "compute",
    )
    argument = [cuda_arrays.from_numpy(numpy.ascontiguousarray(operand), 0) for operand in operands]
    out = cuda_arrays.empty((size,), numpy.dtype(result or operands[0].dtype), 0)
    block = 1 << (size - 1).bit_length() if driver.is_emulated() else 128
    kernel((-(-size // block),), *argument, out, size, BLOCK=block)
    return out.numpy()


def numbers(low, high, kind):
    """Numbers all over a range, evenly and by size, and the edges."""
    draw = numpy.random.default_rng(3)
    sizes = 10 ** draw.uniform(-12, math.log10(max(abs(low), high)), COUNT)
    signs = draw.choice([-1.0, 1.0], COUNT) if low < 0 else 1.0
    near = numpy.clip(signs * sizes, low, high)
    return numpy.concatenate([draw.uniform(low, high, COUNT), near, EDGES]).astype(kind)


def units(result, wanted):
    """How far `found` is from float64 numbers, in units in the last place of its dtype; not a number where one only is NaN."""
    rounded = wanted.astype(result.dtype)
    apart = numpy.abs(result.astype(float) - wanted) / numpy.spacing(numpy.abs(rounded)).astype(float)
    same = (result == rounded) | (numpy.isnan(result) & numpy.isnan(rounded))
    return numpy.where(same, 0.0, apart)


def each(function):
    return lambda x: numpy.array([function(element) for element in x])


def log_gamma(x):
    return numpy.where(x == -inf, inf, scipy.special.gammaln(x))


def bell(x):
    return (numpy.exp(-(x.astype(numpy.longdouble) ** 2) / 2) * numpy.longdouble("0.398942280401432677939946")).astype(
        float
    )


# name: reference in float64, range, units in float32, and in float64
ONE = {
    "exp": (numpy.exp, -104, 89, 2, 4),
    "exp2": (numpy.exp2, -150, 128, 2, 4),
    "expm1": (numpy.expm1, -30, 89, 3, 4),
    "log": (numpy.log, 0, 1e30, 2, 4),
    "log2": (numpy.log2, 0, 1e30, 2, 4),
    "log10": (numpy.log10, 0, 1e30, 1, 4),
    "log1p": (numpy.log1p, -1, 1e20, 4, 4),
    "sqrt": (numpy.sqrt, 0, 1e30, 0.51, 0.51),
    "sin": (numpy.sin, -1000, 1000, 2, 4),
    "cos": (numpy.cos, -1000, 1000, 2, 4),
    "tan": (numpy.tan, -100, 100, 4, 4),
    "asin": (numpy.arcsin, -1, 1, 3, 4),
    "acos": (numpy.arccos, -1, 1, 3, 4),
    "atan": (numpy.arctan, -100, 100, 3, 4),
    "sinh": (numpy.sinh, -89, 89, 4, 4),
    "cosh": (numpy.cosh, -89, 89, 4, 4),
    "tanh": (numpy.tanh, -20, 20, 4, 4),
    "asinh": (numpy.arcsinh, -1e10, 1e10, 5, 4),
    "acosh": (numpy.arccosh, 1, 1e10, 5, 4),
    "atanh": (numpy.arctanh, -1, 1, 5, 4),
    "erf": (scipy.special.erf, -5, 5, 2, 6),
    "erfc": (each(math.erfc), -6, 9, 6, 10),
    "sigmoid": (scipy.special.expit, -80, 80, 4, 4),
    "normal_cdf": (each(lambda x: 0.5 * math.erfc(-x / math.sqrt(2))), -12, 8, 6, 400),
    "normal_pdf": (bell, -12, 12, 4, 4),
    "normal_gate": (lambda x: x * scipy.special.ndtr(x), -10, 10, 6, 400),
    "erfinv": (scipy.special.erfinv, -1, 1, 5, 10),
    "lgamma": (log_gamma, 0.01, 60, 1, 400),
    "digamma": (elementwise_cpu.digamma, 1.6, 60, 1, 20),
    "floor": (numpy.floor, -100, 100, 0, 0),
    "ceil": (numpy.ceil, -100, 100, 0, 0),
    "trunc": (numpy.trunc, -100, 100, 0, 0),
    "round": (numpy.rint, -100, 100, 0, 0),
    "abs": (numpy.abs, -9, 9, 0, 0),
    "neg": (numpy.negative, -9, 9, 0, 0),
    "sign": (lambda x: numpy.nan_to_num(numpy.sign(x)), -9, 9, 0, 0),
}


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", ONE)
def test_function_of_one(name, kind):
    reference, low, high, narrow, wide = ONE[name]
    x = numbers(low, high, kind)
    if name in ("lgamma", "digamma"):
        x = x[(x > (0.01 if name == "lgamma" else 1.6)) | ~numpy.isfinite(x)]
    with numpy.errstate(all="ignore"):
        expected = reference(x.astype(float))
        result = run(name, x)
        apart = units(result, expected)
        if name == "normal_gate":
            apart[x == -inf] = 0  # -inf * 0 is NaN on both sides
        if name == "digamma":
            apart[x == -inf] = 0  # NaN here, -inf in other libraries
    assert apart.max() <= (narrow if kind == "float32" else wide), (x[apart.argmax()], result[apart.argmax()])


@pytest.mark.parametrize("kind", FLOATS)
def test_gate_slope(kind):
    x = numbers(-12, 12, kind)
    x = x[numpy.isfinite(x)]
    wide = x.astype(float)
    expected = numpy.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in wide]) + wide * bell(wide)
    assert numpy.abs(run("normal_gate_slope", x) - expected).max() < (
        2e-7 if kind == "float32" else 5e-16
    )  # 1.7e-7 on a card


def test_relative_errors_stay_small_in_the_tail_of_the_normal_distribution():
    x = numpy.linspace(-13, -3, 1000).astype("float32")
    expected = numpy.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.astype(float)])
    assert (numpy.abs(run("normal_cdf", x) / expected - 1)).max() < 5e-7


@pytest.mark.parametrize("kind", FLOATS)
def test_gamma_functions_below_zero(kind):
    x = numbers(-20, -0.01, kind)
    x = x[numpy.isfinite(x) & (x < 0) & (x > -30)]
    x = x[numpy.abs(x - numpy.rint(x)) > 1e-3]  # near its poles digamma is as steep as its argument is coarse
    tolerance = 3e-7 if kind == "float32" else 3e-13
    for name, expected in (
        ("lgamma", log_gamma(x.astype(float))),
        ("digamma", elementwise_cpu.digamma(x.astype(float))),
    ):
        with numpy.errstate(invalid="ignore"):
            apart = numpy.abs(run(name, x).astype(float) - expected) / numpy.maximum(1, numpy.abs(expected))
        assert numpy.nanmax(apart) < tolerance, name


def test_gamma_functions_at_poles():
    x = numpy.array([0.0, -0.0, -1.0, -2.0, inf, -inf, nan])
    assert run("lgamma", x).tolist()[:6] == [inf] * 6
    numpy.testing.assert_array_equal(run("digamma", x), [-inf, inf, nan, nan, inf, nan, nan])
    numpy.testing.assert_array_equal(run("polygamma", x, numpy.ones(7)), [inf, inf, inf, inf, 0, nan, nan])


@pytest.mark.parametrize("order", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("kind", FLOATS)
def test_polygamma(order, kind):
    x = numbers(-20, 30, kind)
    x = x[(numpy.abs(x) > 1e-3) & (numpy.abs(x) < 100)]
    expected = elementwise_cpu.polygamma(x.astype(float), order)
    with numpy.errstate(invalid="ignore"):
        apart = numpy.abs(run("polygamma", x, numpy.full_like(x, order)) / expected - 1)
    assert numpy.nanmax(apart[numpy.isfinite(expected)]) < (1e-7 if kind == "float32" else 1e-12)


TWO = {
    "atan2": (numpy.arctan2, 3),
    "hypot": (numpy.hypot, 3),
    "copysign": (numpy.copysign, 0),
    "max": (numpy.maximum, 0),
    "min": (numpy.minimum, 0),
    "fmax": (numpy.fmax, 0),
    "fmin": (numpy.fmin, 0),
    "fmod": (numpy.fmod, 0),
    "mod": (numpy.mod, 0),
    "floor_divide": (numpy.floor_divide, 0),
    "power": (numpy.power, 2),
}


def pairs(kind):
    """All pairs of edges, and numbers of all sizes."""
    draw = numpy.random.default_rng(5)
    edges = numpy.array([*EDGES, 1e300, -5e-324, 5e-324, 1e10 + 1])
    x, y = (element.ravel() for element in numpy.meshgrid(edges, edges))
    size = COUNT // 3
    sized = [10 ** draw.uniform(-30, 30, size), draw.choice([-1, 1], size) * 10 ** draw.uniform(-30, 30, size)]
    near = [draw.uniform(0, 100, size), draw.uniform(-10, 10, size)]
    whole = [draw.uniform(-50, 50, size), draw.integers(-20, 20, size)]
    with numpy.errstate(over="ignore"):
        return [numpy.concatenate(parts).astype(kind) for parts in zip([x, y], sized, near, whole, strict=True)]


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", TWO)
def test_function_of_two(name, kind):
    reference, most = TWO[name]
    x, y = pairs(kind)
    with numpy.errstate(all="ignore"):
        expected, result = reference(x, y), run(name, x, y)
        exact = reference(x.astype(float), y.astype(float)) if most else expected.astype(float)
        apart = units(result, exact)
    if "max" not in name and "min" not in name:
        apart[(result == 0) & (expected == 0) & (numpy.signbit(result) != numpy.signbit(expected))] = 9
    worst = apart.argmax()
    assert apart[worst] <= most, (x[worst], y[worst], result[worst], expected[worst])


def whole_pairs(kind):
    draw, ends = numpy.random.default_rng(7), numpy.iinfo(kind)
    edges = numpy.array(
        [0, 1, 2, 3, 5, 7, ends.max, ends.min, ends.min + 1, *([-1, -2, -7] if ends.min else [9, 8, 77])], kind
    )
    x, y = (element.ravel() for element in numpy.meshgrid(edges, edges))
    any_size = draw.integers(ends.min, ends.max, 500, kind)
    small = draw.integers(max(ends.min, -100), 100, 500, kind)
    return numpy.concatenate([x, any_size, any_size]), numpy.concatenate([y, small, draw.permutation(any_size)])


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("name", ["fmod", "mod", "floor_divide", "gcd", "lcm", "max", "min"])
def test_whole_numbers(name, kind):
    x, y = whole_pairs(kind)
    with numpy.errstate(all="ignore"):
        expected = {"max": numpy.maximum, "min": numpy.minimum}.get(name) or getattr(numpy, name)
        numpy.testing.assert_array_equal(run(name, x, y), expected(x, y))


@pytest.mark.parametrize("kind", WHOLE)
def test_whole_powers(kind):
    x, y = whole_pairs(kind)
    y = (y % 40).astype(kind)
    with numpy.errstate(all="ignore"):
        numpy.testing.assert_array_equal(run("power", x, y), x**y)


def test_negative_whole_powers():
    base, exponent = numpy.array([1, -1, -1, 2, 0, -3]), numpy.array([-1, -1, -2, -1, -1, -1])
    assert run("power", base, exponent).tolist() == [1, -1, 1, 0, 0, 0]


@pytest.mark.parametrize("kind", [*FLOATS, "int32"])
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "signbit"])
def test_truths(name, kind):
    x = numpy.array(EDGES if kind in FLOATS else [0, 1, -1, 7], kind)
    expected = numpy.signbit(x.astype(float)) if name == "signbit" else getattr(numpy, name)(x)
    numpy.testing.assert_array_equal(run(name, x, result="bool"), expected)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "abs", "sign", "neg"])
def test_whole_numbers_of_one(name):
    x = numpy.array([0, 5, -3], "int32")
    expected = {"abs": numpy.abs, "sign": numpy.sign, "neg": numpy.negative}.get(name, lambda one: one)
    assert run(name, x).tolist() == expected(x).tolist()


WHOLE_TOO = "gcd lcm mod fmod floor_divide power max min sign abs neg round isnan".split()
TRUTHS = "isnan isinf isfinite signbit".split()
OFFLINE = """
import sys
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from dynograd.kernels.formula import math_triton
{kernels}
for kernel, kind, result in ({calls}):
    types = {{one: result if one == "y" else kind for one in kernel.arg_names}}
    triton.compile(ASTSource(kernel, types), target=GPUTarget("cuda", int(sys.argv[1]), 32), options={{"num_warps": 4}})
"""


def offline_script():
    """Compiles every function for every dtype; functions of as many operands share a kernel, and an error shows the function's line."""
    from dynograd.kernels.formula import math_triton

    groups = {}
    for name in math_triton.__all__:
        kinds = ["*fp32", "*fp64"] if name not in ("gcd", "lcm") else []
        for kind in kinds + (["*i32", "*i64", "*u8"] if name in WHOLE_TOO else []):
            count = len(getattr(math_triton, name).arg_names)
            groups.setdefault((count, kind, "*i1" if name in TRUTHS else kind), []).append(name)
    kernels, calls = "", ""
    for number, ((count, kind, result), names) in enumerate(groups.items()):
        operands = [f"x{place}" for place in range(count)]
        kernels += f"\n@triton.jit\ndef kernel{number}({', '.join(operands)}, y):\n    i = tl.arange(0, 128)\n"
        loads = ", ".join(f"tl.load({operand} + i)" for operand in operands)
        kernels += "".join(
            f"    tl.store(y + {128 * row} + i, math_triton.{name}({loads}))\n" for row, name in enumerate(names)
        )
        calls += f"(kernel{number}, {kind!r}, {result!r}), "
    return OFFLINE.format(kernels=kernels, calls=calls)


@pytest.mark.slow
@pytest.mark.parametrize("target", [80, 90, 100])
def test_functions_compile_for(target, tmp_path):
    script = tmp_path / "offline.py"
    script.write_text(offline_script())
    plain = {key: value for key, value in os.environ.items() if key not in ("DYNOGRAD_CUDA", "TRITON_INTERPRET")}
    done = subprocess.run([sys.executable, str(script), str(target)], env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
