"""Hooks of modules: functions run before and after forward and backward, and around state_dict. A module without any pays nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.tensor import RemovableHandle, Tensor

__all__ = [
    "HookMethods",
    "register_module_backward_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
]

any_global: dict[str, bool] = {}
_global_forward: dict[int, Any] = {}
_global_forward_pre: dict[int, Any] = {}
_global_backward: dict[int, Any] = {}


class _Handle(RemovableHandle):
    """Removes a hook, and tells the owner so that its fast path comes back."""

    __slots__ = ("changed",)

    def __init__(self, hooks: dict, hook: Any, changed: Callable[[], None], first: bool = False) -> None:
        super().__init__(hooks, hook)
        if first:
            rest = [(key, value) for key, value in hooks.items() if key != self.id]
            for key, value in rest:
                del hooks[key]
                hooks[key] = value
        self.changed = changed
        changed()

    def remove(self) -> None:
        super().remove()
        self.changed()


class HookMethods:
    """The part of Module that registers and runs hooks."""

    _hooked: bool
    _forward_hooks: dict[int, Any]

    def _init_hooks(self) -> None:
        put = object.__setattr__
        put(self, "_hooked", False)
        for name in (
            "_forward_hooks",
            "_forward_pre_hooks",
            "_backward_hooks",
            "_backward_pre_hooks",
            "_state_dict_hooks",
            "_state_dict_pre_hooks",
            "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks",
        ):
            put(self, name, {})

    def _changed(self) -> None:
        held = self.__dict__
        names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        held["_hooked"] = any(held[name] for name in names)

    def register_forward_pre_hook(
        self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args)` before forward; what it returns replaces the arguments."""
        return _Handle(self.__dict__["_forward_pre_hooks"], (hook, with_kwargs), self._changed, prepend)

    def register_forward_hook(
        self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args, output)` after forward; what it returns replaces the output."""
        return _Handle(self.__dict__["_forward_hooks"], (hook, with_kwargs, always_call), self._changed, prepend)

    def register_full_backward_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` when backward has passed the module; it may return a new grad_input."""
        return _Handle(self.__dict__["_backward_hooks"], hook, self._changed, prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_output)` before backward enters the module; it may return a new grad_output."""
        return _Handle(self.__dict__["_backward_pre_hooks"], hook, self._changed, prepend)

    def register_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)` when this module's part is in the state_dict."""
        return RemovableHandle(self.__dict__["_state_dict_hooks"], hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_state_dict_pre_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, prefix, keep_vars)` before this module's part is put in the state_dict."""
        return RemovableHandle(self.__dict__["_state_dict_pre_hooks"], hook)

    def register_load_state_dict_pre_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)` before loading."""

        def bound(*args: Any) -> Any:
            return hook(self, *args)

        return RemovableHandle(self.__dict__["_load_state_dict_pre_hooks"], bound)

    def _register_load_state_dict_pre_hook(self, hook: Any, with_module: bool = False) -> RemovableHandle:
        if with_module:
            return self.register_load_state_dict_pre_hook(hook)
        return RemovableHandle(self.__dict__["_load_state_dict_pre_hooks"], hook)

    def register_load_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, incompatible_keys)` after loading; it may change the lists of keys."""
        return RemovableHandle(self.__dict__["_load_state_dict_post_hooks"], hook)

    def _call_with_hooks(self, args: tuple, kwargs: dict) -> Any:
        held = self.__dict__
        for hook, with_kwargs in (*_global_forward_pre.values(), *held["_forward_pre_hooks"].values()):
            changed = hook(self, args, kwargs) if with_kwargs else hook(self, args)
            if changed is not None:
                if with_kwargs:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(
                            f"forward pre-hook with kwargs must return None or (args, kwargs), got {changed!r}."
                        )
                    args, kwargs = changed
                else:
                    args = changed if isinstance(changed, tuple) else (changed,)
        watched = held["_backward_hooks"] or held["_backward_pre_hooks"] or _global_backward
        watch = _BackwardWatch(self) if watched else None
        if watch is not None:
            args = watch.enter(args)
        try:
            output = self.forward(*args, **kwargs)  # type: ignore[attr-defined]
        except BaseException:
            for hook, with_kwargs, always in held["_forward_hooks"].values():
                if always:
                    hook(self, args, kwargs, None) if with_kwargs else hook(self, args, None)
            raise
        for hook, with_kwargs, _ in (*_global_forward.values(), *held["_forward_hooks"].values()):
            changed = hook(self, args, kwargs, output) if with_kwargs else hook(self, args, output)
            if changed is not None:
                output = changed
        return output if watch is None else watch.leave(output)


class _BackwardWatch:
    """Collects one call's gradients at the module's two borders and runs its backward hooks.

    Inputs and outputs that require grad get an identity op each; hooks on those see the gradients, so in-place ops inside the module
    are not disturbed.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.grad_output: list[Any] = []
        self.grad_input: list[Any] = []

    def enter(self, args: tuple) -> tuple:
        made = []
        for value in args:
            if isinstance(value, Tensor) and value._requires_grad:
                position = len(made)
                value = value.view_as(value)  # type: ignore[attr-defined]
                value.register_hook(lambda g, position=position: self._got_input(position, g))
                self.inputs.append(position)
            made.append(value)
        self.grad_input = [None] * len(made)
        self.left = len(self.inputs)
        return tuple(made)

    def leave(self, output: Any) -> Any:
        many = isinstance(output, (tuple, list))
        made = []
        values = list(output) if many else [output]
        self.grad_output = [None] * len(values)
        for position, value in enumerate(values):
            if isinstance(value, Tensor) and value._requires_grad:
                value = value.view_as(value)  # type: ignore[attr-defined]
                value.register_hook(lambda g, position=position: self._got_output(position, g))
                self.outputs.append(position)
            made.append(value)
        self.waiting = len(self.outputs)
        if not many:
            return made[0]
        return type(output)(*made) if hasattr(output, "_fields") else type(output)(made)

    def _got_output(self, position: int, g: Any) -> Any:
        self.grad_output[position] = g
        self.waiting -= 1
        for hook in self.module.__dict__["_backward_pre_hooks"].values():
            changed = hook(self.module, tuple(self.grad_output))
            if changed is not None:
                g = changed[position] if isinstance(changed, tuple) else changed
                self.grad_output[position] = g
        if not self.inputs and self.waiting == 0:
            self._run(None)
        return g

    def _got_input(self, position: int, g: Any) -> Any:
        self.grad_input[position] = g
        self.left -= 1
        if self.left == 0:
            changed = self._run(position)
            if changed is not None:
                return changed
        return g

    def _run(self, position: int | None) -> Any:
        new = None
        for hook in (*_global_backward.values(), *self.module.__dict__["_backward_hooks"].values()):
            changed = hook(self.module, tuple(self.grad_input), tuple(self.grad_output))
            if changed is not None:
                changed = changed if isinstance(changed, tuple) else (changed,)
                if len(changed) != len(self.grad_input):
                    raise RuntimeError(
                        f"Backward hook returned an invalid number of grad_input, got {len(changed)}, but expected {len(self.grad_input)}."
                    )
                self.grad_input = list(changed)
                new = None if position is None else changed[position]
        return new


def _global(hooks: dict, hook: Any) -> RemovableHandle:
    def changed() -> None:
        any_global.clear()
        if _global_forward or _global_forward_pre or _global_backward:
            any_global["any"] = True

    return _Handle(hooks, hook, changed)


def register_module_forward_pre_hook(hook: Any) -> RemovableHandle:
    """Calls `hook(module, args)` before the forward of every module."""
    return _global(_global_forward_pre, (hook, False))


def register_module_forward_hook(hook: Any, *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """Calls `hook(module, args, output)` after the forward of every module."""
    return _global(_global_forward, (hook, with_kwargs, always_call))


def register_module_full_backward_hook(hook: Any) -> RemovableHandle:
    """Calls `hook(module, grad_input, grad_output)` when backward has passed a module."""
    return _global(_global_backward, hook)


register_module_backward_hook = register_module_full_backward_hook
