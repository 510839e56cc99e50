"""Pruning: `name_orig` keeps the weight, the buffer `name_mask` says what stays, and `name` is their product at each forward."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.creation import ones_like
from dynograd.methods import public_functions
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter

__all__ = [
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


class _Pruned:
    """The forward pre-hook that computes `name` from `name_orig` and `name_mask`."""

    def __init__(self, name: str) -> None:
        self._tensor_name = name

    def apply_mask(self, module: Any) -> Any:
        original = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(original.dtype) * original

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))


def identity(module: Any, name: str) -> Any:
    """Prunes nothing: a mask of ones."""
    return custom_from_mask(module, name, ones_like(getattr(module, name)))


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prunes what is 0 in `mask`, and what was pruned before.

    >>> layer = dynograd.nn.utils.prune.custom_from_mask(dynograd.nn.Linear(2, 1), "weight", tensor([[1.0, 0.0]]))
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_mask']
    >>> float(layer.weight[0, 1])
    0.0
    """
    value = getattr(module, name)
    if mask.shape != value.shape:
        raise ValueError(
            f"prune: the mask's shape {tuple(mask.shape)} differs from {type(module).__name__}.{name}'s {tuple(value.shape)}."
        )
    with no_grad():
        if _hook_of(module, name) is None:
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", value)
            module.register_buffer(f"{name}_mask", mask.detach().to(value.dtype).clone())
            module.register_forward_pre_hook(_Pruned(name))
        else:
            setattr(module, f"{name}_mask", getattr(module, f"{name}_mask") * mask.to(value.dtype))
    setattr(module, name, _Pruned(name).apply_mask(module))
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prunes `amount` elements at random: a share, or with an integer that many; of those that are left."""
    return _prune_smallest([(module, name)], amount, lambda value: value.new_empty(value.shape).uniform_(0, 1))


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Any = None) -> Any:
    """Prunes the `amount` elements that are smallest in size (or by `importance_scores`)."""
    score = (lambda value: value.abs()) if importance_scores is None else (lambda value: importance_scores.abs())
    return _prune_smallest([(module, name)], amount, score)


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prunes `amount` whole slices along `dim` at random."""
    return _prune_slices(module, name, amount, dim, lambda rows: rows.new_empty(rows.shape[0]).uniform_(0, 1))


def ln_structured(module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None) -> Any:
    """Prunes the `amount` slices along `dim` whose n-norm is smallest."""
    return _prune_slices(module, name, amount, dim, lambda rows: rows.norm(n, 1), importance_scores)


def global_unstructured(parameters: Any, pruning_method: Any, **kwargs: Any) -> None:
    """Prunes the tensors `[(module, name), ...]` together, by `l1_unstructured` or `random_unstructured`.

    Args:
        amount: the share of all their elements, or how many.
    """
    pairs = list(parameters)
    amount = kwargs["amount"]
    if pruning_method in (l1_unstructured, L1Unstructured):
        _prune_smallest(pairs, amount, lambda value: value.abs())
    elif pruning_method in (random_unstructured, RandomUnstructured):
        _prune_smallest(pairs, amount, lambda value: value.new_empty(value.shape).uniform_(0, 1))
    else:
        raise TypeError(
            f"global_unstructured: pruning_method must be L1Unstructured or RandomUnstructured, got {pruning_method!r}."
        )


class L1Unstructured:
    """Stands for `l1_unstructured` in `global_unstructured`."""


class RandomUnstructured:
    """Stands for `random_unstructured` in `global_unstructured`."""


def remove(module: Any, name: str) -> Any:
    """Makes the pruned `name` a plain parameter again; what was pruned stays 0."""
    key = _hook_of(module, name)
    if key is None:
        raise ValueError(
            f"prune.remove: Parameter '{name}' of module {type(module).__name__} has to be pruned before pruning can be removed."
        )
    with no_grad():
        value = module._forward_pre_hooks.pop(key).apply_mask(module)
    original: Parameter = module._parameters.pop(f"{name}_orig")
    del module._buffers[f"{name}_mask"]
    delattr(module, name)
    original.data = value
    module.register_parameter(name, original)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a tensor of `module`, or of a module below it, is pruned.

    >>> dynograd.nn.utils.prune.is_pruned(dynograd.nn.Linear(2, 2))
    False
    """
    return any(isinstance(hook, _Pruned) for one in module.modules() for hook in one._forward_pre_hooks.values())


def _hook_of(module: Any, name: str) -> Any:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, _Pruned) and hook._tensor_name == name:
            return key
    return None


def _mask_of(module: Any, name: str) -> Any:
    return ones_like(getattr(module, name)) if _hook_of(module, name) is None else getattr(module, f"{name}_mask")


def _count(amount: Any, size: int) -> int:
    is_share = isinstance(amount, float)
    if not isinstance(amount, (int, float)) or amount < 0 or (is_share and amount > 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer.")
    if not is_share and amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}.")
    return round(amount * size) if is_share else int(amount)


def _prune_smallest(pairs: list[Any], amount: Any, score: Any) -> Any:
    cat = public_functions()["cat"]
    with no_grad():
        masks = [_mask_of(*pair) for pair in pairs]
        left = cat([mask.reshape(-1) for mask in masks]) != 0
        scores = cat([score(getattr(*pair).detach()).reshape(-1) for pair in pairs])
        places = left.nonzero()[:, 0]
        count = _count(amount, places.numel())
        keep = left.to(masks[0].dtype)
        keep[places[scores[places].argsort()[:count]]] = 0
        start = 0
        for (module, name), mask in zip(pairs, masks):
            custom_from_mask(module, name, keep[start : start + mask.numel()].reshape(mask.shape))
            start += mask.numel()
    for module, name in pairs:
        setattr(module, name, _Pruned(name).apply_mask(module))
    return pairs[0][0]


def _prune_slices(module: Any, name: str, amount: Any, dim: int, score: Any, importance: Any = None) -> Any:
    with no_grad():
        value = getattr(module, name).detach()
        if value.dim() < 2:
            raise ValueError(f"prune: structured pruning needs at least 2 dimensions, {name} has {value.dim()}.")
        mask = _mask_of(module, name)
        rows = (value if importance is None else importance).movedim(dim, 0).flatten(1)
        places = (mask.movedim(dim, 0).flatten(1).sum(1) != 0).nonzero()[:, 0]
        count = _count(amount, places.numel())
        keep = ones_like(mask).movedim(dim, 0).clone()
        keep[places[score(rows)[places].argsort()[:count]]] = 0
        keep = keep.movedim(0, dim)
    return custom_from_mask(module, name, keep)
