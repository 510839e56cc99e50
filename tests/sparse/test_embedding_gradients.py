"""Sparse gradients of embedding tables: the same numbers as dense ones, in as many entries as there are indices."""

import copy

import numpy as np
import pytest

import dynograd as dg
from dynograd.nn import functional as F
from dynograd.optim import adagrad, sparse_adam

ROWS, COLUMNS = 7, 3
INDEX = [[1, 2, 2], [4, 1, 6]]
OFFSETS = [0, 2, 2]
LOOKUPS = {
    "embedding": lambda w, **o: F.embedding(dg.tensor(INDEX), w, **o),
    "padding": lambda w, **o: F.embedding(dg.tensor(INDEX), w, padding_idx=2, **o),
    "by frequency": lambda w, **o: F.embedding(dg.tensor(INDEX), w, scale_grad_by_freq=True, **o),
    "int32": lambda w, **o: F.embedding(dg.tensor(INDEX, dtype=dg.int32), w, **o),
    "max_norm": lambda w, **o: F.embedding(dg.tensor(INDEX), w, max_norm=1.0, **o),
    "sum": lambda w, **o: F.embedding_bag(dg.tensor(INDEX), w, mode="sum", **o),
    "mean": lambda w, **o: F.embedding_bag(dg.tensor(INDEX).view(-1), w, dg.tensor(OFFSETS), mode="mean", **o),
    "max": lambda w, **o: F.embedding_bag(dg.tensor(INDEX).view(-1), w, dg.tensor(OFFSETS), mode="max", **o),
    "weighted": lambda w, **o: F.embedding_bag(
        dg.tensor(INDEX), w, mode="sum", per_sample_weights=dg.arange(6.0).view(2, 3), padding_idx=2, **o
    ),
    "nothing": lambda w, **o: F.embedding(dg.zeros(0, 2, dtype=dg.int64), w, **o),
    "scalar": lambda w, **o: F.embedding(dg.tensor(3), w, **o),
}


def table(dtype=dg.float32):
    values = np.random.default_rng(0).normal(size=(ROWS, COLUMNS))
    return dg.nn.Parameter(dg.tensor(values, dtype=dtype))


def both(look_up):
    """The leaf's gradient, sparse and dense."""
    result = []
    for sparse in (True, False):
        w = table()
        (look_up(w, sparse=sparse) ** 2).sum().backward()
        result.append(w.grad)
    return result


