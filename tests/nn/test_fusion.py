"""Batch norm folded into the layer before it: the same outputs, dtypes kept, errors."""

from __future__ import annotations

import pytest

import dynograd as dg
from dynograd import nn
from dynograd.nn.utils import fuse_conv_bn_eval, fuse_linear_bn_eval

ROWS = [
    (lambda bias: nn.Linear(3, 4, bias=bias), lambda: nn.BatchNorm1d(4), (5, 3), {}),
    (lambda bias: nn.Linear(3, 4, bias=bias), lambda: nn.BatchNorm1d(4, affine=False), (5, 3), {}),
    (lambda bias: nn.Conv1d(4, 6, 2, groups=2, bias=bias), lambda: nn.BatchNorm1d(6), (2, 4, 5), {}),
    (lambda bias: nn.Conv2d(3, 4, 2, bias=bias), lambda: nn.BatchNorm2d(4, affine=False), (2, 3, 5, 4), {}),
    (lambda bias: nn.Conv3d(2, 4, 2, bias=bias), lambda: nn.BatchNorm3d(4, bias=False), (2, 2, 3, 3, 4), {}),
    (
        lambda bias: nn.ConvTranspose2d(3, 4, 2, bias=bias),
        lambda: nn.BatchNorm2d(4),
        (2, 3, 5, 4),
        {"transpose": True},
    ),
]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("number", range(len(ROWS)))
def test_the_fused_layer_computes_both(number, bias):
    build, norm, shape, options = ROWS[number]
    layer, bn = build(bias), norm()
    model = nn.Sequential(layer, bn)
    for _ in range(3):
        model(dg.randn(shape) * 2 + 1)
    for parameter in bn.parameters():
        nn.init.uniform_(parameter, 0.5, 1.5)
    model.eval()
    x, before = dg.randn(shape), layer.weight.detach().clone()
    fuse = fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval
    fused = fuse(layer, bn, **options)
    assert type(fused) is type(layer) and dg.allclose(fused(x), model(x), atol=1e-5)
    assert dg.equal(layer.weight, before) and isinstance(fused.weight, nn.Parameter)
    assert fuse(layer.bfloat16(), bn, **options).weight.dtype is dg.bfloat16


ERRORS = [
    (lambda: fuse_conv_bn_eval(nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1).eval()), "only for eval.*Conv1d and BatchNorm1d"),
    (
        lambda: fuse_conv_bn_eval(nn.Conv1d(1, 1, 1).eval(), nn.BatchNorm1d(1, track_running_stats=False).eval()),
        "running_var must not be None",
    ),
    (lambda: fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(2).eval()), "got 3 and 2"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, words = ERRORS[number]
    with pytest.raises(AssertionError, match=words):
        call()
