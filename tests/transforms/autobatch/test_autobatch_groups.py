"""Groups: rules that are one call of their op, joined rows, operands from one slab or arena."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
import pytest

import dynograd as torch
from dynograd.autograd.modes import MODES
from dynograd.transforms.autobatch.group import scheduling
from dynograd.transforms.autobatch.group.executing import Flush
from dynograd.transforms.autobatch.group.rows import ArenaGatherNode
from dynograd.transforms.autobatch.record.buckets import Bucket
from dynograd.transforms.autobatch.record.forms import FORMS

BODIES = {
    "cat, linear, tanh": lambda x, y, w: torch.nn.functional.linear(torch.cat([x, y]), w).tanh(),
    "stack of three": lambda x, y, w: torch.stack([x, y, x]).sin().sum(0),
    "stack along the last dim": lambda x, y, w: torch.stack([x, y], -1).cos().mean(1),
    "stack beside a shared operand": lambda x, y, w: torch.stack([w, (x * y)[0].expand(4, 6)]).prod(0),
    "cat behind a shared operand": lambda x, y, w: torch.cat([w, torch.stack([x, y])[:, [0, 1, 2, 2, 1, 0]]]).cos(),
    "cat of one operand twice": lambda x, y, w: torch.cat([x, x]).exp(),
    "slices, sums, softmax": lambda x, y, w: (x[1:] * y[:2]).softmax(0) + x.sum() - y.amax(),
    "shapes with the size in them": lambda x, y, w: x.view(3, 1).expand(3, 2).reshape(6) * y.repeat(2),
}


def _values(body, count, auto):
    rows = torch.from_numpy(np.random.default_rng(3).standard_normal((2 * count, 3)))
    w = torch.from_numpy(np.random.default_rng(4).standard_normal((4, 6))).requires_grad_()
    rows.requires_grad_()
    result = []
    scope = torch.autobatch(always=True) if auto else torch.enable_grad()
    with scope:
        states = [rows[place].tanh() for place in range(2 * count)]
        for place in range(count):
            result.append(body(states[place], states[-1 - place // 2], w).sum())
        total = sum(result)
    first = torch.autograd.grad(total, [rows, w], create_graph=True, materialize_grads=True)
    second = torch.autograd.grad(sum((element * element).sum() for element in first), [rows, w], materialize_grads=True)
    return [total, *result, *first, *second]


@pytest.mark.parametrize("name", list(BODIES))
def test_groups_of_any_size_are_the_loop(name):
    for count in (5, 3, 5, 8, 1):  # what is known of groups of five must not be taken for all
        for own, loop in zip(_values(BODIES[name], count, True), _values(BODIES[name], count, False), strict=True):
            np.testing.assert_allclose(own.detach().numpy(), loop.detach().numpy(), rtol=1e-11, atol=1e-12)


def test_a_rule_that_is_one_call_is_called_without_its_rule():
    x = torch.ones(4)
    for count in (3, 4):
        with torch.autobatch(always=True):
            result = [(x * number).erfinv() for number in range(count)]
        assert len(result) == count
    known = [form.ready.known for form in FORMS.recent.values() if form.label == "erfinv" and form.grad == MODES.grad]
    assert (0, {}) in [element for each in known for element in each.values()]


@pytest.mark.parametrize("join", [torch.stack, torch.cat])
@pytest.mark.parametrize("grad", [False, True])
def test_a_write_into_joined_rows_leaves_the_rows_alone(join, grad):
    xs = [torch.full((3,), float(place)).requires_grad_(grad) for place in range(8)]
    with torch.autobatch(always=True):
        hs = [x * 2 for x in xs]
        whole = join(hs)
        pairs = [join([hs[place], hs[place + 1]]) for place in range(0, 8, 2)]
    with torch.no_grad():
        for element in (whole, *pairs):
            element.add_(1)
    assert [h.tolist() for h in hs] == [[2.0 * place] * 3 for place in range(8)]


def test_rows_of_one_slab_in_any_order():
    rows = torch.arange(12.0).reshape(6, 2).requires_grad_()
    order = [4, 0, 0, 5, 2]
    with torch.autobatch(always=True):
        states = [row.exp() for row in rows.unbind()]
        results = [states[place] * states[place - 1] for place in order]
        total = sum(result.sum() for result in results)
    total.backward()
    plain = rows.detach().numpy()
    grads = np.zeros_like(plain)
    for place in order:
        product = np.exp(plain[place]) * np.exp(plain[place - 1])
        grads[place] += product
        grads[place - 1] += product
    np.testing.assert_allclose(rows.grad.numpy(), grads, rtol=1e-5)


@pytest.mark.parametrize("steps", [(2, 2, 2), (1, 3, 2), (3, 1, 1)])
def test_rows_of_several_groups_are_taken_at_once(steps):
    """The results of groups of one form lie behind one another: a group that needs rows of many has one operand for all of them."""
    rows = torch.arange(12.0).reshape(6, 2).mul(0.1).requires_grad_()
    with torch.autobatch(always=True):
        states = []
        for row, count in zip(rows.unbind(), (*steps, 1, 2, 3)):
            for _ in range(count):
                row = row.tanh()
            states.append(row)
        results = [element * other for element, other in zip(states, reversed(states))]
        total = sum(result.sum() for result in results)
    (product,) = {id(result.grad_fn.edges[0].edges[0]): result.grad_fn.edges[0].edges[0] for result in results}.values()
    assert [type(node) for node in product.edges] == [ArenaGatherNode, ArenaGatherNode]
    total.backward()
    plain, slope = rows.detach().numpy(), np.ones((6, 2))
    for place, count in enumerate((*steps, 1, 2, 3)):
        for _ in range(count):
            plain[place] = np.tanh(plain[place])
            slope[place] *= 1 - plain[place] ** 2
    np.testing.assert_allclose(rows.grad.numpy(), 2 * plain[::-1] * slope, rtol=1e-5)


def test_rows_of_leaves_that_join_a_group_while_others_run(monkeypatch):
    """Each example's own leaf becomes a row beside rows of a group that has run: the tables of rows have a place for it."""
    reached = []
    plain = Flush.rows_together

    def rows_together(self, recorder, codes):
        result = plain(self, recorder, codes)
        reached.append(len(self.first_rows) > max(codes) >> 32)
        return result

    monkeypatch.setattr(Flush, "rows_together", rows_together)

    def run(scope):
        random = np.random.default_rng(0)
        common, *own = [torch.tensor(random.normal(size=4), requires_grad=True) for _ in range(4)]
        with scope:
            states = [(own[0] * (k + 1)).tanh() for k in range(3)]
            terms = [(states[0], states[1]), (own[1], states[2]), (own[2], states[0]), (states[1], states[2])]
            results = [torch.addcmul(common, element, other) for element, other in terms]
            loss = sum(result.sum() for result in results)
        loss.backward()
        return [result.tolist() for result in results] + [element.grad.tolist() for element in (common, *own)]

    assert run(torch.autobatch(always=True)) == run(contextlib.nullcontext())
    assert len(reached) > 1 and all(reached)


