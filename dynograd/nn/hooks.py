"""Hooks of modules: functions run before and after forward and backward, and around state_dict. A module without any pays nothing.

A module keeps its hooks in dicts under PyTorch's names (`_forward_hooks`, ...), number -> function, because programs look there.
"""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.errors import hands_on, user_level
from dynograd.nn.backward_hooks import BackwardWatch
from dynograd.ops.readers import CALLS
from dynograd.tensor.tensor import RemovableHandle

__all__ = [
    "HookMethods",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_global_forward_hooks: dict[int, Any] = OrderedDict()
_global_forward_hooks_always_called: dict[int, bool] = OrderedDict()
_global_forward_hooks_with_kwargs: dict[int, bool] = OrderedDict()
_global_forward_pre_hooks: dict[int, Any] = OrderedDict()
_global_backward_hooks: dict[int, Any] = OrderedDict()
_global_backward_pre_hooks: dict[int, Any] = OrderedDict()
_global_parameter_registration_hooks: dict[int, Any] = OrderedDict()
_global_buffer_registration_hooks: dict[int, Any] = OrderedDict()
_global_module_registration_hooks: dict[int, Any] = OrderedDict()

any_global: dict[str, bool] = {}
"""Not empty while a hook of all modules waits for calls."""

HOOKS = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)

CALL_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def before_change() -> None:
    """Hooks or the mode of a module are about to change: calls that an `autobatch` scope has recorded were made without that."""
    if MODES.recorder is not None:
        MODES.recorder.before_change()


class CallHooks(OrderedDict):
    """A module's hooks of calls. Modules note that they have none, and go by that until `note_change` is called."""

    __slots__ = ()

    def __setitem__(self, key: Any, hook: Any) -> None:
        before_change()
        super().__setitem__(key, hook)
        CALLS.note_change()


class _Handle(RemovableHandle):
    """Removes a hook, and what `marks` says of it."""

    __slots__ = ("marks",)

    def __init__(self, hooks: dict, hook: Any, *marks: dict, first: bool = False) -> None:
        before_change()
        super().__init__(hooks, hook)
        if first:
            hooks.move_to_end(self.id, last=False)  # type: ignore[attr-defined]
        self.marks = marks
        for mark in marks:
            mark[self.id] = True

    def remove(self) -> None:
        before_change()
        super().remove()
        for mark in self.marks:
            mark.pop(self.id, None)


class _GlobalHandle(_Handle):
    """Also tells calls whether any hook of all modules is left."""

    __slots__ = ()

    def __init__(self, hooks: dict, hook: Any, *marks: dict) -> None:
        super().__init__(hooks, hook, *marks)
        _note_global()

    def remove(self) -> None:
        super().remove()
        _note_global()


def _note_global() -> None:
    any_global.clear()
    if _global_forward_hooks or _global_forward_pre_hooks or _global_backward_hooks or _global_backward_pre_hooks:
        any_global["any"] = True
    CALLS.note_change()


class _WithModule:
    """A hook that is called with its module first, which has it and which it does not keep alive."""

    def __init__(self, hook: Any, module: Any) -> None:
        self.hook, self.module = hook, weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        return self.hook(self.module(), *args)

    def __reduce__(self) -> tuple[type[_WithModule], tuple[Any, Any]]:  # copies of the module have hooks of their own
        return _WithModule, (self.hook, self.module())


