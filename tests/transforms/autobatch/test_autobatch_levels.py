"""Levels of fused cells in one call: who asks for gradients of rows in the middle, threads, and which groups run together."""

from __future__ import annotations

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.kernels.rows.row_levels_numba import Shares
from dynograd.transforms.autobatch.fuse import levels

WIDTH = 32  # of weights that are worth a second thread


@pytest.fixture(autouse=True)
def joined(runs_of):
    """The sizes of the groups that ran in one call."""
    return runs_of("run_levels", lambda _, groups: [sum(bucket.count() for bucket in group) for group in groups])


@pytest.fixture
def threads():
    before = dynograd.get_num_threads()
    yield dynograd.set_num_threads
    dynograd.set_num_threads(before)


def close(one, other):
    one, other = (numpy.asarray(each.detach().numpy()) for each in (one, other))
    assert numpy.abs(one - other).max() <= 1e-11 * (1 + numpy.abs(other).max())


def sequences(cell, lists, wanted=()):
    """Last states of an LSTM cell over lists; `wanted` are (list, step), whose states come, too."""
    zeros, kept, last = dynograd.zeros(WIDTH, dtype=dynograd.float64), {}, []
    for number, element in enumerate(lists):
        state = zeros, zeros
        for step, x in enumerate(element):
            state = cell(x, state)
            if (number, step) in wanted:
                kept[number, step] = state
        last.append(state[0])
    return last, kept


def made(count=48, most=11):
    dynograd.manual_seed(3)
    cell = nn.LSTMCell(WIDTH, WIDTH, dtype=dynograd.float64)
    lists = [dynograd.randn(2 + number * 7 % most, WIDTH, dtype=dynograd.float64).unbind() for number in range(count)]
    return cell, lists


def loss_of(last):
    return sum((element * element).sum() for element in last)


def test_levels_are_the_loop_on_any_number_of_threads(joined, threads):
    cell, lists = made()
    loss_of(sequences(cell, lists)[0]).backward()
    expected = [parameter.grad for parameter in cell.parameters()]
    results = []
    for number in (1, 2, 3):
        threads(number)
        cell.zero_grad()
        with dynograd.autobatch():
            loss = loss_of(sequences(cell, lists)[0])
        loss.backward()
        results.append([parameter.grad.numpy() for parameter in cell.parameters()])
        for element, other in zip(cell.parameters(), expected, strict=True):
            close(element.grad, other)
    assert (
        len(joined) == 3 and len(joined[0]) == 11
    )  # the first step, from zeros that are no results, is a group of its own
    for element, two, three in zip(*results, strict=True):
        assert (element == two).all() and (two == three).all()


WAYS = ["hook", "retain_grad", "grad", "inputs", "second order"]


@pytest.mark.parametrize("way", WAYS)
def test_gradients_of_rows_in_the_middle(way, joined):
    cell, lists = made(5)
    references = [(1, 3), (1, 4), (2, 0), (4, 5)]

    def asked():
        last, kept = sequences(cell, lists, references)
        rows = [part for place in references for part in kept[place]]
        if way == "hook":
            seen = []
            for row in rows:
                row.register_hook(lambda g: (seen.append(g.clone()), 0.5 * g)[1])
            parameters = dynograd.autograd.grad(loss_of(last), list(cell.parameters()))
            return [*sorted(seen, key=lambda g: float(g.sum())), *parameters]
        if way == "retain_grad":
            for row in rows:
                row.retain_grad()
            loss_of(last).backward()
            return [row.grad for row in rows]
        if way == "inputs":
            loss_of(last).backward(inputs=rows)
            return [row.grad for row in rows]
        outcomes = dynograd.autograd.grad(loss_of(last), rows, create_graph=way == "second order")
        if way == "grad":
            return list(outcomes)
        return [
            *outcomes,
            *dynograd.autograd.grad(sum((outcome * outcome).sum() for outcome in outcomes), list(cell.parameters())),
        ]

    expected = asked()
    with dynograd.autobatch():
        last, _ = sequences(cell, lists, references)
        loss_of(last)
    del joined[:]
    with dynograd.autobatch(always=True):
        results = asked()
    assert joined
    for element, other in zip(results, expected, strict=True):
        close(element, other)


