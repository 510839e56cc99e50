"""Results that a policy of a checkpoint keeps, and how a call is done with them in the place of its kernel."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.autograd.nodes import Node, OutputNode, next_seq
from dynograd.autograd.writes import version
from dynograd.base import devices
from dynograd.tensor.graphs import active_hooks
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.checkpoint import CheckpointError
from dynograd.utils import _pytree

__all__ = ["Note"]


class _KeptNode(Node):
    """Where a kept result comes from when the part runs again; no backward goes through that graph."""

    __slots__ = ()

    def __init__(self) -> None:
        self.edges, self.attrs, self.seq, self.hooks = (), None, next_seq(), None


class _Kept:
    """An array, and what it was when it was kept."""

    def __init__(self, array: Any, offload: bool) -> None:
        device = arrays.device_of(array)
        self.home = device if offload and device.type != "cpu" else None
        self.array = array if self.home is None else arrays.to_device(array, devices.cpu)
        self.version = version(array)

    def again(self, operator: Any, allow_mutation: bool) -> Any:
        if self.home is not None:
            return arrays.to_device(self.array, self.home)
        if not allow_mutation and version(self.array) != self.version:
            raise CheckpointError(
                f"checkpoint: the result of {operator} that a policy kept has been mutated: it was written to in place before backward. Work on a "
                f"clone, have it computed again (PREFER_RECOMPUTE), or say allow_cache_entry_mutation=True."
            )
        return self.array


class Note:
    """The results of one call, and what it saved: operands (by their place), its own results, and what else it computed."""

    def __init__(self, result: Any, saved: list[Tensor], operands: tuple, offload: bool) -> None:
        outputs, self.tree = _pytree.tree_flatten(result)
        self.outputs: list[Any] = [_Kept(x.array, offload) if isinstance(x, Tensor) else x for x in outputs]
        self.recorded = [isinstance(x, Tensor) and x.requires_grad for x in outputs]
        places: dict[int, Any] = {id(x.array): number for number, x in enumerate(outputs) if isinstance(x, Tensor)}
        places |= {id(array): ("operand", number) for number, array in enumerate(_arrays_of(operands))}
        self.saved = [
            places[id(tensor.array)] if id(tensor.array) in places else _Kept(tensor.array, offload) for tensor in saved
        ]

    def again(self, operator: Any, operands: tuple, allow_mutation: bool) -> object:
        results = [x.again(operator, allow_mutation) if isinstance(x, _Kept) else x for x in self.outputs]
        hooks = active_hooks()
        for saved in self.saved if hooks is not None else ():
            assert hooks is not None
            if isinstance(saved, _Kept):
                array = saved.again(operator, allow_mutation)
            else:
                array = results[saved] if isinstance(saved, int) else _arrays_of(operands)[saved[1]]
            hooks.pack_hook(wrap(array))
        outputs, node = [], _KeptNode()
        for number, (kept, value) in enumerate(zip(self.outputs, results)):
            if isinstance(kept, _Kept):
                value = wrap(value)
                if self.recorded[number]:
                    value.node = node if len(results) == 1 else OutputNode(node, number)
                    value._requires_grad = True
            outputs.append(value)
        return _pytree.tree_unflatten(outputs, self.tree)


def _arrays_of(operands: tuple) -> list[Any]:
    return [x.array for x in _pytree.tree_iter(operands) if isinstance(x, Tensor)]
