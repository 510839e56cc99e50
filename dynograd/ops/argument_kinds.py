"""Kinds of arguments: what the signature of an op says with its annotations, and the writer of its function sees to.

| annotation | what it is | what the written function does |
| --- | --- | --- |
| `Array`, `Array \\| None` | an operand: a tensor outside, its array inside | takes the array out; asks the readers of other types |
| `Arrays`, `IndexArrays` | a list of operands; those of an index have no gradient | the same for each |
| `bool`, `int` (`\\| None`) | a truth value, a whole number | refuses others by name |
| `Real` | a number | `float(number)` |
| `Dim` | a dim of the first operand | counts it from the front; refuses others by name |
| `ClassDim` | the same; None: the one that PyTorch's classifiers mean | chooses it, with a warning |
| `Dtype` | the dtype in which the op computes | converts the first operand; readers and forward do not see it |
| `Axis` | NumPy's name of `dim` | is the dim where that is None; readers and forward do not see it |
| `Inplace` | whether the result is written into the first operand | calls `name_` in its place; readers and forward do not see it |
| others | what the op alone understands | passes it on |
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["UNSEEN", "Axis", "ClassDim", "Dim", "Dtype", "Inplace", "Real"]

Axis: TypeAlias = Any
ClassDim: TypeAlias = Any
Dim: TypeAlias = Any
Dtype: TypeAlias = Any
Inplace: TypeAlias = bool
Real: TypeAlias = float

UNSEEN = ("Axis", "Dtype", "Inplace")  # the written function makes something of them, and nobody else sees them
