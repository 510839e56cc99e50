"""The CTC loss of padded targets, forward and backward, on NumPy arrays; float32 and float64 are computed as what they are."""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers

_WORK = 32  # a state of a step costs as much as so many additions


def ctc_forward(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
    """(losses (N,), alphas, shifts, losses before zero_infinity): -log of the probability of all alignments of each target.

    log_probs (T, N, C), targets (N, S), lengths (N,); all lengths and labels are in their ranges.
    """
    from dynograd.kernels.loss import ctc_numba as compiled

    steps, count, _ = log_probs.shape
    width = -(-(targets.shape[1] + 1) // compiled.LANES) * compiled.LANES
    kept = buffers.empty((count, steps, 2, width), log_probs.dtype)
    shifts, losses = np.empty((count, steps), np.float64), np.empty(count, np.float64)
    compiled.alphas(
        *_rows(log_probs), *_integers(targets, input_lengths, target_lengths), blank, kept, shifts, losses,
        count=count, work=_WORK * kept.size,
    )  # fmt: skip
    result = np.empty(count, log_probs.dtype)
    compiled.narrow_losses(losses, bool(zero_infinity), result, count=count, work=count)
    return result, kept, shifts, losses


def ctc_backward(g, log_probs, targets, input_lengths, target_lengths, alphas, shifts, losses, blank, zero_infinity):
    """Gradient of log_probs, which are taken for the results of log_softmax: exp(log_probs) minus what the targets ask for."""
    from dynograd.kernels.loss import ctc_numba as compiled

    rows, time_step, row_step = _rows(log_probs)
    result = buffers.empty(rows.shape, log_probs.dtype)
    steps, count, classes = log_probs.shape
    compiled.gradients(
        np.ascontiguousarray(g, log_probs.dtype), rows, time_step, row_step,
        *_integers(targets, input_lengths, target_lengths), blank, alphas, shifts, losses, zero_infinity, result,
        count=count, work=_WORK * alphas.size + 8 * log_probs.size,
    )  # fmt: skip
    if time_step == 1:
        return result.reshape((count, steps, classes)).transpose(1, 0, 2)
    return result.reshape(log_probs.shape)


def places_in_rows(targets, lengths):
    """(N, S): where the labels of each row stand in `targets`, which lie behind one another; any place beyond a row's length."""
    starts = np.cumsum(lengths) - lengths
    return np.minimum(starts[:, None] + np.arange(max(lengths)), max(len(targets) - 1, 0))


def _rows(log_probs):
    """(rows, row step from one time to the next, from one sequence to the next), without a copy of batch-first memory."""
    steps, count, classes = log_probs.shape
    turned = log_probs.transpose(1, 0, 2)
    if not log_probs.flags.c_contiguous and turned.flags.c_contiguous:
        return turned.reshape(-1, classes), 1, steps
    return np.ascontiguousarray(log_probs).reshape(-1, classes), count, 1


def _integers(*arrays):
    return [np.ascontiguousarray(array, np.int64) for array in arrays]
