"""Parametrizations: a parameter computed from others by modules, whenever it is read. `parametrizations.py` has ready ones.

`module.weight` becomes a property of a class made for the module; what is learned lies in `module.parametrizations.weight`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.nn.layers.containers import ModuleDict, ModuleList
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.tensor.tensor import Tensor

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache: dict[tuple[int, str], Any] = {}
_cachings = 0


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """A context in which a parametrized tensor is computed when it is read first, and kept; as for the weights of a recurrent cell.

    >>> from dynograd.nn.utils import parametrizations, parametrize
    >>> layer = parametrizations.weight_norm(dynograd.nn.Linear(2, 2))
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _cachings
    _cachings += 1
    try:
        yield
    finally:
        _cachings -= 1
        if not _cachings:
            _cache.clear()


class ParametrizationList(ModuleList):
    """`module.parametrizations.weight`: the parametrizations of one tensor in their order, and the tensors they start from.

    Those are `original`, or `original0`, `original1`, ... when the first parametrization's `right_inverse` gives several.

    Args:
        modules: the parametrizations, at least one.
        original: the parameter or buffer that they replace; it stays the same object where there is one original.
        unsafe: whether dtype and shape may change; nothing is checked then.
    Raises:
        ValueError: no parametrization, or one that changes dtype or shape.

    >>> layer = dynograd.nn.utils.parametrizations.weight_norm(dynograd.nn.Linear(3, 2))
    >>> type(layer.parametrizations.weight).__name__, layer.parametrizations.weight.original0.shape
    ('ParametrizationList', dynograd.Size([2, 1]))
    """

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not len(modules):
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        new = module.right_inverse(new)
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor:
            _check_sequence(new)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            _check_same("When `right_inverse` outputs one tensor, it may not change the dtype", original, new, "dtype")
            _check_same(
                "When `right_inverse` outputs one tensor, it may not change the device", original, new, "device"
            )
            original.data = new.detach()
            _register(self, "original", original)
        else:
            for number, tensor in enumerate(new):
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor.detach(), original.requires_grad)
                tensor.requires_grad_(original.requires_grad)
                _register(self, f"original{number}", tensor)
        if not unsafe:
            _check_result(self(), shape, dtype, "unparametrized")

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals so that the parametrizations give `value`; an assignment to the tensor calls it.

        Args:
            value: of the tensor's shape and dtype.
        Raises:
            RuntimeError: a parametrization has no right_inverse.
            ValueError: one gives no tensors, another number of them, or another dtype.

        >>> layer = dynograd.nn.utils.parametrizations.weight_norm(dynograd.nn.Linear(3, 2))
        >>> layer.parametrizations.weight.right_inverse(dynograd.ones(2, 3))
        >>> dynograd.allclose(layer.weight, dynograd.ones(2, 3))
        True
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse, so the tensor cannot be assigned. Write "
                        f"right_inverse(value), or assign to the original."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}.")
                values, names = [value], ["original"]
            else:
                _check_sequence(value)
                values, names = list(value), [f"original{number}" for number in range(self.ntensors)]
                if len(values) != self.ntensors:
                    raise ValueError(
                        f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length "
                        f"{len(values)}."
                    )
            for name, tensor in zip(names, values):
                own = getattr(self, name)
                if tensor.dtype != own.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {tensor.dtype} while `{name}` has dtype {own.dtype}."
                    )
                own.data = tensor.detach()

    def forward(self) -> Tensor:
        """The tensor, computed from the originals.

        Returns:
            of the shape of the tensor that was replaced, unless `unsafe`.

        >>> layer = dynograd.nn.utils.parametrizations.weight_norm(dynograd.nn.Linear(3, 2))
        >>> layer.parametrizations.weight().shape
        dynograd.Size([2, 3])
        """
        first, *rest = self
        x = first(*self._originals())
        for module in rest:
            x = module(x)
        return x

    def _originals(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{number}") for number in range(self.ntensors)]


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes `module.<tensor_name>` the result of `parametrization`, a module that is called with the original tensor.

    Further ones are put on top. With a method `right_inverse(value)` it starts from today's value and can be assigned
    to; that may give a tuple, the arguments of forward. Gradients go to the originals in `module.parametrizations`.

    Args:
        module: changed in place; its class becomes a subclass of today's.
        tensor_name: of its parameter or buffer.
        parametrization: a Module.
        unsafe: the dtype and shape may change, and nothing is checked.
    Returns:
        `module`.
    Raises:
        ValueError: `module` has no such tensor, or dtype or shape change.

    >>> class Symmetric(dynograd.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = dynograd.nn.Linear(3, 3)
    >>> _ = dynograd.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> dynograd.equal(layer.weight, layer.weight.mT)
    True
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        parametrizations = module.parametrizations[tensor_name]
        if not unsafe:
            _check_addition(getattr(module, tensor_name), parametrization)
        parametrizations.append(parametrization)
        parametrizations.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.parametrizations = ModuleDict()
            _set_class(module, type(module), [tensor_name])
        else:
            _set_class(module, type(module).__bases__[0], [*module.parametrizations, tensor_name])
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"register_parametrization: Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'. It has {', '.join([*module._parameters, *module._buffers]) or 'none'}."
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether `module.<tensor_name>`, or any tensor of `module` itself, has a parametrization.

    Args:
        module: a Module.
        tensor_name: of its parameter or buffer; None is any.
    Returns:
        bool.

    >>> layer = dynograd.nn.utils.parametrizations.weight_norm(dynograd.nn.Linear(3, 2))
    >>> parametrize = dynograd.nn.utils.parametrize
    >>> parametrize.is_parametrized(layer), parametrize.is_parametrized(layer, "bias")
    (True, False)
    """
    parametrizations = module._modules.get("parametrizations")
    if not isinstance(parametrizations, ModuleDict) or not hasattr(type(module), "_parametrized_names"):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes `module.<tensor_name>` a plain parameter or buffer again; with the last one the module has its own class back.

    Args:
        module: changed in place.
        tensor_name: of its tensor.
        leave_parametrized: it keeps the computed value; otherwise it is the original one, where there is one original.
    Returns:
        `module`.
    Raises:
        ValueError: it has no parametrization, or several originals of which none could stay.

    >>> layer = dynograd.nn.utils.parametrizations.weight_norm(dynograd.nn.Linear(3, 2))
    >>> list(dynograd.nn.utils.parametrize.remove_parametrizations(layer, "weight").state_dict())
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"remove_parametrizations: Module {module} does not have a parametrization on {tensor_name}.")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        left: Any = parametrizations.original
        if leave_parametrized:
            with no_grad():
                left.data = getattr(module, tensor_name).detach()
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        left = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            f"remove_parametrizations: Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            f"sequence of tensors ({parametrizations.ntensors})."
        )
    plain = type(module).__bases__[0]
    del module.parametrizations[tensor_name]
    names = list(module.parametrizations)
    if names:
        _set_class(module, plain, names)
    else:
        del module.parametrizations
        module.__class__ = plain
    _register(module, tensor_name, left)
    return module


def type_before_parametrizations(module: Module) -> type:
    """The module's class without its parametrizations.

    Args:
        module: a Module.
    Returns:
        its class.

    >>> layer = dynograd.nn.utils.parametrizations.weight_norm(dynograd.nn.Linear(3, 2))
    >>> type(layer).__name__, dynograd.nn.utils.parametrize.type_before_parametrizations(layer).__name__
    ('ParametrizedLinear', 'Linear')
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Gives `to_module` the parametrizations of `from_module` and their originals.

    Args:
        from_module: whose parametrizations are shared.
        to_module: changed in place.
        tensor_name: of one tensor; None is all.
    Returns:
        `to_module`.

    >>> source = dynograd.nn.utils.parametrizations.weight_norm(dynograd.nn.Linear(3, 2))
    >>> target = dynograd.nn.Linear(3, 2)
    >>> target = dynograd.nn.utils.parametrize.transfer_parametrizations_and_params(source, target)
    >>> dynograd.equal(source.weight, target.weight)
    True
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        for key, value in [*source._parameters.items(), *source._buffers.items()]:
            setattr(to_module.parametrizations[name], key, value)
    return to_module


# --- the class with properties ------------------------------------------------------------------------------------------


def _set_class(module: Module, plain: type, names: list[str]) -> None:
    fields: dict[str, Any] = {name: _property(name) for name in names}
    fields |= {"_parametrized_names": tuple(names), "__getstate__": _refuse, "__module__": plain.__module__}
    if not hasattr(plain, "__deepcopy__"):
        fields["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{plain.__name__}", (plain,), fields)


def _property(name: str) -> property:
    def read(self: Any) -> Any:
        parametrizations = self.__dict__["_modules"]["parametrizations"][name]
        if not _cachings:
            return parametrizations()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self, parametrizations()  # the module too, or another one could come to its place in memory
        return _cache[key][1]

    def write(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, write, doc="Computed by its parametrizations.")


def _refuse(self: Any) -> Any:
    raise RuntimeError(
        f"pickle: Serialization of parametrized modules is only supported through state_dict(), and {type(self).__name__} is one."
    )


def _deepcopy(self: Any, memo: dict) -> Any:
    if id(self) not in memo:
        copied = memo[id(self)] = object.__new__(type(self))
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return memo[id(self)]


def _register(module: Module, name: str, value: Any) -> None:
    (module.register_parameter if isinstance(value, Parameter) else module.register_buffer)(name, value)


# --- checks -------------------------------------------------------------------------------------------------------------


def _check_sequence(value: Any) -> None:
    if not isinstance(value, Sequence):
        raise ValueError(
            f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(value).__name__}."
        )
    for number, entry in enumerate(value):
        if not isinstance(entry, Tensor):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element {number} of the sequence with "
                f"type {type(entry).__name__}."
            )


def _check_same(rule: str, original: Any, recovered: Any, what: str) -> None:
    if getattr(original, what) != getattr(recovered, what):
        raise ValueError(
            f"{rule}. original.{what}: {getattr(original, what)}, right_inverse(original).{what}: {getattr(recovered, what)}."
        )


def _check_result(result: Any, shape: Any, dtype: Any, what: str) -> None:
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    for name, expected in (("dtype", dtype), ("shape", shape)):
        actual = getattr(result, name)
        if actual != expected:
            raise ValueError(
                f"Registering a parametrization may not change the {name} of the tensor, unless the `unsafe` flag is enabled. "
                f"{what} {name}: {expected}, parametrized {name}: {actual}."
            )


def _check_addition(before: Tensor, parametrization: Any) -> None:
    after = parametrization(before)
    _check_result(after, before.shape, before.dtype, "present")
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}.")
    for name in ("dtype", "shape"):
        if getattr(back, name) != getattr(before, name):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {name} as the parametrized tensor, unless the "
                f"`unsafe` flag is enabled: {getattr(before, name)}, got {getattr(back, name)}."
            )


_show_plainly(globals())
