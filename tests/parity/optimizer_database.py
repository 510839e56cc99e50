"""PyTorch's own table of optimizers, run against dynograd: what the tests of `test_optimizer_database.py` ask of an entry.

An entry (`OptimizerInfo`) has configurations with and without `foreach`, `fused` and `differentiable`, arguments that must be
refused, and schedules to run beside it. Both libraries get the same parameters and gradients. From the top folder:

    python -m tests.parity.optimizer_database NAME...     what fails in these entries, or in all
"""

from __future__ import annotations

import copy
import importlib
import pickle
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch.testing._internal.common_optimizers import (
    OptimizerErrorEnum,
    _get_optim_inputs_including_global_cliquey_kwargs,
    optim_db,
)

import dynograd
from tests.parity.database import Database
from tests.parity.op_database_twins import converted, differences

__all__ = ["DATABASE", "ENTRIES", "plain_inputs_of"]

STEPS = 20
SHAPES = [(10, 5), (5,), (), (3, 2, 4), (2, 0)]
MATRICES = [(10, 5), (3, 4), (1, 1)]
TOLERANCE = {torch.float64: (1e-10, 1e-10), torch.float32: (2e-5, 2e-5), torch.complex128: (1e-10, 1e-10)}
# Muon multiplies in bfloat16, whose sums have the order of their terms in the last bit.
WIDE = dict.fromkeys(TOLERANCE, (1e-2, 1e-2))
# Loading casts these to the parameter's dtype in torch, so that training goes on with other numbers; ours stay as they were saved.
COUNTERS = ("mu_product", "eta", "mu")
ENTRIES = {entry.name: entry for entry in optim_db}


def inputs_of(entry: Any, **only: bool) -> list[Any]:
    """The configurations, each also with every implementation that the entry names."""
    results = _get_optim_inputs_including_global_cliquey_kwargs("cpu", torch.float64, entry)
    return [result for result in results if all(bool(result.kwargs.get(key)) == value for key, value in only.items())]


def plain_inputs_of(entry: Any) -> list[Any]:
    return entry.optim_inputs_func("cpu")


class Pair:
    """The same parameters, optimizers and gradients in dynograd and in torch."""

    def __init__(self, entry: Any, kwargs: dict[str, Any], dtype: torch.dtype = torch.float64, sparse: bool = False):
        self.entry, self.sparse = entry, sparse or entry.only_supports_sparse_grads
        self.tolerance = WIDE if entry.name == "Muon" else TOLERANCE
        torch.manual_seed(0)
        if entry.name in ("SparseAdam", "LBFGS") and isinstance(
            kwargs.get("lr"), torch.Tensor
        ):  # torch's counts in float32
            self.tolerance = dict.fromkeys(TOLERANCE, (1e-6, 1e-6))
        shapes = MATRICES if entry.name == "Muon" or self.sparse else SHAPES
        if entry.name == "Adafactor":  # torch's divides by the number of elements
            shapes = [shape for shape in shapes if 0 not in shape]
        differentiable = kwargs.get("differentiable", False)
        theirs = [torch.randn(shape, dtype=dtype).requires_grad_(not differentiable) for shape in shapes]
        self.parameters = [converted(their, {}) for their in theirs], theirs
        self.random = torch.Generator().manual_seed(1)
        self.make(kwargs)

    def make(self, kwargs: dict[str, Any], *names: Any) -> None:
        self.classes = getattr(dynograd.optim, self.entry.name), self.entry.optim_cls
        self.optimizers = [
            cls(params, **(converted(kwargs, {}) if lib is dynograd else copy.deepcopy(kwargs)))
            for cls, params, lib in zip(self.classes, self.parameters, (dynograd, torch))
        ]

    def gradients(self, number: int) -> None:
        """New gradients; the second parameter has none at each third step."""
        for place, (ours, theirs) in enumerate(zip(*self.parameters, strict=True)):
            g = torch.randn(theirs.shape, dtype=theirs.dtype, generator=self.random)
            if place == 1 and number % 3 == 2:
                ours.grad = theirs.grad = None
            elif self.sparse:
                rows = torch.randint(len(g), (len(g),), generator=self.random)
                theirs.grad = torch.sparse_coo_tensor(rows[None], g[rows], g.shape, check_invariants=True)
                ours.grad = dynograd.sparse_coo_tensor(converted(rows[None], {}), converted(g[rows], {}), g.shape)
            else:
                ours.grad, theirs.grad = converted(g, {}), g

    def step(self, number: int) -> None:
        self.gradients(number)
        for optimizer in self.optimizers:
            optimizer.step(_loss_of(optimizer) if self.entry.step_requires_closure else None)

    def wrong(self) -> str:
        """What distinguishes parameters and states."""
        result = differences(*(list(map(_detached, params)) for params in self.parameters), self.tolerance)
        if result:
            return f"parameters: {result}"
        ours, theirs = (optimizer.state_dict() for optimizer in self.optimizers)
        return state_differences(ours, theirs, self.tolerance)

    def run(self, steps: int = STEPS, start: int = 0) -> str:
        for number in range(start, start + steps):
            self.step(number)
            wrong = differences(*(list(map(_detached, params)) for params in self.parameters), self.tolerance)
            if wrong:
                return f"step {number}: {wrong}"
        return self.wrong()


