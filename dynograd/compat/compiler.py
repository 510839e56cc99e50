"""`torch.compile` and `torch.compiler`: a function is recorded when it is first called, and from then on compared with the record.

What it computes then are bound kernels; the program itself runs in every call (`dynograd/plans`, docs/compile.md).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

from dynograd.base import stubs
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.compat.compile_options import (
    EAGER_BACKENDS,
    check_options,
    chosen_backend,
    get_default_backend,
    list_backends,
    set_default_backend,
)
from dynograd.compat.exporting import is_compiling, is_exporting
from dynograd.compat.numpy_functions import wrap_numpy
from dynograd.nn.module import Module
from dynograd.plans.compiling import STANCES, Compiled, forget_all, set_stance_to
from dynograd.plans.reporting.graphs import Graph
from dynograd.plans.reporting.reports import Report
from dynograd.plans.sized.marks import mark
from dynograd.tensor.tensor import Tensor

globals().update(stubs.names("compiler"))

__all__ = [
    "Graph",
    "OptimizedModule",
    "Report",
    "compile",
    "get_default_backend",
    "is_compiling",
    "is_exporting",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "reset",
    "set_default_backend",
    "set_stance",
    "wrap_numpy",
    *stubs.names("compiler"),
]

MODES = (
    "default",
    "checked",
    "exact",
    "replay",
    "lite",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
)


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: object = None,
) -> Any:
    """A function that computes what `model` does with bound kernels, as `compile(function)`, `compile(module)`, `@compile(mode="exact")`.

    The first two calls run as they are written and are recorded: ops, backward passes, steps of optimizers. In every later call the program
    runs as before, but its ops only compare themselves with the record and hand out the recorded tensors; kernels that are bound to the
    plan's memory compute them when a value is read, and at the end. Where the program goes another way, the call runs as it is written, and
    that way is recorded as well: other shapes, another branch. So nothing that Python does is skipped, and nothing is guessed. `report()` of the
    result says what became of the calls.

    In mode "replay" Python is skipped where a watched call has shown that it does nothing but tensors: see `docs/compile.md`.

    A whole training step may be compiled, with its backward and optimizer, or a module.

    Args:
        model: a function or module; without it a decorator comes back. The bound `step` of an optimizer comes back as it is.
        fullgraph: what cannot be recorded (in mode "replay": or replayed) is an error that says where.
        dynamic: None: sizes between those of three recorded calls are walked by formulas, where that is likely to be faster. True: always,
            also where much is made anew for each size. False: each size is recorded by itself, and 64 of them are kept.
        backend: "inductor", "dynograd" or "cudagraphs" for this one; "eager" or "aot_eager" give `model` back. None: that of
            `compiler.set_default_backend`.
        mode: None, "default", "checked", "lite", "reduce-overhead", "max-autotune" and "max-autotune-no-cudagraphs" are one: results may differ from
            those of the program as it is written in the last bits, as sums are added in another order. "exact": they have the same bits. "replay":
            as "default", and the program's Python is not run again for a pure step, behind guards on all that it has looked at.
        options: of PyTorch's compiler (`_inductor.list_options()`), checked and without effect.
        disable: `model` comes back.
        name: in the report.
        recompile_limit: how many ways are kept.
        isolate_recompiles, shapes_spec: accepted.
    Returns:
        A `Compiled` for a function, an `OptimizedModule` for a module, or a decorator.
    Raises:
        TypeError: `model` cannot be called.
        RuntimeError: both `mode` and `options` are given, or options that there are not.
        ValueError: an unknown mode or backend.

    >>> @dynograd.compile
    ... def double(x):
    ...     return 2 * x
    >>> [double(tensor(float(k))).item() for k in range(4)]
    [0.0, 2.0, 4.0, 6.0]
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            f"compile: either mode or options can be specified, but both can't be: got {mode=}, {options=}."
        )
    if options:
        check_options(options)
    if mode is not None and mode not in MODES:
        raise ValueError(f"compile: expected a mode out of {', '.join(MODES)}, got {mode!r}.")
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
            name=name,
            recompile_limit=recompile_limit,
        )
    if not callable(model):
        raise TypeError(f"compile: expected a function or module, got {type(model).__name__} ({model!r}).")
    if disable or chosen_backend("compile", backend) in EAGER_BACKENDS or _is_step_of_optimizer(model):
        return model
    settings: dict[str, Any] = dict(
        exact=mode == "exact",
        replay=mode == "replay",
        fullgraph=fullgraph,
        name=name or "",
        most_ways=recompile_limit or 0,
        dynamic=dynamic,
    )
    if isinstance(model, Module):
        return model if isinstance(model, OptimizedModule) else OptimizedModule(model, settings)
    return model if isinstance(model, Compiled) else Compiled(model, **settings)


def _is_step_of_optimizer(function: Any) -> bool:
    from dynograd.optim.optimizer import Optimizer

    return isinstance(getattr(function, "__self__", None), Optimizer)


