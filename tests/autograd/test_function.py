"""autograd.Function: ops written by users."""

from __future__ import annotations

import gc
import math
import weakref

import pytest

import dynograd as dg
from dynograd.errors import GradientError, InplaceError, ShapeError


def leaf(*values: float) -> dg.Tensor:
    return dg.tensor(values, requires_grad=True)


class Exp(dg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class Scaled(dg.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor, y):
        ctx.factor = factor
        ctx.save_for_backward(x, y)
        return x * factor, x * y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * ctx.factor + h * y, None, h * x if ctx.needs_input_grad[2] else None


def test_saved_outputs_differentiate_twice_and_make_no_cycle():
    gc.disable()
    try:
        x = leaf(0.5)
        y = Exp.apply(x)
        node = weakref.ref(y.grad_fn)
        (first,) = dg.autograd.grad(y, x, create_graph=True)
        (second,) = dg.autograd.grad(first, x)
        assert second.item() == pytest.approx(y.item())
        del y, first, second
        assert node() is None
    finally:
        gc.enable()


def test_several_inputs_and_outputs():
    x, y = leaf(2.0), leaf(3.0)
    element, two = Scaled.apply(x, 5.0, y)
    (element + two).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([8.0], [2.0])


def test_an_unused_output_counts_as_zero():
    x, y = leaf(2.0), leaf(3.0)
    element, _ = Scaled.apply(x, 5.0, y)
    element.sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([5.0], [0.0])


def test_forward_does_not_record_and_no_grad_is_kept():
    with dg.no_grad():
        assert not Exp.apply(leaf(1.0)).requires_grad
    assert not Exp.apply(dg.ones(1)).requires_grad


def test_saved_tensors_are_checked_for_writes_and_freed():
    x = leaf(1.0)
    y = x * 2
    z = Scaled.apply(y, 1.0, y)[0]
    y.add_(1)
    with pytest.raises(InplaceError, match="modified by an inplace operation"):
        z.sum().backward()
    w = Exp.apply(x)
    w.sum().backward()
    with pytest.raises(GradientError, match="second time"):
        w.sum().backward()


def test_wrong_numbers_and_shapes_of_gradients_are_told():
    class Few(dg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g

    class Wrong(Exp):
        @staticmethod
        def backward(ctx, g):
            return dg.ones(3, 3)

    with pytest.raises(GradientError, match=r"incorrect number of gradients \(expected 2, got 1\)"):
        Few.apply(leaf(1.0), leaf(1.0)).sum().backward()
    with pytest.raises(ShapeError, match=r"invalid gradient at index 0 - got \(3, 3\)"):
        Wrong.apply(leaf(1.0, 2.0)).sum().backward()
    with pytest.raises(RuntimeError, match=r"call Exp.apply"):
        Exp()


def test_mark_non_differentiable():
    class Pair(dg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            order = x.detach() * 0
            ctx.mark_non_differentiable(order)
            return x * 2, order

        @staticmethod
        def backward(ctx, g, _):
            return g * 2

    element, two = Pair.apply(leaf(1.0))
    assert element.requires_grad and not two.requires_grad


def test_setup_context_style():
    class Cube(dg.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x**2

    x = leaf(2.0)
    Cube.apply(x).backward(dg.ones(1))
    assert x.grad.tolist() == [12.0]


@pytest.mark.parametrize("call", [lambda f, x, y: f(x, y), lambda f, x, y: f(x, y=y), lambda f, x, y: f(y=y, x=x)])
def test_setup_context_gets_defaults_and_keywords(call):
    class Power(dg.autograd.Function):
        @staticmethod
        def forward(x, y, exponent=3):
            return (x * y) ** exponent

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, y, ctx.exponent = inputs
            ctx.save_for_backward(x, y)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            slope = g * ctx.exponent * (x * y) ** (ctx.exponent - 1)
            return slope * y, slope * x, None

    x, y = leaf(2.0), leaf(5.0)
    call(Power.apply, x, y).sum().backward()
    assert x.grad.tolist() == [1500.0] and y.grad.tolist() == [600.0]


def test_vjp_is_another_name_of_backward():
    class Cube(dg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def vjp(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * g * x**2

    class Inherits(Cube):
        pass

    for function in (Cube, Inherits):
        x = leaf(2.0)
        (g,) = dg.autograd.grad(function.apply(x), x, create_graph=True)
        assert g.tolist() == [12.0] and dg.autograd.grad(g, x)[0].tolist() == [12.0]
    with pytest.raises(RuntimeError, match="Both: Implementing both 'backward' and 'vjp'"):

        class Both(Cube):
            vjp = Cube.vjp
            backward = Cube.vjp


def test_once_differentiable_refuses_a_second_order():
    class Once(Exp):
        @staticmethod
        @dg.autograd.function.once_differentiable
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    x = leaf(1.0)
    Once.apply(x).sum().backward()
    (g,) = dg.autograd.grad(Once.apply(x).sum() ** 2, x, create_graph=True)
    assert g.item() == pytest.approx(2 * math.e**2, rel=1e-6) and g.requires_grad
    with pytest.raises(GradientError, match="Once: .*once_differentiable"):
        dg.autograd.grad(g, x)


def test_forward_mode_by_the_function_s_own_jvp():
    class Cube(dg.autograd.Function):
        calls = 0

        @staticmethod
        def forward(x, factor):
            return factor * x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * ctx.factor * x**2, None

        @staticmethod
        def jvp(ctx, way, _):
            Cube.calls += 1
            assert _ is None
            (x,) = ctx.saved_tensors
            return way * 3 * ctx.factor * x**2

    x = dg.tensor([2.0, 3.0])
    value, moved = dg.func.jvp(lambda x: Cube.apply(x, 2.0), (x,), (dg.ones(2),))
    assert value.tolist() == [16.0, 54.0] and moved.tolist() == [24.0, 54.0] and Cube.calls == 1

    class Few(Cube):
        @staticmethod
        def jvp(ctx, *ways):
            return ways

    with pytest.raises(RuntimeError, match=r"Few.jvp: returned 2 tangents, expected 1"):
        dg.func.jvp(lambda x: Few.apply(x, 2.0), (x,), (dg.ones(2),))


def test_mark_dirty_gives_views_and_bases_the_new_history():
    class Times(dg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(10)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10

    w = dg.ones(4, requires_grad=True)
    base = w * 1
    view = base[:2]
    assert Times.apply(view) is view
    base.sum().backward()
    assert base.tolist() == [10.0, 10.0, 1.0, 1.0] and w.grad.tolist() == [10.0, 10.0, 1.0, 1.0]
    w.grad = None
    base = w * 1
    view = base[:2]
    Times.apply(base)
    view.sum().backward()
    assert w.grad.tolist() == [10.0, 10.0, 0.0, 0.0]
    with pytest.raises(InplaceError, match="Times: a leaf Variable that requires grad"):
        Times.apply(w)


def returning(change, x):
    class Double(dg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return change(g)

    Double.apply(x).sum().backward()
    return x.grad


@pytest.mark.parametrize("kind", [dg.float64, dg.float16, dg.int64])
def test_gradients_of_another_dtype_are_converted(kind):
    g = returning(lambda g: g.to(kind), dg.ones(2, requires_grad=True))
    assert g.dtype is dg.float32 and g.tolist() == [1.0, 1.0]


def test_sparse_gradients_stay_sparse():
    g = returning(lambda g: g.to_sparse(), dg.ones(2, requires_grad=True))
    assert g.is_sparse and g.to_dense().tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g + 1j, "at index 0 - expected dynograd.float32 but got dynograd.complex64.*grad.real"),
        (lambda g: g.to("meta"), r"at index 0 - expected device cpu but got meta.*grad.to\('cpu'\)"),
        (lambda g: dg.ones(()), r"at index 0 - got \(\) but expected shape compatible with \(2,\)"),
        (lambda g: [g], "expected a Tensor or None as gradient 0, got list"),
    ],
)
def test_gradients_that_do_not_fit_are_refused(change, message):
    with pytest.raises((RuntimeError, TypeError), match=message):
        returning(change, dg.ones(2, requires_grad=True))


def test_the_type_of_a_node_is_named_for_its_function():
    class Square(dg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return grad

    node = Square.apply(dg.ones(1, requires_grad=True)).grad_fn
    assert type(node).__name__ == node.name() == "SquareBackward"


@pytest.mark.parametrize("layout", [dg.sparse_coo, dg.sparse_csr])
def test_sparse_tensors_are_saved_as_they_are(layout):
    class Product(dg.autograd.Function):
        @staticmethod
        def forward(ctx, indices, values, x):
            matrix = dg.sparse_coo_tensor(indices, values, (3, 3)).to_sparse(layout=layout)
            ctx.save_for_backward(matrix, None, x)
            return matrix @ x

        @staticmethod
        def backward(ctx, g):
            matrix, nothing, x = ctx.saved_tensors
            assert matrix.layout is layout and nothing is None
            row, column = matrix.to_sparse_coo().coalesce().indices()
            return None, (g @ x.t())[row, column], matrix.to_dense().t() @ g

    values, x = leaf(2.0, 3.0), leaf([1.0], [4.0], [5.0])
    y = Product.apply(dg.tensor([[0, 2], [1, 0]]), values, x).sum()
    y.backward()
    assert values.grad.tolist() == [4.0, 1.0] and x.grad.tolist() == [[3.0], [2.0], [0.0]]
    with pytest.raises(GradientError, match="backward through the graph a second time"):
        y.backward()


class ScaledRows(dg.autograd.Function):
    """Elements times a number, the sums of rows, and the rows as they are."""

    @staticmethod
    def forward(ctx, x, number):
        y = x * number
        ctx.save_for_backward(x, number, y)
        return y, x.sum(-1), x

    @staticmethod
    def backward(ctx, g, of_sums, of_rows):
        x, number, y = ctx.saved_tensors
        assert g.shape == x.shape == y.shape == of_rows.shape
        return g * number + of_sums.unsqueeze(-1) + of_rows, (g * x).values().sum()


ROWS = {
    "one level": lambda v: dg.RaggedTensor(v, lengths=[2, 0, 4]),
    "two levels": lambda v: dg.RaggedTensor(dg.RaggedTensor(v, lengths=[2, 1, 0, 3]), lengths=[3, 1]),
}


def elements(x):
    return elements(x.values()) if dg.is_ragged(x) else x


@pytest.mark.parametrize("used", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("rows", ROWS)
def test_rows_of_different_lengths_go_through_functions_as_rows(rows, used):
    def program(v, number):
        outputs = ScaledRows.apply(ROWS[rows](v), number)
        return tuple([elements(outputs[place]) * 2 for place in used])

    v, number = dg.linspace(-1, 2, 6, dtype=dg.float64), dg.tensor(0.7, dtype=dg.float64)
    inputs = (v.requires_grad_(), number.requires_grad_())
    assert dg.autograd.gradcheck(program, inputs)
    assert dg.autograd.gradgradcheck(program, inputs)
    g = sum(output.sum() for output in program(*inputs))
    g.backward()
    assert v.grad.tolist() == pytest.approx([2 * sum((0.7, 1.0, 1.0)[place] for place in used)] * 6)


def test_rows_become_a_rectangle_and_its_gradient_rows():
    class Padded(dg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.lengths = x.lengths()
            return x.to_padded(0.0)

        @staticmethod
        def backward(ctx, g):
            return dg.ragged_from_padded(g, ctx.lengths)

    x = dg.ragged_tensor([[1.0, 2.0], [3.0]], requires_grad=True)
    Padded.apply(x).pow(2).sum().backward()
    assert x.grad.tolist() == [[2.0, 4.0], [6.0]]


def test_rows_are_changed_in_place():
    class Times(dg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(3)

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = dg.ragged_tensor([[1.0, 2.0], [3.0]], requires_grad=True)
    y = x * 1
    assert Times.apply(y) is y
    y.square().sum(1).sum().backward()
    assert x.grad.tolist() == [[18.0, 36.0], [54.0]]


@pytest.mark.parametrize("change", [lambda g: g.sum(1), lambda g: g.values(), lambda g: g[:1]])
def test_gradients_without_the_rows_are_refused(change):
    x = dg.ragged_tensor([[1.0, 2.0], [3.0]], requires_grad=True)
    with pytest.raises(
        ShapeError, match=r"invalid gradient at index 0 - got .* expected shape compatible with \(2, j1\)"
    ):
        returning(change, x)
