"""The tensors among the example's arguments, and others of their kind at other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from dynograd.base.signatures import call_signature
from dynograd.errors import ProgramError
from dynograd.export.arguments import Input
from dynograd.export.derived_dims import derived
from dynograd.export.encoding import Ref, Tree, encoded
from dynograd.ragged import RaggedTensor
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.trees import map_tree

__all__ = ["Examples", "bound"]


class Examples:
    """The tensors of a function's arguments.

    Args:
        parameters: the arguments by name.
    Raises:
        ProgramError: an argument that a file cannot hold.
    """

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.parameters = parameters
        self.tensors: list[Tensor] = []
        self.names: list[str] = []
        self.axes: dict[tuple[int, int], str] = {}
        for name, value in parameters.items():
            self._find(value, name)
        self.shapes = [
            tensor.partition.count if isinstance(tensor, RaggedTensor) else tuple(tensor.shape)
            for tensor in self.tensors
        ]

    def _find(self, value: Any, name: str) -> None:
        if isinstance(value, Tensor):
            if isinstance(value, RaggedTensor) and (
                type(value.partition).__name__ != "Partition" or isinstance(value.packed, RaggedTensor)
            ):
                raise ProgramError(
                    f"export: expected one ragged dim in {name}, got {value.shape}. Give its values and offsets as tensors."
                )
            if value.device.type != "cpu":
                raise ProgramError(
                    f"export: expected {name} on the CPU, got {value.device}. Programs run on the CPU: {name}.cpu()."
                )
            self.tensors.append(value)
            self.names.append(name)
        elif isinstance(value, (list, tuple)):
            for number, part in enumerate(value):
                self._find(part, f"{name}[{number}]")
        elif isinstance(value, dict):
            for key, part in value.items():
                self._find(part, f"{name}[{key!r}]")
        else:
            try:
                encoded(value)
            except TypeError as error:
                raise ProgramError(
                    f"export: {name} is an object of type {error}, which a file cannot hold. Give tensors, numbers and texts."
                ) from None

    def take(self, axes: dict[tuple[int, int], str]) -> None:
        """Which axes are dynamic."""
        self.axes = axes

    # --- what is written --------------------------------------------------------------------------------------------------------

    def described(self) -> Iterator[tuple[str, Any]]:
        """The arguments, with a `Ref` for each tensor."""
        count = iter(range(len(self.tensors)))
        for name, value in self.parameters.items():
            yield name, _with(value, (Ref(number) for number in count))

    def inputs(self) -> list[Any]:
        """The JSON values of the inputs."""
        return [[each.name, each.dtype, each.shape, each.ragged] for each in self._inputs()]

    def _inputs(self) -> list[Input]:
        inputs = []
        for number, (name, tensor) in enumerate(zip(self.names, self.tensors)):
            if isinstance(tensor, RaggedTensor):
                _, total, longest = _dims_of_rows(name)
                rows = self._rows_of(number)
                shape: list[int | str] = list(tensor.packed.shape)
                shape[tensor.place - 1] = total
                inputs.append(Input(name, tensor.dtype.name, shape, [tensor.place, rows, total, longest]))
            else:
                shape = [self.axes.get((number, axis), size) for axis, size in enumerate(tensor.shape)]
                inputs.append(Input(name, tensor.dtype.name, shape))
        return inputs

    def sizes(self, tensors: list[Any]) -> dict[str, int]:
        """The size of each dim, of these tensors."""
        return {name: size for each, tensor in zip(self._inputs(), tensors) for name, size, _ in each.sizes(tensor)}

    # --- other sizes ------------------------------------------------------------------------------------------------------------

    def wanted_sizes(self) -> dict[str, int]:
        """What can be asked of `at`: the dynamic axes, and the rows of ragged tensors."""
        sizes: dict[str, int] = {}
        for (number, axis), name in self.axes.items():
            form = derived(name)
            assert form is not None, "axes were checked"
            sizes[form.root] = form.root_of(self._size(number, axis)) or 0
        for number, tensor in enumerate(self.tensors):
            if isinstance(tensor, RaggedTensor):
                sizes.setdefault(self._rows_of(number), tensor.partition.count)
        return sizes

    def _size(self, number: int, axis: int) -> int:
        tensor = self.tensors[number]
        return tensor.partition.count if isinstance(tensor, RaggedTensor) else tensor.shape[axis]

    def _rows_of(self, number: int) -> str:
        """What the number of rows of a ragged tensor is called."""
        return self.axes.get((number, 0)) or _dims_of_rows(self.names[number])[0]

    def at(self, sizes: dict[str, int], turn: int) -> list[Any]:
        """Tensors of the example's kind at other sizes: its values again, the first `turn` of them behind the others. Always other tensors."""
        return [self._at(number, sizes, turn) for number in range(len(self.tensors))]

    def _at(self, number: int, sizes: dict[str, int], turn: int) -> Tensor:
        tensor = self.tensors[number]
        if isinstance(tensor, RaggedTensor):
            return _rows_at(tensor, sizes[self._rows_of(number)], turn)
        array = numpy.array(tensor.detach().array, order="K", copy=True)
        for axis, size in enumerate(tensor.shape):
            form = derived(self.axes.get((number, axis), ""))
            if form is not None and form.at(sizes) != size:
                array = numpy.take(array, numpy.arange(form.at(sizes)) % max(size, 1), axis=axis)
        order = _order_of(tensor.detach().array)
        if order and array.size > 1:
            array[...] = numpy.sort(array)[::order]
        elif turn and array.size > 1:
            array[...] = numpy.roll(array.reshape(-1), turn).reshape(array.shape)
        return wrap(array)

    def with_tensors(self, tensors: list[Any]) -> dict[str, Any]:
        """The arguments with these tensors."""
        remaining = iter(tensors)
        return {name: _with(value, remaining) for name, value in self.parameters.items()}


