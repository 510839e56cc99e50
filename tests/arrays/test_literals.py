"""Tensors of nested lists of Python's numbers, NumPy's numbers and arrays, and tensors of one element."""

from __future__ import annotations

import numpy
import pytest

import dynograd as dg
from dynograd import tensor

ONE = tensor([1.0])
F64, F32, F16, I32 = (getattr(numpy, name) for name in ("float64", "float32", "float16", "int32"))

LISTS = {
    "tensors of one element are numbers": ([[tensor([1.0])], [tensor([2.0])]], [[1.0], [2.0]], dg.float32),
    "however many dims they have": ([tensor([[1.0]])], [1.0], dg.float32),
    "and beside numbers": ([[ONE, 2.0]], [[1.0, 2.0]], dg.float32),
    "whole ones beside a float": ([tensor(1), 2.5], [1.0, 2.5], dg.float32),
    "of several dtypes": ([tensor(True), tensor(2), tensor(0.5)], [1.0, 2.0, 0.5], dg.float32),
    "of small ones": ([tensor(1, dtype=dg.int32), tensor(2)], [1, 2], dg.int64),
    "of half ones": ([tensor(1.0, dtype=dg.bfloat16)], [1.0], dg.bfloat16),
    "that require grad": ([tensor([1.0], requires_grad=True)], [1.0], dg.float32),
    "complex": ([tensor(1j), 1.0], [1j, 1], dg.complex64),
    "rows of tensors beside lists": ([[1.0, 2.0], tensor([3.0, 4.0])], [[1.0, 2.0], [3.0, 4.0]], dg.float32),
    "NumPy's numbers have their dtype": ([F64(1), 2], [1.0, 2.0], dg.float64),
    "wherever they stand": ([2.0, F64(1)], [2.0, 1.0], dg.float64),
    "Python's floats are of the default dtype": ([F32(1), 2.0], [1.0, 2.0], dg.float32),
    "Python's ints are wide": ([I32(1), 2], [1, 2], dg.int64),
    "halves": ([F16(1), 2], [1.0, 2.0], dg.float16),
    "NumPy's arrays are rows": ([numpy.ones(2), [1, 2]], [[1.0, 1.0], [1.0, 2.0]], dg.float64),
    "of different kinds": ([numpy.array([1, 2]), numpy.array([0.5, 1])], [[1.0, 2.0], [0.5, 1.0]], dg.float64),
    "large": ([2**63], [2**63], dg.uint64),
    "large beside small": ([1, 2**63], [1, 2**63], dg.uint64),
    "nothing": ([[], []], [[], []], dg.float32),
}


@pytest.mark.parametrize(("data", "values", "dtype"), LISTS.values(), ids=LISTS)
def test_lists(data, values, dtype):
    created = tensor(data)
    assert created.tolist() == values and created.dtype is dtype and not created.requires_grad
    assert dg.as_tensor(data).tolist() == values


def test_constructors_of_classes_take_the_same_lists():
    assert dg.FloatTensor([ONE, ONE]).shape == (2,) and dg.LongTensor([tensor(3)]).tolist() == [3]
    assert dg.Tensor([[ONE, 2]]).tolist() == [[1.0, 2.0]]


WHOLE = [
    ([1.9, -1.9], dg.int64, [1, -1]),
    ([True, 2], dg.uint8, [1, 2]),
    ([-1], dg.uint8, [255]),
    ([-200], dg.uint8, [56]),
    ([2**63], dg.uint64, [2**63]),
    ([-(2**63)], dg.int64, [-(2**63)]),
    ([1e5], dg.int32, [100_000]),
    (numpy.array([300]), dg.uint8, [44]),
    (tensor([300]), dg.uint8, [44]),
    ([], dg.int32, []),
]


@pytest.mark.parametrize(("data", "dtype", "values"), WHOLE, ids=str)
def test_integers_of_a_dtype(data, dtype, values):
    assert tensor(data, dtype=dtype).tolist() == values


BEYOND = [
    (300, dg.uint8, "300"),
    ([300.0], dg.uint8, r"300\.0"),
    ([-300], dg.uint8, "-300"),
    ([70_000, 1], dg.int16, "70000"),
    ([1, -200], dg.int8, "-200"),
    ([1e10], dg.int32, "10000000000"),
    ([2**40], dg.int32, "1099511627776"),
    ([float("nan")], dg.int32, "nan"),
    ([float("-inf")], dg.int64, "-inf"),
    ([2**64], dg.uint64, "18446744073709551616"),
    ([-1], dg.uint64, "-1"),
    ([numpy.int64(300)], dg.uint8, "300"),
    ([tensor([300])], dg.uint8, "300"),
]


@pytest.mark.parametrize(("data", "dtype", "value"), BEYOND, ids=str)
def test_integers_beyond_a_dtype_are_refused(data, dtype, value):
    with pytest.raises(
        RuntimeError, match=rf"tensor: .*{dtype} without overflow: {value}.* is not in .*wider dtype.*\.to\("
    ):
        tensor(data, dtype=dtype)


def test_several_elements_in_a_list_are_refused():
    with pytest.raises(
        ValueError, match=r"only one element tensors .* shape \(2,\) in a list. Join tensors with stack"
    ):
        tensor([tensor([1.0, 2.0]), tensor([3.0, 4.0])])
    with pytest.raises(ValueError, match=r"shape \(0,\)"):
        tensor([tensor([])])


@pytest.mark.parametrize("dtype", [dg.float32, dg.int64], ids=str)
def test_complex_numbers_for_a_real_dtype_are_refused(dtype):
    with pytest.raises(TypeError, match=f"tensor: expected real numbers for {dtype}, got complex ones.*real"):
        tensor([1 + 1j], dtype=dtype)


@pytest.mark.parametrize("dtype", [None, dg.int64, dg.float32], ids=str)
@pytest.mark.parametrize(
    "data", [["a"], [None], [1, [2]], [slice(1)], [1, "2"], {1}, [numpy.ones((2, 2)), numpy.ones((2, 3))]], ids=str
)
def test_what_is_no_number_is_refused(data, dtype):
    with pytest.raises(TypeError, match="tensor: expected numbers, got .*Map words to numbers first"):
        tensor(data, dtype=dtype)


@pytest.mark.parametrize(
    ("data", "dtype", "expected"),
    [
        (2**64, dg.float64, 2.0**64),
        ([2**64, 1.5], None, [2.0**64, 1.5]),
        ([2**70, True], dg.float32, [2.0**70, 1.0]),
        ([2**64, 1j], None, [2.0**64, 1j]),
        ([2**64, 0], dg.bool, [True, False]),
    ],
)
def test_ints_beyond_64_bits_are_numbers_where_the_dtype_has_such(data, dtype, expected):
    assert tensor(data, dtype=dtype).tolist() == expected


@pytest.mark.parametrize("data", [2**64, [-1, 2**63], [[2**64]], [-(2**63) - 1]])
def test_ints_beyond_64_bits_are_no_floats_unasked(data):
    with pytest.raises(
        RuntimeError, match=r"value cannot be converted to type dynograd.u?int64 without overflow: -?\d{19,20} is not"
    ):
        tensor(data)
