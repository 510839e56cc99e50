"""Kinds of arguments: what the signature of an op says with its annotations, and the writer of its function sees to.

| annotation | what it is | what the written function does |
| --- | --- | --- |
| `Array`, `Array \\| None` | an operand: a tensor outside, its array inside | takes the array out; asks the readers of other types |
| `Arrays`, `IndexArrays` | a list of operands; those of an index have no gradient | the same for each |
| `bool`, `int` (`\\| None`) | a truth value, a whole number | refuses others by name |
| `Real` | a number | `float(number)` |
| `Inplace` | whether the result is written into the first operand | calls `name_` in its place; readers and forward do not see it |
| others | what the op alone understands | passes it on |
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Inplace", "Real"]

Inplace: TypeAlias = bool
Real: TypeAlias = float
