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
        dynamic[f"x{number}"][axis] = f"n{axis}_{args[number].shape[axis]}"

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


STRUCTURES = {
    "cond": "If",
    "cond in cond": "If",
    "while_loop": "Loop",
    "while_loop after cond": "Loop",
    "scan": "Scan",
    "scan in reverse": "Scan",
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_structure_of_a_loaded_model_leaves_as_one(name):
    function, shapes, axes = FUNCTIONS[name]
    torch.manual_seed(0)
    args = tuple([torch.randn(*shape) for shape in shapes])
    dynamic = {"x": {axis: f"n{axis}" for _, axis in axes}}
    model = torch.onnx.export(lambda x: function(x), args, dynamic_axes=dynamic).model_proto
    again = torch.onnx.export(torch.onnx.load(model), args, input_names=["x"], dynamic_axes=dynamic, verify=True)
    assert STRUCTURES[name] in [node.op_type for node in again.model_proto.graph.node]
    other = 3 * torch.randn(*shapes[0]) - 1  # by which branches and loops go another way
    for own, expected in zip(again(other), torch.utils._pytree.tree_leaves(function(other)), strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-4)
