"""Sparse tensors: what they are made of, ops on them, gradients of their entries; references are dense NumPy arrays."""

import copy
import pickle

import numpy
import pytest

import dynograd
from dynograd import sparse
from dynograd.autograd import gradcheck, gradgradcheck

PLACES = numpy.array([[0, 2, 2, 0, 3], [1, 0, 2, 1, 2]])  # one place twice
VALUES = numpy.array([1.5, -2.0, 3.0, 0.25, 4.0])
DENSE = numpy.zeros((4, 3))
numpy.add.at(DENSE, tuple(PLACES), VALUES)
LAYOUTS = ["sparse_coo", "sparse_csr", "sparse_csc"]


def coo(requires_grad=False, values=VALUES):
    return dynograd.sparse_coo_tensor(PLACES, dynograd.tensor(values), (4, 3), requires_grad=requires_grad)


def in_layout(form, requires_grad=False):
    created = coo().to_sparse(layout=getattr(dynograd, form))
    return created.requires_grad_(requires_grad)


def same(result, wanted, tolerance=1e-12):
    if isinstance(result, sparse.SparseTensor):
        assert tuple(result.shape) == numpy.shape(wanted)
        result = result.to_dense()
    numpy.testing.assert_allclose(result.detach().numpy(), wanted, rtol=tolerance, atol=tolerance)


OTHER = numpy.random.default_rng(0).normal(size=(4, 3)) * (numpy.arange(12).reshape(4, 3) % 2)
WIDE = numpy.random.default_rng(1).normal(size=(3, 5))


def other(form):
    return dynograd.tensor(OTHER).to_sparse(layout=getattr(dynograd, form))


ON_ONE = {
    "to_dense": (lambda x: x, DENSE),
    "t": (lambda x: x.t(), DENSE.T),
    "transpose": (lambda x: x.transpose(-1, 0), DENSE.T),
    "neg": (lambda x: -x, -DENSE),
    "times number": (lambda x: 2.5 * x, 2.5 * DENSE),
    "by number": (lambda x: x / 4, DENSE / 4),
    "times dense": (lambda x: x * dynograd.arange(3.0).double(), DENSE * numpy.arange(3)),
    "by dense": (lambda x: x / dynograd.full((4, 1), 2.0).double(), DENSE / 2),
    "relu": (lambda x: dynograd.relu(x), numpy.maximum(DENSE, 0)),
    "sin": (lambda x: x.sin(), numpy.sin(DENSE)),
    "power": (lambda x: x**2, DENSE**2),
    "matmul": (lambda x: x @ dynograd.tensor(WIDE), DENSE @ WIDE),
    "linear": (
        lambda x: dynograd.nn.functional.linear(x, dynograd.tensor(WIDE.T.copy()), dynograd.ones(5).double()),
        1 + DENSE @ WIDE,
    ),
    "mm": (lambda x: dynograd.mm(x, dynograd.tensor(WIDE)), DENSE @ WIDE),
    "spmm": (lambda x: dynograd.spmm(x, dynograd.tensor(WIDE)), DENSE @ WIDE),
    "mv": (lambda x: x.mv(dynograd.tensor(WIDE[:, 0])), DENSE @ WIDE[:, 0]),
    "addmm": (lambda x: dynograd.addmm(dynograd.ones(5).double(), x, dynograd.tensor(WIDE)), 1 + DENSE @ WIDE),
    "sparse.addmm": (
        lambda x: sparse.addmm(dynograd.ones(4, 5).double(), x, dynograd.tensor(WIDE), beta=2, alpha=0.5),
        2 + DENSE @ WIDE / 2,
    ),
    "dense @ sparse": (lambda x: dynograd.tensor(WIDE.T[:, :3]) @ x.t(), WIDE.T @ DENSE.T),
    "vector @ sparse": (lambda x: dynograd.tensor(OTHER[:, 0]) @ x, OTHER[:, 0] @ DENSE),
    "sum": (lambda x: x.sum(), DENSE.sum()),
    "sum of rows": (lambda x: sparse.sum(x, 1), DENSE.sum(1)),
    "sum of all dims": (lambda x: sparse.sum(x, (0, 1)), DENSE.sum()),
    "dense + sparse": (lambda x: dynograd.tensor(OTHER) + x, OTHER + DENSE),
    "sparse - dense": (lambda x: x - dynograd.tensor(OTHER), DENSE - OTHER),
    "index_select": (lambda x: x.index_select(0, dynograd.tensor([3, 0, 3])), DENSE[[3, 0, 3]]),
    "index_select columns": (lambda x: x.index_select(-1, dynograd.tensor([2, 2])), DENSE[:, [2, 2]]),
    "row": (lambda x: x[2], DENSE[2]),
    "element": (lambda x: x[0, 1], DENSE[0, 1]),
    "cat": (lambda x: dynograd.cat([x, x], 0), numpy.concatenate([DENSE, DENSE])),
    "cat columns": (lambda x: dynograd.cat([x, x], 1), numpy.concatenate([DENSE, DENSE], 1)),
    "clone": (lambda x: x.clone(), DENSE),
    "float": (lambda x: x.float(), DENSE),
    "coo": (lambda x: x.to_sparse_coo(), DENSE),
    "csr": (lambda x: x.to_sparse_csr(), DENSE),
    "csc": (lambda x: x.to_sparse_csc(), DENSE),
    "mean of rows": (
        lambda x: sparse.mm(x, dynograd.tensor(WIDE), "mean"),
        numpy.stack(
            [DENSE[0, 1] * WIDE[1], 0 * WIDE[0], (DENSE[2, 0] * WIDE[0] + DENSE[2, 2] * WIDE[2]) / 2, 4 * WIDE[2]]
        ),
    ),
    "largest of rows": (
        lambda x: sparse.mm(x, dynograd.tensor(WIDE), "amax"),
        numpy.stack([DENSE[0, 1] * WIDE[1], 0 * WIDE[0], numpy.maximum(-2 * WIDE[0], 3 * WIDE[2]), 4 * WIDE[2]]),
    ),
    "least of rows": (
        lambda x: sparse.mm(x, dynograd.tensor(WIDE), "min"),
        numpy.stack([DENSE[0, 1] * WIDE[1], 0 * WIDE[0], numpy.minimum(-2 * WIDE[0], 3 * WIDE[2]), 4 * WIDE[2]]),
    ),
}


