"""Eager execution: writes, for each op in the table, the Python function that computes it and records it on the tape.

The functions are specialised (no `*args`, no generic apply), because at 0.3 us for a small NumPy call the wrapper is most of the
cost. What each one does: take the arrays out of the tensors, call the forward, wrap the result, and, when a gradient is wanted,
make a node with what the op declared to save. Anything that is not a plain Tensor goes to `other_types`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from dynograd.interpreter.dispatch import other_types
from dynograd.interpreter.elementwise import elementwise_names, elementwise_texts
from dynograd.interpreter.history import alias_of, saved_forms, with_history
from dynograd.interpreter.ordinary import op_names, op_source
from dynograd.interpreter.shared import TENSORS, named_outputs, tensor_class
from dynograd.interpreter.shortcuts import write_shortcut
from dynograd.ops.op import Op, Writing

__all__ = [
    "TENSORS",
    "alias_of",
    "named_outputs",
    "other_types",
    "saved_forms",
    "tensor_class",
    "with_history",
    "write_function",
    "write_shortcut",
]


def write_function(op: Op) -> Writing:
    """What gives the texts of the op's public function and of its node, and the names that the function uses."""
    if op.kind == "elementwise":
        return elementwise_texts(op), elementwise_names(op)
    return {"function": partial(op_source, op)}, op_names(op)
