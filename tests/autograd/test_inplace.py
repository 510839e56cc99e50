"""Writing in place: values, history, views, and the errors when backward would be wrong."""

from __future__ import annotations

import re

import numpy
import pytest

import dynograd as dg
from dynograd.errors import DtypeError, InplaceError, ShapeError


def leaf(*values: float) -> dg.Tensor:
    return dg.tensor(values, requires_grad=True)


def test_inplace_ops_keep_the_object_and_its_memory():
    x = dg.ones(3)
    memory = x.data_ptr()
    y = x
    x += 2
    x.mul_(2).sub_(1)
    assert y is x and x.data_ptr() == memory and x.tolist() == [5.0] * 3


def test_inplace_result_must_fit_dtype_and_shape():
    with pytest.raises(
        DtypeError, match=r"result type dynograd.float32 can't be cast to the desired output type dynograd.int64"
    ):
        dg.tensor([1, 2]).add_(dg.tensor([0.5, 0.5]))
    with pytest.raises(ShapeError, match=r"output with shape \(2,\) doesn't match the broadcast shape \(3, 2\)"):
        dg.ones(2).add_(dg.ones(3, 2))


@pytest.mark.parametrize(
    ("target", "other"), [((), (1,)), ((), (1, 1)), ((1,), (1, 1)), ((3,), (1, 3)), ((1,), (1, 3)), ((1,), (3,))]
)
@pytest.mark.parametrize("name", ["add_", "copy_", "lerp_", "clamp_min_", "masked_fill_", "masked_scatter_"])
@pytest.mark.parametrize("recorded", [False, True])
def test_what_is_written_has_no_more_dims_than_the_tensor(target, other, name, recorded):
    x, y = dg.zeros(target), dg.ones(other)
    if recorded:
        x = x.requires_grad_() * 1
    arguments = {"lerp_": (y, 0.5), "masked_fill_": (y > 0, 2.0), "masked_scatter_": (y > 0, y)}.get(name, (y,))
    with pytest.raises(RuntimeError, match=rf"{name}: .*{re.escape(str(tuple(other)))}"):
        getattr(x, name)(*arguments)
    assert not x.any()


@pytest.mark.parametrize("recorded", [False, True])
def test_an_item_takes_values_with_leading_ones_that_fit_otherwise(recorded):
    x = dg.zeros(2, 3)
    if recorded:
        x = x.requires_grad_() * 1
    x[0] = dg.tensor([[[1.0, 2.0, 3.0]]])
    assert x.tolist() == [[1, 2, 3], [0, 0, 0]]
    with pytest.raises(RuntimeError, match=r"setitem: shape mismatch: value of shape \(1, 3\)"):
        x[0, :1] = dg.tensor([[1.0, 2.0, 3.0]])


def test_history_goes_on_through_inplace_ops():
    x = leaf(2.0, 3.0)
    y = x * 1
    y.mul_(x)
    y += 1
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_a_leaf_that_requires_grad_is_not_written_to():
    x = leaf(1.0)
    with pytest.raises(InplaceError, match=r"leaf Variable that requires grad.*no_grad"):
        x.add_(1)
    with pytest.raises(InplaceError, match="a view of a leaf Variable"):
        x[0] = 2.0
    with dg.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0]


def test_a_saved_value_written_later_names_both_lines():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y * y
    y.add_(1)  # the writer
    with pytest.raises(
        InplaceError,
        match=r"(?s)backward of mul.*modified by an inplace operation.*test_inplace.py:\d+ in test_a_saved",
    ):
        z.sum().backward()


def test_a_value_nobody_saved_may_be_written():
    x = leaf(1.0)
    y = x + 1
    z = y + y
    y.add_(5)
    z.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_writing_through_a_view_is_noticed():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y * y
    y.detach()[0] = 9.0
    with pytest.raises(InplaceError, match="modified by an inplace operation"):
        z.sum().backward()


def test_writing_another_part_of_the_memory_is_fine():
    buffer = dg.ones(4)
    x = leaf(3.0)
    product = x * buffer[:1]
    buffer[2:].fill_(7.0)
    product.sum().backward()
    assert x.grad.tolist() == [1.0]


