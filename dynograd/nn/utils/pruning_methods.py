"""How pruning chooses: each method is a class whose `compute_mask` says what stays. `prune.py` has them as functions.

A pruned parameter `weight` becomes the parameter `weight_orig`, the buffer `weight_mask` and, at each forward, their product `weight`: the
method itself is the forward pre-hook that multiplies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.nn.module import Module
from dynograd.tensor.creation import ones_like, zeros_like
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
]


class BasePruningMethod(ABC):
    """Base of pruning methods: write `compute_mask`, set `PRUNING_TYPE`, and `apply` does the rest.

    `PRUNING_TYPE` says what a second pruning looks at: "unstructured" the elements that are left, "structured" the
    slices along `dim` that are left, "global" everything.

    >>> class EveryOther(dynograd.nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[::2] = 0
    ...         return mask
    >>> layer = dynograd.nn.Linear(2, 2)
    >>> method = EveryOther.apply(layer, "bias")
    >>> layer.bias_mask
    tensor([0., 1.])
    """

    PRUNING_TYPE: str
    _tensor_name: str

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Which elements stay; each method writes its own.

        Args:
            t: what the method looks at.
            default_mask: of the shape of `t`; what is 0 there stays 0.
        Returns:
            of the shape of `t`: 1 where an element stays, 0 elsewhere.
        Raises:
            ValueError: an amount or a dim that does not fit `t`.

        >>> method = dynograd.nn.utils.prune.L1Unstructured(amount=1)
        >>> method.compute_mask(tensor([0.1, -2.0]), dynograd.ones(2))
        tensor([0., 1.])
        """

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor: what was there, times the mask.

        Args:
            module: that was pruned.
        Returns:
            of the parameter's shape.

        >>> layer = dynograd.nn.Linear(2, 2)
        >>> method = dynograd.nn.utils.prune.RandomUnstructured.apply(layer, "bias", 1)
        >>> int((method.apply_mask(layer) == 0).sum())
        1
        """
        original = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: object, importance_scores: Tensor | None = None, **kwargs: object
    ) -> BasePruningMethod:
        """Prunes `module`'s parameter `name` by `cls(*args, **kwargs)`, on top of what was pruned before.

        Args:
            module: changed in place.
            name: of its parameter.
            args, kwargs: those of the method, such as `amount`.
            importance_scores: what the method looks at instead of the parameter, in its shape.
        Returns:
            the method, or the container of all methods so far.
        Raises:
            ValueError: scores of another shape, or an amount that does not fit.

        >>> layer = dynograd.nn.Linear(4, 1)
        >>> method = dynograd.nn.utils.prune.L1Unstructured.apply(layer, "weight", amount=0.5)
        >>> layer.weight_mask.sum()
        tensor(2.)
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        value = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != value.shape:
            raise ValueError(
                f"{cls.__name__}: importance_scores should have the same shape as {type(module).__name__}.{name}, got "
                f"{tuple(importance_scores.shape)} and {tuple(value.shape)}."
            )
        scores = (value if importance_scores is None else importance_scores).detach()
        key, before = method_of(module, name)
        with no_grad():
            if before is None:
                mask = method.compute_mask(scores, ones_like(value).detach())
                del module._parameters[name]
                module.register_parameter(f"{name}_orig", value)
                module.register_buffer(f"{name}_mask", mask.detach().to(value.dtype))
            else:
                container = before if isinstance(before, PruningContainer) else PruningContainer(before)
                mask = _combined(method, scores, getattr(module, f"{name}_mask").detach())
                container.add_pruning_method(method)
                method = container
                del module._forward_pre_hooks[key]
                setattr(module, f"{name}_mask", mask.detach())
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """`t` with what the method chooses set to 0; nothing is registered.

        Args:
            t: of any shape.
            default_mask: of its shape; what is 0 there becomes 0 in any case.
            importance_scores: what the method looks at instead of `t`, in its shape.
        Returns:
            of the shape of `t`.
        Raises:
            ValueError: scores of another shape, or an amount that does not fit.

        >>> dynograd.nn.utils.prune.L1Unstructured(amount=1).prune(tensor([0.1, -2.0]))
        tensor([ 0., -2.])
        """
        if importance_scores is not None and importance_scores.shape != t.shape:
            raise ValueError(
                f"{type(self).__name__}.prune: importance_scores should have the same shape as t, got "
                f"{tuple(importance_scores.shape)} and {tuple(t.shape)}."
            )
        start = ones_like(t).detach() if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, start)

    def remove(self, module: Module) -> None:
        """Makes the parameter a plain one again; what was pruned stays 0. The hook itself is removed by `prune.remove`.

        Args:
            module: that was pruned.

        >>> layer = dynograd.nn.Linear(4, 1)
        >>> dynograd.nn.utils.prune.L1Unstructured.apply(layer, "weight", amount=0.5).remove(layer)
        >>> list(layer.state_dict())
        ['bias', 'weight']
        """
        name = self._tensor_name
        with no_grad():
            value = self.apply_mask(module)
        original = module._parameters.pop(f"{name}_orig")
        del module._buffers[f"{name}_mask"]
        module.__dict__.pop(name, None)
        original.data = value
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """The methods that one parameter was pruned by, in their order; the last one computes the next mask.

    Args:
        methods: pruning methods of one parameter.
    Raises:
        TypeError: not a pruning method.
        ValueError: methods of different parameters.

    >>> layer = dynograd.nn.Linear(4, 1)
    >>> method = dynograd.nn.utils.prune.L1Unstructured.apply(layer, "weight", 1)
    >>> method = dynograd.nn.utils.prune.L1Unstructured.apply(layer, "weight", 1)
    >>> type(method).__name__, len(method), layer.weight_mask.sum()
    ('PruningContainer', 2, tensor(2.))
    """

    def __init__(self, *methods: BasePruningMethod) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if methods:
            self._tensor_name = methods[0]._tensor_name
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Adds one to the end.

        Args:
            method: a pruning method of the same parameter.
        Raises:
            TypeError: not a pruning method.
            ValueError: one of another parameter.

        >>> prune, layer = dynograd.nn.utils.prune, dynograd.nn.Linear(4, 1)
        >>> methods = prune.PruningContainer(prune.L1Unstructured.apply(layer, "weight", 1))
        >>> methods.add_pruning_method(methods[0])
        >>> len(methods)
        2
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"PruningContainer: {type(method).__name__} is not a BasePruningMethod subclass.")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"PruningContainer: can only add pruning methods acting on the parameter named '{self._tensor_name}'. Found "
                f"'{method._tensor_name}'."
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _combined(self._pruning_methods[-1], t, default_mask)


