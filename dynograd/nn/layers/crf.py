"""Conditional random fields on linear chains: tags of sequences of any lengths, scored by neighbours as well as one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

from dynograd import arrays
from dynograd.base import dtypes
from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.kernels import kernel
from dynograd.nn import init
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.ops.elementwise.choices import where
from dynograd.ops.loss.chains import chain_best_paths, chain_likelihoods, chain_marginals
from dynograd.ops.precisions import check_floating, narrowed, widened
from dynograd.ragged import is_ragged
from dynograd.tensor.creation import arange, as_tensor, empty, ones_like, zeros
from dynograd.tensor.tensor import Tensor

__all__ = ["CRF"]

_REDUCTIONS = ("none", "sum", "mean", "token_mean")


class BestPaths(NamedTuple):
    """What `CRF.viterbi` gives.

    Args:
        tags: the tags of the highest score, in the emissions' shape without the last dim.
        scores (B,): their scores.

    >>> crf = dynograd.nn.CRF(3, batch_first=True)
    >>> best = crf.viterbi(dynograd.zeros(2, 4, 3))
    >>> best.tags.shape, best.scores.shape
    (dynograd.Size([2, 4]), dynograd.Size([2]))
    """

    tags: Tensor
    scores: Tensor


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _takes_rows(method: _Method) -> _Method:
    """Lets a method take ragged emissions (B, j, K) and tags (B, j): packed, with offsets; what has a row for each step is ragged."""

    @wraps(method)
    def run(self: Any, emissions: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_ragged(emissions):
            return method(self, emissions, *args, **kwargs)
        if len(emissions.shape) != 3 or emissions.place != 1 or is_ragged(emissions.packed):
            raise ShapeError(
                f"CRF: expected ragged emissions (B, j, {self.num_tags}), got shape {tuple(emissions.shape)}."
            )
        rows = emissions.partition

        def packed(argument: Any) -> Any:
            if not is_ragged(argument):
                return argument
            rows.check_same("CRF", argument.partition, ("the emissions, a", "the tags, a"))
            return argument.packed

        args = tuple([packed(argument) for argument in args])
        kwargs = {name: packed(argument) for name, argument in kwargs.items()}
        if any([kwargs.get(name) is not None for name in ("mask", "lengths", "offsets")]):
            raise ValueError("CRF: ragged emissions have lengths of their own: leave out mask, lengths and offsets.")
        kwargs["offsets"] = rows.tensor("offsets", emissions.device)
        result = method(self, emissions.packed, *args, **kwargs)
        if isinstance(result, BestPaths):
            return BestPaths(emissions.with_packed(result.tags), result.scores)
        return emissions.with_packed(result) if method.__name__ == "marginals" else result

    return cast(_Method, run)


class CRF(Module):
    """The likelihood of sequences of tags, P(tags) proportional to exp(score), and the tags of the highest score (Viterbi).

    The score of tags is the sum of their emissions, which the network below gives, of `transitions[before, after]` between
    neighbours, and of `start_transitions` and `end_transitions` at the ends. Calling the layer gives the log-likelihood: its
    negative is the loss. Names and initial weights (uniform in [-0.1, 0.1]) are those of the package pytorch-crf.

    Sequences may have any lengths, 0 too (log-likelihood 0), given in one of three ways: `mask` (of the shape of the tags, True
    for the first steps of each sequence), `lengths` (B,), or `offsets` (B + 1,) for emissions (M, K) and tags (M,) of sequences
    that lie behind one another, without padding; ragged emissions (B, j, K) and tags (B, j) need none of them. Tags beyond a
    sequence's end may be anything. Transitions or emissions of -inf forbid tags; sequences of tags that no path allows have
    log-likelihood -inf.

    Args:
        num_tags: K.
        batch_first: emissions are (B, T, K) and tags (B, T), not (T, B, K) and (T, B).
        device, dtype: of the transitions.
    Shape:
        emissions (T, B, K), or (B, T, K), or (M, K) with `offsets`; (T, K) is one sequence.
    Raises:
        ValueError: num_tags below 1, a mask with holes, an unknown reduction.
        ShapeError: arguments that do not fit each other.
        IndexRangeError: a tag, length or offset outside its range.

    Source: Lafferty, McCallum and Pereira, Conditional random fields, 2001; the recursions as in Rabiner, A tutorial on hidden
    Markov models, 1989.

    >>> crf = dynograd.nn.CRF(3, batch_first=True)
    >>> emissions = dynograd.zeros(2, 4, 3)
    >>> loss = -crf(emissions, dynograd.zeros(2, 4, dtype=dynograd.long), lengths=tensor([4, 2]))
    >>> [len(tags) for tags in crf.decode(emissions, lengths=tensor([4, 2]))]
    [4, 2]
    """

    def __init__(
        self, num_tags: int, batch_first: bool = False, device: DeviceLike = None, dtype: DtypeLike = None
    ) -> None:
        if isinstance(num_tags, bool) or not isinstance(num_tags, int) or num_tags <= 0:
            raise ValueError(f"CRF: expected num_tags to be an int above 0, got {num_tags!r}.")
        super().__init__()
        self.num_tags, self.batch_first = num_tags, batch_first
        self.start_transitions = Parameter(empty(num_tags, device=device, dtype=dtype))
        self.end_transitions = Parameter(empty(num_tags, device=device, dtype=dtype))
        self.transitions = Parameter(empty(num_tags, num_tags, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new transitions, uniform in [-0.1, 0.1].

        >>> crf = dynograd.nn.CRF(3)
        >>> crf.reset_parameters()
        >>> bool(crf.transitions.abs().max() <= 0.1)
        True
        """
        for parameter in (self.start_transitions, self.end_transitions, self.transitions):
            init.uniform_(parameter, -0.1, 0.1)

    def extra_repr(self) -> str:
        return f"num_tags={self.num_tags}, batch_first={self.batch_first}"

    @_takes_rows
    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: str = "sum",
        *,
        lengths: Tensor | Sequence[int] | None = None,
        offsets: Tensor | None = None,
    ) -> Tensor:
        """The log-likelihood of `tags`; its negative is the loss.

        Args:
            emissions: (T, B, K), (B, T, K) with batch_first, (M, K) with `offsets`, (T, K) for one sequence, or ragged (B, j, K).
            tags: of 0 to K - 1, in the shape of the emissions without K.
            mask: in the shape of the tags, True for the first steps of each sequence.
            reduction: "sum", "mean" (over sequences), "token_mean" (the sum divided by the number of steps) or "none".
            lengths (B,): instead of `mask`, of each sequence.
            offsets (B + 1,): instead of both, where sequences begin that lie behind one another, and where the last one ends.
        Returns:
            a scalar; (B,) for "none" (a scalar for one sequence (T, K)).
        Raises:
            ValueError: an unknown reduction, or a mask with holes.
            ShapeError: arguments that do not fit each other.
            IndexRangeError: a tag, length or offset outside its range.

        >>> crf = dynograd.nn.CRF(2, batch_first=True)
        >>> emissions = tensor([[[5.0, 0.0], [0.0, 5.0]]])
        >>> bool(crf(emissions, tensor([[0, 1]])) > crf(emissions, tensor([[1, 0]])))
        True
        """
        if reduction not in _REDUCTIONS:
            raise ValueError(
                f"CRF: expected reduction to be one of {', '.join(map(repr, _REDUCTIONS))}, got {reduction!r}."
            )
        chains = self._chains(emissions, mask, lengths, offsets)
        log_likelihoods = chain_likelihoods(
            *chains.scores, chains.rows_of_tags(tags), chains.starts, chains.lengths, chains.step
        )
        if reduction == "sum":
            log_likelihoods = log_likelihoods.sum()
        elif reduction == "mean":
            log_likelihoods = log_likelihoods.mean()
        elif reduction == "token_mean":
            log_likelihoods = log_likelihoods.sum() / chains.lengths.sum()
        elif chains.single:
            log_likelihoods = log_likelihoods.reshape(())
        return narrowed(log_likelihoods, emissions)

    @_takes_rows
    def log_partition(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        offsets: Tensor | None = None,
    ) -> Tensor:
        """The logarithm of the sum of exp(score) over all sequences of tags.

        Args:
            emissions: (T, B, K), (B, T, K) with batch_first, (M, K) with `offsets`, (T, K) for one sequence, or ragged (B, j, K).
            mask: in the shape of the tags, True for the first steps of each sequence.
            lengths (B,): instead of `mask`, of each sequence.
            offsets (B + 1,): instead of both, where sequences begin that lie behind one another, and where the last one ends.
        Returns:
            (B,); () for one sequence (T, K).

        >>> crf = dynograd.nn.CRF(2, batch_first=True)
        >>> emissions = tensor([[[5.0, 0.0], [0.0, 5.0]]])
        >>> crf.log_partition(emissions).shape
        dynograd.Size([1])
        """
        chains = self._chains(emissions, mask, lengths, offsets)
        log_partitions = -chain_likelihoods(*chains.scores, None, chains.starts, chains.lengths, chains.step)
        return narrowed(log_partitions.reshape(()) if chains.single else log_partitions, emissions)

    @_takes_rows
    def score(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        offsets: Tensor | None = None,
    ) -> Tensor:
        """The scores of `tags`, differentiable (for losses on margins, with the tags of `viterbi`).

        Args:
            emissions: (T, B, K), (B, T, K) with batch_first, (M, K) with `offsets`, (T, K) for one sequence, or ragged (B, j, K).
            tags: of 0 to K - 1, in the shape of the emissions without K.
            mask: in the shape of the tags, True for the first steps of each sequence.
            lengths (B,): instead of `mask`, of each sequence.
            offsets (B + 1,): instead of both, where sequences begin that lie behind one another, and where the last one ends.
        Returns:
            (B,); () for one sequence (T, K).

        >>> crf = dynograd.nn.CRF(2, batch_first=True)
        >>> emissions = tensor([[[5.0, 0.0], [0.0, 5.0]]])
        >>> best = crf.viterbi(emissions)
        >>> dynograd.allclose(crf.score(emissions, best.tags), best.scores)
        True
        """
        sequences: dict[str, Any] = dict(mask=mask, lengths=lengths, offsets=offsets)
        return self.forward(emissions, tags, reduction="none", **sequences) + self.log_partition(emissions, **sequences)

    @_takes_rows
    def marginals(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        offsets: Tensor | None = None,
    ) -> Tensor:
        """The probability of each tag in each step.

        Args:
            emissions: (T, B, K), (B, T, K) with batch_first, (M, K) with `offsets`, (T, K) for one sequence, or ragged (B, j, K).
            mask: in the shape of the tags, True for the first steps of each sequence.
            lengths (B,): instead of `mask`, of each sequence.
            offsets (B + 1,): instead of both, where sequences begin that lie behind one another, and where the last one ends.
        Returns:
            of the shape of `emissions`; 0 beyond a sequence's end.

        >>> crf = dynograd.nn.CRF(2, batch_first=True)
        >>> emissions = tensor([[[5.0, 0.0], [0.0, 5.0]]])
        >>> dynograd.allclose(crf.marginals(emissions).sum(-1), dynograd.ones(1, 2))
        True
        """
        chains = self._chains(emissions, mask, lengths, offsets)
        marginals = chain_marginals(*chains.scores, chains.starts, chains.lengths, chains.step)
        return narrowed(marginals.reshape(tuple(emissions.shape)), emissions)

    @_takes_rows
    def viterbi(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        offsets: Tensor | None = None,
    ) -> BestPaths:
        """The sequences of tags with the highest scores, and these scores.

        Where several tie, those with the lowest last tag, then the lowest before it, and so on.

        Args:
            emissions: (T, B, K), (B, T, K) with batch_first, (M, K) with `offsets`, (T, K) for one sequence, or ragged (B, j, K).
            mask: in the shape of the tags, True for the first steps of each sequence.
            lengths (B,): instead of `mask`, of each sequence.
            offsets (B + 1,): instead of both, where sequences begin that lie behind one another, and where the last one ends.
        Returns:
            (tags, scores): tags in the shape of the emissions without K, 0 beyond a sequence's end; scores (B,), or () for one
                sequence (T, K).
        Source: Viterbi, Error bounds for convolutional codes, 1967.

        >>> crf = dynograd.nn.CRF(2, batch_first=True)
        >>> emissions = tensor([[[5.0, 0.0], [0.0, 5.0]]])
        >>> crf.viterbi(emissions).tags
        tensor([[0, 1]])
        """
        chains = self._chains(emissions, mask, lengths, offsets)
        tags, scores = chain_best_paths(
            *[score.detach() for score in chains.scores], chains.starts, chains.lengths, chains.step
        )
        scores = scores.reshape(()) if chains.single else scores
        return BestPaths(tags.reshape(tuple(emissions.shape[:-1])), narrowed(scores, emissions))

    @_takes_rows
    def decode(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        offsets: Tensor | None = None,
    ) -> list[list[int]]:
        """The best tags of each sequence, as lists of their own lengths (see `viterbi` for tensors and scores).

        Args:
            emissions: (T, B, K), (B, T, K) with batch_first, (M, K) with `offsets`, (T, K) for one sequence, or ragged (B, j, K).
            mask: in the shape of the tags, True for the first steps of each sequence.
            lengths (B,): instead of `mask`, of each sequence.
            offsets (B + 1,): instead of both, where sequences begin that lie behind one another, and where the last one ends.
        Returns:
            a list of B lists of ints.

        >>> crf = dynograd.nn.CRF(2, batch_first=True)
        >>> emissions = tensor([[[5.0, 0.0], [0.0, 5.0]]])
        >>> crf.decode(emissions)
        [[0, 1]]
        """
        chains = self._chains(emissions, mask, lengths, offsets)
        tags, _ = chain_best_paths(
            *[score.detach() for score in chains.scores], chains.starts, chains.lengths, chains.step
        )
        flat, step = tags.tolist(), chains.step
        return [
            flat[start : start + length * step : step]
            for start, length in zip(chains.starts.tolist(), chains.lengths.tolist(), strict=True)
        ]

    def _chains(self, emissions: Any, mask: Any, lengths: Any, offsets: Any) -> _Chains:
        check_floating("CRF", emissions)
        shape = tuple(emissions.shape)
        if len(shape) not in (2, 3) or shape[-1] != self.num_tags:
            layout = "(B, T, K)" if self.batch_first else "(T, B, K)"
            raise ShapeError(
                f"CRF: expected emissions {layout}, or (M, K) with offsets, with K = {self.num_tags} tags in the last dim, got shape "
                f"{shape}. Build CRF({shape[-1] if shape else 1}) or check the layer below."
            )
        named = [
            name for name, value in (("mask", mask), ("lengths", lengths), ("offsets", offsets)) if value is not None
        ]
        if len(named) > 1:
            raise ValueError(f"CRF: expected one of mask, lengths and offsets, got {' and '.join(named)}.")
        device = emissions.device
        single = len(shape) == 2 and offsets is None
        if offsets is not None:
            starts, lengths = _of_offsets(offsets, shape, device)
            step = 1
        else:
            steps, count = (shape[0], 1) if single else (shape[1], shape[0]) if self.batch_first else shape[:2]
            step = count if not self.batch_first and not single else 1
            starts = arange(count, device=device) * (steps if step == 1 else 1)
            if count == 1:
                step = 1
            if mask is not None:
                lengths = _of_mask(mask, shape[:-1], single or self.batch_first)
            elif lengths is not None:
                lengths = _of_lengths(lengths, count, steps, device)
            else:
                lengths = starts * 0 + steps
        flat = widened(emissions).reshape(-1, self.num_tags)
        kind = flat.dtype
        weights = [
            weight if weight.dtype is kind else weight.to(kind)
            for weight in (self.transitions, self.start_transitions, self.end_transitions)
        ]
        return _Chains([flat, *weights], starts, lengths, step, single, shape[:-1], self.num_tags, not named)


