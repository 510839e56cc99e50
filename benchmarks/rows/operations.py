"""Single small ops, each beside the same thing in NumPy."""

from __future__ import annotations

import numpy

from benchmarks.workload import FORWARD_BUDGET, Workload, fingerprint, generator, normal, row

SHAPE = (8, 64)
POSITIONS = numpy.array([3, 1, 4, 1, 5], dtype=numpy.int64)


def operands():
    random = generator(1)
    return normal(random, *SHAPE), normal(random, *SHAPE)


def small(name, *, budget=FORWARD_BUDGET):
    """Registers `build(library, x, y, positions)`, a row that returns its step; `library` is NumPy for the floor.

    The step must read the same in both; where the names differ, the row asks `library is numpy`.
    """

    def register(build):
        def tensors(torch):
            x, y = [torch.from_numpy(array) for array in operands()]
            return checked(build(torch, x, y, torch.from_numpy(POSITIONS.copy())))

        def arrays():
            return checked(build(numpy, *operands(), POSITIONS.copy()))

        row(name, group="overhead", floor=arrays, budget=budget)(tensors)
        return build

    return register


def checked(step):
    return Workload(step, lambda: fingerprint(step()))


@small("add")
def add(library, x, y, positions):
    return lambda: x + y


@small("add.grad")
def add_grad(library, x, y, positions):
    if library is not numpy:
        x.requires_grad_()
    return lambda: x + y


@small("add.backward", budget=None)
def add_backward(library, x, y, positions):
    """One op carries the whole cost of a call of `backward`; the budget for an op is kept or missed by the chains."""
    if library is numpy:
        return lambda: x + y
    g = library.from_numpy(numpy.ones(SHAPE, dtype=numpy.float32))
    x.requires_grad_()

    def step():
        x.grad = None
        z = x + y
        z.backward(g)
        return z

    return step


@small("add.inplace")
def add_inplace(library, x, y, positions):
    """The operand is zero, so that the sum stays what it is however often it runs."""
    y[...] = 0.0

    def step():
        nonlocal x
        x += y
        return x

    return step


@small("mul.scalar")
def mul_scalar(library, x, y, positions):
    return lambda: x * 2.0


@small("index.int")
def index_int(library, x, y, positions):
    return lambda: x[3]


@small("index.slice")
def index_slice(library, x, y, positions):
    return lambda: x[2:6]


@small("index.slices")
def index_slices(library, x, y, positions):
    return lambda: x[:, 8:40]


@small("index.tensor")
def index_tensor(library, x, y, positions):
    return lambda: x[positions]


@small("index.assign_int")
def index_assign_int(library, x, y, positions):
    def step():
        x[3] = 1.0
        return x

    return step


@small("index.assign_slice")
def index_assign_slice(library, x, y, positions):
    values = y[2:6]

    def step():
        x[2:6] = values
        return x

    return step


@small("view")
def view(library, x, y, positions):
    if library is numpy:
        return lambda: x.reshape(16, 32)
    return lambda: x.view(16, 32)


@small("transpose")
def transpose(library, x, y, positions):
    if library is numpy:
        return lambda: x.swapaxes(0, 1)
    return lambda: x.transpose(0, 1)


VIEWS = {
    "reshape": lambda x: x.reshape(-1),
    "flatten": lambda x: x.flatten(),
    "T": lambda x: x.T,
    "permute": lambda x: x.permute(1, 0),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "none": lambda x: x[None],
    "select": lambda x: x.select(1, 2),
    "narrow": lambda x: x.narrow(1, 0, 4),
    "expand": lambda x: x[:1].expand(8, 64),
    "diagonal": lambda x: x.diagonal(),
    "as_strided": lambda x: x.as_strided((4, 4), (2, 1)),
    "chunk": lambda x: x.chunk(4, 1),
    "split": lambda x: x.split(16, 1),
    "unbind": lambda x: x.unbind(0),
}


def _view_row(name, of):
    @row(f"view.{name}", group="overhead")
    def build(torch):
        x = torch.from_numpy(operands()[0])
        result = of(x)
        first = result[0] if isinstance(result, tuple) else result
        return Workload(lambda: of(x), lambda: fingerprint(first.clone()))


for _name, _of in VIEWS.items():
    _view_row(_name, _of)


@row("index_select", group="overhead")
def index_select(torch):
    x, positions = torch.from_numpy(operands()[0]), torch.from_numpy(POSITIONS.copy())
    return checked(lambda: x.index_select(0, positions))


@row("gather", group="overhead")
def gather(torch):
    x, places = torch.from_numpy(operands()[0]), torch.zeros(2, 64, dtype=torch.int64)
    return checked(lambda: x.gather(0, places))


@row("index.assign_mask", group="overhead")
def index_assign_mask(torch):
    x = torch.from_numpy(operands()[0])
    mask = x > 0

    def step():
        x[mask] = 0.0
        return x

    return checked(step)


@small("sum")
def sum_all(library, x, y, positions):
    return lambda: x.sum()


@small("sum.dim")
def sum_dim(library, x, y, positions):
    return lambda: x.sum(1)


@small("cat")
def cat(library, x, y, positions):
    if library is numpy:
        return lambda: numpy.concatenate([x, y], 1)
    return lambda: library.cat([x, y], 1)


@small("stack")
def stack(library, x, y, positions):
    return lambda: library.stack([x, y])


@small("matmul")
def matmul(library, x, y, positions):
    w = y.T
    return lambda: x @ w


@small("item", budget=None)
def item(library, x, y, positions):
    z = x.sum()
    return lambda: z.item()
