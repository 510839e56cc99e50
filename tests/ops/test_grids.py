"""Sampling at places of a grid."""

import itertools
import math

import numpy
import pytest

import dynograd
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate
from tests.ops.test_interpolations import cubic


def inside(place, size, padding, align):
    if padding == "zeros":
        return place
    if padding == "reflection":
        low, high = (0, size - 1) if align else (-0.5, size - 0.5)
        if low == high:
            return 0.0
        while not low <= place <= high:
            place = 2 * low - place if place < low else 2 * high - place
    return min(max(place, 0), size - 1)


def np_grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    sizes, out = input.shape[2:], numpy.zeros((*input.shape[:2], *grid.shape[1:-1]))
    for where in itertools.product(*map(range, (grid.shape[0], *grid.shape[1:-1]))):
        taps = []
        for size, at in zip(sizes, grid[where][::-1]):
            place = (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2
            if mode == "bicubic":
                near = [math.floor(place) + shift for shift in (-1, 0, 1, 2)]
                taps.append(
                    [(inside(element, size, padding_mode, align_corners), cubic(place - element)) for element in near]
                )
                continue
            place = inside(place, size, padding_mode, align_corners)
            low = math.floor(place)
            taps.append([(round(place), 1)] if mode == "nearest" else [(low, 1 - place + low), (low + 1, place - low)])
        for corner in itertools.product(*taps):
            if all(0 <= at < size for (at, _), size in zip(corner, sizes)):
                weight = math.prod(share for _, share in corner)
                index = tuple(int(at) for at, _ in corner)
                out[(where[0], slice(None), *where[1:])] += weight * input[(where[0], slice(None), *index)]
    return out


def np_affine_grid(theta, size, align_corners=False):
    spatial = size[2:]
    out = numpy.zeros((size[0], *spatial, len(spatial)))
    for where in itertools.product(*map(range, out.shape[:-1])):
        places = []
        for at, count in zip(where[1:], spatial):
            if count == 1:
                places.append(0.0)
            else:
                places.append(-1 + 2 * at / (count - 1) if align_corners else (2 * at + 1) / count - 1)
        out[where] = theta[where[0]] @ [*places[::-1], 1.0]
    return out


def arguments(dims):
    def make(rng):
        return [
            rng.normal(size=(2, 2, 4, 3, 2)[: dims + 2]),
            rng.uniform(-1.7, 1.7, (2, 2, 3, 1)[: dims + 1] + (dims,)),
        ]

    return make


x, g = dynograd.zeros(2, 1, 3, 3), dynograd.zeros(2, 2, 2, 2)
ROWS = [
    *[
        Row(
            name,
            lambda input, grid, *_: np_grid_sample(
                input, grid, mode="bilinear", padding_mode="border", align_corners=True
            ),
            args=lambda rng, dims=dims: [*arguments(dims)(rng), 0, 1, True],
            dtypes=["float32", "float64"],
            ones=False,
            empty=False,
            tolerance=20,
            errors=[error(lambda op, dims=dims: op(dynograd.zeros(3), None, 0, 0, True), RuntimeError, name, "(3,)")]
            if name != "grid_sampler"
            else [],
        )
        for name, dims in (("grid_sampler", 2), ("grid_sampler_2d", 2), ("grid_sampler_3d", 3))
    ],
    *[
        Row(
            "nn.functional.grid_sample",
            np_grid_sample,
            args=arguments(dims),
            kwargs={"mode": mode, "padding_mode": padding, "align_corners": align},
            dtypes=["float32", "float64"],
            id=f"{dims}d-{mode}-{padding}-{align}",
            ones=False,
            empty=False,
            tolerance=20,
            grad=mode != "nearest",
        )
        for dims, mode in ((2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"))
        for padding in ("zeros", "border", "reflection")
        for align in (False, True)
    ],
    *[
        Row(
            "nn.functional.affine_grid",
            np_affine_grid,
            args=lambda rng, dims=dims: [rng.normal(size=(2, dims, dims + 1))],
            kwargs={"size": (2, 1, 3, 1, 4)[: dims + 2], "align_corners": align},
            dtypes=["float32", "float64"],
            id=f"{dims}d-{align}",
            ones=False,
            empty=False,
            tolerance=4,
        )
        for dims in (2, 3)
        for align in (False, True)
    ],
]
test_rows = generate(ROWS)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: F.grid_sample(x, g, "linear"), "'bilinear', 'nearest' or 'bicubic', but got: 'linear'"),
        (lambda: F.grid_sample(x, g, padding_mode="wrap"), "'border', or 'reflection', but got: 'wrap'"),
        (lambda: F.grid_sample(x[0], g), r"4D or 5D input.*\(1, 3, 3\).*\(2, 2, 2, 2\)"),
        (lambda: F.grid_sample(x, g[:1]), r"same batch size.*\(2, 1, 3, 3\).*\(1, 2, 2, 2\)"),
        (lambda: F.grid_sample(x, g[..., :1]), r"size 2 in last dimension.*\(2, 2, 2, 1\)"),
        (lambda: F.grid_sample(x[..., :0], g), r"non-empty spatial dimensions.*\(2, 1, 3, 0\)"),
        (lambda: F.grid_sample(x[:, :, None], dynograd.zeros(2, 1, 1, 1, 3), "bicubic"), "only supports 4D input"),
        (lambda: F.grid_sample(x, g.double()), "same dtype.*float32.*float64"),
        (
            lambda: F.affine_grid(dynograd.zeros(2, 2, 2), (2, 1, 3, 3)),
            r"theta of shape \(2, 2, 2\) and size \(2, 1, 3, 3\)",
        ),
        (lambda: F.affine_grid(dynograd.zeros(2, 2, 3), (2, 1, 0, 3)), "non-zero, positive output size"),
    ],
)
def test_messages(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_missing_align_corners_is_said():
    with pytest.warns(UserWarning, match="align_corners is False by default"):
        F.grid_sample(x, g)
    with pytest.warns(UserWarning, match="align_corners is False by default"):
        F.affine_grid(dynograd.zeros(2, 2, 3), (2, 1, 3, 3))


def test_the_identity_grid_gives_the_image_back():
    image = dynograd.randn(1, 2, 5, 4)
    identity = dynograd.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    for align in (False, True):
        grid = F.affine_grid(identity, image.shape, align_corners=align)
        numpy.testing.assert_allclose(F.grid_sample(image, grid, align_corners=align).numpy(), image.numpy(), atol=1e-5)


def test_nan_places_give_zero():
    grid = dynograd.full((1, 1, 1, 2), float("nan"))
    assert F.grid_sample(dynograd.ones(1, 1, 2, 2), grid, align_corners=False).item() == 0


@pytest.mark.parametrize(("image", "grid"), [((2, 0, 3, 3), (2, 2, 2, 2)), ((2, 0, 3, 3, 3), (2, 2, 2, 2, 3))])
def test_images_without_channels(image, grid):
    sampled = dynograd.nn.functional.grid_sample(dynograd.zeros(image), dynograd.zeros(grid), align_corners=False)
    assert sampled.shape == (2, 0, *grid[1:-1])


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize(("batch", "channels", "places"), [(0, 1, 2), (2, 0, 2), (2, 1, 0), (2, 3, 4)])
def test_gradients_of_image_and_grid_without_elements_and_of_the_nearest(mode, batch, channels, places):
    image = dynograd.ones(batch, channels, 2, 2, requires_grad=True)
    grid = dynograd.zeros(batch, places, places, 2, requires_grad=True)
    result = F.grid_sample(image, grid, mode=mode, padding_mode="border", align_corners=False)
    result.sum().backward()
    assert result.shape == (batch, channels, places, places)
    assert image.grad.sum().item() == pytest.approx(result.numel())
    assert grid.grad.shape == grid.shape and (mode != "nearest" or not grid.grad.any())
