"""In-place writes, and values that are the same for all examples, in a scope: what the loop gives, without computing anything early."""

import contextlib

import numpy
import pytest

import dynograd
from dynograd import autobatch, optim
from dynograd.errors import IndexRangeError

SIZE, COUNT = 4, 5


def rows_of_a_table(w, x):
    table = dynograd.zeros(6, SIZE, dtype=w.dtype)
    for step in range(6):
        x = dynograd.tanh(w @ x + table.mean(0))
        table[step] = x
    return (table**2).sum()


def a_part_that_grows(w, x):
    memory = dynograd.zeros(3, SIZE, dtype=w.dtype)
    for step in range(6):
        read = w @ x + memory[step % 3]
        memory[step % 3] += read.tanh()
        x = memory.sum(0).tanh()
    return (memory * x).sum()


def a_view_that_is_written(w, x):
    memory = dynograd.zeros(3, SIZE, dtype=w.dtype)
    view, first = memory[1], memory[0]
    memory[0] = w @ x
    view.add_(first).mul_(2.0)
    memory[:, 1:3] = view[1:3] * 1.0
    return (memory * view).sum() + first.sum()


def views_of_views(w, x):
    memory = dynograd.zeros(2, 3, SIZE, dtype=w.dtype)
    page = memory[1]
    row, alone = page[2], (memory[1, 0] + 0.0).detach()
    for step in range(3):
        memory[1][step] = w @ x
        page[step, 1:] += x[1:]
        memory[0][step].mul_(0.5).add_(row)
        x = (page[step] + row).tanh()
    return (memory**2).sum() + (page * x).sum() + alone.sum() + row.sum()


def a_mask_that_changes(w, x):
    mask, total = dynograd.ones(SIZE, dtype=dynograd.bool), 0.0
    for step in range(3):
        scores = (w @ x).masked_fill(~mask, -1.0)
        mask[step] = False
        x = scores.softmax(0)
        total = total + x[step]
    return total + mask.sum()


def a_copy_is_written(w, x):
    state = (w @ x).clone()
    before = state * 2
    state[0] = 3.0
    state[1:3] = dynograd.ones(2, dtype=w.dtype)
    state[...] = state.clone() * before
    return (state * before).sum()


def other_dtypes_and_sizes(w, x):
    table = dynograd.zeros(2, 3, SIZE, dtype=w.dtype)
    table[0] = w @ x
    table[1, :, 0] = (w @ x)[:1].float()
    table[None, 1, ..., -1] = 2
    return (table**2).sum()


def a_row_twice(w, x):
    x = w @ x
    x = x.clone()
    x[0] = x[1]
    x[1] = x[0] * 2
    return (x**3).sum()


def transposed(w, x):
    return (x @ w.t()).tanh().sum() + (x @ w.permute(1, 0).reshape(SIZE, SIZE)).sum()


def weights_made_of_weights(w, x):
    scaled, mixed = w / w.norm(dim=1, keepdim=True), dynograd.softmax(w[0], 0)
    return (scaled @ x * mixed).sum() + (w * 0.5 @ x)[0] * mixed[1] + (w * 0.25 @ x)[0]


def written_weights_made_of_weights(w, x):
    element, other = w * 2, w * 2
    element[0] = x
    return (element @ x).sum() + (other @ x).sum()


def products_of_three(w, x):
    return dynograd.einsum("i,kij,j->k", x, w.reshape(1, SIZE, SIZE).expand(3, SIZE, SIZE), x).tanh().sum()


def indices_of_known_numbers(w, x):
    labels = dynograd.arange(SIZE) % 3
    picked = dynograd.tensor([1, 2]) + 1
    scores = dynograd.stack([w @ x, x * 2])
    return dynograd.nn.functional.cross_entropy(scores.t()[:, :2].repeat(1, 2), labels) + (w @ x)[picked].sum()


def indices_that_are_computed(w, x):
    scores = w @ x
    best = scores.argmax()
    order = scores.argsort()
    loss = dynograd.nn.functional.cross_entropy(scores, best)
    return loss + scores.gather(0, order).cumsum(0).sum() + scores.index_select(0, order[:2]).sum()


PROGRAMS = [value for value in list(globals().values()) if callable(value) and value.__module__ == __name__]


def run(program, scope=None):
    values = numpy.random.default_rng(0).normal(size=(SIZE, SIZE))
    w = dynograd.tensor(values, requires_grad=True)
    examples = [dynograd.tensor(numpy.random.default_rng(number).normal(size=SIZE)) for number in range(COUNT)]
    if scope is None:
        losses = [program(w, x) for x in examples]
        dynograd.stack(losses).sum().backward()
        return [loss.item() for loss in losses], w.grad.numpy(), None
    with scope as report:
        losses = [program(w, x) for x in examples]
    dynograd.stack(losses).sum().backward()
    return [loss.item() for loss in losses], w.grad.numpy(), report


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_the_loop_and_without_a_read(program):
    expected, gradient, _ = run(program)
    result, other, report = run(program, autobatch(always=True))
    numpy.testing.assert_allclose(result, expected, rtol=1e-12)
    numpy.testing.assert_allclose(other, gradient, rtol=1e-11, atol=1e-12)
    assert "a value was read" not in str(report) and "a write into" not in str(report)
    assert report.calls > 1.9 * report.launches


