"""Cells as one fused kernel: the same numbers as the loop, for bodies of many kinds, and which bodies are not fused."""

from __future__ import annotations

import gc
import random
import re
import weakref
from itertools import pairwise

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.kernels.formula.formulas import Tree, functions_in
from dynograd.kernels.formula.formulas_numba import to_numba
from dynograd.kernels.rows import row_programs_numba
from dynograd.nn import functional as F
from dynograd.ops.op import registry
from dynograd.transforms.autobatch.fuse import chains, fusing, lowering, spans
from tests.support.special_values import differences, operands_of, told

WIDTH = 6


class Gated(nn.Module):
    """Two inputs, layer norm, a gate, a residual."""

    def __init__(self):
        super().__init__()
        self.norm, self.gate, self.way = nn.LayerNorm(WIDTH), nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, a, b):
        gate = self.gate(dynograd.cat([a, b], -1)).sigmoid()
        return a + gate * F.gelu(self.way(self.norm(b)))


class Twice(nn.Module):
    """A product of what a product has gated: two stages."""

    def __init__(self):
        super().__init__()
        self.reset, self.way = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, a, b):
        r = self.reset(dynograd.cat([a, b], -1)).sigmoid()
        new = self.way(dynograd.cat([a, r * b], -1)).tanh()
        return r * new + (1 - r) * b


class Deep(nn.Module):
    """Four stages; the first product and what is made of it are used by all that follow."""

    def __init__(self):
        super().__init__()
        self.ways = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])

    def forward(self, a, b):
        x = self.ways[0](a + b)
        y = x.tanh()
        z = self.ways[1](x * y)
        return a - self.ways[2](z * y + x) * y * x.sigmoid()


class Block(nn.Module):
    """An MLP block with RMS norm and parameters in the arithmetic: a vector, and one number."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)
        self.scale, self.heat = nn.Parameter(dynograd.ones(WIDTH)), nn.Parameter(dynograd.tensor(0.7))

    def forward(self, a, b):
        return (a + self.scale * self.down(F.silu(self.up(self.norm(a + b)))) * self.heat).tanh()


class Attending(nn.Module):
    """Attention of one state over three."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, a, b):
        states = dynograd.stack([a, b, a * b])
        scores = (self.key(states) @ self.query(a) / WIDTH**0.5).softmax(-1)
        return scores @ states


class Weights(nn.Module):
    """Weights used as they are and transposed, without a module around them."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Parameter(dynograd.randn(WIDTH, WIDTH)), nn.Parameter(dynograd.randn(WIDTH, WIDTH))
        self.bias = nn.Parameter(dynograd.randn(WIDTH))

    def forward(self, a, b):
        return ((a @ self.one) * (b @ self.other.T) + self.other @ a + self.bias).tanh()


class Chosen(nn.Module):
    """Choices by value, clamps, powers, a softmax, things that zeros come back from."""

    def __init__(self):
        super().__init__()
        self.way = nn.Linear(WIDTH, WIDTH)

    def forward(self, a, b):
        x = dynograd.where(a > b, a, 2 * b)
        y = self.way(F.relu(x)).clamp(-1, 0.5) ** 2
        shares = dynograd.log_softmax(y + F.softplus(a), -1).exp()
        return (shares - b.detach() * y.mean() + y.sum(-1, keepdim=True) / (1 + b.abs())).tanh()


class Normed(nn.Module):
    """Logarithms of sums of exponentials, of numbers whose own exponentials are too large."""

    def __init__(self):
        super().__init__()
        self.way = nn.Linear(WIDTH, WIDTH)

    def forward(self, a, b):
        x = self.way(a) + 2000 * b
        rows = dynograd.stack([x, a - x])
        return (x - dynograd.logsumexp(x, -1, keepdim=True)).tanh() + dynograd.logsumexp(rows, 0).tanh()


class Pieces(nn.Module):
    """Parts of states that cross: slices, flips of halves, stacks of rows."""

    def __init__(self):
        super().__init__()
        self.way = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, a, b):
        half = WIDTH // 2
        crossed = dynograd.cat([b[half:], a[:half] * 2, a[half:]])
        rows = dynograd.stack([crossed[:WIDTH], a]).reshape(2, WIDTH)
        return (self.way(dynograd.cat([crossed[1:], b[..., :half], a[2:3]])[: 2 * WIDTH]) + rows.sum(0) * a[0]).tanh()


class Columns(nn.Module):
    """Rows cut along their dims, in views with a size that is left out."""

    def __init__(self):
        super().__init__()
        self.way = nn.Linear(WIDTH, WIDTH)

    def forward(self, a, b):
        rows = dynograd.stack([self.way(a), b])
        odd, even = rows.view(2, -1, 2).unbind(2)
        first, last = rows.split([2, WIDTH - 2], 1)
        return (odd * even.exp()).view(-1).tanh() + first[0, 0] * last.unbind(-1)[0].sum()


class Pair(nn.Module):
    """A cell with a state of two parts, as those of nn."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def first(self, x):
        return x, x * 0.5

    def forward(self, a, b):
        if isinstance(self.cell, nn.BinaryTreeLSTMCell):
            return self.cell(None, a, b)
        if isinstance(self.cell, nn.ChildSumTreeLSTMCell):
            return self.cell(b[0], [a, b, a])
        if isinstance(self.cell, nn.LSTMCell):
            return self.cell(a[0], b)
        new = self.cell(a[0], b[0])
        return new, a[1] + new


