"""The CTC loss: how improbable a target is, over all its alignments with a sequence.

`ctc_losses` is a fused op on padded targets (`kernels/loss/ctc_cpu.py`); its `decomposition` is the same recursion step by step, from
which gradients of second order and forward mode come. Shapes: T time, N sequences, C classes, S labels of the longest target.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.values import has_own_values, has_values, read_values
from dynograd.errors import DtypeError, IndexRangeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.elementwise.choices import choose
from dynograd.ops.elementwise.exponentials import exp, logaddexp
from dynograd.ops.index.indexing import get_advanced, get_basic
from dynograd.ops.index.scatters import gathered
from dynograd.ops.layout.broadcasting import convert, stretch
from dynograd.ops.layout.paddings import pad_constant
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.ops.loss.losses import reduced, reduction_of
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.precisions import check_floating, narrowed, widened
from dynograd.ops.recurrent.recurrences import _alive
from dynograd.ops.reduce.reductions import sum as sum_dims
from dynograd.ops.row import Row

__all__ = ["ctc_loss"]

FAMILY = Row(out=None)

_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}
_LOWEST = -1e30  # stands for log(0) in the decomposition: derivatives of -inf would be NaN


@op(extras="alphas shifts exact", inner=True, bound=True)
def ctc_losses(
    log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int, zero_infinity: bool
) -> Array:
    """The CTC loss of each of N sequences.

    Args:
        log_probs (T, N, C): results of log_softmax, in float32 or float64.
        targets (N, S), input_lengths (N,), target_lengths (N,): int64, in their ranges; labels beyond a target's length too.
    """
    forward = kernel("ctc", "ctc_forward", log_probs)
    loss, *extras = forward(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    return loss, *extras


@ctc_losses.fast_backward
def ctc_fast_backward(g: Any, saved: Any, blank: Any, zero_infinity: Any) -> Gradients:
    operands = saved.log_probs, saved.targets, saved.input_lengths, saved.target_lengths
    backward = kernel("ctc", "ctc_backward", saved.log_probs)
    result = backward(g, *operands, saved.alphas, saved.shifts, saved.exact, blank, zero_infinity)
    return (result, None, None, None)


@ctc_losses.decomposition
def ctc_decomposition(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, zero_infinity: bool
) -> Array:
    steps, count, _ = log_probs.shape
    width = targets.shape[1]
    alive = _alive(input_lengths, steps)
    finite = choose(log_probs > _LOWEST, log_probs, _LOWEST)
    silent = get_basic(finite, (slice(None), slice(None), slice(blank, blank + 1)))
    blanks = pad_constant(get_basic(silent, (0,)), ((0, 0), (0, width)), _LOWEST)
    if width:
        places = stretch(reshaped(targets, (1, count, width)), (steps, count, width))
        emitted = gathered(finite, 2, places)
        labels = pad_constant(get_basic(emitted, (0, slice(None), slice(0, 1))), ((0, 0), (0, width - 1)), _LOWEST)
        needed = (FULL, slice(1, None)), (FULL, slice(0, width - 1))
        same = get_basic(targets, needed[0]) == get_basic(targets, needed[1])
        stay = pad_constant(convert(same, _kind_of(log_probs)) * _LOWEST, ((0, 0), (1, 0)), _LOWEST)
    for t in range(1, steps):
        now = get_basic(alive, (t,)) if not has_values(alive) else alive[t]
        moved_blanks = blanks
        if width:
            before = pad_constant(labels, ((0, 0), (1, 0)), _LOWEST)
            moved_blanks = logaddexp(blanks, before)
            both = logaddexp(labels, get_basic(blanks, (FULL, slice(0, width))))
            skipped = get_basic(before, (FULL, slice(0, width))) + stay
            labels = choose(now, logaddexp(both, skipped) + get_basic(emitted, (t,)), labels)
        blanks = choose(now, moved_blanks + get_basic(silent, (t,)), blanks)
    rows = reshaped(target_lengths, (count, 1))
    ended = gathered(blanks, 1, rows)
    if width:
        last = gathered(labels, 1, choose(rows > 0, rows - 1, 0))
        ended = choose(rows > 0, logaddexp(ended, last), ended)
    loss = reshaped(-ended, (count,))
    loss = choose(input_lengths > 0, loss, choose(target_lengths > 0, -_LOWEST, loss * 0))
    impossible = loss > -0.5 * _LOWEST
    # PyTorch's convention: log_probs are results of log_softmax, so that the sum of their exponentials, which stays 1, may be added.
    total = sum_dims(choose(alive, exp(log_probs), 0.0), (0, 2), False)
    loss = loss + (total - total.detach())
    return choose(impossible, 0.0 if zero_infinity else float("inf"), loss)


@composed(functional=True, cast={"cpu": "wide"})
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any = None,
    target_lengths: Any = None,
    blank: int = 0,
    reduction: Any = "mean",
    zero_infinity: bool = False,
) -> Array:
    """-log of the probability of `targets`, summed over all alignments with the sequence: connectionist temporal classification.

    An alignment names a class or `blank` in every step; leaving out blanks and repetitions gives the target. The gradient is that
    of PyTorch: right when `log_probs` come from log_softmax.

    Args:
        log_probs (T, N, C) or (T, C): logarithms of probabilities, as log_softmax gives them.
        targets: (N, S), padded with anything; or all targets behind one another in one dim. Class numbers. (S,) for (T, C).
        input_lengths, target_lengths: N numbers each: a tensor, a list or tuple; a number for (T, C). Left out for ragged ones.
        blank: the class that means no label.
        reduction: "mean" (each loss divided by its target's length first), "sum" or "none".
        zero_infinity: targets without any alignment (longer than their sequence) lose 0 and have gradient 0, not inf and NaN.
    Returns:
        A tensor without dims, or of the losses with `reduction="none"`.
    Raises:
        ShapeError: arguments that do not fit each other.
        IndexRangeError: a length or label outside its range.
    Source: Graves et al., Connectionist temporal classification, 2006, equations 6 to 16.

    >>> log_probs = dynograd.zeros(2, 1, 2).log_softmax(2)
    >>> dynograd.nn.functional.ctc_loss(log_probs, tensor([[1]]), (2,), (1,)).exp()
    tensor(1.3333)
    """
    who = "ctc_loss"
    reduction = reduction_of(who, None, None, _REDUCTIONS.get(reduction, reduction))
    check_floating(who, log_probs)
    if input_lengths is None or target_lengths is None:
        missing = "input_lengths" if input_lengths is None else "target_lengths"
        raise TypeError(f"{who}: missing argument {missing!r}: only rows of ragged tensors have lengths of their own.")
    rank = len(log_probs.shape)
    if rank not in (2, 3):
        raise ShapeError(
            f"{who}: expected log_probs (T, N, C), or (T, C) of one sequence, got shape {tuple(log_probs.shape)}. Time comes first: "
            f"use log_probs.transpose(0, 1) for (N, T, C)."
        )
    if not getattr(log_probs, "array", log_probs).size:
        raise ShapeError(f"{who}: log_probs tensor must not be empty, got shape {tuple(log_probs.shape)}.")
    single = rank == 2
    if single:
        log_probs = reshaped(log_probs, (log_probs.shape[0], 1, log_probs.shape[1]))
    steps, count, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise IndexRangeError(
            f"{who}: blank must be in label range: expected 0 to {classes - 1} ({classes} classes), got {blank}."
        )
    place = arrays.place_of(getattr(log_probs, "array", log_probs))
    inputs = _lengths("input_lengths", input_lengths, count, place)
    lengths = _lengths("target_lengths", target_lengths, count, place)
    _check_lengths("input_lengths", inputs, steps, f"log_probs of shape {tuple(log_probs.shape)} has {steps} steps")
    labels = _padded(targets, lengths, count, single)
    width = labels.shape[1]
    _check_lengths(
        "target_lengths", lengths, width, f"targets of shape {tuple(targets.shape)} has {width} labels a row"
    )
    if width:
        inside = permuted(reshaped(_alive(lengths, width), (width, count)), (1, 0))
        labels = choose(inside, labels, blank)
        _check_labels(labels, classes)
    losses = ctc_losses(widened(log_probs), labels, inputs, lengths, int(blank), bool(zero_infinity))
    if reduction == "mean":
        losses = losses / choose(lengths > 1, lengths, 1)
    if reduction == "none" and single:
        losses = reshaped(losses, ())
    return narrowed(reduced(losses, reduction), log_probs)


# --- arguments -----------------------------------------------------------------------------------------------------------------

FULL = slice(None)


def _kind_of(x: Any) -> dtypes.dtype:
    return dtypes.of_array(getattr(x, "array", x))


def _lengths(name: str, lengths: Any, count: int, place: Any) -> Array:
    """`count` lengths as int64 (N,), where log_probs are."""
    if not hasattr(lengths, "shape"):
        lengths = [lengths] if isinstance(lengths, int) else list(lengths)
        array = arrays.from_python(lengths, None if lengths else dtypes.int64)
    else:
        array = getattr(lengths, "array", lengths)
    if array.dtype.kind not in "iu":
        raise DtypeError(
            f"ctc_loss: {name} must be integral: expected a tensor of integers or a tuple of ints, got {dtypes.of_array(array)}. Use .long()."
        )
    if array.size != count:
        raise ShapeError(
            f"ctc_loss: {name} must be of size batch_size: expected {count} lengths, one for each sequence, got {array.size}."
        )
    if not has_own_values(lengths) and arrays.place_of(array) == place:
        return convert(reshaped(lengths, (count,)), dtypes.int64)
    return arrays.to_device(arrays.cast(array.reshape((count,)), dtypes.int64), place)


def _check_lengths(name: str, lengths: Any, most: int, why: str) -> None:
    array = arrays.all_values(getattr(lengths, "array", lengths))
    wrong = kernel("indexing", "out_of_range", array)(array, 0, most + 1, f"ctc_loss: {name}")
    if wrong is not None:
        raise IndexRangeError(
            f"ctc_loss: Expected {name} to have value at least 0 and at most {most}, but got value {wrong[0]} (at position "
            f"{wrong[1][-1]}): {why}."
        )


def _check_labels(labels: Any, classes: int) -> None:
    array = arrays.all_values(getattr(labels, "array", labels))
    wrong = kernel("indexing", "out_of_range", array)(array, 0, classes, "ctc_loss: targets")
    if wrong is not None:
        raise IndexRangeError(
            f"ctc_loss: target {wrong[0]} (sequence {wrong[1][-2]}, label {wrong[1][-1]}) is no class number: log_probs has {classes} "
            f"classes (0 to {classes - 1})."
        )


def _padded(targets: Any, lengths: Any, count: int, single: bool) -> Array:
    """Targets as int64 (N, S)."""
    array = getattr(targets, "array", targets)
    targets = targets if array.dtype.num == dtypes.int64.num else convert(targets, dtypes.int64)
    if array.ndim == 2 and array.shape[0] == count:
        return targets
    if array.ndim == 1:
        return reshaped(targets, (1, -1)) if single else _of_flat(targets, lengths)
    raise ShapeError(
        f"ctc_loss: expected targets of shape ({count}, S), a row for each of {count} sequences, or in one dim, behind one another, got "
        f"{tuple(array.shape)}."
    )


@read_values
def _of_flat(targets: Any, lengths: Any) -> Array:
    array, lengths = getattr(targets, "array", targets), getattr(lengths, "array", lengths)
    operands = [int(length) for length in lengths.tolist()]
    if sum(operands) != array.shape[0] or min(operands) < 0:
        raise ShapeError(
            f"ctc_loss: Expected targets in one dim to have size {sum(operands)}, the sum of target_lengths {operands}, but got size "
            f"{array.shape[0]}. Pass targets as (N, S) where they are padded."
        )
    return get_advanced(targets, [kernel("ctc", "places_in_rows", array)(array, operands)], (0,))
