"""What an exported model is called, what it holds, what is refused, and how it is saved."""

import dataclasses
import errno
import io
import subprocess
import sys

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.base import files
from dynograd.export import Dim
from dynograd.nn.layers.rnn import _ops
from dynograd.onnx import OnnxError
from dynograd.onnx.__main__ import main
from dynograd.onnx.patterns import pattern_of
from tests.support.modules import LanguageModel, WithLengths, convnet, tokens
from tests.support.system_faults import FaultyOs

onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")

X = torch.randn(3, 4)


def linear():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()


def kinds(program):
    return [node.op_type for node in program.model_proto.graph.node]


def test_weights_keep_their_names_and_shared_ones_are_written_once():
    program = torch.onnx.export(LanguageModel().eval(), (tokens(2, 5),))
    names = [tensor.name for tensor in program.model_proto.graph.initializer]
    assert "blocks.1.mlp.0.weight" in names and "embedding.weight" in names and "head.weight" not in names


@pytest.mark.parametrize("name", ["constant_0", "constants.number_0", "Constant_0", "output", "node_Constant_0"])
def test_a_parameter_may_have_any_name(name):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            *groups, last = name.split(".")
            owner = self
            for group in groups:
                owner.add_module(group, nn.Module())
                owner = getattr(owner, group)
            owner.register_parameter(last, nn.Parameter(torch.tensor([2.0, 3.0, 4.0, 5.0])))
            self.register_buffer("shift", torch.tensor([0.5, 1.5, 2.5, 3.5]), persistent=False)

        def forward(self, x):
            return x * dict(self.named_parameters())[name] * 7.0 + self.shift

    model = Scaled().eval()
    program = torch.onnx.export(model, X, output_names=["result"], verify=True)
    assert [tensor.name for tensor in program.model_proto.graph.initializer] == [name]
    loaded = torch.onnx.load(program.model_proto)
    torch.testing.assert_close(loaded(X), model(X))
    assert len(list(loaded.parameters())) == len(loaded.state_dict()) == 1
    again = torch.onnx.load(torch.onnx.export(loaded, X, output_names=["result"]).model_proto)
    torch.testing.assert_close(again(X), model(X))
    assert list(again.state_dict()) == list(loaded.state_dict())


def test_a_parameter_that_is_called_as_an_input_or_output_gets_a_number():
    model = linear()
    names = {"input_names": ["0.weight"], "output_names": ["2.bias"]}
    program = torch.onnx.export(model, X, **names, verify=True)
    weights = sorted([tensor.name for tensor in program.model_proto.graph.initializer])
    assert weights == ["0.bias", "0.weight_0", "2.bias_0", "2.weight"]


def test_nodes_say_the_line_and_the_module():
    node = torch.onnx.export(linear(), X).model_proto.graph.node[0]
    assert node.output[0] == "0/Gemm_0" and "test_export.py" in node.doc_string
    assert {entry.key: entry.value for entry in node.metadata_props}["module"] == "0"


