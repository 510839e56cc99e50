"""Pruning: `name_orig` keeps the weight, the buffer `name_mask` says what stays, and `name` is their product at each forward.

`pruning_methods.py` has the classes that choose what goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.nn.module import Module
from dynograd.nn.utils.pruning_methods import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    method_of,
)
from dynograd.tensor.creation import ones_like
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def identity(module: Module, name: str) -> Module:
    """Prunes nothing: a mask of ones.

    Args:
        module: changed in place.
        name: of its parameter.
    Returns:
        `module`.

    >>> layer = dynograd.nn.utils.prune.identity(dynograd.nn.Linear(2, 1), "weight")
    >>> layer.weight_mask
    tensor([[1., 1.]])
    """
    Identity.apply(module, name)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes what is 0 in `mask`, and what was pruned before.

    Args:
        module: changed in place.
        name: of its parameter.
        mask: of the parameter's shape, 0 where an element goes.
    Returns:
        `module`.
    Raises:
        ValueError: a mask of another shape.

    >>> layer = dynograd.nn.utils.prune.custom_from_mask(dynograd.nn.Linear(2, 1), "weight", tensor([[1.0, 0.0]]))
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_mask']
    >>> (layer.weight == 0).tolist()
    [[False, True]]
    """
    CustomFromMask.apply(module, name, mask)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prunes elements at random, of those that are left.

    Args:
        module: changed in place.
        name: of its parameter.
        amount: a share from 0 to 1 (a float), or how many (an integer).
    Returns:
        `module`.
    Raises:
        ValueError: an amount outside that.

    >>> layer = dynograd.nn.utils.prune.random_unstructured(dynograd.nn.Linear(4, 1), "weight", 0.5)
    >>> layer.weight_mask.sum()
    tensor(2.)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prunes the elements that are smallest in size.

    Args:
        module: changed in place.
        name: of its parameter.
        amount: a share from 0 to 1 (a float), or how many (an integer), of those that are left.
        importance_scores: what is looked at instead of the parameter, in its shape.
    Returns:
        `module`.
    Raises:
        ValueError: an amount outside that, or scores of another shape.

    >>> layer = dynograd.nn.Linear(3, 1)
    >>> layer.weight = dynograd.nn.Parameter(tensor([[0.1, -2.0, 1.0]]))
    >>> dynograd.nn.utils.prune.l1_unstructured(layer, "weight", 1).weight_mask
    tensor([[0., 1., 1.]])
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prunes whole slices along `dim` at random, of those that are left.

    Args:
        module: changed in place.
        name: of its parameter, of 2 dims or more.
        amount: a share from 0 to 1 (a float), or how many (an integer).
        dim: 0 prunes outputs of a layer.
    Returns:
        `module`.
    Raises:
        ValueError: an amount outside that, or a parameter of one dim.

    >>> layer = dynograd.nn.utils.prune.random_structured(dynograd.nn.Linear(2, 4), "weight", 0.5, dim=0)
    >>> layer.weight_mask.sum(0)
    tensor([2., 2.])
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: float, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prunes the slices along `dim` whose n-norm is smallest.

    Args:
        module: changed in place.
        name: of its parameter, of 2 dims or more.
        amount: a share from 0 to 1 (a float), or how many (an integer), of those that are left.
        n: of the norm; also `inf`.
        dim: 0 prunes outputs of a layer.
        importance_scores: what is looked at instead of the parameter, in its shape.
    Returns:
        `module`.
    Raises:
        ValueError: an amount outside that, a parameter of one dim, or scores of another shape.

    >>> layer = dynograd.nn.Linear(2, 2)
    >>> layer.weight = dynograd.nn.Parameter(tensor([[0.1, 0.2], [3.0, 4.0]]))
    >>> dynograd.nn.utils.prune.ln_structured(layer, "weight", 1, n=2, dim=0).weight_mask
    tensor([[0., 0.],
            [1., 1.]])
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: Callable[..., BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: object,
) -> None:
    """Prunes the tensors `[(module, name), ...]` together by one unstructured method, such as `L1Unstructured`.

    Args:
        parameters: pairs of a module, which is changed in place, and a parameter's name.
        pruning_method: a class of pruning methods.
        importance_scores: a dict (module, name) -> what the method looks at instead of that tensor.
        kwargs: what the method is built with: `amount`, the share of all their elements, or how many.
    Raises:
        TypeError: `parameters` is no iterable, or the method looks at slices.

    >>> layers = [dynograd.nn.Linear(3, 3), dynograd.nn.Linear(3, 1)]
    >>> pairs = [(layer, "weight") for layer in layers]
    >>> dynograd.nn.utils.prune.global_unstructured(pairs, dynograd.nn.utils.prune.L1Unstructured, amount=4)
    >>> int((layers[0].weight == 0).sum() + (layers[1].weight == 0).sum())
    4
    """
    if not isinstance(parameters, Iterable):
        raise TypeError(f"global_unstructured: parameters is not an Iterable of (module, name), got {parameters!r}.")
    if not (isinstance(pruning_method, type) and issubclass(pruning_method, BasePruningMethod)):
        raise TypeError(
            f"global_unstructured: pruning_method must be a class of pruning methods such as L1Unstructured, got {pruning_method!r}."
        )
    pairs = list(parameters)
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'global_unstructured: only "unstructured" PRUNING_TYPE supported for the pruning_method. Found {pruning_method.__name__} of '
            f"type {method.PRUNING_TYPE!r}."
        )
    scores = importance_scores or {}
    cat = public_functions()["cat"]
    with no_grad():
        values = [getattr(*pair).detach() for pair in pairs]
        masks: list[Any] = [
            getattr(module, f"{name}_mask", ones_like(value)) for (module, name), value in zip(pairs, values)
        ]
        together = PruningContainer()
        together._tensor_name = method._tensor_name = "temp"
        together.add_pruning_method(method)
        flat = cat([scores.get(pair, value).reshape(-1) for pair, value in zip(pairs, values)])
        kept = together.compute_mask(flat, cat([mask.reshape(-1) for mask in masks]))
    start = 0
    for (module, name), value in zip(pairs, values):
        custom_from_mask(module, name, kept[start : start + value.numel()].reshape(value.shape))
        start += value.numel()


def remove(module: Module, name: str) -> Module:
    """Makes the pruned `name` a plain parameter again; what was pruned stays 0.

    Args:
        module: changed in place.
        name: of its parameter.
    Returns:
        `module`.
    Raises:
        ValueError: it is not pruned.

    >>> layer = dynograd.nn.utils.prune.random_unstructured(dynograd.nn.Linear(4, 1), "weight", 0.5)
    >>> layer = dynograd.nn.utils.prune.remove(layer, "weight")
    >>> list(layer.state_dict()), int((layer.weight == 0).sum())
    (['bias', 'weight'], 2)
    """
    key, method = method_of(module, name)
    if method is None:
        raise ValueError(
            f"prune.remove: Parameter '{name}' of module {type(module).__name__} has to be pruned before pruning can be removed."
        )
    del module._forward_pre_hooks[key]
    method.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a tensor of `module`, or of a module below it, is pruned.

    Args:
        module: a Module.
    Returns:
        bool.

    >>> dynograd.nn.utils.prune.is_pruned(dynograd.nn.Linear(2, 2))
    False
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for submodule in module.modules()
        for hook in submodule._forward_pre_hooks.values()
    )


_show_plainly(globals())
