"""The arguments of a program: which tensors are its inputs, and whether those of a call are as they have to be."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping
from typing import Any

from dynograd.arrays import ndarray
from dynograd.base import dtypes
from dynograd.errors import DeviceError, DtypeError, ProgramError, ShapeError
from dynograd.export.derived_dims import derived
from dynograd.export.dynamic_shapes import Bounds
from dynograd.export.encoding import built, reader
from dynograd.interpreter import TENSORS
from dynograd.tensor.tensor import Tensor

__all__ = ["Arguments", "Input"]


class Input:
    """What a tensor among the arguments has to be.

    Args:
        name: "x", "batch[0]".
        dtype: its name.
        shape: of each axis a size or the name of a dim. Of a ragged one the axes of its values, with the dim of all elements in its place.
        ragged: of a ragged one [which dim is ragged, the dims that stand for the number of rows, of elements, of those of the longest row].
    """

    __slots__ = ("dtype", "name", "ragged", "shape")

    def __init__(self, name: str, dtype: str, shape: list[int | str], ragged: list[Any] | None = None) -> None:
        self.name, self.dtype, self.shape, self.ragged = name, dtype, shape, ragged

    @classmethod
    def of_json(cls, value: Any, dims: Mapping[str, Bounds]) -> Input:
        """Reads one.

        Raises:
            ProgramError: it is none.
        """
        try:
            name, dtype, shape, ragged = value
            names = [_root_of(size) for size in shape if type(size) is not int] + (ragged[1:] if ragged else [])
            fits = (
                type(name) is str
                and isinstance(getattr(dtypes, dtype), dtypes.dtype)
                and all([size in dims for size in names])
            )
            fits = fits and (
                ragged is None or (len(ragged) == 4 and type(ragged[0]) is int and 0 < ragged[0] <= len(shape))
            )
        except (TypeError, ValueError, AttributeError, IndexError):
            fits = False
        if not fits:
            raise _damaged(f"expected an input, got {str(value)[:80]}")
        return cls(name, dtype, list(shape), ragged)

    def __str__(self) -> str:
        sizes = [str(size) for size in self.shape]
        if self.ragged:
            sizes[self.ragged[0] - 1] = "j"
            sizes.insert(0, self.ragged[1])
        return f"{self.dtype}({', '.join(sizes)})"

    def check(self, who: str, value: Any) -> Tensor:
        """The tensor.

        Raises:
            TypeError, DtypeError, DeviceError, ShapeError: it is another one.
        """
        if self.ragged:
            value = self._ragged(who, value, self.ragged[0])
        elif type(value) is ndarray:
            from dynograd.tensor.creation import as_tensor

            value = as_tensor(value)
        if not self.ragged and type(value) not in TENSORS:
            raise TypeError(f"{who}: expected a tensor for {self.name}, {self}, got {type(value).__name__}.")
        if value.dtype.name != self.dtype:
            raise DtypeError(
                f"{who}: expected {self.dtype} for {self.name}, got {value.dtype.name}. {self.name}.to(dynograd.{self.dtype}) converts it."
            )
        if value.device.type != "cpu":
            raise DeviceError(
                f"{who}: expected {self.name} on the CPU, got {value.device}. {self.name}.cpu() brings it there."
            )
        shape = self._shape_of(value)
        if len(shape) != len(self.shape):
            raise ShapeError(
                f"{who}: expected {self.name} of {len(self.shape)} dims, {self}, got {len(shape)} (shape {tuple(shape)})."
            )
        return value

    def _ragged(self, who: str, value: Any, dim: int) -> Tensor:
        from dynograd.export.ragged_parts import from_parts, is_ragged

        if isinstance(value, tuple) and len(value) == 2:
            value = from_parts(*value, dim)
        if not is_ragged(value) or value.place != dim:
            raise TypeError(
                f"{who}: expected a ragged tensor for {self.name}, {self}, or a pair (values, offsets), got {type(value).__name__}. "
                f"dynograd.ragged_tensor(rows) makes one."
            )
        return value

    def _shape_of(self, value: Any) -> tuple[int, ...]:
        return value.packed.shape if self.ragged else value.shape

    def sizes(self, value: Any) -> Iterator[tuple[str, int, str]]:
        """(name of a dim, its size, where that was seen)."""
        for axis, (name, size) in enumerate(zip(self.shape, self._shape_of(value))):
            if type(name) is str:
                where = f"axis {axis} of {self.name}" if not self.ragged else f"the elements of {self.name}"
                yield from _size_of_dim(name, size, where)
        if self.ragged:
            from dynograd.export.ragged_parts import sizes_of

            for name, size, what in zip(self.ragged[1:], sizes_of(value), ("rows", "elements", "longest row")):
                yield name, size, f"the {what} of {self.name}"

    def check_fixed(self, who: str, value: Any) -> None:
        """Raises where an axis of a fixed size has another one."""
        for axis, (expected, size) in enumerate(zip(self.shape, self._shape_of(value))):
            if type(expected) is int and size != expected:
                raise ShapeError(
                    f"{who}: expected size {expected} for axis {axis} of {self.name}, {self}, got {size} (shape {tuple(self._shape_of(value))}). "
                    f"Sizes that differ from call to call are named in dynamic_shapes when the program is exported."
                )


def _root_of(text: Any) -> str | None:
    form = derived(text) if type(text) is str else None
    return None if form is None else form.root


def _size_of_dim(text: str, size: int, where: str) -> Iterator[tuple[str, int, str]]:
    """(name, its size, where) of the dim from which the size of an axis follows."""
    form = derived(text)
    if form is None or (form.times == 1 and not form.plus):
        yield text, size, where
        return
    root = form.root_of(size)
    if root is None:
        raise ShapeError(f"expected {form} for {where}, got {size}.")
    yield form.root, root, f"{where}, which is {form}"


class Arguments:
    """The parameters of a program, and the inputs among them.

    Args:
        spec: pairs of the name of a parameter and what it was, with inputs as values.
        inputs: JSON values of the inputs.
        dims: what dims may be.
        who: begins the messages.
    """

    def __init__(self, spec: list[Any], inputs: list[Any], dims: Mapping[str, Bounds], who: str) -> None:
        self.inputs = [Input.of_json(value, dims) for value in inputs]
        self.dims, self.who, self.spec = dims, who, {}
        seen: list[int] = []
        for pair in spec:
            if type(pair) is not list or len(pair) != 2 or not _is_name(pair[0]):
                raise _damaged(f"expected an argument, got {str(pair)[:80]}")
            reader(pair[1], len(inputs), 0)  # which checks it
            self.spec[pair[0]] = pair[1]
            seen += _inputs_in(pair[1])
        if seen != list(range(len(self.inputs))) or len(self.spec) != len(spec):
            raise _damaged(f"expected {len(self.inputs)} inputs in order, got {seen[:10]}")

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, int]]:
        """The inputs of a call, and the sizes of the dims.

        Raises:
            TypeError, DtypeError, DeviceError, ShapeError: the arguments are not as they have to be.
        """
        names = list(self.spec)
        arguments = {**dict(zip(names, args)), **kwargs}
        if (
            len(args) > len(names)
            or any([name in kwargs for name in names[: len(args)]])
            or set(arguments) != set(names)
        ):
            got = [*["one by place"] * len(args), *kwargs]
            raise TypeError(f"{self.who}: expected the arguments {', '.join(names)}, got {len(got)}: {', '.join(got)}.")
        inputs: list[Any] = []
        for name, expected in self.spec.items():
            self._match(name, expected, arguments[name], inputs)
        sizes: dict[str, int] = {}
        places: dict[str, str] = {}
        for each, value in zip(self.inputs, inputs):
            each.check_fixed(self.who, value)
            for name, size, where in self._sizes_of(each, value):
                bounds = self.dims[name]
                if size < bounds.least or (bounds.most is not None and size > bounds.most):
                    raise ShapeError(f"{self.who}: expected {bounds} for {name} ({where}), got {size}.")
                if sizes.setdefault(name, size) != size:
                    raise ShapeError(
                        f"{self.who}: expected one size for {name}, got {sizes[name]} ({places[name]}) and {size} ({where})."
                    )
                places.setdefault(name, where)
        return inputs, sizes

    def _sizes_of(self, each: Input, value: Any) -> list[tuple[str, int, str]]:
        try:
            return list(each.sizes(value))
        except ShapeError as error:
            raise ShapeError(f"{self.who}: {error}") from None

    def _match(self, name: str, expected: Any, value: Any, inputs: list[Any]) -> None:
        if type(expected) is dict and "value" in expected:
            inputs.append(self.inputs[len(inputs)].check(self.who, value))
            return
        if not _inputs_in(expected):
            constant = built(expected, (), ())
            if type(value) is not type(constant) or value != constant:
                raise ProgramError(
                    f"{self.who}: expected {name}={constant!r}, with which it was exported, got {value!r}. Export it once for each."
                )
            return
        parts = expected if type(expected) is list else next(iter(expected.values()))
        if type(expected) is dict and "dict" in expected:
            keys = [built(key, (), ()) for key, _ in parts]
            if type(value) is not dict or set(value) != set(keys):
                raise TypeError(f"{self.who}: expected a dict with {keys} for {name}, got {_shown(value)}.")
            for key, (_, part) in zip(keys, parts):
                self._match(f"{name}[{key!r}]", part, value[key], inputs)
            return
        if not isinstance(value, (list, tuple)) or len(value) != len(parts):
            raise TypeError(
                f"{self.who}: expected {len(parts)} values in a list or tuple for {name}, got {_shown(value)}."
            )
        for number, (part, element) in enumerate(zip(parts, value)):
            self._match(f"{name}[{number}]", part, element, inputs)


def _is_name(value: Any) -> bool:
    """Whether a function can have a parameter of this name."""
    return type(value) is str and value.isidentifier() and not keyword.iskeyword(value)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"a dict with {list(value)[:10]}"
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, (list, tuple)) else type(value).__name__


def _inputs_in(spec: Any) -> list[int]:
    """The numbers of the inputs in an argument."""
    if type(spec) is list:
        return [number for part in spec for number in _inputs_in(part)]
    if type(spec) is dict and len(spec) == 1:
        ((kind, content),) = spec.items()
        if kind == "value":
            return [content]
        if kind in ("tuple", "dict"):
            return _inputs_in(content)
    return []


def _damaged(what: str) -> ProgramError:
    return ProgramError(f"load_program: {what}. The file is damaged, or of another dynograd: export it anew.")
