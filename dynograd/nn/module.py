"""Module: parameters, buffers and submodules by attribute; iteration, train and eval.

`attributes.py` (reading them), `hooks.py` (hooks), `state.py` (state_dict) and `moves.py` (dtypes and devices) hold the rest.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar

from dynograd.autograd.modes import MODES
from dynograd.errors import hands_on
from dynograd.interpreter.recorded_methods import CELLS, NOT_QUICK, NOTED, READY, Ready
from dynograd.nn import hooks, moves, state
from dynograd.nn.attributes import AttributeMethods, not_begun
from dynograd.nn.hooks import *  # noqa: F403
from dynograd.nn.hooks import (  # noqa: F401
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_pre_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
)
from dynograd.nn.parameter import Buffer, Parameter
from dynograd.nn.places import note_place
from dynograd.nn.state import _IncompatibleKeys  # noqa: F401
from dynograd.ops.readers import CALLS
from dynograd.tensor.tensor import Tensor

__all__ = ["Module", "calling_through"]


_EXTRA_STATE_KEY_SUFFIX = state._EXTRA


_Given = ParamSpec("_Given")
_Result = TypeVar("_Result", covariant=True)


class _HasForward(Protocol[_Given, _Result]):
    def forward(self, *args: _Given.args, **kwargs: _Given.kwargs) -> _Result: ...


class Module(AttributeMethods, state.StateMethods, hooks.HookMethods, moves.MoveMethods):
    """Base of all models: assign layers, parameters and buffers as attributes, and write `forward`.

    What is assigned is registered: `parameters()` lists it, `state_dict()` saves it, `to()` moves it. Calling the
    module runs `forward` and its hooks.

    Args:
        args, kwargs: none; with the class attribute `call_super_init = True` they go to the next base class.
    Raises:
        TypeError: arguments.
        AttributeError: an assignment before `super().__init__()`.

    >>> class Model(dynograd.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = dynograd.nn.Linear(2, 1)
    ...
    ...     def forward(self, x):
    ...         return self.layer(x).tanh()
    >>> Model()(dynograd.ones(3, 2)).shape
    dynograd.Size([3, 1])
    """

    training: bool
    _version: int = 1
    dump_patches = False
    call_super_init = False
    _compiled_call_impl: Callable[..., Any] | None = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        if (args or kwargs) and not self.call_super_init:
            got = repr(next(iter(kwargs))) if kwargs else f"{len(args)} positional argument(s)"
            raise TypeError(
                f"{type(self).__name__}.__init__: nn.Module takes no arguments, got {got}. Take them in your own __init__ and call "
                f"super().__init__() without any; call_super_init = True passes them on to the next base class."
            )
        attributes = self.__dict__
        attributes["training"] = True
        attributes["_parameters"], attributes["_buffers"], attributes["_modules"] = {}, {}, {}
        attributes["_non_persistent_buffers_set"] = set()
        for name in hooks.HOOKS:
            attributes[name] = hooks.CallHooks() if name in hooks.CALL_HOOKS else OrderedDict()
        attributes[READY] = _NOT_READY
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    if TYPE_CHECKING:  # a subclass writes it with parameters of its own
        forward: Callable[..., Any]
    else:

        def forward(self, *inputs: Any) -> Any:
            """What a call computes. Each class writes its own; call the module itself, `module(x)`, which runs hooks too.

            Args:
                inputs: whatever the class takes.
            Returns:
                whatever the class gives.
            Raises:
                NotImplementedError: the class has none.

            >>> dynograd.nn.ReLU().forward(tensor([-1.0, 2.0]))
            tensor([0., 2.])
            """
            raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function.')

    if TYPE_CHECKING:  # a call takes and gives what `forward` of the class does

        def __call__(self: _HasForward[_Given, _Result], *args: _Given.args, **kwargs: _Given.kwargs) -> _Result: ...

    else:

        @hands_on
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            attributes = self.__dict__
            try:
                ready = attributes["_dynograd_ready"]
                if ready.change is not CALLS.change:
                    return self._call_anew()(*args, **kwargs)
                if CALLS.scopes and ready.quick is not None and not kwargs:
                    try:
                        owner = ready.owner
                        if (owner is self or owner is attributes["_parameters"]) and ready.forward is type(
                            self
                        ).forward:
                            return ready.quick(*args)
                    except NOT_QUICK:
                        pass
                return self.forward(*args, **kwargs) if kwargs else self.forward(*args)
            except Exception as error:
                if "_forward_hooks" not in attributes:
                    raise AttributeError(not_begun(self)) from None
                if READY in attributes or error.args != (READY,):
                    note_place(error, self)
                    raise
            attributes[READY] = _NOT_READY  # it was the look-up above that failed: nothing has run
            return self(*args, **kwargs)

        _wrapped_call_impl = __call__

    def _call_anew(self) -> Callable[..., Any]:
        """What a call of a module goes on to that perhaps has hooks; those that have none note it."""
        attributes, now = self.__dict__, CALLS.change
        if self._hooked or "_compiled_call_impl" in attributes:
            return self._compiled_call_impl or self._call_impl
        if all([type(attributes[name]) is hooks.CallHooks for name in hooks.CALL_HOOKS]):
            recorder = MODES.recorder
            attributes[READY] = Ready(now) if recorder is None else recorder.ready_for(self, now)
        return self.forward

    @hands_on
    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return self._call_with_hooks(args, kwargs) if self._hooked else self.forward(*args, **kwargs)

    def compile(self, *args: object, **kwargs: object) -> None:
        """Has calls of this module, hooks included, compiled in place.

        Args:
            args, kwargs: options of `dynograd.compile`.

        >>> model = dynograd.nn.Sequential(dynograd.nn.Linear(2, 1), dynograd.nn.ReLU())
        >>> model.compile(disable=True)
        >>> model(dynograd.ones(3, 2)).shape
        dynograd.Size([3, 1])
        """
        self._compiled_call_impl = sys.modules["dynograd"].compile(self._call_impl, *args, **kwargs)

    @property
    def _hooked(self) -> bool:
        """Whether a call runs hooks: its own, or those of all modules."""
        own = self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
        return bool(own or hooks.any_global)

    # --- attributes -----------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        parameters = attributes.get("_parameters")
        if isinstance(value, Parameter):
            self._need_init(parameters, "parameters")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._need_init(parameters, "modules")
            self._forget(name, keep="_modules")
            self._put("_modules", name, value)
        elif isinstance(value, Buffer):
            self._need_init(parameters, "buffers")
            self._forget(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as parameter '{name}' of {type(self).__name__} "
                    f"(nn.Parameter or None expected). Wrap it: nn.Parameter(value)."
                )
            parameters[name] = None
        elif parameters is not None and name in attributes["_modules"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as child module '{name}' (nn.Module or None expected)."
                )
            attributes["_modules"][name] = None
        elif parameters is not None and name in attributes["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{type(value).__name__}' as buffer '{name}' (Tensor or None expected).")
            self._put("_buffers", name, value)
        else:
            super().__setattr__(name, value)
            if name in NOTED:
                CALLS.note_change()

    def __delattr__(self, name: str) -> None:
        for group in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(group, ()):
                del self.__dict__[group][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)
        if name in NOTED:
            CALLS.note_change()

    def _need_init(self, parameters: Any, what: str) -> None:
        if parameters is None:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call: call super().__init__() first.")

    def _forget(self, name: str, keep: str | None = None) -> None:
        """Removes `name` from wherever it was registered before."""
        attributes = self.__dict__
        attributes.pop(name, None)
        for group in ("_parameters", "_buffers", "_modules"):
            if group != keep:
                attributes[group].pop(name, None)
        attributes["_non_persistent_buffers_set"].discard(name)

    def _put(self, group: str, name: str, value: Any) -> None:
        """Registers `value`, or what a hook gives for it."""
        for hook in _ON_REGISTRATION[group].values():
            changed = hook(self, name, value)
            if changed is not None:
                value = changed
        self.__dict__[group][name] = value

    def _check_name(self, kind: str, name: Any, group: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call: call super().__init__() first.")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}.")
        if "." in name:
            raise KeyError(f"{kind} name cannot contain '.', got {name!r}. Register it on the submodule.")
        if name == "":
            raise KeyError(f"{kind} name cannot be the empty string.")
        if hasattr(self, name) and name not in self.__dict__[group]:
            raise KeyError(
                f"attribute '{name}' already exists in {type(self).__name__}. Choose another name, or `del` it first."
            )

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Registers a parameter under `name`, as an assignment does; None keeps the name without one.

        Args:
            name: of the attribute, without dots.
            param: a Parameter, or None.
        Raises:
            TypeError: neither a Parameter nor None, or a name that is no string.
            KeyError: a name with a dot, the empty one, or that of another attribute.
            ValueError: a tensor that has been computed from others.

        >>> layer = dynograd.nn.Identity()
        >>> layer.register_parameter("scale", dynograd.nn.Parameter(dynograd.ones(2)))
        >>> layer.register_parameter("shift", None)
        >>> [name for name, _ in layer.named_parameters()], layer.shift
        (['scale'], None)
        """
        self._check_name("parameter", name, "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (nn.Parameter or None required). "
                f"Wrap it: nn.Parameter(value)."
            )
        if param is not None and param.node is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly; "
                f"compute it in forward() instead."
            )
        if param is None:
            self._parameters[name] = None
        else:
            self._put("_parameters", name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Registers a tensor that is no parameter, such as a running mean.

        Args:
            name: of the attribute, without dots.
            tensor: a Tensor, or None.
            persistent: it is in `state_dict()`.
        Raises:
            TypeError: neither a Tensor nor None, or a name that is no string.
            KeyError: a name with a dot, the empty one, or that of another attribute.

        >>> layer = dynograd.nn.Identity()
        >>> layer.register_buffer("steps", tensor(0))
        >>> layer.steps, list(layer.state_dict())
        (tensor(0), ['steps'])
        """
        self._check_name("buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (Tensor or None required)."
            )
        self._put("_buffers", name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Registers a submodule under `name`, as an assignment does.

        Args:
            name: of the attribute, without dots.
            module: a Module, or None.
        Raises:
            TypeError: neither a Module nor None, or a name that is no string.
            KeyError: a name with a dot, the empty one, or that of another attribute.

        >>> model = dynograd.nn.Sequential()
        >>> model.add_module("activation", dynograd.nn.ReLU())
        >>> model.activation
        ReLU()
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(
                f"{type(module).__name__} is not a Module subclass: {type(self).__name__} cannot take it as '{name}'. "
                f"Pass modules one by one (*layers), or wrap a function in a Module."
            )
        self._check_name("module", name, "_modules")
        self._put("_modules", name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """`add_module` under its other name.

        Args:
            name: of the attribute, without dots.
            module: a Module, or None.
        Raises:
            TypeError, KeyError: as `add_module`.

        >>> model = dynograd.nn.Sequential()
        >>> model.register_module("activation", dynograd.nn.ReLU())
        >>> model.activation
        ReLU()
        """
        self.add_module(name, module)

    # --- iteration ------------------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their paths; each once.

        Args:
            memo: modules that are left out, a set; those that are given come to it.
            prefix: the path of this module.
            remove_duplicate: give a module that has several paths only with its first.
        Returns:
            an iterator of (path, module); this module comes first.

        >>> model = dynograd.nn.Sequential(dynograd.nn.Sequential(dynograd.nn.ReLU()), dynograd.nn.Tanh())
        >>> [name for name, _ in model.named_modules()]
        ['', '0', '0.0', '1']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once.

        Args:
            remove_duplicate: give a module that has several paths only once.
        Returns:
            an iterator of Modules; this one comes first.

        >>> model = dynograd.nn.Sequential(dynograd.nn.ReLU(), dynograd.nn.Tanh())
        >>> [type(module).__name__ for module in model.modules()]
        ['Sequential', 'ReLU', 'Tanh']
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below with their names, each once.

        Returns:
            an iterator of (name, module).

        >>> model = dynograd.nn.Sequential(dynograd.nn.ReLU(), dynograd.nn.Tanh())
        >>> list(model.named_children())
        [('0', ReLU()), ('1', Tanh())]
        """
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly below, each once.

        Returns:
            an iterator of Modules.

        >>> model = dynograd.nn.Sequential(dynograd.nn.ReLU(), dynograd.nn.Tanh())
        >>> list(model.children())
        [ReLU(), Tanh()]
        """
        for _, module in self.named_children():
            yield module

    def _named_members(
        self, get_members_fn: Any, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Names and values of what `get_members_fn(module)` gives for each module; equal ones once."""
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def _named(self, group: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        return self._named_members(lambda module: getattr(module, group).items(), prefix, recurse, remove_duplicate)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their paths; shared ones once.

        Args:
            prefix: put before all paths, with a dot.
            recurse: also those of the modules below.
            remove_duplicate: give a parameter that has several paths only with its first.
        Returns:
            an iterator of (path, Parameter).

        >>> model = dynograd.nn.Sequential(dynograd.nn.Linear(2, 1))
        >>> [name for name, _ in model.named_parameters()]
        ['0.weight', '0.bias']
        """
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, as optimizers take them; shared ones once.

        Args:
            recurse: also those of the modules below.
        Returns:
            an iterator of Parameters.

        >>> [parameter.shape for parameter in dynograd.nn.Linear(2, 1).parameters()]
        [dynograd.Size([1, 2]), dynograd.Size([1])]
        """
        for _, value in self.named_parameters(recurse=recurse):
            yield value

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their paths; shared ones once.

        Args:
            prefix: put before all paths, with a dot.
            recurse: also those of the modules below.
            remove_duplicate: give a buffer that has several paths only with its first.
        Returns:
            an iterator of (path, Tensor).

        >>> [name for name, _ in dynograd.nn.BatchNorm1d(2).named_buffers()]
        ['running_mean', 'running_var', 'num_batches_tracked']
        """
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers; shared ones once.

        Args:
            recurse: also those of the modules below.
        Returns:
            an iterator of Tensors.

        >>> list(dynograd.nn.BatchNorm1d(2).buffers())[1]
        tensor([1., 1.])
        """
        for _, value in self.named_buffers(recurse=recurse):
            yield value

    def get_submodule(self, target: str) -> Module:
        """The module at the path `a.b.c`.

        Args:
            target: names with dots between them; "" is this module.
        Returns:
            Module.
        Raises:
            AttributeError: there is none; the message names the part that is missing.

        >>> model = dynograd.nn.Sequential(dynograd.nn.Sequential(dynograd.nn.ReLU()))
        >>> model.get_submodule("0.0")
        ReLU()
        """
        module: Any = self
        for name in target.split(".") if target else ():
            module = getattr(module, name, None)
            if not isinstance(module, Module):
                raise AttributeError(
                    f"{type(self).__name__} has no submodule at '{target}': '{name}' is not an nn.Module there."
                )
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts `module` at the path `a.b.c`, in the place of what is there.

        Args:
            target: names with dots between them.
            module: the new Module.
            strict: there must be a module already.
        Raises:
            ValueError: an empty path, or what is no Module.
            AttributeError: no module above that place, or with `strict` none in it.

        >>> model = dynograd.nn.Sequential(dynograd.nn.Linear(2, 3), dynograd.nn.ReLU())
        >>> model.set_submodule("1", dynograd.nn.Tanh())
        >>> model[1]
        Tanh()
        """
        path, _, name = target.rpartition(".")
        if not name:
            raise ValueError("set_submodule: cannot set the submodule without a target name, got an empty path.")
        if not isinstance(module, Module):
            raise ValueError(f"set_submodule: module is not an nn.Module: {type(module).__name__}.")
        parent = self.get_submodule(path)
        if strict and name not in parent._modules:
            raise AttributeError(f"set_submodule: {type(parent).__name__} has no submodule {name!r} (strict=True).")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the path `a.b.weight`.

        Args:
            target: names with dots between them.
        Returns:
            Parameter.
        Raises:
            AttributeError: there is none.

        >>> dynograd.nn.Sequential(dynograd.nn.Linear(2, 1)).get_parameter("0.weight").shape
        dynograd.Size([1, 2])
        """
        path, _, name = target.rpartition(".")
        parameter = self.get_submodule(path)._parameters.get(name)
        if parameter is None:
            raise AttributeError(f"{type(self).__name__} has no parameter at '{target}'.")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at the path `a.b.running_mean`.

        Args:
            target: names with dots between them.
        Returns:
            Tensor.
        Raises:
            AttributeError: there is none.

        >>> dynograd.nn.BatchNorm1d(2).get_buffer("running_mean")
        tensor([0., 0.])
        """
        path, _, name = target.rpartition(".")
        buffer = self.get_submodule(path)._buffers.get(name)
        if buffer is None:
            raise AttributeError(f"{type(self).__name__} has no buffer at '{target}'.")
        return buffer

    # --- changes of the whole tree --------------------------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Calls `fn` on every submodule, then on this module: for initial values, for example.

        Args:
            fn: a function of a Module; what it returns is ignored.
        Returns:
            this module.

        >>> def fill(module):
        ...     if isinstance(module, dynograd.nn.Linear):
        ...         dynograd.nn.init.ones_(module.weight)
        >>> dynograd.nn.Sequential(dynograd.nn.Linear(2, 1)).apply(fill)[0].weight.detach()
        tensor([[1., 1.]])
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Sets training mode here and below: dropout drops, batch norm uses the batch's statistics.

        Args:
            mode: False sets evaluation mode.
        Returns:
            this module.
        Raises:
            ValueError: `mode` is no bool.

        >>> model = dynograd.nn.Sequential(dynograd.nn.Dropout()).eval()
        >>> model.train()[0].training
        True
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: training mode is expected to be boolean, got {mode!r}.")
        if self.training is not mode:
            hooks.before_change()
            self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Sets evaluation mode here and below: dropout passes its input on, batch norm uses its running statistics.

        Returns:
            this module.

        >>> dynograd.nn.Sequential(dynograd.nn.Dropout()).eval()[0].training
        False
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets `requires_grad` of every parameter; False freezes the module.

        Args:
            requires_grad: the new value.
        Returns:
            this module.

        >>> dynograd.nn.Linear(2, 1).requires_grad_(False).weight.requires_grad
        False
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops (or zeroes) the gradients of every parameter.

        Args:
            set_to_none: `grad` becomes None; False fills it with zeros instead.

        >>> layer = dynograd.nn.Linear(2, 1)
        >>> layer(dynograd.ones(3, 2)).sum().backward()
        >>> layer.zero_grad()
        >>> print(layer.weight.grad)
        None
        """
        for parameter in self.parameters():
            if parameter._grad is not None:
                if set_to_none:
                    parameter._grad = None
                else:
                    parameter._grad = parameter._grad.detach()
                    parameter._grad.zero_()

    # --- text -----------------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands in the parentheses of the printed module; classes with options write their own.

        Returns:
            str.

        >>> dynograd.nn.Linear(2, 1).extra_repr()
        'in_features=2, out_features=1, bias=True'
        """
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = []
        for name, module in self._modules.items():
            children.append(f"({name}): {_addindent(repr(module), 2)}")
        if not children:
            if len(lines) <= 1:
                return f"{self._get_name()}({extra})"
        inner = "\n  ".join(lines + children)
        return f"{self._get_name()}(\n  {inner}\n)"

    def _repr_html_(self) -> str:
        """For notebooks: the tree of modules, with the shapes of parameters."""
        from dynograd.nn.trees import tree_html

        return tree_html(self)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_compiled_call_impl", None)
        for name in (CELLS, READY):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in hooks.HOOKS:
            self.__dict__.setdefault(name, hooks.CallHooks() if name in hooks.CALL_HOOKS else OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    def _replicate_for_data_parallel(self) -> Any:
        """A module that shares everything with this one, and can be given other parameters."""
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        for name in (CELLS, READY):
            replica.__dict__.pop(name, None)
        for name in ("_parameters", "_buffers", "_modules"):
            replica.__dict__[name] = replica.__dict__[name].copy()
        return replica


_NOT_READY = Ready()
NOTED.update(hooks.CALL_HOOKS)


def _addindent(s_: str, numSpaces: int) -> str:
    """The text with all lines but the first moved to the right."""
    return s_.replace("\n", "\n" + " " * numSpaces)


_ON_REGISTRATION: dict[str, dict[int, Any]] = {
    "_parameters": _global_parameter_registration_hooks,
    "_buffers": _global_buffer_registration_hooks,
    "_modules": _global_module_registration_hooks,
}


@contextmanager
def calling_through(take: Callable[[Module, Callable[..., Any], tuple, dict[str, Any]], Any]) -> Iterator[None]:
    """A context in which a call of a module, in this thread, is `take(module, what the call does, args, kwargs)`: a trace sees calls.

    Args:
        take: the function that stands in for the call.

    >>> from dynograd.nn.module import calling_through
    >>> def shout(module, call, args, kwargs):
    ...     print(module)
    ...     return call(*args, **kwargs)
    >>> with calling_through(shout):
    ...     x = dynograd.nn.ReLU()(tensor([-1.0]))
    ReLU()
    """
    call, thread = Module.__call__, threading.get_ident()

    def take_call(self: Module, *args: Any, **kwargs: Any) -> object:
        if threading.get_ident() != thread:
            return call(self, *args, **kwargs)
        return take(self, lambda *args, **kwargs: call(self, *args, **kwargs), args, kwargs)

    kind: Any = Module
    kind.__call__ = take_call
    try:
        yield
    finally:
        kind.__call__ = call
