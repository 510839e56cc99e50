"""A module called with other parameters, and the parameters of several modules stacked for `func.vmap`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dynograd.nn.layers.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from dynograd.nn.module import Module
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Tensor | Any:
    """`module(*args, **kwargs)` with some of its parameters and buffers replaced for this one call.

    Args:
        module: what is called.
        parameter_and_buffer_dicts: tensors by path ("layer.weight"), or a tuple of such dicts. Names of no parameter or buffer are
            attributes for this one call; what the module assigns to a name is in the dict afterwards.
        args: the positional arguments, a tuple; what is no tuple is the only argument.
        kwargs: the keyword arguments, a dict.
        tie_weights: a tensor that the module has under several names is replaced under all of them.
        strict: the names must be exactly those of the module.
    Returns:
        what the module gives.
    Raises:
        ValueError: no dict, a name in two of them, or different tensors for one that has several names.
        KeyError: a path to no module.
        TypeError: a value that is no tensor.
        RuntimeError: with `strict`, names are missing or unknown.

    >>> layer = dynograd.nn.Linear(2, 1)
    >>> state = {"weight": tensor([[1.0, 2.0]]), "bias": tensor([0.5])}
    >>> dynograd.func.functional_call(layer, state, tensor([1.0, 1.0]))
    tensor([3.5000])
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        dicts: Sequence[Any] = (parameter_and_buffer_dicts,)
    elif isinstance(parameter_and_buffer_dicts, Sequence) and all(
        isinstance(entry, dict) for entry in parameter_and_buffer_dicts
    ):
        dicts = parameter_and_buffer_dicts
    else:
        raise ValueError(
            f"functional_call: Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts).__name__}."
        )
    state: dict[str, Any] = dicts[0] if len(dicts) == 1 else {}
    for tensors in dicts if len(dicts) > 1 else ():
        for name in tensors:
            if name in state:
                raise ValueError(f"functional_call: {name!r} appeared in multiple dictionaries; behavior is ambiguous.")
        state |= tensors
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with replaced(module, state, tie_weights, strict):
        return module(*positional, **(kwargs or {}))


@contextmanager
def replaced(module: Module, state: dict[str, Any], tie_weights: bool, strict: bool) -> Iterator[None]:
    """A context in which `module` has the tensors of `state`; what it sets there by name is in `state` afterwards.

    Args:
        module: whose tensors are replaced.
        state: tensors, or None, by path.
        tie_weights: a tensor that the module has under several names is replaced under all of them.
        strict: the names must be exactly those of the module.
    Raises:
        KeyError, TypeError, ValueError, RuntimeError: as `functional_call`.

    >>> from dynograd.nn.functional_call import replaced
    >>> layer = dynograd.nn.Linear(2, 1, bias=False)
    >>> with replaced(layer, {"weight": tensor([[1.0, 2.0]])}, True, False):
    ...     layer(tensor([1.0, 1.0]))
    tensor([3.])
    """
    names_of_one = _names_of_tensors(module) if tie_weights or strict else {}
    if strict:
        _check_names(module, state, names_of_one, tie_weights)
    changes: dict[str, Any] = dict(state)
    if tie_weights:
        for names in names_of_one.values():
            chosen = [name for name in names if name in state]
            if len({id(state[name]) for name in chosen}) > 1:
                raise ValueError(
                    f"functional_call: got multiple values for keys {chosen}, which are tied. Give one of them, or tie_weights=False."
                )
            changes |= {name: state[chosen[0]] for name in names if chosen}
    replaced_before: list[tuple[str, Module, str, Any]] = []
    try:
        for name, value in changes.items():
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"functional_call: expected a Tensor for {name!r}, got {type(value).__name__}.")
            owner, key = _place(module, name)
            replaced_before.append((name, owner, key, _exchange(owner, key, value)))
        yield
    finally:
        for name, owner, key, before in reversed(replaced_before):
            value = _exchange(owner, key, before)
            if name in state and value is not _ABSENT and value is not state[name]:
                state[name] = value


_ABSENT = object()


def _place(module: Module, name: str) -> tuple[Module, str]:
    """The submodule that a path leads to, and the last name of it."""
    path, _, key = name.rpartition(".")
    owner = module
    for part in path.split(".") if path else ():
        child = owner._modules.get(part)
        if child is None:
            raise KeyError(
                f"functional_call: {type(module).__name__} has no module {path!r}, so nothing can be replaced at {name!r}; there are "
                f"{', '.join([own for own, _ in module.named_modules() if own]) or 'none'}."
            )
        owner = child
    return owner, key