class _Chains(NamedTuple):
    """Arguments of a call, in the form that the ops take."""

    scores: list[Any]  # emissions (M, K), transitions, first, last
    starts: Any
    lengths: Any
    step: int
    single: bool
    shape: tuple[int, ...]  # of the tags
    num_tags: int
    whole: bool  # every row is one of a sequence

    def rows_of_tags(self, tags: Tensor) -> Tensor:
        """(M,) int64: in range in the rows of sequences; 0 elsewhere."""
        tags = as_tensor(tags)
        if tuple(tags.shape) != self.shape:
            raise ShapeError(
                f"CRF: expected tags of shape {self.shape}, that of the emissions without the last dim, got {tuple(tags.shape)}."
            )
        if tags.dtype.is_floating_point or tags.dtype.is_complex or tags.dtype is dtypes.bool:
            raise DtypeError(f"CRF: expected tags to be integers, got {tags.dtype}. Use tags.long().")
        tags = tags.long().reshape(-1)
        if self.whole:
            _check_range(
                "tags", tags, 0, self.num_tags - 1, self.shape, "Where it is padding, pass mask, lengths or offsets."
            )
            return tags
        tags = where(self._inside(), tags, 0)
        _check_range("tags", tags, 0, self.num_tags - 1, self.shape, f"CRF has num_tags={self.num_tags}.")
        return tags

    def _inside(self) -> Tensor:
        """(M,) bool: the rows of sequences."""
        if self.step > 1:
            times = arange(self.shape[0], device=self.starts.device).reshape(-1, 1)
            return (times < self.lengths).reshape(-1)
        edges = zeros(self.scores[0].shape[0] + 1, dtype=dtypes.int64, device=self.starts.device)
        ones = ones_like(self.starts)
        edges = edges.index_add(0, self.starts, ones).index_add(0, self.starts + self.lengths, -ones)
        return edges.cumsum(0)[:-1] > 0