def test_data_is_not_watched():
    x = leaf(1.0)
    y = (x * x).sum()
    x.data.mul_(1)
    y.backward()
    assert x.grad.tolist() == [2.0]


def test_a_weight_changed_between_forward_and_backward_is_noticed():
    w, x = leaf(1.0), leaf(2.0)
    y = (w * x).sum()
    with dg.no_grad():
        w.sub_(0.1)
    with pytest.raises(InplaceError, match="modified by an inplace operation"):
        y.backward()


def test_writing_into_a_view_gives_the_base_a_history():
    base, x = dg.zeros(2, 3), leaf(1.0, 2.0, 3.0)
    row = base[1]
    row.copy_(x * 2)
    assert base.requires_grad and base.tolist() == [[0.0] * 3, [2.0, 4.0, 6.0]]
    (base * base).sum().backward()
    assert x.grad.tolist() == [8.0, 16.0, 24.0]


def test_writing_the_base_renews_its_views():
    x = leaf(1.0, 2.0)
    base = x * 1
    view = base.view(2, 1)
    base.mul_(3)
    view.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


CHAINS = {  # a long chain of views: what makes the next one
    "view": lambda x: x.view(4),
    "narrow": lambda x: x.narrow(0, 0, 4),
    "of several outputs": lambda x: x.split(4)[0],
}