class OptimizedModule(Module):
    """What `compile` makes of a module: calls are compiled, all else is the module's own. `state_dict` has the prefix `_orig_mod.`.

    Args:
        mod: the module.
        settings: of `compile`.

    >>> model = dynograd.compile(dynograd.nn.Linear(2, 1))
    >>> isinstance(model, dynograd.nn.Module), list(model.state_dict())
    (True, ['_orig_mod.weight', '_orig_mod.bias'])
    """

    _orig_mod: Module

    def __init__(self, mod: Module, settings: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.__dict__["_settings"] = dict(settings or {})
        named = {**self._settings, "name": self._settings.get("name") or type(mod).__name__}
        self.__dict__["_compiled"] = Compiled(mod.__call__, **named)
        self._modules["_orig_mod"] = mod

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        mod = self.__dict__.get("_modules", {}).get("_orig_mod")
        return True if mod is None else mod.training

    @training.setter
    def training(self, value: bool) -> None:
        mod = self.__dict__.get("_modules", {}).get("_orig_mod")
        if mod is not None:
            mod.training = value

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives, compiled."""
        return self.__dict__["_compiled"](*args, **kwargs)

    def report(self) -> Report:
        """What became of the calls so far.

        Returns:
            A `Report`.
        """
        return self.__dict__["_compiled"].report()

    def graphs(self) -> tuple[Graph, ...]:
        """The record of each way through the module.

        Returns:
            A `Graph` for each; none before the module is recorded.
        """
        return self.__dict__["_compiled"].graphs()

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        mod = self.__dict__.get("_modules", {}).get("_orig_mod")
        if mod is None or name in ("training", "_orig_mod") or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._modules["_orig_mod"], name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})

    def __len__(self) -> int:
        return len(self._modules["_orig_mod"])  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        return OptimizedModule, (self._modules["_orig_mod"], self.__dict__["_settings"])


def reset() -> None:
    """Compiled functions forget their records, and begin anew.

    >>> dynograd.compiler.reset()
    """
    forget_all()


class set_stance:
    """How compiled functions behave from now on, or inside `with`, or in a function that it decorates.

    Args:
        stance: "default"; "force_eager": they run as they are written; "eager_on_recompile": what is not recorded yet runs as it is written;
            "fail_on_recompile": that is an error.
        skip_guard_eval_unsafe, force_backend: accepted.
    Raises:
        RuntimeError: an unknown stance.

    >>> with dynograd.compiler.set_stance("force_eager"):
    ...     dynograd.compile(lambda x: x + 1)(tensor(1.0))
    tensor(2.)
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance not in STANCES:
            raise RuntimeError(f"set_stance: expected a stance out of {', '.join(STANCES)}, got {stance!r}.")
        self.stance = stance
        self.before = set_stance_to(stance)

    def __enter__(self) -> None:
        set_stance_to(self.stance)

    def __exit__(self, *error: object) -> None:
        set_stance_to(self.before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        set_stance_to(self.before)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with contextlib.ExitStack() as stack:
                stack.callback(set_stance_to, set_stance_to(self.stance))
                return function(*args, **kwargs)

        return call


def mark_dynamic(
    t: Tensor,
    index: int | Sequence[int],
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: object = None,
) -> None:
    """Says that the size of a tensor's dim is another one in many calls: compiled functions then take up a size when it first comes.

    All sizes may change without it. A call whose step would have much to be made anew for a size is run as it is written when that comes for
    the first time, and with it is not; `compile(dynamic=True)` is the same for all calls.

    Args:
        t: an argument of the next calls of compiled functions.
        index: the dim, or several.
        hint_override, min, max, specialize_on: accepted.
    Raises:
        TypeError: `t` is no tensor.
        IndexError: there is no such dim.

    >>> x = dynograd.ones(3, 5)
    >>> dynograd.compiler.mark_dynamic(x, 1)
    """
    mark("mark_dynamic", t, index, True)


def maybe_mark_dynamic(t: Tensor, index: int | Sequence[int]) -> None:
    """`mark_dynamic` here, where that is a wish and no promise.

    Args:
        t: an argument of the next calls of compiled functions.
        index: the dim, or several.

    >>> dynograd.compiler.maybe_mark_dynamic(dynograd.ones(3, 5), [0, 1])
    """
    mark("maybe_mark_dynamic", t, index, True)


def mark_static(t: Tensor, index: int | Sequence[int] | None = None) -> None:
    """Says that calls with another size of a tensor's dim are recorded by themselves: no formula holds from one to the other.

    Args:
        t: an argument of the next calls of compiled functions.
        index: the dim, or several; None: all of them.
    Raises:
        TypeError: `t` is no tensor.
        IndexError: there is no such dim.

    >>> dynograd.compiler.mark_static(dynograd.ones(3, 5), 0)
    """
    mark("mark_static", t, index, False)


class TensorifyScalarRestartAnalysis(Exception):
    """What PyTorch raises inside its tracer; never raised here."""


_show_plainly(globals())
