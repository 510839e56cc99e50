"""`torch.library`: operators of a program's own, called as `torch.ops.<namespace>.<name>`.

There is no dispatcher of C++: a registered operator is a schema, a function for each device, and an `autograd.Function` around them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from dynograd.base.dtypes import dtype
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.base.signatures import without_private
from dynograd.compat.operators import aten, registry
from dynograd.compat.operators.checks import opcheck
from dynograd.compat.operators.registry import KEYS, OpOverload, op_of
from dynograd.compat.operators.schemas import Schema, infer_schema, parsed
from dynograd.tensor.graphs import increment_version
from dynograd.tensor.tensor import Tensor

__all__ = [
    "CustomOpDef",
    "Library",
    "classes",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

_DEVICES = ("cpu", "cuda", "meta", "mps", "xpu")


class CustomOpDef:
    """An operator made by `custom_op`: call it, or register more for it.

    Args:
        op: the operator.
        function: what it computes.

    >>> @dynograd.library.custom_op("mylib::thrice", mutates_args=())
    ... def thrice(x: Tensor) -> Tensor:
    ...     return 3 * x
    >>> type(thrice).__name__, thrice(tensor(2))
    ('CustomOpDef', tensor(6))
    """

    def __init__(self, op: OpOverload, function: Any) -> None:
        self._opoverload, self._init_fn = op, function
        self._qualname, self._namespace = op._name, op.namespace
        self._name, self._schema = op._schema.name.partition("::")[2], op._schema.text()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """A function for tensors of these devices (None: of all that have none); also as a decorator.

        Args:
            device_types: "cpu", "cuda", several, or None.
            fn: the function; without it, a decorator comes back.
        Returns:
            The function or a decorator.
        """
        return _register_kernel(self._opoverload, device_types, fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """A function that gives empty results of the right shape and dtype: it runs for tensors on the device meta.

        Args:
            fn: the function.
        Returns:
            The function.
        """
        self._opoverload.kernels["meta"] = fn
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """The gradient: `backward(ctx, *grads)` gives one for each argument; `setup_context(ctx, inputs, output)` keeps what it needs.

        Args:
            backward: a function of the context and a gradient for each result.
            setup_context: a function of the context, the arguments and the results; None keeps nothing.
        Raises:
            RuntimeError: the operator writes to its arguments.
        """
        _register_autograd(self._opoverload, backward, setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """How the operator runs under vmap: `func(info, in_dims, *args)` gives (output, out_dims); without, it runs for each example.

        Args:
            func: the function; without it, a decorator comes back.
        Returns:
            The function or a decorator.
        """
        return _register_vmap(self._opoverload, func)

    def register_autocast(self, device_type: str, cast_inputs: dtype) -> None:
        """Inside `autocast(device_type)`, floating tensors arrive as `cast_inputs`.

        Args:
            device_type: "cpu" or "cuda".
            cast_inputs: a dtype.
        """
        _register_autocast(self._opoverload, device_type, cast_inputs)

    def register_torch_dispatch(
        self, torch_dispatch_class: object, fn: Callable[..., Any] | None = None, /
    ) -> NoReturn:
        """Refuses: there is no `__torch_dispatch__`.

        Args:
            torch_dispatch_class, fn: as PyTorch has them.
        Returns:
            Nothing.
        Raises:
            NotImplementedError: always.
        """
        register_torch_dispatch(self, torch_dispatch_class, fn)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """A context in which the device's own kernel is (not) used; without it, the function of the definition runs.

        Args:
            device_type: "cpu" or "cuda".
            enabled: whether it is used.
        """
        disabled = self._opoverload.disabled
        before = set(disabled)
        (disabled.discard if enabled else disabled.add)(device_type)
        try:
            yield
        finally:
            disabled.clear()
            disabled |= before


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Sequence[Any] | None = None,
) -> Any:
    """Makes a function an operator: callable, differentiable once `register_autograd` was told how, and `torch.ops.<namespace>.<name>`.

    What the function does inside is not recorded. Its results must be new memory. Under the same name again, the newer one stands.

    Args:
        name: with a namespace, as "mylib::scale".
        fn: the function; without it, a decorator comes back.
        mutates_args: names of the tensors that it writes to, or "unknown".
        device_types: the devices that the function is for ("cpu", "cuda"); None: all.
        schema: arguments and results, "(Tensor x, float by) -> Tensor"; by default what the annotations say.
        tags: kept for compatibility.
    Returns:
        A `CustomOpDef`, or a decorator that makes one.
    Raises:
        ValueError: an annotation is missing or of no known type, or the name has no namespace.

    >>> @dynograd.library.custom_op("mylib::scale", mutates_args=())
    ... def scale(x: Tensor, by: float = 2.0) -> Tensor:
    ...     return x * by
    >>> scale.register_autograd(lambda ctx, g: (g * ctx.by, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]))
    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> dynograd.ops.mylib.scale(x, 3.0).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        space, bare, _ = registry.split_name(name)
        text = schema if schema is not None else infer_schema(function, mutates_args=mutates_args)
        parsed_schema = parsed(f"{space}::{bare}{text}")
        _check_mutated(parsed_schema, mutates_args, schema)
        op = registry.register(parsed_schema, again=True)
        op.no_alias = True
        for key in _keys(device_types):
            op.kernels[key] = _counted(op, function)
        return CustomOpDef(op, function)

    return make if fn is None else make(fn)


