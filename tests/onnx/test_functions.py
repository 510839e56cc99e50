"""Functions on onnxruntime, beside eager, at three sizes that were not recorded."""

import numpy
import pytest

import dynograd as torch
from tests.onnx.functions import FUNCTIONS

pytest.importorskip("onnx", reason="needs the extra onnx")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_the_same_on_onnxruntime_at_three_sizes(name):
    function, shapes, axes = FUNCTIONS[name]
    torch.manual_seed(0)
    args = tuple([torch.randn(*shape) for shape in shapes])
    names = [f"x{number}" for number in range(len(args))]
    dynamic = {f"x{number}": {} for number in range(len(args))}
    for number, axis in axes:
        dynamic[f"x{number}"][axis] = f"n{axis}"

    program = torch.onnx.export(lambda *tensors: function(*tensors), args, input_names=names, dynamic_axes=dynamic)
    assert program.verify() < 1e-4
    others = [3 * torch.randn(*tensor.shape) - 1 for tensor in args]  # by which branches and loops go another way
    results = function(*[tensor.clone() for tensor in others])
    for own, other in zip(program(*others), results if isinstance(results, tuple) else [results], strict=True):
        numpy.testing.assert_allclose(own.numpy(), other.detach().numpy(), rtol=1e-4, atol=1e-4)
