"""The functions that users call: NumPy's names of arguments, and errors that name the op and the argument."""

import contextlib
import inspect
import pickle

import numpy
import pytest

import dynograd
from dynograd.interpreter.out_forms import out_form
from dynograd.nn import functional as F
from dynograd.tensor.methods import public_functions

ones, tensor, zeros = dynograd.ones, dynograd.tensor, dynograd.zeros
X = tensor([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
FIRST = zeros(2, 1, dtype=dynograd.int64)


@pytest.mark.parametrize(
    ("with_axis", "with_dim"),
    [
        (lambda: dynograd.stack([X, X], axis=1), lambda: dynograd.stack([X, X], dim=1)),
        (lambda: dynograd.cat([X, X], axis=1), lambda: dynograd.cat([X, X], dim=1)),
        (lambda: dynograd.softmax(X, axis=1), lambda: dynograd.softmax(X, dim=1)),
        (lambda: X.softmax(axis=1), lambda: X.softmax(dim=1)),
        (lambda: X.unsqueeze(axis=1), lambda: X.unsqueeze(dim=1)),
        (lambda: dynograd.unsqueeze(X, axis=-1), lambda: dynograd.unsqueeze(X, -1)),
        (lambda: X[None].squeeze(axis=0), lambda: X),
        (lambda: X.argmax(axis=1, keepdims=True), lambda: X.argmax(1, True)),
        (lambda: X.std(axis=0, keepdims=True), lambda: X.std(0, keepdim=True)),
        (lambda: X.sort(axis=0)[0], lambda: X.sort(dim=0)[0]),
        (lambda: X.topk(1, axis=0).indices, lambda: X.topk(1, 0).indices),
        (lambda: X.median(axis=0, keepdims=True).values, lambda: X.median(0, True).values),
        (lambda: X.gather(axis=1, index=FIRST), lambda: X.gather(1, FIRST)),
        (lambda: dynograd.gather(X, index=FIRST, axis=1), lambda: X.gather(1, FIRST)),
        (lambda: dynograd.linalg.norm(X, axis=1), lambda: dynograd.linalg.norm(X, dim=1)),
        (lambda: dynograd.fft.fft(X, axis=0), lambda: dynograd.fft.fft(X, dim=0)),
        (lambda: dynograd.logsumexp(X, axis=0, keepdims=True), lambda: X.logsumexp(0, True)),
        (lambda: dynograd.var_mean(X, axis=0)[1], lambda: X.mean(0)),
        (lambda: dynograd.sort(X, axis=0, out=(dynograd.empty(0), dynograd.empty(0).long()))[0], lambda: X.sort(0)[0]),
    ],
)  # fmt: skip
def test_numpys_names(with_axis, with_dim):
    numpy.testing.assert_array_equal(with_axis().numpy(), with_dim().numpy())


def test_every_function_with_a_dim_takes_axis():
    """All that users reach at the top level, and the methods but for those views whose calls are counted in nanoseconds."""
    without = []
    for name, function in public_functions().items():
        argument = inspect.signature(out_form(function)).parameters
        if "dim" in argument and "axis" not in argument and function is getattr(function, "op", None).forward:
            without.append(name)
    assert not without


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: dynograd.softmax(2.5, 0), TypeError, "softmax(): argument 'input' must be Tensor, not float. Make one with dynograd.tensor"),
        (lambda: dynograd.gather("x", 0, FIRST), TypeError, "gather(): argument 'input' must be Tensor, not str"),
        (lambda: F.cross_entropy([1.0, 2.0], FIRST), TypeError, "cross_entropy(): argument 'input' must be Tensor, not list"),
        (lambda: F.conv2d(ones(1, 1, 3, 3), 2.5), TypeError, "conv2d(): argument 'weight' must be Tensor, not float"),
        (lambda: dynograd.cat([X, X], dim="x"), TypeError, "cat(): argument 'dim' must be an int, not str ('x')"),
        (lambda: dynograd.zeros_like(2.5), TypeError, "zeros_like(): argument 'input' must be Tensor, not float"),
        (lambda: dynograd.histc("x"), TypeError, "histc(): argument 'input' must be Tensor, not str"),
        (lambda: dynograd.multinomial(2.5, 1), TypeError, "multinomial(): argument 'input' must be Tensor, not float"),
        (lambda: X.view_as(2.5), TypeError, "view_as(): argument 'other' must be Tensor, not float"),
        (lambda: F.max_pool2d_with_indices(2.5, 2), TypeError, "max_pool2d_with_indices(): argument 'input' must be Tensor, not float"),
        (lambda: dynograd.index_add(tensor(1.0), 0, tensor([0]), 2.5, alpha=2), TypeError, "index_add(): argument 'source' must be Tensor"),
        (lambda: dynograd.round(X, decimals="x"), TypeError, "round(): argument 'decimals' must be an int, not str ('x')"),
        (lambda: F.layer_norm(X, (3,), eps="x"), TypeError, "layer_norm(input=Tensor of shape (2, 3), normalized_shape=(3,), eps='x'"),
        (lambda: dynograd.full_like(X, "x"), TypeError, "full_like(input=Tensor of shape (2, 3), fill_value='x'): could not convert"),
        (lambda: dynograd.block_diag(X, "x"), TypeError, "block_diag(): argument 'tensors' must be Tensor, not str"),
        (lambda: dynograd.gather(X, 1), TypeError, "gather() missing 1 required argument: 'index'"),
        (lambda: dynograd.gather(X), TypeError, "gather() missing 2 required arguments: 'dim' and 'index'"),
        (lambda: X.unsqueeze(), TypeError, "unsqueeze() missing 1 required argument: 'dim'"),
        (lambda: dynograd.softmax(X, 0, axes=1), TypeError, "softmax() got an unexpected keyword argument 'axes'"),
    ],
)  # fmt: skip
def test_errors_name_op_and_argument(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)


