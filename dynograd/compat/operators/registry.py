"""Registered operators: their kernels by device, their gradients, and what `torch.ops.<namespace>.<name>` is.

A call binds its arguments to the schema and runs the kernel of the tensors' device inside an `autograd.Function` made for the operator,
so that gradients, second gradients, vmap, jvp and batching work as for every Function.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, Self

from dynograd import ops
from dynograd.amp import autocast, is_autocast_enabled
from dynograd.autograd.modes import MODES
from dynograd.compat.operators.schemas import Schema
from dynograd.interpreter.override_protocol import OVERRIDING, STATE, dispatch, overriding_among
from dynograd.tensor.custom_function import Function
from dynograd.tensor.tensor import Tensor
from dynograd.utils.selective_checkpoints import SELECTING

__all__ = [
    "OpOverload",
    "OpOverloadPacket",
    "below_autograd",
    "find",
    "forget",
    "namespace",
    "namespaces",
    "op_of",
    "register",
    "resolvers",
    "split_name",
]

KEYS = {"CPU": "cpu", "CUDA": "cuda", "Meta": "meta", "MPS": "mps", "XPU": "xpu", "": "all"}
KEYS |= {"CompositeExplicitAutograd": "any", "CompositeImplicitAutograd": "all"}
KEYS |= {"Autograd": "autograd", "AutogradCPU": "autograd", "AutogradCUDA": "autograd"}
KEYS |= {"AutocastCPU": "autocast cpu", "AutocastCUDA": "autocast cuda", "AutocastXPU": "autocast xpu"}
resolvers: dict[
    str, Callable[[str], Any]
] = {}  # namespace -> gives the function of an operator that is not registered, or None
near: dict[str, Callable[[str], list[str]]] = {}  # namespace -> names like one that is not there
_spaces: dict[str, Any] = {}


@contextlib.contextmanager
def below_autograd() -> Iterator[None]:
    """Kernels registered for autograd are passed over: how one calls the operator that it is the gradient of."""
    MODES.below_autograd += 1
    try:
        yield
    finally:
        MODES.below_autograd -= 1


def split_name(qualname: str) -> tuple[str, str, str]:
    """`mylib::scale.by` -> mylib, scale, by.

    Raises:
        ValueError: there is no namespace.
    """
    space, colons, rest = qualname.partition("::")
    if not colons or not space.isidentifier() or not rest or "::" in rest:
        raise ValueError(
            f"library: expected a name like 'mylib::scale', with a namespace before '::', got {qualname!r}."
        )
    name, _, overload = rest.partition(".")
    return space, name, "" if overload == "default" else overload


class Operator:
    """What is there once: copies are itself, and a pickle holds its name."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class OpOverload(Operator):
    """One operator with one schema; calling it runs it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.namespace, _, name = schema.name.partition("::")
        self._name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        self._overloadname = schema.overload_name or "default"
        self.__name__ = f"{name}.{self._overloadname}"
        self.__qualname__ = f"{self.namespace}.{self.__name__}"
        self.__module__ = f"dynograd.ops.{self.namespace}"
        self.tags: tuple[Any, ...] = ()
        self.kernels: dict[str, Any] = {}  # by device; "any" for all devices, "all" also records what it calls
        self.disabled: set[str] = set()
        self.casts: dict[str, Any] = {}
        self.no_alias = False  # outputs are checked to be new memory
        self.setup_context: Any = None
        self.backward: Any = None
        self.function = _function_of(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.overloadpacket, self._overloadname)

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        return getattr(namespace(self.namespace), self._schema.name.partition("::")[2])

    def name(self) -> str:
        return self._name

    def __str__(self) -> str:
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._schema.name.replace('::', '.')}', overload='{self._overloadname}')>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if OVERRIDING and not STATE.off:
            overriding = overriding_among((*args, *kwargs.values()))
            if overriding:
                return dispatch(self, overriding, args, kwargs)
        positional, named = self._schema.bound(args, kwargs)
        kernels = self.kernels
        if "autograd" in kernels and not MODES.below_autograd:
            return kernels["autograd"](*positional, **named)
        kind = _device_among((*positional, *named.values()))
        if kind in self.casts and is_autocast_enabled(kind):
            with autocast(kind, enabled=False):
                return self(*[_cast(argument, self.casts[kind]) for argument in positional], **named)
        if f"autocast {kind}" in kernels and is_autocast_enabled(kind):
            return kernels[f"autocast {kind}"](*positional, **named)
        kernel: Any = self.kernel_for(kind)
        if "all" in kernels and kernel is kernels["all"]:
            return kernel(*positional, **named)
        selecting = SELECTING.mode
        if selecting is not None:
            return selecting.run(self, functools.partial(self._run, kernel), tuple(positional), named)
        return self._run(kernel, *positional, **named)

    def _run(self, kernel: Any, /, *positional: Any, **named: Any) -> Any:
        packed, flat = _flattened(positional)
        results = self.function.apply(_Call(self, kernel, packed, named), *flat)
        return (
            results[0]
            if self._schema.single and self._schema.returns[0] != "Tensor[]"
            else _gathered(self._schema, results)
        )

    def kernel_for(self, kind: str) -> Any:
        """The kernel for tensors of a device.

        Raises:
            NotImplementedError: there is none.
        """
        if kind == "meta" and not self._schema.returns and kind not in self.kernels:
            return lambda *args, **kwargs: None
        for key in (kind, "any", "all"):
            if key in self.kernels and key not in self.disabled and not (key == "any" and kind == "meta"):
                return self.kernels[key]
        if kind == "meta":
            raise NotImplementedError(
                f"There was no fake impl registered for {self._name}, which says shape and dtype of the result on the device meta. "
                f"Use library.register_fake({self._name!r}) to add one."
            )
        have = ", ".join(sorted(key for key in self.kernels if not key.startswith("auto"))) or "none"
        raise NotImplementedError(
            f"Could not run '{self._name}' with arguments from the '{kind}' device: kernels are registered for {have}. "
            f"Use library.register_kernel({self._name!r}, {kind!r})."
        )


class _Call:
    """What a Function of an operator must know beside the flat arguments."""

    def __init__(self, op: OpOverload, kernel: Any, packed: list[int | None], named: dict[str, Any]) -> None:
        self.op, self.kernel, self.packed, self.named = op, kernel, packed, named
        self.counts: list[int | None] = []

    def rebuilt(self, flat: Sequence[Any]) -> list[Any]:
        return _regrouped(self.packed, flat)


def _flattened(values: Sequence[Any]) -> tuple[list[int | None], list[Any]]:
    """Values with lists of tensors laid open, and how many each list had (None: no list)."""
    packed: list[int | None] = []
    flat: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)) and any([isinstance(tensor, Tensor) for tensor in value]):
            packed.append(len(value))
            flat += value
        else:
            packed.append(None)
            flat.append(value)
    return packed, flat


def _regrouped(packed: Sequence[int | None], flat: Sequence[Any]) -> list[Any]:
    left = iter(flat)
    return [next(left) if count is None else [next(left) for _ in range(count)] for count in packed]


def _gathered(schema: Schema, results: Any) -> Any:
    if not schema.returns:
        return None
    if schema.single:
        return list(results)
    kinds, left = schema.returns, list(results)
    if "Tensor[]" not in kinds:
        return tuple(left)
    counts = left.pop()
    return tuple(_regrouped(counts, left))


def _device_among(values: Sequence[Any]) -> str:
    """The device of the first tensor; one on meta decides."""
    device = ""
    for value in values:
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, Tensor) or hasattr(type(tensor), "__dynograd_function__"):
                kind = tensor.device.type
                if kind == "meta":
                    return kind
                device = device or kind
    return device or "cpu"


def _cast(value: Any, kind: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_cast(entry, kind) for entry in value]
    return value.to(kind) if isinstance(value, Tensor) and value.is_floating_point() else value


# --- gradients -----------------------------------------------------------------------------------------------------------------


def _function_of(op: OpOverload) -> Any:
    """The `autograd.Function` of an operator: its first argument is a `_Call`, the others are laid open."""

    def forward(ctx: Any, call: _Call, *flat: Any) -> Any:
        args = call.rebuilt(flat)
        result = call.kernel(*args, **call.named)
        schema = op._schema
        outputs = _outputs(op, result)
        _check_outputs(op, call, flat, outputs)
        if op.backward is not None:
            inputs, named = schema.filled(args, call.named)
            ctx.needs_input_grad = tuple(_regrouped(call.packed, ctx.needs_input_grad[1:]))
            if op.setup_context is not None:
                if named:
                    op.setup_context(ctx, inputs, named, result)
                else:
                    op.setup_context(ctx, inputs, result)
        packed, left = _flattened(outputs)
        lists = "Tensor[]" in schema.returns
        if lists:
            packed = [len(output) if kind == "Tensor[]" else None for output, kind in zip(outputs, schema.returns)]
            left = [
                each for output, count in zip(outputs, packed) for each in (output if count is not None else (output,))
            ]
        ctx.call, ctx.output_packed = call, packed
        return (*left, packed) if lists and not schema.single else tuple(left)

    def backward(ctx: Any, *grads: Any) -> Any:
        if op.backward is None:
            raise RuntimeError(
                f"Trying to backward through {op.namespace}.{op.__name__} but no autograd formula was registered. "
                f"Please use register_autograd to add one."
            )
        call = ctx.call
        if op._schema.single and op._schema.returns[0] == "Tensor[]":
            grads = (list(grads),)
        elif "Tensor[]" in op._schema.returns:
            grads = tuple(_regrouped(ctx.output_packed, grads[:-1]))
        gradients = op.backward(ctx, *grads)
        places = len([argument for argument in op._schema.arguments if not argument.kwarg_only])
        if not isinstance(gradients, tuple) and (places == 1 or not isinstance(gradients, list)):
            gradients = (gradients,)
        if len(gradients) != places:
            raise RuntimeError(
                f"backward of {op._name} returned {len(gradients)} gradients, but its schema has {places} arguments: one for each, None for "
                f"those that have none, a list for a list of tensors. Schema: {op._schema}"
            )
        flat: list[Any] = [None]
        for g, count in zip(gradients, call.packed):
            if count is None:
                flat.append(g)
            elif g is None:
                flat += [None] * count
            elif not isinstance(g, (list, tuple)) or len(g) != count:
                raise RuntimeError(
                    f"backward of {op._name}: expected a list of {count} gradients for a list of tensors, got {g!r:.80}."
                )
            else:
                flat += g
        return tuple(flat)

    name = f"GeneratedBackwardFor_{op.namespace}_{op.__name__.replace('.', '_')}"
    function = type(name, (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})
    function.generate_vmap_rule = True  # per example, until there is a rule
    return function


def vmap_of(op: OpOverload, rule: Any) -> Any:
    """`rule(info, in_dims, *args)` as the `vmap` of the operator's Function."""

    def vmap(info: Any, in_dims: tuple, call: _Call, *flat: Any) -> Any:
        args, dims = call.rebuilt(flat), _regrouped(call.packed, in_dims[1:])
        result, out_dims = rule(info, tuple(dims), *args, **call.named)
        if isinstance(result, (list, tuple)):
            outs = out_dims if isinstance(out_dims, (list, tuple)) else [out_dims] * len(result)
            return tuple(result), tuple(outs)
        return (result,), (out_dims,)

    return vmap