@pytest.mark.parametrize("form", LAYOUTS)
@pytest.mark.parametrize("name", ON_ONE)
def test_on_one(name, form):
    function, expected = ON_ONE[name]
    same(function(in_layout(form)), expected, 1e-6 if name == "float" else 1e-12)


ON_TWO = {
    "add": (lambda x, y: x + y, DENSE + OTHER),
    "sub": (lambda x, y: x - y, DENSE - OTHER),
    "mul": (lambda x, y: x * y, DENSE * OTHER),
    "matmul": (lambda x, y: x @ y.t(), DENSE @ OTHER.T),
}


@pytest.mark.parametrize("form", LAYOUTS)
@pytest.mark.parametrize("name", ON_TWO)
def test_on_two(name, form):
    function, expected = ON_TWO[name]
    result = function(in_layout(form), other(form))
    assert isinstance(result, sparse.SparseTensor)
    same(result, expected)


@pytest.mark.parametrize("form", LAYOUTS)
@pytest.mark.parametrize("name", [name for name in ON_ONE if name not in ("float", "largest of rows")])
def test_gradients_of_entries(name, form):
    function = ON_ONE[name][0]
    base = in_layout(form)

    def dense_result(entries):
        result = function(base.with_entries(entries))
        return result.to_dense() if isinstance(result, sparse.SparseTensor) else result

    entries = base.entries.clone().requires_grad_()
    assert gradcheck(dense_result, (entries,))
    assert gradgradcheck(dense_result, (entries,))


@pytest.mark.parametrize("form", LAYOUTS)
def test_gradients_of_both_factors(form):
    base = in_layout(form)

    def product(entries, dense):
        return base.with_entries(entries) @ dense

    inputs = (base.entries.clone().requires_grad_(), dynograd.tensor(WIDE).requires_grad_())
    assert gradcheck(product, inputs) and gradgradcheck(product, inputs)


