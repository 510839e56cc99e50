"""The error function, the gamma function, and their relatives, against SciPy."""

import numpy
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
        errors=[error(lambda op: op(tensor([3.0]), 0), RuntimeError, "mvlgamma", "at least 1", "0")],
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
    found = x.lgamma()
    for _ in range(3):
        (found,) = dynograd.autograd.grad(found, x, create_graph=True)
    numpy.testing.assert_allclose(found.detach().array, special.polygamma(2, [1.5]), rtol=1e-12)
