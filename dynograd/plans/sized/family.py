"""Ways through a function at all sizes between recorded ones, which one walk goes along."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dynograd.arrays import ndarray
from dynograd.plans.sized.programs import laid_out
from dynograd.plans.sized.ways import Way
from dynograd.tensor.tensor import Tensor

__all__ = ["Family"]

_MOST_WAYS = 4


class Family:
    """Ways through a function at all sizes between recorded ones. `walk` goes along them, at the sizes that `resize` has set.

    Args:
        way: the first one.
        names: of its calls.
        form: how the arguments are nested.
        fetched: sizes of tensors that the step fetches itself, behind those of the arguments: (number of the tensor, dim).
    """

    def __init__(self, way: Way, names: Any, form: tuple, fetched: Sequence[tuple[int, int]]) -> None:
        self.ways, self.names, self.form, self.fetched = [way], [names], form, list(fetched)
        self.walk, self.program = way.walk, way.program
        self.walk.family = self
        self.missed = self.taken = 0
        self.looked = 0  # how often it was missed when more steps were looked for last
        self.built = 0  # so many recorded steps were there when it was made
        self.tried: dict[Any, list[Any]] = {}  # programs that another way was looked for among, by their calls

    def is_preferred(self) -> bool:
        """Whether it is gone along also at sizes that are recorded."""
        return bool(self.fetched) or len(self.ways) > 1

    def complete(self, numbers: tuple[int, ...]) -> tuple[int, ...] | None:
        """The sizes with those of the arguments, which are known before the step begins, and for others what they may be; None: there are none."""
        program, count = self.program, len(numbers)
        numbers = program.sizes.without_idle(numbers)
        for known in (program.at, *program.sizes.samples):
            whole = (*numbers, *known[count:])
            if whole in program.states or program.sizes.fits(whole):
                return whole
            if not self.fetched:
                break
        return None

    def resize(self, numbers: tuple[int, ...]) -> bool:
        """Makes the walk one of these sizes. False: they are none that it can have."""
        if not self.ways[0].resize(numbers):
            return False
        for way in self.ways[1:]:
            way.allow(way.resize(numbers))
        self.taken += 1
        return True

    def attach(self, way: Callable[[], Way], names: Any, numbers: tuple[int, ...]) -> bool:
        """Another way, which is made while the walk has sizes that were recorded of it, too."""
        if len(self.ways) >= _MOST_WAYS or not self.resize(numbers):
            return False
        self.walk.shared.make_room(None, None)
        new = way()
        if new.is_apart():
            self.ways.append(new)
        self.names.append(names)
        return True

    def adapt(self, entry: Any, args: tuple, tried: tuple) -> tuple[int, ...]:
        """An op gets a tensor of other sizes than expected, which the step has fetched itself: makes the walk one of these, in the middle of the step.

        Gives the sizes, which are none of `tried`; or nothing, where there are none.
        """
        walk, at = self.walk, self.program.at
        if walk.assigned or walk.written or walk.boundary >= 0:
            return ()  # gradients are of the sizes so far
        count = len(at) - len(self.fetched)
        for step in (walk.at, *walk.at.others):
            if step.of is not entry:
                continue
            shapes = {
                number: getattr(value, "array", value).shape
                for number, value in _outside_of(step.args, args)
                if type(value) in (Tensor, ndarray) and number not in walk.bound
            }
            if not any(
                [
                    number in shapes and shapes[number][dim : dim + 1] != (at[place],)
                    for place, (number, dim) in enumerate(self.fetched, count)
                ]
            ):
                continue
            for known in (at, *self.program.sizes.samples):
                numbers = list(known)
                numbers[:count] = at[:count]
                for place, (number, dim) in enumerate(self.fetched, count):
                    shape = shapes.get(number)
                    if shape is not None and dim < len(shape):
                        numbers[place] = shape[dim]
                    elif number in walk.bound:
                        numbers[place] = at[place]
                sizes = tuple(numbers)
                if (
                    sizes != at
                    and sizes not in tried
                    and (sizes in self.program.states or self.program.sizes.fits(sizes))
                ):
                    return sizes if self._resize_within(sizes) else ()
        return ()

    def _resize_within(self, numbers: tuple[int, ...]) -> bool:
        """The same, where what the step has got so far stays as it is."""
        walk, before = self.walk, self.program.at
        path = walk.path
        computed = path.program.computed_apart(walk.done)
        known = [number for step in path.steps[: walk.at.number] for number in step.results]

        def arrays_now() -> list[Any]:
            return [path.arrays[number] for number in known] + [path.program.outside[place] for place in walk.bound]

        arrays_before = arrays_now()
        if (
            self.resize(numbers)
            and all(
                [
                    array is other or laid_out(array) == laid_out(other)
                    for array, other in zip(arrays_before, arrays_now())
                ]
            )
            and path.program.take_over(computed)
        ):
            return True
        self.resize(before)
        return False


def _outside_of(described: Sequence[Any], values: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """The tensors from outside among operands, by their numbers."""
    for (kind, content), value in zip(described, values):
        if kind == "outside":
            yield content, value
        elif kind == "list" and isinstance(value, (list, tuple)):
            yield from _outside_of(content[1], value)