def test_leaves_have_sparse_gradients():
    x = coo(requires_grad=True)
    assert x.is_leaf and x.requires_grad
    (x @ dynograd.tensor(WIDE)).sum().backward()
    assert x.grad.layout is dynograd.sparse_coo and x.grad.shape == x.shape
    rows = WIDE.sum(1)
    numpy.testing.assert_allclose(x.grad._values().numpy(), rows[PLACES[1]])


def test_the_users_values_stay_as_they_are():
    values = dynograd.tensor(VALUES)
    created = dynograd.sparse_coo_tensor(PLACES, values, (4, 3), requires_grad=True)
    assert created.requires_grad and not values.requires_grad


def test_gradients_reach_values_and_dense_tensors():
    values = dynograd.tensor(VALUES, requires_grad=True)
    dynograd.sparse_coo_tensor(PLACES, values, (4, 3)).to_dense().pow(2).sum().backward()
    numpy.testing.assert_allclose(values.grad.numpy(), 2 * DENSE[tuple(PLACES)])
    dense = dynograd.tensor(DENSE, requires_grad=True)
    (dense.to_sparse() * 3).coalesce().values().sum().backward()
    numpy.testing.assert_array_equal(dense.grad.numpy(), 3.0 * (DENSE != 0))


def test_hybrid_tensors_have_whole_dims():
    rows = dynograd.tensor(numpy.arange(6.0).reshape(3, 2))
    x = dynograd.sparse_coo_tensor([[3, 0, 3]], rows, (5, 2))
    expected = numpy.zeros((5, 2))
    numpy.add.at(expected, [3, 0, 3], rows.numpy())
    assert (x.sparse_dim(), x.dense_dim(), x._nnz()) == (1, 1, 3)
    same(x, expected)
    same(x.coalesce(), expected)
    same(sparse.sum(x, 1), expected.sum(1))
    same(sparse.sum(x, 0), expected.sum(0))
    same(dynograd.tensor(expected).to_sparse(1), expected)
    assert dynograd.tensor(expected).to_sparse(1)._nnz() == 2
    same(x[3], expected[3])


def test_softmax_counts_entries_alone():
    x = coo()
    shifted = numpy.where(DENSE != 0, DENSE, -numpy.inf)
    with numpy.errstate(invalid="ignore"):
        powers = numpy.nan_to_num(numpy.exp(shifted - shifted.max(1, keepdims=True)))
    expected = powers / numpy.maximum(powers.sum(1, keepdims=True), 1e-300)
    same(sparse.softmax(x, 1), expected)
    same(sparse.log_softmax(x, 1), numpy.where(DENSE != 0, numpy.log(numpy.where(expected > 0, expected, 1)), 0))


def test_sampled_products():
    element, two = numpy.random.default_rng(2).normal(size=(2, 4, 3))
    x = in_layout("sparse_csr")
    result = sparse.sampled_addmm(x, dynograd.tensor(element), dynograd.tensor(two[:3]), beta=0.5, alpha=2.0)
    same(result, numpy.where(DENSE != 0, DENSE * 0.5 + 2 * element @ two[:3], 0))


def test_masks_and_diagonals():
    same(dynograd.tensor(OTHER).sparse_mask(coo()), numpy.where(DENSE != 0, OTHER, 0))
    same(other("sparse_coo").sparse_mask(coo()), numpy.where(DENSE != 0, OTHER, 0))
    result = sparse.spdiags(dynograd.tensor([[1.0, 2, 3], [4, 5, 6]]), dynograd.tensor([0, -1]), (3, 3))
    same(result, numpy.array([[1.0, 0, 0], [4, 2, 0], [0, 5, 3]]))


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.mT,
        lambda x: x.mH,
        lambda x: x.adjoint(),
        lambda x: x.transpose(-1, -2),
        lambda x: x.swapaxes(0, 2),
        lambda x: x.movedim(0, -1),
        lambda x: dynograd.permute(x, (2, 0, 1)),
    ],
)
@pytest.mark.parametrize("dtype", [dynograd.float32, dynograd.complex64])
def test_batches_of_matrices_are_turned(change, dtype):
    whole = dynograd.arange(24.0).reshape(2, 4, 3).sub(7).relu().to(dtype) * (
        1 if dtype is dynograd.float32 else 1 + 2j
    )
    turned, expected = change(whole.to_sparse()), change(whole)
    assert turned.shape == expected.shape and dynograd.equal(turned.to_dense(), expected)


