"""`out=`: every op that has it, over the rows of tests/ops; sizes, dtypes, devices, memory that overlaps, and what has none."""

import inspect
import pickle
import warnings

import numpy
import pytest

import dynograd
from dynograd.interpreter.out_forms import has_out, out_form
from dynograd.nn import functional as F
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor
from tests.ops.arguments import Arguments, converted, draw, tensors_of
from tests.ops.test_registry import rows_by_name

zeros, ones, empty, tensor = dynograd.zeros, dynograd.ones, dynograd.empty, dynograd.tensor
FUNCTIONS = public_functions()
WITH = sorted(name for name, element in FUNCTIONS.items() if "out" in inspect.signature(out_form(element)).parameters)


def a_call(name):
    """Arguments of a row of the op as Tensors, or None where no row calls it."""
    for row in rows_by_name().get(name, []) + rows_by_name().get(name.partition("_")[2], []):
        if row.name.replace(".", "_") == name and row.function is None:
            return tensors_of(draw(row).map(lambda array, kind=row.dtypes[0]: converted(array, kind)))
    if name in ("fft_complex", "fft_half", "fft_from_half", "lu_permutation"):  # within other ops
        return None
    if name.startswith("fft_"):
        return Arguments([tensor(numpy.random.default_rng(0).normal(size=(4, 4)))], {})
    if name.startswith(("linalg_", "cholesky", "geqrf", "svd", "lu")) and not any(
        part in name for part in ("solve", "unpack", "lstsq")
    ):
        return Arguments([tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 5.0]])], {})
    return None


def parts_of(result):
    return list(result) if isinstance(result, tuple) else [result]


CALLED = [name for name in WITH if a_call(name) is not None]


@pytest.mark.parametrize("name", CALLED)
def test_writes_into_out(name):
    arguments = a_call(name)
    function = getattr(dynograd, name)
    expected = arguments.call(function)
    parts = parts_of(expected)
    with dynograd.no_grad():
        for outs in ([empty(0, dtype=part.dtype) for part in parts], [dynograd.full_like(part, 1) for part in parts]):
            addresses = [out.data_ptr() for out in outs]
            argument = tuple(outs) if isinstance(expected, tuple) else outs[0]
            got = function(*arguments.positional, **arguments.keywords, out=argument)
            for element, out, part in zip(parts_of(got), outs, parts, strict=True):
                assert element is out
                assert out.dtype is part.dtype
                assert out.shape == part.shape
                numpy.testing.assert_array_equal(out.numpy(), part.detach().numpy())
        assert addresses == [out.data_ptr() for out in outs], "out= of the right shape keeps its memory"
    assert type(got) is type(expected)
    if isinstance(expected, Tensor) and expected.dtype is dynograd.float32 and expected.ndim:
        of_another_dtype_layout_and_alias(name, function, arguments, expected)


def of_another_dtype_layout_and_alias(name, function, arguments, expected):
    ways = FUNCTIONS[name].op.row["out"].split()
    with dynograd.no_grad():
        kind = dynograd.float32 if "exact" in ways and "dtype" not in ways else dynograd.float64
        out = zeros(*expected.shape[::-1], dtype=kind).permute(*range(expected.ndim)[::-1])
        function(*arguments.positional, **arguments.keywords, out=out)
        numpy.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-6)
        words = (
            "to have dtype dynograd.float32, but got dynograd.int64"
            if "exact" in ways
            else "can't be cast to the desired output type dynograd.int64"
        )
        with pytest.raises(RuntimeError, match=words):
            asked = {"dtype": dynograd.float32} if "dtype" in ways else {}
            function(
                *arguments.positional, **arguments.keywords | asked, out=zeros(expected.shape, dtype=dynograd.int64)
            )
        if expected.numel() > 1:
            with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single"):
                function(*arguments.positional, **arguments.keywords, out=zeros(1).expand(expected.shape))
        for place, leaf in enumerate(arguments.leaves()):
            if leaf.dtype is expected.dtype and leaf.shape == expected.shape:
                own = arguments.map(lambda one: one.detach().clone())
                if "apart" in ways:
                    with pytest.raises(RuntimeError, match=f"{name}: .* refer to a single memory location"):
                        function(*own.positional, **own.keywords, out=own.leaves()[place])
                    continue
                function(*own.positional, **own.keywords, out=own.leaves()[place])
                numpy.testing.assert_array_equal(own.leaves()[place].numpy(), expected.detach().numpy())
                partly_in_an_operand(name, function, arguments, place, expected)


