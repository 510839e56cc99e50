"""Recurrent layers on the GPU against the CPU kernels on the same numbers in float64."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from dynograd.arrays.cuda_arrays import CudaArray, from_numpy
from dynograd.kernels.recurrent import recurrent_cpu, recurrent_cuda
from tests.gpu.values import close, numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def compute(module, kind, arrays, lengths, reverse, nonlinearity):
    """Everything that forward and backward return, in order; (y, states..., gradients...)."""
    x, h0, c0, w_ih, w_hh, b_ih, b_hh, gy, gh, gc = arrays
    if kind == "lstm":
        y, h, c, reserve = module.lstm_forward(x, h0, c0, w_ih, w_hh, b_ih, b_hh, lengths, reverse)
        return (y, h, c, *module.lstm_backward(gy, gh, gc, x, h0, c0, w_ih, w_hh, reserve))
    if kind == "gru":
        y, h, reserve = module.gru_forward(x, h0, w_ih, w_hh, b_ih, b_hh, lengths, reverse)
        return (y, h, *module.gru_backward(gy, gh, x, h0, w_ih, w_hh, reserve))
    y, h, reserve = module.rnn_forward(x, h0, w_ih, w_hh, b_ih, b_hh, nonlinearity, lengths, reverse)
    return (y, h, *module.rnn_backward(gy, gh, x, h0, w_ih, w_hh, reserve))


def check(
    kind, time=4, batch=3, inputs=5, hidden=6, lengths=None, packed=False, reverse=False, bias=True, given=True, dtype="float32",
    layout="steps", nonlinearity="tanh",
):  # fmt: skip
    gates = GATES[kind] * hidden
    tokens = (sum(lengths),) if packed else (time, batch)
    shapes = [(*tokens, inputs), (batch, hidden), (batch, hidden), (gates, inputs), (gates, hidden), (gates,), (gates,)]
    shapes += [(*tokens, hidden), (batch, hidden), (batch, hidden)]
    arrays = [0.6 * numbers(seed, shape, "float64") for seed, shape in enumerate(shapes)]
    arrays = [array.astype(dtype) for array in arrays]
    if not bias:
        arrays[5] = arrays[6] = None
    if not given:
        arrays[7] = arrays[8] = None
    known = None if lengths is None else numpy.array(lengths)
    wide = [None if array is None else array.astype("float64") for array in arrays]
    expected = compute(recurrent_cpu, kind, wide, known, reverse, nonlinearity)
    if lengths is not None and not packed:
        arrays[0][numpy.arange(time)[:, None] >= known] = numpy.nan  # padding is not read
    on = [None if array is None else from_numpy(array, 0) for array in arrays]
    if layout == "rows":
        for place in (0, 7):
            on[place] = from_numpy(numpy.ascontiguousarray(arrays[place].transpose(1, 0, 2)), 0).transpose(1, 0, 2)
    given_lengths = None if known is None else from_numpy(known, 0)
    results = compute(recurrent_cuda, kind, on, given_lengths, reverse, nonlinearity)
    for element, two in zip(results, expected, strict=True):
        assert isinstance(element, CudaArray) and element.dtype == numpy.dtype(dtype)
        close(element, two, dtype)
    if layout == "rows":
        assert results[0].transpose(1, 0, 2).is_contiguous


ROWS = {
    "plain": dict(),
    "reverse": dict(reverse=True),
    "lengths": dict(lengths=[2, 4, 0]),
    "lengths, reverse": dict(lengths=[3, 0, 4], reverse=True),
    "packed": dict(lengths=[4, 2, 1], packed=True),
    "packed, reverse": dict(lengths=[4, 2, 2, 0], batch=4, packed=True, reverse=True),
    "batch first": dict(layout="rows"),
    "batch first, lengths": dict(layout="rows", lengths=[1, 4, 2]),
    "no biases, no gradient of the outputs": dict(bias=False, given=False),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kind", GATES)
def test_layers(kind, name):
    check(kind, **ROWS[name])


@pytest.mark.parametrize("name", ["plain", "lengths, reverse", "packed"])
@pytest.mark.parametrize("kind", GATES)
def test_a_launch_for_each_step(kind, name, monkeypatch):
    monkeypatch.setattr(recurrent_cuda, "_NEAR_BYTES", 0)
    check(kind, **{"hidden": 20, **ROWS[name]})


@pytest.mark.parametrize("dtype", ["float64", "float16", bfloat16], ids=str)
@pytest.mark.parametrize("kind", GATES)
def test_dtypes(kind, dtype):
    check(kind, time=3, hidden=8, dtype=dtype)


@pytest.mark.parametrize("batch", [20, 40, 70])
def test_blocks_of_rows(batch, monkeypatch):
    monkeypatch.setattr(recurrent_cuda, "_NEAR_BYTES", 0)
    check("lstm", time=2, batch=batch, hidden=17)


def test_whole_tiles():
    check("lstm", time=2, hidden=64, dtype="float16")
    check("gru", time=2, hidden=32)


def test_relu():
    check("rnn", nonlinearity="relu")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)], ids=str)
def test_no_steps_or_rows(shape):
    check("lstm", time=shape[0], batch=shape[1])


def test_backward_leaves_the_reserve_as_it_was():
    x, h, w_ih, w_hh, g = (
        from_numpy(numbers(i, s), 0) for i, s in enumerate([(3, 2, 4), (2, 5), (15, 4), (15, 5), (3, 2, 5)])
    )
    reserve = recurrent_cuda.gru_forward(x, h, w_ih, w_hh, None, None)[-1]
    element, two = (
        recurrent_cuda.gru_backward(g, None, x, h, w_ih, w_hh, reserve, input_gradient=False) for _ in range(2)
    )
    assert element[0] is None
    for first, second in zip(element[1:], two[1:], strict=True):
        numpy.testing.assert_array_equal(first.numpy(), second.numpy())
