"""An exported program: its calls, its weights and what its inputs have to be. It runs without the Python that it was made of."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynograd.autograd.modes import no_grad
from dynograd.base import dtypes
from dynograd.compat.refused import others
from dynograd.errors import ProgramError
from dynograd.export.arguments import Arguments
from dynograd.export.dynamic_shapes import Bounds
from dynograd.export.encoding import Tree, reader
from dynograd.export.nodes import damaged, nodes_of
from dynograd.export.outputs import Output
from dynograd.export.size_expressions import formula_of_json
from dynograd.kernels.build.kernel_cache import use_only_kept
from dynograd.tensor.tensor import Tensor

if TYPE_CHECKING:
    from dynograd.nn.module import Module

__all__ = ["ExportedProgram", "Weight"]

_FIELDS = {
    "name": str, "dims": dict, "inputs": list, "arguments": list, "weights": list, "numbers": list, "nodes": list, "result": object, "outputs": list,
    "draws": bool, "default_dtype": str,
}  # fmt: skip


class Weight:
    """A tensor that the program holds: `kind` is "parameter", "buffer" or "constant"."""

    __slots__ = ("kind", "name", "tensor")

    def __init__(self, name: str, kind: str, tensor: Tensor) -> None:
        self.name, self.kind, self.tensor = name, kind, tensor


class ExportedProgram:
    """What `export` gives and `load` reads: a program at any of the sizes that it was exported for. Call it as the function that it was made of.

    It computes without gradients, with the bits that the function gives in this process. `print` lists it.

    Args:
        spec: its JSON value.
        weights: the tensors that it holds.
        compiling: whether it may compile kernels.
    Raises:
        ProgramError: the JSON value is none of a program.

    >>> program = dynograd.export.export(dynograd.nn.Linear(2, 1), (dynograd.ones(3, 2),))
    >>> [node.name for node in program.nodes], [weight.name for weight in program.weights]
    (['linear'], ['weight', 'bias'])
    """

    def __init__(self, spec: Any, weights: list[Weight], compiling: bool = True) -> None:
        self.compiling = compiling
        if type(spec) is not dict or any(
            [not isinstance(spec.get(key), kind) or key not in spec for key, kind in _FIELDS.items()]
        ):
            raise damaged("expected the fields of a program")
        self.spec, self.weights, self.name = spec, weights, spec["name"]
        self.dims = _bounds_of(spec["dims"])
        self.numbers = [formula_of_json(value, self.dims) for value in spec["numbers"]]
        self.arguments = Arguments(spec["arguments"], spec["inputs"], self.dims, self.name)
        self.outputs = [Output.of_json(value, self.dims) for value in spec["outputs"]]
        known = len(self.arguments.inputs) + len(weights)
        self.nodes, self.count = nodes_of(spec["nodes"], known, len(self.numbers))
        used: set[int] = set()
        self._result = reader(spec["result"], self.count, len(self.numbers), used)
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in self.arguments.spec]
        )
        self._release(used)

    def _release(self, used: set[int]) -> None:
        """What no later call reads is let go."""
        used = set(used)
        for node in reversed(self.nodes):
            node.released = tuple({*node.used, *node.results()} - used)
            used |= node.used

    def __call__(self, *args: Any, **kwargs: Any) -> Tree:
        """What the function gives.

        Raises:
            ShapeError, DtypeError, TypeError: an input is not as the program wants; the message names it, expected and got.
            ProgramError: an op refuses what came; the message names the op and the line.
        """
        default = self.spec["default_dtype"]
        if dtypes.get_default_dtype().name != default:
            raise ProgramError(
                f"{self.name}: expected the default dtype {default}, with which it was exported, got {dtypes.get_default_dtype().name}. "
                f"dynograd.set_default_dtype(dynograd.{default}) sets it."
            )
        inputs, sizes = self.arguments.bind(args, kwargs)
        numbers = [formula.at(sizes) for formula in self.numbers]
        values = [
            *inputs,
            *[weight.tensor for weight in self.weights],
            *[None] * (self.count - len(inputs) - len(self.weights)),
        ]
        with no_grad(), contextlib.nullcontext() if self.compiling else use_only_kept():
            for node in self.nodes:
                try:
                    node.run(values, numbers)
                except Exception as error:
                    where = f" at {node.line}" * bool(node.line)
                    raise ProgramError(f"{self.name}: {node.name}{where}: {type(error).__name__}: {error}") from error
            return self._result(values, numbers)

    def save_kernels(self, folder: str | os.PathLike[str]) -> Path:
        """Writes the compiled kernels that this process has used so far as a pack, which `load_program(file, kernels=folder)` reads elsewhere.

        Which kernels a program needs depends on the sizes: call it before, at sizes as they will come. A pack is for processors of one level and
        one Numba; a folder may hold several. Loading one runs the machine code in it, so the folder is to be as safe as the library itself.

        Args:
            folder: where to; made if need be.
        Returns:
            The path of the pack.
        Raises:
            ProgramError: the cache of kernels is off, or this processor has no level.

        >>> program = dynograd.export.export(dynograd.nn.Softmax(-1), (dynograd.ones(100, 100),))
        >>> path = program.save_kernels("kernels")  # doctest: +SKIP
        """
        from dynograd.export.kernels import save_kernels

        return save_kernels(folder)

    # --- what PyTorch's has -----------------------------------------------------------------------------------------------------

    def module(self) -> Module:
        """A module that computes what the program does: with its parameters and buffers, by their names. It has no gradients.

        Returns:
            A Module in eval mode.

        >>> module = dynograd.export.export(dynograd.nn.Linear(2, 1), (dynograd.ones(3, 2),)).module()
        >>> module(dynograd.ones(3, 2)).shape, sorted(module.state_dict())
        (dynograd.Size([3, 1]), ['bias', 'weight'])
        """
        from dynograd.export.modules import ProgramModule

        return ProgramModule(self)

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters with their names."""
        return ((weight.name, weight.tensor) for weight in self.weights if weight.kind == "parameter")

    def parameters(self) -> Iterator[Tensor]:
        """The parameters."""
        return (tensor for _, tensor in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their names."""
        return ((weight.name, weight.tensor) for weight in self.weights if weight.kind == "buffer")

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        return (tensor for _, tensor in self.named_buffers())

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by name."""
        return dict([*self.named_parameters(), *self.named_buffers()])

    @property
    def constants(self) -> dict[str, Tensor]:
        """The other tensors that it holds, by name."""
        return {weight.name: weight.tensor for weight in self.weights if weight.kind == "constant"}

    @property
    def range_constraints(self) -> dict[str, Bounds]:
        """What the dims may be, by name."""
        return dict(self.dims)

    @property
    def code(self) -> str:
        """The program as Python, to read."""
        from dynograd.export.listing import code_of

        return code_of(self)

    def __str__(self) -> str:
        from dynograd.export.listing import listing

        return listing(self)

    def __repr__(self) -> str:
        return f"<exported program {self.name}: {len(self.nodes)} calls, {len(self.weights)} weights>"


def _bounds_of(dims: dict[str, Any]) -> dict[str, Bounds]:
    for name, value in dims.items():
        if (
            type(value) is not list
            or len(value) != 2
            or type(value[0]) is not int
            or type(value[1]) not in (int, type(None))
        ):
            raise damaged(f"expected the bounds of {name[:80]}, got {str(value)[:80]}")
    return {name: Bounds(least, most) for name, (least, most) in dims.items()}


__getattr__ = others("export.exported_program")
