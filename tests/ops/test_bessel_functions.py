"""Bessel functions and Airy's, against SciPy; far and near, at 0 and at infinity."""

import numpy
import pytest
from scipy import special

import dynograd
from dynograd import tensor
from dynograd.ops.op import registry
from tests.ops.harness import FLOATS, Row, generate

INF, NAN = float("inf"), float("nan")


def row(name, reference, *domains, tolerance=5, **options):
    """One row for each range on which another formula computes; `tolerance` is that of the first one."""
    inner = name.replace("special.", "special_")
    return [
        Row(
            name,
            reference,
            shapes=[(3, 4)],
            domain=domain,
            dtypes=FLOATS,
            covers=[inner] if inner != name else [],
            gradient_tolerance=(1e-4, 1e-5),
            id=f"{domain[0]} to {domain[1]}" if number else None,
            tolerance=5 if number else tolerance,
            **options,
        )
        for number, domain in enumerate(domains)
    ]


AIRY = (-9, -4), (-4, -2), (-2, 0), (0, 2), (2, 9)
ROWS = [
    *row("i0", special.i0, (-6, 6), (8.5, 12)),
    *row("special.i0e", special.i0e, (-6, 6), (9, 40), avoid=[0.0]),
    *row("special.i1", special.i1, (-6, 6), (8.5, 12), avoid=[0.0]),
    *row("special.i1e", special.i1e, (-6, 6), (9, 40), avoid=[0.0]),
    *row("special.modified_bessel_i0", special.i0, (-6, 6)),
    *row("special.modified_bessel_i1", special.i1, (0.5, 6)),
    *row("special.modified_bessel_k0", special.k0, (0.2, 1.9), (2.1, 9)),
    *row("special.modified_bessel_k1", special.k1, (0.2, 1.9), (2.1, 9)),
    *row("special.scaled_modified_bessel_k0", special.k0e, (0.2, 1.9), (2.1, 9)),
    *row("special.scaled_modified_bessel_k1", special.k1e, (0.2, 1.9), (2.1, 9)),
    *row("special.bessel_j0", special.j0, (-7, 7), (8.5, 20)),
    *row("special.bessel_j1", special.j1, (-7, 7), (8.5, 20), avoid=[0.0]),
    *row("special.bessel_y0", special.y0, (0.2, 7), (8.5, 20)),
    *row("special.bessel_y1", special.y1, (0.2, 7), (8.5, 20)),
    *row("special.spherical_bessel_j0", lambda x: special.spherical_jn(0, x), (-2.4, 2.4), (2.5, 9)),
    *row(
        "spherical_bessel_quotient",
        lambda x, n: special.spherical_jn(n, x) / x**n,
        (0.5, 4.2),
        (4.3, 9),
        kwargs={"n": 3},
        function=registry["spherical_bessel_quotient"].function,
    ),
    *row("special.airy_ai", lambda x: special.airy(x)[0], *AIRY, tolerance=50),
    *row(
        "airy_ai_slope", lambda x: special.airy(x)[1], *AIRY, tolerance=50, function=registry["airy_ai_slope"].function
    ),
]
test_rows = generate(ROWS)


ENDS = [
    ("i0", [0.0, INF, -INF], [1.0, INF, INF]),
    ("i1", [0.0, INF, -INF], [0.0, INF, -INF]),
    ("i0e", [0.0, INF, -INF], [1.0, 0.0, 0.0]),
    ("i1e", [0.0, INF], [0.0, 0.0]),
    ("modified_bessel_k0", [0.0, INF, -1.0], [INF, 0.0, NAN]),
    ("modified_bessel_k1", [0.0, INF, -1.0], [INF, 0.0, NAN]),
    ("scaled_modified_bessel_k0", [0.0, INF, -1.0], [INF, 0.0, NAN]),
    ("scaled_modified_bessel_k1", [0.0, INF, -1.0], [INF, 0.0, NAN]),
    ("bessel_j0", [0.0], [1.0]),
    ("bessel_j1", [0.0], [0.0]),
    ("bessel_y0", [0.0, -1.0, -9.0], [-INF, NAN, NAN]),
    ("bessel_y1", [0.0, -1.0, -9.0], [-INF, NAN, NAN]),
    ("spherical_bessel_j0", [0.0, INF, -INF], [1.0, 0.0, 0.0]),
    ("airy_ai", [INF, 200.0], [0.0, 0.0]),
]


@pytest.mark.parametrize("kind", [dynograd.float32, dynograd.float64], ids=str)
@pytest.mark.parametrize(("name", "places", "values"), ENDS, ids=[end[0] for end in ENDS])
def test_at_the_ends(name, places, values, kind):
    function = getattr(dynograd.special, name)
    result = function(tensor([*places, NAN], dtype=kind))
    numpy.testing.assert_array_equal(result.array, [*values, NAN])


WIDE = {
    "i0": (special.i0, -300, 300, 8),
    "i0e": (special.i0e, -1e6, 1e6, 8),
    "i1": (special.i1, -300, 300, 20),
    "i1e": (special.i1e, -30, 30, 20),
    "modified_bessel_k0": (special.k0, 1e-6, 30, 16),
    "modified_bessel_k1": (special.k1, 1e-6, 30, 16),
    "scaled_modified_bessel_k0": (special.k0e, 1e-6, 300, 16),
    "scaled_modified_bessel_k1": (special.k1e, 1e-6, 300, 16),
}


@pytest.mark.parametrize("name", WIDE)
def test_relative_errors_of_thousands_of_places(name):
    """In units of float64's epsilon; SciPy's own errors count too."""
    reference, low, high, limit = WIDE[name]
    x = numpy.random.default_rng(0).uniform(low, high, 5000)
    result = getattr(dynograd.special, name)(tensor(x)).array
    assert (numpy.abs(result / reference(x) - 1) / 2.3e-16).max() < limit


@pytest.mark.parametrize("name", ["bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"])
def test_waves_are_exact_in_units_of_their_height(name):
    x = numpy.random.default_rng(0).uniform(0.5, 40, 5000)
    result = getattr(dynograd.special, name)(tensor(x)).array
    assert numpy.abs(result - getattr(special, name[-2:])(x)).max() < 3e-15


def test_gradients_at_zero():
    for name, value in (("i0", 0.0), ("i1", 0.5), ("i1e", 0.5), ("bessel_j0", 0.0), ("bessel_j1", 0.5)):
        x = tensor([0.0], requires_grad=True)
        getattr(dynograd.special, name)(x).backward()
        assert x.grad.tolist() == [value], name