def _detached(value: Any) -> Any:
    return value.detach()


def _loss_of(optimizer: Any) -> Callable[[], Any]:
    """A closure whose gradients are those already there and whose loss falls with them."""
    params = [p for group in optimizer.param_groups for p in group["params"]]

    def closure() -> Any:
        total = None
        for p in params:
            loss = ((p - 1) ** 2).sum() + (p**4).sum() / 8
            total = loss if total is None else total + loss
        optimizer.zero_grad()
        total.backward()
        return total

    return closure


def state_differences(ours: Any, theirs: Any, tolerance: Any, path: str = "state_dict") -> str:
    """What distinguishes two states, key by key and in their order."""
    if isinstance(theirs, dict):
        if path.endswith(".state"):
            ours, theirs = dict(sorted(ours.items())), dict(sorted(theirs.items()))
        if list(ours) != list(theirs):
            return f"{path} has {list(ours)} instead of {list(theirs)}"
        pairs = [(ours[key], theirs[key], f"{path}.{key}") for key in theirs]
        return next(filter(None, (state_differences(a, b, tolerance, where) for a, b, where in pairs)), "")
    if isinstance(theirs, (list, tuple)):
        if type(ours) is not type(theirs) or len(ours) != len(theirs):
            return f"{path}: {ours!r} instead of {theirs!r}"
        pairs = [(a, b, f"{path}[{place}]") for place, (a, b) in enumerate(zip(ours, theirs))]
        return next(filter(None, (state_differences(a, b, tolerance, where) for a, b, where in pairs)), "")
    if isinstance(theirs, torch.Tensor) and theirs.layout is not torch.strided:
        if not (isinstance(ours, dynograd.Tensor) and ours.is_sparse):
            return f"{path}: {type(ours).__name__} instead of a sparse tensor"
        ours, theirs = ours.to_dense(), theirs.to_dense()
    if isinstance(theirs, torch.Tensor) and path.rpartition(".")[2] in COUNTERS:
        ours = ours.to(dynograd.float64) if theirs.dtype == torch.float64 else ours
    wrong = differences(ours, theirs, tolerance)
    return wrong and f"{path}: {wrong}"


def described(one: Any) -> str:
    return f"{one.desc} {one.kwargs}"


# --- what is asked -----------------------------------------------------------------------------------------------------------


