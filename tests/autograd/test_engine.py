"""The backward pass: what reaches the leaves, in which order, and what is freed."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy
import pytest

import dynograd as dg
from dynograd import arrays
from dynograd.arrays import buffers
from dynograd.autograd import engine
from dynograd.errors import GradientError
from dynograd.kernels.build import threads as kernel_threads
from dynograd.kernels.optim import gradients_cpu


def leaf(*values: float) -> dg.Tensor:
    return dg.tensor(values, requires_grad=True)


def test_gradients_accumulate_over_backwards():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]


def test_a_tensor_used_twice_gets_both_gradients():
    x = leaf(2.0)
    y = x * 3
    (y * y + y).backward(dg.ones(1))
    assert x.grad.tolist() == [39.0]


def test_two_leaves_of_a_sum_do_not_share_their_gradient():
    x, y = leaf(1.0), leaf(2.0)
    (x + y).sum().backward()
    x.grad.mul_(10)
    assert y.grad.tolist() == [1.0]


def test_the_users_gradient_is_not_taken_over():
    x, seed = leaf(1.0, 1.0), dg.ones(2)
    (x + 0).backward(seed)
    x.grad.zero_()
    assert seed.tolist() == [1.0, 1.0]


def test_an_unused_branch_leaves_grad_none():
    x, y = leaf(1.0), leaf(1.0)
    unused = y * 2
    (x * 2).sum().backward()
    assert unused.requires_grad and y.grad is None


def test_a_weight_of_many_steps_gets_the_sum():
    w, x = leaf(1.0, 2.0), dg.tensor([1.0, 1.0])
    total = dg.zeros(2)
    for step in range(5):
        total = total + w * x * step
    total.sum().backward()
    assert w.grad.tolist() == [10.0, 10.0]


def test_gradients_come_in_the_dtype_of_the_leaf():
    x = dg.tensor([1.0], dtype=dg.float64, requires_grad=True)
    y = dg.tensor([1.0], dtype=dg.float32, requires_grad=True)
    (x * y).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (dg.float64, dg.float32)


def test_a_chain_of_100_000_nodes_needs_no_recursion():
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + x
    y.backward()
    assert x.grad.tolist() == [100_001.0]
    del y  # freeing the chain must not recurse either


def test_graphs_are_freed_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0, 2.0)
        y = (x.exp() * x).tanh()
        z = (y[0] + y.sum()).reshape(1)
        z.register_hook(lambda g: g * 2)
        watched = [weakref.ref(tensor.grad_fn) for tensor in (y, z)] + [weakref.ref(y), weakref.ref(z)]
        z.backward(retain_graph=True)
        z.backward()
        del y, z
        assert [element() for element in watched] == [None] * 4
    finally:
        gc.enable()


def test_saved_arrays_are_dropped_by_backward():
    x = dg.ones(3, requires_grad=True)
    y = x.exp()
    z = (y * y).sum()
    kept = weakref.ref(y.array)
    del y
    assert kept() is not None
    z.backward()
    assert kept() is None


def test_backward_through_a_freed_graph_names_the_op():
    x = leaf(1.0)
    y = x.exp().sum()
    y.backward()
    with pytest.raises(GradientError, match=r"(?s)exp.*backward through the graph a second time.*retain_graph=True"):
        y.backward()


def test_retain_graph_allows_a_second_backward():
    x = leaf(1.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0]


def test_ops_that_save_nothing_may_be_passed_twice():
    x = leaf(1.0)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2.0]


def test_backward_of_a_vector_asks_for_a_reduction():
    with pytest.raises(GradientError, match=r"(?s)implicitly created only for scalar outputs.*\(2,\).*sum\(\)"):
        (leaf(1.0, 2.0) * 2).backward()


def test_backward_without_history_says_so():
    with pytest.raises(GradientError, match="does not require grad and does not have a grad_fn"):
        dg.ones(1).backward()


def test_backward_with_a_gradient_of_another_shape():
    with pytest.raises(GradientError, match=r"Mismatch in shape.*\(3,\).*\(2,\)"):
        (leaf(1.0, 2.0) * 2).backward(dg.ones(3))


def test_backward_inputs_fills_only_those():
    x, y = leaf(2.0), leaf(3.0)
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [3.0] and y.grad is None
    with pytest.raises(GradientError, match="cannot be empty"):
        (x * y).sum().backward(inputs=[])


def test_grad_leaves_grad_alone_and_reaches_inner_tensors():
    x = leaf(2.0)
    y = x * x
    z = (y * 3).sum()
    by_y, by_x = dg.autograd.grad(z, [y, x])
    assert (by_y.tolist(), by_x.tolist(), x.grad) == ([3.0], [12.0], None)


def test_grad_of_an_unused_input():
    x, y = leaf(1.0), leaf(1.0)
    z = (x * 2).sum()
    with pytest.raises(GradientError, match=r"not have been used in the graph.*allow_unused=True"):
        dg.autograd.grad(z, [x, y], retain_graph=True)
    assert dg.autograd.grad(z, [x, y], allow_unused=True, retain_graph=True)[1] is None
    assert dg.autograd.grad(z, [x, y], materialize_grads=True)[1].tolist() == [0.0]
    (zeros,) = dg.autograd.grad(x * 1, y, create_graph=True, materialize_grads=True)
    assert dg.autograd.grad(zeros, y, materialize_grads=True)[0].tolist() == [0.0]
    with pytest.raises(ValueError, match="allow_unused=False"):
        dg.autograd.grad(z, [x, y], allow_unused=False, materialize_grads=True)


def test_grad_of_an_input_that_does_not_require_it():
    x = leaf(1.0)
    with pytest.raises(GradientError, match="does not require grad"):
        dg.autograd.grad((x * 2).sum(), dg.ones(1))


def test_third_derivative():
    x = dg.tensor(2.0, requires_grad=True)
    y = x**4
    for expected in (32.0, 48.0, 48.0):
        (y,) = dg.autograd.grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(expected)


def test_create_graph_gradients_in_grad_can_be_differentiated():
    x = leaf(1.0, 2.0)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    x.grad = None
    first.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_requires_grad_needs_a_floating_leaf():
    with pytest.raises(GradientError, match=r"only Tensors of floating point.*int64"):
        dg.tensor([1, 2], requires_grad=True)
    with pytest.raises(GradientError, match=r"change requires_grad flags of leaf variables.*mul"):
        (leaf(1.0) * 2).requires_grad = False


def test_assigned_grad_must_fit():
    x = leaf(1.0, 2.0)
    with pytest.raises(GradientError, match=r"different size.*\(2,\).*\(3,\)"):
        x.grad = dg.ones(3)
    with pytest.raises(TypeError, match="expected a Tensor or None"):
        x.grad = 1.0
    with pytest.raises(GradientError, match=r"dtype dynograd.float64, expected dynograd.float32"):
        x.grad = dg.ones(2, dtype=dg.float64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: setattr(x, "grad", x), "can't assign a tensor as its own grad"),
        (lambda x: setattr(x, "grad", dg.ones(2, device="meta")), "assigned grad is on meta, expected cpu"),
        (
            lambda x: setattr(x, "data", dg.ones(2, dtype=dg.int64)),
            "floating point or complex dtype, got dynograd.int64",
        ),
        (
            lambda x: setattr(x, "data", dg.ones(2, device="meta")),
            "a tensor on cpu cannot take the memory of one on meta",
        ),
        (lambda x: (x * 2)[0].detach_(), r"Can't detach views in-place .*shape \(\)"),
    ],
)
def test_what_cannot_be_put_in_a_leaf(change, message):
    with pytest.raises(RuntimeError, match=message):
        change(leaf(1.0, 2.0))


@pytest.mark.parametrize("graph", [lambda x: x * 3, lambda x: x * 3 + x.exp()], ids=["one path", "two paths"])
def test_a_gradient_of_another_shape_is_not_added(graph):
    x = leaf(1.0, 2.0)
    x.grad = dg.ones(2)
    x.data = dg.ones(3)
    with pytest.raises(GradientError, match=r"\.grad of shape \(2,\), to which a gradient of shape \(3,\)"):
        graph(x).sum().backward()


@pytest.mark.parametrize(
    ("output", "seed", "message"),
    [
        (dg.ones(2), dg.ones(2, device="meta"), "expected device cpu, that of the output, but got meta"),
        (
            dg.ones(2),
            dg.ones(2) * 1j,
            "same dtype: the gradient has dynograd.complex64 and the output dynograd.float32",
        ),
        (
            dg.ones(2) * 1j,
            dg.ones(2),
            "same dtype: the gradient has dynograd.float32 and the output dynograd.complex64",
        ),
        (dg.ones(1) * 1j, None, "only for real scalar outputs but got dynograd.complex64"),
        (dg.ones(2), "ab", "expected a Tensor, or a sequence of them, got str"),
        (dg.ones(1), 1.0, "expected a Tensor, or a sequence of them, got float"),
    ],
)
def test_gradients_to_begin_with_fit_the_output(output, seed, message):
    x = output.requires_grad_() if output.is_leaf else output.detach().requires_grad_()
    for call in (lambda: (x * 2).backward(seed), lambda: dg.autograd.grad(x * 2, x, seed)):
        with pytest.raises((RuntimeError, TypeError), match=message):
            call()


def test_detach_shares_memory_without_history():
    x = leaf(1.0)
    y = (x * 2).detach()
    assert not y.requires_grad and y.grad_fn is None
    z = x.detach()
    z.zero_()
    assert x.tolist() == [0.0]


def test_grad_fn_shows_the_graph():
    x = leaf(1.0)
    y = x.exp() * 2
    assert repr(y.grad_fn) == "<MulBackward0>"
    inner = y.grad_fn.next_functions[0][0]
    assert inner.name() == "ExpBackward0"
    assert inner.next_functions[0][0].variable is x
    assert y.grad_fn.next_functions[1] == (None, 0)


def test_backward_works_in_parallel_threads_over_one_trunk():
    x = leaf(*numpy.linspace(0, 1, 8).tolist())
    trunk = x.exp()
    errors = []

    def work() -> None:
        try:
            for _ in range(50):
                (g,) = dg.autograd.grad((trunk * 2).sum(), x, retain_graph=True)
                numpy.testing.assert_allclose(g.numpy(), 2 * numpy.exp(x.detach().numpy()), rtol=1e-6)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_errors_in_backward_name_the_op_that_was_recorded():
    class Broken(dg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("inner")

    with pytest.raises(ValueError, match="inner") as caught:
        Broken.apply(leaf(1.0)).sum().backward()
    assert any("backward of Broken" in note for note in caught.value.__notes__)


def test_a_number_makes_nothing_kept():
    x = leaf(1.0)
    y = x * 1
    z = y * 2.0
    y.add_(1)
    z.sum().backward()
    assert x.grad.tolist() == [2.0]


def test_second_order_when_one_input_of_a_fused_op_depends_on_another():
    x = dg.tensor([[0.3, -1.0, 2.0, 0.5]], dtype=dg.float64, requires_grad=True)

    def by_fused(x):
        return dg.nn.functional.layer_norm(x, (4,), (x * x).mean(0)).pow(2).sum()

    def by_hand(x):
        normal = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        return (normal * (x * x).mean(0)).pow(2).sum()

    results = []
    for function in (by_fused, by_hand):
        (first,) = dg.autograd.grad(function(x), x, create_graph=True)
        results.append((first.detach().numpy(), dg.autograd.grad(first.sum(), x)[0].numpy()))
    for element, two in zip(*results, strict=True):
        numpy.testing.assert_allclose(element, two, rtol=1e-8)


def test_a_gradient_that_nobody_else_holds_is_not_copied(monkeypatch):
    copies = []
    copy = dg.arrays.copy
    monkeypatch.setattr("dynograd.arrays.copy", lambda array: copies.append(array.shape) or copy(array))
    w, x = dg.ones(3, 2, requires_grad=True), dg.ones(4, 3)
    (x @ w).sum().backward()
    assert copies == []
    other = dg.ones(2, requires_grad=True)
    (other + w.detach()[0]).sum().backward()  # its gradient is a stretched view
    assert copies == [(2,)]


@pytest.mark.parametrize("size", [3, 5000, 200_000])
def test_parts_of_a_gradient_are_added_in_place(size, monkeypatch):
    monkeypatch.setattr(engine, "_new_sum", None)
    x = dg.ones(size, dtype=dg.float64, requires_grad=True)
    y = x * 2
    ((y * 3).sum() + (y * 4).sum() + (y * 5).sum() + (x * 6).sum() + (x * 7).sum()).backward()
    numpy.testing.assert_array_equal(x.grad.numpy(), 37)


@pytest.mark.parametrize("size", [3, 5000, 200_000])
def test_a_gradient_that_goes_two_ways_is_not_added_into(size):
    x, y = (dg.ones(size, dtype=dg.float64, requires_grad=True) for _ in range(2))
    z = x + y  # both get the same array
    w = z + z
    (w.sum() + (x * 3).sum() + (y * 5).sum() + (z * 7).sum()).backward()
    numpy.testing.assert_array_equal(x.grad.numpy(), 2 + 3 + 7)
    numpy.testing.assert_array_equal(y.grad.numpy(), 2 + 5 + 7)


@pytest.mark.parametrize("size", [3, 200_000])
def test_what_the_user_gave_or_keeps_is_not_added_into(size):
    x = dg.ones(size, requires_grad=True)
    kept = []
    y = x * 1
    y.register_hook(lambda g: kept.append(g) or g)
    seed = dg.ones(size)
    z = y + 0
    dg.autograd.backward([z, y], [seed, seed])
    y.detach()
    numpy.testing.assert_array_equal(seed.numpy(), 1)
    numpy.testing.assert_array_equal(kept[0].numpy(), 2)
    numpy.testing.assert_array_equal(x.grad.numpy(), 2)


@pytest.mark.parametrize("size", [3, 200_000])
def test_gradients_are_accumulated_in_the_memory_of_grad(size, monkeypatch):
    x = dg.ones(size, requires_grad=True)
    (x * 2).sum().backward()
    kept, address = x.grad, x.grad.data_ptr()
    assert arrays.owns_memory(kept.array)
    monkeypatch.setattr(type(x), "accumulate_grad", None)  # would wait for the sum
    ((x * 3).sum() + (x * 4).sum()).backward()
    assert x.grad is kept and kept.data_ptr() == address
    numpy.testing.assert_array_equal(kept.numpy(), 9)


def test_a_hook_sees_the_whole_gradient_once_also_when_there_is_one_already():
    x = dg.ones(3, requires_grad=True)
    x.grad = dg.ones(3)
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    ((x * 3).sum() + (x * 4).sum()).backward()
    assert seen == [[7.0] * 3] and x.grad.tolist() == [8.0] * 3


def test_threads_add_to_one_leaf():
    x = dg.zeros(100_000, requires_grad=True)
    x.grad = dg.zeros(100_000)

    def work() -> None:
        for _ in range(20):
            (x * 1).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numpy.testing.assert_array_equal(x.grad.numpy(), 80)


def test_large_sums_have_the_same_bits_for_any_number_of_threads(monkeypatch):
    result = []
    for count in (1, 2):
        monkeypatch.setattr(kernel_threads, "_threads", count)
        element, other = numpy.random.default_rng(0).normal(size=(2, 300, 700)).astype(numpy.float32)
        result.append(gradients_cpu.add(element, other).tobytes())
        gradients_cpu.add_into(element, other)
        result.append(element.tobytes())
        strided = element.T.copy().T
        gradients_cpu.add_into(strided, other)
        numpy.testing.assert_array_equal(strided, element + other)
    assert len(set(result)) == 1


def test_memory_of_backward_falls_as_it_goes():
    """A chain of n large activations never needs more than them and a few gradients."""
    x = dg.ones(100_000, requires_grad=True)
    size, y = x.nbytes, x
    for _ in range(20):
        y = y.tanh()
    loss = y.sum()
    del y
    buffers.reset_peak()
    start = buffers.statistics()["in_use"]
    loss.backward()
    assert buffers.statistics()["peak"] - start <= 4 * size
    del loss
    assert buffers.statistics()["in_use"] <= start - 18 * size


@pytest.mark.parametrize("create_graph", [False, True])
def test_grad_computes_only_what_leads_to_its_inputs(monkeypatch, create_graph):
    """A gradient penalty asks for the slope at the pictures: the weights' gradients are not computed on the way."""
    from dynograd.ops.conv import correlations

    calls = []
    plain = correlations.correlate_weight
    monkeypatch.setattr(correlations, "correlate_weight", lambda *given: calls.append(1) or plain(*given))
    dg.manual_seed(0)
    x, *weights = [dg.randn(*shape, requires_grad=True) for shape in ((2, 1, 6, 6), (3, 1, 3, 3), (2, 3, 3, 3))]
    y = x
    for weight in weights:
        y = dg.nn.functional.conv2d(y, weight).tanh()
    (slope,) = dg.autograd.grad(y.sum(), x, create_graph=create_graph, retain_graph=True)
    assert not calls
    (last,) = dg.autograd.grad(y.sum(), weights[1], retain_graph=True)
    assert len(calls) == 1
    y.sum().backward(retain_graph=create_graph)
    assert len(calls) == 3 and (x.grad == slope).all() and (weights[1].grad == last).all()
    if create_graph:
        results = dg.autograd.grad(slope.square().sum(), weights)
        assert all(result.any() for result in results)


def test_edges_say_which_output_they_lead_to():
    x = dg.arange(6.0).requires_grad_()
    values = (x * 1).sort()[0]
    parts = (x * 1).split(2)
    for output, number in ((values, 0), (parts[0], 0), (parts[1], 1), (parts[2], 2)):
        ((node, place), *_) = (output * 2).grad_fn.next_functions
        assert node is not None and place == number