@pytest.mark.parametrize("step", CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize("written", ["the view", "the base"])
def test_a_chain_of_views_may_be_longer_than_the_stack(step, written):
    x = leaf(1.0, 2.0, 3.0, 4.0)
    base = view = x * 1
    for _ in range(3000):
        view = step(view)
    (view if written == "the view" else base).mul_(2)
    (base if written == "the view" else view).sum().backward()
    assert x.grad.tolist() == [2.0] * 4
    assert view._base is base


def test_a_tangent_goes_through_a_long_chain_of_views():
    with dg.autograd.forward_ad.dual_level():
        base = view = dg.zeros(4)
        for _ in range(3000):
            view = view.view(4)
        view.copy_(dg.autograd.forward_ad.make_dual(dg.ones(4), dg.full((4,), 3.0)))
        assert dg.autograd.forward_ad.unpack_dual(base).tangent.tolist() == [3.0] * 4


def test_writing_one_view_renews_the_others():
    x = leaf(1.0, 2.0)
    base = x * 1
    left, whole = base[:1], base.view(2, 1)
    left.mul_(5)
    whole.sum().backward()
    assert x.grad.tolist() == [5.0, 1.0]


@pytest.mark.parametrize(
    "index",
    [0, slice(1, 3), (slice(None), 1), (..., -1), [0, 2], (dg.tensor([0, 1]), dg.tensor([1, 2])), "mask"],
    ids=str,
)
def test_setitem_gradients_split_between_base_and_value(index):
    data = numpy.arange(12.0).reshape(3, 4)
    if index == "mask":
        index = dg.tensor(data % 2 == 0)
    x = dg.tensor(data, requires_grad=True)
    region = x.detach()[index]
    value = dg.full(tuple(region.shape), 2.0, dtype=dg.float64, requires_grad=True)
    y = x * 1
    y[index] = value
    weights = dg.tensor(numpy.linspace(1, 2, 12).reshape(3, 4))
    (y * weights).sum().backward()
    expected = weights.clone()
    expected[index] = 0.0
    numpy.testing.assert_allclose(x.grad.numpy(), expected.numpy())
    numpy.testing.assert_allclose(value.grad.numpy(), weights[index].numpy())


def test_setitem_of_a_value_that_does_not_fit():
    with pytest.raises(ShapeError, match=r"shape mismatch.*\(2,\).*\(3,\)"):
        x = dg.zeros(3, 3)
        x[0] = dg.ones(2)


def test_second_order_through_a_write_into_a_view():
    x = leaf(2.0, 3.0)
    y = dg.zeros(2)
    y[0] = x[0] ** 3
    y[1] = x[1] * x[0]
    (first,) = dg.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = dg.autograd.grad(first.sum(), x)
    assert first.tolist() == [15.0, 2.0] and second.tolist() == [13.0, 1.0]


def test_overwriting_with_constants_cuts_the_gradient():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.zero_()
    assert y.requires_grad
    (y + x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_version_counts_writes():
    x = dg.ones(2)
    before = x._version
    x.add_(1)
    x[0] = 3
    assert x._version == before + 2


def test_fill_takes_one_value():
    with pytest.raises(ShapeError, match="0-dimension value"):
        dg.ones(2).fill_(dg.ones(2))


def test_methods_that_change_the_shape_in_place():
    x = dg.arange(6.0).reshape(2, 3)
    y, memory = x, x.data_ptr()
    x.t_().unsqueeze_(0)
    assert y.shape == (1, 3, 2) and x.data_ptr() == memory
    assert x.squeeze_().transpose_(0, 1).shape == (2, 3)


def test_history_and_views_follow_a_change_of_shape():
    x = leaf(1.0, 2.0)
    y = x * 1
    view = y[:1]
    y.unsqueeze_(0)
    y.mul_(3)
    (y.sum() + view.sum()).backward()
    assert x.grad.tolist() == [6.0, 3.0]
    with pytest.raises(InplaceError, match="leaf Variable"):
        x.unsqueeze_(0)
    with dg.no_grad():
        assert x.unsqueeze_(0).shape == (1, 2) and x.requires_grad


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("reduce", ["sum", "weighted"])
def test_writes_through_as_strided_reach_the_right_elements(layout, reduce):
    weights = numpy.arange(9.0).reshape(3, 3)
    x = dg.ones(3, 3, requires_grad=True)
    y = x * 2 if layout == "rows" else (x * 2).t()
    y.as_strided((2, 2), (3, 1), 1).mul_(3.0)  # elements 1, 2, 4, 5 of the memory
    (y.sum() if reduce == "sum" else (y * dg.from_numpy(weights).float()).sum()).backward()
    factor = numpy.full(9, 2.0)
    factor[[1, 2, 4, 5]] = 6.0
    expected = factor.reshape(3, 3)
    if reduce == "weighted":
        expected = expected * (weights if layout == "rows" else weights.T)
    assert x.grad.tolist() == expected.tolist()


def test_hooks_of_a_copy_are_not_those_of_its_source():
    x = leaf(1.0, 2.0)
    source, target = x * 2, dg.zeros(2)
    target.copy_(source)
    target.register_hook(lambda g: g * 100)
    (alone,) = dg.autograd.grad(source.sum(), x, retain_graph=True)
    assert alone.tolist() == [2.0, 2.0]
    assert dg.autograd.grad(target.sum(), x)[0].tolist() == [200.0, 200.0]


WRITES = {
    "index_add": lambda x: (0, dg.tensor([2, 0, 2]), dg.ones(3, 4)),
    "index_add columns": lambda x: (1, dg.tensor([2, 0, 2]), dg.ones(5, 3)),
    "index_copy": lambda x: (1, dg.tensor([3, 0]), dg.ones(5, 2)),
    "index_fill": lambda x: (0, dg.tensor([-1, 0]), 2.5),
    "index_put": lambda x: ((dg.tensor([1, -1]), dg.tensor([0, 2])), dg.tensor([7.0, 8.0])),
    "index_put adds": lambda x: ((dg.tensor([1, 1, -1]),), dg.ones(3, 4), True),
    "masked_fill": lambda x: (x > 0, 3.0),
    "masked_fill rows": lambda x: (dg.tensor([True, False, True, False]), 3),
    "masked_scatter": lambda x: (x > 0, dg.arange(20.0)),
    "put": lambda x: (dg.tensor([[1, -1], [7, 7]]), dg.arange(4.0)),
    "put adds": lambda x: (dg.tensor([[1, -1], [7, 7]]), dg.arange(4.0).view(2, 2), True),
    "scatter": lambda x: (0, dg.tensor([[4, 0, 1, 2], [0, 1, 2, 3]]), dg.ones(2, 4)),
    "scatter number": lambda x: (1, dg.tensor([[3], [0]]), 2.0),
    "scatter_add": lambda x: (1, dg.tensor([[3, 3], [0, 0]]), dg.ones(2, 2)),
    "index_copy of its own memory": lambda x: (0, dg.tensor([2, 0, 4]), x[1:4]),
}


@pytest.mark.parametrize("layout", ["rows", "turned", "apart"])
@pytest.mark.parametrize("case", WRITES)
def test_a_write_into_own_memory_gives_what_the_op_gives(case, layout):
    dg.manual_seed(0)
    memory = {"rows": dg.randn(5, 4), "turned": dg.randn(4, 5), "apart": dg.randn(5, 8)}[layout]
    x = {"rows": memory, "turned": memory.T, "apart": memory[:, ::2]}[layout]
    name, args = case.split()[0], WRITES[case](x)
    expected, beside, count = getattr(x.clone(), name)(*args), memory.clone(), x._version
    place = x.data_ptr()
    assert getattr(x, f"{name}_")(*args) is x
    numpy.testing.assert_allclose(x.numpy(), expected.numpy())
    assert x.data_ptr() == place and x._version > count and memory._version == x._version
    if layout == "apart":
        numpy.testing.assert_array_equal(memory[:, 1::2].numpy(), beside[:, 1::2].numpy())


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y.index_add_(0, dg.tensor([0]), dg.ones(1, 3)),
        lambda y: y.fill_(1.0),
        lambda y: y.zero_(),
        lambda y: y.copy_(dg.ones(2, 3)),
        lambda y: y.scatter_(0, dg.tensor([[0, 1, 0]]), 1.0),
        lambda y: y.__setitem__((dg.tensor([0]), dg.tensor([1])), 5.0),
    ],
)
def test_backward_sees_a_write_into_own_memory(write):
    x = dg.ones(2, 3, requires_grad=True)
    y = x.exp()
    with dg.no_grad():
        write(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda x: x.index_add_(0, dg.tensor([0, 5]), dg.ones(2, 4)), IndexError),
        (lambda x: x.index_copy_(0, dg.tensor([0, -1]), dg.ones(2, 4)), IndexError),
        (lambda x: x.index_put_((dg.tensor([0, 9]),), dg.ones(2, 4), True), IndexError),
        (lambda x: x.put_(dg.tensor([0, 20]), dg.ones(2)), IndexError),
        (lambda x: x.put_(dg.tensor([0, -21]), dg.ones(2), True), IndexError),
        (lambda x: x.scatter_add_(0, dg.tensor([[0, 0, 0, 7]]), dg.ones(1, 4)), IndexError),
        (lambda x: x.masked_scatter_(dg.ones(5, 4, dtype=dg.bool), dg.ones(3)), ValueError),
        (lambda x: x.__setitem__((dg.tensor([0, 1]), dg.tensor([0, 9])), 1.0), IndexError),
    ],
)
def test_a_refused_write_leaves_the_tensor_as_it_was(write, error):
    x = dg.zeros(5, 4)
    with pytest.raises(error):
        write(x)
    assert not x.any()


