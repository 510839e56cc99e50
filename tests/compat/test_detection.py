"""torchvision's operators, which `ops.load_library` makes, beside plain loops."""

import math

import numpy
import pytest

import dynograd
from dynograd.gradcheck import gradcheck

for name in ("_C.so", "_C_stable.so"):  # the second from torchvision 0.29 on
    dynograd.ops.load_library(f"site-packages/torchvision/{name}")
OPS = dynograd.ops.torchvision


def t(array, **options):
    return dynograd.tensor(numpy.asarray(array, "float64"), **options)


def images(seed=0, shape=(2, 3, 7, 9)):
    return numpy.random.default_rng(seed).standard_normal(shape)


ROIS = [[0, 1.0, 1.5, 6.0, 5.0], [1, 0.0, 0.0, 8.5, 6.5], [1, 3.2, 2.1, 4.0, 2.9], [0, -2.0, -1.0, 3.0, 12.0]]


def bilinear(image, y, x):
    height, width = image.shape
    if y < -1 or y > height or x < -1 or x > width:
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - top, x - left
    above = image[top, left] * (1 - dx) + image[top, right] * dx
    return above * (1 - dy) + (image[bottom, left] * (1 - dx) + image[bottom, right] * dx) * dy


def np_roi_align(values, rois, scale, rows, columns, ratio, aligned, own_channels=False):
    bins = rows * columns
    channels = values.shape[1] // bins if own_channels else values.shape[1]
    out = numpy.zeros((len(rois), channels, rows, columns))
    for number, (image, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (corner * scale - (0.5 if aligned else 0.0) for corner in corners)
        width, height = x2 - x1, y2 - y1
        if not aligned:
            width, height = max(width, 1.0), max(height, 1.0)
        in_y = ratio if ratio > 0 else math.ceil(height / rows)
        in_x = ratio if ratio > 0 else math.ceil(width / columns)
        for place in numpy.ndindex(channels, rows, columns):
            channel = place[0] * bins + place[1] * columns + place[2] if own_channels else place[0]
            total = [
                bilinear(
                    values[int(image), channel],
                    y1 + (place[1] + (i + 0.5) / in_y) * height / rows,
                    x1 + (place[2] + (j + 0.5) / in_x) * width / columns,
                )
                for i in range(in_y)
                for j in range(in_x)
            ]
            out[(number, *place)] = sum(total) / len(total)
    return out


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [2, -1])
def test_roi_align(ratio, aligned):
    values = images()
    result = OPS.roi_align(t(values), t(ROIS), 0.8, 2, 3, ratio, aligned)
    numpy.testing.assert_allclose(result.numpy(), np_roi_align(values, ROIS, 0.8, 2, 3, ratio, aligned), atol=1e-12)


@pytest.mark.parametrize("ratio", [2, -1])
def test_ps_roi_align(ratio):
    values = images(shape=(2, 12, 7, 9))
    result, channels = OPS.ps_roi_align(t(values), t(ROIS), 0.8, 2, 3, ratio)
    expected = np_roi_align(values, ROIS, 0.8, 2, 3, ratio, True, own_channels=True)
    numpy.testing.assert_allclose(result.numpy(), expected, atol=1e-12)
    assert channels.shape == (4, 2, 2, 3) and channels[0, 1, 1, 2].item() == 11


