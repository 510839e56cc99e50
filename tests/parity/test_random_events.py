"""Random programs of what may happen between forward and backward, beside torch: writes over whole tensors and views, kept gradients,
hooks, leaves that stop or start to want gradients, `.data`, `.grad`, copies, gradients asked for by name.

A program is a seed. After each program every gradient (of leaves and of those that keep theirs), every answer of `autograd.grad` and
whether an error was raised are compared; programs that torch refuses, since a value that it
keeps for backward was overwritten, are left out: here other values are kept. `DYNOGRAD_RANDOM_EVENTS=5000` runs so many programs (400 by default).
"""

import copy
import os
import random

import numpy
import pytest
import torch

import dynograd
from dynograd.errors import InplaceError

COUNT = int(os.environ.get("DYNOGRAD_RANDOM_EVENTS", "400"))
SIZES = [(4,), (2, 3), (3, 2), (2, 2, 2), ()]


class Program:
    """One random program, run with one library; `log` is what the two libraries must agree in."""

    def __init__(self, library, seed):
        self.t, self.choose, self.numbers = library, random.Random(seed), numpy.random.default_rng(seed)
        self.leaves = [self.leaf() for _ in range(self.choose.randint(2, 3))]
        self.values = []
        self.log = []
        self.overwritten = False  # whether backward was refused a value that had been written over

    def constant(self, shape):
        return self.t.tensor(self.numbers.uniform(-1, 1, shape).round(2).tolist(), dtype=self.t.float64).reshape(shape)

    def leaf(self):
        size = self.choose.choice(SIZES)
        if self.choose.random() < 0.5:
            return self.t.nn.Parameter(self.constant(size))
        return self.constant(size).requires_grad_()

    def any(self):
        """A value that is no leaf from the start: views of leaves whose `.data` is exchanged later bring torch down."""
        if not self.values:
            self.values.append(self.leaves[0] * 1.0)
        return self.choose.choice(self.values)

    def operand(self):
        return self.choose.choice(self.leaves + self.values)

    def no_view(self):
        """For hooks: registering one on a view whose base was written brings torch 2.13.0 down (a segmentation fault)."""
        return self.choose.choice([value for value in self.leaves + self.values if value._base is None])

    def run(self):
        for _ in range(self.choose.randint(4, 16)):
            event = self.choose.choice(EVENTS)
            try:
                event(self)
            except (RuntimeError, TypeError, IndexError) as error:
                self.refused(event.__name__, error)
                if event is partial_backward:
                    return self.log
        try:
            ends = [value for value in self.values[-3:] if value.requires_grad] or [(self.leaves[0] * 1.0)]
            sum(end.sum() for end in ends).backward()
        except (RuntimeError, TypeError, IndexError) as error:
            self.refused("backward", error)
            return self.log  # which leaves got gradients before the error is nobody's promise
        for value in [*self.leaves, *self.values]:
            self.log.append((value.requires_grad, value.is_leaf, value.detach().tolist()))
            kept = value.grad if value.is_leaf or value.retains_grad else None
            self.log.append(None if kept is None else (tuple(kept.shape), kept.tolist()))
        return self.log

    def refused(self, event, error):
        self.log.append(f"{event} refused")
        self.overwritten |= isinstance(error, InplaceError) or "modified by an inplace operation" in str(error)


# ---------------------------------------------------------------- events


def unary(p):
    a = p.operand()
    t = p.t
    p.values.append(
        p.choose.choice(
            [lambda: a * 2, lambda: a * a, lambda: t.sin(a), lambda: t.exp(a), lambda: a + 1, lambda: a.clone()]
        )()
    )


def binary(p):
    a = p.operand()
    same = [value for value in p.leaves + p.values if value.shape == a.shape]
    b = p.choose.choice(same)
    p.values.append(p.choose.choice([lambda: a * b, lambda: a + b, lambda: p.t.where(a > 0, a, b)])())


def view(p):
    a = p.any()
    if a.ndim:
        p.values.append(
            p.choose.choice(
                [
                    lambda: a[0],
                    lambda: a.reshape(-1),
                    lambda: a.narrow(0, 0, 1),
                    lambda: a[..., :1],
                    lambda: a.t() if a.ndim == 2 else a[1:],
                ]
            )()
        )


def detached(p):
    p.values.append(p.operand().detach())


def detach_in_place(p):
    """Of what has no views: what those have to do with a base that was detached since differs."""
    p.values.append((p.operand() * 2).detach_())