def partly_in_an_operand(name, function, arguments, place, expected):
    """One leaf and `out=` lie in one memory, one element apart."""
    leaf = arguments.leaves()[place].detach()
    room = dynograd.cat([leaf.reshape(-1), zeros(leaf.numel(), dtype=leaf.dtype)])
    out = room[1 : 1 + leaf.numel()].view(expected.shape)
    shared = room[: leaf.numel()].view(leaf.shape)
    own = arguments.map(lambda one: shared if one is arguments.leaves()[place] else one.detach())
    if leaf.numel() > 1:
        with pytest.raises(RuntimeError, match=f"{name}: .* refer to a single memory location"):
            function(*own.positional, **own.keywords, out=out)


def test_most_ops_are_tried():
    assert len(CALLED) > 270, len(CALLED)


@pytest.mark.parametrize("shape", [(3,), (300, 300)])
@pytest.mark.parametrize("name", ["add", "mul", "exp", "lt", "maximum", "tanh", "div", "addcmul", "clamp"])
def test_elementwise_ops_write_straight_into_out(name, shape):
    function = getattr(dynograd, name)
    operands = [dynograd.rand(shape) + 0.5 for _ in range({"exp": 1, "tanh": 1, "addcmul": 3, "clamp": 1}.get(name, 2))]
    options = {"min": 0.7} if name == "clamp" else {}
    expected = function(*operands, **options)
    out = dynograd.empty_like(expected)
    before = out._version
    assert function(*operands, **options, out=out) is out
    assert out._version == before + 1
    numpy.testing.assert_array_equal(out.numpy(), expected.numpy())
    if name != "lt":
        function(*operands, **options, out=operands[0].view(shape))
        numpy.testing.assert_array_equal(operands[0].numpy(), expected.numpy())


def test_broadcast_and_numbers():
    out = empty(2, 3)
    assert dynograd.add(ones(3), ones(2, 1), out=out).tolist() == [[2.0] * 3] * 2
    assert dynograd.mul(ones(2, 3), 4, out=out).tolist() == [[4.0] * 3] * 2
    assert dynograd.add(ones(2, 3), ones(3), alpha=3, out=out).tolist() == [[4.0] * 3] * 2
    with pytest.warns(
        UserWarning, match=r"add: an output with one or more elements was resized since it had shape \[2, 3\]"
    ):
        dynograd.add(ones(3), 1.0, out=out)
    assert out.tolist() == [2.0, 2.0, 2.0]


def test_the_warning_names_the_caller():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dynograd.exp(ones(3), out=empty(2))
    assert caught[0].filename == __file__
    assert "[2]" in str(caught[0].message) and "[3]" in str(caught[0].message)


def test_several_results():
    values, indices = empty(0), empty(0, dtype=dynograd.int64)
    got = dynograd.sort(tensor([3.0, 1.0, 2.0]), out=(values, indices))
    assert got.values is values and got.indices is indices
    assert values.tolist() == [1.0, 2.0, 3.0] and indices.tolist() == [1, 2, 0]
    with pytest.raises(TypeError, match=r"topk\(\): argument 'out' must be a tuple of 2 Tensors, got Tensor"):
        dynograd.topk(ones(3), 1, out=values)
    with pytest.raises(TypeError, match=r"topk\(\): argument 'out' must be a tuple of 2 Tensors, got 1 of them"):
        dynograd.topk(ones(3), 1, out=(values,))
    with pytest.raises(TypeError, match=r"sort\(\): argument 'out\[1\]' must be Tensor, not int"):
        dynograd.sort(ones(3), out=(values, 5))


def test_gradients_are_refused():
    x, out = ones(3, requires_grad=True), empty(3)
    words = "functions with out=... arguments don't support automatic differentiation, but {} requires grad"
    for function in (dynograd.exp, dynograd.add, dynograd.softmax, dynograd.sum):
        args = (x, x) if function is dynograd.add else (x, 0) if function is dynograd.softmax else (x,)
        with pytest.raises(RuntimeError, match=words.format("one of the arguments")):
            function(*args, out=out)
    with pytest.raises(RuntimeError, match=words.format("out")):
        dynograd.add(out, out, out=ones(3, requires_grad=True))
    with dynograd.no_grad():
        assert dynograd.exp(x, out=x) is x
    assert dynograd.argmax(x, out=empty(0, dtype=dynograd.int64)).item() == 0


