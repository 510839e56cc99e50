"""The error function, the gamma function, and their relatives, against SciPy."""

import numpy
import pytest
from scipy import special

import dynograd
from dynograd import tensor
from tests.ops.harness import FLOATS, Row, error, generate

INF, NAN = float("inf"), float("nan")


def smooth(name, reference, domain=(-2.0, 2.0), **options):
    return Row(name, reference, shapes=[(3, 4)], domain=domain, dtypes=FLOATS, **options)


ROWS = [
    smooth("erf", special.erf),
    smooth("erfc", special.erfc),
    smooth("erfinv", special.erfinv, (-0.9, 0.9)),
    smooth("special.erfcx", special.erfcx, (-2, 3), covers=["special_erfcx"], tolerance=5),
    smooth("special.ndtr", special.ndtr, (-3, 3), covers=["special_ndtr"], tolerance=5),
    smooth("special.ndtri", special.ndtri, (0.15, 0.85), covers=["special_ndtri"], tolerance=5),
    smooth("special.ndtri", special.ndtri, (0.01, 0.09), gradient_tolerance=(1e-3, 1e-3), tolerance=5, id="tail"),
    smooth("special.log_ndtr", special.log_ndtr, (-9, 3), covers=["special_log_ndtr"], tolerance=5),
    smooth("special.entr", special.entr, (0.1, 4), covers=["special_entr"]),
    Row(
        "special.xlog1py",
        special.xlog1py,
        shapes=[(3, 4), (3, 4)],
        domain=[(0.5, 2), (-0.7, 3)],
        broadcast=True,
        dtypes=FLOATS,
        covers=["special_xlog1py"],
    ),
    Row(
        "special.zeta",
        special.zeta,
        shapes=[(3, 4), (3, 4)],
        domain=[(1.5, 9), (0.3, 20)],
        broadcast=True,
        dtypes=FLOATS,
        grad=[False, True],
        tolerance=200,
        covers=["special_zeta"],
    ),
    *[
        Row(
            name,
            reference,
            shapes=[(3, 4), (3, 4)],
            domain=[domain, domain],
            broadcast=True,
            dtypes=FLOATS,
            grad=[False, True],
            tolerance=100,
            id=title,
        )
        for name, reference in (("igamma", special.gammainc), ("igammac", special.gammaincc))
        for domain, title in (((0.2, 3), None), ((20, 40), "large"))
    ],
    smooth("lgamma", special.gammaln, (0.3, 5)),
    smooth(
        "lgamma",
        special.gammaln,
        (-3, 3),
        avoid=[-3.0, -2.0, -1.0, 0.0],
        gradient_tolerance=(1e-3, 1e-4),
        id="negative",
    ),
    smooth("digamma", special.digamma, (0.3, 5), tolerance=20),
    smooth(
        "mvlgamma",
        lambda x, p: (
            special.multigammaln(x, p)
            if not x.shape
            else numpy.vectorize(lambda one: special.multigammaln(one, p))(x)
            if x.size
            else x
        ),
        (1.2, 5),
        kwargs={"p": 3},
        errors=[
            error(lambda op: op(tensor([3.0]), 0), RuntimeError, "mvlgamma", "at least 1", "0"),
            error(lambda op: op(tensor([3.0]), 10**10), RuntimeError, "mvlgamma", "p=10000000000", "(1,)", "in parts"),
        ],
    ),
    smooth(
        "mvlgamma",
        lambda x, p: (
            special.multigammaln(x, p) if not x.shape else numpy.vectorize(special.multigammaln)(x, p) if x.size else x
        ),
        (12, 20),
        kwargs={"p": 20},
        tolerance=20,
        id="many",
    ),
    *[
        Row(
            "polygamma",
            lambda n, x: special.polygamma(n, x),
            args=lambda rng, n=order: [n, rng.uniform(0.5, 4, (3, 4))],
            method=False,
            tolerance=20,
            id=f"order {order}",
            errors=[error(lambda op: op(-1, tensor([1.0])), RuntimeError, "polygamma", "-1")],
        )
        for order in (0, 1, 2, 3)
    ],
]
test_rows = generate(ROWS)


def test_special_values():
    assert dynograd.erf(tensor([INF, -INF])).tolist() == [1.0, -1.0]
    assert dynograd.erfinv(tensor([-1.0, 1.0])).tolist() == [-INF, INF] and dynograd.erfinv(tensor([1.1])).isnan().all()
    assert dynograd.lgamma(tensor([0.0, -1.0, -INF, INF])).tolist() == [INF] * 4
    assert dynograd.digamma(tensor([0.0, -0.0, INF])).tolist() == [-INF, INF, INF]
    assert dynograd.digamma(tensor([-1.0, -INF, NAN])).isnan().all()
    assert dynograd.polygamma(1, tensor([0.0, -1.0, INF])).tolist() == [INF, INF, 0.0]
    for name in ("erf", "erfc", "erfinv", "lgamma", "digamma"):
        assert getattr(dynograd, name)(tensor([NAN])).isnan().all()


