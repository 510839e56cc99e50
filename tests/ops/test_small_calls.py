"""Functions that compute at once what is small and plain: the same bits, history, errors as the general way."""

import numpy
import pytest

import dynograd
from dynograd.kernels.small import few_cpu
from dynograd.ops.readers import set_quick_ways_aside

linalg, fft = dynograd.linalg, dynograd.fft


def square(x):
    return x[:6, :6] @ x[:6, :6].t() + dynograd.eye(6, dtype=x.dtype)


def several(x):
    return dynograd.stack([square(x), square(x * 2)])


# name -> a function of a (6, 9) matrix
CALLS = {
    "outer": lambda x: dynograd.outer(x[0], x[:, 1].contiguous()),
    "outer of a column": lambda x: dynograd.outer(x[:, 1], x[0]),
    "bmm": lambda x: dynograd.bmm(several(x), several(x + 1)),
    "matmul of batches": lambda x: several(x) @ several(x + 1),
    "matmul of one batch with another": lambda x: several(x)[:1] @ several(x + 1),
    "dot": lambda x: x[0] @ x[1],
    "matrix and vector": lambda x: x @ x[0],
    "median": lambda x: x.median(),
    "median of a transposed matrix": lambda x: x.t().median(),
    "norm": lambda x: x.norm(),
    "norm over a dim": lambda x: x.norm(dim=1),
    "norm of another p": lambda x: x.norm(1),
    "cdist": lambda x: dynograd.cdist(x[:2], x),
    "cdist of another p": lambda x: dynograd.cdist(x[:2], x, 1),
    "cdist of columns": lambda x: dynograd.cdist(x.t(), x.t()[:3]),
    "polar": lambda x: dynograd.polar(x.abs(), x),
    "polar of a row": lambda x: dynograd.polar(x.abs(), x[0]),
    "meshgrid": lambda x: dynograd.meshgrid(x[0], x[1, :2], x[2, :3], indexing="xy"),
    "meshgrid with a number": lambda x: dynograd.meshgrid(x[0], x[1, 0], indexing="ij"),
    "sign": lambda x: x.sign(),
    "det": lambda x: linalg.det(square(x)),
    "det of several": lambda x: linalg.det(several(x)),
    "inv": lambda x: linalg.inv(square(x)),
    "inv of several": lambda x: linalg.inv(several(x)),
    "solve": lambda x: linalg.solve(square(x), x[:, :2]),
    "solve for a vector": lambda x: linalg.solve(square(x), x[:, 0]),
    "solve from the right": lambda x: linalg.solve(square(x), x[:6, :6], left=False),
    "cholesky": lambda x: linalg.cholesky(square(x)),
    "upper cholesky": lambda x: linalg.cholesky(square(x), upper=True),
    "qr": lambda x: tuple(linalg.qr(square(x))),
    "qr of a tall matrix": lambda x: tuple(linalg.qr(x.t())),
    "qr of a wide matrix": lambda x: tuple(linalg.qr(x)),
    "r alone": lambda x: linalg.qr(square(x), mode="r")[1],
    "singular values": lambda x: linalg.svd(x)[1],
    "eigenvalues": lambda x: linalg.eigh(square(x))[0],
    "upper eigenvalues": lambda x: linalg.eigh(square(x), "U")[0],
    "singular values alone": lambda x: linalg.svdvals(x),
    "singular values of several": lambda x: linalg.svdvals(several(x)),
    "logarithm of a determinant": lambda x: tuple(linalg.slogdet(square(x))),
    "logarithms of determinants": lambda x: tuple(linalg.slogdet(several(x))),
    "fft": lambda x: fft.fft(x),
    "fft over a dim": lambda x: fft.fft(x, dim=0),
    "fft of more points": lambda x: fft.fft(x, 12),
    "orthonormal fft": lambda x: fft.fft(x, norm="ortho"),
    "forward fft": lambda x: fft.fft(x, norm="forward"),
    "ifft": lambda x: fft.ifft(dynograd.complex(x, x * 2)),
    "rfft": lambda x: fft.rfft(x),
    "rfft of an even size": lambda x: fft.rfft(x[:, :8]),
    "irfft": lambda x: fft.irfft(dynograd.complex(x, x * 2)),
}
PLAIN = {  # of which nothing is differentiable
    "unique": lambda x: (x * 2).round().long().unique(),
    "unique numbers": lambda x: x.reshape(-1)[:40].unique(),
    "unique with counts": lambda x: (x * 2).round().unique(return_counts=True),
    "bucketize": lambda x: dynograd.bucketize(x, x[0].sort()[0]),
    "bucketize from the right": lambda x: dynograd.bucketize(x, x[0].sort()[0], right=True),
    "bucketize in int32": lambda x: dynograd.bucketize(x, x[0].sort()[0], out_int32=True),
    "searchsorted": lambda x: dynograd.searchsorted(x[0].sort()[0], x),
    "searchsorted in rows": lambda x: dynograd.searchsorted(x.sort(1)[0], x),
    "searchsorted on a side": lambda x: dynograd.searchsorted(x[0].sort()[0], x, side="right"),
    "bincount": lambda x: (x[0].abs() * 3).long().bincount(),
    "bincount of a length": lambda x: (x[0].abs() * 3).long().bincount(minlength=20),
    "weighted bincount": lambda x: (x[0].abs() * 3).long().bincount(x[1].contiguous()),
    "remainder": lambda x: (x * 9).long() % 4,
    "clamp": lambda x: x.clamp(0, 1),
    "clamp from 0.0": lambda x: (x * 0 - 1).clamp(0.0, 1),
    "clamp from -0.0": lambda x: (x * 0 - 1).clamp(-0.0, 1),
    "equal": lambda x: dynograd.tensor([x.equal(x + 0), x.equal(x[:5]), x.equal(x + 1), x.equal(x.double())]),
}