# Ops of examples, one after the other, and how many calls the groups of an op have.
LINES = {
    "a kind that follows itself through another one": (
        ["tanh sin tanh tanh sin exp", "tanh tanh sin exp", "tanh sin tanh tanh sin tanh exp", "tanh exp"],
        {"tanh": [4, 3, 2, 1], "sin": [2, 3], "exp": [4]},
    ),
    "all calls of an op that are left, in one group": (
        ["exp sin", "tanh exp tanh sin", "exp tanh"],
        {"tanh": [1, 2], "exp": [3], "sin": [2]},
    ),
    "encoders, then decoders": (
        ["tanh " * steps + "sin " * (6 - steps) + "exp" for steps in (3, 1, 5, 2)],
        {"tanh": [4, 3, 2, 1, 1], "sin": [4, 3, 3, 2, 1], "exp": [4]},
    ),
}


@pytest.mark.parametrize("most", [scheduling._Generations._MOST, 0], ids=["counted", "as recorded"])
@pytest.mark.parametrize("name", LINES)
def test_sizes_of_groups(name, most, monkeypatch):
    """The same where generations are counted, and where they are those known when calls were recorded."""
    monkeypatch.setattr(scheduling._Generations, "_MOST", most)
    lines, sizes = LINES[name]
    with torch.autobatch(always=True) as report:
        for line in lines:
            state = torch.ones(3)
            for op in line.split():
                state = getattr(state, op)()
    assert {label.split()[0]: groups for label, groups in report.groups.items()} == sizes


