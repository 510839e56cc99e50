"""Random programs of views, writes in place, detach, hooks and no_grad, beside a model in NumPy.

The model keeps the values in flat memories that views index, and a tape of its own: for each step a function from the gradient of the
result to those of its operands, and which elements of which memory the real op keeps for backward. From that follow the values, the
gradients, and whether backward must refuse because something it needs was overwritten.

`DYNOGRAD_STATE_MACHINE=5000` runs so many programs (200 by default).
"""

from __future__ import annotations

import os

import numpy
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import dynograd as dg
from dynograd.errors import InplaceError

SHAPES = [(4,), (2, 3), (3, 2), (2, 2, 2), (3, 3), (), (1, 3), (6,)]
PLACES = st.integers(0, 30)
NUMBERS = st.sampled_from([-1.5, -0.5, 0.25, 0.75, 1.25])


# --- the model ---------------------------------------------------------------------------------------------------------------


class Memory:
    """Flat values, and who wrote where and when."""

    def __init__(self, values):
        self.values = numpy.array(values, dtype=numpy.float64).reshape(-1)
        self.writes = []
        self.unwatched = []  # through `.data`: gradients may be of either values then, as in PyTorch


class Record:
    """One step of the model's tape: pairs (operand's record, gradient of the result -> gradient of the operand)."""

    def __init__(self, time, operands=(), saved=(), leaf=False):
        self.time, self.operands, self.saved, self.leaf = time, list(operands), list(saved), leaf
        self.factor = 1.0  # of hooks


class Value:
    """A tensor and what the model knows of it: places in a memory, its record, the base it is a view of."""

    def __init__(self, tensor, memory, places, record=None, base=None, silent=False):
        self.tensor, self.memory, self.places, self.record = tensor, memory, numpy.asarray(places), record
        self.base, self.views, self.silent = base, [], silent
        if base is not None:
            base.views.append(self)
        self.alone = base is None and not silent

    @property
    def numbers(self):
        return self.memory.values[self.places]

    @property
    def shape(self):
        return self.places.shape


def to_shape(g, shape):
    """Sums `g` to the shape of an operand that was broadcast."""
    while g.ndim > len(shape):
        g = g.sum(0)
    for dim, size in enumerate(shape):
        if size == 1 and g.shape[dim] != 1:
            g = g.sum(dim, keepdims=True)
    return g


def put(g, places, shape):
    """Adds `g` into zeros of `shape` at flat places."""
    created = numpy.zeros(int(numpy.prod(shape)))
    numpy.add.at(created, places.reshape(-1), g.reshape(-1))
    return created.reshape(shape)


UNARY = {
    "sin": (numpy.sin, lambda x, y: numpy.cos(x), "input"),
    "tanh": (numpy.tanh, lambda x, y: 1 - y * y, "output"),
    "neg": (numpy.negative, lambda x, y: -numpy.ones_like(x), None),
    "atan": (numpy.arctan, lambda x, y: 1 / (1 + x * x), "input"),
    "sigmoid": (lambda x: 1 / (1 + numpy.exp(-x)), lambda x, y: y * (1 - y), "output"),
}
BINARY = {
    "add": (numpy.add, lambda a, b: (numpy.ones_like(a + b), numpy.ones_like(a + b)), False),
    "sub": (numpy.subtract, lambda a, b: (numpy.ones_like(a + b), -numpy.ones_like(a + b)), False),
    "mul": (numpy.multiply, lambda a, b: (b + 0 * a, a + 0 * b), True),
}


