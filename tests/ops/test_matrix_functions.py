"""Exponentials of matrices, Vandermonde matrices, reflections, chains and systems of tensors."""

import numpy
import pytest
import scipy.linalg

import dynograd
from tests.ops.harness import Row, error, generate
from tests.ops.matrices import COARSE, DOUBLES, NUMBERS, in_parts, of_parts, regular

linalg, tensor, zeros, eye = dynograd.linalg, dynograd.tensor, dynograd.zeros, dynograd.eye


def bad(call, kind, *words):
    return error(lambda op: call(), kind, *words)


def row(name, reference, **options):
    return Row(
        name, reference, **{"dtypes": DOUBLES, "tolerance": COARSE, "method": False, "domain": regular} | options
    )


def exponential(x):
    return scipy.linalg.expm(x) if x.size else x


def reflections(x, tau):
    result = numpy.eye(*x.shape)
    for place in reversed(range(len(tau))):
        v = numpy.where(numpy.arange(len(x)) < place, 0, x[:, place])
        v[place] = 1
        result = result - tau[place] * numpy.outer(v, v @ result)
    return result


def np_ormqr(a, tau, other, left, turned):
    """By the whole of Q."""
    if a.ndim > 2:
        return numpy.stack([np_ormqr(*element, left, turned) for element in zip(a, tau, other, strict=True)])
    q = numpy.eye(len(a))
    for place, factor in enumerate(tau):
        vector = numpy.concatenate([numpy.zeros(place), [1], a[place + 1 :, place]])
        q = q @ (numpy.eye(len(a)) - factor * numpy.outer(vector, vector))
    q = q.T if turned else q
    return q @ other if left else other @ q


ROWS = [
    row("matrix_exp", exponential, shapes=[(2, 3, 3)], dtypes=NUMBERS, method="matrix_exp", errors=[
        bad(lambda: dynograd.matrix_exp(zeros(2, 3)), RuntimeError, "linalg.matrix_exp: A must be batches of square matrices, but they are 2 by 3 matrices"),
    ]),
    row("matrix_exp", of_parts(exponential), function=in_parts(dynograd.matrix_exp), shapes=[(2, 2, 2), (2, 2, 2)], empty=False, id="complex", gradient_tolerance=(1e-3, 1e-5)),
    row("linalg_vander", lambda x: numpy.stack([numpy.vander(element, increasing=True) for element in x]), shapes=[(2, 3)], ones=False, empty=False, dtypes=(*DOUBLES, "int64"), result="same", domain=(-2, 2), errors=[
        bad(lambda: linalg.vander(tensor(1.0)), RuntimeError, "N must be greater than 1"),
        bad(lambda: linalg.vander(zeros(3), N=1), RuntimeError, "N must be greater than 1", "N=1"),
    ]),
    row("linalg_vander", lambda x, N: numpy.vander(x, N, increasing=True), shapes=[(3,)], kwargs={"N": 5}, empty=False, id="N"),
    row("vander", lambda x: numpy.vander(x), shapes=[(3,)], empty=False, domain=(-2, 2), errors=[
        bad(lambda: dynograd.vander(zeros(2, 2)), RuntimeError, "one-dimensional", "(2, 2)"),
        bad(lambda: dynograd.vander(zeros(2), N=-1), RuntimeError, "N must be non-negative", "-1"),
    ]),
    row("vander", lambda x, N, increasing: numpy.vander(x, N, increasing), shapes=[(3,)], kwargs={"N": 2, "increasing": True}, empty=False, id="increasing"),
    row("linalg_multi_dot", lambda xs: numpy.linalg.multi_dot(xs), shapes=[[(2, 3), (3, 4), (4, 2)]], ones=False, errors=[
        bad(lambda: linalg.multi_dot([eye(2)]), RuntimeError, "expected at least 2 tensors but got 1"),
    ]),
    row("linalg_multi_dot", lambda xs: numpy.linalg.multi_dot(xs), shapes=[[(3,), (3, 4), (4,)]], domain=(-2, 2), ones=False, id="vectors"),
    row("linalg_householder_product", reflections, shapes=[(4, 3), (2,)], domain=(-1, 1), ones=False, errors=[
        bad(lambda: linalg.householder_product(zeros(2, 3), zeros(1)), RuntimeError, "linalg.householder_product", "(2, 3)"),
        bad(lambda: linalg.householder_product(zeros(3, 2), zeros(3)), RuntimeError, "linalg.householder_product", "2 and 3"),
    ]),
    row("orgqr", reflections, shapes=[(4, 3), (3,)], domain=(-1, 1), ones=False),
    *[
        row("ormqr", lambda a, t, c, left=left, turned=turned: np_ormqr(a, t, c, left, turned), method=False, ones=False, empty=False,
            function=lambda a, t, c, left=left, turned=turned: dynograd.ormqr(a, t, c, left, turned),
            shapes=[(2, 4, 3), (2, 3), (2, 4, 5) if left else (2, 5, 4)], domain=(-1, 1), id=f"left={left} transpose={turned}", errors=[
                bad(lambda: dynograd.ormqr(zeros(3, 2), zeros(2), zeros(2, 2)), RuntimeError, "ormqr", "(2, 2)", "(3, 2)"),
                bad(lambda: dynograd.ormqr(zeros(3, 2), zeros(1), zeros(3, 3)), RuntimeError, "tau.shape[-1]", "(1,)"),
                bad(lambda: dynograd.ormqr(zeros(3), zeros(1), zeros(3, 3)), RuntimeError, "at least 2 dimensions"),
            ])
        for left in (True, False) for turned in (False, True)
    ],
    row("linalg_matrix_power", numpy.linalg.matrix_power, args=lambda rng: [regular(rng, (2, 3, 3)), -2]),
    row("linalg_cross", numpy.cross, shapes=[(2, 3), (2, 3)], ones=False, empty=False, errors=[
        bad(lambda: linalg.cross(zeros(2, 3), zeros(2, 3), dim=0), RuntimeError, "must have length 3"),
    ]),
    row("linalg_diagonal", lambda x: numpy.diagonal(x, 0, -2, -1), shapes=[(2, 3, 4)]),
    row("linalg_matmul", numpy.matmul, shapes=[(2, 3), (3, 2)], ones=False),
    row("linalg_tensorinv", lambda x, ind: numpy.linalg.tensorinv(x, ind), args=lambda rng: [rng.normal(size=(2, 3, 6)), 2], gradient_tolerance=(1e-3, 1e-5), errors=[
        bad(lambda: linalg.tensorinv(zeros(2, 2), 0), RuntimeError, "Expected a strictly positive integer for 'ind', got 0"),
        bad(lambda: linalg.tensorinv(zeros(2, 3), 1), RuntimeError, "linalg.tensorinv", "3 != 2"),
    ]),
    row("linalg_tensorsolve", numpy.linalg.tensorsolve, args=lambda rng: [rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 3))], gradient_tolerance=(1e-3, 1e-5), errors=[
        bad(lambda: linalg.tensorsolve(zeros(2, 3), zeros(2)), RuntimeError, "linalg.tensorsolve", "3 != 2"),
    ]),
    row("linalg_tensorsolve", lambda a, b, dims: numpy.linalg.tensorsolve(a, b, dims), args=lambda rng: [rng.normal(size=(6, 2, 3)), rng.normal(size=(2, 3))], kwargs={"dims": (0,)}, id="dims", gradient_tolerance=(1e-3, 1e-5)),
]  # fmt: skip
test_rows = generate(ROWS)


