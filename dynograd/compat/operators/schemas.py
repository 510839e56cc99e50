"""What an operator takes and gives, in PyTorch's notation: `mylib::scale(Tensor x, float by=2., *, bool flip=False) -> Tensor`."""

from __future__ import annotations

import ast
import collections.abc
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dynograd.base.devices import device
from dynograd.base.dtypes import dtype
from dynograd.tensor.tensor import Tensor

__all__ = ["Argument", "Schema", "infer_schema", "parsed"]

_NUMBER = int | float | bool  # types.Number
_BASES = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    _NUMBER: "Scalar",
    dtype: "ScalarType",
    device: "Device",
}
_RETURNED = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", _NUMBER: "Scalar"}
_TAKES: dict[str, tuple[type, ...]] = {
    "Tensor": (Tensor,),
    "int": (int,),
    "SymInt": (int,),
    "float": (float, int),
    "bool": (bool,),
    "str": (str,),
    "Scalar": (int, float, complex),
    "ScalarType": (dtype, int),
    "Device": (device, str, int),
}


@dataclass(frozen=True)
class Argument:
    """One argument: `kind` is its type without marks, as `Tensor`, `SymInt[]` or `float?`."""

    name: str
    kind: str
    default_value: Any = inspect.Parameter.empty
    kwarg_only: bool = False
    mark: str = ""  # `a!` of `Tensor(a!)`: written to

    @property
    def is_write(self) -> bool:
        return self.mark.endswith("!")

    @property
    def is_tensors(self) -> bool:
        return self.kind.startswith("Tensor") and "[" in self.kind

    def has_default_value(self) -> bool:
        return self.default_value is not inspect.Parameter.empty

    def accepts(self, value: Any) -> bool:
        """Whether a value is of the argument's type; types that are not known here take anything."""
        return _accepts(self.kind, value)

    def __str__(self) -> str:
        kind = self.kind.replace("Tensor", f"Tensor({self.mark})", 1) if self.mark else self.kind
        return f"{kind} {self.name}" + (f"={_shown(self.default_value)}" if self.has_default_value() else "")