BODIES = {
    "gated": Gated,
    "twice": Twice,
    "deep": Deep,
    "block": Block,
    "attending": Attending,
    "weights": Weights,
    "chosen": Chosen,
    "normed": Normed,
    "pieces": Pieces,
    "columns": Columns,
    "lstm": lambda: Pair(nn.LSTMCell(WIDTH, WIDTH)),
    "gru": lambda: Pair(nn.GRUCell(WIDTH, WIDTH)),
    "rnn": lambda: Pair(nn.RNNCell(WIDTH, WIDTH)),
    "rnn_relu": lambda: Pair(nn.RNNCell(WIDTH, WIDTH, nonlinearity="relu")),
    "binary_tree": lambda: Pair(nn.BinaryTreeLSTMCell(WIDTH, WIDTH)),
    "child_sum": lambda: Pair(nn.ChildSumTreeLSTMCell(WIDTH, WIDTH)),
}


@pytest.fixture(autouse=True)
def hot(runs_of):
    """The forms of the fused groups that ran."""
    return runs_of("run", lambda running, _: running.chain.form.label)


def program(module, leaves, steps, seed):
    """The states of a random graph of calls: some used often, some never."""
    chosen = random.Random(seed)
    first = getattr(module, "first", lambda x: x)
    states = [first(leaf) for leaf in leaves]
    for _ in range(steps):
        states.append(module(states[chosen.randrange(len(states))], states[-1 - chosen.randrange(3)]))
    parts = [part for state in states for part in (state if isinstance(state, tuple) else (state,))]
    return sum((part * (0.3 + number % 5)).sum() for number, part in enumerate(parts) if number % 3 != 1)


def made(name, dtype, seed=0):
    dynograd.manual_seed(seed)
    module = BODIES[name]()
    for parameter in module.parameters():
        parameter.data.copy_(dynograd.randn(parameter.shape) * 0.4)
    module.to(dtype)
    if isinstance(module, Pair):
        as_cell = module
    else:
        as_cell = dynograd.cell(module)
    leaves = [dynograd.randn(WIDTH, dtype=dtype, requires_grad=True) for _ in range(4)]
    return as_cell, leaves, [*leaves, *module.parameters()]


def gradients(loss, wanted):
    results = dynograd.autograd.grad(loss, wanted, allow_unused=True)
    return [
        numpy.zeros(tuple(of.shape)) if element is None else element.numpy() for element, of in zip(results, wanted)
    ]


def close(one, other, dtype):
    tolerance = 1e-12 if dtype is dynograd.float64 else 5e-6
    scale = 1 + max(float(numpy.abs(other).max(initial=0)), 0)
    assert numpy.abs(one - other).max(initial=0) <= tolerance * scale * (1 if dtype is dynograd.float64 else 4)