@pytest.mark.parametrize(
    "index",
    [1, -1, slice(0, 2), (slice(None), 2), (0, 3), (Ellipsis, 1), (None, 2), (slice(1, 3), slice(0, 4, 2))],
    ids=str,
)
@pytest.mark.parametrize("seen", [False, True], ids=["alone", "beside a view"])
def test_values_with_history_written_at_an_index(index, seen):
    x = dg.randn(3, 4, dtype=dg.float64).requires_grad_()
    weights = numpy.arange(12.0).reshape(3, 4) + 1
    value = dg.randn(*weights[index].shape, dtype=dg.float64).requires_grad_()
    base = x * 2
    view = base[0] if seen else None
    base[index] = value
    inside = numpy.zeros((3, 4), bool)
    inside[index] = True
    numpy.testing.assert_array_equal(base.detach().numpy()[index], value.detach().numpy())
    total = (base * dg.tensor(weights)).sum() + (0 if view is None else view.sum())
    if view is not None:
        weights = weights.copy()
        weights[0] += 1
    first, second = dg.autograd.grad(total, [x, value], create_graph=True)
    numpy.testing.assert_array_equal(first.detach().numpy(), numpy.where(inside, 0.0, 2 * weights))
    numpy.testing.assert_array_equal(second.detach().numpy(), weights[index])
    created = dg.zeros(3, 4, dtype=dg.float64)
    created[index] = value
    created[index] = value * 3
    (created * dg.tensor(weights)).sum().backward()
    numpy.testing.assert_array_equal(value.grad.numpy(), 3 * weights[index])


