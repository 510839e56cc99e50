"""`torch.utils.checkpoint`: see `dynograd.transforms.checkpoint`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from dynograd import cuda
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.errors import user_level
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.checkpoint import *  # noqa: F403
from dynograd.transforms.checkpoint import __all__ as _all
from dynograd.utils import _pytree
from dynograd.utils.selective_checkpoints import *  # noqa: F403
from dynograd.utils.selective_checkpoints import __all__ as _policies

__all__ = [*_all, *_policies, "check_backward_validity", "get_device_states", "set_device_states"]


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns if no input requires a gradient: a checkpointed function gives none to its parameters then, unless `use_reentrant=False`.

    Args:
        inputs: of a checkpointed function.

    >>> from dynograd.utils.checkpoint import check_backward_validity
    >>> check_backward_validity([dynograd.ones(2, requires_grad=True)])
    """
    if not any([isinstance(value, Tensor) and value.requires_grad for value in inputs]):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=user_level())


def get_device_states(*args: object) -> tuple[list[int], list[Tensor]]:
    """The GPUs on which the arguments' tensors lie, and the states of their generators.

    Args:
        *args: of a checkpointed function.
    Returns:
        (list of indices, list of states).

    >>> from dynograd.utils.checkpoint import get_device_states
    >>> get_device_states(dynograd.ones(2))
    ([], [])
    """
    tensors = [value for value in _pytree.tree_leaves(list(args)) if isinstance(value, Tensor)]
    places = sorted({value.device.index or 0 for value in tensors if value.device.type == "cuda"})
    return places, [cuda.get_rng_state(place) for place in places]


def set_device_states(devices: list[int], states: list[Tensor], *, device_type: str | None = None) -> None:
    """Sets the generators of GPUs to what `get_device_states` gave.

    Args:
        devices, states: what `get_device_states` gave.
        device_type: kept for compatibility.

    >>> from dynograd.utils.checkpoint import get_device_states, set_device_states
    >>> set_device_states(*get_device_states(tensor([1.0])))
    """
    for place, state in zip(devices, states):
        cuda.set_rng_state(state, place)


_show_plainly(globals())