def triton_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: str | Iterable[str], schema: str | None = None
) -> Any:
    """`custom_op` for a function that launches Triton kernels.

    Args:
        name, fn, mutates_args, schema: as in `custom_op`.
    Returns:
        A `CustomOpDef`, or a decorator that makes one.

    >>> @dynograd.library.triton_op("mylib::half", mutates_args=())
    ... def half(x: Tensor) -> Tensor:
    ...     return x / 2
    >>> half(tensor([4.0]))
    tensor([2.])
    """
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: object, /) -> Any:
    """The kernel itself.

    Args:
        triton_kernel: a kernel.
    Returns:
        The kernel, as it is.

    >>> dynograd.library.wrap_triton(len) is len
    True
    """
    return triton_kernel


def _check_mutated(parsed_schema: Schema, mutates_args: Any, schema: str | None) -> None:
    if schema is not None and mutates_args != "unknown":
        marked = {argument.name for argument in parsed_schema.arguments if argument.is_write}
        if marked != set(mutates_args):
            raise ValueError(
                f"library.custom_op: {parsed_schema.name}: mutates_args names {sorted(mutates_args)}, but the schema marks {sorted(marked)} as "
                f"written: {parsed_schema}. Write Tensor(a!) for what is written to."
            )


def _counted(op: OpOverload, function: Any) -> Any:
    """The function; what it writes to has a new version afterwards, also when NumPy or a kernel wrote."""
    written = [argument.name for argument in op._schema.arguments if argument.is_write]
    if not written:
        return function
    names = [argument.name for argument in op._schema.arguments]

    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        for name, value in {**dict(zip(names, args)), **kwargs}.items():
            if name in written:
                increment_version(
                    [
                        written_tensor
                        for written_tensor in (value if isinstance(value, (list, tuple)) else (value,))
                        if isinstance(written_tensor, Tensor)
                    ]
                )
        return result

    return call


def _keys(device_types: Any) -> list[str]:
    if device_types is None:
        return ["any"]
    kinds = [device_types] if isinstance(device_types, str) else list(device_types)
    for kind in kinds:
        if kind not in (*_DEVICES, "default"):
            raise ValueError(
                f"library: {kind!r} is no type of device: expected {', '.join(_DEVICES)}, or None for all."
            )
    return ["any" if kind == "default" else kind for kind in kinds]


# --- by name -------------------------------------------------------------------------------------------------------------------