def test_a_batch_of_matrices_times_dense_ones():
    whole, dense = (dynograd.randn(2, 4, 3) > 0).float(), dynograd.randn(2, 3, 5)
    left, right = whole.clone().to_sparse().requires_grad_(), dense.clone().requires_grad_()
    for product in (dynograd.bmm(left, right), left @ right):
        assert dynograd.allclose(product, whole @ dense)
    (left @ right).square().sum().backward()
    assert dynograd.allclose(right.grad, 2 * whole.mT @ (whole @ dense))


def test_written_in_place():
    x = coo()
    x.mul_(2).add_(other("sparse_coo"))
    same(x, 2 * DENSE + OTHER)
    assert x.zero_()._nnz() == 0
    same(x, 0 * DENSE)


def test_parts():
    x = coo()
    assert not x.is_coalesced() and x.is_sparse and not x.is_sparse_csr and x._nnz() == 5
    whole = x.coalesce()
    assert whole.is_coalesced() and whole.coalesce() is whole
    assert whole.indices().tolist() == [[0, 2, 2, 3], [1, 0, 2, 2]]
    assert whole.values().tolist() == [1.75, -2.0, 3.0, 4.0]
    csr = x.to_sparse_csr()
    assert csr.crow_indices().tolist() == [0, 1, 1, 3, 4] and csr.col_indices().tolist() == [1, 0, 2, 2]
    csc = x.to_sparse_csc()
    assert csc.ccol_indices().tolist() == [0, 1, 2, 4] and csc.row_indices().tolist() == [2, 0, 2, 3]
    assert x.size() == (4, 3) and x.numel() == 12 and x.dim() == 2 and len(x) == 4 and x.dtype is dynograd.float64


def test_copies():
    for form in LAYOUTS:
        x = in_layout(form)
        for created in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
            assert created.layout is x.layout
            same(created, DENSE)


def test_printed():
    assert repr(coo().coalesce().float()) == (
        "tensor(indices=tensor([[0, 2, 2, 3],\n"
        "                       [1, 0, 2, 2]]),\n"
        "       values=tensor([ 1.7500, -2.0000,  3.0000,  4.0000]),\n"
        "       size=(4, 3), nnz=4, layout=dynograd.sparse_coo)"
    )


def test_old_names():
    x = sparse.FloatTensor(dynograd.tensor(PLACES), dynograd.tensor(VALUES), dynograd.Size([4, 3]))
    assert x.dtype is dynograd.float32
    same(x, DENSE, 1e-6)


@pytest.mark.parametrize("form", LAYOUTS)
def test_nothing_in_it(form):
    x = dynograd.zeros(3, 2).to_sparse(layout=getattr(dynograd, form))
    assert x._nnz() == 0
    same(x, numpy.zeros((3, 2)))
    same(x @ dynograd.ones(2, 4), numpy.zeros((3, 4)))
    same(x + x, numpy.zeros((3, 2)))
    same(x @ x.t(), numpy.zeros((3, 3)))


def test_empty_by_size():
    same(dynograd.sparse_coo_tensor((2, 3)), numpy.zeros((2, 3)))
    assert tuple(dynograd.sparse_coo_tensor([[0, 4]], [1.0, 2.0]).shape) == (5,)