def test_names_of_inputs_and_outputs_are_those_asked_for_or_those_of_the_program():
    def both(left, right):
        return {"sum": left + right, "product": left * right}

    graph = torch.onnx.export(both, (X, X)).model_proto.graph
    assert [value.name for value in graph.input] == ["left", "right"]
    assert [value.name for value in graph.output] == ["output_0", "output_1"]
    graph = torch.onnx.export(
        both, (X,), kwargs={"right": X}, input_names=["a", "b"], output_names=["c", "d"]
    ).model_proto.graph
    assert [value.name for value in (*graph.input, *graph.output)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("opset", range(17, 24))
def test_each_opset_gives_the_same(opset):
    x = torch.randn(2, 3, 12, 12)
    program = torch.onnx.export(convnet().eval(), (x,), opset_version=opset, dynamic_axes={"input": [0]}, verify=True)
    assert program.model_proto.opset_import[0].version == opset
    assert (
        torch.onnx.export(
            LanguageModel().eval(), (tokens(2, 5),), opset_version=opset, dynamic_axes={"tokens": [0, 1]}
        ).verify()
        < 1e-4
    )


DYNAMIC = [
    {"dynamic_axes": {"input": {0: "batch"}}},
    {"dynamic_axes": {"input": {0: "batch"}, "output": {0: "batch"}}},
    {"dynamic_shapes": {"input": {0: "batch"}}},
    {"dynamic_shapes": ({0: "batch"},)},
    {"dynamic_shapes": {"input": ("batch", None)}},
    {"dynamic_shapes": {"input": (Dim("batch"), Dim.STATIC)}},
    {"dynamic_shapes": {"data": {0: "batch"}}, "input_names": ["data"]},
]


@pytest.mark.parametrize("options", DYNAMIC)
def test_both_forms_of_dynamic_axes(options):
    graph = torch.onnx.export(linear(), (X,), verify=True, **options).model_proto.graph
    assert [dim.dim_param or dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim] == ["batch", 4]
    assert [dim.dim_param or dim.dim_value for dim in graph.output[0].type.tensor_type.shape.dim] == ["batch", 2]


def test_sizes_of_tensors_in_lists_are_nested_as_the_argument_is():
    def both(pair, scale):
        return pair[0] * scale["x"], pair[1]

    shapes = {"pair": [{0: Dim("n")}, {1: Dim.AUTO}], "scale": {"x": {-2: "n"}}}
    program = torch.onnx.export(both, ([X, X], {"x": X}), dynamic_shapes=shapes, verify=True)
    sizes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in program.model_proto.graph.input
    }
    assert sizes == {"pair_0": ["n", 4], "pair_1": [3, "pair_1_dim_1"], "scale_x": ["n", 4]}


LAYERS = {"lstm_layer": (4, 2), "gru_layer": (3, 1), "rnn_layer": (1, 1)}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrent_layer_with_lengths_has_sequence_lens(name, reverse):
    gates, states = LAYERS[name]
    weights = [torch.randn(gates * 6, *size) for size in ((4,), (6,), (), ())]
    layer = _ops[name]

    def program(x, start, lengths):
        return layer(x, *[start] * states, *weights, lengths, reverse=reverse)

    program_of = torch.onnx.export(program, (torch.randn(5, 3, 4), torch.randn(3, 6), torch.tensor([5, 2, 3])))
    assert program_of.verify() < 1e-4
    node = next(node for node in program_of.model_proto.graph.node if node.op_type in ("LSTM", "GRU", "RNN"))
    assert node.input[4]


def test_packing_by_lengths_gives_sequence_lens():
    model = WithLengths(nn.LSTM(4, 6, batch_first=True)).eval()
    program = torch.onnx.export(model, (torch.randn(3, 5, 4), torch.tensor([5, 2, 3])))
    node = next(node for node in program.model_proto.graph.node if node.op_type == "LSTM")
    assert node.input[4]
    assert program.verify() < 1e-4
    x, lengths = torch.randn(3, 5, 4), torch.tensor([1, 5, 4])
    torch.testing.assert_close(program(x, lengths)[0], model(x, lengths), rtol=1e-4, atol=1e-4)


def test_rows_that_are_packed_and_padded_lose_what_is_behind_their_ends():
    def program(x, lengths):
        rows = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(rows, batch_first=True, padding_value=-1.0)[0]

    assert torch.onnx.export(program, (torch.randn(5, 3, 4), torch.tensor([2, 5, 1]))).verify() < 1e-4


class OfPacked(nn.Module):
    def __init__(self, way):
        super().__init__()
        self.way, self.layer = way, nn.LSTM(4, 6, batch_first=True)

    def forward(self, x, lengths):
        rows = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        if self.way == "data":
            return rows.batch_sizes
        total = 9 if self.way == "total_length" else None
        return nn.utils.rnn.pad_packed_sequence(self.layer(rows)[0], batch_first=True, total_length=total)[0]


