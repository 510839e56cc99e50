"""Sparse tensors on the device: the rows of tests/sparse, entries and places moved there, agree with the CPU."""

import numpy
import pytest

import dynograd
from dynograd import sparse
from tests.sparse import test_sparse as cpu

NAMES = ["matmul", "dense @ sparse", "sum of rows", "index_select", "times dense", "csr", "csc", "relu"]


@pytest.mark.parametrize("form", cpu.LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_on_one(name, form, monkeypatch):
    x = cpu.in_layout(form).to("cuda")
    assert x.device.type == x.places.device.type == "cuda"
    tensor, arange = dynograd.tensor, dynograd.arange
    monkeypatch.setattr(dynograd, "tensor", lambda *args, **options: tensor(*args, **options).cuda())
    monkeypatch.setattr(dynograd, "arange", lambda *args, **options: arange(*args, **options).cuda())
    function, expected = cpu.ON_ONE[name]
    result = function(x)
    result = result.to_dense() if isinstance(result, sparse.SparseTensor) else result
    assert result.device.type == "cuda"
    numpy.testing.assert_allclose(result.cpu().numpy(), expected, rtol=1e-12, atol=1e-12)


def test_gradients():
    entries = dynograd.tensor(cpu.VALUES).cuda().requires_grad_()
    dense = dynograd.tensor(cpu.WIDE).cuda().requires_grad_()
    x = dynograd.sparse_coo_tensor(cpu.PLACES, entries, (4, 3))
    (x @ dense).pow(2).sum().backward()
    product = cpu.DENSE @ cpu.WIDE
    numpy.testing.assert_allclose(dense.grad.cpu().numpy(), 2 * cpu.DENSE.T @ product)
    numpy.testing.assert_allclose(entries.grad.cpu().numpy(), (2 * product @ cpu.WIDE.T)[tuple(cpu.PLACES)])


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_steps_over_sparse_gradients(name):
    result = []
    for device in ("cpu", "cuda"):
        w = dynograd.tensor(
            numpy.arange(60.0, dtype=numpy.float32).reshape(20, 3) / 10, device=device, requires_grad=True
        )
        optimizer = getattr(dynograd.optim, name)([w], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            index = dynograd.tensor([[1, 2, 2], [5, 1, 19]], device=device)
            (dynograd.nn.functional.embedding(index, w, padding_idx=5, sparse=True) ** 2).sum().backward()
            assert w.grad.is_sparse and w.grad.device.type == device
            dynograd.nn.utils.clip_grad_norm_([w], 3.0)
            optimizer.step()
        result.append(w.detach().cpu().numpy())
    numpy.testing.assert_allclose(*result, rtol=1e-5)