@pytest.mark.parametrize("write", [lambda x: x.__setitem__(0, 1.0), lambda x: x[0].add_(1), lambda x: x[:, 1:].zero_()])
@pytest.mark.parametrize(
    "make", [lambda base: base.view(2, 3), lambda base: base.view(3, 2)[1:], lambda base: base[None, :3]]
)
def test_a_leaf_that_is_a_view_of_what_needs_no_gradient_is_not_written(make, write):
    x = make(dg.zeros(6)).requires_grad_()
    with pytest.raises(InplaceError, match="a view of a leaf Variable"):
        write(x)
    assert x.is_leaf
    with dg.no_grad():
        write(x)


WHOLE = {
    "zero_": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(2),
    "copy_": lambda x: x.copy_(dg.ones(2)),
    "copy_ of what requires grad": lambda x: x.copy_(dg.ones(2, requires_grad=True)),
    "item": lambda x: x.__setitem__(..., 1.0),
    "normal_": lambda x: x.normal_(),
    "bernoulli_": lambda x: x.bernoulli_(),
    "cauchy_": lambda x: x.cauchy_(),
    "eq_": lambda x: x.eq_(1),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", WHOLE)
def test_what_is_overwritten_throughout_has_zeros_for_a_gradient(name, create_graph):
    w = dg.ones(2, requires_grad=True)
    x = w * 3
    WHOLE[name](x)
    (g,) = dg.autograd.grad((x * 7).sum(), w, retain_graph=True, create_graph=create_graph)
    (x * 7).sum().backward()
    assert g.tolist() == w.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "write",
    [lambda c, w: c.__setitem__(Ellipsis, w), lambda c, w: c.copy_(w), lambda c, w: c.fill_(w.sum() / 4)],
    ids=["item", "copy_", "fill_"],
)
def test_a_write_of_everything_keeps_the_history_of_what_was_there(write):
    """... so that backward goes through it with zeros, and needs what it saved (as in PyTorch)."""
    w = dg.ones(4, requires_grad=True)
    c = w.clone()
    write(c, w)
    assert dg.autograd.grad(c.sum(), w)[0].tolist() == [1.0] * 4
    c = w.exp()
    write(c, w)
    with pytest.raises(InplaceError, match="exp"):
        c.sum().backward()


RETAINED = {
    "mul_": (lambda y: y, lambda y, kept: y.mul_(10)),
    "twice": (lambda y: y, lambda y, kept: y.mul_(10).add_(1)),
    "a view of it": (lambda y: y, lambda y, kept: y[:1].mul_(10)),
    "its base": (lambda y: y[:], lambda y, kept: y.mul_(10)),
    "the view": (lambda y: y[:], lambda y, kept: kept.mul_(10)),
    "copy_": (lambda y: y, lambda y, kept: y.copy_(dg.ones(2))),
}


@pytest.mark.parametrize("name", RETAINED)
def test_retain_grad_keeps_the_gradient_of_what_was_written(name):
    view, write = RETAINED[name]
    y = dg.ones(2, requires_grad=True) * 3
    kept = view(y)
    kept.retain_grad()
    write(y, kept)
    (kept * 7).sum().backward()
    assert kept.retains_grad and kept.grad.tolist() == [7.0, 7.0]


def test_hooks_stay_with_what_was_before_a_write():
    seen = []
    y = dg.ones(2, requires_grad=True) * 3
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.mul_(10)
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y * 7).sum().backward()
    assert seen == [[7.0, 7.0], [70.0, 70.0]]


@pytest.mark.parametrize("fill", ["normal_", "uniform_", "exponential_", "random_", "bernoulli_"])
@pytest.mark.parametrize("size", [3, 20_000])
def test_numbers_that_are_drawn_have_no_tangent(fill, size):
    forward = dg.autograd.forward_ad
    with forward.dual_level():
        x = forward.make_dual(dg.ones(size), dg.ones(size))
        getattr(x, fill)()
        assert not forward.unpack_dual(x).tangent.any()
