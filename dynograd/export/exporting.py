"""`export`: a module or function as a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.export.exported_program import ExportedProgram

__all__ = ["export"]


def export(
    mod: Callable[..., Any],
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    draws: bool = False,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> ExportedProgram:
    """A module or function of tensors as a program that runs without its Python, at any size of its dynamic dims.

    It is run without gradients at the example's sizes, at three others, and at size 1 of each dynamic dim; numbers that differ become formulas
    of the sizes. The program is then compared with the function, bit for bit. What cannot be a program is refused with the line: it reads
    values of its inputs, calls other functions at other sizes, writes into its weights.

    Args:
        mod: a Module (call `eval()` before), or a function of tensors.
        args: the example's arguments: a tuple, or one tensor. Tensors may be ragged, and lie in lists, tuples and dicts; all else stays as it is.
        kwargs: more arguments by name.
        dynamic_shapes: axes of any size, as in PyTorch: `{"x": {0: Dim("batch")}}`, or a tuple with one of these for each argument. A text stands
            for a Dim; axes of one name have one size. The rows of ragged tensors are of any number and length without it; axis 0 of one may be named
            to be as long as other axes.
        draws: the program may draw random numbers, from the stream of the process that runs it.
        strict, preserve_module_call_signature: of no effect.
    Returns:
        The program: a call runs it, `save` writes it, `print` lists it.
    Raises:
        ProgramError: it cannot be a program (which line, and a way out), or an argument does not fit.

    >>> model = dynograd.nn.Sequential(dynograd.nn.Linear(4, 2), dynograd.nn.ReLU()).eval()
    >>> program = dynograd.export.export(model, (dynograd.ones(3, 4),), dynamic_shapes={"input": {0: "batch"}})
    >>> print(program.code)
    def Sequential(input):  # float32(batch, 4)
        v0 = torch.linear(input, weights['0.weight'], weights['0.bias'])
        v1 = torch.relu(v0)
        return v1
    """
    from dynograd.export.recording import program_of  # what runs programs alone does without

    return program_of(mod, args, kwargs or {}, dynamic_shapes, draws)
