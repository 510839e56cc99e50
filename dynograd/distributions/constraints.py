"""Where parameters and values of distributions may lie: `constraint.check(value)` says it of each element or event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.ops.layout.joins import cat as join
from dynograd.ops.layout.joins import stack as pile
from dynograd.ops.linalg.factorizations import linalg_eigvalsh
from dynograd.ops.linalg.linear_systems import linalg_cholesky_ex
from dynograd.tensor.tensor import Tensor

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A region of values; `event_dim` dims at the end are one value.

    >>> dynograd.distributions.constraints.positive.check(tensor([-1.0, 2.0]))
    tensor([False,  True])
    >>> dynograd.distributions.constraints.simplex.event_dim
    1
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each value lies in the region; NaN lies in none.

        Args:
            value (..., *event): values; the last `event_dim` dims are one value.
        Returns:
            A bool tensor of the batch's shape.

        >>> dynograd.distributions.constraints.simplex.check(tensor([[0.5, 0.5], [0.5, 0.6]]))
        tensor([ True, False])
        """
        raise NotImplementedError(f"{type(self).__name__}: check is not defined; a constraint overrides it.")

    def __repr__(self) -> str:
        return type(self).__name__[1:] + "()"


class _Dependent(Constraint):
    """A region that depends on other values; nothing can be checked.

    Called, it gives one with other settings. What was not said of it raises NotImplementedError where it is asked for.

    Args:
        is_discrete: whether values are whole numbers.
        event_dim: how many dims at the end are one value.

    >>> dynograd.distributions.constraints.dependent(is_discrete=True).is_discrete
    True
    """

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    is_discrete: Any = property(lambda self: self._known("is_discrete"), doc="Whether values are whole numbers.")
    event_dim: Any = property(lambda self: self._known("event_dim"), doc="How many dims at the end are one value.")

    def _known(self, name: str) -> bool | int:
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise NotImplementedError(
                f"{type(self).__name__}: .{name} cannot be determined statically. Ask an object's, not the class's."
            )
        return value

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


