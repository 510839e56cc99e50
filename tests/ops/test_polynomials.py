"""Orthogonal polynomials against SciPy's."""

import numpy
import pytest
from scipy import special

import dynograd
from dynograd import tensor
from dynograd.ops.op import registry
from tests.ops.harness import FLOATS, Row, generate


def of(evaluate, shifted=False):
    """SciPy's polynomial of a whole degree and a place, in our order; degrees below 0 give 0."""

    def reference(x, n):
        x, n = numpy.asarray(x, float), numpy.asarray(n).astype(int)
        result = evaluate(numpy.maximum(n, 0), 2 * x - 1 if shifted else x)
        return numpy.where(n < 0, 0.0, result)

    return reference


def of_three(evaluate):
    return lambda x, n, alpha: of(lambda degree, place: evaluate(degree.astype(float), float(alpha), place))(x, n)


def third(n, x):
    """V(n) = (T(n) + T(n + 1)) / (1 + x) would divide by 0: by U instead."""
    return special.eval_chebyu(n, x) - numpy.where(n > 0, special.eval_chebyu(numpy.maximum(n - 1, 0), x), 0.0)


def fourth(n, x):
    return special.eval_chebyu(n, x) + numpy.where(n > 0, special.eval_chebyu(numpy.maximum(n - 1, 0), x), 0.0)


KINDS = {
    "chebyshev_polynomial_t": of(special.eval_chebyt),
    "chebyshev_polynomial_u": of(special.eval_chebyu),
    "chebyshev_polynomial_v": of(third),
    "chebyshev_polynomial_w": of(fourth),
    "shifted_chebyshev_polynomial_t": of(special.eval_chebyt, True),
    "shifted_chebyshev_polynomial_u": of(special.eval_chebyu, True),
    "shifted_chebyshev_polynomial_v": of(third, True),
    "shifted_chebyshev_polynomial_w": of(fourth, True),
    "hermite_polynomial_h": of(special.eval_hermite),
    "hermite_polynomial_he": of(special.eval_hermitenorm),
    "laguerre_polynomial_l": of(special.eval_laguerre),
    "legendre_polynomial_p": of(special.eval_legendre),
}
ROWS = [
    Row(
        f"special.{name}",
        reference,
        args=lambda rng: [rng.uniform(-1.5, 1.5, (3, 4)), rng.integers(-1, 9, (3, 4))],
        dtypes=FLOATS,
        tolerance=50,
        covers=[f"special_{name}"],
    )
    for name, reference in KINDS.items()
] + [
    Row(
        f"special_{name}",
        reference,
        args=lambda rng: [rng.uniform(-1.5, 1.5, (3, 4)), rng.integers(-1, 9, (3, 4)), 1.5],
        dtypes=FLOATS,
        tolerance=50,
        function=registry[f"special_{name}"].function,
    )
    for name, reference in [
        ("gegenbauer_polynomial", of_three(special.eval_gegenbauer)),
        ("generalized_laguerre_polynomial", of_three(special.eval_genlaguerre)),
    ]
]
test_rows = generate(ROWS)


@pytest.mark.parametrize("name", KINDS)
def test_degree_as_a_number(name):
    function = getattr(dynograd.special, name)
    x = numpy.linspace(-0.9, 0.9, 5)
    for degree in (-2, 0, 1, 2, 7, 40):
        numpy.testing.assert_allclose(
            function(tensor(x), degree).array, KINDS[name](x, numpy.full(5, degree)), rtol=1e-9, atol=1e-11
        )
    assert function(tensor([1, 2]), 3).dtype is dynograd.float32
    assert function(tensor([0.5]), -0.5).tolist() == [1.0]
    assert function(tensor([0.5]), 2.9).tolist() == function(tensor([0.5]), 2).tolist()
