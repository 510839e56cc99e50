"""`vmap` in programs: nesting, gradients per example, Jacobians, randomness, writes, user Functions, chunks, and what is refused."""

import numpy
import pytest

import dynograd
import dynograd.nn.functional as F
from dynograd.autograd import Function
from dynograd.base import dtypes
from dynograd.errors import InplaceError
from dynograd.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
    vmap_fallbacks,
)


def double(*shape):
    return dynograd.randn(*shape, dtype=dtypes.float64)


def close(result, expected, tolerance=1e-9):
    assert tuple(result.shape) == tuple(expected.shape)
    numpy.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)


def looped(function, *args, dims=None):
    """The reference: example by example, stacked."""
    dims = dims or (0,) * len(args)
    size = next(element.shape[dim] for element, dim in zip(args, dims, strict=True) if dim is not None)
    results = [
        function(
            *[element if dim is None else element.select(dim, number) for element, dim in zip(args, dims, strict=True)]
        )
        for number in range(size)
    ]
    if isinstance(results[0], tuple):
        return tuple(dynograd.stack(list(parts)) for parts in zip(*results, strict=True))
    return dynograd.stack(results)


@pytest.fixture(autouse=True)
def no_fallbacks():
    vmap_fallbacks(clear=True)


# --- arguments and results -----------------------------------------------------------------------------------------------------


def test_in_dims_and_out_dims():
    x, y = double(3, 4), double(4, 3)
    close(vmap(dynograd.dot, in_dims=(0, 1))(x, y), (x * y.t()).sum(1))
    close(vmap(dynograd.mul, in_dims=(-1, 0), out_dims=1)(x, y), x * y.t())
    close(vmap(lambda a, b: a @ b, in_dims=(0, None))(x, y), x @ y)
    element, two = vmap(lambda a: (a, a.sum()), out_dims=(1, 0))(x)
    close(element, x.t())
    close(two, x.sum(1))
    close(vmap(lambda a: a * 2, out_dims=-1)(x), (x * 2).t())


def test_nested_arguments():
    tree = {"a": double(3, 2), "b": (double(2, 3), [double(5)])}
    result = vmap(lambda t: t["a"] * t["b"][0] + t["b"][1][0].sum(), in_dims=({"a": 0, "b": (1, None)},))(tree)
    close(result, tree["a"] * tree["b"][0].t() + tree["b"][1][0].sum())
    assert set(vmap(lambda t: {"x": t["a"] * 2}, in_dims=({"a": 0, "b": None},))(tree)) == {"x"}


def test_keywords_are_mapped_over_dim_0():
    x, y = double(3), double(3)
    close(vmap(lambda a, b: a * b)(x, b=y), x * y)


def test_results_that_are_the_same_for_all():
    x = double(3)
    close(vmap(lambda a: dynograd.ones(2, dtype=dtypes.float64))(x), dynograd.ones(3, 2, dtype=dtypes.float64))
    result = vmap(lambda a: (a, dynograd.ones(2)), out_dims=(0, None))(x)
    assert tuple(result[1].shape) == (2,)
    result = vmap(lambda a: {"value": a, "name": "x"}, out_dims={"value": 0, "name": None}, chunk_size=2)(x)
    assert result["name"] == "x" and result["value"].tolist() == x.tolist()
    assert vmap(lambda a: 1.5, out_dims=None)(x) == 1.5


def test_nesting():
    x, y = double(2, 3), double(4, 3)
    result = vmap(lambda a: vmap(lambda b: (a * b).sum())(y))(x)
    close(result, x @ y.t())
    result = vmap(vmap(vmap(dynograd.mul, (None, 0)), (0, None)), (None, 0), out_dims=2)(x[0], double(2, 4))
    assert tuple(result.shape) == (3, 4, 2)
    # three levels, the innermost sees the outermost's value
    z = double(2)
    result = vmap(lambda c: vmap(lambda a: vmap(lambda b: a * b + c)(y[0]))(x[0]))(z)
    close(result, x[0].reshape(1, 3, 1) * y[0].reshape(1, 1, 3) + z.reshape(2, 1, 1))


def test_chunks_give_the_same():
    x = double(7, 3)
    for size in (1, 2, 3, 7, 100):
        close(vmap(lambda a: a.softmax(0), chunk_size=size)(x), x.softmax(1))
        close(vmap(lambda a: a.softmax(0), out_dims=1, chunk_size=size)(x), x.softmax(1).t())


