"""Functions on onnxruntime, beside eager, at three sizes that were not recorded."""

import math

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


@pytest.mark.parametrize("opset", [17, 18, 19, 20, 22, 23])
def test_structures_and_indices_in_each_opset(opset):
    def program(x):
        results = []
        for name in ("cond", "while_loop", "index_put", "adaptive max pool of uneven windows", "fold of columns"):
            function, shapes, _ = FUNCTIONS[name]
            result = function(
                x if len(shapes[0]) == 2 else x.mean() + torch.arange(math.prod(shapes[0])).reshape(shapes[0]).sin()
            )
            results += list(result) if isinstance(result, tuple) else [result]
        return results

    torch.manual_seed(0)
    exported = torch.onnx.export(program, (torch.randn(3, 4),), opset_version=opset)
    assert exported.model_proto.opset_import[0].version == opset
    assert exported.verify() < 1e-4