def test_a_write_into_out_is_seen_by_backward():
    x, out = ones(3, requires_grad=True), ones(3)
    y = (x * out).sum()
    dynograd.exp(out, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_functions_that_make_tensors():
    out = empty(0, dtype=dynograd.float64)
    for call, expected in (
        (lambda: dynograd.zeros(2, out=out), [0.0, 0.0]),
        (lambda: dynograd.ones(2, out=out), [1.0, 1.0]),
        (lambda: dynograd.full((2,), 7, out=out), [7.0, 7.0]),
        (lambda: dynograd.arange(2, out=out), [0.0, 1.0]),
        (lambda: dynograd.linspace(0, 0.1, 2, out=out), [0.0, 0.1]),
        (lambda: dynograd.logspace(0, 1, 2, out=out), [1.0, 10.0]),
        (lambda: dynograd.range(0, 1, out=out), [0.0, 1.0]),
        (lambda: dynograd.bernoulli(tensor([1.0, 0.0]), out=out), [1.0, 0.0]),
        (lambda: dynograd.fft.fftfreq(2, out=out), [0.0, -0.5]),
        (lambda: dynograd.fft.rfftfreq(2, out=out), [0.0, 0.5]),
        (lambda: dynograd.normal(3.0, 0.0, (2,), out=out), [3.0, 3.0]),
    ):
        assert call() is out
        assert out.tolist() == expected
    for call in (lambda: dynograd.randn(2, 2, out=out), lambda: dynograd.rand(2, 2, out=out)):
        out.resize_(0)
        assert call() is out and out.shape == (2, 2) and out.dtype is dynograd.float64
    counts = empty(0, dtype=dynograd.int32)
    assert sorted(dynograd.randperm(3, out=counts).tolist()) == [0, 1, 2] and counts.dtype is dynograd.int32
    assert dynograd.randint(5, 6, (3,), out=counts).tolist() == [5, 5, 5]
    assert dynograd.multinomial(tensor([0.0, 1.0]), 1, out=empty(0, dtype=dynograd.int64)).tolist() == [1]


def test_what_has_no_out():
    for name in ("relu", "reshape", "isnan", "trace", "one_hot", "squeeze", "clone"):
        assert "out" not in inspect.signature(getattr(dynograd, name)).parameters, name
        assert not has_out(FUNCTIONS[name].op)
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        ones(2).exp(out=empty(2))


def test_functions_with_out_are_ordinary_functions():
    assert pickle.loads(pickle.dumps(dynograd.exp)) is dynograd.exp
    assert "out" in inspect.signature(dynograd.exp).parameters
    assert dynograd.exp.__doc__ == FUNCTIONS["exp"].__doc__
    assert dynograd.linalg.inv.op is FUNCTIONS["linalg_inv"].op
    with pytest.raises(TypeError, match=r"exp\(\) takes 1 positional argument but 2 were given"):
        dynograd.exp(ones(2), empty(2))


@pytest.mark.parametrize("name", ["gelu", "logsigmoid", "softplus", "softshrink", "hardshrink", "normalize"])
def test_functions_of_layers_that_have_out(name):
    function, x, out = getattr(F, name), dynograd.randn(3, 4), empty(0)
    assert function(x, out=out) is out
    numpy.testing.assert_array_equal(out.numpy(), function(x).numpy())


def test_linear_into_out():
    x, w, out = dynograd.rand(2, 3), dynograd.rand(4, 3), empty(2, 4)
    assert F.linear(x, w, out=out) is out
    numpy.testing.assert_array_equal(out.numpy(), F.linear(x, w).numpy())


def test_pooling_into_out():
    x, out = dynograd.rand(1, 2, 4, 4), empty(0)
    assert F.avg_pool2d(x, 2, out=out) is out and out.shape == (1, 2, 2, 2)
    numpy.testing.assert_array_equal(out.numpy(), F.avg_pool2d(x, 2).numpy())
