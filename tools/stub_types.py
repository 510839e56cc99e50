"""What a stub says of a parameter and of a result: from the annotations of ops where they say it, else from what PyTorch's names mean.

In the stubs `_d` stands for `dynograd.base.dtypes` and the like, since `float` and `dtype` are members of the classes there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import dynograd
from dynograd.ops.op import registry

__all__ = ["IMPORTS", "OVERLOADED", "named_results", "parameters", "result", "written_overloads"]

IMPORTS = """\
import builtins
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, Literal, TypeAlias, overload

import numpy as _numpy

from dynograd import return_types as _return_types
from dynograd.base import devices as _devices
from dynograd.base import dtypes as _dtypes
from dynograd.base import layouts as _layouts
from dynograd.base import memory_formats as _memory_formats
from dynograd.base import random_streams as _random_streams
from dynograd.base import shapes as _shapes
from dynograd.ragged.tensor import RaggedTensor as _RaggedTensor
from dynograd.sparse.tensor import SparseTensor as _SparseTensor
from dynograd.tensor.tensor import Tensor

_Int: TypeAlias = builtins.int
_Ints: TypeAlias = builtins.int | Sequence[builtins.int]
_Number: TypeAlias = builtins.int | builtins.float | builtins.bool | builtins.complex | _numpy.number[Any] | _numpy.bool_
_Item: TypeAlias = (
    builtins.int | slice | EllipsisType | Tensor | Sequence[builtins.int] | Sequence[Tensor] | _numpy.ndarray[Any, Any] | _numpy.integer[Any]
    | list[Any] | None
)
_Index: TypeAlias = _Item | tuple[_Item, ...]
_Device: TypeAlias = _devices.device | builtins.str | builtins.int | None
_Dtype: TypeAlias = _dtypes.dtype | type | None
"""

# Kinds of arguments (`ops/argument_kinds.py`) and annotations that mean something else than they say.
_KINDS = {
    "Axis": "_Ints | None",
    "ClassDim": "_Int | None",
    "Dim": "_Int",
    "Dims": "_Ints | None",
    "Dtype": "_Dtype",
    "Inplace": "builtins.bool",
    "Keepdims": "builtins.bool | None",
    "Real": "builtins.float",
    "SomeDims": "_Ints | None",
    "Array": "Tensor",
    "Tensor": "Tensor",
    "Arrays": "Sequence[Tensor]",
    "IndexArrays": "Sequence[Tensor | None]",
    "Generator": "_random_streams.Generator",
    "dtype": "_dtypes.dtype",
    "dtypes.dtype": "_dtypes.dtype",
    "device": "_devices.device",
    "Size": "_shapes.Size",
    "shapes.Size": "_shapes.Size",
    "Number": "_Number",
    "RaggedTensor": "_RaggedTensor",
    "SparseTensor": "_SparseTensor",
    "Self": "Tensor",
}
_BUILTIN = {"int", "float", "bool", "str", "complex", "bytes", "object", "tuple", "list", "dict"}
_WHOLE = {"tuple": "tuple[Any, ...]", "list": "list[Any]", "dict": "dict[Any, Any]"}
_PLAIN = {"None", "Any", "Literal", "Sequence", "Callable"}

# What parameters without an annotation are, by PyTorch's names of them.
_BY_NAME = {
    **dict.fromkeys(
        "input mat mat1 mat2 vec vec1 vec2 batch1 batch2 tensor1 tensor2 input1 input2 input3 x1 x2 mask source bias"
        "hx w_ih w_hh b_ih b_hh grid pos_weight log_probs boundaries sorted_sequence query key value_states real imag attn_mask anchor positive "
        "negative cov A B LU pivots x y LU_data LU_pivots in_proj_weight".split(),
        "Tensor",
    ),
    **dict.fromkeys("other exponent src value min max start end step alpha beta fill_value".split(), "Tensor | _Number"),
    **dict.fromkeys("index indices target weight".split(), "Tensor"),
    **dict.fromkeys("dim axis dims order stride dilation kernel_size size sizes normalized_shape split_size_or_sections repeats shape "
                    "shifts source_dims".split(), "_Ints"),
    **dict.fromkeys(("running_mean", "running_var"), "Tensor | None"),
    "padding": "_Ints | builtins.str",
    "output_size": "builtins.int | Sequence[builtins.int | None] | None",
    "output_padding": "_Ints",
    "tensors": "Sequence[Tensor]",
    "dtype": "_Dtype",
    "out_dtype": "_Dtype",
    "device": "_Device",
    "layout": "_layouts.layout",
    "memory_format": "_memory_formats.memory_format",
    "generator": "_random_streams.Generator",
    "keepdims": "builtins.bool",
    "low": "builtins.int",
    "high": "builtins.int",
    "q": "builtins.float | Tensor",
    "pad": "Sequence[builtins.int]",
    "length": "builtins.int",
}  # fmt: skip
# Names whose meaning hangs on the function.
_OTHERWISE = {
    ("type", "dtype"): "_Dtype | builtins.str",
    ("movedim", "source"): "_Ints",
    ("moveaxis", "source"): "_Ints",
    ("movedim", "destination"): "_Ints",
    ("moveaxis", "destination"): "_Ints",
    ("__getitem__", "index"): "_Index",
    ("__setitem__", "index"): "_Index",
    ("where", "input"): "Tensor | _Number",
    ("where", "condition"): "Tensor",
    ("select", "index"): "builtins.int",
    ("select_copy", "index"): "builtins.int",
    ("select_scatter", "index"): "builtins.int",
    ("tensor_split", "indices"): "Sequence[builtins.int] | Tensor",
    ("dsplit", "indices"): "Sequence[builtins.int]",
    ("hsplit", "indices"): "Sequence[builtins.int]",
    ("vsplit", "indices"): "Sequence[builtins.int]",
    ("index_put", "indices"): "Sequence[Tensor | None]",
    ("index_put_", "indices"): "Sequence[Tensor | None]",
    ("index_put", "values"): "Tensor",
    ("index_put_", "values"): "Tensor",
    ("repeat_interleave", "repeats"): "builtins.int | Tensor",
    ("view", "shape"): "_Ints | _dtypes.dtype",
    ("unravel_index", "indices"): "Tensor",
    ("interpolate", "size"): "_Ints",
    ("cross_entropy", "target"): "Tensor",
    ("from_dlpack", "device"): "_Device",
    ("narrow", "start"): "builtins.int | Tensor",
    ("slice_scatter", "step"): "builtins.int",
    ("roll", "shifts"): "_Ints",
    ("rot90", "dims"): "Sequence[builtins.int]",
    ("tensordot", "dims"): "Any",
    ("upsample", "size"): "_Ints",
    ("multi_head_attention_forward", "bias"): "Tensor",
    ("scaled_dot_product_attention", "value"): "Tensor",
    ("scaled_dot_product_attention", "attn_mask"): "Tensor",
    ("varlen_attention", "value"): "Tensor",
    ("grouped_mm", "bias"): "Tensor",
    ("pad", "value"): "builtins.float",
    ("constant_pad_nd", "value"): "_Number",
    ("multi_head_attention_forward", "value"): "Tensor",
    ("multi_head_attention_forward", "key"): "Tensor",
    ("unfold", "size"): "builtins.int",
    ("unfold", "step"): "builtins.int",
    ("fold", "output_size"): "_Ints",
    ("conv1d", "padding"): "_Ints | builtins.str",
    ("dist", "other"): "Tensor",
    ("nll_loss", "weight"): "Tensor",
    ("set_", "source"): "Any",
    ("set_", "size"): "Any",
    ("resize_", "size"): "_Ints",
    ("to", "other"): "Any",
    ("new_tensor", "data"): "Any",
    ("quantile", "dim"): "builtins.int",
    ("tensor_split", "indices_or_sections"): "_Ints | Tensor",
    ("split", "split_size"): "_Ints",
    ("split", "tensor"): "Tensor",
    ("randint", "size"): "_Ints",
    ("cumulative_trapezoid", "x"): "Tensor",
    ("einsum", "operands"): "Any",
}

_DIM = "dim: builtins.int, keepdim: builtins.bool = False, *, axis: builtins.int = ..., keepdims: builtins.bool = ..., out: Any = None"
_FLAGS = "return_inverse: {0} = False, return_counts: {0} = False, dim: builtins.int | None = None"
# Functions that give one tensor or several as their arguments say: (parameters behind the first operand, result).
OVERLOADED = {
    **{
        name: [
            ("*, out: Tensor | None = None", "Tensor"),
            (_DIM, f"_return_types.{name}"),
            ("other: Tensor, *, out: Tensor | None = None", "Tensor"),
            ("*, axis: builtins.int, keepdims: builtins.bool = ..., out: Any = None", f"_return_types.{name}"),
        ]
        for name in ("max", "min")
    },
    **{
        name: [
            ("*, out: Tensor | None = None", "Tensor"),
            (_DIM, f"_return_types.{name}"),
            ("*, axis: builtins.int, keepdims: builtins.bool = ...", f"_return_types.{name}"),
        ]
        for name in ("median", "nanmedian")
    },
    "nonzero": [
        ("*, as_tuple: Literal[False] = False, out: Tensor | None = None", "Tensor"),
        ("*, as_tuple: Literal[True]", "tuple[Tensor, ...]"),
        ("*, as_tuple: builtins.bool", "Tensor | tuple[Tensor, ...]"),
    ],
    "unique": [
        (f"sorted: builtins.bool = True, {_FLAGS.format('Literal[False]')}", "Tensor"),
        (f"sorted: builtins.bool = True, {_FLAGS.format('builtins.bool')}", "Any"),
    ],
    "unique_consecutive": [(_FLAGS.format("Literal[False]"), "Tensor"), (_FLAGS.format("builtins.bool"), "Any")],
}  # fmt: skip
_OVERLOADED_FUNCTIONS = {
    "where": [
        ("condition: Tensor", "tuple[Tensor, ...]"),
        ("condition: Tensor, input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None", "Tensor"),
    ],
}
_OVERLOADED_METHODS = {
    "where": [("condition: Tensor, other: Tensor | _Number", "Tensor"), ("condition: Tensor", "Tensor")],
}


def written_overloads(name: str, is_method: bool) -> list[tuple[str, str]]:
    """The (parameters, result) of a function that has several forms; empty for others."""
    special = (_OVERLOADED_METHODS if is_method else _OVERLOADED_FUNCTIONS).get(name)
    if special is not None:
        return [(f"self, {parameters}" if is_method else parameters, kind) for parameters, kind in special]
    first = "self" if is_method else "input: Tensor"
    return [(f"{first}, {parameters}", kind) for parameters, kind in OVERLOADED.get(name, ())]


def named_results() -> dict[str, tuple[str, ...]]:
    """The fields of the named tuples that functions give, by the names of the functions."""
    functions = {
        name: getattr(module, name) for module in (dynograd.nn.functional, dynograd) for name in module.__all__
    }
    functions |= {f"linalg_{name}": getattr(dynograd.linalg, name) for name in dynograd.linalg.__all__}
    named = {name: fields for name in functions if (fields := _named(name)) is not None}
    return {
        name: named[name] for name in sorted(named) if name in OVERLOADED or result(name, functions[name]) != "Tensor"
    }


def parameters(name: str, function: Callable[..., Any], several: bool = False) -> list[str]:
    """The parameters as a stub writes them."""
    texts = []
    starred = hidden = False
    numbers = _operands_that_may_be_numbers(name)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name.startswith("_") and parameter.default is not parameter.empty:
            hidden = True  # PyTorch's private ones, such as `_stacklevel`: what follows is given by name
            continue
        if (parameter.kind is parameter.KEYWORD_ONLY or hidden) and not starred:
            texts.append("*")
            starred = True
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        starred = starred or stars == "*"
        kind = "Any" if stars == "**" else _parameter_type(name, parameter, parameter.name in numbers, several)
        texts.append(f"{stars}{parameter.name}: {kind}{_default(parameter)}")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            texts[-1] = texts[-1].replace(f"{parameter.name}:", f"__{parameter.name}:", 1)
    return texts


def _operands_that_may_be_numbers(name: str) -> set[str]:
    if name in ("__matmul__", "__rmatmul__", "__imatmul__"):
        return set()
    if name.startswith("__"):
        return {"other", "exponent", "value"}
    base = name.removesuffix("_")
    op = registry.get(base) or registry.get(f"{base}.public")
    if op is None or op.kind != "elementwise" or len(op.array_names) < 2:
        return set()
    kept = op.row["tensors"]
    return set(op.array_names[1:] if kept is None else op.array_names) - set((kept or "").split())


def _default(parameter: inspect.Parameter) -> str:
    value = parameter.default
    if value is parameter.empty:
        return ""
    simple = (
        value is None
        or type(value) in (bool, int, str)
        or (type(value) is float and value == value and abs(value) != float("inf"))
    )
    if simple or (type(value) is tuple and all([type(item) in (int, bool, str) for item in value])):
        return f" = {value!r}"
    return " = ..."


def _parameter_type(name: str, parameter: inspect.Parameter, may_be_number: bool, several: bool) -> str:
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    kind = "Any" if annotation is parameter.empty else typed(text)
    star = parameter.kind is parameter.VAR_POSITIONAL
    if kind == "Any":
        if parameter.name == "out":
            kind = "Any" if several else "Tensor"
        else:
            base = name.removesuffix("_") if not name.startswith("__") else name
            kind = (
                _OTHERWISE.get((base, parameter.name))
                or _OTHERWISE.get((name, parameter.name))
                or _BY_NAME.get(parameter.name, "Any")
            )
        if star and kind == "Sequence[Tensor]":
            kind = "Tensor | Sequence[Tensor]"
        if parameter.default is None and kind != "Any" and "None" not in kind.split(" | "):
            kind += " | None"
    if kind == "Tensor" and may_be_number:
        return "Tensor | _Number"
    if kind == "_Int" and parameter.default is None:
        return "_Int | None"
    return kind


def typed(text: str) -> str:
    """An annotation as the stub writes it; Any for what it does not know."""
    text = text.strip().strip("'\"")
    words = re.findall(r"[A-Za-z_][A-Za-z_.0-9]*", text)
    if not words or any([word not in _KINDS and word not in _BUILTIN and word not in _PLAIN for word in words]):
        return "Any"

    def word_of(match: re.Match[str]) -> str:
        word = match[0]
        return (
            _KINDS[word]
            if word in _KINDS
            else f"builtins.{word}"
            if word in _BUILTIN - {"tuple", "list", "dict"}
            else word
        )

    text = re.sub(r"[A-Za-z_][A-Za-z_.0-9]*", word_of, text)
    return re.sub(r"\b(tuple|list|dict)\b(?!\[)", lambda match: _WHOLE[match[0]], text)


def result(name: str, function: Callable[..., Any]) -> str:
    """What a function gives."""
    base = name.removesuffix("_") if not name.endswith("__") else name
    named = _named(base)
    op = registry.get(f"{base}.public") or registry.get(base)
    annotation = inspect.signature(function).return_annotation
    if annotation is inspect.Signature.empty or annotation in ("Any", Any):
        annotation = op.forward.__annotations__.get("return", "Any") if op is not None else "Any"
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")
    if named is not None and ("tuple" in text or base in dynograd.return_types.__all__):
        return f"_return_types.{base}"
    if (op is not None and op.outputs == "list") or text.startswith(("list[Array", "list[Tensor")):
        return "tuple[Tensor, ...]"
    kind = typed(text)
    if base.startswith("atleast"):
        return "Any"
    if kind.startswith("Tensor | tuple"):
        if base.endswith("_copy") and hasattr(dynograd, base.removesuffix("_copy")):
            return result(base.removesuffix("_copy"), getattr(dynograd, base.removesuffix("_copy")))
        flags = [text for text in inspect.signature(function).parameters if text.startswith("return_")]
        return "Tensor" if flags or base.endswith("_copy") else "Any"
    if kind == "Any" and op is not None and op.kind != "composed" and op.outputs is None:
        return "Tensor"
    return kind


def _named(name: str) -> tuple[str, ...] | None:
    kind = getattr(dynograd.return_types, name, None)
    return getattr(kind, "_fields", None)
