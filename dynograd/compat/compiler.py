"""`torch.compile` and `torch.compiler` for programs that ask: nothing is translated, functions and modules come back as they are.

Kernels are compiled one by one (see docs/performance.md), without a word from the program.
"""

from __future__ import annotations

from typing import Any

from dynograd.base import stubs
from dynograd.base.signatures import show_plainly as _show_plainly

globals().update(stubs.names("compiler"))

__all__ = ["OptimizedModule", "compile", *stubs.names("compiler")]


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: object = None,
) -> Any:
    """The function or module itself, as `compile(model)`, `@compile` and `@compile(dynamic=True)`: it runs eagerly, as it is written.

    Shapes may change from call to call. Unless `disable=True`, the first call warns that nothing is translated.

    Args:
        model: a function or module; without it a decorator comes back.
        disable: no warning.
        fullgraph, dynamic, backend, mode, options, name, recompile_limit, isolate_recompiles, shapes_spec: accepted; they say how
            PyTorch translates and when it translates again.
    Returns:
        `model`, or a decorator that gives back its function.
    Raises:
        TypeError: `model` cannot be called.
        RuntimeError: both `mode` and `options` are given.

    >>> @dynograd.compile(disable=True)
    ... def double(x):
    ...     return 2 * x
    >>> double(tensor(3.0))
    tensor(6.)
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            f"compile: either mode or options can be specified, but both can't be: got {mode=}, {options=}."
        )
    if model is None:
        return lambda function: compile(function, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: expected a function or module, got {type(model).__name__} ({model!r}).")
    if not disable:
        stubs.warn_once("compile")
    return model


class OptimizedModule:
    """What PyTorch's `compile` makes of a module. None is made here; `isinstance` says False.

    Args:
        *args, **kwargs: not used.

    >>> isinstance(dynograd.nn.ReLU(), dynograd.compiler.OptimizedModule)
    False
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise NotImplementedError(
            "compiler.OptimizedModule: nothing is translated here; compile gives back the module itself."
        )


class TensorifyScalarRestartAnalysis(Exception):
    """What PyTorch raises inside its tracer; never raised here."""


_show_plainly(globals())
