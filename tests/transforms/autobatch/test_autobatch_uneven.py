"""Calls whose shapes differ in one dim run together: memories, sets and sentences of different lengths."""

import numpy
import pytest

import dynograd
from dynograd import autobatch
from dynograd.nn import functional as F
from dynograd.transforms.autobatch.group import uneven
from dynograd.transforms.autobatch.record import recorder

WIDTH = 4
LENGTHS = (3, 1, 5, 2, 5, 7)


def states(w, x):
    """What an encoder leaves: as many vectors as the example has rows."""
    return [dynograd.tanh(w @ row) for row in x.unbind()]


def attention(w, x):
    memory, query = dynograd.stack(states(w, x)), w[0] * 1.0
    for _ in range(3):
        weights = F.softmax(memory @ query, dim=0)
        query = dynograd.tanh(w @ (weights @ memory))
    return (query**2).sum()


def attention_of_one_batch(w, x):
    memory = dynograd.cat([state.unsqueeze(0) for state in states(w, x)])
    scores = (memory * (w[1] * 2)).sum(1) / 2.0
    return (F.log_softmax(scores, -1).unsqueeze(0) @ memory).sum()


def sets(w, x):
    memory = dynograd.stack(states(w, x))
    wide = F.relu(F.linear(memory, w, w[0]) + F.linear(memory, w)) + memory.mean(0)
    return wide.amax(0).sum() + wide.logsumexp(0).mean() + wide.std(0, correction=0).sum() + wide.max(0)[0].sum()


def whole_rows(w, x):
    """Matrices from outside."""
    scores = (x * 2) @ w
    return (scores.softmax(1).sum(0) * x.mean(0)).sum() + scores.max() * scores.argmax(0).sum()


def read_in_between(w, x):
    memory = dynograd.stack(states(w, x)) * 2
    first, last = memory[0], memory[-1]
    scores = memory @ first
    best = int(scores.argmax())
    return (memory[best] * last).sum() + scores.sum()


def detached(w, x):
    memory = dynograd.stack(states(w, x))
    return (memory.detach() @ w[2]).softmax(0) @ memory @ w[0]


def one_after_the_other(w, x):
    """A memory that grows."""
    memory, total = x[:1] @ w, 0.0
    for row in x[1:]:
        read = F.softmax(memory @ row, 0) @ memory
        memory = dynograd.cat([memory, (w @ read).unsqueeze(0)])
        total = total + read.sum()
    return total + memory.sum()


PROGRAMS = [
    attention, attention_of_one_batch, sets, whole_rows, read_in_between, detached, one_after_the_other,
]  # fmt: skip


def run(program, how, order=1):
    w = dynograd.tensor(numpy.random.default_rng(0).normal(size=(WIDTH, WIDTH)), requires_grad=True)
    examples = [dynograd.tensor(numpy.random.default_rng(n).normal(size=(n, WIDTH))) for n in LENGTHS]
    report = None
    if how == "loop":
        losses = [program(w, x) for x in examples]
    elif how == "batched":
        losses = dynograd.batched(lambda x: program(w, x), always=True)(examples)
    else:
        with autobatch(always=True) as report:
            losses = [program(w, x) for x in examples]
    total = dynograd.stack(losses).sum()
    if order == 2:
        (first,) = dynograd.autograd.grad(total, [w], create_graph=True)
        total = total + (first**2).sum()
    total.backward()
    return [loss.item() for loss in losses], w.grad.numpy(), report


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("how", ["autobatch", "batched"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_the_loop(program, how, order):
    expected, gradient, _ = run(program, "loop", order)
    result, other, _ = run(program, how, order)
    numpy.testing.assert_allclose(result, expected, rtol=1e-12)
    numpy.testing.assert_allclose(other, gradient, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("program", [attention, attention_of_one_batch, sets])
def test_groups_do_not_grow_with_the_number_of_lengths(program, monkeypatch):
    *_, together = run(program, "autobatch")
    monkeypatch.setattr(recorder, "families_of", lambda waiting, refused: {})
    *_, apart = run(program, "autobatch")
    assert together.calls == apart.calls and apart.launches > 1.8 * together.launches
    assert "[*, 4]" in str(together) and "[*, 4]" not in str(apart)


def test_many_calls_of_each_length_keep_their_own_groups(monkeypatch):
    monkeypatch.setattr(uneven, "_MANY", 1)
    expected, gradient, _ = run(attention, "loop")
    result, other, report = run(attention, "autobatch")
    numpy.testing.assert_allclose(result, expected, rtol=1e-12)
    numpy.testing.assert_allclose(other, gradient, rtol=1e-9, atol=1e-11)
    assert "softmax -> float64[5]" in str(report)


def test_an_op_that_does_not_take_such_rows_runs_by_size_and_says_so(monkeypatch):
    def refuse(*given):
        raise ValueError("not on these rows")

    monkeypatch.setattr(uneven, "_computed", refuse)
    expected, gradient, _ = run(attention, "loop")
    result, other, report = run(attention, "autobatch")
    numpy.testing.assert_allclose(result, expected, rtol=1e-12)
    numpy.testing.assert_allclose(other, gradient, rtol=1e-9, atol=1e-11)
    assert "softmax: each size of a dim in a group of its own (ValueError: not on these rows)" in str(report)


def test_joins_along_any_dim_that_keeps_rows_together():
    def loss(w, x):
        rows = states(w, x)
        wide = dynograd.cat([row.view(2, 2) for row in rows])
        behind = dynograd.stack([row.unsqueeze(0) for row in rows], 1)
        across = dynograd.cat([row.view(2, 2) for row in rows], 1)
        return (
            (wide @ w[:2, :2]).tanh().sum()
            + behind.softmax(1).square().sum()
            + (across * across.sum(1, keepdim=True)).sum()
        )

    expected, gradient, _ = run(loss, "loop")
    result, other, report = run(loss, "autobatch")
    numpy.testing.assert_allclose(result, expected, rtol=1e-11)
    numpy.testing.assert_allclose(other, gradient, rtol=1e-9, atol=1e-10)
    assert "cat -> float64[*, 2]" in str(report) and "stack -> float64[1, *, 4]" in str(report)


def test_hooks_and_gradients_of_rows_of_an_uneven_group():
    def tried(recorded):
        w = dynograd.tensor(numpy.random.default_rng(0).normal(size=(WIDTH, WIDTH)), requires_grad=True)
        seen, kept, losses = [], [], []
        with autobatch(always=True) if recorded else dynograd.enable_grad():
            for n in LENGTHS:
                memory = dynograd.stack([w[0] * (number + 1) for number in range(n)])
                kept.append(memory)
                losses.append(((memory @ w[1]).softmax(0) @ memory).sum())
        for memory in kept[:3]:
            memory.register_hook(lambda g: seen.append(g.numpy().copy()) or g * 2)
        kept[4].retain_grad()
        dynograd.stack(losses).sum().backward()
        parts = dynograd.autograd.grad((kept[5] * kept[5]).sum() + kept[5].sum(), [kept[5]], retain_graph=True)
        return [*sorted(seen, key=len), kept[4].grad.numpy(), w.grad.numpy(), parts[0].numpy()]

    for element, other in zip(tried(False), tried(True), strict=True):
        numpy.testing.assert_allclose(other, element, rtol=1e-10)


def test_wrong_shapes_of_one_example_raise_its_error():
    w = dynograd.ones(WIDTH, WIDTH, requires_grad=True)
    with autobatch(always=True):
        memories = [dynograd.stack([w[0] * 2] * n) for n in (2, 3)]
        with pytest.raises(RuntimeError, match="matmul"):
            memories[0] @ w[0, :3]
        assert [(memory @ w[0]).tolist() for memory in memories] == [[8.0] * 2, [8.0] * 3]


OPS = """
m.argmax() | m.argmin(1) | m.argmax(0) | m.max() | m.min(0)[0] | m.max(1)[1] | m.amax((0, 1)) | m.amin(1, keepdim=True) | m.var() | m.var(0, correction=0)
m.std(1) | m.norm() | m.norm(dim=1) | m.norm(dim=0) | m.cumsum(0) | m.cumsum(1) | m.logsumexp((0, 1)) | m.sum((0, 1), keepdim=True) | m.sum(0, keepdim=True) | m.mean()
F.layer_norm(m, (4,)) | m.softmax(0) | m.log_softmax(1) | m @ w | m @ w[0] | w[0] @ m.t() | F.linear(m, w) | dynograd.where(m > 0, m, w[0]) | m.clamp(-0.5, 0.5)
m + m.mean(0, keepdim=True) | m / m.exp().sum(1, keepdim=True) | m.unsqueeze(0).softmax(1) | (m[None] * w[0]).sum(-1) | m.mean(0) * m | m[:, 0].softmax(0) @ m
dynograd.stack([m.sum(), m.mean()]) | dynograd.cat([m, m[:1]]).sum(0) | dynograd.cat([w[0][None]] * len(m)) * m | (m > 0).sum(0) | m.unsqueeze(1) * w | m.square().sum(-1).sqrt()
"""  # fmt: skip


@pytest.mark.parametrize(
    "text", [element.strip() for line in OPS.split("\n") for element in line.split("|") if element.strip()]
)
def test_ops_on_rows_of_an_uneven_dim(text):
    call = eval(f"lambda w, m: {text}", {"dynograd": dynograd, "F": F})

    def loss(w, x):
        created = call(w, dynograd.stack(states(w, x)))
        return (
            (created.double() * created).sum() + 0.0 * w[0, 0]
            if created.dtype.is_floating_point
            else (created * 1.0).sum() + w[0, 0]
        )

    expected, gradient, _ = run(loss, "loop")
    result, other, _ = run(loss, "autobatch")
    numpy.testing.assert_allclose(result, expected, rtol=1e-11)
    numpy.testing.assert_allclose(other, gradient, rtol=1e-9, atol=1e-10)


def products_of_sizes(pairs):
    """(values, gradients) of products of a vector of one size and one of another, which may be 1."""
    rows = {size: dynograd.arange(1.0, size + 1.0, dtype=dynograd.float64, requires_grad=True) for size in range(1, 8)}
    with autobatch(always=True) as report:
        results = [(rows[element] * 0.5) * (rows[other] * 0.25) for element, other in pairs]
        total = sum([result.exp().sum() for result in results])
    total.backward()
    return (
        [result.tolist() for result in results],
        [row.grad is not None and row.grad.tolist() for row in rows.values()],
        report,
    )


@pytest.mark.parametrize(
    "order", [[(1, 1), (1, 6), (6, 6)], [(1, 6), (6, 6), (1, 1)], [(6, 6), (1, 6), (5, 5), (1, 1)]]
)
def test_a_size_that_is_stretched_in_some_calls_and_uneven_in_others(order):
    """Each call has one size in all operands of which rows are taken, whatever came first."""
    result, _, _ = products_of_sizes([pair for pair in order for _ in range(2)])
    for place, (element, other) in enumerate(order):
        expected = (numpy.arange(1.0, element + 1) * 0.5) * (numpy.arange(1.0, other + 1) * 0.25)
        assert result[2 * place] == result[2 * place + 1] == expected.tolist()


def test_groups_do_not_depend_on_programs_that_ran_before():
    """Sizes that only other programs have make no families, and change none."""
    pairs = [(5, 5), (1, 4), (1, 5), (7, 7), (1, 1)]

    def groups(report):
        return [(repr(form), size) for form, size, _ in report.order]

    result, gradients, report = products_of_sizes(pairs)
    for other in ([(1, 1)], [(1, 6), (1, 1)], [(6, 6)], [(2, 1), (3, 3)]):
        products_of_sizes(other)
    again, others, later = products_of_sizes(pairs)
    assert (again, others, groups(later)) == (result, gradients, groups(report))
