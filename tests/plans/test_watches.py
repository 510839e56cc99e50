"""Watches: any change of what they look at is seen, by compiled code and without it."""

from __future__ import annotations

import weakref
from sys import getrefcount

import pytest

import dynograd as torch
from dynograd.plans import watches
from dynograd.plans.watches import Watch, can_watch

# What is looked at, and how it changes.
CHANGES = {
    "array": (lambda watch, x, y: watch.field(x, "array", x.array), lambda x, y: setattr(x, "data", torch.ones(3))),
    "grad": (lambda watch, x, y: watch.field(x, "_grad", None), lambda x, y: setattr(x, "grad", torch.ones(3))),
    "requires_grad": (lambda watch, x, y: watch.field(x, "_requires_grad", False), lambda x, y: x.requires_grad_()),
    "entry": (lambda watch, x, y: watch.entry(y, "a"), lambda x, y: y.update(a=torch.ones(3))),
    "entry of a default": (lambda watch, x, y: watch.entry(y, "a"), lambda x, y: y.pop("a")),
    "entries that grow": (
        lambda watch, x, y: watch.entry(y, "a"),
        lambda x, y: y.update({str(n): n for n in range(99)}),
    ),
    "cleared entries": (lambda watch, x, y: watch.entry(y, "a"), lambda x, y: y.clear()),
    "item": (lambda watch, x, y: watch.items(y["list"]), lambda x, y: y["list"].__setitem__(1, torch.ones(3))),
    "items that come": (lambda watch, x, y: watch.items(y["list"]), lambda x, y: y["list"].extend(range(99))),
    "an item that goes": (lambda watch, x, y: watch.items(y["list"]), lambda x, y: y["list"].pop()),
}


@pytest.fixture(params=["compiled", "interpreted"])
def words(request, monkeypatch):
    """Who compares the words."""
    if request.param == "interpreted":
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert can_watch()


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_seen(change, words):
    look, make = CHANGES[change]
    x, y = torch.zeros(3), {"a": torch.zeros(3), "list": [torch.zeros(3), torch.zeros(3)]}
    watch = Watch()
    look(watch, x, y)
    watch.close()
    assert watch.holds() and watch.first_other() == watch.count
    make(x, y)
    assert not watch.holds() and watch.first_other() < watch.count


def test_references_are_counted_and_objects_exchanged(words):
    tensors = [torch.zeros(3), torch.zeros(3)]
    counts = [getrefcount(tensors[number]) for number in range(2)]
    watch = Watch()
    for number in range(2):
        watch.kind(number, tensors[number], torch.Tensor)
        watch.holders(number, tensors[number], counts[number])
    watch.close()
    assert watch.holds()
    kept = tensors[1]
    assert watch.first_other() == 3 and watch.first_other(4) == watch.count
    tensors[1] = torch.ones(3)
    watch.put(1, tensors[1])
    assert watch.holds()
    del kept
    tensors[0] = torch.nn.Parameter(torch.ones(3))
    watch.put(0, tensors[0])
    assert watch.first_other() == 0  # another class


def test_weak_references_to_what_is_alone_are_seen(words):
    tensors = [torch.zeros(3)]
    watch = Watch()
    count = getrefcount(tensors[0])
    watch.alone(0, tensors[0], count)
    compare, place, count = watch.close().question()
    assert watch.holds() and compare(place, 0, count) == count
    reference = weakref.ref(tensors[0])
    assert watch.first_other() == 1 == compare(place, 0, count)
    del reference
    assert watch.holds()
    kept = tensors[0]
    assert watch.first_other() == 0
    del kept
    assert watch.holds()


def test_the_tensor_of_a_number_is_expected_in_a_field():
    leaf, gradients = torch.zeros(3, requires_grad=True), [torch.ones(3), torch.ones(3)]
    leaf.grad = gradients[0]
    watch = Watch()
    watch.field(leaf, "_grad", gradients[0], 7)
    watch.close()
    assert watch.holds()
    leaf.grad = gradients[1]
    assert not watch.holds()
    watch.put(7, gradients[1])
    assert watch.holds()