@pytest.mark.parametrize(
    ("way", "longest", "words"),
    [
        ("data", 5, "batch_sizes of a PackedSequence.*pad_packed_sequence"),
        ("total_length", 5, "9 steps.*padded to 5.*total_length"),
        ("short", 4, "4 steps.*padded to 5.*longest row"),
    ],
)
def test_packed_rows_that_are_refused(way, longest, words):
    with pytest.raises(OnnxError, match=words):
        torch.onnx.export(OfPacked(way).eval(), (torch.randn(2, 5, 4), torch.tensor([3, longest])))


def test_a_layer_is_one_node_and_attention_over_nothing_gives_zero():
    assert kinds(torch.onnx.export(nn.LSTM(4, 6).eval(), (torch.randn(5, 2, 4),))).count("LSTM") == 1
    mask = torch.tensor([[True, False], [False, False]])
    attention = nn.functional.scaled_dot_product_attention
    q = torch.randn(1, 2, 2, 8)
    assert torch.onnx.export(lambda q, mask: attention(q, q, q, attn_mask=mask), (q, mask)).verify() < 1e-4


def read(x):
    return x + 1 if x.sum() > 0 else x


def item(x):
    return x * x.max().item()


def picked(x):
    return x.sign().unique_consecutive().sum() + torch.cond(
        x.sum() > 0, lambda z: z[z > 0].sum(), lambda z: z.sum(), (x,)
    )


def looped(x):
    total = x[0]
    for row in range(1, x.shape[0]):
        total = total + x[row]
    return total


def drawn(x):
    return nn.functional.dropout(x, 0.5, True)


def branching(x):
    return x * 2 if x.shape[0] < 100 else x + 1


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = self.mean * 0.9 + x.mean(0)
        return x - self.mean


def test_a_model_that_assigns_a_buffer_stays_as_it_was():
    model = Remembers().eval()
    mean = model.mean
    with pytest.raises(
        OnnxError, match="Remembers assigns other tensors to mean.*test_export.py.*as an input, and return"
    ):
        torch.onnx.export(model, (torch.randn(3, 4),))
    assert model.mean is mean and mean.tolist() == [0.0] * 4