@pytest.fixture(params=["first calls", "later calls"], autouse=True)
def often(request, monkeypatch):
    monkeypatch.setattr(few_cpu, "_NUMBA", "not loaded")
    monkeypatch.setattr(few_cpu, "_calls", few_cpu.SMALL_CALLS if request.param == "later calls" else 0)


def results(call, x):
    result = call(x)
    return result if isinstance(result, tuple) else (result,)


def both_ways(call, *arguments):
    quick = call(*arguments)
    set_quick_ways_aside(+1)
    try:
        return quick, call(*arguments)
    finally:
        set_quick_ways_aside(-1)


def matrix(dtype=dynograd.float32, layout="rows"):
    a = numpy.random.default_rng(5).normal(size=(6, 9))
    a[2, 3] = 0.0
    x = dynograd.tensor(a, dtype=dtype)
    return x if layout == "rows" else dynograd.tensor(a.T.copy(), dtype=dtype).t()


@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.float64], ids=str)
@pytest.mark.parametrize("layout", ["rows", "turned"])
@pytest.mark.parametrize("name", [*CALLS, *PLAIN])
def test_same_bits(name, layout, dtype):
    x = matrix(dtype, layout)
    before = x.clone()
    quick, general = both_ways(results, CALLS.get(name) or PLAIN[name], x)
    for element, two in zip(quick, general, strict=True):
        assert element.dtype is two.dtype and element.shape == two.shape and element.stride() == two.stride()
        assert element.numpy().tobytes() == two.numpy().tobytes()
        assert not element.requires_grad and element.grad_fn is None
    assert x.equal(before)


@pytest.mark.parametrize("name", CALLS)
def test_same_gradients(name):
    def gradients(call):
        leaf = matrix(dynograd.float64).requires_grad_()
        outcomes = results(call, leaf)
        total = sum(
            [(outcome * outcome.detach().cos()).sum() for outcome in outcomes if not outcome.is_complex()],
            dynograd.tensor(0.0),
        )
        total = total + sum(
            [dynograd.view_as_real(outcome).sin().sum() for outcome in outcomes if outcome.is_complex()]
        )
        (first,) = dynograd.autograd.grad(total, leaf, create_graph=True)
        if not first.requires_grad:
            return (first,)
        (second,) = dynograd.autograd.grad(first.square().sum(), leaf, allow_unused=True)
        return first.detach(), second

    if name in ("qr of a wide matrix", "singular values"):
        pytest.skip("second derivatives of these are tested beside their ops")
    quick, general = both_ways(gradients, CALLS[name])
    for element, two in zip(quick, general, strict=True):
        assert element.equal(two)


