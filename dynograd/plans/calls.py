"""What a plan is made of: the calls that a recorded step has computed, in order, on memory that stays where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynograd.arrays import Array, ndarray
from dynograd.arrays.buffers import SMALLEST
from dynograd.kernels.build.launches import Launch
from dynograd.kernels.layout.digests_cpu import digest
from dynograd.plans.gpu.array_kinds import bytes_alike, own_copy
from dynograd.plans.memory import is_part_of_any

__all__ = ["Call", "Digest", "holds", "is_unchanged", "result_of"]


@dataclass(slots=True)
class Call:
    """One computation of a recorded step.

    Every array lies in memory that keeps its address as long as the plan lives, and an array of another call's memory is that memory:
    `outputs` are the arrays that the recorded step has made, `inputs` those that it read.

    Args:
        kind: "op" (an op's forward), "rule" (the backward rule of an op), "sum" (of two gradients), "copy", "accumulate" (into a
            gradient that is there), "write" (into the memory of a tensor from outside), "optimizer".
        name: of the op, or of what else it is.
        op: the row of the table, of an op or a rule.
        inputs: what it reads: of an op its operands in the order of `op.array_names` (None for one that is left out, a list's arrays one
            after the other); of a rule the incoming gradient, then what the node saved, in the order of `node.saved_names`; of a sum the two.
        outputs: what it makes; of a rule one for each edge, None where no gradient is wanted.
        statics: the op's other arguments, in the order of its signature.
        compute: makes the outputs anew, as new arrays in the order of `outputs`, from what the inputs' memory holds now.
        launches: the compiled kernels that ran in it while it was recorded, with their arguments.
        node: of a rule, the node with what it saved.
        line: of the user's program.
        in_place: it has written into memory that it reads, and gives that.
        saved: of an op, what else its node has saved: arrays that are neither operands nor results.
        results: what the outputs were when it was recorded, until the plan has been compared with them, and behind them those of `saved`:
            copies, or a `Digest` of a large array.
        first: of one that computes again what another one has computed: that one.
    """

    kind: str
    name: str
    op: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    statics: tuple[Any, ...]
    compute: Callable[[], Sequence[Array | None]]
    launches: list[Launch] = field(default_factory=list)
    node: Any = None
    line: str = ""
    in_place: bool = False
    saved: tuple[Any, ...] = ()
    results: tuple[Any, ...] = ()
    first: Any = None

    def made(self) -> list[Array]:
        """Its outputs that are no parts of what it reads."""
        return [array for array in self.outputs if array is not None and not is_part_of_any(array, self.inputs)]

    def note_results(self) -> None:
        """Views of operands are none. What it has written in place cannot be computed again of what it has read: numbers are kept."""
        own = [
            None if type(array) is ndarray and not self.in_place and is_part_of_any(array, self.inputs) else array
            for array in self.outputs
        ]
        self.results = tuple([result_of(array, self.in_place) for array in (*own, *self.saved)])


class Digest:
    """The bits of a large array, in its place."""

    __slots__ = ("bits",)

    def __init__(self, array: Any) -> None:
        self.bits = digest(array)


def result_of(array: Any, has_numbers: bool = False) -> Any:
    """What is kept of an array to compare others with: the numbers of a small one, or where they are asked for, else a digest."""
    if array is None or has_numbers or type(array) is not ndarray or array.nbytes < SMALLEST:
        return None if array is None else own_copy(array)
    return Digest(array)


def is_unchanged(array: Any, result: Any) -> bool:
    """Whether an array has the bytes that it had."""
    return holds(array, result) if type(result) is Digest else bytes_alike(array, result)


def holds(array: Any, digest: Digest) -> bool:
    """Whether an array that is laid out alike has the same bits."""
    return Digest(array).bits == digest.bits
