"""The examples train on the device as they do on the CPU: a few steps of small models."""

import numpy

import dynograd as dg
from dynograd.cuda import driver
from examples import char_lm, mnist

FEW = driver.is_emulated()


def test_mnist(tmp_path):
    options = dict(steps=2, batch_size=2, images=2, seed=1) if FEW else dict(steps=25, images=1000, seed=1)
    losses = []
    for device in ("cuda", "cpu"):
        result = mnist.main(device=device, checkpoint=tmp_path / f"{device}.safetensors", **options)
        losses.append(result["test_loss"])
    numpy.testing.assert_allclose(*losses, rtol=1e-3 if FEW else 0.2)
    saved = dg.load(tmp_path / "cuda.safetensors", map_location="cpu")
    mnist.ConvNet().load_state_dict(saved["model"])


def test_char_lm(monkeypatch):
    monkeypatch.setattr(char_lm, "evaluate", lambda model, text, length: 0.0)
    options = dict(steps=2, batch_size=2, length=6, hidden=16, characters=3, seed=2)
    texts = [char_lm.main(device=device, **options)["text"] for device in ("cuda", "cpu")]
    assert texts[0] == texts[1]
