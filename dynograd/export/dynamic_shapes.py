"""Sizes that may differ from call to call: `Dim`, what `dynamic_shapes` says of the inputs, and the sizes at which a program is recorded."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dynograd.compat.refused import others
from dynograd.errors import ProgramError
from dynograd.export.derived_dims import DerivedSize, derived

__all__ = ["Bounds", "Dim", "checked_axes", "dims", "named_axes", "sizes_to_record"]

_STEPS = ((2, 5, 9), (7, 3, 4), (11, 13, 6), (5, 17, 8), (19, 4, 15), (6, 23, 10))
_ANY = ("AUTO", "DYNAMIC")


@dataclass(slots=True)
class Bounds:
    """The least and the largest size of a dim; None: any."""

    least: int = 1
    most: int | None = None

    def has(self, size: int) -> bool:
        """Whether the dim may be that."""
        return self.least <= size and (self.most is None or size <= self.most)

    def __str__(self) -> str:
        return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"


class _Hint:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Dim.{self.name}"


class Dim:
    """A size that may differ from call to call. Dims of one name have one size. `dim + 1`, `dim - 1` and `2 * dim` are sizes that follow from it.

    Args:
        name: what messages call it; an identifier.
        min: the least size.
        max: the largest; None: any.

    >>> batch = dynograd.export.Dim("batch", max=64)
    >>> program = dynograd.export.export(dynograd.nn.Linear(2, 1), (dynograd.ones(3, 2),), dynamic_shapes={"input": {0: batch}})
    >>> program(dynograd.ones(5, 2)).shape
    dynograd.Size([5, 1])
    """

    AUTO = _Hint("AUTO")
    DYNAMIC = _Hint("DYNAMIC")
    STATIC = _Hint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ProgramError(f"Dim: expected a name that is an identifier, got {name!r}. Dim('batch') is one.")
        self.min, self.max = 1 if min is None else min, max
        if self.min < 0 or (max is not None and max <= self.min):
            raise ProgramError(f"Dim {name}: expected 0 <= min < max, got min={min} and max={max}.")
        self.__name__ = name

    def __repr__(self) -> str:
        return self.__name__

    def __add__(self, other: int) -> Dim:
        return self._derived(1, other)

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        return self._derived(1, -other)

    def __mul__(self, other: int) -> Dim:
        return self._derived(other, 0)

    __rmul__ = __mul__

    def _derived(self, times: int, plus: int) -> Dim:
        own = derived(self.__name__)
        assert own is not None, "names are identifiers"
        if type(times) is not int or type(plus) is not int or times < 1:
            raise ProgramError(
                f"Dim {self.__name__}: expected whole numbers, and none below 1 as a factor, got {plus if times == 1 else times!r}. Dim('n') + 1 and "
                f"2 * Dim('n') are right."
            )
        dim = copy.copy(self)  # with the bounds of the dim that it follows from
        dim.__name__ = str(DerivedSize(own.root, own.times * times, own.plus * times + plus))
        return dim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.__name__)


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A `Dim` for each name.

    Args:
        *names: as of `Dim`.
        min, max: of each.
    Returns:
        A tuple of them.

    >>> dynograd.export.dims("batch", "time")
    (batch, time)
    """
    return tuple([Dim(name, min=min, max=max) for name in names])


def named_axes(
    names: Sequence[str], shapes: Sequence[Sequence[int] | int | None], arguments: Sequence[str], dynamic: Any
) -> tuple[dict[tuple[int, int], str], dict[str, Bounds]]:
    """The names of dynamic axes by (number of the input, axis), and what each name may be.

    Args:
        names: of the inputs, "x" or "batch[0]".
        shapes: of each; of a ragged one the number of rows, which alone has a name; None: no axis has one.
        arguments: names of all arguments in order, also of those that are no tensors.
        dynamic: `dynamic_shapes` as PyTorch has it: by name of the argument or in order; for each a dict or a list of what its axes are: a Dim,
            a text, `Dim.AUTO`, or None or a number for a fixed size. Of a list or dict of tensors the same, nested.
    Raises:
        ProgramError: an unknown argument, an axis that is not there, or one name for two sizes.
    """
    entries = []
    for number, spec in _by_input(names, arguments, dynamic):
        pairs = spec.items() if isinstance(spec, dict) else enumerate(spec)
        kept = [(axis, dim) for axis, dim in pairs if not (dim is None or dim is Dim.STATIC or isinstance(dim, int))]
        entries += [(number, axis, *_read(dim)) for axis, dim in kept]
    return checked_axes(names, shapes, entries)


