"""`torch.compile` and `torch.compiler` for programs that ask: nothing is translated, functions and modules come back as they are.

Kernels are compiled one by one (see docs/performance.md), without a word from the program.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "reset",
    "set_stance",
]


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
    shapes_spec: Any = None,
) -> Any:
    """The function or module itself, as `compile(model)`, `@compile` and `@compile(dynamic=True)`: it runs eagerly, as it is written.

    The options say how PyTorch translates and when it translates again; they are accepted. Shapes may change from call to call.

    Raises:
        TypeError: `model` cannot be called.
        RuntimeError: both `mode` and `options` are given.

    >>> @dynograd.compile(dynamic=True)
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
        return lambda one: compile(one, mode=mode, options=options)
    if not callable(model):
        raise TypeError(f"compile: expected a function or module, got {type(model).__name__} ({model!r}).")
    return model


def is_compiling() -> bool:
    """False: Python runs as it is."""
    return False


def is_dynamo_compiling() -> bool:
    """False: Python runs as it is."""
    return False


def is_exporting() -> bool:
    """False: Python runs as it is."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, as `@disable` and as `@disable(recursive=...)`.

    >>> dynograd.compiler.disable(len)([1])
    1
    """
    return (lambda one: one) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Does nothing."""


def reset() -> None:
    """Does nothing: there is nothing compiled to forget."""


class set_stance:
    """Changes nothing; also a context manager and decorator."""

    def __init__(self, *stance: Any, **options: Any) -> None: ...

    def __call__(self, fn: Any) -> Any:
        return fn

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...