def _outputs(op: OpOverload, result: Any) -> list[Any]:
    """The results as a list, one for each of the schema's."""
    schema = op._schema
    if not schema.returns:
        if result is not None:
            raise RuntimeError(
                f"{op._name}: the schema says that nothing is returned, got {type(result).__name__}. Schema: {schema}"
            )
        return []
    outputs = [result] if schema.single else result
    if not isinstance(outputs, (list, tuple)) or len(outputs) != len(schema.returns):
        count = len(outputs) if isinstance(outputs, (list, tuple)) else type(outputs).__name__
        raise RuntimeError(
            f"{op._name}: expected {len(schema.returns)} results in a tuple, got {count}. Schema: {schema}"
        )
    for output, kind in zip(outputs, schema.returns):
        fits = isinstance(output, Tensor) if kind.startswith("Tensor") else not isinstance(output, Tensor)
        if kind == "Tensor[]":
            fits = isinstance(output, (list, tuple)) and all([isinstance(each, Tensor) for each in output])
        if (
            not fits
            and not hasattr(type(output), "__dynograd_function__")
            and not (output is None and kind.endswith("?"))
        ):
            raise RuntimeError(f"{op._name}: Unable to cast {output!r:.60} to {kind}. Schema: {schema}")
    return list(outputs)


