"""Compiled functions are copied and pickled as functions are."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import dynograd as torch
from dynograd import nn


@torch.compile(mode="exact")
def doubled(x: Any) -> Any:
    return (x * 2).relu() + 1


class Holder:
    def __init__(self) -> None:
        self.layer = nn.Linear(3, 2)
        self.apply, self.double = torch.compile(self._apply, dynamic=False), doubled

    def _apply(self, x: Any) -> Any:
        return self.layer(x).relu() + 1


def check_copy(holder: Holder, other: Holder) -> None:
    x = torch.ones(4, 3)
    with torch.no_grad():
        other.layer.weight.fill_(7.0)
        for _ in range(4):
            assert torch.equal(other.apply(x), other._apply(x))
            assert torch.equal(holder.apply(x), holder._apply(x))
            assert torch.equal(other.double(x), x * 3)
    assert other.apply.settings == holder.apply.settings and other.apply is not holder.apply


def test_a_compiled_method_of_a_copied_object_is_that_of_the_copy() -> None:
    holder = Holder()
    for _ in range(4):
        holder.apply(torch.ones(4, 3))
    check_copy(holder, copy.deepcopy(holder))
    check_copy(holder, pickle.loads(pickle.dumps(holder)))


def test_a_decorated_function_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.copy(doubled) is doubled
