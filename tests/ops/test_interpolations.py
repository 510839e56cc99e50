"""Resizing of the last dims."""

import math

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate


def cubic(distance, a=-0.75):
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def matrix(size, count, mode, align_corners, step):
    """What each output place takes of each input place."""
    result = numpy.zeros((count, size))
    for place in range(count):
        if mode in ("nearest", "nearest-exact"):
            shift = 0.5 if mode == "nearest-exact" else 0.0
            result[place, min(math.floor((place + shift) * step), size - 1)] += 1
            continue
        if align_corners:
            source = place * (size - 1) / (count - 1) if count > 1 else 0.0
        else:
            source = (place + 0.5) * step - 0.5
        if mode == "bicubic":
            for tap in range(math.floor(source) - 1, math.floor(source) + 3):
                result[place, min(max(tap, 0), size - 1)] += cubic(source - tap)
        else:
            source = max(source, 0.0)
            first = min(math.floor(source), size - 1)
            result[place, first] += 1 - (source - first)
            result[place, min(first + 1, size - 1)] += source - first
    return result


def windowed_sinc(away):
    return numpy.sinc(away) * numpy.sinc(away / 3) if abs(away) < 3 else 0.0


FILTERS = {
    "bicubic": lambda away: cubic(away, -0.5),
    "bilinear": lambda away: max(1 - abs(away), 0),
    "lanczos": windowed_sinc,
}


def filtered(size, count, mode, align_corners, step):
    """What each output place takes of each input place where a filter as wide as the step goes over the input."""
    if align_corners:
        step = (size - 1) / (count - 1) if count > 1 else 0.0
    wide = max(step, 1.0)
    result = numpy.zeros((count, size))
    for place in range(count):
        for number in range(size):
            away = (number + 0.5 - step * (place + 0.5)) / wide
            result[place, number] = FILTERS[mode](away)
    return result / result.sum(1, keepdims=True)


