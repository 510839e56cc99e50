"""`dynograd.onnx.load`: modules that compute, train and print as code; files that lie are refused."""

import contextlib
import copy
import inspect
import io
import pdb
import traceback

import numpy
import pytest

import dynograd
import dynograd.onnx
from dynograd.errors import OnnxError, ShapeError
from tests.onnx import fuzz

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOAT = TensorProto.FLOAT


def _tensor(name, values, dtype=numpy.float32):
    return numpy_helper.from_array(numpy.array(values, dtype), name)


def _model(nodes, inputs, outputs, initializers=(), opset=21, **options):
    values = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()]
    results = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "small", values, results, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **options)


def _perceptron():
    generator = numpy.random.default_rng(0)
    weights = [
        _tensor("hidden.weight", generator.normal(size=(8, 4))),
        _tensor("hidden.bias", numpy.zeros(8)),
        _tensor("onnx::MatMul_7", generator.normal(size=(8, 2))),
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "hidden.weight", "hidden.bias"], ["/hidden/Gemm_output_0"], transB=1),
        helper.make_node("Relu", ["/hidden/Gemm_output_0"], ["h"]),
        helper.make_node("MatMul", ["h", "onnx::MatMul_7"], ["y"]),
    ]
    return _model(nodes, {"x": ["batch", 4]}, ["y"], weights)


def test_it_computes_what_onnxruntime_computes():
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = _perceptron()
    session = runtime.InferenceSession(model.SerializeToString())
    module = dynograd.onnx.load(model)
    for rows in (1, 3, 7):
        x = numpy.random.default_rng(rows).normal(size=(rows, 4)).astype(numpy.float32)
        expected = session.run(None, {"x": x})[0]
        numpy.testing.assert_allclose(module(dynograd.from_numpy(x)).detach().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_it_prints_as_code():
    assert dynograd.onnx.load(_perceptron()).code == (
        "import dynograd\n"
        "from dynograd.onnx.reading import products\n"
        "\n\n"
        "def forward(self, x):\n"
        "    _hidden_Gemm_output_0 = products.gemm(x, self.hidden.weight, self.hidden.bias, transB=1)\n"
        "    h = dynograd.relu(_hidden_Gemm_output_0)\n"
        "    y = dynograd.matmul(h, self.initializer('onnx::MatMul_7'))\n"
        "    return y\n"
    )


def test_initialisers_keep_their_names_and_train():
    module = dynograd.onnx.load(_perceptron())
    assert list(dict(module.named_parameters())) == ["onnx::MatMul_7", "hidden.weight", "hidden.bias"]
    optimizer = dynograd.optim.Adam(module.parameters(), lr=0.05)
    x, y = dynograd.ones(4, 4), dynograd.ones(4, 2)
    losses = []
    for _ in range(40):
        loss = ((module(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 20


def test_running_statistics_are_buffers():
    weights = [_tensor(name, numpy.ones(3)) for name in ("scale", "bias", "mean", "var")]
    node = helper.make_node("BatchNormalization", ["x", "scale", "bias", "mean", "var"], ["y"])
    module = dynograd.onnx.load(_model([node], {"x": [2, 3, 4]}, ["y"], weights))
    assert sorted(dict(module.named_parameters())) == ["bias", "scale"]
    assert sorted(dict(module.named_buffers())) == ["mean", "var"]


def test_branches_are_functions_in_the_code():
    branches = {
        f"{word}_branch": helper.make_graph(
            [helper.make_node(kind, ["x"], ["out"])], word, [], [helper.make_tensor_value_info("out", FLOAT, None)]
        )
        for word, kind in (("then", "Relu"), ("else", "Neg"))
    }
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Constant", [], ["zero"], value_float=0.0),
        helper.make_node("Greater", ["total", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], **branches),
    ]
    module = dynograd.onnx.load(_model(nodes, {"x": [2]}, ["y"]))
    assert "    def else_branch():\n        out = dynograd.neg(x)\n        return out\n" in module.code
    assert module(dynograd.tensor([3.0, -1.0])).tolist() == [3, 0]
    assert module(dynograd.tensor([-3.0, 1.0])).tolist() == [3, -1]


def test_a_function_of_the_model_is_put_in_place():
    double = helper.make_function(
        "mine", "Double", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 21)]
    )
    model = _model([helper.make_node("Double", ["x"], ["y"], domain="mine")], {"x": [2]}, ["y"], functions=[double])
    model.opset_import.append(helper.make_opsetid("mine", 1))
    assert dynograd.onnx.load(model)(dynograd.tensor([1.0, 2.0])).tolist() == [2, 4]


def _save_outside(folder, location, **entries):
    tensor = _tensor("w", numpy.ones((2, 2)))
    (folder / "w.bin").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    model = _model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 2]}, ["y"], [tensor])
    path = folder / "inner" / "model.onnx"
    path.parent.mkdir()
    path.write_bytes(model.SerializeToString())
    return path