@pytest.mark.parametrize("depth", [1, 2])
def test_chunks_draw_the_same_for_all(depth):
    x = double(5, 5, 2)

    def noisy(**chunks):
        function = lambda a: a + dynograd.rand_like(a)  # noqa: E731
        for _ in range(depth):
            function = vmap(function, randomness="same", **chunks)
        dynograd.manual_seed(3)
        return function(x)

    for size in (1, 2, 4, 7):
        close(noisy(chunk_size=size), noisy())


def test_empty_tensors_of_one_dim_join_any():
    x, empty = double(3, 2, 5).requires_grad_(), double(3, 0)
    joined = vmap(lambda a, b: dynograd.cat([b, a, dynograd.zeros(0), a], 1))(x, empty)
    close(joined, dynograd.cat([x, x], 2))
    joined.sum().backward()
    assert x.grad.unique().tolist() == [2.0]
    assert vmap(lambda a: dynograd.cat([a, dynograd.zeros(0)]))(dynograd.ones(3, 2).long()).dtype is dtypes.float32
    assert vmap(lambda a: dynograd.cat([a, a]))(empty).shape == (3, 0)


def test_bernoulli_writes_with_a_probability_for_each_example():
    x = double(4, 3)
    result = vmap(lambda a, p: a.bernoulli_(p), randomness="different")(x, dynograd.tensor([0.0, 1.0, 0.0, 1.0]))
    assert result.tolist() == x.tolist() == [[0.0] * 3, [1.0] * 3, [0.0] * 3, [1.0] * 3]
    with pytest.raises(RuntimeError, match="bernoulli_ with numbers that differ from example to example"):
        vmap(lambda a, p: a.bernoulli_(p), randomness="same")(x, dynograd.ones(4))


def _filled(x):
    result = dynograd.zeros_like(x)
    for place in range(3):
        result[place] = x[place] * x[place - 1]
    return result


def _in_place(x):
    square = (x * x).unsqueeze_(0)
    return square.t_().squeeze_(1).unsqueeze_(-1).transpose_(0, 1).squeeze_()


@pytest.mark.parametrize("function", [_filled, _in_place])
def test_memory_made_inside_and_views_in_place(function):
    x = double(2, 4, 3)
    expected = dynograd.stack([dynograd.stack([function(row) for row in part]) for part in x])
    close(vmap(vmap(function))(x), expected)
    close(vmap(vmap(function, 1, 1), 2, 2)(x.mT.permute(1, 2, 0)), expected.mT.permute(1, 2, 0))
    row = x[0, 0]
    jacobian = dynograd.stack([jvp(function, (row,), (unit,))[1] for unit in dynograd.eye(3, dtype=row.dtype)], 1)
    for derivative in (jacfwd, jacrev):
        close(derivative(function)(row), jacobian)
        close(vmap(derivative(function))(x[0])[0], jacobian)
    assert dynograd.autograd.gradcheck(lambda x: vmap(function)(x), (x[0].clone().requires_grad_(),))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.new_zeros(2),
        lambda x: x.new_ones((2,)) - 1,
        lambda x: x.new_full((2,), 0),
        lambda x: x.new_empty(size=(2,)).zero_(),
        lambda x: x.new_empty_strided((2,), (1,)).zero_(),
        lambda x: dynograd.full_like(x[:2], 0.0),
        lambda x: dynograd.ones_like(x[:2]).sub_(1),
        lambda x: dynograd.empty_like(x[:2]).zero_(),
    ],
)
def test_what_is_made_like_an_example_can_be_written_by_examples(make):
    x = double(4, 3)
    close(vmap(lambda a: make(a).add_(a[:2]))(x), x[:, :2])
    close(vmap(lambda a: make(a), 1)(x), dynograd.zeros(3, 2, dtype=x.dtype))


def test_jacobians_of_complex_functions_are_refused():
    x = dynograd.tensor([1 + 2j])
    for derivative in (jacrev, jacfwd):
        with pytest.raises(
            RuntimeError, match=f"{derivative.__name__}: Expected all inputs to be real.*idx: 0.*complex64"
        ):
            derivative(dynograd.conj)(x)
        with pytest.raises(RuntimeError, match=f"{derivative.__name__}: Expected all outputs to be real"):
            derivative(lambda x: x * 0.5j)(x.real)
    with pytest.raises(RuntimeError, match="grad: can be implicitly created only for real.*complex64"):
        grad(lambda x: (x * 1j).sum())(x.real)


def test_what_an_example_looks_like():
    def look(a):
        assert tuple(a.shape) == (3, 4) and a.ndim == 2 and a.size(0) == 3 and len(a) == 3 and a.numel() == 12
        assert a.dtype is dtypes.float64 and a.stride() == (4, 1) and a.is_floating_point()
        assert tuple(dynograd.zeros_like(a).shape) == (3, 4)
        return a.sum()

    vmap(look)(double(2, 3, 4))


