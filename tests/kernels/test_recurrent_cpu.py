"""Recurrent kernels against per-row, per-step float64 loops and finite differences."""

import numpy as np
import pytest

from dynograd.kernels.build import threads
from dynograd.kernels.recurrent import recurrent_cpu

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}


def logistic(x):
    return 1 / (1 + np.exp(-x))


def step(kind, x, h, c, w_ih, w_hh, b_ih, b_hh):
    from_input = w_ih @ x + (0 if b_ih is None else b_ih)
    from_hidden = w_hh @ h + (0 if b_hh is None else b_hh)
    if kind == "lstm":
        i, f, g, o = np.split(from_input + from_hidden, 4)
        c = logistic(f) * c + logistic(i) * np.tanh(g)
        return logistic(o) * np.tanh(c), c
    if kind == "gru":
        (ri, zi, ni), (rh, zh, nh) = np.split(from_input, 3), np.split(from_hidden, 3)
        n = np.tanh(ni + logistic(ri + rh) * nh)
        z = logistic(zi + zh)
        return (1 - z) * n + z * h, c
    total = from_input + from_hidden
    return (np.tanh(total) if kind == "tanh" else np.maximum(total, 0)), c


def reference(kind, x, h0, c0, weights, lengths, reverse):
    time, batch, _ = x.shape
    y = np.zeros((time, batch, h0.shape[1]))
    h_n, c_n = h0.copy(), c0.copy()
    for row in range(batch):
        length = time if lengths is None else lengths[row]
        for t in reversed(range(length)) if reverse else range(length):
            h_n[row], c_n[row] = step(kind, x[t, row], h_n[row], c_n[row], *weights)
            y[t, row] = h_n[row]
    return y, h_n, c_n


def make(kind, time=5, batch=4, inputs=3, hidden=2, bias=True, dtype=np.float64, seed=0):
    random = np.random.default_rng(seed)
    gates = GATES[kind] * hidden
    x = random.normal(size=(time, batch, inputs)).astype(dtype)
    h0, c0 = random.normal(size=(2, batch, hidden)).astype(dtype)
    w_ih, w_hh = (random.normal(size=(gates, width)).astype(dtype) for width in (inputs, hidden))
    b_ih, b_hh = random.normal(size=(2, gates)).astype(dtype) if bias else (None, None)
    return x, h0, c0, (w_ih, w_hh, b_ih, b_hh)


def forward(kind, x, h0, c0, weights, lengths, reverse):
    if kind == "lstm":
        return recurrent_cpu.lstm_forward(x, h0, c0, *weights, lengths, reverse)
    if kind == "gru":
        y, h_n, reserve = recurrent_cpu.gru_forward(x, h0, *weights, lengths, reverse)
    else:
        y, h_n, reserve = recurrent_cpu.rnn_forward(x, h0, *weights, kind, lengths, reverse)
    return y, h_n, c0, reserve


def backward(kind, gy, gh, gc, x, h0, c0, weights, reserve):
    w_ih, w_hh = weights[:2]
    if kind == "lstm":
        return recurrent_cpu.lstm_backward(gy, gh, gc, x, h0, c0, w_ih, w_hh, reserve)
    function = recurrent_cpu.gru_backward if kind == "gru" else recurrent_cpu.rnn_backward
    gx, gh0, *rest = function(gy, gh, x, h0, w_ih, w_hh, reserve)
    return (gx, gh0, np.zeros_like(c0), *rest)


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


@pytest.mark.parametrize("lengths", [None, [5, 5, 3, 1], [2, 0, 5, 4], [0, 0, 0, 0]])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", GATES)
def test_forward_and_gradients(kind, reverse, lengths):
    x, h0, c0, weights = make(kind)
    lengths = None if lengths is None else np.array(lengths)
    y, h_n, c_n, reserve = forward(kind, x, h0, c0, weights, lengths, reverse)
    expected = reference(kind, x, h0, c0, weights, lengths, reverse)
    for actual, target in zip((y, h_n, c_n), expected, strict=True):
        if kind == "lstm" or target is not expected[2]:
            np.testing.assert_allclose(actual, target, rtol=1e-12, atol=1e-12)
    random = np.random.default_rng(9)
    gy, gh, gc = (random.normal(size=array.shape) for array in expected)
    if kind != "lstm":
        gc = np.zeros_like(gc)

    def loss():
        results = reference(kind, x, h0, c0, weights, lengths, reverse)
        return sum((g * result).sum() for g, result in zip((gy, gh, gc), results, strict=True))

    gradients = backward(kind, gy, gh, gc, x, h0, c0, weights, reserve)
    for actual, argument in zip(gradients, (x, h0, c0, *weights), strict=True):
        np.testing.assert_allclose(actual, differences(loss, argument), rtol=1e-5, atol=1e-7)
    again = backward(kind, gy, gh, gc, x, h0, c0, weights, reserve)
    for first, second in zip(gradients, again, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kind", GATES)
def test_without_bias_and_missing_gradients(kind):
    x, h0, c0, weights = make(kind, bias=False)
    y, h_n, _c_n, reserve = forward(kind, x, h0, c0, weights, None, False)
    np.testing.assert_allclose(y, reference(kind, x, h0, c0, weights, None, False)[0], rtol=1e-12, atol=1e-12)
    zeros = backward(kind, np.zeros_like(y), np.ones_like(h_n), np.zeros_like(c0), x, h0, c0, weights, reserve)
    missing = backward(kind, None, np.ones_like(h_n), None, x, h0, c0, weights, reserve)
    for result, expected in zip(missing, zeros, strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float16, 2e-2)])
