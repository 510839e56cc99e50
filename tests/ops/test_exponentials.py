"""Exponentials, logarithms, roots, hyperbolic functions and the logistic function."""

import numpy
import pytest
from scipy import special

import dynograd
from dynograd import tensor
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, generate

ALL = FLOATS + INTEGERS + BOOL
TWO = [(3, 4), (3, 4)]
INF, NAN = float("inf"), float("nan")


def smooth(name, reference, domain=(-2.0, 2.0), dtypes=ALL, **options):
    def widened(x, **keywords):
        return reference(x if x.dtype.kind in "fc" else x.astype(numpy.float64), **keywords)

    return Row(name, widened, shapes=[(3, 4)], domain=domain, dtypes=dtypes, **options)


ROWS = [
    smooth("exp", numpy.exp, dtypes=ALL + COMPLEX),
    smooth("exp2", numpy.exp2),
    smooth("expm1", numpy.expm1),
    smooth("log", numpy.log, (0.4, 4), FLOATS + INTEGERS),
    smooth("log2", numpy.log2, (0.4, 4), FLOATS + INTEGERS),
    smooth("log10", numpy.log10, (0.4, 4), FLOATS + INTEGERS),
    smooth("log1p", numpy.log1p, (-0.3, 4), FLOATS),
    smooth("sqrt", numpy.sqrt, (0.3, 4)),
    smooth("rsqrt", lambda x: 1 / numpy.sqrt(x), (0.4, 4), FLOATS + INTEGERS),
    smooth("sinh", numpy.sinh, dtypes=ALL + COMPLEX),
    smooth("cosh", numpy.cosh, dtypes=ALL + COMPLEX),
    smooth("tanh", numpy.tanh, dtypes=ALL + COMPLEX),
    smooth("asinh", numpy.arcsinh),
    smooth("acosh", numpy.arccosh, (1.2, 4), FLOATS + INTEGERS),
    smooth("atanh", numpy.arctanh, (-0.8, 0.8), FLOATS),
    smooth("sigmoid", special.expit, (-9, 9)),
    smooth("logit", special.logit, (0.1, 0.9), FLOATS, covers=["log_odds"]),
    smooth(
        "logit",
        lambda x, eps: special.logit(numpy.clip(x, eps, 1 - eps)),
        (-0.4, 1.4),
        FLOATS,
        kwargs={"eps": 0.2},
        avoid=[0.2, 0.8],
        id="eps",
    ),
    Row("logaddexp", numpy.logaddexp, shapes=TWO, broadcast=True),
    Row("logaddexp2", numpy.logaddexp2, shapes=TWO, broadcast=True),
    Row("xlogy", special.xlogy, shapes=TWO, domain=(0.4, 3), broadcast=True),
]
test_rows = generate(ROWS)


def test_sigmoid_and_its_gradient_do_not_overflow():
    for kind in (dynograd.float32, dynograd.float64):
        x = tensor([-1000.0, -100.0, 0.0, 100.0, 1000.0], dtype=kind, requires_grad=True)
        y = x.sigmoid()
        numpy.testing.assert_allclose(y.detach().array, [0, special.expit(-100.0), 0.5, 1, 1], atol=1e-37)
        y.sum().backward()
        numpy.testing.assert_allclose(x.grad.array, [0, 0, 0.25, 0, 0], atol=1e-37)


def test_logaddexp_of_impossible_and_certain():
    x, y = tensor([-INF, 0.0, INF, 1000.0]), tensor([-INF, -INF, INF, 1000.0])
    assert dynograd.logaddexp(x, y)[:3].tolist() == [-INF, 0.0, INF]
    numpy.testing.assert_allclose(dynograd.logaddexp(x, y).array[3], 1000 + numpy.log(2), rtol=1e-6)


def test_xlogy_is_zero_for_zero_and_nan_for_nan():
    x = tensor([0.0, 0.0, 0.0], requires_grad=True)
    result = dynograd.xlogy(x, tensor([0.0, NAN, -1.0]))
    assert result[0].item() == 0.0 and result.isnan().tolist() == [False, True, False]