def np_pooled(values, rois, rows, columns, mean):
    bins = rows * columns
    channels = values.shape[1] // bins if mean else values.shape[1]
    out = numpy.zeros((len(rois), channels, rows, columns))
    for number, (image, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (int(math.copysign(math.floor(abs(c) + 0.5), c)) for c in corners)
        height, width = max(y2 - y1 + (not mean), 1), max(x2 - x1 + (not mean), 1)
        for place in numpy.ndindex(channels, rows, columns):
            channel = place[0] * bins + place[1] * columns + place[2] if mean else place[0]
            top, bottom = (min(max(f + y1, 0), values.shape[2]) for f in _edges(place[1], height, rows))
            left, right = (min(max(f + x1, 0), values.shape[3]) for f in _edges(place[2], width, columns))
            part = values[int(image), channel, top:bottom, left:right]
            out[(number, *place)] = (part.mean() if mean else part.max()) if part.size else 0.0
    return out


def _edges(place, size, count):
    step = size / count
    return math.floor(place * step), math.ceil((place + 1) * step)


def test_roi_pool():
    values = images()
    result, places = OPS.roi_pool(t(values), t(ROIS), 1.0, 2, 3)
    numpy.testing.assert_allclose(result.numpy(), np_pooled(values, ROIS, 2, 3, False), atol=1e-12)
    picked = numpy.take_along_axis(
        values[[int(roi[0]) for roi in ROIS]].reshape(4, 3, -1), places.numpy().reshape(4, 3, -1).clip(0), 2
    )
    numpy.testing.assert_allclose(
        (picked * (places.numpy().reshape(4, 3, -1) >= 0)).reshape(result.shape), result.numpy()
    )


def test_ps_roi_pool():
    values = images(shape=(2, 12, 7, 9))
    result, _ = OPS.ps_roi_pool(t(values), t(ROIS), 1.0, 2, 3)
    numpy.testing.assert_allclose(result.numpy(), np_pooled(values, ROIS, 2, 3, True), atol=1e-12)


def test_nms():
    rng = numpy.random.default_rng(0)
    corner = rng.uniform(0, 10, (40, 2))
    boxes, scores = numpy.concatenate([corner, corner + rng.uniform(1, 6, (40, 2))], 1), rng.uniform(size=40)
    kept = []
    for place in numpy.argsort(-scores, kind="stable"):
        a = boxes[place]
        for other in kept:
            b = boxes[other]
            shared = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
            union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
            if shared / union > 0.3:
                break
        else:
            kept.append(place)
    assert OPS.nms(t(boxes), t(scores), 0.3).tolist() == kept
    assert OPS.nms(dynograd.zeros(0, 4), dynograd.zeros(0), 0.3).shape == (0,)


def np_deform(values, weight, offset, mask, bias, stride, pad, dilation, groups, offset_groups):
    batch, channels, height, width = values.shape
    outputs, _, kh, kw = weight.shape
    rows, columns = offset.shape[2:]
    out = numpy.zeros((batch, outputs, rows, columns))

    def read(n, c, y, x):
        low_y, low_x = math.floor(y), math.floor(x)
        total = 0.0
        for i in (low_y, low_y + 1):
            for j in (low_x, low_x + 1):
                if 0 <= i < height and 0 <= j < width:
                    total += values[n, c, i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
        return total

    for n, o, i, j in numpy.ndindex(out.shape):
        group = o // (outputs // groups)
        for c in range(channels // groups):
            channel = group * (channels // groups) + c
            own = channel // (channels // offset_groups)
            for tap in range(kh * kw):
                place = own * kh * kw + tap
                y = i * stride - pad + tap // kw * dilation + offset[n, 2 * place, i, j]
                x = j * stride - pad + tap % kw * dilation + offset[n, 2 * place + 1, i, j]
                out[n, o, i, j] += weight[o, c, tap // kw, tap % kw] * read(n, channel, y, x) * mask[n, place, i, j]
    return out + bias[:, None, None]


@pytest.mark.parametrize(("groups", "offset_groups"), [(1, 1), (2, 2)])
def test_deform_conv2d(groups, offset_groups):
    rng = numpy.random.default_rng(1)
    values, weight, bias = (
        rng.standard_normal((2, 4, 6, 5)),
        rng.standard_normal((4, 4 // groups, 3, 2)),
        rng.standard_normal(4),
    )
    rows, columns = (6 + 2 - 3) // 2 + 1, (5 + 2 - 2) // 2 + 1
    offset = rng.standard_normal((2, offset_groups * 2 * 6, rows, columns))
    mask = rng.uniform(size=(2, offset_groups * 6, rows, columns))
    result = OPS.deform_conv2d(
        *map(t, (values, weight, offset, mask, bias)), 2, 2, 1, 1, 1, 1, groups, offset_groups, True
    )
    expected = np_deform(values, weight, offset, mask, bias, 2, 1, 1, groups, offset_groups)
    numpy.testing.assert_allclose(result.numpy(), expected, atol=1e-10)


def test_gradients():
    from dynograd.compat.operators import detection

    values, rois = t(images(shape=(2, 4, 5, 6)), requires_grad=True), t(ROIS) * 0.6
    rois[:, 0] = t([0, 1, 1, 0])
    assert gradcheck(lambda x: detection.roi_align(x, rois, 1.0, 2, 2, 2, True), values)
    assert gradcheck(lambda x: detection.ps_roi_align(x, rois, 1.0, 2, 2, 2)[0], values)
    g = t(numpy.random.default_rng(2).standard_normal((4, 4, 2, 2)))
    pooled, places = detection.roi_pool(values, rois, 1.0, 2, 2)
    (expected,) = dynograd.autograd.grad(pooled, values, g)
    result = OPS._roi_pool_backward(g, rois, places, 1.0, 2, 2, 2, 4, 5, 6)
    numpy.testing.assert_allclose(result.numpy(), expected.numpy(), atol=1e-12)
    (expected,) = dynograd.autograd.grad(detection.roi_align(values, rois, 1.0, 2, 2, 2, True), values, g)
    result = OPS._roi_align_backward(g, rois, 1.0, 2, 2, 2, 4, 5, 6, 2, True)
    numpy.testing.assert_allclose(result.numpy(), expected.numpy(), atol=1e-12)


def test_what_is_not_there_says_so():
    with pytest.raises(NotImplementedError, match="torchvision::box_iou_rotated is not here.*nms, roi_align"):
        OPS.box_iou_rotated(dynograd.zeros(1, 5), dynograd.zeros(1, 5))
    with pytest.raises(OSError, match=r"image.so' would be a library compiled against PyTorch's C\+\+"):
        dynograd.ops.load_library("site-packages/torchvision/image.so")
    assert OPS._cuda_version() == -1
