"""Seeding with PyTorch's names. All devices draw from one stream, `default_generator`: a (seed, offset) gives the same numbers on each.

So seeding a device seeds what CPU tensors draw too, and a program gives the same numbers on both.
"""

from __future__ import annotations

import sys
from typing import Any

from dynograd.base import random_streams
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

    >>> dynograd.cuda.manual_seed(0)
    """
    if driver.known() is not None:
        random_streams.manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Seeds the generator unforeseeably; ignored without a device."""
    if driver.known() is not None:
        random_streams.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed of the generator.

    >>> _ = dynograd.manual_seed(5)
    >>> dynograd.cuda.initial_seed()
    5
    """
    return random_streams.initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """The generator's state as a CPU tensor of bytes, for `set_rng_state`."""
    return _package().get_rng_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Continues at a state from `get_rng_state`."""
    _package().set_rng_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The state for each device."""
    current = driver.known()
    return [get_rng_state() for _ in range(0 if current is None else current.count())]


def set_rng_state_all(new_states: Any) -> None:
    """Puts back what `get_rng_state_all` returned."""
    for state in list(new_states)[:1]:
        set_rng_state(state)