# --- arguments -----------------------------------------------------------------------------------------------------------------


def _of_mask(mask: Any, shape: tuple[int, ...], batch_first: bool) -> Tensor:
    """Lengths (B,) of a mask (B, T) or (T, B) (one sequence: (T,)) whose True come first."""
    mask = as_tensor(mask)
    if tuple(mask.shape) != shape:
        raise ShapeError(
            f"CRF: expected a mask of shape {shape}, that of the emissions without the last dim, got {tuple(mask.shape)}."
        )
    mask = mask != 0
    rows = mask.reshape(1, -1) if len(shape) == 1 else mask if batch_first else mask.T
    if rows.shape[1] > 1:
        holes = rows[:, 1:] & ~rows[:, :-1]
        hole = _out_of_range(holes.long(), 0, 0)
        if hole is not None:
            *_, sequence, time = hole[1]
            raise ValueError(
                f"CRF: expected a mask that is True for the first steps of a sequence and then False, got True behind False (sequence "
                f"{sequence}, step {time + 1}). Leave out the steps between, or pass lengths."
            )
    return rows.sum(1)


def _of_lengths(lengths: Any, count: int, steps: int, device: Any) -> Tensor:
    lengths = _integers("lengths", lengths, device)
    if tuple(lengths.shape) != (count,):
        raise ShapeError(f"CRF: expected {count} lengths, one for each sequence, got shape {tuple(lengths.shape)}.")
    _check_range("lengths", lengths, 0, steps, (count,), f"The emissions have {steps} steps.")
    return lengths