def _check_outputs(op: OpOverload, call: _Call, flat: Sequence[Any], outputs: list[Any]) -> None:
    if not op.no_alias:
        return
    seen = {_memory(tensor) for tensor in (*flat, *call.named.values()) if type(tensor) is Tensor}
    for output in _flattened(outputs)[1]:
        if type(output) is Tensor:
            memory = _memory(output)
            if memory and memory in seen:
                raise RuntimeError(
                    f"{op._name}: The output of this custom operator (1) must not also be an input to this custom operator and (2) may "
                    f"not alias any inputs to this custom operator or other returns. If y = custom_op(x) and y and x are the same Tensor, "
                    f"return x.clone(), or let it write in place, say so in mutates_args and return nothing."
                )
            seen.add(memory)


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.numel() and tensor.device.type != "meta" else 0


# --- names ---------------------------------------------------------------------------------------------------------------------


class OpOverloadPacket(Operator):
    """All overloads of an operator's name; calling it runs the first whose arguments fit."""

    def __init__(self, space: str, name: str) -> None:
        self._qualified_op_name, self.__name__ = f"{space}::{name}", name
        self.__qualname__, self.__module__ = f"{space}.{name}", f"dynograd.ops.{space}"
        self._overloads: dict[str, OpOverload] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        space, _, name = self._qualified_op_name.partition("::")
        return _packet, (space, name)

    def overloads(self) -> list[str]:
        """Their names."""
        return list(self._overloads)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        every = list(self._overloads.values())
        for overload in every[:-1]:
            try:
                overload._schema.bound(args, kwargs)
            except RuntimeError:
                continue
            return overload(*args, **kwargs)
        return every[-1](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("_overloads", ()):
            return self._overloads[name]
        if name.startswith("__"):
            raise AttributeError(name)
        have = ", ".join(self.__dict__.get("_overloads", ()))
        raise AttributeError(
            f"The underlying op of '{self.__qualname__}' has no overload name '{name}': it has {have}."
        )

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._overloads]

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.__qualname__}')>"

    def __str__(self) -> str:
        return self.__qualname__


