"""Several levels of rows: documents of sentences of words. What every op does with the lower level is in `test_any_rows.py`."""

import numpy
import pytest

import dynograd
from dynograd import ragged_tensor
from dynograd.errors import ShapeError


def documents(wants=False):
    """(3, j, j, 4): three documents, of 2, 0 and 1 sentences."""
    rng = numpy.random.default_rng(0)
    rows = [[rng.uniform(0.1, 0.9, (n, 4)) for n in lengths] for lengths in ((3, 1), (), (2,))]
    created = ragged_tensor([[dynograd.from_numpy(element) for element in row] for row in rows])
    return (created.requires_grad_() if wants else created), rows


LEVELS = {
    "x.sum(2)": lambda row: row.sum(0),
    "x.softmax(2)": lambda row: dynograd.from_numpy(row).softmax(0).numpy(),
    "x.amax(2)": lambda row: row.max(0),
    "x.cumsum(2)": lambda row: row.cumsum(0),
    "x.sort(2).values": lambda row: numpy.sort(row, 0),
    "x.flip(2)": lambda row: row[::-1],
    "x[:, :, -1]": lambda row: row[-1],
    "x[:, :, :1]": lambda row: row[:1],
    "x.sum(3)": lambda row: row.sum(1),
    "x @ torch.ones(4, 2).double()": lambda row: row @ numpy.ones((4, 2)),
    "F.layer_norm(x, (4,))": lambda row: dynograd.nn.functional.layer_norm(dynograd.from_numpy(row), (4,)).numpy(),
    "x.transpose(2, 3)": lambda row: row.T,
    "torch.cat([x, x], 3)": lambda row: numpy.concatenate([row, row], 1),
    "torch.cat([x, x], 2)": lambda row: numpy.concatenate([row, row], 0),
    "x.view(x.shape[0], x.shape[1], x.shape[2], 2, 2).flatten(3)": lambda row: row,
    "torch.dstack([x, x])": lambda row: numpy.concatenate([row, row], 0),
    "x.std(2, unbiased=False)": lambda row: row.std(0),
    "x.norm(dim=2)": lambda row: numpy.linalg.norm(row, axis=0),
    "x @ x.transpose(2, 3)": lambda row: row @ row.T,
    "torch.einsum('bijd,bikd->bijk', x, x)": lambda row: row @ row.T,
    "torch.einsum('...d,de->...e', x, torch.ones(4, 2).double())": lambda row: row @ numpy.ones((4, 2)),
    "torch.einsum('bijd,bid->bij', x, x.sum(2))": lambda row: row @ row.sum(0),
    "x - x.mean(2, keepdim=True)": lambda row: row - row.mean(0),
    "x.flatten(2)": lambda row: row.reshape(-1),
    "x.tril()": numpy.tril,
    "x.median(2).values": lambda row: numpy.sort(row, 0)[(len(row) - 1) // 2],
    "x.repeat_interleave(2, 2)": lambda row: row.repeat(2, 0),
    "x.to_padded()[:, :, :3]": lambda row: numpy.concatenate([row, numpy.zeros((3 - len(row), 4))]),
    "x + torch.arange(3.0).reshape(3, 1, 1, 1)": None,
}


@pytest.mark.parametrize("text", LEVELS)
def test_levels(text):
    x, rows = documents()
    result = eval(text, {"x": x, "torch": dynograd, "F": dynograd.nn.functional})
    for number, row in enumerate(rows):
        for place, sentence in enumerate(row):
            expected = sentence + number if LEVELS[text] is None else LEVELS[text](sentence)
            numpy.testing.assert_allclose(result[number][place].numpy(), expected, rtol=1e-9)


def test_levels_as_one():
    x, rows = documents(wants=True)
    assert repr(x.shape) == "dynograd.Size([3, j1, j2, 4])" and x.lengths.tolist() == [2, 0, 1]
    assert x.flatten(1, 2).lengths.tolist() == [4, 0, 2]
    by_document = x.sum((1, 2))
    for number, row in enumerate(rows):
        numpy.testing.assert_allclose(
            by_document[number].detach().numpy(), sum((element.sum(0) for element in row), numpy.zeros(4))
        )
    assert x.mean((1, 2), keepdim=True).shape == (3, 1, 1, 4)
    (x.softmax(2) ** 2).sum().backward()
    assert x.grad.shape == x.shape and x[[2, 0]].lengths.tolist() == [1, 2] and x[0].lengths.tolist() == [3, 1]
    assert [element.shape[0] for element in x[0]] == [3, 1]


def test_deep_levels():
    x = ragged_tensor([[[[1.0, 2.0], [3.0]], [[4.0]]], [[[5.0, 6.0, 7.0]]]])
    assert repr(x.shape) == "dynograd.Size([2, j1, j2, j3])"
    assert x.sum(3).tolist() == [[[3, 3], [4]], [[18]]] and (x * 2).sum().item() == 56
    assert x.sum((1, 2, 3)).tolist() == [10, 18]


# of documents x, an expression, and what it gives of a document, which is a list of sentences
UPPER = {
    "torch.hstack([x, x])": lambda rows: rows + rows,
    "torch.cat([x, x], 1)": lambda rows: rows + rows,
    "torch.fliplr(x)": lambda rows: rows[::-1],
    "x.flip(1)": lambda rows: rows[::-1],
    "x[:, :1]": lambda rows: rows[:1],
    "x[:, ::2]": lambda rows: rows[::2],
    "torch.hsplit(x, [1])[1]": lambda rows: rows[1:],
    "x.tensor_split(2, 1)[0]": lambda rows: rows[: -(-len(rows) // 2)],
    "x.repeat_interleave(2, 1)": lambda rows: [row for row in rows for _ in range(2)],
    "x.roll(1, 1)": lambda rows: rows[-1:] + rows[:-1],
    "x.roll(-1, 1)": lambda rows: rows[1:] + rows[:1],
    "torch.stack([x, -x], 1)[:, 1]": lambda rows: [-row for row in rows],
    "torch.cat([x, x])[3:]": lambda rows: rows,
    "x.repeat(2, 1, 1, 1)[3:]": lambda rows: rows,
    "x.repeat(1, 2, 1, 1)": lambda rows: rows + rows,
    "x.reshape(3, -1, x.shape[2], 4)": lambda rows: rows,
    "x.reshape(3, -1, 4)": lambda rows: numpy.concatenate([numpy.zeros((0, 4)), *rows]),
    "x.flatten(1, 2)": lambda rows: numpy.concatenate([numpy.zeros((0, 4)), *rows]),
    "x.sum((1, 2))": lambda rows: sum([row.sum(0) for row in rows], numpy.zeros(4)),
    "x.amax((2, 3)).sum(1)": lambda rows: sum([row.max() for row in rows], numpy.zeros(())),
    "x.sum(2).softmax(1).sum(1)": lambda rows: numpy.ones(4) * bool(rows),
    "x.mean(2).sum((1, 2))": lambda rows: sum([row.mean(0).sum() for row in rows], numpy.zeros(())),
}


@pytest.mark.parametrize("text", UPPER)
def test_upper_level(text):
    x, rows = documents()
    result = eval(text, {"x": x, "torch": dynograd})
    for number, row in enumerate(rows):
        expected, mine = UPPER[text](row), result[number]
        assert len(mine) == len(expected) if expected is not None and numpy.ndim(mine) != 0 else True
        for element, other in zip(mine, expected, strict=True) if isinstance(expected, list) else [(mine, expected)]:
            numpy.testing.assert_allclose(element.numpy(), other, rtol=1e-9)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("x.sum(1)", ["dim 1", "different lengths"]),
        ("x.sort(1)", ["dim 1", "different lengths"]),
        ("x.kthvalue(1, 1)", ["dim 1", "x.flatten(1, 2)"]),
        ("x.transpose(1, 2)", ["upper level", "(0, 2, 1, 3)"]),
        ("torch.dsplit(x, 2)", ["dim 2", "row 0 has 3 elements"]),
        (
            "torch.linalg.cross(x[..., :3], torch.ones(3, 3, 1, 3).double())",
            ["(3, 3, 1, 3)", "no levels of rows", "(3, 1, ...)"],
        ),
        ("torch.bmm(x, torch.ones(3, 4, 5).double())", ["(3, 4, 5)", "no levels of rows"]),
        ("torch.einsum('bjd->b', x)", ["'bjd'", "3 dims", "has 4"]),
    ],
)
def test_refusals(text, parts):
    with pytest.raises((NotImplementedError, ShapeError)) as told:
        eval(text, {"x": documents()[0], "torch": dynograd})
    assert not [part for part in parts if part not in str(told.value)], str(told.value)


ONES, OTHERS = [[[1.0, 2.0], [3.0]], [[4.0]]], [[[1.0], [2.0, 3.0]], [[4.0]]]


@pytest.mark.parametrize(("rows", "others"), [(ONES, OTHERS), (ONES, [ONES[1], ONES[0]]), (ONES[0], OTHERS[0])])
@pytest.mark.parametrize(
    "run",
    [
        lambda y, x, g: dynograd.autograd.grad(y, x, g)[0],
        lambda y, x, g: dynograd.autograd.grad([y.values(), y], x, [y.values() * 0, g])[0],
        lambda y, x, g: dynograd.autograd.backward([y], [g]) or x.grad,
        lambda y, x, g: y.backward(g) or x.grad,
    ],
)
def test_a_gradient_has_the_rows_of_what_it_is_the_gradient_of(rows, others, run):
    x = ragged_tensor(rows, requires_grad=True)
    with pytest.raises(ShapeError, match=r"(grad|backward): row \d has .*lengths .*Rows must have equal lengths"):
        run(x * x, x, ragged_tensor(others))
    y = x * x
    assert run(y, x, dynograd.ones_like(y)).tolist() == (x * 2).tolist()
