"""dynograd's printing against PyTorch's own, over random arrays of every dtype."""

import contextlib
import random

import ml_dtypes
import numpy
import pytest
import torch

from dynograd.base import dtypes
from dynograd.tensor import printing

DTYPES = {
    "float32": 5,
    "float64": 2,
    "float16": 1,
    "bfloat16": 1,
    "int64": 1,
    "int32": 1,
    "uint8": 1,
    "int8": 1,
    "bool": 1,
    "complex64": 2,
    "complex128": 1,
}
OPTIONS = [
    {},
    {},
    {},
    {"precision": 2},
    {"precision": 0},
    {"edgeitems": 1, "threshold": 5},
    {"edgeitems": 0, "threshold": 3},
    {"linewidth": 40},
    {"sci_mode": True},
    {"sci_mode": False},
    {"profile": "short"},
    {"profile": "full"},
    {"threshold": 20, "linewidth": 100},
]


def random_shape(chance):
    ndim = chance.choice([0, 1, 1, 1, 2, 2, 2, 3, 3, 4])
    longest = chance.choice([3, 8, 30] if ndim > 2 else [5, 30, 300, 2000] if ndim == 1 else [4, 12, 60])
    return tuple(
        chance.choice([0, 1, chance.randint(1, longest)]) if chance.random() < 0.2 else chance.randint(1, longest)
        for _ in range(ndim)
    )


def random_numbers(chance, shape):
    stream = numpy.random.default_rng(chance.randrange(2**32))
    style = chance.choice(["unit", "normal", "whole", "wide", "huge", "tiny", "ratio", "zeros", "edge"])
    created = {
        "unit": lambda: stream.random(shape),
        "normal": lambda: stream.normal(size=shape),
        "whole": lambda: stream.integers(-50, 50, shape).astype(float),
        "wide": lambda: stream.normal(size=shape) * 10.0 ** stream.integers(-6, 6, shape),
        "huge": lambda: numpy.floor(stream.normal(size=shape) * 1e9),
        "tiny": lambda: stream.normal(size=shape) * 1e-7,
        "ratio": lambda: stream.integers(1, 1001, shape) * 1.0,
        "zeros": lambda: numpy.zeros(shape),
        "edge": lambda: stream.choice([0.99995, 9.99999, -0.0, 0.00005, 1e8, 1e-4, 999.99996], shape),
    }[style]()
    created = numpy.asarray(created)
    if chance.random() < 0.3:
        created = numpy.where(
            stream.random(shape) < 0.2, stream.choice([numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0], shape), created
        )
    return created


def random_pair(number):
    """An array and the equal torch tensor."""
    chance = random.Random(number)
    name = chance.choices(list(DTYPES), list(DTYPES.values()))[0]
    shape = random_shape(chance)
    numbers = random_numbers(chance, shape)
    with numpy.errstate(all="ignore"):
        if name == "bool":
            array = numbers > 0.3
        elif name.startswith("complex"):
            array = numpy.empty(shape, name)
            array.real, array.imag = numbers, random_numbers(chance, shape)
        elif "int" in name:
            array = (
                numpy.nan_to_num(numbers, posinf=100, neginf=-100).clip(-(2**62), 2**62).astype("int64").astype(name)
            )
        elif name == "bfloat16":
            array = numpy.asarray(numbers.astype(numpy.float32)).astype(ml_dtypes.bfloat16)
        else:
            array = numbers.astype(name)
    array = numpy.asarray(array)
    if name == "bfloat16":
        return chance, array, torch.from_numpy(array.view(numpy.int16).copy()).view(torch.bfloat16)
    return chance, array, torch.from_numpy(array.copy())


def torch_dtype(array):
    """The suffix under torch's name: the longer name of dynograd would break other lines."""
    suffix = printing.dtype_suffix(dtypes.of_array(array), array.size)
    return suffix and suffix.replace("dynograd.", "torch.")


@contextlib.contextmanager
def both_options(options):
    before = torch._tensor_str.get_printoptions()
    torch.set_printoptions(**options)
    try:
        with printing.printoptions(**options):
            yield
    finally:
        torch.set_printoptions(**before)


@pytest.mark.parametrize("start", range(0, 600, 50))
def test_random_tensors_print_as_in_torch(start):
    for number in range(start, start + 50):
        chance, array, expected = random_pair(number)
        options, gradient = chance.choice(OPTIONS), chance.choice(["", "", "leaf", "node"])
        suffixes = {}
        if gradient and (expected.is_floating_point() or expected.is_complex()):
            expected.requires_grad_()
            suffixes["requires_grad"] = True
            if gradient == "node":
                expected = expected.view(expected.shape)
                suffixes["grad_fn_name"] = f"<{type(expected.grad_fn).__name__}>"
        with both_options(options):
            text = printing.format_tensor(array, dtype_suffix=torch_dtype(array), **suffixes)
            assert text == repr(expected), (number, options)


def test_parameters_of_subclasses_indent_by_their_name():
    class Weighted(torch.Tensor):
        pass

    array = numpy.arange(40.0, dtype=numpy.float32).reshape(2, 20)
    expected = torch.from_numpy(array).as_subclass(Weighted)
    assert printing.format_tensor(array, prefix="Weighted(") == repr(expected)


def test_tensors_without_memory():
    expected = torch.empty(2, 3, device="meta", dtype=torch.int64)
    text = printing.format_tensor(None, contents="...", size=(2, 3), dtype_suffix="torch.int64", device_suffix="'meta'")
    assert text == repr(expected)


def test_default_double_hides_its_dtypes():
    torch.set_default_dtype(torch.float64)
    dtypes.set_default_dtype(dtypes.float64)
    try:
        for name in ("float32", "float64", "complex64", "complex128"):
            for shape in ((2,), (0,)):
                array = numpy.zeros(shape, name)
                text = printing.format_tensor(array, dtype_suffix=torch_dtype(array))
                assert text == repr(torch.from_numpy(array))
    finally:
        torch.set_default_dtype(torch.float32)
        dtypes.set_default_dtype(dtypes.float32)


def test_options_are_torchs():
    for options in OPTIONS:
        with both_options(options):
            assert printing.get_printoptions() == torch._tensor_str.get_printoptions()