def same(sparse, dense):
    np.testing.assert_allclose(sparse.to_dense().detach().numpy(), dense.detach().numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", LOOKUPS)
def test_values(name):
    sparse, dense = both(LOOKUPS[name])
    assert sparse.is_sparse and sparse.layout is dg.sparse_coo and not dense.is_sparse
    assert sparse._values().shape[1:] == (COLUMNS,) and not sparse.is_coalesced()
    same(sparse, dense)


@pytest.mark.parametrize("padding", [None, 2])
def test_gradients_keep_their_rows_where_the_indices_are_overwritten(padding):
    layer = dg.nn.Embedding(ROWS, COLUMNS, padding_idx=padding, sparse=True)
    index = dg.tensor([3, 0, 1])
    layer(index).sum().backward()
    index.fill_(4)
    assert layer.weight.grad._indices().tolist() == [[3, 0, 1]]


@pytest.mark.parametrize("rows", [0, 4])
def test_tables_without_columns(rows):
    layer = dg.nn.Embedding(rows, 0, sparse=True)
    layer(dg.arange(rows)).sum().backward()
    assert layer.weight.grad.is_sparse and layer.weight.grad.shape == (rows, 0)


def test_layers_and_entries():
    layer = dg.nn.Embedding(ROWS, COLUMNS, padding_idx=0, sparse=True)
    layer(dg.tensor([3, 0, 3])).sum().backward()
    assert layer.weight.grad._indices().tolist() == [[3, 3]] and layer.weight.grad.coalesce()._values().tolist() == [
        [2.0] * 3
    ]
    bag = dg.nn.EmbeddingBag(ROWS, COLUMNS, mode="sum", sparse=True)
    bag(dg.tensor([[5, 1]])).sum().backward()
    assert sorted(bag.weight.grad._indices()[0].tolist()) == [1, 5]


@pytest.mark.parametrize("size", [1, 6000])
def test_several_uses_and_passes_add_up(size):
    """In one pass and over several; a dense use makes the gradient dense (`size` columns: the small and the large way)."""
    index = dg.tensor(INDEX)

    def uses(w, *kinds):
        return sum(
            ((F.embedding(index, w, sparse=kind) * (number + 1)) ** 2).sum() for number, kind in enumerate(kinds)
        )

    for kinds in [(True, True), (True, False), (False, True), (False, True, True, False)]:
        w = dg.ones(ROWS, size, requires_grad=True)
        expected = dg.autograd.grad(uses(w, *[False] * len(kinds)), w)[0]
        uses(w, *kinds).backward()
        assert w.grad.is_sparse == all(kinds)
        same(w.grad, expected)
        uses(w, *kinds).backward()
        uses(w, True).backward()
        same(w.grad, 2 * expected + dg.autograd.grad(uses(w, False), w)[0])
        uses(w, False).backward()
        assert not w.grad.is_sparse
        (w * 1.0).sum().backward()
        same(w.grad, 2 * expected + 2 * dg.autograd.grad(uses(w, False), w)[0] + 1)


def test_a_table_that_was_computed_gets_a_dense_gradient():
    w = table()
    F.embedding(dg.tensor(INDEX), w * 2, sparse=True).sum().backward()
    assert not w.grad.is_sparse and w.grad[2].tolist() == [4.0] * 3


def test_higher_derivatives():
    result = []
    for sparse in (True, False):
        w = table(dg.float64)
        (g,) = dg.autograd.grad((F.embedding(dg.tensor(INDEX), w, sparse=sparse) ** 3).sum(), w, create_graph=True)
        assert g.is_sparse == sparse
        ((g.to_dense() if sparse else g) ** 2).sum().backward()
        result.append(w.grad)
    same(*result)


def test_hooks_inputs_and_copies():
    w, seen = table(), []
    w.register_hook(lambda g: seen.append(g.is_sparse) or g * 2)
    w.register_post_accumulate_grad_hook(lambda one: seen.append(one.grad.is_sparse))
    F.embedding(dg.tensor([1]), w, sparse=True).sum().backward()
    assert seen == [True, True] and w.grad.to_dense()[1].tolist() == [2.0] * 3
    assert copy.deepcopy(w.grad).is_sparse and copy.deepcopy(w).grad is None
    v = table()
    with dg.autograd.detect_anomaly():
        F.embedding(dg.tensor([1]), v, sparse=True).sum().backward(inputs=[v])
    assert v.grad.is_sparse
    with pytest.raises(dg.errors.GradientError, match="second time"):
        loss = F.embedding(dg.tensor([1]), v, sparse=True).sum()
        loss.backward()
        loss.backward()


def test_other_interpreters_take_the_dense_way():
    w = table().detach()
    index = dg.tensor(INDEX)
    result = dg.func.grad(lambda w: (F.embedding(index, w, sparse=True) ** 2).sum())(w)
    same(result, 2 * dg.autograd.grad(F.embedding(index, (v := w.clone().requires_grad_())).sum(), v)[0] * w)
    assert tuple(dg.vmap(lambda i: F.embedding(i, w, sparse=True))(index).shape) == (2, 3, 3)


# --- what is done with them ----------------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "SGD": dict(lr=0.1),
    "SGD maximize": dict(lr=0.1, maximize=True),
    "SGD momentum": dict(lr=0.1, momentum=0.9, dampening=0.2),
    "SGD nesterov": dict(lr=0.1, momentum=0.9, nesterov=True),
    "Adagrad": dict(lr=0.1, lr_decay=0.1, initial_accumulator_value=0.2),
    "Adagrad maximize": dict(lr=0.1, maximize=True),
}


@pytest.mark.parametrize("columns", [COLUMNS, 200])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_dense_gradients(name, columns):
    """Untouched rows too: these updates leave rows of gradient 0 alone, or have momentum for them."""
    random = np.random.default_rng(1)
    start = random.normal(size=(ROWS, columns))
    results = []
    for sparse in (True, False):
        w, other = (dg.tensor(start, dtype=dg.float64, requires_grad=True) for _ in range(2))
        optimizer = getattr(dg.optim, name.split()[0])([w, other], **OPTIMIZERS[name])
        for step in range(6):
            optimizer.zero_grad()
            index = dg.tensor([[step % ROWS, 2], [2, 5]])
            ((F.embedding(index, w, sparse=sparse) - 1) ** 2 + other.sum()).sum().backward()
            optimizer.step()
        results += [w, other]
    for element, two in zip(results[:2], results[2:]):
        np.testing.assert_allclose(element.detach().numpy(), two.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_sparse_adam(dtype, maximize):
    """Beside plain NumPy: moments of rows without an entry stay."""
    random = np.random.default_rng(2)
    start = random.normal(size=(ROWS, COLUMNS))
    w = dg.tensor(start, dtype=getattr(dg, dtype), requires_grad=True)
    optimizer = dg.optim.SparseAdam([w], lr=0.1, betas=(0.8, 0.9), maximize=maximize)
    p, m, v = w.detach().double().numpy().copy(), np.zeros((ROWS, COLUMNS)), np.zeros((ROWS, COLUMNS))
    for step in range(1, 6):
        index = random.integers(0, ROWS, 4)
        optimizer.zero_grad()
        F.embedding(dg.tensor(index), w, sparse=True).sum().backward()
        optimizer.step()
        for row in set(index):
            g = np.full(COLUMNS, (-1.0 if maximize else 1.0) * (index == row).sum())
            m[row], v[row] = 0.8 * m[row] + 0.2 * g, 0.9 * v[row] + 0.1 * g * g
            p[row] -= 0.1 * np.sqrt(1 - 0.9**step) / (1 - 0.8**step) * m[row] / (np.sqrt(v[row]) + 1e-8)
    if dtype != "bfloat16":
        wide, narrow = (adam_of_columns(columns, dtype, maximize) for columns in (200, COLUMNS))
        np.testing.assert_allclose(wide[:, :COLUMNS], narrow, rtol=1e-5)  # in one compiled call, and by operations
    tolerance = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 0.1}[dtype]
    np.testing.assert_allclose(w.detach().double().numpy(), p, rtol=tolerance, atol=tolerance)
    assert optimizer.state_dict()["state"][0]["step"] == 5


