"""Hooks of optimizers: functions run before and after `step`, `state_dict` and `load_state_dict`. Without any, `step` pays nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import chain
from typing import Any

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
    """The part of Optimizer that registers and runs hooks."""

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
        """Calls `hook(optimizer, args, kwargs)` before each step; a returned (args, kwargs) replaces what `step` is given."""
        return RemovableHandle(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` after each step."""
        return RemovableHandle(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` before `state_dict()`; with `prepend`, before the hooks registered earlier."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` after `state_dict()`; a returned dict replaces the result."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` before loading; a returned dict is loaded instead."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` after loading."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` before each step of every optimizer."""
    return RemovableHandle(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return RemovableHandle(_global_post_hooks, hook)


def with_step_hooks(function: Callable[..., Any]) -> Callable[..., Any]:
    """A class's `step` with its hooks around it; a step that calls `super().step()` runs them once."""

    @functools.wraps(function)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._step_called = True
        if self._in_step or not (
            self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks or _global_pre_hooks or _global_post_hooks
        ):
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

    step.hooked = True  # type: ignore[attr-defined]
    return step


def _register(hooks: dict[int, Any], hook: Any, prepend: bool) -> RemovableHandle:
    earlier = list(hooks.items()) if prepend else []
    handle = RemovableHandle(hooks, hook)
    for key, value in earlier:
        del hooks[key]
        hooks[key] = value
    return handle