def steps(entry: Any) -> Iterator[str]:
    """20 steps with every configuration and implementation, in float64; plain ones in float32 too. States as well."""
    for element in inputs_of(entry):
        if not element.kwargs.get("differentiable"):
            yield _said(element, Pair(entry, element.kwargs).run())
    for element in plain_inputs_of(entry):
        if entry.name != "LBFGS":  # rounding changes what a search tries next
            yield _said(element, Pair(entry, element.kwargs, torch.float32).run(), "float32 ")


def capturable(entry: Any) -> Iterator[str]:
    """`capturable` makes no difference: torch, which takes it on a GPU alone, steps without."""
    for element in entry.optim_inputs_func("cuda"):
        if element.kwargs.get("capturable"):
            pair = Pair(entry, element.kwargs | {"capturable": False})
            pair.tolerance = dict.fromkeys(TOLERANCE, (1e-6, 1e-6))  # a tensor lr is float32 in torch's arithmetic
            for group in pair.optimizers[0].param_groups:
                group["capturable"] = True
            wrong = pair.run(8)
            yield _said(element, "" if wrong.startswith("state_dict") else wrong)


def recorded(entry: Any) -> Iterator[str]:
    """Steps with differentiable=True. torch's Adam takes roots and powers of float32 counters there."""
    for element in inputs_of(entry, differentiable=True):
        pair = Pair(entry, element.kwargs)
        pair.tolerance = dict.fromkeys(TOLERANCE, (1e-5, 1e-6))
        yield _said(element, pair.run(6))


def complex_numbers(entry: Any) -> Iterator[str]:
    """Complex parameters, where torch takes them."""
    if entry.supports_complex:
        for element in plain_inputs_of(entry):
            if not entry.step_requires_closure:
                yield _said(element, Pair(entry, element.kwargs, torch.complex128).run(8))


def sparse_gradients(entry: Any) -> Iterator[str]:
    """Sparse gradients, where torch takes them; refused elsewhere."""
    if entry.only_supports_sparse_grads or entry.supports_sparse:
        for element in plain_inputs_of(entry):
            if not element.kwargs.get("weight_decay"):
                yield _said(element, Pair(entry, element.kwargs, sparse=True).run())
        pair = Pair(entry, entry.metadata_for_sparse[0], sparse=True)
        yield _said(plain_inputs_of(entry)[0], _scheduled(pair, entry.metadata_for_sparse[1]))
    elif not entry.step_requires_closure:
        pair = Pair(entry, {}, sparse=True)
        for optimizer in reversed(pair.optimizers):
            pair.gradients(0)
            try:
                optimizer.step()
                yield f"{type(optimizer).__module__}: sparse gradients are taken"
            except RuntimeError as error:
                if "does not support sparse gradients" not in str(error):
                    yield str(error)


def closures(entry: Any) -> Iterator[str]:
    """Steps with a closure that computes loss and gradients."""
    if entry.only_supports_sparse_grads:
        return
    for element in inputs_of(entry):
        if element.kwargs.get("differentiable"):
            continue
        pair = Pair(entry, element.kwargs)
        for number in range(8):
            losses = [optimizer.step(_loss_of(optimizer)) for optimizer in pair.optimizers]
            wrong = differences(losses[0].detach(), losses[1].detach(), pair.tolerance) or pair.wrong()
            if wrong:
                yield _said(element, f"step {number}: {wrong}")
                break


def groups(entry: Any) -> Iterator[str]:
    """Groups with rates of their own, names, and one more group later."""
    if not entry.supports_param_groups:
        return
    for element in plain_inputs_of(entry):
        for named in (False, True):
            pair = Pair(entry, element.kwargs)
            created = []
            for params, cls, lib in zip(pair.parameters, pair.classes, (dynograd, torch)):
                argument = [(f"p{n}", p) for n, p in enumerate(params)] if named else list(params)
                kwargs = converted(element.kwargs, {}) if lib is dynograd else element.kwargs
                created.append(cls([{"params": argument[:1]}, {"params": argument[1:2], "lr": 0.01}], **kwargs))
            pair.optimizers = created
            wrong = pair.run(4)
            for optimizer, params in zip(created, pair.parameters):
                rest = params[2:]
                optimizer.add_param_group({"params": [("last", rest[0])] if named else rest[:1], "lr": 0.5})
            yield _said(element, wrong or pair.run(6, 4), "named " if named else "")


