"""Random programs over trees, graphs and loops inside `autobatch` give what they give without it: values and every gradient."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dynograd
from dynograd import nn
from dynograd.nn import functional as F
from dynograd.utils.checkpoint import checkpoint

WIDTH = 4
STEPS = {}  # by name: a function of (model, the example, two values, two numbers) that makes another value
SHARED_WRITES = (
    "outside",
    "carry",
)  # what one example leaves for the next: under `batched` they are under way together
RANDOM = ("dropout", "cell_dropout")  # under `batched` each example has a random stream of its own
FIRST_ORDER = ("checkpoint", "hook")


def step(function):
    STEPS[function.__name__.strip("_")] = function
    return function


def programs(without=(), steps=14, examples=5):
    names = sorted(set(STEPS) - set(without))
    element = st.tuples(st.sampled_from(names), st.integers(0, 50), st.integers(0, 50))
    example = st.tuples(st.integers(1, 3), st.lists(element, min_size=1, max_size=steps))
    return st.lists(example, min_size=1, max_size=examples)


class Model:
    def __init__(self, dtype):
        rng = numpy.random.default_rng(5)

        def leaf(*shape):
            created = dynograd.tensor(rng.normal(size=shape) / 2, dtype=dtype)
            created.requires_grad = True
            return created

        self.weight, self.bias, self.table, self.factor = leaf(WIDTH, WIDTH), leaf(WIDTH), leaf(6, WIDTH), leaf(1)
        self.left, self.right = leaf(WIDTH, WIDTH), leaf(WIDTH, WIDTH)
        self.tree, self.lstm = nn.BinaryTreeLSTMCell(WIDTH, WIDTH), nn.LSTMCell(WIDTH, WIDTH)
        self.gru, self.layers = (
            nn.GRUCell(WIDTH, WIDTH),
            nn.Sequential(nn.Linear(WIDTH, 3), nn.ReLU(), nn.Linear(3, WIDTH)),
        )
        self.children = nn.ChildSumTreeLSTMCell(WIDTH, WIDTH)
        self.modules = [self.tree, self.lstm, self.gru, self.layers, self.children]
        for module in self.modules:
            module.to(dtype)
            for parameter in module.parameters():
                parameter.data = dynograd.tensor(rng.normal(size=tuple(parameter.shape)) / 2, dtype=dtype)
        self.inputs = [dynograd.tensor(rng.normal(size=WIDTH), dtype=dtype) for _ in range(8)]
        self.buffer = dynograd.zeros(WIDTH, dtype=dtype)
        self.last = self.inputs[0]

    def leaves(self):
        own = [self.weight, self.bias, self.table, self.factor, self.left, self.right]
        return [*own, *(parameter for module in self.modules for parameter in module.parameters())]


class Example:
    """A pool of values, those that were read on the way, and how deep its loops go."""

    def __init__(self, model, depth):
        self.pool = [model.inputs[depth], F.embedding(dynograd.tensor(depth), model.table)]
        self.depth, self.seen = depth, []


def body(a, b, left, right):
    gates = a @ left + b @ right
    return gates.sigmoid() * a + gates.tanh()


cell = dynograd.cell(body)


@dynograd.cell
def deciding_cell(a, b):
    return a * 2 if float(a.sum()) > 0 else b.tanh()


@dynograd.cell
def dropping_cell(a, b):
    return F.dropout(a + b, 0.4) * b


# --- values from two values --------------------------------------------------------------------------------------------------------


@step
def add(model, example, a, b, i, j):
    return a + b


@step
def mul(model, example, a, b, i, j):
    return a * b


@step
def tanh(model, example, a, b, i, j):
    return a.tanh()


@step
def layer(model, example, a, b, i, j):
    return F.linear(a, model.weight, model.bias)


@step
def cat(model, example, a, b, i, j):
    return dynograd.cat([a[:2], b[2:]])


@step
def slice_(model, example, a, b, i, j):
    return dynograd.cat((a[1:], a[:1]), 0) * 0.5


@step
def chunk(model, example, a, b, i, j):
    element, two = (a + b).chunk(2)
    return dynograd.cat([two, element.exp() * 0.1])


@step
def index(model, example, a, b, i, j):
    return a * b[j % WIDTH]


@step
def transpose(model, example, a, b, i, j):
    return a.view(2, 2).t().reshape(WIDTH)


@step
def sum_(model, example, a, b, i, j):
    return a - b.sum() * 0.1


@step
def scale(model, example, a, b, i, j):
    return 2 - a * (i + 1) / 3


@step
def where(model, example, a, b, i, j):
    return dynograd.where(a > b, a, b * 0.5)


@step
def softmax(model, example, a, b, i, j):
    return a.softmax(-1) + b


@step
def stack(model, example, a, b, i, j):
    return dynograd.stack([a, b, a][: 1 + j % 3]).mean(0)


@step
def unbind(model, example, a, b, i, j):
    return sum(a.unbind()) * b


@step
def share(model, example, a, b, i, j):
    result = a * a + a
    example.pool.append(result)
    return result


@step
def expand(model, example, a, b, i, j):
    return a[2].expand(WIDTH) + b


@step
def matmul(model, example, a, b, i, j):
    return (a.view(2, 2) @ b.view(2, 2)).flatten()


@step
def lengths(model, example, a, b, i, j):
    """Values whose shape differs from example to example."""
    rows = dynograd.stack([a, b] * (1 + i % 3))
    weights = (rows @ model.bias).softmax(0)
    return weights @ rows


@step
def carry(model, example, a, b, i, j):
    """A value of an earlier example."""
    result = a + model.last * 0.5
    model.last = result.detach() if j % 2 else result
    return result


# --- trees, loops, cells -------------------------------------------------------------------------------------------------------------


@step
def tree(model, example, a, b, i, j):
    words = [*example.pool[-3:], a, b]

    def state(low, high):
        if high - low == 1:
            return model.tree(words[low])
        middle = low + 1 + (i * 7 + j + low) % (high - low - 1)
        return model.tree(None, state(low, middle), state(middle, high))

    return state(0, len(words))[0]


@step
def children(model, example, a, b, i, j):
    def state(value, depth):
        below = [state(value * 0.5 + k, depth - 1) for k in range((i + depth) % 3)] if depth else []
        return model.children(value, below)

    return state(a, 1 + j % 2)[0]


@step
def lstm(model, example, a, b, i, j):
    state = None
    for value in [*example.pool[-2:], a][: 1 + i % 3]:
        state = model.lstm(value, state)
    return state[0] * b


@step
def gru(model, example, a, b, i, j):
    return model.gru(a, b)


@step
def layers(model, example, a, b, i, j):
    return model.layers(a) + b


@step
def cell_(model, example, a, b, i, j):
    return cell(a, b, model.left, model.right)


@step
def cell_that_decides(model, example, a, b, i, j):
    return deciding_cell(a, b)


@step
def cell_dropout(model, example, a, b, i, j):
    return dropping_cell(a, b)


@step
def loop(model, example, a, b, i, j):
    result = a
    for _ in range(example.depth):
        result = (F.linear(result, model.weight) + b).tanh()
    return result


@step
def while_(model, example, a, b, i, j):
    result, count = a, 0
    while float(result.detach().abs().max()) > 0.5 and count < 4:
        result, count = result * 0.6 + b * 0.05, count + 1
    return result


@step
def search(model, example, a, b, i, j):
    """The best of some, by its score."""
    results = [a, b, a - b]
    scores = dynograd.stack([(result * model.bias).sum() for result in results])
    return results[int(scores.argmax())] * scores.max()


# --- writes, views, history ----------------------------------------------------------------------------------------------------------


@step
def inplace(model, example, a, b, i, j):
    result = a * 1.5
    result += b
    result.mul_(0.5)
    return result


@step
def inplace_view(model, example, a, b, i, j):
    result = a + b
    part = result[1:3]
    part.mul_(2.0)
    return result + part.sum()


@step
def inplace_matrix(model, example, a, b, i, j):
    result = a - b
    result.view(2, 2)[i % 2].add_(b[:2])
    return result


@step
def inplace_detached(model, example, a, b, i, j):
    result = a * 1.0
    result.detach().mul_(0.5)
    return result + b


@step
def set_item(model, example, a, b, i, j):
    result = a * 1.0
    result[j % WIDTH] = b[1]
    return result


@step
def copy(model, example, a, b, i, j):
    result = dynograd.zeros_like(a)
    result.copy_(a)
    result[1:] = b[1:]
    return result


@step
def table(model, example, a, b, i, j):
    """Filled and read step by step; plain at first."""
    memory = a.new_zeros(3, WIDTH)
    memory[0] = a
    memory[1] += b
    memory[i % 3, j % WIDTH] = 0.5
    read = memory.mean(0)
    memory[2] = read * b
    memory[:, 1:3] *= 0.5
    return memory.sum(0) + read


@step
def alias(model, example, a, b, i, j):
    """Views that later steps use."""
    result = dynograd.stack([a, b])
    first = result[0]
    example.pool.append(result[1])
    result[1] = first * 0.5
    first.add_(0.1)
    if j % 2:
        result[0] = result[1]
    return result.sum(0)


@step
def parts_of_parts(model, example, a, b, i, j):
    """Views of views that are written and read at every level."""
    pages = dynograd.stack([a, b, b, a]).view(2, 2, WIDTH) if i % 3 else a.new_zeros(2, 2, WIDTH)
    page = pages[i % 2]
    row, before = page[j % 2], pages.detach().sum() if j % 3 else 0.0
    page[0] = b * 0.5
    row += a
    pages[1][0].mul_(0.5)
    pages[0, 1, 1:3] = row[:2] * 2.0
    if j % 2:
        example.pool.append(row)
        page[1, i % WIDTH] += 0.1
    return pages.sum((0, 1)) * 0.5 + row + before


@step
def known(model, example, a, b, i, j):
    """A known tensor that is written while calls with it wait."""
    plain = a.new_ones(WIDTH)
    before = a + plain
    plain[i % WIDTH] = 3.0
    view = plain[1:3]
    between = before * 0.5 + plain
    view.mul_(0.5)
    return between + plain


@step
def whole_views(model, example, a, b, i, j):
    return a @ model.weight.t() + model.weight.permute(1, 0).reshape(-1).view(WIDTH, WIDTH) @ b


@step
def of_weights(model, example, a, b, i, j):
    mixed, doubled = model.bias.softmax(0), model.left * 2
    return doubled @ a * mixed[i % WIDTH] + (model.left * 2) @ b * mixed + (model.left * 0.5)[0]


@step
def written_weights(model, example, a, b, i, j):
    element, other = model.left * 2, model.left * 2
    element[i % WIDTH] = a
    return element @ b + other @ a


@step
def computed_indices(model, example, a, b, i, j):
    order = b.detach().argsort()
    return a.gather(0, order) + a.index_select(0, order) + b[order.flip(0)] + a[b.detach().argmax()]


@step
def labels(model, example, a, b, i, j):
    known = (dynograd.arange(2) + i) % WIDTH
    return F.cross_entropy(a, b.detach().argmax()) * b + F.cross_entropy(dynograd.stack([a, b]), known)


@step
def detach(model, example, a, b, i, j):
    return a.detach() * b


@step
def no_grad(model, example, a, b, i, j):
    with dynograd.no_grad():
        constant = a * b
    return a + constant


@step
def relu_(model, example, a, b, i, j):
    return (a - 0.1).relu_()


@step
def outside(model, example, a, b, i, j):
    """A buffer that all examples write."""
    kept = model.buffer + a
    model.buffer.add_(0.25)
    return kept + b


# --- reads, and what else users do ---------------------------------------------------------------------------------------------------


@step
def read(model, example, a, b, i, j):
    example.seen.append(float(a.sum()))
    return a * 0.9


@step
def read_all(model, example, a, b, i, j):
    example.seen += a.tolist() if i % 2 else a.detach().numpy().tolist()
    return a - b


@step
def branch(model, example, a, b, i, j):
    return a + 1 if float(b.mean().item()) > 0 else b - a


@step
def mask(model, example, a, b, i, j):
    return a[a.detach() > 0].sum() + b


@step
def nested(model, example, a, b, i, j):
    with dynograd.autobatch(always=True):
        return (a * b).tanh()


@step
def dropout(model, example, a, b, i, j):
    return F.dropout(a, 0.25) + b


@step
def gradient(model, example, a, b, i, j):
    """A gradient on the way."""
    with dynograd.enable_grad():
        point = a.detach().requires_grad_()
        (result,) = dynograd.autograd.grad((point * point * b.detach()).sum(), [point])
    return result + b


@step
def hook(model, example, a, b, i, j):
    result = a * b
    if result.requires_grad:
        result.register_hook(lambda g: g * 0.5)
    return result


@step
def checkpoint_(model, example, a, b, i, j):
    return checkpoint(body, a, b, model.left, model.right, use_reentrant=False)


# --- running -------------------------------------------------------------------------------------------------------------------------


def run_example(model, depth, steps):
    """The loss of one example, and what it read."""
    example = Example(model, depth)
    for name, i, j in steps:
        pool = example.pool
        result = STEPS[name](model, example, pool[i % len(pool)], pool[j % len(pool)], i, j)
        pool.append(result / (1.5 + result.detach().abs().sum()))
    pool = example.pool
    return (pool[-1] * pool[len(pool) // 2]).sum() * model.factor[0], example.seen


def losses_of(model, examples, how):
    """(losses, values that were read)."""
    if how == "batched":
        pairs = dynograd.batched(lambda one: run_example(model, *one), always=True)(examples)
    else:
        pairs = [run_example(model, *example) for example in examples]
    return [loss for loss, _ in pairs], [value for _, seen in pairs for value in seen]


def run(examples, dtype, how, order=1):
    """Values, gradients of all parameters, the buffer. `order` 2: of the squared norm of the first gradients."""
    model = Model(dtype)
    dynograd.manual_seed(4)
    if how == "autobatch":
        with dynograd.autobatch(always=True):
            losses, seen = losses_of(model, examples, how)
            total = sum(losses)
            assert total.shape == ()
    else:
        losses, seen = losses_of(model, examples, how)
        total = sum(losses)
    if order == 2:
        first = dynograd.autograd.grad(total, model.leaves(), create_graph=True, allow_unused=True)
        total = total + sum((element * element).sum() for element in first if element is not None)
    total.backward()
    values = [float(total), *[float(loss) for loss in losses], *seen]
    return (
        values,
        [numpy.zeros(leaf.shape) if leaf.grad is None else leaf.grad.numpy() for leaf in model.leaves()],
        model.buffer.numpy(),
    )


def assert_same(examples, dtype, how, tolerance, order=1):
    expected, gradients, buffer = run(examples, dtype, "loop", order)
    result, others, other_buffer = run(examples, dtype, how, order)
    numpy.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    numpy.testing.assert_allclose(other_buffer, buffer, rtol=1e-6)
    for element, other in zip(gradients, others, strict=True):
        scale = max(1.0, float(numpy.abs(element).max()))
        numpy.testing.assert_allclose(other, element, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(programs())
def test_programs(examples):
    assert_same(examples, dynograd.float64, "autobatch", 1e-12)


@settings(max_examples=60, deadline=None)
@given(programs())
def test_programs_float32(examples):
    assert_same(examples, dynograd.float32, "autobatch", 5e-6)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(programs(without=SHARED_WRITES + RANDOM))
def test_programs_batched(examples):
    assert_same(examples, dynograd.float64, "batched", 1e-12)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(programs(without=FIRST_ORDER, steps=8, examples=4))
def test_programs_second_order(examples):
    assert_same(examples, dynograd.float64, "autobatch", 1e-10, order=2)


@pytest.mark.parametrize("name", sorted(STEPS))
def test_each_step(name):
    """Every kind of step, in three examples, with another step in between."""
    examples = [(depth, [(name, depth, 1), ("mul", 2, 0), (name, 2, 3), (name, 3, 0)]) for depth in (1, 2, 3)]
    assert_same(examples, dynograd.float64, "autobatch", 1e-12)
    if name not in SHARED_WRITES + RANDOM:
        assert_same(examples, dynograd.float64, "batched", 1e-12)
    if name not in FIRST_ORDER:
        assert_same(examples, dynograd.float64, "autobatch", 1e-10, order=2)
