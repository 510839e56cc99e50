"""What a program gives: the tensors in its result, with their names, dtypes and shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dynograd.errors import ProgramError
from dynograd.export.encoding import Json, Tree
from dynograd.tensor.tensor import Tensor

__all__ = ["Output", "leaves", "outputs_of", "without_dataclasses"]


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor in the result of a program.

    Args:
        name: "output" where there is but one; in a dict its key, in a tuple "output_0"; further in "states.0".
        dtype: its name.
        shape: of each axis a size, the name of a dim, or None where it follows from sizes in another way. Of a ragged one the axes of its values.
        is_ragged: whether it is ragged, with a row for each one of the input.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]
    is_ragged: bool

    @classmethod
    def of_json(cls, value: Json, dims: Mapping[str, object]) -> Output:
        """Reads one.

        Raises:
            ProgramError: it is none.
        """
        kinds = [type(part) for part in value] if type(value) is list else []
        if kinds != [str, str, list, bool] or not all(
            [size is None or type(size) is int or (type(size) is str and size in dims) for size in value[2]]
        ):
            raise ProgramError(
                f"load_program: expected an output, got {str(value)[:80]}. The file is damaged, or of another dynograd: export it anew."
            )
        name, dtype, shape, is_ragged = value
        return cls(name, dtype, tuple(shape), is_ragged)

    def __str__(self) -> str:
        sizes = ["?" if size is None else str(size) for size in self.shape]
        return f"{self.dtype}({', '.join(sizes)}){' of ragged rows' * self.is_ragged}"


def leaves(result: Tree, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors in a result, with their names."""
    if isinstance(result, Tensor):
        yield name or "output", result
    elif isinstance(result, dict):
        for key, part in result.items():
            yield from leaves(part, f"{name}.{key}" if name else str(key))
    elif isinstance(result, (list, tuple)):
        for number, part in enumerate(result):
            yield from leaves(part, f"{name}.{number}" if name else f"output_{number}")


def without_dataclasses(result: Tree) -> Tree:
    """The result with a dict of its fields for each dataclass, which a file has no type for."""
    if dataclasses.is_dataclass(result) and not isinstance(result, (type, dict)):
        fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
        return {name: without_dataclasses(value) for name, value in fields.items()}
    if type(result) in (list, tuple):
        return type(result)([without_dataclasses(part) for part in result])
    return {key: without_dataclasses(part) for key, part in result.items()} if type(result) is dict else result


def outputs_of(results: Sequence[Tree], sizes: Sequence[Mapping[str, int]]) -> list[Json]:
    """The JSON values of the outputs.

    Args:
        results: of several runs.
        sizes: of the dims in each run.
    """
    rows = []
    for runs in zip(*[list(leaves(result)) for result in results]):
        name, first = runs[0]
        is_ragged = hasattr(first, "packed")
        shapes = [tuple(getattr(tensor, "packed", tensor).shape) for _, tensor in runs]
        shape = [_axis(list(axis), sizes) for axis in zip(*shapes)]
        rows.append([name, first.dtype.name, shape, is_ragged])
    return rows


def _axis(seen: list[int], sizes: Sequence[Mapping[str, int]]) -> int | str | None:
    """A size, the name of the dim that has these sizes, or None."""
    if len({*seen}) == 1:
        return seen[0]
    return next((name for name in sizes[0] if [run[name] for run in sizes] == seen), None)