def adam_of_columns(columns, dtype, maximize):
    """A table whose columns are alike, after some steps of SparseAdam."""
    w = dg.ones(ROWS, columns, dtype=getattr(dg, dtype), requires_grad=True)
    optimizer = dg.optim.SparseAdam([w], lr=0.1, maximize=maximize)
    for step in range(4):
        optimizer.zero_grad()
        (F.embedding(dg.tensor([1, step, 1]), w, sparse=True) ** 2).sum().backward()
        optimizer.step()
    return w.detach().numpy()


def test_sparse_and_dense_parameters_in_one_group():
    """One compiled call for the dense ones; the gradient of a parameter may change its kind from step to step."""
    for make in (lambda p: dg.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: dg.optim.Adagrad(p, lr=0.1)):
        results = []
        for kinds in ([True, False, True], [False, False, False]):
            w, *others = (dg.full((300, 4), number + 1.0, requires_grad=True) for number in range(4))
            optimizer = make([w, *others])
            for sparse in kinds:
                optimizer.zero_grad()
                loss = (F.embedding(dg.tensor(INDEX), w, sparse=sparse) ** 2).sum()
                (loss + sum((other**2).sum() for other in others)).backward()
                optimizer.step()
            results.append([each.detach().numpy() for each in (w, *others)])
        for element, two in zip(*results):
            np.testing.assert_allclose(element, two, rtol=1e-6)


def test_several_sparse_dims_and_layouts():
    """Gradients that a user sets: elements instead of rows; and a parameter that is not in row-major order."""
    for make in (lambda p: dg.optim.SGD(p, lr=0.5), lambda p: dg.optim.Adagrad(p, lr=0.5)):
        for w in (dg.ones(3, 4, requires_grad=True), dg.ones(4, 3).t().detach().requires_grad_()):
            optimizer = make([w])
            g = dg.sparse_coo_tensor([[0, 2, 0], [1, 3, 1]], [1.0, 2.0, 1.0], (3, 4))
            w.grad = g if w.is_contiguous() else dg.sparse_coo_tensor([[0, 2]], g.to_dense()[[0, 2]], (3, 4))
            optimizer.step()
            changed = (w.detach() != 1).nonzero().tolist()
            assert changed == [[0, 1], [2, 3]]


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "RMSprop", "Rprop", "ASGD", "Adafactor", "Muon"])  # fmt: skip
@pytest.mark.parametrize("rows", [ROWS, 500])
def test_optimizers_that_refuse_them_say_so_before_anything_is_written(name, rows):
    w, other = dg.ones(rows, COLUMNS, requires_grad=True), dg.ones(rows, COLUMNS, requires_grad=True)
    optimizer = getattr(dg.optim, name)([w, other])
    (F.embedding(dg.tensor([1, 1]), w, sparse=True).sum() + other.sum()).backward()
    with pytest.raises(
        RuntimeError, match=rf"{name} does not support sparse gradients.*\({rows}, 3\).*2 entries.*sparse=False"
    ):
        optimizer.step()
    assert (w == 1).all() and (other == 1).all()


def test_options_that_touch_all_rows_are_refused():
    for name, options, words in [
        ("SGD", dict(weight_decay=0.1), "weight_decay=0.1.*weight_decay=0, or"),
        ("Adagrad", dict(weight_decay=0.1), "weight_decay=0.1"),
        ("SGD", dict(differentiable=True), "differentiable=True does not take sparse"),
    ]:
        w = table()
        optimizer = getattr(dg.optim, name)([w], **options)
        F.embedding(dg.tensor([1]), w, sparse=True).sum().backward()
        with pytest.raises(RuntimeError, match=words):
            optimizer.step()
    w = table()
    w.sum().backward()
    with pytest.raises(RuntimeError, match=r"SparseAdam does not support dense gradients.*\(7, 3\)"):
        dg.optim.SparseAdam([w]).step()