make = dynograd.sparse_coo_tensor
csr = dynograd.sparse_csr_tensor
ERRORS = [
    (lambda: make([[0, 5]], [1.0, 2.0], (3,)), IndexError, "dim 0, size is 3 but found index 5"),
    (lambda: make([[0, -1]], [1.0, 2.0], (3,)), IndexError, "negative index -1"),
    (lambda: make([[0, 1]], [1.0], (3,)), ValueError, r"indices of shape \(1, 2\) have 2.*\(1,\) have 1"),
    (lambda: make([0, 1], [1.0, 2.0], (3,)), ValueError, r"indices must be a matrix.*\(2,\)"),
    (lambda: make([[0, 1]], [1.0, 2.0], (3, 4)), ValueError, r"sparse_dim \(1\) \+ dense_dim \(0\).*\(3, 4\)"),
    (lambda: make([[0.5]], [1.0], (3,)), TypeError, "indices must be integers, got dynograd.float32"),
    (lambda: make([[0]], [1.0], (-3,)), ValueError, "sizes cannot be negative"),
    (lambda: csr([0, 2, 1], [0, 1], [1.0, 2.0], (2, 2)), ValueError, "never fall"),
    (lambda: csr([0, 1], [3], [1.0], (1, 2)), IndexError, "size is 2 but found index 3"),
    (lambda: csr([0, 1], [0], [1.0], (2, 2)), ValueError, r"2 compressed indices do not fit size \(2, 2\)"),
    (lambda: csr([0, 1], [0], [1.0, 2.0], (1, 2)), ValueError, "1 plain indices do not fit 2 values"),
    (lambda: dynograd.ones(2, 2).to_sparse(layout="sparse_bsr"), ValueError, "sparse_bsr is none of.*use sparse_csr"),
    (lambda: make([[0]] * 3, [1.0], (2, 2, 2)).t(), RuntimeError, r"t\(\) expects.*got 3 sparse and 0 dense.*Use mT"),
    (lambda: make([[0]], [1.0], (2,)).mT, RuntimeError, "batches of matrices. Got 1-D"),
    (
        lambda: dynograd.bmm(make([[0]] * 3, [1.0], (2, 3, 4)), dynograd.ones(2, 3, 5)),
        RuntimeError,
        r"\(2, 4, M\).*got \(2, 3, 5\)",
    ),
    (lambda: coo().exp(), TypeError, "exp: a sparse tensor has no memory.*to_dense"),
    (lambda: coo().view(12), TypeError, "view: a sparse tensor"),
    (lambda: coo().numpy(), TypeError, r"numpy\(\): a sparse tensor"),
    (lambda: coo() + 1, TypeError, "add of a number to a sparse tensor"),
    (lambda: coo() / coo(), TypeError, "div by a sparse tensor"),
    (lambda: coo() @ dynograd.ones(4, 2).double(), ValueError, r"cannot be multiplied \(4x3 and 4x2\)"),
    (
        lambda: dynograd.nn.functional.linear(dynograd.ones(2, 3).double(), coo()),
        TypeError,
        "linear: its weight or bias: a sparse",
    ),
    (lambda: coo() @ dynograd.ones(3, 2), TypeError, "same dtype, got float64 and float32"),
    (lambda: coo() + make([[0]], [1.0], (5,)), ValueError, r"shapes \(4, 3\) and \(5,\)"),
    (lambda: coo().indices(), RuntimeError, "uncoalesced tensor, please call .coalesce"),
    (lambda: coo().crow_indices(), RuntimeError, "expected a tensor of layout dynograd.sparse_csr"),
    (lambda: coo().stride(), RuntimeError, "do not have strides"),
    (lambda: coo()[1:3], TypeError, "indexing with anything but integers"),
    (lambda: coo()[9], IndexError, "index 9 is out of range for dim 0 of size 4"),
    (
        lambda: sparse.mm(coo(), dynograd.ones(3, 2).double(), "prod"),
        ValueError,
        "one of sum, mean, amax, amin, got 'prod'",
    ),
    (lambda: sparse.sum(dynograd.ones(2)), TypeError, "expected a sparse tensor, got Tensor"),
    (lambda: dynograd.ones(4, 3).sparse_mask(dynograd.ones(4, 3)), TypeError, "mask is a sparse tensor, got Tensor"),
]


@pytest.mark.parametrize(("function", "kind", "words"), ERRORS, ids=range(len(ERRORS)))
def test_errors(function, kind, words):
    with pytest.raises(kind, match=words):
        function()


def test_a_product_looks_at_the_places_once(monkeypatch):
    x = coo()
    dense = dynograd.tensor(WIDE)
    same(x @ dense, DENSE @ WIDE)
    monkeypatch.setattr(sparse.tensor.coordinates, "starts_of", None)
    monkeypatch.setattr(sparse.tensor.coordinates, "coalesced", None)
    same(x @ dense, DENSE @ WIDE)
    monkeypatch.undo()
    same(x.mul_(2) @ dense, 2 * DENSE @ WIDE)