def states(entry: Any) -> Iterator[str]:
    """The state of each library in an optimizer of the other, and in a new one of its own; each goes on as the other would."""
    for element in plain_inputs_of(entry):
        pair = Pair(entry, element.kwargs)
        if entry.name in ("NAdam", "ASGD"):
            pair.tolerance = dict.fromkeys(TOLERANCE, (1e-6, 1e-6))
        wrong = pair.run(7)
        if wrong:
            yield _said(element, wrong)
            continue
        ours, theirs = (copy.deepcopy(optimizer.state_dict()) for optimizer in pair.optimizers)
        for name, pieces in {"other": (_to_ours(theirs), _to_theirs(ours)), "own": (ours, theirs)}.items():
            pair.make({})
            for optimizer, saved in zip(pair.optimizers, pieces):
                optimizer.load_state_dict(copy.deepcopy(saved))
            yield _said(element, pair.run(5, 7), f"{name} state: ")


def _to_ours(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_ours(element) for key, element in value.items()}
    if isinstance(value, list):
        return [_to_ours(element) for element in value]
    return converted(value, {})


def _to_theirs(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_theirs(element) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_to_theirs(element) for element in value)
    return torch.from_numpy(numpy.array(value.detach().numpy())) if isinstance(value, dynograd.Tensor) else value


def copies(entry: Any) -> Iterator[str]:
    """Copies and pickles of an optimizer with its parameters go on as torch's, which is not copied (its LBFGS cannot be)."""
    for element in plain_inputs_of(entry):
        for name, way in {"deepcopy": copy.deepcopy, "pickle": lambda it: pickle.loads(pickle.dumps(it))}.items():
            pair = Pair(entry, element.kwargs)
            pair.run(3)
            params, optimizer = way((pair.parameters[0], pair.optimizers[0]))
            pair.parameters, pair.optimizers = (params, pair.parameters[1]), [optimizer, pair.optimizers[1]]
            yield _said(element, pair.run(4, 3), f"{name}: ")


def hooks(entry: Any) -> Iterator[str]:
    """All hooks run, in torch's order, with what torch gives them; what they give back is used."""
    pair = Pair(entry, plain_inputs_of(entry)[0].kwargs)
    logs = []
    for lib, optimizer in zip((dynograd, torch), pair.optimizers):
        logs.append(log := [])
        logged = [_logged(log, number, lib) for number in range(12)]
        everywhere = importlib.import_module(f"{lib.__name__}.optim.optimizer")
        handles = [
            everywhere.register_optimizer_step_pre_hook(logged[0]),
            everywhere.register_optimizer_step_post_hook(logged[1]),
            optimizer.register_step_pre_hook(logged[2]),
            optimizer.register_step_post_hook(logged[3]),
            optimizer.register_state_dict_pre_hook(logged[4]),
            optimizer.register_state_dict_post_hook(logged[5]),
            optimizer.register_state_dict_post_hook(logged[6], prepend=True),
            optimizer.register_load_state_dict_pre_hook(logged[7]),
            optimizer.register_load_state_dict_pre_hook(logged[8], prepend=True),
            optimizer.register_load_state_dict_post_hook(logged[9]),
        ]
        changing = optimizer.register_state_dict_post_hook(lambda optimizer, state: state | {"more": 1})
        pair.gradients(0)
        closure = _loss_of(optimizer) if entry.step_requires_closure else None
        optimizer.step(closure)
        log.append(sorted(optimizer.state_dict()))
        changing.remove()
        optimizer.load_state_dict(optimizer.state_dict())
        for handle in handles:
            handle.remove()
        optimizer.step(closure)
    if logs[0] != logs[1]:
        yield f"calls {logs[0]} instead of {logs[1]}"