def np_interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    rank = input.ndim - 2
    out = input
    for place, own in enumerate(input.shape[2:]):
        if size is not None:
            count = size if isinstance(size, int) else size[place]
            step = own / count
        else:
            factor = scale_factor[place] if isinstance(scale_factor, tuple) else scale_factor
            count = math.floor(own * factor)
            step = own / count if recompute_scale_factor else 1 / factor
        if mode == "area":
            weights = numpy.zeros((count, own))
            for i in range(count):
                weights[i, i * own // count : -(-(i + 1) * own // count)] = 1
            weights /= weights.sum(1, keepdims=True)
        else:
            weights = (filtered if antialias else matrix)(own, count, mode, align_corners, step)
        out = numpy.moveaxis(numpy.moveaxis(out, place + 2, -1) @ weights.T, -1, place + 2)
    assert rank > 0
    return out


x = dynograd.zeros(1, 2, 4, 6)
CHOICES = [
    {"scale_factor": 2},
    {"size": (5, 3)},
    {"scale_factor": (1.5, 0.6)},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
]
ROWS = [
    *[
        Row(
            "nn.functional.interpolate",
            np_interpolate,
            shapes=[(1, 2, 3, 4)],
            kwargs={"mode": mode, **kwargs},
            id=f"{mode}-{kwargs}",
            ones=False,
            empty=False,
            tolerance=4,
        )
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")
        for kwargs in CHOICES
    ],
    *[
        Row(
            "nn.functional.interpolate",
            np_interpolate,
            shapes=[(1, 2, 3, 4)],
            kwargs={"mode": mode, "align_corners": True, **kwargs},
            id=f"{mode}-corners-{kwargs}",
            ones=False,
            empty=False,
            tolerance=4,
        )
        for mode in ("bilinear", "bicubic")
        for kwargs in CHOICES[:2]
    ],
    *[
        Row(
            "nn.functional.interpolate",
            np_interpolate,
            shapes=[(1, 2, 7, 6)],
            kwargs={"mode": mode, "antialias": True, "align_corners": corners, **kwargs},
            id=f"{mode}-antialias-{corners}-{kwargs}",
            ones=False,
            empty=False,
            tolerance=4,
        )
        for mode in ("bilinear", "bicubic", "lanczos")
        for corners, kwargs in [(False, {"size": (3, 8)}), (mode != "lanczos", {"size": (2, 4)}), (False, {"scale_factor": (0.3, 1.5)})]
    ],
    Row("nn.functional.interpolate", np_interpolate, shapes=[(2, 2, 5)], kwargs={"size": 8, "mode": "linear"}, id="linear", ones=False, tolerance=4, covers=["resample", "resample_back"]),
    Row("nn.functional.interpolate", np_interpolate, shapes=[(2, 2, 5)], kwargs={"size": 2}, id="1d", ones=False),
    Row("nn.functional.interpolate", np_interpolate, shapes=[(1, 1, 2, 3, 2)], kwargs={"size": (3, 2, 3), "mode": "trilinear"}, id="trilinear", ones=False, tolerance=4),
    Row(
        "nn.functional.interpolate",
        np_interpolate,
        shapes=[(1, 1, 2, 2, 2)],
        kwargs={"size": (3, 2, 4)},
        dtypes=["float32", "uint8"],
        result=lambda name: name,
        id="3d",
        ones=False,
        errors=[
            error(lambda op: op(x), ValueError, "either size or scale_factor"),
            error(lambda op: op(x, 2, 2.0), ValueError, "only one of size or scale_factor"),
            error(lambda op: op(x, 2, mode="linear"), NotImplementedError, "4D", "linear", "3D input", "(1, 2, 4, 6)"),
            error(lambda op: op(x[0], 2, mode="bilinear"), NotImplementedError, "3D", "bilinear", "4D input"),
            error(lambda op: op(x[0, 0], 2), NotImplementedError, "2D", "(4, 6)", "unsqueeze"),
            error(lambda op: op(x, 2, align_corners=True), ValueError, "align_corners", "'nearest'"),
            error(lambda op: op(x, (2, 2, 2)), ValueError, "[4, 6]", "[2, 2, 2]"),
            error(lambda op: op(x, scale_factor=(2.0,)), ValueError, "[4, 6]", "[2.0]"),
            error(lambda op: op(x, 2, mode="gaussian"), ValueError, "gaussian", "nearest-exact"),
            error(lambda op: op(x, 0), RuntimeError, "greater than 0", "(4, 6)", "(0, 0)"),
            error(lambda op: op(x.long(), 2, mode="bilinear"), RuntimeError, "int64", "bilinear"),
            error(lambda op: op(x, 2, antialias=True), ValueError, "Anti-alias", "bilinear, bicubic, and lanczos", "'nearest'", "area"),
            error(lambda op: op(x, 2, mode="lanczos"), ValueError, "requires antialias=True", "antialias=False", "bicubic"),
            error(lambda op: op(x, 2, mode="lanczos", antialias=True, align_corners=True), ValueError, "align_corners=True"),
            error(lambda op: op(x, 2, recompute_scale_factor=True), ValueError, "recompute_scale_factor", "explicit size"),
        ],
    ),
    Row("nn.functional.upsample", None, shapes=[(1, 1, 2)], kwargs={"size": 4}, dtypes=(), ones=False, empty=False),
    Row("nn.functional.upsample_nearest", None, shapes=[(1, 1, 2)], kwargs={"size": 4}, dtypes=(), ones=False, empty=False),
    Row("nn.functional.upsample_bilinear", None, shapes=[(1, 1, 2, 2)], kwargs={"size": 4}, dtypes=(), ones=False, empty=False),
]  # fmt: skip
test_rows = generate(ROWS)


def test_upsample_is_interpolate_with_a_warning():
    x = dynograd.randn(1, 2, 3)
    with pytest.warns(UserWarning, match="deprecated"):
        y = F.upsample(x, scale_factor=2)
    assert y.tolist() == F.interpolate(x, scale_factor=2).tolist()


@pytest.mark.parametrize(
    ("name", "options"),
    [("upsample_nearest", {}), ("upsample_bilinear", {"mode": "bilinear", "align_corners": True})],
)
def test_old_names_of_modes(name, options):
    x = dynograd.randn(1, 2, 3, 4, requires_grad=True)
    for sizes in ({"size": (5, 6)}, {"scale_factor": 2}):
        with pytest.warns(UserWarning, match=name):
            y = getattr(F, name)(x, **sizes)
        assert y.tolist() == F.interpolate(x, **sizes, **options).tolist()
        assert y.requires_grad


def test_the_same_size_gives_a_new_tensor_of_the_same_values():
    x = dynograd.randn(1, 2, 3)
    y = F.interpolate(x, size=3)
    assert y.tolist() == x.tolist()
    assert y is not x


def test_a_nan_spreads_only_to_its_neighbours():
    x = dynograd.zeros(1, 1, 6)
    x[0, 0, 0] = float("nan")
    y = F.interpolate(x, scale_factor=2, mode="linear")
    assert numpy.isnan(y.numpy()).sum() == 3


def in_whole_numbers(x, weights):
    """x (..., size) by `weights` (count, size) in integers: the weights as multiples of the smallest 2^-bits that 16 bits hold."""
    bits = max([n for n in range(23) if n == 0 or int(0.5 + weights.max() * 2**n) < 2**15])
    whole = numpy.trunc(weights * 2**bits + numpy.where(weights < 0, -0.5, 0.5)).astype(numpy.int64)
    return numpy.clip((x.astype(numpy.int64) @ whole.T + (1 << bits >> 1)) >> bits, 0, 255)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("options", [{}, {"align_corners": True}, {"antialias": True}])
@pytest.mark.parametrize("size", [(3, 3), (9, 7), (6, 2), (1, 14), (2, 1)])
def test_bytes_are_resized_in_whole_numbers_and_rounded_after_each_dim(mode, options, size):
    if mode == "lanczos" and "antialias" not in options:
        return
    x = numpy.random.default_rng(0).integers(0, 256, (2, 3, 6, 40)).astype("uint8")
    result = F.interpolate(dynograd.from_numpy(x), size, mode=mode, **options)
    rows = [
        (filtered if "antialias" in options else matrix)(own, count, mode, "align_corners" in options, own / count)
        for own, count in zip(x.shape[2:], size)
    ]
    wide = in_whole_numbers(x, rows[1]) if size[1] != 40 else x
    expected = in_whole_numbers(wide.swapaxes(2, 3), rows[0]).swapaxes(2, 3) if size[0] != 6 else wide
    assert result.dtype is dynograd.uint8
    numpy.testing.assert_array_equal(result.numpy(), expected)


def test_other_integers_and_modes_are_refused():
    for mode, kind, rank in (
        ("bilinear", dynograd.int8, 2),
        ("trilinear", dynograd.uint8, 3),
        ("area", dynograd.uint8, 2),
    ):
        with pytest.raises(TypeError, match=f"interpolate: mode '{mode}' is not implemented for {kind}"):
            F.interpolate(dynograd.ones(1, 1, *[4] * rank, dtype=kind), scale_factor=2, mode=mode)
