"""How a tensor lies over several processes, as a description: packages write plans of it at their top. A group of one lays nothing out by it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a sharded tensor lies on the processes: `Shard`, `Replicate` or `Partial`; they only describe.

    >>> from dynograd.distributed.placements import Placement, Replicate
    >>> isinstance(Replicate(), Placement)
    True
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is cut (along a dim).

        Args:
            dim: None asks of any.
        Returns:
            True or False.
        """
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each process has the whole.

        Returns:
            True or False.
        """
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether each process has a term of it.

        Args:
            reduce_op: None asks of any.
        Returns:
            True or False.
        """
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Cut along a dim.

    Args:
        dim: which.

    >>> from dynograd.distributed.placements import Shard
    >>> Shard(0).is_shard(0), Shard(dim=1)
    (True, Shard(dim=1))
    """

    dim: int


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Cut along a dim, in pieces of pieces."""

    split_factor: int = 1


@dataclass(frozen=True)
class Replicate(Placement):
    """The whole in each process.

    >>> from dynograd.distributed.placements import Replicate
    >>> Replicate().is_replicate()
    True
    """


@dataclass(frozen=True)
class Partial(Placement):
    """A term in each process, which `reduce_op` joins.

    Args:
        reduce_op: "sum", "avg", "max" and their like.

    >>> from dynograd.distributed.placements import Partial
    >>> Partial("sum").is_partial()
    True
    """

    reduce_op: str = "sum"