def test_third_derivative_of_lgamma():
    x = tensor([1.5], dtype=dynograd.float64, requires_grad=True)
    result = x.lgamma()
    for _ in range(3):
        (result,) = dynograd.autograd.grad(result, x, create_graph=True)
    numpy.testing.assert_allclose(result.detach().array, special.polygamma(2, [1.5]), rtol=1e-12)


ENDS = [
    ("erfcx", [(INF, 0.0), (-INF, INF), (-30.0, INF), (0.0, 1.0)]),
    ("ndtr", [(INF, 1.0), (-INF, 0.0)]),
    ("ndtri", [(0.0, -INF), (1.0, INF), (-0.1, NAN), (1.1, NAN), (0.5, 0.0)]),
    ("log_ndtr", [(-INF, -INF), (INF, 0.0)]),
    ("entr", [(0.0, 0.0), (-1.0, -INF), (INF, -INF)]),
]


@pytest.mark.parametrize("kind", [dynograd.float32, dynograd.float64], ids=str)
@pytest.mark.parametrize(("name", "pairs"), ENDS, ids=[end[0] for end in ENDS])
def test_at_the_ends(name, pairs, kind):
    result = getattr(dynograd.special, name)(tensor([place for place, _ in pairs] + [NAN], dtype=kind))
    numpy.testing.assert_array_equal(result.array, [value for _, value in pairs] + [NAN])


PAIRS = {
    "igamma": [(0.0, 1.0, 1.0), (1.0, 0.0, 0.0), (1.0, INF, 1.0), (INF, 1.0, 0.0), (-1.0, 1.0, NAN), (1.0, -1.0, NAN)],
    "igammac": [(0.0, 1.0, 0.0), (1.0, 0.0, 1.0), (1.0, INF, 0.0), (INF, 1.0, 1.0), (-1.0, 1.0, NAN), (0.0, 0.0, NAN)],
    "special_zeta": [(1.0, 2.0, INF), (0.5, 2.0, NAN), (2.0, 0.0, INF), (2.0, -3.0, INF), (2.5, -0.5, NAN)],
    "special_xlog1py": [(0.0, -2.0, 0.0), (0.0, NAN, NAN), (0.0, INF, 0.0), (1.0, -1.0, -INF)],
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_arguments_at_the_ends(name):
    element, two, expected = (tensor(list(part), dtype=dynograd.float64) for part in zip(*PAIRS[name], strict=True))
    numpy.testing.assert_array_equal(getattr(dynograd, name)(element, two).array, expected.array)


WIDE = {
    "erfcx": (special.erfcx, (-5, 50)),
    "ndtri": (special.ndtri, (1e-9, 1)),
    "log_ndtr": (special.log_ndtr, (-60, 2)),
    "zeta": (special.zeta, (1.1, 60), (0.2, 60)),
    "gammainc": (special.gammainc, (0.05, 12), (0.5, 20)),
    "gammaincc": (special.gammaincc, (0.05, 12), (1e-3, 20)),
}


@pytest.mark.parametrize("name", WIDE)
def test_relative_errors_of_thousands_of_places(name):
    """SciPy's own errors count too; far apart ranges of the incomplete gamma functions meet its 1e-12."""
    reference, *domains = WIDE[name]
    places = [numpy.random.default_rng(0).uniform(*domain, 4000) for domain in domains]
    result = getattr(dynograd.special, name)(*[tensor(place) for place in places]).array
    numpy.testing.assert_allclose(result, reference(*places), rtol=5e-13)


def test_incomplete_gamma_of_large_arguments():
    a = numpy.random.default_rng(0).uniform(1000, 1e5, 2000)
    x = a + numpy.random.default_rng(1).normal(size=2000) * 3 * numpy.sqrt(a)
    numpy.testing.assert_allclose(dynograd.igamma(tensor(a), tensor(x)).array, special.gammainc(a, x), rtol=1e-12)
    numpy.testing.assert_allclose(dynograd.igammac(tensor(a), tensor(x)).array, special.gammaincc(a, x), rtol=1e-12)


def test_far_tails():
    x = tensor([-1e-300, 1e-300, 5e-324], dtype=dynograd.float64)
    numpy.testing.assert_allclose(dynograd.special.ndtri(x).array[1:], special.ndtri([1e-300, 5e-324]), rtol=1e-13)
    low = tensor([-1e3, -38.0], dtype=dynograd.float64, requires_grad=True)
    dynograd.special.log_ndtr(low).sum().backward()
    numpy.testing.assert_allclose(low.grad.array, [1e3, 38.0262], rtol=1e-5)


def test_names_of_special():
    import dynograd.special as module

    for name in module.__all__:
        assert callable(getattr(module, name))
    assert module.gammaln(tensor([5.0])).tolist() == dynograd.lgamma(tensor([5.0])).tolist()
