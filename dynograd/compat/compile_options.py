"""What `compile` is told in PyTorch's words: options of its compiler, names of backends. Known ones are accepted, though they mean nothing here."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from dynograd.base import stubs

__all__ = [
    "BACKENDS",
    "EAGER_BACKENDS",
    "check_options",
    "chosen_backend",
    "get_default_backend",
    "list_backends",
    "list_mode_options",
    "list_options",
    "set_default_backend",
]

BACKENDS = ("cudagraphs", "dynograd", "inductor")
EAGER_BACKENDS = ("aot_eager", "eager")
_DEBUGGING = {"debug", "experimental"}  # how PyTorch tags those that run a program as it is written
_FUNCTIONS = ("guard_filter_fn",)  # functions among the options, for guards of PyTorch's tracer
_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "lite": {
        "fallback_by_default": True,
        "selective_decompose": True,
        "reorder_for_peak_memory": False,
        "reorder_for_compute_comm_overlap": False,
        "triton.reorder_for_reducing_graph_partitions": False,
        "use_pre_grad_passes": False,
        "use_joint_graph_passes": False,
        "use_post_grad_passes": False,
        "use_dce": False,
        "allow_buffer_reuse": False,
    },
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
}
_default_backend: list[Any] = ["inductor"]


def _options(module: ModuleType, above: str = "") -> Iterator[tuple[str, Any]]:
    """The options of a module and of its sections, with their values."""
    for name, value in vars(module).items():
        if isinstance(value, stubs.Settings):
            yield from _options(value, f"{above}{name}.")
        elif not name.startswith("_"):
            yield above + name, value


def check_options(options: dict[str, Any]) -> None:
    """Raises where PyTorch would: an option that there is not, or a value of another type than the option's."""
    known = dict(_options(stubs.settings("_inductor.config")))
    for name, value in options.items():
        name = name.replace("-", "_")
        if name in _FUNCTIONS:
            continue
        if name not in known:
            nearest = ", ".join(difflib.get_close_matches(name, known))
            raise RuntimeError(
                f"compile: Unexpected optimization option {name}, known options are those of torch._inductor.list_options()"
                f"{nearest and ', nearest: '}{nearest}. Leave it out."
            )
        expected = type(known[name])
        if known[name] is not None and type(value) is not expected:
            raise RuntimeError(
                f"compile: Unexpected type of attr {name}, got {type(value).__name__} should be {expected.__name__}."
            )


def list_options() -> list[str]:
    """The options of PyTorch's compiler that `compile(options=...)` accepts.

    Returns:
        Their names; in sections as "triton.cudagraphs".

    >>> "max_autotune" in dynograd._inductor.list_options()
    True
    """
    return [name for name, _ in _options(stubs.settings("_inductor.config"))]


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The options that a mode stands for in PyTorch.

    Args:
        mode: "default", "reduce-overhead", "max-autotune" and the like; None: those of each mode.
        dynamic: accepted.
    Returns:
        Options with their values.
    Raises:
        RuntimeError: an unknown mode.

    >>> dynograd._inductor.list_mode_options("reduce-overhead")
    {'triton.cudagraphs': True}
    """
    if mode is None:
        return {name: dict(options) for name, options in _MODES.items()}
    if mode not in _MODES:
        raise RuntimeError(f"list_mode_options: Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    return dict(_MODES[mode])


def list_backends(exclude_tags: Sequence[str] = ("debug", "experimental")) -> list[str]:
    """The names that `compile(backend=...)` takes.

    Args:
        exclude_tags: with "debug" or "experimental" those are left out that give a function back as it is.
    Returns:
        Names, in order.

    >>> dynograd.compiler.list_backends()
    ['cudagraphs', 'dynograd', 'inductor']
    """
    others = () if _DEBUGGING & set(exclude_tags or ()) else EAGER_BACKENDS
    return sorted([*BACKENDS, *others])


def set_default_backend(backend: str | Callable[..., Any] | None) -> None:
    """Sets the backend that `compile` takes without `backend`.

    Args:
        backend: "inductor", "dynograd" or "cudagraphs" (which are one), or "eager", "aot_eager"; None: "inductor".
    Raises:
        ValueError: another one.

    >>> dynograd.compiler.set_default_backend("eager")
    >>> dynograd.compile(len) is len
    True
    >>> dynograd.compiler.set_default_backend(None)
    """
    _default_backend[0] = chosen_backend("set_default_backend", "inductor" if backend is None else backend)


def get_default_backend() -> str | Callable[..., Any]:
    """The backend that `compile` takes without `backend`.

    Returns:
        Its name.

    >>> dynograd.compiler.get_default_backend()
    'inductor'
    """
    return _default_backend[0]


def chosen_backend(who: str, backend: Any) -> str:
    """The name of the backend; None is the default.

    Raises:
        ValueError: there is no such backend.
    """
    if backend is None:
        return _default_backend[0]
    if callable(backend):
        raise ValueError(
            f"{who}: a backend of one's own gets graphs of PyTorch's tracer, which there are not. Leave it out, or trace with dynograd.fx."
        )
    if backend not in (*BACKENDS, *EAGER_BACKENDS):
        raise ValueError(
            f"{who}: expected a backend out of {', '.join((*BACKENDS, *EAGER_BACKENDS))}, got {backend!r}. Leave it out."
        )
    return backend
