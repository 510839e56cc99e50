"""Annotations of jaxtyping with tensors of dynograd, checked at run time."""

import inspect
import typing

import pytest

import dynograd as torch
from dynograd import Tensor

jaxtyping = pytest.importorskip("jaxtyping", reason="jaxtyping, of the extra `types`")


def fits(value, annotation):
    return annotation in (typing.Any, inspect.Parameter.empty) or isinstance(value, annotation)


def checked(function):
    """A run-time type checker in a few lines: jaxtyping takes any, such as beartype or typeguard."""
    signature = inspect.signature(function)

    def call(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            assert fits(value, signature.parameters[name].annotation), name
        result = function(*args, **kwargs)
        assert fits(result, signature.return_annotation), "return"
        return result

    call.__signature__, call.__name__, call.__module__ = signature, function.__name__, function.__module__
    call.__qualname__ = function.__qualname__
    return call


@jaxtyping.jaxtyped(typechecker=checked)
def mean_over_time(x: jaxtyping.Float[Tensor, "b t d"]) -> jaxtyping.Float[Tensor, "b d"]:
    return x.mean(1)


@jaxtyping.jaxtyped(typechecker=checked)
def wrong_mean(x: jaxtyping.Float[Tensor, "b t d"]) -> jaxtyping.Float[Tensor, "b d"]:
    return x.mean(2)


def test_shapes_that_fit():
    assert mean_over_time(torch.ones(2, 3, 4)).shape == (2, 4)
    assert mean_over_time(torch.ones(2, 3, 4, dtype=torch.bfloat16)).dtype is torch.bfloat16


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (mean_over_time, torch.ones(2, 3)),
        (mean_over_time, torch.ones(2, 3, 4, dtype=torch.int64)),
        (mean_over_time, [[[1.0]]]),
        (wrong_mean, torch.ones(2, 3, 4)),
    ],
    ids=["dims", "dtype", "list", "result"],
)
def test_mismatches_are_errors(function, x):
    with pytest.raises(jaxtyping.TypeCheckError):
        function(x)


@pytest.mark.parametrize(
    ("kind", "shape", "x", "expected"),
    [
        ("Float", "b 4", torch.ones(2, 4), True),
        ("Float", "b 4", torch.ones(2, 3), False),
        ("Int", "*dims", torch.ones(2, 3, dtype=torch.int32), True),
        ("Int", "*dims", torch.ones(2, 3), False),
        ("Bool", "n", torch.ones(3) > 0, True),
        ("Complex", "n", torch.ones(3, dtype=torch.complex64), True),
        ("Float16", "n", torch.ones(3, dtype=torch.float16), True),
        ("Float32", "n", torch.ones(3, dtype=torch.float64), False),
        ("Float", "b t", torch.ragged_tensor([[1.0, 2.0], [3.0]]), True),
    ],
)
def test_isinstance(kind, shape, x, expected):
    assert isinstance(x, getattr(jaxtyping, kind)[Tensor, shape]) is expected
