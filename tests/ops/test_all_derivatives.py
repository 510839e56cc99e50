"""Functions whose rows try less than first and second gradients, forward mode and batches of both: all of it at once, by gradcheck."""

from __future__ import annotations

import pytest

import dynograd as dg
from dynograd.autograd import gradcheck, gradgradcheck
from tests.ops.test_registry import NAMES, registry, rows_by_name

F = dg.nn.functional


def values(*shape):
    dg.manual_seed(3)
    return dg.rand(*shape, dtype=dg.float64) * 0.8 + 0.1


X, Y = values(3, 4).requires_grad_(), (values(3, 4) * 0.7 + 0.2).requires_grad_()
IMAGE = values(1, 2, 3, 3).requires_grad_()


def rows_to_one(x):
    return x / x.sum(1, keepdim=True)


# name: (the inner op that only this table differentiates twice, function, inputs)
CASES = {
    "binary_cross_entropy": ("binary_cross_entropy_in_one_pass", F.binary_cross_entropy, (X, Y.detach())),
    "binary_cross_entropy to targets": (None, F.binary_cross_entropy, (X, Y)),
    "with logits": ("binary_cross_entropy_with_logits_in_one_pass", F.binary_cross_entropy_with_logits, (X, Y)),
    "to distributions": (
        "cross_entropy_of_distributions",
        lambda x, y: F.cross_entropy(x, rows_to_one(y)),
        (X, Y),
    ),
    "huber_loss": ("huber_in_one_pass", lambda x, y: F.huber_loss(x * 3, y), (X, Y)),
    "kl_div": ("kl_div_in_one_pass", lambda x, y: F.kl_div(x, y, reduction="batchmean"), (X, Y)),
    "kl_div of logarithms": (
        "kl_div_of_logarithms_in_one_pass",
        lambda x, y: F.kl_div(x, y, reduction="sum", log_target=True),
        (X, Y),
    ),
    "l1_loss": ("l1_in_one_pass", F.l1_loss, (X, Y)),
    "mse_loss": ("mse_in_one_pass", F.mse_loss, (X, Y)),
    "smooth_l1_loss": ("smooth_l1_in_one_pass", lambda x, y: F.smooth_l1_loss(x, y, beta=0.05), (X, Y)),
    "round": ("round_decimals", lambda x: dg.round(x, decimals=1) * x, (X,)),
    "div trunc": ("trunc_divide", lambda x, y: dg.div(x * 7, y, rounding_mode="trunc") * x, (X, Y)),
    "bilinear": (
        None,
        F.bilinear,
        (values(3, 2).requires_grad_(), X, values(5, 2, 4).requires_grad_(), values(5).requires_grad_()),
    ),
    "corrcoef": (None, dg.corrcoef, (X,)),
    "cov": (None, dg.cov, (X,)),
    "gradient": (None, lambda x: dg.gradient(x, spacing=0.5), (X,)),
    "nanquantile": (None, lambda x: dg.nanquantile(x, 0.3, 1), (X,)),
    "pdist": (None, F.pdist, (X,)),
    "upsample bilinear": (
        None,
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
        (IMAGE,),
    ),
    "upsample nearest": (None, lambda x: F.interpolate(x, scale_factor=2), (IMAGE,)),
    "complex parts": (None, lambda x: dg.imag(dg.view_as_complex(x.reshape(3, 2, 2)) * x.cdouble()[:, :2]), (X,)),
}


@pytest.mark.parametrize("name", CASES)
def test_first_second_forward_and_batched(name):
    _, function, inputs = CASES[name]
    inputs = tuple(operand.detach().requires_grad_(operand.requires_grad) for operand in inputs)
    assert gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    assert gradgradcheck(function, inputs, atol=1e-4, check_batched_grad=True)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if registry[name].kind != "composed" and registry[name].differentiable is True]
)
def test_every_differentiable_op_is_differentiated_twice(name):
    rows = rows_by_name().get(name, [])
    assert any(row.grad is not False and row.second for row in rows) or name in {
        inner for inner, _, _ in CASES.values()
    }