class HookMethods:
    """The part of Module that registers and runs hooks.

    >>> isinstance(dynograd.nn.Linear(2, 1), dynograd.nn.hooks.HookMethods)
    True
    """

    _forward_hooks: dict[int, Any]
    _forward_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_always_called: dict[int, bool]
    _forward_pre_hooks: dict[int, Any]
    _forward_pre_hooks_with_kwargs: dict[int, bool]
    _backward_hooks: dict[int, Any]
    _backward_pre_hooks: dict[int, Any]
    _is_full_backward_hook: bool | None = None
    _state_dict_hooks: dict[int, Any]
    _state_dict_pre_hooks: dict[int, Any]
    _load_state_dict_pre_hooks: dict[int, Any]
    _load_state_dict_post_hooks: dict[int, Any]

    def register_forward_pre_hook(
        self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args)` before forward; what it returns replaces the arguments.

        Args:
            hook: returns None, a tuple of arguments, or one argument.
            prepend: run it before the hooks that are there.
            with_kwargs: call `hook(module, args, kwargs)`; it returns None or `(args, kwargs)`.
        Returns:
            a handle, whose `remove()` takes the hook away.
        Raises:
            RuntimeError: in a call: a hook with kwargs that returns something else.

        >>> layer = dynograd.nn.Identity()
        >>> handle = layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        >>> layer(tensor([1.0]))
        tensor([2.])
        """
        marks = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return _Handle(self._forward_pre_hooks, hook, *marks, first=prepend)

    def register_forward_hook(
        self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args, output)` after forward; what it returns, unless it is None, replaces the output.

        Args:
            hook: returns None or the new output.
            prepend: run it before the hooks that are there.
            with_kwargs: call `hook(module, args, kwargs, output)`.
            always_call: call it also when forward or a hook before it raises; `output` is None then.
        Returns:
            a handle, whose `remove()` takes the hook away.

        >>> shapes = []
        >>> layer = dynograd.nn.Linear(2, 1)
        >>> handle = layer.register_forward_hook(lambda module, args, output: shapes.append(output.shape))
        >>> y = layer(dynograd.ones(3, 2))
        >>> handle.remove()
        >>> shapes
        [dynograd.Size([3, 1])]
        """
        marks = [self._forward_hooks_with_kwargs] if with_kwargs else []
        marks += [self._forward_hooks_always_called] if always_call else []
        return _Handle(self._forward_hooks, hook, *marks, first=prepend)

    def register_full_backward_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` when backward has passed the module.

        Args:
            hook: gets tuples of the gradients of the module's inputs and outputs, None where there is none; returns
                None or a new grad_input.
            prepend: run it before the hooks that are there.
        Returns:
            a handle, whose `remove()` takes the hook away.

        >>> layer = dynograd.nn.ReLU()
        >>> handle = layer.register_full_backward_hook(lambda module, grad_input, grad_output: print(grad_input[0]))
        >>> layer(tensor([-1.0, 2.0], requires_grad=True)).sum().backward()
        tensor([0., 1.])
        """
        self._is_full_backward_hook = True
        return _Handle(self._backward_hooks, hook, first=prepend)

    def register_backward_hook(self, hook: Any) -> RemovableHandle:
        """PyTorch's deprecated name; here it is `register_full_backward_hook`, whose gradients are those of the whole module.

        Args:
            hook: gets (module, grad_input, grad_output); returns None or a new grad_input.
        Returns:
            a handle, whose `remove()` takes the hook away.

        >>> layer = dynograd.nn.ReLU()
        >>> handle = layer.register_backward_hook(lambda module, grad_input, grad_output: print(grad_input[0]))
        >>> layer(tensor([-1.0, 2.0], requires_grad=True)).sum().backward()
        tensor([0., 1.])
        """
        return self.register_full_backward_hook(hook)

    def register_full_backward_pre_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_output)` before backward enters the module.

        Args:
            hook: gets a tuple of the gradients of the module's outputs; returns None or a new one.
            prepend: run it before the hooks that are there.
        Returns:
            a handle, whose `remove()` takes the hook away.

        >>> layer, x = dynograd.nn.ReLU(), tensor([-1.0, 2.0], requires_grad=True)
        >>> handle = layer.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 10,))
        >>> layer(x).sum().backward()
        >>> x.grad
        tensor([ 0., 10.])
        """
        return _Handle(self._backward_pre_hooks, hook, first=prepend)

    def register_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)` when this module's part is in the state_dict; it may change it in place.

        Args:
            hook: returns None.
        Returns:
            a handle, whose `remove()` takes the hook away.
        Raises:
            RuntimeError: in `state_dict()`: the hook returns something.

        >>> layer = dynograd.nn.Linear(2, 1)
        >>> handle = layer.register_state_dict_post_hook(lambda module, state, prefix, meta: state.pop(prefix + "bias") and None)
        >>> list(layer.state_dict())
        ['weight']
        """

        def silent(*args: Any) -> None:
            if hook(*args) is not None:
                raise RuntimeError(
                    "state_dict post-hook must return None: change the state_dict that it is given in place."
                )

        return _Handle(self._state_dict_hooks, silent)

    def _register_state_dict_hook(self, hook: Any) -> RemovableHandle:
        """As `register_state_dict_post_hook`; a dict that it returns replaces the state_dict."""
        return _Handle(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, prefix, keep_vars)` before this module's part is put in the state_dict.

        Args:
            hook: what it returns is ignored.
        Returns:
            a handle, whose `remove()` takes the hook away.

        >>> layer = dynograd.nn.Linear(2, 1)
        >>> handle = layer.register_state_dict_pre_hook(lambda module, prefix, keep_vars: print("saving", module))
        >>> _ = layer.state_dict()
        saving Linear(in_features=2, out_features=1, bias=True)
        """
        return _Handle(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)` before loading: for older names in files.

        Args:
            hook: may change `state_dict` and the three lists in place.
        Returns:
            a handle, whose `remove()` takes the hook away.

        >>> def rename(module, state, prefix, *rest):
        ...     state[prefix + "weight"] = state.pop(prefix + "w")
        >>> layer = dynograd.nn.Linear(2, 1, bias=False)
        >>> handle = layer.register_load_state_dict_pre_hook(rename)
        >>> layer.load_state_dict({"w": dynograd.ones(1, 2)})
        <All keys matched successfully>
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Any, with_module: bool = False) -> RemovableHandle:
        return _Handle(self._load_state_dict_pre_hooks, _WithModule(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, incompatible_keys)` after loading; it may change the lists of keys.

        Args:
            hook: returns None; `incompatible_keys` has `missing_keys` and `unexpected_keys`.
        Returns:
            a handle, whose `remove()` takes the hook away.
        Raises:
            AssertionError: in `load_state_dict`: the hook returns something.

        >>> layer = dynograd.nn.Linear(2, 1)
        >>> handle = layer.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
        >>> layer.load_state_dict({"weight": dynograd.ones(1, 2)})
        <All keys matched successfully>
        """
        return _Handle(self._load_state_dict_post_hooks, hook)

    # --- running --------------------------------------------------------------------------------------------------------

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        """The backward hooks of this module and of all modules: those of the whole module, and none of PyTorch's older kind."""
        return [*_global_backward_hooks.values(), *self._backward_hooks.values()], []

    def _get_backward_pre_hooks(self) -> list[Any]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    @hands_on
    def _call_with_hooks(self, args: tuple, kwargs: dict) -> Any:
        called: set[int] = set()
        output = None
        try:
            for number, hook in [*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()]:
                if number in self._forward_pre_hooks_with_kwargs:
                    changed = hook(self, args, kwargs)
                    if changed is not None:
                        if not (isinstance(changed, tuple) and len(changed) == 2):
                            raise RuntimeError(
                                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed!r}."
                            )
                        args, kwargs = changed
                else:
                    changed = hook(self, args)
                    if changed is not None:
                        args = changed if isinstance(changed, tuple) else (changed,)
            after, before = self._get_backward_hooks()[0], self._get_backward_pre_hooks()
            watch = BackwardWatch(self, before, after) if after or before else None
            output = self.forward(*(args if watch is None else watch.enter(args)), **kwargs)  # type: ignore[attr-defined]
            for number, hook in [*_global_forward_hooks.items(), *self._forward_hooks.items()]:
                called.add(number)
                changed = self._call_forward_hook(number, hook, args, kwargs, output)
                if changed is not None:
                    output = changed
        except Exception:
            self._call_always(called, args, kwargs, output)
            raise
        return output if watch is None else watch.leave(output)

    def _call_forward_hook(self, number: int, hook: Any, args: tuple, kwargs: dict, output: Any) -> Any:
        if number in self._forward_hooks_with_kwargs or number in _global_forward_hooks_with_kwargs:
            return hook(self, args, kwargs, output)
        return hook(self, args, output)

    def _call_always(self, called: set[int], args: tuple, kwargs: dict, output: Any) -> None:
        """The hooks with `always_call` that an error in forward kept from their turn."""
        always = {**_global_forward_hooks_always_called, **self._forward_hooks_always_called}
        for number, hook in [*_global_forward_hooks.items(), *self._forward_hooks.items()]:
            if number in always and number not in called:
                try:
                    self._call_forward_hook(number, hook, args, kwargs, output)
                except Exception as error:
                    warnings.warn(
                        f"forward hook with always_call=True raised {type(error).__name__}: {error}, which is silenced, as another error was "
                        f"raised in forward.",
                        stacklevel=user_level(),
                    )


