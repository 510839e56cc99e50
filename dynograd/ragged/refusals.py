"""What ragged tensors refuse, each with the reason and the way out."""

from __future__ import annotations

from typing import Any

from dynograd.ragged.calls import Call, ragged_rule

__all__ = ["REFUSED"]

REFUSED = {
    "it reads memory by strides, and rows of different lengths have none in common. Use slices, or x.values().": """
        as_strided as_strided.public as_strided_copy as_strided_scatter""",
    "the sum to a shape would add elements of different rows. Use x.sum(dim).": "sum_to_size",
    "sizes of the batch are given as numbers, and rows have different ones. Use group_norm or batch_norm.": """
        native_group_norm native_batch_norm""",
    "a ragged tensor has its segments already: x.sum(1), x.mean(1), x.amax(1), x.prod(1).": """
        segment_reduce segment_sum segment_spread segment_extreme segment_product
        segment_cumsum segment_softmax""",
    "sparse products take dense tensors; use x.values() for the elements of all rows.": """
        sparse_product sparse_transposed_product sparse_sampled""",
}


def _refuse(why: str) -> Any:
    def rule(call: Call) -> Any:
        raise call.refuse(why)

    return rule


for _why, _names in REFUSED.items():
    ragged_rule(*_names.split(), kind="refused", note=_why)(_refuse(_why))