@pytest.mark.parametrize("kind", GATES)
def test_narrow_types_follow_float64(kind, dtype, tolerance):
    x, h0, c0, weights = make(kind, 6, 5, 7, 33, dtype=dtype)
    weights = tuple(weight * dtype(0.3) for weight in weights)
    wide = x.astype(float), h0.astype(float), c0.astype(float), tuple(weight.astype(float) for weight in weights)
    lengths = np.array([3, 6, 1, 0, 4])
    y, h_n, c_n, reserve = forward(kind, x, h0, c0, weights, lengths, False)
    wide_y, wide_h, wide_c, wide_reserve = forward(kind, *wide, lengths, False)
    assert y.dtype == h_n.dtype == dtype
    for result, expected in zip((y, h_n, c_n), (wide_y, wide_h, wide_c), strict=True):
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    ones = np.ones_like(y), np.ones_like(h_n), np.zeros_like(c_n)
    gradients = backward(kind, *ones, x, h0, c0, weights, reserve)
    expected = backward(kind, *(element.astype(float) for element in ones), *wide, wide_reserve)
    for result, exact in zip(gradients, expected, strict=True):
        assert result.dtype == dtype
        np.testing.assert_allclose(result, exact, rtol=tolerance, atol=tolerance * (1 + np.abs(exact).max()))


def test_strided_input_and_empty_batch():
    x, h0, c0, weights = make("lstm")
    batch_first = np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2)
    first = forward("lstm", x, h0, c0, weights, None, True)
    second = forward("lstm", batch_first, h0[::-1][::-1], c0, weights, None, True)
    np.testing.assert_array_equal(first[0], second[0])
    y, h_n, _c_n, reserve = forward("lstm", x[:, :0], h0[:0], c0[:0], weights, None, False)
    assert y.shape == (5, 0, 2) and h_n.shape == (0, 2)
    gradients = backward("lstm", y, h_n, h_n, x[:, :0], h0[:0], c0[:0], weights, reserve)
    assert not gradients[3].any()


def test_padding_is_never_read_and_outputs_are_not_shared():
    x, h0, c0, weights = make("lstm")
    lengths = np.array([2, 5, 0, 4])
    clean = forward("lstm", x, h0, c0, weights, lengths, False)
    for row, length in enumerate(lengths):
        x[length:, row] = np.nan
    dirty = forward("lstm", x, h0, c0, weights, lengths, False)
    np.testing.assert_array_equal(clean[0], dirty[0])
    ones = np.ones_like(clean[0])
    before = recurrent_cpu.lstm_backward(ones, None, None, x, h0, c0, *weights[:2], dirty[3])
    for result in dirty[:3]:
        result[...] = 7
    after = recurrent_cpu.lstm_backward(ones, None, None, x, h0, c0, *weights[:2], dirty[3])
    for first, second in zip(before, after, strict=True):
        np.testing.assert_array_equal(first, second)
        assert np.isfinite(first).all()


def everything(kind, x, h0, c0, weights, lengths, reverse):
    """Results, then gradients for fixed incoming ones."""
    y, h_n, c_n, reserve = forward(kind, x, h0, c0, weights, lengths, reverse)
    random = np.random.default_rng(5)
    incoming = [random.normal(size=element.shape).astype(x.dtype) for element in (y, h_n, c_n)]
    return [y, h_n, c_n], backward(kind, *incoming, x, h0, c0, weights, reserve)


@pytest.fixture
def two_threads():
    before = threads.get_num_threads()
    threads.set_num_threads(2)
    yield
    threads.set_num_threads(before)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", GATES)
