"""What decides the bits of a step beside its inputs: the states of random generators as plain data (the three global ones, and those
that a program has of its own), and at which places scopes of `autobatch` are not recorded.
"""

from __future__ import annotations

import random
from typing import Any

import numpy

from dynograd.base.habits import put_habits, saved_habits
from dynograd.base.random_streams import Generator, default_generator
from dynograd.errors import CheckpointError

_NO_STATE = (KeyError, ValueError, TypeError, AttributeError, OverflowError, IndexError)
__all__ = ["global_state", "is_generator", "set_global_state", "set_state", "state_of"]


def global_state() -> dict[str, Any]:
    """State of dynograd's default generator (all devices draw from it), Python's `random` and NumPy's global generator; and `base.habits`."""
    return {
        "dynograd": state_of(default_generator),
        "python": state_of(random),
        "numpy": _numpy_data(numpy.random.get_state(legacy=False)),
        "habits": saved_habits(),
    }


def set_global_state(state: dict[str, Any]) -> None:
    """Puts them back.

    Raises:
        CheckpointError: one of them has no such state.
    """
    try:
        set_state(default_generator, state["dynograd"])
        set_state(random, state["python"])
        plain = _numpy_plain(state["numpy"])
        if numpy.random.get_bit_generator().state["bit_generator"] != plain["bit_generator"]:
            numpy.random.set_bit_generator(_bit_generator(plain["bit_generator"])())
        numpy.random.set_state(plain)
        put_habits(state.get("habits", {}))
    except CheckpointError:
        raise
    except _NO_STATE as error:
        raise CheckpointError(
            f"load_run: expected the states of the random generators of dynograd, Python and NumPy, got others ({type(error).__name__}: "
            f"{str(error)[:100]}). The file is damaged; use another one, or random=False."
        ) from error


def is_generator(value: Any) -> bool:
    """Whether it is a generator of random numbers of dynograd, NumPy or Python."""
    return isinstance(value, (Generator, numpy.random.Generator, numpy.random.RandomState, random.Random))


def state_of(generator: Any) -> dict[str, Any]:
    """What `set_state` needs to bring a generator, or the module `random`, back to here."""
    if isinstance(generator, Generator):
        seed, offset = generator.state()
        return {"kind": "dynograd", "seed": seed, "offset": offset}
    if isinstance(generator, numpy.random.Generator):
        return _numpy_data(generator.bit_generator.state)
    if isinstance(generator, numpy.random.RandomState):
        return _numpy_data(generator.get_state(legacy=False))
    version, words, normal = generator.getstate()
    return {"kind": "python", "version": version, "words": numpy.array(words, numpy.uint32), "normal": normal}


def set_state(generator: Any, state: dict[str, Any]) -> None:
    """Continues where `state_of` was asked.

    Raises:
        CheckpointError: the state is of another kind of generator.
    """
    try:
        if isinstance(generator, Generator):
            generator.set_plain_state((state["seed"], state["offset"]))
        elif isinstance(generator, numpy.random.Generator):
            generator.bit_generator.state = _numpy_plain(state)
        elif isinstance(generator, numpy.random.RandomState):
            generator.set_state(_numpy_plain(state))
        else:
            generator.setstate((state["version"], tuple(state["words"].tolist()), state["normal"]))
    except _NO_STATE as error:
        kind = state.get("kind") if isinstance(state, dict) else type(state).__name__
        raise CheckpointError(
            f"load_run: expected the state of a {type(generator).__module__}.{type(generator).__name__}, got that of a generator of kind "
            f"{kind!r} ({error}). Give load_run the generators that save_run was given."
        ) from error


def _numpy_data(state: Any) -> dict[str, Any]:
    """A bit generator's state, with integers of 128 bits and arrays as they are; both can be saved."""
    return {"kind": state["bit_generator"], "state": state}


def _numpy_plain(data: dict[str, Any]) -> dict[str, Any]:
    return data["state"]


def _bit_generator(name: str) -> Any:
    known = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
    if name not in known:
        raise CheckpointError(
            f"load_run: NumPy's global generator was a {name!r}, known are {', '.join(known)}. Set one of these before the run is saved."
        )
    return getattr(numpy.random, name)
