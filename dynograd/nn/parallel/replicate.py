"""A module on several devices: modules that share all but their tensors, which are copies of one module's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.nn.module import Module
from dynograd.nn.parallel.comm import place_of
from dynograd.tensor.tensor import Tensor

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A module for each device. Gradients of copied parameters come to those of `network`.

    The copy on the device where `network` lies has its own parameters and buffers, so that what its forward writes into them stays; what
    the others write is lost.

    Args:
        network: what is copied.
        devices: devices or their numbers.
        detach: copies have no gradients.
    Returns:
        A list of modules.

    >>> first, second = dynograd.nn.parallel.replicate(dynograd.nn.Linear(2, 1), ["cpu", "cpu"])
    >>> first.weight is second.weight
    True
    """
    return [_replica(network, place_of(device), detach) for device in devices]


def _replica(network: Module, place: Any, detach: bool) -> Module:
    copies: dict[Tensor, Tensor] = {}  # one for each tensor, also where it has several names

    def copied(tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        if tensor not in copies:
            copies[tensor] = (tensor.detach() if detach else tensor).to(place)
        return copies[tensor]

    replicas = {module: module._replicate_for_data_parallel() for module in network.modules()}
    for replica in replicas.values():
        tables = replica.__dict__
        for group in ("_parameters", "_buffers"):
            tables[group].update({name: copied(tensor) for name, tensor in tables[group].items()})
        tables["_modules"].update({name: module and replicas[module] for name, module in tables["_modules"].items()})
    return replicas[network]