# --- hooks of all modules -----------------------------------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Any) -> RemovableHandle:
    """Calls `hook(module, args)` before the forward of every module.

    Args:
        hook: returns None, a tuple of arguments, or one argument.
    Returns:
        a handle, whose `remove()` takes the hook away.

    >>> from dynograd.nn.modules.module import register_module_forward_pre_hook
    >>> handle = register_module_forward_pre_hook(lambda module, args: print(module))
    >>> y = dynograd.nn.ReLU()(tensor([1.0]))
    ReLU()
    >>> handle.remove()
    """
    return _GlobalHandle(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook: Any, *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """Calls `hook(module, args, output)` after the forward of every module.

    Args:
        hook: returns None or the new output.
        with_kwargs: call `hook(module, args, kwargs, output)`.
        always_call: call it also when forward or a hook before it raises; `output` is None then.
    Returns:
        a handle, whose `remove()` takes the hook away.

    >>> from dynograd.nn.modules.module import register_module_forward_hook
    >>> handle = register_module_forward_hook(lambda module, args, output: print(module, output))
    >>> y = dynograd.nn.ReLU()(tensor([1.0]))
    ReLU() tensor([1.])
    >>> handle.remove()
    """
    marks = [_global_forward_hooks_with_kwargs] if with_kwargs else []
    marks += [_global_forward_hooks_always_called] if always_call else []
    return _GlobalHandle(_global_forward_hooks, hook, *marks)


def register_module_full_backward_hook(hook: Any) -> RemovableHandle:
    """Calls `hook(module, grad_input, grad_output)` when backward has passed a module, whichever it is.

    Args:
        hook: returns None or a new grad_input.
    Returns:
        a handle, whose `remove()` takes the hook away.

    >>> from dynograd.nn.modules.module import register_module_full_backward_hook
    >>> handle = register_module_full_backward_hook(lambda module, grad_input, grad_output: print(module, grad_input[0]))
    >>> dynograd.nn.ReLU()(tensor([-1.0, 2.0], requires_grad=True)).sum().backward()
    ReLU() tensor([0., 1.])
    >>> handle.remove()
    """
    return _GlobalHandle(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Any) -> RemovableHandle:
    """Calls `hook(module, grad_output)` before backward enters a module, whichever it is.

    Args:
        hook: returns None or a new grad_output.
    Returns:
        a handle, whose `remove()` takes the hook away.

    >>> from dynograd.nn.modules.module import register_module_full_backward_pre_hook
    >>> handle = register_module_full_backward_pre_hook(lambda module, grad_output: print(module, grad_output[0]))
    >>> dynograd.nn.ReLU()(tensor([-1.0, 2.0], requires_grad=True)).sum().backward()
    ReLU() tensor([1., 1.])
    >>> handle.remove()
    """
    return _GlobalHandle(_global_backward_pre_hooks, hook)


def register_module_backward_hook(hook: Any) -> RemovableHandle:
    """PyTorch's deprecated name; here it is `register_module_full_backward_hook`.

    Args:
        hook: gets (module, grad_input, grad_output); returns None or a new grad_input.
    Returns:
        a handle, whose `remove()` takes the hook away.

    >>> from dynograd.nn.modules.module import register_module_backward_hook
    >>> handle = register_module_backward_hook(lambda module, grad_input, grad_output: print(module))
    >>> dynograd.nn.ReLU()(tensor([-1.0, 2.0], requires_grad=True)).sum().backward()
    ReLU()
    >>> handle.remove()
    """
    return register_module_full_backward_hook(hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, parameter)` when a parameter is registered in any module.

    Args:
        hook: returns None, or what is registered instead.
    Returns:
        a handle, whose `remove()` takes the hook away.

    >>> from dynograd.nn.modules.module import register_module_parameter_registration_hook
    >>> handle = register_module_parameter_registration_hook(lambda module, name, parameter: print(name, parameter.shape))
    >>> layer = dynograd.nn.Linear(2, 1)
    weight dynograd.Size([1, 2])
    bias dynograd.Size([1])
    >>> handle.remove()
    """
    return _Handle(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, buffer)` when a buffer is registered in any module.

    Args:
        hook: returns None, or what is registered instead.
    Returns:
        a handle, whose `remove()` takes the hook away.

    >>> from dynograd.nn.modules.module import register_module_buffer_registration_hook
    >>> handle = register_module_buffer_registration_hook(lambda module, name, buffer: print(name))
    >>> layer = dynograd.nn.BatchNorm1d(2)
    running_mean
    running_var
    num_batches_tracked
    >>> handle.remove()
    """
    return _Handle(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls `hook(module, name, submodule)` when a submodule is registered in any module.

    Args:
        hook: returns None, or what is registered instead.
    Returns:
        a handle, whose `remove()` takes the hook away.

    >>> from dynograd.nn.modules.module import register_module_module_registration_hook
    >>> handle = register_module_module_registration_hook(lambda module, name, submodule: print(name, submodule))
    >>> model = dynograd.nn.Sequential(dynograd.nn.ReLU())
    0 ReLU()
    >>> handle.remove()
    """
    return _Handle(_global_module_registration_hooks, hook)