def checked_axes(
    names: Sequence[str], shapes: Sequence[Sequence[int] | int | None], entries: Iterable[tuple[int, Any, str, Bounds]]
) -> tuple[dict[tuple[int, int], str], dict[str, Bounds]]:
    """What `named_axes` gives, of (number of the input, axis, name, bounds); an axis without a name is called by its input.

    Raises:
        ProgramError: an axis that is not there, one name for two sizes, or a size outside its bounds.
    """
    axes: dict[tuple[int, int], str] = {}
    bounds: dict[str, Bounds] = {}
    sizes: dict[str, tuple[int, str]] = {}
    for number, axis, name, bound in entries:
        own = shapes[number]
        if own is None or (isinstance(own, int) and axis != 0):
            raise ProgramError(
                f"export: {names[number]} is ragged, and its numbers of rows and elements may be any. Name axis 0, if other axes are as long, and leave "
                f"the others as they are."
            )
        shape = (own,) if isinstance(own, int) else tuple(own)
        if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
            raise ProgramError(
                f"export: {names[number]} has {len(shape)} dims (shape {shape}), and no axis {axis!r}. Count from 0."
            )
        axis %= len(shape)
        name = name or f"{_identifier(names[number])}_dim_{axis}"
        form = derived(name) or DerivedSize(name)
        root = form.root_of(shape[axis])
        if root is None:
            raise ProgramError(
                f"export: axis {axis} of {names[number]} has size {shape[axis]}, which is {form} for no {form.root}. Give another example."
            )
        size, where = sizes.setdefault(form.root, (root, names[number]))
        if size != root:
            raise ProgramError(
                f"export: the dim {form.root!r} has size {size} in {where} and {root} in {names[number]}. Give axes of different sizes "
                f"different names."
            )
        known = bounds.setdefault(form.root, bound)
        known.least = max(known.least, bound.least)
        known.most = bound.most if known.most is None else known.most
        if size < known.least or (known.most is not None and size > known.most):
            raise ProgramError(
                f"export: the dim {form.root!r} is {known}, but the example has {size}. Give another example, or other bounds."
            )
        axes[number, axis] = str(form)
    return axes, bounds


def _read(dim: Any) -> tuple[str, Bounds]:
    """The name, "" for one of no name's own, and what it may be."""
    if isinstance(dim, Dim):
        return dim.__name__, Bounds(dim.min, dim.max)
    if isinstance(dim, str) and derived(dim):
        return dim, Bounds()
    if getattr(dim, "name", dim) in _ANY:
        return "", Bounds()
    raise ProgramError(
        f"export: expected a Dim, a name or None for an axis in dynamic_shapes, got {dim!r}. {{0: Dim('batch')}} is right, and {{1: 'past + 1'}}."
    )


def _identifier(name: str) -> str:
    return "".join([letter if letter.isalnum() else "_" for letter in name]).strip("_")


def _by_input(names: Sequence[str], arguments: Sequence[str], dynamic: Any) -> Iterator[tuple[int, Any]]:
    """(number of an input, what is said of its axes)."""
    for path, spec in _by_argument(arguments, dynamic).items():
        if path not in arguments:
            raise ProgramError(
                f"export: dynamic_shapes has {path!r}, but the arguments are {', '.join(arguments)}. Use one of these names."
            )
        yield from _nested(names, path, spec)


def _by_argument(arguments: Sequence[str], dynamic: Any) -> dict[str, Any]:
    """What is said of each argument. Of `*args` it is said one by one, or as PyTorch does in a tuple."""
    if isinstance(dynamic, dict):
        known = [path in arguments for path in dynamic]
        if all(known) or len(dynamic) > 1 or f"{next(iter(dynamic))}_0" not in arguments:
            return dynamic
        dynamic = tuple(dynamic.values())
    specs = list(dynamic or ())
    rest = len(arguments) - len(specs) + 1
    if specs and isinstance(specs[-1], (list, tuple)) and len(specs[-1]) == rest > 1:
        if all([spec is None or isinstance(spec, (dict, list, tuple)) for spec in specs[-1]]):
            specs = [*specs[:-1], *specs[-1]]
    if len(specs) > len(arguments):
        raise ProgramError(
            f"export: dynamic_shapes has {len(specs)} entries, but the arguments are {', '.join(arguments)}. Give one for each, None for one of fixed "
            f"sizes."
        )
    return dict(zip(arguments, specs))


def _nested(names: Sequence[str], path: str, spec: Any) -> Iterator[tuple[int, Any]]:
    """The same of an argument, or of a part of one."""
    if path in names:
        if spec is not None:
            yield names.index(path), spec
        return
    within = [name for name in names if name.startswith(f"{path}[")]
    parts = spec.items() if isinstance(spec, dict) else enumerate(spec) if isinstance(spec, (list, tuple)) else ()
    inner = [(f"{path}[{key!r}]", part) for key, part in parts]
    if inner and not all([any([name.startswith(where) for name in within]) or not part for where, part in inner]):
        raise ProgramError(
            f"export: expected dynamic_shapes of the tensors {', '.join(within) or 'of which there are none'} in {path}, got {spec!r}. Nest them as the "
            f"argument is."
        )
    for where, part in inner:
        yield from _nested(names, where, part)


def sizes_to_record(sizes: dict[str, int], bounds: dict[str, Bounds], far: bool = False) -> list[dict[str, int]]:
    """Sizes of the dynamic dims at which a program is recorded: the example's, and three more of each, of which none follows from another.

    Those of the last are more than twice the example's if `far`: at which a number that is cut off, as n // 16, is another one.
    """
    samples = [dict(sizes)]
    for step in range(3):
        sample = {}
        for (name, size), steps in zip(sizes.items(), _STEPS * len(sizes)):
            bound = bounds[name]
            added, taken = size + steps[step] + size * (far and step == 2), size - 1 - step
            fits = bound.most is None or added <= bound.most
            sample[name] = (
                added if fits else taken if taken >= bound.least else min(size + 1 + step, bound.most or size)
            )
        samples.append(sample)
    return samples


__getattr__ = others("export.dynamic_shapes")
