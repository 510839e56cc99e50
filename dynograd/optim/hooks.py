"""Hooks of optimizers: functions run before and after `step`, `state_dict` and `load_state_dict`. Without any, `step` pays nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import chain
from typing import Any, TypeVar, cast

from dynograd.autograd.modes import MODES
from dynograd.tensor.tensor import RemovableHandle

__all__ = ["HookMethods", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook", "with_step_hooks"]

_global_pre_hooks: dict[int, Any] = {}
_global_post_hooks: dict[int, Any] = {}
_KINDS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class HookMethods:
    """The part of Optimizer that registers and runs hooks.

    >>> isinstance(dynograd.optim.SGD([dynograd.zeros(2)]), dynograd.optim.hooks.HookMethods)
    True
    """

    _optimizer_step_pre_hooks: dict[int, Any]
    _optimizer_step_post_hooks: dict[int, Any]
    _optimizer_state_dict_pre_hooks: dict[int, Any]
    _optimizer_state_dict_post_hooks: dict[int, Any]
    _optimizer_load_state_dict_pre_hooks: dict[int, Any]
    _optimizer_load_state_dict_post_hooks: dict[int, Any]
    _step_called = False
    _in_step = False

    def _init_hooks(self) -> None:
        for kind in _KINDS:
            self.__dict__.setdefault(kind, {})
        cls = type(self)
        if not getattr(cls.step, "hooked", False):  # type: ignore[attr-defined]
            cls.step = with_step_hooks(cls.step)  # type: ignore[attr-defined]

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` before each step.

        Args:
            hook: returns None, or a pair (args, kwargs) in place of what `step` was called with.
        Returns:
            a handle, whose `remove()` takes the hook away.
        Raises:
            RuntimeError: in a step: the hook returns something else.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(2)])
        >>> handle = optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: print("before"))
        >>> optimizer.step()
        before
        """
        return RemovableHandle(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` after each step.

        Args:
            hook: what it returns is ignored.
        Returns:
            a handle, whose `remove()` takes the hook away.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(2)])
        >>> handle = optimizer.register_step_post_hook(lambda optimizer, args, kwargs: print("after"))
        >>> optimizer.step()
        after
        """
        return RemovableHandle(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` before `state_dict()`.

        Args:
            hook: what it returns is ignored.
            prepend: run it before the hooks registered earlier.
        Returns:
            a handle, whose `remove()` takes the hook away.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(2)])
        >>> handle = optimizer.register_state_dict_pre_hook(lambda optimizer: print("saving"))
        >>> state = optimizer.state_dict()
        saving
        """
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` after `state_dict()`.

        Args:
            hook: returns None, or a dict in place of the result.
            prepend: run it before the hooks registered earlier.
        Returns:
            a handle, whose `remove()` takes the hook away.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(2)])
        >>> handle = optimizer.register_state_dict_post_hook(lambda optimizer, state: state | {"note": "mine"})
        >>> optimizer.state_dict()["note"]
        'mine'
        """
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` before loading.

        Args:
            hook: returns None, or a dict that is loaded instead.
            prepend: run it before the hooks registered earlier.
        Returns:
            a handle, whose `remove()` takes the hook away.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(2)])
        >>> handle = optimizer.register_load_state_dict_pre_hook(lambda optimizer, state: print("loading"))
        >>> optimizer.load_state_dict(optimizer.state_dict())
        loading
        """
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` after loading.

        Args:
            hook: what it returns is ignored.
            prepend: run it before the hooks registered earlier.
        Returns:
            a handle, whose `remove()` takes the hook away.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(2)])
        >>> handle = optimizer.register_load_state_dict_post_hook(lambda optimizer: print("loaded"))
        >>> optimizer.load_state_dict(optimizer.state_dict())
        loaded
        """
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` before each step of every optimizer.

    Args:
        hook: returns None, or a pair (args, kwargs) in place of what `step` was called with.
    Returns:
        a handle, whose `remove()` takes the hook away.

    >>> from dynograd.optim.optimizer import register_optimizer_step_pre_hook
    >>> handle = register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: print(type(optimizer).__name__))
    >>> dynograd.optim.SGD([dynograd.zeros(2)]).step()
    SGD
    >>> handle.remove()
    """
    return RemovableHandle(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` after each step of every optimizer.

    Args:
        hook: what it returns is ignored.
    Returns:
        a handle, whose `remove()` takes the hook away.

    >>> from dynograd.optim.optimizer import register_optimizer_step_post_hook
    >>> handle = register_optimizer_step_post_hook(lambda optimizer, args, kwargs: print(type(optimizer).__name__))
    >>> dynograd.optim.SGD([dynograd.zeros(2)]).step()
    SGD
    >>> handle.remove()
    """
    return RemovableHandle(_global_post_hooks, hook)


def are_there(optimizer: Any) -> bool:
    """Whether a step of the optimizer runs hooks."""
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_pre_hooks
        or _global_post_hooks
    )


def all_of(optimizer: Any) -> tuple[dict[int, Any], ...]:
    """Those that a step of the optimizer runs: its own, and those of all optimizers."""
    own = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
    return *own, _global_pre_hooks, _global_post_hooks


_Step = TypeVar("_Step", bound=Callable[..., Any])


def with_step_hooks(function: _Step) -> _Step:
    """A class's `step` with its hooks around it; a step that calls `super().step()` runs them once."""

    @functools.wraps(function)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._step_called = True
        plan = MODES.plan
        if plan is not None and not self._in_step:
            return plan.step(self, functools.partial(step, self), args, kwargs)
        if MODES.closures is not None and (args or kwargs) and not self._in_step:
            args, kwargs = MODES.closures.within(args, kwargs)
        if self._in_step or not are_there(self):
            return function(self, *args, **kwargs)
        self._in_step = True
        try:
            for hook in [*_global_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()]:
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise RuntimeError(
                        f"step: the pre hook {getattr(hook, '__name__', hook)} must return None or a tuple of "
                        f"(new_args, new_kwargs), but got {changed!r}."
                    )
                args, kwargs = changed
            result = function(self, *args, **kwargs)
            for hook in list(chain(self._optimizer_step_post_hooks.values(), _global_post_hooks.values())):
                hook(self, args, kwargs)
            return result
        finally:
            self._in_step = False

    vars(step)["hooked"] = True
    return cast(_Step, step)


def _register(hooks: dict[int, Any], hook: Any, prepend: bool) -> RemovableHandle:
    earlier = list(hooks.items()) if prepend else []
    handle = RemovableHandle(hooks, hook)
    for key, value in earlier:
        del hooks[key]
        hooks[key] = value
    return handle
