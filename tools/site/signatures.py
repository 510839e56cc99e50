"""Signatures as people read them: no quotes around annotations, nothing private, no defaults that print as addresses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

WORDS = {"Array": "Tensor", "ArrayLike": "Tensor", "IndexArrays": "Sequence[Tensor]", "Arrays": "Sequence[Tensor]"}
KINDS = {
    "Dim": "int",
    "ClassDim": "int | None",
    "Dims": "int | tuple[int, ...] | None",
    "SomeDims": "int | tuple[int, ...] | None",
}
PLAIN = {
    "Real": "float",
    "Inplace": "bool",
    "Dtype": "dtype",
    "Keepdims": "bool",
    "Axis": "int",
    "DeviceLike": "device",
    "DtypeLike": "dtype",
    "Sizes": "int | Sequence[int]",
    "ParamsT": "Iterable[Tensor] | Iterable[dict]",
}
BUILTINS = {f"_python_{name}": name for name in ("bool", "int", "float", "complex", "tuple", "list", "sum")}
NAMES = WORDS | KINDS | PLAIN | BUILTINS
UNSAID = {"Any", "", "None"}


def signature_of(value: Callable[..., Any], method: bool = False) -> str:
    """The arguments of a function or class, in brackets, and what it returns where that is said."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = list(signature.parameters.values())
    if method and parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    shown = [parameter for parameter in parameters if not parameter.name.startswith("_")]
    returns = annotation_of(signature.return_annotation)
    arrow = f" -> {returns}" if returns not in UNSAID and not isinstance(value, type) else ""
    return f"({', '.join(_with_marks(shown))}){arrow}"


def _with_marks(parameters: list[inspect.Parameter]) -> list[str]:
    """The parameters as written, with `/` and `*` between the kinds."""
    kinds = inspect.Parameter
    words: list[str] = []
    star = False
    for index, parameter in enumerate(parameters):
        if parameter.kind is kinds.KEYWORD_ONLY and not star:
            words.append("*")
            star = True
        star = star or parameter.kind is kinds.VAR_POSITIONAL
        words.append(_parameter(parameter))
        last = index + 1 == len(parameters) or parameters[index + 1].kind is not kinds.POSITIONAL_ONLY
        if parameter.kind is kinds.POSITIONAL_ONLY and last:
            words.append("/")
    return words


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    word = stars + parameter.name
    annotation = annotation_of(parameter.annotation)
    said = annotation not in UNSAID
    if said:
        word += f": {annotation}"
    if parameter.default is not parameter.empty:
        word += (" = " if said else "=") + default_of(parameter.default)
    return word


def annotation_of(annotation: Any) -> str:
    """An annotation as text that a reader of the docs understands; empty where there is none."""
    if annotation is inspect.Signature.empty:
        return ""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", None) or str(annotation)
    if not isinstance(annotation, str) and ("[" in str(annotation) or "|" in str(annotation)):
        text = str(annotation)
    text = re.sub(r"Literal\[['\"][^\]]*\]", "str", text)
    text = re.sub(r"[A-Za-z_][\w.]*\.([A-Za-z_]\w*)", r"\1", text.replace("'", "").replace('"', ""))
    text = re.sub(r"\b[A-Za-z_]\w*\b", lambda match: NAMES.get(match[0], match[0]), text)
    text = re.sub(r"\bAny \| None\b", "Any", text)
    parts = list(dict.fromkeys(part.strip() for part in text.split(" | "))) if "[" not in text else [text]
    return " | ".join(parts)


def default_of(default: Any) -> str:
    """A default as it would be typed; `...` where there is no such text."""
    if isinstance(default, str | int | float | bool | None | bytes):
        return repr(default)
    if isinstance(default, tuple | list | dict):
        text = repr(default)
        return text if "<" not in text else "..."
    if isinstance(default, type) or inspect.isroutine(default):
        return default.__name__ if default.__name__.isidentifier() else "..."
    text = repr(default)
    return text if re.fullmatch(r"[\w.]+", text) else "..."
