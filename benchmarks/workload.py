"""What a row is: a function that takes a library under the name `torch` and returns a step to time and a checksum.

A row draws its numbers from NumPy (`normal`, `fill`), never from the library, so that both libraries start from the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import cycle

import numpy

__all__ = [
    "ROWS",
    "TOLERANCE",
    "Row",
    "Workload",
    "begin_row",
    "compiled",
    "fill",
    "fingerprint",
    "generator",
    "normal",
    "rest_compiled",
    "row",
    "train",
    "train_on",
    "use_compiler",
]

FORWARD_BUDGET = 0.9
"""Microseconds over NumPy's own time that a small op may take (the architecture's budget)."""
BACKWARD_BUDGET = 2.2
"""The same, forward and backward together."""

CHECKED_STEPS = 3

TOLERANCE = 1e-3
"""How far checksums may lie apart, as a share of the value's root mean square: float32, summed in another order."""


@dataclass(frozen=True)
class Workload:
    """A step that is ready to run."""

    step: Callable[[], object]
    checksum: Callable[[], list[float]]
    """Called once, before any timing; it may run steps. Both libraries must return nearly the same numbers."""
    cycle: int = 1
    """How many steps make a round trip through the row's batches; timed counts are multiples of it."""
    moved: int = 0
    """Bytes that a step must read and write, for rows that are compared with the machine's limits."""
    flops: int = 0
    """Multiplications and additions that its matrix products and convolutions take."""


@dataclass(frozen=True)
class Row:
    """A line of the table. `build(library)` prepares it; `floor()` prepares the same arithmetic in plain NumPy."""

    name: str
    group: str
    build: Callable[[object], Workload]
    operations: int = 1
    """Ops in a step: what the time over NumPy is divided by."""
    floor: Callable[[], Workload] | None = None
    budget: float | None = None
    compiles: bool | str = True
    """Whether the sides whose models go through `compile` take part; the name of a library: only that library's."""
    tolerance: float = TOLERANCE
    small: Callable[[object], Workload] | None = None
    """The same at a size for the tests, where `build` takes long."""

    def takes(self, library: str, compiles: bool, everywhere: bool = False) -> bool:
        """Whether a library is measured here, as it is or compiled; `everywhere`: in every training step."""
        return (
            not compiles or self.compiles in (True, library) or (everywhere and self.group in ("training", "batches"))
        )


ROWS: dict[str, Row] = {}


def row(
    name: str,
    *,
    group: str = "training",
    operations: int = 1,
    floor=None,
    budget: float | None = None,
    compiles: bool | str = True,
    tolerance: float = TOLERANCE,
    small=None,
):
    """Registers the decorated builder as a row. Overhead rows are never compiled: what they show is the cost of a call."""

    def register(build):
        if name in ROWS:
            raise ValueError(f"row: {name!r} is registered already. Give the second one another name.")
        ROWS[name] = Row(
            name, group, build, operations, floor, budget, group != "overhead" and compiles, tolerance, small
        )
        return build

    return register


def generator(seed: int = 0) -> numpy.random.Generator:
    """A stream of its own for each row: adding a row leaves the numbers of the others alone."""
    return numpy.random.default_rng(seed)


def normal(random: numpy.random.Generator, *shape: int) -> numpy.ndarray:
    """Standard normal float32 numbers."""
    return random.standard_normal(shape, dtype=numpy.float32)


def fill(torch, module, seed: int = 0) -> None:
    """Gives every parameter, in the order of names, uniform numbers in ±1/sqrt(its size for one output)."""
    random = generator(seed)
    with torch.no_grad():
        for _, parameter in sorted(module.named_parameters()):
            shape = tuple(parameter.shape)
            bound = 1 / numpy.sqrt(numpy.prod(shape[1:] or shape))
            values = random.uniform(-bound, bound, shape).astype(numpy.float32)
            parameter.copy_(torch.from_numpy(values))


def fingerprint(*values) -> list[float]:
    """Two numbers for each tensor or array: its root mean square, and a mean with weights that tell positions apart."""
    numbers = []
    for value in values:
        array = value if isinstance(value, numpy.ndarray | numpy.generic | float) else value.detach().numpy()
        flat = numpy.asarray(array, dtype=numpy.float64).ravel()
        weights = numpy.cos(numpy.arange(flat.size))
        numbers += [float(numpy.sqrt(numpy.mean(flat * flat))), float(numpy.mean(flat * weights))]
    return numbers


def train(step: Callable[[], object], parameters: Iterable, cycle: int = 1) -> Workload:
    """The workload of a training step that returns its loss.

    Its checksum is the loss of the first steps and the gradients after them. The parameters themselves are left out: Adam
    turns a gradient that is zero but for rounding into a full step.
    """
    return _workload(_through(step, _whole) if _whole else rest_compiled(step), parameters, cycle)


def _workload(step: Callable[[], object], parameters: Iterable, cycle: int) -> Workload:
    kept = list(parameters)

    def checksum():
        losses = [step() for _ in range(CHECKED_STEPS)]
        return fingerprint(*losses, *[parameter.grad for parameter in kept])

    return Workload(step, checksum, cycle)


def train_on(batches, loss_of: Callable, optimizer, parameters: Iterable) -> Workload:
    """The usual training step, on one batch after the other: zero_grad, `loss_of(*batch)`, backward, the optimizer's step."""
    batches = list(batches)
    following = cycle(batches)
    loss_of = loss_of if _whole else compiled(loss_of)

    def step_on(*batch):
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        optimizer.step()
        return loss

    step_on = _through(step_on, _whole) if _whole else step_on
    return _workload(lambda: step_on(*next(following)), parameters, len(batches))


# ---------------------------------------------------------------- the side that compiles

_compilers: list[Callable] = []
_whole: list[Callable] = []  # the compiler, if it takes whole steps
_rest: list[Callable] = []  # the compiler, if it takes steps of which it got no part
_parts: list[Callable] = []  # what it got of the row that is built


def use_compiler(compiler: Callable, whole_steps: bool, everywhere: bool = False) -> None:
    """From now on this process passes models through `compiler`, or, with `whole_steps`, training steps with their backward and optimizer.

    `everywhere`: steps of rows that pass nothing, too.
    """
    _compilers[:] = [compiler]
    _whole[:] = [compiler] * whole_steps
    _rest[:] = [compiler] * everywhere


def begin_row() -> None:
    """Nothing of the row that is built next has been compiled."""
    _parts.clear()


def rest_compiled(step: Callable) -> Callable:
    """A row's step, compiled if compilers take every row and have got no part of this one."""
    return _through(step, _rest) if _rest and not _parts else step


def _through(function: Callable, compilers: list[Callable]) -> Callable:
    _parts.append(function)
    return compilers[0](function)


def compiled(function: Callable, alone: bool = False) -> Callable:
    """What a row calls for its model's output or its loss: the function itself, or on a side that compiles its compiled form.

    `alone` says that it is no part of a step which a compiler takes as a whole.
    """
    return _through(function, _compilers) if _compilers and (alone or not _whole) else function
