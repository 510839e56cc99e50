"""What PyTorch's op database showed to be taken in silence, or told in words of NumPy and Numba: each is refused in ours."""

import pytest

import dynograd
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.nn import functional as F

t, eye, int32 = dynograd.ones(2), dynograd.eye(2), dynograd.int32
NUMBERS = [
    "sum",
    "prod",
    "any",
    "all",
    "std",
    "nonzero",
    "argwhere",
    "unique",
    "count_nonzero",
    "positive",
    "deg2rad",
    "softmax",
    "clamp",
]
REFUSED = [
    (
        lambda: dynograd.addcmul(t, 2.5, t),
        TypeError,
        r"addcmul\(\): .* got \(Tensor, float, Tensor\), but expected Tensors",
    ),
    (
        lambda: dynograd.addcdiv(2.5, t, t),
        TypeError,
        r"addcdiv\(\): .* got \(float, Tensor, Tensor\), but expected Tensors",
    ),
    (lambda: dynograd.lerp(t, 2.5, 0.5), TypeError, r"lerp\(\): .* got \(Tensor, float\), but expected Tensors"),
    (lambda: dynograd.dist(2.5, t), TypeError, r"dist\(\): .* got \(float, Tensor\), but expected Tensors"),
    (lambda: dynograd.inner(t, 2.5), TypeError, r"inner\(\): .* got \(Tensor, float\), but expected Tensors"),
    (lambda: dynograd.reshape(2.5, (1,)), TypeError, r"reshape\(\): argument 'input' must be Tensor, not float"),
    (lambda: dynograd.flip(2.5, ()), TypeError, r"flip\(\): argument 'input' must be Tensor, not float"),
    (
        lambda: dynograd.erf(dynograd.ones(2, dtype=dynograd.complex64)),
        DtypeError,
        "erf: not implemented for input of dynograd.complex64. Convert",
    ),
    (
        lambda: F.adaptive_max_pool1d(dynograd.ones(1, 1, 4, dtype=dynograd.complex64), 2),
        DtypeError,
        "adaptive_max_pool1d: not implemented for input of dynograd.complex64",
    ),
    (
        lambda: dynograd.sub(t, t > 0, alpha=2),
        DtypeError,
        "sub: Subtraction, the `-` operator, with a bool tensor is not supported, got alpha=2",
    ),
    (
        lambda: dynograd.zeros(1, 2, 3).float(memory_format=dynograd.channels_last),
        ShapeError,
        "required rank 4 tensor to use channels_last format, got a tensor of 3 dims",
    ),
    (
        lambda: dynograd.index_add(dynograd.ones(1, 1, 1), 0, dynograd.tensor([0]), dynograd.ones(1)),
        IndexRangeError,
        r"expected shape \(1, 1, 1\), got \(1,\)",
    ),
    (
        lambda: F.max_pool1d(dynograd.ones(1, 2, 3), 3, 2**40, ceil_mode=True),
        ShapeError,
        r"max_pool1d: stride does not fit into 32 bits, got \[1099511627776\]",
    ),
    (
        lambda: dynograd.linalg.lu_solve(eye, dynograd.tensor([1, 2]), eye),
        DtypeError,
        "linalg.lu_solve: pivots should be a Tensor of dtype int32, got dynograd.int64",
    ),
    (
        lambda: dynograd.lu_unpack(eye, dynograd.tensor([1, 7], dtype=int32)),
        IndexRangeError,
        "lu_unpack: pivots must be between 1 and LU.size.-2. = 2 inclusive, got 1 to 7",
    ),
    (
        lambda: dynograd.lu_unpack(eye, dynograd.tensor([1], dtype=int32)),
        ShapeError,
        r"lu_unpack: expected one pivot .* shape \(2,\) .* got \(1,\)",
    ),
    (
        lambda: dynograd.ormqr(eye, dynograd.ones(1, 2), eye),
        ShapeError,
        r"ormqr: Expected tau to have one dimension less than input .* got tau of shape \(1, 2\)",
    ),
    (
        lambda: dynograd.ormqr(eye, t, dynograd.ones(3, 2, 2)),
        ShapeError,
        r"ormqr: Expected batch dimensions of other .* \(3,\) and \(\)",
    ),
    (
        lambda: dynograd.linalg.householder_product(eye, dynograd.ones(1, 2)),
        ShapeError,
        "linalg.householder_product: Expected tau to have one dimension less",
    ),
    (
        lambda: dynograd.linalg.lstsq(eye, dynograd.ones(1, 2, 2)),
        ShapeError,
        r"linalg.lstsq: input.dim\(\) must be greater .* \(2, 2\) and \(1, 2, 2\)",
    ),
    (
        lambda: dynograd.native_group_norm(dynograd.ones(2, 2, 3), None, None, 1, 2, 3, 1, 1e-5),
        ShapeError,
        r"native_group_norm: .* N=1, C=2 and HxW=3",
    ),
    (
        lambda: dynograd.native_group_norm(dynograd.ones(1, 2, 3), None, None, 1, "x", 3, 1, 1e-5),
        TypeError,
        "native_group_norm: N, C, HxW and group must be ints, got 1, 'x'",
    ),
    (
        lambda: dynograd.segment_reduce(t, "sum", offsets=dynograd.tensor([0, 2, 0]), unsafe=True),
        IndexRangeError,
        r"segment_reduce: expected a length, between two offsets, to be 0 .*got -2 .*offsets must not fall",
    ),
    (
        lambda: dynograd.segment_reduce(t, "sum", lengths=dynograd.tensor([3, -1]), unsafe=True),
        IndexRangeError,
        r"segment_reduce: expected lengths to be 0 .*got -1",
    ),
]


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=[words[:30] for _, _, words in REFUSED])
def test_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_no_tensor(name):
    with pytest.raises(TypeError, match=rf"{name}\(\): argument 'input' must be Tensor, not float"):
        getattr(dynograd, name)(2.5, *((0,) if name == "softmax" else ()))


def test_numbers_beside_tensors_are_still_taken():
    assert (
        dynograd.add(2, 3) == 5
        and dynograd.pow(2.0, t).tolist() == [2, 2]
        and dynograd.where(t > 0, 1.0, t).tolist() == [1, 1]
    )
    assert (
        dynograd.lerp(t, t, 0.5).tolist() == [1, 1]
        and dynograd.rsub(t, 1).tolist() == [0, 0]
        and dynograd.clamp(t, 2).tolist() == [2, 2]
    )
