"""Index vectors that go together pair by pair, and writes: what stands in a ragged tensor afterwards."""

import pytest

import dynograd
from dynograd import ragged_tensor, tensor
from dynograd.errors import IndexRangeError, ShapeError


def space():
    """x (3, j), t (2, j, 2), d (3, j, j), im (2, 2, j, j), all of small whole numbers."""
    return {
        "x": ragged_tensor([[1.0, 2.0, 3.0], [], [4.0]]),
        "t": ragged_tensor([dynograd.arange(6.0).reshape(3, 2), dynograd.arange(6.0, 8.0).reshape(1, 2)]),
        "d": ragged_tensor([[[1.0, 2.0], [3.0]], [[4.0]], [[5.0, 6.0, 7.0]]]),
        "im": ragged_tensor([dynograd.arange(24.0).reshape(2, 3, 4), dynograd.arange(20.0).reshape(2, 2, 5)]),
        "torch": dynograd,
        "tensor": tensor,
        "ragged_tensor": ragged_tensor,
    }


PAIRS = {
    "x[[0, 2], [2, 0]]": [3, 4],
    "x[[0, 2], 0]": [1, 4],
    "x[[0, 2, 0], [-1, 0, 1]]": [3, 4, 2],
    "x[[True, False, True], [1, 0]]": [2, 4],
    "t[torch.arange(2), t.lengths() - 1]": [[4, 5], [6, 7]],  # the last element of each
    "t[torch.arange(2), t.lengths() - 1, [0, 1]]": [4, 7],
    "t[[0, 1], [2, 0], 1]": [5, 7],
    "t[[0, 1], [2, 0], :1]": [[4], [6]],
    "t[[0, 1], :, [0, 1]]": [[0, 2, 4], [7]],
    "t[[0, 1], :2, [0, 1]]": [[0, 2], [7]],
    "t[[0, 1], 0, [0, 1]]": [0, 7],
    "t[:, [0], [1]]": [[1], [7]],
    "t[:, [0, -1], [1, 0]]": [[1, 4], [7, 6]],
    "t.transpose(1, 2)[[0, 1], :, [2, 0]]": [[4, 5], [6, 7]],
    "t.transpose(1, 2)[[0, 1], [0, 1]]": [[0, 2, 4], [7]],
    "d[[0, 1, 2], [1, 0, 0]]": [[3], [4], [5, 6, 7]],
    "d[[0, 1, 2], 0, [1, 0, 2]]": [2, 4, 7],
    "d[[0, 2], [0, 0], [1, 2]]": [2, 7],
    "d[[0, 1], :, [0, 0]]": [[1, 3], [4]],
    "im[[0, 1], 0, [0, 1], [3, 4]]": [3, 9],
    "im[[0, 1], :, [0, 1]][1]": [[5, 6, 7, 8, 9], [15, 16, 17, 18, 19]],
    "d[tensor([]).long(), 0, tensor([]).long()]": [],
    "im[tensor([]).long(), 0, tensor([]).long(), 0]": [],
    "x[tensor([[0], [2]])]": [[[1, 2, 3]], [[4]]],
    "x[[[0, 2], [2, 2]]].lengths": [2, 2],
}


@pytest.mark.parametrize("text", PAIRS)
def test_pairs(text):
    assert eval(text, space()).tolist() == PAIRS[text]


WRITES = {
    "x[[0, 2], [2, 0]] = 5": [[1, 2, 5], [], [5]],
    "x[0] = tensor([7.0])": [[7, 7, 7], [], [4]],
    "x[x > 2] = tensor([8.0, 9.0])": [[1, 2, 8], [], [9]],
    "x[:, :1] = tensor([7.0, 8.0, 9.0])": [[7, 2, 3], [], [9]],
    "x[:, 1:] = ragged_tensor([[8.0, 9.0], [], []])": [[1, 8, 9], [], [4]],
    "x[[0, 2]] *= 2": [[2, 4, 6], [], [8]],
    "t[..., 1] = 0": [[[0, 0], [2, 0], [4, 0]], [[6, 0]]],
    "t[:, 0] = tensor([[1.0], [2.0]])": [[[1, 1], [2, 3], [4, 5]], [[2, 2]]],
    "t.transpose(1, 2)[:, 0, :1] = 9": [[[9, 1], [2, 3], [4, 5]], [[9, 7]]],
    "d[:, :, :1] = 0": [[[0, 2], [0]], [[0]], [[0, 6, 7]]],
    "d[..., 0] = 9": [[[9, 2], [9]], [[9]], [[9, 6, 7]]],
    "d[0, 1] = 9": [[[1, 2], [9]], [[4]], [[5, 6, 7]]],
    "d[0] = tensor([8.0])": [[[8, 8], [8]], [[4]], [[5, 6, 7]]],
    "d[d > 4] = 0": [[[1, 2], [3]], [[4]], [[0, 0, 0]]],
    "d[[1, 2], 0] = 0": [[[1, 2], [3]], [[0]], [[0, 0, 0]]],
}


@pytest.mark.parametrize("text", WRITES)
def test_writes(text):
    argument = space()
    exec(text, argument)
    assert argument[text[0]].tolist() == WRITES[text]


def test_gradients_of_writes():
    x = space()["x"].requires_grad_()
    w = tensor([2.0], requires_grad=True)
    y = x * 1
    y[0] = w
    (y * y).sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [], [8]] and w.grad.tolist() == [12]


@pytest.mark.parametrize(
    ("text", "kind", "parts"),
    [
        ("x[[0, 2], [0, 1]]", IndexRangeError, ["index 1", "position 1", "row 2", "1 elements"]),
        ("x[[0, 2, 0], [0, 0]]", ShapeError, ["pair by pair", "[(3,), (2,)]"]),
        ("x[[0, 2], None, [0, 0]]", NotImplementedError, ["in two steps"]),
        ("x.__setitem__(0, torch.ones(2))", ShapeError, ["(3)", "(2,)"]),
        ("x.__setitem__((slice(None), slice(1)), ragged_tensor([[1.0], [2.0], [3.0]]))", ShapeError, ["row 1"]),
        ("t.expand(2, -1, 5)", ShapeError, ["(5)", "(4, 2)"]),
        ("t.view(2, t.shape[1], 3)", RuntimeError, ["view", "(2, j1, 3)", "(2, j1, 2)"]),
        ("t + t[..., 0]", ShapeError, ["(2, j1, 2)", "(2, j1)", "unsqueeze"]),
        ("torch.linalg.vector_norm(x, float('inf'), 1)", IndexRangeError, ["vector_norm", "row 1 is empty"]),
        ("x.gather(0, x.long())", NotImplementedError, ["gather: dim 0", "counts its rows"]),
        ("x[[0, 0]] + torch.ones(3, 1)", ShapeError, ["shape (3, 1) has 3 rows", "(2, j1) 2"]),
        ("x.unfold(1, 1, 0)", ShapeError, ["a step above 0", "size 1 and step 0"]),
        ("x.unfold(1, -1, 1)", ShapeError, ["a size of at least 0", "size -1 and step 1"]),
        ("x.unfold(1, 1, 1)", RuntimeError, ["unfold", "row 1 has 0 elements"]),
        ("x.unfold(0, 1, 1)", RuntimeError, ["unfold", "dim 0"]),
        ("torch.ones(3).expand_as(t)", ShapeError, ["(3,)"]),
    ],
)
def test_mistakes(text, kind, parts):
    with pytest.raises(kind) as told:
        eval(text, space())
    assert not [part for part in parts if part not in str(told.value)], str(told.value)