def test_packed_tokens_are_the_real_ones_of_padded(kind, reverse):
    x, h0, c0, weights = make(kind, batch=5)
    lengths = np.array([5, 4, 4, 1, 0])
    real = np.arange(5)[:, None] < lengths
    y, h_n, c_n, reserve = forward(kind, x, h0, c0, weights, lengths, reverse)
    packed = forward(kind, x[real], h0, c0, weights, lengths, reverse)
    for results, expected in zip(packed[:3], (y[real], h_n, c_n), strict=True):
        np.testing.assert_array_equal(results, expected)
    gy = np.random.default_rng(3).normal(size=y.shape)
    expected = backward(kind, gy, h_n, c_n, x, h0, c0, weights, reserve)
    results = backward(kind, gy[real], h_n, c_n, x[real], h0, c0, weights, packed[3])
    np.testing.assert_array_equal(results[0], expected[0][real])
    for element, other in zip(results[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(element, other)


@pytest.mark.parametrize("kind", GATES)
def test_batch_first_memory_is_used_as_it_lies(kind):
    x, h0, c0, weights = make(kind)
    rows = np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2)
    results, gradients = everything(kind, x, h0, c0, weights, None, False)
    outcomes, found_gradients = everything(kind, rows, h0, c0, weights, None, False)
    for element, other in zip([*outcomes, *found_gradients[:3]], [*results, *gradients[:3]], strict=True):
        np.testing.assert_array_equal(element, other)
    for element, other in zip(found_gradients[3:], gradients[3:], strict=True):
        np.testing.assert_allclose(element, other, rtol=1e-12)  # the same sums over tokens in another order
    assert (
        outcomes[0].transpose(1, 0, 2).flags.c_contiguous and found_gradients[0].transpose(1, 0, 2).flags.c_contiguous
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lengths", [None, [7, 7, 7, 6, 6, 5, 5, 4, 1]])
@pytest.mark.parametrize("kind", GATES)
def test_threads_do_not_change_bits(kind, lengths, dtype, two_threads):
    x, h0, c0, weights = make(kind, 7, 9, 33, {"lstm": 80, "gru": 88}.get(kind, 152), dtype=dtype)
    weights = tuple(weight * dtype(0.1) for weight in weights)
    lengths = None if lengths is None else np.array(lengths)
    layout = recurrent_cpu._layout(x, lengths, False)
    assert layout.groups(GATES[kind], h0.shape[1]) == 2
    parallel, parallel_gradients = everything(kind, x, h0, c0, weights, lengths, True)
    threads.set_num_threads(1)
    assert layout.groups(GATES[kind], h0.shape[1]) == 1
    serial, serial_gradients = everything(kind, x, h0, c0, weights, lengths, True)
    for element, other in zip([*parallel, *parallel_gradients], [*serial, *serial_gradients], strict=True):
        np.testing.assert_array_equal(element, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", GATES)
def test_rows_do_not_depend_on_their_neighbours(kind, dtype):
    x, h0, c0, weights = make(kind, 6, 13, 21, 37, dtype=dtype)
    lengths = np.array([6, 3, 5, 1, 2, 6, 4, 4, 6, 0, 2, 3, 6])
    together = forward(kind, x, h0, c0, weights, lengths, False)[:3]
    for row in range(13):
        only = slice(row, row + 1)
        alone = forward(kind, x[:, only].copy(), h0[only], c0[only], weights, lengths[only], False)[:3]
        np.testing.assert_array_equal(alone[0][:, 0], together[0][:, row])
        np.testing.assert_array_equal(alone[1][0], together[1][row])
        if kind == "lstm":
            np.testing.assert_array_equal(alone[2][0], together[2][row])


@pytest.mark.parametrize("kind", GATES)
def test_no_steps_leave_the_states(kind):
    x, h0, c0, weights = make(kind, time=0)
    (y, h_n, _), gradients = everything(kind, x, h0, c0, weights, None, False)
    assert y.shape == (0, 4, 2)
    np.testing.assert_array_equal(h_n, h0)
    assert gradients[0].shape == x.shape and not any(gradient.any() for gradient in gradients[3:])


@pytest.mark.parametrize("kind", GATES)
def test_nan_stays_in_its_row(kind):
    x, h0, c0, weights = make(kind, batch=9)
    x[1, 4] = np.nan
    y = forward(kind, x, h0, c0, weights, None, False)[0]
    assert np.isnan(y[1:, 4]).all() and np.isfinite(y[:1]).all()
    assert np.isfinite(np.delete(y, 4, axis=1)).all()