REFUSED = {
    "goes by a size": (
        branching,
        {"dynamic_axes": {"x": [0]}},
        "branching compares sizes.*another way at.*100.*test_export.py:.*in branching.*Bound the axis.*Dim",
    ),
    "reads a truth": (read, {}, "reads values.*__bool__.*test_export.py:.* in read.*dynograd.where"),
    "reads a number": (item, {}, "reads values.*item.*test_export.py"),
    "shape of values": (picked, {}, "depends on values.*test_export.py.*dynograd.where"),
    "gradients": (
        lambda x: torch.autograd.grad((x * x).sum(), x)[0],
        {},
        "takes gradients while it runs.*Write the derivative",
    ),
    "a loop over a dynamic axis": (
        looped,
        {"dynamic_axes": {"x": [0]}},
        "how many ops looped calls depends on the sizes.*leave that axis out",
    ),
    "draws": (drawn, {}, "draws random numbers.*eval"),
    "no form": (torch.igamma, {"args": (torch.ones(3), torch.ones(3))}, "igamma.*no form in ONNX.*docs/support.md"),
    "a pool to a size of the input's": (
        lambda x: nn.functional.adaptive_avg_pool1d(x, x.shape[1] // 2 + 1),
        {"args": (torch.ones(2, 6),), "dynamic_axes": {"x": [1]}},
        r"adaptive_avg_pool to a size that follows from the input's \(4, .*has no form",
    ),
    "memory behind the tensor": (
        lambda x: (x * 2).T.as_strided((2, 2), (1, 2)),
        {},
        r"as_strided of size \(2, 2\) and stride \(1, 2\) sees memory.*test_export.py.*x.contiguous",
    ),
    "training": (nn.Sequential(nn.Linear(4, 2), nn.Dropout()), {}, "training mode.*model.eval"),
    "opset": (linear(), {"opset_version": 16}, "17 to 23, got 16"),
    "both forms": (linear(), {"dynamic_axes": {"input": [0]}, "dynamic_shapes": {"input": {0: "n"}}}, "got both"),
    "unknown input": (linear(), {"dynamic_axes": {"y": [0]}}, "'y', but the inputs are input"),
    "no such axis": (linear(), {"dynamic_axes": {"input": [2]}}, "has 2 dims.*no axis 2"),
    "ragged axes": (
        lambda x: x.sum(1),
        {"args": (torch.ragged_tensor([[1.0], [2.0, 3.0]]),), "ragged": "values", "dynamic_axes": {"x": [1]}},
        "x is ragged, and its numbers of rows.*Name axis 0, if other axes are as long",
    ),
    "outside the bounds": (linear(), {"dynamic_shapes": ({0: Dim("n", max=2)},)}, "'n' is 1 to 2.*example has 3"),
    "one name for two sizes": (linear(), {"dynamic_axes": {"input": {0: "n", 1: "n"}}}, "'n' has size 3.*and 4"),
    "too many names": (linear(), {"input_names": ["a", "b"]}, "expected 1 input_names.*got 2"),
    "names that are alike": (lambda x: (x + 1, x + 2), {"output_names": ["y", "y"]}, "must differ"),
    "fewer dims at size 1": (
        lambda x: x.squeeze(),
        {"dynamic_axes": {"x": [0]}},
        r"have \[2\] dims at .* and \[1\] at .*: 1.*Name the dim.*min=2",
    ),
    "a share that is a product": (
        lambda x: x[: int(x.shape[0] * 0.3) + 1],
        {"dynamic_axes": {"x": [0]}},
        "is no formula of them.*test_export.py.*bound it",
    ),
    "complex inputs": (
        lambda x: x.abs(),
        {"args": (torch.ones(2, dtype=torch.complex64),)},
        "real inputs and outputs, got x of .*complex64.*view_as_real",
    ),
    "complex results": (lambda x: x * 1j, {}, "got output of .*complex64.*Return view_as_real"),
    "no form of complex numbers": (lambda x: (x * 1j).tanh().real, {}, "tanh of complex numbers has no form"),
    "no tensor": (linear(), {"args": (2,)}, "expected a tensor among the arguments.*got none"),
    "other results": (lambda x: "text", {}, "gives str.*Return tensors"),
    "ragged": (linear(), {"args": (torch.ragged_tensor([[1.0], [2.0, 3.0]]),)}, "ragged.*offsets"),
    "translations": (linear(), {"custom_opsets": {"a": 1}}, "custom_opsets is not here"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_who_where_and_the_way_out(name):
    model, options, words = REFUSED[name]
    options = dict(options)
    with pytest.raises(OnnxError, match=f"(?s)onnx.export: .*{words}"):
        torch.onnx.export(model, options.pop("args", (X,)), **options)


def test_a_model_in_bfloat16_is_saved_and_says_what_onnxruntime_lacks(tmp_path):
    program = torch.onnx.export(linear().bfloat16(), X.bfloat16(), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").exists()
    with pytest.raises(OnnxError, match=r"no kernel.*bfloat16.*model.float\(\)"):
        program.verify()


def test_half_types_are_compared_by_their_precision():
    program = torch.onnx.export(linear().half(), X.half())
    assert program.verify() < 8e-3
    bias = next(tensor for tensor in program.model_proto.graph.initializer if tensor.name == "2.bias")
    bias.raw_data = numpy.full(2, 3, numpy.float16).tobytes()
    with pytest.raises(OnnxError, match="at most 0.008"):
        program.verify()


def test_a_dataclass_gives_its_fields():
    @dataclasses.dataclass
    class Scores:
        logits: torch.Tensor
        states: list
        loss: torch.Tensor | None = None

    program = torch.onnx.export(lambda x: Scores(x * 2, [x + 1]), X)
    assert len(program.model_proto.graph.output) == 2 and program.verify() < 1e-4


def test_an_unknown_argument_is_an_error_and_an_idle_one_is_not():
    torch.onnx.export(linear(), X, verbose=False, do_constant_folding=True)
    with pytest.raises(TypeError, match="'input_name'"):
        torch.onnx.export(linear(), X, input_name=["x"])


def test_reading_is_as_before_after_a_refusal():
    with pytest.raises(OnnxError):
        torch.onnx.export(read, X)
    assert torch.Tensor.item.__name__ == "item" and bool(torch.tensor(True))


def test_verify_finds_a_model_that_differs():
    program = torch.onnx.export(linear(), X)
    bias = next(tensor for tensor in program.model_proto.graph.initializer if tensor.name == "2.bias")
    bias.raw_data = numpy.full(2, 3, numpy.float32).tobytes()
    with pytest.raises(OnnxError, match="output differs from the program by"):
        program.verify()


def test_a_program_is_saved_to_a_path_a_file_and_beside_its_weights(tmp_path):
    model = linear()
    path, file = tmp_path / "model.onnx", io.BytesIO()
    program = torch.onnx.export(model, X, path)
    program.save(file)
    assert path.read_bytes() == file.getvalue()
    large = nn.Linear(64, 64).eval()
    apart = tmp_path / "apart.onnx"
    x = torch.randn(2, 64)
    torch.onnx.export(large, x, apart, external_data=True)
    assert (tmp_path / "apart.onnx.data").stat().st_size >= 64 * 64 * 4 > apart.stat().st_size
    session = onnxruntime.InferenceSession(str(apart))
    assert numpy.allclose(session.run(None, {"input": x.numpy()})[0], large(x).detach().numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="BytesIO has no path"):
        program.save(io.BytesIO(), external_data=True)
    assert torch.allclose(program(X)[0], model(X), atol=1e-6)


@pytest.mark.parametrize("place", range(3))
def test_a_full_disk_leaves_the_old_model(tmp_path, monkeypatch, place):
    """The disk is full at each write in turn: of the model, and of its two weights."""
    path = tmp_path / "model.onnx"
    program = torch.onnx.export(nn.Linear(64, 64), (torch.randn(2, 64),))
    program.save(path, external_data=True)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    other = torch.onnx.export(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), (torch.randn(2, 64),))
    monkeypatch.setattr(files, "os", FaultyOs(place, errno.ENOSPC, ("write",)))
    with pytest.raises(OnnxError, match=r"ONNXProgram.save: could not write .* No space left on device; .* untouched"):
        other.save(path, external_data=True)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_show_lists_a_model(tmp_path, capsys):
    path = tmp_path / "model.onnx"
    torch.onnx.export(linear(), X, path, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    assert main(["show", str(path)]) == 0
    text = capsys.readouterr().out
    for words in (
        "opset ai.onnx 21",
        "2 Gemm",
        "x: float[batch, 4]",
        "0.weight: float[8, 4]",
        "= Relu(0/Gemm_0)   # test_export.py:",
    ):
        assert words in text
    path.write_bytes(b"no model")
    assert main(["show", str(path)]) == 1
    assert "no ONNX model" in capsys.readouterr().out


PATTERNS = {
    "filled": lambda n: numpy.full((n, 2), 3.0, numpy.float32),
    "range": lambda n: numpy.arange(1, 2 * n, 2),
    "range of numbers": lambda n: numpy.arange(n, dtype=numpy.float32),
    "band of truths": lambda n: numpy.tri(n, n, dtype=bool),
    "its opposite": lambda n: ~numpy.tri(n, n + 1, 1, dtype=bool),
    "minus infinity above": lambda n: numpy.where(
        numpy.tri(n, n, dtype=bool), numpy.float32(0), numpy.float32(-numpy.inf)
    ),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_tensors_that_a_program_makes_are_so_at_any_size(name):
    def program(x):
        return (
            torch.tensor(PATTERNS[name](x.shape[0])) | (x[:1, :1] > 9)
            if "tru" in name or "opp" in name
            else x.sum() * torch.tensor(PATTERNS[name](x.shape[0]))
        )

    assert torch.onnx.export(program, (torch.rand(3, 3),), dynamic_axes={"x": {0: "n", 1: "n"}}).verify() < 1e-4


def test_other_arrays_have_no_pattern():
    assert pattern_of([numpy.arange(n) ** 2 for n in (3, 5, 8)]) is None
    with pytest.raises(OnnxError, match="neither filled, nor a range"):
        torch.onnx.export(
            lambda x: x + torch.tensor([float(n * n) for n in range(x.shape[0])]),
            (torch.rand(3),),
            dynamic_axes={"x": [0]},
        )


def test_without_the_extra_the_error_says_what_to_install():
    program = "import sys; sys.modules['onnx'] = None; import dynograd as d; d.onnx.export(d.nn.ReLU(), d.ones(2))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'dynograd[onnx]'" in result.stderr


@pytest.mark.parametrize("is_exported", [torch.compiler.is_exporting, torch.onnx.is_in_onnx_export])
def test_models_are_told_that_they_are_exported(is_exported):
    def checked(x):
        if not is_exported() and x.sum() < 0:
            raise ValueError("less than nothing")
        return x * 2

    program = torch.onnx.export(checked, (torch.ones(2),))
    assert program(-torch.ones(2))[0].tolist() == [-2.0, -2.0]
    assert not is_exported()


def test_the_mode_of_an_export():
    """As in `timm.utils.onnx`; a model that trains is no model for other runtimes."""
    options = {"operator_export_type": torch.onnx.OperatorExportTypes.ONNX_ATEN_FALLBACK}
    for mode in (torch.onnx.TrainingMode.EVAL, torch.onnx.TrainingMode.PRESERVE):
        assert torch.onnx.export(linear(), X, training=mode, **options).verify() < 1e-5
    with pytest.raises(torch.onnx.OnnxExporterError, match=r"expected training=TrainingMode.EVAL .*, got TRAINING"):
        torch.onnx.export(linear(), X, training=torch.onnx.TrainingMode.TRAINING)


DERIVED = [
    (lambda x, m: torch.cat([x, x[:1]]) * m, lambda n: (n, n + 1), {"x": {0: "past"}, "m": {0: "past + 1"}}),
    (lambda x, m: x[: x.shape[0] // 2] + m[0], lambda n: (2 * n, 1), {"x": {0: "2*n"}}),
]


@pytest.mark.parametrize("function, sizes, axes", DERIVED)
def test_axes_whose_sizes_follow_from_another(function, sizes, axes):
    program = torch.onnx.export(function, tuple([torch.randn(size) for size in sizes(4)]), dynamic_axes=axes)
    assert program.verify() < 1e-5
    names = [[dim.dim_param for dim in value.type.tensor_type.shape.dim] for value in program.model_proto.graph.input]
    assert names[0] + names[1] == [axes["x"][0], axes.get("m", {0: ""})[0]]
    for n in (1, 3, 20):
        args = [torch.randn(size) for size in sizes(n)]
        torch.testing.assert_close(program(*args)[0], function(*args))


def test_a_number_that_is_no_formula_of_sizes_at_small_ones_is_refused():
    with pytest.raises(OnnxError, match="is no formula of them"):
        torch.onnx.export(
            lambda x: x.new_zeros(1 << (x.shape[0] - 1).bit_length()), (torch.randn(5),), dynamic_axes={"x": {0: "n"}}
        )


def in_patches(x):
    assert x.shape[0] % 4 == 0, "no whole patches"
    return x.reshape(-1, 4).sum(1)


def test_axes_that_are_multiples():
    program = torch.onnx.export(in_patches, (torch.randn(12),), dynamic_axes={"x": {0: "4*n"}}, verify=True)
    x = torch.randn(40)
    torch.testing.assert_close(program(x)[0], in_patches(x))


def at_one_size(x):
    assert x.shape[0] == 12, "not twelve"
    return x * 2


def test_a_function_of_one_size_is_refused_at_any():
    with pytest.raises(OnnxError, match=r"(?s)and not at others: AssertionError: not twelve.*16 \* Dim\('n'\)"):
        torch.onnx.export(at_one_size, (torch.randn(12),), dynamic_axes={"x": {0: "n"}})