def bound(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], name: str
) -> tuple[dict[str, Any], list[str], list[str]]:
    """The arguments by name, those of `*args` with numbers; the names of those by place, and of the others.

    Raises:
        ProgramError: the function does not take them.
    """
    try:
        signature = call_signature(function)
        parameters = list(signature.parameters.values())
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ProgramError(f"export: the example does not fit {name}: {error}.") from None
    except ValueError:
        parameters = []
    names = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    rest = next((parameter.name for parameter in parameters if parameter.kind is parameter.VAR_POSITIONAL), "args")
    names = (names + [f"{rest}_{number}" for number in range(len(args))])[: len(args)]
    return {**dict(zip(names, args)), **kwargs}, names, list(kwargs)


def _with(value: Tree, tensors: Iterator[Any]) -> Tree:
    """The value with the next tensors in the places of its own."""
    return map_tree(lambda leaf: next(tensors) if isinstance(leaf, Tensor) else leaf, value)


def _order_of(array: Any) -> int:
    """1 and -1: the values may have to rise, or to fall, as offsets, a mask and sorted lengths do; 0: they may be in any order."""
    if array.dtype.kind not in "iub" or array.ndim != 1:
        return 0
    steps = numpy.diff(array.astype(numpy.int64))
    falls = bool((steps <= 0).all()) and array.dtype.kind != "b"
    return 1 if (steps >= 0).all() else -falls


def _dims_of_rows(name: str) -> tuple[str, str, str]:
    stem = "".join([letter if letter.isalnum() else "_" for letter in name]).strip("_")
    return f"{stem}_rows", f"{stem}_elements", f"{stem}_longest"


def _rows_at(tensor: RaggedTensor, rows: int, turn: int) -> RaggedTensor:
    """So many rows, of lengths that differ from the example's where `turn` is more than 0."""
    lengths = (
        numpy.resize(numpy.asarray(tensor.partition.lengths), rows)
        if len(tensor.partition.lengths)
        else numpy.ones(rows, numpy.int64)
    )
    lengths = lengths + turn * (1 + numpy.arange(rows) % 3) if turn else lengths
    axis = tensor.place - 1
    packed = numpy.asarray(tensor.packed.detach().array)
    places = (numpy.arange(int(lengths.sum())) + turn) % max(packed.shape[axis], 1)
    return RaggedTensor(wrap(numpy.take(packed, places, axis=axis)), lengths=lengths.tolist(), dim=tensor.place)