def test_a_tensor_whose_memory_others_hold_is_written_at_once():
    array = numpy.zeros((2, SIZE))
    w = dynograd.ones(SIZE, SIZE, dtype=dynograd.float64, requires_grad=True)
    with autobatch(always=True):
        shared = dynograd.from_numpy(array)
        shared[0] = (w * 2).detach().sum(0)
        assert array[0, 0] == 2 * SIZE
        base = dynograd.zeros(2, SIZE, dtype=dynograd.float64)
        seen = base.detach()
        base[1] = w.sum(0)
        assert seen[1, 0] == SIZE
        turned = dynograd.zeros(2, 2, dtype=dynograd.float64)
        other = turned.t()
        turned[0] = w.sum(0)[:2]
        assert other[0, 0] == SIZE and other[1, 0] == SIZE


def test_views_whose_history_is_another_one_keep_it():
    w = dynograd.ones(SIZE, requires_grad=True)
    base = w * 2
    view = base[0]
    with autobatch(always=True):
        with dynograd.no_grad():
            base[1] = (w * 3)[0]
        assert base.requires_grad and view.requires_grad
    view.backward()
    assert w.grad.tolist() == [2.0, 0.0, 0.0, 0.0]


def test_tensors_that_share_a_call_do_not_share_memory():
    w = dynograd.ones(SIZE, requires_grad=True)
    with autobatch(always=True):
        element, other = w * 2, w * 2
        assert element.sum().item() == 2 * SIZE
        element.add_(1.0)
        dynograd.flatten(other).detach().numpy()[0] = 5.0
    assert element.tolist() == [3.0] * SIZE and other.tolist()[1:] == [2.0] * (SIZE - 1)


def test_views_of_a_large_weight_are_one_operand():
    w = dynograd.full((300, 2, 150), 0.01, requires_grad=True)
    with autobatch(always=True) as report:
        result = [
            dynograd.full((300,), float(number)).tanh() @ w.permute(0, 2, 1).reshape(300, 300) for number in range(4)
        ]
    assert report.launches == 2 and result[0].tolist() == [0.0] * 300


def test_a_leaf_written_between_two_uses():
    w = dynograd.ones(2, 3, requires_grad=True)
    with autobatch(always=True):
        before = w.t().reshape(-1).sum() + w.permute(1, 0).reshape(6)[0]
        with dynograd.no_grad():
            w.mul_(10.0)
        after = w.t().reshape(-1).sum() + w.permute(1, 0).reshape(6)[0]
    assert (before.item(), after.item()) == (7.0, 70.0)


def test_a_wrong_index_that_was_computed():
    scores = dynograd.tensor([[0.0, 5.0, 1.0], [7.0, 0.0, 1.0]])
    with pytest.raises(IndexRangeError, match=r"index 2 is out of bounds|out of range"), autobatch(always=True):
        result = [row[:2].clone().gather(0, (row + 0.0).argmax(0, keepdim=True) * 2) for row in scores]
    assert result[1].tolist() == [7.0]
    with (
        pytest.raises(IndexRangeError, match="cross_entropy: Target 4 is out of bounds"),
        autobatch(always=True),
    ):
        dynograd.nn.functional.cross_entropy(scores[0] + 0.0, (scores[0] + 0.0).argmax() * 4)


def test_wrong_writes_raise_at_once():
    w = dynograd.ones(SIZE, SIZE, requires_grad=True)
    with autobatch(always=True):
        table = dynograd.zeros(2, SIZE)
        with pytest.raises(RuntimeError, match="cannot be broadcast"):
            table[0] = w.sum(0)[:3]
        with pytest.raises(IndexError, match="out of bounds|out of range"):
            table[2] = w.sum(0)
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            w[0] = w.sum(0)


NEW = [10.0, 20.0]
REBINDINGS = {
    "data": lambda w: setattr(w, "data", dynograd.tensor(NEW)),
    "data, of a value that waits": lambda w: setattr(w, "data", w.data * 10),
    "set_": lambda w: w.set_(dynograd.tensor(NEW)),
    "set_ to nothing and back": lambda w: w.set_().set_(dynograd.tensor(NEW)),
    "storage resized": lambda w: w.untyped_storage().resize_(16),
    "vector_to_parameters": lambda w: dynograd.nn.utils.vector_to_parameters(dynograd.tensor(NEW), [w]),
    "Module.to": lambda w: module_of(w).double(),
}
OPERANDS = {
    "leaf": lambda: dynograd.tensor([1.0, 2.0], requires_grad=True),
    "parameter": lambda: dynograd.nn.Parameter(dynograd.tensor([1.0, 2.0])),
    "constant": lambda: dynograd.tensor([1.0, 2.0]),
    "view": lambda: dynograd.tensor([[1.0, 2.0], [3.0, 4.0]])[0],
}


