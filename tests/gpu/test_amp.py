"""Autocast and the GradScaler on a device."""

import numpy
import pytest

import dynograd
from dynograd import nn

F = nn.functional
BF16, F16, F32 = dynograd.bfloat16, dynograd.float16, dynograd.float32

DTYPES = {
    "matmul": (lambda x, h: x @ x.T, "half"),
    "linear": (lambda x, h: nn.Linear(4, 2).to("cuda")(x), "half"),
    "exp": (lambda x, h: h.exp(), "wide"),
    "pow": (lambda x, h: h**2.5, "wide"),
    "relu": (lambda x, h: h.relu(), "half"),
    "softmax": (lambda x, h: h.softmax(-1), "wide"),
    "sum": (lambda x, h: h.sum(), "wide"),
    "mse": (lambda x, h: F.mse_loss(h, h), "wide"),
    "the cpu is left alone": (lambda x, h: x.cpu() @ x.cpu().T, "wide"),
}


@pytest.mark.parametrize("kind", [BF16, F16], ids=str)
@pytest.mark.parametrize("what", DTYPES)
def test_dtypes(what, kind):
    function, expected = DTYPES[what]
    x = dynograd.ones(3, 4).to("cuda")
    h = x.to(kind)
    with dynograd.autocast("cuda", dtype=kind):
        assert function(x, h).dtype is (kind if expected == "half" else F32)


def test_float16_is_the_default():
    with dynograd.cuda.amp.autocast():
        x = dynograd.ones(2, 2).to("cuda")
        assert (x @ x).dtype is F16


def test_unsafe_losses_are_refused():
    h = dynograd.ones(2).to("cuda")
    with dynograd.autocast("cuda"), pytest.raises(RuntimeError, match="are unsafe to autocast"):
        F.binary_cross_entropy(h, h)


OPTIMIZERS = {
    "sgd": lambda ps: dynograd.optim.SGD(ps, lr=0.1, momentum=0.9),
    "adamw": lambda ps: dynograd.optim.AdamW(ps, lr=0.1),
    "adamw fused": lambda ps: dynograd.optim.AdamW(ps, lr=0.1, fused=True),
}


def trained(device, make, bad=2, dtype=dynograd.float32):
    w = dynograd.tensor([1.0, 2.0], dtype=dtype).to(device).requires_grad_()
    optimizer = make([w])
    scaler = dynograd.amp.GradScaler(device, init_scale=8.0, growth_interval=2)
    for step in range(5):
        optimizer.zero_grad()
        scaler.scale((w * w.conj()).real.sum() * (float("inf") if step == bad else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
    return w.tolist(), scaler.state_dict()


@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.complex64], ids=str)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_scaled_training_is_that_of_the_cpu(kind, dtype):
    ours, state = trained("cuda", OPTIMIZERS[kind], dtype=dtype)
    reference, expected = trained("cpu", OPTIMIZERS[kind], dtype=dtype)
    numpy.testing.assert_allclose(ours, reference, rtol=1e-6)
    assert state == expected


@pytest.mark.parametrize("kind", ["sgd", "adamw fused"])
def test_a_scaled_step_waits_for_nothing(kind, monkeypatch):
    def refuse(*given):
        raise AssertionError("the host waited")

    w = dynograd.tensor([1.0, 2.0]).to("cuda").requires_grad_()
    optimizer = OPTIMIZERS[kind]([w])
    scaler = dynograd.amp.GradScaler("cuda", init_scale=8.0)
    with monkeypatch.context() as patched:
        patched.setattr(dynograd.arrays.CudaArray, "numpy", refuse)
        for _ in range(2):
            optimizer.zero_grad()
            with dynograd.autocast("cuda"):
                loss = (w * w).sum()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_([w], 1.0)
            scaler.step(optimizer)
            scaler.update()
    assert scaler.get_scale() == 8