def _exchange(owner: Module, key: str, value: Any) -> Any:
    """Puts a tensor under a name of a module; gives what was there. Names of no parameter or buffer are plain attributes meanwhile."""
    for group in (owner._parameters, owner._buffers):
        if key in group:
            before = group[key]
            if value is _ABSENT:
                del group[key]
            else:
                group[key] = value
            return before
    before = getattr(owner, key, _ABSENT)
    if before is not _ABSENT and before is not None and not isinstance(before, Tensor):
        raise TypeError(
            f"functional_call: {key!r} of {type(owner).__name__} is no tensor but a {type(before).__name__}. Replace tensors only."
        )
    if value is _ABSENT:
        if before is not _ABSENT:  # the module may have deleted it
            delattr(owner, key)
    else:
        setattr(owner, key, value)
    return before


def _names_of_tensors(module: Module) -> dict[int, list[str]]:
    """The names of each of the module's tensors, by the tensor's id."""
    names: dict[int, list[str]] = {}
    for path, submodule in module.named_modules(remove_duplicate=False):
        for group in (submodule._parameters, submodule._buffers):
            for key, value in group.items():
                if value is not None:
                    names.setdefault(id(value), []).append(f"{path}.{key}" if path else key)
    return names


def _check_names(module: Module, state: dict[str, Any], names_of_one: dict[int, list[str]], tie_weights: bool) -> None:
    own = {name for names in names_of_one.values() for name in names}
    unknown = sorted(set(state) - own)
    missing = sorted(
        [
            name
            for names in names_of_one.values()
            for name in names
            if name not in state and not (tie_weights and any([other in state for other in names]))
        ]
    )
    if unknown or missing:
        raise RuntimeError(
            f"functional_call: error(s) in names for {type(module).__name__}: unexpected {unknown}, missing {missing}. Leave strict "
            f"out to replace only some of them."
        )


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters, buffers) of several modules of one kind, each stacked along a new dim 0: an ensemble for `func.vmap`.

    Args:
        models: modules of one class, all in training or all in evaluation mode; at least one.
    Returns:
        two dicts of path and tensor (len(models), *).
    Raises:
        RuntimeError: no modules, of different classes, in different modes, or of different `requires_grad`.

    >>> models = [dynograd.nn.Linear(3, 2) for _ in "abcd"]
    >>> parameters, buffers = dynograd.func.stack_module_state(models)
    >>> call = lambda p, x: dynograd.func.functional_call(models[0], p, x)
    >>> dynograd.vmap(call, in_dims=(0, None))(parameters, dynograd.ones(5, 3)).shape
    dynograd.Size([4, 5, 2])
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode. Call .train() or .eval() on all."
        )
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(
            f"stack_module_state: Expected all models to be of the same class, got "
            f"{', '.join(sorted({type(model).__name__ for model in models}))}."
        )
    return _stacked([dict(model.named_parameters()) for model in models]), _stacked(
        [dict(model.named_buffers()) for model in models]
    )


def _stacked(states: list[dict[str, Any]]) -> dict[str, Any]:
    stack = public_functions()["stack"]
    stacked = {}
    for name, first in states[0].items():
        parts = [state[name] for state in states]
        if {part.requires_grad for part in parts} != {first.requires_grad}:
            raise RuntimeError(
                f"stack_module_state: Expected {name!r} to have the same .requires_grad in every model. Set it alike with requires_grad_()."
            )
        whole = stack([part.detach() for part in parts], 0)
        stacked[name] = whole.requires_grad_(first.requires_grad)
    return stacked


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Makes every batch norm in `root` use the statistics of its batch alone, for `vmap` over models; changes and returns `root`.

    Running statistics cannot be written inside `vmap`, where each example would leave others.

    Args:
        root: a module.
    Returns:
        `root`.

    >>> model = dynograd.nn.Sequential(dynograd.nn.BatchNorm1d(3))
    >>> dynograd.func.replace_all_batch_norm_modules_(model)[0].running_mean is None
    True
    """
    for module in root.modules():
        if isinstance(module, BatchNorm1d | BatchNorm2d | BatchNorm3d):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