def _combined(method: Any, t: Any, mask: Any) -> Any:
    """`mask` with what the method prunes of the rest."""
    if isinstance(method, PruningContainer):
        return method.compute_mask(t, mask)
    kind = method.PRUNING_TYPE
    if kind == "global":
        return method.compute_mask(t, mask).to(t.dtype)
    if kind == "unstructured":
        left: Any = mask == 1
    elif kind == "structured":
        dim = _dim_of(t, method.dim)
        others = [other for other in range(t.dim()) if other != dim]
        left = (slice(None),) * dim + (mask.sum(others) != 0,)
    else:
        raise ValueError(
            f"{type(method).__name__}: unrecognized PRUNING_TYPE {kind!r}: expected 'unstructured', 'structured' or 'global'."
        )
    combined = mask.to(t.dtype).clone()
    combined[left] = method.compute_mask(t[left], mask[left]).to(t.dtype)
    return combined


class Identity(BasePruningMethod):
    """Prunes nothing: a mask of ones.

    >>> dynograd.nn.utils.prune.Identity().prune(tensor([0.1, -2.0]))
    tensor([ 0.1000, -2.0000])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _ByAmount(BasePruningMethod):
    """A method that prunes `amount`: a share of what is left (a float), or that many (an integer)."""

    def __init__(self, amount: float) -> None:
        is_number = isinstance(amount, (int, float)) and not isinstance(amount, bool)
        if not is_number or amount < 0 or (isinstance(amount, float) and not amount <= 1.0):
            raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer.")
        self.amount = amount

    def _count(self, size: int) -> int:
        if isinstance(self.amount, int) and self.amount > size:
            raise ValueError(f"amount={self.amount} should be smaller than the number of parameters to prune={size}.")
        return self.amount if isinstance(self.amount, int) else round(self.amount * size)


class RandomUnstructured(_ByAmount):
    """Prunes `amount` elements at random.

    Args:
        amount: a share from 0 to 1 (a float), or how many (an integer).
    Raises:
        ValueError: an amount outside that.

    >>> int((dynograd.nn.utils.prune.RandomUnstructured(2).prune(dynograd.ones(5)) == 0).sum())
    2
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_smallest(_drawn(t), default_mask, self._count(t.numel()))


