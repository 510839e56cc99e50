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
    function, wanted = cpu.ON_ONE[name]
    found = function(x)
    found = found.to_dense() if isinstance(found, sparse.SparseTensor) else found
    assert found.device.type == "cuda"
    numpy.testing.assert_allclose(found.cpu().numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_gradients():
    entries = dynograd.tensor(cpu.VALUES).cuda().requires_grad_()
    dense = dynograd.tensor(cpu.WIDE).cuda().requires_grad_()
    x = dynograd.sparse_coo_tensor(cpu.PLACES, entries, (4, 3))
    (x @ dense).pow(2).sum().backward()
    product = cpu.DENSE @ cpu.WIDE
    numpy.testing.assert_allclose(dense.grad.cpu().numpy(), 2 * cpu.DENSE.T @ product)
    numpy.testing.assert_allclose(entries.grad.cpu().numpy(), (2 * product @ cpu.WIDE.T)[tuple(cpu.PLACES)])