def test_clipping():
    for norm_type in (2.0, 1.0, float("inf")):
        result = []
        for sparse in (True, False):
            w = table()
            (F.embedding(dg.tensor(INDEX), w, sparse=sparse) ** 2).sum().backward()
            norm = dg.nn.utils.clip_grad_norm_([w], 0.5, norm_type)
            assert dg.nn.utils.get_total_norm([w.grad], norm_type).item() == pytest.approx(0.5, rel=1e-5)
            result += [norm.item(), w.grad]
        assert result[0] == pytest.approx(result[2], rel=1e-6)
        same(result[1], result[3])
    w = table()
    F.embedding(dg.tensor(INDEX), w, sparse=True).sum().backward()
    dg.nn.utils.clip_grad_value_([w], 1.5)
    assert w.grad.to_dense()[:, 0].tolist() == [0.0, 1.5, 1.5, 0.0, 1.0, 0.0, 1.0]
    w.grad._values()[0] = float("nan")
    with pytest.raises(RuntimeError, match="non-finite"):
        dg.nn.utils.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)


def test_zero_grad_scaler_and_lbfgs():
    w = table()
    optimizer = dg.optim.SGD([w], lr=1.0)
    F.embedding(dg.tensor(INDEX), w, sparse=True).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert w.grad.is_sparse and w.grad._nnz() == 0
    w.grad = None
    scaler = dg.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(F.embedding(dg.tensor([1]), w, sparse=True).sum()).backward()
    scaler.unscale_(optimizer)
    assert w.grad.to_dense()[1].tolist() == [1.0] * 3
    before = w.detach().clone()
    scaler.step(optimizer)
    assert (before - w.detach())[1].tolist() == pytest.approx([1.0] * 3)
    w = dg.tensor([[3.0], [1.0]], requires_grad=True)
    search = dg.optim.LBFGS([w], line_search_fn="strong_wolfe")

    def closure():
        search.zero_grad()
        loss = (F.embedding(dg.tensor([0]), w, sparse=True) ** 2).sum()
        loss.backward()
        return loss

    search.step(closure)
    assert w[0].item() == pytest.approx(0, abs=1e-4) and w[1].item() == 1.0


def test_states_with_sparse_momentum_are_saved_and_loaded():
    w = table()
    optimizer = dg.optim.SGD([w], lr=0.1, momentum=0.9)
    F.embedding(dg.tensor(INDEX), w, sparse=True).sum().backward()
    optimizer.step()
    other = dg.optim.SGD([w], lr=0.1, momentum=0.9)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert other.state[w]["momentum_buffer"].is_sparse
    w.grad = dg.ones(ROWS, COLUMNS)
    other.step()
    assert not other.state[w]["momentum_buffer"].is_sparse


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize(
    "make, module",
    [
        (lambda p, **options: dg.optim.SparseAdam(p, lr=0.1, **options), sparse_adam),
        (lambda p, **options: dg.optim.Adagrad(p, lr=0.1, lr_decay=0.3, **options), adagrad),
    ],
    ids=["SparseAdam", "Adagrad"],
)
def test_rows_are_updated_by_operations_as_by_the_kernel(make, module, maximize, monkeypatch):
    """Operations are what arrays of a GPU are updated by."""

    def trained():
        dg.manual_seed(0)
        table = dg.nn.Embedding(6, 3, sparse=True, dtype=dg.float64)
        optimizer = make(table.parameters(), maximize=maximize)
        for step in range(4):
            optimizer.zero_grad()
            (table(dg.tensor([step, 2, 5, 2])) ** 3).sum().backward()
            optimizer.step()
        state = optimizer.state[table.weight]
        return [table.weight.detach().numpy()] + [state[name].numpy() for name in state if name != "step"]

    by_kernel = trained()
    monkeypatch.setattr(module, "step_compiled", lambda *arguments: False)
    for result, expected in zip(trained(), by_kernel, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_adagrad_of_sparse_gradients_is_that_of_dense_ones():
    tables = []
    for sparse in (False, True):
        dg.manual_seed(0)
        table = dg.nn.Embedding(6, 3, sparse=sparse, dtype=dg.float64)
        optimizer = dg.optim.Adagrad(table.parameters(), lr=0.5, lr_decay=0.3)
        for step in range(4):
            optimizer.zero_grad()
            (table(dg.tensor([step, 2, 5, 2])) ** 3).sum().backward()
            optimizer.step()
        tables.append(table.weight.detach().numpy())
    np.testing.assert_allclose(*tables, rtol=1e-12)
