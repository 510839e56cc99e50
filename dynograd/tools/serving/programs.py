"""Exported programs as models of a service: their inputs and outputs by name, and what answers them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from dynograd.errors import DtypeError, ProgramError, ShapeError
from dynograd.export.arguments import Input
from dynograd.export.encoding import Tree, built
from dynograd.export.exported_program import ExportedProgram
from dynograd.export.outputs import Output, leaves
from dynograd.ragged import RaggedTensor
from dynograd.tensor.creation import from_numpy
from dynograd.tensor.tensor import Tensor
from dynograd.tools.web import protocol

__all__ = ["ServedProgram", "TensorSpec"]


class TensorSpec(NamedTuple):
    """A tensor for KServe's clients: its name, its datatype such as "FP32", and its shape with -1 where it varies."""

    name: str
    datatype: str
    shape: list[int]


class ServedProgram:
    """A program as the function of a `Batcher` where it takes ragged rows and gives an answer for each, else of a `Caller`.

    Args:
        program: what `load_program` gives.
    Raises:
        ProgramError: an input or output has a dtype that the protocol does not have.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.takes_rows = _takes_rows(program)
        self.inputs = [spec for each in program.arguments.inputs for spec in self._inputs(each)]
        self.outputs = [spec for each in program.outputs for spec in self._outputs(each)]

    def _inputs(self, each: Input) -> list[TensorSpec]:
        specs = [_spec(each.name, each.dtype, each.shape)]
        return (
            [*specs, _spec(f"{each.name}_offsets", "int64", [None])] if each.ragged and not self.takes_rows else specs
        )

    def _outputs(self, each: Output) -> list[TensorSpec]:
        if self.takes_rows:
            return [_spec(each.name, each.dtype, each.shape if each.is_ragged else each.shape[1:])]
        specs = [_spec(each.name, each.dtype, each.shape)]
        return [*specs, _spec(f"{each.name}_offsets", "int64", [None])] if each.is_ragged else specs

    def decode(self, body: Any) -> Tensor | dict[str, Any]:
        """What the function gets for a request: its row, or the arguments by name.

        Raises:
            ValueError, TypeError: the inputs are not as the program wants.
        """
        names = [spec.name for spec in self.inputs]
        if len(names) == 1 and not isinstance(body, dict):
            body = {names[0]: body}
        if not isinstance(body, dict) or body.keys() != set(names):
            have = ", ".join(body) if isinstance(body, dict) else type(body).__name__
            raise ValueError(f"{self.program.name}: expected the inputs {', '.join(names)}, got {have}.")
        tensors = [_tensor(self.program.name, spec, body[spec.name]) for spec in self.inputs]
        if self.takes_rows:
            return tensors[0]
        parts, inputs = iter(tensors), []
        for each in self.program.arguments.inputs:
            value = next(parts)
            inputs.append((value, next(parts)) if each.ragged else value)
        bound, _ = self.program.arguments.bind((), self._arguments(inputs))
        return self._arguments(bound)

    def _arguments(self, inputs: list[Any]) -> dict[str, Any]:
        return {name: built(value, inputs, ()) for name, value in self.program.arguments.spec.items()}

    def __call__(self, example: Any) -> Tensor | dict[str, Tensor] | list[Any]:
        """The answer to arguments; of a batch of rows, one for each."""
        if not self.takes_rows:
            tensors = dict(_parts(self.program(**example)))
            return tensors["output"] if [*tensors] == ["output"] else tensors
        result = dict(leaves(self.program(**self._arguments([example]))))
        columns = {name: list(tensor.unbind()) for name, tensor in result.items()}
        if [*columns] == ["output"]:
            return columns["output"]
        return [dict(zip(columns, row)) for row in zip(*columns.values(), strict=True)]


def _takes_rows(program: ExportedProgram) -> bool:
    """Whether its one input is a ragged batch of rows, and each output has a row for each of them."""
    inputs = program.arguments.inputs
    if len(inputs) != 1 or not inputs[0].ragged or inputs[0].ragged[0] != 1 or not program.outputs:
        return False
    rows = inputs[0].ragged[1]
    return all([each.is_ragged or each.shape[:1] == (rows,) for each in program.outputs])


def _spec(name: str, dtype: str, shape: Any) -> TensorSpec:
    datatype = protocol.DATATYPES.get(dtype)
    if datatype is None:
        raise ProgramError(
            f"serve: {name} is {dtype}, which requests cannot bring and answers cannot hold. Export a program that converts it, as to float32."
        )
    return TensorSpec(name, datatype, [size if type(size) is int else -1 for size in shape])


def _tensor(who: str, spec: TensorSpec, value: Any) -> Tensor:
    """A tensor of a request, or the one of its JSON.

    Raises:
        DtypeError, ShapeError, ValueError: it is not as `spec` says.
    """
    if not isinstance(value, Tensor):
        value = from_numpy(protocol.numbers(spec.name, value, spec.datatype))
    datatype = protocol.DATATYPES.get(value.dtype.name)
    if datatype != spec.datatype:
        raise DtypeError(f"{who}: expected {spec.datatype} for {spec.name}, got {datatype}.")
    shape = list(value.shape)
    if len(shape) != len(spec.shape) or any([expected not in (-1, size) for expected, size in zip(spec.shape, shape)]):
        raise ShapeError(f"{who}: expected shape {spec.shape} for {spec.name} (-1: any size), got {shape}.")
    return value


def _parts(result: Tree) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a result by name; of a ragged one its values and offsets."""
    for name, tensor in leaves(result):
        if isinstance(tensor, RaggedTensor):
            yield from ((name, tensor.packed), (f"{name}_offsets", tensor.offsets))
        else:
            yield name, tensor