class Programs(RuleBasedStateMachine):
    """Each rule does one thing to the real tensors and to the model."""

    def __init__(self):
        super().__init__()
        self.values, self.leaves, self.clock = [], [], 0

    # --- helpers

    def tick(self):
        self.clock += 1
        return self.clock

    def pick(self, place):
        return self.values[place % len(self.values)]

    def keep(self, value):
        self.values.append(value)
        if len(self.values) > 14:
            self.values.pop(self.clock % 7)

    def fresh(self, tensor, numbers, record):
        """A new tensor with memory of its own."""
        numbers = numpy.asarray(numbers, dtype=numpy.float64)
        created = Value(tensor, Memory(numbers), numpy.arange(numbers.size).reshape(numbers.shape), record)
        self.keep(created)
        return created

    def read(self, value):
        """(memory, places, time): what an op keeps of an operand."""
        return value.memory, value.places, self.clock

    def unary_record(self, name, a, recording):
        """The result's numbers, and its record without what it keeps of the output."""
        function, slope, saves = UNARY[name]
        x = a.numbers
        y = function(x)
        if not recording or a.record is None:
            return y, None, saves
        d = slope(x, y)
        record = Record(self.tick(), [(a.record, lambda g: g * d)])
        if saves == "input":
            record.saved.append(self.read(a))
        return y, record, saves

    def binary_record(self, name, a, b, recording, b_numbers=None):
        function, slopes, saves = BINARY[name]
        x = a.numbers
        y = b.numbers if b_numbers is None else numpy.asarray(b_numbers)
        result = function(x, y)
        b_record = None if b is None else b.record
        if not recording or (a.record is None and b_record is None):
            return result, None
        da, db = slopes(x, y)
        record = Record(self.tick())
        if a.record is not None:
            record.operands.append((a.record, lambda g: to_shape(g * da, x.shape)))
            if saves and b is not None:
                record.saved.append(self.read(b))
        if b_record is not None:
            record.operands.append((b_record, lambda g: to_shape(g * db, y.shape)))
            if saves:
                record.saved.append(self.read(a))
        return result, record

    # --- new tensors

    @rule(shape=st.sampled_from(SHAPES), wants=st.booleans(), seed=st.integers(0, 99))
    def leaf(self, shape, wants, seed):
        numbers = numpy.random.default_rng(seed).uniform(-1, 1, shape)
        tensor = (
            dg.tensor(numbers.tolist(), dtype=dg.float64, requires_grad=wants).reshape(shape) if not wants else None
        )
        if wants:
            tensor = dg.tensor(numpy.array(numbers), requires_grad=True)
        created = self.fresh(tensor, numbers, Record(self.tick(), leaf=True) if wants else None)
        if wants:
            self.leaves.append(created)

    @precondition(lambda self: self.values)
    @rule(place=PLACES, name=st.sampled_from(sorted(UNARY)), recording=st.sampled_from([True, True, True, False]))
    def unary(self, place, name, recording):
        a = self.pick(place)
        numbers, record, saves = self.unary_record(name, a, recording)
        with dg.set_grad_enabled(recording):
            tensor = getattr(dg, name)(a.tensor)
        created = self.fresh(tensor, numbers, record)
        if record is not None and saves == "output":
            record.saved.append((created.memory, created.places, self.clock))

    @precondition(lambda self: self.values)
    @rule(
        one=PLACES,
        two=PLACES,
        name=st.sampled_from(sorted(BINARY)),
        recording=st.sampled_from([True, True, True, False]),
    )
    def binary(self, one, two, name, recording):
        a, b = self.pick(one), self.pick(two)
        try:
            numpy.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            return
        numbers, record = self.binary_record(name, a, b, recording)
        with dg.set_grad_enabled(recording):
            tensor = getattr(dg, name)(a.tensor, b.tensor)
        self.fresh(tensor, numbers, record)

    @precondition(lambda self: self.values)
    @rule(place=PLACES)
    def clone(self, place):
        a = self.pick(place)
        record = None if a.record is None else Record(self.tick(), [(a.record, lambda g: g)])
        self.fresh(a.tensor.clone(memory_format=dg.contiguous_format), a.numbers, record)

    @precondition(lambda self: self.values)
    @rule(place=PLACES, silent=st.booleans())
    def detach(self, place, silent):
        a = self.pick(place)
        tensor = a.tensor.data if silent else a.tensor.detach()
        self.keep(Value(tensor, a.memory, a.places, None, silent=silent))

    # --- views

    def view_of(self, a, tensor, places, parent=None):
        """Notes a view: `places` are those of `a` that it has."""
        base = a.base or a
        record = None
        if a.record is not None:
            inner = numpy.arange(a.places.size).reshape(a.shape)
            chosen = places(inner)
            record = Record(self.tick(), [(a.record, lambda g: put(g, chosen, a.shape))])
        created = Value(tensor, a.memory, places(a.places), record, base, a.silent)
        self.keep(created)

    @precondition(lambda self: self.values)
    @rule(place=PLACES, kind=st.integers(0, 13), dim=st.integers(0, 2), other=st.integers(0, 2), at=st.integers(0, 5))
    def view(self, place, kind, dim, other, at):
        a = self.pick(place)
        t, shape = a.tensor, a.shape
        if not shape:
            self.view_of(a, t.unsqueeze(0), lambda p: p[None])
            return
        d, e = dim % len(shape), other % len(shape)
        i = at % shape[d]
        cut = [slice(None)] * len(shape)
        if kind == 0:
            cut[d] = i
            self.view_of(a, t.select(d, i), lambda p: p[tuple(cut)])
        elif kind == 1:
            cut[d] = slice(i, None)
            self.view_of(a, t.narrow(d, i, shape[d] - i), lambda p: p[tuple(cut)])
        elif kind == 2:
            self.view_of(a, t[..., ::2], lambda p: p[..., ::2])
        elif kind == 3:
            self.view_of(a, t.transpose(d, e), lambda p: p.swapaxes(d, e))
        elif kind == 4 and t.is_contiguous():
            self.view_of(a, t.view(-1), lambda p: p.reshape(-1))
        elif kind == 5 and len(shape) > 1:
            self.view_of(a, t.diagonal(), lambda p: numpy.diagonal(p, 0, 0, 1))
        elif kind == 6:
            self.view_of(a, t.unsqueeze(d), lambda p: numpy.expand_dims(p, d))
        elif kind == 7:
            self.view_of(a, t.squeeze(), lambda p: p.squeeze())
        elif kind == 8:
            wide = (2, *shape)
            self.view_of(a, t.expand(wide), lambda p: numpy.broadcast_to(p, wide))
        elif kind == 9:
            for number, part in enumerate(t.unbind(d)):
                cut[d] = number
                chosen = tuple(cut)
                self.view_of(a, part, lambda p, c=chosen: p[c])
        elif kind == 10:
            start = 0
            for part in t.split(2, d):
                cut[d] = slice(start, start + part.shape[d])
                start += part.shape[d]
                chosen = tuple(cut)
                self.view_of(a, part, lambda p, c=chosen: p[c])
        elif kind == 11 and t.is_contiguous() and a.places.size >= 4:
            self.view_of(
                a,
                t.as_strided((2, 2), (2, 1), t.storage_offset()),
                lambda p: p.reshape(-1)[numpy.array([[0, 1], [2, 3]])],
            )
        elif kind == 12 and shape[d] > 1:
            self.view_of(a, t.unfold(d, 2, 1), lambda p: numpy.lib.stride_tricks.sliding_window_view(p, 2, d))
        elif kind == 13:
            order = tuple((d + k) % len(shape) for k in range(len(shape)))
            self.view_of(a, t.permute(order), lambda p: p.transpose(order))

    # --- writes

    def refused(self, a, recording, wants):
        """Whether a write into `a` must be refused: a leaf that requires grad, or a view of one."""
        if not recording or not wants:
            return False
        base = a.base or a
        return (a.record is not None and a.record.leaf) or (base.record is not None and base.record.leaf)

    def repeats(self, a):
        return a.places.size != numpy.unique(a.places).size

    def partly(self, a, b):
        """Whether `b` has some of the memory that a write into `a` changes, and is not `a` itself."""
        if a.memory is not b.memory or (a.shape == b.shape and numpy.array_equal(a.places, b.places)):
            return False
        return bool(numpy.intersect1d(a.places, b.places).size)

    def write(self, a, numbers, record, recording, wants, act, same=False):
        """Does `act` and notes what was written; `record` is that of the new numbers (None: constants, `same` for all)."""
        stretched = [step == 0 and size > 1 for size, step in zip(a.tensor.shape, a.tensor.stride(), strict=True)]
        if self.repeats(a) and not any(stretched):
            return  # windows: which of two values stays is nobody's promise
        if self.repeats(a) and not same:
            with (
                dg.set_grad_enabled(recording),
                pytest.raises(RuntimeError, match="single memory location|leaf Variable"),
            ):
                act()
            return
        if self.refused(a, recording, wants):
            with dg.set_grad_enabled(recording), pytest.raises(InplaceError, match="leaf Variable that requires grad"):
                act()
            return
        with dg.set_grad_enabled(recording):
            act()
        a.memory.values[a.places] = numpy.broadcast_to(numbers, a.shape)
        time = self.tick()
        kept = a.memory.unwatched if a.silent else a.memory.writes
        kept.append((time, frozenset(a.places.reshape(-1).tolist())))
        if recording and wants:
            self.rebase(a, record)

    def rebase(self, a, record):
        base = a.base or a
        if base is a:
            a.record = Record(self.tick(), [] if record is None else [(record, lambda g: g)])
        else:
            inside = self.inside(base, a)
            old = base.record
            created = Record(self.tick())
            shape = base.shape
            if old is not None:
                hole = numpy.ones(base.places.size)
                hole[inside.reshape(-1)] = 0
                created.operands.append((old, lambda g: g * hole.reshape(shape)))
            if record is not None:
                created.operands.append((record, lambda g, written=inside: g.reshape(-1)[written]))
            base.record = created
        for view in base.views:
            inside = self.inside(base, view)
            shape = base.shape
            view.record = Record(
                self.tick(), [(base.record, lambda g, inside=inside, shape=shape: put(g, inside, shape))]
            )

    def inside(self, base, view):
        """Where the elements of `view` are among those of `base`."""
        where = {int(place): number for number, place in enumerate(base.places.reshape(-1))}
        return numpy.vectorize(where.__getitem__, otypes=[int])(view.places) if view.places.size else view.places

    @precondition(lambda self: self.values)
    @rule(place=PLACES, name=st.sampled_from(sorted(UNARY)), recording=st.sampled_from([True, True, True, False]))
    def unary_in_place(self, place, name, recording):
        a = self.pick(place)
        numbers, record, _ = self.unary_record(name, a, recording)
        if record is not None:
            record.saved.clear()  # the old values are kept apart
        wants = a.record is not None
        self.write(a, numbers, record, recording, wants, lambda: getattr(a.tensor, f"{name}_")())

    @precondition(lambda self: self.values)
    @rule(
        one=PLACES,
        two=PLACES,
        name=st.sampled_from(sorted(BINARY)),
        recording=st.sampled_from([True, True, True, False]),
    )
    def binary_in_place(self, one, two, name, recording):
        a, b = self.pick(one), self.pick(two)
        try:
            fits = numpy.broadcast_shapes(a.shape, b.shape) == a.shape
        except ValueError:
            return
        if not fits or self.partly(a, b):
            return
        numbers, record = self.binary_record(name, a, b, recording)
        if record is not None:
            record.saved = [element for element in record.saved if element[0] is not a.memory]
        wants = a.record is not None or b.record is not None
        self.write(a, numbers, record, recording, wants, lambda: getattr(a.tensor, f"{name}_")(b.tensor))

    @precondition(lambda self: self.values)
    @rule(one=PLACES, two=PLACES, item=st.booleans(), recording=st.sampled_from([True, True, True, False]))
    def copy_in_place(self, one, two, item, recording):
        a, b = self.pick(one), self.pick(two)
        try:
            fits = numpy.broadcast_shapes(a.shape, b.shape) == a.shape
        except ValueError:
            return
        if not fits or self.partly(a, b):
            return
        shape = b.shape
        record = None
        if recording and b.record is not None:
            record = Record(self.tick(), [(b.record, lambda g: to_shape(g, shape))])
        wants = a.record is not None or b.record is not None

        def act():
            if item:
                a.tensor[...] = b.tensor
            else:
                a.tensor.copy_(b.tensor)

        self.write(a, b.numbers.copy(), record, recording, wants, act)

    @precondition(lambda self: self.values)
    @rule(place=PLACES, number=NUMBERS, kind=st.integers(0, 4), recording=st.sampled_from([True, True, True, False]))
    def number_in_place(self, place, number, kind, recording):
        a = self.pick(place)
        wants = a.record is not None
        if kind == 0:
            self.write(a, numpy.full(a.shape, number), None, recording, wants, lambda: a.tensor.fill_(number), True)
        elif kind == 1:
            self.write(a, numpy.zeros(a.shape), None, recording, wants, lambda: a.tensor.zero_(), True)
        elif kind == 2:
            numbers, record = self.binary_record("mul", a, None, recording, number)
            self.write(a, numbers, record, recording, wants, lambda: a.tensor.mul_(number))
        elif kind == 3:
            numbers, record = self.binary_record("add", a, None, recording, number)
            self.write(a, numbers, record, recording, wants, lambda: a.tensor.add_(number))
        elif a.shape and not self.repeats(a):
            mask = numpy.arange(a.places.size).reshape(a.shape) % 2 == 0
            numbers = numpy.where(mask, number, a.numbers)
            record = None
            if recording and wants:
                record = Record(self.tick(), [(a.record, lambda g: numpy.where(mask, 0, g))])
            chosen = dg.tensor(mask)
            self.write(a, numbers, record, recording, wants, lambda: a.tensor.__setitem__(chosen, number))

    # --- hooks and backward

    @precondition(lambda self: self.values)
    @rule(place=PLACES, factor=st.sampled_from([2.0, -0.5]))
    def hook(self, place, factor):
        a = self.pick(place)
        if a.record is None:
            with pytest.raises(RuntimeError, match="doesn't require gradient"):
                a.tensor.register_hook(lambda g: g)
            return
        a.tensor.register_hook(lambda g: g * factor)
        a.record.factor *= factor

    @precondition(lambda self: self.values and self.leaves)
    @rule(place=PLACES, way=st.sampled_from(["grad", "graph", "backward"]), seed=st.integers(0, 9))
    def gradients(self, place, way, seed):
        a = self.pick(place)
        if a.record is None or not a.places.size:
            return
        weights = numpy.random.default_rng(seed).uniform(0.5, 1.5, a.shape)
        reference, must, may, unknown = self.model_gradients(a.record, weights, way != "backward")
        loss = (a.tensor * dg.tensor(weights)).sum()
        leaves = [element.tensor for element in self.leaves]
        try:
            if way == "backward":
                for leaf in leaves:
                    leaf.grad = None
                loss.backward(retain_graph=True)
                result = [element.grad for element in leaves]
                for leaf in leaves:
                    leaf.grad = None
            else:
                result = dg.autograd.grad(
                    loss, leaves, retain_graph=True, create_graph=way == "graph", allow_unused=True
                )
        except InplaceError:
            for leaf in leaves:
                leaf.grad = None
            assert may, "backward refused although nothing that it needs was overwritten"
            return
        assert not must, "backward did not notice that what it needs was overwritten"
        for leaf, g in zip(self.leaves, result, strict=True) if not unknown else ():
            expected = reference.get(leaf.record)
            if g is None:
                assert expected is None or not expected.any()
            else:
                numpy.testing.assert_allclose(
                    g.detach().numpy(), numpy.zeros(leaf.shape) if expected is None else expected, rtol=1e-9, atol=1e-10
                )

    def model_gradients(self, start, weights, only_ways=False):
        """Gradients by record, whether backward must or may refuse, and whether something needed was written unwatched.

        With `only_ways`, nothing is needed of records from which no way leads to a leaf.
        """
        order, seen, pending = [], set(), [start]
        while pending:
            record = pending.pop()
            if id(record) in seen:
                continue
            seen.add(id(record))
            order.append(record)
            pending += [operand for operand, _ in record.operands]
        grads = {start: numpy.asarray(weights)}
        must = may = unknown = False
        leads = {id(leaf.record) for leaf in self.leaves}
        for record in sorted(order, key=lambda one: one.time):
            if any(id(operand) in leads for operand, _ in record.operands):
                leads.add(id(record))
        for record in sorted(order, key=lambda one: one.time, reverse=True):
            g = grads.get(record)
            if g is None:
                continue
            g = grads[record] = g * record.factor
            for memory, places, time in record.saved:
                kept = set(places.reshape(-1).tolist())
                unknown = unknown or any(when > time and kept & written for when, written in memory.unwatched)
                for when, written in memory.writes:
                    if when > time and kept and written:
                        must = must or (bool(kept & written) and (not only_ways or id(record) in leads))
                        may = may or (min(kept) <= max(written) and min(written) <= max(kept))
            for operand, rule_of in record.operands:
                part = rule_of(g)
                grads[operand] = part if operand not in grads else grads[operand] + part
        return grads, must, may or must, unknown

    @invariant()
    def values_agree(self):
        for value in self.values:
            result, expected = value.tensor.array, value.numbers
            assert result.shape == expected.shape and (numpy.abs(result - expected) <= 1e-12).all()
            assert value.tensor.requires_grad == (value.record is not None)


COUNT = int(os.environ.get("DYNOGRAD_STATE_MACHINE", "200"))
TestPrograms = Programs.TestCase
TestPrograms.settings = settings(
    max_examples=COUNT,
    stateful_step_count=40,
    deadline=None,
    derandomize=COUNT <= 200,
    database=None,
    suppress_health_check=list(HealthCheck),
)