def test_data_beside_the_model_are_read(tmp_path):
    path = _save_outside(tmp_path, "w.bin")
    (tmp_path / "w.bin").rename(path.parent / "w.bin")
    assert dynograd.onnx.load(path)(dynograd.ones(1, 2)).tolist() == [[2, 2]]


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "", "absent.bin"])
def test_data_outside_the_folder_are_refused(tmp_path, location):
    with pytest.raises(OnnxError, match="Expected a file below the model's folder"):
        dynograd.onnx.load(_save_outside(tmp_path, location))


@pytest.mark.parametrize("entries", [{"offset": "9"}, {"length": "99"}, {"offset": "-1"}, {"length": "x"}])
def test_data_that_are_cut_off_are_refused(tmp_path, entries):
    path = _save_outside(tmp_path, "w.bin", **entries)
    (tmp_path / "w.bin").rename(path.parent / "w.bin")
    with pytest.raises(OnnxError, match=r"do not fit its shape|cut off"):
        dynograd.onnx.load(path)


def _relu(name="x", **options):
    return helper.make_node("Relu", [name], ["y"], **options)


LIES = [  # (a model, words of the message)
    (b"PK\3\4 no model", "no ONNX model"),
    (b"", "has no graph"),
    (_model([helper.make_node("Odd", ["x"], ["y"])], {"x": [1]}, ["y"]), r"\(Odd\).*ai.onnx, opset 21.*@dynograd.onnx.operator"),
    (_model([_relu("z")], {"x": [1]}, ["y"]), "reads 'z'.*circle"),
    (_model([_relu("y")], {"x": [1]}, ["y"]), "reads 'y'"),
    (_model([_relu()], {"x": [1]}, ["z"]), "reads 'z'"),
    (_model([_relu(alpha=1.0)], {"x": [1]}, ["y"]), "attributes alpha. Expected none"),
    (_model([helper.make_node("Elu", ["x"], ["y"], beta=1.0)], {"x": [1]}, ["y"]), "attributes beta. Expected alpha"),
    (_model([helper.make_node("Concat", ["x"], ["y"])], {"x": [1]}, ["y"]), "lacks the attribute axis"),
    (_model([helper.make_node("Constant", [], ["y"])], {"x": [1]}, ["y"]), "has 0 values"),
    (_model([_relu()], {"x": [1]}, ["y"], [TensorProto(name="w", dims=[5], data_type=1, raw_data=b"1234")]), "do not fit its shape"),
    (_model([_relu()], {"x": [1]}, ["y"], [TensorProto(name="w", dims=[2], data_type=20, raw_data=b"12")]), "have no dynograd dtype"),
    (_model([helper.make_node("Relu", ["x", "x"], ["y"])], {"x": [1]}, ["y"]), "onnx.checker refuses"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "words"), LIES)
def test_models_that_lie_are_refused(model, words):
    with pytest.raises(OnnxError, match=words):
        dynograd.onnx.load(model)


def test_what_is_no_model_is_refused():
    with pytest.raises(
        TypeError, match=r"the model is a int. Expected a path, bytes, a file opened for reading bytes, or an onnx.Mod"
    ):
        dynograd.onnx.load(3)
    with pytest.raises(TypeError, match=r"the file gives str. Open it for reading bytes, open\(path, 'rb'\)"):
        dynograd.onnx.load(io.StringIO("model"))


def test_an_open_file_is_read():
    file = io.BytesIO(_perceptron().SerializeToString())
    assert dynograd.onnx.load(file).code == dynograd.onnx.load(_perceptron()).code