def define(qualname: str, schema: str | None = None, *, lib: Library | None = None, tags: object = ()) -> Any:
    """Makes an operator of which `impl` gives the functions.

    Args:
        qualname: "mylib::scale".
        schema: "(Tensor x, float by) -> Tensor".
        lib: a `Library` in which it is kept.
        tags: kept for compatibility.
    Returns:
        None; without a schema a decorator, whose function's annotations say it.

    >>> dynograd.library.define("mylib::plus_two", "(Tensor x) -> Tensor")
    >>> dynograd.library.impl("mylib::plus_two", "default", lambda x: x + 2)
    >>> dynograd.ops.mylib.plus_two(tensor(1))
    tensor(3)
    """
    if isinstance(qualname, Library):  # the old form: define(lib, "scale(Tensor x) -> Tensor"), a decorator
        name = qualname.define(schema or "")
        return _decorating(None, lambda function: qualname.impl(name, function))
    if not isinstance(schema, str):
        raise TypeError(
            f"library.define: expected schema to be a text like '(Tensor x) -> Tensor', got {type(schema).__name__}."
        )
    space, bare, overload = registry.split_name(qualname)
    op = registry.register(parsed(f"{space}::{bare}{'.' * bool(overload)}{overload}{schema}"))
    if lib is not None:
        lib._made.append(op)
    return None


def impl(
    qualname: Any,
    types: str | Sequence[str],
    func: Callable[..., Any] | str | None = None,
    *,
    lib: Library | None = None,
) -> Any:
    """Gives the operator's function for devices ("cpu", "cuda", "default": all); also as a decorator.

    The old form `impl(lib, "name", "CPU")` decorates too.

    Args:
        qualname: "mylib::scale".
        types: devices, one or several.
        func: the function; without it, a decorator comes back.
        lib: a `Library` in which it is kept.
    Returns:
        A decorator, where no function is given.

    >>> dynograd.library.define("mylib::minus_two", "(Tensor x) -> Tensor")
    >>> @dynograd.library.impl("mylib::minus_two", "cpu")
    ... def minus_two(x):
    ...     return x - 2
    >>> dynograd.ops.mylib.minus_two(tensor(5))
    tensor(3)
    """
    if isinstance(qualname, Library):
        return _decorating(None, lambda function: qualname.impl(types, function, func if isinstance(func, str) else ""))
    op = op_of(qualname)
    kinds = [types] if isinstance(types, str) else list(types)
    keys = [KEYS[kind] if kind in KEYS else _keys(kind)[0] for kind in kinds]
    return _decorating(func, lambda function: op.kernels.update(dict.fromkeys(keys, _counted(op, function))))


def _decorating(function: Any, put: Callable[[Any], Any]) -> Any:
    def decorate(decorated: Any) -> Any:
        put(decorated)
        return decorated

    if function is None:
        return decorate
    put(function)
    return None


def _register_kernel(op: OpOverload, device_types: Any, func: Any) -> Any:
    keys = _keys(device_types)
    return _decorating(func, lambda kernel: op.kernels.update(dict.fromkeys(keys, _counted(op, kernel))))


