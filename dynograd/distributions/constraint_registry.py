"""Maps from all real numbers onto a constrained region: `biject_to` one to one, `transform_to` the cheapest.

>>> from dynograd.distributions import constraints, transform_to
>>> transform_to(constraints.positive)(tensor(0.0))
tensor(1.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.distributions import constraints
from dynograd.distributions.scalar_transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    SigmoidTransform,
    SoftmaxTransform,
    Transform,
    identity_transform,
)
from dynograd.distributions.transforms import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    StackTransform,
    StickBreakingTransform,
)

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Functions from a constraint to a transform, by the constraint's type or the nearest of its bases.

    Calling the registry with a constraint gives the map from all real numbers onto it. `biject_to` and `transform_to` are two
    registries: the maps of the first are one to one; those of the second may be cheaper ones that are not.

    Args of a call:
        constraint: of `dynograd.distributions.constraints`.
    Returns:
        A `Transform` onto the region.
    Raises:
        NotImplementedError: no map onto constraints of this type is registered.

    >>> from dynograd.distributions import biject_to, constraints
    >>> biject_to(constraints.interval(0.0, 10.0))(tensor([-1.0, 0.0, 1.0]))
    tensor([2.6894, 5.0000, 7.3106])
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Transform]] = {}

    def register(self, constraint: object, factory: Any = None) -> Callable[..., Any]:
        """Registers a function for constraints of a type (given as the type, or as one of them); also a decorator.

        Args:
            constraint: a subclass of `Constraint`, or one of its instances.
            factory: a function from the constraint to a `Transform`; None returns a decorator for it.
        Returns:
            The factory.
        Raises:
            TypeError: `constraint` is no constraint.

        >>> from dynograd.distributions import ExpTransform, constraints, constraint_registry
        >>> registry = constraint_registry.ConstraintRegistry()
        >>> _ = registry.register(constraints.positive, lambda constraint: ExpTransform())
        >>> registry(constraints.positive)
        ExpTransform()
        """
        if factory is None:
            return lambda decorated: self.register(constraint, decorated)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        for kind in type(constraint).__mro__:
            if kind in self._registry:
                return self._registry[kind](constraint)
        raise NotImplementedError(
            f"Cannot transform {type(constraint).__name__.lstrip('_')} constraints ({constraint!r}). Add a map with register()."
        )


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _both(*kinds: Any) -> Callable[..., Any]:
    def register(factory: Any) -> Callable[..., Any]:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


_both(constraints.real)(lambda constraint: identity_transform)
_both(constraints.positive, constraints.nonnegative)(lambda constraint: _above(constraint))


def _above(constraint: Any) -> Transform:
    low = constraint.lower_bound
    if isinstance(low, (int, float)) and low == 0:
        return ExpTransform()
    return ComposeTransform([ExpTransform(), AffineTransform(low, 1)])


@_both(constraints.less_than)
def _below(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


@_both(constraints.interval)
def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


_both(constraints.corr_cholesky)(lambda constraint: CorrCholeskyTransform())
_both(constraints.lower_cholesky)(lambda constraint: LowerCholeskyTransform())
_both(constraints.positive_definite)(lambda constraint: PositiveDefiniteTransform())
biject_to.register(constraints.simplex, lambda constraint: StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: SoftmaxTransform())

for _registry in (biject_to, transform_to):

    def _independent(constraint: Any, registry: Any = _registry) -> Transform:
        return IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims)

    def _cat(constraint: Any, registry: Any = _registry) -> Transform:
        return CatTransform([registry(part) for part in constraint.cseq], constraint.dim, constraint.lengths)

    def _stack(constraint: Any, registry: Any = _registry) -> Transform:
        return StackTransform([registry(part) for part in constraint.cseq], constraint.dim)

    _registry.register(constraints.independent, _independent)
    _registry.register(constraints.cat, _cat)
    _registry.register(constraints.stack, _stack)

_show_plainly(globals())