def test_logit_at_and_beyond_its_domain():
    assert dynograd.logit(tensor([0.0, 1.0])).tolist() == [-INF, INF]
    x = tensor([-1.0, 2.0], requires_grad=True)
    dynograd.logit(x).sum().backward()
    assert x.grad.isnan().all()


def test_log_of_zero_and_below():
    assert dynograd.log(tensor([0.0])).item() == -INF and dynograd.log(tensor([-1.0])).isnan().all()
    assert dynograd.rsqrt(tensor([0.0])).item() == INF


def test_integers_become_the_default_dtype():
    dynograd.set_default_dtype(dynograd.float64)
    assert dynograd.exp(tensor([1, 2])).dtype is dynograd.float64


def test_logaddexp_of_complex_numbers_large_and_impossible():
    x, y = dynograd.tensor([1000 + 1j, -1000 - 2j, 0.5 + 3j]), dynograd.tensor([1 + 2j, -1001 + 1j, 0.25 - 1j])
    expected = numpy.array(
        [1000 + 1j, -1000 - 2j + numpy.log1p(numpy.exp(-1 + 3j)), numpy.log(numpy.exp(0.5 + 3j) + numpy.exp(0.25 - 1j))]
    )
    for result in (dynograd.logaddexp(x, y).numpy(), dynograd.logaddexp(y, x).numpy()):
        turns = numpy.round((result - expected).imag / (2 * numpy.pi))  # a logarithm is one of many
        numpy.testing.assert_allclose(result - 2j * numpy.pi * turns, expected, rtol=1e-5)
    nothing = dynograd.tensor([complex(-INF, 0)])
    assert dynograd.logaddexp(nothing, nothing).real.item() == -INF


@pytest.mark.parametrize(
    "one, other, expected",
    [
        (complex(-INF, 0), complex(3, NAN), complex(NAN, NAN)),
        (complex(-INF, 0), complex(NAN, 2), complex(NAN, NAN)),
        (complex(INF, 0), complex(3, NAN), complex(NAN, NAN)),
        (complex(INF, 0), complex(INF, 1), complex(INF, numpy.pi / 4)),
        (complex(INF, 1), complex(INF, 1), complex(INF, numpy.pi / 4)),
        (complex(INF, 1), complex(INF, 3), complex(INF, NAN)),
        (complex(INF, 0), complex(2, 1), complex(INF, 0)),
    ],
)
def test_logaddexp_of_complex_numbers_without_end(one, other, expected):
    for x, y in ((one, other), (other, one)):
        got = dynograd.logaddexp(dynograd.tensor([x]), dynograd.tensor([y])).numpy()
        numpy.testing.assert_allclose([got.real[0], got.imag[0]], [expected.real, expected.imag], rtol=1e-6)


@pytest.mark.parametrize("kind, least, most", [(numpy.complex64, 1e-30, 1e30), (numpy.complex128, 1e-250, 1e250)])
def test_log1p_of_small_and_large_complex_numbers(kind, least, most):
    cases = {
        complex(least, 2 * least): complex(least, 2 * least),
        1e-5 + 1e-5j: 1e-5 + 9.9999e-6j,
        1e-18 + 0.1j: 0.00497516542658 + 0.0996686524912j,
        -0.5 + 1e-9j: numpy.log(0.5) + 2e-9j,
        2 + 1j: numpy.log(3 + 1j),
        complex(-1, most): numpy.log(most) + numpy.pi / 2 * 1j,
        complex(most, most): numpy.log(most) + numpy.log(2) / 2 + numpy.pi / 4 * 1j,
    }
    got = dynograd.log1p(dynograd.tensor(numpy.array(list(cases), kind))).numpy()
    expected = numpy.array(list(cases.values()))
    numpy.testing.assert_allclose(got.real, expected.real, rtol=1e-5)
    numpy.testing.assert_allclose(got.imag, expected.imag, rtol=1e-5)


def test_sigmoid_of_large_complex_numbers():
    x = dynograd.tensor([1000 + 1j, -1000 + 1j, 0.5 - 2j], requires_grad=True)
    y = x.sigmoid()
    numpy.testing.assert_allclose(y.detach().numpy(), [1, 0, 1 / (1 + numpy.exp(-0.5 + 2j))], rtol=1e-6, atol=1e-30)
    y.abs().sum().backward()
    assert x.grad.isfinite().all()
