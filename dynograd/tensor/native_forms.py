"""Functions that `torch.` and `torch.nn.functional` have under one name with arguments of their own: here are those of `torch.`.

`torch.embedding(weight, indices)` has the table first, `torch.batch_norm` the weights before the statistics, `torch.dropout` is told by
`train`, and losses take their reduction as a number: 0 none, 1 mean, 2 sum (words are taken too).
"""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.errors import ShapeError
from dynograd.tensor import creation
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

__all__ = [
    "alpha_dropout",
    "alpha_dropout_",
    "batch_norm",
    "binary_cross_entropy_with_logits",
    "convolution",
    "cosine_embedding_loss",
    "dropout",
    "dropout_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "group_norm",
    "hinge_embedding_loss",
    "instance_norm",
    "kl_div",
    "margin_ranking_loss",
    "poisson_nll_loss",
    "triplet_margin_loss",
]

_ops = public_functions()
_REDUCTIONS = ("none", "mean", "sum")


def reduction_word(who: str, reduction: Any) -> str:
    """none, mean or sum for the number that stands for it."""
    if isinstance(reduction, str):
        return reduction
    if reduction not in (0, 1, 2):
        raise ValueError(
            f"{who}: {reduction!r} is not a valid value for reduction: expected 0 (none), 1 (mean) or 2 (sum)."
        )
    return _REDUCTIONS[reduction]


# --- dropout -------------------------------------------------------------------------------------------------------------------


def dropout(input: Any, p: float, train: bool) -> Tensor:
    """`nn.functional.dropout` with `train` for `training`.

    Args:
        input: tensor of any shape.
        p: probability, from 0 to 1.
        train: False passes `input` through.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.dropout(tensor([1.0, 2.0]), 0.5, False)
    tensor([1., 2.])
    """
    return _ops["dropout"](input, p, train)


def dropout_(input: Any, p: float, train: bool) -> Tensor:
    """`dropout` in place.

    Args:
        input: tensor of any shape.
        p: probability, from 0 to 1.
        train: False leaves `input` as it is.
    Returns:
        `input`.

    >>> dynograd.dropout_(tensor([1.0, 2.0]), 0.5, False)
    tensor([1., 2.])
    """
    return _ops["dropout"](input, p, train, True)