TOKENS = [3, 1, 5, 1]
LOOKUPS = {
    "modules": lambda tables: [torch.nn.Embedding.from_pretrained(table, freeze=False) for table in tables],
    "functions": lambda tables: [functools.partial(torch.nn.functional.embedding, weight=table) for table in tables],
}


@pytest.mark.parametrize("in_turn", [True, False])
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 0, 2], [1, 1, 1]])
@pytest.mark.parametrize("way", LOOKUPS)
def test_tokens_of_lookups_in_two_tables(way, order, in_turn):
    """In turn, each table has every second of the numbers; else one has those before the other's."""
    random = np.random.default_rng(0)
    tables = [random.normal(size=(6, 2)) for _ in range(2)]
    lookups = LOOKUPS[way]([torch.tensor(table, requires_grad=True) for table in tables])
    calls = [(place, number) for place in order for number in range(2)]
    with torch.autobatch(always=True) as report:
        for _ in range(2):  # from the second time on all such lookups are known
            rows = {}
            for place, number in calls if in_turn else sorted(calls, key=lambda call: call[1]):
                rows.setdefault(number, []).append(lookups[number](torch.tensor(TOKENS[place])))
            losses = {number: torch.stack(each).tanh().sum() for number, each in rows.items()}
            assert all(each[-1].isfinite().all() for each in rows.values())
    assert not report.refused and report.groups["embedding -> float64[2]"] == [len(order)] * 4
    for number, table in enumerate(tables):
        picked = [TOKENS[place] for place in order]
        assert [row.tolist() for row in rows[number]] == table[picked].tolist()
        weight = lookups[number].weight if way == "modules" else lookups[number].keywords["weight"]
        (gradient,) = torch.autograd.grad(losses[number], [weight], retain_graph=True)
        expected = np.zeros_like(table)
        np.add.at(expected, picked, 1 - np.tanh(table[picked]) ** 2)
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-12)


WITH_A_NUMBER = {
    "product": lambda x, number: x * number,
    "quotient": lambda x, number: x / number,
    "quotient of it": lambda x, number: number / x,
    "sum": lambda x, number: x * 0.0 * -1.0 + number,
    "difference": lambda x, number: number - x * 0.0,
    "factor of a summand": lambda x, number: torch.add(x * 0.0 * -1.0, x, alpha=number),
    "power": lambda x, number: number**x,
    "of integers": lambda x, number: x.long() * number,
}
NUMBERS = [
    [0.0, -0.0, 0.0],
    [-0.0, 0.0, 0.0],
    [-0.0, -0.0],
    [0, 0.0, -0.0],
    [1, 1.0, 1],
    [float("nan"), 2.0, float("nan")],
]


@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
@pytest.mark.parametrize("name", WITH_A_NUMBER)
def test_numbers_of_a_group_that_are_equal_and_not_the_same(name, numbers):
    def results(scope):
        with scope, np.errstate(all="ignore"):
            outcomes = [WITH_A_NUMBER[name](torch.tensor([1.0, 2.0]).exp(), number) for number in numbers]
        return [(outcome.dtype, str(outcome.tolist())) for outcome in outcomes]

    assert results(torch.autobatch(always=True)) == results(contextlib.nullcontext())


def test_counting_calls_asks_no_iterator_for_its_pickle():
    """From Python 3.12 on `itertools.count().__reduce__` warns, and later ones have none."""
    bucket = Bucket(None, None, 0, ())
    assert bucket.count() == 0 and type(bucket.rows).__module__ != "itertools"
    assert [bucket.next_row() for _ in range(3)] == [0, 1, 2] and bucket.count() == 3