def test_exponentials_of_large_and_bad_matrices():
    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(3, 4, 4)) * numpy.array([0.1, 8, 30])[:, None, None]
    numpy.testing.assert_allclose(
        dynograd.matrix_exp(tensor(x)).numpy(), numpy.stack([scipy.linalg.expm(element) for element in x]), rtol=1e-11
    )
    result = dynograd.matrix_exp(tensor([[[float("nan")]], [[0.0]]]))
    assert numpy.isnan(result[0].item()) and result[1].item() == 1


def test_names_of_the_module():
    assert [name for name in linalg.__all__ if not hasattr(linalg, name)] == []
    assert linalg.LinAlgError is dynograd.errors.LinAlgError and issubclass(linalg.LinAlgError, RuntimeError)
    with pytest.raises(AttributeError, match=r"dynograd\.linalg.*no attribute 'nothing'"):
        linalg.nothing  # noqa: B018


def test_powers_of_one_number_and_no_reflection():
    assert dynograd.linalg.vander(dynograd.tensor(3.0), N=3).tolist() == [[1.0, 3.0, 9.0]]
    x = dynograd.tensor([[1.0], [2.0]], requires_grad=True)
    product = dynograd.linalg.householder_product(x, dynograd.zeros(0))
    product.sum().backward()
    assert product.tolist() == [[1.0], [0.0]]
    assert x.grad.tolist() == [[0.0], [0.0]]


def test_ormqr_is_the_product_with_q():
    rng = numpy.random.default_rng(0)
    a = rng.normal(size=(5, 3)) + 1j * rng.normal(size=(5, 3))
    other = dynograd.tensor(rng.normal(size=(5, 2)) + 0j)
    packed, tau = dynograd.geqrf(dynograd.tensor(a))
    q = dynograd.linalg.qr(dynograd.tensor(a), "complete").Q
    numpy.testing.assert_allclose(dynograd.ormqr(packed, tau, other).numpy(), (q @ other).numpy(), atol=1e-12)
    numpy.testing.assert_allclose(packed.ormqr(tau, other, transpose=True).numpy(), (q.mH @ other).numpy(), atol=1e-12)
    numpy.testing.assert_allclose(packed.ormqr(tau, other.mH, left=False).numpy(), (other.mH @ q).numpy(), atol=1e-12)


@pytest.mark.parametrize("dtype", [dynograd.float16, dynograd.bfloat16])
def test_exponentials_of_half_types_are_computed_in_float32(dtype):
    x = dynograd.tensor([[0.0, 2.0], [0.5, -1.0]], dtype=dtype, requires_grad=True)
    result = dynograd.matrix_exp(x)
    assert result.dtype is dtype and result.tolist() == dynograd.matrix_exp(x.float()).to(dtype).tolist()
    result.sum().backward()
    assert x.grad.dtype is dtype
