"""Modules on onnxruntime, beside eager, at three sizes that were not recorded."""

import pytest

import dynograd as torch
from tests.support.modules import MODULES, WITH_LENGTHS

pytest.importorskip("onnx", reason="needs the extra onnx")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")


ROWS = {**MODULES, **WITH_LENGTHS}


@pytest.mark.parametrize("name", ROWS)
def test_a_module_gives_the_same_on_onnxruntime_at_three_sizes(name):
    make, example, axes = ROWS[name]
    torch.manual_seed(0)
    args = example()
    names = [f"x{number}" for number in range(len(args))]
    dynamic = {f"x{number}": {} for number in range(len(args))}
    for (number, axis), symbol in axes.items():
        dynamic[f"x{number}"][axis] = symbol
    program = torch.onnx.export(make().eval(), args, input_names=names, dynamic_axes=dynamic)
    assert program.verify() < 1e-4
    shape = program.model_proto.graph.input[0].type.tensor_type.shape.dim
    assert {axis: shape[axis].dim_param for number, axis in axes if number == 0} == {
        axis: symbol for (number, axis), symbol in axes.items() if number == 0
    }