@pytest.mark.parametrize("dtype", [dynograd.float64, dynograd.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", BODIES)
def test_fused_is_the_loop(name, dtype, hot):
    module, leaves, reference = made(name, dtype)
    plain = program(module, leaves, 12, 1)
    expected = gradients(plain, reference)
    with dynograd.autobatch(always=True) as report:
        loss = program(module, leaves, 12, 1)
    assert hot, str(report)
    assert not report.refused, str(report)
    close(loss.detach().numpy(), plain.detach().numpy(), dtype)
    for element, other in zip(gradients(loss, reference), expected, strict=True):
        close(element, other, dtype)


@pytest.mark.parametrize("name", ["gated", "lstm", "attending", "twice"])
def test_second_order(name, hot):
    module, leaves, reference = made(name, dynograd.float64)

    def penalty(loss):
        first = dynograd.autograd.grad(loss, reference, create_graph=True)
        return sum((each * each).sum() for each in first)

    expected = gradients(penalty(program(module, leaves, 8, 2)), reference)
    with dynograd.autobatch(always=True):
        loss = program(module, leaves, 8, 2)
    assert hot
    for element, other in zip(gradients(penalty(loss), reference), expected, strict=True):
        close(element, other, dynograd.float64)


@pytest.mark.parametrize("name", ["gated", "gru", "block"])
def test_losses_of_their_own(name, hot):
    """Each example has a backward of its own: groups take part with some of their rows, or not at all."""
    module, leaves, references = made(name, dynograd.float64)

    def losses():
        return [program(module, leaves[:3], 3 + 2 * seed, seed) for seed in range(4)]

    for loss in losses():
        loss.backward()
    expected = [None if reference.grad is None else reference.grad.numpy().copy() for reference in references]
    for loss in references:
        loss.grad = None
    with dynograd.autobatch(always=True):
        results = losses()
    assert hot
    for loss in results:
        loss.backward()
    for loss, other in zip(references, expected, strict=True):
        assert (loss.grad is None) == (other is None)
        if other is not None:
            close(loss.grad.numpy(), other, dynograd.float64)


def test_groups_without_gradient_count_as_zeros(hot):
    module, leaves, reference = made("lstm", dynograd.float64)

    def states():
        state = module.first(leaves[0])
        actual = []
        for number in range(6):
            state = module(module.first(leaves[number % 4]), state)
            actual.append(state)
        return actual

    expected = gradients(states()[2][0].sum(), reference)
    with dynograd.autobatch(always=True):
        result = states()
    for element, other in zip(gradients(result[2][0].sum(), reference), expected, strict=True):
        close(element, other, dynograd.float64)
    assert len(hot) == 6


def test_two_passes_over_one_chain():
    module, leaves, expected = made("twice", dynograd.float64)
    with dynograd.autobatch(always=True):
        loss = program(module, leaves, 8, 3)
    first = gradients(loss * 1.0, expected)
    for element, other in zip(gradients(loss * 2.0, expected), first, strict=True):
        close(element, 2 * other, dynograd.float64)


@pytest.mark.parametrize("name", ["lstm", "deep"])
def test_no_cycles(name, monkeypatch):
    """Everything goes with the last tensor, without the garbage collector."""
    made_chains = []
    whole = chains.Chain.__init__

    def init(self, *args):
        whole(self, *args)
        made_chains.append(weakref.ref(self))

    monkeypatch.setattr(chains.Chain, "__init__", init)
    module, leaves, _ = made(name, dynograd.float64)
    gc.collect()
    gc.disable()
    try:
        with dynograd.autobatch(always=True):
            loss = program(module, leaves, 8, 1)
        loss.backward()
        del loss
        assert made_chains and not [chain for chain in made_chains if chain() is not None]
    finally:
        gc.enable()


def test_without_gradients(hot):
    module, leaves, _ = made("lstm", dynograd.float64)
    with dynograd.no_grad():
        expected = program(module, leaves, 8, 4)
        with dynograd.autobatch(always=True):
            result = program(module, leaves, 8, 4)
    assert hot and not result.requires_grad
    close(result.numpy(), expected.numpy(), dynograd.float64)


def test_hooks_see_rows():
    module, leaves, _ = made("gated", dynograd.float64)

    def run(scope):
        seen = []
        with scope:
            a = module(leaves[0], leaves[1])
            b = module(a, leaves[2])
            loss = (b * 3).sum() + a.sum()
        a.register_hook(lambda g: seen.append(g.numpy().copy()))
        b.retain_grad()
        loss.backward()
        return seen[0], b.grad.numpy().copy()

    import contextlib

    expected = run(contextlib.nullcontext())
    for element, other in zip(run(dynograd.autobatch(always=True)), expected, strict=True):
        close(element, other, dynograd.float64)


# --- what the body reads besides its arguments ---------------------------------------------------------------------------------


def test_changes_outside_are_seen(hot):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.way, self.factor = nn.Linear(3, 3), 2.0

        def forward(self, x):
            return self.way(x) * self.factor

    module = dynograd.cell(Scaled().double())
    x = dynograd.randn(3, dtype=dynograd.float64)

    def both():
        expected = module(x).detach().numpy()
        with dynograd.autobatch(always=True):
            result = [module(x), module(x * 1)]
        close(result[1].detach().numpy(), expected, dynograd.float64)

    both()
    module.factor = 3.0
    both()
    with dynograd.no_grad():
        module.way.weight *= 2
    both()
    module.way.weight = nn.Parameter(dynograd.randn(3, 3, dtype=dynograd.float64))
    both()
    module.way = nn.Linear(3, 3, bias=False).double()
    both()
    assert hot


def squares(a, b):
    """As many rows as columns: where a dim counted from the end is taken for another one, the shapes are right all the same."""
    x, y = dynograd.stack([a[:2], b[:2]]), dynograd.stack([b[2:4], a[:2]])
    return (
        x.unbind(-1)[0] * 2,
        x.unbind(-2)[1] * y.unbind(1)[1],
        y.chunk(2, -1)[0].sum(-1),
        y.split(1, -2)[1].exp().sum(-2),
        x.select(-1, 1) - x.select(-2, 1),
        dynograd.cat([x, y], -1)[..., 1:3].softmax(-2).select(0, 1),
        dynograd.stack([x, y], -2).sum(0).logsumexp(-2),
        dynograd.stack([x, y], 1)[:, -1].mean(-2, keepdim=True).expand(2, -1)[1],
    )


def test_dims_counted_from_the_end(hot):
    leaves = [dynograd.randn(WIDTH, dtype=dynograd.float64, requires_grad=True) for _ in range(4)]

    def run(function):
        states = [[leaves[0], leaves[1]], [leaves[2], leaves[3]], [leaves[1] * 2, leaves[0]]]
        parts = [dynograd.stack(function(*pair)) for pair in states]
        loss = sum((part * (1 + place)).sin().sum() for place, part in enumerate(parts))
        return [*(part.detach().numpy() for part in parts), *gradients(loss, leaves)]

    expected = run(squares)
    with dynograd.autobatch(always=True) as report:
        results = run(dynograd.cell(squares))
    assert hot and not report.refused, str(report)
    for here, there in zip(results, expected, strict=True):
        close(here, there, dynograd.float64)


FACTOR = [1.5]


def test_globals_are_seen(hot):
    @dynograd.cell
    def scaled(x):
        return helper(x).tanh()

    def helper(x):
        return x * FACTOR[0]

    x = dynograd.randn(3)
    for factor in (1.5, 2.5):
        FACTOR[0] = factor
        with dynograd.autobatch(always=True):
            result = [scaled(x), scaled(x * 1)]
        close(result[1].numpy(), (x * factor).tanh().numpy(), dynograd.float32)
    assert hot


def test_a_weight_written_before_backward():
    module, leaves, _ = made("gated", dynograd.float64)
    with dynograd.autobatch(always=True):
        loss = program(module, leaves, 5, 5)
    with dynograd.no_grad():
        module.way.weight.add_(1)
    with pytest.raises(RuntimeError, match=r"(?s)cell Gated.*modified by an inplace operation.*\(6, 6\)"):
        loss.backward()


def test_a_state_written_before_backward():
    module, leaves, reference = made("binary_tree", dynograd.float64)

    def run():
        with dynograd.autobatch(always=True):
            a, b = module.first(leaves[0]), module.first(leaves[1])
            each = module(a, b)
            top = module(each, b)
            loss = top[0].sum()
        return each, top, loss

    expected = gradients(run()[2], reference)
    element, top, loss = run()
    with dynograd.no_grad():
        top[0].add_(1)  # nobody needs it
        element[0].add_(1)  # has been multiplied
    for result, other in zip(gradients(loss, reference), expected, strict=True):
        close(result, other, dynograd.float64)
    element, top, loss = run()
    with dynograd.no_grad():
        element[1].add_(1)
    with pytest.raises(RuntimeError, match=r"(?s)BinaryTreeLSTMCell.*its operands of shape \(6,\) was written by"):
        loss.backward()


# --- what is not fused ---------------------------------------------------------------------------------------------------------


def outside_of(dtype):
    table = dynograd.randn(5, 3, dtype=dtype, requires_grad=True)

    def written(x):
        y = x * 2
        y += 1
        return y

    return {
        "sort has no fused form": lambda x: x.sort().values,
        "from tensors that are not its arguments": lambda x: (table * 2)[0] * x,
        "a product of": lambda x: x.reshape(3, 1) @ x.reshape(1, 3),
        "cumsum has no fused form": lambda x: x.cumsum(0),
        "writes in place": written,
        "is the same for all calls": lambda x: table[0] * 1,
        "too long for one kernel": lambda x: (dynograd.stack([x * number for number in range(65)]) * 2).sum(0),
        "all of one dtype": lambda x: x.float() if dtype is dynograd.float64 else x.double(),
    }


@pytest.mark.parametrize("why", outside_of(dynograd.float64))
def test_not_fused(why, hot):
    body = dynograd.cell(outside_of(dynograd.float64)[why])
    xs = [dynograd.randn(3, dtype=dynograd.float64, requires_grad=True) for _ in range(3)]
    expected = [body(x) for x in xs]
    with dynograd.autobatch(always=True) as report:
        results = [body(x) for x in xs]
    assert not hot
    assert any(why in reason for _, reason, _ in report.refused), str(report)
    for element, other in zip(results, expected, strict=True):
        close(element.detach().numpy(), other.detach().numpy(), dynograd.float32)


def leaf_and_inner(count):
    """A leaf's cell is called in one group, another one in `count` groups that follow one another."""
    leaf, inner = dynograd.cell(lambda x: x.sigmoid() * x), dynograd.cell(lambda x, y: (x * y).tanh())
    word = dynograd.full((WIDTH,), 0.1, requires_grad=True)
    with dynograd.autobatch(always=True) as report:
        state = [leaf(word * number) for number in range(9)]
        for _ in range(count):
            state = [inner(x, y) for x, y in pairwise(state)]
        loss = sum(x.sum() for x in state)
    loss.backward()
    return sum(report.fused.values()), [loss.item(), *word.grad.tolist()]


@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_cells_are_fused_where_groups_follow_one_another(count, monkeypatch):
    """The groups of other cells beside them, too; and each time, whatever has run before."""
    monkeypatch.setattr(fusing, "LEVELS", 4)
    fused, results = leaf_and_inner(count)
    assert fused == (0 if count < 4 else 1 + count)
    for _ in range(3):
        leaf_and_inner(7)
        assert leaf_and_inner(count) == (fused, results)


def test_sizes_share_machine_code(monkeypatch):
    known = dict(spans._known)
    monkeypatch.setattr(spans, "_known", known)
    for width in (3, 5, 7):
        cell = nn.GRUCell(width, width).double()
        with dynograd.autobatch(always=True):
            h = dynograd.zeros(width, dtype=dynograd.float64, requires_grad=True)
            results = [cell(dynograd.ones(width, dtype=dynograd.float64) * k, h) for k in range(3)]
            loss = sum(result.sum() for result in results)
        loss.backward()
        if width == 3:
            count = len(known)
    assert len(known) == count


@pytest.mark.parametrize("name", sorted(element for element in lowering._VOCABULARY if element.isidentifier()))
def test_what_a_formula_may_call_is_known_to_rows(name):
    count = {"neg": 1, "select": 3, "max": 2, "min": 2, "fmax": 2, "fmin": 2}.get(name, 1)
    text = to_numba(Tree(name, tuple(Tree("name", (letter,)) for letter in "xyz"[:count])), "float32")
    assert {*re.findall(r"(?<![.\w])([a-z_]\w*)\(", text)} - {"if", "abs"} <= {*row_programs_numba._NAMES}, text


def _fused():
    """Names of ops with a formula that kernels of rows may hold, some of as many operands in one kernel: most of the time is compiling."""
    groups = {1: [], 2: []}
    for name, op in registry.items():
        if op.kind != "elementwise" or op.promote not in ("float", "arithmetic") or not op.differentiable:
            continue
        if not op.static_names and name not in ("conj", "zeroed") and _has_scalar_formulas(name):
            groups.get(len(op.array_names), []).append(name)
    return [names[at : at + 10] for names in groups.values() for at in range(0, len(names), 10)]


def _has_scalar_formulas(name):
    try:
        value, slopes = lowering._trees(name)
    except ValueError:
        return False
    return not any(functions_in(tree) - lowering._VOCABULARY for tree in (value, *slopes) if tree is not None)


@pytest.mark.parametrize("names", _fused(), ids=lambda names: f"{names[0]} to {names[-1]}")
def test_special_values(names, hot):
    """0, infinities, NaN, denormal and the largest numbers give in a fused kernel what they give alone, forward and backward."""
    ops = [registry[name] for name in names]
    count = len(ops[0].array_names)
    operands = [[x[: x.size // 8 * 8].reshape(8, -1) for x in operands_of(op, "float32")] for op in ops]

    def all_of(*rows):
        return tuple(
            op.function(*[row * 1.0 for row in rows[at * count : (at + 1) * count]]) * 1.0 for at, op in enumerate(ops)
        )

    def run(function):
        leaves = [dynograd.tensor(x, dtype=dynograd.float32, requires_grad=True) for each in operands for x in each]
        rows = [function(*row) for row in zip(*[leaf.unbind() for leaf in leaves])]
        results = [dynograd.stack(parts) for parts in zip(*rows)]
        slopes = dynograd.autograd.grad(
            results, leaves, [dynograd.full_like(x, 2.0) for x in results], allow_unused=True
        )
        arrays = [None if element is None else element.detach().double().numpy() for element in (*results, *slopes)]
        return [(arrays[at], *arrays[len(ops) :][at * count : (at + 1) * count]) for at in range(len(ops))]

    expected = run(all_of)
    with dynograd.autobatch(always=True) as report:
        result = run(dynograd.cell(all_of))
    assert hot and not report.refused, str(report)
    wrong = [
        fault
        for name, here, there, inputs in zip(names, result, expected, operands, strict=True)
        for pair in zip(here, there, strict=True)
        if (fault := _apart(name, *pair, inputs))
    ]
    assert not wrong, "\n".join(wrong)


def _apart(name, result, expected, operands):
    """How two results differ; nothing where they do not."""
    if result is None or expected is None:
        return "" if result is expected else f"{name}: a gradient on one side only"
    for kind, where in differences(result, expected, "float32").items():
        if kind == "sign of zero" and name in ("fmax", "fmin", "maximum", "minimum"):
            continue
        if kind in ("value", "zero here", "zero there") and (numpy.abs(result[where] - expected[where]) < 1e-6).all():
            continue
        flat = [x.reshape(-1) for x in operands]
        return f"{name}: {kind}: {told(flat, result.reshape(-1), expected.reshape(-1), where.reshape(-1))}"
    return ""
