"""Module: parameters, buffers and submodules by attribute; iteration, train and eval. `hooks.py` and `state.py` hold the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dynograd import devices, dtypes
from dynograd.errors import DtypeError
from dynograd.nn import hooks, state
from dynograd.nn.parameter import Buffer, Parameter
from dynograd.nn.places import note_place
from dynograd.tensor import Tensor

__all__ = ["Module"]


class Module(state.StateMethods, hooks.HookMethods):
    """Base of all models: assign layers, parameters and buffers as attributes, and write `forward`.

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
    _version = 1
    dump_patches = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        put = super().__setattr__
        put("training", True)
        for name in ("_parameters", "_buffers", "_modules"):
            put(name, {})
        put("_non_persistent_buffers_set", set())
        self._init_hooks()

    def forward(self, *inputs: Any) -> Any:
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function.')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._hooked or hooks.any_global:
                return self._call_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            note_place(error, self)
            raise

    # --- attributes -----------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        held = self.__dict__
        if "_parameters" in held:
            group = held["_parameters"]
            if name in group:
                return group[name]
            group = held["_modules"]
            if name in group:
                return group[name]
            group = held["_buffers"]
            if name in group:
                return group[name]
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        raise AttributeError(
            f"'{type(self).__name__}' object has no attribute '{name}': Module.__init__() was not called. Call super().__init__() first "
            f"in {type(self).__name__}.__init__."
        )

    def __setattr__(self, name: str, value: Any) -> None:
        held = self.__dict__
        parameters = held.get("_parameters")
        if isinstance(value, Parameter):
            self._need_init(parameters, "parameters")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._need_init(parameters, "modules")
            self._forget(name, keep="_modules")
            held["_modules"][name] = value
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
        elif parameters is not None and name in held["_modules"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type(value).__name__}' as child module '{name}' (nn.Module or None expected)."
                )
            held["_modules"][name] = None
        elif parameters is not None and name in held["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{type(value).__name__}' as buffer '{name}' (Tensor or None expected).")
            held["_buffers"][name] = value
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        for group in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(group, ()):
                del self.__dict__[group][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def _need_init(self, parameters: Any, what: str) -> None:
        if parameters is None:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call: call super().__init__() first.")

    def _forget(self, name: str, keep: str | None = None) -> None:
        """Removes `name` from wherever it was registered before."""
        held = self.__dict__
        held.pop(name, None)
        for group in ("_parameters", "_buffers", "_modules"):
            if group != keep:
                held[group].pop(name, None)
        held["_non_persistent_buffers_set"].discard(name)

    def _check_name(self, kind: str, name: Any) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call: call super().__init__() first.")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}.")
        if "." in name:
            raise KeyError(f"{kind} name cannot contain '.', got {name!r}. Register it on the submodule.")
        if name == "":
            raise KeyError(f"{kind} name cannot be the empty string.")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Registers a parameter under `name`; None keeps the name without one."""
        self._check_name("parameter", name)
        if hasattr(self, name) and name not in self._parameters:
            raise KeyError(f"attribute '{name}' already exists.")
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
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Registers a tensor that is no parameter; `persistent` ones are in `state_dict()`."""
        self._check_name("buffer", name)
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute '{name}' already exists.")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (Tensor or None required)."
            )
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Registers a submodule under `name`."""
        self._check_name("module", name)
        if module is not None and not isinstance(module, Module):
            raise TypeError(
                f"{type(module).__name__} is not a Module subclass: {type(self).__name__} cannot take it as '{name}'. "
                f"Pass modules one by one (*layers), or wrap a function in a Module."
            )
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists.")
        self._modules[name] = module

    register_module = add_module

    # --- iteration ------------------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their paths; each once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        for _, module in self.named_children():
            yield module

    def _named(self, group: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in getattr(module, group).items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their names; shared ones once."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters; shared ones once."""
        for _, value in self.named_parameters(recurse=recurse):
            yield value

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their names; shared ones once."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        for _, value in self.named_buffers(recurse=recurse):
            yield value

    def get_submodule(self, target: str) -> Module:
        """The module at the path `a.b.c`."""
        found: Any = self
        for name in target.split(".") if target else ():
            found = getattr(found, name, None)
            if not isinstance(found, Module):
                raise AttributeError(
                    f"{type(self).__name__} has no submodule at '{target}': '{name}' is not an nn.Module there."
                )
        return found

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the path `a.b.weight`."""
        path, _, name = target.rpartition(".")
        found = self.get_submodule(path)._parameters.get(name)
        if found is None:
            raise AttributeError(f"{type(self).__name__} has no parameter at '{target}'.")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at the path `a.b.running_mean`."""
        path, _, name = target.rpartition(".")
        found = self.get_submodule(path)._buffers.get(name)
        if found is None:
            raise AttributeError(f"{type(self).__name__} has no buffer at '{target}'.")
        return found

    # --- changes of the whole tree --------------------------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], Any]) -> Any:
        """Calls `fn` on every submodule, then on this module; returns it."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Any:
        """Sets training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: training mode is expected to be boolean, got {mode!r}.")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Any:
        """Sets evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Sets `requires_grad` of every parameter."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops (or zeroes) the gradients of every parameter."""
        for parameter in self.parameters():
            if parameter._grad is not None:
                if set_to_none:
                    parameter._grad = None
                else:
                    parameter._grad = parameter._grad.detach()
                    parameter._grad.zero_()  # type: ignore[attr-defined]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Replaces the memory of every parameter (kept as the same object), its gradient, and every buffer by `fn` of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            parameter.array = fn(parameter.detach()).data.array
            if parameter._grad is not None:
                parameter._grad = fn(parameter._grad.detach())
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Moves or converts in place: `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`. Integers keep their dtype.

        `memory_format=channels_last` reorders the memory of 4-d parameters and buffers (`channels_last_3d` of 5-d ones).
        """
        format = kwargs.pop("memory_format", None)
        dtype, device = _destination(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise DtypeError(
                f"Module.to: nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}."
            )

        def convert(one: Any) -> Any:
            converts = dtype is not None and (one.is_floating_point() or one.is_complex())
            moved = one.to(device=device, dtype=dtype if converts else None)
            fits = format is not None and moved.dim() in (4, 5) and format.rank in (0, moved.dim())
            return moved.to(memory_format=format) if fits else moved

        return self._apply(convert)

    def type(self, dst_type: Any) -> Any:
        return self._apply(lambda one: one.type(dst_type))  # type: ignore[attr-defined]

    def float(self) -> Any:
        """Converts floating parameters and buffers to float32."""
        return self._apply(lambda one: one.float() if one.is_floating_point() else one)  # type: ignore[attr-defined]

    def double(self) -> Any:
        """Converts floating parameters and buffers to float64."""
        return self._apply(lambda one: one.double() if one.is_floating_point() else one)  # type: ignore[attr-defined]

    def half(self) -> Any:
        """Converts floating parameters and buffers to float16."""
        return self._apply(lambda one: one.half() if one.is_floating_point() else one)  # type: ignore[attr-defined]

    def bfloat16(self) -> Any:
        """Converts floating parameters and buffers to bfloat16."""
        return self._apply(lambda one: one.bfloat16() if one.is_floating_point() else one)  # type: ignore[attr-defined]

    def cpu(self) -> Any:
        return self._apply(lambda one: one.cpu())

    def cuda(self, device: Any = None) -> Any:
        return self._apply(lambda one: one.cuda(device))

    def share_memory(self) -> Any:
        """Moves parameters and buffers into memory that forked processes share."""
        return self._apply(lambda one: one.share_memory_())

    # --- text -----------------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands in the parentheses of the printed module."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = []
        for name, module in self._modules.items():
            text = repr(module).replace("\n", "\n  ")
            children.append(f"({name}): {text}")
        if not children:
            if len(lines) <= 1:
                return f"{self._get_name()}({extra})"
        inner = "\n  ".join(lines + children)
        return f"{self._get_name()}(\n  {inner}\n)"

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[0].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _destination(*args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> tuple[Any, Any]:
    """(dtype, device) of the arguments of `to`; None where not named."""
    for one in (*args, *[kwargs[name] for name in ("tensor", "other") if name in kwargs]):
        if isinstance(one, Tensor):
            dtype, device = one.dtype, one.device
        elif isinstance(one, dtypes.dtype):
            dtype = one
        elif isinstance(one, (str, int, devices.device)) and not isinstance(one, bool):
            device = one
        elif one is not None and not isinstance(one, bool):
            raise TypeError(f"Module.to: expected a dtype, a device or a Tensor, got {one!r}.")
    return (None if dtype is None else dtypes.as_dtype(dtype)), device
