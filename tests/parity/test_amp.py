"""Result dtypes inside autocast on the CPU, and a GradScaler's steps, beside PyTorch's."""

import numpy
import pytest
import torch

import dynograd

CASES = {
    "matmul": lambda t, x, h: x @ h.T,
    "addmm": lambda t, x, h: t.addmm(x[:3, :3], x, x.T),
    "baddbmm": lambda t, x, h: t.baddbmm(x[None, :3, :3], x[None], x.T[None]),
    "linear": lambda t, x, h: t.nn.Linear(4, 2)(x),
    "conv2d": lambda t, x, h: t.nn.Conv2d(1, 2, 2)(x[None, None]),
    "conv1d of half": lambda t, x, h: t.nn.Conv1d(3, 2, 2)(h[None]),
    "conv2d of half": lambda t, x, h: t.nn.Conv2d(1, 2, 2)(h[None, None]),
    "conv3d of half": lambda t, x, h: t.nn.Conv3d(1, 2, 1)(h[None, None, None]),
    "conv_transpose2d of half": lambda t, x, h: t.nn.ConvTranspose2d(1, 2, 2)(h[None, None]),
    "conv_transpose2d": lambda t, x, h: t.nn.ConvTranspose2d(1, 2, 2)(x[None, None]),
    "attention": lambda t, x, h: t.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    "multihead": lambda t, x, h: t.nn.MultiheadAttention(4, 2)(x, x, x)[0],
    "encoder": lambda t, x, h: t.nn.TransformerEncoderLayer(4, 2, 8)(x),
    "exp": lambda t, x, h: h.exp(),
    "pow": lambda t, x, h: h**2.5,
    "softmax": lambda t, x, h: h.softmax(-1),
    "log_softmax": lambda t, x, h: h.log_softmax(-1),
    "sum": lambda t, x, h: h.sum(),
    "mean": lambda t, x, h: h.mean(),
    "norm": lambda t, x, h: h.norm(),
    "prod": lambda t, x, h: h.prod(),
    "cumsum": lambda t, x, h: h.cumsum(0),
    "layer_norm": lambda t, x, h: t.nn.LayerNorm(4)(h),
    "batch_norm": lambda t, x, h: t.nn.BatchNorm1d(4)(h),
    "group_norm": lambda t, x, h: t.nn.GroupNorm(1, 4)(h),
    "cross_entropy": lambda t, x, h: t.nn.functional.cross_entropy(h, t.tensor([0, 1, 0])),
    "nll_loss": lambda t, x, h: t.nn.functional.nll_loss(h, t.tensor([0, 1, 0])),
    "mse": lambda t, x, h: t.nn.functional.mse_loss(h, h),
    "l1": lambda t, x, h: t.nn.functional.l1_loss(h, h),
    "smooth_l1": lambda t, x, h: t.nn.functional.smooth_l1_loss(h, h),
    "huber": lambda t, x, h: t.nn.functional.huber_loss(h, h),
    "kl_div": lambda t, x, h: t.nn.functional.kl_div(h, h.softmax(-1), reduction="sum"),
    "bce": lambda t, x, h: t.nn.functional.binary_cross_entropy(h.sigmoid(), h.sigmoid()),
    "bce_with_logits": lambda t, x, h: t.nn.functional.binary_cross_entropy_with_logits(h, h.sigmoid()),
    "cat": lambda t, x, h: t.cat([h, x]),
    "stack": lambda t, x, h: t.stack([h, x]),
    "cdist": lambda t, x, h: t.cdist(h, h),
    "gelu": lambda t, x, h: t.nn.functional.gelu(h),
    "float64": lambda t, x, h: x.double() @ x.double().T,
}


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize("case", CASES)
def test_dtypes(case, kind):
    names = []
    for t in (torch, dynograd):
        x = t.ones(3, 4)
        h = x.to(getattr(t, kind))
        with t.autocast("cpu", dtype=getattr(t, kind)):
            names.append(str(CASES[case](t, x, h).dtype).split(".")[1])
    assert names[1] == names[0]


def test_scaler():
    weights, states = [], []
    for t in (torch, dynograd):
        w = t.tensor([1.0, 2.0], requires_grad=True)
        optimizer = t.optim.AdamW([w], lr=0.1)
        scaler = t.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        for step in range(6):
            optimizer.zero_grad()
            scaler.scale((w * w).sum() * (float("inf") if step == 3 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
            states.append(scaler.state_dict())
        weights.append(w.tolist())
    numpy.testing.assert_allclose(weights[1], weights[0], rtol=1e-6)
    assert states[:6] == states[6:]
