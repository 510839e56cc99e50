"""Losses as modules. Each is its function in `nn.functional` with its options as fields."""

from __future__ import annotations

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

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = legacy_reduction(size_average, reduce, reduction)

    def forward(self, *inputs: Any) -> Tensor:
        return getattr(F, self.function)(*inputs, **{name: getattr(self, name) for name in self.options})


def legacy_reduction(size_average: Any, reduce: Any, reduction: str) -> str:
    """PyTorch's old pair of switches as today's one word."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


class _WeightedLoss(_Loss):
    def __init__(
        self, weight: Any = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """The mean of |input - target|."""

    function = "l1_loss"


class MSELoss(_Loss):
    """The mean of (input - target)^2.

    >>> dynograd.nn.MSELoss()(tensor([1.0, 2.0]), tensor([0.0, 0.0]))
    tensor(2.5000)
    """

    function = "mse_loss"


class SmoothL1Loss(_Loss):
    """Squared below `beta`, linear above."""

    function, options = "smooth_l1_loss", ("reduction", "beta")

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta


class HuberLoss(_Loss):
    """Squared below `delta`, linear above, scaled by delta."""

    function, options = "huber_loss", ("reduction", "delta")

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        check_number("HuberLoss", "delta", delta)
        self.delta = delta


class NLLLoss(_WeightedLoss):
    """Minus the log-probability of the target class.

    Args:
        weight (C,): of each class.
        ignore_index: targets of this value do not count.
    """

    function, options = "nll_loss", ("weight", "ignore_index", "reduction")

    def __init__(
        self,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index


NLLLoss2d = NLLLoss


class CrossEntropyLoss(_WeightedLoss):
    """The negative log-likelihood of the target class under softmax(input).

    Args:
        weight (C,): of each class.
        ignore_index: targets of this value do not count.
        label_smoothing: share of the target's probability that is spread evenly over the classes.

    >>> dynograd.nn.CrossEntropyLoss()(tensor([[0.0, 0.0]]), tensor([1]))
    tensor(0.6931)
    """

    function, options = "cross_entropy", ("weight", "ignore_index", "reduction", "label_smoothing")

    def __init__(
        self,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
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

    >>> log_probs = dynograd.zeros(2, 1, 2).log_softmax(2)
    >>> dynograd.nn.CTCLoss()(log_probs, tensor([[1]]), (2,), (1,)).exp()
    tensor(1.3333)
    """

    function, options = "ctc_loss", ("blank", "reduction", "zero_infinity")

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities."""

    function, options = "binary_cross_entropy", ("weight", "reduction")


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits."""

    function, options = "binary_cross_entropy_with_logits", ("weight", "reduction", "pos_weight")

    def __init__(
        self,
        weight: Any = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        pos_weight: Any = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of the target from exp(input)."""

    function, options = "kl_div", ("reduction", "log_target")

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean", log_target: bool = False
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of a Poisson distribution."""

    function, options = "poisson_nll_loss", ("log_input", "full", "eps", "reduction")

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: Any = None,
        eps: float = 1e-8,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood of a normal distribution of given variance: (input, target, var)."""

    function, options = "gaussian_nll_loss", ("full", "eps", "reduction")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full, self.eps = full, eps


class HingeEmbeddingLoss(_Loss):
    """x where the target is 1, max(0, margin - x) where it is -1."""

    function, options = "hinge_embedding_loss", ("margin", "reduction")

    def __init__(
        self, margin: float = 1.0, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class CosineEmbeddingLoss(HingeEmbeddingLoss):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1: (input1, input2, target)."""

    function = "cosine_embedding_loss"

    def __init__(
        self, margin: float = 0.0, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)


class MarginRankingLoss(CosineEmbeddingLoss):
    """max(0, -target * (input1 - input2) + margin)."""

    function = "margin_ranking_loss"


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target * input))."""

    function = "soft_margin_loss"


class MultiLabelMarginLoss(_Loss):
    """Hinge loss between every target class and every other; targets end at the first -1."""

    function = "multilabel_margin_loss"


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of binary cross entropy of logits."""

    function, options = "multilabel_soft_margin_loss", ("weight", "reduction")


class MultiMarginLoss(_WeightedLoss):
    """Hinge loss between the target class and the others."""

    function, options = "multi_margin_loss", ("p", "margin", "weight", "reduction")

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Any = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: only p == 1 and p == 2 supported, got {p}.")
        check_number("MultiMarginLoss", "margin", margin)
        self.p, self.margin = p, margin


class TripletMarginLoss(_Loss):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""

    function, options = "triplet_margin_loss", ("margin", "p", "eps", "swap", "reduction")

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        check_positive("TripletMarginLoss", margin=margin)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a distance of one's own.

    Args:
        distance_function: takes two tensors and gives their distances; Euclidean when left out.
    """

    function, options = "triplet_margin_with_distance_loss", ("distance_function", "margin", "swap", "reduction")

    def __init__(
        self, *, distance_function: Any = None, margin: float = 1.0, swap: bool = False, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead."
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap
