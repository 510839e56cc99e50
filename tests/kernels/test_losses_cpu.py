"""Loss kernels against row-by-row float64 sums and finite differences."""

import numpy as np
import pytest

from dynograd.kernels.build import threads
from dynograd.kernels.loss import losses_cpu


def reference(logits, target, weight, ignore_index, smoothing, reduction):
    if logits.ndim == 1:
        rows, labels = logits[None], target.reshape(1)
    else:
        rows, labels = np.moveaxis(logits, 1, -1).reshape(-1, logits.shape[1]), target.reshape(-1)
    weight = np.ones(rows.shape[1]) if weight is None else weight.astype(float)
    losses, total = np.zeros(len(rows)), 0.0
    for index, (row, label) in enumerate(zip(rows.astype(float), labels, strict=True)):
        if label == ignore_index:
            continue
        log_probability = row - row.max() - np.log(np.exp(row - row.max()).sum())
        losses[index] = -(1 - smoothing) * weight[label] * log_probability[label]
        losses[index] -= smoothing / len(row) * (weight * log_probability).sum()
        total += weight[label]
    if reduction == "none":
        return losses.reshape(target.shape)
    return losses.sum() / total if reduction == "mean" else losses.sum()


def differences(function, array, delta=1e-5):
    gradient = np.empty_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + delta
        above = function()
        array[index] = kept - delta
        gradient[index] = (above - function()) / (2 * delta)
        array[index] = kept
    return gradient


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(7, 3), (4,), (2, 3, 2, 2), (3, 100)])
def test_cross_entropy(shape, weighted, smoothing, reduction):
    random = np.random.default_rng(3)
    logits = random.normal(size=shape) * 2
    classes = shape[0] if len(shape) == 1 else shape[1]
    target = random.integers(classes, size=() if len(shape) == 1 else (shape[0], *shape[2:]))
    if target.ndim:
        target.reshape(-1)[1] = -5
    weight = random.uniform(0.5, 2, classes) if weighted else None
    options = weight, -5, smoothing, reduction
    expected = reference(logits, target, *options)
    g = random.normal(size=np.shape(expected))
    exact = differences(lambda: (g * reference(logits, target, *options)).sum(), logits)
    for dtype, tolerance in [(np.float64, 1e-7), (np.float32, 1e-5), (np.float16, 1e-2)]:
        narrow = logits.astype(dtype), target, None if weight is None else weight.astype(dtype)
        loss, statistics, total, _ = losses_cpu.cross_entropy_forward(*narrow, *options[1:])
        assert loss.dtype == dtype and loss.shape == np.shape(expected)
        np.testing.assert_allclose(loss, expected, rtol=tolerance, atol=tolerance)
        result = losses_cpu.cross_entropy_backward(
            g.astype(dtype) if np.ndim(g) else dtype(g), *narrow[:2], statistics, total, narrow[2], *options[1:]
        )
        assert result.dtype == dtype and result.shape == logits.shape
        np.testing.assert_allclose(result, exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(7, 3), (4,), (2, 3, 2, 2), (90, 100)])
def test_nll_loss_is_cross_entropy_of_log_probabilities(shape, reduction):
    random = np.random.default_rng(4)
    classes = shape[0] if len(shape) == 1 else shape[1]
    dim = 0 if len(shape) == 1 else 1
    logits = random.normal(size=shape)
    log_probabilities = logits - np.log(np.exp(logits).sum(dim, keepdims=True))
    target = random.integers(classes, size=() if len(shape) == 1 else (shape[0], *shape[2:]))
    if target.ndim:
        target.reshape(-1)[2] = -100
    weight = random.uniform(0.5, 2, classes)
    loss, total = losses_cpu.nll_loss_forward(log_probabilities, target, weight, -100, reduction)
    expected = reference(log_probabilities, target, weight, -100, 0.0, reduction)
    np.testing.assert_allclose(loss, expected, rtol=1e-12)
    g = random.normal(size=np.shape(expected))
    gradient = losses_cpu.nll_loss_backward(g, log_probabilities, target, total, weight, -100, reduction)
    assert gradient.shape == shape
    changed = log_probabilities + 1e-3 * random.normal(size=shape)
    moved, _ = losses_cpu.nll_loss_forward(changed, target, weight, -100, reduction)
    np.testing.assert_allclose((g * (moved - loss)).sum(), (gradient * (changed - log_probabilities)).sum(), rtol=1e-6)


@pytest.mark.parametrize("rows", [2, 200])
def test_nothing_counts(rows):
    logits = np.ones((rows, 5), np.float32)
    target = np.full(rows, -100)
    loss, statistics, total, _ = losses_cpu.cross_entropy_forward(logits, target, None, -100, 0.1, "mean")
    assert np.isnan(loss)
    gradient = losses_cpu.cross_entropy_backward(
        np.float32(1), logits, target, statistics, total, None, -100, 0.1, "mean"
    )
    assert not gradient.any()


@pytest.mark.parametrize("columns", [4, 400])
def test_huge_and_masked_logits(columns):
    logits = np.full((2, columns), -np.inf, np.float32)
    logits[:, 0], logits[:, 1] = 5e4, 5e4 + 1
    target = np.array([0, 1])
    loss, statistics, total, _ = losses_cpu.cross_entropy_forward(logits, target, None, -100, 0.0, "sum")
    np.testing.assert_allclose(loss, 2 * np.log(1 + np.e) - 1, rtol=1e-5)
    gradient = losses_cpu.cross_entropy_backward(
        np.float32(1), logits, target, statistics, total, None, -100, 0.0, "sum"
    )
    assert (gradient[:, 2:] == 0).all() and np.isfinite(gradient).all()


def test_empty_batch():
    logits, target = np.zeros((0, 5), np.float32), np.zeros(0, np.int64)
    assert losses_cpu.cross_entropy_forward(logits, target, None, -100, 0.0, "none")[0].shape == (0,)
    assert losses_cpu.cross_entropy_forward(logits, target, None, -100, 0.0, "sum")[0] == 0
    assert np.isnan(losses_cpu.nll_loss_forward(logits, target, None, -100, "mean")[0])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(300, 40), (4, 30, 7, 50), (3, 5, 600)])
def test_gradient_of_the_forward_pass_is_that_of_the_backward(shape, reduction):
    random = np.random.default_rng(6)
    logits = random.normal(size=shape).astype(np.float32)
    target = random.integers(shape[1], size=(shape[0], *shape[2:]))
    target.reshape(-1)[::7] = -1
    weight = random.uniform(0.5, 1, shape[1]).astype(np.float32)
    options = weight, -1, 0.1, reduction
    loss, statistics, total, gradient = losses_cpu.cross_entropy_forward(logits, target, *options, True)
    plain, _, _, nothing = losses_cpu.cross_entropy_forward(logits, target, *options)
    np.testing.assert_array_equal(loss, plain)
    assert nothing is None
    g = random.normal(size=np.shape(loss)).astype(np.float32)
    argument = logits, target, statistics, total, *options
    expected = losses_cpu.cross_entropy_backward(g, *argument)
    np.testing.assert_allclose(
        losses_cpu.cross_entropy_backward(g, *argument, gradient), expected, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("shape", [(3000, 40), (4, 30, 70, 50)])
def test_parts_change_no_bits(shape):
    random = np.random.default_rng(7)
    logits = random.normal(size=shape).astype(np.float32)
    target = random.integers(shape[1], size=(shape[0], *shape[2:]))
    before, results = threads.get_num_threads(), []
    for count in (1, 2):
        threads.set_num_threads(count)
        loss, statistics, total, gradient = losses_cpu.cross_entropy_forward(
            logits, target, None, -100, 0.1, "mean", True
        )
        argument = logits, target, statistics, total, None, -100, 0.1, "mean"
        results.append((loss, statistics, gradient, losses_cpu.cross_entropy_backward(np.float32(2), *argument)))
        results[-1] += losses_cpu.nll_loss_forward(logits, target, None, -100, "sum")
        results[-1] += (losses_cpu.nll_loss_backward(np.float32(1), logits, target, 1.0, None, -100, "sum"),)
    threads.set_num_threads(before)
    for element, other in zip(*results, strict=True):
        np.testing.assert_array_equal(element, other)


def test_nan_and_infinite_scores_stay_in_their_row():
    logits = np.zeros((4, 300), np.float32)
    logits[0, 5], logits[1, 5], logits[2] = np.nan, np.inf, -np.inf
    for scores in (logits, np.ascontiguousarray(np.stack([logits, logits], axis=2))):
        target = np.zeros((4, *scores.shape[2:]), np.int64)
        loss, _, _, gradient = losses_cpu.cross_entropy_forward(scores, target, None, -100, 0.0, "none", True)
        assert np.isnan(loss[:3]).all() and np.isfinite(loss[3]).all()
        assert np.isnan(gradient[0]).all() and np.isfinite(gradient[3]).all()