def _of_offsets(offsets: Any, shape: tuple[int, ...], device: Any) -> tuple[Any, Any]:
    """(starts, lengths) of sequences behind one another."""
    offsets = _integers("offsets", offsets, device)
    if len(shape) != 2 or len(offsets.shape) != 1 or not offsets.shape[0]:
        raise ShapeError(
            f"CRF: expected emissions (M, K) with offsets (B + 1,), got shapes {shape} and {tuple(offsets.shape)}. For padded emissions "
            f"pass lengths."
        )
    _check_range("offsets", offsets, 0, shape[0], tuple(offsets.shape), f"The emissions have {shape[0]} rows.")
    starts, lengths = offsets[:-1], offsets[1:] - offsets[:-1]
    _check_range("a length, between two offsets,", lengths, 0, shape[0], tuple(lengths.shape), "Offsets must not fall.")
    return starts, lengths


def _integers(name: str, values: Any, device: Any) -> Tensor:
    integers = as_tensor(values)
    if not integers.numel() and not hasattr(values, "dtype"):
        integers = integers.long()
    if integers.dtype.is_floating_point or integers.dtype.is_complex or integers.dtype is dtypes.bool:
        raise DtypeError(f"CRF: expected {name} to be integers, got {integers.dtype}. Use {name}.long().")
    return integers.to(device=device, dtype=dtypes.int64)


def _check_range(name: str, values: Any, low: int, high: int, shape: tuple[int, ...], hint: str) -> None:
    outside = _out_of_range(values, low, high, name)
    if outside is not None:
        value, (*_, place) = outside
        position = []
        for size in reversed(shape):
            position.append(place % size)
            place //= size
        raise IndexRangeError(
            f"CRF: expected {name} from {low} to {high}, got {value} at position {tuple(reversed(position))}. {hint}"
        )


def _out_of_range(values: Any, low: int, high: int, name: str = "mask") -> Any:
    array = arrays.all_values(values.array)
    return kernel("indexing", "out_of_range", array)(array, low, high + 1, f"CRF: {name}") if array.size else None