def register_kernel(
    op: OpOverload | CustomOpDef | str,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Callable[..., Any]:
    """A function for tensors of these devices; also as a decorator.

    Args:
        op: the operator, or its name.
        device_types: "cpu", "cuda", several, or None: all.
        func: the function; without it, a decorator comes back.
        lib: a `Library` in which it is kept.
    Returns:
        The function or a decorator.

    >>> dynograd.library.define("mylib::times_five", "(Tensor x) -> Tensor")
    >>> @dynograd.library.register_kernel("mylib::times_five", "cpu")
    ... def times_five(x):
    ...     return 5 * x
    >>> dynograd.ops.mylib.times_five(tensor(2))
    tensor(10)
    """
    return _register_kernel(op_of(op), device_types, func)


@without_private
def register_fake(
    op: OpOverload | CustomOpDef | str,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Callable[..., Any]:
    """The function for tensors on the device meta, which gives empty results of the right shape; also as a decorator.

    Args:
        op: the operator, or its name.
        func: the function; without it, a decorator comes back.
        lib: a `Library` in which it is kept.
        allow_override: another function may be there already.
    Returns:
        The function or a decorator.

    >>> @dynograd.library.custom_op("mylib::copied", mutates_args=())
    ... def copied(x: Tensor) -> Tensor:
    ...     return x.clone()
    >>> dynograd.library.register_fake("mylib::copied", lambda x: dynograd.empty_like(x)) and None
    >>> copied(dynograd.empty(3, device="meta")).shape
    dynograd.Size([3])
    """
    overload = op_of(op)
    return _decorating(func, lambda function: overload.kernels.__setitem__("meta", function))


impl_abstract = register_fake


def _register_autograd(op: OpOverload, backward: Any, setup_context: Any) -> None:
    if op._schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {op._name} with schema {op._schema}. "
            f"Please create a functional operator and register an autograd formula for that."
        )
    if any([argument.kwarg_only and argument.kind.startswith("Tensor") for argument in op._schema.arguments]):
        raise NotImplementedError(
            f"register_autograd with kwarg-only Tensor args is not supported: {op._schema}. Make them positional."
        )
    for name, value in (("backward", backward), ("setup_context", setup_context)):
        if not callable(value) and not (name == "setup_context" and value is None):
            raise TypeError(f"library.register_autograd: {name} must be a function, got {type(value).__name__}.")
    op.backward, op.setup_context = backward, setup_context


def register_autograd(
    op: OpOverload | CustomOpDef | str,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """The operator's gradient; see `CustomOpDef.register_autograd`.

    Args:
        op: the operator, or its name.
        backward: a function of the context and a gradient for each result.
        setup_context: a function of the context, the arguments and the results.
        lib: a `Library` in which it is kept.

    >>> @dynograd.library.custom_op("mylib::seven", mutates_args=())
    ... def seven(x: Tensor) -> Tensor:
    ...     return 7 * x
    >>> dynograd.library.register_autograd("mylib::seven", lambda ctx, g: 7 * g)
    >>> x = tensor(1.0, requires_grad=True)
    >>> dynograd.autograd.grad(seven(x), x)
    (tensor(7.),)
    """
    _register_autograd(op_of(op), backward, setup_context)


def _register_vmap(op: OpOverload, func: Any) -> Any:
    def put(rule: Any) -> None:
        op.function.vmap = staticmethod(registry.vmap_of(op, rule))
        op.function.generate_vmap_rule = False

    return _decorating(func, put)


def register_vmap(
    op: OpOverload | CustomOpDef | str, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None
) -> Callable[..., Any]:
    """How the operator runs under vmap; see `CustomOpDef.register_vmap`.

    Args:
        op: the operator, or its name.
        func: the function; without it, a decorator comes back.
        lib: a `Library` in which it is kept.
    Returns:
        The function or a decorator.

    >>> @dynograd.library.custom_op("mylib::eight", mutates_args=())
    ... def eight(x: Tensor) -> Tensor:
    ...     return 8 * x
    >>> @dynograd.library.register_vmap("mylib::eight")
    ... def eight_of_all(info, in_dims, x):
    ...     return 8 * x, in_dims[0]
    >>> dynograd.vmap(eight)(tensor([1, 2]))
    tensor([ 8, 16])
    """
    return _register_vmap(op_of(op), func)


def _register_autocast(op: OpOverload, device_type: str, cast_inputs: Any) -> None:
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"library.register_autocast: Unknown device type: {device_type!r}. Expected 'cpu' or 'cuda'.")
    op.casts[device_type] = cast_inputs


def register_autocast(
    op: OpOverload | CustomOpDef | str, device_type: str, cast_inputs: dtype, /, *, lib: Library | None = None
) -> None:
    """Inside `autocast(device_type)`, floating tensors arrive as `cast_inputs`.

    Args:
        op: the operator, or its name.
        device_type: "cpu" or "cuda".
        cast_inputs: a dtype.
        lib: a `Library` in which it is kept.

    >>> @dynograd.library.custom_op("mylib::nine", mutates_args=())
    ... def nine(x: Tensor) -> Tensor:
    ...     return 9 * x
    >>> dynograd.library.register_autocast("mylib::nine", "cpu", dynograd.bfloat16)
    >>> with dynograd.autocast("cpu"):
    ...     nine(tensor(1.0)).dtype
    dynograd.bfloat16
    """
    _register_autocast(op_of(op), device_type, cast_inputs)


def register_torch_dispatch(
    op: OpOverload | CustomOpDef | str,
    torch_dispatch_class: object,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> NoReturn:
    """Refuses: there is no `__torch_dispatch__`.

    Args:
        op, torch_dispatch_class, func, lib: as PyTorch has them.
    Returns:
        Nothing.
    Raises:
        NotImplementedError: always.

    >>> dynograd.library.register_torch_dispatch("aten::add", object)
    Traceback (most recent call last):
        ...
    NotImplementedError: library.register_torch_dispatch: there is no __torch_dispatch__ here. Subclasses of Tensor take operators over with
    __torch_function__.
    """
    raise NotImplementedError(
        "library.register_torch_dispatch: there is no __torch_dispatch__ here. Subclasses of Tensor take operators over with "
        "__torch_function__."
    )


def get_ctx() -> NoReturn:
    """Refuses: results whose shape depends on values have none on the device meta.

    Raises:
        NotImplementedError: always.
    Returns:
        Nothing.

    >>> dynograd.library.get_ctx()
    Traceback (most recent call last):
        ...
    NotImplementedError: library.get_ctx: sizes that depend on values have no symbols here. Run the operator on values.
    """
    raise NotImplementedError(
        "library.get_ctx: sizes that depend on values have no symbols here. Run the operator on values."
    )


def fallthrough_kernel(*args: object, **kwargs: object) -> NoReturn:
    """Refuses to run; given to `Library.impl`, it takes the key's function out.

    Args:
        *args, **kwargs: not used.
    Returns:
        Nothing.
    Raises:
        NotImplementedError: when it is called.

    >>> dynograd.library.fallthrough_kernel()
    Traceback (most recent call last):
        ...
    NotImplementedError: library.fallthrough_kernel: it stands for no function; give it to Library.impl.
    """
    raise NotImplementedError("library.fallthrough_kernel: it stands for no function; give it to Library.impl.")


# --- Library -------------------------------------------------------------------------------------------------------------------


class Library:
    """A namespace to define operators in, or to give functions to those of another.

    Args:
        ns: the namespace, "mylib".
        kind: "DEF" (one for each namespace), "FRAGMENT" or "IMPL".
        dispatch_key: for which key `impl` takes functions, unless it is told.

    >>> lib = dynograd.library.Library("mine", "DEF")
    >>> lib.define("twice(Tensor x) -> Tensor")
    'twice'
    >>> lib.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
    >>> dynograd.ops.mine.twice(tensor([1.0]))
    tensor([2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported library kind: {kind!r}. Expected 'DEF', 'FRAGMENT' or 'IMPL'.")
        if ns in registry.resolvers:
            raise ValueError(
                f"library.Library: {ns} is a reserved namespace: what an op of dynograd does is not changed from outside. "
                f"Define an operator of your own, or let a subclass take it over with __torch_function__."
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._made: list[OpOverload] = []
        self._given: set[tuple[OpOverload, str]] = set()

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: object = ()) -> str:
        """Makes an operator, "scale(Tensor x, float by) -> Tensor"; gives its name.

        Args:
            schema: name, arguments and results.
            alias_analysis, tags: kept for compatibility.
        Returns:
            The name.
        """
        parsed_schema = parsed(schema, self.ns)
        if parsed_schema.name == "" or "::" in schema.partition("(")[0]:
            raise RuntimeError(
                f"library.define: {schema!r} needs a name before '(', without a namespace: the library has one ({self.ns})."
            )
        if self.kind == "IMPL":
            raise RuntimeError(
                f"library.define: {self!r} is of kind IMPL, which only gives functions. Use 'DEF' or 'FRAGMENT'."
            )
        self._made.append(registry.register(parsed_schema))
        return schema.partition("(")[0].strip()

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any] | None,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Gives an operator's function for a key: "CPU", "CUDA", "Meta", "CompositeExplicitAutograd" (all devices, not recorded), "Autograd"
        or "CompositeImplicitAutograd" (recorded, op by op; the default).

        Args:
            op_name: the operator, or its name.
            fn: the function.
            dispatch_key: one of these keys.
            with_keyset: the function takes a set of keys first.
            allow_override: another function may be there already.
        Raises:
            RuntimeError: the key is unknown, or has a function already.
        """
        key = dispatch_key or self.dispatch_key
        if key not in KEYS:
            raise RuntimeError(
                f"could not parse dispatch key: {key}. Known are {', '.join(known for known in KEYS if known)}."
            )
        if with_keyset:
            raise NotImplementedError("Library.impl: with_keyset=True is not supported: there are no sets of keys.")
        name = op_name if isinstance(op_name, str) else op_of(op_name)._name
        op = registry.find(name if "::" in name else f"{self.ns}::{name}")
        if fn is fallthrough_kernel:
            op.kernels.pop(KEYS[key], None)
            return
        if (op, KEYS[key]) in self._given and not allow_override:
            raise RuntimeError(
                f"This is not allowed since there's already a kernel registered from python overriding {name}'s behavior for {key} dispatch "
                f"key and {self.ns} namespace."
            )
        self._given.add((op, KEYS[key]))
        op.kernels[KEYS[key]] = _counted(op, fn)

    def _register_fake(self, op_name: str, fn: Any, _stacklevel: int = 1, *, allow_override: bool = False) -> None:
        self.impl(op_name, fn, "Meta", allow_override=True)

    def _destroy(self) -> None:
        """Takes out what the library defined and gave."""
        for op in self._made:
            registry.forget(op)
        for op, key in self._given:
            op.kernels.pop(key, None)
        self._made, self._given = [], set()


# --- libraries of C++ ----------------------------------------------------------------------------------------------------------


class _Classes:
    """`torch.classes`: classes of libraries of C++, of which none can be loaded."""

    loaded_libraries: frozenset[str] = frozenset()

    def load_library(self, path: str) -> None:
        """Refuses."""
        raise NotImplementedError(_no_cpp("classes", path))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _ClassesOf(name)


class _ClassesOf:
    """`torch.classes.<name>`, which is empty."""

    def __init__(self, name: str) -> None:
        self._space = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise RuntimeError(
            f"Tried to instantiate class '{self._space}.{name}', but it does not exist: classes come from libraries of C++, which are not "
            f"loaded here."
        )


def _no_cpp(place: str, path: Any) -> str:
    return (
        f"{place}.load_library: {str(path)!r} would be a library compiled against PyTorch's C++, which is not loaded. Write the operator in "
        f"Python with library.custom_op; inside, NumPy, Numba and Triton compute."
    )


_OWN = {"torchvision/_C": "detection", "torchvision/_C_stable": "detection"}
"""Libraries of packages whose operators are here: end of the path without its suffix -> the file of `compat.operators` that has them."""


def load_library(path: Any) -> None:
    """`torch.ops.load_library`: makes those operators of torchvision that are here (`nms`, `roi_align` and their like), and refuses others.

    Packages that can go on without their library do, as with PyTorch where it cannot be loaded.

    Raises:
        OSError: for all other libraries.
    """
    place = Path(path)
    own = _OWN.get(f"{place.parent.name}/{place.name.partition('.')[0]}")
    if own is None:
        raise OSError(_no_cpp("ops", path))
    importlib.import_module(f"dynograd.compat.operators.{own}").register()


classes = _Classes()


def place_of(library: Any, name: str) -> Any:
    """What `torch.ops.<name>` is; `library` is the top level."""
    registry.resolvers["aten"], registry.near["aten"] = (
        functools.partial(aten.find, library),
        functools.partial(aten.near, library),
    )
    registry.resolvers.update(dynograd=aten.find_own)
    if name == "load_library":
        return load_library
    if name == "loaded_libraries":
        return frozenset()
    return registry.namespace(name)


_show_plainly(globals())
