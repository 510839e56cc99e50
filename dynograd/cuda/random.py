"""Seeding with PyTorch's names. All devices draw from one stream, `default_generator`: a (seed, offset) gives the same numbers on each.

So seeding a device seeds what CPU tensors draw too, and a program gives the same numbers on both.
"""

from __future__ import annotations

import sys
from typing import Any

from dynograd.base import random_streams
from dynograd.base.hints import DeviceLike
from dynograd.cuda import driver

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _package() -> Any:
    return sys.modules["dynograd"]  # tensors lie above this layer, so they are looked up and not imported


def manual_seed(seed: int) -> None:
    """Seeds the generator; ignored without a device, as in PyTorch.

    Args:
        seed: any integer.

    >>> dynograd.cuda.manual_seed(0)
    """
    if driver.known() is not None:
        random_streams.manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Seeds the generator unforeseeably; ignored without a device.

    >>> dynograd.cuda.seed()
    """
    if driver.known() is not None:
        random_streams.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed of the generator.

    Returns:
        An int.

    >>> _ = dynograd.manual_seed(5)
    >>> dynograd.cuda.initial_seed()
    5
    """
    return random_streams.initial_seed()


def get_rng_state(device: DeviceLike = "cuda") -> Any:
    """The generator's state as a CPU tensor of bytes, for `set_rng_state`.

    Args:
        device: kept for compatibility; all devices draw from one generator.
    Returns:
        A uint8 tensor.

    >>> dynograd.cuda.get_rng_state().dtype
    dynograd.uint8
    """
    return _package().get_rng_state()


def set_rng_state(new_state: Any, device: DeviceLike = "cuda") -> None:
    """Continues at a state from `get_rng_state`.

    Args:
        new_state: what `get_rng_state` gave.
        device: kept for compatibility.

    >>> dynograd.cuda.set_rng_state(dynograd.cuda.get_rng_state())
    """
    _package().set_rng_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The state for each device.

    Returns:
        A list of uint8 tensors, one for each device.

    >>> len(dynograd.cuda.get_rng_state_all()) == dynograd.cuda.device_count()
    True
    """
    current = driver.known()
    return [get_rng_state() for _ in range(0 if current is None else current.count())]


def set_rng_state_all(new_states: Any) -> None:
    """Puts back what `get_rng_state_all` returned.

    Args:
        new_states: what `get_rng_state_all` gave.

    >>> dynograd.cuda.set_rng_state_all(dynograd.cuda.get_rng_state_all())
    """
    for state in list(new_states)[:1]:
        set_rng_state(state)