def alpha_dropout(input: Any, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout` with `train` for `training`.

    Args:
        input: tensor of any shape.
        p: probability, from 0 to 1.
        train: False passes `input` through.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.alpha_dropout(tensor([1.0, 2.0]), 0.5, False)
    tensor([1., 2.])
    """
    return _ops["alpha_dropout"](input, p, train)


def alpha_dropout_(input: Any, p: float, train: bool) -> Tensor:
    """`alpha_dropout` in place.

    Args:
        input: tensor of any shape.
        p: probability, from 0 to 1.
        train: False leaves `input` as it is.
    Returns:
        `input`.

    >>> dynograd.alpha_dropout_(tensor([1.0, 2.0]), 0.5, False)
    tensor([1., 2.])
    """
    return _ops["alpha_dropout"](input, p, train, True)


def feature_dropout(input: Any, p: float, train: bool) -> Tensor:
    """Whole channels of (N, C, ...) become 0 with probability `p`, the others grow by 1 / (1 - p).

    Args:
        input (N, C, ...): tensor with channels.
        p: probability, from 0 to 1.
        train: False passes `input` through.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: `input` has fewer than two dims.

    >>> dynograd.feature_dropout(tensor([[1.0, 2.0]]), 1.0, True)
    tensor([[0., 0.]])
    """
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise ShapeError(
            f"feature_dropout: expected an input of at least 2 dims (N, C, ...), got shape {shape}. Use dropout."
        )
    return _ops["dropout3d"](input.reshape(*shape[:2], -1, 1, 1), p, train).reshape(shape)


def feature_dropout_(input: Any, p: float, train: bool) -> Tensor:
    """`feature_dropout` in place.

    Args:
        input (N, C, ...): tensor with channels.
        p: probability, from 0 to 1.
        train: False leaves `input` as it is.
    Returns:
        `input`.

    >>> dynograd.feature_dropout_(tensor([[1.0, 2.0]]), 0.5, False)
    tensor([[1., 2.]])
    """
    return input.copy_(feature_dropout(input, p, train))


def feature_alpha_dropout(input: Any, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout` with `train` for `training`.

    Args:
        input (N, C, ...): tensor with channels.
        p: probability, from 0 to 1.
        train: False passes `input` through.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.feature_alpha_dropout(tensor([[1.0, 2.0]]), 0.5, False)
    tensor([[1., 2.]])
    """
    return _ops["feature_alpha_dropout"](input, p, train)


def feature_alpha_dropout_(input: Any, p: float, train: bool) -> Tensor:
    """`feature_alpha_dropout` in place.

    Args:
        input (N, C, ...): tensor with channels.
        p: probability, from 0 to 1.
        train: False leaves `input` as it is.
    Returns:
        `input`.

    >>> dynograd.feature_alpha_dropout_(tensor([[1.0, 2.0]]), 0.5, False)
    tensor([[1., 2.]])
    """
    return _ops["feature_alpha_dropout"](input, p, train, True)


# --- layers --------------------------------------------------------------------------------------------------------------------


def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """`nn.functional.embedding` with the table first; a negative `padding_idx` is none.

    Args:
        weight (rows, D): the table.
        indices: integers from 0, of any shape.
        padding_idx: a row that gets no gradient.
        scale_grad_by_freq: divide gradients by how often a row occurs.
        sparse: the gradient of a leaf `weight` is a sparse tensor.
    Returns:
        (*indices.shape, D).

    >>> dynograd.embedding(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1]))
    tensor([[3., 4.]])
    """
    return _ops["embedding"](
        indices, weight, None if padding_idx < 0 else padding_idx, None, 2.0, scale_grad_by_freq, sparse
    )


def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """`nn.functional.batch_norm` with the weights first.

    Args:
        input (N, C, *): tensor.
        weight, bias (C,): or None.
        running_mean, running_var (C,): as in `nn.functional.batch_norm`.
        training: normalise with the batch's own statistics.
        momentum: how far the running statistics move, from 0 to 1.
        eps: added to the variance.
        cudnn_enabled: accepted.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.batch_norm(tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0)
    tensor([[-1.],
            [ 1.]])
    """
    return _ops["batch_norm"](input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """`nn.functional.instance_norm` with the weights first.

    Args:
        input (N, C, *): tensor.
        weight, bias (C,): or None.
        running_mean, running_var (C,): as in `nn.functional.instance_norm`.
        use_input_stats: normalise with each example's own statistics.
        momentum: how far the running statistics move, from 0 to 1.
        eps: added to the variance.
        cudnn_enabled: accepted.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.instance_norm(tensor([[[1.0, 3.0]]]), None, None, None, None, True, 0.1, 0.0, True)
    tensor([[[-1.,  1.]]])
    """
    return _ops["instance_norm"](input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enabled: bool = True
) -> Tensor:
    """`nn.functional.group_norm`.

    Args:
        input (N, C, *): tensor.
        num_groups: a divisor of C.
        weight, bias (C,): or None.
        eps: added to the variance.
        cudnn_enabled: accepted.
    Returns:
        A tensor of the shape and dtype of `input`.

    >>> dynograd.group_norm(tensor([[1.0, 3.0]]), 1, eps=0.0)
    tensor([[-1.,  1.]])
    """
    return _ops["group_norm"](input, num_groups, weight, bias, eps)


def convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """`nn.functional.conv1d` to `conv3d`, or with `transposed` their `conv_transpose`, by the dims of `weight`.

    Args:
        input (N, C, *): one to three spatial dims.
        weight: filters, as the function wants them.
        bias: added to each channel of the result; None: nothing is.
        stride, padding, dilation, output_padding: ints, one for each spatial dim.
        transposed: the transpose.
        groups: into how many groups the channels are cut.
    Returns:
        (N, K, *).

    >>> x, w = tensor([[[1.0, 2.0, 4.0]]]), tensor([[[1.0, 10.0]]])
    >>> dynograd.convolution(x, w, None, [1], [0], [1], False, [0], 1)
    tensor([[[21., 42.]]])
    """
    rank = len(weight.shape) - 2
    if rank not in (1, 2, 3):
        raise ShapeError(
            f"convolution: weight must have 3 to 5 dims (out, in, sizes), got shape {tuple(weight.shape)}."
        )
    if transposed:
        function = _ops[f"conv_transpose{rank}d"]
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _ops[f"conv{rank}d"](input, weight, bias, stride, padding, dilation, groups)


def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`nn.functional.embedding_bag` with the table first and `mode` 0 sum, 1 mean, 2 max; and what PyTorch's backward needs.

    Args:
        weight (rows, D): the table.
        indices (total,): of all bags.
        offsets (B,): where each bag begins.
        scale_grad_by_freq: divide gradients by how often a row occurs.
        mode: 0, 1 or 2.
        sparse: the gradient of a leaf `weight` is a sparse tensor.
        per_sample_weights (total,): factors, with mode 0.
        include_last_offset: `offsets` ends with the number of indices.
        padding_idx: a row that counts in no bag.
    Returns:
        (bags, the bag of each index, the size of each bag, for "max" the indices of the rows that were largest). As in PyTorch's, sums
        leave the last two zero, and means say the sizes twice.

    >>> weight = tensor([[1.0, 2.0], [3.0, 0.0]])
    >>> bags, bag_of, sizes, largest = dynograd.embedding_bag(weight, tensor([0, 1, 1]), tensor([0, 2]), mode=2)
    >>> bags, bag_of, sizes
    (tensor([[3., 2.],
            [3., 0.]]), tensor([0, 0, 1]), tensor([2, 1]))
    >>> largest
    tensor([[1, 0],
            [1, 1]])
    """
    if mode not in (0, 1, 2):
        raise ValueError(f"embedding_bag: mode has to be 0 (sum), 1 (mean) or 2 (max), got {mode!r}.")
    bags = _ops["embedding_bag"](
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    indices, offsets, count = indices.long(), offsets.long(), bags.shape[0]
    zeros = offsets.new_zeros(count)
    bag_of = _ops["searchsorted"](offsets[:count], creation.arange(len(indices), device=indices.device), right=True) - 1
    if mode == 0:
        zeros = offsets.new_zeros(len(offsets))
        return bags, bag_of[:0] if padding_idx is None else bag_of, zeros, zeros.clone()
    kept: Any = creation.ones_like(indices) if padding_idx is None else (indices != padding_idx % len(weight)).long()
    sizes = zeros.scatter_add(0, bag_of, kept)
    if mode == 1:
        return bags, bag_of, sizes, sizes.clone()
    with no_grad():
        hits = (weight[indices] == bags[bag_of]) & kept.bool()[:, None]
        numbers: Any = creation.arange(len(indices), device=indices.device)
        places = numbers[:, None].where(hits, len(indices))
        first = (
            zeros[:, None]
            .expand(*bags.shape)
            .scatter_reduce(0, bag_of[:, None].expand(*places.shape), places, "amin", include_self=False)
        )
        largest = indices[first.clamp(0, max(len(indices) - 1, 0))] if len(indices) else first
        return bags, bag_of, sizes, largest.masked_fill((sizes == 0)[:, None], 0)


# --- losses --------------------------------------------------------------------------------------------------------------------


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits`.

    Args:
        input: scores.
        target: probabilities, in the shape of `input`.
        weight: a factor of each loss, broadcast.
        pos_weight: a factor of the positive part, broadcast.
        reduction: 0 none, 1 mean, 2 sum.
    Returns:
        A tensor without dims, or of the losses with reduction 0.

    >>> dynograd.binary_cross_entropy_with_logits(tensor([0.0]), tensor([1.0]), None, tensor([2.0]), 0)
    tensor([1.3863])
    """
    word = reduction_word("binary_cross_entropy_with_logits", reduction)
    return _ops["binary_cross_entropy_with_logits"](input, target, weight=weight, pos_weight=pos_weight, reduction=word)


def kl_div(input: Any, target: Any, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div`, without its warning about the mean.

    Args:
        input: log-probabilities.
        target: probabilities, or log-probabilities with `log_target`.
        reduction: 0 none, 1 mean, 2 sum.
        log_target: `target` holds logarithms.
    Returns:
        A tensor without dims, or of the losses with reduction 0.

    >>> dynograd.kl_div(tensor([0.0]), tensor([1.0]))
    tensor(0.)
    """
    word = reduction_word("kl_div", reduction)
    ops = _ops["kl_div"](input, target, reduction="none" if word == "mean" else word, log_target=log_target)
    return ops.mean() if word == "mean" else ops


def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 1) -> Tensor:
    """`nn.functional.cosine_embedding_loss`.

    Args:
        input1, input2 (N, D) or (D,): vectors.
        target (N,) or (): 1 or -1.
        margin: what the cosine of those of target -1 may be.
        reduction: 0 none, 1 mean, 2 sum.
    Returns:
        A tensor without dims, or of the losses with reduction 0.

    >>> dynograd.cosine_embedding_loss(tensor([[1.0, 0.0]]), tensor([[0.0, 1.0]]), tensor([1.0]))
    tensor(1.)
    """
    word = reduction_word("cosine_embedding_loss", reduction)
    return _ops["cosine_embedding_loss"](input1, input2, target, margin, reduction=word)


def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """`nn.functional.hinge_embedding_loss`.

    Args:
        input: distances.
        target: 1 or -1.
        margin: how far apart those of target -1 should be.
        reduction: 0 none, 1 mean, 2 sum.
    Returns:
        A tensor without dims, or of the losses with reduction 0.

    >>> dynograd.hinge_embedding_loss(tensor([0.2, 0.4]), tensor([1.0, -1.0]))
    tensor(0.4000)
    """
    return _ops["hinge_embedding_loss"](
        input, target, margin, reduction=reduction_word("hinge_embedding_loss", reduction)
    )


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 1) -> Tensor:
    """`nn.functional.margin_ranking_loss`.

    Args:
        input1, input2: scores; they broadcast.
        target: 1 or -1.
        margin: how much larger the larger one should be.
        reduction: 0 none, 1 mean, 2 sum.
    Returns:
        A tensor without dims, or of the losses with reduction 0.

    >>> dynograd.margin_ranking_loss(tensor([1.0]), tensor([3.0]), tensor([1.0]))
    tensor(2.)
    """
    word = reduction_word("margin_ranking_loss", reduction)
    return _ops["margin_ranking_loss"](input1, input2, target, margin, reduction=word)


def poisson_nll_loss(input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`nn.functional.poisson_nll_loss`.

    Args:
        input: logarithm of the rate, or the rate.
        target: counts.
        log_input: whether it is a logarithm.
        full: add Stirling's approximation of log(target!).
        eps: added to a rate before its logarithm is taken.
        reduction: 0 none, 1 mean, 2 sum.
    Returns:
        A tensor without dims, or of the losses with reduction 0.

    >>> dynograd.poisson_nll_loss(tensor([0.0]), tensor([2.0]), True, False, 1e-8, 1)
    tensor(1.)
    """
    word = reduction_word("poisson_nll_loss", reduction)
    return _ops["poisson_nll_loss"](input, target, log_input, full, None, eps, reduction=word)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """`nn.functional.triplet_margin_loss`.

    Args:
        anchor, positive, negative (N, D) or (D,): vectors; they broadcast.
        margin: how much farther than the positive the negative should be.
        p: of the norm.
        eps: added to each difference.
        swap: take the distance of positive and negative where it is smaller than that of anchor and negative.
        reduction: 0 none, 1 mean, 2 sum.
    Returns:
        A tensor without dims, or of the losses with reduction 0.

    >>> dynograd.triplet_margin_loss(tensor([[0.0]]), tensor([[1.0]]), tensor([[1.5]]))
    tensor(0.5000)
    """
    word = reduction_word("triplet_margin_loss", reduction)
    return _ops["triplet_margin_loss"](anchor, positive, negative, margin, p, eps, swap, reduction=word)
