"""Fourier transforms, whose complex numbers are pairs in the last dim, and the matrix of mel filters."""

from __future__ import annotations

import math

import numpy

from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import Numbers, dtype_of, dynograd, number, tensor_of
from dynograd.tensor.tensor import Tensor


def _signal(x: Tensor) -> Tensor:
    """The numbers that stand as pairs, or alone, in the last dim."""
    return x[..., 0] if x.shape[-1] == 1 else dynograd.view_as_complex(x.contiguous())


def _transformed(signal: Tensor, length: int, axis: int, onesided: int) -> Tensor:
    spectrum = dynograd.fft.fft(signal, length, axis)
    if onesided:
        spectrum = spectrum.narrow(axis, 0, length // 2 + 1)
    return dynograd.view_as_real(spectrum)


@operator("DFT", since=20)
def dft(
    x: Tensor, length: Numbers | None = None, axis: Numbers | None = None, *, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return _dft(x, length, -2 if axis is None else int(number(axis)), inverse, onesided)


@operator("DFT", since=17)
def dft_17(x: Tensor, length: Numbers | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Tensor:
    return _dft(x, length, axis, inverse, onesided)


def _dft(x: Tensor, length: Numbers | None, axis: int, inverse: int, onesided: int) -> Tensor:
    axis %= x.ndim
    usual = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    size = usual if length is None else int(number(length))
    if not inverse:
        return _transformed(_signal(x), size, axis, onesided)
    if onesided:
        return dynograd.fft.irfft(_signal(x), size, axis)[..., None]
    return dynograd.view_as_real(dynograd.fft.ifft(_signal(x), size, axis))


@operator("STFT")
def stft(
    x: Tensor, step: Numbers, window: Tensor | None = None, length: Numbers | None = None, *, onesided: int = 1
) -> Tensor:
    size = int(number(length)) if length is not None else x.shape[1] if window is None else window.shape[0]
    frames = _signal(x).unfold(1, size, int(number(step)))
    return _transformed(frames if window is None else frames * window, size, 2, onesided)


@operator("MelWeightMatrix")
def mel_weight_matrix(
    bins: Numbers, length: Numbers, rate: Numbers, lowest: Numbers, highest: Numbers, *, output_datatype: int = 1
) -> Tensor:
    count, size = int(number(bins)), int(number(length))
    low, high = (2595 * math.log10(1 + number(edge) / 700) for edge in (lowest, highest))
    mels = low + numpy.arange(count + 2) * (high - low) / (count + 2)
    edges = ((size + 1) * 700 * (10 ** (mels / 2595) - 1) // number(rate)).astype(int)
    weights = numpy.zeros((size // 2 + 1, count))
    for column, (left, middle, right) in enumerate(zip(edges, edges[1:], edges[2:])):
        if left == middle:
            weights[middle, column] = 1
        else:
            weights[left : middle + 1, column] = (numpy.arange(left, middle + 1) - left) / (middle - left)
        if right > middle:
            weights[middle:right, column] = (right - numpy.arange(middle, right)) / (right - middle)
    return tensor_of(weights).to(dtype_of(output_datatype))
