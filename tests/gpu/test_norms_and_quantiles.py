"""Norms, powers, medians, modes and masks on the GPU against their CPU twins."""

from __future__ import annotations

from math import inf

import ml_dtypes
import numpy
import pytest

from dynograd.errors import IndexRangeError
from dynograd.kernels.build import faults_cuda
from dynograd.kernels.index import masks_cuda
from tests.gpu.twins import compared, on_device
from tests.gpu.values import numbers

bfloat16 = numpy.dtype(ml_dtypes.bfloat16)


def drawn(shape, kind="float32"):
    return numpy.asarray(numpy.asarray(numbers(0, shape) * 3).astype(kind))


@pytest.mark.parametrize("p", [0, 1, 2, 3, 0.5, -1, inf, -inf])
def test_vector_norm(p):
    for shape, dim, keepdim in [
        ((4, 6), 1, False),
        ((4, 6), 0, True),
        ((3, 4, 5), (0, 2), False),
        ((7,), None, False),
        ((), None, False),
    ]:
        for kind in ("float32", "float64", bfloat16):
            compared("norms", "vector_norm_forward", drawn(shape, kind), p, dim, keepdim, loose=2)
    x = drawn((3, 5))
    x[0, 1], x[1] = 0, 0
    compared("norms", "vector_norm_forward", x, p, 1, False, loose=2)


@pytest.mark.parametrize("p", [1, 2, inf])
def test_renorm(p):
    for kind in ("float32", "float64", bfloat16):
        compared("norms", "renorm", drawn((4, 3, 2), kind), p, (1, 2), 1.5)
        compared("norms", "renorm", drawn((4, 3), kind), p, (0,), 1.5)


@pytest.mark.parametrize("exponent", [-1, -0.5, 0, 0.5, 1, 2, 3])
def test_powers(exponent):
    x = drawn((3, 5))
    x[0, 1:3] = 0, numpy.nan
    for kind in ("float32", "float64", bfloat16):
        compared("norms", "absolute_power", x.astype(kind), exponent, loose=3)
        compared("norms", "signed_power", numpy.nan_to_num(x).astype(kind), exponent, loose=3)


@pytest.mark.parametrize(
    ("shape", "dim", "kind"),
    [((5, 2), 0, "float32"), ((1, 5, 2), 1, "int32"), ((7,), 0, bfloat16), ((), 0, "float32")],
    ids=str,
)
def test_median_and_mode(shape, dim, kind):
    x = numpy.asarray(numpy.round(drawn(shape)).astype(kind))
    compared("quantiles", "median", x, dim, False, False)
    compared("quantiles", "mode", x, dim, True)


def test_median_with_nan():
    x = numpy.round(drawn((4, 5)))
    x[0, 3], x[1, :3], x[2], x[3, 4] = numpy.nan, numpy.nan, numpy.nan, numpy.inf
    for ignore_nan in (False, True):
        compared("quantiles", "median", x, 1, False, ignore_nan)
    compared("quantiles", "mode", x, 1, False)


def test_whole_places():
    x = numpy.array([0.5, 1.5, 2.2, 3.7], "float64")
    for rounding in ("lower", "higher", "nearest"):
        compared("quantiles", "whole_places", x, rounding)


# --- masks ---------------------------------------------------------------------------------------------------------------------


def test_masks():
    lengths = numpy.array([3, 1, 0, 4])
    compared("masks", "length_mask", 4, lengths)
    for rows, columns in [(3, 5), (5, 3), (1, 1)]:
        compared("masks", "causal_mask", rows, columns)
    compared("masks", "class_mask", numpy.array([2, 0, 1]), 3)
    compared("masks", "above_minus_infinity", numpy.array([[0, -numpy.inf, 2]], "float32"))
    allowed = numpy.array([[True, False], [False, False]])
    compared("masks", "any_in_row", allowed)
    numpy.testing.assert_array_equal(masks_cuda.any_in_row(on_device(~allowed)).numpy(), [[True], [True]])


def test_multilabel_masks():
    target = numpy.array([[2, 0, -1, 1], [-1, 3, 3, 3], [0, 1, 2, 3], [1, 1, -1, -1]])
    compared("masks", "multilabel_masks", target)


@pytest.fixture
def clean_word():
    yield
    for kept in faults_cuda._words.values():
        kept.host.value = 0


@pytest.mark.usefixtures("clean_word")
def test_wrong_target(monkeypatch):
    right, wrong = numpy.array([0, 2, -100]), numpy.array([[0, 5], [-100, 1]])
    assert masks_cuda.wrong_target(on_device(right), 3, -100) is None
    assert masks_cuda.wrong_target(on_device(right[:0]), 3, -100) is None
    faults_cuda.check()
    assert masks_cuda.wrong_target(on_device(wrong), 3, -100) is None
    with pytest.raises(
        IndexRangeError, match="class numbers of a loss: index 5 is out of bounds for a dimension of size 3"
    ):
        faults_cuda.check()
    monkeypatch.setenv("DYNOGRAD_CUDA_SYNC", "1")
    assert masks_cuda.wrong_target(on_device(wrong), 3, -100) == (5, (0, 1))
