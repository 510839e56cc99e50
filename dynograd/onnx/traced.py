"""The function that is exported: of the tensors among the arguments, giving the tensors among the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy

from dynograd.base.shapes import Size
from dynograd.errors import OnnxError, ProgramError
from dynograd.export.examples import bound
from dynograd.export.exported_program import ExportedProgram
from dynograd.export.module_states import ModuleState
from dynograd.export.outputs import without_dataclasses
from dynograd.nn.module import Module
from dynograd.onnx.axes import Axes, resized
from dynograd.plans.reporting.naming import names_within
from dynograd.ragged import RaggedTensor
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.trees import map_tree

__all__ = ["Program"]


class Program:
    """A function of the tensors among the arguments, which gives the tensors among the results as a list."""

    def __init__(self, model: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], ragged: str) -> None:
        self.model, self.args, self.kwargs = model, tuple(args), kwargs
        usual = type(model).__name__
        self.name = (
            usual if isinstance(model, Module) else getattr(model, "__qualname__", getattr(model, "name", usual))
        )
        self.ragged = ragged
        self.rows: dict[int, int] = {}  # inputs that are offsets, and those with the values of these rows
        self.tensors: list[Tensor] = []
        self.names: list[str] = []
        self.paths: list[str] = []  # where the tensors are among the arguments
        try:
            arguments = bound(model, args, kwargs, self.name)[0]
        except ProgramError as error:
            raise OnnxError(f"onnx.{error}") from None
        self.arguments = list(arguments)
        for name, value in arguments.items():
            self._find(value, name, name)
        if not self.tensors:
            raise OnnxError(
                f"onnx.export: expected a tensor among the arguments of {self.name}, got none. Give an example: args=(x,)."
            )
        self.weights, self.state = _weights_of(model), ModuleState(model)

    def _find(self, value: Any, name: str, path: str) -> None:
        if isinstance(value, RaggedTensor):
            if not self.ragged or isinstance(value.packed, RaggedTensor):
                raise OnnxError(
                    f"onnx.export: {name} is ragged, which ONNX has no type for. Ask for its values and offsets as inputs, ragged='values' (of one "
                    f"ragged dim), or for padded rows and their lengths, ragged='padded'."
                )
            self.rows[len(self.tensors) + 1] = len(self.tensors)
            self.tensors += [value.values.detach(), value.offsets]
            self.names += [name, f"{name}_lengths" if self.ragged == "padded" else f"{name}_offsets"]
            self.paths += [path, f"{path}[offsets]"]
        elif isinstance(value, Tensor):
            self.tensors.append(value)
            self.names.append(name)
            self.paths.append(path)
        elif isinstance(value, (list, tuple)):
            for number, part in enumerate(value):
                self._find(part, f"{name}_{number}", f"{path}[{number}]")
        elif isinstance(value, dict):
            for key, part in value.items():
                self._find(part, f"{name}_{key}", f"{path}[{key!r}]")

    def shapes(self) -> list[Size | int | None]:
        """The shapes of its tensors; of ragged ones the number of rows, and None of their offsets."""
        shapes: list[Size | int | None] = [tensor.shape for tensor in self.tensors]
        for offsets, values in self.rows.items():
            shapes[values], shapes[offsets] = len(self.tensors[offsets]) - 1, None
        return shapes

    def fed(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Its tensors as the model's inputs."""
        fed = list(tensors)
        if self.ragged == "padded":
            for offsets, values in self.rows.items():
                lengths = numpy.diff(tensors[offsets].array)
                fed[values] = RaggedTensor(tensors[values], lengths.tolist()).to_padded(1)
                fed[offsets] = Tensor.wrap(lengths)
        return fed

    def at(self, axes: Axes, sample: dict[str, int]) -> list[Tensor]:
        """Its tensors at other sizes."""
        return [resized(tensor, number, axes, sample) for number, tensor in enumerate(self.tensors)]

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        """It gets copies, so that it may write into them, and its results are copied, so that they are ops'."""
        remaining = iter([tensor.clone() for tensor in tensors])
        args, kwargs = map_tree(partial(_next_of, tensors=remaining), (self.args, self.kwargs))
        return [result.clone() for result in _leaves(without_dataclasses(self.model(*args, **kwargs)), self.name)]


def _weights_of(model: Any) -> dict[int, str]:
    """Names of the model's tensors, by id, without buffers that are not in a module's `state_dict()`."""
    if isinstance(model, ExportedProgram):
        return {id(weight.tensor): weight.name for weight in model.weights if weight.kind != "constant"}
    modules = list(model.modules()) if isinstance(model, Module) else []
    left_out = {id(module._buffers[name]) for module in modules for name in module._non_persistent_buffers_set}
    names = names_within(model.forward if isinstance(model, Module) else model)
    return {number: name for number, name in names.items() if number not in left_out}


def _next_of(leaf: object, tensors: Iterator[Tensor]) -> object:
    """What stands in the place of a leaf: the next tensors, of a ragged one its values and offsets."""
    if isinstance(leaf, RaggedTensor):
        rows, offsets = next(tensors), next(tensors)
        return RaggedTensor(rows, numpy.diff(offsets.array).tolist())
    return next(tensors) if isinstance(leaf, Tensor) else leaf


def _leaves(value: Any, name: str) -> Iterator[Tensor]:
    if isinstance(value, RaggedTensor):
        raise OnnxError(f"onnx.export: {name} gives a ragged tensor, and ONNX has none. Return its values.")
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part, name)
    elif value is not None:
        raise OnnxError(
            f"onnx.export: {name} gives {type(value).__name__}, and ONNX has tensors alone. Return tensors, in lists, tuples or dicts."
        )
