"""What a step begins with, brought back again and again; and what an exception may leave on in dynograd."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy

import dynograd as torch
from dynograd import nn
from dynograd.autograd import engine
from dynograd.interpreter import tensor_parts
from dynograd.ops import readers
from dynograd.tensor import inplace
from tests.soak.models import MODELS, Model

AFTER = 3
"""So many steps are compared after an exception."""


class Kept:
    """The state that a model has now, to be brought back."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.values = [(tensor, tensor.detach().clone()) for tensor in self._tensors()]
        self.numbers = [(state, dict(state)) for state in self._states()]
        scalers = [thing for thing in model.things if isinstance(thing, torch.amp.GradScaler)]
        self.scalers = [(scaler, scaler.get_scale(), scaler.state_dict()) for scaler in scalers]

    def _tensors(self) -> list[Any]:
        listed: list[Any] = []
        for thing in self.model.things:
            if isinstance(thing, nn.Module):
                listed += [*thing.parameters(), *thing.buffers()]
            elif isinstance(thing, torch.Tensor):
                listed.append(thing)
        for state in self._states():
            listed += [value for value in state.values() if isinstance(value, torch.Tensor)]
        return listed

    def _states(self) -> list[dict[str, Any]]:
        optimizers = [thing for thing in self.model.things if isinstance(thing, torch.optim.Optimizer)]
        return [state for optimizer in optimizers for state in optimizer.state.values()]

    def bring_back(self) -> None:
        with torch.no_grad():
            for tensor, value in self.values:
                tensor.copy_(value)
                tensor.grad = None
        for state, before in self.numbers:
            for name in set(state) - set(before):
                del state[name]
            state.update(before)
        for scaler, scale, described in self.scalers:
            scaler.update(scale)  # which ends an iteration of it
            scaler.load_state_dict(described)

    def steps(self, first: int, count: int = AFTER) -> list[Any]:
        """What so many steps give from here on, with the state that they leave."""
        results = []
        for n in range(first, first + count):
            torch.manual_seed(n)
            results.append(plain(self.model.step(n)))
        return [*results, [tensor.detach().numpy().copy() for tensor in self._tensors()]]


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().numpy().copy()
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def are_same(first: Any, second: Any) -> bool:
    """Bit for bit."""
    if isinstance(first, numpy.ndarray):
        return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
    if isinstance(first, dict):
        return first.keys() == second.keys() and all([are_same(first[name], second[name]) for name in first])
    if isinstance(first, list):
        return len(first) == len(second) and all([are_same(element, other) for element, other in zip(first, second)])
    return bool(first == second)


def status() -> dict[str, Any]:
    """All that is on, open or held in dynograd: what each thread has of its own, readers, guards, watchers, locks."""
    told: dict[str, Any] = {
        "readers": [reader.name for reader in readers.turned_on()],
        "times": [(reader.name, reader.times) for reader in readers.turned_on()],
        "guards": len(inplace.guards),
        "watchers": len(tensor_parts.watchers),
        "observers": len(engine.observers),
        "scopes": readers.CALLS.scopes,
    }
    for name, state in _of_threads():
        told |= {f"{name}.{inner}": now for inner, now in _simple(vars(state)).items()}
    told |= {name: "locked" for name, lock in _locks() if repr(lock).startswith("<locked")}
    return told


_seen: dict[str, Any] = {"modules": 0}  # states of threads and locks, looked for again when modules were imported


def _look() -> None:
    modules = list(sys.modules.items())
    if _seen["modules"] == len(modules):
        return
    states, locks = [], []
    for name, module in modules:
        for attribute, value in list(vars(module).items()) if name.startswith("dynograd") else ():
            if isinstance(value, threading.local) and type(value).__module__ == name:
                states.append((f"{name}.{attribute}", value))
            locks += [(f"{name}.{attribute}", part) for part in (value, *_parts(value)) if "_thread" in str(type(part))]
    _seen.update(modules=len(modules), states=states, locks=locks)


def _of_threads() -> list[tuple[str, Any]]:
    _look()
    return list(_seen["states"])


def _locks() -> list[tuple[str, Any]]:
    """One that a fork has replaced by a new one is not looked at any more."""
    _look()
    return list(_seen["locks"])


def _parts(value: Any) -> list[Any]:
    if type(value).__module__.startswith("dynograd") and not isinstance(value, type):
        return list(getattr(value, "__dict__", {}).values())
    return []


def _simple(names: dict[str, Any]) -> dict[str, Any]:
    """What is not a cache: flags, depths, and whether there is an object."""
    simple = {}
    for name, value in names.items():
        if isinstance(value, (bool, int, str, type(None))):
            simple[name] = value
        elif isinstance(value, (list, tuple)):
            simple[name] = len(value)
        elif not isinstance(value, dict):
            simple[name] = type(value).__name__
    return simple


def problems_of(model: Model) -> list[str]:
    """What is still under way in the model's compiled functions."""
    told = []
    for function in model.compiled:
        if function.turns:
            told.append("a compiled function is called")
        if function.recording is not None:
            told.append("a compiled function records")
        if any([walk.running for walk in function.walks.values()]):
            told.append("a compiled function walks")
    return told


class Disturbed:
    """A model whose steps end with an exception, and what they give without one."""

    def __init__(self, name: str, make: Callable[[], Model] | None = None) -> None:
        torch.manual_seed(0)
        self.name, self.model = name, (make or MODELS[name])()
        self.first = self.model.warm
        for n in range(self.first):
            torch.manual_seed(n)
            self.model.step(n)
        self.kept = Kept(self.model)
        start = time.perf_counter()
        self.expected = self._steps()
        self.seconds = (time.perf_counter() - start) / AFTER
        assert are_same(self._steps(), self.expected), f"{name}: two runs from the same state differ"
        self.before = status()

    def _steps(self) -> Any:
        self.kept.bring_back()
        return self.kept.steps(self.first, AFTER)

    def problems(self, run: Callable[[Callable[[], Any]], Any]) -> list[str]:
        """What is wrong after `run(step)` has raised somewhere in the step."""
        self.kept.bring_back()
        torch.manual_seed(self.first)
        run(lambda: self.model.step(self.first))
        after = status()
        told = [
            f"{name}: {self.before.get(name)} became {after.get(name)}"
            for name in {**self.before, **after}
            if self.before.get(name) != after.get(name)
        ]
        told += problems_of(self.model)
        if not told and not are_same(self._steps(), self.expected):
            told.append("the same steps give something else")
        return told

    def count(self, places: Any) -> int:
        """How many places there are in the step: `places` counts them."""
        self.kept.bring_back()
        torch.manual_seed(self.first)
        places.run(lambda: self.model.step(self.first))
        return int(places.count)