def _packet(space: str, name: str) -> OpOverloadPacket:
    return getattr(namespace(space), name)


class _Namespace(ModuleType):
    """`torch.ops.<name>`: the operators registered there."""

    def __init__(self, name: str) -> None:
        super().__init__(f"dynograd.ops.{name}", f"Operators of the namespace {name}.")
        self.__dict__["_space"] = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        space = self.__dict__["_space"]
        operator = resolvers[space](name) if space in resolvers else None
        if operator is not None:
            self.__dict__[name] = operator
            return operator
        operators = {
            operator_name: True for operator_name, value in vars(self).items() if isinstance(value, OpOverloadPacket)
        }
        close = near[space](name) if space in near else difflib.get_close_matches(name, operators)
        if operators or space in resolvers:
            way = (
                f"Did you mean {' or '.join(close)}?"
                if close
                else f"It has {', '.join(operators)}."
                if space not in near
                else ""
            )
        else:
            spaces = ", ".join(other_space for other_space in sorted(_spaces) if _has_operators(other_space)) or "none"
            close = difflib.get_close_matches(space, [other_space for other_space in _spaces if other_space != space])
            way = f"Nothing is registered there (namespaces: {spaces}); " + (
                f"did you mean {close[0]}?" if close else "import what registers it first."
            )
        raise AttributeError(f"'_OpNamespace' '{space}' object has no attribute '{name}'. {way}".rstrip())