def _logged(log: list[Any], number: int, lib: Any) -> Any:
    def hook(*given: Any) -> None:
        log.append(
            (number, [sorted(element) if isinstance(element, dict) else type(element).__name__ for element in given])
        )

    return hook


def errors(entry: Any) -> Iterator[str]:
    """Arguments that torch refuses are refused with its type and words."""
    for refused in entry.optim_error_inputs_func("cpu", torch.float32):
        argument = refused.optimizer_error_input
        params = argument.params if argument.params is not None else [torch.nn.Parameter(torch.randn(1, 1))]
        try:
            params, kwargs = (_arguments(element, {}) for element in (params, argument.kwargs))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                optimizer = getattr(dynograd.optim, entry.name)(params, **kwargs)
                if refused.error_on == OptimizerErrorEnum.STEP_ERROR:
                    optimizer.step()
            yield _said(argument, f"no {refused.error_type.__name__}")
        except refused.error_type as error:
            if not re.search(refused.error_regex, str(error)):
                yield _said(argument, f"says {str(error)!r}, expected {refused.error_regex!r}")
        except Exception as error:
            yield _said(argument, f"{type(error).__name__} ({error}) instead of {refused.error_type.__name__}")


def _arguments(value: Any, met: dict[int, Any]) -> Any:
    """A value of torch in dynograd; sparse tensors and parameters too, and a tensor that is there twice stays one."""
    if isinstance(value, torch.Tensor):
        if id(value) not in met:
            sparse = value.layout is not torch.strided
            created = dynograd.sparse_coo_tensor(tuple(value.shape)) if sparse else converted(value, {})
            met[id(value)] = dynograd.nn.Parameter(created) if isinstance(value, torch.nn.Parameter) else created
            if not sparse and value.grad is not None:
                created.grad = converted(value.grad, {})
        return met[id(value)]
    if isinstance(value, dict):
        return {key: _arguments(element, met) for key, element in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_arguments(element, met) for element in value)
    return value


def schedules(entry: Any) -> Iterator[str]:
    """The schedules that torch runs beside the optimizer: 50 steps of rates and parameters."""
    for created in entry.scheduler_inputs:
        for element in plain_inputs_of(entry)[:3]:
            yield _said(element, _scheduled(Pair(entry, element.kwargs), created, 50))


def _scheduled(pair: Pair, makers: Any, count: int = STEPS) -> str:
    ours, theirs = pair.optimizers
    both = [[_of_ours(maker)(ours) for maker in makers], [maker(theirs) for maker in makers]]
    for number in range(count):
        pair.step(number)
        for schedulers in both:
            for scheduler in schedulers:
                scheduler.step(*([1.0] if type(scheduler).__name__ == "ReduceLROnPlateau" else ()))
        rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in pair.optimizers]
        if not numpy.allclose([float(r) for r in rates[0]], [float(r) for r in rates[1]], rtol=1e-12, atol=0):
            return f"step {number}: rates {rates[0]} instead of {rates[1]}"
    return pair.wrong()


def _of_ours(maker: Any) -> Any:
    """The function that makes a schedule, with dynograd's classes."""
    names = [name for name in maker.__code__.co_names if hasattr(dynograd.optim.lr_scheduler, name)]
    return types.FunctionType(
        maker.__code__, {name: getattr(dynograd.optim.lr_scheduler, name) for name in names}, closure=maker.__closure__
    )


def _said(one: Any, wrong: str, prefix: str = "") -> str:
    return wrong and f"{prefix}{described(one)}: {wrong}"


DATABASE = Database(
    __file__,
    ENTRIES,
    [
        steps,
        capturable,
        recorded,
        complex_numbers,
        sparse_gradients,
        closures,
        groups,
        states,
        copies,
        hooks,
        errors,
        schedules,
    ],
    400,
)


if __name__ == "__main__":
    sys.exit(DATABASE.main(__doc__))