def test_inputs_are_checked():
    module = dynograd.onnx.load(_perceptron())
    with pytest.raises(TypeError, match="2 inputs are given. Expected 1: x"):
        module(dynograd.ones(1, 4), dynograd.ones(1, 4))
    with pytest.raises(ShapeError, match=r"input x has shape \(1, 5\). Expected \(any, 4\)"):
        module(dynograd.ones(1, 5))


def test_an_operator_of_ones_own_can_be_entered():
    @dynograd.onnx.operator("Scaled", domain="mine")
    def scaled(x, *, factor=1.0):
        return factor * x

    nodes = [helper.make_node("Scaled", ["x"], ["h"], domain="mine", factor=2.0)]
    nodes.append(helper.make_node("Scaled", ["h"], ["y"], domain="mine"))
    model = _model(nodes, {"x": [2]}, ["y"])
    model.opset_import.append(helper.make_opsetid("mine", 1))
    module = dynograd.onnx.load(model)
    assert module(dynograd.ones(2)).tolist() == [2, 2]
    assert (
        "# scaled is tests.onnx.test_load.test_an_operator_of_ones_own_can_be_entered.<locals>.scaled\n" in module.code
    )
    assert "    h = scaled(x, factor=2.0)\n    y = scaled(h)\n" in module.code


@pytest.mark.parametrize("name", ["forward", "code", "training", "a..b", "a.weight", "a", "", "a.parameters", "class"])
def test_a_tensor_may_have_any_name(name):
    weights = [_tensor("a.weight.data", [1.0, 2.0])] + [_tensor(name, [3.0, 4.0])] * (name != "")
    nodes = [helper.make_node("Add", ["x", name or "a.weight.data"], ["y"])]
    module = dynograd.onnx.load(_model(nodes, {"x": [2]}, ["y"], weights))
    assert module(dynograd.zeros(2)).tolist() == ([3, 4] if name else [1, 2])


def test_names_in_a_model_are_no_code(monkeypatch):
    monkeypatch.setattr(dynograd, "ran", [], raising=False)
    code = "__import__('dynograd').ran.append(1)"
    for node in (
        helper.make_node("ConvInteger", ["x", "x"], ["y"], **{f"group=1, dilations={code}, strides": [1]}),
        helper.make_node("Relu", ["x"], ["y"], name=f"x\n{code}"),
        helper.make_node("Relu", ["x"], [f"y\n{code}"]),
        helper.make_node("Upsample", ["x"], ["y"], mode=f"'+{code}+'"),
        helper.make_node(f"Relu(x)\n    {code}", ["x"], ["y"]),
    ):
        model = _model([node], {"x": [1, 1, 1]}, [node.output[0]])
        model.graph.name = f"small>\n{code}"
        with contextlib.suppress(OnnxError):
            dynograd.onnx.load(model)(dynograd.ones(1, 1, 1))
        assert not dynograd.ran


def test_damaged_files_are_refused_with_the_same_error():
    """`python -m tests.onnx.fuzz 10000` does the same with models of all kinds."""
    refused, errors = fuzz.check(range(300), 0, [_perceptron().SerializeToString()])
    assert not errors
    assert 100 < refused < 300


def test_the_model_given_stays_as_it_is():
    model = _perceptron()
    before = copy.deepcopy(model)
    dynograd.onnx.load(model)
    assert model == before


# ---------------------------------------------------------------- what stands in the code


def test_sizes_are_numbers_in_the_code_and_constants_stand_in_it():
    weights = [
        _tensor("two", [2], numpy.int64),
        _tensor("zero", 0, numpy.int64),
        _tensor("minus_one", [-1], numpy.int64),
    ]
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "axes"], ["first"]),
        helper.make_node("Concat", ["first", "two", "minus_one"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["x", "sizes"], ["y"]),
        helper.make_node("Cast", ["rows"], ["count"], to=FLOAT),
        helper.make_node("Div", ["y", "count"], ["z"]),
    ]
    weights.append(_tensor("axes", [0], numpy.int64))
    module = dynograd.onnx.load(_model(nodes, {"x": ["n", 4]}, ["z"], weights))
    assert module.code.splitlines()[5:-1] == [
        "    shape = sizes.shape(x)",
        "    rows = sizes.gather(shape, 0)",
        "    first = sizes.unsqueeze(rows, [0])",
        "    sizes_2 = sizes.concat(first, [2], [-1], axis=0)",
        "    y = layouts.reshape(x, sizes_2)",
        "    count = sizes.cast(rows, to=1)",
        "    z = elementwise.divide(y, values.tensor_of_sizes(count))",
    ]
    assert not list(module.buffers())
    assert module(dynograd.ones(2, 4)).tolist() == [[[0.5, 0.5]] * 2] * 2
    assert module(dynograd.ones(4, 4)).shape == (4, 2, 2)


