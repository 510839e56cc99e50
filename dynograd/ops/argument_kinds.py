"""Kinds of arguments: what the signature of an op says with its annotations, and the writer of its function sees to.

| annotation | what it is | what the written function does |
| --- | --- | --- |
| `Array`, `Array \\| None` | an operand: a tensor outside, its array inside | takes the array out; asks the readers of other types |
| `Arrays`, `IndexArrays` | a list of operands; those of an index have no gradient | the same for each |
| `bool`, `int` (`\\| None`) | a truth value, a whole number | refuses others by name |
| `Real` | a number | `float(number)` |
| `Dim` | a dim of the first operand | counts it from the front; refuses others by name |
| `Dim \\| None` | the same; None: all of them | the same; None of a 0-d operand |
| `Dims` | a dim or several; None and (): all of them | the same: None, an int or a tuple |
| `SomeDims` | the same; (): none of them | the same |
| `ClassDim` | the same; None: the one that PyTorch's classifiers mean | chooses it, with a warning |
| `Dtype` | the dtype in which the op computes | converts the first operand; readers and forward do not see it |
| `Axis`, `Keepdims` | NumPy's names of `dim` and `keepdim` | takes it for that; readers and forward do not see it |
| `Inplace` | whether the result is written into the first operand | calls `name_` in its place; readers and forward do not see it |
| others | what the op alone understands | passes it on |
"""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["UNSEEN", "Axis", "ClassDim", "Dim", "Dims", "Dtype", "Inplace", "Keepdims", "Real", "SomeDims"]

Axis: TypeAlias = Any
ClassDim: TypeAlias = Any
Dim: TypeAlias = Any
Dims: TypeAlias = Any
Dtype: TypeAlias = Any
Keepdims: TypeAlias = Any
SomeDims: TypeAlias = Any
Inplace: TypeAlias = bool
Real: TypeAlias = float

UNSEEN = ("Axis", "Dtype", "Inplace", "Keepdims")  # only the written function sees them
