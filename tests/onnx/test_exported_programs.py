"""Programs of `dynograd.export` leave as ONNX, and models that were loaded from ONNX become programs."""

import io

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.compat.inner.higher_order import scan
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


def branching(x):
    """A scan with a branch, then a function of each row."""

    def step(state, row):
        state = torch.cond(
            row.sum() > 0, lambda state: state * 2 - row, lambda state: state + row * x.shape[0], (state,)
        )
        return state, state.sum()

    last, sums = scan(step, torch.zeros(2), x)
    return last, sums, torch.vmap(lambda row: row.softmax(0) * last)(x)


def test_functions_within_a_program_are_graphs():
    program = torch.export.export(branching, (torch.randn(5, 2),), dynamic_shapes=({0: "n"},))
    exported = torch.onnx.export(program)
    assert exported.verify() < 1e-4
    assert {"Scan"} <= {node.op_type for node in exported.model_proto.graph.node}
    for size in (1, 2, 9):
        x = torch.randn(size, 2)
        for result, expected in zip(exported(x), branching(x), strict=True):
            numpy.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


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


def test_rows_leave_as_they_were_asked_for():
    model = sentiment.Classifier(20, 8, 6).eval()
    rows = torch.RaggedTensor(torch.randint(1, 20, (6, 8)), [3, 1, 2])
    program = torch.export.export(model, (rows,))
    for args in ((), (rows,)):
        with pytest.raises(OnnxError, match="is ragged.*ragged='values'.*ragged='padded'"):
            torch.onnx.export(program, args)


def test_what_is_refused_of_programs():
    draws = torch.export.export(lambda x: nn.functional.dropout(x, 0.5, True), (torch.ones(3, 4),), draws=True)
    with pytest.raises(OnnxError, match="draws random numbers"):
        torch.onnx.export(draws)
    no_form = torch.export.export(lambda x: torch.igamma(x, x), (torch.eye(3),))
    with pytest.raises(OnnxError, match="igamma.*no form in ONNX"):
        torch.onnx.export(no_form)
    with pytest.raises(OnnxError, match="the example does not fit.*too many positional arguments"):
        torch.onnx.export(no_form, (torch.eye(3), torch.eye(3)))


RESIZES = [  # (options, whether the sizes may be any)
    ({"scale_factor": 2}, True),
    ({"scale_factor": 1.5, "mode": "bilinear"}, True),
    ({"scale_factor": 0.5, "mode": "bilinear"}, True),
    ({"scale_factor": 2, "mode": "bilinear", "align_corners": True}, True),
    ({"scale_factor": 2, "mode": "bicubic"}, True),
    ({"size": (7, 3), "mode": "bilinear"}, True),
    ({"size": (7, 9), "mode": "nearest-exact"}, False),
    ({"size": (3, 4), "mode": "bilinear", "antialias": True}, False),
]


@pytest.mark.parametrize("options, of_any_size", RESIZES)
def test_pictures_are_resized_in_models_and_in_programs_of_them(options, of_any_size):
    def resized(x):
        return nn.functional.interpolate(x, **options)

    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, 7)
    dims = ({0: "n", 2: "h", 3: "w"} if of_any_size else {0: "n"},)
    exported = torch.onnx.export(resized, x, dynamic_shapes=dims)
    module = torch.onnx.load(exported.model_proto)
    program = torch.export.export(module, (x,), dynamic_shapes=dims)
    for shape in [(1, 3, 8, 6), (3, 3, 9, 11)] if of_any_size else [(1, 3, 5, 7)]:
        other = torch.randn(*shape)
        for result in (exported(other)[0], module(other), program(other), torch.onnx.export(program)(other)[0]):
            torch.testing.assert_close(result, resized(other), rtol=1e-4, atol=1e-4)


def test_a_loaded_model_that_computes_beside_ops_is_refused():
    module = torch.onnx.load(torch.onnx.export(lambda x: torch.unique(x), torch.randn(6)).model_proto)
    with pytest.raises(ProgramError, match=r"reads values that depend on its inputs \(numpy\)"):
        torch.export.export(module, (torch.randn(6),))


@pytest.mark.parametrize("name", ROWS)
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