def test_numbers_of_float64_stand_in_the_code_as_they_are():
    third = _tensor("third", 1 / 3, numpy.float64)
    node = helper.make_node("Clip", ["x", "third"], ["y"])
    model = _model([node], {"x": [1]}, ["y"], [third])
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    module = dynograd.onnx.load(model)
    assert "elementwise.clip(x, 0.3333333333333333)" in module.code
    assert module(dynograd.zeros(1, dtype=dynograd.float64)).tolist() == [1 / 3]


def test_a_number_alone_is_no_parameter():
    module = dynograd.onnx.load(
        _model([helper.make_node("Mul", ["x", "factor"], ["y"])], {"x": [1]}, ["y"], [_tensor("factor", 0.5)])
    )
    assert not list(module.parameters())
    assert list(dict(module.named_buffers())) == ["factor"]


def test_a_debugger_shows_the_lines():
    module = dynograd.onnx.load(
        _model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": None}, ["y"], [_tensor("w", numpy.ones((3, 2)))])
    )
    assert inspect.getsource(module._forward).splitlines()[-1] == "    return y"
    with pytest.raises(ShapeError) as caught:
        module(dynograd.ones(1, 4))
    assert "    y = dynograd.matmul(x, self.w)" in "".join(traceback.format_exception(caught.value))
    lines, session = iter(["step"] * 40 + ["continue"] * 9), io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO(), stdout=session, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    debugger.stdin.readline = lambda: next(lines, "quit") + "\n"
    debugger.runcall(module, dynograd.ones(1, 3))
    assert "-> y = dynograd.matmul(x, self.w)" in session.getvalue()


# ---------------------------------------------------------------- dtypes, strings, sequences


@pytest.mark.parametrize(
    "name", "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64".split()
)
def test_tensors_of_each_dtype(name):
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if name == "bfloat16" else numpy.dtype(name)
    weight = _tensor("w", [[0, 1], [1, 0]], kind)
    code = weight.data_type
    model = _model([helper.make_node("Concat", ["x", "w"], ["y"], axis=0)], {"x": ["n", 2]}, ["y"], [weight])
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.elem_type = code
    module, dtype = dynograd.onnx.load(model), getattr(dynograd, name)
    result = module(dynograd.ones(1, 2, dtype=dtype))
    assert result.dtype == dtype
    assert result.tolist() == [[1, 1], [0, 1], [1, 0]]
    assert len(list(module.parameters())) == (name in ("float16", "bfloat16", "float32", "float64"))


def test_strings_are_arrays_of_objects():
    words = numpy_helper.from_array(numpy.array(["b", "c"], object), "words")
    nodes = [
        helper.make_node("StringConcat", ["x", "words"], ["pairs"]),
        helper.make_node("Equal", ["pairs", "words"], ["same"]),
    ]
    model = _model(nodes, {"x": [2]}, ["pairs", "same"], [words])
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.STRING
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.BOOL
    pairs, same = dynograd.onnx.load(model)(numpy.array(["a", ""], object))
    assert pairs.tolist() == ["ab", "c"]
    assert same.tolist() == [False, True]


def test_sequences_are_lists():
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0),
        helper.make_node("SequenceInsert", ["rows", "x"], ["more"]),
        helper.make_node("SequenceLength", ["more"], ["count"]),
        helper.make_node("ConcatFromSequence", ["more"], ["y"], axis=0),
    ]
    model = _model(nodes, {"x": [2, 1]}, ["more", "count", "y"])
    model.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("more", FLOAT, None))
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    more, count, y = dynograd.onnx.load(model)(dynograd.tensor([[1.0], [2.0]]))
    assert [part.tolist() for part in more] == [[[1]], [[2]], [[1], [2]]]
    assert count.item() == 3
    assert y.tolist() == [[1], [2], [1], [2]]