@dataclass(frozen=True)
class Schema:
    """The arguments and results of an operator."""

    name: str  # with the namespace
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]
    single: bool = True  # a single result, in no tuple

    @property
    def is_mutable(self) -> bool:
        return any([argument.is_write for argument in self.arguments])

    def __str__(self) -> str:
        return f"{self.name}{'.' * bool(self.overload_name)}{self.overload_name}{self.text()}"

    def text(self) -> str:
        """Without the name."""
        listed = [str(argument) for argument in self.arguments]
        starred = [place for place, argument in enumerate(self.arguments) if argument.kwarg_only]
        if starred:
            listed.insert(starred[0], "*")
        returned = self.returns[0] if self.single else f"({', '.join(self.returns)})"
        return f"({', '.join(listed)}) -> {returned}"

    def bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments as a kernel is called with: by place but for keyword-only ones, those left out at the end stay out.

        Raises:
            RuntimeError: too many, unknown, missing, or of a wrong type.
        """
        places = [argument for argument in self.arguments if not argument.kwarg_only]
        if len(args) > len(places):
            raise RuntimeError(
                f"{self.name}() expected at most {len(places)} positional argument(s) but received {len(args)} argument(s). "
                f"Declaration: {self}"
            )
        values = dict(zip([argument.name for argument in places], args))
        for name, value in kwargs.items():
            if name in values:
                raise RuntimeError(f"{self.name}() got multiple values for argument '{name}'. Declaration: {self}")
            if all([argument.name != name for argument in self.arguments]):
                raise RuntimeError(f"Unknown keyword argument '{name}' for operator '{self.name}'. Schema: {self}")
            values[name] = value
        for place, argument in enumerate(self.arguments):
            if argument.name in values:
                if not argument.accepts(values[argument.name]):
                    raise RuntimeError(
                        f"{self.name}() Expected a value of type '{argument.kind}' for argument '{argument.name}' but instead found type "
                        f"'{_kind_of(values[argument.name])}'.\nPosition: {place}\nDeclaration: {self}"
                    )
            elif not argument.has_default_value():
                raise RuntimeError(
                    f"{self.name}() is missing value for argument '{argument.name}'. Declaration: {self}"
                )
        last = max([place for place, argument in enumerate(places) if argument.name in values], default=-1)
        positional = [values.get(argument.name, argument.default_value) for argument in places[: last + 1]]
        return positional, {
            argument.name: values[argument.name]
            for argument in self.arguments
            if argument.kwarg_only and argument.name in values
        }

    def filled(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """`bound` arguments with all defaults."""
        places = [argument for argument in self.arguments if not argument.kwarg_only]
        rest = [argument.default_value for argument in places[len(args) :]]
        named = {
            argument.name: kwargs.get(argument.name, argument.default_value)
            for argument in self.arguments
            if argument.kwarg_only
        }
        return (*args, *rest), named


def _accepts(kind: str, value: Any) -> bool:
    if kind.endswith("?"):
        return value is None or _accepts(kind[:-1], value)
    listed = re.fullmatch(r"(.+)\[(\d*)\]", kind)
    if listed:
        if isinstance(value, (list, tuple)):
            return all([_accepts(listed[1], entry) for entry in value])
        return bool(listed[2]) and _accepts(listed[1], value)
    if kind in ("int", "SymInt", "float", "Scalar") and not isinstance(value, (int, float, complex)):
        return hasattr(value, "__index__") or (isinstance(value, Tensor) and not value.ndim)
    return kind not in _TAKES or isinstance(value, _TAKES[kind])


def _kind_of(value: Any) -> str:
    return "Tensor" if isinstance(value, Tensor) else type(value).__name__


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value + '"'
    if isinstance(value, float):
        return f"{value:g}." if value == int(value) and abs(value) < 1e6 else f"{value:g}"
    return "[" + ", ".join(map(_shown, value)) + "]" if isinstance(value, (list, tuple)) else str(value)


# --- from text -----------------------------------------------------------------------------------------------------------------

_HEAD = re.compile(
    r"\s*(?:(?P<name>[\w:]+)(?:\.(?P<overload>\w+))?)?\s*\((?P<arguments>.*)\)\s*->\s*(?P<returns>.+?)\s*", re.S
)
_ARGUMENT = re.compile(
    r"(?P<base>[\w.]+)(?:\((?P<mark>[^)]*)\))?(?P<rest>[\[\]\d?]*)\s+(?P<name>\w+)\s*(?:=(?P<default>.*))?", re.S
)
_CONSTANTS = {"None": None, "True": True, "False": False, "Mean": 1, "contiguous_format": "contiguous_format"}


def parsed(text: str, namespace: str = "") -> Schema:
    """The schema that `name(Tensor x, ...) -> Tensor` says.

    Raises:
        RuntimeError: the text is no schema; the part that is none is told.
    """
    head = _HEAD.fullmatch(text)
    if head is None:
        raise RuntimeError(
            f"library: {text!r} is no schema: expected 'name(Tensor x, int n=1, *, float? s=None) -> Tensor'. "
            f"What gives nothing ends in '-> ()'."
        )
    arguments, keyword_only = [], False
    for part in _parts(head["arguments"]):
        if part == "*":
            keyword_only = True
            continue
        match = _ARGUMENT.fullmatch(part)
        if match is None:
            raise RuntimeError(
                f"library: {part!r} is no argument of a schema: expected 'type name' or 'type name=default', in {text!r}."
            )
        default = inspect.Parameter.empty if match["default"] is None else _constant(match["default"].strip(), text)
        mark = (match["mark"] or "").partition("->")[0].strip()
        arguments.append(Argument(match["name"], match["base"] + match["rest"], default, keyword_only, mark))
    returned = head["returns"]
    single = not returned.startswith("(")
    returns = (returned,) if single else tuple([part.split()[0] for part in _parts(returned[1:-1])])
    name = head["name"] or ""
    full = name if "::" in name or not namespace else f"{namespace}::{name}"
    return Schema(full, head["overload"] or "", tuple(arguments), returns, single)


def _parts(text: str) -> Iterator[str]:
    """What stands between commas outside of brackets and quotes."""
    depth, quoted, start = 0, "", 0
    for place, letter in enumerate(text):
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "\"'":
            quoted = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and not depth:
            yield text[start:place].strip()
            start = place + 1
    if text[start:].strip():
        yield text[start:].strip()


def _constant(text: str, schema: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise RuntimeError(f"library: {text!r} is no default that a schema can have, in {schema!r}.") from None


# --- from annotations ----------------------------------------------------------------------------------------------------------


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """The schema that a function's annotations say.

    Args:
        prototype_function: the function.
        mutates_args: names of the tensors that the function writes to; "unknown": perhaps all of them.
        op_name: stands before the arguments, if given.
    Returns:
        A text.
    Raises:
        ValueError: a parameter has no annotation or one of no known type, or a name is none of the parameters.

    >>> def scale(x: Tensor, by: float = 2.0) -> Tensor: ...
    >>> dynograd.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    shown = f"Got func with signature {signature}"
    try:
        hints = typing.get_type_hints(prototype_function)
    except NameError as error:
        raise ValueError(f"infer_schema(func): {error}, in an annotation. {shown}") from None
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            f"infer_schema(func): mutates_args must be names in a list, tuple or set, or the word 'unknown', got {mutates_args!r}. "
            f"Write mutates_args=({mutates_args!r},)."
        )
    mutated = set() if mutates_args == "unknown" else set(mutates_args)
    strange = mutated - set(signature.parameters)
    if strange:
        raise ValueError(
            f"infer_schema(func): {strange} in mutates_args were not found in the custom op's signature. mutates_args should contain "
            f"the names of all args that the custom op mutates, or just the string 'unknown' if you don't know. {shown}"
        )
    listed, starred = [], False
    for place, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError(f"infer_schema(func): {parameter} is not supported: name each argument. {shown}")
        if name not in hints:
            raise ValueError(f"infer_schema(func): Parameter {name} must have a type annotation. {shown}")
        kind = _kind_of_hint(hints[name])
        if kind is None:
            raise ValueError(
                f"infer_schema(func): Parameter {name} has unsupported type {hints[name]}. The valid types are Tensor, int, float, bool, "
                f"str, types.Number, dtype and device, each as it is, Optional, Sequence or Optional[Sequence]. {shown}"
            )
        if (mutates_args == "unknown" and kind.startswith("Tensor")) or name in mutated:
            if not kind.startswith("Tensor"):
                raise ValueError(
                    f"infer_schema(func): Parameter {name} is in mutates_args but only Tensors or collections of Tensors can be mutated. {shown}"
                )
            kind = kind.replace("Tensor", f"Tensor(a{place}!)", 1)
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            listed.append("*")
            starred = True
        listed.append(f"{kind} {name}" + _default_text(parameter.default, hints[name], name, shown))
    return f"{op_name or ''}({', '.join(listed)}) -> {_returned(signature, hints, shown)}"