def overwrite(p):
    a = p.any()
    b = p.constant(tuple(a.shape))
    c = p.operand()
    number = float(p.numbers.integers(-3, 4))
    p.choose.choice(
        [
            lambda: a.zero_(),
            lambda: a.fill_(number),
            lambda: a.copy_(b),
            lambda: a.copy_(c) if c.shape == a.shape else None,
            lambda: a.__setitem__(Ellipsis, number),
            lambda: a.__setitem__(0, number) if a.ndim else None,
            lambda: a.masked_fill_(b > -2, number),
            lambda: a.masked_fill_(b > 0, number),
        ]
    )()


def change(p):
    a = p.any()
    b = p.constant(tuple(a.shape))
    p.choose.choice(
        [lambda: a.mul_(3), lambda: a.add_(b), lambda: a.exp_(), lambda: a.mul_(a.detach() + 1), lambda: a.neg_()]
    )()


def keep(p):
    """Of what is no view: a gradient kept of a view stays that of its old value in torch when its base is written."""
    p.choose.choice([value for value in p.values if value._base is None] or p.leaves).retain_grad()


def hook(p):
    factor = float(p.numbers.integers(2, 5))
    kind = p.choose.random()

    def scale(g):
        return g * factor if kind < 0.8 else None

    handle = p.no_view().register_hook(scale)
    if kind < 0.15:
        handle.remove()


def wrong_hook(p):
    answer = p.choose.choice([lambda g: g.float(), lambda g: g.sum(), lambda g: g.reshape(-1), lambda g: 3.0])
    try:
        p.no_view().register_hook(answer)
    except RuntimeError:
        p.log.append("hook refused")


def accumulated(p):
    leaf = p.choose.choice(p.leaves)
    factor = float(p.numbers.integers(2, 5))

    def scale(parameter):
        parameter.grad = parameter.grad * factor

    leaf.register_post_accumulate_grad_hook(scale)


def flip(p):
    a = p.choose.choice(p.leaves)
    a.requires_grad_(p.choose.random() < 0.4)


def attribute(p):
    a = p.operand()
    a.requires_grad = p.choose.random() < 0.4


def data(p):
    """Before the first use: what is kept of a leaf for backward changes with its `.data` in torch, never here."""
    leaf = p.leaf()
    leaf.data = p.constant(p.choose.choice(SIZES))
    p.leaves.append(leaf)


def gradient(p):
    a = p.choose.choice(p.leaves)
    a.grad = p.choose.choice([None, p.constant(tuple(a.shape))])


def without_grad(p):
    with p.t.no_grad():
        a = p.operand()
        p.choose.choice([lambda: a.mul_(2), lambda: p.values.append(a * 2), lambda: a.zero_()])()


def step(p):
    leaf = p.choose.choice(p.leaves)
    if leaf.grad is not None:
        with p.t.no_grad():
            leaf.sub_(leaf.grad)


def partial_backward(p):
    a = p.any()
    if a.requires_grad:
        a.sum().backward(retain_graph=p.choose.random() < 0.8)


def ask(p):
    """For one input: of several, torch leaves out the hooks of one that it passes on the way to another."""
    end, input = p.any(), p.operand()
    unused = p.choose.random() < 0.7
    zeros = p.choose.random() < 0.2
    (g,) = p.t.autograd.grad(end.sum(), input, retain_graph=True, allow_unused=unused or None, materialize_grads=zeros)
    p.log.append(None if g is None else g.tolist())


def deep_copy(p):
    leaf = copy.deepcopy(p.choose.choice(p.leaves))
    p.log.append(None if leaf.grad is None else leaf.grad.tolist())
    p.leaves.append(leaf)


def deep_copy_of_value(p):
    p.values.append(copy.deepcopy(p.any()))


EVENTS = [
    *[unary, binary, view, overwrite, change] * 3,
    *[keep, hook, ask] * 2,
    *[detached, detach_in_place, wrong_hook, accumulated, flip, attribute, data, gradient, without_grad],
    *[step, partial_backward, deep_copy, deep_copy_of_value],
]


def near(a, b):
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(near(x, y) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        return numpy.isclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)
    return a == b


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(0, COUNT, 50))
def test_random_events(start):
    wrong = []
    for seed in range(start, min(start + 50, COUNT)):
        ours, theirs = Program(dynograd, seed), Program(torch, seed)
        if not near(ours.run(), theirs.run()) and not theirs.overwritten:
            wrong.append(seed)
    assert not wrong, f"programs {wrong} differ from torch's"
