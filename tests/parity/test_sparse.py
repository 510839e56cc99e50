"""Sparse tensors beside torch: values, layouts' parts and gradients."""

import numpy
import pytest
import torch

import dynograd

pytestmark = pytest.mark.filterwarnings("ignore:Sparse (CSR tensor support|invariant checks):UserWarning")
rng = numpy.random.default_rng(3)
PLACES = numpy.stack([rng.integers(0, 7, 20), rng.integers(0, 5, 20)])
VALUES, WIDE, TALL = rng.normal(size=20), rng.normal(size=(5, 4)), rng.normal(size=(7, 5))

ROWS = {
    "to_dense": lambda T, x: x.to_dense(),
    "mm": lambda T, x: T.sparse.mm(x, T.tensor(WIDE)),
    "spmm": lambda T, x: T.spmm(x, T.tensor(WIDE)),
    "matmul": lambda T, x: x @ T.tensor(WIDE),
    "mv": lambda T, x: x.mv(T.tensor(WIDE[:, 0])),
    "addmm": lambda T, x: T.sparse.addmm(T.ones(7, 4, dtype=T.float64), x, T.tensor(WIDE), beta=0.5, alpha=2.0),
    "t": lambda T, x: x.t().to_dense(),
    "transpose": lambda T, x: x.transpose(0, 1).coalesce().values(),
    "indices": lambda T, x: x.coalesce().indices(),
    "values": lambda T, x: x.coalesce().values(),
    "add": lambda T, x: (x + x * 2).to_dense(),
    "mul dense": lambda T, x: (x.coalesce() * T.tensor(TALL)).to_dense(),
    "dense add": lambda T, x: T.tensor(TALL) + x,
    "div": lambda T, x: (x / 3).to_dense(),
    "neg": lambda T, x: x.neg().to_dense(),
    "sum": lambda T, x: T.sparse.sum(x),
    "sum 0": lambda T, x: T.sparse.sum(x, 0).to_dense(),
    "softmax": lambda T, x: T.sparse.softmax(x, 1).to_dense(),
    "log_softmax": lambda T, x: T.sparse.log_softmax(x, 0).to_dense(),
    "csr crow": lambda T, x: x.to_sparse_csr().crow_indices(),
    "csr col": lambda T, x: x.to_sparse_csr().col_indices(),
    "csc ccol": lambda T, x: x.to_sparse_csc().ccol_indices(),
    "csc row": lambda T, x: x.to_sparse_csc().row_indices(),
    "index_select": lambda T, x: x.index_select(0, T.tensor([6, 0, 0])).to_dense(),
    "select": lambda T, x: x.coalesce()[2].to_dense(),
    "cat": lambda T, x: T.cat([x, x], 1).to_dense(),
    "relu": lambda T, x: x.coalesce().relu().to_dense(),
    "sqrt": lambda T, x: (x.coalesce() ** 2).sqrt().to_dense(),
    "sparse mm": lambda T, x: T.sparse.mm(x, x.t()).to_dense(),
    "mask": lambda T, x: T.tensor(TALL).sparse_mask(x.coalesce()).to_dense(),
    "to_sparse": lambda T, x: T.tensor(TALL).relu().to_sparse().indices(),
    "spdiags": lambda T, x: T.sparse.spdiags(T.tensor(TALL[:2]), T.tensor([-1, 2]), (5, 6)).to_dense(),
    "empty": lambda T, x: T.sparse_coo_tensor((2, 3)).to_dense(),
}


@pytest.mark.parametrize("name", ROWS)
def test_values(name):
    result, expected = (
        ROWS[name](T, T.sparse_coo_tensor(T.tensor(PLACES), T.tensor(VALUES), (7, 5))) for T in (dynograd, torch)
    )
    assert tuple(result.shape) == tuple(expected.shape)
    assert str(result.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]
    numpy.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["to_dense", "mm", "matmul", "addmm", "values", "add", "sum", "softmax"])
def test_gradients(name):
    result = []
    for T in (dynograd, torch):
        values = T.tensor(VALUES, requires_grad=True)
        y = ROWS[name](T, T.sparse_coo_tensor(T.tensor(PLACES), values, (7, 5)))
        (y * y).sum().backward()
        result.append(values.grad.numpy())
    numpy.testing.assert_allclose(*result, rtol=1e-9, atol=1e-12)


def test_printed():
    for make in (
        lambda T: T.sparse_coo_tensor(T.tensor(PLACES[:, :3]), T.tensor([1.0, 2.0, 3.0]), (7, 5)),
        lambda T: T.sparse_coo_tensor(T.tensor(PLACES), T.tensor(VALUES), (7, 5)),
        lambda T: T.tensor(TALL).float().relu().to_sparse_csr(),
    ):
        assert repr(make(dynograd)).replace("dynograd", "torch") == repr(make(torch))
