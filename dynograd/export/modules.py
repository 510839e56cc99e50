"""A program as a Module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynograd.export.encoding import Tree
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter

if TYPE_CHECKING:
    from dynograd.export.exported_program import ExportedProgram

__all__ = ["ProgramModule"]


class ProgramModule(Module):
    """Computes what a program does, and holds its tensors under their names. It has no gradients.

    Args:
        program: the program.

    >>> program = dynograd.export.export(dynograd.nn.Linear(2, 1), (dynograd.ones(3, 2),))
    >>> dynograd.export.modules.ProgramModule(program)
    ProgramModule()
    """

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self.program, self.__signature__ = program, program.__signature__
        for weight in program.weights:
            if weight.kind != "constant":
                *path, name = weight.name.split(".")
                owner: Module = self
                for part in path:
                    inner = owner._modules.get(part) or Module()
                    owner.add_module(part, inner)
                    owner = inner
                if weight.kind == "parameter":
                    owner.register_parameter(name, Parameter(weight.tensor, requires_grad=False))
                else:
                    owner.register_buffer(name, weight.tensor)
        self.eval()

    def forward(self, *args: Any, **kwargs: Any) -> Tree:
        return self.program(*args, **kwargs)