def test_checks_of_places_are_switched_in_blocks_and_functions():
    @sparse.check_sparse_tensor_invariants(enable=False)
    def values():
        with sparse.check_sparse_tensor_invariants():
            return dynograd.sparse_coo_tensor([[0, 1]], [2.0, 3.0], (2,)).to_dense().tolist()

    assert values() == [2.0, 3.0] == values()


@pytest.mark.parametrize("value, count", [(3.0, 1), (0.0, 0)])
def test_a_tensor_without_dims_as_a_sparse_one(value, count):
    x = dynograd.tensor(value, requires_grad=True)
    sparse = x.to_sparse()
    assert sparse.sparse_dim() == 0 and sparse._nnz() == count and tuple(sparse.shape) == ()
    assert sparse.coalesce().indices().shape == (0, count)
    assert sparse.to_dense().item() == value
    (sparse.to_dense() * 2).backward()
    assert x.grad.item() == 2 * count
    with pytest.raises(RuntimeError, match=r"sparse_dim must be 0 to 0 for shape \(\), got 1"):
        x.to_sparse(1)


def _entries_twice():
    return dynograd.tensor([[0.0, 2.0], [-3.0, 0.0]]).to_sparse()


@pytest.mark.parametrize(
    "name", ["sqrt", "sin", "tanh", "relu", "sign", "ceil", "expm1", "asinh", "erf", "abs", "neg", "square"]
)
@pytest.mark.parametrize("layout", [dynograd.sparse_coo, dynograd.sparse_csr])
def test_in_place_ops(name, layout):
    x = _entries_twice().to_sparse(layout=layout)
    expected = getattr(x, name)().to_dense()
    assert getattr(x, f"{name}_")() is x
    assert x.layout is layout
    numpy.testing.assert_array_equal(x.to_dense().numpy(), expected.numpy())


def test_in_place_operators_copies_and_their_errors():
    x = _entries_twice()
    x *= 2
    x += _entries_twice()
    x /= 3
    assert x.to_dense().tolist() == [[0, 2], [-3, 0]]
    other = _entries_twice()
    x.copy_(other)
    other._values().mul_(5)
    assert x.to_dense().tolist() == [[0, 2], [-3, 0]]
    with pytest.raises(RuntimeError, match="div_: result type dynograd.float32 can't be cast.*dynograd.int64"):
        x.long().div_(2)
    with pytest.raises(RuntimeError, match=r"add_: output with shape \(2, 2\)|add.*shape"):
        x.add_(dynograd.ones(3, 3).to_sparse())
    with pytest.raises(RuntimeError, match="mul_: a leaf Variable that requires grad"):
        x.requires_grad_().mul_(2)
    leaf = dynograd.tensor([[0.0, 2.0]], requires_grad=True)
    y = leaf.to_sparse() * 3
    y *= 2
    y.to_dense().sum().backward()
    assert leaf.grad.tolist() == [[0, 6]]


def test_abs_of_complex_entries():
    x = dynograd.sparse_coo_tensor([[0, 0, 1]], dynograd.tensor([3 + 0j, 4j, -2 + 0j]), (3,))
    assert x.abs().to_dense().tolist() == [5, 2, 0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.permute(dims=(1, 0)),
        lambda x: dynograd.permute(x, (1, 0)),
        lambda x: dynograd.transpose(x, 0, 1),
        lambda x: x // 2,
        lambda x: dynograd.div(x, 2, rounding_mode="floor"),
        lambda x: dynograd.div(x, 2, rounding_mode="trunc"),
        lambda x: x.floor_divide_(2),
        lambda x: x.norm(),
        lambda x: dynograd.norm(x, 1),
        lambda x: dynograd.norm(x, 0),
        lambda x: dynograd.linalg.vector_norm(x, float("inf"), keepdim=True),
    ],
)
def test_what_is_the_same_as_of_the_dense_tensor(call):
    dense = dynograd.tensor([[0.0, 5.0, 0.0], [-3.0, 0.0, 1.0]])
    twice = dynograd.sparse_coo_tensor([[0, 0, 1, 1], [1, 1, 0, 2]], dynograd.tensor([2.5, 2.5, -3.0, 1.0]), (2, 3))
    for entries in (dense.to_sparse(), twice):
        result, expected = call(entries), call(dense.clone())
        result = result.to_dense() if result.is_sparse else result
        numpy.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-6)