class Plain:
    def __init__(self, first=None):
        self.first, self.second = first, True


class Dict(dict):
    pass


def inner(x):
    def function(y=2):
        return x + y

    return function


# What is looked at beside tensors, and how it changes: (object, how, change).
PLACES = {
    "attribute": (lambda: Plain(1.5), lambda w, x: w.entry(vars(x), "first"), lambda x: setattr(x, "first", 2.5)),
    "attribute that goes": (lambda: Plain(1.5), lambda w, x: w.entry(vars(x), "first"), lambda x: delattr(x, "first")),
    "attribute of many": (lambda: Plain(True), lambda w, x: w.entry(vars(x), "second"), lambda x: vars(x).clear()),
    "entry": (lambda: {"x": 1}, lambda w, x: w.entry(x, "x"), lambda x: x.update(x=2.5)),
    "deleted and other": (
        lambda: {"x": 1, "y": 1},
        lambda w, x: w.entry(x, "x"),
        lambda x: (x.pop("x"), x.update(z=1)),
    ),
    "item": (lambda: [1, 2], lambda w, x: w.item(x, 1), lambda x: x.__setitem__(1, 3)),
    "item that goes": (lambda: [1, 2], lambda w, x: w.item(x, 1), lambda x: x.pop()),
    "length of a list": (lambda: [1], lambda w, x: w.length(x), lambda x: x.append(1)),
    "length of a dict": (dict, lambda w, x: w.length(x), lambda x: x.update(x=1)),
    "length of a set": (lambda: {1}, lambda w, x: w.length(x), lambda x: x.add(2)),
    "length of a set that shrinks": (lambda: {1, 2}, lambda w, x: w.length(x), lambda x: x.discard(2)),
    "cell": (
        lambda: inner(1.5).__closure__[0],
        lambda w, x: w.attribute(x, "cell_contents"),
        lambda x: setattr(x, "cell_contents", 2.5),
    ),
    "code": (
        lambda: inner(1),
        lambda w, x: w.attribute(x, "__code__"),
        lambda x: setattr(x, "__code__", outer().__code__),
    ),
    "defaults": (
        lambda: inner(1),
        lambda w, x: w.attribute(x, "__defaults__"),
        lambda x: setattr(x, "__defaults__", (3,)),
    ),
    "no defaults": (
        lambda: inner(1),
        lambda w, x: w.attribute(x, "__kwdefaults__"),
        lambda x: setattr(x, "__kwdefaults__", {"y": 1}),
    ),
}


def outer():
    x = 1
    return lambda y: x


@pytest.mark.parametrize("name", PLACES)
def test_changes_of_places_are_seen(name, words):
    build, look, change = PLACES[name]
    owner, watch = build(), Watch()
    others = [build(), build()]  # objects of one class share the keys of their attributes
    look(watch, owner)
    watch.close()
    assert watch.holds()
    change(others[0])
    assert watch.holds()
    change(owner)
    assert not watch.holds()


@pytest.mark.parametrize(
    "look",
    [
        lambda watch: watch.length(Dict(x=1)),
        lambda watch: watch.attribute(Plain.__init__, "__class__"),
        lambda watch: watch.entry({}, "first"),
    ],
)
def test_what_lies_where_nobody_knows_is_refused(look):
    with pytest.raises(LookupError):
        look(Watch())


def test_objects_kept_otherwise_stop_compile(monkeypatch):
    monkeypatch.setattr(watches, "_SLOTS", watches._SLOTS | {"array": 0})
    monkeypatch.setattr("dynograd.plans.compiling.can_watch", watches.can_watch.__wrapped__)
    step = torch.compile(lambda x: x + 1)
    assert [step(torch.ones(1)).item() for _ in range(4)] == [2.0] * 4
    assert step.walked == 0 and "usual CPython" in str(step.report())