def test_an_error_that_says_enough_is_left_as_it_is():
    with pytest.raises(IndexError, match=r"softmax.*\[-2, 1\]") as caught:
        dynograd.softmax(X, 7)
    assert caught.value.__cause__ is None


def test_they_are_ordinary_functions():
    for function, name in (
        (dynograd.stack, "stack"),
        (dynograd.squeeze, "squeeze"),
        (F.relu, "relu"),
        (dynograd.linalg.norm, "linalg_norm"),
    ):
        assert function.__doc__ and function.op.name == name
    assert pickle.loads(pickle.dumps(dynograd.stack)) is dynograd.stack
    assert list(inspect.signature(dynograd.gather).parameters) == [
        "input",
        "dim",
        "index",
        "sparse_grad",
        "out",
        "axis",
    ]


@pytest.mark.parametrize("aside", [False, True], ids=["", "while somebody exchanges codes"])
def test_methods_of_views_take_axis(aside):
    x = dynograd.arange(24).reshape(2, 3, 4)
    with dynograd.profiler.profile() if aside else contextlib.nullcontext():
        assert [tuple(element.shape) for element in x.chunk(2, axis=1)] == [(2, 2, 4), (2, 1, 4)]
        assert [tuple(element.shape) for element in x.tensor_split(2, axis=2)] == [(2, 3, 2), (2, 3, 2)]
        assert [tuple(size.shape) for size in x.split_with_sizes([1, 2], axis=1)] == [(2, 1, 4), (2, 2, 4)]
        assert [tuple(element.shape) for element in x.unbind(axis=2)] == [(2, 3)] * 4 and len(x.unbind()) == 2


@pytest.mark.parametrize(
    "call",
    [
        lambda x, name: dynograd.count_nonzero(x, **{name: 1}),
        lambda x, name: dynograd.split_with_sizes(x, [1, 2], **{name: 1})[1],
        lambda x, name: dynograd.frobenius_norm(x, **{name: 1}),
        lambda x, name: dynograd.norm_except_dim(x, 2, **{name: 0}),
        lambda x, name: x.select_scatter(x[0] * 2, **{name: 0}, index=1),
        lambda x, name: x.unsafe_split(2, **{name: 1})[1],
        lambda x, name: x.clone().index_add_(**{name: 1}, index=dynograd.tensor([0]), source=x[:, :1]),
        lambda x, name: x.clone().index_fill_(**{name: 0}, index=dynograd.tensor([0]), value=7.0),
        lambda x, name: x.clone().scatter_(**{name: 0}, index=dynograd.zeros(1, 3, dtype=dynograd.int64), src=x + 9),
        lambda x, name: x.clone().renorm_(2, **{name: 0}, maxnorm=1.0),
    ],
)
def test_axis_is_dim(call):
    x = dynograd.arange(6.0).reshape(2, 3)
    assert call(x, "axis").tolist() == call(x, "dim").tolist()
