"""torchvision's operators on the GPU give what they give on the CPU."""

import numpy
import pytest

import dynograd

dynograd.ops.load_library("site-packages/torchvision/_C.so")
OPS = dynograd.ops.torchvision
ROIS = [[0, 1.0, 1.5, 6.0, 5.0], [1, 0.0, 0.0, 8.5, 6.5], [0, -2.0, -1.0, 3.0, 12.0]]


def t(*shape, seed=0):
    return dynograd.tensor(numpy.random.default_rng(seed).standard_normal(shape).astype("float32"))


CALLS = {
    "nms": lambda to: OPS.nms(to(t(9, 4).abs().cumsum(1)), to(t(9)), 0.3),
    "roi_align": lambda to: OPS.roi_align(to(t(2, 3, 7, 9)), to(dynograd.tensor(ROIS)), 0.8, 2, 3, 2, True),
    "roi_pool": lambda to: OPS.roi_pool(to(t(2, 3, 7, 9)), to(dynograd.tensor(ROIS)), 1.0, 2, 3)[0],
    "ps_roi_align": lambda to: OPS.ps_roi_align(to(t(2, 12, 7, 9)), to(dynograd.tensor(ROIS)), 0.8, 2, 3, 2)[0],
    "deform_conv2d": lambda to: OPS.deform_conv2d(
        *map(to, (t(2, 4, 6, 5), t(4, 4, 3, 3), t(2, 18, 6, 5), t(2, 9, 6, 5).sigmoid(), t(4))),
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        True,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_same_as_on_the_cpu(name):
    on_gpu = CALLS[name](lambda tensor: tensor.to("cuda"))
    assert on_gpu.is_cuda
    numpy.testing.assert_allclose(
        on_gpu.cpu().numpy(), CALLS[name](lambda tensor: tensor).numpy(), rtol=1e-4, atol=1e-5
    )
