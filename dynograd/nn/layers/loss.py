"""Losses as modules. Each is its function in `nn.functional` with its options as fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.nn import functional as F
from dynograd.nn.checks import check_number, check_positive
from dynograd.nn.layers.distance import PairwiseDistance
from dynograd.nn.module import Module
from dynograd.tensor.tensor import Tensor

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class _Loss(Module):
    """Calls `function` with its inputs and the fields named in `options` as keywords."""

    function: str
    options: tuple[str, ...] = ("reduction",)

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction)

    def _of(self, *inputs: Any) -> Tensor:
        return getattr(F, self.function)(*inputs, **{name: getattr(self, name) for name in self.options})


class _PairLoss(_Loss):
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(input, target)


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """PyTorch's old pair of switches as today's one word.

    Args:
        size_average: False sums, True averages; None is True where `reduce` is set.
        reduce: False keeps each loss.
        reduction: what holds where both are None.
    Returns:
        "mean", "sum" or "none".

    >>> from dynograd.nn.layers.loss import legacy_reduction
    >>> legacy_reduction(None, None, "sum"), legacy_reduction(True, None, "sum"), legacy_reduction(None, False, "sum")
    ('sum', 'mean', 'none')
    """
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


class _WeightedLoss(_PairLoss):
    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_PairLoss):
    """|input - target|, averaged.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
    Shape: input and target of one shape (*), also ragged; gives () for "mean" and "sum", (*) for "none".

    >>> dynograd.nn.L1Loss()(tensor([1.0, 2.0]), tensor([0.0, 0.0]))
    tensor(1.5000)
    """

    function = "l1_loss"


class MSELoss(_PairLoss):
    """(input - target)^2, averaged.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
    Shape: input and target of one shape (*), also ragged; gives () for "mean" and "sum", (*) for "none".

    >>> dynograd.nn.MSELoss()(tensor([1.0, 2.0]), tensor([0.0, 0.0]))
    tensor(2.5000)
    """

    function = "mse_loss"


class SmoothL1Loss(_PairLoss):
    """d^2 / (2 beta) where d = |input - target| is below beta, d - beta / 2 above, averaged.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
        beta: where the parabola turns into a line, 0 or more; 0 is `L1Loss`.
    Shape: input and target of one shape (*), also ragged; gives () for "mean" and "sum", (*) for "none".
    Raises:
        RuntimeError: in a call: beta is negative.
    Source: Girshick, Fast R-CNN, 2015 (arXiv:1504.08083), section 2.

    >>> dynograd.nn.SmoothL1Loss(reduction="none")(tensor([0.5, 3.0]), tensor([0.0, 0.0]))
    tensor([0.1250, 2.5000])
    """

    function, options = "smooth_l1_loss", ("reduction", "beta")

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta


class HuberLoss(_PairLoss):
    """d^2 / 2 where d = |input - target| is below delta, delta * (d - delta / 2) above, averaged.

    Args:
        reduction: "mean", "sum" or "none".
        delta: where the parabola turns into a line, above 0.
    Shape: input and target of one shape (*), also ragged; gives () for "mean" and "sum", (*) for "none".
    Raises:
        TypeError: delta is no number.
        RuntimeError: in a call: delta is not above 0.
    Source: Huber, Robust estimation of a location parameter, 1964.

    >>> dynograd.nn.HuberLoss(reduction="none", delta=2.0)(tensor([0.5, 3.0]), tensor([0.0, 0.0]))
    tensor([0.1250, 4.0000])
    """

    function, options = "huber_loss", ("reduction", "delta")

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        check_number("HuberLoss", "delta", delta)
        self.delta = delta


class NLLLoss(_WeightedLoss):
    """-input[target], averaged: the negative log-likelihood of the targets under log-probabilities.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
        weight (C,): a factor for each class; the mean divides by the factors of the targets.
        ignore_index: targets of this number do not count.
    Shape: input (N, C), (C,) or (N, C, d1, ...), target of that shape without C; gives () for "mean" and "sum", the target's
        shape for "none".
    Raises:
        ShapeError: in a call: `target` does not fit `input`.
        IndexRangeError: in a call: a class number outside 0 to C - 1.

    >>> log_probs = tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    >>> dynograd.nn.NLLLoss(reduction="none")(log_probs, tensor([1, 0]))
    tensor([0.2877, 0.6931])
    """

    function, options = "nll_loss", ("weight", "ignore_index", "reduction")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index


NLLLoss2d = NLLLoss


class CrossEntropyLoss(_WeightedLoss):
    """-log softmax(input)[target], averaged: the negative log-likelihood of the targets under scores.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
        weight (C,): a factor for each class; the mean over class numbers divides by the factors of the targets.
        ignore_index: targets of this number do not count.
        label_smoothing: share of the target's probability that is spread evenly over the classes, from 0 to 1.
    Shape: input (N, C), (C,) or (N, C, d1, ...), target of that shape without C, or probabilities of the input's shape; gives ()
        for "mean" and "sum", the target's shape for "none".
    Raises:
        ShapeError: in a call: `target` does not fit `input`.
        IndexRangeError: in a call: a class number outside 0 to C - 1.
        RuntimeError: in a call: label_smoothing is outside [0, 1].

    >>> dynograd.nn.CrossEntropyLoss()(tensor([[0.0, 0.0]]), tensor([1]))
    tensor(0.6931)
    """

    function, options = "cross_entropy", ("weight", "ignore_index", "reduction", "label_smoothing")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing


class CTCLoss(_Loss):
    """-log of the probability of a target, over all its alignments with the sequence; see `nn.functional.ctc_loss`.

    Args:
        blank: the class that means no label.
        reduction: "mean" (each loss divided by its target's length first), "sum" or "none".
        zero_infinity: targets without any alignment lose 0, not inf.
    Shape: log_probs (T, N, C) or (T, C), targets (N, S) or (sum of lengths,), input_lengths and target_lengths (N,);
        gives () for "mean" and "sum", (N,) for "none".
    Source: Graves et al., Connectionist temporal classification, 2006.

    >>> log_probs = dynograd.zeros(2, 1, 2).log_softmax(2)
    >>> dynograd.nn.CTCLoss()(log_probs, tensor([[1]]), (2,), (1,)).exp()
    tensor(1.3333)
    """

    function, options = "ctc_loss", ("blank", "reduction", "zero_infinity")

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any = None, target_lengths: Any = None
    ) -> Tensor:
        return self._of(log_probs, targets, input_lengths, target_lengths)


class BCELoss(_WeightedLoss):
    """-(target * log(input) + (1 - target) * log(1 - input)), averaged: binary cross entropy of probabilities.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
        weight: a factor of each loss; it broadcasts to the input.
    Shape: input and target of one shape (*), also ragged; gives () for "mean" and "sum", (*) for "none".
    Raises:
        RuntimeError: in a call: an input outside [0, 1].

    >>> dynograd.nn.BCELoss()(tensor([0.5, 0.5]), tensor([1.0, 0.0]))
    tensor(0.6931)
    """

    function, options = "binary_cross_entropy", ("weight", "reduction")


class BCEWithLogitsLoss(_PairLoss):
    """Binary cross entropy of logits: `BCELoss` of sigmoid(input), without overflow.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
        weight: a factor of each loss; it broadcasts to the input.
        pos_weight: a factor of the losses of positive targets; it broadcasts to the input.
    Shape: input and target of one shape (*), also ragged; gives () for "mean" and "sum", (*) for "none".
    Raises:
        ShapeError: in a call: input and target that do not fit.

    >>> dynograd.nn.BCEWithLogitsLoss()(tensor([0.0, 0.0]), tensor([1.0, 0.0]))
    tensor(0.6931)
    """

    function, options = "binary_cross_entropy_with_logits", ("weight", "reduction", "pos_weight")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)


class KLDivLoss(_PairLoss):
    """target * (log(target) - input): the Kullback-Leibler divergence of `target` from exp(input). 0 where target is 0.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "batchmean" (the sum over dim 0's size, the mathematical value), "mean" (over all elements, with a warning),
            "sum" or "none".
        log_target: targets are log-probabilities.
    Shape: input and target of one shape (*), also ragged; gives () for all reductions but "none", which keeps (*).
    Raises:
        DtypeError: in a call: an input or target of no floating dtype.
    Source: Kullback and Leibler, On information and sufficiency, 1951.

    >>> dynograd.nn.KLDivLoss(reduction="batchmean")(tensor([[0.5, 0.5]]).log(), tensor([[0.0, 1.0]]))
    tensor(0.6931)
    """

    function, options = "kl_div", ("reduction", "log_target")

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target


class PoissonNLLLoss(_Loss):
    """exp(input) - target * input, averaged: the negative log-likelihood of counts under Poisson distributions.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
        log_input: the input is the logarithm of the rate; else the rate, and the loss is input - target * log(input + eps).
        full: add Stirling's approximation of log(target!) where target > 1.
        eps: keeps the logarithm finite.
    Shape: input and target of one shape (*), also ragged; gives () for "mean" and "sum", (*) for "none".

    >>> dynograd.nn.PoissonNLLLoss()(tensor([0.0]), tensor([2.0]))
    tensor(1.)
    """

    function, options = "poisson_nll_loss", ("log_input", "full", "eps", "reduction")

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return self._of(log_input, target)


class GaussianNLLLoss(_Loss):
    """(log(var) + (input - target)^2 / var) / 2, averaged: the negative log-likelihood under normal distributions.

    Args:
        reduction: "mean", "sum" or "none".
        full: add log(2 pi) / 2.
        eps: variances below it count as `eps`, without a change of gradients.
    Shape: input and target (*); var (*), or without its last dim, or with one dim of size 1, or a number; gives () for "mean" and
        "sum", (*) for "none".
    Raises:
        ValueError: in a call: a negative variance.
        ShapeError: in a call: variances that do not fit.
    Source: Nix and Weigend, Estimating the mean and variance of the target probability distribution, 1994.

    >>> dynograd.nn.GaussianNLLLoss()(tensor([1.0]), tensor([0.0]), tensor([1.0]))
    tensor(0.5000)
    """

    function, options = "gaussian_nll_loss", ("full", "eps", "reduction")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        return self._of(input, target, var)


class HingeEmbeddingLoss(_PairLoss):
    """The input where the target is 1, max(0, margin - input) where it is -1, averaged.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
        margin: from where on distances of unlike pairs cost nothing.
    Shape: input and target (of 1 and -1) of one shape (*), also ragged; gives () for "mean" and "sum", (*) for "none".

    >>> dynograd.nn.HingeEmbeddingLoss(reduction="none")(tensor([0.3, 0.3]), tensor([1.0, -1.0]))
    tensor([0.3000, 0.7000])
    """

    function, options = "hinge_embedding_loss", ("margin", "reduction")

    def __init__(
        self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class CosineEmbeddingLoss(_Loss):
    """1 - cos(input1, input2) where the target is 1, max(0, cos - margin) where it is -1, averaged.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
        margin: up to which cosine unlike pairs cost nothing, -1 to 1.
    Shape: input1 and input2 (N, D) or (D,), target (N,) or () of 1 and -1; gives () for "mean" and "sum", the
        target's shape for "none".
    Raises:
        ShapeError: in a call: inputs and target that do not fit.

    >>> x, y = tensor([[1.0, 0.0]]), tensor([[0.0, 1.0]])
    >>> dynograd.nn.CosineEmbeddingLoss()(x, y, tensor([1.0])), dynograd.nn.CosineEmbeddingLoss()(x, y, tensor([-1.0]))
    (tensor(1.), tensor(0.))
    """

    function, options = "cosine_embedding_loss", ("margin", "reduction")

    def __init__(
        self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return self._of(input1, input2, target)


class MarginRankingLoss(CosineEmbeddingLoss):
    """max(0, -target * (input1 - input2) + margin), averaged: input1 should be larger where the target is 1, smaller where it is -1.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
        margin: by how much.
    Shape: input1, input2 and target of one shape (*); gives () for "mean" and "sum", (*) for "none".

    >>> dynograd.nn.MarginRankingLoss()(tensor([1.0, 1.0]), tensor([3.0, 3.0]), tensor([1.0, -1.0]))
    tensor(1.)
    """

    function = "margin_ranking_loss"


class SoftMarginLoss(_PairLoss):
    """log(1 + exp(-target * input)), averaged, for targets of 1 and -1.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
    Shape: input and target of one shape (*), also ragged; gives () for "mean" and "sum", (*) for "none".

    >>> dynograd.nn.SoftMarginLoss()(tensor([0.0]), tensor([1.0]))
    tensor(0.6931)
    """

    function = "soft_margin_loss"


class MultiLabelMarginLoss(_PairLoss):
    """The sum over named classes i and other classes j of max(0, 1 - input[i] + input[j]), divided by C, averaged.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
    Shape: input (N, C) or (C,), target of that shape: class numbers, each row ended by -1; gives () for "mean" and
        "sum", (N,) or () for "none".
    Raises:
        ShapeError: in a call: a target of another shape.
        IndexRangeError: in a call: a class number outside -1 to C - 1.

    >>> dynograd.nn.MultiLabelMarginLoss()(tensor([[0.5, 0.0]]), tensor([[0, -1]]))
    tensor(0.2500)
    """

    function = "multilabel_margin_loss"


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of `BCEWithLogitsLoss`, averaged over rows.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
        weight (C,): a factor for each class.
    Shape: input (N, C) or (C,), target of that shape: 0 or 1 for each class; gives () for "mean" and "sum", (N,) or () for
        "none".

    >>> dynograd.nn.MultiLabelSoftMarginLoss()(tensor([[0.0, 0.0]]), tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    function, options = "multilabel_soft_margin_loss", ("weight", "reduction")


class MultiMarginLoss(_WeightedLoss):
    """The sum over the other classes j of max(0, margin - input[target] + input[j])^p, divided by C, averaged.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
        p: 1 or 2.
        margin: by how much the target's score should lead.
        weight (C,): a factor for each target class.
    Shape: input (N, C) or (C,), target (N,) or (): class numbers; gives () for "mean" and "sum", (N,) or () for "none".
    Raises:
        ValueError: another p.
        IndexRangeError: in a call: a class number outside 0 to C - 1.

    >>> dynograd.nn.MultiMarginLoss()(tensor([[1.0, 0.5, 0.0]]), tensor([0]))
    tensor(0.1667)
    """

    function, options = "multi_margin_loss", ("p", "margin", "weight", "reduction")

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: only p == 1 and p == 2 supported, got {p}.")
        check_number("MultiMarginLoss", "margin", margin)
        self.p, self.margin = p, margin


class TripletMarginLoss(_Loss):
    """max(0, |anchor - positive| - |anchor - negative| + margin), averaged.

    Args:
        size_average, reduce: PyTorch's old switches, in place of `reduction`.
        reduction: "mean", "sum" or "none".
        margin: by how much farther the negative should be, above 0.
        p: of the norm.
        eps: added to each difference.
        swap: take the distance of positive and negative where it is smaller than that of anchor and negative.
    Shape: anchor, positive and negative (N, D) or (D,), which broadcast; gives () for "mean" and "sum", (N,) or () for "none".
    Raises:
        ValueError: margin is not above 0.
    Source: Balntas et al., Learning shallow convolutional feature descriptors with triplet losses, 2016.

    >>> dynograd.nn.TripletMarginLoss(margin=3.0)(tensor([[0.0]]), tensor([[1.0]]), tensor([[3.0]]))
    tensor(1.)
    """

    function, options = "triplet_margin_loss", ("margin", "p", "eps", "swap", "reduction")

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        check_positive("TripletMarginLoss", margin=margin)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return self._of(anchor, positive, negative)


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a distance of one's own.

    Args:
        reduction: "mean", "sum" or "none".
        distance_function: takes two tensors and gives their distances; Euclidean when left out.
        margin: by how much farther the negative should be, above 0.
        swap: take the distance of positive and negative where it is smaller than that of anchor and negative.
    Shape: anchor, positive and negative of one shape, whatever the distance takes; gives () for "mean" and "sum", the distances'
        shape for "none".
    Raises:
        ValueError: margin is not above 0.

    >>> city = lambda a, b: (a - b).abs().sum(-1)
    >>> loss = dynograd.nn.TripletMarginWithDistanceLoss(distance_function=city)
    >>> loss(tensor([[0.0, 0.0]]), tensor([[1.0, 1.0]]), tensor([[1.0, 0.5]]))
    tensor(1.5000)
    """

    function, options = "triplet_margin_with_distance_loss", ("distance_function", "margin", "swap", "reduction")

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead."
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return self._of(anchor, positive, negative)