@pytest.mark.parametrize("name", CALLS)
def test_without_recording(name):
    leaf = matrix().requires_grad_()
    with dynograd.no_grad():
        for result in results(CALLS[name], leaf):
            assert not result.requires_grad
    for result in results(CALLS[name], leaf):
        assert result.requires_grad


SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


def test_what_lapack_refuses_is_told_as_ever():
    x = dynograd.tensor(SINGULAR)
    indefinite = dynograd.tensor([[1.0, 2.0], [2.0, 1.0]])
    gap = dynograd.tensor([[1.0, float("nan")], [0.0, 1.0]])
    for _ in range(2):
        with pytest.raises(dynograd.linalg.LinAlgError, match="diagonal element 2 is zero"):
            linalg.inv(x)
        with pytest.raises(dynograd.linalg.LinAlgError, match="singular"):
            linalg.solve(x, x)
        with pytest.raises(dynograd.linalg.LinAlgError, match="leading minor of order 2"):
            linalg.cholesky(indefinite)
        with pytest.raises(dynograd.linalg.LinAlgError, match=r"\(Batch element 1\).*minor of order 2"):
            linalg.cholesky(dynograd.stack([dynograd.eye(2), indefinite]))
        with pytest.raises(dynograd.linalg.LinAlgError, match="non-finite"):
            linalg.svd(gap)
        with pytest.raises(RuntimeError, match="square"):
            linalg.inv(dynograd.zeros(2, 3))
        assert linalg.det(gap).isnan() and linalg.inv(gap).isnan().any() and linalg.qr(gap).R.isnan().any()
        assert linalg.inv_ex(x).info.item() == 2 and linalg.cholesky_ex(indefinite).info.item() == 2
        assert linalg.det(x).item() == 0


def test_numpys_own_settings_of_errors_do_not_matter():
    x = dynograd.tensor(SINGULAR)
    with numpy.errstate(all="raise"):
        with pytest.raises(dynograd.linalg.LinAlgError, match="singular"):
            linalg.solve(x, x)
        assert linalg.inv(dynograd.eye(3)).equal(dynograd.eye(3))


def test_shapes_without_elements():
    assert linalg.inv(dynograd.zeros(0, 0)).shape == (0, 0) and linalg.solve(
        dynograd.eye(2), dynograd.zeros(2, 0)
    ).shape == (2, 0)
    assert linalg.qr(dynograd.zeros(0, 3)).Q.shape == (0, 0) and linalg.det(dynograd.zeros(0, 0)).item() == 1
    assert fft.fft(dynograd.zeros(0, 4)).shape == (0, 4) and fft.rfft(dynograd.zeros(0, 4)).shape == (0, 3)
    assert dynograd.outer(dynograd.zeros(0), dynograd.zeros(3)).shape == (0, 3)
    assert dynograd.cdist(dynograd.zeros(0, 3), dynograd.zeros(2, 3)).shape == (0, 2)
    assert dynograd.cdist(dynograd.zeros(2, 0), dynograd.zeros(3, 0)).tolist() == [[0.0] * 3] * 2
    assert dynograd.bucketize(dynograd.zeros(0), dynograd.zeros(3)).shape == (0,)
    assert dynograd.zeros(0).unique().shape == (0,) and dynograd.zeros(0).equal(dynograd.zeros(0))
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        fft.fft(dynograd.zeros(2, 0))
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        fft.irfft(dynograd.zeros(2, 1, dtype=dynograd.complex64))


def test_other_dtypes_go_the_general_way():
    x = dynograd.arange(6).reshape(2, 3)
    assert dynograd.outer(x[0], x[1].double()).dtype is dynograd.float64
    assert dynograd.outer(x[0] > 0, x[1] > 3).dtype is dynograd.bool
    assert fft.rfft(x).dtype is dynograd.complex64 and fft.fft(x.double()).dtype is dynograd.complex128
    for call in (
        lambda: x.norm(),
        lambda: linalg.inv(x[:, :2]),
        lambda: dynograd.cdist(x, x),
        lambda: x.half().softmax(0) @ x,
    ):
        with pytest.raises((RuntimeError, TypeError)):
            call()
    half = dynograd.ones(2, 2, dtype=dynograd.bfloat16)
    assert half.norm().dtype is dynograd.bfloat16 and half.median().dtype is dynograd.bfloat16
    assert half.equal(half) and not half.equal(half.float() + 1)


