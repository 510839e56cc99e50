"""Accuracy of the scalar functions in float32, against float64 over their whole range, in units of the last place."""

import numpy
import pytest
from scipy import special

from dynograd.kernels.elementwise.loops_cpu import Loop
from dynograd.kernels.formula.formulas import parse

POINTS = numpy.concatenate(
    [
        numpy.linspace(-20, 20, 40001),
        numpy.linspace(-1.1, 1.1, 20001),
        numpy.linspace(-110, 110, 20001),
        numpy.geomspace(1e-44, 3e38, 10001),
        -numpy.geomspace(1e-44, 3e38, 10001),
    ]
).astype(numpy.float32)
ENDS = numpy.array([0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 1.0, -1.0, 1e-45, -1e-45, 3.4e38], numpy.float32)


def computed(text, x):
    return Loop("point", ("x",), (), (parse(text),))((x,))[0]


@pytest.mark.parametrize(
    ("name", "reference", "units"),
    [
        ("exp", numpy.exp, 2),
        ("exp2", numpy.exp2, 2),
        ("expm1", numpy.expm1, 2),
        ("log", numpy.log, 1.5),
        ("log1p", numpy.log1p, 1.5),
        ("log2", numpy.log2, 1.5),
        ("log10", numpy.log10, 1),
        ("log1pexp", lambda x: numpy.logaddexp(0, x), 2.5),
        ("tanh", numpy.tanh, 5),
        ("sigmoid", special.expit, 3),
        ("erf", special.erf, 6),
        ("normal_cdf", special.ndtr, 10),
        ("erfinv", special.erfinv, 4),
    ],
)
def test_error_and_ends(name, reference, units):
    with numpy.errstate(all="ignore"):
        x = POINTS[{"normal_cdf": -3, "sigmoid": -87, "log1pexp": -87}.get(name, -numpy.inf) < POINTS]
        result, wide = computed(f"{name}(x)", x), reference(x.astype(numpy.float64))
        expected = wide.astype(numpy.float32)
        inside = numpy.isfinite(expected) & (result != expected)
        error = numpy.abs(result[inside] - wide[inside]) / numpy.spacing(numpy.abs(expected[inside]))
        assert error.max(initial=0) <= units
        numpy.testing.assert_array_equal(numpy.isnan(result), numpy.isnan(expected))
        numpy.testing.assert_array_equal(result == numpy.inf, expected == numpy.inf)
        numpy.testing.assert_array_equal(result == -numpy.inf, expected == -numpy.inf)
        expected = reference(ENDS.astype(numpy.float64)).astype(numpy.float32)
        numpy.testing.assert_allclose(computed(f"{name}(x)", ENDS), expected, rtol=1e-6)
        assert name != "sigmoid" or (computed("sigmoid(x)", -POINTS[POINTS > 88]) == 0).all()


def every_exponent():
    """All exponents of float32 with 512 fractions each, both signs, and the places between where the values bend."""
    bits = numpy.arange(0, 0x7F800000, 1 << 14, dtype=numpy.int64) + numpy.arange(0x7F800000 >> 14) % 509 * 31
    x = bits.astype(numpy.int32).view(numpy.float32)
    return numpy.concatenate([x, -x, numpy.linspace(-9, 9, 400001).astype(numpy.float32)])


def density(x):
    return numpy.exp(-0.5 * x * x) / numpy.sqrt(2 * numpy.pi)


