"""Ragged tensors: rows of different lengths without padding, and a rule for every op in the table.

>>> x = dynograd.ragged_tensor([tensor([1.0, 2.0, 3.0]), tensor([4.0])])
>>> x.softmax(1).sum(1)
tensor([1., 1.])
"""

from __future__ import annotations

from dynograd.base.listing import lists
from dynograd.ragged.calls import Call, Refusal, ragged_rule
from dynograd.ragged.making import ragged_from_padded, ragged_like, ragged_tensor
from dynograd.ragged.partitions import Partition
from dynograd.ragged.tensor import RaggedTensor, is_ragged, when_first

__all__ = ["RaggedTensor", "is_ragged", "ragged_from_padded", "ragged_like", "ragged_rule", "ragged_tensor"]
__dir__ = lists(__name__, __all__)


def _read_rules() -> None:
    """Programs that make no ragged tensor do not pay for the rules."""
    from dynograd.ragged import rules


when_first.append(_read_rules)
