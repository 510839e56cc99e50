"""Copies, and changes of dtype and device."""

import numpy
import pytest

import dynograd
from dynograd.ops.op import registry
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

EVERY = FLOATS + INTEGERS + BOOL + COMPLEX
DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
    "cfloat": "complex64",
    "cdouble": "complex128",
}


def converted(name):
    kinds = {"bfloat16": numpy.float64, "half": numpy.float64, "float": numpy.float64}

    def reference(input):
        if DTYPES[name] in BOOL:
            return input != 0
        if name in kinds:
            return input
        return input.astype(DTYPES[name])

    return reference


ROWS = [
    Row("clone", lambda x: x, shapes=[(2, 3)], dtypes=EVERY, result=lambda name: name),
    Row(
        "to_device",
        lambda x, device: x,
        shapes=[(2, 3)],
        dtypes=FLOATS,
        kwargs={"device": dynograd.device("cpu")},
        result=lambda name: name,
        function=registry["to_device"].function,
    ),
    Row("contiguous", lambda x: x, shapes=[(2, 3)], dtypes=EVERY, result=lambda name: name),
    *[
        Row(
            name,
            converted(name),
            shapes=[(2, 3)],
            domain=(0, 2),
            dtypes=FLOATS + INTEGERS + BOOL,
            result=dtype,
            grad=dtype in ("float64",),
            tolerance=dict.fromkeys(FLOATS + INTEGERS, (0.01, 0.01)),
            function=getattr(dynograd.Tensor, name),
            method=name,
            covers=["to_copy"],
        )
        for name, dtype in DTYPES.items()
    ],
    Row("to", lambda x, dtype: x, shapes=[(2, 3)], kwargs={"dtype": dynograd.float64}, result="float64", id="dtype"),
    Row(
        "to",
        lambda x, dtype: x.astype(int),
        args=lambda rng: [rng.normal(size=3), dynograd.int64],
        result="int64",
        grad=False,
        id="integer",
    ),
    Row(
        "to",
        lambda x, other: x,
        args=lambda rng: [rng.normal(size=3), rng.normal(size=2)],
        grad=(True, False),
        id="other",
    ),
    Row(
        "to",
        lambda x, *_: x,
        args=lambda rng: [rng.normal(size=3), "cpu", dynograd.float64],
        result="float64",
        id="device",
        errors=[
            error(lambda op: op(dynograd.zeros(1), "cuda"), RuntimeError, "to", "cuda", "cpu"),
            error(lambda op: op(dynograd.zeros(1), 1.5), TypeError, "to", "1.5"),
            error(lambda op: op(dynograd.zeros(1), wrong=1), TypeError, "to", "wrong"),
        ],
    ),
    Row("type_as", lambda x, other: x, shapes=[(2, 3), (3,)], grad=(True, False)),
]
test_rows = generate(ROWS)


def test_conversion_to_the_same_dtype_is_the_tensor_itself():
    x = dynograd.zeros(2)
    assert x.float() is x and x.to(dynograd.float32) is x and x.to("cpu") is x and x.contiguous() is x
    assert x.to(dynograd.float32, copy=True) is not x


def test_clone_has_memory_of_its_own():
    x = dynograd.zeros(2)
    y = x.clone()
    y[0] = 1
    assert x.tolist() == [0, 0]
    assert dynograd.zeros(2, 3).T.contiguous().is_contiguous()


def test_floats_are_cut_to_integers():
    assert dynograd.tensor([1.9, -1.9]).long().tolist() == [1, -1]
    assert dynograd.tensor([0.0, 0.5, float("nan")]).bool().tolist() == [False, True, True]


EITHER_PART = [2j, 0j, 1 + 0j, 1 + 1j, complex(-0.0, -0.0), complex(0, numpy.nan), complex(numpy.nan, 0)]
TO_BOOL = [
    lambda x: x.bool(),
    lambda x: x.to(dynograd.bool),
    lambda x: dynograd.tensor(EITHER_PART, dtype=dynograd.bool),
    lambda x: dynograd.zeros(7, dtype=dynograd.bool).copy_(x),
    lambda x: dynograd.zeros(14, dtype=dynograd.bool)[::2].copy_(x),
    lambda x: dynograd.zeros(7, dtype=dynograd.bool).index_put((dynograd.arange(7),), x.bool()),
    lambda x: dynograd.stack([dynograd.full((), element, dtype=dynograd.bool) for element in EITHER_PART]),
    lambda x: dynograd.logical_and(x, dynograd.ones(7)),
    lambda x: dynograd.logical_or(dynograd.zeros(7, dtype=dynograd.bool), x),
    lambda x: dynograd.logical_xor(x, dynograd.zeros(7)),
    lambda x: x.logical_not().logical_not(),
    lambda x: x.reshape(7, 1).any(1),
    lambda x: x.reshape(7, 1).all(1),
    lambda x: dynograd.where(x.bool(), True, False),
    lambda x: dynograd.tensor([bool(element) for element in x]),
]


@pytest.mark.parametrize("dtype", [dynograd.complex64, dynograd.complex128])
@pytest.mark.parametrize("call", TO_BOOL)
def test_a_complex_number_is_true_by_either_part(call, dtype):
    assert call(dynograd.tensor(EITHER_PART, dtype=dtype)).tolist() == [True, False, True, True, False, True, True]


@pytest.mark.parametrize("kind", [dynograd.int32, dynograd.uint8, dynograd.int64])
@pytest.mark.parametrize("other", [dynograd.float8_e4m3fn, dynograd.float8_e5m2])
def test_float8_is_cut_to_integers_by_its_value(other, kind):
    x = dynograd.tensor([0.0, 1.75, 3.5, 40.0]).to(other)
    assert x.to(kind).tolist() == [0, 1, 3, 40]
    large = dynograd.tensor([float("inf"), float("nan")])
    assert large.to(dynograd.float8_e5m2).to(kind).tolist() == large.to(kind).tolist()


@pytest.mark.parametrize("through", ["half", "bfloat16", "double"])
def test_the_gradient_comes_back_in_the_dtype_of_the_input(through):
    x = dynograd.ones(3, requires_grad=True)
    (getattr(x, through)() * 2).sum().backward()
    assert x.grad.dtype is dynograd.float32 and x.grad.tolist() == [2, 2, 2]


def test_integers_cut_the_history():
    assert not dynograd.ones(2, requires_grad=True).long().requires_grad