class dependent_property(property, _Dependent):
    """A property that gives an object's constraint, and on the class stands for a dependent one.

    Args:
        fn: the method that gives the constraint; None returns a decorator.
        is_discrete: whether values are whole numbers.
        event_dim: how many dims at the end are one value.

    >>> from dynograd.distributions import constraints
    >>> class Below:
    ...     bound = 3.0
    ...     @constraints.dependent_property
    ...     def support(self):
    ...         return constraints.less_than(self.bound)
    >>> Below().support.check(tensor([2.0, 4.0])), constraints.is_dependent(Below.support)
    (tensor([ True, False]), True)
    """

    def __init__(self, fn: Any = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __repr__(self) -> str:
        return "DependentProperty()"

    def __call__(self, fn: Any) -> dependent_property:  # type: ignore[override]
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """Some batch dims of another constraint taken as part of the value.

    Args:
        base_constraint: the constraint of the parts.
        reinterpreted_batch_ndims: how many dims more belong to the value; all of their elements must satisfy it.

    >>> from dynograd.distributions import constraints
    >>> constraints.independent(constraints.positive, 1).check(tensor([[1.0, 2.0], [1.0, -2.0]]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    is_discrete: Any = property(lambda self: self.base_constraint.is_discrete, doc="Whether values are whole numbers.")

    event_dim: Any = property(
        lambda self: self.base_constraint.event_dim + self.reinterpreted_batch_ndims,
        doc="How many dims at the end are one value.",
    )

    def check(self, value: Tensor) -> Tensor:
        fits = self.base_constraint.check(value)
        if fits.ndim < self.reinterpreted_batch_ndims:
            raise ValueError(
                f"Expected value.dim() >= {self.event_dim} but got {value.ndim} (shape {tuple(value.shape)})."
            )
        return fits.reshape(*fits.shape[: fits.ndim - self.reinterpreted_batch_ndims], -1).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _IntegerInterval(Constraint):
    """Whole numbers from `lower_bound` to `upper_bound`, both included.

    Args:
        lower_bound, upper_bound: numbers or tensors.

    >>> dynograd.distributions.constraints.integer_interval(0, 2).check(tensor([0.0, 0.5, 2.0, 3.0]))
    tensor([ True, False,  True, False])
    """

    is_discrete = True

    def __init__(self, lower_bound: Tensor | float, upper_bound: Tensor | float) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound) & (value <= self.upper_bound)

    def __repr__(self) -> str:
        return f"IntegerInterval(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"


class _IntegerGreaterThan(Constraint):
    """Whole numbers from `lower_bound` on.

    Args:
        lower_bound: a number or tensor; included.
    """

    is_discrete = True

    def __init__(self, lower_bound: Tensor | float) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)

    def __repr__(self) -> str:
        return f"IntegerGreaterThan(lower_bound={self.lower_bound})"


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value


class _GreaterThan(Constraint):
    """Numbers above `lower_bound`.

    Args:
        lower_bound: a number or tensor; itself left out.

    >>> dynograd.distributions.constraints.greater_than(1.0).check(tensor([1.0, 2.0]))
    tensor([False,  True])
    """

    def __init__(self, lower_bound: Tensor | float) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}(lower_bound={self.lower_bound})"


class _GreaterThanEq(_GreaterThan):
    """Numbers from `lower_bound` on.

    Args:
        lower_bound: a number or tensor; included.

    >>> dynograd.distributions.constraints.greater_than_eq(1.0).check(tensor([1.0, 0.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _LessThan(Constraint):
    """Numbers below `upper_bound`.

    Args:
        upper_bound: a number or tensor; itself left out.

    >>> dynograd.distributions.constraints.less_than(1.0).check(tensor([1.0, 0.0]))
    tensor([False,  True])
    """

    def __init__(self, upper_bound: Tensor | float) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound

    def __repr__(self) -> str:
        return f"LessThan(upper_bound={self.upper_bound})"


class _Interval(Constraint):
    """Numbers from `lower_bound` to `upper_bound`, both included.

    Args:
        lower_bound, upper_bound: numbers or tensors.

    >>> dynograd.distributions.constraints.interval(0.0, 1.0).check(tensor([0.0, 1.0, 2.0]))
    tensor([ True,  True, False])
    """

    def __init__(self, lower_bound: Tensor | float, upper_bound: Tensor | float) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"


class _HalfOpenInterval(_Interval):
    """Numbers from `lower_bound`, included, to `upper_bound`, left out.

    Args:
        lower_bound, upper_bound: numbers or tensors.

    >>> dynograd.distributions.constraints.half_open_interval(0.0, 1.0).check(tensor([0.0, 1.0]))
    tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Tensor:
        rows = (value * value).sum(-1)
        return super().check(value) & ((rows - 1).abs() <= 1e-5 * value.shape[-1]).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        fits = value.shape[-1] == value.shape[-2]
        return value.new_full(tuple(value.shape[:-2]), fits, dtype=(value == value).dtype)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        if value.shape[-1] != value.shape[-2]:
            return super().check(value)
        return value.isclose(value.transpose(-2, -1), atol=1e-6).flatten(-2).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return linalg_cholesky_ex(value.detach()).info == 0


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return (linalg_eigvalsh(value.detach()) >= 0).all(-1)


class _Multinomial(Constraint):
    """Counts that sum to at most `upper_bound`.

    Args:
        upper_bound: the largest sum, a whole number or a tensor of them.

    >>> dynograd.distributions.constraints.multinomial(3).check(tensor([[1.0, 2.0], [2.0, 2.0]]))
    tensor([ True, False])
    """

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Tensor | float) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Tensor) -> Tensor:
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)

    def __repr__(self) -> str:
        return f"Multinomial(upper_bound={self.upper_bound})"


class _Several(Constraint):
    """A region for each part along a dim."""

    def __init__(self, cseq: Any, dim: int = 0) -> None:
        if not all([isinstance(constraint, Constraint) for constraint in cseq]):
            raise TypeError(f"{type(self).__name__[1:].lower()}: expected a list of constraints, got {list(cseq)}.")
        self.cseq, self.dim = list(cseq), dim

    is_discrete: Any = property(
        lambda self: any([constraint.is_discrete for constraint in self.cseq]), doc="Whether values are whole numbers."
    )

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.cseq}, dim={self.dim})"


class _Cat(_Several):
    """A region for each of several parts that lie behind each other along a dim.

    Args:
        cseq: the constraints.
        dim: along which the parts lie.
        lengths: how many places each part has; None is 1 each.

    >>> from dynograd.distributions import constraints
    >>> constraints.cat([constraints.positive, constraints.real], lengths=[1, 2]).check(tensor([-1.0, -1.0, 2.0]))
    tensor([False,  True,  True])
    """

    def __init__(self, cseq: Any, dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    event_dim: Any = property(
        lambda self: max([constraint.event_dim for constraint in self.cseq], default=0),
        doc="How many dims at the end are one value.",
    )

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return join([constraint.check(part) for constraint, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Several):
    """A region for each place along a dim.

    Args:
        cseq: the constraints, as many as there are places.
        dim: along which they lie.

    >>> from dynograd.distributions import constraints
    >>> constraints.stack([constraints.positive, constraints.real]).check(tensor([-1.0, -1.0]))
    tensor([False,  True])
    """

    event_dim: Any = property(lambda self: self._all_dims(), doc="How many dims at the end are one value.")

    def _all_dims(self) -> int:
        inner = max([constraint.event_dim for constraint in self.cseq], default=0)
        return inner + (1 if self.dim + inner < 0 else 0)

    def check(self, value: Tensor) -> Tensor:
        parts = value.unbind(self.dim)
        return pile([constraint.check(part) for constraint, part in zip(self.cseq, parts, strict=True)], self.dim)


class MixtureSameFamilyConstraint(Constraint):
    """The region of a mixture's values, checked for each component.

    Args:
        base_constraint: that of the components' values.
    Raises:
        TypeError: it is no constraint.

    >>> from dynograd.distributions import constraints
    >>> constraints.MixtureSameFamilyConstraint(constraints.positive)
    MixtureSameFamilyConstraint(GreaterThan(lower_bound=0.0))
    """

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise TypeError(f"MixtureSameFamilyConstraint: expected a constraint, got {base_constraint!r}.")
        self.base_constraint = base_constraint

    is_discrete: Any = property(lambda self: self.base_constraint.is_discrete, doc="Whether values are whole numbers.")

    event_dim: Any = property(
        lambda self: self.base_constraint.event_dim, doc="How many dims at the end are one value."
    )

    def check(self, value: Tensor) -> Tensor:
        return self.base_constraint.check(value.unsqueeze(-1 - self.event_dim)).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


dependent = _Dependent()
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
independent = _IndependentConstraint
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
interval = _Interval
half_open_interval = _HalfOpenInterval
unit_interval = _Interval(0.0, 1.0)
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_definite = _PositiveDefinite()
positive_semidefinite = _PositiveSemidefinite()
multinomial = _Multinomial
cat = _Cat
stack = _Stack


def is_dependent(constraint: object) -> bool:
    """Whether the region depends on other values, so that it cannot be checked.

    Args:
        constraint: a constraint.
    Returns:
        True or False.

    >>> from dynograd.distributions import constraints
    >>> constraints.is_dependent(constraints.dependent), constraints.is_dependent(constraints.positive)
    (True, False)
    """
    return isinstance(constraint, _Dependent)


_show_plainly(globals())