def _default_text(value: Any, hint: Any, name: str, shown: str) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if value is None or isinstance(value, (int, float)):
        return f"={value}"
    if isinstance(value, str):
        return f'="{value}"'
    if isinstance(value, (dtype, device)):
        return (
            f'="{value}"'
            if isinstance(value, device)
            else f"={str(value).removeprefix('torch.').removeprefix('dynograd.')}"
        )
    raise ValueError(
        f"infer_schema(func): Parameter {name} has an unsupported default value type {type(value)}: a number, a word or None may be "
        f"given. {shown}"
    )


def _kind_of_hint(hint: Any) -> str | None:
    """`float?` for Optional[float] and the like; None for a type that schemas have not."""
    try:
        if hint in _BASES:
            return _BASES[hint]
    except TypeError:
        return None
    inner, optional = _without_none(hint)
    if optional:
        kind = _kind_of_hint(inner)
        return None if kind is None or kind.endswith("?") else f"{kind}?"
    if typing.get_origin(hint) in (list, collections.abc.Sequence) and len(typing.get_args(hint)) == 1:
        kind = _kind_of_hint(typing.get_args(hint)[0])
        return None if kind is None or "[" in kind or (kind.endswith("?") and kind != "Tensor?") else f"{kind}[]"
    return None


def _without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    kept = [hint_part for hint_part in typing.get_args(hint) if hint_part is not type(None)]
    if len(kept) == len(typing.get_args(hint)):
        return hint, False
    return (typing.Union[tuple(kept)] if len(kept) > 1 else kept[0]), True  # noqa: UP007


def _returned(signature: inspect.Signature, hints: dict[str, Any], shown: str) -> str:
    if signature.return_annotation is inspect.Signature.empty:
        raise ValueError(f"infer_schema(func): No return type annotation was provided. Please add one. {shown}")
    hint = hints.get("return")
    if hint is None or hint is type(None):
        return "()"
    many = typing.get_origin(hint) is tuple
    parts = []
    for result in typing.get_args(hint) if many else (hint,):
        listed = typing.get_origin(result) in (list, collections.abc.Sequence) and typing.get_args(result) == (Tensor,)
        kind = "Tensor[]" if listed else _RETURNED.get(result)
        if kind is None:
            raise ValueError(
                f"infer_schema(func): Return has unsupported type {hint}. The valid types are Tensor, list[Tensor], int, float, bool, "
                f"types.Number and tuples of them. {shown}"
            )
        parts.append(kind)
    return f"({', '.join(parts)})" if many else parts[0]
