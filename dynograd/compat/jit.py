"""`torch.jit` for programs that use it: functions and modules come back as they are, nothing is translated.

A scripted function runs as the Python that it is. What needs a translated program, `save` and `load`, refuses and names the way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from dynograd.compat.futures import Future

__all__ = [
    "Final",
    "Future",
    "ScriptFunction",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

T = TypeVar("T")
_isinstance = isinstance


def script(obj: T, *options: Any, **more: Any) -> T:
    """The function, class or module itself.

    >>> @dynograd.jit.script
    ... def double(x):
    ...     return 2 * x
    >>> double(tensor(3.0))
    tensor(6.)
    """
    return obj


def trace(func: T, example_inputs: Any = None, *options: Any, **more: Any) -> T:
    """The function or module itself; it is not called with the example."""
    return func


def trace_module(mod: T, inputs: Any, *options: Any, **more: Any) -> T:
    """The module itself."""
    return mod


def freeze(mod: T, *options: Any, **more: Any) -> T:
    """The module itself."""
    return mod


def optimize_for_inference(mod: T, *options: Any, **more: Any) -> T:
    """The module itself."""
    return mod


def script_if_tracing(fn: T) -> T:
    """The function itself."""
    return fn


def export(fn: T) -> T:
    """The function itself."""
    return fn


def unused(fn: T) -> T:
    """The function itself."""
    return fn


def interface(obj: T) -> T:
    """The class itself."""
    return obj


def ignore(drop: Any = False, **options: Any) -> Any:
    """The function itself, as `@ignore` and as `@ignore(drop=...)`."""
    return drop if callable(drop) else lambda fn: fn


def annotate(the_type: Any, the_value: T) -> T:
    """The value itself."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's `isinstance`, also for `List[int]` and its like, of which only the outer type is looked at."""
    kinds = target_type if _isinstance(target_type, tuple) else (target_type,)
    return _isinstance(obj, tuple(getattr(kind, "__origin__", kind) for kind in kinds))


def is_scripting() -> bool:
    """False: nothing is ever translated."""
    return False


def is_tracing() -> bool:
    """False: nothing is ever traced."""
    return False


def fork(func: Any, *args: Any, **kwargs: Any) -> Future:
    """Calls the function now; `wait` gives the result."""
    future: Future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future) -> Any:
    """The result of `fork`."""
    return future.wait()


def script_method(fn: T) -> T:
    """The method itself."""
    return fn


class ScriptFunction:
    """What PyTorch makes of a scripted function. None is made here; `isinstance` says False."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "jit.ScriptFunction: nothing is translated here; jit.script gives back the function itself."
        )


_MODULES = ("ScriptModule", "RecursiveScriptModule", "TracedModule", "TopLevelTracedModule")


def __getattr__(name: str) -> Any:
    """`ScriptModule` and its like are Modules: what derives from one runs as the Python that it is. Scripted modules are not of them."""
    if name not in _MODULES:
        raise AttributeError(f"module 'dynograd.jit' has no attribute {name!r}")
    from dynograd.nn.module import Module

    base = Module if name == "ScriptModule" else globals().get("ScriptModule") or __getattr__("ScriptModule")
    made = type(name, (base,), {"__doc__": "A Module; see `jit.script`.", "__module__": __name__})
    return globals().setdefault(name, made)


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Changes nothing."""
    yield


def save(m: Any, f: Any, *options: Any, **more: Any) -> None:
    """Refuses: there is no translated program to save.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "jit.save: there is no TorchScript here, scripted modules are the Python objects themselves. "
        "Use save(module.state_dict(), path) and keep the class."
    )


def load(f: Any, *options: Any, **more: Any) -> Any:
    """Refuses: TorchScript archives are programs in a format of PyTorch's own.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"jit.load: {f} would be a TorchScript archive, which is not read. Where PyTorch is installed, save the weights "
        f"(safetensors.torch.save_file(module.state_dict(), path)), then load(path) here and build the module from its class."
    )