def _has_operators(space: str) -> bool:
    return space in resolvers or any(isinstance(value, OpOverloadPacket) for value in vars(_spaces[space]).values())


def namespace(name: str) -> Any:
    """`torch.ops.<name>`, made when it is first named."""
    if name not in _spaces:
        _spaces[name] = _Namespace(name)
    return _spaces[name]


def namespaces() -> list[str]:
    """Those in which something is registered."""
    return [space for space in sorted(_spaces) if _has_operators(space)]


def find(qualname: str) -> OpOverload:
    """The operator of a name.

    Raises:
        RuntimeError: there is none.
    """
    space, name, overload = split_name(qualname)
    packet = vars(namespace(space)).get(name)
    overloads = packet._overloads if isinstance(packet, OpOverloadPacket) else {}
    if (overload or "default") not in overloads:
        listed = [
            f"{space}::{operator}"
            for operator, value in vars(namespace(space)).items()
            if isinstance(value, OpOverloadPacket)
        ]
        close = difflib.get_close_matches(qualname, listed)
        raise RuntimeError(
            f"operator {qualname} does not exist. "
            + (
                f"Did you mean {' or '.join(close)}?"
                if close
                else "Define it first, with library.custom_op or library.define."
            )
        )
    return overloads[overload or "default"]


def op_of(op: Any) -> OpOverload:
    """The operator that a name, a `custom_op`, or what lies in torch.ops stands for.

    Raises:
        RuntimeError: there is none of that name.
        ValueError: it is none of these.
    """
    overload = getattr(op, "_opoverload", op)
    if isinstance(overload, OpOverload):
        return overload
    if isinstance(op, OpOverloadPacket):
        return next(iter(op._overloads.values()))
    if not isinstance(op, str):
        raise ValueError(
            f"library: expected the name of an operator, one of torch.ops or a custom_op, got {type(op).__name__}."
        )
    return find(op)


def register(schema: Schema, again: bool = False) -> OpOverload:
    """Puts a new operator under its name.

    Raises:
        RuntimeError: the name is taken, unless `again`.
    """
    space, name, overload = split_name(schema.name + (f".{schema.overload_name}" if schema.overload_name else ""))
    if space in resolvers or space in ops.families or space in vars(ops):
        raise RuntimeError(f"library: {schema.name}: the namespace {space} is dynograd's own. Choose another.")
    place = vars(namespace(space))
    packet = place.setdefault(name, OpOverloadPacket(space, name))
    if (overload or "default") in packet._overloads and not again:
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name multiple times. Held: "
            f"{packet._overloads[overload or 'default']._schema}. Each overload's schema is registered once; Library._destroy() takes a "
            f"library's own back."
        )
    registered = packet._overloads[overload or "default"] = OpOverload(schema)
    return registered


def forget(op: OpOverload) -> None:
    """Takes an operator out."""
    place, name = vars(namespace(op.namespace)), op._schema.name.partition("::")[2]
    packet = place.get(name)
    if isinstance(packet, OpOverloadPacket) and packet._overloads.get(op._overloadname) is op:
        del packet._overloads[op._overloadname]
        if not packet._overloads:
            del place[name]