@pytest.mark.parametrize(
    ("name", "reference", "limits"),
    [
        # (from, to, units in the last place or None, relative, absolute)
        (
            "normal_gate",
            lambda x: x * special.ndtr(x),
            [
                (0, numpy.inf, 3.2, 2.1e-7, None),
                (-1, 0, 4.6, 4.5e-7, None),
                (-2, -1, None, 2e-6, None),
                (-3, -2, None, 1e-5, None),
                (-4, -3, None, 2e-4, None),
                (-5.5, -4, None, 2e-3, None),
                (-numpy.inf, -5.5, None, None, 1.3e-10),
            ],
        ),
        (
            "normal_gate_slope",
            lambda x: special.ndtr(x) + x * density(x),
            [
                (0, numpy.inf, 2.6, 2.5e-7, None),
                (-3, 0, None, None, 1.2e-7),
                (-4, -3, None, 1e-4, None),
                (-5.5, -4, None, 1e-3, None),
                (-numpy.inf, -5.5, None, None, 1e-9),
            ],
        ),
    ],
)
def test_gates_of_every_exponent(name, reference, limits):
    x = every_exponent()
    with numpy.errstate(all="ignore"):
        result, wide = computed(f"{name}(x)", x).astype(numpy.float64), reference(x.astype(numpy.float64))
    assert numpy.isfinite(result).all()
    error = numpy.abs(result - wide)
    for least, most, units, relative, absolute in limits:
        inside = (x >= least) & (x < most) & (numpy.abs(wide) > 1.2e-38)
        assert inside.any()
        if units is not None:
            assert (error[inside] / numpy.spacing(numpy.abs(wide[inside]).astype("f4"))).max() <= units, least
        if relative is not None:
            assert (error[inside] / numpy.abs(wide[inside])).max() <= relative, least
        if absolute is not None:
            assert error[inside].max() <= absolute, least
    assert (result[x < -9] == 0).all() and (result[x > 9] == wide.astype("f4")[x > 9]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ends_of_gates(dtype):
    x = numpy.array([0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, 1e38, -1e38, 1e-45], dtype)
    with numpy.errstate(all="ignore"):
        result, slope = computed("normal_gate(x)", x), computed("normal_gate_slope(x)", x)
    numpy.testing.assert_array_equal(result[:-1], numpy.array([0, 0, numpy.inf, numpy.nan, numpy.nan, 1e38, 0], dtype))
    assert numpy.signbit(result[:2]).tolist() == [False, True]
    numpy.testing.assert_array_equal(slope, [0.5, 0.5, numpy.nan, numpy.nan, numpy.nan, 1, 0, 0.5])


def test_gates_in_float64_are_exact():
    x = numpy.linspace(-30, 30, 60001)
    numpy.testing.assert_allclose(computed("normal_gate(x)", x), x * special.ndtr(x), rtol=1e-13)
    wide = special.ndtr(x) + x * density(x)
    numpy.testing.assert_allclose(computed("normal_gate_slope(x)", x), wide, rtol=1e-12, atol=1e-16)


def test_far_below_zero_the_normal_distribution_keeps_its_digits():
    x = numpy.linspace(-12, -3, 9001).astype(numpy.float32)
    numpy.testing.assert_allclose(computed("normal_cdf(x)", x), special.ndtr(x.astype("f8")), rtol=5e-6)


def test_signs_of_zero_stay():
    for name in ("expm1", "log1p", "tanh", "erf"):
        assert numpy.signbit(computed(f"{name}(x)", ENDS[:2])).tolist() == [False, True], name


def test_logarithms_of_powers_of_two_are_whole():
    x = (2.0 ** numpy.arange(-140, 128)).astype(numpy.float32)
    numpy.testing.assert_array_equal(computed("log2(x)", x), numpy.arange(-140, 128))
    numpy.testing.assert_array_equal(computed("exp2(x)", numpy.arange(-140, 128, dtype="f4")), x)


def test_logarithms_of_powers_of_ten_are_whole():
    exponents = numpy.arange(-37, 39)
    x = numpy.array([float(f"1e{exponent}") for exponent in exponents], numpy.float32)
    numpy.testing.assert_array_equal(computed("log10(x)", x), exponents)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("max(x, y)", numpy.maximum),
        ("min(x, y)", numpy.minimum),
        ("fmax(x, y)", numpy.fmax),
        ("fmin(x, y)", numpy.fmin),
        ("hypot(x, y)", numpy.hypot),
        ("copysign(x, y)", numpy.copysign),
        ("sign(x) * 2 + sign(y)", lambda x, y: numpy.nan_to_num(numpy.sign(x)) * 2 + numpy.nan_to_num(numpy.sign(y))),
        ("round(x / 4) + floor(y)", lambda x, y: numpy.rint(x / 4) + numpy.floor(y)),
        ("x > y || isnan(x)", lambda x, y: (x > y) | numpy.isnan(x)),
        ("isinf(x) && isfinite(y)", lambda x, y: numpy.isinf(x) & numpy.isfinite(y)),
        ("!(x == y)", numpy.not_equal),
    ],
)
def test_pairs_with_nan_and_infinities(text, reference, dtype):
    some = numpy.array([0.0, -0.0, 1.5, -2.5, 6.0, 10.0, 3e38, numpy.inf, -numpy.inf, numpy.nan], dtype)
    x, y = (a.ravel() for a in numpy.meshgrid(some, some))
    with numpy.errstate(all="ignore"):
        (result,) = Loop("pair", ("x", "y"), (), (parse(text),))((x.copy(), y.copy()))
        expected = reference(x, y)
    assert result.dtype == (bool if expected.dtype == bool else dtype)
    numpy.testing.assert_allclose(result, expected, rtol=1e-6)
