"""Dtypes that an op has no meaning for: the message names the op, the dtypes and the way out."""

import pytest

import dynograd

ones, tensor = dynograd.ones, dynograd.tensor
Z = tensor([1 + 2j, 3 - 1j])
X, D, B, L = ones(2, 2), ones(2, 2).double(), ones(2, 2).bool(), ones(2, 2).long()
P = ones(1, 2, 2)

ORDER = [
    *[(name, lambda name=name: getattr(dynograd, name)(Z, Z)) for name in "lt le gt ge maximum minimum fmax fmin".split()],
    *[(name, lambda name=name: getattr(dynograd, name)(Z)) for name in "max min sort argsort msort median nanmedian mode".split()],
    *[(name, lambda name=name: getattr(dynograd, name)(Z, 0)) for name in "max min cummax cummin median mode".split()],
    ("clamp", lambda: Z.clamp(Z, Z)),
    ("topk", lambda: Z.topk(1)),
    ("kthvalue", lambda: Z.kthvalue(1)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "call"), [pytest.param(*row, id=f"{row[0]}-{place}") for place, row in enumerate(ORDER)]
)
def test_complex_numbers_have_no_order(name, call):
    with pytest.raises(RuntimeError, match=f"{'sort' if name == 'msort' else name}.*complex.*order.*abs"):
        call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dynograd.addmm(D, X, X), "addmm: operands must have the same dtype, but got input dynograd.float64, mat1 dynograd.float32"),
        (lambda: dynograd.addmv(D[0], X, X[0]), "addmv: operands must have the same dtype.*vec dynograd.float32"),
        (lambda: dynograd.baddbmm(P.double(), P, P), "baddbmm: operands must have the same dtype"),
        (lambda: dynograd.addbmm(D, P, P), "addbmm: operands must have the same dtype"),
        (lambda: dynograd.cross(ones(3), ones(3).long()), "cross: operands must have the same dtype.*float32.*int64"),
        (lambda: dynograd.cdist(X, D), "cdist: x1 and x2 must have one floating dtype, got dynograd.float32 and dynograd.float64"),
        (lambda: dynograd.cdist(L, L), "cdist: .*int64"),
        (lambda: X - B, "sub: .*bool.*logical_not.*int"),
        (lambda: 1 - B, "sub: .*bool.*logical_not.*int"),
        (lambda: B - B, "sub: .*bool.*logical_xor"),
        (lambda: -B, "neg: .*bool.*logical_not"),
        (lambda: Z.softmax(0), "softmax: not implemented for dynograd.complex64"),
        (lambda: dynograd.linspace(Z[0], 2, 3, dtype=dynograd.float32), "linspace: start of dynograd.complex64 can't be safely cast to dynograd.float32"),
        (lambda: dynograd.linspace(X, 2, 3), r"linspace: start must be a number or a 0-d tensor, got shape \(2, 2\)"),
        (lambda: L.exponential_(), "exponential_.*int64"),
        (lambda: dynograd.zeros(2, dtype=dynograd.float32, out=D[0]), r"dtype dynograd.float32 does not match dtype of out parameter \(dynograd.float64\)"),
    ],
)  # fmt: skip
def test_dtypes_that_do_not_fit(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


NUMBERS = [
    ("arange", "end", lambda: dynograd.arange("x")),
    ("arange", "step", lambda: dynograd.arange(0, 2, "x")),
    ("linspace", "end", lambda: dynograd.linspace(0, "x", 2)),
    ("linspace", "steps", lambda: dynograd.linspace(0, 1, "x")),
    ("logspace", "base", lambda: dynograd.logspace(0, 1, 2, "x")),
    ("uniform_", "from", lambda: ones(2).uniform_("x", 2)),
    ("uniform_", "to", lambda: ones(2).uniform_(0, "x")),
    ("normal_", "mean", lambda: ones(2).normal_("x")),
    ("normal_", "std", lambda: ones(2).normal_(0, "x")),
    ("exponential_", "lambd", lambda: ones(2).exponential_("x")),
    ("cauchy_", "sigma", lambda: ones(2).cauchy_(0, "x")),
    ("geometric_", "p", lambda: ones(2).geometric_("x")),
    ("log_normal_", "std", lambda: ones(2).log_normal_(0, "x")),
]


@pytest.mark.parametrize(("name", "argument", "call"), NUMBERS)
def test_numbers_that_are_none(name, argument, call):
    with pytest.raises(TypeError, match=rf"{name}\(\): argument '{argument}' must be a number, not str \('x'\)"):
        call()