def test_composed_functions_of_one_example():
    x, y = double(3, 4, 5), double(3, 5, 2)
    close(vmap(lambda a, b: dynograd.einsum("ij,jk->ik", a, b))(x, y), x @ y)
    close(vmap(lambda a: a.var(0) + a.amax(0) - a[1] + a.t()[:, 0])(x), x.var(1) + x.amax(1) - x[:, 1] + x[:, 0])
    close(
        vmap(lambda a: dynograd.cat([a, a.flip(0)]).cumsum(1)[::2])(x),
        dynograd.cat([x, x.flip(1)], 1).cumsum(2)[:, ::2],
    )
    close(vmap(lambda a: sum(row * 2 for row in a))(x), (x * 2).sum(1))
    assert vmap_fallbacks() == {}


def test_one_number_per_example_promotes_like_a_number():
    x, s = dynograd.randn(3, 4), double(3)
    assert vmap(dynograd.mul)(x, s).dtype is dtypes.float32
    assert vmap(lambda a, b: dynograd.where(a > 0, a, b))(x, s).dtype is dtypes.float32
    assert vmap(dynograd.mul)(x, double(3, 4)).dtype is dtypes.float64


def test_indexing_in_every_form():
    x = double(3, 4, 5)
    index = dynograd.tensor([[0, 1], [3, 3], [2, 0]])
    close(vmap(lambda a, i: a[i])(x, index), looped(lambda a, i: a[i], x, index))
    close(vmap(lambda a, i: a[:, i])(x, index), looped(lambda a, i: a[:, i], x, index))
    close(vmap(lambda a, i: a[i, i])(x, index), looped(lambda a, i: a[i, i], x, index))
    close(vmap(lambda a: a[[0, 2], :2])(x), x[:, [0, 2], :2])
    close(vmap(lambda i: x[0][i])(index), x[0][index])
    cube = double(3, 2, 3, 4)
    element, two = dynograd.tensor([[0, 1], [1, 0], [1, 1]]), dynograd.tensor([[3, 1], [0, 2], [1, 1]])
    apart = lambda a, i, j: a[i, :, j]  # noqa: E731
    close(vmap(apart)(cube, element, two), looped(apart, cube, element, two))
    close(vmap(apart, (0, None, None))(cube, element[0], two[0]), cube[:, element[0], :, two[0]].permute(1, 0, 2))
    close(
        vmap(apart, (None, 0, None))(cube[0], element, two[0]),
        looped(apart, cube[0], element, two[0], dims=(None, 0, None)),
    )
    middle = lambda a, i: a[:, i, 1:]  # noqa: E731
    close(vmap(middle)(cube, element), looped(middle, cube, element))
    single = vmap(lambda a, i: a[i])(x, dynograd.tensor([1, 0, 3]))  # 0-d index tensors
    close(single, dynograd.stack([x[0, 1], x[1, 0], x[2, 3]]))


# --- derivatives -------------------------------------------------------------------------------------------------------------


def small_network(*layers):
    model = dynograd.nn.Sequential(*layers).double()
    return model, {name: element.detach() for name, element in model.named_parameters()}


def check_per_sample(model, params, x, labels):
    def loss(params, x, label):
        scores = functional_call(model, params, (x.unsqueeze(0),))
        return dynograd.nn.functional.cross_entropy(scores, label.unsqueeze(0))

    slopes, values = vmap(grad_and_value(loss), in_dims=(None, 0, 0))(params, x, labels)
    for number in range(len(x)):
        expected, value = grad_and_value(loss)(params, x[number], labels[number])
        close(values[number], value)
        for name in params:
            close(slopes[name][number], expected[name])
    assert vmap_fallbacks() == {}