SEEDS = {
    "dense": lambda g, layout: g,
    "the same places": lambda g, layout: g.sparse_mask(dynograd.tensor(MATRIX).to_sparse()).to_sparse(layout=layout),
    "other places": lambda g, layout: g.tril().to_sparse(layout=layout),
    "no places": lambda g, layout: (g * 0).to_sparse(layout=layout),
}
MATRIX = [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]


@pytest.mark.parametrize("layout", [dynograd.sparse_coo, dynograd.sparse_csr, dynograd.sparse_csc])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("way", ["backward", "grad", "grad of the dense one", "autograd.backward"])
def test_gradients_come_from_the_places_of_the_entries(layout, seed, way):
    """Whatever tensor of the shape begins the pass: an entry gets what that has at its place."""
    dense = dynograd.tensor(MATRIX, requires_grad=True)
    g = dynograd.arange(10.0, 16.0).reshape(2, 3)
    start = SEEDS[seed](g, layout)
    x = dense.to_sparse(layout=layout)
    x = x if way == "grad of the dense one" else x.detach().requires_grad_()
    y = x * 2
    if way == "backward":
        y.backward(start)
    elif way == "autograd.backward":
        dynograd.autograd.backward([y], [start])
    else:
        (slope,) = dynograd.autograd.grad(y, dense if way == "grad of the dense one" else x, start)
    slope = slope if way.startswith("grad") else x.grad
    assert slope.layout == (dynograd.strided if way == "grad of the dense one" else layout)
    expected = 2 * (start if seed == "dense" else start.to_dense()) * (dense.detach() != 0)
    assert slope.to_dense().tolist() == expected.tolist()


def test_a_gradient_of_an_entry_that_stands_twice_is_that_of_its_place():
    x = dynograd.sparse_coo_tensor([[0, 1, 0], [1, 0, 1]], [1.0, 2.0, 3.0], (2, 2)).requires_grad_()
    (x * 2).backward(dynograd.tensor([[1.0, 10.0], [100.0, 1000.0]]))
    assert x.grad._values().tolist() == [20.0, 200.0, 20.0]


@pytest.mark.parametrize("seed", [dynograd.ones(3), dynograd.ones(3, 2), dynograd.ones(3, 2).to_sparse(), 1.0])
def test_gradients_of_another_shape_are_refused(seed):
    x = dynograd.tensor(MATRIX).to_sparse().requires_grad_()
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: the gradient has .* and the output \(2, 3\)"):
        (x * 2).backward(seed)


LIKES = {
    "zeros_like": (0.0, dynograd.zeros_like),
    "ones_like": (1.0, dynograd.ones_like),
    "full_like": (7.0, lambda x, **options: dynograd.full_like(x, 7, **options)),
    "empty_like": (None, dynograd.empty_like),
    "rand_like": (None, dynograd.rand_like),
    "randn_like": (None, dynograd.randn_like),
}


@pytest.mark.parametrize("layout", [dynograd.sparse_coo, dynograd.sparse_csr, dynograd.sparse_csc])
@pytest.mark.parametrize("name", LIKES)
def test_what_is_made_like_a_sparse_tensor_is_sparse(layout, name):
    number, make = LIKES[name]
    x = dynograd.tensor(MATRIX).to_sparse(layout=layout)
    assert make(x, layout=dynograd.strided).layout == dynograd.strided and make(x, layout=dynograd.strided).shape == (
        2,
        3,
    )
    if layout == dynograd.sparse_coo and name not in ("zeros_like", "empty_like"):
        with pytest.raises(NotImplementedError, match=f"{name}: .*no entry are zeros.*layout=dynograd.strided"):
            make(x)
        return
    result = make(x, dtype=dynograd.float64, requires_grad=True)
    assert result.layout == layout and result.shape == (2, 3)
    assert result.dtype is dynograd.float64 and result.requires_grad and not x.requires_grad
    if layout == dynograd.sparse_coo:
        assert result._nnz() == 0 and result.is_coalesced()
    elif number is not None:
        assert result.to_dense().tolist() == [[number, 0.0, number], [0.0, number, 0.0]]