def module_of(parameter):
    module = dynograd.nn.Module()
    module.w = parameter
    return module


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("way", REBINDINGS)
def test_other_memory_between_calls(way, operand):
    """Each call takes the value that there was when it was recorded."""

    def results(scope):
        w, x = OPERANDS[operand](), dynograd.tensor([3.0, 4.0])
        with scope:
            products = []
            for k in range(3):
                products.append((w * x).tanh() + k * w)
                REBINDINGS[way](w)
            products.append(w * 1)
        return [(product.dtype, product.tolist()) for product in products]

    assert results(dynograd.autobatch(always=True)) == results(contextlib.nullcontext())


WRITES_OF_NUMPY = {
    "in place": lambda array: array.__imul__(10),
    "copyto": lambda array: numpy.copyto(array, 4),
    "element": lambda array: array.__setitem__((0,), 7.0),
}
LENT = {
    "from_numpy": lambda array: (dynograd.from_numpy(array), array),
    "as_tensor, a row": lambda array: (dynograd.as_tensor(numpy.array([array, array]))[1], None),
    "numpy() before": lambda array: (lambda w: (w, w.numpy()))(dynograd.tensor(array)),
    "numpy() of a leaf after": lambda array: (dynograd.tensor(array, requires_grad=True), None),
    "dlpack": lambda array: (lambda w: (w, numpy.from_dlpack(w)))(dynograd.tensor(array)),
}


@pytest.mark.parametrize("lent", LENT)
@pytest.mark.parametrize("write", WRITES_OF_NUMPY)
def test_numpy_writes_an_operand_between_calls(write, lent):
    w, array = LENT[lent](numpy.array([1.0, 2.0]))
    with pytest.raises(dynograd.errors.InplaceError, match=r"shape \(2,\) was written by NumPy.*a clone\(\)"):  # noqa: SIM117
        with autobatch(always=True):
            for _ in range(3):
                (w * 2).tanh()
                WRITES_OF_NUMPY[write](w.detach().numpy() if array is None else array)


def test_numpy_writes_an_operand_when_its_calls_have_run():
    array = numpy.array([1.0, 2.0])
    w, values = dynograd.from_numpy(array), []
    with autobatch(always=True):
        for _ in range(3):
            values.append((w * 2).tolist())
            array *= 10
    assert values == [[2.0, 4.0], [20.0, 40.0], [200.0, 400.0]]


def adam(w):
    optim.Adam([w], 0.1).step()


def adam_by_function(w):
    states = [[dynograd.zeros_like(w)] for _ in range(2)]
    numbers = dict(beta1=0.9, beta2=0.999, lr=0.1, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
    optim.adam.adam([w], [w.grad], *states, [], [dynograd.tensor(0.0)], **numbers)


def unscaled(w):
    scaler = dynograd.amp.GradScaler("cpu", init_scale=4.0)
    optimizer = optim.SGD([w], 0.1)
    scaler.scale(w.sum())
    scaler.unscale_(optimizer)


KERNELS = [
    adam,
    adam_by_function,
    lambda w: optim.SGD([w], 0.1).step(lambda: (w * 3).sum()),
    lambda w: optim.LBFGS([w], 0.1).step(lambda: (w * w.grad).sum()),
    lambda w: optim.SGD([w], 0.1).zero_grad(set_to_none=False),
    lambda w: dynograd.nn.utils.clip_grad_norm_([w], 0.5),
    lambda w: dynograd.nn.utils.clip_grad_value_([w], 0.5),
    lambda w: dynograd.nn.utils.clip_grads_with_norm_([w], 0.5, 2.0),
    unscaled,
]
NAMES = "Adam|adam|SGD|LBFGS|zero_grad|clip_grad_norm_|clip_grad_value_|clip_grads_with_norm_|GradScaler".split("|")


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_what_waits_is_computed_before_kernels_write(kernel):
    """Nobody has read what waits when an optimizer takes its step, or gradients are changed."""

    def values(scope):
        w = dynograd.tensor([1.0, -2.0, 3.0], requires_grad=True)
        with scope:
            (w * w).sum().backward()
            waiting = [w * 2, w.grad + 1, (w[1:] * w.grad[:2]).tanh()]
            kernel(w)
            waiting.append(w * 3)
        return [*[value.tolist() for value in waiting], w.tolist(), w.grad.tolist()]

    assert values(autobatch(always=True)) == values(contextlib.nullcontext())