class L1Unstructured(_ByAmount):
    """Prunes the `amount` elements that are smallest in size.

    Args:
        amount: a share from 0 to 1 (a float), or how many (an integer).
    Raises:
        ValueError: an amount outside that.

    >>> dynograd.nn.utils.prune.L1Unstructured(1).prune(tensor([0.1, -2.0]))
    tensor([ 0., -2.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_smallest(t.abs(), default_mask, self._count(t.numel()))


class RandomStructured(_ByAmount):
    """Prunes `amount` whole slices along `dim` at random.

    Args:
        amount: a share from 0 to 1 (a float), or how many (an integer).
        dim: along which slices lie.
    Raises:
        ValueError: an amount outside that; in use, a parameter of one dim.
        IndexError: in use: `dim` is out of range.

    >>> dynograd.nn.utils.prune.RandomStructured(1, dim=0).prune(dynograd.ones(3, 2)).sum(0)
    tensor([2., 2.])
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        scores = _drawn(_slices(t, self.dim)[:, 0])
        return _without_slices(scores, default_mask, self.dim, self._count(len(scores)))


class LnStructured(_ByAmount):
    """Prunes the `amount` slices along `dim` whose n-norm is smallest.

    Args:
        amount: a share from 0 to 1 (a float), or how many (an integer).
        n: of the norm; also `inf`.
        dim: along which slices lie.
    Raises:
        ValueError: an amount outside that; in use, a parameter of one dim.
        IndexError: in use: `dim` is out of range.

    >>> dynograd.nn.utils.prune.LnStructured(1, n=1, dim=0).prune(tensor([[0.1, 0.2], [3.0, 4.0]]))
    tensor([[0., 0.],
            [3., 4.]])
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        slices = _slices(t, self.dim)
        return _without_slices(slices.norm(self.n, 1), default_mask, self.dim, self._count(len(slices)))


class CustomFromMask(BasePruningMethod):
    """Prunes what is 0 in `mask`.

    Args:
        mask: of the parameter's shape, 0 where an element goes.
    Raises:
        ValueError: in use: a parameter of another shape.

    >>> dynograd.nn.utils.prune.CustomFromMask(tensor([0, 1])).prune(tensor([0.1, -2.0]))
    tensor([ 0., -2.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if self.mask.shape != default_mask.shape:
            raise ValueError(
                f"CustomFromMask: the mask's shape {tuple(self.mask.shape)} differs from the parameter's {tuple(default_mask.shape)}."
            )
        return default_mask * self.mask.to(default_mask.dtype)


def method_of(module: Module, name: str) -> tuple[Any, Any]:
    """The number of the hook that prunes `name`, and the method; (None, None) where nothing does.

    Args:
        module: a Module.
        name: of its parameter.
    Returns:
        (int, method) or (None, None).

    >>> from dynograd.nn.utils.pruning_methods import method_of
    >>> method_of(dynograd.nn.Linear(2, 1), "weight")
    (None, None)
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None, None


def _drawn(t: Any) -> Tensor:
    return zeros_like(t.detach()).uniform_(0, 1)


def _without_smallest(scores: Any, mask: Any, count: int) -> Tensor:
    kept = mask.clone()
    kept.view(-1)[scores.reshape(-1).argsort()[:count]] = 0
    return kept


def _dim_of(t: Any, dim: int) -> int:
    if t.dim() < 2:
        raise ValueError(
            f"prune: structured pruning needs at least 2 dimensions, the parameter has {t.dim()} (shape {tuple(t.shape)}). Use an "
            f"unstructured method."
        )
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"prune: dim {dim} is out of range for a parameter of shape {tuple(t.shape)}.")
    return dim % t.dim()


def _slices(t: Any, dim: int) -> Tensor:
    """(slices along dim, elements of each)."""
    return t.detach().movedim(_dim_of(t, dim), 0).flatten(1)


def _without_slices(scores: Any, mask: Any, dim: int, count: int) -> Tensor:
    kept = mask.clone().movedim(_dim_of(mask, dim), 0)
    kept[scores.argsort()[:count]] = 0
    return kept.movedim(0, _dim_of(mask, dim)).contiguous()
