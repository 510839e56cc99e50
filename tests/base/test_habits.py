"""What earlier calls of `autobatch` have taught decides no bits that a seed, a saved run or the deterministic mode has to repeat."""

import pytest

import dynograd
from dynograd import nn
from dynograd.base.habits import Habits, forget_habits, put_habits, saved_habits
from dynograd.runs.saving import load_run, save_run

TREES = [((1, 2), 3), (4, (5, (6, 7))), (8, 9), ((1, 3), (5, (7, 9)))]


def loss_of(layer, table, trees):
    """Of so few small trees that recording them gains nothing."""

    def state(tree):
        if isinstance(tree, int):
            return table(dynograd.tensor(tree))
        return layer(dynograd.cat([state(tree[0]), state(tree[1])])).tanh()

    with dynograd.autobatch():
        return dynograd.stack([state(tree).square().sum() for tree in trees]).mean()


def decided(layer, table, trees):
    """The same of examples that decide, each for itself."""

    def one(tree):
        h = table(dynograd.tensor(tree[0] if isinstance(tree[0], int) else 0))
        while h.sum() > 0:
            h = layer(dynograd.cat([h, h])).tanh() - 1
        return h.square().sum()

    return dynograd.stack(dynograd.batched(one)(trees)).mean()


def network():
    layer, table = nn.Linear(12, 6), nn.Embedding(10, 6)
    return layer, table, dynograd.optim.AdamW([*layer.parameters(), *table.parameters()], lr=0.01)


def trained(program, layer, table, optimizer, steps):
    """Each step's loss, and whether its scope was recorded."""
    losses, recorded = [], []
    for _ in range(steps):
        loss = program(layer, table, TREES)
        recorded.append(not dynograd.autobatch.report().skipped)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, recorded


@pytest.mark.parametrize("program", [loss_of, decided])
def test_a_seed_begins_anew(program):
    runs = []
    for _ in range(3):
        dynograd.manual_seed(0)
        runs.append(trained(program, *network(), 12))
    assert runs[0] == runs[1] == runs[2]
    if program is loss_of:
        assert runs[0][1] == [True, False, True, *[False] * 3, True, *[False] * 5]


def test_nothing_is_left_where_results_must_repeat():
    dynograd.use_deterministic_algorithms(True)
    try:
        runs = [trained(loss_of, layer, table, optimizer, 8) for layer, table, optimizer in [network()]]
        assert all(runs[0][1])
    finally:
        dynograd.use_deterministic_algorithms(False)


@pytest.mark.parametrize("program", [loss_of, decided])
def test_a_saved_run_goes_on_with_the_same_bits(program, tmp_path):
    parts = network()
    trained(program, *parts, 3)
    save_run(tmp_path / "run", layer=parts[0], table=parts[1], optimizer=parts[2])
    expected = trained(program, *parts, 12)
    for before in (0, 5):  # in a process where other steps were taken meanwhile, or none
        forget_habits()
        others = network()
        trained(program, *others, before)
        load_run(tmp_path / "run", layer=others[0], table=others[1], optimizer=others[2])
        assert trained(program, *others, 12) == expected


def test_runs_of_older_versions_have_none():
    trained(loss_of, *network(), 2)
    assert saved_habits()
    put_habits({})
    assert not saved_habits()


def test_habits_grow_and_are_forgotten():
    habits = Habits("of a test", longest=7, grace=True)
    place = (test_habits_grow_and_are_forgotten.__code__, 3)

    def calls(gains, count):
        told = []
        for _ in range(count):
            told.append(habits.leaves(place))
            if not told[-1]:
                habits.learn(place, gains)
        return "".join(["-" if left else "x" for left in told])

    assert calls(False, 24) == "x-x---x-------x-------x-"
    habits.forget()
    assert calls(True, 3) == "xxx" and calls(False, 5) == "xx-x-"
    habits.put(habits.listed())
    assert calls(False, 4) == "--x-"
    by_size = Habits("of another test", longest=7, grace=False)
    by_size.learn(place, False, examples=4)
    assert not by_size.leaves(place, 5) and by_size.leaves(place, 3) and not by_size.leaves(place, 3)
