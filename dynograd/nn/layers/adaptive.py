"""AdaptiveLogSoftmaxWithLoss: the log-softmax of very many classes, of which few are frequent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.errors import ShapeError
from dynograd.nn import functional as F
from dynograd.nn.checks import check_positive, check_sizes
from dynograd.nn.layers.containers import ModuleList, Sequential
from dynograd.nn.layers.linear import Linear
from dynograd.nn.module import Module
from dynograd.ragged import is_ragged
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ops = public_functions()


class _ASMoutput(NamedTuple):
    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of targets, and their mean loss, with classes sorted by frequency into a head and clusters.

    The head scores the frequent classes and one entry for each cluster; the classes of cluster i are scored, only for
    rows whose target lies there, by a projection to `in_features / div_value ** (i + 1)` features.

    Args:
        in_features: the last size of the input.
        n_classes: the number of classes; targets are sorted by frequency, the most frequent is 0.
        cutoffs: where clusters begin: [100, 1000] makes a head of 100 classes and clusters of 900 and of the rest.
        div_value: by how much each cluster has fewer features than the one before, above 0.
        head_bias: the head adds a bias.
        device, dtype: of the parameters.
    Shape: input (N, in_features) and target (N,), or (in_features,) and (), or ragged (B, j, in_features) and (B, j);
        gives (output, loss): the log-probabilities of the targets, of the target's shape, and minus their mean ().
    Raises:
        ValueError: `cutoffs` are not increasing integers from 1 to n_classes - 1.
        ShapeError: in a call: sizes that do not fit.
        RuntimeError: in a call: a target outside the classes.
    Source: Grave et al., Efficient softmax approximation for GPUs, 2017 (arXiv:1609.04309).

    >>> layer = dynograd.nn.AdaptiveLogSoftmaxWithLoss(8, 100, cutoffs=[10, 40], div_value=2.0)
    >>> output, loss = layer(dynograd.zeros(3, 8), tensor([0, 20, 99]))
    >>> output.shape, loss.shape, layer.log_prob(dynograd.zeros(3, 8)).shape
    (dynograd.Size([3]), dynograd.Size([]), dynograd.Size([3, 100]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        who = "AdaptiveLogSoftmaxWithLoss"
        check_sizes(who, in_features=in_features, n_classes=n_classes)
        check_positive(who, div_value=div_value)
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError(f"{who}: cutoffs should be a sequence of length larger than 0, got {cutoffs}.")
        rising = all(low < high for low, high in pairwise([0, *cutoffs, n_classes]))
        if not rising or any(int(cutoff) != cutoff for cutoff in cutoffs):
            raise ValueError(
                f"{who}: cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is "
                f"between 1 and n_classes-1 = {n_classes - 1}, got {cutoffs}."
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs, self.div_value, self.head_bias = [*cutoffs, n_classes], div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for number, (low, high) in enumerate(pairwise(self.cutoffs)):
            width = int(in_features // div_value ** (number + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, **options), Linear(width, high - low, bias=False, **options)
                )
            )

    def reset_parameters(self) -> None:
        """Draws the initial values of each Linear again.

        >>> layer = dynograd.nn.AdaptiveLogSoftmaxWithLoss(8, 100, cutoffs=[10])
        >>> layer.reset_parameters()
        """
        self.head.reset_parameters()
        for project, score in self.tail:
            project.reset_parameters()
            score.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """The log-probabilities of targets and their mean loss.

        Args:
            input_ (N, in_features): features; (in_features,) for a single row, or ragged (B, j, in_features).
            target_ (N,): classes of 0 to n_classes - 1; () for a single row, ragged (B, j) for ragged input.
        Returns:
            (output, loss): output has the target's shape; loss () is minus its mean.
        Raises:
            ShapeError: `input_` and `target_` do not fit.

        >>> layer = dynograd.nn.AdaptiveLogSoftmaxWithLoss(8, 100, cutoffs=[10])
        >>> layer(dynograd.zeros(2, 8), tensor([3, 50])).output.shape
        dynograd.Size([2])
        """
        if is_ragged(input_) and is_ragged(target_):
            rows: Any = input_
            labels: Any = target_
            rows.partition.check_same("AdaptiveLogSoftmaxWithLoss", labels.partition, ("the input", "the target"))
            result = self.forward(rows.packed, labels.packed)
            return _ASMoutput(labels.with_packed(result.output), result.loss)
        if target_.dim() > 1 or input_.dim() != target_.dim() + 1 or input_.shape[:-1] != target_.shape:
            raise ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: input and target should have the same size in the batch dimension: (N, {self.in_features}) "
                f"with (N,), or ({self.in_features},) with (); got {tuple(input_.shape)} and {tuple(target_.shape)}."
            )
        single = target_.dim() == 0
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        self._check_targets(target)
        places = target  # in the head: the class, or the entry of its cluster
        head = F.log_softmax(self.head(input), 1)
        output = input.new_zeros(target.shape[0])
        for number, (low, high) in enumerate(pairwise(self.cutoffs)):
            inside = (target >= low) & (target < high)
            rows = inside.nonzero().squeeze(1)
            if rows.numel():
                scores = F.log_softmax(self.tail[number](input.index_select(0, rows)), 1)
                own = scores.gather(1, (target.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
                output = output.index_copy(0, rows, own.to(output.dtype))
                places = places.masked_fill(inside, self.shortlist_size + number)
        output = output + head.gather(1, places.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if single else output, loss)

    def _check_targets(self, target: Any) -> None:
        if target.numel():
            low, high = int(target.min()), int(target.max())
            if low < 0 or high >= self.n_classes:
                raise RuntimeError(
                    f"AdaptiveLogSoftmaxWithLoss: Target values should be in [0, {self.n_classes - 1}], but values in range "
                    f"[{low}, {high}] were found."
                )

    def _get_full_log_prob(self, input: Any, head_output: Any) -> Any:
        head = F.log_softmax(head_output, 1)
        parts = [head[:, : self.shortlist_size]]
        for number, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), 1) + head[:, self.shortlist_size + number].unsqueeze(1))
        return _ops["cat"](parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes.

        Args:
            input (N, in_features): features.
        Returns:
            (N, n_classes).

        >>> layer = dynograd.nn.AdaptiveLogSoftmaxWithLoss(8, 100, cutoffs=[10])
        >>> layer.log_prob(dynograd.zeros(2, 8)).exp().sum(1).detach()
        tensor([1.0000, 1.0000])
        """
        if is_ragged(input):
            rows: Any = input
            return rows.with_packed(self.log_prob(rows.packed))
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row; clusters are scored only for rows whose head chooses one.

        Args:
            input (N, in_features): features.
        Returns:
            (N,), int64.

        >>> layer = dynograd.nn.AdaptiveLogSoftmaxWithLoss(8, 100, cutoffs=[10])
        >>> layer.predict(dynograd.zeros(2, 8)).shape
        dynograd.Size([2])
        """
        if is_ragged(input):
            rows: Any = input
            return rows.with_packed(self.predict(rows.packed))
        head = self.head(input)
        chosen = head.argmax(1)
        rows = (chosen >= self.shortlist_size).nonzero().squeeze(1)
        if rows.numel():
            full = self._get_full_log_prob(input.index_select(0, rows), head.index_select(0, rows))
            chosen = chosen.index_copy(0, rows, full.argmax(1))
        return chosen