def test_per_sample_gradients_of_a_perceptron():
    nn = dynograd.nn
    model, params = small_network(nn.Linear(5, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    check_per_sample(model, params, double(6, 5), dynograd.tensor([0, 1, 2, 0, 1, 2]))


def test_per_sample_gradients_of_a_convolutional_network():
    nn = dynograd.nn
    model, params = small_network(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, stride=2, groups=2),
        nn.Flatten(),
        nn.Linear(4, 3),
    )
    check_per_sample(model, params, double(4, 2, 8, 8), dynograd.tensor([0, 1, 2, 0]))


def test_per_sample_gradients_of_an_embedding_and_a_recurrent_net():
    nn = dynograd.nn

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.cell, self.out = nn.Embedding(7, 4, padding_idx=0), nn.LSTM(4, 5), nn.Linear(5, 3)

        def forward(self, tokens):
            return self.out(self.cell(self.table(tokens[0]).unsqueeze(1))[0][-1])

    model = Reader().double()
    params = {name: element.detach() for name, element in model.named_parameters()}
    check_per_sample(model, params, dynograd.tensor([[1, 2, 0], [4, 4, 6], [3, 0, 1]]), dynograd.tensor([0, 2, 1]))


def test_gradients_outside():
    x, weight = double(5, 3), double(4, 3)
    weight.requires_grad_()
    vmap(lambda a: (weight @ a).tanh())(x).sum().backward()
    expected = grad(lambda w: (x @ w.t()).tanh().sum())(weight.detach())
    close(weight.grad, expected)
    result = grad(lambda w: vmap(lambda a: (w @ a).tanh().sum())(x).sum())(weight.detach())
    close(result, expected)


def test_a_gradient_of_what_was_batched_outside():
    x = double(4, 3).requires_grad_()
    vmap(grad(lambda a: (a**3).sum()))(x).sum().backward()
    close(x.grad, 6 * x.detach())


def test_shared_weights_of_higher_order():
    """Products with one weight for all examples, differentiated twice with respect to it."""
    x, weight, way = double(3, 4), double(2, 4), double(2, 4)

    def loss(w, a):
        return dynograd.nn.functional.linear(a, w).tanh().pow(2).sum()

    def product(w, a):
        return jvp(lambda w: grad(loss)(w, a), (w,), (way,))[1]

    def twice(w, a):
        return grad(lambda w: (grad(loss)(w, a) * way).sum())(w)

    expected = looped(product, weight, x, dims=(None, 0))
    close(vmap(product, (None, 0))(weight, x), expected)
    close(vmap(twice, (None, 0))(weight, x), expected)


def test_shared_convolutions_of_higher_order():
    x, weight, way = double(3, 1, 2, 5, 5), double(3, 2, 3, 3), double(3, 2, 3, 3)

    def loss(w, a):
        return dynograd.nn.functional.conv2d(a, w, stride=2, padding=1).tanh().pow(2).sum()

    def twice(w, a):
        return grad(lambda w: (grad(loss)(w, a) * way).sum())(w)

    def of_input(w, a):
        return grad(lambda a: grad(loss, 1)(w, a).pow(2).sum())(a)

    close(vmap(twice, (None, 0))(weight, x), looped(twice, weight, x, dims=(None, 0)))
    close(vmap(of_input, (None, 0))(weight, x), looped(of_input, weight, x, dims=(None, 0)))
    both = double(3, 3, 2, 3, 3)
    close(vmap(twice)(both, x), looped(twice, both, x))


def test_shared_weights_in_nested_batches():
    x, weight, bias = double(3, 2, 4), double(5, 4), double(5)

    def loss(w, b, a):
        return dynograd.nn.functional.linear(a, w, b).tanh().sum()

    slope = grad(loss, (0, 1))
    result = vmap(vmap(slope, (None, None, 0)), (None, None, 0))(weight, bias, x)
    for number in range(3):
        for place, element in enumerate(looped(slope, weight, bias, x[number], dims=(None, None, 0))):
            close(result[place][number], element)
    close(vmap(vmap(dynograd.dot, (None, 0)), (0, None))(x[0], weight), x[0] @ weight.t())
    images, filters = double(2, 3, 1, 2, 4, 4), double(2, 2, 3, 3)

    def of_image(f, a):
        return grad(lambda f: dynograd.nn.functional.conv2d(a, f).pow(2).sum())(f)

    result = vmap(vmap(of_image, (None, 0)), (None, 0))(filters, images)
    for number in range(2):
        close(result[number], looped(of_image, filters, images[number], dims=(None, 0)))
    rows = vmap(jacrev(lambda w, a: dynograd.nn.functional.linear(a, w).sin()), (None, 0))(weight, x[:, 0])
    close(rows, looped(jacrev(lambda w, a: dynograd.nn.functional.linear(a, w).sin()), weight, x[:, 0], dims=(None, 0)))


def function(x):
    return dynograd.cat([x.sin() * x.sum(), x[:2].exp() * x[1:3]])


def test_jacobians_by_every_way():
    x = double(4)
    unit = dynograd.eye(4, dtype=dtypes.float64)
    by_hand = vmap(lambda v: jvp(function, (x,), (v,))[1], out_dims=1)(unit)
    output, pull = vjp(function, x)
    rows = vmap(pull)(dynograd.eye(len(output), dtype=dtypes.float64))[0]
    for result in (jacrev(function)(x), jacfwd(function)(x), jacrev(function, chunk_size=1)(x), rows):
        close(result, by_hand)
    close(jacrev(function, chunk_size=4)(x), by_hand)


def test_batched_jacobians_and_hessians():
    x = double(3, 4)
    for created in (jacrev, jacfwd):
        close(vmap(created(function))(x), looped(created(function), x))
    scalar = lambda x: (function(x) ** 2).sum()  # noqa: E731
    close(vmap(hessian(scalar))(x), looped(hessian(scalar), x))
    close(hessian(scalar)(x[0]), jacrev(grad(scalar))(x[0]))
    close(vmap(jacrev(jacfwd(scalar)))(x), looped(hessian(scalar), x))
    close(vmap(vmap(hessian(scalar)))(double(2, 3, 4) * 0 + x), dynograd.stack([looped(hessian(scalar), x)] * 2))


def test_jvp_around_and_inside():
    x, way = double(3, 4), double(3, 4)
    output, moved = jvp(vmap(function), (x,), (way,))
    expected = [jvp(function, (element,), (other,)) for element, other in zip(x, way, strict=True)]
    close(output, dynograd.stack([element for element, _ in expected]))
    close(moved, dynograd.stack([element for _, element in expected]))
    close(vmap(lambda a, b: jvp(function, (a,), (b,))[1])(x, way), moved)


def test_jacobians_of_functions_that_read_values():
    def branching(x):
        return x * 2 if x.sum().item() > 0 else x * 3

    x = dynograd.tensor([1.0, 2.0, 3.0, 4.0])
    assert jacfwd(branching)(x).tolist() == (2 * dynograd.eye(4)).tolist()
    assert hessian(lambda x: (branching(x) ** 2).sum())(-x).tolist() == (18 * dynograd.eye(4)).tolist()


@pytest.mark.parametrize("dropout", ["dropout", "alpha_dropout"])
def test_dropout_of_what_all_examples_share(dropout):
    function, shared, each = getattr(dynograd.nn.functional, dropout), dynograd.ones(16), dynograd.zeros(4, 16)

    def drawn(randomness):
        return vmap(lambda x: function(shared, 0.5, True) + x, randomness=randomness)(each).tolist()

    assert len({str(row) for row in drawn("different")}) == 4
    assert len({str(row) for row in drawn("same")}) == 1
    with pytest.raises(RuntimeError, match=f"called random operation {dropout} while in randomness error mode"):
        drawn("error")
    with pytest.raises(RuntimeError, match=f"{dropout}_ would write a different draw"):
        vmap(lambda x: function(shared, 0.5, True, True) + x, randomness="different")(each)


def test_dropout_in_a_jacobian_has_one_mask():
    x = dynograd.ones(8)
    output, pull = vjp(lambda x: dynograd.nn.functional.dropout(x, 0.5), x)
    for randomness in ("error", "same", "different"):
        rows = vmap(pull, randomness=randomness)(dynograd.eye(8))[0]
        assert rows.tolist() == dynograd.diag(output).tolist()


# --- modules -------------------------------------------------------------------------------------------------------------------


def test_an_ensemble():
    models = [dynograd.nn.Linear(3, 2).double() for _ in range(4)]
    params, buffers = stack_module_state(models)
    assert params["weight"].requires_grad and not buffers
    x = double(5, 3)
    result = vmap(lambda p, x: functional_call(models[0], p, x), in_dims=(0, None))(params, x)
    close(result, dynograd.stack([model(x) for model in models]))
    result.sum().backward()
    assert tuple(params["weight"].grad.shape) == (4, 2, 3)


@pytest.mark.parametrize(
    "models, words",
    [
        (lambda nn: [], "at least one model"),
        (lambda nn: [nn.Linear(1, 1), nn.Linear(1, 1).eval()], "training/eval"),
        (lambda nn: [nn.Linear(1, 1), nn.ReLU()], "same class"),
        (lambda nn: [nn.Linear(1, 1), nn.Linear(1, 1).requires_grad_(False)], "requires_grad"),
    ],
)
def test_ensembles_of_unlike_models(models, words):
    with pytest.raises(RuntimeError, match=words):
        stack_module_state(models(dynograd.nn))


def test_functional_call():
    layer = dynograd.nn.Linear(2, 1)
    before = layer.weight
    weight = dynograd.tensor([[1.0, 2.0]])
    result = functional_call(layer, ({"weight": weight}, {"bias": dynograd.tensor([0.5])}), dynograd.ones(2))
    assert result.tolist() == [3.5] and layer.weight is before
    assert functional_call(layer, {}, (), {"input": dynograd.ones(2)}).tolist() == layer(dynograd.ones(2)).tolist()
    with pytest.raises(RuntimeError, match=r"unexpected \['wight'\]"):
        functional_call(layer, {"wight": weight}, dynograd.ones(2), strict=True)
    with pytest.raises(ValueError, match="multiple dictionaries"):
        functional_call(layer, ({"weight": weight}, {"weight": weight}), dynograd.ones(2))
    with pytest.raises(ValueError, match="Expected parameter_and_buffer_dicts to be a dict"):
        functional_call(layer, weight, dynograd.ones(2))
    with pytest.raises(TypeError, match="expected a Tensor for 'weight'"):
        functional_call(layer, {"weight": 1.0}, dynograd.ones(2))
    with pytest.raises(RuntimeError, match=r"missing \['bias'\]"):
        functional_call(layer, {"weight": weight}, dynograd.ones(2), strict=True)
    assert layer.weight is before


def test_tied_weights():
    nn = dynograd.nn
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    twice = functional_call(model, {"0.weight": dynograd.eye(2) * 3}, dynograd.ones(2))
    assert twice.tolist() == [9.0, 9.0]
    state = {"0.weight": dynograd.eye(2) * 3, "1.weight": dynograd.eye(2)}
    assert functional_call(model, state, dynograd.ones(2), tie_weights=False).tolist() == [3.0, 3.0]


# --- randomness ----------------------------------------------------------------------------------------------------------------

DRAWS = {
    "rand": lambda x: dynograd.rand(3),
    "randn": lambda x: dynograd.randn((3,)),
    "randint": lambda x: dynograd.randint(0, 1000, (3,)),
    "randperm": lambda x: dynograd.randperm(50),
    "rand_like": dynograd.rand_like,
    "randn_like": dynograd.randn_like,
    "dropout": lambda x: dynograd.nn.functional.dropout(dynograd.ones_like(x) + x * 0, 0.5),
    "dropout in place": lambda x: dynograd.nn.functional.dropout(x + 1, 0.5, inplace=True),
    "dropout1d": lambda x: dynograd.nn.functional.dropout1d(x.reshape(1, 40, 1), 0.5).flatten(),
    "alpha_dropout": lambda x: dynograd.nn.functional.alpha_dropout(x * 0, 0.5, True),
    "normal_": lambda x: (x * 1).normal_(),
    "bernoulli": lambda x: dynograd.bernoulli(dynograd.full((40,), 0.5)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_randomness(name):
    x = dynograd.ones(4, 40)
    draw = DRAWS[name]
    with pytest.raises(
        RuntimeError, match=r"random operation \w+ while in randomness error mode.*randomness='different'"
    ):
        vmap(draw)(x)
    same = vmap(lambda x: x[0] * 0 + draw(x), randomness="same")(x)
    assert all(element.tolist() == same[0].tolist() for element in same)
    different = vmap(lambda x: x[0] * 0 + draw(x), randomness="different")(x)
    assert len({str(element.tolist()) for element in different}) == 4
    assert tuple(different.shape) == tuple(same.shape)


def test_draws_by_value_per_example():
    p = dynograd.tensor([[0.0] * 20, [1.0] * 20])
    result = vmap(dynograd.bernoulli, randomness="different")(p)
    assert result.tolist() == p.tolist()
    with pytest.raises(RuntimeError, match="cannot draw the same for all"):
        vmap(dynograd.bernoulli, randomness="same")(p)
    result = vmap(lambda p: dynograd.multinomial(p + 1, 5, True), randomness="different")(p)
    assert tuple(result.shape) == (2, 5)


def test_draws_go_on_after_a_batch():
    dynograd.manual_seed(0)
    first = vmap(lambda x: dynograd.nn.functional.dropout(x, 0.5), randomness="different")(dynograd.ones(2, 64))
    after = dynograd.nn.functional.dropout(dynograd.ones(64), 0.5)
    assert after.tolist() not in first.tolist()


def test_a_shared_tensor_is_not_filled_differently():
    shared = dynograd.zeros(3)
    with pytest.raises(RuntimeError, match="all examples share"):
        vmap(lambda x: shared.normal_() + x, randomness="different")(dynograd.ones(2))


# --- writes --------------------------------------------------------------------------------------------------------------------


def test_writes_into_batched_values():
    x, y = double(3, 4), double(3, 4)

    def write(a, b):
        created = a * 1
        created.add_(b)
        created[0] = b[1]
        created[1:3] *= 2
        created.mul_(created.sum())
        return created

    close(vmap(write)(x, y), looped(write, x, y))

    def slope(a, b):
        return grad(lambda a: write(a, b).sum())(a)

    close(vmap(slope)(x, y), looped(slope, x, y))


def test_a_shared_value_written_into_a_batched_one():
    x = double(3, 4)
    result = vmap(lambda a: (a * 1).copy_(dynograd.ones(4, dtype=dtypes.float64)))(x)
    close(result, dynograd.ones(3, 4, dtype=dtypes.float64))
    close(vmap(lambda a: dynograd.zeros_like(a * 1).add(a))(x), x)


def test_a_batched_value_written_into_a_shared_one():
    shared = dynograd.zeros(4, dtype=dtypes.float64)
    with pytest.raises(
        InplaceError, match=r"add_: inside vmap, a batched value .* shape \(4,\) that all examples share"
    ):
        vmap(lambda a: shared.add_(a))(double(3, 4))
    with pytest.raises(InplaceError, match="that all examples share"):
        vmap(lambda a: shared.__setitem__(0, a[0]))(double(3, 4))


# --- autograd.Function -----------------------------------------------------------------------------------------------------------


class Cube(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        return 3 * g * ctx.saved_tensors[0] ** 2


class Scale(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None

    @staticmethod
    def vmap(info, in_dims, x, factor):
        assert info.batch_size == 3 and info.randomness == "error" and in_dims == (0, None)
        return Scale.apply(x, factor).t(), 1


class Plain(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_functions_of_the_user():
    x = double(3, 4)
    close(vmap(Cube.apply)(x), x**3)
    close(vmap(grad(lambda a: Cube.apply(a).sum()))(x), 3 * x**2)
    close(vmap(lambda a: Scale.apply(a, 5.0))(x), x * 5)
    close(vmap(grad(lambda a: Scale.apply(a, 5.0).sum()))(x), x * 0 + 5)
    with pytest.raises(
        RuntimeError, match="Plain: vmap of this autograd.Function needs a rule. Set generate_vmap_rule"
    ):
        vmap(Plain.apply)(x)


def test_a_function_with_two_rules():
    class Both(Scale):
        generate_vmap_rule = True

    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and its own vmap"):
        vmap(lambda a: Both.apply(a, 5.0))(double(3, 4))


# --- what is refused -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use, words",
    [
        (lambda x: x.sum().item(), "item()"),
        (lambda x: x if x.sum() > 0 else -x, "where(condition, a, b)"),
        (lambda x: x[: int(x.sum())], "int()"),
        (lambda x: x * float(x.sum()), "float()"),
        (lambda x: dynograd.tensor(x.tolist()), "tolist()"),
        (lambda x: dynograd.tensor(numpy.sin(x.numpy())), "numpy()"),
        (lambda x: x * numpy.sin(x.array), "numpy.sin"),
        (lambda x: list(range(x.sum().long())), "an index or size"),
        (lambda x: x.nonzero(), "nonzero gives results whose size depends on the values"),
        (lambda x: x[x > 0], "mask that differs from example to example"),
        (lambda x: x.unique(), "unique gives results"),
        (lambda x: dynograd.bincount(x.long()), "scatter_add"),
    ],
)
def test_values_that_are_asked_for(use, words):
    with pytest.raises(RuntimeError) as raised:
        vmap(use)(dynograd.ones(3, 4))
    assert words in str(raised.value) and str(raised.value).startswith("vmap: ")


def test_backward_inside():
    weight = dynograd.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"backward\(\) inside vmap .* Use func.grad inside vmap"):
        vmap(lambda x: (x * weight).sum().backward())(dynograd.ones(3, 2))


def test_a_value_that_got_out():
    kept = []
    vmap(lambda x: kept.append(x) or x * 2)(dynograd.ones(3, 2))
    with pytest.raises(RuntimeError, match="was kept from inside a vmap that is over"):
        kept[0] + 1
    assert "over" in repr(kept[0])


X = dynograd.ones(3, 4)


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda: vmap(dynograd.mul, in_dims=(0,))(X, X), ValueError, ["in_dims has 1 entries", "2 positional"]),
        (lambda: vmap(dynograd.mul, in_dims="0")(X, X), ValueError, ["expected `in_dims` to be int", "str"]),
        (lambda: vmap(dynograd.mul, in_dims=None)(X, X), ValueError, ["expected `in_dims`", "NoneType"]),
        (lambda: vmap(dynograd.mul, in_dims=(None, None))(X, X), ValueError, ["at least one input must be mapped"]),
        (
            lambda: vmap(dynograd.mul, in_dims=(0, 2))(X, X),
            ValueError,
            ["in_dim=2", "dimensionality 2", "in_dims=None"],
        ),
        (lambda: vmap(dynograd.mul)(X, 2.0), ValueError, ["non-Tensor", "float", "None"]),
        (lambda: vmap(dynograd.mul)(X, X.t()), ValueError, ["same size", "[3, 4]", "(4, 3)"]),
        (lambda: vmap(dynograd.mul)(X, dynograd.ones(())), ValueError, ["dimensionality 0"]),
        (lambda: vmap(dynograd.mul, in_dims=(0, "x"))(X, X), ValueError, ["in_dim='x'", "input 1"]),
        (lambda: vmap(sum, in_dims=((0, 0),))([X, X, X]), ValueError, ["input 0", "(0, 0)", "[*, *, *]"]),
        (lambda: vmap(lambda t: t["a"], in_dims=({"b": 0},))({"a": X}), ValueError, ["{'b': 0}", "{'a': *}"]),
        (lambda: vmap(lambda: X)(), ValueError, ["no inputs"]),
        (lambda: vmap(lambda x: 3)(X), ValueError, ["must only return Tensors", "int"]),
        (lambda: vmap(lambda x: x, out_dims=None)(X), ValueError, ["out_dim is None", "differs from example"]),
        (lambda: vmap(lambda x: x, out_dims=2)(X), IndexError, ["out_dims 2", "[-2, 1]"]),
        (lambda: vmap(lambda x: x, out_dims=(0, 0))(X), ValueError, ["out_dims=(0, 0)", "not compatible", "*"]),
        (lambda: vmap(dynograd.mul, randomness="some"), RuntimeError, ["'error', 'different', or 'same'", "some"]),
        (lambda: vmap(dynograd.mul, chunk_size=0), ValueError, ["chunk_size", "0"]),
        (lambda: jacrev(dynograd.sin, chunk_size=0)(X), ValueError, ["jacrev", "chunk_size", "0"]),
        (lambda: vmap(lambda x: x.sum(2))(X), IndexError, ["sum", "dim", "[-1, 0]"]),
    ],
)
def test_errors(call, kind, words):
    with pytest.raises(kind) as raised:
        call()
    missing = [word for word in words if word not in str(raised.value)]
    assert not missing, f"{missing} not in {raised.value}"


def test_an_index_out_of_range_in_a_later_example():
    index = dynograd.tensor([[0], [7]])
    with pytest.raises(IndexError, match="7"):
        vmap(lambda i: dynograd.gather(dynograd.zeros(3), 0, i))(index)
    with pytest.raises(IndexError, match="7"):
        vmap(lambda i: dynograd.nn.functional.embedding(i, dynograd.zeros(3, 2)))(index)


def test_fallbacks_are_counted():
    vmap(lambda x: dynograd.as_strided(x, (2,), (1,)))(dynograd.ones(3, 4))
    assert vmap_fallbacks() == {"as_strided": 1}
    assert vmap_fallbacks(clear=True) and vmap_fallbacks() == {}


W = dynograd.ones(4, 2)


@pytest.mark.parametrize(
    "function, shape, expected",
    [
        (lambda x: x.sin().sum(0), (3, 2), (2,)),
        (lambda x: F.linear(x, W), (2,), (4,)),
        (lambda x: x @ W.T, (3, 2), (3, 4)),
        (lambda x: x.reshape(2, -1) @ x.reshape(-1, 2), (6,), (2, 2)),
        (lambda x: F.conv1d(x, dynograd.ones(3, 2, 3)), (1, 2, 5), (1, 3, 3)),
        (lambda x: F.group_norm(x, 1), (1, 2), (1, 2)),
        (lambda x: F.max_pool1d(x, 2), (2, 4), (2, 2)),
        (lambda x: x.topk(1).indices, (3,), (1,)),
        (lambda x: dynograd.as_strided(x, (2,), (1,)), (4,), (2,)),
        (lambda x: F.scaled_dot_product_attention(x, x, x), (1, 2, 3, 4), (1, 2, 3, 4)),
        (lambda x: vmap(lambda row: F.linear(row, W))(x), (3, 2), (3, 4)),
        (lambda x: grad(lambda w: F.linear(x, w).sum())(W), (2,), (4, 2)),
        (lambda x: grad(lambda x: F.linear(x, W).sum())(x), (2,), (2,)),
    ],
)
def test_an_empty_batch(function, shape, expected):
    assert tuple(vmap(function)(dynograd.zeros(0, *shape)).shape) == (0, *expected)


def test_an_empty_batch_inside_a_batch():
    assert tuple(vmap(vmap(lambda x: F.linear(x, W)))(dynograd.zeros(3, 0, 2)).shape) == (3, 0, 4)