def test_what_numpy_refuses_is_told_in_our_words():
    x = dynograd.tensor([1, -1])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="non-negative integral inputs, got -1"):
            x.bincount()
        for call in (
            lambda: x % 0,
            lambda: x // 0,
            lambda: x % dynograd.tensor(0),
            lambda: x % dynograd.tensor([1, 0]),
        ):
            with pytest.raises(RuntimeError, match="integer division by 0"):
                call()
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            dynograd.zeros(2, 3) @ dynograd.zeros(2, 3)
        with pytest.raises(RuntimeError, match="same dtype"):
            dynograd.zeros(2, 3) @ dynograd.zeros(3).double()
        with pytest.raises(RuntimeError, match="at least 1D"):
            dynograd.zeros(2, 3) @ dynograd.tensor(2.0)


def test_autocast_reaches_products_and_distances():
    x = dynograd.randn(2, 3, 3)
    with dynograd.autocast("cpu", dynograd.bfloat16):
        assert dynograd.bmm(x, x).dtype is dynograd.bfloat16 and (x[0] @ x[0, 0]).dtype is dynograd.bfloat16
        assert dynograd.cdist(x[0].bfloat16(), x[0].bfloat16()).dtype is dynograd.float32


def test_what_comes_back_is_a_callers_own():
    for make in (
        lambda: dynograd.eye(3),
        lambda: dynograd.eye(2, 3, dtype=dynograd.int64),
        lambda: dynograd.linspace(0, 1, 5),
        lambda: dynograd.triu_indices(3, 3),
        lambda: dynograd.tril_indices(3, 4, 1),
    ):
        first = make()
        expected = first.tolist()
        first.fill_(7)
        again = make()
        assert again.tolist() == expected and again.dtype is first.dtype
        again.zero_()
        assert make().tolist() == expected


def test_patterns_by_their_numbers_and_dtypes():
    for _ in range(2):
        assert dynograd.eye(2).dtype is dynograd.float32 and dynograd.eye(2, dtype=dynograd.bool).dtype is dynograd.bool
        assert dynograd.eye(2, requires_grad=True).requires_grad and not dynograd.eye(2).requires_grad
        assert dynograd.eye(2, device="meta").is_meta and not dynograd.eye(2).is_meta
        assert dynograd.linspace(1.0, -0.0, 2).signbit().tolist() == [False, True]
        assert dynograd.linspace(1.0, 0.0, 2).signbit().tolist() == [False, False]
        assert dynograd.linspace(0, 3, 3, dtype=dynograd.int64).tolist() == [0, 1, 3]
        with pytest.raises(TypeError):
            dynograd.eye(2.0)
        with pytest.raises((TypeError, RuntimeError)):
            dynograd.linspace(0, 1, 2.5)
        dynograd.set_default_dtype(dynograd.float64)
        try:
            assert dynograd.eye(2).dtype is dynograd.float64 and dynograd.linspace(0, 1, 5).dtype is dynograd.float64
        finally:
            dynograd.set_default_dtype(dynograd.float32)
        with dynograd.device("meta"):
            assert dynograd.eye(2).is_meta and dynograd.linspace(0, 1, 5).is_meta


@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.float64], ids=str)
@pytest.mark.parametrize("name", ["randn", "rand"])
def test_draws_are_the_stream_whatever_their_size(name, dtype):
    from dynograd.kernels.random import random_cpu

    random_cpu._compiled(1 << 20)
    dynograd.manual_seed(3)
    whole = getattr(dynograd, name)(4000, dtype=dtype).tolist()
    for sizes in ((1,), (3,), (2, 2), (5, 7), (8, 64), (0,)):
        dynograd.manual_seed(3)
        part = getattr(dynograd, name)(*sizes, dtype=dtype)
        assert part.shape == sizes and part.reshape(-1).tolist() == whole[: part.numel()]
    dynograd.default_generator.set_plain_state((2**64 - 1, 2**64 - 2))
    first = getattr(dynograd, name)(8, dtype=dtype)
    dynograd.default_generator.set_plain_state((2**64 - 1, 2**64 - 2))
    assert getattr(dynograd, name)(7, dtype=dtype).tolist() == first.tolist()[:7]