def tree(cell, leaves, shape):
    if isinstance(shape, int):
        return cell(leaves[shape])
    return cell(None, tree(cell, leaves, shape[0]), tree(cell, leaves, shape[1]))


SHAPES = [0, (0, 1), ((0, 1), (2, 0)), (((1, 1), 2), (0, (1, (2, 3)))), (((((3, 2), 1), 0), 1), 2)]


@pytest.mark.parametrize("narrow", [96, -1])
def test_trees_of_several_depths(narrow, joined, monkeypatch):
    """Losses wait for the deepest tree. Where one tree has most rows and levels are wide, groups run one by one."""
    monkeypatch.setattr(levels, "_NARROW", narrow)
    dynograd.manual_seed(0)
    cell, head = nn.BinaryTreeLSTMCell(6, 6).double(), nn.Linear(6, 3).double()
    leaves = [dynograd.randn(6, dtype=dynograd.float64, requires_grad=True) for _ in range(4)]
    reference = [*leaves, *cell.parameters(), *head.parameters()]

    def run(shapes):
        return sum(head(tree(cell, leaves, shape)[0]).logsumexp(0) for shape in shapes)

    expected = dynograd.autograd.grad(run(SHAPES), reference)
    with dynograd.autobatch(always=True) as report:
        loss = run(SHAPES)
    assert joined == [[6, 4, 2, 2, 1]]
    assert [sizes for label, sizes in report.groups.items() if label.startswith("linear")] == [[5]], str(report)
    for element, other in zip(dynograd.autograd.grad(loss, reference), expected, strict=True):
        close(element, other)


def test_other_ops_in_between(joined):
    """Steps that need something else of the steps before run level by level as far as they can."""
    dynograd.manual_seed(1)
    cell = nn.GRUCell(6, 6).double()
    x = [dynograd.randn(6, dtype=dynograd.float64) for _ in range(4)]

    def run():
        total = 0
        for each in x:
            h = each
            for step in range(9):
                h = cell(each, h.sin() if step == 5 else h)
            total = total + h.sum()
        return total

    expected = dynograd.autograd.grad(run(), list(cell.parameters()))
    with dynograd.autobatch(always=True):
        loss = run()
    assert joined == [[4] * 4, [4] * 3]
    for element, other in zip(dynograd.autograd.grad(loss, list(cell.parameters())), expected, strict=True):
        close(element, other)


@pytest.mark.parametrize(
    "sources, starts, cuts",
    [
        ([[-1, -1, -1, -1, 0, 1, 2, 3]], [0, 4, 8], [[0, 2, 4], [4, 6, 8]]),
        ([[-1, -1, -1, 0, 1, 2, 3]], [0, 3, 6, 7], [[0, 1, 3], [3, 4, 6], [6, 7, 7]]),
        ([[-1, -1, -1, -1, 0, 2], [-1, -1, -1, -1, 1, 3]], [0, 4, 6], [[0, 2, 4], [4, 5, 6]]),
        ([[-1, -1, -1, 1, 0, 2]], [0, 3, 6], [[0, 3], [3, 6]]),  # not in the order of what they hang on
        ([[-1, -1, 0, 1], [-1, -1, 1, 0]], [0, 2, 4], [[0, 2, 2], [2, 4, 4]]),  # all hang together
    ],
    ids=["chains", "of several lengths", "pairs", "crossed", "one"],
)
def test_rows_of_threads(sources, starts, cuts, threads):
    threads(2)
    result = Shares(numpy.array(sources), numpy.array(starts)).cuts(1 << 20).tolist()
    if sources[0][2] == 0 and len(sources[0]) == 4:  # which thread has them all does not matter
        assert result in (cuts, [[0, 0, 2], [2, 2, 4]])
    else:
        assert result == cuts
