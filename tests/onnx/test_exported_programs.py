"""Programs of `dynograd.export` leave as ONNX, and models that were loaded from ONNX become programs."""

import io

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.errors import ProgramError
from dynograd.export import Dim
from dynograd.onnx import OnnxError
from examples import sentiment
from tests.export.leaves import assert_same_bits
from tests.support.modules import MODULES

pytest.importorskip("onnx", reason="needs the extra onnx")
pytest.importorskip("onnxruntime", reason="needs the extra onnx")

ROWS = """GELU|Linear of sequences|Embedding|BatchNorm2d|GroupNorm|Conv2d|MaxPool2d|Upsample bilinear|LSTM|MultiheadAttention|TransformerEncoder|
    GPT|LSTM by hand|causal mask|mean over lengths|residual convolutions""".replace("\n    ", "").split("|")


def shapes_of(args, axes):
    return tuple([{axis: name for (of, axis), name in axes.items() if of == number} for number in range(len(args))])


@pytest.mark.parametrize("name", ROWS)
def test_a_program_leaves_without_an_example(name):
    make, example, axes = MODULES[name]
    torch.manual_seed(0)
    module, args = make().eval(), example()
    file = io.BytesIO()
    torch.export.save_program(module, args, file, dynamic_shapes=shapes_of(args, axes))
    file.seek(0)
    program = torch.export.load_program(file)
    exported = torch.onnx.export(program)
    assert exported.verify() < 1e-4
    graph = exported.model_proto.graph
    assert {tensor.name for tensor in graph.initializer} <= set(program.state_dict)
    dims = [[dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in graph.input]
    assert {
        (number, axis): word for number, words in enumerate(dims) for axis, word in enumerate(words) if word
    } == axes
    results = [result.numpy() for result in exported(*args)]
    for result, expected in zip(results, torch.utils._pytree.tree_leaves(module(*args)), strict=True):
        numpy.testing.assert_allclose(result, expected.detach().numpy(), rtol=1e-4, atol=1e-4)


def test_sizes_keep_to_the_bounds_of_their_dim():
    class Places(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(6, 4)

        def forward(self, x, scale):
            return (x + self.table(torch.arange(x.shape[1]))) * scale

    dims = {"x": {0: Dim("n", min=2, max=40), 1: Dim("t", max=6)}, "scale": None}
    args = (torch.randn(3, 5, 4), 2.0)
    program = torch.export.export(Places().eval(), args, dynamic_shapes=dims)
    for exported in (torch.onnx.export(program), torch.onnx.export(Places().eval(), args, dynamic_shapes=dims)):
        assert exported.verify() < 1e-4
        assert [value.name for value in exported.model_proto.graph.input] == ["x"]


def test_rows_leave_by_the_module_alone():
    model = sentiment.Classifier(20, 8, 6).eval()
    rows = torch.RaggedTensor(torch.randint(1, 20, (6, 8)), [3, 1, 2])
    program = torch.export.export(model, (rows,))
    for args in ((), (rows,)):
        with pytest.raises(OnnxError, match="is ragged.*Export the module.*ragged='values'"):
            torch.onnx.export(program, args)


def test_what_is_refused_of_programs():
    draws = torch.export.export(lambda x: nn.functional.dropout(x, 0.5, True), (torch.ones(3, 4),), draws=True)
    with pytest.raises(OnnxError, match="draws random numbers"):
        torch.onnx.export(draws)
    decomposed = torch.export.export(lambda x: torch.linalg.eigvalsh(x), (torch.eye(3),))
    with pytest.raises(OnnxError, match="linalg_eigh.*no form in ONNX"):
        torch.onnx.export(decomposed)
    with pytest.raises(OnnxError, match="the example does not fit.*too many positional arguments"):
        torch.onnx.export(decomposed, (torch.eye(3), torch.eye(3)))


def test_a_loaded_model_that_computes_beside_ops_is_refused():
    make, example, _ = MODULES["Upsample bilinear"]
    module = torch.onnx.load(torch.onnx.export(make().eval(), example()).model_proto)
    with pytest.raises(ProgramError, match="from_numpy is no function that a program may call.*with ops"):
        torch.export.export(module, example())


@pytest.mark.parametrize("name", [name for name in ROWS if name != "Upsample bilinear"])
def test_a_loaded_model_becomes_a_program(name):
    make, example, axes = MODULES[name]
    torch.manual_seed(0)
    args = example()
    names = [f"x{number}" for number in range(len(args))]
    shapes = dict(zip(names, shapes_of(args, axes)))
    model = torch.onnx.export(make().eval(), args, input_names=names, dynamic_shapes=shapes).model_proto
    module, file = torch.onnx.load(model), io.BytesIO()
    torch.export.save_program(module, args, file, dynamic_shapes=shapes)
    file.seek(0)
    program = torch.export.load_program(file)
    with torch.no_grad():
        assert_same_bits(program(*args), module(*args))
    assert set(program.state_dict) <= set(module.state_dict())
    assert torch.onnx.export(program).verify() < 1e-4
