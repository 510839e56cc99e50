"""What NumPy, Python's own protocols and other array libraries ask of a tensor."""

import copy
import pickle

import numpy
import pytest

import dynograd as dg

KINDS = "float32 float64 float16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool complex64 complex128".split()


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_shared_with_numpy_both_ways(kind):
    array = numpy.arange(6).reshape(2, 3).astype(kind)
    for x in (dg.from_numpy(array), dg.as_tensor(array), dg.asarray(array, copy=False)):
        assert x.dtype is getattr(dg, kind) and x.shape == (2, 3)
        for back in (x.numpy(), numpy.asarray(x), numpy.from_dlpack(x), numpy.asarray(x, copy=False)):
            assert back.dtype == kind and numpy.shares_memory(back, array) and back.flags.writeable
    x = dg.as_tensor(array)
    for apart in (
        dg.tensor(array).numpy(),
        numpy.array(x),
        numpy.asarray(x, copy=True),
        dg.asarray(array, copy=True).numpy(),
    ):
        assert (apart == array).all() and not numpy.shares_memory(apart, array)
    x[0, 1] = 0
    array[0, 2] = 1
    assert array[0, 1] == 0 and x[0, 2] == 1


def test_numpy_converts_only_where_a_copy_is_allowed():
    x = dg.ones(2)
    assert numpy.asarray(x, dtype="float64").dtype == "float64" and numpy.asarray([x, x]).shape == (2, 2)
    with pytest.raises(ValueError, match=r"__array__: dynograd.float32 cannot become float64 without a copy"):
        numpy.asarray(x, dtype="float64", copy=False)
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        numpy.asarray(dg.ones(2, requires_grad=True))


beside = numpy.array([3.0, 4.0], "float32")
MIXED = [
    (lambda x: beside + x, [4, 6]),
    (lambda x: x + beside, [4, 6]),
    (lambda x: beside - x, [2, 2]),
    (lambda x: beside * x, [3, 8]),
    (lambda x: beside / x, [3, 2]),
    (lambda x: beside**x, [3, 16]),
    (lambda x: beside // x, [3, 2]),
    (lambda x: beside % x, [0, 0]),
    (lambda x: beside @ x, 11),
    (lambda x: beside > x, [True, True]),
    (lambda x: beside == x, [False, False]),
    (lambda x: numpy.float32(2) * x, [2, 4]),
    (lambda x: x * numpy.float64(2), [2, 4]),
    (lambda x: numpy.int64(2) + x, [3, 4]),
    (lambda x: numpy.sqrt(x * x), [1, 2]),
    (lambda x: numpy.maximum(x, 1.5), [1.5, 2]),
    (lambda x: numpy.add(x, x), [2, 4]),
]


@pytest.mark.parametrize(("call", "expected"), MIXED)
def test_arrays_and_ufuncs_beside_tensors_give_tensors(call, expected):
    result = call(dg.tensor([1.0, 2.0]))
    assert type(result) is dg.Tensor and result.tolist() == expected and result.dtype in (dg.float32, dg.bool)


def test_gradients_flow_past_arrays():
    x = dg.tensor([1.0, 2.0], requires_grad=True)
    (beside * x).sum().backward()
    assert x.grad.tolist() == [3, 4]


def test_arrays_are_indexed_by_tensors_and_numbers_read_from_them():
    array = numpy.array([3, 4, 5])
    assert array[dg.tensor(1)] == 4 and array[dg.tensor([2, 0])].tolist() == [5, 3]
    assert array[dg.tensor([True, False, True])].tolist() == [3, 5] and list(range(dg.tensor(2))) == [0, 1]
    assert float(dg.tensor(2.5)) == 2.5 and int(dg.tensor(2.7)) == 2 and complex(dg.tensor(2.0)) == 2
    assert bytes(dg.tensor([1, 2], dtype=dg.uint8)) == b"\x01\x02" and numpy.allclose(dg.ones(2), 1)
    assert dg.as_tensor(bytearray(b"ab"), dtype=dg.uint8).tolist() == [97, 98]


@pytest.mark.parametrize("kind", [*KINDS, "bfloat16"])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_and_pickles_keep_values_dtype_and_shape(kind, again):
    x = dg.arange(6).reshape(2, 3).T.to(getattr(dg, kind))
    y = again(x)
    assert y.dtype is x.dtype and y.shape == x.shape and bool((x == y).all()) and y is not x
    assert (y.data_ptr() == x.data_ptr()) is (again is copy.copy)


def test_a_copy_of_a_leaf_or_of_a_result_is_a_leaf_on_the_same_memory():
    x = dg.ones(2, requires_grad=True)
    x.grad, x.mark = dg.ones(2), "kept"
    for source in (x, x * 2):
        created = copy.copy(source)
        assert (
            created.requires_grad
            and created.is_leaf
            and created.grad is None
            and created.data_ptr() == source.data_ptr()
        )
    assert copy.copy(x).mark == "kept"
    created = copy.copy(x.detach())
    created[0] = 5
    assert x.tolist() == [5, 1]


@pytest.mark.parametrize("value", [dg.float32, dg.uint16, dg.Size([1, 2]), dg.device("cuda:1")], ids=str)
def test_what_describes_tensors_is_copied_and_pickled(value):
    for created in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert created == value and type(created) is type(value)


def test_the_namespace_of_a_tensor():
    x = dg.ones(2)
    assert x.__array_namespace__() is dg.array_api is x.__array_namespace__(api_version="2022.12")
    with pytest.raises(ValueError, match=r"version '2019.12' is not supported; expected one of 2021.12, .*2024.12"):
        x.__array_namespace__(api_version="2019.12")


def test_moves_to_a_device_in_the_standards_words():
    x = dg.ones(2)
    assert x.to_device("cpu") is x and x.to_device(x.device) is x
    with pytest.raises(ValueError, match=r"to_device: got stream=1. Use `with dynograd.cuda.stream"):
        x.to_device("cpu", stream=1)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "amax", "prod", "all", "any", "std", "var"])
def test_reductions_of_numpy_are_the_tensors_own(name):
    function, values = getattr(numpy, name), numpy.array([[1.0, 2.0], [0.0, 5.0]])
    x, rows = dg.tensor(values), dg.ragged_tensor([[1.0, 2.0], [5.0]])
    for options in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"keepdims": False}):
        got = function(x, **options)
        assert isinstance(got, dg.Tensor)
        numpy.testing.assert_allclose(got.numpy(), function(values, **options), rtol=1e-12)
    numpy.testing.assert_allclose(function(rows).numpy(), function(numpy.array([1.0, 2.0, 5.0])), rtol=1e-6)


def test_other_functions_of_numpy_go_on_as_they_did():
    x = dg.tensor([[3.0, 1.0]])
    assert type(numpy.sort(x)) is numpy.ndarray and numpy.concatenate([x, x]).shape == (2, 2)
    assert numpy.std(x, ddof=1).item() == pytest.approx(2**0.5) and numpy.sum(x, dtype=dg.float64).dtype is dg.float64
    with pytest.raises(TypeError, match="rows of a ragged tensor have different lengths"):
        numpy.sort(dg.ragged_tensor([[1.0, 2.0], [3.0]]))
